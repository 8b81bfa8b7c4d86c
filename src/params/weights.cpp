#include "params/weights.h"

#include <fmt/format.h>

#include <map>

#include "base/error.h"
#include "base/file.h"
#include "ops/core/catalogue.h"
#include "params/parameters.h"

namespace pycandle {
namespace {

namespace fs = std::filesystem;

Array carried_value(const Parameter& p, const ParameterSource& source) {
  try {
    return source.get(p);
  } catch (const Error& error) {
    throw Error(ErrorCode::bad_input,
                fmt::format("buffer {} is in no checkpoint, and the file of the recording that holds it cannot be read", p.name))
        .found(error.message())
        .hint("put the file back, or record the model again");
  }
}

// Values that only the recording has, read from its own weights file.
std::map<std::string, Array> carried_values(const Ledger& ledger, const Recording& recording) {
  std::map<std::string, Array> values;
  const auto source = file_parameters(recording.folder, files_of(recording));
  for (const ParameterFate& p : ledger.parameters) {
    if (p.fate != Fate::carried) continue;
    for (const Parameter& q : recording.program.parameters)
      if (q.name == p.target.name) values[q.name] = carried_value(q, *source);
  }
  return values;
}

// In the manifest's own folder, in the program's dtypes: then the recording is complete.
bool can_attach(const ExtractRequest& request, const Needed& needed, const Extracted& written) {
  if (!request.attach || !needed.recording || request.dtype) return false;
  const fs::path folder = fs::absolute(find_manifest(request.needed)).lexically_normal().parent_path();
  const fs::path inside = fs::absolute(written.files.front()).lexically_normal().lexically_relative(folder);
  return !inside.empty() && *inside.begin() != "..";
}

}  // namespace

Needed open_needed(const fs::path& path) {
  Needed needed;
  if (!is_recording(path)) {
    needed.targets = targets_of(Checkpoint::open(path));
    return needed;
  }
  needed.recording = import_with_gaps(path, catalogue());
  needed.targets = targets_of(*needed.recording);
  return needed;
}

ExtractResult extract_weights(const ExtractRequest& request, const ProgressFn& progress) {
  Needed needed = open_needed(request.needed);
  for (Target& t : needed.targets)
    if (request.dtype && is_floating(t.dtype)) t.dtype = *request.dtype;
  FittedCheckpoint fitted = fit_checkpoint(needed.targets, request.from);
  ExtractResult result{std::move(fitted.checkpoint), std::move(fitted.ledger), {}};
  if (!request.ledger.empty()) write_text(request.ledger, to_json(result.ledger) + "\n");
  refuse_incomplete(result.ledger, result.checkpoint, request.from.strict);
  std::map<std::string, Array> carried;
  if (needed.recording) carried = carried_values(result.ledger, *needed.recording);
  result.written = extract(result.ledger, result.checkpoint, request.out, request.shard_bytes, carried, progress);
  result.attached = can_attach(request, needed, result.written);
  if (result.attached) attach(find_manifest(request.needed), result.written);
  return result;
}

MapResult map_weights(const MapRequest& request) {
  const Needed needed = open_needed(request.needed);
  const Checkpoint checkpoint = Checkpoint::open(request.checkpoint, request.reading);
  const Recording* recording = needed.recording ? &*needed.recording : nullptr;
  const Heads heads = request.heads.queries != 0 ? request.heads : find_heads(recording, checkpoint);
  MapResult result;
  if (!checkpoint.sections().empty()) result.hint = sections_text(checkpoint);
  result.proposals = propose(needed.targets, checkpoint, heads);
  result.rules = rules_text(result.proposals,
                            fmt::format("{} → {}", request.checkpoint.filename().string(), request.needed.filename().string()));
  result.ledger = make_ledger(needed.targets, checkpoint, Rules::parse(result.rules, "the proposed rules"));
  return result;
}

}  // namespace pycandle
