#include "pycandle/project.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>

#include "base/error.h"
#include "capture/capture.h"
#include "import/importer.h"
#include "ops/core/catalogue.h"
#include "passes/pipeline.h"
#include "passes/structure.h"
#include "verify/accepted.h"

namespace pycandle::front {
namespace {

namespace fs = std::filesystem;

// A folder and those around it, the innermost first.
std::vector<fs::path> and_around(fs::path folder, size_t most) {
  std::vector<fs::path> all;
  for (; all.size() < most && !folder.empty(); folder = folder.parent_path()) {
    all.push_back(folder);
    if (folder == folder.root_path()) break;
  }
  return all;
}

fs::path folder_of(Here here) { return fs::absolute(here.file_name()).lexically_normal().parent_path(); }

fs::path folder_of_program() {
  std::error_code failure;
  return fs::read_symlink("/proc/self/exe", failure).parent_path();
}

std::string manifest_name(const std::string& recording) { return recording + "_manifest.json"; }

}  // namespace

std::string project_folder(Here here) {
  std::error_code failure;
  for (const char* sign : {".pycandle/project.json", "CMakeLists.txt"}) {
    for (const fs::path& folder : and_around(folder_of(here), 4)) {
      if (fs::exists(folder / sign, failure)) return from_here(folder);
    }
  }
  return ".";
}

std::string recording_folder(const std::string& name, const std::string& folder, Here here) {
  std::error_code failure;
  std::vector<fs::path> places;
  if (const char* named = std::getenv("PYCANDLE_TRACE")) {
    places = {named};
  } else if (fs::path(folder).is_absolute()) {
    places = {folder};
  } else {
    std::vector<fs::path> from = and_around(folder_of(here), 4);
    for (const fs::path& around : and_around(folder_of_program(), 4)) from.push_back(around);
    from.push_back(fs::current_path(failure));
    for (const fs::path& start : from) places.push_back((start / folder).lexically_normal());
  }
  for (const fs::path& place : places) {
    if (fs::exists(place / manifest_name(name), failure)) return from_here(place);
  }
  std::vector<std::string> looked;
  for (const fs::path& place : places) {
    if (std::find(looked.begin(), looked.end(), place.string()) == looked.end()) looked.push_back(place.string());
  }
  throw Error(ErrorCode::bad_input, fmt::format("the recording {} is not there", name))
      .expected(manifest_name(name))
      .found(fmt::format("none in {}", fmt::join(looked, ", ")))
      .hint("say where its folder is: PYCANDLE_TRACE=FOLDER");
}

RoundTrip round_trip(const Compiled& compiled, const std::string& manifest, const std::string& project) {
  const Recording recording = import_manifest(manifest, catalogue());
  const Program recorded = run_program_pipeline(recording.program, catalogue());
  RoundTrip result;
  result.difference = first_difference(recorded, compiled.program());
  result.equal = result.difference.empty();
  if (result.equal) return result;
  std::string note;
  const std::optional<Acceptance> acceptance = project.empty() ? std::nullopt : read_acceptance(project, recorded.name);
  if (acceptance) {
    const bool is_it = acceptance->program == hash_of(structure_of(compiled.program())).text();
    const bool is_still = acceptance->instead_of == hash_of(structure_of(recorded)).text();
    if (is_it && is_still) {
      result.accepted = acceptance->text();
      return result;
    }
    note = fmt::format("\nanother program was {}", acceptance->text());
    if (is_it) note = fmt::format("\nthe model was recorded anew since this program was {}", acceptance->text());
  }
  const Program captured = with_source_lines(compiled.program());
  const ProgramComparison found = compare_with_recording(recording, recorded, {captured, compiled.parameters()}, catalogue());
  result.difference = (found.parts.empty() ? result.difference + "\n" : "") + found.text() + note;
  return result;
}

std::string next_step(const Compiled& compiled, const std::string& manifest, const std::string& project) {
  const std::optional<KeptProgram> kept = place_to_keep(project, manifest);
  const fs::path program = kept ? kept->program : fs::temp_directory_path() / fs::path(manifest).stem().concat(".ptir");
  compiled.save(program.string());
  const std::string place = from_here(fs::absolute(program).lexically_normal());
  return fmt::format(
      "Next: pycandle verify {} --program {}\n"
      "When the change is meant: pycandle accept {} --reason \"…\"",
      manifest, place, kept ? project : place + " --manifest " + manifest);
}

std::string in_one_line(const std::exception& error) {
  std::string line;
  for (const char* c = error.what(); *c != '\0'; ++c) {
    if (*c == '\n') line += ';';
    const bool is_space = *c == '\n' || *c == ' ';
    if (!is_space || (!line.empty() && line.back() != ' ')) line += is_space ? ' ' : *c;
  }
  return line;
}

}  // namespace pycandle::front
