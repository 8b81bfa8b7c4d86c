#include "base/archive.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <stdio.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <system_error>

#include "base/error.h"
#include "base/hash.h"
#include "base/json.h"

namespace pycandle {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kMagic = "PYCANDLE";
constexpr size_t kEnd = 4 * sizeof(uint64_t) + kMagic.size();  // what stands behind the table
constexpr size_t kLongestTable = size_t{1} << 20;

std::array<std::byte, Archive::kAlignment> head() {
  std::array<std::byte, Archive::kAlignment> bytes{};
  std::memcpy(bytes.data(), kMagic.data(), kMagic.size());
  return bytes;
}

Error damaged(const std::string& name, const std::string& what) {
  return Error(ErrorCode::bad_input, fmt::format("{} is damaged: {}", name, what))
      .hint("copy the bundle again, or make it again with pycandle bundle");
}

std::string_view text_of(std::span<const std::byte> bytes) { return {reinterpret_cast<const char*>(bytes.data()), bytes.size()}; }

bool is_plain_name(const std::string& name) {
  return !name.empty() && name != "." && name != ".." && name.find('/') == std::string::npos &&
         name.find('\0') == std::string::npos;
}

// Both are folders beside each other; afterwards each has the other's name.
bool exchange(const fs::path& a, const fs::path& b) {
  return ::renameat2(AT_FDCWD, a.c_str(), AT_FDCWD, b.c_str(), RENAME_EXCHANGE) == 0;
}

}  // namespace

bool Archive::is_file(const fs::path& path) {
  std::error_code failed;
  if (!fs::is_regular_file(path, failed)) return false;
  const auto file = MappedFile::open(path);
  return file->size() >= kMagic.size() && std::memcmp(file->data(), kMagic.data(), kMagic.size()) == 0;
}

Archive Archive::open(const fs::path& path) {
  std::error_code failed;
  if (!fs::is_directory(path, failed)) {
    const auto file = MappedFile::open(path);
    Archive archive = parse({file->data(), file->size()}, file, path.filename().string());
    for (auto& [name, section] : archive.sections_) section.file = file;
    return archive;
  }
  Archive archive;
  archive.folder_ = fs::absolute(path);
  archive.name_ = path.filename().string();
  return archive;
}

Archive Archive::parse(std::span<const std::byte> bytes, std::shared_ptr<const void> owner, std::string name) {
  Archive archive;
  archive.name_ = std::move(name);
  archive.read_table(bytes);
  for (auto& [section, place] : archive.sections_) place.owner = owner;
  return archive;
}

Archive Archive::of(std::map<std::string, std::string> sections) {
  Archive archive;
  archive.name_ = "bundle";
  for (auto& [name, text] : sections) {
    auto owner = std::make_shared<const std::string>(std::move(text));
    const std::span<const std::byte> bytes = std::as_bytes(std::span(owner->data(), owner->size()));
    archive.sections_[name] = {bytes, owner};
  }
  return archive;
}

void Archive::read_table(std::span<const std::byte> bytes) {
  if (bytes.size() < kAlignment + kEnd || text_of(bytes.first(kMagic.size())) != kMagic)
    throw Error(ErrorCode::bad_input, name_ + " is not a bundle").expected("a file that pycandle bundle wrote");
  const std::span<const std::byte> end = bytes.last(kEnd);
  std::array<uint64_t, 4> numbers{};  // offset, size, hash
  std::memcpy(numbers.data(), end.data(), sizeof numbers);
  if (text_of(end.last(kMagic.size())) != kMagic) throw damaged(name_, "its end is missing");
  const auto [offset, size, high, low] = numbers;
  if (offset > bytes.size() || size > kLongestTable || size > bytes.size() - offset || offset + size + kEnd != bytes.size())
    throw damaged(name_, "its table lies outside the file");
  const std::span<const std::byte> table = bytes.subspan(offset, size);
  if (hash128(table.data(), table.size()) != Hash128{high, low}) throw damaged(name_, "its table has another hash");
  const Json json = parse_json(text_of(table), name_, 4);
  if (!json.is_object()) throw damaged(name_, "its table is not an object");
  std::vector<std::pair<uint64_t, uint64_t>> places;
  for (const auto& [section, place] : json.items()) {
    const bool is_pair = place.is_array() && place.size() == 2 && place[0].is_number_unsigned() && place[1].is_number_unsigned();
    const uint64_t from = is_pair ? place[0].get<uint64_t>() : 0, count = is_pair ? place[1].get<uint64_t>() : 0;
    if (!is_pair || from % kAlignment != 0 || from < kAlignment || from > offset || count > offset - from ||
        !is_plain_name(section))
      throw damaged(name_, fmt::format("section {} lies outside the file", section));
    sections_[section] = {bytes.subspan(from, count), nullptr};
    places.emplace_back(from, from + count);
  }
  std::sort(places.begin(), places.end());
  for (size_t i = 1; i < places.size(); ++i) {
    if (places[i].first < places[i - 1].second) throw damaged(name_, "two of its sections overlap");
  }
}

