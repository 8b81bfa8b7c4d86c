// How the nodes of ONNX files become calls: an operator's inputs and attributes by name, as a mapping reads them.
//
//   onnx.Gelu.20(x; approximate="none")       the operator, the first opset with this form, inputs; attributes with defaults
//   onnx.Slice.13(data, starts#, ends#, axes#?, steps#?)
//
// x?    an input that may be absent        x#   numbers, which must be known when the file is read (a shape, axes)
// xs*   all inputs that follow, a list     a!   an attribute without a default
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "ir/op_def.h"
#include "ops/core/aten_call.h"

namespace pycandle {

struct OnnxArgument {
  std::string name;
  bool is_input = true, is_optional = false, is_known = false, is_list = false;
  Argument default_value;            // of an attribute
  bool is_required = false;
};

struct OnnxEntry {
  const OpDef* op = nullptr;
  const AtenMapping* mapping = nullptr;
  std::string overload;              // onnx.Gelu.20
  int64_t since = 1;
  std::vector<OnnxArgument> arguments;  // inputs, then attributes
};

// The mappings of a catalogue.
class OnnxTable {
 public:
  explicit OnnxTable(const OpTable&);
  // The form that the operator has in this opset; null when it is not supported. domain: "" is ONNX's own.
  const OnnxEntry* find(std::string_view domain, std::string_view op, int64_t opset) const;
  const OnnxEntry* find(std::string_view overload) const;  // "onnx.Gelu.20"
  bool knows(std::string_view domain, std::string_view op) const;  // in any opset
  const std::map<std::string, OnnxEntry, std::less<>>& entries() const { return entries_; }

 private:
  std::map<std::string, OnnxEntry, std::less<>> entries_;                                // by overload
  std::map<std::string, std::map<int64_t, const OnnxEntry*>, std::less<>> by_operator_;  // "Gelu", "com.microsoft.Gelu"
};

// Is it the spelling of such a mapping?
inline bool is_onnx_overload(std::string_view overload) { return overload.starts_with("onnx."); }

}  // namespace pycandle
