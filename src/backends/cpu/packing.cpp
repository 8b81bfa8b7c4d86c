#include "backends/cpu/packing.h"

#include <fmt/format.h>

#include <algorithm>

#include "backends/cpu/cache_rows.h"
#include "backends/cpu/kernel_step.h"
#include "base/hash.h"
#include "base/weight_format.h"

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

std::string name_of(const std::vector<double>& scales) {
  return scales.empty() ? "" : " times " + hash128(scales.data(), scales.size() * sizeof(double)).text();
}

// Rows of k numbers, each times its scale.
std::vector<float> scaled_rows(const float* x, int64_t k, const std::vector<double>& scales) {
  std::vector<float> out(scales.size() * static_cast<size_t>(k));
  float* to = out.data();
  for (const double scale : scales) {
    for (int64_t i = 0; i < k; ++i) to[i] = static_cast<float>(static_cast<double>(x[i]) * scale);
    to += k;
    x += k;
  }
  return out;
}

std::string name_of_right(bool is_transposed, const std::vector<double>& scales) {
  return fmt::format("gemm b {}{}{}", kernels().isa, is_transposed ? " of the transpose" : "", name_of(scales));
}

struct Packing {
  int64_t units, k, n;
  bool is_transposed;   // the columns of b lie one after the other
  const float* b;
  bool is_copy = false;  // b is no parameter
};

// pack(begin, end) for all units, on threads. A large one piece by piece, and what lies behind a piece leaves memory before
// the next: never both forms whole.
void in_pieces(Planner& p, const Packing& g, FunctionRef<void(int64_t begin, int64_t end)> pack) {
  const int parts = parts_for(p.threads(), g.units, static_cast<double>(g.k * g.n));
  constexpr int64_t kPiece = int64_t{4} << 20;  // elements
  const int pieces = g.is_transposed ? static_cast<int>(std::min(g.units / std::max(parts, 1), g.k * g.n / kPiece) + 1) : 1;
  for (int piece = 0; piece < pieces; ++piece) {
    const int64_t first = part_of(g.units, pieces, piece), count = part_of(g.units, pieces, piece + 1) - first;
    run_parts(parts, [&](int part) { pack(first + part_of(count, parts, part), first + part_of(count, parts, part + 1)); });
    const int64_t begin = part_of(g.n, pieces, piece), columns = part_of(g.n, pieces, piece + 1) - begin;
    if (pieces > 1 && !g.is_copy) p.shared().parameters->release(Array(DType::f32, {columns * g.k}, g.b + begin * g.k, nullptr));
  }
}

}  // namespace

View packed_right(Planner& p, ValueId weight, int64_t k, int64_t n, bool is_transposed, const std::vector<double>& scales) {
  require(scales.empty() || is_transposed, "columns that have scales are rows of the weight");
  const Kernels& kernel = kernels();
  return view_of(p, p.derived(weight, name_of_right(is_transposed, scales), [&](const Array& source) {
    const std::vector<float> scaled = scaled_rows(source.as<float>(), k, scales);
    const Floats out(kernel.packed_size(k, n));
    PackB args;
    args.k = k;
    args.n = n;
    args.b = scales.empty() ? source.as<float>() : scaled.data();
    args.b_row = is_transposed ? 1 : n;
    args.b_col = is_transposed ? k : 1;
    args.out = out.data();
    in_pieces(p, {kernel.pack_b_units(args), k, n, is_transposed, args.b},
              [&](int64_t begin, int64_t end) { kernel.pack_b(args, begin, end, nullptr); });
    return out.array();
  }));
}

std::optional<View> scaled_right(Planner& p, ValueId weight, int64_t k, int64_t n, const std::vector<double>& scales) {
  if (!p.wants(weight, name_of_right(true, scales))) return std::nullopt;
  return packed_right(p, weight, k, n, true, scales);
}

std::vector<RightSide> right_sides(Planner& p, ValueId weight, int64_t k, int64_t n, bool is_transposed) {
  if (p.wants(weight, name_of_right(is_transposed, {}))) return {{0, n, packed_right(p, weight, k, n, is_transposed), true}};
  const size_t axis = is_transposed ? 0 : 1;
  Values side_by_side{weight};
  const auto node = p.waiting_node(weight);
  if (node && p.node(*node).op->name == "concat" && p.call(*node).integer("axis") == static_cast<int64_t>(axis)) {
    // Whole panels round in another order than the rest of one, so they stay whole.
    const Values& parts = p.node(*node).operands;
    const auto fills_panels = [&](ValueId v) { return p.view(v).sizes[axis] % kernels().panel == 0; };
    if (std::all_of(parts.begin(), parts.end() - 1, fills_panels)) side_by_side = parts;
  }
  std::vector<RightSide> sides;
  int64_t column = 0;
  for (const ValueId part : side_by_side) {
    const View& view = p.view(part);
    sides.push_back({column, view.sizes[axis], view, false, view.strides[1 - axis], view.strides[axis]});
    column += view.sizes[axis];
  }
  return sides;
}

namespace {

// How the constant `weight` is kept: stored_as(source), or a half that is only widened.
struct Kept {
  ValueId source = kNoValue;
  WeightFormat format = WeightFormat::f32;
};
std::optional<Kept> kept(Planner& p, ValueId weight, int64_t axis) {
  const auto index = p.is_constant(weight) ? p.waiting_node(weight) : std::nullopt;
  if (!index) return std::nullopt;
  const Call c = p.call(*index);
  std::optional<WeightFormat> format;
  if (c.op().name == "stored_as" && c.integer("axis") == axis) format = weight_format_from_name(c.string("format"));
  if (c.op().name == "cast") format = half_format(c.type("x").dtype);
  if (!format) return std::nullopt;
  return Kept{c.value("x"), *format};
}

}  // namespace

