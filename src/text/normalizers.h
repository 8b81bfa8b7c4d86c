// Normalisers change a text before it is cut: "normalizer" of tokenizer.json.
#pragma once

#include <memory>

#include "base/json.h"
#include "text/aligned_text.h"
#include "text/regex.h"

namespace pycandle::text {

class Normalizer {
 public:
  virtual ~Normalizer() = default;
  virtual void normalize(AlignedText&) const = 0;
};

// Null for a JSON null. ErrorCode::gap names a type that is not known.
std::unique_ptr<Normalizer> make_normalizer(const Json&);

// SentencePiece's table of replacements, compiled by it: "Precompiled", base64 in the file.
std::unique_ptr<Normalizer> make_precompiled(const std::string& base64);

// {"String": " "} or {"Regex": "\\s+"}.
class Pattern {
 public:
  explicit Pattern(const Json&);
  void find_all(std::string_view valid, std::vector<Span>& matches) const;

 private:
  std::string text_;
  std::unique_ptr<Regex> regex_;
};

}  // namespace pycandle::text
