// pycandle record: hands over to the recorder, which runs in Python beside PyTorch.
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "base/json.h"
#include "cli/child.h"
#include "cli/command.h"
#include "cli/python_finder.h"

namespace pycandle::cli {
namespace {

constexpr const char* kSummary = "record a PyTorch model: graph, weights and golden values (starts Python)";

// Says what is missing when this Python has no pycandle package, instead of a traceback.
constexpr const char* kLauncher = R"(import sys
try:
    from pycandle.recording.cli import main
except ModuleNotFoundError as error:
    sys.stderr.write(f"error: {sys.executable} cannot record: {error}\n"
                     "  hint  install torch and PyCandle's wheel there (make wheel in its sources builds it), or name another"
                     " Python with --python or PYCANDLE_PYTHON;"
                     " pycandle doctor shows what was found\n")
    sys.exit(2)
sys.exit(main(sys.argv[1:]))
)";

constexpr const char* kListOptions = R"(import json
from pycandle.recording.cli import parser
print(json.dumps([{"names": a.option_strings, "help": a.help or "", "takes_value": a.nargs != 0, "choices": list(a.choices or [])}
                  for a in parser()._actions if a.option_strings]))
)";

}  // namespace

void add_record(Command& app, Context&) { app.add_subcommand("record", kSummary); }

std::vector<OptionFacts> record_options() {
  const auto python = find_python();
  const auto text = python ? ask_python(python->path, kListOptions) : std::nullopt;
  if (!text) return {};
  std::vector<OptionFacts> options;
  for (const Json& entry : Json::parse(*text)) {
    options.push_back({entry.at("names"), entry.at("help"), entry.at("choices"), entry.at("takes_value"), false});
  }
  return options;
}

int run_record(int argc, char** argv) {
  std::string named;
  std::vector<std::string> passed_on;
  for (int i = 1; i < argc; ++i) {
    const std::string argument = argv[i];
    if (argument == "--python") {
      if (i + 1 == argc) throw Error(ErrorCode::usage, "--python needs the path of a Python");
      named = argv[++i];
    } else if (argument.rfind("--python=", 0) == 0) {
      named = argument.substr(std::strlen("--python="));
    } else {
      passed_on.push_back(argument);
    }
  }
  const auto python = find_python(named);
  if (!python) {
    throw Error(ErrorCode::usage, "recording needs Python with torch, and none was found")
        .expected("a python3 by --python, PYCANDLE_PYTHON, in .pycandle/venv, beside this program or on PATH")
        .hint("pycandle doctor shows what was found");
  }
  // Recordings are equal byte for byte in every process, so output must not depend on hash order.
  setenv("PYTHONHASHSEED", "0", 1);
  std::vector<std::string> command = {python->path, "-c", kLauncher};
  command.insert(command.end(), passed_on.begin(), passed_on.end());
  return exit_status_of(command);
}

}  // namespace pycandle::cli