bool Archive::contains(const std::string& name) const {
  if (folder_.empty()) return sections_.contains(name);
  std::error_code failed;
  return fs::is_regular_file(folder_ / name, failed);
}

Section Archive::section(const std::string& name) const {
  require(is_plain_name(name), "the name of a section is a file name");
  if (!contains(name)) throw damaged(name_, fmt::format("{} is missing", name));
  if (folder_.empty()) return sections_.at(name);
  const auto file = MappedFile::open(folder_ / name);
  return {{file->data(), file->size()}, file, file};
}

std::string Archive::where(const std::string& name) const { return fmt::format("{} of {}", name, name_); }

// ---- writing

ArchiveWriter::ArchiveWriter(fs::path target, Form form) : target_(std::move(target)), form_(form) {
  if (target_.has_filename() == false) target_ = target_.parent_path();  // "model.pycandle/"
  if (form == Form::file) {
    if (fs::is_directory(target_))
      throw Error(ErrorCode::usage, "a folder stands in the place of the file").found(target_.string());
    file_ = std::make_unique<AtomicFile>(target_);
    const auto bytes = head();
    file_->write(bytes.data(), bytes.size());
    at_ = bytes.size();
    return;
  }
  folder_ = target_;
  folder_ += fmt::format(".{}.tmp", ::getpid());
  std::error_code failed;
  fs::remove_all(folder_, failed);
  if (!fs::create_directory(folder_, failed))
    throw Error(ErrorCode::bad_input, fmt::format("cannot make the folder {}", target_.string())).found(failed.message());
}

ArchiveWriter::~ArchiveWriter() {
  file_.reset();
  std::error_code failed;
  if (!folder_.empty()) fs::remove_all(folder_, failed);
}

void ArchiveWriter::begin(const std::string& name) {
  require(is_plain_name(name), "the name of a section is a file name");
  finish_section();
  if (form_ == Form::folder) file_ = std::make_unique<AtomicFile>(folder_ / name);
  written_ = 0;
  if (form_ == Form::file) align();
  sections_.push_back({name, at_, 0});
  written_ = 0;
}

void ArchiveWriter::write(const void* data, size_t bytes) {
  file_->write(data, bytes);
  at_ += bytes;
  written_ += bytes;
}

void ArchiveWriter::align() {
  constexpr std::array<std::byte, Archive::kAlignment> zeros{};
  const size_t at = form_ == Form::file ? at_ : written_;
  write(zeros.data(), (Archive::kAlignment - at % Archive::kAlignment) % Archive::kAlignment);
}

void ArchiveWriter::finish_section() {
  if (sections_.empty()) return;
  sections_.back().size = written_;
  if (form_ == Form::folder) file_->commit();
}

void ArchiveWriter::commit() {
  finish_section();
  if (form_ == Form::file) {
    Json table = Json::object();
    for (const Written& s : sections_) table[s.name] = {s.offset, s.size};
    const std::string text = table.dump();
    const Hash128 hash = hash128(text);
    const std::array<uint64_t, 4> numbers{at_, text.size(), hash.high, hash.low};
    file_->write(text);
    file_->write(numbers.data(), sizeof numbers);
    file_->write(kMagic);
    file_->commit();
    return;
  }
  if (::rename(folder_.c_str(), target_.c_str()) == 0 || exchange(folder_, target_)) {
    std::error_code failed;
    fs::remove_all(folder_, failed);  // what stood there before
    folder_.clear();
    return;
  }
  throw Error(ErrorCode::bad_input, fmt::format("cannot write {}: {}", target_.string(), std::generic_category().message(errno)));
}

}  // namespace pycandle
