// Where an executable keeps its activations, for profiles: a backend with a plan of its memory says it.
#pragma once

#include <cstddef>
#include <vector>

namespace pycandle {

// A piece of that memory, and the steps between which it is in use, both included.
struct PlacedBuffer {
  size_t offset = 0, bytes = 0;
  size_t first = 0, last = 0;
};

class SaysPlaces {
 public:
  virtual ~SaysPlaces() = default;
  virtual std::vector<PlacedBuffer> places() const = 0;  // of the plan that ran last
};

}  // namespace pycandle
