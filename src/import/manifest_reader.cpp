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

class Names {
 public:
  void add(const Field& f, const std::string& name) {
    if (!seen_.insert(name).second) f.fail(fmt::format("the name '{}' is there twice", name));
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
    count_values(root_);
    inputs();
    parameters();
    states();
    tables();
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
    if (root_.has("producer") && root_["producer"].has("torch")) r.torch_version = root_["producer"]["torch"].string();
    if (root_.has("model") && root_["model"].has("class")) r.model_class = root_["model"]["class"].string();
    if (root_.has("soundness")) r.soundness = root_["soundness"]["status"].string();
    if (!r.soundness.empty() && r.soundness != "verified" && r.soundness != "shapes-only")
      root_["soundness"]["status"].fail("there is no such status", "verified or shapes-only", r.soundness);
    if (root_.has("notes")) {
      Field notes = root_["notes"];
      for (size_t i = 0; i < notes.size(); ++i) r.notes.push_back(notes[i].string());
    }
    if (root_.has("weights")) r.weights_by_reference = root_["weights"].string() == "ref";
    if (root_.has("files")) {
      Field files = root_["files"];
      if (files.has("trace")) r.trace_file = file_name(files["trace"]);
      if (files.has("second_trace")) r.second_trace_file = file_name(files["second_trace"]);
      if (!r.second_trace_file.empty() && r.trace_file.empty())
        files["second_trace"].fail("a second call was recorded without a first", "files.trace as well");
      if (files.has("weights")) file_name(files["weights"], r.weights_by_reference);
    }
    if (root_.has("input_tree")) r.input_tree = root_["input_tree"].json().dump();
    if (root_.has("output_tree")) r.output_tree = root_["output_tree"].json().dump();
  }

  void symbols() {
    if (!root_.has("symbols")) return;
    Field list = root_["symbols"];
    Names names;
    for (size_t i = 0; i < list.size(); ++i) {
      Field f = list[i];
      Symbol symbol;
      symbol.name = f["name"].string();
      if (!is_symbol_name(symbol.name)) f["name"].fail("this is not the name of a symbol", "letters, digits and _", symbol.name);
      names.add(f, symbol.name);
      constexpr int64_t kLargest = int64_t{1} << 48;
      symbol.range.min = f.has("min") ? f["min"].integer(0, kLargest) : 0;
      if (f.has("max")) symbol.range.max = f["max"].integer(0, kLargest);
      if (symbol.range.max && *symbol.range.max < symbol.range.min)
        f.fail("the range of the symbol is empty", "min at most max",
               fmt::format("[{}, {}]", symbol.range.min, *symbol.range.max));
      symbol.example = f.has("example") ? f["example"].integer(0, kLargest) : symbol.range.min;
      if (f.has("bound_by")) {
        Field bound = f["bound_by"];
        symbol.input = bound["input"].string();
        symbol.axis = static_cast<int32_t>(bound["axis"].integer(0, 63));
      }
      p_.symbols.push_back(std::move(symbol));
    }
  }

  // ---- values

  // Every id is below the number of definitions, so nothing is allocated that the manifest does not pay for.
  void count_values(const Field& root) {
    size_t count = 0;
    for (const char* table : {"inputs", "parameters", "states"}) {
      if (!root.has(table)) continue;
      Field entries = root[table];
      for (size_t i = 0; i < entries.size(); ++i) count += entries[i].has("value");
    }
    count += count_results(root["nodes"]);
    defined_.assign(count, false);
  }

  static size_t count_results(const Field& nodes) {
    size_t count = 0;
    for (size_t i = 0; i < nodes.size(); ++i) {
      Field node = nodes[i];
      Field results = node["results"];
      for (size_t r = 0; r < results.size(); ++r) count += !results[r].is_null();
    }
    return count;
  }

  static ValueId define(const Field& f, std::vector<bool>& defined) {
    int64_t id = f.integer(0, std::numeric_limits<int32_t>::max());
    if (static_cast<size_t>(id) >= defined.size())
      f.fail("value ids count up from 0 without holes", fmt::format("0 to {}", static_cast<int64_t>(defined.size()) - 1),
             fmt::format("{}", id));
    if (defined[static_cast<size_t>(id)]) f.fail(fmt::format("value {} is defined twice", id));
    defined[static_cast<size_t>(id)] = true;
    return static_cast<ValueId>(id);
  }

