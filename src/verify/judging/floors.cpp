#include "verify/judging/floors.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "base/error.h"
#include "base/json.h"

namespace pycandle {
namespace {

constexpr double kWorthKeeping = 0.1;               // seconds
constexpr size_t kMostBytes = size_t{1} << 30;
constexpr const char* kIdentity = "identity";

// Half the bytes where nothing is lost: differences and floors need no more digits than f32 has.
DType stored_dtype(const Array& golden) { return unit_roundoff(golden.dtype()) < 1e-10 ? DType::f64 : DType::f32; }

Array stored(DType dtype, const std::vector<double>& values) {
  return store(dtype, {static_cast<int64_t>(values.size())}, values);
}

Json facts_of(const Judgement& j) { return {j.error_rms, j.error_max, j.floor_rms, j.floor_max, j.scale}; }

}  // namespace

KeptFloors::KeptFloors(std::filesystem::path file, std::string identity)
    : file_(std::move(file)), identity_(std::move(identity)) {
  std::error_code failure;
  if (file_.empty() || !std::filesystem::is_regular_file(file_, failure)) return;
  try {
    Safetensors read = Safetensors::open(file_);
    const auto found = read.metadata().find(kIdentity);
    if (found != read.metadata().end() && found->second == identity_) kept_ = std::move(read);
  } catch (const Error&) {  // it will be written again
  }
}

std::optional<KeptFloor> KeptFloors::find(const std::string& key, const Array& golden) const {
  if (!kept_ || !kept_->contains(key + "/floor") || !kept_->contains(key + "/rest")) return std::nullopt;
  const auto facts = kept_->metadata().find(key);
  const std::vector<double> values = as_reals(golden), rest = load_double(kept_->get(key + "/rest"));
  KeptFloor kept;
  kept.backend.allowed = load_double(kept_->get(key + "/floor"));
  if (facts == kept_->metadata().end() || rest.size() != values.size() || kept.backend.allowed.size() != values.size())
    return std::nullopt;
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
  std::vector<double> rest(values.size()), allowed = kept.backend.allowed;
  for (size_t i = 0; i < values.size(); ++i) {
    const double difference = values[i] - kept.backend.exact[i];
    rest[i] = std::isfinite(difference) ? difference : 0;
    if (dtype == DType::f32 && allowed[i] > 0) allowed[i] = std::max<double>(allowed[i], std::numeric_limits<float>::min());
  }
  added_[key + "/rest"] = stored(dtype, rest);
  added_[key + "/floor"] = stored(dtype, allowed);
  facts_[key] = facts_of(kept.program).dump();
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
    write_safetensors(file_, all, facts);
  } catch (const Error&) {
  }
}

}  // namespace pycandle
