#include "cli/verify_bundle.h"

#include <fmt/format.h>

#include "base/json.h"
#include "cli/terminal.h"
#include "ops/core/catalogue.h"
#include "params/checksums.h"
#include "passes/structure.h"
#include "runtime/bundle.h"

namespace pycandle::cli {

void run_bundle_check(const std::string& path, Context& context) {
  Progress progress("verify");
  const Recording recording = import_manifest(path, catalogue());  // checks all hashes but those of the weights
  const Bundle& bundle = *recording.bundle;
  const ChecksumReport weights = check_weights(recording, *recorded_parameters(recording));
  std::string difference;
  if (!bundle.decode.empty()) {
    const DecodeStep derived = derive_decode_step(recording.program, catalogue()), kept = bundled_step(bundle, catalogue());
    difference = first_difference(derived.step, kept.step);
    if (difference.empty()) difference = first_difference(derived.setup, kept.setup);
  }
  const bool is_fine = weights.damaged.empty() && difference.empty();
  context.status = is_fine ? 0 : 1;
  progress.finish();
  if (context.json) {
    fmt::print("{}\n",
               Json{{"status", is_fine ? "fine" : "damaged"},
                    {"name", recording.program.name},
                    {"weights", {{"checked", weights.checked}, {"damaged", weights.damaged}}},
                    {"decode_step", bundle.decode.empty() ? Json() : Json(difference.empty() ? "derived again" : difference)},
                    {"capabilities", bundle.capabilities},
                    {"provenance", Json::parse(bundle.provenance)},
                    {"verification", Json::parse(bundle.verification)}}
                   .dump(2));
    return;
  }
  const Json said = Json::parse(bundle.verification);
  fmt::print("{} · bundle · {:.1f} s\n", styled(recording.program.name, Style::bold), progress.seconds());
  Table table;
  table.row({"program", "as it was made", fmt::format("{} nodes", recording.program.graph.nodes.size())});
  table.row({"weights", weights.damaged.empty() ? "as they were made" : styled("DAMAGED", Style::red),
             weights.damaged.empty() ? fmt::format("{} tensors", weights.checked)
                                     : fmt::format("{}", fmt::join(weights.damaged, ", "))});
  if (!bundle.decode.empty())
    table.row({"decode step", difference.empty() ? "as it is derived" : styled("ANOTHER", Style::red), difference});
  if (said.contains("decode"))
    table.row(
        {"proven", "decoding", fmt::format("on {}, by pycandle {}", said["decode"].value("backend", ""), said.value("by", ""))});
  if (said.contains("layers"))
    table.row({"verified", fmt::format("{} layers", said["layers"].value("layers", 0)), "against PyTorch, before it was made"});
  fmt::print("{}\n{}\n", table.text(), is_fine ? "the bundle is what was verified" : "the bundle is not what was verified");
}

}  // namespace pycandle::cli
