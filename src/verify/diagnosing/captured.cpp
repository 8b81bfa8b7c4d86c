#include "verify/diagnosing/captured.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "base/error.h"
#include "passes/rewriter.h"
#include "verify/diagnosing/node_matches.h"
#include "verify/judging/slices.h"
#include "verify/judging/states.h"

namespace pycandle {
namespace {

TapId output_of(const ModuleCall& call) { return {TapId::Kind::module_output, call.path, call.call}; }
TapId input_of(const ModuleCall& call) { return {TapId::Kind::module_input, call.path, call.call}; }

void collect_values(const Tree& tree, Values& values) {
  if (tree.kind == Tree::Kind::value) values.push_back(tree.value);
  for (const auto& [name, item] : tree.items) collect_values(item, values);
}

const State* state_named(const std::vector<State>& states, const std::string& name) {
  const auto found = std::find_if(states.begin(), states.end(), [&](const State& s) { return s.name == name; });
  return found == states.end() ? nullptr : &*found;
}

// Every state of the recording. Code that only reads one may have it as a parameter, code that forgot it not at all.
void adopt_states(Program& captured, const Program& program) {
  for (State& state : captured.states) {
    const State* found = state_named(program.states, state.name);
    if (found == nullptr) throw Error(ErrorCode::bad_input, fmt::format("the recording has no state {}", state.name));
    state.file = found->file;
    state.key = found->key;
  }
  for (const State& recorded : program.states) {
    if (state_named(captured.states, recorded.name) != nullptr) continue;
    State state = recorded;
    state.updated = kNoValue;
    const auto parameter = std::find_if(captured.parameters.begin(), captured.parameters.end(),
                                        [&](const Parameter& q) { return q.name == recorded.name; });
    if (parameter != captured.parameters.end()) {
      state.value = parameter->value;
      captured.parameters.erase(parameter);
    } else {
      state.value = captured.graph.add_input(program.graph.type(recorded.value));
    }
    captured.states.push_back(std::move(state));
  }
  order_inputs(captured);
}

class Adoption {
 public:
  Adoption(Program captured, const Recording& recorded, const Program& in_program_form, const OpTable& table,
           const std::vector<Safetensors>& traces)
      : p_(std::move(captured)), recorded_(recorded.program), program_(in_program_form), table_(table), traces_(traces) {}

  CapturedProgram run() {
    parameters();
    places();
    states_that_change();
    taps();
    give_each_golden_a_value();
    std::vector<AbsentLayer> absent = absent_layers();
    std::vector<CodeLine> code = lines_of_code();
    lines_of_python();
    CapturedProgram made{std::move(p_), std::move(unchanged_), std::move(absent), exchanged(), {}, std::move(code)};
    for (const Node& node : program_.graph.nodes) made.recorded_ops.emplace(node.op->name, program_.module_path(node.origin));
    return made;
  }

 private:
  void parameters() {
    for (Parameter& unused : adopt_parameters(p_, recorded_)) {
      p_.parameters.push_back(std::move(unused));
      p_.parameters.back().value = kNoValue;
    }
  }

  // What a state becomes is judged where the recorded program computes it, whatever the code does to it.
  void states_that_change() {
    for (State& state : p_.states) {
      const State& recorded = *state_named(program_.states, state.name);
      const bool is_left = state.updated == kNoValue || state.updated == state.value;
      if (!is_left || recorded.updated == kNoValue || recorded.updated == recorded.value) continue;
      state.updated = state.value;
      unchanged_.emplace(TapId(TapId::Kind::state_after, state.name), node_of(recorded).op->name);
    }
    p_ = with_computed_states(std::move(p_), table_, [&](const State& state) {
      Origin origin = node_of(*state_named(program_.states, state.name)).origin;
      const auto call = origin.call < 0 ? call_index_.end()
                                        : call_index_.find(output_of(program_.calls[origin.call]).module_call());
      origin.call = call == call_index_.end() ? -1 : call->second;
      computed_[state.name] = origin;
      origin.file = -1;  // files are the source code's until all is done
      origin.line = 0;
      return origin;
    });
  }

  // That computes what the recorded state becomes.
  const Node& node_of(const State& recorded) const {
    return program_.graph.nodes.at(program_.graph.values.at(recorded.updated).node);
  }

  // Of the modules that Python called there.
  void places() {
    std::map<std::string, const ModuleCall*> by_name;
    for (const ModuleCall& call : recorded_.calls) by_name.emplace(output_of(call).module_call(), &call);
    for (size_t c = 0; c < p_.calls.size(); ++c) {
      ModuleCall& call = p_.calls[c];
      call_index_.emplace(output_of(call).module_call(), static_cast<int32_t>(c));
      const auto found = by_name.find(output_of(call).module_call());
      if (found == by_name.end()) continue;
      call.class_name = found->second->class_name;
      call.class_file = found->second->class_file;
      call.class_line = found->second->class_line;
      call.forward_line = found->second->forward_line;
    }
    calls_ = p_.calls;
  }

