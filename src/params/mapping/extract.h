// Exactly the weights that a program needs, out of a checkpoint into safetensors files: streamed, and in place only when
// all of them are written.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "base/progress.h"
#include "params/mapping/ledger.h"

namespace pycandle {

struct Extracted {
  std::vector<std::filesystem::path> files;       // shards, then their index
  std::vector<std::pair<std::string, std::string>> places;  // parameter, name of the file that holds it
  uint64_t bytes = 0;
  std::map<std::string, std::string> checksums;   // of the written bytes, by parameter
};

// The ledger must be complete; its targets say the dtypes. `shard_bytes`: at most so many in a file, 0: one file. `carried`:
// values that the recording itself holds, by name; they are written too.
Extracted extract(const Ledger&, const Checkpoint&, const std::filesystem::path& out, uint64_t shard_bytes,
                  const std::map<std::string, Array>& carried, const ProgressFn& = {});

// The manifest names these files for its parameters from now on. They must lie in its folder.
void attach(const std::filesystem::path& manifest, const Extracted&);

}  // namespace pycandle
