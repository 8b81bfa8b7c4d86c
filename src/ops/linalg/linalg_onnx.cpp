// ONNX's products of matrices.
#include "ops/core/aten_call.h"
#include "ops/core/functional_helpers.h"

namespace pycandle {
namespace {

// alpha * a b + beta * c, where a and b may be transposed. Exporters write linear layers so.
Values gemm(AtenCall& c) {
  Builder& b = c.b;
  ValueId left = c.tensor("a"), right = c.tensor("b");
  const auto bias = c.maybe_tensor("c");
  if (c.has_argument("broadcast")) c.discard("broadcast", "c broadcasts where it must");
  const double alpha = c.number("alpha"), beta = c.number("beta");
  const bool flip_left = c.integer("transA") != 0, flip_right = c.integer("transB") != 0;
  c.expects(b.rank(left) == 2 && b.rank(right) == 2, "two matrices");
  if (flip_left) left = b.transpose(left, {1, 0});
  const bool is_layer = flip_right && alpha == 1.0 && (!bias || (beta == 1.0 && b.rank(*bias) == 1));
  if (is_layer) return b.create_all("linear", {left, right, bias ? *bias : kNoValue});
  if (flip_right) right = b.transpose(right, {1, 0});
  ValueId y = b.create("matmul", {left, right});
  if (alpha != 1.0) y = b.mul(y, alpha);
  if (!bias) return {y};
  return {b.add(y, beta == 1.0 ? *bias : b.mul(*bias, beta))};
}

Values product_of_matrices(AtenCall& c) { return c.b.create_all("matmul", {c.tensor("a"), c.tensor("b")}); }

Values summed(AtenCall& c) { return c.b.create_all("einsum", c.given_tensors("xs"), {{"equation", c.string("equation")}}); }

}  // namespace

std::vector<OpDef> linalg_onnx_ops() {
  return {mapping("linear")
              .from_aten_call("onnx.Gemm.1(a, b, c; alpha=1.0, beta=1.0, broadcast=0, transA=0, transB=0)", gemm)
              .from_aten_call("onnx.Gemm.7(a, b, c; alpha=1.0, beta=1.0, transA=0, transB=0)", gemm)
              .from_aten_call("onnx.Gemm.11(a, b, c?; alpha=1.0, beta=1.0, transA=0, transB=0)", gemm),
          mapping("matmul").from_aten_call("onnx.MatMul.1(a, b)", product_of_matrices),
          mapping("det").from_aten_call("onnx.Det.11(x)", [](AtenCall& c) { return c.b.create_all("det", {c.tensor("x")}); }),
          mapping("einsum").from_aten_call("onnx.Einsum.12(xs*; equation!)", summed)};
}

}  // namespace pycandle
