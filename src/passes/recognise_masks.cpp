// The mask of an attention, however it is computed, as what it means: causal, a window, keys that are padding, ALiBi.
// The proof is the formula of its elements in the index domain (index_domain.h).   tests/passes/recognise_masks.ptir
//
//   %1 = arange() {stop = s1, …}
//   …                                   (some 40 nodes)           …
//   %40 = bitwise_and(%38, %39): bool[s0, 1, s1, s1]
//   %41 = scaled_dot_product_attention(%q, %k, %v, %40)    →      %9 = scaled_dot_product_attention(%q, %k, %v) {is_causal =
//   true}
#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "passes/constants.h"
#include "passes/index_domain.h"
#include "passes/passes.h"
#include "passes/rewriter.h"

namespace pycandle {
namespace {

using Kind = Element::Kind;

constexpr double kNever = -std::numeric_limits<double>::infinity();
// A number this low takes every score that a model can have with it: finfo(f32).min, finfo(bf16).min. A query that may
// attend somewhere then gives exactly 0 to the masked keys, as with -inf.
constexpr double kAbsorbing = -1e30;

bool is_wide(DType d) { return d == DType::f32 || d == DType::f64; }

// The index variables of the scores […, queries, keys].
struct Axes {
  std::vector<std::string> names;
  const std::string& query() const { return names[names.size() - 2]; }
  const std::string& key() const { return names.back(); }
  bool is_batch(const std::string& name) const { return names.size() >= 3 && name == names[0]; }
  bool is_head(const std::string& name) const { return names.size() >= 4 && name == names[names.size() - 3]; }
  bool over_keys(const Element& e) const {
    return e.variables.count(key()) != 0 && std::all_of(e.variables.begin(), e.variables.end(),
                                                        [&](const std::string& name) { return name == key() || is_batch(name); });
  }
};

// Which pairs attend, as attention says it: j <= i + offset, i - j < reach, keys, and what is none of these.
struct Structure {
  std::optional<Dim> offset, reach;
  std::vector<ElementPtr> keys, rest;
};

// What is added to the scores: a bias, and a number (or -inf) where `allowed` does not hold.
struct Additive {
  std::vector<ElementPtr> allowed, biases;
  std::vector<double> masked;
  bool replaced = false;  // the number stands in place of the bias, not beside it
};

struct Alibi {
  ElementPtr slopes, positions;
  double scale = 1;
};

// The operands and attributes that stand for the mask.
struct Meaning {
  ValueId attn_mask = kNoValue, key_mask = kNoValue, slopes = kNoValue, positions = kNoValue;
  Attributes attributes;
};

class MaskRule {
 public:
  std::optional<Values> operator()(Builder& b, const Node& node, const Values& operands) {
    if (node.op->name != "scaled_dot_product_attention" || operands[3] == kNoValue) return std::nullopt;
    const Call call(*node.op, b.graph(), operands, node.attributes, node.regions);
    const bool has_structure = call.boolean("is_causal") || call.has("window") || call.has("key_mask") ||
                               call.has("masked_bias") || call.has("alibi_slopes") || call.dim("query_offset") != Dim(0);
    if (has_structure) return std::nullopt;
    if (!space_) {
      space_.emplace(b.ranges());
      evaluator_.emplace(b.graph(), *space_);
    }
    Shape scores = node.op->infer_types(call).at(0).shape;
    scores.back() = call.shape("key")[call.shape("key").size() - 2];
    const std::pair key{operands[3], to_string(scores)};
    auto known = meanings_.find(key);
    if (known == meanings_.end()) known = meanings_.emplace(key, meaning(b, operands[3], scores)).first;
    if (!known->second) return std::nullopt;
    const Meaning& m = *known->second;
    Attributes attributes = node.attributes;
    for (const auto& [name, value] : m.attributes) {
      const auto same_name = [&name = name](const auto& entry) { return entry.first == name; };
      std::find_if(attributes.begin(), attributes.end(), same_name)->second = value;
    }
    const ValueId result = b.create(
        node.op->name, {operands[0], operands[1], operands[2], m.attn_mask, m.key_mask, m.slopes, m.positions}, attributes);
    taken_in_.emplace(operands[3], result);
    return Values{result};
  }

