// A text goes through the parts in this order: added tokens, normaliser, pre-tokeniser, model, truncation, post-processor,
// padding.
#include "pycandle/tokenizer.h"

#include "base/error.h"
#include "base/file.h"
#include "text/encodings.h"
#include "text/reader.h"

namespace pycandle {
namespace {

using namespace text;

// A scratch of the tokenizer, for the length of a call.
class Borrowed {
 public:
  explicit Borrowed(const Tokenizer::Parts& parts) : parts_(parts) {
    {
      const std::lock_guard lock(parts.mutex);
      if (!parts.idle.empty()) {
        scratch_ = std::move(parts.idle.back());
        parts.idle.pop_back();
      }
    }
    if (!scratch_) scratch_ = parts.model->make_scratch();
  }
  ~Borrowed() {
    const std::lock_guard lock(parts_.mutex);
    parts_.idle.push_back(std::move(scratch_));
  }
  Borrowed(const Borrowed&) = delete;
  Borrowed& operator=(const Borrowed&) = delete;
  Scratch& operator*() const { return *scratch_; }

 private:
  const Tokenizer::Parts& parts_;
  std::unique_ptr<Scratch> scratch_;
};

// Bytes of the original to characters.
class Characters {
 public:
  explicit Characters(std::string_view original) : size_(static_cast<uint32_t>(original.size())) {
    if (is_ascii(original)) return;
    index_.reserve(original.size());
    uint32_t index = 0;
    for (const char c : original) {
      if (!is_continuation(c)) ++index;
      index_.push_back(index - 1);
    }
  }
  TokenOffsets operator()(Span bytes) const {
    if (bytes.begin >= size_ || index_.empty()) return {bytes.begin, bytes.end};
    return {index_[bytes.begin], bytes.end < size_ ? index_[bytes.end] : index_[size_ - 1] + 1};
  }

