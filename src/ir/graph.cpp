#include "ir/graph.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/error.h"
#include "ir/op_def.h"

namespace pycandle {

std::string Type::text() const { return std::string(name_of(dtype)) + to_string(shape); }

Attribute attribute(const Scalar& scalar) {
  return std::visit([](const auto& value) { return Attribute(value); }, scalar);
}

Scalar scalar_of(const Attribute& attribute) {
  return std::visit(
      [&](const auto& value) -> Scalar {
        if constexpr (std::is_constructible_v<Scalar, const decltype(value)&> &&
                      !std::is_same_v<std::decay_t<decltype(value)>, DType>) {
          return value;
        } else {
          internal_error("attribute " + to_string(attribute) + " is not a scalar");
        }
      },
      attribute);
}

namespace {

bool same_number(double a, double b) { return std::isnan(a) ? std::isnan(b) : a == b && std::signbit(a) == std::signbit(b); }

template <class T> bool same_value(const T& a, const T& b) {
  if constexpr (std::is_same_v<T, double>) {
    return same_number(a, b);
  } else if constexpr (std::is_same_v<T, std::complex<double>>) {
    return same_number(a.real(), b.real()) && same_number(a.imag(), b.imag());
  } else if constexpr (std::is_same_v<T, Numbers>) {
    return std::equal(a.begin(), a.end(), b.begin(), b.end(), same_number);
  } else {
    return a == b;
  }
}

template <class Variant> bool same_variant(const Variant& a, const Variant& b) {
  if (a.index() != b.index()) return false;
  return std::visit([&](const auto& left) { return same_value(left, std::get<std::decay_t<decltype(left)>>(b)); }, a);
}

template <class T, class Print> std::string list_text(const std::vector<T>& items, const Print& print) {
  std::string text = "[";
  for (const T& item : items) {
    if (text.size() > 1) text += ", ";
    text += print(item);
  }
  return text + "]";
}

struct AttributeText {
  std::string operator()(std::monostate) const { return "none"; }
  std::string operator()(bool value) const { return value ? "true" : "false"; }
  std::string operator()(int64_t value) const { return std::to_string(value); }
  std::string operator()(double value) const { return to_string(Scalar(value)); }
  std::string operator()(const std::complex<double>& value) const {
    return fmt::format("complex({}, {})", (*this)(value.real()), (*this)(value.imag()));
  }
  std::string operator()(const std::string& value) const { return quoted(value); }
  std::string operator()(DType value) const { return std::string(name_of(value)); }
  std::string operator()(Dim value) const { return value.text(); }
  std::string operator()(const Ints& values) const { return list_text(values, *this); }
  std::string operator()(const Numbers& values) const { return list_text(values, *this); }
  std::string operator()(const Dims& values) const { return list_text(values, *this); }
};

}  // namespace

bool same(const Attribute& a, const Attribute& b) { return same_variant(a, b); }

bool same(const Attributes& a, const Attributes& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const auto& left, const auto& right) {
    return left.first == right.first && same(left.second, right.second);
  });
}

std::string to_string(const Attribute& attribute) { return std::visit(AttributeText{}, attribute); }

std::string quoted(std::string_view text) {
  std::string result = "\"";
  for (char c : text) {
    switch (c) {
      case '"': result += "\\\""; break;
      case '\\': result += "\\\\"; break;
      case '\n': result += "\\n"; break;
      case '\t': result += "\\t"; break;
      case '\r': result += "\\r"; break;
      default:
        if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) {
          result += fmt::format("\\u{:04x}", static_cast<unsigned char>(c));
        } else {
          result += c;
        }
    }
  }
  return result + "\"";
}

ValueId Graph::add_input(Type type) {
  ValueId id = static_cast<ValueId>(values.size());
  values.push_back({std::move(type), -1, static_cast<int32_t>(inputs.size())});
  inputs.push_back(id);
  return id;
}

