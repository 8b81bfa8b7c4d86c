#include "verify/diagnosing/torch_source.h"

#include <fmt/format.h>

#include <map>

namespace pycandle {
namespace {

// {name} is an operand or attribute; {names…} all of the variadic ones.
struct Spelling {
  std::string text;
  std::function<bool(const Call&)> holds;  // nothing: always
};

const std::map<std::string, Spelling, std::less<>>& spellings() {
  static const auto all = [] {
    std::map<std::string, Spelling, std::less<>> map{
        {"reshape", {"{x}.reshape({shape})", {}}},
        {"transpose", {"{x}.permute({permutation})", {}}},
        {"broadcast", {"broadcast({x}, {shape}, {axes})", {}}},
        {"slice", {"sliced({x}, {starts}, {stops}, {steps})", {}}},
        {"concat", {"torch.cat([{xs…}], {axis})", {}}},
        {"pad", {"padded({x}, {low}, {high}, {value})", {}}},
        {"reverse", {"{x}.flip({axes})", {}}},
        {"cast", {"{x}.to({dtype})", {}}},
        {"constant", {"torch.full({shape}, {value}, dtype={dtype})", {}}},
        {"select", {"torch.where({condition}, {yes}, {no})", {}}},
        {"reduce_sum", {"torch.sum({x}, {axes})", {}}},
        {"reduce_max", {"torch.amax({x}, {axes})", {}}},
        {"reduce_min", {"torch.amin({x}, {axes})", {}}},
        {"argmax", {"torch.argmax({x}, {axis})", {}}},
        {"argmin", {"torch.argmin({x}, {axis})", {}}},
        {"cumsum", {"torch.cumsum({x}, {axis})", {}}},
        {"mean", {"torch.mean({x}, {axes}, {keep})", {}}},
        {"var", {"torch.var({x}, {axes}, correction={correction}, keepdim={keep})", {}}},
        {"std", {"torch.std({x}, {axes}, correction={correction}, keepdim={keep})", {}}},
        {"softmax", {"torch.softmax({x}, {dim})", {}}},
        {"log_softmax", {"torch.log_softmax({x}, {dim})", {}}},
        {"layer_norm", {"F.layer_norm({x}, {normalized_shape}, {weight}, {bias}, {eps})", {}}},
        {"rms_norm",
         {"F.rms_norm({x}, {normalized_shape}, {weight}, {eps})",
          [](const Call& c) { return !c.has("compute_dtype") && c.number("weight_offset") == 0; }}},
        {"group_norm", {"F.group_norm({x}, {groups}, {weight}, {bias}, {eps})", {}}},
        {"batch_norm", {"F.batch_norm({x}, {mean}, {var}, {weight}, {bias}, False, 0.0, {eps})", {}}},
        {"gelu", {"F.gelu({x}, approximate={approximate})", {}}},
        {"leaky_relu", {"F.leaky_relu({x}, {negative_slope})", {}}},
        {"linear", {"F.linear({x}, {weight}, {bias})", [](const Call& c) { return c.string("weight_order") == "out_in"; }}},
        {"matmul", {"torch.matmul({left}, {right})", {}}},
        {"embedding", {"F.embedding({indices}, {weight})", {}}},
        {"scaled_dot_product_attention",
         {"F.scaled_dot_product_attention({query}, {key}, {value}, {attn_mask}, 0.0, {is_causal}, scale={scale}, "
          "enable_gqa={enable_gqa})",
          [](const Call& c) {
            return !c.has("key_mask") && !c.has("alibi_slopes") && !c.has("window") && !c.has("masked_bias") &&
                   !c.boolean("eager") && c.dim("query_offset") == Dim(0);
          }}},
        {"clamp", {"torch.clamp({x}, {min}, {max})", {}}},
        {"elu",
         {"F.elu({x}, {alpha})",
          [](const Call& c) { return as_double(c.scalar("scale")) == 1 && as_double(c.scalar("input_scale")) == 1; }}},
        {"softplus", {"F.softplus({x}, {beta}, {threshold})", {}}},
        {"log_sigmoid", {"F.logsigmoid({x})", {}}},
        {"prelu", {"F.prelu({x}, {weight})", {}}},
        {"glu", {"F.glu({x}, {dim})", {}}},
        {"bitwise_not", {"torch.bitwise_not({x})", {}}},
        {"einsum", {"torch.einsum({equation}, [{xs…}])", {}}},
        {"roll", {"torch.roll({x}, {shifts}, {axes})", {}}},
        {"gather", {"torch.gather({x}, {axis}, {index})", {}}},
        {"repeat", {"{x}.repeat({repeats})", {}}},
        {"repeat_interleave", {"torch.repeat_interleave({x}, {repeats}, {axis})", {}}},
        {"stack", {"torch.stack([{xs…}], {axis})", {}}},
        {"split", {"torch.split({x}, {sizes}, {axis})", {}}},
        {"arange", {"torch.arange({start}, {stop}, {step}, dtype={dtype})", {}}},
        {"lstm_cell", {"torch.lstm_cell({x}, ({h}, {c}), {w_ih}, {w_hh}, {b_ih}, {b_hh})", {}}},
        {"gru_cell", {"torch.gru_cell({x}, {h}, {w_ih}, {w_hh}, {b_ih}, {b_hh})", {}}},
        {"reflection_pad", {"padded({x}, {low}, {high}, mode='reflect')", {}}},
        {"replication_pad", {"padded({x}, {low}, {high}, mode='replicate')", {}}},
        {"circular_pad", {"padded({x}, {low}, {high}, mode='circular')", {}}},
        {"split_heads", {"{x}.unflatten(-1, ({heads}, -1)).transpose(-3, -2)", {}}},
        {"merge_heads", {"{x}.transpose(-3, -2).flatten(-2)", {}}},
    };
    for (const char* op :
         {"neg", "exp",  "exp2", "expm1", "log",  "log2",  "log10", "log1p", "sqrt",       "rsqrt", "sin",  "cos",
          "tan", "tanh", "erf",  "erfc",  "ceil", "floor", "round", "trunc", "reciprocal", "abs",   "sign", "sigmoid"}) {
      map[op] = {fmt::format("torch.{}({{x}})", op), {}};
    }
    for (const char* op : {"relu", "relu6", "silu", "mish", "hardswish", "hardsigmoid"})
      map[op] = {fmt::format("F.{}({{x}})", op), {}};
    for (const char* op : {"add", "sub", "mul", "div", "pow", "maximum", "minimum", "remainder", "fmod", "floor_divide", "eq",
                           "ne", "lt", "le", "gt", "ge", "bitwise_and", "bitwise_or", "bitwise_xor"}) {
      map[op] = {fmt::format("torch.{}({{a}}, {{b}})", op), {}};
    }
    for (const char* n : {"1", "2", "3"}) {
      map[fmt::format("conv{}d", n)] = {
          fmt::format("F.conv{}d({{x}}, {{weight}}, {{bias}}, {{stride}}, {{padding}}, {{dilation}}, {{groups}})", n),
          [](const Call& c) { return !c.boolean("same"); }};
      map[fmt::format("conv_transpose{}d", n)] = {
          fmt::format("F.conv_transpose{}d({{x}}, {{weight}}, {{bias}}, {{stride}}, {{padding}}, {{output_padding}}, {{groups}}, "
                      "{{dilation}})",
                      n),
          {}};
      map[fmt::format("max_pool{}d", n)] = {
          fmt::format("F.max_pool{}d({{x}}, {{kernel_size}}, {{stride}}, {{padding}}, {{dilation}}, {{ceil_mode}})", n), {}};
      map[fmt::format("avg_pool{}d", n)] = {
          fmt::format("F.avg_pool{}d({{x}}, {{kernel_size}}, {{stride}}, {{padding}}, {{ceil_mode}}, {{count_include_pad}})", n),
          [](const Call& c) { return !c.has("divisor_override"); }};
      map[fmt::format("adaptive_avg_pool{}d", n)] = {fmt::format("F.adaptive_avg_pool{}d({{x}}, {{output_size}})", n), {}};
    }
    return map;
  }();
  return all;
}

const char* torch_dtype(DType d) {
  static constexpr const char* kNames[kDTypeCount] = {"torch.float64", "torch.float32", "torch.float16",   "torch.bfloat16",
                                                      "torch.int64",   "torch.int32",   "torch.int16",     "torch.int8",
                                                      "torch.uint8",   "torch.bool",    "torch.complex64", "torch.complex128"};
  return kNames[static_cast<size_t>(d)];
}

std::string literal(const Attribute& a, const Bindings& sizes) {
  const auto number = [](double v) { return std::isfinite(v) ? fmt::format("{:.17g}", v) : fmt::format("float('{}')", v); };
  if (std::holds_alternative<std::monostate>(a)) return "None";
  if (const auto* b = std::get_if<bool>(&a)) return *b ? "True" : "False";
  if (const auto* d = std::get_if<double>(&a)) return number(*d);
  if (const auto* s = std::get_if<std::string>(&a)) return fmt::format("'{}'", *s);
  if (const auto* d = std::get_if<DType>(&a)) return torch_dtype(*d);
  if (const auto* d = std::get_if<Dim>(&a)) return fmt::format("{}", d->evaluate(sizes));
  if (const auto* dims = std::get_if<Dims>(&a)) return fmt::format("[{}]", fmt::join(evaluate(*dims, sizes), ", "));
  if (const auto* ints = std::get_if<Ints>(&a)) return fmt::format("[{}]", fmt::join(*ints, ", "));
  return to_string(a);
}

}  // namespace

std::string_view torch_helpers() {
  return R"(def broadcast(x, shape, axes):
    view = [1] * len(shape)
    for size, axis in zip(x.shape, axes):
        view[axis] = size
    return x.reshape(view).expand(shape)


def sliced(x, starts, stops, steps):
    return x[tuple(slice(a, b, c) for a, b, c in zip(starts, stops, steps))]


def padded(x, low, high, value=None, mode="constant"):
    sides = [n for pair in reversed(list(zip(low, high))) for n in pair]
    if mode != "constant":  # takes positions alone: all but the channels, and the batch if there is one
        sides = sides[: 2 * (x.dim() - (1 if low[1] or high[1] else 2))]
    return F.pad(x, sides, mode, value)
)";
}

