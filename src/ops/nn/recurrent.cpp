// LSTM, GRU and plain recurrent layers: one matrix product over all inputs, then a scan over time.
#include "ir/mistakes.h"
#include "ops/core/functional_helpers.h"

namespace pycandle {
namespace {

// One step: the two halves of the gates' sums (input and hidden, biases added) and the state → the new state.
// state is {h} or {h, c}.
using Step = Values (*)(Builder&, ValueId from_input, ValueId from_hidden, const Values& state);

struct Recurrence {
  const char* name;
  int64_t gates;
  size_t states;
  Step step;
  bool rounds_each;  // f16 and bf16: torch rounds every number on the way; else it computes in f32 and rounds the states
  bool resets_first = false;  // a GRU whose gate resets the state before the product, as in the first paper
};

ValueId sigmoid(Builder& b, ValueId x) { return b.narrowed(sigmoid_value(b, b.widened(x)), b.dtype(x)); }

// Gate i of n, side by side in the last axis.
ValueId gate(Builder& b, ValueId x, int64_t i, int64_t n) {
  const Dim size = floordiv(b.shape(x).back(), Dim(n));
  return b.slice(x, -1, size * Dim(i), size * Dim(i + 1));
}

Values lstm_step(Builder& b, ValueId from_input, ValueId from_hidden, const Values& state) {
  const ValueId sums = b.add(from_input, from_hidden);
  const auto open = [&](int64_t i) { return sigmoid(b, gate(b, sums, i, 4)); };  // i f g o
  const ValueId c = b.add(b.mul(open(1), state[1]), b.mul(open(0), b.tanh(gate(b, sums, 2, 4))));
  return {b.mul(open(3), b.tanh(c)), c};
}

Values gru_step(Builder& b, ValueId from_input, ValueId from_hidden, const Values& state) {
  const auto both = [&](int64_t i) { return sigmoid(b, b.add(gate(b, from_input, i, 3), gate(b, from_hidden, i, 3))); };  // r z n
  const ValueId fresh = b.tanh(b.add(gate(b, from_input, 2, 3), b.mul(both(0), gate(b, from_hidden, 2, 3))));
  return {b.add(b.mul(b.sub(state[0], fresh), both(1)), fresh)};
}

Values early_reset_step(Builder& b, ValueId from_input, ValueId from_hidden, const Values& state) {
  const auto sum = [&](int64_t i) { return b.add(gate(b, from_input, i, 3), gate(b, from_hidden, i, 3)); };
  const ValueId fresh = b.tanh(sum(2));
  return {b.add(b.mul(b.sub(state[0], fresh), sigmoid(b, sum(1))), fresh)};
}

Values tanh_step(Builder& b, ValueId from_input, ValueId from_hidden, const Values&) {
  return {b.tanh(b.add(from_input, from_hidden))};
}
Values relu_step(Builder& b, ValueId from_input, ValueId from_hidden, const Values&) {
  return {b.maximum(b.add(from_input, from_hidden), 0.0)};
}

constexpr Recurrence kLstm{"lstm", 4, 2, lstm_step, false}, kRoundingLstm{"lstm", 4, 2, lstm_step, true},
    kGru{"gru", 3, 1, gru_step, true}, kTanh{"rnn_tanh", 1, 1, tanh_step, true}, kRelu{"rnn_relu", 1, 1, relu_step, true},
    kEarlyReset{"gru", 3, 1, early_reset_step, true, true};

ValueId product(Builder& b, ValueId x, ValueId weight) {
  return b.dot_general(b.widened(x), b.widened(weight), {}, {}, {b.rank(x) - 1}, {1});
}
ValueId affine_product(Builder& b, const Recurrence& r, ValueId x, ValueId weight, ValueId bias) {
  ValueId y = product(b, x, weight);
  if (bias != kNoValue) y = b.add(y, b.widened(bias));
  return r.rounds_each ? b.narrowed(y, b.dtype(x)) : y;
}
ValueId as_computed_with(Builder& b, const Recurrence& r, ValueId state) { return r.rounds_each ? state : b.widened(state); }

// What the state gives to the gates.
ValueId hidden_part(Builder& b, const Recurrence& r, ValueId from_input, ValueId h, ValueId weight, ValueId bias) {
  const ValueId whole = affine_product(b, r, h, weight, bias);
  if (!r.resets_first) return whole;
  const ValueId reset = sigmoid(b, b.add(gate(b, from_input, 0, 3), gate(b, whole, 0, 3)));
  const ValueId kept = b.mul(h, reset);
  return b.concat({gate(b, whole, 0, 3), gate(b, whole, 1, 3), gate(b, affine_product(b, r, kept, weight, bias), 2, 3)},
                  b.rank(h) - 1);
}

// The parameters of one layer in one direction.
struct Weights {
  ValueId input, hidden, input_bias = kNoValue, hidden_bias = kNoValue, projection = kNoValue;
};

struct LayerResult {
  ValueId output;  // [T, N, H]
  Values last;  // the states after the last step, [N, H]
};

// One layer in one direction over x [T, N, I]. A region sees only its inputs, so the weights ride along as carries.
// `alive` [T, N, 1], or none: a step where it is false gives zeros and leaves the state as it was.
LayerResult run_layer(Builder& b, const Recurrence& r, ValueId x, ValueId alive, Values state, const Weights& w, bool reverse) {
  const DType dtype = b.dtype(x);
  const Dim length = b.shape(x)[0];
  const ValueId from_input = affine_product(b, r, x, w.input, w.input_bias);

  Values carries = std::move(state);
  const auto carry = [&](ValueId v) {
    if (v == kNoValue) return kNoValue;
    carries.push_back(v);
    return static_cast<ValueId>(carries.size() - 1);
  };
  const ValueId hidden = carry(w.hidden), bias = carry(w.hidden_bias), projection = carry(w.projection);

  Graph body;
  Builder inner = b.region(body);
  Values inputs;
  for (const ValueId v : carries) inputs.push_back(body.add_input(b.type(v)));
  Type slice = b.type(from_input);
  slice.shape.erase(slice.shape.begin());
  const ValueId now = body.add_input(slice);
  const ValueId is_alive = alive == kNoValue ? kNoValue : body.add_input({DType::boolean, {b.shape(alive)[1], Dim(1)}});
  const auto input = [&](ValueId index) { return index == kNoValue ? kNoValue : inputs[index]; };

  Values before;
  for (size_t i = 0; i < r.states; ++i) before.push_back(as_computed_with(inner, r, inputs[i]));
  Values next = r.step(inner, now, hidden_part(inner, r, now, inputs[0], input(hidden), input(bias)), before);
  if (projection != kNoValue) next[0] = product(inner, inner.narrowed(next[0], dtype), input(projection));
  Values outputs = inputs;
  for (size_t i = 0; i < r.states; ++i) outputs[i] = inner.narrowed(next[i], dtype);
  outputs.push_back(outputs[0]);
  if (is_alive != kNoValue) {
    outputs.back() = inner.select(is_alive, outputs[0], inner.full(Scalar{int64_t{0}}, dtype));
    for (size_t i = 0; i < r.states; ++i) outputs[i] = inner.select(is_alive, outputs[i], inputs[i]);
  }
  body.outputs = std::move(outputs);

  const int64_t count = static_cast<int64_t>(carries.size());
  carries.push_back(from_input);
  if (alive != kNoValue) carries.push_back(alive);
  std::vector<Graph> regions;
  regions.push_back(std::move(body));
  const Values results = b.create_all("scan", carries, {{"carries", count}, {"length", length}, {"reverse", reverse}},
                                      std::move(regions));
  return {results[count], Values(results.begin(), results.begin() + static_cast<std::ptrdiff_t>(r.states))};
}

// How torch lays out the parameters: layer by layer, direction by direction, w_ih w_hh [b_ih b_hh] [w_hr].
struct Layout {
  size_t layers, directions, biases, each;
  explicit Layout(const Call& c) {
    layers = static_cast<size_t>(c.integer("num_layers"));
    directions = c.boolean("bidirectional") ? 2 : 1;
    biases = c.boolean("has_biases") ? 2 : 0;
    const size_t runs = layers * directions;
    each = runs == 0 || c.values("params").size() % runs != 0 ? 0 : c.values("params").size() / runs;
  }
  bool projects() const { return each == 3 + biases; }
  bool valid(bool may_project) const { return each == 2 + biases || (may_project && projects()); }
  Weights weights(const Values& params, size_t run) const {
    const ValueId* p = params.data() + run * each;
    Weights w{p[0], p[1]};
    if (biases != 0) {
      w.input_bias = p[2];
      w.hidden_bias = p[3];
    }
    if (projects()) w.projection = p[2 + biases];
    return w;
  }
};

const char* const kStateNames[] = {"h0", "c0"};

// [T, N, 1]: does sequence n have a step t?
ValueId steps_within(Builder& b, Dim steps, ValueId lengths) {
  const ValueId times = b.unsqueeze(b.iota(steps), 1);
  return b.unsqueeze(b.compare("lt", times, b.unsqueeze(b.cast(lengths, DType::i64), 0)), 2);
}

// torch's call, and ours with `lengths` as well.
Values imported_layers(AtenCall& a, const Recurrence& r, const std::string& name, bool padded) {
  const bool train = a.boolean("train");
  const double dropout = a.number("dropout");
  const int64_t layers = a.integer("num_layers");
  if (train && dropout != 0 && layers > 1) a.unsupported("dropout in training (call model.eval() before recording)");
  Values operands{a.tensor("input")};
  if (padded) operands.push_back(a.tensor("lengths"));
  if (r.states == 1) {
    operands.push_back(a.tensor("hx"));
  } else {
    for (const ValueId v : a.tensors("hx")) operands.push_back(v);
  }
  for (const ValueId v : a.tensors("params")) operands.push_back(v);
  return a.b.create_all(name, operands,
                        {{"has_biases", a.boolean("has_biases")},
                         {"num_layers", layers},
                         {"bidirectional", a.boolean("bidirectional")},
                         {"batch_first", a.boolean("batch_first")}});
}

// Layer by layer, and both directions of each: the output and the last states of all.
Values decomposed_layers(Builder& b, const Call& c, const Recurrence& r, bool padded) {
  const Layout layout(c);
  const Values params = c.values("params");
  const bool batch_first = c.boolean("batch_first");
  ValueId x = batch_first ? b.swap_axes(c.value("x"), 0, 1) : c.value("x");
  const ValueId alive = padded ? steps_within(b, b.shape(x)[0], c.value("lengths")) : kNoValue;
  std::vector<Values> last(r.states);
  for (size_t layer = 0; layer < layout.layers; ++layer) {
    Values outputs;
    for (size_t direction = 0; direction < layout.directions; ++direction) {
      const size_t run = layer * layout.directions + direction;
      Values state;
      for (size_t i = 0; i < r.states; ++i)
        state.push_back(b.select_index(c.value(kStateNames[i]), 0, Dim(static_cast<int64_t>(run))));
      const LayerResult result = run_layer(b, r, x, alive, state, layout.weights(params, run), direction == 1);
      outputs.push_back(result.output);
      for (size_t i = 0; i < r.states; ++i) last[i].push_back(b.unsqueeze(result.last[i], 0));
    }
    x = b.concat(outputs, 2);
  }
  Values results{batch_first ? b.swap_axes(x, 0, 1) : x};
  for (const Values& each : last) results.push_back(b.concat(each, 0));
  return results;
}

// `padded`: x is padded, and the operand `lengths` says how many steps each sequence has.
OpDef recurrent(const Recurrence& r, bool padded = false) {
  const std::string name = (padded ? "padded_" : "") + std::string(r.name);
  OpDef def = functional(name);
  def.doc(
      padded
          ? "recurrent layers over padded sequences of these lengths: steps behind a sequence's end give zeros, its last states "
            "are those at its end, and the other direction starts there"
          : "recurrent layers over [T, N, I] (or [N, T, I]), all of them and both directions: output and last states");
  def.operands("x");
  if (padded) def.operands("lengths");
  for (size_t i = 0; i < r.states; ++i) def.operands(kStateNames[i]);
  def.operands(variadic("params"));
  if (r.step == lstm_step)  // where oneDNN does not have it
    def.spellings.emplace_back([padded](Builder& b, const Call& c) { return decomposed_layers(b, c, kRoundingLstm, padded); });
  const auto build = [r, name, padded](AtenCall& a) { return imported_layers(a, r, name, padded); };
  if (padded) {
    def.constraint(name + "_c4", "lengths are integers, one for each sequence", [](const Call& c) {
      return is_integral(c.type("lengths").dtype) && c.rank("lengths") == 1 && c.rank("x") == 3 &&
             c.agree(c.shape("lengths")[0], c.shape("x")[c.boolean("batch_first") ? 0 : 1]);
    });
  } else {
    def.from_aten_call("aten." + name + ".input", build);
  }
  return def
      .attributes(attr<bool>("has_biases", true), attr<int64_t>("num_layers", int64_t{1}), attr<bool>("bidirectional", false),
                  attr<bool>("batch_first", false))
      .constraint(name + "_c1", "x and the first states have three axes",
                  [r](const Call& c) {
                    for (size_t i = 0; i < r.states; ++i) {
                      if (c.rank(kStateNames[i]) != 3) return false;
                    }
                    return c.rank("x") == 3;
                  })
      .constraint(name + "_c2", "there are as many parameters as layers, directions, biases and projections ask for",
                  [r](const Call& c) { return Layout(c).valid(r.states == 2); })
      .constraint(name + "_c3", "the batch of x is that of the first states, whose first dim is layers times directions",
                  [](const Call& c) {
                    const Layout layout(c);
                    return c.agree(c.shape("x")[c.boolean("batch_first") ? 0 : 1], c.shape("h0")[1]) &&
                           c.agree(c.shape("h0")[0], Dim(static_cast<int64_t>(layout.layers * layout.directions)));
                  })
      .infer_all([r](const Call& c) {
        Type output = c.type("x");
        output.shape[2] = c.shape("h0")[2] * Dim(static_cast<int64_t>(Layout(c).directions));
        std::vector<Type> results{output};
        for (size_t i = 0; i < r.states; ++i) results.push_back(c.type(kStateNames[i]));
        return results;
      })
      .decompose_all([r, padded](Builder& b, const Call& c) { return decomposed_layers(b, c, r, padded); })
      .from_aten_call("pycandle." + name + ".default", build);
}

// ---- what people get wrong

// Where the parameters stand: after x and the states, as many for each layer and direction.
struct Runs {
  explicit Runs(const Call& c, size_t states)
      : first(1 + states),
        count(static_cast<size_t>(c.integer("num_layers")) * (c.boolean("bidirectional") ? 2 : 1)),
        each(count == 0 ? 0 : c.values("params").size() / count) {}
  size_t first, count, each;
};

void gate_order(Mistakes& m, const Runs& runs, const Ints& order, const char* now, const char* instead) {
  m.build("gate order", now, instead, [=](const MistakeSite& site) {
    Values operands = site.operands;
    for (size_t i = runs.first; i < operands.size(); ++i) {
      const size_t place = (i - runs.first) % runs.each;
      const bool projects = site.b.rank(operands[i]) == 2 && place + 1 == runs.each && place >= 2;
      if (!projects) operands[i] = reordered(site.b, operands[i], 0, order);
    }
    return site.same(operands);
  });
}

void direction_order(Mistakes& m, const Runs& runs) {
  m.build("direction order", "forwards, then backwards", "backwards, then forwards", [=](const MistakeSite& site) {
    Values operands = site.operands;
    for (size_t run = 0; run + 1 < runs.count; run += 2) {
      for (size_t i = 0; i < runs.each; ++i)
        std::swap(operands[runs.first + run * runs.each + i], operands[runs.first + (run + 1) * runs.each + i]);
    }
    return site.same(operands);
  });
  m.result("direction order", "forwards, then backwards", "the outputs of the directions swapped",
           [](Builder& b, ValueId y) { return reordered(b, y, b.rank(y) - 1, {1, 0}); });
}

void missing_biases(Mistakes& m, const Runs& runs) {
  for (const auto& [place, text] :
       std::vector<std::pair<size_t, std::string>>{{2, "bias of the input"}, {3, "bias of the state"}}) {
    m.build("missing bias", text, "no " + text, [runs, place = place](const MistakeSite& site) {
      Values operands = site.operands;
      for (size_t i = runs.first + place; i < operands.size(); i += runs.each) operands[i] = site.b.like(operands[i], 0.0);
      return site.same(operands);
    });
  }
}

std::function<void(Mistakes&)> recurrent_mistakes(const Recurrence& r) {
  return [r](Mistakes& m) {
    const Runs runs(m.call(), r.states);
    if (r.gates == 4) {
      constexpr const char* kNow = "gates in the order i f g o";
      gate_order(m, runs, {0, 1, 3, 2}, kNow, "gates in the order i f o g");
      gate_order(m, runs, {0, 2, 1, 3}, kNow, "gates in the order i g f o");
      gate_order(m, runs, {1, 0, 2, 3}, kNow, "gates in the order f i g o");
      gate_order(m, runs, {0, 3, 1, 2}, kNow, "gates in the order i o f g");
    }
    if (r.gates == 3) {
      m.build("gru reset", "the reset gate times the product", "the reset gate before the product", [](const MistakeSite& site) {
        const Call call(*site.node.op, site.b.graph(), site.operands, site.node.attributes, site.node.regions);
        return decomposed_layers(site.b, call, kEarlyReset, false);
      });
      gate_order(m, runs, {1, 0, 2}, "gates in the order r z n", "gates in the order z r n");
      gate_order(m, runs, {0, 2, 1}, "gates in the order r z n", "gates in the order r n z");
    }
    if (m.call().boolean("bidirectional")) direction_order(m, runs);
    if (m.call().boolean("has_biases")) missing_biases(m, runs);
  };
}

// The layer as nn has it: a module and what people get wrong with it.
OpDef layer(const Recurrence& r, const char* nn_class, const char* member) {
  return recurrent(r).nn(nn_class).member(member).mistakes(recurrent_mistakes(r));
}

Values decomposed_cell(Builder& b, const Call& c, const Recurrence& r) {
  const auto or_none = [&](const char* operand) { return c.maybe(operand).value_or(kNoValue); };
  const DType dtype = c.type("x").dtype;
  Values state{as_computed_with(b, r, c.value("h"))};
  if (r.states == 2) state.push_back(as_computed_with(b, r, c.value("c")));
  const ValueId from_input = affine_product(b, r, c.value("x"), c.value("w_ih"), or_none("b_ih"));
  Values next = r.step(b, from_input, hidden_part(b, r, from_input, c.value("h"), c.value("w_hh"), or_none("b_hh")), state);
  for (ValueId& v : next) v = b.narrowed(v, dtype);
  return next;
}

void cell_mistakes(Mistakes& m) {
  if (m.call().op().name != "gru_cell") return;
  m.build("gru reset", "the reset gate times the product", "the reset gate before the product", [](const MistakeSite& site) {
    return decomposed_cell(site.b, Call(*site.node.op, site.b.graph(), site.operands, site.node.attributes, site.node.regions),
                           kEarlyReset);
  });
}

// One step, as nn.LSTMCell and its like call it.
OpDef cell(const Recurrence& r) {
  const std::string name = std::string(r.name) + "_cell";
  OpDef def = functional(name);
  def.doc("one step of a recurrent layer");
  def.operands("x", "h");
  if (r.states == 2) def.operands("c");
  def.operands("w_ih", "w_hh", optional("b_ih"), optional("b_hh"));
  return def
      .constraint(name + "_c1", "the weights have a row for each gate and unit",
                  [r](const Call& c) {
                    return c.rank("w_ih") == 2 && c.rank("w_hh") == 2 && c.rank("x") >= 1 && c.rank("h") == c.rank("x") &&
                           c.agree(c.shape("w_hh")[0], c.shape("h").back() * Dim(r.gates)) &&
                           c.agree(c.shape("w_ih")[0], c.shape("w_hh")[0]);
                  })
      .infer_all([r](const Call& c) {
        std::vector<Type> results{c.type("h")};
        if (r.states == 2) results.push_back(c.type("c"));
        return results;
      })
      .decompose_all([r](Builder& b, const Call& c) { return decomposed_cell(b, c, r); })
      .from_aten_call("aten." + name + ".default",
                      [r, name](AtenCall& a) {
                        const auto or_none = [&](const char* argument) { return a.maybe_tensor(argument).value_or(kNoValue); };
                        Values operands{a.tensor("input")};
                        if (r.states == 1) {
                          operands.push_back(a.tensor("hx"));
                        } else {
                          for (const ValueId v : a.tensors("hx")) operands.push_back(v);
                        }
                        for (const ValueId v : {a.tensor("w_ih"), a.tensor("w_hh"), or_none("b_ih"), or_none("b_hh")})
                          operands.push_back(v);
                        return a.b.create_all(name, operands);
                      })
      .mistakes(cell_mistakes);
}

}  // namespace

std::vector<OpDef> recurrent_ops() {
  return {
      layer(kLstm, "LSTM", "lstm")
          .sample("torch.ops.pycandle.lstm(t(5, 2, 3), [t(1, 2, 4), t(1, 2, 4)], [t(16, 3), t(16, 4), t(16), t(16)], True, "
                  "1, 0.0, False, False, False)")
          .sample("torch.ops.pycandle.lstm(t(2, 5, 3), [t(4, 2, 4), t(4, 2, 4)], [t(16, 3), t(16, 4), t(16, 3), t(16, 4), "
                  "t(16, 8), t(16, 4), t(16, 8), t(16, 4)], "
                  "False, 2, 0.0, False, True, True)")
          .sample("torch.ops.pycandle.lstm(t(5, 2, 3), [t(1, 2, 2), t(1, 2, 4)], [t(16, 3), t(16, 2), t(16), t(16), t(2, "
                  "4)], True, 1, 0.0, False, False, False)"),
      layer(kGru, "GRU", "gru")
          .sample("torch.ops.pycandle.gru(t(5, 2, 3), t(2, 2, 4), [t(12, 3), t(12, 4), t(12), t(12), t(12, 3), t(12, 4), "
                  "t(12), t(12)], True, 1, 0.0, False, True, False)")
          .sample("torch.ops.pycandle.gru(t(2, 5, 3), t(1, 2, 4), [t(12, 3), t(12, 4)], False, 1, 0.0, False, False, True)"),
      layer(kTanh, "RNN", "rnn")
          .called("tanh")
          .mistaken_for("activation", {"rnn_relu"})
          .sample("torch.ops.pycandle.rnn_tanh(t(5, 2, 3), t(2, 2, 4), [t(4, 3), t(4, 4), t(4), t(4), t(4, 4), "
                  "t(4, 4), t(4), t(4)], True, 2, 0.0, False, False, False)"),
      layer(kRelu, "RNN", "rnn")
          .called("ReLU")
          .mistaken_for("activation", {"rnn_tanh"})
          .sample("torch.ops.pycandle.rnn_relu(t(5, 2, 3), t(1, 2, 4), [t(4, 3), t(4, 4), t(4), t(4)], True, 1, "
                  "0.0, False, False, False)"),
      recurrent(kLstm, true)
          .sample(
              "torch.ops.pycandle.padded_lstm(t(5, 2, 3), i(2, low=1, high=5), [t(2, 2, 4), t(2, 2, 4)], [t(16, 3), t(16, 4), "
              "t(16), t(16), t(16, 3), t(16, 4), t(16), t(16)], True, 1, 0.0, False, True, False)")
          .sample(
              "torch.ops.pycandle.padded_lstm(t(3, 5, 3), i(3, low=1, high=5), [t(1, 3, 2), t(1, 3, 4)], [t(16, 3), t(16, 2), "
              "t(2, 4)], False, 1, 0.0, False, False, True)"),
      recurrent(kGru, true)
          .sample("torch.ops.pycandle.padded_gru(t(3, 5, 3), i(3, low=1, high=5), t(2, 3, 4), [t(12, 3), t(12, 4), t(12, 4), "
                  "t(12, 4)], False, 2, 0.0, False, False, True)"),
      recurrent(kTanh, true)
          .sample("torch.ops.pycandle.padded_rnn_tanh(t(5, 2, 3), i(2, low=1, high=5), t(1, 2, 4), [t(4, 3), t(4, 4), t(4), "
                  "t(4)], True, 1, 0.0, False, False, False)"),
      recurrent(kRelu, true)
          .sample("torch.ops.pycandle.padded_rnn_relu(t(5, 2, 3), i(2, low=1, high=5), t(1, 2, 4), [t(4, 3), t(4, 4), t(4), "
                  "t(4)], True, 1, 0.0, False, False, False)"),
      cell(kRoundingLstm)
          .sample("torch.lstm_cell(t(2, 3), [t(2, 4), t(2, 4)], t(16, 3), t(16, 4), t(16), t(16))")
          .sample("torch.lstm_cell(t(2, 3), [t(2, 4), t(2, 4)], t(16, 3), t(16, 4))")
          .spelled_torch("torch.lstm_cell({x}, ({h}, {c}), {w_ih}, {w_hh}, {b_ih}, {b_hh})"),
      cell(kGru)
          .sample("torch.gru_cell(t(2, 3), t(2, 4), t(12, 3), t(12, 4), t(12), t(12))")
          .spelled_torch("torch.gru_cell({x}, {h}, {w_ih}, {w_hh}, {b_ih}, {b_hh})"),
      cell(kTanh).sample("torch.rnn_tanh_cell(t(2, 3), t(2, 4), t(4, 3), t(4, 4), t(4), t(4))"),
      cell(kRelu).sample("torch.rnn_relu_cell(t(2, 3), t(2, 4), t(4, 3), t(4, 4), t(4), t(4))")};
}

}  // namespace pycandle
