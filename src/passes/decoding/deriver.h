// Builds the step backwards from the outputs: asked for some rows of a value, it asks for the rows of the operands that these
// are computed from. Rows of the new tokens are computed; rows of all positions are a cache (when they depend on tokens) or a
// table (when they do not). What asks for a row in any other way is refused.
#pragma once

#include <map>
#include <set>
#include <string>
#include <utility>

#include "ir/builder.h"
#include "passes/decode_step.h"
#include "passes/decoding/sequence_axes.h"

namespace pycandle::decoding {

// One of the two programs while it is built.
struct Part {
  Part(const Program& from, const OpTable&);
  Part(const Part&) = delete;
  Part& operator=(const Part&) = delete;

  Program program;
  Builder b;
  std::map<std::pair<ValueId, Need>, ValueId> known;
  std::vector<size_t> place;                       // of each node: where the program has the one that it was made for
};

class Deriver {
 public:
  Deriver(const Program&, const OpTable&, const std::string& length, Dim batch, PositionValues);

  // Throws when tokens attend to tokens in any way but causally.
  void check_attention() const;
  bool has_rows(const Output&) const;              // or does it not depend on tokens at all?
  // Adds an output to the step.
  void add_output(const Output&);
  DecodeStep finished();

 private:
  friend struct Rules;
  friend class AtPositions;

  ValueId value(Part&, ValueId, const Need&);
  ValueId made(Part&, ValueId, const Need&);
  ValueId input(Part&, ValueId);
  ValueId computed(Part&, const Node&, ValueId, const Need&);
  // ---- of the step
  ValueId once(ValueId, const Need&);              // computed by the setup
  ValueId cached(ValueId);                         // rows of all positions of what depends on tokens
  bool is_kept(ValueId);                           // is this value the one to be cached, or one that it is computed from?
  // Are these rows of the new tokens of what depends on positions alone, and has no batch axis?
  bool differs_by_sequence(ValueId, const Need&) const;
  // Rows of the new tokens of what has no batch axis; they differ by sequence, so that axis comes first.
  ValueId per_sequence(ValueId, const Need&);
  ValueId from_table(ValueId, const Need&);
  ValueId reshaped(ValueId, const Shape&);         // of the step; where that undoes a reshape, what was before it
  ValueId positions();                             // i64 [batch, new]: of the new tokens
  ValueId first_row(ValueId kept);                 // i64 [batch]: where the rows of the new tokens go in all rows of the value
  ValueId state(CacheState, Type);
  std::string layer_of(int32_t call) const;        // "transformer.h.0.attn."
  int32_t keeping_call(ValueId) const;  // the innermost module that has all uses of the value: its rows are kept there
  std::string state_name(ValueId, int32_t call, std::string_view fallback);
  [[noreturn]] void refuse(const Node&, const std::string& reason) const;
  void finish(Part&, bool is_step);
  void order_nodes(Part&) const;  // as the program has them, and not as they were asked for
  void keep_boundaries();  // of module calls, as far as the step has their values
  ValueId in_step(ValueId) const;  // the rows of the new tokens; none when the step has not got them

  const Program& p_;
  const Graph& g_;
  PositionValues position_values_;
  std::optional<int64_t> longest_;
  SequenceAxes axes_;
  Part setup_, step_;
  std::map<ValueId, ValueId> caches_, once_;  // of the program → the state's value that is read
  std::vector<CacheState> states_;
  std::map<std::pair<ValueId, Need>, ValueId> at_positions_;
  std::map<ValueId, bool> is_kept_;
  std::set<std::string> names_;
  std::string asked_for_;  // what the next cache is for: "key"
  std::map<std::pair<ValueId, size_t>, ValueId> landed_;  // tables that got a batch axis, by the rank that they are used at
  std::map<ValueId, int64_t> windows_;  // values whose cache may forget old rows: how many are read
  ValueId lengths_ = kNoValue, positions_ = kNoValue, dropped_ = kNoValue, first_row_ = kNoValue;
  std::vector<ValueId> updated_;  // by state
};

}  // namespace pycandle::decoding
