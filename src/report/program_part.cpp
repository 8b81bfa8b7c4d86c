// The program: module calls, nodes with their text, values, and the lines of Python that they came from.
#include <fmt/format.h>

#include <cmath>

#include "ir/text.h"
#include "ops/core/catalogue.h"
#include "report/parts.h"
#include "runtime/cost.h"

namespace pycandle::report {

double rounded(double v) { return std::isfinite(v) ? std::stod(fmt::format("{:.4g}", v)) : v; }

namespace {

// The text form prints a node a line, or more when it has regions: those lines are indented or begin with "}".
std::vector<std::string> node_texts(const Program& program) {
  const std::string text = print(program, {.origins = false});
  std::vector<std::string> nodes;
  bool inside = false;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = text.find('\n', begin);
    const std::string line = text.substr(begin, end - begin);
    begin = end == std::string::npos ? text.size() : end + 1;
    if (line.starts_with('%') || line.starts_with("() =")) {
      nodes.push_back(line);
      inside = true;
    } else if (inside && (line.starts_with(' ') || line.starts_with('}'))) {
      nodes.back() += "\n" + line;
    } else {
      inside = false;
    }
  }
  nodes.resize(program.graph.nodes.size());
  return nodes;
}

Json calls_json(const Program& p, Texts& texts) {
  Json calls = Json::array();
  for (const ModuleCall& call : p.calls)
    calls.push_back(
        {call.path, call.call, texts.number(call.class_name), call.parent, call.class_file, call.class_line, call.forward_line});
  return {{"fields", {"path", "call", "class", "parent", "file", "line", "forward"}}, {"rows", calls}};
}

Json nodes_json(const Program& p, const Cost& cost, Texts& texts) {
  const std::vector<std::string> printed = node_texts(p);
  Json nodes = Json::array();
  for (size_t i = 0; i < p.graph.nodes.size(); ++i) {
    const Node& n = p.graph.nodes[i];
    nodes.push_back({texts.number(n.op->name), n.origin.call, n.origin.file, n.origin.line, n.operands, n.results,
                     rounded(cost.node_flops.at(i)), printed[i]});
  }
  return {{"fields", {"op", "call", "file", "line", "operands", "results", "flops", "text"}}, {"rows", nodes}};
}

// A type for each value, and its bytes at the recorded sizes.
Json values_json(const Program& p, const Bindings& sizes, Texts& texts) {
  Json types = Json::array(), bytes = Json::array();
  for (const Value& v : p.graph.values) {
    types.push_back(texts.number(v.type.text()));
    double count = static_cast<double>(size_of(v.type.dtype));
    for (const Dim d : v.type.shape) count *= static_cast<double>(d.evaluate(sizes));
    bytes.push_back(count);
  }
  return {{"types", types}, {"bytes", bytes}};
}

Json symbols_json(const Program& p) {
  Json symbols = Json::array();
  for (const Symbol& s : p.symbols)
    symbols.push_back({{"name", s.name},
                       {"min", s.range.min},
                       {"max", s.range.max ? Json(*s.range.max) : Json()},
                       {"example", s.example},
                       {"input", s.input}});
  return symbols;
}

template <class Named> Json named_values(const std::vector<Named>& list) {
  Json rows = Json::array();
  for (const Named& item : list) rows.push_back({{"name", item.name}, {"value", item.value}});
  return rows;
}

}  // namespace

Json program_part(const Recording& recording, Texts& texts) {
  const Program& p = recording.program;
  const Bindings sizes = example_sizes(p);
  const Cost cost = program_cost(p, catalogue(), sizes);
  Json files = Json::array();
  for (const SourceFile& file : p.files) {
    Json lines = Json::array();
    for (const auto& [number, line] : file.lines) lines.push_back({number, line});
    files.push_back({{"path", file.path}, {"lines", lines}});
  }
  return {{"inputs", named_values(p.inputs)},
          {"outputs", named_values(p.outputs)},
          {"states", named_values(p.states)},
          {"symbols", symbols_json(p)},
          {"parameter_elements", cost.parameter_elements},
          {"parameter_bytes", cost.parameter_bytes},
          {"flops", cost.flops},
          {"peak_activation_bytes", cost.peak_activation_bytes},
          {"taps", p.taps.size()},
          {"files", files},
          {"calls", calls_json(p, texts)},
          {"nodes", nodes_json(p, cost, texts)},
          {"values", values_json(p, sizes, texts)}};
}

}  // namespace pycandle::report
