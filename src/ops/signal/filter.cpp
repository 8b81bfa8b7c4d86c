// Recursive filters over time.
#include "ops/core/functional_helpers.h"

namespace pycandle {
namespace {

// y[t] = x[t] - sum over k of a[k] * y[t - order + k], for the coefficients of the past (the last one, of y[t], is 1).
OpDef recursive_filter() {
  return functional("recursive_filter")
      .doc(
          "y[t] = x[t] minus earlier y times their coefficients, oldest first: x [N, C, T], coefficients [C, order + 1], of "
          "which the "
          "last (y[t]'s own) counts as 1")
      .operands("x", "coefficients")
      .constraint("recursive_filter_c1", "x is [N, C, T], coefficients [C, order + 1], of one floating dtype",
                  [](const Call& c) {
                    return c.rank("x") == 3 && c.rank("coefficients") == 2 &&
                           c.agree(c.shape("x")[1], c.shape("coefficients")[0]) && is_floating(c.type("x").dtype) &&
                           c.type("x").dtype == c.type("coefficients").dtype;
                  })
      .constraint("recursive_filter_c2", "there is a coefficient",
                  [](const Call& c) { return may_be_at_most(1, c.shape("coefficients")[1]); })
      .infer([](const Call& c) { return c.type("x"); })
      .decompose([](Builder& b, const Call& c) {
        const ValueId x = c.value("x"), all = c.value("coefficients");
        const Dim order = b.shape(all)[1] - 1;
        if (order == Dim(0)) return x;
        const ValueId past_coefficients = b.slice(all, 1, 0, order);
        const ValueId steps = b.transpose(x, {2, 0, 1});
        const Type now{b.dtype(x), {b.shape(x)[0], b.shape(x)[1]}}, past{b.dtype(x), {b.shape(x)[0], b.shape(x)[1], order}};
        Graph body;
        Builder inner = b.region(body);
        const ValueId before = body.add_input(past), a = body.add_input(b.type(past_coefficients)), input = body.add_input(now);
        const ValueId y = inner.sub(input, inner.sum(inner.mul(before, a), {2}, false));
        const ValueId after = inner.concat({inner.slice(before, 2, 1, order), inner.unsqueeze(y, 2)}, 2);
        body.outputs = {after, a, y};
        std::vector<Graph> regions;
        regions.push_back(std::move(body));
        const ValueId silence = b.full(0.0, past.dtype, past.shape);
        const ValueId ys = b.create_all("scan", {silence, past_coefficients, steps},
                                        {{"carries", int64_t{2}}, {"length", b.shape(x)[2]}}, std::move(regions))[2];
        return b.transpose(ys, {1, 2, 0});
      })
      .from_aten("pycandle.recursive_filter.default(x, coefficients)")
      .sample("torch.ops.pycandle.recursive_filter(t(2, 3, 9) * 0.3, t(3, 3) * 0.3)")
      .sample("torch.ops.pycandle.recursive_filter(t(2, 1, 5), t(1, 1))");
}

}  // namespace

std::vector<OpDef> filter_ops() { return {recursive_filter()}; }

}  // namespace pycandle
