// Register tiles of products with narrow weights: functions of one instruction set that a driver compiled for another may
// call, so plain data.
#pragma once

#include <cstdint>

namespace pycandle::cpu {

// sums[rows, panel] = a[rows, k] · b[k, panel]
struct NarrowTile {
  int64_t k = 0;                    // as of narrow_depth
  const void* a = nullptr;          // f32 [k][rows], or pairs [k / 2][rows][2] of bf16 or int16
  const float* a_scales = nullptr;  // of int16: [k / 128][rows]
  const int32_t* a_sums = nullptr;  // of int16 beside int4: [k / 32][rows], the sum of each group
  const uint8_t* b = nullptr;       // the numbers of a panel (narrow_layout.h)
  const uint8_t* scales = nullptr;  // of int8: one f32 a column
  float* sums = nullptr;
  const uint8_t* next = nullptr;    // what is needed soon: step bytes of it are asked for with every pair of k
  int64_t step = 0;
};
using NarrowTileFn = void (*)(const NarrowTile&);

// By rows - 1; null: this instruction set has none, and the driver goes by f32.
struct NarrowTiles {
  static constexpr int kFew = 4, kMost = 14;
  NarrowTileFn few_bf16[kFew] = {}, few_f16[kFew] = {};                 // f32 activations
  NarrowTileFn bf16[kMost] = {}, int8[kMost] = {}, int4[kMost] = {};  // bf16 and int16 activations
};

// sums[rows, panel] = a[rows, k] · b[k, panel] for up to 32 rows, by instructions that multiply matrices. Rows of a lie in groups
// of 16, the last filled up with zeros, as is each row up to 64 bytes.
struct NarrowMatrix {
  static constexpr int kMost = 32;
  int64_t rows = 0, k = 0;          // k as of narrow_depth
  const uint8_t* a = nullptr;       // bf16, or the upper bytes of int16
  const uint8_t* a_low = nullptr;   // the lower bytes of int16
  int64_t a_row = 0;                // bytes, of both
  const float* a_scales = nullptr;  // of int16: [k / 128][rows]
  const uint8_t* b = nullptr;       // bf16 as narrow_layout.h has it; int8 as [k / 4][column][4] with zeros up to 64 of k
  const uint8_t* scales = nullptr;  // of int8: one f32 a column
  float* sums = nullptr;            // of all 32 rows
};
struct NarrowMatrices {
  void (*enter)() = nullptr;  // before the first of several, on the same thread
  void (*leave)() = nullptr;  // after the last
  void (*bf16)(const NarrowMatrix&) = nullptr;
  void (*int8)(const NarrowMatrix&) = nullptr;
};

}  // namespace pycandle::cpu
