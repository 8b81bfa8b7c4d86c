// A small recording written by hand: layer_norm → gelu → attention → sub, each in a module of its own, with goldens
// computed here in plain float loops, as another implementation would.
#pragma once

#include <cmath>
#include <map>
#include <string>
#include <vector>

#include "base/file.h"
#include "base/safetensors.h"
#include "temporary_folder.h"

namespace pycandle {

inline constexpr int kBatch = 2, kLength = 4, kWidth = 8;
inline constexpr float kEpsilon = 1e-3f, kScale = 0.7f;

using Floats = std::vector<float>;

inline Array float_array(const Sizes& shape, const Floats& values) {
  return store(DType::f32, shape, std::vector<double>(values.begin(), values.end()));
}

// Numbers without a pattern, of size about one.
inline Floats some_floats(int count, int start) {
  Floats values;
  for (int i = 0; i < count; ++i) values.push_back(1.3f * std::sin(static_cast<float>((i + start) * 37 % 101)));
  return values;
}

inline Floats layer_norm_golden(const Floats& x, const Floats& weight, const Floats& bias) {
  Floats y(x.size());
  for (size_t row = 0; row < x.size(); row += kWidth) {
    float mean = 0, variance = 0;
    for (size_t i = 0; i < kWidth; ++i) mean += x[row + i];
    mean /= kWidth;
    for (size_t i = 0; i < kWidth; ++i) variance += (x[row + i] - mean) * (x[row + i] - mean);
    const float scale = 1 / std::sqrt(variance / kWidth + kEpsilon);
    for (size_t i = 0; i < kWidth; ++i) y[row + i] = (x[row + i] - mean) * scale * weight[i] + bias[i];
  }
  return y;
}

inline Floats gelu_golden(Floats x) {
  for (float& v : x) v = v * 0.5f * (1 + std::erf(v * 0.70710678f));
  return x;
}

// Attention of x with itself.
inline Floats attention_golden(const Floats& x) {
  Floats y(x.size(), 0.0f);
  for (int b = 0; b < kBatch; ++b) {
    const float* rows = x.data() + b * kLength * kWidth;
    for (int q = 0; q < kLength; ++q) {
      float scores[kLength], sum = 0, largest = -1e30f;
      for (int k = 0; k < kLength; ++k) {
        scores[k] = 0;
        for (int i = 0; i < kWidth; ++i) scores[k] += rows[q * kWidth + i] * rows[k * kWidth + i];
        scores[k] *= kScale;
        largest = std::max(largest, scores[k]);
      }
      for (float& s : scores) sum += s = std::exp(s - largest);
      for (int k = 0; k < kLength; ++k) {
        for (int i = 0; i < kWidth; ++i) y[(b * kLength + q) * kWidth + i] += scores[k] / sum * rows[k * kWidth + i];
      }
    }
  }
  return y;
}

inline Floats sub_golden(Floats a, const Floats& b) {
  for (size_t i = 0; i < a.size(); ++i) a[i] -= b[i];
  return a;
}

struct SmallRecording {
  TemporaryFolder folder;
  std::map<std::string, Array> goldens;  // what the trace file holds

  std::filesystem::path manifest() const { return folder.path() / "small_manifest.json"; }
  std::filesystem::path trace() const { return folder.path() / "small_trace.safetensors"; }
  void write_trace() const { write_safetensors(trace(), goldens); }

  SmallRecording() {
    const Sizes shape{kBatch, kLength, kWidth};
    const int count = kBatch * kLength * kWidth;
    const Floats x = some_floats(count, 3), weight = some_floats(kWidth, 50), bias = some_floats(kWidth, 70);
    const Floats norm = layer_norm_golden(x, weight, bias), act = gelu_golden(norm), attention = attention_golden(act),
                 out = sub_golden(attention, x);
    goldens = {{"input:x", float_array(shape, x)},         {"norm@0/output", float_array(shape, norm)},
               {"act@0/output", float_array(shape, act)},  {"attn@0/output", float_array(shape, attention)},
               {"rest@0/output", float_array(shape, out)}, {"output:output", float_array(shape, out)}};
    write_trace();
    write_safetensors(folder.path() / "small_weights.safetensors",
                      {{"norm.weight", float_array({kWidth}, weight)}, {"norm.bias", float_array({kWidth}, bias)}});
    write_text(manifest(), kManifest);
  }