  std::vector<CodeLine> lines_of_code() const {
    std::vector<CodeLine> code;
    for (const Node& node : p_.graph.nodes) code.push_back({p_.file_line(node.origin), p_.source_line(node.origin)});
    return code;
  }

  // Of the op that Python has there; of the module's forward() when there is none.
  void lines_of_python() {
    std::vector<Origin> python;
    const NodeMatches matches(program_, p_);
    for (size_t n = 0; n < p_.graph.nodes.size(); ++n) {
      Origin origin = p_.graph.nodes[n].origin;
      origin.file = -1;
      origin.line = 0;
      const int32_t same = matches.stands_for(static_cast<int32_t>(n));
      if (same >= 0) {
        const Origin& there = program_.graph.nodes[same].origin;
        origin.file = there.file;
        origin.line = there.line;
      } else if (origin.call >= 0) {
        const ModuleCall& call = p_.calls[origin.call];
        origin.file = call.class_file;
        origin.line = call.class_file < 0 ? 0 : call.forward_line;
      }
      python.push_back(origin);
    }
    for (const State& state : p_.states) {
      const auto found = computed_.find(state.name);
      const NodeId node = state.updated == kNoValue ? -1 : p_.graph.values[state.updated].node;
      if (found == computed_.end() || node < 0) continue;
      python[node].file = found->second.file;
      python[node].line = found->second.line;
    }
    p_.files = recorded_.files;
    for (size_t n = 0; n < python.size(); ++n) p_.graph.nodes[n].origin = python[n];
  }

  // The name in the trace file of each tap. The only argument of a module is the only one that Python called it with.
  void taps() {
    std::map<TapId, std::string> key_of;
    std::map<ValueId, std::string> key_of_value;
    for (const Input& input : recorded_.inputs) key_of_value.emplace(input.value, "input:" + input.name);
    for (const Tap& tap : recorded_.taps) {
      key_of.emplace(tap.id, tap.key);
      key_of_value.emplace(tap.value, tap.key);
    }
    for (const ModuleCall& call : recorded_.calls) {
      Values values;
      for (const auto& [name, tree] : call.args) collect_values(tree, values);
      const auto key = values.size() == 1 ? key_of_value.find(values[0]) : key_of_value.end();
      if (key != key_of_value.end()) key_of.emplace(input_of(call), key->second);
    }
    std::vector<Tap> known;
    for (Tap& tap : p_.taps) {
      const auto key = key_of.find(tap.id);
      if (key == key_of.end() || !is_in_all(key->second)) continue;
      tap.key = key->second;
      known.push_back(std::move(tap));
    }
    p_.taps = std::move(known);
  }

  // ---- values with several goldens

  struct Copy {
    ValueId of = kNoValue;        // in the captured program
    int32_t call = -1;            // of the module at whose boundary it stands
    bool is_argument = false;
    ValueId made = kNoValue;      // in the new program
  };
  struct Golden {
    std::string key;
    int copy = -1;                // -1: the value itself
  };

  bool is_inside(int32_t call, int32_t module) const {
    for (; call >= 0; call = calls_[call].parent) {
      if (call == module) return true;
    }
    return false;
  }

  bool is_in_all(const std::string& key) const {
    return std::all_of(traces_.begin(), traces_.end(), [&](const Safetensors& trace) { return trace.contains(key); });
  }

  bool same_golden(const std::string& a, const std::string& b) const {
    return a == b || std::all_of(traces_.begin(), traces_.end(),
                                 [&](const Safetensors& trace) { return trace.get(a).same_bytes(trace.get(b)); });
  }

  // Which of the value's copies shows this golden; a new one when none does.
  int copy_for(ValueId v, const std::string& key, const TapId& tap) {
    std::vector<Golden>& known = goldens_of_[v];
    for (const Golden& g : known) {
      if (same_golden(g.key, key)) return g.copy;
    }
    const bool is_first = known.empty() && p_.graph.values[v].node >= 0;
    known.push_back({key, is_first ? -1 : static_cast<int>(copies_.size())});
    if (is_first) return -1;
    const auto call = call_index_.find(tap.module_call());
    copies_.push_back({v, call == call_index_.end() ? -1 : call->second, tap.is_argument()});
    return known.back().copy;
  }

