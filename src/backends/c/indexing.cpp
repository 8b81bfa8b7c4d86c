// Reading and writing at places that are data. An index out of range sets the status of the run; the place is then 0.
#include <algorithm>
#include <utility>

#include "backends/c/lowerings.h"
#include "backends/c/narrow.h"
#include "backends/c/text.h"

namespace pycandle::c {
namespace {

using Terms = std::vector<std::pair<std::string, int64_t>>;

}  // namespace

std::string print_index(Writer& w, const std::string& status, const std::string& element, int64_t size, bool wraps) {
  const std::string at = w.fresh("at");
  w.line(formatted("ptrdiff_t {} = (ptrdiff_t){};", at, element));
  if (wraps) w.line(formatted("if ({0} < 0) {0} += {1};", at, size));
  w.open(formatted("if ({0} < 0 || {0} >= {1})", at, size));
  w.line(formatted("*{} = 1;", status));
  w.line(formatted("{} = 0;", at));
  w.close();
  return at;
}

namespace {

Terms open_loops(Writer& w, const Sizes& sizes, std::vector<std::string>& names) {
  Terms dense;
  const Sizes strides = row_major(sizes);
  for (size_t a = 0; a < sizes.size(); ++a) {
    names.push_back(w.fresh(std::string(1, static_cast<char>('i' + a % 8))));
    w.loop(names.back(), sizes[a]);
    dense.emplace_back(names.back(), strides[a]);
  }
  return dense;
}

void take(Site& at) {
  const View x = at.view("x");
  const auto axis = static_cast<size_t>(at.call.integer("axis"));
  if (axis == 0 && x.sizes.size() == 2) {
    if (const auto narrow = int8_weight(at.g, {x, x.sizes[0], x.sizes[1], x.strides[0], x.strides[1]}))
      return take_int8(at, *narrow);
  }
  const View indices = at.view("indices"), y = at.g.fresh(at.s, at.node.results[0]);
  if (count_of(y.sizes) == 0) return at.g.define(at.s, at.node.results[0], y);
  Writer w(at.g, "take");
  const std::string in = w.reads(x, "x"), index = w.reads(indices, "indices"), out = w.writes(y, "y"),
                    status = w.writes(at.g.status(), "failed");
  Terms from, place, to;
  const size_t rank = indices.sizes.size();
  for (size_t a = 0; a < y.sizes.size(); ++a) {
    const std::string i = w.fresh(std::string(1, static_cast<char>('i' + a % 8)));
    if (a == axis + rank) {
      const std::string found = print_index(w, status, formatted("{}[{}]", index, sum_of(place)), x.sizes[axis], false);
      from.emplace_back(found, x.strides[axis]);
    }
    w.loop(i, y.sizes[a]);
    to.emplace_back(i, y.strides[a]);
    if (a < axis)
      from.emplace_back(i, x.strides[a]);
    else if (a < axis + rank)
      place.emplace_back(i, indices.strides[a - axis]);
    else
      from.emplace_back(i, x.strides[a - rank + 1]);
  }
  if (y.sizes.size() == axis + rank) {
    const std::string found = print_index(w, status, formatted("{}[{}]", index, sum_of(place)), x.sizes[axis], false);
    from.emplace_back(found, x.strides[axis]);
  }
  w.line(formatted("{}[{}] = {}[{}];", out, sum_of(to), in, sum_of(from)));
  w.close(y.sizes.size());
  at.g.emit(w);
  at.g.define(at.s, at.node.results[0], y);
}

void gather(Site& at) {
  const View x = at.view("x"), indices = at.view("index"), y = at.g.fresh(at.s, at.node.results[0]);
  if (count_of(y.sizes) == 0) return at.g.define(at.s, at.node.results[0], y);
  const auto axis = static_cast<size_t>(at.call.integer("axis"));
  Writer w(at.g, "gather");
  const std::string in = w.reads(x, "x"), index = w.reads(indices, "indices"), out = w.writes(y, "y"),
                    status = w.writes(at.g.status(), "failed");
  std::vector<std::string> names;
  const Terms to = open_loops(w, y.sizes, names);
  Terms place, from;
  for (size_t a = 0; a < names.size(); ++a) place.emplace_back(names[a], indices.strides[a]);
  const std::string found = print_index(w, status, formatted("{}[{}]", index, sum_of(place)), x.sizes.empty() ? 1 : x.sizes[axis],
                                        false);
  for (size_t a = 0; a < names.size(); ++a) from.emplace_back(a == axis ? found : names[a], x.strides[a]);
  w.line(formatted("{}[{}] = {}[{}];", out, sum_of(to), in, sum_of(from)));
  w.close(names.size());
  at.g.emit(w);
  at.g.define(at.s, at.node.results[0], y);
}

// Where the axes of the indices stand among those of the result.
size_t index_position(const Ints& axes) {
  for (size_t i = 1; i < axes.size(); ++i) {
    if (axes[i] != axes[i - 1] + 1) return 0;
  }
  return static_cast<size_t>(axes[0]);
}

// The place in `in_x` of the element at `names` of the result of gather_nd; prints the indices.
Terms point(Site& at, Writer& w, const View& x, const std::vector<std::string>& names, const std::string& status) {
  const Ints& axes = at.call.integers("axes");
  const Values indices = at.call.values("indices");
  const size_t position = index_position(axes), rank = at.sizes(indices[0]).size();
  Terms from;
  for (size_t i = 0; i < indices.size(); ++i) {
    const View v = at.g.view(at.s, indices[i]);
    Terms place;
    for (size_t a = 0; a < rank; ++a) place.emplace_back(names[position + a], v.strides[a]);
    const std::string element = formatted("{}[{}]", w.reads(v, "indices"), sum_of(place));
    from.emplace_back(print_index(w, status, element, x.sizes[axes[i]], true), x.strides[axes[i]]);
  }
  size_t next = 0;
  for (size_t a = 0; a < x.sizes.size(); ++a) {
    if (std::find(axes.begin(), axes.end(), static_cast<int64_t>(a)) != axes.end()) continue;
    if (next == position) next += rank;
    from.emplace_back(names[next++], x.strides[a]);
  }
  return from;
}

void gather_nd(Site& at) {
  for (const ValueId v : at.call.values("indices")) at.g.view(at.s, v);
  const View x = at.view("x"), y = at.g.fresh(at.s, at.node.results[0]);
  if (count_of(y.sizes) == 0) return at.g.define(at.s, at.node.results[0], y);
  Writer w(at.g, "gather");
  const std::string in = w.reads(x, "x"), out = w.writes(y, "y"), status = w.writes(at.g.status(), "failed");
  std::vector<std::string> names;
  const Terms to = open_loops(w, y.sizes, names);
  const Terms from = point(at, w, x, names, status);
  w.line(formatted("{}[{}] = {}[{}];", out, sum_of(to), in, sum_of(from)));
  w.close(names.size());
  at.g.emit(w);
  at.g.define(at.s, at.node.results[0], y);
}

std::string combined(const std::string& reduce, DType dtype, const std::string& y, const std::string& x) {
  if (reduce == "none") return x;
  const std::string cast = is_floating(dtype) ? "" : formatted("({})", stored_type(dtype));
  const char* wide = is_floating(dtype) ? "" : dtype == DType::i64 ? "(uint64_t)" : "(uint32_t)";
  if (reduce == "add") return formatted("{}({}{} + {}{})", cast, wide, y, wide, x);
  if (reduce == "multiply") return formatted("{}({}{} * {}{})", cast, wide, y, wide, x);
  return formatted("{0} {1} {2} || {0} != {0} ? {0} : {2}", x, reduce == "amax" ? ">" : "<", y);
}

void scatter(Site& at) {
  const std::string& reduce = at.call.string("reduce");
  const DType dtype = at.result_dtype();
  if (reduce == "mean" || (reduce != "none" && !at.call.boolean("include_self")) ||
      (reduce != "none" && (dtype == DType::f16 || dtype == DType::bf16)))
    at.refuse("only reduce = none, add, multiply, amax and amin with include_self are written, not of half precision");
  const View indices = at.view("index"), src = at.view("src"), x = at.view("x"), y = at.g.fresh(at.s, at.node.results[0]);
  at.g.copy(x, y);
  if (count_of(indices.sizes) == 0) return at.g.define(at.s, at.node.results[0], y);
  const auto axis = static_cast<size_t>(at.call.integer("axis"));
  Writer w(at.g, "scatter");
  const std::string in = w.reads(src, "src"), index = w.reads(indices, "indices"), out = w.writes(y, "y"),
                    status = w.writes(at.g.status(), "failed");
  std::vector<std::string> names;
  open_loops(w, indices.sizes, names);
  Terms place, from, to;
  for (size_t a = 0; a < names.size(); ++a) {
    place.emplace_back(names[a], indices.strides[a]);
    from.emplace_back(names[a], src.strides[a]);
  }
  const std::string found = print_index(w, status, formatted("{}[{}]", index, sum_of(place)), y.sizes.empty() ? 1 : y.sizes[axis],
                                        false);
  for (size_t a = 0; a < names.size(); ++a) to.emplace_back(a == axis ? found : names[a], y.strides[a]);
  const std::string target = formatted("{}[{}]", out, sum_of(to));
  w.line(formatted("{} = {};", target, combined(reduce, dtype, target, formatted("{}[{}]", in, sum_of(from)))));
  w.close(names.size());
  at.g.emit(w);
  at.g.define(at.s, at.node.results[0], y);
}

void scatter_nd(Site& at) {
  const bool adds = at.call.boolean("accumulate");
  const DType dtype = at.result_dtype();
  if (adds && (dtype == DType::f16 || dtype == DType::bf16)) at.refuse("sums of half precision at indices");
  for (const ValueId v : at.call.values("indices")) at.g.view(at.s, v);
  const View updates = at.view("updates"), x = at.view("x"), y = at.g.fresh(at.s, at.node.results[0]);
  at.g.copy(x, y);
  if (count_of(updates.sizes) == 0) return at.g.define(at.s, at.node.results[0], y);
  Writer w(at.g, "scatter");
  const std::string in = w.reads(updates, "updates"), out = w.writes(y, "y"), status = w.writes(at.g.status(), "failed");
  std::vector<std::string> names;
  open_loops(w, updates.sizes, names);
  Terms from;
  for (size_t a = 0; a < names.size(); ++a) from.emplace_back(names[a], updates.strides[a]);
  const std::string target = formatted("{}[{}]", out, sum_of(point(at, w, y, names, status)));
  w.line(formatted("{} = {};", target, combined(adds ? "add" : "none", dtype, target, formatted("{}[{}]", in, sum_of(from)))));
  w.close(names.size());
  at.g.emit(w);
  at.g.define(at.s, at.node.results[0], y);
}

// A block of x that begins at starts that are data: read, or written over.
void dynamic(Site& at) {
  const bool updates = at.node.op->name == "dynamic_update";
  const Values starts = at.call.values("starts");
  for (const ValueId v : starts) at.g.view(at.s, v);
  const View x = at.view("x"), y = at.g.fresh(at.s, at.node.results[0]);
  const View block = updates ? at.view("update") : x;
  if (updates) at.g.copy(x, y);
  const Sizes sizes = updates ? block.sizes : y.sizes;
  if (count_of(sizes) == 0) return at.g.define(at.s, at.node.results[0], y);
  Writer w(at.g, updates ? "update" : "slice");
  const std::string in = w.reads(block, "x"), out = w.writes(y, "y"), status = w.writes(at.g.status(), "failed");
  std::vector<std::string> first;
  for (size_t a = 0; a < starts.size(); ++a) {
    const std::string start = w.reads(at.g.view(at.s, starts[a]), "start");
    first.push_back(print_index(w, status, start + "[0]", x.sizes[a] - sizes[a] + 1, false));
  }
  std::vector<std::string> names;
  open_loops(w, sizes, names);
  Terms from, to;
  for (size_t a = 0; a < names.size(); ++a) {
    const std::string moved = formatted("({} + {})", first[a], names[a]);
    from.emplace_back(updates ? names[a] : moved, block.strides[a]);
    to.emplace_back(updates ? moved : names[a], y.strides[a]);
  }
  w.line(formatted("{}[{}] = {}[{}];", out, sum_of(to), in, sum_of(from)));
  w.close(names.size());
  at.g.emit(w);
  at.g.define(at.s, at.node.results[0], y);
}

}  // namespace

Lowerings indexing_lowerings() {
  return {{"take", take},
          {"gather", gather},
          {"gather_nd", gather_nd},
          {"scatter", scatter},
          {"scatter_nd", scatter_nd},
          {"dynamic_slice", dynamic},
          {"dynamic_update", dynamic}};
}

}  // namespace pycandle::c
