// pycandle doctor: what this machine has of what PyCandle needs.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <thread>

#include "base/json.h"
#include "base/safetensors.h"
#include "base/version.h"
#include "cli/child.h"
#include "cli/command.h"
#include "cli/python_finder.h"
#include "cli/terminal.h"
#include "ops/core/catalogue.h"
#include "params/checksums.h"
#include "runtime/backends.h"
#include "runtime/machine.h"
#include "runtime/model.h"
#include "runtime/plugins.h"

namespace pycandle::cli {
namespace {

enum class State { ok, note, missing, damaged };

struct Finding {
  std::string what, found;
  State state = State::ok;
  std::string hint = {};  // where it is not ok
};

constexpr const char* kAskTested = "from pycandle.recording.torch_versions import untested; print(untested())";
constexpr const char* kAskBf16 = "from pycandle.recording.processor import torch_dies_in_bf16 as dies; print(dies())";

// Recording goes on with any torch; releases that nobody tried it with are marked.
void say_whether_tested(const std::string& python, Finding& torch) {
  const auto untested = ask_python(python, kAskTested);
  if (!untested) return;  // that Python has no pycandle
  torch.found += untested->empty() ? ", tested" : ", not tested";
  if (!untested->empty()) torch.state = State::note;
  torch.hint = *untested;
}

bool is_good(State state) { return state == State::ok || state == State::note; }

State found_or_missing(bool found) { return found ? State::ok : State::missing; }

std::vector<Finding> findings(const std::string& named) {
  std::vector<Finding> all;
  all.push_back({"pycandle", version()});
  all.push_back({"operators", fmt::format("{} ops, {} ATen overloads", catalogue().all().size(), catalogue().aten().size())});
  all.push_back({"backends", fmt::format("{}", fmt::join(backend_names(), ", "))});
  for (const FoundPlugin& plugin : found_plugins()) {
    all.push_back({"backend " + plugin.name, plugin.refused ? plugin.refused->message() : plugin.library.string(),
                   plugin.refused ? State::damaged : State::ok, plugin.refused ? plugin.refused->hint() : ""});
  }
  all.push_back({"kernels",
                 fmt::format("{} (the first is used, or the one that PYCANDLE_ISA names)", fmt::join(instruction_sets(), ", "))});
  all.push_back({"threads", fmt::format("{}", std::thread::hardware_concurrency())});
  const auto python = find_python(named);
  if (!python) {
    all.push_back({"python", "not found (--python, PYCANDLE_PYTHON, .pycandle/venv, beside the program, PATH)", State::missing,
                   "recording needs Python 3.11 with torch; everything else works without"});
    return all;
  }
  const auto version = ask_python(python->path, "import platform; print(platform.python_version())");
  all.push_back({"python",
                 version ? fmt::format("{} at {} (from {})", *version, python->path, python->how)
                         : fmt::format("{} (from {}) does not run", python->path, python->how),
                 found_or_missing(version.has_value()), "name another with --python or PYCANDLE_PYTHON"});
  if (!version) return all;
  bool has_torch = false;
  for (const std::string package : {"pycandle", "torch", "safetensors", "numpy"}) {
    const auto found = ask_python(python->path, fmt::format("import importlib.metadata as m; print(m.version('{}'))", package));
    has_torch |= package == "torch" && found;
    const bool ours = package == "pycandle";
    all.push_back({package + " in python", found.value_or("not installed"), found_or_missing(found.has_value()),
                   ours ? "recording needs it: install PyCandle's wheel for that Python (make wheel in its sources builds it)"
                        : fmt::format("recording needs it: install {} for that Python", package)});
    if (package == "torch" && found) say_whether_tested(python->path, all.back());
  }
  const auto dies = has_torch ? ask_python(python->path, kAskBf16) : std::nullopt;
  if (dies) {
    const bool works = *dies != "True";
    all.push_back({"bf16 in torch", works ? "works" : "its products crash on this processor (SIGILL)",
                   works ? State::ok : State::note,
                   "recording avoids it; for your own scripts set ONEDNN_MAX_CPU_ISA=AVX512_CORE_BF16"});
  }
  return all;
}

// A recording: does it load, and are its weights the recorded ones?
std::vector<Finding> findings_of_recording(const std::string& path) {
  std::vector<Finding> all;
  const Recording recording = import_manifest(path, catalogue());
  all.push_back({recording.bundle ? "bundle" : "recording",
                 fmt::format("{} of {}, {} nodes, {}", recording.program.name, recording.model_class,
                             recording.program.graph.nodes.size(), recording.soundness)});
  const ChecksumReport report = check_weights(recording, *recorded_parameters(recording));
  const auto count = static_cast<size_t>(std::count_if(recording.program.parameters.begin(), recording.program.parameters.end(),
                                                       [](const Parameter& p) { return !p.file.empty(); })) +
                     recording.program.states.size();
  if (!report.damaged.empty()) {
    all.push_back({"weights", fmt::format("damaged: {}", fmt::join(report.damaged, ", ")), State::damaged,
                   recording.bundle ? "copy the bundle again, or make it again"
                                    : "copy the weights file again, or record the model again"});
  } else if (report.checked < count) {
    all.push_back({"weights", fmt::format("{} of {} tensors have a checksum, and those agree", report.checked, count),
                   State::note, "recordings of this version carry one for each"});
  } else {
    all.push_back({"weights", count == 0 ? "none are saved" : fmt::format("{} tensors, all as recorded", count)});
  }
  std::vector<std::filesystem::path> traces = recording.traces(), perturbed = recording.perturbed_traces();
  traces.insert(traces.end(), perturbed.begin(), perturbed.end());
  for (const std::filesystem::path& file : traces) {
    all.push_back({"goldens", fmt::format("{} tensors", Safetensors::open(file).entries().size())});
  }
  return all;
}

std::string shown(State state) {
  switch (state) {
    case State::ok: return styled("ok", Style::green);
    case State::note: return styled("note", Style::yellow);
    case State::missing: return styled("missing", Style::yellow);
    case State::damaged: break;
  }
  return styled("damaged", Style::red);
}

}  // namespace

void add_doctor(Command& app, Context& context) {
  auto named = std::make_shared<std::string>(), recording = std::make_shared<std::string>();
  Command command = add_command(app, context, "doctor", "show what was found on this machine, or whether a recording is whole",
                                "pycandle doctor\n  pycandle doctor pycandle_trace --json");
  command.add_option("recording", *recording, "a manifest, its folder, or a bundle: look at its weights instead of this machine");
  command.add_option("--python", *named, "look at this Python");
  command.callback([named, recording, &context] {
    const std::vector<Finding> all = recording->empty() ? findings(*named) : findings_of_recording(*recording);
    const bool good = std::all_of(all.begin(), all.end(), [](const Finding& f) { return is_good(f.state); });
    if (context.json) {
      Json list = Json::array();
      for (const Finding& f : all)
        list.push_back(
            {{"what", f.what}, {"found", f.found}, {"good", is_good(f.state)}, {"hint", f.state == State::ok ? "" : f.hint}});
      fmt::print("{}\n", Json{{"status", good                 ? "fine"
                                         : recording->empty() ? "incomplete"
                                                              : "damaged"},
                              {"findings", list}}
                             .dump(2));
    } else {
      Table table;
      for (const Finding& f : all) {
        table.row({shown(f.state), f.what, f.found});
        if (f.state != State::ok && !f.hint.empty()) table.row({"", "", f.hint});
      }
      fmt::print("{}", table.text());
    }
    context.status = good ? 0 : 1;
  });
}

}  // namespace pycandle::cli
