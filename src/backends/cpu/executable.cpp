#include "backends/cpu/executable.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <utility>

#include "backends/cpu/blocks.h"
#include "backends/cpu/copy.h"
#include "backends/cpu/memory.h"
#include "backends/step_log.h"
#include "base/error.h"

namespace pycandle::cpu {
namespace {

constexpr size_t kMostPlans = 16, kMostRemembered = 1000;

void add_to_key(std::vector<int64_t>& key, const Array& a) {
  key.push_back(static_cast<int64_t>(a.dtype()));
  key.push_back(a.rank());
  key.insert(key.end(), a.shape().begin(), a.shape().end());
}

Array copied(const Array& from) {
  Array to(from.dtype(), from.shape());
  if (from.bytes() != 0) std::memcpy(to.mutable_data(), from.data(), from.bytes());
  return to;
}

std::byte* bytes_of(const Array& a) { return const_cast<std::byte*>(static_cast<const std::byte*>(a.data())); }

}  // namespace

CpuExecutable::CpuExecutable(Shared shared) : shared_(std::move(shared)) {}

std::shared_ptr<CpuExecutable::Entry> CpuExecutable::entry_for(const RunRequest& request) const {
  std::vector<int64_t> key;
  for (const Array& a : request.inputs) add_to_key(key, a);
  const std::lock_guard lock(mutex_);
  bool is_known = false;
  for (auto it = entries_.begin(); it != entries_.end(); ++it) {
    if ((*it)->key != key || (*it)->symbols != request.symbols) continue;
    entries_.splice(entries_.begin(), entries_, it);
    if (!is_for_one_call(*entries_.front()->plan)) return entries_.front();
    is_known = true;
    break;
  }
  Bindings bindings = bind_inputs(shared_.program, request.inputs, request.symbols);
  std::string why = is_known ? "its weights are packed from the second call on" : why_no_plan_fits(request, key);
  const bool reads = !shared_.packs || (planned_.empty() && !request.prepare_fully);
  const Clock::time_point begin = Clock::now();
  auto entry = std::make_shared<Entry>();
  entry->key = std::move(key);
  entry->symbols = request.symbols;
  entry->plan = Planner(shared_, std::move(bindings), reads ? Unpacked::read : Unpacked::pack).plan();
  if (is_known) entries_.pop_front();
  entries_.push_front(entry);
  if (entries_.size() > kMostPlans) {
    if (dropped_.size() < kMostRemembered) dropped_.insert(entries_.back()->key);
    entries_.pop_back();
  }
  if (planned_.size() < kMostRemembered)
    planned_.push_back({std::move(why), std::chrono::duration<double>(Clock::now() - begin).count()});
  return entry;
}

std::string CpuExecutable::why_no_plan_fits(const RunRequest& request, const std::vector<int64_t>& key) const {
  if (entries_.empty()) return "the first call";
  if (dropped_.count(key) != 0) return fmt::format("its plan made room: more than {} sizes are in use", kMostPlans);
  // Beside the call before: the first input that differs.
  const std::vector<int64_t>& last = entries_.front()->key;
  size_t at = 0;
  for (size_t i = 0; i < request.inputs.size(); ++i) {
    const Array& a = request.inputs[i];
    const size_t length = 2 + a.shape().size();
    if (at + length > last.size() ||
        !std::equal(key.begin() + static_cast<std::ptrdiff_t>(at), key.begin() + static_cast<std::ptrdiff_t>(at + length),
                    last.begin() + static_cast<std::ptrdiff_t>(at)))
      return fmt::format("input {} is {}{} for the first time", shared_.program.inputs[i].name, name_of(a.dtype()),
                         to_string(a.shape()));
    at += length;
  }
  return "sizes that no input shows are others";
}

ExecutableUse CpuExecutable::use() const {
  const std::lock_guard lock(mutex_);
  ExecutableUse use;
  use.planned = planned_;
  std::set<const void*> seen;
  for (const auto& entry : entries_) {
    use.arena_bytes = std::max(use.arena_bytes, entry->plan->arena_bytes);
    for (const Array& a : entry->plan->constants) {
      if (a.data() && seen.insert(a.data()).second) use.weight_bytes += a.bytes();
    }
  }
  return use;
}

std::vector<PlacedBuffer> CpuExecutable::places() const {
  const std::lock_guard lock(mutex_);
  return entries_.empty() ? std::vector<PlacedBuffer>() : placed_buffers(*entries_.front()->plan);
}

std::unique_ptr<Context> CpuExecutable::new_context(const Plan& plan) const {
  auto context = std::make_unique<Context>();
  context->at.resize(plan.buffers.size());
  context->arrays.resize(plan.buffers.size());
  context->outputs.resize(plan.buffers.size());
  context->threads = shared_.threads;
  context->arena = memory_for_runs(plan.arena_bytes);
  for (size_t b = 0; b < plan.buffers.size(); ++b) {
    const Buffer& buffer = plan.buffers[b];
    if (buffer.kind == Buffer::Kind::constant) {
      context->arrays[b] = plan.constants[buffer.index];
      context->at[b] = bytes_of(context->arrays[b]);
    } else if (buffer.kind == Buffer::Kind::arena && buffer.same_as == kNoBuffer) {
      context->at[b] = context->arena.get() + buffer.offset;
    }
  }
  return context;
}

void CpuExecutable::bind(const Plan& plan, const RunRequest& request, States states, Context& context) const {
  context.request = &request;
  context.random_ops = 0;
  for (size_t b = 0; b < plan.buffers.size(); ++b) {
    const Buffer& buffer = plan.buffers[b];
    if (buffer.kind == Buffer::Kind::input) {
      context.arrays[b] = request.inputs[buffer.index];
      context.at[b] = bytes_of(context.arrays[b]);
    } else if (buffer.kind == Buffer::Kind::state) {
      const State& s = shared_.program.states[buffer.index];
      context.arrays[b] = request.states ? request.states->at(buffer.index)
                                         : shared_.parameters->get_state(s, shared_.program.graph.type(s.value));
      const bool is_ours = request.states && states == States::written;
      if (buffer.is_written && !is_ours) context.arrays[b] = copied(context.arrays[b]);
      context.at[b] = bytes_of(context.arrays[b]);
    } else if (buffer.kind == Buffer::Kind::output) {
      // Memory that the caller of an earlier run let go of is used again: fresh pages cost as much as a kernel.
      std::shared_ptr<std::byte>& memory = context.outputs[b];
      if (!memory || memory.use_count() > 1) memory = memory_for_runs(buffer.bytes);
      std::shared_ptr<std::byte>(memory).reset();  // what its last reader did comes before what we write: both count the same way
      context.at[b] = memory.get();
    }
  }
  for (size_t b = 0; b < plan.buffers.size(); ++b) {
    if (plan.buffers[b].same_as != kNoBuffer) {
      size_t root = b;
      while (plan.buffers[root].same_as != kNoBuffer) root = static_cast<size_t>(plan.buffers[root].same_as);
      context.at[b] = context.at[root];
    }
  }
}

void CpuExecutable::use_weights(const Plan& plan, const Step& step, const Context& context) const {
  for (const BufferId b : step.reads) {
    if (b != kNoBuffer && plan.buffers[b].kind == Buffer::Kind::constant) shared_.parameters->use(context.arrays[b]);
  }
}

std::unique_ptr<const FetchAhead> CpuExecutable::fetch_ahead(const Plan& plan, const Context& context) const {
  const bool has_idle_core = std::thread::hardware_concurrency() > static_cast<unsigned>(context.threads);
  if (!is_for_one_call(plan) || shared_.parameters->is_streamed() || !has_idle_core) return nullptr;
  constexpr size_t kWorthwhile = size_t{4} << 20;
  std::vector<Array> weights;
  size_t bytes = 0;
  for (const Step& step : plan.steps)
    for (const BufferId b : step.reads) {
      if (b == kNoBuffer || plan.buffers[b].kind != Buffer::Kind::constant) continue;
      const Array& weight = context.arrays[b];
      if (step.bytes < static_cast<double>(weight.bytes())) continue;  // a gather reads a few of its rows
      weights.push_back(weight);
      bytes += weight.bytes();
    }
  return bytes < kWorthwhile ? nullptr : std::make_unique<const FetchAhead>(std::move(weights));
}

void CpuExecutable::deliver(const Plan& plan, const Values& values, const Context& context) const {
  for (const ValueId v : values) {
    const View& blocks = plan.blocked[v];
    const bool is_blocked = blocks.buffer != kNoBuffer;  // its image, if any, may come later
    const View to = dense_view(kNoBuffer, is_blocked ? blocks.dtype : plan.views[v].dtype,
                               is_blocked ? evaluate(shared_.program.graph.type(v).shape, plan.bindings) : plan.views[v].sizes);
    Array copy(to.dtype, to.sizes);
    std::vector<std::pair<View, View>> pieces = {{to, plan.views[v]}};
    if (is_blocked) pieces = blocked_pieces(to, blocks);
    for (const auto& [image, from] : pieces) {
      if (copy.size() == 0) continue;
      run_copy(strided_copy(from, image), context.pointer<std::byte>(from),
               static_cast<std::byte*>(copy.mutable_data()) + image.offset_bytes(), 1);
    }
    for (const size_t tap : shared_.taps_of[v]) context.request->on_tap(tap, copy);
  }
}

// Each step lasts until the next one begins.
void CpuExecutable::report(const Plan& plan, const RunRequest& request, const std::vector<Clock::time_point>& times) const {
  const Program& p = shared_.program;
  const auto seconds = [](Clock::duration d) { return std::chrono::duration<double>(d).count(); };
  StepLog* const log = active_step_log;
  for (size_t s = 0; s < plan.steps.size(); ++s) {
    const Step& step = plan.steps[s];
    const Node& node = p.graph.nodes[step.node];
    const StepTime time{step.kernel,
                        node.op->name,
                        p.module_path(node.origin),
                        seconds(times[s + 1] - times[0]),
                        seconds(times[s + 2] - times[s + 1]),
                        step.work,
                        step.bytes};
    if (request.on_step) request.on_step(time);
    if (log != nullptr) log->add(time);
  }
}

void CpuExecutable::execute(const Plan& plan, const RunRequest& request, Context& context,
                            std::vector<Clock::time_point>* times) const {
  const Program& p = shared_.program;
  for (size_t s = 0; s < plan.steps.size(); ++s) {
    const Step& step = plan.steps[s];
    if (times) times->push_back(Clock::now());
    if (shared_.parameters->is_streamed()) use_weights(plan, step, context);
    try {
      step.run(context);
    } catch (Error& error) {
      const Node& node = p.graph.nodes[step.node];
      error.op(node.op->name)
          .module_path(p.module_path(node.origin))
          .python(p.file_line(node.origin), p.source_line(node.origin));
      throw;
    }
    if (request.on_tap) deliver(plan, step.defines, context);
    for (const BufferId b : plan.ends_after[s]) context.arrays[b] = Array();
  }
}

std::vector<Array> CpuExecutable::run(const RunRequest& request, States states) const {
  std::vector<Clock::time_point> times;  // for a profile: when the run, each step and what follows began
  const bool is_timed = request.on_step || active_step_log != nullptr;
  if (is_timed) times.push_back(Clock::now());
  const std::shared_ptr<Entry> entry = entry_for(request);
  const Plan& plan = *entry->plan;
  std::unique_ptr<Context> context;
  {
    const std::lock_guard lock(mutex_);
    if (!entry->idle.empty()) {
      context = std::move(entry->idle.back());
      entry->idle.pop_back();
    }
  }
  if (!context) context = new_context(plan);
  bind(plan, request, states, *context);

  const Program& p = shared_.program;
  if (request.on_tap) deliver(plan, plan.defined_at_start, *context);
  if (is_timed) times.reserve(plan.steps.size() + 2);
  const std::unique_ptr<const FetchAhead> ahead = fetch_ahead(plan, *context);
  execute(plan, request, *context, is_timed ? &times : nullptr);
  if (is_timed) {
    times.push_back(Clock::now());
    report(plan, request, times);
  }

  std::vector<Array> outputs;
  outputs.reserve(p.outputs.size());
  const auto output = [&](const View& v) {
    const auto b = static_cast<size_t>(v.buffer);
    if (plan.buffers[b].kind == Buffer::Kind::output) return Array(v.dtype, v.sizes, context->at[b], context->outputs[b]);
    return context->arrays[b].reshaped(v.sizes);
  };
  for (size_t i = 0; i < p.outputs.size(); ++i) outputs.push_back(output(plan.outputs[i]));
  if (request.states) {
    for (size_t i = 0; i < p.states.size(); ++i) {
      const View& v = plan.outputs[p.outputs.size() + i];
      if (v.buffer != kNoBuffer) (*request.states)[i] = output(v);
    }
  }
  if (request.found) *request.found = plan.bindings;

  // What the caller gave or gets is not kept; the memory is.
  for (size_t b = 0; b < plan.buffers.size(); ++b) {
    if (plan.buffers[b].kind != Buffer::Kind::constant && plan.buffers[b].kind != Buffer::Kind::arena)
      context->arrays[b] = Array();
  }
  if (is_for_one_call(plan)) return outputs;  // it ran for the last time, and another call may be packing with the lock
  const std::lock_guard lock(mutex_);
  entry->idle.push_back(std::move(context));
  return outputs;
}

// ---- a run that is made again and again

// A plan with the memory of one run, bound to the caller's arrays once.
class CpuRepeatedRun final : public RepeatedRun {
 public:
  CpuRepeatedRun(const CpuExecutable& executable, RunRequest request)
      : executable_(executable), request_(std::move(request)), entry_(executable.entry_for(request_)) {
    const Plan& plan = *entry_->plan;
    context_ = executable.new_context(plan);
    executable.bind(plan, request_, CpuExecutable::States::written, *context_);
  }

