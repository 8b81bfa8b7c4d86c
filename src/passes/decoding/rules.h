// How rows of a result are computed from rows of the operands, op by op.
#pragma once

#include "passes/decoding/deriver.h"

namespace pycandle::decoding {

Need none(int64_t rank);                           // of what has no sequence in it
void set(Attributes&, std::string_view name, Attribute);  // one that is there

// Places of an axis whose size is the length, or some more or fewer: those from lengths[b] + first on, as many as there are
// new tokens and `more`.
struct Places {
  int64_t first = 0, more = 0;
};

struct Rules {
  Deriver& d;
  Part& part;
  const Node& node;
  ValueId result;
  const Need& need;
  Call call;

  ValueId apply();
  // Ops that the rules know by themselves; others have an alignment, or are decomposed first.
  static bool knows(std::string_view op);
  void note_longest();

 private:
  const SequenceAxes& axes() const { return d.axes_; }
  const Graph& g() const { return d.g_; }
  ValueId operand(size_t i, const Need& rows);
  [[noreturn]] void refuse(const std::string& reason) const { d.refuse(node, reason); }

  ValueId copied();
  ValueId dispatch();
  ValueId aligned();
  Attributes attributes(const Values& operands) const;
  ValueId reshape();
  ValueId iota();
  ValueId first_rows();
  ValueId broadcast();
  ValueId rotary();
  ValueId attention();
  ValueId cross_attention();
  ValueId over_cache();
  ValueId mask(size_t i);
  ValueId without_common_shift(ValueId positions) const;
  bool is_over_masked(size_t key) const;
  bool is_largest_of_masked(const Need& rows, int64_t key) const;
  ValueId extended(int64_t axis);
  ValueId weighted_sum();
  // ---- recurrence.cpp: what a position hands on to the next
  static bool is_running(std::string_view op);
  ValueId running();
  ValueId scan();
  // The row before the new tokens, with one place along the axis; `initial` where there is none.
  ValueId last_kept(ValueId cache, int64_t axis, ValueId initial);
  // ---- windows.cpp: results of some positions before each one: causal convolutions, tokens that are shifted
  std::optional<int64_t> window_axis() const;
  ValueId places(ValueId, int64_t axis, Places);
  ValueId places_of(const Node&, ValueId result, int64_t axis, Places);
  ValueId places_aligned(const Node&, ValueId result, int64_t axis, Places);
  ValueId convolved(const Node&, int64_t axis, Places);
  ValueId kept_places(ValueId, int64_t axis, Places);
  ValueId joined(const Node&, int64_t axis, Places);
  // i64 or bool, of the shape but for the axis: the places themselves, and where they are before the first one.
  ValueId place_numbers(const Shape&, int64_t axis, Places);
  ValueId filled_before(ValueId rows, int64_t axis, Places, const Scalar& with);
  // An operand without batch axis, whose dims are those of the result from the end: with a batch axis where it differs by
  // sequence. inserted: axes that the op puts into it by itself.
  ValueId landed(size_t i, const Need& rows, size_t rank, size_t inserted = 0);
};

}  // namespace pycandle::decoding
