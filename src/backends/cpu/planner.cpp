#include "backends/cpu/planner.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <utility>

#include "backends/cpu/blocks.h"
#include "backends/cpu/chain.h"
#include "backends/cpu/copy.h"
#include "backends/cpu/lowerings.h"
#include "backends/evaluator.h"
#include "backends/step_log.h"
#include "base/error.h"
#include "params/derived.h"

namespace pycandle::cpu {

Array Context::array(const View& v) const {
  const Array& whole = arrays[v.buffer];
  if (whole.data() && v.offset == 0 && whole.size() == v.count() && whole.dtype() == v.dtype) return whole.reshaped(v.sizes);
  // Valid as long as the step: evaluators keep nothing, and results that view an operand are copied.
  return Array(v.dtype, v.sizes, pointer<std::byte>(v), std::shared_ptr<const void>(std::shared_ptr<void>(), this));
}

Planner::Planner(const Shared& shared, Bindings bindings, Unpacked unpacked)
    : shared_(shared), unpacked_(unpacked), plan_(std::make_unique<Plan>()), done_(shared.program.graph.nodes.size()) {
  plan_->bindings = std::move(bindings);
  plan_->views.resize(graph().values.size());
  plan_->blocked.resize(graph().values.size());
  blocked_.resize(graph().values.size());
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
    plan_->buffers.push_back({kind, index, static_cast<size_t>(view.count()) * size_of(view.dtype), 0, kNoBuffer, false});
    define(v, view);
  };
  for (size_t i = 0; i < p.inputs.size(); ++i) define_input(p.inputs[i].value, Buffer::Kind::input, i);
  for (const Parameter& q : p.parameters) {
    if (q.value == kNoValue) continue;
    const BufferId buffer = add_constant({}, {shared_.parameters->fingerprint(q), false, SIZE_MAX, &q});
    define(q.value, dense_view(buffer, dtype(q.value), sizes(q.value)));
    plan_->buffers[buffer].bytes = static_cast<size_t>(view(q.value).count()) * size_of(dtype(q.value));
  }
  for (size_t i = 0; i < p.states.size(); ++i) define_input(p.states[i].value, Buffer::Kind::state, i);

  wanted_in_blocks_ = wanted_in_blocks(*this);
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
      place(error, n);
      throw;
    }
  }
  current = graph().nodes.empty() ? 0 : graph().nodes.size() - 1;
  finish_outputs();
  make_what_is_read();
  place_buffers(*plan_);
  return std::move(plan_);
}

