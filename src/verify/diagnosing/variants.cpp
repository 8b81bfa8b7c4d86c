#include "verify/diagnosing/variants.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>

#include "base/error.h"

namespace pycandle {

Values VariantSite::same(Values changed_operands, Attributes changed_attributes) const {
  return b.create_all(node.op->name, std::move(changed_operands), std::move(changed_attributes), node.regions);
}

ValueId VariantSite::operand(std::string_view name) const {
  const int index = node.op->operand_index(name);
  return index < 0 || static_cast<size_t>(index) >= operands.size() ? kNoValue : operands[index];
}

Values VariantSite::with_operand(std::string_view name, ValueId v) const {
  Values changed = operands;
  changed.at(node.op->operand_index(name)) = v;
  return changed;
}

namespace {

Attributes with(Attributes attributes, const std::string& name, Attribute value) {
  for (auto& [key, old] : attributes) {
    if (key == name) old = std::move(value);
  }
  return attributes;
}

}  // namespace

void Variants::build(std::string kind, std::string now, std::string instead, std::function<Values(const VariantSite&)> f) {
  add({std::move(kind), std::move(now), std::move(instead), std::move(f), {}, false});
}

void Variants::attribute(std::string kind, std::string name, Attribute value, std::string now, std::string instead) {
  build(std::move(kind), std::move(now), std::move(instead),
        [name = std::move(name), value = std::move(value)](const VariantSite& m) {
          return m.same(m.operands, with(m.node.attributes, name, value));
        });
}

void Variants::flag(std::string kind, const std::string& name, const std::string& when_true, const std::string& when_false) {
  const bool now = call_.boolean(name);
  attribute(std::move(kind), name, !now, now ? when_true : when_false, now ? when_false : when_true);
}

void Variants::choice(const std::string& kind, const std::string& name,
                      const std::vector<std::pair<std::string, std::string>>& words) {
  const std::string& now = call_.string(name);
  const auto known = std::find_if(words.begin(), words.end(), [&](const auto& w) { return w.first == now; });
  for (const auto& [value, text] : words) {
    if (value != now) attribute(kind, name, value, known == words.end() ? now : known->second, text);
  }
}

void Variants::number(std::string kind, const std::string& name, const std::string& what, std::vector<double> grid) {
  const std::string now = call_.has(name) ? fmt::format("{} of {:.6g}", what, as_double(call_.scalar(name)))
                                          : fmt::format("the usual {}", what);
  Variant v{std::move(kind), now, what + " of {}", {}, std::move(grid), false};
  const bool is_scalar = call_.op().attr_specs.at(call_.op().attribute_index(name)).kind == AttrKind::scalar;
  v.build = [name, is_scalar](const VariantSite& m) {
    const Attribute value = is_scalar ? pycandle::attribute(Scalar(m.number)) : Attribute(m.number);
    return m.same(m.operands, with(m.node.attributes, name, value));
  };
  add(std::move(v));
}

void Variants::operand(std::string kind, const std::string& name, std::string now, std::string instead,
                       std::function<ValueId(Builder&, ValueId)> f) {
  if (call_.op().operand_index(name) < 0 || !call_.has(name)) return;
  build(std::move(kind), std::move(now), std::move(instead),
        [name, f = std::move(f)](const VariantSite& m) { return m.same(m.with_operand(name, f(m.b, m.operand(name)))); });
}

void Variants::without(std::string kind, const std::string& name, const std::string& what) {
  operand(std::move(kind), name, what, "no " + what, [](Builder&, ValueId) { return kNoValue; });
}

void Variants::swapped(std::string kind, const std::string& a, const std::string& b, std::string now, std::string instead) {
  build(std::move(kind), std::move(now), std::move(instead), [a, b](const VariantSite& m) {
    Values operands = m.operands;
    std::swap(operands.at(m.node.op->operand_index(a)), operands.at(m.node.op->operand_index(b)));
    return m.same(std::move(operands));
  });
}

void Variants::result(std::string kind, std::string now, std::string instead, std::function<ValueId(Builder&, ValueId)> f) {
  build(std::move(kind), std::move(now), std::move(instead), [f = std::move(f)](const VariantSite& m) {
    Values results = m.same(m.operands);
    results[0] = f(m.b, results[0]);
    return results;
  });
}

void Variants::other_op(std::string kind, const std::string& op, Attributes attributes, std::string now, std::string instead) {
  build(std::move(kind), std::move(now), std::move(instead),
        [op, attributes = std::move(attributes)](const VariantSite& m) { return m.b.create_all(op, m.operands, attributes); });
}

std::vector<Variant> variants_of(const Node& node, const Graph& graph, const Bindings& sizes) {
  static const auto by_op = [] {
    std::map<std::string, std::vector<std::function<void(Variants&)>>> map;
    for (const VariantTable& table : {layer_variants(), arithmetic_variants()}) {
      for (const auto& [ops, f] : table) {
        for (const std::string& op : ops) map[op].push_back(f);
      }
    }
    return map;
  }();
  const Call call(*node.op, graph, node.operands, node.attributes, node.regions);
  Variants variants(call, sizes);
  const auto found = by_op.find(node.op->name);
  if (found != by_op.end()) {
    for (const auto& f : found->second) f(variants);
  }
  return std::move(variants.all());
}

}  // namespace pycandle
