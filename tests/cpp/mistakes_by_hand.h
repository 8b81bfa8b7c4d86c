// Mistakes in what people write by hand: integers, tables of angles, gates, the order of norms, transforms. As mistakes.h.
#pragma once

#include "mistakes.h"

namespace pycandle {

// x turned by angles position / base^(2i / divisor), pairs as halves.
inline ValueId turned_by_angles(Builder& b, ValueId x, double base, double divisor) {
  const ValueId steps = b.div(b.mul(b.cast(b.iota(4), DType::f32), 2.0), divisor);
  const ValueId frequencies = b.unary("reciprocal", b.binary("pow", b.like(steps, base), steps));
  const ValueId positions = b.reshape(b.cast(b.iota(5), DType::f32), {Dim(5), Dim(1)});
  const ValueId half = b.mul(b.broadcast_to(positions, {Dim(5), Dim(4)}), b.broadcast_to(frequencies, {Dim(5), Dim(4)}));
  const ValueId angles = b.concat({half, half}, 1);
  const ValueId other = b.concat({b.neg(b.slice(x, 1, 4, 8)), b.slice(x, 1, 0, 4)}, 1);
  return b.add(b.mul(x, b.unary("cos", angles)), b.mul(other, b.unary("sin", angles)));
}

// Row i sees the last `window` rows up to itself.
inline ValueId windowed_scores(Builder& b, ValueId x, int64_t window) {
  const Shape square{Dim(5), Dim(5)};
  const ValueId rows = b.broadcast_to(b.reshape(b.iota(5), {Dim(5), Dim(1)}), square),
                columns = b.broadcast_to(b.iota(5), square), distance = b.sub(rows, columns);
  const ValueId is_seen = b.binary("lt", distance, b.full(window, DType::i64, square));
  return b.select(is_seen, x, b.like(x, 0.0));
}

inline ValueId gru_by_hand(Builder& b, const Values& v, bool resets_first) {
  const ValueId x = v[0], h = b.reshape(v[1], {Dim(2), Dim(4)});
  const auto product = [&](ValueId a, ValueId w, int64_t gate) {
    const ValueId rows = b.slice(w, 0, gate * 4, gate * 4 + 4);
    return b.create("linear", {a, rows});
  };
  const auto sum = [&](int64_t gate) { return b.add(product(x, v[2], gate), product(h, v[3], gate)); };
  const ValueId reset = b.unary("sigmoid", sum(0)), update = b.unary("sigmoid", sum(1));
  const ValueId state = resets_first ? product(b.mul(reset, h), v[3], 2) : b.mul(reset, product(h, v[3], 2));
  const ValueId fresh = b.tanh(b.add(product(x, v[2], 2), state));
  return b.add(fresh, b.mul(update, b.sub(h, fresh)));
}

inline ValueId padded(Builder& b, ValueId x, int64_t before, int64_t behind) {
  return b.create("pad", {x}, {{"low", Dims{Dim(0), Dim(before)}}, {"high", Dims{Dim(0), Dim(behind)}}, {"value", 0.0}});
}

// The first of three parts, times the sigmoid of another, and the second.
inline ValueId gated_by_part(Builder& b, ValueId x, size_t part) {
  const Values parts = b.create_all("split", {x}, {{"axis", int64_t{1}}, {"sizes", Dims{Dim(2), Dim(2), Dim(2)}}});
  return b.add(b.mul(parts[0], b.unary("sigmoid", parts[part])), b.tanh(parts[1]));
}

// Windows, angles, the order of norms, heads.
inline std::vector<MistakeCase> mistakes_in_attention() {
  const std::vector<Given> square{floats({5, 5})}, rows{floats({5, 8})}, normed{floats({5, 8}), floats({5, 8}), weights({8})};
  const auto norm = [](Builder& b, ValueId x, ValueId weight) {
    return b.create("layer_norm", {x, weight, kNoValue}, {{"normalized_shape", Dims{Dim(8)}}, {"eps", 0.01}});
  };
  const auto angles = [](double base, double divisor) {
    return [=](Builder& b, const Values& v) { return turned_by_angles(b, v[0], base, divisor); };
  };
  const auto window = [](int64_t size) { return [=](Builder& b, const Values& v) { return windowed_scores(b, v[0], size); }; };
  return {
      {"a window of one less", "off by one", "lt", square, window(3), window(2), true},
      attribute_mistake("rolled by one more", "off by one", "roll", rows, {{"shifts", Dims{Dim(2)}}, {"axes", Ints{1}}}, "shifts",
                        Dims{Dim(3)}),
      {"angles of another base", "constant", "pow", rows, angles(10000, 8), angles(500000, 8), true},
      {"angles of another divisor", "constant", "div", rows, angles(10000, 8), angles(10000, 4)},
      {"the norm after the sum", "norm order", "layer_norm", normed,
       [=](Builder& b, const Values& v) { return norm(b, b.add(v[0], v[1]), v[2]); },
       [=](Builder& b, const Values& v) { return b.add(v[0], norm(b, v[1], v[2])); }},
      {"the norm before the sum", "norm order", "add", normed,
       [=](Builder& b, const Values& v) { return b.add(v[0], norm(b, v[1], v[2])); },
       [=](Builder& b, const Values& v) { return norm(b, b.add(v[0], v[1]), v[2]); }},
      {"heads repeated as a whole",
       "head order",
       "repeat",
       {floats({1, 2, 5, 4})},
       [](Builder& b, const Values& v) { return b.create("repeat", v, {{"repeats", Dims{Dim(1), Dim(3), Dim(1), Dim(1)}}}); },
       [](Builder& b, const Values& v) { return b.create("repeat_interleave", v, {{"repeats", Dim(3)}, {"axis", int64_t{1}}}); },
       true},
      {"repeated heads merged in the other order",
       "head order",
       "reshape",
       {floats({1, 2, 3, 5, 4})},
       [](Builder& b, const Values& v) { return b.reshape(v[0], {Dim(1), Dim(6), Dim(5), Dim(4)}); },
       [](Builder& b, const Values& v) { return b.reshape(b.swap_axes(v[0], 1, 2), {Dim(1), Dim(6), Dim(5), Dim(4)}); }},
  };
}

// Kernels, transforms, gates, roundings.
inline std::vector<MistakeCase> mistakes_in_layers() {
  const std::vector<Given> rows{floats({5, 8})};
  const auto kernel = [](const Ints& flipped) {
    return [=](Builder& b, const Values& v) {
      return b.create("conv2d", {v[0], flipped.empty() ? v[1] : b.reverse(v[1], flipped)},
                      {{"stride", Ints{1, 1}}, {"padding", Ints{0, 0}}});
    };
  };
  const std::vector<Given> convolved{floats({1, 3, 6, 5}), weights({4, 3, 3, 2})};
  const auto softplus = [](double threshold) -> Attributes {
    return {{"beta", attribute(Scalar(1.0))}, {"threshold", attribute(Scalar(threshold))}};
  };
  const auto frames = [](bool normalized) -> Attributes {
    return {{"n_fft", int64_t{8}},
            {"hop_length", int64_t{4}},
            {"win_length", int64_t{8}},
            {"normalized", normalized},
            {"onesided", true}};
  };
  const auto windowed = [=](const char* kind) {
    return [=](Builder& b, const Values& v) {
      return b.create("stft", {v[0], b.create("signal_window", {}, {{"kind", std::string(kind)}, {"length", int64_t{8}}})},
                      frames(false));
    };
  };
  const std::vector<Given> gates{floats({2, 4}), floats({2, 4}), weights({12, 4}), weights({12, 4})};
  const auto halves = [](Builder& b, const Values& v) { return b.mul(b.unary("floor", b.mul(v[0], 16.0)), 0.5); };
  return {
      {"a kernel flipped on one axis", "flipped kernel", "conv2d", convolved, kernel({}), kernel({2})},
      {"channels in reverse", "channel order", "conv2d", convolved, kernel({}), kernel({1})},
      attribute_mistake("another threshold of softplus", "softplus threshold", "softplus", rows, softplus(20), "threshold",
                        attribute(Scalar(0.25))),
      attribute_mistake("antialiasing", "antialias", "interpolate", {floats({1, 2, 9, 9})},
                        {{"mode", std::string("linear")}, {"output_size", Dims{Dim(4), Dim(5)}}, {"antialias", false}},
                        "antialias", true),
      attribute_mistake("a transform divided by its root", "normalisation", "stft", {floats({2, 24})}, frames(false),
                        "normalized", true),
      {"another window of a transform", "window", "stft", {floats({2, 24})}, windowed("blackman"), windowed("bartlett"), true},
      {"half up", "rounding mode", "round", rows, [=](Builder& b, const Values& v) { return b.unary("round", halves(b, v)); },
       [=](Builder& b, const Values& v) { return b.unary("floor", b.add(halves(b, v), 0.5)); }},
      {"the reset of a GRU before the product", "gru reset", "mul", gates,
       [](Builder& b, const Values& v) { return gru_by_hand(b, v, false); },
       [](Builder& b, const Values& v) { return gru_by_hand(b, v, true); }},
      {"half to even for half up", "rounding mode", "floor", rows,
       [=](Builder& b, const Values& v) { return b.unary("floor", b.add(halves(b, v), 0.5)); },
       [=](Builder& b, const Values& v) { return b.unary("round", halves(b, v)); }},
      {"cells for points of a smaller picture",
       "interpolation mode",
       "interpolate",
       {floats({1, 2, 9, 9})},
       [](Builder& b, const Values& v) {
         return b.create("interpolate", {v[0]}, {{"mode", std::string("linear")}, {"output_size", Dims{Dim(4), Dim(5)}}});
       },
       [](Builder& b, const Values& v) {
         return b.create("adaptive_avg_pool2d", {v[0]}, {{"output_size", Dims{Dim(4), Dim(5)}}});
       }},
  };
}

// Elements in another place, and what is put in place of them.
inline std::vector<MistakeCase> mistakes_in_places() {
  const std::vector<Given> square{floats({5, 5})};
  return {
      {"two products with factors exchanged",
       "operand order",
       "add",
       {floats({5, 8}), floats({5, 8}), floats({5, 8})},
       [](Builder& b, const Values& v) { return b.add(b.mul(b.sub(1.0, v[0]), v[1]), b.mul(v[0], v[2])); },
       [](Builder& b, const Values& v) { return b.add(b.mul(b.sub(1.0, v[0]), v[2]), b.mul(v[0], v[1])); },
       true},
      {"angles of another base, for queries and keys",
       "constant",
       "pow",
       {floats({5, 8}), floats({5, 8})},
       [](Builder& b, const Values& v) {
         return b.mul(turned_by_angles(b, v[0], 10000, 8), turned_by_angles(b, v[1], 10000, 8));
       },
       [](Builder& b, const Values& v) { return b.mul(turned_by_angles(b, v[0], 500, 8), turned_by_angles(b, v[1], 500, 8)); }},
      attribute_mistake("rolled along another axis", "dim", "roll", {floats({5, 8})},
                        {{"shifts", Dims{Dim(2)}}, {"axes", Ints{1}}}, "axes", Ints{0}),
      {"padding moved by one",
       "padding side",
       "pad",
       {floats({2, 6})},
       [](Builder& b, const Values& v) { return padded(b, v[0], 3, 1); },
       [](Builder& b, const Values& v) { return padded(b, v[0], 2, 2); },
       true},
      {"the largest for the mean",
       "reduction",
       "reduce_max",
       {floats({4, 6})},
       [](Builder& b, const Values& v) { return b.create("reduce_max", {v[0]}, {{"axes", Ints{1}}}); },
       [](Builder& b, const Values& v) { return b.create("mean", {v[0]}, {{"axes", Ints{1}}, {"keep", false}}); }},
      {"an axis in reverse",
       "direction order",
       "reverse",
       {floats({4, 6})},
       [](Builder& b, const Values& v) { return b.unary("exp", b.reverse(v[0], {1})); },
       [](Builder& b, const Values& v) { return b.unary("exp", v[0]); }},
      {"another part of a split",
       "wrong input",
       "sigmoid",
       {floats({4, 6})},
       [](Builder& b, const Values& v) { return gated_by_part(b, v[0], 2); },
       [](Builder& b, const Values& v) { return gated_by_part(b, v[0], 1); }},
      {"axes that a reshape joins in another order",
       "dim order",
       "transpose",
       {floats({2, 3, 4, 5})},
       [](Builder& b, const Values& v) { return b.reshape(b.transpose(v[0], {0, 1, 3, 2}), {Dim(2), Dim(60)}); },
       [](Builder& b, const Values& v) { return b.reshape(b.transpose(v[0], {0, 3, 1, 2}), {Dim(2), Dim(60)}); },
       true},
      {"the last of equal elements",
       "tie rule",
       "argmax",
       {floats({5, 8})},
       [](Builder& b, const Values& v) { return b.create("argmax", {b.unary("sign", v[0])}, {{"axis", int64_t{1}}}); },
       [](Builder& b, const Values& v) {
         const ValueId turned = b.create("argmax", {b.reverse(b.unary("sign", v[0]), {1})}, {{"axis", int64_t{1}}});
         return b.sub(b.full(int64_t{7}, b.dtype(turned), b.shape(turned)), turned);
       }},
      {"minus infinity for zero in a mask", "constant", "select", square,
       [](Builder& b, const Values& v) {
         return b.create("softmax", {b.select(b.compare("lt", v[0], 0.1), b.like(v[0], 0.0), v[0])}, {{"dim", int64_t{1}}});
       },
       [](Builder& b, const Values& v) {
         const ValueId nowhere = b.like(v[0], -std::numeric_limits<double>::infinity());
         return b.create("softmax", {b.select(b.compare("lt", v[0], 0.1), nowhere, v[0])}, {{"dim", int64_t{1}}});
       }},
  };
}

inline std::vector<MistakeCase> mistakes_by_hand() {
  std::vector<MistakeCase> all = mistakes_in_attention();
  for (const auto& more : {mistakes_in_layers(), mistakes_in_places()}) all.insert(all.end(), more.begin(), more.end());
  return all;
}

}  // namespace pycandle
