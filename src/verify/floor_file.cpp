#include "verify/floor_file.h"

#include "base/error.h"
#include "base/file.h"
#include "base/json.h"
#include "ops/core/catalogue.h"
#include "runtime/model.h"
#include "verify/hashes.h"
#include "verify/judging/states.h"

namespace pycandle {
namespace {

namespace fs = std::filesystem;

constexpr const char* kFormat = "pycandle.floors.v1";

// gpt2_manifest.json → gpt2_floors.json
fs::path floor_file(const fs::path& manifest) {
  std::string name = manifest.stem().string();
  if (const size_t suffix = name.rfind("_manifest"); suffix != std::string::npos) name.resize(suffix);
  return manifest.parent_path() / (name + "_floors.json");
}

// Of the manifest, which has the checksums of the weights, and of the goldens.
std::string identity_of(const fs::path& manifest, const Recording& recording) {
  std::string text = file_hash(manifest);
  for (const fs::path& trace : recording.traces()) text += " " + file_hash(trace);
  return text;
}

Json to_json(const RunFloors& floors) {
  Json json = Json::object();
  for (const auto& [key, floor] : floors) json[key] = {floor.rms, floor.max, floor.scale};
  return json;
}

RunFloors floors_from(const Json& json) {
  RunFloors floors;
  for (const auto& [key, numbers] : json.items()) {
    const RunFloor floor{numbers.at(0).get<double>(), numbers.at(1).get<double>(), numbers.at(2).get<double>()};
    floors.emplace(key, floor);
  }
  return floors;
}

const char* part_of(Sums sums) { return sums == Sums::in_blocks ? "calls" : "calls_in_any_order"; }

// What is kept of this very recording; null when nothing is.
Json kept_floors(const fs::path& manifest, const Recording& recording) {
  const fs::path file = floor_file(manifest);
  std::error_code failure;
  if (!fs::is_regular_file(file, failure)) return nullptr;
  try {
    Json json = parse_json(read_text(file), file.string());
    if (json.value("format", "") == kFormat && json.value("of", "") == identity_of(manifest, recording)) return json;
  } catch (const std::exception&) {  // damaged: as if it were not there
  }
  return nullptr;
}

}  // namespace

bool write_floor_file(const fs::path& given, Sums sums) {
  try {
    const fs::path manifest = find_manifest(given);
    const Recording recording = import_manifest(manifest, catalogue());
    if (recording.trace_file.empty()) return false;
    Json file = kept_floors(manifest, recording);
    if (file.is_object() && file.contains(part_of(sums))) return true;
    const Program p = program_to_judge(recording.program, catalogue());
    const auto parameters = recorded_parameters(recording);
    Json calls = Json::array();
    for (const fs::path& trace : recording.traces())
      calls.push_back(to_json(run_floors(p, catalogue(), *parameters, Goldens(p, trace), sums)));
    if (!file.is_object()) file = {{"format", kFormat}, {"of", identity_of(manifest, recording)}};
    file[part_of(sums)] = std::move(calls);
    write_text(floor_file(manifest), file.dump(1) + "\n");
    return true;
  } catch (const Error&) {
    return false;
  }
}

std::vector<RunFloors> read_floor_file(const fs::path& manifest, const Recording& recording) {
  try {
    const Json json = kept_floors(manifest, recording);
    std::vector<RunFloors> calls;
    if (!json.is_object() || !json.contains(part_of(Sums::in_blocks))) return {};
    for (const Json& call : json.at(part_of(Sums::in_blocks))) calls.push_back(floors_from(call));
    return calls;
  } catch (const std::exception&) {
    return {};
  }
}

}  // namespace pycandle
