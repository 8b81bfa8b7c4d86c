#include "verify/diagnosing/equivalence.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <utility>

#include "base/error.h"
#include "passes/structure.h"
#include "verify/diagnosing/equal_values.h"
#include "verify/diagnosing/trial_inputs.h"
#include "verify/judging/metrics.h"
#include "verify/judging/slices.h"
#include "verify/judging/trials.h"

namespace pycandle {
namespace {

constexpr const char* kLikenessTexts[] = {"the same",         "proven equal", "equal",    "equal within rounding",
                                          "different inside", "not compared", "different"};
constexpr double kSeconds = 20;       // for trials: of a large model fewer inputs are tried
constexpr size_t kLeastTrials = 3;    // however long they take
constexpr size_t kMostParts = 8;      // modules that are looked into
constexpr int64_t kShownNumbers = 6;  // of an input

std::string number_text(double x) { return std::isnan(x) ? "nan" : fmt::format("{:.6g}", x); }

std::string array_text(const Array& a) {
  const std::vector<double> reals = as_reals(a);
  std::vector<std::string> first;
  for (size_t i = 0; i < reals.size() && i < kShownNumbers; ++i) first.push_back(number_text(reals[i]));
  return fmt::format("{}{} {}{}", name_of(a.dtype()), to_string(a.shape()), fmt::join(first, " "),
                     reals.size() > kShownNumbers ? " …" : "");
}

// Elements that are not one number, as `is_equal` sees it; -1: none.
int64_t first_difference_of(const Array& a, const Array& b, const std::function<bool(double, double)>& is_equal) {
  const std::vector<double> left = as_reals(a), right = as_reals(b);
  for (size_t i = 0; i < left.size(); ++i) {
    if (!is_equal(left[i], right[i])) return static_cast<int64_t>(i);
  }
  return -1;
}

bool equal_to_the_bit(const Array& a, const Array& b) {
  return a.same_bytes(b) || (is_inexact(a.dtype()) && first_difference_of(a, b, same_number) < 0);
}

double relative_difference(const Array& expected, const Array& found) {
  const double scale = root_mean_square(as_reals(expected)), rms = compare(found, expected).rms;
  return scale > 0 ? rms / scale : rms;
}

// What a program gives, with a name for each: outputs, and what the states become.
struct Result {
  std::string name;
  ValueId value = kNoValue;
};

std::vector<Result> results_of(const Program& p) {
  std::vector<Result> all;
  for (const Output& output : p.outputs) all.push_back({output.name, output.value});
  std::map<std::string, ValueId> updated;
  for (const State& state : p.states) {
    if (state.updated != kNoValue) updated.emplace("state " + state.name, state.updated);
  }
  for (const auto& [name, value] : updated) all.push_back({name, value});
  return all;
}

bool draws_random_numbers(const Program& p) {
  return std::any_of(p.graph.nodes.begin(), p.graph.nodes.end(), [](const Node& node) { return node.op->is_random; });
}

using Arrays = std::map<std::string, Array>;

// A program that runs as a whole, by the names that results_of() gives.
class Runner {
 public:
  Runner(const ComparedProgram& compared, const OpTable& table)
      : p_(compared.program),
        parameters_(compared.parameters),
        executable_(reference_backend().compile(compared.program, table, compared.parameters)) {}

  // `states`: before the call, by name.
  Arrays run(const std::vector<Array>& inputs, const Arrays& states, Bindings* sizes = nullptr) const {
    RunRequest request;
    request.inputs = inputs;
    request.found = sizes;
    std::vector<Array> in_order;
    for (const State& s : p_.states) in_order.push_back(states.at(s.name));
    request.states = &in_order;
    std::vector<Array> outputs = executable_->run(request);
    Arrays all;
    for (size_t i = 0; i < outputs.size(); ++i) all.emplace(p_.outputs[i].name, std::move(outputs[i]));
    for (size_t i = 0; i < in_order.size(); ++i) {
      if (p_.states[i].updated != kNoValue) all.emplace("state " + p_.states[i].name, std::move(in_order[i]));
    }
    return all;
  }

