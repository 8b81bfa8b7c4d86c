#include "import/importer.h"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>

#include "base/file.h"
#include "import/bundle.h"
#include "import/control_flow.h"
#include "import/gaps.h"
#include "import/manifest.h"
#include "import/onnx/onnx_importer.h"
#include "ir/verifier.h"
#include "ops/core/dims_at_samples.h"
#include "ops/core/onnx_mapping.h"

namespace pycandle {
namespace {

// Where a recorded value is in the program: unknown until defined, absent when the op's mapping does not make it.
constexpr ValueId kUndefined = -2;

struct Absent {
  std::string op;
  size_t result = 0;
};

class GraphImporter;

class Importer {
 public:
  Importer(Manifest manifest, const OpTable& table) : manifest_(std::move(manifest)), table_(&table), gaps_(table) {}

  Program& program() { return manifest_.recording.program; }
  Recording finish();
  Recording finish_with_gaps();
  Analysis analyse();

 private:
  friend class GraphImporter;
  void build();
  void rename_values(const PerValue<ValueId>& values, const std::vector<Absent>& absent);
  ValueId renamed(ValueId recorded, const PerValue<ValueId>& values, const std::vector<Absent>& absent, const std::string& what);
  void rename(Tree&, const PerValue<ValueId>& values);

  // Of torch's overloads, and of the operators of ONNX in what was converted from it.
  std::optional<OpTable::AtenEntry> mapping_of(const std::string& overload) {
    if (const OpTable::AtenEntry* entry = table_->find_aten(overload)) return *entry;
    if (!is_onnx_overload(overload)) return std::nullopt;
    if (!onnx_) onnx_.emplace(*table_);
    const OnnxEntry* entry = onnx_->find(overload);
    return entry ? std::optional(OpTable::AtenEntry{entry->op, entry->mapping}) : std::nullopt;
  }

  Manifest manifest_;
  const OpTable* table_;
  std::optional<OnnxTable> onnx_;
  SymbolRanges ranges_;
  Gaps gaps_;
  int nodes_ = 0;
  std::vector<int> nodes_of_call_, gaps_of_call_;
  std::vector<std::pair<ValueId, std::string>> open_;  // results of gaps, and what is missing
  bool leaves_open_ = false;
  bool tolerant_ = false;  // analysis: a node that cannot be imported is counted, not thrown
};

// One graph: the program's own, or the body of a control-flow op.
class GraphImporter : public SubgraphImporter {
 public:
  GraphImporter(Importer& owner, const RecordedGraph& recorded, Graph& graph, int depth)
      : owner_(owner),
        recorded_(recorded),
        builder_(graph, *owner.table_, &owner.program().checks, &owner.ranges_),
        depth_(depth) {
    size_t count = recorded.inputs.size();
    for (const RecordedNode& node : recorded.nodes) count += node.results.size();
    values_.assign(count, kUndefined);
  }

  void run() {
    for (const RecordedValue& input : recorded_.inputs) values_[input.id] = builder_.graph().add_input(input.type);
    for (const RecordedNode& node : recorded_.nodes) {
      count(node);
      builder_.origin = node.origin;
      try {
        import(node);
      } catch (Error& error) {
        fail(node, error);
      } catch (const std::logic_error& broken) {  // a list that is shorter than its mapping expects, and the like
        Error error(ErrorCode::bad_input, fmt::format("{} cannot be imported from these arguments", node.op));
        error.found(broken.what());
        fail(node, error);
      }
    }
  }

  Values outputs() {
    Values values;
    for (ValueId id : recorded_.outputs) values.push_back(value(id));
    return values;
  }

  const PerValue<ValueId>& values() const { return values_; }
  const std::vector<Absent>& absent() const { return absent_; }

  Graph import_subgraph(int32_t subgraph) override {
    if (subgraph < 0 || static_cast<size_t>(subgraph) >= owner_.manifest_.subgraphs.size())
      throw Error(ErrorCode::bad_input, fmt::format("subgraph {} is not in the manifest", subgraph));
    if (depth_ >= 16) throw Error(ErrorCode::bad_input, "subgraphs are nested too deep").expected("at most 16 levels");
    Graph body;
    GraphImporter inner(owner_, owner_.manifest_.subgraphs[subgraph], body, depth_ + 1);
    inner.run();
    body.outputs = inner.outputs();
    return body;
  }

 private:
  ValueId value(ValueId recorded) {
    ValueId v = values_[recorded];
    if (v >= 0) return v;
    if (v == kUndefined) internal_error(fmt::format("recorded value {} was read before it was imported", recorded));
    const Absent& a = absent_.at(kUndefined - 1 - v);
    throw Error(ErrorCode::gap, fmt::format("result {} of {} is not supported", a.result, a.op));
  }

