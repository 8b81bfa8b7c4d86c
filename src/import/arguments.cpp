// Typed values of a manifest: types, dims, arguments, trees.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "import/manifest.h"

namespace pycandle {
namespace {

constexpr int64_t kLargestSize = int64_t{1} << 48;
constexpr size_t kLargestRank = 64;

// The name of an object with one entry: {"dim": …} → "dim".
std::string only_key(const Field& f) {
  if (f.json().size() != 1)
    f.fail("an argument object has exactly one entry",
           "one of v, float, complex, dim, dtype, device, layout, memory_format, graph");
  return f.json().begin().key();
}

double float_value(const Field& f) {
  if (f.json().is_string()) {
    std::string text = f.string();
    if (text == "inf") return std::numeric_limits<double>::infinity();
    if (text == "-inf") return -std::numeric_limits<double>::infinity();
    if (text == "nan") return std::numeric_limits<double>::quiet_NaN();
    f.fail("this is not a number", "a number, \"inf\", \"-inf\" or \"nan\"", "\"" + text + "\"");
  }
  return f.number();
}

}  // namespace

ValueReader::ValueReader(const std::vector<Symbol>& symbols) {
  for (const Symbol& symbol : symbols) symbols_.push_back(symbol.name);
}

Dim ValueReader::dim_text(const Field& f) const {
  std::string text = f.string();
  auto known = dims_.find(text);
  if (known != dims_.end()) return known->second;
  Dim dim;
  try {
    dim = Dim::parse(text);
  } catch (Error& error) {
    f.fail("this is not a size: " + error.message(), error.expected(), error.found().empty() ? text : error.found());
  }
  std::vector<std::string> used;
  dim.collect_symbols(used);
  for (const std::string& name : used)
    if (std::find(symbols_.begin(), symbols_.end(), name) == symbols_.end())
      f.fail(fmt::format("the size uses symbol {}, which the manifest does not have", name),
             fmt::format("{}", fmt::join(symbols_, ", ")), text);
  dims_.emplace(std::move(text), dim);
  return dim;
}

Dim ValueReader::dim(const Field& f) const {
  if (f.json().is_string()) return dim_text(f);
  return Dim(f.integer(0, kLargestSize));
}

DType ValueReader::dtype(const Field& f) const {
  std::string name = f.string();
  auto dtype = dtype_from_name(name);
  if (!dtype) f.fail("there is no such dtype", "f64 f32 f16 bf16 i64 i32 i16 i8 u8 bool c64 c128", name);
  return *dtype;
}

Type ValueReader::type(const Field& object) const {
  Type type;
  type.dtype = dtype(object["dtype"]);
  Field shape = object["shape"];
  if (shape.size() > kLargestRank)
    shape.fail("the rank is too large", fmt::format("at most {}", kLargestRank), fmt::format("{}", shape.size()));
  int64_t count = 1;
  for (size_t i = 0; i < shape.size(); ++i) {
    type.shape.push_back(dim(shape[i]));
    auto size = type.shape.back().maybe_number();
    if (size && *size < 0) shape[i].fail("a size is negative", "0 or more", type.shape.back().text());
    if (size && *size > 0 && __builtin_mul_overflow(count, *size, &count))
      shape.fail("the tensor has too many elements", "fewer than 2^63");
  }
  return type;
}

ValueId ValueReader::used(const Field& f, const PerValue<bool>& defined) const {
  const auto id = static_cast<ValueId>(f.integer(0, std::numeric_limits<ValueId>::max()));
  if (!defined.has(id) || !defined[id])
    f.fail(fmt::format("value {} is used but not defined before", id), "the id of an input, parameter, state or earlier result",
           fmt::format("{}", id));
  return id;
}

Argument ValueReader::argument(const Field& f, const PerValue<bool>& defined) const {
  const Json& json = f.json();
  if (json.is_null()) return {};
  if (json.is_boolean()) return {json.get<bool>()};
  if (json.is_number_integer()) return {f.integer()};
  if (json.is_string()) return {json.get<std::string>()};
  if (json.is_array()) {
    Argument::List list;
    list.reserve(f.size());
    for (size_t i = 0; i < f.size(); ++i) list.push_back(argument(f[i], defined));
    return {std::move(list)};
  }
  if (!json.is_object()) f.fail("this is not an argument: floats are written {\"float\": 0.5}", "", f.kind());
  std::string key = only_key(f);
  Field inner = f[key];
  if (key == "v") return {Argument::Tensor{used(inner, defined)}};
  if (key == "float") return {float_value(inner)};
  if (key == "dim") return {dim_text(inner)};
  if (key == "dtype") return {dtype(inner)};
  if (key == "device") return {Argument::Device{inner.string()}};
  if (key == "layout") return {Argument::Layout{inner.string()}};
  if (key == "memory_format") return {Argument::MemoryFormat{inner.string()}};
  if (key == "graph") return {Argument::Subgraph{static_cast<int32_t>(inner.integer(0, std::numeric_limits<int32_t>::max()))}};
  if (key == "complex") {
    if (inner.size() != 2) inner.fail("a complex number has two parts", "[re, im]");
    return {std::complex<double>(float_value(inner[0]), float_value(inner[1]))};
  }
  f.fail("there is no such kind of argument", "v, float, complex, dim, dtype, device, layout, memory_format or graph", key);
}

Tree ValueReader::tree(const Field& f, const PerValue<bool>& defined) const {
  const Json& json = f.json();
  Tree tree;
  if (json.is_null()) return tree;
  if (json.is_array()) {
    tree.kind = Tree::Kind::list;
    for (size_t i = 0; i < f.size(); ++i) tree.items.emplace_back("", this->tree(f[i], defined));
    return tree;
  }
  if (json.is_object() && f.has("dict")) {
    Field entries = f["dict"];
    tree.kind = Tree::Kind::dict;
    entries.each_entry(
        [&](const std::string& name, const Field& entry) { tree.items.emplace_back(name, this->tree(entry, defined)); });
    return tree;
  }
  if (json.is_object() && f.has("object")) {
    tree.kind = Tree::Kind::object;
    tree.type_name = f["object"].string();
    return tree;
  }
  tree.kind = Tree::Kind::literal;
  if (json.is_boolean()) {
    tree.literal = json.get<bool>();
  } else if (json.is_number_integer()) {
    tree.literal = f.integer();
  } else if (json.is_number()) {
    tree.literal = f.number();
  } else if (json.is_string()) {
    tree.literal = f.string();
  } else {
    std::string key = only_key(f);
    Field inner = f[key];
    if (key == "v") {
      tree.kind = Tree::Kind::value;
      tree.value = used(inner, defined);
    } else if (key == "float") {
      tree.literal = float_value(inner);
    } else if (inner.json().is_string()) {
      tree.literal = key == "dim" ? dim_text(inner).text() : inner.string();  // sizes and dtypes by their names
    } else {
      tree.literal = inner.json().dump();
    }
  }
  return tree;
}

}  // namespace pycandle
