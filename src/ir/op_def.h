// All that is known of an op, in one value. src/ops/<folder>/<family>.cpp makes them; see docs/adding-an-op.md.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/array.h"
#include "base/error.h"
#include "ir/graph.h"

namespace pycandle {

class Builder;
struct Alignment;    // ops/core/alignment.h: along which axes a call treats every place alike
struct AlignedCall;
class AtenCall;    // ops/core/aten_call.h: one recorded ATen node
class Evaluation;  // ir/evaluation.h: one primitive at run time
class Fragment;    // ir/fragment.h: what a node is computed from
class LayerCall;   // ir/layer.h: a call of a module that is one node
class Mistakes;    // ir/mistakes.h: what people get wrong with an op

enum class AttrKind { boolean, integer, number, scalar, string, dtype, dim, integers, numbers, dims };
std::string_view name_of(AttrKind);

struct OperandSpec {
  enum class Kind {
    required,
    optional,
    variadic
  } kind = Kind::required;  // at most one variadic, the last; its entries are never absent
  std::string name;
  OperandSpec(const char* n) : name(n) {}  // NOLINT(google-explicit-constructor): "x" is a required operand
  OperandSpec(Kind k, std::string n) : kind(k), name(std::move(n)) {}
};
inline OperandSpec optional(std::string name) { return {OperandSpec::Kind::optional, std::move(name)}; }
inline OperandSpec variadic(std::string name) { return {OperandSpec::Kind::variadic, std::move(name)}; }

struct AttrSpec {
  std::string name;
  AttrKind kind;
  bool optional = false;                        // may be absent (monostate)
  std::optional<Attribute> default_value;       // used when the builder is not given one
};
template <class T> AttrKind attr_kind();
template <> inline AttrKind attr_kind<bool>() { return AttrKind::boolean; }
template <> inline AttrKind attr_kind<int64_t>() { return AttrKind::integer; }
template <> inline AttrKind attr_kind<double>() { return AttrKind::number; }
template <> inline AttrKind attr_kind<Scalar>() { return AttrKind::scalar; }
template <> inline AttrKind attr_kind<std::string>() { return AttrKind::string; }
template <> inline AttrKind attr_kind<DType>() { return AttrKind::dtype; }
template <> inline AttrKind attr_kind<Dim>() { return AttrKind::dim; }
template <> inline AttrKind attr_kind<Ints>() { return AttrKind::integers; }
template <> inline AttrKind attr_kind<Numbers>() { return AttrKind::numbers; }
template <> inline AttrKind attr_kind<Dims>() { return AttrKind::dims; }
template <class T> AttrSpec attr(std::string name) { return {std::move(name), attr_kind<T>(), false, {}}; }
template <class T> AttrSpec attr(std::string name, Attribute default_value) {
  return {std::move(name), attr_kind<T>(), false, std::move(default_value)};
}
template <class T> AttrSpec optional_attr(std::string name) { return {std::move(name), attr_kind<T>(), true, Attribute{}}; }

// One call of an op while a graph is built: operands and attributes by the names of the definition.
class Call {
 public:
  // builder: who notes run-time checks; without one, dims that may be equal are taken as equal.
  Call(const OpDef& op, const Graph& graph, const Values& operands, const Attributes& attributes,
       const std::vector<Graph>& regions, Builder* builder = nullptr)
      : op_(&op), graph_(&graph), operands_(&operands), attributes_(&attributes), regions_(&regions), builder_(builder) {}

  const OpDef& op() const { return *op_; }
  const Graph& graph() const { return *graph_; }
  ValueId value(std::string_view name) const;                 // throws internal when absent
  std::optional<ValueId> maybe(std::string_view name) const;  // optional operands
  Values values(std::string_view name) const;                 // the variadic operand
  bool has(std::string_view name) const;                      // an optional operand or attribute is present
  const Type& type(std::string_view name) const { return graph_->type(value(name)); }
  const Type& type(ValueId v) const { return graph_->type(v); }
  const Shape& shape(std::string_view name) const { return type(name).shape; }
  int64_t rank(std::string_view name) const { return type(name).rank(); }

