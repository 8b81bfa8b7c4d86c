#include <fmt/format.h>
#include <fmt/ranges.h>

#include <fstream>
#include <mutex>
#include <set>
#include <utility>

#include "base/error.h"
#include "base/file.h"
#include "capture/capture.h"
#include "capture/compile.h"
#include "import/manifest.h"
#include "ir/text.h"
#include "ops/core/catalogue.h"
#include "passes/pipeline.h"
#include "pycandle/model.h"
#include "runtime/model.h"
#include "runtime/named_inputs.h"

namespace pycandle::front {
PipelineOptions pipeline_of(const CompileOptions& options) {
  PipelineOptions pipeline;
  pipeline.dump_dir = options.dump_dir;
  pipeline.threads = options.threads;
  pipeline.pack_weights = options.memory == Memory::fast;
  pipeline.weights = options.weights;
  pipeline.overrides = options.overrides;
  return pipeline;
}

namespace {

// The leaves of a capture as the runtime wants them.
class CapturedParameters final : public ParameterSource {
 public:
  explicit CapturedParameters(const Capture& capture) {
    for (size_t i = 0; i < capture.leaves.size(); ++i) leaves_.emplace(capture.program.parameters[i].name, capture.leaves[i]);
    for (const auto& state : capture.states) states_.emplace(state->name, state);
  }
  Array get(const Parameter& p) const override { return leaves_.at(p.name)->load(); }
  Array get_state(const pycandle::State& s, const Type&) const override { return states_.at(s.name)->load(); }

