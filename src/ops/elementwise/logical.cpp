// Comparisons, and the choice between two values.
#include <fmt/format.h>

#include "ir/mistakes.h"
#include "ops/core/constraints.h"
#include "ops/core/evaluate.h"

namespace pycandle {

namespace {

template <class F> OpDef comparison(const char* name, unsigned kinds, const char* doc, F holds) {
  return binary_primitive(name, kinds, doc)
      .infer([](const Call& c) { return Type{DType::boolean, c.shape("a")}; })
      .evaluator([holds](const Evaluation& ev) {
        const Array &a = ev.array("a"), &b = ev.array("b");
        return in_domain(a.dtype(), [&](auto zero) {
          using C = decltype(zero);
          if constexpr (std::is_invocable_r_v<bool, F, C, C>) {
            return map_as<C>(ev, holds, a, b);
          } else {
            internal_error("complex numbers have no order");
            return Array();
          }
        });
      })
      .spelled_torch(fmt::format("torch.{}({{a}}, {{b}})", name))
      .pointwise();
}

// The other comparisons are what it is mistaken for.
OpDef compared(OpDef op, const char* symbol, const char* noun) {
  op.spelled_cpp(CppForm::Kind::infix, symbol).called(noun);
  std::vector<std::string> others;
  for (const char* other : {"lt", "le", "gt", "ge", "eq", "ne"}) {
    if (op.name != other) others.emplace_back(other);
  }
  return op.mistaken_for("comparison", others);
}

template <class T>
concept Ordered = !std::is_same_v<T, Complex>;

OpDef select() {
  return primitive("select")
      .doc("yes where the condition holds, no elsewhere")
      .operands("condition", "yes", "no")
      .constraint("select_c1", "condition is bool", [](const Call& c) { return c.type("condition").dtype == DType::boolean; })
      .constraint("select_c2", "yes and no have the same dtype",
                  [](const Call& c) { return c.type("yes").dtype == c.type("no").dtype; })
      .constraint("select_c3", "condition, yes and no have the same shape",
                  [](const Call& c) {
                    return may_equal(c.shape("condition"), c.shape("yes")) && may_equal(c.shape("yes"), c.shape("no"));
                  })
      .infer([](const Call& c) { return c.type("yes"); })
      .evaluator([](const Evaluation& ev) {
        const Array &condition = ev.array("condition"), &yes = ev.array("yes"), &no = ev.array("no");
        require_same_sizes(ev, condition, yes);
        require_same_sizes(ev, yes, no);
        Array out(ev.out_dtype(), yes.shape());
        with_element(out.dtype(), [&](auto element) {
          using T = decltype(element);
          const auto* holds = condition.as<uint8_t>();
          const T *a = stored<T>(yes), *b = stored<T>(no);
          T* result = mutable_stored<T>(out);
          for_chunks(out.size(), [&](int64_t first, int64_t count) {
            for (int64_t i = first; i < first + count; ++i) result[i] = holds[i] ? a[i] : b[i];
          });
        });
        return out;
      })
      .pointwise()
      .spelled_cpp(CppForm::Kind::free, "where")
      .spelled_torch("torch.where({condition}, {yes}, {no})")
      .results({"chosen"})
      .mistakes([](Mistakes& m) { m.swapped("mask sign", "yes", "no", "the mask", "the mask inverted"); });
}

}  // namespace

std::vector<OpDef> logical_ops() {
  return formulas({
      compared(comparison("eq", anything, "a == b; NaN equals nothing", [](auto a, auto b) { return a == b; }), "==", "equal")
          .commutative(),
      compared(comparison("ne", anything, "a != b", [](auto a, auto b) { return a != b; }), "!=", "not equal").commutative(),
      compared(comparison("lt", reals | booleans, "a < b", [](Ordered auto a, Ordered auto b) { return a < b; }), "<", "less"),
      compared(comparison("le", reals | booleans, "a <= b", [](Ordered auto a, Ordered auto b) { return a <= b; }),
               "<=", "less or equal"),
      compared(comparison("gt", reals | booleans, "a > b", [](Ordered auto a, Ordered auto b) { return a > b; }), ">", "greater"),
      compared(comparison("ge", reals | booleans, "a >= b", [](Ordered auto a, Ordered auto b) { return a >= b; }),
               ">=", "greater or equal"),
      select(),
  });
}

}  // namespace pycandle
