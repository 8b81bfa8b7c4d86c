// Convolutions. f32: pixels are gathered in panels of 16 and multiplied by rows of weights, in the tiles of products; each
// channel with its own filter takes plain loops over rows that compilers vectorise. Other dtypes take plain loops.
#include <algorithm>
#include <utility>

#include "backends/c/lowerings.h"
#include "backends/c/products.h"
#include "backends/c/text.h"

namespace pycandle::c {
namespace {

constexpr int64_t kRows = 12;             // of weights that lie together: every tile divides it
constexpr int64_t kPanelBytes = 1 << 18;  // of pixels that are gathered at once

struct Spatial {
  int64_t in = 1, out = 1, kernel = 1, stride = 1, low = 0, high = 0, dilation = 1, input_dilation = 1;
  int64_t padded() const { return std::max(low + (in - 1) * input_dilation + 1 + high, reach()); }
  int64_t reach() const { return (kernel - 1) * dilation + 1; }
  bool is_plain() const { return low == 0 && high == 0 && input_dilation == 1; }
};

struct Conv {
  int64_t batch = 1, groups = 1, in_channels = 1, out_channels = 1;  // channels of a group
  std::vector<Spatial> axes;
  View x, w;
  Sizes sizes;                            // of the result
  ValueId result = kNoValue;
  int64_t pixels() const {
    int64_t n = 1;
    for (const Spatial& a : axes) n *= a.out;
    return n;
  }
  int64_t taps() const {
    int64_t n = 1;
    for (const Spatial& a : axes) n *= a.kernel;
    return n;
  }
  int64_t depth() const { return in_channels * taps(); }
  double multiply_adds() const {
    return static_cast<double>(batch * groups * out_channels) * static_cast<double>(pixels()) * static_cast<double>(depth());
  }
};

Conv conv_of(Site& at) {
  Conv c;
  const Sizes x = at.sizes("x"), w = at.sizes("weight");
  c.groups = at.call.integer("groups");
  c.batch = x[0];
  c.in_channels = w[1];
  c.out_channels = w[0] / c.groups;
  c.sizes = at.result_sizes();
  c.result = at.node.results[0];
  for (size_t a = 0; a + 2 < x.size(); ++a) {
    c.axes.push_back({x[a + 2], c.sizes[a + 2], w[a + 2], at.call.integers("strides")[a], at.call.integers("padding_low")[a],
                      at.call.integers("padding_high")[a], at.call.integers("dilation")[a],
                      at.call.integers("input_dilation")[a]});
  }
  return c;
}

// The strides of a dense block of these sizes.
Sizes padded_strides(const Conv& c) {
  Sizes sizes;
  for (const Spatial& a : c.axes) sizes.push_back(a.padded());
  return row_major(sizes);
}

int64_t padded_plane(const Conv& c) {
  int64_t n = 1;
  for (const Spatial& a : c.axes) n *= a.padded();
  return n;
}

bool needs_padding(const Conv& c) {
  return std::any_of(c.axes.begin(), c.axes.end(), [](const Spatial& a) { return !a.is_plain(); });
}

// to[...] = x with zeros around and between, for `channels` planes that begin at x.
void print_padding(Writer& w, const Conv& c, const std::string& x, const std::string& to, const std::string& channels) {
  const int64_t plane = padded_plane(c);
  const Sizes to_strides = padded_strides(c);
  Sizes in;
  for (const Spatial& a : c.axes) in.push_back(a.in);
  const Sizes from_strides = row_major(in);
  const std::string ch = w.fresh("c"), i = w.fresh("i");
  w.open(formatted("for (ptrdiff_t {0} = 0; {0} < {1}; ++{0})", ch, channels));
  w.line(formatted("for (ptrdiff_t {0} = 0; {0} < {1}; ++{0}) {2}[{3} * {1} + {0}] = 0.0f;", i, plane, to, ch));
  std::vector<std::pair<std::string, int64_t>> from{{ch, count_of(in)}}, target{{ch, plane}};
  int64_t first = 0;
  for (size_t a = 0; a < c.axes.size(); ++a) {
    const std::string p = w.fresh("p");
    w.loop(p, c.axes[a].in);
    from.emplace_back(p, from_strides[a]);
    target.emplace_back(p, to_strides[a] * c.axes[a].input_dilation);
    first += c.axes[a].low * to_strides[a];
  }
  w.line(formatted("{}[{}] = {}[{}];", to, sum_of(target, first), x, sum_of(from)));
  w.close(1 + c.axes.size());
}

// Rows [first, first + rows) of y, columns [begin, end), with what follows element by element.
void print_epilogue(Writer& w, Scope& s, const Conv& c, ValueId last, const std::string& y, const std::string& image,
                    const std::string& channel, const std::string& rows, const std::string& begin, const std::string& end) {
  if (last == c.result) return;
  const std::string i = w.fresh("i"), j = w.fresh("j"), value = w.fresh("t"), ch = w.fresh("channel");
  w.open(formatted("for (ptrdiff_t {0} = 0; {0} < {1}; ++{0})", i, rows));
  w.line(formatted("const ptrdiff_t {} = {} + {};", ch, channel, i));
  w.open(formatted("for (ptrdiff_t {0} = {1}; {0} < {2}; ++{0})", j, begin, end));
  const std::string element = formatted("{}[{} * {} + {}]", y, ch, c.pixels(), j);
  w.line(formatted("const float {} = {};", value, element));
  Chain chain(w, s, last, c.result, value);
  w.line(formatted("{} = {};", element, chain_at(chain, c.sizes, {{0, 1, image}, {1, 2, ch}, {2, c.sizes.size(), j}})));
  w.close(2);
}

bool is_pointwise(const Conv& c) {
  return !needs_padding(c) &&
         std::all_of(c.axes.begin(), c.axes.end(), [](const Spatial& a) { return a.kernel == 1 && a.stride == 1; });
}

// panels[column / 16][depth][16] for columns [first, first + columns) of one group, from planes that hold every tap.
void print_gathering(Writer& w, const Conv& c, const std::string& planes, const std::string& panels, const std::string& first,
                     const std::string& columns) {
  const Sizes strides = padded_strides(c);
  const std::string p = w.fresh("p"), j = w.fresh("j"), at = w.fresh("at"), to = w.fresh("to");
  w.open(formatted("for (ptrdiff_t {0} = 0; {0} < {1}; {0} += 16)", p, columns));
  w.line(formatted("float *{} = {} + {} * {};", to, panels, p, c.depth()));
  w.line(formatted("ptrdiff_t {}[16];", at));
  w.loop(j, 16);
  const std::string pixel = w.fresh("pixel");
  w.line(formatted("ptrdiff_t {} = {} + {} + {};", pixel, first, p, j));
  w.line(formatted("if ({0} >= {1}) {0} = {2};", pixel, c.pixels(), c.pixels() - 1));
  std::string place;
  int64_t inner = 1;
  for (size_t a = c.axes.size(); a-- > 0; inner *= c.axes[a].out) {
    const int64_t step = strides[a] * c.axes[a].stride;
    const std::string index = a == 0 ? formatted("{} / {}", pixel, inner)
                                     : formatted("{} / {} % {}", pixel, inner, c.axes[a].out);
    place += formatted("{}{} * {}", place.empty() ? "" : " + ", index, step);
  }
  w.line(formatted("{}[{}] = {};", at, j, place));
  w.close();
  const bool may_be_run = c.axes.back().stride == 1;
  const std::string run = w.fresh("run");
  if (may_be_run) w.line(formatted("const int {0} = {1}[15] - {1}[0] == 15;", run, at));
  const std::string ch = w.fresh("c");
  w.loop(ch, c.in_channels);
  std::vector<std::pair<std::string, int64_t>> from{{ch, padded_plane(c)}};
  for (size_t a = 0; a < c.axes.size(); ++a) {
    if (c.axes[a].kernel == 1) continue;
    const std::string tap = w.fresh("k");
    w.loop(tap, c.axes[a].kernel);
    from.emplace_back(tap, strides[a] * c.axes[a].dilation);
  }
  const std::string source = w.fresh("from");
  w.line(formatted("const float *{} = {} + {};", source, planes, sum_of(from)));
  if (may_be_run) {
    w.line(formatted("if ({0}) for (int l = 0; l < 16; ++l) {1}[l] = {2}[{3}[0] + l];", run, to, source, at));
    w.line(formatted("else for (int l = 0; l < 16; ++l) {}[l] = {}[{}[l]];", to, source, at));
  } else {
    w.line(formatted("for (int l = 0; l < 16; ++l) {}[l] = {}[{}[l]];", to, source, at));
  }
  w.line(formatted("{} += 16;", to));
  w.close(from.size());
  w.close();
}

// Weights: [group][rows / 12][depth][12].
View packed_filters(Generator& g, const Conv& c) {
  const std::string key = formatted("filters/{}/{}/{}", c.w.buffer, c.groups, c.w.offset);
  return g.packed_weight(key, [&] {
    const Array& data = g.buffers[c.w.buffer].data;
    const int64_t tiles = (c.out_channels + kRows - 1) / kRows, one = tiles * kRows * c.depth();
    Array packed(DType::f32, {c.groups * one});
    for (int64_t group = 0; group < c.groups; ++group) {
      const Array part(DType::f32, {c.out_channels * c.depth()},
                       data.as<float>() + c.w.offset + group * c.out_channels * c.depth(), std::make_shared<Array>(data));
      const Array rows = packed_panels(part, c.out_channels, c.depth(), c.depth(), 1, kRows);
      std::copy_n(rows.as<float>(), one, packed.mutable_as<float>() + group * one);
    }
    return packed;
  });
}

View emit_gemm(Generator& g, Scope& s, const Conv& c, ValueId last) {
  g.need("panel");
  const bool is_known = g.buffers[c.w.buffer].place == Buffer::Place::weight && c.w.moving.empty();
  const View y = g.fresh(s, last), filters = is_known ? packed_filters(g, c) : c.w;
  Writer w(g, "conv");
  const std::string x = w.reads(c.x, "x"), f = w.reads(filters, "w"), out = w.writes(y, "y");
  const int64_t pixels = c.pixels(), depth = c.depth();
  const bool pads = needs_padding(c), is_direct = is_pointwise(c);
  const int64_t chunk = std::min((pixels + 15) / 16, std::max<int64_t>(1, kPanelBytes / (64 * depth))) * 16;
  const std::string planes = pads ? w.scratch(DType::f32, c.in_channels * padded_plane(c), "padded") : "";
  const std::string panels = is_direct && pixels % 16 == 0 ? ""
                                                           : w.scratch(DType::f32, (is_direct ? 16 : chunk) * depth, "panels");
  int64_t plane_in = 1;
  for (const Spatial& a : c.axes) plane_in *= a.in;
  const std::string n = w.fresh("n"), group = w.fresh("g"), x0 = w.fresh("image"), y0 = w.fresh("rows");
  w.loop(n, c.batch);
  w.line(formatted("float *{} = {} + {} * {};", y0, out, n, c.groups * c.out_channels * pixels));
  w.loop(group, c.groups);
  w.line(formatted("const float *{} = {} + {};", x0, x,
                   sum_of({{n, c.groups * c.in_channels * plane_in}, {group, c.in_channels * plane_in}})));
  if (pads) print_padding(w, c, x0, planes, formatted("{}", c.in_channels));
  const std::string p = w.fresh("p"), m = w.fresh("m"), q = w.fresh("q");
  w.loop(p, pixels, chunk);
  w.line(formatted("const ptrdiff_t end = {0} - {1} < {2} ? {0} - {1} : {2};", pixels, p, chunk));
  if (is_direct && !panels.empty()) {
    w.open(formatted("if ({} + end == {})", p, pixels));
    const std::string k = w.fresh("k"), j = w.fresh("j");
    w.loop(k, depth);
    w.line(formatted("for (int {0} = 0; {0} < 16; ++{0}) {1}[{2} * 16 + {0}] = {0} < {3} ? {4}[{2} * {5} + {6} + {0}] : 0.0f;", j,
                     panels, k, pixels % 16, x0, pixels, pixels / 16 * 16));
    w.close(2);
  } else if (!is_direct) {
    print_gathering(w, c, pads ? planes : x0, panels, p, "end");
  }
  const int64_t tile_count = (c.out_channels + kRows - 1) / kRows;
  w.loop(m, c.out_channels, kRows);
  w.line(formatted("const ptrdiff_t filters = {0} - {1} < {2} ? {0} - {1} : {2};", c.out_channels, m, kRows));
  const std::string weights = is_known ? sum_of({{f, 1}, {group, tile_count * kRows * depth}, {m, depth}})
                                       : sum_of({{f, 1}, {group, c.out_channels * depth}, {m, depth}});
  w.open(formatted("for (ptrdiff_t {0} = 0; {0} < end; {0} += 16)", q));
  w.line(formatted("const ptrdiff_t columns = end - {0} < 16 ? end - {0} : 16;", q));
  const std::string row = formatted("{} + ({} * {} + {}) * {} + {} + {}", y0, group, c.out_channels, m, pixels, p, q);
  const std::string as = is_known ? "1, 12" : formatted("{}, 1", depth);
  const std::string direct = formatted("panel(filters, {}, {}, {} + {} + {}, {}, {}, {}, {}, columns, 0);", weights, as, x0, p, q,
                                       pixels, depth, row, pixels);
  const std::string gathered = formatted("panel(filters, {}, {}, {}, 16, {}, {}, {}, columns, 0);", weights, as,
                                         is_direct ? panels : formatted("{} + {} * {}", panels, q, depth), depth, row, pixels);
  if (is_direct && !panels.empty()) {
    w.line(formatted("if (columns == 16) {}", direct));
    w.line(formatted("else {}", gathered));
  } else {
    w.line(is_direct ? direct : gathered);
  }
  w.close();
  print_epilogue(w, s, c, last, y0, n, formatted("{} * {} + {}", group, c.out_channels, m), "filters", p, p + " + end");
  w.close(4);
  w.multiply_adds = c.multiply_adds();
  g.emit(w);
  return y;
}

// One channel in, one filter or a few for each: sums of taps, row by row.
View emit_depthwise(Generator& g, Scope& s, const Conv& c, ValueId last) {
  const View y = g.fresh(s, last);
  Writer w(g, "depthwise");
  const std::string x = w.reads(c.x, "x"), f = w.reads(c.w, "w"), out = w.writes(y, "y");
  const int64_t pixels = c.pixels(), taps = c.taps(), channels = c.groups;
  const bool pads = needs_padding(c);
  int64_t plane_in = 1;
  for (const Spatial& a : c.axes) plane_in *= a.in;
  const std::string padded = pads ? w.scratch(DType::f32, padded_plane(c), "padded") : "";
  const Sizes strides = padded_strides(c), out_strides = [&] {
    Sizes sizes;
    for (const Spatial& a : c.axes) sizes.push_back(a.out);
    return row_major(sizes);
  }();
  const std::string n = w.fresh("n"), ch = w.fresh("c"), plane = w.fresh("plane"), m = w.fresh("m");
  w.loop(n, c.batch);
  w.line(formatted("float *rows = {} + {} * {};", out, n, channels * c.out_channels * pixels));
  w.loop(ch, channels);
  w.line(formatted("const float *{} = {} + ({} * {} + {}) * {};", plane, x, n, channels, ch, plane_in));
  if (pads) print_padding(w, c, plane, padded, "1");
  w.loop(m, c.out_channels);
  w.line(formatted("const float *restrict filter = {} + ({} * {} + {}) * {};", f, ch, c.out_channels, m, taps));
  const std::string place = w.fresh("place");
  w.line(formatted("const ptrdiff_t {} = {} * {} + {};", place, ch, c.out_channels, m));
  w.line(formatted("float *restrict to = rows + {} * {};", place, pixels));
  for (int64_t t = 0; t < taps; ++t) w.line(formatted("const float w{0} = filter[{0}];", t));
  std::vector<std::pair<std::string, int64_t>> from, target;
  for (size_t a = 0; a < c.axes.size(); ++a) {
    const std::string o = w.fresh("o");
    w.loop(o, c.axes[a].out);
    from.emplace_back(o, strides[a] * c.axes[a].stride);
    target.emplace_back(o, out_strides[a]);
  }
  w.line(formatted("const float *at = {} + {};", pads ? padded : plane, sum_of(from)));
  std::string sum;
  for (int64_t t = 0; t < taps; ++t) {
    int64_t offset = 0, rest = t;
    for (size_t a = c.axes.size(); a-- > 0; rest /= c.axes[a].kernel)
      offset += rest % c.axes[a].kernel * strides[a] * c.axes[a].dilation;
    sum += formatted("{}at[{}] * w{}", t == 0 ? "" : " + ", offset, t);
  }
  w.line(formatted("to[{}] = {};", sum_of(target), sum));
  w.close(c.axes.size());
  print_epilogue(w, s, c, last, "rows", n, place, "1", "0", formatted("{}", pixels));
  w.close(3);
  w.multiply_adds = c.multiply_adds();
  g.emit(w);
  return y;
}

// Any dtype and any number of axes.
void plain_loops(Site& at, const Conv& c) {
  const DType dtype = at.result_dtype();
  const View y = at.g.fresh(at.s, c.result);
  Writer w(at.g, "conv");
  const std::string x = w.reads(c.x, "x"), f = w.reads(c.w, "w"), out = w.writes(y, "y");
  const std::string type = is_floating(dtype) ? "double" : "uint64_t";
  for (const char* name : {"float_of_f16", "f16_of"}) {
    if (dtype == DType::f16) at.g.need(name);
  }
  for (const char* name : {"float_of_bf16", "bf16_of"}) {
    if (dtype == DType::bf16) at.g.need(name);
  }
  const Sizes x_strides = row_major(c.x.sizes), w_strides = row_major(c.w.sizes), y_strides = row_major(c.sizes);
  const std::string n = w.fresh("n"), group = w.fresh("g"), m = w.fresh("m"), ch = w.fresh("c");
  w.loop(n, c.batch);
  w.loop(group, c.groups);
  w.loop(m, c.out_channels);
  std::vector<std::pair<std::string, int64_t>> to{{n, y_strides[0]}, {group, c.out_channels * y_strides[1]}, {m, y_strides[1]}};
  std::vector<std::string> outs;
  for (size_t a = 0; a < c.axes.size(); ++a) {
    outs.push_back(w.fresh("o"));
    w.loop(outs.back(), c.axes[a].out);
    to.emplace_back(outs.back(), y_strides[a + 2]);
  }
  w.line(formatted("{} sum = 0;", type));
  w.loop(ch, c.in_channels);
  std::vector<std::pair<std::string, int64_t>> from{{n, x_strides[0]}, {group, c.in_channels * x_strides[1]}, {ch, x_strides[1]}},
      filter{{group, c.out_channels * w_strides[0]}, {m, w_strides[0]}, {ch, w_strides[1]}};
  for (size_t a = 0; a < c.axes.size(); ++a) {
    const Spatial& axis = c.axes[a];
    const std::string k = w.fresh("k"), p = w.fresh("p");
    w.loop(k, axis.kernel);
    w.line(formatted("const ptrdiff_t {} = {};", p, sum_of({{outs[a], axis.stride}, {k, axis.dilation}}, -axis.low)));
    w.line(formatted("if ({0} < 0 || {0} > {1}{2}) continue;", p, (axis.in - 1) * axis.input_dilation,
                     axis.input_dilation == 1 ? "" : formatted(" || {} % {} != 0", p, axis.input_dilation)));
    from.emplace_back(axis.input_dilation == 1 ? p : formatted("{} / {}", p, axis.input_dilation), x_strides[a + 2]);
    filter.emplace_back(k, w_strides[a + 2]);
  }
  w.line(formatted("sum += ({}){} * {};", type, loaded(formatted("{}[{}]", x, sum_of(from)), dtype),
                   loaded(formatted("{}[{}]", f, sum_of(filter)), dtype)));
  w.close(1 + c.axes.size());
  w.line(formatted("{}[{}] = {};", out, sum_of(to), stored(formatted("({})sum", computed_type(dtype)), dtype)));
  w.close(3 + c.axes.size());
  w.multiply_adds = c.multiply_adds();
  at.g.emit(w);
  at.g.define(at.s, c.result, y);
}

void convolution(Site& at) {
  Conv c = conv_of(at);
  if (count_of(c.sizes) == 0 || c.depth() == 0) return at.g.define_number(at.s, c.result, Scalar(0.0));
  c.x = at.g.dense(at.s, at.call.value("x"));
  c.w = at.g.dense(at.s, at.call.value("weight"));
  const bool crops = std::any_of(c.axes.begin(), c.axes.end(), [](const Spatial& a) { return a.low < 0 || a.high < 0; });
  if (at.result_dtype() != DType::f32 || crops) return plain_loops(at, c);
  Product product;
  const bool is_depthwise = c.in_channels == 1 && c.groups > 1 && c.taps() <= 49;
  product.emit = [c, is_depthwise](Generator& g, Scope& s, ValueId last) {
    return is_depthwise ? emit_depthwise(g, s, c, last) : emit_gemm(g, s, c, last);
  };
  product.fits = [sizes = c.sizes](const Sizes& strides) { return one_stride(sizes, strides, 2, sizes.size()).has_value(); };
  at.g.define_product(at.s, c.result, std::move(product));
}

}  // namespace

Lowerings convolution_lowerings() { return {{"convolution", convolution}}; }

}  // namespace pycandle::c
