// Factorisations of matrices and triangular systems: primitives over the last two axes.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "ops/core/aten_call.h"
#include "ops/core/constraints.h"
#include "ops/core/evaluate.h"

namespace pycandle {
namespace {

template <class C> double size_squared(C v) { return std::norm(v); }
// What LAPACK compares pivots by.
double pivot_size(double v) { return std::abs(v); }
double pivot_size(Complex v) { return std::abs(v.real()) + std::abs(v.imag()); }
double conjugate(double v) { return v; }
Complex conjugate(Complex v) { return std::conj(v); }
double real_part(double v) { return v; }
double real_part(Complex v) { return v.real(); }

// A matrix in memory of its own, row by row.
template <class C> struct Matrix {
  int64_t rows, columns;
  std::vector<C> values;
  Matrix(int64_t r, int64_t c) : rows(r), columns(c), values(r * c) {}
  C& operator()(int64_t i, int64_t j) { return values[i * columns + j]; }
  const C& operator()(int64_t i, int64_t j) const { return values[i * columns + j]; }
};
template <class C> Matrix<C> load_matrix(const Array& x, int64_t index) {
  Matrix<C> m(x.shape()[x.rank() - 2], x.shape()[x.rank() - 1]);
  load_chunk(x, index * m.rows * m.columns, m.rows * m.columns, m.values.data());
  return m;
}
template <class C> void store_matrix(Array& x, int64_t index, const Matrix<C>& m) {
  store_chunk(x, index * m.rows * m.columns, m.rows * m.columns, m.values.data());
}

// f(zero, index) for each matrix of x, with a zero of the type to compute in.
template <class F> void for_each_matrix(const Array& x, F&& f) {
  const int64_t count = element_count(Sizes(x.shape().begin(), x.shape().end() - 2));
  in_domain(x.dtype(), [&](auto zero) {
    if constexpr (!std::is_same_v<decltype(zero), int64_t>)
      parallel_for(count, 1, [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i) f(zero, i);
      });
  });
}

OpDef matrix_op(const char* name, bool square) {
  const std::string id = name;
  OpDef def = primitive(name).operands("a").constraint(
      id + "_c1", "a is floating or complex, and has two axes or more",
      [](const Call& c) { return is_inexact(c.type("a").dtype) && c.rank("a") >= 2; });
  if (square)
    def.constraint(id + "_c2", "the matrices are square",
                   [](const Call& c) { return c.agree(c.shape("a")[c.rank("a") - 1], c.shape("a")[c.rank("a") - 2]); });
  return def;
}

Shape batch_of(const Call& c, const char* name = "a") { return {c.shape(name).begin(), c.shape(name).end() - 2}; }
Shape with(Shape batch, std::initializer_list<Dim> dims) {
  batch.insert(batch.end(), dims);
  return batch;
}
Dim rows_of(const Call& c) { return c.shape("a")[c.rank("a") - 2]; }
Dim columns_of(const Call& c) { return c.shape("a")[c.rank("a") - 1]; }

// ---- LU

OpDef lu() {
  return matrix_op("lu", false)
      .doc(
          "a = P L U: L (unit, below the diagonal) and U in one matrix, the rows exchanged at each step (from 1, as LAPACK), and "
          "the "
          "order of rows that they amount to: a[order] = L U")
      .attributes(attr<bool>("pivot", true))
      .infer_all([](const Call& c) {
        return std::vector<Type>{c.type("a"),
                                 {DType::i32, with(batch_of(c), {min(rows_of(c), columns_of(c))})},
                                 {DType::i64, with(batch_of(c), {rows_of(c)})}};
      })
      .rounds(Rounding::relative)
      .evaluator_all([](const Evaluation& ev) {
        const Array& a = ev.array("a");
        const int64_t rows = a.shape()[a.rank() - 2], columns = a.shape()[a.rank() - 1], steps = std::min(rows, columns);
        Sizes pivot_shape(a.shape().begin(), a.shape().end() - 2), order_shape = pivot_shape;
        pivot_shape.push_back(steps);
        order_shape.push_back(rows);
        Array factors(ev.out_dtype(0), a.shape()), pivots(DType::i32, pivot_shape), order(DType::i64, order_shape);
        for_each_matrix(a, [&](auto zero, int64_t index) {
          using C = decltype(zero);
          Matrix<C> m = load_matrix<C>(a, index);
          std::vector<int64_t> exchanged(steps), places(rows);
          std::iota(places.begin(), places.end(), 0);
          for (int64_t k = 0; k < steps; ++k) {
            int64_t best = k;
            for (int64_t i = k + 1; ev.boolean("pivot") && i < rows; ++i)
              if (pivot_size(m(i, k)) > pivot_size(m(best, k))) best = i;
            exchanged[k] = best + 1;
            std::swap(places[k], places[best]);
            for (int64_t j = 0; best != k && j < columns; ++j) std::swap(m(k, j), m(best, j));
            if (m(k, k) == C{}) continue;
            for (int64_t i = k + 1; i < rows; ++i) {
              const C factor = m(i, k) /= m(k, k);
              for (int64_t j = k + 1; j < columns; ++j) m(i, j) -= factor * m(k, j);
            }
          }
          store_matrix(factors, index, m);
          store_chunk(pivots, index * steps, steps, exchanged.data());
          store_chunk(order, index * rows, rows, places.data());
        });
        return std::vector<Array>{factors, pivots, order};
      });
}

// ---- Cholesky

OpDef cholesky() {
  return matrix_op("cholesky", true)
      .doc(
          "the lower triangle L with a = L Lᴴ, from a's lower triangle; and 0, or the order of the first minor that is not "
          "positive "
          "(an error with check)")
      .attributes(attr<bool>("check", true))
      .infer_all([](const Call& c) { return std::vector<Type>{c.type("a"), {DType::i32, batch_of(c)}}; })
      .rounds(Rounding::relative)
      .evaluator_all([](const Evaluation& ev) {
        const Array& a = ev.array("a");
        Array lower(ev.out_dtype(0), a.shape()), failures(DType::i32, Sizes(a.shape().begin(), a.shape().end() - 2));
        for_each_matrix(a, [&](auto zero, int64_t index) {
          using C = decltype(zero);
          const Matrix<C> m = load_matrix<C>(a, index);
          Matrix<C> l(m.rows, m.columns);
          int64_t failure = 0;
          for (int64_t j = 0; j < m.rows; ++j) {
            double rest = real_part(m(j, j));
            for (int64_t k = 0; k < j; ++k) rest -= size_squared(l(j, k));
            if (!(rest > 0) && failure == 0) failure = j + 1;
            if (failure != 0) break;
            l(j, j) = std::sqrt(rest);
            for (int64_t i = j + 1; i < m.rows; ++i) {
              C sum = m(i, j);
              for (int64_t k = 0; k < j; ++k) sum -= l(i, k) * conjugate(l(j, k));
              l(i, j) = sum / l(j, j);
            }
          }
          if (failure != 0 && ev.boolean("check"))
            throw Error(ErrorCode::bad_input, "a matrix is not positive definite")
                .op("cholesky")
                .expected("positive leading minors")
                .found("order " + std::to_string(failure));
          store_matrix(lower, index, l);
          store_chunk(failures, index, 1, &failure);
        });
        return std::vector<Array>{lower, failures};
      });
}

// ---- triangular systems

OpDef solve_triangular() {
  return matrix_op("solve_triangular", true)
      .doc("x with a x = b, where a counts as upper or lower triangular; with unit, ones stand on its diagonal")
      .operands("b")
      .attributes(attr<bool>("upper"), attr<bool>("unit", false))
      .constraint("solve_triangular_c3", "b has the dtype and batch of a, and as many rows",
                  [](const Call& c) {
                    return c.type("a").dtype == c.type("b").dtype && c.rank("b") == c.rank("a") &&
                           c.agree(batch_of(c), batch_of(c, "b")) && c.agree(rows_of(c), c.shape("b")[c.rank("b") - 2]);
                  })
      .infer([](const Call& c) { return c.type("b"); })
      .rounds(Rounding::relative)
      .evaluator([](const Evaluation& ev) {
        const Array &a = ev.array("a"), &b = ev.array("b");
        const bool upper = ev.boolean("upper"), unit = ev.boolean("unit");
        Array out(ev.out_dtype(), b.shape());
        for_each_matrix(b, [&](auto zero, int64_t index) {
          using C = decltype(zero);
          const Matrix<C> m = load_matrix<C>(a, index);
          Matrix<C> x = load_matrix<C>(b, index);
          for (int64_t step = 0; step < m.rows; ++step) {
            const int64_t i = upper ? m.rows - 1 - step : step;
            for (int64_t j = 0; j < x.columns; ++j) {
              for (int64_t k = upper ? i + 1 : 0; k < (upper ? m.rows : i); ++k) x(i, j) -= m(i, k) * x(k, j);
              if (!unit) x(i, j) /= m(i, i);
            }
          }
          store_matrix(out, index, x);
        });
        return out;
      });
}

// ---- QR

OpDef qr() {
  return matrix_op("qr", false)
      .doc("a = Q R by Householder's reflections, with LAPACK's signs; complete: Q is square")
      .attributes(attr<bool>("complete", false))
      .infer_all([](const Call& c) {
        const Dim inner = c.boolean("complete") ? rows_of(c) : min(rows_of(c), columns_of(c));
        return std::vector<Type>{{c.type("a").dtype, with(batch_of(c), {rows_of(c), inner})},
                                 {c.type("a").dtype, with(batch_of(c), {inner, columns_of(c)})}};
      })
      .rounds(Rounding::relative)
      .evaluator_all([](const Evaluation& ev) {
        const Array& a = ev.array("a");
        const int64_t rows = a.shape()[a.rank() - 2], columns = a.shape()[a.rank() - 1], steps = std::min(rows, columns),
                      inner = ev.boolean("complete") ? rows : steps;
        Sizes q_shape = a.shape(), r_shape = a.shape();
        q_shape.back() = inner;
        r_shape[a.rank() - 2] = inner;
        Array qs(ev.out_dtype(0), q_shape), rs(ev.out_dtype(1), r_shape);
        for_each_matrix(a, [&](auto zero, int64_t index) {
          using C = decltype(zero);
          Matrix<C> m = load_matrix<C>(a, index), q(rows, rows);
          for (int64_t i = 0; i < rows; ++i) q(i, i) = C(1);
          for (int64_t k = 0; k < steps; ++k) {
            double below = 0;
            for (int64_t i = k + 1; i < rows; ++i) below += size_squared(m(i, k));
            if (below == 0 && conjugate(m(k, k)) == m(k, k)) continue;
            const double length = std::sqrt(size_squared(m(k, k)) + below);
            const double corner = real_part(m(k, k)) >= 0 ? -length : length;
            const C tau = (C(corner) - m(k, k)) / corner, scale = m(k, k) - C(corner);
            std::vector<C> v(rows);
            v[k] = C(1);
            for (int64_t i = k + 1; i < rows; ++i) v[i] = m(i, k) / scale;
            for (int64_t j = k; j < columns; ++j) {  // (I - conj(tau) v vᴴ) from the left
              C dot{};
              for (int64_t i = k; i < rows; ++i) dot += conjugate(v[i]) * m(i, j);
              for (int64_t i = k; i < rows; ++i) m(i, j) -= conjugate(tau) * dot * v[i];
            }
            for (int64_t i = 0; i < rows; ++i) {  // its inverse from the right
              C dot{};
              for (int64_t j = k; j < rows; ++j) dot += q(i, j) * v[j];
              for (int64_t j = k; j < rows; ++j) q(i, j) -= tau * dot * conjugate(v[j]);
            }
          }
          Matrix<C> q_part(rows, inner), r_part(inner, columns);
          for (int64_t i = 0; i < rows; ++i)
            for (int64_t j = 0; j < inner; ++j) q_part(i, j) = q(i, j);
          for (int64_t i = 0; i < inner; ++i)
            for (int64_t j = i; j < columns; ++j) r_part(i, j) = m(i, j);
          store_matrix(qs, index, q_part);
          store_matrix(rs, index, r_part);
        });
        return std::vector<Array>{qs, rs};
      });
}

// The first columns of the product of reflections I - tau v vᴴ, where v has a 1 on the diagonal and a's numbers below it.
OpDef householder_product() {
  return matrix_op("householder_product", false)
      .doc("the first columns of the product of the reflections I - tau v vᴴ, v: 1 on the diagonal of a, its column below")
      .operands("tau")
      .constraint("householder_product_c2",
                  "tau has a's dtype and batch, and at most as many numbers as a has columns, and it rows",
                  [](const Call& c) {
                    const Shape tau = c.shape("tau");
                    return c.type("tau").dtype == c.type("a").dtype && c.rank("tau") + 1 == c.rank("a") &&
                           c.agree(Shape(tau.begin(), tau.end() - 1), batch_of(c)) && may_be_at_most(tau.back(), columns_of(c)) &&
                           may_be_at_most(columns_of(c), rows_of(c));
                  })
      .infer([](const Call& c) { return c.type("a"); })
      .rounds(Rounding::relative)
      .evaluator([](const Evaluation& ev) {
        const Array &a = ev.array("a"), &taus = ev.array("tau");
        const int64_t steps = taus.shape().back();
        Array out(ev.out_dtype(), a.shape());
        for_each_matrix(a, [&](auto zero, int64_t index) {
          using C = decltype(zero);
          const Matrix<C> m = load_matrix<C>(a, index);
          std::vector<C> tau(steps);
          load_chunk(taus, index * steps, steps, tau.data());
          Matrix<C> q(m.rows, m.columns);
          for (int64_t i = 0; i < m.columns; ++i) q(i, i) = C(1);
          for (int64_t k = steps - 1; k >= 0; --k) {
            for (int64_t j = 0; j < m.columns; ++j) {
              C dot = q(k, j);
              for (int64_t i = k + 1; i < m.rows; ++i) dot += conjugate(m(i, k)) * q(i, j);
              dot *= tau[k];
              q(k, j) -= dot;
              for (int64_t i = k + 1; i < m.rows; ++i) q(i, j) -= dot * m(i, k);
            }
          }
          store_matrix(out, index, q);
        });
        return out;
      })
      .from_aten_call("aten.linalg_householder_product.default",
                      [](AtenCall& c) -> Values {
                        const ValueId a = c.tensor("input");
                        return {c.b.create("householder_product", {a, c.tensor("tau")})};
                      })
      .sample("torch.linalg.householder_product(t(5, 3, dtype=torch.float64), t(3, dtype=torch.float64))")
      .sample("torch.linalg.householder_product(t(2, 4, 4, dtype=torch.complex64), t(2, 3, dtype=torch.complex64))");
}

// ---- the exponential

template <class C> Matrix<C> times(const Matrix<C>& a, const Matrix<C>& b) {
  Matrix<C> y(a.rows, b.columns);
  for (int64_t i = 0; i < a.rows; ++i)
    for (int64_t k = 0; k < a.columns; ++k)
      for (int64_t j = 0; j < b.columns; ++j) y(i, j) += a(i, k) * b(k, j);
  return y;
}

// Taylor's series for the matrix over a power of two, then squared as often.
template <class C> Matrix<C> exponential(Matrix<C> m) {
  double norm = 0;  // the largest sum of a row
  for (int64_t i = 0; i < m.rows; ++i) {
    double sum = 0;
    for (int64_t j = 0; j < m.columns; ++j) sum += std::abs(m(i, j));
    norm = sum > norm || sum != sum ? sum : norm;
  }
  const int squarings = std::isfinite(norm) && norm > 0.5 ? static_cast<int>(std::ceil(std::log2(norm))) + 1 : 0;
  for (C& v : m.values) v *= std::ldexp(1.0, -squarings);
  Matrix<C> term(m.rows, m.columns), y(m.rows, m.columns);
  for (int64_t i = 0; i < m.rows; ++i) term(i, i) = y(i, i) = C(1);
  for (int k = 1; k < 20; ++k) {
    term = times(term, m);
    for (C& v : term.values) v /= static_cast<double>(k);
    for (size_t i = 0; i < y.values.size(); ++i) y.values[i] += term.values[i];
  }
  for (int k = 0; k < squarings; ++k) y = times(y, y);
  return y;
}

OpDef matrix_exp() {
  OpDef def = matrix_op("matrix_exp", true);
  def.doc("exponentials of matrices")
      .infer([](const Call& c) { return c.type("a"); })
      .rounds(Rounding::relative)
      .evaluator([](const Evaluation& ev) {
        const Array& a = ev.array("a");
        Array out(ev.out_dtype(), a.shape());
        for_each_matrix(
            a, [&](auto zero, int64_t index) { store_matrix(out, index, exponential(load_matrix<decltype(zero)>(a, index))); });
        return out;
      });
  for (const char* name : {"aten.matrix_exp.default", "aten.linalg_matrix_exp.default"})
    def.from_aten_call(name, [](AtenCall& c) -> Values { return {c.b.create("matrix_exp", {c.tensor("self")})}; });
  return def.sample("torch.matrix_exp(t(3, 3, dtype=torch.float64))")
      .sample("torch.linalg.matrix_exp(t(2, 4, 4, dtype=torch.complex64) * 5)")
      .sample("torch.matrix_exp(t(0, 0, dtype=torch.float32))");
}

// ---- singular values

// Jacobi's way: pairs of columns of u are turned until all are orthogonal; v takes the same turns.
template <class C> void orthogonalise(Matrix<C>& u, Matrix<C>& v) {
  const auto turn = [](Matrix<C>& m, int64_t p, int64_t q, double c, double s, C phase) {
    for (int64_t i = 0; i < m.rows; ++i) {
      const C a = m(i, p), b = m(i, q) * conjugate(phase);
      m(i, p) = c * a - s * b;
      m(i, q) = s * a + c * b;
    }
  };
  bool moved = true;
  for (int sweep = 0; moved && sweep < 60; ++sweep) {
    moved = false;
    for (int64_t p = 0; p < u.columns; ++p) {
      for (int64_t q = p + 1; q < u.columns; ++q) {
        double first = 0, second = 0;
        C dot{};
        for (int64_t i = 0; i < u.rows; ++i) {
          first += size_squared(u(i, p));
          second += size_squared(u(i, q));
          dot += conjugate(u(i, p)) * u(i, q);
        }
        const double size = std::abs(dot);
        if (!(size > 1e-16 * std::sqrt(first * second)) || size == 0) continue;
        moved = true;
        const double zeta = (second - first) / (2 * size);
        const double t = (zeta >= 0 ? 1 : -1) / (std::abs(zeta) + std::sqrt(1 + zeta * zeta));
        const double c = 1 / std::sqrt(1 + t * t);
        turn(u, p, q, c, c * t, dot / size);
        turn(v, p, q, c, c * t, dot / size);
      }
    }
  }
}

// Columns from `first` on become orthonormal to all others: each starts as the axis that is furthest from what is there.
template <class C> void complete_basis(Matrix<C>& m, int64_t first) {
  for (int64_t column = first; column < m.columns; ++column) {
    int64_t best = 0;
    double least = 2;
    for (int64_t i = 0; i < m.rows; ++i) {
      double covered = 0;
      for (int64_t j = 0; j < column; ++j) covered += size_squared(m(i, j));
      if (covered < least) best = i, least = covered;
    }
    for (int64_t i = 0; i < m.rows; ++i) m(i, column) = i == best ? C(1) : C{};
    for (int round = 0; round < 2; ++round) {  // the second takes what the first one's rounding left
      for (int64_t j = 0; j < column; ++j) {
        C dot{};
        for (int64_t i = 0; i < m.rows; ++i) dot += conjugate(m(i, j)) * m(i, column);
        for (int64_t i = 0; i < m.rows; ++i) m(i, column) -= dot * m(i, j);
      }
      double sum = 0;
      for (int64_t i = 0; i < m.rows; ++i) sum += size_squared(m(i, column));
      for (int64_t i = 0; i < m.rows; ++i) m(i, column) /= std::sqrt(sum);
    }
  }
}

template <class T> std::vector<int64_t> order_of(const std::vector<T>& values, bool rising) {
  std::vector<int64_t> order(values.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&](int64_t p, int64_t q) { return rising ? values[p] < values[q] : values[p] > values[q]; });
  return order;
}

