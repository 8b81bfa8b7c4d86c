// LSTM, GRU and plain recurrent layers: one product over all times, then a team of threads walks the steps. For a batch of
// one, only the first steps' product is made in advance, that of the others beside the steps before them.
#include <fmt/format.h>

#include <map>
#include <string>

#include "backends/cpu/kernel_step.h"
#include "backends/cpu/lowerings.h"
#include "backends/cpu/packing.h"
#include "base/parallel.h"

namespace pycandle::cpu {
namespace {

struct Kind {
  Cell cell;
  int64_t gates;
  size_t states;
};

Kind kind_of(const std::string& op) {
  if (op == "lstm") return {Cell::lstm, 4, 2};
  if (op == "gru") return {Cell::gru, 3, 1};
  return {op == "rnn_tanh" ? Cell::rnn_tanh : Cell::rnn_relu, 1, 1};
}

// Parameters of a layer in a direction: w_ih w_hh [b_ih b_hh]; projections are left to the decomposition.
size_t each(const Call& c) { return c.boolean("has_biases") ? 4 : 2; }

bool claims_recurrent(const Call& c) {
  const auto runs = static_cast<size_t>(c.integer("num_layers")) * (c.boolean("bidirectional") ? 2 : 1);
  const Values params = c.values("params");
  if (runs == 0 || params.size() != runs * each(c) || c.type("x").dtype != DType::f32) return false;
  for (const ValueId v : params) {
    if (c.type(v).dtype != DType::f32 || !all_numbers(c.type(v).shape)) return false;
  }
  return true;
}

View packed_hidden(Planner& p, const Kind& kind, ValueId weight, int64_t hidden) {
  const Kernels& k = kernels();
  PackRecurrent args;
  args.cell = kind.cell;
  args.hidden = hidden;
  const int64_t floats = k.packed_recurrent_size(kind.cell, hidden);
  if (p.is_constant(weight)) {
    const Array packed = p.derived(weight, fmt::format("recurrent {} {}", k.isa, static_cast<int>(kind.cell)),
                                   [&](const Array& w) {
                                     const auto memory = memory_for_runs(static_cast<size_t>(floats) * 4);
                                     args.w_hh = w.as<float>();
                                     args.out = reinterpret_cast<float*>(memory.get());
                                     k.pack_recurrent(args, 0, k.pack_recurrent_units(args), nullptr);
                                     return Array(DType::f32, {floats}, memory.get(), memory);
                                   });
    return dense_view(p.constant_buffer(packed), DType::f32, {floats});
  }
  const View out = dense_view(p.new_buffer(static_cast<size_t>(floats) * 4), DType::f32, {floats});
  add_kernel<PackRecurrent>(p, {"pack_recurrent", static_cast<double>(floats)}, k.pack_recurrent, k.pack_recurrent_units,
                            k.pack_recurrent_scratch, args, {{offsetof(PackRecurrent, w_hh), p.dense(weight)}},
                            {{offsetof(PackRecurrent, out), out}});
  return out;
}

// The bias of the product over all times: of the input, and of the hidden state where the cell does not need it apart.
View joined_bias(Planner& p, ValueId input, ValueId hidden) {
  if (p.is_constant(input) && p.is_constant(hidden)) {
    const Array x = *p.constant(input), y = *p.constant(hidden);
    Array both(DType::f32, x.shape());
    auto* out = static_cast<float*>(both.mutable_data());
    for (int64_t i = 0; i < x.size(); ++i) out[i] = x.as<float>()[i] + y.as<float>()[i];
    return dense_view(p.constant_buffer(both), DType::f32, x.shape());
  }
  const View a = p.dense(input), b = p.dense(hidden);
  const View sum = dense_view(p.new_buffer(static_cast<size_t>(a.count()) * 4), DType::f32, a.sizes);
  Step step;
  step.kernel = "add_biases";
  step.reads = {a.buffer, b.buffer};
  step.writes = {sum.buffer};
  step.run = [a, b, sum](Context& c) {
    const float *x = c.pointer(a), *y = c.pointer(b);
    float* out = c.pointer(sum);
    for (int64_t i = 0; i < sum.count(); ++i) out[i] = x[i] + y[i];
  };
  p.add(std::move(step));
  return sum;
}

View part(const View& v, int64_t offset, Sizes sizes) {
  View out = dense_view(v.buffer, v.dtype, std::move(sizes));
  out.offset = v.offset + offset;
  return out;
}

// The product of the input of later steps, chunk by chunk beside the steps of the chunk before.
struct LaterInput {
  View x;               // the input of the first step
  int64_t x_row = 0;    // from step to step
  int64_t size = 0, columns = 0, length = 0;
  View packed{}, bias{};    // the weight; no bias: no buffer
  View turned{};          // a chunk of x for each member, as Beside wants it
  View sums{};

