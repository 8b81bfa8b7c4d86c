#include "ir/mistakes.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/error.h"

namespace pycandle {

Values MistakeSite::same(Values changed_operands, Attributes changed_attributes) const {
  return b.create_all(node.op->name, std::move(changed_operands), std::move(changed_attributes), node.regions);
}

ValueId MistakeSite::operand(std::string_view name) const {
  const int index = node.op->operand_index(name);
  return index < 0 || static_cast<size_t>(index) >= operands.size() ? kNoValue : operands[index];
}

Values MistakeSite::with_operand(std::string_view name, ValueId v) const {
  Values changed = operands;
  changed.at(node.op->operand_index(name)) = v;
  return changed;
}

const std::vector<double> kEpsilons{1e-12, 1e-10, 1e-8, 1e-7, 1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1};
const std::vector<double> kFactors{0.01, 0.03, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30, 100};

ValueId reordered(Builder& b, ValueId x, int64_t axis, const Ints& order) {
  const Dim size = floordiv(b.shape(x)[axis], Dim(static_cast<int64_t>(order.size())));
  Values parts;
  for (int64_t i : order) parts.push_back(b.slice(x, axis, size * Dim(i), size * Dim(i + 1)));
  return b.concat(parts, axis);
}

const Node* made_by(const Graph& g, ValueId v, std::string_view op) {
  const NodeId node = v == kNoValue ? -1 : g.values[v].node;
  return node < 0 || g.nodes[node].op->name != op ? nullptr : &g.nodes[node];
}

std::optional<double> number_of(const Graph& g, ValueId v) {
  if (const Node* spread = made_by(g, v, "broadcast")) return number_of(g, spread->operands[0]);
  const Node* node = made_by(g, v, "constant");
  if (node == nullptr) return std::nullopt;
  return as_double(Call(*node->op, g, node->operands, node->attributes, node->regions).scalar("value"));
}

Attributes changed(Attributes attributes, const Attributes& changes) {
  for (auto& [name, value] : attributes) {
    for (const auto& [other, now] : changes) {
      if (name == other) value = now;
    }
  }
  return attributes;
}

namespace {

// The entry whose attributes the call has; else the first: a leaky ReLU of any slope is one.
const CalledAs* called_as(const Call& call) {
  const std::vector<CalledAs>& all = call.op().called_as;
  const auto is_it = [&](const CalledAs& c) {
    return std::all_of(c.attributes.begin(), c.attributes.end(),
                       [&](const auto& a) { return same(call.attribute(a.first), a.second); });
  };
  const auto found = std::find_if(all.begin(), all.end(), is_it);
  return found != all.end() ? &*found : all.empty() ? nullptr : &all[0];
}

}  // namespace

void Mistakes::build(std::string kind, std::string now, std::string instead, std::function<Values(const MistakeSite&)> f) {
  add({std::move(kind), std::move(now), std::move(instead), std::move(f), {}, false});
}

void Mistakes::attribute(std::string kind, std::string name, Attribute value, std::string now, std::string instead) {
  attributes(std::move(kind), {{std::move(name), std::move(value)}}, std::move(now), std::move(instead));
}

void Mistakes::attributes(std::string kind, Attributes changes, std::string now, std::string instead) {
  build(std::move(kind), std::move(now), std::move(instead),
        [changes = std::move(changes)](const MistakeSite& m) { return m.same(m.operands, changed(m.node.attributes, changes)); });
}

void Mistakes::other_axis(const std::string& name) {
  const Attribute& given = call_.attribute(name);
  const auto* list = std::get_if<Ints>(&given);
  if (list && list->size() != 1) return;
  const int64_t rank = call_.rank("x"), first = list ? list->at(0) : std::get<int64_t>(given),
                now = first < 0 ? first + rank : first;
  for (int64_t axis = 0; axis < rank; ++axis) {
    if (axis != now)
      attribute("dim", name, list ? Attribute(Ints{axis}) : Attribute(axis), fmt::format("dim {}", now),
                fmt::format("dim {}", axis));
  }
}

void Mistakes::flag(std::string kind, const std::string& name, const std::string& when_true, const std::string& when_false) {
  const bool now = call_.boolean(name);
  attribute(std::move(kind), name, !now, now ? when_true : when_false, now ? when_false : when_true);
}

void Mistakes::choice(const std::string& kind, const std::string& name,
                      const std::vector<std::pair<std::string, std::string>>& words) {
  const std::string& now = call_.string(name);
  const auto known = std::find_if(words.begin(), words.end(), [&](const auto& w) { return w.first == now; });
  for (const auto& [value, text] : words) {
    if (value != now) attribute(kind, name, value, known == words.end() ? now : known->second, text);
  }
}

void Mistakes::number(std::string kind, const std::string& name, const std::string& what, std::vector<double> grid,
                      std::vector<double> usual) {
  const std::string now = call_.has(name) ? fmt::format("{} of {:.6g}", what, as_double(call_.scalar(name)))
                                          : fmt::format("the usual {}", what);
  Mistake v{std::move(kind), now, what + " of {}", {}, std::move(grid), false, std::move(usual)};
  const bool is_scalar = call_.op().attr_specs.at(call_.op().attribute_index(name)).kind == AttrKind::scalar;
  v.build = [name, is_scalar](const MistakeSite& m) {
    const Attribute value = is_scalar ? pycandle::attribute(Scalar(m.number)) : Attribute(m.number);
    return m.same(m.operands, changed(m.node.attributes, {{name, value}}));
  };
  add(std::move(v));
}

void Mistakes::operand(std::string kind, const std::string& name, std::string now, std::string instead,
                       std::function<ValueId(Builder&, ValueId)> f) {
  if (call_.op().operand_index(name) < 0 || !call_.has(name)) return;
  build(std::move(kind), std::move(now), std::move(instead),
        [name, f = std::move(f)](const MistakeSite& m) { return m.same(m.with_operand(name, f(m.b, m.operand(name)))); });
}

void Mistakes::without(std::string kind, const std::string& name, const std::string& what) {
  operand(std::move(kind), name, what, "no " + what, [](Builder&, ValueId) { return kNoValue; });
}

void Mistakes::swapped(std::string kind, const std::string& a, const std::string& b, std::string now, std::string instead) {
  build(std::move(kind), std::move(now), std::move(instead), [a, b](const MistakeSite& m) {
    Values operands = m.operands;
    std::swap(operands.at(m.node.op->operand_index(a)), operands.at(m.node.op->operand_index(b)));
    return m.same(std::move(operands));
  });
}

void Mistakes::result(std::string kind, std::string now, std::string instead, std::function<ValueId(Builder&, ValueId)> f) {
  build(std::move(kind), std::move(now), std::move(instead), [f = std::move(f)](const MistakeSite& m) {
    Values results = m.same(m.operands);
    results[0] = f(m.b, results[0]);
    return results;
  });
}

void Mistakes::other_op(std::string kind, const std::string& op, Attributes attributes, std::string now, std::string instead) {
  build(std::move(kind), std::move(now), std::move(instead),
        [op, attributes = std::move(attributes)](const MistakeSite& m) { return m.b.create_all(op, m.operands, attributes); });
}

void Mistakes::other_op(std::string kind, const std::string& op, Attributes attributes) {
  const OpDef& other = table_.at(op);
  other_op(std::move(kind), op, std::move(attributes), noun_of(call_), other.called_as.empty() ? op : other.called_as[0].noun);
}

void Mistakes::other_activations() {
  const CalledAs* called = called_as(call_);
  const std::string& now = noun_of(call_);
  for (const Activation& f : activations(table_)) {
    if (f.called == called) continue;
    const bool is_same_form = called && !called->form.empty() && called->form == f.called->form;
    other_op(is_same_form ? called->form : "activation", f.op->name, f.called->attributes, now, f.called->noun);
  }
  build("activation", now, "no activation", [](const MistakeSite& m) { return Values{m.operands[0]}; });
}

void Mistakes::activations_of(const std::string& operand, const std::string& now) {
  for (const Activation& f : activations(table_)) {
    if (f.called->noun == now) continue;
    build("activation", now, f.called->noun,
          [operand, f](const MistakeSite& m) { return m.b.create_all(f.op->name, {m.operand(operand)}, f.called->attributes); });
  }
}

void Mistakes::integers_off_by_one() {
  for (const AttrSpec& spec : call_.op().attr_specs) {
    const bool is_axis = spec.name.rfind("ax", 0) == 0 || spec.name.find("dim") != std::string::npos;
    if (is_axis || spec.name == "permutation" || !call_.has(spec.name)) continue;
    const Attribute& given = call_.attribute(spec.name);
    const auto add_both = [&](int64_t now, const std::function<Attribute(int64_t)>& with) {
      for (const int64_t other : {now + 1, now - 1})
        attribute(kOffByOne, spec.name, with(other), fmt::format("{} of {}", spec.name, now),
                  fmt::format("{} of {}", spec.name, other));
    };
    if (const auto* one = std::get_if<int64_t>(&given)) add_both(*one, [](int64_t v) { return Attribute(v); });
    if (const auto* dim = std::get_if<Dim>(&given); dim && dim->is_number())
      add_both(dim->number(), [](int64_t v) { return Attribute(Dim(v)); });
    const auto* integers = std::get_if<Ints>(&given);
    for (size_t i = 0; integers && i < integers->size(); ++i) {
      add_both(integers->at(i), [integers, i](int64_t v) {
        Ints other = *integers;
        other[i] = v;
        return Attribute(other);
      });
    }
    const auto* dims = std::get_if<Dims>(&given);
    for (size_t i = 0; dims && i < dims->size() && spec.name != "shape"; ++i) {
      if (!dims->at(i).is_number()) continue;
      add_both(dims->at(i).number(), [dims, i](int64_t v) {
        Dims other = *dims;
        other[i] = Dim(v);
        return Attribute(other);
      });
    }
  }
}

void Mistakes::narrow_operands() {
  if (call_.type(call_.op().operand_specs[0].name).dtype != DType::f32) return;
  for (const DType d : {DType::bf16, DType::f16}) {
    Mistake low{"accumulation dtype", "operands in f32", fmt::format("operands rounded to {}", name_of(d)), {}, {}, true};
    low.build = [d](const MistakeSite& m) {
      Values rounded = m.operands;
      for (ValueId& o : rounded) {
        if (o != kNoValue && m.b.dtype(o) == DType::f32) o = m.b.cast(m.b.cast(o, d), DType::f32);
      }
      return m.same(std::move(rounded));
    };
    add(std::move(low));
  }
}

OpDef& OpDef::mistaken_for(std::string kind, std::vector<std::string> ops) {
  return mistakes([kind = std::move(kind), ops = std::move(ops)](Mistakes& m) {
    for (const std::string& op : ops) m.other_op(kind, op);
  });
}

const std::string& noun_of(const Call& call) {
  const CalledAs* called = called_as(call);
  return called ? called->noun : call.op().name;
}

std::vector<Activation> activations(const OpTable& table) {
  std::vector<Activation> found;
  for (const auto& op : table.all()) {
    if (!op->is_activation) continue;
    for (const CalledAs& called : op->called_as) found.push_back({op.get(), &called});
  }
  return found;
}

std::vector<Mistake> mistakes_of(const Node& node, const Graph& graph, const Bindings& sizes, const OpTable& table) {
  const Call call(*node.op, graph, node.operands, node.attributes, node.regions);
  Mistakes mistakes(call, sizes, table);
  if (node.op->is_activation) mistakes.other_activations();
  for (const auto& list : node.op->mistake_lists) list(mistakes);
  mistakes.integers_off_by_one();
  return std::move(mistakes.all());
}

}  // namespace pycandle
