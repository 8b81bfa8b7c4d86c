#include "import/onnx/onnx_importer.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <set>
#include <stdexcept>
#include <unordered_map>

#include "base/error.h"
#include "base/json.h"
#include "import/onnx/known_values.h"
#include "ir/verifier.h"
#include "ops/core/onnx_mapping.h"

namespace pycandle::onnx {
namespace {

std::string name_of(const Node& n) { return n.domain.empty() ? std::string(n.op) : fmt::format("{}.{}", n.domain, n.op); }

// Its own name, or what it gives.
std::string place_of(const Node& n) {
  if (!n.name.empty()) return std::string(n.name);
  return n.outputs.empty() ? "a node without a name" : fmt::format("the node that gives '{}'", n.outputs[0]);
}

// 1e-05 and not 9.999999747378752e-06: the shortest number that is this float.
double shortest(float value) {
  double number = 0;
  const std::string text = fmt::format("{}", value);
  const auto [end, failed] = std::from_chars(text.data(), text.data() + text.size(), number);
  return failed == std::errc{} ? number : double{value};
}

class Importer {
 public:
  Importer(std::shared_ptr<const Model> model, const OpTable& table)
      : model_(std::move(model)),
        onnx_(table),
        builder_(program().graph, table, &program().checks, &ranges_),
        known_(ranges_) {}

  Recording run() {
    refuse_what_is_not_read();
    about();
    inputs();
    parameters();
    nodes(model_->graph);
    outputs();
    verify(program(), "import");
    return std::move(recording_);
  }

  std::vector<ImportedNode>& imported() { return imported_; }

  // What no mapping takes, by operator.
  std::vector<Gap> gaps() const {
    std::map<std::string, Gap> found;
    collect_gaps(model_->graph, found);
    std::vector<Gap> all;
    for (auto& [op, gap] : found) all.push_back(std::move(gap));
    std::stable_sort(all.begin(), all.end(), [](const Gap& a, const Gap& b) { return a.count > b.count; });
    return all;
  }

 private:
  Program& program() { return recording_.program; }
  std::string file() const { return model_->file.string(); }

  int64_t opset_of(const Node& n) const {
    const auto found = model_->opsets.find(n.domain == "ai.onnx" ? std::string_view() : n.domain);
    return found == model_->opsets.end() ? 0 : found->second;
  }
  const OnnxEntry* entry_of(const Node& n) const {
    return onnx_.find(n.domain == "ai.onnx" ? std::string_view() : n.domain, n.op, opset_of(n));
  }
  static bool is_own(const Node& n, std::string_view op) { return n.op == op && (n.domain.empty() || n.domain == "ai.onnx"); }

  void collect_gaps(const Graph& g, std::map<std::string, Gap>& found) const {
    for (const Node& n : g.nodes) {
      if (is_own(n, "Constant") || is_own(n, "If") || entry_of(n) != nullptr) continue;
      Gap& gap = found[name_of(n)];
      gap.op = name_of(n);
      gap.reason = onnx_.knows(n.domain, n.op) ? fmt::format("{} is not supported in the form of opset {}", gap.op, opset_of(n))
                                               : fmt::format("{} is not supported", gap.op);
      if (++gap.count <= 3) gap.places.push_back(place_of(n));
    }
  }

  void refuse_what_is_not_read() const {
    const std::vector<Gap> missing = gaps();
    if (!missing.empty()) {
      std::string text;
      for (const Gap& gap : missing)
        text += fmt::format("{}{}, {} times: {}", text.empty() ? "" : "\n", gap.reason, gap.count, fmt::join(gap.places, ", "));
      throw Error(ErrorCode::gap, fmt::format("{} has operators that are not supported", file()))
          .found(text)
          .hint("pycandle ops lists what is; record the model from PyTorch where there is one");
    }
    if (model_->graph.has_sparse_initializers)
      throw Error(ErrorCode::gap, file() + " has sparse initializers, which are not supported");
  }

