// Pools over windows that the data names: the reverse of a max pool, and windows of random places.
#include "ops/core/functional_helpers.h"

namespace pycandle {
namespace {

Dim positions_of(const Shape& shape, size_t n) {
  return product(Shape(shape.end() - static_cast<std::ptrdiff_t>(n), shape.end()));
}

// x's planes as rows: [planes, positions].
ValueId as_planes(Builder& b, ValueId x, size_t n) {
  const Shape& shape = b.shape(x);
  return b.reshape(x, {product(first_dims(shape, shape.size() - n)), positions_of(shape, n)});
}

// ---- max_unpool

OpDef max_unpool() {
  OpDef def = functional("max_unpool");
  def.doc("planes of output_size positions, zero but for the elements of x, each at its flat index in its plane")
      .operands("x", "indices")
      .attributes(attr<Dims>("output_size"))
      .constraint("max_unpool_c1",
                  "indices are i64, of the shape of x, which has an axis for each output size and one or two before",
                  [](const Call& c) {
                    const size_t n = c.dims("output_size").size();
                    return c.type("indices").dtype == DType::i64 && c.agree(c.shape("indices"), c.shape("x")) &&
                           (c.shape("x").size() == n + 1 || c.shape("x").size() == n + 2);
                  })
      .infer([](const Call& c) {
        const Dims& size = c.dims("output_size");
        return Type{c.type("x").dtype, joined(first_dims(c.shape("x"), c.shape("x").size() - size.size()), size)};
      })
      .decompose([](Builder& b, const Call& c) {
        const Dims size = c.dims("output_size");
        const size_t n = size.size();
        const ValueId x = as_planes(b, c.value("x"), n), indices = as_planes(b, c.value("indices"), n);
        const ValueId empty = b.full(Scalar{int64_t{0}}, b.dtype(x), {b.shape(x)[0], product(size)});
        const ValueId y = b.create("scatter", {empty, indices, x}, {{"axis", int64_t{1}}});
        return b.reshape(y, joined(first_dims(c.shape("x"), c.shape("x").size() - n), size));
      });
  for (const char* overload : {"aten.max_unpool2d.default", "aten.max_unpool3d.default"})
    def.from_aten_call(overload, [](AtenCall& c) {
      for (const char* name : {"stride", "padding"})
        if (c.has_argument(name)) c.discard(name, "output_size is given");
      return c.b.create_all("max_unpool", {c.tensor("self"), c.tensor("indices")}, {{"output_size", c.dims("output_size")}});
    });
  return def.sample("F.max_unpool2d(t(2, 3, 2, 2), torch.tensor([[0, 3], [9, 10]]).expand(2, 3, 2, 2) + i(1, low=0, high=0), 2)")
      .sample("F.max_unpool1d(t(3, 2), torch.tensor([[0, 3]]).expand(3, 2) + i(1, low=0, high=0), 2)")
      .sample("F.max_unpool3d(t(1, 2, 1, 2, 1), torch.tensor([[[[[3], [9]]]]]).expand(1, 2, 1, 2, 1) + i(1, low=0, high=0), 2)");
}

// The gradient of a max pool goes to the elements that were chosen.
OpDef max_pool_gradient() {
  return mapping("scatter")
      .from_aten_call(
          "aten.max_pool2d_with_indices_backward.default",
          [](AtenCall& c) -> Values {
            Builder& b = c.b;
            for (const char* name : {"kernel_size", "stride", "padding", "dilation", "ceil_mode"})
              c.discard(name, "the indices say where the windows were");
            const ValueId x = c.tensor("self");
            const ValueId gradient = as_planes(b, c.tensor("grad_output"), 2), places = as_planes(b, c.tensor("indices"), 2);
            const ValueId empty = b.full(Scalar{int64_t{0}}, b.dtype(x), {b.shape(gradient)[0], positions_of(b.shape(x), 2)});
            const ValueId y = b.create("scatter", {empty, places, gradient},
                                       {{"axis", int64_t{1}}, {"reduce", std::string("add")}});
            return {b.reshape(y, b.shape(x))};
          })
      .sample(
          "torch.ops.aten.max_pool2d_with_indices_backward(t(2, 3, 2, 2), t(2, 3, 4, 4), [2, 2], [2, 2], [0, 0], [1, 1], False, "
          "i(2, 3, 2, 2, low=0, high=15))");
}

// ---- fractional_max_pool

// Where the windows along one axis start, for each plane: [planes, out], from a random number in [0, 1) a plane.
ValueId window_starts(Builder& b, ValueId sample, Dim in, int64_t kernel, Dim out) {
  const DType dtype = b.dtype(sample);
  const ValueId end = b.dim_value(in - Dim(kernel));
  const Dim planes = b.shape(sample)[0];
  if (out == Dim(1)) return b.broadcast_to(end, {planes, 1});
  const ValueId step = b.div(b.dim_value(in - Dim(kernel), dtype), b.dim_value(out - 1, dtype));
  const auto whole = [&](ValueId v) { return b.cast(b.unary("trunc", v), DType::i64); };
  const ValueId u = b.unsqueeze(sample, 1);
  const ValueId start = b.sub(whole(b.mul(b.add(b.iota(out, dtype), u), step)), whole(b.mul(u, step)));
  return b.select(b.compare("eq", b.iota(out), b.dim_value(out - 1)), end, start);
}

OpDef fractional_max_pool(size_t n) {
  const std::string name = "fractional_max_pool" + std::to_string(n) + "d";
  return functional(name)
      .doc("the largest element of each of output_size windows at random places, and where it stands")
      .operands("x", "samples")
      .attributes(attr<Ints>("kernel_size"), attr<Ints>("output_size"))
      .constraint(name + "_c1", "x has channels and positions, with or without a batch; samples are [N, C, positions' axes]",
                  [n](const Call& c) {
                    return (c.shape("x").size() == n + 1 || c.shape("x").size() == n + 2) && c.rank("samples") == 3 &&
                           c.agree(c.shape("samples")[2], Dim(static_cast<int64_t>(n))) && is_floating(c.type("x").dtype) &&
                           c.type("samples").dtype == c.type("x").dtype;
                  })
      .constraint(name + "_c2", "kernel_size and output_size have one positive entry a position axis, and a window fits",
                  [n](const Call& c) {
                    const Ints &kernel = c.integers("kernel_size"), &out = c.integers("output_size");
                    if (kernel.size() != n || out.size() != n || !positive_and_sane(kernel) || !positive_and_sane(out))
                      return false;
                    for (size_t i = 0; i < n; ++i)
                      if (!may_be_at_most(out[i] + kernel[i] - 1, c.shape("x")[c.shape("x").size() - n + i])) return false;
                    return true;
                  })
      .infer_all([n](const Call& c) {
        Type y = c.type("x");
        for (size_t i = 0; i < n; ++i) y.shape[y.shape.size() - n + i] = c.integers("output_size")[i];
        return std::vector<Type>{y, {DType::i64, y.shape}};
      })
      .decompose_all([n](Builder& b, const Call& c) {
        const Shape shape = c.shape("x");
        const Ints &kernel = c.integers("kernel_size"), &out = c.integers("output_size");
        const ValueId x = as_planes(b, c.value("x"), n);
        const Dim planes = b.shape(x)[0];
        const ValueId samples = b.reshape(c.value("samples"), {planes, Dim(static_cast<int64_t>(n))});
        // The flat place of every element of every window: [planes, out…, kernel…].
        Shape windows{planes};
        for (int64_t size : out) windows.emplace_back(size);
        for (int64_t size : kernel) windows.emplace_back(size);
        ValueId places = kNoValue;
        for (size_t i = 0; i < n; ++i) {
          const Dim in = shape[shape.size() - n + i];
          // Two dimensions draw the width first, three the depth.
          const ValueId sample = b.select_index(samples, 1, static_cast<int64_t>(n == 2 ? 1 - i : i));
          const ValueId starts = window_starts(b, sample, in, kernel[i], out[i]);
          const ValueId along = b.add(b.broadcast(starts, windows, {0, static_cast<int64_t>(1 + i)}),
                                      b.broadcast(b.iota(kernel[i]), windows, {static_cast<int64_t>(1 + n + i)}));
          places = places == kNoValue ? along : b.add(b.mul(places, b.dim_value(in)), along);
        }
        int64_t cells = 1, taps = 1;
        for (int64_t size : out) cells *= size;
        for (int64_t size : kernel) taps *= size;
        places = b.reshape(places, {planes, cells * taps});
        const ValueId pixels = b.reshape(b.create("gather", {x, places}, {{"axis", int64_t{1}}}), {planes, cells, taps});
        const ValueId best = b.unsqueeze(b.create("argmax", {pixels}, {{"axis", int64_t{2}}}), 2);
        Shape result = shape;
        for (size_t i = 0; i < n; ++i) result[shape.size() - n + i] = out[i];
        const auto chosen = [&](ValueId v) { return b.reshape(b.create("gather", {v, best}, {{"axis", int64_t{2}}}), result); };
        return Values{chosen(pixels), chosen(b.reshape(places, {planes, cells, taps}))};
      })
      .from_aten_call("aten." + name + ".default", [name, n](AtenCall& c) {
        return c.b.create_all(
            name, {c.tensor("self"), c.tensor("random_samples")},
            {{"kernel_size", per_axis(c.integers("kernel_size"), n)}, {"output_size", per_axis(c.integers("output_size"), n)}});
      });
}

}  // namespace

std::vector<OpDef> sparse_pooling_ops() {
  return {max_unpool(), max_pool_gradient(),
          fractional_max_pool(2)
              .sample("torch.ops.aten.fractional_max_pool2d(t(2, 3, 9, 8), [2, 3], [4, 2], t(2, 3, 2, low=0, high=1))")
              .sample("torch.ops.aten.fractional_max_pool2d(t(3, 9, 8), [3, 2], [1, 5], t(1, 3, 2, low=0, high=1))"),
          fractional_max_pool(3).sample(
              "torch.ops.aten.fractional_max_pool3d(t(2, 3, 5, 6, 7), [2, 3, 2], [3, 2, 4], t(2, 3, 3, low=0, high=1))")};
}

}  // namespace pycandle
