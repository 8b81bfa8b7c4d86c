// Softmax and norms of f32 along the last axes: a row at a time, with what comes before them element by element.
#include <utility>

#include "backends/c/lowerings.h"
#include "backends/c/text.h"

namespace pycandle::c {
namespace {

constexpr int64_t kLanes = 16;

// for each i of a row, in lanes: part[l] = …, then the parts are joined into `result`.
void lanes(Writer& w, const std::string& type, const std::string& result, const std::string& start, int64_t length,
           const std::function<std::string(const std::string& part, const std::string& i)>& combine, const std::string& join) {
  const std::string l = w.fresh("l"), i = w.fresh("i"), part = w.fresh("part");
  const int64_t whole = length / kLanes * kLanes;
  w.line(formatted("{} {} = {};", type, result, start));
  if (whole > 0) {
    w.line(formatted("{} {}[{}];", type, part, kLanes));
    w.line(formatted("for (int {0} = 0; {0} < {1}; ++{0}) {2}[{0}] = {3};", l, kLanes, part, start));
    w.open(formatted("for (ptrdiff_t {0} = 0; {0} < {1}; {0} += {2})", i, whole, kLanes));
    w.line(formatted("for (int {0} = 0; {0} < {1}; ++{0}) {2}", l, kLanes,
                     combine(formatted("{}[{}]", part, l), formatted("{} + {}", i, l))));
    w.close();
    std::string text = join;
    for (size_t at = 0; (at = text.find("{}", at)) != std::string::npos;) text.replace(at, 2, formatted("{}[{}]", part, l));
    w.line(formatted("for (int {0} = 0; {0} < {1}; ++{0}) {2}", l, kLanes, text));
  }
  if (whole < length) w.line(formatted("for (ptrdiff_t {0} = {1}; {0} < {2}; ++{0}) {3}", i, whole, length, combine(result, i)));
}

// y[i] of the row = the chain, with loops over the rows open; the names of their indices.
std::string open_rows(Writer& w, Scope& s, ValueId x, const Sizes& sizes, size_t row_from, const std::string& y) {
  Chain chain(w, s, x);
  int64_t rows = 1, length = 1;
  for (size_t a = 0; a < sizes.size(); ++a) (a < row_from ? rows : length) *= sizes[a];
  const Sizes outer(sizes.begin(), sizes.begin() + static_cast<std::ptrdiff_t>(row_from)),
      inner(sizes.begin() + static_cast<std::ptrdiff_t>(row_from), sizes.end());
  std::vector<Sizes> outer_strides{row_major(outer)}, inner_strides{row_major(inner)};
  for (const View& v : chain.operands()) {
    outer_strides.emplace_back(v.strides.begin(), v.strides.begin() + static_cast<std::ptrdiff_t>(row_from));
    inner_strides.emplace_back(v.strides.begin() + static_cast<std::ptrdiff_t>(row_from), v.strides.end());
  }
  const Loops o = joined_axes(outer, outer_strides), r = joined_axes(inner, inner_strides);
  std::vector<std::string> o_names, r_names;
  for (size_t a = 0; a < o.sizes.size(); ++a) {
    o_names.push_back(w.fresh("n"));
    w.loop(o_names.back(), o.sizes[a]);
  }
  const auto index = [&](size_t v) {
    std::vector<std::pair<std::string, int64_t>> terms;
    for (size_t a = 0; a < o.sizes.size(); ++a) terms.emplace_back(o_names[a], o.strides[v][a]);
    for (size_t a = 0; a < r.sizes.size(); ++a) terms.emplace_back(r_names[a], r.strides[v][a]);
    return sum_of(terms);
  };
  std::vector<std::pair<std::string, int64_t>> row;
  for (size_t a = 0; a < o.sizes.size(); ++a) row.emplace_back(o_names[a], o.strides[0][a] * length);
  const std::string to = w.fresh("row");
  w.line(formatted("float *{} = {} + {};", to, y, sum_of(row)));
  for (size_t a = 0; a < r.sizes.size(); ++a) {
    r_names.push_back(w.fresh("i"));
    w.loop(r_names.back(), r.sizes[a]);
  }
  size_t next = 0;
  const std::string value = chain.print([&](const Sizes&) { return index(++next); });
  std::vector<std::pair<std::string, int64_t>> place;
  for (size_t a = 0; a < r.sizes.size(); ++a) place.emplace_back(r_names[a], r.strides[0][a]);
  w.line(formatted("{}[{}] = {};", to, sum_of(place), value));
  w.close(r.sizes.size());
  return to;
}

void softmax(Site& at) {
  const ValueId x = at.call.value("x"), result = at.node.results[0];
  const Sizes sizes = at.sizes(x);
  const View y = at.g.fresh(at.s, result);
  const int64_t length = sizes.back();
  const bool is_safe = at.node.op->name == "safe_softmax";
  at.g.need("exp_f32");
  Writer w(at.g, "softmax");
  const std::string out = w.writes(y, "y");
  const int before = w.depth();
  const std::string row = open_rows(w, at.s, x, sizes, sizes.size() - 1, out);
  lanes(
      w, "float", "top", "-INF_F32", length,
      [&](const std::string& r, const std::string& i) {
        return formatted("{0} = {1}[{2}] > {0} || {1}[{2}] != {1}[{2}] ? {1}[{2}] : {0};", r, row, i);
      },
      "top = {} > top || {} != {} ? {} : top;");
  const std::string i = w.fresh("i");
  w.line(formatted("for (ptrdiff_t {0} = 0; {0} < {1}; ++{0}) {2}[{0}] = exp_f32({2}[{0}] - top);", i, length, row));
  lanes(
      w, "float", "sum", "0.0f", length,
      [&](const std::string& r, const std::string& k) { return formatted("{} += {}[{}];", r, row, k); }, "sum += {};");
  if (is_safe)
    w.line(formatted("if (top == -INF_F32) for (ptrdiff_t {0} = 0; {0} < {1}; ++{0}) {2}[{0}] = 0.0f;", i, length, row));
  w.line(formatted("{3}for (ptrdiff_t {0} = 0; {0} < {1}; ++{0}) {2}[{0}] /= sum;", i, length, row, is_safe ? "else " : ""));
  w.close(static_cast<size_t>(w.depth() - before));
  at.g.emit(w);
  at.g.define(at.s, result, y);
}

// (x - mean) / sqrt(variance + eps) over the last axes, or x / sqrt(mean of squares + eps); then weight and bias.
void norm(Site& at) {
  const bool is_rms = at.node.op->name == "rms_norm";
  const ValueId x = at.call.value("x"), result = at.node.results[0];
  const Sizes sizes = at.sizes(x);
  const size_t row_from = sizes.size() - at.call.dims("normalized_shape").size();
  const View y = at.g.fresh(at.s, result);
  int64_t length = 1;
  for (size_t a = row_from; a < sizes.size(); ++a) length *= sizes[a];
  Writer w(at.g, is_rms ? "rms_norm" : "layer_norm");
  at.g.need("sqrt");
  const std::string out = w.writes(y, "y");
  const auto operand = [&](const char* name) {
    return at.call.has(name) ? w.reads(at.g.dense(at.s, at.call.value(name)), name) : std::string();
  };
  const std::string weight = operand("weight"), bias = is_rms ? "" : operand("bias");
  const int before = w.depth();
  const std::string row = open_rows(w, at.s, x, sizes, row_from, out);
  if (!is_rms) {
    lanes(
        w, "double", "sum", "0", length,
        [&](const std::string& r, const std::string& i) { return formatted("{} += {}[{}];", r, row, i); }, "sum += {};");
    w.line(formatted("const float mean = (float)(sum / {});", length));
  }
  const char* minus = is_rms ? "" : " - mean";
  lanes(
      w, "double", "squares", "0", length,
      [&](const std::string& r, const std::string& i) {
        return formatted("{0} += (double)({1}[{2}]{3}) * ({1}[{2}]{3});", r, row, i, minus);
      },
      "squares += {};");
  const double eps = at.call.has("eps") ? at.call.number("eps") : 2 * unit_roundoff(DType::f32);
  w.line(formatted("const float scale = (float)(1 / sqrt(squares / {} + {}));", length, literal(Scalar(eps), DType::f64)));
  const std::string i = w.fresh("i");
  std::string value = formatted("({}[{}]{}) * scale", row, i, minus);
  const double offset = is_rms ? at.call.number("weight_offset") : 0;
  if (!weight.empty())
    value += offset == 0 ? formatted(" * {}[{}]", weight, i)
                         : formatted(" * ({}[{}] + {})", weight, i, literal(Scalar(offset), DType::f32));
  if (!bias.empty()) value += formatted(" + {}[{}]", bias, i);
  w.line(formatted("for (ptrdiff_t {0} = 0; {0} < {1}; ++{0}) {2}[{0}] = {3};", i, length, row, value));
  w.close(static_cast<size_t>(w.depth() - before));
  at.g.emit(w);
  at.g.define(at.s, result, y);
}

}  // namespace

bool is_row_functional(const Call& call) {
  const std::string& op = call.op().name;
  if (op != "softmax" && op != "safe_softmax" && op != "layer_norm" && op != "rms_norm") return false;
  const Type& x = call.type("x");
  if (x.dtype != DType::f32 || x.rank() == 0) return false;
  for (const Dim d : x.shape) {
    if (equal(d, 0) != Tri::no && d.is_number()) return false;
  }
  if (op == "softmax" || op == "safe_softmax") return call.integer("dim") == -1 || call.integer("dim") == x.rank() - 1;
  for (const char* name : {"weight", "bias"}) {
    if (op == "rms_norm" && std::string_view(name) == "bias") continue;
    if (call.has(name) && call.type(name).dtype != DType::f32) return false;
  }
  return op == "layer_norm" || !call.has("compute_dtype") || call.dtype("compute_dtype") == DType::f32;
}

Lowerings row_lowerings() { return {{"softmax", softmax}, {"safe_softmax", softmax}, {"layer_norm", norm}, {"rms_norm", norm}}; }

}  // namespace pycandle::c
