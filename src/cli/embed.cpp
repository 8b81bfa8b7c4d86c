// pycandle embed: a vector for each text.
#include <fmt/format.h>

#include "base/file.h"
#include "base/json.h"
#include "base/safetensors.h"
#include "cli/profile.h"
#include "cli/running.h"
#include "cli/terminal.h"
#include "cli/weights.h"
#include "runtime/text_model.h"

namespace pycandle::cli {
namespace {

struct Options {
  RunOptions run;
  std::vector<std::string> texts;
  std::string file, pooling = "mean";
  bool normalize = false;
};

std::vector<std::string> texts_of(const Options& options) {
  std::vector<std::string> texts = options.texts;
  if (!options.file.empty()) {
    const std::string all = read_text(options.file);
    for (size_t begin = 0; begin < all.size();) {
      const size_t end = std::min(all.find('\n', begin), all.size());
      texts.push_back(all.substr(begin, end - begin));
      if (texts.back().ends_with('\r')) texts.back().pop_back();
      begin = end + 1;
    }
  }
  if (texts.empty()) throw Error(ErrorCode::usage, "there is no text").expected("--text TEXT, or --file with a text a line");
  return texts;
}

void print_text(const Options& options, const Model& model, const std::vector<std::string>& texts, const Array& vectors,
                double seconds) {
  const auto width = static_cast<size_t>(vectors.shape()[1]);
  fmt::print("{} · {} · {} texts, {} numbers each · {:.2f} s\n", styled(model.program().name, Style::bold), model.backend(),
             texts.size(), width, seconds);
  Table table;
  for (size_t i = 0; i < texts.size(); ++i) {
    const float* v = vectors.as<float>() + i * width;
    std::vector<std::string> first;
    for (size_t k = 0; k < std::min<size_t>(width, 4); ++k) first.push_back(fmt::format("{:.4f}", v[k]));
    table.row({texts[i].size() > 48 ? texts[i].substr(0, 45) + "…" : texts[i], fmt::format("{} …", fmt::join(first, " "))});
  }
  fmt::print("{}", table.text());
  if (!options.run.out.empty()) fmt::print("written to {}\n", options.run.out);
}

void run_embed(const Options& options, Context& context) {
  const std::vector<std::string> texts = texts_of(options);
  const EmbedOptions how{parse_pooling(options.pooling), options.normalize};
  const Model model = load_for(options.run);
  const Tokenizer tokenizer = tokenizer_for(model, options.run);
  Progress clock("embed");
  const RunsProfile profile(options.run.profile, options.run.load.pipeline.threads);
  const Array vectors = embed(model, tokenizer, texts, how);
  clock.finish();
  if (!options.run.out.empty()) write_safetensors(options.run.out, {{"embeddings", vectors}});
  if (!context.json) {
    print_text(options, model, texts, vectors, clock.seconds());
    if (options.run.timing) print_timings(model.timings());
    profile.print();
    return;
  }
  const auto width = static_cast<size_t>(vectors.shape()[1]);
  Json list = Json::array();
  for (size_t i = 0; i < texts.size(); ++i) {
    const float* v = vectors.as<float>() + i * width;
    list.push_back({{"text", texts[i]}, {"embedding", std::vector<float>(v, v + width)}});
  }
  Json document{{"status", "fine"},           {"name", model.program().name},    {"backend", model.backend()},
                {"pooling", options.pooling}, {"normalized", options.normalize}, {"embeddings", list}};
  profile.add_to(document);
  fmt::print("{}\n", document.dump(2, ' ', false, Json::error_handler_t::replace));
}

}  // namespace

void add_embed(Command& app, Context& context) {
  auto options = std::make_shared<Options>();
  Command command = add_command(app, context, "embed", "a vector for each text, from an embedding model",
                                "pycandle embed minilm.pycandle --text \"A man eats pasta.\" --pool mean --normalize --json");
  options->run.load.backend = usual_backend();
  add_model_options(command, options->run);
  add_profile_option(command, options->run.profile);
  command.add_option("--text", options->texts, "a text (repeatable)");
  command.add_option("--file", options->file, "a file with a text on each line");
  command.add_option("--tokenizer", options->run.tokenizer, "a tokenizer.json, when the model is no bundle with one");
  command.add_option("--pool", options->pooling, "of a model that gives a vector for each token: their mean, or the first one")
      .one_of({"mean", "cls"})
      .shows_default();
  command.add_flag("--normalize", options->normalize, "vectors of length 1");
  command.add_option("--out", options->run.out, "write the vectors to this safetensors file, as `embeddings`");
  command.callback([options, &context] { run_embed(*options, context); });
}

}  // namespace pycandle::cli
