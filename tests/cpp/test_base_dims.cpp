#include <gtest/gtest.h>

#include <functional>
#include <random>
#include <thread>

#include "base/dim.h"
#include "base/error.h"

namespace pycandle {
namespace {

Dim parse(const char* text) { return Dim::parse(text); }

TEST(Dims, PrintAsTheManifestWritesThem) {
  for (const char* text :
       {"0", "-3", "s0", "-s0", "2*s0 + 1", "s0 - 1", "floordiv(s0 + 1, 2)", "mod(s0, 8)", "min(s0, 4)", "max(s0, s1)",
        "s0*s1 + s0 - s1 + 7", "s0*s0", "s2*s10", "2*floordiv(s0, 2)*mod(s1, 3)", "floordiv(s0, s1)", "-9223372036854775808",
        "s0 - 9223372036854775808", "s0 - 9223372036854775808*s1"}) {
    EXPECT_EQ(parse(text).text(), text);
    EXPECT_EQ(Dim::parse(parse(text).text()), parse(text));
  }
}

TEST(Dims, AreParsedWithPrecedenceSignsAndSpaces) {
  EXPECT_EQ(parse(" 2 *s0+ 3*4 ").text(), "2*s0 + 12");
  EXPECT_EQ(parse("-(s0 - 1)").text(), "-s0 + 1");
  EXPECT_EQ(parse("--3*-s0").text(), "-3*s0");
  EXPECT_EQ(parse("1 - 2 - 3").number(), -4);
  EXPECT_EQ(parse("(s0 + s1)*(s0 - s1)").text(), "s0*s0 - s1*s1");
  EXPECT_EQ(parse("min( 3,s0 ,s0+1, 2)").text(), "min(s0, 2)");
}

TEST(Dims, KeepDoubleArithmeticInItsOrder) {
  for (const char* text : {"floor(1.7*s0)",
                           "ceil(s0/1.5)",
                           "round(0.1*s0)",
                           "trunc(0.3*(-s0 + 3))",
                           "floor(s0/3.0 + 1.5)",
                           "floor(1.7*(s0 + 1))",
                           "floor(1.7*(2*s0))",
                           "floor(3*(0.1*s0))",
                           "floor(0.1*(s0*s1))",
                           "floor(1.0*s0/s1)",
                           "floor(s0/(s0/1.3 + 1))",
                           "floor(0.7*floor(1.7*s0))",
                           "2*floor(1.7*s0) + 1",
                           "floordiv(floor(1.7*s0) + 1, 2) - 2",
                           "floor(s0/1.3 - 1.7*s1)",
                           "floor(1e-05*s0)",
                           "max(floor(0.3*s0), 1)",
                           "floor(3.0/s0 + 0.5)",
                           "floor(s0/7.0 + (s0/3.0 + 0.5))",
                           "floor(-1*(s0/3.0))",
                           "floor(s1*(s0/3.0))"}) {
    EXPECT_EQ(parse(text).text(), text);
    EXPECT_EQ(Dim::parse(parse(text).text()), parse(text));
  }
  // The same IEEE operations, spelled differently.
  EXPECT_EQ(parse("floor(s0*1.7)"), parse("floor(1.7 * s0)"));
  EXPECT_EQ(parse("floor((1 + s0) * 1.7)"), parse("floor(1.7*(s0 + 1))"));
  EXPECT_EQ(parse("floor(s0*3.0)"), parse("3*s0"));
  EXPECT_EQ(parse("round(s0 + 1)"), parse("s0 + 1"));
  EXPECT_EQ(parse("floor(10*1.7)").number(), 17);
  // Others: sums and products of doubles are not associative.
  EXPECT_NE(parse("floor(3.3*(0.1*s0))"), parse("floor(0.33*s0)"));
  for (const char* text :
       {"floor(1.7*s0", "floor()", "1.7*s0", "floor(s0/0)", "s0/2", "floor(1e999*s0)", "floor(s0, 2)", "floor(.5*s0)"})
    EXPECT_THROW(parse(text), Error) << text;
}

TEST(Dims, RoundAsPythonDoes) {
  const auto at = [](const char* text, int64_t s0) { return parse(text).evaluate({{"s0", s0}}); };
  for (const int64_t n : {10, 20, 30, 40, 50, 1200}) {
    EXPECT_EQ(at("floor(1.7*s0)", n), static_cast<int64_t>(static_cast<double>(n) * 1.7));
    EXPECT_EQ(at("floor(1.7*s0)", n), n * 17 / 10);
  }
  EXPECT_EQ(at("floor(1.7*s0)", 1300), 2210);
  EXPECT_EQ(at("floor(0.3*s0)", 10), 3);
  EXPECT_EQ(at("floor(3*(0.1*s0))", 10), 3);
  EXPECT_EQ(at("floor(49*(s0/49.0))", 1), 0);  // 1/49*49 is less than 1
  EXPECT_EQ(at("round(0.5*s0)", 5), 2);        // halves to even
  EXPECT_EQ(at("round(0.5*s0)", 7), 4);
  EXPECT_EQ(at("trunc(0.5*(-s0))", 3), -1);
  EXPECT_EQ(at("floor(0.5*(-s0))", 3), -2);
  EXPECT_EQ(at("ceil(0.5*s0)", 3), 2);
  EXPECT_EQ(parse("floor(1.7*s0)").substitute({{"s0", Dim(10)}}).number(), 17);
  EXPECT_EQ(parse("floor(1.7*s0)").substitute({{"s0", parse("s1 + 1")}}).text(), "floor(1.7*(s1 + 1))");
  EXPECT_THROW(at("floor(1.7*s0)", int64_t{1} << 60), Error);
  EXPECT_THROW(at("floor(1e300*s0)", 2), Error);
  EXPECT_THROW(at("floor(1.0/s0)", 0), Error);
  std::vector<std::string> symbols;
  parse("floor(1.7*(s1 + s0))").collect_symbols(symbols);
  EXPECT_EQ(symbols.size(), 2u);
}

TEST(Dims, HaveBoundsWhereTheyAreRounded) {
  const SymbolRanges ranges{{"s0", {2, 10}}};
  EXPECT_EQ(at_most(1, parse("floor(0.7*s0)"), ranges), Tri::yes);
  EXPECT_EQ(at_most(parse("floor(0.7*s0)"), 7, ranges), Tri::yes);
  EXPECT_EQ(at_most(parse("floor(0.7*s0)"), 6, ranges), Tri::unknown);
  EXPECT_EQ(equal(parse("ceil(s0/1.7)"), 0, ranges), Tri::no);
  EXPECT_EQ(equal(parse("floor(1.7*s0)"), parse("floor(1.7*s0) + 1")), Tri::no);
  EXPECT_EQ(equal(parse("floor(1.7*s0)"), parse("floor(1.3*s0)")), Tri::unknown);
  EXPECT_EQ(equal(parse("floor(3.0/s0 + 0.5)"), 8, {{"s0", {1, std::nullopt}}}), Tri::no);
}

// Each line holds spellings of one dim: torch's, sympy's, and ours.
TEST(Dims, SpelledDifferentlyAreTheSame) {
  const std::vector<std::vector<const char*>> same = {
      {"floordiv(s0 + 2*3 - 7, 2) + 1", "floordiv(s0 - 1, 2) + 1", "floordiv(s0 + 1, 2)", "-floordiv(-s0, 2)",
       "floordiv(2*s0 + 3, 4)"},
      {"4*floordiv(s0, 4)", "floordiv(s0, 4)*4", "4*floordiv(2*s0, 8)", "4*floordiv(floordiv(s0, 2), 2)"},
      {"floordiv(floordiv(s0 - 1, 2), 2) + 1", "floordiv(s0 - 1, 4) + 1", "floordiv(s0 + 3, 4)",
       "floordiv(floordiv(s0 - 1, 2) + 2, 2)"},
      {"floordiv(6*s0*s1, 2*s0)", "3*s1"},
      {"floordiv(s0*s1*768, s1*64)", "12*s0", "floordiv(-12*s0*s1, -s1)"},
      {"floordiv(2*s0*s1 + 2*s0, s1 + 1)", "2*s0"},
      {"floordiv(s0, s0)", "1", "floordiv(s0 + s1, s1 + s0)"},
      {"floordiv(s0*s1 + s0, s1)", "s0 + floordiv(s0, s1)", "s0 + floordiv(2*s0, 2*s1)", "s0 + floordiv(s0*s2, s1*s2)"},
      {"floordiv(2*s0 - 4, 2) + 1", "s0 - 1"},
      {"floordiv(s0, 1)", "s0"},
      {"floordiv(s0, -2)", "floordiv(-s0, 2)"},
      {"mod(s0 + 8, 8)", "mod(s0, 8)", "mod(9*s0 - 16, 8)", "mod(mod(s0, 16), 8)", "-mod(-s0, -8)"},
      {"mod(4*s0 + 6, 8)", "4*mod(s0 + 1, 2) + 2"},
      {"mod(s0*s1, s1)", "0", "mod(8*s0, 4)", "mod(s0, 1)"},
      {"max(s0, s1, 3)", "max(3, max(s1, s0))", "max(s0 - 1, max(s1, 3), s0, 2)"},
      {"min(s0, s0 + 4)", "s0", "min(s0, s0)"},
      {"min(3, 5)", "3"},
      {"floordiv(-7, 2)", "-4", "floordiv(7, -2)"},
      {"mod(-7, 2)", "1"},
      {"s0 + s1 + s0", "s1 + 2*s0"},
      {"(s0 + 1)*(s0 + 1) - s0*s0", "2*s0 + 1"},
  };
  for (const auto& group : same)
    for (const char* text : group)
      EXPECT_EQ(parse(text), parse(group[0]))
          << text << " and " << group[0] << " give " << parse(text).text() << " and " << parse(group[0]).text();
}

TEST(Dims, ThatDifferAreDifferent) {
  EXPECT_NE(parse("floordiv(s0, 2)"), parse("floordiv(s0 + 1, 2)"));
  EXPECT_NE(parse("mod(s0, 8)"), parse("mod(s0, 4)"));
  EXPECT_NE(parse("min(s0, s1)"), parse("max(s0, s1)"));
  EXPECT_NE(parse("s0"), parse("s1"));
}

TEST(Dims, RefuseHostileTexts) {
  const std::string deep = std::string(65, '(') + "s0" + std::string(65, ')');
  const std::string wide = "s0" + std::string(4095, ' ');
  std::string bomb = "(a0 + b0)";  // 2^n terms
  for (int i = 1; i < 40; ++i) bomb += "*(a" + std::to_string(i) + " + b" + std::to_string(i) + ")";
  std::string power = "(s0 + s1 + s2)";
  for (int i = 0; i < 200; ++i) power += "*(s0 + s1 + s2)";
  std::string nested = "s0";
  for (int i = 0; i < 65; ++i) nested = "min(" + nested + ", s1)";
  for (const std::string& text : {std::string(),
                                  std::string("s0 +"),
                                  std::string("s0 s1"),
                                  std::string("s0**2"),
                                  std::string("s0/2"),
                                  std::string("2s0"),
                                  std::string("floordiv(s0)"),
                                  std::string("floordiv(s0, 2, 3)"),
                                  std::string("min(s0)"),
                                  std::string("floordiv"),
                                  std::string("ceil(s0, 2)"),
                                  std::string("ceildiv(s0, 2)"),
                                  std::string("(s0"),
                                  std::string("s0)"),
                                  std::string("1.5"),
                                  std::string("1e3"),
                                  std::string("nan"
                                              "(1)"),
                                  std::string("s0; s1"),
                                  std::string("s0\0", 3),
                                  std::string("é"),
                                  std::string("9223372036854775808"),
                                  std::string("-9223372036854775809"),
                                  std::string("9223372036854775807 + 1"),
                                  std::string("9223372036854775807*s0 + 9223372036854775807*s0"),
                                  std::string("3037000500*3037000500"),
                                  std::string("-(-9223372036854775808)"),
                                  std::string("floordiv(-9223372036854775808, -1)"),
                                  std::string("floordiv(s0, 0)"),
                                  std::string("mod(3, 0)"),
                                  std::string("floordiv(s0, s1 - s1)"),
                                  std::string(4097, '-') + "1",
                                  std::string(100000, '('),
                                  deep,
                                  wide,
                                  bomb,
                                  power,
                                  nested}) {
    try {
      const Dim d = Dim::parse(text);
      ADD_FAILURE() << text.substr(0, 100) << " was read as " << d.text();
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::bad_input) << text.substr(0, 100);
    }
  }
  EXPECT_EQ(Dim::parse(std::string(64, '(') + "s0" + std::string(64, ')')).text(), "s0");
}

TEST(Dims, TooLargeToPrintAreRefusedWhereTheyAreMade) {
  Dim d = Dim::symbol("s0");
  EXPECT_THROW(for (int i = 0; i < 100; ++i) d = min(d, Dim::symbol("s1")) * 2 + mod(d, 3), Error);
}

TEST(Dims, RefuseSymbolsThatCannotBeRead) {
  for (const char* name : {"", "2s", "a b", "s-0", "mod", "min", "s.0"}) EXPECT_THROW(Dim::symbol(name), Error) << name;
}

TEST(Dims, AreEvaluatedWithPythonsFloor) {
  const Bindings b = {{"s0", 7}, {"s1", -3}};
  EXPECT_EQ(parse("floordiv(s1, 2)").evaluate(b), -2);
  EXPECT_EQ(parse("floordiv(s0, s1)").evaluate(b), -3);
  EXPECT_EQ(parse("mod(s1, 5)").evaluate(b), 2);
  EXPECT_EQ(parse("mod(s0, s1)").evaluate(b), -2);
  EXPECT_EQ(parse("max(s0, s1, 2)*2").evaluate(b), 14);
  EXPECT_EQ(evaluate({Dim(2), parse("s0 + 1")}, b), (std::vector<int64_t>{2, 8}));
}

TEST(Dims, WithoutAValueOrThatOverflowAreErrorsWhenEvaluated) {
  EXPECT_THROW(parse("s0 + 1").evaluate({}), Error);
  EXPECT_THROW(parse("s0*s0").evaluate({{"s0", int64_t{1} << 40}}), Error);
  EXPECT_THROW(parse("s0 + 1").evaluate({{"s0", INT64_MAX}}), Error);
  EXPECT_THROW(parse("floordiv(4, s0)").evaluate({{"s0", 0}}), Error);
  EXPECT_THROW(parse("mod(4, s0)").evaluate({{"s0", 0}}), Error);
}

TEST(Dims, SubstituteAndFoldAgain) {
  EXPECT_EQ(parse("floordiv(s0 + s1, 2)").substitute({{"s0", parse("2*s2")}, {"s1", 4}}).text(), "s2 + 2");
  EXPECT_EQ(parse("min(s0, s1, 4)").substitute({{"s0", 3}}).text(), "min(s1, 3)");
  EXPECT_EQ(parse("s0*s0 + s1").substitute({{"s0", parse("s1")}, {"s1", parse("s0")}}).text(), "s1*s1 + s0");
}

TEST(Dims, NameTheirSymbolsInOrderOfAppearance) {
  std::vector<std::string> names = {"s9"};
  parse("s1*s0 + floordiv(s3, s2) + s9 + s0").collect_symbols(names);
  EXPECT_EQ(names, (std::vector<std::string>{"s9", "s0", "s1", "s3", "s2"}));
}

TEST(Dims, InShapesHaveProductsAndTexts) {
  const Shape shape = {Dim::symbol("s0"), 3, parse("s1 + 1")};
  EXPECT_EQ(to_string(shape), "[s0, 3, s1 + 1]");
  EXPECT_EQ(product(shape).text(), "3*s0*s1 + 3*s0");
  EXPECT_EQ(product({}).number(), 1);
  EXPECT_FALSE(all_numbers(shape));
  EXPECT_TRUE(all_numbers({1, 2}));
  EXPECT_EQ(ceildiv(Dim::symbol("s0"), 4).text(), "floordiv(s0 + 3, 4)");
  EXPECT_THROW(Dim::symbol("s0").number(), Error);
}

const SymbolRanges kRanges = {{"s0", {2, {}}}, {"s1", {1, 100}}, {"s2", {-5, 5}}};

TEST(DimProofs, KnowWhenDimsAreEqual) {
  EXPECT_EQ(equal(parse("s0"), parse("s0")), Tri::yes);
  EXPECT_EQ(equal(3, 4), Tri::no);
  EXPECT_EQ(equal(parse("s0"), parse("s0 + 1")), Tri::no);
  EXPECT_EQ(equal(parse("s0"), parse("s1")), Tri::unknown);
  EXPECT_EQ(equal(parse("s0"), 1), Tri::unknown);
  EXPECT_EQ(equal(parse("s0"), 1, kRanges), Tri::no);
  EXPECT_EQ(equal(parse("s1"), 101, kRanges), Tri::no);
  EXPECT_EQ(equal(parse("2*s0 + s1"), 4, kRanges), Tri::no);
  EXPECT_EQ(equal(parse("mod(s0, 8)"), 8), Tri::no);
  EXPECT_EQ(equal(parse("min(s0, s1)"), 101, kRanges), Tri::no);
  EXPECT_EQ(equal(parse("s3"), 7, {{"s3", {7, 7}}}), Tri::yes);
  // Not the same canonical form, but the same for every remainder.
  EXPECT_EQ(equal(parse("s0 - floordiv(s0, 2)"), parse("floordiv(s0 + 1, 2)")), Tri::yes);
  EXPECT_EQ(equal(parse("mod(s0, 8)"), parse("s0 - 8*floordiv(s0, 8)")), Tri::yes);
  EXPECT_EQ(equal(parse("floordiv(s0*s1 + s0*s1, 4)*2"), parse("s0*s1 - mod(s0*s1, 2)")), Tri::yes);
  EXPECT_EQ(equal(parse("mod(s0, 8)"), parse("s0 - 8*floordiv(s0, 9)")), Tri::unknown);
}

TEST(DimProofs, KnowWhichDimIsAtMostAnother) {
  EXPECT_EQ(at_most(parse("s0"), parse("s0 + 2")), Tri::yes);
  EXPECT_EQ(at_most(parse("s0 + 2"), parse("s0")), Tri::no);
  EXPECT_EQ(at_most(0, parse("s0")), Tri::yes);
  EXPECT_EQ(at_most(1, parse("s0")), Tri::unknown);
  EXPECT_EQ(at_most(1, parse("s0"), kRanges), Tri::yes);
  EXPECT_EQ(at_most(parse("s0"), 1, kRanges), Tri::no);
  EXPECT_EQ(at_most(parse("s0"), parse("s0*s1"), kRanges), Tri::yes);
  EXPECT_EQ(at_most(parse("floordiv(s0, 2)"), parse("s0")), Tri::yes);
  EXPECT_EQ(at_most(parse("4*floordiv(s0, 4)"), parse("s0")), Tri::yes);
  EXPECT_EQ(at_most(parse("s0"), parse("4*floordiv(s0, 4) + 3")), Tri::yes);
  EXPECT_EQ(at_most(parse("min(s0, s1)"), parse("s1")), Tri::yes);
  EXPECT_EQ(at_most(parse("s1"), parse("max(s0, s1)")), Tri::yes);
  EXPECT_EQ(at_most(parse("max(s0, 3)"), parse("s0 + 3")), Tri::yes);
  EXPECT_EQ(at_most(parse("floordiv(s0, s1)"), parse("s0"), kRanges), Tri::yes);
  EXPECT_EQ(at_most(parse("mod(s0, s1)"), 99, kRanges), Tri::yes);
  EXPECT_EQ(at_most(parse("s0"), parse("s1"), kRanges), Tri::unknown);
  EXPECT_EQ(at_most(parse("9223372036854775807*s0"), parse("-9223372036854775807*s0")), Tri::unknown);
}

// ---- canonical forms and proofs against plain arithmetic

struct DividedByZero {};

// An expression twice: as a dim, and as a function that computes it directly.
struct Expression {
  Dim dim;
  std::function<int64_t(const Bindings&)> value;
};

int64_t floor_of(int64_t a, int64_t b) {
  if (b == 0) throw DividedByZero{};
  const int64_t quotient = a / b;
  return quotient * b != a && (a < 0) != (b < 0) ? quotient - 1 : quotient;
}

class Generator {
 public:
  explicit Generator(unsigned seed) : random_(seed) {}
  int64_t integer(int64_t low, int64_t high) { return std::uniform_int_distribution<int64_t>(low, high)(random_); }

