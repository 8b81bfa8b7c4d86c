#include "text/settings.h"

#include <fmt/format.h>

#include "base/error.h"

namespace pycandle::text {

Settings::Settings(const Json& json, std::string what) : json_(json), what_(std::move(what)) {
  if (!json.is_object()) throw Error(ErrorCode::bad_input, fmt::format("the tokenizer's {} is not an object", what_));
}

void Settings::wrong(const char* name, const char* expected) const {
  throw Error(ErrorCode::bad_input, fmt::format("the tokenizer's {} has no valid {}", what_, name)).expected(expected);
}

const Json* Settings::find(const char* name) const {
  const auto it = json_.find(name);
  return it == json_.end() || it->is_null() ? nullptr : &*it;
}

bool Settings::has(const char* name) const { return find(name) != nullptr; }

const Json& Settings::at(const char* name) const {
  const Json* found = find(name);
  if (found == nullptr) wrong(name, "a value");
  return *found;
}

const Json& Settings::array(const char* name) const {
  const Json& found = at(name);
  if (!found.is_array()) wrong(name, "a list");
  return found;
}

std::string Settings::text(const char* name) const {
  const Json& found = at(name);
  if (!found.is_string()) wrong(name, "a string");
  return found.get<std::string>();
}

std::string Settings::text(const char* name, const char* otherwise) const { return has(name) ? text(name) : otherwise; }

bool Settings::flag(const char* name) const {
  const Json& found = at(name);
  if (!found.is_boolean()) wrong(name, "true or false");
  return found.get<bool>();
}

bool Settings::flag(const char* name, bool otherwise) const { return has(name) ? flag(name) : otherwise; }

double Settings::number(const char* name, double otherwise) const {
  if (!has(name)) return otherwise;
  const Json& found = at(name);
  if (!found.is_number()) wrong(name, "a number");
  return found.get<double>();
}

size_t Settings::count(const char* name) const {
  const Json& found = at(name);
  if (!found.is_number_unsigned() || found.get<uint64_t>() > UINT32_MAX) wrong(name, "a number from 0 on");
  return found.get<size_t>();
}

size_t Settings::count(const char* name, size_t otherwise) const { return has(name) ? count(name) : otherwise; }

CodePoint Settings::character(const char* name) const {
  const std::string found = text(name);
  if (found.empty() || !is_valid(found) || decode(found.data()).size != found.size()) wrong(name, "one character");
  return decode(found.data()).code;
}

std::string component_type(const Json& json, const char* kind) {
  if (!json.is_object() || !json.contains("type") || !json["type"].is_string())
    throw Error(ErrorCode::bad_input, fmt::format("a {} of the tokenizer has no type", kind));
  return json["type"].get<std::string>();
}

void unknown_component(const char* kind, const std::string& type) {
  throw Error(ErrorCode::gap, fmt::format("the tokenizer has a {} that is not supported", kind)).found(type);
}

}  // namespace pycandle::text
