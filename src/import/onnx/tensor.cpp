// The values of tensors: in the file, beside it, or in a Constant node.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstring>

#include "base/error.h"
#include "import/onnx/message.h"
#include "import/onnx/model.h"

namespace pycandle::onnx {

namespace {

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
    {"uint16", {}},
    {"int16", DType::i16},
    {"int32", DType::i32},
    {"int64", DType::i64},
    {"string", {}},
    {"bool", DType::boolean},
    {"float16", DType::f16},
    {"double", DType::f64},
    {"uint32", {}},
    {"uint64", {}},
    {"complex64", DType::c64},
    {"complex128", DType::c128},
    {"bfloat16", DType::bf16},
    {"float8e4m3fn", {}},
    {"float8e4m3fnuz", {}},
    {"float8e5m2", {}},
    {"float8e5m2fnuz", {}},
    {"uint4", {}},
    {"int4", {}},
    {"float4e2m1", {}},
    {"float8e8m0", {}},
    {"uint2", {}},
    {"int2", {}},
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

// The numbers of float_data, int32_data and the like.
template <class Number> Array typed_array(DType dtype, const Sizes& shape, const std::vector<Number>& numbers) {
  if constexpr (std::is_same_v<Number, int64_t>) {
    if (dtype == DType::f16 || dtype == DType::bf16) {  // their bits
      Array out(dtype, shape);
      auto* bits = out.mutable_as<uint16_t>();
      for (size_t i = 0; i < numbers.size(); ++i) bits[i] = static_cast<uint16_t>(numbers[i]);
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
      case 7: m.integers(integers); break;
      case 10: m.doubles(doubles); break;
      default: m.skip();
    }
  }
  const auto count = static_cast<size_t>(element_count(shape)) * (is_complex(dtype) ? 2 : 1);
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
  if (data.bytes.size() / size_of(*dtype) != static_cast<size_t>(count) || data.bytes.size() % size_of(*dtype) != 0)
    bad_tensor(
        model, t, "has another number of bytes than its shape says",
        fmt::format("{} for {}{}", static_cast<size_t>(count) * size_of(*dtype), pycandle::name_of(*dtype), to_string(shape)),
        fmt::format("{}", data.bytes.size()));
  const bool is_aligned = reinterpret_cast<uintptr_t>(data.bytes.data()) % size_of(*dtype) == 0;
  // A bool is 0 or 1 in memory, whatever the file holds.
  if (*dtype == DType::boolean) return store(*dtype, shape, std::vector<int64_t>(data.bytes.begin(), data.bytes.end()));
  if (is_aligned && data.owner) return Array(*dtype, shape, data.bytes.data(), data.owner);
  Array copy(*dtype, shape);
  if (count > 0) std::memcpy(copy.mutable_data(), data.bytes.data(), data.bytes.size());
  return copy;
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
  }
  throw Error(ErrorCode::gap, fmt::format("{}: the value of constant '{}' is not supported", model.file.string(),
                                          node.outputs.empty() ? node.name : node.outputs[0]))
      .expected("a tensor, a number or a list of numbers");
}

}  // namespace pycandle::onnx
