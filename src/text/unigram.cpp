// Unigram: every token has a score, and a piece is cut so that the sum of the scores is greatest (Viterbi, byte by byte).
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "base/error.h"
#include "text/model.h"
#include "text/settings.h"
#include "text/word_cache.h"

namespace pycandle::text {
namespace {

// The tokens as a trie over bytes: one sorted list of children a node.
class Trie {
 public:
  explicit Trie(const Vocabulary& vocabulary) {
    std::vector<std::pair<std::string_view, TokenId>> tokens;
    for (TokenId id = 0; id < vocabulary.id_limit(); ++id) {
      const auto text = vocabulary.text(id);
      if (text && !text->empty() && vocabulary.find(*text) == id) tokens.emplace_back(*text, id);
    }
    std::sort(tokens.begin(), tokens.end());
    nodes_.push_back({});
    build(tokens);
  }

  // Calls f(bytes, id) for each token that `text` begins with, shortest first.
  template <typename F> void prefixes(std::string_view text, F&& f) const {
    uint32_t node = 0;
    for (size_t i = 0; i < text.size(); ++i) {
      node = child(node, static_cast<unsigned char>(text[i]));
      if (node == 0) return;
      if (nodes_[node].token != kNoToken) f(i + 1, nodes_[node].token);
    }
  }

 private:
  struct Node {
    TokenId token = kNoToken;
    uint32_t first = 0;  // index of its children's links
    uint16_t children = 0;
  };
  struct Link {
    unsigned char byte = 0;
    uint32_t node = 0;
  };

  uint32_t child(uint32_t node, unsigned char byte) const {
    if (node == 0) return root_[byte];
    const Link* begin = links_.data() + nodes_[node].first;
    const Link* end = begin + nodes_[node].children;
    if (end - begin <= 8) {
      for (; begin < end; ++begin) {
        if (begin->byte == byte) return begin->node;
      }
      return 0;
    }
    const Link* it = std::lower_bound(begin, end, byte, [](const Link& l, unsigned char b) { return l.byte < b; });
    return it != end && it->byte == byte ? it->node : 0;
  }

  // Level by level, so that the children of a node are neighbours.
  void build(const std::vector<std::pair<std::string_view, TokenId>>& tokens) {
    struct Range {
      uint32_t node;
      size_t begin, end, depth;
    };
    std::vector<Range> queue = {{0, 0, tokens.size(), 0}};
    for (size_t q = 0; q < queue.size(); ++q) {
      auto [node, begin, end, depth] = queue[q];
      if (begin < end && tokens[begin].first.size() == depth) nodes_[node].token = tokens[begin++].second;
      nodes_[node].first = static_cast<uint32_t>(links_.size());
      while (begin < end) {
        const auto byte = static_cast<unsigned char>(tokens[begin].first[depth]);
        size_t next = begin;
        while (next < end && static_cast<unsigned char>(tokens[next].first[depth]) == byte) ++next;
        links_.push_back({byte, static_cast<uint32_t>(nodes_.size())});
        ++nodes_[node].children;
        queue.push_back({static_cast<uint32_t>(nodes_.size()), begin, next, depth + 1});
        nodes_.push_back({});
        begin = next;
      }
    }
    for (uint32_t i = 0; i < nodes_[0].children; ++i) root_[links_[nodes_[0].first + i].byte] = links_[nodes_[0].first + i].node;
  }

  std::vector<Node> nodes_;
  std::vector<Link> links_;
  std::array<uint32_t, 256> root_{};
};

struct Best {
  TokenId id = 0;
  uint32_t begin = UINT32_MAX;  // none yet
  double score = 0;
};

struct UnigramScratch : Scratch {
  WordCache cache;
  std::vector<Best> best;  // by the byte where a path ends
  std::vector<Token> tokens;
};

class Unigram : public Model {
 public:
  explicit Unigram(ModelParts parts) : scores_(std::move(parts.scores)) {
    const Settings s(parts.settings, "model Unigram");
    byte_fallback_ = s.flag("byte_fallback", false);
    vocabulary_ = std::move(parts.vocabulary);
    if (vocabulary_.id_limit() > scores_.size()) s.wrong("vocab", "a list of tokens with their scores");
    if (s.has("unk_id")) {
      const size_t id = s.count("unk_id");
      if (id >= scores_.size()) s.wrong("unk_id", "the id of a token");
      unknown_id_ = static_cast<TokenId>(id);
    }
    double least = INFINITY;
    for (const double score : scores_) least = std::min(least, score);
    unknown_score_ = least - 10;
    for (size_t b = 0; b < 256; ++b) fallback_[b] = vocabulary_.find(fmt::format("<0x{:02X}>", b));
    trie_ = std::make_unique<Trie>(vocabulary_);
  }
  std::unique_ptr<Scratch> make_scratch() const override { return std::make_unique<UnigramScratch>(); }

