// Values that come from no operand.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

#include "ir/mistakes.h"
#include "ops/core/alignment.h"
#include "ops/core/constraints.h"
#include "ops/core/evaluate.h"

namespace pycandle {

namespace {

void other_integers(Mistakes& m) {
  const auto now = static_cast<int64_t>(as_double(m.call().scalar("value")));
  for (const int64_t other : {now + 1, now - 1})
    m.attribute(kOffByOne, "value", attribute(Scalar(other)), fmt::format("{}", now), fmt::format("{}", other));
  for (const int64_t other : {int64_t{0}, -now, 2 * now, now / 2}) {
    if (std::abs(other - now) > 1)
      m.attribute("constant", "value", attribute(Scalar(other)), fmt::format("a constant of {}", now),
                  fmt::format("a constant of {}", other));
  }
}

// Zero, infinity and what people compute from sizes are likelier than any number that fits.
void other_numbers(Mistakes& m) {
  const double now = as_double(m.call().scalar("value")), infinity = std::numeric_limits<double>::infinity();
  std::vector<double> usual{0, -infinity, infinity}, grid;
  const bool is_usual = now != 0 && std::isfinite(now);
  if (is_usual && std::abs(now) < 1e6) {
    if (now == std::round(now) && std::abs(now) > 1) usual.insert(usual.end(), {now + 1, now - 1});
    usual.insert(usual.end(), {-now, 1 / now, 2 * now, now / 2});
    std::set<int64_t> sizes;  // of what is computed here: a root of one is what attention divides by
    for (const Value& v : m.call().graph().values) {
      for (const Dim d : v.type.shape) sizes.insert(m.size(d));
    }
    for (const int64_t size : sizes) {
      const auto n = static_cast<double>(size);
      if (size > 1 && sizes.size() <= 12) usual.insert(usual.end(), {1 / std::sqrt(n), std::sqrt(n), 1 / n, n});
    }
  }
  std::erase(usual, now);
  for (double f : {-1.0, 0.01, 0.1, 0.25, 0.5, 0.8, 0.9, 0.99, 1.01, 1.1, 1.25, 2.0, 4.0, 10.0, 100.0}) grid.push_back(now * f);
  std::sort(grid.begin(), grid.end());
  m.number("constant", "value", "a constant", is_usual ? std::move(grid) : std::vector<double>{}, std::move(usual));
}

OpDef constant() {
  return primitive("constant")
      .doc("a tensor of one repeated number")
      .attributes(attr<Scalar>("value"), attr<Dims>("shape", Dims{}), attr<DType>("dtype"))
      .infer([](const Call& c) { return Type{c.dtype("dtype"), c.dims("shape")}; })
      .aligned([](const AlignedCall& c) -> std::optional<Alignment> { return c.all_free(); })
      .evaluator([](const Evaluation& ev) {
        const Array one = Array::scalar(ev.out_dtype(), ev.scalar("value"));
        const Sizes shape = ev.sizes("shape");
        return strided_copy(one, shape, Sizes(shape.size(), 0));
      })
      .spelled_torch("torch.full({shape}, {value}, dtype={dtype})")
      .results({"filled"})
      .mistakes([](Mistakes& m) {
        if (is_integral(m.call().dtype("dtype"))) return other_integers(m);
        if (is_floating(m.call().dtype("dtype"))) other_numbers(m);
      });
}

OpDef dim() {
  return primitive("dim")
      .doc("a size as a 0-d i64 tensor")
      .attributes(attr<Dim>("value"))
      .infer([](const Call&) { return Type{DType::i64, {}}; })
      .evaluator([](const Evaluation& ev) { return Array::scalar(DType::i64, Scalar(ev.integer("value"))); });
}

OpDef iota() {
  return primitive("iota")
      .doc("0, 1, …, size - 1")
      .attributes(attr<Dim>("size"), attr<DType>("dtype", DType::i64))
      .constraint("iota_c1", "dtype is floating or an integer", [](const Call& c) { return is_one_of(c.dtype("dtype"), reals); })
      .infer([](const Call& c) { return Type{c.dtype("dtype"), {c.dim("size")}}; })
      .evaluator([](const Evaluation& ev) {
        Array out(ev.out_dtype(), {ev.integer("size")});
        for_chunks(out.size(), [&](int64_t first, int64_t count) {
          std::array<int64_t, kChunk> values;
          for (int64_t i = 0; i < count; ++i) values[i] = first + i;
          store_chunk(out, first, count, values.data());
        });
        return out;
      })
      .results({"positions"});
}

}  // namespace

std::vector<OpDef> constant_ops() { return formulas({constant(), dim(), iota()}); }

}  // namespace pycandle
