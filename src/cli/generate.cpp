// pycandle generate: text from a language model.
#include "cli/generate.h"

#include <fmt/format.h>
#include <unistd.h>

#include <charconv>
#include <csignal>
#include <iostream>
#include <limits>
#include <random>

#include "base/file.h"
#include "base/json.h"
#include "cli/profile.h"
#include "cli/running.h"
#include "cli/terminal.h"
#include "cli/weights.h"
#include "generate/language_model.h"
#include "generate/parts.h"
#include "runtime/bundle.h"

namespace pycandle::cli {
namespace {

struct Options {
  std::string prompt, prompts, system, tokenizer, generation_config, draft, schema, cache = "f32";
  std::vector<std::string> bias;
  std::optional<double> temperature, top_p, min_p;
  int64_t top_k = 0, seed = -1;
  bool chat = false, greedy = false;
  RunOptions run;
  GenerationOptions generation;
};

// ---- Ctrl-C: the first one ends the text, the second one the program

volatile std::sig_atomic_t interrupted = 0;

void on_interrupt(int) {
  interrupted = 1;
  std::signal(SIGINT, SIG_DFL);
}

void listen_for_interrupts() {
  interrupted = 0;
  struct sigaction action = {};
  action.sa_handler = on_interrupt;  // without SA_RESTART: waiting for a line ends too
  sigaction(SIGINT, &action, nullptr);
}

constexpr int kInterrupted = 130;  // what shells give for it

// ---- the model and its options

// A tokenizer.json, or a folder with one and what belongs to it.
std::filesystem::path beside(const std::filesystem::path& tokenizer, const char* name) {
  return (std::filesystem::is_directory(tokenizer) ? tokenizer : tokenizer.parent_path()) / name;
}

LanguageModel open(const Options& options) {
  LanguageParts parts;
  parts.cache = options.cache;
  if (!options.tokenizer.empty()) {
    const bool is_folder = std::filesystem::is_directory(options.tokenizer);
    parts.tokenizer = Tokenizer::from_file(is_folder ? beside(options.tokenizer, "tokenizer.json")
                                                     : std::filesystem::path(options.tokenizer));
    if (const auto config = beside(options.tokenizer, "generation_config.json"); is_folder && std::filesystem::exists(config))
      parts.generation_config = read_text(config);
  }
  if (!options.generation_config.empty()) parts.generation_config = read_text(options.generation_config);
  return language_model(load_for(options.run), std::move(parts));
}

std::map<TokenId, double> parse_bias(const std::vector<std::string>& texts) {
  std::map<TokenId, double> bias;
  for (const std::string& text : texts) {
    const size_t equals = text.find('=');
    TokenId token = 0;
    double value = 0;
    const char* end = text.data() + text.size();
    const char* middle = text.data() + std::min(equals, text.size());
    const bool is_token = std::from_chars(text.data(), middle, token).ptr == middle && middle != text.data() && middle != end;
    if (!is_token || std::from_chars(middle + 1, end, value).ptr != end || middle + 1 == end)
      throw Error(ErrorCode::usage, "--logit-bias is not understood")
          .expected("a token and a number, such as 50256=-inf")
          .found(text);
    bias[token] = value;
  }
  return bias;
}

GenerationOptions generation_options(const Options& options, const LanguageModel& model, bool json) {
  GenerationOptions generation = options.generation;
  Choice& choice = generation.choice;
  const bool is_sampled = options.temperature || options.top_p || options.min_p || options.top_k > 0 || options.seed >= 0 ||
                          (generation.samples > 1 && generation.beams == 1);
  if (options.greedy && is_sampled) throw Error(ErrorCode::usage, "--greedy takes no draws: leave the options of sampling out");
  choice.sample = is_sampled;
  choice.temperature = options.temperature.value_or(1);
  choice.top_p = options.top_p.value_or(1);
  choice.min_p = options.min_p.value_or(0);
  choice.top_k = options.top_k;
  choice.logit_bias = parse_bias(options.bias);
  choice.seed = options.seed >= 0 ? static_cast<uint64_t>(options.seed) : std::random_device()();
  generation.log_probabilities = json;
  generation.prompt_lookup = options.draft == "lookup";
  if (!options.schema.empty()) generation.json_schema = read_text(options.schema);
  if (!options.draft.empty() && !generation.prompt_lookup) {
    const LoadOptions& same = options.run.load;
    LoadOptions load{.backend = same.backend, .pipeline = same.pipeline};
    load.pipeline.dump_dir.clear();  // it would write over the model's
    LanguageModel draft = language_model(open_model(options.draft, load), {});
    if (draft.vocabulary() != model.vocabulary())
      throw Error(ErrorCode::usage, "the draft has other tokens than the model")
          .expected(fmt::format("{} of them", model.vocabulary()))
          .found(fmt::format("{}", draft.vocabulary()));
    generation.draft = std::make_shared<LanguageModel>(std::move(draft));
  }
  return generation;
}

// ---- what is shown

void print_part(const std::string& text) {
  std::fwrite(text.data(), 1, text.size(), stdout);
  std::fflush(stdout);
}

double per_second(size_t count, double seconds) { return seconds > 0 ? static_cast<double>(count) / seconds : 0; }

// The first token of a sequence comes with the prompt.
size_t stepped(const GenerationCounts& counts, size_t sequences) { return counts.tokens - std::min(counts.tokens, sequences); }

void print_speed(const GenerationCounts& counts, size_t sequences) {
  if (isatty(STDOUT_FILENO) == 0) return;
  std::string line = fmt::format("{} tokens · {:.1f} tokens a second · {} tokens of prompt in {:.2f} s", counts.tokens,
                                 per_second(stepped(counts, sequences), counts.seconds), counts.prompt_tokens,
                                 counts.prompt_seconds);
  if (counts.drafted > 0) line += fmt::format(" · {} of {} guesses were right", counts.accepted, counts.drafted);
  fmt::print("{}\n", styled(line, Style::dim));
}

Json to_json(const Generated& result, const GenerationOptions& options) {
  std::vector<TokenId> ids;
  Json log_probabilities = Json::array(), alternatives = Json::array();
  for (const GeneratedToken& token : result.tokens) {
    ids.push_back(token.id);
    log_probabilities.push_back(token.log_probability);
    Json several = Json::array();
    for (const auto& [id, log_probability] : token.alternatives)
      several.push_back({{"token", id}, {"log_probability", log_probability}});
    alternatives.push_back(std::move(several));
  }
  Json json{{"prompt", result.prompt},
            {"sample", result.sample},
            {"text", result.text},
            {"tokens", ids},
            {"log_probabilities", log_probabilities},
            {"finish", to_string(result.finish)}};
  if (options.alternatives > 0) json["alternatives"] = std::move(alternatives);
  if (options.beams > 1) json["score"] = result.score;
  return json;
}

void print_json(const LanguageModel& model, const RunOptions& run, const Generation& generation, const GenerationOptions& options,
                const RunsProfile& profile) {
  Json results = Json::array();
  for (const Generated& result : generation.results()) results.push_back(to_json(result, options));
  const GenerationCounts counts = generation.counts();
  const Json timings{{"prompt_tokens", counts.prompt_tokens},
                     {"prompt_seconds", counts.prompt_seconds},
                     {"tokens", counts.tokens},
                     {"seconds", counts.seconds},
                     {"tokens_per_second", per_second(stepped(counts, generation.results().size()), counts.seconds)},
                     {"steps", counts.steps},
                     {"drafted", counts.drafted},
                     {"accepted", counts.accepted}};
  Json document{{"name", model.name()},
                {"backend", run.load.backend},
                {"seed", options.choice.sample ? Json(options.choice.seed) : Json()},
                {"results", results},
                {"timings", timings}};
  profile.add_to(document);
  fmt::print("{}\n", document.dump(2, ' ', false, Json::error_handler_t::replace));
}

// Text as it comes where there is one; several when they are done.
void run_to_end(Generation& generation, bool streams) {
  while (const auto parts = generation.next()) {
    for (const GeneratedPart& part : *parts) {
      if (streams) print_part(part.text);
    }
    if (interrupted != 0) generation.cancel();
  }
}

void print_all(const Generation& generation, const std::vector<std::string>& prompts) {
  for (const Generated& result : generation.results()) {
    if (prompts.size() > 1 || result.sample > 0 || generation.results().size() > 1)
      fmt::print("{}\n",
                 styled(fmt::format("── {}{}", shortened(prompts[result.prompt], 60),
                                    generation.results().size() > prompts.size() ? fmt::format(" · {}", result.sample + 1) : ""),
                        Style::bold));
    fmt::print("{}\n", result.text);
  }
}

std::vector<std::string> lines_of(const std::string& path) {
  const std::string text = read_text(path);
  std::vector<std::string> lines;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find('\n', at), text.size());
    if (end > at) lines.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  if (lines.empty()) throw Error(ErrorCode::usage, "the file has no prompts").expected("one on each line").found(path);
  return lines;
}

// ---- chats

class Chat {
 public:
  Chat(const Options& options, const LanguageModel& model)
      : template_(options.tokenizer.empty() ? bundled_chat_template(model.parts().model)
                                            : ChatTemplate::from_config(beside(options.tokenizer, "tokenizer_config.json"))) {
    if (!options.system.empty()) add("system", options.system);
  }
  void add(const char* role, const std::string& content) { messages_.push_back({{"role", role}, {"content", content}}); }
  // The template writes the special tokens.
  std::vector<TokenId> prompt(const Tokenizer& tokenizer) const {
    const Json variables{{"messages", messages_}, {"add_generation_prompt", true}};
    return tokenizer.encode(template_.render(variables.dump(-1, ' ', false, Json::error_handler_t::replace)), false).ids;
  }

