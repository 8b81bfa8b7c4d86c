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
};

class Deriver {
 public:
  Deriver(const Program&, const OpTable&, const std::string& length, Dim batch);

  // Throws when tokens attend to tokens in any way but causally.
  void check_attention() const;
  bool has_rows(const Output&) const;              // or does it not depend on tokens at all?
  // Adds an output to the step.
  void add_output(const Output&);
  DecodeStep finished();

 private:
  friend struct Rules;

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
  ValueId positions();                             // i64 [batch, new]: of the new tokens
  ValueId state(CacheState, Type);
  std::string layer_of(const Node&) const;         // "transformer.h.0.attn."
  std::string state_name(ValueId, std::string_view fallback);
  [[noreturn]] void refuse(const Node&, const std::string& reason) const;
  void finish(Part&, bool is_step);

  const Program& p_;
  const Graph& g_;
  std::optional<int64_t> longest_;
  SequenceAxes axes_;
  Part setup_, step_;
  std::map<ValueId, ValueId> caches_, once_;       // of the program → the state's value that is read
  std::vector<CacheState> states_;
  std::map<ValueId, bool> is_kept_;
  std::set<std::string> names_;
  std::string asked_for_;                          // what the next cache is for: "transformer.h.0.attn.key"
  std::map<std::pair<ValueId, size_t>, ValueId> landed_;  // tables that got a batch axis, by the rank that they are used at
  ValueId lengths_ = kNoValue, positions_ = kNoValue;
  std::vector<ValueId> updated_;                   // by state
};

}  // namespace pycandle::decoding
