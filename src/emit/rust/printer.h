// A model as a Rust source file on candle-core, candle-nn and the crate `pycandle`.
#pragma once

#include <string>
#include <vector>

#include "emit/tree.h"

namespace pycandle::emit::rust {

struct PrintedModel {
  std::string name;                  // of the struct
  std::string text;                  // the whole file
  std::vector<std::string> notes;
  std::vector<std::string> inputs;   // that forward() takes, by their names in the recording
  std::vector<std::string> outputs;  // their names in the recording; of one: what forward() returns
  std::vector<std::string> fields;   // how each is said: "", ".0", ".logits"
  DType dtype = DType::f32;          // of the weights
  bool has_cache = false;            // it is a decode step: forward() takes new tokens and a Cache
  std::vector<int> input_axes, output_axes;  // then: where each has a place for a token; -1: nowhere
};

// What Candle and the crate lack is decomposed. What is still missing then is refused by name: an Error (gap) with the places.
// The program is in program form.
Program prepared(Program, const OpTable&);
ModelTree recovered(Program, const OpTable&);

// name: of the model's struct; Python's when empty.
PrintedModel print_module(const ModelTree&, const std::string& name = {});

}  // namespace pycandle::emit::rust
