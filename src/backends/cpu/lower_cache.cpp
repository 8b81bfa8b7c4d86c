// What a decode step does with its cache: rows are written into the memory of the state itself, at a place that is known only
// when it runs, and rows of 16 bits are made of f32 and read as such.
#include <fmt/format.h>

#include <algorithm>

#include "backends/cpu/cache_rows.h"
#include "backends/cpu/copy.h"
#include "backends/cpu/kernel_step.h"
#include "backends/cpu/lowerings.h"
#include "base/error.h"

namespace pycandle::cpu {

std::optional<WeightFormat> half_format(DType dtype) {
  if (dtype == DType::bf16) return WeightFormat::bf16;
  if (dtype == DType::f16) return WeightFormat::f16;
  return std::nullopt;
}

namespace {

// Is this the memory of a state, of which nobody reads the old rows afterwards? cache_last reads them in a step of its own.
bool can_be_overwritten(Planner& p, ValueId v, const View& view, size_t index) {
  const std::vector<size_t>& users = p.shared().users[v];
  const auto is_before = [&](size_t n) { return n == index || (n < index && p.node(n).op->name == "cache_last"); };
  return p.is_state(view) && static_cast<size_t>(p.uses(v)) == users.size() && std::all_of(users.begin(), users.end(), is_before);
}

bool lower_cache_append(Planner& p, size_t index) {
  const Node& node = p.node(index);
  const Call c = p.call(index);
  const auto axis = static_cast<size_t>(c.integer("axis"));
  View cache = p.view(c.value("cache"));
  if (!can_be_overwritten(p, c.value("cache"), cache, index)) {
    const View own = p.result(node.results[0]);
    p.copy(cache, own);
    cache = own;
  }
  const View rows = p.view(c.value("rows")), starts = p.dense(c.value("starts"));
  // One sequence: where it lies in the cache is added when it runs.
  const auto of_sequence = [](View v) {
    v.sizes.erase(v.sizes.begin());
    v.strides.erase(v.strides.begin());
    return v;
  };
  View place = of_sequence(cache);
  place.sizes[axis - 1] = rows.sizes[axis];
  const int64_t batch = rows.sizes[0], fresh = rows.sizes[axis], capacity = cache.sizes[axis], row = cache.strides[axis];
  Step step;
  step.kernel = "cache_append";
  step.reads = {rows.buffer, starts.buffer, cache.buffer};
  step.writes = {cache.buffer};
  step.work = static_cast<double>(rows.count());
  step.bytes = 2 * rows.bytes();
  step.run = [=, copy = strided_copy(of_sequence(rows), place)](Context& context) {
    const auto* at = context.pointer<int64_t>(starts);
    const auto size = static_cast<int64_t>(size_of(cache.dtype));
    for (int64_t b = 0; b < batch; ++b) {
      if (at[b] < 0 || at[b] + fresh > capacity)
        throw Error(ErrorCode::bad_input, "rows do not fit into the cache")
            .expected(fmt::format("positions from 0 to {}", capacity - 1))
            .found(fmt::format("{} to {} of sequence {}", at[b], at[b] + fresh - 1, b));
      run_copy(copy, context.pointer<std::byte>(rows) + b * rows.strides[0] * size,
               context.pointer<std::byte>(cache) + (b * cache.strides[0] + at[b] * row) * size, 1);
    }
  };
  if (rows.count() > 0) p.add(std::move(step));
  p.define(node.results[0], cache);
  return true;
}

bool lower_cache_last(Planner& p, size_t index) {
  const Node& node = p.node(index);
  const Call c = p.call(index);
  const auto axis = static_cast<size_t>(c.integer("axis"));
  const View cache = p.view(c.value("cache")), initial = p.dense(c.value("initial")), starts = p.dense(c.value("starts"));
  const View out = p.result(node.results[0]);
  const auto of_sequence = [&](View v) {
    v.sizes.erase(v.sizes.begin());
    v.strides.erase(v.strides.begin());
    v.sizes[axis - 1] = 1;
    return v;
  };
  const View to = of_sequence(out);
  const int64_t batch = out.sizes[0], capacity = cache.sizes[axis], row = cache.strides[axis];
  Step step;
  step.kernel = "cache_last";
  step.reads = {cache.buffer, initial.buffer, starts.buffer};
  step.writes = {out.buffer};
  step.bytes = 2 * out.bytes();
  step.run = [=, kept = strided_copy(of_sequence(cache), to), first = strided_copy(of_sequence(initial), to)](Context& context) {
    const auto* at = context.pointer<int64_t>(starts);
    const auto size = static_cast<int64_t>(size_of(out.dtype));
    for (int64_t b = 0; b < batch; ++b) {
      if (at[b] > capacity)
        throw Error(ErrorCode::bad_input, "the cache has no such row").found(fmt::format("{} of sequence {}", at[b] - 1, b));
      std::byte* here = context.pointer<std::byte>(out) + b * out.strides[0] * size;
      if (at[b] <= 0) {
        run_copy(first, context.pointer<std::byte>(initial) + b * initial.strides[0] * size, here, 1);
      } else {
        run_copy(kept, context.pointer<std::byte>(cache) + (b * cache.strides[0] + (at[b] - 1) * row) * size, here, 1);
      }
    }
  };
  if (out.count() > 0) p.add(std::move(step));
  p.define(node.results[0], out);
  return true;
}

// ---- rows of 16 bits

// Do only kernels that read rows of 16 bits use the value?
bool is_read_over_cache(const Planner& p, ValueId v) {
  const std::vector<size_t>& users = p.shared().users[v];
  const auto is_one = [&](size_t n) {
    const Node& node = p.node(n);
    const std::string& op = node.op->name;
    if (op == "transpose" || op == "reshape") return is_read_over_cache(p, node.results[0]);
    return op == "cached_attention" && (node.operands[1] == v || node.operands[2] == v) && node.operands[0] != v;
  };
  return p.shared().taps_of[v].empty() && static_cast<size_t>(p.uses(v)) == users.size() &&
         std::all_of(users.begin(), users.end(), is_one);
}

bool lower_cast(Planner& p, size_t index) {
  const Node& node = p.node(index);
  const ValueId x = node.operands[0], y = node.results[0];
  const bool widens = p.dtype(y) == DType::f32 && half_format(p.dtype(x));
  if (widens && is_read_over_cache(p, y)) {
    p.define(y, p.view(x));  // as it is kept: those kernels look at the dtype of the view
    return true;
  }
  return lower_integers(p, index);  // between f32 and halves it is a part of a chain
}

}  // namespace

View widened_rows(Planner& p, const View& rows, const View& starts, int64_t fresh) {
  const auto format = half_format(rows.dtype);
  if (!format) return rows;
  const View out = dense_view(p.new_buffer(static_cast<size_t>(rows.count()) * 4), DType::f32, rows.sizes);
  const int64_t heads = rows.sizes[0] * rows.sizes[1], keys = rows.sizes[2], size = rows.sizes[3];
  const int parts = parts_for(p.threads(), heads, static_cast<double>(rows.count()));
  Step step;
  step.kernel = "cast";
  step.reads = {rows.buffer, starts.buffer};
  step.writes = {out.buffer};
  step.work = static_cast<double>(rows.count());
  step.run = [=, format = *format, &k = kernels()](Context& c) {
    run_parts(parts, [&](int part) {
      for (int64_t unit = part_of(heads, parts, part); unit < part_of(heads, parts, part + 1); ++unit) {
        const int64_t b = unit / rows.sizes[1], h = unit % rows.sizes[1];
        const int64_t used = std::min(keys, c.pointer<int64_t>(starts)[b] + fresh);
        const uint16_t* from = c.pointer<uint16_t>(rows) + b * rows.strides[0] + h * rows.strides[1];
        for (int64_t j = 0; j < used; ++j)
          k.widen(format, from + j * rows.strides[2], size, c.pointer(out) + (unit * keys + j) * size);
      }
    });
  };
  if (rows.count() > 0) p.add(std::move(step));
  return out;
}

std::vector<Lowering> cache_lowerings() {
  return {
      {"cache_append", nullptr, lower_cache_append}, {"cache_last", nullptr, lower_cache_last}, {"cast", nullptr, lower_cast}};
}

}  // namespace pycandle::cpu
