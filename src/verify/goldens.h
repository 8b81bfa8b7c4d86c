// The golden values of a recording, by the value of the program that they belong to.
#pragma once

#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/safetensors.h"
#include "import/importer.h"

namespace pycandle {

// Views of the mapped trace file, checked against the program's types.
class Goldens {
 public:
  // Throws bad_input when an input is missing, or a tensor has another type than the program says.
  Goldens(const Program&, const std::filesystem::path& trace);

  const Bindings& sizes() const { return sizes_; }                      // of the golden inputs, and of data
  const std::vector<Array>& inputs() const { return inputs_; }          // in the order of Program::inputs
  bool has(ValueId v) const { return !key_of_[static_cast<size_t>(v)].empty(); }
  const std::string& key(ValueId v) const { return key_of_[static_cast<size_t>(v)]; }  // in the trace file
  Array get(ValueId v) const { return read(key_of_[static_cast<size_t>(v)]); }
  std::optional<Array> output(const std::string& name) const;

 private:
  void add(const Program&, ValueId, const std::string& key);
  // The file's format has no c128: such a golden is pairs of f64, one axis more.
  bool is_pairs(const std::string& key, const Type&) const;
  Array read(const std::string& key) const;

  Safetensors file_;
  std::vector<std::string> key_of_;  // per value; empty: none
  std::set<std::string> pairs_;      // keys of c128 values
  std::vector<Array> inputs_;
  Bindings sizes_;
};

}  // namespace pycandle
