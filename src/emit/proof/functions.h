// The functions, members and operators that emitted code uses, by name: each is the front end's own.
#pragma once

#include "emit/proof/value.h"

namespace pycandle::emit::proof {

Value prefix(const std::string& sign, const Value& of);
Value infix(const std::string& sign, const Value& left, const Value& right);
// x.reshape({…}), x.chunk<3>(2), w.get("weight"), h.size(). types: "<3>", or nothing.
Value call_member(const Value& object, const std::string& name, const std::string& types, const List& arguments);
// cat({…}, 1), unpack<2>(…), functional::softmax(x, -1); nullopt when there is no such function.
std::optional<Value> call_free(const std::string& name, const std::string& types, const List& arguments);

}  // namespace pycandle::emit::proof
