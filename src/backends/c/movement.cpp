// Copies: concatenation and padding.
#include <algorithm>
#include <utility>

#include "backends/c/lowerings.h"
#include "backends/c/text.h"

namespace pycandle::c {
namespace {

// The part of `whole` that begins at `starts`.
View part_of(const View& whole, const Sizes& starts, Sizes sizes) {
  View part = whole;
  part.sizes = std::move(sizes);
  for (size_t a = 0; a < starts.size(); ++a) part.offset += starts[a] * whole.strides[a];
  return part;
}

void concat(Site& at) {
  const ValueId result = at.node.results[0];
  const auto axis = static_cast<size_t>(at.call.integer("axis"));
  const View y = at.g.fresh(at.s, result);
  Sizes starts(y.sizes.size(), 0);
  for (const ValueId x : at.call.values("xs")) {
    const Sizes sizes = at.sizes(x);
    if (at.s.known[x].kind == Known::Kind::pending) at.g.view(at.s, x);
    at.g.compute_into(at.s, x, part_of(y, starts, sizes));
    starts[axis] += sizes[axis];
  }
  at.g.define(at.s, result, y);
}

void fill(Generator& g, const View& y, const std::string& value) {
  if (count_of(y.sizes) == 0) return;
  Writer w(g, "fill");
  const std::string out = w.writes(y, "y");
  w.line(formatted("for (ptrdiff_t i = 0; i < {}; ++i) {}[i] = {};", count_of(y.sizes), out, value));
  g.emit(w);
}

void pad(Site& at) {
  const ValueId result = at.node.results[0];
  const Sizes low = at.dims("low"), high = at.dims("high");
  View from = at.view("x");
  const View y = at.g.fresh(at.s, result);
  const DType dtype = at.result_dtype();
  for (const char* name : {"f16_of", "bf16_of"}) {
    if (std::string(name) == std::string(name_of(dtype)) + "_of") at.g.need(name);
  }
  fill(at.g, y, stored(literal(at.call.scalar("value"), dtype), dtype));
  Sizes starts(low.size(), 0);
  for (size_t a = 0; a < low.size(); ++a) {
    const int64_t size = from.sizes[a];
    from.offset += std::max<int64_t>(0, -low[a]) * from.strides[a];
    from.sizes[a] = std::max<int64_t>(0, size + std::min<int64_t>(0, low[a]) + std::min<int64_t>(0, high[a]));
    starts[a] = std::max<int64_t>(0, low[a]);
  }
  at.g.copy(from, part_of(y, starts, from.sizes));
  at.g.define(at.s, result, y);
}

}  // namespace

void Generator::copy(const View& from, const View& to) {
  if (count_of(to.sizes) == 0) return;
  Writer w(*this, "copy");
  const Loops loops = joined_axes(to.sizes, {to.strides, from.strides});
  const std::string x = w.reads(from, "x"), y = w.writes(to, "y");
  std::vector<std::pair<std::string, int64_t>> source, target;
  for (size_t a = 0; a < loops.sizes.size(); ++a) {
    const std::string i = w.fresh(std::string(1, static_cast<char>('i' + a % 8)));
    w.loop(i, loops.sizes[a]);
    target.emplace_back(i, loops.strides[0][a]);
    source.emplace_back(i, loops.strides[1][a]);
  }
  w.line(formatted("{}[{}] = {}[{}];", y, sum_of(target), x, sum_of(source)));
  w.close(loops.sizes.size());
  emit(w);
}

Lowerings movement_lowerings() { return {{"concat", concat}, {"pad", pad}}; }

}  // namespace pycandle::c
