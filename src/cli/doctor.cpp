// pycandle doctor: what this machine has of what PyCandle needs.
#include <fmt/format.h>

#include <thread>

#include "base/json.h"
#include "cli/child.h"
#include "cli/command.h"
#include "cli/python_finder.h"
#include "cli/terminal.h"
#include "ops/catalogue.h"
#include "runtime/backends.h"

namespace pycandle::cli {
namespace {

enum class State { ok, note, missing };

struct Finding {
  std::string what, found;
  State state = State::ok;
  std::string hint = "";  // where it is not ok
};

constexpr const char* kAskBf16 = "from pycandle.processor import torch_dies_in_bf16 as dies; print(dies())";

State found_or_missing(bool found) { return found ? State::ok : State::missing; }

std::vector<Finding> findings(const std::string& named) {
  std::vector<Finding> all;
  all.push_back({"pycandle", PYCANDLE_VERSION});
  all.push_back({"operators", fmt::format("{} ops, {} ATen overloads", catalogue().all().size(), catalogue().aten().size())});
  all.push_back({"backends", fmt::format("{}", fmt::join(backend_names(), ", "))});
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
  for (const char* package : {"pycandle", "torch", "safetensors", "numpy"}) {
    const auto found = ask_python(python->path, fmt::format("import importlib.metadata as m; print(m.version('{}'))", package));
    all.push_back({package + std::string(" in python"), found.value_or("not installed"), found_or_missing(found.has_value()),
                   fmt::format("recording needs it: install {} for that Python", package)});
  }
  if (const auto dies = ask_python(python->path, kAskBf16)) {
    const bool works = *dies != "True";
    all.push_back({"bf16 in torch", works ? "works" : "its products crash on this processor (SIGILL)",
                   works ? State::ok : State::note,
                   "recording avoids it; for your own scripts set ONEDNN_MAX_CPU_ISA=AVX512_CORE_BF16"});
  }
  return all;
}

std::string shown(State state) {
  switch (state) {
    case State::ok: return styled("ok", Style::green);
    case State::note: return styled("note", Style::yellow);
    case State::missing: break;
  }
  return styled("missing", Style::yellow);
}

}  // namespace

void add_doctor(Command& app, Context& context) {
  auto named = std::make_shared<std::string>();
  Command command = add_command(app, context, "doctor", "show what was found on this machine: version, backends, Python, torch",
                                "pycandle doctor --json");
  command.add_option("--python", *named, "look at this Python");
  command.callback([named, &context] {
    const std::vector<Finding> all = findings(*named);
    const bool good = std::none_of(all.begin(), all.end(), [](const Finding& f) { return f.state == State::missing; });
    if (context.json) {
      Json list = Json::array();
      for (const Finding& f : all)
        list.push_back({{"what", f.what},
                        {"found", f.found},
                        {"good", f.state != State::missing},
                        {"hint", f.state == State::ok ? "" : f.hint}});
      fmt::print("{}\n", Json{{"status", good ? "fine" : "incomplete"}, {"findings", list}}.dump(2));
    } else {
      Table table;
      for (const Finding& f : all) table.row({shown(f.state), f.what, f.found, f.state == State::ok ? "" : f.hint});
      fmt::print("{}", table.text());
    }
    context.status = good ? 0 : 1;
  });
}

}  // namespace pycandle::cli
