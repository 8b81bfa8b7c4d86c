// Ensembles of decision trees: each row of x falls from every root to a leaf, whose weights are added up.
#include <cmath>
#include <limits>

#include "ops/core/constraints.h"
#include "ops/core/evaluate.h"

namespace pycandle {
namespace {

// How a node compares its feature with its threshold; in this order in `modes`.
bool goes_left(int64_t mode, double value, double threshold) {
  switch (mode) {
    case 0: return value <= threshold;
    case 1: return value < threshold;
    case 2: return value >= threshold;
    case 3: return value > threshold;
    case 4: return value == threshold;
    default: return value != threshold;
  }
}

bool are_trees(const Call& c) {
  const Ints &features = c.integers("features"), &modes = c.integers("modes"), &left = c.integers("left"),
             &right = c.integers("right");
  const Ints &starts = c.integers("leaf_starts"), &targets = c.integers("leaf_targets");
  const auto nodes = static_cast<int64_t>(features.size()), leaves = static_cast<int64_t>(starts.size()) - 1;
  if (modes.size() != features.size() || left.size() != features.size() || right.size() != features.size() ||
      c.numbers("thresholds").size() != features.size() || c.integers("missing_left").size() != features.size() || leaves < 1 ||
      targets.size() != c.numbers("leaf_weights").size() || starts.front() != 0 ||
      starts.back() != static_cast<int64_t>(targets.size()))
    return false;
  // A child comes after its parent, so every fall ends. Leaf i is -1 - i.
  for (int64_t i = 0; i < nodes; ++i) {
    for (const int64_t child : {left[i], right[i]})
      if (child < -leaves || child >= nodes || (child >= 0 && child <= i)) return false;
    if (features[i] < 0 || modes[i] < 0 || modes[i] > 5) return false;
  }
  for (size_t i = 0; i + 1 < starts.size(); ++i)
    if (starts[i] > starts[i + 1]) return false;
  for (const int64_t target : targets)
    if (target < 0 || target >= c.integer("targets")) return false;
  for (const int64_t root : c.integers("roots"))
    if (root < -leaves || root >= nodes) return false;
  const auto width = c.rank("x") == 2 ? c.shape("x")[1].maybe_number() : std::nullopt;
  for (const int64_t feature : features)
    if (width && feature >= *width) return false;
  return width.has_value() && c.integer("targets") > 0 && c.integer("targets") < (1 << 24);
}

std::vector<double> row_sums(const Evaluation& ev, const double* x) {
  const Ints &features = std::get<Ints>(ev.attribute("features")), &modes = std::get<Ints>(ev.attribute("modes"));
  const Ints &left = std::get<Ints>(ev.attribute("left")), &right = std::get<Ints>(ev.attribute("right"));
  const Ints &starts = std::get<Ints>(ev.attribute("leaf_starts")), &targets = std::get<Ints>(ev.attribute("leaf_targets"));
  const Ints &missing = std::get<Ints>(ev.attribute("missing_left")), &roots = std::get<Ints>(ev.attribute("roots"));
  const Numbers &thresholds = std::get<Numbers>(ev.attribute("thresholds")),
                &weights = std::get<Numbers>(ev.attribute("leaf_weights"));
  const std::string& how = ev.string("aggregate");
  std::vector<double> sums(static_cast<size_t>(ev.integer("targets")), 0.0);
  std::vector<bool> has(sums.size(), false);
  for (const int64_t root : roots) {
    int64_t at = root;
    while (at >= 0) {
      const double value = x[features[at]];
      const bool goes = std::isnan(value) ? missing[at] != 0 || modes[at] == 5 : goes_left(modes[at], value, thresholds[at]);
      at = goes ? left[at] : right[at];
    }
    const auto leaf = static_cast<size_t>(-1 - at);
    for (int64_t i = starts[leaf]; i < starts[leaf + 1]; ++i) {
      double& sum = sums[targets[i]];
      const bool first = !has[targets[i]];
      has[targets[i]] = true;
      if (how == "MIN" || how == "MAX")
        sum = first ? weights[i] : how == "MIN" ? std::min(sum, weights[i]) : std::max(sum, weights[i]);
      else
        sum += weights[i];
    }
  }
  if (how == "AVERAGE")
    for (double& sum : sums) sum /= static_cast<double>(roots.size());
  return sums;
}

OpDef tree_ensemble() {
  return primitive("tree_ensemble")
      .doc(
          "for each row of x the weights of the leaves that it falls to, by target: their sum, mean, least or largest. Child i "
          "is a node, -1 - i a leaf")
      .operands("x")
      .attributes(attr<Ints>("roots"), attr<Ints>("features"), attr<Ints>("modes"), attr<Numbers>("thresholds"),
                  attr<Ints>("left"), attr<Ints>("right"), attr<Ints>("missing_left"), attr<Ints>("leaf_starts"),
                  attr<Ints>("leaf_targets"), attr<Numbers>("leaf_weights"), attr<int64_t>("targets"),
                  attr<std::string>("aggregate", std::string("SUM")))
      .constraint("tree_ensemble_c1", "x is a floating matrix of known width",
                  [](const Call& c) { return c.rank("x") == 2 && is_floating(c.type("x").dtype); })
      .constraint("tree_ensemble_c2", "the lists describe trees: children come after their parents, and lie in them", are_trees)
      .infer([](const Call& c) { return Type{c.type("x").dtype, {c.shape("x")[0], Dim(c.integer("targets"))}}; })
      .rounds(Rounding::relative)
      .evaluator([](const Evaluation& ev) {
        const Array& x = ev.array("x");
        const int64_t rows = x.shape()[0], width = x.shape()[1], targets = ev.integer("targets");
        const std::vector<double> values = load_all<double>(x);
        std::vector<double> out(static_cast<size_t>(rows * targets));
        parallel_for(rows, 16, [&](int64_t begin, int64_t end) {
          for (int64_t row = begin; row < end; ++row) {
            const std::vector<double> sums = row_sums(ev, values.data() + row * width);
            std::copy(sums.begin(), sums.end(), out.begin() + row * targets);
          }
        });
        return store_all(ev.out_dtype(), {rows, targets}, out);
      });
}

}  // namespace

std::vector<OpDef> tree_ops() { return {tree_ensemble()}; }

}  // namespace pycandle
