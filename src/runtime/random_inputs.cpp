// Random inputs that are the same bits on every platform: only integer arithmetic and exact divisions.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "base/error.h"
#include "params/parameters.h"
#include "runtime/model.h"

namespace pycandle {
namespace {

// splitmix64.
class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed) {}
  uint64_t next() {
    uint64_t x = state_ += 0x9e3779b97f4a7c15;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
    x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
    return x ^ (x >> 31);
  }
  // The sum of twelve uniform numbers has variance one and is as good as normal here; libm's log and cos are not the
  // same everywhere.
  double normal() {
    uint64_t sum = 0;
    for (int i = 0; i < 6; ++i) {
      const uint64_t bits = next();
      sum += (bits & 0xffffffff) + (bits >> 32);
    }
    return static_cast<double>(static_cast<int64_t>(sum) - (int64_t{6} << 32)) * 0x1p-32;
  }
  int64_t between(int64_t low, int64_t high) {
    const uint64_t span = static_cast<uint64_t>(high) - static_cast<uint64_t>(low) + 1;  // 0: every int64
    return static_cast<int64_t>(static_cast<uint64_t>(low) + (span == 0 ? next() : next() % span));
  }

 private:
  uint64_t state_;
};

Array random_array(const Input& input, DType dtype, const Sizes& shape, Random random) {
  const auto count = static_cast<size_t>(element_count(shape));
  if (is_complex(dtype)) {
    std::vector<std::complex<double>> values(count);
    for (auto& v : values) {
      const double real = random.normal(), imaginary = random.normal();
      v = {real, imaginary};
    }
    return store(dtype, shape, values);
  }
  if (is_floating(dtype) && !input.range) {
    std::vector<double> values(count);
    for (double& v : values) v = random.normal();
    return store(dtype, shape, values);
  }
  const auto [low, high] = input.range.value_or(std::pair<int64_t, int64_t>{0, 1});
  std::vector<int64_t> values(count);
  for (int64_t& v : values) v = random.between(low, high);
  return store(dtype, shape, values);
}

}  // namespace

Model::Tensors random_inputs(const Program& p, uint64_t seed, const Bindings& sizes) {
  Bindings bound;
  std::vector<std::string> names;
  for (const Symbol& s : p.symbols) {
    bound[s.name] = s.example;
    if (s.axis >= 0) names.push_back(s.name);
  }
  for (const auto& [name, size] : sizes) {
    if (std::find(names.begin(), names.end(), name) == names.end()) {
      throw Error(ErrorCode::usage, fmt::format("there is no dynamic dim {}", name))
          .expected(names.empty() ? "none: every size of this program is fixed"
                                  : fmt::format("one of {}", fmt::join(names, ", ")))
          .found(name);
    }
    bound[name] = size;
  }
  Model::Tensors tensors;
  for (const Input& input : p.inputs) {
    const Type& type = p.graph.type(input.value);
    // A stream of its own for each name: another input beside it changes nothing.
    tensors[input.name] = random_array(input, type.dtype, evaluate(type.shape, bound),
                                       Random(seed ^ parameter_id(input.name).low));
  }
  return tensors;
}

}  // namespace pycandle
