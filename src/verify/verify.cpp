#include "verify/verify.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <map>
#include <set>
#include <utility>

#include "base/error.h"
#include "params/checksums.h"
#include "verify/diagnosing/diagnose.h"
#include "verify/hashes.h"
#include "verify/judging/layer_judge.h"
#include "verify/judging/states.h"
#include "verify/judging/taps.h"
#include "verify/subject.h"

namespace pycandle {

int VerifyResult::count(Verdict v) const {
  return static_cast<int>(std::count_if(layers.begin(), layers.end(), [&](const LayerResult& l) { return l.verdict == v; }));
}

bool VerifyResult::proves_nothing() const {
  bool has_outputs = false;
  for (const LayerResult& l : layers) {
    if (!l.is_output) continue;
    if (l.verdict != Verdict::no_evidence) return false;
    has_outputs = true;
  }
  return has_outputs;
}

bool VerifyResult::passed() const {
  return wrong() == 0 && damaged.empty() && (!layers.empty() || has_nothing_to_judge) && !proves_nothing();
}

namespace {

// ---- floors that were kept

std::string floor_identity(const Recording& recording, const std::filesystem::path& manifest, const std::filesystem::path& trace,
                           const VerifyOptions& options) {
  std::string text;
  for (const auto& [name, hash] : recording_hashes(recording, find_manifest(manifest), {trace})) text += hash + " ";
  for (const std::string& pass : options.pipeline.disabled) text += "without " + pass + " ";
  return text;
}

KeptFloors kept_floors(const Subject& s, const GoldenFile& file) {
  const VerifyOptions& o = s.options;
  const bool are_as_recorded = !s.is_captured() && o.against.empty() && !o.change_program && !o.table;
  const bool is_quick_to_name = !o.parameter_budget && !o.checkpoint;  // all weights are read for it
  if (!are_as_recorded || !is_quick_to_name) return KeptFloors::none();
  return KeptFloors(floor_identity(s.recording, s.manifest, file.path, o));
}

// ---- what the diagnosis asks of the recording

// Is the golden of this key what the program computes without these passes?
WithoutPasses without_passes(const Subject& s, const GoldenFile& file) {
  return [&](const std::string& key, const std::set<std::string>& disabled) -> std::optional<bool> {
    if (s.is_captured()) return std::nullopt;  // its passes ran when it was captured
    PipelineOptions pipeline;
    pipeline.disabled = disabled;
    const Program other = program_to_judge(s.imported_again().program, s.table, pipeline);
    const Goldens goldens(other, file.path);
    const ValueId value = goldens.value_of(key);
    if (value == kNoValue || other.graph.values[value].node < 0) return std::nullopt;
    const Slice slice = Slicer(other, known_values(other, goldens)).slice(value);
    const Trials trials(s.table, s.weights.parameters, all_sizes(other, s.table, *s.weights.parameters, goldens));
    const std::vector<Array> inputs = known_arrays(other, goldens, *s.weights.parameters, slice.inputs);
    return trials.explains(slice.program, inputs, goldens.get(value)).passed;
  };
}

// What the recorded program does for the golden of this key, from values that the captured program has too.
RecordedSlice recorded_slice(const Subject& s, const GoldenFile& file) {
  return [&](const std::string& key) -> std::optional<RecordedPart> {
    if (!s.is_captured()) return std::nullopt;
    const Goldens goldens(s.recorded, file.path);
    const NamedValues both = known_to_both(s.recorded, goldens, s.program());
    const ValueId value = goldens.value_of(key);
    if (value == kNoValue || s.recorded.graph.values[value].node < 0) return std::nullopt;
    const Slice slice = Slicer(s.recorded, both.is_known).slice(value);
    RecordedPart part{slice.program, known_arrays(s.recorded, goldens, *s.weights.parameters, slice.inputs), {}};
    for (ValueId begin : slice.inputs) part.names.push_back(both.names[begin]);
    return part;
  };
}

// ---- one call of the model

// Said once, whichever call it is.
void skip(const TapId& tap, const std::string& why, VerifyResult& result) {
  if (std::none_of(result.skipped.begin(), result.skipped.end(), [&](const SkippedTap& s) { return s.tap == tap; }))
    result.skipped.push_back({tap, why});
}

// Whose values stand for PyTorch's; empty: its own do.
const std::string& stands_for_torch(const VerifyOptions& options) {
  return options.against.empty() ? options.goldens_by : options.against;
}

// Every layer of one golden file.
class CallVerification {
 public:
  CallVerification(const Subject& s, const GoldenFile& file)
      : options_(s.options),
        file_(file),
        p_(s.program()),
        captured_(s.captured),
        goldens_(s.goldens_of(file)),
        whose_(stands_for_torch(s.options).empty() ? "PyTorch" : stands_for_torch(s.options)),
        trials_(s.table, s.weights.parameters, all_sizes(p_, s.table, *s.weights.parameters, goldens_)),
        floors_(kept_floors(s, file)),
        slicer_(p_, known_values(p_, goldens_)),
        judge_(p_, s.backend, goldens_, trials_, floors_,
               {options_.pipeline, options_.tolerance, whose_, s.is_captured() ? &s.recorded : nullptr}),
        diagnostician_(p_, s.backend, goldens_, options_.pipeline, options_.on_wrong, trials_, without_passes(s, file),
                       recorded_slice(s, file), captured_) {}

