// Boxes over images, as torchvision has them: suppression of overlapping ones, and what lies inside, resampled to a grid.
#include <cmath>
#include <map>
#include <numeric>

#include "ops/core/evaluate.h"
#include "ops/core/functional_helpers.h"

namespace pycandle {
namespace {

// ---- suppression

// Highest score first, NaN before all, as torch sorts; equal ones stay in their order.
void sort_by_score(std::vector<int64_t>& order, const std::vector<double>& scores) {
  std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) {
    const double p = scores[a], q = scores[b];
    return p > q || (is_nan(p) && !is_nan(q));
  });
}

// Boxes (x1, y1, x2, y2), four numbers each, that overlap none of higher score by more than the threshold, best first. Overlaps
// are computed in T, the dtype of the boxes, as torchvision does: the threshold decides.
template <class T>
std::vector<int64_t> without_overlaps(const std::vector<T>& boxes, const std::vector<double>& scores, std::vector<int64_t> order,
                                      double threshold) {
  sort_by_score(order, scores);
  const auto area = [](const T* box) { return (box[2] - box[0]) * (box[3] - box[1]); };
  std::vector<int64_t> kept;
  for (const int64_t candidate : order) {
    const T* b = boxes.data() + 4 * candidate;
    const bool overlaps = std::any_of(kept.begin(), kept.end(), [&](int64_t better) {
      const T* a = boxes.data() + 4 * better;
      const T width = std::max(T(0), std::min(a[2], b[2]) - std::max(a[0], b[0]));
      const T height = std::max(T(0), std::min(a[3], b[3]) - std::max(a[1], b[1]));
      const T inside = width * height, overlap = inside / (area(a) + area(b) - inside);
      return static_cast<double>(overlap) > threshold;
    });
    if (!overlaps) kept.push_back(candidate);
  }
  return kept;
}

std::vector<int64_t> counted_up_to(size_t count) {
  std::vector<int64_t> numbers(count);
  std::iota(numbers.begin(), numbers.end(), 0);
  return numbers;
}

// f with the boxes as floats, or as doubles when that is their dtype.
template <class F> Array kept_boxes(const Evaluation& ev, F&& f) {
  const std::vector<double> boxes = load_all<double>(ev.array("boxes"));
  const std::vector<int64_t> kept = ev.array("boxes").dtype() == DType::f64 ? f(boxes)
                                                                            : f(std::vector<float>(boxes.begin(), boxes.end()));
  return store_all(DType::i64, {static_cast<int64_t>(kept.size())}, kept);
}

bool are_scored_boxes(const Call& c) {
  return c.rank("boxes") == 2 && c.rank("scores") == 1 && c.agree(c.shape("boxes")[1], Dim(4)) &&
         c.agree(c.shape("boxes")[0], c.shape("scores")[0]) && is_floating(c.type("boxes").dtype) &&
         is_floating(c.type("scores").dtype);
}

OpDef nms() {
  return primitive("nms")
      .doc(
          "indices of the boxes [n, 4] (x1, y1, x2, y2) that overlap none of higher score by more than iou_threshold, best "
          "first; "
          "their number binds the symbol `count`")
      .operands("boxes", "scores")
      .attributes(attr<double>("iou_threshold"), attr<Dim>("count"))
      .constraint("nms_c1", "boxes are [n, 4] and scores [n], both floating", are_scored_boxes)
      .infer([](const Call& c) { return Type{DType::i64, {c.dim("count")}}; })
      .evaluator([](const Evaluation& ev) {
        const std::vector<double> scores = load_all<double>(ev.array("scores"));
        return kept_boxes(ev, [&](const auto& boxes) {
          return without_overlaps(boxes, scores, counted_up_to(scores.size()), ev.number("iou_threshold"));
        });
      })
      .from_aten_call("torchvision.nms.default", [](AtenCall& c) {
        return c.b.create_all("nms", {c.tensor("dets"), c.tensor("scores")},
                              {{"iou_threshold", c.number("iou_threshold")}, {"count", c.result().shape.at(0)}});
      });
}

