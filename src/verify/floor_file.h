// {name}_floors.json, beside the goldens: what rounding does to each of them in a run of the whole program. It serves the tests
// of emitted code alone (front::Checker); pycandle verify computes its own floors.
#pragma once

#include <filesystem>
#include <vector>

#include "import/importer.h"
#include "verify/judging/run_floors.h"

namespace pycandle {

// Computes and writes it, unless the one that is there is of this recording. False when the recording has no goldens or no
// weights, cannot be run, or the folder takes no file: tests then guess a tolerance, and say so.
// In any order: the crate of emitted Rust reads that part; the Checker, the other one.
bool write_floor_file(const std::filesystem::path& manifest, Sums = Sums::in_blocks);
// The floors of each recorded call; empty when there is no such file, or when it is of another recording.
std::vector<RunFloors> read_floor_file(const std::filesystem::path& manifest, const Recording&);

}  // namespace pycandle
