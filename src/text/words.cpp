// The models that look words up: WordPiece, which takes the longest piece from the left, and WordLevel.
#include <algorithm>

#include "base/error.h"
#include "text/model.h"
#include "text/settings.h"
#include "text/word_cache.h"

namespace pycandle::text {
namespace {

struct CachingScratch : Scratch {
  WordCache cache;
  std::vector<Token> tokens;
  std::string key;
};

TokenId known_unknown(TokenId id, const std::string& token) {
  if (id == kNoToken) throw Error(ErrorCode::bad_input, "the tokenizer's unk_token is not in its vocabulary").found(token);
  return id;
}

class WordPiece : public Model {
 public:
  explicit WordPiece(ModelParts parts) {
    const Settings s(parts.settings, "model WordPiece");
    unknown_ = s.text("unk_token", "[UNK]");
    prefix_ = s.text("continuing_subword_prefix", "##");
    longest_word_ = s.count("max_input_chars_per_word", 100);
    vocabulary_ = std::move(parts.vocabulary);
    unknown_id_ = vocabulary_.find(unknown_);
  }
  std::unique_ptr<Scratch> make_scratch() const override { return std::make_unique<CachingScratch>(); }

  void tokenize(std::string_view piece, bool, Scratch& given, std::vector<Token>& out) const override {
    auto& scratch = static_cast<CachingScratch&>(given);
    const bool cached = piece.size() <= WordCache::kLongestWord;
    const uint64_t hash = cached ? hash_bytes(piece.data(), piece.size()) : 0;
    const std::vector<Token>* known = cached ? scratch.cache.find(piece, hash) : nullptr;
    if (known == nullptr) {
      split(piece, scratch);
      if (cached) scratch.cache.put(piece, hash, scratch.tokens);
      known = &scratch.tokens;
    }
    out.insert(out.end(), known->begin(), known->end());
  }

 private:
  void split(std::string_view piece, CachingScratch& scratch) const {
    scratch.tokens.clear();
    const auto unknown = [&] {
      scratch.tokens.assign(1, {known_unknown(unknown_id_, unknown_), 0, static_cast<uint32_t>(piece.size())});
    };
    if (count_characters(piece) > longest_word_) return unknown();
    for (size_t begin = 0; begin < piece.size();) {
      const std::string_view prefix = begin == 0 ? std::string_view() : std::string_view(prefix_);
      size_t end = piece.size();
      TokenId id = kNoToken;
      scratch.key.assign(prefix).append(piece.substr(begin));
      while (begin < end) {
        id = vocabulary_.find(std::string_view(scratch.key).substr(0, prefix.size() + end - begin));
        if (id != kNoToken) break;
        for (--end; end > begin && is_continuation(piece[end]);) --end;
      }
      if (id == kNoToken) return unknown();
      scratch.tokens.push_back({id, static_cast<uint32_t>(begin), static_cast<uint32_t>(end)});
      begin = end;
    }
  }

  std::string unknown_, prefix_;
  TokenId unknown_id_ = kNoToken;
  size_t longest_word_ = 100;
};

class WordLevel : public Model {
 public:
  explicit WordLevel(ModelParts parts) {
    const Settings s(parts.settings, "model WordLevel");
    unknown_ = s.text("unk_token", "<unk>");
    vocabulary_ = std::move(parts.vocabulary);
    unknown_id_ = vocabulary_.find(unknown_);
  }
  void tokenize(std::string_view piece, bool, Scratch&, std::vector<Token>& out) const override {
    TokenId id = vocabulary_.find(piece);
    if (id == kNoToken) id = known_unknown(unknown_id_, unknown_);
    out.push_back({id, 0, static_cast<uint32_t>(piece.size())});
  }

 private:
  std::string unknown_;
  TokenId unknown_id_ = kNoToken;
};

}  // namespace

std::unique_ptr<Model> make_word_piece(ModelParts parts) { return std::make_unique<WordPiece>(std::move(parts)); }
std::unique_ptr<Model> make_word_level(ModelParts parts) { return std::make_unique<WordLevel>(std::move(parts)); }

std::string model_type(const ModelParts& parts) {
  const Json& s = parts.settings;
  std::string type = s.contains("type") ? component_type(s, "model") : "";
  if (!type.empty()) return type;
  return !parts.merges.empty() || s.contains("byte_fallback") ? "BPE"
         : !parts.scores.empty()                              ? "Unigram"
         : s.contains("max_input_chars_per_word")             ? "WordPiece"
                                                              : "WordLevel";
}

std::unique_ptr<Model> make_model(ModelParts parts) {
  const std::string type = model_type(parts);
  if (type == "BPE") return make_bpe(std::move(parts));
  if (type == "WordPiece") return make_word_piece(std::move(parts));
  if (type == "WordLevel") return make_word_level(std::move(parts));
  if (type == "Unigram") return make_unigram(std::move(parts));
  unknown_component("model", type);
}

}  // namespace pycandle::text
