// Tensors that come from no tensor.
#include <fmt/format.h>

#include <cmath>

#include "ops/core/aten_call.h"
#include "ops/core/constraints.h"

namespace pycandle {
namespace {

// ---- constants

DType dtype_or(AtenCall& c, DType otherwise) { return c.dtype("dtype").value_or(otherwise); }

// The value of *_like and new_* comes from `self`'s dtype and, for *_like, its shape.
enum class From { nothing, dtype, shape_and_dtype };

std::function<Values(AtenCall&)> filled(From from, std::optional<int64_t> fixed, const char* value_name) {
  return [=](AtenCall& c) -> Values {
    c.discard_placement();
    if (c.has_argument("names")) c.discard("names", "named tensors are gone from torch");
    std::optional<Operand> given;
    if (!fixed) given = c.operand(value_name);
    // full's own dtype is that of its number; the others' is f32.
    DType own = given ? result_type(c.b, {*given}) : DType::f32;
    Shape shape;
    if (from != From::nothing) {
      ValueId self = c.tensor("self");
      own = c.b.dtype(self);
      if (from == From::shape_and_dtype) shape = c.b.shape(self);
    }
    if (from != From::shape_and_dtype) shape = c.dims("size");
    DType dtype = dtype_or(c, own);
    if (given && !std::holds_alternative<Scalar>(*given)) return {c.b.broadcast_to(materialise(c.b, *given, dtype), shape)};
    Scalar value = given ? std::get<Scalar>(*given) : Scalar{*fixed};
    if (!is_inexact(dtype) && dtype != DType::boolean) value = as_int(value);
    return {c.b.full(value, dtype, shape)};
  };
}

OpDef constants() {
  OpDef def = mapping("constant");
  // An empty tensor's values are nobody's to rely on; zeros make runs repeatable.
  for (auto [name, value] : {std::pair<const char*, int64_t>{"zeros", 0}, {"ones", 1}, {"empty", 0}}) {
    bool is_empty = std::string_view(name) == "empty";
    def.from_aten_call(fmt::format("aten.{}.{}", name, is_empty ? "memory_format" : "default"), filled(From::nothing, value, ""));
    def.from_aten_call(fmt::format("aten.{}_like.default", name), filled(From::shape_and_dtype, value, ""));
    def.from_aten_call(fmt::format("aten.new_{}.default", name), filled(From::dtype, value, ""));
  }
  def.from_aten_call("aten.full.default", filled(From::nothing, {}, "fill_value"))
      .from_aten_call("aten.full_like.default", filled(From::shape_and_dtype, {}, "fill_value"))
      .from_aten_call("aten.new_full.default", filled(From::dtype, {}, "fill_value"));
  for (const char* name : {"empty_strided", "new_empty_strided", "empty_permuted"})
    def.from_aten_call(fmt::format("aten.{}.default", name), [](AtenCall& c) -> Values {
      c.discard_placement();
      DType own = c.has_argument("self") ? c.b.dtype(c.tensor("self")) : DType::f32;
      Shape shape = c.dims("size");
      // A layout in memory, not a value.
      bool permuted = c.has_argument("physical_layout");
      Ints layout = c.integers(permuted ? "physical_layout" : "stride");
      c.expects(layout.size() == shape.size() && (!permuted || are_axes(layout, static_cast<int64_t>(shape.size()))),
                "a stride for each axis, or every axis once");
      return {c.b.full(Scalar{int64_t{0}}, dtype_or(c, own), shape)};
    });
  def.from_aten_call("aten.scalar_tensor.default", [](AtenCall& c) -> Values {
    c.discard_placement();
    Operand value = c.operand("s");
    // Its dtype does not follow the number: f32 unless given.
    return {materialise(c.b, value, dtype_or(c, c.result().dtype))};
  });
  return def.sample("torch.zeros(2, 3) + t(2, 3)")
      .sample("torch.ones(2, 3, dtype=torch.int32) + i(2, 3)")
      .sample("torch.full((2, 3), 0.5) + t(3)")
      .sample("torch.full((2,), 3) + i(2)")
      .sample("torch.full((2,), True) & m(2)")
      .sample("torch.full((2,), 1, dtype=torch.float16) + t(2)")
      .sample("torch.zeros_like(t(2, 3))")
      .sample("torch.ones_like(i(2, 3), dtype=torch.float32)")
      .sample("torch.full_like(i(2), 2.7)")
      .sample("t(2).new_ones(3, 2)")
      .sample("i(2).new_zeros(0)")
      .sample("i(2).new_full((2,), 7)")
      .sample("torch.empty(2, 0)")
      .sample("torch.scalar_tensor(2) * t(3)");
}

// ---- counting

Values build_arange(AtenCall& c) {
  c.discard_placement();
  Operand start = c.has_argument("start") ? c.operand("start") : Operand{Scalar{int64_t{0}}};
  Operand end = c.operand("end");
  Operand step = c.has_argument("step") ? c.operand("step") : Operand{Scalar{int64_t{1}}};
  // Whole numbers written as floats count as integers, but make the result floating.
  bool floating = false;
  auto as_dim = [&floating](const Operand& o) -> std::optional<Dim> {
    if (auto* d = std::get_if<Dim>(&o)) return *d;
    const Scalar& s = std::get<Scalar>(o);
    if (std::holds_alternative<int64_t>(s)) return Dim(std::get<int64_t>(s));
    floating = true;
    double value = as_double(s);
    bool whole = std::holds_alternative<double>(s) && std::trunc(value) == value && std::abs(value) < 0x1p48;
    return whole ? std::optional<Dim>(Dim(static_cast<int64_t>(value))) : std::nullopt;
  };
  for (const Operand& o : {start, end, step})
    if (std::holds_alternative<ValueId>(o)) c.unsupported("a tensor as a bound");
  std::optional<Dim> first = as_dim(start), last = as_dim(end), by = as_dim(step);
  bool integers_only = first && last && by && by->is_number();
  DType dtype = dtype_or(c, floating ? DType::f32 : DType::i64);
  bool integral = is_integral(dtype);
  c.expects(!is_complex(dtype) && dtype != DType::boolean, "a dtype of real numbers");
  if (integers_only) {
    auto distance = (*last - *first).maybe_number();
    c.expects(by->number() != 0 && (!distance || *distance == 0 || (*distance > 0) == (by->number() > 0)),
              "a step that leads from start to end");
  }
  if (integers_only)
    return {c.b.create("arange", {}, {{"start", *first}, {"stop", *last}, {"step", by->number()}, {"dtype", dtype}})};
  // Numbers with fractions: counted and scaled in f64, rounded once, as torch does.
  for (const Operand& o : {start, end, step})
    if (!std::holds_alternative<Scalar>(o)) c.unsupported("sizes and fractions together");
  double from = as_double(std::get<Scalar>(start)), to = as_double(std::get<Scalar>(end)),
         width = as_double(std::get<Scalar>(step));
  // An integer dtype cuts the fractions of start and step; i64 counts with what is left, the others count before.
  const bool leads = to == from || (to > from) == (width > 0);
  double length = std::ceil((to - from) / width);
  if (integral) {
    from = std::trunc(from), width = std::trunc(width);
    if (dtype == DType::i64) length = std::ceil((std::trunc(to) - from) / width);
  }
  c.expects(width != 0 && leads, "a step that leads from start to end");
  if (!(length >= 0 && length < 0x1p48)) c.unsupported(fmt::format("the range {} to {} by {}", from, to, width));
  ValueId count = c.b.mul(c.b.iota(static_cast<int64_t>(length), DType::f64), width);
  return {c.b.cast(c.b.add(count, from), dtype)};
}

OpDef arange() {
  OpDef def = functional("arange");
  def.doc("start, start + step, …, before stop")
      .attributes(attr<Dim>("start", Dim(0)), attr<Dim>("stop"), attr<int64_t>("step", int64_t{1}),
                  attr<DType>("dtype", DType::i64))
      .constraint("arange_c1", "step is not 0, and at most 2^40 from it",
                  [](const Call& c) {
                    return c.integer("step") != 0 && c.integer("step") >= -(int64_t{1} << 40) &&
                           c.integer("step") <= int64_t{1} << 40;
                  })
      .constraint("arange_c2", "dtype is floating or an integer",
                  [](const Call& c) { return is_one_of(c.dtype("dtype"), reals); })
      .infer([](const Call& c) {
        int64_t step = c.integer("step");
        Dim length = step > 0 ? ceildiv(c.dim("stop") - c.dim("start"), step) : ceildiv(c.dim("start") - c.dim("stop"), -step);
        if (at_most(0, length) != Tri::yes) length = length.is_number() ? max(length, 0) : length;
        return Type{c.dtype("dtype"), {length}};
      })
      .decompose([](Builder& b, const Call& c) {
        // Counted in integers, so that a narrow dtype rounds only the results.
        Dim length = c.op().infer_types(c)[0].shape[0];
        bool plain = c.dim("start") == Dim(0) && c.integer("step") == 1;
        if (plain) return b.iota(length, c.dtype("dtype"));
        ValueId count = b.iota(length);
        if (c.integer("step") != 1) count = b.mul(count, b.dim_value(c.integer("step")));
        if (c.dim("start") != Dim(0)) count = b.add(count, b.dim_value(c.dim("start")));
        return b.cast(count, c.dtype("dtype"));
      })
      .spelled_torch("torch.arange({start}, {stop}, {step}, dtype={dtype})")
      .results({"positions"});
  for (const char* overload : {"aten.arange.default", "aten.arange.start", "aten.arange.start_step"})
    def.from_aten_call(overload, build_arange);
  return def.sample("torch.arange(5) + i(5)")
      .sample("torch.arange(2, 9) + i(7)")
      .sample("torch.arange(2, 9, 3) + i(3)")
      .sample("torch.arange(9, 2, -2) + i(4)")
      .sample("torch.arange(5, dtype=torch.float32) + t(5)")
      .sample("torch.arange(0, 1, 0.1) + t(10)")
      .sample("torch.arange(5.0) + t(5)")
      .sample("torch.arange(9, 2, -2.0, dtype=torch.int64) + i(4)")
      .sample("torch.arange(1, 2.5, 0.5) + t(3)")
      .sample("torch.arange(-0.9, 2.1, 2.0, dtype=torch.int64) + i(1)")
      .sample("torch.arange(-0.9, 2.1, 2.0, dtype=torch.int32) + i(2)")
      .sample("torch.arange(0) + i(0)")
      .sample("torch.arange(1.1, 1.1, -1.0, dtype=torch.int64) + i(0)")
      .sample("torch.arange(3, dtype=torch.bfloat16) + t(3)");
}

OpDef linspace() {
  OpDef def = functional("linspace");
  def.doc("steps numbers from start to end, both included, at equal distances")
      .attributes(attr<double>("start"), attr<double>("end"), attr<Dim>("steps"), attr<DType>("dtype", DType::f32))
      .infer([](const Call& c) { return Type{c.dtype("dtype"), {c.dim("steps")}}; })
      .decompose([](Builder& b, const Call& c) {
        double start = c.number("start"), end = c.number("end");
        Dim steps = c.dim("steps");
        if (steps == Dim(1) || steps == Dim(0)) return b.cast(b.full(start, DType::f64, {steps}), c.dtype("dtype"));
        // From the nearer end, so that both ends are exact.
        ValueId count = b.iota(steps, DType::f64);
        ValueId last = b.dim_value(steps - 1, DType::f64);
        ValueId width = b.div(b.full(end - start, DType::f64), last);
        ValueId from_start = b.add(b.mul(count, width), start);
        ValueId from_end = b.sub(end, b.mul(b.sub(last, count), width));
        ValueId first_half = b.compare("lt", count, b.dim_value(floordiv(steps, 2), DType::f64));
        return b.cast(b.select(first_half, from_start, from_end), c.dtype("dtype"));
      });
  return def
      .from_aten_call(
          "aten.linspace.default",
          [](AtenCall& c) -> Values {
            c.discard_placement();
            double start = c.number("start"), end = c.number("end");
            DType dtype = dtype_or(c, DType::f32);
            if (is_integral(dtype)) start = std::trunc(start), end = std::trunc(end);  // before they are divided
            return {c.b.create("linspace", {}, {{"start", start}, {"end", end}, {"steps", c.dim("steps")}, {"dtype", dtype}})};
          })
      .sample("torch.linspace(-1, 1, 7) + t(7, dtype=torch.float32)")
      .sample("torch.linspace(0.5, 3, 1) + t(1)")
      .sample("torch.linspace(4.3, 0, 9, dtype=torch.int64) + i(9)")
      .sample("torch.linspace(0, 10, 5, dtype=torch.float64) + t(5)")
      .sample("torch.linspace(0, 1, 0) + t(0)");
}

// The same between numbers that are data, in f64 or c128; from the nearer end, so that both are exact.
ValueId spaced(Builder& b, ValueId start, ValueId end, Dim steps) {
  const DType wide = b.dtype(start);
  if (steps == Dim(1) || steps == Dim(0)) return b.broadcast_to(start, {steps});
  const ValueId count = b.iota(steps, DType::f64), intervals = b.dim_value(steps - 1, DType::f64);
  const ValueId width = b.div(b.sub(end, start), b.cast(intervals, wide));
  const ValueId from_start = b.add(b.mul(b.cast(count, wide), width), start);
  const ValueId from_end = b.sub(end, b.mul(b.cast(b.sub(intervals, count), wide), width));
  const ValueId first_half = b.compare("lt", count, b.dim_value(floordiv(steps, 2), DType::f64));
  return b.select(first_half, from_start, from_end);
}

// start and end as the result's dtype has them, wide: torch takes the numbers so before it divides.
Values ends_of(AtenCall& c, DType dtype) {
  Values ends;
  for (const char* name : {"start", "end"}) {
    const ValueId number = materialise(c.b, c.operand(name), is_complex(dtype) ? DType::c128 : DType::f64);
    c.expects(c.b.rank(number) == 0, "to go from a number to a number");
    ends.push_back(is_integral(dtype) ? c.b.unary("trunc", number) : number);
  }
  return ends;
}

OpDef spaces_of_tensors() {
  OpDef def = mapping("iota");
  for (const char* overload : {"Tensor_Tensor", "Tensor_Scalar", "Scalar_Tensor"})
    def.from_aten_call(fmt::format("aten.linspace.{}", overload), [](AtenCall& c) -> Values {
      c.discard_placement();
      const DType dtype = dtype_or(c, DType::f32);
      const Values ends = ends_of(c, dtype);
      return {c.b.cast(spaced(c.b, ends[0], ends[1], c.dim("steps")), dtype)};
    });
  for (const char* overload : {"default", "Tensor_Tensor", "Tensor_Scalar", "Scalar_Tensor"})
    def.from_aten_call(fmt::format("aten.logspace.{}", overload), [](AtenCall& c) -> Values {
      c.discard_placement();
      const DType dtype = dtype_or(c, DType::f32);
      const Values ends = ends_of(c, dtype);
      const ValueId exponents = spaced(c.b, ends[0], ends[1], c.dim("steps"));
      return {c.b.cast(c.b.pow(c.b.full(c.number("base"), c.b.dtype(exponents)), exponents), dtype)};
    });
  return def.sample("torch.linspace(t(), t(), 5)")
      .sample("torch.linspace(t(), 2.0, 4)")
      .sample("torch.linspace(0, t(), 1)")
      .sample("torch.linspace(t() * 9, 30, 8, dtype=torch.int64)")
      .sample("torch.logspace(-1, 2, 5, base=2.0) + t(5)")
      .sample("torch.logspace(t(), 1.5, 4, dtype=torch.float64)");
}

OpDef eye() {
  OpDef def = functional("eye");
  def.doc("ones on the diagonal, zeros elsewhere")
      .attributes(attr<Dim>("rows"), attr<Dim>("columns"), attr<DType>("dtype", DType::f32))
      .infer([](const Call& c) { return Type{c.dtype("dtype"), {c.dim("rows"), c.dim("columns")}}; })
      .decompose([](Builder& b, const Call& c) {
        ValueId row = b.reshape(b.iota(c.dim("rows")), {c.dim("rows"), 1});
        ValueId column = b.reshape(b.iota(c.dim("columns")), {1, c.dim("columns")});
        return b.cast(b.compare("eq", row, column), c.dtype("dtype"));
      });
  for (const char* overload : {"aten.eye.default", "aten.eye.m"})
    def.from_aten_call(overload, [](AtenCall& c) -> Values {
      c.discard_placement();
      Dim rows = c.dim("n"), columns = c.has_argument("m") ? c.dim("m") : rows;
      return {c.b.create("eye", {}, {{"rows", rows}, {"columns", columns}, {"dtype", dtype_or(c, DType::f32)}})};
    });
  return def.sample("torch.eye(3) + t(3, 3)")
      .sample("torch.eye(2, 4, dtype=torch.int64) + i(2, 4)")
      .sample("torch.eye(3, dtype=torch.bool) & m(3, 3)");
}

// Row and column numbers of a triangle, as two rows of a matrix; sizes are fixed when the model is recorded.
OpDef triangle_indices() {
  OpDef def = mapping("concat");
  for (const char* name : {"tril_indices", "triu_indices"})
    def.from_aten_call(
        fmt::format("aten.{}.default", name), [lower = std::string_view(name) == "tril_indices"](AtenCall& c) -> Values {
          c.discard_placement();
          int64_t rows = c.integer("row"), columns = c.integer("col"), offset = c.integer("offset");
          DType dtype = dtype_or(c, DType::i64);
          if (rows > 4096) c.unsupported(fmt::format("{} rows", rows));
          Values row_numbers, column_numbers;
          for (int64_t r = 0; r < rows; ++r) {
            int64_t first = lower ? 0 : std::max<int64_t>(0, r + offset),
                    stop = lower ? std::min(columns, r + offset + 1) : columns;
            if (first >= stop) continue;
            row_numbers.push_back(c.b.full(Scalar{r}, dtype, {1, stop - first}));
            ValueId count = c.b.create("arange", {}, {{"start", Dim(first)}, {"stop", Dim(stop)}, {"dtype", dtype}});
            column_numbers.push_back(c.b.reshape(count, {1, stop - first}));
          }
          if (row_numbers.empty()) return {c.b.full(Scalar{int64_t{0}}, dtype, {2, 0})};
          ValueId top = c.b.concat(row_numbers, 1);
          return {c.b.concat({top, c.b.concat(column_numbers, 1)}, 0)};
        });
  return def.sample("torch.tril_indices(3, 4) + i(1)")
      .sample("torch.triu_indices(3, 4, offset=1) + i(1)")
      .sample("torch.tril_indices(3, 3, -1) + i(1)");
}

}  // namespace

std::vector<OpDef> factory_ops() { return {constants(), arange(), linspace(), spaces_of_tensors(), eye(), triangle_indices()}; }

}  // namespace pycandle
