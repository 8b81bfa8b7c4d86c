// Mistakes that people make, each as two small programs: one with the op as it is, one that computes what the mistake does.
// The second is written out or has another attribute; it shares nothing with the tables that causes are looked for in.
#pragma once

#include <functional>
#include <ostream>
#include <string>
#include <vector>

#include "ir/builder.h"

namespace pycandle {

struct Given {
  Type type;
  bool is_parameter = false;
};
inline Given floats(std::initializer_list<int64_t> sizes) { return {{DType::f32, Shape(sizes.begin(), sizes.end())}}; }
inline Given weights(std::initializer_list<int64_t> sizes) { return {floats(sizes).type, true}; }
inline Given of(DType dtype, std::initializer_list<int64_t> sizes) { return {{dtype, Shape(sizes.begin(), sizes.end())}}; }

using Computation = std::function<ValueId(Builder&, const Values&)>;

struct MistakeCase {
  std::string name;
  std::string kind;            // of the cause that is named; empty: none may be
  std::string op;              // which the cause is of
  std::vector<Given> operands;
  Computation as_it_is, mistaken;
  bool both_ways = false;      // the other program has the op too: each may be the mistake
};

// The op with one attribute another.
inline MistakeCase attribute_mistake(std::string name, std::string kind, const std::string& op, std::vector<Given> operands,
                                     const Attributes& attributes, const std::string& changed, const Attribute& value) {
  const auto with = [=](const Attributes& all) -> Computation {
    return [=](Builder& b, const Values& v) { return b.create_all(op, v, all)[0]; };
  };
  Attributes other = attributes;
  for (auto& [key, old] : other) {
    if (key == changed) old = value;
  }
  return {std::move(name), std::move(kind), op, std::move(operands), with(attributes), with(other), true};
}

// The op on other operands: turned, exchanged, left out.
inline MistakeCase operand_mistake(std::string name, std::string kind, const std::string& op, std::vector<Given> operands,
                                   const Attributes& attributes, const std::function<Values(Builder&, Values)>& changed) {
  return {std::move(name),
          std::move(kind),
          op,
          std::move(operands),
          [=](Builder& b, const Values& v) { return b.create_all(op, v, attributes)[0]; },
          [=](Builder& b, const Values& v) { return b.create_all(op, changed(b, v), attributes)[0]; }};
}

// Another op on the same operands.
inline MistakeCase op_mistake(std::string name, std::string kind, const std::string& op, const Attributes& attributes,
                              const std::string& other, const Attributes& other_attributes, std::vector<Given> operands) {
  return {std::move(name),
          std::move(kind),
          op,
          std::move(operands),
          [=](Builder& b, const Values& v) { return b.create_all(op, v, attributes)[0]; },
          [=](Builder& b, const Values& v) { return b.create_all(other, v, other_attributes)[0]; },
          true};
}

// (x - mean) / root of the variance, with two ways to get it wrong.
inline ValueId layer_norm_by_hand(Builder& b, const Values& v, double divisor, bool eps_is_inside) {
  const ValueId centred = b.sub(v[0], b.mean(v[0], {1}));
  const ValueId variance = b.div(b.sum(b.square(centred), {1}), divisor);
  const ValueId root = eps_is_inside ? b.sqrt(b.add(variance, 0.05)) : b.add(b.sqrt(variance), 0.05);
  return b.add(b.mul(b.div(centred, root), v[1]), v[2]);
}

// Rows of a matrix in blocks, in another order: the gates of a recurrent layer.
inline ValueId in_blocks(Builder& b, ValueId x, const Ints& order) {
  const int64_t each = b.shape(x)[0].number() / static_cast<int64_t>(order.size());
  Values parts;
  for (int64_t i : order) parts.push_back(b.slice(x, 0, i * each, (i + 1) * each));
  return b.concat(parts, 0);
}

inline void PrintTo(const MistakeCase& m, std::ostream* out) { *out << m.name; }

namespace mistaken {

using Cases = std::vector<MistakeCase>;

inline ValueId norm(Builder& b, const Values& v) {
  return b.create("layer_norm", v, {{"normalized_shape", Dims{8}}, {"eps", 0.05}});
}
inline std::vector<Given> normed() { return {floats({5, 8}), weights({8}), weights({8})}; }
inline std::vector<Given> heads() { return {floats({2, 2, 5, 4}), floats({2, 2, 5, 4}), floats({2, 2, 5, 4})}; }
inline std::vector<Given> convolved() { return {floats({1, 2, 5, 5}), weights({3, 2, 3, 3}), weights({3})}; }
inline Attributes kernel() { return {{"stride", Ints{1, 1}}, {"padding", Ints{1, 1}}}; }
inline ValueId convolution(Builder& b, const Values& v) { return b.create("conv2d", v, kernel()); }

inline Cases of_norms() {
  return {
      {"epsilon outside the root", "epsilon place", "layer_norm", normed(), norm,
       [](Builder& b, const Values& v) { return layer_norm_by_hand(b, v, 8, false); }},
      {"the unbiased variance", "variance", "layer_norm", normed(), norm,
       [](Builder& b, const Values& v) { return layer_norm_by_hand(b, v, 7, true); }},
      attribute_mistake("another epsilon", "epsilon", "layer_norm", normed(), {{"normalized_shape", Dims{8}}, {"eps", 0.05}},
                        "eps", 0.003),
      attribute_mistake("the biased variance", "variance", "std", {floats({5, 8})},
                        {{"axes", Ints{1}}, {"keep", true}, {"correction", 1.0}}, "correction", 0.0),
  };
}

inline Cases of_functions() {
  return {
      attribute_mistake("tanh for erf", "gelu form", "gelu", {floats({5, 8})}, {{"approximate", std::string("none")}},
                        "approximate", std::string("tanh")),
      op_mistake("rounding down", "rounding mode", "round", {}, "floor", {}, {floats({5, 8})}),
      op_mistake("rounding toward zero", "rounding mode", "floor", {}, "trunc", {}, {floats({5, 8})}),
      op_mistake("a division rounded toward zero", "rounding mode", "floor_divide", {}, "trunc_divide", {},
                 {floats({5, 8}), floats({5, 8})}),
  };
}

inline Cases of_products() {
  return {
      operand_mistake("a transposed weight", "transposed weight", "linear", {floats({5, 8}), weights({8, 8}), weights({8})}, {},
                      [](Builder& b, Values v) {
                        v[1] = b.swap_axes(v[1], 0, 1);
                        return v;
                      }),
      operand_mistake("a transposed kernel", "transposed weight", "conv2d", convolved(), kernel(),
                      [](Builder& b, Values v) {
                        v[1] = b.swap_axes(v[1], 2, 3);
                        return v;
                      }),
      operand_mistake("operands rounded to bf16", "accumulation dtype", "linear", {floats({5, 8}), weights({8, 8}), weights({8})},
                      {},
                      [](Builder& b, Values v) {
                        for (ValueId& x : v) x = b.cast(b.cast(x, DType::bf16), DType::f32);
                        return v;
                      }),
  };
}

inline Cases of_attention() {
  return {
      attribute_mistake("causal or not", "causal", "scaled_dot_product_attention", heads(), {{"is_causal", false}}, "is_causal",
                        true),
      attribute_mistake("another scale", "scale", "scaled_dot_product_attention", heads(), {{"scale", 0.5}}, "scale", 0.31),
      attribute_mistake("no scale", "scale", "scaled_dot_product_attention", heads(), {{"scale", 0.5}}, "scale", 1.0),
      operand_mistake("a mask the other way", "mask sign", "scaled_dot_product_attention",
                      {heads()[0], heads()[1], heads()[2], of(DType::boolean, {2, 2, 5, 5})}, {},
                      [](Builder& b, Values v) {
                        v[3] = b.logical_not(v[3]);
                        return v;
                      }),
      operand_mistake("an added mask with the other sign", "operation", "scaled_dot_product_attention",
                      {heads()[0], heads()[1], heads()[2], floats({2, 2, 5, 5})}, {},
                      [](Builder& b, Values v) {
                        v[3] = b.neg(v[3]);
                        return v;
                      }),
      operand_mistake("a selection the other way", "mask sign", "select",
                      {of(DType::boolean, {5, 8}), floats({5, 8}), floats({5, 8})}, {},
                      [](Builder&, Values v) {
                        std::swap(v[1], v[2]);
                        return v;
                      }),
      {"width before heads",
       "head split order",
       "split_heads",
       {floats({2, 5, 8})},
       [](Builder& b, const Values& v) { return b.create("split_heads", v, {{"heads", Dim(2)}}); },
       [](Builder& b, const Values& v) { return b.transpose(b.reshape(v[0], {Dim(2), Dim(5), Dim(4), Dim(2)}), {0, 3, 1, 2}); }},
      {"heads merged after their width",
       "head split order",
       "merge_heads",
       {floats({2, 2, 5, 4})},
       [](Builder& b, const Values& v) { return b.create("merge_heads", v); },
       [](Builder& b, const Values& v) { return b.reshape(b.transpose(v[0], {0, 2, 3, 1}), {Dim(2), Dim(5), Dim(8)}); }},
      attribute_mistake("the other pairing", "rotary pairing", "rotary_embedding",
                        {floats({2, 2, 5, 8}), floats({1, 5, 8}), floats({1, 5, 8})},
                        {{"interleaved", false}, {"paired", false}, {"unsqueeze_dim", int64_t{1}}}, "interleaved", true),
  };
}

inline Cases of_windows() {
  const Attributes window{{"kernel_size", Ints{3, 3}}, {"stride", Ints{2, 2}}, {"padding", Ints{1, 1}}};
  const auto pooled = [&](const char* more, bool value) {
    Attributes all = window;
    all.emplace_back(more, value);
    return all;
  };
  const Dims low{Dim(0), Dim(2)}, high{Dim(0), Dim(1)};
  const Attributes sides{{"low", low}, {"high", high}};
  const Attributes enlarged{{"mode", std::string("linear")}, {"output_size", Dims{Dim(7), Dim(9)}}, {"align_corners", false}};
  const auto padded_by = [](const char* mode) {
    return [mode](Builder& b, const Values& v) {
      const Dims one{Dim(0), Dim(0), Dim(1), Dim(1)};
      return b.create("conv2d", {b.create(mode, {v[0]}, {{"low", one}, {"high", one}}), v[1], v[2]});
    };
  };
  return {
      {"padding by reflection", "padding mode", "conv2d", convolved(), convolution, padded_by("reflection_pad")},
      {"padding by the nearest", "padding mode", "conv2d", convolved(), convolution, padded_by("replication_pad")},
      op_mistake("the nearest for a reflection", "padding mode", "reflection_pad", sides, "replication_pad", sides,
                 {floats({5, 8})}),
      {"all padding in front", "padding side", "conv2d", convolved(), convolution,
       [](Builder& b, const Values& v) {
         const Dims front{Dim(0), Dim(0), Dim(2), Dim(2)}, none(4, Dim(0));
         return b.create("conv2d", {b.pad(v[0], front, none, 0.0), v[1], v[2]});
       }},
      op_mistake("padding in front and behind exchanged", "padding side", "pad", sides, "pad", {{"low", high}, {"high", low}},
                 {floats({5, 8})}),
      attribute_mistake("align_corners", "align corners", "interpolate", {floats({1, 2, 5, 4})}, enlarged, "align_corners", true),
      attribute_mistake("cubic for linear", "interpolation mode", "interpolate", {floats({1, 2, 5, 4})}, enlarged, "mode",
                        std::string("cubic")),
      attribute_mistake("padding counted in an average", "count include pad", "avg_pool2d", {floats({1, 2, 5, 5})},
                        pooled("count_include_pad", true), "count_include_pad", false),
      // The result has another size: that is all there is to go by.
      attribute_mistake("ceil_mode", "ceil mode", "avg_pool2d", {floats({1, 2, 6, 6})}, pooled("ceil_mode", false), "ceil_mode",
                        true),
  };
}

inline Cases of_recurrent_layers() {
  const Attributes recurrent{{"has_biases", true}, {"num_layers", int64_t{1}}, {"bidirectional", true}, {"batch_first", true}};
  const auto layer_of = [](int64_t gates) {  // x, states, and both directions
    std::vector<Given> all{floats({2, 5, 3}), floats({2, 2, 4})};
    if (gates == 4) all.push_back(floats({2, 2, 4}));
    for (int direction = 0; direction < 2; ++direction) {
      for (Given o : {weights({gates * 4, 3}), weights({gates * 4, 4}), weights({gates * 4}), weights({gates * 4})})
        all.push_back(o);
    }
    return all;
  };
  const auto other_gates = [](size_t first, const Ints& order) {
    return [=](Builder& b, Values v) {
      for (size_t i = first; i < v.size(); ++i) v[i] = in_blocks(b, v[i], order);
      return v;
    };
  };
  return {
      operand_mistake("gates of an LSTM in the order i f o g", "gate order", "lstm", layer_of(4), recurrent,
                      other_gates(3, {0, 1, 3, 2})),
      operand_mistake("gates of a GRU in the order z r n", "gate order", "gru", layer_of(3), recurrent,
                      other_gates(2, {1, 0, 2})),
      operand_mistake("backwards before forwards", "direction order", "lstm", layer_of(4), recurrent,
                      [](Builder&, Values v) {
                        std::rotate(v.begin() + 3, v.begin() + 7, v.end());
                        return v;
                      }),
  };
}

inline Cases of_data() {
  return {
      attribute_mistake("dims in another order", "dim order", "transpose", {floats({4, 4, 3})}, {{"permutation", Ints{1, 0, 2}}},
                        "permutation", Ints{0, 1, 2}),
      {"a slice one too early",
       "slice offset",
       "slice",
       {floats({5, 9})},
       [](Builder& b, const Values& v) { return b.slice(v[0], 1, 2, 8); },
       [](Builder& b, const Values& v) { return b.slice(v[0], 1, 1, 7); },
       true},
      {"a residual left out",
       "missing residual",
       "add",
       {floats({5, 8}), floats({5, 8})},
       [](Builder& b, const Values& v) { return b.add(b.tanh(v[0]), v[1]); },
       [](Builder& b, const Values& v) { return b.tanh(v[0]); }},
      {"a residual of one row left out",
       "missing residual",
       "add",
       {floats({5, 8}), floats({1, 8})},
       [](Builder& b, const Values& v) { return b.add(b.tanh(v[0]), v[1]); },
       [](Builder& b, const Values& v) { return b.tanh(v[0]); }},
  };
}

inline Cases of_numbers() {
  const auto sum_scaled = [](Builder& b, const Values& v) { return b.div(b.add(b.tanh(v[0]), v[1]), 3.7); };
  const auto term_scaled = [](Builder& b, const Values& v) { return b.add(b.div(b.tanh(v[0]), 3.7), v[1]); };
  return {
      {"a sum that is scaled, not one of its terms",
       "scale place",
       "div",
       {floats({5, 8}), floats({5, 8})},
       sum_scaled,
       term_scaled},
      {"one term that is scaled, not the sum", "scale place", "add", {floats({5, 8}), floats({5, 8})}, term_scaled, sum_scaled},
      {"positions from one",
       "constant",
       "add",
       {floats({5, 8})},
       [](Builder& b, const Values& v) { return b.tanh(b.add(b.square(v[0]), 1.0)); },
       [](Builder& b, const Values& v) { return b.tanh(b.square(v[0])); }},
      {"distances the other way",
       "constant",
       "mul",
       {of(DType::i64, {5, 8}), floats({5, 8})},
       [](Builder& b, const Values& v) { return b.mul(b.cast(b.mul(v[0], -1.0), DType::f32), v[1]); },
       [](Builder& b, const Values& v) { return b.mul(b.cast(v[0], DType::f32), v[1]); }},
      {"a factor that is slightly another",
       "constant",
       "mul",
       {floats({5, 8})},
       [](Builder& b, const Values& v) { return b.tanh(b.mul(v[0], 0.288675135)); },
       [](Builder& b, const Values& v) { return b.tanh(b.mul(v[0], 0.288675135 * 1.01)); },
       true},
  };
}

inline Cases of_weights() {
  return {
      {"another weight",
       "wrong weight",
       "linear",
       {floats({5, 8}), weights({6, 8}), weights({6, 8})},
       [](Builder& b, const Values& v) { return b.create("linear", {v[0], v[1]}); },
       [](Builder& b, const Values& v) { return b.create("linear", {v[0], v[2]}); },
       true},
      operand_mistake("a running mean from before training", "stale buffer", "batch_norm",
                      {floats({5, 8}), weights({8}), weights({8})}, {{"eps", 2.0}},
                      [](Builder& b, Values v) {
                        v[1] = b.like(v[1], 0.0);
                        return v;
                      }),
      {"a dilation of two",
       "dilation",
       "conv1d",
       {floats({2, 4, 12}), weights({6, 4, 3})},
       [](Builder& b, const Values& v) {
         return b.create("conv1d", v, {{"stride", Ints{1}}, {"padding", Ints{1}}, {"dilation", Ints{1}}, {"groups", int64_t{1}}});
       },
       [](Builder& b, const Values& v) {
         return b.create("conv1d", v, {{"stride", Ints{1}}, {"padding", Ints{2}}, {"dilation", Ints{2}}, {"groups", int64_t{1}}});
       },
       true},
      {"two of three parts swapped",
       "part order",
       "concat",
       {floats({5, 4}), floats({5, 4}), floats({5, 4})},
       [](Builder& b, const Values& v) { return b.concat({v[0], v[1], v[2]}, 1); },
       [](Builder& b, const Values& v) { return b.concat({v[0], v[2], v[1]}, 1); },
       true},
      attribute_mistake("another upper bound", "clamp bound", "clamp", {floats({5, 8})},
                        {{"min", attribute(Scalar(-0.5))}, {"max", attribute(Scalar(0.5))}}, "max", attribute(Scalar(0.9))),
      attribute_mistake("a lower bound that no value reaches", "clamp bound", "clamp", {floats({5, 8})},
                        {{"min", attribute(Scalar(-0.5))}, {"max", attribute(Scalar(0.5))}}, "min", attribute(Scalar(-7.0))),
  };
}

// Outside the list: nothing may be named.
inline Cases without_a_name() {
  return {
      {"a number that nobody writes: part of another formula",
       "",
       "",
       {floats({5, 8})},
       [](Builder& b, const Values& v) { return b.mul(b.tanh(v[0]), -1.5); },
       [](Builder& b, const Values& v) { return b.mul(b.tanh(v[0]), -1.5 * 2.5066283); }},
      {"one number, which any constant can give",
       "",
       "",
       {floats({5, 8})},
       [](Builder& b, const Values& v) { return b.mul(b.sum(b.tanh(v[0]), {0, 1}), 0.5); },
       [](Builder& b, const Values& v) { return b.mul(b.sum(b.add(b.tanh(v[0]), b.mul(b.square(v[0]), 0.0137)), {0, 1}), 0.5); }},
      {"a little of the square", "", "", normed(), norm,
       [](Builder& b, const Values& v) {
         const ValueId y = norm(b, v);
         return b.add(y, b.mul(b.square(y), 0.01));
       }},
      {"every element and a little of its neighbour",
       "",
       "",
       {floats({5, 8}), weights({8, 8}), weights({8})},
       [](Builder& b, const Values& v) { return b.create("linear", v); },
       [](Builder& b, const Values& v) {
         const ValueId y = b.create("linear", v);
         const ValueId turned = b.concat({b.slice(y, 1, 1, 8), b.slice(y, 1, 0, 1)}, 1);
         return b.add(y, b.mul(turned, 0.02));
       }},
      {"the last row of zeros", "", "", heads(),
       [](Builder& b, const Values& v) { return b.create("scaled_dot_product_attention", v); },
       [](Builder& b, const Values& v) {
         const ValueId y = b.create("scaled_dot_product_attention", v);
         return b.pad(b.slice(y, 2, 0, 4), Dims(4, Dim(0)), {Dim(0), Dim(0), Dim(1), Dim(0)}, 0.0);
       }},
      {"a kernel that errs in the last of an odd number of columns", "", "", convolved(), convolution,
       [](Builder& b, const Values& v) {
         const ValueId y = convolution(b, v);
         return b.concat({b.slice(y, 3, 0, 4), b.mul(b.slice(y, 3, 4, 5), 0.5)}, 3);
       }},
  };
}

}  // namespace mistaken

inline std::vector<MistakeCase> mistakes() {
  std::vector<MistakeCase> all;
  for (auto* family :
       {mistaken::of_norms, mistaken::of_functions, mistaken::of_products, mistaken::of_attention, mistaken::of_windows,
        mistaken::of_recurrent_layers, mistaken::of_data, mistaken::of_numbers, mistaken::of_weights, mistaken::without_a_name}) {
    for (MistakeCase& each : family()) all.push_back(std::move(each));
  }
  return all;
}

}  // namespace pycandle
