// Recurrent layers, branches and loops.
#include <algorithm>
#include <memory>

#include "emit/onnx/forms.h"

namespace pycandle::emit::onnx {
namespace {

// ---- recurrent layers: torch's parameters in ONNX's layout

struct Recurrence {
  const char* op;
  size_t gates, states;
  std::vector<size_t> order;  // which of torch's gates each of ONNX's is
  bool resets_after = false;  // a GRU's
  const char* activation = nullptr;
};
const Recurrence& recurrence(const Call& c) {
  static const Recurrence kLstm{"LSTM", 4, 2, {0, 3, 1, 2}}, kGru{"GRU", 3, 1, {1, 0, 2}, true},
      kTanh{"RNN", 1, 1, {0}, false, "Tanh"}, kRelu{"RNN", 1, 1, {0}, false, "Relu"};
  const std::string& name = c.op().name;
  if (name.ends_with("lstm")) return kLstm;
  if (name.ends_with("gru")) return kGru;
  return name.ends_with("tanh") ? kTanh : kRelu;
}

// w_ih w_hh [b_ih b_hh], layer by layer, direction by direction.
struct Layout {
  size_t layers, directions, each;
  explicit Layout(const Call& c)
      : layers(static_cast<size_t>(c.integer("num_layers"))),
        directions(c.boolean("bidirectional") ? 2 : 1),
        each(c.boolean("has_biases") ? 4 : 2) {}
};

std::string gates_in_order(GraphWriter& w, const std::string& weight, const Recurrence& r) {
  if (r.gates == 1) return weight;
  const Names parts = w.nodes("Split", {weight}, {{"axis", int64_t{0}}, {"num_outputs", static_cast<int64_t>(r.gates)}}, r.gates);
  Names ordered;
  for (const size_t gate : r.order) ordered.push_back(parts[gate]);
  return w.node("Concat", ordered, {{"axis", int64_t{0}}});
}

// A parameter of both directions as [directions, …].
std::string stacked(GraphWriter& w, const Names& directions) {
  Names parts;
  for (const std::string& one : directions) parts.push_back(w.unsqueeze(one, {0}));
  return parts.size() == 1 ? parts[0] : w.node("Concat", parts, {{"axis", int64_t{0}}});
}

struct Layer {
  std::string weight, hidden, bias;
};
Layer layer_of(const Site& s, const Recurrence& r, const Layout& layout, size_t layer) {
  const Values params = s.c.values("params");
  Names weights, hiddens, biases;
  for (size_t d = 0; d < layout.directions; ++d) {
    const ValueId* p = params.data() + (layer * layout.directions + d) * layout.each;
    weights.push_back(gates_in_order(s.w, s.w.name(p[0]), r));
    hiddens.push_back(gates_in_order(s.w, s.w.name(p[1]), r));
    if (layout.each < 4) continue;
    const std::string both[] = {gates_in_order(s.w, s.w.name(p[2]), r), gates_in_order(s.w, s.w.name(p[3]), r)};
    biases.push_back(s.w.node("Concat", {both[0], both[1]}, {{"axis", int64_t{0}}}));
  }
  return {stacked(s.w, weights), stacked(s.w, hiddens), biases.empty() ? "" : stacked(s.w, biases)};
}

Names recurrent(const Site& s) {
  const Recurrence& r = recurrence(s.c);
  const Layout layout(s.c);
  GraphWriter& w = s.w;
  const bool batch_first = s.c.boolean("batch_first");
  std::string x = batch_first ? w.transpose(s["x"], {1, 0, 2}) : s["x"];
  const std::string lengths = s.c.op().operand_index("lengths") < 0 ? "" : w.cast(s["lengths"], s.dtype("lengths"), DType::i32);
  const auto count = static_cast<int64_t>(layout.directions);
  std::vector<Names> last(r.states);
  for (size_t layer = 0; layer < layout.layers; ++layer) {
    const Layer p = layer_of(s, r, layout, layer);
    const auto first = static_cast<int64_t>(layer) * count;
    const auto state = [&](const char* name) { return layout.layers == 1 ? s[name] : w.slice(s[name], 0, first, first + count); };
    Names inputs{x, p.weight, p.hidden, p.bias, lengths, state("h0")};
    if (r.states == 2) inputs.push_back(state("c0"));
    OnnxAttributes attributes{{"hidden_size", s.c.shape("h0")[2].number()},
                              {"direction", std::string(count == 2 ? "bidirectional" : "forward")}};
    if (r.resets_after) attributes.emplace_back("linear_before_reset", int64_t{1});
    if (r.activation != nullptr) attributes.emplace_back("activations", Names(layout.directions, r.activation));
    const Names found = w.nodes(r.op, inputs, attributes, 1 + r.states);
    // [T, directions, N, H] → [T, N, directions * H]
    x = count == 1 ? w.squeeze(found[0], {1}) : w.node("Reshape", {w.transpose(found[0], {0, 2, 1, 3}), w.ints({0, 0, -1})});
    for (size_t i = 0; i < r.states; ++i) last[i].push_back(found[1 + i]);
  }
  Names results{batch_first ? w.transpose(x, {1, 0, 2}) : x};
  for (const Names& parts : last)
    results.push_back(parts.size() == 1 ? parts[0] : w.node("Concat", parts, {{"axis", int64_t{0}}}));
  return results;
}
bool is_usual(const Call& c) {
  const Layout layout(c);
  const DType d = c.type("x").dtype;
  const bool has_kernel = d == DType::f32 || (d == DType::f64 && recurrence(c).activation == nullptr);
  return has_kernel && c.shape("h0")[2].is_number() &&
         c.values("params").size() == layout.layers * layout.directions * layout.each;
}

// ---- regions

// The names of what a region gives, each made in it: a branch may hand on what it was given.
void finish_region(GraphWriter& inner, const Values& outputs) {
  std::set<std::string> made, given;
  for (const OnnxNode& node : inner.graph().nodes) made.insert(node.outputs.begin(), node.outputs.end());
  for (const ValueId v : outputs) {
    std::string name = inner.name(v);
    for (const OnnxNode& node : inner.graph().nodes) made.insert(node.outputs.begin(), node.outputs.end());
    if (made.count(name) == 0 || !given.insert(name).second) name = inner.node("Identity", {name});
    inner.graph().outputs.push_back({name, inner.type(v)});
  }
}

std::shared_ptr<OnnxGraph> taken(GraphWriter& inner, const char* what) {
  inner.graph().name = inner.unique(what);
  return std::make_shared<OnnxGraph>(std::move(inner.graph()));
}

std::shared_ptr<OnnxGraph> branch(const Site& s, size_t region, const Values& operands, const char* what) {
  const pycandle::Graph& source = s.c.regions()[region];
  GraphWriter inner(s.w.writing(), source, &s.w);
  for (size_t i = 0; i < operands.size(); ++i) inner.bind(source.inputs[i], s.w.name(operands[i]));
  inner.write_all();
  finish_region(inner, source.outputs);
  return taken(inner, what);
}
Names cond(const Site& s) {
  const Values operands = s.c.values("operands");
  for (const ValueId v : operands) s.w.name(v);  // written outside of both branches
  return s.w.nodes("If", {s["condition"]},
                   {{"then_branch", branch(s, 0, operands, "then")}, {"else_branch", branch(s, 1, operands, "else")}},
                   s.node.results.size());
}

// The nodes of a region in the place of a call of it; the names of its results.
Names inlined(GraphWriter& into, const pycandle::Graph& region, const Names& inputs) {
  GraphWriter inner(into.writing(), region, &into);
  for (size_t i = 0; i < inputs.size(); ++i) inner.bind(region.inputs[i], inputs[i]);
  inner.write_all();
  Names outputs;
  for (const ValueId v : region.outputs) outputs.push_back(inner.name(v));
  OnnxGraph &from = inner.graph(), &to = into.graph();
  std::move(from.nodes.begin(), from.nodes.end(), std::back_inserter(to.nodes));
  std::move(from.initializers.begin(), from.initializers.end(), std::back_inserter(to.initializers));
  return outputs;
}

Names while_loop(const Site& s) {
  const pycandle::Graph &condition = s.c.regions()[0], &body = s.c.regions()[1];
  Names initial;
  for (const ValueId v : s.c.values("carries")) initial.push_back(s.w.name(v));
  Names inputs{"", inlined(s.w, condition, initial)[0]};
  inputs.insert(inputs.end(), initial.begin(), initial.end());

  GraphWriter inner(s.w.writing(), body, &s.w);
  OnnxGraph& graph = inner.graph();
  graph.inputs = {{inner.unique("step"), {DType::i64, {}}}, {inner.unique("goes_on"), {DType::boolean, {}}}};
  for (const ValueId v : body.inputs) {
    const std::string name = inner.unique("carry");
    graph.inputs.push_back({name, inner.type(v)});
    inner.bind(v, name);
  }
  inner.write_all();
  Names next;
  for (const ValueId v : body.outputs) next.push_back(inner.name(v));
  std::string goes_on = inlined(inner, condition, next)[0];
  graph.outputs.push_back({inner.node("Identity", {goes_on}), {DType::boolean, {}}});
  finish_region(inner, body.outputs);
  return s.w.nodes("Loop", inputs, {{"body", taken(inner, "body")}}, s.node.results.size());
}

// What a carry is in every step: a weight that rides along.
bool is_unchanged(const pycandle::Graph& body, size_t carry) { return body.outputs[carry] == body.inputs[carry]; }

Names scan(const Site& s) {
  const pycandle::Graph& body = s.c.regions()[0];
  const Values values = s.c.values("values");
  const auto carries = static_cast<size_t>(s.c.integer("carries"));
  GraphWriter inner(s.w.writing(), body, &s.w);
  OnnxGraph& graph = inner.graph();
  Names inputs, results(s.node.results.size());
  Values kept;
  for (size_t i = 0; i < values.size(); ++i) {
    const std::string given = s.w.name(values[i]);
    if (i < carries && is_unchanged(body, i)) {
      inner.bind(body.inputs[i], given);
      results[i] = given;
      continue;
    }
    const std::string name = inner.unique(i < carries ? "carry" : "step");
    graph.inputs.push_back({name, inner.type(body.inputs[i])});
    inner.bind(body.inputs[i], name);
    inputs.push_back(given);
  }
  size_t sequences = values.size() - carries;
  if (sequences == 0) {  // the length must come from a sequence
    const std::string zero = s.w.scalar(int64_t{0}, DType::i64), one = s.w.scalar(int64_t{1}, DType::i64);
    inputs.push_back(s.w.node("Range", {zero, s.w.squeeze(s.w.dim(s.c.dim("length")), {0}), one}));
    graph.inputs.push_back({inner.unique("step"), {DType::i64, {}}});
    sequences = 1;
  }
  inner.write_all();
  std::vector<size_t> given;
  for (size_t i = 0; i < body.outputs.size(); ++i) {
    if (i < carries && is_unchanged(body, i)) continue;
    given.push_back(i);
    kept.push_back(body.outputs[i]);
  }
  finish_region(inner, kept);
  const int64_t backwards = s.c.boolean("reverse") ? 1 : 0;
  OnnxAttributes attributes{{"body", taken(inner, "body")},
                            {"num_scan_inputs", static_cast<int64_t>(sequences)},
                            {"scan_input_directions", Ints(sequences, backwards)},
                            {"scan_output_directions", Ints(body.outputs.size() - carries, backwards)}};
  const Names found = s.w.nodes("Scan", inputs, attributes, given.size());
  for (size_t i = 0; i < given.size(); ++i) results[given[i]] = found[i];
  return results;
}

constexpr Form kForms[] = {
    {"lstm", recurrent, is_usual},
    {"gru", recurrent, is_usual},
    {"rnn_tanh", recurrent, is_usual},
    {"rnn_relu", recurrent, is_usual},
    {"padded_lstm", recurrent, is_usual},
    {"padded_gru", recurrent, is_usual},
    {"padded_rnn_tanh", recurrent, is_usual},
    {"padded_rnn_relu", recurrent, is_usual},
    {"cond", cond},
    {"while_loop", while_loop},
    {"scan", scan},
};

}  // namespace

std::span<const Form> control_forms() { return kForms; }

}  // namespace pycandle::emit::onnx
