#include "backends/reference/jitter.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "ops/core/catalogue.h"
#include "ops/core/evaluate.h"

namespace pycandle {
namespace {

double symmetric_uniform(uint64_t stream, uint64_t index) {  // in [-1, 1)
  return static_cast<double>(static_cast<int64_t>(splitmix(stream + index)) >> 11) * 0x1p-52;
}

Array absolute(const Array& x) {
  Array magnitude(real_of(x.dtype()), x.shape());
  in_domain(x.dtype(), [&](auto zero) {
    using T = decltype(zero);
    for_chunks(x.size(), [&](int64_t first, int64_t count) {
      std::array<T, kChunk> in;
      std::array<double, kChunk> out;
      load_chunk(x, first, count, in.data());
      for (size_t i = 0; i < static_cast<size_t>(count); ++i) out[i] = static_cast<double>(std::abs(in[i]));
      store_chunk(magnitude, first, count, out.data());
    });
  });
  return is_complex(x.dtype()) ? cast(magnitude, x.dtype()) : magnitude;
}

double moved(double y, double amount) {
  const double result = y + amount;
  return std::isfinite(y) && std::isfinite(result) ? result : y;
}
Complex moved(Complex y, Complex amount) { return {moved(y.real(), amount.real()), moved(y.imag(), amount.imag())}; }

double random_amount(double size, uint64_t stream, uint64_t index, double) { return size * symmetric_uniform(stream, index); }
Complex random_amount(double size, uint64_t stream, uint64_t index, Complex) {
  return {size * symmetric_uniform(stream, 2 * index), size * symmetric_uniform(stream, 2 * index + 1)};
}

// In roundings. Partial sums grow as large as all terms together only where those do not cancel: there alone a long sum errs by
// much more. |y| / terms is 1 there, and about 1/√n for terms of random signs. Short sums are never far from that: those of
// 128 terms were seen to err by 4.2 times what cancelling terms explain. Longer ones get less, soon: at 1,024 terms weights
// that are rounded to 16 bits must show.
double spread_of_sum(double y, double terms, Growth growth) {
  constexpr double kShort = 256;
  const double count = growth.of_sums * growth.of_sums;
  const double shortness = kShort / count;
  const double of_one_sign = terms > 0 ? y * std::min(1.0, std::max(y / terms, shortness * shortness)) : 0;
  return growth.of_terms * terms + (growth.of_sums - 1) * of_one_sign;
}

template <class T> void add_jitter(double u, const Array& y, const Array* scale, uint64_t stream, Growth growth, Array& out) {
  const DType dtype = y.dtype();
  const double u_of_sums = unit_roundoff(dtype) > unit_roundoff(DType::f32) ? std::min(u, unit_roundoff(DType::f32)) : u,
               highest = highest_of(real_of(dtype));
  for_chunks(y.size(), [&](int64_t first, int64_t count) {
    std::array<T, kChunk> values, scales;
    load_chunk(y, first, count, values.data());
    if (scale) load_chunk(*scale, first, count, scales.data());
    for (size_t i = 0; i < static_cast<size_t>(count); ++i) {
      double size = u * std::abs(values[i]);
      if (scale) size = std::max(size, u_of_sums * spread_of_sum(std::abs(values[i]), std::abs(scales[i]), growth));
      if (!std::isfinite(size)) continue;
      const T next = moved(values[i], random_amount(size, stream, static_cast<uint64_t>(first) + i, T{}));
      if (std::abs(next) < highest) values[i] = next;  // storing must not overflow what was finite
    }
    store_chunk(out, first, count, values.data());
  });
}

// Each element of a spectrum is a sum over the whole signal, made in log2 n steps. A step adds elements that lie n / r apart, for
// some divisor r of the length n: what rounding does to a large one (the mean of a signal) shows in all of these.
Array scale_of_spectrum(const Array& y, int64_t axis) {
  const int64_t n = y.shape()[static_cast<size_t>(axis)];
  if (y.size() == 0) return Array(real_of(y.dtype()), y.shape());
  const double steps = std::max(1.0, std::log2(static_cast<double>(n)));
  Ints strides;
  for (int64_t stride = 1; stride <= std::max<int64_t>(1, n / 2); ++stride) {
    if (n % stride == 0) strides.push_back(stride);
  }
  const Array rows = axis_to_end(y, axis);
  const std::vector<Complex> all = load_complex(rows);
  std::vector<double> scales(all.size());
  for (size_t row = 0; row < all.size(); row += static_cast<size_t>(n)) {
    for (const int64_t stride : strides) {
      for (int64_t first = 0; first < stride; ++first) {
        double squares = 0;
        for (int64_t k = first; k < n; k += stride) squares += std::norm(all[row + static_cast<size_t>(k)]);
        const double scale = std::sqrt(steps * squares * static_cast<double>(stride) / static_cast<double>(n));
        for (int64_t k = first; k < n; k += stride)
          scales[row + static_cast<size_t>(k)] = std::max(scales[row + static_cast<size_t>(k)], scale);
      }
    }
  }
  return axis_from_end(store(real_of(y.dtype()), rows.shape(), scales), axis);
}

Array ones_like(const Array& x) {
  const std::vector<double> ones(static_cast<size_t>(x.size()), 1.0);
  const Array real = store(real_of(x.dtype()), x.shape(), ones);
  return is_complex(x.dtype()) ? cast(real, x.dtype()) : real;
}

// A linear op on other operands of the same shapes; sub is add, so that nothing cancels.
Array summed(const Node& node, const Graph& graph, const std::vector<Array>& operands, const Bindings& bindings,
             Array (*replacement)(const Array&)) {
  std::vector<Array> replaced;
  replaced.reserve(operands.size());
  for (size_t i = 0; i < operands.size(); ++i) {
    const bool is_data = node.operands[i] != kNoValue && is_inexact(operands[i].dtype());
    replaced.push_back(is_data ? replacement(operands[i]) : operands[i]);
  }
  std::vector<const Array*> pointers;
  pointers.reserve(operands.size());
  for (size_t i = 0; i < operands.size(); ++i) pointers.push_back(node.operands[i] == kNoValue ? nullptr : &replaced[i]);
  Node sum;
  sum.op = node.op->name == "sub" ? &catalogue().at("add") : node.op;
  sum.operands = node.operands;
  sum.attributes = node.attributes;
  sum.results = node.results;
  return sum.op->evaluate(Evaluation(sum, graph, pointers, bindings, /*f64_mode=*/false, nullptr)).at(0);
}

}  // namespace

std::optional<Array> scale_of_terms(const Node& node, const Graph& graph, const std::vector<Array>& operands, const Array& result,
                                    const Bindings& bindings) {
  if (node.op->name == "fft")
    return scale_of_spectrum(result, Call(*node.op, graph, node.operands, node.attributes, node.regions).integer("axis"));
  if (node.op->rounding != Rounding::linear) return std::nullopt;
  return summed(node, graph, operands, bindings, absolute);
}

double count_of_terms(const Node& node, const Graph& graph, const std::vector<Array>& operands, const Bindings& bindings) {
  if (node.op->rounding != Rounding::linear) return 1;
  double count = 1;
  try {
    for (const Complex& v : load_complex(summed(node, graph, operands, bindings, ones_like))) count = std::max(count, v.real());
  } catch (const Error&) {
    return 1;  // an operand says where to read, not what: the boxes of roi_align, which are few terms
  }
  return count;
}

Array jittered(const Array& y, const Array* scale, uint64_t stream, Growth growth) {
  return jittered_by(unit_roundoff(y.dtype()), y, scale, stream, growth);
}

Array jittered_by(double u, const Array& y, const Array* scale, uint64_t stream, Growth growth) {
  if (!is_inexact(y.dtype())) return y;
  Array out(y.dtype(), y.shape());
  if (is_complex(y.dtype())) {
    add_jitter<Complex>(u, y, scale, stream, growth, out);
  } else {
    add_jitter<double>(u, y, scale, stream, growth, out);
  }
  return out;
}

}  // namespace pycandle
