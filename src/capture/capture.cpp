#include "capture/capture.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>

#include "base/dim_node.h"
#include "base/error.h"
#include "ops/core/catalogue.h"
#include "passes/decode_step.h"
#include "pycandle/module.h"
#include "runtime/eager.h"
#include "runtime/states.h"
#include "verify/judging/states.h"

namespace pycandle::front {
namespace {

thread_local Capture* current_capture = nullptr;
thread_local std::vector<OpenModule> open_modules_of_thread;

uint32_t next_capture_id() {
  static std::atomic<uint32_t> last{0};
  return ++last;
}

Type type_of_array(const Array& a) { return {a.dtype(), Shape(a.shape().begin(), a.shape().end())}; }

[[noreturn]] void absent_tensor() {
  throw Error(ErrorCode::bad_input, "a tensor that is absent is used").hint("Tensor() stands for Python's None");
}

// An op that is run at once: a program of its own, whose inputs are the operands.
std::vector<Tensor> run_alone(const std::vector<const Tensor*>& operands, const Build& build) {
  Capture alone;
  std::vector<Array> arrays;
  Values values;
  for (const Tensor* t : operands) {
    if (!t || !t->defined()) {
      values.push_back(kNoValue);
      continue;
    }
    arrays.push_back(t->array());
    values.push_back(alone.program.graph.add_input(type_of_array(arrays.back())));
    alone.program.inputs.push_back({fmt::format("x{}", arrays.size() - 1), values.back(), {}, true});
  }
  const Values results = build(alone.builder, values);
  for (size_t i = 0; i < results.size(); ++i) alone.program.outputs.push_back({fmt::format("output.{}", i), results[i]});
  alone.program.bind_outputs();
  std::vector<Type> types;
  for (ValueId v : results) types.push_back(alone.program.graph.type(v));
  const std::vector<Array> out = run_at_once(std::move(alone.program), arrays);
  std::vector<Tensor> tensors;
  for (size_t i = 0; i < out.size(); ++i) {
    for (size_t axis = 0; axis < types[i].shape.size(); ++axis) {
      const pycandle::Dim size = types[i].shape[axis];  // a symbol here is a size that the data decided
      if (!size.is_number()) eager_sizes()[size.text()] = out[i].shape()[axis];
    }
    tensors.emplace_back(out[i]);
  }
  return tensors;
}

}  // namespace

Array Leaf::load() const {
  if (!store) return value;
  if (!cell) return store->load(name);
  if (const EagerRun* run = eager_run(); run && run->session) {
    const std::lock_guard lock(run->session->mutex);
    const auto changed = run->session->values.find(name);
    return changed != run->session->values.end() ? changed->second : store->load(name);
  }
  const std::lock_guard lock(cell->mutex);
  return cell->value ? *cell->value : store->load(name);
}

void Leaf::assign(Array next) const {
  if (const EagerRun* run = eager_run(); run && run->session) {
    const std::lock_guard lock(run->session->mutex);
    run->session->values.insert_or_assign(name, std::move(next));
    return;
  }
  const std::lock_guard lock(cell->mutex);
  cell->value = std::move(next);
}

pycandle::Dim DimAccess::base(Dim d) { return detail::DimNode::wrap(d.node_); }
Dim DimAccess::front(pycandle::Dim d) { return Dim(&detail::DimNode::of(d)); }
pycandle::DimReal DimAccess::base(const DimReal& r) { return detail::RealNode::wrap(r.node_); }
DimReal DimAccess::front(const pycandle::DimReal& r) { return DimReal(detail::RealNode::pointer(r)); }

Shape base_shape(const Dims& dims) {
  Shape shape;
  shape.reserve(dims.size());
  for (Dim d : dims) shape.push_back(DimAccess::base(d));
  return shape;
}

Dims front_dims(const Shape& shape) {
  Dims dims;
  dims.reserve(shape.size());
  for (pycandle::Dim d : shape) dims.push_back(DimAccess::front(d));
  return dims;
}

Capture::Capture() : builder(program.graph, catalogue(), &program.checks, &ranges), id_(next_capture_id()) {}

Capture* Capture::current() { return current_capture; }

// Calls inside the library say where the library stands: in src/capture, or in a public header of its own.
static bool is_own_file(std::string_view file) {
  static const std::string_view here = __FILE__;
  static const std::string_view folder = here.substr(0, here.rfind('/') + 1);
  return file.starts_with(folder) || file.ends_with("/pycandle/nn.h") || file.ends_with("/pycandle/tensor.h") ||
         file.ends_with("/pycandle/module.h") || file.ends_with("/pycandle/model.h");
}

const size_t*& line_of_text() {
  thread_local const size_t* line = nullptr;
  return line;
}

void Capture::stand_at(Here here) {
  if (is_own_file(here.file_name())) return;
  const size_t* line = line_of_text();
  const std::string path = line ? "the code" : here.file_name();
  std::vector<SourceFile>& files = program.files;
  const auto found = std::find_if(files.begin(), files.end(), [&](const SourceFile& f) { return f.path == path; });
  builder.origin.file = static_cast<int32_t>(found - files.begin());
  if (found == files.end()) files.push_back({path, {}});
  builder.origin.line = static_cast<int32_t>(line ? *line : here.line());
}

// The symbol of a size that the data decides, once the op says that it is at least so many.
static void note_least_count(Capture& capture, const Node& made) {
  if (!made.op->least_count) return;
  const Call call(*made.op, capture.program.graph, made.operands, made.attributes, made.regions);
  const int64_t least = made.op->least_count(call);
  for (pycandle::Symbol& symbol : capture.program.symbols) {
    if (call.dim("count") != pycandle::Dim::symbol(symbol.name)) continue;
    symbol.range.min = std::max(symbol.range.min, least);
    capture.ranges[symbol.name] = symbol.range;
  }
}

std::vector<Tensor> Capture::apply(const char* op, const std::vector<const Tensor*>& operands, Here here, const Build& build) {
  try {
    Capture* capture = current();
    if (!capture) return run_alone(operands, build);
    Values values;
    values.reserve(operands.size());
    for (const Tensor* t : operands) values.push_back(t && t->defined() ? capture->value_of(*t) : kNoValue);
    const Origin before = capture->builder.origin;
    capture->stand_at(here);
    std::vector<Tensor> tensors;
    const size_t nodes = capture->program.graph.nodes.size();
    for (ValueId v : build(capture->builder, values)) tensors.push_back(capture->tensor(v));
    for (size_t n = nodes; n < capture->program.graph.nodes.size(); ++n)
      note_least_count(*capture, capture->program.graph.nodes[n]);
    capture->builder.origin = before;
    return tensors;
  } catch (Error& error) {
    error.op(op).module_path(current_module());
    throw;
  }
}

Tensor Capture::apply_one(const char* op, const std::vector<const Tensor*>& operands, Here here, const Build& build) {
  std::vector<Tensor> results = apply(op, operands, here, build);
  require(results.size() == 1, "an op has several results where one is wanted");
  return std::move(results[0]);
}

pycandle::State& Capture::state_of(const std::shared_ptr<const Leaf>& leaf) {
  for (size_t i = 0; i < states.size(); ++i) {
    if (program.states[i].name != leaf->name) continue;
    if (states[i]->cell != leaf->cell)
      throw Error(ErrorCode::bad_input, fmt::format("there are two states {}", leaf->name))
          .hint("open the weights of a model once");
    return program.states[i];
  }
  pycandle::State state;
  state.name = leaf->name;
  state.value = program.graph.add_input(leaf->type);
  program.states.push_back(std::move(state));
  states.push_back(leaf);
  return program.states.back();
}

pycandle::State& Capture::cache_state(const std::string& name, const Type& type) {
  declare_capacity();
  const auto found = std::find_if(program.states.begin(), program.states.end(),
                                  [&](const pycandle::State& state) { return state.name == name; });
  if (found != program.states.end()) {
    if (program.graph.type(found->value).text() != type.text())
      throw Error(ErrorCode::bad_input, fmt::format("the rows of cache {} change their type", name))
          .expected(program.graph.type(found->value).text())
          .found(type.text());
    return *found;
  }
  pycandle::State state;
  state.name = name;
  state.value = program.graph.add_input(type);
  program.states.push_back(std::move(state));
  return program.states.back();
}

void Capture::declare_capacity() {
  if (!ranges.emplace(kCapacity, SymbolRange{1, std::nullopt}).second) return;
  program.symbols.push_back({kCapacity, {1, std::nullopt}, 64, {}, -1});
}

void Capture::update(const Tensor& state, const Tensor& next) { state_of(state.leaf_).updated = value_of(next); }

void Capture::finish() {
  program.bind_outputs();
  order_inputs(program);
}

ValueId Capture::value_of(const Tensor& t) {
  if (!t.leaf_) {
    if (t.value_ < 0) absent_tensor();
    if (t.capture_ == id_) return t.value_;
    throw Error(ErrorCode::bad_input, "a tensor of another capture is used")
        .hint("keep parameters and arrays in a module, not what forward() computed");
  }
  const Leaf& leaf = *t.leaf_;
  if (leaf.cell) {
    const pycandle::State& state = state_of(t.leaf_);
    return state.updated != kNoValue ? state.updated : state.value;
  }
  if (const auto known = value_of_leaf_.find(&leaf); known != value_of_leaf_.end()) return known->second;
  const bool is_constant = leaf.name.empty();
  const std::string name = is_constant ? fmt::format("constant.{}", program.parameters.size()) : leaf.name;
  if (const auto same = value_of_name_.find(name); same != value_of_name_.end()) {
    for (size_t i = 0; i < leaves.size(); ++i) {
      if (program.parameters[i].name == name && leaves[i]->store != leaf.store)
        throw Error(ErrorCode::bad_input, fmt::format("there are two parameters {}", name))
            .expected(leaves[i]->store->where())
            .found(leaf.store->where());
    }
    value_of_leaf_.emplace(&leaf, same->second);
    return same->second;
  }
  Parameter parameter;
  parameter.name = name;
  parameter.kind = is_constant ? Parameter::Kind::constant : Parameter::Kind::parameter;
  parameter.type = leaf.type;
  parameter.value = program.graph.add_input(leaf.type);
  value_of_leaf_.emplace(&leaf, parameter.value);
  value_of_name_.emplace(name, parameter.value);
  leaves.push_back(t.leaf_);
  program.parameters.push_back(std::move(parameter));
  return program.parameters.back().value;
}

Tensor Capture::tensor(ValueId v) const {
  Tensor t;
  t.value_ = v;
  t.capture_ = id_;
  return t;
}

const Type& Capture::type_of(const Tensor& t) const {
  if (t.leaf_) return t.leaf_->type;
  if (t.value_ < 0) absent_tensor();
  if (t.capture_ != id_) throw Error(ErrorCode::bad_input, "a tensor of another capture is used");
  return program.graph.type(t.value_);
}

Tensor Capture::of_leaf(std::shared_ptr<const Leaf> leaf) {
  Tensor t;
  t.leaf_ = std::move(leaf);
  return t;
}

pycandle::Operand Capture::operand(const Operand& o, ValueId value) {
  switch (o.kind_) {
    case Operand::Kind::tensor: return value;
    case Operand::Kind::number: return o.number_;
    default: return DimAccess::base(o.dim_);
  }
}

CaptureScope::CaptureScope(Capture* capture) : before_(current_capture), modules_before_(std::move(open_modules_of_thread)) {
  current_capture = capture;
  open_modules_of_thread.clear();
}

CaptureScope::~CaptureScope() {
  current_capture = before_;
  open_modules_of_thread = std::move(modules_before_);
}

std::string current_module() { return open_modules_of_thread.empty() ? "" : open_modules_of_thread.back().path; }

EagerRun*& eager_run() {
  thread_local EagerRun* run = nullptr;
  return run;
}

Bindings& eager_sizes() {
  thread_local Bindings sizes;
  return sizes;
}

bool is_eager() { return is_eager_wanted(); }

// ---- module calls

ModuleScope::ModuleScope(const std::string& path, const Checker& checker, Here here) {
  std::vector<OpenModule>& open = open_modules_of_thread;
  Capture* capture = current_capture;
  const OpenModule* parent = open.empty() ? nullptr : &open.back();
  OpenModule module;
  module.checker = checker ? checker : parent ? parent->checker : Checker();
  module.path = CheckerAccess::recorded_path(module.checker, path, parent ? parent->path : "");
  is_checked_ = static_cast<bool>(module.checker);
  if (capture) {
    module.number = capture->calls_of_path[module.path]++;
    ModuleCall call;
    call.path = module.path;
    call.call = module.number;
    call.parent = parent ? parent->call : -1;
    module.call = static_cast<int32_t>(capture->program.calls.size());
    capture->program.calls.push_back(std::move(call));
    file_before_ = capture->builder.origin.file;
    line_before_ = capture->builder.origin.line;
    capture->builder.origin.call = module.call;
    capture->stand_at(here);
  } else if (is_checked_) {
    thread_local std::map<std::string, int32_t> calls;  // of the run that is going on
    if (open.empty()) calls.clear();
    module.number = calls[module.path]++;
  }
  open.push_back(std::move(module));
}

ModuleScope::~ModuleScope() {
  std::vector<OpenModule>& open = open_modules_of_thread;
  open.pop_back();
  if (!current_capture) return;
  Origin& origin = current_capture->builder.origin;
  origin.call = open.empty() ? -1 : open.back().call;
  origin.file = file_before_;
  origin.line = line_before_;
}

void ModuleScope::see(const std::string& output, const Tensor& t) const {
  const OpenModule& module = open_modules_of_thread.back();
  std::string layer = fmt::format("{}@{}/{}", module.path, module.number, output);
  // Python gave one tensor in a tuple: attention without its weights.
  const bool is_in_tuple = !module.checker.has(layer) && module.checker.has(layer + ".0") && !module.checker.has(layer + ".1");
  if (is_in_tuple) layer += ".0";
  if (module.checker.has(layer)) check(module.checker, layer, t);
}

// There is nothing to check yet; `pycandle verify --program` begins with the value that PyTorch had there.
void ModuleScope::see_input(const Tensor& t) const {
  Capture* capture = current_capture;
  if (!capture || !t.defined() || Capture::leaf_of(t)) return;
  const OpenModule& module = open_modules_of_thread.back();
  const TapId id(TapId::Kind::module_input, module.path, module.number);
  capture->program.taps.push_back({id, capture->value_of(t), id.text(), false});
}

}  // namespace pycandle::front
