// tokenizer.json → the parts of a tokenizer.
#pragma once

#include <memory>
#include <mutex>
#include <optional>

#include "pycandle/tokenizer.h"
#include "text/added_tokens.h"
#include "text/decoders.h"
#include "text/model.h"
#include "text/normalizers.h"
#include "text/post_processors.h"
#include "text/pre_tokenizers.h"

namespace pycandle {

struct Tokenizer::Parts {
  std::unique_ptr<text::Model> model;
  std::unique_ptr<text::Normalizer> normalizer;
  std::unique_ptr<text::PreTokenizer> pre_tokenizer;
  std::unique_ptr<text::PostProcessor> post_processor;
  std::unique_ptr<text::Decoder> decoder;
  std::unique_ptr<text::AddedTokens> added;
  std::optional<Truncation> truncation;
  std::optional<Padding> padding;

  // What calls need for a while; a call takes one that is idle.
  mutable std::mutex mutex;
  mutable std::vector<std::unique_ptr<text::Scratch>> idle;
};

namespace text {

// `what` names the file in errors.
std::shared_ptr<Tokenizer::Parts> read_tokenizer(std::string_view json, const std::string& what);
// text/compiled.h
std::string compile_tokenizer(std::string_view json, const std::string& what);
std::shared_ptr<Tokenizer::Parts> read_compiled(std::string_view bytes);

}  // namespace text
}  // namespace pycandle
