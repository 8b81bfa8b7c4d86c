// Convolutions of images (and, as images of one row, of signals): a product with the windows, or depthwise. A batch norm of
// constants that follows goes into the weights.
#include <cmath>
#include <string>

#include "backends/cpu/chain.h"
#include "backends/cpu/convolution.h"
#include "backends/cpu/epilogue.h"
#include "backends/cpu/lowerings.h"
#include "backends/cpu/packing.h"

namespace pycandle::cpu {
namespace {

bool is_f32(const Call& c) { return c.type("x").dtype == DType::f32; }

// ---- batch norm

bool claims_batch_norm(const Call& c) {
  for (const char* name : {"x", "mean", "var", "weight", "bias"}) {
    if (c.has(name) && c.type(name).dtype != DType::f32) return false;
  }
  return c.rank("x") >= 2;
}

struct ScaleAndShift {
  std::vector<double> scale, shift;  // one a channel
};

// y = x * scale + shift, when everything but x is known.
std::optional<ScaleAndShift> batch_norm_of_constants(Planner& p, size_t index) {
  const Call c = p.call(index);
  for (const char* name : {"mean", "var", "weight", "bias"}) {
    if (c.has(name) && !p.is_constant(c.value(name))) return std::nullopt;
  }
  const auto values = [&](const char* name) {
    return c.has(name) ? load_double(*p.constant(c.value(name))) : std::vector<double>();
  };
  const std::vector<double> mean = values("mean"), var = values("var"), weight = values("weight"), bias = values("bias");
  ScaleAndShift s;
  for (size_t i = 0; i < mean.size(); ++i) {
    s.scale.push_back((weight.empty() ? 1 : weight[i]) / std::sqrt(var[i] + c.number("eps")));
    s.shift.push_back((bias.empty() ? 0 : bias[i]) - mean[i] * s.scale[i]);
  }
  return s;
}

View constant_vector(Planner& p, const std::vector<double>& values) {
  const Sizes sizes{static_cast<int64_t>(values.size())};
  return dense_view(p.constant_buffer(store(DType::f32, sizes, values)), DType::f32, sizes);
}

bool lower_batch_norm(Planner& p, size_t index) {
  const Node& node = p.node(index);
  const Call c = p.call(index);
  if (p.is_blocked(c.value("x"))) {
    if (const auto s = batch_norm_of_constants(p, index)) {
      p.chains().scale_and_shift(index, c.value("x"), constant_blocks(p, s->scale, 1), constant_blocks(p, s->shift, 1));
      return true;
    }
  }
  const View x = p.dense(c.value("x"));
  ScaleShift args;
  args.period = x.sizes[1];
  args.rows = x.sizes[0] * x.sizes[1];
  args.cols = 1;
  for (size_t a = 2; a < x.sizes.size(); ++a) args.cols *= x.sizes[a];
  View scale, shift;
  if (const auto s = batch_norm_of_constants(p, index)) {
    scale = constant_vector(p, s->scale);
    shift = constant_vector(p, s->shift);
  } else {
    const auto channels = static_cast<size_t>(x.sizes[1]);
    scale = dense_view(p.new_buffer(channels * 4), DType::f32, {x.sizes[1]});
    shift = dense_view(p.new_buffer(channels * 4), DType::f32, {x.sizes[1]});
    Step step;
    step.kernel = "batch_norm_statistics";
    std::vector<View> given;
    for (const char* name : {"mean", "var", "weight", "bias"}) {
      given.push_back(c.has(name) ? p.dense(c.value(name)) : View());
      if (c.has(name)) step.reads.push_back(given.back().buffer);
    }
    step.writes = {scale.buffer, shift.buffer};
    step.run = [given, scale, shift, channels, eps = c.number("eps")](Context& context) {
      const auto value = [&](size_t which, size_t i, double otherwise) {
        return given[which].buffer == kNoBuffer ? otherwise : static_cast<double>(context.pointer(given[which])[i]);
      };
      for (size_t i = 0; i < channels; ++i) {
        const double factor = value(2, i, 1) / std::sqrt(value(1, i, 0) + eps);
        context.pointer(scale)[i] = static_cast<float>(factor);
        context.pointer(shift)[i] = static_cast<float>(value(3, i, 0) - value(0, i, 0) * factor);
      }
    };
    p.add(std::move(step));
  }
  const View out = p.result(node.results[0]);
  const Kernels& k = kernels();
  std::vector<std::pair<BufferId, BufferId>> may_share;
  if (x.offset == 0) may_share.emplace_back(x.buffer, out.buffer);
  add_kernel<ScaleShift>(
      p, {"scale_shift", 2.0 * static_cast<double>(x.count())}, k.scale_shift, k.scale_shift_units, k.scale_shift_scratch, args,
      {{offsetof(ScaleShift, x), x}, {offsetof(ScaleShift, scale), scale}, {offsetof(ScaleShift, shift), shift}},
      {{offsetof(ScaleShift, out), out}}, may_share);
  p.define(node.results[0], out);
  return true;
}

// Of dynamic sizes, the constraints of an op cannot tell.
void require_a_window(int64_t out_height, int64_t out_width, const Sizes& x) {
  if (out_height >= 1 && out_width >= 1) return;
  throw Error(ErrorCode::bad_input, "the window is larger than the padded input").found(to_string(x));
}

// ---- convolution

bool claims_convolution(const Call& c) {
  const size_t n = c.shape("weight").size() - 2;
  if (!is_f32(c) || n < 1 || n > 2 || !all_numbers(c.shape("weight"))) return false;
  for (size_t i = 0; c.boolean("same") && i < n; ++i) {
    if (c.integers("dilation")[i] * (c.shape("weight")[i + 2].number() - 1) % 2 != 0) return false;  // more at the end
  }
  return element_count(evaluate(c.shape("weight"), {})) > 0;
}

Convolution convolution_of(Planner& p, size_t index) {
  const Call c = p.call(index);
  const Sizes weight = p.sizes(c.value("weight")), x = p.sizes(c.value("x")), y = p.sizes(p.node(index).results[0]);
  const size_t n = weight.size() - 2, first = x.size() - n;  // the first position axis
  Convolution v;
  v.batch = first == 2 ? x[0] : 1;
  v.channels = x[first - 1];
  v.out_channels = weight[0];
  v.groups = c.integer("groups");
  for (size_t i = 0; i < n; ++i) {
    const size_t to = 2 - n + i;
    v.window.kernel[to] = weight[i + 2];
    v.window.stride[to] = c.integers("stride")[i];
    v.window.dilation[to] = c.integers("dilation")[i];
    v.window.padding[to] = c.boolean("same") ? v.window.dilation[to] * (v.window.kernel[to] - 1) / 2 : c.integers("padding")[i];
    (to == 0 ? v.height : v.width) = x[first + i];
    (to == 0 ? v.out_height : v.out_width) = y[first + i];
  }
  return v;
}

// The constant `weight` with each of its rows times a number.
View scaled_rows(Planner& p, ValueId weight, const std::vector<double>& scales) {
  const Hash128 which = hash128(scales.data(), scales.size() * sizeof(double));
  const Array scaled = p.derived(weight, "times the scales " + which.text(), [&](const Array& own) {
    std::vector<double> w = load_double(own);
    const size_t row = w.size() / scales.size();
    for (size_t i = 0; i < w.size(); ++i) w[i] *= scales[i / row];
    return store(DType::f32, own.shape(), w);
  });
  return dense_view(p.constant_buffer(scaled), DType::f32, scaled.shape());
}

View part(const View& dense, int64_t offset, int64_t count) {
  View v = dense_view(dense.buffer, dense.dtype, {count});
  v.offset = dense.offset + offset;
  return v;
}

// A batch norm of constants after constant weights: other weights.
void fold_batch_norm(ConvolutionSteps& l) {
  Planner& p = l.p;
  const Call& c = l.c;
  const bool weights_known = p.is_constant(c.value("weight")) && (!c.has("bias") || p.is_constant(c.value("bias")));
  const auto user = l.only_user();
  if (!weights_known || !user || p.node(*user).op->name != "batch_norm" || p.node(*user).operands[0] != l.y || l.v.batch == 0 ||
      p.graph().type(l.y).rank() != p.graph().type(c.value("weight")).rank())
    return;
  const auto norm = batch_norm_of_constants(p, *user);
  if (!norm) return;
  std::vector<double> b = c.has("bias") ? load_double(*p.constant(c.value("bias")))
                                        : std::vector<double>(norm->scale.size(), 0.0);
  for (size_t i = 0; i < b.size(); ++i) b[i] = b[i] * norm->scale[i] + norm->shift[i];
  l.scales = norm->scale;
  l.known_bias = b;
  l.bias = constant_vector(p, b);
  p.mark_done(*user);
  l.y = p.node(*user).results[0];
}

void add_depthwise(ConvolutionSteps& l) {
  Planner& p = l.p;
  const Convolution& v = l.v;
  const Kernels& k = kernels();
  Depthwise args;
  args.batch = v.batch;
  args.channels = v.channels;
  args.multiplier = v.out_channels / v.channels;
  args.height = v.height;
  args.width = v.width;
  args.out_height = v.out_height;
  args.out_width = v.out_width;
  args.window = v.window;
  const ValueId weight_value = l.c.value("weight");
  const View weight = l.scales.empty() ? p.dense(weight_value) : scaled_rows(p, weight_value, l.scales);
  std::vector<Bound> reads = {{offsetof(Depthwise, x), l.x}, {offsetof(Depthwise, weight), weight}};
  if (l.bias.buffer != kNoBuffer) reads.push_back({offsetof(Depthwise, bias), l.bias});
  if (const auto next = l.only_user(); next && p.node(*next).operands.size() == 1) {
    if (const auto a = activation(p, *next)) {
      args.activation = static_cast<Unary>(a->function);
      args.p = a->p;
      args.q = a->q;
      p.mark_done(*next);
      l.y = p.node(*next).results[0];
    }
  }
  const View out = p.result(l.y);
  const double work = static_cast<double>(v.batch * v.out_channels * v.positions()) * static_cast<double>(v.taps());
  add_kernel<Depthwise>(p, {"depthwise", work}, k.depthwise, k.depthwise_units, k.depthwise_scratch, args, reads,
                        {{offsetof(Depthwise, out), out}});
  p.define(l.y, out);
}

// The matrix that the weights are multiplied with is made of the image piece by piece, inside the product.
const Im2Col* windows_of(Planner& p, const Convolution& v) {
  Im2Col image;
  image.channels = v.channels / v.groups;
  image.height = v.height;
  image.width = v.width;
  image.out_height = v.out_height;
  image.out_width = v.out_width;
  image.window = v.window;
  return p.keep(image);
}

// A product for each image and group.
void add_products(const ConvolutionSteps& l) {
  Planner& p = l.p;
  const Convolution& v = l.v;
  const Kernels& k = kernels();
  const int64_t positions = v.positions(), image = v.channels * v.height * v.width;
  const FusedEpilogue fused = fuse_epilogue(p, l.y, v.batch * v.out_channels, positions);
  const View out = p.result(fused.value);
  const int64_t in = v.channels / v.groups, made = v.out_channels / v.groups, depth = in * v.taps();
  const int64_t group = in * v.height * v.width;
  // Tiles have the channels as rows and panels of pixels as columns, or the other way round: whichever wastes less.
  const ValueId weight_value = l.c.value("weight");
  const bool is_known = p.is_constant(weight_value);
  const auto padded = [&](int64_t count) { return (count + k.panel - 1) / k.panel * k.panel; };
  const bool is_turned = is_known && v.groups == 1 && 20 * padded(made) * positions < 19 * made * padded(positions);
  PackedLeft packed;
  View weight;
  if (is_turned)
    weight = packed_right(p, weight_value, depth, made, true, l.scales);
  else if (is_known)
    packed = packed_left(p, weight_value, v.groups, made, depth, l.scales);
  else
    weight = p.dense(weight_value);
  Gemm args;
  args.m = made;
  args.n = positions;
  args.k = depth;
  args.a_row = depth;
  args.b_row = positions;
  args.c_row = positions;
  args.epilogue = fused.epilogue;
  args.image = is_turned || !v.is_plain_product() ? windows_of(p, v) : nullptr;
  args.turned = is_turned;
  for (int64_t i = 0; i < v.batch; ++i) {
    const View source = part(l.x, i * image, image);
    for (int64_t g = 0; g < v.groups; ++g) {
      std::vector<Bound> reads = {{offsetof(Gemm, b), part(source, g * group, group)}};
      if (is_turned)
        reads.push_back({offsetof(Gemm, packed), weight});
      else if (is_known)
        reads.push_back({offsetof(Gemm, packed_a), part(packed.all, g * packed.group, packed.group)});
      else
        reads.push_back({offsetof(Gemm, a), part(weight, g * made * depth, made * depth)});
      constexpr size_t kEpilogue = offsetof(Gemm, epilogue);
      if (l.bias.buffer != kNoBuffer) reads.push_back({kEpilogue + offsetof(Epilogue, row_bias), part(l.bias, g * made, made)});
      for (const Bound& r : fused.reads) {
        View rows = r.view;
        rows.offset += (i * v.out_channels + g * made) * rows.strides[0];
        reads.push_back({kEpilogue + r.at, rows});
      }
      const View target = part(out, (i * v.out_channels + g * made) * positions, made * positions);
      add_kernel<Gemm>(p, {"gemm", static_cast<double>(made * positions) * static_cast<double>(depth)}, k.gemm, k.gemm_units,
                       k.gemm_scratch, args, reads, {{offsetof(Gemm, c), target}});
    }
  }
  p.define(fused.value, out);
}

bool lower_convolution(Planner& p, size_t index) {
  const Call c = p.call(index);
  ConvolutionSteps l = convolution_steps(p, index, c);
  if (add_blocked(l, index)) return true;
  l.x = p.dense(c.value("x"));
  if (l.v.groups == l.v.channels && l.v.groups > 1)
    add_depthwise(l);
  else
    add_products(l);
  return true;
}

// ---- pooling

bool lower_pool(Planner& p, size_t index) {
  const Node& node = p.node(index);
  const Call c = p.call(index);
  const Sizes x_sizes = p.sizes(node.operands[0]), out_sizes = p.sizes(node.results[0]);
  const size_t n = c.integers("kernel_size").size(), first = x_sizes.size() - n;  // the first position axis
  Pool args;
  args.average = node.op->name != "max_pool1d" && node.op->name != "max_pool2d";
  args.height = n == 2 ? x_sizes[first] : 1;
  args.width = x_sizes.back();
  args.out_height = n == 2 ? out_sizes[first] : 1;
  args.out_width = out_sizes.back();
  args.planes = 1;
  for (size_t a = 0; a < first; ++a) args.planes *= x_sizes[a];
  for (size_t i = 0; i < n; ++i) {
    const size_t to = 2 - n + i;
    args.window.kernel[to] = c.integers("kernel_size")[i];
    args.window.stride[to] = c.integers("stride")[i];
    args.window.padding[to] = c.integers("padding")[i];
    args.window.dilation[to] = args.average ? 1 : c.integers("dilation")[i];
  }
  if (args.average) {
    args.count_padding = c.boolean("count_include_pad");
    args.divisor = c.has("divisor_override") ? c.integer("divisor_override") : 0;
  }
  require_a_window(args.out_height, args.out_width, x_sizes);
  const Kernels& k = kernels();
  if (n == 2 && x_sizes.size() == 4 && p.is_blocked(node.operands[0])) {
    add_blocked_pool(p, node, args);
    return true;
  }
  const View x = p.dense(node.operands[0]), out = p.result(node.results[0]);
  const double work = static_cast<double>(out.count()) * static_cast<double>(args.window.kernel[0] * args.window.kernel[1]);
  add_kernel<Pool>(p, {"pool", work}, k.pool, k.pool_units, k.pool_scratch, args, {{offsetof(Pool, x), x}},
                   {{offsetof(Pool, out), out}});
  p.define(node.results[0], out);
  return true;
}

}  // namespace

ConvolutionSteps convolution_steps(Planner& p, size_t index, const Call& c) {
  ConvolutionSteps l{p, c, convolution_of(p, index), {}, {}, p.node(index).results[0], {}, std::nullopt};
  require_a_window(l.v.out_height, l.v.out_width, p.sizes(c.value("x")));
  if (c.has("bias")) l.bias = p.dense(c.value("bias"));
  fold_batch_norm(l);
  return l;
}

std::vector<Lowering> convolution_lowerings() {
  return {{"conv1d", claims_convolution, lower_convolution},
          {"conv2d", claims_convolution, lower_convolution},
          {"batch_norm", claims_batch_norm, lower_batch_norm},
          {"max_pool1d", is_f32, lower_pool},
          {"max_pool2d", is_f32, lower_pool},
          {"avg_pool1d", is_f32, lower_pool},
          {"avg_pool2d", is_f32, lower_pool}};
}

}  // namespace pycandle::cpu
