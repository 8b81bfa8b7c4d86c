#include "verify/verify.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <iterator>
#include <limits>
#include <map>
#include <set>
#include <utility>

#include "base/error.h"
#include "base/file.h"
#include "ir/text.h"
#include "ops/core/catalogue.h"
#include "params/checksums.h"
#include "verify/diagnosing/captured.h"
#include "verify/diagnosing/diagnose.h"
#include "verify/hashes.h"
#include "verify/judging/decisions.h"
#include "verify/judging/floors.h"
#include "verify/judging/goldens.h"
#include "verify/judging/other_trace.h"
#include "verify/judging/selections.h"
#include "verify/judging/slices.h"
#include "verify/judging/states.h"
#include "verify/judging/taps.h"
#include "verify/judging/trials.h"
#include "verify/judging/whole_run.h"

namespace pycandle {

int VerifyResult::count(Verdict v) const {
  return static_cast<int>(std::count_if(layers.begin(), layers.end(), [&](const LayerResult& l) { return l.verdict == v; }));
}

namespace {

// Values that depend on one that is wrong.
class Taint {
 public:
  explicit Taint(const Graph& g) : g_(g), is_tainted_(g.values.size()) {}
  void add(ValueId v) { is_tainted_[v] = true; }
  // Ask in the order of computation, after every wrong value before it was added.
  bool reaches(ValueId v) {
    const auto end = static_cast<size_t>(g_.values[v].node) + 1;
    for (; next_node_ < end; ++next_node_) {
      const Node& node = g_.nodes[next_node_];
      if (std::any_of(node.operands.begin(), node.operands.end(), [&](ValueId o) { return o != kNoValue && is_tainted_[o]; })) {
        for (ValueId r : node.results) add(r);
      }
    }
    return is_tainted_[v];
  }

 private:
  const Graph& g_;
  PerValue<bool> is_tainted_;
  size_t next_node_ = 0;
};

class Verification {
 public:
  Verification(const Program& p, const OpTable& table, const Backend& backend,
               const std::shared_ptr<const ParameterSource>& parameters, const Goldens& goldens, const VerifyOptions& options,
               WithoutPasses without_passes, RecordedSlice recorded_slice, const CapturedProgram& captured, KeptFloors& floors)
      : p_(p),
        backend_(backend),
        goldens_(goldens),
        options_(options),
        trials_(table, parameters, all_sizes(p, table, *parameters, goldens)),
        diagnostician_(p, backend, goldens, options.pipeline, options.on_wrong, trials_, std::move(without_passes),
                       std::move(recorded_slice), captured),
        slicer_(p, known_values(p, goldens)),
        floors_(floors),
        captured_(captured),
        whose_(options.against.empty() ? "PyTorch" : options.against),
        whole_(run_whole(p, table, backend, parameters, goldens, options.pipeline)),
        taint_(p.graph) {}

  std::vector<OutputError> outputs() const {
    std::vector<OutputError> errors;
    for (const WholeRun::Result& result : whole_.results) errors.push_back({result.name, result.metrics});
    return errors;
  }

