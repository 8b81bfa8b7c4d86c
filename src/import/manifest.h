// A manifest as read and validated, before any op is looked at. Values are still the manifest's ids.
#pragma once

#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "import/field.h"
#include "import/importer.h"
#include "ops/core/aten_call.h"

namespace pycandle {

struct RecordedValue {
  ValueId id = kNoValue;  // in the manifest
  Type type;
};

struct RecordedNode {
  std::string op;
  std::vector<std::pair<std::string, Argument>> args;  // Argument::Tensor holds a manifest id
  std::vector<std::optional<RecordedValue>> results;
  Origin origin;
};

struct RecordedGraph {
  std::vector<RecordedValue> inputs;
  std::vector<RecordedNode> nodes;
  std::vector<ValueId> outputs;
};

struct Manifest {
  // The program's tables are complete but for its graph; the values in them are the manifest's ids.
  Recording recording;
  RecordedGraph graph;
  std::vector<std::pair<ValueId, Type>> outputs;   // with the types that the manifest states
  std::vector<RecordedGraph> subgraphs;
};

// bad_input, with the place in the manifest, for anything that docs/manifest.md does not allow.
Manifest read_manifest(std::string_view text, std::string_view document);

// Types and arguments; dims are parsed once each.
class ValueReader {
 public:
  explicit ValueReader(const std::vector<Symbol>& symbols);
  Dim dim(const Field&) const;                                // an integer or a dim text
  Dim dim_text(const Field&) const;
  Type type(const Field& object) const;                       // its "dtype" and "shape"
  DType dtype(const Field&) const;
  // defined[id]: may this value be used here?
  Argument argument(const Field&, const PerValue<bool>& defined) const;
  Tree tree(const Field&, const PerValue<bool>& defined) const;
  ValueId used(const Field&, const PerValue<bool>& defined) const;  // an id that is defined

 private:
  std::vector<std::string> symbols_;
  mutable std::unordered_map<std::string, Dim> dims_;
};

}  // namespace pycandle
