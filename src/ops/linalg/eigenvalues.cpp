// torch.linalg over singular values and eigenvalues.
#include <fmt/format.h>

#include "ops/core/functional_helpers.h"

namespace pycandle {
namespace {

ValueId conjugate_transposed(Builder& b, ValueId x) {
  x = b.swap_axes(x, -1, -2);
  return is_complex(b.dtype(x)) ? b.unary("conj", x) : x;
}

// The hermitian matrix that the lower triangle stands for: all that torch reads, and of the diagonal its real part.
ValueId mirrored(Builder& b, ValueId a) {
  const DType dtype = b.dtype(a);
  const Dim n = b.shape(a).back();
  const ValueId below = b.create("tril", {a}, {{"diagonal", Dim(-1)}});
  const ValueId on_diagonal = b.create("eye", {}, {{"rows", n}, {"columns", n}, {"dtype", DType::boolean}});
  const ValueId real = is_complex(dtype) ? b.cast(b.unary("real", a), dtype) : a;
  return b.select(on_diagonal, real, b.add(below, conjugate_transposed(b, below)));
}

OpDef singular_value_decompositions() {
  OpDef def = mapping("svd");
  def.from_aten_call("aten.linalg_svd.default", [](AtenCall& c) -> Values {
    c.discard("driver", "only for GPUs");
    const bool complete = c.boolean("full_matrices");
    const Values usv = c.b.create_all("svd", {c.tensor("A")}, {{"complete", complete}});
    return {usv[0], usv[1], conjugate_transposed(c.b, usv[2])};
  });
  def.from_aten_call("aten.svd.default", [](AtenCall& c) -> Values {
    Builder& b = c.b;
    const bool vectors = c.boolean("compute_uv"), complete = !c.boolean("some") || !vectors;
    Values usv = b.create_all("svd", {c.tensor("self")}, {{"complete", complete}});
    for (size_t i : {size_t{0}, size_t{2}})
      if (!vectors) usv[i] = b.full(0.0, b.dtype(usv[i]), b.shape(usv[i]));
    return usv;
  });
  def.from_aten_call("aten.linalg_svdvals.default", [](AtenCall& c) -> Values {
    c.discard("driver", "only for GPUs");
    return {c.b.create_all("svd", {c.tensor("A")})[1]};
  });
  return def.sample("torch.linalg.svdvals(t(2, 5, 3, dtype=torch.float64))")
      .sample("torch.linalg.svd(t(2, 5, 3, dtype=torch.float64))[1]")
      .sample("torch.linalg.svd(t(3, 5, dtype=torch.complex64), full_matrices=False)[1]")
      .sample("torch.svd(t(3, 2, dtype=torch.float64), compute_uv=False)")
      .sample(
          "(lambda u, s, v: (u.mT @ u, v @ v.mT))(*torch.linalg.svd(t(4, 1, dtype=torch.float64) @ t(1, 5, "
          "dtype=torch.float64)))")
      .sample("(lambda u, s, v: (u[:, :2] * s) @ v)(*torch.linalg.svd(t(4, 2, dtype=torch.float64)))");
}

OpDef eigenvalues() {
  OpDef def = mapping("eigh");
  for (const char* name : {"linalg_eigh", "linalg_eigvalsh"})
    def.from_aten_call(fmt::format("aten.{}.default", name), [](AtenCall& c) -> Values {
      const ValueId a = c.has_argument("A") ? c.tensor("A") : c.tensor("self");
      const std::string triangle = c.string("UPLO");
      const bool upper = triangle == "U" || triangle == "u";
      if (!upper && triangle != "L" && triangle != "l")
        throw Error(ErrorCode::bad_input, "UPLO is unknown").expected("U or L").found(triangle);
      Values found = c.b.create_all("eigh", {upper ? conjugate_transposed(c.b, a) : a});
      if (c.result_count() < 2) found.pop_back();
      return found;
    });
  return def.sample("torch.linalg.eigvalsh(t(2, 4, 4, dtype=torch.float64))")
      .sample("torch.linalg.eigvalsh(t(4, 4, dtype=torch.complex64), UPLO='U')")
      .sample("(lambda l, q: (q * l) @ q.mT)(*torch.linalg.eigh(t(4, 4, dtype=torch.float64)))");
}

bool is_empty_matrix(Builder& b, ValueId a) {
  const Shape& shape = b.shape(a);
  return shape[shape.size() - 1] == Dim(0) || shape[shape.size() - 2] == Dim(0);
}

// Singular values and what they must exceed not to count as 0: max(atol, rtol * the largest). By default rtol is
// max(rows, columns) times the distance from 1 to the next number, unless there is an atol.
struct Spectrum {
  Values usv;
  ValueId counts;  // which of them do
};
std::optional<Spectrum> spectrum(AtenCall& c, ValueId a, const char* relative_name, const char* absolute_name,
                                 bool relative_by_default) {
  Builder& b = c.b;
  const int64_t rank = b.rank(a);
  const DType real = real_of(b.dtype(a));
  const auto given = [&](const char* name) -> std::optional<ValueId> {
    if (!c.has_argument(name) || c.is_none(name)) return {};
    return materialise(b, c.operand(name), real);
  };
  const std::optional<ValueId> absolute = given(absolute_name);
  std::optional<ValueId> relative = given(relative_name);
  if (!relative && (relative_by_default || !absolute)) {
    const Dim longest = max(b.shape(a)[rank - 2], b.shape(a)[rank - 1]);
    const ValueId usual = b.mul(b.dim_value(longest, real), 2 * unit_roundoff(real));
    relative = absolute ? b.select(b.compare("gt", *absolute, 0.0), b.full(0.0, real), usual) : usual;
  }
  if (c.has_argument("hermitian") && c.boolean("hermitian")) a = mirrored(b, a);
  if (is_empty_matrix(b, a)) return {};
  const Values usv = b.create_all("svd", {a});
  const auto beside = [&](ValueId v) { return b.rank(v) == 0 ? v : b.unsqueeze(v, -1); };
  ValueId least = relative ? b.mul(beside(*relative), b.max(usv[1], {-1})) : beside(*absolute);
  if (relative && absolute) least = b.maximum(beside(*absolute), least);
  return Spectrum{usv, b.compare("gt", usv[1], least)};
}

OpDef pseudo_inverse() {
  OpDef def = mapping("svd");
  for (const char* overload : {"aten.linalg_pinv.atol_rtol_tensor", "aten.linalg_pinv.atol_rtol_float",
                               "aten.linalg_pinv.default", "aten.linalg_pinv.rcond_tensor", "aten.pinverse.default"})
    def.from_aten_call(overload, [](AtenCall& c) -> Values {
      Builder& b = c.b;
      const ValueId a = c.tensor("self");
      const auto s = spectrum(c, a, c.has_argument("rcond") ? "rcond" : "rtol", "atol", true);
      if (!s) return {b.full(0.0, b.dtype(a), c.result().shape)};
      const ValueId zero = b.full(0.0, b.dtype(s->usv[1]));
      const ValueId inverted = b.cast(b.select(s->counts, b.unary("reciprocal", s->usv[1]), zero), b.dtype(a));
      return {b.matmul(b.mul(s->usv[2], b.unsqueeze(inverted, -2)), conjugate_transposed(b, s->usv[0]))};
    });
  return def.sample("torch.linalg.pinv(t(2, 3, 4, dtype=torch.float64))")
      .sample("torch.linalg.pinv(t(4, 2, dtype=torch.float64) @ t(2, 4, dtype=torch.float64), rtol=1e-6)")
      .sample("torch.linalg.pinv(t(3, 3, dtype=torch.float64), hermitian=True)")
      .sample("torch.linalg.pinv(t(3, 3, dtype=torch.complex64))")
      .sample("torch.linalg.pinv(t(3, 3, dtype=torch.complex64), hermitian=True)");
}

OpDef matrix_rank() {
  OpDef def = mapping("svd");
  for (const char* overload : {"atol_rtol_tensor", "atol_rtol_float", "default", "tol_tensor"})
    def.from_aten_call(fmt::format("aten.linalg_matrix_rank.{}", overload), [](AtenCall& c) -> Values {
      Builder& b = c.b;
      const ValueId a = c.has_argument("input") ? c.tensor("input") : c.tensor("self");
      const bool absolute_alone = c.has_argument("tol");  // the older way: nothing relative beside it
      const auto s = spectrum(c, a, "rtol", absolute_alone ? "tol" : "atol", !absolute_alone);
      if (!s) return {b.full(int64_t{0}, DType::i64, c.result().shape)};
      return {b.sum(b.cast(s->counts, DType::i64), {-1}, false)};
    });
  return def.sample("torch.linalg.matrix_rank(t(4, 2, dtype=torch.float64) @ t(2, 4, dtype=torch.float64))")
      .sample("torch.linalg.matrix_rank(t(2, 3, 4, dtype=torch.float64), atol=1.0)")
      .sample("torch.linalg.matrix_rank(t(3, 3, dtype=torch.float64), tol=0.5, hermitian=True)");
}

}  // namespace

std::vector<OpDef> eigenvalue_ops() { return {singular_value_decompositions(), eigenvalues(), pseudo_inverse(), matrix_rank()}; }

}  // namespace pycandle