  // Right layer by layer is not yet right as a whole: fusion across layers and the memory that they share show only
  // there. An output, or what a state became, that is much further off than in the reference's own whole run is judged by
  // what rounding does to the program from its inputs to that value.
  std::vector<LayerResult> wrong_as_a_whole() const {
    std::vector<LayerResult> wrong;
    if (whole_.failure) throw Error(*whole_.failure);
    if (&backend_ == &reference_backend() || options_.tolerance) return wrong;
    const WholeRun reference = run_whole(p_, trials_.table(), reference_backend(), trials_.parameters(), goldens_,
                                         without_dumps(options_.pipeline));
    const PerValue<bool> is_drawn = drawn_values(p_, goldens_);
    for (size_t i = 0; i < whole_.results.size() && i < reference.results.size(); ++i) {
      const auto& [name, value, array, golden, ours] = whole_.results[i];
      if (!is_inexact(golden.dtype()) || p_.graph.values[value].node < 0) continue;
      if (array.shape() != golden.shape()) continue;  // a choice on the way: each is judged by itself
      const Metrics& theirs = reference.results[i].metrics;
      const double least = unit_roundoff(golden.dtype()) * root_mean_square(as_reals(golden));
      const bool is_as_close = ours.rms <= kRmsFactor * std::max(theirs.rms, least) &&
                               ours.max_abs <= kMaxFactor * std::max(theirs.max_abs, least);
      if (is_as_close && ours.nan_mismatches <= theirs.nan_mismatches) continue;
      const Slice slice = Slicer(p_, is_drawn).slice(value);
      Evidence evidence;
      evidence.golden = golden;
      evidence.ours = array;
      evidence.whose = whose_;
      if (!trials_.judge(slice.program, known(slice.inputs), evidence).passed) continue;  // chaotic, or wrong in a layer
      const Judgement judgement = judge_backend(evidence);
      if (judgement.passed) continue;
      LayerResult result;
      result.tap = "whole run:" + name;
      result.op = slice.last_op;
      result.place = p_.file_line(slice.origin);
      result.source = p_.source_line(slice.origin);
      result.dtype = std::string(name_of(golden.dtype()));
      result.shape = golden.shape();
      result.metrics = ours;
      record(judgement, "backend", result);
      wrong.push_back(std::move(result));
    }
    return wrong;
  }

  void say_code(ValueId v, LayerResult& result) const {
    const CodeLine code = captured_.code_of(p_.graph.values[v].node);
    result.code = code.place;
    result.code_source = code.source;
  }

  void explain_type(ValueId v, const Array& golden, Diagnosis& d) const {
    try {
      const Slice slice = Slicer(p_, known_values(p_, goldens_)).slice(v);
      if (!slice.has_random_op) diagnostician_.explain_type(slice, known(slice.inputs), golden, d);
    } catch (const Error&) {  // the verdict stands without it
    }
  }

  // Without a verdict when the value cannot be judged; `why` says the reason.
  std::optional<LayerResult> judge(ValueId v, const std::string& tap, std::string& why) {
    const Slice slice = slicer_.slice(v);
    if (slice.has_random_op) {
      const std::string place = p_.file_line(slice.origin);
      why = fmt::format("drawn at random{}, so not the same twice; what is computed from it begins with {}'s value",
                        place.empty() ? "" : " at " + place, whose_);
      return std::nullopt;
    }
    LayerResult result;
    result.tap = tap;
    result.op = slice.last_op;
    result.path = p_.module_path(slice.origin);
    result.place = p_.file_line(slice.origin);
    result.source = p_.source_line(slice.origin);
    say_code(v, result);
    Evidence evidence;
    evidence.golden = goldens_.get(v);
    evidence.whose = whose_;
    result.dtype = std::string(name_of(evidence.golden.dtype()));
    result.shape = evidence.golden.shape();
    try {
      judge_locally(v, slice, evidence, result);
    } catch (Error& error) {
      if (!options_.program.empty()) return broken_off(v, slice, error, result);
      error.module_path(p_.module_path(slice.origin)).python(result.place, result.source);
      throw;
    }
    look_at_whole_run(v, evidence.golden, result);
    if (result.verdict == Verdict::wrong_here && diagnosed_++ < options_.diagnoses) {
      try {
        diagnostician_.diagnose(v, slice, known(slice.inputs), evidence, result);
      } catch (const Error& error) {  // the verdict stands without it
        result.diagnosis->cause = "the search for a cause failed: " + error.message();
      }
    }
    return result;
  }

