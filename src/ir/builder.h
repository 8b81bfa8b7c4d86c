// Builds graphs: fills in defaults, checks constraints, infers types, appends. Everything that makes a node (importer,
// decompositions, passes, parser) goes through create().
//
//   Builder b(graph, table);
//   ValueId y = b.add(b.mul(x, scale), 1.0);       // shapes broadcast here, explicitly; dtypes must agree
#pragma once

#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ir/graph.h"
#include "ir/op_def.h"

namespace pycandle {

class Builder {
 public:
  // checks: where dims that could not be proven equal are noted; without it they are assumed equal.
  Builder(Graph& graph, const OpTable& table, std::vector<Check>* checks = nullptr, const SymbolRanges* ranges = nullptr)
      : graph_(&graph), table_(&table), checks_(checks), ranges_(ranges) {}

  // The general way. Throws bad_input (constraint name, expected, found, op) when a constraint does not hold.
  Values create_all(std::string_view op, Values operands, Attributes attributes = {}, std::vector<Graph> regions = {});
  ValueId create(std::string_view op, Values operands, Attributes attributes = {}, std::vector<Graph> regions = {});

  Origin origin;  // given to every node made from here on

  Graph& graph() { return *graph_; }
  const OpTable& table() const { return *table_; }
  const SymbolRanges* ranges() const { return ranges_; }             // what is known of the symbols; may be null
  const Type& type(ValueId v) const { return graph_->type(v); }
  const Shape& shape(ValueId v) const { return type(v).shape; }
  DType dtype(ValueId v) const { return type(v).dtype; }
  int64_t rank(ValueId v) const { return type(v).rank(); }
  // A builder for a region of a control-flow op: add inputs with region.graph().add_input(type), set graph().outputs.
  Builder region(Graph& body) const {
    Builder b(body, *table_, checks_, ranges_);
    b.origin = origin;
    return b;
  }

  // Are these dims equal? no → false; unknown → true, and a run-time check is noted.
  bool check(Dim left, Dim right, std::string what);

  // ---- constants
  ValueId full(const Scalar& value, DType, Shape shape = {});        // primitive "constant"
  ValueId like(ValueId x, const Scalar& value) { return full(value, dtype(x), shape(x)); }
  ValueId dim_value(Dim, DType = DType::i64);                        // a 0-d tensor of a (symbolic) dim
  ValueId iota(Dim size, DType = DType::i64);                        // 0, 1, …, size-1

  // ---- elementwise; operands broadcast against each other, numbers take the tensor's dtype
  ValueId unary(std::string_view op, ValueId x) { return create(op, {x}); }
  ValueId binary(std::string_view op, ValueId a, ValueId b);
  ValueId binary(std::string_view op, ValueId a, double b) { return binary(op, a, full(b, dtype(a))); }
  ValueId binary(std::string_view op, double a, ValueId b) { return binary(op, full(a, dtype(b)), b); }
  template <class A, class B> ValueId add(A a, B b) { return binary("add", a, b); }
  template <class A, class B> ValueId sub(A a, B b) { return binary("sub", a, b); }
  template <class A, class B> ValueId mul(A a, B b) { return binary("mul", a, b); }
  template <class A, class B> ValueId div(A a, B b) { return binary("div", a, b); }
  template <class A, class B> ValueId pow(A a, B b) { return binary("pow", a, b); }
  template <class A, class B> ValueId maximum(A a, B b) { return binary("maximum", a, b); }
  template <class A, class B> ValueId minimum(A a, B b) { return binary("minimum", a, b); }
  // eq ne lt le gt ge → bool
  template <class A, class B> ValueId compare(std::string_view op, A a, B b) { return binary(op, a, b); }
  ValueId logical_and(ValueId a, ValueId b) { return binary("bitwise_and", a, b); }  // bool operands
  ValueId logical_or(ValueId a, ValueId b) { return binary("bitwise_or", a, b); }
  ValueId logical_not(ValueId a) { return unary("bitwise_not", a); }
  ValueId select(ValueId condition, ValueId yes, ValueId no);        // broadcasts all three
  ValueId neg(ValueId x) { return unary("neg", x); }
  ValueId exp(ValueId x) { return unary("exp", x); }
  ValueId log(ValueId x) { return unary("log", x); }
  ValueId sqrt(ValueId x) { return unary("sqrt", x); }
  ValueId rsqrt(ValueId x) { return unary("rsqrt", x); }
  ValueId tanh(ValueId x) { return unary("tanh", x); }
  ValueId erf(ValueId x) { return unary("erf", x); }
  ValueId abs(ValueId x) { return unary("abs", x); }
  ValueId square(ValueId x) { return mul(x, x); }
  ValueId sigmoid(ValueId x) { return unary("sigmoid", x); }
  ValueId cast(ValueId x, DType to);                                 // x itself when it has that dtype

