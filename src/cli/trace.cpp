// pycandle trace: runs a recorded model and keeps the value of every tap, in the layout of the recorder's trace file.
#include <fmt/format.h>

#include "base/json.h"
#include "base/safetensors.h"
#include "cli/profile.h"
#include "cli/running.h"
#include "cli/terminal.h"
#include "cli/weights.h"

namespace pycandle::cli {

void add_trace(Command& app, Context& context) {
  auto options = std::make_shared<RunOptions>();
  Command command = add_command(app, context, "trace", "run a recorded model and write the value of every tap",
                                "pycandle trace pycandle_trace --out gpt2_ours.safetensors");
  options->load.backend = usual_backend("reference");
  add_run_options(command, *options);
  add_profile_option(command, options->profile);
  command.get_option("--out").required();
  command.callback([options, &context] {
    refuse_choices_without_effect(options->load.backend, options->load.pipeline);
    const Model model = load_for(*options);
    const Model::Tensors inputs = inputs_for(model, *options);
    Progress progress("trace");
    const RunsProfile profile(options->profile, options->load.pipeline.threads);
    std::map<std::string, Array> tensors;
    size_t taps = 0;
    const auto outputs = model.trace(inputs, [&](const Tap& tap, const Array& value) {
      tensors[tap.key.empty() ? tap.id.text() : tap.key] = value;
      progress.update(++taps, model.program().taps.size());
    });
    progress.finish();
    for (const auto& [name, value] : inputs) tensors["input:" + name] = value;
    for (const auto& [name, value] : outputs) tensors["output:" + name] = value;
    write_safetensors(options->out, tensors);
    std::vector<std::string> inside;  // taken in by an op that was recognised: there is no such value
    for (const Tap& tap : model.program().taps) {
      if (tap.inside) inside.push_back(tap.id.text());
    }
    size_t bytes = 0;
    for (const auto& [name, value] : tensors) bytes += value.bytes();
    if (context.json) {
      Json document{{"status", "fine"},
                    {"name", model.program().name},
                    {"backend", model.backend()},
                    {"taps", taps},
                    {"inside", inside},
                    {"bytes", bytes},
                    {"weights", Json::parse(counts_json(model.ledger()))},
                    {"out", options->out}};
      profile.add_to(document);
      fmt::print("{}\n", document.dump(2));
      return;
    }
    const std::string not_shown = inside.empty() ? "" : fmt::format(" ({} more inside other ops)", inside.size());
    fmt::print("{} · {} · {} taps{} · {:.2f} s\n{} in {}\n", styled(model.program().name, Style::bold), model.backend(), taps,
               not_shown, progress.seconds(), human_bytes(static_cast<double>(bytes)), options->out);
    fmt::print("weights: {}", ledger_text(model.ledger()));
    if (options->timing) print_timings(model.timings());
    profile.print();
  });
}

}  // namespace pycandle::cli
