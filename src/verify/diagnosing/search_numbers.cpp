// A number that is another one: those that people write first; then the best of a grid, refined between its neighbours, as
// the shortest that still fits.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "verify/diagnosing/search.h"

namespace pycandle {
namespace {

// The numbers that a node has now.
std::vector<double> numbers_of(const Node& node) {
  std::vector<double> numbers;
  for (const auto& [name, value] : node.attributes) {
    double number = 0;
    if (const auto* real = std::get_if<double>(&value)) number = *real;
    if (const auto* integer = std::get_if<int64_t>(&value)) number = static_cast<double>(*integer);
    if (number != 0 && std::isfinite(number)) numbers.push_back(number);
  }
  return numbers;
}

}  // namespace

void Search::numbers(Numbers which, const std::set<NodeId>* only_at) {
  for (size_t n = graph().nodes.size(); n-- > 0;) {
    if (only_at && only_at->count(n) == 0 && only_at->count(reader_of(n)) == 0) continue;
    attempt([&] {
      for (const Mistake& v : mistakes_of(graph().nodes[n], graph(), trials_.sizes(), trials_.table())) {
        if (v.has_number()) attempt([&] { try_number(n, v, which); });
      }
    });
  }
}

bool Search::try_this_number(NodeId n, const Mistake& v, double number, const std::string& text) {
  if (is_over()) return false;
  auto p = with_mistake(s_.slice, trials_.table(), graph().nodes[n], v, number);
  if (!p) return false;
  std::optional<Fit> fit = explained_by(std::move(*p), s_.inputs);
  if (!fit) return false;
  add_mistake(n, v, number, fmt::format(fmt::runtime(v.instead), text), std::move(*fit));
  return true;
}

bool Search::try_number(NodeId n, const Mistake& v, Numbers which) {
  for (double number : v.usual) {
    if (try_this_number(n, v, number, fmt::format("{:.9g}", number))) return true;
  }
  if (which == Numbers::usual || v.grid.empty()) return false;
  const std::optional<double> found = fitted_number(n, v);
  return (found && try_digits_of(*found, n, v)) || try_short_numbers(n, v);
}

// A number that somebody wrote is short, or one by a short one, or the present one times or by a short one. A long number that
// fits is made of something else: another formula, of which this number would be a part.
bool Search::try_digits_of(double found, NodeId n, const Mistake& v) {
  // Any value is some number times another: one that was found in two elements must be short to be believed.
  const int most_digits = s_.value.size() > 2 ? kMostDigits : 2;
  const auto in_digits = [](double number, int digits) { return fmt::format("{:.{}g}", number, digits); };
  for (int digits = 1; digits <= most_digits; ++digits) {
    const std::string text = in_digits(found, digits);
    if (try_this_number(n, v, std::stod(text), text)) return true;
  }
  constexpr int kLong = 9;  // as it is shown
  std::vector<double> derived;
  for (int digits = 1; digits < most_digits && found != 0; ++digits) {
    std::vector<double> present = numbers_of(graph().nodes[n]);
    for (const double now : present) derived.push_back(now * std::stod(in_digits(found / now, digits)));
    present.push_back(1);
    for (const double now : present) derived.push_back(now / std::stod(in_digits(now / found, digits)));
  }
  constexpr double kNear = 0.03;  // of what was found: others cannot fit
  return std::any_of(derived.begin(), derived.end(), [&](double number) {
    return std::abs(number - found) <= kNear * std::abs(found) && try_this_number(n, v, number, in_digits(number, kLong));
  });
}

// Where rounding or a comparison follows, the error is no curve with one lowest point: numbers of two digits are tried one by
// one, around the best of the grid.
bool Search::try_short_numbers(NodeId n, const Mistake& v) {
  constexpr int64_t kSmall = 1 << 14;  // elements: there are a hundred runs
  if (s_.value.size() > kSmall) return false;
  const bool has_steps = std::any_of(graph().nodes.begin(), graph().nodes.end(), [](const Node& node) {
    return node.op->is_step || node.op->name == "clamp" || node.op->name == "softplus";
  });
  if (!has_steps) return false;
  std::vector<double> numbers;
  for (const double power : {0.01, 0.1, 1.0, 10.0}) {
    for (int digits = power == 0.01 ? 1 : 10; digits < 100; digits += power == 1.0 || power == 10.0 ? 5 : 1)
      numbers.insert(numbers.end(), {digits * power, -digits * power});
  }
  double least = before_, best = 0;
  for (const double number : numbers) {
    if (is_over()) return false;
    const auto p = with_mistake(s_.slice, trials_.table(), graph().nodes[n], v, number);
    if (!p) continue;
    ++tried_;
    double error = before_;
    attempt([&] { error = rms_between(trials_.rounded(*p, s_.inputs), s_.value); });
    if (!(error < least)) continue;
    least = error;
    best = number;
  }
  return least * kRemoves <= before_ && try_this_number(n, v, best, fmt::format("{:.2g}", best));
}

std::optional<double> Search::fitted_number(NodeId n, const Mistake& v) {
  const Node& node = graph().nodes[n];
  return best_number(v.grid, [&](double x) {
    const auto p = with_mistake(s_.slice, trials_.table(), node, v, x);
    return p ? rms_between(trials_.rounded(*p, s_.inputs), s_.value) : std::numeric_limits<double>::infinity();
  });
}

std::optional<double> Search::best_number(const std::vector<double>& grid, const std::function<double(double)>& error_of) {
  const auto error_at = [&](double x) {
    if (is_over()) return std::numeric_limits<double>::infinity();
    ++tried_;
    try {
      return error_of(x);
    } catch (const std::exception&) {
      return std::numeric_limits<double>::infinity();
    }
  };
  std::vector<double> errors;
  for (double x : grid) errors.push_back(error_at(x));
  const auto best = static_cast<size_t>(std::min_element(errors.begin(), errors.end()) - errors.begin());
  if (!(errors[best] < before_)) return std::nullopt;
  double low = grid[best == 0 ? 0 : best - 1], high = grid[std::min(best + 1, grid.size() - 1)];
  const bool by_ratio = low > 0 && high / low > 4;
  const auto middle = [&](double a, double b, double t) { return by_ratio ? a * std::pow(b / a, t) : a + (b - a) * t; };
  constexpr double kGolden = 0.3819660112501051;
  double a = middle(low, high, kGolden), b = middle(low, high, 1 - kGolden), at_a = error_at(a), at_b = error_at(b);
  for (int step = 0; step < 40 && std::abs(high - low) > 1e-9 * std::abs(high); ++step) {
    if (at_a < at_b) {
      high = std::exchange(b, a);
      at_b = std::exchange(at_a, error_at(a = middle(low, high, kGolden)));
    } else {
      low = std::exchange(a, b);
      at_a = std::exchange(at_b, error_at(b = middle(low, high, 1 - kGolden)));
    }
    if (is_over()) return std::nullopt;
  }
  return std::min(at_a, at_b) < errors[best] ? (at_a < at_b ? a : b) : grid[best];
}

}  // namespace pycandle
