// NumPy's .npy, and .npz: a zip archive of them. The header is a Python dict as text, of which three entries are read.
#include <charconv>

#include "params/checkpoints/inflate.h"
#include "params/checkpoints/readers.h"
#include "params/checkpoints/zip.h"

namespace pycandle {
namespace {

constexpr std::string_view kMagic = "\x93NUMPY";
constexpr uint64_t kMostHeader = 1 << 16;

struct NpyType {
  std::string_view code;  // without the byte order
  std::optional<DType> dtype;
  std::string_view encoding;
};

constexpr NpyType kTypes[] = {
    {"f8", DType::f64, {}},      {"f4", DType::f32, {}},      {"f2", DType::f16, {}},   {"i8", DType::i64, {}},
    {"i4", DType::i32, {}},      {"i2", DType::i16, {}},      {"i1", DType::i8, {}},    {"u1", DType::u8, {}},
    {"b1", DType::boolean, {}},  {"c8", DType::c64, {}},      {"c16", DType::c128, {}}, {"u2", std::nullopt, "u16"},
    {"u4", std::nullopt, "u32"}, {"u8", std::nullopt, "u64"},
};

struct NpyHeader {
  ElementType type;
  bool is_fortran = false;
  Sizes shape;
  size_t data = 0;  // where it begins
};

// {'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }
class HeaderText {
 public:
  HeaderText(std::string_view text, const ByteReader& in) : text_(text), in_(in) {}

  std::string_view after(std::string_view key) const {
    const std::string quoted = fmt::format("'{}':", key);
    const size_t at = text_.find(quoted);
    if (at == std::string_view::npos) throw in_.bad(fmt::format("the header has no {}", key));
    std::string_view rest = text_.substr(at + quoted.size());
    while (rest.starts_with(' ')) rest.remove_prefix(1);
    return rest;
  }
  std::string_view descr() const {
    std::string_view rest = after("descr");
    const size_t end = rest.starts_with('\'') ? rest.find('\'', 1) : std::string_view::npos;
    if (end == std::string_view::npos) throw in_.bad("the elements are records, not numbers");
    return rest.substr(1, end - 1);
  }
  bool is_fortran() const {
    const std::string_view rest = after("fortran_order");
    if (!rest.starts_with("True") && !rest.starts_with("False")) throw in_.bad("the header's fortran_order is not True or False");
    return rest.starts_with("True");
  }
  Sizes shape() const {
    std::string_view rest = after("shape");
    const size_t end = rest.find(')');
    if (!rest.starts_with('(') || end == std::string_view::npos) throw in_.bad("the header's shape is not a tuple");
    Sizes sizes;
    for (const char *at = rest.data() + 1, *last = rest.data() + end; at < last;) {
      if (*at == ' ' || *at == ',' || *at == 'L') {
        ++at;
        continue;
      }
      int64_t size = 0;
      const auto read = std::from_chars(at, last, size);
      if (read.ec != std::errc()) throw in_.bad("the header's shape is not made of numbers");
      sizes.push_back(size);
      at = read.ptr;
    }
    return sizes;
  }

 private:
  std::string_view text_;
  const ByteReader& in_;
};

}  // namespace

ElementType numpy_type(std::string_view descr, const ByteReader& in) {
  const auto refuse = [&] {
    return in.bad("the elements have a type that is not supported")
        .expected("numbers: f2 f4 f8 i1 i2 i4 i8 u1 u2 u4 u8 b1 c8 c16")
        .found(shown_text(descr));
  };
  if (descr.size() < 2) throw refuse();
  if (descr == "|O" || descr == "O") throw in.bad("the array holds Python objects, which are not read").found("dtype object");
  for (const NpyType& type : kTypes) {
    if (type.code != descr.substr(1)) continue;
    const StoredEncoding* encoding = type.dtype ? nullptr : find_encoding(type.encoding);
    const DType dtype = type.dtype ? *type.dtype : encoding->dtype;
    if (descr[0] != '>') return {dtype, encoding};
    if (!type.dtype) throw refuse();
    return {dtype, swapped_encoding(dtype)};
  }
  throw refuse();
}

namespace {

NpyHeader read_header(Bytes bytes, const std::string& name) {
  ByteReader in(bytes, name);
  if (in.text(kMagic.size(), "the magic number") != kMagic) throw in.bad("this is not an array of NumPy");
  const auto major = in.number<uint8_t>("the version");
  in.number<uint8_t>("the version");
  if (major < 1 || major > 3) throw in.bad("this version of the format is not supported").found(fmt::format("{}", major));
  const uint64_t length = major == 1 ? in.number<uint16_t>("the header") : in.number<uint32_t>("the header");
  if (length > kMostHeader) throw in.bad("the header is too long").found(fmt::format("{} bytes", length));
  const HeaderText text(in.text(length, "the header"), in);
  NpyHeader h;
  h.type = numpy_type(text.descr(), in);
  h.is_fortran = text.is_fortran();
  h.shape = text.shape();
  h.data = in.at();
  return h;
}

StoredTensor tensor_of(std::string name, const NpyHeader& h, std::shared_ptr<const Storage> storage) {
  if (!h.is_fortran) return dense_tensor(std::move(name), h.type.dtype, h.type.encoding, h.shape, std::move(storage), h.data);
  Sizes strides;
  int64_t step = 1;
  for (const int64_t size : h.shape) {
    strides.push_back(step);
    if (size < 0 || __builtin_mul_overflow(step, std::max<int64_t>(size, 1), &step))
      throw Error(ErrorCode::bad_input, storage->where + ": an array has a bad shape").found(to_string(h.shape));
  }
  return strided_tensor(std::move(name), h.type.dtype, h.type.encoding, h.shape, std::move(strides), std::move(storage), h.data);
}

}  // namespace

bool is_npy(Bytes bytes) { return bytes.size() >= kMagic.size() && as_text(bytes.first(kMagic.size())) == kMagic; }

FileContent read_npy(const CheckpointFile& file) {
  FileContent out;
  out.format = "npy";
  const std::string stem = std::filesystem::path(file.name).stem().string();
  out.tensors.push_back(tensor_of(stem, read_header(file.bytes, file.name), file.storage(file.bytes)));
  return out;
}

FileContent read_npz(const CheckpointFile& file, const std::map<std::string, ZipMember>& members) {
  FileContent out;
  out.format = "npz";
  for (const auto& [name, member] : members) {
    if (name.ends_with('/')) continue;  // a folder
    if (!name.ends_with(".npy")) {
      throw Error(ErrorCode::bad_input, fmt::format("{}: the zip archive is neither torch's nor NumPy's", file.name))
          .expected("a member data.pkl, or members that end on .npy")
          .found(shown_text(name));
    }
    const std::string where = fmt::format("{}: {}", file.name, shown_text(name));
    const bool is_packed = member.inflated != 0;
    const auto unpacked = is_packed ? inflate_first(member.bytes, member.inflated, kMostHeader, where) : std::vector<std::byte>();
    const NpyHeader header = read_header(is_packed ? Bytes(unpacked) : member.bytes, where);
    out.tensors.push_back(tensor_of(name.substr(0, name.size() - 4), header, file.storage(member.bytes, member.inflated)));
  }
  return out;
}

}  // namespace pycandle
