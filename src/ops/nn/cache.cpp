// What a decode step does with its cache (docs/decoding.md): rows are put in behind those that are there, per sequence.
#include "ops/core/functional_helpers.h"

namespace pycandle {
namespace {

bool is_start_of_each(const Call& c) {
  const Type& starts = c.type("starts");
  return starts.dtype == DType::i64 && starts.rank() == 1 && c.agree(starts.shape[0], c.shape("cache")[0]);
}

OpDef cache_append() {
  return functional("cache_append")
      .doc("the cache with rows [batch, …, new, …] written at positions starts[b], starts[b] + 1, … of an axis; batch is axis 0")
      .operands("cache", "rows", "starts")
      .attributes(attr<int64_t>("axis"))
      .constraint("cache_append_c1", "axis is an axis of cache, and not its first",
                  [](const Call& c) { return c.integer("axis") > 0 && c.integer("axis") < c.rank("cache"); })
      .constraint("cache_append_c2", "rows have the dtype of cache and its dims, but for that axis",
                  [](const Call& c) {
                    Shape rows = c.shape("rows");
                    if (rows.size() != c.shape("cache").size() || c.type("rows").dtype != c.type("cache").dtype) return false;
                    rows[c.integer("axis")] = c.shape("cache")[c.integer("axis")];
                    return c.agree(rows, c.shape("cache"));
                  })
      .constraint("cache_append_c3", "starts is i64 [batch]", is_start_of_each)
      .infer([](const Call& c) { return c.type("cache"); })
      .decompose([](Builder& b, const Call& c) {
        const int64_t axis = c.integer("axis"), rank = c.rank("cache");
        const ValueId rows = c.value("rows");
        const ValueId new_row = along_axis(b, b.iota(b.shape(rows)[axis]), axis, rank);
        const ValueId index = b.add(along_axis(b, c.value("starts"), 0, rank), new_row);
        return b.create("scatter", {c.value("cache"), b.broadcast_to(index, b.shape(rows)), rows}, {{"axis", axis}});
      })
      .results({"cache"});
}

OpDef cache_last() {
  return functional("cache_last")
      .doc("the row of the cache before position starts[b] of an axis, [batch, …, 1, …]; initial where there is none")
      .operands("cache", "initial", "starts")
      .attributes(attr<int64_t>("axis"))
      .constraint("cache_last_c1", "axis is an axis of cache, and not its first",
                  [](const Call& c) { return c.integer("axis") > 0 && c.integer("axis") < c.rank("cache"); })
      .constraint("cache_last_c2", "initial is one row: it has the dtype of cache and its dims, but 1 along that axis",
                  [](const Call& c) {
                    Shape one = c.shape("cache");
                    one[c.integer("axis")] = 1;
                    return c.type("initial").dtype == c.type("cache").dtype && c.rank("initial") == c.rank("cache") &&
                           c.agree(c.shape("initial"), one);
                  })
      .constraint("cache_last_c3", "starts is i64 [batch]", is_start_of_each)
      .infer([](const Call& c) { return c.type("initial"); })
      .decompose([](Builder& b, const Call& c) {
        const int64_t axis = c.integer("axis"), rank = c.rank("cache");
        const ValueId starts = c.value("starts"), zero = b.full(int64_t{0}, DType::i64);
        const auto over_batch = [&](ValueId v) { return b.broadcast_to(along_axis(b, v, 0, rank), c.shape("initial")); };
        const ValueId last = b.maximum(b.sub(starts, b.full(int64_t{1}, DType::i64)), zero);
        const ValueId row = b.create("gather", {c.value("cache"), over_batch(last)}, {{"axis", axis}});
        return b.select(over_batch(b.compare("le", starts, zero)), c.value("initial"), row);
      })
      .results({"last"});
}

}  // namespace

std::vector<OpDef> cache_ops() { return {cache_append(), cache_last()}; }

}  // namespace pycandle
