#include "verify/subject.h"

#include <fmt/format.h>

#include <utility>

#include "base/error.h"
#include "base/file.h"
#include "ir/text.h"
#include "ops/core/catalogue.h"
#include "verify/judging/states.h"

namespace pycandle {
namespace {

constexpr const char* kSecondCall = "second call";

// The goldens to judge by, each with a name when there are several.
std::vector<GoldenFile> goldens_of(const Recording& recording, const VerifyOptions& options) {
  std::vector<GoldenFile> traces;
  for (const std::filesystem::path& trace : options.traces) {
    std::string name = trace.stem().string();
    const size_t suffix = name.rfind("_trace");
    traces.push_back({options.traces.size() == 1 ? "" : name.substr(0, suffix), trace});
  }
  if (!traces.empty()) return traces;
  if (recording.trace_file.empty()) {
    throw Error(ErrorCode::bad_input, "this recording has no goldens to verify against")
        .hint("verify --stream computes them with torch, layer by layer, once the recording has weights");
  }
  for (const std::filesystem::path& trace : recording.traces()) traces.push_back({traces.empty() ? "" : kSecondCall, trace});
  int number = 0;
  for (const std::filesystem::path& trace : recording.perturbed_traces())
    traces.push_back({fmt::format("perturbed inputs {}", ++number), trace});
  return traces;
}

// The same from another backend's runs, on the recorded inputs; random ones when there are none.
std::vector<GoldenFile> goldens_of_backend(const Recording& recording, const OpTable& table, const VerifyOptions& options,
                                           const std::shared_ptr<const ParameterSource>& parameters,
                                           std::vector<OtherTrace>& others) {
  const Program p = run_program_pipeline(recording.program, table, options.pipeline);
  const Backend& backend = find_backend(options.against);
  std::vector<GoldenFile> traces;
  const auto add = [&](const std::string& input, std::vector<Array> inputs, std::vector<Array>& states) {
    traces.push_back({input, others.emplace_back(p, table, backend, parameters, std::move(inputs), states).path()});
  };
  if (recording.trace_file.empty() && options.traces.empty()) {
    std::vector<Array> states;
    for (const State& s : p.states) states.push_back(parameters->get_state(s, p.graph.type(s.value)));
    add("", ordered_inputs(p, random_inputs(p, 0)), states);
    if (!states.empty()) add(kSecondCall, ordered_inputs(p, random_inputs(p, 1)), states);
    return traces;
  }
  for (const auto& [input, trace] : goldens_of(recording, options)) {
    const Goldens goldens(p, trace);
    std::vector<Array> states = states_before(p, goldens, *parameters);
    add(input, goldens.inputs(), states);
  }
  return traces;
}

Recording imported(const std::filesystem::path& manifest, const OpTable& table, const VerifyOptions& options) {
  Recording recording = import_manifest(manifest, table);
  if (options.change_program) options.change_program(recording.program);
  return recording;
}

CapturedProgram captured_program(const Subject& s) {
  Program captured = parse_program(read_text(s.options.program), s.table, s.options.program.filename().string());
  captured.name = s.recorded.name;
  std::vector<Safetensors> files;
  for (const GoldenFile& goldens : s.goldens) files.push_back(Safetensors::open(goldens.path));
  return beside_recording(std::move(captured), s.recording, s.recorded, s.table, files);
}

}  // namespace

Recording Subject::imported_again() const { return imported(manifest, table, options); }

Subject import_subject(const std::filesystem::path& manifest, const VerifyOptions& options) {
  const OpTable& table = options.table ? *options.table : catalogue();
  Subject s{options,
            table,
            options.backend_object ? *options.backend_object : find_backend(options.backend),
            manifest,
            imported(manifest, table, options),
            {},
            {},
            {},
            {},
            {}};
  s.weights = load_weights(s.recording, options.checkpoint, options.parameter_budget);
  s.goldens = options.against.empty() ? goldens_of(s.recording, options)
                                      : goldens_of_backend(s.recording, table, options, s.weights.parameters, s.others);
  s.recorded = program_to_judge(s.recording.program, table, options.pipeline);
  if (s.is_captured()) s.captured = captured_program(s);
  return s;
}

}  // namespace pycandle
