// Is emitted code the program that it was made from? It is read again, captured as the compiled code would be, and compared
// with the recorded program: what IsTheRecordedProgram of an emitted project tests, without a compiler.
#pragma once

#include "emit/header.h"

namespace pycandle::emit::proof {

// The header as one that may be written; an Error (gap) that says what differs and where when it is not the program.
// program: in program form.
ProvenHeader prove(const std::string& header, const Program& program);

}  // namespace pycandle::emit::proof
