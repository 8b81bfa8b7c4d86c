// Linear, embedding, normalization, attention.
#include <fmt/format.h>

#include <numeric>

#include "base/error.h"
#include "pycandle/functional.h"
#include "pycandle/nn.h"

namespace pycandle::front::nn {
namespace {

Dims dims_of(const Ints& sizes) { return {sizes.begin(), sizes.end()}; }

Tensor get_if(bool wanted, const Weights& w, const char* name, const Dims& shape) {
  return wanted ? w.get(name, shape) : Tensor();
}

}  // namespace

Ints PerAxis::over(size_t axes) const {
  if (values_.size() == axes) return values_;
  if (values_.size() == 1) return Ints(axes, values_[0]);
  throw Error(ErrorCode::bad_input, "there are not as many numbers as axes")
      .expected(fmt::format("1 or {}", axes))
      .found(to_string(values_));
}

Linear::Linear(int64_t in, int64_t out, const Options& options, const Weights& w)
    : Module(w),
      weight(w.get("weight", options.weight_order == "in_out" ? Dims{in, out} : Dims{out, in})),
      bias(get_if(options.bias, w, "bias", {out})),
      weight_order(options.weight_order) {}

Tensor Linear::forward(const Tensor& x) const {
  return functional::linear(x, weight, {.bias = bias, .weight_order = weight_order});
}

Bilinear::Bilinear(int64_t in1, int64_t in2, int64_t out, const Options& options, const Weights& w)
    : Module(w), weight(w.get("weight", {out, in1, in2})), bias(get_if(options.bias, w, "bias", {out})) {}

Tensor Bilinear::forward(const Tensor& x1, const Tensor& x2) const {
  return functional::bilinear(x1, x2, weight, {.bias = bias});
}

Embedding::Embedding(int64_t count, int64_t size, const Weights& w) : Module(w), weight(w.get("weight", {count, size})) {}

Tensor Embedding::forward(const Tensor& indices) const { return functional::embedding(weight, indices); }

LayerNorm::LayerNorm(const PerAxis& shape, const Options& options, const Weights& w)
    : Module(w),
      weight(get_if(options.elementwise_affine, w, "weight", dims_of(shape.values()))),
      bias(get_if(options.elementwise_affine && options.bias, w, "bias", dims_of(shape.values()))),
      normalized_shape(dims_of(shape.values())),
      eps(options.eps) {}

Tensor LayerNorm::forward(const Tensor& x) const {
  return functional::layer_norm(x, normalized_shape, {.weight = weight, .bias = bias, .eps = eps});
}

RMSNorm::RMSNorm(const PerAxis& shape, const Options& given, const Weights& w)
    : Module(w),
      weight(get_if(given.elementwise_affine, w, "weight", dims_of(shape.values()))),
      normalized_shape(dims_of(shape.values())),
      options(given) {}

Tensor RMSNorm::forward(const Tensor& x) const {
  return functional::rms_norm(x, normalized_shape,
                              {.weight = weight,
                               .eps = options.eps,
                               .compute_dtype = options.compute_dtype,
                               .round_before_weight = options.round_before_weight,
                               .weight_offset = options.weight_offset});
}

GroupNorm::GroupNorm(int64_t count, int64_t channels, const Options& options, const Weights& w)
    : Module(w),
      weight(get_if(options.affine, w, "weight", {channels})),
      bias(get_if(options.affine, w, "bias", {channels})),
      groups(count),
      eps(options.eps) {}

Tensor GroupNorm::forward(const Tensor& x) const {
  return functional::group_norm(x, groups, {.weight = weight, .bias = bias, .eps = eps});
}

template <int axes>
BatchNorm<axes>::BatchNorm(int64_t features, const BatchNormOptions& options, const Weights& w)
    : Module<BatchNorm>(w),
      weight(get_if(options.affine, w, "weight", {features})),
      bias(get_if(options.affine, w, "bias", {features})),
      running_mean(w.get("running_mean", {features})),
      running_var(w.get("running_var", {features})),
      eps(options.eps) {}

template <int axes> Tensor BatchNorm<axes>::forward(const Tensor& x) const {
  return functional::batch_norm(x, running_mean, running_var, {.weight = weight, .bias = bias, .eps = eps});
}

template <int axes>
InstanceNorm<axes>::InstanceNorm(int64_t features, const InstanceNormOptions& options, const Weights& w)
    : Module<InstanceNorm>(w),
      weight(get_if(options.affine, w, "weight", {features})),
      bias(get_if(options.affine, w, "bias", {features})),
      eps(options.eps) {}

template <int axes> Tensor InstanceNorm<axes>::forward(const Tensor& x) const {
  return functional::instance_norm(x, {.weight = weight, .bias = bias, .eps = eps});
}

template struct BatchNorm<1>;
template struct BatchNorm<2>;
template struct BatchNorm<3>;
template struct InstanceNorm<1>;
template struct InstanceNorm<2>;
template struct InstanceNorm<3>;

// ---- attention

MultiheadAttention::MultiheadAttention(int64_t size, int64_t count, const Options& options, const Weights& w)
    : Module(w), embed_dim(size), heads(count), batch_first(options.batch_first) {
  if (options.kdim || options.vdim) {
    q_weight = w.get("q_proj_weight", {size, size});
    k_weight = w.get("k_proj_weight", {size, options.kdim.value_or(size)});
    v_weight = w.get("v_proj_weight", {size, options.vdim.value_or(size)});
  } else {
    in_weight = w.get("in_proj_weight", {3 * size, size});
  }
  in_bias = get_if(options.bias, w, "in_proj_bias", {3 * size});
  out_weight = w.get("out_proj.weight", {size, size});
  out_bias = get_if(options.bias, w, "out_proj.bias", {size});
}

Tensor MultiheadAttention::forward(const Tensor& query, const Tensor& key, const Tensor& value,
                                   const AttentionOptions& options) const {
  const auto part = [&](const Tensor& whole, int64_t i) {
    return whole.defined() ? whole.slice(0, i * embed_dim, (i + 1) * embed_dim) : Tensor();
  };
  const auto projected = [&](const Tensor& x, const Tensor& own_weight, int64_t i) {
    const Tensor weight = in_weight.defined() ? part(in_weight, i) : own_weight;
    return split(functional::linear(x, weight, {.bias = part(in_bias, i)}));
  };
  return attended(projected(query, q_weight, 0), projected(key, k_weight, 1), projected(value, v_weight, 2), options);
}

Tensor MultiheadAttention::forward(const Tensor& x, const AttentionOptions& options) const {
  if (!in_weight.defined()) return forward(x, x, x, options);
  const auto [q, k, v] = functional::linear(x, in_weight, {.bias = in_bias}).chunk<3>(-1);
  return attended(split(q), split(k), split(v), options);
}

Tensor MultiheadAttention::split(const Tensor& projected) const {
  return functional::split_heads(batch_first || projected.rank() == 2 ? projected : projected.transpose(0, 1), heads);
}

Tensor MultiheadAttention::attended(const Tensor& q, const Tensor& k, const Tensor& v, const AttentionOptions& options) const {
  Tensor mask = options.attn_mask;
  if (mask.defined() && mask.dtype() == DType::boolean) mask = ~mask;  // the module's true is the functional's false
  if (mask.defined() && mask.rank() == 3) mask = mask.unflatten(0, {-1, heads});
  Tensor keys = options.key_padding_mask;
  if (keys.defined()) {
    if (keys.dtype() != DType::boolean)
      throw Error(ErrorCode::bad_input, "key_padding_mask is bool").found(keys.type_text()).module_path(path());
    keys = ~keys;
  }
  const Tensor y = functional::merge_heads(
      functional::scaled_dot_product_attention(q, k, v, {.attn_mask = mask, .key_mask = keys, .is_causal = options.is_causal}));
  const Tensor out = functional::linear(y, out_weight, {.bias = out_bias});
  return batch_first || out.rank() == 2 ? out : out.transpose(0, 1);
}

}  // namespace pycandle::front::nn
