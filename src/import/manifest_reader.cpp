// Reads docs/manifest.md, every field of it, and trusts none.
#include <fmt/format.h>

#include <filesystem>
#include <set>

#include "base/dim_real.h"
#include "import/importer.h"
#include "import/manifest.h"

namespace pycandle {
namespace {

constexpr int kMajorVersion = 1;
constexpr size_t kLongestName = 4096;

using Literal = std::variant<std::monostate, bool, int64_t, double, std::string>;

void read_version(const Field& root, Recording& into) {
  Field format = root["format"];
  if (format.string() != "pycandle.manifest")
    format.fail("this is not a manifest of PyCandle", "pycandle.manifest", format.string());
  Field version = root["version"];
  into.version = version.string();
  int major = 0, minor = 0, patch = 0, length = 0;
  if (into.version.size() > 32 || std::sscanf(into.version.c_str(), "%d.%d.%d%n", &major, &minor, &patch, &length) != 3 ||
      length != static_cast<int>(into.version.size()) || major < 0)
    version.fail("this is not a version", "major.minor.patch", into.version);
  if (major > kMajorVersion)
    throw Error(ErrorCode::bad_input, "the manifest was written by a later PyCandle")
        .expected(fmt::format("version {}.x", kMajorVersion))
        .found(into.version)
        .hint("run it with that version of PyCandle or a later one: make wheel in its sources builds a wheel");
  if (major < kMajorVersion) version.fail("the manifest is too old", fmt::format("version {}.x", kMajorVersion), into.version);
}

std::string name_of_something(const Field& f) {
  std::string name = f.string();
  if (name.size() > kLongestName || name.find('\0') != std::string::npos)
    f.fail("this is not a name", "at most 4096 characters, none of them NUL");
  return name;
}

// A file beside the manifest: it may not leave the folder.
std::string file_name(const Field& f, bool anywhere = false) {
  if (f.is_null()) return {};
  std::string name = name_of_something(f);
  std::filesystem::path path(name);
  bool leaves = path.is_absolute() || std::any_of(path.begin(), path.end(), [](const auto& part) { return part == ".."; });
  if (name.empty() || (leaves && !anywhere)) f.fail("a file name leaves the manifest's folder", "a name inside the folder", name);
  return name;
}

// The names of one table: each stands there once.
class Names {
 public:
  std::string read(const Field& entry, std::string_view key = "name") {
    std::string name = name_of_something(entry[key]);
    add(entry, name);
    return name;
  }
  void add(const Field& entry, const std::string& name) {
    if (!seen_.insert(name).second) entry.fail(fmt::format("the name '{}' is there twice", name));
  }

 private:
  std::set<std::string> seen_;
};

bool is_symbol_name(const std::string& name) {
  bool good = !name.empty() && name.size() <= 64 && !std::isdigit(static_cast<unsigned char>(name[0]));
  for (char ch : name) good = good && (std::isalnum(static_cast<unsigned char>(ch)) || ch == '_');
  return good && !is_dim_function(name);
}

class ManifestReader {
 public:
  ManifestReader(const Field& root, Manifest& into) : root_(root), m_(into), p_(into.recording.program) {}

  void read() {
    read_version(root_, m_.recording);
    about();
    symbols();
    ValueReader values(p_.symbols);
    values_ = &values;
    count_values();
    inputs();
    parameters();
    states();
    files();
    calls();
    nodes(root_["nodes"], m_.graph, defined_);
    all_defined();
    outputs();
    finish_states();
    finish_calls();
    taps();
    subgraphs();
    bindings();
  }

