// torch's two-operand arithmetic, comparisons and choices, with its promotion rules: what becomes which primitive.
#include <fmt/format.h>

#include "ir/mistakes.h"
#include "ops/core/aten_call.h"
#include "ops/core/mapping.h"

namespace pycandle {
namespace {

bool is_one(const Operand& o) {
  auto* number = std::get_if<Scalar>(&o);
  return number && as_complex(*number) == std::complex<double>(1.0);
}

// self + alpha * other and self - alpha * other. alpha takes the result's dtype; f16 and bf16 round once, at the end.
ValueId add_scaled(AtenCall& c, const char* op, const Operand& self, const Operand& other, const Operand& alpha) {
  Builder& b = c.b;
  if (is_one(alpha)) return arithmetic(b, op, self, other);
  DType common = result_type(b, {self, other});
  Values v = promote_and_broadcast(b, {self, other}, common);
  ValueId scaled = arithmetic(b, "mul", b.widened(v[1]), b.widened(materialise(b, alpha, common)));
  return b.narrowed(arithmetic(b, op, b.widened(v[0]), scaled), common);
}

OpDef add_sub(const char* op) {
  OpDef def = mapping(op);
  std::vector<std::string> names{op};
  if (names[0] == "sub") names.emplace_back("subtract");
  for (const std::string& name : names)
    for (const char* overload : {"Tensor", "Scalar"})
      def.from_aten_call("aten." + name + "." + overload, [op](AtenCall& c) -> Values {
        Operand self = c.operand("self"), other = c.operand("other"), alpha = c.operand("alpha");
        return {add_scaled(c, op, self, other, alpha)};
      });
  return def;
}

OpDef add() {
  return add_sub("add")
      .sample("torch.add(t(2, 3), t(3))")
      .sample("torch.add(t(2, 3), t(2, 1), alpha=0.3)")
      .sample("t(2, 3, dtype=torch.bfloat16) + 0.1")
      .sample("torch.add(t(5, dtype=torch.float16), t(5, dtype=torch.float16), alpha=0.1)")
      .sample("i(4, dtype=torch.int32) + i(4, dtype=torch.int64)")
      .sample("i(4) + 0.5")
      .sample("m(4) + m(4)")
      .sample("t() + t(2)")
      .sample("t(0, 3) + t(1, 3)")
      .sample("i(3, dtype=torch.uint8) + i(3, dtype=torch.int8)")
      .sample("torch.add(m(4), m(4), alpha=True)")
      .sample("torch.add(i(4), i(4), alpha=3)");
}

OpDef sub() {
  OpDef def = add_sub("sub");
  for (const char* overload : {"aten.rsub.Tensor", "aten.rsub.Scalar"})
    def.from_aten_call(overload, [](AtenCall& c) -> Values {
      Operand self = c.operand("self"), other = c.operand("other"), alpha = c.operand("alpha");
      return {add_scaled(c, "sub", other, self, alpha)};
    });
  return def.sample("torch.sub(t(2, 3), t(3), alpha=2)")
      .sample("1 - t(3, dtype=torch.bfloat16)")
      .sample("torch.rsub(t(3), 2.5, alpha=0.5)")
      .sample("i(3) - 0.5")
      .sample("i(2, 1) - i(3)");
}

OpDef mul() {
  return binary_mapping("mul", {"aten.mul.Tensor", "aten.mul.Scalar", "aten.multiply.Tensor", "aten.multiply.Scalar"})
      .sample("t(2, 3) * t(3)")
      .sample("t(64, dtype=torch.bfloat16) * 0.1")
      .sample("t(64, dtype=torch.float16) * torch.tensor(0.1)")
      .sample("torch.tensor(0.1) * t(64, dtype=torch.float16)")
      .sample("i(4) * 2.5")
      .sample("m(4) * m(4)")
      .sample("m(4) * 2")
      .sample("t(3) * i(3)")
      .sample("t(3, dtype=torch.complex64) * 1j");
}

ValueId divide(AtenCall& c, const std::optional<std::string>& rounding) {
  Operand self = c.operand("self"), other = c.operand("other");
  if (!rounding) return arithmetic(c.b, "div", self, other, float_result(result_type(c.b, {self, other})));
  if (*rounding == "floor") return arithmetic(c.b, "floor_divide", self, other);
  if (*rounding == "trunc") return arithmetic(c.b, "trunc_divide", self, other);
  c.unsupported("rounding_mode='" + *rounding + "'");
}

OpDef div() {
  OpDef def = mapping("div");
  for (const char* overload : {"aten.div.Tensor", "aten.div.Scalar", "aten.true_divide.Tensor", "aten.true_divide.Scalar",
                               "aten.divide.Tensor", "aten.divide.Scalar"})
    def.from_aten_call(overload, [](AtenCall& c) -> Values { return {divide(c, {})}; });
  for (const char* overload :
       {"aten.div.Tensor_mode", "aten.div.Scalar_mode", "aten.divide.Tensor_mode", "aten.divide.Scalar_mode"})
    def.from_aten_call(overload, [](AtenCall& c) -> Values { return {divide(c, c.maybe_string("rounding_mode"))}; });
  return def.sample("t(2, 3) / t(3)")
      .sample("i(4, low=1, high=9) / i(4, low=1, high=9)")
      .sample("i(4) / 2")
      .sample("m(4) / 2")
      .sample("t(64, dtype=torch.bfloat16) / 0.1")
      .sample("torch.div(t(9) * 9, t(9), rounding_mode='floor')")
      .sample("torch.div(t(9) * 9, t(9), rounding_mode='trunc')")
      .sample("torch.div(i(9, low=-20, high=20), 3, rounding_mode='trunc')")
      .sample("torch.div(i(9, low=-20, high=20), -3, rounding_mode='floor')")
      .sample("torch.div(t(9, dtype=torch.float16), 0.1, rounding_mode='trunc')")
      .sample("torch.div(t(9), t(9), rounding_mode=None)");
}

OpDef floor_divide() {
  return binary_mapping("floor_divide", {"aten.floor_divide.default", "aten.floor_divide.Scalar"})
      .sample("i(9, low=-20, high=20) // 3")
      .sample("i(9, low=-20, high=20) // i(9, low=1, high=5)")
      .sample("torch.floor_divide(t(9) * 5, 0.3)")
      .sample("torch.floor_divide(t(9, dtype=torch.bfloat16), 0.1)");
}

OpDef remainder() {
  return binary_mapping("remainder", {"aten.remainder.Tensor", "aten.remainder.Scalar", "aten.remainder.Scalar_Tensor"})
      .sample("torch.remainder(t(9) * 5, 1.5)")
      .sample("torch.remainder(i(9, low=-20, high=20), 3)")
      .sample("torch.remainder(i(9, low=-20, high=20), -3)")
      .sample("torch.remainder(t(9), t(9))");
}

OpDef fmod() {
  return binary_mapping("fmod", {"aten.fmod.Tensor", "aten.fmod.Scalar"})
      .sample("torch.fmod(t(9) * 5, 1.5)")
      .sample("torch.fmod(i(9, low=-20, high=20), 3)");
}

// Where the exponent is the number 0.5 or -0.5, torch takes the root in every dtype but f16. pow differs from it at -inf,
// which has no root, and at -0.0, which keeps its sign.
ValueId power(Builder& b, const Operand& self, const Operand& exponent, std::optional<DType> to = {}) {
  const DType common = to.value_or(result_type(b, {self, exponent}));
  const auto* number = std::get_if<Scalar>(&exponent);
  const std::complex<double> e = number ? as_complex(*number) : 0.0;
  if ((e == 0.5 || e == -0.5) && common != DType::f16) return b.unary(e == 0.5 ? "sqrt" : "rsqrt", materialise(b, self, common));
  return arithmetic(b, "pow", self, exponent, to);
}

OpDef pow() {
  OpDef def = mapping("pow");
  for (const char* overload : {"aten.pow.Tensor_Tensor", "aten.pow.Tensor_Scalar", "aten.pow.Scalar"})
    def.from_aten_call(overload, [](AtenCall& c) -> Values {
      Operand self = c.operand("self"), exponent = c.operand("exponent");
      return {power(c.b, self, exponent)};
    });
  for (const char* overload : {"aten.float_power.Tensor_Tensor", "aten.float_power.Tensor_Scalar", "aten.float_power.Scalar"})
    def.from_aten_call(overload, [](AtenCall& c) -> Values {
      Operand self = c.operand("self"), exponent = c.operand("exponent");
      bool complex_result = is_complex(result_type(c.b, {self, exponent}));
      return {power(c.b, self, exponent, complex_result ? DType::c128 : DType::f64)};
    });
  return def.sample("t(2, 3).abs() ** t(3)")
      .sample("t(4) ** 2")
      .sample("t(4).abs() ** 0.5")
      .sample("t(4) ** -1")
      .sample("i(4) ** 2")
      .sample("i(4) ** 2.0")
      .sample("2.0 ** i(4)")
      .sample("10000.0 ** t(4)")
      .sample("t(4, dtype=torch.bfloat16).abs() ** 0.1")
      .sample("torch.float_power(t(4).abs(), 1.5)")
      .sample("torch.float_power(i(4), 0.5)")
      .sample("1 / torch.tensor([-0.0, 4.0, float('-inf')]) ** 0.5")
      .sample("torch.tensor([-0.0, 4.0, float('-inf')], dtype=torch.float64) ** -0.5")
      .sample("1 / torch.tensor([-0.0, 4.0, float('-inf')], dtype=torch.bfloat16) ** 0.5")
      .sample("1 / torch.tensor([-0.0, 4.0, float('-inf')], dtype=torch.float16) ** 0.5")
      .sample("torch.tensor([-0.0, 4.0, float('-inf')], dtype=torch.float16) ** -0.5")
      .sample("1 / torch.tensor([-0.0, 4.0, float('-inf')]) ** torch.tensor(0.5)")
      .sample("torch.tensor([-0.0, 4.0, float('-inf')]) ** torch.tensor([-0.5])");
}

OpDef maximum() {
  return binary_mapping("maximum", {"aten.maximum.default", "aten.max.other"})
      .sample("torch.maximum(t(2, 3), t(3))")
      .sample("torch.maximum(i(3), t(3))")
      .sample("torch.maximum(m(3), m(3))")
      .sample("torch.maximum(torch.tensor([float('nan'), 1.0]), torch.tensor([1.0, float('nan')]))");
}

OpDef minimum() {
  return binary_mapping("minimum", {"aten.minimum.default", "aten.min.other"})
      .sample("torch.minimum(t(2, 3), t(3))")
      .sample("torch.min(i(3, dtype=torch.int32), i(3))");
}

OpDef fmax_fmin(const char* op) {
  std::string name = op;
  return binary_mapping(op, {"aten." + name + ".default"})
      .sample("torch." + name + "(torch.tensor([float('nan'), 1.0]), torch.tensor([1.0, float('nan')]))")
      .sample("torch." + name + "(i(3), t(3))");
}

OpDef atan2() {
  OpDef def = mapping("atan2");
  for (const char* overload : {"aten.atan2.default", "aten.arctan2.default"})
    def.from_aten_call(overload, [](AtenCall& c) -> Values {
      Operand self = c.operand("self"), other = c.operand("other");
      return {arithmetic(c.b, "atan2", self, other, float_result(result_type(c.b, {self, other})))};
    });
  return def.sample("torch.atan2(t(2, 3), t(3))").sample("torch.atan2(i(3), i(3))");
}

// Both sides take their common dtype first: x_bf16 < 0.1 compares with 0.1 rounded to bf16.
OpDef comparison(const char* op, const std::string& word) {
  std::string name = op;
  OpDef def = mapping(op);
  for (const std::string& spelling : {name, word})
    if (!spelling.empty()) add_binary(def, op, {"aten." + spelling + ".Tensor", "aten." + spelling + ".Scalar"});
  return def.sample("torch." + name + "(i(3, 4), i(4))")
      .sample("torch." + name + "(i(9), 2)")
      .sample("torch." + name + "(i(9), 2.5)")
      .sample("torch." + name + "(t(3), i(3, dtype=torch.int32))")
      .sample("torch." + name + "(t(64, dtype=torch.bfloat16), 0.1)")
      .sample("torch." + name + "(m(4), m(4))");
}

// Integers and bools; bool with an integer is an integer.
OpDef bitwise(const char* op, const std::string& dunder) {
  std::string name = op;
  OpDef def = binary_mapping(op, {"aten." + name + ".Tensor", "aten." + name + ".Scalar", "aten." + name + ".Scalar_Tensor"});
  add_binary(def, op, {"aten.__" + dunder + "__.Tensor", "aten.__" + dunder + "__.Scalar"});
  // logical_and(x, y) is (x != 0) & (y != 0).
  def.from_aten_call("aten.logical_" + dunder + ".default",
                     [op](AtenCall& c) -> Values {
                       Operand self = c.operand("self"), other = c.operand("other");
                       return {arithmetic(c.b, op, self, other, DType::boolean)};
                     })
      .sample("torch.logical_" + dunder + "(i(9, low=0, high=2), t(9))")
      .sample("torch.logical_" + dunder + "(m(2, 3), m(3))")
      .sample("m(4) " +
              std::string(dunder == "and"  ? "&"
                          : dunder == "or" ? "|"
                                           : "^") +
              " m(4)");
  return def.sample("torch." + name + "(i(9, low=0, high=6), i(9, low=0, high=6))")
      .sample("torch." + name + "(i(9, low=0, high=6, dtype=torch.int32), 3)");
}

OpDef shift(const char* op, const std::string& side, const std::string& dunder) {
  OpDef def = mapping(op);
  for (const char* overload : {"Tensor", "Scalar", "Tensor_Scalar", "Scalar_Tensor"}) {
    bool is_dunder = std::string(overload) == "Tensor" || std::string(overload) == "Scalar";
    if (is_dunder) add_binary(def, op, {"aten.__" + dunder + "__." + overload});
    if (std::string(overload) != "Scalar") add_binary(def, op, {"aten.bitwise_" + side + "_shift." + overload});
  }
  return def.sample("torch.bitwise_" + side + "_shift(i(9, low=0, high=60), i(9, low=0, high=3))")
      .sample("torch.bitwise_" + side + "_shift(i(9, low=-60, high=60, dtype=torch.int32), 2)");
}

OpDef bitwise_not() {
  return mapping("bitwise_not")
      .from_aten_call("aten.bitwise_not.default",
                      [](AtenCall& c) -> Values { return {c.b.unary("bitwise_not", c.tensor("self"))}; })
      .from_aten_call("aten.logical_not.default",
                      [](AtenCall& c) -> Values { return {c.b.logical_not(c.b.cast(c.tensor("self"), DType::boolean))}; })
      .sample("~m(4)")
      .sample("~i(4)")
      .sample("torch.logical_not(t(4).round())")
      .sample("torch.logical_not(i(4))");
}

// ---- choosing

OpDef where() {
  OpDef def = mapping("select");
  for (const char* overload : {"aten.where.self", "aten.where.ScalarSelf", "aten.where.ScalarOther", "aten.where.Scalar"})
    def.from_aten_call(overload, [](AtenCall& c) -> Values {
      ValueId condition = c.b.cast(c.tensor("condition"), DType::boolean);
      Operand self = c.operand("self"), other = c.operand("other");
      Values v = promote(c.b, {self, other});
      return {c.b.select(condition, v[0], v[1])};
    });
  for (const char* overload : {"aten.masked_fill.Scalar", "aten.masked_fill.Tensor"})
    def.from_aten_call(overload, [](AtenCall& c) -> Values {
      ValueId self = c.tensor("self"), mask = c.tensor("mask");
      Operand value = c.operand("value");
      c.expects(c.b.dtype(mask) == DType::boolean, "a mask of bools");
      if (auto* tensor = std::get_if<ValueId>(&value)) c.expects(c.b.rank(*tensor) == 0, "a number or a 0-d tensor");
      c.expects(is_complex(c.b.dtype(self)) || !is_complex(result_type(c.b, {value})), "a value that is real, as self is");
      return {c.b.select(mask, materialise(c.b, value, c.b.dtype(self)), self)};
    });
  return def.sample("torch.where(m(2, 3), t(2, 3), t(3))")
      .sample("torch.where(m(3), t(3), 0.5)")
      .sample("torch.where(m(3), 1, i(3, dtype=torch.int32))")
      .sample("torch.where(m(3), 1.0, 0.0)")
      .sample("torch.where(m(3), i(3), t(3))")
      .sample("torch.where(m(3), t(3, dtype=torch.bfloat16), float('-inf'))")
      .sample("t(2, 3).masked_fill(m(3), float('-inf'))")
      .sample("t(2, 3).masked_fill(m(2, 1), torch.tensor(2.0))")
      .sample("i(3).masked_fill(m(3), -100)");
}

// ---- bounds

ValueId within(Builder& b, ValueId x, const std::optional<Operand>& low, const std::optional<Operand>& high, DType common) {
  x = b.cast(x, common);
  if (low) x = arithmetic(b, "maximum", x, *low, common);
  if (high) x = arithmetic(b, "minimum", x, *high, common);
  return x;
}

std::optional<Operand> maybe_operand(AtenCall& c, const char* name) {
  if (!c.has_argument(name) || c.is_none(name)) return {};
  return c.operand(name);
}

Values build_clamp(AtenCall& c) {
  ValueId x = c.tensor("self");
  std::optional<Operand> low = maybe_operand(c, "min"), high = maybe_operand(c, "max");
  std::vector<Operand> all{x};
  bool only_numbers = true;
  for (auto& bound : {low, high})
    if (bound) {
      all.push_back(*bound);
      only_numbers = only_numbers && std::holds_alternative<Scalar>(*bound);
    }
  DType common = result_type(c.b, all);
  if (!only_numbers) return {within(c.b, x, low, high, common)};
  Attributes bounds;
  if (low) bounds.emplace_back("min", attribute(std::get<Scalar>(*low)));
  if (high) bounds.emplace_back("max", attribute(std::get<Scalar>(*high)));
  return {c.b.create("clamp", {c.b.cast(x, common)}, std::move(bounds))};
}

void other_bounds(Mistakes& m) {
  static const std::vector<double> kBounds{-100, -20, -10, -6, -5, -3, -2, -1, -0.5, -0.1, 0,
                                           0.1,  0.5, 1,   2,  3,  5,  6,  10, 20,   100};
  for (const std::string bound : {"min", "max"}) {
    if (!m.call().has(bound)) {
      m.number("clamp bound", bound, "a " + bound, kBounds, {0, 1, -1, 6});
      m.all().back().now = "no " + bound;
      continue;
    }
    const std::string now = fmt::format("a {} of {:.6g}", bound, as_double(m.call().scalar(bound)));
    // One that no value reaches could be any.
    m.attribute("clamp bound", bound, std::monostate(), now, bound == "min" ? "a lower one, or none" : "a higher one, or none");
    m.number("clamp bound", bound, "a " + bound, kBounds, {0, 1, -1, 6});
  }
}

OpDef clamp() {
  OpDef def = functional("clamp");
  def.doc("x, not below min and not above max (max wins when they cross); NaN stays NaN")
      .operands("x")
      .attributes(optional_attr<Scalar>("min"), optional_attr<Scalar>("max"))
      .infer([](const Call& c) { return c.type("x"); })
      .decompose([](Builder& b, const Call& c) {
        ValueId x = c.value("x");
        std::optional<Operand> low, high;
        if (c.has("min")) low = c.scalar("min");
        if (c.has("max")) high = c.scalar("max");
        return within(b, x, low, high, b.dtype(x));
      })
      .spelled_torch("torch.clamp({x}, {min}, {max})")
      .mistakes(other_bounds);
  def.is_formula = true;
  for (const char* overload :
       {"aten.clamp.default", "aten.clamp.Tensor", "aten.clip.default", "aten.clip.Tensor", "aten.clamp_min.default",
        "aten.clamp_min.Tensor", "aten.clamp_max.default", "aten.clamp_max.Tensor"})
    def.from_aten_call(overload, build_clamp);
  return def.sample("t(9).clamp(-0.5, 0.5)")
      .sample("t(9).clamp(min=0.1)")
      .sample("t(9, dtype=torch.bfloat16).clamp(max=0.1)")
      .sample("i(9, low=-9, high=9).clamp(0, 3)")
      .sample("i(9, low=-9, high=9).clamp(min=0.5)")
      .sample("t(9).clamp(0.5, -0.5)")
      .sample("torch.clamp(t(2, 3), t(3), t(2, 1))")
      .sample("torch.clamp(t(2, 3), max=t(3))")
      .sample("torch.clamp_min(t(3), 0.0)")
      .sample("torch.clamp_max(i(3), 2)")
      .sample("torch.tensor([float('nan'), 1.0]).clamp(0, 0.5)");
}

// ---- three operands; numbers stay unrounded and f16 and bf16 round once, at the end

OpDef addcmul() {
  // self + value * t1 * t2 and self + value * t1 / t2
  auto build = [](const char* op) {
    return [op](AtenCall& c) -> Values {
      Builder& b = c.b;
      Operand self = c.operand("self"), t1 = c.operand("tensor1"), t2 = c.operand("tensor2"), value = c.operand("value");
      DType common = result_type(b, {self, t1, t2});
      Values v = promote_and_broadcast(b, {self, t1, t2}, common);
      ValueId left = b.widened(v[1]);
      if (!is_one(value)) left = b.mul(left, materialise(b, value, b.dtype(left)));
      return {b.narrowed(b.add(b.widened(v[0]), b.binary(op, left, b.widened(v[2]))), common)};
    };
  };
  return mapping("add")
      .from_aten_call("aten.addcmul.default", build("mul"))
      .from_aten_call("aten.addcdiv.default", build("div"))
      .sample("torch.addcmul(t(2, 3), t(3), t(2, 1), value=0.3)")
      .sample("torch.addcmul(t(3, dtype=torch.bfloat16), t(3, dtype=torch.bfloat16), t(3, dtype=torch.bfloat16), value=0.1)")
      .sample("torch.addcdiv(t(2, 3), t(3), t(2, 1).abs() + 1, value=0.3)");
}

OpDef lerp() {
  OpDef def = mapping("add");
  for (const char* overload : {"aten.lerp.Scalar", "aten.lerp.Tensor"})
    def.from_aten_call(overload, [](AtenCall& c) -> Values {
      Builder& b = c.b;
      Operand weight = c.operand("weight");
      Values v = promote_and_broadcast(b, {c.operand("self"), c.operand("end")});
      DType common = b.dtype(v[0]);
      ValueId start = b.widened(v[0]), end = b.widened(v[1]);
      ValueId w = materialise(b, weight, b.dtype(start));
      ValueId span = b.sub(end, start);
      ValueId from_start = b.add(start, b.mul(w, span));
      ValueId from_end = b.sub(end, b.mul(span, b.sub(1.0, w)));
      // The form that is exact at the nearer end.
      ValueId near_start = b.compare("lt", b.abs(w), 0.5);
      return {b.narrowed(b.select(near_start, from_start, from_end), common)};
    });
  return def.sample("torch.lerp(t(2, 3), t(2, 3), 0.3)")
      .sample("torch.lerp(t(2, 3), t(2, 3), 0.8)")
      .sample("torch.lerp(t(2, 3), t(2, 3), t(3))")
      .sample("torch.lerp(t(9, dtype=torch.bfloat16), t(9, dtype=torch.bfloat16), 0.1)");
}

}  // namespace

void add_binary(OpDef& def, const char* op, const std::vector<std::string>& overloads) {
  for (const std::string& overload : overloads)
    def.from_aten_call(overload, [op](AtenCall& c) -> Values {
      Operand self = c.operand("self"), other = c.operand("other");
      return {arithmetic(c.b, op, self, other)};
    });
}

OpDef binary_mapping(const char* op, const std::vector<std::string>& overloads) {
  OpDef def = mapping(op);
  add_binary(def, op, overloads);
  return def;
}

std::vector<OpDef> arithmetic_ops() {
  std::vector<OpDef> ops = {add(),     sub(),     mul(),   div(),   floor_divide(), remainder(), fmod(), pow(),
                            maximum(), minimum(), atan2(), where(), clamp(),        addcmul(),   lerp()};
  for (auto [op, word] : {std::pair{"eq", ""},
                          {"ne", "not_equal"},
                          {"lt", "less"},
                          {"le", "less_equal"},
                          {"gt", "greater"},
                          {"ge", "greater_equal"}})
    ops.push_back(comparison(op, word));
  ops.push_back(fmax_fmin("fmax"));
  ops.push_back(fmax_fmin("fmin"));
  ops.push_back(bitwise("bitwise_and", "and"));
  ops.push_back(bitwise("bitwise_or", "or"));
  ops.push_back(bitwise("bitwise_xor", "xor"));
  ops.push_back(bitwise_not());
  ops.push_back(shift("shift_left", "left", "lshift"));
  ops.push_back(shift("shift_right", "right", "rshift"));
  return ops;
}

}  // namespace pycandle