// Above this many numbers torchvision takes the boxes of each label by themselves. Below, it moves each label's boxes to a
// place of their own, which rounds them.
constexpr size_t kManyCoordinates = 4000;

template <class T>
std::vector<int64_t> without_overlaps_of_one_label(std::vector<T> boxes, const std::vector<double>& scores,
                                                   const std::vector<int64_t>& labels, double threshold) {
  if (boxes.empty()) return {};
  if (boxes.size() <= kManyCoordinates) {
    const auto nan = std::find_if(boxes.begin(), boxes.end(), [](T v) { return v != v; });
    const T apart = (nan == boxes.end() ? *std::max_element(boxes.begin(), boxes.end()) : *nan) + T(1);
    for (size_t i = 0; i < boxes.size(); ++i) {
      const T offset = static_cast<T>(labels[i / 4]) * apart;
      boxes[i] += offset;
    }
    return without_overlaps(boxes, scores, counted_up_to(scores.size()), threshold);
  }
  std::map<int64_t, std::vector<int64_t>> of_label;
  for (size_t i = 0; i < labels.size(); ++i) of_label[labels[i]].push_back(static_cast<int64_t>(i));
  std::vector<int64_t> kept;
  for (const auto& [label, members] : of_label) {
    const std::vector<int64_t> best = without_overlaps(boxes, scores, members, threshold);
    kept.insert(kept.end(), best.begin(), best.end());
  }
  std::sort(kept.begin(), kept.end());
  sort_by_score(kept, scores);
  return kept;
}

OpDef batched_nms() {
  return primitive("batched_nms")
      .doc(
          "nms among the boxes of each label by themselves, best first over all; above 1000 boxes it rounds otherwise, as "
          "torchvision's does on the CPU; their number binds the symbol `count`")
      .operands("boxes", "scores", "labels")
      .attributes(attr<double>("iou_threshold"), attr<Dim>("count"))
      .constraint("batched_nms_c1", "boxes are [n, 4] and scores [n], both floating", are_scored_boxes)
      .constraint("batched_nms_c2", "labels are [n] integers",
                  [](const Call& c) {
                    return c.rank("labels") == 1 && is_integral(c.type("labels").dtype) &&
                           c.agree(c.shape("labels")[0], c.shape("scores")[0]);
                  })
      .infer([](const Call& c) { return Type{DType::i64, {c.dim("count")}}; })
      .evaluator([](const Evaluation& ev) {
        const std::vector<double> scores = load_all<double>(ev.array("scores"));
        const std::vector<int64_t> labels = load_all<int64_t>(ev.array("labels"));
        return kept_boxes(ev, [&](const auto& boxes) {
          return without_overlaps_of_one_label(boxes, scores, labels, ev.number("iou_threshold"));
        });
      })
      .from_aten_call("pycandle.batched_nms.default", [](AtenCall& c) {
        return c.b.create_all("batched_nms", {c.tensor("boxes"), c.tensor("scores"), c.tensor("labels")},
                              {{"iou_threshold", c.number("iou_threshold")}, {"count", c.result().shape.at(0)}});
      });
}

// ---- what lies inside: [N, C, H, W] and boxes [K, 5] (image, x1, y1, x2, y2) give [K, C, height, width]

OpDef roi_op(const char* name) {
  const std::string id = name;
  return primitive(name)
      .operands("x", "boxes")
      .attributes(attr<double>("scale"), attr<int64_t>("height"), attr<int64_t>("width"))
      .constraint(id + "_c1", "x is [N, C, H, W] and boxes [K, 5], both of one floating dtype",
                  [](const Call& c) {
                    return c.rank("x") == 4 && c.rank("boxes") == 2 && c.agree(c.shape("boxes")[1], Dim(5)) &&
                           is_floating(c.type("x").dtype) && c.type("x").dtype == c.type("boxes").dtype;
                  })
      .constraint(id + "_c2", "height and width are positive",
                  [](const Call& c) { return positive_and_sane({c.integer("height"), c.integer("width")}); });
}
Shape roi_shape(const Call& c) { return {c.shape("boxes")[0], c.shape("x")[1], c.integer("height"), c.integer("width")}; }

