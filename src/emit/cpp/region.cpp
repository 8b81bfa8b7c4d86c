#include "emit/cpp/region.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <map>

#include "emit/cpp/body.h"
#include "ops/core/catalogue.h"

namespace pycandle::emit::cpp {
namespace {

// A region sees nothing but its inputs, so it is a program.
Program program_of(const Program& around, const Graph& region, const std::vector<std::string>& names) {
  Program p;
  p.name = around.name;
  p.graph = region;
  p.symbols = around.symbols;
  p.files = around.files;
  for (size_t i = 0; i < region.inputs.size(); ++i) {
    p.inputs.push_back({names[i], region.inputs[i], {}, true});
  }
  for (Node& node : p.graph.nodes) node.origin.call = -1;  // all of it stands in one function
  for (size_t i = 0; i < region.outputs.size(); ++i) {
    p.outputs.push_back({region.outputs.size() == 1 ? "output" : fmt::format("output.{}", i), region.outputs[i]});
  }
  return p;
}

// The statements of a function; `inputs` are the names of what it is given.
std::vector<std::string> write_region(const Program& around, const Graph& region, const std::string& name,
                                      const std::vector<std::string>& inputs) {
  const ModelTree tree = recover(program_of(around, region, inputs), catalogue());
  const Forward forward = write_forward(tree, tree.model(), {"v"});
  std::vector<std::string> lines;
  for (size_t i = 0; i < forward.parameters.size(); ++i) {
    const std::string& parameter = forward.parameters[i];
    if (parameter.find("/*") == std::string::npos) lines.push_back(fmt::format("  {} = v[{}];", parameter, i));
  }
  lines.insert(lines.begin(), fmt::format("const auto {} = [](const Tensors&{}) {{", name, lines.empty() ? "" : " v"));
  for (const std::string& statement : forward.statements) {
    constexpr std::string_view kReturn = "return ";
    if (!statement.starts_with(kReturn)) {
      lines.push_back("  " + statement);
      continue;
    }
    const std::string value = statement.substr(kReturn.size(), statement.size() - kReturn.size() - 1);
    lines.push_back(fmt::format("  return Tensors{};", value[0] == '{' ? value : "{" + value + "}"));
  }
  lines.push_back("};");
  return lines;
}

// What the operands are called inside: as outside; what goes around a while_loop as its result.
std::vector<std::string> names_inside(const Node& node, const Surroundings& around, const ValueNames& names_of) {
  const size_t first = node.op->fixed_operands();
  size_t carries = node.operands.size();
  for (const auto& [key, attribute] : node.attributes) {
    if (key == "carries") carries = static_cast<size_t>(std::get<int64_t>(attribute));
  }
  const auto is_name = [](const std::string& text) {
    return std::all_of(text.begin(), text.end(), [](unsigned char c) { return std::isalnum(c) != 0 || c == '_'; });
  };
  Scope scope;
  std::vector<std::string> names;
  for (size_t i = first; i < node.operands.size(); ++i) {
    const std::string text = around.value(node.operands[i]).text;
    const std::string result = node.op->name == "while_loop" ? names_of.assigned(node.results[i - first]) : std::string();
    std::string name = !result.empty() ? result : is_name(text) ? text : fmt::format("x{}", i - first);
    if (i - first >= carries) name += "_t";  // of a sequence, one step's
    names.push_back(scope.take({name, fmt::format("x{}", i - first)}));
  }
  return names;
}

}  // namespace

ControlFlow write_control_flow(const Program& program, const Node& node, const Surroundings& around, const ValueNames& names_of,
                               Scope& scope) {
  static const std::map<std::string, std::vector<std::string>> roles{
      {"cond", {"yes", "no"}}, {"while_loop", {"more", "body"}}, {"scan", {"step"}}};
  ControlFlow flow;
  std::vector<std::string> names;
  const std::vector<std::string> inside = names_inside(node, around, names_of);
  for (size_t r = 0; r < node.regions.size(); ++r) {
    names.push_back(scope.take(roles.at(node.op->name).at(r)));
    for (const std::string& line : write_region(program, node.regions[r], names.back(), inside)) flow.functions.push_back(line);
  }
  std::vector<std::string> values, arguments;
  for (size_t i = node.op->fixed_operands(); i < node.operands.size(); ++i) values.push_back(around.value(node.operands[i]).text);
  if (node.op->name == "cond") arguments.push_back(around.value(node.operands[0]).text);
  arguments.push_back("{" + joined(values) + "}");
  std::string options;
  for (const auto& [key, attribute] : node.attributes) {
    if (key == "carries") arguments.push_back(std::to_string(std::get<int64_t>(attribute)));
    if (key == "length") arguments.push_back(around.dim(std::get<Dim>(attribute)).text);
    if (key == "reverse" && std::get<bool>(attribute)) options = "{.reverse = true}";
  }
  arguments.insert(arguments.end(), names.begin(), names.end());
  if (!options.empty()) arguments.push_back(options);
  flow.call = fmt::format("functional::{}({})", node.op->name, joined(arguments));
  return flow;
}

}  // namespace pycandle::emit::cpp
