// The golden values of a recording, by the value of the program that they belong to.
#pragma once

#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/safetensors.h"
#include "import/importer.h"
#include "params/parameters.h"

namespace pycandle {

// A golden that has another type than the program gives there.
struct Mistyped {
  ValueId value = kNoValue;
  std::string tap, key, expected, found;  // key: in the trace file; expected: the golden's type
};

// Views of the mapped trace file, checked against the program's types.
class Goldens {
 public:
  // Throws bad_input when an input is missing, or a tensor has another type than the program says: then the files do not
  // belong together. A program that people wrote may give other types; `mistyped` lists them.
  enum class Types { of_recording, may_differ };
  Goldens(const Program&, const std::filesystem::path& trace, Types = Types::of_recording);
  const std::vector<Mistyped>& mistyped() const { return mistyped_; }  // in the order of taps, then outputs

  const Bindings& sizes() const { return sizes_; }                      // of the golden inputs, and of data
  const std::vector<Array>& inputs() const { return inputs_; }          // in the order of Program::inputs
  bool has(ValueId v) const { return !key_of_[static_cast<size_t>(v)].empty(); }
  const std::string& key(ValueId v) const { return key_of_[static_cast<size_t>(v)]; }  // in the trace file
  Array get(ValueId v) const { return read(key_of_[static_cast<size_t>(v)]); }
  std::optional<Array> output(const std::string& name) const;  // nothing when it has another type than the program
  const Safetensors& file() const { return file_; }
  // What was read of the file leaves the process's memory until it is read again: that does not grow with the goldens.
  void release() const;

 private:
  void add(const Program&, ValueId, const std::string& key, const std::string& tap, Types);
  // The file's format has no c128: such a golden is pairs of f64, one axis more.
  bool is_pairs(const std::string& key, const Type&) const;
  Array read(const std::string& key) const;

  Safetensors file_;
  std::vector<std::string> key_of_;  // per value; empty: none
  std::set<std::string> pairs_;      // keys of c128 values
  std::vector<Array> inputs_;
  Bindings sizes_;
  std::vector<Mistyped> mistyped_;
};

// What slices begin with: goldens, and states as they were recorded. Per value of the program, and their arrays.
std::vector<bool> known_values(const Program&, const Goldens&);
std::vector<Array> known_arrays(const Program&, const Goldens&, const ParameterSource&, const Values&);

}  // namespace pycandle
