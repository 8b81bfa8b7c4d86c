#include "backends/c/c.h"

#include <cstring>
#include <list>
#include <mutex>
#include <new>
#include <utility>

#include "backends/c/compiler.h"
#include "backends/c/file.h"
#include "backends/c/text.h"
#include "backends/plugin.h"
#include "base/error.h"
#include "base/strides.h"
#include "ops/core/catalogue.h"

namespace pycandle {
namespace {

constexpr std::align_val_t kLine{64};

std::shared_ptr<std::byte> aligned_memory(size_t bytes) {
  auto* data = static_cast<std::byte*>(::operator new(std::max<size_t>(bytes, 1), kLine));
  return {data, [](std::byte* p) { ::operator delete(p, kLine); }};
}

// A program compiled for one set of sizes.
struct Built {
  std::shared_ptr<const c::Loaded> code;
  std::shared_ptr<std::byte> weights;
  size_t weight_bytes = 0, arena_bytes = 0;
  std::vector<Sizes> outputs;
  std::vector<std::optional<c::View>> taps;  // of those that have a place in memory
};

Array copied(DType dtype, const c::View& view, const void* data) {
  Array out(dtype, view.sizes);
  const size_t bytes = size_of(dtype);
  const auto* from = static_cast<const char*>(data);
  char* to = out.mutable_as<char>();
  for_each_offset(view.sizes, view.strides, [&](int64_t i, int64_t at) {
    std::memcpy(to + static_cast<size_t>(i) * bytes, from + at * static_cast<int64_t>(bytes), bytes);
  });
  return out;
}

Built build(const Program& p, const OpTable& table, const ParameterSource& parameters, const Bindings& sizes) {
  c::Generator g(p, table, parameters, sizes, {.is_readable = false});
  g.run();
  Built built;
  built.code = c::compiled(c::loadable_file(g));
  built.arena_bytes = g.arena_bytes;
  built.weight_bytes = g.weight_bytes;
  built.weights = aligned_memory(g.weight_bytes);
  size_t at = 0;
  c::write_weights(g, [&](const void* data, size_t bytes) {
    if (bytes != 0) std::memcpy(built.weights.get() + at, data, bytes);
    at += bytes;
  });
  for (const Output& o : p.outputs) built.outputs.push_back(evaluate(p.graph.type(o.value).shape, sizes));
  built.taps.resize(p.taps.size());
  for (const c::Step& step : g.steps) {
    if (step.kind == c::Step::Kind::tap) built.taps[step.tap] = step.arguments[0].view;
  }
  return built;
}

class CExecutable final : public Executable {
 public:
  CExecutable(Program p, const OpTable& table, std::shared_ptr<const ParameterSource> parameters)
      : program_(std::move(p)), table_(table), parameters_(std::move(parameters)) {}

  std::vector<Array> run(const RunRequest& request) const override {
    const Bindings sizes = bind_inputs(program_, request.inputs, request.symbols);
    const std::shared_ptr<const Built> built = built_for(sizes);
    std::vector<const void*> inputs;
    for (const Array& a : request.inputs) inputs.push_back(a.data());
    std::vector<Array> outputs;
    std::vector<void*> targets, state_pointers;
    for (size_t o = 0; o < program_.outputs.size(); ++o) {
      outputs.emplace_back(program_.graph.type(program_.outputs[o].value).dtype, built->outputs[o]);
      targets.push_back(outputs.back().mutable_data());
    }
    std::vector<Array> states = own_states(request, sizes);
    for (Array& a : states) state_pointers.push_back(a.mutable_data());
    const std::shared_ptr<std::byte> arena = aligned_memory(built->arena_bytes);
    Taps taps{*this, *built, request};
    const int failed = built->code->entry(inputs.data(), targets.data(), state_pointers.data(), built->weights.get(), arena.get(),
                                          request.on_tap ? &Taps::deliver : nullptr, &taps);
    if (failed != 0) {
      throw Error(ErrorCode::bad_input, "an index is out of range")
          .expected("indices within the axis that they index")
          .hint("--backend cpu names the index and the place");
    }
    if (request.states) *request.states = std::move(states);
    if (request.found) *request.found = sizes;
    return outputs;
  }