TorchSource torch_source(const Program& p, const Bindings& sizes) {
  std::map<ValueId, std::string> names;
  for (const Input& input : p.inputs) names[input.value] = fmt::format("inputs[{}]", quoted(input.name));
  std::string text;
  for (const Node& node : p.graph.nodes) {
    const auto spelling = spellings().find(node.op->name);
    const Call call(*node.op, p.graph, node.operands, node.attributes, node.regions);
    if (spelling == spellings().end() || (spelling->second.holds && !spelling->second.holds(call))) return {"", node.op->name};
    std::string line;
    const std::string& form = spelling->second.text;
    for (size_t i = 0; i < form.size();) {
      const size_t open = form.find('{', i), close = open == std::string::npos ? open : form.find('}', open);
      line += form.substr(i, open == std::string::npos ? open : open - i);
      if (open == std::string::npos) break;
      const std::string name = form.substr(open + 1, close - open - 1);
      if (name == "xs…") {
        for (ValueId v : call.values("xs")) line += names.at(v) + ", ";
      } else if (node.op->operand_index(name) >= 0) {
        const std::optional<ValueId> v = call.maybe(name);
        line += v ? names.at(*v) : "None";
      } else {
        line += literal(call.attribute(name), sizes);
      }
      i = close + 1;
    }
    std::vector<std::string> results;
    for (ValueId v : node.results) results.push_back(names[v] = fmt::format("v{}", v));
    const char* of_tuple = node.op->several_results && results.size() == 1 ? "," : "";
    text += fmt::format("    {}{} = {}\n", fmt::join(results, ", "), of_tuple, line);
  }
  return {text + fmt::format("    return {}\n", names.at(p.outputs.at(0).value)), ""};
}

}  // namespace pycandle
