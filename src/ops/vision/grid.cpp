// Sampling an image at the points of a grid (F.grid_sample), and the grid of an affine map (F.affine_grid).
#include "ir/mistakes.h"
#include "ops/core/functional_helpers.h"
#include "ops/vision/cubic.h"

namespace pycandle {
namespace {

const char* const kModes[] = {"bilinear", "nearest", "bicubic"};          // torch's numbers are the indices
const char* const kPaddings[] = {"zeros", "border", "reflection"};

void other_corners(Mistakes& m) { m.flag("align corners", "align_corners", "align_corners", "no align_corners"); }

struct Sampler {
  Builder& b;
  const std::string mode, padding;
  const bool align_corners;
  ValueId image;               // [N, C, positions]
  std::vector<Dim> sizes;      // of the positions' axes
  DType dtype;

  ValueId size(size_t axis, int64_t less = 0) const { return b.dim_value(sizes[axis] - Dim(less), dtype); }

  // From [-1, 1] to positions.
  ValueId position(ValueId g, size_t axis) const {
    if (align_corners) return b.mul(b.div(b.add(g, 1.0), 2.0), size(axis, 1));
    return b.div(b.sub(b.mul(b.add(g, 1.0), size(axis)), 1.0), 2.0);
  }

  ValueId clipped(ValueId p, size_t axis) const { return b.maximum(b.minimum(p, size(axis, 1)), 0.0); }

  // There and back again between the borders: the edge pixels' centres, or their outer edges.
  ValueId reflected(ValueId p, size_t axis) const {
    const double low = align_corners ? 0 : -0.5;
    const ValueId span = align_corners ? size(axis, 1) : size(axis);
    const ValueId from_low = b.abs(b.sub(p, low));
    const ValueId extra = b.create("fmod", {from_low, b.broadcast_to(span, b.shape(from_low))});
    const ValueId flips = b.unary("floor", b.div(from_low, span));
    const ValueId even = b.compare("eq", b.create("fmod", {flips, b.broadcast_to(b.full(2.0, dtype), b.shape(flips))}), 0.0);
    const ValueId back = b.select(even, b.add(extra, low), b.add(b.sub(span, extra), low));
    return b.select(b.compare("eq", b.broadcast_to(span, b.shape(back)), 0.0), b.full(0.0, dtype), back);
  }

  ValueId padded(ValueId p, size_t axis) const {
    if (padding == "border") return clipped(p, axis);
    if (padding == "reflection") return clipped(reflected(p, axis), axis);
    return p;
  }

  // The image at whole positions, one list of points [N, P] an axis: [N, C, P]; 0 outside.
  ValueId pixels(const Values& at) const {
    ValueId inside = kNoValue, flat = kNoValue;
    for (size_t axis = 0; axis < at.size(); ++axis) {
      const ValueId within = b.logical_and(b.compare("ge", at[axis], 0.0), b.compare("le", at[axis], size(axis, 1)));
      const ValueId index = b.cast(b.select(within, at[axis], b.full(0.0, dtype)), DType::i64);
      inside = inside == kNoValue ? within : b.logical_and(inside, within);
      flat = flat == kNoValue ? index : b.add(b.mul(flat, b.dim_value(sizes[axis])), index);
    }
    const Shape points{b.shape(flat)[0], b.shape(image)[1], b.shape(flat)[1]};
    const ValueId taken = b.create("gather", {image, b.broadcast_to(b.unsqueeze(flat, 1), points)}, {{"axis", int64_t{2}}});
    return b.select(b.unsqueeze(inside, 1), taken, b.full(0.0, dtype));
  }

  ValueId weighted(ValueId pixel, ValueId weight) const { return b.mul(pixel, b.unsqueeze(weight, 1)); }
  ValueId sum(ValueId so_far, ValueId term) const { return so_far == kNoValue ? term : b.add(so_far, term); }

  ValueId linear(const Values& at) const {
    ValueId y = kNoValue;
    for (size_t corner = 0; corner < (size_t{1} << at.size()); ++corner) {
      Values place;
      ValueId weight = kNoValue;
      for (size_t axis = 0; axis < at.size(); ++axis) {
        const bool high = (corner >> (at.size() - 1 - axis) & 1) != 0;
        const ValueId floor = b.unary("floor", at[axis]), part = b.sub(at[axis], floor);
        place.push_back(high ? b.add(floor, 1.0) : floor);
        const ValueId share = high ? part : b.sub(1.0, part);
        weight = weight == kNoValue ? share : b.mul(weight, share);
      }
      y = sum(y, weighted(pixels(place), weight));
    }
    return y;
  }

