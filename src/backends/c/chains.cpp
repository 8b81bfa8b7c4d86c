// Loops over what is computed element by element.
#include <algorithm>
#include <utility>

#include "backends/c/lowerings.h"
#include "backends/c/text.h"
#include "base/error.h"

namespace pycandle::c {

Chain::Chain(Writer& w, Scope& s, ValueId last, ValueId pending, std::string pending_text)
    : w_(w), s_(s), last_(last), pending_(pending), pending_text_(std::move(pending_text)) {
  collect(last);
}

void Chain::collect(ValueId v) {
  if (v == pending_ || operand_of_.count(v) != 0 || std::find(order_.begin(), order_.end(), v) != order_.end()) return;
  const Known& known = s_.known[v];
  if (known.kind == Known::Kind::number) return;
  if (known.kind == Known::Kind::lazy) {
    for (const ValueId operand : s_.graph.nodes[known.node].operands) {
      if (operand != kNoValue) collect(operand);
    }
    order_.push_back(v);
    return;
  }
  const View view = w_.generator().view(s_, v);
  operand_of_.emplace(v, views_.size());
  views_.push_back(view);
  values_.push_back(v);
  names_.emplace_back();
}

std::string Chain::print(const std::function<std::string(const Sizes& strides)>& index) {
  std::map<ValueId, std::string> texts;
  for (size_t i = 0; i < views_.size(); ++i) {
    const ValueId v = values_[i];
    if (names_[i].empty()) names_[i] = w_.reads(views_[i], "x");
    const DType dtype = s_.graph.type(v).dtype;
    texts[v] = loaded(formatted("{}[{}]", names_[i], index(views_[i].strides)), dtype);
    if (dtype == DType::f16 || dtype == DType::bf16) w_.generator().need(dtype == DType::f16 ? "float_of_f16" : "float_of_bf16");
  }
  const auto text_of = [&](ValueId v) -> std::string {
    if (v == kNoValue) return {};
    if (v == pending_) return pending_text_;
    const auto found = texts.find(v);
    if (found != texts.end()) return found->second;
    return literal(s_.known[v].number, s_.graph.type(v).dtype);
  };
  for (const ValueId v : order_) {
    const Node& node = s_.graph.nodes[s_.known[v].node];
    std::vector<std::string> operands;
    for (const ValueId operand : node.operands) operands.push_back(text_of(operand));
    // A load that several terms use, or one inside a conditional, has a name.
    for (size_t i = 0; i < operands.size(); ++i) {
      if (operands[i].find('[') == std::string::npos) continue;
      const DType dtype = s_.graph.type(node.operands[i]).dtype;
      const std::string name = w_.fresh("t");
      w_.line(formatted("const {} {} = {};", computed_type(dtype), name, operands[i]));
      for (std::string& other : operands) {
        if (&other != &operands[i] && other == operands[i]) other = name;
      }
      texts[node.operands[i]] = name;
      operands[i] = name;
    }
    texts[v] = print_element(w_, s_.graph, node, operands);
  }
  return text_of(last_);
}

Loops joined_axes(const Sizes& sizes, const std::vector<Sizes>& strides) {
  Loops loops;
  loops.strides.resize(strides.size());
  for (size_t a = 0; a < sizes.size(); ++a) {
    if (sizes[a] == 1) continue;
    const bool joins = !loops.sizes.empty() && [&] {
      for (size_t v = 0; v < strides.size(); ++v) {
        if (loops.strides[v].back() != strides[v][a] * sizes[a]) return false;
      }
      return true;
    }();
    if (joins) {
      loops.sizes.back() *= sizes[a];
      for (size_t v = 0; v < strides.size(); ++v) loops.strides[v].back() = strides[v][a];
    } else {
      loops.sizes.push_back(sizes[a]);
      for (size_t v = 0; v < strides.size(); ++v) loops.strides[v].push_back(strides[v][a]);
    }
  }
  return loops;
}

std::string chain_at(Chain& chain, const Sizes& sizes, const std::vector<Axis>& axes) {
  return chain.print([&](const Sizes& strides) {
    std::vector<std::pair<std::string, int64_t>> terms;
    for (const Axis& axis : axes) terms.emplace_back(axis.index, one_stride(sizes, strides, axis.from, axis.to).value());
    return sum_of(terms);
  });
}

void Generator::compute_into(Scope& s, ValueId v, const View& target) {
  if (count_of(target.sizes) == 0) return;
  Writer w(*this, s.known[v].kind == Known::Kind::lazy ? s.graph.nodes[s.known[v].node].op->name : "copy");
  Chain chain(w, s, v);
  std::vector<Sizes> strides{target.strides};
  for (const View& operand : chain.operands()) strides.push_back(operand.strides);
  const Loops loops = joined_axes(target.sizes, strides);
  const std::string y = w.writes(target, "y");
  std::vector<std::string> indices;
  for (size_t a = 0; a < loops.sizes.size(); ++a) indices.push_back(w.fresh(std::string(1, static_cast<char>('i' + a % 8))));
  const auto index_of = [&](const Sizes& of) {
    std::vector<std::pair<std::string, int64_t>> terms;
    for (size_t a = 0; a < of.size(); ++a) terms.emplace_back(indices[a], of[a]);
    return sum_of(terms);
  };
  for (size_t a = 0; a < loops.sizes.size(); ++a) w.loop(indices[a], loops.sizes[a]);
  size_t next = 0;
  const std::string value = chain.print([&](const Sizes&) { return index_of(loops.strides[++next]); });
  const DType dtype = s.graph.type(v).dtype;
  if (dtype == DType::f16 || dtype == DType::bf16) need(dtype == DType::f16 ? "f16_of" : "bf16_of");
  w.line(formatted("{}[{}] = {};", y, index_of(loops.strides[0]), stored(value, dtype)));
  w.close(loops.sizes.size());
  emit(w);
}

namespace {

// The last product that waits among what v is computed from.
std::shared_ptr<const Product> pending_below(const Scope& s, ValueId v, std::set<ValueId>& seen) {
  if (!seen.insert(v).second) return nullptr;
  const Known& known = s.known[v];
  if (known.kind == Known::Kind::pending) return known.product;
  if (known.kind != Known::Kind::lazy) return nullptr;
  std::shared_ptr<const Product> found;
  for (const ValueId operand : s.graph.nodes[known.node].operands) {
    if (operand == kNoValue) continue;
    std::shared_ptr<const Product> below = pending_below(s, operand, seen);
    if (below && (!found || below->result > found->result)) found = std::move(below);
  }
  return found;
}

// What else is read must lie so that the product can walk it; otherwise a copy does.
void make_fit(Generator& g, Scope& s, ValueId v, const Product& product, std::set<ValueId>& seen) {
  if (v == product.result || !seen.insert(v).second) return;
  Known& known = s.known[v];
  if (known.kind == Known::Kind::number) return;
  if (known.kind == Known::Kind::lazy) {
    for (const ValueId operand : s.graph.nodes[known.node].operands) {
      if (operand != kNoValue) make_fit(g, s, operand, product, seen);
    }
    return;
  }
  if (!product.fits(g.view(s, v).strides)) s.known[v].view = g.dense(s, v);
}

}  // namespace

std::optional<View> epilogue_of_pending(Generator& g, Scope& s, ValueId v) {
  std::set<ValueId> seen;
  const std::shared_ptr<const Product> product = pending_below(s, v, seen);
  if (!product || s.graph.type(v).dtype != s.graph.type(product->result).dtype) return std::nullopt;
  seen.clear();
  make_fit(g, s, v, *product, seen);
  const Origin now = g.origin;  // the product's layer is what runs, whatever follows in its epilogue
  if (&s.graph == &g.program.graph) g.origin = s.graph.nodes[s.graph.values[product->result].node].origin;
  const View made = product->emit(g, s, v);
  g.origin = now;
  return made;
}

}  // namespace pycandle::c
