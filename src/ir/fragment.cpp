#include "ir/fragment.h"

#include <algorithm>
#include <set>

namespace pycandle {
namespace {

// Fragments are small: what people write between two layers. The bounds keep recognition linear in the graph.
constexpr size_t kNearNodes = 40;
constexpr size_t kEntries = 6;

// Ops that a formula is made of.
bool is_formula(const OpDef& op) { return op.is_formula && !op.is_random && op.region_count == 0; }

}  // namespace

const Node* Fragment::node(ValueId v) const {
  if (v == kNoValue) return nullptr;
  const NodeId n = graph_->values[v].node;
  return n < 0 ? nullptr : &graph_->nodes[n];
}

bool Fragment::is(ValueId v, std::string_view op) const {
  const Node* n = node(v);
  return n && n->op->name == op;
}

bool Fragment::is_one_of(ValueId v, std::initializer_list<std::string_view> ops) const {
  const Node* n = node(v);
  return n && std::find(ops.begin(), ops.end(), n->op->name) != ops.end();
}

ValueId Fragment::operand(ValueId v, size_t i) const {
  const Node* n = node(v);
  return n && i < n->operands.size() ? n->operands[i] : kNoValue;
}

const Attribute& Fragment::attribute(ValueId v, std::string_view name) const {
  static const Attribute none;
  const Node* n = node(v);
  const int i = n ? n->op->attribute_index(name) : -1;
  return i < 0 ? none : n->attributes[i].second;
}

std::optional<double> Fragment::number(ValueId v) const {
  v = behind(v, {"broadcast", "reshape", "cast"});
  if (!is(v, "constant")) return std::nullopt;
  const Scalar value = scalar_of(attribute(v, "value"));
  if (std::holds_alternative<std::complex<double>>(value)) return std::nullopt;
  return as_double(value);
}

std::optional<std::pair<double, ValueId>> Fragment::with_number(ValueId v) const {
  const ValueId a = operand(v, 0), b = operand(v, 1);
  if (b == kNoValue) return std::nullopt;
  if (const auto n = number(b)) return std::pair{*n, a};
  if (const auto n = number(a)) return std::pair{*n, b};
  return std::nullopt;
}

ValueId Fragment::behind(ValueId v, std::initializer_list<std::string_view> ops) const {
  while (is_one_of(v, ops)) v = operand(v, 0);
  return v;
}

ValueId Fragment::nearest(ValueId from, std::initializer_list<std::string_view> ops) const {
  Values queue{from};
  for (size_t i = 0; i < queue.size() && i < kNearNodes; ++i) {
    if (is_one_of(queue[i], ops)) return queue[i];
    const Node* n = node(queue[i]);
    if (!n) continue;
    for (ValueId v : n->operands) {
      if (v != kNoValue && std::find(queue.begin(), queue.end(), v) == queue.end()) queue.push_back(v);
    }
  }
  return kNoValue;
}

Values Fragment::entries_of(ValueId from) const {
  Values found;
  std::set<ValueId> open{from};  // values count up with the nodes, so the last is computed last
  for (size_t steps = 0; steps < kNearNodes && found.size() < kEntries; ++steps) {
    const ValueId last = *open.rbegin();
    const Node* n = node(last);
    if (!n || !is_formula(*n->op) || n->results.size() != 1) break;
    open.erase(last);
    for (ValueId v : n->operands) {
      if (v != kNoValue && !is_one_of(behind(v, {"broadcast", "reshape", "cast"}), {"constant", "dim"})) open.insert(v);
    }
    if (open.empty()) break;
    if (open.size() == 1) found.push_back(*open.begin());
  }
  return found;
}

const Values& Fragment::entries() const {
  if (!entries_) entries_ = entries_of(result_);
  return *entries_;
}

}  // namespace pycandle
