// Arithmetic and data: elementwise functions, reductions, rounding, comparisons, slices, pads, orders.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "verify/diagnosing/variants.h"

namespace pycandle {
namespace {

// Ops that are mistaken for one another, as people call them.
struct Family {
  const char* kind;
  std::vector<std::pair<const char*, const char*>> ops;  // op, its name
};
const std::vector<Family>& families() {
  static const std::vector<Family> all{
      {"rounding mode",
       {{"round", "rounding to nearest"},
        {"floor", "rounding down"},
        {"ceil", "rounding up"},
        {"trunc", "rounding toward zero"}}},
      {"rounding mode", {{"floor_divide", "division rounded down"}, {"trunc_divide", "division rounded toward zero"}}},
      {"rounding mode", {{"remainder", "a remainder with the divisor's sign"}, {"fmod", "a remainder with the dividend's sign"}}},
      {"comparison",
       {{"lt", "less"},
        {"le", "less or equal"},
        {"gt", "greater"},
        {"ge", "greater or equal"},
        {"eq", "equal"},
        {"ne", "not equal"}}},
      {"extreme", {{"maximum", "the maximum"}, {"minimum", "the minimum"}}},
      {"reduction", {{"reduce_sum", "a sum"}, {"reduce_max", "a maximum"}, {"reduce_min", "a minimum"}}},
      {"extreme", {{"argmax", "argmax"}, {"argmin", "argmin"}}},
      {"function", {{"exp", "exp"}, {"expm1", "exp less one"}, {"exp2", "a power of two"}}},
      {"function", {{"log", "log"}, {"log1p", "log of one more"}, {"log2", "log to base two"}, {"log10", "log to base ten"}}},
      {"function", {{"sqrt", "a root"}, {"rsqrt", "one by a root"}, {"reciprocal", "one by x"}}},
      {"function", {{"sin", "sine"}, {"cos", "cosine"}}},
      {"operation", {{"add", "a sum"}, {"sub", "a difference"}, {"mul", "a product"}, {"div", "a quotient"}}},
  };
  return all;
}

bool is_of_indices(const Variants& v) {
  return !is_inexact(v.call().graph().type(v.call().value(v.call().op().operand_specs[0].name)).dtype);
}

void family(Variants& v) {
  const std::string& op = v.call().op().name;
  for (const Family& f : families()) {
    const auto now = std::find_if(f.ops.begin(), f.ops.end(), [&](const auto& o) { return op == o.first; });
    if (now == f.ops.end() || (std::string_view(f.kind) == "operation" && is_of_indices(v))) continue;
    for (const auto& [other, text] : f.ops) {
      if (other == op) continue;
      v.build(f.kind, now->second, text, [other = std::string(other)](const VariantSite& m) {
        return m.b.create_all(other, m.operands, m.node.attributes);
      });
    }
  }
}

void binary(Variants& v) {
  const std::string& op = v.call().op().name;
  if (op == "sub" || op == "div" || op == "pow" || op == "atan2" || op == "matmul") {
    v.swapped("operand order", "a", "b", "its operands in order", "its operands swapped");
  }
  for (const size_t i : {0, 1}) {
    const char* kind = is_of_indices(v) ? "index offset" : op == "add" || op == "sub" ? "missing residual" : "missing factor";
    const std::string what = fmt::format("the {} of its operands", i == 0 ? "first" : "second");
    if (op == "add" || op == "sub" || op == "mul" || op == "div")
      v.build(kind, "both of its operands", "only " + what, [i](const VariantSite& m) { return Values{m.operands[i]}; });
  }
}

// Where the last two dims are of one size, nothing else notices.
void turned_operand(Variants& v) {
  if (is_of_indices(v)) return;
  for (const char* name : {"a", "b"}) {
    const Shape& shape = v.call().shape(name);
    if (shape.size() < 2 || shape.back() != shape[shape.size() - 2] || shape.back() == Dim(1)) continue;
    v.operand("dim order", name, fmt::format("its operand {}", name), fmt::format("its operand {} transposed", name),
              [](Builder& b, ValueId x) { return b.swap_axes(x, -2, -1); });
  }
}

void constant(Variants& v) {
  if (!is_floating(v.call().dtype("dtype"))) return;
  const double now = as_double(v.call().scalar("value"));
  if (now == 0 || !std::isfinite(now)) return;
  std::vector<double> grid;
  for (double f : {-1.0, 0.01, 0.1, 0.25, 0.5, 0.8, 1.25, 2.0, 4.0, 10.0, 100.0}) grid.push_back(now * f);
  std::sort(grid.begin(), grid.end());
  v.number("constant", "value", "a constant", std::move(grid));
}

const std::vector<double> kBounds{-100, -20, -10, -6, -5, -3, -2, -1, -0.5, -0.1, 0, 0.1, 0.5, 1, 2, 3, 5, 6, 10, 20, 100};

// ---- reductions

void other_axes(Variants& v) {
  const Ints axes = v.call().integers("axes");
  const int64_t rank = v.call().rank("x");
  if (axes.size() != 1) return;
  for (int64_t axis = 0; axis < rank; ++axis) {
    if (axis != axes[0]) v.attribute("dim", "axes", Ints{axis}, fmt::format("dim {}", axes[0]), fmt::format("dim {}", axis));
  }
}

Dim elements(const Shape& x, const Ints& axes) {
  Dim count(1);
  for (int64_t a : axes) count = count * x[a < 0 ? a + static_cast<int64_t>(x.size()) : a];
  return count;
}

void sum(Variants& v) {
  if (!is_floating(v.call().graph().type(v.call().value("x")).dtype)) return;
  v.result("reduction", "a sum", "a mean", [x = v.call().shape("x"), axes = v.call().integers("axes")](Builder& b, ValueId y) {
    return b.div(y, b.dim_value(elements(x, axes), b.dtype(y)));
  });
}

void other_axis(Variants& v) {
  const int64_t now = v.call().integer("axis"), rank = v.call().rank("x");
  for (int64_t axis = 0; axis < rank; ++axis) {
    if (axis != now) v.attribute("dim", "axis", axis, fmt::format("dim {}", now), fmt::format("dim {}", axis));
  }
}

void spread(Variants& v) {  // var, std
  for (const double correction : {0.0, 1.0}) {
    if (v.call().number("correction") != correction)
      v.attribute("variance", "correction", correction, correction == 0 ? "the unbiased variance" : "the biased variance",
                  correction == 0 ? "the biased variance" : "the unbiased variance");
  }
}

void mean(Variants& v) {
  other_axes(v);
  v.result("reduction", "a mean", "a sum", [x = v.call().shape("x"), axes = v.call().integers("axes")](Builder& b, ValueId y) {
    return b.mul(y, b.dim_value(elements(x, axes), b.dtype(y)));
  });
}

void cumulative(Variants& v) {
  other_axis(v);
  const int64_t axis = v.call().integer("axis");
  v.build("direction order", "from the front", "from the back",
          [axis](const VariantSite& m) { return Values{m.b.reverse(m.same({m.b.reverse(m.operands[0], {axis})})[0], {axis})}; });
}

void order(Variants& v) {
  if (v.call().op().name == "sort") v.flag("direction order", "descending", "descending", "ascending");
  if (v.call().op().name == "topk") v.flag("direction order", "largest", "the largest", "the smallest");
}

// ---- data movement

void slice(Variants& v) {
  const Call& c = v.call();
  const Dims starts = c.dims("starts"), stops = c.dims("stops");
  const Shape& shape = c.shape("x");
  for (size_t axis = 0; axis < shape.size(); ++axis) {
    const int64_t start = v.size(starts[axis]), stop = v.size(stops[axis]), size = v.size(shape[axis]);
    for (const int64_t shift : {-1, 1, -2, 2}) {
      if (start + shift < 0 || stop + shift > size || stop - start == size) continue;
      Dims moved_starts = starts, moved_stops = stops;
      moved_starts[axis] = moved_starts[axis] + Dim(shift);
      moved_stops[axis] = moved_stops[axis] + Dim(shift);
      v.build("slice offset", fmt::format("a slice from {}", start), fmt::format("a slice from {}", start + shift),
              [moved_starts, moved_stops](const VariantSite& m) {
                Attributes attributes = m.node.attributes;
                for (auto& [name, value] : attributes) {
                  if (name == "starts") value = moved_starts;
                  if (name == "stops") value = moved_stops;
                }
                return m.same(m.operands, attributes);
              });
    }
    // Another part of the same size: the second of three chunks.
    const int64_t length = stop - start;
    for (int64_t other = 0; length > 2 && size % length == 0 && other + length <= size && size / length <= 8; other += length) {
      if (other == start || start % length != 0) continue;
      Dims moved_starts = starts, moved_stops = stops;
      moved_starts[axis] = Dim(other);
      moved_stops[axis] = Dim(other + length);
      v.build("part order", fmt::format("part {} of {}", start / length, size / length),
              fmt::format("part {} of {}", other / length, size / length), [moved_starts, moved_stops](const VariantSite& m) {
                Attributes attributes = m.node.attributes;
                for (auto& [name, value] : attributes) {
                  if (name == "starts") value = moved_starts;
                  if (name == "stops") value = moved_stops;
                }
                return m.same(m.operands, attributes);
              });
    }
  }
}

void split(Variants& v) {
  v.build("part order", "its parts in order", "its parts in reverse", [](const VariantSite& m) {
    Values parts = m.same(m.operands);
    std::reverse(parts.begin(), parts.end());
    return parts;
  });
  v.build("part order", "its parts in order", "its parts turned by one", [](const VariantSite& m) {
    Values parts = m.same(m.operands);
    std::rotate(parts.begin(), parts.begin() + 1, parts.end());
    return parts;
  });
  v.build("part order", "its parts in order", "its first two parts swapped", [](const VariantSite& m) {
    Values parts = m.same(m.operands);
    if (parts.size() > 1) std::swap(parts[0], parts[1]);
    return parts;
  });
  v.build("part order", "its parts in order", "its last two parts swapped", [](const VariantSite& m) {
    Values parts = m.same(m.operands);
    if (parts.size() > 1) std::swap(parts[parts.size() - 2], parts.back());
    return parts;
  });
}

void concat(Variants& v) {
  v.build("part order", "its parts in order", "its parts in reverse", [](const VariantSite& m) {
    Values parts = m.operands;
    std::reverse(parts.begin(), parts.end());
    return m.same(parts);
  });
  const size_t count = v.call().values("xs").size();
  for (size_t i = 0; count > 2 && count <= 8 && i + 1 < count; ++i) {
    v.build("part order", "its parts in order", fmt::format("its parts {} and {} swapped", i, i + 1), [i](const VariantSite& m) {
      Values parts = m.operands;
      std::swap(parts[i], parts[i + 1]);
      return m.same(parts);
    });
  }
}

void transpose(Variants& v) {
  const Ints now = v.call().integers("permutation");
  if (now.size() > 5) return;
  Ints other(now.size());
  for (size_t i = 0; i < other.size(); ++i) other[i] = static_cast<int64_t>(i);
  do {
    bool same_shape = true;
    for (size_t i = 0; i < now.size(); ++i) {
      same_shape = same_shape && v.call().shape("x")[other[i]] == v.call().shape("x")[now[i]];
    }
    if (same_shape && other != now)
      v.attribute("dim order", "permutation", other, fmt::format("dims in the order {}", fmt::join(now, " ")),
                  fmt::format("dims in the order {}", fmt::join(other, " ")));
  } while (std::next_permutation(other.begin(), other.end()));
}

// The node that gives the value, when it is of this op.
const Node* made_by(const Graph& g, ValueId v, const char* op) {
  const NodeId node = g.values[v].node;
  if (node < 0 || g.nodes[node].op->name != op) return nullptr;
  return &g.nodes[node];
}

// All axes but the last ones are the same, and `whole` has one axis where `parts` has two.
bool splits_last_axis(const Shape& whole, const Shape& parts) {
  return !whole.empty() && whole.size() + 1 == parts.size() && std::equal(whole.begin(), whole.end() - 1, parts.begin());
}

constexpr const char* kSplitOrder = "head split order";

// reshape(x, [.., a, b]) and a transpose: heads are split off as [.., heads, width]; [.., width, heads] fits as well.
void split_then_transposed(Variants& v) {
  const Graph& g = v.call().graph();
  const Node* reshape = made_by(g, v.call().value("x"), "reshape");
  const Shape& parts = v.call().shape("x");
  if (reshape == nullptr || !splits_last_axis(g.type(reshape->operands[0]).shape, parts)) return;
  const std::string a = parts[parts.size() - 2].text(), b = parts.back().text();
  v.build(kSplitOrder, fmt::format("the last axis split into {} by {}", a, b), fmt::format("it split into {} by {}", b, a),
          [](const VariantSite& m) {
            const Node* before = made_by(m.b.graph(), m.operands[0], "reshape");
            const ValueId x = before->operands[0];
            Shape shape = m.b.shape(m.operands[0]);
            const auto last = static_cast<int64_t>(shape.size()) - 1;
            std::swap(shape[shape.size() - 1], shape[shape.size() - 2]);
            Ints order = std::get<Ints>(m.node.attributes.at(0).second);
            for (int64_t& axis : order) axis = axis == last ? last - 1 : axis == last - 1 ? last : axis;
            return Values{m.b.transpose(m.b.reshape(x, shape), order)};
          });
}

// The reverse: a transpose, and a reshape that makes one axis of the last two.
void transposed_then_merged(Variants& v) {
  const Graph& g = v.call().graph();
  const Node* transpose = made_by(g, v.call().value("x"), "transpose");
  if (transpose == nullptr || !splits_last_axis(v.call().dims("shape"), v.call().shape("x"))) return;
  v.build(kSplitOrder, "the last two axes merged in this order", "them merged in the other", [](const VariantSite& m) {
    const Shape merged = m.b.shape(m.same(m.operands)[0]);
    return Values{m.b.reshape(m.b.swap_axes(m.operands[0], -2, -1), merged)};
  });
}

void pad(Variants& v) {
  const std::string& op = v.call().op().name;
  const Dims low = v.call().dims("low"), high = v.call().dims("high");
  const auto words = [](const std::string& name) {
    return name == "pad"               ? "padding with a constant"
           : name == "reflection_pad"  ? "padding by reflection"
           : name == "replication_pad" ? "padding by the nearest"
                                       : "circular padding";
  };
  if (low != high) {
    v.build("padding side", "its padding in front and behind", "its padding the other way round",
            [low, high](const VariantSite& m) {
              Attributes attributes = m.node.attributes;
              for (auto& [name, value] : attributes) {
                if (name == "low") value = high;
                if (name == "high") value = low;
              }
              return m.same(m.operands, attributes);
            });
  }
  for (const char* other : {"pad", "reflection_pad", "replication_pad", "circular_pad"}) {
    if (op == other) continue;
    v.build("padding mode", words(op), words(other), [low, high, other](const VariantSite& m) {
      if (std::string_view(other) == "pad") return Values{m.b.pad(m.operands[0], low, high, 0.0)};
      return Values{m.b.create(other, {m.operands[0]}, {{"low", low}, {"high", high}})};
    });
  }
}

void select(Variants& v) { v.swapped("mask sign", "yes", "no", "the mask", "the mask inverted"); }

void clamp(Variants& v) {
  const Call& c = v.call();
  for (const std::string bound : {"min", "max"}) {
    if (!c.has(bound)) continue;
    const std::string now = fmt::format("a {} of {:.6g}", bound, as_double(c.scalar(bound)));
    // One that no value reaches could be any.
    v.attribute("clamp bound", bound, std::monostate(), now, bound == "min" ? "a lower one, or none" : "a higher one, or none");
    v.number("clamp bound", bound, "a " + bound, kBounds);
  }
}

void roll(Variants& v) {
  v.build("direction order", "rolled one way", "rolled the other way", [](const VariantSite& m) {
    Attributes attributes = m.node.attributes;
    for (auto& [name, value] : attributes) {
      if (name != "shifts") continue;
      Dims shifts = std::get<Dims>(value);
      for (Dim& d : shifts) d = Dim(0) - d;
      value = shifts;
    }
    return m.same(m.operands, attributes);
  });
}

void triangle(Variants& v) {
  const Dim now = v.call().dim("diagonal");
  for (const int64_t shift : {-1, 1}) {
    v.attribute("slice offset", "diagonal", now + Dim(shift), fmt::format("diagonal {}", now.text()),
                fmt::format("diagonal {}", (now + Dim(shift)).text()));
  }
}

}  // namespace

VariantTable arithmetic_variants() {
  VariantTable table{
      {{"add", "sub", "mul", "div", "pow", "atan2"}, binary},
      {{"add", "sub", "mul", "div"}, turned_operand},
      {{"constant"}, constant},
      {{"reduce_sum", "reduce_max", "reduce_min", "reduce_prod"}, other_axes},
      {{"reduce_sum"}, sum},
      {{"argmax", "argmin"}, other_axis},
      {{"mean"}, mean},
      {{"var", "std"}, spread},
      {{"cumsum", "cumprod", "cummax", "cummin"}, cumulative},
      {{"sort", "topk"}, order},
      {{"slice"}, slice},
      {{"split"}, split},
      {{"concat"}, concat},
      {{"transpose"}, transpose},
      {{"transpose"}, split_then_transposed},
      {{"reshape"}, transposed_then_merged},
      {{"pad", "reflection_pad", "replication_pad", "circular_pad"}, pad},
      {{"select"}, select},
      {{"clamp"}, clamp},
      {{"roll"}, roll},
      {{"tril", "triu"}, triangle},
  };
  for (const Family& f : families()) {  // no op is in two of them
    std::vector<std::string> ops;
    for (const auto& [op, text] : f.ops) ops.emplace_back(op);
    table.emplace_back(std::move(ops), family);
  }
  return table;
}

}  // namespace pycandle
