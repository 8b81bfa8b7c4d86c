#include "emit/onnx/export.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>

#include "emit/onnx/complex_pairs.h"
#include "emit/onnx/forms.h"
#include "passes/passes.h"

namespace pycandle::emit::onnx {
namespace {

// Written where they are needed, not as nodes.
bool is_written_late(const Call& c) {
  static const std::set<std::string_view> kLate = {"dim", "numbers", "iota"};
  if (kLate.count(c.op().name) != 0) return true;
  if (c.op().name == "constant") return !is_complex(c.dtype("dtype"));
  return c.op().name == "broadcast" && is_real(c);
}

struct Missing {
  int count = 0;
  std::vector<std::string> places;
};

std::string place_of(const Program& p, const Node& node) {
  std::string place = p.module_path(node.origin);
  const std::string line = p.file_line(node.origin);
  if (!line.empty()) place += (place.empty() ? "" : ", ") + line;
  return place.empty() ? "the model itself" : place;
}

std::string types_of(const pycandle::Graph& g, const Node& node) {
  std::vector<std::string> types;
  for (const ValueId v : node.operands) {
    if (v != kNoValue) types.push_back(g.type(v).text());
  }
  return fmt::format("{}({})", node.op->name, fmt::join(types, ", "));
}

void find_missing(const Program& p, const pycandle::Graph& g, int opset, std::map<std::string, Missing>& missing) {
  for (const Node& node : g.nodes) {
    const Call call(*node.op, g, node.operands, node.attributes, node.regions);
    for (const pycandle::Graph& region : node.regions) find_missing(p, region, opset, missing);
    if (is_written_late(call) || form_of(call, opset) != nullptr) continue;
    Missing& m = missing[types_of(g, node)];
    ++m.count;
    if (m.places.size() < 3) m.places.push_back(place_of(p, node));
  }
}

void refuse_what_is_missing(const Program& p, int opset) {
  std::map<std::string, Missing> missing;
  find_missing(p, p.graph, opset, missing);
  if (missing.empty()) return;
  std::vector<std::string> found;
  for (const auto& [what, m] : missing) {
    found.push_back(
        fmt::format("{}{}, in {}", what, m.count > 1 ? fmt::format(", {} times", m.count) : "", fmt::join(m.places, " and ")));
  }
  throw Error(ErrorCode::gap, fmt::format("opset {} of ONNX cannot say what this model computes", opset))
      .found(fmt::format("{}", fmt::join(found, "; ")))
      .hint("pycandle bundle M --out model.pycandle is a file that runs without Python, too");
}

Program prepared(Program p, const OpTable& table, int opset) {
  p = decompose(std::move(p), table, [opset](const Call& c) { return form_of(c, opset) != nullptr; });
  p = with_complex_pairs(canonicalise(std::move(p), table), table);
  p = decompose(std::move(p), table, [opset](const Call& c) { return form_of(c, opset) != nullptr; });
  p.taps.clear();
  p = remove_unused(std::move(p), table);
  refuse_what_is_missing(p, opset);
  return p;
}

// "output.logits" is the file's output logits, "output.0" its output_0: the importer puts "output." before it again.
std::string file_name(const std::string& output) {
  static const std::string kPrefix = "output.";
  if (!output.starts_with(kPrefix)) return output;
  std::string rest = output.substr(kPrefix.size());
  const bool is_number = std::all_of(rest.begin(), rest.end(), [](unsigned char c) { return std::isdigit(c) != 0; });
  return is_number ? "output_" + rest : rest;
}

void rename(OnnxGraph& graph, const std::map<std::string, std::string>& names) {
  const auto renamed = [&](std::string& name) {
    if (const auto found = names.find(name); found != names.end()) name = found->second;
  };
  for (OnnxNode& node : graph.nodes) {
    for (std::string& input : node.inputs) renamed(input);
    for (std::string& output : node.outputs) renamed(output);
    for (auto& [key, value] : node.attributes) {
      if (auto* inner = std::get_if<std::shared_ptr<OnnxGraph>>(&value)) rename(**inner, names);
    }
  }
  for (OnnxValue& output : graph.outputs) renamed(output.name);
}

// Gives the values of the graph's outputs their names; one that is no node's result, or is two outputs, is copied.
void name_outputs(GraphWriter& w, const std::vector<std::pair<std::string, ValueId>>& outputs) {
  OnnxGraph& graph = w.graph();
  std::vector<std::pair<std::string, std::string>> found;  // name in the file, value
  for (const auto& [name, value] : outputs) found.emplace_back(name, w.name(value));
  std::set<std::string> made;
  for (const OnnxNode& node : graph.nodes) made.insert(node.outputs.begin(), node.outputs.end());
  std::map<std::string, std::string> names;
  for (size_t i = 0; i < outputs.size(); ++i) {
    const auto& [name, value] = found[i];
    if (made.count(value) == 0 || !names.emplace(value, name).second)
      graph.nodes.push_back({"Identity", w.unique("Identity"), {value}, {name}, {}});
    graph.outputs.push_back({name, w.type(outputs[i].second)});
  }
  rename(graph, names);
}

}  // namespace

Exported export_program(Program program, const ParameterSource& source, const OpTable& table, int opset) {
  if (opset < kOldestOpset || opset > kNewestOpset)
    throw Error(ErrorCode::usage, "there is no form for this opset")
        .expected(fmt::format("{} to {}", kOldestOpset, kNewestOpset))
        .found(std::to_string(opset));
  const Program p = prepared(std::move(program), table, opset);
  Writing writing{p, opset};
  writing.ranges = p.ranges();
  GraphWriter w(writing, p.graph);
  OnnxGraph& graph = w.graph();
  graph.name = p.name.empty() ? "model" : p.name;
  Exported made;
  const auto add_input = [&](const std::string& name, ValueId value) {
    const std::string unique = w.unique(name);
    graph.inputs.push_back({unique, w.type(value)});
    made.interface.inputs.emplace_back(name, unique);
    w.bind(value, unique);
  };
  std::vector<std::pair<std::string, ValueId>> outputs;
  const auto add_output = [&](const std::string& name, const std::string& in_file, ValueId value) {
    outputs.emplace_back(w.unique(in_file), value);
    made.interface.outputs.emplace_back(name, outputs.back().first);
  };
  for (const Input& input : p.inputs) add_input(input.name, input.value);
  for (const State& state : p.states) add_input(state.name, state.value);
  for (const Output& output : p.outputs) add_output(output.name, file_name(output.name), output.value);
  for (const State& state : p.states) {
    if (state.updated == kNoValue) continue;
    add_output(state.name, state.name + "_updated", state.updated);
    ++made.interface.states;
  }
  for (const Parameter& parameter : p.parameters) {
    if (parameter.value == kNoValue) continue;
    const std::string name = w.unique(parameter.name);
    graph.initializers.emplace_back(name, source.get(parameter));
    w.bind(parameter.value, name);
    ++made.parameters;
  }
  w.write_all();
  name_outputs(w, outputs);
  made.nodes = graph.nodes.size();
  made.model = {std::move(graph), opset};
  return made;
}

}  // namespace pycandle::emit::onnx
