// Any bytes are a bundle or one clear error. The first byte says how they are read: as one file, or as sections with right
// hashes, so that what stands behind the hashes is tried as well.
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "base/error.h"
#include "base/hash.h"
#include "base/json.h"
#include "import/bundle.h"
#include "ops/core/catalogue.h"
#include "params/bundle_parameters.h"
#include "params/checksums.h"

namespace {

using namespace pycandle;

constexpr std::string_view kBetween = "\n====\n";

// Sections in a fixed order, with a head that fits; the first one is the contents of the head itself.
Archive sealed(std::string_view text) {
  std::map<std::string, std::string> sections;
  std::string contents = "{}";
  for (const char* name : {kBundleHead, kBundleProgram, kBundleTable, kBundleWeights}) {
    const size_t end = std::min(text.find(kBetween), text.size());
    (name == kBundleHead ? contents : sections[name]) = std::string(text.substr(0, end));
    text.remove_prefix(std::min(text.size(), end + kBetween.size()));
  }
  Json json = parse_json(contents, "contents");
  if (!json.is_object()) json = Json::object();
  Json& table = json["sections"];
  if (!table.is_object()) table = Json::object();
  for (const auto& [name, section] : sections) table[name] = {{"bytes", section.size()}, {"hash", hash128(section).text()}};
  sections[kBundleHead] = sealed_head(json.dump(-1, ' ', false, Json::error_handler_t::replace));
  return Archive::of(std::move(sections));
}

void read_all(Archive archive) {
  const Recording recording = recording_of(read_bundle(std::move(archive)), catalogue());
  const auto parameters = bundle_parameters(recording.bundle);
  check_weights(recording, *parameters);
  for (const Parameter& p : recording.program.parameters) {
    if (p.value != kNoValue) parameters->get(p);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const auto copy = std::make_shared<const std::string>(reinterpret_cast<const char*>(data) + 1, size - 1);
  try {
    if (data[0] % 2 == 0) {
      read_all(Archive::parse(std::as_bytes(std::span(copy->data(), copy->size())), copy, "bundle"));
    } else {
      read_all(sealed(*copy));
    }
  } catch (const Error& error) {
    const bool expected = error.code() == ErrorCode::bad_input || error.code() == ErrorCode::gap;
    if (!expected || error.message().empty()) std::abort();
  }
  return 0;
}
