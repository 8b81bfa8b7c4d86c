// Elementwise nodes that are run together, tile by tile, so that what lies between them never leaves the cache.
//
// A node joins the open chain of one of its operands when the sizes are the same; whoever else asks for a value of a
// chain closes it, and its step is added then. So a chain reads nothing that comes after it, and needs no proof.
#pragma once

#include <optional>
#include <vector>

#include "backends/cpu/kernels/kernels.h"
#include "backends/cpu/planner.h"

namespace pycandle::cpu {

// One vector function of a chain.
struct Instruction {
  enum class Kind { unary, binary, compare, select, bool_and, bool_or, bool_xor, bool_not, to_float, widen, narrow } kind;
  int function = 0;             // of the kind's enum; widen and narrow: a WeightFormat
  float p = 0, q = 0;
  int operands[3] = {-1, -1, -1};  // registers
  int result = -1;              // a register
};

// What a node of f32 (or bool) elements computes, or between f32 and a half; nothing when no vector function does. `operands` are
// those of the node that it reads as vectors, in order: an exponent that is a constant is not among them.
struct Elementwise {
  Instruction instruction;
  Values operands;
};
std::optional<Elementwise> elementwise(Planner&, size_t node);
// Does it take f32 images number by number? Then it may as well take them in blocks of channels (blocks.h).
bool is_blockwise(const Planner&, size_t node);
// The function of a claimed activation, or of a node that is one (relu, gelu, …), for epilogues.
std::optional<Instruction> activation(const Planner&, size_t node);

class Chains {
 public:
  explicit Chains(Planner& p) : planner_(p) {}
  bool join(size_t node);       // false: it is not elementwise
  void close(ValueId);          // the chain in which it waits, if any
  // Closes the chain in which v waits so that it ends with v's reduction over the last axes, and v itself is never stored. False
  // when v waits in none, or is wanted otherwise.
  bool reduce(ValueId v, size_t axes, Reduction, ValueId result);
  bool waits(ValueId v) const { return chain_of(v) >= 0; }
  bool waits_in_blocks(ValueId v) const { return waits(v) && chains_[chain_of(v)].is_blocked; }
  // v * scale + shift, one of each a channel, in blocks.
  void scale_and_shift(size_t node, ValueId v, const View& scale, const View& shift);

 private:
  struct Chain {
    Sizes sizes;  // of the blocks, when it is blocked
    bool is_blocked = false;
    std::vector<View> inputs;  // registers 0 … inputs - 1 are numbered -2, -3, … while the chain is open
    std::vector<Instruction> instructions;  // instruction i gives register i while the chain is open
    std::vector<ValueId> values;  // of instruction i
    std::vector<size_t> nodes;
    bool is_open = true;
  };
  struct Ending {
    ValueId value = kNoValue, result = kNoValue;
    size_t axes = 0;
    Reduction kind = Reduction::sum;
  };
  int chain_of(ValueId) const;
  bool runs_in_blocks(size_t node, const Values& operands) const;
  int chosen_for(const Values& operands, const Sizes&, bool is_blocked);
  static int input_of_chain(Chain&, const View&);
  void append(int chain, size_t node, Instruction, ValueId result);
  Chain taken(int chain);  // out of the open ones
  bool is_needed(const Chain&, ValueId) const;  // by somebody outside the chain
  void emit(Chain&, const Ending&);

  Planner& planner_;
  std::vector<Chain> chains_;
  PerValue<int> chain_of_;  // per value, -1 when it waits in none
};

}  // namespace pycandle::cpu
