// The verdict in a sentence, and what to do next: the same words in the page, in Markdown and in JSON.
#include <fmt/format.h>

#include <algorithm>

#include "report/parts.h"
#include "verify/diagnosing/repro.h"

namespace pycandle::report {
namespace {

// As a shell takes it: in single quotes unless it is a plain word.
std::string shell_word(const std::string& word) {
  const auto plain = [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) || std::string_view("@%+=:,./-_").find(c) != std::string_view::npos;
  };
  if (!word.empty() && std::all_of(word.begin(), word.end(), plain)) return word;
  std::string quoted = "'";
  for (const char c : word) quoted += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return quoted + "'";
}

std::string text_at(const Json& document, const Json& number) { return document.at("texts").at(number.get<size_t>()); }

// The layers with this verdict, in the order in which they were judged.
std::vector<const Json*> with_verdict(const Json& document, const std::string& verdict) {
  std::vector<const Json*> found;
  if (document["result"].is_null()) return found;
  for (const Json& layer : document["result"]["layers"])
    if (text_at(document, layer.at("verdict")) == verdict) found.push_back(&layer);
  return found;
}

std::string layers(size_t n) { return fmt::format("{} layer{}", n, n == 1 ? "" : "s"); }

std::string wrong_sentence(const Json& document, const std::vector<const Json*>& wrong) {
  const Json& first = *wrong.front();
  std::string text = fmt::format("{} of {} {} wrong", wrong.size(), layers(document["result"]["layers"].size()),
                                 wrong.size() == 1 ? "is" : "are");
  text += fmt::format("{} {}", wrong.size() == 1 ? ":" : ", first", first["tap"].get<std::string>());
  if (first.contains("diagnosis") && first["diagnosis"].contains("cause"))
    text += fmt::format(". It {}", first["diagnosis"]["cause"].get<std::string>());
  return text + ".";
}

std::string sentence(const Json& document) {
  if (document["result"].is_null()) return "This model was recorded and has not been verified.";
  const std::string status = text_in(document["result"], "status");
  const std::vector<const Json*> wrong = with_verdict(document, "wrong here");
  if (!wrong.empty()) return wrong_sentence(document, wrong);
  const size_t count = document["result"]["layers"].size();
  if (status == "passed") return fmt::format("All {} compute what PyTorch computed.", layers(count));
  if (status == "no evidence") return fmt::format("{} were compared, and no output proves anything.", layers(count));
  return "The verification failed: see the result file for the reason.";
}

constexpr const char* kRepro = "pycandle_repro";

// Both commands that replay a wrong layer: the first writes the folders, of all wrong layers.
std::string repro_command(const Json& document, const Sources& sources) {
  return fmt::format("pycandle verify {} --backend {} --repro {}", shell_word(sources.model),
                     shell_word(text_in(document["result"], "backend")), kRepro);
}
std::string replay_command(const Json& layer) {
  return "pycandle replay " + shell_word(fmt::format("{}/{}", kRepro, reproduction_name(layer.at("tap").get<std::string>())));
}

Json next_steps(const Json& document, const Sources& sources) {
  const std::string model = shell_word(sources.model);
  Json steps = Json::array();
  const auto add = [&](const std::string& why, const std::string& command) {
    steps.push_back({{"why", why}, {"command", command}});
  };
  const bool is_recording = !document["bundle"];  // a bundle has no values of PyTorch, and code comes from a recording
  if (document["result"].is_null() && is_recording) {
    add("Check every layer against PyTorch's values, and show it here",
        fmt::format("pycandle verify {0} --out result.jsonl; pycandle report {0} --result result.jsonl", model));
  } else if (const auto wrong = with_verdict(document, "wrong here"); !wrong.empty()) {
    add("Write the wrong layer's values and smallest program into a folder", repro_command(document, sources));
    add("Run that layer alone again", replay_command(*wrong.front()));
  }
  if (document["code"].is_null() && is_recording)
    add("Write the model as C++, and show its lines here",
        fmt::format("pycandle codegen --manifest {0} --out emitted; pycandle report {0} --code emitted", model));
  if (document["profiles"].empty())
    add("Measure where the time goes, and show it here",
        fmt::format("pycandle forward {} --profile --json > profile.json", model));
  return steps;
}

}  // namespace

void add_replays(Json& document, const Sources& sources) {
  if (document["result"].is_null()) return;
  for (Json& layer : document["result"]["layers"])
    if (layer.contains("diagnosis"))  // only of these a folder is written
      layer["replay"] = {repro_command(document, sources), replay_command(layer)};
}

Json summary_part(const Json& document, const Sources& sources) {
  const bool verified = !document["result"].is_null();
  return {{"status", verified ? text_in(document["result"], "status") : "not verified"},
          {"sentence", sentence(document)},
          {"next", next_steps(document, sources)}};
}

}  // namespace pycandle::report
