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

// What the layers and directions of one op share.
struct Recurrent {
  Planner& p;
  const Call& c;
  Kind kind;
  int64_t directions, length, batch, hidden;
  View first[2];           // h0 and c0
  std::vector<View> last;  // the states after the last step

  int64_t width() const { return directions * hidden; }
  // The state of one layer in one direction.
  View state(const View& all, int64_t run) const { return part(all, run * batch * hidden, {batch, hidden}); }
};

// One layer in one direction.
struct Run {
  int64_t number, direction;
  const ValueId* weights;  // w_ih w_hh [b_ih b_hh]
  View rows;               // the layer's input [length * batch, in]
  View out;                // the layer's output [length, batch, width]
};

// The input times its weights: at all times, or at the first chunk of steps when the others are made beside the steps.
struct InputProduct {
  View sums;
  bool has_later = false;
  LaterInput later;
};

InputProduct add_input_product(const Recurrent& r, const Run& run) {
  const Kernels& k = kernels();
  Planner& p = r.p;
  const ValueId* w = run.weights;
  const int64_t in = run.rows.sizes[1], chunk = k.beside_rows;
  Gemm args;
  args.m = r.length * r.batch;
  args.n = r.kind.gates * r.hidden;
  args.k = in;
  args.a_row = run.rows.sizes[0] > 1 ? run.rows.strides[0] : in;
  args.c_row = args.n;
  InputProduct made;
  made.has_later = r.batch == 1 && r.length > chunk && p.is_constant(w[0]) && args.n % k.panel == 0;
  LaterInput& later = made.later;
  later = {run.rows, args.a_row, in, args.n, r.length};
  if (made.has_later) {  // rows are steps here, not times
    if (run.direction == 1) {
      later.x.offset += (r.length - 1) * args.a_row;
      later.x_row = args.a_row = -args.a_row;
    }
    args.m = chunk;
  }
  const int64_t rows = made.has_later ? (r.length + chunk - 1) / chunk * chunk : args.m;
  made.sums = later.sums = dense_view(p.new_buffer(static_cast<size_t>(rows * args.n) * 4), DType::f32, {rows, args.n});
  std::vector<Bound> reads = {{offsetof(Gemm, a), later.x}};
  if (p.is_constant(w[0])) {
    later.packed = packed_right(p, w[0], in, args.n, true);
    reads.push_back({offsetof(Gemm, packed), later.packed});
  } else {
    reads.push_back({offsetof(Gemm, b), p.dense(w[0])});
    args.b_row = 1;
    args.b_col = in;
  }
  if (r.c.boolean("has_biases")) {
    later.bias = r.kind.cell == Cell::gru ? p.dense(w[2]) : joined_bias(p, w[2], w[3]);
    reads.push_back({offsetof(Gemm, epilogue) + offsetof(Epilogue, bias), later.bias});
  }
  add_kernel<Gemm>(p, {"gemm", static_cast<double>(args.m * args.n) * static_cast<double>(in)}, k.gemm, k.gemm_units,
                   k.gemm_scratch, args, reads, {{offsetof(Gemm, c), made.sums}});
  return made;
}

// The steps of one layer in one direction, walked by a team of threads.
struct Steps {
  const Kernels* k = nullptr;
  RecurrentStep args;
  View packed, h0, out;
  View memory, bias_hidden;  // no buffer: the cell has none
  InputProduct product;
  int64_t length = 0, direction = 0, units = 0;
  int members = 1;

  void run(const Context& context) const {
    parallel_team(members, [&](Team& team, int member) {
      const int64_t begin = part_of(units, team.size(), member), end = part_of(units, team.size(), member + 1);
      RecurrentStep now = args;
      now.packed = context.pointer(packed);
      if (bias_hidden.buffer != kNoBuffer) now.bias_hh = context.pointer(bias_hidden);
      if (memory.buffer != kNoBuffer) now.c = now.c_out = context.pointer(memory);
      now.h = context.pointer(h0);
      now.h_row = args.hidden;
      Beside beside;
      if (product.has_later) beside = product.later.begin(context, member);
      for (int64_t s = 0; s < length; ++s) {
        const int64_t time = direction == 1 ? length - 1 - s : s;
        now.sums = context.pointer(product.sums) + (product.has_later ? s : time) * args.batch * args.sums_row;
        now.beside = product.has_later && product.later.advance(context, team, member, s, beside) ? &beside : nullptr;
        now.h_out = context.pointer(out) + time * args.batch * args.h_out_row + direction * args.hidden;
        now.backwards = s % 2 == 1;
        k->recurrent_step(now, begin, end, nullptr);
        team.barrier();
        now.h = now.h_out;
        now.h_row = args.h_out_row;
      }
    });
  }
};

