#include "ops/core/alignment.h"

#include "ops/core/constraints.h"

namespace pycandle {

int64_t AlignedCall::axis(const char* name) const {
  const int64_t given = call.integer(name);
  return given < 0 ? given + static_cast<int64_t>(rank()) : given;
}

Ints AlignedCall::last(size_t count) const {
  Ints axes;
  for (size_t i = count; i > 0; --i) axes.push_back(static_cast<int64_t>(rank() - i));
  return axes;
}

Alignment AlignedCall::none_free() const {
  return {std::vector<bool>(rank()), std::vector<Ints>(operands.size(), Ints(rank(), Alignment::kAbsent))};
}

Alignment AlignedCall::all_free() const {
  Alignment a = none_free();
  a.is_free.assign(rank(), true);
  return a;
}

Alignment AlignedCall::all_but(const Ints& bound, size_t operand) const {
  Alignment a = none_free();
  for (size_t axis = 0; axis < rank(); ++axis) {
    if (contains(bound, static_cast<int64_t>(axis))) continue;
    a.is_free[axis] = true;
    a.axes[operand][axis] = static_cast<int64_t>(axis);
  }
  return a;
}

Alignment AlignedCall::indexed(int64_t axis, int64_t count) const {
  Alignment a = all_free();
  for (int64_t to = 0; to < static_cast<int64_t>(rank()); ++to) {
    if (to < axis)
      a.axes[0][to] = to;
    else if (to < axis + count)
      a.axes[1][to] = to - axis;
    else
      a.axes[0][to] = to - count + 1;
  }
  return a;
}

std::optional<Alignment> along_all_axes(const AlignedCall& c) {
  Alignment a = c.all_free();
  for (size_t i = 0; i < c.operands.size(); ++i) {
    if (c.operands[i] == kNoValue) continue;
    if (c.call.type(c.operands[i]).shape != c.result) return std::nullopt;
    for (size_t axis = 0; axis < c.rank(); ++axis) a.axes[i][axis] = static_cast<int64_t>(axis);
  }
  return a;
}

std::optional<Alignment> along_all_but_last(const AlignedCall& c) { return c.all_but(c.last(1)); }
std::optional<Alignment> along_all_but_dim(const AlignedCall& c) { return c.all_but({c.axis("dim")}); }
std::optional<Alignment> along_all_but_axis(const AlignedCall& c) { return c.all_but({c.axis("axis")}); }
std::optional<Alignment> along_all_but_normalized(const AlignedCall& c) {
  return c.all_but(c.last(c.call.dims("normalized_shape").size()));
}

std::optional<Alignment> along_what_is_not_reduced(const AlignedCall& c) {
  const Ints& axes = c.call.integers("axes");
  const bool keeps = c.call.op().attribute_index("keep") >= 0 && c.call.boolean("keep");
  Alignment a = c.none_free();
  for (int64_t from = 0, to = 0; from < c.call.rank("x"); ++from) {
    if (!contains(axes, from)) {
      a.is_free[to] = true;
      a.axes[0][to++] = from;
    } else if (keeps) {
      ++to;
    }
  }
  return a;
}

std::optional<Alignment> alignment_of(const Call& call, const Values& operands, const Shape& result) {
  const OpDef& op = call.op();
  const AlignmentRule rule = op.alignment != nullptr || !op.is_pointwise ? op.alignment : along_all_axes;
  return rule == nullptr ? std::nullopt : rule({call, operands, result});
}

}  // namespace pycandle
