// Ops that move nothing: other strides over the same memory, and numbers that need none.
#include <algorithm>
#include <optional>
#include <utility>

#include "backends/c/lowerings.h"
#include "passes/constants.h"

namespace pycandle::c {
namespace {

bool is_number(const Site& at, std::string_view operand) {
  return at.s.known[at.call.value(operand)].kind == Known::Kind::number;
}

// The same number under another shape.
bool keeps_number(Site& at) {
  if (!is_number(at, "x")) return false;
  at.g.define_number(at.s, at.node.results[0], at.s.known[at.call.value("x")].number);
  return true;
}

void constant(Site& at) {
  Scalar value = at.call.scalar("value");
  const DType dtype = at.result_dtype();
  if (is_floating(dtype)) value = as_double(value);
  at.g.define_number(at.s, at.node.results[0], value);
}

void dim(Site& at) { at.g.define_number(at.s, at.node.results[0], Scalar(at.dim("value"))); }

// The strides of the same elements under another shape; nothing when no strides do.
std::optional<Sizes> reshaped_strides(const View& v, const Sizes& sizes) {
  if (count_of(sizes) == 0) return row_major(sizes);
  Sizes strides(sizes.size(), 0);
  // From the last axes to the first: groups of axes that hold equally many elements.
  size_t from = v.sizes.size(), to = sizes.size();
  while (from > 0 || to > 0) {
    size_t from_begin = from, to_begin = to;
    int64_t given = 1, wanted = 1;
    if (from_begin > 0) given = v.sizes[--from_begin];
    if (to_begin > 0) wanted = sizes[--to_begin];
    while (given != wanted) {
      if (given < wanted && from_begin > 0)
        given *= v.sizes[--from_begin];
      else if (wanted < given && to_begin > 0)
        wanted *= sizes[--to_begin];
      else
        return std::nullopt;
    }
    const std::optional<int64_t> step = one_stride(v.sizes, v.strides, from_begin, from);
    if (!step) return std::nullopt;
    int64_t stride = *step;
    for (size_t a = to; a-- > to_begin; stride *= sizes[a]) strides[a] = stride;
    from = from_begin;
    to = to_begin;
  }
  return strides;
}

void reshape(Site& at) {
  if (keeps_number(at)) return;
  View v = at.view("x");
  const Sizes sizes = at.result_sizes();
  std::optional<Sizes> strides = reshaped_strides(v, sizes);
  if (!strides) {
    v = at.g.dense(at.s, at.call.value("x"));
    strides = row_major(sizes);
  }
  v.sizes = sizes;
  v.strides = *strides;
  at.g.define(at.s, at.node.results[0], std::move(v));
}

void transpose(Site& at) {
  if (keeps_number(at)) return;
  const View x = at.view("x");
  View v = x;
  const Ints& order = at.call.integers("permutation");
  for (size_t a = 0; a < order.size(); ++a) {
    v.sizes[a] = x.sizes[order[a]];
    v.strides[a] = x.strides[order[a]];
  }
  at.g.define(at.s, at.node.results[0], std::move(v));
}

void broadcast(Site& at) {
  if (keeps_number(at)) return;
  const View x = at.view("x");
  View v = x;
  v.sizes = at.result_sizes();
  v.strides.assign(v.sizes.size(), 0);
  const Ints& axes = at.call.integers("axes");
  for (size_t a = 0; a < axes.size(); ++a) {
    if (x.sizes[a] != 1) v.strides[axes[a]] = x.strides[a];
  }
  at.g.define(at.s, at.node.results[0], std::move(v));
}

void slice(Site& at) {
  if (keeps_number(at)) return;
  View v = at.view("x");
  const Sizes starts = at.dims("starts");
  const Ints& steps = at.call.integers("steps");
  v.sizes = at.result_sizes();
  for (size_t a = 0; a < starts.size(); ++a) {
    v.offset += starts[a] * v.strides[a];
    v.strides[a] *= steps[a];
  }
  at.g.define(at.s, at.node.results[0], std::move(v));
}

void reverse(Site& at) {
  if (keeps_number(at)) return;
  View v = at.view("x");
  for (const int64_t axis : at.call.integers("axes")) {
    v.offset += std::max<int64_t>(v.sizes[axis] - 1, 0) * v.strides[axis];
    v.strides[axis] = -v.strides[axis];
  }
  at.g.define(at.s, at.node.results[0], std::move(v));
}

}  // namespace

Lowerings view_lowerings() {
  return {{"constant", constant},   {"dim", dim},     {"reshape", reshape}, {"transpose", transpose},
          {"broadcast", broadcast}, {"slice", slice}, {"reverse", reverse}};
}

}  // namespace pycandle::c
