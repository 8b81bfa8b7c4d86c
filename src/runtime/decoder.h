// A decode step that is ready to run, and the caches that it runs on.   docs/decoding.md
//
//   Decoder decoder(derive_decode_step(model.program(), catalogue()), model);
//   Cache cache = decoder.new_cache(/*batch=*/1, /*capacity=*/512);
//   auto out = decoder.step(cache, {{"input_ids", prompt}});          // logits of the prompt
//   out = decoder.step(cache, {{"input_ids", next}});                 // and of one more token
#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "backends/backend.h"
#include "passes/decode_step.h"

namespace pycandle {

// What a step has seen of each sequence of a batch. A value: copies are caches of their own.
class Cache {
 public:
  int64_t batch() const { return static_cast<int64_t>(lengths_.size()); }
  int64_t capacity() const { return capacity_; }
  const std::vector<int64_t>& lengths() const { return lengths_; }  // tokens of each sequence
  size_t bytes() const;

  // Sequence i of the new cache is a copy of sequences[i] of this one: samples from one prompt, beams, one that is dropped.
  Cache fork(const std::vector<int64_t>& sequences) const;
  void truncate(int64_t sequence, int64_t length);  // forgets the tokens behind the first `length`
  void save(const std::filesystem::path&) const;
  // For proofs: large numbers in all unused rows. A step that reads one gives another result.
  void spoil_unused();

 private:
  friend class Decoder;
  std::shared_ptr<const DecodeStep> step_;
  int64_t capacity_ = 0;
  std::vector<int64_t> lengths_;
  std::vector<Array> states_;                       // in the order of DecodeStep::states
};

class Decoder {
 public:
  using Tensors = std::map<std::string, Array>;
  Decoder(DecodeStep, const OpTable&, std::shared_ptr<const ParameterSource>, const std::string& backend = "reference",
          const PipelineOptions& = {});

  const DecodeStep& decode_step() const { return *step_; }
  // Room for so many tokens of each sequence. inputs: what the model reads beside tokens (an encoder's).
  Cache new_cache(int64_t batch, int64_t capacity, const Tensors& inputs = {}) const;
  // The same tokens with room for another number of them. Not of a model that reads more than tokens.
  Cache resized(const Cache&, int64_t capacity) const;
  Cache load_cache(const std::filesystem::path&) const;  // of the same model: other names, dtypes or shapes are an Error
  // Runs new tokens [batch, new] behind those in the cache. counts[b] of them are real (none given: all); the rest of a row
  // is padding. A mask of ones need not be given. When the cache has no room, that is an Error and nothing changes.
  Tensors step(Cache&, const Tensors& tokens, const std::vector<int64_t>& counts = {},
               const std::function<void(size_t tap, const Array&)>& on_tap = {}) const;

 private:
  std::shared_ptr<const DecodeStep> step_;
  std::shared_ptr<const Executable> setup_run_, step_run_;
};

// Rows [from_row, from_row + count) of sequence from_batch become rows to_row … of sequence to_batch. Both arrays have the batch
// as axis 0 and the rows along `axis`.
void copy_rows(const Array& from, int64_t from_batch, int64_t from_row, Array& to, int64_t to_batch, int64_t to_row,
               int64_t count, int64_t axis);

}  // namespace pycandle