Node& Graph::add_node(Node node, std::vector<Type> results) {
  node.results.clear();
  NodeId position = static_cast<NodeId>(nodes.size());
  for (Type& type : results) {
    int32_t index = static_cast<int32_t>(node.results.size());
    node.results.push_back(static_cast<ValueId>(values.size()));
    values.push_back({std::move(type), position, index});
  }
  return nodes.emplace_back(std::move(node));
}

Tree::Tree() = default;
Tree::Tree(const Tree&) = default;
Tree::Tree(Tree&&) noexcept = default;
Tree& Tree::operator=(const Tree&) = default;
Tree& Tree::operator=(Tree&&) noexcept = default;
Tree::~Tree() = default;

void Program::bind_outputs() {
  graph.outputs.clear();
  for (const Output& output : outputs) graph.outputs.push_back(output.value);
  for (const State& state : states) {
    if (state.updated != kNoValue) graph.outputs.push_back(state.updated);
  }
}

SymbolRanges Program::ranges() const {
  SymbolRanges result;
  for (const Symbol& symbol : symbols) result.emplace(symbol.name, symbol.range);
  return result;
}

namespace {

template <class T> const T* entry(const std::vector<T>& table, int32_t index) {
  return index >= 0 && static_cast<size_t>(index) < table.size() ? &table[index] : nullptr;
}

}  // namespace

std::string Program::module_path(const Origin& origin) const {
  const ModuleCall* call = entry(calls, origin.call);
  return call && !call->path.empty() ? fmt::format("{}@{}", call->path, call->call) : "";
}

std::string Program::file_line(const Origin& origin) const {
  const SourceFile* file = entry(files, origin.file);
  return file ? fmt::format("{}:{}", file->path, origin.line) : "";
}

std::string Program::source_line(const Origin& origin) const {
  const SourceFile* file = entry(files, origin.file);
  if (!file) return "";
  auto found = std::lower_bound(file->lines.begin(), file->lines.end(), origin.line,
                                [](const auto& line, int32_t number) { return line.first < number; });
  return found != file->lines.end() && found->first == origin.line ? found->second : "";
}

// ---- comparison

namespace {

// Walks two graphs together and remembers which value of one stands for which of the other.
class Comparison {
 public:
  Comparison(const Graph& a, const Graph& b, bool origins)
      : a_(a), b_(b), origins_(origins), partner_(a.values.size(), kNoValue) {}

  bool graphs() {
    if (a_.inputs.size() != b_.inputs.size() || a_.nodes.size() != b_.nodes.size()) return false;
    if (!pair(a_.inputs, b_.inputs)) return false;
    for (size_t i = 0; i < a_.nodes.size(); ++i) {
      if (!nodes(a_.nodes[i], b_.nodes[i])) return false;
    }
    return values(a_.outputs, b_.outputs);
  }

  bool value(ValueId a, ValueId b) const {
    if (a == kNoValue || b == kNoValue) return a == b;
    return partner_.at(a) == b;
  }

  bool values(const Values& a, const Values& b) const {
    return std::equal(a.begin(), a.end(), b.begin(), b.end(), [this](ValueId x, ValueId y) { return value(x, y); });
  }

 private:
  bool pair(const Values& a, const Values& b) {
    if (a.size() != b.size()) return false;
    for (size_t i = 0; i < a.size(); ++i) {
      if (a_.type(a[i]) != b_.type(b[i])) return false;
      partner_.at(a[i]) = b[i];
    }
    return true;
  }

  bool nodes(const Node& a, const Node& b) {
    if (a.op != b.op && a.op->name != b.op->name) return false;
    if (origins_ && a.origin != b.origin) return false;
    if (!values(a.operands, b.operands) || !same(a.attributes, b.attributes)) return false;
    if (a.regions.size() != b.regions.size()) return false;
    for (size_t i = 0; i < a.regions.size(); ++i) {
      if (!Comparison(a.regions[i], b.regions[i], origins_).graphs()) return false;
    }
    return pair(a.results, b.results);
  }