  const Attribute& attribute(std::string_view name) const;
  const Attributes& attributes() const { return *attributes_; }
  bool boolean(std::string_view name) const;
  int64_t integer(std::string_view name) const;
  double number(std::string_view name) const;
  Scalar scalar(std::string_view name) const;
  const std::string& string(std::string_view name) const;
  DType dtype(std::string_view name) const;
  Dim dim(std::string_view name) const;
  const Ints& integers(std::string_view name) const;
  const Numbers& numbers(std::string_view name) const;
  const Dims& dims(std::string_view name) const;
  const std::vector<Graph>& regions() const { return *regions_; }

  // For constraints: are these dims (shapes) equal? no → false; unknown → true, and a run-time check is noted.
  bool agree(Dim left, Dim right, std::string_view what = {}) const;
  bool agree(const Shape& left, const Shape& right, std::string_view what = {}) const;  // ranks too

  std::string text() const;  // layer_norm(x: f32[2, 3], weight: f32[4]) {normalized_shape = [3], eps = 1e-05}

 private:
  const OpDef* op_;
  const Graph* graph_;
  const Values* operands_;
  const Attributes* attributes_;
  const std::vector<Graph>* regions_;
  Builder* builder_;
};

struct Constraint {
  std::string name;  // layer_norm_c1: cited by errors, docs and tests
  std::string text;  // "normalized_shape equals the last dims of x"
  // false: an error that cites this constraint. Compare dims with Call::agree: unknown becomes a run-time check.
  std::function<bool(const Call&)> holds;
};

// How the result of a primitive may differ between correct implementations, in units of the dtype's roundoff.
enum class Rounding {
  exact,     // data movement, comparisons, integer arithmetic
  relative,  // one rounding of the result: u * |y|
  linear     // sums: u * (the op on absolute values); sub is add there
};

struct AtenMapping {
  std::string overload;                              // aten.layer_norm.default, exact
  std::string pattern;                               // "x, normalized_shape, weight, bias, eps, _" or empty
  std::vector<std::string> discards;                 // why each _ of the pattern has no effect, in order
  std::function<Values(AtenCall&)> build;            // when no pattern serves
};

// A call of the op in torch from which the per-op tests are made; see tests/python/test_catalogue.py for the names
// that an expression may use: "F.layer_norm(t(2, 3, 4), [4], t(4), t(4), 1e-3)".
using Sample = std::string;

// A call of the op that may be what a part of a graph computes. It is a guess: docs/recognition.md has the proof.
struct Proposal {
  Values operands;               // values of the graph; kNoValue when absent
  Attributes attributes;
  std::vector<Ints> transposed;  // per operand: the permutation in which it is taken; empty, or left out: as it is
};

// A call as people name it: "the tanh GELU" is gelu with approximate = "tanh".
struct CalledAs {
  std::string noun;
  Attributes attributes;         // that make it this one
  std::string form;              // "gelu form": calls of the same form are told apart by it
};

// How C++ writes a call; functional::name(...) unless the paragraph says otherwise. ops/core/spelling.h has the arguments.
struct CppForm {
  enum class Kind { functional, free, member, infix, prefix } kind = Kind::functional;
  std::string text;              // where, sum, +, ~
};

// How torch writes a call: "torch.where({condition}, {yes}, {no})". {name} is an operand or attribute, {xs…} all of xs.
struct TorchForm {
  std::string text;
  std::function<bool(const Call&)> holds;  // nothing: always
};

// The argument of a module's constructor: Linear(in_features, out_features, {.bias = false}).
struct LayerArgument {
  std::string name;
  bool positional = false;
  Attribute value;
  Attribute default_value;       // an option that has it is not written
};
using LayerArguments = std::optional<std::vector<LayerArgument>>;  // nothing: this call is not such a module

// The class of torch.nn that a module is when it computes this op on parameters of its own and nothing else.
struct LayerForm {
  std::vector<std::string> classes;                        // more than one: BatchNorm1d, BatchNorm2d, …
  std::function<size_t(const Call&)> which;                // of several
  std::function<LayerArguments(const LayerCall&)> arguments;  // nothing: the module has more nodes (emit/nn_table.cpp)
  std::string member = "act";                              // what people call a member of that class: conv, norm
};

using AlignmentRule = std::optional<Alignment> (*)(const AlignedCall&);

struct OpDef {
  std::string name;
  bool is_primitive = false;
  bool is_mapping = false;                           // only ATen overloads and samples of an op that another family defines
  std::string family;                                // the file it stands in, such as "shape/joining"
  std::vector<OperandSpec> operand_specs;
  std::vector<AttrSpec> attr_specs;
  int region_count = 0;
  bool several_results = false;                      // infer_all was used: none, one or more
  std::vector<Constraint> constraint_list;
  std::function<std::vector<Type>(const Call&)> infer_types;
  std::function<std::vector<Array>(const Evaluation&)> evaluate;     // primitives
  std::function<Values(Builder&, const Call&)> decomposition;        // functionals
  Rounding rounding = Rounding::exact;
  bool is_random = false;
  bool is_pointwise = false;                         // an element of the result depends on one element of each operand
  bool is_commutative = false;
  bool is_formula = false;                           // people write formulas with it: recognition looks through it
  bool is_activation = false;                        // people put it after a layer, one in place of another
  bool is_step = false;                              // floats that jump: a tiny difference becomes a whole step
  bool is_rearrangement = false;                     // the elements of its operands, elsewhere
  bool keeps_purpose = false;                        // a query that is rotated is a query: the result may have x's name
  bool gives_floats = false;                         // of integers too, as div does
  bool is_correctly_rounded = false;                 // IEEE arithmetic: every implementation gives the same number
  bool takes_mixed_dtypes = false;                   // the evaluator loads every operand by its own dtype
  bool is_one_kernel = false;                        // torch computes f16 and bf16 in one kernel, in f32, and rounds once
  bool is_kernel_by_kernel = false;                  // torch has none for it: its steps are those of the decomposition
  bool rounds_product = false;                       // some f16 and bf16 kernels do, before they add the bias
  AlignmentRule alignment = nullptr;                 // nothing: not known, or every place of every axis when it is pointwise
  std::function<double(const Call&, const Bindings&)> flop_count;  // nothing: one for each element that is rounded
  std::function<int64_t(const Call&)> least_count;   // of what the data decides: `count` is at least that; nothing: 0
  // How the op is found in a graph that spells it out (passes/recognise.cpp).
  std::vector<std::string> anchors;                                          // the ops a fragment may end in ...
  std::function<std::vector<Proposal>(const Fragment&)> propose;             // ... and the calls that it may be
  std::function<std::vector<Attributes>(const Type& x)> calls_on;            // functions of x alone: all calls on such an x
  std::vector<std::function<Values(Builder&, const Call&)>> spellings;       // other than the decomposition
  std::vector<AtenMapping> aten;
  std::vector<Sample> samples;
  std::string summary;                                // one line for the op table
  // For people and for other languages.
  std::vector<CalledAs> called_as;                    // none: by its name
  std::vector<std::string> result_nouns;              // variables that hold the results: sum; values, indices
  CppForm cpp;
  TorchForm torch;
  LayerForm layer;
  std::vector<std::function<void(Mistakes&)>> mistake_lists;

