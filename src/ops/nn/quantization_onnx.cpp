// Quantised ONNX: (x - zero point) * scale in float, and back by division, rounding to nearest even, and clamping.
#include "base/file_dtypes.h"
#include "ops/core/onnx_helpers.h"

namespace pycandle {
namespace {

// A scale or zero point against x: one number, one for each place of an axis, or one for each block along it.
ValueId spread(AtenCall& c, ValueId x, ValueId scale, int64_t axis, int64_t block) {
  Builder& b = c.b;
  const int64_t rank = b.rank(x);
  if (b.rank(scale) == 0) return scale;
  const auto count = b.shape(scale)[0].maybe_number();
  if (b.rank(scale) == 1 && (rank == 0 || count == 1) && block == 0) return b.reshape(scale, {});
  axis = b.normal_axis(axis, rank);
  if (block == 0 && b.rank(scale) == 1) return along_axis(b, scale, axis, rank);
  c.expects(b.rank(scale) == rank, "scales of x's rank where there are blocks");
  if (block == 0) return scale;
  // Each scale stands for a block of elements.
  Shape wide = b.shape(scale);
  const ValueId apart = b.unsqueeze(scale, axis + 1);
  Shape repeated = b.shape(apart);
  repeated[axis + 1] = block;
  wide[axis] = wide[axis] * Dim(block);
  const ValueId all = b.reshape(b.broadcast_to(apart, repeated), wide);
  return wide[axis] == b.shape(x)[axis] ? all : b.slice(all, axis, 0, b.shape(x)[axis]);
}

int64_t axis_argument(AtenCall& c) { return c.has_argument("axis") ? c.integer("axis") : 1; }
int64_t block_argument(AtenCall& c) { return c.has_argument("block_size") ? c.integer("block_size") : 0; }

ValueId dequantized(Builder& b, ValueId x, ValueId scale, std::optional<ValueId> zero, DType to) {
  const DType wide = wide_of(to);
  ValueId y = b.cast(x, wide);
  if (zero) y = b.sub(y, b.cast(*zero, wide));
  return b.cast(b.mul(y, b.cast(scale, wide)), to);
}

ValueId dequantize(AtenCall& c) {
  Builder& b = c.b;
  const ValueId x = c.tensor("x");
  const int64_t axis = axis_argument(c), block = block_argument(c);
  const ValueId scale = c.tensor("x_scale");
  const auto zero = c.maybe_tensor("x_zero_point");
  const DType scaled = b.dtype(scale) == file_dtype::f8e8m0 ? DType::f32 : b.dtype(scale);
  const DType to = c.has_argument("output_dtype") ? maybe_onnx_dtype(c, "output_dtype").value_or(scaled) : scaled;
  return dequantized(b, x, spread(c, x, scale, axis, block), zero ? std::optional(spread(c, x, *zero, axis, block)) : zero, to);
}

// Rounded to nearest even and kept in the range; floats of 8 bits are clamped where they saturate.
ValueId quantized(Builder& b, ValueId x, ValueId scale, std::optional<ValueId> zero, DType to, bool saturates = true) {
  const DType wide = wide_of(b.dtype(x)) == DType::f64 ? DType::f64 : DType::f32;
  ValueId y = b.div(b.cast(x, wide), b.cast(scale, wide));
  if (is_floating(to)) {
    if (saturates) y = b.maximum(b.minimum(y, highest_of(to)), lowest_of(to));
    return b.cast(y, to);
  }
  y = b.unary("round", y);
  if (zero) y = b.add(y, b.cast(*zero, wide));
  return b.cast(b.maximum(b.minimum(y, highest_of(to)), lowest_of(to)), to);
}

ValueId quantize(AtenCall& c) {
  Builder& b = c.b;
  ValueId x = c.tensor("x");
  const int64_t axis = axis_argument(c), block = block_argument(c);
  const ValueId scale = c.tensor("y_scale");
  const auto zero = c.maybe_tensor("y_zero_point");
  const bool is_asked = c.has_argument("output_dtype") && c.integer("output_dtype") != 0;
  const DType to = zero ? b.dtype(*zero) : is_asked ? onnx_dtype(c, "output_dtype") : DType::u8;
  c.expects(!is_asked || to == onnx_dtype(c, "output_dtype"), "an output_dtype that is the zero point's");
  if (c.has_argument("precision"))
    if (const auto precision = maybe_onnx_dtype(c, "precision")) x = b.cast(x, *precision);
  const bool saturates = !c.has_argument("saturate") || c.integer("saturate") != 0;
  if (is_integral(b.dtype(x))) x = b.cast(x, DType::f32);
  return quantized(b, x, spread(c, x, scale, axis, block), zero ? std::optional(spread(c, x, *zero, axis, block)) : zero, to,
                   saturates);
}

Values dynamic_quantize(AtenCall& c) {
  Builder& b = c.b;
  const ValueId x = c.tensor("x");
  Ints all;
  for (int64_t i = 0; i < b.rank(x); ++i) all.push_back(i);
  const ValueId high = b.maximum(b.reduce("reduce_max", x, all, false), 0.0),
                low = b.minimum(b.reduce("reduce_min", x, all, false), 0.0);
  const ValueId range = b.div(b.sub(high, low), 255.0);
  const ValueId scale = b.select(b.compare("eq", range, 0.0), b.full(1.0, DType::f32), range);
  const ValueId zero = b.cast(b.unary("round", b.maximum(b.minimum(b.div(b.neg(low), scale), 255.0), 0.0)), DType::u8);
  return {quantized(b, x, scale, zero, DType::u8), scale, zero};
}

// ---- products of integers

ValueId shifted(Builder& b, ValueId x, std::optional<ValueId> zero) {
  const ValueId wide = b.cast(x, DType::i32);
  return zero ? b.sub(wide, b.cast(*zero, DType::i32)) : wide;
}

// The zero point of a's rows, or of b's columns.
std::optional<ValueId> of_rows(Builder& b, std::optional<ValueId> zero, ValueId x) {
  if (zero && b.rank(*zero) == 1 && b.rank(x) >= 2 && !(b.shape(*zero)[0] == Dim(1))) return b.unsqueeze(*zero, 1);
  return zero && b.rank(*zero) == 1 && b.shape(*zero)[0] == Dim(1) ? std::optional(b.reshape(*zero, {})) : zero;
}
std::optional<ValueId> one_or_columns(Builder& b, std::optional<ValueId> zero) {
  return zero && b.rank(*zero) == 1 && b.shape(*zero)[0] == Dim(1) ? std::optional(b.reshape(*zero, {})) : zero;
}

ValueId integer_product(AtenCall& c) {
  Builder& b = c.b;
  const ValueId x = c.tensor("A"), y = c.tensor("B");
  return b.matmul(shifted(b, x, of_rows(b, c.maybe_tensor("a_zero_point"), x)),
                  shifted(b, y, one_or_columns(b, c.maybe_tensor("b_zero_point"))));
}

ValueId quantized_product(AtenCall& c) {
  Builder& b = c.b;
  const ValueId x = c.tensor("a"), y = c.tensor("b");
  const ValueId product = b.matmul(shifted(b, x, of_rows(b, c.tensor("a_zero_point"), x)),
                                   shifted(b, y, one_or_columns(b, c.tensor("b_zero_point"))));
  const ValueId a_scale = *of_rows(b, c.tensor("a_scale"), x), b_scale = *one_or_columns(b, c.tensor("b_scale"));
  const ValueId y_scale = *of_rows(b, c.tensor("y_scale"), x), zero = *of_rows(b, c.tensor("y_zero_point"), x);
  const auto wide = [&](ValueId v) { return b.cast(v, DType::f32); };
  const ValueId exact = b.mul(wide(product), b.mul(wide(a_scale), wide(b_scale)));
  return quantized(b, exact, y_scale, zero, b.dtype(zero));
}

// ---- convolutions of integers

struct IntegerWindow {
  Ints strides, low, high, dilation;
  int64_t groups;
};

IntegerWindow window_of(AtenCall& c, ValueId x, ValueId w) {
  Builder& b = c.b;
  const size_t n = b.shape(x).size() - 2;
  IntegerWindow r{Ints(n, 1), Ints(n, 0), Ints(n, 0), Ints(n, 1), c.integer("group")};
  if (const auto given = c.maybe_integers("strides")) r.strides = *given;
  if (const auto given = c.maybe_integers("dilations")) r.dilation = *given;
  c.maybe_integers("kernel_shape");
  const auto pads = c.maybe_integers("pads");
  const std::string automatic = c.string("auto_pad");
  c.expects(r.strides.size() == n && r.dilation.size() == n && (!pads || pads->size() == 2 * n) && positive_and_sane(r.strides) &&
                positive_and_sane(r.dilation),
            "a stride and dilation for each position axis, and two pads");
  for (size_t i = 0; i < n; ++i) {
    if (automatic == "SAME_UPPER" || automatic == "SAME_LOWER") {
      const auto size = b.shape(x)[i + 2].maybe_number(), kernel = b.shape(w)[i + 2].maybe_number();
      if (!size || !kernel) c.unsupported("auto_pad of an axis whose size is open");
      const int64_t reach = (*kernel - 1) * r.dilation[i] + 1;
      const int64_t total = std::max<int64_t>(((*size + r.strides[i] - 1) / r.strides[i] - 1) * r.strides[i] + reach - *size, 0);
      r.low[i] = automatic == "SAME_UPPER" ? total / 2 : total - total / 2;
      r.high[i] = total - r.low[i];
    } else if (pads) {
      r.low[i] = pads->at(i);
      r.high[i] = pads->at(n + i);
    }
    c.expects(r.low[i] >= 0 && r.high[i] >= 0 && r.low[i] < (1 << 30) && r.high[i] < (1 << 30), "pads of 0 or more");
  }
  return r;
}

// Padded with zeros after the zero point is taken off, as the operator says.
ValueId integer_sums(AtenCall& c, ValueId x, std::optional<ValueId> x_zero, ValueId w, std::optional<ValueId> w_zero,
                     DType dtype) {
  Builder& b = c.b;
  const IntegerWindow r = window_of(c, x, w);
  if (w_zero && b.rank(*w_zero) == 1) w_zero = spread(c, w, *w_zero, 0, 0);
  if (x_zero && b.rank(*x_zero) == 1) x_zero = b.reshape(*x_zero, {});
  return b.create("convolution", {b.cast(shifted(b, x, x_zero), dtype), b.cast(shifted(b, w, w_zero), dtype)},
                  {{"strides", r.strides},
                   {"padding_low", r.low},
                   {"padding_high", r.high},
                   {"dilation", r.dilation},
                   {"input_dilation", Ints(r.strides.size(), 1)},
                   {"groups", r.groups}});
}

// Sums of products of 8-bit numbers are exact in f64, and convolution takes floats.
ValueId integer_convolution(AtenCall& c) {
  const ValueId sums = integer_sums(c, c.tensor("x"), c.maybe_tensor("x_zero_point"), c.tensor("w"),
                                    c.maybe_tensor("w_zero_point"), DType::f64);
  return c.b.cast(sums, DType::i32);
}

ValueId quantized_convolution(AtenCall& c) {
  Builder& b = c.b;
  const ValueId w = c.tensor("w"), zero = c.tensor("y_zero_point");
  ValueId sums = integer_sums(c, c.tensor("x"), c.tensor("x_zero_point"), w, c.tensor("w_zero_point"), DType::f64);
  const int64_t rank = b.rank(sums);
  if (const auto bias = c.maybe_tensor("B")) sums = b.add(sums, along_axis(b, b.cast(*bias, DType::f64), 1, rank));
  const auto of_channels = [&](ValueId v) {
    if (b.rank(v) == 1 && !(b.shape(v)[0] == Dim(1))) return along_axis(b, v, 1, rank);
    return b.reshape(v, {});
  };
  const ValueId scale = b.div(b.mul(of_channels(c.tensor("x_scale")), of_channels(c.tensor("w_scale"))),
                              of_channels(c.tensor("y_scale")));
  const ValueId y = b.add(b.unary("round", b.mul(b.cast(sums, DType::f32), scale)), b.cast(b.reshape(zero, {}), DType::f32));
  const DType to = b.dtype(zero);
  return b.cast(b.maximum(b.minimum(y, highest_of(to)), lowest_of(to)), to);
}

// ---- com.microsoft: what the quantiser of ONNX Runtime writes

// y = quantised f(dequantised a, dequantised b)
template <class F> ValueId through_floats(AtenCall& c, F&& f) {
  Builder& b = c.b;
  const auto real = [&](const char* x, const char* scale, const char* zero) {
    return dequantized(b, c.tensor(x), b.reshape(c.tensor(scale), {}),
                       c.maybe_tensor(zero) ? std::optional(b.reshape(c.tensor(zero), {})) : std::nullopt, DType::f32);
  };
  const ValueId y = f(real("A", "A_scale", "A_zero_point"), real("B", "B_scale", "B_zero_point"));
  const auto zero = c.maybe_tensor("C_zero_point");
  return quantized(b, y, b.reshape(c.tensor("C_scale"), {}), zero ? std::optional(b.reshape(*zero, {})) : zero,
                   b.dtype(c.tensor("A")));
}

ValueId product_to_float(AtenCall& c) {
  Builder& b = c.b;
  const ValueId x = c.tensor("A"), y = c.tensor("B");
  const ValueId product = b.matmul(shifted(b, x, of_rows(b, c.maybe_tensor("a_zero_point"), x)),
                                   shifted(b, y, one_or_columns(b, c.maybe_tensor("b_zero_point"))));
  const ValueId scale = b.mul(*of_rows(b, c.tensor("a_scale"), x), *one_or_columns(b, c.tensor("b_scale")));
  ValueId made = b.mul(b.cast(product, DType::f32), scale);
  if (const auto bias = c.maybe_tensor("bias")) made = b.add(made, *bias);
  return made;
}

// x is quantised to 8 bits here, by its own range.
ValueId product_quantized_here(AtenCall& c) {
  Builder& b = c.b;
  const ValueId x = c.tensor("A"), y = c.tensor("B");
  Ints all;
  for (int64_t i = 0; i < b.rank(x); ++i) all.push_back(i);
  const ValueId high = b.maximum(b.reduce("reduce_max", x, all, false), 0.0),
                low = b.minimum(b.reduce("reduce_min", x, all, false), 0.0);
  const ValueId range = b.div(b.sub(high, low), 255.0);
  const ValueId scale = b.select(b.compare("eq", range, 0.0), b.full(1.0, DType::f32), range);
  const ValueId zero = b.cast(b.unary("round", b.maximum(b.minimum(b.div(b.neg(low), scale), 255.0), 0.0)), DType::u8);
  const ValueId product = b.matmul(shifted(b, quantized(b, x, scale, zero, DType::u8), zero),
                                   shifted(b, y, one_or_columns(b, c.maybe_tensor("b_zero_point"))));
  ValueId made = b.mul(b.cast(product, DType::f32), b.mul(scale, *one_or_columns(b, c.tensor("b_scale"))));
  if (const auto bias = c.maybe_tensor("bias")) made = b.add(made, *bias);
  return made;
}

// Weights of 4 (or 2, 8) bits in blocks along K: B is [N, blocks, bytes of a block].
ValueId product_of_few_bits(AtenCall& c) {
  Builder& b = c.b;
  const int64_t k = c.integer("K"), n = c.integer("N"), bits = c.integer("bits"), block = c.integer("block_size");
  c.discard("accuracy_level", "a hint for the speed");
  c.expects((bits == 2 || bits == 4 || bits == 8) && k > 0 && n > 0 && block >= 16 && block <= (1 << 20),
            "2, 4 or 8 bits in blocks");
  if (c.maybe_tensor("g_idx")) c.unsupported("g_idx");
  const int64_t blocks = (k + block - 1) / block, together = 8 / bits;
  const auto unpacked = [&](ValueId packed, int64_t rows, int64_t count) {  // [rows, bytes] → [rows, count]
    if (bits == 8) return b.cast(b.reshape(packed, {rows, count}), DType::i32);
    const int64_t bytes = (count + together - 1) / together;
    const ValueId wide = b.cast(b.reshape(packed, {rows, bytes}), DType::i32);
    Values parts;
    for (int64_t i = 0; i < together; ++i) {
      const ValueId moved = b.binary("shift_right", wide, b.full(i * bits, DType::i32));
      parts.push_back(b.unsqueeze(b.binary("bitwise_and", moved, b.full((int64_t{1} << bits) - 1, DType::i32)), 2));
    }
    return b.slice(b.reshape(b.concat(parts, 2), {rows, bytes * together}), 1, 0, count);
  };
  const ValueId x = c.tensor("A"), scales = c.tensor("scales");
  const DType dtype = b.dtype(x);
  ValueId w = b.cast(b.reshape(unpacked(c.tensor("B"), n, blocks * block), {n, blocks, block}), DType::f32);
  const auto zeros = c.maybe_tensor("zero_points");
  ValueId zero = b.full(static_cast<double>(int64_t{1} << (bits - 1)), DType::f32);
  if (zeros && b.dtype(*zeros) == DType::u8)
    zero = b.cast(b.reshape(unpacked(*zeros, n, blocks), {n, blocks, 1}), DType::f32);
  else if (zeros)
    zero = b.cast(b.reshape(*zeros, {n, blocks, 1}), DType::f32);
  w = b.mul(b.sub(w, zero), b.cast(b.reshape(scales, {n, blocks, 1}), DType::f32));
  w = b.cast(b.slice(b.reshape(w, {n, blocks * block}), 1, 0, k), dtype);
  const auto bias = c.maybe_tensor("bias");
  return b.create("linear", {x, w, bias.value_or(kNoValue)});
}

#define BINARY "(A, A_scale, A_zero_point?, B, B_scale, B_zero_point?, C_scale, C_zero_point?)"

std::vector<OpDef> microsoft() {
  return {
      onnx_mapped("add", {"onnx.com.microsoft.QLinearAdd.1" BINARY},
                  [](AtenCall& c) { return through_floats(c, [&](ValueId x, ValueId y) { return c.b.add(x, y); }); }),
      onnx_mapped("mul", {"onnx.com.microsoft.QLinearMul.1" BINARY},
                  [](AtenCall& c) { return through_floats(c, [&](ValueId x, ValueId y) { return c.b.mul(x, y); }); }),
      onnx_mapped("matmul",
                  {"onnx.com.microsoft.MatMulIntegerToFloat.1(A, B, a_scale, b_scale, a_zero_point?, b_zero_point?, bias?)"},
                  product_to_float),
      onnx_mapped("matmul", {"onnx.com.microsoft.DynamicQuantizeMatMul.1(A, B, b_scale, b_zero_point?, bias?)"},
                  product_quantized_here),
      onnx_mapped(
          "linear",
          {"onnx.com.microsoft.MatMulNBits.1(A, B, scales, zero_points?, g_idx?, bias?; K!, N!, accuracy_level=0, bits=4, "
           "block_size!)"},
          product_of_few_bits),
      onnx_mapped("mul", {"onnx.com.microsoft.DequantizeLinear.1(x, x_scale, x_zero_point?; axis=1, block_size=0)"}, dequantize),
      onnx_mapped("round", {"onnx.com.microsoft.QuantizeLinear.1(x, y_scale, y_zero_point?; axis=1, block_size=0)"}, quantize)};
}

#undef BINARY
#define INTEGER_CONVOLUTION "; auto_pad=\"NOTSET\", dilations=none, group=1, kernel_shape=none, pads=none, strides=none)"

}  // namespace

std::vector<OpDef> quantization_onnx_ops() {
  std::vector<OpDef> all{
      onnx_mapped(
          "mul",
          {"onnx.DequantizeLinear.10(x, x_scale, x_zero_point?)", "onnx.DequantizeLinear.13(x, x_scale, x_zero_point?; axis=1)",
           "onnx.DequantizeLinear.21(x, x_scale, x_zero_point?; axis=1, block_size=0)",
           "onnx.DequantizeLinear.23(x, x_scale, x_zero_point?; axis=1, block_size=0, output_dtype=0)"},
          dequantize),
      onnx_mapped(
          "round",
          {"onnx.QuantizeLinear.10(x, y_scale, y_zero_point?)", "onnx.QuantizeLinear.13(x, y_scale, y_zero_point?; axis=1)",
           "onnx.QuantizeLinear.19(x, y_scale, y_zero_point?; axis=1, saturate=1)",
           "onnx.QuantizeLinear.21(x, y_scale, y_zero_point?; axis=1, block_size=0, output_dtype=0, saturate=1)",
           "onnx.QuantizeLinear.23(x, y_scale, y_zero_point?; axis=1, block_size=0, output_dtype=0, precision=0, "
           "saturate=1)"},
          quantize),
      onnx_mapped_all("round", {"onnx.DynamicQuantizeLinear.11(x)"}, dynamic_quantize),
      onnx_mapped("matmul", {"onnx.MatMulInteger.10(A, B, a_zero_point?, b_zero_point?)"}, integer_product),
      onnx_mapped("matmul", {"onnx.QLinearMatMul.10(a, a_scale, a_zero_point, b, b_scale, b_zero_point, y_scale, y_zero_point)"},
                  quantized_product),
      onnx_mapped("convolution", {"onnx.ConvInteger.10(x, w, x_zero_point?, w_zero_point?" INTEGER_CONVOLUTION},
                  integer_convolution),
      onnx_mapped("convolution",
                  {"onnx.QLinearConv.10(x, x_scale, x_zero_point, w, w_scale, w_zero_point, y_scale, y_zero_point, "
                   "B?" INTEGER_CONVOLUTION},
                  quantized_convolution)};
  for (OpDef& each : microsoft()) all.push_back(std::move(each));
  return all;
}

#undef INTEGER_CONVOLUTION

}  // namespace pycandle