  Arrays recorded_states() const {
    Arrays states;
    for (const State& s : p_.states) states.emplace(s.name, parameters_->get_state(s, p_.graph.type(s.value)));
    return states;
  }

 private:
  const Program& p_;
  std::shared_ptr<const ParameterSource> parameters_;
  std::unique_ptr<Executable> executable_;
};

class ProgramComparer {
 public:
  ProgramComparer(const ComparedProgram& recorded, const ComparedProgram& captured, const OpTable& table,
                  const std::vector<std::vector<Array>>& recorded_inputs)
      : r_(recorded), c_(captured), table_(table), recorded_inputs_(recorded_inputs), matches_(r_.program, c_.program) {}

  ProgramComparison run() {
    if (structure_of(r_.program) == structure_of(c_.program)) return found_;
    found_.parts = matches_.differences();
    if (has_another_signature()) return found_;
    EqualValues equal(r_.program, c_.program, matches_, table_);
    equal.find();
    const bool is_proven = equal.all_results();
    found_.likeness = is_proven ? Likeness::proven : Likeness::equal;
    if (draws_random_numbers(r_.program) || draws_random_numbers(c_.program)) {
      if (!is_proven) found_.likeness = Likeness::not_compared;
      return found_;
    }
    try_whole();
    if (found_.likeness == Likeness::equal || found_.likeness == Likeness::within_rounding) try_inside();
    return found_;
  }

 private:
  bool has_another_signature() {
    const auto text = [](const Program& p) {
      std::string all;
      for (const Result& r : results_of(p))
        all += fmt::format("{}{} {}", all.empty() ? "" : ", ", r.name, p.graph.type(r.value).text());
      return all;
    };
    const std::string expected = text(r_.program), found = text(c_.program);
    if (expected == found) return false;
    found_.likeness = Likeness::different;
    found_.shown = Counterexample{"any input", "the results", "any", expected, found};
    return true;
  }

  // ---- from the inputs of the model

  void try_whole() {
    const Runner recorded(r_, table_), captured(c_, table_);
    for (const std::vector<Array>& inputs : recorded_inputs_) {
      if (!try_inputs(recorded, captured, {"the recorded inputs", inputs})) return;
    }
    const auto start = std::chrono::steady_clock::now();
    for (const TrialInputs& trial : trial_inputs(r_.program)) {
      const std::chrono::duration<double> spent = std::chrono::steady_clock::now() - start;
      if (found_.tried >= kLeastTrials && spent.count() > kSeconds) return;
      if (!try_inputs(recorded, captured, trial)) return;
    }
  }

  // Says no once a difference is found. With states there are two calls: a momentum does not show while the mean is zero.
  bool try_inputs(const Runner& recorded, const Runner& captured, const TrialInputs& trial) {
    Arrays states = recorded.recorded_states();
    for (const State& s : c_.program.states) states.emplace(s.name, captured.recorded_states().at(s.name));
    const bool is_other = trial.what != "the recorded inputs";
    Arrays expected;
    if (!try_call(recorded, captured, trial, states, expected)) return false;
    found_.tried += is_other && !expected.empty() ? 1 : 0;
    if (r_.program.states.empty() || expected.empty()) return true;
    for (auto& [name, array] : states) {
      if (const auto updated = expected.find("state " + name); updated != expected.end()) array = updated->second;
    }
    return try_call(recorded, captured, {trial.what + ", second call", trial.arrays, trial.is_finite}, states, expected);
  }

