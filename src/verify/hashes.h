// What was verified, as content hashes: a result says exactly which files it is about. They identify; they are no defence
// against somebody who forges (xxHash, 128 bits).
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "import/importer.h"

namespace pycandle {

std::string file_hash(const std::filesystem::path&);
// Every file below the folder, by its path in it.
std::string folder_hash(const std::filesystem::path&);
// The program or library that this code stands in.
std::string library_hash();
// "manifest", "weights", "goldens", "library". `checkpoint`: files that the weights come from, where they are not the
// recording's.
std::map<std::string, std::string> recording_hashes(const Recording&, const std::filesystem::path& manifest,
                                                    const std::vector<std::filesystem::path>& traces,
                                                    const std::vector<std::filesystem::path>& checkpoint = {});

}  // namespace pycandle
