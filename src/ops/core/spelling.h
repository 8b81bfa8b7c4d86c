// How a call of an op is written in C++: the one rule for include/pycandle/functional.h, which is generated from it, and
// for the printer of emitted code.
//
//   functional::layer_norm(x, {768}, {.weight = weight, .bias = bias, .eps = 1e-06})
//
// Positional are the operands that must be there (the variadic one as a list) and then the attributes without a default;
// all others are fields of an options struct, optional operands first. A field has its definition's default.
#pragma once

#include <string>
#include <vector>

#include "ir/op_def.h"

namespace pycandle {

struct CallSpelling {
  struct Part {
    enum class Kind { operand, operands, attribute } kind;  // operands: the variadic one
    std::string name;                                       // as C++ writes it: template_
    size_t index;                                           // into operand_specs or attr_specs
  };
  std::string name;                                         // of the function
  bool is_free = false;                                     // where(…), not functional::where(…)
  std::string options_type;                                 // ScaledDotProductAttentionOptions; empty without options
  std::vector<Part> positional, options;
  bool promotes = false;         // elementwise: numbers are welcome, operands are promoted and broadcast as torch does
  bool several_results = false;  // a std::vector<Tensor>
  bool exists = true;            // ops with regions are written by hand
};

CallSpelling spelling_of(const OpDef&);

// A name that is no keyword of C++: "template" → "template_".
std::string cpp_identifier(const std::string& name);
// true 3 1e-05 "same" DType::f32 {1, 2}; std::nullopt for an absent one. Symbolic dims have no literal: internal.
std::string cpp_literal(const Attribute&);

}  // namespace pycandle
