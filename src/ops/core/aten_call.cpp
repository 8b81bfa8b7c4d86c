#include "ops/core/aten_call.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace pycandle {
namespace {

template <class... F> struct Overloaded : F... {
  using F::operator()...;
};
template <class... F> Overloaded(F...) -> Overloaded<F...>;

std::string describe(const Argument& argument) {
  return std::visit(Overloaded{
                        [](std::monostate) -> std::string { return "None"; },
                        [](bool v) -> std::string { return v ? "True" : "False"; },
                        [](int64_t v) { return fmt::format("{}", v); },
                        [](double v) { return to_string(Scalar{v}); },
                        [](std::complex<double> v) { return to_string(Scalar{v}); },
                        [](const std::string& v) { return "'" + v + "'"; },
                        [](Dim v) { return "size " + v.text(); },
                        [](DType v) { return "dtype " + std::string(name_of(v)); },
                        [](Argument::Tensor) -> std::string { return "a tensor"; },
                        [](const Argument::Device& v) { return "device " + v.name; },
                        [](const Argument::Layout& v) { return "layout " + v.name; },
                        [](const Argument::MemoryFormat& v) { return "memory format " + v.name; },
                        [](Argument::Subgraph) -> std::string { return "a subgraph"; },
                        [](const Argument::List& v) { return fmt::format("a list of {}", v.size()); },
                    },
                    argument.value);
}

std::optional<Scalar> as_scalar(const Argument& a) {
  if (auto* v = std::get_if<bool>(&a.value)) return Scalar{*v};
  if (auto* v = std::get_if<int64_t>(&a.value)) return Scalar{*v};
  if (auto* v = std::get_if<double>(&a.value)) return Scalar{*v};
  if (auto* v = std::get_if<std::complex<double>>(&a.value)) return Scalar{*v};
  if (auto* v = std::get_if<Dim>(&a.value)) {
    if (auto number = v->maybe_number()) return Scalar{*number};
  }
  return {};
}

std::optional<Dim> as_dim(const Argument& a) {
  if (auto* v = std::get_if<int64_t>(&a.value)) return Dim(*v);
  if (auto* v = std::get_if<bool>(&a.value)) return Dim(int64_t{*v});
  if (auto* v = std::get_if<Dim>(&a.value)) return *v;
  return {};
}

std::optional<int64_t> as_integer(const Argument& a) {
  auto dim = as_dim(a);
  return dim ? dim->maybe_number() : std::nullopt;
}

std::optional<double> as_number(const Argument& a) {
  auto scalar = as_scalar(a);
  if (!scalar || std::holds_alternative<std::complex<double>>(*scalar)) return {};
  return as_double(*scalar);
}

constexpr std::pair<int64_t, DType> kScalarTypes[] = {
    {0, DType::u8},  {1, DType::i8},  {2, DType::i16}, {3, DType::i32},   {4, DType::i64},      {5, DType::f16},
    {6, DType::f32}, {7, DType::f64}, {9, DType::c64}, {10, DType::c128}, {11, DType::boolean}, {15, DType::bf16}};

bool absent(const Argument& a) { return std::holds_alternative<std::monostate>(a.value); }

// One element for each entry of a list, or for the argument itself when it is a single number (torch expands int[2]).
template <class T> std::optional<std::vector<T>> each(const Argument& a, std::optional<T> (*read)(const Argument&)) {
  std::vector<T> out;
  if (auto single = read(a)) return std::vector<T>{*single};
  auto* list = std::get_if<Argument::List>(&a.value);
  if (!list) return {};
  for (const Argument& entry : *list) {
    auto value = read(entry);
    if (!value) return {};
    out.push_back(*value);
  }
  return out;
}

}  // namespace

const Argument& AtenCall::find(std::string_view name, bool mark) {
  for (size_t i = 0; i < args_.size(); ++i) {
    if (args_[i].first != name) continue;
    if (mark) read_[i] = true;
    return args_[i].second;
  }
  throw Error(ErrorCode::bad_input, fmt::format("{} has no argument '{}'", overload_, name))
      .op(overload_)
      .hint("the manifest was written for another version of the operator; record the model again");
}

