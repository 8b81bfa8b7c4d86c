#include "verify/recording_diff.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "import/bundle.h"
#include "import/importer.h"
#include "passes/pipeline.h"
#include "passes/structure.h"
#include "runtime/model.h"
#include "verify/judging/goldens.h"
#include "verify/judging/metrics.h"

namespace pycandle {
namespace {

Recording imported(const std::filesystem::path& path, const OpTable& table) {
  if (is_bundle(find_manifest(path))) return import_manifest(path, table);  // its passes have run
  Recording recording = import_with_gaps(path, table);
  recording.program = run_program_pipeline(std::move(recording.program), table);
  return recording;
}

bool has_values(const Recording& r, const Parameter& p) { return r.bundle != nullptr || !p.file.empty(); }

// ---- structure

std::string input_types(const Program& p) {
  std::string text;
  for (const Input& input : p.inputs)
    if (!input.gap) text += fmt::format("{}{} {}", text.empty() ? "" : ", ", input.name, p.graph.type(input.value).text());
  return text;
}

std::vector<ChangedFact> changed_facts(const Recording& a, const Recording& b) {
  std::vector<ChangedFact> facts{{"class", a.model_class, b.model_class},
                                 {"torch", a.torch_version, b.torch_version},
                                 {"inputs", input_types(a.program), input_types(b.program)},
                                 {"soundness", a.soundness, b.soundness}};
  if (a.bundle && b.bundle) {
    facts.push_back({"weights", std::string(name_of(a.bundle->weights)), std::string(name_of(b.bundle->weights))});
    facts.push_back({"capabilities", fmt::format("{}", fmt::join(a.bundle->capabilities, ", ")),
                     fmt::format("{}", fmt::join(b.bundle->capabilities, ", "))});
  }
  facts.erase(std::remove_if(facts.begin(), facts.end(), [](const ChangedFact& f) { return f.first == f.second; }), facts.end());
  return facts;
}

// A node without the numbers of its values.
std::string signature(const Program& p, const Node& node) {
  std::string text = node.op->name + "(";
  for (const auto& [name, value] : node.attributes)
    text += fmt::format("{}{}={}", text.back() == '(' ? "" : ", ", name, to_string(value));
  text += ')';
  for (const ValueId result : node.results) text += " " + p.graph.type(result).text();
  return text;
}

struct OwnOps {
  std::string class_name;
  std::vector<std::string> ops;
};

// The module calls in their order, each with the nodes that are its own.
std::vector<std::pair<std::string, OwnOps>> modules_of(const Program& p) {
  std::vector<std::pair<std::string, OwnOps>> all;
  for (const ModuleCall& call : p.calls) all.push_back({fmt::format("{}@{}", call.path, call.call), {call.class_name, {}}});
  for (const Node& node : p.graph.nodes)
    if (node.origin.call >= 0) all[static_cast<size_t>(node.origin.call)].second.ops.push_back(signature(p, node));
  return all;
}

// Those of the one that the other lacks, each as often as it is missing.
std::vector<std::string> missing(const std::vector<std::string>& ops, const std::vector<std::string>& other) {
  std::multiset<std::string> left(other.begin(), other.end());
  std::vector<std::string> found;
  for (const std::string& op : ops) {
    if (const auto same = left.find(op); same != left.end()) {
      left.erase(same);
    } else {
      found.push_back(op);
    }
  }
  return found;
}

std::vector<ChangedModule> changed_modules(const Program& a, const Program& b) {
  const auto first = modules_of(a), second = modules_of(b);
  const std::map<std::string, OwnOps> before(first.begin(), first.end()), after(second.begin(), second.end());
  std::vector<ChangedModule> changed;
  for (const auto& [path, was] : first) {
    const auto now = after.find(path);
    if (now == after.end()) {
      changed.push_back({ChangedModule::Kind::only_first, path, was.class_name, was.ops, {}});
    } else if (was.ops != now->second.ops || was.class_name != now->second.class_name) {
      ChangedModule module{ChangedModule::Kind::changed, path, now->second.class_name, missing(was.ops, now->second.ops),
                           missing(now->second.ops, was.ops)};
      const bool is_order_alone = module.first.empty() && module.second.empty() && was.class_name == now->second.class_name;
      if (!is_order_alone) changed.push_back(std::move(module));
    }
  }
  for (const auto& [path, now] : second)
    if (!before.contains(path)) changed.push_back({ChangedModule::Kind::only_second, path, now.class_name, {}, now.ops});
  return changed;
}

// ---- tensors

std::string type_text(const Array& a) { return fmt::format("{}{}", name_of(a.dtype()), to_string(a.shape())); }

// In pieces: as doubles they would take up to four times their room.
void compare_values(const Array& a, const Array& b, ChangedTensor& found) {
  constexpr int64_t kPiece = 1 << 20;
  const auto piece = [](const Array& whole, int64_t from, int64_t count) {
    const auto* bytes = static_cast<const std::byte*>(whole.data()) + static_cast<size_t>(from) * size_of(whole.dtype());
    return Array(whole.dtype(), {count}, bytes, std::make_shared<const Array>(whole));
  };
  double squares = 0, size = 0;
  for (int64_t from = 0; from < a.size(); from += kPiece) {
    const int64_t count = std::min(kPiece, a.size() - from);
    const Array left = piece(a, from, count);
    const Metrics m = compare(piece(b, from, count), left);
    const double rms = root_mean_square(as_reals(left));
    found.largest = std::max(found.largest, m.max_abs);
    found.differing += m.differing;
    squares += m.mse * static_cast<double>(count);
    size += rms * rms * static_cast<double>(count);
  }
  found.elements = a.size();
  found.relative = squares == 0 ? 0 : size > 0 ? std::sqrt(squares / size) : INFINITY;
}

void add(const std::string& name, const Array& a, const Array& b, ChangedTensors& all) {
  ChangedTensor found{.name = name, .what = {}};
  if (a.dtype() != b.dtype() || a.shape() != b.shape()) {
    found.what = fmt::format("{} and {}", type_text(a), type_text(b));
  } else if (!a.same_bytes(b)) {
    compare_values(a, b, found);
  }
  if (found.what.empty() && found.differing == 0) {
    ++all.equal;
  } else {
    all.changed.push_back(std::move(found));
  }
}

ChangedTensors changed_weights(const Recording& a, const Recording& b, const ProgressFn& progress) {
  const auto first = recorded_parameters(a), second = recorded_parameters(b);
  std::map<std::string, const Parameter*> others;
  for (const Parameter& p : b.program.parameters) others.emplace(p.name, &p);
  ChangedTensors all;
  size_t done = 0;
  for (const Parameter& p : a.program.parameters) {
    report(progress, "weights", done++, a.program.parameters.size());
    const auto other = others.find(p.name);
    if (other == others.end()) {
      all.changed.push_back({.name = p.name, .what = "only in the first"});
      continue;
    }
    const Parameter& q = *other->second;
    others.erase(other);
    if (!has_values(a, p) || !has_values(b, q)) {
      if (p.type != q.type) all.changed.push_back({.name = p.name, .what = p.type.text() + " and " + q.type.text()});
      continue;
    }
    const Array left = first->get(p), right = second->get(q);
    add(p.name, left, right, all);
    first->release(left);
    second->release(right);
  }
  for (const Parameter& p : b.program.parameters)
    if (others.contains(p.name)) all.changed.push_back({.name = p.name, .what = "only in the second"});
  return all;
}

void compare_goldens(const Recording& a, const Recording& b, RecordingDifference& found, const ProgressFn& progress) {
  if (a.trace_file.empty() || b.trace_file.empty()) return;
  const Goldens first(a.program, a.traces().front()), second(b.program, b.traces().front());
  for (size_t i = 0; i < std::min(first.inputs().size(), second.inputs().size()); ++i)
    add(a.program.inputs[i].name, first.inputs()[i], second.inputs()[i], found.inputs);
  std::map<std::string, ValueId> others;
  for (const Tap& tap : b.program.taps)
    if (!tap.inside && second.has(tap.value)) others.emplace(tap.id.text(), tap.value);
  std::set<ValueId> seen;
  size_t done = 0;
  for (const Tap& tap : a.program.taps) {
    report(progress, "values", done++, a.program.taps.size());
    const auto other = others.find(tap.id.text());
    const bool is_computed = !tap.inside && first.has(tap.value) && a.program.graph.values[tap.value].node >= 0;
    if (!is_computed || other == others.end() || !seen.insert(tap.value).second) continue;
    add(tap.id.text(), first.get(tap.value), second.get(other->second), found.values);
  }
}

}  // namespace

RecordingDifference compare_recordings(const std::filesystem::path& first, const std::filesystem::path& second,
                                       const OpTable& table, const ProgressFn& progress) {
  const Recording a = imported(first, table), b = imported(second, table);
  RecordingDifference found;
  found.first_name = a.program.name;
  found.second_name = b.program.name;
  found.facts = changed_facts(a, b);
  found.structure = first_difference(a.program, b.program);
  found.modules = changed_modules(a.program, b.program);
  found.weights = changed_weights(a, b, progress);
  compare_goldens(a, b, found, progress);
  return found;
}

}  // namespace pycandle
