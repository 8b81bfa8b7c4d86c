// Another parameter than the model's, two exchanged, or one that the program lacks.
#include <fmt/format.h>

#include <algorithm>

#include "verify/diagnosing/changed_parameter.h"
#include "verify/diagnosing/search.h"

namespace pycandle {
namespace {

// One operand is another parameter; where the old one is used besides, it stays.
Program with_parameter(Program p, size_t node, size_t operand, Parameter parameter, const std::string& file,
                       const std::string& key) {
  parameter.name = fmt::format("{} in place of {}", key, parameter.name);
  parameter.file = file;
  parameter.key = key;
  parameter.value = p.graph.add_input(parameter.type);
  p.graph.nodes[node].operands[operand] = parameter.value;
  p.parameters.push_back(std::move(parameter));
  return p;
}

// The parameter becomes an input, the last one, that any values can be given for.
Program with_parameter_given(Program p, size_t index) {
  const Parameter q = p.parameters[index];
  const ValueId given = add_input(p, q.type, q.name);
  for (Node& node : p.graph.nodes) std::replace(node.operands.begin(), node.operands.end(), q.value, given);
  for (Output& output : p.outputs) {
    if (output.value == q.value) output.value = given;
  }
  p.bind_outputs();
  return p;
}

}  // namespace

// Another parameter of the same type, or the tensor that has this one's name.
void Search::weights() {
  for (const Parameter& used : program().parameters) {
    std::set<std::pair<std::string, std::string>> others{{used.file, used.name}};
    for (const Parameter& other : s_.program.parameters) {
      if (other.type == used.type && !other.file.empty()) others.emplace(other.file, other.key);
    }
    others.erase({used.file, used.key});
    for (const auto& [file, key] : others) {
      for (size_t n = 0; n < graph().nodes.size(); ++n) {
        const Values& operands = graph().nodes[n].operands;
        for (size_t o = 0; o < operands.size(); ++o) {
          if (is_over()) return;
          if (operands[o] != used.value) continue;
          if (auto fit = explained_by(with_parameter(program(), n, o, used, file, key), s_.inputs))
            add(cause(n, "wrong weight", used.key, key), std::move(*fit));
        }
      }
    }
  }
}

// An optional weight or bias that the program lacks: one of the parameters fits there.
void Search::absent_parameters() {
  for (size_t n = graph().nodes.size(); n-- > 0;) {
    const Node& node = graph().nodes[n];
    for (const char* name : {"bias", "weight"}) {
      const int index = node.op->operand_index(name);
      if (index < 0 || static_cast<size_t>(index) >= node.operands.size() || node.operands[index] != kNoValue) continue;
      for (const Parameter& q : s_.program.parameters) {
        if (is_over()) return;
        if (q.file.empty()) continue;
        Slice more{program(), {}, {}, {}, false};
        const ValueId extra = add_input(more.program, q.type, q.name);
        Mistake with;
        with.build = [&](const MistakeSite& m) {
          return m.same(m.with_operand(name, m.b.graph().inputs[position_of(more.program, extra)]));
        };
        auto p = with_mistake(more, trials_.table(), node, with, 0);
        if (!p) continue;
        std::vector<Array> inputs = s_.inputs;
        inputs.push_back(trials_.parameters()->get(q));
        if (auto fit = explained_by(std::move(*p), std::move(inputs)))
          add(cause(n, std::string("missing ") + name, std::string("no ") + name, q.name), std::move(*fit));
      }
    }
  }
}

void Search::exchanged_parameters() {
  const std::vector<Parameter>& parameters = program().parameters;
  for (size_t i = 0; i < parameters.size(); ++i) {
    for (size_t j = i + 1; j < parameters.size(); ++j) {
      if (is_over()) return;
      if (parameters[i].type != parameters[j].type || parameters[i].file.empty() || parameters[j].file.empty()) continue;
      Program changed = program();
      std::swap(changed.parameters[i].file, changed.parameters[j].file);
      std::swap(changed.parameters[i].key, changed.parameters[j].key);
      for (size_t k : {i, j}) changed.parameters[k].name = changed.parameters[k].key + " in place of " + parameters[k].name;
      auto fit = explained_by(std::move(changed), s_.inputs);
      if (!fit) continue;
      add({"operand order", fmt::format("looks like {} and {} are exchanged", parameters[i].name, parameters[j].name),
           user_of(parameters[i].value)},
          std::move(*fit));
    }
  }
}

// The rows of a table that are looked up, when nothing is done to them afterwards.
std::vector<int64_t> Search::looked_up_rows(const Parameter& table) const {
  const Node& last = graph().nodes.back();
  if (last.op->name != "embedding" || last.results[0] != program().outputs[0].value) return {};
  const Call call(*last.op, graph(), last.operands, last.attributes, last.regions);
  if (call.value("weight") != table.value) return {};
  for (size_t i = 0; i < program().inputs.size(); ++i) {
    if (program().inputs[i].value == call.value("indices")) return load_int(s_.inputs[i]);
  }
  return {};
}

// A number that the recording keeps as a tensor.
void Search::integer_parameters() {
  for (size_t i = 0; i < program().parameters.size(); ++i) {
    const Parameter& q = program().parameters[i];
    if (is_over()) return;
    if (q.file.empty() || q.value == kNoValue || !is_integral(q.type.dtype)) continue;
    const Array values = trials_.parameters()->get(q);
    if (values.size() != 1) continue;
    const int64_t now = load_int(values)[0];
    for (const int64_t other : {now + 1, now - 1}) {
      std::vector<Array> inputs = s_.inputs;
      inputs.push_back(store(values.dtype(), values.shape(), std::vector<int64_t>{other}));
      auto fit = explained_by(with_parameter_given(program(), i), std::move(inputs));
      if (fit) add(cause(user_of(q.value), kOffByOne, fmt::format("{}", now), fmt::format("{}", other)), std::move(*fit));
    }
  }
}

void Search::changed_parameters() {
  if (!is_floating(s_.value.dtype())) return;
  for (size_t i = 0; i < program().parameters.size(); ++i) {
    const Parameter& q = program().parameters[i];
    if (is_over()) return;
    if (q.file.empty() || !is_floating(q.type.dtype) || q.value == kNoValue) continue;
    const Program open = with_parameter_given(program(), i);
    const auto given = [&](const Array& values) {
      std::vector<Array> inputs = s_.inputs;
      inputs.push_back(values);
      return inputs;
    };
    const auto layer = [&](const Array& values) { return trials_.rounded(open, given(values)); };
    const ParameterUse use{trials_.parameters()->get(q), now_, s_.value, layer, s_.floor_rms, looked_up_rows(q)};
    attempt([&] {
      try_parameter_changes(use, [&](const ParameterChange& change) {
        if (is_over()) return true;
        std::optional<Fit> fit = change.undone ? explained_by(open, given(change.undone()))
                                               : Fit{open, given(use.values), s_.floor_rms, s_.floor_rms};
        if (!fit) return false;
        Cause changed{"stored weight", fmt::format("looks like {} {} where the model uses it unchanged", q.name, change.text),
                      user_of(q.value)};
        changed.parameter = q.name;
        add(std::move(changed), std::move(*fit));
        return true;
      });
    });
  }
}

}  // namespace pycandle
