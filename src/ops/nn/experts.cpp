// Mixture-of-experts dispatch: rows sorted by expert, and a matrix for each expert.
#include "ops/core/functional_helpers.h"
#include "ops/linalg/blocked_product.h"

namespace pycandle {
namespace {

// Rows [first, first + count) of x times the matrix of a group.
template <class T>
void multiply_group(const Array& x, const Array& weight, int64_t group, int64_t first, int64_t count, Array& out) {
  const int64_t depth = x.shape()[1], columns = weight.shape()[2];
  blocked_product<T>(
      {1, count, columns, depth},
      [&](int64_t, int64_t m, int64_t rows, int64_t k, int64_t layers, T* to) {
        for (int64_t i = 0; i < rows; ++i) load_chunk(x, (first + m + i) * depth + k, layers, to + i * layers);
      },
      [&](int64_t, int64_t k, int64_t layers, int64_t n, int64_t width, T* to) {
        for (int64_t i = 0; i < layers; ++i) load_chunk(weight, (group * depth + k + i) * columns + n, width, to + i * width);
      },
      [&](int64_t, int64_t m, int64_t n, int64_t width, const T* row) {
        store_chunk(out, (first + m) * columns + n, width, row);
      });
}

OpDef grouped_matmul() {
  return primitive("grouped_matmul")
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
      .rounds(Rounding::linear)
      .evaluator([](const Evaluation& ev) {
        const Array &x = ev.array("x"), &weight = ev.array("weight");
        const std::vector<int64_t> ends = load_int(ev.array("ends"));
        const int64_t rows = x.shape()[0], groups = weight.shape()[0];
        if (x.shape()[1] != weight.shape()[1] || static_cast<int64_t>(ends.size()) != groups)
          throw Error(ErrorCode::bad_input, "x, weight and ends do not fit together")
              .op("grouped_matmul")
              .expected("x [rows, in], weight [groups, in, out], ends [groups]")
              .found(to_string(x.shape()) + ", " + to_string(weight.shape()) + ", " + to_string(ev.array("ends").shape()));
        Array out(ev.out_dtype(), {rows, weight.shape()[2]});
        in_domain(x.dtype(), [&](auto zero) {
          for (int64_t e = 0, start = 0; e < groups; ++e) {
            const int64_t end = std::min(ends[e], rows);
            if (end > start) multiply_group<decltype(zero)>(x, weight, e, start, end - start, out);
            start = std::max<int64_t>(end, 0);
          }
        });
        return out;
      })
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
      .flops([](const Call& c, const Bindings& sizes) {
        return 2 * static_cast<double>((product(c.shape("x")) * c.shape("weight")[2]).evaluate(sizes));
      });
}

}  // namespace

std::vector<OpDef> expert_ops() { return {grouped_matmul()}; }

}  // namespace pycandle
