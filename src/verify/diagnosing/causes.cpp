#include "verify/diagnosing/causes.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <optional>
#include <set>
#include <utility>

#include "base/error.h"
#include "ir/mistakes.h"
#include "passes/structure.h"
#include "verify/diagnosing/slice_edits.h"

namespace pycandle {
namespace {

// A mistake must remove nearly all of the error, not just be drowned in a larger floor of its own.
constexpr double kRemoves = 8;

double rms_between(const Array& a, const Array& b) {
  if (a.dtype() != b.dtype() || a.shape() != b.shape()) return std::numeric_limits<double>::infinity();
  return compare(a, b).rms;
}

class Search {
 public:
  Search(const Suspect& suspect, const Trials& trials, double seconds)
      : s_(suspect),
        trials_(trials),
        end_(std::chrono::steady_clock::now() +
             std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds))),
        now_(trials.rounded(suspect.slice.program, suspect.inputs)),
        is_mistyped_(now_.dtype() != suspect.value.dtype() || now_.shape() != suspect.value.shape()),
        before_(rms_between(now_, suspect.value)) {}

  // Mistakes without a number first: they say most. What fits there is not looked for further.
  Causes run() {
    const Graph& g = s_.slice.program.graph;
    absent_result();
    if (!causes_.found.empty()) return std::move(causes_);
    for (size_t n = g.nodes.size(); n-- > 0;) {
      for (const Mistake& v : mistakes_of(g.nodes[n], g, trials_.sizes(), trials_.table())) {
        if (v.grid.empty()) try_mistake(n, v);
      }
    }
    if (keep_what_was_recorded() || is_mistyped_) return std::move(causes_);
    if (!causes_.found.empty() && recorded_) {  // source code that says none of those may have another number
      const std::vector<Cause> without_numbers = causes_.found;
      numbers();
      if (!keep_what_was_recorded()) causes_.found = without_numbers;
    }
    if (causes_.found.empty()) weights();
    if (causes_.found.empty() && !s_.is_backend) absent_parameters();
    if (causes_.found.empty() && !s_.is_backend) {
      absent_factors();
      keep_what_was_recorded();
    }
    if (causes_.found.empty()) residuals();
    if (causes_.found.empty()) stale_states();
    if (causes_.found.empty() && !s_.is_backend) exchanged_inputs();
    if (causes_.found.empty() && !s_.is_backend) other_inputs();
    if (causes_.found.empty() && !s_.is_backend) absent_masks();
    if (causes_.found.empty() && !s_.is_backend) absent_activations();
    if (causes_.found.empty()) {
      numbers();
      keep_what_was_recorded();
    }
    return std::move(causes_);
  }

 private:
  using Clock = std::chrono::steady_clock;

  bool is_over() const { return Clock::now() > end_; }

  bool explains(const Program& p, const std::vector<Array>& inputs) {
    ++causes_.tried;
    try {
      if (is_mistyped_ && !std::isfinite(rms_between(trials_.rounded(p, inputs), s_.value))) return false;
      const Judgement j = trials_.explains(p, inputs, s_.value);
      if (!is_inexact(s_.value.dtype())) return j.passed;
      return j.passed && (!std::isfinite(before_) || j.error_rms * kRemoves <= before_);
    } catch (const Error&) {
      return false;  // sizes or indices that the mistake does not fit
    }
  }

  // A rounding more: exact arithmetic does not see it, so the rounded value itself must be the one in question.
  bool is_rounded_to(const Program& p) {
    ++causes_.tried;
    const Metrics m = compare(trials_.rounded(p, s_.inputs), s_.value);
    return m.rms * kRemoves <= before_ && m.rms <= kRmsFactor * s_.floor_rms && m.max_abs <= kMaxFactor * s_.floor_max;
  }

  // Two mistakes that make the same program of it are one: keys and values swapped in attention, or in the split before.
  bool is_another(const Program& p) {
    Structure made = structure_of(p);
    if (std::any_of(made_.begin(), made_.end(), [&](const Made& m) { return m.structure == made; })) return false;
    made_.push_back({std::move(made)});
    return true;
  }

