// Matrix products: linear, matmul and the fused product-and-sum forms.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "ir/layer.h"
#include "ir/mistakes.h"
#include "ops/core/alignment.h"
#include "ops/core/functional_helpers.h"

namespace pycandle {

ValueId matmul_value(Builder& b, ValueId left, ValueId right) {
  const int64_t l = b.rank(left), r = b.rank(right);
  if (r <= 2) return b.dot_general(left, right, {}, {}, {l - 1}, {0});  // no batch on the right: the left keeps its shape
  if (l == 1) return b.dot_general(left, right, {}, {}, {0}, {r - 2});
  const auto batch = [&](ValueId v) { return first_dims(b.shape(v), b.shape(v).size() - 2); };
  const auto matrix = [&](ValueId v) { return Shape(b.shape(v).end() - 2, b.shape(v).end()); };
  const Shape common = broadcast_shapes(batch(left), batch(right));
  left = b.broadcast_to(left, joined(common, matrix(left)));
  right = b.broadcast_to(right, joined(common, matrix(right)));
  const int64_t n = static_cast<int64_t>(common.size());
  return b.dot_general(left, right, axes_between(0, n), axes_between(0, n), {n + 1}, {n});
}

namespace {

Shape matmul_shape(const Shape& left, const Shape& right) {
  const size_t l = left.size(), r = right.size();
  Shape batch;
  if (l > 2 || r > 2) batch = broadcast_shapes(first_dims(left, l > 2 ? l - 2 : 0), first_dims(right, r > 2 ? r - 2 : 0));
  if (l > 1) batch.push_back(left[l - 2]);
  if (r > 1) batch.push_back(right[r - 1]);
  return batch;
}

bool contracts(const Call& c, const Shape& left, const Shape& right) {
  return !left.empty() && !right.empty() && c.agree(left.back(), right[right.size() > 1 ? right.size() - 2 : 0]);
}

// transformers' Conv1D keeps its weight as [in, out].
bool is_in_out(const Call& c) { return c.string("weight_order") == "in_out"; }

// ---- what people get wrong

ValueId transposed(Builder& b, ValueId v) { return b.swap_axes(v, -2, -1); }
bool is_square(const Mistakes& m, const Shape& s) { return s.size() >= 2 && m.size(s[s.size() - 1]) == m.size(s[s.size() - 2]); }

// The layer of a gated value, or a gate times the layer's result: the reset of a GRU.
void gate_after_layer(Mistakes& m) {
  const Node* gated = made_by(m.call().graph(), m.call().value("x"), "mul");
  if (gated == nullptr || m.size(m.call().shape("weight")[0]) != m.size(m.call().shape("weight")[1])) return;
  for (const size_t gate : {0, 1}) {
    m.build("gru reset", "a linear layer of a gated value", "a gate times the result of the layer",
            [gate](const MistakeSite& site) {
              const Node product = *made_by(site.b.graph(), site.operands[0], "mul");
              const ValueId y = site.same(site.with_operand("x", product.operands[1 - gate]))[0];
              return Values{site.b.mul(product.operands[gate], y)};
            });
  }
}

void linear_mistakes(Mistakes& m) {
  const Call& c = m.call();
  m.without("missing bias", "bias", "bias");
  gate_after_layer(m);
  if (is_square(m, c.shape("weight")))
    m.operand("transposed weight", "weight", "the weight", "the weight transposed", transposed);
  m.operand("doubled bias", "bias", "the bias", "twice the bias", [](Builder& b, ValueId x) { return b.mul(x, 2.0); });
  const int64_t out = m.size(c.shape("weight")[is_in_out(c) ? 1 : 0]);
  const std::vector<std::pair<int64_t, std::vector<Ints>>> orders{{2, {{1, 0}}},
                                                                  {3, {{0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}}}};
  for (const auto& [parts, all] : orders) {
    if (out % parts != 0 || out == parts) continue;
    for (const Ints& order : all) {
      m.result("part order", "its outputs as they are", fmt::format("its {} parts in the order {}", parts, fmt::join(order, " ")),
               [order = order](Builder& b, ValueId y) { return reordered(b, y, b.rank(y) - 1, order); });
    }
  }
  m.narrow_operands();
}

void product_mistakes(Mistakes& m) {
  for (const char* side : {"left", "right"}) {
    if (is_square(m, m.call().shape(side)))
      m.operand("transposed operand", side, fmt::format("the {} operand", side), fmt::format("the {} operand transposed", side),
                transposed);
  }
}

LayerArguments linear_arguments(const LayerCall& l) {
  if (!l.is_own("weight") || !l.is_own_or_absent("bias")) return {};
  const size_t in = is_in_out(l.call()) ? 0 : 1;
  return {{required("in_features", l.size("weight", in)), required("out_features", l.size("weight", 1 - in)),
           option("bias", !l.absent("bias"), true), option("weight_order", l.attribute("weight_order"), std::string("out_in"))}};
}

OpDef linear() {
  return functional("linear")
      .doc("x @ weight.T + bias; with weight_order \"in_out\" x @ weight + bias")
      .operands("x", "weight", optional("bias"))
      .attributes(attr<std::string>("weight_order", std::string("out_in")))
      .constraint("linear_c1", "weight is a matrix or, out_in, a vector, and its dim for what comes in is the last dim of x",
                  [](const Call& c) {
                    const int64_t rank = c.rank("weight");
                    return (rank == 2 || (rank == 1 && !is_in_out(c))) && c.rank("x") >= 1 &&
                           c.agree(c.shape("x").back(), is_in_out(c) ? c.shape("weight").front() : c.shape("weight").back());
                  })
      .constraint("linear_c2", "x, weight and bias have one dtype",
                  [](const Call& c) {
                    const DType d = c.type("x").dtype;
                    return c.type("weight").dtype == d && (!c.has("bias") || c.type("bias").dtype == d);
                  })
      .constraint("linear_c3", "weight_order is \"out_in\" or \"in_out\"",
                  [](const Call& c) { return is_in_out(c) || c.string("weight_order") == "out_in"; })
      .infer([](const Call& c) {
        Type y = c.type("x");
        y.shape.pop_back();
        if (c.rank("weight") == 2) y.shape.push_back(c.shape("weight")[is_in_out(c) ? 1 : 0]);
        return y;
      })
      .aligned(along_all_but_last)
      .one_kernel()
      .product_rounds()
      .decompose([](Builder& b, const Call& c) {
        const ValueId x = c.value("x"), weight = c.value("weight");
        const auto product = [&](ValueId left, ValueId right) {
          return b.dot_general(left, right, {}, {}, {b.rank(left) - 1}, {is_in_out(c) ? 0 : b.rank(right) - 1});
        };
        if (!c.has("bias")) return product(x, weight);
        // Product and bias are summed before the one rounding, as torch's kernels do.
        const ValueId y = product(b.widened(x), b.widened(weight));
        return b.narrowed(b.add(y, b.widened(c.value("bias"))), b.dtype(x));
      })
      .from_aten("aten.linear.default(x, weight, bias)")
      .sample("F.linear(t(2, 3, 5), t(4, 5), t(4))")
      .sample("F.linear(t(6, 5), t(4, 5))")
      .sample("F.linear(t(5), t(4, 5), t(4))")
      .sample("F.linear(t(3, 5), t(5))")
      .sample("F.linear(t(0, 5), t(4, 5), t(4))")
      .sample("F.linear(t(3, 0), t(4, 0), t(4))")
      .sample("F.linear(i(3, 5), i(4, 5), i(4))")
      .spelled_torch("F.linear({x}, {weight}, {bias})", [](const Call& c) { return !is_in_out(c); })
      .nn("Linear", linear_arguments)
      .member("linear")
      .results({"projected"})
      .mistakes(linear_mistakes);
}

OpDef matmul() {
  return functional("matmul")
      .doc("product of vectors, matrices or batches of matrices; batch dims broadcast")
      .operands("left", "right")
      .constraint("matmul_c1", "the last dim of left equals the last but one (or only) dim of right",
                  [](const Call& c) { return contracts(c, c.shape("left"), c.shape("right")); })
      .constraint("matmul_c2", "left and right have one dtype",
                  [](const Call& c) { return c.type("left").dtype == c.type("right").dtype; })
      .infer([](const Call& c) { return Type{c.type("left").dtype, matmul_shape(c.shape("left"), c.shape("right"))}; })
      .decompose([](Builder& b, const Call& c) { return matmul_value(b, c.value("left"), c.value("right")); })
      .one_kernel()
      .from_aten("aten.matmul.default(left, right)")
      .from_aten("aten.mm.default(left, right)")
      .from_aten("aten.bmm.default(left, right)")
      .from_aten("aten.mv.default(left, right)")
      .from_aten("aten.dot.default(left, right)")
      .sample("torch.matmul(t(3), t(3))")
      .sample("torch.matmul(t(2, 3), t(3))")
      .sample("torch.matmul(t(3), t(3, 4))")
      .sample("torch.matmul(t(3), t(2, 5, 3, 4))")
      .sample("torch.matmul(t(2, 5, 4, 3), t(3))")
      .sample("torch.matmul(t(2, 3), t(3, 4))")
      .sample("torch.matmul(t(5, 2, 3), t(3, 4))")
      .sample("torch.matmul(t(2, 3), t(5, 3, 4))")
      .sample("torch.matmul(t(6, 1, 2, 3), t(5, 3, 4))")
      .sample("torch.matmul(t(2, 0), t(0, 4))")
      .sample("torch.matmul(i(2, 3), i(3, 4))")
      .sample("torch.mm(t(4, 3), t(3, 2))")
      .sample("torch.bmm(t(2, 4, 3), t(2, 3, 2))")
      .sample("torch.mv(t(4, 3), t(3))")
      .sample("torch.dot(t(7), t(7))")
      .spelled_cpp(CppForm::Kind::free, "matmul")
      .spelled_torch("torch.matmul({left}, {right})")
      .results({"product"})
      .mistakes(product_mistakes)
      .mistakes([](Mistakes& m) { m.narrow_operands(); });
}

// For bools a product is and, a sum is or.
ValueId product_of(Builder& b, ValueId x, ValueId y) {
  return b.binary(b.dtype(x) == DType::boolean ? "bitwise_and" : "mul", x, y);
}
ValueId sum_of(Builder& b, ValueId x, ValueId y) { return b.binary(b.dtype(x) == DType::boolean ? "bitwise_or" : "add", x, y); }

// beta * x + alpha * product. With beta 0 x is not looked at, so its NaN does not spread.
ValueId scaled_sum(Builder& b, const Call& c, ValueId x, const std::function<ValueId()>& product, const Shape& shape) {
  const DType dtype = b.dtype(x), wide = wide_of(dtype);
  const auto scaled = [&](ValueId v, const char* name) {
    const Scalar factor = c.scalar(name);
    // A factor with a fraction is cut to an integer for integers.
    return as_complex(factor) == std::complex<double>(1) ? v : product_of(b, v, materialise(b, factor, wide));
  };
  ValueId y = scaled(product(), "alpha");
  if (as_complex(c.scalar("beta")) != std::complex<double>(0)) y = sum_of(b, y, scaled(b.widened(x), "beta"));
  return b.narrowed(b.broadcast_to(y, shape), dtype);
}

// The ops of the form beta * x + alpha * (left · right): they differ in the ranks and in what the product sums over.
OpDef product_and_sum(const std::string& name, const char* text, int64_t left_rank, int64_t right_rank,
                      std::function<Shape(const Shape&, const Shape&)> shape,
                      std::function<ValueId(Builder&, ValueId, ValueId)> product,
                      std::function<bool(const Call&, const Shape&, const Shape&)> fits) {
  return functional(name)
      .doc(text)
      .operands("x", "left", "right")
      .attributes(attr<Scalar>("beta", int64_t{1}), attr<Scalar>("alpha", int64_t{1}))
      .constraint(name + "_c1", "left and right have the ranks of the op and the dims they share agree",
                  [=](const Call& c) {
                    return c.rank("left") == left_rank && c.rank("right") == right_rank &&
                           fits(c, c.shape("left"), c.shape("right"));
                  })
      .constraint(name + "_c2", "all operands have one dtype",
                  [](const Call& c) {
                    return c.type("x").dtype == c.type("left").dtype && c.type("left").dtype == c.type("right").dtype;
                  })
      .infer([=](const Call& c) { return Type{c.type("left").dtype, shape(c.shape("left"), c.shape("right"))}; })
      .decompose([=](Builder& b, const Call& c) {
        const ValueId left = c.value("left"), right = c.value("right");
        return scaled_sum(
            b, c, c.value("x"), [&] { return product(b, b.widened(left), b.widened(right)); },
            shape(b.shape(left), b.shape(right)));
      });
}

void scaled_product_mistakes(Mistakes& m) {
  product_mistakes(m);
  m.number("scale", "alpha", "an alpha", kFactors);
  m.number("scale", "beta", "a beta", kFactors);
}

OpDef addmm() {
  return product_and_sum("addmm", "beta * x + alpha * (left @ right)", 2, 2, matmul_shape, matmul_value, contracts)
      .from_aten("aten.addmm.default(x, left, right, beta, alpha)")
      .sample("torch.addmm(t(4), t(2, 3), t(3, 4))")
      .sample("torch.addmm(t(2, 4), t(2, 3), t(3, 4), beta=0.5, alpha=2)")
      .sample("torch.addmm(t(4) * float('nan'), t(2, 3), t(3, 4), beta=0)")
      .sample("torch.addmm(i(2, 1), i(2, 3), i(3, 4), beta=2, alpha=-3)")
      .mistakes(scaled_product_mistakes);
}

OpDef baddbmm() {
  const auto fits = [](const Call& c, const Shape& l, const Shape& r) { return c.agree(l[0], r[0]) && contracts(c, l, r); };
  return product_and_sum("baddbmm", "beta * x + alpha * (left @ right), batch by batch", 3, 3, matmul_shape, matmul_value, fits)
      .from_aten("aten.baddbmm.default(x, left, right, beta, alpha)")
      .sample("torch.baddbmm(t(5, 2, 4), t(5, 2, 3), t(5, 3, 4))")
      .sample("torch.baddbmm(t(1, 2, 1), t(5, 2, 3), t(5, 3, 4), beta=0.25, alpha=0.5)")
      .mistakes(scaled_product_mistakes);
}

OpDef addbmm() {
  const auto fits = [](const Call& c, const Shape& l, const Shape& r) { return c.agree(l[0], r[0]) && contracts(c, l, r); };
  const auto shape = [](const Shape& l, const Shape& r) { return Shape{l[1], r[2]}; };
  const auto product = [](Builder& b, ValueId l, ValueId r) { return b.dot_general(l, r, {}, {}, {0, 2}, {0, 1}); };
  return product_and_sum("addbmm", "beta * x + alpha * the sum over the batch of left @ right", 3, 3, shape, product, fits)
      .from_aten("aten.addbmm.default(x, left, right, beta, alpha)")
      .sample("torch.addbmm(t(2, 4), t(5, 2, 3), t(5, 3, 4), beta=2, alpha=0.5)");
}

OpDef addmv() {
  return product_and_sum("addmv", "beta * x + alpha * (left @ right) for a matrix and a vector", 2, 1, matmul_shape, matmul_value,
                         contracts)
      .from_aten("aten.addmv.default(x, left, right, beta, alpha)")
      .sample("torch.addmv(t(2), t(2, 3), t(3), beta=0.5, alpha=2)")
      .sample("torch.addmv(i(2), i(2, 3), i(3), beta=1.5, alpha=2.5)");
}

OpDef addr() {
  const auto shape = [](const Shape& l, const Shape& r) { return Shape{l[0], r[0]}; };
  const auto product = [](Builder& b, ValueId l, ValueId r) { return product_of(b, b.unsqueeze(l, 1), r); };
  return product_and_sum("addr", "beta * x + alpha * the outer product of two vectors", 1, 1, shape, product,
                         [](const Call&, const Shape&, const Shape&) { return true; })
      .from_aten("aten.addr.default(x, left, right, beta, alpha)")
      .sample("torch.addr(t(2, 3), t(2), t(3), beta=0.5, alpha=2)")
      .sample("torch.addr(m(2, 3), m(2), m(3))");
}

OpDef outer() {
  return functional("outer")
      .doc("outer product of two vectors")
      .operands("left", "right")
      .constraint("outer_c1", "left and right are vectors of one dtype",
                  [](const Call& c) {
                    return c.rank("left") == 1 && c.rank("right") == 1 && c.type("left").dtype == c.type("right").dtype;
                  })
      .infer([](const Call& c) { return Type{c.type("left").dtype, {c.shape("left")[0], c.shape("right")[0]}}; })
      .decompose([](Builder& b, const Call& c) { return product_of(b, b.unsqueeze(c.value("left"), 1), c.value("right")); })
      .one_kernel()
      .from_aten_call("aten.outer.default",
                      [](AtenCall& a) { return a.b.create_all("outer", promote(a.b, {a.operand("self"), a.operand("vec2")})); })
      .sample("torch.outer(t(3), t(4))")
      .sample("torch.outer(i(3), t(4))")
      .sample("torch.outer(m(3), m(4))");
}

OpDef bilinear() {
  return functional("bilinear")
      .doc("x1 · weight[o] · x2 + bias for each output o")
      .operands("x1", "x2", "weight", optional("bias"))
      .constraint("bilinear_c1", "weight is [out, in1, in2], the last dims of x1 and x2 are in1 and in2",
                  [](const Call& c) {
                    return c.rank("weight") == 3 && c.rank("x1") >= 1 && c.rank("x1") == c.rank("x2") &&
                           c.agree(c.shape("x1").back(), c.shape("weight")[1]) &&
                           c.agree(c.shape("x2").back(), c.shape("weight")[2]);
                  })
      .infer([](const Call& c) {
        Type y = c.type("x1");
        y.shape.back() = c.shape("weight")[0];
        return y;
      })
      .decompose([](Builder& b, const Call& c) {
        const ValueId x1 = b.widened(c.value("x1")), x2 = b.widened(c.value("x2"));
        const int64_t last = b.rank(x1) - 1;
        const ValueId partial = b.dot_general(x1, b.widened(c.value("weight")), {}, {}, {last}, {1});  // […, out, in2]
        const Ints batch = axes_between(0, last);
        ValueId y = b.dot_general(partial, x2, batch, batch, {last + 1}, {last});
        if (c.has("bias")) y = b.add(y, b.widened(c.value("bias")));
        return b.narrowed(y, c.type("x1").dtype);
      })
      .from_aten("aten.bilinear.default(x1, x2, weight, bias)")
      .sample("F.bilinear(t(2, 6, 3), t(2, 6, 4), t(5, 3, 4), t(5))")
      .sample("F.bilinear(t(6, 3), t(6, 4), t(5, 3, 4))");
}

}  // namespace

std::vector<OpDef> linear_ops() {
  return {linear(), matmul(), addmm(), baddbmm(), addbmm(), addmv(), addr(), outer(), bilinear()};
}

}  // namespace pycandle