// torchvision computes where to look in the dtype of the boxes.
bool is_narrow(const Array& boxes) { return boxes.dtype() != DType::f64; }
double rounded_to(bool narrow, double v) { return narrow ? static_cast<double>(static_cast<float>(v)) : v; }

struct Box {
  int64_t image;
  double x1, y1, x2, y2;
};
std::vector<Box> boxes_of(const Evaluation& ev) {
  const std::vector<double> numbers = load_all<double>(ev.array("boxes"));
  const bool narrow = is_narrow(ev.array("boxes"));
  const auto scaled = [&, scale = rounded_to(narrow, ev.number("scale"))](double v) { return rounded_to(narrow, v * scale); };
  std::vector<Box> boxes;
  for (size_t i = 0; i + 5 <= numbers.size(); i += 5) {
    const Box box{to_int64(numbers[i]), scaled(numbers[i + 1]), scaled(numbers[i + 2]), scaled(numbers[i + 3]),
                  scaled(numbers[i + 4])};
    if (box.image < 0 || box.image >= ev.array("x").shape()[0])
      throw Error(ErrorCode::bad_input, "a box names an image that is not there")
          .op(ev.node().op->name)
          .expected("0 to " + std::to_string(ev.array("x").shape()[0] - 1))
          .found(std::to_string(box.image));
    boxes.push_back(box);
  }
  return boxes;
}

// f(box, plane, image plane) for every box and channel; a plane of the result has height * width elements.
template <class F> void for_each_plane(const Evaluation& ev, const std::vector<Box>& boxes, F&& f) {
  const Sizes& shape = ev.array("x").shape();
  const int64_t channels = shape[1], pixels = shape[2] * shape[3];
  parallel_for(static_cast<int64_t>(boxes.size()) * channels, 1, [&](int64_t begin, int64_t end) {
    std::vector<double> image(pixels);
    for (int64_t i = begin; i < end; ++i) {
      const Box& box = boxes[i / channels];
      load_chunk(ev.array("x"), (box.image * channels + i % channels) * pixels, pixels, image.data());
      f(box, i, image.data());
    }
  });
}

// Linear between pixels, up to a pixel outside of the image; 0 beyond.
double pixel_at(const double* image, int64_t height, int64_t width, double y, double x) {
  if (!(y >= -1 && y <= static_cast<double>(height) && x >= -1 && x <= static_cast<double>(width))) return 0;
  const auto split = [](double p, int64_t size) {
    p = std::max(p, 0.0);
    const int64_t low = std::min(static_cast<int64_t>(p), size - 1);
    return std::pair{low, low == size - 1 ? 0.0 : p - static_cast<double>(low)};
  };
  const auto [row, down] = split(y, height);
  const auto [column, right] = split(x, width);
  const int64_t next_row = std::min(row + 1, height - 1), next_column = std::min(column + 1, width - 1);
  const double upper = (1 - right) * image[row * width + column] + right * image[row * width + next_column];
  const double lower = (1 - right) * image[next_row * width + column] + right * image[next_row * width + next_column];
  return (1 - down) * upper + down * lower;
}

// Where roi_align looks along one axis of a box. Positions are rounded where torchvision rounds them: a unit in the last place of
// a position moves a value by the slope of the image there.
struct Cells {
  double start, size;
  int64_t points;  // in each cell
  bool narrow;
  Cells(double first, double last, int64_t cells, int64_t sampling, bool aligned, bool narrow) : narrow(narrow) {
    const double shift = aligned ? 0.5 : 0;
    start = rounded_to(narrow, first - shift);
    double length = rounded_to(narrow, rounded_to(narrow, last - shift) - start);
    if (!aligned) length = std::max(length, 1.0);
    size = rounded_to(narrow, length / static_cast<double>(cells));
    points = sampling > 0 ? sampling : std::clamp<int64_t>(to_int64(std::ceil(size)), 0, int64_t{1} << 20);
  }
  double position(int64_t cell, int64_t point) const {
    const double before = rounded_to(narrow, start + rounded_to(narrow, static_cast<double>(cell) * size));
    const double inside = rounded_to(narrow, (static_cast<double>(point) + 0.5) * size);
    return rounded_to(narrow, before + rounded_to(narrow, inside / static_cast<double>(points)));
  }
};

