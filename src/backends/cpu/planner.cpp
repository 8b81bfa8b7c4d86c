#include "backends/cpu/planner.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "backends/cpu/chain.h"
#include "backends/cpu/copy.h"
#include "backends/cpu/evaluate.h"
#include "backends/cpu/lowerings.h"
#include "base/error.h"

namespace pycandle::cpu {

Array Context::array(const View& v) const {
  const Array& whole = arrays[static_cast<size_t>(v.buffer)];
  if (whole.data() && v.offset == 0 && whole.size() == v.count() && whole.dtype() == v.dtype) return whole.reshaped(v.sizes);
  // Valid as long as the step: evaluators keep nothing, and results that view an operand are copied.
  return Array(v.dtype, v.sizes, pointer<std::byte>(v), std::shared_ptr<const void>(std::shared_ptr<void>(), this));
}

Planner::Planner(const Shared& shared, Bindings bindings)
    : shared_(shared), plan_(std::make_unique<Plan>()), done_(shared.program.graph.nodes.size()) {
  plan_->bindings = std::move(bindings);
  plan_->views.resize(graph().values.size());
  chains_ = std::make_unique<Chains>(*this);
}
Planner::~Planner() = default;

Call Planner::call(size_t index) const {
  const Node& n = node(index);
  return Call(*n.op, graph(), n.operands, n.attributes, n.regions);
}

std::unique_ptr<Plan> Planner::plan() {
  const Program& p = shared_.program;
  const auto define_input = [&](ValueId v, Buffer::Kind kind, size_t index) {
    const View view = dense_view(static_cast<BufferId>(plan_->buffers.size()), dtype(v), sizes(v));
    plan_->buffers.push_back({kind, index, static_cast<size_t>(view.count()) * size_of(view.dtype), 0, kNoBuffer});
    define(v, view);
  };
  for (size_t i = 0; i < p.inputs.size(); ++i) define_input(p.inputs[i].value, Buffer::Kind::input, i);
  for (const Parameter& q : p.parameters) {
    if (q.value != kNoValue) define_input(q.value, Buffer::Kind::constant, plan_->constants.size());
    if (q.value != kNoValue) plan_->constants.push_back(shared_.parameters->get(q));
  }
  for (size_t i = 0; i < p.states.size(); ++i) define_input(p.states[i].value, Buffer::Kind::state, i);

  for (current = 0; current < graph().nodes.size(); ++current) {
    if (done_[current]) continue;
    const Node& n = node(current);
    try {
      const Lowering* lowering = find_lowering(n.op->name);
      if (!(lowering && lowering->is_view) && n.op->is_primitive && fold(current)) continue;
      if (lowering && lowering->lower(*this, current)) continue;
      if (chains_->join(current)) continue;
      if (!n.op->is_primitive) internal_error(fmt::format("{} was claimed and is not lowered", n.op->name));
      evaluate_by_reference(current);
    } catch (Error& error) {
      error.op(n.op->name).module_path(p.module_path(n.origin)).python(p.file_line(n.origin), p.source_line(n.origin));
      throw;
    }
  }
  current = graph().nodes.empty() ? 0 : graph().nodes.size() - 1;
  finish_outputs();
  place_buffers(*plan_);
  return std::move(plan_);
}

// An output whose memory is an arena buffer of its own leaves in that memory; any other view is copied at the end, or is
// the array that it shows the whole of.
void Planner::finish_outputs() {
  const auto finish = [&](ValueId v) {
    View view = this->view(v);
    Buffer& buffer = plan_->buffers[static_cast<size_t>(view.buffer)];
    const bool is_whole = view.is_dense() && view.offset == 0 &&
                          static_cast<size_t>(view.count()) * size_of(view.dtype) == buffer.bytes;
    if (is_whole && buffer.kind == Buffer::Kind::arena) {
      buffer.kind = Buffer::Kind::output;
    } else if (!is_whole) {
      const View own = dense_view(new_buffer(static_cast<size_t>(view.count()) * size_of(view.dtype)), view.dtype, view.sizes);
      copy(view, own);
      plan_->buffers[static_cast<size_t>(own.buffer)].kind = Buffer::Kind::output;
      view = own;
    }
    plan_->outputs.push_back(view);
  };
  for (const Output& o : shared_.program.outputs) finish(o.value);
  for (const State& s : shared_.program.states) {
    if (s.updated != kNoValue)
      finish(s.updated);
    else
      plan_->outputs.emplace_back();
  }
}

const View& Planner::view(ValueId v) {
  chains_->close(v);
  const View& found = plan_->views[static_cast<size_t>(v)];
  require(found.buffer != kNoBuffer, "a value is used that no step gives");
  return found;
}

bool Planner::is_known(ValueId v) const { return chains_->waits(v) || plan_->views[static_cast<size_t>(v)].buffer != kNoBuffer; }

int Planner::threads() const { return shared_.threads; }

bool Planner::is_constant(ValueId v) const {
  const View& view = plan_->views[static_cast<size_t>(v)];
  return view.buffer != kNoBuffer && plan_->buffers[static_cast<size_t>(view.buffer)].kind == Buffer::Kind::constant;
}

std::optional<Array> Planner::constant(ValueId v) {
  if (!is_constant(v)) return std::nullopt;
  const View& view = plan_->views[static_cast<size_t>(v)];
  const Array& whole = plan_->constants[plan_->buffers[static_cast<size_t>(view.buffer)].index];
  if (view.offset == 0 && view.is_dense() && view.count() == whole.size()) return whole.reshaped(view.sizes);
  Array out(view.dtype, view.sizes);
  const View to = dense_view(kNoBuffer, view.dtype, view.sizes);
  strided_copy(copy_shape(view, to), static_cast<const std::byte*>(whole.data()) + view.offset_bytes(),
               static_cast<std::byte*>(out.mutable_data()), 1);
  return out;
}

View Planner::dense(ValueId v) { return dense(View(view(v))); }

View Planner::dense(const View& v) {
  if (v.is_dense()) return v;
  const auto key = std::make_tuple(v.buffer, v.offset, v.sizes, v.strides);
  const auto found = copies_.find(key);
  if (found != copies_.end()) return found->second;
  const View own = dense_view(new_buffer(static_cast<size_t>(v.count()) * size_of(v.dtype)), v.dtype, v.sizes);
  copy(v, own);
  return copies_[key] = own;
}

BufferId Planner::new_buffer(size_t bytes) {
  plan_->buffers.push_back({Buffer::Kind::arena, 0, bytes, 0, kNoBuffer});
  return static_cast<BufferId>(plan_->buffers.size() - 1);
}

BufferId Planner::constant_buffer(Array array) {
  plan_->buffers.push_back({Buffer::Kind::constant, plan_->constants.size(), array.bytes(), 0, kNoBuffer});
  plan_->constants.push_back(std::move(array));
  return static_cast<BufferId>(plan_->buffers.size() - 1);
}

View Planner::result(ValueId v) {
  Sizes own = sizes(v);
  const size_t bytes = static_cast<size_t>(element_count(own)) * size_of(dtype(v));
  return dense_view(new_buffer(bytes), dtype(v), std::move(own));
}

void Planner::define(ValueId v, View view) {
  plan_->views[static_cast<size_t>(v)] = std::move(view);
  if (shared_.taps_of[static_cast<size_t>(v)].empty()) return;
  (plan_->steps.empty() ? plan_->defined_at_start : plan_->steps.back().defines).push_back(v);
}

void Planner::add(Step step) {
  step.node = current;
  if (step.kernel.empty()) step.kernel = node(current).op->name;
  for (std::vector<BufferId>* list : {&step.reads, &step.writes}) {
    std::sort(list->begin(), list->end());
    list->erase(std::unique(list->begin(), list->end()), list->end());
  }
  plan_->steps.push_back(std::move(step));
}

void Planner::copy(const View& from, const View& to) {
  if (from.count() == 0) return;
  Step step;
  step.kernel = "copy";
  step.reads = {from.buffer};
  step.writes = {to.buffer};
  step.run = [shape = copy_shape(from, to), from, to](Context& c) {
    strided_copy(shape, c.pointer<std::byte>(from), c.pointer<std::byte>(to), c.threads);
  };
  add(std::move(step));
}

// A node that needs nothing but parameters and constants is computed once, when it is planned.
bool Planner::fold(size_t index) {
  constexpr size_t kLarge = size_t{16} << 20;
  const Node& n = node(index);
  if (n.op->is_random || !n.regions.empty()) return false;
  size_t before = 0, after = 0;
  for (const ValueId v : n.operands) {
    if (v != kNoValue && !is_constant(v)) return false;
    if (v != kNoValue) before += static_cast<size_t>(view(v).count()) * size_of(dtype(v));
  }
  for (const ValueId v : n.results) after += static_cast<size_t>(element_count(sizes(v))) * size_of(dtype(v));
  if (after > std::max(kLarge, 2 * before)) return false;
  std::vector<Array> operands;
  for (const ValueId v : n.operands) operands.push_back(v == kNoValue ? Array() : *constant(v));
  Evaluator evaluator{bindings(), 0, nullptr};
  std::vector<Array> results = evaluator.run(graph(), n, operands);
  for (size_t r = 0; r < results.size(); ++r) {
    Sizes own = results[r].shape();
    define(n.results[r], dense_view(constant_buffer(std::move(results[r])), dtype(n.results[r]), std::move(own)));
  }
  return true;
}

void Planner::evaluate_by_reference(size_t index) {
  const Node& n = node(index);
  Step step;
  step.kernel = "evaluator";
  std::vector<View> operands, results;
  for (const ValueId v : n.operands) {
    operands.push_back(v == kNoValue ? View() : dense(v));
    if (v != kNoValue) step.reads.push_back(operands.back().buffer);
  }
  for (const ValueId v : n.results) {
    results.push_back(result(v));
    plan_->buffers[static_cast<size_t>(results.back().buffer)].kind = Buffer::Kind::held;
    step.writes.push_back(results.back().buffer);
  }
  step.run = [&g = graph(), &n, &bound = plan_->bindings, operands, results](Context& c) {
    std::vector<Array> arrays;
    for (const View& v : operands) arrays.push_back(v.buffer == kNoBuffer ? Array() : c.array(v));
    Evaluator evaluator{bound, c.request->seed, &c.random_ops};
    std::vector<Array> values = evaluator.run(g, n, arrays);
    for (size_t r = 0; r < results.size(); ++r) {
      const auto buffer = static_cast<size_t>(results[r].buffer);
      c.arrays[buffer] = own_memory(std::move(values[r]), arrays);
      c.at[buffer] = const_cast<std::byte*>(static_cast<const std::byte*>(c.arrays[buffer].data()));
    }
  };
  add(std::move(step));
  for (size_t r = 0; r < results.size(); ++r) define(n.results[r], results[r]);
}

}  // namespace pycandle::cpu
