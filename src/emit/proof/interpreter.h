// Runs the constructors and forward() of emitted code on the front end's own tensors, so that a capture sees what the
// compiled code would show it.
#pragma once

#include <functional>

#include "emit/proof/source.h"
#include "emit/proof/value.h"

namespace pycandle::emit::proof {

class Interpreter {
 public:
  using Todo = std::function<front::Tensor(const std::string& what)>;  // what stands where the code says todo("…")

  Interpreter(const Source& source, Todo todo) : source_(&source), todo_(std::move(todo)) {}

  // The model of those weights, called once; its outputs by name, as compile() names them.
  std::vector<std::pair<std::string, front::Tensor>> run(const front::Weights&, const std::vector<front::Tensor>& inputs);
  // The line that was being run, for errors; 0 before the first.
  const size_t& line() const { return line_; }

 private:
  struct Variable {
    Value value;
    bool is_const = false;
  };
  struct Instance;
  class SequentialLayer;
  // The names that a function sees: its variables, the innermost scope last, and the members of its object.
  struct Frame {
    const Instance* self = nullptr;
    std::vector<std::map<std::string, Variable>> scopes = std::vector<std::map<std::string, Variable>>(1);
  };

  Value built(const std::string& type, const List& arguments);
  Value built_list(const std::string& element, const List& arguments);
  Value built_sequence(const std::string& type, const std::vector<std::string>& parts, const List& arguments);
  Value instance(const Class&, const List& arguments);
  Value member(const Member&, const List& arguments);
  Value config(const Class&);
  Value cache(const std::string& type, const front::Tensor& lengths);
  Value argument(const Value&, const Parameter&) const;
  const Class* class_named(const std::string& name) const;

  Value call(const Instance& self, const Function&, const List& arguments);
  static Value returned(const Class&, const Function&, Value value);
  Value body(const std::vector<Statement>&, Frame&, bool& returns);
  Value run(const Statement&, Frame&, bool& returns);
  void loop(const Statement&, Frame&);
  static void declare(Frame&, const std::string& name, Value value, bool is_const, const std::string& type);
  static void assign(Frame&, const std::string& name, const Value& value);

  Value evaluated(const Code&, Frame&);
  List all_evaluated(const std::vector<Code>&, Frame&, size_t from = 0);
  Value named(const Code&, Frame&);
  Value called(const Code&, Frame&);
  Value called_by_name(const Code& callee, const List& arguments, Frame&);
  Value list(const Code&, Frame&);
  Value lambda(const Code&, Frame&);
  static const Value* found(const Frame&, const std::string& name);

  const Source* source_;
  Todo todo_;
  size_t line_ = 0;
};

}  // namespace pycandle::emit::proof
