// Integers that are choices between floats: argmax, topk, sort. Which of two nearly equal numbers is larger may be decided
// by rounding; such a choice is no error, and every choice is reported with its margin.
#pragma once

#include <optional>
#include <string>

#include "verify/judging/slices.h"
#include "verify/judging/trials.h"

namespace pycandle {

struct Decisions {
  std::string op;
  int64_t count = 0, differing = 0;  // choices, and those that were made otherwise
  double margin = 0;                 // the closest: how far apart what was chosen and the next best are
  double floor = 0;                  // how far rounding moves the numbers that were compared there
  bool within_rounding = true;       // every choice that differs is between numbers that rounding can turn around
  std::string text(const std::string& whose = "PyTorch") const;
};

inline constexpr double kDecisionFactor = 16;  // as the largest error of a float

// Numbers that were compared: their exact values, and how far rounding moves each.
struct Compared {
  std::vector<double> exact, moves;
  Sizes shape;
  double roundoff = 0;
};

// What a slice computes on the way to its value.
class SliceRuns {
 public:
  SliceRuns(const Slice& slice, const Trials& trials, const std::vector<Array>& inputs)
      : slice_(slice), trials_(trials), inputs_(inputs) {}
  const Program& program() const { return slice_.program; }
  std::optional<Compared> compared(ValueId) const;  // nothing when it is no float, or a parameter
  Array rounded(ValueId) const;

 private:
  const Array* input(ValueId) const;
  Program up_to(ValueId) const;

  const Slice& slice_;
  const Trials& trials_;
  const std::vector<Array>& inputs_;
};

const Node* node_of(const Program&, ValueId);  // null when no node computes it

// Nothing when the slice's value is no such choice.
std::optional<Decisions> look_at_decisions(const Slice&, const Trials&, const std::vector<Array>& inputs, const Array& golden,
                                           const Array& ours);

}  // namespace pycandle
