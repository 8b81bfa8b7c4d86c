// Text that remembers which bytes of the original each of its bytes stands for.
//
//   original  "ﬁne"    normalised "fine"    span of 'f' and of 'i': bytes 0 to 3, of 'n': 3 to 4
//
// While nothing has changed there are no spans: a byte stands for its own character. The rules for what an edit does to
// spans are those of the `tokenizers` package, whose offsets ours must equal.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "text/utf8.h"

namespace pycandle::text {

struct Span {
  uint32_t begin = 0, end = 0;
  bool operator==(const Span&) const = default;
};

// A character of the new text. `change`: 0 it replaces the next old one, 1 it is inserted, -n it replaces the next old one
// and n more are removed after it.
struct Edit {
  CodePoint code = 0;
  int change = 0;
};

class AlignedText {
 public:
  AlignedText() = default;
  // `text` begins at byte `origin` of the original.
  explicit AlignedText(std::string text, uint32_t origin = 0) : text_(std::move(text)), origin_(origin) {}

  const std::string& text() const { return text_; }
  // What of the original [begin, end) stands for; begin < end.
  Span span(size_t begin, size_t end) const;

  // The part [begin, end), which begins and ends between characters.
  AlignedText slice(size_t begin, size_t end) const;
  // Puts another text after this one.
  void append(const AlignedText& other, size_t begin, size_t end);

  // Replaces the whole text; `removed` old characters at its beginning have no successor.
  void transform(const std::vector<Edit>& edits, size_t removed = 0);
  void filter(const std::function<bool(CodePoint)>& keep);
  void map(const std::function<CodePoint(CodePoint)>& to);
  void prepend(std::string_view prefix);
  // Replaces each of the ranges, which are in order, with `content`.
  void replace(const std::vector<Span>& ranges, std::string_view content);

 private:
  Span span_of_byte(size_t i) const;
  void materialise();

  std::string text_;
  std::vector<Span> spans_;  // one a byte, once something has changed
  bool changed_ = false;
  uint32_t origin_ = 0;
};

}  // namespace pycandle::text
