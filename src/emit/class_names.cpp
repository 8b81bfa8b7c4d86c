#include "emit/class_names.h"

#include <algorithm>
#include <array>
#include <map>
#include <set>

#include "emit/names.h"

namespace pycandle::emit {
namespace {

// What the front end calls its own things.
constexpr std::array kTaken{"Tensor",    "Dim",     "Dims",    "Weights",  "Checker",  "Array",     "Error",       "DType",
                            "Scalar",    "Slice",   "Ints",    "Numbers",  "PerAxis",  "Operand",   "Signature",   "Symbol",
                            "Compiled",  "Module",  "NewAxis", "Ellipsis", "Output",   "ErrorCode", "CheckResult", "RoundTrip",
                            "Structure", "Program", "Config",  "State",    "Recorded", "Tensors"};

constexpr size_t kLongestName = 38;

bool is_plain_sequential(const ModuleClass& c) { return c.python_class == "torch.nn.modules.container.Sequential"; }

std::string base_name(const Program& p, const ModuleClass& c) {
  const std::string& path = p.calls[c.call].path;
  std::string name;
  if (is_plain_sequential(c) && !path.empty()) {
    const std::string last = last_part(path);
    const bool is_number = !last.empty() && last.find_first_not_of("0123456789") == std::string::npos;
    name = is_number ? last_part(all_but_last(path)) : last;
    if (c.instances > 1) name = name.substr(0, name.find_last_not_of("0123456789_") + 1);  // layer1, layer2: Layer
    if (is_number && c.instances == 1) name += "_" + last;                                 // features.1: Features1
    if (is_number && c.instances > 1 && name.size() > 2 && name.back() == 's') name.pop_back();  // stages.1: Stage
    name = camel_case(name);
  } else {
    name = identifier(last_part(c.python_class));
  }
  if (name.empty() || name == "value") name = "Model";
  if (std::find(kTaken.begin(), kTaken.end(), name) != kTaken.end() || !may_be_member(name)) name += "Module";
  return name;
}

void used_classes(const Use& use, std::vector<int32_t>& found) {
  if (use.module_class >= 0) found.push_back(use.module_class);
  for (const Use& part : use.sequence) used_classes(part, found);
}

const ModuleCall& recorded(const Program& p, const ModuleClass& c) { return p.calls[c.call]; }

// Python's own switches that one has on and the other off: use_res_connect → WithResConnect, WithoutResConnect.
void add_switches(const ModuleCall& usual, const ModuleCall& variant, std::vector<std::string>& found) {
  for (const auto& [name, value] : variant.attributes) {
    const bool* on = std::get_if<bool>(&value);
    if (!on) continue;
    for (const auto& [other, theirs] : usual.attributes) {
      const bool* usually = std::get_if<bool>(&theirs);
      if (other != name || !usually || *usually == *on) continue;
      std::string what = name;
      for (const char* verb : {"use_", "is_", "has_", "with_", "do_"}) {
        if (what.starts_with(verb)) what = what.substr(std::string_view(verb).size());
      }
      found.push_back((*on ? "With" : "Without") + camel_case(what));
    }
  }
}

std::set<std::string> ops_of(const Program& p, const ModuleClass& c) {
  std::set<std::string> ops;
  for (const Step& step : c.steps) {
    if (step.kind == Step::Kind::node) ops.insert(p.graph.nodes[step.node].op->name);
  }
  return ops;
}

// Ops of one that the other lacks.
void add_ops(const std::set<std::string>& mine, const std::set<std::string>& others, const char* word,
             std::vector<std::string>& found) {
  for (const std::string& op : mine) {
    if (others.count(op) == 0) found.push_back(word + camel_case(op));
  }
}

// "First" or "Last" when it is the only one of its kind and stands there among all of its Python class.
std::string position(const Program& p, const ModuleClass& c) {
  if (c.instances != 1) return {};
  int32_t first = c.call, last = c.call;
  for (size_t i = 0; i < p.calls.size(); ++i) {
    if (p.calls[i].class_name != c.python_class) continue;
    first = std::min(first, static_cast<int32_t>(i));
    last = std::max(last, static_cast<int32_t>(i));
  }
  if (first == last) return {};
  return c.call == first ? "First" : c.call == last ? "Last" : "";
}

// What a variant has that the usual class has not: a child, an argument, or a child that is a variant itself.
std::vector<std::string> differences(const ModuleClass& usual, const ModuleClass& variant,
                                     const std::map<int32_t, std::string>& suffix_of) {
  std::vector<std::string> found;
  std::set<std::string> known;
  for (const Child& child : usual.children) known.insert(child.name);
  for (const Child& child : variant.children) {
    if (known.count(child.name) == 0) found.push_back("With" + camel_case(child.name));
  }
  std::vector<int32_t> parts;
  for (const Child& child : variant.children) used_classes(child.use, parts);
  for (const int32_t part : parts) {
    const auto suffix = suffix_of.find(part);
    if (suffix != suffix_of.end() && !suffix->second.empty()) found.push_back(suffix->second);
  }
  const std::set<std::string> arguments(usual.input_names.begin(), usual.input_names.end());
  for (const std::string& name : variant.input_names) {
    if (!name.empty() && arguments.count(name) == 0) found.push_back("With" + camel_case(name));
  }
  std::set<std::string> missing;
  for (const Child& child : variant.children) known.erase(child.name);
  for (const std::string& name : known) missing.insert("Without" + camel_case(name));
  found.insert(found.end(), missing.begin(), missing.end());
  return found;
}

}  // namespace

void name_classes(const Program& p, std::vector<ModuleClass>& classes) {
  std::map<std::string, std::vector<int32_t>> by_name;
  for (size_t c = 0; c < classes.size(); ++c) by_name[base_name(p, classes[c])].push_back(static_cast<int32_t>(c));
  Scope scope;
  std::map<int32_t, std::string> suffix_of;
  // In the order of the classes: those inside have their suffix before those around them ask.
  std::map<std::string, int32_t> usual;
  for (const auto& [name, variants] : by_name) {
    const auto rank = [&](int32_t c) {
      const ModuleClass& m = classes[c];
      return std::pair(-m.instances, m.children.size());
    };
    usual[name] = *std::min_element(variants.begin(), variants.end(), [&](int32_t a, int32_t b) { return rank(a) < rank(b); });
    classes[usual[name]].name = scope.take(name);
  }
  for (size_t c = 0; c < classes.size(); ++c) {
    ModuleClass& variant = classes[c];
    const std::string name = base_name(p, variant);
    const int32_t plain = usual[name];
    if (plain == static_cast<int32_t>(c)) continue;
    std::vector<std::string> candidates;
    const std::vector<std::string> suffixes = differences(classes[plain], variant, suffix_of);
    for (const std::string& suffix : suffixes) candidates.push_back(name + suffix);
    const std::string where = position(p, variant);
    if (!where.empty()) candidates.insert(by_name[name].size() > 2 ? candidates.begin() : candidates.end(), where + name);
    std::vector<std::string> others;
    add_switches(recorded(p, classes[plain]), recorded(p, variant), others);
    const std::set<std::string> mine = ops_of(p, variant), usual_ops = ops_of(p, classes[plain]);
    add_ops(mine, usual_ops, "With", others);
    add_ops(usual_ops, mine, "Without", others);
    for (const std::string& suffix : others) candidates.push_back(name + suffix);
    candidates.push_back(name + "2");
    // struct Name : nn::Module<Name> { has a line for itself.
    std::stable_partition(candidates.begin(), candidates.end(),
                          [](const std::string& text) { return text.size() <= kLongestName; });
    variant.name = scope.take(candidates);
    if (variant.name.starts_with(name)) suffix_of[static_cast<int32_t>(c)] = variant.name.substr(name.size());
  }
}

void rename_hiding_members(std::vector<ModuleClass>& classes) {
  std::set<std::string> types(kTaken.begin(), kTaken.end());
  for (const ModuleClass& c : classes) types.insert(c.name);
  for (ModuleClass& c : classes) {
    std::vector<std::string*> members;
    for (Child& child : c.children) members.push_back(&child.name);
    for (TensorField& tensor : c.tensors) members.push_back(&tensor.name);
    for (NumberField& number : c.numbers) members.push_back(&number.name);
    Scope scope;
    for (const std::string& type : types) scope.reserve(type);
    for (const std::string* member : members) scope.reserve(*member);
    for (std::string* member : members) {
      if (types.count(*member) != 0) *member = scope.take({identifier(snake_case(*member)), *member + "_"});
    }
  }
}

}  // namespace pycandle::emit
