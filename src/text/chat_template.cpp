// "chat_template" of tokenizer_config.json.
#include <fmt/format.h>

#include "base/error.h"
#include "base/file.h"
#include "base/json.h"
#include "pycandle/tokenizer.h"
#include "text/jinja/render.h"
#include "text/jinja/syntax.h"
#include "text/utf8.h"

namespace pycandle {

struct ChatTemplate::State {
  text::jinja::Block program;
  text::jinja::Dict special_tokens;  // bos_token, …
};

ChatTemplate::ChatTemplate(const std::string& source) {
  auto state = std::make_shared<State>();
  state->program = text::jinja::parse(text::replace_invalid(source));
  state_ = std::move(state);
}

namespace {

// A template is a string, or a list of {"name", "template"}.
std::string template_of(const Json& config, const std::string& name) {
  const Json found = config.value("chat_template", Json());
  if (found.is_string()) return found.get<std::string>();
  if (found.is_array()) {
    for (const Json& each : found) {
      if (each.is_object() && each.value("name", Json()) == name && each.value("template", Json()).is_string())
        return each["template"].get<std::string>();
    }
  }
  throw Error(ErrorCode::bad_input, "the configuration has no chat template")
      .expected(fmt::format("chat_template, by the name {}", name));
}

}  // namespace

ChatTemplate ChatTemplate::from_config(const std::filesystem::path& path, const std::string& name) {
  return from(read_text(path), path.string(), name);
}

ChatTemplate ChatTemplate::from_config_text(std::string_view json, const std::string& name) {
  return from(json, "tokenizer_config.json", name);
}

ChatTemplate ChatTemplate::from(std::string_view json, const std::string& what, const std::string& name) {
  const Json config = parse_json(json, what);
  if (!config.is_object()) throw Error(ErrorCode::bad_input, fmt::format("{} is no configuration of a tokenizer", what));
  auto state = std::make_shared<State>();
  state->program = text::jinja::parse(template_of(config, name));
  for (const auto& [key, value] : config.items()) {
    if (!key.ends_with("_token")) continue;
    if (value.is_string()) state->special_tokens.set(key, value.get<std::string>());
    if (value.is_object() && value.value("content", Json()).is_string())
      state->special_tokens.set(key, value["content"].get<std::string>());
  }
  ChatTemplate out("");
  out.state_ = std::move(state);
  return out;
}

std::string ChatTemplate::render(std::string_view variables) const {
  const text::jinja::Value given = text::jinja::from_json(variables);
  if (!given.is(text::jinja::Value::Kind::dict))
    throw Error(ErrorCode::usage, "the variables of a chat template are no JSON object");
  text::jinja::Dict all = state_->special_tokens;
  for (const auto& [key, value] : given.dict().items()) all.set(key, value);
  return text::jinja::render(state_->program, all);
}

}  // namespace pycandle
