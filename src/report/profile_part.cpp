// A profile, as `pycandle forward --profile --json` prints it: its steps become rows.
#include <fmt/format.h>

#include "base/error.h"
#include "base/file.h"
#include "report/parts.h"

namespace pycandle::report {
namespace {

[[noreturn]] void no_profile(const std::filesystem::path& path, const std::string& found) {
  throw Error(ErrorCode::bad_input, fmt::format("{} is no profile", path.string()))
      .expected("what pycandle forward MODEL --profile --json prints")
      .found(found);
}

Json groups(const Json& list) {
  Json rows = Json::array();
  if (!list.is_array()) return rows;
  for (const Json& row : list)
    rows.push_back({{"name", text_in(row, "name")},
                    {"ms", rounded(number_in(row, "ms"))},
                    {"steps", number_in(row, "steps")},
                    {"gflops", rounded(number_in(row, "gflops"))},
                    {"gbs", rounded(number_in(row, "gbs"))}});
  return rows;
}

// [offset, bytes, first step, last step], as many as are within the steps.
Json buffers(const Json& list, size_t steps) {
  Json rows = Json::array();
  if (!list.is_array()) return rows;
  for (const Json& b : list) {
    const double first = number_in(b, "first"), last = number_in(b, "last");
    if (first <= last && last < static_cast<double>(steps))
      rows.push_back({number_in(b, "offset"), number_in(b, "bytes"), first, last});
  }
  return rows;
}

}  // namespace

Json profile_part(const std::filesystem::path& path, const std::string& model_name, Texts& texts) {
  const Json document = parse_json(read_text(path), path.string());
  if (!document.is_object()) no_profile(path, "a document that is no object");
  const Json p = document.value("profile", Json());
  if (!p.is_object()) no_profile(path, "a document without \"profile\"");
  const std::string name = text_in(document, "name");
  if (name != model_name) throw Error(ErrorCode::bad_input, "the profile is of another model").expected(model_name).found(name);
  Json steps = Json::array();
  const Json list = p.value("steps", Json::array());
  if (!list.is_array()) no_profile(path, "steps that are no list");
  for (const Json& s : list)
    steps.push_back({texts.number(text_in(s, "kernel")), texts.number(text_in(s, "op")), texts.number(text_in(s, "layer")),
                     rounded(number_in(s, "start_ms")), rounded(number_in(s, "ms")), rounded(number_in(s, "gflop")),
                     rounded(number_in(s, "bytes"))});
  const Json peaks = p.value("peaks", Json::object());
  return {{"file", path.filename().string()},
          {"backend", text_in(document, "backend")},
          {"ms", rounded(number_in(p, "ms"))},
          {"accounted", rounded(number_in(p, "accounted"))},
          {"threads", number_in(p, "threads")},
          {"peaks", {{"gflops", rounded(number_in(peaks, "gflops"))}, {"read_gbs", rounded(number_in(peaks, "read_gbs"))}}},
          {"weight_bytes", number_in(p, "weight_bytes")},
          {"arena_bytes", number_in(p, "arena_bytes")},
          {"kernels", groups(p.value("kernels", Json()))},
          {"ops", groups(p.value("ops", Json()))},
          {"layers", groups(p.value("layers", Json()))},
          {"buffers", buffers(p.value("buffers", Json()), steps.size())},
          {"fields", {"kernel", "op", "layer", "start", "ms", "gflop", "bytes"}},
          {"steps", steps}};
}

}  // namespace pycandle::report