  static constexpr const char* kManifest = R"json({
  "format": "pycandle.manifest", "version": "1.0.0", "name": "small",
  "producer": {"pycandle": "0.1.0", "torch": "2.11.0", "python": "3.11.7"},
  "model": {"class": "small.Small", "seed": 0, "perturbed": true},
  "soundness": {"status": "verified", "checks": []}, "notes": [],
  "files": {"trace": "small_trace.safetensors", "weights": "small_weights.safetensors"},
  "symbols": [{"name": "s0", "min": 1, "max": null, "example": 2, "bound_by": {"input": "x", "axis": 0}}],
  "fixed_dims": [],
  "inputs": [{"name": "x", "value": 0, "dtype": "f32", "shape": ["s0", 4, 8], "used": true}],
  "outputs": [{"name": "output", "value": 6, "dtype": "f32", "shape": ["s0", 4, 8]}],
  "states": [],
  "parameters": [
    {"name": "norm.weight", "aliases": [], "kind": "parameter", "persistent": true, "value": 1, "dtype": "f32", "shape": [8], "file": "small_weights.safetensors", "key": "norm.weight"},
    {"name": "norm.bias", "aliases": [], "kind": "parameter", "persistent": true, "value": 2, "dtype": "f32", "shape": [8], "file": "small_weights.safetensors", "key": "norm.bias"}
  ],
  "nodes": [
    {"op": "aten.layer_norm.default", "args": [["input", {"v": 0}], ["normalized_shape", [8]], ["weight", {"v": 1}], ["bias", {"v": 2}], ["eps", {"float": 0.001}], ["cudnn_enable", true]],
     "results": [{"value": 3, "dtype": "f32", "shape": ["s0", 4, 8]}], "call": 1, "file": 0, "line": 11, "assigned_to": "h"},
    {"op": "aten.gelu.default", "args": [["self", {"v": 3}], ["approximate", "none"]],
     "results": [{"value": 4, "dtype": "f32", "shape": ["s0", 4, 8]}], "call": 2, "file": 0, "line": 12, "assigned_to": "h"},
    {"op": "aten.scaled_dot_product_attention.default", "args": [["query", {"v": 4}], ["key", {"v": 4}], ["value", {"v": 4}], ["attn_mask", null], ["dropout_p", {"float": 0.0}], ["is_causal", false], ["scale", {"float": 0.7}], ["enable_gqa", false]],
     "results": [{"value": 5, "dtype": "f32", "shape": ["s0", 4, 8]}], "call": 3, "file": 0, "line": 13, "assigned_to": "a"},
    {"op": "aten.sub.Tensor", "args": [["self", {"v": 5}], ["other", {"v": 0}], ["alpha", 1]],
     "results": [{"value": 6, "dtype": "f32", "shape": ["s0", 4, 8]}], "call": 4, "file": 0, "line": 14, "assigned_to": null}
  ],
  "graphs": [],
  "module_calls": [
    {"path": "", "call": 0, "class": "small.Small", "parent": null, "class_file": 0, "class_line": 3, "forward_line": 9, "attributes": {}, "config": {}, "args": [["x", {"v": 0}]], "output": {"v": 6}},
    {"path": "norm", "call": 0, "class": "torch.nn.LayerNorm", "parent": 0, "class_file": null, "class_line": null, "forward_line": null, "attributes": {}, "config": {}, "args": [["input", {"v": 0}]], "output": {"v": 3}},
    {"path": "act", "call": 0, "class": "torch.nn.GELU", "parent": 0, "class_file": null, "class_line": null, "forward_line": null, "attributes": {}, "config": {}, "args": [["input", {"v": 3}]], "output": {"v": 4}},
    {"path": "attn", "call": 0, "class": "small.Attention", "parent": 0, "class_file": 0, "class_line": 20, "forward_line": 21, "attributes": {}, "config": {}, "args": [["x", {"v": 4}]], "output": {"v": 5}},
    {"path": "rest", "call": 0, "class": "small.Rest", "parent": 0, "class_file": 0, "class_line": 30, "forward_line": 31, "attributes": {}, "config": {}, "args": [["a", {"v": 5}], ["x", {"v": 0}]], "output": {"v": 6}}
  ],
  "taps": [
    {"id": "norm@0/output", "value": 3, "key": "norm@0/output", "shape": [2, 4, 8]},
    {"id": "act@0/output", "value": 4, "key": "act@0/output", "shape": [2, 4, 8]},
    {"id": "attn@0/output", "value": 5, "key": "attn@0/output", "shape": [2, 4, 8]},
    {"id": "rest@0/output", "value": 6, "key": "rest@0/output", "shape": [2, 4, 8]},
    {"id": "@0/output", "value": 6, "key": "rest@0/output", "shape": [2, 4, 8]}
  ],
  "files_table": [{"path": "small.py", "lines": {"11": "h = self.norm(x)", "12": "h = self.act(h)", "13": "a = self.attn(h)", "14": "return a - x"}}]
}
)json";
};

}  // namespace pycandle
