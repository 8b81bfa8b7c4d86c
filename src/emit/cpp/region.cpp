#include "emit/cpp/region.h"

#include <fmt/format.h>

#include "emit/cpp/body.h"
#include "ops/catalogue.h"

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
  for (size_t i = 0; i < region.outputs.size(); ++i) {
    p.outputs.push_back({region.outputs.size() == 1 ? "output" : fmt::format("output.{}", i), region.outputs[i]});
  }
  return p;
}

}  // namespace

std::vector<std::string> write_region(const Program& around, const Graph& region, const std::string& name,
                                      const std::vector<std::string>& inputs) {
  const ModelTree tree = recover(program_of(around, region, inputs), catalogue());
  const Forward forward = write_forward(tree, tree.model());
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

}  // namespace pycandle::emit::cpp