 private:
  void about() {
    Recording& r = m_.recording;
    p_.name = name_of_something(root_["name"]);
    if (p_.name.find('/') != std::string::npos) root_["name"].fail("a model's name has no slash", {}, p_.name);
    if (const auto producer = root_.find("producer"); producer && producer->has("torch"))
      r.torch_version = (*producer)["torch"].string();
    if (const auto model = root_.find("model"); model && model->has("class")) r.model_class = (*model)["class"].string();
    if (root_.has("soundness")) r.soundness = root_["soundness"]["status"].string();
    if (!r.soundness.empty() && r.soundness != "verified" && r.soundness != "shapes-only")
      root_["soundness"]["status"].fail("there is no such status", "verified or shapes-only", r.soundness);
    if (const auto notes = root_.find("notes")) notes->each([&](const Field& note) { r.notes.push_back(note.string()); });
    if (const auto weights = root_.find("weights")) r.weights_by_reference = weights->string() == "ref";
    if (const auto files = root_.find("files")) {
      if (const auto trace = files->find("trace")) r.trace_file = file_name(*trace);
      if (r.soundness == "shapes-only") r.trace_file.clear();  // the file is there, and empty
      if (const auto second = files->find("second_trace")) {
        r.second_trace_file = file_name(*second);
        if (r.trace_file.empty()) second->fail("a second call was recorded without a first", "files.trace as well");
      }
      if (const auto perturbed = files->find("perturbed_traces")) {
        perturbed->each([&](const Field& trace) { r.perturbed_trace_files.push_back(file_name(trace)); });
        if (r.trace_file.empty()) perturbed->fail("perturbed inputs were recorded without inputs", "files.trace as well");
      }
      if (const auto weights = files->find("weights")) file_name(*weights, r.weights_by_reference);
    }
    if (const auto tree = root_.find("input_tree")) r.input_tree = tree->json().dump();
    if (const auto tree = root_.find("output_tree")) r.output_tree = tree->json().dump();
  }

  // Every entry of a table that may be missing.
  template <class F> void each(std::string_view table, const F& read) const {
    if (const auto list = root_.find(table)) list->each(read);
  }

  void symbols() {
    Names names;
    each("symbols", [&](const Field& f) {
      Symbol symbol;
      symbol.name = f["name"].string();
      if (!is_symbol_name(symbol.name)) f["name"].fail("this is not the name of a symbol", "letters, digits and _", symbol.name);
      names.add(f, symbol.name);
      constexpr int64_t kLargest = int64_t{1} << 48;
      symbol.range.min = f.has("min") ? f["min"].integer(0, kLargest) : 0;
      if (const auto max = f.find("max")) symbol.range.max = max->integer(0, kLargest);
      if (symbol.range.max && *symbol.range.max < symbol.range.min)
        f.fail("the range of the symbol is empty", "min at most max",
               fmt::format("[{}, {}]", symbol.range.min, *symbol.range.max));
      symbol.example = f.has("example") ? f["example"].integer(0, kLargest) : symbol.range.min;
      if (const auto bound = f.find("bound_by")) {
        symbol.input = (*bound)["input"].string();
        symbol.axis = static_cast<int32_t>((*bound)["axis"].integer(0, 63));
      }
      p_.symbols.push_back(std::move(symbol));
    });
  }

  // ---- values

  // Every id is below the number of definitions, so nothing is allocated that the manifest does not pay for.
  void count_values() {
    size_t count = 0;
    for (const char* table : {"inputs", "parameters", "states"})
      each(table, [&](const Field& entry) { count += entry.has("value"); });
    defined_.assign(count + count_results(root_["nodes"]), false);
  }

  static size_t count_results(const Field& nodes) {
    size_t count = 0;
    nodes.each([&](const Field& node) { node["results"].each([&](const Field& result) { count += !result.is_null(); }); });
    return count;
  }

  static ValueId define(const Field& f, PerValue<bool>& defined) {
    const auto id = static_cast<ValueId>(f.integer(0, std::numeric_limits<ValueId>::max()));
    if (!defined.has(id))
      f.fail("value ids count up from 0 without holes", fmt::format("0 to {}", static_cast<int64_t>(defined.size()) - 1),
             fmt::format("{}", id));
    if (defined[id]) f.fail(fmt::format("value {} is defined twice", id));
    defined[id] = true;
    return id;
  }

  void all_defined() {
    for (size_t i = 0; i < defined_.size(); ++i)
      if (!defined_[i]) root_.fail(fmt::format("no input, parameter, state or result defines value {}", i));
  }

