// The kernels of decoding: attention of new tokens over a cache, and rows that are kept in 16 bits. The rules of kernels.h hold.
#pragma once

#include "backends/cpu/kernels/kernels.h"

namespace pycandle::cpu {

// Attention in which query i of batch b stands at starts[b] + i, a number that is known only when it runs, and attends to the
// keys up to there; keys behind all queries are never read. For a few queries; call.causal and call.query_offset are not looked
// at. Units: batch * kv_heads * splits. With several splits merge_attention must follow.
struct CachedAttention {
  Attention call;
  const int64_t* starts = nullptr;
  WeightFormat kept = WeightFormat::f32;  // or bf16, f16: what k and v point to
  const float *slopes = nullptr, *positions = nullptr;  // slopes[head] * positions[batch, key] * alibi_scale is added
  int64_t positions_batch = 0;
  float alibi_scale = 1;
  int64_t splits = 1;
  float* partial = nullptr;  // partial_attention_size(…) floats
};

struct CacheKernels {
  void (*cached_attention)(const CachedAttention& args, int64_t begin, int64_t end, float* scratch);
  int64_t (*cached_attention_units)(const CachedAttention& args);
  int64_t (*cached_attention_scratch)(const CachedAttention& args);
  int64_t (*partial_attention_size)(const CachedAttention& args);
  void (*merge_attention)(const CachedAttention& args, int64_t begin, int64_t end, float* scratch);
  int64_t (*merge_attention_units)(const CachedAttention& args);
  int64_t (*merge_attention_scratch)(const CachedAttention& args);
  // n numbers of bf16 or f16 as f32, and f32 rounded to those.
  void (*widen)(WeightFormat format, const uint16_t* x, int64_t n, float* out);
  void (*narrow)(WeightFormat format, const float* x, int64_t n, uint16_t* out);
};

// Of the instruction set of these others.
const CacheKernels& cache_kernels(const Kernels& others = kernels());

}  // namespace pycandle::cpu
