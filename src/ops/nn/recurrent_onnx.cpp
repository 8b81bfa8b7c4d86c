// ONNX's RNN, GRU and LSTM: gates in their order, both directions, activations of the file's choice.
#include <map>

#include "ops/core/onnx_helpers.h"

namespace pycandle {
namespace {

struct Activation {
  std::string name;
  double alpha = 0, beta = 0;
};

ValueId activated(AtenCall& c, Builder& b, const Activation& a, ValueId x) {
  if (a.name == "sigmoid") return sigmoid_value(b, x);
  if (a.name == "tanh") return b.tanh(x);
  if (a.name == "relu") return b.maximum(x, 0.0);
  if (a.name == "affine") return b.add(b.mul(x, a.alpha), a.beta);
  if (a.name == "leakyrelu") return b.select(b.compare("lt", x, 0.0), b.mul(x, a.alpha), x);
  if (a.name == "thresholdedrelu") return b.select(b.compare("ge", x, a.alpha), x, b.like(x, 0.0));
  if (a.name == "scaledtanh") return b.mul(b.tanh(b.mul(x, a.beta)), a.alpha);
  if (a.name == "hardsigmoid") return b.minimum(b.maximum(b.add(b.mul(x, a.alpha), a.beta), 0.0), 1.0);
  if (a.name == "elu") return b.select(b.compare("lt", x, 0.0), b.mul(b.sub(b.exp(x), 1.0), a.alpha), x);
  if (a.name == "softsign") return b.div(x, b.add(b.abs(x), 1.0));
  if (a.name == "softplus") return b.unary("log1p", b.exp(x));
  c.unsupported("activation '" + a.name + "'");
}

// Names in any case; alpha and beta are given in the order of those that take them.
std::vector<Activation> activations_of(AtenCall& c, const std::vector<std::string>& defaults, size_t directions) {
  static const std::map<std::string, std::pair<double, double>> kDefaults = {
      {"affine", {1, 0}},     {"leakyrelu", {0.01, 0}},    {"thresholdedrelu", {1, 0}},
      {"scaledtanh", {1, 1}}, {"hardsigmoid", {0.2, 0.5}}, {"elu", {1, 0}}};
  std::vector<Activation> all;
  if (c.is_none("activations")) {
    for (size_t d = 0; d < directions; ++d)
      for (const std::string& name : defaults) all.push_back({name});
  } else {
    for (const Argument* each : c.list("activations")) {
      std::string name = std::get<std::string>(each->value);
      for (char& letter : name) letter = static_cast<char>(std::tolower(static_cast<unsigned char>(letter)));
      all.push_back({name});
    }
  }
  if (all.size() > defaults.size() * directions) all.resize(defaults.size() * directions);  // the schema's default names two
  c.expects(all.size() == defaults.size() * directions, "an activation for each gate and direction");
  const Numbers alphas = c.numbers("activation_alpha"), betas = c.numbers("activation_beta");
  size_t next_alpha = 0, next_beta = 0;
  for (Activation& a : all) {
    const auto found = kDefaults.find(a.name);
    if (found == kDefaults.end()) continue;
    std::tie(a.alpha, a.beta) = found->second;
    if (next_alpha < alphas.size()) a.alpha = alphas[next_alpha++];
    const bool takes_beta = a.name == "affine" || a.name == "scaledtanh" || a.name == "hardsigmoid";
    if (takes_beta && next_beta < betas.size()) a.beta = betas[next_beta++];
  }
  return all;
}

struct Cell {
  enum class Kind { rnn, gru, lstm } kind;
  int64_t gates, states;
  std::vector<std::string> activations;
};
const Cell kRnn{Cell::Kind::rnn, 1, 1, {"tanh"}}, kGru{Cell::Kind::gru, 3, 1, {"sigmoid", "tanh"}},
    kLstm{Cell::Kind::lstm, 4, 2, {"sigmoid", "tanh", "tanh"}};

// The parameters of one direction, wide.
struct CellWeights {
  ValueId hidden, input_bias = kNoValue, hidden_bias = kNoValue, peepholes = kNoValue;
};

struct Steps {
  AtenCall& c;
  Builder& b;
  std::vector<Activation> f;
  double clip;
  Dim size;
  bool couples = false, resets_late = false;
  CellWeights w;

  ValueId gate(ValueId x, int64_t i) const { return b.slice(x, -1, size * Dim(i), size * Dim(i + 1)); }
  ValueId act(size_t i, ValueId x) const {
    if (clip > 0) x = b.minimum(b.maximum(x, -clip), clip);
    return activated(c, b, f.at(i), x);
  }
  ValueId product(ValueId h, ValueId weight) const { return b.dot_general(h, weight, {}, {}, {1}, {1}); }
  ValueId hidden(ValueId h) const {
    const ValueId y = product(h, w.hidden);
    return w.hidden_bias == kNoValue ? y : b.add(y, w.hidden_bias);
  }