void AtenCall::wrong_kind(std::string_view name, const char* expected) {
  throw Error(ErrorCode::bad_input, fmt::format("argument '{}' of {} is of the wrong kind", name, overload_))
      .expected(expected)
      .found(describe(find(name, false)))
      .op(overload_);
}

bool AtenCall::has_argument(std::string_view name) const {
  for (auto& [n, argument] : args_)
    if (n == name) return true;
  return false;
}

bool AtenCall::is_none(std::string_view name) {
  bool none = absent(find(name, false));
  if (none) find(name, true);
  return none;
}

bool AtenCall::has_tensor(std::string_view name) const {
  const auto is_tensor = [](const Argument& a) { return std::holds_alternative<Argument::Tensor>(a.value); };
  for (const auto& [argument_name, argument] : args_) {
    if (argument_name != name) continue;
    const auto* list = std::get_if<Argument::List>(&argument.value);
    return is_tensor(argument) || (list && std::any_of(list->begin(), list->end(), is_tensor));
  }
  return false;
}

ValueId AtenCall::tensor(std::string_view name) {
  auto value = maybe_tensor(name);
  if (!value) wrong_kind(name, "a tensor");
  return *value;
}

std::optional<ValueId> AtenCall::maybe_tensor(std::string_view name) {
  const Argument& a = find(name, true);
  if (absent(a)) return {};
  if (auto* t = std::get_if<Argument::Tensor>(&a.value)) return t->value;
  // A number where torch takes a tensor is a 0-d tensor of the number's default dtype.
  if (auto s = as_scalar(a)) return materialise(b, *s, result_type(b, {*s}));
  wrong_kind(name, "a tensor");
}

Values AtenCall::tensors(std::string_view name) {
  Values values;
  for (const Argument* entry : list(name)) {
    if (absent(*entry)) {
      values.push_back(kNoValue);
    } else if (auto* t = std::get_if<Argument::Tensor>(&entry->value)) {
      values.push_back(t->value);
    } else {
      wrong_kind(name, "a list of tensors");
    }
  }
  return values;
}

Values AtenCall::given_tensors(std::string_view name) {
  Values values = tensors(name);
  bool complete = !values.empty() && std::find(values.begin(), values.end(), kNoValue) == values.end();
  if (!complete) wrong_kind(name, "a list of at least one tensor");
  return values;
}

Operand AtenCall::operand(std::string_view name) {
  const Argument& a = find(name, true);
  if (auto* t = std::get_if<Argument::Tensor>(&a.value)) return t->value;
  if (auto s = as_scalar(a)) return *s;
  if (auto* d = std::get_if<Dim>(&a.value)) return *d;
  wrong_kind(name, "a tensor or a number");
}

Scalar AtenCall::scalar(std::string_view name) {
  auto value = maybe_scalar(name);
  if (!value) wrong_kind(name, "a number");
  return *value;
}

std::optional<Scalar> AtenCall::maybe_scalar(std::string_view name) {
  const Argument& a = find(name, true);
  if (absent(a)) return {};
  if (auto s = as_scalar(a)) return s;
  if (std::holds_alternative<Dim>(a.value)) unsupported(fmt::format("a symbolic size as '{}'", name));
  wrong_kind(name, "a number");
}

bool AtenCall::boolean(std::string_view name) {
  const Argument& a = find(name, true);
  if (auto* v = std::get_if<bool>(&a.value)) return *v;
  if (auto* v = std::get_if<int64_t>(&a.value)) return *v != 0;
  wrong_kind(name, "a bool");
}

int64_t AtenCall::integer(std::string_view name) {
  const Argument& a = find(name, true);
  if (auto v = as_integer(a)) return *v;
  if (std::holds_alternative<Dim>(a.value)) unsupported(fmt::format("a symbolic size as '{}'", name));
  wrong_kind(name, "an integer");
}

Dim AtenCall::dim(std::string_view name) {
  auto value = maybe_dim(name);
  if (!value) wrong_kind(name, "an integer or a size");
  return *value;
}