OpDef svd() {
  return matrix_op("svd", false)
      .doc(
          "a = U diag(S) Vᴴ with S falling, as U, S and V; the directions of U and V are not determined; complete: both are "
          "square")
      .attributes(attr<bool>("complete", false))
      .infer_all([](const Call& c) {
        const DType d = c.type("a").dtype;
        const Dim inner = min(rows_of(c), columns_of(c));
        const bool complete = c.boolean("complete");
        return std::vector<Type>{{d, with(batch_of(c), {rows_of(c), complete ? rows_of(c) : inner})},
                                 {real_of(d), with(batch_of(c), {inner})},
                                 {d, with(batch_of(c), {columns_of(c), complete ? columns_of(c) : inner})}};
      })
      .rounds(Rounding::relative)
      .evaluator_all([](const Evaluation& ev) {
        const Array& a = ev.array("a");
        const int64_t rows = a.shape()[a.rank() - 2], columns = a.shape()[a.rank() - 1], inner = std::min(rows, columns),
                      outer = std::max(rows, columns), kept = ev.boolean("complete") ? outer : inner;
        const bool wide = columns > rows;  // then its conjugate transpose is taken apart
        const Sizes batch(a.shape().begin(), a.shape().end() - 2);
        const auto sized = [&](std::initializer_list<int64_t> sizes) {
          Sizes shape = batch;
          shape.insert(shape.end(), sizes);
          return shape;
        };
        Array us(ev.out_dtype(0), sized({rows, wide ? inner : kept})), values(ev.out_dtype(1), sized({inner})),
            vs(ev.out_dtype(2), sized({columns, wide ? kept : inner}));
        for_each_matrix(a, [&](auto zero, int64_t index) {
          using C = decltype(zero);
          const Matrix<C> m = load_matrix<C>(a, index);
          Matrix<C> u(outer, inner), v(inner, inner);
          for (int64_t i = 0; i < outer; ++i)
            for (int64_t j = 0; j < inner; ++j) u(i, j) = wide ? conjugate(m(j, i)) : m(i, j);
          for (int64_t j = 0; j < inner; ++j) v(j, j) = C(1);
          orthogonalise(u, v);
          std::vector<double> norms(inner), sorted;
          for (int64_t j = 0; j < inner; ++j) {
            double sum = 0;
            for (int64_t i = 0; i < outer; ++i) sum += size_squared(u(i, j));
            norms[j] = std::sqrt(sum);
          }
          Matrix<C> left(outer, kept), right(inner, inner);
          int64_t meaningful = 0;  // columns with a direction; that of the others is noise
          for (int64_t from : order_of(norms, false)) {
            const int64_t j = static_cast<int64_t>(sorted.size());
            const double size = norms[from];
            sorted.push_back(size);
            for (int64_t i = 0; i < inner; ++i) right(i, j) = v(i, from);
            if (!(size > 1e-15 * static_cast<double>(outer) * sorted[0]) && size == size) continue;
            for (int64_t i = 0; i < outer; ++i) left(i, j) = u(i, from) / size;
            meaningful = j + 1;
          }
          complete_basis(left, meaningful);
          store_matrix(us, index, wide ? right : left);
          store_matrix(vs, index, wide ? left : right);
          store_chunk(values, index * inner, inner, sorted.data());
        });
        return std::vector<Array>{us, values, vs};
      });
}

