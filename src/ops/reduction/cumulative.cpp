// Running results along an axis.
#include <cmath>
#include <limits>

#include "ir/mistakes.h"
#include "ops/core/alignment.h"
#include "ops/core/constraints.h"
#include "ops/core/evaluate.h"

namespace pycandle {

namespace {

OpDef cumulative(const char* name, unsigned kinds, const char* doc) {
  const std::string id = name;
  return primitive(name)
      .doc(doc)
      .operands("x")
      .attributes(attr<int64_t>("axis"))
      .constraint(id + "_c1", "x is " + text_of_kinds(kinds),
                  [kinds](const Call& c) { return is_one_of(c.type("x").dtype, kinds); })
      .constraint(id + "_c2", "axis is an axis of x", [](const Call& c) { return is_axis(c.integer("axis"), c.rank("x")); })
      .infer([](const Call& c) { return c.type("x"); })
      .aligned(along_all_but_axis);
}

void other_axis_or_end(Mistakes& m) {
  m.other_axis("axis");
  const int64_t axis = m.call().integer("axis");
  m.build("direction order", "from the front", "from the back", [axis](const MistakeSite& site) {
    return Values{site.b.reverse(site.same({site.b.reverse(site.operands[0], {axis})})[0], {axis})};
  });
}

// run(row, count) turns each lane of the axis, as a row of C, into its running results.
template <class C, class Run> Array along_axis(const Evaluation& ev, const Array& x, Run run) {
  const int64_t axis = ev.integer("axis"), length = x.shape()[axis];
  const Array rows = axis_to_end(x, axis);
  Array out(ev.out_dtype(), rows.shape());
  if (x.size() == 0) return axis_from_end(out, axis);
  parallel_for(x.size() / length, std::max<int64_t>(1, 8192 / length), [&](int64_t begin, int64_t end) {
    std::vector<C> row(static_cast<size_t>(length));
    for (int64_t r = begin; r < end; ++r) {
      load_chunk(rows, r * length, length, row.data());
      run(row);
      store_chunk(out, r * length, length, row.data());
    }
  });
  return axis_from_end(out, axis);
}

template <class Combine> Array running(const Evaluation& ev, Combine combine) {
  const Array& x = ev.array("x");
  return in_domain(x.dtype(), [&](auto zero) {
    using C = decltype(zero);
    return along_axis<C>(ev, x, [&](std::vector<C>& row) {
      for (size_t i = 1; i < row.size(); ++i) row[i] = combine(row[i - 1], row[i]);
    });
  });
}

double log_of_sum_of_exps(double a, double b) {
  const double low = std::fmin(a, b), high = std::fmax(a, b);
  if (is_nan(a) || is_nan(b)) return std::numeric_limits<double>::quiet_NaN();
  if (low == high && std::isinf(low)) return low;  // their difference would be NaN
  return high + std::log1p(std::exp(low - high));
}

// By the real parts, as torch: of equal infinities the negative one is its own answer, the positive one keeps its phase.
Complex log_of_sum_of_exps(Complex a, Complex b) {
  if (is_nan(a) || is_nan(b)) return {std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::quiet_NaN()};
  const Complex low = a.real() < b.real() ? a : b, high = a.real() < b.real() ? b : a;
  if (std::isinf(low.real()) && low.real() == high.real()) return low.real() < 0 ? low : std::log(std::exp(low) + std::exp(high));
  return high + std::log(1.0 + std::exp(low - high));
}

// Values and where they stand: of equal ones the last, and NaN stays once it was met (as torch).
OpDef running_extreme(const char* name, const char* doc, bool largest) {
  return cumulative(name, reals | booleans, doc)
      .infer_all([](const Call& c) { return std::vector<Type>{c.type("x"), {DType::i64, c.shape("x")}}; })
      .evaluator_all([largest](const Evaluation& ev) {
        const Array& x = ev.array("x");
        const int64_t axis = ev.integer("axis"), length = x.shape()[axis];
        const Array rows = axis_to_end(x, axis);
        Array values(ev.out_dtype(), rows.shape()), indices(DType::i64, rows.shape());
        in_domain(x.dtype(), [&](auto zero) {
          using C = decltype(zero);
          if constexpr (!std::is_same_v<C, Complex>) {
            std::vector<C> row(static_cast<size_t>(length));
            std::vector<int64_t> places(static_cast<size_t>(length));
            for (int64_t first = 0; first < x.size(); first += length) {
              load_chunk(rows, first, length, row.data());
              for (size_t i = 1; i < row.size(); ++i) {
                const C best = row[i - 1];
                const bool replaces = is_nan(row[i]) || (!is_nan(best) && (largest ? row[i] >= best : row[i] <= best));
                places[i] = replaces ? static_cast<int64_t>(i) : places[i - 1];
                if (!replaces) row[i] = best;
              }
              store_chunk(values, first, length, row.data());
              store_chunk(indices, first, length, places.data());
            }
          }
        });
        return std::vector<Array>{axis_from_end(values, axis), axis_from_end(indices, axis)};
      });
}

}  // namespace

std::vector<OpDef> cumulative_ops() {
  return {
      cumulative("cumsum", numbers, "running sums along the axis; integers wrap")
          .rounds(Rounding::linear)
          .evaluator([](const Evaluation& ev) { return running(ev, [](auto a, auto b) { return sum_of(a, b); }); })
          .spelled_torch("torch.cumsum({x}, {axis})")
          .results({"total"})
          .mistakes(other_axis_or_end),
      cumulative("cumprod", numbers, "running products along the axis; integers wrap")
          .rounds(Rounding::relative)
          .evaluator([](const Evaluation& ev) { return running(ev, [](auto a, auto b) { return product_of(a, b); }); })
          .spelled_torch("torch.cumprod({x}, {axis})")
          .mistakes(other_axis_or_end),
      running_extreme("cummax", "running maxima along the axis and where they stand", true).mistakes(other_axis_or_end),
      running_extreme("cummin", "running minima along the axis and where they stand", false).mistakes(other_axis_or_end),
      cumulative("logcumsumexp", inexact, "logarithms of the running sums of exp(x)")
          .rounds(Rounding::relative)
          .evaluator([](const Evaluation& ev) {
            return running(ev, [](auto a, auto b) {
              if constexpr (std::is_same_v<decltype(a), int64_t>)
                return a;  // no integer comes here
              else
                return log_of_sum_of_exps(a, b);
            });
          }),
  };
}

}  // namespace pycandle
