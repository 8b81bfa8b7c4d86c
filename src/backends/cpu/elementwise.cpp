// Which vector function computes an elementwise node.
#include <cmath>
#include <map>
#include <string_view>

#include "backends/cpu/chain.h"
#include "backends/cpu/lowerings.h"

namespace pycandle::cpu {
namespace {

using Kind = Instruction::Kind;

template <class Enum> using Names = std::map<std::string_view, Enum>;

const Names<Unary>& unary_functions() {
  static const Names<Unary> table = {{"neg", Unary::neg},     {"abs", Unary::abs},         {"sqrt", Unary::sqrt},
                                     {"rsqrt", Unary::rsqrt}, {"exp", Unary::exp},         {"reciprocal", Unary::reciprocal},
                                     {"ceil", Unary::ceil},   {"floor", Unary::floor},     {"round", Unary::round},
                                     {"trunc", Unary::trunc}, {"exp2", Unary::exp2},       {"log", Unary::log},
                                     {"log2", Unary::log2},   {"log10", Unary::log10},     {"sin", Unary::sin},
                                     {"cos", Unary::cos},     {"tanh", Unary::tanh},       {"erf", Unary::erf},
                                     {"expm1", Unary::expm1}, {"log1p", Unary::log1p},     {"erfc", Unary::erfc},
                                     {"tan", Unary::tan},     {"atan", Unary::atan},       {"sinh", Unary::sinh},
                                     {"cosh", Unary::cosh},   {"sigmoid", Unary::sigmoid}, {"relu", Unary::relu},
                                     {"silu", Unary::silu},   {"relu6", Unary::relu6},     {"quick_gelu", Unary::quick_gelu}};
  return table;
}

const Names<Binary>& binary_functions() {
  static const Names<Binary> table = {{"add", Binary::add}, {"sub", Binary::sub},     {"mul", Binary::mul},
                                      {"div", Binary::div}, {"maximum", Binary::max}, {"minimum", Binary::min},
                                      {"pow", Binary::pow}, {"atan2", Binary::atan2}, {"fmod", Binary::fmod}};
  return table;
}

const Names<Compare>& compare_functions() {
  static const Names<Compare> table = {{"eq", Compare::eq}, {"ne", Compare::ne}, {"lt", Compare::lt},
                                       {"le", Compare::le}, {"gt", Compare::gt}, {"ge", Compare::ge}};
  return table;
}

const Names<Kind>& bool_functions() {
  static const Names<Kind> table = {{"bitwise_and", Kind::bool_and},
                                    {"bitwise_or", Kind::bool_or},
                                    {"bitwise_xor", Kind::bool_xor},
                                    {"bitwise_not", Kind::bool_not}};
  return table;
}

// The one number that a constant repeats.
std::optional<float> repeated(Planner& p, ValueId v) {
  if (!p.is_constant(v)) return std::nullopt;
  const View& view = p.view(v);
  for (size_t a = 0; a < view.sizes.size(); ++a) {
    if (view.sizes[a] != 1 && view.strides[a] != 0) return std::nullopt;
  }
  if (view.count() == 0 || view.dtype != DType::f32) return std::nullopt;
  return p.constant(v)->as<float>()[0];
}

}  // namespace

std::optional<Instruction> activation(const Planner& p, size_t index) {
  const Node& node = p.node(index);
  const std::string& op = node.op->name;
  if (node.results.size() != 1 || p.dtype(node.results[0]) != DType::f32) return std::nullopt;
  const Call call = p.call(index);
  Instruction i;
  i.kind = Kind::unary;
  if (op == "gelu") {
    i.function = static_cast<int>(call.string("approximate") == "tanh" ? Unary::gelu_tanh : Unary::gelu);
  } else if (op == "leaky_relu") {
    i.function = static_cast<int>(Unary::leaky_relu);
    i.p = static_cast<float>(as_double(call.scalar("negative_slope")));
  } else {
    const auto found = unary_functions().find(op);
    if (found == unary_functions().end()) return std::nullopt;
    i.function = static_cast<int>(found->second);
  }
  return i;
}

std::optional<Elementwise> elementwise(Planner& p, size_t index) {
  const Node& node = p.node(index);
  if (node.results.size() != 1 || node.operands.empty()) return std::nullopt;
  const std::string& op = node.op->name;
  const DType from = p.dtype(node.operands[0]), to = p.dtype(node.results[0]);
  Elementwise e;
  e.operands = node.operands;
  const auto as = [&](Kind kind, int function) {
    e.instruction.kind = kind;
    e.instruction.function = function;
    return e;
  };
  if (from == DType::f32 && to == DType::f32) {
    if (const auto unary = activation(p, index)) {
      e.instruction = *unary;
      return e;
    }
    const auto binary = binary_functions().find(op);
    if (binary == binary_functions().end()) return std::nullopt;
    if (op == "pow") {
      if (const auto exponent = repeated(p, node.operands[1])) {
        e.operands.pop_back();
        e.instruction.p = *exponent;
        return as(Kind::unary, static_cast<int>(*exponent == 2 ? Unary::square : Unary::power));
      }
    }
    return as(Kind::binary, static_cast<int>(binary->second));
  }
  if (from == DType::f32 && to == DType::boolean) {
    const auto compare = compare_functions().find(op);
    if (compare != compare_functions().end()) return as(Kind::compare, static_cast<int>(compare->second));
    return std::nullopt;
  }
  if (from == DType::boolean && to == DType::boolean) {
    const auto found = bool_functions().find(op);
    if (found != bool_functions().end()) return as(found->second, 0);
    return std::nullopt;
  }
  if (from == DType::boolean && to == DType::f32) {
    if (op == "select") return as(Kind::select, 0);
    if (op == "cast") return as(Kind::to_float, 0);
  }
  return std::nullopt;
}

namespace {

bool is_f32(const Call& c) { return c.type("x").dtype == DType::f32; }
bool is_known_gelu(const Call& c) {
  return is_f32(c) && (c.string("approximate") == "none" || c.string("approximate") == "tanh");
}
bool joins_chain(Planner&, size_t) { return false; }  // nodes without steps of their own go to the chains

}  // namespace

std::vector<Lowering> elementwise_lowerings() {
  return {{"sigmoid", is_f32, joins_chain},   {"relu", is_f32, joins_chain},       {"silu", is_f32, joins_chain},
          {"relu6", is_f32, joins_chain},     {"quick_gelu", is_f32, joins_chain}, {"gelu", is_known_gelu, joins_chain},
          {"leaky_relu", is_f32, joins_chain}};
}

}  // namespace pycandle::cpu
