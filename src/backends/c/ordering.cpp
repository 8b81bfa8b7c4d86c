// Along one axis: running results, and order.
#include <utility>

#include "backends/c/lowerings.h"
#include "backends/c/text.h"

namespace pycandle::c {
namespace {

using Terms = std::vector<std::pair<std::string, int64_t>>;

struct Lanes {
  View x;
  int64_t length = 1, x_step = 0, y_step = 1;
  size_t loops = 0;
  Terms x_at, y_at;  // where a lane begins
};

// Loops over all axes but one.
Lanes open_lanes(Writer& w, const View& x, const Sizes& result, int64_t axis) {
  Lanes lanes;
  lanes.x = x;
  const Sizes strides = row_major(result);
  for (size_t a = 0; a < x.sizes.size(); ++a) {
    if (static_cast<int64_t>(a) == axis) {
      lanes.length = x.sizes[a];
      lanes.x_step = x.strides[a];
      lanes.y_step = strides[a];
      continue;
    }
    const std::string i = w.fresh("i");
    w.loop(i, x.sizes[a]);
    lanes.x_at.emplace_back(i, x.strides[a]);
    lanes.y_at.emplace_back(i, strides[a]);
    ++lanes.loops;
  }
  return lanes;
}

Terms with(Terms terms, const std::string& name, int64_t step) {
  terms.emplace_back(name, step);
  return terms;
}

void need_half(Generator& g, DType dtype) {
  if (dtype != DType::f16 && dtype != DType::bf16) return;
  const std::string name(name_of(dtype));
  g.need("float_of_" + name);
  g.need(name + "_of");
}

void cumulative(Site& at) {
  const DType dtype = at.result_dtype();
  need_half(at.g, dtype);
  const View x = at.view("x"), y = at.g.fresh(at.s, at.node.results[0]);
  if (count_of(y.sizes) == 0) return at.g.define(at.s, at.node.results[0], y);
  Writer w(at.g, at.node.op->name);
  const std::string in = w.reads(x, "x"), out = w.writes(y, "y");
  const std::string type = is_floating(dtype) ? "double" : "uint64_t";
  const bool is_sum = at.node.op->name == "cumsum";
  const Lanes lanes = open_lanes(w, x, y.sizes, at.call.integer("axis"));
  w.line(formatted("{} so_far = {};", type, is_sum ? 0 : 1));
  const std::string t = w.fresh("t");
  w.loop(t, lanes.length);
  w.line(formatted("so_far {} ({}){};", is_sum ? "+=" : "*=", type,
                   loaded(formatted("{}[{}]", in, sum_of(with(lanes.x_at, t, lanes.x_step))), dtype)));
  w.line(formatted("{}[{}] = {};", out, sum_of(with(lanes.y_at, t, lanes.y_step)),
                   stored(formatted("({})so_far", computed_type(dtype)), dtype)));
  w.close(1 + lanes.loops);
  at.g.emit(w);
  at.g.define(at.s, at.node.results[0], y);
}

// Running maxima or minima and where they stand: of equal ones the last, and NaN stays.
void running_extreme(Site& at) {
  const DType dtype = at.result_dtype();
  need_half(at.g, dtype);
  const View x = at.view("x"), y = at.g.fresh(at.s, at.node.results[0]), places = at.g.fresh(at.s, at.node.results[1]);
  if (count_of(y.sizes) != 0) {
    Writer w(at.g, at.node.op->name);
    const std::string in = w.reads(x, "x"), out = w.writes(y, "y"), where = w.writes(places, "places");
    const Lanes lanes = open_lanes(w, x, y.sizes, at.call.integer("axis"));
    w.line(formatted("{} best = 0;", computed_type(dtype)));
    w.line("int64_t place = 0;");
    const std::string t = w.fresh("t");
    w.loop(t, lanes.length);
    w.line(formatted("const {} value = {};", computed_type(dtype),
                     loaded(formatted("{}[{}]", in, sum_of(with(lanes.x_at, t, lanes.x_step))), dtype)));
    w.open(formatted("if ({} == 0 || value != value || (best == best && value {} best))", t,
                     at.node.op->name == "cummax" ? ">=" : "<="));
    w.line("best = value;");
    w.line(formatted("place = {};", t));
    w.close();
    w.line(formatted("{}[{}] = {};", out, sum_of(with(lanes.y_at, t, lanes.y_step)), stored("best", dtype)));
    w.line(formatted("{}[{}] = place;", where, sum_of(with(lanes.y_at, t, lanes.y_step))));
    w.close(1 + lanes.loops);
    at.g.emit(w);
  }
  at.g.define(at.s, at.node.results[0], y);
  at.g.define(at.s, at.node.results[1], places);
}

// A stable merge sort of the places of a lane; NaN is the largest.
void order(Site& at) {
  const bool is_topk = at.node.op->name == "topk";
  const DType dtype = at.dtype("x");
  need_half(at.g, dtype);
  const bool descending = at.call.boolean(is_topk ? "largest" : "descending");
  const View x = at.view("x"), y = at.g.fresh(at.s, at.node.results[0]), places = at.g.fresh(at.s, at.node.results[1]);
  if (count_of(y.sizes) != 0) {
    Writer w(at.g, at.node.op->name);
    const int64_t axis = at.call.integer("axis"), length = x.sizes.empty() ? 1 : x.sizes[axis],
                  count = y.sizes.empty() ? 1 : y.sizes[axis];
    const std::string in = w.reads(x, "x"), out = w.writes(y, "y"), where = w.writes(places, "places");
    const std::string a = w.scratch(DType::i32, length, "order"), b = w.scratch(DType::i32, length, "merged"),
                      type = computed_type(dtype);
    const Lanes lanes = open_lanes(w, x, y.sizes, axis);
    const auto element = [&](const std::string& i) {
      return loaded(formatted("{}[{}]", in, sum_of(with(lanes.x_at, i, lanes.x_step))), dtype);
    };
    w.line(formatted("for (int32_t t = 0; t < {}; ++t) {}[t] = t;", length, a));
    w.open(formatted("for (ptrdiff_t run = 1; run < {}; run *= 2)", length));
    w.open(formatted("for (ptrdiff_t begin = 0; begin < {0}; begin += 2 * run)", length));
    w.line(formatted("const ptrdiff_t middle = begin + run < {0} ? begin + run : {0};", length));
    w.line(formatted("const ptrdiff_t end = begin + 2 * run < {0} ? begin + 2 * run : {0};", length));
    w.line("ptrdiff_t left = begin, right = middle;");
    w.open("for (ptrdiff_t t = begin; t < end; ++t)");
    w.line("int takes_right = left >= middle;");
    w.open("if (!takes_right && right < end)");
    w.line(formatted("const {} p = {}, q = {};", type, element(a + "[right]"), element(a + "[left]")));
    w.line(descending ? "takes_right = p != p ? q == q : p > q;" : "takes_right = q != q ? p == p : p < q;");
    w.close();
    w.line(formatted("{}[t] = takes_right ? {}[right++] : {}[left++];", b, a, a));
    w.close(2);
    w.line(formatted("for (ptrdiff_t t = 0; t < {}; ++t) {}[t] = {}[t];", length, a, b));
    w.close();
    w.open(formatted("for (ptrdiff_t t = 0; t < {}; ++t)", count));
    const std::string raw = formatted("{}[{}]", in, sum_of(with(lanes.x_at, a + "[t]", lanes.x_step)));
    w.line(formatted("{}[{}] = {};", out, sum_of(with(lanes.y_at, "t", lanes.y_step)), raw));
    w.line(formatted("{}[{}] = {}[t];", where, sum_of(with(lanes.y_at, "t", lanes.y_step)), a));
    w.close(1 + lanes.loops);
    at.g.emit(w);
  }
  at.g.define(at.s, at.node.results[0], y);
  at.g.define(at.s, at.node.results[1], places);
}

}  // namespace

Lowerings ordering_lowerings() {
  return {{"cumsum", cumulative},      {"cumprod", cumulative}, {"cummax", running_extreme},
          {"cummin", running_extreme}, {"sort", order},         {"topk", order}};
}

}  // namespace pycandle::c
