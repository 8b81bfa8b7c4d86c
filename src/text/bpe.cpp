// Byte pair encoding: a piece begins as its characters (or bytes), and the pair that comes first in the list of merges is
// joined until there is none. The result is that of the `tokenizers` package, whose order for equal ranks is from the left.
#include <fmt/format.h>

#include <algorithm>
#include <bit>

#include "base/error.h"
#include "text/byte_level.h"
#include "text/model.h"
#include "text/settings.h"
#include "text/word_cache.h"

namespace pycandle::text {
namespace {

struct Merged {
  uint32_t rank = UINT32_MAX;
  TokenId id = kNoToken;
};

// (left, right) → rank and new token.
class MergeTable {
 public:
  void reserve(size_t merges) { slots_.assign(std::bit_ceil(std::max<size_t>(16, merges * 2)), Slot{}); }
  void put(TokenId left, TokenId right, Merged merged) {
    Slot& slot = slots_[slot_of(key(left, right))];
    slot.key = key(left, right);
    slot.merged = merged;
  }
  Merged find(TokenId left, TokenId right) const { return slots_[slot_of(key(left, right))].merged; }
  void write(TableWriter& out) const { out.list(std::span<const Slot>(slots_)); }
  void read(TableReader& in, TokenId id_limit) {
    slots_ = in.list<Slot>();
    bool has_room = false;
    for (const Slot& slot : slots_) {
      has_room |= slot.key == kFree;
      TableReader::check(slot.key == kFree || (slot.merged.id < id_limit && slot.merged.rank != UINT32_MAX),
                         "an id is too large");
    }
    TableReader::check(has_room && std::has_single_bit(slots_.size()), "its merges have no room");
  }

 private:
  static constexpr uint64_t kFree = UINT64_MAX;
  struct Slot {
    uint64_t key = kFree;
    Merged merged;
  };
  static uint64_t key(TokenId left, TokenId right) { return uint64_t{left} << 32 | right; }
  size_t slot_of(uint64_t wanted) const {
    const size_t mask = slots_.size() - 1;
    uint64_t hash = wanted * 0x9E3779B97F4A7C15ULL;
    hash ^= hash >> 32;
    size_t slot = hash & mask;
    while (slots_[slot].key != kFree && slots_[slot].key != wanted) slot = (slot + 1) & mask;
    return slot;
  }
  std::vector<Slot> slots_;
};

struct Symbol {
  TokenId id;
  uint32_t size;        // bytes of the piece
  int32_t before, after;  // indices, -1 at the ends; used by merge_long
  Merged merged;        // with the symbol after it
};

struct BpeScratch : Scratch {
  WordCache cache;
  std::vector<Symbol> symbols;
  std::vector<uint64_t> queue;  // rank << 32 | index of the left symbol, a heap
  std::vector<Token> tokens;
  std::string key;
};

constexpr std::string_view kWordBegin = "\xE2\x96\x81";  // ▁, SentencePiece's space

class Bpe : public Model {
 public:
  explicit Bpe(ModelParts parts);
  std::unique_ptr<Scratch> make_scratch() const override { return std::make_unique<BpeScratch>(); }
  void tokenize(std::string_view piece, bool raw_bytes, Scratch&, std::vector<Token>& out) const override;
  bool takes_raw_bytes() const override { return takes_raw_bytes_; }
  void write(TableWriter& out) const override {
    merges_.write(out);
    out.number(splits_at_word_begins_ ? 1 : 0);
  }

 private:
  void read_merges(const ModelParts&);
  void find_word_begins(const ModelParts&);
  void tokenize_word(std::string_view word, bool raw_bytes, BpeScratch&, uint32_t offset, std::vector<Token>& out) const;
  void split(std::string_view word, bool raw_bytes, BpeScratch&) const;
  void add_symbols(std::string_view word, std::vector<Symbol>&) const;
  bool add_bytes(std::string_view character, std::vector<Symbol>&) const;
  void merge_short(std::vector<Symbol>&) const;
  void merge_long(BpeScratch&) const;