  // The value of an input, a parameter or a state.
  ValueId input_value(const Field& f, Type type) {
    const ValueId value = define(f["value"], defined_);
    m_.graph.inputs.push_back({value, std::move(type)});
    return value;
  }

  void inputs() {
    Names names;
    root_["inputs"].each([&](const Field& f) {
      Input input;
      input.name = names.read(f);
      input.value = input_value(f, values_->type(f));
      if (const auto range = f.find("range")) {
        if (range->size() != 2) range->fail("a range has two ends", "[min, max]");
        input.range = std::pair{(*range)[0].integer(), (*range)[1].integer()};
        if (input.range->first > input.range->second) range->fail("the range is empty", "min at most max");
      }
      if (const auto used = f.find("used")) input.used = used->boolean();
      p_.inputs.push_back(std::move(input));
    });
  }

  Type fixed_type(const Field& f) {
    Type type = values_->type(f);
    if (!all_numbers(type.shape)) f["shape"].fail("the shape of a parameter has no symbols", "integers", to_string(type.shape));
    return type;
  }

  // Where the bytes of a parameter or a state are, and what they hash to.
  template <class Stored> void stored(const Field& f, Stored& into) {
    if (const auto file = f.find("file")) into.file = file_name(*file, m_.recording.weights_by_reference);
    if (const auto key = f.find("key")) into.key = name_of_something(*key);
    const auto checksum = f.find("checksum");
    if (!checksum) return;
    const std::string text = checksum->string();
    if (text.size() != 32 || text.find_first_not_of("0123456789abcdef") != std::string::npos)
      checksum->fail("this is not a checksum", "32 digits, 0 to 9 and a to f", text);
    m_.recording.checksums[into.name] = text;
  }

  void parameters() {
    Names names;
    each("parameters", [&](const Field& f) {
      Parameter parameter;
      parameter.name = names.read(f);
      if (const auto aliases = f.find("aliases")) {
        aliases->each([&](const Field& alias) {
          parameter.aliases.push_back(name_of_something(alias));
          names.add(alias, parameter.aliases.back());
        });
      }
      const std::string kind = f["kind"].string();
      if (kind == "buffer") {
        parameter.kind = Parameter::Kind::buffer;
      } else if (kind == "constant") {
        parameter.kind = Parameter::Kind::constant;
      } else if (kind != "parameter") {
        f["kind"].fail("there is no such kind", "parameter, buffer or constant", kind);
      }
      if (const auto persistent = f.find("persistent")) parameter.persistent = persistent->boolean();
      parameter.type = fixed_type(f);
      stored(f, parameter);
      if (f.has("value")) parameter.value = input_value(f, parameter.type);
      p_.parameters.push_back(std::move(parameter));
    });
  }

  void states() {
    Names names;
    each("states", [&](const Field& f) {
      State state;
      state.name = names.read(f);
      state.value = input_value(f, fixed_type(f));
      stored(f, state);
      p_.states.push_back(std::move(state));
    });
  }

  void finish_states() {  // `updated` may be any value, so it is read after the nodes
    auto state = p_.states.begin();
    each("states", [&](const Field& f) {
      if (const auto updated = f.find("updated")) state->updated = values_->used(*updated, defined_);
      ++state;
    });
  }

  void outputs() {
    const Field list = root_["outputs"];
    Names names;
    list.each([&](const Field& f) {
      Output output;
      output.name = names.read(f);
      output.value = values_->used(f["value"], defined_);
      m_.outputs.emplace_back(output.value, values_->type(f));
      p_.outputs.push_back(std::move(output));
    });
    if (p_.outputs.empty() && p_.states.empty())
      list.fail("the program computes nothing", "an output, or a state that it updates", "neither");
  }

  void taps() {
    const std::unordered_map<ValueId, Type> types = types_of_values();
    Names names;
    each("taps", [&](const Field& f) {
      Tap tap;
      tap.id = TapId::parse(names.read(f, "id"));
      tap.value = values_->used(f["value"], defined_);
      tap.key = name_of_something(f["key"]);
      if (const auto shape = f.find("shape")) check_golden_shape(*shape, types.at(tap.value));
      p_.taps.push_back(std::move(tap));
    });
  }