  // Cubic convolution over 4 × 4 pixels, each brought back inside on its own.
  ValueId cubic(const Values& at) const {
    std::vector<Values> places;
    std::vector<std::array<ValueId, 4>> weights;
    for (size_t axis = 0; axis < at.size(); ++axis) {
      const ValueId floor = b.unary("floor", at[axis]), part = b.sub(at[axis], floor);
      weights.push_back(cubic_weights(b, part));
      places.emplace_back();
      for (int tap = -1; tap <= 2; ++tap) places.back().push_back(padded(b.add(floor, static_cast<double>(tap)), axis));
    }
    ValueId y = kNoValue;
    for (size_t i = 0; i < 4; ++i) {
      ValueId row = kNoValue;
      for (size_t j = 0; j < 4; ++j) row = sum(row, weighted(pixels({places[0][i], places[1][j]}), weights[1][j]));
      y = sum(y, weighted(row, weights[0][i]));
    }
    return y;
  }

  ValueId sampled(Values at) const {
    for (size_t axis = 0; axis < at.size(); ++axis) {
      at[axis] = position(at[axis], axis);
      if (mode != "bicubic") at[axis] = padded(at[axis], axis);
      if (mode == "nearest") at[axis] = b.unary("round", at[axis]);
    }
    return mode == "nearest" ? pixels(at) : mode == "bilinear" ? linear(at) : cubic(at);
  }
};

OpDef grid_sample() {
  OpDef def = functional("grid_sample");
  for (const char* overload : {"aten.grid_sampler.default", "aten.grid_sampler_2d.default", "aten.grid_sampler_3d.default"})
    def.from_aten_call(overload, [](AtenCall& a) {
      const auto named = [&](const char* argument, const char* const(&names)[3]) {
        const int64_t index = a.integer(argument);
        if (index < 0 || index > 2) a.unsupported(std::string(argument) + "=" + std::to_string(index));
        return std::string(names[index]);
      };
      return a.b.create_all("grid_sample", {a.tensor("input"), a.tensor("grid")},
                            {{"mode", named("interpolation_mode", kModes)},
                             {"padding", named("padding_mode", kPaddings)},
                             {"align_corners", a.boolean("align_corners")}});
    });
  return def.doc("the image at the points of a grid: coordinates from -1 to 1, the last axis first")
      .operands("x", "grid")
      .attributes(attr<std::string>("mode", std::string("bilinear")), attr<std::string>("padding", std::string("zeros")),
                  attr<bool>("align_corners", false))
      .constraint("grid_sample_c1", "x is [N, C, positions…] in two or three dimensions, grid has a coordinate for each",
                  [](const Call& c) {
                    const int64_t n = c.rank("x") - 2;
                    return (n == 2 || n == 3) && c.rank("grid") == n + 2 && c.agree(c.shape("grid").back(), Dim(n)) &&
                           c.agree(c.shape("grid")[0], c.shape("x")[0]);
                  })
      .constraint("grid_sample_c2", "x and grid have one floating dtype",
                  [](const Call& c) { return is_floating(c.type("x").dtype) && c.type("x").dtype == c.type("grid").dtype; })
      .constraint("grid_sample_c3", "bicubic is for two dimensions",
                  [](const Call& c) { return c.string("mode") != "bicubic" || c.rank("x") == 4; })
      .infer([](const Call& c) {
        const Shape& grid = c.shape("grid");
        Type y{c.type("x").dtype, first_dims(c.shape("x"), 2)};
        y.shape.insert(y.shape.end(), grid.begin() + 1, grid.end() - 1);
        return y;
      })
      .decompose([](Builder& b, const Call& c) {
        const Type x = c.type("x");
        const Shape grid = c.shape("grid");
        const size_t n = x.shape.size() - 2;
        Dim positions = 1, points = 1;
        for (size_t i = 0; i < n; ++i) {
          positions = positions * x.shape[i + 2];
          points = points * grid[i + 1];
        }
        const ValueId image = b.reshape(c.value("x"), {x.shape[0], x.shape[1], positions});
        const ValueId flat = b.reshape(c.value("grid"), {grid[0], points, Dim(static_cast<int64_t>(n))});
        Values at;
        for (size_t axis = 0; axis < n; ++axis) at.push_back(b.select_index(flat, 2, Dim(static_cast<int64_t>(n - 1 - axis))));
        const Sampler sampler{b,
                              c.string("mode"),
                              c.string("padding"),
                              c.boolean("align_corners"),
                              image,
                              {x.shape.begin() + 2, x.shape.end()},
                              x.dtype};  // f16 and bf16 too: torch rounds every number on the way
        Shape shape = first_dims(x.shape, 2);
        shape.insert(shape.end(), grid.begin() + 1, grid.end() - 1);
        return b.reshape(sampler.sampled(at), shape);
      })
      .sample("F.grid_sample(t(2, 3, 5, 6), t(2, 4, 7, 2), align_corners=False)")
      .sample("F.grid_sample(t(2, 3, 5, 6), t(2, 4, 7, 2), padding_mode='border', align_corners=True)")
      .sample("F.grid_sample(t(2, 3, 5, 6), t(2, 4, 7, 2) * 2, padding_mode='reflection', align_corners=False)")
      .sample("F.grid_sample(t(2, 3, 5, 6), t(2, 4, 7, 2) * 2, padding_mode='reflection', align_corners=True)")
      .sample("F.grid_sample(t(2, 3, 5, 6), t(2, 4, 7, 2), mode='nearest', align_corners=False)")
      .sample("F.grid_sample(t(2, 3, 5, 6), t(2, 4, 7, 2), mode='bicubic', padding_mode='border', align_corners=False)")
      .sample("F.grid_sample(t(2, 3, 5, 6), t(2, 4, 7, 2), mode='bicubic', align_corners=True)")
      .sample("F.grid_sample(t(2, 3, 4, 5, 6), t(2, 3, 4, 5, 3), align_corners=False)")
      .mistakes(other_corners)
      .mistakes([](Mistakes& m) {
        m.choice("interpolation mode", "mode", {{"bilinear", "bilinear"}, {"nearest", "nearest"}, {"bicubic", "bicubic"}});
        m.choice("padding mode", "padding",
                 {{"zeros", "padding with zeros"}, {"border", "padding by the border"}, {"reflection", "padding by reflection"}});
      });
}

OpDef affine_grid() {
  return functional("affine_grid")
      .doc("the points of a grid of `size`, mapped by theta")
      .operands("theta")
      .attributes(attr<Dims>("size"), attr<bool>("align_corners", false))
      .constraint("affine_grid_c1", "size is [N, C, positions…] in two or three dimensions, theta is [N, n, n + 1]",
                  [](const Call& c) {
                    const int64_t n = static_cast<int64_t>(c.dims("size").size()) - 2;
                    return (n == 2 || n == 3) && is_floating(c.type("theta").dtype) &&
                           c.agree(c.shape("theta"), Shape{c.dims("size")[0], Dim(n), Dim(n + 1)});
                  })
      .infer([](const Call& c) {
        const Dims& size = c.dims("size");
        Type y{c.type("theta").dtype, {size[0]}};
        y.shape.insert(y.shape.end(), size.begin() + 2, size.end());
        y.shape.emplace_back(static_cast<int64_t>(size.size()) - 2);
        return y;
      })
      .decompose([](Builder& b, const Call& c) {
        const Dims size = c.dims("size");
        const int64_t n = static_cast<int64_t>(size.size()) - 2;
        const ValueId theta = b.widened(c.value("theta"));
        const Shape positions(size.begin() + 2, size.end());
        Values coordinates;
        for (int64_t k = n - 1; k >= 0; --k) {  // the last axis is the first coordinate
          const Dim count = positions[k];
          const ValueId from = b.iota(count, b.dtype(theta));
          ValueId line = b.full(0.0, b.dtype(theta), {count});
          if (c.boolean("align_corners")) {
            if (!(count == Dim(1))) line = b.sub(b.mul(from, b.div(2.0, b.dim_value(count - 1, b.dtype(theta)))), 1.0);
          } else {
            line = b.sub(b.div(b.add(b.mul(from, 2.0), 1.0), b.dim_value(count, b.dtype(theta))), 1.0);
          }
          coordinates.push_back(b.unsqueeze(b.broadcast(line, positions, {k}), -1));
        }
        coordinates.push_back(b.full(1.0, b.dtype(theta), joined(positions, {Dim(1)})));
        const ValueId base = b.concat(coordinates, n);                               // [positions…, n + 1]
        const ValueId grid = b.dot_general(theta, base, {}, {}, {2}, {n});           // [N, n, positions…]
        Ints order{0};
        for (int64_t i = 0; i < n; ++i) order.push_back(i + 2);
        order.push_back(1);
        return b.narrowed(b.transpose(grid, order), c.type("theta").dtype);
      })
      .from_aten("aten.affine_grid_generator.default(theta, size, align_corners)")
      .sample("F.affine_grid(t(2, 2, 3), [2, 3, 4, 5], align_corners=False)")
      .sample("F.affine_grid(t(2, 2, 3), [2, 3, 4, 5], align_corners=True)")
      .sample("F.affine_grid(t(2, 3, 4), [2, 3, 4, 5, 6], align_corners=False)")
      .mistakes(other_corners);
}

}  // namespace

std::vector<OpDef> grid_ops() { return {grid_sample(), affine_grid()}; }

}  // namespace pycandle
