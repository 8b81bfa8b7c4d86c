// An emitted header as a tree: what a compiler would see of it.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace pycandle::emit::proof {

struct Statement;

// An expression.
struct Code {
  enum class Kind { number, string, name, list, call, member, element, prefix, infix, choice, function } kind = Kind::name;
  std::string text;  // the number, the string, the name, the member's name, the operator; of a list: its type
  std::string types;  // chunk<3>: "3"
  std::vector<Code> parts;  // choice: the condition, then both; call: who is called, then the arguments; member, element: whose
                            // it is comes first
  std::vector<std::string> fields;  // list: .bias = …; empty when it has none
  std::vector<std::string> parameters;  // function
  std::vector<Statement> body;  // function
  size_t line = 0;
};

struct Statement {
  enum class Kind { declare, declare_parts, assign, assign_parts, for_each, for_count, give, call } kind = Kind::give;
  std::vector<std::string> names;  // what is declared or assigned to; the variable of a loop
  std::string type;  // declare, for_each: "Tensor", "Dim", "auto"
  bool is_const = false;
  bool has_value = true;
  Code value;  // the value; the list or the limit of a loop
  std::vector<Statement> body;  // of a loop
  size_t line = 0;
};

struct Parameter {
  std::string type, name;  // "Tensor", "x"; no name: it is not used
  bool is_const = false;
  bool has_default = false;
};

struct Function {
  std::string result, name;
  std::vector<Parameter> parameters;
  std::vector<Statement> body;
};

struct Member {
  std::string type, name;
  size_t line = 0;
};

struct Class {
  std::string name;
  std::vector<Member> members;
  std::vector<Parameter> constructed_with;
  std::vector<Code> initialised;  // calls: fc(4, 4, w / "fc")
  std::vector<Function> functions;
  std::vector<Member> output;  // of struct Output
  std::vector<std::pair<std::string, std::string>> output_paths;  // "logits": the field
  bool is_module = true;  // false: struct Config, whose members have values, or a part of the Cache
  std::vector<Code> values;  // of such members: a value, {…}, or a name that is empty
};

struct Source {
  std::string name_space;
  std::vector<Class> classes;  // the last is the model
};

// An Error (gap) that names the line when the text is not as models are emitted.
Source read_source(std::string_view text);

}  // namespace pycandle::emit::proof
