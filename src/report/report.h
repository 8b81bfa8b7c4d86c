// One document about a model: what was recorded, what verification found, where the time goes. Everything in it is read
// from files that other commands wrote; docs/report.md describes it. For .cpp files: the header is heavy.
#pragma once

#include <cstddef>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "base/json.h"

namespace pycandle::report {

inline constexpr const char* kReportVersion = "1.0.0";

struct Sources {
  std::string model;                            // a manifest, the folder of one, or a bundle, as it was given
  std::filesystem::path result, baseline;       // of `verify --out`; empty: none
  std::filesystem::path ledger;                 // of --ledger of `weights extract` or `forward`; empty: none
  std::filesystem::path code;                   // what codegen wrote: a header, or the folder of a project; empty: none
  std::vector<std::filesystem::path> profiles;  // of `forward --profile --json`
  bool weights = true;                          // read them all for their statistics
  std::function<void(size_t done, size_t total)> progress;
};

// The whole document: what --format json writes and the page shows.
Json collect(const Sources&);

std::string html_page(const Json& document);   // self-contained: nothing is loaded from outside
std::string markdown(const Json& document);    // for a pull request
std::string badge(const Json& document);       // a small SVG with the verdict

}  // namespace pycandle::report
