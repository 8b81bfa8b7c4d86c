#include "suite/backend_tests.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <memory>
#include <optional>
#include <set>

#include "backends/reference/reference.h"
#include "base/error.h"
#include "ir/text.h"
#include "ops/core/catalogue.h"
#include "suite/pack.h"
#include "verify/judging/slice_judge.h"

namespace pycandle {
namespace {

using Outcome = BackendTestResult::Outcome;

Array copy_of(const Array& from) {
  Array copy(from.dtype(), from.shape());
  if (from.bytes() > 0) std::memcpy(copy.mutable_data(), from.data(), from.bytes());
  return copy;
}
std::vector<Array> copies_of(const std::vector<Array>& from) {
  std::vector<Array> copies;
  for (const Array& a : from) copies.push_back(copy_of(a));
  return copies;
}

std::string type_of(const Array& a) { return fmt::format("{}{}", name_of(a.dtype()), to_string(a.shape())); }

// What the backend did wrong, in words. Nothing else is thrown by a test for that.
struct Problem {
  std::string what;
};

// The states of a call and its inputs, which a run may not write to.
struct Run {
  std::vector<Array> outputs, states;
  Bindings sizes;
  double seconds = 0;
};

Run run_once(const Executable& executable, const std::vector<Array>& inputs, const std::vector<Array>& states) {
  Run run;
  run.states = copies_of(states);
  RunRequest request;
  request.inputs = copies_of(inputs);
  if (!states.empty()) request.states = &run.states;
  request.found = &run.sizes;
  const std::vector<Array> given = request.inputs;
  const auto start = std::chrono::steady_clock::now();
  run.outputs = executable.run(request);
  run.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (!given[i].same_bytes(inputs[i])) throw Problem{fmt::format("input {} was written to", i)};
  }
  return run;
}

class Test {
 public:
  Test(const PackedCase& c, const Backend& backend)
      : case_(c),
        backend_(backend),
        program_(parse_program(c.program, catalogue(), c.name)),
        parameters_(memory_parameters(c.parameters)) {}

  void count(BackendTestResult& result) const {
    for (const Node& node : program_.graph.nodes) {
      const Call call(*node.op, program_.graph, node.operands, node.attributes, node.regions);
      ++(node.op->is_primitive ? result.primitives : backend_.claims(call) ? result.claimed : result.decomposed);
    }
  }

  void run(BackendTestResult& result) const {
    const std::unique_ptr<Executable> executable = backend_.compile(program_, catalogue(), parameters_, {}, nullptr);
    const std::unique_ptr<Executable> reference = reference_backend().compile(program_, catalogue(), parameters_, {}, nullptr);
    std::vector<Array> states;
    for (const State& s : program_.states) states.push_back(case_.parameters.at(s.name));
    for (size_t number = 0; number < case_.calls.size(); ++number) {
      const PackedCall& call = case_.calls[number];
      const Run expected = run_once(*reference, call.inputs, states);
      const Run first = run_once(*executable, call.inputs, states), second = run_once(*executable, call.inputs, states);
      result.seconds += std::min(first.seconds, second.seconds);
      result.reference_seconds += std::min(expected.seconds, run_once(*reference, call.inputs, states).seconds);
      try {
        check_again(first, second);
        judge(call, expected, first, states);
      } catch (const Problem& problem) {
        throw case_.calls.size() == 1 ? problem : Problem{fmt::format("in call {}: {}", number + 1, problem.what)};
      }
      if (!states.empty()) states = call.states;  // PyTorch's, so that one error is not counted again
    }
  }

 private:
  void check_again(const Run& first, const Run& second) const {
    const auto same = [](const std::vector<Array>& a, const std::vector<Array>& b) {
      return a.size() == b.size() && std::equal(a.begin(), a.end(), b.begin(), [](const Array& x, const Array& y) {
               return x.dtype() == y.dtype() && x.shape() == y.shape();
             });
    };
    if (!same(first.outputs, second.outputs)) throw Problem{"the same call again gives other types"};
    if (!case_.is_random) return;
    for (size_t i = 0; i < first.outputs.size(); ++i) {
      if (!first.outputs[i].same_bytes(second.outputs[i])) throw Problem{"the same seed gives other values"};
    }
  }

  void judge(const PackedCall& call, const Run& reference, const Run& ours, const std::vector<Array>& states) const {
    if (ours.outputs.size() != program_.outputs.size())
      throw Problem{fmt::format("{} outputs instead of {}", ours.outputs.size(), program_.outputs.size())};
    for (size_t i = 0; i < ours.outputs.size(); ++i) {
      const std::string what = ours.outputs.size() == 1 ? "" : fmt::format("output {}: ", program_.outputs[i].name);
      const Array& golden = case_.is_random ? reference.outputs[i] : call.outputs.at(i);
      judge_value(what, program_.outputs[i].value, golden, ours.outputs[i], call, reference, states);
    }
    for (size_t i = 0; i < program_.states.size(); ++i) {
      const State& s = program_.states[i];
      if (s.updated == kNoValue) continue;
      judge_value(fmt::format("state {} after the call: ", s.name), s.updated, call.states.at(i), ours.states.at(i), call,
                  reference, states);
    }
  }

