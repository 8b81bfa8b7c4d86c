// What the code compares with PyTorch's values: calls of modules, each part of a result under the name that the recording has.
#pragma once

#include <string>
#include <vector>

#include "emit/tree.h"

namespace pycandle::emit::rust {

// What forward() of a class gives.
struct ResultType {
  std::string text = "Tensor";
  std::string struct_name;           // of several that have names
  std::vector<std::string> fields;
};
ResultType result_type(const ModelTree&, const ModuleClass&);

struct CheckedCall {
  std::string pattern;               // what takes the result: "x", "(cos, sin)"
  std::string text;                  // the call, in py_check! where rustfmt leaves that on one line
  bool is_within = false;            // it is in py_check!
  std::vector<std::string> checks;   // else the statements behind it
};
// layer: the module as Rust text; names: of the variables, "_" for what is not used.
CheckedCall checked_call(const ModelTree&, const Child&, const std::string& layer, const std::string& call,
                         const std::vector<std::string>& names);

}  // namespace pycandle::emit::rust
