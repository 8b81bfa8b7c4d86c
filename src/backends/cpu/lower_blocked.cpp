// Convolutions, pools and means of images in blocks of channels (blocks.h).
#include <algorithm>

#include "backends/cpu/blocks.h"
#include "backends/cpu/convolution.h"
#include "backends/cpu/epilogue.h"
#include "backends/cpu/packing.h"

namespace pycandle::cpu {
namespace {

// The bias of a convolution, each of so many groups filled up to whole blocks.
View blocked_bias(ConvolutionSteps& l, int64_t groups) {
  Planner& p = l.p;
  if (l.known_bias) return constant_blocks(p, *l.known_bias, groups);
  if (p.is_constant(l.c.value("bias"))) return constant_blocks(p, load_double(*p.constant(l.c.value("bias"))), groups);
  const Sizes image{1, l.v.out_channels, 1, 1}, blocks = blocked_sizes(image);  // each of several groups is whole blocks
  View from = l.bias;
  from.sizes = image;
  from.strides = {l.v.out_channels, 1, 1, 1};
  const View to = dense_view(p.new_buffer(static_cast<size_t>(element_count(blocks)) * 4), DType::f32, blocks);
  for (const auto& [a, b] : blocked_pieces(from, to)) p.copy(a, b);
  return to;
}

BlockedConvolution shape_of(const Convolution& v) {
  BlockedConvolution g;
  g.batch = v.batch;
  g.channels = v.channels;
  g.height = v.height;
  g.width = v.width;
  g.out_channels = v.out_channels;
  g.out_height = v.out_height;
  g.out_width = v.out_width;
  g.groups = v.groups;
  g.window = v.window;
  return g;
}

// What a convolution costs, in products of vectors: what it multiplies and transforms to and from the places of tiles, while its
// weights come from memory. One of both hides most of the other. Tiles of 1: directly.
double cost(const BlockedConvolution& g, int64_t tile) {
  constexpr double kTransform = 6, kBytes = 5.6;  // products in the time of a transform's place, and of bytes from memory
  const auto across = [&](int64_t size) { return static_cast<double>((size + tile - 1) / tile); };
  const double places = tile == 1 ? 9 : static_cast<double>((tile + 2) * (tile + 2));
  const double tiles = across(g.out_height) * across(g.out_width) * static_cast<double>(g.batch);
  const auto in = static_cast<double>(g.channels), out = static_cast<double>(g.out_channels);
  const double multiplied = tiles * places * in * out, transformed = tile == 1 ? 0 : kTransform * tiles * places * (in + out);
  const double computed = (multiplied + transformed) / kernels().lanes, read = 4 * places * in * out / kBytes;
  return std::max(computed, read) + 0.2 * std::min(computed, read);
}

// The tile with which Winograd's way is quicker by more than a tenth; the larger one errs more, so it must be that much
// quicker again. 1: none is.
int64_t winograd_tile(const Planner& p, const BlockedConvolution& g, BlockedKind kind, bool from_planes) {
  const Window& w = g.window;
  const auto all_are = [](const int64_t (&pair)[2], int64_t value) { return pair[0] == value && pair[1] == value; };
  if (p.shared().exact_convolutions || kind != BlockedKind::sums || g.groups != 1 || from_planes ||
      g.channels % kernels().lanes != 0 || !all_are(w.kernel, 3) || !all_are(w.stride, 1) || !all_are(w.dilation, 1))
    return 1;
  int64_t best = 1;
  for (const int64_t tile : {2, 4}) {
    if (cost(g, tile) < 0.9 * cost(g, best)) best = tile;
  }
  return best;
}

}  // namespace

View constant_blocks(Planner& p, const std::vector<double>& values, int64_t groups) {
  const auto lanes = static_cast<size_t>(kernels().lanes), all = static_cast<size_t>(groups), own = values.size() / all;
  const size_t filled = (own + lanes - 1) / lanes * lanes;
  std::vector<double> out(all * filled, 0.0);
  for (size_t i = 0; i < values.size(); ++i) out[i / own * filled + i % own] = values[i];
  const Sizes sizes{static_cast<int64_t>(out.size())};
  return dense_view(p.constant_buffer(store(DType::f32, sizes, out)), DType::f32, sizes);
}

namespace {

// A convolution of blocks as a step: its arguments, what it reads but for x, and what it swallows.
struct BlockedStep {
  BlockedConvolution args;
  std::vector<Bound> reads;
  FusedEpilogue fused;
  double work;
};

BlockedStep blocked_step(ConvolutionSteps& l, const BlockedConvolution& args, const View& packed, bool is_depthwise) {
  BlockedStep s{args, {{offsetof(BlockedConvolution, packed), packed}}, {}, 0};
  constexpr size_t kEpilogue = offsetof(BlockedConvolution, epilogue);
  if (l.bias.buffer != kNoBuffer)
    s.reads.push_back({kEpilogue + offsetof(Epilogue, bias), blocked_bias(l, is_depthwise ? 1 : l.v.groups)});
  s.fused = fuse_blocked_epilogue(l.p, l.y);
  s.args.epilogue = s.fused.epilogue;
  for (const Bound& r : s.fused.reads) s.reads.push_back({kEpilogue + r.at, r.view});
  s.work = static_cast<double>(l.v.batch * l.v.out_channels * l.v.positions()) *
           static_cast<double>(l.v.channels / l.v.groups * l.v.taps());
  return s;
}

// ---- a 1×1 convolution and the depthwise one after it, a panel of channels at a time: what is between them stays in the second
// cache

constexpr int64_t kBetween = 128 << 10;  // floats

// How the pair is cut: panels of channels, and bands of rows of the result.
struct Pair {
  BlockedConvolution expand, depthwise;
  int64_t blocks, panel, panels, band, bands;  // panel: blocks of channels

