#include "verify/diagnosing/torch_source.h"
#include "base/file_dtypes.h"

#include <fmt/format.h>

#include <map>

namespace pycandle {
namespace {

const char* torch_dtype(DType d) {
  static constexpr const char* kNames[kAllDTypeCount] = {"torch.float64",
                                                         "torch.float32",
                                                         "torch.float16",
                                                         "torch.bfloat16",
                                                         "torch.int64",
                                                         "torch.int32",
                                                         "torch.int16",
                                                         "torch.int8",
                                                         "torch.uint8",
                                                         "torch.bool",
                                                         "torch.complex64",
                                                         "torch.complex128",
                                                         "torch.uint16",
                                                         "torch.uint32",
                                                         "torch.uint64",
                                                         "torch.float8_e4m3fn",
                                                         "torch.float8_e4m3fnuz",
                                                         "torch.float8_e5m2",
                                                         "torch.float8_e5m2fnuz",
                                                         "torch.float8_e8m0fnu",
                                                         "torch.uint8",
                                                         "torch.int8",
                                                         "torch.uint8",
                                                         "torch.int8",
                                                         "torch.uint8"};  // torch does not compute with fewer bits
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
    const Call call(*node.op, p.graph, node.operands, node.attributes, node.regions);
    const auto& [form, holds] = node.op->torch;
    if (form.empty() || (holds && !holds(call))) return {"", node.op->name};
    std::string line;
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
