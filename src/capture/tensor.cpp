#include "pycandle/tensor.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <numeric>
#include <ostream>

#include "capture/calls.h"
#include "ops/core/mapping.h"

namespace pycandle::front {
namespace {

const Type& type_of(const Tensor& t) {
  if (const Leaf* leaf = Capture::leaf_of(t)) return leaf->type;
  if (const Capture* capture = Capture::current()) return capture->type_of(t);
  if (!t.defined()) throw Error(ErrorCode::bad_input, "a tensor that is absent is used");
  throw Error(ErrorCode::bad_input, "a tensor outlived the capture that it belongs to");
}

int64_t normal(int64_t axis, int64_t rank) {
  if (axis >= -rank && axis < rank) return axis < 0 ? axis + rank : axis;
  throw Error(ErrorCode::bad_input, fmt::format("axis {} is out of range", axis))
      .expected(rank == 0 ? "no axis, as the tensor has none" : fmt::format("{} to {}", -rank, rank - 1))
      .found(std::to_string(axis))
      .module_path(current_module());
}

template <class F> Tensor with(const char* op, const Tensor& x, Here here, const F& f) {
  return Capture::apply_one(op, {&x}, here, [&](Builder& b, const Values& v) -> Values { return {f(b, v[0])}; });
}

// The one size that is -1 follows from the others.
Shape completed(const Builder& b, ValueId x, Shape shape) {
  const auto is_open = [](pycandle::Dim d) { return d == pycandle::Dim(-1); };
  const auto open = std::find_if(shape.begin(), shape.end(), is_open);
  if (open == shape.end()) return shape;
  if (std::count_if(shape.begin(), shape.end(), is_open) > 1)
    throw Error(ErrorCode::bad_input, "only one size can be -1").found(to_string(shape));
  Shape others = shape;
  others.erase(others.begin() + (open - shape.begin()));
  const pycandle::Dim all = product(b.shape(x)), known = product(others);
  if (known == pycandle::Dim(0) || equal(mod(all, known), 0) == Tri::no)
    throw Error(ErrorCode::bad_input, "the other sizes do not divide the count of elements")
        .expected(fmt::format("a shape of {} elements, as {} has", all.text(), b.type(x).text()))
        .found(to_string(shape));
  *open = floordiv(all, known);
  return shape;
}

Ints normal_axes(const Ints& axes, int64_t rank) {
  Ints all = axes;
  if (all.empty()) {
    all.resize(static_cast<size_t>(rank));
    std::iota(all.begin(), all.end(), 0);
  }
  for (int64_t& axis : all) axis = normal(axis, rank);
  std::sort(all.begin(), all.end());
  return all;
}

Tensor sliced(const Tensor& x, int64_t axis, std::optional<Dim> start, std::optional<Dim> stop, int64_t step, Here here) {
  return with("slice", x, here, [&](Builder& b, ValueId v) {
    const int64_t place = normal(axis, b.rank(v));
    const auto base = [](std::optional<Dim> d) -> std::optional<pycandle::Dim> {
      if (!d) return std::nullopt;
      return std::get<pycandle::Dim>(attribute(*d));
    };
    const SliceBounds bounds = python_slice(b, b.shape(v)[place], base(start), base(stop), step);
    return b.slice(v, place, bounds.start, bounds.stop, bounds.step);
  });
}

Array loaded(const Tensor& t) {
  if (const Leaf* leaf = Capture::leaf_of(t)) return leaf->load();
  throw Error(ErrorCode::bad_input, "a tensor has no value while a program is captured")
      .found(type_of(t).text())
      .module_path(current_module())
      .hint("PYCANDLE_EAGER=1 in the environment runs every op at once");
}

}  // namespace

Tensor::Tensor(Array value) {
  auto leaf = std::make_shared<Leaf>();
  leaf->type = {value.dtype(), Shape(value.shape().begin(), value.shape().end())};
  leaf->value = std::move(value);
  leaf_ = std::move(leaf);
}

DType Tensor::dtype() const { return type_of(*this).dtype; }
int64_t Tensor::rank() const { return type_of(*this).rank(); }
Dims Tensor::shape() const { return front_dims(type_of(*this).shape); }
std::string Tensor::type_text() const { return type_of(*this).text(); }
Array Tensor::array() const { return loaded(*this); }

Dim Tensor::dim(int64_t axis) const {
  const Type& type = type_of(*this);
  return DimAccess::front(type.shape[normal(axis, type.rank())]);
}

double Tensor::item() const {
  const Array value = array();
  if (value.size() != 1)
    throw Error(ErrorCode::bad_input, "item() needs a tensor of one element").expected("1 element").found(type_text());
  return load_double(value)[0];
}

// ---- movement

Tensor Tensor::reshape(const Dims& shape, Here here) const {
  return with("reshape", *this, here,
              [&](Builder& b, ValueId x) { return b.reshape(x, completed(b, x, std::get<Shape>(attribute(shape)))); });
}

Tensor Tensor::flatten(int64_t start, int64_t end, Here here) const {
  return with("reshape", *this, here, [&](Builder& b, ValueId x) {
    const int64_t rank = b.rank(x);
    if (rank == 0) return b.reshape(x, {1});
    const int64_t first = normal(start, rank), last = normal(end, rank);
    if (first > last) throw Error(ErrorCode::bad_input, "flatten() ends before it starts");
    const Shape& from = b.shape(x);
    Shape to(from.begin(), from.begin() + first);
    to.push_back(product(Shape(from.begin() + first, from.begin() + last + 1)));
    to.insert(to.end(), from.begin() + last + 1, from.end());
    return b.reshape(x, to);
  });
}

Tensor Tensor::unflatten(int64_t axis, const Dims& sizes, Here here) const {
  Dims to = shape();
  const auto place = to.begin() + normal(axis, rank());
  Dims parts = sizes;
  const auto is_open = [](Dim d) { return d.is_number() && d.number() == -1; };
  if (const auto open = std::find_if(parts.begin(), parts.end(), is_open); open != parts.end()) {
    Dim others = -1;
    for (Dim d : sizes) others *= d;
    *open = *place / others;
  }
  to.erase(place);
  to.insert(to.begin() + normal(axis, rank()), parts.begin(), parts.end());
  return reshape(to, here);
}

Tensor Tensor::permute(const Ints& axes, Here here) const {
  return with("transpose", *this, here, [&](Builder& b, ValueId x) {
    if (static_cast<int64_t>(axes.size()) != b.rank(x))
      throw Error(ErrorCode::bad_input, "permute() needs every axis once").expected(b.type(x).text()).found(to_string(axes));
    return b.transpose(x, axes);
  });
}

Tensor Tensor::transpose(int64_t a, int64_t b, Here here) const {
  return with("transpose", *this, here, [&](Builder& builder, ValueId x) { return builder.swap_axes(x, a, b); });
}

Tensor Tensor::unsqueeze(int64_t axis, Here here) const {
  return with("reshape", *this, here, [&](Builder& b, ValueId x) { return b.unsqueeze(x, normal(axis, b.rank(x) + 1)); });
}

Tensor Tensor::squeeze(int64_t axis, Here here) const {
  return with("reshape", *this, here, [&](Builder& b, ValueId x) {
    const int64_t place = normal(axis, b.rank(x));
    const bool is_one = b.shape(x)[place] == pycandle::Dim(1);
    return is_one ? b.squeeze(x, place) : x;
  });
}

Tensor Tensor::expand(const Dims& shape, Here here) const {
  return with("broadcast", *this, here, [&](Builder& b, ValueId x) {
    Shape to = std::get<Shape>(attribute(shape));
    const Shape& from = b.shape(x);
    for (size_t i = 0; i < to.size(); ++i) {  // from the end
      pycandle::Dim& size = to[to.size() - 1 - i];
      if (size == pycandle::Dim(-1) && i < from.size()) size = from[from.size() - 1 - i];
    }
    return b.broadcast_to(x, to);
  });
}

Tensor Tensor::slice(int64_t axis, Dim start, Dim stop, int64_t step, Here here) const {
  return sliced(*this, axis, start, stop, step, here);
}
Tensor Tensor::slice_from(int64_t axis, Dim start, int64_t step, Here here) const {
  return sliced(*this, axis, start, {}, step, here);
}

Tensor Tensor::select(int64_t axis, Dim index, Here here) const {
  return with("slice", *this, here, [&](Builder& b, ValueId x) {
    const int64_t place = normal(axis, b.rank(x));
    const pycandle::Dim size = b.shape(x)[place], given = std::get<pycandle::Dim>(attribute(index));
    const bool from_end = given.is_number() && given.number() < 0;
    return b.select_index(x, place, from_end ? given + size : given);
  });
}

Tensor Tensor::operator[](std::initializer_list<Index> indices) const {
  const auto takes_axis = [](const Index& i) { return i.kind == Index::Kind::slice || i.kind == Index::Kind::position; };
  const int64_t taken = std::count_if(indices.begin(), indices.end(), takes_axis);
  Tensor x = *this;
  int64_t axis = 0;
  for (const Index& index : indices) {
    switch (index.kind) {
      case Index::Kind::slice:
        if (index.slice.start || index.slice.stop || index.slice.step != 1)
          x = sliced(x, axis, index.slice.start, index.slice.stop, index.slice.step, index.here);
        ++axis;
        break;
      case Index::Kind::position: x = x.select(axis, index.position, index.here); break;
      case Index::Kind::new_axis: x = x.unsqueeze(axis++, index.here); break;
      case Index::Kind::ellipsis: axis += rank() - taken; break;
    }
  }
  return x;
}

Tensor Tensor::to(DType dtype, Here here) const {
  return with("cast", *this, here, [&](Builder& b, ValueId x) { return b.cast(x, dtype); });
}

// ---- reductions

Tensor Tensor::sum(const Ints& axes, bool keepdim, Here here) const {
  return with("reduce_sum", *this, here, [&](Builder& b, ValueId x) {
    const DType dtype = b.dtype(x);
    return b.sum(b.cast(x, is_inexact(dtype) ? dtype : DType::i64), normal_axes(axes, b.rank(x)), keepdim);
  });
}

Tensor Tensor::mean(const Ints& axes, bool keepdim, Here here) const {
  return with("mean", *this, here, [&](Builder& b, ValueId x) {
    return b.create("mean", {x}, {{"axes", normal_axes(axes, b.rank(x))}, {"keep", keepdim}});
  });
}

Tensor Tensor::amax(const Ints& axes, bool keepdim, Here here) const {
  return with("reduce_max", *this, here,
              [&](Builder& b, ValueId x) { return b.reduce("reduce_max", x, normal_axes(axes, b.rank(x)), keepdim); });
}

Tensor Tensor::amin(const Ints& axes, bool keepdim, Here here) const {
  return with("reduce_min", *this, here,
              [&](Builder& b, ValueId x) { return b.reduce("reduce_min", x, normal_axes(axes, b.rank(x)), keepdim); });
}

// ---- parts and wholes

std::vector<Tensor> Tensor::split(const Dims& sizes, int64_t axis, Here here) const {
  return call_all("split", {this}, nullptr, {{"sizes", attribute(sizes)}, {"axis", normal(axis, rank())}}, here);
}

std::vector<Tensor> Tensor::chunk(int64_t count, int64_t axis, Here here) const {
  const Dim size = dim(axis);
  if (count < 1 || (size.is_number() && size.number() % count != 0))
    throw Error(ErrorCode::bad_input, fmt::format("axis {} cannot be cut into {} parts of one size", axis, count))
        .found(type_text())
        .op("split")
        .module_path(current_module());
  return split(Dims(static_cast<size_t>(count), size / count), axis, here);
}

void wrong_count(size_t expected, size_t found) {
  throw Error(ErrorCode::bad_input, "unpack<N> has another N than the op has results")
      .expected(std::to_string(expected))
      .found(std::to_string(found));
}

Tensor cat(const std::vector<Tensor>& tensors, int64_t axis, Here here) {
  std::vector<const Tensor*> all;
  all.reserve(tensors.size());
  for (const Tensor& t : tensors) all.push_back(&t);
  return Capture::apply_one("concat", all, here, [&](Builder& b, const Values& v) -> Values {
    return {b.concat(promote(b, std::vector<pycandle::Operand>(v.begin(), v.end())), axis)};
  });
}

Tensor stack(const std::vector<Tensor>& tensors, int64_t axis, Here here) {
  std::vector<const Tensor*> all;
  all.reserve(tensors.size());
  for (const Tensor& t : tensors) all.push_back(&t);
  return Capture::apply_one("stack", all, here, [&](Builder& b, const Values& v) -> Values {
    const Values promoted = promote(b, std::vector<pycandle::Operand>(v.begin(), v.end()));
    return {b.create("stack", promoted, {{"axis", normal(axis, b.rank(promoted.at(0)) + 1)}})};
  });
}

Tensor where(const Operand& condition, const Operand& yes, const Operand& no, Here here) {
  return elementwise("select", {condition, yes, no}, here);
}
Tensor matmul(const Tensor& a, const Tensor& b, Here here) { return call("matmul", {&a, &b}, nullptr, {}, here); }

Tensor full(const Dims& shape, const Scalar& value, DType dtype, Here here) {
  return Capture::apply_one("constant", {}, here, [&](Builder& b, const Values&) -> Values {
    return {b.full(value, dtype, std::get<Shape>(attribute(shape)))};
  });
}

Tensor arange(Dim stop, Here here) { return arange(0, stop, 1, DType::i64, here); }
Tensor arange(Dim start, Dim stop, int64_t step, DType dtype, Here here) {
  return call("arange", {}, nullptr, {{"start", attribute(start)}, {"stop", attribute(stop)}, {"step", step}, {"dtype", dtype}},
              here);
}

// ---- operators

namespace {

Tensor unary(const char* op, const Operand& x) {
  const Tensor* tensor = Capture::tensor_of(x);
  require(tensor != nullptr, "a number is negated as a tensor");
  return call(op, {tensor}, nullptr, {}, x.here());
}

}  // namespace

Tensor operator-(const Operand& x) { return unary("neg", x); }
Tensor operator~(const Operand& x) { return unary("bitwise_not", x); }

#define PYCANDLE_OPERATOR(symbol, op)                                                                     \
  Tensor operator symbol(const Tensor& a, const Operand& b) { return elementwise(op, {a, b}, b.here()); } \
  Tensor operator symbol(const Number& a, const Tensor& b) { return elementwise(op, {a.operand(), b}, a.operand().here()); }
PYCANDLE_OPERATOR(+, "add")
PYCANDLE_OPERATOR(-, "sub")
PYCANDLE_OPERATOR(*, "mul")
PYCANDLE_OPERATOR(/, "div")
PYCANDLE_OPERATOR(%, "remainder")
PYCANDLE_OPERATOR(<, "lt")
PYCANDLE_OPERATOR(<=, "le")
PYCANDLE_OPERATOR(>, "gt")
PYCANDLE_OPERATOR(>=, "ge")
PYCANDLE_OPERATOR(&, "bitwise_and")
PYCANDLE_OPERATOR(|, "bitwise_or")
PYCANDLE_OPERATOR(^, "bitwise_xor")
#undef PYCANDLE_OPERATOR

Tensor operator==(const Tensor& a, const Operand& b) { return elementwise("eq", {a, b}, b.here()); }
Tensor operator!=(const Tensor& a, const Operand& b) { return elementwise("ne", {a, b}, b.here()); }

// ---- printing

namespace {

// [[1, 2, …], …]: at most kEdge entries at each end of an axis.
void print_values(std::ostream& out, const std::vector<std::string>& texts, const Sizes& shape, size_t axis, size_t first) {
  constexpr int64_t kEdge = 3;
  if (axis == shape.size()) {
    out << texts[first];
    return;
  }
  const size_t stride = static_cast<size_t>(
      element_count(Sizes(shape.begin() + static_cast<std::ptrdiff_t>(axis) + 1, shape.end())));
  out << '[';
  for (int64_t i = 0; i < shape[axis]; ++i) {
    if (i == kEdge && shape[axis] > 2 * kEdge) {
      out << ", …";
      i = shape[axis] - kEdge;
    }
    if (i > 0) out << (axis + 1 < shape.size() ? ",\n" + std::string(axis + 1, ' ') : ", ");
    print_values(out, texts, shape, axis + 1, first + static_cast<size_t>(i) * stride);
  }
  out << ']';
}

}  // namespace

std::ostream& operator<<(std::ostream& out, const Tensor& t) {
  if (!t.defined()) return out << "absent";
  if (!Capture::leaf_of(t) || Capture::current()) return out << t.type_text();
  const Array value = t.array();
  std::vector<std::string> texts;
  if (is_complex(value.dtype())) {
    for (const std::complex<double>& c : load_complex(value)) texts.push_back(to_string(Scalar(c)));
  } else if (is_floating(value.dtype())) {
    for (double d : load_double(value)) texts.push_back(fmt::format("{:.6g}", d));
  } else {
    for (int64_t i : load_int(value)) texts.push_back(std::to_string(i));
  }
  out << t.type_text() << ' ';
  print_values(out, texts, value.shape(), 0, 0);
  return out;
}

}  // namespace pycandle::front