// ---- eigenvalues

// Jacobi's way: planes of the hermitian matrix are turned until nothing is left beside the diagonal; q takes the same turns.
template <class C> void diagonalise(Matrix<C>& m, Matrix<C>& q) {
  const int64_t n = m.rows;
  bool moved = true;
  for (int sweep = 0; moved && sweep < 60; ++sweep) {
    moved = false;
    for (int64_t i = 0; i < n; ++i) {
      for (int64_t j = i + 1; j < n; ++j) {
        const double size = std::abs(m(i, j)), first = real_part(m(i, i)), second = real_part(m(j, j));
        if (!(size > 1e-17 * (std::abs(first) + std::abs(second)))) continue;
        moved = true;
        const C phase = m(i, j) / size;
        const double zeta = (second - first) / (2 * size);
        const double t = (zeta >= 0 ? 1 : -1) / (std::abs(zeta) + std::sqrt(1 + zeta * zeta));
        const double c = 1 / std::sqrt(1 + t * t), s = c * t;
        const auto turn_columns = [&](Matrix<C>& x) {
          for (int64_t k = 0; k < n; ++k) {
            const C a = x(k, i), b = x(k, j) * conjugate(phase);
            x(k, i) = c * a - s * b;
            x(k, j) = s * a + c * b;
          }
        };
        turn_columns(m);
        turn_columns(q);
        for (int64_t k = 0; k < n; ++k) {
          const C a = m(i, k), b = m(j, k) * phase;
          m(i, k) = c * a - s * b;
          m(j, k) = s * a + c * b;
        }
        m(i, j) = m(j, i) = C{};
      }
    }
  }
}

