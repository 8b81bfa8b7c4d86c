// The text form of PTIR. print() and parse() are inverse: parse(print(p)) is identical to p.
#pragma once

#include <string>
#include <string_view>

#include "ir/op_def.h"

namespace pycandle {

struct PrintOptions {
  bool origins = true;  // module calls, files, places; without them the text is for reading and for pass tests
};
std::string print(const Program&, const PrintOptions& = {});
std::string print(const Graph&);

// Text from outside: bad_input with line and column, what was expected and found. Types are inferred again and must
// equal those written.
Program parse_program(std::string_view text, const OpTable&, std::string_view name = "ptir text");

}  // namespace pycandle
