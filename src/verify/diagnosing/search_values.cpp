// Another value than the model's: a sum that is missing, a state as it was, two inputs exchanged, a layer left out.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "verify/diagnosing/search.h"

namespace pycandle {

// ---- a sum that is missing: the error itself is a value that is known

void Search::residuals() {
  if (is_complex(s_.value.dtype()) || s_.value.dtype() == DType::boolean || !s_.beside) return;
  std::vector<std::pair<std::string, Array>> candidates = s_.beside(graph().type(program().outputs[0].value));
  for (const auto& [layer, value] : s_.absent) candidates.emplace_back(layer.tap.text(), value);
  for (const auto& [name, array] : candidates) try_residual(name, array, "add");
  if (!is_found() && s_.recorded) {
    for (const Suspect::RecordedValue& r : s_.recorded()) try_residual("what " + r.made_by + " gives", r.value, r.read_by);
  }
  if (is_found()) return;
  for (const Parameter& q : s_.program.parameters) {  // a table of positions
    if (!q.file.empty() && q.type.dtype == now_.dtype() && q.type.rank() <= now_.rank())
      try_residual(q.name, trials_.parameters()->get(q), "add");
  }
}

// Added or subtracted.
void Search::try_residual(const std::string& name, const Array& array, const std::string& op) {
  if (is_over() || array.dtype() != now_.dtype()) return;
  const std::optional<std::vector<double>> more = broadcast_reals(array, now_.shape());
  if (!more) return;
  const std::vector<double> have = as_reals(now_), want = as_reals(s_.value);
  double without_sum = 0, without_difference = 0;
  for (size_t i = 0; i < have.size(); ++i) {
    without_sum += std::pow(want[i] - have[i] - (*more)[i], 2);
    without_difference += std::pow(want[i] - have[i] + (*more)[i], 2);
  }
  const bool is_sum = without_sum <= without_difference;
  const double left = std::min(without_sum, without_difference) / static_cast<double>(have.size());
  if (std::sqrt(left) * kRemoves > before_) return;  // else it is worth a run
  Program changed = program();
  const ValueId result = changed.outputs[0].value;
  const bool is_whole = array.shape() == now_.shape();
  const ValueId extra = add_input(changed, is_whole ? changed.graph.type(result) : type_of(array), "beside");
  Builder b(changed.graph, trials_.table());
  changed.outputs[0].value = b.binary(is_sum ? "add" : "sub", result, extra);
  changed.bind_outputs();
  std::vector<Array> inputs = s_.inputs;
  inputs.push_back(array);
  auto fit = explained_by(std::move(changed), std::move(inputs));
  if (!fit) return;
  Cause missing = cause(graph().nodes.size() - 1, "missing residual", "no residual",
                        fmt::format("{} {}", is_sum ? "plus" : "less", name));
  missing.op = op;
  add(std::move(missing), std::move(*fit));
}

// ---- a state that is read before it was changed

void Search::stale_states() {
  for (size_t i = 0; i < s_.inputs.size() && s_.updated_state; ++i) {
    const auto updated = s_.updated_state(s_.slice.inputs[i]);
    if (!updated || is_over()) continue;
    std::vector<Array> inputs = s_.inputs;
    inputs[i] = updated->second;
    if (auto fit = explained_by(program(), std::move(inputs)))
      add(cause(user_of(program().inputs[i].value), "stale buffer", fmt::format("{} as it was before", updated->first),
                fmt::format("{} as it is afterwards", updated->first)),
          std::move(*fit));
  }
}

// ---- a layer that was left out: the program does not call it, and its value is what is wanted here, or read here

void Search::add_absent(const AbsentLayer& layer, Fit fit) {
  add({"missing layer",
       fmt::format("looks like {} was left out", layer.op.empty() ? layer.path : fmt::format("{} ({})", layer.path, layer.op)),
       last_node(), layer.op, layer.path},
      std::move(fit));
}

void Search::absent_result() {
  if (s_.has_foreign_op) return;  // something stands in its place
  for (const auto& [layer, value] : s_.absent) {
    ++tried_;
    if (value.same_bytes(s_.value)) return add_absent(layer, {program(), s_.inputs});
  }
}

// ---- two values that were taken for one another

void Search::exchanged_inputs() {
  const std::vector<Array>& given = s_.inputs;
  for (size_t i = 0; i < given.size(); ++i) {
    for (size_t j = i + 1; j < given.size(); ++j) {
      if (is_over()) return;
      if (given[i].dtype() != given[j].dtype() || given[i].shape() != given[j].shape() || given[i].same_bytes(given[j])) continue;
      std::vector<Array> inputs = given;
      std::swap(inputs[i], inputs[j]);
      auto fit = explained_by(program(), std::move(inputs));
      if (!fit) continue;
      add({"operand order", fmt::format("looks like {} and {} are exchanged", input_name(i), input_name(j)),
           user_of(program().inputs[i].value)},
          std::move(*fit));
    }
  }
}

// One part of a split read where another is meant.
void Search::other_parts() {
  const Graph& g = graph();
  for (size_t n = g.nodes.size(); n-- > 0;) {
    for (size_t o = 0; o < g.nodes[n].operands.size(); ++o) {
      const ValueId part = g.nodes[n].operands[o];
      if (part == kNoValue || g.values[part].node < 0) continue;
      const Values parts = g.nodes[g.values[part].node].results;
      for (size_t other = 0; other < parts.size(); ++other) {
        if (parts[other] == part || g.type(parts[other]) != g.type(part)) continue;
        Mistake read{"wrong input", fmt::format("part {}", g.values[part].index), fmt::format("part {}", other), {}, {}, false};
        read.build = [o, other](const MistakeSite& m) {
          Values operands = m.operands;
          const Graph& now = m.b.graph();
          operands[o] = now.nodes[now.values[operands[o]].node].results.at(other);
          return m.same(operands);
        };
        try_mistake(n, read);
      }
    }
  }
}

// A sum that is missing before something else is done: one of the values that are read lacks it.
void Search::residuals_before() {
  if (!s_.beside) return;
  for (size_t i = 0; i < s_.inputs.size(); ++i) {
    if (!is_floating(s_.inputs[i].dtype())) continue;
    const Type& type = s_.program.graph.type(s_.slice.inputs[i]);
    for (const auto& [name, value] : s_.beside(type)) {
      if (is_over()) return;
      if (value.dtype() != s_.inputs[i].dtype() || value.shape() != s_.inputs[i].shape()) continue;
      if (value.same_bytes(s_.inputs[i])) continue;  // twice the value is a factor
      std::vector<double> sum = as_reals(s_.inputs[i]);
      const std::vector<double> more = as_reals(value);
      for (size_t k = 0; k < sum.size(); ++k) sum[k] += more[k];
      std::vector<Array> inputs = s_.inputs;
      inputs[i] = store(value.dtype(), value.shape(), sum);
      auto fit = explained_by(program(), std::move(inputs));
      if (!fit) continue;
      Cause missing = cause(user_of(program().inputs[i].value), "missing residual", "no residual",
                            fmt::format("{} plus {}", input_name(i), name));
      missing.op = "add";
      add(std::move(missing), std::move(*fit));
    }
  }
}

void Search::other_inputs() {
  for (size_t i = 0; i < s_.inputs.size(); ++i) {
    const auto fit_with = [&](const Array& other) -> std::optional<Fit> {
      if (is_over() || other.dtype() != s_.inputs[i].dtype() || other.shape() != s_.inputs[i].shape() ||
          other.same_bytes(s_.inputs[i]))
        return std::nullopt;
      std::vector<Array> inputs = s_.inputs;
      inputs[i] = other;
      return explained_by(program(), std::move(inputs));
    };
    for (const auto& [layer, value] : s_.absent) {
      if (auto fit = fit_with(value)) return add_absent(layer, std::move(*fit));
    }
    const ValueId original = s_.slice.inputs[i];
    // A norm that stands before the layer in the model may be computed behind it here.
    const auto& known = s_.anywhere ? s_.anywhere : s_.beside;
    if (!known) continue;
    for (const auto& [name, value] : known(s_.program.graph.type(original))) {
      if (auto fit = fit_with(value))
        add(cause(user_of(program().inputs[i].value), "wrong input", input_name(i), name), std::move(*fit));
    }
  }
}

}  // namespace pycandle
