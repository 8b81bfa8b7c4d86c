// The numbers in a draft's text: which attributes are numbers that instances of one class may differ in, and which are its
// formula.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "emit/draft.h"

namespace pycandle::emit {

// Attributes that say which axis is meant: another one is another formula, not another number.
bool is_structural(std::string_view name);
bool is_number(const Attribute&);
// True or false, and a field where Python has an attribute for it.
bool is_switch(std::string_view name, const Attribute&);
// A number becomes a column; its kind, and the length of a list, stay in the text.
void add_number(const Attribute& value, Column column, std::string& text, std::vector<Column>& columns);

}  // namespace pycandle::emit
