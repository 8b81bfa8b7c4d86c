// Reductions over axes, which the result no longer has.
#include <fmt/format.h>

#include <limits>
#include <numeric>

#include "ir/mistakes.h"
#include "ops/core/alignment.h"
#include "ops/core/constraints.h"
#include "ops/core/evaluate.h"

namespace pycandle {

namespace {

// x with the reduced axes last, so that each result is one row.
struct Rows {
  Array x;
  Sizes shape;  // of the result
  int64_t length;
};
Rows rows_of(const Array& x, const Ints& axes) {
  Rows rows{x, {}, 1};
  Ints order;
  for (int64_t a = 0; a < x.rank(); ++a) {
    if (contains(axes, a)) continue;
    order.push_back(a);
    rows.shape.push_back(x.shape()[a]);
  }
  for (int64_t a = 0; a < x.rank(); ++a) {
    if (!contains(axes, a)) continue;
    order.push_back(a);
    rows.length *= x.shape()[a];
  }
  if (!std::is_sorted(order.begin(), order.end())) rows.x = transposed(x, order);
  return rows;
}

// Eight partial results side by side: the compiler makes one vector of them, and long sums lose fewer digits.
constexpr int64_t kLanes = 8;

template <class C, class Combine> C reduce_row(const Array& x, int64_t first, int64_t length, C initial, Combine combine) {
  std::array<C, kLanes> lanes;
  lanes.fill(initial);
  std::array<C, kChunk> chunk;
  for (int64_t done = 0; done < length; done += kChunk) {
    const int64_t count = std::min(kChunk, length - done);
    load_chunk(x, first + done, count, chunk.data());
    const int64_t whole = count / kLanes * kLanes;
    for (int64_t i = 0; i < whole; i += kLanes) {
      for (int64_t lane = 0; lane < kLanes; ++lane) lanes[lane] = combine(lanes[lane], chunk[i + lane]);
    }
    for (int64_t i = whole; i < count; ++i) lanes[i - whole] = combine(lanes[i - whole], chunk[i]);
  }
  for (int64_t width = kLanes / 2; width > 0; width /= 2) {
    for (int64_t lane = 0; lane < width; ++lane) lanes[lane] = combine(lanes[lane], lanes[lane + width]);
  }
  return lanes[0];
}

template <class C, class Combine> Array reduce_rows(const Evaluation& ev, const Array& x, C initial, Combine combine) {
  const Rows rows = rows_of(x, ev.integers("axes"));
  Array out(ev.out_dtype(), rows.shape);
  parallel_for(out.size(), std::max<int64_t>(1, 16384 / std::max<int64_t>(1, rows.length)), [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      const C value = reduce_row(rows.x, row * rows.length, rows.length, initial, combine);
      store_chunk(out, row, 1, &value);
    }
  });
  return out;
}

OpDef reduction(const char* name, unsigned kinds, const char* doc) {
  const std::string id = name;
  return primitive(name)
      .doc(doc)
      .operands("x")
      .attributes(attr<Ints>("axes"))
      .constraint(id + "_c1", "x is " + text_of_kinds(kinds),
                  [kinds](const Call& c) { return is_one_of(c.type("x").dtype, kinds); })
      .constraint(id + "_c2", "axes are different axes of x",
                  [](const Call& c) { return are_axes(c.integers("axes"), c.rank("x")); })
      .infer([](const Call& c) { return Type{c.type("x").dtype, without_axes(c.shape("x"), c.integers("axes"))}; })
      .aligned(along_what_is_not_reduced)
      .flops([](const Call& c, const Bindings& sizes) { return static_cast<double>(product(c.shape("x")).evaluate(sizes)); });
}

void other_axes(Mistakes& m) { m.other_axis("axes"); }

void mean_instead(Mistakes& m) {
  if (!is_floating(m.call().type("x").dtype)) return;
  Dim count(1);
  for (const int64_t axis : m.call().integers("axes")) count = count * m.call().shape("x")[axis];
  m.result("reduction", "a sum", "a mean", [count](Builder& b, ValueId y) { return b.div(y, b.dim_value(count, b.dtype(y))); });
}

OpDef reduce_sum() {
  return reduction("reduce_sum", numbers, "sum over the axes, accumulated in double; integers wrap")
      .rounds(Rounding::linear)
      .evaluator([](const Evaluation& ev) {
        return in_domain(ev.array("x").dtype(), [&](auto zero) {
          return reduce_rows(ev, ev.array("x"), zero, [](auto a, auto b) { return sum_of(a, b); });
        });
      })
      .spelled_cpp(CppForm::Kind::member, "sum")
      .spelled_torch("torch.sum({x}, {axes})")
      .called("a sum")
      .mistakes(other_axes)
      .mistakes(mean_instead)
      .mistaken_for("reduction", {"reduce_max", "reduce_min"});
}

OpDef reduce_prod() {
  return reduction("reduce_prod", numbers, "product over the axes; integers wrap")
      .rounds(Rounding::relative)
      .evaluator([](const Evaluation& ev) {
        return in_domain(ev.array("x").dtype(), [&](auto zero) {
          return reduce_rows(ev, ev.array("x"), decltype(zero)(1), [](auto a, auto b) { return product_of(a, b); });
        });
      })
      .mistakes(other_axes);
}

void require_elements(const Evaluation& ev, const Array& x, const Ints& axes) {
  const Rows rows{
      {}, {}, std::accumulate(axes.begin(), axes.end(), int64_t{1}, [&](int64_t n, int64_t a) { return n * x.shape()[a]; })};
  if (rows.length == 0 && x.size() == 0) {
    throw Error(ErrorCode::bad_input, ev.node().op->name + " of no elements has no value")
        .op(ev.node().op->name)
        .expected("at least one element on the reduced axes")
        .found("shape " + to_string(x.shape()));
  }
}

void mean_for_extreme(Mistakes& m) {
  if (!is_floating(m.call().type("x").dtype)) return;
  m.other_op("reduction", "mean", {{"axes", m.call().integers("axes")}, {"keep", false}});
}

// better(a, b): does b replace a? NaN replaces everything and is replaced by nothing, as in torch.
OpDef extreme(const char* name, const char* doc, bool largest) {
  return reduction(name, reals | booleans, doc).evaluator([largest](const Evaluation& ev) {
    const Array& x = ev.array("x");
    require_elements(ev, x, ev.integers("axes"));
    const auto run = [&](auto least, auto greatest) {
      if (largest) return reduce_rows(ev, x, least, [](auto a, auto b) { return b > a || is_nan(b) ? b : a; });
      return reduce_rows(ev, x, greatest, [](auto a, auto b) { return b < a || is_nan(b) ? b : a; });
    };
    constexpr double kInfinity = std::numeric_limits<double>::infinity();
    if (domain_of(x.dtype()) == Domain::real) return run(-kInfinity, kInfinity);
    return run(std::numeric_limits<int64_t>::min(), std::numeric_limits<int64_t>::max());
  });
}

// The last of equal elements, where torch takes the first.
void last_of_equals(Mistakes& m) {
  const int64_t given = m.call().integer("axis"), axis = given < 0 ? given + m.call().rank("x") : given;
  m.build("tie rule", "the first of equal elements", "the last of equal elements", [axis](const MistakeSite& site) {
    const ValueId x = site.operands[0], turned = site.same({site.b.reverse(x, {axis})})[0];
    const ValueId last = site.b.sub(
        site.b.cast(site.b.create("dim", {}, {{"value", site.b.shape(x)[axis]}}), site.b.dtype(turned)),
        site.b.full(int64_t{1}, site.b.dtype(turned)));
    return Values{site.b.sub(site.b.broadcast_to(last, site.b.shape(turned)), turned)};
  });
}

OpDef arg_extreme(const char* name, const char* doc, bool largest) {
  const std::string id = name;
  return primitive(name)
      .doc(doc)
      .operands("x")
      .attributes(attr<int64_t>("axis"))
      .constraint(id + "_c1", "x is " + text_of_kinds(reals | booleans),
                  [](const Call& c) { return is_one_of(c.type("x").dtype, reals | booleans); })
      .constraint(id + "_c2", "axis is an axis of x", [](const Call& c) { return is_axis(c.integer("axis"), c.rank("x")); })
      .infer([](const Call& c) { return Type{DType::i64, without_axes(c.shape("x"), {c.integer("axis")})}; })
      .aligned([](const AlignedCall& c) -> std::optional<Alignment> {
        Alignment a = c.all_free();
        const int64_t gone = c.call.integer("axis");
        for (int64_t to = 0; to < static_cast<int64_t>(c.rank()); ++to) a.axes[0][to] = to < gone ? to : to + 1;
        return a;
      })
      .evaluator([largest](const Evaluation& ev) {
        const Array& x = ev.array("x");
        require_elements(ev, x, {ev.integer("axis")});
        const Rows rows = rows_of(x, {ev.integer("axis")});
        Array out(DType::i64, rows.shape);
        in_domain(x.dtype(), [&](auto zero) {
          using C = decltype(zero);
          if constexpr (!std::is_same_v<C, Complex>) {
            std::vector<C> row(static_cast<size_t>(rows.length));
            for (int64_t r = 0; r < out.size(); ++r) {
              load_chunk(rows.x, r * rows.length, rows.length, row.data());
              size_t best = 0;
              for (size_t i = 1; i < row.size() && !is_nan(row[best]); ++i) {
                if ((largest ? row[i] > row[best] : row[i] < row[best]) || is_nan(row[i])) best = i;
              }
              out.mutable_as<int64_t>()[r] = static_cast<int64_t>(best);
            }
          }
        });
        return out;
      })
      .spelled_torch(fmt::format("torch.{}({{x}}, {{axis}})", name))
      .mistakes([](Mistakes& m) { m.other_axis("axis"); })
      .mistakes(last_of_equals);
}

}  // namespace

