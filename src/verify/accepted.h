// Programs that people accepted in place of the recorded one (PROJECT/accepted.json), and captured programs that wait for
// that (PROJECT/.pycandle/captured).
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "import/importer.h"
#include "verify/diagnosing/equivalence.h"

namespace pycandle {

struct Acceptance {
  std::string recording;            // its name
  std::string program, instead_of;  // hashes of structures: the accepted one, the recorded one
  std::string by, date, reason;
  std::string verdict;              // of the comparison
  bool forced = false;              // although it differs for some input
  std::vector<std::string> differences;

  std::string text() const;         // "accepted by Ann on 2026-11-16: squares without pow (proven equal)"
};
inline constexpr const char* kAcceptedFile = "accepted.json";
std::optional<Acceptance> read_acceptance(const std::filesystem::path& project, const std::string& recording);
void write_acceptance(const std::filesystem::path& project, const Acceptance&);

// A captured program on disk, with the recording that it is compared with.
struct KeptProgram {
  std::filesystem::path program, manifest, project;
};
// PROJECT/.pycandle/captured/{name}.ptir, and a note beside it where the manifest is. Nothing when nobody may write there.
std::optional<KeptProgram> place_to_keep(const std::filesystem::path& project, const std::filesystem::path& manifest);
// path: a project, or a program that was kept. Errors say what to run first.
KeptProgram find_kept_program(const std::filesystem::path& path, const std::filesystem::path& manifest);

// Is it the recorded one, and if not: can it show? Recorded inputs are those of all goldens beside the manifest.
ProgramComparison compare_with_recording(const Recording& recorded, const Program& in_program_form,
                                         const ComparedProgram& captured, const OpTable&);

}  // namespace pycandle
