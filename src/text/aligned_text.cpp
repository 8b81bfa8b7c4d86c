#include "text/aligned_text.h"

namespace pycandle::text {

Span AlignedText::span_of_byte(size_t i) const {
  if (changed_) return spans_[i];
  while (i > 0 && is_continuation(text_[i])) --i;
  const auto begin = static_cast<uint32_t>(i);
  return {origin_ + begin, origin_ + begin + decode(text_.data() + i).size};
}

Span AlignedText::span(size_t begin, size_t end) const { return {span_of_byte(begin).begin, span_of_byte(end - 1).end}; }

void AlignedText::materialise() {
  if (changed_) return;
  spans_.reserve(text_.size());
  for (size_t i = 0; i < text_.size();) {
    const uint32_t size = decode(text_.data() + i).size;
    const auto begin = static_cast<uint32_t>(origin_ + i);
    spans_.insert(spans_.end(), size, Span{begin, begin + size});
    i += size;
  }
  changed_ = true;
}

AlignedText AlignedText::slice(size_t begin, size_t end) const {
  AlignedText out(text_.substr(begin, end - begin), static_cast<uint32_t>(origin_ + begin));
  out.changed_ = changed_;
  if (changed_) out.spans_.assign(spans_.begin() + static_cast<ptrdiff_t>(begin), spans_.begin() + static_cast<ptrdiff_t>(end));
  return out;
}

void AlignedText::append(const AlignedText& other, size_t begin, size_t end) {
  if (begin == end) return;
  const bool continues = !changed_ && !other.changed_ && origin_ + text_.size() == other.origin_ + begin;
  if (!continues) {
    materialise();
    for (size_t i = begin; i < end; ++i) spans_.push_back(other.span_of_byte(i));
  }
  text_.append(other.text_, begin, end - begin);
}

void AlignedText::transform(const std::vector<Edit>& edits, size_t removed) {
  materialise();
  std::string text;
  std::vector<Span> spans;
  text.reserve(text_.size());
  spans.reserve(text_.size());
  size_t at = 0;
  const auto skip = [&](size_t characters) {
    for (; characters > 0 && at < text_.size(); --characters) at += decode(text_.data() + at).size;
  };
  skip(removed);
  for (const Edit& edit : edits) {
    Span span;
    if (edit.change > 0) {
      span = at == 0 ? Span{origin_, origin_} : spans_[at - 1];
    } else {
      if (at >= text_.size()) break;  // an edit list that does not fit its text
      span = spans_[at];
      skip(1 + static_cast<size_t>(-edit.change));
    }
    text::append(text, edit.code);
    spans.resize(text.size(), span);
  }
  text_ = std::move(text);
  spans_ = std::move(spans);
}

void AlignedText::filter(const std::function<bool(CodePoint)>& keep) {
  std::vector<Edit> edits;
  edits.reserve(text_.size());
  size_t removed_first = 0;
  bool any = false;
  for (size_t i = 0; i < text_.size();) {
    const Decoded c = decode(text_.data() + i);
    i += c.size;
    if (keep(c.code)) {
      edits.push_back({c.code, 0});
    } else {
      any = true;
      if (edits.empty()) {
        ++removed_first;
      } else {
        --edits.back().change;
      }
    }
  }
  if (any) transform(edits, removed_first);
}

void AlignedText::map(const std::function<CodePoint(CodePoint)>& to) {
  std::vector<Edit> edits;
  edits.reserve(text_.size());
  bool any = false;
  for (size_t i = 0; i < text_.size();) {
    const Decoded c = decode(text_.data() + i);
    i += c.size;
    edits.push_back({to(c.code), 0});
    any = any || edits.back().code != c.code;
  }
  if (any) transform(edits);
}

void AlignedText::prepend(std::string_view prefix) {
  if (text_.empty() || prefix.empty()) return;
  materialise();
  spans_.insert(spans_.begin(), prefix.size(), spans_.front());
  text_.insert(0, prefix);
}

void AlignedText::replace(const std::vector<Span>& ranges, std::string_view content) {
  if (ranges.empty()) return;
  materialise();
  std::string text;
  std::vector<Span> spans;
  size_t done = 0;
  const auto keep_until = [&](size_t end) {
    text.append(text_, done, end - done);
    spans.insert(spans.end(), spans_.begin() + static_cast<ptrdiff_t>(done), spans_.begin() + static_cast<ptrdiff_t>(end));
  };
  for (const Span& range : ranges) {
    keep_until(range.begin);
    spans.insert(spans.end(), content.size(), range.end == 0 ? Span{origin_, origin_} : spans_[range.end - 1]);
    text += content;
    done = range.end;
  }
  keep_until(text_.size());
  text_ = std::move(text);
  spans_ = std::move(spans);
}

}  // namespace pycandle::text
