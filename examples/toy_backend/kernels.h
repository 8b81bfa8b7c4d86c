// Kernels for f32. Values are walked by strides, so a transpose, a slice or a broadcast moves nothing.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <map>

#include "backends/kit.h"

namespace toy {

using namespace pycandle;

struct View {
  Array memory;
  Sizes sizes, strides;
  int64_t offset = 0;
};

inline View dense(Array a) {
  const Sizes sizes = a.shape();
  return {std::move(a), sizes, row_major_strides(sizes), 0};
}

// The elements side by side, for whoever knows no strides.
inline Array gathered(const View& v) {
  if (v.strides == row_major_strides(v.sizes) && v.memory.shape() == v.sizes) return v.memory;
  Array out(v.memory.dtype(), v.sizes);
  const size_t bytes = size_of(out.dtype());
  const auto* from = static_cast<const char*>(v.memory.data());
  auto* to = static_cast<char*>(out.mutable_data());
  for_each_offset(
      v.sizes, v.strides, [&](int64_t i, int64_t at) { std::memcpy(to + i * bytes, from + at * bytes, bytes); }, v.offset);
  return out;
}

// transpose, broadcast and slice; false for any other op.
inline bool moved(const Call& c, const View& x, const Bindings& sizes, View& out) {
  out = x;
  if (c.op().name == "transpose") {
    out.sizes = permuted(x.sizes, c.integers("permutation"));
    out.strides = permuted(x.strides, c.integers("permutation"));
  } else if (c.op().name == "broadcast") {
    out.sizes = evaluate(c.dims("shape"), sizes);
    out.strides.assign(out.sizes.size(), 0);
    const Ints& axes = c.integers("axes");
    for (size_t i = 0; i < axes.size(); ++i) out.strides[axes[i]] = x.sizes[i] == 1 ? 0 : x.strides[i];
  } else if (c.op().name == "slice") {
    const Sizes starts = evaluate(c.dims("starts"), sizes), stops = evaluate(c.dims("stops"), sizes);
    const Ints& steps = c.integers("steps");
    for (size_t i = 0; i < steps.size(); ++i) {
      out.offset += starts[i] * x.strides[i];
      out.sizes[i] = (stops[i] - starts[i] + steps[i] - 1) / steps[i];
      out.strides[i] = x.strides[i] * steps[i];
    }
  } else {
    return false;
  }
  return true;
}

using Unary = float (*)(float);
using Binary = float (*)(float, float);
using Ternary = float (*)(float, float, float);

inline Unary find_unary(const std::string& op) {
  static const std::map<std::string, Unary> table = {
      {"neg", [](float x) { return -x; }},
      {"abs", [](float x) { return std::fabs(x); }},
      {"exp", [](float x) { return std::exp(x); }},
      {"sqrt", [](float x) { return std::sqrt(x); }},
      {"round", [](float x) { return std::nearbyint(x); }},
      {"floor", [](float x) { return std::floor(x); }},
      {"trunc", [](float x) { return std::trunc(x); }},
      {"sign", [](float x) { return static_cast<float>((x > 0) - (x < 0)); }},
  };
  const auto found = table.find(op);
  return found == table.end() ? nullptr : found->second;
}

inline Binary find_binary(const std::string& op) {
  static const std::map<std::string, Binary> table = {
      {"add", [](float a, float b) { return a + b; }},
      {"sub", [](float a, float b) { return a - b; }},
      {"mul", [](float a, float b) { return a * b; }},
      {"div", [](float a, float b) { return a / b; }},
      {"maximum", [](float a, float b) { return std::isnan(a) || a > b ? a : b; }},
      {"minimum", [](float a, float b) { return std::isnan(a) || a < b ? a : b; }},
      {"fmod", [](float a, float b) { return std::fmod(a, b); }},
  };
  const auto found = table.find(op);
  return found == table.end() ? nullptr : found->second;
}

template <class F> Array map1(const View& x, const F& f) {
  Array out(DType::f32, x.sizes);
  const float* from = x.memory.as<float>();
  float* to = out.mutable_as<float>();
  for_each_offset(x.sizes, x.strides, [&](int64_t i, int64_t at) { to[i] = f(from[at]); }, x.offset);
  return out;
}

template <class F> Array map3(const View& a, const View& b, const View& c, const F& f) {
  Array out(DType::f32, a.sizes);
  const float *x = a.memory.as<float>(), *y = b.memory.as<float>(), *z = c.memory.as<float>();
  float* to = out.mutable_as<float>();
  for_each_offset<3>(a.sizes, {a.strides, b.strides, c.strides},
                     [&](int64_t i, const std::array<int64_t, 3>& at) { to[i] = f(x[at[0]], y[at[1]], z[at[2]]); },
                     {a.offset, b.offset, c.offset});
  return out;
}

// x with these axes first (`rest`) and those last, and how many of them there are.
inline View with_last(const View& x, const Ints& last) {
  Ints order;
  for (int64_t axis = 0; axis < static_cast<int64_t>(x.sizes.size()); ++axis) {
    if (std::find(last.begin(), last.end(), axis) == last.end()) order.push_back(axis);
  }
  order.insert(order.end(), last.begin(), last.end());
  return {x.memory, permuted(x.sizes, order), permuted(x.strides, order), x.offset};
}

// Rows are all that is not reduced; `f` gets the number of a row and its elements one after another.
inline void for_each_row(const View& x, const Ints& axes, const std::function<void(int64_t row, const std::vector<float>&)>& f) {
  const View ordered = with_last(x, axes);
  const size_t outer = x.sizes.size() - axes.size();
  const Sizes rows(ordered.sizes.begin(), ordered.sizes.begin() + outer),
      columns(ordered.sizes.begin() + outer, ordered.sizes.end());
  const Sizes row_strides(ordered.strides.begin(), ordered.strides.begin() + outer);
  const Sizes column_strides(ordered.strides.begin() + outer, ordered.strides.end());
  const float* from = x.memory.as<float>();
  std::vector<float> row(element_count(columns));
  for_each_offset(
      rows, row_strides,
      [&](int64_t number, int64_t start) {
        for_each_offset(columns, column_strides, [&](int64_t i, int64_t at) { row[i] = from[at]; }, start);
        f(number, row);
      },
      x.offset);
}

inline Array reduced(const View& x, const Ints& axes, const Sizes& sizes, bool is_sum) {
  Array out(DType::f32, sizes);
  float* to = out.mutable_as<float>();
  for_each_row(x, axes, [&](int64_t number, const std::vector<float>& row) {
    double sum = 0;
    float largest = -INFINITY;
    for (const float v : row) {
      sum += v;
      if (std::isnan(v) || v > largest) largest = v;
      if (std::isnan(largest)) break;
    }
    to[number] = is_sum ? static_cast<float>(sum) : largest;
  });
  return out;
}

// Along the last axis of the view; the result lies as the view does, dense.
inline Array softmax(const View& x) {
  Array out(DType::f32, x.sizes);
  float* to = out.mutable_as<float>();
  const int64_t columns = x.sizes.back();
  for_each_row(x, {static_cast<int64_t>(x.sizes.size()) - 1}, [&](int64_t number, const std::vector<float>& row) {
    float largest = -INFINITY;
    for (const float v : row) largest = std::isnan(v) || v > largest ? v : largest;
    double sum = 0;
    for (const float v : row) sum += std::exp(v - largest);
    for (int64_t i = 0; i < columns; ++i) to[number * columns + i] = static_cast<float>(std::exp(row[i] - largest) / sum);
  });
  return out;
}

inline Array product(const View& left, const View& right, const Call& c, const Sizes& sizes) {
  const auto ordered = [](const View& x, Ints first, const Ints& last) {  // batch, rest, contracted
    Ints order = first;
    for (int64_t axis = 0; axis < static_cast<int64_t>(x.sizes.size()); ++axis) {
      const bool listed = std::find(first.begin(), first.end(), axis) != first.end() ||
                          std::find(last.begin(), last.end(), axis) != last.end();
      if (!listed) order.push_back(axis);
    }
    order.insert(order.end(), last.begin(), last.end());
    return dense(gathered({x.memory, permuted(x.sizes, order), permuted(x.strides, order), x.offset}));
  };
  const Ints &batch = c.integers("batch_left"), &contract = c.integers("contract_left");
  const View a = ordered(left, batch, contract), b = ordered(right, c.integers("batch_right"), c.integers("contract_right"));
  int64_t batches = 1, depth = 1;
  for (const int64_t axis : batch) batches *= left.sizes[axis];
  for (const int64_t axis : contract) depth *= left.sizes[axis];
  Array out(DType::f32, sizes);
  if (out.size() == 0 || depth == 0) return out;
  const int64_t rows = a.memory.size() / batches / depth, columns = b.memory.size() / batches / depth;
  const float *x = a.memory.as<float>(), *y = b.memory.as<float>();
  float* to = out.mutable_as<float>();
  for (int64_t i = 0; i < batches * rows; ++i) {
    for (int64_t j = 0; j < columns; ++j) {
      double sum = 0;
      const float *p = x + i * depth, *q = y + (i / rows * columns + j) * depth;
      for (int64_t k = 0; k < depth; ++k) sum += static_cast<double>(p[k]) * q[k];
      to[i * columns + j] = static_cast<float>(sum);
    }
  }
  return out;
}

}  // namespace toy
