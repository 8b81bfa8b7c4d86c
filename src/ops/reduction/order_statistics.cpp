// What a sort tells: medians, k-th values, the commonest value.
#include <fmt/format.h>

#include "ops/core/functional_helpers.h"

namespace pycandle {
namespace {

// An axis sorted, NaN last, and one element of it taken by its place (an i64 tensor with the axis kept at size 1).
struct Ordered {
  Builder& b;
  int64_t axis;
  ValueId values, indices;
  Ordered(Builder& builder, ValueId x, int64_t along) : b(builder), axis(along) {
    const Values sorted = b.create_all("sort", {x}, {{"axis", axis}});
    values = sorted[0];
    indices = sorted[1];
  }
  Dim size() const { return b.shape(values)[axis]; }
  Values at(ValueId place, bool keep) const {
    Values both;
    for (ValueId sorted : {values, indices}) {
      const ValueId taken = b.create("gather", {sorted, place}, {{"axis", axis}});
      both.push_back(keep ? taken : b.squeeze(taken, axis));
    }
    return both;
  }
  Shape one() const {
    Shape shape = b.shape(values);
    shape[axis] = 1;
    return shape;
  }
  ValueId everywhere(Dim place) const { return b.broadcast_to(b.dim_value(place), one()); }
};

// ---- medians: of an even number the lower one

ValueId median_place(const Ordered& o, bool ignores_nan) {
  Builder& b = o.b;
  if (!is_floating(b.dtype(o.values))) return o.everywhere(floordiv(o.size() - 1, 2));
  const ValueId nans = b.sum(b.cast(b.unary("isnan", o.values), DType::i64), {o.axis});
  const ValueId numbers = b.sub(b.dim_value(o.size()), nans);
  const ValueId zero = b.full(int64_t{0}, DType::i64), two = b.full(int64_t{2}, DType::i64);
  const ValueId middle = b.binary("floor_divide", b.maximum(b.sub(numbers, 1.0), 0.0), two);
  // The first NaN stands right behind the numbers.
  return ignores_nan ? middle : b.select(b.compare("gt", nans, zero), numbers, middle);
}

Values median(Builder& b, ValueId x, int64_t axis, bool keep, bool ignores_nan) {
  const Ordered o(b, x, axis);
  return o.at(median_place(o, ignores_nan), keep);
}

OpDef medians() {
  OpDef def = mapping("sort");
  for (const char* name : {"median", "nanmedian"}) {
    const bool ignores_nan = std::string(name) == "nanmedian";
    def.from_aten_call(fmt::format("aten.{}.default", name), [ignores_nan](AtenCall& c) -> Values {
      const ValueId x = c.tensor("self");
      const Dim count = product(c.b.shape(x));
      if (count == Dim(0)) {
        if (!is_floating(c.b.dtype(x))) c.unsupported("no element");
        return {c.b.full(std::numeric_limits<double>::quiet_NaN(), c.b.dtype(x))};
      }
      return {median(c.b, c.b.reshape(x, {count}), 0, false, ignores_nan)[0]};
    });
    def.from_aten_call(fmt::format("aten.{}.dim", name), [ignores_nan](AtenCall& c) -> Values {
      const ValueId x = c.tensor("self");
      const int64_t axis = c.b.normal_axis(c.integer("dim"), std::max<int64_t>(c.b.rank(x), 1));
      const bool keep = c.boolean("keepdim");
      if (c.b.rank(x) == 0) return {x, c.b.full(int64_t{0}, DType::i64)};
      return median(c.b, x, axis, keep, ignores_nan);
    });
    def.sample(fmt::format("t(3, 5).{}()", name))
        .sample(fmt::format("t(3, 6).{}(1)", name))
        .sample(fmt::format("i(9, low=0, high=99).{}(0, keepdim=True)", name))
        .sample(fmt::format("torch.where(m(5, 9), t(5, 9), float('nan')).{}(0)", name))
        .sample(fmt::format("t().{}(0)", name));
  }
  return def;
}

OpDef kth_value() {
  return mapping("sort")
      .from_aten_call("aten.kthvalue.default",
                      [](AtenCall& c) -> Values {
                        const ValueId x = c.tensor("self");
                        const Dim k = c.dim("k");
                        const int64_t axis = c.b.normal_axis(c.integer("dim"), std::max<int64_t>(c.b.rank(x), 1));
                        const bool keep = c.boolean("keepdim");
                        const Dim size = c.b.rank(x) == 0 ? Dim(1) : c.b.shape(x)[axis];
                        if (!may_be_at_most(1, k) || !may_be_at_most(k, size))
                          throw Error(ErrorCode::bad_input, "there is no such element")
                              .expected("k from 1 to " + size.text())
                              .found(k.text());
                        if (c.b.rank(x) == 0) return {x, c.b.full(int64_t{0}, DType::i64)};
                        const Ordered o(c.b, x, axis);
                        return o.at(o.everywhere(k - 1), keep);
                      })
      .sample("torch.kthvalue(t(3, 5), 2)")
      .sample("torch.kthvalue(t(5, 3), 5, dim=0, keepdim=True)");
}

// The commonest value, of equally common ones the least, and where it stands last.
OpDef mode() {
  return mapping("sort")
      .from_aten_call("aten.mode.default",
                      [](AtenCall& c) -> Values {
                        Builder& b = c.b;
                        const ValueId x = c.tensor("self");
                        const int64_t axis = b.normal_axis(c.integer("dim"), std::max<int64_t>(b.rank(x), 1));
                        const bool keep = c.boolean("keepdim");
                        if (b.rank(x) == 0) return {x, b.full(int64_t{0}, DType::i64)};
                        const Ordered o(b, x, axis);
                        const ValueId same = b.compare("eq", b.unsqueeze(o.values, axis), b.unsqueeze(o.values, axis + 1));
                        const ValueId counts = b.sum(b.cast(same, DType::i64), {axis}, false);
                        const ValueId first = b.unsqueeze(b.create("argmax", {counts}, {{"axis", axis}}), axis);
                        const ValueId run = b.max(counts, {axis});
                        return o.at(b.sub(b.add(first, run), 1.0), keep);
                      })
      .sample("torch.mode(i(3, 9, low=0, high=3))")
      .sample("torch.mode(i(9, 3, low=0, high=3).float(), dim=0, keepdim=True)");
}

}  // namespace

std::vector<OpDef> order_statistics_ops() { return {medians(), kth_value(), mode()}; }

}  // namespace pycandle