  void translate(Argument& argument) {
    if (auto* tensor = std::get_if<Argument::Tensor>(&argument.value)) {
      tensor->value = value(tensor->value);
    } else if (auto* list = std::get_if<Argument::List>(&argument.value)) {
      for (Argument& entry : *list) translate(entry);
    }
  }

  void import(const RecordedNode& node) {
    const std::optional<OpTable::AtenEntry> entry = owner_.mapping_of(node.op);
    bool control = is_control_flow(node.op);
    if (!entry && !control) return gap(node, fmt::format("{} is not supported", node.op), false);
    std::vector<std::pair<std::string, Argument>> args = node.args;
    for (auto& [name, argument] : args) translate(argument);
    std::vector<std::optional<Type>> types;
    for (auto& result : node.results) types.push_back(result ? std::optional<Type>(result->type) : std::nullopt);
    AtenCall call(builder_, node.op, std::move(args), std::move(types));
    Values made = control                 ? import_control_flow(call, *this)
                  : entry->mapping->build ? entry->mapping->build(call)
                                          : build_from_pattern(call, *entry->op, *entry->mapping);
    if (auto unread = call.unread(); !unread.empty())
      throw Error(ErrorCode::bad_input,
                  fmt::format("argument '{}' of {} is not consumed by its mapping", fmt::join(unread, "', '"), node.op))
          .op(node.op)
          .hint("the manifest was written for another version of the operator, or the catalogue ignores the argument: report it");
    accept(node, made);
  }

  // Results become what the mapping made; their types must be those that torch recorded.
  void accept(const RecordedNode& node, Values& made) {
    if (made.size() > node.results.size())
      throw Error(ErrorCode::bad_input, fmt::format("{} was recorded with {} results", node.op, node.results.size()))
          .expected(fmt::format("{}", made.size()));
    made.resize(node.results.size(), kNoValue);
    for (size_t i = 0; i < made.size(); ++i) {
      if (!node.results[i]) continue;
      const RecordedValue& recorded = *node.results[i];
      if (made[i] == kNoValue) {
        absent_.push_back({node.op, i});
        values_[recorded.id] = kUndefined - static_cast<ValueId>(absent_.size());
        continue;
      }
      check_type(node, i, builder_.type(made[i]), recorded.type);
      values_[recorded.id] = made[i];
    }
  }

  void check_type(const RecordedNode& node, size_t result, const Type& inferred, const Type& recorded) {
    bool same = inferred.dtype == recorded.dtype && inferred.shape.size() == recorded.shape.size();
    for (size_t i = 0; same && i < inferred.shape.size(); ++i) {
      if (inferred.shape[i] == recorded.shape[i]) continue;
      Agreement agreement = compare(inferred.shape[i], recorded.shape[i], owner_.ranges_);
      same = agreement != Agreement::refuted;
      if (agreement == Agreement::observed)
        builder_.check(inferred.shape[i], recorded.shape[i],
                       fmt::format("dim {} of the result of {} and what torch recorded", i, node.op));
    }
    if (same) return;
    throw Error(ErrorCode::bad_input, fmt::format("{} has another type than torch recorded{}", node.op,
                                                  node.results.size() > 1 ? fmt::format(" (result {})", result) : ""))
        .expected(recorded.text())
        .found(inferred.text())
        .op(node.op);
  }

  // What follows is imported too, so that one run shows every gap: the results become inputs that nobody will bind.
  void gap(const RecordedNode& node, const std::string& reason, bool known) {
    owner_.gaps_.add(node.op, reason, place_text(owner_.program(), node.origin), known);
    if (node.origin.call >= 0) ++owner_.gaps_of_call_[node.origin.call];
    for (auto& result : node.results)
      if (result && values_[result->id] < 0) {
        values_[result->id] = builder_.graph().add_input(result->type);
        if (depth_ == 0)
          owner_.open_.emplace_back(values_[result->id], fmt::format("{}, {}", reason, owner_.program().file_line(node.origin)));
      }
  }

  void fail(const RecordedNode& node, Error& error) {
    locate(error, node);
    if (error.code() != ErrorCode::gap && !owner_.tolerant_) throw error;
    gap(node, error.message(), true);
  }

  void count(const RecordedNode& node) {
    ++owner_.nodes_;
    if (node.origin.call >= 0) ++owner_.nodes_of_call_[node.origin.call];
  }

  void locate(Error& error, const RecordedNode& node) const {
    const Program& program = owner_.program();
    error.op(node.op)
        .module_path(program.module_path(node.origin))
        .python(program.file_line(node.origin), program.source_line(node.origin));
  }

