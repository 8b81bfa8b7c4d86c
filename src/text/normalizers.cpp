#include "text/normalizers.h"

#include <functional>

#include "base/error.h"
#include "text/byte_level.h"
#include "text/settings.h"
#include "text/unicode.h"

namespace pycandle::text {
namespace {

// Most normalisers are a function of their settings.
class Function : public Normalizer {
 public:
  explicit Function(std::function<void(AlignedText&)> f) : f_(std::move(f)) {}
  void normalize(AlignedText& text) const override { f_(text); }

 private:
  std::function<void(AlignedText&)> f_;
};

std::unique_ptr<Normalizer> function(std::function<void(AlignedText&)> f) { return std::make_unique<Function>(std::move(f)); }

std::unique_ptr<Normalizer> form(Form form) {
  return function([form](AlignedText& text) { normalise(text, form); });
}

std::unique_ptr<Normalizer> sequence(const Settings& s) {
  auto all = std::make_shared<std::vector<std::unique_ptr<Normalizer>>>();
  for (const Json& each : s.array("normalizers")) all->push_back(make_normalizer(each));
  return function([all](AlignedText& text) {
    for (const auto& each : *all) {
      if (each) each->normalize(text);
    }
  });
}

std::unique_ptr<Normalizer> strip(const Settings& s) {
  const bool left = s.flag("strip_left"), right = s.flag("strip_right");
  return function([left, right](AlignedText& text) {
    const std::string& t = text.text();
    size_t begin = 0, end = t.size();
    while (left && begin < end && is_whitespace(decode(t.data() + begin).code)) begin += decode(t.data() + begin).size;
    while (right && end > begin) {
      const Decoded last = decode_before(t, end);
      if (!is_whitespace(last.code)) break;
      end -= last.size;
    }
    if (begin > 0 || end < t.size()) text = text.slice(begin, end);
  });
}

std::unique_ptr<Normalizer> replace(const Settings& s) {
  auto pattern = std::make_shared<Pattern>(s.at("pattern"));
  return function([pattern, content = s.text("content")](AlignedText& text) {
    std::vector<Span> matches;
    pattern->find_all(text.text(), matches);
    text.replace(matches, content);
  });
}

bool is_chinese(CodePoint c) {
  return (c >= 0x4E00 && c <= 0x9FFF) || (c >= 0x3400 && c <= 0x4DBF) || (c >= 0x20000 && c <= 0x2A6DF) ||
         (c >= 0x2A700 && c <= 0x2B73F) || (c >= 0x2B740 && c <= 0x2B81F) || (c >= 0x2B920 && c <= 0x2CEAF) ||
         (c >= 0xF900 && c <= 0xFAFF) || (c >= 0x2F800 && c <= 0x2FA1F);
}

void space_around_chinese(AlignedText& text) {
  std::vector<Edit> edits;
  const std::string& t = text.text();
  bool any = false;
  for (size_t i = 0; i < t.size();) {
    const Decoded c = decode(t.data() + i);
    i += c.size;
    if (is_chinese(c.code)) {
      any = true;
      edits.insert(edits.end(), {{' ', 0}, {c.code, 1}, {' ', 1}});
    } else {
      edits.push_back({c.code, 0});
    }
  }
  if (any) text.transform(edits);
}

void clean(AlignedText& text) {
  text.filter([](CodePoint c) {
    if (c == '\t' || c == '\n' || c == '\r') return true;
    return c != 0 && c != 0xFFFD && !is_other(c);
  });
  text.map([](CodePoint c) { return is_whitespace(c) ? CodePoint{' '} : c; });
}

std::unique_ptr<Normalizer> bert(const Settings& s) {
  const bool cleans = s.flag("clean_text"), chinese = s.flag("handle_chinese_chars"), lowers = s.flag("lowercase");
  const bool strips = s.flag("strip_accents", lowers);
  return function([=](AlignedText& text) {
    const bool ascii = is_ascii(text.text());
    if (cleans) clean(text);
    if (chinese && !ascii) space_around_chinese(text);
    if (strips && !ascii) {
      normalise(text, Form::nfd);
      text.filter([](CodePoint c) { return !is_nonspacing_mark(c); });
    }
    if (lowers) lowercase(text);
  });
}

void nmt(AlignedText& text) {
  text.filter([](CodePoint c) {
    return !((c >= 1 && c <= 8) || c == 0x0B || (c >= 0x0E && c <= 0x1F) || c == 0x7F || c == 0x8F || c == 0x9F);
  });
  text.map([](CodePoint c) {
    const bool space = c == 0x09 || c == 0x0A || c == 0x0C || c == 0x0D || c == 0x1680 || (c >= 0x200B && c <= 0x200F) ||
                       c == 0x2028 || c == 0x2029 || c == 0x2581 || c == 0xFEFF || c == 0xFFFD;
    return space ? CodePoint{' '} : c;
  });
}

void to_byte_level(AlignedText& text) {
  std::vector<Edit> edits;
  for (const char c : text.text()) edits.push_back({byte_character(static_cast<unsigned char>(c)), is_continuation(c) ? 1 : 0});
  text.transform(edits);
}

}  // namespace

Pattern::Pattern(const Json& json) {
  if (json.is_object() && json.size() == 1 && json.begin().value().is_string()) {
    text_ = json.begin().value().get<std::string>();
    if (json.begin().key() == "String" && !text_.empty()) return;
    if (json.begin().key() == "String" || json.begin().key() == "Regex") {
      regex_ = std::make_unique<Regex>(text_);
      return;
    }
  }
  throw Error(ErrorCode::bad_input, "a pattern of the tokenizer cannot be read").expected("{\"String\": …} or {\"Regex\": …}");
}

void Pattern::find_all(std::string_view valid, std::vector<Span>& matches) const {
  if (regex_) return regex_->find_all(valid, matches);
  for (size_t at = valid.find(text_); at != std::string_view::npos; at = valid.find(text_, at + text_.size()))
    matches.push_back({static_cast<uint32_t>(at), static_cast<uint32_t>(at + text_.size())});
}

std::unique_ptr<Normalizer> make_normalizer(const Json& json) {
  if (json.is_null()) return nullptr;
  const std::string type = component_type(json, "normalizer");
  const Settings s(json, "normalizer " + type);
  if (type == "Sequence") return sequence(s);
  if (type == "NFC") return form(Form::nfc);
  if (type == "NFD") return form(Form::nfd);
  if (type == "NFKC") return form(Form::nfkc);
  if (type == "NFKD") return form(Form::nfkd);
  if (type == "Lowercase") return function(lowercase);
  if (type == "Strip") return strip(s);
  if (type == "StripAccents") return function([](AlignedText& text) { text.filter([](CodePoint c) { return !is_mark(c); }); });
  if (type == "BertNormalizer") return bert(s);
  if (type == "Replace") return replace(s);
  if (type == "Prepend") return function([prefix = s.text("prepend")](AlignedText& text) { text.prepend(prefix); });
  if (type == "Precompiled") return make_precompiled(s.text("precompiled_charsmap"));
  if (type == "Nmt") return function(nmt);
  if (type == "ByteLevel") return function(to_byte_level);
  unknown_component("normalizer", type);
}

}  // namespace pycandle::text
