#include "emit/nn_table.h"

#include <fmt/format.h>

#include <algorithm>

#include "emit/names.h"
#include "ir/layer.h"
#include "ops/core/catalogue.h"

namespace pycandle::emit {
namespace {

// A node of a call, read by the names of its op's definition.
class Reader {
 public:
  Reader(const CallTree& tree, int32_t call, NodeId node) : tree_(&tree), call_(call), node_(&tree.program().graph.nodes[node]) {}

  const Node& node() const { return *node_; }
  ValueId value(std::string_view operand) const {
    const int i = node_->op->operand_index(operand);
    return i < 0 || static_cast<size_t>(i) >= node_->operands.size() ? kNoValue : node_->operands[i];
  }
  const Attribute& attribute(std::string_view name) const {
    for (const auto& [key, value] : node_->attributes) {
      if (key == name) return value;
    }
    internal_error("an attribute is missing");
  }
  template <class T> T get(std::string_view name) const { return std::get<T>(attribute(name)); }
  bool absent(std::string_view operand) const { return value(operand) == kNoValue; }
  // The operand is the call's parameter of that name.
  bool is_own(std::string_view operand, std::string_view name) const {
    return !absent(operand) && tree_->local_parameter(call_, value(operand)) == name;
  }
  bool is_own_or_absent(std::string_view operand, std::string_view name) const {
    return absent(operand) || is_own(operand, name);
  }
  const Type& type(std::string_view operand) const { return tree_->program().graph.type(value(operand)); }
  // A size of a parameter: always a number.
  int64_t size(std::string_view operand, size_t axis) const { return type(operand).shape.at(axis).number(); }
  const CallTree& tree() const { return *tree_; }
  Call as_call() const { return {*node_->op, tree_->program().graph, node_->operands, node_->attributes, node_->regions}; }

