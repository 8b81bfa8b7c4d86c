// pycandle accept: a program that is not the recorded one, and is meant to be what it is.
#include <fmt/chrono.h>
#include <fmt/format.h>
#include <pwd.h>
#include <unistd.h>

#include <ctime>
#include <filesystem>

#include "base/file.h"
#include "base/json.h"
#include "cli/child.h"
#include "cli/command.h"
#include "cli/terminal.h"
#include "ir/text.h"
#include "ops/core/catalogue.h"
#include "passes/structure.h"
#include "runtime/model.h"
#include "verify/accepted.h"
#include "verify/diagnosing/captured.h"

namespace pycandle::cli {
namespace {

struct Options {
  std::string path, manifest, reason, by;
  bool force = false;
};

std::string who_is_asking() {
  const std::string name = output_of({"git", "config", "user.name"}).value_or("");
  const std::string mail = output_of({"git", "config", "user.email"}).value_or("");
  if (!name.empty()) return mail.empty() ? name : fmt::format("{} <{}>", name, mail);
  const passwd* user = getpwuid(getuid());
  return user != nullptr ? user->pw_name : "unknown";
}

std::string today() {
  std::tm utc{};
  const std::time_t now = std::time(nullptr);
  gmtime_r(&now, &utc);
  return fmt::format("{:%Y-%m-%d}", utc);
}

std::vector<std::string> lines_of(const std::vector<DifferingPart>& parts) {
  std::vector<std::string> lines;
  for (const DifferingPart& part : parts) {
    for (const DifferingOp& op : part.ops)
      lines.push_back(fmt::format("{} {} in {}", op.is_recorded ? '-' : '+', op.text,
                                  part.calls.front().empty() ? "the model" : part.calls.front()));
  }
  return lines;
}

Json to_json(const ProgramComparison& c) {
  Json parts = Json::array();
  for (const DifferingPart& part : c.parts) {
    Json ops = Json::array();
    for (const DifferingOp& op : part.ops)
      ops.push_back(
          {{"program", op.is_recorded ? "recorded" : "captured"}, {"op", op.text}, {"place", op.place}, {"source", op.source}});
    parts.push_back({{"calls", part.calls}, {"class", part.class_name}, {"ops", ops}});
  }
  Json json{{"likeness", to_string(c.likeness)}, {"verdict", c.verdict()}, {"tried", c.tried}, {"differences", parts}};
  if (c.shown)
    json["shown"] = {{"what", c.shown->what},
                     {"inputs", c.shown->inputs},
                     {"where", c.shown->where},
                     {"expected", c.shown->expected},
                     {"found", c.shown->found}};
  return json;
}

void accept(const Options& options, Context& context) {
  if (options.reason.find_first_not_of(" \t\n") == std::string::npos)
    throw Error(ErrorCode::usage, "accept needs a reason").expected("--reason \"why it is meant\"");
  const KeptProgram kept = find_kept_program(options.path, options.manifest);
  const Recording recording = import_manifest(kept.manifest, catalogue());
  const Program recorded = run_program_pipeline(recording.program, catalogue());
  Program captured = parse_program(read_text(kept.program), catalogue(), kept.program.filename().string());
  adopt_parameters(captured, recording.program);
  const ProgramComparison found = compare_with_recording(recording, recorded, {captured, recorded_parameters(recording)},
                                                         catalogue());
  const bool is_same = found.likeness == Likeness::same, is_refused = !is_harmless(found.likeness) && !options.force;
  Acceptance a{recorded.name,
               hash_of(structure_of(captured)).text(),
               hash_of(structure_of(recorded)).text(),
               options.by.empty() ? who_is_asking() : options.by,
               today(),
               options.reason,
               to_string(found.likeness),
               !is_harmless(found.likeness),
               lines_of(found.parts)};
  if (!is_same && !is_refused) write_acceptance(kept.project, a);
  const std::string file = (kept.project / kAcceptedFile).lexically_normal().string();
  context.status = is_refused ? 1 : 0;
  if (context.json) {
    Json json = to_json(found);
    json["status"] = is_same ? "the recorded program" : is_refused ? "refused" : "accepted";
    json.update({{"recording", a.recording},
                 {"program", a.program},
                 {"by", a.by},
                 {"date", a.date},
                 {"reason", a.reason},
                 {"file", file}});
    fmt::print("{}\n", json.dump(2, ' ', false, Json::error_handler_t::replace));
    return;
  }
  if (is_same) return fmt::print("{} is the recorded program: there is nothing to accept\n", kept.program.string());
  fmt::print("{}\n", found.text());
  if (is_refused)
    return fmt::print("{} nothing was written. Correct the code, or accept it all the same with --force.\n",
                      styled("refused:", Style::red));
  fmt::print("{}\nnoted in {}: commit it with the change\n", styled(a.text(), Style::green), file);
}

}  // namespace

void add_accept(Command& app, Context& context) {
  auto options = std::make_shared<Options>();
  Command command = add_command(app, context, "accept",
                                "note that emitted code was changed on purpose; exit 1 when the change shows in the results",
                                "pycandle accept . --reason \"squares without pow\"");
  command
      .add_option("project", options->path,
                  "a project whose test failed, or the program that the test kept (.pycandle/captured/*.ptir)")
      .required();
  command.add_option("--reason", options->reason, "why the change is intended; kept in accepted.json").required();
  command.add_option("--by", options->by, "who accepts it (git's user.name)");
  command.add_option("--manifest", options->manifest, "the recording, if the program's folder does not name one");
  command.add_flag("--force", options->force, "accept the program even if it differs for some input");
  command.callback([options, &context] { accept(*options, context); });
}

}  // namespace pycandle::cli
