// pycandle codegen --analyze-only: how much of a recording the catalogue supports, before anything is built.
#include <fmt/format.h>

#include "base/json.h"
#include "cli/command.h"
#include "cli/terminal.h"
#include "import/importer.h"
#include "ops/catalogue.h"

namespace pycandle::cli {
namespace {

double coverage_percent(const Analysis& a) { return a.total == 0 ? 100.0 : 100.0 * a.supported / a.total; }

Json to_json(const Analysis& a) {
  Json gaps = Json::array();
  for (const Gap& gap : a.gaps) {
    gaps.push_back(
        {{"op", gap.op}, {"count", gap.count}, {"reason", gap.reason}, {"suggestion", gap.suggestion}, {"places", gap.places}});
  }
  Json layers = Json::array();
  for (const auto& layer : a.layers) {
    layers.push_back(
        {{"path", layer.path}, {"class", layer.class_name}, {"nodes", layer.nodes}, {"unsupported", layer.unsupported}});
  }
  return {{"name", a.name},
          {"supported", a.supported},
          {"unsupported", a.total - a.supported},
          {"total", a.total},
          {"coverage_percent", coverage_percent(a)},
          {"gaps", gaps},
          {"layers", layers}};
}

void print_text(const Analysis& a) {
  fmt::print("{}: {} of {} nodes are supported ({:.1f} %)\n", styled(a.name, Style::bold), a.supported, a.total,
             coverage_percent(a));
  for (const Gap& gap : a.gaps) {
    fmt::print("\n{} {}{}\n", styled("gap", Style::red), gap.op, gap.count > 1 ? fmt::format(", {} times", gap.count) : "");
    if (!gap.reason.empty()) fmt::print("  why   {}\n", gap.reason);
    for (size_t i = 0; i < gap.places.size() && i < 3; ++i) fmt::print("  in    {}\n", gap.places[i]);
    if (gap.places.size() > 3) fmt::print("        and {} more places (--json lists them)\n", gap.places.size() - 3);
    if (!gap.suggestion.empty()) fmt::print("  hint  {}\n", gap.suggestion);
  }
  if (a.gaps.empty()) return;
  Table table;
  for (const auto& layer : a.layers) {
    if (layer.unsupported > 0)
      table.row({layer.path.empty() ? "(root)" : layer.path, layer.class_name,
                 fmt::format("{} of {} nodes", layer.unsupported, layer.nodes)});
  }
  fmt::print("\nlayers with gaps\n{}", table.text());
}

}  // namespace

void add_codegen(CLI::App& app, Context& context) {
  struct Options {
    std::string manifest;
    bool analyze_only = false;
  };
  auto options = std::make_shared<Options>();
  CLI::App* command = add_command(app, context, "codegen", "say how much of a recording is supported (--analyze-only)",
                                  "pycandle codegen --analyze-only --manifest pycandle_trace/gpt2_manifest.json");
  command->add_option("--manifest", options->manifest, "a manifest, or the folder of one")->required();
  command->add_flag("--analyze-only", options->analyze_only, "report coverage and gaps; exit 1 when there are gaps")->required();
  command->callback([options, &context] {
    const Analysis analysis = analyze_manifest(find_manifest(options->manifest), catalogue());
    if (context.json) {
      fmt::print("{}\n", to_json(analysis).dump(2));
    } else {
      print_text(analysis);
    }
    context.status = analysis.gaps.empty() ? 0 : 1;
  });
}

}  // namespace pycandle::cli