 private:
  ChatTemplate template_;
  Json messages_ = Json::array();
};

void talk(const LanguageModel& model, GenerationOptions generation, Chat chat) {
  const bool is_terminal = isatty(STDIN_FILENO) != 0 && isatty(STDOUT_FILENO) != 0;
  generation.keep_prefix = true;
  for (std::string line;;) {
    if (is_terminal) print_part(styled("> ", Style::bold));
    listen_for_interrupts();
    if (!std::getline(std::cin, line)) break;
    if (line.empty()) continue;
    chat.add("user", line);
    Generation reply = model.start_tokens({chat.prompt(*model.tokenizer())}, generation);
    run_to_end(reply, true);
    print_part("\n");
    print_speed(reply.counts(), 1);
    chat.add("assistant", reply.results()[0].text);
  }
  if (is_terminal) print_part("\n");
}

void run(const Options& options, Context& context) {
  if (options.chat && options.tokenizer.empty() && !is_bundle(options.run.model))
    throw Error(ErrorCode::usage, "--chat needs a tokenizer")
        .hint("--tokenizer with tokenizer_config.json beside it, for its chat template");
  if (!options.chat && options.prompt.empty() && options.prompts.empty())
    throw Error(ErrorCode::usage, "there is no prompt").hint("give --prompt, --prompts or --chat");
  const LanguageModel model = open(options);
  std::optional<Chat> chat;
  if (options.chat) chat.emplace(options, model);
  const GenerationOptions generation = generation_options(options, model, context.json);
  if (chat && options.prompt.empty()) {
    if (context.json) throw Error(ErrorCode::usage, "--json shows one answer: give --prompt with --chat");
    return talk(model, generation, std::move(*chat));
  }
  const std::vector<std::string> prompts = options.prompts.empty() ? std::vector{options.prompt} : lines_of(options.prompts);
  if (chat) chat->add("user", options.prompt);
  listen_for_interrupts();
  Generation made = chat ? model.start_tokens({chat->prompt(*model.tokenizer())}, generation) : model.start(prompts, generation);
  const RunsProfile profile(options.run.profile, options.run.load.pipeline.threads);  // of what is written, not of the proof
  const bool streams = !context.json && made.results().size() == 1;
  run_to_end(made, streams);
  if (context.json)
    print_json(model, options.run, made, generation, profile);
  else if (streams)
    print_part("\n");
  else
    print_all(made, prompts);
  if (!context.json) {
    print_speed(made.counts(), made.results().size());
    if (options.run.timing) print_timings(model.parts().model.timings());
    profile.print();
  }
  if (interrupted != 0) context.status = kInterrupted;
}

void add_choice_options(Command& command, Options& options) {
  Choice& choice = options.generation.choice;
  command.add_flag("--greedy", options.greedy, "the most probable token each time; so without any of the options of sampling");
  command.add_option("--temperature", options.temperature, "sample: logits are divided by it");
  command.add_option("--top-k", options.top_k, "sample from the k most probable tokens");
  command.add_option("--top-p", options.top_p, "sample from the most probable tokens that have this much of the probability");
  command.add_option("--min-p", options.min_p, "sample from tokens with at least this share of the largest probability");
  command.add_option("--seed", options.seed, "of sampling: the same draws on every machine; a random one otherwise");
  command.add_option("--repetition-penalty", choice.repetition_penalty, "of tokens that are in the prompt or the text; 1: none")
      .shows_default();
  command.add_option("--presence-penalty", choice.presence_penalty, "subtracted from logits of tokens that are in the text")
      .shows_default();
  command.add_option("--frequency-penalty", choice.frequency_penalty, "the same, for each time that they are there")
      .shows_default();
  command.add_option("--logit-bias", options.bias, "TOKEN=NUMBER is added to the token's logit; -inf forbids it (repeatable)");
}

void add_text_options(Command& command, Options& options) {
  GenerationOptions& generation = options.generation;
  command.add_option("--max-tokens", generation.max_tokens, "most tokens of each text").shows_default();
  command.add_option("--stop", generation.stop, "end before this text (repeatable)");
  command.add_flag("--ignore-end", generation.ignore_end, "go on behind the model's end token");
  command.add_option("--json-schema", options.schema, "the text is JSON that this schema allows: a file");
  command.add_option("--samples", generation.samples, "texts for each prompt").shows_default();
  command.add_option("--beams", generation.beams, "beam search with so many beams").shows_default();
  command.add_option("--length-penalty", generation.length_penalty, "of beams: scores are divided by length to this power")
      .shows_default();
  command.add_option("--log-probabilities", generation.alternatives, "with --json: so many alternatives of each token")
      .shows_default();
  command.add_option("--batch", generation.batch, "most texts that are written at a time").shows_default();
  command.add_option("--draft", options.draft,
                     "guess tokens with this smaller model, or with the word lookup from the text so far");
  command.add_option("--draft-tokens", generation.draft_tokens, "how many tokens are guessed at a time").shows_default();
}

}  // namespace

