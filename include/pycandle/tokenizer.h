// Text to tokens and back, from a Hugging Face tokenizer.json. docs/tokenizer.md explains it.
//
//   auto tokenizer = pycandle::Tokenizer::from_file("tokenizer.json");
//   std::vector<uint32_t> ids = tokenizer.encode("Hello").ids;
//   std::string text = tokenizer.decode(ids);
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "pycandle/api.h"

namespace pycandle {

using TokenId = uint32_t;

// Where a token stands in the text, in characters (code points).
struct TokenOffsets {
  uint32_t begin = 0, end = 0;
  bool operator==(const TokenOffsets&) const = default;
};

// The tokens of a text; the lists are of the same length.
struct PYCANDLE_API Encoding {
  std::vector<TokenId> ids;
  std::vector<TokenOffsets> offsets;
  std::vector<uint32_t> type_ids;           // 0 for the first text, 1 for the second one of a pair
  std::vector<int32_t> words;               // the piece a token is of; -1 for what was added
  std::vector<uint8_t> special_tokens_mask;  // 1 for what a post-processor or padding added
  std::vector<uint8_t> attention_mask;       // 0 for padding
  // Tokens whose text is not that of their id: (index, text).
  std::vector<std::pair<uint32_t, std::string>> spelt;
  std::vector<Encoding> overflowing;  // what a truncation cut off, in parts that are as long

  size_t size() const { return ids.size(); }
};

struct Truncation {
  enum class Strategy { longest_first, only_first, only_second };
  size_t max_length = 512;
  Strategy strategy = Strategy::longest_first;
  bool from_left = false;
  size_t stride = 0;  // tokens that a part of `overflowing` has in common with the one before it
};

struct Padding {
  std::optional<size_t> length;  // none: that of the longest in the batch
  bool on_left = false;
  size_t multiple_of = 0;
  TokenId id = 0;
  uint32_t type_id = 0;
  std::string token = "[PAD]";
};

// Text from tokens that come one by one; a character is given only when all of it is there.
class PYCANDLE_API TokenStream {
 public:
  // The text that this token completes, which may be empty.
  std::string next(TokenId id);
  // What is held back, when no more tokens come; incomplete characters become U+FFFD.
  std::string finish();

 private:
  friend class Tokenizer;
  struct State;
  explicit TokenStream(std::shared_ptr<State>);
  std::shared_ptr<State> state_;
};

// A copy shares what was read. The const members may be called from several threads at once.
class PYCANDLE_API Tokenizer {
 public:
  // Errors: bad_input for a file that cannot be read, gap for a component that is not supported, which they name.
  static Tokenizer from_file(const std::filesystem::path& tokenizer_json);
  static Tokenizer from_text(std::string_view tokenizer_json);
  // The tables of a tokenizer.json, which from_compiled reads in milliseconds: what a bundle carries.
  static std::string compile(std::string_view tokenizer_json);
  static Tokenizer from_compiled(std::string_view bytes);

  // Invalid UTF-8 is read as Python's errors="replace" does.
  Encoding encode(std::string_view text, bool add_special_tokens = true) const;
  Encoding encode_pair(std::string_view first, std::string_view second, bool add_special_tokens = true) const;
  std::vector<Encoding> encode_batch(const std::vector<std::string>& texts, bool add_special_tokens = true) const;
  std::string decode(const std::vector<TokenId>& ids, bool skip_special_tokens = true) const;
  TokenStream stream(bool skip_special_tokens = true) const;

  std::vector<std::string> tokens(const Encoding&) const;
  std::optional<TokenId> token_to_id(std::string_view token) const;
  std::optional<std::string> id_to_token(TokenId id) const;
  size_t vocabulary_size() const;  // with added tokens

  // As the file has them; change or clear them at will.
  std::optional<Truncation> truncation;
  std::optional<Padding> padding;

  struct Parts;

 private:
  explicit Tokenizer(std::shared_ptr<const Parts>);
  std::shared_ptr<const Parts> parts_;
};

// A chat template: the Jinja of tokenizer_config.json. docs/tokenizer.md lists what it knows.
class PYCANDLE_API ChatTemplate {
 public:
  explicit ChatTemplate(const std::string& source);
  // "chat_template" of a tokenizer_config.json, with the special tokens that the file names as variables.
  static ChatTemplate from_config(const std::filesystem::path& tokenizer_config, const std::string& name = "default");
  static ChatTemplate from_config_text(std::string_view json, const std::string& name = "default");
  // `variables`: a JSON object such as {"messages": [{"role": "user", "content": "Hi"}], "add_generation_prompt": true}.
  std::string render(std::string_view variables) const;

 private:
  static ChatTemplate from(std::string_view json, const std::string& what, const std::string& name);
  struct State;
  std::shared_ptr<const State> state_;
};

}  // namespace pycandle