 private:
  uint32_t size_;
  std::vector<uint32_t> index_;  // empty: all ASCII
};

Span original_span(const Pieces& pieces, const Piece& piece, const Token& token) {
  if (token.begin == token.end) return {piece.original + token.begin, piece.original + token.end};
  if (piece.begin + token.end > piece.end) return {token.begin, token.end};  // more bytes than the piece has: a prefix was added
  return pieces.text.span(piece.begin + token.begin, piece.begin + token.end);
}

Encoding encode_one(const Tokenizer::Parts& parts, std::string_view bytes, uint32_t type_id) {
  if (bytes.size() > UINT32_MAX / 8) throw Error(ErrorCode::usage, "a text to tokenize is larger than 500 MB");
  std::string original = is_ascii(bytes) || is_valid(bytes) ? std::string(bytes) : replace_invalid(bytes);
  const Characters to_characters(original);
  Pieces pieces = parts.added->extract(std::move(original), parts.normalizer.get());
  pieces.may_stay_raw = parts.model->takes_raw_bytes();
  if (parts.pre_tokenizer) parts.pre_tokenizer->apply(pieces);
  const Borrowed scratch(parts);
  Encoding out;
  const size_t guess = pieces.text.text().size() / 3 + 8;
  out.ids.reserve(guess);
  out.offsets.reserve(guess);
  out.words.reserve(guess);
  std::vector<Token> tokens;
  for (size_t word = 0; word < pieces.list.size(); ++word) {
    const Piece& piece = pieces.list[word];
    tokens.clear();
    if (piece.token != kNoToken) {
      tokens.push_back({piece.token, 0, piece.end - piece.begin, true});
    } else {
      parts.model->tokenize(pieces.of(piece), pieces.raw_bytes, *scratch, tokens);
    }
    for (const Token& token : tokens) {
      if (token.spelt_by_piece)
        out.spelt.emplace_back(static_cast<uint32_t>(out.ids.size()),
                               std::string(pieces.of(piece).substr(token.begin, token.end - token.begin)));
      out.ids.push_back(token.id);
      out.offsets.push_back(to_characters(original_span(pieces, piece, token)));
      out.words.push_back(static_cast<int32_t>(word));
    }
  }
  out.type_ids.assign(out.ids.size(), type_id);
  out.special_tokens_mask.assign(out.ids.size(), 0);
  out.attention_mask.assign(out.ids.size(), 1);
  return out;
}

std::optional<std::string> spelling(const Tokenizer::Parts& parts, TokenId id) {
  if (const std::string* added = parts.added->text(id)) return *added;
  if (const auto text = parts.model->vocabulary().text(id)) return std::string(*text);
  return std::nullopt;
}

std::string token_text(const Tokenizer::Parts& parts, const Encoding& e, size_t index) {
  const auto it = std::lower_bound(e.spelt.begin(), e.spelt.end(), index, [](const auto& s, size_t i) { return s.first < i; });
  if (it != e.spelt.end() && it->first == index) return it->second;
  return spelling(parts, e.ids[index]).value_or("");
}

// With what the post-processor adds.
Encoding joined(const Tokenizer::Parts& parts, std::vector<Encoding> texts, bool add_special_tokens) {
  if (parts.post_processor)
    texts = parts.post_processor->process(std::move(texts), add_special_tokens,
                                          [&](const Encoding& e, size_t i) { return token_text(parts, e, i); });
  if (texts.empty()) return {};
  Encoding out = std::move(texts[0]);
  for (size_t i = 1; i < texts.size(); ++i) append(out, texts[i]);
  return out;
}

// All parts of the first text with all of the second one, in the order of `tokenizers`; without the two that are kept.
std::vector<Encoding> overflowing(const Tokenizer::Parts& parts, const text::TextParts& cut, bool add_special_tokens) {
  std::vector<Encoding> out;
  const size_t seconds = cut.size() > 1 ? cut[1].size() : 1;
  const auto add = [&](size_t first, size_t second) {
    std::vector<Encoding> texts{cut[0][first]};
    if (cut.size() > 1) texts.push_back(cut[1][second]);
    out.push_back(joined(parts, std::move(texts), add_special_tokens));
  };
  for (size_t first = 1; first < cut[0].size(); ++first)
    for (size_t second = 0; second < seconds; ++second) add(first, second);
  for (size_t second = 1; second < seconds; ++second) add(0, second);
  return out;
}

Encoding finish(const Tokenizer::Parts& parts, std::optional<Truncation> truncation, std::vector<Encoding> texts,
                bool add_special_tokens) {
  std::vector<Encoding> rest;
  if (truncation) {
    const size_t added = add_special_tokens && parts.post_processor ? parts.post_processor->added(texts.size() > 1) : 0;
    if (added > truncation->max_length) throw Error(ErrorCode::usage, "the special tokens alone are more than truncation allows");
    truncation->max_length -= added;
    text::TextParts cut = truncate(std::move(texts), *truncation);
    rest = overflowing(parts, cut, add_special_tokens);
    texts.clear();
    for (std::vector<Encoding>& each : cut) texts.push_back(std::move(each[0]));
  }
  Encoding out = joined(parts, std::move(texts), add_special_tokens);
  out.overflowing = std::move(rest);
  return out;
}

std::string decode_tokens(const Tokenizer::Parts& parts, const TokenId* begin, const TokenId* end, bool skip_special_tokens) {
  std::vector<std::string> tokens;
  for (const TokenId* id = begin; id < end; ++id) {
    std::optional<std::string> token = spelling(parts, *id);
    if (token && !(skip_special_tokens && parts.added->is_special(*token))) tokens.push_back(std::move(*token));
  }
  if (parts.decoder) tokens = parts.decoder->decode(std::move(tokens));
  std::string out;
  for (size_t i = 0; i < tokens.size(); ++i) {
    if (i > 0 && !parts.decoder) out += ' ';
    out += tokens[i];
  }
  return out;
}

}  // namespace

Tokenizer::Tokenizer(std::shared_ptr<const Parts> parts)
    : truncation(parts->truncation), padding(parts->padding), parts_(std::move(parts)) {}

Tokenizer Tokenizer::from_file(const std::filesystem::path& path) {
  const auto file = MappedFile::open(path);
  return Tokenizer(
      text::read_tokenizer({reinterpret_cast<const char*>(file->data()), file->size()}, "tokenizer " + path.string()));
}

Tokenizer Tokenizer::from_text(std::string_view json) { return Tokenizer(text::read_tokenizer(json, "tokenizer")); }

std::string Tokenizer::compile(std::string_view json) { return text::compile_tokenizer(json, "tokenizer"); }
Tokenizer Tokenizer::from_compiled(std::string_view bytes) { return Tokenizer(text::read_compiled(bytes)); }

Encoding Tokenizer::encode(std::string_view text, bool add_special_tokens) const {
  std::vector<Encoding> texts;
  texts.push_back(encode_one(*parts_, text, 0));
  std::vector<Encoding> out;
  out.push_back(finish(*parts_, truncation, std::move(texts), add_special_tokens));
  if (padding) text::pad(out, *padding);
  return std::move(out[0]);
}

Encoding Tokenizer::encode_pair(std::string_view first, std::string_view second, bool add_special_tokens) const {
  std::vector<Encoding> out;
  out.push_back(finish(*parts_, truncation, {encode_one(*parts_, first, 0), encode_one(*parts_, second, 1)}, add_special_tokens));
  if (padding) text::pad(out, *padding);
  return std::move(out[0]);
}

std::vector<Encoding> Tokenizer::encode_batch(const std::vector<std::string>& texts, bool add_special_tokens) const {
  std::vector<Encoding> out;
  out.reserve(texts.size());
  for (const std::string& text : texts) out.push_back(encode(text, add_special_tokens));
  if (padding) text::pad(out, *padding);
  return out;
}

std::string Tokenizer::decode(const std::vector<TokenId>& ids, bool skip_special_tokens) const {
  return decode_tokens(*parts_, ids.data(), ids.data() + ids.size(), skip_special_tokens);
}

std::vector<std::string> Tokenizer::tokens(const Encoding& e) const {
  std::vector<std::string> out;
  out.reserve(e.size());
  for (size_t i = 0; i < e.size(); ++i) out.push_back(token_text(*parts_, e, i));
  return out;
}

std::optional<TokenId> Tokenizer::token_to_id(std::string_view token) const {
  TokenId id = parts_->added->find(token);
  if (id == kNoToken) id = parts_->model->vocabulary().find(token);
  return id == kNoToken ? std::nullopt : std::optional(id);
}

std::optional<std::string> Tokenizer::id_to_token(TokenId id) const { return spelling(*parts_, id); }

size_t Tokenizer::vocabulary_size() const {
  const Vocabulary& vocabulary = parts_->model->vocabulary();
  return vocabulary.size() + parts_->added->beyond(vocabulary);
}

// Decoders look at neighbours (the first token of a text loses its space), so a window of tokens is decoded twice, without
// and with the new one: the difference is the new text. The window moves on when characters are complete.
struct TokenStream::State {
  std::shared_ptr<const Tokenizer::Parts> parts;
  bool skip_special_tokens = true;
  std::vector<TokenId> window;
  size_t given = 0;  // tokens of the window whose text has been given
  std::string prefix;  // their text