OpDef roi_align() {
  return roi_op("roi_align")
      .doc(
          "the means of sampling × sampling points in each cell of a grid over each box; sampling 0: as many as the cell has "
          "pixels")
      .attributes(attr<int64_t>("sampling", int64_t{0}), attr<bool>("aligned", false))
      .infer([](const Call& c) { return Type{c.type("x").dtype, roi_shape(c)}; })
      .rounds(Rounding::linear)
      .evaluator([](const Evaluation& ev) {
        const std::vector<Box> boxes = boxes_of(ev);
        const Sizes& shape = ev.array("x").shape();
        const int64_t rows = ev.integer("height"), columns = ev.integer("width"), sampling = ev.integer("sampling");
        const bool aligned = ev.boolean("aligned"), narrow = is_narrow(ev.array("boxes"));
        Array out(ev.out_dtype(), {static_cast<int64_t>(boxes.size()), shape[1], rows, columns});
        for_each_plane(ev, boxes, [&](const Box& box, int64_t plane, const double* image) {
          const Cells down(box.y1, box.y2, rows, sampling, aligned, narrow),
              across(box.x1, box.x2, columns, sampling, aligned, narrow);
          const int64_t points = down.points * across.points;
          std::vector<double> cells(rows * columns);
          for (int64_t cell = 0; cell < rows * columns; ++cell) {
            double sum = 0;
            for (int64_t p = 0; p < points; ++p) {
              sum += pixel_at(image, shape[2], shape[3], down.position(cell / columns, p / across.points),
                              across.position(cell % columns, p % across.points));
            }
            cells[cell] = sum / static_cast<double>(std::max<int64_t>(points, 1));
          }
          store_chunk(out, plane * rows * columns, rows * columns, cells.data());
        });
        return out;
      })
      .from_aten_call("torchvision.roi_align.default",
                      [](AtenCall& c) {
                        return c.b.create_all("roi_align", {c.tensor("input"), c.tensor("rois")},
                                              {{"scale", c.number("spatial_scale")},
                                               {"height", c.integer("pooled_height")},
                                               {"width", c.integer("pooled_width")},
                                               {"sampling", std::max<int64_t>(c.integer("sampling_ratio"), 0)},
                                               {"aligned", c.boolean("aligned")}});
                      })
      .from_aten_call("torchvision.ps_roi_align.default",
                      [](AtenCall& c) -> Values {
                        // Cell (i, j) of channel c comes from channel (c * height + i) * width + j of x.
                        Builder& b = c.b;
                        const ValueId x = c.tensor("input"), boxes = c.tensor("rois");
                        const int64_t height = c.integer("pooled_height"), width = c.integer("pooled_width");
                        const ValueId all = b.create("roi_align", {x, boxes},
                                                     {{"scale", c.number("spatial_scale")},
                                                      {"height", height},
                                                      {"width", width},
                                                      {"sampling", std::max<int64_t>(c.integer("sampling_ratio"), 0)},
                                                      {"aligned", true}});
                        const Dim channels = floordiv(b.shape(x)[1], height * width);
                        const Shape shape{b.shape(boxes)[0], channels, height, width};
                        ValueId y = b.reshape(all, {shape[0], channels, height, width, height, width});
                        for (int axis = 0; axis < 2; ++axis) {
                          const int64_t second = axis == 0 ? 4 : 3;
                          y = b.create("diagonal", {y}, {{"axis1", int64_t{2}}, {"axis2", second}});
                        }
                        const ValueId number = b.reshape(b.iota(product({channels, height, width}), DType::i32),
                                                         {channels, height, width});
                        return {y, b.broadcast_to(number, shape)};
                      })
      .sample(
          "torch.ops.torchvision.roi_align(t(2, 3, 9, 8), torch.tensor([[0.0, 1, 1, 5, 6], [1, 0, 2, 7, 8.5]]).to(t(1)), 1.0, 3, "
          "2, 2, False)")
      .sample("torch.ops.torchvision.roi_align(t(2, 3, 9, 8), torch.tensor([[1.0, 1, 1, 9, 16]]).to(t(1)), 0.5, 2, 3, -1, True)")
      .sample("torch.ops.torchvision.roi_align(t(2, 3, 9, 8), torch.zeros(0, 5).to(t(1)), 0.5, 2, 3, -1, True)")
      .sample("torch.ops.torchvision.ps_roi_align(t(2, 12, 9, 8), torch.tensor([[1.0, 1, 1, 9, 16]]).to(t(1)), 0.5, 2, 3, 2)");
}

