#include "base/safetensors.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "base/error.h"
#include "base/file_dtypes.h"
#include "base/json.h"
#include "base/safetensors_header.h"
#include "base/safetensors_stream.h"
#include "base/sync.h"

namespace pycandle {

namespace {

constexpr size_t kLengthBytes = 8;
constexpr uint64_t kMaxHeader = 100'000'000;
constexpr const char* kMetadata = "__metadata__";

// In the order of DType.
constexpr std::array<std::string_view, kAllDTypeCount> kNames = {
    "F64", "F32", "F16", "BF16", "I64", "I32", "I16", "I8", "U8", "BOOL", "C64", "C128",
    // Not all of these are the format's: the others are read by us alone.
    "U16", "U32", "U64", "F8_E4M3", "F8_E4M3FNUZ", "F8_E5M2", "F8_E5M2FNUZ", "F8_E8M0", "F4_E2M1", "INT4", "UINT4", "INT2",
    "UINT2"};

std::optional<DType> dtype_of_file(std::string_view name) {
  const auto at = std::find(kNames.begin(), kNames.end(), name);
  if (at == kNames.end()) return std::nullopt;
  return static_cast<DType>(at - kNames.begin());
}

Error bad(const std::string& file, std::string what) { return Error(ErrorCode::bad_input, fmt::format("{}: {}", file, what)); }

Error bad_tensor(const std::string& file, const std::string& tensor, std::string_view what) {
  return bad(file, fmt::format("tensor '{}' {}", tensor.substr(0, 200), what));
}

// A piece of JSON for an error.
std::string shown(const Json& j) { return j.dump(-1, ' ', false, Json::error_handler_t::replace).substr(0, 100); }

int64_t natural(const Json& j, const std::string& file, const std::string& tensor, const char* what) {
  const bool fits = j.is_number_unsigned() && j.get<uint64_t>() <= static_cast<uint64_t>(std::numeric_limits<int64_t>::max());
  if (!fits) throw bad_tensor(file, tensor, what).expected("integers from 0 to 2^63 - 1").found(shown(j));
  return j.get<int64_t>();
}

SafetensorsHeader::Entry read_entry(const Json& j, const std::string& file, const std::string& tensor, size_t data_size,
                                    const SafetensorsHeader::OtherTypes& others) {
  const auto member = [&](const char* key) -> const Json& {
    if (const auto at = j.is_object() ? j.find(key) : j.end(); at != j.end()) return *at;
    throw bad_tensor(file, tensor, fmt::format("has no {} in the header", key))
        .expected("dtype, shape and data_offsets")
        .found(shown(j));
  };
  const Json& dtype_json = member("dtype");
  const Json& shape_json = member("shape");
  const Json& offsets = member("data_offsets");

  const std::string type = dtype_json.is_string() ? dtype_json.get<std::string>() : std::string();
  const auto other = others.find(type);  // how the reader takes it goes first
  const auto dtype = other == others.end() ? dtype_of_file(type) : std::nullopt;
  if (!dtype && other == others.end()) {
    std::vector<std::string> known(std::begin(kNames), std::end(kNames));
    for (const auto& [name, bytes] : others) known.push_back(name);
    throw bad_tensor(file, tensor, "has a dtype that is not supported")
        .expected(fmt::format("one of {}", fmt::join(known, ", ")))
        .found(shown(dtype_json));
  }

  if (!shape_json.is_array()) throw bad_tensor(file, tensor, "has a shape that is not a list").found(shown(shape_json));
  constexpr size_t kMaxRank = 64;
  if (shape_json.size() > kMaxRank)
    throw bad_tensor(file, tensor, "has too many axes")
        .expected(fmt::format("at most {}", kMaxRank))
        .found(fmt::format("{}", shape_json.size()));
  Sizes shape;
  for (const Json& size : shape_json) shape.push_back(natural(size, file, tensor, "has a bad shape"));
  size_t wanted = 0;
  try {
    if (__builtin_mul_overflow(static_cast<size_t>(element_count(shape)), dtype ? size_of(*dtype) : other->second, &wanted))
      wanted = SIZE_MAX;
  } catch (const Error&) {
    wanted = SIZE_MAX;
  }
  if (wanted > static_cast<size_t>(std::numeric_limits<int64_t>::max()))
    throw bad_tensor(file, tensor, "has too many elements").found(to_string(shape));

  if (!offsets.is_array() || offsets.size() != 2)
    throw bad_tensor(file, tensor, "has bad data_offsets").expected("[begin, end]").found(shown(offsets));
  const auto begin = static_cast<size_t>(natural(offsets[0], file, tensor, "has bad data_offsets"));
  const auto end = static_cast<size_t>(natural(offsets[1], file, tensor, "has bad data_offsets"));
  if (begin > end) throw bad_tensor(file, tensor, "ends before it begins").expected("begin ≤ end").found(shown(offsets));
  if (end > data_size)
    throw bad_tensor(file, tensor, "lies outside the file")
        .expected(fmt::format("offsets up to {}", data_size))
        .found(shown(offsets))
        .hint("the file may be truncated: make or copy it again");
  if (end - begin != wanted)
    throw bad_tensor(file, tensor, "has a size that does not fit its dtype and shape")
        .expected(fmt::format("{} bytes for {}{}", wanted, dtype ? name_of(*dtype) : type, to_string(shape)))
        .found(fmt::format("{} bytes", end - begin));
  return {type, dtype, std::move(shape), begin, end};
}

// Every byte of the data belongs to exactly one tensor, as the format asks.
void check_layout(const std::map<std::string, SafetensorsHeader::Entry>& entries, const std::string& file, size_t data_size) {
  std::vector<std::pair<const std::string*, const SafetensorsHeader::Entry*>> sorted;
  sorted.reserve(entries.size());
  for (const auto& [name, entry] : entries) sorted.emplace_back(&name, &entry);
  std::stable_sort(sorted.begin(), sorted.end(), [](const auto& a, const auto& b) {
    return std::make_pair(a.second->begin, a.second->end) < std::make_pair(b.second->begin, b.second->end);
  });
  size_t at = 0;
  for (const auto& [name, entry] : sorted) {
    if (entry->begin != at)
      throw bad_tensor(file, *name, entry->begin < at ? "overlaps another tensor" : "leaves a hole before it")
          .expected(fmt::format("data that begins at {}", at))
          .found(fmt::format("{}", entry->begin));
    at = entry->end;
  }
  if (at != data_size)
    throw bad(file, "bytes after the last tensor belong to no tensor")
        .expected(fmt::format("{} bytes of data", at))
        .found(fmt::format("{}", data_size));
}

size_t alignment_of(DType d) { return size_of(real_of(d)); }

std::array<std::byte, kLengthBytes> length_bytes(size_t header) {
  std::array<std::byte, kLengthBytes> bytes{};
  for (size_t i = 0; i < kLengthBytes; ++i) bytes[i] = static_cast<std::byte>(header >> (8 * i));
  return bytes;
}

std::string header_text(const std::filesystem::path& path, const std::map<std::string, Safetensors::Entry>& entries,
                        const std::map<std::string, std::string>& metadata) {
  Json header = Json::object();
  // Appended directly: Json's own insertion looks through all earlier keys.
  auto& members = static_cast<Json::object_t::Container&>(header.get_ref<Json::object_t&>());
  if (!metadata.empty()) members.emplace_back(kMetadata, metadata);
  for (const auto& [name, entry] : entries) {
    if (name == kMetadata) throw bad(path.string(), "a tensor cannot be named __metadata__");
    members.emplace_back(name, Json{{"dtype", kNames.at(static_cast<size_t>(entry.dtype))},
                                    {"shape", entry.shape},
                                    {"data_offsets", {entry.begin, entry.end}}});
  }
  try {
    return header.dump();
  } catch (const nlohmann::json::exception&) {
    throw bad(path.string(), "a tensor's name or a metadata text is not UTF-8");
  }
}

}  // namespace

Safetensors Safetensors::open(const std::filesystem::path& path) {
  auto file = MappedFile::open(path);
  const std::byte* data = file->data();
  const size_t size = file->size();
  Safetensors out = parse(data, size, file, path.string());
  out.file_ = std::move(file);
  return out;
}

SafetensorsHeader SafetensorsHeader::parse(const std::byte* data, size_t size, const std::string& name,
                                           const OtherTypes& others) {
  if (size < kLengthBytes)
    throw bad(name, "the file is too short for safetensors").expected("at least 8 bytes").found(fmt::format("{} bytes", size));
  uint64_t length = 0;
  for (size_t i = 0; i < kLengthBytes; ++i) length |= static_cast<uint64_t>(data[i]) << (8 * i);
  if (length > kMaxHeader)
    throw bad(name, "the safetensors header is too large")
        .expected(fmt::format("at most {} bytes", kMaxHeader))
        .found(fmt::format("{}", length))
        .hint("is this a safetensors file?");
  if (length > size - kLengthBytes)
    throw bad(name, "the safetensors header is longer than the file")
        .expected(fmt::format("at most {} bytes", size - kLengthBytes))
        .found(fmt::format("{}", length))
        .hint("the file may be truncated: make or copy it again");

  const std::string_view text(reinterpret_cast<const char*>(data) + kLengthBytes, length);
  const Json header = parse_json(text, fmt::format("the header of {}", name), 8);
  if (!header.is_object()) throw bad(name, "the safetensors header is not an object").found(shown(header));

  SafetensorsHeader out;
  out.data = kLengthBytes + length;
  const size_t data_size = size - kLengthBytes - length;
  for (const auto& [key, value] : header.items()) {
    if (key != kMetadata) {
      out.entries.emplace(key, read_entry(value, name, key, data_size, others));
      continue;
    }
    if (!value.is_object()) throw bad(name, "__metadata__ is not an object").found(shown(value));
    for (const auto& [field, text_value] : value.items()) {
      if (!text_value.is_string())
        throw bad(name, fmt::format("__metadata__ '{}' is not a string", field.substr(0, 200))).found(shown(text_value));
      out.metadata.emplace(field, text_value.get<std::string>());
    }
  }
  check_layout(out.entries, name, data_size);
  return out;
}

Safetensors Safetensors::parse(const std::byte* data, size_t size, std::shared_ptr<const void> owner, std::string name) {
  SafetensorsHeader header = SafetensorsHeader::parse(data, size, name);
  Safetensors out;
  out.name_ = std::move(name);
  out.owner_ = std::move(owner);
  out.data_ = data + header.data;
  out.metadata_ = std::move(header.metadata);
  for (auto& [key, entry] : header.entries) {
    out.entries_.emplace_hint(out.entries_.end(), key, Entry{*entry.dtype, std::move(entry.shape), entry.begin, entry.end});
  }
  return out;
}

Array Safetensors::get(const std::string& name) const {
  const auto at = entries_.find(name);
  if (at == entries_.end())
    throw bad_tensor(name_, name, "is not in the file").found(fmt::format("{} other tensors", entries_.size()));
  const Entry& entry = at->second;
  const std::byte* data = data_ + entry.begin;
  if (reinterpret_cast<uintptr_t>(data) % alignment_of(entry.dtype) == 0) return Array(entry.dtype, entry.shape, data, owner_);
  Array copy(entry.dtype, entry.shape);
  if (copy.bytes() != 0) std::memcpy(copy.mutable_data(), data, copy.bytes());
  return copy;
}

void write_safetensors(const std::filesystem::path& path, const std::map<std::string, Array>& tensors,
                       const std::map<std::string, std::string>& metadata) {
  // Data with the widest elements first, so that everything is aligned and nothing is copied when it is mapped.
  std::vector<const std::pair<const std::string, Array>*> order;
  order.reserve(tensors.size());
  for (const auto& tensor : tensors) order.push_back(&tensor);
  std::stable_sort(order.begin(), order.end(),
                   [](const auto* a, const auto* b) { return size_of(a->second.dtype()) > size_of(b->second.dtype()); });
  std::map<std::string_view, size_t> begins;
  size_t at = 0;
  for (const auto* tensor : order) {
    begins[tensor->first] = at;
    at += tensor->second.bytes();
  }

  std::map<std::string, Safetensors::Entry> entries;
  for (const auto& [name, array] : tensors) {
    entries.emplace(name, Safetensors::Entry{array.dtype(), array.shape(), begins[name], begins[name] + array.bytes()});
  }
  std::string text = header_text(path, entries, metadata);
  text.resize((text.size() + 7) / 8 * 8, ' ');
  const auto length = length_bytes(text.size());
  AtomicFile file(path);
  file.write(length.data(), length.size());
  file.write(text);
  for (const auto* tensor : order) file.write(tensor->second.data(), tensor->second.bytes());
  file.commit();
}

// ---- as they come

SafetensorsStream::SafetensorsStream(std::filesystem::path path, const std::vector<std::string>& names)
    : path_(std::move(path)), file_(std::fopen(path_.c_str(), "wb"), &std::fclose) {
  constexpr size_t kMostOfAnEntry = 1600;  // 64 sizes, two offsets and the words around them
  if (!file_) throw bad(path_.string(), "cannot be written");
  for (const std::string& name : names) room_ += kMostOfAnEntry + 6 * name.size();  // a control character takes six
  room_ = (room_ + 64) / 8 * 8;
  if (std::fseek(file_.get(), static_cast<long>(kLengthBytes + room_), SEEK_SET) != 0)
    throw bad(path_.string(), "cannot be written");
}

void SafetensorsStream::write(const void* data, size_t bytes) {
  if (bytes != 0 && std::fwrite(data, 1, bytes, file_.get()) != bytes)
    throw bad(path_.string(), "cannot be written").hint("is there space left? TMPDIR says where temporary files go");
}

void SafetensorsStream::add(const std::string& name, const Array& array) {
  const Safetensors::Entry entry{array.dtype(), array.shape(), at_, at_ + array.bytes()};
  if (!entries_.emplace(name, entry).second) return;
  at_ += array.bytes();
  write(array.data(), array.bytes());
}

void SafetensorsStream::finish() {
  std::string text = header_text(path_, entries_, {});
  require(text.size() <= room_, "a stream of tensors got names that it was not told of");
  text.resize(room_, ' ');
  if (std::fseek(file_.get(), 0, SEEK_SET) != 0) throw bad(path_.string(), "cannot be written");
  write(length_bytes(room_).data(), kLengthBytes);
  write(text.data(), text.size());
  if (std::fclose(file_.release()) != 0) throw bad(path_.string(), "cannot be written");
}

// ---- planned

SafetensorsWriter::SafetensorsWriter(const std::filesystem::path& path, const std::vector<Planned>& planned,
                                     const std::map<std::string, std::string>& metadata)
    : path_(path), unfinished_(is_device(path) ? path.string() : path.string() + ".unfinished"), file_(unfinished_) {
  std::map<std::string, Safetensors::Entry> entries;
  for (const Planned& tensor : planned) {
    const size_t bytes = static_cast<size_t>(element_count(tensor.shape)) * size_of(tensor.dtype);
    if (!entries.emplace(tensor.name, Safetensors::Entry{tensor.dtype, tensor.shape, left_, left_ + bytes}).second)
      throw bad(path_.string(), fmt::format("two tensors are named '{}'", tensor.name));
    left_ += bytes;
  }
  std::string text = header_text(path, entries, metadata);
  text.resize((text.size() + 7) / 8 * 8, ' ');
  const auto length = length_bytes(text.size());
  file_.write(length.data(), length.size());
  file_.write(text);
}

SafetensorsWriter::~SafetensorsWriter() {
  std::error_code ignored;
  if (!is_committed_ && unfinished_ != path_) std::filesystem::remove(unfinished_, ignored);
}

void SafetensorsWriter::write(const void* data, size_t bytes) {
  require(bytes <= left_, "more bytes are written than were planned");
  left_ -= bytes;
  file_.write(data, bytes);
}

void SafetensorsWriter::finish() {
  require(left_ == 0, "fewer bytes are written than were planned");
  file_.commit();
  sync_file(unfinished_);
}

void SafetensorsWriter::commit() {
  std::error_code failed;
  if (unfinished_ != path_) std::filesystem::rename(unfinished_, path_, failed);
  if (failed) throw bad(path_.string(), "cannot be written: " + failed.message());
  is_committed_ = true;
}

}  // namespace pycandle
