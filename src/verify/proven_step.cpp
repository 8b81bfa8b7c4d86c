#include "verify/proven_step.h"

#include <fmt/format.h>

#include "base/error.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/json.h"
#include "base/version.h"
#include "import/bundle.h"
#include "ir/text.h"
#include "ops/core/catalogue.h"
#include "runtime/machine.h"
#include "verify/hashes.h"

namespace pycandle {
namespace {

namespace fs = std::filesystem;

bool is_proven_bundle(const Bundle& bundle) {
  const Json said = Json::parse(bundle.verification, nullptr, false);
  const Json decode = said.is_object() ? said.value("decode", Json()) : Json();
  return decode.is_object() && decode.value("passed", Json()) == true;
}

// Which file this is, without reading it.
std::string identity(const fs::path& path) {
  std::error_code none;
  std::string text = fs::weakly_canonical(path, none).string();
  if (fs::is_regular_file(path, none))
    text += fmt::format(" {} {}", fs::file_size(path, none), fs::last_write_time(path, none).time_since_epoch().count());
  return text + '\n';
}

std::string identity_of_all(const fs::path& path) {
  std::string text = identity(path);
  std::error_code none;
  if (!fs::is_directory(path, none)) return text;
  std::set<std::string> files;
  for (const auto& entry : fs::recursive_directory_iterator(path, none)) files.insert(identity(entry.path()));
  for (const std::string& file : files) text += file;
  return text;
}

std::string key_of(const Model& model, const LoadOptions& load, const Program& program, const DecodeStep& step) {
  std::string text = print(program) + print(step.setup) + print(step.step);
  if (load.checkpoint) {
    for (const fs::path& path : {load.checkpoint->checkpoint, load.checkpoint->rules, load.checkpoint->adapter})
      text += path.empty() ? "\n" : identity_of_all(path);
  } else {
    std::set<std::string> files;
    for (const Parameter& p : program.parameters) files.insert(p.file);
    for (const std::string& file : files) text += file.empty() ? "\n" : identity(model.recording().folder / file);
  }
  return hash128(text + load.backend + '\n' + library_hash()).text();
}

// The file that says that this was proven; none when the user has no cache.
fs::path kept_proof(const std::string& key) {
  const fs::path folder = cache_folder();
  return folder.empty() ? fs::path() : folder / "proofs" / (key + ".json");
}

void keep(const fs::path& path, const DecodeProof& proof) {
  if (path.empty()) return;
  try {
    fs::create_directories(path.parent_path());
    write_text(path, Json{{"name", proof.name}, {"backend", proof.backend}, {"passed", true}, {"by", version()}}.dump() + "\n");
  } catch (const std::exception&) {
    return;  // it is proven again next time
  }
}

}  // namespace

void refuse_wrong_step(const DecodeProof& proof, const std::string& so) {
  for (const DecodeSchedule& s : proof.schedules) {
    if (!s.wrong) continue;
    throw Error(ErrorCode::verdict, "the decode step is not the forward pass, so " + so)
        .op(s.wrong->op)
        .module_path(s.wrong->path)
        .python(s.wrong->place, s.wrong->source)
        .found(fmt::format("token {} of sequence {}: {}", s.wrong->position, s.wrong->sequence, s.wrong->why))
        .hint(fmt::format("pycandle verify M --decode --backend {} shows where; generate --no-kv-cache needs no step",
                          proof.backend));
  }
}

void require_proven(const Model& model, const LoadOptions& load, const Program& program, const DecodeStep& step) {
  const Recording& recording = model.recording();
  const bool is_bundled = recording.bundle && &program == &model.program();
  if (is_bundled && is_proven_bundle(*recording.bundle)) return;
  const fs::path kept = kept_proof(key_of(model, load, program, step));
  if (!kept.empty() && fs::exists(kept)) return;
  DecodeProofOptions options{load.backend, load.pipeline, {1, 3, 16}, 24};
  options.pipeline.dump_dir.clear();
  options.pipeline.weights = WeightFormat::f32;  // rounding them changes the step and the forward pass alike
  const NamedArrays inputs = decode_inputs(recording, step, options);
  const DecodeProof proof = prove_decoding(program, step, load.table ? *load.table : catalogue(), model.parameters(), inputs,
                                           options);
  refuse_wrong_step(proof, "no text is written");
  keep(kept, proof);
}

}  // namespace pycandle
