#include "verify/judging/layer_result.h"

#include <iterator>

namespace pycandle {
namespace {

constexpr const char* kVerdictTexts[] = {
    "exact",       "within rounding", "within tolerance", "accumulated rounding", "reference unstable",
    "no evidence", "wrong upstream",  "wrong here"};
static_assert(std::size(kVerdictTexts) == std::size(kVerdicts));

constexpr const char* kJudgedTexts[] = {"both", "program", "backend", "tolerance"};

}  // namespace

const char* to_string(Verdict v) { return kVerdictTexts[static_cast<size_t>(v)]; }

std::optional<Verdict> verdict_from_text(std::string_view text) {
  for (Verdict v : kVerdicts) {
    if (text == to_string(v)) return v;
  }
  return std::nullopt;
}

const char* to_string(Judged j) { return kJudgedTexts[static_cast<size_t>(j)]; }

}  // namespace pycandle
