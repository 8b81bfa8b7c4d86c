// The table of what the backend runs itself: for each op which calls it claims, and how a node of it becomes steps.
#pragma once

#include <string_view>
#include <vector>

#include "backends/cpu/planner.h"

namespace pycandle::cpu {

struct Lowering {
  const char* op;
  // Functionals: which calls are run whole. Null: always. Primitives are asked nothing.
  bool (*claims)(const Call&);
  // Adds the steps of a node; false when this one goes to the evaluator (primitives only).
  bool (*lower)(Planner&, size_t node);
  bool is_view = false;  // moves nothing
};

// Of i64 elements: a step of its own; false when there is none for this node.
bool lower_integers(Planner&, size_t node);

// Of complex elements: a step of its own; false when there is none for this node.
bool lower_complex(Planner&, size_t node);

// Slices of x at the indices along an axis, wherever it is; false when there is no kernel.
bool lower_take_along(Planner&, size_t node);
// The same where constant indices go up in equal steps, or repeat each place as often: a view, or one copy.
bool lower_take_by_pattern(Planner&, size_t node);

const Lowering* find_lowering(std::string_view op);  // null when there is none

// One for each file.
std::vector<Lowering> movement_lowerings();
std::vector<Lowering> elementwise_lowerings();
std::vector<Lowering> product_lowerings();
std::vector<Lowering> row_lowerings();
std::vector<Lowering> attention_lowerings();
std::vector<Lowering> cache_lowerings();
std::vector<Lowering> integer_lowerings();
std::vector<Lowering> indexing_lowerings();
std::vector<Lowering> expert_lowerings();
std::vector<Lowering> convolution_lowerings();
std::vector<Lowering> recurrent_lowerings();
std::vector<Lowering> complex_lowerings();

}  // namespace pycandle::cpu