  Beside begin(const Context& c, int member) const {
    Beside out;
    out.k = size;
    out.a = c.pointer(turned) + member * size * kernels().beside_rows;
    out.packed = c.pointer(packed);
    if (bias.buffer != kNoBuffer) out.bias = c.pointer(bias);
    out.c_row = columns;
    return out;
  }
  // What a member of the team does of it at a step; false when there is no later chunk.
  bool advance(const Context& c, const Team& team, int member, int64_t step, Beside& out) const {
    const int chunk = kernels().beside_rows;
    const int64_t next = step / chunk * chunk + chunk;  // the first step of the next chunk
    if (next >= length) return false;
    if (step % chunk == 0) {
      const float* from = c.pointer(x) + next * x_row;
      float* to = c.pointer(turned) + member * size * chunk;
      for (int64_t k = 0; k < size; ++k)
        for (int64_t r = 0; r < chunk; ++r) to[k * chunk + r] = next + r < length ? from[r * x_row + k] : 0;
    }
    const int64_t panels = columns / kernels().panel, first = part_of(panels, team.size(), member);
    const int64_t mine = part_of(panels, team.size(), member + 1) - first;
    const auto turn = static_cast<int>(step % chunk);
    out.first = first + part_of(mine, chunk, turn);
    out.last = first + part_of(mine, chunk, turn + 1);
    out.c = c.pointer(sums) + next * columns;
    return true;
  }
};

bool lower_recurrent(Planner& p, size_t index) {
  const Node& node = p.node(index);
  const Call c = p.call(index);
  const Kind kind = kind_of(node.op->name);
  const Kernels& k = kernels();
  const Values params = c.values("params");
  const int64_t directions = c.boolean("bidirectional") ? 2 : 1, layers = c.integer("num_layers");
  View x = p.view(c.value("x"));
  if (c.boolean("batch_first")) x = transposed(x, {1, 0, 2});
  const int64_t length = x.sizes[0], batch = x.sizes[1];
  const View first[2] = {p.dense(c.value("h0")), kind.states == 2 ? p.dense(c.value("c0")) : View()};
  const int64_t hidden = first[0].sizes[2], runs = layers * directions;
  std::vector<View> last;
  for (size_t i = 0; i < kind.states; ++i) last.push_back(p.result(node.results[i + 1]));

  for (int64_t layer = 0; layer < layers; ++layer) {
    const int64_t in = x.sizes[2], width = directions * hidden;
    const auto flat = reshaped(x, {length * batch, in});
    const View rows = flat && (in == 1 || flat->strides[1] == 1) ? *flat : *reshaped(p.dense(x), {length * batch, in});
    const View out = dense_view(p.new_buffer(static_cast<size_t>(length * batch * width) * 4), DType::f32,
                                {length, batch, width});
    for (int64_t direction = 0; direction < directions; ++direction) {
      const int64_t run = layer * directions + direction;
      const ValueId* w = params.data() + static_cast<size_t>(run) * each(c);
      Gemm sums;
      sums.m = length * batch;
      sums.n = kind.gates * hidden;
      sums.k = in;
      sums.a_row = rows.sizes[0] > 1 ? rows.strides[0] : in;
      sums.c_row = sums.n;
      const int64_t chunk = k.beside_rows;
      const bool has_later = batch == 1 && length > chunk && p.is_constant(w[0]) && sums.n % k.panel == 0;
      LaterInput later{rows, sums.a_row, in, sums.n, length};
      if (has_later) {  // rows are steps here, not times
        if (direction == 1) {
          later.x.offset += (length - 1) * sums.a_row;
          later.x_row = sums.a_row = -sums.a_row;
        }
        sums.m = chunk;
      }
      const int64_t made_rows = has_later ? (length + chunk - 1) / chunk * chunk : sums.m;
      const View made = dense_view(p.new_buffer(static_cast<size_t>(made_rows * sums.n) * 4), DType::f32, {made_rows, sums.n});
      std::vector<Bound> reads = {{offsetof(Gemm, a), later.x}};
      if (p.is_constant(w[0])) {
        later.packed = packed_right(p, w[0], in, sums.n, true);
        reads.push_back({offsetof(Gemm, packed), later.packed});
      } else {
        reads.push_back({offsetof(Gemm, b), p.dense(w[0])});
        sums.b_row = 1;
        sums.b_col = in;
      }
      if (c.boolean("has_biases")) {
        later.bias = kind.cell == Cell::gru ? p.dense(w[2]) : joined_bias(p, w[2], w[3]);
        reads.push_back({offsetof(Gemm, epilogue) + offsetof(Epilogue, bias), later.bias});
      }
      add_kernel<Gemm>(p, {"gemm", static_cast<double>(sums.m * sums.n) * static_cast<double>(in)}, k.gemm, k.gemm_units,
                       k.gemm_scratch, sums, reads, {{offsetof(Gemm, c), made}});

      RecurrentStep args;
      args.cell = kind.cell;
      args.batch = batch;
      args.hidden = hidden;
      args.sums_row = sums.n;
      args.h_row = args.h_out_row = width;
      args.c_row = args.c_out_row = hidden;
      const View packed = packed_hidden(p, kind, w[1], hidden);
      const View h0 = part(first[0], run * batch * hidden, {batch, hidden});
      View memory, bias_hidden;
      Step step;
      step.reads = {made.buffer, packed.buffer, h0.buffer};
      step.writes = {out.buffer};
      if (kind.cell == Cell::gru && c.boolean("has_biases")) {
        bias_hidden = p.dense(w[3]);
        step.reads.push_back(bias_hidden.buffer);
      }
      if (kind.states == 2) {
        memory = part(last[1], run * batch * hidden, {batch, hidden});
        p.copy(part(first[1], run * batch * hidden, {batch, hidden}), memory);
        step.reads.push_back(memory.buffer);
        step.writes.push_back(memory.buffer);
      }
      step.kernel = node.op->name;
      const int64_t units = k.recurrent_step_units(args);
      const double step_work = static_cast<double>(batch * hidden) * static_cast<double>(kind.gates * hidden);
      step.work = step_work * static_cast<double>(length);
      const int members = parts_for(p.threads(), units, step_work);
      later.sums = made;
      if (has_later) {
        const int64_t turned = members * in * chunk;
        later.turned = dense_view(p.new_buffer(static_cast<size_t>(turned) * 4), DType::f32, {turned});
        step.reads.insert(step.reads.end(), {later.x.buffer, later.packed.buffer});
        if (later.bias.buffer != kNoBuffer) step.reads.push_back(later.bias.buffer);
        step.writes.insert(step.writes.end(), {later.turned.buffer, made.buffer});
        step.work += static_cast<double>((length - chunk) * in) * static_cast<double>(sums.n);
      }
      step.run = [=, &k](Context& context) {
        parallel_team(members, [&](Team& team, int member) {
          const int64_t begin = part_of(units, team.size(), member), end = part_of(units, team.size(), member + 1);
          RecurrentStep now = args;
          now.packed = context.pointer(packed);
          if (bias_hidden.buffer != kNoBuffer) now.bias_hh = context.pointer(bias_hidden);
          if (memory.buffer != kNoBuffer) now.c = now.c_out = context.pointer(memory);
          now.h = context.pointer(h0);
          now.h_row = hidden;
          Beside beside;
          if (has_later) beside = later.begin(context, member);
          for (int64_t s = 0; s < length; ++s) {
            const int64_t time = direction == 1 ? length - 1 - s : s;
            now.sums = context.pointer(made) + (has_later ? s : time) * batch * args.sums_row;
            now.beside = has_later && later.advance(context, team, member, s, beside) ? &beside : nullptr;
            now.h_out = context.pointer(out) + time * batch * width + direction * hidden;
            now.backwards = s % 2 == 1;
            k.recurrent_step(now, begin, end, nullptr);
            team.barrier();
            now.h = now.h_out;
            now.h_row = width;
          }
        });
      };
      if (length > 0 && batch > 0 && hidden > 0) p.add(std::move(step));
      // The last output is the last state.
      const int64_t final_time = direction == 1 ? 0 : length - 1;
      View final_rows = length > 0 ? sliced(out, {final_time, 0, direction * hidden},
                                            {final_time + 1, batch, (direction + 1) * hidden}, {1, 1, 1})
                                   : part(first[0], run * batch * hidden, {1, batch, hidden});
      p.copy(final_rows, part(last[0], run * batch * hidden, {1, batch, hidden}));
    }
    x = out;
  }
  if (runs == 0) return false;
  p.define(node.results[0], c.boolean("batch_first") ? transposed(x, {1, 0, 2}) : x);
  for (size_t i = 0; i < kind.states; ++i) p.define(node.results[i + 1], last[i]);
  return true;
}

}  // namespace

std::vector<Lowering> recurrent_lowerings() {
  return {{"lstm", claims_recurrent, lower_recurrent},
          {"gru", claims_recurrent, lower_recurrent},
          {"rnn_tanh", claims_recurrent, lower_recurrent},
          {"rnn_relu", claims_recurrent, lower_recurrent}};
}

}  // namespace pycandle::cpu
