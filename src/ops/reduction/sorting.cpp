// Orders: sort, topk, and where a tensor is not zero.
#include <numeric>

#include "ir/mistakes.h"
#include "ops/core/alignment.h"
#include "ops/core/constraints.h"
#include "ops/core/evaluate.h"

namespace pycandle {

namespace {

// NaN counts as the largest number, as in torch.
template <class C> bool before(C a, C b, bool descending) {
  if (is_nan(a) || is_nan(b)) return descending ? is_nan(a) && !is_nan(b) : !is_nan(a) && is_nan(b);
  return descending ? a > b : a < b;
}

using Order = std::vector<int64_t>;

// Equal elements keep their order: the order is total, so a partial sort is stable too.
template <class Before> void put_first(Order& order, int64_t count, const Before& is_before) {
  std::partial_sort(order.begin(), order.begin() + count, order.end(),
                    [&](int64_t a, int64_t b) { return is_before(a, b) || (!is_before(b, a) && a < b); });
}

// As torch.topk does it, on whose algorithms it depends which of equal elements it takes.
template <class Before> void put_first_as_torch(Order& order, int64_t count, bool sorted, const Before& is_before) {
  const auto end = order.begin() + count;
  if (count * 64 <= std::ssize(order)) return std::partial_sort(order.begin(), end, order.end(), is_before);
  if (count == 0) return;
  std::nth_element(order.begin(), end - 1, order.end(), is_before);
  if (sorted) std::sort(order.begin(), end - 1, is_before);
}

// The first `count` of each lane in the order that `put` makes.
template <class Put>
std::vector<Array> ordered(const Evaluation& ev, const Array& x, int64_t axis, int64_t count, bool descending, const Put& put) {
  const int64_t length = x.rank() == 0 ? 1 : x.shape()[axis];
  const Array rows = x.rank() == 0 ? x : axis_to_end(x, axis);
  Sizes shape = rows.shape();
  if (!shape.empty()) shape.back() = count;
  Array values(ev.out_dtype(), shape), indices(DType::i64, shape);
  in_domain(x.dtype(), [&](auto zero) {
    using C = decltype(zero);
    if constexpr (!std::is_same_v<C, Complex>) {
      if (values.size() == 0) return;
      int64_t* to = indices.mutable_as<int64_t>();
      parallel_for(x.size() / length, std::max<int64_t>(1, 2048 / length), [&](int64_t begin, int64_t end) {
        std::vector<C> row(static_cast<size_t>(length)), sorted(static_cast<size_t>(count));
        Order order(static_cast<size_t>(length));
        for (int64_t r = begin; r < end; ++r) {
          load_chunk(rows, r * length, length, row.data());
          std::iota(order.begin(), order.end(), 0);
          put(order, count, [&](int64_t a, int64_t b) { return before(row[a], row[b], descending); });
          for (int64_t i = 0; i < count; ++i) {
            sorted[i] = row[order[i]];
            to[r * count + i] = order[i];
          }
          store_chunk(values, r * count, count, sorted.data());
        }
      });
    }
  });
  if (x.rank() == 0) return {values, indices};
  return {axis_from_end(values, axis), axis_from_end(indices, axis)};
}

OpDef sort() {
  return primitive("sort")
      .doc("the elements along an axis in order and where they stood; NaN is largest; always stable")
      .operands("x")
      .attributes(attr<int64_t>("axis"), attr<bool>("descending", false), attr<bool>("stable", true))
      .constraint("sort_c1", "x is " + text_of_kinds(reals | booleans),
                  [](const Call& c) { return is_one_of(c.type("x").dtype, reals | booleans); })
      .constraint("sort_c2", "axis is an axis of x", [](const Call& c) { return is_axis(c.integer("axis"), c.rank("x")); })
      .infer_all([](const Call& c) { return std::vector<Type>{c.type("x"), {DType::i64, c.shape("x")}}; })
      .aligned(along_all_but_axis)
      .evaluator_all([](const Evaluation& ev) {
        const Array& x = ev.array("x");
        return ordered(ev, x, ev.integer("axis"), x.shape()[ev.integer("axis")], ev.boolean("descending"),
                       [](Order& order, int64_t count, const auto& is_before) { put_first(order, count, is_before); });
      })
      .results({"values", "indices"})
      .mistakes([](Mistakes& m) { m.flag("direction order", "descending", "descending", "ascending"); });
}

OpDef topk() {
  return primitive("topk")
      .doc(
          "the k largest or smallest elements along an axis, in order, and where they stood; of equal ones the first when "
          "`stable`, else those that torch takes")
      .operands("x")
      .attributes(attr<Dim>("k"), attr<int64_t>("axis"), attr<bool>("largest", true), attr<bool>("sorted", true),
                  attr<bool>("stable", false))
      .constraint("topk_c1", "x is " + text_of_kinds(reals | booleans),
                  [](const Call& c) { return is_one_of(c.type("x").dtype, reals | booleans); })
      .constraint("topk_c2", "axis is an axis of x", [](const Call& c) { return is_axis(c.integer("axis"), c.rank("x")); })
      .constraint("topk_c3", "0 <= k <= the size of the axis",
                  [](const Call& c) {
                    return may_be_at_most(0, c.dim("k")) && may_be_at_most(c.dim("k"), c.shape("x")[c.integer("axis")]);
                  })
      .infer_all([](const Call& c) {
        Shape shape = c.shape("x");
        shape[c.integer("axis")] = c.dim("k");
        return std::vector<Type>{{c.type("x").dtype, shape}, {DType::i64, shape}};
      })
      .aligned(along_all_but_axis)
      .evaluator_all([](const Evaluation& ev) {
        const Array& x = ev.array("x");
        const int64_t k = ev.integer("k"), size = x.shape()[ev.integer("axis")];
        if (k < 0 || k > size)
          throw Error(ErrorCode::bad_input, "topk asks for more elements than the axis has")
              .op("topk")
              .expected("at most " + std::to_string(size))
              .found(std::to_string(k));
        const bool is_stable = ev.boolean("stable"), is_sorted = ev.boolean("sorted");
        return ordered(ev, x, ev.integer("axis"), k, ev.boolean("largest"),
                       [&](Order& order, int64_t count, const auto& is_before) {
                         if (is_stable) return put_first(order, count, is_before);
                         put_first_as_torch(order, count, is_sorted, is_before);
                       });
      })
      .results({"values", "indices"})
      .mistakes([](Mistakes& m) { m.flag("direction order", "largest", "the largest", "the smallest"); });
}

OpDef nonzero() {
  return primitive("nonzero")
      .doc("the indices of the elements that are not zero, one a row, in row-major order; their number binds the symbol `count`")
      .operands("x")
      .attributes(attr<Dim>("count"))
      .infer([](const Call& c) { return Type{DType::i64, {c.dim("count"), c.rank("x")}}; })
      .evaluator([](const Evaluation& ev) {
        const Array& x = ev.array("x");
        const Array holds = cast(x, DType::boolean);
        Sizes found;
        for (IndexWalk walk(x.shape()); !walk.done(); walk.next()) {
          if (holds.as<uint8_t>()[walk.position()]) found.insert(found.end(), walk.index().begin(), walk.index().end());
        }
        const auto total = std::count_if(holds.as<uint8_t>(), holds.as<uint8_t>() + holds.size(),
                                         [](uint8_t b) { return b != 0; });
        return store_all(DType::i64, {total, x.rank()}, found);
      });
}

}  // namespace

std::vector<OpDef> sorting_ops() { return {sort(), topk(), nonzero()}; }

}  // namespace pycandle
