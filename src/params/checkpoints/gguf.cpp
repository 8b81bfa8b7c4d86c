// GGUF files (llama.cpp): fields, then tensors at aligned offsets, their sizes from the innermost axis out.
#include <algorithm>
#include <limits>

#include "params/checkpoints/readers.h"

namespace pycandle {
namespace {

constexpr std::string_view kMagic = "GGUF";
constexpr uint64_t kMostFields = 1'000'000, kMostTensors = 1'000'000;
constexpr uint32_t kMostAxes = 8;
constexpr int kDeepest = 4;

enum class FieldType : uint32_t { u8, i8, u16, i16, u32, i32, f32, boolean, text, list, u64, i64, f64 };

std::string_view read_text(ByteReader& in, const char* what) { return in.text(in.number<uint64_t>(what), what); }

// The value as text; of lists only how long they are.
std::string read_field(ByteReader& in, FieldType type, int depth) {
  const char* what = "a field";
  switch (type) {
    case FieldType::u8: return fmt::format("{}", in.number<uint8_t>(what));
    case FieldType::i8: return fmt::format("{}", in.number<int8_t>(what));
    case FieldType::u16: return fmt::format("{}", in.number<uint16_t>(what));
    case FieldType::i16: return fmt::format("{}", in.number<int16_t>(what));
    case FieldType::u32: return fmt::format("{}", in.number<uint32_t>(what));
    case FieldType::i32: return fmt::format("{}", in.number<int32_t>(what));
    case FieldType::f32: return fmt::format("{}", in.number<float>(what));
    case FieldType::boolean: return in.number<uint8_t>(what) != 0 ? "true" : "false";
    case FieldType::text: return std::string(read_text(in, what));
    case FieldType::u64: return fmt::format("{}", in.number<uint64_t>(what));
    case FieldType::i64: return fmt::format("{}", in.number<int64_t>(what));
    case FieldType::f64: return fmt::format("{}", in.number<double>(what));
    case FieldType::list: break;
    default: throw in.bad("a field has a type that GGUF does not have").found(fmt::format("{}", static_cast<uint32_t>(type)));
  }
  if (depth >= kDeepest) throw in.bad("lists are nested too deeply");
  const auto of = static_cast<FieldType>(in.number<uint32_t>(what));
  const auto count = in.number<uint64_t>(what);
  if (count > in.left()) throw in.bad("a list is longer than the file").found(fmt::format("{}", count));
  for (uint64_t i = 0; i < count; ++i) read_field(in, of, depth + 1);
  return fmt::format("a list of {}", count);
}

struct TensorInfo {
  std::string name;
  Sizes shape;
  const GgufType* type;
  uint64_t offset;
};

TensorInfo read_info(ByteReader& in) {
  TensorInfo info{std::string(read_text(in, "the name of a tensor")), {}, nullptr, 0};
  const auto axes = in.number<uint32_t>("a tensor");
  if (axes > kMostAxes) throw in.bad("a tensor has too many axes").found(fmt::format("{}", axes));
  for (uint32_t i = 0; i < axes; ++i) {
    const auto size = in.number<uint64_t>("a tensor");
    if (size > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) throw in.bad("a tensor has a size that is too large");
    info.shape.insert(info.shape.begin(), static_cast<int64_t>(size));
  }
  const auto number = in.number<uint32_t>("the type of a tensor");
  info.type = find_gguf_type(number);
  if (info.type == nullptr)
    throw in.bad(fmt::format("tensor '{}' has a type that is not supported", shown_text(info.name)))
        .found(fmt::format("type {}", number));
  info.offset = in.number<uint64_t>("the place of a tensor");
  return info;
}

void refuse_overlaps(std::vector<const StoredTensor*> sorted, const ByteReader& in) {
  std::sort(sorted.begin(), sorted.end(), [](const auto* a, const auto* b) { return a->offset < b->offset; });
  for (size_t i = 1; i < sorted.size(); ++i) {
    if (sorted[i]->stored_bytes() != 0 && sorted[i - 1]->offset + sorted[i - 1]->stored_bytes() > sorted[i]->offset)
      throw in.bad(fmt::format("tensors '{}' and '{}' overlap", shown_text(sorted[i - 1]->name), shown_text(sorted[i]->name)));
  }
}

}  // namespace

bool is_gguf(Bytes bytes) { return bytes.size() >= kMagic.size() && as_text(bytes.first(kMagic.size())) == kMagic; }

FileContent read_gguf(const CheckpointFile& file) {
  ByteReader in(file.bytes, file.name);
  in.take(kMagic.size(), "the magic number");
  const auto version = in.number<uint32_t>("the version");
  if (version != 2 && version != 3)
    throw in.bad("this version of GGUF is not supported").expected("2 or 3, little-endian").found(fmt::format("{}", version));
  const auto tensors = in.number<uint64_t>("the number of tensors"), fields = in.number<uint64_t>("the number of fields");
  if (tensors > kMostTensors || fields > kMostFields)
    throw in.bad("the file says that it holds too much").found(fmt::format("{} tensors, {} fields", tensors, fields));
  FileContent out;
  out.format = "gguf";
  for (uint64_t i = 0; i < fields; ++i) {
    const std::string key(read_text(in, "the name of a field"));
    const auto type = static_cast<FieldType>(in.number<uint32_t>("a field"));
    if (!out.metadata.emplace(key, read_field(in, type, 0)).second)
      throw in.bad(fmt::format("the field '{}' is there twice", shown_text(key)));
  }
  std::vector<TensorInfo> infos;
  for (uint64_t i = 0; i < tensors; ++i) infos.push_back(read_info(in));
  uint64_t alignment = 32;
  if (const auto at = out.metadata.find("general.alignment"); at != out.metadata.end())
    alignment = std::strtoull(at->second.c_str(), nullptr, 10);
  if (alignment == 0 || alignment > (1U << 20)) throw in.bad("the alignment is not one").found(fmt::format("{}", alignment));
  const uint64_t begin = tensors == 0 ? in.at() : (in.at() + alignment - 1) / alignment * alignment;
  in.skip_to(static_cast<size_t>(begin), "the data of the tensors");
  const auto storage = file.storage(in.take(in.left(), "the data of the tensors"));
  for (TensorInfo& info : infos) {
    const StoredEncoding* encoding = info.type->dtype ? nullptr : &info.type->encoding;
    out.tensors.push_back(dense_tensor(std::move(info.name), info.type->dtype ? *info.type->dtype : encoding->dtype, encoding,
                                       std::move(info.shape), storage, info.offset));
  }
  std::vector<const StoredTensor*> all;
  for (const StoredTensor& t : out.tensors) all.push_back(&t);
  refuse_overlaps(std::move(all), in);
  return out;
}

}  // namespace pycandle
