#include "backends/cpu/packing.h"

#include <fmt/format.h>

#include "backends/cpu/kernel_step.h"
#include "base/hash.h"

namespace pycandle::cpu {
namespace {

struct Floats {
  std::shared_ptr<std::byte> memory;
  int64_t count;
  explicit Floats(int64_t n) : memory(memory_for_runs(static_cast<size_t>(n) * 4)), count(n) {}
  float* data() const { return reinterpret_cast<float*>(memory.get()); }
  Array array() const { return Array(DType::f32, {count}, memory.get(), memory); }
};

View view_of(Planner& p, const Array& packed) { return dense_view(p.constant_buffer(packed), DType::f32, packed.shape()); }

}  // namespace

View packed_right(Planner& p, ValueId weight, int64_t k, int64_t n, bool is_transposed) {
  const Kernels& kernel = kernels();
  const std::string format = fmt::format("gemm b {}{}", kernel.isa, is_transposed ? " of the transpose" : "");
  return view_of(p, p.derived(weight, format, [&](const Array& source) {
    const Floats out(kernel.packed_size(k, n));
    PackB args;
    args.k = k;
    args.n = n;
    args.b = source.as<float>();
    args.b_row = is_transposed ? 1 : n;
    args.b_col = is_transposed ? k : 1;
    args.out = out.data();
    const int64_t units = kernel.pack_b_units(args);
    const int parts = parts_for(p.threads(), units, static_cast<double>(k * n));
    run_parts(parts,
              [&](int part) { kernel.pack_b(args, part_of(units, parts, part), part_of(units, parts, part + 1), nullptr); });
    return out.array();
  }));
}

PackedLeft packed_left(Planner& p, ValueId weight, int64_t groups, int64_t m, int64_t k, const std::vector<double>& row_scales) {
  const Kernels& kernel = kernels();
  const int64_t group = (kernel.packed_a_size(m, k) + 15) / 16 * 16;
  std::string format = fmt::format("gemm a {} in {}", kernel.isa, groups);
  if (!row_scales.empty()) format += " times " + hash128(row_scales.data(), row_scales.size() * sizeof(double)).text();
  const Array packed = p.derived(weight, format, [&](const Array& source) {
    const Floats out(groups * group);
    std::vector<float> scaled(row_scales.empty() ? 0 : static_cast<size_t>(m * k));
    for (int64_t g = 0; g < groups; ++g) {
      PackA args;
      args.m = m;
      args.k = k;
      args.a = source.as<float>() + g * m * k;
      args.a_row = k;
      args.out = out.data() + g * group;
      for (int64_t i = 0; i < static_cast<int64_t>(scaled.size()); ++i) {
        const double scale = row_scales[static_cast<size_t>(g * m + i / k)];
        scaled[static_cast<size_t>(i)] = static_cast<float>(static_cast<double>(args.a[i]) * scale);
      }
      if (!scaled.empty()) args.a = scaled.data();
      kernel.pack_a(args, 0, kernel.pack_a_units(args), nullptr);
    }
    return out.array();
  });
  return {view_of(p, packed), group};
}

}  // namespace pycandle::cpu
