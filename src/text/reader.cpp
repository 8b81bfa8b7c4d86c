#include "text/reader.h"

#include <fmt/format.h>

#include "base/error.h"
#include "text/json_scanner.h"
#include "text/settings.h"

namespace pycandle::text {
namespace {

Json null_or(const Json& json, const char* name) { return json.contains(name) ? json[name] : Json(); }

// {"token": id, …}, or [["token", score], …] of a Unigram model.
void read_vocabulary(JsonScanner& scanner, ModelParts& parts) {
  if (scanner.peek() == '{') {
    scanner.open('{');
    while (scanner.next('}')) {
      const std::string_view spelt = scanner.string();
      // The text may stand in the scanner's own buffer, which reading the id leaves alone.
      scanner.colon();
      parts.vocabulary.add(spelt, scanner.id());
    }
    return;
  }
  scanner.open('[');
  while (scanner.next(']')) {
    scanner.open('[');
    if (!scanner.next(']')) scanner.fail("a token and its score");
    parts.vocabulary.add(scanner.string(), static_cast<TokenId>(parts.scores.size()));
    if (!scanner.next(']')) scanner.fail("a score");
    parts.scores.push_back(scanner.number());
    if (scanner.next(']')) scanner.fail("the end of a token");
  }
}

void add_merge(ModelParts& parts, std::string_view left, std::string_view right) {
  parts.merges.push_back(
      {static_cast<uint32_t>(parts.merge_text.size()), static_cast<uint32_t>(left.size()), static_cast<uint32_t>(right.size())});
  parts.merge_text.append(left).append(right);
}

// ["a b", …] or [["a", "b"], …].
void read_merges(JsonScanner& scanner, ModelParts& parts) {
  std::string left;
  scanner.open('[');
  while (scanner.next(']')) {
    if (scanner.peek() == '[') {
      scanner.open('[');
      if (!scanner.next(']')) scanner.fail("two tokens");
      left = scanner.string();
      if (!scanner.next(']')) scanner.fail("two tokens");
      add_merge(parts, left, scanner.string());
      if (scanner.next(']')) scanner.fail("two tokens");
      continue;
    }
    const std::string_view pair = scanner.string();
    if (pair.starts_with("#version")) continue;
    const size_t space = pair.find(' ');
    if (space == std::string_view::npos || pair.find(' ', space + 1) != std::string_view::npos)
      scanner.fail("two tokens with a space between them");
    add_merge(parts, pair.substr(0, space), pair.substr(space + 1));
  }
}

ModelParts read_model(JsonScanner& scanner, const std::string& what) {
  ModelParts parts;
  parts.settings = Json::object();
  scanner.open('{');
  while (scanner.next('}')) {
    const std::string name(scanner.string());
    scanner.colon();
    if (name == "vocab") {
      parts.vocabulary.reserve(65'536, 1 << 20);
      read_vocabulary(scanner, parts);
    } else if (name == "merges") {
      parts.merges.reserve(65'536);
      read_merges(scanner, parts);
    } else {
      parts.settings[name] = parse_json(scanner.value(), what);
    }
  }
  return parts;
}

Truncation read_truncation(const Json& json) {
  const Settings s(json, "truncation");
  Truncation t;
  t.max_length = s.count("max_length");
  const std::string strategy = s.text("strategy", "LongestFirst"), direction = s.text("direction", "Right");
  if (strategy == "OnlyFirst") {
    t.strategy = Truncation::Strategy::only_first;
  } else if (strategy == "OnlySecond") {
    t.strategy = Truncation::Strategy::only_second;
  } else if (strategy != "LongestFirst") {
    s.wrong("strategy", "LongestFirst, OnlyFirst or OnlySecond");
  }
  if (direction != "Right" && direction != "Left") s.wrong("direction", "Left or Right");
  t.from_left = direction == "Left";
  t.stride = s.count("stride", 0);
  return t;
}

// A file may not ask for more memory than a text needs.
constexpr size_t kLongestPadding = size_t{1} << 24;

Padding read_padding(const Json& json) {
  const Settings s(json, "padding");
  Padding p;
  const Json& strategy = s.at("strategy");
  if (strategy.is_object() && strategy.contains("Fixed")) {
    p.length = Settings(strategy, "padding").count("Fixed");
  } else if (strategy != "BatchLongest") {
    s.wrong("strategy", "BatchLongest or {\"Fixed\": …}");
  }
  p.on_left = s.text("direction", "Right") == "Left";
  p.multiple_of = s.count("pad_to_multiple_of", 0);
  p.id = static_cast<TokenId>(s.count("pad_id", 0));
  p.type_id = static_cast<uint32_t>(s.count("pad_type_id", 0));
  p.token = s.text("pad_token", "[PAD]");
  if (p.length.value_or(0) > kLongestPadding || p.multiple_of > kLongestPadding) s.wrong("strategy", "a length below 16 million");
  return p;
}

// tokenizer.json, with the model apart from the rest.
struct Document {
  ModelParts model;
  Json rest = Json::object();
};

Document read_document(std::string_view json, const std::string& what) {
  JsonScanner scanner(json, what);
  Document document;
  Json& rest = document.rest;
  std::optional<ModelParts> model;
  scanner.open('{');
  while (scanner.next('}')) {
    const std::string name(scanner.string());
    scanner.colon();
    if (name == "model") {
      model = read_model(scanner, what);
    } else {
      rest[name] = parse_json(scanner.value(), what);
    }
  }
  scanner.end();
  if (!model)
    throw Error(ErrorCode::bad_input, fmt::format("{} has no model", what)).hint("a Hugging Face tokenizer.json has one");
  if (const Json version = null_or(rest, "version"); !version.is_null() && version != "1.0")
    throw Error(ErrorCode::gap, fmt::format("{} is of an unknown version", what)).expected("1.0").found(version.dump());
  document.model = std::move(*model);
  return document;
}

std::shared_ptr<Tokenizer::Parts> parts_of(Document document) {
  const Json& rest = document.rest;
  auto parts = std::make_shared<Tokenizer::Parts>();
  parts->model = make_model(std::move(document.model));
  parts->normalizer = make_normalizer(null_or(rest, "normalizer"));
  parts->pre_tokenizer = make_pre_tokenizer(null_or(rest, "pre_tokenizer"));
  parts->post_processor = make_post_processor(null_or(rest, "post_processor"));
  parts->decoder = make_decoder(null_or(rest, "decoder"));
  parts->added = std::make_unique<AddedTokens>(null_or(rest, "added_tokens"), *parts->model, parts->normalizer.get());
  if (const Json t = null_or(rest, "truncation"); !t.is_null()) parts->truncation = read_truncation(t);
  if (const Json p = null_or(rest, "padding"); !p.is_null()) parts->padding = read_padding(p);
  return parts;
}

constexpr std::string_view kCompiled = "PCTOKEN1";

}  // namespace

std::shared_ptr<Tokenizer::Parts> read_tokenizer(std::string_view json, const std::string& what) {
  return parts_of(read_document(json, what));
}

std::string compile_tokenizer(std::string_view json, const std::string& what) {
  Document document = read_document(json, what);
  document.model.settings["type"] = model_type(document.model);
  const Json settings = {{"model", document.model.settings}, {"rest", document.rest}};
  const std::vector<double> scores = document.model.scores;
  const std::shared_ptr<Tokenizer::Parts> parts = parts_of(std::move(document));
  TableWriter out;
  out.text(settings.dump());
  parts->model->vocabulary().write(out);
  out.list(std::span<const double>(scores));
  parts->model->write(out);
  return std::string(kCompiled) + std::move(out).taken();
}

std::shared_ptr<Tokenizer::Parts> read_compiled(std::string_view bytes) {
  TableReader::check(bytes.starts_with(kCompiled), "it does not begin as one");
  TableReader in(bytes.substr(kCompiled.size()));
  const Json settings = parse_json(in.text(), "compiled tokenizer");
  TableReader::check(settings.is_object() && settings.contains("model") && settings["model"].is_object() &&
                         settings.contains("rest") && settings["rest"].is_object(),
                     "its settings are no object");
  Document document;
  document.model.settings = settings["model"];
  document.rest = settings["rest"];
  document.model.vocabulary = Vocabulary::read(in);
  document.model.scores = in.list<double>();
  document.model.compiled = &in;
  std::shared_ptr<Tokenizer::Parts> parts = parts_of(std::move(document));
  TableReader::check(in.at_end(), "it goes on behind its end");
  return parts;
}

}  // namespace pycandle::text