std::optional<Dim> AtenCall::maybe_dim(std::string_view name) {
  const Argument& a = find(name, true);
  if (absent(a)) return {};
  if (auto d = as_dim(a)) return d;
  wrong_kind(name, "an integer or a size");
}

Dims AtenCall::dims(std::string_view name) {
  auto value = maybe_dims(name);
  return value ? *value : Dims{};
}

std::optional<Dims> AtenCall::maybe_dims(std::string_view name) {
  const Argument& a = find(name, true);
  if (absent(a)) return {};
  if (auto list = each<Dim>(a, as_dim)) return *list;
  wrong_kind(name, "a list of sizes");
}

Ints AtenCall::integers(std::string_view name) {
  auto value = maybe_integers(name);
  return value ? *value : Ints{};
}

std::optional<Ints> AtenCall::maybe_integers(std::string_view name) {
  const Argument& a = find(name, true);
  if (absent(a)) return {};
  if (auto list = each<int64_t>(a, as_integer)) return *list;
  if (each<Dim>(a, as_dim)) unsupported(fmt::format("a symbolic size in '{}'", name));
  wrong_kind(name, "a list of integers");
}

double AtenCall::number(std::string_view name) {
  auto value = maybe_number(name);
  if (!value) wrong_kind(name, "a number");
  return *value;
}

std::optional<double> AtenCall::maybe_number(std::string_view name) {
  const Argument& a = find(name, true);
  if (absent(a)) return {};
  if (auto v = as_number(a)) return v;
  if (std::holds_alternative<Dim>(a.value)) unsupported(fmt::format("a symbolic size as '{}'", name));
  wrong_kind(name, "a number");
}

Numbers AtenCall::numbers(std::string_view name) {
  const Argument& a = find(name, true);
  if (absent(a)) return {};
  if (auto list = each<double>(a, as_number)) return *list;
  wrong_kind(name, "a list of numbers");
}

std::string AtenCall::string(std::string_view name) {
  auto value = maybe_string(name);
  if (!value) wrong_kind(name, "a string");
  return *value;
}

std::optional<std::string> AtenCall::maybe_string(std::string_view name) {
  const Argument& a = find(name, true);
  if (absent(a)) return {};
  if (auto* v = std::get_if<std::string>(&a.value)) return *v;
  wrong_kind(name, "a string");
}

std::optional<DType> AtenCall::dtype(std::string_view name) {
  const Argument& a = find(name, true);
  if (absent(a)) return {};
  if (auto* v = std::get_if<DType>(&a.value)) return *v;
  // A default in torch's schema is the number of its ScalarType.
  if (auto* number = std::get_if<int64_t>(&a.value))
    for (auto [scalar_type, dtype] : kScalarTypes)
      if (scalar_type == *number) return dtype;
  wrong_kind(name, "a dtype");
}

std::vector<const Argument*> AtenCall::list(std::string_view name) {
  const Argument& a = find(name, true);
  if (absent(a)) return {};
  auto* entries = std::get_if<Argument::List>(&a.value);
  if (!entries) wrong_kind(name, "a list");
  std::vector<const Argument*> out;
  for (const Argument& entry : *entries) out.push_back(&entry);
  return out;
}

int32_t AtenCall::subgraph(std::string_view name) {
  const Argument& a = find(name, true);
  if (auto* v = std::get_if<Argument::Subgraph>(&a.value)) return v->index;
  wrong_kind(name, "a subgraph");
}

void AtenCall::discard(std::string_view name, const char* /*why: for the reader*/) { find(name, true); }

void AtenCall::discard_placement() {
  for (const char* name : {"layout", "device", "pin_memory", "memory_format", "non_blocking"}) {
    if (!has_argument(name)) continue;
    const Argument& a = find(name, true);
    auto* layout = std::get_if<Argument::Layout>(&a.value);
    if (layout && layout->name != "strided") unsupported("layout=" + layout->name);
  }
}

const Type& AtenCall::result(size_t i) const {
  if (i < results_.size() && results_[i]) return *results_[i];
  throw Error(ErrorCode::bad_input, fmt::format("{} was recorded without result {}", overload_, i)).op(overload_);
}

