#include "params/checkpoints/zip.h"

#include <algorithm>
#include <optional>
#include <vector>

#include "params/checkpoints/inflate.h"

namespace pycandle {
namespace {

constexpr uint32_t kLocal = 0x04034b50, kCentral = 0x02014b50, kEnd = 0x06054b50, kEnd64 = 0x06064b50, kLocator64 = 0x07064b50;
constexpr size_t kEndBytes = 22, kLongestComment = 65535, kLocatorBytes = 20;
constexpr uint32_t kIn64 = 0xffffffff;
constexpr size_t kMostMembers = 1'000'000;

struct Directory {
  uint64_t count = 0, bytes = 0, offset = 0;
};

template <class T> T number_at(Bytes bytes, size_t at) {
  T value;
  std::memcpy(&value, bytes.data() + at, sizeof value);
  return value;
}

std::optional<size_t> find_end(Bytes bytes) {
  if (bytes.size() < kEndBytes) return std::nullopt;
  const size_t last = bytes.size() - kEndBytes, first = last > kLongestComment ? last - kLongestComment : 0;
  for (size_t at = last + 1; at-- > first;) {
    if (number_at<uint32_t>(bytes, at) == kEnd && number_at<uint16_t>(bytes, at + 20) == bytes.size() - at - kEndBytes) return at;
  }
  return std::nullopt;
}

Directory find_directory(Bytes bytes, std::string_view file) {
  ByteReader reader(bytes, file);
  const auto end = find_end(bytes);
  if (!end)
    throw reader.bad("the zip archive has no directory at its end").hint("the file may be truncated: make or copy it again");
  Directory d{number_at<uint16_t>(bytes, *end + 10), number_at<uint32_t>(bytes, *end + 12),
              number_at<uint32_t>(bytes, *end + 16)};
  const bool has_locator = *end >= kLocatorBytes && number_at<uint32_t>(bytes, *end - kLocatorBytes) == kLocator64;
  if (!has_locator) return d;
  reader.skip_to(static_cast<size_t>(std::min<uint64_t>(number_at<uint64_t>(bytes, *end - kLocatorBytes + 8), bytes.size())),
                 "the directory of a large zip archive");
  if (reader.number<uint32_t>("the directory of a large zip archive") != kEnd64)
    throw reader.bad("the directory of a large zip archive is not where it should be");
  reader.take(28, "the directory of a large zip archive");
  d.count = reader.number<uint64_t>("the number of members");
  d.bytes = reader.number<uint64_t>("the size of the zip directory");
  d.offset = reader.number<uint64_t>("the place of the zip directory");
  return d;
}

struct Central {
  std::string name;
  uint16_t flags = 0, method = 0;
  uint64_t stored = 0, unpacked = 0, offset = 0;
};

// Sizes and offsets of large archives stand in an extra field, only those that do not fit elsewhere.
void read_large_sizes(Bytes extra, Central& m, std::string_view file) {
  ByteReader reader(extra, file);
  while (reader.left() >= 4) {
    const auto id = reader.number<uint16_t>("an extra field"), bytes = reader.number<uint16_t>("an extra field");
    ByteReader field(reader.take(bytes, "an extra field"), file);
    if (id != 1) continue;
    for (uint64_t* value : {&m.unpacked, &m.stored, &m.offset}) {
      if (*value == kIn64) *value = field.number<uint64_t>("the size of a member");
    }
  }
}

Central read_central(ByteReader& reader, std::string_view file) {
  if (reader.number<uint32_t>("the zip directory") != kCentral) throw reader.bad("the zip directory is damaged");
  Central m;
  reader.take(4, "the zip directory");
  m.flags = reader.number<uint16_t>("the zip directory");
  m.method = reader.number<uint16_t>("the zip directory");
  reader.take(8, "the zip directory");
  m.stored = reader.number<uint32_t>("the zip directory");
  m.unpacked = reader.number<uint32_t>("the zip directory");
  const auto name = reader.number<uint16_t>("the zip directory"), extra = reader.number<uint16_t>("the zip directory"),
             comment = reader.number<uint16_t>("the zip directory");
  reader.take(8, "the zip directory");
  m.offset = reader.number<uint32_t>("the zip directory");
  m.name = reader.text(name, "the name of a member");
  read_large_sizes(reader.take(extra, "the zip directory"), m, file);
  reader.take(comment, "the zip directory");
  return m;
}

struct Extent {
  uint64_t begin, end;
  const std::string* name;
};

ZipMember locate(const Central& m, Bytes bytes, std::string_view file, std::vector<Extent>& extents) {
  const auto bad = [&](const std::string& what) {
    return Error(ErrorCode::bad_input, fmt::format("{}: member '{}' {}", file, shown_text(m.name), what));
  };
  constexpr uint16_t kEncrypted = 1, kStored = 0, kDeflated = 8;
  if ((m.flags & kEncrypted) != 0) throw bad("is encrypted");
  if (m.method != kStored && m.method != kDeflated)
    throw bad("is compressed in a way that is not supported")
        .expected("stored or deflated")
        .found(fmt::format("method {}", m.method));
  if (m.method == kStored && m.stored != m.unpacked) throw bad("has two sizes that disagree");
  ByteReader reader(bytes, file);
  reader.skip_to(static_cast<size_t>(std::min<uint64_t>(m.offset, bytes.size())), "a member of the zip archive");
  if (reader.number<uint32_t>("a member of the zip archive") != kLocal) throw bad("is not where the directory says");
  reader.take(22, "the header of a member");
  const auto name = reader.number<uint16_t>("the header of a member"), extra = reader.number<uint16_t>("the header of a member");
  if (reader.text(name, "the name of a member") != m.name) throw bad("has another name in the directory");
  reader.take(extra, "the header of a member");
  const Bytes data = reader.take(m.stored, "the data of a member");
  extents.push_back({m.offset, reader.at(), &m.name});
  if (m.method == kDeflated) refuse_bomb(m.stored, m.unpacked, fmt::format("{}: member '{}'", file, shown_text(m.name)));
  return {data, m.method == kDeflated ? std::max<uint64_t>(m.unpacked, 1) : 0};
}

}  // namespace

bool is_zip(Bytes bytes) {
  return bytes.size() >= kEndBytes &&
         (number_at<uint32_t>(bytes, 0) == kLocal || number_at<uint32_t>(bytes, bytes.size() - kEndBytes) == kEnd);
}

std::map<std::string, ZipMember> zip_members(Bytes bytes, std::string_view file) {
  const Directory directory = find_directory(bytes, file);
  ByteReader reader(bytes, file);
  if (directory.count > kMostMembers || directory.offset > bytes.size() || directory.bytes > bytes.size() - directory.offset)
    throw reader.bad("the zip directory lies outside the file").hint("the file may be truncated: make or copy it again");
  reader.skip_to(static_cast<size_t>(directory.offset), "the zip directory");
  std::vector<Central> listed;
  for (uint64_t i = 0; i < directory.count; ++i) listed.push_back(read_central(reader, file));
  std::map<std::string, ZipMember> members;
  std::vector<Extent> extents;
  for (const Central& m : listed) {
    if (!members.emplace(m.name, locate(m, bytes, file, extents)).second)
      throw Error(ErrorCode::bad_input, fmt::format("{}: member '{}' is there twice", file, shown_text(m.name)));
  }
  std::sort(extents.begin(), extents.end(), [](const Extent& a, const Extent& b) { return a.begin < b.begin; });
  for (size_t i = 1; i < extents.size(); ++i) {
    if (extents[i].begin < extents[i - 1].end)
      throw Error(ErrorCode::bad_input, fmt::format("{}: members '{}' and '{}' overlap", file, shown_text(*extents[i - 1].name),
                                                    shown_text(*extents[i].name)));
  }
  return members;
}

std::string member_text(const ZipMember& member, uint64_t limit, const std::string& where) {
  const uint64_t size = member.inflated != 0 ? member.inflated : member.bytes.size();
  if (size > limit)
    throw Error(ErrorCode::bad_input, where + " is too large")
        .expected(fmt::format("at most {} bytes", limit))
        .found(fmt::format("{}", size));
  if (member.inflated == 0) return std::string(as_text(member.bytes));
  return std::string(as_text(inflate(member.bytes, member.inflated, where)));
}

}  // namespace pycandle
