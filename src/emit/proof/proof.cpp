#include "emit/proof/proof.h"

#include <fmt/format.h>

#include <algorithm>

#include "capture/compile.h"
#include "capture/text_line.h"
#include "emit/names.h"
#include "emit/proof/interpreter.h"
#include "passes/structure.h"

namespace pycandle::emit::proof {
namespace {

// The parameters and states of a program by all their names; nobody reads their bytes.
class ProgramStore final : public front::ParameterStore {
 public:
  explicit ProgramStore(const Program& p) {
    for (const pycandle::Parameter& q : p.parameters) {
      const Entry entry{q.name, q.type.dtype, evaluate(q.type.shape, {})};
      entries_.emplace(q.name, entry);
      for (const std::string& alias : q.aliases) entries_.emplace(alias, entry);
    }
    for (const State& s : p.states) {
      const Type& type = p.graph.type(s.value);
      const auto is_open = [](Dim d) { return !d.is_number(); };
      if (std::any_of(type.shape.begin(), type.shape.end(), is_open)) continue;  // rows of a cache
      entries_.emplace(s.name, Entry{s.name, type.dtype, evaluate(type.shape, {})});
    }
  }
  std::optional<Entry> find(const std::string& name) const override {
    const auto found = entries_.find(name);
    return found == entries_.end() ? std::nullopt : std::optional(found->second);
  }
  Array load(const std::string& name) const override { internal_error("the bytes of " + name + " are not needed"); }
  std::vector<std::string> names() const override {
    std::vector<std::string> all;
    for (const auto& [name, entry] : entries_) all.push_back(name);
    return all;
  }
  std::string where() const override { return "the recording"; }

 private:
  std::map<std::string, Entry> entries_;
};

// What is missing in a program with gaps: inputs that the model is not called with.
class Gaps {
 public:
  // Gaps of one text and type cannot be told apart in the code, so they are one in the program too.
  explicit Gaps(Program& p) : program_(&p) {
    std::map<std::pair<std::string, std::string>, ValueId> first;
    std::map<ValueId, ValueId> same;
    for (const Input& input : p.inputs) {
      if (!input.gap) continue;
      same[input.value] = first.emplace(std::pair(*input.gap, p.graph.type(input.value).text()), input.value).first->second;
      what_[input.value] = *input.gap;
    }
    if (same.empty()) return;
    const auto rename = [&](ValueId& v) {
      const auto known = same.find(v);
      if (known != same.end()) v = known->second;
    };
    for (Node& node : p.graph.nodes) {
      for (ValueId& v : node.operands) {
        rename(v);
        if (const auto gap = what_.find(v); gap != what_.end()) uses_[gap->second].push_back(v);
      }
    }
    for (Output& output : p.outputs) {
      rename(output.value);
      if (const auto gap = what_.find(output.value); gap != what_.end()) uses_[gap->second].push_back(output.value);
    }
    first_order_ = uses_;
  }

  bool is_gap(size_t input) const { return what_.contains(program_->inputs[input].value); }

  // Gaps of one text and several types: which is meant where depends on the order in which the code is run. Another one of
  // those that are possible; false when there is none.
  bool another_order() {
    asked_.clear();
    for (auto& [what, uses] : uses_) {
      std::next_permutation(uses.begin(), uses.end());
      if (uses != first_order_.at(what)) return true;
    }
    return false;
  }

  // The inputs behind todo("…"), in the order in which the program uses them.
  front::Tensor next(const std::string& what, const std::vector<front::Tensor>& inputs) {
    const auto uses = uses_.find(what);
    if (uses == uses_.end()) throw Error(ErrorCode::gap, "the code has a gap where the program has none").found(what);
    const ValueId v = uses->second[asked_[what]++ % uses->second.size()];
    for (size_t i = 0; i < inputs.size(); ++i) {
      if (program_->inputs[i].value == v) return inputs[i];
    }
    internal_error("a gap is no input");
  }

 private:
  const Program* program_;
  std::map<ValueId, std::string> what_;
  std::map<std::string, Values> uses_, first_order_;
  std::map<std::string, size_t> asked_;
};

// While it lives, nodes stand at this line of the text.
class StandsAtLines {
 public:
  explicit StandsAtLines(const size_t& line) { front::line_of_text() = &line; }
  ~StandsAtLines() { front::line_of_text() = nullptr; }
  StandsAtLines(const StandsAtLines&) = delete;
  StandsAtLines& operator=(const StandsAtLines&) = delete;
};

// The code as a model that can be captured.
class ReadModel final : public front::Callable {
 public:
  ReadModel(const Source& source, const Program& p, Gaps& gaps)
      : gaps_(&gaps),
        weights_(front::WeightsAccess::of(std::make_shared<ProgramStore>(p))),
        interpreter_(source, [this](const std::string& what) { return gaps_->next(what, inputs_); }) {}