  Values rnn(ValueId now, const Values& s) const { return {act(0, b.add(now, hidden(s[0])))}; }

  // z r h
  Values gru(ValueId now, const Values& s) const {
    const ValueId whole = hidden(s[0]);
    const ValueId z = act(0, b.add(gate(now, 0), gate(whole, 0))), r = act(0, b.add(gate(now, 1), gate(whole, 1)));
    ValueId fresh = gate(whole, 2);
    if (resets_late) {
      fresh = b.mul(r, fresh);
    } else {
      fresh = product(b.mul(r, s[0]), b.slice(w.hidden, 0, size * Dim(2), size * Dim(3)));
      if (w.hidden_bias != kNoValue) fresh = b.add(fresh, gate(w.hidden_bias, 2));
    }
    fresh = act(1, b.add(gate(now, 2), fresh));
    return {b.add(b.mul(b.sub(1.0, z), fresh), b.mul(z, s[0]))};
  }

  // i o f c
  Values lstm(ValueId now, const Values& s) const {
    const ValueId sums = b.add(now, hidden(s[0]));
    const auto peep = [&](ValueId x, int64_t i, ValueId cell) {
      return w.peepholes == kNoValue ? x : b.add(x, b.mul(gate(w.peepholes, i), cell));
    };
    const ValueId i = act(0, peep(gate(sums, 0), 0, s[1]));
    const ValueId forget = couples ? b.sub(1.0, i) : act(0, peep(gate(sums, 2), 2, s[1]));
    const ValueId cell = b.add(b.mul(forget, s[1]), b.mul(i, act(1, gate(sums, 3))));
    const ValueId o = act(0, peep(gate(sums, 1), 1, cell));
    return {b.mul(o, activated(c, b, f.at(2), cell)), cell};
  }

