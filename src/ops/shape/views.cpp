// torch's views: the same elements under another shape, order or dtype, and parts of a tensor.
#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <numeric>

#include "ops/core/aten_call.h"
#include "ops/core/dims_at_samples.h"
#include "ops/core/functional_helpers.h"
#include "ops/core/mapping.h"

namespace pycandle {
namespace {

// torch takes a 0-d tensor for one of one element wherever it takes an axis.
int64_t axis_argument(AtenCall& c, const char* name, int64_t rank) {
  return c.b.normal_axis(c.integer(name), std::max<int64_t>(rank, 1));
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

OpDef reshape() {
  OpDef def = mapping("reshape");
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
  return def.sample("t(2, 3, 4).view(6, 4)")
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

// ---- the same tensor, or another dtype

OpDef identity() {
  OpDef def = mapping("cast");
  for (const char* overload : {"aten.clone.default", "aten.alias.default", "aten.detach.default", "aten.contiguous.default",
                               "aten.lift_fresh_copy.default", "aten.lift_fresh.default", "aten.lift.default",
                               "aten.alias_copy.default", "aten.detach_copy.default", "aten.view_of.default"})
    def.from_aten_call(overload, [](AtenCall& c) -> Values {
      c.discard_placement();
      return {c.tensor("self")};
    });
  return def.sample("t(2, 3).clone()").sample("t(2, 3).t().contiguous()").sample("t(2, 3).detach()");
}

OpDef cast() {
  OpDef def = mapping("cast");
  auto to_dtype = [](AtenCall& c) -> Values {
    c.discard_placement();
    if (c.has_argument("copy")) c.discard("copy", "values are never changed in place");
    ValueId x = c.tensor("self");
    return {c.b.cast(x, c.dtype("dtype").value_or(c.b.dtype(x)))};
  };
  for (const char* overload : {"aten._to_copy.default", "aten.to.dtype", "aten.to.dtype_layout", "aten.to.device"})
    def.from_aten_call(overload, to_dtype);
  def.from_aten_call("aten.to.other", [](AtenCall& c) -> Values {
    c.discard_placement();
    c.discard("copy", "values are never changed in place");
    ValueId x = c.tensor("self");
    return {c.b.cast(x, c.b.dtype(c.tensor("other")))};
  });
  def.from_aten_call("aten.type_as.default", [](AtenCall& c) -> Values {
    ValueId x = c.tensor("self");
    return {c.b.cast(x, c.b.dtype(c.tensor("other")))};
  });
  for (auto [name, dtype] : {std::pair{"Float", DType::f32},
                             {"Double", DType::f64},
                             {"Half", DType::f16},
                             {"Long", DType::i64},
                             {"Int", DType::i32},
                             {"Short", DType::i16},
                             {"Char", DType::i8},
                             {"Byte", DType::u8}})
    def.from_aten_call(fmt::format("aten._cast_{}.default", name), [to = dtype](AtenCall& c) -> Values {
      c.discard("non_blocking", "placement");
      return {c.b.cast(c.tensor("self"), to)};
    });
  // What is left of an assignment: self gives shape and dtype, the other the values.
  def.from_aten_call("aten.copy.default", [](AtenCall& c) -> Values {
    c.discard("non_blocking", "placement");
    ValueId self = c.tensor("self");
    return {c.b.broadcast_to(c.b.cast(c.tensor("src"), c.b.dtype(self)), c.b.shape(self))};
  });
  for (const char* overload : {"aten.fill.Scalar", "aten.fill.Tensor"})
    def.from_aten_call(overload, [](AtenCall& c) -> Values {
      ValueId self = c.tensor("self");
      return {c.b.broadcast_to(materialise(c.b, c.operand("value"), c.b.dtype(self)), c.b.shape(self))};
    });
  def.from_aten_call("aten.zero.default", [](AtenCall& c) -> Values {
    ValueId self = c.tensor("self");
    return {c.b.like(self, Scalar{int64_t{0}})};
  });
  return def.sample("t(4).to(torch.float16)")
      .sample("(t(4) * 9).to(torch.int32)")
      .sample("i(4).to(torch.bool)")
      .sample("m(4).to(torch.float32)")
      .sample("(t(4) * 300).to(torch.int16).to(torch.uint8)")
      .sample("t(4).to(torch.float64)")
      .sample("t(4).type_as(i(1))")
      .sample("torch.ops.aten.copy(t(2, 3), i(3))")
      .sample("torch.ops.aten.fill.Scalar(t(2, 3), 2)")
      .sample("torch.ops.aten.fill.Tensor(i(2, 3), torch.tensor(2.5))")
      .sample("torch.ops.aten.zero(t(2, 3))");
}

// ---- axes in another order

OpDef transpose() {
  OpDef def = mapping("transpose");
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
  return def.sample("t(2, 3, 4).permute(2, 0, 1)")
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

OpDef reverse() {
  return mapping("reverse")
      .from_aten_call("aten.flip.default",
                      [](AtenCall& c) -> Values {
                        ValueId x = c.tensor("self");
                        return {c.b.rank(x) == 0 ? (c.integers("dims"), x) : c.b.reverse(x, c.integers("dims"))};
                      })
      .from_aten_call("aten.fliplr.default", [](AtenCall& c) -> Values { return {c.b.reverse(c.tensor("self"), {1})}; })
      .from_aten_call("aten.flipud.default", [](AtenCall& c) -> Values { return {c.b.reverse(c.tensor("self"), {0})}; })
      .sample("t(2, 3, 4).flip(0)")
      .sample("t(2, 3, 4).flip(0, -1)")
      .sample("t(2, 0).flip(1)")
      .sample("t(2, 3).flip([])");
}

// ---- repetition

OpDef broadcast() {
  OpDef def = mapping("broadcast");
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
  return def.sample("t(3, 1).expand(2, 3, 4)")
      .sample("t(3, 1).expand(-1, 4)")
      .sample("t().expand(2, 3)")
      .sample("t(1).expand(0)")
      .sample("t(3).expand_as(t(2, 3))")
      .sample("torch.broadcast_to(t(3, 1), (3, 2))")
      .sample("torch.broadcast_tensors(t(3, 1), t(2))")
      .sample("torch.meshgrid(t(2), t(3), indexing='ij')")
      .sample("torch.meshgrid(t(2), t(3), t(4), indexing='xy')");
}

// ---- parts

// What a Python index means on an axis: negative ones count from the end.
Dim from_start(const Builder& b, Dim index, Dim size, const char* what) {
  switch (seems_at_most(0, index, b)) {
    case Tri::yes: return index;
    case Tri::no: return index + size;
    case Tri::unknown: break;
  }
  throw Error(ErrorCode::gap, fmt::format("{} = {}, whose sign depends on the sizes, is not supported", what, index.text()));
}

Dim within(const Builder& b, Dim value, Dim low, Dim high) {
  if (seems_at_most(low, value, b) != Tri::yes) value = max(value, low);
  if (seems_at_most(value, high, b) != Tri::yes) value = min(value, high);
  return value;
}

}  // namespace

SliceBounds python_slice(const Builder& b, Dim size, std::optional<Dim> start, std::optional<Dim> stop, int64_t step) {
  if (step < 1) throw Error(ErrorCode::gap, fmt::format("a slice with step {} is not supported", step));
  const Dim first = within(b, from_start(b, start.value_or(0), size, "start"), 0, size);
  const bool to_the_end = !stop || *stop == Dim(std::numeric_limits<int64_t>::max());
  return {first, to_the_end ? size : within(b, from_start(b, *stop, size, "end"), first, size), step};
}

SliceBounds slice_bounds(AtenCall& c, Dim size) {
  const std::optional<Dim> start = c.maybe_dim("start"), end = c.maybe_dim("end");
  return python_slice(c.b, size, start, end, c.integer("step"));
}

namespace {

OpDef slice() {
  OpDef def = mapping("slice");
  for (const char* overload : {"aten.slice.Tensor", "aten.slice_copy.Tensor"})
    def.from_aten_call(overload, [](AtenCall& c) -> Values {
      ValueId x = c.tensor("self");
      int64_t axis = c.b.normal_axis(c.integer("dim"), c.b.rank(x));
      if (c.has_tensor("start") || c.has_tensor("end")) return {slice_of_data(c, x, axis)};
      SliceBounds bounds = slice_bounds(c, c.b.shape(x)[axis]);
      // Where algebra cannot tell, the recorded length is the simpler name of the same number.
      if (bounds.step == 1 && c.result().shape.size() > static_cast<size_t>(axis)) {
        Dim recorded = c.result().shape[axis];
        if (compare(bounds.stop - bounds.start, recorded, c.b) != Agreement::refuted) bounds.stop = bounds.start + recorded;
      }
      return {c.b.slice(x, axis, bounds.start, bounds.stop, bounds.step)};
    });
  for (const char* overload : {"aten.select.int", "aten.select_copy.int"})
    def.from_aten_call(overload, [](AtenCall& c) -> Values {
      ValueId x = c.tensor("self");
      int64_t axis = c.b.normal_axis(c.integer("dim"), c.b.rank(x));
      return {c.b.select_index(x, axis, from_start(c.b, c.dim("index"), c.b.shape(x)[axis], "index"))};
    });
  for (const char* overload : {"aten.narrow.default", "aten.narrow_copy.default"})
    def.from_aten_call(overload, [](AtenCall& c) -> Values {
      ValueId x = c.tensor("self");
      int64_t axis = c.b.normal_axis(c.integer("dim"), c.b.rank(x));
      Dim start = from_start(c.b, c.dim("start"), c.b.shape(x)[axis], "start");
      return {c.b.slice(x, axis, start, start + c.dim("length"))};
    });
  return def.sample("t(5, 4)[1:3]")
      .sample("t(5, 4)[:, ::2]")
      .sample("t(5, 4)[-3:-1]")
      .sample("t(5, 4)[2:99]")
      .sample("t(5, 4)[3:1]")
      .sample("t(5, 4)[-99:2, 1:]")
      .sample("t(5, 4)[..., 1::3]")
      .sample("t(5, 4)[2]")
      .sample("t(5, 4)[:, -1]")
      .sample("t(5).select(0, -2)")
      .sample("t(5, 4).narrow(0, 1, 3)")
      .sample("t(5, 4).narrow(-1, -2, 2)");
}

// Several slices, one after another.
Values split_at(AtenCall& c, ValueId x, int64_t axis, const Dims& sizes) {
  Values parts;
  Dim start = 0;
  for (Dim size : sizes) {
    parts.push_back(c.b.slice(x, axis, start, start + size));
    start = start + size;
  }
  return parts;
}

OpDef split() {
  return functional("split")
      .doc("x cut along an axis into parts of these sizes, one after another")
      .operands("x")
      .attributes(attr<Dims>("sizes"), attr<int64_t>("axis"))
      .constraint("split_c1", "axis is an axis of x", [](const Call& c) { return is_axis(c.integer("axis"), c.rank("x")); })
      .constraint("split_c2", "the sizes are not negative and add up to that axis",
                  [](const Call& c) {
                    Dim total = 0;
                    for (const Dim size : c.dims("sizes")) {
                      if (!may_be_at_most(0, size)) return false;
                      total = total + size;
                    }
                    return c.agree(total, c.shape("x")[c.integer("axis")]);
                  })
      .infer_all([](const Call& c) {
        std::vector<Type> parts(c.dims("sizes").size(), c.type("x"));
        for (size_t i = 0; i < parts.size(); ++i) parts[i].shape[c.integer("axis")] = c.dims("sizes")[i];
        return parts;
      })
      .decompose_all([](Builder& b, const Call& c) {
        Values parts;
        Dim start = 0;
        for (const Dim size : c.dims("sizes")) {
          parts.push_back(b.slice(c.value("x"), c.integer("axis"), start, start + size));
          start = start + size;
        }
        return parts;
      })
      .spelled_cpp("split");
}

// torch's splits are slices; where all of them are used, recognise-split makes one split of them again.
OpDef slices() {
  OpDef def = mapping("slice");
  for (const char* overload : {"aten.split_with_sizes.default", "aten.split.sizes", "aten.split_with_sizes_copy.default",
                               "aten.unsafe_split_with_sizes.default"})
    def.from_aten_call(overload, [](AtenCall& c) {
      ValueId x = c.tensor("self");
      int64_t axis = c.b.normal_axis(c.integer("dim"), c.b.rank(x));
      const char* name = c.has_argument("split_size") ? "split_size" : "split_sizes";
      if (c.has_tensor(name)) return split_by_data(c, x, axis, name);
      Dims sizes = c.dims(name);
      Dim total = 0;
      for (Dim size : sizes) total = total + size;
      if (!c.b.check(total, c.b.shape(x)[axis], "the sizes of a split and the split axis"))
        throw Error(ErrorCode::bad_input, "the sizes of a split do not add up")
            .expected(c.b.shape(x)[axis].text())
            .found(total.text());
      return split_at(c, x, axis, sizes);
    });
  // How many parts there are was decided when the model was recorded; the last one is what remains.
  auto equal_parts = [](AtenCall& c, ValueId x, int64_t axis, Dim part) {
    Dim size = c.b.shape(x)[axis];
    Dims sizes(c.result_count(), part);
    if (!sizes.empty()) sizes.back() = size - part * Dim(static_cast<int64_t>(sizes.size()) - 1);
    return split_at(c, x, axis, sizes);
  };
  for (const char* overload : {"aten.split.Tensor", "aten.split_copy.Tensor", "aten.unsafe_split.Tensor"})
    def.from_aten_call(overload, [equal_parts](AtenCall& c) {
      ValueId x = c.tensor("self");
      int64_t axis = c.b.normal_axis(c.integer("dim"), c.b.rank(x));
      return equal_parts(c, x, axis, c.dim("split_size"));
    });
  for (const char* overload : {"aten.chunk.default", "aten.unsafe_chunk.default"})
    def.from_aten_call(overload, [equal_parts](AtenCall& c) {
      ValueId x = c.tensor("self");
      int64_t axis = c.b.normal_axis(c.integer("dim"), c.b.rank(x));
      int64_t chunks = c.integer("chunks");
      if (chunks < 1)
        throw Error(ErrorCode::bad_input, "there is no such number of chunks")
            .expected("at least 1")
            .found(std::to_string(chunks));
      return equal_parts(c, x, axis, ceildiv(c.b.shape(x)[axis], chunks));
    });
  for (const char* overload : {"aten.tensor_split.indices", "aten.tensor_split.sections"})
    def.from_aten_call(overload, [](AtenCall& c) {
      ValueId x = c.tensor("self");
      int64_t axis = c.b.normal_axis(c.integer("dim"), c.b.rank(x));
      Dim size = c.b.shape(x)[axis];
      Dims sizes;
      if (c.has_argument("sections")) {
        int64_t count = c.integer("sections");
        if (count != static_cast<int64_t>(c.result_count()))
          c.unsupported(fmt::format("{} sections and {} results", count, c.result_count()));
        if (count < 1) return Values{};
        for (int64_t i = 0; i < count; ++i)
          sizes.push_back(floordiv(size, count) + (size.is_number() && i < size.number() % count ? 1 : 0));
        if (!size.is_number()) c.b.check(mod(size, count), 0, "an axis that is split evenly");
      } else {
        Dim start = 0;
        Dims ends = c.dims("indices");
        ends.push_back(size);
        for (Dim end : ends) {
          Dim stop = within(c.b, from_start(c.b, end, size, "indices"), start, size);
          sizes.push_back(stop - start);
          start = stop;
        }
      }
      return split_at(c, x, axis, sizes);
    });
  for (const char* overload : {"aten.unbind.int", "aten.unbind_copy.int"})
    def.from_aten_call(overload, [](AtenCall& c) {
      ValueId x = c.tensor("self");
      int64_t axis = c.b.normal_axis(c.integer("dim"), c.b.rank(x));
      Values parts;
      for (size_t i = 0; i < c.result_count(); ++i) parts.push_back(c.b.select_index(x, axis, static_cast<int64_t>(i)));
      if (!c.b.check(c.b.shape(x)[axis], static_cast<int64_t>(c.result_count()), "the parts of unbind and the axis"))
        throw Error(ErrorCode::bad_input, "unbind has another number of parts than the axis is long").found(c.b.type(x).text());
      return parts;
    });
  return def.sample("t(6, 4).split(2)")
      .sample("t(7, 4).split(3)")
      .sample("t(2, 7).split([1, 2, 4], dim=-1)")
      .sample("t(2, 7).chunk(3, dim=1)")
      .sample("t(6, 2).chunk(4)")
      .sample("t(2, 7).tensor_split(3, dim=-1)")
      .sample("t(2, 7).tensor_split([2, 5], dim=1)")
      .sample("t(3, 4).unbind(-1)")
      .sample("t(3).unbind()");
}

// Checks that torch makes while the model runs; the recording made them once, and types are checked at every node.
OpDef assertions() {
  OpDef def = mapping("cast");
  for (const char* overload :
       {"aten._assert_tensor_metadata.default", "aten._assert_scalar.default", "aten.sym_constrain_range_for_size.default",
        "aten.sym_constrain_range.default", "aten._assert_async.default", "aten._assert_async.msg"})
    def.from_aten_call(overload, [](AtenCall& c) -> Values {
      for (const std::string& name : c.argument_names()) c.discard(name, "an assertion has no result");
      return {};
    });
  return def;
}

}  // namespace

std::vector<OpDef> view_ops() {
  return {reshape(), identity(), cast(), transpose(), reverse(), broadcast(), slice(), split(), slices(), assertions()};
}

}  // namespace pycandle
