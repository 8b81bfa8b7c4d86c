// Who a tapped value is, in the words of the recording:
//
//   h.3.mlp@0/output.1   what call 0 of the module h.3.mlp gave, part 1 of it; the root has no name: @0/output
//   h.3.mlp@0/input.x    what it was called with
//   node:17              the result of a node that no module gives or takes
//   input:ids, output:logits, state:cache, updated:cache, whole run:logits   values of the program
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace pycandle {

struct TapId {
  enum class Kind { module_output, module_input, node, input, output, state_before, state_after, whole_run };
  Kind kind = Kind::module_output;
  std::string module;  // of the first two kinds; "" is the root
  int64_t call = 0;    // of the first two kinds: which call of the module
  std::string part;    // of the first two kinds "1", "x", "0.key", or "" for all of it; else the number or the name

  TapId() = default;
  TapId(Kind k, std::string name) : kind(k), part(std::move(name)) {}
  TapId(Kind k, std::string path, int64_t number, std::string which = {})
      : kind(k), module(std::move(path)), call(number), part(std::move(which)) {}
  // "h.3.mlp" and "h.3.mlp@1" are short for what that call gave. Every text is the name of something.
  static TapId parse(std::string_view);
  std::string text() const;

  bool is_of_module() const { return kind == Kind::module_output || kind == Kind::module_input; }
  bool is_argument() const { return kind == Kind::module_input; }
  std::string module_call() const;  // "h.3.mlp@0"; empty when no module has to do with it
  friend auto operator<=>(const TapId&, const TapId&) = default;
};

}  // namespace pycandle
