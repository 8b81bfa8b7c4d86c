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
#include <optional>
#include <string>
#include <vector>

#include "backends/in_place.h"
#include "passes/decode_step.h"
#include "runtime/named_inputs.h"

namespace pycandle {

// What a step has seen of each sequence of a batch. A value: copies are caches of their own, which share memory until one of
// them is written.
class Cache {
 public:
  int64_t batch() const { return static_cast<int64_t>(lengths_.size()); }
  int64_t capacity() const { return capacity_; }
  const std::vector<int64_t>& lengths() const { return lengths_; }  // tokens of each sequence
  size_t bytes() const;

  // Sequence i of the new cache is a copy of sequences[i] of this one: samples from one prompt, beams, one that is dropped.
  Cache fork(const std::vector<int64_t>& sequences) const;
  // Forgets the tokens behind the first `length`. Where layers look back through a window, older rows go from time to time:
  // the last 64 tokens (with a smaller window: so many) can always be forgotten, and all of them.
  void truncate(int64_t sequence, int64_t length);
  bool can_truncate(int64_t sequence, int64_t length) const;
  void save(const std::filesystem::path&) const;
  // For proofs: large numbers in all unused rows. A step that reads one gives another result.
  void spoil_unused();

 private:
  friend class Decoder;
  friend class Stepper;
  void own_rows();  // rows are written where they lie: first their memory must be this cache's alone
  void roll(int64_t added);  // states with windows: drops rows that nothing reads any more until so many new ones fit
  int64_t rows_for(int64_t added) const;
  int64_t taken_back() const;
  int64_t most_kept() const;
  int64_t first_kept(int64_t length) const;  // the first position that tokens from `length` on may read in a window
  std::shared_ptr<const DecodeStep> step_;
  int64_t capacity_ = 0;
  std::vector<int64_t> lengths_, dropped_;
  int64_t window_rows_ = 0;
  std::vector<Array> states_;                       // in the order of DecodeStep::states
  std::shared_ptr<const int> owner_ = std::make_shared<const int>(
      0);  // copies of a cache share it, and with it the memory of rows
};

class Stepper;

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
  // The same, with the outputs of each sequence's last new token alone: one place along the axis of the tokens. What only
  // other tokens need is not computed, such as the logits of a prompt.
  Tensors step_last(Cache&, const Tensors& tokens, const std::vector<int64_t>& counts = {}) const;
  ExecutableUse use() const { return step_run_->use(); }

 private:
  friend class Stepper;
  std::vector<Array> inputs(const Cache&, const Tensors& tokens, int64_t added) const;
  void check_room(const Cache&, int64_t added, const std::vector<int64_t>& counts) const;
  RunRequest request(Cache&, std::vector<Array> inputs) const;
  Tensors run(const Executable&, Cache&, const Tensors& tokens, const std::vector<int64_t>& counts,
              const std::function<void(size_t tap, const Array&)>& on_tap) const;

  std::shared_ptr<const DecodeStep> step_;
  std::vector<WantedInput> wanted_;  // by the step
  std::shared_ptr<const Executable> setup_run_, step_run_, last_run_;
};

// Steps of so many tokens each over one cache, for loops that generate: nothing is looked up per step, and on the cpu backend
// nothing is allocated when all steps of the plan are kernels.
//
//   Stepper stepper(decoder, std::move(cache), 1);
//   for (…) {
//     stepper.tokens()[0] = next;                       // [batch, new]
//     const Array& logits = stepper.step()[0];          // in the order of the step's outputs, valid until the next step
//   }
class Stepper {
 public:
  Stepper(const Decoder&, Cache, int64_t added);
  int64_t* tokens() { return inputs_[tokens_].mutable_as<int64_t>(); }
  const std::vector<Array>& step();
  const Cache& cache() const { return cache_; }
  Cache taken() &&;  // back from a stepper that is not needed any more

 private:
  Decoder decoder_;
  Cache cache_;
  int64_t added_;
  std::vector<Array> inputs_;  // in the order of the step's inputs
  size_t tokens_ = 0, lengths_ = 0;
  std::optional<size_t> dropped_;
  std::unique_ptr<RepeatedRun> run_;
};

// Rows [from_row, from_row + count) of sequence from_batch become rows to_row … of sequence to_batch. Both arrays have the batch
// as axis 0 and the rows along `axis`.
void copy_rows(const Array& from, int64_t from_batch, int64_t from_row, Array& to, int64_t to_batch, int64_t to_row,
               int64_t count, int64_t axis);

}  // namespace pycandle
