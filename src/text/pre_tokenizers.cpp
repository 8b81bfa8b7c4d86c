#include "text/pre_tokenizers.h"

#include <functional>

#include "base/error.h"
#include "text/byte_level.h"
#include "text/normalizers.h"
#include "text/regex.h"
#include "text/settings.h"
#include "text/splitting.h"
#include "text/unicode.h"

namespace pycandle::text {
namespace {

class Function : public PreTokenizer {
 public:
  explicit Function(std::function<void(Pieces&)> f) : f_(std::move(f)) {}
  void apply(Pieces& pieces) const override { f_(pieces); }

 private:
  std::function<void(Pieces&)> f_;
};

std::unique_ptr<PreTokenizer> function(std::function<void(Pieces&)> f) { return std::make_unique<Function>(std::move(f)); }

// Changes the text of each piece that is no token.
void rewrite(Pieces& pieces, const std::function<void(const Piece&, AlignedText&)>& change) {
  AlignedText out;
  for (Piece& piece : pieces.list) {
    const auto begin = static_cast<uint32_t>(out.text().size());
    if (piece.token != kNoToken) {
      out.append(pieces.text, piece.begin, piece.end);
    } else {
      AlignedText text = pieces.text.slice(piece.begin, piece.end);
      change(piece, text);
      out.append(text, 0, text.text().size());
    }
    piece.begin = begin;
    piece.end = static_cast<uint32_t>(out.text().size());
  }
  pieces.text = std::move(out);
  std::erase_if(pieces.list, [](const Piece& p) { return p.begin == p.end; });
}

std::unique_ptr<PreTokenizer> sequence(const Settings& s) {
  auto all = std::make_shared<std::vector<std::unique_ptr<PreTokenizer>>>();
  for (const Json& each : s.array("pretokenizers")) {
    if (auto made = make_pre_tokenizer(each)) all->push_back(std::move(made));
  }
  return function([all](Pieces& pieces) {
    const bool may_stay_raw = pieces.may_stay_raw;
    for (const auto& each : *all) {
      pieces.may_stay_raw = may_stay_raw && each == all->back();
      each->apply(pieces);
    }
    pieces.may_stay_raw = may_stay_raw;
  });
}

std::unique_ptr<PreTokenizer> byte_level(const Settings& s) {
  const bool prefix_space = s.flag("add_prefix_space", true);
  std::shared_ptr<Regex> words;
  // GPT-2's rule, which files do not spell out.
  if (s.flag("use_regex", true))
    words = std::make_shared<Regex>(R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)");
  return function([prefix_space, words](Pieces& pieces) {
    if (prefix_space)
      rewrite(pieces, [](const Piece&, AlignedText& text) {
        if (!text.text().starts_with(' ')) text.prepend(" ");
      });
    if (words)
      split(
          pieces, [&](std::string_view text, std::vector<Span>& matches) { words->find_all(text, matches); },
          Delimiter::isolated);
    if (pieces.may_stay_raw) {
      pieces.raw_bytes = true;
      return;
    }
    rewrite(pieces, [](const Piece&, AlignedText& text) {
      std::vector<Edit> edits;
      for (const char c : text.text())
        edits.push_back({byte_character(static_cast<unsigned char>(c)), is_continuation(c) ? 1 : 0});
      text.transform(edits);
    });
  });
}

enum class Prepend { always, first, never };

std::unique_ptr<PreTokenizer> metaspace(const Settings& s) {
  const CodePoint replacement = s.character("replacement");
  const std::string scheme = s.text("prepend_scheme", s.flag("add_prefix_space", true) ? "always" : "never");
  if (scheme != "always" && scheme != "first" && scheme != "never") s.wrong("prepend_scheme", "always, first or never");
  const Prepend prepend = scheme == "always" ? Prepend::always : scheme == "first" ? Prepend::first : Prepend::never;
  const bool splits = s.flag("split", true);
  std::string spelt;
  append(spelt, replacement);
  return function([=](Pieces& pieces) {
    rewrite(pieces, [&](const Piece& piece, AlignedText& text) {
      std::vector<Span> spaces;
      const std::string& t = text.text();
      for (size_t at = t.find(' '); at != std::string::npos; at = t.find(' ', at + 1))
        spaces.push_back({static_cast<uint32_t>(at), static_cast<uint32_t>(at + 1)});
      text.replace(spaces, spelt);
      const bool wanted = prepend == Prepend::always || (prepend == Prepend::first && piece.original == 0);
      if (wanted && !text.text().starts_with(spelt)) text.prepend(spelt);
    });
    if (!splits) return;
    const Finder find = [&](std::string_view text, std::vector<Span>& matches) {
      for (size_t at = text.find(spelt); at != std::string_view::npos; at = text.find(spelt, at + spelt.size()))
        matches.push_back({static_cast<uint32_t>(at), static_cast<uint32_t>(at + spelt.size())});
    };
    split(pieces, find, Delimiter::merged_with_next);
  });
}

std::unique_ptr<PreTokenizer> splitter(const Settings& s) {
  auto pattern = std::make_shared<Pattern>(s.at("pattern"));
  const Delimiter delimiter = delimiter_from(s.text("behavior"));
  const bool invert = s.flag("invert", false);
  return function([=](Pieces& pieces) {
    split(
        pieces, [&](std::string_view text, std::vector<Span>& matches) { pattern->find_all(text, matches); }, delimiter, invert);
  });
}

std::unique_ptr<PreTokenizer> whitespace() {
  const std::string word(kRustWord);
  auto words = std::make_shared<Regex>("[" + word + "]+|[^" + word + "\\s]+");
  return function([words](Pieces& pieces) {
    split(
        pieces, [&](std::string_view text, std::vector<Span>& matches) { words->find_all(text, matches); }, Delimiter::removed,
        true);
  });
}

// Runs of one script. Spaces, and characters without a script here, belong to the run before them; those before the first run
// are dropped. The scripts are those of `tokenizers`, which knows Unicode 9, with Japanese kana as Han.
std::unique_ptr<PreTokenizer> unicode_scripts() {
  constexpr std::string_view kScripts =
      "Adlam Ahom Anatolian_Hieroglyphs Arabic Armenian Avestan Balinese Bamum Bassa_Vah Batak Bengali Bhaiksuki Bopomofo Brahmi "
      "Braille Buginese Buhid Canadian_Aboriginal Carian Caucasian_Albanian Chakma Cham Cherokee Common Coptic Cuneiform Cypriot "
      "Cyrillic Deseret Devanagari Duployan Egyptian_Hieroglyphs Elbasan Ethiopic Georgian Glagolitic Gothic Grantha Greek "
      "Gujarati Gurmukhi Hangul Hanunoo Hatran Hebrew Imperial_Aramaic Inherited Inscriptional_Pahlavi Inscriptional_Parthian "
      "Javanese Kaithi Kannada Kayah_Li Kharoshthi Khmer Khojki Khudawadi Lao Latin Lepcha Limbu Linear_A Linear_B Lisu Lycian "
      "Lydian Mahajani Malayalam Mandaic Manichaean Marchen Meetei_Mayek Mende_Kikakui Meroitic_Cursive Meroitic_Hieroglyphs "
      "Miao "
      "Modi Mongolian Mro Multani Myanmar Nabataean New_Tai_Lue Newa Nko Ogham Ol_Chiki Old_Hungarian Old_Italic "
      "Old_North_Arabian Old_Permic Old_Persian Old_South_Arabian Old_Turkic Oriya Osage Osmanya Pahawh_Hmong Palmyrene "
      "Pau_Cin_Hau Phags_Pa Phoenician Psalter_Pahlavi Rejang Runic Samaritan Saurashtra Sharada Shavian Siddham SignWriting "
      "Sinhala Sora_Sompeng Sundanese Syloti_Nagri Syriac Tagalog Tagbanwa Tai_Le Tai_Tham Tai_Viet Takri Tamil Tangut Telugu "
      "Thaana Thai Tibetan Tifinagh Tirhuta Ugaritic Vai Warang_Citi Yi";
  // The mark of a long vowel counts as Han, not as Common.
  std::vector<std::string> classes{R"([\p{sc:Han}\p{sc:Hiragana}\p{sc:Katakana}\x{30fc}])"};
  std::string known = R"(\p{sc:Han}\p{sc:Hiragana}\p{sc:Katakana})";
  for (size_t begin = 0; begin < kScripts.size();) {
    const size_t end = std::min(kScripts.find(' ', begin), kScripts.size());
    const std::string script = "\\p{sc:" + std::string(kScripts.substr(begin, end - begin)) + "}";
    classes.push_back(R"((?!\x{30fc}))" + script);
    known += script;
    begin = end + 1;
  }
  std::string runs = "(?(DEFINE)(?<any> |[^" + known + "]))";
  const char* separator = "(?:";
  for (const std::string& script : classes) {
    runs += separator + ("(?! )" + script) + "(?:" + script + "|(?&any))*";
    separator = "|";
  }
  runs += ")";
  auto run = std::make_shared<Regex>(runs);
  return function([run](Pieces& pieces) {
    split(
        pieces, [&](std::string_view text, std::vector<Span>& matches) { run->find_all(text, matches); }, Delimiter::removed,
        true);
  });
}

std::unique_ptr<PreTokenizer> fixed_length(size_t length) {
  if (length == 0) throw Error(ErrorCode::bad_input, "the tokenizer's pre_tokenizer FixedLength has no length");
  return function([length](Pieces& pieces) {
    const Finder find = [&](std::string_view text, std::vector<Span>& matches) {
      for (size_t begin = 0; begin < text.size();) {
        size_t end = begin;
        for (size_t i = 0; i < length && end < text.size(); ++i) end += decode(text.data() + end).size;
        matches.push_back({static_cast<uint32_t>(begin), static_cast<uint32_t>(end)});
        begin = end;
      }
    };
    split(pieces, find, Delimiter::isolated);
  });
}

std::unique_ptr<PreTokenizer> classes(bool (*is_delimiter)(CodePoint), Delimiter delimiter) {
  return function([=](Pieces& pieces) { split_at(pieces, is_delimiter, delimiter); });
}

}  // namespace

std::unique_ptr<PreTokenizer> make_pre_tokenizer(const Json& json) {
  if (json.is_null()) return nullptr;
  const std::string type = component_type(json, "pre_tokenizer");
  const Settings s(json, "pre_tokenizer " + type);
  if (type == "Sequence") return sequence(s);
  if (type == "ByteLevel") return byte_level(s);
  if (type == "Metaspace") return metaspace(s);
  if (type == "Split") return splitter(s);
  if (type == "Whitespace") return whitespace();
  if (type == "WhitespaceSplit") return classes(is_whitespace, Delimiter::removed);
  if (type == "Punctuation") return classes(is_punctuation, delimiter_from(s.text("behavior", "Isolated")));
  if (type == "Digits")
    return classes(is_numeric, s.flag("individual_digits", false) ? Delimiter::isolated : Delimiter::contiguous);
  if (type == "UnicodeScripts") return unicode_scripts();
  if (type == "FixedLength") return fixed_length(s.count("length", 5));
  if (type == "CharDelimiterSplit") {
    const CodePoint delimiter = s.character("delimiter");
    return function([=](Pieces& pieces) { split_at(pieces, [=](CodePoint c) { return c == delimiter; }, Delimiter::removed); });
  }
  if (type == "BertPreTokenizer")
    return function([](Pieces& pieces) {
      split_at(pieces, is_whitespace, Delimiter::removed);
      split_at(pieces, is_punctuation, Delimiter::isolated);
    });
  unknown_component("pre_tokenizer", type);
}

}  // namespace pycandle::text