  // People know the op that reads a number, not the one that makes it.
  size_t reader_of(size_t node) const {
    static const std::set<std::string, std::less<>> kOnlyHands{"constant", "broadcast"};
    while (kOnlyHands.count(s_.slice.program.graph.nodes[node].op->name) != 0) {
      const size_t reader = user_of(s_.slice.program.graph.nodes[node].results[0]);
      if (reader <= node) break;
      node = reader;
    }
    return node;
  }

  void add(size_t node, const std::string& kind, const std::string& now, const std::string& instead) {
    node = reader_of(node);
    const std::string& seen = s_.is_backend ? instead : now;
    const std::string& right = s_.is_backend ? now : instead;
    causes_.found.push_back(
        {kind, fmt::format("looks like {} where the model uses {}", seen, right), static_cast<int32_t>(node)});
  }

  void try_mistake(size_t n, const Mistake& v) {
    if (is_over() || (is_mistyped_ && v.only_rounds)) return;
    const Node& node = s_.slice.program.graph.nodes[n];
    const auto p = is_mistyped_ ? with_mistake_of_any_type(s_.slice, trials_.table(), node, v)
                                : with_mistake(s_.slice, trials_.table(), node, v, 0);
    if (!p || !(v.only_rounds ? is_rounded_to(*p) : explains(*p, s_.inputs)) || !is_another(*p)) return;
    add(n, v.kind, v.now, v.instead);
    made_.back().cause = causes_.found.size() - 1;
  }

  // Several mistakes may give the value. Undoing one of them gives the very program that was recorded: it is that one.
  bool keep_what_was_recorded() {
    if (causes_.found.empty() || !s_.recorded_program) return false;
    if (!recorded_) recorded_ = s_.recorded_program();
    if (!recorded_) return false;
    const Structure right = structure_of(*recorded_);
    for (const Made& made : made_) {
      if (made.structure != right) continue;
      causes_.found = {causes_.found[made.cause]};
      return true;
    }
    return false;
  }

  void numbers() {
    const Graph& g = s_.slice.program.graph;
    for (size_t n = g.nodes.size(); n-- > 0;) {
      for (const Mistake& v : mistakes_of(g.nodes[n], g, trials_.sizes(), trials_.table())) {
        if (!v.grid.empty()) try_number(n, v);
      }
    }
  }

  // ---- a number: the best of the grid, refined between its neighbours; then the shortest that still fits

  void try_number(size_t n, const Mistake& v) {
    const Node& node = s_.slice.program.graph.nodes[n];
    const auto error_at = [&](double x) {
      if (is_over()) return std::numeric_limits<double>::infinity();
      const auto p = with_mistake(s_.slice, trials_.table(), node, v, x);
      ++causes_.tried;
      try {
        return p ? rms_between(trials_.rounded(*p, s_.inputs), s_.value) : std::numeric_limits<double>::infinity();
      } catch (const Error&) {
        return std::numeric_limits<double>::infinity();
      }
    };
    std::vector<double> errors;
    for (double x : v.grid) errors.push_back(error_at(x));
    const auto best = static_cast<size_t>(std::min_element(errors.begin(), errors.end()) - errors.begin());
    if (!(errors[best] < before_)) return;
    double low = v.grid[best == 0 ? 0 : best - 1], high = v.grid[std::min(best + 1, v.grid.size() - 1)];
    const bool by_ratio = low > 0 && high / low > 4;
    const auto middle = [&](double a, double b, double t) { return by_ratio ? a * std::pow(b / a, t) : a + (b - a) * t; };
    constexpr double kGolden = 0.3819660112501051;
    double a = middle(low, high, kGolden), b = middle(low, high, 1 - kGolden), at_a = error_at(a), at_b = error_at(b);
    for (int step = 0; step < 40 && std::abs(high - low) > 1e-9 * std::abs(high); ++step) {
      if (at_a < at_b) {
        high = std::exchange(b, a);
        at_b = std::exchange(at_a, error_at(a = middle(low, high, kGolden)));
      } else {
        low = std::exchange(a, b);
        at_a = std::exchange(at_b, error_at(b = middle(low, high, 1 - kGolden)));
      }
      if (is_over()) return;
    }
    const double found = std::min(at_a, at_b) < errors[best] ? (at_a < at_b ? a : b) : v.grid[best];
    // Any value is some number times another: one that was found in two elements must be short to be believed.
    const int most_digits = s_.value.size() > 2 ? 9 : 2;
    for (const int digits : {1, 2, 3, 4, 6, 9}) {
      if (digits > most_digits) return;
      const double rounded = std::stod(fmt::format("{:.{}g}", found, digits));
      const auto p = with_mistake(s_.slice, trials_.table(), node, v, rounded);
      if (!p || !explains(*p, s_.inputs)) continue;
      if (!is_another(*p)) return;
      add(n, v.kind, v.now, fmt::format(fmt::runtime(v.instead), fmt::format("{:.{}g}", rounded, digits)));
      made_.back().cause = causes_.found.size() - 1;
      return;
    }
  }