  // What a node of this call reads: inside a module its argument, outside of it its result.
  int copy_read_by(int32_t call, ValueId v) const {
    int read = -1;
    for (size_t c = 0; c < copies_.size(); ++c) {
      if (copies_[c].of == v && is_inside(call, copies_[c].call) == copies_[c].is_argument) read = static_cast<int>(c);
    }
    return read;
  }

  ValueId made(int copy, Builder& b, ValueId of) {
    Copy& c = copies_[copy];
    if (c.made != kNoValue) return c.made;
    const Origin before = b.origin;
    b.origin = {};
    b.origin.call = c.call < 0 || !c.is_argument ? c.call : calls_[c.call].parent;
    c.made = b.create("reshape", {of}, {{"shape", b.shape(of)}});
    b.origin = before;
    return c.made;
  }

  void give_each_golden_a_value() {
    const TapId kRoot;
    for (const Input& input : p_.inputs) goldens_of_[input.value] = {{"input:" + input.name, -1}};
    std::vector<int> copy_of_tap, copy_of_output, copy_of_state;
    for (const Tap& tap : p_.taps) copy_of_tap.push_back(copy_for(tap.value, tap.key, tap.id));
    for (const Output& output : p_.outputs) {
      const std::string key = "output:" + output.name;
      copy_of_output.push_back(is_in_all(key) ? copy_for(output.value, key, kRoot) : -1);
    }
    for (const State& state : p_.states) {
      const bool is_judged = state.updated != kNoValue && is_in_all(key_after(state));
      copy_of_state.push_back(is_judged ? copy_for(state.updated, key_after(state), kRoot) : -1);
    }
    if (copies_.empty()) return;
    p_ = rewrite_outside_regions(std::move(p_), table_,
                                 [&](Builder& b, const Node& node, const Values& operands) -> std::optional<Values> {
                                   Values changed = operands;
                                   for (size_t i = 0; i < changed.size(); ++i) {
                                     const int copy = copy_read_by(node.origin.call, node.operands[i]);
                                     if (copy >= 0) changed[i] = made(copy, b, operands[i]);
                                   }
                                   if (changed == operands) return std::nullopt;
                                   return b.create_all(node.op->name, changed, node.attributes, node.regions);
                                 });
    Builder b(p_.graph, table_);
    const auto move_to = [&](int copy, ValueId& value) {
      if (copy >= 0) value = made(copy, b, value);
    };
    for (size_t i = 0; i < copy_of_tap.size(); ++i) move_to(copy_of_tap[i], p_.taps[i].value);
    for (size_t i = 0; i < copy_of_output.size(); ++i) move_to(copy_of_output[i], p_.outputs[i].value);
    for (size_t i = 0; i < copy_of_state.size(); ++i) move_to(copy_of_state[i], p_.states[i].updated);
    p_.bind_outputs();
  }

  // ---- what is not there, and what is there in its place

  std::vector<ExchangedModules> exchanged() const {
    struct Group {  // modules of one class beside each other
      std::vector<std::string> called, missed;
    };
    std::map<std::string, int> more;
    std::map<std::string, std::string> class_of;
    for (const ModuleCall& call : calls_) ++more[call.path];
    for (const ModuleCall& call : recorded_.calls) {
      --more[call.path];
      class_of[call.path] = call.class_name;
    }
    std::map<std::pair<std::string, std::string>, Group> groups;
    for (const auto& [path, class_name] : class_of) {
      const size_t dot = path.rfind('.');
      Group& group = groups[{dot == std::string::npos ? "" : path.substr(0, dot), class_name}];
      if (more[path] > 0) group.called.push_back(path);
      if (more[path] < 0) group.missed.push_back(path);
    }
    std::vector<ExchangedModules> found;
    for (const auto& [beside, group] : groups) {
      if (group.called.size() == 1 && group.missed.size() == 1) found.push_back({beside.first, group.called[0], group.missed[0]});
    }
    return found;
  }

  std::vector<AbsentLayer> absent_layers() const {
    std::vector<AbsentLayer> absent;
    for (const Tap& tap : program_.taps) {
      const NodeId node = program_.graph.values[tap.value].node;
      const bool is_result = tap.id.kind == TapId::Kind::module_output && node >= 0;
      if (!is_result || tap.inside || !is_in_all(tap.key) || call_index_.count(tap.id.module_call()) != 0) continue;
      const Node& made_by = program_.graph.nodes[node];
      if (program_.module_path(made_by.origin) != tap.id.module_call()) continue;  // it only hands on what another one computed
      absent.push_back({tap.id, tap.id.module_call(), made_by.op->name, tap.key});
    }
    return absent;
  }

