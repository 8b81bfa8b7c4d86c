// Decoding token by token: a model whose forward() takes new tokens and a cache. `pycandle codegen --stateful` writes such
// models; docs/decoding.md shows one.
//
//   struct AttentionCache {
//     Tensor lengths;                                      // tokens of each sequence that are in the cache, i64 [batch]
//     CacheRows key{lengths, "key"}, value{lengths, "value"};
//   };
//   Tensor forward(const Tensor& x, AttentionCache& cache) const {
//     …
//     key = cache.key.append(key);                         // the new rows behind the others
//     value = cache.value.append(value);
//     return o_proj(merge_heads(functional::cached_attention(query, key, value, cache.lengths)));
//   }
//
//   CompiledDecoder decoder = compile_decoder<Cache>(model, decode_signature_of("gpt2_manifest.json"));
//   Sequences sequences = decoder.start(/*batch=*/1, /*capacity=*/512);
//   auto outputs = decoder.step(sequences, {{"input_ids", prompt}});
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "pycandle/model.h"
#include "pycandle/project.h"
#include "pycandle/tensor.h"

namespace pycandle {
struct DecodeStep;  // src/passes/decode_step.h
}

namespace pycandle::front {

// A row for each token that a layer has seen. What they are, and room for how many, is known where the model runs: the first
// rows that are appended say their dtype and shape. The name is that of the layer, and this one.
class PYCANDLE_API CacheRows {
 public:
  CacheRows(Tensor lengths, std::string name) : lengths_(std::move(lengths)), name_(std::move(name)) {}
  // Rows [batch, …, new, …] are put behind those that are there. All of them: [batch, …, capacity, …], row j is position j.
  Tensor append(const Tensor& rows, int64_t axis = -2, Here = Here::current()) const;
  // The row before the new ones, [batch, …, 1, …]; `initial` where there is none.
  Tensor last(const Tensor& initial, int64_t axis = -2, Here = Here::current()) const;

 private:
  Tensor lengths_;
  std::string name_;
};

// What each layer of a list keeps.
template <class T> class CacheList {
 public:
  explicit CacheList(Tensor lengths) : lengths_(std::move(lengths)) {}
  T& operator[](int64_t i) {
    while (static_cast<int64_t>(parts_.size()) <= i) parts_.push_back(T{lengths_});
    return parts_[static_cast<size_t>(i)];
  }

 private:
  Tensor lengths_;
  std::deque<T> parts_;  // a part stays where it is
};

// How many positions a cache has room for.
PYCANDLE_API Dim cache_capacity();

// What a step takes beside its cache: the inputs with a place for each token, and last `lengths`.
struct DecodeSignature {
  Signature inputs;
  std::optional<int64_t> longest = {};  // more positions than this the model does not have
};
PYCANDLE_API DecodeSignature decode_signature_of(const std::string& manifest);

// The sequences of a batch, and what the model keeps of them. A value: copies go on by themselves.
class PYCANDLE_API Sequences {
 public:
  Sequences(const Sequences&);
  Sequences& operator=(const Sequences&);
  Sequences(Sequences&&) noexcept;
  Sequences& operator=(Sequences&&) noexcept;
  ~Sequences();

  int64_t batch() const;
  int64_t capacity() const;
  std::vector<int64_t> lengths() const;  // tokens of each
  Sequences fork(const std::vector<int64_t>& sequences) const;  // copies of these: samples from one prompt, beams
  void truncate(int64_t sequence, int64_t length);              // forgets the tokens behind the first `length`
  void save(const std::string& path) const;                     // a safetensors file, for CompiledDecoder::load

 private:
  friend class CompiledDecoder;
  struct Kept;
  explicit Sequences(std::unique_ptr<Kept>);
  std::unique_ptr<Kept> kept_;
};

// A handle. Safe to use from several threads, each with sequences of its own.
class PYCANDLE_API CompiledDecoder {
 public:
  using Tensors = Compiled::Tensors;
  Sequences start(int64_t batch, int64_t capacity) const;
  Sequences load(const std::string& path) const;
  // Runs new tokens [batch, new] behind those that were. counts[b] of them are real (none given: all), the rest of a row is
  // padding. Where there is no room, that is an Error and nothing changes.
  Tensors step(Sequences&, const Tensors& tokens, const std::vector<int64_t>& counts = {}) const;

  const DecodeStep& decode_step() const;                      // for the library's own tools
  std::shared_ptr<const ParameterSource> parameters() const;  // its weights, for the same

 private:
  friend CompiledDecoder compile_callable_decoder(const Callable&, const DecodeSignature&, const CompileOptions&);
  struct State;
  std::shared_ptr<const State> state_;
};
PYCANDLE_API CompiledDecoder compile_callable_decoder(const Callable&, const DecodeSignature&, const CompileOptions&);

template <class Model, class Cache> class CallableStep final : public Callable {
 public:
  explicit CallableStep(const Model& model) : model_(&model) {}
  std::vector<std::pair<std::string, Tensor>> call(const std::vector<Tensor>& inputs) const override {
    const Model& model = *model_;
    Cache cache{inputs.back()};
    const auto with_cache = [&](const auto&... tokens) -> decltype(model(tokens..., cache)) { return model(tokens..., cache); };
    std::vector<Tensor> tokens(inputs.begin(), inputs.end() - 1);
    return CallableModel<const decltype(with_cache)&>(with_cache).call(tokens);
  }

 private:
  const Model* model_;
};

// The model is called once, here. Its weights are read when it runs.
template <class Cache, class Model>
CompiledDecoder compile_decoder(const Model& model, const DecodeSignature& signature, const CompileOptions& options = {}) {
  return compile_callable_decoder(CallableStep<Model, Cache>(model), signature, options);
}

// The decode proof of `pycandle verify --decode`, of the compiled code: a prompt, then steps of 1, 3 and 16 tokens, with two
// sequences of different lengths, against the whole forward pass of the recorded program.
struct DecodeCheck {
  bool passed = false;
  std::string why;  // the first wrong token, its layer and its op
};
PYCANDLE_API DecodeCheck check_decoding(const CompiledDecoder&, const std::string& manifest);
// Is the captured step the one that is derived from the recorded program?
PYCANDLE_API RoundTrip round_trip(const CompiledDecoder&, const std::string& manifest);

}  // namespace pycandle::front
