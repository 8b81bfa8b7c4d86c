// ONNX's operators that pick by data: what is not zero, distinct elements, places to write to, running lengths, n-grams.
#include <algorithm>
#include <map>

#include "ops/core/onnx_helpers.h"

namespace pycandle {
namespace {

// [rank, count]: the places along each axis.
ValueId not_zero(AtenCall& c) {
  const ValueId x = c.tensor("X");
  const ValueId places = c.b.create("nonzero", {x}, {{"count", DataSizes::of(c, 0, 1)}});
  return c.b.transpose(places, {1, 0});
}

// The slices whose condition holds; conditions may be fewer.
ValueId compressed(AtenCall& c) {
  Builder& b = c.b;
  ValueId x = c.tensor("input");
  const ValueId condition = c.tensor("condition");
  if (c.is_none("axis")) x = b.reshape(x, {product(b.shape(x))});
  const int64_t axis = c.is_none("axis") ? 0 : b.normal_axis(c.integer("axis"), b.rank(x));
  const Dim count = DataSizes::of(c, 0, static_cast<size_t>(axis));
  const ValueId places = b.reshape(b.create("nonzero", {condition}, {{"count", count}}), {count});
  return b.create("take", {x, places}, {{"axis", axis}});
}

// First place of each distinct element: the smallest position among those that are equal.
Values distinct(AtenCall& c) {
  Builder& b = c.b;
  const ValueId x = c.tensor("X");
  const bool whole = c.is_none("axis"), sorted = c.integer("sorted") != 0;
  const int64_t axis = whole ? 0 : b.normal_axis(c.integer("axis"), b.rank(x));
  const Dim count = DataSizes::of(c, 0, static_cast<size_t>(axis));
  const ValueId flat = whole ? b.reshape(x, {product(b.shape(x))}) : x;
  const Values made = b.create_all("unique", {flat}, {{"count", count}, {"axis", axis}, {"consecutive", false}});
  const Dim size = b.shape(flat)[axis];
  const ValueId places = b.reshape(made[1], {size});
  const ValueId first = b.create("scatter", {b.broadcast_to(b.dim_value(size), {count}), places, b.iota(size)},
                                 {{"axis", int64_t{0}}, {"reduce", std::string("amin")}, {"include_self", true}});
  if (sorted) return {made[0], first, places, made[2]};
  // In the order in which they come first.
  const Values order = b.create_all("sort", {first}, {{"axis", int64_t{0}}, {"descending", false}, {"stable", true}});
  const ValueId back = b.create("scatter", {b.full(int64_t{0}, DType::i64, {count}), order[1], b.iota(count)},
                                {{"axis", int64_t{0}}, {"reduce", std::string("none")}, {"include_self", true}});
  const auto moved = [&](ValueId v, ValueId by, int64_t along) { return b.create("take", {v, by}, {{"axis", along}}); };
  return {moved(made[0], order[1], axis), order[0], moved(back, places, 0), moved(made[2], order[1], 0)};
}

const std::string& reduction_of(AtenCall& c) {
  static const std::map<std::string, std::string> kReductions = {
      {"none", "none"}, {"add", "add"}, {"mul", "multiply"}, {"max", "amax"}, {"min", "amin"}};
  const std::string given = c.has_argument("reduction") ? c.string("reduction") : "none";
  const auto found = kReductions.find(given);
  if (found == kReductions.end()) c.unsupported("reduction='" + given + "'");
  return found->second;
}

// indices[..., k]: places along the first k axes. The places of one row of updates are flat, and x a matrix.
ValueId scattered_nd(AtenCall& c) {
  Builder& b = c.b;
  const ValueId x = c.tensor("data"), updates = c.tensor("updates");
  const ValueId indices = c.tensor("indices");
  const int64_t depth = b.rank(indices) == 0 ? 0 : b.shape(indices).back().maybe_number().value_or(0);
  c.expects(depth >= 1 && depth <= b.rank(x), "indices whose last size is a number of axes of x");
  const Shape shape = b.shape(x);
  Dim rows = 1, width = 1;
  ValueId place = kNoValue;
  for (int64_t k = 0; k < depth; ++k) {
    const ValueId at = from_either_end(b, b.select_index(indices, b.rank(indices) - 1, k), shape[k]);
    place = place == kNoValue ? at : b.add(b.mul(place, b.dim_value(shape[k])), at);
    rows = rows * shape[k];
  }
  for (size_t i = static_cast<size_t>(depth); i < shape.size(); ++i) width = width * shape[i];
  const Dim count = product(b.shape(place));
  const ValueId index = b.broadcast_to(b.reshape(place, {count, 1}), {count, width});
  const ValueId y = b.create("scatter", {b.reshape(x, {rows, width}), index, b.reshape(updates, {count, width})},
                             {{"axis", int64_t{0}}, {"reduce", reduction_of(c)}, {"include_self", true}});
  return b.reshape(y, shape);
}

ValueId scattered(AtenCall& c) {
  const ValueId x = c.tensor("data");
  const int64_t axis = c.b.normal_axis(c.integer("axis"), c.b.rank(x));
  return c.b.create("scatter", {x, from_either_end(c.b, c.tensor("indices"), c.b.shape(x)[axis]), c.tensor("updates")},
                    {{"axis", axis}, {"reduce", std::string("none")}, {"include_self", true}});
}

// The first `length` steps of each sequence, backwards.
ValueId reversed_sequences(AtenCall& c) {
  Builder& b = c.b;
  const ValueId x = c.tensor("input");
  const int64_t rank = b.rank(x), batch = b.normal_axis(c.integer("batch_axis"), rank),
                time = b.normal_axis(c.integer("time_axis"), rank);
  c.expects(batch != time && rank >= 2, "a batch and a time axis");
  const ValueId lengths = along_axis(b, b.cast(c.tensor("sequence_lens"), DType::i64), batch, rank);
  const ValueId step = along_axis(b, b.iota(b.shape(x)[time]), time, rank);
  const ValueId place = b.select(b.compare("lt", step, lengths), b.sub(b.sub(lengths, 1.0), step), step);
  return b.create("gather", {x, b.broadcast_to(place, b.shape(x))}, {{"axis", time}});
}

ValueId identity_like(AtenCall& c) {
  Builder& b = c.b;
  const ValueId x = c.tensor("input");
  const DType dtype = maybe_onnx_dtype(c, "dtype").value_or(b.dtype(x));
  c.expects(b.rank(x) == 2, "a matrix");
  const Dim rows = b.shape(x)[0], columns = b.shape(x)[1];
  const ValueId row = b.reshape(b.add(b.iota(rows), b.dim_value(Dim(c.integer("k")))), {rows, 1});
  return b.cast(b.compare("eq", b.iota(columns), row), dtype);
}

// ---- n-grams

struct Ngram {
  Ints tokens;
  int64_t output;
  double weight;
};

std::vector<Ngram> ngrams_of(AtenCall& c, int64_t shortest, int64_t longest) {
  if (!c.is_none("pool_strings")) c.unsupported("pool_strings");
  const Ints starts = c.integers("ngram_counts"), outputs = c.integers("ngram_indexes"), pool = c.integers("pool_int64s");
  const Numbers weights = c.numbers("weights");
  std::vector<Ngram> all;
  for (size_t n = 0; n < starts.size(); ++n) {
    const int64_t begin = starts[n], end = n + 1 < starts.size() ? starts[n + 1] : static_cast<int64_t>(pool.size());
    const auto length = static_cast<int64_t>(n) + 1;
    c.expects(begin >= 0 && begin <= end && end <= static_cast<int64_t>(pool.size()) && (end - begin) % length == 0,
              "n-grams that lie in the pool");
    for (int64_t at = begin; at < end; at += length) {
      const size_t number = all.size();
      c.expects(number < outputs.size() && (weights.empty() || number < weights.size()), "an index and a weight for each n-gram");
      const bool counts = length >= shortest && length <= longest;
      all.push_back({counts ? Ints(pool.begin() + at, pool.begin() + at + length) : Ints{}, outputs[number],
                     weights.empty() ? 1.0 : weights[number]});
    }
  }
  return all;
}

// How often each n-gram stands in each row, its tokens 1 … max_skip_count + 1 apart.
ValueId ngram_counts(AtenCall& c) {
  Builder& b = c.b;
  ValueId x = c.tensor("X");
  const int64_t shortest = c.integer("min_gram_length"), longest = c.integer("max_gram_length"),
                skips = c.integer("max_skip_count");
  const std::string mode = c.string("mode");
  const std::vector<Ngram> all = ngrams_of(c, shortest, longest);
  const bool is_row = b.rank(x) == 1;
  if (is_row) x = b.unsqueeze(x, 0);
  const auto length = b.shape(x).at(1).maybe_number();
  if (!length) c.unsupported("rows whose length is open");
  c.expects(!all.empty() && all.size() <= 4096 && skips >= 0 && skips <= 64 && (mode == "TF" || mode == "IDF" || mode == "TFIDF"),
            "at most 4,096 n-grams, and a mode that there is");
  const Dim rows = b.shape(x)[0];
  int64_t width = 0;
  for (const Ngram& n : all) width = std::max(width, n.output + 1);
  c.expects(width <= (1 << 20), "outputs that are not far apart");
  Values columns(static_cast<size_t>(width), kNoValue);
  for (const Ngram& n : all) {
    const auto size = static_cast<int64_t>(n.tokens.size());
    c.expects(n.output >= 0, "outputs of 0 or more");
    if (size == 0) continue;
    ValueId found = kNoValue;
    for (int64_t step = 1; step <= (size == 1 ? 1 : skips + 1); ++step) {
      const int64_t places = *length - (size - 1) * step;
      if (places <= 0) break;
      ValueId hit = kNoValue;
      for (int64_t i = 0; i < size; ++i) {
        const ValueId token = b.slice(x, 1, i * step, i * step + places);
        const ValueId same = b.compare("eq", token, b.full(n.tokens[i], b.dtype(x)));
        hit = hit == kNoValue ? same : b.logical_and(hit, same);
      }
      const ValueId count = b.sum(b.cast(hit, DType::f32), {1});
      found = found == kNoValue ? count : b.add(found, count);
    }
    if (found == kNoValue) continue;
    if (mode == "IDF") found = b.minimum(found, 1.0);
    if (mode != "TF") found = b.mul(found, n.weight);
    ValueId& column = columns[static_cast<size_t>(n.output)];
    column = column == kNoValue ? found : b.add(column, found);
  }
  for (ValueId& column : columns)
    if (column == kNoValue) column = b.full(0.0, DType::f32, {rows, 1});
  const ValueId y = columns.size() == 1 ? columns[0] : b.concat(columns, 1);
  return is_row ? b.squeeze(y, 0) : y;
}

}  // namespace

std::vector<OpDef> indexing_onnx_ops() {
  return {
      onnx_mapped("nonzero", {"onnx.NonZero.9(X)"}, not_zero),
      onnx_mapped("take", {"onnx.Compress.9(input, condition; axis=none)"}, compressed),
      onnx_mapped_all("unique", {"onnx.Unique.11(X; axis=none, sorted=1)"}, distinct),
      onnx_mapped("scatter",
                  {"onnx.ScatterND.11(data, indices, updates)", "onnx.ScatterND.16(data, indices, updates; reduction=\"none\")"},
                  scattered_nd),
      onnx_mapped("scatter", {"onnx.Scatter.9(data, indices, updates; axis=0)"}, scattered),
      onnx_mapped("gather", {"onnx.ReverseSequence.10(input, sequence_lens; batch_axis=1, time_axis=0)"}, reversed_sequences),
      onnx_mapped("eye", {"onnx.EyeLike.9(input; dtype=none, k=0)"}, identity_like),
      onnx_mapped("eq",
                  {"onnx.TfIdfVectorizer.9(X; max_gram_length!, max_skip_count!, min_gram_length!, mode!, ngram_counts!, "
                   "ngram_indexes!, pool_int64s=none, pool_strings=none, weights=none)"},
                  ngram_counts)};
}

}  // namespace pycandle
