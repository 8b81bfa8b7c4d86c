#include "cli/in_python.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "base/json.h"
#include "cli/child.h"
#include "cli/command.h"
#include "cli/python_finder.h"

namespace pycandle::cli {
namespace {

// Says what is missing when this Python lacks a package, instead of a traceback.
constexpr const char* kLauncher = R"(import importlib, importlib.util, sys
module, name, needs, program = sys.argv[1:5]
needs = needs.split(",")
try:
    command = importlib.import_module(module)
    for package in needs:
        if importlib.util.find_spec(package) is None:
            raise ModuleNotFoundError(f"No module named '{package}'")
except ModuleNotFoundError as error:
    sys.stderr.write(f"error: {sys.executable} cannot run pycandle {name}: {error}\n"
                     f"  hint  install {', '.join(needs)} and PyCandle's wheel there (make wheel in its sources builds it), or name another"
                     " Python with --python or PYCANDLE_PYTHON;"
                     " pycandle doctor shows what was found\n")
    sys.exit(2)
sys.exit(command.main(sys.argv[5:], program))
)";

constexpr const char* kListOptions = R"(import importlib, json
parser = importlib.import_module("{}").parser()
print(json.dumps([{{"names": a.option_strings, "help": a.help or "", "takes_value": a.nargs != 0,
                   "choices": list(a.choices or [])}} for a in parser._actions if a.option_strings]))
)";

std::string needs_of(const PythonCommand& what, const std::vector<std::string>& arguments) {
  const bool has_onnx_file = std::any_of(arguments.begin(), arguments.end(),
                                         [](const std::string& a) { return a.ends_with(".onnx"); });
  return has_onnx_file && what.needs_for_onnx != nullptr ? what.needs_for_onnx : what.needs;
}

}  // namespace

const PythonCommand* find_python_command(const std::string& name) {
  for (const PythonCommand& command : kPythonCommands) {
    if (name == command.name) return &command;
  }
  return nullptr;
}

int run_in_python(const PythonCommand& what, int argc, char** argv) {
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
  const std::string needs = needs_of(what, passed_on);
  const auto python = find_python(named);
  if (!python) {
    throw Error(ErrorCode::usage, fmt::format("pycandle {} needs Python with {}, and none was found", what.name, needs))
        .expected("a python3 by --python, PYCANDLE_PYTHON, in .pycandle/venv, beside this program or on PATH")
        .hint("pycandle doctor shows what was found");
  }
  // Recordings are equal byte for byte in every process, so output must not depend on hash order.
  setenv("PYTHONHASHSEED", "0", 1);
  const std::string program = std::filesystem::read_symlink("/proc/self/exe").string();
  std::vector<std::string> command = {python->path, "-c", kLauncher, what.module, what.name, needs, program};
  command.insert(command.end(), passed_on.begin(), passed_on.end());
  return exit_status_of(command);
}

std::vector<OptionFacts> options_of(const PythonCommand& command) {
  const auto python = find_python();
  const auto text = python ? ask_python(python->path, fmt::format(fmt::runtime(kListOptions), command.module)) : std::nullopt;
  if (!text) return {};
  std::vector<OptionFacts> options;
  for (const Json& entry : Json::parse(*text)) {
    options.push_back({entry.at("names"), entry.at("help"), entry.at("choices"), entry.at("takes_value"), false});
  }
  return options;
}

}  // namespace pycandle::cli
