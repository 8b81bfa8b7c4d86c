#include "emit/onnx/graph_writer.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "base/dim_node.h"
#include "base/error.h"
#include "emit/onnx/forms.h"
#include "emit/onnx/kernels.h"

namespace pycandle::emit::onnx {

namespace {

Call call_of(const pycandle::Graph& g, const pycandle::Node& node) {
  return {*node.op, g, node.operands, node.attributes, node.regions};
}

bool is_symbol(Dim d) {
  const detail::DimNode& node = detail::DimNode::of(d);
  if (node.terms.size() != 1 || node.constant != 0) return false;
  const detail::Term& term = node.terms[0];
  return term.coefficient == 1 && term.atoms.size() == 1 && term.atoms[0]->kind == detail::AtomKind::symbol;
}

constexpr std::array<std::string_view, 5> kLate = {"constant", "numbers", "dim", "iota", "broadcast"};
constexpr int64_t kMostListed = 65536;        // elements of a range that are written one by one

}  // namespace

std::string GraphWriter::unique(const std::string& wanted) {
  std::string name = wanted;
  while (!writing_->used.insert(name).second) name = fmt::format("{}_{}", wanted, ++writing_->counts[wanted]);
  return name;
}

// ---- values

void GraphWriter::bind(ValueId v, std::string name) {
  const Shape& shape = type(v).shape;
  for (size_t axis = 0; axis < shape.size(); ++axis) {
    if (is_symbol(shape[axis])) symbols_.try_emplace(shape[axis].text(), name, static_cast<int64_t>(axis));
  }
  names_[v] = std::move(name);
}

bool GraphWriter::is_late(ValueId v) const {
  const NodeId n = source_->values[v].node;
  return n != kNoNode && std::find(kLate.begin(), kLate.end(), source_->nodes[n].op->name) != kLate.end();
}

std::string GraphWriter::name(ValueId v) {
  if (v == kNoValue) return "";
  if (const auto found = names_.find(v); found != names_.end()) return found->second;
  if (!is_late(v)) internal_error("an ONNX node reads a value before it is written");
  std::string name = write_late(v);
  bind(v, name);
  return name;
}

std::string GraphWriter::write_late(ValueId v) {
  const pycandle::Node& node = source_->nodes[source_->values[v].node];
  const Call c = call_of(*source_, node);
  const Type& result = type(v);
  if (node.op->name == "dim")
    return c.dim("value").is_number() ? scalar(c.dim("value").number(), DType::i64) : squeeze(dim(c.dim("value")), {0});
  if (node.op->name == "numbers") return tensor(store(result.dtype, evaluate(result.shape, {}), c.numbers("values")), "numbers");
  if (node.op->name == "iota") {
    const Dim size = c.dim("size");
    if (size.is_number() && size.number() <= kMostListed) {
      std::vector<int64_t> values = all_axes(0, size.number());
      return tensor(store(result.dtype, {size.number()}, values), "range");
    }
    const std::string range = this->node(
        "Range", {scalar(int64_t{0}, DType::i64), squeeze(dim(size), {0}), scalar(int64_t{1}, DType::i64)});
    return cast(range, DType::i64, result.dtype);
  }
  if (node.op->name == "constant") {
    const std::string value = scalar(c.scalar("value"), result.dtype);
    return result.shape.empty() ? value : run("Expand", {value, shape(result.shape)}, result.dtype);
  }
  const Small x = small(v);
  return run("Expand", {x.name, shape(result.shape)}, result.dtype);
}

// The value before it was broadcast: with axes of size 1 in place of those that it repeats, as many at the end as fit.
GraphWriter::Small GraphWriter::small(ValueId v) {
  const NodeId n = source_->values[v].node;
  const Type& result = type(v);
  if (n == kNoNode || names_.count(v) != 0) return {name(v), result.shape};
  const pycandle::Node& node = source_->nodes[n];
  const Call c = call_of(*source_, node);
  if (node.op->name == "constant") return {scalar(c.scalar("value"), result.dtype), {}};
  if (node.op->name != "broadcast") return {name(v), result.shape};
  Small x = small(c.value("x"));
  if (x.shape.empty()) return x;
  const Ints& axes = c.integers("axes");
  const auto rank = static_cast<int64_t>(result.shape.size());
  const int64_t first = rank - static_cast<int64_t>(axes.size());
  if (axes == all_axes(first, rank)) return x;
  if (x.shape.size() != axes.size()) x = {name(c.value("x")), c.shape("x")};
  Ints inserted;
  Shape shape;
  for (int64_t axis = axes.front(); axis < rank; ++axis) {
    const auto at = std::find(axes.begin(), axes.end(), axis);
    if (at == axes.end()) inserted.push_back(axis - axes.front());
    shape.push_back(at == axes.end() ? Dim(1) : x.shape[static_cast<size_t>(at - axes.begin())]);
  }
  return {unsqueeze(x.name, inserted), shape};
}

Names GraphWriter::broadcasting(const Values& values, const Shape& result) {
  std::vector<Small> found;
  for (const ValueId v : values) found.push_back(small(v));
  for (size_t back = 1; back <= result.size(); ++back) {
    const Dim size = result[result.size() - back];
    const bool has = std::any_of(found.begin(), found.end(), [&](const Small& s) {
      return size == Dim(1) || (back <= s.shape.size() && s.shape[s.shape.size() - back] == size);
    });
    if (has &&
        (size != Dim(1) || std::any_of(found.begin(), found.end(), [&](const Small& s) { return back <= s.shape.size(); })))
      continue;
    found[0] = {name(values[0]), type(values[0]).shape};
    break;
  }
  Names names;
  for (const Small& s : found) names.push_back(s.name);
  return names;
}

void GraphWriter::write_all() {
  for (const pycandle::Node& node : source_->nodes) {
    if (!node.results.empty() && is_late(node.results[0])) continue;
    origin_ = &node.origin;
    op_ = node.op->name;
    const Call c = call_of(*source_, node);
    const Form* form = form_of(c, opset());
    if (form == nullptr) internal_error(fmt::format("{} has no form in ONNX", node.op->name));
    const Names results = form->write({*this, c, node});
    for (size_t i = 0; i < node.results.size(); ++i) bind(node.results[i], results.at(i));
  }
}

// ---- nodes

std::string GraphWriter::place() const {
  if (origin_ == nullptr) return "";
  std::string path = writing_->program.module_path(*origin_);
  path.resize(std::min(path.size(), path.find('@')));
  std::replace(path.begin(), path.end(), '.', '/');
  return path.empty() ? "" : "/" + path;
}

// Modules, classes and the Python line, as torch's exporter writes them: readers that know it, ours too, find the modules again.
std::vector<std::pair<std::string, std::string>> GraphWriter::metadata() const {
  if (origin_ == nullptr || origin_->call < 0) return {};
  const Program& p = writing_->program;
  std::string scopes, classes;
  const auto add_before = [](std::string& list, const std::string& text) {
    list = fmt::format("'{}'{}{}", text, list.empty() ? "" : ", ", list);
  };
  add_before(scopes, op_);
  add_before(classes, op_);
  for (int32_t call = origin_->call; call >= 0; call = p.calls[call].parent) {
    const ModuleCall& c = p.calls[call];
    add_before(scopes, c.call == 0 ? c.path : fmt::format("{}@{}", c.path, c.call));
    add_before(classes, c.class_name);
  }
  std::vector<std::pair<std::string, std::string>> entries{{"pkg.torch.onnx.name_scopes", "[" + scopes + "]"},
                                                           {"pkg.torch.onnx.class_hierarchy", "[" + classes + "]"}};
  if (origin_->file >= 0) {
    entries.emplace_back("pkg.torch.onnx.stack_trace",
                         fmt::format("File \"{}\", line {}, in forward\n    {}", p.files[origin_->file].path, origin_->line,
                                     p.source_line(*origin_)));
  }
  return entries;
}

Names GraphWriter::nodes(const std::string& op, Names inputs, OnnxAttributes attributes, size_t outputs) {
  OnnxNode node{op, unique(place() + "/" + op), std::move(inputs), {}, std::move(attributes), metadata()};
  for (size_t i = 0; i < outputs; ++i) node.outputs.push_back(unique(fmt::format("{}_output_{}", node.name, i)));
  graph_.nodes.push_back(std::move(node));
  return graph_.nodes.back().outputs;
}

std::string GraphWriter::node(const std::string& op, Names inputs, OnnxAttributes attributes) {
  return nodes(op, std::move(inputs), std::move(attributes))[0];
}

std::string GraphWriter::cast(const std::string& x, DType from, DType to) {
  if (from == to) return x;
  return node("Cast", {x}, {{"to", static_cast<int64_t>(element_type(to))}});
}

std::string GraphWriter::run(const std::string& op, Names inputs, DType dtype, OnnxAttributes attributes, bool is_same) {
  const DType kernel = kernel_dtype(op, dtype);
  if (kernel == dtype) return node(op, std::move(inputs), std::move(attributes));
  const size_t count = values_among_inputs(op, inputs.size());
  const size_t first = op == "Where" ? 1 : 0;
  for (size_t i = first; i < count; ++i) {
    if (!inputs[i].empty()) inputs[i] = cast(inputs[i], dtype, kernel);
  }
  const std::string y = node(op, std::move(inputs), std::move(attributes));
  return is_same ? cast(y, kernel, dtype) : y;
}

// ---- constants

std::string GraphWriter::scalar(const Scalar& value, DType dtype) {
  const std::string key = fmt::format("{} {}", to_string(value), name_of(dtype));
  for (const GraphWriter* w = this; w != nullptr; w = w->outer_) {
    if (const auto found = w->constants_.find(key); found != w->constants_.end()) return found->second;
  }
  const std::string name = unique(fmt::format("constant_{}", name_of(dtype)));
  graph_.initializers.emplace_back(name, Array::scalar(dtype, value));
  return constants_[key] = name;
}

std::string GraphWriter::ints(const Ints& values) {
  const std::string key = to_string(Sizes(values));
  for (const GraphWriter* w = this; w != nullptr; w = w->outer_) {
    if (const auto found = w->constants_.find(key); found != w->constants_.end()) return found->second;
  }
  const std::string name = unique("integers");
  graph_.initializers.emplace_back(name, store(DType::i64, {static_cast<int64_t>(values.size())}, values));
  return constants_[key] = name;
}

std::string GraphWriter::tensor(const Array& array, const std::string& hint) {
  const std::string name = unique(hint);
  graph_.initializers.emplace_back(name, array);
  return name;
}

// ---- sizes

bool GraphWriter::may_be(Dim d, int64_t value) const { return equal(d, value, writing_->ranges) != Tri::no; }

std::string GraphWriter::symbol(const std::string& symbol) {
  for (const GraphWriter* w = this; w != nullptr; w = w->outer_) {
    const auto found = w->symbols_.find(symbol);
    if (found == w->symbols_.end()) continue;
    const auto& [value, axis] = found->second;
    return node("Shape", {value}, {{"start", axis}, {"end", axis + 1}});
  }
  throw Error(ErrorCode::gap, "a size cannot be computed in the ONNX file").found(symbol + ", which no value has as a size");
}

namespace {

std::string written_real(GraphWriter& w, const detail::RealNode& real) {
  using Kind = detail::RealNode::Kind;
  switch (real.kind) {
    case Kind::dim: return w.cast(w.dim(real.dim), DType::i64, DType::f64);
    case Kind::number: return w.scalar(real.number, DType::f64);
    case Kind::add: return w.node("Add", {written_real(w, *real.left), written_real(w, *real.right)});
    case Kind::mul: return w.node("Mul", {written_real(w, *real.left), written_real(w, *real.right)});
    case Kind::div: return w.node("Div", {written_real(w, *real.left), written_real(w, *real.right)});
  }
  internal_error("a kind of number that sizes do not have");
}

std::string written_atom(GraphWriter& w, const detail::Atom& atom) {
  const auto argument = [&](size_t i) { return w.dim(atom.args[i]); };
  switch (atom.kind) {
    case detail::AtomKind::symbol: internal_error("a symbol is read from a shape");
    case detail::AtomKind::floordiv: {  // Div rounds to zero
      const std::string a = argument(0), b = argument(1);
      const bool is_positive = at_most(0, atom.args[0], w.ranges()) == Tri::yes &&
                               at_most(1, atom.args[1], w.ranges()) == Tri::yes;
      return w.node("Div", {is_positive ? a : w.node("Sub", {a, w.node("Mod", {a, b})}), b});
    }
    case detail::AtomKind::mod: return w.node("Mod", {argument(0), argument(1)});
    case detail::AtomKind::min:
    case detail::AtomKind::max: {
      Names all;
      for (size_t i = 0; i < atom.args.size(); ++i) all.push_back(argument(i));
      return w.node(atom.kind == detail::AtomKind::min ? "Min" : "Max", all);
    }
    case detail::AtomKind::rounded: break;
  }
  std::string real = written_real(w, *atom.real);
  if (atom.rounding == DimRounding::floor) real = w.node("Floor", {real});
  if (atom.rounding == DimRounding::ceil) real = w.node("Ceil", {real});
  if (atom.rounding == DimRounding::round) real = w.node("Round", {real});
  return w.reshape(w.cast(real, DType::f64, DType::i64), {}, {Dim(1)});
}

}  // namespace

std::string GraphWriter::written_dim(Dim d) {
  const detail::DimNode& node = detail::DimNode::of(d);
  if (node.terms.empty()) return ints({node.constant});
  std::string sum;
  for (const detail::Term& term : node.terms) {
    std::string product;
    for (const detail::Atom* atom : term.atoms) {
      const Dim alone = detail::make_dim(atom);
      const std::string factor = alone != d                               ? dim(alone)
                                 : atom->kind == detail::AtomKind::symbol ? symbol(atom->text)
                                                                          : written_atom(*this, *atom);
      product = product.empty() ? factor : this->node("Mul", {product, factor});
    }
    const bool is_less = !sum.empty() && term.coefficient < 0;
    const int64_t coefficient = is_less ? -term.coefficient : term.coefficient;
    if (coefficient != 1) product = this->node("Mul", {product, ints({coefficient})});
    sum = sum.empty() ? product : this->node(is_less ? "Sub" : "Add", {sum, product});
  }
  if (node.constant > 0) return this->node("Add", {sum, ints({node.constant})});
  return node.constant < 0 ? this->node("Sub", {sum, ints({-node.constant})}) : sum;
}

std::string GraphWriter::dim(Dim d) {
  if (d.is_number()) return ints({d.number()});
  const std::string key = d.text();
  for (const GraphWriter* w = this; w != nullptr; w = w->outer_) {
    if (const auto found = w->dims_.find(key); found != w->dims_.end()) return found->second;
  }
  std::string name = written_dim(d);
  return dims_[key] = name;
}

std::string GraphWriter::shape(const Shape& sizes) {
  Names parts;
  Ints numbers;
  const auto finish = [&] {
    if (!numbers.empty()) parts.push_back(ints(numbers));
    numbers.clear();
  };
  for (const Dim size : sizes) {
    if (size.is_number()) {
      numbers.push_back(size.number());
      continue;
    }
    finish();
    parts.push_back(dim(size));
  }
  finish();
  if (parts.empty()) return ints({});
  if (parts.size() == 1) return parts[0];
  const std::string key = "shape " + to_string(sizes);
  if (const auto found = dims_.find(key); found != dims_.end()) return found->second;
  return dims_[key] = node("Concat", parts, {{"axis", int64_t{0}}});
}

std::string GraphWriter::reshape(const std::string& x, const Shape& from, const Shape& to) {
  // 0 copies the size of that axis, -1 is what is left; neither serves where a size may be zero.
  Ints numbers;
  int inferred = 0;
  bool has_zero = false;
  for (size_t i = 0; i < to.size(); ++i) {
    const auto number = to[i].maybe_number();
    const bool is_kept = !number && i < from.size() && from[i] == to[i];
    has_zero = has_zero || may_be(to[i], 0);
    inferred += !number && !is_kept ? 1 : 0;
    numbers.push_back(number ? *number : is_kept ? 0 : -1);
  }
  if (inferred == 0 && std::find(to.begin(), to.end(), Dim(0)) == to.end()) return node("Reshape", {x, ints(numbers)});
  if (inferred == 1 && !has_zero) return node("Reshape", {x, ints(numbers)});
  return node("Reshape", {x, shape(to)}, {{"allowzero", int64_t{1}}});
}

std::string GraphWriter::unsqueeze(const std::string& x, const Ints& axes) { return node("Unsqueeze", {x, ints(axes)}); }
std::string GraphWriter::squeeze(const std::string& x, const Ints& axes) { return node("Squeeze", {x, ints(axes)}); }

std::string GraphWriter::transpose(const std::string& x, const Ints& permutation) {
  if (std::is_sorted(permutation.begin(), permutation.end())) return x;
  return node("Transpose", {x}, {{"perm", permutation}});
}

std::string GraphWriter::slice(const std::string& x, int64_t axis, Dim start, Dim stop) {
  return node("Slice", {x, dim(start), dim(stop), ints({axis})});
}

}  // namespace pycandle::emit::onnx
