// The values of tensors: in the file, beside it, or in a Constant node.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstring>

#include "base/error.h"
#include "base/file_dtypes.h"
#include "import/onnx/message.h"
#include "import/onnx/model.h"

namespace pycandle::onnx {

namespace {

constexpr int64_t kMostSparse = 1 << 28;  // elements: a few bytes of a file must not cost more than a model's memory

struct TypeName {
  const char* name;
  std::optional<DType> dtype;
};

// By TensorProto.DataType.
constexpr TypeName kTypes[] = {
    {"undefined", {}},
    {"float", DType::f32},
    {"uint8", DType::u8},
    {"int8", DType::i8},
    {"uint16", file_dtype::u16},
    {"int16", DType::i16},
    {"int32", DType::i32},
    {"int64", DType::i64},
    {"string", {}},
    {"bool", DType::boolean},
    {"float16", DType::f16},
    {"double", DType::f64},
    {"uint32", file_dtype::u32},
    {"uint64", file_dtype::u64},
    {"complex64", DType::c64},
    {"complex128", DType::c128},
    {"bfloat16", DType::bf16},
    {"float8e4m3fn", file_dtype::f8e4m3},
    {"float8e4m3fnuz", file_dtype::f8e4m3fnuz},
    {"float8e5m2", file_dtype::f8e5m2},
    {"float8e5m2fnuz", file_dtype::f8e5m2fnuz},
    {"uint4", file_dtype::u4},
    {"int4", file_dtype::i4},
    {"float4e2m1", file_dtype::f4e2m1},
    {"float8e8m0", file_dtype::f8e8m0},
    {"uint2", file_dtype::u2},
    {"int2", file_dtype::i2},
};

[[noreturn]] void bad_tensor(const Model& model, const Tensor& t, const std::string& what, const std::string& expected = {},
                             const std::string& found = {}) {
  throw Error(ErrorCode::bad_input, fmt::format("{}: tensor '{}' {}", model.file.string(), t.name, what))
      .expected(expected)
      .found(found);
}

Sizes sizes_of(const Model& model, const Tensor& t) {
  for (const int64_t size : t.dims)
    if (size < 0) bad_tensor(model, t, "has a negative size", "sizes of 0 or more", to_string(t.dims));
  return t.dims;
}

uint64_t number_in(const Model& model, const Tensor& t, std::string_view key, uint64_t otherwise) {
  const auto found = t.external.find(key);
  if (found == t.external.end()) return otherwise;
  uint64_t value = 0;
  const auto [end, failed] = std::from_chars(found->second.data(), found->second.data() + found->second.size(), value);
  if (failed != std::errc{} || end != found->second.data() + found->second.size())
    bad_tensor(model, t, fmt::format("has a wrong {} of its external data", key), "a number", std::string(found->second));
  return value;
}

struct Data {
  std::string_view bytes;
  std::shared_ptr<const void> owner;
};

// Inside the folder of the model, whatever links lie in it.
Data external_data(const Model& model, const Tensor& t) {
  namespace fs = std::filesystem;
  const auto location = t.external.find("location");
  if (location == t.external.end()) bad_tensor(model, t, "is in another file, and it is not said which");
  const fs::path file{std::string(location->second)};
  const bool leaves = file.empty() || file.is_absolute() ||
                      std::any_of(file.begin(), file.end(), [](const auto& part) { return part == ".."; });
  if (leaves || location->second.find('\0') != std::string_view::npos)
    bad_tensor(model, t, "has its data outside the folder of the model", "a file inside it", std::string(location->second));
  const fs::path folder = fs::weakly_canonical(fs::absolute(model.file)).parent_path();
  const fs::path real = fs::weakly_canonical(folder / file);
  if (real.lexically_relative(folder).string().starts_with(".."))
    bad_tensor(model, t, "has its data outside the folder of the model", "a file inside it", real.string());
  const auto mapping = MappedFile::open(folder / file);
  const std::string_view all{reinterpret_cast<const char*>(mapping->data()), mapping->size()};
  const uint64_t offset = number_in(model, t, "offset", 0);
  if (offset > all.size())
    bad_tensor(model, t, "begins after the end of its file", fmt::format("at most {}", all.size()), fmt::format("{}", offset));
  const uint64_t length = number_in(model, t, "length", all.size() - offset);
  if (length > all.size() - offset)
    bad_tensor(model, t, "goes beyond the end of its file", fmt::format("at most {} bytes", all.size() - offset),
               fmt::format("{}", length));
  return {all.substr(offset, length), mapping};
}

// How many elements share a byte; the first is in its lowest bits.
int64_t elements_in_byte(DType dtype) {
  if (dtype == file_dtype::u4 || dtype == file_dtype::i4 || dtype == file_dtype::f4e2m1) return 2;
  return dtype == file_dtype::u2 || dtype == file_dtype::i2 ? 4 : 1;
}

Array unpacked(DType dtype, const Sizes& shape, std::string_view bytes) {
  const int64_t together = elements_in_byte(dtype), bits = 8 / together;
  Array out(dtype, shape);
  auto* codes = static_cast<uint8_t*>(out.mutable_data());
  for (int64_t i = 0; i < out.size(); ++i) {
    const auto byte = static_cast<uint8_t>(bytes[static_cast<size_t>(i / together)]);
    const auto code = static_cast<uint8_t>((byte >> (bits * (i % together))) & ((1 << bits) - 1));
    const bool is_negative = is_integral(dtype) && lowest_of(dtype) < 0 && (code >> (bits - 1)) != 0;
    codes[i] = static_cast<uint8_t>(is_negative ? code | (0xff << bits) : code);
  }
  return out;
}

// The numbers of float_data, int32_data and the like.
template <class Number> Array typed_array(DType dtype, const Sizes& shape, const std::vector<Number>& numbers) {
  if constexpr (std::is_same_v<Number, int64_t>) {
    if (is_floating(dtype) || elements_in_byte(dtype) > 1) {  // their bits
      std::string bytes;
      for (const int64_t number : numbers)
        for (size_t i = 0; i < size_of(dtype); ++i) bytes += static_cast<char>(static_cast<uint64_t>(number) >> (8 * i));
      if (elements_in_byte(dtype) > 1) return unpacked(dtype, shape, bytes);
      Array out(dtype, shape);
      if (!bytes.empty()) std::memcpy(out.mutable_data(), bytes.data(), bytes.size());
      return out;
    }
    return store(dtype, shape, numbers);
  } else {
    if (is_complex(dtype)) {
      std::vector<std::complex<double>> pairs(numbers.size() / 2);
      for (size_t i = 0; i < pairs.size(); ++i) pairs[i] = {numbers[2 * i], numbers[2 * i + 1]};
      return store(dtype, shape, pairs);
    }
    return store(dtype, shape, std::vector<double>(numbers.begin(), numbers.end()));
  }
}

Array typed_values(const Model& model, const Tensor& t, DType dtype, const Sizes& shape) {
  std::vector<int64_t> integers;
  std::vector<float> floats;
  std::vector<double> doubles;
  Message m(t.message, "a tensor");
  while (m.next()) {
    switch (m.field()) {
      case 4: m.floats(floats); break;
      case 5:
      case 7:
      case 11: m.integers(integers); break;
      case 10: m.doubles(doubles); break;
      default: m.skip();
    }
  }
  const int64_t together = elements_in_byte(dtype), elements = element_count(shape);
  const auto count = static_cast<size_t>((elements + together - 1) / together) * (is_complex(dtype) ? 2 : 1);
  const bool wide = dtype == DType::f64 || dtype == DType::c128, narrow = dtype == DType::f32 || dtype == DType::c64;
  const size_t found = wide ? doubles.size() : narrow ? floats.size() : integers.size();
  if (found != count)
    bad_tensor(model, t, "has another number of values than its shape says", fmt::format("{} for {}", count, to_string(shape)),
               fmt::format("{}", found));
  if (wide) return typed_array(dtype, shape, doubles);
  if (narrow) return typed_array(dtype, shape, floats);
  return typed_array(dtype, shape, integers);
}

}  // namespace

std::optional<DType> dtype_of(int32_t type) {
  return type >= 0 && static_cast<size_t>(type) < std::size(kTypes) ? kTypes[type].dtype : std::nullopt;
}

std::string name_of_type(int32_t type) {
  return type >= 0 && static_cast<size_t>(type) < std::size(kTypes) ? kTypes[type].name : fmt::format("type {}", type);
}

Array read(const Model& model, const Tensor& t) {
  const auto dtype = dtype_of(t.type);
  if (!dtype)
    throw Error(ErrorCode::gap, fmt::format("{}: tensor '{}' has elements of {}, which are not supported", model.file.string(),
                                            t.name, name_of_type(t.type)));
  const Sizes shape = sizes_of(model, t);
  const int64_t count = element_count(shape);
  if (!t.is_external && !t.raw) return typed_values(model, t, *dtype, shape);
  const Data data = t.is_external ? external_data(model, t) : Data{*t.raw, model.owner};
  const int64_t together = elements_in_byte(*dtype);
  const size_t stored = static_cast<size_t>((count + together - 1) / together);
  if (data.bytes.size() / size_of(*dtype) != stored || data.bytes.size() % size_of(*dtype) != 0)
    bad_tensor(model, t, "has another number of bytes than its shape says",
               fmt::format("{} for {}{}", stored * size_of(*dtype), pycandle::name_of(*dtype), to_string(shape)),
               fmt::format("{}", data.bytes.size()));
  if (together > 1) return unpacked(*dtype, shape, data.bytes);
  const bool is_aligned = reinterpret_cast<uintptr_t>(data.bytes.data()) % size_of(*dtype) == 0;
  // A bool is 0 or 1 in memory, whatever the file holds.
  if (*dtype == DType::boolean) return store(*dtype, shape, std::vector<int64_t>(data.bytes.begin(), data.bytes.end()));
  if (is_aligned && data.owner) return Array(*dtype, shape, data.bytes.data(), data.owner);
  Array copy(*dtype, shape);
  if (count > 0) std::memcpy(copy.mutable_data(), data.bytes.data(), data.bytes.size());
  return copy;
}

// The values at their places, which are flat or one coordinate an axis; zeros elsewhere.
Array dense(const Model& model, const SparseTensor& sparse) {
  const Array values = read(model, sparse.values), indices = read(model, sparse.indices);
  const Sizes shape(sparse.dims.begin(), sparse.dims.end());
  const int64_t total = element_count(shape), rank = static_cast<int64_t>(shape.size());
  const bool is_flat = indices.rank() == 1;
  const bool fits = values.rank() == 1 && indices.dtype() == DType::i64 && !indices.shape().empty() &&
                    indices.shape()[0] == values.size() && (is_flat || (indices.rank() == 2 && indices.shape()[1] == rank));
  if (!fits) bad_tensor(model, sparse.values, "is sparse, and its indices have another shape than its values");
  if (total > kMostSparse)
    bad_tensor(model, sparse.values, "is sparse and too large", fmt::format("at most {} elements", kMostSparse));
  Array out(values.dtype(), shape);
  const auto* places = indices.as<int64_t>();
  const size_t size = size_of(values.dtype());
  for (int64_t i = 0; i < values.size(); ++i) {
    int64_t at = is_flat ? places[i] : 0;
    for (int64_t axis = 0; !is_flat && axis < rank; ++axis) {
      const int64_t place = places[i * rank + axis];
      if (place < 0 || place >= shape[axis]) bad_tensor(model, sparse.values, "has an index outside its shape");
      at = at * shape[axis] + place;
    }
    if (at < 0 || at >= total) bad_tensor(model, sparse.values, "has an index outside its shape");
    std::memcpy(static_cast<char*>(out.mutable_data()) + static_cast<size_t>(at) * size,
                values.as<char>() + static_cast<size_t>(i) * size, size);
  }
  return out;
}

Array constant_value(const Model& model, const Node& node) {
  if (node.attributes.size() == 1) {
    const Attribute& a = node.attributes[0];
    if (const auto* tensor = std::get_if<Tensor>(&a.value)) return read(model, *tensor);
    if (const auto* number = std::get_if<float>(&a.value)) return Array::scalar(DType::f32, double{*number});
    if (const auto* number = std::get_if<int64_t>(&a.value)) return Array::scalar(DType::i64, *number);
    if (const auto* list = std::get_if<std::vector<float>>(&a.value))
      return store(DType::f32, {static_cast<int64_t>(list->size())}, std::vector<double>(list->begin(), list->end()));
    if (const auto* list = std::get_if<std::vector<int64_t>>(&a.value))
      return store(DType::i64, {static_cast<int64_t>(list->size())}, *list);
    if (a.sparse != nullptr) return dense(model, *a.sparse);
  }
  throw Error(ErrorCode::gap, fmt::format("{}: the value of constant '{}' is not supported", model.file.string(),
                                          node.outputs.empty() ? node.name : node.outputs[0]))
      .expected("a tensor, a number or a list of numbers");
}

}  // namespace pycandle::onnx
