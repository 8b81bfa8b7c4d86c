// What detectors do with each box: lay its mask into the image, and find the highest point of its heat maps. Both resample as
// torch's interpolation does, to a size that the box has.
#include <cmath>

#include "ops/core/evaluate.h"
#include "ops/core/functional_helpers.h"
#include "ops/vision/cubic.h"

namespace pycandle {
namespace {

// Positions of an axis that is resampled from `in` to `out` pixels, in the dtype torch computes coordinates in.
struct Resampled {
  double in, step;
  bool narrow;
  Resampled(int64_t in, double out, bool narrow) : in(static_cast<double>(in)), step(this->in / out), narrow(narrow) {
    step = rounded(step);
  }
  double rounded(double v) const { return narrow ? static_cast<double>(static_cast<float>(v)) : v; }
  // One rounding, as torch's kernels are compiled.
  double source(double position) const { return rounded((position + 0.5) * step - 0.5); }
  int64_t inside(double index) const { return static_cast<int64_t>(std::clamp(index, 0.0, in - 1)); }
};

bool is_narrow(const Array& x) { return x.dtype() != DType::f64; }

// ---- masks

// Two pixels around a position, and how much the second counts.
struct Between {
  int64_t low, high;
  double part;
  Between(const Resampled& axis, double position) {
    const double source = std::max(axis.source(position), 0.0), floor = std::floor(source);
    low = axis.inside(floor);
    high = axis.inside(floor + 1);
    part = source - floor;
  }
  double of(double a, double b) const { return (1 - part) * a + part * b; }
};

// The mask [rows, columns], stretched over its box, where that is inside of the image.
void paste(const double* mask, int64_t rows, int64_t columns, bool narrow, const int64_t* box, int64_t height, int64_t width,
           double* image) {
  const auto extent = [](int64_t first, int64_t last) {  // the last pixel counts
    return std::max(static_cast<double>(last) - static_cast<double>(first) + 1, 1.0);
  };
  const Resampled across(columns, extent(box[0], box[2]), narrow), down(rows, extent(box[1], box[3]), narrow);
  for (int64_t y = std::max<int64_t>(box[1], 0); y <= std::min(box[3], height - 1); ++y) {
    const Between row(down, static_cast<double>(y) - static_cast<double>(box[1]));
    for (int64_t x = std::max<int64_t>(box[0], 0); x <= std::min(box[2], width - 1); ++x) {
      const Between column(across, static_cast<double>(x) - static_cast<double>(box[0]));
      const double *upper = mask + row.low * columns, *lower = mask + row.high * columns;
      image[y * width + x] = row.of(column.of(upper[column.low], upper[column.high]),
                                    column.of(lower[column.low], lower[column.high]));
    }
  }
}

OpDef paste_masks() {
  return primitive("paste_masks")
      .doc(
          "each mask [n, h, w] resampled (bilinear) to its box [n, 4] (x1, y1, x2, y2; both ends count) in an image of its own, "
          "0 "
          "outside: [n, height, width]")
      .operands("masks", "boxes")
      .attributes(attr<Dim>("height"), attr<Dim>("width"))
      .constraint("paste_masks_c1", "masks are [n, h, w] and floating, boxes [n, 4] and i64",
                  [](const Call& c) {
                    return c.rank("masks") == 3 && c.rank("boxes") == 2 && c.agree(c.shape("boxes")[1], Dim(4)) &&
                           c.agree(c.shape("masks")[0], c.shape("boxes")[0]) && is_floating(c.type("masks").dtype) &&
                           c.type("boxes").dtype == DType::i64;
                  })
      .constraint("paste_masks_c2", "a mask has pixels, and the image's sizes are not negative",
                  [](const Call& c) {
                    return may_be_at_most(1, c.shape("masks")[1]) && may_be_at_most(1, c.shape("masks")[2]) &&
                           may_be_at_most(0, c.dim("height")) && may_be_at_most(0, c.dim("width"));
                  })
      .rounds(Rounding::linear)
      .infer([](const Call& c) { return Type{c.type("masks").dtype, {c.shape("masks")[0], c.dim("height"), c.dim("width")}}; })
      .evaluator([](const Evaluation& ev) {
        const Array& masks = ev.array("masks");
        const std::vector<int64_t> boxes = load_all<int64_t>(ev.array("boxes"));
        const int64_t count = masks.shape()[0], rows = masks.shape()[1], columns = masks.shape()[2];
        const int64_t height = ev.integer("height"), width = ev.integer("width");
        Array out(ev.out_dtype(), {count, height, width});
        parallel_for(count, 1, [&](int64_t begin, int64_t end) {
          std::vector<double> mask(rows * columns), image(height * width);
          for (int64_t i = begin; i < end; ++i) {
            load_chunk(masks, i * rows * columns, rows * columns, mask.data());
            std::fill(image.begin(), image.end(), 0.0);
            paste(mask.data(), rows, columns, is_narrow(masks), boxes.data() + 4 * i, height, width, image.data());
            store_chunk(out, i * height * width, height * width, image.data());
          }
        });
        return out;
      })
      .from_aten("pycandle.paste_masks.default(masks, boxes, height, width)")
      .sample("torch.ops.pycandle.paste_masks(t(3, 4, 4), torch.tensor([[1, 2, 7, 5], [-3, -2, 4, 9], [5, 0, 5, 0]]), 8, 9)")
      .sample("torch.ops.pycandle.paste_masks(t(1, 7, 5), torch.tensor([[0, 0, 2, 1]]), 6, 6)")
      .sample("torch.ops.pycandle.paste_masks(t(0, 4, 4), torch.zeros(0, 4, dtype=torch.int64), 3, 5)");
}

// ---- heat maps

// Four pixels around a position and their weights; those outside count for the pixel at the edge.
struct Cubic {
  int64_t places[4];
  std::array<double, 4> weights;
  Cubic(const Resampled& axis, double position) {
    const double source = axis.source(position), floor = std::min(std::floor(source), axis.in - 1);
    weights = cubic_weights(kPlainNumbers, std::clamp(source - floor, 0.0, 1.0));
    for (int tap = 0; tap < 4; ++tap) places[tap] = axis.inside(floor + tap - 1);
  }
  template <class F> double of(F&& pixel) const {
    double sum = 0;
    for (size_t tap = 0; tap < 4; ++tap) sum += weights[tap] * pixel(places[tap]);
    return sum;
  }
};

struct Peak {
  int64_t place;
  double height;
};

// The first of the highest pixels of the map, resampled to height × width. NaN is the highest, as in torch.
Peak peak_of(const double* map, int64_t rows, int64_t columns, bool narrow, int64_t height, int64_t width) {
  const Resampled across(columns, static_cast<double>(width), narrow), down(rows, static_cast<double>(height), narrow);
  std::vector<double> wide(rows * width);  // [rows, width]
  for (int64_t x = 0; x < width; ++x) {
    const Cubic column(across, static_cast<double>(x));
    for (int64_t y = 0; y < rows; ++y) wide[y * width + x] = column.of([&](int64_t place) { return map[y * columns + place]; });
  }
  Peak best{0, -std::numeric_limits<double>::infinity()};
  for (int64_t y = 0; y < height; ++y) {
    const Cubic row(down, static_cast<double>(y));
    for (int64_t x = 0; x < width; ++x) {
      const double value = down.rounded(row.of([&](int64_t place) { return wide[place * width + x]; }));
      if (value > best.height || (is_nan(value) && !is_nan(best.height))) best = {y * width + x, value};
    }
  }
  return best;
}

void require_size(int64_t height, int64_t width) {
  constexpr int64_t kMost = 1 << 15;
  if (height >= 1 && width >= 1 && height <= kMost && width <= kMost) return;
  throw Error(ErrorCode::bad_input, "a heat map is resampled to a size that no image has")
      .op("heatmap_peaks")
      .expected("1 to " + std::to_string(kMost) + " rows and columns")
      .found(std::to_string(height) + " × " + std::to_string(width));
}

OpDef heatmap_peaks() {
  return primitive("heatmap_peaks")
      .doc(
          "how high each map [n, k, h, w] is after it was resampled (bicubic) to its size [n, 2] (height, width), and where, as "
          "row * width + column")
      .operands("maps", "sizes")
      .constraint("heatmap_peaks_c1", "maps are [n, k, h, w] and floating, sizes [n, 2] and i64",
                  [](const Call& c) {
                    return c.rank("maps") == 4 && c.rank("sizes") == 2 && c.agree(c.shape("sizes")[1], Dim(2)) &&
                           c.agree(c.shape("maps")[0], c.shape("sizes")[0]) && is_floating(c.type("maps").dtype) &&
                           c.type("sizes").dtype == DType::i64;
                  })
      .constraint("heatmap_peaks_c2", "a map has pixels",
                  [](const Call& c) { return may_be_at_most(1, c.shape("maps")[2]) && may_be_at_most(1, c.shape("maps")[3]); })
      .rounds(Rounding::relative)
      .infer_all([](const Call& c) {
        const Shape shape{c.shape("maps")[0], c.shape("maps")[1]};
        return std::vector<Type>{{c.type("maps").dtype, shape}, {DType::i64, shape}};
      })
      .evaluator_all([](const Evaluation& ev) {
        const Array& maps = ev.array("maps");
        const std::vector<int64_t> sizes = load_all<int64_t>(ev.array("sizes"));
        const int64_t count = maps.shape()[0], points = maps.shape()[1], rows = maps.shape()[2], columns = maps.shape()[3];
        for (int64_t i = 0; i < count; ++i) require_size(sizes[2 * i], sizes[2 * i + 1]);
        std::vector<int64_t> places(count * points);
        std::vector<double> heights(count * points);
        parallel_for(count * points, 1, [&](int64_t begin, int64_t end) {
          std::vector<double> map(rows * columns);
          for (int64_t i = begin; i < end; ++i) {
            load_chunk(maps, i * rows * columns, rows * columns, map.data());
            const int64_t* size = sizes.data() + 2 * (i / points);
            const Peak peak = peak_of(map.data(), rows, columns, is_narrow(maps), size[0], size[1]);
            places[i] = peak.place;
            heights[i] = peak.height;
          }
        });
        return std::vector<Array>{store_all(ev.out_dtype(0), {count, points}, heights),
                                  store_all(DType::i64, {count, points}, places)};
      })
      .from_aten("pycandle.heatmap_peaks.default(maps, sizes)")
      .sample("torch.ops.pycandle.heatmap_peaks(t(2, 3, 5, 6), torch.tensor([[9, 11], [3, 4]]))")
      .sample("torch.ops.pycandle.heatmap_peaks(t(1, 2, 4, 4), torch.tensor([[1, 1]]))")
      .sample("torch.ops.pycandle.heatmap_peaks(t(0, 2, 4, 4), torch.zeros(0, 2, dtype=torch.int64))");
}

}  // namespace

std::vector<OpDef> detection_ops() { return {paste_masks(), heatmap_peaks()}; }

}  // namespace pycandle