void add_generate(Command& app, Context& context) {
  auto options = std::make_shared<Options>();
  Command command = add_command(
      app, context, "generate", "text from a language model",
      "pycandle generate pycandle_trace --tokenizer tokenizer.json --prompt \"Once upon a time\" --temperature 0.8");
  options->run.load.backend = usual_backend();
  add_model_options(command, options->run);
  add_profile_option(command, options->run.profile);
  Option prompt = command.add_option("--prompt", options->prompt, "what to go on from");
  command.add_option("--prompts", options->prompts, "a file with a prompt on each line").excludes(prompt);
  command.add_flag("--chat", options->chat,
                   "talk: messages come from --prompt, or line by line; the tokenizer's chat template is used");
  command.add_option("--system", options->system, "the first message of a chat");
  command.add_option("--tokenizer", options->tokenizer,
                     "a tokenizer.json, or a folder with it, tokenizer_config.json and generation_config.json");
  command.add_option("--generation-config", options->generation_config,
                     "a generation_config.json: the end tokens, and the first token of an encoder-decoder model");
  add_choice_options(command, *options);
  add_text_options(command, *options);
  command.add_flag("--kv-cache,!--no-kv-cache", options->generation.use_cache,
                   "keep a cache (default), or run the whole text for each token");
  command.add_option("--kv-cache-capacity", options->generation.cache_capacity,
                     "tokens that the cache has room for; as many as are needed otherwise");
  command.add_option("--cache", options->cache, "what rows of the cache are kept in")
      .one_of({"f32", "bf16", "f16"})
      .shows_default();
  command.callback([options, &context] { run(*options, context); });
}

}  // namespace pycandle::cli