  MergeTable merges_;
  std::array<TokenId, 256> byte_symbol_{};    // of the alphabet of ByteLevel
  std::array<TokenId, 256> fallback_{};       // <0x0A>
  std::string unknown_, prefix_, suffix_;
  TokenId unknown_id_ = kNoToken;
  bool has_unknown_ = false, fuse_unknown_ = false, byte_fallback_ = false, ignore_merges_ = false;
  bool takes_raw_bytes_ = false, splits_at_word_begins_ = false;
};

Bpe::Bpe(ModelParts parts) {
  const Settings s(parts.settings, "model BPE");
  if (s.number("dropout", 0) != 0)
    throw Error(ErrorCode::gap, "the model has dropout, which makes tokens random").hint("set dropout to null in tokenizer.json");
  unknown_ = s.text("unk_token", "");
  has_unknown_ = s.has("unk_token");
  prefix_ = s.text("continuing_subword_prefix", "");
  suffix_ = s.text("end_of_word_suffix", "");
  fuse_unknown_ = s.flag("fuse_unk", false);
  byte_fallback_ = s.flag("byte_fallback", false);
  ignore_merges_ = s.flag("ignore_merges", false);
  vocabulary_ = std::move(parts.vocabulary);
  unknown_id_ = vocabulary_.find(unknown_);
  takes_raw_bytes_ = prefix_.empty() && suffix_.empty();
  for (size_t b = 0; b < 256; ++b) {
    byte_symbol_[b] = vocabulary_.find(byte_characters()[b]);
    fallback_[b] = vocabulary_.find(fmt::format("<0x{:02X}>", b));
    takes_raw_bytes_ = takes_raw_bytes_ && byte_symbol_[b] != kNoToken;
  }
  if (parts.compiled) {
    merges_.read(*parts.compiled, vocabulary_.id_limit());
    splits_at_word_begins_ = parts.compiled->number() != 0;
    return;
  }
  read_merges(parts);
  find_word_begins(parts);
}

void Bpe::read_merges(const ModelParts& parts) {
  merges_.reserve(parts.merges.size());
  const auto known = [&](std::string_view token) {
    const TokenId id = vocabulary_.find(token);
    if (id == kNoToken)
      throw Error(ErrorCode::bad_input, "a merge of the tokenizer names a token that is not in its vocabulary")
          .found(std::string(token));
    return id;
  };
  TokenId last = 0;
  std::string joined;
  for (uint32_t rank = 0; rank < parts.merges.size(); ++rank) {
    const ModelParts::Merge& m = parts.merges[rank];
    const std::string_view left(parts.merge_text.data() + m.left, m.left_size);
    std::string_view right(parts.merge_text.data() + m.left + m.left_size, m.right_size);
    const TokenId left_id = known(left), right_id = known(right);
    if (right.size() < prefix_.size())
      throw Error(ErrorCode::bad_input, "a merge of the tokenizer has no prefix").found(std::string(right));
    right.remove_prefix(prefix_.size());
    // Ids mostly follow the merges, so the next one is tried before it is looked up.
    if (vocabulary_.is(last + 1, left, right)) {
      ++last;
    } else {
      joined.assign(left).append(right);
      last = known(joined);
    }
    merges_.put(left_id, right_id, {rank, last});
  }
}

// When no merge joins something with a ▁ after it, a text can be cut before each ▁: its words are short and come again.
void Bpe::find_word_begins(const ModelParts& parts) {
  if (!prefix_.empty() || !suffix_.empty() || vocabulary_.find(kWordBegin) == kNoToken) return;
  splits_at_word_begins_ = true;
  for (const ModelParts::Merge& m : parts.merges) {
    const std::string_view joined(parts.merge_text.data() + m.left, m.left_size + m.right_size);
    for (size_t at = joined.find(kWordBegin, 1); at != std::string_view::npos; at = joined.find(kWordBegin, at + 1)) {
      if (at < 3 || joined.substr(at - 3, 3) != kWordBegin) splits_at_word_begins_ = false;
    }
  }
}

void Bpe::tokenize(std::string_view piece, bool raw_bytes, Scratch& scratch, std::vector<Token>& out) const {
  auto& bpe = static_cast<BpeScratch&>(scratch);
  if (piece.empty()) return;
  if (raw_bytes || !splits_at_word_begins_ || piece.size() <= 16) return tokenize_word(piece, raw_bytes, bpe, 0, out);
  if (ignore_merges_) {
    if (const TokenId id = vocabulary_.find(piece); id != kNoToken) {
      out.push_back({id, 0, static_cast<uint32_t>(piece.size())});
      return;
    }
  }
  size_t begin = 0;
  uint32_t offset = 0;
  const auto word = [&](size_t end) {
    const size_t first = out.size();
    tokenize_word(piece.substr(begin, end - begin), false, bpe, offset, out);
    // Characters that the model does not know and drops move what follows, as in the whole text.
    if (out.size() > first) offset = out.back().end;
    begin = end;
  };
  for (size_t at = piece.find(kWordBegin, 1); at != std::string_view::npos; at = piece.find(kWordBegin, at + 1)) {
    const bool run = at >= begin + 3 && piece.substr(at - 3, 3) == kWordBegin;
    if (!run) word(at);
  }
  word(piece.size());
}

void Bpe::tokenize_word(std::string_view word, bool raw_bytes, BpeScratch& scratch, uint32_t offset,
                        std::vector<Token>& out) const {
  const auto give = [&](std::span<const Token> tokens) {
    for (const Token& t : tokens) out.push_back({t.id, t.begin + offset, t.end + offset});
  };
  const bool cached = word.size() <= WordCache::kLongestWord;
  const uint64_t hash = cached ? hash_bytes(word.data(), word.size()) : 0;
  if (cached) {
    if (const std::vector<Token>* known = scratch.cache.find(word, hash)) return give(*known);
  }
  split(word, raw_bytes, scratch);
  give(scratch.tokens);
  if (cached) scratch.cache.put(word, hash, scratch.tokens);
}

// Fills scratch.tokens.
void Bpe::split(std::string_view word, bool raw_bytes, BpeScratch& scratch) const {
  scratch.tokens.clear();
  if (ignore_merges_) {
    if (raw_bytes) scratch.key = to_characters(word);
    if (const TokenId id = vocabulary_.find(raw_bytes ? std::string_view(scratch.key) : word); id != kNoToken) {
      scratch.tokens.push_back({id, 0, static_cast<uint32_t>(word.size())});
      return;
    }
  }
  std::vector<Symbol>& symbols = scratch.symbols;
  symbols.clear();
  if (raw_bytes) {
    for (const char c : word) symbols.push_back({byte_symbol_[static_cast<unsigned char>(c)], 1, -1, -1, {}});
  } else {
    add_symbols(word, symbols);
  }
  constexpr size_t kShort = 48;  // up to here a scan for the best pair is quicker than a heap
  if (symbols.size() <= kShort) {
    merge_short(symbols);
  } else {
    merge_long(scratch);
  }
  uint32_t at = 0;
  for (const Symbol& s : symbols) {
    if (s.size == 0) continue;
    scratch.tokens.push_back({s.id, at, at + s.size});
    at += s.size;
  }
}

// The bytes of a character that is not in the vocabulary, as <0x..>; false when one of these is not there either.
bool Bpe::add_bytes(std::string_view character, std::vector<Symbol>& symbols) const {
  for (const char c : character) {
    if (fallback_[static_cast<unsigned char>(c)] == kNoToken) return false;
  }
  for (const char c : character) symbols.push_back({fallback_[static_cast<unsigned char>(c)], 1, -1, -1, {}});
  return true;
}

void Bpe::add_symbols(std::string_view word, std::vector<Symbol>& symbols) const {
  uint32_t unknown_size = 0;  // of unknown characters that were not added yet
  const auto add_unknown = [&] {
    if (unknown_size > 0) symbols.push_back({unknown_id_, unknown_size, -1, -1, {}});
    unknown_size = 0;
  };
  std::string decorated;
  for (size_t at = 0; at < word.size();) {
    const uint32_t size = decode(word.data() + at).size;
    std::string_view character = word.substr(at, size);
    const bool first = at == 0;
    at += size;
    if ((!first && !prefix_.empty()) || (at == word.size() && !suffix_.empty())) {
      decorated.assign(first ? "" : prefix_).append(character).append(at == word.size() ? suffix_ : "");
      character = decorated;
    }
    if (const TokenId id = vocabulary_.find(character); id != kNoToken) {
      add_unknown();
      symbols.push_back({id, size, -1, -1, {}});
      continue;
    }
    if (byte_fallback_ && add_bytes(character, symbols)) continue;
    if (!has_unknown_) continue;
    if (unknown_id_ == kNoToken)
      throw Error(ErrorCode::bad_input, "the tokenizer's unk_token is not in its vocabulary").found(unknown_);
    if (!fuse_unknown_) add_unknown();
    unknown_size += size;
  }
  add_unknown();
}

void Bpe::merge_short(std::vector<Symbol>& symbols) const {
  size_t count = symbols.size();
  for (size_t i = 0; i + 1 < count; ++i) symbols[i].merged = merges_.find(symbols[i].id, symbols[i + 1].id);
  while (count > 1) {
    size_t best = 0;
    uint32_t rank = UINT32_MAX;
    for (size_t i = 0; i + 1 < count; ++i) {
      if (symbols[i].merged.rank < rank) {
        rank = symbols[i].merged.rank;
        best = i;
      }
    }
    if (rank == UINT32_MAX) break;
    symbols[best].id = symbols[best].merged.id;
    symbols[best].size += symbols[best + 1].size;
    std::move(symbols.begin() + static_cast<ptrdiff_t>(best) + 2, symbols.begin() + static_cast<ptrdiff_t>(count),
              symbols.begin() + static_cast<ptrdiff_t>(best) + 1);
    --count;
    symbols[best].merged = best + 1 < count ? merges_.find(symbols[best].id, symbols[best + 1].id) : Merged{};
    if (best > 0) symbols[best - 1].merged = merges_.find(symbols[best - 1].id, symbols[best].id);
  }
  symbols.resize(count);
}

void Bpe::merge_long(BpeScratch& scratch) const {
  std::vector<Symbol>& symbols = scratch.symbols;
  std::vector<uint64_t>& queue = scratch.queue;
  queue.clear();
  const auto count = static_cast<int32_t>(symbols.size());
  const auto at = [&](int32_t i) -> Symbol& { return symbols[static_cast<size_t>(i)]; };
  // A queue entry whose rank is no longer that of its symbol is out of date.
  const auto look_up = [&](int32_t i) {
    at(i).merged = at(i).after < 0 ? Merged{} : merges_.find(at(i).id, at(at(i).after).id);
    return at(i).merged.rank != UINT32_MAX;
  };
  const auto entry = [&](int32_t i) { return uint64_t{at(i).merged.rank} << 32 | static_cast<uint32_t>(i); };
  for (int32_t i = 0; i < count; ++i) {
    at(i).before = i - 1;
    at(i).after = i + 1 < count ? i + 1 : -1;
  }
  for (int32_t i = 0; i < count; ++i) {
    if (look_up(i)) queue.push_back(entry(i));
  }
  std::make_heap(queue.begin(), queue.end(), std::greater<>());
  const auto push = [&](int32_t i) {
    if (!look_up(i)) return;
    queue.push_back(entry(i));
    std::push_heap(queue.begin(), queue.end(), std::greater<>());
  };
  while (!queue.empty()) {
    std::pop_heap(queue.begin(), queue.end(), std::greater<>());
    const uint64_t top = queue.back();
    queue.pop_back();
    const auto left = static_cast<int32_t>(top & UINT32_MAX);
    if (at(left).size == 0 || at(left).merged.rank != top >> 32) continue;
    Symbol& symbol = at(left);
    Symbol& right = at(symbol.after);
    symbol.id = symbol.merged.id;
    symbol.size += right.size;
    symbol.after = right.after;
    right.size = 0;
    right.merged = {};
    if (symbol.after >= 0) at(symbol.after).before = left;
    if (symbol.before >= 0) push(symbol.before);
    push(left);
  }
}

}  // namespace

std::unique_ptr<Model> make_bpe(ModelParts parts) { return std::make_unique<Bpe>(std::move(parts)); }

}  // namespace pycandle::text
