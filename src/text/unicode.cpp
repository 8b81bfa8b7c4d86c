#include "text/unicode.h"

#include <utf8proc.h>

#include <algorithm>
#include <array>

namespace pycandle::text {
namespace {

const utf8proc_property_t& property(CodePoint c) { return *utf8proc_get_property(static_cast<utf8proc_int32_t>(c)); }
int combining_class(CodePoint c) { return property(c).combining_class; }

constexpr CodePoint kHangulFirst = 0xAC00, kHangulLast = 0xD7A3;

bool is_late_jamo(CodePoint c) { return (c >= 0x1161 && c <= 0x1175) || (c >= 0x11A8 && c <= 0x11C2); }

// Can this character neither change nor be changed by its neighbours, whichever form it is?
bool is_inert(CodePoint c) {
  if (c < 0xA0) return true;
  if ((c >= kHangulFirst && c <= kHangulLast) || is_late_jamo(c)) return false;
  const utf8proc_property_t& p = property(c);
  // comb_index: UINT16_MAX none; the high bit marks a character that joins the one before it.
  const bool joins = p.comb_index != UINT16_MAX && (p.comb_index & 0x8000) != 0;
  return p.combining_class == 0 && p.decomp_seqindex == UINT16_MAX && !joins;
}

void decompose(CodePoint c, bool compatibility, std::vector<Edit>& out) {
  std::array<utf8proc_int32_t, 32> buffer{};
  int last_class = 0;
  const auto options = static_cast<utf8proc_option_t>(UTF8PROC_DECOMPOSE | (compatibility ? UTF8PROC_COMPAT : 0));
  const utf8proc_ssize_t count = utf8proc_decompose_char(static_cast<utf8proc_int32_t>(c), buffer.data(), buffer.size(), options,
                                                         &last_class);
  if (count <= 0 || count > static_cast<utf8proc_ssize_t>(buffer.size())) {
    out.push_back({c, 0});
    return;
  }
  for (utf8proc_ssize_t i = 0; i < count; ++i)
    out.push_back({static_cast<CodePoint>(buffer[static_cast<size_t>(i)]), i > 0 ? 1 : 0});
}

// Canonical order: runs of marks are sorted by their class, marks of the same class keep their order.
void reorder(std::vector<Edit>& edits, size_t from) {
  for (size_t i = from; i < edits.size();) {
    if (combining_class(edits[i].code) == 0) {
      ++i;
      continue;
    }
    size_t end = i;
    while (end < edits.size() && combining_class(edits[end].code) != 0) ++end;
    std::stable_sort(edits.begin() + static_cast<ptrdiff_t>(i), edits.begin() + static_cast<ptrdiff_t>(end),
                     [](const Edit& a, const Edit& b) { return combining_class(a.code) < combining_class(b.code); });
    i = end;
  }
}

// The primary composite of two characters, or 0.
CodePoint compose(CodePoint first, CodePoint second) {
  std::array<utf8proc_int32_t, 4> pair = {static_cast<utf8proc_int32_t>(first), static_cast<utf8proc_int32_t>(second), 0, 0};
  const auto options = static_cast<utf8proc_option_t>(UTF8PROC_COMPOSE | UTF8PROC_STABLE);
  return utf8proc_normalize_utf32(pair.data(), 2, options) == 1 ? static_cast<CodePoint>(pair[0]) : 0;
}

// Composes what stands after `from`. A joined character takes over the change of what it swallowed.
void recompose(std::vector<Edit>& edits, size_t from) {
  constexpr size_t kNone = static_cast<size_t>(-1);
  size_t out = from, starter = kNone;
  int last_class = -1;  // of what was kept since the starter; -1: nothing
  for (size_t i = from; i < edits.size(); ++i) {
    const Edit edit = edits[i];
    const int its_class = combining_class(edit.code);
    const bool blocked = last_class != -1 && last_class >= its_class;
    if (starter != kNone && !blocked) {
      if (const CodePoint joined = compose(edits[starter].code, edit.code); joined != 0) {
        edits[starter] = {joined, edits[starter].change + edit.change - 1};
        continue;
      }
    }
    if (its_class == 0) {
      starter = out;
      last_class = -1;
    } else {
      last_class = its_class;
    }
    edits[out++] = edit;
  }
  edits.resize(out);
}

}  // namespace

bool is_whitespace(CodePoint c) {
  if (c < 0x80) return c == ' ' || (c >= 9 && c <= 13);
  return c == 0x85 || c == 0xA0 || c == 0x1680 || (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 || c == 0x202F ||
         c == 0x205F || c == 0x3000;
}

bool is_numeric(CodePoint c) {
  if (c < 0x80) return c >= '0' && c <= '9';
  const auto category = utf8proc_category(static_cast<utf8proc_int32_t>(c));
  return category == UTF8PROC_CATEGORY_ND || category == UTF8PROC_CATEGORY_NL || category == UTF8PROC_CATEGORY_NO;
}

bool is_punctuation(CodePoint c) {
  if (c < 0x80) return (c >= 33 && c <= 47) || (c >= 58 && c <= 64) || (c >= 91 && c <= 96) || (c >= 123 && c <= 126);
  const auto category = utf8proc_category(static_cast<utf8proc_int32_t>(c));
  return category >= UTF8PROC_CATEGORY_PC && category <= UTF8PROC_CATEGORY_PO;
}

bool is_mark(CodePoint c) {
  if (c < 0x300) return false;
  const auto category = utf8proc_category(static_cast<utf8proc_int32_t>(c));
  return category == UTF8PROC_CATEGORY_MN || category == UTF8PROC_CATEGORY_MC || category == UTF8PROC_CATEGORY_ME;
}

bool is_nonspacing_mark(CodePoint c) {
  return c >= 0x300 && utf8proc_category(static_cast<utf8proc_int32_t>(c)) == UTF8PROC_CATEGORY_MN;
}

bool is_other(CodePoint c) {
  if (c < 0x80) return c < 32 || c == 127;
  const auto category = utf8proc_category(static_cast<utf8proc_int32_t>(c));
  return category == UTF8PROC_CATEGORY_CC || category == UTF8PROC_CATEGORY_CF || category == UTF8PROC_CATEGORY_CO;
}

CodePoint lower(CodePoint c) {
  if (c < 0x80) return c >= 'A' && c <= 'Z' ? c + 32 : c;
  return static_cast<CodePoint>(utf8proc_tolower(static_cast<utf8proc_int32_t>(c)));
}

CodePoint upper(CodePoint c) { return static_cast<CodePoint>(utf8proc_toupper(static_cast<utf8proc_int32_t>(c))); }

void normalise(AlignedText& text, Form form) {
  const std::string& old = text.text();
  if (is_ascii(old)) return;
  const bool composes = form == Form::nfc || form == Form::nfkc;
  const bool compatibility = form == Form::nfkc || form == Form::nfkd;
  std::vector<Edit> edits;
  edits.reserve(old.size());
  // A segment is an inert character and the others up to the next inert one: nothing crosses its ends.
  size_t segment = 0;
  bool dirty = false, changed = false;
  size_t segment_begin = 0;
  const auto close = [&](size_t end) {
    if (dirty) {
      reorder(edits, segment);
      if (composes) recompose(edits, segment);
      size_t at = segment_begin;
      for (size_t k = segment; k < edits.size() && !changed; ++k) {
        changed = edits[k].change != 0 || at >= end || decode(old.data() + at).code != edits[k].code;
        if (!changed) at += decode(old.data() + at).size;
      }
    }
    segment = edits.size();
    segment_begin = end;
    dirty = false;
  };
  for (size_t i = 0; i < old.size();) {
    const Decoded c = decode(old.data() + i);
    if (is_inert(c.code)) {
      close(i);
      edits.push_back({c.code, 0});
    } else {
      dirty = true;
      decompose(c.code, compatibility, edits);
    }
    i += c.size;
  }
  close(old.size());
  if (changed) text.transform(edits);
}

void lowercase(AlignedText& text) {
  std::vector<Edit> edits;
  const std::string& old = text.text();
  edits.reserve(old.size());
  bool changed = false;
  for (size_t i = 0; i < old.size();) {
    const Decoded c = decode(old.data() + i);
    i += c.size;
    if (c.code == 0x130) {  // İ becomes i and a dot above
      edits.push_back({'i', 0});
      edits.push_back({0x307, 1});
      changed = true;
      continue;
    }
    edits.push_back({lower(c.code), 0});
    changed = changed || edits.back().code != c.code;
  }
  if (changed) text.transform(edits);
}

size_t grapheme_end(std::string_view valid, size_t begin) {
  Decoded last = decode(valid.data() + begin);
  size_t at = begin + last.size;
  utf8proc_int32_t state = 0;
  while (at < valid.size()) {
    const Decoded next = decode(valid.data() + at);
    if (utf8proc_grapheme_break_stateful(static_cast<utf8proc_int32_t>(last.code), static_cast<utf8proc_int32_t>(next.code),
                                         &state))
      break;
    at += next.size;
    last = next;
  }
  return at;
}

}  // namespace pycandle::text