 private:
  const CallTree* tree_;
  int32_t call_;
  const Node* node_;
};

constexpr const char* kAttention = "MultiheadAttention";  // a module of several nodes

// The only tensor that is not a parameter; nullopt when there are several.
std::optional<ValueId> only_input(const CallTree& tree, int32_t call) {
  const Values& inputs = tree.body(call).inputs;
  if (inputs.size() != 1 || tree.parameter(inputs[0])) return {};
  return inputs[0];
}

std::optional<NnModule> single_node(const CallTree& tree, int32_t call, NodeId n) {
  const Reader r(tree, call, n);
  const auto input = only_input(tree, call);
  if (!input || r.node().results.size() != 1 || tree.body(call).outputs != r.node().results) return {};
  NnModule found{.name = {}, .member = {}, .arguments = {}, .inputs = {*input}, .results = {{r.node().results[0], ""}}};
  const LayerForm& layer = r.node().op->layer;
  if (!layer.arguments) return {};
  const Call c = r.as_call();
  const LayerCall as_layer(
      c, [&](ValueId v) { return tree.local_parameter(call, v); }, [&](ValueId v) { return tree.parameter(v) != nullptr; });
  LayerArguments arguments = layer.arguments(as_layer);
  if (!arguments) return {};
  found.name = layer.classes.at(layer.which ? layer.which(c) : 0);
  found.member = layer.member;
  found.arguments = std::move(*arguments);
  return found;
}

// weight_ih_l0, weight_hh_l0, bias_ih_l0, bias_hh_l0, then …_l0_reverse, …_l1 and so on.
std::vector<std::string> recurrent_parameters(int64_t layers, bool bidirectional, bool biases) {
  std::vector<std::string> names;
  for (int64_t layer = 0; layer < layers; ++layer) {
    for (const char* direction : {"", "_reverse"}) {
      if (*direction != '\0' && !bidirectional) continue;
      names.push_back(fmt::format("weight_ih_l{}{}", layer, direction));
      names.push_back(fmt::format("weight_hh_l{}{}", layer, direction));
      if (!biases) continue;
      names.push_back(fmt::format("bias_ih_l{}{}", layer, direction));
      names.push_back(fmt::format("bias_hh_l{}{}", layer, direction));
    }
  }
  return names;
}

bool is_zeros(const Graph& g, ValueId v, const Shape& shape) {
  const NodeId n = g.values[v].node;
  if (n < 0 || g.nodes[n].op->name != "constant" || g.type(v).shape != shape) return false;
  return as_double(scalar_of(g.nodes[n].attributes[0].second)) == 0;
}

// nn.LSTM, nn.GRU, nn.RNN: the functional, and the zeros that they start from when nothing is given.
std::optional<NnModule> recurrent(const CallTree& tree, int32_t call) {
  const Graph& g = tree.program().graph;
  const CallBody& body = tree.body(call);
  const Unit last = body.units.back();
  if (last.node < 0) return {};
  const Reader r(tree, call, last.node);
  const LayerForm& layer = r.node().op->layer;
  if (layer.classes.empty() || layer.arguments || tree.parameter(r.value("x"))) return {};
  const bool biases = r.get<bool>("has_biases"), both = r.get<bool>("bidirectional"), first = r.get<bool>("batch_first");
  const auto layers = r.get<int64_t>("num_layers");
  const size_t states = r.node().results.size() - 1;
  const std::vector<std::string> names = recurrent_parameters(layers, both, biases);
  if (r.node().operands.size() != 1 + states + names.size()) return {};
  for (size_t i = 0; i < names.size(); ++i) {
    if (tree.local_parameter(call, r.node().operands[1 + states + i]) != names[i]) return {};
  }
  const Type& x = r.type("x");
  if (x.rank() != 3) return {};
  const int64_t hidden = g.type(r.value("h0")).shape.at(2).number();
  const Shape zeros{Dim(layers * (both ? 2 : 1)), x.shape[first ? 0 : 1], Dim(hidden)};
  size_t started_from_zero = 0;
  for (size_t i = 1; i <= states; ++i) started_from_zero += is_zeros(g, r.node().operands[i], zeros) ? 1 : 0;
  const bool from_zero = started_from_zero == states && body.units.size() == states + 1 && body.inputs == Values{r.value("x")};
  const Values& given = r.node().operands;
  const bool from_given = body.units.size() == 1 && body.inputs.size() == 1 + states &&
                          std::equal(body.inputs.begin(), body.inputs.end(), given.begin());
  if (!from_zero && !from_given) return {};

  NnModule found{.name = layer.classes[0], .member = layer.member, .arguments = {}, .inputs = body.inputs, .results = {}};
  found.arguments = {required("input_size", x.shape[2].number()), required("hidden_size", hidden),
                     option("num_layers", layers, int64_t{1}),    option("bias", biases, true),
                     option("batch_first", first, false),         option("bidirectional", both, false)};
  if (found.name == "RNN") {
    found.arguments.push_back(option("nonlinearity", r.node().op->name.substr(4), std::string("tanh")));
  }
  const Values& results = r.node().results;
  found.results = {{results[0], ".first"}, {results[1], states == 2 ? ".second.first" : ".second"}};
  if (states == 2) found.results.emplace_back(results[2], ".second.second");
  return found;
}

// nn.MultiheadAttention of a batch to itself, the usual block of a vision transformer: one projection, split into three,
// heads, attention, heads merged, another projection.
std::optional<NnModule> self_attention(const CallTree& tree, int32_t call) {
  const CallBody& body = tree.body(call);
  const Graph& g = tree.program().graph;
  static const std::vector<std::string_view> kOps{
      "linear", "split", "split_heads", "split_heads", "split_heads", "scaled_dot_product_attention", "merge_heads", "linear"};
  if (body.units.size() != kOps.size() || body.inputs.size() != 1 || body.outputs.size() != 1) return {};
  std::vector<Reader> r;
  for (size_t i = 0; i < kOps.size(); ++i) {
    if (body.units[i].node < 0) return {};
    r.emplace_back(tree, call, body.units[i].node);
    if (r.back().node().op->name != kOps[i]) return {};
  }
  const Reader &in = r[0], &parts = r[1], &attention = r[5], &out = r[7];
  const Type& x = g.type(body.inputs[0]);
  if (x.rank() != 3 || !x.shape[2].is_number() || in.value("x") != body.inputs[0]) return {};
  if (!in.is_own("weight", "in_proj_weight") || !in.is_own_or_absent("bias", "in_proj_bias")) return {};
  if (!out.is_own("weight", "out_proj.weight") || !out.is_own_or_absent("bias", "out_proj.bias")) return {};
  if (in.absent("bias") != out.absent("bias")) return {};
  const int64_t width = x.shape[2].number();
  if (parts.get<Dims>("sizes") != Dims{Dim(width), Dim(width), Dim(width)} || parts.get<int64_t>("axis") != 2) return {};
  const Dim heads = r[2].get<Dim>("heads");
  for (size_t i = 0; i < 3; ++i) {
    if (r[2 + i].value("x") != parts.node().results[i] || r[2 + i].get<Dim>("heads") != heads) return {};
    if (attention.node().operands[i] != r[2 + i].node().results[0]) return {};
  }
  const Values& given = attention.node().operands;
  if (std::any_of(given.begin() + 3, given.end(), [](ValueId v) { return v != kNoValue; }) || !heads.is_number()) return {};
  for (const AttrSpec& spec : attention.node().op->attr_specs) {  // no mask, no scale of its own
    if (!same(attention.attribute(spec.name), spec.default_value.value_or(Attribute{}))) return {};
  }
  if (r[6].node().operands[0] != attention.node().results[0] || out.value("x") != r[6].node().results[0]) return {};
  if (in.get<std::string>("weight_order") != "out_in" || out.get<std::string>("weight_order") != "out_in") return {};
  if (body.outputs[0] != out.node().results[0] || in.size("weight", 0) != 3 * width) return {};
  return NnModule{.name = kAttention,
                  .member = "attn",
                  .arguments = {required("embed_dim", width), required("num_heads", heads.number()),
                                option("bias", !in.absent("bias"), true), option("batch_first", true, false)},
                  .inputs = body.inputs,
                  .results = {{body.outputs[0], ""}}};
}

// The front end's modules change nothing, and what they read is no state.
bool has_states(const CallTree& tree, int32_t call) {
  const auto is_own_state = [&](ValueId v) { return v != kNoValue && tree.state(v) && !tree.local_parameter(call, v).empty(); };
  if (!tree.updates(call).empty()) return true;
  for (const Unit& unit : tree.body(call).units) {
    if (unit.node < 0) continue;
    const Values& operands = tree.program().graph.nodes[unit.node].operands;
    if (std::any_of(operands.begin(), operands.end(), is_own_state)) return true;
  }
  return false;
}

}  // namespace

std::optional<NnModule> nn_module(const CallTree& tree, int32_t call) {
  const std::vector<Unit>& units = tree.body(call).units;
  if (units.empty() || call == 0 || has_states(tree, call)) return {};
  std::optional<NnModule> found;
  if (units.size() == 1 && units[0].node >= 0) found = single_node(tree, call, units[0].node);
  if (!found) found = self_attention(tree, call);
  if (!found) found = recurrent(tree, call);
  return found && tree.layers().has && !tree.layers().has(tree, *found) ? std::nullopt : found;
}

bool is_plain(const CallTree& tree, int32_t call) {
  const std::vector<Unit>& units = tree.body(call).units;
  if (call == 0 || units.size() != 1 || units[0].node < 0 || has_states(tree, call)) return false;
  if (!single_node(tree, call, units[0].node)) return false;
  const Values& operands = tree.program().graph.nodes[units[0].node].operands;
  return std::none_of(operands.begin(), operands.end(), [&](ValueId v) { return v != kNoValue && tree.parameter(v); });
}

std::vector<std::string> nn_classes() {
  std::vector<std::string> all{kAttention};
  for (const auto& op : catalogue().all()) all.insert(all.end(), op->layer.classes.begin(), op->layer.classes.end());
  return all;
}

}  // namespace pycandle::emit