  ExecutableUse use() const override {
    const std::lock_guard lock(mutex_);
    ExecutableUse use;
    for (const auto& [sizes, built] : built_) {
      use.weight_bytes = std::max(use.weight_bytes, built->weight_bytes);
      use.arena_bytes = std::max(use.arena_bytes, built->arena_bytes);
    }
    return use;
  }

 private:
  struct Taps {
    const CExecutable& executable;
    const Built& built;
    const RunRequest& request;
    static void deliver(void* self, int t, const void* values) {
      const Taps& taps = *static_cast<Taps*>(self);
      const auto tap = static_cast<size_t>(t);
      const Program& p = taps.executable.program_;
      taps.request.on_tap(tap, copied(p.graph.type(p.taps[tap].value).dtype, *taps.built.taps[tap], values));
    }
  };

  std::vector<Array> own_states(const RunRequest& request, const Bindings& sizes) const {
    std::vector<Array> states;
    for (size_t i = 0; i < program_.states.size(); ++i) {
      const State& state = program_.states[i];
      const ValueId v = state.value != kNoValue ? state.value : state.updated;
      const Type& type = program_.graph.type(v);
      const Array given = request.states ? (*request.states)[i] : parameters_->get_state(state, type);
      Array own(type.dtype, evaluate(type.shape, sizes));
      if (own.size() != given.size())
        throw Error(ErrorCode::bad_input, c::formatted("the state {} has another size", state.name))
            .expected(to_string(own.shape()))
            .found(to_string(given.shape()));
      if (own.bytes() != 0) std::memcpy(own.mutable_data(), given.data(), own.bytes());
      states.push_back(std::move(own));
    }
    return states;
  }

  std::shared_ptr<const Built> built_for(const Bindings& sizes) const {
    const std::lock_guard lock(mutex_);
    for (auto it = built_.begin(); it != built_.end(); ++it) {
      if (it->first != sizes) continue;
      built_.splice(built_.begin(), built_, it);
      return built_.front().second;
    }
    constexpr size_t kMost = 8;  // sets of sizes that are kept
    built_.emplace_front(sizes, std::make_shared<const Built>(build(program_, table_, *parameters_, sizes)));
    if (built_.size() > kMost) built_.pop_back();
    return built_.front().second;
  }

  Program program_;
  const OpTable& table_;
  std::shared_ptr<const ParameterSource> parameters_;
  mutable std::mutex mutex_;
  mutable std::list<std::pair<Bindings, std::shared_ptr<const Built>>> built_;  // the one used last first
};

class CBackend final : public Backend {
 public:
  std::string name() const override { return "c"; }
  bool claims(const Call& call) const override { return c::is_claimed(call, table_); }
  std::unique_ptr<Executable> compile(const Program& p, const OpTable& table, std::shared_ptr<const ParameterSource> parameters,
                                      const PipelineOptions& options, std::vector<PassTiming>* timings) const override {
    return std::make_unique<CExecutable>(c::lowered_program(p, table, options, timings), table, std::move(parameters));
  }

 private:
  const OpTable& table_ = catalogue();
};

}  // namespace

Program c::lowered_program(const Program& p, const OpTable& table, const PipelineOptions& options,
                           std::vector<PassTiming>* timings) {
  if (!options.overrides.empty()) {
    throw Error(ErrorCode::usage,
                formatted("there is nothing to choose for {} on the backend c", options.overrides.begin()->first))
        .expected("no --override, or --backend cpu")
        .found(options.overrides.begin()->first);
  }
  const auto claimed = [&](const Call& call) { return is_claimed(call, table); };
  Program lowered = run_backend_pipeline(p, table, claimed, options, timings, optimising_passes());
  check_supported(lowered);
  return lowered;
}

const Backend& c_backend() {
  static const CBackend backend;
  return backend;
}

}  // namespace pycandle

PYCANDLE_BACKEND(pycandle::c_backend());  // for processes that load it as a library
