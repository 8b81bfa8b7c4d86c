#include "params/checksums.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/error.h"
#include "base/hash.h"
#include "import/bundle.h"

namespace pycandle {

ChecksumReport check_weights(const Recording& recording, const ParameterSource& source) {
  ChecksumReport report;
  if (recording.bundle) {
    const Section weights = recording.bundle->archive.section(kBundleWeights);
    for (const auto& [name, w] : recording.bundle->table) {
      const std::byte* bytes = weights.bytes.data() + w.offset;
      ++report.checked;
      if (hash128(bytes, w.bytes).text() != w.hash) report.damaged.push_back(name);
      if (weights.file) weights.file->release(bytes, w.bytes);
    }
    return report;
  }
  const auto check = [&](const std::string& name, const Array& value) {
    ++report.checked;
    if (hash128(value.data(), value.bytes()).text() != recording.checksums.at(name)) report.damaged.push_back(name);
    source.release(value);
  };
  const Program& p = recording.program;
  for (const Parameter& parameter : p.parameters) {
    if (!parameter.file.empty() && recording.checksums.contains(parameter.name)) check(parameter.name, source.get(parameter));
  }
  for (const State& state : p.states) {
    if (!state.file.empty() && recording.checksums.contains(state.name))
      check(state.name, source.get_state(state, p.graph.type(state.value)));
  }
  return report;
}

void refuse_damaged_weights(const Recording& recording, const ParameterSource& source) {
  const std::vector<std::string> damaged = check_weights(recording, source).damaged;
  if (damaged.empty()) return;
  throw Error(ErrorCode::bad_input, "weights are not the recorded ones")
      .expected("bytes that give the checksums")
      .found(fmt::format("others in {}", fmt::join(damaged, ", ")))
      .hint(recording.bundle ? "copy the bundle again, or make it again with pycandle bundle"
                             : "copy the weights file again, or record the model again");
}

}  // namespace pycandle
