#include "verify/diagnosing/changed_parameter.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>
#include <set>

#include "verify/diagnosing/parameter_rows.h"
#include "verify/judging/metrics.h"

namespace pycandle {
namespace {

using Numbers = std::vector<double>;

int significant_bits(double v) {
  int exponent = 0, bits = 53;
  auto mantissa = static_cast<uint64_t>(std::ldexp(std::abs(std::frexp(v, &exponent)), bits));
  while (bits > 0 && mantissa % 2 == 0) {
    mantissa /= 2;
    --bits;
  }
  return bits;
}

class Changes {
 public:
  explicit Changes(const ParameterUse& use)
      : use_(use),
        rows_(use),
        values_(as_reals(use.values)),
        given_(as_reals(use.given)),
        wanted_(as_reals(use.wanted)),
        without_(as_reals(use.layer(store(use.values.dtype(), use.values.shape(), Numbers(values_.size()))))) {}

  std::vector<ParameterChange> all() {
    const auto is_finite = [](double v) { return std::isfinite(v); };
    for (const Numbers* numbers : {&given_, &wanted_, &without_}) {
      if (!std::all_of(numbers->begin(), numbers->end(), is_finite)) return {};
    }
    zeros();
    factors();
    other_order();
    turned_axes();
    columns();
    rounded();
    return std::move(found_);
  }

 private:
  bool has_right_rows() const { return !rows_.right().empty(); }

  // ---- zeros where the model has numbers

  bool is_zero(int64_t row) const {
    const std::vector<size_t> elements = rows_.elements(row);
    return std::all_of(elements.begin(), elements.end(), [&](size_t i) { return values_[i] == 0; });
  }

  void zeros() {
    const std::vector<int64_t>& wrong = rows_.wrong();
    const bool all = std::all_of(values_.begin(), values_.end(), [](double v) { return v == 0; });
    const bool some = !wrong.empty() && std::all_of(wrong.begin(), wrong.end(), [&](int64_t r) { return is_zero(r); });
    if (!all && !(some && has_right_rows())) return;
    ParameterChange change{all ? "all zeros" : fmt::format("with {} zero", rows_.text(wrong)), {}};
    if (use_.values.shape().size() == 1) {  // one number a channel: the one that gives what is wanted is found
      if (wrong.empty()) return;
      Numbers right = values_;
      for (int64_t r : wrong) right[static_cast<size_t>(r)] = 1;
      const Numbers of_one = as_reals(use_.layer(stored(right)));
      for (int64_t r : wrong) {
        const std::vector<size_t>& places = rows_.all().at(r).places;
        constexpr size_t kFewest = 2;  // a single element is explained by any number
        if (places.size() < kFewest) return;
        double product = 0, square = 0;
        for (size_t i : places) {
          product += (of_one[i] - given_[i]) * (wanted_[i] - given_[i]);
          square += std::pow(of_one[i] - given_[i], 2);
        }
        right[static_cast<size_t>(r)] = square == 0 ? 0 : product / square;
      }
      change.undone = [undone = stored(std::move(right))] { return undone; };
    }
    found_.push_back(std::move(change));
  }

  // ---- a factor: what depends on the parameter is in proportion to it

  // How many times the parameter's part of what is given is wanted, over these places; nothing when no factor does.
  std::optional<double> proportion(const std::vector<size_t>& places) const {
    double product = 0, square = 0, error = 0, left = 0;
    for (size_t i : places) {
      const double part = given_[i] - without_[i];
      product += part * (wanted_[i] - without_[i]);
      square += part * part;
      error += std::pow(wanted_[i] - given_[i], 2);
    }
    if (square == 0 || places.size() < 3) return std::nullopt;
    const double factor = product / square;
    for (size_t i : places) left += std::pow(wanted_[i] - without_[i] - factor * (given_[i] - without_[i]), 2);
    constexpr double kRemoves = 4;  // rounding of the file may leave more than a run does
    return std::sqrt(left) * kRemoves <= std::sqrt(error) ? std::optional(factor) : std::nullopt;
  }

