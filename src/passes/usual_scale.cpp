// Drops attention's scale when it is the default, 1 / √width.   tests/passes/usual_scale.ptir
//
//   scaled_dot_product_attention(%0, %1, %2) {scale = 0.125}: f32[s0, 4, 6, 64]      →      {scale = none}
#include <cmath>
#include <utility>

#include "passes/passes.h"
#include "passes/rewriter.h"

namespace pycandle {
namespace {

// Python says 64 ** -0.5, which may be off by a digit: compared as the arithmetic sees it, in f32, or exactly.
bool is_usual(const Type& query, const Attribute& scale) {
  const auto* number = std::get_if<double>(&scale);
  if (!number || query.rank() == 0 || !query.shape.back().is_number() || query.shape.back() == Dim(0)) return false;
  const double usual = 1 / std::sqrt(static_cast<double>(query.shape.back().number()));
  return query.dtype == DType::f64 ? *number == usual : static_cast<float>(*number) == static_cast<float>(usual);
}

std::optional<Values> without_scale(Builder& b, const Node& node, const Values& operands) {
  if (node.op->name != "scaled_dot_product_attention") return std::nullopt;
  Attributes attributes = node.attributes;
  for (auto& [name, value] : attributes) {
    if (name != "scale" || !is_usual(b.graph().type(operands[0]), value)) continue;
    value = Attribute{};
    return Values{b.create(node.op->name, operands, std::move(attributes))};
  }
  return std::nullopt;
}

}  // namespace

Program usual_scale(Program p, const OpTable& table) { return rewrite(std::move(p), table, without_scale); }

}  // namespace pycandle
