// Matrix products: linear and dot_general. f32 runs in tiles of rows times panels of 16 columns (tiles.cpp); weights are laid out
// in panels when the file is generated. Other dtypes take plain loops.
#include "backends/c/products.h"

#include <algorithm>
#include <utility>

#include "backends/c/lowerings.h"
#include "backends/c/narrow.h"
#include "backends/c/text.h"

namespace pycandle::c {

Array packed_panels(const Array& matrix, int64_t columns, int64_t depth, int64_t column_stride, int64_t depth_stride,
                    int64_t width) {
  const int64_t panels = (columns + width - 1) / width;
  Array packed(DType::f32, {panels, depth, width});
  const float* from = matrix.as<float>();
  float* to = packed.mutable_as<float>();
  for (int64_t n = 0; n < columns; ++n) {
    float* column = to + n / width * depth * width + n % width;
    for (int64_t k = 0; k < depth; ++k) column[k * width] = from[n * column_stride + k * depth_stride];
  }
  return packed;
}

namespace {

constexpr int64_t kDepth = 512;  // of a block: its panel stays in the first cache
constexpr int64_t kNarrowDepth = 128;  // of a block of weights in bytes, which is widened at once
constexpr int64_t kRows = 96;  // of a block: its part of the left side stays in the second

// One side of a product: batch axes, one free axis, one contracted axis.
struct Side {
  View view;
  Sizes batch_strides;
  int64_t free = 0, depth = 0;  // strides
};

struct Sum {
  Sizes batch;
  int64_t rows = 1, columns = 1, depth = 1;
};

Ints rest_of(int64_t rank, const Ints& a, const Ints& b) {
  Ints rest;
  for (int64_t axis = 0; axis < rank; ++axis) {
    if (std::find(a.begin(), a.end(), axis) == a.end() && std::find(b.begin(), b.end(), axis) == b.end()) rest.push_back(axis);
  }
  return rest;
}

Sizes picked(const Sizes& of, const Ints& axes) {
  Sizes result;
  for (const int64_t a : axes) result.push_back(of[a]);
  return result;
}

// Free axes as one, contracted axes as one; copied first where the strides do not allow it.
Side side_of(Site& at, ValueId v, const Ints& batch, const Ints& free, const Ints& contracted) {
  View view = at.g.view(at.s, v);
  const auto one = [&](const Ints& axes) {
    const Sizes sizes = picked(view.sizes, axes), strides = picked(view.strides, axes);
    return one_stride(sizes, strides, 0, sizes.size());
  };
  std::optional<int64_t> free_stride = one(free), depth = one(contracted);
  if (!free_stride || !depth) {
    Ints order = batch;
    order.insert(order.end(), free.begin(), free.end());
    order.insert(order.end(), contracted.begin(), contracted.end());
    const View copy = at.g.fresh(at.call.type(v).dtype, picked(view.sizes, order));
    View target = view;
    target.buffer = copy.buffer;
    target.offset = 0;
    target.moving.clear();
    for (size_t i = 0; i < order.size(); ++i) target.strides[order[i]] = copy.strides[i];
    at.g.compute_into(at.s, v, target);
    view = target;
    free_stride = one(free);
    depth = one(contracted);
  }
  return {view, picked(view.strides, batch), *free_stride, *depth};
}

// Loops over the batch axes; the pointers of each side move with them.
struct Batches {
  std::vector<std::string> indices;
  std::string offset(const Sizes& strides) const {
    std::vector<std::pair<std::string, int64_t>> terms;
    for (size_t a = 0; a < strides.size(); ++a) terms.emplace_back(indices[a], strides[a]);
    return sum_of(terms);
  }
};
Batches open_batches(Writer& w, const Sizes& batch) {
  Batches b;
  for (const int64_t size : batch) {
    b.indices.push_back(w.fresh("b"));
    w.loop(b.indices.back(), size);
  }
  return b;
}

std::string plus(const std::string& pointer, const std::string& offset) {
  return offset == "0" ? pointer : pointer + " + " + offset;
}

// What follows element by element, over rows [m, m + rows) of y.
void print_epilogue(Writer& w, Scope& s, ValueId last, ValueId product, const Sizes& sizes, const std::vector<Axis>& outer,
                    const std::string& y, const std::string& first_row, const std::string& rows, int64_t columns, size_t row_axes,
                    size_t column_from) {
  if (last == product) return;
  const std::string i = w.fresh("i"), j = w.fresh("j");
  w.open(formatted("for (ptrdiff_t {0} = {1}; {0} < {2}; ++{0})", i, first_row, rows));
  w.loop(j, columns);
  const std::string element = formatted("{}[{} * {} + {}]", y, i, columns, j), value = w.fresh("t");
  w.line(formatted("const float {} = {};", value, element));
  Chain chain(w, s, last, product, value);
  std::vector<Axis> axes = outer;
  axes.push_back({row_axes, column_from, i});
  axes.push_back({column_from, sizes.size(), j});
  w.line(formatted("{} = {};", element, chain_at(chain, sizes, axes)));
  w.close(2);
}

// y = left times right, in f32.
struct Plan {
  Sum sum;
  Side left, right;
  bool is_packed = false;  // right is weights in panels
  std::optional<View> scales;  // of its columns, when they are bytes
  size_t row_axes = 0, column_from = 0;  // of the result: batch axes before, rows up to, columns from there
};

// Where a block of weights in bytes becomes f32: the pointers to it and to their scales.
struct Widened {
  std::string block, scales;
};

void print_panels(Writer& w, const Plan& p, const std::string& a, const std::string& b, const std::string& y,
                  const std::string& m, const std::string& rows, const Widened& widened) {
  const Sum& sum = p.sum;
  const int64_t most = p.scales ? kNarrowDepth : kDepth;
  const int64_t depth = p.scales || sum.rows > 12 ? std::min(sum.depth, most) : sum.depth;
  const bool has_blocks = depth < sum.depth;
  const std::string k = w.fresh("k"), n = w.fresh("n");
  if (has_blocks) {
    w.loop(k, sum.depth, depth);
    if (sum.depth % depth != 0)
      w.line(formatted("const ptrdiff_t depth = {0} - {1} < {2} ? {0} - {1} : {2};", sum.depth, k, depth));
  }
  const std::string steps = has_blocks && sum.depth % depth != 0 ? "depth" : formatted("{}", depth);
  w.loop(n, sum.columns, 16);
  std::string columns = "16";
  if (sum.columns % 16 != 0) {
    w.line(formatted("const ptrdiff_t columns = {0} - {1} < 16 ? {0} - {1} : 16;", sum.columns, n));
    columns = "columns";
  }
  const bool is_direct = !p.is_packed && p.right.free == 1;
  std::vector<std::pair<std::string, int64_t>> left{{m, p.left.free}}, right{{n, is_direct ? 1 : sum.depth}};
  if (has_blocks) {
    left.emplace_back(k, p.left.depth);
    right.emplace_back(k, is_direct ? p.right.depth : 16);
  }
  std::string panel = plus(b, sum_of(right));
  if (p.scales) {
    w.line(formatted("widen({}, {} + {}, {}, {});", panel, widened.scales, n, steps, widened.block));
    panel = widened.block;
  }
  w.line(formatted("panel({}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {});", rows, plus(a, sum_of(left)), p.left.free, p.left.depth,
                   panel, is_direct ? p.right.depth : 16, steps, plus(y, sum_of({{m, sum.columns}, {n, 1}})), sum.columns,
                   columns, has_blocks ? k + " > 0" : "0"));
  w.close(has_blocks ? 2 : 1);
}

// The right side of an activation, in panels of 16 columns.
void print_packing(Writer& w, const Plan& p, const std::string& b, const std::string& panels) {
  const std::string n = w.fresh("n"), k = w.fresh("k"), j = w.fresh("j");
  w.loop(n, p.sum.columns, 16);
  w.loop(k, p.sum.depth);
  w.loop(j, 16);
  const std::string from = formatted("{}[{}]", b, sum_of({{"(" + n + " + " + j + ")", p.right.free}, {k, p.right.depth}}));
  const std::string value = p.sum.columns % 16 == 0 ? from : formatted("{} + {} < {} ? {} : 0.0f", n, j, p.sum.columns, from);
  w.line(formatted("{}[{}] = {};", panels, sum_of({{n, p.sum.depth}, {k, 16}, {j, 1}}), value));
  w.close(3);
}

View emit_tiles(Generator& g, Scope& s, ValueId product, ValueId last, const Plan& p, const std::string& what) {
  g.need("panel");
  const Sizes sizes = g.sizes_of(s, product);
  const View y = g.fresh(s, last);
  const Sum& sum = p.sum;
  Writer w(g, what);
  const std::string a = w.reads(p.left.view, "x"), b = w.reads(p.right.view, p.is_packed ? "w" : "x");
  const std::string out = w.writes(y, "y");
  Widened widened;
  if (p.scales) {
    g.need("widen");
    widened = {w.scratch(DType::f32, 16 * std::min(sum.depth, kNarrowDepth), "block"), w.reads(*p.scales, "scales")};
  }
  const bool packs = !p.is_packed && (p.right.free != 1 || sum.columns % 16 != 0);
  const std::string panels = packs ? w.scratch(DType::f32, (sum.columns + 15) / 16 * 16 * sum.depth, "panels") : b;
  const Batches batches = open_batches(w, sum.batch);
  std::string x0 = a, b0 = panels, y0 = out;
  if (!sum.batch.empty()) {
    x0 = w.fresh("left"), y0 = w.fresh("rows");
    w.line(formatted("const float *{} = {};", x0, plus(a, batches.offset(p.left.batch_strides))));
    Sizes out_strides = row_major(sizes);
    out_strides.resize(sum.batch.size());
    w.line(formatted("float *{} = {};", y0, plus(out, batches.offset(out_strides))));
    const std::string right = w.fresh("right");
    w.line(formatted("const float *{} = {};", right, plus(b, batches.offset(p.right.batch_strides))));
    if (packs)
      print_packing(w, p, right, panels);
    else
      b0 = right;
  } else if (packs) {
    print_packing(w, p, b, panels);
  }
  Plan inner = p;
  if (packs) inner.is_packed = true;
  std::vector<Axis> outer;
  for (size_t i = 0; i < sum.batch.size(); ++i) outer.push_back({i, i + 1, batches.indices[i]});
  if (sum.rows > kRows + kRows / 2) {
    const std::string m = w.fresh("m");
    w.loop(m, sum.rows, kRows);
    w.line(formatted("const ptrdiff_t rows = {0} - {1} < {2} ? {0} - {1} : {2};", sum.rows, m, kRows));
    print_panels(w, inner, x0, b0, y0, m, "rows", widened);
    print_epilogue(w, s, last, product, sizes, outer, y0, m, m + " + rows", sum.columns, p.row_axes, p.column_from);
    w.close();
  } else {
    print_panels(w, inner, x0, b0, y0, "0", formatted("{}", sum.rows), widened);
    print_epilogue(w, s, last, product, sizes, outer, y0, "0", formatted("{}", sum.rows), sum.columns, p.row_axes, p.column_from);
  }
  w.close(sum.batch.size());
  w.multiply_adds = static_cast<double>(count_of(sum.batch)) * static_cast<double>(sum.rows * sum.columns) *
                    static_cast<double>(sum.depth);
  g.emit(w);
  return y;
}

void define_tiles(Site& at, Plan p) {
  const ValueId v = at.node.results[0];
  const Sizes sizes = at.result_sizes();
  Product product;
  const std::string what = p.is_packed ? "linear" : "product";
  product.emit = [p, v, what](Generator& g, Scope& s, ValueId last) { return emit_tiles(g, s, v, last, p, what); };
  product.fits = [sizes, p](const Sizes& strides) {
    return one_stride(sizes, strides, p.row_axes, p.column_from) && one_stride(sizes, strides, p.column_from, sizes.size());
  };
  at.g.define_product(at.s, v, std::move(product));
}

// Any dtype, one element after another.
void plain_loops(Site& at, const Plan& p) {
  const DType dtype = at.result_dtype();
  const View y = at.g.fresh(at.s, at.node.results[0]);
  Writer w(at.g, "product");
  const std::string a = w.reads(p.left.view, "x"), b = w.reads(p.right.view, "x"), out = w.writes(y, "y");
  const std::string type = is_floating(dtype) ? "double" : "uint64_t";
  const Batches batches = open_batches(w, p.sum.batch);
  const std::string m = w.fresh("m"), n = w.fresh("n"), k = w.fresh("k"), sum = w.fresh("sum");
  w.loop(m, p.sum.rows);
  w.loop(n, p.sum.columns);
  w.line(formatted("{} {} = 0;", type, sum));
  w.loop(k, p.sum.depth);
  const auto element = [&](const std::string& pointer, const Side& side, const std::string& free) {
    std::vector<std::pair<std::string, int64_t>> terms;
    for (size_t i = 0; i < side.batch_strides.size(); ++i) terms.emplace_back(batches.indices[i], side.batch_strides[i]);
    terms.emplace_back(free, side.free);
    terms.emplace_back(k, side.depth);
    return formatted("({}){}", type, loaded(formatted("{}[{}]", pointer, sum_of(terms)), dtype));
  };
  for (const char* name : {"float_of_f16", "f16_of"}) {
    if (dtype == DType::f16) at.g.need(name);
  }
  for (const char* name : {"float_of_bf16", "bf16_of"}) {
    if (dtype == DType::bf16) at.g.need(name);
  }
  w.line(formatted("{} += {} * {};", sum, element(a, p.left, m), element(b, p.right, n)));
  w.close();
  Sizes strides = row_major(y.sizes);
  std::vector<std::pair<std::string, int64_t>> terms;
  for (size_t i = 0; i < p.sum.batch.size(); ++i) terms.emplace_back(batches.indices[i], strides[i]);
  terms.emplace_back(m, p.sum.columns);
  terms.emplace_back(n, 1);
  w.line(formatted("{}[{}] = {};", out, sum_of(terms), stored(formatted("({}){}", computed_type(dtype), sum), dtype)));
  w.close(2 + p.sum.batch.size());
  w.multiply_adds = static_cast<double>(count_of(y.sizes)) * static_cast<double>(p.sum.depth);
  at.g.emit(w);
  at.g.define(at.s, at.node.results[0], y);
}

// The right side as weights in panels, when it is known now.
void pack_weights(Site& at, ValueId right, Plan& p) {
  if (!p.sum.batch.empty()) return;
  const View v = p.right.view;
  if (!at.g.is_constant(at.s.known[right]) || at.g.buffers[v.buffer].place != Buffer::Place::weight) return;
  if (const auto narrow = int8_weight(at.g, {v, p.sum.columns, p.sum.depth, p.right.free, p.right.depth})) {
    p.right.view = narrow->numbers;
    p.scales = narrow->scales;
    p.is_packed = true;
    return;
  }
  const Array& data = at.g.buffers[v.buffer].data;
  const std::string key = formatted("{}/{}/{}/{}/{}/{}", v.buffer, v.offset, p.sum.columns, p.sum.depth, p.right.free,
                                    p.right.depth);
  p.right.view = at.g.packed_weight(key, [&] {
    const Array moved(DType::f32, {data.size() - v.offset}, data.as<float>() + v.offset, std::make_shared<Array>(data));
    return packed_panels(moved, p.sum.columns, p.sum.depth, p.right.free, p.right.depth, 16);
  });
  p.is_packed = true;
}

void dot_general(Site& at) {
  const ValueId left = at.call.value("left"), right = at.call.value("right");
  const Ints &batch_left = at.call.integers("batch_left"), &batch_right = at.call.integers("batch_right");
  const Ints &contract_left = at.call.integers("contract_left"), &contract_right = at.call.integers("contract_right");
  const Sizes l = at.sizes(left), r = at.sizes(right);
  const Ints rows = rest_of(static_cast<int64_t>(l.size()), batch_left, contract_left),
             columns = rest_of(static_cast<int64_t>(r.size()), batch_right, contract_right);
  Plan p;
  p.sum = {picked(l, batch_left), count_of(picked(l, rows)), count_of(picked(r, columns)), count_of(picked(l, contract_left))};
  p.row_axes = batch_left.size();
  p.column_from = p.row_axes + rows.size();
  if (count_of(at.result_sizes()) == 0 || p.sum.depth == 0) return at.g.define_number(at.s, at.node.results[0], Scalar(0.0));
  p.left = side_of(at, left, batch_left, rows, contract_left);
  p.right = side_of(at, right, batch_right, columns, contract_right);
  if (at.dtype("left") != DType::f32 || at.dtype("right") != DType::f32) return plain_loops(at, p);
  pack_weights(at, right, p);
  define_tiles(at, std::move(p));
}

// Rows of x times the matrix of their group; the rows of a group end where the data says.
void grouped_matmul(Site& at) {
  const ValueId weight = at.call.value("weight");
  const View x = at.g.dense(at.s, at.call.value("x")), ends = at.view("ends"), dense = at.g.dense(at.s, weight);
  const View y = at.g.fresh(at.s, at.node.results[0]);
  const int64_t groups = dense.sizes[0], depth = dense.sizes[1], columns = dense.sizes[2], rows = y.sizes[0];
  const DType dtype = at.result_dtype();
  if (dtype != DType::f32 || !at.g.is_constant(at.s.known[weight])) at.refuse("experts that are not f32 weights");
  at.g.need("panel");
  const int64_t one = (columns + 15) / 16 * 16 * depth;
  const View packed = at.g.packed_weight(formatted("experts/{}/{}", dense.buffer, dense.offset), [&] {
    const Array all = *at.g.constant(at.s, weight);
    Array panels(DType::f32, {groups * one});
    for (int64_t e = 0; e < groups; ++e) {
      const Array matrix(DType::f32, {depth * columns}, all.as<float>() + e * depth * columns, std::make_shared<Array>(all));
      std::copy_n(packed_panels(matrix, columns, depth, 1, columns, 16).as<float>(), one, panels.mutable_as<float>() + e * one);
    }
    return panels;
  });
  Writer w(at.g, "experts");
  const std::string a = w.reads(x, "x"), b = w.reads(packed, "w"), last = w.reads(ends, "ends"), out = w.writes(y, "y");
  w.line(formatted("for (ptrdiff_t i = 0; i < {}; ++i) {}[i] = 0.0f;", count_of(y.sizes), out));
  w.line("ptrdiff_t start = 0;");
  w.loop("e", groups);
  w.line(formatted("const ptrdiff_t given = (ptrdiff_t){}[{}];", last, sum_of({{"e", ends.strides[0]}})));
  w.line(formatted("const ptrdiff_t end = given < 0 ? 0 : given > {0} ? {0} : given;", rows));
  w.open(formatted("for (ptrdiff_t n = 0; n < {} && end > start; n += 16)", columns));
  w.line(formatted("const ptrdiff_t columns = {0} - n < 16 ? {0} - n : 16;", columns));
  w.line(formatted(
      "panel(end - start, {0} + start * {1}, {1}, 1, {2} + e * {3} + n * {1}, 16, {1}, {4} + start * {5} + n, {5}, columns, 0);",
      a, depth, b, one, out, columns));
  w.close();
  w.line("start = end;");
  w.close();
  w.multiply_adds = static_cast<double>(rows * columns) * static_cast<double>(depth);
  at.g.emit(w);
  at.g.define(at.s, at.node.results[0], y);
}

}  // namespace

Lowerings product_lowerings() { return {{"dot_general", dot_general}, {"grouped_matmul", grouped_matmul}}; }

}  // namespace pycandle::c
