// The golden values of one call of a recording, by the value of the program that they belong to.
#pragma once

#include <map>
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
  TapId tap;
  std::string key, expected, found;  // key: in the trace file; expected: the golden's type
};

// Views of the mapped trace file, checked against the program's types.
class Goldens {
 public:
  // Throws bad_input when an input is missing, or a tensor has another type than the program says: then the files do not
  // belong together. A program that people wrote may give other types; `mistyped` lists them.
  enum class Types { of_recording, may_differ };
  Goldens(const Program&, const std::filesystem::path& trace, Types = Types::of_recording);
  const std::vector<Mistyped>& mistyped() const { return mistyped_; }  // in the order of taps, outputs, states

  const Bindings& sizes() const { return sizes_; }                      // of the golden inputs, and of data
  const std::vector<Array>& inputs() const { return inputs_; }          // in the order of Program::inputs
  bool has(ValueId v) const { return !key_of_[v].empty(); }
  const std::string& key(ValueId v) const { return key_of_[v]; }  // in the trace file
  Array get(ValueId v) const { return read(key_of_[v]); }
  ValueId value_of(const std::string& key) const;  // kNoValue: it belongs to none
  // Nothing when there is none, or when it has another type than the program.
  std::optional<Array> output(const std::string& name) const { return result("output:" + name); }
  std::optional<Array> updated(const State& state) const;
  const Safetensors& file() const { return file_; }
  // What was read of the file leaves the process's memory until it is read again: that does not grow with the goldens.
  void release() const;

 private:
  void add(const Program&, ValueId, const std::string& key, const TapId& tap, Types);
  std::optional<Array> result(const std::string& key) const;
  // The file's format has no c128: such a golden is pairs of f64, one axis more.
  bool is_pairs(const std::string& key, const Type&) const;
  Array read(const std::string& key) const;

  Safetensors file_;
  PerValue<std::string> key_of_;  // per value; empty: none
  std::map<std::string, ValueId> value_of_;
  std::set<std::string> pairs_;      // keys of c128 values
  std::vector<Array> inputs_;
  Bindings sizes_;
  std::vector<Mistyped> mistyped_;
};

// In the trace file: a state before the call, and what the call made of it.
std::string key_before(const State&);
std::string key_after(const State&);

// What slices begin with: goldens, and states as they were before the call. Per value of the program, and their arrays.
PerValue<bool> known_values(const Program&, const Goldens&);
std::vector<Array> known_arrays(const Program&, const Goldens&, const ParameterSource&, const Values&);
std::vector<Array> states_before(const Program&, const Goldens&, const ParameterSource&);  // in the order of Program::states

}  // namespace pycandle
