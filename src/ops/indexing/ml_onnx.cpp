// ai.onnx.ml: classical models, as exporters of scikit-learn write them. Labels are integers.
#include <cmath>
#include <map>

#include "ops/core/onnx_helpers.h"

namespace pycandle {
namespace {

// The numbers of a float attribute are the floats that they were, not the shortest texts of them.
Numbers floats_of(AtenCall& c, const char* name) {
  Numbers numbers = c.numbers(name);
  for (double& n : numbers) n = static_cast<double>(static_cast<float>(n));
  return numbers;
}

ValueId numbers(Builder& b, const Numbers& values, Dims shape, DType dtype) {
  return b.create("numbers", {}, {{"values", values}, {"shape", std::move(shape)}, {"dtype", dtype}});
}
ValueId vector_of(Builder& b, const Numbers& values, DType dtype) {
  return numbers(b, values, {Dim(static_cast<int64_t>(values.size()))}, dtype);
}
Numbers as_numbers(const Ints& values) { return {values.begin(), values.end()}; }

// x as floats, [N, features].
ValueId rows_of(AtenCall& c, const char* name = "X") {
  Builder& b = c.b;
  ValueId x = c.tensor(name);
  if (!is_floating(b.dtype(x))) x = b.cast(x, DType::f32);
  return b.rank(x) == 1 ? b.unsqueeze(x, 0) : x;
}

ValueId after(AtenCall& c, ValueId scores) {
  Builder& b = c.b;
  const std::string how = c.string("post_transform");
  if (how == "NONE") return scores;
  if (how == "LOGISTIC") return b.create("sigmoid", {scores});
  if (how == "SOFTMAX") return b.create("softmax", {scores}, {{"dim", b.rank(scores) - 1}});
  if (how == "SOFTMAX_ZERO") {  // zeros stay zeros
    const ValueId zero = b.compare("eq", scores, 0.0), none = b.like(scores, 0.0);
    const ValueId shifted = b.sub(scores, b.max(scores, {b.rank(scores) - 1}));
    const ValueId powers = b.select(zero, none, b.exp(shifted));
    return b.div(powers, b.sum(powers, {b.rank(scores) - 1}));
  }
  c.unsupported("post_transform='" + how + "'");
}

// ---- labels

Ints labels_of(AtenCall& c, const char* integers, const char* strings) {
  if (!c.is_none(strings)) c.unsupported(std::string(strings));
  return c.integers(integers);
}

ValueId labels_at(Builder& b, const Ints& labels, ValueId place) {
  return b.create("take", {vector_of(b, as_numbers(labels), DType::i64), place}, {{"axis", int64_t{0}}});
}

// The label of the largest score, and the scores. One score of two labels is that of the second.
Values labelled(AtenCall& c, ValueId scores, const Ints& labels, bool are_probabilities) {
  Builder& b = c.b;
  const int64_t last = b.rank(scores) - 1;
  const auto count = b.shape(scores)[last].maybe_number();
  if (count != 1 || labels.size() != 2) {
    const ValueId place = b.create("argmax", {scores}, {{"axis", last}});
    return {labels_at(b, labels, place), after(c, scores)};
  }
  const ValueId is_second = b.squeeze(b.compare("gt", scores, are_probabilities ? 0.5 : 0.0), last);
  const ValueId label = labels_at(b, labels, b.cast(is_second, DType::i64));
  ValueId both;
  if (are_probabilities) {
    c.discard("post_transform", "the scores are probabilities");
    both = b.concat({b.sub(1.0, scores), scores}, last);
  } else if (c.string("post_transform") == "LOGISTIC") {
    both = b.concat({b.create("sigmoid", {b.neg(scores)}), b.create("sigmoid", {scores})}, last);
  } else {
    both = after(c, b.concat({b.neg(scores), scores}, last));
  }
  return {label, both};
}

// ---- linear models

ValueId linear_scores(AtenCall& c, ValueId x, int64_t count) {
  Builder& b = c.b;
  const Numbers weights = floats_of(c, "coefficients"), shift = floats_of(c, "intercepts");
  c.expects(count > 0 && !weights.empty() && weights.size() % static_cast<size_t>(count) == 0 &&
                (shift.empty() || shift.size() == static_cast<size_t>(count)),
            "coefficients and intercepts for each score");
  const auto width = static_cast<int64_t>(weights.size()) / count;
  const DType dtype = b.dtype(x);
  return b.create(
      "linear", {x, numbers(b, weights, {Dim(count), Dim(width)}, dtype), shift.empty() ? kNoValue : vector_of(b, shift, dtype)});
}

ValueId linear_regressor(AtenCall& c) { return after(c, linear_scores(c, rows_of(c), c.integer("targets"))); }

Values linear_classifier(AtenCall& c) {
  const Ints labels = labels_of(c, "classlabels_ints", "classlabels_strings");
  c.discard("multi_class", "the post_transform says what is done");
  const Numbers shift = c.numbers("intercepts");
  const auto count = shift.empty() ? static_cast<int64_t>(labels.size()) : static_cast<int64_t>(shift.size());
  return labelled(c, linear_scores(c, rows_of(c), count), labels, false);
}

// ---- trees

struct TreeLists {
  Ints trees, ids, features, left, right, missing, modes;
  Numbers thresholds;
};

struct Flat {
  Ints roots, features, modes, left, right, missing, starts{0}, targets;
  Numbers thresholds, weights;
};

// Nodes by (tree, id), leaves with their (target, weight). Children come behind their parents.
class Flattening {
 public:
  Flattening(AtenCall& call, const TreeLists& given, const Ints& leaf_trees, const Ints& leaf_ids, const Ints& leaf_targets,
             const Numbers& leaf_weights)
      : c_(call), lists_(given), targets_(leaf_targets), weights_(leaf_weights) {
    const size_t n = lists_.ids.size();
    c_.expects(lists_.trees.size() == n && lists_.features.size() == n && lists_.left.size() == n && lists_.right.size() == n &&
                   lists_.modes.size() == n && lists_.thresholds.size() == n &&
                   (lists_.missing.empty() || lists_.missing.size() == n) && leaf_trees.size() == leaf_ids.size() &&
                   leaf_targets.size() == leaf_ids.size() && leaf_weights.size() == leaf_ids.size(),
               "lists of one length");
    for (size_t i = 0; i < n; ++i)
      c_.expects(places_.emplace(std::pair(lists_.trees[i], lists_.ids[i]), i).second, "nodes with ids of their own");
    for (size_t i = 0; i < leaf_ids.size(); ++i) leaves_[{leaf_trees[i], leaf_ids[i]}].push_back(i);
  }

