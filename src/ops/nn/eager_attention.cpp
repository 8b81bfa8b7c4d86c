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
std::optional<ValueId> without_scale(const Region& r, ValueId v, double& scale) {
  v = r.behind(v, {"cast"});
  if (r.is(v, "mul")) {
    if (const auto factor = r.with_number(v)) {
      scale *= factor->first;
      return r.behind(factor->second, {"cast"});
    }
  }
  if (r.is(v, "div")) {
    if (const auto divisor = r.number(r.operand(v, 1))) {
      scale /= *divisor;
      return r.behind(r.operand(v, 0), {"cast"});
    }
  }
  return std::nullopt;
}

bool is_product(const Region& r, ValueId v) { return r.is_one_of(v, {"matmul", "dot_general", "baddbmm"}); }

// Behind its scale, is it a product of matrices?
bool is_scaled_product(const Region& r, ValueId v) {
  double scale = 1;
  while (const auto x = without_scale(r, v, scale)) v = *x;
  return is_product(r, v);
}

std::optional<Scores> read_scores(const Region& r, ValueId v) {
  Scores found;
  constexpr int kSteps = 6;
  for (int step = 0; step < kSteps; ++step) {
    v = r.behind(v, {"cast"});  // the softmax in f32
    if (is_product(r, v)) break;
    if (const auto x = without_scale(r, v, found.scale)) {
      v = *x;
    } else if (r.is(v, "add") && found.mask == kNoValue) {
      const bool is_left = is_scaled_product(r, r.operand(v, 0));
      found.mask = r.operand(v, is_left ? 1 : 0);
      v = r.operand(v, is_left ? 0 : 1);
    } else if (r.is(v, "select") && found.mask == kNoValue) {  // -inf where the mask is false
      const auto never = r.number(r.operand(v, 2));
      if (!never || !std::isinf(*never)) return std::nullopt;
      found.mask = r.operand(v, 0);
      v = r.operand(v, 1);
    } else {
      return std::nullopt;
    }
  }
  if (r.is_one_of(v, {"matmul", "dot_general"})) {
    found.query = r.operand(v, 0);
    found.transposed_key = r.operand(v, 1);
  } else if (r.is(v, "baddbmm")) {  // beta * mask + alpha * product
    const double beta = as_double(scalar_of(r.attribute(v, "beta")));
    if (beta != 0 && (beta != 1 || found.mask != kNoValue)) return std::nullopt;
    if (beta == 1) found.mask = r.operand(v, 0);
    found.scale *= as_double(scalar_of(r.attribute(v, "alpha")));
    found.query = r.operand(v, 1);
    found.transposed_key = r.operand(v, 2);
  } else {
    return std::nullopt;
  }
  for (ValueId* side : {&found.query, &found.transposed_key}) {  // scaled before the product
    while (const auto x = without_scale(r, *side, found.scale)) *side = *x;
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

std::vector<Proposal> propose_attention(const Region& r) {
  const ValueId value = r.operand(r.result(), 1), weights = r.behind(r.operand(r.result(), 0), {"cast"});
  std::vector<Proposal> calls;
  for (ValueId from : r.is(weights, "softmax") ? Values{r.operand(weights, 0)} : r.entries_of(weights)) {
    auto scores = read_scores(r, from);
    if (!scores || r.type(scores->transposed_key).rank() < 2) continue;
    Proposal call;
    const Ints swap = swap_of_last(r.type(scores->transposed_key).rank());
    const bool is_transposed = r.is(scores->transposed_key, "transpose") &&
                               std::get<Ints>(r.attribute(scores->transposed_key, "permutation")) == swap;
    ValueId key = scores->transposed_key;
    if (is_transposed) {
      key = r.operand(key, 0);
      while (const auto x = without_scale(r, key, scores->scale)) key = *x;
    }
    call.operands = {scores->query, key, value, kNoValue};
    if (!is_transposed) call.transposed = {{}, swap, {}, {}};
    call.attributes = {{"scale", scores->scale}, {"eager", true}};
    if (scores->mask == kNoValue) {
      calls.push_back(std::move(call));
      continue;
    }
    const ValueId small = r.behind(scores->mask, {"broadcast"});
    for (ValueId mask : {small, scores->mask}) {
      call.operands[3] = mask;
      calls.push_back(call);
    }
  }
  return calls;
}

}  // namespace pycandle
