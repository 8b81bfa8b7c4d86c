// What a program does with text, read off its graph: which input takes tokens, which one a mask, which output is logits or an
// embedding. Nothing here knows kinds of models.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "pycandle/tokenizer.h"
#include "runtime/model.h"

namespace pycandle {

// An input of integers [batch, length] that a table is read with.
struct TokenInput {
  std::string name;
  int64_t rows = 0, width = 0;  // of the table
};
// The input whose table is largest; nothing when no input is read so.
std::optional<TokenInput> token_input(const Program&);

// The output with a number for each token of the vocabulary at each position: [batch, length, vocabulary].
std::optional<std::string> logits_output(const Program&);

struct EmbeddingModel {
  std::string tokens, mask, types;  // inputs; mask and types may be empty
  std::string output;
  bool is_pooled = false;           // [batch, width]; otherwise [batch, length, width]
  int64_t width = 0;
  std::optional<int64_t> longest;   // tokens that the program takes
};
// Nothing when the program needs more than tokens, a mask and types, or gives no floating point numbers of this shape.
std::optional<EmbeddingModel> embedding_model(const Program&);

enum class Pooling { mean, cls };
Pooling parse_pooling(std::string_view);  // "mean", "cls"; a usage error otherwise
struct EmbedOptions {
  Pooling pooling = Pooling::mean;  // of a program that gives a vector for each token
  bool normalize = false;           // to length 1
};
// [texts, width]: the formula of sentence-transformers. The tokenizer's truncation is kept to, its padding is not needed.
Array embed(const Model&, const Tokenizer&, const std::vector<std::string>& texts, const EmbedOptions& = {});

// How much the embedding of a sequence changes when it is padded beside a longer one, relative to its size: what shows that the
// mask is one. 0 without a mask: such a program gets no padding.
double padding_error(const Model&, const EmbeddingModel&);

}  // namespace pycandle
