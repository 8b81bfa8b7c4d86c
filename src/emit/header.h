// The text of a model's header on its way to a file: printed, proven, written. Only proof::prove makes a ProvenHeader, and a
// file takes no other, so code that nobody proved is not written.
#pragma once

#include <string>
#include <utility>

#include "ir/graph.h"

namespace pycandle::emit {

class ProvenHeader;
namespace proof {
ProvenHeader prove(const std::string& header, const Program& program);
}

// As a printer gave it.
class PrintedHeader {
 public:
  PrintedHeader() = default;
  explicit PrintedHeader(std::string text) : text_(std::move(text)) {}
  const std::string& text() const { return text_; }

 private:
  std::string text_;
};

// The recorded program, read again from the text.
class ProvenHeader {
 public:
  const std::string& text() const { return text_; }

 private:
  friend ProvenHeader proof::prove(const std::string& header, const Program& program);
  explicit ProvenHeader(std::string text) : text_(std::move(text)) {}
  std::string text_;
};

}  // namespace pycandle::emit
