// dot_general and convolution, over one blocked loop.
#include <optional>

#include "ir/mistakes.h"
#include "ops/core/alignment.h"
#include "ops/core/constraints.h"
#include "ops/core/evaluate.h"
#include "ops/linalg/blocked_product.h"

namespace pycandle {

namespace {

// out[i * inner + j] = x[first + i * outer_stride + j * inner_stride]
template <class T>
void load_block(const Array& x, int64_t first, int64_t outer, int64_t outer_stride, int64_t inner, int64_t inner_stride, T* out) {
  if (inner_stride == 1 || outer_stride != 1) {
    for (int64_t i = 0; i < outer; ++i) load_chunk(x, first + i * outer_stride, inner, out + i * inner, inner_stride);
    return;
  }
  // A transposed operand: read along its memory, eight columns at a time so that whole cache lines are written.
  constexpr int64_t kColumns = 8;
  std::vector<T> columns(kColumns * outer);
  for (int64_t j = 0; j < inner; j += kColumns) {
    const int64_t count = std::min(kColumns, inner - j);
    for (int64_t c = 0; c < count; ++c) load_chunk(x, first + (j + c) * inner_stride, outer, columns.data() + c * outer);
    for (int64_t i = 0; i < outer; ++i) {
      for (int64_t c = 0; c < count; ++c) out[i * inner + j + c] = columns[c * outer + i];
    }
  }
}

// Several axes walked as one.
struct Stretch {
  int64_t size = 1, stride = 0;
};
std::optional<Stretch> merged(const Array& x, const Ints& axes) {
  const Sizes strides = row_major_strides(x.shape());
  Stretch merged;
  for (int64_t axis : axes) {
    const int64_t size = x.shape()[axis];
    if (size == 1) continue;
    if (merged.size != 1 && merged.stride != size * strides[axis]) return std::nullopt;
    merged = {merged.size * size, strides[axis]};
  }
  return merged;
}

// One operand of dot_general as a batch of matrices [free, contracted].
struct Matrices {
  Array x;
  Stretch batch, free, contracted;
};

Ints rest_of(int64_t rank, const Ints& batch, const Ints& contracted) {
  Ints rest;
  for (int64_t a = 0; a < rank; ++a) {
    if (!contains(batch, a) && !contains(contracted, a)) rest.push_back(a);
  }
  return rest;
}

Matrices matrices(const Array& x, const Ints& batch, const Ints& contracted) {
  Ints free = rest_of(x.rank(), batch, contracted);
  if (auto b = merged(x, batch), f = merged(x, free), c = merged(x, contracted); b && f && c) return {x, *b, *f, *c};
  Ints order = batch;
  order.insert(order.end(), free.begin(), free.end());
  order.insert(order.end(), contracted.begin(), contracted.end());
  const Array straight = transposed(x, order);
  int64_t next = 0;
  const auto renumbered = [&](const Ints& axes) {
    Ints numbers;
    for (size_t i = 0; i < axes.size(); ++i) numbers.push_back(next++);
    return *merged(straight, numbers);
  };
  const Stretch b = renumbered(batch), f = renumbered(free), c = renumbered(contracted);
  return {straight, b, f, c};
}

template <class T> void multiply(const Matrices& left, const Matrices& right, Array& out) {
  const ProductSizes sizes{left.batch.size, left.free.size, right.free.size, left.contracted.size};
  blocked_product<T>(
      sizes,
      [&](int64_t b, int64_t m, int64_t rows, int64_t k, int64_t depth, T* to) {
        const int64_t first = b * left.batch.stride + m * left.free.stride + k * left.contracted.stride;
        load_block(left.x, first, rows, left.free.stride, depth, left.contracted.stride, to);
      },
      [&](int64_t b, int64_t k, int64_t depth, int64_t n, int64_t columns, T* to) {
        const int64_t first = b * right.batch.stride + n * right.free.stride + k * right.contracted.stride;
        load_block(right.x, first, depth, right.contracted.stride, columns, right.free.stride, to);
      },
      [&](int64_t b, int64_t m, int64_t n, int64_t columns, const T* row) {
        store_chunk(out, (b * sizes.rows + m) * sizes.columns + n, columns, row);
      });
}

bool pairs_agree(const Call& c, const char* left_axes, const char* right_axes) {
  const Ints &left = c.integers(left_axes), &right = c.integers(right_axes);
  if (left.size() != right.size()) return false;
  for (size_t i = 0; i < left.size(); ++i) {
    if (!may_equal(c.shape("left")[left[i]], c.shape("right")[right[i]])) return false;
  }
  return true;
}

bool axes_fit(const Call& c, const char* operand, const char* batch, const char* contracted) {
  Ints all = c.integers(batch);
  all.insert(all.end(), c.integers(contracted).begin(), c.integers(contracted).end());
  return are_axes(all, c.rank(operand));
}

std::optional<Alignment> dot_general_alignment(const AlignedCall& c) {
  Alignment a = c.all_free();
  const Ints* batch[2] = {&c.call.integers("batch_left"), &c.call.integers("batch_right")};
  const Ints* contract[2] = {&c.call.integers("contract_left"), &c.call.integers("contract_right")};
  size_t next = batch[0]->size();
  for (size_t side = 0; side < 2; ++side) {
    for (size_t i = 0; i < batch[side]->size(); ++i) a.axes[side][i] = (*batch[side])[i];
    for (const int64_t axis : rest_of(c.call.type(c.operands[side]).rank(), *batch[side], *contract[side]))
      a.axes[side][next++] = axis;
  }
  return a;
}

OpDef dot_general() {
  return primitive("dot_general")
      .doc("products summed over the contracted axes; the result has the batch axes, the rest of left, the rest of right")
      .operands("left", "right")
      .attributes(attr<Ints>("batch_left"), attr<Ints>("batch_right"), attr<Ints>("contract_left"), attr<Ints>("contract_right"))
      .constraint(
          "dot_general_c1", "left and right are numbers of the same dtype",
          [](const Call& c) { return c.type("left").dtype == c.type("right").dtype && is_one_of(c.type("left").dtype, numbers); })
      .constraint("dot_general_c2", "batch and contracted axes are different axes of their operand",
                  [](const Call& c) {
                    return axes_fit(c, "left", "batch_left", "contract_left") &&
                           axes_fit(c, "right", "batch_right", "contract_right");
                  })
      .constraint("dot_general_c3", "batch axes agree in size",
                  [](const Call& c) { return pairs_agree(c, "batch_left", "batch_right"); })
      .constraint("dot_general_c4", "contracted axes agree in size",
                  [](const Call& c) { return pairs_agree(c, "contract_left", "contract_right"); })
      .infer([](const Call& c) {
        Type type{c.type("left").dtype, {}};
        for (int64_t a : c.integers("batch_left")) type.shape.push_back(c.shape("left")[a]);
        for (int64_t a : rest_of(c.rank("left"), c.integers("batch_left"), c.integers("contract_left")))
          type.shape.push_back(c.shape("left")[a]);
        for (int64_t a : rest_of(c.rank("right"), c.integers("batch_right"), c.integers("contract_right")))
          type.shape.push_back(c.shape("right")[a]);
        return type;
      })
      .aligned(dot_general_alignment)
      .one_kernel()
      .rounds(Rounding::linear)
      .evaluator([](const Evaluation& ev) {
        const Array &left = ev.array("left"), &right = ev.array("right");
        for (auto [l, r] : {std::pair{"batch_left", "batch_right"}, {"contract_left", "contract_right"}}) {
          if (permuted(left.shape(), ev.integers(l)) != permuted(right.shape(), ev.integers(r))) sizes_differ(ev, left, right);
        }
        Sizes shape = permuted(left.shape(), ev.integers("batch_left"));
        for (int64_t a : rest_of(left.rank(), ev.integers("batch_left"), ev.integers("contract_left")))
          shape.push_back(left.shape()[a]);
        for (int64_t a : rest_of(right.rank(), ev.integers("batch_right"), ev.integers("contract_right")))
          shape.push_back(right.shape()[a]);
        Array out(ev.out_dtype(), std::move(shape));
        if (out.size() == 0 || left.size() == 0) return out;  // a sum of nothing is 0
        const Matrices l = matrices(left, ev.integers("batch_left"), ev.integers("contract_left"));
        const Matrices r = matrices(right, ev.integers("batch_right"), ev.integers("contract_right"));
        in_domain(left.dtype(), [&](auto zero) { multiply<decltype(zero)>(l, r, out); });
        return out;
      })
      .mixed_dtypes()
      .flops([](const Call& c, const Bindings& sizes) {
        double depth = 1;
        for (const int64_t axis : c.integers("contract_left"))
          depth *= static_cast<double>(c.shape("left")[axis].evaluate(sizes));
        return 2 * depth * static_cast<double>(product(c.op().infer_types(c)[0].shape).evaluate(sizes));
      })
      .mistakes([](Mistakes& m) { m.narrow_operands(); });
}

// ---- convolution

struct ConvolutionAxis {
  int64_t in = 1, out = 1, kernel = 1, stride = 1, low = 0, dilation = 1, input_dilation = 1;
  // Where tap t of the kernel reads x for output o: -1 is padding or a gap of the dilated input.
  int64_t source(int64_t o, int64_t t) const {
    const int64_t p = o * stride + t * dilation - low;
    return p < 0 || p > (in - 1) * input_dilation || p % input_dilation != 0 ? -1 : p / input_dilation;
  }
};
using ConvolutionAxes = std::array<ConvolutionAxis, 3>;  // those that are missing stand first and do nothing

// One tap of the kernel over the outputs [n, n + count), as x lies in memory; zeros where it reads padding.
template <class T>
void load_tap(const ConvolutionAxes& axes, const T* plane, const std::array<int64_t, 3>& tap, int64_t n, int64_t count, T* out) {
  const ConvolutionAxis& last = axes[2];
  while (count > 0) {
    const int64_t w = n % last.out, run = std::min(count, last.out - w), h = n / last.out % axes[1].out,
                  d = n / last.out / axes[1].out;
    const int64_t in_d = axes[0].source(d, tap[0]), in_h = axes[1].source(h, tap[1]);
    if (in_d < 0 || in_h < 0) {
      std::fill_n(out, run, T{});
    } else {
      const T* row = plane + (in_d * axes[1].in + in_h) * last.in;
      const int64_t first = tap[2] * last.dilation - last.low;  // of output 0
      if (last.input_dilation == 1 && w * last.stride + first >= 0 && (w + run - 1) * last.stride + first < last.in) {
        for (int64_t i = 0; i < run; ++i) out[i] = row[(w + i) * last.stride + first];
      } else {
        for (int64_t i = 0; i < run; ++i) {
          const int64_t source = last.source(w + i, tap[2]);
          out[i] = source < 0 ? T{} : row[source];
        }
      }
    }
    n += run, out += run, count -= run;
  }
}

template <class T> void convolve(const ConvolutionAxes& axes, int64_t groups, const Array& x, const Array& weight, Array& out) {
  const std::vector<T> input = load_all<T>(x);
  const int64_t plane = axes[0].in * axes[1].in * axes[2].in, taps = axes[0].kernel * axes[1].kernel * axes[2].kernel;
  const int64_t channels = weight.shape()[1], outputs = weight.shape()[0] / groups;
  const ProductSizes sizes{x.shape()[0] * groups, outputs, axes[0].out * axes[1].out * axes[2].out, channels * taps};
  blocked_product<T>(
      sizes,
      [&](int64_t b, int64_t m, int64_t rows, int64_t k, int64_t depth, T* to) {
        load_block(weight, (b % groups * outputs + m) * sizes.depth + k, rows, sizes.depth, depth, 1, to);
      },
      [&](int64_t b, int64_t k, int64_t depth, int64_t n, int64_t columns, T* to) {
        for (int64_t i = 0; i < depth; ++i) {
          const int64_t channel = (k + i) / taps, tap = (k + i) % taps;
          const std::array<int64_t, 3> taps3{tap / axes[2].kernel / axes[1].kernel, tap / axes[2].kernel % axes[1].kernel,
                                             tap % axes[2].kernel};
          load_tap(axes, input.data() + (b * channels + channel) * plane, taps3, n, columns, to + i * columns);
        }
      },
      [&](int64_t b, int64_t m, int64_t n, int64_t columns, const T* row) {
        store_chunk(out, (b * sizes.rows + m) * sizes.columns + n, columns, row);
      });
}

// What the kernel can move by on a spatial axis: the padded input without the kernel's reach.
Dim room(const Call& c, size_t a) {
  const Dim reach = (c.shape("weight")[a + 2] - 1) * Dim(c.integers("dilation")[a]);
  const Dim size = (c.shape("x")[a + 2] - 1) * Dim(c.integers("input_dilation")[a]) + c.integers("padding_low")[a] +
                   c.integers("padding_high")[a];
  return size - reach;
}

Array evaluate_convolution(const Evaluation& ev) {
  const Array &x = ev.array("x"), &weight = ev.array("weight");
  const int64_t groups = ev.integer("groups");
  if (x.shape()[1] != weight.shape()[1] * groups || weight.shape()[0] % groups != 0) {
    throw Error(ErrorCode::bad_input, "the channels of x and weight do not fit")
        .op("convolution")
        .expected(std::to_string(weight.shape()[1] * groups) + " channels")
        .found(std::to_string(x.shape()[1]));
  }
  const size_t spatial = x.shape().size() - 2;
  ConvolutionAxes axes;
  Sizes shape{x.shape()[0], weight.shape()[0]};
  for (size_t a = 0; a < spatial; ++a) {
    ConvolutionAxis& axis = axes[3 - spatial + a];
    axis = {x.shape()[a + 2],
            0,
            weight.shape()[a + 2],
            ev.integers("strides")[a],
            ev.integers("padding_low")[a],
            ev.integers("dilation")[a],
            ev.integers("input_dilation")[a]};
    const int64_t size = (axis.in - 1) * axis.input_dilation + 1 + axis.low + ev.integers("padding_high")[a],
                  reach = (axis.kernel - 1) * axis.dilation + 1;
    if (size < reach) {
      throw Error(ErrorCode::bad_input, "the kernel is larger than the padded input")
          .op("convolution")
          .expected("at least " + std::to_string(reach) + " on spatial axis " + std::to_string(a))
          .found(std::to_string(size));
    }
    axis.out = (size - reach) / axis.stride + 1;
    shape.push_back(axis.out);
  }
  Array out(ev.out_dtype(), std::move(shape));
  if (out.size() == 0 || x.size() == 0) return out;
  in_domain(x.dtype(), [&](auto zero) { convolve<decltype(zero)>(axes, groups, x, weight, out); });
  return out;
}

OpDef convolution() {
  return primitive("convolution")
      .doc(
          "x [N, C, spatial…] with weight [O, C/groups, kernel…]; input_dilation puts gaps between the elements of x, negative "
          "padding crops")
      .operands("x", "weight")
      .attributes(attr<Ints>("strides"), attr<Ints>("padding_low"), attr<Ints>("padding_high"), attr<Ints>("dilation"),
                  attr<Ints>("input_dilation"), attr<int64_t>("groups", int64_t{1}))
      .constraint(
          "convolution_c1", "x and weight are numbers of the same dtype",
          [](const Call& c) { return c.type("x").dtype == c.type("weight").dtype && is_one_of(c.type("x").dtype, numbers); })
      .constraint("convolution_c2", "x and weight have the same rank, with 1 to 3 spatial axes",
                  [](const Call& c) { return c.rank("x") == c.rank("weight") && c.rank("x") >= 3 && c.rank("x") <= 5; })
      .constraint("convolution_c3",
                  "strides, paddings and dilations have an entry for each spatial axis; strides and dilations are positive",
                  [](const Call& c) {
                    const size_t spatial = c.shape("x").size() - 2;
                    for (const char* name : {"strides", "padding_low", "padding_high", "dilation", "input_dilation"}) {
                      if (c.integers(name).size() != spatial) return false;
                    }
                    return all_at_least(c.integers("strides"), 1) && all_at_least(c.integers("dilation"), 1) &&
                           all_at_least(c.integers("input_dilation"), 1);
                  })
      .constraint("convolution_c4", "x has groups times the channels of weight",
                  [](const Call& c) {
                    return c.integer("groups") >= 1 &&
                           may_equal(c.shape("x")[1], c.shape("weight")[1] * Dim(c.integer("groups")));
                  })
      .constraint("convolution_c5", "the outputs divide into groups",
                  [](const Call& c) { return may_equal(mod(c.shape("weight")[0], c.integer("groups")), 0); })
      .constraint("convolution_c6", "the kernel is no larger than the padded input",
                  [](const Call& c) {
                    for (size_t a = 0; a + 2 < c.shape("x").size(); ++a) {
                      if (!may_be_at_most(0, room(c, a))) return false;
                    }
                    return true;
                  })
      .infer([](const Call& c) {
        Type type{c.type("x").dtype, {c.shape("x")[0], c.shape("weight")[0]}};
        for (size_t a = 0; a + 2 < c.shape("x").size(); ++a) {
          type.shape.push_back(floordiv(room(c, a), c.integers("strides")[a]) + 1);
        }
        return type;
      })
      .rounds(Rounding::linear)
      .evaluator(evaluate_convolution)
      .mixed_dtypes()
      .flops([](const Call& c, const Bindings& sizes) {
        const Shape& weight = c.shape("weight");
        const double each = static_cast<double>(product(weight).evaluate(sizes)) / static_cast<double>(weight[0].evaluate(sizes));
        return 2 * each * static_cast<double>(product(c.op().infer_types(c)[0].shape).evaluate(sizes));
      });
}

}  // namespace

std::vector<OpDef> product_ops() { return {dot_general(), convolution()}; }

}  // namespace pycandle
