// pycandle replay: one wrong layer again, from the folder that verify --repro wrote.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "cli/command.h"
#include "cli/running.h"
#include "cli/terminal.h"
#include "ops/core/catalogue.h"
#include "runtime/backends.h"
#include "verify/diagnosing/repro.h"
#include "verify/result_json.h"

namespace pycandle::cli {

void add_replay(Command& app, Context& context) {
  struct Options {
    std::string folder, backend = usual_backend("reference");
    PipelineOptions pipeline;
  };
  auto options = std::make_shared<Options>();
  Command command = add_command(app, context, "replay", "run one wrong layer again; exit 1 while it is wrong",
                                "pycandle replay pycandle_repro/h.7.mlp.act@0-output");
  command.add_option("folder", options->folder, "what pycandle verify --repro wrote for the layer").required();
  command.add_option("--backend", options->backend, fmt::format("one of: {}", fmt::join(backend_names(), ", "))).shows_default();
  add_backend_options(command, options->pipeline);
  command.callback([options, &context] {
    refuse_choices_without_effect(options->backend, options->pipeline);
    const Replay r = replay(options->folder, find_backend(options->backend), catalogue(), options->pipeline);
    context.status = r.is_fixed() ? 0 : 1;
    if (context.json) {
      const Json json{{"status", r.is_fixed() ? "passed" : "wrong"},
                      {"tap", r.tap},
                      {"op", r.op},
                      {"backend", options->backend},
                      {"recorded_backend", r.recorded_backend},
                      {"then", to_json(r.then, {})},
                      {"now", to_json(r.now, {})},
                      {"why", r.judgement.why}};
      fmt::print("{}\n", json.dump(2, ' ', false, Json::error_handler_t::replace));
      return;
    }
    const auto line = [](const std::string& what, const Metrics& m) {
      fmt::print("  {:24} abs {}  rel {}  cos {:.7f}\n", what, short_number(m.max_abs), short_number(m.max_rel), m.cosine);
    };
    fmt::print("{} · {} · {}\n", styled(r.tap, Style::bold), r.op, options->backend);
    line(fmt::format("then ({})", r.recorded_backend), r.then);
    line(fmt::format("now ({})", options->backend), r.now);
    fmt::print("{}\n", r.is_fixed() ? styled("right", Style::green) : styled("still wrong: ", Style::red) + r.judgement.why);
  });
}

}  // namespace pycandle::cli
