#include "generation.h"

#include <nanobind/stl/map.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include "arrays.h"
#include "generate/language_model.h"
#include "generate/sequences.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace pycandle {
namespace {

void bind_options(nb::module_& m) {
  nb::class_<GenerationOptions>(m, "GenerationOptions",
                                "How text is generated: include/pycandle/generation.h says what each means.")
      .def(nb::init<>())
      .def_rw("max_tokens", &GenerationOptions::max_tokens)
      .def_rw("stop", &GenerationOptions::stop)
      .def_rw("stop_tokens", &GenerationOptions::stop_tokens)
      .def_rw("ignore_end", &GenerationOptions::ignore_end)
      .def_rw("samples", &GenerationOptions::samples)
      .def_rw("beams", &GenerationOptions::beams)
      .def_rw("length_penalty", &GenerationOptions::length_penalty)
      .def_rw("log_probabilities", &GenerationOptions::log_probabilities)
      .def_rw("alternatives", &GenerationOptions::alternatives)
      .def_rw("json_schema", &GenerationOptions::json_schema)
      .def_rw("use_cache", &GenerationOptions::use_cache)
      .def_rw("cache_capacity", &GenerationOptions::cache_capacity)
      .def_rw("batch", &GenerationOptions::batch)
      .def_rw("keep_prefix", &GenerationOptions::keep_prefix)
      .def_rw("prompt_lookup", &GenerationOptions::prompt_lookup)
      .def_rw("draft_tokens", &GenerationOptions::draft_tokens)
      .def_prop_rw(
          "draft", [](const GenerationOptions& o) { return o.draft ? std::optional(*o.draft) : std::nullopt; },
          [](GenerationOptions& o, const LanguageModel& draft) { o.draft = std::make_shared<const LanguageModel>(draft); })
      .def(
          "set_inputs", [](GenerationOptions& o, const nb::dict& inputs) { o.inputs = to_tensors(inputs); }, "inputs"_a)
      .def_rw("choice", &GenerationOptions::choice);
  nb::class_<Choice>(m, "Choice", "How the next token is chosen.")
      .def(nb::init<>())
      .def_rw("logit_bias", &Choice::logit_bias)
      .def_rw("repetition_penalty", &Choice::repetition_penalty)
      .def_rw("frequency_penalty", &Choice::frequency_penalty)
      .def_rw("presence_penalty", &Choice::presence_penalty)
      .def_rw("sample", &Choice::sample)
      .def_rw("temperature", &Choice::temperature)
      .def_rw("top_k", &Choice::top_k)
      .def_rw("top_p", &Choice::top_p)
      .def_rw("min_p", &Choice::min_p)
      .def_rw("seed", &Choice::seed);
}

void bind_results(nb::module_& m) {
  nb::class_<GeneratedToken>(m, "GeneratedToken", "A token, with what the model thought of it.")
      .def_ro("id", &GeneratedToken::id)
      .def_ro("log_probability", &GeneratedToken::log_probability)
      .def_ro("alternatives", &GeneratedToken::alternatives);
  nb::class_<Generated>(m, "Generated", "One text, and how it came to be.")
      .def_ro("prompt", &Generated::prompt)
      .def_ro("sample", &Generated::sample)
      .def_ro("text", &Generated::text)
      .def_ro("tokens", &Generated::tokens)
      .def_ro("score", &Generated::score)
      .def_prop_ro("finish", [](const Generated& g) { return to_string(g.finish); });
  nb::class_<GenerationCounts>(m, "GenerationCounts", "What a generation took.")
      .def_ro("prompt_seconds", &GenerationCounts::prompt_seconds)
      .def_ro("seconds", &GenerationCounts::seconds)
      .def_ro("prompt_tokens", &GenerationCounts::prompt_tokens)
      .def_ro("tokens", &GenerationCounts::tokens)
      .def_ro("steps", &GenerationCounts::steps)
      .def_ro("drafted", &GenerationCounts::drafted)
      .def_ro("accepted", &GenerationCounts::accepted);
}

// (sequence, text) for each text that grew; none at the end.
std::optional<std::vector<std::pair<size_t, std::string>>> next(Generation& generation) {
  const nb::gil_scoped_release unlocked;
  auto parts = generation.next();
  if (!parts) return std::nullopt;
  std::vector<std::pair<size_t, std::string>> grown;
  for (GeneratedPart& part : *parts) grown.emplace_back(part.sequence, std::move(part.text));
  return grown;
}

nb::object logits(const LanguageModel& model, const std::vector<TokenId>& tokens, bool whole) {
  Array found;
  {
    const nb::gil_scoped_release unlocked;
    found = model.logits(tokens, whole);
  }
  return to_python(found);
}

nb::dict forward_tokens(const Model& model, const InArray& tokens) {
  const Array given = to_array("tokens", tokens);
  Model::Tensors outputs;
  {
    const nb::gil_scoped_release unlocked;
    outputs = model.forward(token_inputs(model.program(), given));
  }
  nb::dict out;
  for (const Output& output : model.program().outputs) out[output.name.c_str()] = to_python(outputs.at(output.name));
  return out;
}

LanguageModel make(const Model& model, const std::optional<Tokenizer>& tokenizer, const std::string& generation_config,
                   const std::string& cache) {
  const nb::gil_scoped_release unlocked;
  return language_model(model, {tokenizer, generation_config, cache});
}

}  // namespace

void bind_generation(nb::module_& m) {
  const auto unlocked = nb::call_guard<nb::gil_scoped_release>();
  nb::class_<LanguageModel> model(m, "LanguageModel", "A model with its decode step and tokenizer.");
  bind_options(m);
  bind_results(m);
  nb::class_<Generation>(m, "Generation", "A generation that goes on when asked.")
      .def("next", &next, "What the next run of the model adds, as (sequence, text); None when all is done.")
      .def("cancel", &Generation::cancel)
      .def(
          "result", [](const Generation& g, size_t sequence) { return g.results().at(sequence); }, "sequence"_a)
      .def(
          "finish", [](const Generation& g, size_t sequence) { return to_string(g.results().at(sequence).finish); }, "sequence"_a)
      .def("__len__", [](const Generation& g) { return g.results().size(); })
      .def_prop_ro("counts", &Generation::counts);
  model.def("start", &LanguageModel::start, "prompts"_a, "options"_a, unlocked)
      .def("start_tokens", &LanguageModel::start_tokens, "prompts"_a, "options"_a, unlocked)
      .def("logits", &logits, "tokens"_a, "whole"_a)
      .def_prop_ro("vocabulary", &LanguageModel::vocabulary)
      .def_prop_ro("end_tokens", &LanguageModel::end_tokens)
      .def_prop_ro("longest", &LanguageModel::longest);
  m.def("language_model", &make, "model"_a, "tokenizer"_a.none(), "generation_config"_a, "cache"_a,
        "The decode step of a model, with its tokenizer.");
  m.def("forward_tokens", &forward_tokens, "model"_a, "tokens"_a, "The outputs of whole sequences of tokens [batch, tokens].");
}

}  // namespace pycandle
