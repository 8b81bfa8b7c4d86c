// A node: its inputs and attributes as arguments of a mapping, and names.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <stdexcept>

#include "base/error.h"
#include "import/onnx/importer_core.h"
#include "ops/core/onnx_helpers.h"

namespace pycandle::onnx {
namespace {

constexpr size_t kMostNodes = 1'000'000;

// 1e-05 and not 9.999999747378752e-06: the shortest number that is this float.
double shortest(float value) {
  double number = 0;
  const std::string text = fmt::format("{}", value);
  const auto [end, failed] = std::from_chars(text.data(), text.data() + text.size(), number);
  return failed == std::errc{} ? number : double{value};
}

void refuse_unknown_attributes(const Node& n, const OnnxEntry& entry) {
  std::set<std::string_view> seen;
  for (const Attribute& given : n.attributes) {
    if (!seen.insert(given.name).second)
      throw Error(ErrorCode::bad_input, fmt::format("attribute '{}' of {} is there twice", given.name, name_of(n)));
    const bool is_known = std::any_of(entry.arguments.begin(), entry.arguments.end(),
                                      [&](const OnnxArgument& a) { return !a.is_input && a.name == given.name; });
    if (!is_known) throw Error(ErrorCode::gap, fmt::format("attribute '{}' of {} is not supported", given.name, name_of(n)));
  }
}

template <class List, class F> Argument list_of(const List& list, F&& f) {
  Argument::List made;
  for (const auto each : list) made.push_back({f(each)});
  return {std::move(made)};
}

}  // namespace

std::string name_of(const Node& n) { return n.domain.empty() ? std::string(n.op) : fmt::format("{}.{}", n.domain, n.op); }

std::string place_of(const Node& n) {
  if (!n.name.empty()) return std::string(n.name);
  return n.outputs.empty() ? "a node without a name" : fmt::format("the node that gives '{}'", n.outputs[0]);
}

Scalar scalar_at(const Array& array) {
  if (is_complex(array.dtype())) return load_complex(array).at(0);
  if (array.dtype() == DType::boolean) return load_int(array).at(0) != 0;
  if (is_integral(array.dtype())) return load_int(array).at(0);
  return load_double(array).at(0);
}

const Attribute* find_attribute(const Node& n, std::string_view name) {
  for (const Attribute& a : n.attributes)
    if (a.name == name) return &a;
  return nullptr;
}

int64_t integer_attribute(const Node& n, std::string_view name, int64_t otherwise) {
  const Attribute* a = find_attribute(n, name);
  if (a == nullptr) return otherwise;
  if (const auto* v = std::get_if<int64_t>(&a->value)) return *v;
  throw Error(ErrorCode::bad_input, fmt::format("attribute '{}' of {} is not an integer", name, name_of(n)));
}

std::vector<int64_t> integers_attribute(const Node& n, std::string_view name) {
  const Attribute* a = find_attribute(n, name);
  if (a == nullptr) return {};
  if (const auto* v = std::get_if<std::vector<int64_t>>(&a->value)) return *v;
  throw Error(ErrorCode::bad_input, fmt::format("attribute '{}' of {} is not a list of integers", name, name_of(n)));
}

const OnnxEntry* Importer::entry_of(const Node& n, const Opsets& opsets) const {
  const std::string_view domain = n.domain == "ai.onnx" ? std::string_view() : n.domain;
  const auto version = opsets.find(domain);
  return onnx_.find(domain, n.op, version == opsets.end() ? 1 : version->second);
}

Importer::Special Importer::special_of(const Node& n) {
  static const std::map<std::string_view, Special> table = {
      {"Constant", &Importer::constant},
      {"If", &Importer::branch},
      {"Loop", &Importer::loop},
      {"Scan", &Importer::scan},
      {"Identity", &Importer::identity},
      {"SequenceMap", &Importer::sequence_map},
      {"SequenceConstruct", &Importer::sequence_construct},
      {"SequenceEmpty", &Importer::sequence_construct},
      {"SequenceInsert", &Importer::sequence_insert},
      {"SequenceErase", &Importer::sequence_erase},
      {"SequenceAt", &Importer::sequence_at},
      {"SequenceLength", &Importer::sequence_length},
      {"SplitToSequence", &Importer::split_to_sequence},
      {"ConcatFromSequence", &Importer::concat_from_sequence},
      {"Optional", &Importer::optional},
      {"OptionalGetElement", &Importer::optional_get_element},
      {"OptionalHasElement", &Importer::optional_has_element},
  };
  if (n.domain == "ai.onnx.preview" && n.op == "FlexAttention") return &Importer::flex_attention;
  if (!n.domain.empty() && n.domain != "ai.onnx") return nullptr;
  const auto found = table.find(n.op);
  return found == table.end() ? nullptr : found->second;
}

void Importer::nodes(const Graph& g) {
  for (const Node& n : g.nodes) {
    given_ = n.outputs.empty() ? std::string() : std::string(n.outputs[0]);
    b().origin.assigned_to = given_;
    if (&g == &model_->graph && n.op != "Constant") structure_.place(n, b().origin);
    try {
      node(n);
    } catch (Error& error) {
      throw error.op(name_of(n)).module_path(place_of(n));  // the innermost place stays
    } catch (const std::logic_error& broken) {  // a list that is shorter than its mapping expects, and the like
      throw Error(ErrorCode::bad_input, fmt::format("{} cannot be imported from these inputs", name_of(n)))
          .op(name_of(n))
          .found(broken.what())
          .module_path(place_of(n));
    }
  }
}

void Importer::node(const Node& given) {
  if (++read_ > kMostNodes)
    throw Error(ErrorCode::bad_input, fmt::format("loops and functions of the file come to more than {} nodes", kMostNodes));
  Node copy;
  const Node& n = resolved(given, copy);
  if (const Function* f = function_of(n)) return call(n, *f);
  if (const Special special = special_of(n)) return (this->*special)(n);
  mapped(n);
}

const Node& Importer::resolved(const Node& n, Node& copy) const {
  const bool refers = std::any_of(n.attributes.begin(), n.attributes.end(),
                                  [](const Attribute& a) { return !a.reference.empty(); });
  if (!refers) return n;
  if (frame_->function == nullptr)
    throw Error(ErrorCode::bad_input, "an attribute refers to one of a function, and stands in none");
  copy = n;
  copy.attributes.clear();
  for (const Attribute& a : n.attributes) {
    if (a.reference.empty()) {
      copy.attributes.push_back(a);
      continue;
    }
    for (const Attribute& given : frame_->attributes) {
      if (given.name != a.reference) continue;
      copy.attributes.push_back(given);
      copy.attributes.back().name = a.name;
    }
  }
  return copy;
}

// A constant of a function whose value is an attribute of the call; parameters() defined the others.
void Importer::constant(const Node& n) {
  if (n.outputs.size() != 1) throw Error(ErrorCode::bad_input, "a constant has one output");
  if (find(n.outputs[0]) != nullptr) return;
  const Array array = constant_value(*model_, n);
  if (array.rank() == 0) return define(n.outputs[0], number_item(scalar_at(array), array.dtype()));
  define(n.outputs[0], Item{Item::Kind::numbers, nullptr, kNoValue, std::make_shared<const Array>(array), {}});
}

void Importer::mapped(const Node& n) {
  const std::string of_torch = Structure::form_of_torch(n);
  const OnnxEntry* entry = of_torch.empty() ? entry_of(n, *frame_->opsets) : onnx_.find(of_torch);
  if (entry == nullptr) throw Error(ErrorCode::gap, fmt::format("{} is not supported", name_of(n)));
  // Where nothing is a tensor (Range) the numbers say what dtype the result has.
  Hints hints(n.outputs.size());
  const bool has_tensors = std::any_of(entry->arguments.begin(), entry->arguments.end(),
                                       [](const OnnxArgument& a) { return a.is_input && !a.is_known; });
  if (const Item first = item_or_none(n, 0); !has_tensors && !hints.empty() && first.kind != Item::Kind::none)
    hints[0] = Type{first.kind == Item::Kind::numbers ? first.numbers->dtype() : b().dtype(tensor(first)), {}};
  const Values made = apply(*entry, arguments(n, *entry), std::move(hints),
                            std::string(n.outputs.empty() ? n.name : n.outputs[0]));
  for (size_t i = 0; i < n.outputs.size(); ++i) {
    if (n.outputs[i].empty()) continue;
    if (i >= made.size() || made[i] == kNoValue)
      throw Error(ErrorCode::gap, fmt::format("output {} of {} is not supported", i, name_of(n)));
    define(n.outputs[i], made[i]);
  }
}

Values Importer::apply(const OnnxEntry& entry, std::vector<std::pair<std::string, Argument>> args, Hints hints,
                       const std::string& name) {
  const size_t results = hints.size();
  AtenCall c(b(), entry.overload, args, std::move(hints));
  const DataSizes sizes([this]() -> Dim {
    if (region_ != &root_) throw Error(ErrorCode::gap, "a size that data decides is not supported inside If, Loop or Scan");
    return new_symbol();
  });
  const Values made = entry.mapping->build ? entry.mapping->build(c) : build_from_pattern(c, *entry.op, *entry.mapping);
  if (const auto unread = c.unread(); !unread.empty())
    throw Error(ErrorCode::internal,
                fmt::format("'{}' of {} is not consumed by its mapping", fmt::join(unread, "', '"), entry.overload));
  region_->known.update(b().graph());
  if (region_ == &root_) {
    Values kept = made;
    kept.resize(results, kNoValue);
    imported_.push_back({entry.overload, std::move(args), std::move(kept), name, b().origin});
  }
  return made;
}

Values Importer::apply(std::string_view overload, std::vector<std::pair<std::string, Argument>> args, size_t results) {
  const OnnxEntry* entry = onnx_.find(overload);
  if (entry == nullptr) throw Error(ErrorCode::internal, fmt::format("the catalogue has no {}", overload));
  return apply(*entry, std::move(args), Hints(results), given_);
}

std::vector<std::pair<std::string, Argument>> Importer::arguments(const Node& n, const OnnxEntry& entry) {
  std::vector<std::pair<std::string, Argument>> args;
  size_t next = 0;
  for (const OnnxArgument& a : entry.arguments) {
    if (!a.is_input) {
      args.emplace_back(a.name, attribute(n, a));
      continue;
    }
    if (a.is_list) {
      Argument::List list;
      for (; next < n.inputs.size(); ++next) {
        if (n.inputs[next].empty())
          list.emplace_back();
        else
          list.push_back({Argument::Tensor{tensor(n.inputs[next])}});
      }
      args.emplace_back(a.name, Argument{std::move(list)});
      continue;
    }
    const Item given = item_or_none(n, next);
    const std::string_view name = next < n.inputs.size() ? n.inputs[next] : std::string_view();
    ++next;
    if (given.kind == Item::Kind::none && !a.is_optional)
      throw Error(ErrorCode::bad_input, fmt::format("{} has no input '{}'", name_of(n), a.name));
    args.emplace_back(a.name, given.kind == Item::Kind::none ? Argument{}
                              : a.is_known                   ? number(n, a.name, name)
                                                             : Argument{Argument::Tensor{tensor(given)}});
  }
  if (next < n.inputs.size())
    throw Error(ErrorCode::bad_input, fmt::format("{} has {} inputs", name_of(n), n.inputs.size()))
        .expected(fmt::format("at most {}", next));
  refuse_unknown_attributes(n, entry);
  return args;
}

Argument Importer::attribute(const Node& n, const OnnxArgument& a) {
  const Attribute* given = find_attribute(n, a.name);
  if (given == nullptr) {
    if (a.is_required) throw Error(ErrorCode::bad_input, fmt::format("{} has no attribute '{}'", name_of(n), a.name));
    return a.default_value;
  }
  if (const auto* v = std::get_if<float>(&given->value)) return {shortest(*v)};
  if (const auto* v = std::get_if<int64_t>(&given->value)) return {*v};
  if (const auto* v = std::get_if<std::string_view>(&given->value)) return {std::string(*v)};
  if (const auto* v = std::get_if<std::vector<float>>(&given->value)) return list_of(*v, shortest);
  if (const auto* v = std::get_if<std::vector<int64_t>>(&given->value)) return list_of(*v, [](int64_t each) { return each; });
  if (const auto* v = std::get_if<std::vector<std::string_view>>(&given->value))
    return list_of(*v, [](std::string_view each) { return std::string(each); });
  if (const auto* v = std::get_if<Tensor>(&given->value)) {
    const Array array = read(*model_, *v);
    if (array.size() == 1) return {Argument::Tensor{b().full(scalar_at(array), array.dtype())}};
    if (is_integral(array.dtype())) return list_of(load_int(array), [](int64_t each) { return each; });
    if (is_floating(array.dtype())) return list_of(load_double(array), [](double each) { return each; });
  }
  throw Error(ErrorCode::gap, fmt::format("attribute '{}' of {} is of a kind that is not supported", a.name, name_of(n)));
}

std::optional<Argument> Importer::known_number(const Item& given) {
  if (given.kind == Item::Kind::tensor) return region_->known.argument(b().graph(), tensor(given));
  if (given.kind != Item::Kind::numbers) return std::nullopt;
  KnownValues known(ranges_, *table_);
  pycandle::Graph alone;
  const ValueId v = alone.add_input(
      {given.numbers->dtype(), Shape(given.numbers->shape().begin(), given.numbers->shape().end())});
  known.set(v, *given.numbers);
  return known.argument(alone, v);
}

Argument Importer::number(const Node& n, std::string_view input, std::string_view name) {
  if (auto argument = known_number(item(name))) return *argument;
  throw Error(ErrorCode::gap, fmt::format("{} is not supported where its input '{}' depends on data", name_of(n), input))
      .expected("numbers, or sizes of the inputs")
      .found(fmt::format("'{}'", name));
}

// ---- names

void Importer::define(std::string_view name, Item value) {
  if (!scope_->values.emplace(name, std::move(value)).second) bad(fmt::format("value '{}' is given twice", name));
}

void Importer::define_all(const Node& n, const Items& values) {
  for (size_t i = 0; i < n.outputs.size(); ++i) {
    if (n.outputs[i].empty()) continue;
    if (i >= values.size()) throw Error(ErrorCode::bad_input, fmt::format("{} has no output {}", name_of(n), i));
    define(n.outputs[i], values[i]);
  }
}

const Item* Importer::find(std::string_view name) const {
  for (const Scope* scope = scope_; scope != nullptr; scope = scope->outer) {
    if (const auto found = scope->values.find(name); found != scope->values.end()) return &found->second;
    const auto stored = stored_.find(scope->graph);
    if (stored == stored_.end()) continue;
    if (const auto found = stored->second.find(name); found != stored->second.end()) return &found->second;
  }
  return nullptr;
}

const Item& Importer::item(std::string_view name) const {
  if (const Item* found = find(name)) return *found;
  throw Error(ErrorCode::bad_input, fmt::format("it reads '{}', which nothing before it gives", name));
}

Item Importer::item_or_none(const Node& n, size_t input) const {
  return input < n.inputs.size() && !n.inputs[input].empty() ? item(n.inputs[input]) : Item{};
}

ValueId Importer::tensor(const Item& given) {
  switch (given.kind) {
    case Item::Kind::tensor: return lifted(*region_, given.region, given.value);
    case Item::Kind::numbers: return materialised(*given.numbers);
    case Item::Kind::sequence: throw Error(ErrorCode::gap, "a sequence stands where a tensor is read");
    default: throw Error(ErrorCode::bad_input, "an optional value that is empty stands where a tensor is read");
  }
}

// What a body reads of the graph around it is an input of its own; numbers and sizes are made again inside.
ValueId Importer::lifted(Region& to, Region* from, ValueId v) {
  if (&to == from) return v;
  if (to.outer == nullptr) throw Error(ErrorCode::internal, "a value of a body is read outside it");
  const ValueId outside = lifted(*to.outer, from, v);
  for (const auto& [outer, inner] : to.captured)
    if (outer == outside) return inner;
  const pycandle::Graph& around = to.outer->builder.graph();
  const NodeId maker = around.values[outside].node;
  ValueId inside = kNoValue;
  if (maker != kNoNode && around.nodes[maker].op->name == "constant")
    inside = to.builder.full(scalar_of(around.nodes[maker].attributes.at(0).second), around.type(outside).dtype,
                             around.type(outside).shape);
  if (inside == kNoValue) {
    inside = to.builder.graph().add_input(around.type(outside));
    to.captured.emplace_back(outside, inside);
    to.known.adopt(to.outer->known, outside, inside);
  }
  to.known.update(to.builder.graph());
  return inside;
}

// A short list of the program.
ValueId Importer::materialised(const Array& array) {
  if (array.size() == 0 || array.rank() == 0) {
    const Shape shape(array.shape().begin(), array.shape().end());
    return b().full(array.size() == 0 ? Scalar{int64_t{0}} : scalar_at(array), array.dtype(), shape);
  }
  if (is_complex(array.dtype())) throw Error(ErrorCode::gap, "a complex constant of a function is an attribute of its call");
  const ValueId all = b().create(
      "numbers", {},
      {{"values", load_double(array)}, {"shape", Shape(array.shape().begin(), array.shape().end())}, {"dtype", array.dtype()}});
  region_->known.update(b().graph());
  return all;
}

Item Importer::number_item(const Scalar& number, DType dtype) {
  const ValueId v = b().full(number, dtype);
  region_->known.update(b().graph());
  return {Item::Kind::tensor, region_, v, nullptr, {}};
}

}  // namespace pycandle::onnx