OpDef eigh() {
  return matrix_op("eigh", true)
      .doc("eigenvalues, rising, and eigenvectors (columns) of hermitian matrices, from a's lower triangle")
      .infer_all([](const Call& c) {
        const Type& a = c.type("a");
        return std::vector<Type>{{real_of(a.dtype), with(batch_of(c), {rows_of(c)})}, a};
      })
      .rounds(Rounding::relative)
      .evaluator_all([](const Evaluation& ev) {
        const Array& a = ev.array("a");
        const int64_t n = a.shape().back();
        Array values(ev.out_dtype(0), Sizes(a.shape().begin(), a.shape().end() - 1)), vectors(ev.out_dtype(1), a.shape());
        for_each_matrix(a, [&](auto zero, int64_t index) {
          using C = decltype(zero);
          Matrix<C> m = load_matrix<C>(a, index), q(n, n), sorted(n, n);
          for (int64_t i = 0; i < n; ++i) {
            m(i, i) = C(real_part(m(i, i)));
            q(i, i) = C(1);
            for (int64_t j = 0; j < i; ++j) m(j, i) = conjugate(m(i, j));
          }
          diagonalise(m, q);
          std::vector<double> diagonal, rising;
          for (int64_t i = 0; i < n; ++i) diagonal.push_back(real_part(m(i, i)));
          for (int64_t from : order_of(diagonal, true)) {
            for (int64_t i = 0; i < n; ++i) sorted(i, static_cast<int64_t>(rising.size())) = q(i, from);
            rising.push_back(diagonal[from]);
          }
          store_chunk(values, index * n, n, rising.data());
          store_matrix(vectors, index, sorted);
        });
        return std::vector<Array>{values, vectors};
      });
}

}  // namespace

std::vector<OpDef> factorization_ops() {
  return {lu(), cholesky(), solve_triangular(), qr(), svd(), eigh(), householder_product(), matrix_exp()};
}

}  // namespace pycandle