  // The fluent form.
  template <class... S> OpDef& operands(S&&... s) {
    (operand_specs.push_back(OperandSpec(std::forward<S>(s))), ...);
    return *this;
  }
  template <class... A> OpDef& attributes(A&&... a) {
    (attr_specs.push_back(std::forward<A>(a)), ...);
    return *this;
  }
  OpDef& regions(int count) {
    region_count = count;
    return *this;
  }
  OpDef& doc(std::string text) {
    summary = std::move(text);
    return *this;
  }
  OpDef& constraint(std::string id, std::string text, std::function<bool(const Call&)> holds) {
    constraint_list.push_back({std::move(id), std::move(text), std::move(holds)});
    return *this;
  }
  OpDef& infer(std::function<Type(const Call&)> f) {
    infer_types = [f = std::move(f)](const Call& c) { return std::vector<Type>{f(c)}; };
    return *this;
  }
  OpDef& infer_all(std::function<std::vector<Type>(const Call&)> f) {
    infer_types = std::move(f);
    several_results = true;
    return *this;
  }
  OpDef& evaluator(std::function<Array(const Evaluation&)> f);
  OpDef& evaluator_all(std::function<std::vector<Array>(const Evaluation&)> f) {
    evaluate = std::move(f);
    return *this;
  }
  OpDef& rounds(Rounding r) {
    rounding = r;
    return *this;
  }
  OpDef& random() {
    is_random = true;
    return *this;
  }
  OpDef& decompose(std::function<ValueId(Builder&, const Call&)> f);
  OpDef& decompose_all(std::function<Values(Builder&, const Call&)> f) {
    decomposition = std::move(f);
    return *this;
  }
  // Looked for at nodes of these ops: `f` reads operands and attributes off the fragment that ends there.
  OpDef& recognised_at(std::vector<std::string> ops, std::function<std::vector<Proposal>(const Fragment&)> f) {
    anchors = std::move(ops);
    propose = std::move(f);
    return *this;
  }
  // A function of x alone with few possible attributes: looked for wherever a fragment has one entry.
  OpDef& recognised(std::function<std::vector<Attributes>(const Type& x)> calls) {
    calls_on = std::move(calls);
    return *this;
  }
  OpDef& recognised() {
    return recognised([](const Type&) { return std::vector<Attributes>(1); });
  }
  // The same call as people spell it: equal to the decomposition but for rounding.
  OpDef& also_written_as(std::function<ValueId(Builder&, const Call&)> f);
  // "aten.layer_norm.default(x, normalized_shape, weight, bias, eps, _)": operand and attribute names in the order of
  // the overload's schema; _ is discarded, and each _ needs a reason.
  template <class... D> OpDef& from_aten(std::string pattern, D... discards) {
    return add_pattern(std::move(pattern), {std::string(discards)...});
  }
  OpDef& from_aten_call(std::string overload, std::function<Values(AtenCall&)> build);
  OpDef& sample(Sample expression) {
    samples.push_back(std::move(expression));
    return *this;
  }
  // ---- for people and for other languages
  OpDef& called(std::string noun, Attributes attributes = {}, std::string form = {}) {
    called_as.push_back({std::move(noun), std::move(attributes), std::move(form)});
    return *this;
  }
  OpDef& results(std::vector<std::string> nouns) {
    result_nouns = std::move(nouns);
    return *this;
  }
  OpDef& spelled_cpp(CppForm::Kind kind, std::string text) {
    cpp = {kind, std::move(text)};
    return *this;
  }
  OpDef& spelled_torch(std::string text, std::function<bool(const Call&)> holds = {}) {
    torch = {std::move(text), std::move(holds)};
    return *this;
  }
  OpDef& nn(std::string class_name, std::function<LayerArguments(const LayerCall&)> arguments = {}) {
    return nn({std::move(class_name)}, {}, std::move(arguments));
  }
  OpDef& nn(std::vector<std::string> classes, std::function<size_t(const Call&)> which,
            std::function<LayerArguments(const LayerCall&)> arguments) {
    layer.classes = std::move(classes);
    layer.which = std::move(which);
    layer.arguments = std::move(arguments);
    return *this;
  }
  OpDef& member(std::string noun) {
    layer.member = std::move(noun);
    return *this;
  }
  // What people get wrong: verify tries it where a layer is wrong, and names the one that gives PyTorch's values.
  OpDef& mistakes(std::function<void(Mistakes&)> f) {
    mistake_lists.push_back(std::move(f));
    return *this;
  }
  OpDef& mistaken_for(std::string kind, std::vector<std::string> ops);  // other ops on the same operands and attributes
  // ---- flags
  OpDef& pointwise() {
    is_pointwise = true;
    return *this;
  }
  OpDef& commutative() {
    is_commutative = true;
    return *this;
  }
  OpDef& activation() {
    is_activation = true;
    return *this;
  }
  OpDef& step() {
    is_step = true;
    return *this;
  }
  OpDef& rearrangement() {
    is_rearrangement = true;
    return *this;
  }
  OpDef& same_purpose() {
    keeps_purpose = true;
    return *this;
  }
  OpDef& float_results() {
    gives_floats = true;
    return *this;
  }
  OpDef& mixed_dtypes() {
    takes_mixed_dtypes = true;
    return *this;
  }
  OpDef& flops(std::function<double(const Call&, const Bindings&)> f) {
    flop_count = std::move(f);
    return *this;
  }
  OpDef& correctly_rounded() {
    is_correctly_rounded = true;
    return *this;
  }
  OpDef& one_kernel() {
    is_one_kernel = true;
    return *this;
  }
  OpDef& kernel_by_kernel() {
    is_kernel_by_kernel = true;
    return *this;
  }
  OpDef& product_rounds() {
    rounds_product = true;
    return *this;
  }
  OpDef& at_least(std::function<int64_t(const Call&)> count) {
    least_count = std::move(count);
    return *this;
  }
  OpDef& aligned(AlignmentRule rule) {
    alignment = rule;
    return *this;
  }
  OpDef& add_pattern(std::string pattern, std::vector<std::string> discards);

