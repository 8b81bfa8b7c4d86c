// Padding, and reading at indices that are data.
#include <algorithm>
#include <utility>
#include <vector>

#include "backends/cpu/kernel_step.h"
#include "backends/cpu/lowerings.h"
#include "backends/evaluator.h"

namespace pycandle::cpu {
namespace {

// ---- padding

std::vector<int64_t> ones(size_t n) { return std::vector<int64_t>(n, 1); }

bool lower_pad(Planner& p, size_t index) {
  const Node& node = p.node(index);
  const Call c = p.call(index);
  const Sizes low = p.sizes(c.dims("low")), high = p.sizes(c.dims("high")), sizes = p.sizes(node.results[0]);
  View x = p.view(node.operands[0]);
  const size_t rank = x.sizes.size();
  Sizes starts(rank), stops = x.sizes;
  for (size_t a = 0; a < rank; ++a) {
    if (low[a] + x.sizes[a] + high[a] < 0) return false;  // the evaluator says what is wrong
    starts[a] = std::min(std::max<int64_t>(0, -low[a]), x.sizes[a]);
    stops[a] = std::max(starts[a], x.sizes[a] - std::max<int64_t>(0, -high[a]));
  }
  x = sliced(x, starts, stops, ones(rank));
  const bool is_all_padding = x.count() == 0;
  const View out = p.result(node.results[0]);
  const View value = dense_view(p.constant_buffer(Array::scalar(out.dtype, c.scalar("value"))), out.dtype, {});
  const auto fill = [&](const Sizes& from, const Sizes& to) {
    const View part = sliced(out, from, to, ones(rank));
    p.copy(broadcasted(value, part.sizes, {}), part);
  };
  // What lies before and after x on one axis, inside x's part of the axes before it.
  Sizes from(rank, 0), to = sizes;
  for (size_t a = 0; a < rank && !is_all_padding; ++a) {
    const int64_t begin = std::max<int64_t>(0, low[a]), end = begin + x.sizes[a];
    Sizes edge = to;
    edge[a] = begin;
    fill(from, edge);
    edge = from;
    edge[a] = end;
    fill(edge, to);
    from[a] = begin;
    to[a] = end;
  }
  if (is_all_padding)
    fill(from, to);
  else
    p.copy(x, sliced(out, from, to, ones(rank)));
  p.define(node.results[0], out);
  return true;
}

// ---- indices

// Of a run: as i64, or i32.
struct Indices {
  const int64_t* wide = nullptr;
  const int32_t* narrow = nullptr;
  int64_t operator[](int64_t i) const { return wide != nullptr ? wide[i] : narrow[i]; }
};

Indices indices_of(const Context& c, const View& v) {
  if (v.dtype == DType::i64) return {c.pointer<int64_t>(v), nullptr};
  return {nullptr, c.pointer<int32_t>(v)};
}

bool are_inside(const Indices& indices, int64_t count, int64_t size) {
  for (int64_t i = 0; i < count; ++i) {
    if (indices[i] < 0 || indices[i] >= size) return false;
  }
  return true;
}

// Calls body with an unsigned integer as wide as the elements are; false when there is none.
template <class Body> bool with_width(DType dtype, const Body& body) {
  switch (size_of(dtype)) {
    case 1: body(uint8_t{}); return true;
    case 2: body(uint16_t{}); return true;
    case 4: body(uint32_t{}); return true;
    case 8: body(uint64_t{}); return true;
    default: return false;
  }
}

bool has_width(DType dtype) {
  return with_width(dtype, [](auto) {});
}

// Both ops: x as [outer, size, inner], and out[o, i, j] = x[o, index, j], where the index is that of i (take), or of (o, i, j).
struct Reading {
  View x, indices, out;
  int64_t outer = 1, size = 0, count = 0, inner = 1;
  bool has_own = false;  // an index for each element
};

template <class T> void read_rows(const Reading& r, const T* x, const Indices& at, T* out, int64_t begin, int64_t end) {
  for (int64_t row = begin; row < end; ++row) {  // of out: [outer, count]
    const int64_t o = row / r.count, i = row % r.count;
    T* to = out + row * r.inner;
    const T* from = x + o * r.size * r.inner;
    if (r.has_own) {
      for (int64_t j = 0; j < r.inner; ++j) to[j] = from[at[row * r.inner + j] * r.inner + j];
    } else {
      std::copy_n(from + at[i] * r.inner, r.inner, to);
    }
  }
}

// Rows of one element each: the index of the last axis.
template <class T, class I> void read_elements(const Reading& r, const T* x, const I* at, T* out, int64_t begin, int64_t end) {
  for (int64_t o = begin; o < end; ++o) {
    const T* from = x + o * r.size;
    const I* own = r.has_own ? at + o * r.count : at;
    T* to = out + o * r.count;
    for (int64_t i = 0; i < r.count; ++i) to[i] = from[own[i]];
  }
}

void add_reading(Planner& p, size_t index, const Reading& r) {
  const Node& node = p.node(index);
  Step step;
  step.kernel = "gather";
  step.work = static_cast<double>(r.out.count());
  step.reads = {r.x.buffer, r.indices.buffer};
  step.writes = {r.out.buffer};
  const bool is_last = r.inner == 1;
  const int64_t units = is_last ? r.outer : r.outer * r.count;
  const int parts = parts_for(p.threads(), units, 8 * step.work);
  step.run = [&g = p.graph(), &node, &bound = p.bindings(), r, is_last, units, parts](Context& c) {
    const Indices at = indices_of(c, r.indices);
    if (!are_inside(at, r.indices.count(), r.size)) {  // the evaluator says which is not
      Evaluator{bound, 0, nullptr}.run(g, node, {c.array(r.x), c.array(r.indices)});
    }
    with_width(r.x.dtype, [&](auto element) {
      using T = decltype(element);
      const T* x = c.pointer<T>(r.x);
      T* out = c.pointer<T>(r.out);
      run_parts(parts, [&](int part) {
        const int64_t begin = part_of(units, parts, part), end = part_of(units, parts, part + 1);
        if (!is_last) {
          read_rows(r, x, at, out, begin, end);
        } else if (at.wide != nullptr) {
          read_elements(r, x, at.wide, out, begin, end);
        } else {
          read_elements(r, x, at.narrow, out, begin, end);
        }
      });
    });
  };
  p.add(std::move(step));
}

bool lower_gather(Planner& p, size_t index) {
  const Node& node = p.node(index);
  const auto axis = static_cast<size_t>(p.call(index).integer("axis"));
  const Sizes x = p.sizes(node.operands[0]), indices = p.sizes(node.operands[1]);
  Reading r;
  for (size_t a = 0; a < x.size(); ++a) {
    if (a != axis && x[a] != indices[a]) return false;
    if (a != axis) (a < axis ? r.outer : r.inner) *= x[a];
  }
  if (x.empty() || !has_width(p.dtype(node.operands[0])) || element_count(indices) == 0) return false;
  r.x = p.dense(node.operands[0]);
  r.indices = p.dense(node.operands[1]);
  r.out = p.result(node.results[0]);
  r.size = x[axis];
  r.count = indices[axis];
  r.has_own = true;
  add_reading(p, index, r);
  p.define(node.results[0], r.out);
  return true;
}

// ---- places among sorted numbers

// Calls body with a number of the dtype; false when there is none.
template <class Body> bool with_number(DType dtype, const Body& body) {
  switch (dtype) {
    case DType::f32: body(float{}); return true;
    case DType::f64: body(double{}); return true;
    case DType::i32: body(int32_t{}); return true;
    case DType::i64: body(int64_t{}); return true;
    default: return false;
  }
}

bool claims_searchsorted(const Call& c) {
  return with_number(c.type("values").dtype, [](auto) {});
}

bool lower_searchsorted(Planner& p, size_t index) {
  const Node& node = p.node(index);
  const bool right = p.call(index).boolean("right");
  const View boundaries = p.dense(node.operands[0]), values = p.dense(node.operands[1]), out = p.result(node.results[0]);
  const int64_t length = boundaries.sizes.back(), count = values.count();
  const int64_t rows = boundaries.rank() == 1 ? 1 : element_count(Sizes(boundaries.sizes.begin(), boundaries.sizes.end() - 1));
  const int64_t each = rows == 0 ? 0 : count / rows;
  Step step;
  step.kernel = "searchsorted";
  step.work = 16 * static_cast<double>(count);
  step.reads = {boundaries.buffer, values.buffer};
  step.writes = {out.buffer};
  const int parts = parts_for(p.threads(), count, step.work);
  step.run = [=](Context& c) {
    with_number(values.dtype, [&](auto number) {
      using T = decltype(number);
      run_parts(parts, [&](int part) {
        for (int64_t i = part_of(count, parts, part); i < part_of(count, parts, part + 1); ++i) {
          const T* row = c.pointer<T>(boundaries) + i / each * length;
          const T value = c.pointer<T>(values)[i];
          // As torch asks: what compares with nothing, NaN, belongs behind all.
          const auto is_before = [&](T b) { return right ? !(b > value) : !(b >= value); };
          c.pointer<int64_t>(out)[i] = std::partition_point(row, row + length, is_before) - row;
        }
      });
    });
  };
  if (count > 0) p.add(std::move(step));
  p.define(node.results[0], out);
  return true;
}

}  // namespace

bool lower_take_by_pattern(Planner& p, size_t index) {
  const Node& node = p.node(index);
  if (!p.is_constant(node.operands[1]) || p.sizes(node.operands[1]).size() != 1) return false;
  const auto axis = static_cast<size_t>(p.call(index).integer("axis"));
  const View& x = p.view(node.operands[0]);
  const int64_t size = x.sizes[axis];
  const std::vector<int64_t> at = load_int(*p.constant(node.operands[1]));
  const auto count = static_cast<int64_t>(at.size());
  if (count < 2 || size == 0 || at.front() < 0 || at.back() >= size) return false;
  const auto are = [&](const auto& expected) {
    for (int64_t i = 0; i < count; ++i)
      if (at[static_cast<size_t>(i)] != expected(i)) return false;
    return true;
  };
  const int64_t step = at[1] - at[0], times = count / size;
  if (step > 0 && are([&](int64_t i) { return at[0] + i * step; })) {
    Sizes starts(x.sizes.size(), 0), stops = x.sizes;
    std::vector<int64_t> steps = ones(x.sizes.size());
    starts[axis] = at.front();
    stops[axis] = at.back() + 1;
    steps[axis] = step;
    p.define(node.results[0], sliced(x, starts, stops, steps));
    return true;
  }
  if (count % size != 0 || !are([&](int64_t i) { return i / times; })) return false;
  View from = x;
  from.sizes.insert(from.sizes.begin() + static_cast<std::ptrdiff_t>(axis) + 1, times);
  from.strides.insert(from.strides.begin() + static_cast<std::ptrdiff_t>(axis) + 1, 0);
  const View out = p.result(node.results[0]);
  p.copy(from, *reshaped(out, from.sizes));
  p.define(node.results[0], out);
  return true;
}

bool lower_take_along(Planner& p, size_t index) {
  const Node& node = p.node(index);
  const auto axis = static_cast<size_t>(p.call(index).integer("axis"));
  const Sizes x = p.sizes(node.operands[0]);
  if (!has_width(p.dtype(node.operands[0])) || element_count(p.sizes(node.results[0])) == 0) return false;
  Reading r;
  for (size_t a = 0; a < x.size(); ++a)
    if (a != axis) (a < axis ? r.outer : r.inner) *= x[a];
  r.x = p.dense(node.operands[0]);
  r.indices = p.dense(node.operands[1]);
  r.out = p.result(node.results[0]);
  r.size = x[axis];
  r.count = r.indices.count();
  add_reading(p, index, r);
  p.define(node.results[0], r.out);
  return true;
}

std::vector<Lowering> indexing_lowerings() {
  return {
      {"pad", nullptr, lower_pad}, {"gather", nullptr, lower_gather}, {"searchsorted", claims_searchsorted, lower_searchsorted}};
}

}  // namespace pycandle::cpu
