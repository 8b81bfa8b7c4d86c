// pycandle replay: one wrong layer again, from the folder that verify --repro wrote.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/file.h"
#include "cli/command.h"
#include "cli/heatmap.h"
#include "cli/profile.h"
#include "cli/running.h"
#include "cli/terminal.h"
#include "ops/core/catalogue.h"
#include "runtime/backends.h"
#include "verify/diagnosing/repro.h"
#include "verify/result_json.h"

namespace pycandle::cli {

void add_replay(Command& app, Context& context) {
  struct Options {
    std::string folder, backend = usual_backend("reference"), png;
    PipelineOptions pipeline;
    bool profile = false;
  };
  auto options = std::make_shared<Options>();
  Command command = add_command(app, context, "replay", "run one wrong layer again; exit 1 while it is wrong",
                                "pycandle replay pycandle_repro/h.7.mlp.act@0-output");
  command.add_option("folder", options->folder, "what pycandle verify --repro wrote for the layer").required();
  command.add_option("--backend", options->backend, "what runs the op").suggests(backend_names()).shows_default();
  command.add_option("--png", options->png, "write a picture of where it differs now");
  add_backend_options(command, options->pipeline);
  add_pipeline_options(command, options->pipeline);
  add_profile_option(command, options->profile);
  command.callback([options, &context] {
    refuse_choices_without_effect(options->backend, options->pipeline);
    const PictureSize size = options->png.empty() ? PictureSize{16, 64} : PictureSize{256, 256};
    const RunsProfile profile(options->profile, options->pipeline.threads);
    const Replay r = replay(options->folder, find_backend(options->backend), catalogue(), options->pipeline, size);
    context.status = r.is_fixed() ? 0 : 1;
    if (!options->png.empty() && !r.picture.empty()) write_text(options->png, difference_png(r.picture));
    if (context.json) {
      Json json{{"status", r.is_fixed() ? "passed" : "wrong"},
                {"tap", r.tap},
                {"op", r.op},
                {"backend", options->backend},
                {"recorded_backend", r.recorded_backend},
                {"then", to_json(r.then, {})},
                {"now", to_json(r.now, {})},
                {"why", r.judgement.why}};
      profile.add_to(json);
      fmt::print("{}\n", json.dump(2, ' ', false, Json::error_handler_t::replace));
      return;
    }
    const auto line = [](const std::string& what, const Metrics& m) {
      fmt::print("  {:24} abs {}  rel {}  cos {:.7f}\n", what, short_number(m.max_abs), short_number(m.max_rel), m.cosine);
    };
    fmt::print("{} · {} · {}\n", styled(r.tap, Style::bold), r.op, options->backend);
    line(fmt::format("then ({})", r.recorded_backend), r.then);
    line(fmt::format("now ({})", options->backend), r.now);
    if (options->png.empty()) {
      fmt::print("{}", heatmap(r.picture));
    } else {
      fmt::print("{}\n", r.picture.empty() ? "nothing differs, so there is no picture" : "wrote " + options->png);
    }
    fmt::print("{}\n", r.is_fixed() ? styled("right", Style::green) : styled("still wrong: ", Style::red) + r.judgement.why);
    profile.print();
  });
}

}  // namespace pycandle::cli
