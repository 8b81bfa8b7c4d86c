// Commands that run in Python and take their arguments as they are: record beside PyTorch, dashboard on Textual.
#pragma once

#include <string>
#include <vector>

#include "cli/options.h"

namespace pycandle::cli {

struct PythonCommand {
  const char* name;
  const char* summary;
  const char* module;  // has parser(), an argparse parser, and main(arguments, path of this program) -> exit status
  const char* needs;   // the package without which it says what to install
  const char* needs_for_onnx = nullptr;  // those that an ONNX file among the arguments needs instead, with commas between
};
inline constexpr PythonCommand kPythonCommands[] = {
    {"record", "record a PyTorch model: graph, weights and golden values (starts Python)", "pycandle.recording.cli", "torch",
     "onnxruntime,onnx,safetensors"},
    {"dashboard", "watch a verification in the terminal: progress, tree, drift, wrong layers (starts Python)",
     "pycandle.dashboard.cli", "textual"},
};

const PythonCommand* find_python_command(const std::string& name);  // nullptr when it is none
int run_in_python(const PythonCommand&, int argc, char** argv);    // argv[0] is the command's name
std::vector<OptionFacts> options_of(const PythonCommand&);         // none when there is no such Python

}  // namespace pycandle::cli
