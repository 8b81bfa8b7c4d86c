// pycandle tokenize: the tokens of a text, and the text of tokens.
#include "cli/tokenize.h"

#include <fmt/format.h>

#include <charconv>
#include <filesystem>

#include "base/file.h"
#include "base/json.h"
#include "cli/terminal.h"
#include "pycandle/tokenizer.h"

namespace pycandle::cli {
namespace {

struct Options {
  std::filesystem::path tokenizer, file;
  std::string text, ids;
  bool no_special_tokens = false;
};

// "1,2 3" → 1 2 3
std::vector<TokenId> parse_ids(std::string_view text) {
  std::vector<TokenId> ids;
  for (size_t at = 0; (at = text.find_first_not_of(", \n[]", at)) != std::string_view::npos;) {
    TokenId id = 0;
    const auto [end, error] = std::from_chars(text.data() + at, text.data() + text.size(), id);
    if (error != std::errc()) throw Error(ErrorCode::usage, "--decode takes numbers").found(std::string(text.substr(at, 20)));
    ids.push_back(id);
    at = static_cast<size_t>(end - text.data());
  }
  return ids;
}

void show_tokens(const Tokenizer& tokenizer, const Encoding& encoding, bool json) {
  const std::vector<std::string> tokens = tokenizer.tokens(encoding);
  if (json) {
    Json offsets = Json::array();
    for (const TokenOffsets& o : encoding.offsets) offsets.push_back({o.begin, o.end});
    fmt::print("{}\n", Json{{"ids", encoding.ids}, {"tokens", tokens}, {"offsets", offsets}}.dump(
                           -1, ' ', false, Json::error_handler_t::replace));
    return;
  }
  Table table;
  for (size_t i = 0; i < encoding.size(); ++i)
    table.row({fmt::format("{}", encoding.ids[i]), Json(tokens[i]).dump(-1, ' ', false, Json::error_handler_t::replace),
               fmt::format("{}..{}", encoding.offsets[i].begin, encoding.offsets[i].end)});
  fmt::print("{}", table.text());
}

void run(const Options& options, bool json) {
  const Tokenizer tokenizer = Tokenizer::from_file(options.tokenizer);
  if (!options.ids.empty()) {
    const std::string text = tokenizer.decode(parse_ids(options.ids), options.no_special_tokens);
    if (json) {
      fmt::print("{}\n", Json{{"text", text}}.dump(-1, ' ', false, Json::error_handler_t::replace));
    } else {
      fmt::print("{}\n", text);
    }
    return;
  }
  if (options.text.empty() && options.file.empty())
    throw Error(ErrorCode::usage, "there is nothing to tokenize").hint("give --text, --file or --decode");
  const std::string text = options.file.empty() ? options.text : read_text(options.file);
  show_tokens(tokenizer, tokenizer.encode(text, !options.no_special_tokens), json);
}

}  // namespace

void add_tokenize(Command& app, Context& context) {
  auto options = std::make_shared<Options>();
  Command command = add_command(app, context, "tokenize", "the tokens of a text, or the text of tokens",
                                "pycandle tokenize tokenizer.json --text \"Hello, world\"");
  command.add_option("tokenizer", options->tokenizer, "a Hugging Face tokenizer.json").required();
  Option text = command.add_option("--text", options->text, "what to tokenize");
  Option file = command.add_option("--file", options->file, "a file to tokenize; invalid UTF-8 is replaced").excludes(text);
  command.add_option("--decode", options->ids, "ids, with commas or spaces between them: print their text")
      .excludes(text)
      .excludes(file);
  command.add_flag("--no-special-tokens", options->no_special_tokens, "add none; with --decode, leave them out");
  command.callback([options, &context] { run(*options, context.json); });
}

}  // namespace pycandle::cli