  // The masks that attention took in, and the first one that did.
  const std::map<ValueId, ValueId>& taken_in() const { return taken_in_; }

 private:
  std::optional<Meaning> meaning(Builder& b, ValueId mask, const Shape& scores) {
    const Shape shape = b.shape(mask);
    Axes axes;
    std::vector<Dim> indices;
    if (shape.size() > scores.size()) return std::nullopt;
    for (size_t axis = 0; axis < scores.size(); ++axis) {
      const Dim index = space_->axis(axis, scores[axis]);
      axes.names.push_back(index.text());
      if (axis + shape.size() < scores.size()) continue;
      const Dim size = shape[axis + shape.size() - scores.size()];
      if (size != scores[axis] && size != Dim(1)) return std::nullopt;
      indices.push_back(size == scores[axis] ? index : Dim(0));
    }
    const ElementPtr e = evaluator_->element(mask, indices);
    return b.dtype(mask) == DType::boolean ? of_truths(b, e, axes) : of_numbers(b, e, axes, scores, b.dtype(mask));
  }

  std::optional<Meaning> of_truths(Builder& b, const ElementPtr& e, const Axes& axes) {
    const Structure s = structure_of(e, axes);
    if (!s.offset && !s.reach && s.keys.empty() && !is_true(*e)) return std::nullopt;
    Meaning m;
    if (!s.rest.empty()) {
      m.attn_mask = materialised(b, *space_, *space_->all(s.rest), axes.names);
      if (m.attn_mask == kNoValue) return std::nullopt;
    }
    return with_structure(b, std::move(m), s, axes);
  }

  std::optional<Meaning> of_numbers(Builder& b, const ElementPtr& e, const Axes& axes, const Shape& scores, DType dtype) {
    Additive sum;
    collect(e, sum);
    const ElementPtr allowed = space_->all(sum.allowed);
    Structure s = structure_of(allowed, axes);
    // Between two biases f16 and bf16 round once more.
    const bool may_part = is_wide(dtype) || sum.biases.size() == 1;
    const std::optional<Alibi> alibi = may_part ? take_alibi(sum.biases, axes) : std::nullopt;
    const bool only_alibi = alibi && sum.biases.empty() && is_wide(dtype);
    if (is_false(*allowed) || !s.rest.empty()) return std::nullopt;
    if (sum.allowed.empty() && !alibi && !sum.biases.empty()) return std::nullopt;

    // The result of a query that attends nowhere depends on the number that masks: only where there is none such, or with
    // one mask alone, may it be taken out of the sum.
    const auto all_at_most = [&](double most) {
      return std::all_of(sum.masked.begin(), sum.masked.end(), [&](double x) { return x <= most; });
    };
    const bool never = all_at_most(kNever) || (all_at_most(kAbsorbing) && every_query_attends(s, scores));
    if (!never && sum.masked.size() > 1) return std::nullopt;
    if (!never && sum.replaced && !(only_alibi && all_at_most(kAbsorbing))) return std::nullopt;

    Meaning m;
    if (!never) m.attributes.emplace_back("masked_bias", sum.masked.at(0));
    if (alibi) {
      const bool batched = alibi->positions->variables.size() > 1;
      m.slopes = vector_of(b, *alibi->slopes, axes.names[axes.names.size() - 3]);
      m.positions = batched ? over_keys(b, *alibi->positions, axes) : vector_of(b, *alibi->positions, axes.key());
      if (m.slopes == kNoValue || m.positions == kNoValue) return std::nullopt;
      m.attributes.emplace_back("alibi_scale", alibi->scale);
    }
    for (const ElementPtr& bias : sum.biases) {
      const ValueId v = materialised(b, *space_, *bias, axes.names);
      if (v == kNoValue) return std::nullopt;
      m.attn_mask = m.attn_mask == kNoValue ? v : b.add(m.attn_mask, v);
    }
    return with_structure(b, std::move(m), s, axes);
  }

  std::optional<Meaning> with_structure(Builder& b, Meaning m, const Structure& s, const Axes& axes) {
    const Dim offset = s.offset.value_or(Dim(0));
    if (s.offset) {
      m.attributes.emplace_back("is_causal", true);
      m.attributes.emplace_back("query_offset", offset);
    }
    if (s.reach) m.attributes.emplace_back("window", (*s.reach + offset).number());
    if (!s.keys.empty()) {
      m.key_mask = over_keys(b, *space_->all(s.keys), axes);
      if (m.key_mask == kNoValue) return std::nullopt;
    }
    return m;
  }