 private:
  // Source code that does not even run on PyTorch's values there: its sizes do not fit each other, an index is too large.
  LayerResult broken_off(ValueId v, const Slice& slice, const Error& error, LayerResult& result) {
    result.verdict = Verdict::wrong_here;
    result.judged = "program";
    result.why = fmt::format("does not run on {}'s values: {}", whose_, error.message());
    taint_.add(v);
    if (diagnosed_++ < options_.diagnoses) diagnostician_.compare_with_recorded(v, slice, known(slice.inputs), result);
    return result;
  }

  std::vector<Array> known(const Values& values) const { return known_arrays(p_, goldens_, *trials_.parameters(), values); }

  void judge_locally(ValueId v, const Slice& slice, Evidence& evidence, LayerResult& result) const {
    const std::vector<Array> inputs = known(slice.inputs);
    evidence.ours = backend_.compile(slice.program, trials_.table(), trials_.parameters(), without_dumps(options_.pipeline))
                        ->run(trials_.request(inputs))
                        .at(0);
    result.metrics = compare_with_sizes(evidence.ours, evidence.golden);
    const bool is_equal = evidence.ours.same_bytes(evidence.golden);
    result.verdict = is_equal ? Verdict::exact : Verdict::within_rounding;
    result.judged = "both";
    if (evidence.ours.shape() != evidence.golden.shape()) {
      judge_sizes(slice, inputs, evidence, result);
    } else if (options_.tolerance) {
      judge_by_tolerance(evidence, *options_.tolerance, result);
    } else if (!is_inexact(evidence.golden.dtype())) {
      judge_integers(slice, inputs, evidence, result);
    } else if (!is_equal || &backend_ != &reference_backend()) {
      // The reference's own rounded run is one of the floor's witnesses: equal to it is within any floor.
      judge_by_floor(goldens_.key(v), slice, inputs, evidence, result);
    }
  }

