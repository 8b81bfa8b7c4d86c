// Random numbers: a function of the seed and the position, so that threads and machines agree.
#include <cmath>
#include <numbers>

#include "ops/constraints.h"
#include "ops/evaluate.h"

namespace pycandle {

namespace {

// SplitMix64: the state is a counter, so any position can be asked for.
uint64_t random_bits(uint64_t seed, uint64_t position) {
  uint64_t z = seed + (position + 1) * 0x9e3779b97f4a7c15u;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}
// In [0, 1), with no more digits than the dtype has: rounding at the store must not give 1.
double uniform_at(uint64_t seed, uint64_t position, int digits) {
  return std::ldexp(static_cast<double>(random_bits(seed, position) >> (64 - digits)), -digits);
}

int digits_of(DType logical) { return logical == DType::f64 ? 53 : logical == DType::f32 ? 24 : logical == DType::f16 ? 11 : 8; }

template <class F> Array drawn(const Evaluation& ev, F at) {
  Array out(ev.out_dtype(), ev.sizes("shape"));
  for_chunks(out.size(), [&](int64_t first, int64_t count) {
    std::array<double, kChunk> values;
    for (int64_t i = 0; i < count; ++i) values[static_cast<size_t>(i)] = at(static_cast<uint64_t>(first + i));
    store_chunk(out, first, count, values.data());
  });
  return out;
}

OpDef random_op(const char* name, const char* doc) {
  return primitive(name)
      .doc(doc)
      .attributes(attr<Dims>("shape"), attr<DType>("dtype"))
      .constraint(std::string(name) + "_c1", "dtype is floating", [](const Call& c) { return is_floating(c.dtype("dtype")); })
      .infer([](const Call& c) { return Type{c.dtype("dtype"), c.dims("shape")}; })
      .random();
}

}  // namespace

std::vector<OpDef> random_ops() {
  return {
      random_op("uniform", "random numbers in [0, 1)").evaluator([](const Evaluation& ev) {
        const int digits = digits_of(ev.dtype("dtype"));
        return drawn(ev, [&](uint64_t position) { return uniform_at(ev.seed, position, digits); });
      }),
      random_op("normal", "random numbers with mean 0 and variance 1").evaluator([](const Evaluation& ev) {
        return drawn(ev, [&](uint64_t position) {
          const double radius = std::sqrt(-2 * std::log(1 - uniform_at(ev.seed, 2 * position, 53)));
          return radius * std::cos(2 * std::numbers::pi * uniform_at(ev.seed, 2 * position + 1, 53));
        });
      }),
  };
}

}  // namespace pycandle
