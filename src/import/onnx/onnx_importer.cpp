#include "import/onnx/onnx_importer.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "base/json.h"
#include "import/onnx/importer_core.h"
#include "ir/verifier.h"

namespace pycandle::onnx {

Importer::Importer(std::shared_ptr<const Model> model, const OpTable& table)
    : model_(std::move(model)),
      table_(&table),
      onnx_(table),
      structure_(*model_, program()),
      root_(program().graph, table, &program().checks, ranges_, nullptr),
      region_(&root_),
      main_{&model_->graph, nullptr, {}},
      scope_(&main_),
      bottom_{&model_->opsets, nullptr, {}},
      frame_(&bottom_) {}

Recording Importer::run() {
  refuse_what_is_not_read();
  about();
  inputs();
  parameters();
  nodes(model_->graph);
  outputs();
  structure_.name_parameters();
  recording_.model_class = program().calls[0].class_name;
  verify(program(), "import");
  return std::move(recording_);
}

void Importer::bad(const std::string& what, const std::string& expected, const std::string& found) const {
  throw Error(ErrorCode::bad_input, fmt::format("{}: {}", file(), what)).expected(expected).found(found);
}

// ---- what nothing reads

std::vector<Gap> Importer::gaps() const {
  std::map<std::string, Gap> found;
  std::set<const Function*> seen;
  collect_gaps(model_->graph, model_->opsets, found, seen);
  std::vector<Gap> all;
  for (auto& [op, gap] : found) all.push_back(std::move(gap));
  std::stable_sort(all.begin(), all.end(), [](const Gap& a, const Gap& b) { return a.count > b.count; });
  return all;
}

void Importer::collect_gaps(const Graph& g, const Opsets& opsets, std::map<std::string, Gap>& found,
                            std::set<const Function*>& seen) const {
  for (const Node& n : g.nodes) {
    for (const Attribute& a : n.attributes)
      if (const auto* inner = std::get_if<std::shared_ptr<const Graph>>(&a.value)) collect_gaps(**inner, opsets, found, seen);
    if (const Function* f = function_of(n)) {
      if (seen.insert(f).second) collect_gaps(f->body, f->opsets, found, seen);
      continue;
    }
    if (special_of(n) != nullptr || entry_of(n, opsets) != nullptr) continue;
    Gap& gap = found[name_of(n)];
    gap.op = name_of(n);
    const auto version = opsets.find(n.domain);
    gap.reason = onnx_.knows(n.domain, n.op) ? fmt::format("{} is not supported in the form of opset {}", gap.op,
                                                           version == opsets.end() ? 1 : version->second)
                                             : fmt::format("{} is not supported", gap.op);
    if (++gap.count <= 3) gap.places.push_back(place_of(n));
  }
}

void Importer::refuse_what_is_not_read() const {
  const std::vector<Gap> missing = gaps();
  if (missing.empty()) return;
  std::string text;
  for (const Gap& gap : missing)
    text += fmt::format("{}{}, {} times: {}", text.empty() ? "" : "\n", gap.reason, gap.count, fmt::join(gap.places, ", "));
  throw Error(ErrorCode::gap, fmt::format("{} has operators that are not supported", file()))
      .found(text)
      .hint("pycandle ops lists what is; record the model from PyTorch where there is one");
}

void Importer::about() {
  Program& p = program();
  p.name = model_->file.stem().string();
  recording_.folder = model_->file.parent_path().empty() ? "." : model_->file.parent_path();
  recording_.model_class = std::string(model_->graph.name);
  recording_.notes.push_back(fmt::format("read from an ONNX file of {} {}", model_->producer, model_->producer_version));
  ModuleCall root;
  root.class_name = std::string(model_->graph.name);
  p.calls.push_back(std::move(root));
  b().origin.call = 0;
}

// ---- inputs and parameters

Type Importer::type_of(const ValueInfo& info) const {
  if (!info.kind.empty())
    throw Error(ErrorCode::gap, fmt::format("{}: '{}' is {}, which is not supported", file(), info.name, info.kind));
  const auto dtype = dtype_of(info.type);
  if (!dtype)
    throw Error(ErrorCode::gap,
                fmt::format("{}: '{}' has elements of {}, which are not supported", file(), info.name, name_of_type(info.type)));
  return {*dtype, {}};
}

void Importer::inputs() {
  const auto& stored = model_->stored.at(&model_->graph);
  for (const ValueInfo& info : model_->graph.inputs) {
    if (stored.contains(info.name)) continue;  // before IR 4 initializers were listed among the inputs
    Type type = type_of(info);
    if (!info.dims) throw Error(ErrorCode::gap, fmt::format("{}: the rank of input '{}' is not known", file(), info.name));
    for (size_t axis = 0; axis < info.dims->size(); ++axis) type.shape.push_back(dim_of(info, axis));
    Input input;
    input.name = std::string(info.name);
    input.value = program().graph.add_input(type);
    define(info.name, input.value);
    program().inputs.push_back(std::move(input));
  }
  ranges_ = program().ranges();
}

// A size that is not said is a symbol of its own; one with a name is the same wherever the name stands. Not within one input:
// published files name all axes of a batch of tokens "batch", and ONNX Runtime does not compare them.
Dim Importer::dim_of(const ValueInfo& info, size_t axis) {
  const ValueInfo::Dim& d = (*info.dims)[axis];
  if (d.number) {
    if (*d.number < 0) bad(fmt::format("input '{}' has a negative size", info.name), {}, fmt::format("{}", *d.number));
    return *d.number;
  }
  const auto alike = std::count_if(info.dims->begin(), info.dims->begin() + static_cast<std::ptrdiff_t>(axis),
                                   [&](const ValueInfo::Dim& before) { return before.symbol == d.symbol; });
  if (!d.symbol.empty())
    if (const auto known = symbols_.find({d.symbol, alike}); known != symbols_.end()) return known->second;
  Symbol symbol;
  symbol.name = fmt::format("s{}", program().symbols.size());
  symbol.range.min = 1;
  symbol.example = axis == 0 ? 1 : 16;
  symbol.input = std::string(info.name);
  symbol.axis = static_cast<int32_t>(axis);
  const Dim dim = Dim::symbol(symbol.name);
  if (!d.symbol.empty()) {
    recording_.notes.push_back(fmt::format("{} is {} in the ONNX file", symbol.name, d.symbol));
    symbols_.emplace(std::pair(d.symbol, alike), dim);
  }
  program().symbols.push_back(std::move(symbol));
  return dim;
}

// A size that data decides (NonZero, Unique).
Dim Importer::new_symbol() {
  Symbol symbol;
  symbol.name = fmt::format("s{}", program().symbols.size());
  symbol.range.min = 0;
  const Dim dim = Dim::symbol(symbol.name);
  program().symbols.push_back(std::move(symbol));
  ranges_ = program().ranges();
  return dim;
}

// Which values are read as tensors, and not only as numbers that fix a shape.
void Importer::collect_reads(const Graph& g, const Opsets& opsets, std::set<std::string_view>& reads) const {
  for (const ValueInfo& output : g.outputs) reads.insert(output.name);
  for (const Node& n : g.nodes) {
    const OnnxEntry* entry = function_of(n) == nullptr ? entry_of(n, opsets) : nullptr;
    for (size_t i = 0; i < n.inputs.size(); ++i) {
      const bool decides = function_of(n) == nullptr && entry == nullptr && special_of(n) == &Importer::branch;
      const bool is_number = decides || (entry != nullptr && i < entry->arguments.size() && entry->arguments[i].is_known);
      if (!is_number) reads.insert(n.inputs[i]);
    }
    for (const Attribute& a : n.attributes)
      if (const auto* inner = std::get_if<std::shared_ptr<const Graph>>(&a.value)) collect_reads(**inner, opsets, reads);
  }
}

// Initializers, and what Constant nodes give: a number is part of the program, a tensor is a parameter with its name.
void Importer::parameters() {
  std::set<std::string_view> reads;
  collect_reads(model_->graph, model_->opsets, reads);
  for (const Function& f : model_->functions) collect_reads(f.body, f.opsets, reads);
  for (const auto& [graph, stored] : model_->stored)
    for (const auto& [name, what] : stored) stored_[graph].emplace(name, Item{});
  // In the order of their keys, which does not depend on where the graphs lie in memory.
  for (const auto& [key, what] : model_->by_key) parameter(*what, reads.contains(what->name));
}

void Importer::parameter(const Stored& stored, bool is_read) {
  const Array array = model_->value(stored);
  Item& place = stored_.at(stored.graph).at(stored.name);
  const bool is_number = array.rank() == 0 || !is_read, is_constant = stored.node != nullptr;
  Parameter p;
  p.name = stored.key;
  p.type.dtype = array.dtype();
  p.type.shape.assign(array.shape().begin(), array.shape().end());
  p.kind = is_inexact(array.dtype()) && !is_constant ? Parameter::Kind::parameter : Parameter::Kind::constant;
  p.file = model_->file.filename().string();
  p.key = p.name;
  if (!is_number) {
    p.value = program().graph.add_input(p.type);
    place = {Item::Kind::tensor, &root_, p.value, nullptr, {}};
    root_.known.set(p.value, array);
  } else {
    place = {Item::Kind::numbers, nullptr, kNoValue, std::make_shared<const Array>(array), {}};
  }
  if (!is_number || !is_constant) program().parameters.push_back(std::move(p));
}

// ---- outputs

void Importer::outputs() {
  std::set<std::string_view> seen;
  for (const ValueInfo& info : model_->graph.outputs) {
    if (!seen.insert(info.name).second) bad(fmt::format("output '{}' is there twice", info.name));
    const Item* found = find(info.name);
    if (found == nullptr) bad(fmt::format("nothing gives the output '{}'", info.name));
    output(fmt::format("output.{}", info.name), *found, info);
  }
  if (program().outputs.empty()) bad("it has no outputs");
  describe_calls();
  program().bind_outputs();
}

// Of a sequence each element; an optional value that is empty is no output.
void Importer::output(const std::string& name, const Item& given, const ValueInfo& info) {
  if (given.kind == Item::Kind::none) return;
  if (given.kind == Item::Kind::sequence) {
    for (size_t i = 0; i < given.items.size(); ++i) output(fmt::format("{}.{}", name, i), given.items[i], info);
    return;
  }
  const ValueId v = tensor(given);
  if (info.kind.empty()) check_type(info, program().graph.type(v));
  program().outputs.push_back({name, v});
}

// What the model takes and gives, as a call of a module: a dict with the names of the outputs.
void Importer::describe_calls() {
  Program& p = program();
  const auto value = [](ValueId v) {
    Tree tree;
    tree.kind = Tree::Kind::value;
    tree.value = v;
    return tree;
  };
  ModuleCall& root = p.calls[0];
  for (const Input& input : p.inputs) root.args.emplace_back(input.name, value(input.value));
  root.output.kind = Tree::Kind::dict;
  Json keys = Json::array(), items = Json::array();
  for (const Output& output : p.outputs) {
    const std::string name = output.name.substr(std::string_view("output.").size());
    root.output.items.emplace_back(name, value(output.value));
    keys.push_back(name);
    items.push_back({{"kind", "tensor"}, {"name", output.name}});
  }
  recording_.output_tree = Json{{"kind", "dict"}, {"keys", keys}, {"items", items}}.dump();
}

namespace {

std::string described(const ValueInfo& info) {
  std::vector<std::string> sizes;
  if (info.dims)
    for (const ValueInfo::Dim& d : *info.dims)
      sizes.push_back(d.number ? fmt::format("{}", *d.number) : d.symbol.empty() ? "?" : std::string(d.symbol));
  return fmt::format("{}[{}]", name_of_type(info.type), fmt::join(sizes, ", "));
}

}  // namespace

void Importer::check_type(const ValueInfo& info, const Type& found) const {
  if (info.type == 0 && !info.dims) return;  // the file does not say
  const auto dtype = dtype_of(info.type);
  bool same = dtype == found.dtype && (!info.dims || info.dims->size() == found.shape.size());
  for (size_t i = 0; same && info.dims && i < info.dims->size(); ++i) {
    const auto stated = (*info.dims)[i].number, inferred = found.shape[i].maybe_number();
    same = !stated || !inferred || *stated == *inferred;
  }
  if (!same) bad(fmt::format("output '{}' has another type than the file says", info.name), described(info), found.text());
}

// ---- the file

Recording import_model(const std::shared_ptr<const Model>& model, const OpTable& table, std::vector<ImportedNode>* imported) {
  Importer importer(model, table);
  Recording recording = importer.run();
  if (imported == nullptr) return recording;
  if (importer.has_bodies())
    throw Error(ErrorCode::gap,
                fmt::format("{} has an If, Loop or Scan that stays in the program; a manifest of it cannot be written",
                            model->file.string()))
        .hint("every command takes the ONNX file itself");
  *imported = std::move(importer.imported());
  return recording;
}

Recording import_file(const std::filesystem::path& path, const OpTable& table) { return import_model(open(path), table); }

Analysis analyse(const std::filesystem::path& path, const OpTable& table) {
  const std::shared_ptr<const Model> model = open(path);
  Analysis analysis;
  analysis.name = path.stem().string();
  analysis.total = static_cast<int>(model->graph.nodes.size());
  analysis.gaps = Importer(model, table).gaps();
  analysis.supported = analysis.total;
  for (const Gap& gap : analysis.gaps) analysis.supported -= gap.count;
  return analysis;
}

}  // namespace pycandle::onnx
