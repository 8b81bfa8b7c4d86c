#include "verify/diagnosing/diagnose.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "base/error.h"
#include "verify/diagnosing/divergence.h"
#include "verify/diagnosing/reach.h"

namespace pycandle {
namespace {

// Numbers are made there, not only moved.
bool computes(const Node& node) { return !only_moves(node) && !node.op->is_rearrangement && node.op->name != "constant"; }

void describe_cause(const Causes& causes, Diagnosis& d) {
  d.cause = causes.text();
  if (causes.only() == nullptr) return;
  d.cause_kind = causes.only()->kind;
  if (!causes.only()->op.empty()) d.op = causes.only()->op;
  if (!causes.only()->path.empty()) d.path = causes.only()->path;
  d.parameter = causes.only()->parameter;
}

// By the rules of broadcasting, and not one number alone.
bool fits_into(const Type& small, const Type& large) {
  if (small.dtype != large.dtype || small.rank() > large.rank() || small.rank() == 0) return false;
  const size_t more = large.shape.size() - small.shape.size();
  for (size_t axis = 0; axis < small.shape.size(); ++axis) {
    if (small.shape[axis] != large.shape[axis + more] && small.shape[axis] != Dim(1)) return false;
  }
  return true;
}

bool is_inside(const std::string& module, const std::string& outer) {
  return outer.empty() || module == outer || module.starts_with(outer + ".");
}

}  // namespace

std::optional<Program> ordered_as(const std::vector<Array>& inputs, RecordedPart recorded) {
  if (recorded.inputs.size() != inputs.size()) return std::nullopt;
  std::vector<Input> ordered;
  std::vector<bool> is_taken(inputs.size());  // equal ones, two states of zeros say, are each taken once
  for (const Array& array : inputs) {
    size_t i = 0;
    while (i < inputs.size() && (is_taken[i] || !recorded.inputs[i].same_bytes(array))) ++i;
    if (i == inputs.size()) return std::nullopt;
    is_taken[i] = true;
    ordered.push_back(recorded.program.inputs[i]);
  }
  recorded.program.inputs = std::move(ordered);
  return std::move(recorded.program);
}

void Diagnostician::diagnose(ValueId v, const Slice& slice, const std::vector<Array>& inputs, const Evidence& evidence,
                             LayerResult& result) const {
  Diagnosis& d = result.diagnosis.emplace();
  const bool is_backend = result.judged == Judged::backend ||
                          (result.judged == Judged::tolerance && &backend_ != &reference_backend());
  if (is_backend) {
    if (const std::optional<Isolated> part = isolate(slice, inputs, backend_, pipeline_, trials_)) {
      describe_place(part->nodes, d);
      const Suspect suspect{p_, part->part, part->inputs, part->got, true, part->judgement.floor_rms, part->judgement.floor_max};
      const Causes causes = find_causes(suspect, trials_);
      describe_cause(causes, d);
      d.pass = guilty_backend_pass(*part);
      show(result, part->part.program, part->inputs, part->expected, part->got);
      return;
    }
    d.op = slice.last_op;
    d.cause = "every op of this layer is right alone: what is wrong depends on what is around them";
  } else if (result.judged == Judged::program && !look_at_unchanged_states(result)) {
    Evidence again;
    again.golden = evidence.golden;
    if (trials_.judge(slice.program, inputs, again).rounds_more) {
      d.op = "cast";
      d.cause = "looks like a rounding to a smaller float where the model has none";
      d.cause_kind = "accumulation dtype";
      show(result, slice.program, inputs, evidence.golden, evidence.ours);
      return;
    }
    const Suspect suspect{.program = p_,
                          .slice = slice,
                          .inputs = inputs,
                          .value = evidence.golden,
                          .floor_rms = result.floor_rms,
                          .floor_max = result.floor_max,
                          .beside = [&](const Type& type) { return beside(v, v, type); },
                          .anywhere = [&](const Type& type) { return beside(v, kNoValue, type); },
                          .input_values = [&] { return input_values(); },
                          .updated_state = [&](ValueId state) { return updated_state(state); },
                          .recorded = [&] { return recorded_values(goldens_.key(v)); },
                          .recorded_program = [&] { return recorded_program(v, inputs); },
                          .absent = absent(),
                          .has_foreign_op = has_foreign_op(slice),
                          .right_values = [&](NodeId node) { return right_values(v, node); }};
    const Causes causes = find_causes(suspect, trials_);
    describe_place(causes.only() != nullptr ? std::vector{slice.program.graph.nodes[causes.only()->node].origin.sliced_from}
                                            : suspects_of(v, slice, inputs, evidence.golden),
                   d);
    describe_cause(causes, d);
    if (causes.only() == nullptr) look_at_recorded_ops(v, slice, inputs, d);
    // Whose weights are others.
    if (d.cause_kind.empty() || d.cause_kind == "wrong weight") look_at_exchanged_modules(result.tap, d);
    d.pass = guilty_program_pass(v);
  }
  if (d.op.empty()) d.op = slice.last_op;
  show(result, slice.program, inputs, evidence.golden, evidence.ours);
}

// Without a cause: the ops that compute in the layer, less those that a right value is computed from too, and those that do
// not reach what is wrong.
std::vector<NodeId> Diagnostician::suspects_of(ValueId v, const Slice& slice, const std::vector<Array>& inputs,
                                               const Array& golden) const {
  constexpr size_t kMost = 32;
  const std::vector<Node>& nodes = slice.program.graph.nodes;
  std::vector<NodeId> all, left;
  for (const Node& node : nodes) {
    if (computes(node)) all.push_back(node.origin.sliced_from);
  }
  if (all.size() < 2 || all.size() > kMost) return all;
  for (const Node& node : nodes) {
    if (!computes(node)) continue;
    bool is_right = false;
    try {
      is_right = !reaches_error(slice, trials_, inputs, golden, node) || !right_values(v, node.origin.sliced_from).empty();
    } catch (const std::exception&) {  // NOLINT(bugprone-empty-catch): then it stays
    }
    if (!is_right) left.push_back(node.origin.sliced_from);
  }
  return left.empty() ? all : left;
}

void Diagnostician::explain_type(const Slice& slice, const std::vector<Array>& inputs, const Array& golden, Diagnosis& d) const {
  const Causes causes = find_causes({p_, slice, inputs, golden}, trials_);
  if (causes.only() == nullptr) return;
  d.op.clear();
  describe_place({slice.program.graph.nodes[causes.only()->node].origin.sliced_from}, d);
  describe_cause(causes, d);
}

void Diagnostician::compare_with_recorded(ValueId v, const Slice& slice, const std::vector<Array>& inputs,
                                          LayerResult& result) const {
  result.diagnosis = Diagnosis{slice.last_op, result.path, result.place, result.source, {}, result.why, {}};
  look_at_recorded_ops(v, slice, inputs, *result.diagnosis);
}

bool Diagnostician::look_at_unchanged_states(LayerResult& result) const {
  const auto found = captured_.unchanged.find(result.tap);
  if (found == captured_.unchanged.end()) return false;
  result.op = found->second;
  result.why = "the code leaves this state as it was: " + result.why;
  *result.diagnosis = {result.op, result.path, result.place, result.source, {}, {}, "missing update"};
  result.diagnosis->cause = fmt::format("looks like no update of the state where the model changes it by {}", result.op);
  return true;
}

void Diagnostician::look_at_exchanged_modules(const TapId& tap, Diagnosis& d) const {
  const auto found = std::find_if(captured_.exchanged.begin(), captured_.exchanged.end(),
                                  [&](const ExchangedModules& e) { return is_inside(tap.module, e.inside); });
  if (found == captured_.exchanged.end()) return;
  d.cause = fmt::format("looks like {} is called where the model calls {}", found->called, found->instead_of);
  d.cause_kind = "wrong layer";
  for (const AbsentLayer& layer : captured_.absent) {
    if (layer.path.rfind(found->instead_of + "@", 0) != 0) continue;
    d.op = layer.op;
    d.path = layer.path;
  }
}

std::string Diagnostician::name_of_input(ValueId v) const {
  const std::string name = name_of_value(p_, v);
  return name.empty() ? goldens_.key(v) : name;
}

std::optional<Program> Diagnostician::recorded_program(ValueId v, const std::vector<Array>& inputs) const {
  std::optional<RecordedPart> recorded = recorded_slice_(goldens_.key(v));
  return recorded ? ordered_as(inputs, std::move(*recorded)) : std::nullopt;
}

// Without a cause there is still what source code says differently.
void Diagnostician::look_at_recorded_ops(ValueId v, const Slice& slice, const std::vector<Array>& inputs, Diagnosis& d) const {
  const std::optional<RecordedPart> recorded = recorded_slice_(goldens_.key(v));
  if (!recorded) return;
  std::vector<GivenValue> ours, its;
  for (size_t i = 0; i < inputs.size(); ++i) ours.push_back({identity_of(inputs[i]), name_of_input(slice.inputs[i])});
  for (size_t i = 0; i < recorded->inputs.size(); ++i) its.push_back({identity_of(recorded->inputs[i]), recorded->names[i]});
  const Divergence divergence = divergence_of(slice.program, ours, recorded->program, its);
  const OpDifference difference = op_difference(slice.program, recorded->program);
  for (const auto* ops : {&difference.ours, &difference.recorded, &divergence.our_ops, &divergence.recorded_ops}) {
    if (ops->empty()) continue;
    d.op = fmt::format("{}", fmt::join(*ops, ", "));
    break;
  }
  if (!difference.left_out.empty()) {
    const std::string& operand = difference.left_out;  // attn_mask, b_hh
    const std::string what = operand.find("mask") != std::string::npos ? "mask" : operand.rfind("b_", 0) == 0 ? "bias" : operand;
    d.cause = fmt::format("looks like no {} where the model uses one", what);
    d.cause_kind = "missing " + what;
    return;
  }
  const auto text = [](std::vector<std::string> ops) {
    constexpr size_t kEnough = 4;
    if (ops.size() > kEnough) ops.resize(kEnough, "…");
    return ops.empty() ? "nothing" : fmt::format("{}", fmt::join(ops, " and "));
  };
  if (divergence.ours.empty() && divergence.recorded.empty()) return;
  d.cause += fmt::format("; it has {} where the recorded program has {}", text(divergence.ours), text(divergence.recorded));
}

void Diagnostician::show(const LayerResult& result, const Program& p, const std::vector<Array>& inputs, const Array& expected,
                         const Array& got) const {
  if (on_wrong_) on_wrong_(result, {p, inputs, *trials_.parameters(), trials_.sizes(), expected, got});
}

// Several ops are named all; the last one says where.
void Diagnostician::describe_place(const std::vector<NodeId>& nodes, Diagnosis& d) const {
  for (NodeId n : nodes) {
    const Node& node = p_.graph.nodes.at(n);
    d.op += (d.op.empty() ? "" : ", ") + node.op->name;
    d.path = p_.module_path(node.origin);
    d.place = p_.file_line(node.origin);
    d.source = p_.source_line(node.origin);
    const CodeLine code = captured_.code_of(n);
    d.code = code.place;
    d.code_source = code.source;
  }
}

std::vector<std::pair<AbsentLayer, Array>> Diagnostician::absent() const {
  std::vector<std::pair<AbsentLayer, Array>> found;
  for (const AbsentLayer& layer : captured_.absent) found.emplace_back(layer, goldens_.file().get(layer.key));
  if (!captured_.recorded_ops.empty()) return found;
  // Another program's goldens: what they have and this program does not.
  constexpr size_t kEnough = 64;
  for (const auto& [key, entry] : goldens_.file().entries()) {
    if (found.size() >= kEnough) break;
    if (goldens_.value_of(key) != kNoValue) continue;
    const TapId tap = TapId::parse(key);
    if (tap.kind == TapId::Kind::module_output)
      found.emplace_back(AbsentLayer{tap, tap.module_call(), {}, key}, goldens_.file().get(key));
  }
  return found;
}

bool Diagnostician::has_foreign_op(const Slice& slice) const {
  return std::any_of(slice.program.graph.nodes.begin(), slice.program.graph.nodes.end(), [&](const Node& node) {
    const Node& original = p_.graph.nodes.at(node.origin.sliced_from);
    return !only_moves(node) && captured_.recorded_ops.count({node.op->name, p_.module_path(original.origin)}) == 0;
  });
}

std::vector<Suspect::InputValue> Diagnostician::input_values() const {
  std::vector<Suspect::InputValue> values;
  for (size_t i = 0; i < p_.inputs.size(); ++i) {
    values.push_back({p_.inputs[i].name, p_.graph.type(p_.inputs[i].value), goldens_.inputs()[i]});
  }
  return values;
}

std::optional<std::pair<std::string, Array>> Diagnostician::updated_state(ValueId before) const {
  const auto state = std::find_if(p_.states.begin(), p_.states.end(), [&](const State& s) { return s.value == before; });
  if (state == p_.states.end() || p_.graph.values.at(state->updated).node < 0) return std::nullopt;
  const Slice slice = Slicer(p_, known_values(p_, goldens_)).slice(state->updated);
  if (slice.has_random_op) return std::nullopt;
  return std::pair{state->name, trials_.rounded(slice.program, known_arrays(p_, goldens_, *trials_.parameters(), slice.inputs))};
}

// Of sums and differences: what they read.
std::vector<Suspect::RecordedValue> Diagnostician::recorded_values(const std::string& key) const {
  std::vector<Suspect::RecordedValue> values;
  const std::optional<RecordedPart> recorded = recorded_slice_(key);
  if (!recorded) return values;
  const Graph& g = recorded->program.graph;
  Program all = recorded->program;
  all.outputs.clear();
  std::set<ValueId> seen;
  for (const Node& node : g.nodes) {
    if (node.op->name != "add" && node.op->name != "sub") continue;
    for (ValueId v : node.operands) {
      const NodeId made_by = g.values[v].node;
      if (made_by < 0 || !seen.insert(v).second) continue;  // a golden, or known by now
      all.outputs.push_back({std::to_string(v), v});
      values.push_back({g.nodes[made_by].op->name, node.op->name, {}});
    }
  }
  if (values.empty()) return values;
  all.bind_outputs();
  const std::vector<Array> arrays =
      reference_backend().compile(all, trials_.table(), trials_.parameters())->run(trials_.request(recorded->inputs));
  for (size_t i = 0; i < values.size(); ++i) values[i].value = arrays[i];
  return values;
}

// Goldens that can be added to a value of this type, the nearest first, and those before it before those after it: what a
// residual may be. None from `end` on.
std::vector<std::pair<std::string, Array>> Diagnostician::beside(ValueId target, ValueId end, const Type& type) const {
  constexpr size_t kEnough = 64;
  std::vector<std::pair<std::string, Array>> found;
  const auto look_at = [&](ValueId v) {
    if (found.size() < kEnough && goldens_.has(v) && fits_into(p_.graph.type(v), type))
      found.emplace_back(name_of_input(v), goldens_.get(v));
  };
  for (ValueId v = target; v-- > 0;) look_at(v);
  for (ValueId v = target + 1; p_.graph.values.has(v) && (end == kNoValue || v < end); ++v) look_at(v);
  return found;
}

// What else is computed from the results of this node, as far as it is right.
std::vector<Suspect::RightValue> Diagnostician::right_values(ValueId target, NodeId node) const {
  constexpr size_t kEnough = 4;
  PerValue<bool> is_reached(p_.graph.values.size());
  const PerValue<bool> is_known = known_values(p_, goldens_);
  std::vector<Suspect::RightValue> found;
  for (ValueId v : p_.graph.nodes.at(node).results) is_reached[v] = true;
  for (NodeId n = node; p_.graph.nodes.has(n) && found.size() < kEnough; ++n) {
    const Node& user = p_.graph.nodes[n];
    const bool reads = n == node || std::any_of(user.operands.begin(), user.operands.end(),
                                                [&](ValueId v) { return v != kNoValue && is_reached[v] && !is_known[v]; });
    for (ValueId v : user.results) {
      if (!reads) continue;
      is_reached[v] = !is_known[v];
      if (!goldens_.has(v) || v == target) continue;
      Suspect::RightValue other{Slicer(p_, is_known).slice(v), {}, goldens_.get(v)};
      if (other.slice.has_random_op) continue;
      other.inputs = known_arrays(p_, goldens_, *trials_.parameters(), other.slice.inputs);
      if (trials_.explains(other.slice.program, other.inputs, other.value).passed) found.push_back(std::move(other));
    }
  }
  return found;
}

// Passes one after another, until the value is wrong.
std::string Diagnostician::guilty_program_pass(ValueId v) const {
  const std::vector<std::string> names = pass_names();
  std::set<std::string> disabled(names.begin(), names.end());
  const std::string key = goldens_.key(v);
  if (!without_passes_(key, disabled).value_or(false)) return {};
  for (const std::string& name : names) {
    disabled.erase(name);
    if (!without_passes_(key, disabled).value_or(true)) return name;
  }
  return {};
}

std::string Diagnostician::guilty_backend_pass(const Isolated& part) const {
  for (const std::string& name : pass_names()) {
    PipelineOptions without = pipeline_;
    without.disabled.insert(name);
    const Array got = backend_.compile(part.part.program, trials_.table(), trials_.parameters(), without)
                          ->run(trials_.request(part.inputs))
                          .at(0);
    Evidence e;
    e.golden = part.expected;
    e.ours = got;
    if (is_inexact(got.dtype())) trials_.judge(part.part.program, part.inputs, e);
    if (is_inexact(got.dtype()) ? judge_backend(e).passed : judge_exactly(e.golden, e.ours).passed) return name;
  }
  return {};
}

}  // namespace pycandle
