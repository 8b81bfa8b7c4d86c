#include "generate/streamed_text.h"

#include <algorithm>

namespace pycandle {

StreamedText::StreamedText(const Tokenizer* tokenizer, const std::vector<std::string>& stop) : stop_(&stop) {
  if (tokenizer) stream_ = tokenizer->stream();
}

std::string StreamedText::add(TokenId token) {
  if (!stream_ || stopped_) return {};
  held_ += stream_->next(token);
  return released(false);
}

std::string StreamedText::finish() {
  if (!stream_ || stopped_) return {};
  held_ += stream_->finish();
  return released(true);
}

// The text before the first stop text; or all but what may be the beginning of one.
std::string StreamedText::released(bool all) {
  size_t first = std::string::npos, possible = 0;
  for (const std::string& stop : *stop_) {
    first = std::min(first, held_.find(stop));
    for (size_t size = std::min(held_.size(), stop.size() - 1); size > possible; --size) {
      if (held_.ends_with(stop.substr(0, size))) possible = size;
    }
  }
  stopped_ = first != std::string::npos;
  const size_t given = stopped_ ? first : held_.size() - (all ? 0 : possible);
  std::string text = held_.substr(0, given);
  held_.erase(0, given);
  return text;
}

}  // namespace pycandle
