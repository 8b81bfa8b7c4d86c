// Where the sequence is in every value of a program: axes as ordered factors of a dim, so that [batch * length, width] is
// followed, and which values depend on tokens, on other inputs, or on the length alone.
#pragma once

#include <optional>
#include <set>
#include <vector>

#include "ir/op_def.h"

namespace pycandle::decoding {

// Of one dim, outermost first; 1 is left out. length + n: the sequence, and n places behind it that are no positions.
using Factors = std::vector<Dim>;

// Which rows of a sequence axis are there.
enum class Rows : uint8_t {
  fresh,  // those of the new tokens: row i of sequence b is position lengths[b] + i
  all     // every position that the cache has room for: row j is position j
};
// Per axis of a value, per factor of it that is the sequence.
using Need = std::vector<std::vector<Rows>>;

class SequenceAxes {
 public:
  SequenceAxes(const Program&, Dim length, Dim batch, Dim capacity);

  Dim length() const { return length_; }
  Dim batch() const { return batch_; }
  Dim capacity() const { return capacity_; }

  bool of_tokens(ValueId v) const { return of_tokens_[v]; }  // depends on the tokens
  bool of_inputs(ValueId v) const { return of_inputs_[v]; }  // depends on inputs that have no place for each token
  bool of_length(ValueId v) const { return of_length_[v]; }  // its elements depend on how long the sequence is
  bool is_alike(ValueId v) const { return is_alike_[v]; }    // the same at every place along its axes of the sequence
  // The factors of every axis; nothing when a size has the length in it in a way that is not understood.
  const std::optional<std::vector<Factors>>& factors(ValueId v) const { return factors_[v]; }
  bool mentions_length(Dim) const;
  bool mentions_length(const Attribute&) const;
  bool has_sequence(ValueId) const;                          // some axis is (partly) the sequence
  size_t sequence_count(ValueId) const;                      // how many
  std::optional<int64_t> sequence_axis(ValueId) const;       // the one axis that is nothing but the sequence, if just one is
  std::optional<int64_t> batch_axis(ValueId) const;

  Need every(ValueId, Rows) const;
  Shape shape(ValueId, const Need&) const;                   // with as many rows as are needed
  void keep_window(ValueId v) { windowed_.insert(v); }       // all its rows: those that the window has room for
  Dim rows(ValueId) const;                                   // how many all are: the capacity, or those

 private:
  std::optional<std::vector<Factors>> factors_of(const Graph&, const Node&, ValueId result);
  std::optional<Factors> usual_factors(Dim) const;           // batch, then length, then the rest
  bool is_extended(Dim) const;                               // length + n

  Dim length_, batch_, capacity_;
  PerValue<std::optional<std::vector<Factors>>> factors_;
  PerValue<bool> of_tokens_, of_inputs_, of_length_;
  PerValue<bool> is_alike_;                                  // … so that any order of factors fits
  std::set<ValueId> windowed_;
};

bool all_are(const Need&, Rows);
bool any_is(const Need&, Rows);

}  // namespace pycandle::decoding
