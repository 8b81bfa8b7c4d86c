#include "params/checkpoints/inflate.h"

#include <algorithm>
#include <array>

namespace pycandle {
namespace {

constexpr int kLongestCode = 15;

Error damaged(std::string_view where) {
  return Error(ErrorCode::bad_input, fmt::format("{}: compressed data is damaged", where)).hint("make or copy the file again");
}

class Bits {
 public:
  Bits(Bytes bytes, std::string_view where) : bytes_(bytes), where_(where) {}

  // Up to 32 bits, without taking them; zeros stand after the end.
  uint32_t peek(int count) {
    while (held_ < count) {
      const uint64_t byte = at_ < bytes_.size() ? static_cast<uint64_t>(bytes_[at_]) : 0;
      buffer_ |= byte << held_;
      held_ += 8;
      ++at_;
    }
    return static_cast<uint32_t>(buffer_ & ((uint64_t{1} << count) - 1));
  }
  void drop(int count) {
    buffer_ >>= count;
    held_ -= count;
    if (at_ - static_cast<size_t>(held_ / 8) > bytes_.size()) throw damaged(where_);
  }
  uint32_t take(int count) {
    const uint32_t value = peek(count);
    drop(count);
    return value;
  }
  // Whole bytes after the rest of the current one.
  Bytes take_bytes(size_t count) {
    drop(held_ % 8);
    at_ -= static_cast<size_t>(held_ / 8);
    buffer_ = 0;
    held_ = 0;
    if (at_ > bytes_.size() || count > bytes_.size() - at_) throw damaged(where_);
    at_ += count;
    return bytes_.subspan(at_ - count, count);
  }

 private:
  Bytes bytes_;
  std::string_view where_;
  uint64_t buffer_ = 0;
  int held_ = 0;
  size_t at_ = 0;
};

// Looks codes up whole: a table over all values of the longest code's bits.
class Codes {
 public:
  Codes(const uint8_t* lengths, size_t count, std::string_view where) : where_(where) {
    std::array<uint32_t, kLongestCode + 2> next{};
    for (size_t i = 0; i < count; ++i) {
      if (lengths[i] == 0) continue;
      ++next[lengths[i] + 1U];
      longest_ = std::max<int>(longest_, lengths[i]);
    }
    uint32_t code = 0;
    for (int length = 1; length <= kLongestCode; ++length) {
      code = (code + next[static_cast<size_t>(length)]) << 1;
      starts_[static_cast<size_t>(length)] = code;
      if (code + next[static_cast<size_t>(length) + 1] > (1U << length)) throw damaged(where);
    }
    table_.assign(size_t{1} << longest_, Entry{});
    for (size_t symbol = 0; symbol < count; ++symbol) {
      const int length = lengths[symbol];
      if (length == 0) continue;
      uint32_t reversed = 0;
      const uint32_t bits = starts_[static_cast<size_t>(length)]++;
      for (int i = 0; i < length; ++i) reversed |= ((bits >> i) & 1U) << (length - 1 - i);
      for (size_t at = reversed; at < table_.size(); at += size_t{1} << length)
        table_[at] = {static_cast<uint16_t>(symbol), static_cast<uint8_t>(length)};
    }
  }

  uint32_t read(Bits& bits) const {
    const Entry entry = table_[bits.peek(longest_)];
    if (entry.length == 0) throw damaged(where_);
    bits.drop(entry.length);
    return entry.symbol;
  }