  // ---- [batch, keys], or [keys] when it is the same for the whole batch; [heads]
  ValueId over_keys(Builder& b, const Element& e, const Axes& axes) const {
    const bool batched = e.variables.size() > 1;
    if (!batched) return vector_of(b, e, axes.key());
    return materialised(b, *space_, e, {axes.names[0], axes.key()});
  }
  ValueId vector_of(Builder& b, const Element& e, const std::string& name) const { return materialised(b, *space_, e, {name}); }

  // ---- conditions
  Structure structure_of(const ElementPtr& allowed, const Axes& axes) const {
    Structure s;
    const std::vector<ElementPtr> parts = allowed->kind == Kind::all ? allowed->args : std::vector<ElementPtr>{allowed};
    std::vector<std::pair<Dim, ElementPtr>> reaches;
    for (const ElementPtr& part : parts) {
      const auto diagonal = part->kind == Kind::nonnegative ? diagonal_of(part->dim, axes) : std::nullopt;
      if (diagonal && diagonal->first > 0 && tighter(s.offset, diagonal->second)) continue;
      if (diagonal && diagonal->first < 0 && tighter(s.reach, diagonal->second + 1)) {
        reaches.emplace_back(diagonal->second, part);
        continue;
      }
      (axes.over_keys(*part) ? s.keys : s.rest).push_back(part);
    }
    // A window is a number, counted from where the query stands.
    const auto window = s.reach ? (*s.reach + s.offset.value_or(Dim(0))).maybe_number() : std::nullopt;
    if (s.reach && (!window || *window <= 0)) {
      s.reach.reset();
      for (auto& [bound, part] : reaches) s.rest.push_back(part);
    }
    return s;
  }

  // 1 and c for i - j + c, -1 and c for j - i + c.
  std::optional<std::pair<int, Dim>> diagonal_of(Dim d, const Axes& axes) const {
    for (const int sign : {1, -1}) {
      const Dim rest = d - Dim(sign) * (Dim::symbol(axes.query()) - Dim::symbol(axes.key()));
      if (space_->variables_of(rest).empty()) return std::pair{sign, rest};
    }
    return std::nullopt;
  }

  // The smaller of two bounds; false when they cannot be compared.
  static bool tighter(std::optional<Dim>& bound, Dim other) {
    if (!bound) {
      bound = other;
      return true;
    }
    const auto difference = (other - *bound).maybe_number();
    if (difference && *difference < 0) bound = other;
    return difference.has_value();
  }

  bool every_query_attends(const Structure& s, const Shape& scores) const {
    const Dim queries = scores[scores.size() - 2], keys = scores.back(), offset = s.offset.value_or(Dim(0));
    const auto holds = [&](Dim least, Dim most) { return at_most(least, most, space_->ranges()) == Tri::yes; };
    return s.keys.empty() && s.rest.empty() && (!s.offset || holds(Dim(0), offset)) &&
           (!s.reach || holds(queries, keys + *s.reach - 1));
  }

  // ---- sums
  void collect(const ElementPtr& e, Additive& sum) const {
    const auto constant = constant_of(*e);
    if (constant && *constant == 0) return;
    if (e->kind == Kind::applied && e->op == "add") {
      for (const ElementPtr& arg : e->args) collect(arg, sum);
      return;
    }
    if (e->kind == Kind::choice) {
      for (const size_t branch : {1, 2}) {
        const ElementPtr &masked = e->args[branch], &other = e->args[3 - branch];
        const auto number = constant_of(*masked), otherwise = constant_of(*other);
        const bool beside = number && *number < 0 && otherwise && *otherwise == 0;
        const bool instead = number && *number <= -1e4 && !otherwise;
        if (!beside && !instead) continue;
        sum.allowed.push_back(branch == 1 ? space_->negation(e->args[0]) : e->args[0]);
        sum.masked.push_back(*number);
        sum.replaced = sum.replaced || instead;
        collect(other, sum);
        return;
      }
    }
    sum.biases.push_back(e);
  }