  void factors() {
    std::vector<size_t> places, elements;
    if (!rows_.wrong().empty() && rows_.wrong().size() < rows_.right().size()) {
      for (int64_t row : rows_.wrong()) {
        const std::vector<size_t>& more = rows_.all().at(row).places;
        places.insert(places.end(), more.begin(), more.end());
        const std::vector<size_t> of_parameter = rows_.elements(row);
        elements.insert(elements.end(), of_parameter.begin(), of_parameter.end());
      }
      if (const auto factor = proportion(places)) add_factor(*factor, "with " + rows_.text(rows_.wrong()) + " ", elements);
      return;
    }
    places.resize(given_.size());
    elements.resize(values_.size());
    std::iota(places.begin(), places.end(), size_t{0});
    std::iota(elements.begin(), elements.end(), size_t{0});
    if (const auto factor = proportion(places)) add_factor(*factor, "", elements);
    for (const double times : {-1.0, 2.0, 0.5})
      add_times(times, fmt::format("{:g}", times), "", elements);  // a curve, not a line
    if (const auto factor = factor_of_curve()) add_factor(*factor, "", elements);
  }

  // The parameter times this gives what is wanted, where the layer is no line in it: a variance, a gate.
  std::optional<double> factor_of_curve() const {
    const auto at = [&](double factor) {
      Numbers scaled = values_;
      for (double& v : scaled) v *= factor;
      return as_reals(use_.layer(stored(std::move(scaled))));
    };
    constexpr double kStep = 1.0 / 64, kRemoves = 4;
    double factor = 1, first = 0, left = 0;
    for (int step = 0; step < 5; ++step) {
      const Numbers here = at(factor), there = at(factor * (1 + kStep));
      double product = 0, square = 0;
      left = 0;
      for (size_t i = 0; i < here.size(); ++i) {
        const double slope = (there[i] - here[i]) / (kStep * factor);
        product += slope * (wanted_[i] - here[i]);
        square += slope * slope;
        left += std::pow(wanted_[i] - here[i], 2);
      }
      if (step == 0) first = left;
      if (square == 0 || !std::isfinite(product / square)) return std::nullopt;
      factor += product / square;
    }
    return std::sqrt(left) * kRemoves <= std::sqrt(first) ? std::optional(factor) : std::nullopt;
  }

  // The file has the model's values divided by the factor: as short a number as does.
  void add_factor(double factor, const std::string& whose, const std::vector<size_t>& elements) {
    if (factor == 0 || !std::isfinite(1 / factor)) return;
    // As few digits as do; of a number close to 1, what it differs from 1 by has those digits.
    constexpr double kAlike = 0.004, kClose = 0.01, kShare = 0.1;
    const double times = 1 / factor;
    const bool is_close = std::abs(times - 1) < kClose;
    const int zeros = is_close && times != 1 ? static_cast<int>(std::floor(-std::log10(std::abs(times - 1)))) : 0;
    std::string last;
    for (const int digits : {1, 2, 3, 4}) {
      const std::string text = is_close ? fmt::format("{:.{}f}", times, zeros + digits) : fmt::format("{:.{}g}", times, digits);
      const double rounded = std::stod(text);
      const double off = is_close ? (rounded - 1) / (times - 1) : rounded * factor;
      if (text == last || rounded == 1 || std::abs(off - 1) > (is_close ? kShare : kAlike)) continue;
      add_times(rounded, last = text, whose, elements);
    }
  }

  void add_times(double times, const std::string& text, const std::string& whose, const std::vector<size_t>& elements) {
    add(times == -1 ? whose + "negated" : fmt::format("{}times {}", whose, text), [times, elements, this] {
      Numbers right = values_;
      for (size_t i : elements) right[i] /= times;
      return right;
    });
  }

  // ---- rows in another order

