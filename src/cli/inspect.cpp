// pycandle inspect: what a recording holds.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <map>

#include "base/json.h"
#include "cli/command.h"
#include "cli/running.h"
#include "cli/terminal.h"
#include "import/importer.h"
#include "ir/text.h"
#include "ops/core/catalogue.h"
#include "passes/decode_step.h"
#include "passes/pipeline.h"
#include "runtime/cost.h"

namespace pycandle::cli {
namespace {

struct ModuleRow {
  std::string path, class_name;
  int calls = 0, nodes = 0;
  double flops = 0;
  int64_t parameters = 0;
};

// A module's nodes and FLOPs count for every module around it, parameters by their names.
std::vector<ModuleRow> module_rows(const Program& program, const Cost& cost) {
  std::vector<ModuleRow> rows;
  std::map<std::string, size_t> index;
  for (const ModuleCall& call : program.calls) {
    const auto [place, is_new] = index.try_emplace(call.path, rows.size());
    if (is_new) rows.push_back({call.path, call.class_name});
    ++rows[place->second].calls;
  }
  for (size_t i = 0; i < program.graph.nodes.size(); ++i) {
    for (int32_t call = program.graph.nodes[i].origin.call; call >= 0; call = program.calls[call].parent) {
      ModuleRow& row = rows[index.at(program.calls[call].path)];
      ++row.nodes;
      row.flops += cost.node_flops[i];
    }
  }
  for (const Parameter& parameter : program.parameters) {
    const int64_t count = all_numbers(parameter.type.shape) ? product(parameter.type.shape).number() : 0;
    for (std::string path = parameter.name; !path.empty();) {  // a.b.weight counts for a.b, a and the root
      const size_t dot = path.rfind('.');
      path.resize(dot == std::string::npos ? 0 : dot);
      if (const auto place = index.find(path); place != index.end()) rows[place->second].parameters += count;
    }
  }
  return rows;
}

std::vector<std::pair<std::string, int>> op_counts(const Graph& graph) {
  std::map<std::string, int> counts;
  for (const Node& node : graph.nodes) ++counts[node.op->name];
  std::vector<std::pair<std::string, int>> sorted(counts.begin(), counts.end());
  std::stable_sort(sorted.begin(), sorted.end(), [](const auto& a, const auto& b) { return a.second > b.second; });
  return sorted;
}

Json typed(const std::string& name, const Type& type) {
  Json shape = Json::array();
  for (const Dim d : type.shape) shape.push_back(d.is_number() ? Json(d.number()) : Json(d.text()));
  return {{"name", name}, {"dtype", name_of(type.dtype)}, {"shape", shape}};
}

Json to_json(const Recording& recording, const Cost& cost, const std::vector<ModuleRow>& modules) {
  const Program& p = recording.program;
  Json inputs = Json::array(), outputs = Json::array(), parameters = Json::array(), ops = Json::object(), rows = Json::array(),
       symbols = Json::array();
  for (const Input& input : p.inputs) inputs.push_back(typed(input.name, p.graph.type(input.value)));
  for (const Output& output : p.outputs) outputs.push_back(typed(output.name, p.graph.type(output.value)));
  for (const Parameter& parameter : p.parameters) {
    Json entry = typed(parameter.name, parameter.type);
    entry["aliases"] = parameter.aliases;
    parameters.push_back(std::move(entry));
  }
  for (const auto& [name, count] : op_counts(p.graph)) ops[name] = count;
  for (const ModuleRow& m : modules)
    rows.push_back({{"path", m.path},
                    {"class", m.class_name},
                    {"calls", m.calls},
                    {"nodes", m.nodes},
                    {"flops", m.flops},
                    {"parameters", m.parameters}});
  for (const Symbol& s : p.symbols)
    symbols.push_back({{"name", s.name},
                       {"min", s.range.min},
                       {"max", s.range.max ? Json(*s.range.max) : Json()},
                       {"example", s.example},
                       {"input", s.input},
                       {"axis", s.axis}});
  return {{"name", p.name},
          {"class", recording.model_class},
          {"soundness", recording.soundness},
          {"notes", recording.notes},
          {"symbols", symbols},
          {"inputs", inputs},
          {"outputs", outputs},
          {"nodes", p.graph.nodes.size()},
          {"taps", p.taps.size()},
          {"parameter_elements", cost.parameter_elements},
          {"parameter_bytes", cost.parameter_bytes},
          {"flops", cost.flops},
          {"peak_activation_bytes", cost.peak_activation_bytes},
          {"ops", ops},
          {"modules", rows},
          {"parameters", parameters}};
}

Json to_json(const std::vector<PassTiming>& timings) {
  Json rows = Json::array();
  for (const PassTiming& pass : timings)
    rows.push_back(
        {{"name", pass.name}, {"seconds", pass.seconds}, {"nodes_before", pass.nodes_before}, {"nodes_after", pass.nodes_after}});
  return rows;
}

// The program of a recording as `inspect` shows it; the import stands first among the timings.
Recording program_form(const std::string& model, const PipelineOptions& options, std::vector<PassTiming>& timings) {
  const auto begin = std::chrono::steady_clock::now();
  Recording recording = import_manifest(find_manifest(model), catalogue());
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;
  timings.push_back({"import", seconds.count(), 0, recording.program.graph.nodes.size()});
  if (!recording.is_program_form || !options.disabled.empty() || !options.dump_dir.empty())
    recording.program = run_program_pipeline(std::move(recording.program), catalogue(), options, &timings);
  return recording;
}

void print_text(const Recording& recording, const Cost& cost, const std::vector<ModuleRow>& modules, size_t depth) {
  const Program& p = recording.program;
  fmt::print("{} · {} · {}\n", styled(p.name, Style::bold), recording.model_class, recording.soundness);
  Table facts;
  for (const Input& input : p.inputs) facts.row({"input", input.name, p.graph.type(input.value).text()});
  for (const Output& output : p.outputs) facts.row({"output", output.name, p.graph.type(output.value).text()});
  for (const Symbol& s : p.symbols) {
    facts.row({"dim", s.name,
               fmt::format("{} … {}, {} in the recording", s.range.min, s.range.max ? fmt::format("{}", *s.range.max) : "any",
                           s.example)});
  }
  facts.row({"parameters", human_count(static_cast<double>(cost.parameter_elements)),
             human_bytes(static_cast<double>(cost.parameter_bytes))});
  facts.row({"work", human_flops(cost.flops),
             fmt::format("at the recorded sizes, {} of activations at the peak",
                         human_bytes(static_cast<double>(cost.peak_activation_bytes)))});
  facts.row({"graph", fmt::format("{} nodes", p.graph.nodes.size()), fmt::format("{} taps", p.taps.size())});
  fmt::print("{}", facts.text());
  for (const std::string& note : recording.notes) fmt::print("  note        {}\n", note);
  std::vector<std::string> ops;
  for (const auto& [name, count] : op_counts(p.graph)) ops.push_back(fmt::format("{} {}", name, count));
  fmt::print("\n{}\n  {}\n", styled("ops", Style::bold), wrapped(fmt::format("{}", fmt::join(ops, ", ")), 2, 2));
  Table table;
  for (const ModuleRow& m : modules) {
    const auto level = static_cast<size_t>(std::count(m.path.begin(), m.path.end(), '.')) + (m.path.empty() ? 0 : 1);
    if (level > depth) continue;
    const std::string short_class = m.class_name.substr(m.class_name.rfind('.') + 1);
    table.row({m.path.empty() ? "(root)" : m.path, short_class, fmt::format("{} nodes", m.nodes),
               human_count(static_cast<double>(m.parameters)), human_flops(m.flops),
               m.calls > 1 ? fmt::format("{} calls", m.calls) : ""});
  }
  fmt::print("\n{}\n{}", styled("modules", Style::bold), table.text());
}

// The decode step that is derived from the program: what it keeps, and with --ptir how it computes.
void print_decode_step(const DecodeStep& step, bool ptir, bool places) {
  if (ptir) {
    fmt::print("{}\n{}", print(step.setup, {.origins = places}), print(step.step, {.origins = places}));
    return;
  }
  const Program& p = step.step;
  fmt::print("{} · decode step · {} nodes, and {} that run once\n", styled(p.name, Style::bold), p.graph.nodes.size(),
             step.setup.graph.nodes.size());
  Table facts;
  for (const Input& input : p.inputs) facts.row({"input", input.name, p.graph.type(input.value).text()});
  for (const Output& output : p.outputs) facts.row({"output", output.name, p.graph.type(output.value).text()});
  for (size_t i = 0; i < step.states.size(); ++i) {
    const CacheState& state = step.states[i];
    facts.row({state.kind == CacheState::Kind::rows ? "cache" : "once", state.name, p.graph.type(p.states[i].value).text()});
  }
  if (step.longest) facts.row({"capacity", fmt::format("at most {}", *step.longest), "positions that the model has"});
  fmt::print("{}", facts.text());
  for (const std::string& output : step.dropped) fmt::print("  not given   {}\n", output);
}

}  // namespace

void add_inspect(Command& app, Context& context) {
  struct Options {
    std::string model;
    bool ptir = false, places = false, timing = false, decode = false;
    size_t depth = 3;
    PipelineOptions pipeline;
  };
  auto options = std::make_shared<Options>();
  Command command = add_command(app, context, "inspect", "show modules, ops, parameters, sizes, FLOPs and memory of a recording",
                                "pycandle inspect pycandle_trace --depth 2");
  command.add_option("model", options->model, "a manifest, the folder of one, or a bundle").required();
  command.add_flag("--ptir", options->ptir, "print the program as PTIR text");
  command.add_flag("--places", options->places,
                   "with --ptir: module calls, files and lines too, so that the text parses back whole");
  command.add_flag("--decode", options->decode, "derive the decode step of a causal model and show it (docs/decoding.md)");
  command.add_option("--depth", options->depth, "how deep to list modules").shows_default();
  command.add_flag("--timing", options->timing, "show how long the import and each pass took");
  add_pipeline_options(command, options->pipeline);
  command.callback([options, &context] {
    std::vector<PassTiming> timings;
    const Recording recording = program_form(options->model, options->pipeline, timings);
    if (options->decode) {
      print_decode_step(derive_decode_step(recording.program, catalogue()), options->ptir, options->places);
      return;
    }
    if (options->ptir) {
      fmt::print("{}", print(recording.program, {.origins = options->places}));
      return;
    }
    const Cost cost = program_cost(recording.program, catalogue(), example_sizes(recording.program));
    const std::vector<ModuleRow> modules = module_rows(recording.program, cost);
    if (context.json) {
      Json document = to_json(recording, cost, modules);
      if (options->timing) document["timings"] = to_json(timings);
      fmt::print("{}\n", document.dump(2, ' ', false, Json::error_handler_t::replace));
      return;
    }
    print_text(recording, cost, modules, options->depth);
    if (options->timing) {
      fmt::print("\n{}\n", styled("time", Style::bold));
      print_timings(timings);
    }
  });
}

}  // namespace pycandle::cli
