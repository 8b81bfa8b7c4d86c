// torch's type promotion, as torch 2 answers it; each row was asked of torch.
#include <gtest/gtest.h>

#include "ops/core/catalogue.h"
#include "ops/core/promotion.h"

namespace pycandle {
namespace {

class Promotion : public ::testing::Test {
 protected:
  ValueId tensor(DType dtype, Shape shape = {3}) { return graph.add_input({dtype, std::move(shape)}); }
  DType of(std::vector<Operand> operands) { return result_type(b, operands); }
  size_t count(std::string_view op) const {
    size_t n = 0;
    for (const Node& node : graph.nodes) n += node.op->name == op;
    return n;
  }

  Graph graph;
  Builder b{graph, catalogue()};
};

const Scalar kTrue{true}, kTwo{int64_t{2}}, kHalf{0.5}, kI{std::complex<double>(0, 1)};

TEST_F(Promotion, tensors_of_different_dtypes_meet_in_the_lattice) {
  EXPECT_EQ(promote_types(DType::f16, DType::bf16), DType::f32);
  EXPECT_EQ(promote_types(DType::u8, DType::i8), DType::i16);
  EXPECT_EQ(promote_types(DType::u8, DType::i32), DType::i32);
  EXPECT_EQ(promote_types(DType::i64, DType::f16), DType::f16);
  EXPECT_EQ(promote_types(DType::f64, DType::c64), DType::c128);
  EXPECT_EQ(promote_types(DType::f16, DType::c64), DType::c64);
  EXPECT_EQ(promote_types(DType::boolean, DType::u8), DType::u8);
  EXPECT_EQ(promote_types(DType::f32, DType::f64), DType::f64);
  for (int x = 0; x < kDTypeCount; ++x) {
    for (int y = 0; y < kDTypeCount; ++y) {
      auto a = static_cast<DType>(x), c = static_cast<DType>(y);
      EXPECT_EQ(promote_types(a, c), promote_types(c, a)) << name_of(a) << " " << name_of(c);
    }
  }
}

TEST_F(Promotion, a_number_decides_the_kind_but_not_the_width) {
  EXPECT_EQ(of({tensor(DType::f16), kHalf}), DType::f16);
  EXPECT_EQ(of({tensor(DType::f64), kHalf}), DType::f64);
  EXPECT_EQ(of({tensor(DType::i32), kTwo}), DType::i32);
  EXPECT_EQ(of({tensor(DType::i32), kHalf}), DType::f32);
  EXPECT_EQ(of({tensor(DType::boolean), kTwo}), DType::i64);
  EXPECT_EQ(of({tensor(DType::boolean), kTrue}), DType::boolean);
  EXPECT_EQ(of({tensor(DType::u8), kTrue}), DType::u8);
  EXPECT_EQ(of({tensor(DType::f32), kI}), DType::c64);
  EXPECT_EQ(of({tensor(DType::f64), kI}), DType::c128);
  EXPECT_EQ(of({tensor(DType::i64), kI}), DType::c64);
}

TEST_F(Promotion, a_0d_tensor_stands_between_numbers_and_dimensioned_tensors) {
  EXPECT_EQ(of({tensor(DType::f16), tensor(DType::f64, {})}), DType::f16);
  EXPECT_EQ(of({tensor(DType::i32), tensor(DType::i64, {})}), DType::i32);
  EXPECT_EQ(of({tensor(DType::i32), tensor(DType::f64, {})}), DType::f64);
  EXPECT_EQ(of({tensor(DType::f16, {}), kHalf}), DType::f16);
  EXPECT_EQ(of({tensor(DType::i64, {}), kHalf}), DType::f32);
  EXPECT_EQ(of({tensor(DType::boolean), tensor(DType::u8, {})}), DType::u8);
  EXPECT_EQ(of({tensor(DType::f16, {0}), tensor(DType::f32, {})}), DType::f16);  // an empty tensor has a dimension
}

TEST_F(Promotion, a_symbolic_size_is_an_integer_number) {
  EXPECT_EQ(of({tensor(DType::f16), Dim::symbol("s0")}), DType::f16);
  EXPECT_EQ(of({tensor(DType::boolean), Dim::symbol("s0")}), DType::i64);
  EXPECT_EQ(of({kHalf, Dim::symbol("s0")}), DType::f32);
}

TEST_F(Promotion, shapes_broadcast_from_the_end_and_dtypes_agree_afterwards) {
  Dim s = Dim::symbol("s0");
  Values v = promote_and_broadcast(b, {tensor(DType::i64, {s, 1}), tensor(DType::f32, {4}), kTwo});
  for (ValueId x : v) EXPECT_EQ(b.type(x), (Type{DType::f32, {s, 4}}));
  EXPECT_THROW(promote_and_broadcast(b, {tensor(DType::f32, {3}), tensor(DType::f32, {4})}), Error);
}

TEST_F(Promotion, half_precision_multiplies_by_the_unrounded_number_but_adds_the_rounded_one) {
  ValueId x = tensor(DType::bf16);
  ValueId product = arithmetic(b, "mul", x, Scalar{0.1});
  EXPECT_EQ(b.dtype(product), DType::bf16);
  EXPECT_EQ(count("cast"), 2u) << "widened before, narrowed after";
  arithmetic(b, "add", x, Scalar{0.1});
  EXPECT_EQ(count("cast"), 2u) << "0.1 becomes a bf16 constant";
}

TEST_F(Promotion, a_number_that_bf16_holds_exactly_needs_no_widening) {
  arithmetic(b, "mul", tensor(DType::bf16), Scalar{0.5});
  arithmetic(b, "div", tensor(DType::f16), Scalar{int64_t{8}});
  EXPECT_EQ(count("cast"), 0u);
}

TEST_F(Promotion, only_the_second_factor_stays_unrounded) {
  ValueId scale = tensor(DType::f32, {}), x = tensor(DType::f16);
  arithmetic(b, "mul", scale, x);
  EXPECT_EQ(count("cast"), 1u) << "the first factor is rounded to f16";
  arithmetic(b, "mul", x, scale);
  EXPECT_EQ(count("cast"), 3u) << "x is widened and the product narrowed; the second factor is f32 already";
}

TEST_F(Promotion, bools_add_by_or_and_multiply_by_and) {
  ValueId x = tensor(DType::boolean), y = tensor(DType::boolean);
  arithmetic(b, "add", x, y);
  arithmetic(b, "mul", x, y);
  EXPECT_EQ(count("bitwise_or"), 1u);
  EXPECT_EQ(count("bitwise_and"), 1u);
}

TEST_F(Promotion, integers_divide_in_f32) {
  EXPECT_EQ(float_result(DType::i64), DType::f32);
  EXPECT_EQ(float_result(DType::boolean), DType::f32);
  EXPECT_EQ(float_result(DType::f16), DType::f16);
  EXPECT_EQ(float_result(DType::c128), DType::c128);
}

}  // namespace
}  // namespace pycandle
