// Distances and similarities between vectors, and contractions over several axes.
#include <cmath>

#include "ops/core/functional_helpers.h"

namespace pycandle {
namespace {

// The p-norm over one axis, which is removed.
ValueId norm_over(Builder& b, ValueId x, double p, int64_t axis) {
  const ValueId size = b.abs(x);
  if (std::isinf(p)) return b.reduce(p > 0 ? "reduce_max" : "reduce_min", size, {axis}, false);
  if (p == 0) return b.sum(b.cast(b.compare("ne", size, 0.0), b.dtype(x)), {axis}, false);
  if (p == 1) return b.sum(size, {axis}, false);
  if (p == 2) return b.sqrt(b.sum(b.square(size), {axis}, false));
  return b.pow(b.sum(b.pow(size, p), {axis}, false), 1 / p);
}

Shape without(Shape shape, int64_t axis) {
  shape.erase(shape.begin() + axis);
  return shape;
}

OpDef cosine_similarity() {
  return functional("cosine_similarity")
      .doc("the cosine of the angle between vectors along one axis; lengths are at least eps")
      .operands("x1", "x2")
      .attributes(attr<int64_t>("dim", int64_t{1}), attr<double>("eps", 1e-8))
      .constraint("cosine_similarity_c1", "x1 and x2 are floating and have one type",
                  [](const Call& c) {
                    return is_floating(c.type("x1").dtype) && c.type("x1").dtype == c.type("x2").dtype &&
                           c.agree(c.shape("x1"), c.shape("x2"));
                  })
      .constraint("cosine_similarity_c2", "dim is an axis",
                  [](const Call& c) { return c.rank("x1") > 0 && axis_fits(c.integer("dim"), c.rank("x1")); })
      .infer(
          [](const Call& c) { return Type{c.type("x1").dtype, without(c.shape("x1"), axis_of(c.integer("dim"), c.rank("x1")))}; })
      .decompose([](Builder& b, const Call& c) {
        const int64_t axis = axis_of(c.integer("dim"), c.rank("x1"));
        const auto unit = [&](const char* name) {
          const ValueId x = b.widened(c.value(name));
          return b.div(x, b.maximum(b.unsqueeze(norm_over(b, x, 2, axis), axis), c.number("eps")));
        };
        return b.narrowed(b.sum(b.mul(unit("x1"), unit("x2")), {axis}, false), c.type("x1").dtype);
      })
      .from_aten_call("aten.cosine_similarity.default",
                      [](AtenCall& a) {
                        Values xs = promote_and_broadcast(a.b, {a.operand("x1"), a.operand("x2")});
                        if (a.b.rank(xs[0]) == 0)
                          for (ValueId& x : xs) x = a.b.reshape(x, {1});
                        return a.b.create_all("cosine_similarity", xs, {{"dim", a.integer("dim")}, {"eps", a.number("eps")}});
                      })
      .sample("F.cosine_similarity(t(3, 5), t(3, 5))")
      .sample("F.cosine_similarity(t(), t(), dim=0)")
      .sample("F.cosine_similarity(t(3, 5, 2), t(1, 5, 2), dim=-2, eps=0.5)");
}

OpDef pairwise_distance() {
  return functional("pairwise_distance")
      .doc("the p-norm of x1 - x2 + eps over the last axis")
      .operands("x1", "x2")
      .attributes(attr<double>("p", 2.0), attr<double>("eps", 1e-6), attr<bool>("keepdim", false))
      .constraint("pairwise_distance_c1", "x1 and x2 are floating or complex, have one type and an axis",
                  [](const Call& c) {
                    return is_inexact(c.type("x1").dtype) && c.type("x1").dtype == c.type("x2").dtype && c.rank("x1") > 0 &&
                           c.agree(c.shape("x1"), c.shape("x2"));
                  })
      .infer([](const Call& c) {
        Type y{real_of(c.type("x1").dtype), c.shape("x1")};
        y.shape.pop_back();
        if (c.boolean("keepdim")) y.shape.push_back(1);
        return y;
      })
      .decompose([](Builder& b, const Call& c) {
        const DType dtype = real_of(c.type("x1").dtype);
        // The difference is an op of its own in torch, and rounds.
        const ValueId apart = b.add(b.sub(c.value("x1"), c.value("x2")), c.number("eps"));
        const ValueId y = b.narrowed(norm_over(b, b.widened(apart), c.number("p"), b.rank(apart) - 1), dtype);
        return c.boolean("keepdim") ? b.unsqueeze(y, -1) : y;
      })
      .from_aten_call("aten.pairwise_distance.default",
                      [](AtenCall& a) {
                        Values xs = promote_and_broadcast(a.b, {a.operand("x1"), a.operand("x2")});
                        if (!is_inexact(a.b.dtype(xs[0]))) {  // integers are subtracted as such; eps makes the rest floating
                          const ValueId apart = a.b.cast(arithmetic(a.b, "sub", xs[0], xs[1]), DType::f32);
                          xs = {apart, a.b.like(apart, 0.0)};
                        }
                        return a.b.create_all(
                            "pairwise_distance", xs,
                            {{"p", a.number("p")}, {"eps", a.number("eps")}, {"keepdim", a.boolean("keepdim")}});
                      })
      .sample("F.pairwise_distance(t(3, 5), t(3, 5))")
      .sample("F.pairwise_distance(t(3, 5), t(5), p=1.0, keepdim=True)")
      .sample("F.pairwise_distance(t(3, 5), t(3, 5), p=3.0)")
      .sample("F.pairwise_distance(i(3, 5), i(3, 5))");
}

OpDef cdist() {
  return functional("cdist")
      .doc("the p-norm distance between every row of x1 and every row of x2")
      .operands("x1", "x2")
      .attributes(attr<double>("p", 2.0))
      .constraint("cdist_c1", "x1 and x2 are batches of matrices of one floating dtype with rows of one length",
                  [](const Call& c) {
                    return c.rank("x1") >= 2 && c.rank("x2") >= 2 && is_floating(c.type("x1").dtype) &&
                           c.type("x1").dtype == c.type("x2").dtype && c.agree(c.shape("x1").back(), c.shape("x2").back());
                  })
      .infer([](const Call& c) {
        const Shape &l = c.shape("x1"), &r = c.shape("x2");
        return Type{c.type("x1").dtype, joined(broadcast_shapes(first_dims(l, l.size() - 2), first_dims(r, r.size() - 2)),
                                               {l[l.size() - 2], r[r.size() - 2]})};
      })
      .decompose([](Builder& b, const Call& c) {
        const ValueId apart = b.sub(b.unsqueeze(b.widened(c.value("x1")), -2), b.unsqueeze(b.widened(c.value("x2")), -3));
        return b.narrowed(norm_over(b, apart, c.number("p"), b.rank(apart) - 1), c.type("x1").dtype);
      })
      .from_aten("aten.cdist.default(x1, x2, p, _)", discard("compute_mode: by products or by differences, the same distance"))
      .sample("torch.cdist(t(4, 3), t(5, 3))")
      .sample("torch.cdist(t(2, 1, 4, 3), t(6, 5, 3), p=1.0)")
      .sample("torch.cdist(t(4, 3), t(5, 3), p=float('inf'))");
}

// tensordot and inner are dot_general without batch axes.
OpDef contractions() {
  return mapping("dot_general")
      .from_aten_call("aten.tensordot.default",
                      [](AtenCall& a) {
                        ValueId left = a.tensor("self"), right = a.tensor("other");
                        const auto normal = [&](const char* name, ValueId x) {
                          Ints axes = a.integers(name);
                          for (int64_t& axis : axes) axis = a.b.normal_axis(axis, a.b.rank(x));
                          return axes;
                        };
                        const Ints ours = normal("dims_self", left), theirs = normal("dims_other", right);
                        // One element against many: the many are summed first.
                        for (size_t i = 0; i < ours.size() && i < theirs.size(); ++i) {
                          const Dim l = a.b.shape(left).at(ours[i]), r = a.b.shape(right).at(theirs[i]);
                          if (l == Dim(1) && r != Dim(1)) right = a.b.sum(right, {theirs[i]});
                          if (r == Dim(1) && l != Dim(1)) left = a.b.sum(left, {ours[i]});
                        }
                        return Values{a.b.dot_general(left, right, {}, {}, ours, theirs)};
                      })
      .from_aten_call("aten.inner.default",
                      [](AtenCall& a) {
                        const ValueId left = a.tensor("self"), right = a.tensor("other");
                        if (a.b.rank(left) == 0 || a.b.rank(right) == 0) return Values{a.b.mul(left, right)};
                        return Values{a.b.dot_general(left, right, {}, {}, {a.b.rank(left) - 1}, {a.b.rank(right) - 1})};
                      })
      .sample("torch.tensordot(t(2, 3, 4), t(3, 4, 5), 2)")
      .sample("torch.tensordot(t(2, 3, 4), t(4, 5, 2), ([0, 2], [2, 0]))")
      .sample("torch.tensordot(t(1, 3, 4), t(3, 4, 5), ([0, 2], [2, 1]))")
      .sample("torch.inner(t(2, 3), t(4, 3))")
      .sample("torch.inner(t(3), t())");
}

OpDef matrix_chains() {
  return mapping("matmul")
      .from_aten_call("aten.linalg_multi_dot.default",
                      [](AtenCall& a) {
                        const Values xs = a.tensors("tensors");
                        ValueId y = xs.at(0);
                        for (size_t i = 1; i < xs.size(); ++i) y = a.b.matmul(y, xs[i]);
                        return Values{y};
                      })
      .sample("torch.linalg.multi_dot([t(2, 3), t(3, 4), t(4, 5)])")
      .sample("torch.linalg.multi_dot([t(3), t(3, 4), t(4)])");
}

}  // namespace

std::vector<OpDef> distance_ops() { return {cosine_similarity(), pairwise_distance(), cdist(), contractions(), matrix_chains()}; }

}  // namespace pycandle
