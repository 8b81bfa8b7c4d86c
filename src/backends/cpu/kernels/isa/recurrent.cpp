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

template <int gates> INLINE void recurrent_sums(const float* weights, const float* h, int64_t k, F (&total)[gates]) {
  F other[gates];
  for (int i = 0; i < gates; ++i) total[i] = other[i] = set(0);
  for (; k >= 2; k -= 2, h += 2, weights += 2 * gates * kLanes)
    for (int i = 0; i < gates; ++i) {
      total[i] = fma(set(h[0]), load(weights + i * kLanes), total[i]);
      other[i] = fma(set(h[1]), load(weights + (gates + i) * kLanes), other[i]);
    }
  if (k > 0)
    for (int i = 0; i < gates; ++i) total[i] = fma(set(*h), load(weights + i * kLanes), total[i]);
  for (int i = 0; i < gates; ++i) total[i] = total[i] + other[i];
}

template <int gates> static void step(const RecurrentStep& g, int64_t block) {
  const int64_t unit = block * kLanes, n = smaller(kLanes, g.hidden - unit);
  const float* weights = g.packed + block * g.hidden * gates * kLanes;
  for (int64_t b = 0; b < g.batch; ++b) {
    const float* h = g.h + b * g.h_row;
    F from_hidden[gates], from_input[gates];
    recurrent_sums<gates>(weights, h, g.hidden, from_hidden);
    for (int i = 0; i < gates; ++i) {
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
      store_n(h_out, n, (load_n(h + unit, n) - fresh) * z + fresh);
    } else {
      const F x = from_input[0] + from_hidden[0];
      store_n(h_out, n, g.cell == Cell::rnn_relu ? max2(set(0), x) : vtanh(x));
    }
  }
}

static void recurrent_step(const RecurrentStep& g, int64_t begin, int64_t end, float*) {
  for (int64_t i = begin; i < end; ++i) {
    const int64_t block = g.backwards ? end - 1 - (i - begin) : i;
    switch (gates_of(g.cell)) {
      case 4: step<4>(g, block); break;
      case 3: step<3>(g, block); break;
      default: step<1>(g, block); break;
    }
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
