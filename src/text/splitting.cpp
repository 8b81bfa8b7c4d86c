#include "text/splitting.h"

#include <algorithm>

#include "base/error.h"

namespace pycandle::text {
namespace {

struct Part {
  uint32_t begin = 0, end = 0;
  bool match = false;
};

// The matches and what lies between them, in order.
void parts_of(std::string_view text, const std::vector<Span>& matches, bool invert, std::vector<Part>& parts) {
  parts.clear();
  uint32_t done = 0;
  for (const Span& m : matches) {
    if (done != m.begin) parts.push_back({done, m.begin, invert});
    parts.push_back({m.begin, m.end, !invert});
    done = m.end;
  }
  if (done != text.size()) parts.push_back({done, static_cast<uint32_t>(text.size()), invert});
}

// Joins neighbours: a part is appended to the one before it where `joins(part is match, the one before was)`.
template <typename Joins> void join(std::vector<Part>& parts, Joins joins) {
  size_t out = 0;
  bool previous = false;
  for (const Part& part : parts) {
    if (out > 0 && joins(part.match, previous)) {
      parts[out - 1].begin = std::min(parts[out - 1].begin, part.begin);
      parts[out - 1].end = std::max(parts[out - 1].end, part.end);
    } else {
      parts[out++] = part;
    }
    previous = part.match;
  }
  parts.resize(out);
}

void arrange(std::vector<Part>& parts, Delimiter delimiter) {
  const auto after_other = [](bool match, bool previous) { return match && !previous; };
  switch (delimiter) {
    case Delimiter::isolated: return;
    case Delimiter::removed: std::erase_if(parts, [](const Part& p) { return p.match; }); return;
    case Delimiter::contiguous: return join(parts, [](bool match, bool previous) { return match == previous; });
    case Delimiter::merged_with_previous: return join(parts, after_other);
    case Delimiter::merged_with_next:
      std::reverse(parts.begin(), parts.end());
      join(parts, after_other);
      std::reverse(parts.begin(), parts.end());
      return;
  }
}

}  // namespace

Delimiter delimiter_from(const std::string& name) {
  if (name == "Removed") return Delimiter::removed;
  if (name == "Isolated") return Delimiter::isolated;
  if (name == "MergedWithPrevious") return Delimiter::merged_with_previous;
  if (name == "MergedWithNext") return Delimiter::merged_with_next;
  if (name == "Contiguous") return Delimiter::contiguous;
  throw Error(ErrorCode::bad_input, "a pre_tokenizer of the tokenizer has an unknown behavior").found(name);
}

void split(Pieces& pieces, const Finder& find, Delimiter delimiter, bool invert) {
  std::vector<Piece> out;
  out.reserve(pieces.text.text().size() / 4 + pieces.list.size());
  std::vector<Span> matches;
  std::vector<Part> parts;
  for (const Piece& piece : pieces.list) {
    if (piece.token != kNoToken) {
      out.push_back(piece);
      continue;
    }
    const std::string_view text = pieces.of(piece);
    matches.clear();
    find(text, matches);
    parts_of(text, matches, invert, parts);
    arrange(parts, delimiter);
    for (const Part& part : parts) {
      if (part.begin == part.end) continue;
      const uint32_t begin = piece.begin + part.begin, end = piece.begin + part.end;
      out.push_back({begin, end, pieces.text.span(begin, begin + 1).begin});
    }
  }
  pieces.list = std::move(out);
}

void split_at(Pieces& pieces, const std::function<bool(CodePoint)>& is_delimiter, Delimiter delimiter) {
  const Finder find = [&](std::string_view text, std::vector<Span>& matches) {
    for (size_t i = 0; i < text.size();) {
      const Decoded c = decode(text.data() + i);
      if (is_delimiter(c.code)) matches.push_back({static_cast<uint32_t>(i), static_cast<uint32_t>(i + c.size)});
      i += c.size;
    }
  };
  split(pieces, find, delimiter);
}

}  // namespace pycandle::text
