// Mixture-of-experts dispatch: rows sorted by expert, and a matrix for each expert.
#include "ops/functional_helpers.h"

namespace pycandle {
namespace {

// One expert after another: a region sees only its inputs, so x rides along as a carry.
ValueId grouped(Builder& b, ValueId x, ValueId weight, ValueId ends) {
  const Dim experts = b.shape(weight)[0];
  const Type result{b.dtype(x), {b.shape(x)[0], b.shape(weight)[2]}};
  const Dim one_less = experts - 1;
  const ValueId first = b.full(int64_t{0}, b.dtype(ends), {1});
  const ValueId starts = b.concat({first, b.slice(ends, 0, 0, one_less)}, 0);

  Graph body;
  Builder inner = b.region(body);
  const ValueId y = body.add_input(result), rows = body.add_input(b.type(x));
  const ValueId matrix = body.add_input({b.dtype(weight), {b.shape(weight)[1], b.shape(weight)[2]}});
  const ValueId start = body.add_input({b.dtype(ends), {}}), end = body.add_input({b.dtype(ends), {}});
  const ValueId row = inner.iota(b.shape(x)[0], b.dtype(ends));
  const ValueId mine = inner.logical_and(inner.compare("ge", row, start), inner.compare("lt", row, end));
  const ValueId product = inner.dot_general(rows, matrix, {}, {}, {1}, {0});
  body.outputs = {inner.select(inner.unsqueeze(mine, 1), product, y), rows};

  std::vector<Graph> regions;
  regions.push_back(std::move(body));
  const ValueId nothing = b.full(0.0, result.dtype, result.shape);
  return b.create_all("scan", {nothing, x, weight, starts, ends}, {{"carries", int64_t{2}}, {"length", experts}},
                      std::move(regions))[0];
}

OpDef grouped_matmul() {
  return functional("grouped_matmul")
      .doc(
          "rows of x times the matrix of their group: group e is the rows from ends[e - 1] to ends[e]; rows after the last are 0")
      .operands("x", "weight", "ends")
      .constraint("grouped_matmul_c1", "x is [rows, in], weight [groups, in, out], ends [groups]",
                  [](const Call& c) {
                    return c.rank("x") == 2 && c.rank("weight") == 3 && c.rank("ends") == 1 &&
                           c.agree(c.shape("x")[1], c.shape("weight")[1]) && c.agree(c.shape("ends")[0], c.shape("weight")[0]);
                  })
      .constraint("grouped_matmul_c2", "x and weight have one dtype, and ends are i64 or i32",
                  [](const Call& c) { return c.type("x").dtype == c.type("weight").dtype && is_index(c.type("ends").dtype); })
      .infer([](const Call& c) { return Type{c.type("x").dtype, {c.shape("x")[0], c.shape("weight")[2]}}; })
      .decompose([](Builder& b, const Call& c) { return grouped(b, c.value("x"), c.value("weight"), c.value("ends")); })
      .from_aten("transformers.grouped_mm_fallback.default(x, weight, ends)")
      .from_aten_call("aten._grouped_mm.default",
                      [](AtenCall& c) {
                        const ValueId x = c.tensor("self"), weight = c.tensor("mat2");
                        if (c.maybe_tensor("bias")) c.unsupported("a bias");
                        if (c.dtype("out_dtype").value_or(c.b.dtype(x)) != c.b.dtype(x)) c.unsupported("another out_dtype");
                        const auto ends = c.maybe_tensor("offs");
                        if (!ends && c.b.rank(x) == 3 && c.b.rank(weight) == 3) return Values{c.b.matmul(x, weight)};
                        if (!ends || c.b.rank(x) != 2 || c.b.rank(weight) != 3)
                          c.unsupported("operands of " + c.b.type(x).text() + " and " + c.b.type(weight).text());
                        return c.b.create_all("grouped_matmul", {x, weight, *ends});
                      })
      .sample("torch.ops.transformers.grouped_mm_fallback(t(7, 4), t(3, 4, 5), torch.tensor([2, 2, 6]))")
      .sample("torch.ops.transformers.grouped_mm_fallback(t(6, 4), t(2, 4, 5), torch.tensor([0, 6], dtype=torch.int32))")
      .sample("torch.ops.transformers.grouped_mm_fallback(t(0, 4), t(2, 4, 5), torch.tensor([0, 0]))")
      .sample(
          "torch._grouped_mm(t(6, 8, dtype=torch.bfloat16), t(2, 8, 16, dtype=torch.bfloat16), "
          "offs=torch.tensor([2, 6], dtype=torch.int32))")
      .spelled_cpp("grouped_matmul");
}

}  // namespace

std::vector<OpDef> expert_ops() { return {grouped_matmul()}; }

}  // namespace pycandle
