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
  for (int64_t done = 0; done < end - begin; done += kMany) {
    const int64_t count = smaller(kMany, end - begin - done), first = g.backwards ? end - done - count : begin + done;
    for (int64_t b = 0; b < g.batch; ++b) {
      const float* h = g.h + b * g.h_row;
      for (int64_t j = 0; j < count;) {
        const int64_t here = count - j >= kSide ? kSide : 1, at = g.backwards ? count - j - here : j, block = first + at;
        for (int64_t u = block * kLanes; u < smaller(g.hidden, (block + here) * kLanes); u += kLanes)
          for (int i = 0; i < gates; ++i) __builtin_prefetch(g.sums + b * g.sums_row + i * g.hidden + u);
        const auto multiply = here == kSide ? multiply_blocks<gates, kSide> : multiply_blocks<gates, 1>;
        multiply(g.packed + block * g.hidden * gates * kLanes, h, g.hidden, g.backwards, products + at * gates * kLanes);
        j += here;
      }
      for (int64_t j = 0; j < count; ++j) cell<gates>(g, first + j, b, products + j * gates * kLanes);
    }
  }
}

static void recurrent_step(const RecurrentStep& g, int64_t begin, int64_t end, float*) {
  switch (gates_of(g.cell)) {
    case 4: step<4>(g, begin, end); break;
    case 3: step<3>(g, begin, end); break;
    default: step<1>(g, begin, end); break;
  }
}

void fill_recurrent(Kernels& k) {
  k.packed_recurrent_size = packed_recurrent_size;
  k.recurrent_step = recurrent_step;
  k.recurrent_step_units = [](const RecurrentStep& g) -> int64_t { return blocks_of(g.hidden); };
  k.recurrent_step_scratch = [](const RecurrentStep&) -> int64_t { return 0; };
  k.pack_recurrent = pack_recurrent;
  k.pack_recurrent_units = [](const PackRecurrent& g) -> int64_t { return blocks_of(g.hidden); };
  k.pack_recurrent_scratch = [](const PackRecurrent&) -> int64_t { return 0; };
}

}  // namespace pycandle::cpu::PYCANDLE_ISA
