// From a model in C++ to a program that runs.
//
//   Compiled run = compile(model, {{"input_ids", DType::i64, {"batch", "sequence"}}});
//   Array logits = run(ids);                          // any batch, any sequence
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "pycandle/module.h"
#include "pycandle/tensor.h"
#include "pycandle/weight_format.h"

namespace pycandle {
struct CallerStates;    // src/runtime/states.h
class ParameterSource;  // src/params/parameters.h
}  // namespace pycandle

namespace pycandle::front {
// A dynamic size. Sizes of one name are one size.
struct Symbol {
  std::string name = {};
  int64_t min = 1;
  std::optional<int64_t> max = {};
  std::optional<int64_t> example = {};  // what Dim::specialise() takes
};

class PYCANDLE_API SignatureDim {
 public:
  SignatureDim(int size) : size_(size) {}                                  // NOLINT(google-explicit-constructor)
  SignatureDim(int64_t size) : size_(size) {}                              // NOLINT(google-explicit-constructor)
  SignatureDim(const char* name) { symbol_.name = name; }                  // NOLINT(google-explicit-constructor)
  SignatureDim(std::string name) { symbol_.name = std::move(name); }       // NOLINT(google-explicit-constructor)
  SignatureDim(Symbol symbol) : symbol_(std::move(symbol)) {}              // NOLINT(google-explicit-constructor)
  bool is_number() const { return symbol_.name.empty(); }
  int64_t size() const { return size_; }
  const Symbol& symbol() const { return symbol_; }  // its name may be an expression over other names: "2*batch"

 private:
  int64_t size_ = 0;
  Symbol symbol_;
};

struct InputSpec {
  std::string name;
  DType dtype = DType::f32;
  std::vector<SignatureDim> shape = {};
};
using Signature = std::vector<InputSpec>;
// Of a recording: names, dtypes, dynamic sizes with their ranges and examples.
PYCANDLE_API Signature signature_of(const std::string& manifest);

// What the cpu backend does with weights. fast: packs them for its kernels from the second call on. small: reads them where
// they lie, where the kernels can, so that the process needs about half of the memory and a call takes longer.
enum class Memory { fast, small };

struct CompileOptions {
  std::string name = "captured";       // of the program
  std::string backend = {};            // cpu; the reference, which shows every value, when the model has a checker
  std::string dump_dir = {};           // PTIR after each pass
  int threads = 0;                     // of the cpu backend; 0: PYCANDLE_THREADS, or all cores
  Memory memory = Memory::fast;
  WeightFormat weights = WeightFormat::f32;  // of linear layers and embeddings; fewer bytes, and rounded to them
  std::map<std::string, std::string> overrides = {};  // functional → implementation: {"linear", "naive"}; pycandle ops names them
};

// A handle: copies share the states. Safe to use from several threads, also while it captures: calls of a model with states
// take turns, all others run side by side. PYCANDLE_EAGER=1 runs one call at a time.
class PYCANDLE_API Compiled {
 public:
  using Tensors = std::map<std::string, Array>;
  Tensors run(const Tensors& inputs) const;  // by name: "output", "output.0", "output.logits"
  std::vector<Array> run(const std::vector<Array>& inputs) const;  // in order
  template <class... A>
    requires(std::is_same_v<A, Array> && ...)
  Array operator()(const A&... inputs) const {
    return only(run(std::vector<Array>{inputs...}));
  }

  Tensors states() const;  // copies, as they are now, by name: the buffers that forward() changes
  void set_states(const Tensors&) const;  // some or all, by name
  void reset() const;  // the states are again what the weights say
  void save_states(const std::string& path) const;  // a safetensors file
  void load_states(const std::string& path) const;  // which has every state, with its dtype and shape
  // The same weights and plans, with states of its own that begin as the weights say: one for each caller.
  Compiled session() const;

