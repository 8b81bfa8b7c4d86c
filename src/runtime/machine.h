// What this machine can do at most, and a place to remember what was measured on it.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "base/json.h"

namespace pycandle {

std::string machine_name();  // the processor's own name for itself, and the instruction set that kernels use

// Instruction sets that this machine has kernels for, best first.
std::vector<std::string> instruction_sets();

// XDG_CACHE_HOME/pycandle, or ~/.cache/pycandle; empty: the user has none.
std::filesystem::path cache_folder();

size_t peak_memory();        // of this process so far, in bytes; 0 when the system does not say

// A JSON file in the user's cache folder. Keys name the machine and this
// version of the library; a file that cannot be read or written only means measuring again.
class MeasuredCache {
 public:
  explicit MeasuredCache(const std::string& file);  // "peaks.json"
  std::optional<Json> find(const std::string& key) const;
  void keep(const std::string& key, const Json&) const;
  static std::string key(const std::string& what);  // … on this machine, with this version

 private:
  std::filesystem::path path_;  // empty: there is no such folder
};

struct MachinePeaks {
  double gflops = 0;    // multiply-adds count as two
  double read_gbs = 0;  // linear reads of memory in huge pages
};
// With this many threads; the best of several loops, measured once.
MachinePeaks machine_peaks(int threads);

}  // namespace pycandle
