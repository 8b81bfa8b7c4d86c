// Pickles, read as data: numbers, texts, lists, tuples, dicts and the names of classes. Nothing is imported or called; what
// a pickle asks to be called comes out as a value of kind `call`, for the caller to understand or to refuse.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "params/checkpoints/byte_reader.h"

namespace pycandle {

using PickleRef = uint32_t;  // a value, by its number: cycles and sharing cost nothing

struct PickleValue {
  enum class Kind : uint8_t { none, boolean, integer, real, text, bytes, list, tuple, dict, set, global, persistent, call };
  Kind kind = Kind::none;
  int64_t integer = 0;            // boolean, integer; too_long: see text
  double real = 0;
  std::string_view text;          // text and bytes; the raw bytes of an integer that does not fit
  std::string_view module;        // global: module and text (the class)
  std::vector<PickleRef> items;   // list, tuple, set; dict: key, value, …; call: what is called, arguments; persistent: the id

  bool is(Kind k) const { return kind == k; }
};

class Pickle {
 public:
  // May this class be named at all? Otherwise it is refused where it stands.
  using Allowed = std::function<bool(std::string_view module, std::string_view name)>;
  // Reads one pickle from the reader's place on; the texts are views of its bytes.
  Pickle(ByteReader&, const Allowed&);

  PickleRef root() const { return root_; }
  PickleRef count() const { return static_cast<PickleRef>(values_.size()); }
  const PickleValue& operator[](PickleRef ref) const { return values_[ref]; }

 private:
  struct Machine;
  std::vector<PickleValue> values_;
  PickleRef root_ = 0;
};

}  // namespace pycandle
