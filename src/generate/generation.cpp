#include <fmt/format.h>

#include <algorithm>
#include <chrono>

#include "base/error.h"
#include "generate/choosing.h"
#include "generate/group.h"

namespace pycandle {
namespace {

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

// The prompt is the encoder's where that reads tokens; then the decoder begins with its start token alone.
Tokens decoder_prompt(const LanguageModel::Parts& model, const std::vector<TokenId>& prompt) {
  Tokens tokens;
  if (model.roles.has_encoder) tokens.push_back(*model.start_token);
  if (!model.roles.encoder_tokens) tokens.insert(tokens.end(), prompt.begin(), prompt.end());
  return tokens;
}

// Of an encoder: the tokens, masks of ones, and what the caller gave.
Decoder::Tensors encoder_inputs(const Generation::State& state, size_t first, size_t count) {
  const LanguageModel::Parts& model = *state.model;
  Decoder::Tensors inputs = state.options.inputs;
  if (!model.roles.encoder_tokens) return inputs;
  const std::vector<TokenId>& one = state.prompts[first];
  const Sizes shape{static_cast<int64_t>(count), std::ssize(one)};
  std::vector<int64_t> tokens;
  for (size_t p = first; p < first + count; ++p) tokens.insert(tokens.end(), state.prompts[p].begin(), state.prompts[p].end());
  for (const Input& input : model.decoder.decode_step().setup.inputs) {
    const DType dtype = model.decoder.decode_step().setup.graph.type(input.value).dtype;
    if (input.name == *model.roles.encoder_tokens)
      inputs[input.name] = store(dtype, shape, tokens);
    else if (inputs.count(input.name) == 0)
      inputs[input.name] = store(dtype, shape, std::vector<int64_t>(tokens.size(), 1));  // a mask: nothing is padding
  }
  return inputs;
}

// Room for the longest prompt and its text, as far as there is any.
int64_t capacity_for(const Generation::State& state, const std::vector<Tokens>& contexts) {
  int64_t longest = 0;
  for (const Tokens& context : contexts) longest = std::max<int64_t>(longest, std::ssize(context));
  int64_t capacity = state.options.cache_capacity > 0 ? state.options.cache_capacity : longest + state.options.max_tokens;
  const auto positions = state.model->decoder.decode_step().longest;
  if (positions) capacity = std::min(capacity, *positions);
  if (longest > capacity)
    throw Error(ErrorCode::usage, "the prompt is too long")
        .expected(fmt::format("at most {} tokens{}", capacity, positions == capacity ? ": the model has no more positions" : ""))
        .found(fmt::format("{}", longest))
        .hint(positions == capacity ? "" : "--kv-cache-capacity gives the cache more room");
  return capacity;
}

size_t group_size(const Generation::State& state) {
  const auto rows = static_cast<size_t>(std::max<int64_t>(1, state.options.batch / state.options.samples));
  size_t count = std::min(rows, state.prompts.size() - state.started);
  if (state.options.beams > 1 || !state.options.inputs.empty()) return 1;
  if (!state.model->roles.has_encoder) return count;
  // An encoder sees every token that it is given, padding too: prompts of one length run together.
  for (size_t i = 1; i < count; ++i) {
    if (state.prompts[state.started + i].size() != state.prompts[state.started].size()) return i;
  }
  return count;
}

}  // namespace

const char* to_string(Finish finish) {
  switch (finish) {
    case Finish::running: return "running";
    case Finish::stop: return "stop";
    case Finish::length: return "length";
    case Finish::cancelled: return "cancelled";
  }
  return "";
}

bool Generation::State::is_end(TokenId token) const {
  return std::find(end_tokens.begin(), end_tokens.end(), token) != end_tokens.end();
}

Start start_group(const Generation::State& state, size_t first, size_t count) {
  const LanguageModel::Parts& model = *state.model;
  Start start;
  for (size_t p = first; p < first + count; ++p) start.contexts.push_back(decoder_prompt(model, state.prompts[p]));
  start.pending = start.contexts;
  const int64_t capacity = capacity_for(state, start.contexts);
  const auto rows = static_cast<int64_t>(count);
  const Decoder::Tensors inputs = model.roles.has_encoder ? encoder_inputs(state, first, count) : Decoder::Tensors{};
  if (!state.options.use_cache) {
    start.sequences = whole_sequences(model.model, model.roles, rows, model.decoder.decode_step().longest, inputs);
  } else if (state.options.keep_prefix && count == 1 && !model.roles.has_encoder) {
    PrefixStore::Start known = model.prefixes->start(start.contexts[0], capacity);
    start.pending[0].erase(start.pending[0].begin(), start.pending[0].begin() + known.known);
    start.sequences = cached_sequences(model.decoder, model.roles, std::move(known.cache));
  } else {
    start.sequences = cached_sequences(model.decoder, model.roles, model.decoder.new_cache(rows, capacity, inputs));
  }
  return start;
}

Generation::Generation(std::shared_ptr<State> state) : state_(std::move(state)) {}

void Generation::cancel() { state_->cancelled = true; }

const std::vector<Generated>& Generation::results() const { return state_->results; }

GenerationCounts Generation::counts() const { return state_->counts; }

std::optional<std::vector<GeneratedPart>> Generation::next() {
  State& s = *state_;
  std::vector<GeneratedPart> parts;
  if (s.cancelled) {
    if (s.group) s.group->cancel(parts);
    s.group.reset();
    s.started = s.prompts.size();
    for (Generated& result : s.results) {
      if (result.finish == Finish::running) result.finish = Finish::cancelled;
    }
    return parts.empty() ? std::nullopt : std::optional(std::move(parts));
  }
  for (;;) {
    const auto start = std::chrono::steady_clock::now();
    const bool is_first = !s.group;
    if (is_first) {
      if (s.started == s.prompts.size()) return std::nullopt;
      const size_t count = group_size(s);
      s.group = s.options.beams > 1 ? beam_group(s, s.started) : sampled_group(s, s.started, count);
      s.started += count;
    }
    if (s.group->advance(parts)) {
      (is_first ? s.counts.prompt_seconds : s.counts.seconds) += seconds_since(start);
      s.counts.steps += is_first ? 0 : 1;
      return parts;
    }
    s.group.reset();
  }
}

}  // namespace pycandle
