// pycandle verify --stream: goldens of a model that does not fit into memory. torch computes them call by call, in a process
// of its own that holds the weights of one call at a time.
#pragma once

#include <filesystem>
#include <string>

#include "cli/work_folder.h"

namespace pycandle::cli {

// What the weights may take on our side when nobody says.
inline constexpr uint64_t kStreamBudget = 256'000'000;

class StreamedGoldens {
 public:
  // inputs: a safetensors file; empty: the recorded ones, or random ones where nothing is recorded.
  StreamedGoldens(const std::filesystem::path& model, const std::filesystem::path& inputs, const std::string& python);
  const std::filesystem::path& trace() const { return trace_; }

 private:
  WorkFolder folder_;
  std::filesystem::path trace_;
};

}  // namespace pycandle::cli
