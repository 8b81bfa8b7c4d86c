#include <fmt/format.h>
#include <fstream>

#include "base/file.h"
#include "base/version.h"
#include "import/bundle.h"
#include "ops/core/catalogue.h"
#include "passes/pipeline.h"
#include "report/parts.h"
#include "verify/hashes.h"

namespace pycandle::report {
namespace {

Json coverage_json(const Analysis& analysis) {
  Json gaps = Json::array();
  for (const Gap& gap : analysis.gaps)
    gaps.push_back(
        {{"op", gap.op}, {"reason", gap.reason}, {"suggestion", gap.suggestion}, {"count", gap.count}, {"places", gap.places}});
  return {{"nodes", analysis.total}, {"supported", analysis.supported}, {"gaps", gaps}};
}

// The first line of a result: with which passes its program was made.
Json result_header(const std::filesystem::path& path) {
  if (path.empty()) return nullptr;
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return Json::accept(line) ? parse_json(line, path.string()) : Json();  // what is wrong with it is said when it is read
}

// torch's, of the recorded run. A text: it may be as large as 2^64.
std::string seed_in(const std::filesystem::path& manifest) {
  const Json document = parse_json(read_text(manifest), manifest.string());
  const Json model = document.value("model", Json());
  return model.is_object() && model.contains("seed") ? model["seed"].dump() : std::string();
}

std::vector<std::string> stale_notes(const Json& result, const std::filesystem::path& manifest) {
  if (result.is_null()) return {};
  const std::string hash = text_in(result["hashes"], "manifest");
  if (hash.empty() || hash == file_hash(manifest)) return {};
  return {"The manifest was changed after this verification: the result may be about another program."};
}

struct Imported {
  Recording recording;
  Analysis analysis;
};

Imported imported(const std::filesystem::path& manifest, const std::set<std::string>& disabled) {
  if (is_bundle(manifest)) {  // its program has no gaps, and its passes have run
    Imported all{import_manifest(manifest, catalogue()), {}};
    all.analysis.total = all.analysis.supported = static_cast<int>(all.recording.program.graph.nodes.size());
    return all;
  }
  Analysis analysis = analyze_manifest(manifest, catalogue());
  Recording recording = analysis.gaps.empty() ? import_manifest(manifest, catalogue()) : import_with_gaps(manifest, catalogue());
  PipelineOptions options;
  options.disabled = disabled;
  recording.program = run_program_pipeline(std::move(recording.program), catalogue(), options);
  return {std::move(recording), std::move(analysis)};
}

}  // namespace

Json collect(const Sources& sources) {
  const std::filesystem::path manifest = find_manifest(sources.model);
  const auto [recording, analysis] = imported(manifest, disabled_passes(result_header(sources.result)));
  const Program& program = recording.program;
  Texts texts;
  Json document{{"report", "pycandle.report"},
                {"version", kReportVersion},
                {"pycandle", version()},
                {"name", program.name},
                {"class", recording.model_class},
                {"torch", recording.torch_version},
                {"seed", recording.bundle ? "" : seed_in(manifest)},
                {"bundle", recording.bundle != nullptr},
                {"soundness", recording.soundness},
                {"notes", recording.notes},
                {"summary", nullptr},
                {"coverage", coverage_json(analysis)},
                {"program", program_part(recording, texts)},
                {"weights", weights_part(recording, sources)},
                {"code", nullptr},
                {"result", nullptr},
                {"baseline", nullptr},
                {"profiles", Json::array()}};
  if (!sources.code.empty()) document["code"] = code_part(sources.code, program);
  if (!sources.result.empty()) document["result"] = result_part(sources.result, program, texts);
  if (!sources.baseline.empty()) document["baseline"] = baseline_part(sources.baseline, sources.result);
  for (const std::filesystem::path& profile : sources.profiles)
    document["profiles"].push_back(profile_part(profile, program.name, texts));
  if (!recording.bundle)
    for (const std::string& note : stale_notes(document["result"], manifest)) document["notes"].push_back(note);
  if (!document["code"].is_null() && document["code"]["edited"])
    document["notes"].push_back("The C++ was edited after codegen wrote it: its lines are found by what did not change.");
  document["texts"] = texts.json();
  add_replays(document, sources);
  document["summary"] = summary_part(document, sources);
  return document;
}

}  // namespace pycandle::report