  std::vector<std::pair<std::string, front::Tensor>> call(const std::vector<front::Tensor>& inputs) const override {
    inputs_ = inputs;
    const StandsAtLines lines(interpreter_.line());
    std::vector<front::Tensor> given;
    for (size_t i = 0; i < inputs.size(); ++i) {
      if (!gaps_->is_gap(i)) given.push_back(inputs[i]);
    }
    return interpreter_.run(weights_, given);
  }
  size_t line() const { return interpreter_.line(); }

 private:
  Gaps* gaps_;
  front::Weights weights_;
  mutable std::vector<front::Tensor> inputs_;
  mutable Interpreter interpreter_;
};

std::string line_of(const std::string& text, size_t line) {
  const std::vector<std::string> lines = parts(text, '\n');
  if (line == 0 || line > lines.size()) return {};
  const std::string& found = lines[line - 1];
  return found.substr(std::min(found.find_first_not_of(' '), found.size()));
}

constexpr const char* kHint = "this is a limit of codegen, not of the model: `pycandle.load_model` runs the recording as it is";

std::string difference_to(const Program& expected, const Program& captured) {
  std::string difference = first_difference(expected, captured);
  constexpr std::string_view kOther = ", the other ";
  const size_t at = difference.rfind(kOther);
  return at == std::string::npos ? difference : difference.replace(at, kOther.size(), ", in the code ");
}

// For each node of the program the line of the code that computes it; 0: none. Nodes that compute the same are told apart by
// their module, then by their order.
std::vector<int32_t> lines_of_nodes(const Program& program, const Program& captured) {
  const auto for_each = [](const Program& p, const auto& visit) {
    const std::vector<Hash128> hashes = value_hashes(p);
    for (size_t n = 0; n < p.graph.nodes.size(); ++n) {
      const Node& node = p.graph.nodes[n];
      if (!node.results.empty()) visit(n, hashes[node.results[0]].text(), p.module_path(node.origin));
    }
  };
  struct Lines {
    std::map<std::string, std::vector<int32_t>> by_module;
    int32_t any = 0;
  };
  std::map<std::string, Lines> found;
  for_each(captured, [&](size_t n, const std::string& hash, const std::string& module) {
    const int32_t line = captured.graph.nodes[n].origin.line;
    found[hash].by_module[module].push_back(line);
    found[hash].any = line;
  });
  std::map<std::string, size_t> taken;
  std::vector<int32_t> lines(program.graph.nodes.size(), 0);
  for_each(program, [&](size_t n, const std::string& hash, const std::string& module) {
    const auto same = found.find(hash);
    if (same == found.end()) return;
    const auto there = same->second.by_module.find(module);
    if (there == same->second.by_module.end()) {
      lines[n] = same->second.any;
    } else {
      lines[n] = there->second[std::min(taken[hash + module]++, there->second.size() - 1)];
    }
  });
  return lines;
}

// Why the code is not the program; nothing when it is: then `lines` are filled in. Whatever goes wrong here is the code's fault.
std::optional<Error> refusal(const std::string& header, const Program& expected, Gaps& gaps, std::vector<int32_t>& lines) {
  Error wrong(ErrorCode::gap, "the code for this model would not run, so nothing is written");
  wrong.hint(kHint);
  size_t line = 0;
  try {
    const Source source = read_source(header);
    const ReadModel model(source, expected, gaps);
    Program captured;
    try {
      captured = front::captured_program(model, front::signature_of(expected));
    } catch (...) {
      line = model.line();
      throw;
    }
    const std::string difference = difference_to(expected, captured);
    if (difference.empty()) {
      lines = lines_of_nodes(expected, captured);
      return {};
    }
    return Error(ErrorCode::gap, "the code for this model would not be the recorded program, so nothing is written")
        .found(difference)
        .hint(kHint);
  } catch (const Error& e) {
    wrong.module_path(e.module_path()).expected(e.expected());
    wrong.found(fmt::format("{}{}", e.message(), e.found().empty() ? "" : ": " + e.found()));
  } catch (const std::exception& e) {
    wrong.found(e.what());
  }
  if (line > 0) wrong.python(fmt::format("line {} of the code", line), line_of(header, line));
  return wrong;
}

}  // namespace

ProvenHeader prove(const std::string& header, const Program& program) {
  Program expected = program;
  Gaps gaps(expected);
  std::vector<int32_t> lines;
  const std::optional<Error> refused = refusal(header, expected, gaps, lines);
  constexpr int kMostOrders = 500;
  for (int i = 0; refused && i < kMostOrders; ++i) {
    if (!gaps.another_order()) throw *refused;
    if (!refusal(header, expected, gaps, lines)) return {header, std::move(lines)};
  }
  if (refused) throw *refused;
  return {header, std::move(lines)};
}

}  // namespace pycandle::emit::proof
