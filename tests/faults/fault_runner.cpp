// fault_runner MANIFEST imported|program          lists the nodes, a JSON line each
// fault_runner MANIFEST text                       prints the program, for `verify --program`
// fault_runner MANIFEST run [BACKEND] < faults    verifies with each fault in turn; a JSON line each
//   A fault is an edit of a node (injector.h), or a program that was captured from edited source code, beside the one
//   from the source as it was emitted: {"program": "17.ptir", "unedited": "0.ptir"}.
#include <fmt/format.h>

#include <cmath>
#include <cstdio>
#include <iostream>

#include "base/error.h"
#include "base/file.h"
#include "injector.h"
#include "ir/text.h"
#include "ops/core/catalogue.h"
#include "runtime/model.h"
#include "verify/diagnosing/captured.h"
#include "verify/judging/goldens.h"
#include "verify/judging/states.h"
#include "verify/result_json.h"

namespace pycandle::faults {
namespace {

Json attribute_json(const Attribute& a) {
  if (const auto* b = std::get_if<bool>(&a)) return *b;
  if (const auto* i = std::get_if<int64_t>(&a)) return *i;
  if (const auto* d = std::get_if<double>(&a)) return *d;
  if (const auto* s = std::get_if<std::string>(&a)) return *s;
  if (const auto* list = std::get_if<Ints>(&a)) return *list;
  if (std::holds_alternative<std::monostate>(a)) return nullptr;
  return to_string(a);
}

void list_nodes(const Program& p) {
  std::map<ValueId, const Parameter*> parameters;
  for (const Parameter& q : p.parameters) parameters[q.value] = &q;
  const auto type_json = [&](ValueId v) {
    Json shape = Json::array();
    for (const Dim d : p.graph.type(v).shape) shape.push_back(d.is_number() ? Json(d.number()) : Json(d.text()));
    return Json{{"dtype", name_of(p.graph.type(v).dtype)}, {"shape", shape}};
  };
  for (size_t n = 0; n < p.graph.nodes.size(); ++n) {
    const Node& node = p.graph.nodes[n];
    Json operands = Json::array(), results = Json::array(), attributes = Json::object();
    for (ValueId v : node.operands) {
      if (v == kNoValue) {
        operands.push_back(nullptr);
        continue;
      }
      Json operand = type_json(v);
      operand["value"] = v;
      if (const auto q = parameters.find(v); q != parameters.end()) operand["parameter"] = q->second->name;
      operands.push_back(operand);
    }
    for (ValueId v : node.results) results.push_back(type_json(v));
    for (const auto& [name, value] : node.attributes) attributes[name] = attribute_json(value);
    std::cout
        << Json{{"node", n},          {"op", node.op->name},     {"path", p.module_path(node.origin)}, {"operands", operands},
                {"results", results}, {"attributes", attributes}}
               .dump()
        << '\n';
  }
  Json all = Json::array();
  for (const Parameter& q : p.parameters)
    all.push_back({{"name", q.name}, {"file", q.file}, {"key", q.key}, {"type", q.type.text()}});
  std::cout << Json{{"parameters", all}}.dump() << '\n';
}

// The largest change of any output or tap in a run of the whole program, relative to its size: a fault that changes
// nothing is none. Measured without the verifier.
double effect(const Program& clean, const Backend& good, const Program& faulty, const Backend& bad, const RunRequest& inputs,
              const std::shared_ptr<const ParameterSource>& parameters) {
  std::map<std::string, Array> before;
  double largest = 0;
  const auto compare_one = [&](const std::string& id, const Array& now) {
    const auto old = before.find(id);
    if (old == before.end()) return;
    if (old->second.shape() != now.shape()) {
      largest = 1;
      return;
    }
    const std::vector<double> a = load_double(old->second), b = load_double(now);
    double difference = 0, size = 0;
    for (size_t i = 0; i < a.size(); ++i) {
      if (std::isfinite(a[i]) && std::isfinite(b[i])) {
        difference += (a[i] - b[i]) * (a[i] - b[i]);
        size += a[i] * a[i];
      } else if (std::isfinite(a[i]) != std::isfinite(b[i])) {
        difference += 1;
      }
    }
    largest = std::max(largest, size > 0 ? std::sqrt(difference / size) : std::sqrt(difference));
  };
  RunRequest request = inputs;
  request.on_tap = [&](size_t tap, const Array& value) { before[clean.taps[tap].id.text()] = value; };
  const std::vector<Array> outputs = good.compile(clean, catalogue(), parameters)->run(request);
  for (size_t i = 0; i < outputs.size(); ++i) before["output:" + clean.outputs[i].name] = outputs[i];
  request.on_tap = [&](size_t tap, const Array& value) { compare_one(faulty.taps[tap].id.text(), value); };
  try {
    const std::vector<Array> now = bad.compile(faulty, catalogue(), parameters)->run(request);
    for (size_t i = 0; i < now.size(); ++i) compare_one("output:" + faulty.outputs[i].name, now[i]);
  } catch (const Error&) {  // it does not even come to its end
    return 1;
  }
  return largest;
}

// The ops that the second program has more of.
Json more_ops(const Program& before, const Program& now) {
  std::map<std::string, int> more;
  for (const Node& node : now.graph.nodes) ++more[node.op->name];
  for (const Node& node : before.graph.nodes) --more[node.op->name];
  Json names = Json::array();
  for (const auto& [op, count] : more) {
    if (count > 0) names.push_back(op);
  }
  return names;
}

void look_at_source(const Json& fault, const Recording& recording, const Backend& backend, VerifyOptions& options, Json& out) {
  const OpTable& table = catalogue();
  const auto captured = [&](const char* key) { return parse_program(read_text(fault.at(key).get<std::string>()), table, key); };
  const Program before = captured("unedited"), now = captured("program");
  const Program form = program_to_judge(recording.program, table);
  const std::filesystem::path trace = recording.folder / recording.trace_file;
  const auto with_weights = [&](const Program& p) {
    return beside_recording(p, recording, form, table, {Safetensors::open(trace)}).program;
  };
  RunRequest request;
  request.inputs = Goldens(form, trace).inputs();
  out["inserted"] = more_ops(before, now);
  out["effect"] = effect(with_weights(before), backend, with_weights(now), backend, request, recorded_parameters(recording));
  options.program = fault.at("program").get<std::string>();
}

Json run_fault(const std::filesystem::path& manifest, const Json& fault, const std::string& backend_name, bool is_clean) {
  const OpTable& table = catalogue();
  const Backend& backend = find_backend(backend_name);
  VerifyOptions options;
  options.backend = backend_name;
  if (fault.contains("trace")) options.traces = {fault.at("trace").get<std::string>()};
  for (const Json& trace : fault.value("traces", Json::array())) options.traces.push_back(trace.get<std::string>());
  Json out{{"id", fault.value("id", 0)}};
  std::unique_ptr<Backend> faulty;
  bool is_corrupted = false;
  if (is_clean && fault.contains("program")) options.program = fault.at("program").get<std::string>();
  if (!is_clean && fault.contains("program")) {
    look_at_source(fault, import_manifest(manifest, table), backend, options, out);
  } else if (!is_clean) {
    Recording recording = import_manifest(manifest, table);
    const auto parameters = recorded_parameters(recording);
    const Program imported = recording.program;
    const Program program = run_program_pipeline(imported, table);
    const Goldens goldens(program, recording.folder / recording.trace_file);
    RunRequest request;
    request.inputs = goldens.inputs();
    if (fault.at("where") == "backend") {
      faulty = faulty_backend(backend, program, fault, &is_corrupted);
      options.backend_object = faulty.get();
      if (fault.at("edit") != "corrupt") out["effect"] = effect(program, backend, program, *faulty, request, parameters);
    } else {
      const auto change = [&](Program& p) {
        const auto number = fault.value("node", size_t{0});
        p = injected(std::move(p), table, fault, [&](size_t index, const Node&) { return index == number; });
      };
      Program changed = imported;
      change(changed);
      out["inserted"] = more_ops(imported, changed);
      out["effect"] = effect(program, backend, run_program_pipeline(changed, table), backend, request, parameters);
      options.change_program = change;
    }
  }
  Json first;  // of a fault with "stop": nothing after the first wrong layer is of interest
  if (fault.value("stop", false)) {
    options.on_layer = [&](const LayerResult& layer) {
      if (layer.verdict != Verdict::wrong_here) return;
      first = to_json(layer);
      throw std::runtime_error("found");
    };
  }
  VerifyResult result;
  try {
    result = verify_recording(manifest, options);
  } catch (const std::exception&) {
    if (first.is_null()) throw;
    return {{"wrong", Json::array({first})}, {"passed", false}, {"counts", Json::object()}};
  }
  if (fault.value("edit", "") == "corrupt") out["effect"] = is_corrupted ? 1.0 : 0.0;
  Json wrong = Json::array();
  for (const LayerResult& layer : result.layers) {
    if (layer.verdict == Verdict::wrong_here) wrong.push_back(to_json(layer));
  }
  out["layers"] = result.layers.size();
  out["counts"] = counts_json(result);
  out["wrong"] = wrong;
  out["passed"] = result.passed();
  return out;
}

int run(int argc, char** argv) {
  if (argc < 3) return 2;
  const std::filesystem::path manifest = argv[1];
  const std::string what = argv[2];
  if (what == "imported" || what == "program" || what == "text") {
    Program p = import_manifest(manifest, catalogue()).program;
    if (what != "imported") p = run_program_pipeline(std::move(p), catalogue());
    what == "text" ? void(std::cout << print(p)) : list_nodes(p);
    return 0;
  }
  const std::string backend = argc > 3 ? argv[3] : "reference";
  std::string line;
  while (std::getline(std::cin, line)) {
    const Json fault = Json::parse(line);
    Json out;
    try {
      out = run_fault(manifest, fault, backend, fault.value("clean", false));
    } catch (const std::exception& error) {
      out = {{"id", fault.value("id", 0)}, {"error", error.what()}};
    }
    std::cout << out.dump(-1, ' ', false, Json::error_handler_t::replace) << std::endl;
  }
  return 0;
}

}  // namespace
}  // namespace pycandle::faults

int main(int argc, char** argv) { return pycandle::faults::run(argc, argv); }