  void other_order() {
    constexpr size_t kMost = 4096;
    const std::vector<int64_t>& wrong = rows_.wrong();
    if (wrong.empty() || wrong.size() > kMost) return;
    std::map<int64_t, int64_t> from;  // the row that stands where this one should
    if (wrong.size() == 2) return add_order({{wrong[0], wrong[1]}, {wrong[1], wrong[0]}});
    for (int64_t row : wrong) {
      const int64_t other = use_.looked_up.empty() ? likest(row) : same_as(row);
      if (other < 0) return;
      from[row] = other;
    }
    if (!use_.looked_up.empty()) {  // the other one may not have been looked up
      const std::map<int64_t, int64_t> half = from;
      for (const auto& [row, other] : half) from.emplace(other, row);
    }
    std::set<int64_t> taken;
    for (const auto& [row, other] : from) {
      if (!taken.insert(other).second) return;
    }
    add_order(from);
  }

  void add_order(const std::map<int64_t, int64_t>& from) {
    add(order_text(from), [from, this] {
      Numbers right = values_;
      for (const auto& [row, other] : from) {
        const std::vector<size_t> to = rows_.elements(row), at = rows_.elements(other);
        for (size_t i = 0; i < to.size(); ++i) right[to[i]] = values_[at[i]];
      }
      return right;
    });
  }

  // The wrong row that gives what this one should.
  int64_t likest(int64_t row) const {
    const std::vector<size_t>& to = rows_.all().at(row).places;
    double least = std::numeric_limits<double>::infinity();
    int64_t best = -1;
    for (int64_t other : rows_.wrong()) {
      const std::vector<size_t>& at = rows_.all().at(other).places;
      double sum = 0;
      for (size_t i = 0; i < to.size() && sum < least; ++i)
        sum += std::pow(wanted_[to[i]] - without_[to[i]] - (given_[at[i]] - without_[at[i]]), 2);
      if (sum >= least) continue;
      least = sum;
      best = other;
    }
    const double left = std::sqrt(least / static_cast<double>(to.size()));
    return best != row && 4 * left <= rows_.all().at(row).error ? best : -1;
  }

  // The row of a table that is the vector which is wanted here.
  int64_t same_as(int64_t row) const {
    const std::vector<size_t>& places = rows_.all().at(row).places;
    const auto width = static_cast<size_t>(use_.values.size() / std::max<int64_t>(1, use_.values.shape()[0]));
    for (size_t start = 0; start + width <= values_.size(); start += width) {
      size_t i = 0;
      while (i < width && values_[start + i] == wanted_[places[i]]) ++i;
      if (i == width) return static_cast<int64_t>(start / width);
    }
    return -1;
  }

  std::string order_text(const std::map<int64_t, int64_t>& from) const {
    const int64_t count = use_.values.shape()[rows_.axis()];
    const std::string noun = rows_.noun();
    const auto is = [&](const auto& rule) {
      return std::all_of(from.begin(), from.end(), [&](const auto& pair) { return pair.second == rule(pair.first); });
    };
    if (from.size() == 2) return fmt::format("with {} {} and {} swapped", noun, from.begin()->first, from.begin()->second);
    if (is([&](int64_t r) { return count - 1 - r; })) return fmt::format("with its {} in reverse", noun);
    if (count % 2 == 0 && is([&](int64_t r) { return (r + count / 2) % count; }))
      return fmt::format("with the halves of its {} swapped", noun);
    for (const int64_t shift : {int64_t{1}, count - 1}) {
      if (is([&](int64_t r) { return (r + shift) % count; })) return fmt::format("with its {} shifted by one", noun);
    }
    return fmt::format("with {} of its {} in another order", from.size(), noun);
  }

  // ---- an axis turned around, its halves exchanged, or pairs of it taken apart

