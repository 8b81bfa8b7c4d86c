// hash128 of bytes that come in pieces.
#pragma once

#include <memory>

#include "base/hash.h"

namespace pycandle {

class Hasher128 {
 public:
  Hasher128();
  ~Hasher128();
  Hasher128(const Hasher128&) = delete;
  Hasher128& operator=(const Hasher128&) = delete;
  void add(const void* data, size_t bytes);
  Hash128 value() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace pycandle
