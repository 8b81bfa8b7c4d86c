#include "text/post_processors.h"

#include <algorithm>
#include <map>

#include "base/error.h"
#include "text/byte_level.h"
#include "text/encodings.h"
#include "text/settings.h"
#include "text/unicode.h"

namespace pycandle::text {
namespace {

// Offsets without the white space that byte-level tokens carry.
void trim_offsets(Encoding& e, bool prefix_space, const PostProcessor::Spelling& text_of) {
  const auto is_space = [](CodePoint c) { return c == byte_character(' ') || is_whitespace(c); };
  for (size_t i = 0; i < e.size(); ++i) {
    const std::string token = text_of(e, i);
    uint32_t leading = 0, trailing = 0;
    for (size_t at = 0; at < token.size() && is_space(decode(token.data() + at).code); ++leading)
      at += decode(token.data() + at).size;
    for (size_t at = token.size(); at > 0 && is_space(decode_before(token, at).code); ++trailing)
      at -= decode_before(token, at).size;
    TokenOffsets& o = e.offsets[i];
    // One space at the beginning may be the one that was put there.
    if (leading == 1 && prefix_space && (i == 0 || o.begin == 0)) leading = 0;
    o.begin = std::min(o.begin + leading, o.end);
    if (trailing > 0 && o.end >= trailing) o.end = std::max(o.end - trailing, o.begin);
  }
}

class ByteLevel : public PostProcessor {
 public:
  explicit ByteLevel(const Settings& s) : trim_(s.flag("trim_offsets", true)), prefix_space_(s.flag("add_prefix_space", true)) {}
  size_t added(bool) const override { return 0; }
  std::vector<Encoding> process(std::vector<Encoding> all, bool, const Spelling& text_of) const override {
    for (Encoding& e : all) {
      if (trim_) trim_offsets(e, prefix_space_, text_of);
    }
    return all;
  }

 private:
  bool trim_, prefix_space_;
};

struct SpecialToken {
  std::string text;
  TokenId id = 0;
};

// ["[SEP]", 102]
SpecialToken special_token(const Settings& s, const char* name) {
  const Json& pair = s.array(name);
  if (pair.size() != 2 || !pair[0].is_string() || !pair[1].is_number_unsigned()) s.wrong(name, "a token and its id");
  return {pair[0].get<std::string>(), pair[1].get<TokenId>()};
}

// [CLS] A [SEP] B [SEP], and RoBERTa's <s> A </s> </s> B </s>.
class Bert : public PostProcessor {
 public:
  Bert(const Settings& s, bool roberta) : sep_(special_token(s, "sep")), cls_(special_token(s, "cls")), roberta_(roberta) {
    if (!roberta) return;
    trim_ = s.flag("trim_offsets", true);
    prefix_space_ = s.flag("add_prefix_space", true);
  }
  size_t added(bool pair) const override { return !pair ? 2 : roberta_ ? 4 : 3; }
  std::vector<Encoding> process(std::vector<Encoding> all, bool add_special_tokens, const Spelling& text_of) const override {
    for (Encoding& e : all) {
      if (trim_) trim_offsets(e, prefix_space_, text_of);
      if (roberta_) std::fill(e.type_ids.begin(), e.type_ids.end(), 0);
    }
    if (!add_special_tokens) return all;
    for (size_t i = 0; i < all.size(); ++i) {
      Encoding out;
      const uint32_t type_id = i == 0 || roberta_ ? 0 : 1;
      if (i == 0) push_special(out, cls_.id, cls_.text, 0);
      if (i > 0 && roberta_) push_special(out, sep_.id, sep_.text, 0);
      append(out, all[i]);
      push_special(out, sep_.id, sep_.text, type_id);
      all[i] = std::move(out);
    }
    return all;
  }

