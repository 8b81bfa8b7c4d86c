// What runs: a flat list of steps over one arena, for one set of sizes. Everything about a step but where the arena and
// the inputs of a run lie is known when it is planned.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "backends/backend.h"
#include "backends/cpu/view.h"

namespace pycandle::cpu {

struct Buffer {
  enum class Kind {
    input,     // of the program
    state,     // before the run
    constant,  // a parameter, or what was computed from parameters alone
    arena,
    output,    // memory that leaves with the run
    held       // the array that an evaluator gave
  } kind = Kind::arena;
  size_t index = 0;              // of the input, state, constant or output
  size_t bytes = 0;
  size_t offset = 0;             // in the arena
  BufferId same_as = kNoBuffer;  // an arena buffer that has the memory of another
  bool is_written = false;       // a state that becomes what it will be where it lies
};

// The memory of one run. Reused from run to run.
struct Context {
  std::vector<std::byte*> at;    // per buffer
  std::vector<Array> arrays;     // per buffer: those that are arrays (inputs, states, constants, held)
  std::vector<std::shared_ptr<std::byte>> outputs;  // per buffer: the memory of those that leave
  std::shared_ptr<std::byte> arena;
  int threads = 1;
  const RunRequest* request = nullptr;
  uint64_t random_ops = 0;       // executed so far: each draws from a stream of its own

  template <class T = float> T* pointer(const View& v) const { return reinterpret_cast<T*>(at[v.buffer] + v.offset_bytes()); }
  Array array(const View& v) const;  // dense views only; valid during the step
};

struct Step {
  std::function<void(Context&)> run;
  std::vector<BufferId> reads, writes;
  // A written buffer may take over the memory of a read one that nobody needs afterwards.
  std::vector<std::pair<BufferId, BufferId>> may_share;
  size_t node = 0;               // that it computes, the last one when it is several
  std::string kernel;            // "gemm", "chain", "evaluator": for profiles
  double work = 0;               // multiply-adds or elements
  double bytes = 0;              // read and written, each operand once; filled in from the buffers when 0
  Values defines;                // values with taps that exist after it
};

struct Plan {
  Bindings bindings;
  std::vector<Buffer> buffers;
  std::vector<Array> constants;
  std::vector<Step> steps;
  PerValue<View> views;                 // per value; without a buffer when it was swallowed
  PerValue<View> blocked;               // per value: what a step gives in blocks of channels (blocks.h)
  Values defined_at_start;                 // values with taps that need no step
  std::vector<View> outputs;               // of the program, then what the states become
  std::vector<std::vector<BufferId>> ends_after;  // per step: held arrays that nobody needs any more
  std::vector<std::shared_ptr<const void>> kept;  // arguments that others point to
  size_t arena_bytes = 0;
  bool reads_unpacked = false;             // weights that later calls want packed
};

// Memory for runs: in huge pages when it is large, aligned to a cache line at least.
std::shared_ptr<std::byte> memory_for_runs(size_t bytes);

// Gives every arena buffer its place: two that live at the same time do not overlap.
void place_buffers(Plan&);

}  // namespace pycandle::cpu