  // ---- weights: another parameter of the same type, or the tensor that has this one's name

  void weights() {
    const Program& slice = s_.slice.program;
    for (size_t i = 0; i < slice.parameters.size(); ++i) {
      const Parameter& used = slice.parameters[i];
      std::set<std::pair<std::string, std::string>> others{{used.file, used.name}};
      for (const Parameter& other : s_.program.parameters) {
        if (other.type == used.type && !other.file.empty()) others.emplace(other.file, other.key);
      }
      others.erase({used.file, used.key});
      for (const auto& [file, key] : others) {
        for (size_t n = 0; n < slice.graph.nodes.size(); ++n) {
          const Values& operands = slice.graph.nodes[n].operands;
          for (size_t o = 0; o < operands.size(); ++o) {
            if (is_over()) return;
            if (operands[o] == used.value && explains(with_parameter(slice, n, o, used, file, key), s_.inputs))
              add(n, "wrong weight", used.key, key);
          }
        }
      }
    }
  }

  // One operand is another parameter; where the old one is used besides, it stays.
  static Program with_parameter(Program p, size_t node, size_t operand, Parameter parameter, const std::string& file,
                                const std::string& key) {
    parameter.name = fmt::format("{} in place of {}", key, parameter.name);
    parameter.file = file;
    parameter.key = key;
    parameter.value = p.graph.add_input(parameter.type);
    p.graph.nodes[node].operands[operand] = parameter.value;
    p.parameters.push_back(std::move(parameter));
    return p;
  }

  size_t user_of(ValueId v) const {
    const std::vector<Node>& nodes = s_.slice.program.graph.nodes;
    for (size_t n = 0; n < nodes.size(); ++n) {
      if (std::find(nodes[n].operands.begin(), nodes[n].operands.end(), v) != nodes[n].operands.end()) return n;
    }
    return nodes.size() - 1;
  }

  // ---- an optional weight or bias that the program lacks: one of the parameters fits there

  void absent_parameters() {
    const Graph& g = s_.slice.program.graph;
    for (size_t n = g.nodes.size(); n-- > 0;) {
      const Node& node = g.nodes[n];
      for (const char* name : {"bias", "weight"}) {
        const int index = node.op->operand_index(name);
        if (index < 0 || static_cast<size_t>(index) >= node.operands.size() || node.operands[index] != kNoValue) continue;
        for (const Parameter& q : s_.program.parameters) {
          if (is_over()) return;
          if (q.file.empty()) continue;
          Slice more{s_.slice.program, {}, {}, {}, false};
          const ValueId extra = add_input(more.program, q.type, q.name);
          Mistake with;
          with.build = [&](const MistakeSite& m) {
            return m.same(m.with_operand(name, m.b.graph().inputs[position(more.program, extra)]));
          };
          const auto p = with_mistake(more, trials_.table(), node, with, 0);
          if (!p) continue;
          std::vector<Array> inputs = s_.inputs;
          inputs.push_back(trials_.parameters()->get(q));
          if (explains(*p, inputs)) add(n, std::string("missing ") + name, std::string("no ") + name, q.name);
        }
      }
    }
  }

  // Inputs of a graph keep their order when it is rewritten.
  static size_t position(const Program& p, ValueId input) {
    return static_cast<size_t>(std::find(p.graph.inputs.begin(), p.graph.inputs.end(), input) - p.graph.inputs.begin());
  }

