// Tensors as collections: distinct elements, counts, membership. Sizes that the data decides bind a symbol.
#include <fmt/format.h>

#include <numeric>

#include "ops/core/evaluate.h"
#include "ops/core/functional_helpers.h"

namespace pycandle {
namespace {

// ---- distinct elements

// Rows of C numbers: x itself as a column, or its slices along an axis.
template <class C> struct Rows {
  std::vector<C> values;
  int64_t count, width;
  const C* row(int64_t i) const { return values.data() + i * width; }
  bool equal(int64_t a, int64_t b) const { return std::equal(row(a), row(a) + width, row(b)); }
  bool before(int64_t a, int64_t b) const {
    return std::lexicographical_compare(row(a), row(a) + width, row(b), row(b) + width, [](C p, C q) {
      if constexpr (std::is_same_v<C, Complex>)
        return p.real() < q.real() || (p.real() == q.real() && p.imag() < q.imag());
      else
        return p < q || (is_nan(q) && !is_nan(p));
    });
  }
};

OpDef unique() {
  return primitive("unique")
      .doc(
          "distinct elements (or slices along an axis) in order, or with consecutive runs of equal ones; the place of each "
          "element "
          "among them; how often each occurs. Their number binds the symbol `count`")
      .operands("x")
      .attributes(attr<Dim>("count"), optional_attr<int64_t>("axis"), attr<bool>("consecutive", false))
      .constraint("unique_c1", "axis is an axis of x",
                  [](const Call& c) { return !c.has("axis") || is_axis(c.integer("axis"), c.rank("x")); })
      .infer_all([](const Call& c) {
        Type values{c.type("x").dtype, {c.dim("count")}};
        Shape places = c.shape("x");
        if (c.has("axis")) {
          values.shape = c.shape("x");
          values.shape[c.integer("axis")] = c.dim("count");
          places = {c.shape("x")[c.integer("axis")]};
        }
        return std::vector<Type>{values, {DType::i64, places}, {DType::i64, {c.dim("count")}}};
      })
      .evaluator_all([](const Evaluation& ev) {
        const Array& x = ev.array("x");
        const bool whole = !ev.has("axis"), consecutive = ev.boolean("consecutive");
        Ints order = {0};
        Array rows = x.reshaped({x.size()});
        if (!whole) {  // the axis first
          order.assign(1, ev.integer("axis"));
          for (int64_t a = 0; a < x.rank(); ++a)
            if (a != order[0]) order.push_back(a);
          rows = transposed(x, order);
        }
        const int64_t count = rows.shape()[0], width = count == 0 ? 0 : rows.size() / count;
        return in_domain(x.dtype(), [&](auto zero) {
          using C = decltype(zero);
          const Rows<C> data{load_all<C>(rows), count, width};
          std::vector<int64_t> sequence(count), places(count), firsts, counts;
          std::iota(sequence.begin(), sequence.end(), 0);
          if (!consecutive)
            std::stable_sort(sequence.begin(), sequence.end(), [&](int64_t a, int64_t b) { return data.before(a, b); });
          for (size_t i = 0; i < sequence.size(); ++i) {
            if (i == 0 || !data.equal(sequence[i - 1], sequence[i])) {
              firsts.push_back(sequence[i]);
              counts.push_back(0);
            }
            ++counts.back();
            places[sequence[i]] = static_cast<int64_t>(firsts.size()) - 1;
          }
          Sizes shape = rows.shape();
          const int64_t found = static_cast<int64_t>(firsts.size());
          shape[0] = found;
          Array values(ev.out_dtype(0), shape);
          for (int64_t i = 0; i < found; ++i) store_chunk(values, i * width, width, data.row(firsts[i]));
          if (!whole) {
            Ints back(order.size());
            for (size_t i = 0; i < order.size(); ++i) back[order[i]] = static_cast<int64_t>(i);
            values = transposed(values, back);
          }
          return std::vector<Array>{values, store_all(DType::i64, whole ? x.shape() : Sizes{count}, places),
                                    store_all(DType::i64, {found}, counts)};
        });
      });
}

OpDef unique_spellings() {
  OpDef def = mapping("unique");
  for (const char* name : {"_unique2", "_unique", "unique_consecutive", "unique_dim", "unique_dim_consecutive"})
    def.from_aten_call(fmt::format("aten.{}.default", name),
                       [consecutive = std::string(name).ends_with("consecutive")](AtenCall& c) -> Values {
                         Builder& b = c.b;
                         const ValueId x = c.tensor("self");
                         if (c.has_argument("sorted")) c.discard("sorted", "they always are, as torch's on the CPU");
                         const bool inverse = c.boolean("return_inverse"),
                                    counted = c.has_argument("return_counts") && c.boolean("return_counts");
                         Attributes attributes{{"consecutive", consecutive}};
                         size_t place = 0;
                         if (c.has_argument("dim") && !c.is_none("dim")) {
                           const int64_t axis = b.normal_axis(c.integer("dim"), b.rank(x));
                           attributes.emplace_back("axis", axis);
                           place = axis;
                         }
                         attributes.emplace_back("count", c.result().shape.at(place));
                         Values results = b.create_all("unique", {x}, std::move(attributes));
                         // torch gives tensors of no element for what was not asked for.
                         if (!inverse) results[1] = b.full(int64_t{0}, DType::i64, {0});
                         if (!counted) results[2] = b.full(int64_t{0}, DType::i64, {0});
                         results.resize(std::min(results.size(), c.result_count()));
                         for (size_t i = 1; i < results.size(); ++i)  // some of torch's kernels fill them all the same
                           if (b.shape(results[i]) == Shape{0} && c.result(i).shape != Shape{0}) results[i] = kNoValue;
                         return results;
                       });
  return def;
}

// ---- counts

OpDef bincount() {
  return primitive("bincount")
      .doc(
          "how often (or with what total weight) each of 0, 1, … occurs in x, up to the largest or minlength; their number binds "
          "the "
          "symbol `count`")
      .operands("x", optional("weights"))
      .attributes(attr<Dim>("count"), attr<int64_t>("minlength", int64_t{0}))
      .constraint(
          "bincount_c1", "x is a vector of integers, weights a floating one of its length",
          [](const Call& c) {
            return c.rank("x") == 1 && is_integral(c.type("x").dtype) &&
                   (!c.has("weights") || (is_floating(c.type("weights").dtype) && c.agree(c.shape("weights"), c.shape("x"))));
          })
      .at_least([](const Call& c) { return c.integer("minlength"); })
      .infer([](const Call& c) { return Type{c.has("weights") ? c.type("weights").dtype : DType::i64, {c.dim("count")}}; })
      .rounds(Rounding::linear)
      .evaluator([](const Evaluation& ev) {
        const std::vector<int64_t> x = load_int(ev.array("x"));
        int64_t size = ev.integer("minlength");
        for (int64_t v : x) {
          if (v < 0 || v >= (int64_t{1} << 40))
            throw Error(ErrorCode::bad_input, "bincount cannot count this number")
                .op("bincount")
                .expected("0 or more")
                .found(std::to_string(v));
          size = std::max(size, v + 1);
        }
        const Array* weights = ev.maybe("weights");
        const std::vector<double> amounts = weights ? load_all<double>(*weights) : std::vector<double>(x.size(), 1.0);
        std::vector<double> sums(size);
        for (size_t i = 0; i < x.size(); ++i) sums[x[i]] += amounts[i];
        return store_all(ev.out_dtype(), {size}, sums);
      })
      .from_aten_call("aten.bincount.default", [](AtenCall& c) {
        auto weights = c.maybe_tensor("weights");
        if (weights && c.b.dtype(*weights) != DType::f32) weights = c.b.cast(*weights, DType::f64);
        return c.b.create_all("bincount", {c.tensor("self"), weights.value_or(kNoValue)},
                              {{"count", c.result().shape.at(0)}, {"minlength", c.integer("minlength")}});
      });
}

// ---- repetition

OpDef repeat_indices() {
  return primitive("repeat_indices")
      .doc(
          "each place of a vector of repeats as often as it says: [2, 0, 1] gives [0, 0, 2]; their number binds the symbol "
          "`count`")
      .operands("repeats")
      .attributes(attr<Dim>("count"))
      .constraint("repeat_indices_c1", "repeats are a vector of i64 or i32",
                  [](const Call& c) { return c.rank("repeats") == 1 && is_index(c.type("repeats").dtype); })
      .infer([](const Call& c) { return Type{DType::i64, {c.dim("count")}}; })
      .evaluator([](const Evaluation& ev) {
        const std::vector<int64_t> repeats = load_int(ev.array("repeats"));
        std::vector<int64_t> places;
        for (size_t i = 0; i < repeats.size(); ++i) {
          if (repeats[i] < 0 || repeats[i] > (int64_t{1} << 40))
            throw Error(ErrorCode::bad_input, "a repeat count is out of range")
                .op("repeat_indices")
                .expected("0 or more")
                .found(std::to_string(repeats[i]));
          places.insert(places.end(), repeats[i], static_cast<int64_t>(i));
        }
        const Attribute& given = ev.attribute("count");
        const Dim* expected = std::get_if<Dim>(&given);
        if (expected && expected->is_number() && expected->number() != static_cast<int64_t>(places.size()))
          throw Error(ErrorCode::bad_input, "the repeats do not add up to the size of the result")
              .op("repeat_indices")
              .expected(expected->text())
              .found(std::to_string(places.size()));
        return store_all(DType::i64, {static_cast<int64_t>(places.size())}, places);
      })
      .from_aten_call("aten.repeat_interleave.Tensor",
                      [](AtenCall& c) -> Values {
                        c.discard("output_size", "it is the size of the result, which is recorded");
                        const ValueId repeats = c.tensor("repeats");
                        const ValueId y = c.b.create("repeat_indices", {repeats}, {{"count", c.result().shape.at(0)}});
                        return {c.b.cast(y, c.b.dtype(repeats))};
                      })
      .from_aten_call("aten.repeat_interleave.self_Tensor",
                      [](AtenCall& c) -> Values {
                        Builder& b = c.b;
                        c.discard("output_size", "it is the size of the result, which is recorded");
                        ValueId x = c.tensor("self"), repeats = c.tensor("repeats");
                        int64_t axis = 0;
                        if (c.is_none("dim") || b.rank(x) == 0) {
                          if (!c.is_none("dim")) b.normal_axis(c.integer("dim"), 1);
                          x = b.reshape(x, {product(b.shape(x))});
                        } else {
                          axis = b.normal_axis(c.integer("dim"), b.rank(x));
                        }
                        const Dim size = b.shape(x)[axis];
                        if (b.rank(repeats) == 0) repeats = b.reshape(repeats, {1});
                        repeats = b.broadcast_to(repeats, {size});
                        const Dim count = c.result().shape.at(axis);
                        const ValueId places = b.create("repeat_indices", {repeats}, {{"count", count}});
                        return {b.create("take", {x, places}, {{"axis", axis}})};
                      })
      .sample("torch.repeat_interleave(t(3, 4), torch.tensor([1, 0, 2]) + i(3, low=0, high=0), dim=0, output_size=3)")
      .sample("torch.repeat_interleave(torch.tensor([1, 0, 2]) + i(3, low=0, high=0), output_size=3)");
}

// ---- membership

OpDef is_in() {
  OpDef def = mapping("reduce_or");
  for (auto [overload, left, right] : {std::tuple{"Tensor_Tensor", "elements", "test_elements"},
                                       {"Tensor_Scalar", "elements", "test_element"},
                                       {"Scalar_Tensor", "element", "test_elements"}})
    def.from_aten_call(fmt::format("aten.isin.{}", overload), [left = left, right = right](AtenCall& c) -> Values {
      Builder& b = c.b;
      c.discard("assume_unique", "only a hint");
      Values v = promote(b, {c.operand(left), c.operand(right)});
      const bool invert = c.boolean("invert");
      const ValueId tests = b.reshape(v[1], {product(b.shape(v[1]))});
      const ValueId found = b.reduce("reduce_or", b.compare("eq", b.unsqueeze(v[0], -1), tests), {-1}, false);
      return {invert ? b.logical_not(found) : found};
    });
  return def.sample("torch.isin(i(3, 4, low=0, high=5), torch.tensor([1, 3]))")
      .sample("torch.isin(i(9, low=0, high=5), 2, invert=True)")
      .sample("torch.isin(2, i(9, low=0, high=5))");
}

// ---- places where something is not zero

OpDef places() {
  OpDef def = mapping("nonzero");
  def.from_aten_call("aten.argwhere.default", [](AtenCall& c) -> Values {
    return {c.b.create("nonzero", {c.tensor("self")}, {{"count", c.result().shape.at(0)}})};
  });
  for (const char* overload : {"aten.nonzero_numpy.default", "aten.where.default"})
    def.from_aten_call(overload, [](AtenCall& c) {
      ValueId x = c.tensor(c.has_argument("self") ? "self" : "condition");
      if (c.b.rank(x) == 0) x = c.b.reshape(x, {1});
      const ValueId all = c.b.create("nonzero", {x}, {{"count", c.result().shape.at(0)}});
      Values columns;
      for (int64_t axis = 0; axis < c.b.rank(x); ++axis) columns.push_back(c.b.select_index(all, 1, axis));
      return columns;
    });
  return def;
}

// Every choice of r elements: the places of a grid with r axes where the numbers of the axes rise.
OpDef combinations() {
  return mapping("nonzero").from_aten_call("aten.combinations.default", [](AtenCall& c) -> Values {
    Builder& b = c.b;
    const ValueId x = c.tensor("self");
    const int64_t r = c.integer("r");
    const char* rises = c.boolean("with_replacement") ? "le" : "lt";
    c.expects(b.rank(x) == 1 && r >= 0, "a vector and r that is not negative");
    if (r == 0) return {b.full(int64_t{0}, b.dtype(x), {0})};
    const Dim n = b.shape(x)[0];
    const Shape grid(r, n);
    ValueId chosen = b.full(true, DType::boolean, grid);
    for (int64_t k = 0; k + 1 < r; ++k) {
      const ValueId here = b.broadcast(b.iota(n), grid, {k}), next = b.broadcast(b.iota(n), grid, {k + 1});
      chosen = b.logical_and(chosen, b.compare(rises, here, next));
    }
    const ValueId places = b.create("nonzero", {chosen}, {{"count", c.result().shape.at(0)}});
    return {b.create("take", {x, places}, {{"axis", int64_t{0}}})};
  });
}

// The first `size` of them, and fill_value where there are fewer: the n-th place that holds is written into row n.
OpDef static_places() {
  return mapping("scatter_nd")
      .from_aten_call("aten.nonzero_static.default",
                      [](AtenCall& c) -> Values {
                        Builder& b = c.b;
                        const ValueId x = c.tensor("self");
                        const Dim size = c.dim("size");
                        const int64_t rank = b.rank(x), fill = c.integer("fill_value");
                        const Shape shape = b.shape(x);
                        const Dim count = product(shape);
                        const ValueId holds = b.reshape(b.cast(x, DType::boolean), {count});
                        const ValueId number = b.create("cumsum", {b.cast(holds, DType::i64)}, {{"axis", int64_t{0}}});
                        const ValueId last = b.dim_value(size);  // a row too many takes all the rest
                        const ValueId row = b.select(holds, b.minimum(b.sub(number, 1.0), last), last);
                        Values columns;
                        for (int64_t axis = 0; axis < rank; ++axis)
                          columns.push_back(b.reshape(b.broadcast(b.iota(shape[axis]), shape, {axis}), {count, 1}));
                        const ValueId places = columns.empty() ? b.full(int64_t{0}, DType::i64, {count, 0})
                                                               : b.concat(columns, 1);
                        const ValueId empty = b.full(fill, DType::i64, {size + 1, rank});
                        const ValueId all = b.create("scatter_nd", {empty, places, row}, {{"axes", Ints{0}}});
                        return {b.slice(all, 0, 0, size)};
                      })
      .sample("torch.nonzero_static(m(3, 4), size=5)")
      .sample("torch.nonzero_static(i(9, low=0, high=1), size=12, fill_value=-7)");
}

}  // namespace

std::vector<OpDef> set_ops() {
  return {unique(), unique_spellings(), bincount(), repeat_indices(), is_in(), places(), combinations(), static_places()};
}

}  // namespace pycandle
