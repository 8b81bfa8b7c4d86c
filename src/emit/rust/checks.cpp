#include "emit/rust/checks.h"

#include <fmt/format.h>

#include <algorithm>

#include "emit/names.h"
#include "emit/results.h"
#include "emit/rust/text.h"

namespace pycandle::emit::rust {
namespace {

constexpr size_t kMostOfArguments = 60;  // that rustfmt leaves on one line
constexpr size_t kMostParts = 6;         // of a tuple that py_check! takes

// The part that the recording lists first of what the module gave: the one that the module's name alone stands for.
std::string first_part(const ModelTree& tree, const ModuleClass& made) {
  const ModuleCall& call = tree.program->calls[made.call];
  for (const Tap& tap : tree.program->taps) {
    const bool is_its = tap.id.kind == TapId::Kind::module_output && tap.id.module == call.path && tap.id.call == call.call;
    if (is_its) return tap.id.part;
  }
  return made.output_names.empty() ? "" : made.output_names[0];
}

// "attn" → "attn/output.1", format!("h.{i}") → format!("h.{i}/output.1")
std::string with_part(std::string layer, const std::string& part) {
  const size_t quote = layer.find('"', layer.find('"') + 1);
  if (quote == std::string::npos) return fmt::format("format!(\"{{}}/output.{}\", {})", part, layer);
  return layer.insert(quote, "/output." + part);
}

std::string check(const std::string& layer, const std::string& value) {
  return fmt::format("py_check!(self.checker, {}, {});", layer, value);
}

bool is_inner(const std::string& part) { return part.starts_with("inner."); }

std::string pattern_of(const ResultType& type, const std::vector<std::string>& names) {
  if (names.size() == 1) return names[0];
  if (type.fields.empty()) return "(" + joined(names) + ")";
  std::vector<std::string> all;
  for (size_t i = 0; i < names.size(); ++i) {
    if (names[i] != "_") all.push_back(type.fields[i] == names[i] ? names[i] : type.fields[i] + ": " + names[i]);
  }
  if (all.size() < names.size()) all.emplace_back("..");
  return fmt::format("{} {{ {} }}", type.struct_name, joined(all));
}

}  // namespace

ResultType result_type(const ModelTree& tree, const ModuleClass& made) {
  ResultType result;
  if (returns_struct(made) && made.outputs.size() > 1) {
    result.text = result.struct_name = made.name + "Output";
    for (const std::string& field : result_fields(tree, made)) result.fields.push_back(rust_name(field));
  } else if (made.outputs.size() > 1) {
    result.text = "(" + joined(std::vector<std::string>(made.outputs.size(), "Tensor")) + ")";
  }
  return result;
}

CheckedCall checked_call(const ModelTree& tree, const Child& child, const std::string& layer, const std::string& call,
                         const std::vector<std::string>& names) {
  std::vector<std::string> parts(names.size());
  ResultType type;
  std::string first;
  if (child.use.module_class >= 0) {
    const ModuleClass& made = tree.classes[child.use.module_class];
    type = result_type(tree, made);
    parts = made.output_names;
    first = first_part(tree, made);
  }
  CheckedCall checked;
  checked.pattern = pattern_of(type, names);
  checked.text = call;
  bool is_plain = type.fields.empty() && names.size() <= kMostParts;  // the module's name stands for all of it
  for (size_t i = 0; i < parts.size(); ++i) {
    is_plain = is_plain && !is_inner(parts[i]) && (names.size() == 1 ? parts[i] == first : parts[i] == std::to_string(i));
  }
  if (is_plain && fmt::format("self.checker, {}, {}", layer, call).size() <= kMostOfArguments) {
    checked.text = fmt::format("py_check!(self.checker, {}, {})", layer, call);
    checked.is_within = true;
  } else if (is_plain && std::find(names.begin(), names.end(), "_") == names.end()) {
    checked.checks.push_back(check(layer, names.size() == 1 ? "&" + names[0] : "(&" + joined(names, ", &") + ")"));
  } else {
    for (size_t i = 0; i < parts.size(); ++i) {
      if (names[i] != "_" && !is_inner(parts[i])) checked.checks.push_back(check(with_part(layer, parts[i]), "&" + names[i]));
    }
  }
  return checked;
}

}  // namespace pycandle::emit::rust
