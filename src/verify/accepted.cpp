#include "verify/accepted.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "base/file.h"
#include "base/json.h"
#include "base/safetensors.h"
#include "runtime/model.h"

namespace pycandle {
namespace {

namespace fs = std::filesystem;

constexpr const char* kFormat = "pycandle.accepted.v1";
constexpr const char* kKept = ".pycandle/captured";

Json read_accepted_file(const fs::path& project) {
  const fs::path file = project / kAcceptedFile;
  std::error_code failure;
  if (!fs::exists(file, failure)) return Json{{"format", kFormat}, {"accepted", Json::object()}};
  Json json = parse_json(read_text(file), file.string());
  const bool fits = json.is_object() && json.value("format", "") == kFormat && json.contains("accepted") &&
                    json["accepted"].is_object();
  if (!fits)
    throw Error(ErrorCode::bad_input, "this is no file of accepted programs")
        .expected(fmt::format("\"format\": \"{}\" and \"accepted\"", kFormat))
        .found(file.string())
        .hint("take it back from version control, or delete it and accept again");
  return json;
}

std::string text_in(const Json& json, const char* key) {
  const auto found = json.find(key);
  return found != json.end() && found->is_string() ? found->get<std::string>() : std::string();
}

// When the code around it was changed last.
std::optional<fs::file_time_type> newest_source(const fs::path& project) {
  std::optional<fs::file_time_type> newest;
  std::error_code failure;
  for (const auto& entry : fs::recursive_directory_iterator(project / "src", failure)) {
    if (!entry.is_regular_file(failure)) continue;
    const fs::file_time_type time = entry.last_write_time(failure);
    if (!failure && (!newest || time > *newest)) newest = time;
  }
  return newest;
}

KeptProgram noted(const fs::path& note) {
  const Json json = parse_json(read_text(note), note.string());
  fs::path program = note;
  program.replace_extension(".ptir");
  return {program, text_in(json, "manifest"), note.parent_path().parent_path().parent_path()};
}

KeptProgram only_program_of(const fs::path& project) {
  std::vector<fs::path> notes;
  std::error_code failure;
  for (const auto& entry : fs::directory_iterator(project / kKept, failure)) {
    if (entry.path().extension() == ".json") notes.push_back(entry.path());
  }
  if (notes.empty())
    throw Error(ErrorCode::usage, "this project has no captured program")
        .expected(fmt::format("a file in {}", (project / kKept).string()))
        .hint("build the project and run its tests: a test that fails keeps the program there");
  if (notes.size() > 1) {
    std::sort(notes.begin(), notes.end());
    throw Error(ErrorCode::usage, "this project has several captured programs")
        .found(fmt::format("{} and {} more", notes[0].replace_extension(".ptir").string(), notes.size() - 1))
        .hint("name the one that is meant in place of the project");
  }
  return noted(notes[0]);
}

std::vector<std::vector<Array>> recorded_inputs(const Recording& recorded) {
  std::vector<fs::path> traces;
  std::error_code failure;
  for (const auto& entry : fs::directory_iterator(recorded.folder, failure)) {
    const std::string name = entry.path().filename().string();
    const bool is_own = name.starts_with(recorded.program.name) && name.ends_with("_trace.safetensors");
    if (is_own) traces.push_back(entry.path());
  }
  std::sort(traces.begin(), traces.end());
  const fs::path own = recorded.folder / recorded.trace_file;
  std::stable_partition(traces.begin(), traces.end(), [&](const fs::path& path) { return path == own; });
  std::vector<std::vector<Array>> all;
  for (const fs::path& trace : traces) {
    const Safetensors file = Safetensors::open(trace);
    std::vector<Array> inputs;
    for (const Input& input : recorded.program.inputs) {
      if (file.contains("input:" + input.name)) inputs.push_back(file.get("input:" + input.name));
    }
    if (inputs.size() == recorded.program.inputs.size()) all.push_back(std::move(inputs));
  }
  return all;
}

}  // namespace

std::string Acceptance::text() const {
  return fmt::format("accepted by {} on {}: {} ({}{})", by, date, reason, verdict, forced ? ", forced" : "");
}

std::optional<Acceptance> read_acceptance(const fs::path& project, const std::string& recording) {
  const Json file = read_accepted_file(project);
  const auto found = file["accepted"].find(recording);
  if (found == file["accepted"].end() || !found->is_object()) return std::nullopt;
  Acceptance a{recording,
               text_in(*found, "program"),
               text_in(*found, "instead_of"),
               text_in(*found, "by"),
               text_in(*found, "date"),
               text_in(*found, "reason"),
               text_in(*found, "verdict"),
               found->contains("forced"),
               {}};
  return a;
}

void write_acceptance(const fs::path& project, const Acceptance& a) {
  Json file = read_accepted_file(project);
  Json& entry = file["accepted"][a.recording] = Json{{"program", a.program}, {"instead_of", a.instead_of},
                                                     {"by", a.by},           {"date", a.date},
                                                     {"reason", a.reason},   {"verdict", a.verdict}};
  if (a.forced) entry["forced"] = true;
  entry["differences"] = a.differences;
  write_text(project / kAcceptedFile, file.dump(2) + "\n");
}

std::optional<KeptProgram> place_to_keep(const fs::path& project, const fs::path& manifest) {
  std::string name = manifest.stem().string();
  if (const size_t suffix = name.rfind("_manifest"); suffix != std::string::npos) name.resize(suffix);
  std::error_code failure;
  fs::create_directories(project / kKept, failure);
  if (failure) return std::nullopt;
  const fs::path program = project / kKept / (name + ".ptir");
  try {
    write_text(project / kKept / (name + ".json"),
               Json{{"manifest", fs::absolute(manifest).lexically_normal().string()}}.dump(2) + "\n");
  } catch (const Error&) {
    return std::nullopt;
  }
  return KeptProgram{program, manifest, project};
}

KeptProgram find_kept_program(const fs::path& path, const fs::path& manifest) {
  std::error_code failure;
  if (!fs::exists(path, failure))
    throw Error(ErrorCode::usage, "there is no such project or program")
        .expected("a folder, or a file .ptir")
        .found(path.string());
  KeptProgram kept{path, manifest, fs::current_path(failure)};
  if (fs::is_directory(path, failure)) {
    kept = only_program_of(path);
  } else if (fs::path note = fs::path(path).replace_extension(".json"); fs::exists(note, failure)) {
    kept = noted(fs::absolute(note));
    kept.program = path;
  }
  if (!manifest.empty()) kept.manifest = manifest;
  if (kept.manifest.empty())
    throw Error(ErrorCode::usage, "the program does not say from which recording it is")
        .expected("--manifest")
        .found(path.string());
  const auto written = fs::last_write_time(kept.program, failure);
  const auto changed = newest_source(kept.project);
  if (!failure && changed && *changed > written)
    throw Error(ErrorCode::usage, "the code was changed after its program was kept")
        .found(kept.program.string())
        .hint("build the project and run its tests again");
  return kept;
}

ProgramComparison compare_with_recording(const Recording& recorded, const Program& in_program_form,
                                         const ComparedProgram& captured, const OpTable& table) {
  return compare_programs({in_program_form, recorded_parameters(recorded)}, captured, table, recorded_inputs(recorded));
}

}  // namespace pycandle
