// Rotary position embedding: pairs of entries of x are turned by angles that depend on the position.
#include <utility>

#include "ir/fragment.h"
#include "ir/mistakes.h"
#include "ops/core/alignment.h"
#include "ops/core/functional_helpers.h"

namespace pycandle {
namespace {

// Which entries make a pair: i and i + half of them (Llama, GPT-NeoX), or 2i and 2i + 1 (GPT-J, "interleaved").
std::pair<ValueId, ValueId> halves(Builder& b, ValueId x, bool interleaved) {
  const Dim size = b.shape(x).back(), half = floordiv(size, Dim(2));
  if (interleaved) return {b.slice(x, -1, 0, size, 2), b.slice(x, -1, 1, size, 2)};
  return {b.slice(x, -1, 0, half), b.slice(x, -1, half, size)};
}

ValueId joined_halves(Builder& b, ValueId first, ValueId second, const Shape& shape, bool interleaved) {
  if (!interleaved) return b.concat({first, second}, -1);
  return b.reshape(b.concat({b.unsqueeze(first, -1), b.unsqueeze(second, -1)}, -1), shape);
}

Dim rotated_size(const Call& c) { return c.boolean("paired") ? c.shape("cos").back() * 2 : c.shape("cos").back(); }

// cos and sin with the axis of the heads, which they lack.
ValueId with_heads(Builder& b, const Call& c, const char* name) {
  return c.has("unsqueeze_dim") ? b.unsqueeze(c.value(name), c.integer("unsqueeze_dim")) : c.value(name);
}

ValueId rotated(Builder& b, const Call& c) {
  const ValueId whole = c.value("x"), cos = with_heads(b, c, "cos"), sin = with_heads(b, c, "sin");
  const Dim size = b.shape(whole).back(), turned = rotated_size(c);
  const ValueId x = b.slice(whole, -1, 0, turned);
  const bool interleaved = c.boolean("interleaved");
  const auto [first, second] = halves(b, x, interleaved);
  ValueId y = kNoValue;
  if (c.boolean("paired")) {
    y = joined_halves(b, b.sub(b.mul(first, cos), b.mul(second, sin)), b.add(b.mul(second, cos), b.mul(first, sin)), b.shape(x),
                      interleaved);
  } else {
    const ValueId turned_by_90 = joined_halves(b, b.neg(second), first, b.shape(x), interleaved);
    y = b.add(b.mul(x, cos), b.mul(turned_by_90, sin));
  }
  return turned == size ? y : b.concat({y, b.slice(whole, -1, turned, size)}, -1);
}

// ---- how a program spells it out

bool is_part(const Fragment& f, ValueId v) { return f.is(f.behind(v, {"reshape"}), "slice"); }
bool is_joined(const Fragment& f, ValueId v) { return f.is_one_of(f.behind(v, {"reshape"}), {"concat", "stack"}); }
ValueId whole_of(const Fragment& f, ValueId part) { return f.operand(f.nearest(part, {"slice"}), 0); }

struct FoundRotary {
  ValueId x = kNoValue, cos = kNoValue, sin = kNoValue;
  bool interleaved = false, paired = false;
};

// The two operands of a product, the one that `is` what is looked for first.
template <class Is> std::optional<std::pair<ValueId, ValueId>> factors(const Fragment& f, ValueId product, const Is& is) {
  if (!f.is(product, "mul")) return std::nullopt;
  const ValueId a = f.operand(product, 0), b = f.operand(product, 1);
  if (is(a)) return std::pair{a, b};
  if (is(b)) return std::pair{b, a};
  return std::nullopt;
}

// x * cos + turned(x) * sin
std::optional<FoundRotary> read_whole(const Fragment& f, ValueId sum) {
  for (size_t i : {size_t{0}, size_t{1}}) {
    const auto turned = factors(f, f.operand(sum, i), [&](ValueId v) { return is_joined(f, v); });
    if (!turned) continue;
    FoundRotary found;
    found.sin = turned->second;
    found.x = whole_of(f, turned->first);
    found.interleaved = f.is(turned->first, "reshape");
    const auto plain = factors(f, f.operand(sum, 1 - i), [&](ValueId v) { return v == found.x; });
    if (!plain) continue;
    found.cos = plain->second;
    return found;
  }
  return std::nullopt;
}

// first * cos - second * sin, as the first part of what is joined
std::optional<FoundRotary> read_paired(const Fragment& f, ValueId difference) {
  difference = f.behind(difference, {"reshape"});
  if (!f.is(difference, "sub")) return std::nullopt;
  const auto part = [&](ValueId v) { return is_part(f, v); };
  const auto first = factors(f, f.operand(difference, 0), part), second = factors(f, f.operand(difference, 1), part);
  if (!first || !second) return std::nullopt;
  FoundRotary found;
  found.paired = true;
  found.x = whole_of(f, first->first);
  found.cos = first->second;
  found.sin = second->second;
  return found;
}

// Where a reshape puts one new axis of 1; nothing when it does something else.
std::optional<int64_t> new_axis(const Shape& from, const Shape& to) {
  if (to.size() != from.size() + 1) return std::nullopt;
  for (size_t axis = 0; axis < to.size(); ++axis) {
    Shape with = from;
    with.insert(with.begin() + static_cast<std::ptrdiff_t>(axis), Dim(1));
    const bool is_for_heads = axis > 0 || from.empty();  // of [1, 1, …] the later one: the first is the batch
    if (is_for_heads && with == to) return static_cast<int64_t>(axis);
  }
  return std::nullopt;
}

void add_calls(const Fragment& f, const FoundRotary& found, std::vector<Proposal>& calls) {
  const ValueId cos = f.behind(found.cos, {"broadcast"}), sin = f.behind(found.sin, {"broadcast"});
  const Attributes attributes{{"interleaved", found.interleaved}, {"paired", found.paired}};
  if (f.is(cos, "reshape") && f.is(sin, "reshape")) {
    const ValueId flat_cos = f.operand(cos, 0), flat_sin = f.operand(sin, 0);
    const auto axis = new_axis(f.shape(flat_cos), f.shape(cos));
    if (axis && new_axis(f.shape(flat_sin), f.shape(sin)) == axis) {
      Attributes without_heads = attributes;
      without_heads.emplace_back("unsqueeze_dim", *axis);
      calls.push_back({{found.x, flat_cos, flat_sin}, std::move(without_heads), {}});
    }
  }
  calls.push_back({{found.x, cos, sin}, attributes, {}});
}

std::vector<Proposal> propose(const Fragment& f) {
  std::vector<Proposal> calls;
  const ValueId y = f.result();
  const auto propose_at = [&](ValueId core, bool is_part_of_x) {
    std::optional<FoundRotary> found;
    if (f.is(core, "add")) {
      found = read_whole(f, core);
    } else if (is_joined(f, core)) {
      found = read_paired(f, f.operand(f.behind(core, {"reshape"}), 0));
      if (found) found->interleaved = f.is(core, "reshape");
    }
    if (!found) return;
    if (is_part_of_x) found->x = f.operand(found->x, 0);  // a slice of the whole
    if (found->x != kNoValue) add_calls(f, *found, calls);
  };
  if (f.is(y, "concat")) propose_at(f.operand(y, 0), true);  // the rest of x is not turned
  propose_at(y, false);
  return calls;
}

bool is_broadcastable(const Call& c) {
  Shape small = c.shape("cos"), whole = c.shape("x");
  if (small.empty() || whole.empty()) return false;
  if (c.has("unsqueeze_dim")) {
    const int64_t axis = c.integer("unsqueeze_dim");
    if (axis < 0 || axis > static_cast<int64_t>(small.size())) return false;
    small.insert(small.begin() + axis, Dim(1));
  }
  if (small.size() > whole.size()) return false;
  for (size_t i = 1; i < small.size(); ++i) {  // from the end; the last axis has its own rule
    const Dim d = small[small.size() - 1 - i];
    if (d != Dim(1) && !c.agree(d, whole[whole.size() - 1 - i])) return false;
  }
  return true;
}

// The angles have the axes of x from the end, but for that of the heads.
std::optional<Alignment> rotary_alignment(const AlignedCall& c) {
  Alignment a = c.all_but(c.last(1));
  const Shape& angles = c.call.shape("cos");
  const bool inserts = c.call.has("unsqueeze_dim");
  const size_t inserted = inserts ? static_cast<size_t>(c.call.integer("unsqueeze_dim")) : angles.size();
  for (size_t from = 0; from + 1 < angles.size(); ++from) {
    const size_t to = c.rank() - angles.size() - (inserts ? 1 : 0) + from + (from >= inserted ? 1 : 0);
    if (angles[from] == c.result[to])
      for (const size_t operand : {1, 2}) a.axes[operand][to] = static_cast<int64_t>(from);
    else if (angles[from] != Dim(1))
      a.is_free[to] = false;
  }
  return a;
}

OpDef rotary_embedding() {
  return functional("rotary_embedding")
      .doc(
          "x * cos + (x turned by 90°) * sin; pairs are halves of x or, interleaved, neighbours. paired: cos and sin have one "
          "entry a pair. What of x is wider than them stays")
      .operands("x", "cos", "sin")
      .attributes(attr<bool>("interleaved", false), attr<bool>("paired", false), optional_attr<int64_t>("unsqueeze_dim"))
      .constraint("rotary_embedding_c1", "x, cos and sin have one floating dtype, and cos and sin one shape",
                  [](const Call& c) {
                    return is_floating(c.type("x").dtype) && c.type("cos").dtype == c.type("x").dtype &&
                           c.type("cos") == c.type("sin");
                  })
      .constraint("rotary_embedding_c2", "cos broadcasts to x, after unsqueeze_dim has put in an axis", is_broadcastable)
      .constraint("rotary_embedding_c3", "as many entries as are turned are even, and not more than x has",
                  [](const Call& c) {
                    const Dim turned = rotated_size(c);
                    return c.agree(mod(turned, Dim(2)), Dim(0)) && may_be_at_most(turned, c.shape("x").back());
                  })
      .infer([](const Call& c) { return c.type("x"); })
      .decompose(rotated)
      .aligned(rotary_alignment)
      .recognised_at({"add", "concat", "reshape"}, propose)
      .same_purpose()
      .kernel_by_kernel()
      .results({"rotated"})
      .mistakes([](Mistakes& m) {
        m.flag("rotary pairing", "interleaved", "neighbours paired (GPT-J)", "halves paired (Llama)");
        m.operand("rotary direction", "sin", "turning forwards", "turning backwards",
                  [](Builder& b, ValueId x) { return b.neg(x); });
        m.swapped("operand order", "cos", "sin", "cosine and sine as they are", "cosine and sine swapped");
      });
}

}  // namespace

std::vector<OpDef> rotary_ops() { return {rotary_embedding()}; }

}  // namespace pycandle
