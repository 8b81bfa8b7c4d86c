// A checkpoint, whatever its files are: named tensors whose bytes stay in mapped files until they are read. Nothing in a
// file is ever executed.
//
//   Checkpoint c = Checkpoint::open("model.bin");      // a file, an index.json, or a folder
//   for (const StoredTensor& t : c.tensors()) use(read(t));
#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "params/checkpoints/stored_tensor.h"

namespace pycandle {

// Tensors beside the weights: "optimizer", 312 of them.
struct LeftOut {
  std::string section;
  size_t count = 0;
};

struct CheckpointOptions {
  // Which part of a training checkpoint holds the weights ("model", "ema.module"); "" reads all. Unset: the one that says so.
  std::optional<std::string> section;
};

class Checkpoint {
 public:
  // By what the file holds, not by its name. bad_input with the file and the place in it for anything that is not right.
  static Checkpoint open(const std::filesystem::path&, const CheckpointOptions& = {});
  // For tests and fuzzing: the bytes of one file.
  static Checkpoint parse(Bytes, std::shared_ptr<const void> owner, const std::string& name, const CheckpointOptions& = {});

  void add(const Checkpoint&);  // its tensors too: an adapter beside its base. bad_input for a name that both have

  const std::vector<StoredTensor>& tensors() const { return tensors_; }   // in the order of the files
  const StoredTensor* find(const std::string& name) const;
  const std::string& format() const { return format_; }                  // "safetensors", "torch", "gguf", …
  const std::string& section() const { return section_; }                // of a training checkpoint: what was read
  const std::vector<LeftOut>& left_out() const { return left_out_; }
  const std::vector<std::string>& sections() const { return sections_; }  // that may all be the weights: nobody chose one
  // What the file says beside its tensors, as text: GGUF's fields, safetensors' metadata.
  const std::map<std::string, std::string>& metadata() const { return metadata_; }
  const std::vector<std::filesystem::path>& files() const { return files_; }

 private:
  friend class CheckpointBuilder;
  std::vector<StoredTensor> tensors_;
  std::map<std::string, size_t> places_;
  std::string format_, section_;
  std::vector<LeftOut> left_out_;
  std::vector<std::string> sections_;
  std::map<std::string, std::string> metadata_;
  std::vector<std::filesystem::path> files_;
};

// "the weights are in params or in params_ema: choose with --section params"
std::string sections_text(const Checkpoint&);

}  // namespace pycandle
