// The header of a safetensors file, checked: what Safetensors and the reader of checkpoints stand on.
#pragma once

#include <map>
#include <optional>
#include <string>

#include "base/array.h"

namespace pycandle {

struct SafetensorsHeader {
  struct Entry {
    std::string type;            // as the file spells it: "F32", "F8_E4M3"
    std::optional<DType> dtype;  // none: not one of ours
    Sizes shape;
    size_t begin, end;           // bytes from the start of the data
  };
  std::map<std::string, Entry> entries;
  std::map<std::string, std::string> metadata;
  size_t data = 0;               // where it begins in the file

  // Element types that are not ours are refused, unless they are among these: bytes of an element by name.
  using OtherTypes = std::map<std::string, size_t>;
  static SafetensorsHeader parse(const std::byte* file, size_t size, const std::string& name, const OtherTypes& = {});
};

}  // namespace pycandle
