// Another backend's values in the place of PyTorch's: a trace file of one whole run, written as its
// values come by, which is gone with the object.
#pragma once

#include <filesystem>
#include <memory>
#include <vector>

#include "backends/backend.h"

namespace pycandle {

class OtherTrace {
 public:
  // states: before the run, in the order of Program::states; afterwards what they became.
  OtherTrace(const Program&, const OpTable&, const Backend&, std::shared_ptr<const ParameterSource>, std::vector<Array> inputs,
             std::vector<Array>& states);
  const std::filesystem::path& path() const { return *path_; }

 private:
  std::shared_ptr<const std::filesystem::path> path_;  // a file without a name, gone with the last owner
};

}  // namespace pycandle