  bool try_call(const Runner& recorded, const Runner& captured, const TrialInputs& trial, const Arrays& states,
                Arrays& expected) {
    Bindings sizes;
    Arrays found;
    try {
      expected = recorded.run(trial.arrays, states, &sizes);
    } catch (const Error&) {  // no input for this model
      return true;
    }
    try {
      found = captured.run(trial.arrays, states);
    } catch (const Error& error) {
      show({trial.what, "the run", texts_of(trial.arrays), "a result", error.message()});
      return false;
    }
    for (const Result& result : results_of(r_.program)) {
      const Array &theirs = expected.at(result.name), &ours = found.at(result.name);
      if (theirs.shape() != ours.shape()) {
        show({trial.what, result.name, texts_of(trial.arrays), to_string(theirs.shape()), to_string(ours.shape())});
        return false;
      }
      if (equal_to_the_bit(theirs, ours) || is_rounding(states, trial, sizes, result, theirs, ours)) continue;
      show(numbers(trial.what, result.name, texts_of(trial.arrays), theirs, ours));
      return false;
    }
    return true;
  }

  bool is_rounding(const Arrays& states, const TrialInputs& trial, const Bindings& sizes, const Result& result,
                   const Array& theirs, const Array& ours) {
    if (!is_inexact(theirs.dtype()) || r_.program.graph.values[result.value].node < 0) return false;
    if (!trial.is_finite) return found_.likeness == Likeness::within_rounding && alike_where_finite(theirs, ours);
    const Slice slice = Slicer(r_.program, PerValue<bool>(r_.program.graph.values.size())).slice(result.value);
    std::vector<Array> inputs;
    for (ValueId v : slice.inputs) {
      for (size_t i = 0; i < trial.arrays.size(); ++i) {
        if (r_.program.inputs[i].value == v) inputs.push_back(trial.arrays[i]);
      }
      for (const State& s : r_.program.states) {
        if (s.value == v) inputs.push_back(states.at(s.name));
      }
    }
    return is_rounding(slice, inputs, sizes, theirs, ours);
  }

  bool is_rounding(const Slice& slice, const std::vector<Array>& inputs, const Bindings& sizes, const Array& theirs,
                   const Array& ours) {
    if (!Trials(table_, r_.parameters, sizes).explains(slice.program, inputs, ours).passed) return false;
    found_.likeness = std::max(found_.likeness, Likeness::within_rounding);
    found_.largest = std::max(found_.largest, relative_difference(theirs, ours));
    return true;
  }

  // What rounds otherwise may also overflow otherwise: NaN for an infinity, say.
  static bool alike_where_finite(const Array& theirs, const Array& ours) {
    constexpr double kRounding = 1e-3;
    const double scale = root_mean_square(as_reals(theirs));
    return first_difference_of(theirs, ours, [&](double a, double b) {
             if (!std::isfinite(a) || !std::isfinite(b)) return std::isfinite(a) == std::isfinite(b);
             return std::abs(a - b) <= kRounding * std::max({std::abs(a), std::abs(b), scale});
           }) < 0;
  }

  // ---- inside of the modules that differ: from values that the tried inputs may not reach

  void try_inside() {
    EqualValues equal(r_.program, c_.program, matches_, table_);
    size_t looked_at = 0;
    equal.find([&](const TapId& tap, ValueId recorded, ValueId captured) {
      if (found_.shown || recorded_inputs_.empty() || ++looked_at > kMostParts) return true;
      const Slice theirs = Slicer(r_.program, equal.known_recorded()).slice(recorded);
      const Slice ours = Slicer(c_.program, equal.known_captured()).slice(captured);
      return try_slices(tap.module_call(), theirs, ours, equal);
    });
  }