  void about() {
    Program& p = program();
    p.name = model_->file.stem().string();
    recording_.folder = model_->file.parent_path().empty() ? "." : model_->file.parent_path();
    recording_.model_class = std::string(model_->graph.name);
    recording_.notes.push_back(fmt::format("read from an ONNX file of {} {}", model_->producer, model_->producer_version));
    ModuleCall root;
    root.class_name = std::string(model_->graph.name);
    p.calls.push_back(std::move(root));
    builder_.origin.call = 0;
  }

  [[noreturn]] void bad(const std::string& what, const std::string& expected = {}, const std::string& found = {}) const {
    throw Error(ErrorCode::bad_input, fmt::format("{}: {}", file(), what)).expected(expected).found(found);
  }

  void define(std::string_view name, ValueId value) {
    if (!values_.emplace(name, value).second) bad(fmt::format("value '{}' is given twice", name));
  }

  // ---- inputs and parameters

  Type type_of(const ValueInfo& info) const {
    if (!info.kind.empty())
      throw Error(ErrorCode::gap, fmt::format("{}: '{}' is {}, which is not supported", file(), info.name, info.kind));
    const auto dtype = dtype_of(info.type);
    if (!dtype)
      throw Error(ErrorCode::gap, fmt::format("{}: '{}' has elements of {}, which are not supported", file(), info.name,
                                              name_of_type(info.type)));
    return {*dtype, {}};
  }

