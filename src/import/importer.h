// Manifest → PTIR. Every node's inferred dtype and shape must equal what torch recorded; an unknown overload or an
// argument that nothing consumed is an error with module path, Python line and suggestion.
#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "ir/op_def.h"

namespace pycandle {

struct Bundle;  // import/bundle.h

// What a recording says beside its graph.
struct Recording {
  Program program;
  std::filesystem::path folder;
  std::string trace_file;                       // empty when there is none, or no value in it
  std::string second_trace_file;                // of a second call in a row, when the model has states
  std::vector<std::string> perturbed_trace_files;  // of other inputs, for layers that prove nothing at the recorded ones
  std::string soundness;                        // "verified", "shapes-only"
  std::vector<std::string> notes;
  std::string version, torch_version, model_class;
  bool weights_by_reference = false;            // weights: "ref": parameter files may lie outside the folder
  std::map<std::string, std::string> checksums;  // of parameters and states by name: hash128 of the stored bytes
  std::string input_tree, output_tree;          // JSON texts, for the bindings
  std::shared_ptr<const Bundle> bundle;         // that it was read from; null: a manifest
  bool is_program_form = false;                 // the passes of the program pipeline have run

  std::vector<std::filesystem::path> traces() const;  // those that there are, in the order of the calls
  std::vector<std::filesystem::path> perturbed_traces() const;
};

// One overload (or one use of it) that the catalogue does not support.
struct Gap {
  std::string op, reason, suggestion;
  int count = 0;
  std::vector<std::string> places;              // "path@call, file:line: source"
};

struct Analysis {
  std::string name;
  int total = 0, supported = 0;
  std::vector<Gap> gaps;                        // by count, then name
  struct Layer {
    std::string path, class_name;
    int nodes = 0, unsupported = 0;
  };
  std::vector<Layer> layers;
};

// An attribute of a module call beside Python's own: what its caller assigned the result to ("x", "output, state").
inline constexpr const char* kAssignedTo = "assigned to";

// path: a manifest, the folder of one (exactly one *_manifest.json in it), or a bundle. Throws the first error found; gaps are
// reported all at once as ErrorCode::gap.
Recording import_manifest(const std::filesystem::path&, const OpTable&);
// The same with gaps left open: what an unsupported node would give is an input of the program with Input::gap. Such a
// program can be looked at and written as source code, not run.
Recording import_with_gaps(const std::filesystem::path&, const OpTable&);
// For tests and fuzzing.
Recording import_manifest_text(std::string_view json, const OpTable&, std::string_view what);
// Never throws for gaps: counts them.
Analysis analyze_manifest(const std::filesystem::path&, const OpTable&);
std::filesystem::path find_manifest(const std::filesystem::path&);  // of a bundle: its own path
// Is it such a path, and not a checkpoint?
bool is_recording(const std::filesystem::path&);

}  // namespace pycandle
