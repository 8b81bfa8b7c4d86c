// Which vector function computes an elementwise node.
#include <cmath>
#include <limits>
#include <map>
#include <string_view>

#include "backends/cpu/chain.h"
#include "backends/cpu/lowerings.h"

namespace pycandle::cpu {
namespace {

using Kind = Instruction::Kind;

template <class Enum> using Names = std::map<std::string_view, Enum>;

const Names<Unary>& unary_functions() {
  static const Names<Unary> table = {{"neg", Unary::neg},
                                     {"abs", Unary::abs},
                                     {"sqrt", Unary::sqrt},
                                     {"rsqrt", Unary::rsqrt},
                                     {"exp", Unary::exp},
                                     {"reciprocal", Unary::reciprocal},
                                     {"ceil", Unary::ceil},
                                     {"floor", Unary::floor},
                                     {"round", Unary::round},
                                     {"trunc", Unary::trunc},
                                     {"exp2", Unary::exp2},
                                     {"log", Unary::log},
                                     {"log2", Unary::log2},
                                     {"log10", Unary::log10},
                                     {"sin", Unary::sin},
                                     {"cos", Unary::cos},
                                     {"tanh", Unary::tanh},
                                     {"erf", Unary::erf},
                                     {"expm1", Unary::expm1},
                                     {"log1p", Unary::log1p},
                                     {"erfc", Unary::erfc},
                                     {"tan", Unary::tan},
                                     {"atan", Unary::atan},
                                     {"sinh", Unary::sinh},
                                     {"cosh", Unary::cosh},
                                     {"sigmoid", Unary::sigmoid},
                                     {"relu", Unary::relu},
                                     {"silu", Unary::silu},
                                     {"quick_gelu", Unary::quick_gelu},
                                     {"mish", Unary::mish},
                                     {"hardswish", Unary::hardswish},
                                     {"hardsigmoid", Unary::hardsigmoid},
                                     {"log_sigmoid", Unary::log_sigmoid}};
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
  const auto number = [&](const char* name) { return static_cast<float>(as_double(call.scalar(name))); };
  const auto as = [](Unary function, float first = 0, float second = 0) {
    Instruction i;
    i.kind = Kind::unary;
    i.function = static_cast<int>(function);
    i.p = first;
    i.q = second;
    return i;
  };
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  if (op == "gelu") return as(call.string("approximate") == "tanh" ? Unary::gelu_tanh : Unary::gelu);
  if (op == "leaky_relu") return as(Unary::leaky_relu, number("negative_slope"));
  if (op == "elu") return as(Unary::elu, number("alpha"));
  if (op == "softplus") return as(Unary::softplus1);
  if (op == "relu6") return as(Unary::clamp, 0, 6);
  if (op == "hardtanh") return as(Unary::clamp, number("min_val"), number("max_val"));
  if (op == "clamp")
    return as(Unary::clamp, call.has("min") ? number("min") : -kInfinity, call.has("max") ? number("max") : kInfinity);
  const auto found = unary_functions().find(op);
  return found == unary_functions().end() ? std::nullopt : std::optional(as(found->second));
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
// The kernels know the usual parameters; no bound is NaN.
bool is_usual_elu(const Call& c) {
  return is_f32(c) && as_double(c.scalar("scale")) == 1 && as_double(c.scalar("input_scale")) == 1;
}
bool is_usual_softplus(const Call& c) {
  return is_f32(c) && as_double(c.scalar("beta")) == 1 && as_double(c.scalar("threshold")) == 20;
}
bool has_real_bounds(const Call& c) {
  const bool is_clamp = c.op().name == "clamp";
  const auto is_real = [&](const char* name) { return !c.has(name) || !std::isnan(as_double(c.scalar(name))); };
  return is_f32(c) && is_real(is_clamp ? "min" : "min_val") && is_real(is_clamp ? "max" : "max_val");
}
bool joins_chain(Planner&, size_t) { return false; }  // nodes without steps of their own go to the chains

}  // namespace

std::vector<Lowering> elementwise_lowerings() {
  return {{"sigmoid", is_f32, joins_chain},
          {"relu", is_f32, joins_chain},
          {"silu", is_f32, joins_chain},
          {"relu6", is_f32, joins_chain},
          {"quick_gelu", is_f32, joins_chain},
          {"gelu", is_known_gelu, joins_chain},
          {"leaky_relu", is_f32, joins_chain},
          {"mish", is_f32, joins_chain},
          {"hardswish", is_f32, joins_chain},
          {"hardsigmoid", is_f32, joins_chain},
          {"log_sigmoid", is_f32, joins_chain},
          {"elu", is_usual_elu, joins_chain},
          {"softplus", is_usual_softplus, joins_chain},
          {"hardtanh", has_real_bounds, joins_chain},
          {"clamp", has_real_bounds, joins_chain}};
}

}  // namespace pycandle::cpu
