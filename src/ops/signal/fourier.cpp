// torch.fft, and the overloads that it is made of.
#include "ops/signal/fourier.h"

#include <fmt/format.h>

#include "ops/core/dims_at_samples.h"

namespace pycandle {
namespace {

DType complex_dtype(DType d) { return is_complex(d) ? d : complex_of(float_result(d)); }
ValueId as_complex_tensor(Builder& b, ValueId x) { return b.cast(x, complex_dtype(b.dtype(x))); }

ValueId scaled(Builder& b, ValueId x, Dim points, FourierScale scale) {
  if (scale == FourierScale::nothing || points == Dim(1)) return x;
  const DType real = real_of(b.dtype(x));
  ValueId n = b.dim_value(points, DType::f64);
  if (scale == FourierScale::root_of_n) n = b.sqrt(n);
  const ValueId factor = b.cast(b.unary("reciprocal", n), real);
  return b.mul(x, b.cast(factor, b.dtype(x)));
}

Dim points_of(const Builder& b, ValueId x, const Ints& axes) {
  Dim points = 1;
  for (int64_t axis : axes) points = points * b.shape(x)[axis];
  return points;
}

ValueId unscaled(Builder& b, ValueId x, const Ints& axes, bool inverse) {
  for (int64_t axis : axes) x = b.create("fft", {x}, {{"axis", axis}, {"inverse", inverse}});
  return x;
}

}  // namespace

ValueId fourier(Builder& b, ValueId x, const Ints& axes, bool inverse, FourierScale scale) {
  return scaled(b, unscaled(b, as_complex_tensor(b, x), axes, inverse), points_of(b, x, axes), scale);
}

ValueId fourier_of_real(Builder& b, ValueId x, const Ints& axes, FourierScale scale, bool onesided) {
  ValueId y = unscaled(b, as_complex_tensor(b, x), axes, false);
  if (onesided && !axes.empty()) y = b.slice(y, axes.back(), 0, floordiv(b.shape(x)[axes.back()], 2) + 1);
  return scaled(b, y, points_of(b, x, axes), scale);
}

ValueId fourier_to_real(Builder& b, ValueId x, const Ints& axes, FourierScale scale, Dim n) {
  const int64_t last = axes.back();
  x = unscaled(b, as_complex_tensor(b, x), Ints(axes.begin(), axes.end() - 1), true);
  // The other half is the mirror image's conjugate.
  const Dim half = floordiv(n, 2);
  Values parts{b.slice(x, last, 0, half + 1)};
  if (n - half != Dim(1)) parts.push_back(b.unary("conj", b.reverse(b.slice(x, last, 1, n - half), {last})));
  const ValueId whole = b.concat(parts, last);
  const ValueId y = b.unary("real", unscaled(b, whole, {last}, true));
  return scaled(b, y, points_of(b, whole, axes), scale);
}

ValueId resized(Builder& b, ValueId x, int64_t axis, Dim n) {
  const Dim size = b.shape(x)[axis];
  if (size == n) return x;
  Dims none(b.shape(x).size(), Dim(0)), more = none;
  more[axis] = seems_at_most(size, n, b) == Tri::yes ? n - size : max(n - size, 0);
  if (seems_at_most(n, size, b) != Tri::yes) x = b.pad(x, none, more, Scalar{0.0});
  return b.slice(x, axis, 0, n);
}

namespace {

FourierScale scale_of(AtenCall& c, bool inverse) {
  const std::string norm = c.maybe_string("norm").value_or("backward");
  if (norm == "ortho") return FourierScale::root_of_n;
  if (norm != "backward" && norm != "forward")
    throw Error(ErrorCode::bad_input, "the norm of a Fourier transform is unknown")
        .expected("backward, ortho or forward")
        .found(norm);
  return (norm == "forward") == inverse ? FourierScale::nothing : FourierScale::n;
}

// The numbers behind aten._fft_*'s normalization.
FourierScale numbered_scale(AtenCall& c) {
  const int64_t number = c.integer("normalization");
  if (number < 0 || number > 2) c.unsupported(fmt::format("normalization={}", number));
  return static_cast<FourierScale>(number);
}

void require_points(Dim n) {
  if (!may_be_at_most(1, n))
    throw Error(ErrorCode::bad_input, "a Fourier transform needs at least one element").expected("at least 1").found(n.text());
}

// The axes of a transform and how many points the result has on each of them (of the last of a real result: n).
struct Extent {
  Ints axes;
  Dims sizes;
};

Extent one_axis(AtenCall& c, ValueId x, bool to_real) {
  const int64_t axis = c.b.normal_axis(c.integer("dim"), c.b.rank(x));
  const Dim size = c.b.shape(x)[axis];
  const Dim n = c.maybe_dim("n").value_or(to_real ? (size - 1) * Dim(2) : size);
  require_points(n);
  return {{axis}, {n}};
}

// Without dim, the last as many axes as s has entries, or all; -1 in s is the axis' own size.
Extent several_axes(AtenCall& c, ValueId x, bool to_real) {
  Extent extent;
  const int64_t rank = c.b.rank(x);
  const std::optional<Dims> sizes = c.maybe_dims("s");
  if (const auto given = c.maybe_integers("dim")) {
    for (int64_t axis : *given) extent.axes.push_back(c.b.normal_axis(axis, rank));
  } else {
    const int64_t count = sizes ? static_cast<int64_t>(sizes->size()) : rank;
    if (count > rank) throw Error(ErrorCode::bad_input, "s has more entries than the tensor has axes");
    extent.axes = axes_between(rank - count, rank);
  }
  if (sizes && sizes->size() != extent.axes.size())
    throw Error(ErrorCode::bad_input, "s and dim of a Fourier transform have different lengths")
        .expected(std::to_string(extent.axes.size()))
        .found(std::to_string(sizes->size()));
  if (!are_axes(extent.axes, rank)) throw Error(ErrorCode::bad_input, "an axis appears twice in a Fourier transform");
  for (size_t i = 0; i < extent.axes.size(); ++i) {
    const Dim own = c.b.shape(x)[extent.axes[i]];
    const bool half = to_real && i + 1 == extent.axes.size();
    const bool is_given = sizes && (*sizes)[i] != Dim(-1);
    extent.sizes.push_back(is_given ? (*sizes)[i] : half ? (own - 1) * Dim(2) : own);
    require_points(extent.sizes.back());
  }
  return extent;
}

struct Transform {
  const char* name;  // fft, rfft, … as in torch.fft
  bool inverse;
  enum class Kind { complex, from_real, to_real } kind;
};

Values build(AtenCall& c, const Transform& t, bool several) {
  Builder& b = c.b;
  ValueId x = c.tensor("self");
  if (t.kind == Transform::Kind::from_real && is_complex(b.dtype(x)))
    throw Error(ErrorCode::bad_input, fmt::format("{} takes a real tensor", t.name)).found(b.type(x).text());
  if (b.dtype(x) == DType::f16 || b.dtype(x) == DType::bf16) c.unsupported("a tensor of 16 bits");
  const bool to_real = t.kind == Transform::Kind::to_real;
  const Extent extent = several ? several_axes(c, x, to_real) : one_axis(c, x, to_real);
  const FourierScale scale = scale_of(c, t.inverse);
  if (extent.axes.empty()) {
    if (t.kind != Transform::Kind::complex) throw Error(ErrorCode::bad_input, "a real Fourier transform needs an axis");
    return {as_complex_tensor(b, x)};
  }
  for (size_t i = 0; i < extent.axes.size(); ++i) {
    const bool half = to_real && i + 1 == extent.axes.size();
    x = resized(b, x, extent.axes[i], half ? floordiv(extent.sizes[i], 2) + 1 : extent.sizes[i]);
  }
  if (t.kind == Transform::Kind::complex) return {fourier(b, x, extent.axes, t.inverse, scale)};
  // A real transform the other way round is that of the conjugate.
  if (t.kind == Transform::Kind::from_real) {
    x = b.cast(x, float_result(b.dtype(x)));
    const ValueId y = fourier_of_real(b, x, extent.axes, scale, true);
    return {t.inverse ? b.unary("conj", y) : y};
  }
  x = as_complex_tensor(b, x);
  if (!t.inverse) x = b.unary("conj", x);
  return {fourier_to_real(b, x, extent.axes, scale, extent.sizes.back())};
}

OpDef transforms() {
  using Kind = Transform::Kind;
  OpDef def = mapping("fft");
  for (const Transform& t : {Transform{"fft", false, Kind::complex},
                             {"ifft", true, Kind::complex},
                             {"rfft", false, Kind::from_real},
                             {"ihfft", true, Kind::from_real},
                             {"irfft", true, Kind::to_real},
                             {"hfft", false, Kind::to_real}})
    for (const char* suffix : {"", "2", "n"})
      def.from_aten_call(fmt::format("aten.fft_{}{}.default", t.name, suffix),
                         [t, several = *suffix != '\0'](AtenCall& c) { return build(c, t, several); });
  for (auto [name, dtype] : {std::pair{"fft", "complex64"},
                             {"ifft", "complex64"},
                             {"rfft", "float64"},
                             {"ihfft", "float32"},
                             {"irfft", "complex64"},
                             {"hfft", "complex64"}}) {
    const auto sample = [&, name = name, dtype = dtype](const char* suffix, const char* sizes, const char* rest) {
      def.sample(fmt::format("torch.fft.{}{}(t({}, dtype=torch.{}){})", name, suffix, sizes, dtype, rest));
    };
    sample("", "3, 8", "");
    sample("", "5, 3", ", n=7, dim=0, norm='ortho'");
    sample("", "2, 11", ", n=9, norm='forward'");
    sample("2", "2, 5, 6", ", norm='ortho'");
    sample("n", "2, 5, 6", ", s=(4, 7), norm='forward'");
    sample("n", "3, 2, 5", ", dim=(2, 0)");
  }
  return def.sample("torch.fft.fft(t(6, dtype=torch.float32))")
      .sample("torch.fft.rfft(i(6))")
      .sample("torch.fft.fft(m(5))")
      .sample("torch.fft.irfft(t(5, dtype=torch.float32))");
}

OpDef kernels() {
  return mapping("fft")
      .from_aten_call("aten._fft_r2c.default",
                      [](AtenCall& c) -> Values {
                        const ValueId x = c.tensor("self");
                        Ints axes = c.integers("dim");
                        for (int64_t& axis : axes) axis = c.b.normal_axis(axis, c.b.rank(x));
                        return {fourier_of_real(c.b, x, axes, numbered_scale(c), c.boolean("onesided"))};
                      })
      .from_aten_call("aten._fft_c2r.default",
                      [](AtenCall& c) -> Values {
                        const ValueId x = c.tensor("self");
                        Ints axes = c.integers("dim");
                        for (int64_t& axis : axes) axis = c.b.normal_axis(axis, c.b.rank(x));
                        if (axes.empty()) c.unsupported("no axis");
                        return {fourier_to_real(c.b, x, axes, numbered_scale(c), c.dim("last_dim_size"))};
                      })
      .from_aten_call("aten._fft_c2c.default",
                      [](AtenCall& c) -> Values {
                        const ValueId x = c.tensor("self");
                        Ints axes = c.integers("dim");
                        for (int64_t& axis : axes) axis = c.b.normal_axis(axis, c.b.rank(x));
                        return {fourier(c.b, x, axes, !c.boolean("forward"), numbered_scale(c))};
                      })
      .sample("torch.ops.aten._fft_r2c(t(3, 8, dtype=torch.float32), [0, 1], 1, True)")
      .sample("torch.ops.aten._fft_r2c(t(3, 7, dtype=torch.float32), [1], 0, False)")
      .sample("torch.ops.aten._fft_c2r(t(3, 5, dtype=torch.complex64), [0, 1], 2, 8)")
      .sample("torch.ops.aten._fft_c2r(t(3, 5, dtype=torch.complex64), [1], 0, 9)")
      .sample("torch.ops.aten._fft_c2c(t(3, 5, dtype=torch.complex64), [0, 1], 2, False)");
}

// ---- orders of frequencies

// The middle moved to the start, or back.
OpDef shifts() {
  OpDef def = mapping("roll");
  for (const char* name : {"fft_fftshift", "fft_ifftshift"})
    def.from_aten_call(fmt::format("aten.{}.default", name),
                       [inverse = std::string(name) == "fft_ifftshift"](AtenCall& c) -> Values {
                         const ValueId x = c.tensor("self");
                         Ints axes = axes_between(0, c.b.rank(x));
                         if (const auto given = c.maybe_integers("dim")) axes = *given;
                         Dims by;
                         for (int64_t& axis : axes) {
                           axis = c.b.normal_axis(axis, c.b.rank(x));
                           const Dim size = c.b.shape(x)[axis];
                           by.push_back(inverse ? ceildiv(size, 2) : floordiv(size, 2));
                         }
                         if (axes.empty()) return {x};
                         return {c.b.create("roll", {x}, {{"shifts", by}, {"axes", axes}})};
                       });
  return def.sample("torch.fft.fftshift(t(4, 5))").sample("torch.fft.ifftshift(t(4, 5), dim=-1)");
}

// 0, 1, …, then for the whole circle the negative ones, over n * d.
OpDef frequencies() {
  OpDef def = mapping("iota");
  for (const char* name : {"fft_fftfreq", "fft_rfftfreq"})
    def.from_aten_call(fmt::format("aten.{}.default", name), [half = std::string(name) == "fft_rfftfreq"](AtenCall& c) -> Values {
      c.discard_placement();
      Builder& b = c.b;
      const int64_t n = c.integer("n");
      const double spacing = c.number("d");
      const DType dtype = c.dtype("dtype").value_or(DType::f32);
      ValueId count = b.iota(half ? n / 2 + 1 : n, dtype);
      if (!half) {
        const int64_t negative_from = (n + 1) / 2;
        const ValueId wrapped = b.sub(count, b.full(Scalar{static_cast<double>(n)}, dtype));
        count = b.select(b.compare("lt", count, static_cast<double>(negative_from)), count, wrapped);
      }
      return {arithmetic(b, "mul", count, Scalar{1 / (static_cast<double>(n) * spacing)})};
    });
  return def.sample("torch.fft.fftfreq(7, 0.3) + t(7, dtype=torch.float32)")
      .sample("torch.fft.rfftfreq(8, dtype=torch.float64) + t(5)");
}

}  // namespace

std::vector<OpDef> fourier_ops() { return {transforms(), kernels(), shifts(), frequencies()}; }

}  // namespace pycandle
