// A recorded model in a few lines: module calls, parameters and nodes as the recorder and the importer would give them.
#pragma once

#include <string>
#include <vector>

#include "emit/tree.h"
#include "ops/core/catalogue.h"

namespace pycandle {

class Sketch {
 public:
  explicit Sketch(const std::string& root_class) : b_(p_.graph, catalogue()) {
    p_.name = "sketch";
    p_.symbols.push_back({"s0", {1, {}}, 2, "x", 0});
    p_.files.push_back({"model.py", {}});
    enter("", root_class);
  }

  Builder& b() { return b_; }
  ValueId input(const std::string& name, Shape shape) {
    const ValueId v = p_.graph.add_input({DType::f32, std::move(shape)});
    p_.inputs.push_back({name, v, {}, true});
    p_.calls[0].args.emplace_back(name, tree(v));
    return v;
  }
  // The result of a node that is not supported.
  ValueId gap(const std::string& what, Shape shape) {
    const ValueId v = p_.graph.add_input({DType::f32, std::move(shape)});
    p_.inputs.push_back({"gap " + std::to_string(p_.inputs.size()), v, {}, true, what});
    return v;
  }
  ValueId parameter(const std::string& name, Shape shape, std::vector<std::string> aliases = {}) {
    const Type type{DType::f32, std::move(shape)};
    const ValueId v = p_.graph.add_input(type);
    p_.parameters.push_back({name, std::move(aliases), Parameter::Kind::parameter, true, v, type, "w.safetensors", name});
    return v;
  }
  // The nodes made from here on belong to this call, until leave().
  void enter(const std::string& path, const std::string& class_name,
             const std::vector<std::pair<std::string, ValueId>>& args = {}) {
    ModuleCall call;
    call.path = path;
    call.class_name = class_name;
    call.parent = stack_.empty() ? -1 : stack_.back();
    call.class_file = 0;
    call.class_line = 10;
    for (const ModuleCall& other : p_.calls) call.call += other.path == path ? 1 : 0;
    for (const auto& [name, v] : args) call.args.emplace_back(name, tree(v));
    stack_.push_back(static_cast<int32_t>(p_.calls.size()));
    p_.calls.push_back(std::move(call));
    b_.origin.call = stack_.back();
  }
  ValueId leave(ValueId result) {
    p_.calls[stack_.back()].output = tree(result);
    stack_.pop_back();
    b_.origin.call = stack_.empty() ? 0 : stack_.back();
    return result;
  }
  void assigned_to(const std::string& name, int32_t line) {
    b_.origin.assigned_to = name;
    b_.origin.file = 0;
    b_.origin.line = line;
  }
  // nn.Linear(in, out) at that path.
  ValueId linear(const std::string& path, ValueId x, int64_t in, int64_t out) {
    const ValueId weight = known(path + ".weight", {out, in}), bias = known(path + ".bias", {out});
    enter(path, "torch.nn.modules.linear.Linear", {{"input", x}});
    return leave(b_.create("linear", {x, weight, bias}, {{"weight_order", std::string("out_in")}}));
  }
  ValueId relu(const std::string& path, ValueId x) {
    enter(path, "torch.nn.modules.activation.ReLU", {{"input", x}});
    return leave(b_.create("relu", {x}));
  }
  emit::ModelTree recovered(const std::vector<ValueId>& outputs) {
    for (size_t i = 0; i < outputs.size(); ++i) {
      p_.outputs.push_back({outputs.size() == 1 ? "output" : "output." + std::to_string(i), outputs[i]});
    }
    p_.bind_outputs();
    return emit::recover(p_, catalogue());
  }

 private:
  static Tree tree(ValueId v) {
    Tree t;
    t.kind = Tree::Kind::value;
    t.value = v;
    return t;
  }
  ValueId known(const std::string& name, Shape shape) {
    for (const Parameter& q : p_.parameters) {
      if (q.name == name) return q.value;
    }
    return parameter(name, std::move(shape));
  }

  Program p_;
  Builder b_;
  std::vector<int32_t> stack_;
};

}  // namespace pycandle
