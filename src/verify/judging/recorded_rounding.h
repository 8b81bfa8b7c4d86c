// Is a value that is far from PyTorch's wrong, or does rounding alone move it that far? Asked of the recorded program, from
// its inputs to that value.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "import/importer.h"
#include "verify/judging/goldens.h"
#include "verify/judging/trials.h"

namespace pycandle {

class RecordedRounding {
 public:
  explicit RecordedRounding(const std::filesystem::path& manifest);
  struct Explanation {
    std::string unstable;  // rounding moves the golden by half of its digits or more: how far that is, in words
  };
  // Ours is no further off than rounding explains, from the inputs to the golden of this name in the trace of this call.
  // Nothing when it is wrong.
  std::optional<Explanation> explains(const std::string& key, size_t call, const Array& ours) const;

 private:
  Recording recording_;
  Program program_;
  std::shared_ptr<const ParameterSource> parameters_;
};

}  // namespace pycandle
