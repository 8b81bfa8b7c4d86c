// Which vector function computes an elementwise node.
#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <string_view>

#include "backends/cpu/cache_rows.h"
#include "backends/cpu/chain.h"
#include "backends/cpu/lowerings.h"

namespace pycandle::cpu {
namespace {

using Kind = Instruction::Kind;

template <class Enum> using Names = std::map<std::string_view, Enum>;

bool is_f32(const Call& c) { return c.type("x").dtype == DType::f32; }
float number(const Call& c, const char* name) { return static_cast<float>(as_double(c.scalar(name))); }
bool is_one(const Call& c, const char* name) { return as_double(c.scalar(name)) == 1; }
// No bound is NaN.
bool has_real_bounds(const Call& c, const char* low, const char* high) {
  const auto is_real = [&](const char* name) { return !c.has(name) || !std::isnan(as_double(c.scalar(name))); };
  return is_f32(c) && is_real(low) && is_real(high);
}
constexpr float kInfinity = std::numeric_limits<float>::infinity();

// The ops of one number: the function of kernels/unary.inc, which calls of a functional are run whole, and the parameters of
// the functions that have some.
struct UnaryRow {
  const char* op;
  Unary function;
  bool (*claims)(const Call&) = nullptr;                    // functionals
  void (*set)(const Call&, Instruction&) = nullptr;
};
const UnaryRow kUnary[] = {
    {"neg", Unary::neg},
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
    {"sigmoid", Unary::sigmoid, is_f32},
    {"relu", Unary::relu, is_f32},
    {"silu", Unary::silu, is_f32},
    {"quick_gelu", Unary::quick_gelu, is_f32},
    {"mish", Unary::mish, is_f32},
    {"hardswish", Unary::hardswish, is_f32},
    {"hardsigmoid", Unary::hardsigmoid, is_f32},
    {"log_sigmoid", Unary::log_sigmoid, is_f32},
    {"relu6", Unary::clamp, is_f32, [](const Call&, Instruction& i) { i.q = 6; }},
    {"gelu", Unary::gelu,
     [](const Call& c) { return is_f32(c) && (c.string("approximate") == "none" || c.string("approximate") == "tanh"); },
     [](const Call& c, Instruction& i) {
       if (c.string("approximate") == "tanh") i.function = static_cast<int>(Unary::gelu_tanh);
     }},
    {"leaky_relu", Unary::leaky_relu, is_f32, [](const Call& c, Instruction& i) { i.p = number(c, "negative_slope"); }},
    {"elu", Unary::elu, [](const Call& c) { return is_f32(c) && is_one(c, "scale") && is_one(c, "input_scale"); },
     [](const Call& c, Instruction& i) { i.p = number(c, "alpha"); }},
    {"softplus", Unary::softplus1,
     [](const Call& c) { return is_f32(c) && is_one(c, "beta") && as_double(c.scalar("threshold")) == 20; }},
    {"hardtanh", Unary::clamp, [](const Call& c) { return has_real_bounds(c, "min_val", "max_val"); },
     [](const Call& c, Instruction& i) {
       i.p = number(c, "min_val");
       i.q = number(c, "max_val");
     }},
    {"clamp", Unary::clamp, [](const Call& c) { return has_real_bounds(c, "min", "max"); },
     [](const Call& c, Instruction& i) {
       i.p = c.has("min") ? number(c, "min") : -kInfinity;
       i.q = c.has("max") ? number(c, "max") : kInfinity;
     }},
};

const UnaryRow* unary_row(std::string_view op) {
  static const auto table = [] {
    Names<const UnaryRow*> rows;
    for (const UnaryRow& row : kUnary) rows.emplace(row.op, &row);
    return rows;
  }();
  const auto found = table.find(op);
  return found == table.end() ? nullptr : found->second;
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
  if (node.results.size() != 1 || p.dtype(node.results[0]) != DType::f32) return std::nullopt;
  const UnaryRow* row = unary_row(node.op->name);
  if (!row) return std::nullopt;
  Instruction i;
  i.kind = Kind::unary;
  i.function = static_cast<int>(row->function);
  if (row->set) row->set(p.call(index), i);
  return i;
}

bool is_blockwise(const Planner& p, size_t index) {
  const Node& node = p.node(index);
  const auto is_image = [&](ValueId v) { return v != kNoValue && p.dtype(v) == DType::f32 && p.graph().type(v).rank() == 4; };
  if (node.results.size() != 1 || !is_image(node.results[0])) return false;
  if (!std::all_of(node.operands.begin(), node.operands.end(), is_image)) return false;
  return node.op->name != "pow" && (activation(p, index) || binary_functions().contains(node.op->name));
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
  if (op == "cast" && from == DType::f32 && half_format(to)) return as(Kind::narrow, static_cast<int>(*half_format(to)));
  if (op == "cast" && to == DType::f32 && half_format(from)) return as(Kind::widen, static_cast<int>(*half_format(from)));
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

std::vector<Lowering> elementwise_lowerings() {
  const auto joins_chain = [](Planner&, size_t) { return false; };  // nodes without steps of their own go to the chains
  std::vector<Lowering> all;
  for (const UnaryRow& row : kUnary) {
    if (row.claims) all.push_back({row.op, row.claims, joins_chain});
  }
  return all;
}

}  // namespace pycandle::cpu
