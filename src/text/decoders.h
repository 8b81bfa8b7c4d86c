// Decoders make text of tokens: "decoder" of tokenizer.json.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/json.h"

namespace pycandle::text {

class Decoder {
 public:
  virtual ~Decoder() = default;
  // The parts of the text, which are joined with nothing between them.
  virtual std::vector<std::string> decode(std::vector<std::string> tokens) const = 0;
};

// Null for a JSON null. ErrorCode::gap names a type that is not known.
std::unique_ptr<Decoder> make_decoder(const Json&);

}  // namespace pycandle::text