  void run(VerifyResult& result) {
    const std::map<ValueId, std::vector<TapId>> values = values_to_judge(p_, goldens_);
    const int wrong_before = result.wrong();
    std::map<ValueId, LayerResult> mistyped = mistyped_layers();
    const auto add_mistyped = [&](ValueId before) {
      for (; !mistyped.empty() && mistyped.begin()->first <= before; mistyped.erase(mistyped.begin()))
        add(mistyped.begin()->second, result);
    };
    size_t done = 0;
    for (const auto& [value, taps] : values) {
      if (options_.progress) options_.progress(done++, values.size());
      add_mistyped(value);
      goldens_.release();
      look_at(value, taps, result);
    }
    add_mistyped(std::numeric_limits<ValueId>::max());
    if (result.wrong() == wrong_before) {
      for (const LayerResult& layer : judge_.judge_as_a_whole()) add(layer, result);
    }
    if (options_.progress) options_.progress(values.size(), values.size());
    for (const WholeRun::Result& output : judge_.whole_run().results)
      result.outputs.push_back({output.name, output.metrics, file_.input});
    floors_.write();
  }

 private:
  void add(LayerResult layer, VerifyResult& result) const {
    layer.input = file_.input;
    if (options_.on_layer && layer.vacuous.empty()) options_.on_layer(layer);
    result.layers.push_back(std::move(layer));
  }

  // One value: its slice, the verdict, and what is known of the mistake. Each of its taps becomes a row.
  void look_at(ValueId v, const std::vector<TapId>& taps, VerifyResult& result) {
    const Slice slice = slicer_.slice(v);
    std::optional<LayerResult> layer;
    if (!slice.has_random_op) layer = judged(v, taps.front(), slice);
    for (const TapId& tap : taps) {
      const bool is_named = tap == taps.front() || options_.all_taps || tap.kind == TapId::Kind::state_after;
      if (!is_named) continue;
      if (!layer) {
        skip(tap, random_text(slice), result);
        continue;
      }
      LayerResult row = *layer;
      row.tap = tap;
      row.path = path_of(tap, layer->path);
      row.is_output = tap.kind == TapId::Kind::state_after || is_output(v);
      add(std::move(row), result);
    }
  }

  LayerResult judged(ValueId v, const TapId& tap, const Slice& slice) {
    Evidence evidence;
    evidence.golden = goldens_.get(v);
    const std::vector<Array> inputs = known(slice);
    LayerResult result = judge_.place(slice, evidence.golden);
    result.tap = tap;
    say_code(v, result);
    bool does_run = true;
    try {
      judge_.judge(goldens_.key(v), slice, inputs, evidence, result);
    } catch (Error& error) {
      if (options_.program.empty()) throw error.module_path(p_.module_path(slice.origin)).python(result.place, result.source);
      // Source code that does not run on PyTorch's values there: its sizes do not fit each other, an index is too large.
      does_run = false;
      result.verdict = Verdict::wrong_here;
      result.judged = Judged::program;
      result.why = fmt::format("does not run on {}'s values: {}", whose_, error.message());
    }
    if (does_run) judge_.look_at_evidence(v, slice, inputs, evidence, result);
    judge_.look_at_whole_run(v, evidence.golden, result);
    if (result.verdict == Verdict::wrong_here && diagnosed_++ < options_.diagnoses)
      diagnose(v, slice, inputs, does_run ? &evidence : nullptr, result);
    return result;
  }

  void diagnose(ValueId v, const Slice& slice, const std::vector<Array>& inputs, const Evidence* evidence,
                LayerResult& result) const {
    if (!evidence) return diagnostician_.compare_with_recorded(v, slice, inputs, result);
    try {
      diagnostician_.diagnose(v, slice, inputs, *evidence, result);
    } catch (const std::exception& error) {  // the verdict stands without it
      if (!result.diagnosis) result.diagnosis.emplace().op = result.op;
      result.diagnosis->cause = fmt::format("the search for a cause failed: {}", error.what());
    }
  }

  std::map<ValueId, LayerResult> mistyped_layers() const;

  bool is_output(ValueId v) const {
    return std::any_of(p_.outputs.begin(), p_.outputs.end(), [&](const Output& output) { return output.value == v; });
  }

  void say_code(ValueId v, LayerResult& result) const {
    const CodeLine code = captured_.code_of(p_.graph.values[v].node);
    result.code = code.place;
    result.code_source = code.source;
  }

  void explain_type(ValueId v, const Array& golden, Diagnosis& d) const {
    try {
      const Slice slice = Slicer(p_, known_values(p_, goldens_)).slice(v);
      if (!slice.has_random_op) diagnostician_.explain_type(slice, known(slice), golden, d);
    } catch (const std::exception&) {  // NOLINT(bugprone-empty-catch): the verdict stands without it
    }
  }

