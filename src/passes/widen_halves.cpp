// What f16 and bf16 nodes compute is computed in f32 and rounded once, as their evaluators and torch's kernels do: for backends
// whose kernels are of f32.   tests/passes/widen_halves.ptir
//
//   %2 = mul(%0, %1): bf16[s0, 8]        →        %2 = cast(%0): f32[s0, 8], %3 = cast(%1): f32[s0, 8]
//                                                 %4 = mul(%2, %3): f32[s0, 8]
//                                                 %5 = cast(%4): bf16[s0, 8]
#include <algorithm>
#include <map>
#include <set>
#include <string_view>

#include "passes/passes.h"
#include "passes/rewriter.h"

namespace pycandle {
namespace {

// Primitives that compute numbers, one rounding each; what moves elements works on any dtype.
bool computes(const OpDef& op) {
  static const std::set<std::string_view> others = {"reduce_sum", "reduce_prod", "reduce_max",  "reduce_min",    "argmax",
                                                    "argmin",     "dot_general", "convolution", "grouped_matmul"};
  static const std::set<std::string_view> of_bits = {"bitcast", "nextafter"};
  if (op.is_primitive) return (op.is_pointwise && !of_bits.contains(op.name)) || others.contains(op.name);
  // Flash attention rounds its weights on the way, so it is decomposed; an embedding moves rows.
  return op.is_one_kernel && op.name != "scaled_dot_product_attention" && op.name != "embedding";
}

bool is_half(DType d) { return d == DType::f16 || d == DType::bf16; }
// Between a half and f32 nothing is to do; f64 is rounded to a half at once.
bool is_plain_cast(DType from, DType to) {
  const DType other = is_half(from) ? to : from;
  return other == DType::f32 || other == DType::f64 || is_complex(other);
}

}  // namespace

Program widen_halves(Program p, const OpTable& table) {
  if (std::none_of(p.graph.values.begin(), p.graph.values.end(), [](const Value& v) { return is_half(v.type.dtype); })) return p;
  std::map<ValueId, ValueId> wide;  // what several nodes read is widened once
  return rewrite_outside_regions(
      std::move(p), table, [&](Builder& b, const Node& node, const Values& operands) -> std::optional<Values> {
        if (!computes(*node.op) || !node.regions.empty() || operands.empty()) return std::nullopt;
        const auto is_half_value = [&](ValueId v) { return v != kNoValue && is_half(b.dtype(v)); };
        const auto widened = [&](ValueId v) {
          if (!is_half_value(v)) return v;
          const auto [found, is_new] = wide.try_emplace(v, kNoValue);
          if (is_new) found->second = b.cast(v, DType::f32);
          return found->second;
        };
        if (node.op->name == "cast") {
          const DType from = b.dtype(operands[0]),
                      to = Call(*node.op, b.graph(), operands, node.attributes, node.regions).dtype("dtype");
          if ((!is_half(from) && !is_half(to)) || is_plain_cast(from, to)) return std::nullopt;
          return Values{b.cast(is_half(from) ? widened(operands[0]) : b.cast(operands[0], DType::f32), to)};
        }
        const auto half = std::find_if(operands.begin(), operands.end(), is_half_value);
        if (half == operands.end()) return std::nullopt;
        Values wider;
        for (const ValueId v : operands) wider.push_back(widened(v));
        Values results = b.create_all(node.op->name, wider, node.attributes);
        for (ValueId& v : results) {
          if (b.dtype(v) == DType::f32) v = b.cast(v, b.dtype(*half));
          if (is_complex(b.dtype(v))) return std::nullopt;  // of two halves a complex number, which has another type
        }
        return results;
      });
}

}  // namespace pycandle
