// A kernel with preset arguments as a step: the pointers are filled in when it runs, the units split over the threads.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <utility>

#include "backends/cpu/kernels/kernels.h"
#include "backends/cpu/planner.h"
#include "base/parallel.h"

namespace pycandle::cpu {

// Which pointer of the arguments shows which view:  {offsetof(Gemm, a), x}
struct Bound {
  size_t at;
  View view;
};

// The parts that `units` of work fall into: as many as threads, fewer when there is little to do. work: in multiply-adds
// or bytes moved; a part of less than about 20 µs is not worth waking a thread for.
int parts_for(int threads, int64_t units, double work);
// body(part) for each of them, on threads.
void run_parts(int parts, FunctionRef<void(int part)> body);

template <class Args> using KernelFn = void (*)(const Args&, int64_t begin, int64_t end, float* scratch);
template <class Args> using CountFn = int64_t (*)(const Args&);

// The arguments with the pointers of this run.
template <class Args> Args with_pointers(Args args, const std::vector<Bound>& bound, const Context& c) {
  for (const Bound& b : bound) {
    const std::byte* pointer = c.pointer<std::byte>(b.view);
    std::memcpy(reinterpret_cast<std::byte*>(&args) + b.at, static_cast<const void*>(&pointer), sizeof pointer);
  }
  return args;
}

struct KernelNames {
  const char* kernel;
  double work = 0;
};

template <class Args>
void add_kernel(Planner& p, const KernelNames& names, KernelFn<Args> run, CountFn<Args> units_of, CountFn<Args> scratch_of,
                const Args& args, const std::vector<Bound>& reads, const std::vector<Bound>& writes,
                const std::vector<std::pair<BufferId, BufferId>>& may_share = {}) {
  const int64_t units = units_of(args);
  if (units <= 0) return;
  Step step;
  step.kernel = names.kernel;
  step.work = names.work;
  // Not when the kernel reads the buffer a second time, as another operand: that would be overwritten too early.
  for (const auto& pair : may_share) {
    const auto is_read = [&](const Bound& b) { return b.view.buffer == pair.first; };
    if (std::count_if(reads.begin(), reads.end(), is_read) == 1) step.may_share.push_back(pair);
  }
  std::vector<Bound> bound = reads;
  bound.insert(bound.end(), writes.begin(), writes.end());
  for (const Bound& b : reads) step.reads.push_back(b.view.buffer);
  for (const Bound& b : writes) step.writes.push_back(b.view.buffer);
  for (const Bound& b : bound) step.bytes += b.view.bytes();
  const int parts = parts_for(p.threads(), units, names.work);
  const int64_t scratch = (scratch_of(args) + 15) / 16 * 16;
  View memory;
  if (scratch > 0) {
    memory = dense_view(p.new_buffer(static_cast<size_t>(scratch) * 4 * static_cast<size_t>(parts)), DType::f32,
                        {scratch * parts});
    step.writes.push_back(memory.buffer);
  }
  step.run = [run, args, bound = std::move(bound), units, parts, scratch, memory](Context& c) {
    const Args filled = with_pointers(args, bound, c);
    float* shared = scratch > 0 ? c.pointer(memory) : nullptr;
    if (parts == 1) {
      run(filled, 0, units, shared);
      return;
    }
    run_parts(parts, [&](int part) {
      run(filled, part_of(units, parts, part), part_of(units, parts, part + 1), shared ? shared + part * scratch : nullptr);
    });
  };
  p.add(std::move(step));
}

}  // namespace pycandle::cpu