  // ---- a sum that is missing: the error itself is a value that is known

  void residuals() {
    if (is_complex(s_.value.dtype()) || s_.value.dtype() == DType::boolean || !s_.beside) return;
    std::vector<std::pair<std::string, Array>> candidates = s_.beside(
        s_.slice.program.graph.type(s_.slice.program.outputs[0].value));
    for (const auto& [layer, value] : s_.absent) candidates.emplace_back(layer.tap.text(), value);
    for (const auto& [name, array] : candidates) try_residual(name, array, "add");
    if (causes_.found.empty() && s_.recorded) {
      for (const Suspect::RecordedValue& r : s_.recorded()) try_residual("what " + r.made_by + " gives", r.value, r.read_by);
    }
    if (!causes_.found.empty()) return;
    for (const Parameter& q : s_.program.parameters) {  // a table of positions
      if (!q.file.empty() && q.type.dtype == now_.dtype() && q.type.rank() <= now_.rank())
        try_residual(q.name, trials_.parameters()->get(q), "add");
    }
  }

  // Added or subtracted.
  void try_residual(const std::string& name, const Array& array, const std::string& op) {
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
    Program changed = s_.slice.program;
    const ValueId result = changed.outputs[0].value;
    const bool is_whole = array.shape() == now_.shape();
    const ValueId extra = add_input(changed, is_whole ? changed.graph.type(result) : type_of(array), "beside");
    Builder b(changed.graph, trials_.table());
    changed.outputs[0].value = b.binary(is_sum ? "add" : "sub", result, extra);
    changed.bind_outputs();
    std::vector<Array> inputs = s_.inputs;
    inputs.push_back(array);
    if (!explains(changed, inputs)) return;
    add(s_.slice.program.graph.nodes.size() - 1, "missing residual", "no residual",
        fmt::format("{} {}", is_sum ? "plus" : "less", name));
    causes_.found.back().op = op;
  }

  // ---- a state that is read before it was changed

  void stale_states() {
    for (size_t i = 0; i < s_.inputs.size() && s_.updated_state; ++i) {
      const auto updated = s_.updated_state(s_.slice.inputs[i]);
      if (!updated || is_over()) continue;
      std::vector<Array> inputs = s_.inputs;
      inputs[i] = updated->second;
      if (!explains(s_.slice.program, inputs)) continue;
      add(user_of(s_.slice.program.inputs[i].value), "stale buffer", fmt::format("{} as it was before", updated->first),
          fmt::format("{} as it is afterwards", updated->first));
    }
  }

  // ---- a layer that was left out: the program does not call it, and its value is what is wanted here, or read here

  void add_absent(const AbsentLayer& layer) {
    causes_.found.push_back({"missing layer", fmt::format("looks like {} ({}) was left out", layer.path, layer.op),
                             static_cast<int32_t>(s_.slice.program.graph.nodes.size() - 1), layer.op, layer.path});
  }

  void absent_result() {
    if (s_.has_foreign_op) return;  // something stands in its place
    for (const auto& [layer, value] : s_.absent) {
      ++causes_.tried;
      if (value.same_bytes(s_.value)) return add_absent(layer);
    }
  }

  // ---- two values that were taken for one another

  void exchanged_inputs() {
    const std::vector<Array>& given = s_.inputs;
    for (size_t i = 0; i < given.size(); ++i) {
      for (size_t j = i + 1; j < given.size(); ++j) {
        if (is_over()) return;
        if (given[i].dtype() != given[j].dtype() || given[i].shape() != given[j].shape() || given[i].same_bytes(given[j]))
          continue;
        std::vector<Array> inputs = given;
        std::swap(inputs[i], inputs[j]);
        if (!explains(s_.slice.program, inputs)) continue;
        const auto reader = static_cast<int32_t>(user_of(s_.slice.program.inputs[i].value));
        causes_.found.push_back(
            {"operand order", fmt::format("looks like {} and {} are exchanged", input_name(i), input_name(j)), reader});
      }
    }
    const std::vector<Parameter>& parameters = s_.slice.program.parameters;
    for (size_t i = 0; i < parameters.size(); ++i) {
      for (size_t j = i + 1; j < parameters.size(); ++j) {
        if (is_over()) return;
        if (parameters[i].type != parameters[j].type || parameters[i].file.empty() || parameters[j].file.empty()) continue;
        Program changed = s_.slice.program;
        std::swap(changed.parameters[i].file, changed.parameters[j].file);
        std::swap(changed.parameters[i].key, changed.parameters[j].key);
        for (size_t k : {i, j}) changed.parameters[k].name = changed.parameters[k].key + " in place of " + parameters[k].name;
        if (!explains(changed, given)) continue;
        const auto reader = static_cast<int32_t>(user_of(parameters[i].value));
        causes_.found.push_back(
            {"operand order", fmt::format("looks like {} and {} are exchanged", parameters[i].name, parameters[j].name), reader});
      }
    }
  }

