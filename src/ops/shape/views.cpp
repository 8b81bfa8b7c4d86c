// The same elements under another shape or order, or repeated: reshape, transpose, broadcast, and torch's views of each.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <numeric>

#include "ops/core/alignment.h"
#include "ops/core/functional_helpers.h"
#include "ops/shape/shape_helpers.h"

namespace pycandle {
namespace {

// ---- what people get wrong

// All axes but the last ones are the same, and `whole` has one axis where `parts` has two.
bool splits_last_axis(const Shape& whole, const Shape& parts) {
  return !whole.empty() && whole.size() + 1 == parts.size() && std::equal(whole.begin(), whole.end() - 1, parts.begin());
}

constexpr const char* kSplitOrder = "head split order";

// reshape(x, [.., a, b]) and a transpose: heads are split off as [.., heads, width]; [.., width, heads] fits as well.
void split_in_other_order(Mistakes& m) {
  const Graph& g = m.call().graph();
  const Node* reshape = made_by(g, m.call().value("x"), "reshape");
  const Shape& parts = m.call().shape("x");
  if (reshape == nullptr || !splits_last_axis(g.type(reshape->operands[0]).shape, parts)) return;
  const std::string a = parts[parts.size() - 2].text(), b = parts.back().text();
  m.build(kSplitOrder, fmt::format("the last axis split into {} by {}", a, b), fmt::format("it split into {} by {}", b, a),
          [](const MistakeSite& site) {
            const Node* before = made_by(site.b.graph(), site.operands[0], "reshape");
            const ValueId x = before->operands[0];
            Shape shape = site.b.shape(site.operands[0]);
            const auto last = static_cast<int64_t>(shape.size()) - 1;
            std::swap(shape[shape.size() - 1], shape[shape.size() - 2]);
            Ints order = std::get<Ints>(site.node.attributes.at(0).second);
            for (int64_t& axis : order) axis = axis == last ? last - 1 : axis == last - 1 ? last : axis;
            return Values{site.b.transpose(site.b.reshape(x, shape), order)};
          });
}

// The reverse: a transpose, and a reshape that makes one axis of the last two.
void merged_in_other_order(Mistakes& m) {
  const Node* transpose = made_by(m.call().graph(), m.call().value("x"), "transpose");
  if (transpose == nullptr || !splits_last_axis(m.call().dims("shape"), m.call().shape("x"))) return;
  m.build(kSplitOrder, "the last two axes merged in this order", "them merged in the other", [](const MistakeSite& site) {
    const Shape merged = site.b.shape(site.same(site.operands)[0]);
    return Values{site.b.reshape(site.b.swap_axes(site.operands[0], -2, -1), merged)};
  });
}

// Two axes before the last made one, as heads that were repeated are: [.., heads, repeats, ..] or [.., repeats, heads, ..].
void repeated_in_other_order(Mistakes& m) {
  const Shape &x = m.call().shape("x"), &merged = m.call().dims("shape");
  if (x.size() != merged.size() + 1) return;
  for (size_t axis = 0; axis + 2 < x.size(); ++axis) {
    const bool is_it = std::equal(merged.begin(), merged.begin() + static_cast<std::ptrdiff_t>(axis), x.begin()) &&
                       std::equal(merged.begin() + static_cast<std::ptrdiff_t>(axis) + 1, merged.end(),
                                  x.begin() + static_cast<std::ptrdiff_t>(axis) + 2);
    if (!is_it || x[axis] == Dim(1) || x[axis + 1] == Dim(1)) continue;
    m.build("head order", "heads repeated one by one", "heads repeated as a whole", [axis](const MistakeSite& site) {
      const Shape shape = site.b.shape(site.same(site.operands)[0]);
      const auto a = static_cast<int64_t>(axis);
      return Values{site.b.reshape(site.b.swap_axes(site.operands[0], a, a + 1), shape)};
    });
    return;
  }
}

// Those that give the same shape, and those with one axis elsewhere: a reshape may follow.
void other_permutations(Mistakes& m) {
  const Ints now = m.call().integers("permutation");
  const Shape& x = m.call().shape("x");
  if (now.size() > 6) return;
  const auto add = [&](const Ints& other) {
    m.attribute("dim order", "permutation", other, fmt::format("dims in the order {}", fmt::join(now, " ")),
                fmt::format("dims in the order {}", fmt::join(other, " ")));
  };
  const auto gives_same_shape = [&](const Ints& other) {
    return std::equal(now.begin(), now.end(), other.begin(), [&](int64_t a, int64_t b) { return x[a] == x[b]; });
  };
  Ints other(now.size());
  std::iota(other.begin(), other.end(), 0);
  do {
    if (gives_same_shape(other) && other != now) add(other);
  } while (std::next_permutation(other.begin(), other.end()));
  for (size_t from = 0; from < now.size(); ++from) {
    for (size_t to = 0; to < now.size(); ++to) {
      Ints moved = now;
      moved.erase(moved.begin() + static_cast<std::ptrdiff_t>(from));
      moved.insert(moved.begin() + static_cast<std::ptrdiff_t>(to), now[from]);
      if (!gives_same_shape(moved)) add(moved);
    }
  }
}

// ---- the same elements, another shape

// The one size that is -1 follows from the others; a symbolic one is what torch recorded. reshape checks the count.
Values reshaped_by_count(AtenCall& c, ValueId x, Dims shape) {
  auto open = std::find(shape.begin(), shape.end(), Dim(-1));
  if (open != shape.end()) {
    c.expects(std::count(shape.begin(), shape.end(), Dim(-1)) == 1, "one size to be -1");
    Dims others = shape;
    others.erase(others.begin() + (open - shape.begin()));
    const auto all = product(c.b.shape(x)).maybe_number(), known = product(others).maybe_number();
    if (all && known) {
      c.expects(*known > 0 && *all % *known == 0, "the other sizes to divide the count of elements");
      *open = *all / *known;
    } else {
      *open = c.result().shape.at(open - shape.begin());
    }
  }
  return {c.b.reshape(x, std::move(shape))};
}

void reshape_overloads(OpDef& def) {
  for (auto [overload, argument] : {std::pair{"aten.view.default", "size"},
                                    {"aten._unsafe_view.default", "size"},
                                    {"aten.view_copy.default", "size"},
                                    {"aten.reshape.default", "shape"}})
    def.from_aten_call(overload, [name = std::string(argument)](AtenCall& c) {
      ValueId x = c.tensor("self");
      return reshaped_by_count(c, x, c.dims(name));
    });
  for (const char* overload : {"aten.view_as.default", "aten.reshape_as.default"})
    def.from_aten_call(overload, [](AtenCall& c) -> Values {
      ValueId x = c.tensor("self");
      return {c.b.reshape(x, c.b.shape(c.tensor("other")))};
    });
  def.sample("t(2, 3, 4).view(6, 4)")
      .sample("t(2, 3, 4).view(2, -1)")
      .sample("t(2, 3, 4).transpose(1, 2).reshape(-1, 3)")
      .sample("t(1).view([])")
      .sample("t(0, 3).view(3, 0)")
      .sample("t(2, 3, 4).flatten(1)")
      .sample("t(2, 3, 4).flatten(0, -2)")
      .sample("t().flatten()")
      .sample("t(2, 12).unflatten(1, (3, -1))")
      .sample("t(2, 3).unsqueeze(-1)")
      .sample("t().unsqueeze(0)")
      .sample("t(1, 2, 1).squeeze()")
      .sample("t(1, 2, 1).squeeze(-1)")
      .sample("t(1, 2, 1).squeeze(1)")
      .sample("t(1, 2, 1).squeeze((0, 2))")
      .sample("t().squeeze(0)");
}

void flatten_overloads(OpDef& def) {
  def.from_aten_call("aten.flatten.using_ints", [](AtenCall& c) -> Values {
    ValueId x = c.tensor("self");
    int64_t first = axis_argument(c, "start_dim", c.b.rank(x)), last = axis_argument(c, "end_dim", c.b.rank(x));
    Shape shape = c.b.shape(x);
    if (shape.empty()) return {c.b.reshape(x, {1})};
    if (first > last) throw Error(ErrorCode::bad_input, "flatten ends before it starts").expected("start_dim at most end_dim");
    Shape merged(shape.begin(), shape.begin() + first);
    merged.push_back(product(Shape(shape.begin() + first, shape.begin() + last + 1)));
    merged.insert(merged.end(), shape.begin() + last + 1, shape.end());
    return {c.b.reshape(x, std::move(merged))};
  });
  def.from_aten_call("aten.ravel.default", [](AtenCall& c) -> Values {
    ValueId x = c.tensor("self");
    return {c.b.reshape(x, {product(c.b.shape(x))})};
  });
  def.from_aten_call("aten.unflatten.int", [](AtenCall& c) {
    ValueId x = c.tensor("self");
    int64_t axis = axis_argument(c, "dim", c.b.rank(x));
    Shape shape = c.b.shape(x);
    Dims sizes = c.dims("sizes");
    shape.erase(shape.begin() + axis);
    shape.insert(shape.begin() + axis, sizes.begin(), sizes.end());
    return reshaped_by_count(c, x, std::move(shape));
  });
}

void squeeze_overloads(OpDef& def) {
  for (const char* overload : {"aten.unsqueeze.default", "aten.unsqueeze_copy.default"})
    def.from_aten_call(overload, [](AtenCall& c) -> Values {
      ValueId x = c.tensor("self");
      return {c.b.unsqueeze(x, c.integer("dim"))};
    });
  // A symbolic size stays: export fixes a size that it finds to be 1.
  auto squeeze = [](AtenCall& c, ValueId x, const Ints& axes) -> Values {
    Shape shape;
    for (int64_t i = 0; i < c.b.rank(x); ++i) {
      Dim size = c.b.shape(x)[i];
      if (size != Dim(1) || std::find(axes.begin(), axes.end(), i) == axes.end()) shape.push_back(size);
    }
    return {c.b.reshape(x, std::move(shape))};
  };
  for (const char* overload : {"aten.squeeze.default", "aten.squeeze_copy.default"})
    def.from_aten_call(overload, [squeeze](AtenCall& c) {
      ValueId x = c.tensor("self");
      return squeeze(c, x, axes_between(0, c.b.rank(x)));
    });
  for (const char* overload : {"aten.squeeze.dim", "aten.squeeze.dims", "aten.squeeze_copy.dim", "aten.squeeze_copy.dims"})
    def.from_aten_call(overload, [squeeze](AtenCall& c) {
      ValueId x = c.tensor("self");
      Ints axes;
      for (int64_t axis : c.integers("dim")) axes.push_back(c.b.normal_axis(axis, std::max<int64_t>(c.b.rank(x), 1)));
      return squeeze(c, x, axes);
    });
}

void least_axes_overloads(OpDef& def) {
  for (int64_t rank = 1; rank <= 3; ++rank)
    def.from_aten_call(fmt::format("aten.atleast_{}d.Sequence", rank), [rank](AtenCall& c) {
      Values xs = c.given_tensors("tensors");
      for (ValueId& x : xs) x = with_axes(c.b, x, rank);
      return xs;
    });
}

// What fits into the new shape; more than there is would be whatever the memory held.
void resize_overloads(OpDef& def) {
  def.from_aten_call("aten.resize_as.default",
                     [](AtenCall& c) -> Values {
                       if (c.has_argument("memory_format")) c.discard("memory_format", "no effect on values");
                       Builder& b = c.b;
                       const ValueId x = c.tensor("self");
                       const Shape shape = b.shape(c.tensor("the_template"));
                       const Dim have = product(b.shape(x)), want = product(shape);
                       if (!may_be_at_most(want, have)) c.unsupported("a template with more elements");
                       return {b.reshape(b.slice(b.reshape(x, {have}), 0, 0, want), shape)};
                     })
      .sample("torch.ops.aten.resize_as(t(3, 4), t(2, 5))")
      .sample("torch.ops.aten.resize_as(t(), t())");
}

OpDef reshape() {
  OpDef def = primitive("reshape")
                  .doc("the same elements in row-major order under another shape")
                  .operands("x")
                  .attributes(attr<Dims>("shape"))
                  .constraint("reshape_c1", "shape has as many elements as x",
                              [](const Call& c) { return may_equal(product(c.dims("shape")), product(c.shape("x"))); })
                  .infer([](const Call& c) { return Type{c.type("x").dtype, c.dims("shape")}; })
                  .evaluator([](const Evaluation& ev) {
                    const Array& x = ev.array("x");
                    Sizes shape = ev.sizes("shape");
                    if (element_count(shape) != x.size())
                      wrong_sizes(ev, "the new shape has another number of elements", to_string(x.shape()), to_string(shape));
                    return x.reshaped(std::move(shape));
                  })
                  .rearrangement()
                  .same_purpose()
                  .spelled_torch("{x}.reshape({shape})")
                  .results({"reshaped"})
                  .mistakes(merged_in_other_order)
                  .mistakes(repeated_in_other_order);
  reshape_overloads(def);
  flatten_overloads(def);
  squeeze_overloads(def);
  least_axes_overloads(def);
  resize_overloads(def);
  return def;
}

// ---- axes in another order

void transpose_overloads(OpDef& def) {
  for (const char* overload : {"aten.permute.default", "aten.permute_copy.default"})
    def.from_aten_call(overload, [](AtenCall& c) -> Values {
      ValueId x = c.tensor("self");
      return {c.b.transpose(x, c.integers("dims"))};
    });
  auto swap = [](const char* first, const char* second) {
    return [first, second](AtenCall& c) -> Values {
      ValueId x = c.tensor("self");
      int64_t p = axis_argument(c, first, c.b.rank(x)), q = axis_argument(c, second, c.b.rank(x));
      return {c.b.rank(x) == 0 ? x : c.b.swap_axes(x, p, q)};
    };
  };
  def.from_aten_call("aten.transpose.int", swap("dim0", "dim1"))
      .from_aten_call("aten.transpose_copy.int", swap("dim0", "dim1"))
      .from_aten_call("aten.swapdims.default", swap("dim0", "dim1"))
      .from_aten_call("aten.swapaxes.default", swap("axis0", "axis1"));
  for (const char* name : {"t", "t_copy", "numpy_T", "mT", "matrix_H", "mH", "adjoint"})
    def.from_aten_call(fmt::format("aten.{}.default", name), [op = std::string(name)](AtenCall& c) -> Values {
      ValueId x = c.tensor("self");
      int64_t rank = c.b.rank(x);
      if (op == "t" || op == "t_copy") c.expects(rank <= 2, "at most two axes");
      if (op == "matrix_H") c.expects(rank == 0 || rank == 2, "a matrix");
      if (op == "mT" || op == "mH" || op == "adjoint") c.expects(rank != 1, "a matrix or a batch of matrices");
      if (is_complex(c.b.dtype(x)) && (op == "matrix_H" || op == "mH" || op == "adjoint")) x = c.b.unary("conj", x);
      Ints axes = axes_between(0, rank);
      if (op == "numpy_T") {
        std::reverse(axes.begin(), axes.end());
      } else if (rank >= 2) {
        std::swap(axes[rank - 1], axes[rank - 2]);
      }
      return {c.b.transpose(x, axes)};
    });
  for (const char* overload : {"aten.movedim.int", "aten.movedim.intlist", "aten.moveaxis.int", "aten.moveaxis.intlist"})
    def.from_aten_call(overload, [](AtenCall& c) -> Values {
      ValueId x = c.tensor("self");
      int64_t rank = c.b.rank(x);
      Ints from = c.integers("source"), to = c.integers("destination");
      c.expects(from.size() == to.size(), "as many destinations as sources");
      for (Ints* axes : {&from, &to})
        for (int64_t& axis : *axes) axis = c.b.normal_axis(axis, rank);
      c.expects(are_axes(from, rank) && are_axes(to, rank), "different axes");
      Ints order(rank, -1);
      std::vector<bool> moved(rank, false);
      for (size_t i = 0; i < from.size(); ++i) {
        int64_t source = from[i];
        order[to[i]] = source;
        moved[source] = true;
      }
      int64_t next = 0;
      for (int64_t& place : order) {
        if (place >= 0) continue;
        while (next < rank && moved[next]) ++next;
        place = next++;
      }
      return {c.b.transpose(x, order)};
    });
  def.sample("t(2, 3, 4).permute(2, 0, 1)")
      .sample("t(2, 3, 4).permute(0, -1, -2)")
      .sample("t().permute([])")
      .sample("t(2, 3, 4).transpose(0, -1)")
      .sample("t(2, 3).t()")
      .sample("t(3).t()")
      .sample("t(2, 3, 4).mT")
      .sample("t(2, 3, 4).movedim(0, -1)")
      .sample("t(2, 3, 4, 5).movedim((0, 1), (2, 0))")
      .sample("t(2, 3, 4).swapaxes(0, 1)");
}

OpDef transpose() {
  OpDef def = primitive("transpose")
                  .doc("axis i of the result is axis permutation[i] of x")
                  .operands("x")
                  .attributes(attr<Ints>("permutation"))
                  .constraint("transpose_c1", "permutation names every axis of x once",
                              [](const Call& c) {
                                return static_cast<int64_t>(c.integers("permutation").size()) == c.rank("x") &&
                                       are_axes(c.integers("permutation"), c.rank("x"));
                              })
                  .infer([](const Call& c) {
                    Type type{c.type("x").dtype, {}};
                    for (int64_t axis : c.integers("permutation")) type.shape.push_back(c.shape("x")[axis]);
                    return type;
                  })
                  .evaluator([](const Evaluation& ev) { return transposed(ev.array("x"), ev.integers("permutation")); })
                  .aligned([](const AlignedCall& c) -> std::optional<Alignment> {
                    Alignment a = c.all_free();
                    a.axes[0] = c.call.integers("permutation");
                    return a;
                  })
                  .rearrangement()
                  .same_purpose()
                  .spelled_torch("{x}.permute({permutation})")
                  .results({"transposed"})
                  .mistakes(other_permutations)
                  .mistakes(split_in_other_order);
  transpose_overloads(def);
  return def;
}

// ---- repeated

void broadcast_overloads(OpDef& def) {
  auto expand = [](AtenCall& c) -> Values {
    if (c.has_argument("implicit")) c.discard("implicit", "only a hint of autograd's");
    ValueId x = c.tensor("self");
    Dims size = c.dims("size");
    size_t missing = size.size() - std::min(size.size(), c.b.shape(x).size());
    for (size_t i = missing; i < size.size(); ++i)
      if (size[i] == Dim(-1)) size[i] = c.b.shape(x)[i - missing];
    return {c.b.broadcast_to(x, size)};
  };
  for (const char* overload : {"aten.expand.default", "aten.expand_copy.default", "aten.broadcast_to.default"})
    def.from_aten_call(overload, expand);
  def.from_aten_call("aten.expand_as.default", [](AtenCall& c) -> Values {
    ValueId x = c.tensor("self");
    return {c.b.broadcast_to(x, c.b.shape(c.tensor("other")))};
  });
  def.from_aten_call("aten.broadcast_tensors.default", [](AtenCall& c) {
    Values xs = c.given_tensors("tensors");
    Shape common;
    for (ValueId x : xs) common = broadcast_shapes(common, c.b.shape(x));
    for (ValueId& x : xs) x = c.b.broadcast_to(x, common);
    return xs;
  });
  for (const char* overload : {"aten.meshgrid.default", "aten.meshgrid.indexing"})
    def.from_aten_call(overload, [](AtenCall& c) {
      std::string indexing = c.has_argument("indexing") ? c.string("indexing") : "ij";
      Values xs = c.given_tensors("tensors");
      // "xy" exchanges the first two axes of every grid.
      bool swapped = indexing == "xy" && xs.size() >= 2;
      if (indexing != "ij" && indexing != "xy") c.unsupported("indexing='" + indexing + "'");
      Shape grid;
      for (ValueId x : xs) {
        if (c.b.rank(x) > 1)
          throw Error(ErrorCode::bad_input, "meshgrid takes vectors").expected("rank 0 or 1").found(c.b.type(x).text());
        grid.push_back(product(c.b.shape(x)));
      }
      if (swapped) std::swap(grid[0], grid[1]);
      Values out;
      for (size_t i = 0; i < xs.size(); ++i) {
        int64_t axis = static_cast<int64_t>(swapped && i < 2 ? 1 - i : i);
        ValueId vector = c.b.rank(xs[i]) == 0 ? c.b.reshape(xs[i], {1}) : xs[i];
        out.push_back(c.b.broadcast(vector, grid, {axis}));
      }
      return out;
    });
  def.sample("t(3, 1).expand(2, 3, 4)")
      .sample("t(3, 1).expand(-1, 4)")
      .sample("t().expand(2, 3)")
      .sample("t(1).expand(0)")
      .sample("t(3).expand_as(t(2, 3))")
      .sample("torch.broadcast_to(t(3, 1), (3, 2))")
      .sample("torch.broadcast_tensors(t(3, 1), t(2))")
      .sample("torch.meshgrid(t(2), t(3), indexing='ij')")
      .sample("torch.meshgrid(t(2), t(3), t(4), indexing='xy')");
}

void grid_overloads(OpDef& def) {
  def.from_aten_call("aten.cartesian_prod.default",
                     [](AtenCall& c) -> Values {
                       const Values given = c.given_tensors("tensors");
                       const Values xs = promote(c.b, std::vector<Operand>(given.begin(), given.end()));
                       if (xs.size() == 1) return {xs[0]};
                       Shape grid;
                       for (ValueId x : xs) grid.push_back(product(c.b.shape(x)));
                       Values columns;
                       for (size_t i = 0; i < xs.size(); ++i) {
                         const ValueId line = c.b.reshape(xs[i], {grid[i]});
                         columns.push_back(c.b.reshape(c.b.broadcast(line, grid, {static_cast<int64_t>(i)}), {product(grid), 1}));
                       }
                       return {c.b.concat(columns, 1)};
                     })
      .sample("torch.cartesian_prod(t(2), t(3), t(2))");
}

std::optional<Alignment> broadcast_alignment(const AlignedCall& c) {
  Alignment a = c.all_free();
  const Ints& axes = c.call.integers("axes");
  for (size_t from = 0; from < axes.size(); ++from) {
    if (c.call.shape("x")[from] == c.result[axes[from]])
      a.axes[0][axes[from]] = static_cast<int64_t>(from);
    else if (c.call.shape("x")[from] != Dim(1))
      a.is_free[axes[from]] = false;
  }
  return a;
}

OpDef broadcast() {
  OpDef def = primitive("broadcast")
                  .doc("axis i of x becomes axis axes[i] of the result; an axis of size 1 stretches, axes that x lacks repeat it")
                  .operands("x")
                  .attributes(attr<Dims>("shape"), attr<Ints>("axes"))
                  .constraint("broadcast_c1", "axes has one increasing axis of shape for each axis of x",
                              [](const Call& c) {
                                const Ints& axes = c.integers("axes");
                                return static_cast<int64_t>(axes.size()) == c.rank("x") &&
                                       are_axes(axes, static_cast<int64_t>(c.dims("shape").size())) &&
                                       std::is_sorted(axes.begin(), axes.end());
                              })
                  .constraint("broadcast_c2", "an axis of x has size 1 or that of its axis in shape",
                              [](const Call& c) {
                                for (size_t i = 0; i < c.shape("x").size(); ++i) {
                                  const Dim from = c.shape("x")[i];
                                  if (equal(from, 1) == Tri::no && !may_equal(from, c.dims("shape")[c.integers("axes")[i]]))
                                    return false;
                                }
                                return true;
                              })
                  .infer([](const Call& c) { return Type{c.type("x").dtype, c.dims("shape")}; })
                  .aligned(broadcast_alignment)
                  .evaluator([](const Evaluation& ev) {
                    const Array& x = ev.array("x");
                    const Ints& axes = ev.integers("axes");
                    Sizes shape = ev.sizes("shape");
                    const Sizes own = row_major_strides(x.shape());
                    Sizes strides(shape.size(), 0);
                    for (size_t i = 0; i < axes.size(); ++i) {
                      const int64_t from = x.shape()[i], to = shape[axes[i]];
                      if (from != to && from != 1)
                        wrong_sizes(ev,
                                    "a tensor of shape " + to_string(x.shape()) + " does not broadcast to " + to_string(shape),
                                    "1 or " + std::to_string(to), std::to_string(from));
                      strides[axes[i]] = from == 1 ? 0 : own[i];
                    }
                    if (element_count(shape) == x.size()) return x.reshaped(std::move(shape));
                    return strided_copy(x, std::move(shape), strides);
                  })
                  .rearrangement()
                  .same_purpose()
                  .spelled_torch("broadcast({x}, {shape}, {axes})")
                  .results({"expanded"});
  broadcast_overloads(def);
  grid_overloads(def);
  return def;
}

}  // namespace

std::vector<OpDef> view_ops() { return formulas({reshape(), transpose(), broadcast()}); }

}  // namespace pycandle
