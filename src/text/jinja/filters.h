// What a template can do with a value: filters, tests, and the methods of strings, lists and dicts.
#pragma once

#include "text/jinja/value.h"

namespace pycandle::text::jinja {

// ErrorCode::gap names what is not known.
Value apply_filter(const std::string& name, const Value& subject, const Arguments&);
bool apply_test(const std::string& name, const Value& subject, const Arguments&);
Value call_method(const Value& subject, const std::string& name, const Arguments&);
bool has_method(const Value& subject, const std::string& name);

// How many: characters, elements, keys.
size_t length_of(const Value&);
// What a loop walks over: elements, characters, keys.
List elements_of(const Value&);
// Python's subscript; undefined when there is none.
Value element_of(const Value& subject, const Value& key);
Value slice_of(const Value& subject, const Value& from, const Value& to, const Value& step);

}  // namespace pycandle::text::jinja