  Expression expression(int depth) {
    const int64_t kind = depth == 0 ? integer(0, 1) : integer(0, 8);
    if (kind == 0) {
      const int64_t c = integer(-9, 9);
      return {c, [c](const Bindings&) { return c; }};
    }
    if (kind == 1) {
      const std::string name = "s" + std::to_string(integer(0, 2));
      return {Dim::symbol(name), [name](const Bindings& b) { return b.at(name); }};
    }
    const Expression x = expression(depth - 1);
    Expression y = expression(depth - 1);
    // Most divisors are small positive numbers, as in real shapes.
    if ((kind == 5 || kind == 6) && integer(0, 3) != 0) {
      const int64_t c = integer(1, 6);
      y = {c, [c](const Bindings&) { return c; }};
    }
    const auto fx = x.value, fy = y.value;
    try {
      switch (kind) {
        case 2: return {x.dim + y.dim, [=](const Bindings& b) { return fx(b) + fy(b); }};
        case 3: return {x.dim - y.dim, [=](const Bindings& b) { return fx(b) - fy(b); }};
        case 4: return {x.dim * y.dim, [=](const Bindings& b) { return fx(b) * fy(b); }};
        case 5: return {floordiv(x.dim, y.dim), [=](const Bindings& b) { return floor_of(fx(b), fy(b)); }};
        case 6: return {mod(x.dim, y.dim), [=](const Bindings& b) { return fx(b) - fy(b) * floor_of(fx(b), fy(b)); }};
        case 7: return {min(x.dim, y.dim), [=](const Bindings& b) { return std::min(fx(b), fy(b)); }};
        default: return {max(x.dim, y.dim), [=](const Bindings& b) { return std::max(fx(b), fy(b)); }};
      }
    } catch (const Error&) {  // divided by the number zero, or grown too large
      return x;
    }
  }

