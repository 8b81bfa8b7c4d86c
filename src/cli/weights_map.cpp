// pycandle weights map: which tensor is which parameter, when the names differ.
#include <fmt/format.h>

#include <cstdlib>

#include "base/file.h"
#include "base/json.h"
#include "cli/terminal.h"
#include "cli/weights.h"

namespace pycandle::cli {
namespace {

struct Options {
  std::filesystem::path checkpoint, manifest, out;
  std::vector<int> heads;
  std::optional<std::string> section;
};

void run(const Options& options, Context& context) {
  MapRequest request{options.checkpoint, options.manifest, {options.section}, {}};
  if (!options.heads.empty()) request.heads = {options.heads.front(), options.heads.back()};
  const MapResult result = map_weights(request);
  const Proposals& proposals = result.proposals;
  if (!options.out.empty()) write_text(options.out, result.rules);
  std::map<std::string, size_t> reasons;
  for (const NameProposal& p : proposals.found) ++reasons[name_of(p.why)];
  if (!result.is_complete()) context.status = 1;
  if (context.json) {
    Json found = Json::array(), ambiguous = Json::array();
    for (const NameProposal& p : proposals.found)
      found.push_back({{"parameter", p.target}, {"source", p.source.text()}, {"why", name_of(p.why)}});
    for (const Ambiguity& a : proposals.ambiguous)
      ambiguous.push_back({{"parameter", a.target}, {"candidates", a.candidates}, {"reason", a.reason}});
    fmt::print("{}\n", Json{{"complete", result.is_complete()},
                            {"found", found},
                            {"ambiguous", ambiguous},
                            {"unmatched", proposals.unmatched},
                            {"hint", result.hint},
                            {"rules", result.rules}}
                           .dump(2, ' ', false, Json::error_handler_t::replace));
    return;
  }
  if (options.out.empty()) fmt::print("{}\n", result.rules);
  std::vector<std::string> parts;
  for (const auto& [why, count] : reasons) parts.push_back(fmt::format("{} by {}", count, why));
  const size_t wanted = proposals.found.size() + proposals.ambiguous.size() + proposals.unmatched.size();
  fmt::print("{} of {} parameters found ({}), {} ambiguous, {} without any\n", proposals.found.size(), wanted,
             fmt::join(parts, ", "), proposals.ambiguous.size(), proposals.unmatched.size());
  if (reasons.contains(name_of(Why::order)) || reasons.contains(name_of(Why::shape)))
    fmt::print("{}\n",
               styled("what was found by order or shape alone is likely, not certain: verify the outputs", Style::yellow));
  if (!result.hint.empty()) fmt::print("{}\n", styled(result.hint, Style::yellow));
  if (!options.out.empty())
    fmt::print("written to {}; next: pycandle weights extract --map {}\n", options.out.string(), options.out.string());
}

}  // namespace

void add_weights_map(Command& app, Context& context) {
  auto options = std::make_shared<Options>();
  Command command = add_command(app, context, "map",
                                "propose which tensor of a checkpoint is which parameter, as a file of rules",
                                "pycandle weights map -i consolidated.00.pth -m pycandle_trace -o llama.map");
  command.add_option("-i,--checkpoint", options->checkpoint, "a file, an index.json, or the folder of a checkpoint").required();
  command.add_option("-m,--manifest", options->manifest, "the recording, or a checkpoint whose names and shapes are wanted")
      .required();
  command.add_option("-o,--out", options->out, "write the rules to this file; otherwise they are printed");
  command.add_option("--heads", options->heads, "heads of attention, and of keys and values when they differ: 32,8")
      .delimiter(',');
  add_section_option(command, options->section);
  command.callback([options, &context] { run(*options, context); });
}

}  // namespace pycandle::cli
