// The text of a model's header on its way to a file: printed, proven, written. Only proof::prove makes a ProvenHeader, and a
// file takes no other, so code that nobody proved is not written.
#pragma once

#include <string>
#include <utility>
#include <vector>

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
  // Per node of the program: the line that computes it, from 1; 0: none.
  const std::vector<int32_t>& lines() const { return lines_; }

 private:
  friend ProvenHeader proof::prove(const std::string& header, const Program& program);
  ProvenHeader(std::string text, std::vector<int32_t> lines) : text_(std::move(text)), lines_(std::move(lines)) {}
  std::string text_;
  std::vector<int32_t> lines_;
};

}  // namespace pycandle::emit
