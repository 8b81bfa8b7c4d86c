// A recorded model or a bundle, ready to run, with everything that it can be asked for.   docs/bundles.md
//
//   auto model = pycandle::load_model("model.pycandle", {.threads = 2});
//   if (model.can("causal_lm")) {
//     auto cache = model.new_cache(1, 512);
//     auto logits = model.step(cache, {{"input_ids", ids}}, {}, /*last=*/true);
//   }
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "pycandle/array.h"
#include "pycandle/tokenizer.h"
#include "pycandle/weight_format.h"

namespace pycandle {

class Model;    // src/runtime/model.h
class Decoder;  // src/runtime/decoder.h

struct ModelOptions {
  std::string backend = {};                  // empty: PYCANDLE_BACKEND, or cpu; "reference" is the definition of right
  int threads = 0;                           // of the cpu backend; 0: PYCANDLE_THREADS, or all cores
  WeightFormat weights = WeightFormat::f32;  // of linear layers and embeddings; a bundle may keep them narrower
  bool small_memory = false;                 // read weights where they lie, in about half of the memory, and slower
  bool check_weights = false;                // read all of them, and refuse damaged ones
  std::optional<size_t> parameter_budget = {};  // most bytes of weights in memory; the others are read when they are needed
  std::string checkpoint = {};  // weights from this file or folder, not from the recording
  std::string cache = "f32";  // what rows of a cache are kept in: f32, bf16, f16
  std::string dump_dir = {};  // PTIR after each pass
  bool dump_final = false;    // only what each pipeline ends with
  std::map<std::string, std::string> overrides = {};  // functional → implementation: {"linear", "naive"}
};

// What the model has seen of each sequence of a batch. A value: copies go on by themselves.
class PYCANDLE_API ModelCache {
 public:
  ModelCache(const ModelCache&);
  ModelCache& operator=(const ModelCache&);
  ModelCache(ModelCache&&) noexcept;
  ModelCache& operator=(ModelCache&&) noexcept;
  ~ModelCache();

  int64_t batch() const;
  int64_t capacity() const;
  std::vector<int64_t> lengths() const;  // tokens of each
  ModelCache fork(const std::vector<int64_t>& sequences) const;  // copies of these: samples from one prompt, beams
  void truncate(int64_t sequence, int64_t length);  // forgets the tokens behind the first `length`
  void save(const std::string& path) const;  // a safetensors file, for LoadedModel::load_cache

 private:
  friend class LoadedModel;
  struct Kept;
  explicit ModelCache(std::unique_ptr<Kept>);
  std::unique_ptr<Kept> kept_;
};

struct TensorInfo {
  std::string name;
  DType dtype = DType::f32;
  std::vector<std::string> shape;  // numbers, or names and expressions: "s0", "2*s1 + 1"
};

// A handle: copies share weights, plans and states. Safe to use from several threads at once, each with caches of its own; calls
// of forward() of a model with states take turns.
class PYCANDLE_API LoadedModel {
 public:
  using Tensors = std::map<std::string, Array>;

  const std::string& name() const;
  const std::string& kind() const;  // the recorded class's name: a text for people
  const std::string& backend() const;
  std::vector<TensorInfo> inputs() const;
  std::vector<TensorInfo> outputs() const;
  // "forward", "trace", "causal_lm", "embedding": of a bundle those that were proven when it was made; of a recording those that
  // need no proof.
  std::vector<std::string> capabilities() const;
  bool can(const std::string& capability) const;

  Tensors forward(const Tensors& inputs) const;
  // Every value that crosses a module's boundary, by its identity, as soon as it exists.
  Tensors trace(const Tensors& inputs, const std::function<void(const std::string& tap, const Array&)>& on_tap) const;
  LoadedModel session() const;  // with states of its own, as recorded

  // Token by token. The first of these derives or reads the decode step: an Error with the layer and the reason when there is
  // none. `inputs`: what the model reads once, as an encoder.
  ModelCache new_cache(int64_t batch, int64_t capacity, const Tensors& inputs = {}) const;
  ModelCache load_cache(const std::string& path) const;
  // Runs new tokens [batch, new] behind those in the cache. counts[b] of them are real (none given: all), the rest of a row is
  // padding. last: outputs of each sequence's last token alone.
  Tensors step(ModelCache&, const Tensors& tokens, const std::vector<int64_t>& counts = {}, bool last = false) const;

  bool has_tokenizer() const;
  Tokenizer tokenizer() const;  // of the bundle
  ChatTemplate chat_template() const;  // likewise
  std::string generation_config() const;  // its text, likewise; empty: there is none
  // [texts, width]. pooling: "mean" or "cls", of a model that gives a vector for each token.
  Array embed(const std::vector<std::string>& texts, const std::string& pooling = "mean", bool normalize = false) const;

  // For the library's own tools.
  const Model& model() const;
  const Decoder& decoder() const;

 private:
  friend PYCANDLE_API LoadedModel load_model(const std::string&, const ModelOptions&);
  struct State;
  std::shared_ptr<const State> state_;
};

// path: a manifest, the folder of one, or a bundle. The files may be replaced afterwards (by renaming), not changed in place.
PYCANDLE_API LoadedModel load_model(const std::string& path, const ModelOptions& = {});

}  // namespace pycandle