  std::string input_name(size_t i) const {
    const std::string name = name_of_value(s_.program, s_.slice.inputs[i]);
    return name.empty() ? s_.slice.program.inputs[i].name : name;
  }

  // ---- a number that the recorded program multiplies or divides by, and the source code does not

  void absent_factors() {
    if (!s_.recorded_program) return;
    if (!recorded_) recorded_ = s_.recorded_program();
    if (!recorded_) return;
    std::set<std::pair<std::string, double>> factors;
    for (const Node& node : recorded_->graph.nodes) {
      if (node.op->name != "mul" && node.op->name != "div") continue;
      for (ValueId v : node.operands) {
        if (const std::optional<double> number = constant_value(recorded_->graph, v)) factors.emplace(node.op->name, *number);
      }
    }
    const Graph& g = s_.slice.program.graph;
    for (const auto& [op, number] : factors) {
      const auto scaled = [op = op, number = number](Builder& b, ValueId v) {
        return is_floating(b.dtype(v)) ? b.binary(op, v, b.full(number, b.dtype(v))) : kNoValue;
      };
      const std::string text = fmt::format("{} {:.6g}", op == "mul" ? "times" : "divided by", number);
      for (size_t n = g.nodes.size(); n-- > 0;) {
        Mistake after{"missing factor", "no factor", text, {}, {}, false};
        after.build = [&](const MistakeSite& m) {
          Values results = m.same(m.operands);
          if (results.size() != 1) return results;
          const ValueId more = scaled(m.b, results[0]);
          return more == kNoValue ? results : Values{more};
        };
        try_factor(n, after, op);
        for (size_t o = 0; o < g.nodes[n].operands.size(); ++o) {
          const ValueId v = g.nodes[n].operands[o];
          if (v == kNoValue || g.values[v].node >= 0) continue;  // it is an input
          Mistake before = after;
          before.build = [&, o](const MistakeSite& m) {
            Values operands = m.operands;
            const ValueId more = scaled(m.b, operands[o]);
            if (more != kNoValue) operands[o] = more;
            return m.same(operands);
          };
          try_factor(n, before, op);
        }
      }
    }
  }

  void try_factor(size_t n, const Mistake& v, const std::string& op) {
    const size_t before = causes_.found.size();
    try_mistake(n, v);
    if (causes_.found.size() > before) causes_.found.back().op = op;
  }

  static std::optional<double> constant_value(const Graph& g, ValueId v) {
    const NodeId made_by = g.values[v].node;
    if (made_by < 0) return std::nullopt;
    const Node& node = g.nodes[made_by];
    if (node.op->name == "broadcast") return constant_value(g, node.operands[0]);
    if (node.op->name != "constant") return std::nullopt;
    const double number = as_double(Call(*node.op, g, node.operands, node.attributes, node.regions).scalar("value"));
    return std::isfinite(number) && number != 0 && number != 1 ? std::optional(number) : std::nullopt;
  }

  void other_inputs() {
    for (size_t i = 0; i < s_.inputs.size(); ++i) {
      const auto explains_with = [&](const Array& other) {
        if (is_over() || other.dtype() != s_.inputs[i].dtype() || other.shape() != s_.inputs[i].shape() ||
            other.same_bytes(s_.inputs[i]))
          return false;
        std::vector<Array> inputs = s_.inputs;
        inputs[i] = other;
        return explains(s_.slice.program, inputs);
      };
      for (const auto& [layer, value] : s_.absent) {
        if (explains_with(value)) return add_absent(layer);
      }
      const ValueId original = s_.slice.inputs[i];
      if (!s_.beside) continue;
      for (const auto& [name, value] : s_.beside(s_.program.graph.type(original))) {
        if (!explains_with(value)) continue;
        add(user_of(s_.slice.program.inputs[i].value), "wrong input", input_name(i), name);
      }
    }
  }

