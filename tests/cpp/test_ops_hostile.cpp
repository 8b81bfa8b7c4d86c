// PTIR text comes from outside, so every op must answer to any operands and attributes whatsoever: it infers a type, or
// refuses with bad_input. It never crashes and never says internal.
#include <gtest/gtest.h>

#include <random>

#include "ir/builder.h"
#include "ir/verifier.h"
#include "ops/core/catalogue.h"
#include "roundtrip.h"

namespace pycandle {
namespace {

class Nonsense {
 public:
  explicit Nonsense(unsigned seed) : random_(seed) {}

  template <class T> T one_of(std::initializer_list<T> choices) { return *(choices.begin() + pick(choices.size())); }
  size_t pick(size_t count) { return std::uniform_int_distribution<size_t>(0, count - 1)(random_); }

  // Lists of one call mostly have one length, and numbers are mostly small, as convolutions need.
  void next_call() { usual_length_ = pick(4); }
  int64_t integer() {
    if (pick(4)) return one_of<int64_t>({0, 1, 1, 2});
    return one_of<int64_t>({0, 1, 2, 3, 4, -1, -2, -3, 5, 7, 64, INT64_MAX, INT64_MIN, int64_t{1} << 40});
  }
  double number() {
    return one_of(
        {0.0, 1.0, -1.0, 0.5, 1e300, std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity()});
  }
  Dim dim() {
    return pick(3) == 0 ? one_of({Dim::symbol("s0"), Dim::symbol("s1") + 1, floordiv(Dim::symbol("s0"), 2)}) : Dim(integer());
  }
  DType dtype() { return static_cast<DType>(pick(kDTypeCount)); }
  Type type() {
    // Mostly types that go together, or no op would ever get past its first constraint.
    Type result{pick(2) ? DType::f32 : dtype(), {}};
    for (size_t rank = pick(5); rank > 0; --rank) {
      result.shape.push_back(pick(4) == 0 ? Dim::symbol("s0") : Dim(one_of<int64_t>({0, 1, 2, 3, 3, 4, 4, 8})));
    }
    return result;
  }

  Attribute attribute(const AttrSpec& spec) {
    if (spec.optional && pick(3) == 0) return {};
    auto list = [&](auto item) {
      std::vector<decltype(item())> items(pick(4) ? usual_length_ : pick(5));
      for (auto& entry : items) entry = item();
      return items;
    };
    switch (spec.kind) {
      case AttrKind::boolean: return pick(2) == 0;
      case AttrKind::integer: return integer();
      case AttrKind::number: return number();
      case AttrKind::scalar: return one_of<Attribute>({true, integer(), number(), std::complex<double>(number(), 1)});
      case AttrKind::string:
        return one_of<std::string>({"", "mean", "none", "tanh", "ij,jk->ik", "...a,a", "sum", "nearest", "bilinear", "\xff"});
      case AttrKind::dtype: return dtype();
      case AttrKind::dim: return dim();
      case AttrKind::integers: return list([&] { return integer(); });
      case AttrKind::numbers: return list([&] { return number(); });
      case AttrKind::dims: return list([&] { return dim(); });
    }
    return {};
  }

  // A region that may or may not suit the op.
  Graph region() {
    Graph body;
    for (size_t count = pick(4); count > 0; --count) body.add_input(type());
    if (!body.inputs.empty()) {
      for (size_t count = pick(4); count > 0; --count) body.outputs.push_back(body.inputs[pick(body.inputs.size())]);
    }
    return body;
  }

 private:
  std::mt19937 random_;
  size_t usual_length_ = 0;
};

class HostileCalls : public testing::TestWithParam<std::string> {};

TEST_P(HostileCalls, are_inferred_or_refused) {
  const OpDef& op = catalogue().at(GetParam());
  Nonsense nonsense(7);
  int accepted = 0;
  for (int round = 0; round < 1000; ++round) {
    Program p;
    p.symbols = {{"s0", {1, {}}, 2, "", -1}, {"s1", {0, 9}, 2, "", -1}};
    nonsense.next_call();
    // Few types, so that operands often agree.
    Type shared = nonsense.type();
    Values operands;
    size_t count = op.fixed_operands() + (op.has_variadic() ? nonsense.pick(4) : 0);
    for (size_t i = 0; i < count; ++i) {
      bool absent = nonsense.pick(6) == 0;
      operands.push_back(absent ? kNoValue : p.graph.add_input(nonsense.pick(2) ? shared : nonsense.type()));
      if (!absent) p.inputs.push_back({"x" + std::to_string(i), operands.back(), {}, true});
    }
    Attributes attributes;
    for (const AttrSpec& spec : op.attr_specs) {
      if (!spec.default_value || nonsense.pick(2)) attributes.emplace_back(spec.name, nonsense.attribute(spec));
    }
    std::vector<Graph> regions;
    for (int i = 0; i < op.region_count; ++i) regions.push_back(nonsense.region());
    SymbolRanges ranges = p.ranges();
    Builder b(p.graph, catalogue(), &p.checks, &ranges);
    try {
      b.create_all(op.name, operands, attributes, regions);
      ++accepted;
    } catch (const Error& error) {
      Call call(op, p.graph, operands, attributes, regions);
      ASSERT_EQ(error.code(), ErrorCode::bad_input) << error.text() << "\n" << call.text();
      continue;
    }
    verify(p, "building");
    if (round < 100) expect_round_trip(p, catalogue());
    if (HasFailure()) return;
  }
  RecordProperty("accepted", accepted);
}

std::vector<std::string> op_names() {
  std::vector<std::string> names;
  for (const auto& op : catalogue().all()) names.push_back(op->name);
  return names;
}

INSTANTIATE_TEST_SUITE_P(Catalogue, HostileCalls, testing::ValuesIn(op_names()), [](const auto& test) {
  std::string name = test.param;
  for (char& c : name) c = c == '.' ? '_' : c;
  return name;
});

}  // namespace
}  // namespace pycandle
