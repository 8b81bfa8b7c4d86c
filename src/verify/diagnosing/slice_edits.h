// Slices with something in them changed: what causes are tried with.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "ir/mistakes.h"
#include "verify/judging/slices.h"

namespace pycandle {

// The slice with another way to compute one of its nodes; nothing when that is not possible there.
std::optional<Program> with_mistake(const Slice&, const OpTable&, const Node& target, const Mistake&, double number);
// The same with one at each of several nodes.
std::optional<Program> with_mistakes(const Slice&, const OpTable&, const std::vector<std::pair<const Node*, Mistake>>&,
                                     double number);
// The same where the mistake may change the type: everything behind it is inferred anew.
std::optional<Program> with_mistake_of_any_type(const Slice&, const OpTable&, const Node& target, const Mistake&);
// One more input, after the others.
ValueId add_input(Program&, const Type&, const std::string& name);

// The array as it stands in one of a larger shape, by the rules of broadcasting; nothing when it does not fit there.
std::optional<std::vector<double>> broadcast_reals(const Array&, const Sizes& shape);
Type type_of(const Array&);

}  // namespace pycandle
