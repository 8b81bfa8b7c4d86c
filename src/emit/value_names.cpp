#include "emit/value_names.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>

#include "emit/names.h"
#include "import/importer.h"

namespace pycandle::emit {
namespace {

// What each of several results is, in a word; empty when nobody says.
std::string noun_of_part(const OpDef& op, size_t part) {
  return op.result_nouns.size() > 1 && part < op.result_nouns.size() ? op.result_nouns[part] : "";
}

// What the result of an op is, in a word.
std::string noun(const OpDef& op) { return op.result_nouns.size() == 1 ? op.result_nouns[0] : identifier(op.name) + "_out"; }

// Names of operands that say what the value is for.
bool says_what_for(const std::string& operand) {
  static const std::map<std::string, int> names{{"query", 0},  {"key", 0},    {"value", 0},   {"attn_mask", 0}, {"key_mask", 0},
                                                {"cos", 0},    {"sin", 0},    {"indices", 0}, {"index", 0},     {"condition", 0},
                                                {"window", 0}, {"target", 0}, {"offsets", 0}, {"grid", 0}};
  return names.count(operand) != 0;
}

}  // namespace

ValueNames::ValueNames(const ModelTree& tree, const ModuleClass& made)
    : tree_(&tree), class_(&made), is_of_torch_(made.python_class.starts_with("torch.nn.modules.")) {}

const Node* ValueNames::producer(ValueId v) const {
  const NodeId n = tree_->program->graph.values[v].node;
  return n < 0 ? nullptr : &tree_->program->graph.nodes[n];
}

// Nodes of torch's own modules have the place of the call, so they name what this class assigns; nodes of other classes
// have places of their own.
bool ValueNames::speaks_for_class(const Node& node) const {
  const auto& calls = tree_->program->calls;
  if (is_of_torch_) return false;
  if (node.origin.call < 0) return true;
  const int32_t at = tree_->calls->call_of(static_cast<size_t>(&node - tree_->program->graph.nodes.data()));
  if (at == class_->call) return !calls[node.origin.call].class_name.starts_with("torch.nn.modules.container");
  return tree_->calls->parent(at) == class_->call && calls[at].class_name.starts_with("torch.nn.modules.");
}

namespace {

// The n-th name on the left of an assignment; empty when it is none that a variable can have.
std::string target(const std::string& assigned_to, size_t n) {
  const std::vector<std::string> names = parts(assigned_to, ',');
  if (n >= names.size()) return {};
  const size_t start = names[n].find_first_not_of(' ');
  const std::string name = start == std::string::npos ? "" : names[n].substr(start);
  if (name == "_" || name.find_first_of("[(") != std::string::npos) return {};
  return identifier(last_part(name));
}

// Which of Python's names a result has. scan gives its carries first and then what the steps gave; carries that Python does
// not have (what its function takes from around it) stand last among them.
std::optional<size_t> name_of_result(const Node& node, size_t result) {
  if (node.op->name != "scan") return result;
  size_t carries = 0;
  for (const auto& [key, value] : node.attributes) {
    if (key == "carries") carries = static_cast<size_t>(std::get<int64_t>(value));
  }
  const size_t names = parts(node.origin.assigned_to, ',').size(), given = node.results.size() - carries;
  if (names < given) return {};
  if (result >= carries) return names - given + (result - carries);
  return result < names - given ? std::optional(result) : std::nullopt;
}

const Step* step_that_gives(ValueId v, const std::vector<Step>& steps) {
  for (const Step& step : steps) {
    if (step.kind == Step::Kind::loop) {
      if (const Step* found = step_that_gives(v, step.body)) return found;
    }
    if (step.kind == Step::Kind::call && std::find(step.results.begin(), step.results.end(), v) != step.results.end())
      return &step;
  }
  return nullptr;
}

}  // namespace

// What this class assigns the result of a module's call to. The parts of an nn.Sequential are called by torch, so for
// them it is what the whole is assigned to.
std::string ValueNames::assigned_call(ValueId v) const {
  const Step* step = step_that_gives(v, class_->steps);
  if (!step || step->call < 0 || is_of_torch_) return {};
  const auto& calls = tree_->program->calls;
  for (int32_t call = step->call; call > 0 && call != class_->call; call = calls[call].parent) {
    for (const auto& [key, value] : calls[call].attributes) {
      if (key != kAssignedTo) continue;
      const std::string& names = std::get<std::string>(value);
      if (names.find(',') == std::string::npos) return step->results.size() == 1 ? target(names, 0) : std::string();
      const CallBody& body = tree_->calls->body(call);
      const auto at = std::find(body.outputs.begin(), body.outputs.end(), v);
      if (at == body.outputs.end()) return {};
      const std::string& path = body.output_names[at - body.outputs.begin()];
      const bool is_index = !path.empty() && path.size() < 4 && path.find_first_not_of("0123456789") == std::string::npos;
      return is_index ? target(names, static_cast<size_t>(std::stoul(path))) : std::string();
    }
    const int32_t around = calls[call].parent;
    if (around < 0 || !calls[around].class_name.starts_with("torch.nn.modules.container")) break;
  }
  return {};
}

std::string ValueNames::assigned(ValueId v) const {
  if (std::string name = assigned_call(v); !name.empty()) return name;
  const Node* node = producer(v);
  if (!node || node->origin.assigned_to.empty() || !speaks_for_class(*node)) return {};
  if (node->origin.assigned_to.find(',') == std::string::npos) return target(node->origin.assigned_to, 0);
  if (node->results.size() == 1) return {};  // a part of what was unpacked: which one is not known
  const auto place = name_of_result(*node, static_cast<size_t>(tree_->program->graph.values[v].index));
  return place ? target(node->origin.assigned_to, *place) : std::string();
}

// The name of the operand that the value is, or becomes after being rearranged.
std::string ValueNames::purpose(ValueId v, int depth) const {
  for (const Node& user : tree_->program->graph.nodes) {
    for (size_t i = 0; i < user.operands.size() && i < user.op->operand_specs.size(); ++i) {
      if (user.operands[i] != v) continue;
      const std::string& operand = user.op->operand_specs[i].name;
      if (says_what_for(operand)) return operand;
      if (depth == 0 || i > 0 || !user.op->keeps_purpose) continue;
      const std::string later = purpose(user.results[0], depth - 1);
      if (!later.empty()) return later;
    }
  }
  return {};
}

std::vector<std::string> ValueNames::candidates(ValueId v) const {
  std::vector<std::string> found;
  if (class_->python_class.starts_with("torch.nn.modules.container")) found.push_back("x");  // nobody gave it a name
  const std::string what_for = purpose(v, 3);
  if (!what_for.empty()) {
    found.push_back(what_for);
    if (const Node* node = producer(v)) found.push_back(what_for + "_" + noun(*node->op));
  }
  for (const Step& step : class_->steps) {
    if (step.kind != Step::Kind::call) continue;
    for (size_t i = 0; i < step.results.size(); ++i) {
      if (step.results[i] != v) continue;
      const std::string& child = class_->children[step.child].name;
      found.push_back(child + "_output");
    }
  }
  if (const Node* node = producer(v)) {
    const auto part = static_cast<size_t>(tree_->program->graph.values[v].index);
    if (const std::string own = noun_of_part(*node->op, part); !own.empty()) found.push_back(own);
    found.push_back(noun(*node->op));
  } else if (tree_->calls->parameter(v) || tree_->calls->state(v)) {
    found.push_back(identifier(last_part(tree_->calls->stored_name(v))));
  }
  if (found.empty()) found.push_back("x");
  return found;
}

std::string ValueNames::argument(ValueId v) const {
  const Program& p = *tree_->program;
  for (const Step& step : class_->steps) {
    if (step.kind != Step::Kind::call || step.arguments.empty() || step.arguments[0] != v) continue;
    const std::string called = "." + last_part(p.calls[step.call].path) + "(";
    for (const Node& node : p.graph.nodes) {
      const std::string line = node.origin.call == step.call ? p.source_line(node.origin) : std::string();
      const size_t at = line.find(called);
      if (at == std::string::npos) continue;
      const size_t begin = at + called.size(), end = line.find_first_of(",)", begin);
      const std::string name = line.substr(begin, end == std::string::npos ? end : end - begin);
      if (!name.empty() && identifier(name) == name) return name;
    }
  }
  return {};
}

std::string ValueNames::of(ValueId v) const {
  const Node* node = producer(v);
  if (node && !node->origin.assigned_to.empty() && node->origin.assigned_to.find_first_of("[(") == std::string::npos) {
    const std::vector<std::string> names = parts(node->origin.assigned_to, ',');
    const auto index = static_cast<size_t>(tree_->program->graph.values[v].index);
    if (names.size() == 1) return identifier(last_part(names[0]));
    if (node->results.size() > 1 && index < names.size()) {
      return identifier(last_part(names[index].substr(names[index].find_first_not_of(' '))));
    }
  }
  return candidates(v)[0];
}

bool ValueNames::same_statement(ValueId v, size_t step, const std::vector<Step>& steps) const {
  if (step >= steps.size() || steps[step].kind != Step::Kind::node) return false;
  const Node* made = producer(v);
  const Node& user = tree_->program->graph.nodes[steps[step].node];
  return made && made->origin.file == user.origin.file && made->origin.line == user.origin.line &&
         made->origin.assigned_to == user.origin.assigned_to;
}

std::string ValueNames::assigned_by(size_t step, const std::vector<Step>& steps) const {
  if (step >= steps.size()) return {};
  const Step& s = steps[step];
  if (s.kind == Step::Kind::node) return assigned(tree_->program->graph.nodes[s.node].results[0]);
  if (s.kind == Step::Kind::call && s.results.size() == 1) return assigned(s.results[0]);
  return {};
}

}  // namespace pycandle::emit