std::optional<NarrowWeight> narrow_weight(Planner& p, ValueId weight, int64_t axis) {
  const auto found = kept(p, weight, axis);
  const Sizes sizes = p.sizes(weight);
  if (!found || sizes.size() != 2) return std::nullopt;
  const WeightFormat format = found->format;
  const ValueId source = found->source;
  NarrowWeight narrow{{}, format, sizes[axis], sizes[1 - axis]};
  const std::string name = fmt::format("narrow {} along {} in panels of {}", name_of(format), axis, kernels().panel);
  const Array packed = p.derived(source, name, [&](const Array& values) {
    const Array wide = values.dtype() == DType::f32 ? values : cast(values, DType::f32);
    PackNarrow args;
    args.format = format;
    args.k = narrow.k;
    args.n = narrow.n;
    args.b = wide.as<float>();
    args.b_row = axis == 1 ? 1 : narrow.n;
    args.b_col = axis == 1 ? narrow.k : 1;
    args.panel = kernels().panel;
    const auto bytes = static_cast<size_t>(narrow_size(args));
    const std::shared_ptr<std::byte> memory = memory_for_runs(bytes);
    args.out = reinterpret_cast<uint8_t*>(memory.get());
    in_pieces(p, {narrow_panels(args), narrow.k, narrow.n, axis == 1, args.b, values.dtype() != DType::f32},
              [&](int64_t begin, int64_t end) { pack_narrow(args, begin, end); });
    return Array(DType::u8, {static_cast<int64_t>(bytes)}, memory.get(), memory);
  });
  narrow.bytes = dense_view(p.constant_buffer(packed), DType::u8, packed.shape());
  return narrow;
}

PackedLeft packed_left(Planner& p, ValueId weight, int64_t groups, int64_t m, int64_t k, const std::vector<double>& scales) {
  const Kernels& kernel = kernels();
  const int64_t group = (kernel.packed_a_size(m, k) + 15) / 16 * 16;
  const std::string format = fmt::format("gemm a {} in {}{}", kernel.isa, groups, name_of(scales));
  const Array packed = p.derived(weight, format, [&](const Array& source) {
    const std::vector<float> scaled = scaled_rows(source.as<float>(), k, scales);
    const Floats out(groups * group);
    for (int64_t g = 0; g < groups; ++g) {
      PackA args;
      args.m = m;
      args.k = k;
      args.a = (scales.empty() ? source.as<float>() : scaled.data()) + g * m * k;
      args.a_row = k;
      args.out = out.data() + g * group;
      kernel.pack_a(args, 0, kernel.pack_a_units(args), nullptr);
    }
    return out.array();
  });
  return {view_of(p, packed), group};
}

View packed_blocked(Planner& p, ValueId weight, const BlockedConvolution& shape, const std::vector<double>& scales) {
  const Kernels& kernel = kernels();
  const std::string format = fmt::format("blocked {} in {} by {}{}", kernel.isa, shape.groups, kernel.blocked_panel(shape),
                                         name_of(scales));
  return view_of(p, p.derived(weight, format, [&](const Array& source) {
    const std::vector<float> scaled = scaled_rows(source.as<float>(), source.size() / shape.out_channels, scales);
    const Floats out(kernel.packed_blocked_size(shape));
    kernel.pack_blocked({shape, scales.empty() ? source.as<float>() : scaled.data(), out.data()}, 0, 1, nullptr);
    return out.array();
  }));
}

std::optional<View> packed_winograd(Planner& p, ValueId weight, const Winograd& shape, const std::vector<double>& scales) {
  const Kernels& kernel = kernels();
  const std::string format = fmt::format("winograd {} in tiles of {} by {}{}", kernel.isa, shape.tile,
                                         kernel.winograd_panel(shape), name_of(scales));
  if (!p.wants(weight, format)) return std::nullopt;
  return view_of(p, p.derived(weight, format, [&](const Array& source) {
    const Floats out(kernel.packed_winograd_size(shape));
    const PackWinograd args{shape, source.as<float>(), scales.empty() ? nullptr : scales.data(), out.data()};
    const int64_t panels = kernel.pack_winograd_units(args);
    const int parts = parts_for(p.threads(), panels, 100.0 * static_cast<double>(source.size()));
    run_parts(parts, [&](int part) {
      kernel.pack_winograd(args, part_of(panels, parts, part), part_of(panels, parts, part + 1), nullptr);
    });
    return out.array();
  }));
}

View packed_depthwise(Planner& p, ValueId weight, const BlockedConvolution& shape, const std::vector<double>& scales) {
  const int64_t lanes = kernels().lanes, taps = shape.window.kernel[0] * shape.window.kernel[1];
  return view_of(p, p.derived(weight, fmt::format("depthwise by {}{}", lanes, name_of(scales)), [&](const Array& source) {
    const Floats out((shape.channels + lanes - 1) / lanes * lanes * taps);
    std::fill_n(out.data(), out.count, 0.0f);
    for (int64_t c = 0; c < shape.channels; ++c) {
      const double scale = scales.empty() ? 1 : scales[static_cast<size_t>(c)];
      for (int64_t t = 0; t < taps; ++t)
        out.data()[(c / lanes * taps + t) * lanes + c % lanes] = static_cast<float>(source.as<float>()[c * taps + t] * scale);
    }
    return out.array();
  }));
}

}  // namespace pycandle::cpu
