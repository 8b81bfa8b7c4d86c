#include "emit/nn_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>

#include "emit/names.h"

namespace pycandle::emit {
namespace {

// A node of a call, read by the names of its op's definition.
class Reader {
 public:
  Reader(const CallTree& tree, int32_t call, size_t node)
      : tree_(&tree), call_(call), node_(&tree.program().graph.nodes[node]), index_(node) {}

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
  int32_t call() const { return call_; }

 private:
  const CallTree* tree_;
  int32_t call_;
  const Node* node_;
  size_t index_;
};

// [3, 3] is 3.
Attribute spread(const Attribute& a) {
  const Ints& list = std::get<Ints>(a);
  const bool alike = !list.empty() && std::all_of(list.begin(), list.end(), [&](int64_t n) { return n == list[0]; });
  return alike ? Attribute(list[0]) : a;
}

Attribute spread_dims(const Attribute& a) {
  Ints numbers;
  for (const Dim d : std::get<Dims>(a)) {
    if (!d.is_number()) return {};
    numbers.push_back(d.number());
  }
  return spread(Attribute(numbers));
}

NnArgument required(std::string name, Attribute value) { return {std::move(name), true, std::move(value), {}}; }
NnArgument option(std::string name, Attribute value, Attribute default_value) {
  return {std::move(name), false, std::move(value), std::move(default_value)};
}
bool is_int64(const Attribute& a, int64_t n) { return std::holds_alternative<int64_t>(a) && std::get<int64_t>(a) == n; }

using Arguments = std::optional<std::vector<NnArgument>>;

Arguments linear(const Reader& r) {
  if (!r.is_own("weight", "weight") || !r.is_own_or_absent("bias", "bias")) return {};
  const std::string order = r.get<std::string>("weight_order");
  const size_t in = order == "in_out" ? 0 : 1;
  return {{required("in_features", r.size("weight", in)), required("out_features", r.size("weight", 1 - in)),
           option("bias", !r.absent("bias"), true), option("weight_order", order, std::string("out_in"))}};
}

Arguments embedding(const Reader& r) {
  if (!r.is_own("weight", "weight") || r.tree().parameter(r.value("indices"))) return {};
  return {{required("num_embeddings", r.size("weight", 0)), required("embedding_dim", r.size("weight", 1))}};
}

std::optional<NnArgument> normalized_shape(const Reader& r) {
  const Attribute shape = spread_dims(r.attribute("normalized_shape"));
  if (std::get<Dims>(r.attribute("normalized_shape")).size() != 1 || !std::holds_alternative<int64_t>(shape)) return {};
  return required("normalized_shape", shape);
}

Arguments layer_norm(const Reader& r) {
  const auto shape = normalized_shape(r);
  if (!shape || !r.is_own_or_absent("weight", "weight") || !r.is_own_or_absent("bias", "bias")) return {};
  if (r.absent("weight") && !r.absent("bias")) return {};
  const bool affine = !r.absent("weight");
  return {{*shape, option("eps", r.attribute("eps"), 1e-5), option("elementwise_affine", affine, true),
           option("bias", !affine || !r.absent("bias"), true)}};
}

Arguments rms_norm(const Reader& r) {
  const auto shape = normalized_shape(r);
  if (!shape || !r.is_own_or_absent("weight", "weight")) return {};
  return {{*shape, option("eps", r.attribute("eps"), Attribute{}), option("elementwise_affine", !r.absent("weight"), true),
           option("compute_dtype", r.attribute("compute_dtype"), Attribute{}),
           option("round_before_weight", r.attribute("round_before_weight"), false),
           option("weight_offset", r.attribute("weight_offset"), 0.0)}};
}

Arguments convolution(const Reader& r) {
  if (!r.is_own("weight", "weight") || !r.is_own_or_absent("bias", "bias")) return {};
  const auto groups = r.get<int64_t>("groups");
  const bool transposed = r.node().op->name.starts_with("conv_transpose");
  Ints kernel;
  for (size_t axis = 2; axis < r.type("weight").shape.size(); ++axis) kernel.push_back(r.size("weight", axis));
  const int64_t first = r.size("weight", 0), second = r.size("weight", 1) * groups;
  std::vector<NnArgument> found{required("in_channels", transposed ? first : second),
                                required("out_channels", transposed ? second : first), required("kernel_size", spread(kernel)),
                                option("stride", spread(r.attribute("stride")), int64_t{1}),
                                option("padding", spread(r.attribute("padding")), int64_t{0})};
  if (transposed) found.push_back(option("output_padding", spread(r.attribute("output_padding")), int64_t{0}));
  found.push_back(option("dilation", spread(r.attribute("dilation")), int64_t{1}));
  found.push_back(option("groups", groups, int64_t{1}));
  found.push_back(option("bias", !r.absent("bias"), true));
  if (!transposed) found.push_back(option("same", r.attribute("same"), false));
  return found;
}

Arguments batch_norm(const Reader& r) {
  if (!r.is_own("mean", "running_mean") || !r.is_own("var", "running_var")) return {};
  if (!r.is_own_or_absent("weight", "weight") || !r.is_own_or_absent("bias", "bias")) return {};
  if (r.absent("weight") != r.absent("bias")) return {};
  return {{required("num_features", r.size("mean", 0)), option("eps", r.attribute("eps"), 1e-5),
           option("affine", !r.absent("weight"), true)}};
}

Arguments group_norm(const Reader& r) {
  if (!r.is_own_or_absent("weight", "weight") || !r.is_own_or_absent("bias", "bias")) return {};
  if (r.absent("weight") != r.absent("bias") || !r.type("x").shape.at(1).is_number()) return {};
  return {{required("num_groups", r.attribute("groups")), required("num_channels", r.size("x", 1)),
           option("eps", r.attribute("eps"), 1e-5), option("affine", !r.absent("weight"), true)}};
}

Arguments plain(const Reader&) { return std::vector<NnArgument>{}; }

Arguments gelu(const Reader& r) { return {{option("approximate", r.attribute("approximate"), std::string("none"))}}; }

Arguments max_pool(const Reader& r) {
  return {{required("kernel_size", spread(r.attribute("kernel_size"))),
           option("stride", spread(r.attribute("stride")), spread(r.attribute("kernel_size"))),
           option("padding", spread(r.attribute("padding")), int64_t{0}),
           option("dilation", spread(r.attribute("dilation")), int64_t{1}),
           option("ceil_mode", r.attribute("ceil_mode"), false)}};
}

Arguments avg_pool(const Reader& r) {
  return {{required("kernel_size", spread(r.attribute("kernel_size"))),
           option("stride", spread(r.attribute("stride")), spread(r.attribute("kernel_size"))),
           option("padding", spread(r.attribute("padding")), int64_t{0}), option("ceil_mode", r.attribute("ceil_mode"), false),
           option("count_include_pad", r.attribute("count_include_pad"), true),
           option("divisor_override", r.attribute("divisor_override"), Attribute{})}};
}

Arguments adaptive_pool(const Reader& r) {
  const Attribute size = spread_dims(r.attribute("output_size"));
  if (std::holds_alternative<std::monostate>(size)) return {};
  return {{required("output_size", size)}};
}

Arguments leaky_relu(const Reader& r) { return {{required("negative_slope", r.attribute("negative_slope"))}}; }

Arguments prelu(const Reader& r) {
  if (!r.is_own("weight", "weight")) return {};
  return {{required("num_parameters", r.size("weight", 0))}};
}

Arguments hardtanh(const Reader& r) {
  const Attribute &low = r.attribute("min_val"), &high = r.attribute("max_val");
  if (!std::holds_alternative<double>(low) || !std::holds_alternative<double>(high)) return {};
  return {{option("min_val", low, -1.0), option("max_val", high, 1.0)}};
}

Arguments softmax(const Reader& r) { return {{required("dim", r.attribute("dim"))}}; }

Arguments elu(const Reader& r) {
  const auto is_one = [&](const char* name) {
    return scalar_of(r.attribute(name)) == Scalar{1.0} || is_int64(r.attribute(name), 1);
  };
  if (!is_one("scale") || !is_one("input_scale")) return {};
  return {{required("alpha", r.attribute("alpha"))}};
}

struct Row {
  const char* op;
  const char* nn;
  Arguments (*arguments)(const Reader&);
};

const Row kRows[] = {
    {"linear", "Linear", linear},
    {"embedding", "Embedding", embedding},
    {"layer_norm", "LayerNorm", layer_norm},
    {"rms_norm", "RMSNorm", rms_norm},
    {"group_norm", "GroupNorm", group_norm},
    {"conv1d", "Conv1d", convolution},
    {"conv2d", "Conv2d", convolution},
    {"conv3d", "Conv3d", convolution},
    {"conv_transpose1d", "ConvTranspose1d", convolution},
    {"conv_transpose2d", "ConvTranspose2d", convolution},
    {"conv_transpose3d", "ConvTranspose3d", convolution},
    {"relu", "ReLU", plain},
    {"relu6", "ReLU6", plain},
    {"gelu", "GELU", gelu},
    {"silu", "SiLU", plain},
    {"mish", "Mish", plain},
    {"sigmoid", "Sigmoid", plain},
    {"tanh", "Tanh", plain},
    {"hardswish", "Hardswish", plain},
    {"hardsigmoid", "Hardsigmoid", plain},
    {"log_sigmoid", "LogSigmoid", plain},
    {"hardtanh", "Hardtanh", hardtanh},
    {"leaky_relu", "LeakyReLU", leaky_relu},
    {"elu", "ELU", elu},
    {"prelu", "PReLU", prelu},
    {"softmax", "Softmax", softmax},
    {"log_softmax", "LogSoftmax", softmax},
    {"max_pool1d", "MaxPool1d", max_pool},
    {"max_pool2d", "MaxPool2d", max_pool},
    {"max_pool3d", "MaxPool3d", max_pool},
    {"avg_pool1d", "AvgPool1d", avg_pool},
    {"avg_pool2d", "AvgPool2d", avg_pool},
    {"avg_pool3d", "AvgPool3d", avg_pool},
    {"adaptive_avg_pool1d", "AdaptiveAvgPool1d", adaptive_pool},
    {"adaptive_avg_pool2d", "AdaptiveAvgPool2d", adaptive_pool},
    {"adaptive_avg_pool3d", "AdaptiveAvgPool3d", adaptive_pool},
};

// Batch norms differ in the rank that they take; the rest is one functional.
const std::array kBatchNorms{"BatchNorm1d", "BatchNorm2d", "BatchNorm3d"};
const char* batch_norm_name(const Reader& r) { return kBatchNorms[std::clamp<int64_t>(r.type("x").rank() - 3, 0, 2)]; }
// Modules of several nodes.
const std::map<std::string_view, const char*> kRecurrent{
    {"lstm", "LSTM"}, {"gru", "GRU"}, {"rnn_tanh", "RNN"}, {"rnn_relu", "RNN"}};
constexpr const char* kAttention = "MultiheadAttention";

// The only tensor that is not a parameter; nullopt when there are several.
std::optional<ValueId> only_input(const CallTree& tree, int32_t call) {
  const Values& inputs = tree.body(call).inputs;
  if (inputs.size() != 1 || tree.parameter(inputs[0])) return {};
  return inputs[0];
}

std::optional<NnModule> single_node(const CallTree& tree, int32_t call, size_t n) {
  const Reader r(tree, call, n);
  const auto input = only_input(tree, call);
  if (!input || r.node().results.size() != 1 || tree.body(call).outputs != r.node().results) return {};
  NnModule found{.name = {}, .arguments = {}, .inputs = {*input}, .results = {{r.node().results[0], ""}}};
  Arguments arguments;
  if (r.node().op->name == "batch_norm") {
    found.name = batch_norm_name(r);
    arguments = batch_norm(r);
  }
  for (const Row& row : kRows) {
    if (r.node().op->name != row.op) continue;
    found.name = row.nn;
    arguments = row.arguments(r);
  }
  if (!arguments) return {};
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
  const auto kind = kRecurrent.find(r.node().op->name);
  if (kind == kRecurrent.end() || tree.parameter(r.value("x"))) return {};
  const bool biases = r.get<bool>("has_biases"), both = r.get<bool>("bidirectional"), first = r.get<bool>("batch_first");
  const auto layers = r.get<int64_t>("num_layers");
  const size_t states = r.node().op->name == "lstm" ? 2 : 1;
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
  if (started_from_zero != states || body.units.size() != states + 1 || body.inputs != Values{r.value("x")}) return {};

  NnModule found{.name = kind->second, .arguments = {}, .inputs = body.inputs, .results = {}};
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
  if (units.size() == 1 && units[0].node >= 0) {
    if (auto found = single_node(tree, call, units[0].node)) return found;
  }
  if (auto found = self_attention(tree, call)) return found;
  return recurrent(tree, call);
}

std::vector<std::string> nn_classes() {
  std::vector<std::string> all{kAttention};
  for (const Row& row : kRows) all.emplace_back(row.nn);
  for (const char* name : kBatchNorms) all.emplace_back(name);
  for (const auto& [op, name] : kRecurrent) all.emplace_back(name);
  return all;
}

std::string usual_name(std::string_view nn_class) {
  static const std::pair<const char*, const char*> kinds[] = {{"ConvTranspose", "conv"},  {"Conv", "conv"}, {"Linear", "linear"},
                                                              {"Embedding", "embedding"}, {"Norm", "norm"}, {"Pool", "pool"},
                                                              {"LSTM", "lstm"},           {"GRU", "gru"},   {"RNN", "rnn"},
                                                              {"Softmax", "softmax"}};
  for (const auto& [part, name] : kinds) {
    if (nn_class.find(part) != std::string_view::npos) return name;
  }
  return "act";
}

}  // namespace pycandle::emit