  Importer& owner_;
  const RecordedGraph& recorded_;
  Builder builder_;
  PerValue<ValueId> values_;  // by recorded id
  std::vector<Absent> absent_;
  int depth_;
};

void Importer::build() {
  ranges_ = program().ranges();
  nodes_of_call_.assign(program().calls.size(), 0);
  gaps_of_call_.assign(program().calls.size(), 0);
  RecordedGraph recorded = std::move(manifest_.graph);
  GraphImporter importer(*this, recorded, program().graph, 0);
  importer.run();
  if (gaps_.empty() || leaves_open_) rename_values(importer.values(), importer.absent());
}

ValueId Importer::renamed(ValueId recorded, const PerValue<ValueId>& values, const std::vector<Absent>& absent,
                          const std::string& what) {
  ValueId v = values[recorded];
  if (v >= 0) return v;
  const Absent& missing = absent.at(kUndefined - 1 - v);
  throw Error(ErrorCode::gap, fmt::format("result {} of {} is {}, and is not supported", missing.result, missing.op, what))
      .op(missing.op);
}

void Importer::rename(Tree& tree, const PerValue<ValueId>& values) {
  if (tree.kind == Tree::Kind::value) tree.value = std::max(values[tree.value], kNoValue);
  for (auto& [name, item] : tree.items) rename(item, values);
}

// From the manifest's ids to the program's values.
void Importer::rename_values(const PerValue<ValueId>& values, const std::vector<Absent>& absent) {
  Program& p = program();
  for (Input& input : p.inputs) input.value = values[input.value];
  for (Parameter& parameter : p.parameters)
    if (parameter.value != kNoValue) parameter.value = values[parameter.value];
  for (size_t i = 0; i < p.outputs.size(); ++i) {
    Output& output = p.outputs[i];
    output.value = renamed(output.value, values, absent, "output " + output.name);
    const Type& found = p.graph.type(output.value);
    const Type& stated = manifest_.outputs[i].second;
    bool same = found.dtype == stated.dtype && found.shape.size() == stated.shape.size();
    for (size_t k = 0; same && k < found.shape.size(); ++k)
      same = compare(found.shape[k], stated.shape[k], ranges_) != Agreement::refuted;
    if (!same)
      throw Error(ErrorCode::bad_input, fmt::format("output {} has another type than the value that it names", output.name))
          .expected(stated.text())
          .found(found.text());
  }
  for (State& state : p.states) {
    state.value = values[state.value];
    if (state.updated == kNoValue) continue;
    state.updated = renamed(state.updated, values, absent, "the update of state " + state.name);
    if (p.graph.type(state.value) != p.graph.type(state.updated))
      throw Error(ErrorCode::bad_input, fmt::format("state {} changes its type", state.name))
          .expected(p.graph.type(state.value).text())
          .found(p.graph.type(state.updated).text());
  }
  std::vector<Tap> kept;
  for (Tap& tap : p.taps) {
    ValueId v = values[tap.value];
    if (v < 0) continue;  // a result that no mapping makes and nobody uses
    tap.value = v;
    kept.push_back(std::move(tap));
  }
  p.taps = std::move(kept);
  for (ModuleCall& call : p.calls) {
    for (auto& [name, tree] : call.args) rename(tree, values);
    rename(call.output, values);
  }
  p.bind_outputs();
}

Recording Importer::finish() {
  build();
  if (!gaps_.empty()) throw gaps_.error(program(), nodes_);
  verify(program(), "import");
  return std::move(manifest_.recording);
}

Recording Importer::finish_with_gaps() {
  leaves_open_ = true;
  build();
  Program& p = program();
  // Inputs stand before parameters and states.
  Values inputs;
  for (const Input& input : p.inputs) inputs.push_back(input.value);
  for (const auto& [value, what] : open_) {
    inputs.push_back(value);
    p.inputs.push_back({fmt::format("gap {}", p.inputs.size()), value, {}, true, what});
  }
  for (const Parameter& q : p.parameters) {
    if (q.value != kNoValue) inputs.push_back(q.value);
  }
  for (const State& state : p.states) inputs.push_back(state.value);
  for (size_t i = 0; i < inputs.size(); ++i) p.graph.values[inputs[i]].index = static_cast<int32_t>(i);
  p.graph.inputs = std::move(inputs);
  verify(p, "import");
  return std::move(manifest_.recording);
}

Analysis Importer::analyse() {
  tolerant_ = true;
  build();
  Analysis analysis;
  analysis.name = program().name;
  analysis.total = nodes_;
  analysis.supported = nodes_ - gaps_.count();
  analysis.gaps = gaps_.sorted();
  for (size_t i = 0; i < program().calls.size(); ++i) {
    const ModuleCall& call = program().calls[i];
    analysis.layers.push_back({call.path, call.class_name, nodes_of_call_[i], gaps_of_call_[i]});
  }
  return analysis;
}

std::string document_name(const std::filesystem::path& path) { return "manifest " + path.filename().string(); }

// For what needs the recorded graph: a bundle has the program alone.
std::filesystem::path recorded_manifest(const std::filesystem::path& path) {
  const std::filesystem::path file = find_manifest(path);
  if (!is_bundle(file)) return file;
  throw Error(ErrorCode::usage, "this needs the recording that the bundle was made from")
      .expected("a manifest")
      .found(path.string());
}

}  // namespace

Recording import_manifest_text(std::string_view json, const OpTable& table, std::string_view what) {
  return Importer(read_manifest(json, what), table).finish();
}

Recording import_manifest(const std::filesystem::path& path, const OpTable& table) {
  std::filesystem::path file = find_manifest(path);
  if (is_bundle(file)) {
    Recording recording = recording_of(read_bundle(Archive::open(file)), table);
    recording.folder = std::move(file);
    return recording;
  }
  if (onnx::is_onnx_file(file)) return onnx::import_file(file, table);
  Recording recording = import_manifest_text(read_text(file), table, document_name(file));
  recording.folder = file.parent_path();
  if (recording.folder.empty()) recording.folder = ".";
  return recording;
}

Recording import_with_gaps(const std::filesystem::path& path, const OpTable& table) {
  const std::filesystem::path file = recorded_manifest(path);
  if (onnx::is_onnx_file(file)) return onnx::import_file(file, table);
  Recording recording = Importer(read_manifest(read_text(file), document_name(file)), table).finish_with_gaps();
  recording.folder = file.parent_path();
  if (recording.folder.empty()) recording.folder = ".";
  return recording;
}

Analysis analyze_manifest(const std::filesystem::path& path, const OpTable& table) {
  const std::filesystem::path file = recorded_manifest(path);
  if (onnx::is_onnx_file(file)) return onnx::analyse(file, table);
  return Importer(read_manifest(read_text(file), document_name(file)), table).analyse();
}

std::vector<std::filesystem::path> Recording::traces() const {
  std::vector<std::filesystem::path> files;
  for (const std::string& file : {trace_file, second_trace_file}) {
    if (!file.empty()) files.push_back(folder / file);
  }
  return files;
}

std::vector<std::filesystem::path> Recording::perturbed_traces() const {
  std::vector<std::filesystem::path> files;
  for (const std::string& file : perturbed_trace_files) files.push_back(folder / file);
  return files;
}

namespace {

// The names of the manifests in a folder.
std::vector<std::string> manifests_in(const std::filesystem::path& folder) {
  constexpr std::string_view kEnding = "_manifest.json";
  std::vector<std::string> found;
  std::error_code failed;
  for (const std::filesystem::directory_entry& entry : std::filesystem::directory_iterator(folder, failed)) {
    std::string name = entry.path().filename().string();
    if (name.size() > kEnding.size() && name.ends_with(kEnding)) found.push_back(name);
  }
  std::sort(found.begin(), found.end());
  return found;
}

}  // namespace

bool is_recording(const std::filesystem::path& path) {
  std::error_code failed;
  if (is_bundle(path)) return true;
  if (std::filesystem::is_directory(path, failed)) return !manifests_in(path).empty();
  if (onnx::is_onnx_file(path)) return true;
  return path.extension() == ".json" && !path.string().ends_with(".index.json");
}

std::filesystem::path find_manifest(const std::filesystem::path& path) {
  namespace fs = std::filesystem;
  std::error_code failed;
  fs::file_status status = fs::status(path, failed);
  if (!fs::exists(status))
    throw Error(ErrorCode::bad_input, fmt::format("there is no file or folder {}", path.string()))
        .expected("a manifest, the folder of one, or a bundle")
        .hint("pycandle record writes one");
  if (!fs::is_directory(status) || is_bundle(path)) return path;
  const std::vector<std::string> found = manifests_in(path);
  if (found.size() == 1) return path / found[0];
  if (found.empty())
    throw Error(ErrorCode::bad_input, fmt::format("there is no manifest in {}", path.string()))
        .expected("a file named <name>_manifest.json")
        .hint("record a model into it: pycandle record");
  throw Error(ErrorCode::bad_input, fmt::format("there are {} manifests in {}", found.size(), path.string()))
      .expected("one")
      .found(fmt::format("{}", fmt::join(found, ", ")))
      .hint("name the file");
}

}  // namespace pycandle
