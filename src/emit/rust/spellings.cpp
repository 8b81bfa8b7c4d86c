#include "emit/rust/spellings.h"

#include <algorithm>

namespace pycandle::emit::rust {
namespace {

using Holds = bool (*)(const Call&);

struct Spelling {
  std::string_view op;
  const char* text;
  Holds holds = nullptr;      // nothing: always
};

bool is_f32(const Call& c) {
  const DType d = c.type(c.op().operand_specs[0].name).dtype;
  return d == DType::f32 || d == DType::f64;
}
bool is_real(const Call& c) { return !is_complex(c.type(c.op().operand_specs[0].name).dtype); }
bool is_boolean(const Call& c) { return c.type(c.op().operand_specs[0].name).dtype == DType::boolean; }
bool is_last(const Call& c) { return c.integer("dim") == -1 || c.integer("dim") + 1 == c.rank("x"); }
bool is_f32_last(const Call& c) { return is_f32(c) && is_last(c); }
bool is_f32_tanh(const Call& c) { return is_f32(c) && c.string("approximate") == "tanh"; }
bool is_f32_erf(const Call& c) { return is_f32(c) && c.string("approximate") == "none"; }
bool is_tanh(const Call& c) { return c.string("approximate") == "tanh"; }
bool has_no_alibi(const Call& c) { return !c.has("alibi_slopes") && (c.has("scale") || c.shape("query").back().is_number()); }
// With everything else as it usually is.
bool is_plain_causal(const Call& c) {
  for (const char* name : {"attn_mask", "key_mask", "alibi_slopes", "scale", "window", "masked_bias"}) {
    if (c.has(name)) return false;
  }
  return c.boolean("is_causal") && !c.boolean("eager") && c.dim("query_offset") == Dim(0) && c.shape("query").back().is_number();
}
bool is_plain_rotary(const Call& c) {
  return !c.boolean("interleaved") && !c.boolean("paired") && c.has("unsqueeze_dim") && c.integer("unsqueeze_dim") == 1;
}
bool is_usual_append(const Call& c) { return c.integer("axis") + 2 == c.rank("cache"); }
bool is_cached_without_masks(const Call& c) {
  for (const char* name : {"attn_mask", "key_mask", "alibi_slopes", "masked_bias"}) {
    if (c.has(name)) return false;
  }
  return c.has("scale") || c.shape("query").back().is_number();
}
bool is_plain_cached(const Call& c) {
  return is_cached_without_masks(c) && !c.has("scale") && !c.has("window") && !c.boolean("eager");
}
bool is_in_out(const Call& c) { return c.string("weight_order") == "in_out"; }
bool is_one_number(const Ints& list) {
  return !list.empty() && std::all_of(list.begin(), list.end(), [&](int64_t n) { return n == list[0]; });
}
bool is_square_pool(const Call& c) {
  const Ints dilation = c.integers("dilation");
  return !c.boolean("ceil_mode") && is_one_number(c.integers("kernel_size")) && is_one_number(c.integers("stride")) &&
         is_one_number(c.integers("padding")) && std::all_of(dilation.begin(), dilation.end(), [](int64_t n) { return n == 1; });
}
bool has_all_sizes(const Call& c) { return c.dim("diagonal").is_number(); }
bool is_1d(const Call& c) { return c.rank("x") >= 1; }

#define FUNCTION(name) {#name, "ops::" #name "({x})?", is_real}
#define METHOD(name, method) {#name, "{x.}." method "()?", is_f32}, FUNCTION(name)
#define CONVOLUTION(name) \
  {#name, "ops::" #name "({x}, {weight}, {ops::Conv: bias stride padding dilation groups same output_padding})?"}
#define MAX_POOL(n)                                                                                            \
  {"max_pool" #n "d", "ops::max_pool" #n "d({x}, {kernel_size:1}, {stride:1}, {padding:1})?", is_square_pool}, \
      {"max_pool" #n "d", "ops::max_pool({x}, {kernel_size&}, {ops::Pool: stride padding dilation ceil_mode})?"}
#define AVG_POOL(n)                                                                                              \
  {"avg_pool" #n "d",                                                                                            \
   "ops::avg_pool({x}, {kernel_size&}, {ops::Pool: stride padding ceil_mode count_include_pad=!without_padding " \
   "divisor_override=divisor})?"}
#define ADAPTIVE(n)                                                             \
  {"adaptive_avg_pool" #n "d", "ops::adaptive_avg_pool({x}, {output_size&})?"}, \
      {"adaptive_max_pool" #n "d", "ops::adaptive_max_pool({x}, {output_size&})?"}
#define RECURRENT(name, cell)                                                     \
  {#name, "ops::recurrent(ops::Cell::" cell                                       \
          ", {x}, {h0}, {h0}, {params*}, {ops::Recurrent: has_biases num_layers " \
          "bidirectional batch_first !})?"}

// Of several the first that holds.
constexpr Spelling kSpellings[] = {
    // one element at a time
    METHOD(exp, "exp"),
    METHOD(log, "log"),
    METHOD(sin, "sin"),
    METHOD(cos, "cos"),
    METHOD(tanh, "tanh"),
    METHOD(sqrt, "sqrt"),
    METHOD(neg, "neg"),
    METHOD(abs, "abs"),
    METHOD(floor, "floor"),
    METHOD(ceil, "ceil"),
    METHOD(sign, "sign"),
    METHOD(reciprocal, "recip"),
    METHOD(erf, "erf"),
    FUNCTION(exp2),
    FUNCTION(expm1),
    FUNCTION(log2),
    FUNCTION(log10),
    FUNCTION(log1p),
    FUNCTION(rsqrt),
    FUNCTION(tan),
    FUNCTION(asin),
    FUNCTION(acos),
    FUNCTION(atan),
    FUNCTION(sinh),
    FUNCTION(cosh),
    FUNCTION(asinh),
    FUNCTION(acosh),
    FUNCTION(atanh),
    FUNCTION(erfc),
    FUNCTION(lgamma),
    FUNCTION(trunc),
    FUNCTION(round),
    FUNCTION(isnan),
    FUNCTION(isinf),
    {"bitwise_not", "ops::logical_not({x})?", is_boolean},
    {"bitwise_not", "ops::bitwise_not({x})?"},
    {"clamp", "ops::clamp({x}, {min?}, {max?})?", is_real},
    // activations
    {"relu", "{x.}.relu()?", is_f32},
    {"relu", "ops::maximum({x}, 0)?"},
    {"relu6", "ops::clamp({x}, Some(0.0), Some(6.0))?"},
    {"hardtanh", "ops::clamp({x}, Some({min_val}), Some({max_val}))?"},
    {"gelu", "{x.}.gelu()?", is_f32_tanh},
    {"gelu", "{x.}.gelu_erf()?", is_f32_erf},
    {"gelu", "ops::gelu({x}, true)?", is_tanh},
    {"gelu", "ops::gelu({x}, false)?"},
    {"silu", "{x.}.silu()?", is_f32},
    {"sigmoid", "candle_nn::ops::sigmoid({x})?", is_f32},
    {"sigmoid", "ops::sigmoid({x})?"},
    FUNCTION(quick_gelu),
    FUNCTION(hardsigmoid),
    FUNCTION(hardswish),
    FUNCTION(mish),
    FUNCTION(log_sigmoid),
    {"softplus", "ops::softplus({x}, {beta}, {threshold})?"},
    {"leaky_relu", "ops::leaky_relu({x}, {negative_slope})?"},
    {"elu", "ops::elu({x}, {alpha}, {scale}, {input_scale})?"},
    {"glu", "ops::glu({x}, {dim})?"},
    {"prelu", "ops::prelu({x}, {weight})?"},
    {"softmax", "candle_nn::ops::softmax({x}, {dim:D})?", is_f32_last},
    {"softmax", "ops::softmax({x}, {dim})?"},
    {"log_softmax", "candle_nn::ops::log_softmax({x}, {dim:D})?", is_f32_last},
    {"log_softmax", "ops::log_softmax({x}, {dim})?"},
    // norms
    {"layer_norm", "ops::layer_norm({x}, {normalized_shape:count}, {weight?}, {bias?}, {eps})?"},
    {"rms_norm",
     "ops::rms_norm({x}, {normalized_shape:count}, {ops::RmsNorm: weight eps compute_dtype round_before_weight "
     "weight_offset})?"},
    {"batch_norm", "ops::batch_norm({x}, {mean}, {var}, {weight?}, {bias?}, {eps})?"},
    {"group_norm", "ops::group_norm({x}, {groups}, {weight?}, {bias?}, {eps})?"},
    {"instance_norm", "ops::instance_norm({x}, {weight?}, {bias?}, {eps})?"},
    // products
    {"linear", "ops::linear({x}, &{weight.}.t()?, {bias?})?", is_in_out},
    {"linear", "ops::linear({x}, {weight}, {bias?})?"},
    {"matmul", "ops::matmul({left}, {right})?"},
    {"dot_general", "ops::dot_general({left}, {right}, ({batch_left&}, {batch_right&}), ({contract_left&}, {contract_right&}))?"},
    CONVOLUTION(conv1d),
    CONVOLUTION(conv2d),
    CONVOLUTION(conv3d),
    CONVOLUTION(conv_transpose1d),
    CONVOLUTION(conv_transpose2d),
    CONVOLUTION(conv_transpose3d),
    {"convolution",
     "ops::convolution({x}, {weight}, {ops::Convolution: strides padding_low padding_high dilation input_dilation groups !})?"},
    {"scaled_dot_product_attention", "ops::causal_attention({query}, {key}, {value})?", is_plain_causal},
    {"scaled_dot_product_attention",
     "ops::scaled_dot_product_attention({query}, {key}, {value}, {ops::Attention: attn_mask key_mask is_causal scale window "
     "query_offset masked_bias eager})?",
     has_no_alibi},
    {"rotary_embedding", "ops::rotary({x}, {cos}, {sin})?", is_plain_rotary},
    {"rotary_embedding", "ops::rotary_embedding({x}, {cos}, {sin}, {ops::Rotary: interleaved paired unsqueeze_dim})?"},
    {"cached_attention", "ops::cached_attention({query}, {key}, {value})?", is_plain_cached},
    {"cached_attention", "ops::cached_attention_with({query}, {key}, {value}, {ops::Attention: scale window eager})?",
     is_cached_without_masks},
    {"cache_append", "{cache.}.append({rows})?", is_usual_append},
    {"split_heads", "ops::split_heads({x}, {heads})?"},
    {"merge_heads", "ops::merge_heads({x})?"},
    {"lstm",
     "ops::recurrent(ops::Cell::Lstm, {x}, {h0}, {c0}, {params*}, {ops::Recurrent: has_biases num_layers bidirectional "
     "batch_first !})?"},
    RECURRENT(gru, "Gru"),
    RECURRENT(rnn_tanh, "Tanh"),
    RECURRENT(rnn_relu, "Relu"),
    // windows
    MAX_POOL(1),
    MAX_POOL(2),
    MAX_POOL(3),
    AVG_POOL(1),
    AVG_POOL(2),
    AVG_POOL(3),
    ADAPTIVE(1),
    ADAPTIVE(2),
    ADAPTIVE(3),
    {"reduce_window", "ops::reduce_window({x}, {kind}, {ops::Windows: window strides dilation padding_low padding_high !})?",
     is_real},
    {"adaptive_window", "ops::adaptive_window({x}, {kind}, {output&})?", is_real},
    // many to one
    {"reduce_max", "ops::max({x}, {axes&}, false)?"},
    {"reduce_min", "ops::min({x}, {axes&}, false)?"},
    {"reduce_prod", "ops::prod({x}, {axes&}, false)?", is_real},
    {"reduce_and", "ops::all({x}, {axes&}, false)?"},
    {"reduce_or", "ops::any({x}, {axes&}, false)?"},
    {"var", "ops::var({x}, {axes&}, {correction}, {keep})?", is_real},
    {"std", "ops::std({x}, {axes&}, {correction}, {keep})?", is_real},
    {"vector_norm", "ops::vector_norm({x}, {axes&}, {order}, {keep})?", is_real},
    {"logsumexp", "ops::logsumexp({x}, {axes&}, {keep})?", is_real},
    {"argmax", "ops::argmax({x}, {axis})?"},
    {"argmin", "ops::argmin({x}, {axis})?"},
    {"cumsum", "ops::cumsum({x}, {axis})?", is_real},
    {"cumprod", "ops::cumprod({x}, {axis})?", is_real},
    {"sort", "ops::sort({x}, {axis}, {descending})?", is_1d},
    {"topk", "ops::topk({x}, {k}, {axis}, {largest})?", is_1d},
    // indices
    {"take", "ops::take({x}, {indices}, {axis})?", is_real},
    {"embedding", "ops::embedding({weight}, {indices})?"},
    {"gather", "ops::gather({x}, {index}, {axis})?", is_real},
    {"gather_nd", "ops::gather_nd({x}, {indices*}, {axes&})?", is_real},
    {"scatter", "ops::scatter({x}, {index}, {src}, {axis}, {reduce}, {include_self})?", is_real},
    {"scatter_nd", "ops::scatter_nd({x}, {updates}, {indices*}, {axes&}, {accumulate})?", is_real},
    {"one_hot", "ops::one_hot({x}, {num_classes})?"},
    // elsewhere
    {"concat", "Tensor::cat({xs*}, {axis})?"},
    {"stack", "Tensor::stack({xs*}, {axis})?"},
    {"repeat_interleave", "ops::repeat_interleave({x}, {repeats}, {axis})?", is_real},
    {"reverse", "ops::reverse({x}, {axes&})?", is_real},
    {"roll", "ops::roll({x}, {shifts&}, {axes&})?", is_real},
    {"pad", "ops::pad({x}, {low&}, {high&}, {value})?", is_real},
    {"reflection_pad", "ops::reflection_pad({x}, {low&}, {high&})?", is_real},
    {"replication_pad", "ops::replication_pad({x}, {low&}, {high&})?", is_real},
    {"circular_pad", "ops::circular_pad({x}, {low&}, {high&})?", is_real},
    {"tril", "ops::tril({x}, {diagonal})?", has_all_sizes},
    {"triu", "ops::triu({x}, {diagonal})?", has_all_sizes},
    {"diagonal", "ops::diagonal({x}, {offset}, {axis1}, {axis2})?", is_real},
    {"unfold", "ops::unfold({x}, {axis}, {size}, {step})?", is_real},
    {"slice_scatter", "ops::slice_scatter({x}, {src}, {axis}, {start}, {stop}, {step})?", is_real},
    {"constant", "ops::full({shape&}, {value}, {dtype}, {device})?"},
    {"iota", "ops::iota({size}, {dtype}, {device})?"},
    {"arange", "ops::arange({start:i}, {stop:i}, {step}, {dtype}, {device})?"},
    {"dim", "Tensor::new({value:i}, {device})?"},
};

}  // namespace

const char* spelling(const Call& c) {
  for (const Spelling& s : kSpellings) {
    if (s.op == c.op().name && (!s.holds || s.holds(c))) return s.text;
  }
  return nullptr;
}

}  // namespace pycandle::emit::rust