 private:
  std::map<std::string, std::shared_ptr<const Leaf>> leaves_, states_;
};

// Declares the sizes of the signature and adds the inputs.
std::vector<Tensor> add_inputs(Capture& capture, const Signature& signature) {
  Program& p = capture.program;
  const auto declare = [&](const Symbol& symbol, const std::string& input, size_t axis) {
    pycandle::Symbol declared;
    declared.name = symbol.name;
    declared.range = {symbol.min, symbol.max};
    declared.example = symbol.example.value_or(0);
    declared.input = input;
    declared.axis = static_cast<int32_t>(axis);
    if (capture.ranges.emplace(symbol.name, declared.range).second) p.symbols.push_back(std::move(declared));
  };
  for (const InputSpec& input : signature) {  // plain names first: expressions over them may come before
    for (size_t axis = 0; axis < input.shape.size(); ++axis) {
      const SignatureDim& dim = input.shape[axis];
      if (dim.is_number()) continue;
      std::vector<std::string> symbols;
      const pycandle::Dim parsed = pycandle::Dim::parse(dim.symbol().name);
      parsed.collect_symbols(symbols);
      if (symbols.size() == 1 && parsed == pycandle::Dim::symbol(symbols[0])) declare(dim.symbol(), input.name, axis);
    }
  }
  std::vector<Tensor> tensors;
  for (const InputSpec& input : signature) {
    Type type{input.dtype, {}};
    for (const SignatureDim& dim : input.shape) {
      type.shape.push_back(dim.is_number() ? pycandle::Dim(dim.size()) : pycandle::Dim::parse(dim.symbol().name));
      std::vector<std::string> symbols;
      type.shape.back().collect_symbols(symbols);
      for (const std::string& name : symbols) {
        if (!capture.ranges.contains(name))
          throw Error(ErrorCode::usage, fmt::format("no input has an axis of size {}", name))
              .expected(fmt::format("an input with a dim \"{}\"", name))
              .found(fmt::format("{} of {}", type.shape.back().text(), input.name));
      }
    }
    for (const pycandle::Input& other : p.inputs) {
      if (other.name == input.name) throw Error(ErrorCode::usage, fmt::format("two inputs are named {}", input.name));
    }
    const ValueId value = p.graph.add_input(type);
    p.inputs.push_back({input.name, value, {}, true});
    tensors.push_back(capture.tensor(value));
  }
  return tensors;
}

// What there is to run for one signature.
struct Plan {
  Signature signature;
  Program program;  // in program form
  std::unique_ptr<Executable> executable;
  std::multimap<TapId, Capture::Watch> watches;
  std::vector<std::shared_ptr<const Leaf>> states;  // in the order of program.states
  std::shared_ptr<const ParameterSource> parameters;
};

void capture_call(Capture& capture, const Callable& model, const Signature& signature) {
  const std::vector<Tensor> inputs = add_inputs(capture, signature);
  const CaptureScope scope(&capture);
  for (auto& [name, tensor] : model.call(inputs)) capture.program.outputs.push_back({name, capture.value_of(tensor)});
  capture.finish();
}

std::shared_ptr<const Plan> captured(const Callable& model, const Signature& signature, const CompileOptions& options) {
  Capture capture;
  capture.program.name = options.name;
  capture_call(capture, model, signature);
  const auto parameters = std::make_shared<CapturedParameters>(capture);
  const PipelineOptions pipeline = pipeline_of(options);
  auto plan = std::make_shared<Plan>();
  plan->signature = signature;
  plan->program = run_program_pipeline(std::move(capture.program), catalogue(), pipeline);
  const char* usual = capture.watches.empty() ? "cpu" : "reference";
  const Backend& backend = find_backend(options.backend.empty() ? usual : options.backend);
  plan->executable = backend.compile(plan->program, catalogue(), parameters, pipeline);
  plan->watches = std::move(capture.watches);
  plan->states = std::move(capture.states);
  plan->parameters = parameters;
  return plan;
}

// States of the weights, or of a session, for one reader or writer at a time.
class LockedStates {
 public:
  LockedStates(const std::vector<std::shared_ptr<const Leaf>>& leaves, CallerStates* session) : session_(session) {
    std::set<std::mutex*, std::less<>> mutexes;  // taken in one order, whoever asks
    for (const auto& leaf : leaves) mutexes.insert(session ? &session->mutex : &leaf->cell->mutex);
    for (std::mutex* mutex : mutexes) locks_.emplace_back(*mutex);
  }
  Array get(const Leaf& leaf) const {
    if (!session_) return leaf.cell->value ? *leaf.cell->value : leaf.store->load(leaf.name);
    const auto changed = session_->values.find(leaf.name);
    return changed != session_->values.end() ? changed->second : leaf.store->load(leaf.name);
  }
  void set(const Leaf& leaf, Array value) {
    if (session_) {
      session_->values.insert_or_assign(leaf.name, std::move(value));
    } else {
      leaf.cell->value = std::move(value);
    }
  }
  void forget(const Leaf& leaf) {
    if (session_) {
      session_->values.erase(leaf.name);
    } else {
      leaf.cell->value.reset();
    }
  }

 private:
  CallerStates* session_;
  std::vector<std::unique_lock<std::mutex>> locks_;
};

std::vector<Array> run_plan(const Plan& plan, const std::vector<Array>& inputs, CallerStates* session) {
  RunRequest request;
  request.inputs = inputs;
  if (!plan.watches.empty()) {
    request.on_tap = [&](size_t tap, const Array& value) {
      const auto [begin, end] = plan.watches.equal_range(plan.program.taps[tap].id);
      for (auto watch = begin; watch != end; ++watch) CheckerAccess::look(watch->second.checker, watch->second.layer, value);
    };
  }
  if (plan.states.empty()) return plan.executable->run(request);
  LockedStates locked(plan.states, session);
  std::vector<Array> states;
  for (const auto& state : plan.states) states.push_back(locked.get(*state));
  std::vector<Array> outputs = run_with_states(*plan.executable, std::move(request), states);
  for (size_t i = 0; i < states.size(); ++i) locked.set(*plan.states[i], std::move(states[i]));
  return outputs;
}

// While it lives, this thread runs eagerly with these states.
class EagerScope {
 public:
  EagerScope(StateLeaves& noted, CallerStates* session) : run_{&noted, session}, before_(std::exchange(eager_run(), &run_)) {}
  ~EagerScope() { eager_run() = before_; }
  EagerScope(const EagerScope&) = delete;
  EagerScope& operator=(const EagerScope&) = delete;

