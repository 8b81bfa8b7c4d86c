// The entries of one component of tokenizer.json, with errors that name the component and the entry.
#pragma once

#include <string>
#include <string_view>

#include "base/json.h"
#include "text/utf8.h"

namespace pycandle::text {

class Settings {
 public:
  // `what`: "normalizer Replace", for errors. The JSON must outlive this.
  Settings(const Json& json, std::string what);

  bool has(const char* name) const;  // and is not null
  std::string text(const char* name) const;
  std::string text(const char* name, const char* otherwise) const;
  bool flag(const char* name) const;
  bool flag(const char* name, bool otherwise) const;
  double number(const char* name, double otherwise) const;
  size_t count(const char* name) const;
  size_t count(const char* name, size_t otherwise) const;
  CodePoint character(const char* name) const;  // a string of one character
  const Json& at(const char* name) const;
  const Json& array(const char* name) const;
  const std::string& what() const { return what_; }
  [[noreturn]] void wrong(const char* name, const char* expected) const;

 private:
  const Json* find(const char* name) const;
  const Json& json_;
  std::string what_;
};

// The "type" of a component of a kind ("normalizer").
std::string component_type(const Json&, const char* kind);
[[noreturn]] void unknown_component(const char* kind, const std::string& type);

}  // namespace pycandle::text