  const std::vector<Array>& run() override {
    const Plan& plan = *entry_->plan;
    const Program& p = executable_.shared_.program;
    context_->random_ops = 0;
    if (active_step_log != nullptr) {
      std::vector<CpuExecutable::Clock::time_point> times{CpuExecutable::Clock::now()};
      executable_.execute(plan, request_, *context_, &times);
      times.push_back(CpuExecutable::Clock::now());
      executable_.report(plan, request_, times);
    } else {
      executable_.execute(plan, request_, *context_, nullptr);
    }
    outputs_.resize(p.outputs.size());
    for (size_t i = 0; i < p.outputs.size(); ++i) {
      const Array& now = memory_of(plan.outputs[i]);
      if (outputs_[i].data() != now.data() || outputs_[i].shape() != now.shape()) outputs_[i] = now;
    }
    for (size_t i = 0; i < p.states.size(); ++i) {
      const View& v = plan.outputs[p.outputs.size() + i];
      Array& state = request_.states->at(i);
      if (v.buffer == kNoBuffer || context_->at[v.buffer] == state.data()) continue;
      std::memcpy(bytes_of(state), context_->at[v.buffer], state.bytes());
    }
    return outputs_;
  }

 private:
  // The array that shows a result; made when its memory is another than before.
  const Array& memory_of(const View& v) {
    Array& array = context_->arrays[v.buffer];
    const std::byte* data = context_->at[v.buffer];
    if (array.data() != data) array = Array(v.dtype, v.sizes, data, context_->outputs[v.buffer]);
    if (array.shape() != v.sizes) array = array.reshaped(v.sizes);
    return array;
  }

  const CpuExecutable& executable_;
  RunRequest request_;
  std::shared_ptr<CpuExecutable::Entry> entry_;
  std::unique_ptr<Context> context_;
  std::vector<Array> outputs_;
};

std::unique_ptr<RepeatedRun> CpuExecutable::repeated(RunRequest request) const {
  request.prepare_fully = true;
  return std::make_unique<CpuRepeatedRun>(*this, std::move(request));
}

}  // namespace pycandle::cpu
