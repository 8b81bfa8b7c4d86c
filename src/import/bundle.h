// Bundles: a model with everything that running it needs, checked when it was made.   docs/bundles.md
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/archive.h"
#include "base/dtype.h"
#include "base/weight_format.h"
#include "import/importer.h"

namespace pycandle {

// The sections of a bundle; in a folder, its files.
inline constexpr const char *kBundleHead = "bundle.json", *kBundleProgram = "program.ptir", *kBundleSetup = "setup.ptir",
                            *kBundleStep = "step.ptir", *kBundleTable = "weights.json", *kBundleWeights = "weights.bin",
                            *kBundleTokenizer = "tokenizer.json", *kBundleCompiledTokenizer = "tokenizer.bin",
                            *kBundleChat = "tokenizer_config.json", *kBundleGeneration = "generation_config.json";
inline constexpr const char *kBundleFormat = "pycandle.bundle", *kBundleVersion = "1.0.0";

// What a model can be asked for.
inline constexpr const char *kForward = "forward", *kTrace = "trace", *kCausalLm = "causal_lm", *kEmbedding = "embedding";

// A tensor as the bundle keeps it: as it is, or a matrix in fewer bytes, with a scale for each output (or group) along `axis`.
struct StoredWeight {
  DType dtype = DType::f32;   // of the program
  Sizes shape;
  WeightFormat format = WeightFormat::f32;  // f32: the bytes of the dtype as they are
  int64_t axis = 1;
  uint64_t offset = 0, bytes = 0;           // in weights.bin
  std::string hash;                         // of these bytes
};

struct Bundle {
  Archive archive;
  WeightFormat weights = WeightFormat::f32;
  std::vector<std::string> capabilities;        // proven when the bundle was made
  std::map<std::string, StoredWeight> table;    // by the name of the parameter or state
  std::string decode, provenance, verification;  // JSON texts; decode is empty when there is no step
  std::string head;                             // hash of what all of this says

  bool has(const std::string& capability) const;
};

bool is_bundle(const std::filesystem::path&);
// The text of bundle.json; contents: JSON.
std::string sealed_head(const std::string& contents);
// Checks every hash but those of the weights' own bytes, which nobody has read yet. bad_input for anything that is not right.
std::shared_ptr<const Bundle> read_bundle(Archive);
// Its program, in program form, and what its recording said.
Recording recording_of(std::shared_ptr<const Bundle>, const OpTable&);

}  // namespace pycandle
