// The lock-step debugger's folder of one wrong layer: its values, the smallest program, and a script that runs it in
// PyTorch. `pycandle replay FOLDER` runs it on any backend.
#pragma once

#include <filesystem>

#include "backends/backend.h"
#include "verify/judging/judge.h"
#include "verify/judging/layer_result.h"

namespace pycandle {

std::string reproduction_name(std::string tap);  // "h.3.mlp.act@0/output" → "h.3.mlp.act@0-output"
// <folder>/<name>; returns that folder.
std::filesystem::path write_reproduction(const std::filesystem::path& folder, const LayerResult&, const Reproduction&,
                                         const std::string& backend, const PipelineOptions& = {});

struct Replay {
  std::string tap, op, recorded_backend;
  Metrics then, now;              // got against expected, and what this backend gives against expected
  Judgement judgement;            // of what this backend gives
  DifferencePicture picture;      // of what this backend gives, fine enough for a picture of its own
  bool is_fixed() const { return judgement.passed; }
};
// Threads and overrides are those that are given, or else those that the layer was wrong with.
Replay replay(const std::filesystem::path& folder, const Backend&, const OpTable&, PipelineOptions = {}, PictureSize = {});

}  // namespace pycandle
