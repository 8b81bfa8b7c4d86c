// A template as a tree. Whitespace is treated as transformers sets Jinja up: trim_blocks and lstrip_blocks are on.
#pragma once

#include <memory>

#include "text/jinja/value.h"

namespace pycandle::text::jinja {

struct Expr;
using ExprPtr = std::unique_ptr<Expr>;

struct Expr {
  enum class Kind {
    literal,    // value
    name,       // name
    list,       // parts
    dict,       // parts: key, value, key, value, …
    attribute,  // parts[0].name
    index,      // parts[0][parts[1]]
    slice,      // parts[0][parts[1]:parts[2]:parts[3]]; an absent part is null
    call,       // parts[0](parts[1…], named)
    filter,     // parts[0] | name(parts[1…], named)
    test,       // parts[0] is name(parts[1…])
    unary,      // name parts[0]: "not", "-", "+"
    binary,     // parts[0] name parts[1]: "+", "and", "in", "not in", "==", …
    condition,  // parts[1] if parts[0] else parts[2], which may be null
  };
  Kind kind = Kind::literal;
  std::string name;
  Value value;
  std::vector<ExprPtr> parts;
  std::vector<std::pair<std::string, ExprPtr>> named;
};

struct Statement;
using Block = std::vector<std::unique_ptr<Statement>>;

struct Statement {
  enum class Kind { text, output, condition, loop, set, set_block, macro, group, break_loop, continue_loop };
  Kind kind = Kind::text;
  std::string name;                 // of a text: itself; of a macro: its name; of a set: the namespace, or nothing
  std::vector<std::string> names;   // targets of set and for; parameters of a macro
  std::vector<ExprPtr> values;      // output, iterable and filter of a loop, defaults of a macro's last parameters
  // condition: a block for each of `values`, and one for else; loop: body and else; others: the body
  std::vector<Block> blocks;
};

// ErrorCode::bad_input with the line of what is wrong; gap names a tag that is not known.
Block parse(const std::string& source);

}  // namespace pycandle::text::jinja