OpDef roi_pool() {
  return roi_op("roi_pool")
      .doc("the largest pixel in each cell of a grid over each box, and where it stands in its plane (-1 in a cell of no pixel)")
      .infer_all([](const Call& c) { return std::vector<Type>{{c.type("x").dtype, roi_shape(c)}, {DType::i32, roi_shape(c)}}; })
      .evaluator_all([](const Evaluation& ev) {
        const std::vector<Box> boxes = boxes_of(ev);
        const Sizes& shape = ev.array("x").shape();
        const int64_t rows = ev.integer("height"), columns = ev.integer("width");
        const Sizes result{static_cast<int64_t>(boxes.size()), shape[1], rows, columns};
        Array out(ev.out_dtype(0), result), places(DType::i32, result);
        // Cells are cut where torchvision cuts them.
        const auto rounded = [narrow = is_narrow(ev.array("boxes"))](double v) { return rounded_to(narrow, v); };
        const auto cut = [&](int64_t first, int64_t last, int64_t cells, int64_t cell, int64_t size) {
          const double length = static_cast<double>(std::max<int64_t>(last - first + 1, 1));
          const double step = rounded(length / static_cast<double>(cells));
          const int64_t from = to_int64(std::floor(rounded(static_cast<double>(cell) * step))) + first;
          const int64_t to = to_int64(std::ceil(rounded(static_cast<double>(cell + 1) * step))) + first;
          return std::pair{std::clamp<int64_t>(from, 0, size), std::clamp<int64_t>(to, 0, size)};
        };
        for_each_plane(ev, boxes, [&](const Box& box, int64_t plane, const double* image) {
          const auto whole = [](double v) { return to_int64(std::round(v)); };
          std::vector<double> values(rows * columns);
          std::vector<int64_t> where(rows * columns, -1);
          for (int64_t cell = 0; cell < rows * columns; ++cell) {
            const auto [top, bottom] = cut(whole(box.y1), whole(box.y2), rows, cell / columns, shape[2]);
            const auto [left, right] = cut(whole(box.x1), whole(box.x2), columns, cell % columns, shape[3]);
            for (int64_t y = top; y < bottom; ++y) {
              for (int64_t x = left; x < right; ++x) {
                const double pixel = image[y * shape[3] + x];
                if (where[cell] >= 0 && !(pixel > values[cell])) continue;
                values[cell] = pixel;
                where[cell] = y * shape[3] + x;
              }
            }
          }
          store_chunk(out, plane * rows * columns, rows * columns, values.data());
          store_chunk(places, plane * rows * columns, rows * columns, where.data());
        });
        return std::vector<Array>{out, places};
      })
      .from_aten_call("torchvision.roi_pool.default",
                      [](AtenCall& c) {
                        return c.b.create_all("roi_pool", {c.tensor("input"), c.tensor("rois")},
                                              {{"scale", c.number("spatial_scale")},
                                               {"height", c.integer("pooled_height")},
                                               {"width", c.integer("pooled_width")}});
                      })
      .sample(
          "torch.ops.torchvision.roi_pool(t(2, 3, 9, 8), torch.tensor([[0.0, 1, 1, 5, 6], [1, 0, 2, 7, 8.5]]).to(t(1)), 1.0, 3, "
          "2)")
      .sample("torch.ops.torchvision.roi_pool(t(2, 3, 9, 8), torch.tensor([[1.0, 7, 8, 20, 30]]).to(t(1)), 0.5, 3, 3)");
}

