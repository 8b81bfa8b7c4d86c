// pycandle report: one self-contained page about a model.
#include "report/report.h"

#include <fmt/format.h>

#include "base/file.h"
#include "cli/command.h"
#include "cli/terminal.h"

namespace pycandle::cli {
namespace {

struct Options {
  report::Sources sources;
  std::string result, baseline, ledger, code, out, format = "html", badge;
  std::vector<std::string> profiles;
  bool no_weights = false;
};

std::string rendered(const Json& document, const std::string& format) {
  if (format == "md") return report::markdown(document);
  if (format == "json") return document.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
  return report::html_page(document);
}

void run_report(Options& options, Context& context) {
  if (!options.baseline.empty() && options.result.empty())
    throw Error(ErrorCode::usage, "--baseline needs --result").hint("the baseline is what the result is compared with");
  options.sources.result = options.result;
  options.sources.baseline = options.baseline;
  options.sources.ledger = options.ledger;
  options.sources.code = options.code;
  options.sources.profiles.assign(options.profiles.begin(), options.profiles.end());
  options.sources.weights = !options.no_weights && options.format != "md";  // Markdown does not show them
  Progress progress("report: weights");  // the rest is read in no time
  options.sources.progress = [&](size_t done, size_t total) { progress.update(done, total); };
  const Json document = report::collect(options.sources);
  progress.finish();
  const std::string text = rendered(document, options.format);
  if (!options.badge.empty()) write_text(options.badge, report::badge(document));
  if (options.out == "-") {
    fmt::print("{}", text);
    return;
  }
  const std::string out = options.out.empty() ? "report." + options.format : options.out;
  write_text(out, text);
  const std::string sentence = document["summary"]["sentence"];
  if (context.json) {
    fmt::print("{}\n", Json{{"status", document["summary"]["status"]},
                            {"sentence", sentence},
                            {"out", out},
                            {"bytes", text.size()},
                            {"badge", options.badge.empty() ? Json() : Json(options.badge)}}
                           .dump(2, ' ', false, Json::error_handler_t::replace));
    return;
  }
  fmt::print("{}\n  wrote  {}  {}\n", wrapped(sentence, 0, 0), out, human_bytes(static_cast<double>(text.size())));
  if (!options.badge.empty()) fmt::print("  wrote  {}\n", options.badge);
  if (options.format == "html") fmt::print("  open   {} in a browser: it needs no server and no network\n", out);
}

}  // namespace

void add_report(Command& app, Context& context) {
  auto options = std::make_shared<Options>();
  Command command = add_command(app, context, "report", "write one page about a model: layers, drift, time, weights",
                                "pycandle report pycandle_trace --result result.jsonl -o report.html");
  command.add_option("model", options->sources.model, "a manifest, the folder of one, or a bundle").required();
  command.add_option("--result", options->result, "a file of pycandle verify --out");
  command.add_option("--baseline", options->baseline, "an earlier one: the report says what became better or worse");
  command.add_option("--profile", options->profiles,
                     "what pycandle forward --profile --json printed; several stand side by side");
  command.add_option("--code", options->code,
                     "what pycandle codegen wrote, a header or a folder: its lines stand beside Python's");
  command.add_option("--ledger", options->ledger,
                     "what --ledger of pycandle weights extract or forward wrote: where each parameter came from");
  command.add_option("-o,--out", options->out,
                     "where the report goes: report.html and so on when it is not given, - to print it");
  command.add_option("--format", options->format, "html: a page; md: a summary for a pull request; json: all facts")
      .one_of({"html", "md", "json"})
      .shows_default();
  command.add_option("--badge", options->badge, "write a small SVG with the verdict, too");
  command.add_flag("--no-weights", options->no_weights, "do not read the weights for their statistics");
  command.callback([options, &context] { run_report(*options, context); });
}

}  // namespace pycandle::cli
