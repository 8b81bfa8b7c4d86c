// Weights carry checksums: a bit that flipped on the way is noticed.
#pragma once

#include <string>
#include <vector>

#include "import/importer.h"
#include "params/parameters.h"

namespace pycandle {

struct ChecksumReport {
  size_t checked = 0;                   // parameters and states with a checksum
  std::vector<std::string> damaged;     // of those: whose bytes are not the recorded ones
};

// Reads every weight of the recording once.
ChecksumReport check_weights(const Recording&, const ParameterSource&);
// bad_input with the names, where any is damaged.
void refuse_damaged_weights(const Recording&, const ParameterSource&);

}  // namespace pycandle
