// Any bytes have tokens, with three tokenizers that differ in every part. Offsets stay within the text, and a stream gives
// what decoding gives.
#include <cstdio>

#include "base/error.h"
#include "pycandle/tokenizer.h"

namespace {

// The vocabulary of 256 bytes, as the alphabet of ByteLevel spells them.
std::string byte_vocabulary() {
  std::string out;
  int next = 0x100;
  for (int byte = 0; byte < 256; ++byte) {
    const bool printable = (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte <= 0xAC) || byte >= 0xAE;
    char escaped[8];
    std::snprintf(escaped, sizeof escaped, "\\u%04x", printable ? byte : next++);
    out += (byte > 0 ? ",\"" : "\"") + std::string(escaped) + "\":" + std::to_string(byte);
  }
  return out;
}

const std::vector<pycandle::Tokenizer>& tokenizers() {
  static const std::vector<pycandle::Tokenizer> all = {
      pycandle::Tokenizer::from_text(
          R"({"added_tokens":[{"content":"<s>","special":true,"lstrip":true,"normalized":false}],"normalizer":{"type":"NFC"},)"
          R"("pre_tokenizer":{"type":"ByteLevel","add_prefix_space":true},"decoder":{"type":"ByteLevel"},)"
          R"("model":{"type":"BPE","merges":["a b","ab c"],"vocab":{)" +
          byte_vocabulary() + R"(,"ab":256,"abc":257}}})"),
      pycandle::Tokenizer::from_text(
          R"({"normalizer":{"type":"BertNormalizer","clean_text":true,"handle_chinese_chars":true,"lowercase":true},)"
          R"("pre_tokenizer":{"type":"BertPreTokenizer"},"decoder":{"type":"WordPiece","prefix":"##","cleanup":true},)"
          R"("model":{"type":"WordPiece","unk_token":"u","vocab":{"u":0,"a":1,"##b":2}}})"),
      pycandle::Tokenizer::from_text(
          R"({"added_tokens":[{"content":"the","single_word":true}],"normalizer":{"type":"NFKD"},)"
          R"("pre_tokenizer":{"type":"Metaspace","replacement":"_","prepend_scheme":"first"},)"
          R"("decoder":{"type":"Metaspace","replacement":"_"},"model":{"type":"Unigram","unk_id":0,"vocab":[["u",-1],["_",-2],["ab",-3]]}})")};
  return all;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace pycandle;
  for (const Tokenizer& tokenizer : tokenizers()) {
    const Encoding encoding = tokenizer.encode({reinterpret_cast<const char*>(data), size});
    for (const TokenOffsets& o : encoding.offsets) {
      if (o.begin > o.end || o.end > size) __builtin_trap();
    }
    TokenStream stream = tokenizer.stream(false);
    std::string text;
    for (const TokenId id : encoding.ids) text += stream.next(id);
    if (text + stream.finish() != tokenizer.decode(encoding.ids, false)) __builtin_trap();
  }
  return 0;
}
