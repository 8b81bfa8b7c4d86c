// Is emitted code the program that it was made from? It is read again, captured as the compiled code would be, and compared
// with the recorded program: what IsTheRecordedProgram of an emitted project tests, without a compiler.
#pragma once

#include <string>

#include "ir/graph.h"

namespace pycandle::emit::proof {

// An Error (gap) that says what differs and where when it is not. program: in program form.
void prove(const std::string& header, const Program& program);

}  // namespace pycandle::emit::proof
