#include "params/mapping/functions.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <numeric>

#include "base/error.h"
#include "base/strides.h"

namespace pycandle {
namespace {

constexpr std::array<const char*, kFateCount> kFates = {"used as is", "cast",    "transposed", "permuted", "reshaped",
                                                        "split",      "joined",  "computed",   "tied to",  "carried",
                                                        "unused",     "missing", "mismatched"};

using Tensors = std::vector<StoredTensor>;

[[noreturn]] void refuse(const SourceExpr& e, const std::string& what) {
  throw Error(ErrorCode::bad_input, fmt::format("{} cannot be made: {}", e.text(), what));
}

int64_t whole(const SourceExpr& e, size_t i) {
  const double n = e.numbers.at(i);
  if (n != std::floor(n) || std::abs(n) > 1e15) refuse(e, fmt::format("{} is not a whole number", n));
  return static_cast<int64_t>(n);
}

size_t axis_of(const SourceExpr& e, double number, size_t rank) {
  if (number < 0 || number != std::floor(number) || number >= static_cast<double>(rank))
    refuse(e, fmt::format("there is no axis {}", number));
  return static_cast<size_t>(number);
}

StoredTensor in_memory(const Array& array, const StoredTensor& like) {
  const Bytes bytes(static_cast<const std::byte*>(array.data()), array.bytes());
  auto storage = std::make_shared<const Storage>(
      Storage{bytes, 0, nullptr, std::make_shared<const Array>(array), like.storage->where});
  return dense_tensor(like.name, array.dtype(), nullptr, array.shape(), std::move(storage), 0);
}

constexpr size_t kPiece = size_t{4} << 20;

// Row i of the tensor to place(i); a few megabytes of it are in memory at a time.
template <class Place> void copy_rows(const StoredTensor& t, size_t row_bytes, const Place& place) {
  size_t done = 0;
  for_each_piece(t, kPiece, [&](const Array& piece) {
    const auto* from = static_cast<const std::byte*>(piece.data());
    for (size_t left = piece.bytes(), count = 0; left > 0; left -= count, from += count, done += count) {
      count = std::min(left, row_bytes - done % row_bytes);
      std::memcpy(place(done / row_bytes) + done % row_bytes, from, count);
    }
  });
}

// Every element, in order, after a function of it.
template <class Change> StoredTensor changed(const StoredTensor& t, const Change& change) {
  Array out(t.dtype, t.shape);
  auto* to = static_cast<std::byte*>(out.mutable_data());
  for_each_piece(t, kPiece, [&](const Array& piece) {
    std::vector<double> values = load_double(piece);
    for (double& value : values) value = change(value);
    const Array made = store(t.dtype, piece.shape(), values);
    std::memcpy(to, made.data(), made.bytes());
    to += made.bytes();
  });
  return in_memory(out, t);
}

// One that strides can be laid over: not packed in blocks, not deflated.
StoredTensor viewable(const StoredTensor& t) {
  const bool is_packed = t.storage->inflated != 0 || (t.encoding != nullptr && t.encoding->block > 1);
  if (!is_packed) return t;
  const Array array = read(t);
  release(t);
  return in_memory(array, t);
}

StoredTensor dense(const StoredTensor& t) {
  if (t.is_dense()) return t;
  const Array array = read(t);
  release(t);
  return in_memory(array, t);
}

// ---- each function: the shape it gives, and the tensor

Sizes permuted_shape(const SourceExpr& e, const Sizes& shape) {
  if (e.numbers.size() != shape.size()) refuse(e, fmt::format("{} axes are given for {}", e.numbers.size(), to_string(shape)));
  Sizes out;
  std::vector<bool> seen(shape.size(), false);
  for (const double n : e.numbers) {
    const size_t axis = axis_of(e, n, shape.size());
    if (seen[axis]) refuse(e, fmt::format("axis {} is there twice", n));
    seen[axis] = true;
    out.push_back(shape[axis]);
  }
  return out;
}

StoredTensor permute(const SourceExpr& e, const StoredTensor& x) {
  const StoredTensor from = viewable(x);
  StoredTensor out = from;
  out.shape = permuted_shape(e, x.shape);
  for (size_t i = 0; i < e.numbers.size(); ++i) out.strides[i] = from.strides[static_cast<size_t>(e.numbers[i])];
  return out;
}

SourceExpr as_permute(const SourceExpr& e, size_t rank) {
  if (rank < 2) refuse(e, "it has less than two axes");
  std::vector<double> axes(rank);
  std::iota(axes.begin(), axes.end(), 0.0);
  std::swap(axes[rank - 1], axes[rank - 2]);
  SourceExpr p = e;
  p.numbers = std::move(axes);
  return p;
}

Sizes reshaped_shape(const SourceExpr& e, const Sizes& shape) {
  Sizes out;
  int64_t known = 1, open = -1;
  for (size_t i = 0; i < e.numbers.size(); ++i) {
    out.push_back(whole(e, i));
    if (out.back() == -1 && open < 0) {
      open = static_cast<int64_t>(i);
    } else if (out.back() < 0 || __builtin_mul_overflow(known, out.back(), &known)) {
      refuse(e, "a size is not one");
    }
  }
  const int64_t count = element_count(shape);
  if (open >= 0 && known > 0) out[static_cast<size_t>(open)] = count / known;
  if (open >= 0 ? known == 0 || count % known != 0 : count != known)
    refuse(e, fmt::format("{} has another number of elements", to_string(shape)));
  return out;
}

struct Part {
  size_t axis;
  int64_t begin, end;
};

Part part_of(const SourceExpr& e, const Sizes& shape) {
  const Part p{axis_of(e, e.numbers[0], shape.size()), whole(e, 1), whole(e, 2)};
  if (p.begin < 0 || p.end < p.begin || p.end > shape[p.axis]) refuse(e, fmt::format("{} has no such part", to_string(shape)));
  return p;
}

StoredTensor slice(const SourceExpr& e, const StoredTensor& x) {
  const Part p = part_of(e, x.shape);
  StoredTensor out = viewable(x);
  const size_t unit = out.encoding != nullptr ? out.encoding->block_bytes : size_of(out.dtype);
  out.offset += static_cast<uint64_t>(p.begin * out.strides[p.axis]) * unit;
  out.shape[p.axis] = p.end - p.begin;
  return out;
}

Sizes joined_shape(const SourceExpr& e, const std::vector<SourceType>& of) {
  const size_t axis = axis_of(e, e.numbers.empty() ? 0 : e.numbers[0], of[0].shape.size());
  Sizes out = of[0].shape;
  for (size_t i = 1; i < of.size(); ++i) {
    Sizes rest = of[i].shape, first = of[0].shape;
    const bool same_rank = rest.size() == first.size();
    if (same_rank) rest[axis] = first[axis] = 0;
    if (!same_rank || rest != first || of[i].dtype != of[0].dtype)
      refuse(e, fmt::format("{}{} and {}{} do not fit together", name_of(of[0].dtype), to_string(of[0].shape),
                            name_of(of[i].dtype), to_string(of[i].shape)));
    out[axis] += of[i].shape[axis];
  }
  return out;
}

StoredTensor join(const SourceExpr& e, const Tensors& parts) {
  std::vector<SourceType> types;
  for (const StoredTensor& t : parts) types.push_back({t.dtype, t.shape});
  Array out(parts[0].dtype, joined_shape(e, types));
  const size_t axis = e.numbers.empty() ? 0 : static_cast<size_t>(e.numbers[0]);
  int64_t inner = 1;
  for (size_t i = axis + 1; i < out.shape().size(); ++i) inner *= out.shape()[i];
  const size_t row = static_cast<size_t>(inner * out.shape()[axis]) * size_of(out.dtype());
  size_t at = 0;
  for (const StoredTensor& t : parts) {
    const size_t bytes = static_cast<size_t>(inner * t.shape[axis]) * size_of(t.dtype);  // of a part in a row
    copy_rows(t, bytes, [&](size_t i) { return static_cast<std::byte*>(out.mutable_data()) + i * row + at; });
    at += bytes;
  }
  return in_memory(out, parts[0]);
}

void check_heads(const SourceExpr& e, const Sizes& shape) {
  const int64_t heads = whole(e, 0);
  if (shape.empty() || heads <= 0 || shape[0] % (2 * heads) != 0)
    refuse(e, fmt::format("{} rows are not {} heads of pairs", shape.empty() ? 0 : shape[0], heads));
}

// Rotary rows: pairs (x0 y0 x1 y1 …) to halves (x0 x1 … y0 y1 …) within each head, or back.
StoredTensor rope(const SourceExpr& e, const StoredTensor& x, bool to_halves) {
  check_heads(e, x.shape);
  Array out(x.dtype, x.shape);
  const auto rows = static_cast<size_t>(x.shape[0]), half = rows / static_cast<size_t>(whole(e, 0)) / 2;
  const size_t bytes = rows == 0 ? 0 : out.bytes() / rows;  // of a row
  copy_rows(x, bytes, [&](size_t row) {
    const size_t begin = row / (2 * half) * (2 * half), i = row % (2 * half);
    const size_t place = to_halves ? i % 2 * half + i / 2 : i % half * 2 + i / half;
    return static_cast<std::byte*>(out.mutable_data()) + (begin + place) * bytes;
  });
  return in_memory(out, x);
}

// g · v / ‖v‖, the norm over all axes but one.
StoredTensor weight_norm(const SourceExpr& e, const StoredTensor& g, const StoredTensor& v) {
  const size_t axis = e.numbers.empty() ? 0 : axis_of(e, e.numbers[0], v.shape.size());
  if (v.shape.empty() || g.size() != v.shape[axis])
    refuse(e, fmt::format("{} scales for {}", to_string(g.shape), to_string(v.shape)));
  const std::vector<double> scale = load_double(read(g));
  std::vector<double> squares(scale.size(), 0.0);
  int64_t inner = 1;
  for (size_t i = axis + 1; i < v.shape.size(); ++i) inner *= v.shape[i];
  const auto row = [&](size_t i) { return (i / static_cast<size_t>(inner)) % squares.size(); };
  size_t i = 0;
  for_each_piece(v, kPiece, [&](const Array& piece) {
    for (const double value : load_double(piece)) squares[row(i++)] += value * value;
  });
  i = 0;
  return changed(v, [&](double value) {
    const size_t at = row(i++);
    return value * (scale[at] / std::sqrt(squares[at]));
  });
}

// w + scale · b a: w is [out, in…], a is [rank, in…], b is [out, rank], with ones behind it for a convolution.
StoredTensor lora(const SourceExpr& e, const StoredTensor& w, const StoredTensor& a, const StoredTensor& b) {
  const auto is_one = [](int64_t size) { return size == 1; };
  const bool fits = w.shape.size() >= 2 && a.shape.size() == w.shape.size() && b.shape.size() >= 2 && a.shape[0] == b.shape[1] &&
                    b.shape[0] == w.shape[0] && std::equal(a.shape.begin() + 1, a.shape.end(), w.shape.begin() + 1) &&
                    std::all_of(b.shape.begin() + 2, b.shape.end(), is_one);
  if (!fits) refuse(e, fmt::format("{} + {} {} do not fit together", to_string(w.shape), to_string(b.shape), to_string(a.shape)));
  const std::vector<double> left = load_double(read(b)), right = load_double(read(a));
  const auto rank = static_cast<size_t>(a.shape[0]), rows = static_cast<size_t>(w.shape[0]);
  const size_t columns = rows == 0 ? 0 : static_cast<size_t>(w.size()) / rows;
  const double scale = e.numbers.empty() ? 1.0 : e.numbers[0];
  std::vector<double> product(columns);  // of the row that is added to
  const auto multiply = [&](size_t row) {
    std::fill(product.begin(), product.end(), 0.0);
    for (size_t k = 0; k < rank; ++k)
      for (size_t j = 0; j < columns; ++j) product[j] += left[row * rank + k] * right[k * columns + j];
  };
  size_t row = 0, column = 0;
  return changed(w, [&](double value) {
    if (column == 0) multiply(row);
    value += scale * product[column];
    if (++column == columns) column = 0, ++row;
    return value;
  });
}

StoredTensor add(const SourceExpr& e, const StoredTensor& x) {
  return changed(x, [&](double value) { return value + e.numbers[0]; });
}

struct Function {
  std::string_view name;
  size_t tensors, more_tensors;  // at least, at most
  size_t numbers, more_numbers;
  Fate fate;
  Sizes (*shape)(const SourceExpr&, const std::vector<SourceType>&);
  StoredTensor (*apply)(const SourceExpr&, const Tensors&);
};
constexpr size_t kAny = 64;

const Sizes& first(const std::vector<SourceType>& of) { return of[0].shape; }

constexpr Function kFunctions[] = {
    {"transpose", 1, 1, 0, 0, Fate::transposed,
     [](const SourceExpr& e, const std::vector<SourceType>& of) {
       return permuted_shape(as_permute(e, first(of).size()), first(of));
     },
     [](const SourceExpr& e, const Tensors& x) { return permute(as_permute(e, x[0].shape.size()), x[0]); }},
    {"permute", 1, 1, 1, kAny, Fate::permuted,
     [](const SourceExpr& e, const std::vector<SourceType>& of) { return permuted_shape(e, first(of)); },
     [](const SourceExpr& e, const Tensors& x) { return permute(e, x[0]); }},
    {"reshape", 1, 1, 0, kAny, Fate::reshaped,
     [](const SourceExpr& e, const std::vector<SourceType>& of) { return reshaped_shape(e, first(of)); },
     [](const SourceExpr& e, const Tensors& x) {
       StoredTensor out = dense(x[0]);
       out.shape = reshaped_shape(e, x[0].shape);
       out.strides = row_major_strides(out.shape);
       return out;
     }},
    {"slice", 1, 1, 3, 3, Fate::split,
     [](const SourceExpr& e, const std::vector<SourceType>& of) {
       Sizes out = first(of);
       const Part p = part_of(e, out);
       out[p.axis] = p.end - p.begin;
       return out;
     },
     [](const SourceExpr& e, const Tensors& x) { return slice(e, x[0]); }},
    {"join", 2, kAny, 0, 1, Fate::joined, joined_shape, [](const SourceExpr& e, const Tensors& x) { return join(e, x); }},
    {"rope_halves", 1, 1, 1, 1, Fate::permuted,
     [](const SourceExpr& e, const std::vector<SourceType>& of) {
       check_heads(e, first(of));
       return first(of);
     },
     [](const SourceExpr& e, const Tensors& x) { return rope(e, x[0], true); }},
    {"rope_pairs", 1, 1, 1, 1, Fate::permuted,
     [](const SourceExpr& e, const std::vector<SourceType>& of) {
       check_heads(e, first(of));
       return first(of);
     },
     [](const SourceExpr& e, const Tensors& x) { return rope(e, x[0], false); }},
    {"weight_norm", 2, 2, 0, 1, Fate::computed, [](const SourceExpr&, const std::vector<SourceType>& of) { return of[1].shape; },
     [](const SourceExpr& e, const Tensors& x) { return weight_norm(e, x[0], x[1]); }},
    {"lora", 3, 3, 0, 1, Fate::computed, [](const SourceExpr&, const std::vector<SourceType>& of) { return first(of); },
     [](const SourceExpr& e, const Tensors& x) { return lora(e, x[0], x[1], x[2]); }},
    {"add", 1, 1, 1, 1, Fate::computed, [](const SourceExpr&, const std::vector<SourceType>& of) { return first(of); },
     [](const SourceExpr& e, const Tensors& x) { return add(e, x[0]); }},
};

const Function* find_function(std::string_view name) {
  for (const Function& f : kFunctions)
    if (f.name == name) return &f;
  return nullptr;
}

const StoredTensor& tensor_named(const SourceExpr& e, const Checkpoint& checkpoint) {
  const StoredTensor* found = checkpoint.find(e.name);
  if (found == nullptr)
    throw Error(ErrorCode::bad_input, fmt::format("tensor '{}' is not in the checkpoint", shown_text(e.name)))
        .found(fmt::format("{} other tensors", checkpoint.tensors().size()));
  return *found;
}

}  // namespace

const char* name_of(Fate fate) { return kFates[static_cast<size_t>(fate)]; }

std::string problem_with(const SourceExpr& call) {
  const Function* f = find_function(call.function);
  if (f == nullptr) {
    std::vector<std::string_view> names;
    for (const Function& known : kFunctions) names.push_back(known.name);
    return fmt::format("there is no function {} (but: {})", shown_text(call.function), fmt::join(names, ", "));
  }
  const auto outside = [](size_t n, size_t low, size_t high) { return n < low || n > high; };
  if (outside(call.operands.size(), f->tensors, f->more_tensors))
    return fmt::format("{} takes {} tensors, not {}", f->name, f->tensors, call.operands.size());
  if (outside(call.numbers.size(), f->numbers, f->more_numbers))
    return fmt::format("{} takes {} numbers, not {}", f->name, f->numbers, call.numbers.size());
  return {};
}

Fate fate_of(const SourceExpr& e) {
  if (e.is_tensor()) return Fate::used;
  Fate most = find_function(e.function)->fate;
  // Of several, the one that says most: joined before split before transposed.
  const auto weight = [](Fate f) {
    return f == Fate::computed   ? 5
           : f == Fate::joined   ? 4
           : f == Fate::split    ? 3
           : f == Fate::permuted ? 2
           : f == Fate::used     ? 0
                                 : 1;
  };
  for (const SourceExpr& operand : e.operands)
    if (weight(fate_of(operand)) > weight(most)) most = fate_of(operand);
  return most;
}

SourceType type_of(const SourceExpr& e, const Checkpoint& checkpoint) {
  if (e.is_tensor()) {
    const StoredTensor& t = tensor_named(e, checkpoint);
    return {t.dtype, t.shape};
  }
  std::vector<SourceType> of;
  for (const SourceExpr& operand : e.operands) of.push_back(type_of(operand, checkpoint));
  const DType dtype = e.function == "weight_norm" ? of[1].dtype : of[0].dtype;
  return {dtype, find_function(e.function)->shape(e, of)};
}

StoredTensor evaluate(const SourceExpr& e, const Checkpoint& checkpoint) {
  if (e.is_tensor()) return tensor_named(e, checkpoint);
  type_of(e, checkpoint);  // what does not fit is said before anything is read
  Tensors of;
  for (const SourceExpr& operand : e.operands) of.push_back(evaluate(operand, checkpoint));
  return find_function(e.function)->apply(e, of);
}

}  // namespace pycandle