  void turned_axes() {
    const Sizes& shape = use_.values.shape();
    for (size_t axis = 0; axis < shape.size() && !has_right_rows(); ++axis) {
      const int64_t size = shape[axis];
      const std::string noun = axis == 0 ? "rows" : shape.size() == 2 ? "columns" : fmt::format("axis {}", axis);
      const auto add_order = [&](const std::string& text, const std::function<int64_t(int64_t)>& from) {
        add(text, [axis, from, this] { return moved(axis, from); });
      };
      if (size > 1) add_order(fmt::format("with its {} in reverse", noun), [size](int64_t i) { return size - 1 - i; });
      for (const int64_t count : {int64_t{3}, int64_t{4}}) {  // gates of a recurrent layer, or queries, keys and values
        if (axis != 0 || size % count != 0 || size == count) continue;
        const int64_t part = size / count;
        for (int64_t a = 0; a < count; ++a) {
          for (int64_t b = a + 1; b < count; ++b) {
            add_order(fmt::format("with parts {} and {} of {} of its rows swapped", a + 1, b + 1, count), [=](int64_t i) {
              return i / part == a ? i + (b - a) * part : i / part == b ? i - (b - a) * part : i;
            });
          }
        }
      }
      if (size < 4 || size % 2 != 0) continue;
      const int64_t half = size / 2;
      add_order(fmt::format("with the halves of its {} swapped", noun), [=](int64_t i) { return (i + half) % size; });
      add_order(fmt::format("with pairs of its {} side by side", noun),
                [=](int64_t i) { return i < half ? 2 * i : 2 * (i - half) + 1; });
      add_order(fmt::format("with pairs of its {} in two halves", noun),
                [=](int64_t i) { return i % 2 == 0 ? i / 2 : half + i / 2; });
    }
  }

  Numbers moved(size_t axis, const std::function<int64_t(int64_t)>& from) const {
    const Sizes& shape = use_.values.shape();
    Numbers right = values_;
    int64_t inner = 1;
    for (size_t i = axis + 1; i < shape.size(); ++i) inner *= shape[i];
    const int64_t size = shape[axis], outer = size * inner == 0 ? 0 : use_.values.size() / (size * inner);
    for (int64_t o = 0; o < outer; ++o) {
      for (int64_t i = 0; i < size; ++i)
        std::copy_n(values_.begin() + (o * size + from(i)) * inner, inner, right.begin() + (o * size + i) * inner);
    }
    return right;
  }

  // ---- columns of a matrix whose rows are told apart in the result: a row's error is a sum of what its columns add

  void columns() {
    constexpr int64_t kMost = 256;
    const Sizes& shape = use_.values.shape();
    if (shape.size() != 2 || !use_.looked_up.empty() || rows_.wrong().size() <= rows_.right().size()) return;
    const size_t axis = 1 - rows_.axis();
    const int64_t count = shape[axis];
    if (count < 2 || count > kMost) return;
    std::vector<Numbers> adds;  // what a column of ones adds
    for (int64_t column = 0; column < count; ++column) {
      Numbers ones(values_.size());
      for (const auto& [row, there] : rows_.all()) ones[place_of(row, column)] = 1;
      adds.push_back(as_reals(use_.layer(stored(std::move(ones)))));
      for (size_t i = 0; i < without_.size(); ++i) adds.back()[i] -= without_[i];
    }
    double error = 0;
    for (size_t i = 0; i < given_.size(); ++i) error += std::pow(wanted_[i] - given_[i], 2);
    constexpr double kRemoves = 16;  // squares
    for (int64_t column = 0; column < count; ++column) zero_column(column, adds[static_cast<size_t>(column)], error / kRemoves);
    swapped_columns(adds, error / kRemoves);
  }

  size_t place_of(int64_t row, int64_t column) const {
    const int64_t width = use_.values.shape()[1];
    return static_cast<size_t>(rows_.axis() == 0 ? row * width + column : column * width + row);
  }

  void zero_column(int64_t column, const Numbers& adds, double most) {
    Numbers right = values_;
    double left = 0;
    for (const auto& [row, there] : rows_.all()) {
      constexpr size_t kFewest = 2;  // a single element is explained by any number
      if (values_[place_of(row, column)] != 0 || there.places.size() < kFewest) return;
      double product = 0, square = 0;
      for (size_t i : there.places) {
        product += adds[i] * (wanted_[i] - given_[i]);
        square += adds[i] * adds[i];
      }
      const double value = square == 0 ? 0 : product / square;
      for (size_t i : there.places) left += std::pow(wanted_[i] - given_[i] - value * adds[i], 2);
      right[place_of(row, column)] = value;
    }
    if (left <= most) add(fmt::format("with {} {} zero", other_noun(true), column), [right] { return right; });
  }