  Values step(Cell::Kind kind, ValueId now, const Values& s) const {
    return kind == Cell::Kind::rnn ? rnn(now, s) : kind == Cell::Kind::gru ? gru(now, s) : lstm(now, s);
  }
};

struct Run {
  ValueId output;  // [T, N, H]
  Values last;     // [N, H]
};

// One direction. alive [T, N, 1]: steps where it is false give zeros and leave the state.
Run run_direction(AtenCall& c, const Cell& cell, Steps steps, ValueId from_input, ValueId alive, Values states, bool reverse) {
  Builder& b = c.b;
  const Dim length = b.shape(from_input)[0];
  Values carries = std::move(states);
  Graph body;
  Builder inner = b.region(body);
  for (ValueId* v : {&steps.w.hidden, &steps.w.hidden_bias, &steps.w.peepholes})
    if (*v != kNoValue) carries.push_back(*v);
  Values inputs;
  for (const ValueId v : carries) inputs.push_back(body.add_input(b.type(v)));
  size_t next = static_cast<size_t>(cell.states);
  CellWeights inside{inputs.at(next++)};
  if (steps.w.hidden_bias != kNoValue) inside.hidden_bias = inputs.at(next++);
  if (steps.w.peepholes != kNoValue) inside.peepholes = inputs.at(next++);
  Type slice = b.type(from_input);
  slice.shape.erase(slice.shape.begin());
  const ValueId now = body.add_input(slice);
  const ValueId is_alive = alive == kNoValue ? kNoValue : body.add_input({DType::boolean, {b.shape(alive)[1], Dim(1)}});
  const Steps in_body{c, inner, steps.f, steps.clip, steps.size, steps.couples, steps.resets_late, inside};
  const Values made = in_body.step(cell.kind, now, Values(inputs.begin(), inputs.begin() + cell.states));
  Values outputs = inputs;
  for (int64_t i = 0; i < cell.states; ++i)
    outputs[i] = is_alive == kNoValue ? made[i] : inner.select(is_alive, made[i], inputs[i]);
  outputs.push_back(is_alive == kNoValue ? made[0] : inner.select(is_alive, made[0], inner.full(0.0, inner.dtype(made[0]))));
  body.outputs = std::move(outputs);
  const auto count = static_cast<int64_t>(carries.size());
  carries.push_back(from_input);
  if (alive != kNoValue) carries.push_back(alive);
  std::vector<Graph> regions;
  regions.push_back(std::move(body));
  const Values results = b.create_all("scan", carries, {{"carries", count}, {"length", length}, {"reverse", reverse}},
                                      std::move(regions));
  return {results[count], Values(results.begin(), results.begin() + cell.states)};
}

// Rows of the gates in another order: i o f c → i f c o.
ValueId gates_moved(Builder& b, ValueId x, Dim size, const Ints& order) {
  Values parts;
  for (const int64_t i : order) parts.push_back(b.slice(x, 0, size * Dim(i), size * Dim(i + 1)));
  return parts.size() == 1 ? parts[0] : b.concat(parts, 0);
}

struct Layer {
  ValueId x, w, r;                        // x: [T, N, I]
  std::optional<ValueId> bias = {}, lengths = {}, peepholes = {};
  Values initial = {};                    // [D, N, H]
  int64_t directions = 1;
  Dim size = 0;
  bool reverse = false, batch_first = false;
  std::vector<Activation> activations = {};
  double clip = 0;
  bool couples = false, resets_late = false;
};

bool is_torchs(const Cell& cell, const Layer& l) {
  if (l.lengths || l.peepholes || l.clip > 0 || l.couples || (l.reverse && l.directions == 1)) return false;
  if (cell.kind == Cell::Kind::gru && !l.resets_late) return false;
  for (size_t i = 0; i < l.activations.size(); ++i) {
    const std::string& name = l.activations[i].name;
    const bool is_relu_layer = cell.kind == Cell::Kind::rnn && name == "relu" && name == l.activations[0].name;
    if (name != cell.activations[i % cell.activations.size()] && !is_relu_layer) return false;
  }
  return true;
}

// As torch's layer: its order of gates, and one operator.
Values as_torch(Builder& b, const Cell& cell, const Layer& l) {
  const Ints order = cell.kind == Cell::Kind::rnn ? Ints{0} : cell.kind == Cell::Kind::gru ? Ints{1, 0, 2} : Ints{0, 2, 3, 1};
  Values operands{l.x};
  operands.insert(operands.end(), l.initial.begin(), l.initial.end());
  for (int64_t d = 0; d < l.directions; ++d) {
    operands.push_back(gates_moved(b, b.select_index(l.w, 0, d), l.size, order));
    operands.push_back(gates_moved(b, b.select_index(l.r, 0, d), l.size, order));
    if (!l.bias) continue;
    const ValueId both = b.select_index(*l.bias, 0, d);
    const Dim half = l.size * Dim(cell.gates);
    operands.push_back(gates_moved(b, b.slice(both, 0, 0, half), l.size, order));
    operands.push_back(gates_moved(b, b.slice(both, 0, half, half * Dim(2)), l.size, order));
  }
  const char* op = cell.kind == Cell::Kind::lstm     ? "lstm"
                   : cell.kind == Cell::Kind::gru    ? "gru"
                   : l.activations[0].name == "relu" ? "rnn_relu"
                                                     : "rnn_tanh";
  Values made = b.create_all(op, operands,
                             {{"has_biases", l.bias.has_value()},
                              {"num_layers", int64_t{1}},
                              {"bidirectional", l.directions == 2},
                              {"batch_first", false}});
  const Shape s = b.shape(made[0]);
  made[0] = b.transpose(b.reshape(made[0], {s[0], s[1], Dim(l.directions), l.size}), {0, 2, 1, 3});
  return made;
}

// [T, D, N, H], then [D, N, H] of each state.
Values written_out(AtenCall& c, const Cell& cell, const Layer& l) {
  Builder& b = c.b;
  const DType dtype = b.dtype(l.x);
  const Dim length = b.shape(l.x)[0], batch = b.shape(l.x)[1];
  ValueId alive = kNoValue;
  if (l.lengths) {
    const ValueId each = b.reshape(b.cast(*l.lengths, DType::i64), {1, batch, 1});
    alive = b.compare("lt", b.reshape(b.iota(length), {length, 1, 1}), each);
  }
  Values outputs;
  std::vector<Values> last(static_cast<size_t>(cell.states));
  const size_t each = cell.activations.size();
  for (int64_t d = 0; d < l.directions; ++d) {
    Steps steps{c, b, {}, l.clip, l.size, l.couples, l.resets_late, {}};
    for (size_t i = 0; i < each; ++i) steps.f.push_back(l.activations[static_cast<size_t>(d) * each + i]);
    const auto part = [&](ValueId v) { return b.widened(b.select_index(v, 0, d)); };
    steps.w.hidden = part(l.r);
    ValueId from_input = b.dot_general(b.widened(l.x), part(l.w), {}, {}, {2}, {1});
    if (l.bias) {
      const Dim half = l.size * Dim(cell.gates);
      from_input = b.add(from_input, b.slice(part(*l.bias), 0, 0, half));
      steps.w.hidden_bias = b.slice(part(*l.bias), 0, half, half * Dim(2));
    }
    if (l.peepholes) steps.w.peepholes = part(*l.peepholes);
    Values states;
    for (const ValueId v : l.initial) states.push_back(part(v));
    const Run run = run_direction(c, cell, steps, from_input, alive, states, d == 1 || l.reverse);
    outputs.push_back(b.narrowed(b.unsqueeze(run.output, 1), dtype));
    for (size_t i = 0; i < last.size(); ++i) last[i].push_back(b.narrowed(b.unsqueeze(run.last[i], 0), dtype));
  }
  const auto joined = [&](const Values& parts, int64_t axis) { return parts.size() == 1 ? parts[0] : b.concat(parts, axis); };
  Values made{joined(outputs, 1)};
  for (const Values& parts : last) made.push_back(joined(parts, 0));
  return made;
}

Layer layer_of(AtenCall& c, const Cell& cell) {
  Builder& b = c.b;
  Layer l{c.tensor("X"), c.tensor("W"), c.tensor("R")};
  l.bias = c.maybe_tensor("B");
  l.lengths = c.maybe_tensor("sequence_lens");
  l.batch_first = c.has_argument("layout") && c.integer("layout") != 0;
  if (c.has_argument("output_sequence")) c.discard("output_sequence", "every output is there");
  const std::string direction = c.string("direction");
  c.expects(direction == "forward" || direction == "reverse" || direction == "bidirectional", "a direction that there is");
  l.directions = direction == "bidirectional" ? 2 : 1;
  l.reverse = direction == "reverse";
  l.size = b.shape(l.r).at(2);
  if (!c.is_none("hidden_size"))
    c.expects(b.check(l.size, Dim(c.integer("hidden_size")), "hidden_size"), "a hidden_size that is the weights'");
  c.expects(b.check(b.shape(l.r).at(0), Dim(l.directions), "the directions of R"), "weights for each direction");
  l.clip = c.is_none("clip") ? 0.0 : c.number("clip");
  l.activations = activations_of(c, cell.activations, static_cast<size_t>(l.directions));
  if (l.batch_first) l.x = b.transpose(l.x, {1, 0, 2});
  const Shape s{Dim(l.directions), b.shape(l.x)[1], l.size};
  for (const char* name : {"initial_h", "initial_c"}) {
    if (!c.has_argument(name)) continue;
    const auto given = c.maybe_tensor(name);
    l.initial.push_back(!given ? b.full(0.0, b.dtype(l.x), s) : l.batch_first ? b.transpose(*given, {1, 0, 2}) : *given);
  }
  return l;
}

Values recurrent(AtenCall& c, const Cell& cell) {
  Builder& b = c.b;
  Layer l = layer_of(c, cell);
  if (cell.kind == Cell::Kind::lstm) {
    l.peepholes = c.maybe_tensor("P");
    l.couples = c.integer("input_forget") != 0;
  }
  if (cell.kind == Cell::Kind::gru)
    l.resets_late = c.has_argument("linear_before_reset") && c.integer("linear_before_reset") != 0;
  Values made = is_torchs(cell, l) ? as_torch(b, cell, l) : written_out(c, cell, l);
  if (l.batch_first) {
    made[0] = b.transpose(made[0], {2, 0, 1, 3});
    for (size_t i = 1; i < made.size(); ++i) made[i] = b.transpose(made[i], {1, 0, 2});
  }
  return made;
}

OpDef recurrent_forms(const char* op, const std::string& name, const Cell& cell, const std::string& inputs,
                      const std::string& extra) {
  OpDef def = mapping(op);
  const std::string head = "(X, W, R, B?, sequence_lens?, initial_h?" + inputs +
                           "; activation_alpha=none, activation_beta=none, "
                           "activations=none, clip=none, direction=\"forward\", hidden_size=none" +
                           extra;
  const auto build = [&cell](AtenCall& c) { return recurrent(c, cell); };
  const std::string late = name == "GRU" ? ", linear_before_reset=0" : "";
  if (name == "GRU") def.from_aten_call("onnx.GRU.3" + head + late + ", output_sequence=0)", build);
  def.from_aten_call("onnx." + name + ".1" + head + ", output_sequence=0)", build);
  def.from_aten_call("onnx." + name + ".7" + head + late + ")", build);
  def.from_aten_call("onnx." + name + ".14" + head + late + ", layout=0)", build);
  return def;
}

}  // namespace

std::vector<OpDef> recurrent_onnx_ops() {
  return {recurrent_forms("rnn_tanh", "RNN", kRnn, "", ""), recurrent_forms("gru", "GRU", kGru, "", ""),
          recurrent_forms("lstm", "LSTM", kLstm, ", initial_c?, P?", ", input_forget=0")};
}

}  // namespace pycandle