  std::unordered_map<ValueId, Type> types_of_values() const {
    std::unordered_map<ValueId, Type> types;
    for (const RecordedValue& input : m_.graph.inputs) types.emplace(input.id, input.type);
    for (const RecordedNode& node : m_.graph.nodes)
      for (const auto& result : node.results)
        if (result) types.emplace(result->id, result->type);
    return types;
  }

  // What was recorded is the value's shape at the recorded sizes; sizes that data decides can be any.
  void check_golden_shape(const Field& f, const Type& type) const {
    Bindings recorded;
    for (const Symbol& s : p_.symbols)
      if (s.axis >= 0) recorded[s.name] = s.example;
    bool same = f.size() == type.shape.size();
    for (size_t a = 0; a < f.size(); ++a) {
      const int64_t size = f[a].integer(0);
      if (!same) continue;
      std::vector<std::string> names;
      type.shape[a].collect_symbols(names);
      const bool known = std::all_of(names.begin(), names.end(), [&](const auto& name) { return recorded.contains(name); });
      same = !known || type.shape[a].evaluate(recorded) == size;
    }
    if (!same) f.fail("the golden value has another shape than the value that it is of", to_string(type.shape), f.json().dump());
  }

  // ---- nodes

  void nodes(const Field& list, RecordedGraph& into, PerValue<bool>& defined) {
    into.nodes.reserve(list.size());
    list.each([&](const Field& f) { into.nodes.push_back(node(f, defined)); });
  }

  // [name, value]
  static std::string argument_name(const Field& arg) {
    if (arg.size() != 2) arg.fail("an argument is a name and a value", "[name, value]", fmt::format("{} entries", arg.size()));
    return arg[0].string();
  }

  RecordedValue recorded_value(const Field& f, PerValue<bool>& defined) {
    Type type = values_->type(f);
    return {define(f["value"], defined), std::move(type)};
  }

  RecordedNode node(const Field& f, PerValue<bool>& defined) {
    RecordedNode node;
    Field op = f["op"];
    node.op = op.string();
    bool sane = !node.op.empty() && node.op.size() <= 256;
    for (char ch : node.op) sane = sane && ch > ' ' && ch < 127;
    if (!sane) op.fail("this is not the name of an overload", "namespace.name.overload");
    f["args"].each([&](const Field& arg) {
      std::string name = argument_name(arg);
      for (auto& [other, value] : node.args)
        if (other == name) arg.fail(fmt::format("the argument '{}' is there twice", name));
      node.args.emplace_back(std::move(name), values_->argument(arg[1], defined));
    });
    f["results"].each([&](const Field& result) {
      node.results.push_back(result.is_null() ? std::nullopt : std::optional(recorded_value(result, defined)));
    });
    if (const auto call = f.find("call")) node.origin.call = call->index(p_.calls.size());
    if (const auto file = f.find("file")) node.origin.file = file->index(p_.files.size());
    node.origin.line = line(f, "line");
    if (const auto name = f.find("assigned_to")) node.origin.assigned_to = name_of_something(*name);
    return node;
  }

  static int32_t line(const Field& f, std::string_view key) {
    const auto number = f.find(key);
    return number ? static_cast<int32_t>(number->integer(0, 1 << 30)) : 0;
  }

  void subgraphs() {
    each("graphs", [&](const Field& f) {
      RecordedGraph graph;
      const Field inputs = f["inputs"];
      PerValue<bool> defined(inputs.size() + count_results(f["nodes"]), false);
      inputs.each([&](const Field& input) { graph.inputs.push_back(recorded_value(input, defined)); });
      nodes(f["nodes"], graph, defined);
      f["outputs"].each([&](const Field& output) { graph.outputs.push_back(values_->used(output, defined)); });
      m_.subgraphs.push_back(std::move(graph));
    });
  }

  // ---- sources and module calls

