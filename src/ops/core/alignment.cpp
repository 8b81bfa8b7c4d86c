#include "ops/core/alignment.h"

#include <algorithm>
#include <map>
#include <string_view>

#include "ops/core/constraints.h"

namespace pycandle {
namespace {

using Found = std::optional<Alignment>;

// What a rule fills in: at first no axis is free, and no operand has any.
struct Site {
  const Call& call;
  const Values& operands;
  const Shape& result;

  size_t rank() const { return result.size(); }
  Alignment nothing() const {
    return {std::vector<bool>(rank()), std::vector<Ints>(operands.size(), Ints(rank(), Alignment::kAbsent))};
  }
  // Operand `i` has the axes of the result, all of them free but those.
  Alignment all_but(const Ints& bound, size_t i = 0) const {
    Alignment a = nothing();
    for (size_t axis = 0; axis < rank(); ++axis) {
      if (contains(bound, static_cast<int64_t>(axis))) continue;
      a.is_free[axis] = true;
      a.axes[i][axis] = static_cast<int64_t>(axis);
    }
    return a;
  }
  Ints last(size_t count) const {
    Ints axes;
    for (size_t i = count; i > 0; --i) axes.push_back(static_cast<int64_t>(rank() - i));
    return axes;
  }
  int64_t axis(const char* name) const {
    const int64_t given = call.integer(name);
    return given < 0 ? given + static_cast<int64_t>(rank()) : given;
  }
};

Found elementwise(const Site& s) {
  Alignment a = s.nothing();
  a.is_free.assign(s.rank(), true);
  for (size_t i = 0; i < s.operands.size(); ++i) {
    if (s.operands[i] == kNoValue) continue;
    if (s.call.type(s.operands[i]).shape != s.result) return std::nullopt;
    for (size_t axis = 0; axis < s.rank(); ++axis) a.axes[i][axis] = static_cast<int64_t>(axis);
  }
  return a;
}

Found rows(const Site& s) { return s.all_but(s.last(1)); }
Found norm(const Site& s) { return s.all_but(s.last(s.call.dims("normalized_shape").size())); }
Found all_but_dim(const Site& s) { return s.all_but({s.axis("dim")}); }
Found all_but_axis(const Site& s) { return s.all_but({s.axis("axis")}); }

// Operand 1 is an index with `count` axes in the place of one axis of operand 0: free along the indices, and operand 0 is
// needed whole there.
Alignment indexed(const Site& s, int64_t axis, int64_t count) {
  Alignment a = s.nothing();
  for (int64_t to = 0; to < static_cast<int64_t>(s.rank()); ++to) {
    a.is_free[to] = true;
    if (to < axis)
      a.axes[0][to] = to;
    else if (to < axis + count)
      a.axes[1][to] = to - axis;
    else
      a.axes[0][to] = to - count + 1;
  }
  return a;
}

Found take(const Site& s) { return indexed(s, s.call.integer("axis"), s.call.rank("indices")); }

Found embedding(const Site& s) { return s.all_but(s.last(1), 1); }

Found gather(const Site& s) {
  Alignment a = s.all_but({}, 1);
  const Shape& x = s.call.shape("x");
  for (size_t axis = 0; axis < s.rank(); ++axis) {
    if (static_cast<int64_t>(axis) == s.call.integer("axis")) continue;
    if (x[axis] == s.result[axis])
      a.axes[0][axis] = static_cast<int64_t>(axis);
    else
      a.is_free[axis] = false;
  }
  return a;
}

Found scatter(const Site& s) {
  Alignment a = s.all_but({s.call.integer("axis")});
  for (size_t axis = 0; axis < s.rank(); ++axis) {
    const bool are_alike = s.call.shape("index")[axis] == s.result[axis] && s.call.shape("src")[axis] == s.result[axis];
    a.is_free[axis] = a.is_free[axis] && are_alike;
  }
  a.axes[1] = a.axes[2] = a.axes[0];
  return a;
}

// x[:, :, i]: the axes that are not indexed, where the indices stand in the place of one of them.
Found gather_nd(const Site& s) {
  const Ints& axes = s.call.integers("axes");
  if (axes.size() != 1) return std::nullopt;
  return indexed(s, axes[0], static_cast<int64_t>(s.rank()) - (s.call.rank("x") - 1));
}

Found reduction(const Site& s) {
  const Ints& axes = s.call.integers("axes");
  const bool keeps = s.call.op().attribute_index("keep") >= 0 && s.call.boolean("keep");
  Alignment a = s.nothing();
  for (int64_t from = 0, to = 0; from < s.call.rank("x"); ++from) {
    if (!contains(axes, from)) {
      a.is_free[to] = true;
      a.axes[0][to++] = from;
    } else if (keeps) {
      ++to;
    }
  }
  return a;
}

// The axis goes away.
Found without_axis(const Site& s) {
  Alignment a = s.nothing();
  a.is_free.assign(s.rank(), true);
  const int64_t gone = s.call.integer("axis");
  for (int64_t to = 0; to < static_cast<int64_t>(s.rank()); ++to) a.axes[0][to] = to < gone ? to : to + 1;
  return a;
}

Found concat(const Site& s) {
  const int64_t joined = s.call.integer("axis");
  Alignment a = s.all_but({joined});
  for (Ints& axes : a.axes) axes = a.axes[0];
  return a;
}

Found stack(const Site& s) {
  const int64_t rank = static_cast<int64_t>(s.rank()), added = s.axis("axis");
  Alignment a = s.nothing();
  for (int64_t to = 0; to < rank; ++to) {
    if (to == added) continue;
    a.is_free[to] = true;
    for (Ints& axes : a.axes) axes[to] = to < added ? to : to - 1;
  }
  return a;
}

Found transpose(const Site& s) {
  Alignment a = s.nothing();
  a.is_free.assign(s.rank(), true);
  a.axes[0] = s.call.integers("permutation");
  return a;
}

Found broadcast(const Site& s) {
  Alignment a = s.nothing();
  a.is_free.assign(s.rank(), true);
  const Ints& axes = s.call.integers("axes");
  for (size_t from = 0; from < axes.size(); ++from) {
    if (s.call.shape("x")[from] == s.result[axes[from]])
      a.axes[0][axes[from]] = static_cast<int64_t>(from);
    else if (s.call.shape("x")[from] != Dim(1))
      a.is_free[axes[from]] = false;
  }
  return a;
}

Found slice(const Site& s) {
  Ints cut;
  for (size_t axis = 0; axis < s.rank(); ++axis) {
    const bool whole = s.call.dims("starts")[axis] == Dim(0) && s.call.dims("stops")[axis] == s.call.shape("x")[axis] &&
                       s.call.integers("steps")[axis] == 1;
    if (!whole) cut.push_back(static_cast<int64_t>(axis));
  }
  return s.all_but(cut);
}

Found pad(const Site& s) {
  Ints padded;
  for (size_t axis = 0; axis < s.rank(); ++axis) {
    if (s.call.dims("low")[axis] != Dim(0) || s.call.dims("high")[axis] != Dim(0)) padded.push_back(static_cast<int64_t>(axis));
  }
  return s.all_but(padded);
}

Found reverse(const Site& s) { return s.all_but(s.call.integers("axes")); }

Found dot_general(const Site& s) {
  Alignment a = s.nothing();
  a.is_free.assign(s.rank(), true);
  const Ints* batch[2] = {&s.call.integers("batch_left"), &s.call.integers("batch_right")};
  const Ints* contract[2] = {&s.call.integers("contract_left"), &s.call.integers("contract_right")};
  size_t next = batch[0]->size();
  for (size_t side = 0; side < 2; ++side) {
    for (size_t i = 0; i < batch[side]->size(); ++i) a.axes[side][i] = (*batch[side])[i];
    for (int64_t axis = 0; axis < s.call.type(s.operands[side]).rank(); ++axis) {
      if (!contains(*batch[side], axis) && !contains(*contract[side], axis)) a.axes[side][next++] = axis;
    }
  }
  return a;
}

Found split_heads(const Site& s) {
  Alignment a = s.all_but(s.last(3));
  a.is_free[s.rank() - 2] = true;
  a.axes[0][s.rank() - 2] = static_cast<int64_t>(s.rank()) - 3;
  return a;
}

Found merge_heads(const Site& s) {
  Alignment a = s.all_but(s.last(2));
  a.is_free[s.rank() - 2] = true;
  a.axes[0][s.rank() - 2] = static_cast<int64_t>(s.rank()) - 1;
  return a;
}

// The angles have the axes of x from the end, but for that of the heads.
Found rotary(const Site& s) {
  Alignment a = s.all_but(s.last(1));
  const Shape& angles = s.call.shape("cos");
  const bool inserts = s.call.has("unsqueeze_dim");
  const size_t inserted = inserts ? static_cast<size_t>(s.call.integer("unsqueeze_dim")) : angles.size();
  for (size_t from = 0; from + 1 < angles.size(); ++from) {
    const size_t to = s.rank() - angles.size() - (inserts ? 1 : 0) + from + (from >= inserted ? 1 : 0);
    if (angles[from] == s.result[to])
      for (const size_t operand : {1, 2}) a.axes[operand][to] = static_cast<int64_t>(from);
    else if (angles[from] != Dim(1))
      a.is_free[to] = false;
  }
  return a;
}

Found constant(const Site& s) {
  Alignment a = s.nothing();
  a.is_free.assign(s.rank(), true);
  return a;
}

using Rule = Found (*)(const Site&);

Rule rule_of(const OpDef& op) {
  static const std::map<std::string_view, Rule> table = {
      {"linear", rows},
      {"layer_norm", norm},
      {"rms_norm", norm},
      {"softmax", all_but_dim},
      {"log_softmax", all_but_dim},
      {"take", take},
      {"embedding", embedding},
      {"gather", gather},
      {"gather_nd", gather_nd},
      {"scatter", scatter},
      {"sort", all_but_axis},
      {"topk", all_but_axis},
      {"mean", reduction},
      {"argmax", without_axis},
      {"argmin", without_axis},
      {"concat", concat},
      {"stack", stack},
      {"transpose", transpose},
      {"broadcast", broadcast},
      {"slice", slice},
      {"pad", pad},
      {"reverse", reverse},
      {"split", all_but_axis},
      {"dot_general", dot_general},
      {"split_heads", split_heads},
      {"merge_heads", merge_heads},
      {"rotary_embedding", rotary},
      {"constant", constant},
      {"cumsum", all_but_axis},
      {"cumprod", all_but_axis},
      {"cummax", all_but_axis},
      {"cummin", all_but_axis},
      {"logcumsumexp", all_but_axis},
  };
  if (const auto found = table.find(op.name); found != table.end()) return found->second;
  if (op.is_pointwise) return elementwise;
  const bool is_reduction = op.name.rfind("reduce_", 0) == 0 && op.attribute_index("axes") >= 0;  // reduce_window has none
  return is_reduction ? reduction : nullptr;
}

}  // namespace

std::optional<Alignment> alignment_of(const Call& call, const Values& operands, const Shape& result) {
  const Rule rule = rule_of(call.op());
  return rule ? rule({call, operands, result}) : std::nullopt;
}

}  // namespace pycandle
