// Our values beside the ones that PyTorch gave, layer by layer.
//
//   Checker checker = Checker::load("gpt2", "traces");
//   Gpt2 model(Weights::open("traces/gpt2_manifest.json"), checker);     // checks after each module call
//   CheckResult r = checker.verify("transformer.h.0.mlp", x);            // or by hand
//   check(checker, "transformer.h.0.mlp", x);                            // throws when it is wrong; nothing without a checker
//
// Threads: safe to share; results of all threads are collected.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "pycandle/tensor.h"

namespace pycandle::front {
struct CheckResult {
  std::string layer;
  double mse = 0, max_diff = 0, cosine = 1;
  double error = 0;        // root mean square of the difference, relative to that of the golden values
  double tolerance = 0;    // error may be at most this
  bool guessed = false;    // the tolerance is a guess: nothing was at hand that says what rounding does here
  bool passed = false;
  bool unstable = false;   // it passed because rounding alone moves PyTorch's value as far
  std::string why;         // one sentence when it did not pass, or is unstable
};

class PYCANDLE_API Checker {
 public:
  Checker() = default;  // absent: checks nothing
  static Checker load(const std::string& name, const std::string& folder);  // {name}_manifest.json and its trace file

  explicit operator bool() const { return state_ != nullptr; }
  // layer: "h.0.mlp" is the output of its first call; "h.0.mlp@1" and "h.0.mlp@0/output.1" say more.
  bool has(std::string_view layer) const;
  Array golden(std::string_view layer) const;
  CheckResult verify(std::string_view layer, const Array&) const;
  CheckResult verify(std::string_view layer, const Tensor& x) const { return verify(layer, x.array()); }

  // A model that changes its states was recorded in two calls in a row; by name, call 0 or 1.
  size_t calls() const;
  std::map<std::string, Array> inputs(size_t call = 0) const;
  std::map<std::string, Array> outputs(size_t call = 0) const;
  std::map<std::string, Array> states(size_t call = 0) const;  // what they became in it
  CheckResult verify_output(std::string_view name, const Array&, size_t call = 0) const;
  CheckResult verify_state(std::string_view name, const Array&, size_t call = 0) const;

  // By default an error may be what rounding does to the recorded program from its inputs to that value (four times that, 16
  // times at the worst element). {name}_floors.json beside the goldens says how much that is (pycandle gen-test writes it);
  // without that file the tolerance is guessed, 1e-3 in f32, 2e-2 in f16, …, and the result says so.
  // Here: the error that is let pass instead, relative to the golden values, for every dtype.
  void set_tolerance(double relative);
  void collect(bool only = true);                // note what is wrong instead of throwing
  std::vector<CheckResult> results() const;      // of the checks so far, in their order
  void clear();

 private:
  friend PYCANDLE_API void check(const Checker&, std::string_view layer, const Tensor&);
  friend struct CheckerAccess;
  std::map<std::string, Array> recorded(const std::string& kind, const std::vector<std::string>& names, size_t call) const;
  CheckResult compared(const std::string& name, const std::string& key, size_t call, const Array&) const;
  struct State;
  std::shared_ptr<State> state_;
};

// How far an array is from the one that is expected; `layer` stays empty. Without a tolerance one is guessed by the dtype.
PYCANDLE_API CheckResult how_close(const Array& expected, const Array& found, double tolerance = 0);

// What a model does after a module call. While a program is captured it is noted, and looked at in every run.
PYCANDLE_API void check(const Checker&, std::string_view layer, const Tensor&);

}  // namespace pycandle::front
