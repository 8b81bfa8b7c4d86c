#include "ops/catalogue.h"

#include <utility>

namespace pycandle {

// A family is named after its file; the list below is the only place that knows them all.
// Primitives.
std::vector<OpDef> constant_ops();
std::vector<OpDef> elementwise_ops();
std::vector<OpDef> logical_ops();
std::vector<OpDef> movement_ops();
std::vector<OpDef> reduction_ops();
std::vector<OpDef> product_ops();
std::vector<OpDef> gather_scatter_ops();
std::vector<OpDef> window_ops();
std::vector<OpDef> cumulative_ops();
std::vector<OpDef> sorting_ops();
std::vector<OpDef> control_flow_ops();
std::vector<OpDef> fft_ops();
std::vector<OpDef> random_ops();
std::vector<OpDef> special_ops();
std::vector<OpDef> factorization_ops();
std::vector<OpDef> dynamic_ops();
// Functionals, and torch's spellings of primitives.
std::vector<OpDef> arithmetic_ops();
std::vector<OpDef> unary_ops();
std::vector<OpDef> shape_ops();
std::vector<OpDef> shape_joining_ops();
std::vector<OpDef> padding_ops();
std::vector<OpDef> factory_ops();
std::vector<OpDef> random_aten_ops();
std::vector<OpDef> indexing_ops();
std::vector<OpDef> reduction_aten_ops();
std::vector<OpDef> statistics_ops();
std::vector<OpDef> order_statistics_ops();
std::vector<OpDef> set_ops();
std::vector<OpDef> arranging_ops();
std::vector<OpDef> linalg_ops();
std::vector<OpDef> spectral_ops();
std::vector<OpDef> fourier_ops();
std::vector<OpDef> stft_ops();
// Neural-network functionals.
std::vector<OpDef> linear_ops();
std::vector<OpDef> rotary_ops();
std::vector<OpDef> softmax_ops();
std::vector<OpDef> normalization_ops();
std::vector<OpDef> activation_ops();
std::vector<OpDef> attention_ops();
std::vector<OpDef> embedding_ops();
std::vector<OpDef> dropout_ops();
std::vector<OpDef> einsum_ops();
std::vector<OpDef> convolution_nn_ops();
std::vector<OpDef> pooling_ops();
std::vector<OpDef> sparse_pooling_ops();
std::vector<OpDef> recurrent_ops();
std::vector<OpDef> quantization_ops();
std::vector<OpDef> interpolate_ops();
std::vector<OpDef> loss_ops();
std::vector<OpDef> margin_loss_ops();
std::vector<OpDef> grid_ops();
std::vector<OpDef> distance_ops();
std::vector<OpDef> rearrange_ops();
std::vector<OpDef> expert_ops();
std::vector<OpDef> region_ops();
std::vector<OpDef> detection_ops();
std::vector<OpDef> filter_ops();

namespace {

const std::pair<const char*, Family> kFamilies[] = {
    // Primitives: each has an evaluator.
    {"constants", constant_ops},
    {"elementwise", elementwise_ops},
    {"logical", logical_ops},
    {"movement", movement_ops},
    {"reduction", reduction_ops},
    {"products", product_ops},
    {"gather_scatter", gather_scatter_ops},
    {"window", window_ops},
    {"cumulative", cumulative_ops},
    {"sorting", sorting_ops},
    {"control_flow", control_flow_ops},
    {"fft", fft_ops},
    {"random", random_ops},
    {"special", special_ops},
    {"factorization", factorization_ops},
    {"dynamic", dynamic_ops},
    // Functionals: each has a decomposition; and torch's spellings of primitives (mapping() in ir/op_def.h).
    {"arithmetic", arithmetic_ops},
    {"unary", unary_ops},
    {"shape", shape_ops},
    {"shape_joining", shape_joining_ops},
    {"padding", padding_ops},
    {"factory", factory_ops},
    {"random_aten", random_aten_ops},
    {"indexing", indexing_ops},
    {"reduction_aten", reduction_aten_ops},
    {"statistics", statistics_ops},
    {"order_statistics", order_statistics_ops},
    {"sets", set_ops},
    {"arranging", arranging_ops},
    {"linalg", linalg_ops},
    {"spectral", spectral_ops},
    {"fourier", fourier_ops},
    {"stft", stft_ops},
    // Neural-network functionals.
    {"linear", linear_ops},
    {"rotary", rotary_ops},
    {"softmax", softmax_ops},
    {"normalization", normalization_ops},
    {"activation", activation_ops},
    {"attention", attention_ops},
    {"embedding", embedding_ops},
    {"dropout", dropout_ops},
    {"einsum", einsum_ops},
    {"convolution_nn", convolution_nn_ops},
    {"pooling", pooling_ops},
    {"sparse_pooling", sparse_pooling_ops},
    {"recurrent", recurrent_ops},
    {"quantization", quantization_ops},
    {"interpolate", interpolate_ops},
    {"loss", loss_ops},
    {"margin_loss", margin_loss_ops},
    {"grid", grid_ops},
    {"distance", distance_ops},
    {"rearrange", rearrange_ops},
    {"experts", expert_ops},
    {"regions", region_ops},
    {"detection", detection_ops},
    {"filter", filter_ops},
};

}  // namespace

const OpTable& catalogue() {
  static const OpTable table = [] {
    std::vector<OpDef> all;
    for (const auto& [file, family] : kFamilies) {
      for (OpDef& op : family()) {
        op.family = file;
        all.push_back(std::move(op));
      }
    }
    OpTable made;
    for (OpDef& op : merge_mappings(std::move(all))) made.add(std::move(op));
    return made;
  }();
  return table;
}

}  // namespace pycandle
