// The JSON of a result's parts: the same in result.jsonl and in what --json prints. For .cpp files: the header is heavy.
#pragma once

#include "base/json.h"
#include "verify/result_file.h"

namespace pycandle {

Json to_json(const Metrics&, const Sizes& shape);
Json to_json(const LayerResult&);
Json to_json(const OutputError&);
Json to_json(const Comparison&);
Json counts_json(const VerifyResult&);  // {"exact": 3, "within_rounding": 1, …}
const char* status_of(const VerifyResult&);  // "passed", "wrong" or "no evidence"
std::string one_line(const Json&);

}  // namespace pycandle
