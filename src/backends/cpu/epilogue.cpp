#include "backends/cpu/epilogue.h"

#include "backends/cpu/chain.h"
#include "base/function_ref.h"

namespace pycandle::cpu {

std::optional<View> as_matrix(const View& v, int64_t rows, int64_t columns) {
  auto m = reshaped(v, {rows, columns});
  if (m && columns > 1 && m->strides[1] != 1) return std::nullopt;
  return m;
}

namespace {

// An operand as a matrix of rows as long as the result's; nothing when it is none.
using AsMatrix = FunctionRef<std::optional<View>(ValueId)>;

FusedEpilogue fuse(Planner& p, ValueId value, AsMatrix matrix_of) {
  FusedEpilogue f;
  f.value = value;
  bool has_activation = false;
  const auto only_user = [&]() -> std::optional<size_t> {
    const auto& users = p.shared().users[f.value];
    if (p.uses(f.value) != 1 || users.size() != 1 || p.is_done(users[0])) return std::nullopt;
    return users[0];
  };
  const auto swallow = [&](size_t user) {
    p.mark_done(user);
    f.value = p.node(user).results[0];
  };
  while (const auto user = only_user()) {
    const Node& node = p.node(*user);
    const std::string& op = node.op->name;
    if (p.dtype(node.results[0]) != DType::f32 || p.sizes(node.results[0]) != p.sizes(f.value)) break;
    if (node.operands.size() == 1) {
      const auto a = activation(p, *user);
      if (!a || has_activation || f.epilogue.multiplier_row != 0) break;
      f.epilogue.residual_first = f.epilogue.residual_row != 0;
      if (f.epilogue.residual_first) f.residual = kNoBuffer;
      f.epilogue.activation = static_cast<Unary>(a->function);
      f.epilogue.p = a->p;
      f.epilogue.q = a->q;
      has_activation = true;
      swallow(*user);
      if (f.epilogue.residual_first) break;
      continue;
    }
    if (f.epilogue.residual_row != 0) break;  // after a sum there may be an activation, nothing else
    if ((op != "add" && op != "mul") || node.operands.size() != 2) break;
    const ValueId other = node.operands[0] == f.value ? node.operands[1] : node.operands[0];
    if (other == f.value || !p.is_known(other) || p.dtype(other) != DType::f32 || p.sizes(other) != p.sizes(f.value)) break;
    const auto matrix = matrix_of(other);
    if (!matrix) break;
    const int64_t row = matrix->sizes[0] > 1 ? matrix->strides[0] : std::max<int64_t>(matrix->sizes[1], 1);
    if (op == "mul") {
      if (f.epilogue.multiplier_row != 0 || row == 0) break;
      f.epilogue.multiplier_row = row;
      f.reads.push_back({offsetof(Epilogue, multiplier), *matrix});
      swallow(*user);
      continue;
    }
    if (row == 0) break;  // a repeated row: the chains can do that
    f.epilogue.residual_row = row;
    f.reads.push_back({offsetof(Epilogue, residual), *matrix});
    const bool is_plain = !has_activation && f.epilogue.multiplier_row == 0;
    if (is_plain && matrix->is_dense() && matrix->offset == 0) f.residual = matrix->buffer;
    swallow(*user);
  }
  return f;
}

}  // namespace

FusedEpilogue fuse_epilogue(Planner& p, ValueId value, int64_t rows, int64_t columns) {
  return fuse(p, value, [&](ValueId other) { return as_matrix(p.view(other), rows, columns); });
}

FusedEpilogue fuse_blocked_epilogue(Planner& p, ValueId value) {
  const int64_t lanes = kernels().lanes;
  return fuse(p, value, [&](ValueId other) -> std::optional<View> {
    if (!p.is_blocked(other) && p.is_one_a_channel(other)) return std::nullopt;  // the chains can do that
    const View blocks = p.blocked(other);
    return dense_view(blocks.buffer, blocks.dtype, {blocks.count() / lanes, lanes});
  });
}

}  // namespace pycandle::cpu
