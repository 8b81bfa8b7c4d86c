#include "import/field.h"

#include <fmt/format.h>

#include <cmath>

namespace pycandle {

std::string Field::document() const {
  const Field* root = this;
  while (root->parent_) root = root->parent_;
  return std::string(root->key_);
}

std::string Field::path() const {
  if (!parent_) return "";
  std::string outer = parent_->path();
  if (key_.empty()) return fmt::format("{}[{}]", outer, index_);
  return outer.empty() ? std::string(key_) : fmt::format("{}.{}", outer, key_);
}

std::string Field::kind() const {
  switch (json_->type()) {
    case Json::value_t::null: return "null";
    case Json::value_t::object: return "an object";
    case Json::value_t::array: return "a list";
    case Json::value_t::string: return "a string";
    case Json::value_t::boolean: return json_->get<bool>() ? "true" : "false";
    case Json::value_t::number_integer:
    case Json::value_t::number_unsigned: return json_->dump();
    case Json::value_t::number_float: return fmt::format("{}", json_->get<double>());
    default: return "something else";
  }
}

void Field::fail(const std::string& message, const std::string& expected, const std::string& found) const {
  std::string where = path();
  Error error(ErrorCode::bad_input, fmt::format("{}: {}{}", document(), where.empty() ? "" : where + ": ", message));
  if (!expected.empty()) error.expected(expected);
  if (!found.empty()) error.found(found);
  error.hint("record the model again");
  throw error;
}

Field Field::operator[](std::string_view key) const {
  if (!json_->is_object()) fail("this is not an object", "an object", kind());
  auto found = json_->find(key);
  if (found == json_->end()) fail(fmt::format("'{}' is missing", key));
  return Field(*found, *this, key, 0);
}

Field Field::operator[](size_t index) const {
  if (index >= size()) fail(fmt::format("entry {} is missing", index), {}, fmt::format("{} entries", size()));
  return Field((*json_)[index], *this, {}, index);
}

std::optional<Field> Field::find(std::string_view key) const {
  if (!json_->is_object()) return std::nullopt;
  const auto found = json_->find(key);
  return found == json_->end() || found->is_null() ? std::nullopt : std::optional(Field(*found, *this, key, 0));
}

size_t Field::size() const {
  if (!json_->is_array()) fail("this is not a list", "a list", kind());
  return json_->size();
}

std::string Field::string() const {
  if (!json_->is_string()) fail("this is not a string", "a string", kind());
  return json_->get<std::string>();
}

std::string Field::string_or(std::string_view otherwise) const { return is_null() ? std::string(otherwise) : string(); }

bool Field::boolean() const {
  if (!json_->is_boolean()) fail("this is not a bool", "true or false", kind());
  return json_->get<bool>();
}

int64_t Field::integer(int64_t low, int64_t high) const {
  bool too_large = json_->is_number_unsigned() &&
                   json_->get<uint64_t>() > static_cast<uint64_t>(std::numeric_limits<int64_t>::max());
  if (!json_->is_number_integer() || too_large) fail("this is not an integer", "an integer of 64 bits", kind());
  int64_t value = json_->get<int64_t>();
  if (value < low || value > high)
    fail("this number is out of range", fmt::format("{} to {}", low, high), fmt::format("{}", value));
  return value;
}

int32_t Field::index(size_t count) const {
  if (is_null()) return -1;
  if (count == 0) fail("this refers to an empty table", "null", kind());
  return static_cast<int32_t>(integer(0, static_cast<int64_t>(count) - 1));
}

double Field::number() const {
  if (!json_->is_number()) fail("this is not a number", "a number", kind());
  double value = json_->get<double>();
  if (!std::isfinite(value)) fail("this number is not finite", "a finite number");
  return value;
}

}  // namespace pycandle
