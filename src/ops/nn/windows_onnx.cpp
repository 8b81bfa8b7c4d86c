// ONNX's convolutions and pools: what slides a window over positions.
#include <algorithm>
#include <limits>
#include <numeric>

#include "ops/core/onnx_helpers.h"

namespace pycandle {
namespace {

struct Window {
  Ints kernel, strides, dilation, low, high;
};

// auto_pad SAME: as many positions as x has, divided by the stride; the odd one goes to the end (UPPER) or the start.
void pad_to_same(AtenCall& c, Window& w, const Shape& positions, bool upper) {
  for (size_t i = 0; i < w.kernel.size(); ++i) {
    const auto size = positions[i].maybe_number();
    if (!size && w.strides[i] != 1) c.unsupported("auto_pad of an axis whose size is open, with a stride");
    const int64_t reach = (w.kernel[i] - 1) * w.dilation[i] + 1;
    const int64_t total = size ? std::max<int64_t>(((*size + w.strides[i] - 1) / w.strides[i] - 1) * w.strides[i] + reach - *size,
                                                   0)
                               : reach - 1;
    w.low[i] = upper ? total / 2 : total - total / 2;
    w.high[i] = total - w.low[i];
  }
}

Window window_of(AtenCall& c, const Shape& positions, const Ints& kernel, bool pads_itself = true) {
  const size_t n = positions.size();
  Window w{kernel, Ints(n, 1), Ints(n, 1), Ints(n, 0), Ints(n, 0)};
  if (const auto strides = c.maybe_integers("strides")) w.strides = *strides;
  if (c.has_argument("dilations"))
    if (const auto dilations = c.maybe_integers("dilations")) w.dilation = *dilations;
  const auto pads = c.maybe_integers("pads");
  const std::string automatic = c.string("auto_pad");
  c.expects(w.kernel.size() == n && w.strides.size() == n && w.dilation.size() == n && (!pads || pads->size() == 2 * n),
            "a kernel, stride and dilation for each position axis, and two pads");
  c.expects(positive_and_sane(w.kernel) && positive_and_sane(w.strides) && positive_and_sane(w.dilation),
            "positive kernels, strides and dilations");
  if (!pads_itself) return w;
  if (automatic == "SAME_UPPER" || automatic == "SAME_LOWER") {
    pad_to_same(c, w, positions, automatic == "SAME_UPPER");
  } else if (automatic == "NOTSET") {
    for (size_t i = 0; pads && i < n; ++i) {
      w.low[i] = pads->at(i);
      w.high[i] = pads->at(n + i);
      c.expects(w.low[i] >= 0 && w.high[i] >= 0 && w.low[i] < (1 << 30) && w.high[i] < (1 << 30), "pads of 0 or more");
    }
  } else if (automatic != "VALID") {
    c.unsupported("auto_pad='" + automatic + "'");
  }
  return w;
}

Shape positions_of(AtenCall& c, ValueId x) {
  const Shape& shape = c.b.shape(x);
  c.expects(shape.size() >= 3 && shape.size() <= 5, "[N, C, positions…] with one to three position axes");
  return {shape.begin() + 2, shape.end()};
}

// x with what the two sides of an axis are padded by differently in front.
ValueId padded(Builder& b, ValueId x, Window& w, const Scalar& value) {
  if (w.low == w.high) return x;
  Dims low{0, 0}, high{0, 0};
  low.insert(low.end(), w.low.begin(), w.low.end());
  high.insert(high.end(), w.high.begin(), w.high.end());
  std::fill(w.low.begin(), w.low.end(), 0);
  w.high = w.low;
  return b.pad(x, low, high, value);
}

Ints kernel_of(AtenCall& c, ValueId weight) {
  Ints kernel;
  const Shape& shape = c.b.shape(weight);
  for (size_t i = 2; i < shape.size(); ++i) {
    c.expects(shape[i].is_number(), "a kernel of known size");
    kernel.push_back(shape[i].number());
  }
  if (const auto given = c.maybe_integers("kernel_shape")) c.expects(*given == kernel, "a kernel_shape that is the weight's");
  return kernel;
}

Values convolution(AtenCall& c) {
  ValueId x = c.tensor("x");
  const ValueId weight = c.tensor("w");
  Window w = window_of(c, positions_of(c, x), kernel_of(c, weight));
  const auto bias = c.maybe_tensor("b");
  x = padded(c.b, x, w, 0.0);
  return c.b.create_all("conv" + std::to_string(w.kernel.size()) + "d", {x, weight, bias ? *bias : kNoValue},
                        {{"stride", w.strides}, {"padding", w.low}, {"dilation", w.dilation}, {"groups", c.integer("group")}});
}

// The size of the result without padding is cut to `output_shape`, or by pads that may differ at the two ends.
Values transposed_convolution(AtenCall& c) {
  Builder& b = c.b;
  const ValueId x = c.tensor("x"), weight = c.tensor("w");
  const Shape positions = positions_of(c, x);
  const size_t n = positions.size();
  const std::string automatic = c.string("auto_pad");
  Window w = window_of(c, positions, kernel_of(c, weight), automatic == "NOTSET");
  Ints extra(n, 0);
  if (const auto given = c.maybe_integers("output_padding")) extra = *given;
  const auto shape = c.maybe_integers("output_shape");
  c.expects(extra.size() == n && (!shape || shape->size() == n), "an output padding and size for each position axis");
  if (shape || automatic.starts_with("SAME")) {
    for (size_t i = 0; i < n; ++i) {
      const auto size = positions[i].maybe_number();
      if (!size) c.unsupported("output_shape or auto_pad of an axis whose size is open");
      const int64_t wanted = shape ? shape->at(i) : *size * w.strides[i];
      const int64_t total = (*size - 1) * w.strides[i] + extra[i] + (w.kernel[i] - 1) * w.dilation[i] + 1 - wanted;
      if (total < 0) extra[i] -= total;  // more than there is: zeros at the end
      const int64_t cut = std::max<int64_t>(total, 0);
      w.low[i] = automatic == "SAME_LOWER" ? cut - cut / 2 : cut / 2;
      w.high[i] = cut - w.low[i];
    }
  }
  const auto bias = c.maybe_tensor("b");
  const bool same = w.low == w.high &&
                    std::equal(extra.begin(), extra.end(), w.strides.begin(), [](int64_t e, int64_t s) { return e < s; });
  Ints padding = w.low;
  if (!same) std::fill(padding.begin(), padding.end(), 0);
  Ints inside = extra, beyond(n, 0);
  for (size_t i = 0; i < n; ++i) {
    const int64_t most = std::max(w.strides[i], w.dilation[i]) - 1;
    if (inside[i] > most) beyond[i] = inside[i] - most, inside[i] = most;
  }
  ValueId y = b.create("conv_transpose" + std::to_string(n) + "d", {x, weight, bias ? *bias : kNoValue},
                       {{"stride", w.strides},
                        {"padding", padding},
                        {"output_padding", inside},
                        {"dilation", w.dilation},
                        {"groups", c.integer("group")}});
  for (size_t i = 0; i < n; ++i) {
    const auto axis = static_cast<int64_t>(i) + 2;
    if (beyond[i] > 0) {
      c.expects(!bias, "no bias where the output is larger than the convolution");
      Dims low(n + 2, Dim(0)), high = low;
      high[axis] = beyond[i];
      y = b.pad(y, low, high, 0.0);
    }
    if (!same) y = b.slice(y, axis, w.low[i], b.shape(y)[axis] - Dim(w.high[i]));
  }
  return {y};
}

bool rounds_up(AtenCall& c) { return c.has_argument("ceil_mode") && c.integer("ceil_mode") != 0; }

// What an axis is padded by at its end so that rounding the number of windows down gives all of them: the last one begins
// inside the padded x.
Ints padded_to_whole_windows(AtenCall& c, const Window& w, const Shape& positions, bool up) {
  Ints high = w.high;
  for (size_t i = 0; i < high.size() && up; ++i) {
    const auto size = positions[i].maybe_number();
    if (!size) c.unsupported("ceil_mode of an axis whose size is open");
    const int64_t reach = (w.kernel[i] - 1) * w.dilation[i] + 1, room = *size + w.low[i] + w.high[i] - reach;
    int64_t last = std::max<int64_t>((room + w.strides[i] - 1) / w.strides[i], 0);
    if (last * w.strides[i] >= *size + w.low[i]) --last;
    high[i] = std::max(w.high[i], last * w.strides[i] + reach - *size - w.low[i]);
  }
  return high;
}

Ints behind_two(const Ints& values, int64_t first) {
  Ints all{first, first};
  all.insert(all.end(), values.begin(), values.end());
  return all;
}

ValueId slid(Builder& b, const char* kind, ValueId x, const Window& w, const Ints& low, const Ints& high) {
  return b.create("reduce_window", {x},
                  {{"kind", std::string(kind)},
                   {"window", behind_two(w.kernel, 1)},
                   {"strides", behind_two(w.strides, 1)},
                   {"dilation", behind_two(w.dilation, 1)},
                   {"padding_low", behind_two(low, 0)},
                   {"padding_high", behind_two(high, 0)}});
}

// Where the largest of a window stands: in the whole tensor, rows first or columns first.
ValueId places_in_tensor(AtenCall& c, ValueId places, const Shape& padded_sizes, const Shape& sizes, const Ints& low,
                         bool columns_first) {
  Builder& b = c.b;
  const size_t n = sizes.size();
  std::vector<ValueId> at(n);  // along each axis, in x itself
  ValueId rest = places;
  for (size_t i = n; i-- > 0;) {
    const ValueId size = b.broadcast_to(b.dim_value(padded_sizes[i]), b.shape(rest));
    at[i] = b.sub(b.create("remainder", {rest, size}), static_cast<double>(low[i]));
    rest = b.create("floor_divide", {rest, size});
  }
  ValueId flat = kNoValue;
  for (size_t i = 0; i < n; ++i) {
    const size_t axis = columns_first ? n - 1 - i : i;
    flat = flat == kNoValue ? at[axis] : b.add(b.mul(flat, b.dim_value(sizes[axis])), at[axis]);
  }
  const Shape s = b.shape(places);
  const ValueId plane = b.reshape(b.iota(s[0] * s[1]), {s[0], s[1]});
  Shape shape{s[0], s[1]};
  shape.resize(s.size(), Dim(1));
  return b.add(flat, b.mul(b.reshape(plane, shape), b.dim_value(product(sizes))));
}

Values max_pool(AtenCall& c) {
  Builder& b = c.b;
  ValueId x = c.tensor("x");
  const Shape positions = positions_of(c, x);
  Window w = window_of(c, positions, c.integers("kernel_shape"));
  const bool columns_first = c.has_argument("storage_order") && c.integer("storage_order") != 0, up = rounds_up(c);
  const size_t n = w.kernel.size();
  const bool gives_places = c.result_count() > 1;
  const bool fits = w.low == w.high &&
                    std::equal(w.low.begin(), w.low.end(), w.kernel.begin(), [](int64_t p, int64_t k) { return p <= k / 2; });
  Ints low = w.low;
  if (!fits || (up && w.dilation != Ints(n, 1))) {
    w.high = padded_to_whole_windows(c, w, positions, up);
    Dims at_start(2, Dim(0)), at_end(2, Dim(0));
    at_start.insert(at_start.end(), w.low.begin(), w.low.end());
    at_end.insert(at_end.end(), w.high.begin(), w.high.end());
    const DType dtype = b.dtype(x);
    x = b.pad(
        x, at_start, at_end,
        is_floating(dtype) ? Scalar{-std::numeric_limits<double>::infinity()} : Scalar{static_cast<int64_t>(lowest_of(dtype))});
    std::fill(w.low.begin(), w.low.end(), 0);
  } else {
    std::fill(low.begin(), low.end(), 0);
  }
  const Shape padded_sizes = positions_of(c, x);
  const Attributes attributes{{"kernel_size", w.kernel},
                              {"stride", w.strides},
                              {"padding", w.low},
                              {"dilation", w.dilation},
                              {"ceil_mode", up && padded_sizes == positions}};
  const std::string op = "max_pool" + std::to_string(n) + "d";
  if (!gives_places) return b.create_all(op, {x}, attributes);
  const Values made = b.create_all(op + "_with_indices", {x}, attributes);
  return {made[0], places_in_tensor(c, made[1], padded_sizes, positions, low, columns_first)};
}

// The mean of what a window covers: of x alone, or of its pads too.
Values average_pool(AtenCall& c) {
  Builder& b = c.b;
  const ValueId x = c.tensor("x");
  const bool counts = c.has_argument("count_include_pad") && c.integer("count_include_pad") != 0, up = rounds_up(c);
  const Shape positions = positions_of(c, x);
  Window w = window_of(c, positions, c.integers("kernel_shape"));
  const size_t n = w.kernel.size();
  const bool fits = w.low == w.high &&
                    std::equal(w.low.begin(), w.low.end(), w.kernel.begin(), [](int64_t p, int64_t k) { return p <= k / 2; });
  if (fits && w.dilation == Ints(n, 1))
    return b.create_all(
        "avg_pool" + std::to_string(n) + "d", {x},
        {{"kernel_size", w.kernel}, {"stride", w.strides}, {"padding", w.low}, {"ceil_mode", up}, {"count_include_pad", counts}});
  const Ints high = padded_to_whole_windows(c, w, positions, up);
  const ValueId wide = b.widened(x);
  const ValueId sum = slid(b, "sum", wide, w, w.low, high);
  Shape ones{1, 1};
  Ints low = w.low, beyond = high;
  for (size_t i = 0; i < n; ++i) {
    ones.push_back(counts ? positions[i] + Dim(w.low[i] + w.high[i]) : positions[i]);
    if (counts) beyond[i] -= w.high[i], low[i] = 0;
  }
  const ValueId number = slid(b, "sum", b.full(1.0, b.dtype(wide), ones), w, low, beyond);
  return {b.narrowed(b.div(sum, number), b.dtype(x))};
}

ValueId root_of_sum(Builder& b, ValueId sum, double p) { return p == 1 ? sum : p == 2 ? b.sqrt(sum) : b.pow(sum, 1 / p); }
ValueId powers(Builder& b, ValueId x, double p) {
  const ValueId size = b.abs(b.widened(x));
  return p == 1 ? size : p == 2 ? b.square(size) : b.pow(size, p);
}

ValueId lp_pool(AtenCall& c) {
  Builder& b = c.b;
  const ValueId x = c.tensor("x");
  const double p = c.number("p");
  const Shape positions = positions_of(c, x);
  const Window w = window_of(c, positions, c.integers("kernel_shape"));
  const ValueId sum = slid(b, "sum", powers(b, x, p), w, w.low, padded_to_whole_windows(c, w, positions, rounds_up(c)));
  return b.narrowed(root_of_sum(b, sum, p), b.dtype(x));
}

ValueId global_lp(AtenCall& c) {
  const ValueId x = c.tensor("x");
  const double p = c.number("p");
  const ValueId sum = c.b.sum(powers(c.b, x, p), last_axes(c.b.rank(x), positions_of(c, x).size()));
  return c.b.narrowed(root_of_sum(c.b, sum, p), c.b.dtype(x));
}

// Each number goes back to where it was in the tensor that was pooled; what is larger is filled with zeros at the end.
ValueId unpooled(AtenCall& c) {
  Builder& b = c.b;
  const ValueId x = c.tensor("x"), places = c.tensor("places");
  const Shape positions = positions_of(c, x);
  const Ints kernel = c.integers("kernel_shape"), strides = c.maybe_integers("strides").value_or(Ints(kernel.size(), 1)),
             pads = c.maybe_integers("pads").value_or(Ints(2 * kernel.size(), 0));
  c.expects(kernel.size() == positions.size() && strides.size() == kernel.size() && pads.size() == 2 * kernel.size(),
            "a kernel and stride for each position axis, and two pads");
  Shape shape = first_dims(b.shape(x), 2);
  for (size_t i = 0; i < kernel.size(); ++i)
    shape.push_back((positions[i] - Dim(1)) * Dim(strides[i]) + Dim(kernel[i] - pads[i] - pads[kernel.size() + i]));
  const Dim count = product(b.shape(x));
  const ValueId zeros = b.full(is_floating(b.dtype(x)) ? Scalar{0.0} : Scalar{int64_t{0}}, b.dtype(x), {product(shape)});
  const ValueId flat = b.create("scatter", {zeros, b.reshape(b.cast(places, DType::i64), {count}), b.reshape(x, {count})},
                                {{"axis", int64_t{0}}, {"reduce", std::string("none")}, {"include_self", true}});
  const ValueId y = b.reshape(flat, shape);
  const auto wanted = c.maybe_dims("output_shape");
  if (!wanted) return y;
  c.expects(wanted->size() == shape.size(), "a size for each axis");
  Dims low(shape.size(), Dim(0)), high;
  for (size_t i = 0; i < shape.size(); ++i) high.push_back((*wanted)[i] - shape[i]);
  return b.pad(y, low, high, 0.0);
}

// [N, C * block, windows] → the image where each window's numbers are added at their places: a transposed convolution with a
// kernel for each place of the block.
ValueId image_of_columns(AtenCall& c) {
  Builder& b = c.b;
  const ValueId x = c.tensor("x");
  const Ints image = c.integers("image_shape"), block = c.integers("block_shape");
  const size_t n = image.size();
  const Ints strides = c.maybe_integers("strides").value_or(Ints(n, 1)),
             dilation = c.maybe_integers("dilations").value_or(Ints(n, 1)),
             pads = c.maybe_integers("pads").value_or(Ints(2 * n, 0));
  c.expects(b.rank(x) == 3 && block.size() == n && strides.size() == n && dilation.size() == n && pads.size() == 2 * n &&
                positive_and_sane(image) && positive_and_sane(block) && positive_and_sane(strides) && positive_and_sane(dilation),
            "sizes, strides and dilations for each axis, and two pads");
  if (n < 1 || n > 3) c.unsupported("images of more than three axes");
  int64_t size = 1;
  Shape windows = first_dims(b.shape(x), 2), kernel{0, 1};
  Ints extra;
  for (size_t i = 0; i < n; ++i) {
    const int64_t reach = (block[i] - 1) * dilation[i] + 1, room = image[i] + pads[i] + pads[n + i] - reach;
    c.expects(room >= 0, "blocks that fit into the image");
    windows.emplace_back(room / strides[i] + 1);
    extra.push_back(room % strides[i]);
    size *= block[i];
    kernel.emplace_back(block[i]);
    c.expects(size < (1 << 20), "blocks of a sane size");
  }
  const auto rows = b.shape(x)[1].maybe_number();
  c.expects(rows && *rows % size == 0, "channels that are a multiple of the block");
  kernel[0] = *rows;
  const ValueId row = b.create("remainder", {b.iota(*rows), b.full(size, DType::i64, {*rows})});
  const ValueId hit = b.compare("eq", b.reshape(row, {*rows, 1}), b.iota(size));
  const ValueId weight = b.reshape(b.cast(hit, b.dtype(x)), kernel);
  ValueId y = b.create("conv_transpose" + std::to_string(n) + "d", {b.reshape(x, windows), weight, kNoValue},
                       {{"stride", strides},
                        {"padding", Ints(n, 0)},
                        {"output_padding", Ints(n, 0)},
                        {"dilation", dilation},
                        {"groups", *rows / size}});
  Dims low(n + 2, Dim(0)), high(n + 2, Dim(0));
  for (size_t i = 0; i < n; ++i) high[i + 2] = extra[i];
  y = b.pad(y, low, high, 0.0);
  for (size_t i = 0; i < n; ++i) y = b.slice(y, static_cast<int64_t>(i) + 2, pads[i], pads[i] + image[i]);
  return y;
}

ValueId global_average(AtenCall& c) {
  const ValueId x = c.tensor("x");
  const size_t n = positions_of(c, x).size();
  return c.b.create("adaptive_avg_pool" + std::to_string(n) + "d", {x}, {{"output_size", Dims(n, Dim(1))}});
}

ValueId global_max(AtenCall& c) {
  const ValueId x = c.tensor("x");
  return c.b.max(x, last_axes(c.b.rank(x), positions_of(c, x).size()));
}

#define WINDOW "; auto_pad=\"NOTSET\", kernel_shape!, pads=none, strides=none"
#define CONVOLUTION "; auto_pad=\"NOTSET\", dilations=none, group=1, kernel_shape=none, pads=none, strides=none"

}  // namespace

std::vector<OpDef> windows_onnx_ops() {
  return {
      mapping("conv2d").from_aten_call("onnx.Conv.1(x, w, b?" CONVOLUTION ")", convolution),
      mapping("conv_transpose2d")
          .from_aten_call("onnx.ConvTranspose.1(x, w, b?" CONVOLUTION ", output_padding=none, output_shape=none)",
                          transposed_convolution),
      onnx_mapped_all("max_pool2d",
                      {"onnx.MaxPool.1(x" WINDOW ")", "onnx.MaxPool.8(x" WINDOW ", storage_order=0)",
                       "onnx.MaxPool.10(x" WINDOW ", storage_order=0, ceil_mode=0, dilations=none)"},
                      max_pool),
      onnx_mapped_all("avg_pool2d",
                      {"onnx.AveragePool.1(x" WINDOW ")", "onnx.AveragePool.7(x" WINDOW ", count_include_pad=0)",
                       "onnx.AveragePool.10(x" WINDOW ", count_include_pad=0, ceil_mode=0)",
                       "onnx.AveragePool.19(x" WINDOW ", count_include_pad=0, ceil_mode=0, dilations=none)"},
                      average_pool),
      onnx_mapped("reduce_window",
                  {"onnx.LpPool.1(x" WINDOW ", p=2.0)", "onnx.LpPool.2(x" WINDOW ", p=2)",
                   "onnx.LpPool.18(x" WINDOW ", ceil_mode=0, dilations=none, p=2)"},
                  lp_pool),
      onnx_mapped("reduce_sum", {"onnx.GlobalLpPool.1(x; p=2.0)", "onnx.GlobalLpPool.2(x; p=2)"}, global_lp),
      onnx_mapped("max_unpool", {"onnx.MaxUnpool.9(x, places, output_shape#?; kernel_shape!, pads=none, strides=none)"},
                  unpooled),
      onnx_mapped("conv_transpose2d", {"onnx.Col2Im.18(x, image_shape#, block_shape#; dilations=none, pads=none, strides=none)"},
                  image_of_columns),
      onnx_mapped("adaptive_avg_pool2d", {"onnx.GlobalAveragePool.1(x)"}, global_average),
      onnx_mapped("adaptive_max_pool2d", {"onnx.GlobalMaxPool.1(x)"}, global_max)};
}

#undef WINDOW
#undef CONVOLUTION

}  // namespace pycandle