 private:
  SpecialToken sep_, cls_;
  bool roberta_, trim_ = false, prefix_space_ = false;
};

class Template : public PostProcessor {
 public:
  explicit Template(const Settings& s) {
    for (const auto& [name, entry] : s.at("special_tokens").items()) {
      const Settings token(entry, "post_processor TemplateProcessing");
      const Json &ids = token.array("ids"), &texts = token.array("tokens");
      if (ids.size() != texts.size()) token.wrong("ids", "as many as tokens");
      for (size_t i = 0; i < ids.size(); ++i) {
        if (!ids[i].is_number_unsigned() || !texts[i].is_string()) token.wrong("ids", "numbers, and strings in tokens");
        special_[name].push_back({texts[i].get<std::string>(), ids[i].get<TokenId>()});
      }
    }
    single_ = pieces(s, "single");
    pair_ = pieces(s, "pair");
  }

  size_t added(bool pair) const override {
    size_t count = 0;
    for (const Part& part : pair ? pair_ : single_) count += part.tokens != nullptr ? part.tokens->size() : 0;
    return count;
  }

  std::vector<Encoding> process(std::vector<Encoding> all, bool add_special_tokens, const Spelling&) const override {
    if (all.size() > 2) throw Error(ErrorCode::gap, "the tokenizer's post_processor has two TemplateProcessing steps");
    std::vector<Encoding> out;
    for (const Part& part : all.size() == 2 ? pair_ : single_) {
      if (part.tokens == nullptr) {
        if (part.sequence >= all.size())
          throw Error(ErrorCode::bad_input, "the tokenizer's template for one text uses a second one");
        out.push_back(all[part.sequence]);
        std::fill(out.back().type_ids.begin(), out.back().type_ids.end(), part.type_id);
      } else if (add_special_tokens) {
        out.emplace_back();
        for (const SpecialToken& token : *part.tokens) push_special(out.back(), token.id, token.text, part.type_id);
      }
    }
    return out;
  }

 private:
  struct Part {
    const std::vector<SpecialToken>* tokens = nullptr;  // null: one of the texts
    size_t sequence = 0;
    uint32_t type_id = 0;
  };

  std::vector<Part> pieces(const Settings& s, const char* name) const {
    std::vector<Part> out;
    for (const Json& each : s.array(name)) {
      if (!each.is_object() || each.size() != 1) s.wrong(name, "a list of Sequence and SpecialToken");
      const Settings entry(each.begin().value(), "post_processor TemplateProcessing");
      const std::string id = entry.text("id"), kind = each.begin().key();
      Part part{nullptr, 0, static_cast<uint32_t>(entry.count("type_id", 0))};
      if (kind == "Sequence" && (id == "A" || id == "B")) {
        part.sequence = id == "A" ? 0 : 1;
      } else if (const auto it = special_.find(id); kind == "SpecialToken" && it != special_.end()) {
        part.tokens = &it->second;
      } else {
        s.wrong(name, "a Sequence A or B, or a SpecialToken that special_tokens has");
      }
      out.push_back(part);
    }
    return out;
  }

  std::map<std::string, std::vector<SpecialToken>> special_;
  std::vector<Part> single_, pair_;
};

class Sequence : public PostProcessor {
 public:
  explicit Sequence(const Settings& s) {
    for (const Json& each : s.array("processors")) {
      if (auto made = make_post_processor(each)) all_.push_back(std::move(made));
    }
  }
  size_t added(bool pair) const override {
    size_t count = 0;
    for (const auto& each : all_) count += each->added(pair);
    return count;
  }
  std::vector<Encoding> process(std::vector<Encoding> encodings, bool add_special_tokens,
                                const Spelling& text_of) const override {
    for (const auto& each : all_) encodings = each->process(std::move(encodings), add_special_tokens, text_of);
    return encodings;
  }

 private:
  std::vector<std::unique_ptr<PostProcessor>> all_;
};

}  // namespace

std::unique_ptr<PostProcessor> make_post_processor(const Json& json) {
  if (json.is_null()) return nullptr;
  const std::string type = component_type(json, "post_processor");
  const Settings s(json, "post_processor " + type);
  if (type == "Sequence") return std::make_unique<Sequence>(s);
  if (type == "ByteLevel") return std::make_unique<ByteLevel>(s);
  if (type == "BertProcessing") return std::make_unique<Bert>(s, false);
  if (type == "RobertaProcessing") return std::make_unique<Bert>(s, true);
  if (type == "TemplateProcessing") return std::make_unique<Template>(s);
  unknown_component("post_processor", type);
}

}  // namespace pycandle::text
