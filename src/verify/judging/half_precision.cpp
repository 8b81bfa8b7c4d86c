#include "verify/judging/half_precision.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <unordered_set>

#include "verify/judging/groups.h"
#include "verify/judging/slices.h"

namespace pycandle {
namespace {

// Elements that round the other way although no kernel shows it: one in so many, and a few in any group.
constexpr double kOneIn = 4096, kFew = 6;
// An element counts as off by so many steps of its dtype at most: what cancels to nearly nothing is many steps off.
constexpr double kMostSteps = 4;

// What differs from the rounded run, element by element.
struct Differences {
  std::vector<double> golden;                // golden − rounded
  std::vector<std::vector<double>> kernels;  // the same of each run as kernels do it
  std::vector<double> exact, step;           // step: from the rounded number to the next of its dtype
  std::vector<bool> counts;
};

double step_at(double v, DType dtype) {
  const double least = dtype == DType::f16 ? 0x1p-24 : std::numeric_limits<float>::min();
  return std::max(least, std::ldexp(2 * unit_roundoff(dtype), std::ilogb(std::max(std::abs(v), least))));
}

Differences differences_of(const Evidence& e) {
  Differences d;
  const std::vector<double> rounded = as_reals(e.rounded);
  d.exact = as_reals(e.f64);
  d.golden = as_reals(e.golden);
  const double highest = highest_of(e.golden.dtype()) / 4;
  d.counts.resize(rounded.size());
  d.step.resize(rounded.size());
  for (size_t i = 0; i < rounded.size(); ++i) {
    d.counts[i] = std::isfinite(rounded[i]) && std::isfinite(d.exact[i]) && std::abs(rounded[i]) < highest;
    d.golden[i] = d.counts[i] ? d.golden[i] - rounded[i] : 0;
    d.step[i] = d.counts[i] ? step_at(rounded[i], e.golden.dtype()) : 1;
  }
  for (const Array& run : e.as_kernels) {
    std::vector<double> off = as_reals(run);
    for (size_t i = 0; i < off.size(); ++i) off[i] = d.counts[i] && std::isfinite(off[i]) ? off[i] - rounded[i] : 0;
    d.kernels.push_back(std::move(off));
  }
  return d;
}

// Σ (steps off)² in each group.
std::vector<double> steps_off(const std::vector<double>& off, const Differences& d, const Grouping& grouping) {
  std::vector<double> sums(grouping.count);
  for (size_t i = 0; i < off.size(); ++i) {
    if (off[i] == 0) continue;
    const double steps = std::min(std::abs(off[i]) / d.step[i], kMostSteps);
    sums[grouping.group_of(i)] += steps * steps;
  }
  return sums;
}

struct Miss {
  double off = 0, allowed = 0;  // RMS, in steps
  std::string where;
};

// Is more different in a group than kernels make it?
std::optional<Miss> look_at_groups(const Differences& d, const Grouping& grouping, AllKernels where) {
  std::vector<double> n(grouping.count), explained(grouping.count);
  for (size_t i = 0; i < d.counts.size(); ++i) n[grouping.group_of(i)] += d.counts[i] ? 1 : 0;
  double anywhere = 0;  // of an element
  for (const std::vector<double>& off : d.kernels) {
    const std::vector<double> sums = steps_off(off, d, grouping);
    for (size_t g = 0; g < grouping.count; ++g) {
      explained[g] = std::max(explained[g], sums[g]);
      if (n[g] > 0) anywhere = std::max(anywhere, sums[g] / n[g]);
    }
  }
  const std::vector<double> off = steps_off(d.golden, d, grouping);
  // Runs that show what is next to a tie anywhere are noisy enough by themselves.
  const double factor = where == AllKernels::any_place ? kRmsFactor : kRmsFactor * kRmsFactor;
  std::optional<Miss> miss;
  double worst = 1;
  for (size_t g = 0; g < grouping.count; ++g) {
    if (where == AllKernels::any_place) explained[g] = std::max(explained[g], anywhere * n[g]);
    const double allowed = factor * (explained[g] + n[g] / kOneIn) + kFew;
    if (off[g] <= worst * allowed) continue;
    worst = off[g] / allowed;
    miss = Miss{std::sqrt(off[g] / n[g]), std::sqrt(allowed / n[g]), grouping.count > 1 ? " " + grouping.name_of(g) : ""};
  }
  return miss;
}

// The part of the difference that goes with the value itself, in steps of the dtype: up where the value is positive, down where
// it is negative. Of independent roundings of either sign, z is as small as that of a fair coin, whatever their sizes.
struct Slope {
  double sum = 0, squares = 0, n = 0;
  void add(double steps, double value) {
    sum += value < 0 ? -steps : steps;
    squares += steps * steps;
    n += 1;
  }
  double z() const { return squares > 0 ? sum / std::sqrt(squares) : 0; }
  double mean() const { return n > 0 ? sum / n : 0; }
};

constexpr double kSureOfSlope = 7;  // a fair coin does this once in 10^11

// Each exact value once: repeated rows round alike.
std::vector<bool> first_of_equals(const Differences& d) {
  std::unordered_set<uint64_t> seen;
  std::vector<bool> is_first(d.exact.size());
  for (size_t i = 0; i < d.exact.size(); ++i)
    is_first[i] = d.counts[i] && d.exact[i] != 0 && seen.insert(std::bit_cast<uint64_t>(d.exact[i])).second;
  return is_first;
}

std::optional<std::string> systematic_part(const Differences& d, const std::vector<Grouping>& groupings) {
  const std::vector<bool> counts = first_of_equals(d);
  const auto slopes_of = [&](const std::vector<double>& off, const Grouping& grouping) {
    std::vector<Slope> slopes(grouping.count);
    for (size_t i = 0; i < off.size(); ++i) {
      if (counts[i]) slopes[grouping.group_of(i)].add(std::clamp(off[i] / d.step[i], -kMostSteps, kMostSteps), d.exact[i]);
    }
    return slopes;
  };
  const Grouping whole;
  const Slope of_golden = slopes_of(d.golden, whole)[0];
  double of_kernels = 1 / kOneIn;
  for (const std::vector<double>& off : d.kernels) of_kernels = std::max(of_kernels, std::abs(slopes_of(off, whole)[0].mean()));
  if (std::abs(of_golden.z()) > kSureOfSlope && std::abs(of_golden.mean()) > 2 * of_kernels)
    return fmt::format("by {:.2g} units in the last place on average", of_golden.mean());
  for (const Grouping& grouping : groupings) {
    const auto sum_of = [&](const std::vector<double>& off) {
      double sum = 0;
      for (const Slope& slope : slopes_of(off, grouping)) sum += slope.z() * slope.z();
      return sum;
    };
    double expected = static_cast<double>(grouping.count);
    for (const std::vector<double>& off : d.kernels) expected = std::max(expected, sum_of(off));
    const double allowed = 2 * expected + kSureOfSlope * std::sqrt(2 * expected) + kSureOfSlope * kSureOfSlope;
    if (sum_of(d.golden) > allowed)
      return fmt::format("another way for each {}",
                         grouping.kind == Grouping::Kind::rows ? "row" : fmt::format("index of axis {}", grouping.axis));
  }
  return std::nullopt;
}

}  // namespace

bool has_known_kernels(const Program& p) {
  return std::all_of(p.graph.nodes.begin(), p.graph.nodes.end(), [](const Node& node) {
    const OpDef& op = *node.op;
    return op.is_one_kernel || node.operands.empty() || op.is_pointwise || op.is_activation || op.is_rearrangement ||
           op.is_kernel_by_kernel || only_moves(node) ||
           (op.is_primitive && op.rounding == Rounding::exact && node.regions.empty());
  });
}

bool rounds_products(const Program& p) {
  return std::any_of(p.graph.nodes.begin(), p.graph.nodes.end(), [](const Node& node) { return node.op->rounds_product; });
}

bool is_half(DType dtype) { return dtype == DType::f16 || dtype == DType::bf16; }

Judgement judge_as_kernels(const Evidence& e, const Judgement& first, AllKernels where) {
  Judgement result = first;
  if (!first.passed || e.as_kernels.empty() || e.golden.same_bytes(e.rounded)) return result;
  const Differences d = differences_of(e);
  const std::vector<Grouping> groupings = groupings_of(e.golden.shape());
  std::optional<Miss> miss = look_at_groups(d, {}, where);
  for (const Grouping& grouping : groupings) {
    if (!miss) miss = look_at_groups(d, grouping, where);
  }
  if (miss) {
    result.passed = false;
    result.why = fmt::format(
        "{}'s value is {:.2g} (rms) units in the last place from the program's{}; kernels that compute in f32 and round once "
        "differ by "
        "{:.2g} at most",
        e.whose, miss->off, miss->where, miss->allowed);
  } else if (const auto part = systematic_part(d, groupings)) {
    result.passed = false;
    result.why = fmt::format("what {}'s value differs by is no rounding: it goes with the value ({})", e.whose, *part);
  }
  return result;
}

}  // namespace pycandle