  void judge_by_floor(const std::string& key, const Slice& slice, const std::vector<Array>& inputs, Evidence& evidence,
                      LayerResult& result) const {
    std::optional<KeptFloor> kept = floors_.find(key, evidence.golden);
    if (!kept) {
      const auto start = std::chrono::steady_clock::now();
      const Judgement program = trials_.judge(slice.program, inputs, evidence);
      record(program, "program", result);
      if (!program.passed) return;
      kept = KeptFloor{program, backend_floor(evidence)};
      floors_.add(key, *kept, evidence.golden, std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
    }
    record(kept->program, "program", result);
    Judgement backend = judge_backend(evidence, kept->backend);
    if (!backend.passed) backend = trials_.judge_backend_again(slice.program, inputs, backend, evidence);
    if (!backend.passed) return record(backend, "backend", result);
    if (result.verdict != Verdict::exact) look_at_stability(kept->program, result);
  }

  // Data decided how many there are, here otherwise than in PyTorch.
  void judge_sizes(const Slice& slice, const std::vector<Array>& inputs, const Evidence& evidence, LayerResult& result) const {
    const std::optional<Decisions> decisions = look_at_selections(slice, trials_, inputs, evidence.golden, evidence.ours);
    if (decisions) result.decisions = decisions->text(whose_);
    if (decisions && decisions->within_rounding) {
      result.why = result.decisions;
      return;
    }
    result.verdict = Verdict::wrong_here;
    result.judged = "program";
    result.why = fmt::format("has the sizes {} where {}'s value has {}", to_string(evidence.ours.shape()), whose_,
                             to_string(evidence.golden.shape()));
  }

  void judge_integers(const Slice& slice, const std::vector<Array>& inputs, Evidence& evidence, LayerResult& result) const {
    const Judgement equal = judge_exactly(evidence.golden, evidence.ours, evidence.whose);
    std::optional<Decisions> decisions = look_at_decisions(slice, trials_, inputs, evidence.golden, evidence.ours);
    if (!decisions) decisions = look_at_selections(slice, trials_, inputs, evidence.golden, evidence.ours);
    if (decisions) result.decisions = decisions->text(whose_);
    if (!equal.passed && decisions && decisions->within_rounding) {
      result.why = result.decisions;
      return;
    }
    if (equal.passed) return;
    const bool program_agrees = trials_.rounded(slice.program, inputs).same_bytes(evidence.golden);
    record(equal, program_agrees ? "backend" : "program", result);
  }

  static void judge_by_tolerance(const Evidence& e, const Tolerance& t, LayerResult& result) {
    const std::vector<double> golden = as_reals(e.golden), ours = as_reals(e.ours);
    for (size_t i = 0; i < golden.size(); ++i) {
      if (same_number(golden[i], ours[i]) || std::abs(ours[i] - golden[i]) <= t.atol + t.rtol * std::abs(golden[i])) continue;
      const auto index = static_cast<int64_t>(is_complex(e.golden.dtype()) ? i / 2 : i);
      result.judged = "tolerance";
      result.verdict = Verdict::wrong_here;
      result.why = fmt::format("{:.6g} where {} has {:.6g}, at {}: more than {:.2g} + {:.2g} times that apart", ours[i], e.whose,
                               golden[i], to_string(coordinates_of(index, e.golden.shape())), t.atol, t.rtol);
      return;
    }
    if (result.verdict != Verdict::exact) result.verdict = Verdict::within_tolerance;
  }

  static void look_at_stability(const Judgement& j, LayerResult& result) {
    const std::optional<std::string> unstable = instability(j, *dtype_from_name(result.dtype));
    if (!unstable) return;
    result.verdict = Verdict::reference_unstable;
    result.why = *unstable;
  }

  void look_at_whole_run(ValueId v, const Array& golden, LayerResult& result) {
    const bool is_downstream = taint_.reaches(v);
    if (result.verdict == Verdict::wrong_here) taint_.add(v);
    const auto found = whole_.taps.find(v);
    if (found == whole_.taps.end()) return;
    const Metrics& m = *(result.cumulative = found->second);
    if (result.verdict == Verdict::wrong_here || m.differing == 0) return;
    const double least = unit_roundoff(golden.dtype()) * root_mean_square(as_reals(golden));
    const bool is_one_rounding = m.rms <= kRmsFactor * std::max(result.floor_rms, least) &&
                                 m.max_abs <= kMaxFactor * std::max(result.floor_max, least);
    if (is_one_rounding) return;
    if (is_downstream) {
      result.verdict = Verdict::wrong_upstream;
      result.why = fmt::format("right from {}'s values; {:.2g} off in the whole run, after a layer that is wrong", whose_,
                               m.max_abs);
    } else if (result.verdict == Verdict::exact || result.verdict == Verdict::within_rounding) {
      result.verdict = Verdict::accumulated_rounding;
    }
  }

  static void record(const Judgement& j, const char* question, LayerResult& result) {
    result.error_rms = j.error_rms;
    result.error_max = j.error_max;
    result.floor_rms = j.floor_rms;
    result.floor_max = j.floor_max;
    if (j.passed) return;
    result.judged = question;
    result.verdict = Verdict::wrong_here;
    result.why = j.why;
  }

  const Program& p_;
  const Backend& backend_;
  const Goldens& goldens_;
  const VerifyOptions& options_;
  const Trials trials_;
  const Diagnostician diagnostician_;
  Slicer slicer_;
  KeptFloors& floors_;
  const CapturedProgram& captured_;  // without one: empty
  const std::string whose_;  // the goldens
  const WholeRun whole_;
  Taint taint_;
  int diagnosed_ = 0;
};

// A value that a recognised op swallowed is right when the op is.
std::string inside_text(const Program& p, const Tap& tap) {
  const Node& node = p.graph.nodes[p.graph.values[tap.value].node];
  return fmt::format("inside {}, which is judged as a whole", node.op->name);
}

// The goldens to judge by, each with a name when there are several.
using Traces = std::vector<std::pair<std::string, std::filesystem::path>>;
constexpr const char* kSecondCall = "second call";

Traces traces_of(const Recording& recording, const VerifyOptions& options) {
  Traces traces;
  for (const std::filesystem::path& trace : options.traces) {
    std::string name = trace.stem().string();
    const size_t suffix = name.rfind("_trace");
    traces.emplace_back(options.traces.size() == 1 ? "" : name.substr(0, suffix), trace);
  }
  if (!traces.empty()) return traces;
  if (recording.trace_file.empty()) {
    throw Error(ErrorCode::bad_input, "this recording has no goldens to verify against")
        .hint("record the model with its weights, not on the meta device");
  }
  for (const std::filesystem::path& trace : recording.traces()) traces.emplace_back(traces.empty() ? "" : kSecondCall, trace);
  return traces;
}

// Source code that gives another type than PyTorch is wrong there, whatever its numbers; the first tap of a value says it.
std::map<ValueId, LayerResult> mistyped_layers(const Program& p, const Goldens& goldens, const Verification& verification,
                                               const std::string& input) {
  std::map<ValueId, LayerResult> layers;
  for (const Mistyped& m : goldens.mistyped()) {
    const NodeId node = p.graph.values[m.value].node;
    if (node < 0) continue;
    const Node& made_by = p.graph.nodes[node];
    LayerResult layer;
    layer.input = input;
    layer.tap = m.tap;
    layer.op = made_by.op->name;
    layer.place = p.file_line(made_by.origin);
    layer.source = p.source_line(made_by.origin);
    verification.say_code(m.value, layer);
    layer.path = path_of(m.tap, p.module_path(made_by.origin));
    layer.dtype = std::string(name_of(p.graph.type(m.value).dtype));
    layer.judged = "program";
    layer.verdict = Verdict::wrong_here;
    layer.why = fmt::format("is {} where PyTorch has {}", m.found, m.expected);
    layer.diagnosis = Diagnosis{layer.op, p.module_path(made_by.origin), layer.place, layer.source, {}, layer.why, "type"};
    if (layers.empty()) verification.explain_type(m.value, goldens.file().get(m.key), *layer.diagnosis);
    layers.emplace(m.value, std::move(layer));
  }
  return layers;
}

// The same from another backend's runs, on the recorded inputs; random ones when there are none.
Traces traces_of_backend(const Recording& recording, const OpTable& table, const VerifyOptions& options,
                         std::vector<OtherTrace>& others) {
  const Program p = run_program_pipeline(recording.program, table, options.pipeline);
  const Backend& backend = find_backend(options.against);
  const auto parameters = recorded_parameters(recording);
  Traces traces;
  const auto add = [&](const std::string& input, std::vector<Array> inputs, std::vector<Array>& states) {
    traces.emplace_back(input, others.emplace_back(p, table, backend, parameters, std::move(inputs), states).path());
  };
  if (recording.trace_file.empty() && options.traces.empty()) {
    std::vector<Array> states;
    for (const State& s : p.states) states.push_back(parameters->get_state(s, p.graph.type(s.value)));
    add("", ordered_inputs(p, random_inputs(p, 0)), states);
    if (!states.empty()) add(kSecondCall, ordered_inputs(p, random_inputs(p, 1)), states);
    return traces;
  }
  for (const auto& [input, trace] : traces_of(recording, options)) {
    const Goldens goldens(p, trace);
    std::vector<Array> states = states_before(p, goldens, *parameters);
    add(input, goldens.inputs(), states);
  }
  return traces;
}

// Said once, whichever call it is.
void skip(const std::string& tap, const std::string& why, VerifyResult& result) {
  if (std::none_of(result.skipped.begin(), result.skipped.end(), [&](const SkippedTap& s) { return s.tap == tap; }))
    result.skipped.push_back({tap, why});
}

// Every tap of one golden file, into the result.
void judge_all(const Program& p, const Goldens& goldens, Verification& verification, const std::string& input,
               const VerifyOptions& options, VerifyResult& result) {
  const std::map<ValueId, std::vector<std::string>> values = values_to_judge(p, goldens);
  size_t done = 0;
  const int wrong_before = result.wrong();
  std::map<ValueId, LayerResult> mistyped = mistyped_layers(p, goldens, verification, input);
  const auto add_mistyped = [&](ValueId before) {
    for (; !mistyped.empty() && mistyped.begin()->first <= before; mistyped.erase(mistyped.begin())) {
      result.layers.push_back(mistyped.begin()->second);
      if (options.on_layer) options.on_layer(result.layers.back());
    }
  };
  for (const auto& [value, taps] : values) {
    if (options.progress) options.progress(done++, values.size());
    add_mistyped(value);
    goldens.release();
    std::string why;
    const std::optional<LayerResult> judged = verification.judge(value, taps.front(), why);
    for (const std::string& tap : taps) {
      if (tap != taps.front() && !options.all_taps && !is_state(tap)) continue;  // states are always named
      if (!judged) {
        skip(tap, why, result);
      } else {
        LayerResult& layer = result.layers.emplace_back(*judged);
        layer.input = input;
        layer.tap = tap;
        layer.path = path_of(tap, judged->path);
        if (options.on_layer) options.on_layer(layer);
      }
    }
  }
  add_mistyped(std::numeric_limits<ValueId>::max());
  if (result.wrong() == wrong_before) {
    for (LayerResult& layer : verification.wrong_as_a_whole()) {
      layer.input = input;
      if (options.on_layer) options.on_layer(layer);
      result.layers.push_back(std::move(layer));
    }
  }
  if (options.progress) options.progress(values.size(), values.size());
  for (OutputError output : verification.outputs()) {
    output.input = input;
    result.outputs.push_back(std::move(output));
  }
}

// `recorded`, not the program that is judged: source code that computes nothing of the recording is wrong.
void say_why_none(const Program& recorded, const Goldens& goldens, VerifyResult& result) {
  const auto values = values_to_judge(recorded, goldens);
  const PerValue<bool> is_drawn = drawn_values(recorded, goldens);
  const bool computes = std::any_of(recorded.outputs.begin(), recorded.outputs.end(),
                                    [&](const Output& output) { return recorded.graph.values[output.value].node >= 0; });
  const bool all_are_drawn = std::all_of(values.begin(), values.end(), [&](const auto& v) { return is_drawn[v.first]; });
  result.has_nothing_to_judge = all_are_drawn && (!values.empty() || !computes);
  if (values.empty())
    result.why_none = computes ? "the trace file has no value that the program computes"
                               : "every output is an input or a parameter as it is";
  else
    result.why_none = all_are_drawn ? "every value of the recording is drawn at random; shapes and dtypes are PyTorch's"
                                    : "the program computes no value that the recording has";
}

// gpt2_trace.safetensors → gpt2_floor.safetensors
std::filesystem::path floor_file(const std::filesystem::path& trace) {
  std::string name = trace.stem().string();
  if (const size_t suffix = name.rfind("_trace"); suffix != std::string::npos) name.resize(suffix);
  return trace.parent_path() / (name + "_floor.safetensors");
}

std::string floor_identity(const Recording& recording, const std::filesystem::path& manifest, const std::filesystem::path& trace,
                           const VerifyOptions& options) {
  std::string text;
  for (const auto& [name, hash] : recording_hashes(recording, find_manifest(manifest), {trace})) text += hash + " ";
  for (const std::string& pass : options.pipeline.disabled) text += "without " + pass + " ";
  return text;
}

}  // namespace

VerifyResult verify_recording(const std::filesystem::path& manifest, const VerifyOptions& options) {
  const OpTable& table = options.table ? *options.table : catalogue();
  const Backend& backend = options.backend_object ? *options.backend_object : find_backend(options.backend);
  const auto import = [&] {
    Recording imported = import_manifest(manifest, table);
    if (options.change_program) options.change_program(imported.program);
    return imported;
  };
  Recording recording = import();
  std::vector<OtherTrace> others;  // of --against; gone with this run
  const auto traces = options.against.empty() ? traces_of(recording, options)
                                              : traces_of_backend(recording, table, options, others);
  VerifyResult result;
  if (options.hash_files) {
    std::vector<std::filesystem::path> goldens;
    for (const auto& [name, path] : traces) goldens.push_back(path);
    result.hashes = recording_hashes(recording, find_manifest(manifest), goldens);
  }
  const std::shared_ptr<const ParameterSource> parameters = recorded_parameters(recording);
  result.damaged = check_weights(recording, *parameters).damaged;
  const Program recorded = program_to_judge(recording.program, table, options.pipeline);
  const bool is_captured = !options.program.empty();
  CapturedProgram judged;
  if (is_captured) {
    Program captured = parse_program(read_text(options.program), table, options.program.filename().string());
    captured.name = recorded.name;
    std::vector<Safetensors> files;
    for (const auto& [input, trace] : traces) files.push_back(Safetensors::open(trace));
    judged = beside_recording(std::move(captured), recording, recorded, table, files);
  }
  const Program& p = is_captured ? judged.program : recorded;
  const bool are_as_recorded = !is_captured && options.against.empty() && !options.change_program && !options.table;
  result.name = p.name;
  result.backend = backend.name();
  result.against = options.against;
  if (options.on_start) options.on_start(result);

  for (const auto& [input, trace] : traces) {
    const Goldens goldens(p, trace, is_captured ? Goldens::Types::may_differ : Goldens::Types::of_recording);
    const auto without_passes = [&, trace = trace](const std::string& key,
                                                   const std::set<std::string>& disabled) -> std::optional<bool> {
      if (is_captured) return std::nullopt;  // its passes ran when it was captured
      PipelineOptions pipeline;
      pipeline.disabled = disabled;
      const Program other = program_to_judge(import().program, table, pipeline);
      const Goldens its_goldens(other, trace);
      const ValueId value = its_goldens.value_of(key);
      if (value == kNoValue || other.graph.values[value].node < 0) return std::nullopt;
      const Slice slice = Slicer(other, known_values(other, its_goldens)).slice(value);
      const Trials trials(table, parameters, all_sizes(other, table, *parameters, its_goldens));
      const std::vector<Array> inputs = known_arrays(other, its_goldens, *parameters, slice.inputs);
      return trials.explains(slice.program, inputs, its_goldens.get(value)).passed;
    };
    const auto recorded_slice = [&, trace = trace](const std::string& key) -> std::optional<RecordedPart> {
      if (!is_captured) return std::nullopt;
      const Goldens its_goldens(recorded, trace);
      const NamedValues both = known_to_both(recorded, its_goldens, p);
      const ValueId value = its_goldens.value_of(key);
      if (value == kNoValue || recorded.graph.values[value].node < 0) return std::nullopt;
      const Slice slice = Slicer(recorded, both.is_known).slice(value);
      RecordedPart part{slice.program, known_arrays(recorded, its_goldens, *parameters, slice.inputs), {}};
      for (ValueId begin : slice.inputs) part.names.push_back(both.names[begin]);
      return part;
    };
    KeptFloors floors = are_as_recorded ? KeptFloors(floor_file(trace), floor_identity(recording, manifest, trace, options))
                                        : KeptFloors::none();
    Verification verification(p, table, backend, parameters, goldens, options, without_passes, recorded_slice, judged, floors);
    judge_all(p, goldens, verification, input, options, result);
    floors.write();
  }
  if (result.layers.empty()) say_why_none(recorded, Goldens(recorded, traces.front().second), result);
  for (const AbsentLayer& layer : judged.absent) result.skipped.push_back({layer.tap, "the program does not compute it"});
  for (const Tap& tap : p.taps) {
    if (tap.inside) result.skipped.push_back({tap.id, inside_text(p, tap)});
  }
  return result;
}

}  // namespace pycandle
