// Losses that ask for a margin between what is right and what is wrong.
#include "ops/nn/loss_helpers.h"

namespace pycandle {
namespace {

OpDef margin_loss(const std::string& name, const char* text) {
  return functional(name)
      .doc(text)
      .attributes(attr<std::string>("reduction", std::string("mean")))
      .constraint(name + "_c1", "reduction is none, mean or sum", knows_reduction);
}

// Integers count as floats.
Values as_floats(AtenCall& a, const std::vector<Operand>& operands) {
  return promote_and_broadcast(a.b, operands, float_result(result_type(a.b, operands)));
}

// max(0, margin - gap)
ValueId shortfall(Builder& b, ValueId gap, double margin) { return b.maximum(b.sub(margin, gap), 0.0); }

bool same_type(const Call& c, std::initializer_list<const char*> names, unsigned kinds = floats) {
  const Type& first = c.type(*names.begin());
  return std::all_of(names.begin(), names.end(), [&](const char* name) {
    return is_one_of(c.type(name).dtype, kinds) && c.type(name).dtype == first.dtype && c.agree(c.shape(name), first.shape);
  });
}

// ---- two or three tensors

OpDef margin_ranking() {
  return margin_loss("margin_ranking_loss", "max(0, margin - target * (x1 - x2))")
      .operands("x1", "x2", "target")
      .attributes(attr<double>("margin", 0.0))
      .constraint("margin_ranking_loss_c2", "x1, x2 and target have one floating type",
                  [](const Call& c) { return same_type(c, {"x1", "x2", "target"}); })
      .infer([](const Call& c) { return Type{c.type("x1").dtype, c.string("reduction") == "none" ? c.shape("x1") : Shape{}}; })
      .decompose([](Builder& b, const Call& c) {
        const ValueId gap = b.sub(b.widened(c.value("x1")), b.widened(c.value("x2")));
        const ValueId error = shortfall(b, b.mul(gap, b.widened(c.value("target"))), c.number("margin"));
        return b.narrowed(reduced(b, c, error), c.type("x1").dtype);
      })
      .from_aten_call("aten.margin_ranking_loss.default",
                      [](AtenCall& a) {
                        Builder& b = a.b;
                        const std::vector<Operand> operands{a.operand("input1"), a.operand("input2"), a.operand("target")};
                        Values v = as_floats(a, operands);
                        if (is_integral(result_type(b, operands))) {  // torch multiplies them as they are, and they may wrap
                          const Values n = promote_and_broadcast(b, operands);
                          const ValueId gap = b.mul(b.neg(n[2]), b.sub(n[0], n[1]));
                          v = {b.neg(b.cast(gap, b.dtype(v[0]))), b.like(v[0], 0.0), b.like(v[0], 1.0)};
                        }
                        return b.create_all("margin_ranking_loss", v,
                                            {{"reduction", reduction_of(a)}, {"margin", a.number("margin")}});
                      })
      .sample("F.margin_ranking_loss(t(5), t(5), t(5).sign(), 0.3)")
      .sample("F.margin_ranking_loss(i(5), i(5), i(5), 0.3)")
      .sample("F.margin_ranking_loss(i(5).to(torch.uint8), i(5).to(torch.uint8), i(5).to(torch.uint8), 0.3)")
      .sample("F.margin_ranking_loss(t(5, 3), t(1, 3), t(5, 1).sign(), reduction='none')");
}

// From x1 · x2, x1 · x1 and x2 · x2.
ValueId cosine_loss(Builder& b, ValueId product, ValueId square1, ValueId square2, ValueId target, double margin) {
  constexpr double kEpsilon = 1e-12;
  const ValueId size = b.sqrt(b.mul(b.add(square1, kEpsilon), b.add(square2, kEpsilon)));
  const ValueId cosine = b.div(product, size), zero = b.full(0.0, b.dtype(product));
  // -1 as the target's dtype has it: a u8 of 255 is one.
  const auto is = [&](int64_t n) { return b.compare("eq", target, b.cast(b.full(n, DType::i64), b.dtype(target))); };
  const ValueId near = b.select(is(1), b.sub(1.0, cosine), zero);
  const ValueId far = b.select(is(-1), b.maximum(b.sub(cosine, margin), 0.0), zero);
  return b.add(near, far);
}

OpDef cosine_embedding() {
  return margin_loss("cosine_embedding_loss", "1 - cos(x1, x2) where target is 1, max(0, cos - margin) where it is -1")
      .operands("x1", "x2", "target")
      .attributes(attr<double>("margin", 0.0))
      .constraint("cosine_embedding_loss_c2",
                  "x1 and x2 are vectors, or matrices of them, of one floating type; target has an entry each",
                  [](const Call& c) {
                    return same_type(c, {"x1", "x2"}) && c.rank("x1") == c.rank("target") + 1 && c.rank("target") <= 1;
                  })
      .infer(
          [](const Call& c) { return Type{c.type("x1").dtype, c.string("reduction") == "none" ? c.shape("target") : Shape{}}; })
      .decompose([](Builder& b, const Call& c) {
        const ValueId x1 = b.widened(c.value("x1")), x2 = b.widened(c.value("x2"));
        const auto dot = [&](ValueId p, ValueId q) { return b.sum(b.mul(p, q), {-1}, false); };
        const ValueId loss = cosine_loss(b, dot(x1, x2), dot(x1, x1), dot(x2, x2), c.value("target"), c.number("margin"));
        return b.narrowed(reduced(b, c, loss), c.type("x1").dtype);
      })
      .from_aten_call("aten.cosine_embedding_loss.default",
                      [](AtenCall& a) {
                        Builder& b = a.b;
                        const std::vector<Operand> operands{a.operand("input1"), a.operand("input2")};
                        const ValueId target = a.tensor("target");
                        const Attribute reduction = reduction_of(a);
                        const double margin = a.number("margin");
                        Values v = as_floats(a, operands);
                        v.push_back(target);
                        const DType dtype = result_type(b, operands);
                        if (is_inexact(dtype))
                          return b.create_all("cosine_embedding_loss", v, {{"reduction", reduction}, {"margin", margin}});
                        // torch multiplies integers as they are, and they may wrap.
                        a.expects(b.rank(v[0]) == b.rank(target) + 1 && b.rank(target) <= 1,
                                  "vectors, or matrices of them, and a target for each");
                        const Values n = promote_and_broadcast(b, operands, dtype == DType::boolean ? DType::u8 : dtype);
                        const auto dot = [&](ValueId p, ValueId q) {
                          return b.cast(b.sum(b.cast(b.mul(p, q), DType::i64), {-1}, false), b.dtype(v[0]));
                        };
                        const ValueId wrapped = cosine_loss(b, dot(n[0], n[1]), dot(n[0], n[0]), dot(n[1], n[1]), target, margin);
                        return Values{reduced(b, wrapped, std::get<std::string>(reduction))};
                      })
      .sample("F.cosine_embedding_loss(t(5, 3), t(5, 3), t(5).sign(), 0.2)")
      .sample("F.cosine_embedding_loss(t(3), t(3), torch.tensor(-1.0), reduction='none')")
      .sample("F.cosine_embedding_loss(i(5, 3), i(5, 3), torch.tensor([1, -1, 1, 0, -1]), 0.2)")
      .sample("F.cosine_embedding_loss(m(5, 3), m(5, 3), torch.tensor([1, -1, 1, 0, -1]), 0.2)")
      .sample("F.cosine_embedding_loss(t(5, 3), t(5, 3), torch.tensor([1, -1, 1, 0, -1]), reduction='sum')");
}

struct Triplet {
  double margin, p, eps;
  bool swap;
  // From the differences of anchor and positive, anchor and negative, positive and negative.
  ValueId loss(Builder& b, ValueId to_positive, ValueId to_negative, ValueId between) const {
    const auto length = [&](ValueId gap) {
      return b.create("vector_norm", {b.add(gap, eps)}, {{"axes", Ints{b.rank(gap) - 1}}, {"order", p}});
    };
    const ValueId near = length(to_positive);
    ValueId far = length(to_negative);
    if (swap) far = b.minimum(far, length(between));
    return shortfall(b, b.sub(far, near), margin);
  }
};

OpDef triplet_margin() {
  return margin_loss("triplet_margin_loss", "max(0, margin + |anchor - positive| - |anchor - negative|), distances of order p")
      .operands("anchor", "positive", "negative")
      .attributes(attr<double>("margin", 1.0), attr<double>("p", 2.0), attr<double>("eps", 1e-6), attr<bool>("swap", false))
      .constraint(
          "triplet_margin_loss_c2", "anchor, positive and negative have one floating or complex type, with an axis",
          [](const Call& c) { return same_type(c, {"anchor", "positive", "negative"}, inexact) && c.rank("anchor") >= 1; })
      .infer([](const Call& c) {
        Type y{real_of(c.type("anchor").dtype), c.shape("anchor")};
        y.shape.pop_back();
        if (c.string("reduction") != "none") y.shape.clear();
        return y;
      })
      .decompose([](Builder& b, const Call& c) {
        const ValueId anchor = b.widened(c.value("anchor")), positive = b.widened(c.value("positive")),
                      negative = b.widened(c.value("negative"));
        const Triplet t{c.number("margin"), c.number("p"), c.number("eps"), c.boolean("swap")};
        const ValueId loss = t.loss(b, b.sub(anchor, positive), b.sub(anchor, negative), b.sub(positive, negative));
        return b.narrowed(reduced(b, c, loss), real_of(c.type("anchor").dtype));
      })
      .from_aten_call("aten.triplet_margin_loss.default",
                      [](AtenCall& a) {
                        Builder& b = a.b;
                        const std::vector<Operand> operands{a.operand("anchor"), a.operand("positive"), a.operand("negative")};
                        const Triplet t{a.number("margin"), a.number("p"), a.number("eps"), a.boolean("swap")};
                        const Attribute reduction = reduction_of(a);
                        const Values v = as_floats(a, operands);
                        if (is_integral(result_type(b, operands)) && b.rank(v[0]) >= 1) {
                          // torch subtracts integers as they are, and they may wrap.
                          const Values n = promote_and_broadcast(b, operands);
                          const auto gap = [&](size_t i, size_t k) { return b.cast(b.sub(n[i], n[k]), b.dtype(v[0])); };
                          return Values{reduced(b, t.loss(b, gap(0, 1), gap(0, 2), gap(1, 2)), std::get<std::string>(reduction))};
                        }
                        return b.create_all(
                            "triplet_margin_loss", v,
                            {{"reduction", reduction}, {"margin", t.margin}, {"p", t.p}, {"eps", t.eps}, {"swap", t.swap}});
                      })
      .sample("F.triplet_margin_loss(t(5, 3), t(5, 3), t(5, 3))")
      .sample("F.triplet_margin_loss(t(5, 3), t(5, 3), t(5, 3), margin=0.5, p=3.0, swap=True, reduction='none')")
      .sample("F.triplet_margin_loss(t(3), t(3), t(3))")
      .sample("F.triplet_margin_loss(i(5, 3), i(5, 3), i(5, 3))")
      .sample(
          "F.triplet_margin_loss(t(5, 3, dtype=torch.complex64), t(5, 3, dtype=torch.complex64), t(5, 3, "
          "dtype=torch.complex64))");
}

// ---- scores of classes

// A row's targets: the classes listed before the first -1.
struct Targets {
  ValueId listed;     // [..., place]: does the place name a target?
  ValueId is_target;  // [..., class]
};
Targets targets_of(Builder& b, ValueId target) {
  const int64_t axis = b.rank(target) - 1;
  const ValueId ended = b.cast(b.compare("lt", target, 0.0), DType::i64);
  const ValueId listed = b.compare("eq", b.create("cumsum", {ended}, {{"axis", axis}}), 0.0);
  const ValueId names = b.compare("eq", b.unsqueeze(target, -1), b.iota(b.shape(target).back()));
  return {listed, b.reduce("reduce_or", b.logical_and(names, b.unsqueeze(listed, -1)), {axis}, false)};
}

OpDef multilabel_margin() {
  OpDef def = margin_loss("multilabel_margin_loss",
                          "the sum over targets and other classes of max(0, 1 - x[target] + x[other]), over the classes; a row's "
                          "targets end at the first -1");
  def.operands("x", "target")
      .constraint("multilabel_margin_loss_c2", "x is floating, [N, C] or [C], and target i64 of its shape",
                  [](const Call& c) {
                    return is_floating(c.type("x").dtype) && (c.rank("x") == 1 || c.rank("x") == 2) &&
                           c.type("target").dtype == DType::i64 && c.agree(c.shape("target"), c.shape("x"));
                  })
      .infer([](const Call& c) {
        Type y = c.type("x");
        y.shape.pop_back();
        if (c.string("reduction") != "none") y.shape.clear();
        return y;
      })
      .decompose([](Builder& b, const Call& c) {
        const ValueId x = b.widened(c.value("x")), target = c.value("target");
        const int64_t axis = b.rank(x) - 1;
        const Targets t = targets_of(b, target);
        // A class that is listed twice counts twice, so the sum runs over places.
        const ValueId safe = b.select(t.listed, target, b.full(int64_t{0}, DType::i64));
        const ValueId right = b.create("gather", {x, safe}, {{"axis", axis}});
        const ValueId error = shortfall(b, b.sub(b.unsqueeze(right, -1), b.unsqueeze(x, -2)), 1.0);  // [..., place, class]
        const ValueId counts = b.logical_and(b.unsqueeze(t.listed, -1), b.logical_not(b.unsqueeze(t.is_target, -2)));
        const ValueId total = b.sum(b.select(counts, error, b.full(0.0, b.dtype(x))), {axis, axis + 1}, false);
        const ValueId classes = b.dim_value(b.shape(x).back(), b.dtype(x));
        return b.narrowed(reduced(b, c, b.div(total, classes)), c.type("x").dtype);
      });
  const auto build = [](AtenCall& a) -> Values {
    Builder& b = a.b;
    ValueId x = a.tensor("self"), target = a.tensor("target");
    const Shape given = b.shape(x);
    if (b.rank(x) == 0) {
      x = b.reshape(x, {1});
      target = b.reshape(target, {1});
    }
    const ValueId y = b.create("multilabel_margin_loss", {x, target}, {{"reduction", reduction_of(a)}});
    Values results{b.reshape(y, a.result().shape)};
    if (a.result_count() > 1) results.push_back(b.reshape(b.cast(targets_of(b, target).is_target, b.dtype(x)), given));
    return results;
  };
  return def.from_aten_call("aten.multilabel_margin_loss.default", build)
      .from_aten_call("aten.multilabel_margin_loss_forward.default", build)
      .sample("F.multilabel_margin_loss(t(2, 4), torch.tensor([[3, 0, -1, 1], [1, 2, 3, 0]]))")
      .sample("F.multilabel_margin_loss(t(4), torch.tensor([3, 0, -1, 1]), reduction='sum')")
      .sample("F.multilabel_margin_loss(t(2, 4), torch.tensor([[-1, 0, -1, 1], [2, 1, -1, 0]]), reduction='none')");
}

}  // namespace

std::vector<OpDef> margin_loss_ops() { return {margin_ranking(), cosine_embedding(), triplet_margin(), multilabel_margin()}; }

}  // namespace pycandle