std::vector<std::string> AtenCall::argument_names() const {
  std::vector<std::string> names;
  for (auto& [name, argument] : args_) names.push_back(name);
  return names;
}

std::vector<std::string> AtenCall::unread() const {
  std::vector<std::string> names;
  for (size_t i = 0; i < args_.size(); ++i)
    if (!read_[i]) names.push_back(args_[i].first);
  return names;
}

void AtenCall::expects(bool holds, const char* rule) const {
  if (!holds) throw Error(ErrorCode::bad_input, fmt::format("{} expects {}", overload_, rule)).op(overload_);
}

void AtenCall::unsupported(const std::string& what) {
  throw Error(ErrorCode::gap, fmt::format("{} with {} is not supported", overload_, what)).op(overload_);
}

namespace {

Attribute read_attribute(AtenCall& c, const std::string& name, const AttrSpec& spec) {
  if (c.is_none(name)) return Attribute{};
  switch (spec.kind) {
    case AttrKind::boolean: return c.boolean(name);
    case AttrKind::integer: return c.integer(name);
    case AttrKind::number: return c.number(name);
    case AttrKind::scalar: return attribute(c.scalar(name));
    case AttrKind::string: return c.string(name);
    case AttrKind::dtype: return *c.dtype(name);
    case AttrKind::dim: return c.dim(name);
    case AttrKind::integers: return c.integers(name);
    case AttrKind::numbers: return c.numbers(name);
    case AttrKind::dims: return c.dims(name);
  }
  internal_error("unknown attribute kind");
}

std::vector<std::string> split_names(const std::string& pattern) {
  std::vector<std::string> names;
  std::string name;
  for (char ch : pattern + ",") {
    if (ch == ',') {
      if (!name.empty()) names.push_back(name);
      name.clear();
    } else if (ch != ' ') {
      name += ch;
    }
  }
  return names;
}

}  // namespace

Values build_from_pattern(AtenCall& c, const OpDef& op, const AtenMapping& mapping) {
  const std::vector<std::string> arguments = c.argument_names();
  const std::vector<std::string> names = split_names(mapping.pattern);
  if (names.size() != arguments.size())
    throw Error(ErrorCode::bad_input, fmt::format("{} was recorded with {} arguments", c.overload(), arguments.size()))
        .expected(fmt::format("{}: {}", names.size(), mapping.pattern))
        .found(fmt::format("{}", fmt::join(arguments, ", ")))
        .op(c.overload())
        .hint("the manifest was written for another version of the operator; record the model again");

  auto argument_of = [&](const std::string& wanted) -> const std::string* {
    for (size_t i = 0; i < names.size(); ++i)
      if (names[i] == wanted) return &arguments[i];
    return nullptr;
  };
  for (size_t i = 0; i < names.size(); ++i)
    if (names[i] == "_") c.discard(arguments[i], "the pattern says why");

  Values operands;
  for (const OperandSpec& spec : op.operand_specs) {
    const std::string* argument = argument_of(spec.name);
    if (spec.kind == OperandSpec::Kind::variadic) {
      if (argument) {
        for (ValueId v : c.tensors(*argument)) operands.push_back(v);
      }
    } else if (spec.kind == OperandSpec::Kind::optional) {
      operands.push_back(argument ? c.maybe_tensor(*argument).value_or(kNoValue) : kNoValue);
    } else {
      if (!argument) internal_error(fmt::format("the pattern of {} does not name operand {}", c.overload(), spec.name));
      operands.push_back(c.tensor(*argument));
    }
  }
  Attributes attributes;
  for (const AttrSpec& spec : op.attr_specs)
    if (const std::string* argument = argument_of(spec.name)) {
      Attribute value = read_attribute(c, *argument, spec);
      if (!std::holds_alternative<std::monostate>(value) || spec.optional) attributes.emplace_back(spec.name, std::move(value));
    }
  return c.b.create_all(op.name, std::move(operands), std::move(attributes));
}

}  // namespace pycandle
