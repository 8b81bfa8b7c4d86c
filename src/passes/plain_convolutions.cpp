// Convolutions and pools of f32 images in forms that backends have no kernels for become those that they have: one- and
// two-dimensional ones with a step between outputs. What only rearranges parameters is computed once.
// tests/passes/plain_convolutions.ptir
//
//   max_pool3d        a pool over the last two axes, then one over the first
//   conv3d            an image for each place of the first axis, with the channels of all its taps side by side: conv2d
//   conv_transpose    every stride-th output is a plain convolution with every stride-th tap of the kernel, reversed. They
//                     share their inputs, so they are one convolution with more channels, which are then put in their places:
//
//   %2 = conv_transpose2d(%0, %1, _) {stride = [2, 2]}     %3 … = %1 as [O · 4, C, kernel / 2]
//                                                     →    %6 = conv2d(%0, %5, _) {padding = kernel / 2 - 1}
//                                                          %7 … = %6 as [N, O, 2 · height, 2 · width]
#include "passes/plain_convolutions.h"

#include <algorithm>

#include "passes/rewriter.h"

namespace pycandle {
namespace {

// The sizes of the weights, if they are known; empty otherwise.
Sizes weight_sizes(const Call& c) {
  Sizes out;
  for (const Dim d : c.shape("weight")) {
    if (!d.is_number() || d.number() <= 0) return {};
    out.push_back(d.number());
  }
  return out;
}

// ---- transposed ones

// One axis of positions.
struct Spread {
  int64_t stride, dilation;
  int64_t kernel;  // as the weights have it
  int64_t taps;    // of each of the `stride` plain convolutions
  int64_t first;   // outputs to leave out
};

Spread spread_of(const Call& c, size_t i, int64_t kernel) {
  const int64_t padding = c.integers("padding")[i], more = std::max<int64_t>(0, c.integers("output_padding")[i] - padding);
  Spread a{c.integers("stride")[i], c.integers("dilation")[i], kernel, 0, padding};
  const auto divided_up = [](int64_t n, int64_t by) { return (n + by - 1) / by; };
  a.taps = a.stride == 1 ? kernel + divided_up(more, a.dilation)
                         : divided_up(a.dilation * (kernel - 1) + 1 + more, a.stride);  // a tap more gives zeros at the end
  return a;
}

// Zeros between the taps in place of a dilation, for a stride above 1.
ValueId without_dilation(Builder& b, ValueId weight, int64_t axis, Spread& a) {
  if (a.stride == 1 || a.dilation == 1) return weight;
  Shape shape = b.shape(weight), flat = shape;
  shape.insert(shape.begin() + axis + 1, Dim(1));
  Dims low(shape.size(), Dim(0)), high = low;
  high[axis + 1] = a.dilation - 1;
  flat[axis] = a.kernel * a.dilation;
  a.kernel = (a.kernel - 1) * a.dilation + 1;
  a.dilation = 1;
  return b.slice(b.reshape(b.pad(b.reshape(weight, shape), low, high, 0.0), flat), axis, 0, a.kernel);
}

// [C, O / groups, kernel…] as [O · strides, C / groups, taps…]
ValueId spread_weight(Builder& b, ValueId weight, int64_t groups, std::vector<Spread>& axes) {
  const auto n = static_cast<int64_t>(axes.size());
  for (int64_t i = 0; i < n; ++i) weight = without_dilation(b, weight, i + 2, axes[i]);
  const Shape shape = b.shape(weight);
  Dims low(shape.size(), Dim(0)), high = low;
  for (int64_t i = 0; i < n; ++i) high[i + 2] = axes[i].taps * axes[i].stride - axes[i].kernel;
  weight = b.pad(weight, low, high, 0.0);
  // [groups, C / groups, O / groups, taps, stride, taps, stride…]
  Shape apart{Dim(groups), floordiv(shape[0], Dim(groups)), shape[1]};
  Ints order{0, 2}, taps;
  for (int64_t i = 0; i < n; ++i) {
    apart.insert(apart.end(), {Dim(axes[i].taps), Dim(axes[i].stride)});
    taps.push_back(3 + 2 * i);
    order.push_back(4 + 2 * i);
  }
  order.push_back(1);
  order.insert(order.end(), taps.begin(), taps.end());
  Shape plain{shape[1] * Dim(groups), apart[1]};
  for (const Spread& a : axes) {
    plain[0] = plain[0] * Dim(a.stride);
    plain.emplace_back(a.taps);
  }
  return b.reshape(b.transpose(b.reverse(b.reshape(weight, apart), taps), order), plain);
}

Values plain_transposed(Builder& b, const Call& c, const Shape& result) {
  const size_t n = c.shape("weight").size() - 2;
  const bool is_one = c.shape("x").size() == n + 1;
  const ValueId x = is_one ? b.unsqueeze(c.value("x"), 0) : c.value("x");
  const Sizes sizes = weight_sizes(c);
  const int64_t groups = c.integer("groups"), made = sizes[1] * groups;
  std::vector<Spread> axes;
  int64_t copies = 1;
  for (size_t i = 0; i < n; ++i) {
    axes.push_back(spread_of(c, i, sizes[i + 2]));
    copies *= axes[i].stride;
  }
  const ValueId weight = spread_weight(b, c.value("weight"), groups, axes);
  ValueId bias = kNoValue;
  if (c.has("bias")) bias = b.reshape(b.broadcast(c.value("bias"), {Dim(made), Dim(copies)}, {0}), {Dim(made * copies)});
  Ints padding, dilation;
  for (const Spread& a : axes) {
    padding.push_back(a.dilation * (a.taps - 1));
    dilation.push_back(a.dilation);
  }
  ValueId y = b.create("conv" + std::to_string(n) + "d", {x, weight, bias},
                       {{"stride", Ints(n, 1)}, {"padding", padding}, {"dilation", dilation}, {"groups", groups}});
  // [N, O, strides…, positions…] as [N, O, position, stride, position, stride…]
  const Shape shape = b.shape(y);
  const auto count = static_cast<int64_t>(n);
  Shape apart{shape[0], Dim(made)}, whole = apart;
  Ints order{0, 1};
  for (const Spread& a : axes) apart.emplace_back(a.stride);
  for (int64_t i = 0; i < count; ++i) {
    apart.push_back(shape[i + 2]);
    whole.push_back(shape[i + 2] * Dim(axes[i].stride));
    order.insert(order.end(), {2 + count + i, 2 + i});
  }
  y = b.reshape(b.transpose(b.reshape(y, apart), order), whole);
  for (int64_t i = 0; i < count; ++i) y = b.slice(y, i + 2, axes[i].first, result[result.size() - n + i] + Dim(axes[i].first));
  return {is_one ? b.squeeze(y, 0) : y};
}

// ---- three dimensions

// What is added on both sides of an axis; padding that keeps the size is even.
int64_t padding_of(const Call& c, size_t i, const Sizes& weight) {
  return c.boolean("same") ? c.integers("dilation")[i] * (weight[i + 2] - 1) / 2 : c.integers("padding")[i];
}

Attributes of_last_two(const Call& c, const Sizes& weight) {
  const auto last = [&](const char* name) { return Ints(c.integers(name).begin() + 1, c.integers(name).end()); };
  return {{"stride", last("stride")},
          {"padding", Ints{padding_of(c, 1, weight), padding_of(c, 2, weight)}},
          {"dilation", last("dilation")},
          {"groups", c.integer("groups")}};
}

// A kernel of one place of the last two axes: they are one axis.
ValueId along_the_first(Builder& b, const Call& c, ValueId x) {
  const Shape shape = b.shape(x), weight = c.shape("weight");
  const auto first_and = [&](const char* name, int64_t other) { return Ints{c.integers(name)[0], other}; };
  const ValueId y = b.create(
      "conv2d",
      {b.reshape(x, {shape[0], shape[1], shape[2], shape[3] * shape[4]}),
       b.reshape(c.value("weight"), {weight[0], weight[1], weight[2], Dim(1)}), c.has("bias") ? c.value("bias") : kNoValue},
      {{"stride", first_and("stride", 1)},
       {"padding", first_and("padding", 0)},
       {"dilation", first_and("dilation", 1)},
       {"groups", c.integer("groups")},
       {"same", c.boolean("same")}});
  return b.reshape(y, {shape[0], weight[0], b.shape(y)[2], shape[3], shape[4]});
}

// An image for each place of the first axis.
ValueId by_images(Builder& b, const Call& c, ValueId x) {
  const Sizes weight = weight_sizes(c);
  const int64_t taps = weight[2], groups = c.integer("groups"), stride = c.integers("stride")[0];
  const int64_t dilation = c.integers("dilation")[0], reach = dilation * (taps - 1), padding = padding_of(c, 0, weight);
  x = b.swap_axes(x, 1, 2);  // [N, depth, C, height, width]
  if (padding > 0) x = b.pad(x, {0, Dim(padding), 0, 0, 0}, {0, Dim(padding), 0, 0, 0}, 0.0);
  const Shape shape = b.shape(x);
  const Dim depth = floordiv(shape[1] - Dim(reach + 1), Dim(stride)) + 1;
  const auto tap_of = [&](int64_t t) {
    return b.slice(x, 1, t * dilation, (depth - 1) * Dim(stride) + Dim(t * dilation + 1), stride);
  };
  const auto images = [&](ValueId of) {
    const Shape s = b.shape(of);
    return b.reshape(of, {s[0] * s[1], s[2], s[3], s[4]});
  };
  const ValueId bias = c.has("bias") ? c.value("bias") : kNoValue;
  ValueId y = kNoValue;
  if (groups == 1) {
    Values all;
    for (int64_t t = 0; t < taps; ++t) all.push_back(tap_of(t));
    const ValueId side_by_side = b.reshape(b.swap_axes(c.value("weight"), 1, 2),
                                           {Dim(weight[0]), Dim(taps * weight[1]), Dim(weight[3]), Dim(weight[4])});
    y = b.create("conv2d", {images(all.size() == 1 ? all[0] : b.concat(all, 2)), side_by_side, bias}, of_last_two(c, weight));
  } else {  // few channels a group: a sum of convolutions has better kernels than one with more channels
    for (int64_t t = 0; t < taps; ++t) {
      const ValueId own = b.create("conv2d",
                                   {images(tap_of(t)), b.select_index(c.value("weight"), 2, t), t == 0 ? bias : kNoValue},
                                   of_last_two(c, weight));
      y = y == kNoValue ? own : b.add(y, own);
    }
  }
  const Shape made = b.shape(y);
  return b.swap_axes(b.reshape(y, {shape[0], depth, made[1], made[2], made[3]}), 1, 2);
}

Values plain_conv3d(Builder& b, const Call& c) {
  const bool is_one = c.shape("x").size() == 4;
  const ValueId x = is_one ? b.unsqueeze(c.value("x"), 0) : c.value("x");
  const Sizes weight = weight_sizes(c);
  const auto is_plain = [&](const char* name, int64_t value) {
    return c.integers(name)[1] == value && c.integers(name)[2] == value;
  };
  const bool is_along_the_first = weight[3] * weight[4] == 1 && is_plain("stride", 1) && is_plain("padding", 0);
  const ValueId y = is_along_the_first ? along_the_first(b, c, x) : by_images(b, c, x);
  return {is_one ? b.squeeze(y, 0) : y};
}

// ---- pools: first over the last two axes, then over the first

bool is_plain_pool(const Call& c) {
  if (c.op().name == "max_pool3d") return true;
  return c.op().name == "avg_pool3d" && c.integers("padding") == Ints(3, 0) && !c.boolean("ceil_mode") &&
         !c.has("divisor_override");
}

Values plain_pool3d(Builder& b, const Call& c, const Shape& result) {
  const bool is_max = c.op().name == "max_pool3d";
  const Shape shape = c.shape("x");
  Dim planes = 1;
  for (size_t a = 0; a + 3 < shape.size(); ++a) planes = planes * shape[a];
  const auto pooled = [&](ValueId x, const auto& of) {
    Attributes attributes{{"kernel_size", of("kernel_size", 1)},
                          {"stride", of("stride", 1)},
                          {"padding", of("padding", 0)},
                          {"ceil_mode", c.boolean("ceil_mode")}};
    if (is_max) attributes.emplace_back("dilation", of("dilation", 1));
    return b.create(is_max ? "max_pool2d" : "avg_pool2d", {x}, std::move(attributes));
  };
  const Dim depth = shape[shape.size() - 3];
  ValueId y = b.reshape(c.value("x"), {planes, depth, shape[shape.size() - 2], shape.back()});
  y = pooled(y, [&](const char* name, int64_t) { return Ints(c.integers(name).begin() + 1, c.integers(name).end()); });
  y = b.reshape(y, {planes, Dim(1), depth, b.shape(y)[2] * b.shape(y)[3]});
  y = pooled(y, [&](const char* name, int64_t none) { return Ints{c.integers(name)[0], none}; });
  return {b.reshape(y, result)};
}

}  // namespace

bool has_plain_form(const Call& c) {
  const std::string& op = c.op().name;
  const bool is_transposed = op.starts_with("conv_transpose"), is_pool = op == "max_pool3d" || op == "avg_pool3d";
  if ((!is_transposed && !is_pool && op != "conv3d") || c.type("x").dtype != DType::f32) return false;
  if (is_pool) return is_plain_pool(c);
  const Sizes weight = weight_sizes(c);
  for (size_t i = 0; i + 2 < weight.size() && !is_transposed && c.boolean("same"); ++i) {
    if (c.integers("dilation")[i] * (weight[i + 2] - 1) % 2 != 0) return false;  // more at the end
  }
  return !weight.empty();
}

Program plain_convolutions(Program p, const OpTable& table) {
  const auto rule = [](Builder& b, const Node& node, const Values& operands) -> std::optional<Values> {
    const Call c(*node.op, b.graph(), operands, node.attributes, node.regions);
    if (!has_plain_form(c)) return std::nullopt;
    if (node.op->name == "conv3d") return plain_conv3d(b, c);
    const Dims result = node.op->infer_types(c)[0].shape;
    return node.op->name.ends_with("pool3d") ? plain_pool3d(b, c, result) : plain_transposed(b, c, result);
  };
  for (int turn = 0; turn < 2; ++turn) p = rewrite_outside_regions(std::move(p), table, rule);  // transposed: conv3d, conv2d
  return p;
}

}  // namespace pycandle