 private:
  struct Entry {
    uint16_t symbol = 0;
    uint8_t length = 0;  // 0: no code
  };
  std::string_view where_;
  int longest_ = 0;
  std::array<uint32_t, kLongestCode + 1> starts_{};
  std::vector<Entry> table_;
};

constexpr size_t kMostLengths = 288, kMostDistances = 32;

struct Tables {
  Codes lengths, distances;
};

Tables fixed_tables(std::string_view where) {
  std::array<uint8_t, kMostLengths> lengths{};
  std::fill(lengths.begin(), lengths.begin() + 144, uint8_t{8});
  std::fill(lengths.begin() + 144, lengths.begin() + 256, uint8_t{9});
  std::fill(lengths.begin() + 256, lengths.begin() + 280, uint8_t{7});
  std::fill(lengths.begin() + 280, lengths.end(), uint8_t{8});
  std::array<uint8_t, kMostDistances> distances{};
  distances.fill(5);
  return {Codes(lengths.data(), lengths.size(), where), Codes(distances.data(), distances.size(), where)};
}

Tables read_tables(Bits& bits, std::string_view where) {
  const size_t literals = bits.take(5) + 257, distances = bits.take(5) + 1, lengths = bits.take(4) + 4;
  static constexpr std::array<uint8_t, 19> kOrder = {16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1, 15};
  std::array<uint8_t, 19> of_lengths{};
  for (size_t i = 0; i < lengths; ++i) of_lengths[kOrder[i]] = static_cast<uint8_t>(bits.take(3));
  const Codes codes(of_lengths.data(), of_lengths.size(), where);
  std::array<uint8_t, kMostLengths + kMostDistances + 140> all{};
  const size_t total = literals + distances;
  if (literals > kMostLengths || distances > kMostDistances) throw damaged(where);
  for (size_t i = 0; i < total;) {
    const uint32_t symbol = codes.read(bits);
    if (symbol < 16) {
      all[i++] = static_cast<uint8_t>(symbol);
      continue;
    }
    if (symbol == 16 && i == 0) throw damaged(where);
    const uint8_t repeated = symbol == 16 ? all[i - 1] : uint8_t{0};
    const uint32_t times = symbol == 16 ? 3 + bits.take(2) : symbol == 17 ? 3 + bits.take(3) : 11 + bits.take(7);
    if (i + times > total) throw damaged(where);
    std::fill_n(all.begin() + static_cast<std::ptrdiff_t>(i), times, repeated);
    i += times;
  }
  return {Codes(all.data(), literals, where), Codes(all.data() + literals, distances, where)};
}

// A number whose code says how many more bits follow: lengths from 3, distances from 1.
uint32_t extended(Bits& bits, uint32_t symbol, uint32_t per_step, uint32_t first) {
  if (symbol < 2 * per_step) return symbol + first;
  const uint32_t extra = symbol / per_step - 1;
  return (((per_step + symbol % per_step) << extra) | bits.take(static_cast<int>(extra))) + first;
}

void copy_block(Bits& bits, const Tables& tables, std::vector<std::byte>& out, uint64_t size, uint64_t enough,
                std::string_view where) {
  constexpr uint32_t kEnd = 256, kLongest = 285;
  while (out.size() < enough) {
    const uint32_t symbol = tables.lengths.read(bits);
    if (symbol < kEnd) {
      if (out.size() == size) throw damaged(where);
      out.push_back(static_cast<std::byte>(symbol));
      continue;
    }
    if (symbol == kEnd) return;
    if (symbol > kLongest) throw damaged(where);
    const uint32_t length = symbol == kLongest ? 258 : extended(bits, symbol - 257, 4, 3);
    const uint32_t code = tables.distances.read(bits);
    if (code >= 30) throw damaged(where);
    const uint32_t distance = extended(bits, code, 2, 1);
    if (distance > out.size() || length > size - out.size()) throw damaged(where);
    for (uint32_t i = 0; i < length; ++i) out.push_back(out[out.size() - distance]);
  }
}

}  // namespace

std::vector<std::byte> inflate_first(Bytes deflated, uint64_t size, uint64_t first, std::string_view where) {
  refuse_bomb(deflated.size(), size, where);
  std::vector<std::byte> out;
  out.reserve(static_cast<size_t>(std::min(size, first)));
  Bits bits(deflated, where);
  for (bool is_last = false; !is_last && out.size() < first;) {
    is_last = bits.take(1) != 0;
    switch (bits.take(2)) {
      case 0: {
        ByteReader sizes(bits.take_bytes(4), where);
        const auto count = sizes.number<uint16_t>("a size"), complement = sizes.number<uint16_t>("a size");
        if (static_cast<uint16_t>(~complement) != count || count > size - out.size()) throw damaged(where);
        const Bytes bytes = bits.take_bytes(count);
        out.insert(out.end(), bytes.begin(), bytes.end());
        break;
      }
      case 1: copy_block(bits, fixed_tables(where), out, size, first, where); break;
      case 2: copy_block(bits, read_tables(bits, where), out, size, first, where); break;
      default: throw damaged(where);
    }
  }
  return out;
}

std::vector<std::byte> inflate(Bytes deflated, uint64_t size, std::string_view where) {
  // One more than there should be, so that the end of the last block is read as well.
  std::vector<std::byte> out = inflate_first(deflated, size, size + 1, where);
  if (out.size() != size) throw damaged(where);
  return out;
}

void refuse_bomb(uint64_t stored, uint64_t inflated, std::string_view what) {
  constexpr uint64_t kMostRatio = 1040;                                // deflate's own limit, rounded up
  constexpr uint64_t kHarmless = uint64_t{256} << 20, kRatio = 100;    // larger ones are real data, not a trap
  if (inflated / kMostRatio <= stored && (inflated <= kHarmless || inflated / kRatio <= stored)) return;
  throw Error(ErrorCode::bad_input, fmt::format("{} would unpack to far more than is stored", what))
      .expected(fmt::format("at most {} bytes for {}", std::max(kHarmless, stored * kRatio), stored))
      .found(fmt::format("{} bytes", inflated))
      .hint("this may be a zip bomb");
}

}  // namespace pycandle
