// The parts of the document, and how they are kept small: texts that repeat stand once in a table, numbers have four digits.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "import/importer.h"
#include "report/report.h"

namespace pycandle::report {

// Texts by number: a file, an op or a line of source is written once.
class Texts {
 public:
  int64_t number(const std::string& text) {
    const auto [place, fresh] = numbers_.try_emplace(text, static_cast<int64_t>(texts_.size()));
    if (fresh) texts_.push_back(text);
    return place->second;
  }
  Json json() const { return texts_; }

 private:
  std::map<std::string, int64_t> numbers_;
  std::vector<std::string> texts_;
};

double rounded(double);            // four digits
Json number_or_text(const Json&);  // rounded; "inf" and "nan" stay texts; anything else is null
std::string text_in(const Json& object, const char* key);
double number_in(const Json& object, const char* key);

// The passes that the program of a result was made without.
std::set<std::string> disabled_passes(const Json& result);

Json program_part(const Recording&, Texts&);
// Without a ledger, what the recording's own files give its parameters.
Json weights_part(const Recording&, const Sources&);
Json result_part(const std::filesystem::path&, const Program&, Texts&);  // bad_input when it is of another model
Json baseline_part(const std::filesystem::path& before, const std::filesystem::path& now);
Json profile_part(const std::filesystem::path&, const std::string& model_name, Texts&);
// The emitted code, and which of its lines computes which node.
Json code_part(const std::filesystem::path&, const Program&);
// Beside each wrong layer, the commands that run it alone.
void add_replays(Json& document, const Sources&);
// The verdict in a sentence, and what to do next.
Json summary_part(const Json& document, const Sources&);

}  // namespace pycandle::report
