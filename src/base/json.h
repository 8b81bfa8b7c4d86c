// JSON from outside: nlohmann's values behind a parser that refuses duplicate keys, deep nesting and trailing bytes.
// Include this only in .cpp files: the header is heavy.
#pragma once

#include <nlohmann/json.hpp>
#include <string_view>

namespace pycandle {

using Json = nlohmann::ordered_json;

// ErrorCode::bad_input with `what` ("manifest gpt2_manifest.json") and the byte position.
Json parse_json(std::string_view text, std::string_view what, int max_depth = 64);

}  // namespace pycandle
