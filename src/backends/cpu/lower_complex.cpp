// Fourier transforms, and the complex arithmetic around them.
#include <cmath>
#include <numbers>

#include "backends/cpu/kernel_step.h"
#include "backends/cpu/lowerings.h"

namespace pycandle::cpu {
namespace {

constexpr int64_t kLargestFactor = 64;  // the evaluator knows a shorter way for longer primes

// Fours first: they have the fewest products.
bool set_factors(Fft& args) {
  int64_t rest = args.length;
  const auto take = [&](int64_t p) {
    for (; rest % p == 0 && args.factors < kMostFactors; rest /= p) args.factor[args.factors++] = static_cast<int8_t>(p);
  };
  take(4);
  for (int64_t p = 2; p <= kLargestFactor; ++p) take(p);
  return rest == 1;
}

// e^(±2πik / n), as parts in f64; the angle is reduced first, so that it keeps its digits.
Array roots_of_unity(int64_t n, bool inverse) {
  std::vector<double> parts(static_cast<size_t>(2 * n));
  for (int64_t k = 0; k < n; ++k) {
    const double angle = (inverse ? 2 : -2) * std::numbers::pi * static_cast<double>(k) / static_cast<double>(n);
    parts[static_cast<size_t>(2 * k)] = std::cos(angle);
    parts[static_cast<size_t>(2 * k + 1)] = std::sin(angle);
  }
  return store(DType::f64, {2 * n}, parts);
}

bool lower_fft(Planner& p, size_t index) {
  const Node& node = p.node(index);
  if (p.dtype(node.operands[0]) != DType::c64) return false;
  const Call c = p.call(index);
  const auto axis = static_cast<size_t>(c.integer("axis"));
  const Sizes sizes = p.sizes(node.operands[0]);
  Fft args;
  args.length = sizes[axis];
  args.inverse = c.boolean("inverse");
  for (size_t a = 0; a < sizes.size(); ++a)
    if (a != axis) (a < axis ? args.outer : args.inner) *= sizes[a];
  if (args.outer * args.inner == 0 || args.length == 0 || !set_factors(args)) return false;
  const View x = p.dense(node.operands[0]), out = p.result(node.results[0]);
  const Array roots = roots_of_unity(args.length, args.inverse);
  const View table = dense_view(p.constant_buffer(roots), DType::f64, roots.shape());
  const double work = 2 * static_cast<double>(x.count()) * static_cast<double>(args.factors + 4);
  const Kernels& k = kernels();
  add_kernel<Fft>(p, {"fft", work}, k.fft, k.fft_units, k.fft_scratch, args,
                  {{offsetof(Fft, x), x}, {offsetof(Fft, roots), table}}, {{offsetof(Fft, out), out}});
  p.define(node.results[0], out);
  return true;
}

bool is_one_number(const View& v) {
  for (size_t a = 0; a < v.sizes.size(); ++a)
    if (v.sizes[a] != 1 && v.strides[a] != 0) return false;
  return true;
}

// The real or imaginary parts, where they lie.
View part_of_complex(View v, bool is_imaginary) {
  v.dtype = DType::f32;
  v.offset = 2 * v.offset + (is_imaginary ? 1 : 0);
  for (int64_t& stride : v.strides) stride *= 2;
  return v;
}

}  // namespace

bool lower_complex(Planner& p, size_t index) {
  const Node& node = p.node(index);
  const std::string& op = node.op->name;
  const DType from = p.dtype(node.operands[0]), to = p.dtype(node.results[0]);
  if (from == DType::c64 && (op == "real" || op == "imag")) {
    p.define(node.results[0], part_of_complex(p.view(node.operands[0]), op == "imag"));
    return true;
  }
  ComplexMap args;
  if (from == DType::f32 && to == DType::c64 && op == "cast") {
    args.op = ComplexOp::of_real;
  } else if (from == DType::f32 && to == DType::c64 && op == "make_complex") {
    args.op = ComplexOp::of_parts;
  } else if (from == DType::c64 && to == DType::f32 && op == "abs") {
    args.op = ComplexOp::abs;
  } else if (from != DType::c64 || op != "mul") {
    return false;
  }
  const Sizes sizes = p.sizes(node.results[0]);
  for (const ValueId v : node.operands)
    if (p.sizes(v) != sizes) return false;
  View a = p.view(node.operands[0]), b = p.view(node.operands.back());
  if (args.op == ComplexOp::mul && is_one_number(a)) std::swap(a, b);
  args.b_step = args.op == ComplexOp::mul && is_one_number(b) ? 0 : 1;
  const View x = p.dense(a), y = args.b_step == 0 ? b : p.dense(b), out = p.result(node.results[0]);
  args.count = out.count();
  const Kernels& k = kernels();
  add_kernel<ComplexMap>(p, {"complex", 4.0 * static_cast<double>(args.count)}, k.complex_map, k.complex_map_units,
                         k.complex_map_scratch, args, {{offsetof(ComplexMap, a), x}, {offsetof(ComplexMap, b), y}},
                         {{offsetof(ComplexMap, out), out}});
  p.define(node.results[0], out);
  return true;
}

std::vector<Lowering> complex_lowerings() {
  std::vector<Lowering> all = {{"fft", nullptr, lower_fft}};
  for (const char* op : {"real", "imag"}) all.push_back({op, nullptr, lower_complex, true});
  for (const char* op : {"abs", "make_complex"}) all.push_back({op, nullptr, lower_complex});
  return all;
}

}  // namespace pycandle::cpu