  void inputs() {
    for (const ValueInfo& info : model_->graph.inputs) {
      if (model_->tensors.contains(info.name)) continue;  // before IR 4 initializers were listed among the inputs
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

  // A size that is not said is a symbol of its own; one with a name is the same wherever the name stands.
  Dim dim_of(const ValueInfo& info, size_t axis) {
    const ValueInfo::Dim& d = (*info.dims)[axis];
    if (d.number) {
      if (*d.number < 0) bad(fmt::format("input '{}' has a negative size", info.name), {}, fmt::format("{}", *d.number));
      return *d.number;
    }
    if (!d.symbol.empty())
      if (const auto known = symbols_.find(d.symbol); known != symbols_.end()) return known->second;
    Symbol symbol;
    symbol.name = fmt::format("s{}", program().symbols.size());
    symbol.range.min = 1;
    symbol.example = axis == 0 ? 1 : 16;
    symbol.input = std::string(info.name);
    symbol.axis = static_cast<int32_t>(axis);
    const Dim dim = Dim::symbol(symbol.name);
    if (!d.symbol.empty()) {
      recording_.notes.push_back(fmt::format("{} is {} in the ONNX file", symbol.name, d.symbol));
      symbols_.emplace(d.symbol, dim);
    }
    program().symbols.push_back(std::move(symbol));
    return dim;
  }

  // Which values are read as tensors, and not only as numbers that fix a shape.
  void collect_reads(const Graph& g, std::set<std::string_view>& reads) const {
    for (const ValueInfo& output : g.outputs) reads.insert(output.name);
    for (const Node& n : g.nodes) {
      const OnnxEntry* entry = entry_of(n);
      for (size_t i = 0; i < n.inputs.size(); ++i) {
        const bool is_number = is_own(n, "If") || (entry && i < entry->arguments.size() && entry->arguments[i].is_known);
        if (!is_number) reads.insert(n.inputs[i]);
      }
      for (const Attribute& a : n.attributes)
        if (const auto* inner = std::get_if<std::shared_ptr<const Graph>>(&a.value)) collect_reads(**inner, reads);
    }
  }

  // Initializers, and what Constant nodes give: a number is part of the program, a tensor is a parameter with its name.
  void parameters() {
    std::set<std::string_view> reads;
    collect_reads(model_->graph, reads);
    for (const auto& [name, tensor] : model_->tensors) parameter(name, reads.contains(name));
    for (const auto& [name, node] : model_->constants) parameter(name, reads.contains(name));
    // Numbers stand after all inputs of the graph.
    for (const auto& [name, array] : numbers_) define_number(name, array);
  }

  void parameter(std::string_view name, bool is_read) {
    Array array = *model_->value(name);
    Parameter p;
    p.name = std::string(name);
    p.type.dtype = array.dtype();
    p.type.shape.assign(array.shape().begin(), array.shape().end());
    p.kind = is_inexact(array.dtype()) && !model_->constants.contains(name) ? Parameter::Kind::parameter
                                                                            : Parameter::Kind::constant;
    p.file = model_->file.filename().string();
    p.key = p.name;
    const bool is_number = array.rank() == 0 || !is_read;
    if (!is_number) {
      p.value = program().graph.add_input(p.type);
      define(name, p.value);
      known_.set(p.value, array);
    }
    const bool is_listed = !is_number || !model_->constants.contains(name);
    if (is_number) numbers_.emplace_back(name, std::move(array));
    if (is_listed) program().parameters.push_back(std::move(p));
  }

  // A scalar is a constant. What is only read as numbers (a shape) has a value that nobody uses.
  void define_number(std::string_view name, const Array& array) {
    if (array.rank() == 0) {
      define(name, builder_.full(scalar_at(array), array.dtype()));
      known_.update(program().graph);
      return;
    }
    only_numbers_.emplace(name, array);
  }

  static Scalar scalar_at(const Array& array) {
    if (is_complex(array.dtype())) return load_complex(array).at(0);
    if (array.dtype() == DType::boolean) return load_int(array).at(0) != 0;
    if (is_integral(array.dtype())) return load_int(array).at(0);
    return load_double(array).at(0);
  }

  // ---- nodes

  void nodes(const Graph& g) {
    for (const Node& n : g.nodes) {
      builder_.origin.assigned_to = n.outputs.empty() ? std::string() : std::string(n.outputs[0]);
      try {
        if (is_own(n, "Constant")) continue;  // parameters() defined it
        if (is_own(n, "If"))
          branch(n);
        else
          node(n);
      } catch (Error& error) {
        throw error.op(name_of(n)).module_path(place_of(n));
      } catch (const std::logic_error& broken) {  // a list that is shorter than its mapping expects, and the like
        throw Error(ErrorCode::bad_input, fmt::format("{} cannot be imported from these inputs", name_of(n)))
            .found(broken.what())
            .module_path(place_of(n));
      }
    }
  }

  void node(const Node& n) {
    const OnnxEntry& entry = *entry_of(n);
    std::vector<std::pair<std::string, Argument>> args = arguments(n, entry);
    AtenCall call(builder_, entry.overload, args, std::vector<std::optional<Type>>(n.outputs.size()));
    const Values made = entry.mapping->build ? entry.mapping->build(call) : build_from_pattern(call, *entry.op, *entry.mapping);
    if (const auto unread = call.unread(); !unread.empty())
      throw Error(ErrorCode::internal,
                  fmt::format("'{}' of {} is not consumed by its mapping", fmt::join(unread, "', '"), entry.overload));
    for (size_t i = 0; i < n.outputs.size(); ++i) {
      if (n.outputs[i].empty()) continue;
      if (i >= made.size() || made[i] == kNoValue)
        throw Error(ErrorCode::gap, fmt::format("output {} of {} is not supported", i, name_of(n)));
      define(n.outputs[i], made[i]);
    }
    known_.update(program().graph);
    Values results = made;
    results.resize(n.outputs.size(), kNoValue);
    imported_.push_back(
        {entry.overload, std::move(args), std::move(results), std::string(n.outputs.empty() ? n.name : n.outputs[0])});
  }

  std::vector<std::pair<std::string, Argument>> arguments(const Node& n, const OnnxEntry& entry) {
    std::vector<std::pair<std::string, Argument>> args;
    size_t next = 0;
    for (const OnnxArgument& a : entry.arguments) {
      if (!a.is_input) {
        args.emplace_back(a.name, attribute(n, a));
        continue;
      }
      if (a.is_list) {
        Argument::List list;
        for (; next < n.inputs.size(); ++next) list.push_back({Argument::Tensor{value(n.inputs[next])}});
        args.emplace_back(a.name, Argument{std::move(list)});
        continue;
      }
      const std::string_view name = next < n.inputs.size() ? n.inputs[next] : std::string_view();
      ++next;
      if (name.empty() && !a.is_optional)
        throw Error(ErrorCode::bad_input, fmt::format("{} has no input '{}'", name_of(n), a.name));
      args.emplace_back(a.name, name.empty() ? Argument{}
                                : a.is_known ? number(n, a, name)
                                             : Argument{Argument::Tensor{value(name)}});
    }
    if (next < n.inputs.size())
      throw Error(ErrorCode::bad_input, fmt::format("{} has {} inputs", name_of(n), n.inputs.size()))
          .expected(fmt::format("at most {}", next));
    refuse_unknown_attributes(n, entry);
    return args;
  }

  static void refuse_unknown_attributes(const Node& n, const OnnxEntry& entry) {
    std::set<std::string_view> seen;
    for (const Attribute& given : n.attributes) {
      if (!seen.insert(given.name).second)
        throw Error(ErrorCode::bad_input, fmt::format("attribute '{}' of {} is there twice", given.name, name_of(n)));
      const bool is_known = std::any_of(entry.arguments.begin(), entry.arguments.end(),
                                        [&](const OnnxArgument& a) { return !a.is_input && a.name == given.name; });
      if (!is_known) throw Error(ErrorCode::gap, fmt::format("attribute '{}' of {} is not supported", given.name, name_of(n)));
    }
  }

  ValueId value(std::string_view name) {
    if (const auto found = values_.find(name); found != values_.end()) return found->second;
    throw Error(ErrorCode::bad_input, fmt::format("it reads '{}', which nothing before it gives", name));
  }

  // An input that fixes a shape or an axis.
  Argument number(const Node& n, const OnnxArgument& a, std::string_view name) {
    if (const auto found = only_numbers_.find(name); found != only_numbers_.end()) {
      KnownValues known(ranges_);
      Type type{found->second.dtype(), Shape(found->second.shape().begin(), found->second.shape().end())};
      pycandle::Graph alone;
      const ValueId v = alone.add_input(std::move(type));
      known.set(v, found->second);
      if (auto argument = known.argument(alone, v)) return *argument;
    } else if (auto argument = known_.argument(program().graph, value(name))) {
      return *argument;
    }
    throw Error(ErrorCode::gap, fmt::format("{} is not supported where its input '{}' depends on data", name_of(n), a.name))
        .expected("numbers, or sizes of the inputs")
        .found(fmt::format("'{}'", name));
  }

  Argument attribute(const Node& n, const OnnxArgument& a) {
    for (const Attribute& given : n.attributes) {
      if (given.name != a.name) continue;
      if (const auto* v = std::get_if<float>(&given.value)) return {shortest(*v)};
      if (const auto* v = std::get_if<int64_t>(&given.value)) return {*v};
      if (const auto* v = std::get_if<std::string_view>(&given.value)) return {std::string(*v)};
      Argument::List list;
      if (const auto* v = std::get_if<std::vector<float>>(&given.value)) {
        for (const float each : *v) list.push_back({shortest(each)});
        return {std::move(list)};
      }
      if (const auto* v = std::get_if<std::vector<int64_t>>(&given.value)) {
        for (const int64_t each : *v) list.push_back({each});
        return {std::move(list)};
      }
      if (const auto* v = std::get_if<std::vector<std::string_view>>(&given.value)) {
        for (const std::string_view each : *v) list.push_back({std::string(each)});
        return {std::move(list)};
      }
      if (const auto* v = std::get_if<Tensor>(&given.value)) {
        const Array array = read(*model_, *v);
        if (array.size() == 1) return {Argument::Tensor{builder_.full(scalar_at(array), array.dtype())}};
      }
      throw Error(ErrorCode::gap, fmt::format("attribute '{}' of {} is of a kind that is not supported", a.name, name_of(n)));
    }
    if (a.is_required) throw Error(ErrorCode::bad_input, fmt::format("{} has no attribute '{}'", name_of(n), a.name));
    return a.default_value;
  }

  // A branch that is known to be taken is part of the graph around it.
  void branch(const Node& n) {
    if (n.inputs.size() != 1) throw Error(ErrorCode::bad_input, fmt::format("If has {} inputs", n.inputs.size())).expected("1");
    const Argument condition = number(n, {"cond", true, false, true, false, {}, false}, n.inputs[0]);
    const auto* list = std::get_if<Argument::List>(&condition.value);
    if (list != nullptr && list->size() != 1) throw Error(ErrorCode::bad_input, "the condition of If is not one bool");
    const auto* taken = std::get_if<bool>(list != nullptr ? &list->at(0).value : &condition.value);
    if (taken == nullptr) throw Error(ErrorCode::bad_input, "the condition of If is not a bool");
    for (const Attribute& a : n.attributes) {
      if (a.name != (*taken ? "then_branch" : "else_branch")) continue;
      const auto* inner = std::get_if<std::shared_ptr<const Graph>>(&a.value);
      if (inner == nullptr || (*inner)->outputs.size() != n.outputs.size()) break;
      nodes(**inner);
      for (size_t i = 0; i < n.outputs.size(); ++i)
        if (!n.outputs[i].empty()) define(n.outputs[i], value((*inner)->outputs[i].name));
      return;
    }
    throw Error(ErrorCode::bad_input, "a branch of If is missing, or has other outputs than If");
  }

  // ---- outputs

  void outputs() {
    Program& p = program();
    std::set<std::string_view> seen;
    for (const ValueInfo& info : model_->graph.outputs) {
      if (!seen.insert(info.name).second) bad(fmt::format("output '{}' is there twice", info.name));
      const auto found = values_.find(info.name);
      if (found == values_.end()) bad(fmt::format("nothing gives the output '{}'", info.name));
      check_type(info, p.graph.type(found->second));
      p.outputs.push_back({fmt::format("output.{}", info.name), found->second});
    }
    if (p.outputs.empty()) bad("it has no outputs");
    describe_calls();
    p.bind_outputs();
  }

  // What the model takes and gives, as a call of a module: a dict with the names of the outputs.
  void describe_calls() {
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

  void check_type(const ValueInfo& info, const Type& found) const {
    const auto dtype = dtype_of(info.type);
    bool same = dtype == found.dtype && (!info.dims || info.dims->size() == found.shape.size());
    for (size_t i = 0; same && info.dims && i < info.dims->size(); ++i) {
      const auto stated = (*info.dims)[i].number, inferred = found.shape[i].maybe_number();
      same = !stated || !inferred || *stated == *inferred;
    }
    if (!same) bad(fmt::format("output '{}' has another type than the file says", info.name), described(info), found.text());
  }

  static std::string described(const ValueInfo& info) {
    std::vector<std::string> sizes;
    if (info.dims)
      for (const ValueInfo::Dim& d : *info.dims)
        sizes.push_back(d.number ? fmt::format("{}", *d.number) : d.symbol.empty() ? "?" : std::string(d.symbol));
    return fmt::format("{}[{}]", name_of_type(info.type), fmt::join(sizes, ", "));
  }

  std::shared_ptr<const Model> model_;
  OnnxTable onnx_;
  Recording recording_;
  SymbolRanges ranges_;
  Builder builder_;
  KnownValues known_;
  std::unordered_map<std::string_view, ValueId> values_;
  std::map<std::string_view, Dim> symbols_;
  std::vector<std::pair<std::string_view, Array>> numbers_;
  std::map<std::string_view, Array> only_numbers_;  // never read as tensors
  std::vector<ImportedNode> imported_;
};

}  // namespace

Recording import_model(const std::shared_ptr<const Model>& model, const OpTable& table, std::vector<ImportedNode>* imported) {
  Importer importer(model, table);
  Recording recording = importer.run();
  if (imported != nullptr) *imported = std::move(importer.imported());
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
