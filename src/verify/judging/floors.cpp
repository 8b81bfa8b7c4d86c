#include "verify/judging/floors.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "base/error.h"
#include "base/hash.h"
#include "base/json.h"
#include "runtime/machine.h"

namespace pycandle {
namespace {

constexpr double kWorthKeeping = 0.1;               // seconds
constexpr size_t kMostBytes = size_t{1} << 30;
constexpr uintmax_t kMostInFolder = uintmax_t{4} << 30;
constexpr const char* kIdentity = "identity";

// Half the bytes where nothing is lost: differences and floors need no more digits than f32 has.
DType stored_dtype(const Array& golden) { return unit_roundoff(golden.dtype()) < 1e-10 ? DType::f64 : DType::f32; }

Array stored(DType dtype, const std::vector<double>& values) {
  return store(dtype, {static_cast<int64_t>(values.size())}, values);
}

Json facts_of(const Judgement& j) { return {j.error_rms, j.error_max, j.floor_rms, j.floor_max, j.scale}; }

// With the secret before and after: who does not have it cannot compute the checksum.
std::string checksum_of(const std::string& secret, const std::string& identity, const std::string& key, const std::string& facts,
                        const Array& rest, const Array& floor) {
  std::string text = secret + identity + '\n' + key + '\n' + facts + '\n';
  for (const Array* a : {&rest, &floor}) text += hash128(a->data(), a->bytes()).text() + to_string(a->shape());
  return hash128(text + secret).text();
}

constexpr size_t kSecretBytes = 32;

// Nothing unless it is a whole file that no other user can read or write.
std::string read_secret(const std::filesystem::path& path) {
  const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
  if (file < 0) return {};
  std::string bytes(kSecretBytes, 0);
  struct stat about = {};
  const bool is_ours = ::fstat(file, &about) == 0 && S_ISREG(about.st_mode) && about.st_uid == ::geteuid() &&
                       (about.st_mode & (S_IRWXG | S_IRWXO)) == 0 && about.st_size == static_cast<off_t>(kSecretBytes);
  const bool is_read = is_ours && ::read(file, bytes.data(), kSecretBytes) == static_cast<ssize_t>(kSecretBytes);
  ::close(file);
  return is_read ? bytes : std::string();
}

// Under its name only when it is whole: another process may read it at once.
void make_secret(const std::filesystem::path& path) {
  std::string bytes(kSecretBytes, 0);
  if (::getrandom(bytes.data(), kSecretBytes, 0) != static_cast<ssize_t>(kSecretBytes)) return;
  const std::string unfinished = fmt::format("{}.{}", path.string(), ::getpid());
  const int file = ::open(unfinished.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, S_IRUSR | S_IWUSR);
  if (file < 0) return;
  const bool is_whole = ::write(file, bytes.data(), kSecretBytes) == static_cast<ssize_t>(kSecretBytes);
  ::close(file);
  if (is_whole && ::link(unfinished.c_str(), path.c_str()) != 0 && read_secret(path).empty())
    ::rename(unfinished.c_str(), path.c_str());  // what is there is no secret
  ::unlink(unfinished.c_str());
}

// Of this user and this cache, made once. Empty: none can be kept, so no floor is.
std::string secret_of_cache() {
  const std::filesystem::path folder = cache_folder();
  if (folder.empty()) return {};
  const std::filesystem::path path = folder / "floors.secret";
  std::string secret = read_secret(path);
  if (!secret.empty()) return secret;
  std::error_code failure;
  std::filesystem::create_directories(folder, failure);
  make_secret(path);
  return read_secret(path);
}

std::filesystem::path file_for(const std::string& identity) {
  const std::filesystem::path cache = cache_folder();
  if (cache.empty() || identity.empty()) return {};
  return cache / "floors" / (hash128(identity).text() + ".safetensors");
}

// The files that were not used for longest go.
void limit_size(const std::filesystem::path& folder) {
  std::error_code failure;
  std::map<std::filesystem::file_time_type, std::filesystem::path> by_age;
  uintmax_t total = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder, failure)) {
    by_age.emplace(entry.last_write_time(failure), entry.path());
    total += entry.file_size(failure);
  }
  for (const auto& [time, path] : by_age) {
    if (total <= kMostInFolder) return;
    const uintmax_t size = std::filesystem::file_size(path, failure);
    if (!failure && std::filesystem::remove(path, failure)) total -= size;
  }
}

}  // namespace