 private:
  EagerRun run_;
  EagerRun* before_;
};

Signature signature_of_arrays(const std::vector<Array>& inputs) {
  Signature signature;
  for (const Array& input : inputs) {
    signature.push_back({fmt::format("input{}", signature.size()), input.dtype(), {}});
    for (int64_t size : input.shape()) signature.back().shape.emplace_back(size);
  }
  return signature;
}

void collect_lines(const Graph& g, std::vector<std::set<int32_t>>& lines) {
  for (const Node& node : g.nodes) {
    if (node.origin.file >= 0) lines.at(node.origin.file).insert(node.origin.line);
    for (const Graph& region : node.regions) collect_lines(region, lines);
  }
}

// As a type is written: "f32[batch, 4]".
std::string type_text(const InputSpec& input) {
  std::vector<std::string> dims;
  for (const SignatureDim& dim : input.shape) dims.push_back(dim.is_number() ? std::to_string(dim.size()) : dim.symbol().name);
  return fmt::format("{}[{}]", name_of(input.dtype), fmt::join(dims, ", "));
}

std::string key_of(const Signature& signature) {
  std::string key;
  for (const InputSpec& input : signature) {
    key += name_of(input.dtype);
    for (const SignatureDim& dim : input.shape) key += fmt::format(" {}", dim.size());
    key += ';';
  }
  return key;
}

}  // namespace

Program with_source_lines(Program p) {
  std::vector<std::set<int32_t>> lines(p.files.size());
  collect_lines(p.graph, lines);
  for (size_t i = 0; i < p.files.size(); ++i) {
    SourceFile& file = p.files[i];
    std::ifstream stream(file.path);
    std::string line;
    file.lines.clear();
    for (int32_t number = 1; std::getline(stream, line); ++number) {
      const size_t start = line.find_first_not_of(" \t");
      if (lines[i].count(number) != 0 && start != std::string::npos) file.lines.emplace_back(number, line.substr(start));
    }
    file.path = from_here(file.path);
  }
  return p;
}

std::string from_here(const std::filesystem::path& path) {
  std::error_code failure;
  const std::filesystem::path near = path.lexically_normal().lexically_relative(std::filesystem::current_path(failure));
  return path.is_relative() || near.empty() || near.begin()->string() == ".." ? path.generic_string() : near.generic_string();
}

std::vector<Array> run_at_once(Program program, const std::vector<Array>& inputs) {
  // Sizes that data will decide have no symbol yet.
  std::vector<std::string> symbols;
  for (const Value& value : program.graph.values) {
    for (pycandle::Dim d : value.type.shape) d.collect_symbols(symbols);
  }
  for (const std::string& name : symbols) {
    pycandle::Symbol symbol;
    symbol.name = name;
    symbol.range.min = 0;
    bool is_known = false;
    for (const pycandle::Symbol& other : program.symbols) is_known = is_known || other.name == name;
    if (!is_known) program.symbols.push_back(std::move(symbol));
  }
  RunRequest request;
  request.inputs = inputs;
  PipelineOptions options;
  options.verify = false;
  return find_backend("reference").compile(program, catalogue(), memory_parameters({}), options)->run(request);
}

struct Compiled::State {
  std::shared_ptr<const Callable> model;
  std::optional<Signature> signature;
  CompileOptions options;
  std::mutex mutex;
  std::map<std::string, std::shared_ptr<const Plan>> plans;  // by dtypes and shapes; one under "" when there is a signature
  std::shared_ptr<const Plan> last;
  size_t captures = 0;
  StateLeaves states;  // that runs met so far

  std::shared_ptr<const Plan> plan_for(const std::vector<Array>& inputs) {
    const std::lock_guard lock(mutex);
    const Signature wanted = signature ? *signature : signature_of_arrays(inputs);
    std::shared_ptr<const Plan>& plan = plans[signature ? "" : key_of(wanted)];
    if (!plan) {
      plan = captured(*model, wanted, options);
      for (const auto& state : plan->states) states.emplace(state->name, state);
      ++captures;
    }
    return last = plan;
  }