  void judge_value(const std::string& what, ValueId v, const Array& golden, const Array& ours, const PackedCall& call,
                   const Run& reference, const std::vector<Array>& states) const {
    if (ours.dtype() != golden.dtype() || ours.shape() != golden.shape())
      throw Problem{fmt::format("{}{} instead of {}", what, type_of(ours), type_of(golden))};
    if (case_.is_random || ours.same_bytes(golden)) return;
    if (program_.graph.values[v].node == kNoNode) throw Problem{what + "it is not what came in"};

    PerValue<bool> is_known(program_.graph.values.size());
    for (const Input& input : program_.inputs) is_known[input.value] = true;
    for (const State& s : program_.states) is_known[s.value] = true;
    const Slice slice = Slicer(program_, std::move(is_known)).slice(v);
    std::vector<Array> inputs;
    for (const ValueId known : slice.inputs) inputs.push_back(given(known, call, states));

    const Trials trials(catalogue(), parameters_, reference.sizes);
    KeptFloors floors = KeptFloors::none();
    const SliceJudge judge(trials, floors, {{}, std::nullopt, "PyTorch", &backend_ == &reference_backend()});
    Evidence evidence;
    evidence.golden = golden;
    evidence.ours = ours;
    LayerResult result;
    result.dtype = name_of(golden.dtype());
    judge.judge("", slice, inputs, evidence, result);
    if (result.verdict == Verdict::wrong_here) throw Problem{what + result.why};
  }

  const Array& given(ValueId v, const PackedCall& call, const std::vector<Array>& states) const {
    for (size_t i = 0; i < program_.inputs.size(); ++i) {
      if (program_.inputs[i].value == v) return call.inputs.at(i);
    }
    for (size_t i = 0; i < program_.states.size(); ++i) {
      if (program_.states[i].value == v) return states.at(i);
    }
    internal_error("a slice begins with what is given");
  }

  const PackedCase& case_;
  const Backend& backend_;
  const Program program_;
  const std::shared_ptr<const ParameterSource> parameters_;
};

}  // namespace

const char* to_string(Outcome outcome) {
  switch (outcome) {
    case Outcome::passed: return "passed";
    case Outcome::wrong: return "wrong";
    case Outcome::failed: return "failed";
    case Outcome::refused: break;
  }
  return "refused";
}

struct BackendTests::Parts {
  std::vector<PackedCase> cases;
};

BackendTests::BackendTests(const std::filesystem::path& folder) : parts_(std::make_unique<Parts>()) {
  parts_->cases = read_pack(folder);
}
BackendTests::~BackendTests() = default;

size_t BackendTests::size() const { return parts_->cases.size(); }
const std::string& BackendTests::op(size_t test) const { return parts_->cases.at(test).op; }
const std::string& BackendTests::name(size_t test) const { return parts_->cases.at(test).name; }

std::vector<std::string> BackendTests::ops() const {
  std::vector<std::string> ops;
  std::set<std::string> seen;
  for (const PackedCase& c : parts_->cases) {
    if (seen.insert(c.op).second) ops.push_back(c.op);
  }
  return ops;
}

BackendTestResult BackendTests::run(size_t test, const Backend& backend) const {
  const PackedCase& c = parts_->cases.at(test);
  BackendTestResult result;
  result.op = c.op;
  result.name = c.name;
  const auto set = [&](Outcome outcome, const std::string& why) {
    result.outcome = outcome;
    result.why = why;
  };
  const Test made(c, backend);
  try {
    made.count(result);
    made.run(result);
  } catch (const Problem& problem) {
    set(Outcome::wrong, problem.what);
  } catch (const Error& error) {
    set(error.code() == ErrorCode::gap ? Outcome::refused : Outcome::failed, error.text());
  } catch (const std::exception& error) {
    set(Outcome::failed, error.what());
  } catch (...) {
    set(Outcome::failed, "an exception that is no std::exception");
  }
  return result;
}

std::string BackendTests::problems(const std::string& op, const Backend& backend) const {
  std::string text;
  for (size_t i = 0; i < size(); ++i) {
    if (this->op(i) != op) continue;
    const BackendTestResult result = run(i, backend);
    if (!result.is_fine()) text += fmt::format("{} {}: {}\n", to_string(result.outcome), result.name, result.why);
  }
  return text;
}

}  // namespace pycandle