  int operand_index(std::string_view operand) const;    // -1 when it has none of that name
  int attribute_index(std::string_view attribute) const;
  size_t fixed_operands() const;                         // all but the variadic one
  bool has_variadic() const { return fixed_operands() != operand_specs.size(); }
};

// Is the attribute of this kind? Numbers are not converted here; a scalar is a bool, integer, number or complex.
bool is_of_kind(const Attribute&, AttrKind);
// The attribute as this kind: an integer serves as a dim, a number or a scalar, integers as dims or numbers, and dims
// that are numbers as integers. nullopt when it cannot be.
std::optional<Attribute> converted(const Attribute&, AttrKind);

OpDef primitive(std::string name);
OpDef functional(std::string name);
// More overloads and samples for an op that stands in another family: mapping("sub").from_aten_call("aten.rsub.Scalar", …).
inline OpDef mapping(std::string name) {
  OpDef op;
  op.name = std::move(name);
  op.is_mapping = true;
  return op;
}
inline std::string discard(std::string reason) { return reason; }
// All ops of a family that people write formulas with: formulas({relu(), gelu(), …}).
inline std::vector<OpDef> formulas(std::vector<OpDef> ops) {
  for (OpDef& op : ops) op.is_formula = true;
  return ops;
}

// The ops by name, and the ATen overloads that map to them. Throws internal on a duplicate.
class OpTable {
 public:
  void add(OpDef);
  const OpDef* find(std::string_view name) const;        // nullptr when unknown
  const OpDef& at(std::string_view name) const;          // internal error when unknown
  struct AtenEntry {
    const OpDef* op;
    const AtenMapping* mapping;
  };
  const AtenEntry* find_aten(std::string_view overload) const;
  const std::map<std::string, AtenEntry, std::less<>>& aten() const { return aten_; }
  const std::vector<std::unique_ptr<OpDef>>& all() const { return ops_; }  // in definition order

 private:
  std::vector<std::unique_ptr<OpDef>> ops_;
  std::map<std::string, const OpDef*, std::less<>> by_name_;
  std::map<std::string, AtenEntry, std::less<>> aten_;
};

}  // namespace pycandle