  void files() {
    each("files_table", [&](const Field& f) {
      SourceFile file;
      file.path = name_of_something(f["path"]);
      if (const auto lines = f.find("lines"))
        lines->each_entry([&](const std::string& number, const Field& text) {
          file.lines.emplace_back(line_number(number, text), text.string());
        });
      std::sort(file.lines.begin(), file.lines.end());
      p_.files.push_back(std::move(file));
    });
  }

  static int32_t line_number(const std::string& digits, const Field& text) {
    int32_t number = 0;
    for (char ch : digits) {
      if (!std::isdigit(static_cast<unsigned char>(ch)) || number > (1 << 26))
        text.fail("a line number is not a number", "digits", digits);
      number = number * 10 + (ch - '0');
    }
    return number;
  }

  void calls() {
    std::set<std::pair<std::string, int32_t>> seen;
    each("module_calls", [&](const Field& f) {
      ModuleCall call;
      call.path = name_of_something(f["path"]);
      call.call = static_cast<int32_t>(f["call"].integer(0, 1 << 30));
      if (!seen.emplace(call.path, call.call).second) f.fail(fmt::format("the call {}@{} is there twice", call.path, call.call));
      call.class_name = f["class"].string_or("");
      if (const auto parent = f.find("parent")) call.parent = parent->index(p_.calls.size());
      if (const auto file = f.find("class_file")) call.class_file = file->index(p_.files.size());
      call.class_line = line(f, "class_line");
      call.forward_line = line(f, "forward_line");
      if (const auto name = f.find("assigned_to")) call.attributes.emplace_back(kAssignedTo, name_of_something(*name));
      for (auto [key, table] : {std::pair{"attributes", &call.attributes}, {"config", &call.config}})
        if (const auto entries = f.find(key))
          entries->each_entry(
              [&, into = table](const std::string& name, const Field& value) { into->emplace_back(name, literal(value)); });
      p_.calls.push_back(std::move(call));
    });
  }

  void finish_calls() {  // arguments and outputs refer to values of any node
    auto call = p_.calls.begin();
    each("module_calls", [&](const Field& f) {
      if (const auto args = f.find("args"))
        args->each([&](const Field& arg) { call->args.emplace_back(argument_name(arg), values_->tree(arg[1], defined_)); });
      if (const auto output = f.find("output")) call->output = values_->tree(*output, defined_);
      ++call;
    });
  }

  static Literal literal(const Field& f) {
    const Json& json = f.json();
    if (json.is_null()) return {};
    if (json.is_boolean()) return json.get<bool>();
    if (json.is_number_integer()) return f.integer();
    if (json.is_number()) return f.number();
    if (json.is_string()) return json.get<std::string>();
    return json.dump();  // lists of numbers and the like, for showing
  }

  // A symbol is bound by an axis of an input whose size names it.
  void bindings() {
    auto symbol = p_.symbols.begin();
    each("symbols", [&](const Field& f) {
      if (symbol->axis >= 0 && !is_bound(f["bound_by"], *symbol))
        f["bound_by"].fail(
            fmt::format("no size of input '{}' at axis {} names the symbol {}", symbol->input, symbol->axis, symbol->name));
      ++symbol;
    });
  }

  bool is_bound(const Field& bound_by, const Symbol& symbol) const {
    std::vector<std::string> names;
    for (size_t k = 0; k < p_.inputs.size(); ++k) {
      if (p_.inputs[k].name != symbol.input) continue;
      const Type& type = m_.graph.inputs[k].type;
      if (symbol.axis >= type.rank()) bound_by.fail("the input has no such axis", {}, type.text());
      type.shape[symbol.axis].collect_symbols(names);
    }
    return std::find(names.begin(), names.end(), symbol.name) != names.end();
  }

  const Field& root_;
  Manifest& m_;
  Program& p_;
  const ValueReader* values_ = nullptr;
  PerValue<bool> defined_;
};

}  // namespace

Manifest read_manifest(std::string_view text, std::string_view document) {
  Json json = parse_json(text, document);
  Field root(json, document);
  Manifest manifest;
  ManifestReader(root, manifest).read();
  return manifest;
}

}  // namespace pycandle
