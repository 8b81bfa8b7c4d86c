// Integers that are choices between floats: argmax, topk, sort. Which of two nearly equal numbers is larger may be decided
// by rounding; such a choice is no error, and every choice is reported with its margin.
#pragma once

#include <optional>
#include <string>

#include "verify/slices.h"
#include "verify/trials.h"

namespace pycandle {

struct Decisions {
  std::string op;
  int64_t count = 0, differing = 0;  // choices, and those that were made otherwise
  double margin = 0;                 // the closest: how far apart what was chosen and the next best are
  double floor = 0;                  // how far rounding moves the numbers that were compared there
  bool within_rounding = true;       // every choice that differs is between numbers that rounding can turn around
  std::string text(const std::string& whose = "PyTorch") const;
};

// Nothing when the slice's value is no such choice.
std::optional<Decisions> look_at_decisions(const Slice&, const Trials&, const std::vector<Array>& inputs, const Array& golden,
                                           const Array& ours);

}  // namespace pycandle
