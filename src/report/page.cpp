// The page: web/'s built template with the document in it.
#include "base/error.h"
#include "report/report.h"
#include "report/template.h"

namespace pycandle::report {
namespace {

constexpr std::string_view kPlace = "@@PYCANDLE_REPORT@@";

// JSON inside <script>: no byte of it may end the element or open a comment. The escapes stand in strings only, since JSON
// has these characters nowhere else.
std::string for_script(const Json& document) {
  const std::string text = document.dump(-1, ' ', false, Json::error_handler_t::replace);
  std::string out;
  out.reserve(text.size() + text.size() / 16);
  for (const char c : text) {
    if (c == '<') {
      out += "\\u003c";
    } else if (c == '>') {
      out += "\\u003e";
    } else if (c == '&') {
      out += "\\u0026";
    } else {
      out += c;
    }
  }
  return out;
}

}  // namespace

std::string html_page(const Json& document) {
  const std::string_view page = page_template();
  const size_t at = page.find(kPlace);
  if (at == std::string_view::npos) throw Error(ErrorCode::internal, "the report's template has no place for the data");
  std::string out(page.substr(0, at));
  out += for_script(document);
  out += page.substr(at + kPlace.size());
  return out;
}

}  // namespace pycandle::report
