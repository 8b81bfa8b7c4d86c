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

struct Finding {
  std::string what, found;
  bool good;
  std::string hint;
};

std::vector<Finding> findings(const std::string& named) {
  std::vector<Finding> all;
  all.push_back({"pycandle", PYCANDLE_VERSION, true, ""});
  all.push_back(
      {"operators", fmt::format("{} ops, {} ATen overloads", catalogue().all().size(), catalogue().aten().size()), true, ""});
  all.push_back({"backends", fmt::format("{}", fmt::join(backend_names(), ", ")), true, ""});
  all.push_back({"threads", fmt::format("{}", std::thread::hardware_concurrency()), true, ""});
  const auto python = find_python(named);
  if (!python) {
    all.push_back({"python", "not found (--python, PYCANDLE_PYTHON, .pycandle/venv, beside the program, PATH)", false,
                   "recording needs Python 3.11 with torch; everything else works without"});
    return all;
  }
  const auto version = ask_python(python->path, "import platform; print(platform.python_version())");
  all.push_back({"python",
                 version ? fmt::format("{} at {} (from {})", *version, python->path, python->how)
                         : fmt::format("{} (from {}) does not run", python->path, python->how),
                 version.has_value(), "name another with --python or PYCANDLE_PYTHON"});
  if (!version) return all;
  for (const char* package : {"pycandle", "torch", "safetensors", "numpy"}) {
    const auto found = ask_python(python->path, fmt::format("import importlib.metadata as m; print(m.version('{}'))", package));
    all.push_back({package + std::string(" in python"), found.value_or("not installed"), found.has_value(),
                   fmt::format("recording needs it: install {} for that Python", package)});
  }
  return all;
}

}  // namespace

void add_doctor(Command& app, Context& context) {
  auto named = std::make_shared<std::string>();
  Command command = add_command(app, context, "doctor", "show what was found on this machine: version, backends, Python, torch",
                                "pycandle doctor --json");
  command.add_option("--python", *named, "look at this Python");
  command.callback([named, &context] {
    const std::vector<Finding> all = findings(*named);
    const bool good = std::all_of(all.begin(), all.end(), [](const Finding& f) { return f.good; });
    if (context.json) {
      Json list = Json::array();
      for (const Finding& f : all)
        list.push_back({{"what", f.what}, {"found", f.found}, {"good", f.good}, {"hint", f.good ? "" : f.hint}});
      fmt::print("{}\n", Json{{"status", good ? "fine" : "incomplete"}, {"findings", list}}.dump(2));
    } else {
      Table table;
      for (const Finding& f : all)
        table.row(
            {f.good ? styled("ok", Style::green) : styled("missing", Style::yellow), f.what, f.found, f.good ? "" : f.hint});
      fmt::print("{}", table.text());
    }
    context.status = good ? 0 : 1;
  });
}

}  // namespace pycandle::cli
