// What a verification found, for a person and as JSON: a summary that fits on a screen, wrong layers in full.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "base/json.h"
#include "verify/result_file.h"

namespace pycandle::cli {

using Reproductions = std::vector<std::pair<TapId, std::string>>;  // the folder that pycandle replay takes

struct Report {
  const VerifyResult& result;
  std::string model;             // as it was given
  double seconds = 0;
  const Reproductions& folders;  // of wrong layers
  bool all = false;              // every layer, not the summary alone
};
void print_text(const Report&);
void print_text(const Comparison&);
Json to_json(const Report&);

}  // namespace pycandle::cli
