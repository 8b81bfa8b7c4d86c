#include "ops/nn/eager_attention.h"

#include <cmath>
#include <numeric>
#include <utility>

namespace pycandle {
namespace {

struct Scores {
  ValueId query = kNoValue, transposed_key = kNoValue, mask = kNoValue;
  double scale = 1;
};

// x * n or x / n: takes the number into the scale and gives x.
std::optional<ValueId> without_scale(const Fragment& f, ValueId v, double& scale) {
  v = f.behind(v, {"cast"});
  if (f.is(v, "mul")) {
    if (const auto factor = f.with_number(v)) {
      scale *= factor->first;
      return f.behind(factor->second, {"cast"});
    }
  }
  if (f.is(v, "div")) {
    if (const auto divisor = f.number(f.operand(v, 1))) {
      scale /= *divisor;
      return f.behind(f.operand(v, 0), {"cast"});
    }
  }
  return std::nullopt;
}

bool is_product(const Fragment& f, ValueId v) { return f.is_one_of(v, {"matmul", "dot_general", "baddbmm"}); }

// Behind its scale, is it a product of matrices?
bool is_scaled_product(const Fragment& f, ValueId v) {
  double scale = 1;
  while (const auto x = without_scale(f, v, scale)) v = *x;
  return is_product(f, v);
}

std::optional<Scores> read_scores(const Fragment& f, ValueId v) {
  Scores found;
  constexpr int kSteps = 6;
  for (int step = 0; step < kSteps; ++step) {
    v = f.behind(v, {"cast"});  // the softmax in f32
    if (is_product(f, v)) break;
    if (const auto x = without_scale(f, v, found.scale)) {
      v = *x;
    } else if (f.is(v, "add") && found.mask == kNoValue) {
      const bool is_left = is_scaled_product(f, f.operand(v, 0));
      found.mask = f.operand(v, is_left ? 1 : 0);
      v = f.operand(v, is_left ? 0 : 1);
    } else if (f.is(v, "select") && found.mask == kNoValue) {  // -inf where the mask is false
      const auto never = f.number(f.operand(v, 2));
      if (!never || !std::isinf(*never)) return std::nullopt;
      found.mask = f.operand(v, 0);
      v = f.operand(v, 1);
    } else {
      return std::nullopt;
    }
  }
  if (f.is_one_of(v, {"matmul", "dot_general"})) {
    found.query = f.operand(v, 0);
    found.transposed_key = f.operand(v, 1);
  } else if (f.is(v, "baddbmm")) {  // beta * mask + alpha * product
    const double beta = as_double(scalar_of(f.attribute(v, "beta")));
    if (beta != 0 && (beta != 1 || found.mask != kNoValue)) return std::nullopt;
    if (beta == 1) found.mask = f.operand(v, 0);
    found.scale *= as_double(scalar_of(f.attribute(v, "alpha")));
    found.query = f.operand(v, 1);
    found.transposed_key = f.operand(v, 2);
  } else {
    return std::nullopt;
  }
  for (ValueId* side : {&found.query, &found.transposed_key}) {  // scaled before the product
    while (const auto x = without_scale(f, *side, found.scale)) *side = *x;
  }
  return found;
}

Ints swap_of_last(int64_t rank) {
  Ints axes(static_cast<size_t>(rank));
  std::iota(axes.begin(), axes.end(), 0);
  if (rank >= 2) std::swap(axes[axes.size() - 2], axes.back());
  return axes;
}

}  // namespace

std::vector<Proposal> propose_attention(const Fragment& f) {
  const ValueId value = f.operand(f.result(), 1), weights = f.behind(f.operand(f.result(), 0), {"cast"});
  std::vector<Proposal> calls;
  for (ValueId from : f.is(weights, "softmax") ? Values{f.operand(weights, 0)} : f.entries_of(weights)) {
    auto scores = read_scores(f, from);
    if (!scores || f.type(scores->transposed_key).rank() < 2) continue;
    Proposal call;
    const Ints swap = swap_of_last(f.type(scores->transposed_key).rank());
    const bool is_transposed = f.is(scores->transposed_key, "transpose") &&
                               std::get<Ints>(f.attribute(scores->transposed_key, "permutation")) == swap;
    ValueId key = scores->transposed_key;
    if (is_transposed) {
      key = f.operand(key, 0);
      while (const auto x = without_scale(f, key, scores->scale)) key = *x;
    }
    call.operands = {scores->query, key, value, kNoValue};
    if (!is_transposed) call.transposed = {{}, swap, {}, {}};
    call.attributes = {{"scale", scores->scale}, {"eager", true}};
    if (scores->mask == kNoValue) {
      calls.push_back(std::move(call));
      continue;
    }
    const ValueId small = f.behind(scores->mask, {"broadcast"});
    for (ValueId mask : {small, scores->mask}) {
      call.operands[3] = mask;
      calls.push_back(call);
    }
  }
  return calls;
}

}  // namespace pycandle
