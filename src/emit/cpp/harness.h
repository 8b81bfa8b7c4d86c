// Programs around an emitted model: one that runs it, the tests that hold it against PyTorch's values, its benchmarks.
#pragma once

#include <string>

namespace pycandle::emit::cpp {

struct Harness {
  std::string model, name_space;    // the emitted class
  std::string header = "model.hpp";
  std::string recording;            // its name, as in {name}_manifest.json
  std::string folder;               // of the recording, from where the program is run
  bool is_random = false;           // its values are other ones in each run
  bool has_states = false;          // a call changes what the next one gives
  bool has_cache = false;           // a decode step
};

std::string print_program(const Harness&);
std::string print_test(const Harness&);        // GoogleTest
std::string print_benchmark(const Harness&);   // Google Benchmark

}  // namespace pycandle::emit::cpp