void add_steps(const Recurrent& r, const Run& run, const InputProduct& product) {
  Planner& p = r.p;
  const Kernels& k = kernels();
  Steps steps;
  steps.k = &k;
  steps.product = product;
  steps.length = r.length;
  steps.direction = run.direction;
  RecurrentStep& args = steps.args;
  args.cell = r.kind.cell;
  args.batch = r.batch;
  args.hidden = r.hidden;
  args.sums_row = product.later.columns;
  args.h_row = args.h_out_row = r.width();
  args.c_row = args.c_out_row = r.hidden;
  steps.packed = packed_hidden(p, r.kind, run.weights[1], r.hidden);
  steps.h0 = r.state(r.first[0], run.number);
  steps.out = run.out;
  Step step;
  step.kernel = r.c.op().name;
  step.reads = {product.sums.buffer, steps.packed.buffer, steps.h0.buffer};
  step.writes = {run.out.buffer};
  if (r.kind.cell == Cell::gru && r.c.boolean("has_biases")) {
    steps.bias_hidden = p.dense(run.weights[3]);
    step.reads.push_back(steps.bias_hidden.buffer);
  }
  if (r.kind.states == 2) {
    steps.memory = r.state(r.last[1], run.number);
    p.copy(r.state(r.first[1], run.number), steps.memory);
    step.reads.push_back(steps.memory.buffer);
    step.writes.push_back(steps.memory.buffer);
  }
  steps.units = k.recurrent_step_units(args);
  const double step_work = static_cast<double>(r.batch * r.hidden) * static_cast<double>(r.kind.gates * r.hidden);
  step.work = step_work * static_cast<double>(r.length);
  steps.members = parts_for(p.threads(), steps.units, step_work);
  if (product.has_later) {
    LaterInput& later = steps.product.later;
    const int64_t chunk = k.beside_rows, turned = steps.members * later.size * chunk;
    later.turned = dense_view(p.new_buffer(static_cast<size_t>(turned) * 4), DType::f32, {turned});
    step.reads.insert(step.reads.end(), {later.x.buffer, later.packed.buffer});
    if (later.bias.buffer != kNoBuffer) step.reads.push_back(later.bias.buffer);
    step.writes.insert(step.writes.end(), {later.turned.buffer, product.sums.buffer});
    step.work += static_cast<double>((r.length - chunk) * later.size) * static_cast<double>(later.columns);
  }
  step.run = [steps](Context& context) { steps.run(context); };
  if (r.length > 0 && r.batch > 0 && r.hidden > 0) p.add(std::move(step));
}

// The last output is the last state.
void copy_last_state(const Recurrent& r, const Run& run) {
  const int64_t time = run.direction == 1 ? 0 : r.length - 1;
  const View rows = r.length > 0 ? sliced(run.out, {time, 0, run.direction * r.hidden},
                                          {time + 1, r.batch, (run.direction + 1) * r.hidden}, {1, 1, 1})
                                 : part(r.first[0], run.number * r.batch * r.hidden, {1, r.batch, r.hidden});
  r.p.copy(rows, part(r.last[0], run.number * r.batch * r.hidden, {1, r.batch, r.hidden}));
}

bool lower_recurrent(Planner& p, size_t index) {
  const Node& node = p.node(index);
  const Call c = p.call(index);
  const Kind kind = kind_of(node.op->name);
  const Values params = c.values("params");
  const int64_t directions = c.boolean("bidirectional") ? 2 : 1, layers = c.integer("num_layers");
  if (layers == 0) return false;
  View x = p.view(c.value("x"));
  if (c.boolean("batch_first")) x = transposed(x, {1, 0, 2});
  const View h0 = p.dense(c.value("h0"));
  Recurrent r{p, c, kind, directions, x.sizes[0], x.sizes[1], h0.sizes[2], {h0, View()}, {}};
  if (kind.states == 2) r.first[1] = p.dense(c.value("c0"));
  for (size_t i = 0; i < kind.states; ++i) r.last.push_back(p.result(node.results[i + 1]));

  for (int64_t layer = 0; layer < layers; ++layer) {
    const int64_t in = x.sizes[2], times = r.length * r.batch;
    const auto flat = reshaped(x, {times, in});
    const View rows = flat && (in == 1 || flat->strides[1] == 1) ? *flat : *reshaped(p.dense(x), {times, in});
    const View out = dense_view(p.new_buffer(static_cast<size_t>(times * r.width()) * 4), DType::f32,
                                {r.length, r.batch, r.width()});
    for (int64_t direction = 0; direction < directions; ++direction) {
      const int64_t number = layer * directions + direction;
      const Run run{number, direction, params.data() + static_cast<size_t>(number) * each(c), rows, out};
      add_steps(r, run, add_input_product(r, run));
      copy_last_state(r, run);
    }
    x = out;
  }
  p.define(node.results[0], c.boolean("batch_first") ? transposed(x, {1, 0, 2}) : x);
  for (size_t i = 0; i < kind.states; ++i) p.define(node.results[i + 1], r.last[i]);
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
