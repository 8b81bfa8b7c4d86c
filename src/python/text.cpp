#include "text.h"

#include <nanobind/stl/filesystem.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/variant.h>
#include <nanobind/stl/vector.h>

#include "base/error.h"
#include "pycandle/tokenizer.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace pycandle {
namespace {

// str, or bytes that may be invalid UTF-8.
using Text = std::variant<nb::str, nb::bytes>;

std::string_view view(const Text& text) {
  if (const auto* bytes = std::get_if<nb::bytes>(&text)) return {bytes->c_str(), bytes->size()};
  Py_ssize_t size = 0;
  const char* data = PyUnicode_AsUTF8AndSize(std::get<nb::str>(text).ptr(), &size);
  if (data == nullptr) throw nb::python_error();
  return {data, static_cast<size_t>(size)};
}

// What encode() gives: the lists are made when they are asked for.
struct PythonEncoding {
  Encoding encoding;
  Tokenizer tokenizer;
};

PythonEncoding encode(const Tokenizer& tokenizer, const Text& text, const std::optional<Text>& pair, bool add_special_tokens) {
  const std::string_view first = view(text), second = pair ? view(*pair) : std::string_view();
  const nb::gil_scoped_release unlocked;
  return {pair ? tokenizer.encode_pair(first, second, add_special_tokens) : tokenizer.encode(first, add_special_tokens),
          tokenizer};
}

std::vector<PythonEncoding> encode_batch(const Tokenizer& tokenizer, const std::vector<Text>& texts, bool add_special_tokens) {
  std::vector<std::string> copies;
  for (const Text& text : texts) copies.emplace_back(view(text));
  std::vector<PythonEncoding> out;
  const nb::gil_scoped_release unlocked;
  for (Encoding& e : tokenizer.encode_batch(copies, add_special_tokens)) out.push_back({std::move(e), tokenizer});
  return out;
}

std::vector<std::pair<uint32_t, uint32_t>> offsets(const PythonEncoding& e) {
  std::vector<std::pair<uint32_t, uint32_t>> out;
  for (const TokenOffsets& o : e.encoding.offsets) out.emplace_back(o.begin, o.end);
  return out;
}

std::vector<std::optional<int32_t>> words(const PythonEncoding& e) {
  std::vector<std::optional<int32_t>> out;
  for (const int32_t w : e.encoding.words) out.push_back(w < 0 ? std::nullopt : std::optional(w));
  return out;
}

std::vector<PythonEncoding> overflowing(const PythonEncoding& e) {
  std::vector<PythonEncoding> out;
  for (const Encoding& part : e.encoding.overflowing) out.push_back({part, e.tokenizer});
  return out;
}

Truncation truncation(size_t max_length, const std::string& strategy, const std::string& direction, size_t stride) {
  Truncation t{max_length, Truncation::Strategy::longest_first, direction == "left", stride};
  if (strategy == "only_first") {
    t.strategy = Truncation::Strategy::only_first;
  } else if (strategy == "only_second") {
    t.strategy = Truncation::Strategy::only_second;
  } else if (strategy != "longest_first") {
    throw Error(ErrorCode::usage, "the truncation strategy is unknown")
        .expected("longest_first, only_first or only_second")
        .found(strategy);
  }
  return t;
}

void bind_encoding(nb::module_& m) {
  nb::class_<PythonEncoding>(m, "Encoding", "The tokens of a text. Offsets are in characters.")
      .def("__len__", [](const PythonEncoding& e) { return e.encoding.size(); })
      .def_prop_ro("ids", [](const PythonEncoding& e) { return e.encoding.ids; })
      .def_prop_ro("offsets", &offsets)
      .def_prop_ro("tokens", [](const PythonEncoding& e) { return e.tokenizer.tokens(e.encoding); })
      .def_prop_ro("type_ids", [](const PythonEncoding& e) { return e.encoding.type_ids; })
      .def_prop_ro("word_ids", &words, "The piece that a token is of; None for tokens that were added.")
      .def_prop_ro("special_tokens_mask", [](const PythonEncoding& e) { return e.encoding.special_tokens_mask; })
      .def_prop_ro("attention_mask", [](const PythonEncoding& e) { return e.encoding.attention_mask; })
      .def_prop_ro("overflowing", &overflowing, "What a truncation cut off, in parts that are as long.");
}

void bind_tokenizer(nb::module_& m) {
  const auto unlocked = nb::call_guard<nb::gil_scoped_release>();
  nb::class_<TokenStream>(m, "TokenStream", "Text from tokens that come one by one; a character is never split.")
      .def("next", &TokenStream::next, "id"_a, "The text that this token completes, which may be empty.")
      .def("finish", &TokenStream::finish, "What was held back, when no more tokens come.");
  nb::class_<Tokenizer>(m, "Tokenizer", "Text to tokens and back, from a Hugging Face tokenizer.json.")
      .def_static("from_file", &Tokenizer::from_file, "path"_a, unlocked, "Read a tokenizer.json.")
      .def_static(
          "from_text", [](const std::string& json) { return Tokenizer::from_text(json); }, "json"_a, unlocked,
          "Read the text of a tokenizer.json.")
      .def_static(
          "compile",
          [](const std::string& json) {
            std::string tables;
            {
              const nb::gil_scoped_release free;
              tables = Tokenizer::compile(json);
            }
            return nb::bytes(tables.data(), tables.size());
          },
          "json"_a, "The tables of a tokenizer.json, which from_compiled reads in milliseconds: what a bundle carries.")
      .def_static(
          "from_compiled", [](const nb::bytes& tables) { return Tokenizer::from_compiled({tables.c_str(), tables.size()}); },
          "tables"_a, "Read what compile() gave.")
      .def("encode", &encode, "text"_a, "pair"_a = nb::none(), "add_special_tokens"_a = true,
           "The tokens of a text, or of a pair. Bytes are read as UTF-8 with errors=\"replace\".")
      .def("encode_batch", &encode_batch, "texts"_a, "add_special_tokens"_a = true, "The tokens of each text.")
      .def("decode", &Tokenizer::decode, "ids"_a, "skip_special_tokens"_a = true, unlocked, "The text of tokens.")
      .def("stream", &Tokenizer::stream, "skip_special_tokens"_a = true, "Text from tokens that come one by one.")
      .def(
          "token_to_id", [](const Tokenizer& t, const std::string& token) { return t.token_to_id(token); }, "token"_a)
      .def("id_to_token", &Tokenizer::id_to_token, "id"_a)
      .def_prop_ro("vocabulary_size", &Tokenizer::vocabulary_size, "How many tokens there are, with added ones.")
      .def("no_truncation", [](Tokenizer& t) { t.truncation.reset(); })
      .def("no_padding", [](Tokenizer& t) { t.padding.reset(); })
      .def(
          "enable_truncation",
          [](Tokenizer& t, size_t max_length, size_t stride, const std::string& strategy, const std::string& direction) {
            t.truncation = truncation(max_length, strategy, direction, stride);
          },
          "max_length"_a, "stride"_a = 0, "strategy"_a = "longest_first", "direction"_a = "right",
          "What is cut off is in Encoding.overflowing: parts that have `stride` tokens in common with the one before.")
      .def(
          "enable_padding",
          [](Tokenizer& t, std::optional<size_t> length, const std::string& direction, size_t pad_to_multiple_of, TokenId pad_id,
             uint32_t pad_type_id, const std::string& pad_token) {
            t.padding = Padding{length, direction == "left", pad_to_multiple_of, pad_id, pad_type_id, pad_token};
          },
          "length"_a = nb::none(), "direction"_a = "right", "pad_to_multiple_of"_a = 0, "pad_id"_a = 0, "pad_type_id"_a = 0,
          "pad_token"_a = "[PAD]");
}

void bind_chat_template(nb::module_& m) {
  nb::class_<ChatTemplate>(m, "ChatTemplate", "A chat template; pycandle.ChatTemplate is what to use.")
      .def(nb::init<const std::string&>(), "source"_a)
      .def_static("from_config", &ChatTemplate::from_config, "path"_a, "name"_a = "default")
      .def(
          "render", [](const ChatTemplate& t, const std::string& variables) { return t.render(variables); }, "variables"_a,
          nb::call_guard<nb::gil_scoped_release>(), "`variables` is the text of a JSON object.");
}

}  // namespace

void bind_text(nb::module_& m) {
  bind_encoding(m);
  bind_tokenizer(m);
  bind_chat_template(m);
}

}  // namespace pycandle
