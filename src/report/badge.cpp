// A badge: "pycandle | 80 layers right", as an SVG of its own.
#include <fmt/format.h>

#include "report/parts.h"

namespace pycandle::report {
namespace {

struct Face {
  std::string text, colour;  // white text on it has a contrast of 4.5 and more
};

Face face_of(const Json& document) {
  const std::string status = text_in(document["summary"], "status");
  if (status == "not verified") return {"not verified", "#57606a"};
  const Json& counts = document["result"]["counts"];
  if (status == "passed") return {fmt::format("{} layers right", document["result"]["layers"].size()), "#1a7f37"};
  if (status == "no evidence") return {"no evidence", "#9a6700"};
  return {fmt::format("{} wrong", counts.value("wrong here", 0)), "#cf222e"};
}

}  // namespace

std::string badge(const Json& document) {
  constexpr size_t kDigit = 7, kMargin = 12, kLeft = 66;  // pixels at 11 px Verdana
  const Face face = face_of(document);
  const size_t right = face.text.size() * kDigit + kMargin, width = kLeft + right;
  return fmt::format(
      R"(<svg xmlns="http://www.w3.org/2000/svg" width="{0}" height="20" role="img" aria-label="pycandle: {1}"><title>pycandle: {1}</title>)"
      R"(<rect width="{0}" height="20" rx="3" fill="#24292f"/><path fill="{2}" d="M{3} 0h{4}a3 3 0 0 1 3 3v14a3 3 0 0 1-3 3H{3}z"/>)"
      R"(<g fill="#fff" text-anchor="middle" font-family="Verdana,DejaVu Sans,sans-serif" font-size="11"><text x="{5}" y="14">pycandle</text>)"
      R"(<text x="{6}" y="14">{1}</text></g></svg>)"
      "\n",
      width, face.text, face.colour, kLeft, right - 3, kLeft / 2, kLeft + right / 2);
}

}  // namespace pycandle::report
