#include "verify/judging/vacuity.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <set>

#include "backends/reference/reference.h"

namespace pycandle {
namespace {

// The different numbers of an array, no more than three: NaN is one of them.
std::vector<double> few_numbers(const Array& a) {
  std::vector<double> found;
  const auto look_at = [&](const Array& part) {
    for (double v : as_reals(part)) {
      const bool is_known = std::any_of(found.begin(), found.end(), [&](double f) { return same_number(f, v); });
      if (!is_known) found.push_back(v);
      if (found.size() > 2) return;
    }
  };
  constexpr int64_t kFirst = 64;  // these are enough for nearly every array
  if (a.size() > kFirst) look_at(Array(a.dtype(), {kFirst}, a.data(), std::make_shared<Array>(a)));
  if (found.size() <= 2) look_at(a);
  return found;
}

bool is_zero(const Array& a) {
  const std::vector<double> numbers = few_numbers(a);
  return numbers.size() == 1 && numbers[0] == 0;
}

// 0, 1, -0.5, 6: what functions come to at their limits. Any half-precision number has no more than eleven bits.
bool is_plain(double v) {
  constexpr int kBits = 4;
  int exponent = 0;
  const double scaled = std::ldexp(std::frexp(v, &exponent), kBits);
  return !std::isfinite(v) || scaled == std::round(scaled);
}

// Two numbers that a function comes to at its limits, from inputs that have more: a softmax of large scores, a clamp. Steps
// and comparisons give few numbers by their nature.
bool is_saturated(const Program& p, const OpTable& table, const std::vector<Array>& inputs, const std::vector<double>& numbers) {
  if (!std::all_of(numbers.begin(), numbers.end(), is_plain)) return false;
  const Program decomposed = decompose_to_primitives(p, table);
  const Graph& g = decomposed.graph;
  const bool has_steps = std::any_of(g.nodes.begin(), g.nodes.end(), [&](const Node& node) {
    return node.op->is_step ||
           std::any_of(node.results.begin(), node.results.end(), [&](ValueId r) { return !is_inexact(g.type(r).dtype); });
  });
  return !has_steps && std::any_of(inputs.begin(), inputs.end(),
                                   [](const Array& input) { return is_inexact(input.dtype()) && few_numbers(input).size() > 2; });
}

std::string number_text(double v) { return std::isnan(v) ? "NaN" : fmt::format("{:.6g}", v == 0 ? 0.0 : v); }

}  // namespace

PerValue<bool> values_from_inputs(const Program& p) {
  PerValue<bool> depends(p.graph.values.size());
  for (const Input& input : p.inputs) depends[input.value] = true;
  for (const State& state : p.states) depends[state.value] = true;
  for (const Node& node : p.graph.nodes) {
    const bool takes_one = std::any_of(node.operands.begin(), node.operands.end(),
                                       [&](ValueId v) { return v != kNoValue && depends[v]; });
    for (ValueId r : node.results) depends[r] = takes_one;
  }
  return depends;
}

PerValue<bool> values_from_inputs(const Program& p, const Program& recorded) {
  PerValue<bool> depends = values_from_inputs(p);
  const PerValue<bool> is_recorded_so = values_from_inputs(recorded);
  std::set<std::string> taps, outputs;
  for (const Tap& tap : recorded.taps) {
    if (is_recorded_so[tap.value]) taps.insert(tap.key);
  }
  for (const Output& output : recorded.outputs) {
    if (is_recorded_so[output.value]) outputs.insert(output.name);
  }
  for (const Tap& tap : p.taps) depends[tap.value] = depends[tap.value] || taps.count(tap.key) != 0;
  for (const Output& output : p.outputs) depends[output.value] = depends[output.value] || outputs.count(output.name) != 0;
  return depends;
}

std::optional<std::string> vacuity(const Slice& slice, const OpTable& table, const std::vector<Array>& inputs,
                                   const Array& golden) {
  if (!is_inexact(golden.dtype())) return std::nullopt;
  if (golden.size() == 0) return "it has no elements";
  const std::vector<double> numbers = few_numbers(golden);
  const std::string all = golden.size() == 1 ? "its element is" : fmt::format("all of its {} elements are", golden.size());
  if (numbers.size() == 1 && (golden.size() > 1 || numbers[0] == 0 || !std::isfinite(numbers[0])))
    return fmt::format("{} {}", all, number_text(numbers[0]));
  if (numbers.size() == 2 && golden.size() > 2 && is_saturated(slice.program, table, inputs, numbers))
    return fmt::format("{} {} or {}, though its inputs have more numbers", all, number_text(std::min(numbers[0], numbers[1])),
                       number_text(std::max(numbers[0], numbers[1])));
  const bool is_from_zeros = !inputs.empty() && std::all_of(inputs.begin(), inputs.end(), [](const Array& input) {
    return is_inexact(input.dtype()) && is_zero(input);
  });
  if (is_from_zeros) return "it is computed from nothing but 0";
  return std::nullopt;
}

std::optional<std::string> drowns_in_rounding(const Floor& floor, DType dtype) {
  const double most = std::sqrt(unit_roundoff(dtype));
  Judgement j;
  j.scale = floor.scale;
  size_t moved = 0, counted = 0;
  for (const std::vector<double>& off : floor.witnesses) j.floor_rms = std::max(j.floor_rms, root_mean_square(off));
  const std::optional<std::string> unstable = instability(j, dtype);
  if (!unstable) return std::nullopt;
  for (size_t i = 0; i < floor.exact.size(); ++i) {
    double largest = 0;
    for (const std::vector<double>& off : floor.witnesses) largest = std::max(largest, off[i]);
    if (!std::isfinite(floor.exact[i]) || (floor.exact[i] == 0 && largest == 0)) continue;
    ++counted;
    if (largest > most * std::abs(floor.exact[i])) ++moved;
  }
  return 2 * moved > counted ? unstable : std::nullopt;
}

DType coarsest_float(const Program& decomposed, DType of_result) {
  DType coarsest = of_result;
  for (const Node& node : decomposed.graph.nodes) {
    for (ValueId r : node.results) {
      const DType dtype = decomposed.graph.type(r).dtype;
      if (is_inexact(dtype) && unit_roundoff(dtype) > unit_roundoff(coarsest)) coarsest = dtype;
    }
  }
  return coarsest;
}

bool may_grow_rounding(const Program& decomposed) {
  const Graph& g = decomposed.graph;
  int roundings = 0;
  for (const Node& node : g.nodes) {
    if (!node.regions.empty() || node.op->rounding == Rounding::linear) return true;
    roundings += node.op->rounding == Rounding::relative || node.op->name == "cast";
  }
  return roundings > 1;
}

}  // namespace pycandle