  std::string random_text(const Slice& slice) const {
    const std::string place = p_.file_line(slice.origin);
    return fmt::format("drawn at random{}, so not the same twice; what is computed from it begins with {}'s value",
                       place.empty() ? "" : " at " + place, whose_);
  }

  std::vector<Array> known(const Slice& slice) const { return known_arrays(p_, goldens_, *trials_.parameters(), slice.inputs); }

  const VerifyOptions& options_;
  const GoldenFile& file_;
  const Program& p_;
  const CapturedProgram& captured_;  // without one: empty
  const Goldens goldens_;
  const std::string whose_;          // the goldens
  const Trials trials_;
  KeptFloors floors_;
  Slicer slicer_;
  LayerJudge judge_;
  const Diagnostician diagnostician_;
  int diagnosed_ = 0;
};

// Source code that gives another type than PyTorch is wrong there, whatever its numbers; the first tap of a value says it.
std::map<ValueId, LayerResult> CallVerification::mistyped_layers() const {
  std::map<ValueId, LayerResult> layers;
  for (const Mistyped& m : goldens_.mistyped()) {
    const NodeId node = p_.graph.values[m.value].node;
    if (node < 0) continue;
    const Node& made_by = p_.graph.nodes[node];
    LayerResult layer;
    layer.input = file_.input;
    layer.tap = m.tap;
    layer.op = made_by.op->name;
    layer.place = p_.file_line(made_by.origin);
    layer.source = p_.source_line(made_by.origin);
    say_code(m.value, layer);
    layer.path = path_of(m.tap, p_.module_path(made_by.origin));
    layer.dtype = std::string(name_of(p_.graph.type(m.value).dtype));
    layer.judged = Judged::program;
    layer.verdict = Verdict::wrong_here;
    layer.why = fmt::format("is {} where PyTorch has {}", m.found, m.expected);
    layer.diagnosis = Diagnosis{layer.op, p_.module_path(made_by.origin), layer.place, layer.source, {}, layer.why, "type"};
    if (layers.empty()) explain_type(m.value, goldens_.file().get(m.key), *layer.diagnosis);
    layers.emplace(m.value, std::move(layer));
  }
  return layers;
}

// ---- what there is to say of all calls

// A value that a recognised op swallowed is right when the op is.
std::string inside_text(const Program& p, const Tap& tap) {
  const Node& node = p.graph.nodes[p.graph.values[tap.value].node];
  return fmt::format("inside {}, which is judged as a whole", node.op->name);
}

bool is_right(Verdict v) { return v < Verdict::no_evidence; }

// A layer that proves nothing at one input may prove enough at another.
void say_what_has_no_evidence(const VerifyOptions& options, VerifyResult& result) {
  std::set<std::string> proven;
  for (const LayerResult& l : result.layers) {
    if (is_right(l.verdict) && l.vacuous.empty()) proven.insert(l.tap.text());
  }
  for (LayerResult& l : result.layers) {
    if (l.vacuous.empty()) continue;
    if (is_right(l.verdict) && proven.count(l.tap.text()) == 0) {
      l.verdict = Verdict::no_evidence;
      l.why = l.vacuous;
    }
    if (options.on_layer) options.on_layer(l);
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

VerifyResult started(const Subject& s) {
  VerifyResult result;
  if (s.options.hash_files) {
    std::vector<std::filesystem::path> goldens;
    for (const GoldenFile& file : s.goldens) goldens.push_back(file.path);
    result.hashes = recording_hashes(s.recording, find_manifest(s.manifest), goldens, s.weights.files);
  }
  result.ledger = s.weights.ledger;
  if (!result.ledger) result.damaged = check_weights(s.recording, *s.weights.parameters).damaged;
  result.name = s.program().name;
  result.backend = s.backend.name();
  result.against = stands_for_torch(s.options);
  for (const GoldenFile& file : s.goldens) result.planned += values_to_judge(s.program(), s.goldens_of(file)).size();
  if (s.options.on_start) s.options.on_start(result);
  return result;
}

void say_what_was_not_judged(const Subject& s, VerifyResult& result) {
  if (result.layers.empty()) say_why_none(s.recorded, Goldens(s.recorded, s.goldens.front().path), result);
  for (const AbsentLayer& layer : s.captured.absent) result.skipped.push_back({layer.tap, "the program does not compute it"});
  for (const Tap& tap : s.program().taps) {
    if (tap.inside) result.skipped.push_back({tap.id, inside_text(s.program(), tap)});
  }
}

}  // namespace

// Import; then for each value of each call: slice, judge, diagnose (CallVerification::look_at).
VerifyResult verify_recording(const std::filesystem::path& manifest, const VerifyOptions& options) {
  const Subject subject = import_subject(manifest, options);
  VerifyResult result = started(subject);
  for (const GoldenFile& file : subject.goldens) CallVerification(subject, file).run(result);
  say_what_has_no_evidence(options, result);
  say_what_was_not_judged(subject, result);
  return result;
}

}  // namespace pycandle