  void all_defined() {
    for (size_t i = 0; i < defined_.size(); ++i)
      if (!defined_[i]) root_.fail(fmt::format("no input, parameter, state or result defines value {}", i));
  }

  void inputs() {
    Field list = root_["inputs"];
    Names names;
    for (size_t i = 0; i < list.size(); ++i) {
      Field f = list[i];
      Input input;
      input.name = name_of_something(f["name"]);
      names.add(f, input.name);
      input.value = define(f["value"], defined_);
      if (f.has("range")) {
        Field range = f["range"];
        if (range.size() != 2) range.fail("a range has two ends", "[min, max]");
        input.range = std::pair{range[0].integer(), range[1].integer()};
        if (input.range->first > input.range->second) range.fail("the range is empty", "min at most max");
      }
      if (f.has("used")) input.used = f["used"].boolean();
      m_.graph.inputs.push_back({input.value, values_->type(f)});
      p_.inputs.push_back(std::move(input));
    }
  }

  Type fixed_type(const Field& f) {
    Type type = values_->type(f);
    if (!all_numbers(type.shape)) f["shape"].fail("the shape of a parameter has no symbols", "integers", to_string(type.shape));
    return type;
  }

  void checksum(const Field& f, const std::string& name) {
    if (!f.has("checksum")) return;
    const std::string text = f["checksum"].string();
    if (text.size() != 32 || text.find_first_not_of("0123456789abcdef") != std::string::npos)
      f["checksum"].fail("this is not a checksum", "32 digits, 0 to 9 and a to f", text);
    m_.recording.checksums[name] = text;
  }

  void parameters() {
    if (!root_.has("parameters")) return;
    Field list = root_["parameters"];
    Names names;
    for (size_t i = 0; i < list.size(); ++i) {
      Field f = list[i];
      Parameter parameter;
      parameter.name = name_of_something(f["name"]);
      names.add(f, parameter.name);
      if (f.has("aliases")) {
        Field aliases = f["aliases"];
        for (size_t a = 0; a < aliases.size(); ++a) {
          parameter.aliases.push_back(name_of_something(aliases[a]));
          names.add(aliases[a], parameter.aliases.back());
        }
      }
      std::string kind = f["kind"].string();
      if (kind == "buffer") {
        parameter.kind = Parameter::Kind::buffer;
      } else if (kind == "constant") {
        parameter.kind = Parameter::Kind::constant;
      } else if (kind != "parameter") {
        f["kind"].fail("there is no such kind", "parameter, buffer or constant", kind);
      }
      if (f.has("persistent")) parameter.persistent = f["persistent"].boolean();
      parameter.type = fixed_type(f);
      if (f.has("file")) parameter.file = file_name(f["file"], m_.recording.weights_by_reference);
      if (f.has("key")) parameter.key = name_of_something(f["key"]);
      checksum(f, parameter.name);
      if (f.has("value")) {
        parameter.value = define(f["value"], defined_);
        m_.graph.inputs.push_back({parameter.value, parameter.type});
      }
      p_.parameters.push_back(std::move(parameter));
    }
  }

  void states() {
    if (!root_.has("states")) return;
    Field list = root_["states"];
    Names names;
    for (size_t i = 0; i < list.size(); ++i) {
      Field f = list[i];
      State state;
      state.name = name_of_something(f["name"]);
      names.add(f, state.name);
      state.value = define(f["value"], defined_);
      if (f.has("file")) state.file = file_name(f["file"], m_.recording.weights_by_reference);
      if (f.has("key")) state.key = name_of_something(f["key"]);
      checksum(f, state.name);
      m_.graph.inputs.push_back({state.value, fixed_type(f)});
      p_.states.push_back(std::move(state));
    }
  }