  // Says no when the module is given something else in the two programs, and so gives something else.
  bool try_slices(const std::string& call, const Slice& theirs, const Slice& ours, const EqualValues& equal) {
    Values begins = theirs.inputs;  // recorded values, each once
    Values of_ours;
    for (ValueId v : ours.inputs) of_ours.push_back(equal.recorded_of(v));
    begins.insert(begins.end(), of_ours.begin(), of_ours.end());
    std::sort(begins.begin(), begins.end());
    begins.erase(std::unique(begins.begin(), begins.end()), begins.end());
    Bindings sizes;
    const std::map<ValueId, Array> known = values_at(begins, sizes);
    if (known.size() != begins.size()) return true;
    std::map<ValueId, std::vector<std::pair<std::string, Array>>> variants;
    size_t count = 0;
    for (const auto& [value, array] : known) count = std::max(count, (variants[value] = variants_of(array)).size());
    // All at once, then each alone with the others as they were recorded.
    for (size_t k = 0; k < count * (known.size() + 1) && !found_.shown; ++k) {
      std::map<ValueId, Array> inputs = known;
      std::string what;
      size_t index = 0;
      for (const auto& [value, all] : variants) {
        const bool is_changed = k < count || index++ == k / count - 1;
        if (!is_changed || k % count >= all.size()) continue;
        inputs.at(value) = all[k % count].second;
        what = all[k % count].first;
      }
      if (what.empty()) continue;
      const std::optional<Counterexample> shown = try_values(call, what, theirs, ours, of_ours, inputs, sizes);
      if (!shown) continue;
      if (k == 0) return false;  // as recorded
      found_.likeness = Likeness::different_inside;
      found_.shown = shown;
    }
    return true;
  }

  std::optional<Counterexample> try_values(const std::string& call, const std::string& what, const Slice& theirs,
                                           const Slice& ours, const Values& of_ours, const std::map<ValueId, Array>& values,
                                           const Bindings& sizes) {
    std::vector<Array> for_theirs, for_ours;
    for (ValueId v : theirs.inputs) for_theirs.push_back(values.at(v));
    for (ValueId v : of_ours) for_ours.push_back(values.at(v));
    try {
      const Array expected = Trials(table_, r_.parameters, sizes).rounded(theirs.program, for_theirs);
      const Array found = Trials(table_, c_.parameters, sizes).rounded(ours.program, for_ours);
      if (equal_to_the_bit(expected, found)) return std::nullopt;
      if (is_inexact(expected.dtype()) && is_rounding(theirs, for_theirs, sizes, expected, found)) return std::nullopt;
      std::string inputs;
      for (size_t i = 0; i < theirs.inputs.size(); ++i) {
        const std::string name = input_name(theirs.inputs[i]);
        inputs += fmt::format("{}{} = {}", i == 0 ? "" : "; ", name, array_text(for_theirs[i]));
      }
      return numbers(what, "the result of " + (call.empty() || call == "@0" ? "the model" : call), inputs, expected, found);
    } catch (const Error&) {  // no values for this part
      return std::nullopt;
    }
  }

  std::string input_name(ValueId v) const {
    for (const Input& input : r_.program.inputs) {
      if (input.value == v) return input.name;
    }
    const std::string name = name_of_value(r_.program, v);
    return name.empty() ? "a value inside" : name;
  }

  // Recorded values in a run from the recorded inputs.
  std::map<ValueId, Array> values_at(const Values& values, Bindings& sizes) const {
    Program p = r_.program;
    p.taps.clear();
    std::map<ValueId, Array> found;
    const std::vector<Array>& inputs = recorded_inputs_.front();
    for (size_t i = 0; i < p.inputs.size(); ++i) found.emplace(p.inputs[i].value, inputs[i]);
    for (const State& s : p.states) found.emplace(s.value, r_.parameters->get_state(s, p.graph.type(s.value)));
    std::erase_if(found, [&](const auto& known) { return !std::binary_search(values.begin(), values.end(), known.first); });
    for (ValueId v : values) {
      if (found.count(v) == 0) p.taps.push_back({{TapId::Kind::node, fmt::format("{}", v)}, v, "", false});
    }
    RunRequest request;
    request.inputs = inputs;
    request.found = &sizes;
    request.on_tap = [&](size_t tap, const Array& value) { found.emplace(p.taps[tap].value, value); };
    reference_backend().compile(p, table_, r_.parameters)->run(request);
    return found;
  }

  // ---- showing

  std::string texts_of(const std::vector<Array>& arrays) const {
    std::string all;
    for (size_t i = 0; i < arrays.size(); ++i)
      all += fmt::format("{}{} = {}", i == 0 ? "" : "; ", r_.program.inputs[i].name, array_text(arrays[i]));
    return all;
  }