  void tokenize(std::string_view piece, bool, Scratch& given, std::vector<Token>& out) const override {
    auto& scratch = static_cast<UnigramScratch&>(given);
    const bool cached = piece.size() <= WordCache::kLongestWord;
    const uint64_t hash = cached ? hash_bytes(piece.data(), piece.size()) : 0;
    const std::vector<Token>* known = cached ? scratch.cache.find(piece, hash) : nullptr;
    if (known == nullptr) {
      find_best(piece, scratch.best);
      collect(piece, scratch);
      if (cached) scratch.cache.put(piece, hash, scratch.tokens);
      known = &scratch.tokens;
    }
    out.insert(out.end(), known->begin(), known->end());
  }

 private:
  void find_best(std::string_view piece, std::vector<Best>& best) const {
    best.assign(piece.size() + 1, {});
    const auto offer = [&](size_t end, uint32_t begin, TokenId id, double score) {
      Best& there = best[end];
      if (there.begin == UINT32_MAX || score > there.score) there = {id, begin, score};
    };
    for (size_t at = 0; at < piece.size();) {
      const auto begin = static_cast<uint32_t>(at);
      const double before = best[at].score;
      const size_t size = decode(piece.data() + at).size;
      bool has_character = false;
      trie_->prefixes(piece.substr(at), [&](size_t bytes, TokenId id) {
        offer(at + bytes, begin, id, scores_[id] + before);
        has_character = has_character || bytes == size;
      });
      if (!has_character) {
        if (unknown_id_ == kNoToken)
          throw Error(ErrorCode::bad_input, "the text has a character that the tokenizer does not know, and there is no unk_id");
        offer(at + size, begin, unknown_id_, unknown_score_ + before);
      }
      at += size;
    }
  }

  // From the end to the beginning; unknown characters side by side become one token.
  void collect(std::string_view piece, UnigramScratch& scratch) const {
    std::vector<Token>& tokens = scratch.tokens;
    tokens.clear();
    for (auto end = static_cast<uint32_t>(piece.size()); end > 0;) {
      const Best& best = scratch.best[end];
      if (best.id == unknown_id_ && !tokens.empty() && tokens.back().id == unknown_id_ && tokens.back().begin == end) {
        tokens.back().begin = best.begin;
      } else {
        tokens.push_back({best.id, best.begin, end});
      }
      end = best.begin;
    }
    std::reverse(tokens.begin(), tokens.end());
    for (size_t i = 0; i < tokens.size(); ++i) {
      if (tokens[i].id != unknown_id_) continue;
      // A run of unknown characters may spell a token after all.
      const std::string_view text = piece.substr(tokens[i].begin, tokens[i].end - tokens[i].begin);
      const TokenId spelt = vocabulary_.find(text);
      if (spelt != kNoToken) {
        tokens[i].id = spelt;
      } else if (byte_fallback_ && has_bytes(text)) {
        const Token whole = tokens[i];
        tokens.erase(tokens.begin() + static_cast<ptrdiff_t>(i));
        for (size_t b = 0; b < text.size(); ++b, ++i)
          tokens.insert(tokens.begin() + static_cast<ptrdiff_t>(i),
                        {fallback_[static_cast<unsigned char>(text[b])], whole.begin, whole.end});
        --i;
      } else {
        tokens[i].spelt_by_piece = true;
      }
    }
  }

  bool has_bytes(std::string_view text) const {
    return std::all_of(text.begin(), text.end(), [&](char c) { return fallback_[static_cast<unsigned char>(c)] != kNoToken; });
  }

  std::vector<double> scores_;
  std::unique_ptr<Trie> trie_;
  std::array<TokenId, 256> fallback_{};
  TokenId unknown_id_ = kNoToken;
  double unknown_score_ = 0;
  bool byte_fallback_ = false;
};

}  // namespace

std::unique_ptr<Model> make_unigram(ModelParts parts) { return std::make_unique<Unigram>(std::move(parts)); }

}  // namespace pycandle::text
