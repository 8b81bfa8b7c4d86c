// Many elements to one. Sums of floats are accumulated in double, over several lanes, so that compilers vectorise them.
#include <algorithm>
#include <utility>

#include "backends/c/lowerings.h"
#include "backends/c/text.h"

namespace pycandle::c {
namespace {

struct Kind {
  std::string_view op;
  const char* start;     // of floats; {lowest} and {highest} of integers are written by start_of
  const char* combine;   // {r} is the running result, {x} the next element
};

const Kind* kind_of(std::string_view op) {
  static const Kind kinds[] = {
      {"reduce_sum", "0", "{r} += {x};"},
      {"reduce_prod", "1", "{r} *= {x};"},
      {"reduce_max", "lowest", "{r} = {x} > {r} || {x} != {x} ? {x} : {r};"},
      {"reduce_min", "highest", "{r} = {x} < {r} || {x} != {x} ? {x} : {r};"},
      {"reduce_and", "1", "{r} &= {x};"},
      {"reduce_or", "0", "{r} |= {x};"},
  };
  for (const Kind& kind : kinds) {
    if (kind.op == op) return &kind;
  }
  return nullptr;
}

std::string start_of(const Kind& kind, DType dtype) {
  const std::string start = kind.start;
  if (start != "lowest" && start != "highest") return start;
  const bool is_lowest = start == "lowest";
  if (is_floating(dtype)) return is_lowest ? "-INF_F32" : "INF_F32";
  if (dtype == DType::i64) return is_lowest ? "INT64_MIN" : "INT64_MAX";
  return literal(Scalar(static_cast<int64_t>(is_lowest ? lowest_of(dtype) : highest_of(dtype))), dtype);
}

std::string accumulator_type(const Kind& kind, DType dtype) {
  const bool sums = kind.op == "reduce_sum" || kind.op == "reduce_prod";
  if (is_floating(dtype)) return sums || dtype == DType::f64 ? "double" : "float";
  return sums ? "uint64_t" : stored_type(dtype);
}

std::string combined(const Kind& kind, const std::string& r, const std::string& x) {
  std::string text = kind.combine;
  for (const auto& [from, to] : {std::pair<std::string, std::string>{"{r}", r}, {"{x}", x}}) {
    for (size_t at = 0; (at = text.find(from, at)) != std::string::npos; at += to.size()) text.replace(at, from.size(), to);
  }
  return text;
}

// x with the kept axes first and the reduced ones last.
struct Order {
  Sizes sizes;
  std::vector<size_t> axes;   // of x
  size_t kept = 0;
};
Order kept_first(const Sizes& x, const Ints& reduced) {
  Order order;
  for (const bool wanted : {false, true}) {
    for (size_t a = 0; a < x.size(); ++a) {
      const bool is_reduced = std::find(reduced.begin(), reduced.end(), static_cast<int64_t>(a)) != reduced.end();
      if (is_reduced == wanted) order.axes.push_back(a);
    }
    if (!wanted) order.kept = order.axes.size();
  }
  for (const size_t a : order.axes) order.sizes.push_back(x[a]);
  return order;
}
Sizes taken(const Sizes& strides, const std::vector<size_t>& axes) {
  Sizes result;
  for (const size_t a : axes) result.push_back(strides[a]);
  return result;
}

// The loops of a reduction: kept axes outside, reduced ones inside, each joined as far as all operands allow.
struct Nest {
  Loops kept, reduced;
  std::vector<std::string> kept_names, reduced_names;
  std::string index(size_t operand) const {
    std::vector<std::pair<std::string, int64_t>> terms;
    for (size_t a = 0; a < kept.sizes.size(); ++a) terms.emplace_back(kept_names[a], kept.strides[operand][a]);
    for (size_t a = 0; a < reduced.sizes.size(); ++a) terms.emplace_back(reduced_names[a], reduced.strides[operand][a]);
    return sum_of(terms);
  }
};

Nest nest_of(Writer& w, const Sizes& x, const Ints& axes, const std::vector<View>& operands) {
  const Order order = kept_first(x, axes);
  const Sizes kept(order.sizes.begin(), order.sizes.begin() + static_cast<std::ptrdiff_t>(order.kept));
  const Sizes reduced(order.sizes.begin() + static_cast<std::ptrdiff_t>(order.kept), order.sizes.end());
  std::vector<Sizes> kept_strides{row_major(kept)}, reduced_strides{Sizes(reduced.size(), 0)};
  for (const View& v : operands) {
    const Sizes all = taken(v.strides, order.axes);
    kept_strides.emplace_back(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(order.kept));
    reduced_strides.emplace_back(all.begin() + static_cast<std::ptrdiff_t>(order.kept), all.end());
  }
  Nest nest{joined_axes(kept, kept_strides), joined_axes(reduced, reduced_strides), {}, {}};
  for (size_t a = 0; a < nest.kept.sizes.size(); ++a) nest.kept_names.push_back(w.fresh("i"));
  for (size_t a = 0; a < nest.reduced.sizes.size(); ++a) nest.reduced_names.push_back(w.fresh("r"));
  return nest;
}

constexpr int64_t kLanes = 16;

void need_half(Generator& g, DType dtype) {
  if (dtype == DType::f16 || dtype == DType::bf16) g.need(std::string(name_of(dtype)) + "_of");
}

// One reduction while it is printed.
struct Reduction {
  const Kind& kind;
  DType dtype;
  Writer& w;
  Chain& chain;
  Nest nest;
  std::string out, type, start, lane, last;  // last: the index of the innermost kept axis