  std::string decoded(size_t from = 0) const;
  std::string added(const std::string& text) const;
};

TokenStream::TokenStream(std::shared_ptr<State> state) : state_(std::move(state)) {}

TokenStream Tokenizer::stream(bool skip_special_tokens) const {
  auto state = std::make_shared<TokenStream::State>();
  state->parts = parts_;
  state->skip_special_tokens = skip_special_tokens;
  return TokenStream(std::move(state));
}

std::string TokenStream::State::decoded(size_t from) const {
  return decode_tokens(*parts, window.data() + from, window.data() + window.size(), skip_special_tokens);
}

// What `text`, that of the window, adds to the prefix, from the first byte in which they differ that begins a character.
std::string TokenStream::State::added(const std::string& text) const {
  size_t same = static_cast<size_t>(std::mismatch(prefix.begin(), prefix.end(), text.begin(), text.end()).second - text.begin());
  while (same > 0 && same < text.size() && is_continuation(text[same])) --same;
  // A bad byte makes U+FFFD of the good ones before it, too, which have been given.
  const bool is_spoilt = same < prefix.size() && text.compare(same, kReplacement.size(), kReplacement) == 0;
  return is_spoilt ? decoded(given) : text.substr(same);
}

std::string TokenStream::next(TokenId id) {
  State& s = *state_;
  s.window.push_back(id);
  const std::string text = s.decoded();
  // U+FFFD at the end may be a character whose last bytes are to come.
  if (text.size() <= s.prefix.size() || text.ends_with(kReplacement)) return {};
  std::string out = s.added(text);
  s.window.erase(s.window.begin(), s.window.begin() + static_cast<ptrdiff_t>(s.given));
  s.prefix = s.decoded();
  s.given = s.window.size();
  return out;
}

std::string TokenStream::finish() {
  State& s = *state_;
  const std::string text = s.decoded();
  std::string out = text.size() > s.prefix.size() ? s.added(text) : "";
  s.window.clear();
  s.prefix.clear();
  s.given = 0;
  return out;
}

}  // namespace pycandle
