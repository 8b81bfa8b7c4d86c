// A place in a JSON document that came from outside: every read says where it stands when it is not what it should be.
//
//   Field node = nodes[12];                 // nodes[12].args[3]: expected a list, found a string
//   std::string op = node["op"].string();
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>

#include "base/error.h"
#include "base/json.h"

namespace pycandle {

// Holds pointers to the document and to the field around it, so both must live longer; the path is made only for errors.
class Field {
 public:
  Field(const Json& json, std::string_view document) : json_(&json), key_(document) {}

  const Json& json() const { return *json_; }
  bool is_null() const { return json_->is_null(); }
  bool has(std::string_view key) const { return find(key).has_value(); }

  Field operator[](std::string_view key) const;            // an object's entry, which must be there
  Field operator[](size_t index) const;                    // a list's entry
  std::optional<Field> find(std::string_view key) const;   // an object's entry, when it has one that is not null
  template <class F> void each(F f) const;                 // f(field) for a list's entries, in order
  template <class F> void each_entry(F f) const;           // f(name, field) for an object's entries, in order
  size_t size() const;                                     // of a list
  std::string string() const;
  std::string string_or(std::string_view otherwise) const;  // null is `otherwise`
  bool boolean() const;
  int64_t integer(int64_t low = std::numeric_limits<int64_t>::min(), int64_t high = std::numeric_limits<int64_t>::max()) const;
  int32_t index(size_t count) const;                       // null is -1; otherwise within a table of that many entries
  double number() const;                                   // finite

  std::string path() const;                                // nodes[12].args[3]
  [[noreturn]] void fail(const std::string& message, const std::string& expected = {}, const std::string& found = {}) const;
  std::string kind() const;                                // "a list", "null", …

 private:
  Field(const Json& json, const Field& parent, std::string_view key, size_t index)
      : json_(&json), parent_(&parent), key_(key), index_(index) {}
  std::string document() const;

  const Json* json_;
  const Field* parent_ = nullptr;
  std::string_view key_;
  size_t index_ = 0;
};

template <class F> void Field::each(F f) const {
  for (size_t i = 0; i < size(); ++i) f((*this)[i]);
}

template <class F> void Field::each_entry(F f) const {
  if (!json_->is_object()) fail("this is not an object", "an object", kind());
  for (const auto& [name, value] : json_->items()) f(name, Field(value, *this, name, 0));
}

}  // namespace pycandle