// ---- convolution at points that the data moves

// The images [M, C, H * W] at points (y, x) of [M, P] each, linear between pixels and 0 outside: [M, C, P].
ValueId sampled(Builder& b, ValueId images, Dim height, Dim width, ValueId y, ValueId x) {
  const DType dtype = b.dtype(images);
  ValueId sum = kNoValue;
  for (int corner = 0; corner < 4; ++corner) {
    const ValueId floors[] = {b.unary("floor", y), b.unary("floor", x)}, points[] = {y, x};
    const Dim sizes[] = {height, width};
    ValueId weight = kNoValue, inside = kNoValue, flat = kNoValue;
    for (int axis = 0; axis < 2; ++axis) {
      const bool high = (corner >> (1 - axis) & 1) != 0;
      const ValueId part = b.sub(points[axis], floors[axis]), share = high ? part : b.sub(1.0, part);
      const ValueId place = high ? b.add(floors[axis], 1.0) : floors[axis];
      const ValueId within = b.logical_and(b.compare("ge", place, 0.0),
                                           b.compare("le", place, b.dim_value(sizes[axis] - 1, dtype)));
      const ValueId index = b.cast(b.select(within, place, b.full(0.0, dtype)), DType::i64);
      weight = axis == 0 ? share : b.mul(weight, share);
      inside = axis == 0 ? within : b.logical_and(inside, within);
      flat = axis == 0 ? index : b.add(b.mul(flat, b.dim_value(width)), index);
    }
    const Shape taken{b.shape(images)[0], b.shape(images)[1], b.shape(y)[1]};
    const ValueId pixels = b.create("gather", {images, b.broadcast_to(b.unsqueeze(flat, 1), taken)}, {{"axis", int64_t{2}}});
    const ValueId seen = b.select(inside, weight, b.full(0.0, dtype));
    const ValueId term = b.mul(pixels, b.unsqueeze(seen, 1));
    sum = sum == kNoValue ? term : b.add(sum, term);
  }
  return sum;
}

ValueId deformed(Builder& b, const Call& c) {
  const ValueId weight = b.widened(c.value("weight")), offset = b.widened(c.value("offset"));
  const Shape image = c.shape("x"), kernel = c.shape("weight"), out = c.shape("offset");
  const int64_t og = c.integer("offset_groups"), g = c.integer("groups");
  const Dim n = image[0], channels = image[1], taps = kernel[2] * kernel[3], cells = out[2] * out[3];
  const ValueId images = b.reshape(b.widened(c.value("x")), {n * Dim(og), floordiv(channels, og), image[2] * image[3]});
  const DType dtype = b.dtype(images);
  // Where each tap of the kernel looks, before it is moved: [taps, cells].
  const Shape grid{kernel[2], kernel[3], out[2], out[3]};
  const ValueId moved = b.reshape(offset, {n * Dim(og), taps, 2, cells});
  Values points;
  for (int64_t axis = 0; axis < 2; ++axis) {
    const auto number = [&](const char* name) { return static_cast<double>(c.integers(name)[axis]); };
    const ValueId tap = b.mul(b.broadcast(b.iota(grid[axis], dtype), grid, {axis}), number("dilation"));
    const ValueId cell = b.mul(b.broadcast(b.iota(grid[2 + axis], dtype), grid, {2 + axis}), number("stride"));
    const ValueId base = b.reshape(b.sub(b.add(tap, cell), number("padding")), {taps, cells});
    points.push_back(b.reshape(b.add(b.select_index(moved, 2, axis), base), {n * Dim(og), taps * cells}));
  }
  ValueId columns = sampled(b, images, image[2], image[3], points[0], points[1]);
  if (c.has("mask")) {
    const ValueId mask = b.reshape(b.widened(c.value("mask")), {n * Dim(og), 1, taps * cells});
    columns = b.mul(columns, mask);
  }
  const Dim inner = floordiv(channels, g) * taps;
  columns = b.reshape(columns, {n, Dim(g), inner, cells});
  const ValueId filters = b.reshape(weight, {Dim(g), floordiv(kernel[0], g), inner});
  const ValueId y = b.dot_general(filters, columns, {0}, {1}, {2}, {2});  // [g, out / g, n, cells]
  return b.reshape(b.transpose(y, {2, 0, 1, 3}), {n, kernel[0], out[2], out[3]});
}

