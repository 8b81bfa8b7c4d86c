// Windows that slide over the last axes. Every kind is separable: one axis is reduced after another, the last first, which
// also finds the first largest element in row-major order.
#include <limits>
#include <string>

#include "ops/core/constraints.h"
#include "ops/core/evaluate.h"

namespace pycandle {

namespace {

// The elements of one axis that one output cell sees; padding is left out.
struct Window {
  int64_t first = 0, count = 0, step = 1;
};
using AxisWindows = std::vector<Window>;  // one for each cell of the result

AxisWindows sliding(int64_t in, int64_t out, int64_t window, int64_t stride, int64_t dilation, int64_t low) {
  AxisWindows windows(static_cast<size_t>(out));
  for (int64_t o = 0; o < out; ++o) {
    const int64_t start = o * stride - low;
    const int64_t skipped = start < 0 ? (-start + dilation - 1) / dilation : 0;
    const int64_t first = start + skipped * dilation;
    const int64_t within = first < in ? (in - 1 - first) / dilation + 1 : 0;
    windows[o] = {first, std::max<int64_t>(0, std::min(window - skipped, within)), dilation};
  }
  return windows;
}

AxisWindows adaptive(int64_t in, int64_t out) {
  AxisWindows windows(static_cast<size_t>(out));
  for (int64_t o = 0; o < out; ++o) {
    const int64_t first = o * in / out, end = ((o + 1) * in + out - 1) / out;
    windows[o] = {first, end - first, 1};
  }
  return windows;
}

// [outer, in, inner] → [outer, windows, inner]. combine(so far, next element) with the positions of both.
template <class C> struct Plane {
  std::vector<C> values;
  std::vector<int64_t> positions;  // where each value stood in the input's plane
};
template <class C, class Better>
Plane<C> choose(const Plane<C>& x, int64_t outer, int64_t in, int64_t inner, const AxisWindows& windows, C initial,
                Better better) {
  const int64_t out = static_cast<int64_t>(windows.size());
  Plane<C> result{std::vector<C>(static_cast<size_t>(outer * out * inner), initial),
                  std::vector<int64_t>(static_cast<size_t>(outer * out * inner), 0)};
  for (int64_t o = 0; o < outer; ++o) {
    for (int64_t cell = 0; cell < out; ++cell) {
      const Window& window = windows[cell];
      for (int64_t t = 0; t < window.count; ++t) {
        const size_t from = static_cast<size_t>((o * in + window.first + t * window.step) * inner),
                     to = static_cast<size_t>((o * out + cell) * inner);
        for (size_t i = 0; i < static_cast<size_t>(inner); ++i) {
          if (t == 0 || better(result.values[to + i], x.values[from + i])) {
            result.values[to + i] = x.values[from + i];
            result.positions[to + i] = x.positions[from + i];
          }
        }
      }
    }
  }
  return result;
}

template <class C, class Combine>
std::vector<C> combine_windows(const std::vector<C>& x, int64_t outer, int64_t in, int64_t inner, const AxisWindows& windows,
                               C initial, Combine combine) {
  const int64_t out = static_cast<int64_t>(windows.size());
  std::vector<C> result(static_cast<size_t>(outer * out * inner), initial);
  for (int64_t o = 0; o < outer; ++o) {
    for (int64_t cell = 0; cell < out; ++cell) {
      const Window& window = windows[cell];
      C* to = result.data() + (o * out + cell) * inner;
      for (int64_t t = 0; t < window.count; ++t) {
        const C* from = x.data() + (o * in + window.first + t * window.step) * inner;
        for (int64_t i = 0; i < inner; ++i) to[i] = combine(to[i], from[i]);
      }
    }
  }
  return result;
}

// The planes of an array: its last axes, and the windows over each of them.
struct Planes {
  Sizes in, shape;  // of one plane of x; of the whole result
  std::vector<AxisWindows> windows;
  int64_t count = 1, in_size = 1, out_size = 1;
};
Planes planes_of(const Array& x, std::vector<AxisWindows> windows) {
  Planes p{{}, x.shape(), std::move(windows)};
  const size_t leading = x.shape().size() - p.windows.size();
  for (size_t a = 0; a < leading; ++a) p.count *= x.shape()[a];
  for (size_t i = 0; i < p.windows.size(); ++i) {
    p.in.push_back(x.shape()[leading + i]);
    p.shape[leading + i] = static_cast<int64_t>(p.windows[i].size());
    p.in_size *= p.in[i];
    p.out_size *= p.shape[leading + i];
  }
  return p;
}

// step(values, outer, in, inner, windows) for each axis of a plane, the last first.
template <class V, class Step> V reduce_plane(const Planes& p, V values, Step step) {
  int64_t inner = 1;
  for (size_t a = p.in.size(); a-- > 0;) {
    const int64_t outer = element_count(Sizes(p.in.begin(), p.in.begin() + static_cast<int64_t>(a)));
    values = step(values, outer, p.in[a], inner, p.windows[a]);
    inner *= static_cast<int64_t>(p.windows[a].size());
  }
  return values;
}

template <class F> void for_planes(const Planes& p, F&& f) {
  parallel_for(p.count, std::max<int64_t>(1, 8192 / std::max<int64_t>(1, p.in_size)), [&](int64_t begin, int64_t end) {
    for (int64_t plane = begin; plane < end; ++plane) f(plane);
  });
}

template <class C> C identity_of(const std::string& kind, DType dtype) {
  if (kind == "prod") return C(1);
  if constexpr (std::is_same_v<C, double>) {
    if (kind == "max") return -std::numeric_limits<double>::infinity();
    if (kind == "min") return std::numeric_limits<double>::infinity();
  } else if constexpr (std::is_same_v<C, int64_t>) {
    const int bits = dtype == DType::boolean ? 1 : static_cast<int>(8 * size_of(dtype));
    const bool is_unsigned = dtype == DType::u8 || dtype == DType::boolean;
    if (kind == "max") return is_unsigned ? 0 : std::numeric_limits<int64_t>::min() >> (64 - bits);
    if (kind == "min") return is_unsigned ? (int64_t{1} << bits) - 1 : std::numeric_limits<int64_t>::max() >> (64 - bits);
  }
  return C{};
}

Array reduce_windows(const Evaluation& ev, const Array& x, const Planes& p) {
  const std::string& kind = ev.string("kind");
  Array out(ev.out_dtype(), p.shape);
  in_domain(x.dtype(), [&](auto zero) {
    using C = decltype(zero);
    const C initial = identity_of<C>(kind, x.dtype());
    const auto run = [&](auto combine) {
      for_planes(p, [&](int64_t plane) {
        std::vector<C> values(static_cast<size_t>(p.in_size));
        load_chunk(x, plane * p.in_size, p.in_size, values.data());
        values = reduce_plane(
            p, std::move(values), [&](const auto& v, int64_t outer, int64_t in, int64_t inner, const AxisWindows& windows) {
              std::vector<C> next = combine_windows(v, outer, in, inner, windows, initial, combine);
              if constexpr (!std::is_same_v<C, int64_t>) {
                if (kind == "mean") {  // a mean of means: every row of a window has as many elements
                  for (size_t i = 0; i < next.size(); ++i)
                    next[i] /= static_cast<double>(windows[i / static_cast<size_t>(inner) % windows.size()].count);
                }
              }
              return next;
            });
        store_chunk(out, plane * p.out_size, p.out_size, values.data());
      });
    };
    if constexpr (!std::is_same_v<C, Complex>) {
      if (kind == "max") return run([](C a, C b) { return b > a || is_nan(b) ? b : a; });
      if (kind == "min") return run([](C a, C b) { return b < a || is_nan(b) ? b : a; });
    }
    if (kind == "prod") return run([](C a, C b) { return product_of(a, b); });
    return run([](C a, C b) { return sum_of(a, b); });
  });
  return out;
}

Array largest_in_windows(const Array& x, const Planes& p) {
  Array out(DType::i64, p.shape);
  in_domain(x.dtype(), [&](auto zero) {
    using C = decltype(zero);
    if constexpr (!std::is_same_v<C, Complex>) {
      for_planes(p, [&](int64_t plane) {
        Plane<C> values{std::vector<C>(static_cast<size_t>(p.in_size)), std::vector<int64_t>(static_cast<size_t>(p.in_size))};
        load_chunk(x, plane * p.in_size, p.in_size, values.values.data());
        for (int64_t i = 0; i < p.in_size; ++i) values.positions[i] = i;
        values = reduce_plane(p, std::move(values),
                              [&](const Plane<C>& v, int64_t outer, int64_t in, int64_t inner, const AxisWindows& windows) {
                                return choose(v, outer, in, inner, windows, identity_of<C>("max", x.dtype()),
                                              [](C a, C b) { return b > a || is_nan(b); });
                              });
        store_chunk(out, plane * p.out_size, p.out_size, values.positions.data());
      });
    }
  });
  return out;
}

// ---- sliding windows

const char* const kSlidingAttributes[] = {"window", "strides", "dilation", "padding_low", "padding_high"};

// What the window can move by on the i-th of its axes.
Dim room(const Call& c, size_t i) {
  const auto number = [&](const char* name) { return Dim(c.integers(name)[i]); };  // dims refuse to overflow
  const Dim reach = number("dilation") * (number("window") - 1) + 1;
  return c.shape("x")[c.shape("x").size() - c.integers("window").size() + i] + number("padding_low") + number("padding_high") -
         reach;
}

Shape sliding_shape(const Call& c) {
  Shape shape = c.shape("x");
  const size_t count = c.integers("window").size(), leading = shape.size() - count;
  for (size_t i = 0; i < count; ++i) shape[leading + i] = floordiv(room(c, i), c.integers("strides")[i]) + 1;
  return shape;
}

Planes sliding_planes(const Evaluation& ev, const Array& x) {
  std::vector<AxisWindows> windows;
  const size_t count = ev.integers("window").size(), leading = x.shape().size() - count;
  for (size_t i = 0; i < count; ++i) {
    const int64_t in = x.shape()[leading + i], window = ev.integers("window")[i], stride = ev.integers("strides")[i],
                  dilation = ev.integers("dilation")[i], low = ev.integers("padding_low")[i];
    const int64_t size = in + low + ev.integers("padding_high")[i], reach = dilation * (window - 1) + 1;
    if (size < reach) {
      throw Error(ErrorCode::bad_input, "the window is larger than the padded input")
          .op(ev.node().op->name)
          .expected("at least " + std::to_string(reach) + " on axis " + std::to_string(leading + i))
          .found(std::to_string(size));
    }
    windows.push_back(sliding(in, (size - reach) / stride + 1, window, stride, dilation, low));
  }
  return planes_of(x, std::move(windows));
}

OpDef sliding_op(const char* name) {
  const std::string id = name;
  OpDef op = primitive(name).operands("x");
  for (const char* attribute : kSlidingAttributes) op.attributes(attr<Ints>(attribute));
  op.constraint(id + "_c1", "window, strides, dilation and paddings have an entry for each of the last axes of x",
                [](const Call& c) {
                  for (const char* attribute : kSlidingAttributes) {
                    if (c.integers(attribute).size() != c.integers("window").size()) return false;
                  }
                  return c.integers("window").size() <= c.shape("x").size();
                })
      .constraint(id + "_c2", "window, strides and dilation are positive",
                  [](const Call& c) {
                    return all_at_least(c.integers("window"), 1) && all_at_least(c.integers("strides"), 1) &&
                           all_at_least(c.integers("dilation"), 1);
                  })
      .constraint(id + "_c3", "the window is no larger than the padded input", [](const Call& c) {
        for (size_t i = 0; i < c.integers("window").size(); ++i) {
          if (!may_be_at_most(0, room(c, i))) return false;
        }
        return true;
      });
  return op;
}

OpDef reduce_window() {
  OpDef op = sliding_op("reduce_window");
  op.attr_specs.insert(op.attr_specs.begin(), attr<std::string>("kind"));
  return op.doc("sum, prod, max or min in windows over the last axes; padding takes no part; NaN wins in max and min")
      .constraint("reduce_window_c4", "kind is sum or prod of numbers, or max or min of ordered ones",
                  [](const Call& c) {
                    const std::string& kind = c.string("kind");
                    const DType dtype = c.type("x").dtype;
                    return kind == "sum" || kind == "prod"
                               ? is_one_of(dtype, numbers)
                               : (kind == "max" || kind == "min") && is_one_of(dtype, reals | booleans);
                  })
      .infer([](const Call& c) { return Type{c.type("x").dtype, sliding_shape(c)}; })
      .rounds(Rounding::linear)
      .evaluator([](const Evaluation& ev) { return reduce_windows(ev, ev.array("x"), sliding_planes(ev, ev.array("x"))); });
}

OpDef window_argmax() {
  return sliding_op("window_argmax")
      .doc("where the largest element of each window stands: its flat index in the plane of the axes that have windows")
      .constraint("window_argmax_c4", "x is " + text_of_kinds(reals | booleans),
                  [](const Call& c) { return is_one_of(c.type("x").dtype, reals | booleans); })
      .infer([](const Call& c) { return Type{DType::i64, sliding_shape(c)}; })
      .evaluator([](const Evaluation& ev) { return largest_in_windows(ev.array("x"), sliding_planes(ev, ev.array("x"))); });
}

// ---- adaptive windows: output cell i of n sees [floor(i * in / n), ceil((i + 1) * in / n))

Shape adaptive_shape(const Call& c) {
  Shape shape = c.shape("x");
  std::copy(c.dims("output").begin(), c.dims("output").end(), shape.end() - static_cast<int64_t>(c.dims("output").size()));
  return shape;
}

Planes adaptive_planes(const Evaluation& ev, const Array& x) {
  const Sizes output = ev.sizes("output");
  std::vector<AxisWindows> windows;
  for (size_t i = 0; i < output.size(); ++i) {
    const int64_t in = x.shape()[x.shape().size() - output.size() + i];
    if (in == 0 && output[i] > 0)
      throw Error(ErrorCode::bad_input, "an adaptive pool needs an axis that is not empty")
          .op(ev.node().op->name)
          .expected("at least one element")
          .found("shape " + to_string(x.shape()));
    windows.push_back(adaptive(in, output[i]));
  }
  return planes_of(x, std::move(windows));
}

OpDef adaptive_op(const char* name) {
  return primitive(name).operands("x").constraint(std::string(name) + "_c1", "output has a size for each of the last axes of x",
                                                  [](const Call& c) { return c.dims("output").size() <= c.shape("x").size(); });
}

OpDef adaptive_window() {
  return adaptive_op("adaptive_window")
      .doc(
          "sum, mean, max or min in windows that divide the last axes into `output` cells: cell i of n sees [floor(i in / n), "
          "ceil((i + 1) in / n))")
      .attributes(attr<std::string>("kind"), attr<Dims>("output"))
      .constraint("adaptive_window_c2", "kind is sum of numbers, mean of floating or complex ones, or max or min of ordered ones",
                  [](const Call& c) {
                    const std::string& kind = c.string("kind");
                    const DType dtype = c.type("x").dtype;
                    if (kind == "sum" || kind == "mean") return is_one_of(dtype, kind == "sum" ? numbers : inexact);
                    return (kind == "max" || kind == "min") && is_one_of(dtype, reals | booleans);
                  })
      .infer([](const Call& c) { return Type{c.type("x").dtype, adaptive_shape(c)}; })
      .rounds(Rounding::linear)
      .evaluator([](const Evaluation& ev) { return reduce_windows(ev, ev.array("x"), adaptive_planes(ev, ev.array("x"))); });
}

OpDef adaptive_window_argmax() {
  return adaptive_op("adaptive_window_argmax")
      .doc("where the largest element of each adaptive window stands: its flat index in the plane of the axes of `output`")
      .attributes(attr<Dims>("output"))
      .constraint("adaptive_window_argmax_c2", "x is " + text_of_kinds(reals | booleans),
                  [](const Call& c) { return is_one_of(c.type("x").dtype, reals | booleans); })
      .infer([](const Call& c) { return Type{DType::i64, adaptive_shape(c)}; })
      .evaluator([](const Evaluation& ev) { return largest_in_windows(ev.array("x"), adaptive_planes(ev, ev.array("x"))); });
}

}  // namespace

std::vector<OpDef> window_ops() { return {reduce_window(), window_argmax(), adaptive_window(), adaptive_window_argmax()}; }

}  // namespace pycandle
