// Bundles are written here, and what they hold beside the program is read.   docs/bundles.md
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "import/bundle.h"
#include "passes/decode_step.h"
#include "pycandle/tokenizer.h"
#include "runtime/decoder.h"
#include "runtime/model.h"

namespace pycandle {

struct BundleParts {
  const Recording& recording;                      // in program form
  std::shared_ptr<const ParameterSource> parameters;
  const DecodeStep* step = nullptr;                // null: it has none
  WeightFormat weights = WeightFormat::f32;        // that linear layers and embeddings are kept in
  std::vector<std::string> capabilities = {};
  std::string tokenizer = {}, chat = {},
              generation = {};  // texts of tokenizer.json, tokenizer_config.json, generation_config.json
  std::string provenance = "{}", verification = "{}";  // JSON texts
};
void write_bundle(const std::filesystem::path&, ArchiveWriter::Form, const BundleParts&, const OpTable&);

// The parameters that are read as matrices of linear layers and embeddings alone, with the axis of their inputs: what a bundle
// can keep in fewer bytes.
std::map<std::string, int64_t> narrow_parameters(const Program&, const OpTable&, WeightFormat);

// The step that a bundle has; gap when it has none.
DecodeStep bundled_step(const Bundle&, const OpTable&);

// A model's decode step, ready to run with the weights that the model has opened: the one of its bundle, or one that is derived
// here. cache: what rows of an f32 model are kept in, "f32", "bf16" or "f16".
Decoder open_decoder(const Model&, const std::string& cache = "f32");

bool has_tokenizer(const Model&);
// What a bundle has for text. A usage error that says so when there is none.
Tokenizer bundled_tokenizer(const Model&);
ChatTemplate bundled_chat_template(const Model&);
std::optional<std::string> bundled_generation_config(const Model&);  // the text of generation_config.json

// What the model can be asked for: of a bundle as it was proven; otherwise `forward` and `trace`, which need no proof.
std::vector<std::string> capabilities_of(const Model&);

}  // namespace pycandle
