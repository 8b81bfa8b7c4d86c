// Text from a causal or encoder-decoder language model. docs/generation.md explains it.
//
//   auto model = pycandle::LanguageModel::load("pycandle_trace", {.tokenizer = "tokenizer.json"});
//   std::cout << model.generate("The capital of France is", {.max_tokens = 20}).text;
#pragma once

#include <atomic>
#include <cstdint>
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

class LanguageModel;

// How the next token is chosen, in the order in which it is applied: the order of transformers.
struct PYCANDLE_API Choice {
  std::map<TokenId, double> logit_bias;  // added to the logits
  double repetition_penalty = 1;  // of tokens in the prompt or the text: a positive logit is divided by it, else multiplied
  double frequency_penalty = 0;  // subtracted for each time that a token is in the generated text
  double presence_penalty = 0;  // subtracted once if it is there
  bool sample = false;  // false: the largest logit, and none of the following
  double temperature = 1;  // logits are divided by it
  int64_t top_k = 0;  // the k largest, and those equal to the last of them; 0: all
  double top_p = 1;  // the fewest that have this much of the probability, at least one
  double min_p = 0;  // those with at least this share of the largest probability
  uint64_t seed = 0;  // the same draws on every machine
};

struct PYCANDLE_API GenerationOptions {
  int64_t max_tokens = 128;
  Choice choice = {};
  std::vector<std::string> stop = {};  // texts that end the output; they are not part of it
  std::vector<TokenId> stop_tokens = {};  // beside the model's own
  bool ignore_end = false;  // the model's own end tokens do not end the output
  int64_t samples = 1;  // of each prompt
  int64_t beams = 1;  // more than one: beam search, which gives the best `samples` of them
  double length_penalty = 1;  // of beams: scores are divided by length to this power
  bool log_probabilities = false;  // of each token
  int64_t alternatives = 0;  // and of so many that were the most probable ones
  std::string json_schema = {};  // the text is JSON of this schema: docs/generation.md lists what it may say
  bool use_cache = true;  // false: the whole sequence is run for each token
  int64_t cache_capacity = 0;  // tokens; 0: as many as are needed
  int64_t batch = 8;  // most sequences that run at a time
  bool keep_prefix = false;  // the next prompt that begins like this text starts behind it
  // Speculation: tokens are guessed and tested together. The text is the one without it.
  bool prompt_lookup = false;  // guesses: what followed the last tokens earlier
  std::shared_ptr<const LanguageModel> draft = {};  // guesses: what a smaller model with the same tokens says
  int64_t draft_tokens = 5;
  // Inputs of an encoder that are no tokens, such as the sound of Whisper; one prompt at a time.
  std::map<std::string, Array> inputs = {};
};

enum class Finish { running, stop, length, cancelled };
PYCANDLE_API const char* to_string(Finish);

struct PYCANDLE_API GeneratedToken {
  TokenId id = 0;
  double log_probability = 0;  // of the model itself, before anything of Choice
  std::vector<std::pair<TokenId, double>> alternatives = {};  // the most probable ones, by log-probability
};

// One text. Its end token is not in it.
struct PYCANDLE_API Generated {
  size_t prompt = 0, sample = 0;
  std::string text;
  std::vector<GeneratedToken> tokens;
  Finish finish = Finish::running;
  double score = 0;  // of a beam: the sum of log-probabilities, by length
  size_t prompt_tokens = 0;
};

// What a step added to a text. Text is given when its characters are complete and no stop text can begin in it.
struct PYCANDLE_API GeneratedPart {
  size_t sequence = 0;  // in Generation::results()
  std::string text;
  std::optional<GeneratedToken> token = {};  // none at the end, when held back text is given
};

struct PYCANDLE_API GenerationCounts {
  double prompt_seconds = 0, seconds = 0;  // until the first token, and after it
  size_t prompt_tokens = 0, tokens = 0;
  size_t steps = 0;  // runs of the model after the first token
  size_t drafted = 0, accepted = 0;  // guesses
};

// A generation that goes on when asked: one run of the model at a time.
class PYCANDLE_API Generation {
 public:
  // What the next run of the model adds; none when all is done.
  std::optional<std::vector<GeneratedPart>> next();
  void cancel();  // from any thread: next() gives no more, and what runs is Finish::cancelled
  const std::vector<Generated>& results() const;  // in the order of prompts, and of samples
  GenerationCounts counts() const;

  struct State;  // src/generate/group.h

 private:
  friend class LanguageModel;
  explicit Generation(std::shared_ptr<State>);
  std::shared_ptr<State> state_;
};

struct PYCANDLE_API LanguageModelOptions {
  std::string tokenizer = {};  // tokenizer.json; none: the bundle's, or tokens in and out
  std::string generation_config = {};  // generation_config.json: its end tokens and start token
  std::string backend = {};  // empty: PYCANDLE_BACKEND, or cpu
  int threads = 0;  // 0: PYCANDLE_THREADS, or all cores
  WeightFormat weights = WeightFormat::f32;
  std::string cache = "f32";  // or "bf16", "f16": rows of the cache in half the bytes
  std::string checkpoint = {}, rules = {}, lora = {};  // weights from here, as in Recorded::load
  std::map<std::string, std::string> overrides = {};  // functional → implementation: {"linear", "naive"}
};

// A handle: copies share the weights. Its const members may be called from several threads at once.
class PYCANDLE_API LanguageModel {
 public:
  // A manifest, the folder of one, or a bundle. A model that sees later tokens is refused, with the layer, the line and the
  // reason.
  static LanguageModel load(const std::string& path, const LanguageModelOptions& = {});

  using OnText = std::function<bool(const GeneratedPart&)>;  // false: stop here
  Generated generate(const std::string& prompt, const GenerationOptions& = {}, const OnText& = {}) const;
  std::vector<Generated> generate_all(const std::vector<std::string>& prompts, const GenerationOptions& = {},
                                      const OnText& = {}) const;
  Generation start(const std::vector<std::string>& prompts, const GenerationOptions& = {}) const;
  Generation start_tokens(const std::vector<std::vector<TokenId>>& prompts, const GenerationOptions& = {}) const;
  // The logits of every token of one sequence, f32 [tokens, vocabulary]: whole = false gives those of the last one alone.
  // Of an encoder-decoder model: what the decoder says after its start token, when the encoder has read the tokens.
  Array logits(const std::vector<TokenId>& tokens, bool whole = true) const;

  const Tokenizer* tokenizer() const;  // null: none was given
  size_t vocabulary() const;  // of the logits
  std::vector<TokenId> end_tokens() const;
  std::optional<int64_t> longest() const;  // the positions that the model has; none: any number
  std::string name() const;

  struct Parts;  // src/generate/parts.h
  explicit LanguageModel(std::shared_ptr<const Parts>);
  const Parts& parts() const { return *parts_; }

 private:
  std::shared_ptr<const Parts> parts_;
};

}  // namespace pycandle
