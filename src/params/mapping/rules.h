// Rules say which tensor of a checkpoint becomes which parameter, as text that a person reads and edits:
//
//   h.{n}.attn.weight   = transpose(model/h{n}/attn/w)       # {n}: any number
//   q_proj.{part}       = slice(qkv.{part}, 0, 0, 768)       # {part}: any name without a dot
//   *                   = module.*                           # *: anything
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace pycandle {

// A tensor of the checkpoint, or a function of some.
struct SourceExpr {
  std::string function;               // empty: the tensor called `name`
  std::string name;
  std::vector<SourceExpr> operands;
  std::vector<double> numbers;        // after the operands

  static SourceExpr tensor(std::string name) { return {{}, std::move(name), {}, {}}; }
  static SourceExpr call(std::string function, std::vector<SourceExpr> operands, std::vector<double> numbers = {}) {
    return {std::move(function), {}, std::move(operands), std::move(numbers)};
  }
  bool is_tensor() const { return function.empty(); }
  std::string text() const;
  void collect(std::vector<std::string>& names) const;  // of the tensors in it
  friend bool operator==(const SourceExpr&, const SourceExpr&) = default;
};

struct Rule {
  std::string target;                 // a pattern
  SourceExpr source;                  // with the same placeholders
  std::string note;                   // the comment behind it
  int line = 0;                       // where it stands in its file
};

class Rules {
 public:
  Rules() = default;
  // bad_input with the line for what cannot be read. `name` names the file.
  static Rules parse(std::string_view text, const std::string& name);

  // The source of this parameter by the first rule that fits it; none: no rule speaks of it.
  std::optional<SourceExpr> source_of(const std::string& target) const;
  const std::vector<Rule>& all() const { return rules_; }
  void add(Rule rule) { rules_.push_back(std::move(rule)); }
  std::string text() const;

 private:
  std::vector<Rule> rules_;
};

// Rules that differ only in numbers become one with {n}: twelve layers are one line.
Rules merged(const Rules&);

}  // namespace pycandle
