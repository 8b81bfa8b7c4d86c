#include "ops/core/catalogue.h"

#include <utility>

#include "ops/core/overloads.h"

namespace pycandle {

// A family is named after its file; the list below is the only place that knows them all.
// Primitives.
std::vector<OpDef> constant_ops();
std::vector<OpDef> literal_ops();
std::vector<OpDef> tree_ops();
std::vector<OpDef> elementwise_ops();
std::vector<OpDef> logical_ops();
std::vector<OpDef> casting_ops();
std::vector<OpDef> view_ops();
std::vector<OpDef> slicing_ops();
std::vector<OpDef> joining_ops();
std::vector<OpDef> flip_ops();
std::vector<OpDef> padding_ops();
std::vector<OpDef> diagonal_ops();
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
std::vector<OpDef> dynamic_slice_ops();
// Functionals, and torch's spellings of primitives.
std::vector<OpDef> arithmetic_ops();
std::vector<OpDef> unary_ops();
std::vector<OpDef> factory_ops();
std::vector<OpDef> random_aten_ops();
std::vector<OpDef> indexing_ops();
std::vector<OpDef> reduction_aten_ops();
std::vector<OpDef> statistics_ops();
std::vector<OpDef> order_statistics_ops();
std::vector<OpDef> set_ops();
std::vector<OpDef> flat_memory_ops();
std::vector<OpDef> torch_linalg_ops();
std::vector<OpDef> eigenvalue_ops();
std::vector<OpDef> fourier_ops();
std::vector<OpDef> stft_ops();
// Neural-network functionals.
std::vector<OpDef> linear_ops();
std::vector<OpDef> rotary_ops();
std::vector<OpDef> softmax_ops();
std::vector<OpDef> layer_norm_ops();
std::vector<OpDef> batch_norm_ops();
std::vector<OpDef> activation_ops();
std::vector<OpDef> attention_ops();
std::vector<OpDef> cache_ops();
std::vector<OpDef> embedding_ops();
std::vector<OpDef> dropout_ops();
std::vector<OpDef> einsum_ops();
std::vector<OpDef> convolution_ops();
std::vector<OpDef> pooling_ops();
std::vector<OpDef> sparse_pooling_ops();
std::vector<OpDef> recurrent_ops();
std::vector<OpDef> quantization_ops();
std::vector<OpDef> interpolate_ops();
std::vector<OpDef> loss_ops();
std::vector<OpDef> margin_loss_ops();
std::vector<OpDef> grid_ops();
std::vector<OpDef> distance_ops();
std::vector<OpDef> pixel_shuffle_ops();
std::vector<OpDef> expert_ops();
std::vector<OpDef> box_ops();
std::vector<OpDef> detection_ops();
std::vector<OpDef> filter_ops();
// What ONNX files call them.
std::vector<OpDef> elementwise_onnx_ops();
std::vector<OpDef> shape_onnx_ops();
std::vector<OpDef> reduction_onnx_ops();
std::vector<OpDef> linalg_onnx_ops();
std::vector<OpDef> nn_onnx_ops();
std::vector<OpDef> windows_onnx_ops();
std::vector<OpDef> recurrent_onnx_ops();
std::vector<OpDef> attention_microsoft_ops();
std::vector<OpDef> attention_onnx_ops();
std::vector<OpDef> loss_onnx_ops();
std::vector<OpDef> quantization_onnx_ops();
std::vector<OpDef> indexing_onnx_ops();
std::vector<OpDef> vision_onnx_ops();
std::vector<OpDef> signal_onnx_ops();
std::vector<OpDef> ml_onnx_ops();

namespace {

const std::pair<const char*, Family> kFamilies[] = {
    // Primitives: each has an evaluator.
    {"creation/constants", constant_ops},
    {"creation/literals", literal_ops},
    {"indexing/trees", tree_ops},
    {"elementwise/elementwise", elementwise_ops},
    {"elementwise/logical", logical_ops},
    {"elementwise/casting", casting_ops},
    {"shape/views", view_ops},
    {"shape/slicing", slicing_ops},
    {"shape/joining", joining_ops},
    {"shape/flips", flip_ops},
    {"shape/padding", padding_ops},
    {"shape/diagonals", diagonal_ops},
    {"reduction/reduction", reduction_ops},
    {"linalg/products", product_ops},
    {"indexing/gather_scatter", gather_scatter_ops},
    {"nn/window", window_ops},
    {"reduction/cumulative", cumulative_ops},
    {"reduction/sorting", sorting_ops},
    {"control_flow", control_flow_ops},
    {"signal/fft", fft_ops},
    {"creation/random", random_ops},
    {"elementwise/special", special_ops},
    {"linalg/factorization", factorization_ops},
    {"indexing/dynamic_slices", dynamic_slice_ops},
    // Functionals: each has a decomposition; and torch's spellings of primitives (mapping() in ir/op_def.h).
    {"elementwise/arithmetic", arithmetic_ops},
    {"elementwise/unary", unary_ops},
    {"creation/factory", factory_ops},
    {"creation/random_aten", random_aten_ops},
    {"indexing/indexing", indexing_ops},
    {"reduction/reduction_aten", reduction_aten_ops},
    {"reduction/statistics", statistics_ops},
    {"reduction/order_statistics", order_statistics_ops},
    {"indexing/sets", set_ops},
    {"indexing/flat_memory", flat_memory_ops},
    {"linalg/torch_linalg", torch_linalg_ops},
    {"linalg/eigenvalues", eigenvalue_ops},
    {"signal/fourier", fourier_ops},
    {"signal/stft", stft_ops},
    // Neural-network functionals.
    {"linalg/linear", linear_ops},
    {"nn/rotary", rotary_ops},
    {"nn/softmax", softmax_ops},
    {"nn/layer_norm", layer_norm_ops},
    {"nn/batch_norm", batch_norm_ops},
    {"nn/activation", activation_ops},
    {"nn/attention", attention_ops},
    {"nn/cache", cache_ops},
    {"nn/embedding", embedding_ops},
    {"nn/dropout", dropout_ops},
    {"linalg/einsum", einsum_ops},
    {"nn/convolution", convolution_ops},
    {"nn/pooling", pooling_ops},
    {"nn/sparse_pooling", sparse_pooling_ops},
    {"nn/recurrent", recurrent_ops},
    {"nn/quantization", quantization_ops},
    {"vision/interpolate", interpolate_ops},
    {"nn/loss", loss_ops},
    {"nn/margin_loss", margin_loss_ops},
    {"vision/grid", grid_ops},
    {"linalg/distance", distance_ops},
    {"nn/pixel_shuffle", pixel_shuffle_ops},
    {"nn/experts", expert_ops},
    {"vision/boxes", box_ops},
    {"vision/detection", detection_ops},
    {"signal/filter", filter_ops},
    // ONNX's spellings.
    {"elementwise/elementwise_onnx", elementwise_onnx_ops},
    {"shape/shape_onnx", shape_onnx_ops},
    {"reduction/reduction_onnx", reduction_onnx_ops},
    {"linalg/linalg_onnx", linalg_onnx_ops},
    {"nn/nn_onnx", nn_onnx_ops},
    {"nn/windows_onnx", windows_onnx_ops},
    {"nn/recurrent_onnx", recurrent_onnx_ops},
    {"nn/attention_microsoft", attention_microsoft_ops},
    {"nn/attention_onnx", attention_onnx_ops},
    {"nn/loss_onnx", loss_onnx_ops},
    {"nn/quantization_onnx", quantization_onnx_ops},
    {"indexing/indexing_onnx", indexing_onnx_ops},
    {"vision/vision_onnx", vision_onnx_ops},
    {"signal/signal_onnx", signal_onnx_ops},
    {"indexing/ml_onnx", ml_onnx_ops},
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

std::map<std::string, std::string> overload_files() {
  std::map<std::string, std::string> files;
  for (const auto& [file, family] : kFamilies) {
    for (const OpDef& op : family()) {
      for (const AtenMapping& mapping : op.aten)  // of ONNX: without the names of inputs
        files.emplace(mapping.overload.substr(0, mapping.overload.find('(')), std::string("src/ops/") + file + ".cpp");
    }
  }
  return files;
}

}  // namespace pycandle