  std::string element() {
    size_t next = 0;
    return chain.print([&](const Sizes&) { return nest.index(++next); });
  }
  void store_result(const std::string& value) {
    need_half(w.generator(), dtype);
    std::vector<std::pair<std::string, int64_t>> terms;
    for (size_t a = 0; a < nest.kept.sizes.size(); ++a) terms.emplace_back(nest.kept_names[a], nest.kept.strides[0][a]);
    w.line(formatted("{}[{}] = {};", out, sum_of(terms), stored(formatted("({}){}", computed_type(dtype), value), dtype)));
  }
  void clear(const std::string& lanes) {
    w.line(formatted("{} {}[{}];", type, lanes, kLanes));
    w.line(formatted("for (ptrdiff_t {0} = 0; {0} < {1}; ++{0}) {2}[{0}] = {3};", lane, kLanes, lanes, start));
  }
  void open_reduced(size_t count) {
    for (size_t a = 0; a < count; ++a) w.loop(nest.reduced_names[a], nest.reduced.sizes[a]);
  }

  // Lanes are neighbours of the innermost kept axis.
  void print_along_kept() {
    const int64_t count = nest.kept.sizes.back();
    const std::string r = w.fresh("sum"), block = w.fresh("block");
    w.open(formatted("for (ptrdiff_t {0} = 0; {0} < {1}; {0} += {2})", block, count, kLanes));
    const bool has_rest = count % kLanes != 0;
    if (has_rest) w.line(formatted("const ptrdiff_t lanes = {0} - {1} < {2} ? {0} - {1} : {2};", count, block, kLanes));
    const std::string lanes = has_rest ? "lanes" : formatted("{}", kLanes);
    clear(r);
    open_reduced(nest.reduced.sizes.size());
    w.open(formatted("for (ptrdiff_t {0} = 0; {0} < {1}; ++{0})", lane, lanes));
    w.line(formatted("const ptrdiff_t {} = {} + {};", last, block, lane));
    w.line(combined(kind, formatted("{}[{}]", r, lane), element()));
    w.close(1 + nest.reduced.sizes.size());
    w.open(formatted("for (ptrdiff_t {0} = 0; {0} < {1}; ++{0})", lane, lanes));
    w.line(formatted("const ptrdiff_t {} = {} + {};", last, block, lane));
    store_result(formatted("{}[{}]", r, lane));
    w.close(2);
  }