// An output whose memory is an arena buffer of its own leaves in that memory; any other view is copied at the end, or is
// the array that it shows the whole of.
void Planner::finish_outputs() {
  const auto finish = [&](ValueId v) {
    View view = this->view(v);
    Buffer& buffer = plan_->buffers[view.buffer];
    const bool is_whole = view.is_dense() && view.offset == 0 &&
                          static_cast<size_t>(view.count()) * size_of(view.dtype) == buffer.bytes;
    if (is_whole && buffer.kind == Buffer::Kind::arena) {
      buffer.kind = Buffer::Kind::output;
    } else if (!is_whole) {
      const View own = dense_view(new_buffer(static_cast<size_t>(view.count()) * size_of(view.dtype)), view.dtype, view.sizes);
      copy(view, own);
      plan_->buffers[own.buffer].kind = Buffer::Kind::output;
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
  View& found = plan_->views[v];
  if (found.buffer == kNoBuffer && blocked_[v].buffer != kNoBuffer) found = image_of_blocks(v);
  require(found.buffer != kNoBuffer, "a value is used that no step gives");
  return found;
}

bool Planner::is_state(const View& view) const {
  const Buffer& buffer = plan_->buffers[view.buffer];
  return buffer.kind == Buffer::Kind::state && view.is_dense() && view.offset == 0 &&
         static_cast<size_t>(view.count()) * size_of(view.dtype) == buffer.bytes;
}

bool Planner::is_known(ValueId v) const {
  return chains_->waits(v) || plan_->views[v].buffer != kNoBuffer || blocked_[v].buffer != kNoBuffer;
}

int Planner::threads() const { return shared_.threads; }

bool Planner::is_constant(ValueId v) const {
  const View& view = plan_->views[v];
  return view.buffer != kNoBuffer && plan_->buffers[view.buffer].kind == Buffer::Kind::constant;
}

size_t Planner::constant_of(ValueId v) const {
  require(is_constant(v), "a value is taken for a constant that is none");
  return plan_->buffers[plan_->views[v].buffer].index;
}

std::optional<Array> Planner::constant(ValueId v) {
  if (!is_constant(v)) return std::nullopt;
  const View& view = plan_->views[v];
  make_folded(constant_of(v));
  const Array& whole = plan_->constants[constant_of(v)];
  if (view.offset == 0 && view.is_dense() && view.count() == whole.size()) return whole.reshaped(view.sizes);
  Array out(view.dtype, view.sizes);
  const View to = dense_view(kNoBuffer, view.dtype, view.sizes);
  run_copy(strided_copy(view, to), static_cast<const std::byte*>(whole.data()) + view.offset_bytes(),
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

// ---- blocks of channels

bool Planner::is_blocked(ValueId v) const { return blocked_[v].buffer != kNoBuffer || chains_->waits_in_blocks(v); }

View Planner::blocked_result(ValueId v) {
  const Sizes own = blocked_sizes(sizes(v));
  return dense_view(new_buffer(static_cast<size_t>(element_count(own)) * size_of(dtype(v))), dtype(v), own);
}

void Planner::define_blocked(ValueId v, View view) {
  plan_->blocked[v] = blocked_[v] = std::move(view);
  tap(v);
}

View Planner::blocked(ValueId v) {
  chains_->close(v);
  View& found = blocked_[v];
  if (found.buffer == kNoBuffer) {
    const View from = view(v);
    found = blocked_result(v);
    for (const auto& [image, blocks] : blocked_pieces(from, found)) copy(image, blocks);
  }
  return found;
}

View Planner::image_of_blocks(ValueId v) {
  View blocks = blocked_[v];
  const Sizes own = sizes(v);
  if (own[2] * own[3] == 1) {  // a block after the other is the image
    blocks.sizes = own;
    blocks.strides = {blocks.strides[0], 1, 1, 1};
    return blocks;
  }
  const View to = result(v);
  for (const auto& [image, from] : blocked_pieces(to, blocks)) copy(from, image);
  return to;
}

bool Planner::is_one_a_channel(ValueId v) const {
  const View& view = plan_->views[v];
  return view.buffer != kNoBuffer && view.rank() == 4 && view.strides[2] == 0 && view.strides[3] == 0;
}

View Planner::blocked_operand(ValueId v) {
  if (is_blocked(v) || !is_one_a_channel(v)) return blocked(v);
  View one = view(v);
  const Sizes own = blocked_sizes(one.sizes);
  const int64_t lanes = own.back();
  if (one.strides[1] == 0) {
    one.strides = {one.strides[0], 0, 0, 0, 0};
  } else if (one.sizes[1] % lanes == 0 && one.strides[1] == 1) {
    one.strides = {one.strides[0], lanes, 0, 0, 1};
  } else {  // side by side, and the last block filled up
    View image = one;
    image.sizes[2] = image.sizes[3] = 1;
    View filled = dense_view(new_buffer(static_cast<size_t>(own[0] * own[1] * lanes) * 4), DType::f32,
                             {own[0], own[1], 1, 1, lanes});
    for (const auto& [from, to] : blocked_pieces(image, filled)) copy(from, to);
    one = std::move(filled);
    one.strides = {own[1] * lanes, lanes, 0, 0, 1};
  }
  one.sizes = own;
  return one;
}

BufferId Planner::new_buffer(size_t bytes) {
  plan_->buffers.push_back({Buffer::Kind::arena, 0, bytes, 0, kNoBuffer, false});
  return static_cast<BufferId>(plan_->buffers.size() - 1);
}

// Without an identity of its own: what is derived from it belongs to this executable alone.
BufferId Planner::constant_buffer(Array array) {
  static std::atomic<uint64_t> next{0};
  return add_constant(std::move(array), {hash128(fmt::format("constant {}", next++))});
}

BufferId Planner::add_constant(Array array, Source source) {
  plan_->buffers.push_back({Buffer::Kind::constant, plan_->constants.size(), array.bytes(), 0, kNoBuffer, false});
  plan_->constants.push_back(std::move(array));
  sources_.push_back(source);
  return static_cast<BufferId>(plan_->buffers.size() - 1);
}

Hash128 Planner::identity(ValueId v) const {
  const View& view = plan_->views[v];
  return hash128(fmt::format("{} {} {} {} {}", sources_[constant_of(v)].identity.text(), name_of(view.dtype), view.offset,
                             to_string(view.sizes), to_string(view.strides)));
}

Array Planner::derived(ValueId v, const std::string& format, const std::function<Array(const Array&)>& make) {
  return derived_parameter({identity(v), format}, [&] {
    Array made = make(*constant(v));
    forget(v);
    return made;
  });
}

bool Planner::wants(ValueId v, const std::string& format) {
  if (unpacked_ == Unpacked::pack || is_derived({identity(v), format})) return true;
  plan_->reads_unpacked = true;
  return false;
}

std::optional<size_t> Planner::waiting_node(ValueId v) const {
  const Source& source = sources_[constant_of(v)];
  const bool waits = !source.parameter && !source.is_made;
  if (!waits || node(source.node).results != Values{v}) return std::nullopt;  // a view of a result is not it
  return source.node;
}

View Planner::result(ValueId v) {
  Sizes own = sizes(v);
  const size_t bytes = static_cast<size_t>(element_count(own)) * size_of(dtype(v));
  return dense_view(new_buffer(bytes), dtype(v), std::move(own));
}

void Planner::define(ValueId v, View view) {
  plan_->views[v] = std::move(view);
  tap(v);
}

void Planner::tap(ValueId v) {
  if (shared_.taps_of[v].empty()) return;
  (plan_->steps.empty() ? plan_->defined_at_start : plan_->steps.back().defines).push_back(v);
}

void Planner::add(Step step) {
  step.node = current;
  if (step.kernel.empty()) step.kernel = node(current).op->name;
  for (std::vector<BufferId>* list : {&step.reads, &step.writes}) {
    std::sort(list->begin(), list->end());
    list->erase(std::unique(list->begin(), list->end()), list->end());
  }
  if (step.bytes == 0) {
    for (const std::vector<BufferId>* list : {&step.reads, &step.writes}) {
      for (const BufferId b : *list) step.bytes += static_cast<double>(plan_->buffers[b].bytes);
    }
  }
  for (const BufferId b : step.writes) {
    if (plan_->buffers[b].kind == Buffer::Kind::state) plan_->buffers[b].is_written = true;
  }
  plan_->steps.push_back(std::move(step));
}

void Planner::copy(const View& from, const View& to) {
  if (from.count() == 0) return;
  Step step;
  step.kernel = "copy";
  step.reads = {from.buffer};
  step.writes = {to.buffer};
  step.work = static_cast<double>(from.count());
  step.run = [copy = strided_copy(from, to), from, to](Context& c) {
    run_copy(copy, c.pointer<std::byte>(from), c.pointer<std::byte>(to), c.threads);
  };
  add(std::move(step));
}

namespace {

// What an op does, apart from its operands: dims as they are in this plan.
std::string what_it_does(const Node& n, const Graph& g, const Bindings& bindings) {
  std::string text = n.op->name;
  for (const auto& [name, value] : n.attributes) {
    text += " " + name + "=";
    if (const auto* dim = std::get_if<Dim>(&value)) {
      text += std::to_string(dim->evaluate(bindings));
    } else if (const auto* dims = std::get_if<Dims>(&value)) {
      text += to_string(evaluate(*dims, bindings));
    } else {
      text += to_string(value);
    }
  }
  for (const ValueId v : n.results)
    text += fmt::format(" -> {}{}", name_of(g.type(v).dtype), to_string(evaluate(g.type(v).shape, bindings)));
  return text;
}

}  // namespace

// A node that needs nothing but parameters and constants is computed once, if at all.
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
  // A weight in a wider dtype is a copy, so each run makes it anew. Joined weights are read part by part, and never made.
  constexpr size_t kSmall = size_t{1} << 20;
  if (shared_.parameters->is_streamed() && n.op->name == "cast" && after > kSmall) return false;
  std::string text = what_it_does(n, graph(), bindings());
  for (const ValueId v : n.operands) text += " " + (v == kNoValue ? "none" : identity(v).text());
  for (size_t r = 0; r < n.results.size(); ++r) {
    const ValueId v = n.results[r];
    const View own = dense_view(add_constant({}, {hash128(fmt::format("{} {}", r, text)), false, index}), dtype(v), sizes(v));
    plan_->buffers.back().bytes = static_cast<size_t>(own.count()) * size_of(own.dtype);
    define(v, own);
  }
  return true;
}

void Planner::place(Error& error, const Node& n) const {
  const Program& p = shared_.program;
  error.op(n.op->name).module_path(p.module_path(n.origin)).python(p.file_line(n.origin), p.source_line(n.origin));
}

void Planner::make_folded(size_t constant) {
  Source& source = sources_[constant];
  if (source.is_made) return;
  if (source.parameter) {
    plan_->constants[constant] = shared_.parameters->get(*source.parameter);
    source.is_made = true;
    return;
  }
  const Node& n = node(source.node);
  std::vector<Array> operands, results;
  for (const ValueId v : n.operands) operands.push_back(v == kNoValue ? Array() : this->constant(v).value());
  try {
    results = Evaluator{bindings(), 0, nullptr}.run(graph(), n, operands);
  } catch (Error& error) {
    place(error, n);
    throw;
  }
  for (size_t r = 0; r < results.size(); ++r) {
    const size_t made = constant_of(n.results[r]);
    plan_->constants[made] = std::move(results[r]);
    sources_[made].is_made = true;
  }
  for (const ValueId v : n.operands) {
    if (v != kNoValue) forget(v);
  }
}

// Its only user has seen it. It is made or mapped again should anyone ask.
void Planner::forget(ValueId v) {
  Source& source = sources_[constant_of(v)];
  if (source.parameter && source.is_made) shared_.parameters->release(plan_->constants[constant_of(v)]);
  const bool can_be_made = source.parameter || source.node != SIZE_MAX;
  if (!can_be_made || source.is_kept || uses(v) > 1) return;
  plan_->constants[constant_of(v)] = Array();
  source.is_made = false;
}

// Steps, outputs and taps read constants; of the others nothing is kept.
void Planner::make_what_is_read() {
  const auto read = [&](BufferId b) {
    if (b == kNoBuffer) return;
    const Buffer& buffer = plan_->buffers[b];
    if (buffer.kind == Buffer::Kind::constant) sources_[buffer.index].is_kept = true;
  };
  for (const Step& step : plan_->steps) {
    for (const BufferId b : step.reads) read(b);
  }
  for (const View& v : plan_->outputs) read(v.buffer);
  for (size_t v = 0; v < plan_->views.size(); ++v) {
    if (!shared_.taps_of[v].empty()) read(plan_->views[v].buffer);
  }
  for (size_t c = 0; c < sources_.size(); ++c) {
    if (sources_[c].is_kept) make_folded(c);
  }
  for (size_t c = 0; c < sources_.size(); ++c) {
    if (!sources_[c].is_kept) plan_->constants[c] = Array();
  }
}

void Planner::evaluate_by_reference(size_t index) {
  const Node& n = node(index);
  Step step;
  step.kernel = kEvaluator;
  std::vector<View> operands, results;
  for (const ValueId v : n.operands) {
    operands.push_back(v == kNoValue ? View() : dense(v));
    if (v != kNoValue) step.reads.push_back(operands.back().buffer);
  }
  for (const ValueId v : n.results) {
    results.push_back(result(v));
    plan_->buffers[results.back().buffer].kind = Buffer::Kind::held;
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
