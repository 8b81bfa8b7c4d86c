// What is verified: a program with its parameters, and the golden files that it is held against.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "import/importer.h"
#include "verify/diagnosing/captured.h"
#include "verify/judging/other_trace.h"
#include "verify/verify.h"

namespace pycandle {

struct GoldenFile {
  std::string input;  // which goldens, when there are several
  std::filesystem::path path;
};

struct Subject {
  const VerifyOptions& options;
  const OpTable& table;
  const Backend& backend;
  std::filesystem::path manifest;
  Recording recording;                                // as imported
  LoadedWeights weights;
  Program recorded;                                   // in program form
  CapturedProgram captured;                           // empty unless options.program names one
  std::vector<OtherTrace> others;                     // of --against; gone with this run
  std::vector<GoldenFile> goldens;

  bool is_captured() const { return !options.program.empty(); }
  const Program& program() const { return is_captured() ? captured.program : recorded; }
  Goldens goldens_of(const GoldenFile& file) const {
    return {program(), file.path, is_captured() ? Goldens::Types::may_differ : Goldens::Types::of_recording};
  }
  Recording imported_again() const;  // for other passes
};
Subject import_subject(const std::filesystem::path& manifest, const VerifyOptions&);

}  // namespace pycandle
