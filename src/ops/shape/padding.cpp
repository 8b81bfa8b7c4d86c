// Tensors made larger at their edges.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "ir/layer.h"
#include "ops/core/alignment.h"
#include "ops/core/aten_call.h"
#include "ops/core/constraints.h"
#include "ops/shape/shape_helpers.h"

namespace pycandle {
namespace {

// ---- padding; low and high have an entry for each axis, as those of the primitive `pad`

struct Amounts {
  Dims low, high;
};

// torch writes them from the last axis on: [left, right, top, bottom, …].
Amounts amounts(AtenCall& c, ValueId x, const Dims& given) {
  size_t rank = c.b.shape(x).size();
  if (given.size() % 2 != 0 || given.size() / 2 > rank)
    c.unsupported(fmt::format("{} amounts of padding for {}", given.size(), c.b.type(x).text()));
  Amounts out{Dims(rank, Dim(0)), Dims(rank, Dim(0))};
  for (size_t i = 0; i < given.size() / 2; ++i) {
    out.low[rank - 1 - i] = given[2 * i];
    out.high[rank - 1 - i] = given[2 * i + 1];
  }
  return out;
}

// What an axis gets at its two ends, from its own elements.
using Edge = ValueId (*)(Builder&, ValueId x, int64_t axis, Dim count);

// The elements before the first: c b | a b c
ValueId mirrored_low(Builder& b, ValueId x, int64_t axis, Dim count) { return b.reverse(b.slice(x, axis, 1, count + 1), {axis}); }
ValueId mirrored_high(Builder& b, ValueId x, int64_t axis, Dim count) {
  Dim size = b.shape(x)[axis];
  return b.reverse(b.slice(x, axis, size - 1 - count, size - 1), {axis});
}
ValueId repeated(Builder& b, ValueId x, int64_t axis, Dim index, Dim count) {
  ValueId edge = b.slice(x, axis, index, index + 1);
  Shape shape = b.shape(x);
  shape[axis] = count;
  return b.broadcast_to(edge, shape);
}
ValueId repeated_low(Builder& b, ValueId x, int64_t axis, Dim count) { return repeated(b, x, axis, 0, count); }
ValueId repeated_high(Builder& b, ValueId x, int64_t axis, Dim count) {
  return repeated(b, x, axis, b.shape(x)[axis] - 1, count);
}
ValueId wrapped_low(Builder& b, ValueId x, int64_t axis, Dim count) {
  Dim size = b.shape(x)[axis];
  return b.slice(x, axis, size - count, size);
}
ValueId wrapped_high(Builder& b, ValueId x, int64_t axis, Dim count) { return b.slice(x, axis, 0, count); }

bool is_negative(Dim d) { return d.is_number() && d.number() < 0; }

// Which elements the edges are made of, where a negative amount crops: those of the whole axis, or those that are left.
enum class EdgesOf { whole, cropped };

// Of images, sequences and volumes in a batch, by torch's order: the last axis first.
std::optional<Attribute> layer_padding(const LayerCall& l) {
  const Dims low = l.call().dims("low"), high = l.call().dims("high");
  if (low.size() < 3 || low.size() > 5) return {};
  Ints padding;
  for (size_t axis = low.size(); axis-- > 0;) {
    if (!low[axis].is_number() || !high[axis].is_number()) return {};
    if (axis < 2 && (low[axis] != Dim(0) || high[axis] != Dim(0))) return {};
    if (axis < 2) continue;
    padding.push_back(low[axis].number());
    padding.push_back(high[axis].number());
  }
  return one_number(Attribute(padding));
}

LayerArguments padding_arguments(const LayerCall& l) {
  const auto padding = layer_padding(l);
  if (!padding) return {};
  return {{required("padding", *padding)}};
}

// A zero is written by the class's name.
LayerArguments constant_padding_arguments(const LayerCall& l) {
  LayerArguments arguments = padding_arguments(l);
  const double* value = std::get_if<double>(&l.attribute("value"));
  if (!arguments || !value) return {};
  if (*value != 0 || std::signbit(*value)) arguments->push_back(required("value", *value));
  return arguments;
}

size_t rank_of_layer(const Call& c) { return static_cast<size_t>(std::clamp<int64_t>(c.rank("x") - 3, 0, 2)); }

std::vector<std::string> each_rank(const std::string& name) { return {name + "1d", name + "2d", name + "3d"}; }

void other_padding(Mistakes& m) {
  const Dims low = m.call().dims("low"), high = m.call().dims("high");
  if (low != high)
    m.attributes("padding side", {{"low", high}, {"high", low}}, "its padding in front and behind",
                 "its padding the other way round");
  for (size_t axis = 0; axis < low.size(); ++axis) {  // the same length, moved by one
    for (const int64_t shift : {1, -1}) {
      Dims before = low, behind = high;
      before[axis] = before[axis] + Dim(shift);
      behind[axis] = behind[axis] - Dim(shift);
      if (m.size(before[axis]) < 0 || m.size(behind[axis]) < 0) continue;
      m.attributes("padding side", {{"low", before}, {"high", behind}},
                   fmt::format("{} in front and {} behind", m.size(low[axis]), m.size(high[axis])),
                   fmt::format("{} in front and {} behind", m.size(before[axis]), m.size(behind[axis])));
    }
  }
  for (const char* other : {"pad", "reflection_pad", "replication_pad", "circular_pad"}) {
    Attributes attributes{{"low", low}, {"high", high}};
    if (std::string_view(other) == "pad") attributes.emplace_back("value", 0.0);
    if (m.call().op().name != other) m.other_op("padding mode", other, attributes);
  }
}

OpDef edge_padding(const char* name, const char* doc, Edge low_edge, Edge high_edge, EdgesOf edges_of = EdgesOf::whole) {
  std::string id = name;
  return functional(name)
      .doc(doc)
      .operands("x")
      .attributes(attr<Dims>("low"), attr<Dims>("high"))
      .constraint(id + "_c1", "low and high have an entry for each axis of x",
                  [](const Call& c) {
                    return c.dims("low").size() == c.shape("x").size() && c.dims("high").size() == c.shape("x").size();
                  })
      .infer([](const Call& c) {
        Type type = c.type("x");
        for (size_t i = 0; i < type.shape.size(); ++i) type.shape[i] = c.dims("low")[i] + type.shape[i] + c.dims("high")[i];
        return type;
      })
      .decompose([low_edge, high_edge, edges_of](Builder& b, const Call& c) {
        ValueId x = c.value("x");
        for (int64_t axis = 0; axis < c.rank("x"); ++axis) {
          Dim low = c.dims("low")[axis], high = c.dims("high")[axis], size = b.shape(x)[axis];
          const bool crops = is_negative(low) || is_negative(high);
          const ValueId left = crops ? b.slice(x, axis, is_negative(low) ? -low : Dim(0), is_negative(high) ? size + high : size)
                                     : x;
          const ValueId source = edges_of == EdgesOf::cropped ? left : x;
          Values parts;
          if (low != Dim(0) && !is_negative(low)) parts.push_back(low_edge(b, source, axis, low));
          parts.push_back(left);
          if (high != Dim(0) && !is_negative(high)) parts.push_back(high_edge(b, source, axis, high));
          x = b.concat(parts, axis);
        }
        return x;
      })
      .mistakes(other_padding);
}

Values build_edge_padding(AtenCall& c, const char* op, const char* argument) {
  ValueId x = c.tensor("self");
  Amounts pad = amounts(c, x, c.dims(argument));
  return {c.b.create(op, {x}, {{"low", pad.low}, {"high", pad.high}})};
}

OpDef reflection_pad() {
  OpDef def = edge_padding("reflection_pad", "x continued at its edges by its mirror image, without repeating the edge",
                           mirrored_low, mirrored_high)
                  .spelled_torch("padded({x}, {low}, {high}, mode='reflect')")
                  .nn(each_rank("ReflectionPad"), rank_of_layer, padding_arguments)
                  .member("pad")
                  .called("padding by reflection");
  for (const char* dims : {"1d", "2d", "3d"})
    def.from_aten_call(fmt::format("aten.reflection_pad{}.default", dims),
                       [](AtenCall& c) { return build_edge_padding(c, "reflection_pad", "padding"); });
  return def.sample("torch.ops.aten.reflection_pad1d(t(1, 2, 5), (2, 3))")
      .sample("torch.ops.aten.reflection_pad1d(t(1, 2, 5), (-1, 2))")
      .sample("torch.ops.aten.reflection_pad2d(t(1, 2, 5, 4), (2, 3, 1, 0))");
}

OpDef replication_pad() {
  OpDef def = edge_padding("replication_pad", "x continued at its edges by its outermost elements", repeated_low, repeated_high)
                  .spelled_torch("padded({x}, {low}, {high}, mode='replicate')")
                  .nn(each_rank("ReplicationPad"), rank_of_layer, padding_arguments)
                  .member("pad")
                  .called("padding by the nearest");
  for (const char* dims : {"1d", "2d", "3d"})
    def.from_aten_call(fmt::format("aten.replication_pad{}.default", dims),
                       [](AtenCall& c) { return build_edge_padding(c, "replication_pad", "padding"); });
  return def.sample("torch.ops.aten.replication_pad1d(t(1, 2, 3), (2, 4))")
      .sample("torch.ops.aten.replication_pad2d(t(1, 2, 5, 4), (2, 3, 1, -1))");
}

// torch writes it only as a mode of pad, which is where its overloads are.
OpDef circular_pad() {
  return edge_padding("circular_pad", "x continued at its edges by its other end", wrapped_low, wrapped_high, EdgesOf::cropped)
      .spelled_torch("padded({x}, {low}, {high}, mode='circular')")
      .nn(each_rank("CircularPad"), rank_of_layer, padding_arguments)
      .member("pad")
      .called("circular padding");
}

Values build_constant_padding(AtenCall& c, const Scalar& value) {
  ValueId x = c.tensor("self");
  Amounts pad = amounts(c, x, c.dims("pad"));
  return {c.b.pad(x, pad.low, pad.high, value)};
}

void pad_overloads(OpDef& def) {
  def.from_aten_call("aten.constant_pad_nd.default", [](AtenCall& c) { return build_constant_padding(c, c.scalar("value")); })
      .from_aten_call(
          "aten.pad.default",
          [](AtenCall& c) {
            std::string mode = c.string("mode");
            std::optional<double> value = c.maybe_number("value");
            if (mode == "constant") return build_constant_padding(c, Scalar{value.value_or(0.0)});
            for (auto [word, op] :
                 {std::pair{"reflect", "reflection_pad"}, {"replicate", "replication_pad"}, {"circular", "circular_pad"}})
              if (mode == word) return build_edge_padding(c, op, "pad");
            c.unsupported("mode='" + mode + "'");
          })
      .from_aten_call("aten._pad_circular.default", [](AtenCall& c) { return build_edge_padding(c, "circular_pad", "pad"); })
      .sample("F.pad(t(1, 2, 5), (2, 3), mode='reflect')")
      .sample("F.pad(t(1, 2, 5, 4), (2, 3, 1, 0), mode='reflect')")
      .sample("F.pad(t(1, 2, 5), (-1, 2), mode='reflect')")
      .sample("F.pad(t(1, 2, 3), (2, 4), mode='replicate')")
      .sample("F.pad(t(1, 2, 5, 4), (2, 3, 1, 0), mode='replicate')")
      .sample("F.pad(t(1, 2, 5), (2, 3), mode='circular')")
      .sample("F.pad(t(1, 2, 5, 4), (2, 3, 1, 0), mode='circular')")
      .sample("F.pad(t(1, 2, 5), (2, -1), mode='circular')")
      .sample("F.pad(t(1, 2, 5, 4), (-1, 2, 3, -1), mode='circular')")
      .sample("F.pad(t(2, 3), (1, 2))")
      .sample("F.pad(t(2, 3), (1, 0, 0, 2), value=0.5)")
      .sample("F.pad(t(2, 5), (-1, 2))")
      .sample("F.pad(t(2, 5), (1, -2, -1, 0))")
      .sample("F.pad(i(2, 3), (1, 1), value=7)")
      .sample("F.pad(m(2, 3), (1, 1), value=True)")
      .sample("F.pad(t(2, 3), (1, 1), value=float('-inf'))");
}

OpDef pad() {
  OpDef def = primitive("pad")
                  .doc("x with low elements before and high after it on every axis; a negative amount crops")
                  .operands("x")
                  .attributes(attr<Dims>("low"), attr<Dims>("high"), attr<Scalar>("value", int64_t{0}))
                  .nn(
                      {"ZeroPad1d", "ZeroPad2d", "ZeroPad3d", "ConstantPad1d", "ConstantPad2d", "ConstantPad3d"},
                      [](const Call& c) {
                        const double* value = std::get_if<double>(&c.attribute("value"));
                        return rank_of_layer(c) + (value && (*value != 0 || std::signbit(*value)) ? 3 : 0);
                      },
                      constant_padding_arguments)
                  .member("pad")
                  .constraint("pad_c1", "low and high have an entry for each axis of x",
                              [](const Call& c) {
                                return c.dims("low").size() == c.shape("x").size() &&
                                       c.dims("high").size() == c.shape("x").size();
                              })
                  .constraint("pad_c2", "no size becomes negative",
                              [](const Call& c) {
                                for (size_t a = 0; a < c.shape("x").size(); ++a) {
                                  if (!may_be_at_most(0, c.dims("low")[a] + c.shape("x")[a] + c.dims("high")[a])) return false;
                                }
                                return true;
                              })
                  .infer([](const Call& c) {
                    Type type = c.type("x");
                    for (size_t a = 0; a < type.shape.size(); ++a)
                      type.shape[a] = c.dims("low")[a] + type.shape[a] + c.dims("high")[a];
                    return type;
                  })
                  .aligned([](const AlignedCall& c) -> std::optional<Alignment> {
                    Ints padded;
                    for (size_t a = 0; a < c.rank(); ++a) {
                      if (c.call.dims("low")[a] != Dim(0) || c.call.dims("high")[a] != Dim(0))
                        padded.push_back(static_cast<int64_t>(a));
                    }
                    return c.all_but(padded);
                  })
                  .evaluator([](const Evaluation& ev) {
                    const Array& x = ev.array("x");
                    const Sizes low = ev.sizes("low"), high = ev.sizes("high");
                    Sizes shape, kept;
                    for (size_t a = 0; a < low.size(); ++a) {
                      const int64_t size = x.shape()[a];
                      if (low[a] + size + high[a] < 0)
                        wrong_sizes(ev, "padding crops more than axis " + std::to_string(a) + " has",
                                    "at most " + std::to_string(size), std::to_string(-low[a] - high[a]));
                      shape.push_back(low[a] + size + high[a]);
                      kept.push_back(std::max<int64_t>(0, size + std::min<int64_t>(0, low[a]) + std::min<int64_t>(0, high[a])));
                    }
                    Array out = strided_copy(Array::scalar(ev.out_dtype(), ev.scalar("value")), shape, Sizes(shape.size(), 0));
                    const Sizes from = row_major_strides(x.shape()), to = row_major_strides(shape);
                    int64_t from_offset = 0, to_offset = 0;
                    for (size_t a = 0; a < low.size(); ++a)
                      (low[a] < 0 ? from_offset : to_offset) += low[a] < 0 ? -low[a] * from[a] : low[a] * to[a];
                    copy_strided(x, from_offset, from, out, to_offset, to, kept);
                    return out;
                  })
                  .rearrangement()
                  .spelled_torch("padded({x}, {low}, {high}, {value})")
                  .called("padding with a constant")
                  .mistakes(other_padding);
  pad_overloads(def);
  return def;
}

}  // namespace

std::vector<OpDef> padding_ops() {
  OpDef padded = pad();
  padded.is_formula = true;
  return {padded, reflection_pad(), replication_pad(), circular_pad()};
}

}  // namespace pycandle