  const Signature& signature() const;
  std::vector<std::string> outputs() const;
  std::string ptir() const;  // the captured program in program form, as text
  const Program& program() const;  // the same, for the library's own tools
  std::shared_ptr<const ParameterSource> parameters() const;  // its weights, for the same
  // The same as a file, with the calls of modules: pycandle verify M --program FILE judges it. Layers are judged one by
  // one when the model was made with a checker.
  void save(const std::string& path) const;
  size_t captures() const;  // how often the model was captured so far

 private:
  friend struct CompiledAccess;
  Array only(std::vector<Array>) const;
  struct State;
  std::shared_ptr<State> state_;
  std::shared_ptr<CallerStates> session_;  // null: the states are those of the weights
};

// ---- how a model is called; nobody else needs this

class PYCANDLE_API Callable {
 public:
  virtual ~Callable() = default;
  // Calls the model on the inputs and names its outputs.
  virtual std::vector<std::pair<std::string, Tensor>> call(const std::vector<Tensor>&) const = 0;
};
PYCANDLE_API Compiled compile_callable(std::shared_ptr<const Callable>, std::optional<Signature>, const CompileOptions&);
[[noreturn]] PYCANDLE_API void wrong_inputs(size_t found);

template <class Model> class CallableModel final : public Callable {
 public:
  explicit CallableModel(Model&& model) : model_(std::forward<Model>(model)) {}
  std::vector<std::pair<std::string, Tensor>> call(const std::vector<Tensor>& inputs) const override { return with<0>(inputs); }

 private:
  using Plain = std::remove_reference_t<Model>;
  static constexpr size_t kMost = 12;
  template <size_t> using TensorAt = const Tensor&;

  template <size_t count> std::vector<std::pair<std::string, Tensor>> with(const std::vector<Tensor>& inputs) const {
    if constexpr (count > kMost) {
      if constexpr (std::is_invocable_v<const Plain&, const std::vector<Tensor>&>) return named(model_(inputs));
      wrong_inputs(inputs.size());
    } else {
      if (inputs.size() != count) return with<count + 1>(inputs);
      return called_with(inputs, std::make_index_sequence<count>());
    }
  }
  template <size_t... i>
  std::vector<std::pair<std::string, Tensor>> called_with(const std::vector<Tensor>& inputs, std::index_sequence<i...>) const {
    if constexpr (std::is_invocable_v<const Plain&, TensorAt<i>...>)
      return named(model_(inputs[i]...));
    else if constexpr (std::is_invocable_v<const Plain&, const std::vector<Tensor>&>)
      return named(model_(inputs));
    else
      wrong_inputs(inputs.size());
  }
  template <class Result> static std::vector<std::pair<std::string, Tensor>> named(const Result& result) {
    std::vector<std::pair<std::string, Tensor>> all;
    each_tensor(result, "output", [&](const std::string& name, const Tensor& t) { all.emplace_back(name, t); });
    return all;
  }

  Model model_;  // a reference when the model is somebody's
};

// A model that is given by name is referred to, and has to live as long as what compile() returns.
template <class Model> Compiled compile(Model&& model, Signature signature, const CompileOptions& options = {}) {
  return compile_callable(std::make_shared<CallableModel<Model>>(std::forward<Model>(model)), std::move(signature), options);
}
// Captured for each combination of dtypes and shapes that comes, and kept.
template <class Model> Compiled compile(Model&& model, const CompileOptions& options = {}) {
  return compile_callable(std::make_shared<CallableModel<Model>>(std::forward<Model>(model)), std::nullopt, options);
}

// The number of nodes that capturing the model makes, before any pass: what benchmarks/capture_cost.cpp measures.
PYCANDLE_API size_t capture_nodes(const Callable&, const Signature&);
template <class Model> size_t capture_only(Model&& model, const Signature& signature) {
  return capture_nodes(CallableModel<Model>(std::forward<Model>(model)), signature);
}

}  // namespace pycandle::front
