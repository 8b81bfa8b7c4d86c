// ONNX's Fourier transforms, windows and mel filters, and its random numbers.
#include <cmath>

#include "ops/core/onnx_helpers.h"

namespace pycandle {
namespace {

ValueId hertz_window(AtenCall& c, const char* kind, double alpha, double beta) {
  const Ints length = c.integers("size");
  c.expects(length.size() == 1, "one size");
  return c.b.cast(c.b.create("signal_window", {},
                             {{"kind", std::string(kind)},
                              {"length", length[0]},
                              {"periodic", c.integer("periodic") != 0},
                              {"alpha", alpha},
                              {"beta", beta},
                              {"dtype", DType::f64}}),
                  onnx_dtype(c, "output_datatype"));
}

// [..., 1] real or [..., 2] complex → complex without the last axis.
ValueId complex_of_parts(AtenCall& c, ValueId x) {
  Builder& b = c.b;
  const ValueId wide = b.widened(x);
  const int64_t last = b.rank(x) - 1;
  const int64_t parts = last < 0 ? 0 : b.shape(x)[last].maybe_number().value_or(0);
  c.expects(parts == 1 || parts == 2, "a last axis of one real or two complex parts");
  const ValueId real = b.select_index(wide, last, 0);
  const ValueId imaginary = parts == 2 ? b.select_index(wide, last, 1) : b.like(real, 0.0);
  return b.create("make_complex", {real, imaginary});
}

ValueId parts_of(Builder& b, ValueId z) {
  const int64_t rank = b.rank(z);
  return b.concat({b.unsqueeze(b.unary("real", z), rank), b.unsqueeze(b.unary("imag", z), rank)}, rank);
}

// Cut off or filled with zeros.
ValueId to_length(Builder& b, ValueId z, int64_t axis, Dim length) {
  const Dim has = b.shape(z)[axis];
  if (has == length) return z;
  const auto number = has.maybe_number(), wanted = length.maybe_number();
  if (number && wanted && *number > *wanted) return b.slice(z, axis, 0, length);
  Dims low(static_cast<size_t>(b.rank(z)), Dim(0)), high = low;
  high[axis] = length - has;
  return b.pad(z, low, high, std::complex<double>(0));
}

ValueId scaled_inverse(Builder& b, ValueId z, int64_t axis) {
  const ValueId size = b.cast(b.dim_value(b.shape(z)[axis]), b.dtype(z));
  return b.div(b.create("fft", {z}, {{"axis", axis}, {"inverse", true}}), size);
}

ValueId transformed(AtenCall& c) {
  Builder& b = c.b;
  const ValueId x = c.tensor("input");
  const DType dtype = b.dtype(x);
  int64_t axis = -2;
  if (!c.is_none("axis")) {
    const Ints given = c.integers("axis");
    c.expects(given.size() == 1, "one axis");
    axis = given[0];
  }
  axis = b.normal_axis(axis, b.rank(x));
  c.expects(axis < b.rank(x) - 1, "an axis of the signal");
  const bool inverse = c.integer("inverse") != 0, one_side = c.integer("onesided") != 0;
  ValueId z = complex_of_parts(c, x);
  const auto given = c.maybe_dims("dft_length");
  c.expects(!given || given->size() == 1, "one length");
  const Dim size = b.shape(z)[axis];
  const Dim length = given ? given->at(0) : inverse && one_side ? (size - Dim(1)) * Dim(2) : size;
  if (inverse && one_side) {  // the other half is the conjugate, backwards
    const Dim half = floordiv(length, Dim(2)) + Dim(1);
    z = to_length(b, z, axis, half);
    const ValueId mirrored = b.reverse(b.slice(z, axis, 1, length - half + Dim(1)), {axis});
    const ValueId whole = b.concat({z, b.unary("conj", mirrored)}, axis);
    const ValueId y = b.unary("real", scaled_inverse(b, whole, axis));
    return b.narrowed(b.unsqueeze(y, b.rank(y)), dtype);
  }
  z = to_length(b, z, axis, length);
  z = inverse ? scaled_inverse(b, z, axis) : b.create("fft", {z}, {{"axis", axis}, {"inverse", false}});
  if (one_side) z = b.slice(z, axis, 0, floordiv(length, Dim(2)) + Dim(1));
  return b.narrowed(parts_of(b, z), dtype);
}

// [B, L, 1 or 2] → [B, frames, frequencies, 2]
ValueId short_time(AtenCall& c) {
  Builder& b = c.b;
  const ValueId x = c.tensor("signal");
  c.expects(b.rank(x) == 3, "[batch, length, parts]");
  const Dims step = c.dims("frame_step");
  const auto window = c.maybe_tensor("window");
  const auto given = c.maybe_dims("frame_length");
  c.expects(step.size() == 1 && step[0].is_number() && step[0].number() > 0 && (!given || given->size() == 1), "a positive step");
  const Dim length = given ? given->at(0) : window ? b.shape(*window).at(0) : b.shape(x)[1];
  const ValueId z = complex_of_parts(c, x);
  const Dim frames = floordiv(b.shape(z)[1] - length, step[0]) + Dim(1);
  const ValueId starts = b.reshape(b.mul(b.iota(frames), b.dim_value(step[0])), {frames, 1});
  ValueId cut = b.create("take", {z, b.add(starts, b.iota(length))}, {{"axis", int64_t{1}}});
  if (window) cut = b.mul(cut, b.cast(b.cast(*window, real_of(b.dtype(z))), b.dtype(z)));
  ValueId y = b.create("fft", {cut}, {{"axis", int64_t{2}}, {"inverse", false}});
  if (c.integer("onesided") != 0) y = b.slice(y, 2, 0, floordiv(length, Dim(2)) + Dim(1));
  return b.narrowed(parts_of(b, y), b.dtype(x));
}

double known(AtenCall& c, const char* name) {
  const Numbers given = c.numbers(name);
  c.expects(given.size() == 1, "single numbers");
  return given[0];
}

// Triangles over the frequencies, their corners evenly apart in mel.
ValueId mel_weights(AtenCall& c) {
  Builder& b = c.b;
  const auto bins = static_cast<int64_t>(known(c, "num_mel_bins")), length = static_cast<int64_t>(known(c, "dft_length"));
  const double rate = known(c, "sample_rate"), low = known(c, "lower_edge_hertz"), high = known(c, "upper_edge_hertz");
  c.expects(bins > 0 && bins <= 4096 && length > 0 && length < (1 << 24) && rate > 0,
            "numbers that are positive and not too large");
  const auto mel = [](double hertz) { return 2595 * std::log10(1 + hertz / 700); };
  const double step = (mel(high) - mel(low)) / static_cast<double>(bins + 2);
  std::vector<double> corners;
  for (int64_t i = 0; i < bins + 2; ++i) {
    const double hertz = 700 * (std::pow(10, (static_cast<double>(i) * step + mel(low)) / 2595) - 1);
    corners.push_back(std::floor(static_cast<double>(length + 1) * hertz / rate));
  }
  const auto row = [&](int64_t first) {
    Values numbers;
    for (int64_t i = 0; i < bins; ++i) numbers.push_back(b.full(corners[static_cast<size_t>(first + i)], DType::f64, {1}));
    return numbers.size() == 1 ? numbers[0] : b.concat(numbers, 0);
  };
  const ValueId left = row(0), centre = row(1), right = row(2);
  const Dim frequencies = length / 2 + 1;
  const ValueId at = b.reshape(b.cast(b.iota(frequencies), DType::f64), {frequencies, 1});
  const auto or_one = [&](ValueId x) { return b.select(b.compare("eq", x, 0.0), b.full(1.0, DType::f64), x); };
  const ValueId zero = b.full(0.0, DType::f64);
  const ValueId rises = b.logical_and(b.compare("ge", at, left), b.compare("le", at, centre));
  const ValueId falls = b.logical_and(b.compare("ge", at, centre), b.compare("lt", at, right));
  const ValueId up = b.div(b.sub(at, left), or_one(b.sub(centre, left))),
                down = b.div(b.sub(right, at), or_one(b.sub(right, centre)));
  const ValueId is_peak = b.logical_and(b.compare("eq", at, centre), b.compare("eq", left, centre));
  const ValueId y = b.select(falls, down, b.select(is_peak, b.full(1.0, DType::f64), b.select(rises, up, zero)));
  return b.cast(y, onnx_dtype(c, "output_datatype"));
}

// ---- random numbers: other ones than ONNX Runtime's, of the same distribution

void discard_seed(AtenCall& c) { c.discard("seed", "of another generator"); }

Shape like_or_given(AtenCall& c) { return c.has_argument("input") ? c.b.shape(c.tensor("input")) : c.dims("shape"); }
DType random_dtype(AtenCall& c) {
  const auto given = maybe_onnx_dtype(c, "dtype");
  return given ? *given : c.has_argument("input") ? c.b.dtype(c.tensor("input")) : DType::f32;
}

ValueId random_number(AtenCall& c, const char* op, double scale, double shift) {
  discard_seed(c);
  const DType dtype = random_dtype(c);
  const DType drawn = is_floating(dtype) ? wide_of(dtype) : DType::f32;
  const ValueId x = c.b.create(op, {}, {{"shape", like_or_given(c)}, {"dtype", drawn}});
  return c.b.cast(c.b.add(c.b.mul(x, scale), shift), dtype);
}
ValueId uniform_number(AtenCall& c) {
  const double low = c.number("low");
  return random_number(c, "uniform", c.number("high") - low, low);
}
ValueId normal_number(AtenCall& c) { return random_number(c, "normal", c.number("scale"), c.number("mean")); }

ValueId bernoulli(AtenCall& c) {
  discard_seed(c);
  const ValueId p = c.tensor("input");
  const ValueId drawn = c.b.create("uniform", {}, {{"shape", c.b.shape(p)}, {"dtype", wide_of(c.b.dtype(p))}});
  return c.b.cast(c.b.compare("lt", drawn, c.b.widened(p)), random_dtype(c));
}

ValueId multinomial(AtenCall& c) {
  discard_seed(c);
  const ValueId weights = c.b.exp(c.b.widened(c.tensor("input")));
  return c.b.cast(c.b.create("multinomial", {weights}, {{"count", Dim(c.integer("sample_size"))}, {"replacement", true}}),
                  maybe_onnx_dtype(c, "dtype").value_or(DType::i32));
}

}  // namespace

std::vector<OpDef> signal_onnx_ops() {
  return {onnx_mapped("signal_window", {"onnx.HannWindow.17(size#; output_datatype=1, periodic=1)"},
                      [](AtenCall& c) { return hertz_window(c, "cosine", 0.5, 0.5); }),
          onnx_mapped("signal_window", {"onnx.HammingWindow.17(size#; output_datatype=1, periodic=1)"},
                      [](AtenCall& c) { return hertz_window(c, "cosine", 25.0 / 46, 21.0 / 46); }),
          onnx_mapped("signal_window", {"onnx.BlackmanWindow.17(size#; output_datatype=1, periodic=1)"},
                      [](AtenCall& c) { return hertz_window(c, "blackman", 0.5, 0.5); }),
          onnx_mapped("fft",
                      {"onnx.DFT.17(input, dft_length#?; axis=1, inverse=0, onesided=0)",
                       "onnx.DFT.20(input, dft_length#?, axis#?; inverse=0, onesided=0)"},
                      transformed),
          onnx_mapped("stft", {"onnx.STFT.17(signal, frame_step#, window?, frame_length#?; onesided=1)"}, short_time),
          onnx_mapped("select",
                      {"onnx.MelWeightMatrix.17(num_mel_bins#, dft_length#, sample_rate#, lower_edge_hertz#, upper_edge_hertz#; "
                       "output_datatype=1)"},
                      mel_weights),
          onnx_mapped("uniform",
                      {"onnx.RandomUniform.1(; dtype=1, high=1.0, low=0.0, seed=none, shape!)",
                       "onnx.RandomUniformLike.1(input; dtype=none, high=1.0, low=0.0, seed=none)"},
                      uniform_number),
          onnx_mapped("normal",
                      {"onnx.RandomNormal.1(; dtype=1, mean=0.0, scale=1.0, seed=none, shape!)",
                       "onnx.RandomNormalLike.1(input; dtype=none, mean=0.0, scale=1.0, seed=none)"},
                      normal_number),
          onnx_mapped("uniform", {"onnx.Bernoulli.15(input; dtype=none, seed=none)"}, bernoulli),
          onnx_mapped("multinomial", {"onnx.Multinomial.7(input; dtype=6, sample_size=1, seed=none)"}, multinomial)};
}

}  // namespace pycandle