  Flat run() {
    std::optional<int64_t> tree;
    std::map<int64_t, bool> seen;
    for (size_t i = 0; i < lists_.trees.size(); ++i) {
      if (tree == lists_.trees[i]) continue;
      tree = lists_.trees[i];
      if (seen.emplace(*tree, true).second) flat_.roots.push_back(add(*tree, lists_.ids[i], 0));
    }
    return std::move(flat_);
  }

 private:
  int64_t add(int64_t tree, int64_t id, int depth) {
    const auto found = places_.find({tree, id});
    c_.expects(found != places_.end() && depth < 1000, "children that there are, and trees that end");
    const size_t i = found->second;
    c_.expects(flat_.features.size() + flat_.starts.size() <= 2 * lists_.ids.size() + 1, "trees whose branches do not meet");
    if (lists_.modes[i] < 0) return leaf(tree, id);
    const auto at = flat_.features.size();
    flat_.features.push_back(lists_.features[i]);
    flat_.modes.push_back(lists_.modes[i]);
    flat_.thresholds.push_back(lists_.thresholds[i]);
    flat_.missing.push_back(lists_.missing.empty() ? 0 : lists_.missing[i]);
    flat_.left.push_back(0);
    flat_.right.push_back(0);
    const int64_t left = add(tree, lists_.left[i], depth + 1), right = add(tree, lists_.right[i], depth + 1);
    flat_.left[at] = left;
    flat_.right[at] = right;
    return static_cast<int64_t>(at);
  }
  int64_t leaf(int64_t tree, int64_t id) {
    if (const auto found = leaves_.find({tree, id}); found != leaves_.end())
      for (const size_t i : found->second) {
        flat_.targets.push_back(targets_[i]);
        flat_.weights.push_back(weights_[i]);
      }
    flat_.starts.push_back(static_cast<int64_t>(flat_.targets.size()));
    return -static_cast<int64_t>(flat_.starts.size()) + 1;
  }

