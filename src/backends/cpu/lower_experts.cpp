// Products of groups of rows with a matrix each: experts. How many rows a group has is known when it runs.
#include <algorithm>

#include "backends/cpu/kernel_step.h"
#include "backends/cpu/lowerings.h"

namespace pycandle::cpu {
namespace {

// The rows of x that stand before ends[e], by dtype.
int64_t end_of(const Context& c, const View& ends, int64_t e) {
  return ends.dtype == DType::i64 ? c.pointer<int64_t>(ends)[e] : c.pointer<int32_t>(ends)[e];
}

bool lower_grouped_matmul(Planner& p, size_t index) {
  const Node& node = p.node(index);
  const Sizes x_sizes = p.sizes(node.operands[0]), w_sizes = p.sizes(node.operands[1]), groups = p.sizes(node.operands[2]);
  const bool fits = x_sizes[1] == w_sizes[1] && groups[0] == w_sizes[0];  // if not, the evaluator says so
  if (p.dtype(node.operands[0]) != DType::f32 || !fits || element_count(w_sizes) == 0) return false;
  const View x = p.dense(node.operands[0]), ends = p.dense(node.operands[2]);
  View weight = p.view(node.operands[1]);
  if (weight.strides[1] != 1 && weight.strides[2] != 1) weight = p.dense(node.operands[1]);
  const View out = p.result(node.results[0]);
  Gemm args;
  args.m = x_sizes[0];
  args.n = w_sizes[2];
  args.k = args.a_row = x_sizes[1];
  args.b_row = weight.strides[1];
  args.b_col = weight.strides[2];
  args.c_row = args.n;
  const Kernels& k = kernels();
  const int threads = p.threads();
  const int64_t scratch = (k.gemm_scratch(args) + 15) / 16 * 16;
  const View memory = dense_view(p.new_buffer(static_cast<size_t>(scratch * threads) * 4), DType::f32, {scratch * threads});
  Step step;
  step.kernel = "gemm";
  step.work = static_cast<double>(args.m * args.n) * static_cast<double>(args.k);
  step.reads = {x.buffer, weight.buffer, ends.buffer};
  step.writes = {out.buffer, memory.buffer};
  step.run = [=, &k](Context& c) {
    int64_t start = 0;
    for (int64_t e = 0; e < groups[0]; ++e) {
      const int64_t end = std::min(end_of(c, ends, e), args.m);
      Gemm own = args;
      own.m = end - start;
      own.a = c.pointer(x) + start * args.k;
      own.b = c.pointer(weight) + e * weight.strides[0];
      own.c = c.pointer(out) + start * args.n;
      start = std::max<int64_t>(end, 0);
      if (own.m <= 0) continue;
      const int64_t units = k.gemm_units(own);
      const int parts = parts_for(threads, units, static_cast<double>(own.m * own.n) * static_cast<double>(own.k));
      float* mine = c.pointer(memory);
      run_parts(parts, [&](int part) {
        k.gemm(own, part_of(units, parts, part), part_of(units, parts, part + 1), mine + part * scratch);
      });
    }
    std::fill(c.pointer(out) + start * args.n, c.pointer(out) + args.m * args.n, 0.0f);
  };
  if (args.m > 0) p.add(std::move(step));
  p.define(node.results[0], out);
  return true;
}

}  // namespace

std::vector<Lowering> expert_lowerings() { return {{"grouped_matmul", nullptr, lower_grouped_matmul}}; }

}  // namespace pycandle::cpu
