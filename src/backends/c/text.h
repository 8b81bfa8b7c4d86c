// How C writes types, numbers and names.
#pragma once

#include <array>
#include <concepts>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/dtype.h"

namespace pycandle::c {

// The arguments as text in the places {} or {0} of the pattern; {{ and }} are braces.
std::string filled(std::string_view pattern, std::span<const std::string> arguments);
inline std::string as_text(std::string_view text) { return std::string(text); }
inline std::string as_text(char letter) { return {letter}; }
template <std::same_as<bool> Truth> std::string as_text(Truth) = delete;  // 1 or true?
template <std::integral Number> std::string as_text(Number number) { return std::to_string(number); }
std::string as_text(float);          // the shortest text that is read as this number
std::string as_text(double);
template <typename... Arguments> std::string formatted(std::string_view pattern, const Arguments&... arguments) {
  return filled(pattern, std::array<std::string, sizeof...(arguments)>{as_text(arguments)...});
}

std::string stored_type(DType);      // float, uint16_t for f16 and bf16, uint8_t for bool
std::string computed_type(DType);    // what an element is computed in: float for f16 and bf16
bool is_supported(DType);            // all but complex
std::string literal(const Scalar&, DType);   // 0.5f, INT64_C(3)
std::string loaded(const std::string& element, DType);  // an element as its computed type
std::string rounded(const std::string& value, DType);   // to what the dtype can hold, in the computed type
std::string stored(const std::string& value, DType);    // as it is kept in memory
std::string identifier(std::string_view);    // letters, digits and _, no keyword of C
// a * 3 + b: terms that are 0 left out, "0" when all are.
std::string sum_of(const std::vector<std::pair<std::string, int64_t>>& terms, int64_t constant = 0);

}  // namespace pycandle::c