  // Lanes are neighbours of the innermost reduced axis, when it is long.
  void print_along_reduced() {
    const std::string r = w.fresh("sum");
    if (!nest.kept.sizes.empty()) w.loop(last, nest.kept.sizes.back());
    const int64_t length = nest.reduced.sizes.empty() ? 1 : nest.reduced.sizes.back();
    if (!is_floating(dtype) || length < 2 * kLanes) {
      w.line(formatted("{} {} = {};", type, r, start));
      open_reduced(nest.reduced.sizes.size());
      w.line(combined(kind, r, element()));
      w.close(nest.reduced.sizes.size());
    } else {
      const std::string parts = w.fresh("part"), block = w.fresh("block"), inner = nest.reduced_names.back();
      clear(parts);
      open_reduced(nest.reduced.sizes.size() - 1);
      w.open(formatted("for (ptrdiff_t {0} = 0; {0} < {1}; {0} += {2})", block, length / kLanes * kLanes, kLanes));
      w.open(formatted("for (ptrdiff_t {0} = 0; {0} < {1}; ++{0})", lane, kLanes));
      w.line(formatted("const ptrdiff_t {} = {} + {};", inner, block, lane));
      w.line(combined(kind, formatted("{}[{}]", parts, lane), element()));
      w.close(2);
      if (length % kLanes != 0) {
        w.open(formatted("for (ptrdiff_t {0} = {1}; {0} < {2}; ++{0})", inner, length / kLanes * kLanes, length));
        w.line(combined(kind, formatted("{}[0]", parts), element()));
        w.close();
      }
      w.close(nest.reduced.sizes.size() - 1);
      w.line(formatted("{} {} = {}[0];", type, r, parts));
      w.line(formatted("for (ptrdiff_t {0} = 1; {0} < {1}; ++{0}) {2}", lane, kLanes,
                       combined(kind, r, formatted("{}[{}]", parts, lane))));
    }
    store_result(r);
    if (!nest.kept.sizes.empty()) w.close();
  }
};

void reduce(Site& at) {
  const Kind& kind = *kind_of(at.node.op->name);
  const ValueId x = at.call.value("x");
  const DType dtype = at.dtype("x");
  const View y = at.g.fresh(at.s, at.node.results[0]);
  if (count_of(y.sizes) == 0) return at.g.define(at.s, at.node.results[0], y);
  Writer w(at.g, at.node.op->name);
  Chain chain(w, at.s, x);
  Nest nest = nest_of(w, at.sizes(x), at.call.integers("axes"), chain.operands());
  const std::string last = nest.kept.sizes.empty() ? "" : nest.kept_names.back();
  const size_t outer = nest.kept.sizes.empty() ? 0 : nest.kept.sizes.size() - 1;
  for (size_t a = 0; a < outer; ++a) w.loop(nest.kept_names[a], nest.kept.sizes[a]);
  const bool along_kept = !nest.kept.sizes.empty() && !nest.reduced.sizes.empty() && nest.kept.strides.size() > 1 &&
                          nest.kept.strides[1].back() == 1 && nest.kept.sizes.back() >= kLanes;
  Reduction r{
      kind,         dtype, w, chain, std::move(nest), w.writes(y, "y"), accumulator_type(kind, dtype), start_of(kind, dtype),
      w.fresh("l"), last};
  if (along_kept)
    r.print_along_kept();
  else
    r.print_along_reduced();
  w.close(outer);
  at.g.emit(w);
  at.g.define(at.s, at.node.results[0], y);
}

// The first of the largest, or smallest; NaN is both.
void arg_extreme(Site& at) {
  const bool largest = at.node.op->name == "argmax";
  const ValueId x = at.call.value("x");
  const Sizes sizes = at.sizes(x);
  const View from = at.view("x"), y = at.g.fresh(at.s, at.node.results[0]);
  if (count_of(y.sizes) == 0) return at.g.define(at.s, at.node.results[0], y);
  Writer w(at.g, at.node.op->name);
  const Nest nest = nest_of(w, sizes, {at.call.integer("axis")}, {from});
  const std::string in = w.reads(from, "x"), out = w.writes(y, "y"), type = computed_type(at.dtype("x"));
  const std::string r = nest.reduced.sizes.empty() ? "0" : nest.reduced_names[0];
  for (size_t a = 0; a < nest.kept.sizes.size(); ++a) w.loop(nest.kept_names[a], nest.kept.sizes[a]);
  w.line(formatted("{} best = 0;", type));
  w.line("ptrdiff_t place = 0;");
  const bool has_axis = !nest.reduced.sizes.empty();
  if (has_axis) w.loop(r, nest.reduced.sizes[0]);
  w.line(formatted("const {} value = {};", type, loaded(formatted("{}[{}]", in, nest.index(1)), at.dtype("x"))));
  if (at.dtype("x") == DType::f16) at.g.need("float_of_f16");
  if (at.dtype("x") == DType::bf16) at.g.need("float_of_bf16");
  w.open(formatted("if ({} == 0 || (best == best && (value {} best || value != value)))", r, largest ? ">" : "<"));
  w.line("best = value;");
  w.line(formatted("place = {};", r));
  w.close();
  if (has_axis) w.close();
  std::vector<std::pair<std::string, int64_t>> terms;
  for (size_t a = 0; a < nest.kept.sizes.size(); ++a) terms.emplace_back(nest.kept_names[a], nest.kept.strides[0][a]);
  w.line(formatted("{}[{}] = place;", out, sum_of(terms)));
  w.close(nest.kept.sizes.size());
  at.g.emit(w);
  at.g.define(at.s, at.node.results[0], y);
}

}  // namespace

Lowerings reduction_lowerings() {
  return {{"reduce_sum", reduce}, {"reduce_prod", reduce}, {"reduce_max", reduce},  {"reduce_min", reduce},
          {"reduce_and", reduce}, {"reduce_or", reduce},   {"argmax", arg_extreme}, {"argmin", arg_extreme}};
}

}  // namespace pycandle::c