  void swapped_columns(const std::vector<Numbers>& adds, double most) {
    double least = most;
    std::pair<size_t, size_t> best;
    for (size_t a = 0; a < adds.size(); ++a) {
      for (size_t b = a + 1; b < adds.size(); ++b) {
        double left = 0;
        for (const auto& [row, there] : rows_.all()) {
          const double more = values_[place_of(row, static_cast<int64_t>(b))] - values_[place_of(row, static_cast<int64_t>(a))];
          for (size_t i : there.places) left += std::pow(wanted_[i] - given_[i] - more * (adds[a][i] - adds[b][i]), 2);
          if (left >= least) break;
        }
        if (left >= least) continue;
        least = left;
        best = {a, b};
      }
    }
    if (best.second == 0) return;
    const auto [a, b] = best;
    add(fmt::format("with {} {} and {} swapped", other_noun(false), a, b), [a = a, b = b, this] {
      return moved(1 - rows_.axis(), [a, b](int64_t i) {
        const auto first = static_cast<int64_t>(a), second = static_cast<int64_t>(b);
        return i == first ? second : i == second ? first : i;
      });
    });
  }

  std::string other_noun(bool is_one) const { return std::string(rows_.axis() == 0 ? "column" : "row") + (is_one ? "" : "s"); }

  // ---- fewer digits than the dtype has

  void rounded() {
    constexpr size_t kFewest = 8;
    const int full = static_cast<int>(std::lround(-std::log2(unit_roundoff(use_.values.dtype()))));
    int bits = 0;
    std::set<double> distinct;
    for (double v : values_) {
      if (v == 0 || !std::isfinite(v)) continue;
      bits = std::max(bits, significant_bits(v));
      if (bits + 2 > full) return;
      if (distinct.size() < kFewest) distinct.insert(v);
    }
    if (bits == 0 || distinct.size() < kFewest) return;
    // Rounding moves each number by up to half a unit: is the error of that size?
    Numbers nudged = values_;
    uint64_t state = 88172645463325252U;
    for (double& v : nudged) {
      int exponent = 0;
      std::frexp(v, &exponent);
      state ^= state << 13U;
      state ^= state >> 7U;
      state ^= state << 17U;
      const double t = static_cast<double>(state >> 11U) * 0x1p-53 - 0.5;
      if (v != 0) v += std::ldexp(t, exponent - bits);
    }
    const double expected = compare(use_.layer(stored(std::move(nudged))), use_.given).rms,
                 seen = compare(use_.wanted, use_.given).rms;
    constexpr double kAlike = 1.6;
    if (seen <= kAlike * expected && expected <= kAlike * seen)
      found_.push_back({fmt::format("rounded to {} significant bits", bits), {}});
  }

  Array stored(Numbers numbers) const { return store(use_.values.dtype(), use_.values.shape(), numbers); }

  void add(std::string text, std::function<Numbers()> undone) {
    found_.push_back({std::move(text), [undone = std::move(undone), dtype = use_.values.dtype(), shape = use_.values.shape()] {
                        return store(dtype, shape, undone());
                      }});
  }

  const ParameterUse& use_;
  const ParameterRows rows_;
  const Numbers values_, given_, wanted_;
  const Numbers without_;      // what the layer gives when the parameter is zero
  std::vector<ParameterChange> found_;
};

}  // namespace

void try_parameter_changes(const ParameterUse& use, const std::function<bool(const ParameterChange&)>& fits) {
  Changes changes(use);
  for (const ParameterChange& change : changes.all()) {
    if (fits(change)) return;
  }
}

}  // namespace pycandle