  // f16 and bf16 compute in f32, as torch does: widened before, narrowed to the result's dtype after.
  ValueId widened(ValueId x);
  ValueId narrowed(ValueId x, DType to) { return cast(x, to); }
  ValueId affine(ValueId x, std::optional<ValueId> weight,
                 std::optional<ValueId> bias);  // x*weight + bias over the last dims, cast to x's dtype

  // ---- shape; negative axes count from the end; each returns its operand when nothing changes
  ValueId reshape(ValueId x, Shape shape);
  ValueId transpose(ValueId x, const Ints& permutation);
  ValueId swap_axes(ValueId x, int64_t a, int64_t b);
  ValueId broadcast_to(ValueId x, const Shape& shape);               // numpy rules: aligned at the end
  ValueId broadcast(ValueId x, const Shape& shape, const Ints& axes);  // axes[i]: where axis i of x goes
  ValueId unsqueeze(ValueId x, int64_t axis);
  ValueId squeeze(ValueId x, int64_t axis);
  ValueId slice(ValueId x, int64_t axis, Dim start, Dim stop, int64_t step = 1);  // 0 ≤ start ≤ stop ≤ size
  ValueId select_index(ValueId x, int64_t axis, Dim index);          // slice of one, axis removed
  ValueId concat(const Values& xs, int64_t axis);
  ValueId pad(ValueId x, const Dims& low, const Dims& high, const Scalar& value);
  ValueId reverse(ValueId x, const Ints& axes);

  // ---- reductions; axes sorted or not, negative allowed
  ValueId reduce(std::string_view op, ValueId x, const Ints& axes, bool keep = true);  // reduce_sum, reduce_max, …
  ValueId sum(ValueId x, const Ints& axes, bool keep = true) { return reduce("reduce_sum", x, axes, keep); }
  ValueId max(ValueId x, const Ints& axes, bool keep = true) { return reduce("reduce_max", x, axes, keep); }
  ValueId mean(ValueId x, const Ints& axes, bool keep = true);       // sum / count, count may be symbolic

  // ---- products
  // Axes of batch_l[i] and batch_r[i] agree, contract_l[i] and contract_r[i] are summed over.
  // Result: batch axes, then the rest of the left, then the rest of the right.
  ValueId dot_general(ValueId left, ValueId right, const Ints& batch_l, const Ints& batch_r, const Ints& contract_l,
                      const Ints& contract_r);
  ValueId matmul(ValueId a, ValueId b);                              // torch.matmul of the same dtype

  int64_t normal_axis(int64_t axis, int64_t rank) const;             // throws bad_input when out of range

 private:
  Graph* graph_;
  const OpTable* table_;
  std::vector<Check>* checks_;
  const SymbolRanges* ranges_;
};

Ints last_axes(int64_t rank, size_t count);  // last_axes(4, 2) = {2, 3}
Shape broadcast_shapes(const Shape&,
                       const Shape&);  // numpy rules; an unknown pair takes the left one; bad_input when they differ

}  // namespace pycandle
