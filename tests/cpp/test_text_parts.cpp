// The parts of the tokenizer that Python cannot reach; tests/python/test_tokenizer.py compares the whole with `tokenizers`.
#include <gtest/gtest.h>

#include "pycandle/error.h"
#include "pycandle/tokenizer.h"
#include "text/aligned_text.h"
#include "text/json_scanner.h"
#include "text/regex.h"
#include "text/unicode.h"

namespace pycandle::text {
namespace {

TEST(Utf8, InvalidBytesBecomeReplacementsAsInPython) {
  EXPECT_EQ(replace_invalid("a\xFFz"), "a\xEF\xBF\xBDz");
  EXPECT_EQ(count_characters(replace_invalid("\xF0\x9F\x98")), 1U);  // a character cut off
  EXPECT_EQ(count_characters(replace_invalid("\xED\xA0\x80")), 3U);  // half of a surrogate pair
  EXPECT_EQ(count_characters(replace_invalid("\xC0\x80")), 2U);      // overlong
  EXPECT_EQ(count_characters(replace_invalid("\xE2\x82q")), 2U);
}

TEST(ChatTemplates, InvalidBytesOfATemplateBecomeReplacements) {
  EXPECT_EQ(ChatTemplate("{{ 'b\xE3'[::-1] }}").render("{}"),
            "\xEF\xBF\xBD"
            "b");  // a character cut off at the end
}

TEST(AlignedText, EditsKeepTheSpansOfTheOriginal) {
  AlignedText text("e\xCC\x81 x");  // e, acute accent, space, x
  normalise(text, Form::nfc);
  EXPECT_EQ(text.text(), "\xC3\xA9 x");
  EXPECT_EQ(text.span(0, 2), (Span{0, 1}));  // the accent was removed after e
  EXPECT_EQ(text.span(3, 4), (Span{4, 5}));
  text.prepend("__");
  EXPECT_EQ(text.span(0, 2), (Span{0, 1}));
  const AlignedText end = text.slice(5, 6);
  EXPECT_EQ(end.text(), "x");
  EXPECT_EQ(end.span(0, 1), (Span{4, 5}));
}

TEST(Regex, MeansWhatOnigurumaMeans) {
  std::vector<Span> found;
  Regex(R"(\s+)").find_all("a\xE1\xA0\x8E b", found);  // U+180E is white space for PCRE2 alone
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0], (Span{4, 5}));
  EXPECT_THROW(Regex("[a&&b]"), Error);
  EXPECT_THROW(Regex("a{1,3}+"), Error);
  EXPECT_NO_THROW(Regex(R"(\p{L}+|\p{N}{1,3}|[^\s\p{L}]?+)"));
}

TEST(Regex, AnExpressionThatBacktracksWithoutEndIsStopped) {
  std::vector<Span> found;
  EXPECT_THROW(Regex("(a+)+$").find_all(std::string(40, 'a') + "b", found), Error);
}

TEST(JsonScanner, ReadsStringsAndRefusesWhatIsNoJson) {
  JsonScanner scanner(R"({"a\u00e9\ud83c\udfe0": 1.5e-3})", "test");
  scanner.open('{');
  ASSERT_TRUE(scanner.next('}'));
  EXPECT_EQ(scanner.string(), "a\xC3\xA9\xF0\x9F\x8F\xA0");
  scanner.colon();
  EXPECT_DOUBLE_EQ(scanner.number(), 1.5e-3);
  EXPECT_FALSE(scanner.next('}'));
  scanner.end();
  EXPECT_THROW(JsonScanner("\"a\nb\"", "test").string(), Error);
  EXPECT_THROW(JsonScanner("\"a\xFF\"", "test").string(), Error);
}

TEST(Tokenizer, StreamsCharactersWhole) {
  const auto tokenizer = Tokenizer::from_text(
      R"({"model":{"type":"BPE","byte_fallback":true,"merges":[],"vocab":{"a":0,"<0xC3>":1,"<0xA9>":2}},)"
      R"("decoder":{"type":"Sequence","decoders":[{"type":"ByteFallback"},{"type":"Fuse"}]}})");
  TokenStream stream = tokenizer.stream();
  EXPECT_EQ(stream.next(0), "a");
  EXPECT_EQ(stream.next(1), "");
  EXPECT_EQ(stream.next(2), "\xC3\xA9");
  EXPECT_EQ(stream.next(1), "");
  EXPECT_EQ(stream.finish(), "\xEF\xBF\xBD");
  EXPECT_EQ(stream.next(1), "");
  EXPECT_EQ(stream.next(2), "\xC3\xA9");
  EXPECT_EQ(stream.next(1), "");
  EXPECT_EQ(stream.next(0),
            "\xEF\xBF\xBD"
            "a")
      << "what was given is not given again";
}

}  // namespace
}  // namespace pycandle::text