std::vector<OpDef> reduction_ops() {
  return formulas({
      reduce_sum(),
      reduce_prod(),
      extreme("reduce_max", "largest over the axes; NaN wins", true)
          .spelled_cpp(CppForm::Kind::member, "amax")
          .spelled_torch("torch.amax({x}, {axes})")
          .mistakes(mean_for_extreme)
          .called("a maximum")
          .mistakes(other_axes)
          .mistaken_for("reduction", {"reduce_sum", "reduce_min"}),
      extreme("reduce_min", "smallest over the axes; NaN wins", false)
          .spelled_cpp(CppForm::Kind::member, "amin")
          .spelled_torch("torch.amin({x}, {axes})")
          .mistakes(mean_for_extreme)
          .called("a minimum")
          .mistakes(other_axes)
          .mistaken_for("reduction", {"reduce_sum", "reduce_max"}),
      reduction("reduce_and", booleans, "do all hold?").evaluator([](const Evaluation& ev) {
        return reduce_rows(ev, ev.array("x"), int64_t{1}, [](int64_t a, int64_t b) { return a & b; });
      }),
      reduction("reduce_or", booleans, "does any hold?").evaluator([](const Evaluation& ev) {
        return reduce_rows(ev, ev.array("x"), int64_t{0}, [](int64_t a, int64_t b) { return a | b; });
      }),
      arg_extreme("argmax", "index of the first largest element along the axis; NaN is largest", true)
          .mistaken_for("extreme", {"argmin"}),
      arg_extreme("argmin", "index of the first smallest element along the axis; NaN is smallest", false)
          .mistaken_for("extreme", {"argmax"}),
  });
}

}  // namespace pycandle