 private:
  std::mt19937 random_;
};

TEST(Dims, MeanTheSameInCanonicalForm) {
  Generator random(7);
  int compared = 0, symbolic = 0;
  for (int i = 0; i < 6000; ++i) {
    const Expression e = random.expression(static_cast<int>(random.integer(1, 4)));
    symbolic += !e.dim.is_number();
    ASSERT_EQ(Dim::parse(e.dim.text()), e.dim) << e.dim.text();
    for (int j = 0; j < 6; ++j) {
      const Bindings b = {{"s0", random.integer(-12, 12)}, {"s1", random.integer(1, 20)}, {"s2", random.integer(0, 7)}};
      int64_t direct = 0;
      try {
        direct = e.value(b);
      } catch (const DividedByZero&) {
        continue;  // a factor that cancelled may have been zero
      }
      ASSERT_EQ(e.dim.evaluate(b), direct) << e.dim.text() << " at " << b.at("s0") << ", " << b.at("s1") << ", " << b.at("s2");
      ++compared;
    }
  }
  EXPECT_GT(compared, 20000);
  EXPECT_GT(symbolic, 3000);
}

TEST(DimProofs, AreNeverWrong) {
  Generator random(11);
  const SymbolRanges ranges = {{"s0", {-3, 9}}, {"s1", {2, {}}}};  // s2 ≥ 0
  int decided = 0;
  for (int i = 0; i < 3000; ++i) {
    const Expression x = random.expression(2);
    const Expression y = random.expression(2);
    const Tri same = equal(x.dim, y.dim, ranges);
    const Tri ordered = at_most(x.dim, y.dim, ranges);
    decided += same != Tri::unknown && !x.dim.is_number();
    for (int j = 0; j < 12; ++j) {
      const Bindings b = {
          {"s0", random.integer(-3, 9)}, {"s1", random.integer(2, j < 6 ? 4 : 60)}, {"s2", random.integer(0, j < 6 ? 2 : 60)}};
      try {
        const int64_t left = x.value(b), right = y.value(b);
        if (same != Tri::unknown) {
          ASSERT_EQ(left == right, same == Tri::yes) << x.dim.text() << " == " << y.dim.text();
        }
        if (ordered != Tri::unknown) {
          ASSERT_EQ(left <= right, ordered == Tri::yes) << x.dim.text() << " <= " << y.dim.text();
        }
      } catch (const DividedByZero&) {
      }
    }
  }
  EXPECT_GT(decided, 150);
}

TEST(Dims, MadeInSeveralThreadsAreTheSameObjects) {
  const auto make = [] {
    std::vector<Dim> out;
    for (int i = 0; i < 2000; ++i) out.push_back(floordiv(Dim::symbol("t" + std::to_string(i % 50)) * 3 + i, 7) + 100000 + i);
    return out;
  };
  std::vector<Dim> a, b;
  std::thread first([&] { a = make(); });
  std::thread second([&] { b = make(); });
  first.join();
  second.join();
  EXPECT_EQ(a, b);
}

}  // namespace
}  // namespace pycandle
