// Parameters by path. Nothing is read until a program runs.
//
//   Weights w = Weights::open("gpt2_manifest.json");     // or a checkpoint: model.safetensors, model.bin, a folder
//   Tensor weight = (w / "h" / 3 / "ln_1").get("weight");
//
// Threads: safe to share; copies are handles on the same files.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "pycandle/state.h"
#include "pycandle/tensor.h"

namespace pycandle::front {
class ParameterStore;  // src/capture/store.h

class PYCANDLE_API Weights {
 public:
  Weights() = default;  // no parameters, no path
  // A manifest, or a checkpoint of any format of docs/weights.md: a file, an index.json, or the folder of either.
  static Weights open(const std::string& path);
  static Weights from(std::map<std::string, Array> arrays);

  Weights operator/(std::string_view name) const;  // "h" or "transformer.h"
  Weights operator/(int64_t index) const;
  Weights operator/(int index) const { return *this / int64_t{index}; }
  Weights operator/(size_t index) const { return *this / static_cast<int64_t>(index); }

  const std::string& path() const { return path_; }
  bool has(std::string_view name) const;
  Tensor get(std::string_view name) const;
  Tensor get(std::string_view name, const Dims& shape) const;  // an Error names both shapes when it has another
  State state(std::string_view name) const;  // a buffer that forward() changes
  // The same view, in which `name` is the parameter `canonical`: (w / "lm_head").tied("weight", "wte.weight").
  Weights tied(std::string_view name, std::string_view canonical) const;

 private:
  friend struct WeightsAccess;  // src/capture/compile.h
  std::string full(std::string_view name) const;
  std::shared_ptr<const ParameterStore> store_;
  std::shared_ptr<const std::map<std::string, std::string>> ties_;
  std::string path_;
};

// Arrays by name, from and to a .safetensors file.
PYCANDLE_API std::map<std::string, Array> load_arrays(const std::string& path);
PYCANDLE_API void save_arrays(const std::string& path, const std::map<std::string, Array>& arrays);

}  // namespace pycandle::front
