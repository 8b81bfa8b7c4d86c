#include "import/bundle.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "base/error.h"
#include "base/hash.h"
#include "base/json.h"
#include "base/weight_bytes.h"
#include "import/field.h"
#include "ir/text.h"
#include "ir/verifier.h"

namespace pycandle {
namespace {

namespace fs = std::filesystem;

Error damaged(const std::string& what) {
  return Error(ErrorCode::bad_input, what).hint("copy the bundle again, or make it again with pycandle bundle");
}

// "1.0.0": files of a later major version mean something else.
void check_version(const Field& version) {
  const std::string found = version.string();
  if (found.substr(0, found.find('.')) == "1") return;
  throw Error(ErrorCode::bad_input, "the bundle is of another version").expected("1.x").found(found);
}

void check_sections(const Archive& archive, const Field& sections) {
  std::set<std::string> known;
  sections.each_entry([&](const std::string& name, const Field& section) {
    if (name.find('/') != std::string::npos || name.empty() || name == "." || name == "..")
      section.fail("a section has no such name", "a file name", name);
    known.insert(name);
    const Section stored = archive.section(name);
    const auto size = static_cast<uint64_t>(section["bytes"].integer(0));
    if (stored.bytes.size() != size)
      throw damaged(fmt::format("{} has another size than the bundle says", archive.where(name)))
          .expected(fmt::format("{} bytes", size))
          .found(fmt::format("{} bytes", stored.bytes.size()));
    if (name == kBundleWeights) return;  // mapped, and not read yet
    const std::string hash = section["hash"].string(), found = hash128(stored.bytes.data(), stored.bytes.size()).text();
    if (hash != found)
      throw damaged(fmt::format("{} is not what the bundle was made with", archive.where(name))).expected(hash).found(found);
  });
  for (const char* needed : {kBundleProgram, kBundleTable, kBundleWeights}) {
    if (!known.contains(needed)) sections.fail(fmt::format("{} is missing", needed));
  }
  for (const char* other :
       {kBundleSetup, kBundleStep, kBundleTokenizer, kBundleCompiledTokenizer, kBundleChat, kBundleGeneration}) {
    if (!known.contains(other) && archive.contains(other))
      throw damaged(fmt::format("{} is not of this bundle", archive.where(other))).expected("a section that bundle.json names");
  }
}

Sizes read_shape(const Field& list) {
  Sizes shape;
  list.each([&](const Field& size) { shape.push_back(size.integer(0)); });
  if (shape.size() > 64) list.fail("a tensor has too many axes");
  return shape;
}

uint64_t stored_bytes(const StoredWeight& w, const Field& entry) {
  const auto count = static_cast<uint64_t>(element_count(w.shape));
  if (w.format == WeightFormat::f32) return count * size_of(w.dtype);
  if (w.dtype != DType::f32 || w.shape.size() != 2) entry.fail("only matrices of f32 are kept in fewer bytes");
  return bytes_in(w.format, static_cast<uint64_t>(w.shape[1 - w.axis]), static_cast<uint64_t>(w.shape[w.axis]));
}

StoredWeight read_weight(const Field& entry, uint64_t size) {
  StoredWeight w;
  const auto dtype = dtype_from_name(entry["dtype"].string());
  if (!dtype) entry["dtype"].fail("there is no such dtype", {}, entry["dtype"].string());
  w.dtype = *dtype;
  w.shape = read_shape(entry["shape"]);
  const auto format = weight_format_from_name(entry["format"].string());
  if (!format) entry["format"].fail("there is no such format", {}, entry["format"].string());
  w.format = *format;
  w.axis = entry["axis"].integer(0, 1);
  w.offset = static_cast<uint64_t>(entry["offset"].integer(0));
  w.bytes = static_cast<uint64_t>(entry["bytes"].integer(0));
  w.hash = entry["hash"].string();
  if (w.bytes != stored_bytes(w, entry)) entry.fail("a tensor has another size than its shape says");
  if (w.offset % Archive::kAlignment != 0 || w.offset > size || w.bytes > size - w.offset)
    entry.fail("a tensor lies outside weights.bin");
  return w;
}

std::map<std::string, StoredWeight> read_table(const Archive& archive) {
  const Json json = parse_json(archive.section(kBundleTable).text(), archive.where(kBundleTable));
  const std::string document = archive.where(kBundleTable);
  const uint64_t size = archive.section(kBundleWeights).bytes.size();
  std::map<std::string, StoredWeight> table;
  std::vector<std::pair<uint64_t, uint64_t>> places;
  const Field root(json, document);
  root.each_entry([&](const std::string& name, const Field& entry) {
    const StoredWeight w = read_weight(entry, size);
    if (w.bytes > 0) places.emplace_back(w.offset, w.offset + w.bytes);
    table.emplace(name, w);
  });
  std::sort(places.begin(), places.end());
  for (size_t i = 1; i < places.size(); ++i) {
    if (places[i].first < places[i - 1].second) root.fail("two tensors overlap");
  }
  return table;
}

}  // namespace

bool Bundle::has(const std::string& capability) const {
  return std::find(capabilities.begin(), capabilities.end(), capability) != capabilities.end();
}

bool is_bundle(const fs::path& path) {
  std::error_code failed;
  if (fs::is_directory(path, failed)) return fs::is_regular_file(path / kBundleHead, failed);
  return Archive::is_file(path);
}

std::string sealed_head(const std::string& contents) {
  const Json json = Json::parse(contents);
  return Json{{"format", kBundleFormat}, {"version", kBundleVersion}, {"hash", hash128(json.dump()).text()}, {"contents", json}}
             .dump(1) +
         "\n";
}

std::shared_ptr<const Bundle> read_bundle(Archive archive) {
  auto bundle = std::make_shared<Bundle>();
  const std::string document = archive.where(kBundleHead);
  const Json json = parse_json(archive.section(kBundleHead).text(), document);
  const Field root(json, document);
  if (root["format"].string() != kBundleFormat)
    root["format"].fail("this is not a bundle", kBundleFormat, root["format"].string());
  check_version(root["version"]);
  const Field contents = root["contents"];
  bundle->head = hash128(contents.json().dump(-1, ' ', false, Json::error_handler_t::replace)).text();
  if (bundle->head != root["hash"].string())
    throw damaged(document + " was changed after the bundle was made").expected(root["hash"].string()).found(bundle->head);
  check_sections(archive, contents["sections"]);
  const auto format = weight_format_from_name(contents["weights"].string());
  if (!format) contents["weights"].fail("there is no such format", {}, contents["weights"].string());
  bundle->weights = *format;
  contents["capabilities"].each([&](const Field& c) { bundle->capabilities.push_back(c.string()); });
  if (const auto decode = contents.find("decode")) bundle->decode = decode->json().dump();
  bundle->provenance = contents["provenance"].json().dump();
  bundle->verification = contents["verification"].json().dump();
  bundle->table = read_table(archive);
  bundle->archive = std::move(archive);
  return bundle;
}

Recording recording_of(std::shared_ptr<const Bundle> bundle, const OpTable& table) {
  const std::string document = bundle->archive.where(kBundleHead);
  const Json json = parse_json(bundle->archive.section(kBundleHead).text(), document);
  const Field root(json, document);
  const Field facts = root["contents"]["recording"];
  Recording recording;
  recording.soundness = facts["soundness"].string();
  facts["notes"].each([&](const Field& note) { recording.notes.push_back(note.string()); });
  recording.version = facts["version"].string();
  recording.torch_version = facts["torch"].string();
  recording.model_class = facts["class"].string();
  recording.input_tree = facts["input_tree"].string();
  recording.output_tree = facts["output_tree"].string();
  recording.program = parse_program(bundle->archive.section(kBundleProgram).text(), table, bundle->archive.where(kBundleProgram));
  verify(recording.program, "bundle");
  recording.is_program_form = true;
  for (const auto& [name, weight] : bundle->table) recording.checksums[name] = weight.hash;
  recording.bundle = std::move(bundle);
  return recording;
}

}  // namespace pycandle
