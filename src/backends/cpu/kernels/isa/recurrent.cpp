// One step of LSTM, GRU and RNN: a product with the recurrent weights, then the cell, for a block of hidden units at a
// time. The weights lie as [block][k][gate][lane], so that a step reads them once, straight through.
#include "backends/cpu/kernels/isa/isa.h"
#include "backends/cpu/kernels/isa/math.h"

namespace pycandle::cpu::PYCANDLE_ISA {

static int64_t gates_of(Cell cell) { return cell == Cell::lstm ? 4 : cell == Cell::gru ? 3 : 1; }
static int64_t blocks_of(int64_t hidden) { return divide_up(hidden, kLanes); }
static int64_t packed_recurrent_size(Cell cell, int64_t hidden) { return blocks_of(hidden) * hidden * gates_of(cell) * kLanes; }

static void pack_recurrent(const PackRecurrent& g, int64_t begin, int64_t end, float*) {
  const int64_t gates = gates_of(g.cell);
  for (int64_t block = begin; block < end; ++block)
    for (int64_t k = 0; k < g.hidden; ++k)
      for (int64_t gate = 0; gate < gates; ++gate)
        for (int64_t lane = 0; lane < kLanes; ++lane) {
          const int64_t unit = block * kLanes + lane;
          g.out[((block * g.hidden + k) * gates + gate) * kLanes + lane] = unit < g.hidden
                                                                               ? g.w_hh[(gate * g.hidden + unit) * g.hidden + k]
                                                                               : 0;
        }
}

// products[block][gate][lane] = W_hh · h of neighbouring blocks of units. Backwards: from the last k, so that what the step
// before read last is still in the cache.
template <int gates, int blocks>
static void multiply_blocks(const float* weights, const float* h, int64_t hidden, bool backwards, float* products) {
  const int64_t step = backwards ? -1 : 1, apart = hidden * gates * kLanes;
  if (backwards) {
    weights += (hidden - 1) * gates * kLanes;
    h += hidden - 1;
  }
  F total[blocks][gates];
  for (int j = 0; j < blocks; ++j)
    for (int i = 0; i < gates; ++i) total[j][i] = set(0);
  for (int64_t k = 0; k < hidden; ++k, h += step, weights += step * gates * kLanes) {
    const F x = set(*h);
#pragma GCC unroll 4
    for (int j = 0; j < blocks; ++j)
#pragma GCC unroll 4
      for (int i = 0; i < gates; ++i) total[j][i] = fma(x, load(weights + j * apart + i * kLanes), total[j][i]);
  }
  for (int j = 0; j < blocks; ++j)
    for (int i = 0; i < gates; ++i) store(products + (j * gates + i) * kLanes, total[j][i]);
}

// ---- with a product beside

constexpr int kBesideRows = kLanes == 16 ? 8 : 4, kBesideBlocks = kLanes == 16 ? 2 : 1;

// How far the product beside is: `done` of k in the tile of this panel.
struct Progress {
  int64_t panel, done;
};

// n numbers of the product beside, and twice as many of neighbouring blocks of units, whose sums so far are in products.
template <int gates>
static void multiply_both(const float* weights, const float* h, int64_t hidden, int64_t step, float* products, const Beside& g,
                          const Progress& at, int64_t n) {
  const int64_t apart = hidden * gates * kLanes;
  const float* a = g.a + at.done * kBesideRows;
  const float* b = g.packed + (at.panel * g.k + at.done) * kPanel;
  float* c = g.c + at.panel * kPanel;
  F total[kBesideBlocks][gates], sum[kBesideRows][kVectors];
  for (int j = 0; j < kBesideBlocks; ++j)
    for (int i = 0; i < gates; ++i) total[j][i] = load(products + (j * gates + i) * kLanes);
  for (int r = 0; r < kBesideRows; ++r)
    for (int v = 0; v < kVectors; ++v) sum[r][v] = at.done > 0 ? load(c + r * g.c_row + v * kLanes) : set(0);
  const float* bias = g.bias != nullptr && at.done + n == g.k ? g.bias + at.panel * kPanel : nullptr;
  for (; n > 0; --n, a += kBesideRows, b += kPanel) {
#pragma GCC unroll 2
    for (int twice = 0; twice < 2; ++twice, h += step, weights += step * gates * kLanes) {
      const F x = set(*h);
#pragma GCC unroll 4
      for (int j = 0; j < kBesideBlocks; ++j)
#pragma GCC unroll 4
        for (int i = 0; i < gates; ++i) total[j][i] = fma(x, load(weights + j * apart + i * kLanes), total[j][i]);
    }
    F columns[kVectors];
#pragma GCC unroll 2
    for (int v = 0; v < kVectors; ++v) columns[v] = load(b + v * kLanes);
#pragma GCC unroll 8
    for (int r = 0; r < kBesideRows; ++r) {
      const F y = set(a[r]);
#pragma GCC unroll 2
      for (int v = 0; v < kVectors; ++v) sum[r][v] = fma(y, columns[v], sum[r][v]);
    }
  }
  for (int j = 0; j < kBesideBlocks; ++j)
    for (int i = 0; i < gates; ++i) store(products + (j * gates + i) * kLanes, total[j][i]);
  for (int r = 0; r < kBesideRows; ++r)
    for (int v = 0; v < kVectors; ++v)
      store(c + r * g.c_row + v * kLanes, bias != nullptr ? sum[r][v] + load(bias + v * kLanes) : sum[r][v]);
}

// As multiply_blocks, of kBesideBlocks blocks, with as much of the product beside as there is and fits.
template <int gates>
static void multiply_blocks_beside(const float* weights, const float* h, int64_t hidden, bool backwards, float* products,
                                   const Beside& g, Progress& at) {
  const int64_t step = backwards ? -1 : 1;
  for (int i = 0; i < kBesideBlocks * gates; ++i) store(products + i * kLanes, set(0));
  int64_t k = 0;
  const auto place = [&] { return backwards ? hidden - 1 - k : k; };
  while (hidden - k >= 2 && at.panel < g.last) {
    const int64_t n = smaller((hidden - k) / 2, g.k - at.done);
    multiply_both<gates>(weights + place() * gates * kLanes, h + place(), hidden, step, products, g, at, n);
    k += 2 * n;
    at.done += n;
    if (at.done == g.k) at = {at.panel + 1, 0};
  }
  for (; k < hidden; ++k)
    for (int j = 0; j < kBesideBlocks; ++j)
      for (int i = 0; i < gates; ++i) {
        float* total = products + (j * gates + i) * kLanes;
        store(total, fma(set(h[place()]), load(weights + (j * hidden + place()) * gates * kLanes + i * kLanes), load(total)));
      }
}

// What no step had room for.
static void finish_beside(const Beside& g, Progress at) {
  for (; at.panel < g.last; at = {at.panel + 1, 0}) {
    float* c = g.c + at.panel * kPanel;
    const Addends addends{g.bias != nullptr ? g.bias + at.panel * kPanel : nullptr, at.done > 0 ? c : nullptr, g.c_row};
    tile_function(kBesideRows, kVectors)(g.k - at.done, g.a + at.done * kBesideRows, kBesideRows,
                                         g.packed + (at.panel * g.k + at.done) * kPanel, c, g.c_row, addends, {});
  }
}

// ---- a step

// The cell of a block of units, of batch row b, from what the weights made of the hidden state.
template <int gates> INLINE void cell(const RecurrentStep& g, int64_t block, int64_t b, const float* products) {
  const int64_t unit = block * kLanes, n = smaller(kLanes, g.hidden - unit);
  F from_hidden[gates], from_input[gates];
  for (int i = 0; i < gates; ++i) {
    from_hidden[i] = load(products + i * kLanes);
    if (g.bias_hh != nullptr) from_hidden[i] = from_hidden[i] + load_n(g.bias_hh + i * g.hidden + unit, n);
    from_input[i] = load_n(g.sums + b * g.sums_row + i * g.hidden + unit, n);
  }
  float* h_out = g.h_out + b * g.h_out_row + unit;
  if constexpr (gates == 4) {
    const F i = vsigmoid(from_input[0] + from_hidden[0]), f = vsigmoid(from_input[1] + from_hidden[1]);
    const F fresh = vtanh(from_input[2] + from_hidden[2]), o = vsigmoid(from_input[3] + from_hidden[3]);
    const F c = f * load_n(g.c + b * g.c_row + unit, n) + i * fresh;
    store_n(g.c_out + b * g.c_out_row + unit, n, c);
    store_n(h_out, n, o * vtanh(c));
  } else if constexpr (gates == 3) {
    const F r = vsigmoid(from_input[0] + from_hidden[0]), z = vsigmoid(from_input[1] + from_hidden[1]);
    const F fresh = vtanh(from_input[2] + r * from_hidden[2]);
    store_n(h_out, n, (load_n(g.h + b * g.h_row + unit, n) - fresh) * z + fresh);
  } else {
    const F x = from_input[0] + from_hidden[0];
    store_n(h_out, n, g.cell == Cell::rnn_relu ? max2(set(0), x) : vtanh(x));
  }
}

// First the products of many blocks, then their cells: the long chains of a cell would hold up the stream of weights.
template <int gates> static void step(const RecurrentStep& g, int64_t begin, int64_t end) {
  constexpr int kSide = kLanes == 16 ? 4 : 2;  // blocks side by side, their sums in registers
  constexpr int64_t kMany = 16;
  float products[kMany * gates * kLanes];
  Progress beside = {g.beside != nullptr ? g.beside->first : 0, 0};
  for (int64_t done = 0; done < end - begin; done += kMany) {
    const int64_t count = smaller(kMany, end - begin - done), first = g.backwards ? end - done - count : begin + done;
    for (int64_t b = 0; b < g.batch; ++b) {
      const float* h = g.h + b * g.h_row;
      for (int64_t j = 0; j < count;) {
        const bool has_beside = g.beside != nullptr && beside.panel < g.beside->last && count - j >= kBesideBlocks;
        const int64_t here = has_beside           ? kBesideBlocks
                             : count - j >= kSide ? kSide
                                                  : 1,
                      at = g.backwards ? count - j - here : j, block = first + at;
        for (int64_t u = block * kLanes; u < smaller(g.hidden, (block + here) * kLanes); u += kLanes)
          for (int i = 0; i < gates; ++i) __builtin_prefetch(g.sums + b * g.sums_row + i * g.hidden + u);
        const float* weights = g.packed + block * g.hidden * gates * kLanes;
        float* to = products + at * gates * kLanes;
        if (has_beside) {
          multiply_blocks_beside<gates>(weights, h, g.hidden, g.backwards, to, *g.beside, beside);
        } else {
          (here == kSide ? multiply_blocks<gates, kSide> : multiply_blocks<gates, 1>)(weights, h, g.hidden, g.backwards, to);
        }
        j += here;
      }
      for (int64_t j = 0; j < count; ++j) cell<gates>(g, first + j, b, products + j * gates * kLanes);
    }
  }
  if (g.beside != nullptr) finish_beside(*g.beside, beside);
}

static void recurrent_step(const RecurrentStep& g, int64_t begin, int64_t end, float*) {
  switch (gates_of(g.cell)) {
    case 4: step<4>(g, begin, end); break;
    case 3: step<3>(g, begin, end); break;
    default: step<1>(g, begin, end); break;
  }
}

void fill_recurrent(Kernels& k) {
  k.beside_rows = kBesideRows;
  k.packed_recurrent_size = packed_recurrent_size;
  k.recurrent_step = recurrent_step;
  k.recurrent_step_units = [](const RecurrentStep& g) -> int64_t { return blocks_of(g.hidden); };
  k.recurrent_step_scratch = [](const RecurrentStep&) -> int64_t { return 0; };
  k.pack_recurrent = pack_recurrent;
  k.pack_recurrent_units = [](const PackRecurrent& g) -> int64_t { return blocks_of(g.hidden); };
  k.pack_recurrent_scratch = [](const PackRecurrent&) -> int64_t { return 0; };
}

}  // namespace pycandle::cpu::PYCANDLE_ISA
