// A model cuts a piece of text into tokens: byte pair encoding, WordPiece, Unigram or whole words.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "text/vocabulary.h"

namespace pycandle::text {

struct Token {
  TokenId id = 0;
  uint32_t begin = 0, end = 0;  // bytes of the piece
  // Its text is the piece's and not the vocabulary's: an unknown word of a Unigram model.
  bool spelt_by_piece = false;
};

// What a model keeps between pieces of one call: memory, and words it has seen. One call at a time uses it.
class Scratch {
 public:
  virtual ~Scratch() = default;
};

class Model {
 public:
  virtual ~Model() = default;
  virtual std::unique_ptr<Scratch> make_scratch() const { return std::make_unique<Scratch>(); }
  // Adds the tokens of a piece. `raw_bytes`: the piece is not yet in the alphabet of ByteLevel, and offsets count its own
  // bytes; only a model that says so takes it.
  virtual void tokenize(std::string_view piece, bool raw_bytes, Scratch&, std::vector<Token>& out) const = 0;
  virtual bool takes_raw_bytes() const { return false; }
  const Vocabulary& vocabulary() const { return vocabulary_; }
  // Tables that the model would make again from its merges, for ModelParts::compiled.
  virtual void write(TableWriter&) const {}

 protected:
  Vocabulary vocabulary_;
};

// The entries of "model" in tokenizer.json. Vocabulary and merges are read by JsonScanner while the file is read.
struct ModelParts {
  Json settings;  // all but vocab and merges
  Vocabulary vocabulary;
  std::vector<double> scores;  // of a Unigram model, by id
  // Merges in order, each "left right": where both stand in `merge_text`.
  struct Merge {
    uint32_t left = 0, left_size = 0, right_size = 0;
  };
  std::string merge_text;
  std::vector<Merge> merges;
  TableReader* compiled = nullptr;  // what the model wrote stands here next; there is no text of merges
};

std::unique_ptr<Model> make_bpe(ModelParts);
std::unique_ptr<Model> make_word_piece(ModelParts);
std::unique_ptr<Model> make_unigram(ModelParts);
std::unique_ptr<Model> make_word_level(ModelParts);

// Its "type", or what it must be by what it has: files from before the type was written.
std::string model_type(const ModelParts&);
// ErrorCode::gap names a type that is not known.
std::unique_ptr<Model> make_model(ModelParts);

}  // namespace pycandle::text