  void finish_states() {  // `updated` may be any value, so it is read after the nodes
    if (!root_.has("states")) return;
    Field list = root_["states"];
    for (size_t i = 0; i < p_.states.size(); ++i) {
      Field f = list[i];
      if (f.has("updated")) p_.states[i].updated = values_->used(f["updated"], defined_);
    }
  }

  void outputs() {
    Field list = root_["outputs"];
    Names names;
    for (size_t i = 0; i < list.size(); ++i) {
      Field f = list[i];
      Output output;
      output.name = name_of_something(f["name"]);
      names.add(f, output.name);
      output.value = values_->used(f["value"], defined_);
      m_.outputs.emplace_back(output.value, values_->type(f));
      p_.outputs.push_back(std::move(output));
    }
    if (p_.outputs.empty() && p_.states.empty())
      list.fail("the program computes nothing", "an output, or a state that it updates", "neither");
  }

  void taps() {
    if (!root_.has("taps")) return;
    Field list = root_["taps"];
    const std::unordered_map<ValueId, Type> types = types_of_values();
    Names names;
    for (size_t i = 0; i < list.size(); ++i) {
      Field f = list[i];
      Tap tap;
      tap.id = name_of_something(f["id"]);
      names.add(f, tap.id);
      tap.value = values_->used(f["value"], defined_);
      tap.key = name_of_something(f["key"]);
      if (f.has("shape")) check_golden_shape(f["shape"], types.at(tap.value));
      p_.taps.push_back(std::move(tap));
    }
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

  void nodes(const Field& list, RecordedGraph& into, std::vector<bool>& defined) {
    into.nodes.reserve(list.size());
    for (size_t i = 0; i < list.size(); ++i) into.nodes.push_back(node(list[i], defined));
  }

  RecordedNode node(const Field& f, std::vector<bool>& defined) {
    RecordedNode node;
    Field op = f["op"];
    node.op = op.string();
    bool sane = !node.op.empty() && node.op.size() <= 256;
    for (char ch : node.op) sane = sane && ch > ' ' && ch < 127;
    if (!sane) op.fail("this is not the name of an overload", "namespace.name.overload");
    Field args = f["args"];
    for (size_t i = 0; i < args.size(); ++i) {
      Field arg = args[i];
      if (arg.size() != 2) arg.fail("an argument is a name and a value", "[name, value]", fmt::format("{} entries", arg.size()));
      std::string name = arg[0].string();
      for (auto& [other, value] : node.args)
        if (other == name) arg.fail(fmt::format("the argument '{}' is there twice", name));
      node.args.emplace_back(std::move(name), values_->argument(arg[1], defined));
    }
    Field results = f["results"];
    for (size_t i = 0; i < results.size(); ++i) {
      Field result = results[i];
      if (result.is_null()) {
        node.results.emplace_back();
      } else {
        Type type = values_->type(result);
        node.results.push_back(RecordedValue{define(result["value"], defined), std::move(type)});
      }
    }
    if (f.has("call")) node.origin.call = f["call"].index(p_.calls.size());
    if (f.has("file")) node.origin.file = f["file"].index(p_.files.size());
    if (f.has("line")) node.origin.line = static_cast<int32_t>(f["line"].integer(0, 1 << 30));
    if (f.has("assigned_to")) node.origin.assigned_to = name_of_something(f["assigned_to"]);
    return node;
  }

  void subgraphs() {
    if (!root_.has("graphs")) return;
    Field list = root_["graphs"];
    for (size_t i = 0; i < list.size(); ++i) {
      Field f = list[i];
      RecordedGraph graph;
      Field ins = f["inputs"];
      std::vector<bool> defined(ins.size() + count_results(f["nodes"]), false);
      for (size_t k = 0; k < ins.size(); ++k) {
        Field in = ins[k];
        Type type = values_->type(in);
        graph.inputs.push_back({define(in["value"], defined), std::move(type)});
      }
      nodes(f["nodes"], graph, defined);
      Field outs = f["outputs"];
      for (size_t k = 0; k < outs.size(); ++k) graph.outputs.push_back(values_->used(outs[k], defined));
      m_.subgraphs.push_back(std::move(graph));
    }
  }

  // ---- sources and module calls

  void tables() {
    if (root_.has("files_table")) {
      Field list = root_["files_table"];
      for (size_t i = 0; i < list.size(); ++i) {
        Field f = list[i];
        SourceFile file;
        file.path = name_of_something(f["path"]);
        if (f.has("lines"))
          f["lines"].each_entry([&](const std::string& number, const Field& text) {
            int32_t line = 0;
            for (char ch : number) {
              if (!std::isdigit(static_cast<unsigned char>(ch)) || line > (1 << 26))
                text.fail("a line number is not a number", "digits", number);
              line = line * 10 + (ch - '0');
            }
            file.lines.emplace_back(line, text.string());
          });
        std::sort(file.lines.begin(), file.lines.end());
        p_.files.push_back(std::move(file));
      }
    }
    if (!root_.has("module_calls")) return;
    Field list = root_["module_calls"];
    std::set<std::pair<std::string, int32_t>> seen;
    for (size_t i = 0; i < list.size(); ++i) {
      Field f = list[i];
      ModuleCall call;
      call.path = name_of_something(f["path"]);
      call.call = static_cast<int32_t>(f["call"].integer(0, 1 << 30));
      if (!seen.emplace(call.path, call.call).second) f.fail(fmt::format("the call {}@{} is there twice", call.path, call.call));
      call.class_name = f["class"].string_or("");
      if (f.has("parent")) call.parent = f["parent"].index(i);
      if (f.has("class_file")) call.class_file = f["class_file"].index(p_.files.size());
      if (f.has("class_line")) call.class_line = static_cast<int32_t>(f["class_line"].integer(0, 1 << 30));
      if (f.has("forward_line")) call.forward_line = static_cast<int32_t>(f["forward_line"].integer(0, 1 << 30));
      if (f.has("assigned_to")) call.attributes.emplace_back(kAssignedTo, name_of_something(f["assigned_to"]));
      for (auto [key, table] : {std::pair{"attributes", &call.attributes}, {"config", &call.config}})
        if (f.has(key))
          f[key].each_entry(
              [&, into = table](const std::string& name, const Field& value) { into->emplace_back(name, literal(value)); });
      p_.calls.push_back(std::move(call));
    }
  }

  void finish_calls() {  // arguments and outputs refer to values of any node
    if (!root_.has("module_calls")) return;
    Field list = root_["module_calls"];
    for (size_t i = 0; i < p_.calls.size(); ++i) {
      Field f = list[i];
      if (f.has("args")) {
        Field args = f["args"];
        for (size_t a = 0; a < args.size(); ++a) {
          Field arg = args[a];
          if (arg.size() != 2) arg.fail("an argument is a name and a value", "[name, value]");
          p_.calls[i].args.emplace_back(arg[0].string(), values_->tree(arg[1], defined_));
        }
      }
      if (f.has("output")) p_.calls[i].output = values_->tree(f["output"], defined_);
    }
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
    for (size_t i = 0; i < p_.symbols.size(); ++i) {
      const Symbol& symbol = p_.symbols[i];
      if (symbol.axis < 0) continue;
      Field list = root_["symbols"];
      Field f = list[i];
      Field bound_by = f["bound_by"];
      bool bound = false;
      for (size_t k = 0; k < p_.inputs.size(); ++k) {
        if (p_.inputs[k].name != symbol.input) continue;
        const Shape& shape = m_.graph.inputs[k].type.shape;
        if (static_cast<size_t>(symbol.axis) >= shape.size())
          bound_by.fail("the input has no such axis", {}, m_.graph.inputs[k].type.text());
        std::vector<std::string> names;
        shape[static_cast<size_t>(symbol.axis)].collect_symbols(names);
        bound = std::find(names.begin(), names.end(), symbol.name) != names.end();
      }
      if (!bound)
        bound_by.fail(
            fmt::format("no size of input '{}' at axis {} names the symbol {}", symbol.input, symbol.axis, symbol.name));
    }
  }

  const Field& root_;
  Manifest& m_;
  Program& p_;
  const ValueReader* values_ = nullptr;
  std::vector<bool> defined_;
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