  std::vector<std::pair<std::string, Tensor>> run_eagerly(const std::vector<Array>& inputs, CallerStates* session) {
    if (signature && signature->size() != inputs.size()) wrong_inputs(inputs.size());
    std::vector<Tensor> tensors;
    tensors.reserve(inputs.size());
    for (const Array& input : inputs) tensors.emplace_back(input);
    const CaptureScope scope(nullptr);
    eager_sizes().clear();
    const std::lock_guard lock(mutex);
    const EagerScope running(states, session);
    return model->call(tensors);
  }

  std::vector<std::shared_ptr<const Leaf>> leaves() const {  // of the states
    std::vector<std::shared_ptr<const Leaf>> all;
    for (const auto& [name, leaf] : states) all.push_back(leaf);
    return all;
  }
  StateTypes types() const {
    StateTypes all;
    for (const auto& [name, leaf] : states) all.emplace(name, leaf->type);
    return all;
  }

  const Plan& plan() {
    const std::lock_guard lock(mutex);
    if (!last) not_captured();
    return *last;
  }
  // Which states a model has is known once it ran, or when it was captured.
  void check_states_are_known() {
    const std::lock_guard lock(mutex);
    if (!last && states.empty()) not_captured();
  }

  [[noreturn]] static void not_captured() {
    throw Error(ErrorCode::usage, "the model was not captured yet")
        .hint("call it once, or give compile() a signature; PYCANDLE_EAGER=1 captures nothing");
  }
};

struct CompiledAccess {
  static Compiled make(std::shared_ptr<const Callable> model, std::optional<Signature> signature, const CompileOptions& options) {
    Compiled compiled;
    compiled.state_ = std::make_shared<Compiled::State>();
    compiled.state_->model = std::move(model);
    compiled.state_->signature = std::move(signature);
    compiled.state_->options = options;
    if (compiled.state_->signature && !is_eager()) compiled.state_->plan_for({});
    return compiled;
  }
};

Compiled compile_callable(std::shared_ptr<const Callable> model, std::optional<Signature> signature,
                          const CompileOptions& options) {
  return CompiledAccess::make(std::move(model), std::move(signature), options);
}

Program captured_program(const Callable& model, const Signature& signature) {
  Capture capture;
  capture_call(capture, model, signature);
  return run_program_pipeline(std::move(capture.program), catalogue());
}

CapturedStep captured_step(const Callable& model, const DecodeSignature& signature, const CompileOptions& options) {
  Capture capture;
  capture.program.name = options.name;
  capture_call(capture, model, signature.inputs);
  auto parameters = std::make_shared<CapturedParameters>(capture);
  return {run_program_pipeline(std::move(capture.program), catalogue()), std::move(parameters)};
}

size_t capture_nodes(const Callable& model, const Signature& signature) {
  Capture capture;
  capture_call(capture, model, signature);
  return capture.program.graph.nodes.size();
}

void wrong_inputs(size_t found) {
  throw Error(ErrorCode::usage, fmt::format("the model cannot be called with {} tensors", found))
      .hint("the signature has one input for each argument of forward(), in order");
}

std::vector<Array> Compiled::run(const std::vector<Array>& inputs) const {
  if (!is_eager()) return run_plan(*state_->plan_for(inputs), inputs, session_.get());
  std::vector<Array> results;
  for (const auto& [name, tensor] : state_->run_eagerly(inputs, session_.get())) results.push_back(tensor.array());
  return results;
}

Compiled::Tensors Compiled::run(const Tensors& inputs) const {
  if (!state_->signature) throw Error(ErrorCode::usage, "inputs have names only with a signature");
  std::vector<WantedInput> wanted;
  for (const InputSpec& input : *state_->signature) wanted.push_back({input.name, type_text(input)});
  const std::vector<Array> ordered = in_order(wanted, inputs);
  Tensors results;
  if (is_eager()) {
    for (const auto& [name, tensor] : state_->run_eagerly(ordered, session_.get())) results.emplace(name, tensor.array());
    return results;
  }
  const auto plan = state_->plan_for(ordered);
  std::vector<Array> values = run_plan(*plan, ordered, session_.get());
  for (size_t i = 0; i < values.size(); ++i) results.emplace(plan->program.outputs[i].name, std::move(values[i]));
  return results;
}

Compiled::Tensors Compiled::states() const {
  const std::lock_guard lock(state_->mutex);
  const LockedStates locked(state_->leaves(), session_.get());
  Tensors values;
  for (const auto& [name, leaf] : state_->states) values.emplace(name, copy_of(locked.get(*leaf)));
  return values;
}

void Compiled::set_states(const Tensors& states) const {
  state_->check_states_are_known();
  const std::lock_guard lock(state_->mutex);
  check_states(state_->types(), states, Expected::some, "memory");
  LockedStates locked(state_->leaves(), session_.get());
  for (const auto& [name, value] : states) locked.set(*state_->states.at(name), copy_of(value));
}

void Compiled::reset() const {
  const std::lock_guard lock(state_->mutex);
  LockedStates locked(state_->leaves(), session_.get());
  for (const auto& [name, leaf] : state_->states) locked.forget(*leaf);
}

void Compiled::save_states(const std::string& path) const { pycandle::save_states(path, states()); }

void Compiled::load_states(const std::string& path) const {
  state_->check_states_are_known();
  StateTypes types;
  {
    const std::lock_guard lock(state_->mutex);
    types = state_->types();
  }
  set_states(pycandle::load_states(path, types));
}

Compiled Compiled::session() const {
  Compiled compiled = *this;
  compiled.session_ = std::make_shared<CallerStates>();
  return compiled;
}

Array Compiled::only(std::vector<Array> values) const {
  if (values.size() == 1) return std::move(values[0]);
  throw Error(ErrorCode::usage, fmt::format("the model has {} outputs", values.size()))
      .hint("run({{name, array}, …}) gives all by name");
}

const Signature& Compiled::signature() const { return state_->signature ? *state_->signature : state_->plan().signature; }
const Program& Compiled::program() const { return state_->plan().program; }
std::string Compiled::ptir() const { return print(program(), {.origins = false}); }
std::shared_ptr<const ParameterSource> Compiled::parameters() const { return state_->plan().parameters; }
void Compiled::save(const std::string& path) const { write_text(path, print(with_source_lines(program()))); }
size_t Compiled::captures() const { return state_->captures; }

std::vector<std::string> Compiled::outputs() const {
  std::vector<std::string> names;
  for (const Output& output : program().outputs) names.push_back(output.name);
  return names;
}

namespace {

// One spec for each input of a program, of the given types.
Signature signature_of(const Program& p, const std::vector<Type>& types) {
  Signature signature;
  for (size_t i = 0; i < p.inputs.size(); ++i) {
    InputSpec input{p.inputs[i].name, types[i].dtype, {}};
    for (pycandle::Dim dim : types[i].shape) {
      if (dim.is_number()) {
        input.shape.emplace_back(dim.number());
        continue;
      }
      Symbol symbol{.name = dim.text()};
      for (const pycandle::Symbol& declared : p.symbols) {
        if (declared.name == symbol.name) symbol = {declared.name, declared.range.min, declared.range.max, declared.example};
      }
      input.shape.emplace_back(std::move(symbol));
    }
    signature.push_back(std::move(input));
  }
  return signature;
}

}  // namespace

Signature signature_of(const std::string& manifest) {
  const std::filesystem::path file = find_manifest(manifest);
  const Manifest read = read_manifest(read_text(file), "manifest " + file.filename().string());
  std::vector<Type> types;
  for (size_t i = 0; i < read.recording.program.inputs.size(); ++i) types.push_back(read.graph.inputs[i].type);
  return signature_of(read.recording.program, types);
}

Signature signature_of(const Program& p) {
  std::vector<Type> types;
  for (const Input& input : p.inputs) types.push_back(p.graph.type(input.value));
  return signature_of(p, types);
}

}  // namespace pycandle::front