  Program p_;
  const Program &recorded_, &program_;
  const OpTable& table_;
  const std::vector<Safetensors>& traces_;
  std::map<TapId, std::string> unchanged_;
  std::vector<ModuleCall> calls_;
  std::map<std::string, int32_t> call_index_;
  std::map<std::string, Origin> computed_;  // states that are judged where Python computes them: its place there
  std::map<ValueId, std::vector<Golden>> goldens_of_;
  std::vector<Copy> copies_;
};

// What a node computes, apart from the values it is given. A reshape may be one of the copies above.
std::string op_text(const Node& node) {
  std::string text = node.op->name;
  for (const auto& [name, value] : node.attributes) text += fmt::format(" {}={}", name, to_string(value));
  for (ValueId v : node.operands) text += v == kNoValue ? " without" : " with";
  return text;
}

std::map<std::string, std::vector<const Node*>> ops_of(const Program& p) {
  std::map<std::string, std::vector<const Node*>> ops;
  for (const Node& node : p.graph.nodes) {
    if (node.op->name != "reshape") ops[op_text(node)].push_back(&node);
  }
  return ops;
}

std::vector<const Node*> more_in(const std::map<std::string, std::vector<const Node*>>& a,
                                 const std::map<std::string, std::vector<const Node*>>& b) {
  std::vector<const Node*> nodes;
  for (const auto& [text, all] : a) {
    const auto other = b.find(text);
    if (all.size() > (other == b.end() ? 0 : other->second.size())) nodes.push_back(all.front());
  }
  return nodes;
}

// Those that compute; what only moves values when there are no others. A number is known by the op that reads it.
std::vector<std::string> names_of(const std::vector<const Node*>& nodes) {
  std::vector<std::string> moving, computing;
  for (const Node* node : nodes) {
    if (node->op->name != "constant") (only_moves(*node) ? moving : computing).push_back(node->op->name);
  }
  return computing.empty() ? moving : computing;
}

}  // namespace

NamedValues known_to_both(const Program& recorded, const Goldens& goldens, const Program& captured) {
  std::set<std::string> keys;
  for (const Tap& tap : captured.taps) keys.insert(tap.key);
  const size_t count = recorded.graph.values.size();
  NamedValues both{std::vector<bool>(count), std::vector<std::string>(count)};
  const auto know = [&](ValueId v, const std::string& name) {
    both.is_known[v] = true;
    both.names[v] = name;
  };
  for (const Tap& tap : recorded.taps) {
    if (!tap.inside && keys.count(tap.key) != 0 && goldens.has(tap.value)) know(tap.value, tap.id.text());
  }
  for (const Input& input : recorded.inputs) know(input.value, input.name);
  for (const State& state : recorded.states) know(state.value, state.name);
  return both;
}

OpDifference op_difference(const Program& ours, const Program& recorded) {
  const auto a = ops_of(ours), b = ops_of(recorded);
  const std::vector<const Node*> only_ours = more_in(a, b), only_recorded = more_in(b, a);
  OpDifference found{names_of(only_ours), names_of(only_recorded), {}};
  if (only_ours.size() != 1) return found;
  const Node& mine = *only_ours[0];
  for (const Node* theirs : only_recorded) {
    if (theirs->op != mine.op || !same(theirs->attributes, mine.attributes)) continue;
    for (size_t i = 0; i < mine.operands.size() && i < theirs->operands.size(); ++i) {
      if (mine.operands[i] == kNoValue && theirs->operands[i] != kNoValue) found.left_out = mine.op->operand_specs[i].name;
    }
  }
  return found;
}

std::vector<Parameter> adopt_parameters(Program& captured, const Program& recorded) {
  adopt_states(captured, recorded);
  std::map<std::string, const Parameter*> by_name;
  for (const Parameter& q : recorded.parameters) {
    by_name[q.name] = &q;
    for (const std::string& alias : q.aliases) by_name[alias] = &q;
  }
  std::set<const Parameter*> used;
  for (Parameter& q : captured.parameters) {
    const auto found = by_name.find(q.name);
    if (found == by_name.end() || found->second->type != q.type) {
      throw Error(ErrorCode::bad_input, fmt::format("the recording has no parameter {} of this type", q.name))
          .expected(q.type.text())
          .found(found == by_name.end() ? "none of this name" : found->second->type.text())
          .hint("the program was captured from another model, or holds arrays that are no weights");
    }
    used.insert(found->second);
    q.file = found->second->file;
    q.key = found->second->key;
  }
  std::vector<Parameter> unused;
  for (const Parameter& q : recorded.parameters) {
    if (used.count(&q) == 0) unused.push_back(q);
  }
  return unused;
}

CapturedProgram beside_recording(Program captured, const Recording& recorded, const Program& program, const OpTable& table,
                                 const std::vector<Safetensors>& traces) {
  return Adoption(std::move(captured), recorded, program, table, traces).run();
}

}  // namespace pycandle
