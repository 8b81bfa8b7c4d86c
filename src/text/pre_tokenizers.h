// Pre-tokenisers cut a text into pieces that no token crosses: "pre_tokenizer" of tokenizer.json.
#pragma once

#include <memory>
#include <vector>

#include "base/json.h"
#include "text/aligned_text.h"
#include "text/vocabulary.h"

namespace pycandle::text {

struct Piece {
  uint32_t begin = 0, end = 0;  // bytes of the text
  uint32_t original = 0;        // where it begins in the original
  TokenId token = kNoToken;     // set when it is an added token, which nothing cuts or changes
};

struct Pieces {
  AlignedText text;
  std::vector<Piece> list;
  // ByteLevel may leave its alphabet to the model; it then sets raw_bytes.
  bool may_stay_raw = false, raw_bytes = false;

  std::string_view of(const Piece& p) const { return std::string_view(text.text()).substr(p.begin, p.end - p.begin); }
};

class PreTokenizer {
 public:
  virtual ~PreTokenizer() = default;
  virtual void apply(Pieces&) const = 0;
};

// Null for a JSON null. ErrorCode::gap names a type that is not known.
std::unique_ptr<PreTokenizer> make_pre_tokenizer(const Json&);

}  // namespace pycandle::text