  const Graph& a_;
  const Graph& b_;
  bool origins_;
  Values partner_;  // of each value of a_
};

template <class T, class Equal> bool all_equal(const std::vector<T>& a, const std::vector<T>& b, const Equal& equal) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), equal);
}

bool trees(const Comparison& graphs, const Tree& a, const Tree& b) {
  return a.kind == b.kind && graphs.value(a.value, b.value) && same_variant(a.literal, b.literal) && a.type_name == b.type_name &&
         all_equal(a.items, b.items,
                   [&](const auto& x, const auto& y) { return x.first == y.first && trees(graphs, x.second, y.second); });
}

bool calls_equal(const Comparison& graphs, const ModuleCall& a, const ModuleCall& b) {
  auto named = [](const auto& x, const auto& y) { return x.first == y.first && same_variant(x.second, y.second); };
  return a.path == b.path && a.call == b.call && a.class_name == b.class_name && a.parent == b.parent &&
         a.class_file == b.class_file && a.class_line == b.class_line && a.forward_line == b.forward_line &&
         all_equal(a.attributes, b.attributes, named) && all_equal(a.config, b.config, named) &&
         all_equal(a.args, b.args,
                   [&](const auto& x, const auto& y) { return x.first == y.first && trees(graphs, x.second, y.second); }) &&
         trees(graphs, a.output, b.output);
}

}  // namespace

bool structurally_equal(const Graph& a, const Graph& b) { return Comparison(a, b, false).graphs(); }

bool identical(const Program& a, const Program& b) {
  Comparison graphs(a.graph, b.graph, true);
  if (a.name != b.name || !graphs.graphs()) return false;
  return all_equal(a.symbols, b.symbols,
                   [](const Symbol& x, const Symbol& y) {
                     return x.name == y.name && x.range.min == y.range.min && x.range.max == y.range.max &&
                            x.example == y.example && x.input == y.input && x.axis == y.axis;
                   }) &&
         all_equal(a.inputs, b.inputs,
                   [&](const Input& x, const Input& y) {
                     return x.name == y.name && graphs.value(x.value, y.value) && x.range == y.range && x.used == y.used &&
                            x.gap == y.gap;
                   }) &&
         all_equal(a.parameters, b.parameters,
                   [&](const Parameter& x, const Parameter& y) {
                     return x.name == y.name && x.aliases == y.aliases && x.kind == y.kind && x.persistent == y.persistent &&
                            graphs.value(x.value, y.value) && x.type == y.type && x.file == y.file && x.key == y.key;
                   }) &&
         all_equal(a.states, b.states,
                   [&](const State& x, const State& y) {
                     return x.name == y.name && graphs.value(x.value, y.value) && graphs.value(x.updated, y.updated) &&
                            x.file == y.file && x.key == y.key;
                   }) &&
         all_equal(a.outputs, b.outputs,
                   [&](const Output& x, const Output& y) { return x.name == y.name && graphs.value(x.value, y.value); }) &&
         all_equal(a.taps, b.taps,
                   [&](const Tap& x, const Tap& y) {
                     return x.id == y.id && graphs.value(x.value, y.value) && x.key == y.key && x.inside == y.inside;
                   }) &&
         all_equal(a.checks, b.checks,
                   [](const Check& x, const Check& y) {
                     return x.left == y.left && x.right == y.right && x.what == y.what && x.origin == y.origin;
                   }) &&
         all_equal(a.calls, b.calls, [&](const ModuleCall& x, const ModuleCall& y) { return calls_equal(graphs, x, y); }) &&
         all_equal(a.files, b.files,
                   [](const SourceFile& x, const SourceFile& y) { return x.path == y.path && x.lines == y.lines; });
}

}  // namespace pycandle