KeptFloors::KeptFloors(std::string identity) : file_(file_for(identity)), identity_(std::move(identity)) {
  if (!file_.empty()) secret_ = secret_of_cache();
  if (secret_.empty()) file_.clear();
  std::error_code failure;
  if (file_.empty() || !std::filesystem::is_regular_file(file_, failure)) return;
  try {
    Safetensors read = Safetensors::open(file_);
    const auto found = read.metadata().find(kIdentity);
    if (found != read.metadata().end() && found->second == identity_) kept_ = std::move(read);
    if (kept_) std::filesystem::last_write_time(file_, std::filesystem::file_time_type::clock::now(), failure);
  } catch (const Error&) {  // it will be written again
  }
}

std::optional<KeptFloor> KeptFloors::find(const std::string& key, const Array& golden) const {
  if (!kept_ || !kept_->contains(key + "/floor") || !kept_->contains(key + "/rest")) return std::nullopt;
  const auto facts = kept_->metadata().find(key), checksum = kept_->metadata().find(key + "/checksum");
  if (facts == kept_->metadata().end() || checksum == kept_->metadata().end()) return std::nullopt;
  const Array stored_rest = kept_->get(key + "/rest"), stored_floor = kept_->get(key + "/floor");
  if (checksum->second != checksum_of(secret_, identity_, key, facts->second, stored_rest, stored_floor)) return std::nullopt;
  const std::vector<double> values = as_reals(golden), rest = load_double(stored_rest);
  KeptFloor kept;
  kept.backend.witnesses = {load_double(stored_floor)};
  if (rest.size() != values.size() || kept.backend.witnesses[0].size() != values.size()) return std::nullopt;
  const Json numbers = Json::parse(facts->second, nullptr, false);
  if (!numbers.is_array() || numbers.size() != 5) return std::nullopt;
  Judgement& j = kept.program;
  double* const fields[] = {&j.error_rms, &j.error_max, &j.floor_rms, &j.floor_max, &j.scale};
  for (size_t i = 0; i < 5; ++i) {
    if (!numbers[i].is_number()) return std::nullopt;
    *fields[i] = numbers[i].get<double>();
  }
  kept.backend.scale = j.scale;
  for (size_t i = 0; i < values.size(); ++i) kept.backend.exact.push_back(values[i] - rest[i]);
  return kept;
}

void KeptFloors::add(const std::string& key, const KeptFloor& kept, const Array& golden, double seconds) {
  seconds_ += seconds;
  const DType dtype = stored_dtype(golden);
  const std::vector<double> values = as_reals(golden);
  const size_t bytes = 2 * values.size() * size_of(dtype);
  if (file_.empty() || bytes_ + bytes > kMostBytes) return;
  bytes_ += bytes;
  std::vector<double> rest(values.size()), allowed = kept.backend.witnesses.at(0);
  for (size_t i = 0; i < values.size(); ++i) {
    const double difference = values[i] - kept.backend.exact[i];
    rest[i] = std::isfinite(difference) ? difference : 0;
    if (dtype == DType::f32 && allowed[i] > 0) allowed[i] = std::max<double>(allowed[i], std::numeric_limits<float>::min());
  }
  added_[key + "/rest"] = stored(dtype, rest);
  added_[key + "/floor"] = stored(dtype, allowed);
  facts_[key] = facts_of(kept.program).dump();
  facts_[key + "/checksum"] = checksum_of(secret_, identity_, key, facts_[key], added_[key + "/rest"], added_[key + "/floor"]);
}

void KeptFloors::write() const {
  if (added_.empty() || seconds_ < kWorthKeeping) return;
  std::map<std::string, Array> all = added_;
  std::map<std::string, std::string> facts = facts_;
  facts[kIdentity] = identity_;
  if (kept_) {
    for (const auto& [name, entry] : kept_->entries()) all.emplace(name, kept_->get(name));
    for (const auto& [name, text] : kept_->metadata()) facts.emplace(name, text);
  }
  try {
    std::error_code failure;
    std::filesystem::create_directories(file_.parent_path(), failure);
    write_safetensors(file_, all, facts);
    limit_size(file_.parent_path());
  } catch (const Error&) {
  }
}

}  // namespace pycandle
