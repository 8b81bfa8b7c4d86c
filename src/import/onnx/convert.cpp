#include "import/onnx/convert.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/hash.h"
#include "base/json.h"
#include "base/safetensors_stream.h"
#include "base/version.h"

namespace pycandle::onnx {
namespace {

Json float_json(double number) {
  if (std::isnan(number)) return {{"float", "nan"}};
  if (std::isinf(number)) return {{"float", number > 0 ? "inf" : "-inf"}};
  return {{"float", number}};
}

Json dim_json(Dim d) {
  const auto number = d.maybe_number();
  return number ? Json(*number) : Json(d.text());
}

Json shape_json(const Shape& shape) {
  Json list = Json::array();
  for (const Dim d : shape) list.push_back(dim_json(d));
  return list;
}

Json typed(Json entry, const Type& type) {
  entry["dtype"] = pycandle::name_of(type.dtype);
  entry["shape"] = shape_json(type.shape);
  return entry;
}

// The manifest's ids: inputs and parameters, then results, in the order in which they come.
class ManifestWriter {
 public:
  ManifestWriter(const Recording& recording, const std::vector<ImportedNode>& imported) : r_(recording), imported_(imported) {}

  Json write(const std::string& name, const std::string& weights_file, const std::map<std::string, std::string>& checksums) {
    const Program& p = r_.program;
    Json inputs = Json::array(), parameters = Json::array(), outputs = Json::array();
    for (const Input& input : p.inputs)
      inputs.push_back(with_use(typed({{"name", input.name}, {"value", define(input.value)}}, p.graph.type(input.value))));
    for (const Parameter& q : p.parameters) parameters.push_back(parameter(q, weights_file, checksums));
    for (const ImportedNode& node : imported_) write(node);
    for (const Output& output : p.outputs)
      outputs.push_back(typed({{"name", output.name}, {"value", id_of(output.value)}}, p.graph.type(output.value)));
    Json root_args = Json::array();
    for (const Input& input : p.inputs) root_args.push_back({input.name, {{"v", ids_.at(input.value)}}});
    return {{"format", "pycandle.manifest"},
            {"version", "1.1.0"},
            {"name", name},
            {"producer", {{"pycandle", version()}, {"onnx", r_.notes.empty() ? "" : r_.notes[0]}}},
            {"model", {{"class", r_.model_class}, {"seed", 0}, {"perturbed", false}}},
            {"notes", r_.notes},
            {"files", {{"weights", weights_file}}},
            {"symbols", symbols()},
            {"fixed_dims", Json::array()},
            {"inputs", inputs},
            {"outputs", outputs},
            {"input_tree", input_tree()},
            {"output_tree", Json::parse(r_.output_tree)},
            {"states", Json::array()},
            {"parameters", parameters},
            {"nodes", nodes_},
            {"graphs", Json::array()},
            {"module_calls", module_calls(root_args)},
            {"taps", Json::array()},
            {"files_table", files_table()}};
  }

  const std::vector<std::pair<std::string, int>>& values() const { return values_; }

 private:
  static Json with_use(Json entry) {
    entry["used"] = true;
    return entry;
  }

  Json root_call(const Json& args) {
    Json items = Json::object();
    for (const auto& [key, tree] : r_.program.calls[0].output.items) items[key] = {{"v", ids_.at(tree.value)}};
    return {{"path", ""},
            {"call", 0},
            {"class", r_.model_class},
            {"parent", nullptr},
            {"class_file", nullptr},
            {"class_line", 0},
            {"forward_line", 0},
            {"attributes", Json::object()},
            {"config", Json::object()},
            {"args", args},
            {"output", {{"dict", items}}}};
  }

  // Only the root's arguments and results are known.
  Json module_calls(const Json& root_args) {
    Json list = Json::array({root_call(root_args)});
    for (size_t i = 1; i < r_.program.calls.size(); ++i) {
      const ModuleCall& call = r_.program.calls[i];
      Json entry{{"path", call.path},        {"call", call.call},     {"class", call.class_name}, {"parent", call.parent},
                 {"class_file", nullptr},    {"class_line", nullptr}, {"forward_line", nullptr},  {"attributes", Json::object()},
                 {"config", Json::object()}, {"args", Json::array()}, {"output", nullptr}};
      for (const auto& [name, value] : call.attributes)
        if (name == kAssignedTo) entry["assigned_to"] = std::get<std::string>(value);
      list.push_back(std::move(entry));
    }
    return list;
  }

  Json files_table() const {
    Json list = Json::array();
    for (const SourceFile& file : r_.program.files) {
      Json lines = Json::object();
      for (const auto& [number, text] : file.lines) lines[std::to_string(number)] = text;
      list.push_back({{"path", file.path}, {"lines", std::move(lines)}});
    }
    return list;
  }

  Json input_tree() const {
    Json keys = Json::array(), items = Json::array();
    for (const Input& input : r_.program.inputs) {
      keys.push_back(input.name);
      items.push_back({{"kind", "tensor"}, {"name", input.name}});
    }
    return {{"kind", "dict"}, {"keys", keys}, {"items", items}};
  }

  Json symbols() const {
    Json list = Json::array();
    for (const Symbol& s : r_.program.symbols)
      list.push_back({{"name", s.name},
                      {"min", s.range.min},
                      {"max", nullptr},
                      {"example", s.example},
                      {"bound_by", {{"input", s.input}, {"axis", s.axis}}}});
    return list;
  }