  // ---- attention without a mask: one of the program's inputs may be meant

  void absent_masks() {
    if (!s_.input_values) return;
    const Graph& g = s_.slice.program.graph;
    for (size_t n = g.nodes.size(); n-- > 0;) {
      const Node& node = g.nodes[n];
      const int mask = node.op->operand_index("attn_mask");
      if (mask < 0 || node.operands[mask] != kNoValue) continue;
      for (const auto& [name, type, value] : s_.input_values()) {
        if (is_over()) return;
        if (type.rank() != 2) continue;
        Slice more{s_.slice.program, {}, {}, {}, false};
        const ValueId extra = add_input(more.program, type, name);
        Mistake with;
        with.build = [&](const MistakeSite& m) {
          const ValueId given = m.b.graph().inputs[position(more.program, extra)];
          const Shape& keys = m.b.shape(given);
          const ValueId of_keys = m.b.reshape(given, {keys[0], Dim(1), Dim(1), keys[1]});
          const ValueId is_seen = m.b.dtype(given) == DType::boolean ? of_keys
                                                                     : m.b.binary("ne", of_keys, m.b.like(of_keys, 0.0));
          Shape whole = m.b.shape(m.operand("query"));
          whole.at(1) = Dim(1);
          whole.at(3) = keys[1];
          return m.same(m.with_operand("attn_mask", m.b.broadcast_to(is_seen, whole)));
        };
        const auto p = with_mistake(more, trials_.table(), node, with, 0);
        if (!p) continue;
        std::vector<Array> inputs = s_.inputs;
        inputs.push_back(value);
        if (explains(*p, inputs)) add(n, "missing mask", "no mask", fmt::format("a mask made from {}", name));
      }
    }
  }

  // ---- a function after one of the nodes, written in the model without a module of its own

  void absent_activations() {
    const Graph& g = s_.slice.program.graph;
    for (size_t n = g.nodes.size(); n-- > 0;) {
      if (g.nodes[n].results.size() != 1 || !is_floating(g.type(g.nodes[n].results[0]).dtype)) continue;
      for (const Activation& f : activations(trials_.table())) {
        Mistake after{"activation", "no activation", f.called->noun, {}, {}, false};
        after.build = [&f](const MistakeSite& m) {
          return Values{m.b.create(f.op->name, {m.same(m.operands)[0]}, f.called->attributes)};
        };
        const size_t before = causes_.found.size();
        try_mistake(n, after);
        if (causes_.found.size() > before) causes_.found.back().op = f.op->name;
      }
    }
  }

  const Suspect& s_;
  const Trials& trials_;
  const Clock::time_point end_;
  const Array now_;          // what the slice gives
  const bool is_mistyped_;   // and not even the type is right
  const double before_;      // how far it is off
  struct Made {
    Structure structure;
    size_t cause = 0;        // of those found
  };
  std::vector<Made> made_;   // by the mistakes that fit
  std::optional<Program> recorded_;
  Causes causes_;
};

}  // namespace

const Cause* Causes::only() const {
  if (found.empty()) return nullptr;
  const bool is_one_kind = std::all_of(found.begin(), found.end(), [&](const Cause& c) { return c.kind == found[0].kind; });
  return is_one_kind ? &found[0] : nullptr;
}

std::string Causes::text() const {
  if (found.empty()) return fmt::format("none of {} mistakes that were tried gives this value", tried);
  if (only()) return found[0].sentence;
  std::string text = "several mistakes would give this value: ";
  for (size_t i = 0; i < found.size(); ++i) text += (i == 0 ? "" : "; or it ") + found[i].sentence;
  return text;
}

Causes find_causes(const Suspect& suspect, const Trials& trials, double seconds) {
  return Search(suspect, trials, seconds).run();
}

}  // namespace pycandle
