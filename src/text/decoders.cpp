#include "text/decoders.h"

#include <algorithm>
#include <charconv>
#include <functional>

#include "text/byte_level.h"
#include "text/normalizers.h"
#include "text/settings.h"

namespace pycandle::text {
namespace {

using Tokens = std::vector<std::string>;

class Function : public Decoder {
 public:
  explicit Function(std::function<Tokens(Tokens)> f) : f_(std::move(f)) {}
  Tokens decode(Tokens tokens) const override { return f_(std::move(tokens)); }

 private:
  std::function<Tokens(Tokens)> f_;
};

std::unique_ptr<Decoder> function(std::function<Tokens(Tokens)> f) { return std::make_unique<Function>(std::move(f)); }

// Changes each token; f(text, index, how many).
std::unique_ptr<Decoder> each_token(std::function<void(std::string&, size_t, size_t)> f) {
  return function([f = std::move(f)](Tokens tokens) {
    for (size_t i = 0; i < tokens.size(); ++i) f(tokens[i], i, tokens.size());
    return tokens;
  });
}

void replace_all(std::string& text, std::string_view from, std::string_view to) {
  if (from.empty()) return;
  std::string out;
  size_t done = 0;
  for (size_t at = text.find(from); at != std::string::npos; at = text.find(from, done)) {
    out.append(text, done, at - done).append(to);
    done = at + from.size();
  }
  if (done > 0) text = out.append(text, done);
}

// English as it is written: no space before a point.
void clean_up(std::string& text) {
  static constexpr std::pair<std::string_view, std::string_view> kRules[] = {
      {" .", "."},   {" ?", "?"},           {" !", "!"},   {" ,", ","},     {" ' ", "'"},   {" n't", "n't"},
      {" 'm", "'m"}, {" do not", " don't"}, {" 's", "'s"}, {" 've", "'ve"}, {" 're", "'re"}};
  for (const auto& [from, to] : kRules) replace_all(text, from, to);
}

std::unique_ptr<Decoder> sequence(const Settings& s) {
  auto all = std::make_shared<std::vector<std::unique_ptr<Decoder>>>();
  for (const Json& each : s.array("decoders")) {
    if (auto made = make_decoder(each)) all->push_back(std::move(made));
  }
  return function([all](Tokens tokens) {
    for (const auto& each : *all) tokens = each->decode(std::move(tokens));
    return tokens;
  });
}

Tokens from_byte_level(Tokens tokens) {
  std::string bytes;
  for (const std::string& token : tokens) {
    const size_t before = bytes.size();
    if (!to_bytes(token, bytes)) bytes.replace(before, std::string::npos, token);
  }
  return {replace_invalid(bytes)};
}

// "<0x0A>" → 10, else -1.
int fallback_byte(const std::string& token) {
  if (token.size() != 6 || !token.starts_with("<0x") || token[5] != '>') return -1;
  int byte = 0;
  const auto [end, error] = std::from_chars(token.data() + 3, token.data() + 5, byte, 16);
  return error == std::errc() && end == token.data() + 5 && byte >= 0 ? byte : -1;
}

Tokens from_byte_fallback(Tokens tokens) {
  Tokens out;
  std::string bytes;
  const auto flush = [&] {
    if (bytes.empty()) return;
    if (is_valid(bytes)) {
      out.push_back(bytes);
    } else {
      out.insert(out.end(), bytes.size(), std::string(kReplacement));
    }
    bytes.clear();
  };
  for (std::string& token : tokens) {
    if (const int byte = fallback_byte(token); byte >= 0) {
      bytes += static_cast<char>(byte);
    } else {
      flush();
      out.push_back(std::move(token));
    }
  }
  flush();
  return out;
}

std::unique_ptr<Decoder> metaspace(const Settings& s) {
  std::string spelt;
  append(spelt, s.character("replacement"));
  const bool prepended = s.text("prepend_scheme", s.flag("add_prefix_space", true) ? "always" : "never") != "never";
  return each_token([=](std::string& token, size_t i, size_t) { replace_all(token, spelt, i == 0 && prepended ? "" : " "); });
}

std::unique_ptr<Decoder> word_piece(const Settings& s) {
  return each_token([prefix = s.text("prefix", "##"), cleans = s.flag("cleanup", true)](std::string& token, size_t i, size_t) {
    if (i > 0) {
      if (token.starts_with(prefix)) {
        token.erase(0, prefix.size());
      } else {
        token.insert(0, " ");
      }
    }
    if (cleans) clean_up(token);
  });
}

std::unique_ptr<Decoder> replace(const Settings& s) {
  auto pattern = std::make_shared<Pattern>(s.at("pattern"));
  return each_token([pattern, content = s.text("content")](std::string& token, size_t, size_t) {
    std::vector<Span> matches;
    pattern->find_all(token, matches);
    for (auto m = matches.rbegin(); m != matches.rend(); ++m) token.replace(m->begin, m->end - m->begin, content);
  });
}

std::unique_ptr<Decoder> strip(const Settings& s) {
  std::string content;
  append(content, s.character("content"));
  const size_t start = s.count("start", 0), stop = s.count("stop", 0);
  return each_token([=](std::string& token, size_t, size_t) {
    size_t begin = 0, end = token.size();
    for (size_t i = 0; i < start && std::string_view(token).substr(begin).starts_with(content); ++i) begin += content.size();
    for (size_t i = 0; i < stop && end >= begin + content.size() && std::string_view(token).substr(0, end).ends_with(content);
         ++i)
      end -= content.size();
    token = token.substr(begin, end - begin);
  });
}

std::unique_ptr<Decoder> ctc(const Settings& s) {
  return function([pad = s.text("pad_token", "<pad>"), delimiter = s.text("word_delimiter_token", "|"),
                   cleans = s.flag("cleanup", true)](Tokens tokens) {
    tokens.erase(std::unique(tokens.begin(), tokens.end()), tokens.end());
    for (std::string& token : tokens) {
      replace_all(token, pad, "");
      if (!cleans) continue;
      clean_up(token);
      replace_all(token, delimiter, " ");
    }
    std::erase(tokens, "");
    return tokens;
  });
}

}  // namespace

std::unique_ptr<Decoder> make_decoder(const Json& json) {
  if (json.is_null()) return nullptr;
  const std::string type = component_type(json, "decoder");
  const Settings s(json, "decoder " + type);
  if (type == "Sequence") return sequence(s);
  if (type == "ByteLevel") return function(from_byte_level);
  if (type == "ByteFallback") return function(from_byte_fallback);
  if (type == "Metaspace") return metaspace(s);
  if (type == "WordPiece") return word_piece(s);
  if (type == "Replace") return replace(s);
  if (type == "Strip") return strip(s);
  if (type == "CTC") return ctc(s);
  if (type == "Fuse")
    return function([](const Tokens& tokens) {
      std::string all;
      for (const std::string& token : tokens) all += token;
      return Tokens{all};
    });
  if (type == "BPEDecoder")
    return each_token([suffix = s.text("suffix", "</w>")](std::string& token, size_t i, size_t count) {
      replace_all(token, suffix, i + 1 == count ? "" : " ");
    });
  unknown_component("decoder", type);
}

}  // namespace pycandle::text
