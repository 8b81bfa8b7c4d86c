#include "verify/diagnosing/trial_inputs.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>

#include "runtime/model.h"
#include "verify/judging/metrics.h"

namespace pycandle {
namespace {

// So large that a square of it, or a sum of many, is still a number of the dtype; and one through that.
double huge_of(DType dtype) {
  switch (dtype) {
    case DType::f16: return 0x1p6;
    case DType::f64:
    case DType::c128: return 0x1p200;
    default: return 0x1p32;
  }
}

using Change = std::function<double(double value, size_t index, DType)>;

Array changed(const Array& a, const Change& change) {
  if (is_complex(a.dtype())) {
    std::vector<std::complex<double>> values = load_complex(a);
    for (size_t i = 0; i < values.size(); ++i)
      values[i] = {change(values[i].real(), i, a.dtype()), change(values[i].imag(), i, a.dtype())};
    return store(a.dtype(), a.shape(), values);
  }
  std::vector<double> values = load_double(a);
  for (size_t i = 0; i < values.size(); ++i) values[i] = change(values[i], i, a.dtype());
  return store(a.dtype(), a.shape(), values);
}

Array filled(const Array& a, int64_t value) {
  return store(a.dtype(), a.shape(), std::vector<int64_t>(static_cast<size_t>(a.size()), value));
}

struct Edge {
  const char* what;
  Change change;
  bool is_finite = true;
};

const std::vector<Edge>& edges() {
  static const auto every_third = [](double special) {
    return [special](double x, size_t i, DType) { return i % 3 == 0 ? special : x; };
  };
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  static const std::vector<Edge> all = {
      {"zeros", [](double, size_t, DType) { return 0.0; }},
      {"negative numbers", [](double x, size_t, DType) { return -std::abs(x); }},
      {"positive numbers", [](double x, size_t, DType) { return std::abs(x); }},
      {"tiny numbers", [](double x, size_t, DType d) { return x / huge_of(d); }},
      {"huge numbers", [](double x, size_t, DType d) { return x * huge_of(d); }},
      {"numbers with zeros between them", every_third(0.0)},
      {"numbers with infinities between them", every_third(kInfinity), false},
      {"numbers with negative infinities between them", every_third(-kInfinity), false},
      {"numbers with NaN between them", every_third(std::numeric_limits<double>::quiet_NaN()), false}};
  return all;
}

// Every open size at once, then each alone.
std::vector<std::pair<std::string, Bindings>> other_sizes(const Program& p) {
  std::vector<std::pair<std::string, Bindings>> all;
  std::map<std::string, std::vector<int64_t>> wanted;
  for (const Symbol& s : p.symbols) {
    if (s.axis < 0) continue;
    const int64_t larger = s.example + 1, smaller = std::max<int64_t>(s.range.min, 0);
    if (smaller != s.example) wanted[s.name].push_back(smaller);
    if (smaller == 0 && s.example != 1) wanted[s.name].push_back(1);
    if (!s.range.max || larger <= *s.range.max) wanted[s.name].push_back(larger);
  }
  Bindings least;
  for (const auto& [name, sizes] : wanted) least[name] = sizes.front();
  if (wanted.size() > 1) all.emplace_back("random inputs of the least sizes", least);
  for (const auto& [name, sizes] : wanted) {
    for (const int64_t size : sizes) all.push_back({fmt::format("random inputs with {} = {}", name, size), {{name, size}}});
  }
  return all;
}

std::vector<Array> in_order(const Program& p, const Model::Tensors& tensors) {
  std::vector<Array> arrays;
  for (const Input& input : p.inputs) arrays.push_back(tensors.at(input.name));
  return arrays;
}

}  // namespace

std::vector<TrialInputs> trial_inputs(const Program& p) {
  std::vector<TrialInputs> all;
  for (uint64_t seed = 1; seed <= 3; ++seed)
    all.push_back({fmt::format("random inputs, seed {}", seed), in_order(p, random_inputs(p, seed))});
  uint64_t seed = 10;
  for (const auto& [what, sizes] : other_sizes(p)) all.push_back({what, in_order(p, random_inputs(p, seed++, sizes))});
  const std::vector<Array> random = all.front().arrays;
  const auto is_float = [](const Array& a) { return is_inexact(a.dtype()); };
  if (!std::all_of(random.begin(), random.end(), is_float)) {
    for (const bool is_low : {true, false}) {
      TrialInputs trial{is_low ? "integers at the least of their range" : "integers at the most of their range", random};
      for (size_t i = 0; i < random.size(); ++i) {
        const auto [low, high] = p.inputs[i].range.value_or(std::pair<int64_t, int64_t>{0, 1});
        if (!is_float(random[i])) trial.arrays[i] = filled(random[i], is_low ? low : high);
      }
      all.push_back(std::move(trial));
    }
  }
  if (std::none_of(random.begin(), random.end(), is_float)) return all;
  for (const Edge& edge : edges()) {
    TrialInputs trial{edge.what, random, edge.is_finite};
    for (Array& a : trial.arrays) {
      if (is_float(a)) a = changed(a, edge.change);
    }
    all.push_back(std::move(trial));
  }
  return all;
}

std::vector<std::pair<std::string, Array>> variants_of(const Array& a) {
  std::vector<std::pair<std::string, Array>> all{{"as recorded", a}};
  if (!is_inexact(a.dtype())) {
    all.emplace_back("zeros", filled(a, 0));
    all.emplace_back("ones", filled(a, 1));
    return all;
  }
  const std::vector<double> reals = as_reals(a);
  const bool is_signed = std::any_of(reals.begin(), reals.end(), [](double x) { return x < 0; });
  for (const Edge& edge : edges()) {
    if (!edge.is_finite) continue;
    all.emplace_back(edge.what, changed(a, [&](double x, size_t i, DType d) {
                       const double value = std::isfinite(x) ? edge.change(x, i, d) : x;
                       return is_signed ? value : std::abs(value);
                     }));
  }
  all.emplace_back("a thousandth of the recorded numbers", changed(a, [](double x, size_t, DType) { return x / 1024; }));
  return all;
}

}  // namespace pycandle