  Json parameter(const Parameter& q, const std::string& file, const std::map<std::string, std::string>& checksums) {
    const bool is_used = q.value != kNoValue;
    Json entry{{"name", q.name},
               {"aliases", q.aliases},
               {"kind", q.kind == Parameter::Kind::constant ? "constant" : "parameter"},
               {"persistent", true},
               {"value", is_used ? Json(define(q.value)) : Json()}};
    entry = typed(std::move(entry), q.type);
    entry["file"] = is_used ? Json(file) : Json();
    entry["key"] = q.name;
    if (is_used) entry["checksum"] = checksums.at(q.name);
    return entry;
  }

  int define(ValueId v) {
    ids_.emplace(v, next_);  // a second name of a value has an id of its own; uses take the first
    return next_++;
  }

  // A number of the program is a node where it is first used.
  int id_of(ValueId v) {
    if (const auto known = ids_.find(v); known != ids_.end()) return known->second;
    const Value& value = r_.program.graph.values[v];
    const pycandle::Node& constant = r_.program.graph.nodes[value.node];
    require(constant.op->name == "constant" && value.type.shape.empty(), "a value of an ONNX file that is no result is a number");
    const Argument number{argument_of(scalar_of(constant.attributes.at(0).second))};
    Json node{{"op", "aten.full.default"}};
    Json args = Json::array();
    args.push_back({"size", Json::array()});
    args.push_back({"fill_value", json_of(number)});
    args.push_back({"dtype", {{"dtype", pycandle::name_of(value.type.dtype)}}});
    for (const char* name : {"layout", "device", "pin_memory"}) args.push_back({name, nullptr});
    node["args"] = std::move(args);
    node["results"] = Json::array({typed({{"value", define(v)}}, value.type)});
    place(node, {});
    nodes_.push_back(std::move(node));
    return ids_.at(v);
  }

  static void place(Json& node, const Origin& origin) {
    node["call"] = std::max(origin.call, 0);
    node["file"] = origin.file < 0 ? Json() : Json(origin.file);
    node["line"] = origin.file < 0 ? Json() : Json(origin.line);
    node["assigned_to"] = origin.assigned_to.empty() ? Json() : Json(origin.assigned_to);
  }

  static decltype(Argument::value) argument_of(const Scalar& s) {
    return std::visit([](auto number) { return decltype(Argument::value)(number); }, s);
  }

  void write(const ImportedNode& imported) {
    Json node{{"op", imported.overload}};
    Json args = Json::array(), results = Json::array();
    for (const auto& [name, argument] : imported.arguments) args.push_back(Json::array({name, json_of(argument)}));
    for (const ValueId v : imported.results)
      results.push_back(v == kNoValue ? Json() : typed({{"value", define(v)}}, r_.program.graph.type(v)));
    place(node, imported.origin);
    if (!imported.name.empty() && !imported.results.empty() && imported.results[0] != kNoValue)
      values_.emplace_back(imported.name, results[0].at("value").get<int>());
    node["args"] = std::move(args);
    node["results"] = std::move(results);
    nodes_.push_back(std::move(node));
  }

  Json json_of(const Argument& a) {
    if (const auto* v = std::get_if<bool>(&a.value)) return *v;
    if (const auto* v = std::get_if<int64_t>(&a.value)) return *v;
    if (const auto* v = std::get_if<double>(&a.value)) return float_json(*v);
    if (const auto* v = std::get_if<std::complex<double>>(&a.value)) return {{"complex", {v->real(), v->imag()}}};
    if (const auto* v = std::get_if<std::string>(&a.value)) return *v;
    if (const auto* v = std::get_if<Dim>(&a.value)) return {{"dim", v->text()}};
    if (const auto* v = std::get_if<Argument::Tensor>(&a.value)) return {{"v", id_of(v->value)}};
    if (const auto* v = std::get_if<Argument::List>(&a.value)) {
      Json list = Json::array();
      for (const Argument& entry : *v) list.push_back(json_of(entry));
      return list;
    }
    return nullptr;
  }

  const Recording& r_;
  const std::vector<ImportedNode>& imported_;
  std::map<ValueId, int> ids_;
  int next_ = 0;
  Json nodes_ = Json::array();
  std::vector<std::pair<std::string, int>> values_;
};

}  // namespace

Converted convert(const std::filesystem::path& file, const std::filesystem::path& folder, const std::string& name,
                  const OpTable& table) {
  const std::shared_ptr<const Model> model = open(file);
  std::vector<ImportedNode> imported;
  const Recording recording = import_model(model, table, &imported);
  Converted made{folder / (name + "_manifest.json"), folder / (name + "_weights.safetensors"), static_cast<int>(imported.size())};
  std::vector<SafetensorsWriter::Planned> planned;
  std::vector<std::string> keys;
  for (const Parameter& p : recording.program.parameters) {
    if (p.value == kNoValue) continue;
    Sizes shape;
    for (const Dim d : p.type.shape) shape.push_back(d.number());
    planned.push_back({p.name, p.type.dtype, std::move(shape)});
    keys.push_back(p.key);
  }
  std::filesystem::create_directories(folder);
  SafetensorsWriter weights(made.weights, planned);
  std::map<std::string, std::string> checksums;
  for (size_t i = 0; i < planned.size(); ++i) {
    const Array value = *model->value(keys[i]);
    checksums[planned[i].name] = hash128(value.data(), value.bytes()).text();
    weights.write(value.data(), value.bytes());
    made.bytes += value.bytes();
  }
  weights.finish();
  made.parameters = static_cast<int>(planned.size());
  ManifestWriter writer(recording, imported);
  const Json manifest = writer.write(name, made.weights.filename().string(), checksums);
  made.values = writer.values();
  const std::string text = manifest.dump(1) + "\n";
  weights.commit();
  write_text(made.manifest, text);
  return made;
}

}  // namespace pycandle::onnx