  Pair(const BlockedConvolution& first, const BlockedConvolution& second) : expand(first), depthwise(second) {
    const int64_t lanes = kernels().lanes, row = first.width * lanes;
    blocks = (first.out_channels + lanes - 1) / lanes;
    panel = kernels().blocked_panel(first) / lanes;
    panels = (blocks + panel - 1) / panel;
    const int64_t rows = std::max<int64_t>(1, kBetween / (panel * row)) - second.window.kernel[0];
    band = first.channels <= lanes ? std::max<int64_t>(4, rows / second.window.stride[0]) : second.out_height;
    bands = (second.out_height + band - 1) / band;
  }
  // Rows of what is between that a band of rows of the result reads.
  int64_t most_rows() const {
    if (bands == 1) return expand.height;
    return std::min(expand.height, band * depthwise.window.stride[0] + depthwise.window.kernel[0]);
  }
  int64_t between() const { return panel * most_rows() * expand.width * kernels().lanes; }
  int64_t units() const { return expand.batch * bands * panels; }
};

void run_pair(const Pair& pair, int64_t unit, float* scratch) {
  const Kernels& k = kernels();
  const int64_t lanes = k.lanes, panel = unit % pair.panels, at = unit / pair.panels, band = at % pair.bands, n = at / pair.bands;
  const int64_t block = panel * pair.panel, count = std::min(pair.panel, pair.blocks - block);
  const BlockedConvolution &first = pair.expand, &second = pair.depthwise;
  const int64_t in_blocks = (first.channels + lanes - 1) / lanes, plane = first.height * first.width * lanes;
  const int64_t begin = band * pair.band, end = std::min(second.out_height, begin + pair.band);
  const Window& w = second.window;
  const int64_t top = begin * w.stride[0] - w.padding[0];
  // All rows where there is one band: then the blocks of the image lie as far apart as they do.
  const int64_t from = pair.bands == 1 ? 0 : std::max<int64_t>(0, top);
  const int64_t past = (end - 1) * w.stride[0] - w.padding[0] + w.kernel[0];
  const int64_t to = pair.bands == 1 ? first.height : std::min(first.height, past);
  BlockedConvolution expand = first;
  expand.batch = 1;
  expand.height = expand.out_height = to - from;
  expand.out_channels = count * lanes;
  expand.x = first.x + n * in_blocks * plane + from * first.width * lanes;
  expand.packed = first.packed + block * first.channels * lanes;
  if (first.epilogue.bias != nullptr) expand.epilogue.bias = first.epilogue.bias + block * lanes;
  expand.out = scratch;
  k.blocked_convolution(expand, 0, k.blocked_convolution_units(expand), nullptr);
  const int64_t out_row = second.out_width * lanes, rows = expand.height * first.width * lanes;
  for (int64_t b = 0; b < count; ++b) {
    const int64_t out = ((n * pair.blocks + block + b) * second.out_height + begin) * out_row;
    BlockedDepthwise own{second};
    BlockedConvolution& g = own.shape;
    g.batch = 1;
    g.channels = g.out_channels = g.groups = lanes;
    g.height = expand.height;
    g.out_height = end - begin;
    g.window.padding[0] = from - top;
    g.x = scratch + b * rows;
    g.packed = second.packed + (block + b) * w.kernel[0] * w.kernel[1] * lanes;
    g.out = second.out + out;
    Epilogue& e = g.epilogue;
    if (e.bias != nullptr) e.bias += (block + b) * lanes;
    if (e.residual != nullptr) e.residual += out;
    if (e.multiplier != nullptr) e.multiplier += out;
    k.blocked_depthwise(own, 0, k.blocked_depthwise_units(own), scratch + pair.between());
  }
}

// The depthwise convolution that alone reads what a 1×1 convolution of blocks gives.
std::optional<size_t> depthwise_after(const Planner& p, const ConvolutionSteps& l, const BlockedStep& first) {
  const auto& users = p.shared().users[first.fused.value];
  if (!l.v.is_plain_product() || l.v.groups != 1 || !first.fused.reads.empty() || p.uses(first.fused.value) != 1 ||
      users.size() != 1 || p.is_done(users[0]) || blocked_kind(p, users[0]) != BlockedKind::depthwise)
    return std::nullopt;
  const Call c = p.call(users[0]);
  const bool is_known = p.is_constant(c.value("weight")) && (!c.has("bias") || p.is_constant(c.value("bias")));
  const int64_t padding = c.boolean("same") ? 0 : c.integers("padding")[0], kernel = p.sizes(c.value("weight"))[2];
  if (!is_known || c.value("x") != first.fused.value || c.integers("dilation") != Ints(2, 1) || padding >= kernel)
    return std::nullopt;
  return users[0];
}

bool add_pair(Planner& p, const View& from, const BlockedStep& first, size_t depthwise) {
  const BlockedConvolution& e = first.args;
  if (e.out_channels * e.height * e.width <= kBetween / 2) return false;  // what is between stays in the cache by itself
  const Call c = p.call(depthwise);
  ConvolutionSteps l = convolution_steps(p, depthwise, c);
  BlockedConvolution args = shape_of(l.v);
  const Pair shape(first.args, args);
  if (shape.between() > 2 * kBetween) return false;
  const BlockedStep second = blocked_step(l, args, packed_depthwise(p, c.value("weight"), args, l.scales), true);
  p.mark_done(depthwise);
  const View out = p.blocked_result(second.fused.value);
  const Kernels& k = kernels();
  Pair pair(first.args, second.args);
  const int parts = parts_for(p.threads(), pair.units(), first.work + second.work);
  const int64_t scratch = pair.between() + (k.blocked_depthwise_scratch({second.args}) + 15) / 16 * 16;
  const View memory = dense_view(p.new_buffer(static_cast<size_t>(scratch * parts) * 4), DType::f32, {scratch * parts});
  std::vector<Bound> reads = first.reads;
  reads.push_back({offsetof(BlockedConvolution, x), from});
  std::vector<Bound> more = second.reads;
  more.push_back({offsetof(BlockedConvolution, out), out});
  Step step;
  step.kernel = "expand_depthwise";
  step.work = first.work + second.work;
  for (const auto* bounds : {&reads, &more})
    for (const Bound& b : *bounds) {
      if (b.view.buffer != out.buffer) step.reads.push_back(b.view.buffer);
      step.bytes += b.view.bytes();
    }
  step.writes = {out.buffer, memory.buffer};
  step.run = [pair, reads, more, parts, scratch, memory](Context& context) {
    Pair filled = pair;
    filled.expand = with_pointers(pair.expand, reads, context);
    filled.depthwise = with_pointers(pair.depthwise, more, context);
    float* shared = context.pointer(memory);
    const int64_t units = filled.units();
    run_parts(parts, [&](int part) {
      for (int64_t u = part_of(units, parts, part); u < part_of(units, parts, part + 1); ++u)
        run_pair(filled, u, shared + part * scratch);
    });
  };
  p.add(std::move(step));
  p.define_blocked(second.fused.value, out);
  return true;
}

}  // namespace

bool add_blocked(ConvolutionSteps& l, size_t index) {
  Planner& p = l.p;
  const ValueId x = l.c.value("x"), weight = l.c.value("weight");
  const BlockedKind kind = blocked_kind(p, index);
  if (kind == BlockedKind::none || !p.is_constant(weight) || !(p.is_blocked(x) || p.wants_blocked(l.y))) return false;
  const Kernels& k = kernels();
  BlockedConvolution args = shape_of(l.v);
  const bool is_depthwise = kind == BlockedKind::depthwise;
  args.from_planes = !is_depthwise && !p.is_blocked(x) && args.channels < k.lanes;
  const View from = args.from_planes ? p.dense(x) : p.blocked(x);
  const int64_t tile = winograd_tile(p, args, kind, args.from_planes);
  const auto transformed = tile > 1 ? packed_winograd(p, weight, {args, tile}, l.scales) : std::nullopt;
  const View packed = transformed    ? *transformed
                      : is_depthwise ? packed_depthwise(p, weight, args, l.scales)
                                     : packed_blocked(p, weight, args, l.scales);
  BlockedStep step = blocked_step(l, args, packed, is_depthwise);
  if (!transformed && !is_depthwise && !args.from_planes) {
    if (const auto next = depthwise_after(p, l, step); next && add_pair(p, from, step, *next)) return true;
  }
  step.reads.push_back({offsetof(BlockedConvolution, x), from});
  const std::vector<Bound>& reads = step.reads;
  const double work = step.work;
  args = step.args;
  const View out = p.blocked_result(step.fused.value);
  const Bound to{offsetof(BlockedConvolution, out), out};
  static_assert(offsetof(Winograd, shape) == 0);
  if (transformed) {
    add_kernel<Winograd>(p, {tile == 2 ? "winograd2" : "winograd4", work}, k.winograd, k.winograd_units, k.winograd_scratch,
                         {args, tile}, reads, {to});
  } else if (is_depthwise) {
    static_assert(offsetof(BlockedDepthwise, shape) == 0);
    add_kernel<BlockedDepthwise>(p, {"depthwise", work}, k.blocked_depthwise, k.blocked_depthwise_units,
                                 k.blocked_depthwise_scratch, {args}, reads, {to});
  } else {
    add_kernel<BlockedConvolution>(p, {"convolution", work}, k.blocked_convolution, k.blocked_convolution_units,
                                   k.blocked_convolution_scratch, args, reads, {to});
  }
  p.define_blocked(step.fused.value, out);
  return true;
}

void add_blocked_pool(Planner& p, const Node& node, const Pool& pool) {
  const View x = p.blocked(node.operands[0]), out = p.blocked_result(node.results[0]);
  BlockedPool args{pool};
  args.pool.planes = x.sizes[0] * x.sizes[1];
  const Kernels& k = kernels();
  const double work = static_cast<double>(out.count()) * static_cast<double>(pool.window.kernel[0] * pool.window.kernel[1]);
  add_kernel<BlockedPool>(p, {"pool", work}, k.blocked_pool, k.blocked_pool_units, k.blocked_pool_scratch, args,
                          {{offsetof(BlockedPool, pool) + offsetof(Pool, x), x}},
                          {{offsetof(BlockedPool, pool) + offsetof(Pool, out), out}});
  p.define_blocked(node.results[0], out);
}

bool reduce_blocked(Planner& p, size_t index, Reduction kind) {
  const Node& node = p.node(index);
  Ints axes = p.call(index).integers("axes");
  std::sort(axes.begin(), axes.end());
  if (!p.is_blocked(node.operands[0]) || axes != Ints{2, 3}) return false;
  const View x = p.blocked(node.operands[0]);
  if (x.count() == 0) return false;
  const int64_t lanes = x.sizes[4];
  Reduce args;
  args.kind = kind;
  args.outer = x.sizes[0] * x.sizes[1];
  args.count = x.sizes[2] * x.sizes[3];
  args.inner = lanes;
  View out = dense_view(p.new_buffer(static_cast<size_t>(args.outer * lanes) * 4), DType::f32, {args.outer * lanes});
  const Kernels& k = kernels();
  add_kernel<Reduce>(p, {"reduce", static_cast<double>(x.count())}, k.reduce, k.reduce_units, k.reduce_scratch, args,
                     {{offsetof(Reduce, x), x}}, {{offsetof(Reduce, out), out}});
  out.sizes = p.sizes(node.results[0]);
  out.strides = {x.sizes[1] * lanes, 1};
  p.define(node.results[0], out);
  return true;
}

bool concat_blocked(Planner& p, size_t index) {
  const Node& node = p.node(index);
  const ValueId result = node.results[0];
  if (p.call(index).integer("axis") != 1 || !p.wants_blocked(result)) return false;
  const int64_t lanes = kernels().lanes;
  for (const ValueId v : node.operands) {
    const bool fills_blocks = p.sizes(v)[1] % lanes == 0 || v == node.operands.back();
    if (!p.is_blocked(v) || !fills_blocks) return false;
  }
  const View out = p.blocked_result(result);
  int64_t at = 0;
  for (const ValueId v : node.operands) {
    const View x = p.blocked(v);
    Sizes starts(5, 0), stops = out.sizes;
    starts[1] = at;
    at = stops[1] = at + x.sizes[1];
    p.copy(x, sliced(out, starts, stops, std::vector<int64_t>(5, 1)));
  }
  p.define_blocked(result, out);
  return true;
}

}  // namespace pycandle::cpu
