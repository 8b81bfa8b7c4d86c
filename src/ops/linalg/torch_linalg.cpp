// torch.linalg over products and factorisations: norms, determinants, inverses, systems of equations.
#include <fmt/format.h>

#include <cmath>
#include <limits>

#include "ops/core/functional_helpers.h"
#include "ops/reduction/reduction_helpers.h"

namespace pycandle {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// torch names it A, self or input.
ValueId matrix_argument(AtenCall& c) {
  for (const char* name : {"A", "self", "input"})
    if (c.has_argument(name)) return c.tensor(name);
  c.unsupported("no matrix");
}

// ---- products

OpDef products() {
  OpDef def = mapping("matmul");
  def.from_aten_call("aten.linalg_matmul.default",
                     [](AtenCall& c) -> Values { return {c.b.matmul(c.tensor("self"), c.tensor("other"))}; });
  def.from_aten_call("aten.vdot.default", [](AtenCall& c) -> Values {
    ValueId x = c.tensor("self");
    if (is_complex(c.b.dtype(x))) x = c.b.unary("conj", x);
    return {c.b.matmul(x, c.tensor("other"))};
  });
  def.from_aten_call("aten.chain_matmul.default", [](AtenCall& c) -> Values {
    const Values xs = c.given_tensors("matrices");
    ValueId y = xs[0];
    for (size_t i = 1; i < xs.size(); ++i) y = c.b.matmul(y, xs[i]);
    return {y};
  });
  // By squaring; a negative power is one of the inverse.
  for (const char* name : {"linalg_matrix_power", "matrix_power"})
    def.from_aten_call(fmt::format("aten.{}.default", name), [](AtenCall& c) -> Values {
      Builder& b = c.b;
      ValueId x = c.tensor("self");
      int64_t n = c.integer("n");
      const Shape shape = b.shape(x);
      if (n < 0) x = b.create("inverse", {x});
      if (n == 0) {
        const Attributes size{{"rows", shape.back()}, {"columns", shape.back()}, {"dtype", b.dtype(x)}};
        return {b.broadcast_to(b.create("eye", {}, size), shape)};
      }
      ValueId y = kNoValue;
      for (n = std::abs(n); n > 0; n /= 2) {
        if (n % 2 != 0) y = y == kNoValue ? x : b.matmul(y, x);
        if (n > 1) x = b.matmul(x, x);
      }
      return {y};
    });
  return def.sample("torch.vdot(t(5), t(5))")
      .sample("torch.vdot(t(5, dtype=torch.complex64), t(5, dtype=torch.complex64))")
      .sample("torch.chain_matmul(t(2, 3), t(3, 4), t(4, 2))")
      .sample("torch.linalg.matmul(t(2, 3), t(3, 4))")
      .sample("torch.linalg.matrix_power(t(2, 3, 3), 5)")
      .sample("torch.linalg.matrix_power(t(3, 3), 0)")
      .sample("torch.linalg.matrix_power(t(3, 3, dtype=torch.float64), -2)");
}

OpDef elementwise_products() {
  OpDef def = mapping("mul");
  // [a…] and [b…] side by side, axis by axis.
  def.from_aten_call("aten.kron.default", [](AtenCall& c) -> Values {
    Builder& b = c.b;
    Values v = promote(b, {c.operand("self"), c.operand("other")});
    const int64_t rank = std::max(b.rank(v[0]), b.rank(v[1]));
    Shape merged;
    for (size_t side = 0; side < 2; ++side) {
      Shape shape = b.shape(v[side]);
      shape.insert(shape.begin(), rank - shape.size(), Dim(1));
      Shape wide;
      for (size_t i = 0; i < shape.size(); ++i) {
        if (side == 0) merged.push_back(shape[i]);
        if (side == 1) merged[i] = merged[i] * shape[i];
        wide.push_back(side == 0 ? shape[i] : Dim(1));
        wide.push_back(side == 0 ? Dim(1) : shape[i]);
      }
      v[side] = b.reshape(v[side], wide);
    }
    return {b.reshape(arithmetic(b, "mul", v[0], v[1]), merged)};
  });
  const auto cross = [](AtenCall& c) -> Values {
    Builder& b = c.b;
    const ValueId left = c.tensor("self"), right = c.tensor("other");
    const Values v = promote_and_broadcast(b, {left, right});
    const Shape shape = b.shape(v[0]);
    int64_t axis = -1;
    if (c.is_none("dim")) {  // the first axis of size 3
      for (size_t i = 0; i < shape.size() && axis < 0; ++i)
        if (shape[i] == Dim(3)) axis = static_cast<int64_t>(i);
    } else {
      axis = b.normal_axis(c.integer("dim"), b.rank(v[0]));
    }
    // All axes broadcast but the one of the vectors.
    const auto has_vectors = [&](ValueId x) { return equal(b.shape(x)[axis], 3) != Tri::no; };
    if (axis < 0 || b.rank(left) != b.rank(right) || !has_vectors(left) || !has_vectors(right))
      throw Error(ErrorCode::bad_input, "a cross product needs an axis of size 3").found(b.type(v[0]).text());
    const auto turned = [&](ValueId x, int64_t by) {
      return b.create("roll", {x}, {{"shifts", Dims{Dim(by)}}, {"axes", Ints{axis}}});
    };
    const ValueId first = b.mul(turned(v[0], 2), turned(v[1], 1));
    return {b.sub(first, b.mul(turned(v[0], 1), turned(v[1], 2)))};
  };
  def.from_aten_call("aten.cross.default", cross).from_aten_call("aten.linalg_cross.default", cross);
  def.from_aten_call("aten.linalg_vecdot.default", [](AtenCall& c) -> Values {
    Builder& b = c.b;
    Values v = promote_and_broadcast(b, {c.operand("x"), c.operand("y")});
    if (is_complex(b.dtype(v[0]))) v[0] = b.unary("conj", v[0]);
    const int64_t axis = b.normal_axis(c.integer("dim"), b.rank(v[0]));
    const ValueId wide = b.mul(b.widened(v[0]), b.widened(v[1]));
    return {b.narrowed(b.sum(wide, {axis}, false), b.dtype(v[0]))};
  });
  return def.sample("torch.kron(t(2, 3), t(4, 2))")
      .sample("torch.kron(t(3), i(2, 2))")
      .sample("torch.cross(t(4, 3), t(4, 3), dim=1)")
      .sample("torch.cross(t(3, 4), t(3, 4))")
      .sample("torch.linalg.cross(t(2, 1, 3), t(2, 5, 3))")
      .sample("torch.linalg.cross(i(4, 3), i(4, 3))")
      .sample("torch.linalg.vecdot(t(4, 3), t(3))")
      .sample("torch.linalg.vecdot(t(4, 3, dtype=torch.complex64), t(4, 3, dtype=torch.complex64), dim=0)");
}

// ---- norms

// The singular values of the matrices in those axes, as a last axis.
ValueId singular_values(Builder& b, ValueId x, int64_t rows, int64_t columns) {
  Ints order;
  for (int64_t i = 0; i < b.rank(x); ++i)
    if (i != rows && i != columns) order.push_back(i);
  order.insert(order.end(), {rows, columns});
  return b.create_all("svd", {b.transpose(x, order)})[1];
}

// The largest or smallest absolute row or column sum, the root of the sum of squares, or one of singular values.
ValueId matrix_norm(AtenCall& c, ValueId x, const std::variant<double, std::string>& order, int64_t rows, int64_t columns,
                    bool keep) {
  Builder& b = c.b;
  if (rows == columns) throw Error(ErrorCode::bad_input, "the norm of a matrix needs two different axes");
  Shape kept_shape = b.shape(x);
  kept_shape[rows] = kept_shape[columns] = 1;
  // Where there is nothing to take the largest of, it is 0.
  const auto largest_of_none = [&](int64_t axis) { return b.shape(x)[axis] == Dim(0); };
  const auto none = [&] {
    return b.full(0.0, real_of(b.dtype(x)), keep ? kept_shape : without_axes(kept_shape, {rows, columns}));
  };
  const auto of_singular_values = [&](const char* reduce) {
    const ValueId values = singular_values(b, x, rows, columns);
    const ValueId norm = b.reduce(reduce, values, {-1}, false);
    return keep ? b.reshape(norm, kept_shape) : norm;
  };
  if (auto* word = std::get_if<std::string>(&order)) {
    if (*word == "nuc") return of_singular_values("reduce_sum");
    if (*word != "fro") c.unsupported("ord='" + *word + "'");
    Ints axes{std::min(rows, columns), std::max(rows, columns)};
    return b.create("vector_norm", {x}, {{"axes", axes}, {"keep", keep}, {"order", 2.0}});
  }
  const double number = std::get<double>(order), kind = std::abs(number);
  if (kind == 2 && number > 0 && (largest_of_none(rows) || largest_of_none(columns))) return none();
  if (kind == 2) return of_singular_values(number > 0 ? "reduce_max" : "reduce_min");
  if (kind != 1 && kind != kInfinity) c.unsupported(fmt::format("ord={}", number));
  const int64_t summed = kind == 1 ? rows : columns, other = kind == 1 ? columns : rows;
  if (number > 0 && largest_of_none(other)) return none();
  const ValueId sums = b.create("vector_norm", {x}, {{"axes", Ints{summed}}, {"keep", true}, {"order", 1.0}});
  const ValueId norm = b.reduce(number > 0 ? "reduce_max" : "reduce_min", sums, {other}, true);
  return keep ? norm : b.reshape(norm, without_axes(b.shape(norm), {rows, columns}));
}

using Order = std::variant<double, std::string>;

ValueId norm_operand(AtenCall& c) {
  const ValueId x = c.tensor("self");
  const auto dtype = c.dtype("dtype");
  return c.b.cast(x, dtype.value_or(float_result(c.b.dtype(x))));
}

// torch.linalg.norm: of vectors and of matrices; `text`: the order is a word.
Values any_norm(AtenCall& c, bool text) {
  Builder& b = c.b;
  const ValueId x = norm_operand(c);
  const int64_t rank = b.rank(x);
  const bool keep = c.boolean("keepdim"), no_order = c.is_none("ord");
  const auto given = c.maybe_integers("dim");
  const Order order = text ? Order(c.string("ord")) : Order(no_order ? 2.0 : as_double(c.scalar("ord")));
  if (given && given->size() > 2) throw Error(ErrorCode::bad_input, "a norm is over one axis or two");
  // With an order, two axes (or a matrix as a whole) have a matrix norm; all else is a vector norm.
  if (!no_order && ((given && given->size() == 2) || (!given && rank == 2))) {
    const Ints axes = given ? *given : Ints{0, 1};
    return {matrix_norm(c, x, order, b.normal_axis(axes[0], rank), b.normal_axis(axes[1], rank), keep)};
  }
  if (text) c.unsupported("a word as the order of a vector norm");
  if (!no_order && !given && rank > 2) throw Error(ErrorCode::bad_input, "a norm with an order is over one axis or two");
  Ints axes = axes_between(0, rank);
  if (given) {
    axes = *given;
    for (int64_t& axis : axes) axis = b.normal_axis(axis, std::max<int64_t>(rank, 1));
    std::sort(axes.begin(), axes.end());
    if (rank == 0) axes.clear();
  }
  return {b.create("vector_norm", {x}, {{"axes", axes}, {"keep", keep}, {"order", std::get<double>(order)}})};
}

OpDef norms() {
  OpDef def = mapping("vector_norm");
  for (const char* overload : {"default", "str_ord"})
    def.from_aten_call(
        fmt::format("aten.linalg_matrix_norm.{}", overload), [text = std::string(overload) == "str_ord"](AtenCall& c) -> Values {
          const ValueId x = norm_operand(c);
          const Ints axes = c.integers("dim");
          if (axes.size() != 2) throw Error(ErrorCode::bad_input, "the norm of a matrix needs two axes");
          const Order order = text ? Order(c.string("ord")) : Order(as_double(c.scalar("ord")));
          const int64_t rows = c.b.normal_axis(axes[0], c.b.rank(x)), columns = c.b.normal_axis(axes[1], c.b.rank(x));
          return {matrix_norm(c, x, order, rows, columns, c.boolean("keepdim"))};
        });
  for (const char* overload : {"default", "ord_str"})
    def.from_aten_call(fmt::format("aten.linalg_norm.{}", overload),
                       [text = std::string(overload) == "ord_str"](AtenCall& c) { return any_norm(c, text); });
  def.from_aten_call("aten.frobenius_norm.dim", [](AtenCall& c) -> Values {
    const ValueId x = c.tensor("self");
    const Ints axes = reduced_axes(c, c.b.rank(x));
    return {c.b.create("vector_norm", {x}, {{"axes", axes}, {"keep", c.boolean("keepdim")}, {"order", 2.0}})};
  });
  def.from_aten_call("aten.dist.default", [](AtenCall& c) -> Values {
    Builder& b = c.b;
    const ValueId gap = arithmetic(b, "sub", c.operand("self"), c.operand("other"));
    return {b.create("vector_norm", {gap}, {{"axes", axes_between(0, b.rank(gap))}, {"order", as_double(c.scalar("p"))}})};
  });
  // Slices along an axis whose norm is too large are scaled down to it.
  def.from_aten_call("aten.renorm.default", [](AtenCall& c) -> Values {
    Builder& b = c.b;
    const ValueId x = c.tensor("self");
    const int64_t axis = b.normal_axis(c.integer("dim"), b.rank(x));
    const double largest = as_double(c.scalar("maxnorm"));
    Ints others;
    for (int64_t i = 0; i < b.rank(x); ++i)
      if (i != axis) others.push_back(i);
    const ValueId norm = b.create("vector_norm", {b.widened(x)},
                                  {{"axes", others}, {"keep", true}, {"order", as_double(c.scalar("p"))}});
    const ValueId scale = b.div(largest, b.add(norm, 1e-7)), one = b.full(1.0, b.dtype(norm));
    const ValueId factor = b.select(b.compare("gt", norm, largest), scale, one);
    return {b.mul(x, b.cast(b.cast(factor, real_of(b.dtype(x))), b.dtype(x)))};
  });
  return def.sample("torch.linalg.matrix_norm(t(2, 3, 4))")
      .sample("torch.linalg.matrix_norm(t(2, 3, 4), ord=1, dim=(0, 2), keepdim=True)")
      .sample("torch.linalg.matrix_norm(t(3, 4), ord=-float('inf'))")
      .sample("torch.linalg.matrix_norm(t(2, 3, 4), ord='nuc', dim=(0, 2), keepdim=True)")
      .sample("torch.linalg.matrix_norm(t(3, 4), ord=-2)")
      .sample("torch.linalg.norm(t(3, 4))")
      .sample("torch.linalg.norm(t(2, 3, 4))")
      .sample("torch.linalg.norm(t(3, 4), ord=1)")
      .sample("torch.linalg.norm(t(3, 4), ord='fro', keepdim=True)")
      .sample("torch.linalg.norm(t(2, 3, 4), ord=3, dim=1)")
      .sample("torch.linalg.norm(t(5), ord=float('inf'))")
      .sample("torch.dist(t(3, 4), t(4), 3)")
      .sample("torch.renorm(t(3, 4, 2), 2, 1, 1.5)");
}

// ---- determinants, inverses and systems

ValueId identity_like(Builder& b, ValueId x) {
  const Dim n = b.shape(x).back();
  return b.broadcast_to(b.create("eye", {}, {{"rows", n}, {"columns", n}, {"dtype", b.dtype(x)}}), b.shape(x));
}

// The rows of x [..., n, k] in the order [..., n].
ValueId reordered(Builder& b, ValueId x, ValueId order) {
  return b.create("gather", {x, b.broadcast_to(b.unsqueeze(order, -1), b.shape(x))}, {{"axis", b.rank(x) - 2}});
}

ValueId solved(Builder& b, ValueId a, ValueId right) {
  const Values lu = b.create_all("lu", {a});
  const ValueId lower = b.create("solve_triangular", {lu[0], reordered(b, right, lu[2])}, {{"upper", false}, {"unit", true}});
  return b.create("solve_triangular", {lu[0], lower}, {{"upper", true}});
}

// The product of U's diagonal with the sign of the exchanges, as sign and size.
struct Determinant {
  ValueId diagonal, sign;
};
Determinant determinant(Builder& b, ValueId a) {
  const Values lu = b.create_all("lu", {a});
  const int64_t rank = b.rank(a);
  const Dim n = b.shape(a).back();
  const ValueId diagonal = b.create("diagonal", {lu[0]}, {{"axis1", rank - 2}, {"axis2", rank - 1}});
  const ValueId stayed = b.compare("eq", lu[1], b.add(b.iota(n, DType::i32), 1.0));
  const ValueId exchanges = b.sum(b.cast(b.logical_not(stayed), DType::i64), {-1}, false);
  const ValueId odd = b.compare("eq", b.binary("remainder", exchanges, b.dim_value(2)), 1.0);
  const ValueId one = b.full(1.0, b.dtype(a));
  return {diagonal, b.select(odd, b.neg(one), one)};
}

// 0, or which number on U's diagonal is the first to be 0, from 1.
ValueId info_of(Builder& b, ValueId factors) {
  const int64_t rank = b.rank(factors);
  const ValueId diagonal = b.create("diagonal", {factors}, {{"axis1", rank - 2}, {"axis2", rank - 1}});
  const Dim count = b.shape(diagonal).back();
  const Shape batch = first_dims(b.shape(factors), rank - 2);
  if (count == Dim(0)) return b.full(int64_t{0}, DType::i32, batch);
  const ValueId zero = b.compare("eq", diagonal, b.full(0.0, b.dtype(diagonal)));
  const ValueId none = b.dim_value(count), places = b.select(zero, b.iota(count), none);
  const ValueId first = b.reduce("reduce_min", places, {-1}, false);
  return b.cast(b.select(b.compare("eq", first, none), b.full(int64_t{0}, DType::i64), b.add(first, 1.0)), DType::i32);
}

OpDef square_matrix_op(const char* name, const char* doc) {
  const std::string id = name;
  return functional(name).doc(doc).operands("a").constraint(
      id + "_c1", "a is floating or complex, and its last two axes are square", [](const Call& c) {
        return is_inexact(c.type("a").dtype) && c.rank("a") >= 2 && c.agree(c.shape("a").back(), c.shape("a")[c.rank("a") - 2]);
      });
}
Shape batch_shape(const Call& c) { return first_dims(c.shape("a"), c.rank("a") - 2); }

OpDef det() {
  OpDef def = square_matrix_op("det", "determinants of matrices");
  def.infer([](const Call& c) { return Type{c.type("a").dtype, batch_shape(c)}; }).decompose([](Builder& b, const Call& c) {
    const Determinant d = determinant(b, c.value("a"));
    return b.mul(b.reduce("reduce_prod", d.diagonal, {-1}, false), d.sign);
  });
  // The factors that _linalg_det gives beside are for training.
  for (const char* name : {"det", "linalg_det", "_linalg_det"})
    def.from_aten_call(fmt::format("aten.{}.default", name),
                       [](AtenCall& c) { return c.b.create_all("det", {matrix_argument(c)}); });
  return def.sample("torch.linalg.det(t(2, 3, 3, dtype=torch.float64))")
      .sample("torch.det(t(4, 4, dtype=torch.float64))")
      .sample("torch.det(t(0, 0, dtype=torch.float32))");
}

OpDef slogdet() {
  OpDef def = square_matrix_op("slogdet", "sign (or direction) of the determinant, and the logarithm of its size");
  def.infer_all([](const Call& c) {
       const DType d = c.type("a").dtype;
       return std::vector<Type>{{d, batch_shape(c)}, {real_of(d), batch_shape(c)}};
     })
      .decompose_all([](Builder& b, const Call& c) {
        const Determinant d = determinant(b, c.value("a"));
        const ValueId direction = b.reduce("reduce_prod", b.unary("sign", d.diagonal), {-1}, false);
        return Values{b.mul(direction, d.sign), b.sum(b.log(b.abs(d.diagonal)), {-1}, false)};
      });
  for (const char* name : {"slogdet", "linalg_slogdet", "_linalg_slogdet"})
    def.from_aten_call(fmt::format("aten.{}.default", name),
                       [](AtenCall& c) { return c.b.create_all("slogdet", {matrix_argument(c)}); });
  def.from_aten_call("aten.logdet.default", [](AtenCall& c) -> Values {
    Builder& b = c.b;
    const Values parts = b.create_all("slogdet", {c.tensor("self")});
    if (is_complex(b.dtype(parts[0]))) return {b.add(b.cast(parts[1], b.dtype(parts[0])), b.log(parts[0]))};
    const ValueId none = b.full(std::numeric_limits<double>::quiet_NaN(), b.dtype(parts[1]));
    return {b.select(b.compare("eq", parts[0], -1.0), none, parts[1])};
  });
  return def.sample("torch.linalg.slogdet(t(2, 3, 3, dtype=torch.float64))")
      .sample("torch.logdet(t(2, 3, 3, dtype=torch.float64))");
}

OpDef inverse() {
  OpDef def = square_matrix_op("inverse", "inverse matrices");
  def.infer([](const Call& c) { return c.type("a"); }).decompose([](Builder& b, const Call& c) {
    return solved(b, c.value("a"), identity_like(b, c.value("a")));
  });
  for (const char* name : {"inverse", "linalg_inv", "linalg_inv_ex"})
    def.from_aten_call(fmt::format("aten.{}.default", name), [](AtenCall& c) -> Values {
      const ValueId a = matrix_argument(c);
      Values results{c.b.create("inverse", {a})};
      if (!c.has_argument("check_errors")) return results;
      c.discard("check_errors", "a singular matrix gives infinities, and info tells");
      results.push_back(info_of(c.b, c.b.create_all("lu", {a})[0]));
      return results;
    });
  return def.sample("torch.linalg.inv(t(2, 3, 3, dtype=torch.float64))").sample("torch.inverse(t(4, 4, dtype=torch.complex64))");
}

// A right side of one axis less is a vector for each matrix.
bool is_vector_side(const Builder& b, ValueId a, ValueId right) {
  if (b.rank(right) == 1) return true;
  return b.rank(right) == b.rank(a) - 1 && b.shape(right) == first_dims(b.shape(a), b.rank(a) - 1);
}

// Both with the same batch.
std::pair<ValueId, ValueId> with_common_batch(Builder& b, ValueId a, ValueId right) {
  const auto batch = [&](ValueId v) { return first_dims(b.shape(v), b.shape(v).size() - 2); };
  const auto matrix = [&](ValueId v) { return Shape(b.shape(v).end() - 2, b.shape(v).end()); };
  const Shape common = broadcast_shapes(batch(a), batch(right));
  return {b.broadcast_to(a, joined(common, matrix(a))), b.broadcast_to(right, joined(common, matrix(right)))};
}

ValueId transposed_matrix(Builder& b, ValueId x) { return b.swap_axes(x, -1, -2); }

OpDef solve() {
  OpDef def = square_matrix_op("solve", "x with a x = b, matrix by matrix");
  def.operands("b")
      .constraint("solve_c2", "b has the dtype and batch of a, and as many rows",
                  [](const Call& c) {
                    const Shape &a = c.shape("a"), &right = c.shape("b");
                    return c.type("a").dtype == c.type("b").dtype && a.size() == right.size() &&
                           c.agree(first_dims(a, a.size() - 1), first_dims(right, a.size() - 1));
                  })
      .infer([](const Call& c) { return c.type("b"); })
      .decompose([](Builder& b, const Call& c) { return solved(b, c.value("a"), c.value("b")); });
  for (const char* name : {"linalg_solve", "linalg_solve_ex", "_linalg_solve_ex"})
    def.from_aten_call(fmt::format("aten.{}.default", name), [](AtenCall& c) -> Values {
      Builder& b = c.b;
      const ValueId a = c.tensor("A"), given = c.tensor("B");
      const bool left = c.boolean("left"), is_vector = is_vector_side(b, a, given);
      if (c.has_argument("check_errors")) c.discard("check_errors", "a singular matrix gives infinities");
      ValueId right = is_vector ? b.unsqueeze(given, -1) : given;
      if (is_vector && !left) c.unsupported("left=False and vectors");
      auto [matrix, side] = with_common_batch(b, left ? a : transposed_matrix(b, a), left ? right : transposed_matrix(b, right));
      ValueId y = b.create("solve", {matrix, side});
      if (!left) y = transposed_matrix(b, y);
      Values results{is_vector ? b.squeeze(y, -1) : y};
      if (c.overload() == "aten.linalg_solve_ex.default") results.push_back(info_of(b, b.create_all("lu", {a})[0]));
      return results;
    });
  return def.sample("torch.linalg.solve(t(2, 3, 3, dtype=torch.float64), t(2, 3, 4, dtype=torch.float64))")
      .sample("torch.linalg.solve(t(3, 3, dtype=torch.float64), t(3, dtype=torch.float64))")
      .sample("torch.linalg.solve(t(3, 3, dtype=torch.float64), t(2, 4, 3, dtype=torch.float64), left=False)");
}

// ---- the factors themselves

ValueId conjugate_transposed(Builder& b, ValueId x) {
  x = transposed_matrix(b, x);
  return is_complex(b.dtype(x)) ? b.unary("conj", x) : x;
}

OpDef triangles() {
  OpDef def = mapping("cholesky");
  for (const char* name : {"linalg_cholesky", "linalg_cholesky_ex", "cholesky"})
    def.from_aten_call(fmt::format("aten.{}.default", name), [](AtenCall& c) -> Values {
      Builder& b = c.b;
      ValueId a = c.tensor("self");
      const bool upper = c.boolean("upper"), reports = c.has_argument("check_errors");
      if (upper) a = conjugate_transposed(b, a);  // the triangle that is asked for is the one that is read
      const bool check = !reports || c.boolean("check_errors");
      Values factors = b.create_all("cholesky", {a}, {{"check", check}});
      if (upper) factors[0] = conjugate_transposed(b, factors[0]);
      if (!reports) factors.pop_back();
      return factors;
    });
  return def.sample("torch.linalg.cholesky(torch.eye(3) * 9 + t(3, 1, dtype=torch.float32) @ torch.ones(1, 3))")
      .sample("torch.linalg.cholesky(torch.eye(3, dtype=torch.float64) * 9 + t(2, 3, 3, dtype=torch.float64), upper=True)")
      .sample("torch.linalg.cholesky_ex(torch.eye(3) * torch.tensor([1.0, -1.0, 1.0]) + t(1, dtype=torch.float32) * 0)[1]");
}

OpDef triangular_systems() {
  OpDef def = mapping("solve_triangular");
  def.from_aten_call("aten.triangular_solve.default", [](AtenCall& c) -> Values {
    Builder& b = c.b;
    const ValueId a = c.tensor("A");
    const bool upper = c.boolean("upper"), transpose = c.boolean("transpose"), unit = c.boolean("unitriangular");
    auto [matrix, side] = with_common_batch(b, a, c.tensor("self"));
    if (transpose) matrix = transposed_matrix(b, matrix);
    const ValueId y = b.create("solve_triangular", {matrix, side}, {{"upper", upper != transpose}, {"unit", unit}});
    return {y, transpose ? transposed_matrix(b, matrix) : matrix};
  });
  def.from_aten_call("aten.linalg_solve_triangular.default", [](AtenCall& c) -> Values {
    Builder& b = c.b;
    const bool upper = c.boolean("upper"), left = c.boolean("left"), unit = c.boolean("unitriangular");
    ValueId a = c.tensor("self"), right = c.tensor("B");
    if (!left) {
      a = transposed_matrix(b, a);
      right = transposed_matrix(b, right);
    }
    auto [matrix, side] = with_common_batch(b, a, right);
    const ValueId y = b.create("solve_triangular", {matrix, side}, {{"upper", upper == left}, {"unit", unit}});
    return {left ? y : transposed_matrix(b, y)};
  });
  // From the factor L of a = L Lᴴ.
  def.from_aten_call("aten.cholesky_solve.default", [](AtenCall& c) -> Values {
    Builder& b = c.b;
    const bool upper = c.boolean("upper");
    const ValueId given = c.tensor("input2");
    auto [l, right] = with_common_batch(b, upper ? conjugate_transposed(b, given) : given, c.tensor("self"));
    const ValueId half = b.create("solve_triangular", {l, right}, {{"upper", false}});
    return {b.create("solve_triangular", {conjugate_transposed(b, l), half}, {{"upper", true}})};
  });
  def.from_aten_call("aten.cholesky_inverse.default", [](AtenCall& c) -> Values {
    Builder& b = c.b;
    const bool upper = c.boolean("upper");
    const ValueId given = c.tensor("self"), l = upper ? conjugate_transposed(b, given) : given;
    const ValueId half = b.create("solve_triangular", {l, identity_like(b, l)}, {{"upper", false}});
    return {b.create("solve_triangular", {conjugate_transposed(b, l), half}, {{"upper", true}})};
  });
  return def.sample("torch.linalg.solve_triangular(t(3, 3, dtype=torch.float64), t(2, 3, 2, dtype=torch.float64), upper=True)")
      .sample(
          "torch.linalg.solve_triangular(t(3, 3, dtype=torch.float64), t(2, 3, dtype=torch.float64), upper=False, left=False, "
          "unitriangular=True)")
      .sample("torch.cholesky_solve(t(3, 2, dtype=torch.float64), t(3, 3, dtype=torch.float64))")
      .sample("torch.cholesky_inverse(t(3, 3, dtype=torch.float64), upper=True)");
}

// P of an order of rows: a = P (a[order]).
ValueId permutation_matrix(Builder& b, ValueId order, DType dtype) {
  const Dim n = b.shape(order).back();
  const ValueId row = b.reshape(b.iota(n), {n, 1});
  return b.cast(b.compare("eq", row, b.unsqueeze(order, -2)), dtype);
}

OpDef lu_factors() {
  OpDef def = mapping("lu");
  for (const char* name : {"linalg_lu_factor", "linalg_lu_factor_ex", "_lu_with_info"})
    def.from_aten_call(fmt::format("aten.{}.default", name), [](AtenCall& c) -> Values {
      const bool pivot = c.boolean("pivot");
      if (c.has_argument("check_errors")) c.discard("check_errors", "a singular matrix has factors too");
      const Values lu = c.b.create_all("lu", {matrix_argument(c)}, {{"pivot", pivot}});
      Values results{lu[0], lu[1]};
      if (c.result_count() > 2) results.push_back(info_of(c.b, lu[0]));
      return results;
    });
  def.from_aten_call("aten.linalg_lu.default", [](AtenCall& c) -> Values {
    Builder& b = c.b;
    const ValueId a = c.tensor("A");
    const bool pivot = c.boolean("pivot");
    if (!pivot) c.unsupported("pivot=False");
    const Values lu = b.create_all("lu", {a});
    const int64_t rank = b.rank(a);
    const Dim rows = b.shape(a)[rank - 2], columns = b.shape(a)[rank - 1], inner = min(rows, columns);
    const ValueId below = b.create("tril", {b.slice(lu[0], -1, 0, inner)}, {{"diagonal", Dim(-1)}});
    const ValueId ones = b.create("eye", {}, {{"rows", rows}, {"columns", inner}, {"dtype", b.dtype(a)}});
    const ValueId upper = b.create("triu", {b.slice(lu[0], -2, 0, inner)});
    return {permutation_matrix(b, lu[2], b.dtype(a)), b.add(below, ones), upper};
  });
  return def.sample("torch.linalg.lu_factor(t(2, 4, 3, dtype=torch.float64))")
      .sample("torch.lu(t(3, 3, dtype=torch.float64), get_infos=True)")
      .sample("torch.linalg.lu(t(3, 4, dtype=torch.float64))");
}

OpDef qr_factors() {
  OpDef def = mapping("qr");
  def.from_aten_call("aten.linalg_qr.default", [](AtenCall& c) -> Values {
    const std::string mode = c.string("mode");
    if (mode != "reduced" && mode != "complete" && mode != "r") c.unsupported("mode='" + mode + "'");
    const Values qr = c.b.create_all("qr", {c.tensor("A")}, {{"complete", mode == "complete"}});
    if (mode == "r") return {c.b.full(0.0, c.b.dtype(qr[0]), {0}), qr[1]};
    return qr;
  });
  def.from_aten_call("aten.qr.default", [](AtenCall& c) {
    const bool some = c.boolean("some");
    return c.b.create_all("qr", {c.tensor("self")}, {{"complete", !some}});
  });
  return def.sample("torch.linalg.qr(t(2, 4, 3, dtype=torch.float64))")
      .sample("torch.linalg.qr(t(4, 3, dtype=torch.float64), mode='complete')")
      .sample("torch.linalg.qr(t(3, 4, dtype=torch.complex64), mode='r')")
      .sample("torch.linalg.qr(t(3, 3, dtype=torch.complex64))");
}

}  // namespace

std::vector<OpDef> torch_linalg_ops() {
  return {products(),  elementwise_products(), norms(),      det(),       slogdet(), inverse(), solve(),
          triangles(), triangular_systems(),   lu_factors(), qr_factors()};
}

}  // namespace pycandle
