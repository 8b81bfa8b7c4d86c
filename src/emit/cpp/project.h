// What stands around an emitted model: a program that runs it, and a test that it is the recorded one.
#pragma once

#include "emit/cpp/printer.h"
#include "emit/files.h"

namespace pycandle::emit::cpp {

// header: of the printed model. manifest: as the project's programs find it, from the project's folder.
std::vector<EmittedFile> project_sources(const PrintedModel&, const ProvenHeader& header, const std::string& recording_name,
                                         const std::string& manifest);
// The style in which models are emitted: clang-format leaves them as they are with it.
const char* clang_format_style();

}  // namespace pycandle::emit::cpp