  // The term slopes[h] * positions[b, j], in another dtype or scaled by a number: taken out of the terms.
  std::optional<Alibi> take_alibi(std::vector<ElementPtr>& biases, const Axes& axes) const {
    for (size_t i = 0; i < biases.size(); ++i) {
      const std::optional<Alibi> found = alibi_of(biases[i], axes);
      if (!found) continue;
      biases.erase(biases.begin() + static_cast<std::ptrdiff_t>(i));
      return found;
    }
    return std::nullopt;
  }

  std::optional<Alibi> alibi_of(const ElementPtr& e, const Axes& axes) const {
    if (e->kind != Kind::applied || !is_floating(e->dtype)) return std::nullopt;
    if (e->op == "cast") {
      // Widening loses nothing, so it may come after the product or before.
      const DType from = e->args[0]->dtype;
      const bool widens = is_floating(from) && is_wide(e->dtype) && size_of(from) <= size_of(e->dtype);
      return widens ? alibi_of(e->args[0], axes) : std::nullopt;
    }
    if (e->op != "mul" && e->op != "div") return std::nullopt;
    for (const size_t side : {0, 1}) {
      const ElementPtr &a = e->args[side], &b = e->args[1 - side];
      const bool scales = is_wide(e->dtype) && (side == 0 || e->op == "mul");  // f16 and bf16 would round here
      if (const auto number = constant_of(*b); number && *number != 0 && scales) {
        std::optional<Alibi> inner = alibi_of(a, axes);
        if (inner) inner->scale *= e->op == "mul" ? *number : 1 / *number;
        return inner;
      }
      const bool slopes = a->variables.size() == 1 && axes.is_head(*a->variables.begin());
      if (e->op == "mul" && slopes && axes.over_keys(*b)) return Alibi{a, b};
    }
    return std::nullopt;
  }

  std::optional<IndexSpace> space_;
  std::optional<IndexEvaluator> evaluator_;
  std::map<std::pair<ValueId, std::string>, std::optional<Meaning>> meanings_;
  std::map<ValueId, ValueId> taken_in_;
};

// What is marked, and all that it is computed from.
PerValue<bool> with_sources(const Graph& g, PerValue<bool> marked) {
  for (size_t n = g.nodes.size(); n-- > 0;) {
    const Node& node = g.nodes[n];
    const bool used = std::any_of(node.results.begin(), node.results.end(), [&](ValueId r) { return marked[r]; });
    for (ValueId v : node.operands) {
      if (used && v != kNoValue) marked[v] = true;
    }
  }
  return marked;
}

// A tap on what only a mask is made of, or on the mask, is inside the attention that took it in: nothing else computes
// it any more. Which attention that is goes down from the mask to its sources.
void swallow_taps(Program& p, const std::map<ValueId, ValueId>& taken_in) {
  const Graph& g = p.graph;
  PerValue<ValueId> inside(g.values.size(), kNoValue);
  for (const auto& [mask, attention] : taken_in) inside[mask] = attention;
  for (size_t n = g.nodes.size(); n-- > 0;) {
    for (ValueId r : g.nodes[n].results) {
      for (ValueId v : g.nodes[n].operands) {
        if (v != kNoValue && inside[v] == kNoValue) inside[v] = inside[r];
      }
    }
  }
  PerValue<bool> needed(g.values.size());
  for (ValueId v : g.outputs) needed[v] = true;
  for (const Tap& tap : p.taps) {
    if (inside[tap.value] == kNoValue) needed[tap.value] = true;
  }
  needed = with_sources(g, std::move(needed));
  for (Tap& tap : p.taps) {
    const bool is_input = g.values[tap.value].node < 0;
    if (needed[tap.value] || is_input) continue;
    tap.value = inside[tap.value];
    tap.inside = true;
  }
}

}  // namespace

Program recognise_masks(Program p, const OpTable& table) {
  MaskRule rule;
  p = rewrite_outside_regions(std::move(p), table,
                              [&](Builder& b, const Node& node, const Values& operands) { return rule(b, node, operands); });
  if (!rule.taken_in().empty()) swallow_taps(p, rule.taken_in());
  return p;
}

}  // namespace pycandle
