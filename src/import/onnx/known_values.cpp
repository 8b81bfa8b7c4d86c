#include "import/onnx/known_values.h"

#include <algorithm>
#include <functional>
#include <map>

#include "base/error.h"
#include "ir/evaluation.h"
#include "ir/op_def.h"

namespace pycandle::onnx {
namespace {

constexpr int64_t kMostElements = 4096;

bool is_small(const Type& type) {
  if (!all_numbers(type.shape)) return false;
  int64_t count = 1;
  for (const Dim d : type.shape) {
    if (d.number() > kMostElements) return false;
    count *= d.number();
    if (count > kMostElements) return false;
  }
  return true;
}

Sizes sizes_of(const Shape& shape) {
  Sizes sizes;
  for (const Dim d : shape) sizes.push_back(d.number());
  return sizes;
}

std::vector<Array> evaluated(const pycandle::Graph& g, const pycandle::Node& node, const std::vector<Array>& operands) {
  std::vector<const Array*> pointers;
  for (size_t i = 0; i < operands.size(); ++i) pointers.push_back(node.operands[i] == kNoValue ? nullptr : &operands[i]);
  const Bindings none;
  return node.op->evaluate(Evaluation(node, g, std::move(pointers), none, false, nullptr));
}

using DimFunction = std::optional<Dim> (*)(Dim, Dim, const SymbolRanges&);

// A size is 0 or more, so that rounding to zero is rounding down.
std::optional<Dim> divided(Dim a, Dim b, const SymbolRanges& ranges) {
  const auto by = b.maybe_number();
  if (!by || *by <= 0 || at_most(Dim(0), a, ranges) != Tri::yes) return std::nullopt;
  return floordiv(a, b);
}

std::optional<Dim> answer(Tri tri) {
  if (tri == Tri::unknown) return std::nullopt;
  return Dim(int64_t{tri == Tri::yes});
}

const std::map<std::string_view, DimFunction>& dim_functions() {
  static const std::map<std::string_view, DimFunction> table = {
      {"add", [](Dim a, Dim b, const SymbolRanges&) { return std::optional(a + b); }},
      {"sub", [](Dim a, Dim b, const SymbolRanges&) { return std::optional(a - b); }},
      {"mul", [](Dim a, Dim b, const SymbolRanges&) { return std::optional(a * b); }},
      {"minimum", [](Dim a, Dim b, const SymbolRanges&) { return std::optional(min(a, b)); }},
      {"maximum", [](Dim a, Dim b, const SymbolRanges&) { return std::optional(max(a, b)); }},
      {"trunc_divide", divided},
      {"floor_divide", divided},
      {"eq", [](Dim a, Dim b, const SymbolRanges& r) { return answer(equal(a, b, r)); }},
      {"le", [](Dim a, Dim b, const SymbolRanges& r) { return answer(at_most(a, b, r)); }},
      {"lt", [](Dim a, Dim b, const SymbolRanges& r) { return answer(at_most(a + 1, b, r)); }},
      {"ge", [](Dim a, Dim b, const SymbolRanges& r) { return answer(at_most(b, a, r)); }},
      {"gt", [](Dim a, Dim b, const SymbolRanges& r) { return answer(at_most(b + 1, a, r)); }},
  };
  return table;
}

bool holds_sizes(DType d) { return is_integral(d) || d == DType::boolean; }

}  // namespace

const KnownValues::Value* KnownValues::find(ValueId v) const { return values_.has(v) && values_[v] ? &*values_[v] : nullptr; }

void KnownValues::set(ValueId v, Array array) {
  if (array.size() > kMostElements) return;
  if (!values_.has(v)) values_.resize(v + 1);
  Value value;
  if (holds_sizes(array.dtype()))
    for (const int64_t number : load_int(array)) value.dims.emplace_back(number);
  value.array = std::move(array);
  values_[v] = std::move(value);
}

void KnownValues::adopt(const KnownValues& others, ValueId theirs, ValueId mine) {
  const Value* value = others.find(theirs);
  if (value == nullptr) return;
  if (!values_.has(mine)) values_.resize(mine + 1);
  values_[mine] = *value;
}

void KnownValues::keep(const pycandle::Graph& g, ValueId v, std::vector<Dim> dims) {
  const Type& type = g.type(v);
  if (all_numbers(dims)) return set(v, store(type.dtype, sizes_of(type.shape), sizes_of(dims)));
  if (!values_.has(v)) values_.resize(v + 1);
  values_[v] = Value{std::nullopt, std::move(dims)};
}

void KnownValues::update(const pycandle::Graph& g) {
  for (; g.nodes.has(next_node_); ++next_node_) {
    const pycandle::Node& node = g.nodes[next_node_];
    try {
      evaluate(g, node);
    } catch (const Error&) {  // NOLINT(bugprone-empty-catch): an index outside: it stays data, and fails where it is used
    }
  }
}

void KnownValues::evaluate(const pycandle::Graph& g, const pycandle::Node& node) {
  if (node.op->is_random || !node.regions.empty() || node.results.empty()) return;
  for (const ValueId result : node.results)
    if (!is_small(g.type(result))) return;
  if (node.op->name == "dim") {
    keep(g, node.results[0], {Call(*node.op, g, node.operands, node.attributes, node.regions).dim("value")});
    return;
  }
  const bool is_known = std::all_of(node.operands.begin(), node.operands.end(),
                                    [&](ValueId v) { return v == kNoValue || find(v) != nullptr; });
  if (is_known && !node.op->is_primitive) return evaluate_functional(g, node);
  if (!is_known || evaluate_numbers(g, node)) return;
  if (node.results.size() == 1) evaluate_sizes(g, node);
}

// By its decomposition, in a graph of its own.
void KnownValues::evaluate_functional(const pycandle::Graph& g, const pycandle::Node& node) {
  if (!node.op->decomposition) return;
  pycandle::Graph alone;
  KnownValues inside(*ranges_, *table_);
  Values operands;
  for (const ValueId v : node.operands) {
    operands.push_back(v == kNoValue ? kNoValue : alone.add_input(g.type(v)));
    if (v != kNoValue) inside.adopt(*this, v, operands.back());
  }
  Builder b(alone, *table_, nullptr, ranges_);
  const Values made = node.op->decomposition(b, Call(*node.op, alone, operands, node.attributes, node.regions));
  inside.update(alone);
  for (size_t i = 0; i < made.size() && i < node.results.size(); ++i)
    if (made[i] != kNoValue && inside.find(made[i]) != nullptr) adopt(inside, made[i], node.results[i]);
}

// All operands are numbers: the op's own evaluator.
bool KnownValues::evaluate_numbers(const pycandle::Graph& g, const pycandle::Node& node) {
  std::vector<Array> operands;
  for (const ValueId v : node.operands) {
    if (v != kNoValue && !find(v)->array) return false;
    operands.push_back(v == kNoValue ? Array() : *find(v)->array);
  }
  const std::vector<Array> results = evaluated(g, node, operands);
  for (size_t i = 0; i < results.size(); ++i) set(node.results[i], results[i]);
  return true;
}

void KnownValues::evaluate_sizes(const pycandle::Graph& g, const pycandle::Node& node) {
  const ValueId result = node.results[0];
  if (!holds_sizes(g.type(result).dtype)) return;
  const auto dims_of = [&](size_t operand) -> const std::vector<Dim>& { return find(node.operands[operand])->dims; };
  if (const auto function = dim_functions().find(node.op->name); function != dim_functions().end()) {
    std::vector<Dim> made;
    if (dims_of(0).size() != dims_of(1).size()) return;
    for (size_t i = 0; i < dims_of(0).size(); ++i) {
      const auto value = function->second(dims_of(0)[i], dims_of(1)[i], *ranges_);
      if (!value) return;
      made.push_back(*value);
    }
    return keep(g, result, std::move(made));
  }
  if (node.op->name == "cast") {  // a size fits into 32 bits
    const DType to = g.type(result).dtype;
    if (holds_sizes(g.type(node.operands[0]).dtype) && (to == DType::i64 || to == DType::i32)) keep(g, result, dims_of(0));
    return;
  }
  if (node.op->name == "neg") {
    std::vector<Dim> made;
    for (const Dim d : dims_of(0)) made.push_back(Dim(0) - d);
    return keep(g, result, std::move(made));
  }
  if (node.op->name == "reduce_prod" && g.type(node.operands[0]).rank() == 1) {
    Dim all = 1;
    for (const Dim d : dims_of(0)) all = all * d;
    return keep(g, result, {all});
  }
  if (node.op->name == "select") {
    std::vector<Dim> made;
    for (size_t i = 0; i < dims_of(0).size(); ++i) {
      const auto condition = dims_of(0)[i].maybe_number();
      if (!condition) return;
      made.push_back(dims_of(*condition != 0 ? 1 : 2).at(i));
    }
    return keep(g, result, std::move(made));
  }
  rearrange(g, node);
}

// What only moves elements is run on their numbers, which says where each goes.
void KnownValues::rearrange(const pycandle::Graph& g, const pycandle::Node& node) {
  const bool takes = node.op->name == "take" || node.op->name == "gather";
  if (node.op->name == "pad" || (!takes && !node.op->is_rearrangement)) return;
  std::vector<Array> operands;
  std::vector<Dim> elements;
  for (size_t i = 0; i < node.operands.size(); ++i) {
    const ValueId v = node.operands[i];
    if (v == kNoValue || !holds_sizes(g.type(v).dtype)) return;
    if (takes && i == 1) {
      if (!find(v)->array) return;
      operands.push_back(*find(v)->array);
      continue;
    }
    std::vector<int64_t> numbers;
    for (const Dim d : find(v)->dims) {
      numbers.push_back(static_cast<int64_t>(elements.size()));
      elements.push_back(d);
    }
    const DType dtype = g.type(v).dtype;
    if (highest_of(dtype) < kMostElements) return;  // too narrow for the places of its elements
    operands.push_back(store(dtype, sizes_of(g.type(v).shape), numbers));
  }
  std::vector<Dim> made;
  for (const int64_t number : load_int(evaluated(g, node, operands).at(0))) made.push_back(elements.at(number));
  keep(g, node.results[0], std::move(made));
}

std::optional<Argument> KnownValues::argument(const pycandle::Graph& g, ValueId v) const {
  const Value* value = find(v);
  const Type& type = g.type(v);
  if (value == nullptr || type.rank() > 1) return std::nullopt;
  Argument::List list;
  if (holds_sizes(type.dtype)) {
    for (const Dim d : value->dims) {
      const auto number = d.maybe_number();
      if (type.dtype == DType::boolean && number)
        list.push_back({*number != 0});
      else if (number)
        list.push_back({*number});
      else
        list.push_back({d});
    }
  } else if (is_floating(type.dtype)) {
    for (const double number : load_double(*value->array)) list.push_back({number});
  } else {
    return std::nullopt;
  }
  if (type.rank() == 0) return list.at(0);
  return Argument{std::move(list)};
}

}  // namespace pycandle::onnx
