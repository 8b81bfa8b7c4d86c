#include "generate/language_model.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "base/file.h"
#include "base/json.h"
#include "base/weight_format.h"
#include "generate/choosing.h"
#include "generate/group.h"
#include "generate/json_schema.h"
#include "ops/core/catalogue.h"
#include "runtime/bundle.h"
#include "verify/proven_step.h"

namespace pycandle {
namespace {

constexpr size_t kPrefixBytes = size_t{1} << 30;

// Tokens that mean something to a model: from generation_config.json, or the recorded class's configuration.
struct MeaningfulTokens {
  std::vector<TokenId> ends;
  std::optional<TokenId> start;
};

std::optional<TokenId> as_token(const Json& value) {
  if (!value.is_number_integer() || value < 0 || value > 0x7FFFFFFF) return std::nullopt;
  return value.get<TokenId>();
}

MeaningfulTokens tokens_of_config(const std::string& text) {
  const Json config = parse_json(text, "generation_config.json");
  if (!config.is_object()) throw Error(ErrorCode::bad_input, "generation_config.json is not a JSON object");
  MeaningfulTokens tokens;
  const Json ends = config.value("eos_token_id", Json());
  for (const Json& end : ends.is_array() ? ends : Json::array({ends})) {
    if (const auto token = as_token(end)) tokens.ends.push_back(*token);
  }
  tokens.start = as_token(config.value("decoder_start_token_id", Json()));
  return tokens;
}

MeaningfulTokens tokens_of_class(const Program& program) {
  MeaningfulTokens tokens;
  for (const ModuleCall& call : program.calls) {
    if (!call.path.empty()) continue;
    for (const auto& [name, value] : call.config) {
      const auto* number = std::get_if<int64_t>(&value);
      if (!number || *number < 0 || *number > 0x7FFFFFFF) continue;
      if (name == "eos_token_id") tokens.ends = {static_cast<TokenId>(*number)};
      if (name == "decoder_start_token_id") tokens.start = static_cast<TokenId>(*number);
    }
    break;
  }
  return tokens;
}

void check_options(const LanguageModel::Parts& model, const GenerationOptions& o) {
  const auto refuse = [](const char* what) { throw Error(ErrorCode::usage, what); };
  check(o.choice, static_cast<size_t>(model.roles.vocabulary));
  if (o.max_tokens < 1 || o.samples < 1 || o.beams < 1 || o.batch < 1 || o.draft_tokens < 1 || o.cache_capacity < 0 ||
      o.alternatives < 0)
    refuse("a number of tokens, samples, beams, sequences or alternatives is too small");
  if (std::any_of(o.stop.begin(), o.stop.end(), [](const std::string& text) { return text.empty(); }))
    refuse("a stop text is empty");
  if (!o.stop.empty() && !model.tokenizer) refuse("stop texts need a tokenizer");
  if (!o.json_schema.empty() && !model.tokenizer) refuse("a JSON schema needs a tokenizer");
  if (o.beams > 1 && !o.json_schema.empty()) refuse("beams cannot be held to a JSON schema");
  if (o.beams > 1 && o.choice.sample) refuse("beams choose by score: they cannot be sampled");
  if (o.beams > 1 && o.samples > o.beams) refuse("there are fewer beams than samples to give");
  if (o.samples > 1 && o.beams == 1 && !o.choice.sample) refuse("greedy samples would all be the same: give a temperature");
  if (o.draft && o.prompt_lookup) refuse("guesses come from a model or from the prompt, not both");
  if ((o.draft || o.prompt_lookup) && (o.beams > 1 || model.roles.has_encoder))
    refuse("guesses are for samples and greedy text of models without an encoder");
  if (o.draft && o.draft->parts().roles.has_encoder) refuse("a model with an encoder cannot guess");
}

}  // namespace

LanguageModel::Parts::Parts(Model loaded, LanguageParts&& with)
    : model(std::move(loaded)),
      cache(std::move(with.cache)),
      decoder(open_decoder(model, cache)),
      roles(TokenRoles::of(decoder.decode_step())),
      tokenizer(std::move(with.tokenizer)),
      prefixes(std::make_unique<PrefixStore>(decoder, kPrefixBytes)) {
  if (tokenizer) {
    tokenizer->padding.reset();
    tokenizer->truncation.reset();
  }
}

std::shared_ptr<const TokenTexts> LanguageModel::Parts::token_texts() const {
  const std::lock_guard lock(mutex_);
  if (!token_texts_) token_texts_ = std::make_shared<TokenTexts>(*tokenizer, static_cast<size_t>(roles.vocabulary));
  return token_texts_;
}

void LanguageModel::Parts::require_proof() const {
  std::call_once(proven_, [&] {
    const LoadOptions& load = model.options();
    if (cache == "f32") return require_proven(model, load, model.program(), decoder.decode_step());
    const OpTable& table = load.table ? *load.table : catalogue();
    require_proven(model, load, with_caches(model.program(), table, cache), decoder.decode_step());
  });
}

LanguageModel::LanguageModel(std::shared_ptr<const Parts> parts) : parts_(std::move(parts)) {}

LanguageModel language_model(Model model, LanguageParts with) {
  if (!with.tokenizer && has_tokenizer(model)) with.tokenizer = bundled_tokenizer(model);
  if (with.generation_config.empty()) with.generation_config = bundled_generation_config(model).value_or("");
  const std::string generation_config = std::move(with.generation_config);
  auto parts = std::make_shared<LanguageModel::Parts>(std::move(model), std::move(with));
  MeaningfulTokens tokens = tokens_of_class(parts->model.program());
  if (!generation_config.empty()) {
    MeaningfulTokens given = tokens_of_config(generation_config);
    if (!given.ends.empty()) tokens.ends = std::move(given.ends);
    if (given.start) tokens.start = given.start;
  }
  parts->end_tokens = std::move(tokens.ends);
  parts->start_token = tokens.start;
  return LanguageModel(std::move(parts));
}

LanguageModel LanguageModel::load(const std::string& path, const LanguageModelOptions& options) {
  LoadOptions load{.backend = options.backend.empty() ? usual_backend() : options.backend, .pipeline = {}};
  load.pipeline.threads = options.threads;
  load.pipeline.weights = options.weights;
  load.pipeline.overrides = options.overrides;
  if (!options.checkpoint.empty())
    load.checkpoint = CheckpointRequest{options.checkpoint, options.rules, options.lora, {}, false};
  LanguageParts parts;
  parts.cache = options.cache;
  if (!options.tokenizer.empty()) parts.tokenizer = Tokenizer::from_file(options.tokenizer);
  if (!options.generation_config.empty()) parts.generation_config = read_text(options.generation_config);
  return language_model(open_model(path, load), std::move(parts));
}

Generation LanguageModel::start_tokens(const std::vector<std::vector<TokenId>>& prompts, const GenerationOptions& options) const {
  check_options(*parts_, options);
  if (options.use_cache) parts_->require_proof();
  if (options.draft) options.draft->parts().require_proof();
  auto state = std::make_shared<Generation::State>();
  state->model = parts_;
  state->options = options;
  state->prompts = prompts;
  if (!options.ignore_end) state->end_tokens = parts_->end_tokens;
  state->end_tokens.insert(state->end_tokens.end(), options.stop_tokens.begin(), options.stop_tokens.end());
  if (parts_->roles.has_encoder && !parts_->start_token)
    throw Error(ErrorCode::usage, "the decoder's first token is not known")
        .expected("decoder_start_token_id in the recorded class's configuration, or in a generation config")
        .found(name());
  if (!options.json_schema.empty())
    state->grammar = std::make_unique<TokenGrammar>(parts_->token_texts(), json_schema_reader(options.json_schema));
  for (const std::string& name : parts_->roles.others) {
    if (options.inputs.count(name) == 0)
      throw Error(ErrorCode::usage, "the encoder needs an input that is no token").expected(name).hint("give it with `inputs`");
  }
  for (size_t p = 0; p < prompts.size(); ++p) {
    if (prompts[p].empty() && (!parts_->roles.has_encoder || parts_->roles.encoder_tokens))
      throw Error(ErrorCode::usage, "a prompt has no tokens").found(fmt::format("prompt {}", p));
    state->counts.prompt_tokens += prompts[p].size();
    for (int64_t s = 0; s < options.samples; ++s) {
      Generated& result = state->results.emplace_back();
      result.prompt = p;
      result.sample = static_cast<size_t>(s);
      result.prompt_tokens = prompts[p].size();
    }
  }
  return Generation(std::move(state));
}

Generation LanguageModel::start(const std::vector<std::string>& prompts, const GenerationOptions& options) const {
  if (!parts_->tokenizer) throw Error(ErrorCode::usage, "text needs a tokenizer").hint("give a tokenizer.json, or tokens");
  std::vector<std::vector<TokenId>> tokens;
  for (const std::string& prompt : prompts) tokens.push_back(parts_->tokenizer->encode(prompt).ids);
  return start_tokens(tokens, options);
}

std::vector<Generated> LanguageModel::generate_all(const std::vector<std::string>& prompts, const GenerationOptions& options,
                                                   const OnText& on_text) const {
  Generation generation = start(prompts, options);
  while (const auto parts = generation.next()) {
    for (const GeneratedPart& part : *parts) {
      if (on_text && !on_text(part)) generation.cancel();
    }
  }
  return generation.results();
}

Generated LanguageModel::generate(const std::string& prompt, const GenerationOptions& options, const OnText& on_text) const {
  return generate_all({prompt}, options, on_text).front();
}

Array LanguageModel::logits(const std::vector<TokenId>& tokens, bool whole) const {
  GenerationOptions options;
  options.max_tokens = 1;
  Generation generation = start_tokens({tokens}, options);
  Start start = start_group(*generation.state_, 0, 1);
  const Array& all = start.sequences->extend(start.pending, whole ? Wanted::all : Wanted::last);
  Array result(DType::f32, {all.shape()[1], all.shape()[2]});
  std::copy_n(all.as<float>(), all.size(), result.mutable_as<float>());
  return result;
}

const Tokenizer* LanguageModel::tokenizer() const { return parts_->tokenizer ? &*parts_->tokenizer : nullptr; }
size_t LanguageModel::vocabulary() const { return static_cast<size_t>(parts_->roles.vocabulary); }
std::vector<TokenId> LanguageModel::end_tokens() const { return parts_->end_tokens; }
std::optional<int64_t> LanguageModel::longest() const { return parts_->decoder.decode_step().longest; }
std::string LanguageModel::name() const { return parts_->model.program().name; }

}  // namespace pycandle