  AtenCall& c_;
  const TreeLists& lists_;
  const Ints& targets_;
  const Numbers& weights_;
  std::map<std::pair<int64_t, int64_t>, size_t> places_;
  std::map<std::pair<int64_t, int64_t>, std::vector<size_t>> leaves_;
  Flat flat_;
};

int64_t mode_number(AtenCall& c, const std::string& mode) {
  static const std::map<std::string, int64_t> kModes = {{"LEAF", -1},     {"BRANCH_LEQ", 0}, {"BRANCH_LT", 1}, {"BRANCH_GTE", 2},
                                                        {"BRANCH_GT", 3}, {"BRANCH_EQ", 4},  {"BRANCH_NEQ", 5}};
  const auto found = kModes.find(mode);
  if (found == kModes.end()) c.unsupported("a node of mode '" + mode + "'");
  return found->second;
}

// The list, or the tensor of doubles in its place.
Numbers list_or_tensor(AtenCall& c, const std::string& name) {
  const std::string tensor = name + "_as_tensor";
  if (c.has_argument(tensor) && !c.is_none(tensor)) return c.numbers(tensor);
  return floats_of(c, name.c_str());
}

TreeLists lists_of(AtenCall& c) {
  TreeLists l{c.integers("nodes_treeids"),
              c.integers("nodes_nodeids"),
              c.integers("nodes_featureids"),
              c.integers("nodes_truenodeids"),
              c.integers("nodes_falsenodeids"),
              c.is_none("nodes_missing_value_tracks_true") ? Ints{} : c.integers("nodes_missing_value_tracks_true"),
              {},
              list_or_tensor(c, "nodes_values")};
  for (const Argument* mode : c.list("nodes_modes")) l.modes.push_back(mode_number(c, std::get<std::string>(mode->value)));
  c.discard("nodes_hitrates", "how often a branch was taken");
  if (c.has_argument("nodes_hitrates_as_tensor")) c.discard("nodes_hitrates_as_tensor", "how often a branch was taken");
  return l;
}

ValueId ensemble(Builder& b, ValueId x, const Flat& f, int64_t targets, const std::string& aggregate) {
  return b.create("tree_ensemble", {x},
                  {{"roots", f.roots},
                   {"features", f.features},
                   {"modes", f.modes},
                   {"thresholds", f.thresholds},
                   {"left", f.left},
                   {"right", f.right},
                   {"missing_left", f.missing},
                   {"leaf_starts", f.starts},
                   {"leaf_targets", f.targets},
                   {"leaf_weights", f.weights},
                   {"targets", targets},
                   {"aggregate", aggregate}});
}

ValueId with_base(AtenCall& c, ValueId scores) {
  const Numbers base = list_or_tensor(c, "base_values");
  return base.empty() ? scores : c.b.add(scores, vector_of(c.b, base, c.b.dtype(scores)));
}

ValueId tree_regressor(AtenCall& c) {
  const TreeLists lists = lists_of(c);
  const Ints targets = c.integers("target_ids");
  const Numbers weights = list_or_tensor(c, "target_weights");
  const Flat flat = Flattening(c, lists, c.integers("target_treeids"), c.integers("target_nodeids"), targets, weights).run();
  const ValueId x = rows_of(c);
  const ValueId sums = ensemble(c.b, x, flat, c.integer("n_targets"), c.string("aggregate_function"));
  return c.b.cast(after(c, with_base(c, sums)), DType::f32);
}

// Weights for one class alone make a score of the second of two labels.
Values tree_classifier(AtenCall& c) {
  Builder& b = c.b;
  const Ints labels = labels_of(c, "classlabels_int64s", "classlabels_strings");
  const TreeLists lists = lists_of(c);
  Ints classes = c.integers("class_ids");
  const Numbers weights = list_or_tensor(c, "class_weights");
  const bool one_class = labels.size() == 2 &&
                         std::all_of(classes.begin(), classes.end(), [&](int64_t k) { return k == classes[0]; });
  if (one_class) std::fill(classes.begin(), classes.end(), 0);
  const Flat flat = Flattening(c, lists, c.integers("class_treeids"), c.integers("class_nodeids"), classes, weights).run();
  const ValueId x = rows_of(c);
  ValueId scores = ensemble(b, x, flat, one_class ? 1 : static_cast<int64_t>(labels.size()), "SUM");
  Numbers base = list_or_tensor(c, "base_values");
  if (one_class && base.size() == 2) base = {base[1]};
  if (!base.empty()) scores = b.add(scores, vector_of(b, base, b.dtype(scores)));
  const bool positive = std::all_of(weights.begin(), weights.end(), [](double w) { return w >= 0; });
  Values made = labelled(c, scores, labels, one_class && positive);
  made[1] = b.cast(made[1], DType::f32);
  return made;
}

// The form of ai.onnx.ml 5: nodes by number, leaves in a list of their own.
ValueId trees_by_number(AtenCall& c) {
  static const int64_t kModes[] = {0, 1, 2, 3, 4, 5, 6};
  const Ints features = c.integers("nodes_featureids"), left = c.integers("nodes_truenodeids"),
             right = c.integers("nodes_falsenodeids"), left_leaf = c.integers("nodes_trueleafs"),
             right_leaf = c.integers("nodes_falseleafs"), roots = c.integers("tree_roots"),
             targets = c.integers("leaf_targetids"), modes = c.integers("nodes_modes");
  const Numbers thresholds = c.numbers("nodes_splits"), weights = c.numbers("leaf_weights");
  const Numbers members = c.is_none("membership_values") ? Numbers{} : c.numbers("membership_values");
  Ints missing = c.is_none("nodes_missing_value_tracks_true") ? Ints{} : c.integers("nodes_missing_value_tracks_true");
  c.discard("nodes_hitrates", "how often a branch was taken");
  const size_t n = features.size();
  missing.resize(n, 0);
  c.expects(left.size() == n && right.size() == n && left_leaf.size() == n && right_leaf.size() == n && modes.size() == n &&
                thresholds.size() == n && targets.size() == weights.size(),
            "lists of one length");
  Flat f;
  std::vector<Numbers> sets(n);
  size_t at = 0;
  for (size_t i = 0; i < n; ++i) {
    if (modes[i] != 6) continue;
    for (; at < members.size() && !std::isnan(members[at]); ++at) sets[i].push_back(members[at]);
    ++at;
  }
  // A node that asks for a set is a chain of nodes that ask for one number each. Nodes are copied behind their parents.
  struct Todo {
    int64_t node;
    bool is_leaf;
    Ints* list;
    size_t place;
  };
  std::vector<Todo> todo;
  f.roots.assign(roots.size(), 0);
  for (size_t i = 0; i < roots.size(); ++i) todo.push_back({roots[i], false, &f.roots, i});
  for (size_t next = 0; next < todo.size(); ++next) {
    const Todo t = todo[next];
    c.expects(todo.size() < (1 << 24), "trees that end");
    if (t.is_leaf) {
      c.expects(t.node >= 0 && t.node < static_cast<int64_t>(targets.size()), "leaves that there are");
      (*t.list)[t.place] = -1 - t.node;
      continue;
    }
    c.expects(t.node >= 0 && t.node < static_cast<int64_t>(n), "nodes that there are");
    const auto i = static_cast<size_t>(t.node);
    const Numbers asked = modes[i] == 6 ? sets[i] : Numbers{thresholds[i]};
    c.expects(!asked.empty() && modes[i] >= 0 && modes[i] <= 6, "a mode that there is, and a set that is not empty");
    (*t.list)[t.place] = static_cast<int64_t>(f.features.size());
    for (size_t k = 0; k < asked.size(); ++k) {
      const size_t here = f.features.size();
      const bool is_last = k + 1 == asked.size();
      f.features.push_back(features[i]);
      f.modes.push_back(modes[i] == 6 ? 4 : kModes[modes[i]]);
      f.thresholds.push_back(asked[k]);
      f.missing.push_back(missing[i]);
      f.left.push_back(0);
      f.right.push_back(static_cast<int64_t>(here) + 1);
      todo.push_back({left[i], left_leaf[i] != 0, &f.left, here});
      if (is_last) todo.push_back({right[i], right_leaf[i] != 0, &f.right, here});
    }
  }
  for (size_t i = 0; i < targets.size(); ++i) {
    f.targets.push_back(targets[i]);
    f.weights.push_back(weights[i]);
    f.starts.push_back(static_cast<int64_t>(i) + 1);
  }
  static const char* const kHow[] = {"AVERAGE", "SUM", "MIN", "MAX"};
  static const char* const kAfter[] = {"NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO"};
  const int64_t how = c.integer("aggregate_function"), then = c.integer("post_transform");
  c.expects(how >= 0 && how < 4, "an aggregate_function that there is");
  const ValueId x = rows_of(c);
  const ValueId y = ensemble(c.b, x, f, c.integer("n_targets"), kHow[how]);
  if (then == 0) return y;
  if (then == 1) return c.b.create("softmax", {y}, {{"dim", int64_t{1}}});
  if (then == 2) return c.b.create("sigmoid", {y});
  c.unsupported(std::string("post_transform ") + (then == 3 ? kAfter[3] : "of another kind"));
}

// ---- what stands before and behind

ValueId scaler(AtenCall& c) {
  Builder& b = c.b;
  ValueId x = rows_of(c);
  const Numbers offset = floats_of(c, "offset"), scale = floats_of(c, "scale");
  const auto one_or_all = [&](const Numbers& n) {
    return n.size() == 1 ? b.full(n[0], b.dtype(x)) : vector_of(b, n, b.dtype(x));
  };
  if (!offset.empty()) x = b.sub(x, one_or_all(offset));
  return scale.empty() ? x : b.mul(x, one_or_all(scale));
}

ValueId normalizer(AtenCall& c) {
  Builder& b = c.b;
  const ValueId x = rows_of(c);
  const std::string norm = c.string("norm");
  const Ints axis{b.rank(x) - 1};
  ValueId size;
  if (norm == "MAX")
    size = b.max(x, axis);
  else if (norm == "L1")
    size = b.sum(b.abs(x), axis);
  else if (norm == "L2")
    size = b.sqrt(b.sum(b.square(x), axis));
  else
    c.unsupported("norm='" + norm + "'");
  return b.div(x, b.select(b.compare("eq", size, 0.0), b.full(1.0, b.dtype(size)), size));
}

ValueId binarizer(AtenCall& c) {
  Builder& b = c.b;
  const ValueId x = c.tensor("X");
  const double threshold = static_cast<double>(static_cast<float>(c.number("threshold")));
  return b.cast(b.compare("gt", x, threshold), b.dtype(x));
}

ValueId imputer(AtenCall& c) {
  Builder& b = c.b;
  const ValueId x = c.tensor("X");
  const bool is_float = is_floating(b.dtype(x));
  const Numbers values = is_float ? floats_of(c, "imputed_value_floats") : as_numbers(c.integers("imputed_value_int64s"));
  c.discard(is_float ? "imputed_value_int64s" : "imputed_value_floats", "of another dtype than x");
  const double old = is_float ? static_cast<double>(static_cast<float>(c.number("replaced_value_float")))
                              : static_cast<double>(c.integer("replaced_value_int64"));
  c.discard(is_float ? "replaced_value_int64" : "replaced_value_float", "of another dtype than x");
  const ValueId missing = std::isnan(old) ? b.unary("isnan", x) : b.compare("eq", x, old);
  c.expects(!values.empty(), "values to put in");
  return b.select(missing, values.size() == 1 ? b.full(values[0], b.dtype(x)) : vector_of(b, values, b.dtype(x)), x);
}

ValueId features_at(AtenCall& c) {
  Builder& b = c.b;
  const ValueId x = c.tensor("X"), places = b.cast(c.tensor("Y"), DType::i64);
  const ValueId flat = b.reshape(places, {product(b.shape(places))});
  const ValueId y = b.create("take", {x, flat}, {{"axis", b.rank(x) - 1}});
  return b.rank(y) == 1 ? b.unsqueeze(y, 0) : y;
}

ValueId joined_features(AtenCall& c) {
  Builder& b = c.b;
  c.discard("inputdimensions", "the sizes of the inputs");
  Values parts;
  for (const ValueId x : c.given_tensors("xs")) parts.push_back(b.cast(b.rank(x) == 1 ? b.unsqueeze(x, 1) : x, DType::f32));
  return parts.size() == 1 ? parts[0] : b.concat(parts, 1);
}

// A column for each category.
ValueId one_hot(AtenCall& c) {
  Builder& b = c.b;
  if (!c.is_none("cats_strings")) c.unsupported("cats_strings");
  c.discard("zeros", "what is no category gives zeros");
  const ValueId x = c.tensor("X");
  const Numbers kinds = as_numbers(c.integers("cats_int64s"));
  const ValueId columns = vector_of(b, kinds, DType::f64);
  return b.cast(b.compare("eq", b.unsqueeze(b.cast(x, DType::f64), b.rank(x)), columns), DType::f32);
}

// Keys to values, of integers and floats; what is no key gives the default.
ValueId label_encoder(AtenCall& c) {
  Builder& b = c.b;
  const ValueId x = c.tensor("X");
  for (const char* strings : {"keys_strings", "values_strings"})
    if (!c.is_none(strings)) c.unsupported(strings);
  c.discard("default_string", "there are no strings");
  const auto list = [&](const std::string& which, bool& is_float) {
    const std::string tensor = which + "_tensor", floats = which + "_floats", integers = which + "_int64s";
    is_float = !c.is_none(floats);
    if (is_float) return floats_of(c, floats.c_str());
    if (!c.is_none(integers)) return as_numbers(c.integers(integers));
    if (c.has_argument(tensor) && !c.is_none(tensor)) {
      const auto entries = c.list(tensor);
      is_float = !entries.empty() && std::holds_alternative<double>(entries[0]->value);
      return c.numbers(tensor);
    }
    c.unsupported("keys or values of another kind");
  };
  bool float_keys = false, float_values = false;
  const Numbers keys = list("keys", float_keys), values = list("values", float_values);
  c.expects(keys.size() == values.size() && !keys.empty() && keys.size() <= (1 << 16), "a value for each key");
  double otherwise = 0;
  if (c.has_argument("default_tensor") && c.has_tensor("default_tensor")) {
    const auto number = number_in_program(b, b.graph(), c.tensor("default_tensor"));
    c.expects(number.has_value(), "one default");
    otherwise = as_double(*number);
  } else {
    if (c.has_argument("default_tensor")) c.is_none("default_tensor");
    otherwise = float_values ? static_cast<double>(static_cast<float>(c.number("default_float")))
                             : static_cast<double>(c.integer("default_int64"));
  }
  for (const char* unused : {"default_float", "default_int64"}) c.discard(unused, "of another dtype than the values");
  const auto count = static_cast<int64_t>(keys.size());
  const ValueId wide = b.unsqueeze(b.cast(x, DType::f64), b.rank(x)), table = vector_of(b, keys, DType::f64);
  ValueId hit = b.compare("eq", wide, table);
  for (const double key : keys)
    if (std::isnan(key)) hit = b.logical_or(hit, b.logical_and(b.unary("isnan", wide), b.unary("isnan", table)));
  // The first key that fits; the one behind all of them is the default.
  const ValueId place = b.reduce("reduce_min", b.select(hit, b.iota(count), b.full(count, DType::i64)), {b.rank(hit) - 1}, false);
  Numbers all = values;
  all.push_back(otherwise);
  return b.create("take", {vector_of(b, all, float_values ? DType::f32 : DType::i64), place}, {{"axis", int64_t{0}}});
}

// ---- support vectors

ValueId kernel_products(AtenCall& c, ValueId x, int64_t count) {
  Builder& b = c.b;
  const Numbers vectors = floats_of(c, "support_vectors"), parameters = floats_of(c, "kernel_params");
  c.expects(count > 0 && vectors.size() % static_cast<size_t>(count) == 0 && (parameters.empty() || parameters.size() == 3),
            "support vectors of one length");
  const Dim width = static_cast<int64_t>(vectors.size()) / count;
  const ValueId v = numbers(b, vectors, {Dim(count), width}, b.dtype(x));
  const double gamma = parameters.empty() ? 0 : parameters[0], shift = parameters.empty() ? 0 : parameters[1],
               degree = parameters.empty() ? 0 : parameters[2];
  const std::string kind = c.string("kernel_type");
  if (kind == "RBF") {
    const ValueId apart = b.sub(b.unsqueeze(x, 1), b.unsqueeze(v, 0));
    return b.exp(b.mul(b.reduce("reduce_sum", b.square(apart), {2}, false), -gamma));
  }
  const ValueId product = b.matmul(x, b.transpose(v, {1, 0}));
  if (kind == "LINEAR") return product;
  const ValueId line = b.add(b.mul(product, gamma), shift);
  if (kind == "POLY") return b.pow(line, degree);
  if (kind == "SIGMOID") return b.tanh(line);
  c.unsupported("kernel_type='" + kind + "'");
}

ValueId support_vector_regressor(AtenCall& c) {
  Builder& b = c.b;
  const ValueId x = rows_of(c);
  const Numbers weights = floats_of(c, "coefficients"), shift = floats_of(c, "rho");
  const int64_t count = c.integer("n_supports");
  ValueId y;
  if (count > 0) {
    c.expects(weights.size() == static_cast<size_t>(count), "a coefficient for each support vector");
    y = b.matmul(kernel_products(c, x, count), numbers(b, weights, {Dim(count), 1}, b.dtype(x)));
  } else {
    c.discard("support_vectors", "there are none");
    c.discard("kernel_params", "there is no kernel");
    c.discard("kernel_type", "there is no kernel");
    y = b.matmul(x, numbers(b, weights, {Dim(static_cast<int64_t>(weights.size())), 1}, b.dtype(x)));
  }
  c.expects(shift.size() == 1, "one rho");
  y = b.add(y, shift[0]);
  if (c.integer("one_class") != 0) y = b.select(b.compare("gt", y, 0.0), b.like(y, 1.0), b.like(y, -1.0));
  return after(c, y);
}

#define NODES                                                                                                   \
  "nodes_falsenodeids=none, nodes_featureids=none, nodes_hitrates=none, nodes_missing_value_tracks_true=none, " \
  "nodes_modes=none, "                                                                                          \
  "nodes_nodeids=none, nodes_treeids=none, nodes_truenodeids=none, nodes_values=none, post_transform=\"NONE\""
#define TENSORS ", base_values_as_tensor=none, nodes_hitrates_as_tensor=none, nodes_values_as_tensor=none"
#define CLASSES                                                                                                             \
  "base_values=none, class_ids=none, class_nodeids=none, class_treeids=none, class_weights=none, classlabels_int64s=none, " \
  "classlabels_strings=none, " NODES
#define TARGETS                                                                                                               \
  "aggregate_function=\"SUM\", base_values=none, n_targets=none, target_ids=none, target_nodeids=none, target_treeids=none, " \
  "target_weights=none, " NODES
#define ENCODER                                                                                                               \
  "default_float=-0.0, default_int64=-1, default_string=\"_Unused\", keys_floats=none, keys_int64s=none, keys_strings=none, " \
  "values_floats=none, values_int64s=none, values_strings=none"

}  // namespace

std::vector<OpDef> ml_onnx_ops() {
  return {
      onnx_mapped("tree_ensemble",
                  {"onnx.ai.onnx.ml.TreeEnsembleRegressor.1(X; " TARGETS ")",
                   "onnx.ai.onnx.ml.TreeEnsembleRegressor.3(X; " TARGETS TENSORS ", target_weights_as_tensor=none)"},
                  tree_regressor),
      onnx_mapped_all("tree_ensemble",
                      {"onnx.ai.onnx.ml.TreeEnsembleClassifier.1(X; " CLASSES ")",
                       "onnx.ai.onnx.ml.TreeEnsembleClassifier.3(X; " CLASSES TENSORS ", class_weights_as_tensor=none)"},
                      tree_classifier),
      onnx_mapped(
          "tree_ensemble",
          {"onnx.ai.onnx.ml.TreeEnsemble.5(X; aggregate_function=1, leaf_targetids!, leaf_weights!, membership_values=none, "
           "n_targets=none, nodes_falseleafs!, nodes_falsenodeids!, nodes_featureids!, nodes_hitrates=none, "
           "nodes_missing_value_tracks_true=none, nodes_modes!, nodes_splits!, nodes_trueleafs!, nodes_truenodeids!, "
           "post_transform=0, tree_roots!)"},
          trees_by_number),
      onnx_mapped(
          "linear",
          {"onnx.ai.onnx.ml.LinearRegressor.1(X; coefficients=none, intercepts=none, post_transform=\"NONE\", targets=1)"},
          linear_regressor),
      onnx_mapped_all("linear",
                      {"onnx.ai.onnx.ml.LinearClassifier.1(X; classlabels_ints=none, classlabels_strings=none, coefficients!, "
                       "intercepts=none, multi_class=0, post_transform=\"NONE\")"},
                      linear_classifier),
      onnx_mapped(
          "matmul",
          {"onnx.ai.onnx.ml.SVMRegressor.1(X; coefficients=none, kernel_params=none, kernel_type=\"LINEAR\", n_supports=0, "
           "one_class=0, post_transform=\"NONE\", rho=none, support_vectors=none)"},
          support_vector_regressor),
      onnx_mapped("mul", {"onnx.ai.onnx.ml.Scaler.1(X; offset=none, scale=none)"}, scaler),
      onnx_mapped("div", {"onnx.ai.onnx.ml.Normalizer.1(X; norm=\"MAX\")"}, normalizer),
      onnx_mapped("gt", {"onnx.ai.onnx.ml.Binarizer.1(X; threshold=0.0)"}, binarizer),
      onnx_mapped("select",
                  {"onnx.ai.onnx.ml.Imputer.1(X; imputed_value_floats=none, imputed_value_int64s=none, replaced_value_float=0.0, "
                   "replaced_value_int64=0)"},
                  imputer),
      onnx_mapped("take", {"onnx.ai.onnx.ml.ArrayFeatureExtractor.1(X, Y)"}, features_at),
      onnx_mapped("concat", {"onnx.ai.onnx.ml.FeatureVectorizer.1(xs*; inputdimensions=none)"}, joined_features),
      onnx_mapped("eq", {"onnx.ai.onnx.ml.OneHotEncoder.1(X; cats_int64s=none, cats_strings=none, zeros=1)"}, one_hot),
      onnx_mapped("take",
                  {"onnx.ai.onnx.ml.LabelEncoder.2(X; " ENCODER ")",
                   "onnx.ai.onnx.ml.LabelEncoder.4(X; " ENCODER ", default_tensor=none, keys_tensor=none, values_tensor=none)"},
                  label_encoder)};
}

#undef NODES
#undef TENSORS
#undef CLASSES
#undef TARGETS
#undef ENCODER

}  // namespace pycandle
