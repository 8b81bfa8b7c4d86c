#include "params/checkpoints/stored_tensor.h"

#include <algorithm>
#include <cstring>
#include <stdexcept>

#include "base/strides.h"
#include "params/checkpoints/inflate.h"

namespace pycandle {
namespace {

constexpr size_t kMostAxes = 64;

size_t unit_bytes(const StoredTensor& t) { return t.encoding != nullptr ? t.encoding->block_bytes : size_of(t.dtype); }
int64_t block_of(const StoredTensor& t) { return t.encoding != nullptr ? t.encoding->block : 1; }

Error bad_tensor(const StoredTensor& t, const std::string& what) {
  return Error(ErrorCode::bad_input, fmt::format("{}: tensor '{}' {}", t.storage->where, shown_text(t.name), what));
}

void check_shape(const StoredTensor& t) {
  if (t.shape.size() > kMostAxes)
    throw bad_tensor(t, "has too many axes").expected("at most 64").found(fmt::format("{}", t.shape.size()));
  int64_t count = 1;
  bool overflows = false;
  for (const int64_t size : t.shape) {
    if (size < 0) throw bad_tensor(t, "has a negative size").found(to_string(t.shape));
    overflows = overflows || __builtin_mul_overflow(count, std::max<int64_t>(size, 1), &count);
  }
  int64_t bytes = 0;
  constexpr int64_t kWidest = 64;  // bytes of a block of any encoding to one element, and more
  if (overflows || __builtin_mul_overflow(count, kWidest, &bytes))
    throw bad_tensor(t, "has too many elements").found(to_string(t.shape));
}

void refuse_outside(const StoredTensor& t, const std::string& needed) {
  throw bad_tensor(t, "lies outside its storage")
      .expected(fmt::format("{} from byte {} on", needed, t.offset))
      .found(fmt::format("{} bytes", t.storage->size()))
      .hint("the file may be truncated: make or copy it again");
}

// Copies elements [first, first + count) of a strided tensor whose stored bytes begin at `data`.
template <class Copy> void walk(const StoredTensor& t, int64_t first, int64_t count, const Copy& copy) {
  const size_t rank = t.shape.size();
  if (count == 0) return;
  Sizes index(rank, 0);
  int64_t at = 0;
  for (size_t axis = rank; axis-- > 0;) {
    index[axis] = first % t.shape[axis];
    first /= t.shape[axis];
    at += index[axis] * t.strides[axis];
  }
  const int64_t inner = rank == 0 ? 1 : t.shape[rank - 1], step = rank == 0 ? 1 : t.strides[rank - 1];
  for (int64_t done = 0; done < count;) {
    const int64_t run = std::min(count - done, inner - (rank == 0 ? 0 : index[rank - 1]));
    copy(at, step, done, run);
    done += run;
    if (rank == 0) return;
    at += run * step;
    index[rank - 1] += run;
    for (size_t axis = rank - 1; index[axis] == t.shape[axis] && axis > 0; --axis) {
      at += t.strides[axis - 1] - t.strides[axis] * t.shape[axis];
      index[axis] = 0;
      ++index[axis - 1];
    }
  }
}

template <class T> void gather(const T* from, int64_t step, T* to, int64_t count) {
  for (int64_t i = 0; i < count; ++i) to[i] = from[i * step];
}

void copy_run(const std::byte* from, int64_t step, std::byte* to, int64_t count, size_t size) {
  if (step == 1) {
    std::memcpy(to, from, static_cast<size_t>(count) * size);
    return;
  }
  const bool aligned = reinterpret_cast<uintptr_t>(from) % std::min<size_t>(size, 8) == 0;
  if (aligned && size == 4) return gather(reinterpret_cast<const uint32_t*>(from), step, reinterpret_cast<uint32_t*>(to), count);
  if (aligned && size == 2) return gather(reinterpret_cast<const uint16_t*>(from), step, reinterpret_cast<uint16_t*>(to), count);
  if (aligned && size == 8) return gather(reinterpret_cast<const uint64_t*>(from), step, reinterpret_cast<uint64_t*>(to), count);
  for (int64_t i = 0; i < count; ++i)
    std::memcpy(to + static_cast<size_t>(i) * size, from + i * step * static_cast<int64_t>(size), size);
}

Array read_from(const StoredTensor& t, const std::byte* data, std::shared_ptr<const void> owner, int64_t first, int64_t count) {
  data += t.offset;
  const Sizes shape{count};
  if (t.encoding == nullptr && t.is_dense()) {
    const std::byte* begin = data + static_cast<size_t>(first) * size_of(t.dtype);
    if (reinterpret_cast<uintptr_t>(begin) % size_of(real_of(t.dtype)) == 0)
      return Array(t.dtype, shape, begin, std::move(owner));
  }
  Array out(t.dtype, shape);
  if (count == 0) return out;
  auto* to = static_cast<std::byte*>(out.mutable_data());
  const size_t size = size_of(t.dtype), unit = unit_bytes(t);
  if (t.encoding == nullptr) {
    walk(t, first, count, [&](int64_t at, int64_t step, int64_t done, int64_t run) {
      copy_run(data + at * static_cast<int64_t>(size), step, to + static_cast<size_t>(done) * size, run, size);
    });
    return out;
  }
  if (t.encoding->block == 1) {
    try {
      walk(t, first, count, [&](int64_t at, int64_t step, int64_t done, int64_t run) {
        for (int64_t i = 0; i < run; ++i)
          t.encoding->decode(data + (at + i * step) * static_cast<int64_t>(unit), to + static_cast<size_t>(done + i) * size);
      });
    } catch (const std::overflow_error& too_large) {
      throw bad_tensor(t, too_large.what());
    }
    return out;
  }
  const int64_t block = t.encoding->block;
  require(t.is_dense() && first % block == 0 && count % block == 0, "blocks are read whole");
  for (int64_t i = 0; i < count; i += block)
    t.encoding->decode(data + static_cast<size_t>((first + i) / block) * unit, to + static_cast<size_t>(i) * size);
  return out;
}

}  // namespace

std::string shown_text(std::string_view text) {
  constexpr size_t kMost = 200;
  std::string out(text.substr(0, kMost));
  for (char& c : out) c = c >= ' ' && c <= '~' ? c : '?';
  return text.size() > kMost ? out + "..." : out;
}

bool StoredTensor::is_dense() const {
  int64_t expected = 1;
  if (std::find(shape.begin(), shape.end(), 0) != shape.end()) return true;
  for (size_t axis = shape.size(); axis-- > 0;) {
    if (shape[axis] != 1 && strides[axis] != expected) return false;
    expected *= shape[axis];
  }
  return true;
}

std::string_view StoredTensor::stored_as() const { return encoding != nullptr ? encoding->name : name_of(dtype); }

uint64_t StoredTensor::stored_bytes() const {
  return static_cast<uint64_t>(size()) / static_cast<uint64_t>(block_of(*this)) * unit_bytes(*this);
}

StoredTensor dense_tensor(std::string name, DType dtype, const StoredEncoding* encoding, Sizes shape,
                          std::shared_ptr<const Storage> storage, uint64_t offset) {
  StoredTensor t{std::move(name), dtype, std::move(shape), {}, offset, encoding, std::move(storage)};
  check_shape(t);
  t.strides = row_major_strides(t.shape);
  const int64_t block = block_of(t);
  if (block > 1 && (t.shape.empty() || t.shape.back() % block != 0))
    throw bad_tensor(t, fmt::format("has rows that are not made of blocks of {}", block)).found(to_string(t.shape));
  const uint64_t bytes = t.stored_bytes();
  if (offset > t.storage->size() || bytes > t.storage->size() - offset) refuse_outside(t, fmt::format("{} bytes", bytes));
  return t;
}

StoredTensor strided_tensor(std::string name, DType dtype, const StoredEncoding* encoding, Sizes shape, Sizes strides,
                            std::shared_ptr<const Storage> storage, uint64_t offset) {
  StoredTensor t{std::move(name), dtype, std::move(shape), std::move(strides), offset, encoding, std::move(storage)};
  check_shape(t);
  if (t.strides.size() != t.shape.size())
    throw bad_tensor(t, "has another number of strides than of sizes")
        .found(fmt::format("{}, {}", to_string(t.shape), to_string(t.strides)));
  uint64_t last = 0;  // the largest element number
  for (size_t axis = 0; axis < t.shape.size(); ++axis) {
    if (t.strides[axis] < 0) throw bad_tensor(t, "has a negative stride").found(to_string(t.strides));
    uint64_t reach = 0;
    if (__builtin_mul_overflow(static_cast<uint64_t>(std::max<int64_t>(t.shape[axis] - 1, 0)),
                               static_cast<uint64_t>(t.strides[axis]), &reach) ||
        __builtin_add_overflow(last, reach, &last))
      throw bad_tensor(t, "has strides that are too large").found(to_string(t.strides));
  }
  const uint64_t unit = unit_bytes(t), held = t.storage->size();
  const bool is_empty = t.size() == 0;
  if (offset > held || (!is_empty && last >= (held - offset) / unit)) refuse_outside(t, fmt::format("{} elements", last + 1));
  // A view that repeats elements (expanded) may say that it is far larger than what is stored.
  if (!is_empty && static_cast<uint64_t>(t.size()) > std::max<uint64_t>(held / unit * 64, 1U << 24))
    throw bad_tensor(t, "is far larger than what is stored of it").found(fmt::format("{} in {} bytes", to_string(t.shape), held));
  return t;
}

Array read(const StoredTensor& t) { return read_range(t, 0, t.size()).reshaped(t.shape); }

Array read_range(const StoredTensor& t, int64_t first, int64_t count) {
  const Storage& s = *t.storage;
  if (s.inflated == 0) return read_from(t, s.bytes.data(), s.owner, first, count);
  const auto whole = std::make_shared<const std::vector<std::byte>>(s.unpack ? s.unpack()
                                                                             : inflate(s.bytes, s.inflated, s.where));
  return read_from(t, whole->data(), whole, first, count);
}

void release(const StoredTensor& t) {
  if (!t.storage->file) return;
  if (t.storage->inflated != 0 || !t.is_dense())
    return t.storage->file->release(t.storage->bytes.data(), t.storage->bytes.size());
  t.storage->file->release(t.storage->bytes.data() + t.offset, t.stored_bytes());
}

void for_each_piece(const StoredTensor& t, size_t piece_bytes, const std::function<void(const Array&)>& visit) {
  constexpr int64_t kBlocks = 1024;  // a multiple of every encoding's block
  const int64_t total = t.size();
  const int64_t piece = std::max(static_cast<int64_t>(piece_bytes / size_of(t.dtype)) / kBlocks * kBlocks, kBlocks);
  if (t.storage->inflated != 0) {
    visit(read(t).reshaped({total}));
    release(t);
    return;
  }
  for (int64_t first = 0; first < total; first += piece) {
    const int64_t count = std::min(piece, total - first);
    visit(read_range(t, first, count));
    if (!t.storage->file || !t.is_dense()) continue;
    const auto units = [&](int64_t elements) { return static_cast<size_t>(elements / block_of(t)) * unit_bytes(t); };
    t.storage->file->release(t.storage->bytes.data() + t.offset + units(first), units(count));
  }
  release(t);
}

}  // namespace pycandle
