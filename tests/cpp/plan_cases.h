// Programs in text form, run by the cpu backend beside the reference.
#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <string>
#include <vector>

#include "backends/cpu/cpu.h"
#include "backends/reference/reference.h"
#include "ir/text.h"
#include "ir/verifier.h"
#include "ops/core/catalogue.h"

namespace pycandle {

inline Program parsed(const std::string& body) {
  Program p = parse_program("ptir.v1 program \"test\"\n\n" + body, catalogue());
  verify(p, "the test");
  return p;
}

// Numbers in [-2, 2] that do not repeat; small whole ones for integers.
inline Array numbers(DType dtype, Sizes shape, uint64_t seed = 1) {
  std::vector<double> values(static_cast<size_t>(element_count(shape)));
  uint64_t state = seed * 0x9e3779b97f4a7c15;
  for (double& v : values) {
    state = state * 6364136223846793005 + 1442695040888963407;
    v = static_cast<double>(state >> 40) / (1 << 22) - 2;
    if (!is_floating(dtype)) v = std::abs(std::floor(v * 2));
  }
  return store(dtype, std::move(shape), values);
}

using Arrays = std::vector<Array>;
using Weights = std::map<std::string, Array>;

inline Arrays run(const Executable& e, Arrays inputs) {
  RunRequest request;
  request.inputs = std::move(inputs);
  return e.run(request);
}

// As the reference within a few roundings of the largest element.
inline void expect_close(const Array& got, const Array& expected, double tolerance = 2e-6) {
  ASSERT_EQ(got.dtype(), expected.dtype());
  ASSERT_EQ(got.shape(), expected.shape());
  const std::vector<double> a = load_double(got), b = load_double(expected);
  double scale = 1e-30;
  for (const double v : b) {
    if (std::isfinite(v)) scale = std::max(scale, std::abs(v));
  }
  for (size_t i = 0; i < a.size(); ++i) {
    if (std::isnan(b[i])) {  // of either sign
      ASSERT_TRUE(std::isnan(a[i])) << "element " << i << ": " << a[i];
    } else if (std::isinf(b[i])) {
      ASSERT_EQ(a[i], b[i]) << "element " << i;
    } else {
      ASSERT_LE(std::abs(a[i] - b[i]), tolerance * scale) << "element " << i << ": " << a[i] << " and " << b[i];
    }
  }
}

inline void expect_as_reference(const std::string& body, const Arrays& inputs, Weights weights = {}) {
  const Program p = parsed(body);
  const auto source = memory_parameters(std::move(weights));
  const Arrays expected = run(*reference_backend().compile(p, catalogue(), source), inputs);
  const auto executable = cpu_backend().compile(p, catalogue(), source);
  for (int turn = 0; turn < 2; ++turn) {  // the second one in used memory
    const Arrays got = run(*executable, inputs);
    ASSERT_EQ(got.size(), expected.size());
    for (size_t i = 0; i < got.size(); ++i) expect_close(got[i], expected[i]);
  }
}

}  // namespace pycandle
