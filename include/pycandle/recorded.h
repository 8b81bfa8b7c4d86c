// A recorded model as it is, without source code: what the emitted one is held against.
//
//   Recorded recorded = Recorded::load("pycandle_trace/gpt2_manifest.json");
//   auto inputs = recorded.random_inputs(1, {{"s0", 4}});
//   auto outputs = recorded.run(inputs);
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "pycandle/checker.h"
#include "pycandle/model.h"

namespace pycandle {
namespace front {

struct LoadOptions {
  std::string backend = "cpu";         // or "reference", the definition of right
  int threads = 0;                     // of the cpu backend; 0: PYCANDLE_THREADS, or all cores
  Memory memory = Memory::fast;
  WeightFormat weights = WeightFormat::f32;  // of linear layers and embeddings
  bool check_weights = false;          // read all of them, and refuse those whose checksum is not the recorded one
  std::string checkpoint = {};  // weights from this file or folder, not from the recording: any format of docs/weights.md
  std::string rules = {}, lora = {};  // how its names differ, and an adapter to merge: files
  std::map<std::string, std::string> overrides = {};  // as of CompileOptions
};

// A handle: copies share the states. Safe to use from several threads: calls of a model with states take turns, all others
// run side by side.
class PYCANDLE_API Recorded {
 public:
  using Tensors = Compiled::Tensors;
  // A manifest, the folder of one, or a bundle.
  static Recorded load(const std::string& path, const LoadOptions& = {});

  std::string ledger() const;  // what became of each tensor and each parameter, as JSON: docs/weights.md
  std::vector<Symbol> symbols() const;  // the sizes that the inputs leave open
  // Floats standard normal, integers within the recorded range; at the recorded sizes, or those in `sizes`.
  Tensors random_inputs(uint64_t seed, const std::map<std::string, int64_t>& sizes = {}) const;
  // The states that a call changes stay changed: the next one goes on from them.
  Tensors run(const Tensors& inputs) const;
  Tensors run(const Tensors& inputs, Tensors& states) const;  // with the caller's own states, which the call changes

  // Outputs that the same model gave by other means, judged by what rounding does to the recorded program from these inputs
  // to each of them. With states: those before the call, and what it made of them.
  std::vector<CheckResult> check(const Tensors& inputs, const Tensors& outputs) const;
  std::vector<CheckResult> check(const Tensors& inputs, const Tensors& outputs, const Tensors& states_before,
                                 const Tensors& states_after) const;

  Tensors states() const;  // copies, as they are now, by name
  void set_states(const Tensors&) const;  // some or all, by name
  void reset() const;  // as they were recorded
  void save_states(const std::string& path) const;  // a safetensors file
  void load_states(const std::string& path) const;  // which has every state, with its dtype and shape
  // The same weights and plans, with states of its own that begin as recorded: one for each caller.
  Recorded session() const;

 private:
  struct State;
  std::shared_ptr<const State> state_;
};

}  // namespace front
}  // namespace pycandle
