// Pooling: windows that slide, and windows that divide an axis.
#include <utility>

#include "backends/c/lowerings.h"
#include "backends/c/text.h"

namespace pycandle::c {
namespace {

// The window of one axis: its first element and how many there are, as C expressions of the output's index.
struct Window {
  int64_t in = 1, out = 1, window = 1, stride = 1, dilation = 1, low = 0;
  bool is_adaptive = false;
  bool is_inside() const {  // never reaches over an end
    return !is_adaptive && low == 0 && (out - 1) * stride + (window - 1) * dilation < in;
  }
};

std::string start_of(const std::string& kind, DType dtype) {
  if (kind == "prod") return "1";
  if (kind == "sum" || kind == "mean") return "0";
  const bool is_max = kind == "max";
  if (is_floating(dtype)) return is_max ? "-INF_F32" : "INF_F32";
  if (dtype == DType::i64) return is_max ? "INT64_MIN" : "INT64_MAX";
  return literal(Scalar(static_cast<int64_t>(is_max ? lowest_of(dtype) : highest_of(dtype))), dtype);
}

std::string combine(const std::string& kind, const std::string& value) {
  if (kind == "prod") return formatted("best *= {};", value);
  if (kind == "sum" || kind == "mean") return formatted("best += {};", value);
  return formatted("best = {0} {1} best || {0} != {0} ? {0} : best;", value, kind == "max" ? ">" : "<");
}

void pool(Site& at, const std::string& kind, const std::vector<Window>& axes, bool gives_places) {
  const DType dtype = at.dtype("x");
  const View x = at.view("x"), y = at.g.fresh(at.s, at.node.results[0]);
  if (count_of(y.sizes) == 0) return at.g.define(at.s, at.node.results[0], y);
  Writer w(at.g, gives_places ? "window_argmax" : kind + "_pool");
  for (const char* name : {"float_of_f16", "f16_of"}) {
    if (dtype == DType::f16) at.g.need(name);
  }
  for (const char* name : {"float_of_bf16", "bf16_of"}) {
    if (dtype == DType::bf16) at.g.need(name);
  }
  const std::string in = w.reads(x, "x"), out = w.writes(y, "y");
  const size_t leading = x.sizes.size() - axes.size();
  const Sizes y_strides = row_major(y.sizes);
  std::vector<std::pair<std::string, int64_t>> to, from;
  std::vector<std::string> outs;
  for (size_t a = 0; a < y.sizes.size(); ++a) {
    const std::string i = w.fresh(a < leading ? "n" : "o");
    w.loop(i, y.sizes[a]);
    to.emplace_back(i, y_strides[a]);
    if (a < leading)
      from.emplace_back(i, x.strides[a]);
    else
      outs.push_back(i);
  }
  std::vector<std::pair<std::string, std::string>> bounds;
  std::string count;
  for (size_t a = 0; a < axes.size(); ++a) {
    const Window& axis = axes[a];
    if (axis.is_adaptive) {
      const std::string first = w.fresh("first"), last = w.fresh("last");
      w.line(formatted("const ptrdiff_t {} = {} * {} / {};", first, outs[a], axis.in, axis.out));
      w.line(formatted("const ptrdiff_t {} = (({} + 1) * {} + {}) / {};", last, outs[a], axis.in, axis.out - 1, axis.out));
      bounds.emplace_back(first, last);
      count += formatted(" / (double)({} - {})", last, first);
    } else {
      bounds.emplace_back("0", formatted("{}", axis.window));
    }
  }
  const bool is_sum = kind == "sum" || kind == "prod" || kind == "mean";
  const std::string type = gives_places || !is_sum ? computed_type(dtype) : is_floating(dtype) ? "double" : "uint64_t";
  w.line(formatted("{} best = {};", type, start_of(kind, dtype)));
  if (gives_places) w.line("int64_t place = -1;");
  std::vector<std::pair<std::string, int64_t>> plane;
  int64_t plane_stride = count_of(Sizes(x.sizes.begin() + static_cast<std::ptrdiff_t>(leading), x.sizes.end()));
  for (size_t a = 0; a < axes.size(); ++a) {
    const Window& axis = axes[a];
    const std::string k = w.fresh("k");
    w.open(formatted("for (ptrdiff_t {0} = {1}; {0} < {2}; ++{0})", k, bounds[a].first, bounds[a].second));
    std::string p = k;
    if (!axis.is_adaptive) {
      p = w.fresh("p");
      w.line(formatted("const ptrdiff_t {} = {};", p, sum_of({{outs[a], axis.stride}, {k, axis.dilation}}, -axis.low)));
      if (!axis.is_inside()) w.line(formatted("if ({0} < 0 || {0} >= {1}) continue;", p, axis.in));
    }
    from.emplace_back(p, x.strides[leading + a]);
    plane_stride /= axis.in;
    plane.emplace_back(p, plane_stride);
  }
  w.line(formatted("const {} value = {};", computed_type(dtype), loaded(formatted("{}[{}]", in, sum_of(from)), dtype)));
  if (gives_places) {
    w.open("if (place < 0 || value > best || value != value)");
    w.line("best = value;");
    w.line(formatted("place = {};", sum_of(plane)));
    w.close();
  } else {
    w.line(combine(kind, "value"));
  }
  w.close(axes.size());
  const DType result = at.result_dtype();
  const std::string value = gives_places ? "place"
                                         : formatted("({})(best{})", computed_type(result), kind == "mean" ? count : "");
  w.line(formatted("{}[{}] = {};", out, sum_of(to), stored(value, result)));
  w.close(y.sizes.size());
  at.g.emit(w);
  at.g.define(at.s, at.node.results[0], y);
}

std::vector<Window> sliding(Site& at) {
  const Sizes in = at.sizes("x"), out = at.result_sizes();
  const Ints& window = at.call.integers("window");
  std::vector<Window> axes;
  for (size_t i = 0; i < window.size(); ++i) {
    const size_t a = in.size() - window.size() + i;
    axes.push_back({in[a], out[a], window[i], at.call.integers("strides")[i], at.call.integers("dilation")[i],
                    at.call.integers("padding_low")[i], false});
  }
  return axes;
}

std::vector<Window> adaptive(Site& at) {
  const Sizes in = at.sizes("x"), out = at.dims("output");
  std::vector<Window> axes;
  for (size_t i = 0; i < out.size(); ++i) axes.push_back({in[in.size() - out.size() + i], out[i], 1, 1, 1, 0, true});
  return axes;
}

}  // namespace

Lowerings window_lowerings() {
  return {{"reduce_window", [](Site& at) { pool(at, at.call.string("kind"), sliding(at), false); }},
          {"window_argmax", [](Site& at) { pool(at, "max", sliding(at), true); }},
          {"adaptive_window", [](Site& at) { pool(at, at.call.string("kind"), adaptive(at), false); }},
          {"adaptive_window_argmax", [](Site& at) { pool(at, "max", adaptive(at), true); }}};
}

}  // namespace pycandle::c
