// A program as a C library that people ship: NAME.c, NAME.h, its weights, and a test of every layer.
#pragma once

#include <string>
#include <vector>

#include "backends/c/generator.h"

namespace pycandle::c {

struct LibraryOptions {
  std::string name;            // of the functions: NAME_init, NAME_run
  std::string about;           // "class `Net`, torch 2.11.0"
  bool embeds_weights = false;
  std::string batch;           // NAME_run is told this size, and runs one sample after another; empty: there is none
};

inline constexpr size_t kMostEmbedded = size_t{16} << 20;

std::string library_source(const Generator&, const LibraryOptions&);
std::string library_header(const Generator&, const LibraryOptions&);
// The weights as NAME_init takes them: 64 bytes that name the program, then what it reads.
std::string library_weights(const Generator&, const LibraryOptions&);

// What the test compares: the recorded values of a tap or an output.
struct Golden {
  std::string label;           // "encoder.layer.0 (linear)"
  size_t tap = 0;
  bool is_output = false;      // then `tap` is its index
  Array value;
};
std::string library_test(const Generator&, const LibraryOptions&, const std::vector<Golden>&);
// What the test reads: the inputs and states as they lie in memory, then the golden values as double.
std::string library_goldens(const std::vector<Array>& inputs, const std::vector<Array>& states, const std::vector<Golden>&);
// The taps that have a place in memory.
std::vector<size_t> kept_taps(const Generator&);

struct LayerCost {
  std::string layer;
  size_t weight_bytes = 0, live_bytes = 0;   // live: of the arena, at most, while it runs
  double multiply_adds = 0;
};
std::vector<LayerCost> layer_costs(const Generator&);

}  // namespace pycandle::c