OpDef deform_conv2d() {
  return functional("deform_conv2d")
      .doc("conv2d whose every tap looks `offset` away from its place, times `mask`")
      .operands("x", "weight", "offset", optional("mask"), optional("bias"))
      .attributes(attr<Ints>("stride"), attr<Ints>("padding"), attr<Ints>("dilation"), attr<int64_t>("groups", int64_t{1}),
                  attr<int64_t>("offset_groups", int64_t{1}))
      .constraint(
          "deform_conv2d_c1", "x is [N, C, H, W], weight [out, C / groups, h, w], offset [N, 2 * offset_groups * h * w, …]",
          [](const Call& c) {
            const Shape &x = c.shape("x"), &w = c.shape("weight"), &o = c.shape("offset");
            const Dim og = c.integer("offset_groups"), g = c.integer("groups");
            return positive_and_sane({c.integer("groups"), c.integer("offset_groups")}) && x.size() == 4 && w.size() == 4 &&
                   o.size() == 4 && c.agree(x[1], w[1] * g) && c.agree(x[0], o[0]) && c.agree(o[1], og * w[2] * w[3] * Dim(2)) &&
                   c.agree(mod(x[1], og), 0) && c.agree(mod(w[0], g), 0) && c.integers("stride").size() == 2 &&
                   c.integers("padding").size() == 2 && c.integers("dilation").size() == 2;
          })
      .constraint("deform_conv2d_c2", "all operands have the floating dtype of x",
                  [](const Call& c) {
                    const DType d = c.type("x").dtype;
                    return is_floating(d) && c.type("weight").dtype == d && c.type("offset").dtype == d &&
                           (!c.has("mask") || c.type("mask").dtype == d) && (!c.has("bias") || c.type("bias").dtype == d);
                  })
      .infer([](const Call& c) {
        return Type{c.type("x").dtype, {c.shape("x")[0], c.shape("weight")[0], c.shape("offset")[2], c.shape("offset")[3]}};
      })
      .decompose([](Builder& b, const Call& c) {
        ValueId y = deformed(b, c);
        if (c.has("bias")) y = b.add(y, along_axis(b, b.widened(c.value("bias")), 1, 4));
        return b.narrowed(y, c.type("x").dtype);
      })
      .from_aten_call(
          "torchvision.deform_conv2d.default",
          [](AtenCall& c) {
            const auto pair = [&](const std::string& name) { return Ints{c.integer(name + "_h"), c.integer(name + "_w")}; };
            const bool masked = c.boolean("use_mask");
            const ValueId mask = c.tensor("mask");
            return c.b.create_all(
                "deform_conv2d",
                {c.tensor("input"), c.tensor("weight"), c.tensor("offset"), masked ? mask : kNoValue, c.tensor("bias")},
                {{"stride", pair("stride")},
                 {"padding", pair("pad")},
                 {"dilation", pair("dilation")},
                 {"groups", c.integer("groups")},
                 {"offset_groups", c.integer("offset_groups")}});
          })
      .sample(
          "torch.ops.torchvision.deform_conv2d(t(2, 4, 7, 6), t(6, 2, 3, 3), t(2, 36, 4, 4), t(2, 18, 4, 4), t(6), 2, 1, 1, 0, "
          "1, "
          "1, 2, 2, True)")
      .sample(
          "torch.ops.torchvision.deform_conv2d(t(2, 4, 7, 6), t(6, 4, 2, 3), t(2, 12, 5, 4), t(2, 6, 5, 4), t(6), 1, 1, 0, 1, 2, "
          "2, 1, 1, False)");
}

}  // namespace

std::vector<OpDef> box_ops() { return {nms(), batched_nms(), roi_align(), roi_pool(), deform_conv2d()}; }

}  // namespace pycandle
