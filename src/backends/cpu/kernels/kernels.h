// The kernels of the cpu backend: plain data in, plain data out, one table of functions per instruction set.
//
//   const Kernels& k = kernels();                       // the best the machine has, or PYCANDLE_ISA
//   k.softmax(args, begin, end, scratch);               // rows [begin, end)
//
// Every kernel of kernels.inc has the form  k.name(args, begin, end, scratch):
//  - args hold pointers, sizes and strides (in elements, not bytes) and are only read;
//  - [begin, end) is a range of work units, of which there are k.name_units(args); ranges may run at the same time on
//    different threads, and the result does not depend on how the work was split;
//  - scratch is memory for this call alone, at least k.name_scratch(args) floats, 64-byte aligned (null when that is 0);
//  - nothing is allocated, nothing is thrown, no pointer needs any alignment but its element's.
// An output may be the same memory as an input of the same shape and strides where "in place" is said; otherwise they
// may not overlap. Everything is f32 but masks and comparison results (one byte, 0 or 1) and indices (i64 or i32).
#pragma once

#include <cstddef>
#include <cstdint>

#include "pycandle/weight_format.h"

namespace pycandle::cpu {

// ---- functions of one number

// unary.inc has them all.
enum class Unary : uint8_t {
#define UNARY(name, ...) name,
#include "backends/cpu/kernels/unary.inc"
#undef UNARY
  count
};

// max, min: NaN when either is. pow, atan2, fmod: libm.
#define PYCANDLE_BINARY(X) X(add) X(sub) X(mul) X(div) X(max) X(min) X(pow) X(atan2) X(fmod)
enum class Binary : uint8_t {
#define X(name) name,
  PYCANDLE_BINARY(X)
#undef X
      count
};

#define PYCANDLE_COMPARE(X) X(eq) X(ne) X(lt) X(le) X(gt) X(ge)
enum class Compare : uint8_t {
#define X(name) name,
  PYCANDLE_COMPARE(X)
#undef X
      count
};

// Vectors of n numbers, for chains of them over tiles that stay in the cache. An operand of a binary or ternary function
// has a step: 1 for a vector, 0 for one number used n times. In place. They have no units: the caller cuts the vector.
using UnaryFn = void (*)(const float* x, float* out, int64_t n, float p, float q);
using BinaryFn = void (*)(const float* a, int64_t a_step, const float* b, int64_t b_step, float* out, int64_t n);
using CompareFn = void (*)(const float* a, int64_t a_step, const float* b, int64_t b_step, uint8_t* out, int64_t n);
// out = c ? a : b
using SelectFn = void (*)(const uint8_t* c, int64_t c_step, const float* a, int64_t a_step, const float* b, int64_t b_step,
                          float* out, int64_t n);
// out = a * b + c, rounded twice as mul and add would, so that fusing them changes no bit.
using MulAddFn = void (*)(const float* a, int64_t a_step, const float* b, int64_t b_step, const float* c, int64_t c_step,
                          float* out, int64_t n);

// ---- matrix products

// What happens to a product before it is stored, in this order: scale, bias, residual if residual_first, activation,
// multiplier, residual otherwise.
struct Epilogue {
  float scale = 1;
  const float* bias = nullptr;      // one a column
  const float* row_bias = nullptr;  // one a row
  Unary activation = Unary::identity;
  float p = 0, q = 0;  // of the activation
  bool residual_first = false;
  const float* multiplier = nullptr;  // [m, n], same batches as c
  int64_t multiplier_row = 0;
  const float* residual = nullptr;  // [m, n]; may be c itself if there is no scale, activation or multiplier
  int64_t residual_row = 0;
  int64_t multiplier_batch[2] = {0, 0}, residual_batch[2] = {0, 0};
};

struct Im2Col;

// c[m, n] = epilogue(sum over k of a[m, k] * b[k, n]), for each of batch[0] × batch[1] products.
struct Gemm {
  int64_t m = 0, n = 0, k = 0;
  int64_t batch[2] = {1, 1};
  const float* a = nullptr;
  int64_t a_row = 0, a_col = 1, a_batch[2] = {0, 0};
  const float* packed_a = nullptr;  // if not null, what pack_a made of a, which is then not read; one batch only
  const float* b = nullptr;       // b[k, n] at b + k * b_row + n * b_col; a weight [n, k] has b_row = 1, b_col = k
  int64_t b_row = 0, b_col = 1;
  const float* packed = nullptr;  // if not null, what pack_b made of b, which is then not read
  bool as_if_packed = false;      // b is not, and the result has the bits that it would have if it were
  // If not null, b is the image's x, and the matrix is what im2col would make of it ([k, n], n = out_height * out_width),
  // made panel by panel: c[out_channels, pixels] = weight[out_channels, k] · it is a convolution. Its own x and out are unused.
  const Im2Col* image = nullptr;
  // The pixels of the image are the rows of the tiles and the channels their columns, which wastes little where an image has
  // few pixels: `packed` is what pack_b made of the weight's transpose [k, out_channels], and a is not read. One batch only.
  bool turned = false;
  int64_t b_batch[2] = {0, 0};  // of b, or of packed
  float* c = nullptr;
  int64_t c_row = 0, c_batch[2] = {0, 0};
  Epilogue epilogue;
  // Of narrow_gemm, which reads neither b nor packed: what pack_narrow made of b in this format. One batch only.
  WeightFormat format = WeightFormat::f32;
  const uint8_t* narrow = nullptr;
};

// b[k, n] in the order in which gemm reads it; out holds k.packed_size(k, n) floats. Units: panels of columns.
struct PackB {
  int64_t k = 0, n = 0;
  const float* b = nullptr;
  int64_t b_row = 0, b_col = 1;
  float* out = nullptr;
};

// b[k, n] in a narrow format, in panels of columns as narrow_gemm reads them (narrow_layout.h); panels [begin, end) of
// narrow_panels(…). The numbers are those of base/weight_format.h.
struct PackNarrow {
  WeightFormat format = WeightFormat::bf16;
  int64_t k = 0, n = 0;
  const float* b = nullptr;
  int64_t b_row = 0, b_col = 1;
  uint8_t* out = nullptr;  // narrow_size(…) bytes
  int panel = 0;  // Kernels::panel
};
int64_t narrow_panels(const PackNarrow& args);
int64_t narrow_size(const PackNarrow& args);
void pack_narrow(const PackNarrow& args, int64_t begin, int64_t end);

// a[m, k] in the order in which gemm reads it, for weights that stand on the left; out holds packed_a_size(m, k) floats.
// Units: one.
struct PackA {
  int64_t m = 0, k = 0;
  const float* a = nullptr;
  int64_t a_row = 0, a_col = 1;
  float* out = nullptr;
};

// ---- rows

enum class Reduction : uint8_t { sum, mean, max, min, product, sum_of_squares, count };

// out[o, i] = reduction over r of x[o, r, i], all contiguous. max and min are NaN when a number is. Units: outer, times
// groups of columns i.
struct Reduce {
  int64_t outer = 0, count = 0, inner = 1;
  const float* x = nullptr;
  float* out = nullptr;
  Reduction kind = Reduction::sum;
};

// Index of the first largest (or smallest) number of each row; NaN is larger and smaller than all. Units: rows.
struct ArgMax {
  int64_t rows = 0, cols = 0, x_row = 0;
  const float* x = nullptr;
  int64_t* out = nullptr;
  bool smallest = false;
};

// out = softmax(x * scale) of each row, or its logarithm. With inner > 1, a row holds that many softmaxes side by side:
// their entries are x_col apart, else 1. In place. Units: rows, times groups of those.
struct Softmax {
  int64_t rows = 0, cols = 0, x_row = 0, out_row = 0;
  int64_t inner = 1, x_col = 1, out_col = 1;
  const float* x = nullptr;
  float* out = nullptr;
  float scale = 1;
  bool logarithm = false;
};

// Layer norm: y = (x - mean) / sqrt(variance + eps) * weight + bias. RMS norm: y = x / sqrt(mean of squares + eps) * weight.
// With `add`, x + add is normalised and, if `sum` is given, stored there too. In place. Units: rows.
struct Norm {
  int64_t rows = 0, cols = 0, x_row = 0, add_row = 0, sum_row = 0, out_row = 0;
  const float* x = nullptr;
  const float* add = nullptr;
  float* sum = nullptr;  // may be x or add
  const float* weight = nullptr;  // [cols] or null, as bias
  const float* bias = nullptr;
  float* out = nullptr;
  float eps = 1e-5f;
  bool rms = false;
  float weight_plus = 0;  // added to the weight (Gemma's 1 + weight)
};

// x and out are [batch, channels, size], contiguous; statistics over a group of channels. In place. Units: batch * groups.
struct GroupNorm {
  int64_t batch = 0, channels = 0, size = 0, groups = 1;
  const float* x = nullptr;
  const float* weight = nullptr;  // [channels] or null, as bias
  const float* bias = nullptr;
  float* out = nullptr;
  float eps = 1e-5f;
};

// out[r, :] = x[r, :] * scale[r % period] + shift[r % period], contiguous (batch norm at run time). In place. Units: rows.
struct ScaleShift {
  int64_t rows = 0, cols = 0, period = 1;
  const float* x = nullptr;
  const float* scale = nullptr;  // or null, as shift
  const float* shift = nullptr;
  float* out = nullptr;
  Unary activation = Unary::identity;
  float p = 0, q = 0;
};

// ---- attention

// softmax(q · kᵀ * scale + mask) · v for each batch and head; the last dim of q, k, v and out is contiguous. Head h of q
// uses head h / (heads / kv_heads) of k and v. Query i stands at position i + query_offset: `causal` keeps the keys up to
// there, window > 0 the last `window` of them. Units: batch * heads * blocks of queries.
struct Attention {
  int64_t batch = 0, heads = 0, kv_heads = 0, queries = 0, keys = 0, head_size = 0, value_size = 0;
  const float *q = nullptr, *k = nullptr, *v = nullptr;
  float* out = nullptr;
  int64_t q_batch = 0, q_head = 0, q_row = 0;
  int64_t k_batch = 0, k_head = 0, k_row = 0;
  int64_t v_batch = 0, v_head = 0, v_row = 0;
  int64_t out_batch = 0, out_head = 0, out_row = 0;
  float scale = 1;
  bool causal = false;
  int64_t query_offset = 0, window = 0;
  const float* mask = nullptr;  // added to the scores, if given
  const uint8_t* allowed = nullptr;  // 1 where a pair attends, if given; strides as mask's own
  const uint8_t* key_mask = nullptr;  // [batch, keys]: 1 where a key may be attended
  int64_t mask_batch = 0, mask_head = 0, mask_row = 0, mask_col = 0;
  int64_t allowed_batch = 0, allowed_head = 0, allowed_row = 0, allowed_col = 0;
  int64_t key_mask_batch = 0, key_mask_col = 1;
  float masked_bias = 0;  // if not 0, added where causal, window and key_mask forbid, in place of -inf
  bool nan_when_nothing = false;  // a query that attends nowhere gives NaN, else zeros
};

// Attention over a cache: query i of batch b stands at starts[b] + i, which is known only when it runs, and attends to the keys
// up to there; later keys are never read. For a few queries; call.causal and call.query_offset are ignored. Units: batch *
// kv_heads * splits. With several splits merge_attention must follow.
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

// Turns pairs of x by the angles whose cos and sin are given: pairs are i and i + rotated / 2, or 2i and 2i + 1
// (interleaved). Dims [batch, length, heads, size] by strides, last contiguous; cos and sin have `rotated` entries a
// position, or rotated / 2 (paired). Entries past `rotated` are copied. In place. Units: batch * length.
struct Rotary {
  int64_t batch = 0, length = 0, heads = 0, size = 0, rotated = 0;
  const float* x = nullptr;
  float* out = nullptr;
  int64_t x_batch = 0, x_row = 0, x_head = 0, out_batch = 0, out_row = 0, out_head = 0;
  const float *cos = nullptr, *sin = nullptr;
  int64_t angle_batch = 0, angle_row = 0;
  bool interleaved = false, paired = false;
};

// ---- complex numbers: c64, a real and an imaginary part side by side

// The discrete Fourier transform of each row of x [outer, length, inner] along the middle axis, not scaled, computed in doubles.
// roots: e^(±2πik / length) for k below length, + for the inverse. Units: groups of rows.
constexpr int kMostFactors = 64;
struct Fft {
  int64_t outer = 1, length = 1, inner = 1;
  const float* x = nullptr;
  const double* roots = nullptr;
  float* out = nullptr;
  int factors = 0;
  int8_t factor[kMostFactors] = {};  // of the length: 4, 2, 3, 5 and other small ones
  bool inverse = false;
};

// count elements. of_real and of_parts read f32, abs writes it; mul reads b at every element (b_step 1) or once (0). Units:
// blocks.
enum class ComplexOp : uint8_t { of_real, of_parts, abs, mul };
constexpr int64_t kComplexBlock = 1024;
struct ComplexMap {
  ComplexOp op = ComplexOp::mul;
  int64_t count = 0, b_step = 1;
  const float *a = nullptr, *b = nullptr;
  float* out = nullptr;
};

// ---- moving

constexpr int kMaxRank = 8;

// out[i...] = x[i...], elements of 1, 2, 4, 8 or 16 bytes, any strides (0 broadcasts x, negative flips). The dims may be
// given in any order; plan_copy sorts and joins them, once. Units: the first dims, k.copy_units.
struct Copy {
  int rank = 0;
  int64_t dims[kMaxRank] = {}, x_strides[kMaxRank] = {}, out_strides[kMaxRank] = {};
  int element = 4;
  const void* x = nullptr;
  void* out = nullptr;
};
// Sorts and joins dims so that the copy is one of long runs or of 2-d transposes. Call before copy.
void plan_copy(Copy& copy);

// out[i, :] = table[index[i], :]; rows of `row_bytes` bytes. Negative indices count from the end. A bad index leaves its
// row as zeros and sets *bad to its position + 1 (of several, to one of them). Units: count.
struct GatherRows {
  int64_t count = 0, table_rows = 0, row_bytes = 0, table_row_bytes = 0, out_row_bytes = 0;
  const void* table = nullptr;
  const int64_t* index = nullptr;  // or
  const int32_t* index32 = nullptr;
  void* out = nullptr;
  int64_t* bad = nullptr;
};

// out[i, :] = the k numbers of output index[i] of a packed weight: an embedding whose table is a weight too. Indices are
// from 0 to n - 1. Units: count.
struct GatherNarrow {
  WeightFormat format = WeightFormat::bf16;
  int64_t count = 0, k = 0;
  const uint8_t* narrow = nullptr;
  const int64_t* index = nullptr;  // or
  const int32_t* index32 = nullptr;
  float* out = nullptr;  // [count, k]
};

// ---- windows; images are [batch, channels, height, width], contiguous

struct Window {
  int64_t kernel[2] = {1, 1}, stride[2] = {1, 1}, padding[2] = {0, 0}, dilation[2] = {1, 1};
};

// out[(c, kh, kw), (oh, ow)] of one image of `channels` channels: the b of  weight[out_channels, c*kh*kw] · b.
// Units: channels * kernel[0] * kernel[1], the rows of out.
struct Im2Col {
  int64_t channels = 0, height = 0, width = 0, out_height = 0, out_width = 0;
  Window window;
  const float* x = nullptr;
  float* out = nullptr;
};

// Depthwise convolution: out channel c reads channel c / multiplier. Units: batch * channels * multiplier.
struct Depthwise {
  int64_t batch = 0, channels = 0, multiplier = 1, height = 0, width = 0, out_height = 0, out_width = 0;
  Window window;
  const float* x = nullptr;
  const float* weight = nullptr;  // [channels * multiplier, kernel[0], kernel[1]]
  const float* bias = nullptr;  // [channels * multiplier] or null
  float* out = nullptr;
  Unary activation = Unary::identity;
  float p = 0, q = 0;
};

// Pooling. Padding never wins a maximum. An average divides by the elements inside the image, or, with
// count_padding, by those inside the padded image (as torch counts), or by `divisor` if it is not 0. Units: batch * channels.
struct Pool {
  int64_t planes = 0, height = 0, width = 0, out_height = 0, out_width = 0;
  Window window;
  const float* x = nullptr;
  float* out = nullptr;
  bool average = false, count_padding = true;
  int64_t divisor = 0;
};

// ---- blocked images: [batch, channel blocks, height, width, lanes], where a block has Kernels::lanes channels. The last block
// is filled up with lanes that hold anything: no sum over channels reads them.

// A convolution to a blocked image, with constant weights. Each group reads whole blocks and gives whole blocks. Units: batch *
// groups * bands of rows * panels of out channels.
struct BlockedConvolution {
  int64_t batch = 0, channels = 0, height = 0, width = 0, out_channels = 0, out_height = 0, out_width = 0, groups = 1;
  Window window;
  bool from_planes = false;  // x is [batch, channels, height, width], of fewer channels than a block has
  const float* x = nullptr;
  const float* packed = nullptr;  // what pack_blocked made of the weights
  float* out = nullptr;
  Epilogue epilogue;  // c is [pixels, lanes] in each block; bias is filled up to whole blocks
};

// The weights [out_channels, channels / groups, kernel] in the order in which blocked_convolution reads them for this shape; out
// holds k.packed_blocked_size(shape) floats. Units: one.
struct PackBlocked {
  BlockedConvolution shape;
  const float* weight = nullptr;
  float* out = nullptr;
};

// Depthwise convolution of a blocked image: groups, channels and out_channels are the same number, and packed is
// [channel blocks, kernel[0], kernel[1], lanes]. Units: batch * channel blocks * out_height.
struct BlockedDepthwise {
  BlockedConvolution shape;
};

// The same convolution with a 3×3 window, stride 1 and whole blocks of channels, in Winograd's way: from tiles of `tile` (2 or 4)
// × `tile` outputs, (tile + 2)² products for each pair of channels in place of 9 tile². Units: blocks of tiles * panels.
struct Winograd {
  BlockedConvolution shape;
  int64_t tile = 2;
};
struct PackWinograd {  // packed_winograd_size(shape) floats; units: panels of out channels
  Winograd shape;
  const float* weight = nullptr;
  const double* scales = nullptr;  // one an out channel, or null
  float* out = nullptr;
};

// As Pool, of a blocked image. Units: planes * out_height, where planes is batch * channel blocks.
struct BlockedPool {
  Pool pool;
};

// ---- recurrent cells

enum class Cell : uint8_t { lstm, gru, rnn_tanh, rnn_relu };

// A product that is computed while a step waits for its weights: those come from the second cache and leave the multipliers
// idle half of the time.  c[beside_rows, n] = bias + a · b  for panels [first, last) of columns, n a multiple of a panel.
struct Beside {
  int64_t k = 0, first = 0, last = 0;
  const float* a = nullptr;  // [k][beside_rows]
  const float* packed = nullptr;  // what pack_b made of b[k, n]
  const float* bias = nullptr;  // [n] or null
  float* c = nullptr;
  int64_t c_row = 0;
};

// One step of a layer: sums + W_hh · h (+ b_hh), then the cell. `packed` is what pack_recurrent made of w_hh
// [gates * hidden, hidden] (i f g o; r z n). Out states may not be the in states. Units: blocks of hidden units; all of
// a step must be done before the next begins.
struct RecurrentStep {
  Cell cell = Cell::lstm;
  int64_t batch = 0, hidden = 0;
  const float* sums = nullptr;  // [batch, gates * hidden]: W_ih · x + b_ih (+ b_hh, but for gru)
  int64_t sums_row = 0;
  const float* packed = nullptr;
  const float* bias_hh = nullptr;  // [gates * hidden]; gru's, else null
  const float* h = nullptr;  // [batch, hidden]
  const float* c = nullptr;  // lstm's
  int64_t h_row = 0, c_row = 0;
  float* h_out = nullptr;
  float* c_out = nullptr;  // may be c
  int64_t h_out_row = 0, c_out_row = 0;
  bool backwards = false;  // walk the weights from their end: alternate it, and half of them are still in the cache
  const Beside* beside = nullptr;  // done by this call, whatever its units are
};
struct PackRecurrent {
  Cell cell = Cell::lstm;
  int64_t hidden = 0;
  const float* w_hh = nullptr;  // [gates * hidden, hidden]
  float* out = nullptr;  // packed_recurrent_size(cell, hidden) floats
};

// ---- the table

struct Kernels {
  const char* isa;
  int lanes;  // floats in a vector
  int panel;  // columns in a panel of packed b
  int beside_rows;
  UnaryFn unary[static_cast<int>(Unary::count)];
  BinaryFn binary[static_cast<int>(Binary::count)];
  CompareFn compare[static_cast<int>(Compare::count)];
  SelectFn select;
  MulAddFn mul_add;
  int64_t (*packed_size)(int64_t k, int64_t n);
  int64_t (*packed_a_size)(int64_t m, int64_t k);
  int64_t (*packed_blocked_size)(const BlockedConvolution& shape);
  int64_t (*packed_winograd_size)(const Winograd& shape);
  int64_t (*blocked_panel)(const BlockedConvolution& shape);  // out channels that are packed side by side
  int64_t (*winograd_panel)(const Winograd& shape);
  int64_t (*packed_recurrent_size)(Cell cell, int64_t hidden);
  int64_t (*partial_attention_size)(const CachedAttention& args);
  // n numbers of bf16 or f16 as f32, and f32 rounded to those.
  void (*widen)(WeightFormat format, const uint16_t* x, int64_t n, float* out);
  void (*narrow)(WeightFormat format, const float* x, int64_t n, uint16_t* out);
  // The machine's limits, to measure others against: fma_loop returns how many operations it did; read_loop reads n floats.
  int64_t (*fma_loop)(int64_t rounds, float* sink);
  void (*read_loop)(const float* x, int64_t n, int streams, float* sink);  // 1, 2 or 4 streams
#define KERNEL(name, Args)                                                    \
  void (*name)(const Args& args, int64_t begin, int64_t end, float* scratch); \
  int64_t (*name##_units)(const Args& args);                                  \
  int64_t (*name##_scratch)(const Args& args);
#include "backends/cpu/kernels/kernels.inc"
#undef KERNEL
};

// The kernels of the best instruction set that the machine has, or of the one that PYCANDLE_ISA names (portable, avx2,
// avx512, avx512bf16, amx, amx_model). Throws usage when that is unknown or the machine lacks it.
const Kernels& kernels();
// All that this machine can run, best first; null after the last.
const Kernels* const* all_kernels();
// Portable kernels that pack and cut narrow products as amx does, with loops in place of its instructions: for tests on machines
// without them. Never chosen unless it is named.
const Kernels& amx_model_kernels();

const char* name_of(Unary f);
const char* name_of(Binary f);
const char* name_of(Compare f);

}  // namespace pycandle::cpu
