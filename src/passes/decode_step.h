// The stateful pass: from the program of a causal model (tokens [batch, length] → a result for every position) a step that
// takes new tokens and a cache. docs/decoding.md says what it is, docs/decisions/decode-step.md why it is so.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "ir/op_def.h"

namespace pycandle {

// What the step keeps between calls, or is given once.
struct CacheState {
  enum class Kind {
    rows,  // a row for each position along `axis`; the step writes those of the new tokens
    once   // computed by DecodeStep::setup and only read: tables over positions, what an encoder gave
  } kind = Kind::rows;
  std::string name;
  int64_t axis = -1;  // of the positions; -1: it has none
  int64_t window = 0;  // of rows: if not 0, a new token reads no more than so many, itself included, and older ones may go
};

struct DecodeStep {
  // Its outputs are the states of kind `once`, by their names; its inputs those of the model that have no place for each
  // token (what an encoder reads).
  Program setup;
  // Inputs: those of the model with a place for each token, then `lengths`. The length symbol of the model counts new
  // tokens here. States: as `states` lists them. Outputs and taps: those of the model, for the new tokens.
  Program step;
  std::vector<CacheState> states;
  std::string batch, tokens;                    // symbols of the step
  std::optional<int64_t> longest;               // more positions than this the model does not have
  std::vector<ValueId> kept;                    // the values whose rows are kept, of decoding::prepared(program)
  std::vector<std::string> dropped;             // outputs that the step does not give, each with the reason

  int64_t widest_window() const;                // 0: rows of no state may go
};

inline constexpr const char* kCapacity = "capacity";  // the symbol of the positions that a cache has room for
inline constexpr const char* kLengths = "lengths";    // input of the step, i64 [batch]: tokens that are in the cache already
// Of a step with windows: the symbol of the rows that they have room for, and an input, i64 [batch]: how many of the oldest rows
// are gone. Row j is position dropped[b] + j.
inline constexpr const char *kWindowRows = "window_rows", *kDropped = "dropped";

// What depends on positions alone (rotary tables, learned positions, masks):
enum class PositionValues {
  in_tables,  // is computed by DecodeStep::setup for all positions, and read at those of the new tokens: what runs fast
  computed    // is computed by the step at the positions of the new tokens: what a person writes, and codegen --stateful
};

// The program is in program form. Throws gap, with layer, Python line and reason, when some position would see a later one or
// depends on the length in another way.
DecodeStep derive_decode_step(const Program&, const OpTable&, PositionValues = PositionValues::in_tables);

// The step as source code has it: everything in one program, in program form. Throws gap for a model that needs more than that:
// what an encoder gives is computed once.
DecodeStep decode_step_in_code(const Program&, const OpTable&);
// The same of a program whose caches are what its nodes append to. `tokens`: the symbol that counts new tokens.
DecodeStep decode_step_of(Program step, std::string batch, std::string tokens, std::optional<int64_t> longest);

// The program with keys, values and other rows that its step keeps rounded to a dtype of 16 bits. The step that is derived from
// it keeps them in that dtype, and is the forward pass of this program.
Program with_rounded_caches(const Program&, const OpTable&, DType);
// By the name of the dtype: "f32" is the program itself; another than f32, bf16 and f16 is a usage Error.
Program with_caches(Program, const OpTable&, const std::string& dtype);

}  // namespace pycandle