  void show(Counterexample shown) {
    found_.likeness = Likeness::different;
    found_.shown = std::move(shown);
  }

  // The element that differs most.
  static Counterexample numbers(const std::string& what, const std::string& where, const std::string& inputs, const Array& theirs,
                                const Array& ours) {
    const Metrics metrics = compare(ours, theirs);
    int64_t at = metrics.nan_mismatches > 0 ? metrics.first_nan_mismatch : metrics.largest_difference;
    if (at < 0) at = std::max<int64_t>(first_difference_of(theirs, ours, same_number), 0);
    const size_t parts = is_complex(theirs.dtype()) ? 2 : 1, first = static_cast<size_t>(at) * parts;
    return {what, fmt::format("{} at {}", where, to_string(coordinates_of(at, theirs.shape()))), inputs,
            number_text(as_reals(theirs)[first]), number_text(as_reals(ours)[first])};
  }

  const ComparedProgram &r_, &c_;
  const OpTable& table_;
  const std::vector<std::vector<Array>>& recorded_inputs_;
  const NodeMatches matches_;
  ProgramComparison found_;
};

std::string place_text(const DifferingOp& op) {
  if (op.place.empty()) return "";
  return "   " + op.place + (op.source.empty() ? "" : ":  " + op.source);
}

}  // namespace

const char* to_string(Likeness l) { return kLikenessTexts[static_cast<size_t>(l)]; }

bool is_harmless(Likeness l) { return l <= Likeness::within_rounding; }

std::string ProgramComparison::verdict() const {
  const std::string tried_text = fmt::format("on the recorded inputs and on {} others (random, edge values, other sizes)", tried);
  switch (likeness) {
    case Likeness::same: return "the recorded program";
    case Likeness::proven: return fmt::format("proven equal: the same formulas, which round alike; equal {} too", tried_text);
    case Likeness::equal: return "equal to the bit " + tried_text + "; not proven";
    case Likeness::within_rounding:
      return fmt::format("equal but for rounding {}: at most {:.2g} of the values", tried_text, largest);
    case Likeness::different_inside: return fmt::format("equal {}, but not at every value inside", tried_text);
    case Likeness::not_compared: return "not compared: the model draws random numbers, and the formulas are not the same";
    case Likeness::different: return "different for some input";
  }
  return "";
}

std::string ProgramComparison::text() const {
  constexpr size_t kMostOps = 12;  // of one module
  std::string out;
  for (const DifferingPart& part : parts) {
    const std::string call = part.calls.front().empty() ? "(root)" : part.calls.front();
    out += fmt::format("in {}{}{}\n", call, part.class_name.empty() ? "" : ", " + part.class_name,
                       part.calls.size() > 1 ? fmt::format(", and the same in {} more", part.calls.size() - 1) : "");
    size_t width = 0;
    for (const DifferingOp& op : part.ops) width = std::max(width, op.text.size());
    for (size_t i = 0; i < part.ops.size() && i < kMostOps; ++i) {
      const DifferingOp& op = part.ops[i];
      const std::string place = place_text(op);
      out += fmt::format("  {} {:{}}{}\n", op.is_recorded ? '-' : '+', op.text, place.empty() ? 0 : width, place);
    }
    if (part.ops.size() > kMostOps) out += fmt::format("  … and {} more\n", part.ops.size() - kMostOps);
  }
  out += verdict();
  if (!shown) return out;
  return out + fmt::format("\n  inputs   {}: {}\n  where    {}\n  expected {}\n  found    {}", shown->what, shown->inputs,
                           shown->where, shown->expected, shown->found);
}

ProgramComparison compare_programs(const ComparedProgram& recorded, const ComparedProgram& captured, const OpTable& table,
                                   const std::vector<std::vector<Array>>& recorded_inputs) {
  return ProgramComparer(recorded, captured, table, recorded_inputs).run();
}

}  // namespace pycandle
