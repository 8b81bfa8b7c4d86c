// A program that was captured from source code (Compiled::save), beside the recording that it should be.
#pragma once

#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/safetensors.h"
#include "import/importer.h"
#include "verify/judging/goldens.h"

namespace pycandle {

// A module's value that PyTorch gave and the source code does not compute.
struct AbsentLayer {
  TapId tap;
  std::string path, op;  // op: what PyTorch's program computes there
  std::string key;            // in the trace file
};

// The code calls one module more often than Python did, and another one of its class beside it less often.
struct ExchangedModules {
  std::string inside;              // the module that calls them; empty: the root
  std::string called, instead_of;  // paths
};

// A line of the source code that a program was captured from: "src/model.hpp:42" and what stands there.
struct CodeLine {
  std::string place, source;
};

struct CapturedProgram {
  Program program;  // its places are those in Python
  std::map<TapId, std::string> unchanged;  // states that only PyTorch's program changes, and by which op
  std::vector<AbsentLayer> absent;
  std::vector<ExchangedModules> exchanged;
  std::set<std::pair<std::string, std::string>> recorded_ops;  // op and module of all that PyTorch's program computes
  PerNode<CodeLine> code;  // without a captured program there is none
  CodeLine code_of(NodeId node) const { return code.has(node) ? code[node] : CodeLine{}; }
};

// Parameters and states of the recording, found by name, with their files: every state, also one that the code only reads
// (then it may be a parameter there) or forgot. Gives the parameters that nobody uses.
std::vector<Parameter> adopt_parameters(Program& captured, const Program& recorded);

// Parameters, goldens and the places in Python are the recording's, found by name; parameters that nobody uses are there
// too, so that the right one can be looked for. Taps of one value that PyTorch gave different values get a value each:
// between them the source code leaves something out. A state that the code does not change becomes what it was.
// `recorded` is as imported, `program` the same in program form; `traces` are all that it will be judged by.
CapturedProgram beside_recording(Program captured, const Recording& recorded, const Program& program, const OpTable&,
                                 const std::vector<Safetensors>& traces);

// Values of the recorded program where a slice of it may begin: those that the captured one has as well, and states.
struct NamedValues {
  PerValue<bool> is_known;       // per value of the graph
  std::vector<std::string> names;   // what people call them
};
NamedValues known_to_both(const Program& recorded, const Goldens&, const Program& captured);

// Which ops, or which settings of them, one slice has and the other has not.
struct OpDifference {
  std::vector<std::string> ours, recorded;
  std::string left_out;  // the one op that differs lacks this operand, and nothing else about it is different
};
OpDifference op_difference(const Program& ours, const Program& recorded);

}  // namespace pycandle
