#include "ir/op_def.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "ir/builder.h"

namespace pycandle {

std::string_view name_of(AttrKind kind) {
  static constexpr std::string_view names[] = {"boolean", "integer", "number",   "scalar",  "string",
                                               "dtype",   "dim",     "integers", "numbers", "dims"};
  return names[static_cast<size_t>(kind)];
}

namespace {

template <class T> bool holds(const Attribute& attribute) { return std::holds_alternative<T>(attribute); }

bool is_scalar(const Attribute& a) {
  return holds<bool>(a) || holds<int64_t>(a) || holds<double>(a) || holds<std::complex<double>>(a);
}

}  // namespace

bool is_of_kind(const Attribute& attribute, AttrKind kind) {
  switch (kind) {
    case AttrKind::boolean: return holds<bool>(attribute);
    case AttrKind::integer: return holds<int64_t>(attribute);
    case AttrKind::number: return holds<double>(attribute);
    case AttrKind::scalar: return is_scalar(attribute);
    case AttrKind::string: return holds<std::string>(attribute);
    case AttrKind::dtype: return holds<DType>(attribute);
    case AttrKind::dim: return holds<Dim>(attribute);
    case AttrKind::integers: return holds<Ints>(attribute);
    case AttrKind::numbers: return holds<Numbers>(attribute);
    case AttrKind::dims: return holds<Dims>(attribute);
  }
  return false;
}

std::optional<Attribute> converted(const Attribute& attribute, AttrKind kind) {
  if (is_of_kind(attribute, kind)) return attribute;
  if (const auto* integer = std::get_if<int64_t>(&attribute)) {
    if (kind == AttrKind::number) return Attribute(static_cast<double>(*integer));
    if (kind == AttrKind::dim) return Attribute(Dim(*integer));
  } else if (const auto* integers = std::get_if<Ints>(&attribute)) {
    if (kind == AttrKind::numbers) return Attribute(Numbers(integers->begin(), integers->end()));
    if (kind == AttrKind::dims) return Attribute(Dims(integers->begin(), integers->end()));
  } else if (const auto* dim = std::get_if<Dim>(&attribute)) {
    if (!dim->is_number()) return {};
    if (kind == AttrKind::integer || kind == AttrKind::scalar) return Attribute(dim->number());
    if (kind == AttrKind::number) return Attribute(static_cast<double>(dim->number()));
  } else if (const auto* dims = std::get_if<Dims>(&attribute)) {
    if (kind != AttrKind::integers || !all_numbers(*dims)) return {};
    Ints numbers;
    for (Dim d : *dims) numbers.push_back(d.number());
    return Attribute(std::move(numbers));
  }
  return {};
}

// ---- Call

namespace {

[[noreturn]] void no_such(const OpDef& op, const char* what, std::string_view name) {
  internal_error(fmt::format("{} has no {} '{}'", op.name, what, name));
}

size_t fixed_operand(const OpDef& op, std::string_view name) {
  int index = op.operand_index(name);
  if (index < 0 || op.operand_specs[index].kind == OperandSpec::Kind::variadic) no_such(op, "operand", name);
  return static_cast<size_t>(index);
}

template <class T> const T& attribute_as(const Call& call, std::string_view name, const char* kind) {
  const Attribute& attribute = call.attribute(name);
  if (const T* value = std::get_if<T>(&attribute)) return *value;
  internal_error(fmt::format("attribute '{}' of {} is {}, not of kind {}", name, call.op().name, to_string(attribute), kind));
}

}  // namespace

ValueId Call::value(std::string_view name) const {
  auto found = maybe(name);
  if (!found) internal_error(fmt::format("operand '{}' of {} is absent", name, op_->name));
  return *found;
}

std::optional<ValueId> Call::maybe(std::string_view name) const {
  size_t index = fixed_operand(*op_, name);
  if (index >= operands_->size() || (*operands_)[index] == kNoValue) return {};
  return (*operands_)[index];
}

Values Call::values(std::string_view name) const {
  size_t fixed = op_->fixed_operands();
  if (!op_->has_variadic() || op_->operand_specs[fixed].name != name) no_such(*op_, "variadic operand", name);
  if (operands_->size() <= fixed) return {};
  return Values(operands_->begin() + static_cast<std::ptrdiff_t>(fixed), operands_->end());
}

bool Call::has(std::string_view name) const {
  if (op_->attribute_index(name) >= 0) return !holds<std::monostate>(attribute(name));
  if (op_->has_variadic() && op_->operand_specs.back().name == name) return !values(name).empty();
  return maybe(name).has_value();
}

const Attribute& Call::attribute(std::string_view name) const {
  for (const auto& [key, value] : *attributes_) {
    if (key == name) return value;
  }
  no_such(*op_, "attribute", name);
}

bool Call::boolean(std::string_view name) const { return attribute_as<bool>(*this, name, "boolean"); }
int64_t Call::integer(std::string_view name) const { return attribute_as<int64_t>(*this, name, "integer"); }
double Call::number(std::string_view name) const { return attribute_as<double>(*this, name, "number"); }
const std::string& Call::string(std::string_view name) const { return attribute_as<std::string>(*this, name, "string"); }
DType Call::dtype(std::string_view name) const { return attribute_as<DType>(*this, name, "dtype"); }
Dim Call::dim(std::string_view name) const { return attribute_as<Dim>(*this, name, "dim"); }
const Ints& Call::integers(std::string_view name) const { return attribute_as<Ints>(*this, name, "integers"); }
const Numbers& Call::numbers(std::string_view name) const { return attribute_as<Numbers>(*this, name, "numbers"); }
const Dims& Call::dims(std::string_view name) const { return attribute_as<Dims>(*this, name, "dims"); }
Scalar Call::scalar(std::string_view name) const { return scalar_of(attribute(name)); }

bool Call::agree(Dim left, Dim right, std::string_view what) const {
  if (!builder_) return equal(left, right) != Tri::no;
  return builder_->check(left, right, what.empty() ? "dims of " + op_->name : fmt::format("{} of {}", what, op_->name));
}

bool Call::agree(const Shape& left, const Shape& right, std::string_view what) const {
  if (left.size() != right.size()) return false;
  // A pair that cannot be equal comes first, so that a refused call leaves no checks behind.
  for (size_t i = 0; i < left.size(); ++i) {
    if (equal(left[i], right[i]) == Tri::no) return false;
  }
  for (size_t i = 0; i < left.size(); ++i) {
    if (!agree(left[i], right[i], fmt::format("{}dim {}", what.empty() ? "" : std::string(what) + " ", i))) return false;
  }
  return true;
}

std::string Call::text() const {
  std::string text = op_->name + "(";
  size_t fixed = op_->fixed_operands();
  for (size_t i = 0; i < operands_->size(); ++i) {
    if (i) text += ", ";
    const std::string& name = op_->operand_specs.at(std::min(i, fixed)).name;
    ValueId id = (*operands_)[i];
    text += i < fixed ? name : fmt::format("{}[{}]", name, i - fixed);
    text += ": " + (id == kNoValue ? std::string("_") : type(id).text());
  }
  text += ")";
  if (attributes_->empty()) return text;
  text += " {";
  for (const auto& [name, value] : *attributes_) {
    if (text.back() != '{') text += ", ";
    text += name + " = " + to_string(value);
  }
  return text + "}";
}

// ---- OpDef

OpDef primitive(std::string name) {
  OpDef op;
  op.name = std::move(name);
  op.is_primitive = true;
  return op;
}

OpDef functional(std::string name) {
  OpDef op;
  op.name = std::move(name);
  return op;
}

OpDef& OpDef::evaluator(std::function<Array(const Evaluation&)> f) {
  evaluate = [f = std::move(f)](const Evaluation& e) { return std::vector<Array>{f(e)}; };
  return *this;
}

OpDef& OpDef::decompose(std::function<ValueId(Builder&, const Call&)> f) {
  decomposition = [f = std::move(f)](Builder& b, const Call& c) { return Values{f(b, c)}; };
  return *this;
}

OpDef& OpDef::also_written_as(std::function<ValueId(Builder&, const Call&)> f) {
  spellings.emplace_back([f = std::move(f)](Builder& b, const Call& c) { return Values{f(b, c)}; });
  return *this;
}

OpDef& OpDef::from_aten_call(std::string overload, std::function<Values(AtenCall&)> build) {
  aten.push_back({std::move(overload), "", {}, std::move(build)});
  return *this;
}

OpDef& OpDef::add_pattern(std::string pattern, std::vector<std::string> discards) {
  size_t open = pattern.find('(');
  if (open == 0 || open == std::string::npos || pattern.back() != ')') {
    internal_error(fmt::format("{}: '{}' is not of the form aten.name.overload(a, b, _)", name, pattern));
  }
  aten.push_back({pattern.substr(0, open), pattern.substr(open + 1, pattern.size() - open - 2), std::move(discards), {}});
  return *this;
}

namespace {

template <class Specs> int index_of(const Specs& specs, std::string_view name) {
  auto found = std::find_if(specs.begin(), specs.end(), [&](const auto& spec) { return spec.name == name; });
  return found == specs.end() ? -1 : static_cast<int>(found - specs.begin());
}

}  // namespace

int OpDef::operand_index(std::string_view operand) const { return index_of(operand_specs, operand); }
int OpDef::attribute_index(std::string_view attribute) const { return index_of(attr_specs, attribute); }
size_t OpDef::fixed_operands() const {
  bool variadic = !operand_specs.empty() && operand_specs.back().kind == OperandSpec::Kind::variadic;
  return operand_specs.size() - (variadic ? 1 : 0);
}

// ---- OpTable

namespace {

bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }

// Names stand in the text form, so they must read back: letters, digits, _ and (ops only) dots.
bool is_name(std::string_view name, bool dots) {
  return !name.empty() && is_letter(name[0]) && std::all_of(name.begin(), name.end(), [&](char c) {
    return is_letter(c) || (c >= '0' && c <= '9') || (dots && c == '.');
  });
}

void check_pattern(const OpDef& op, const AtenMapping& mapping) {
  auto wrong = [&](const std::string& what) {
    internal_error(fmt::format("{}: the pattern of {} {}", op.name, mapping.overload, what));
  };
  size_t discarded = 0;
  std::string_view rest = mapping.pattern;
  while (!rest.empty()) {
    size_t comma = std::min(rest.find(','), rest.size());
    std::string_view token = rest.substr(0, comma);
    rest.remove_prefix(std::min(comma + 1, rest.size()));
    while (!token.empty() && token.front() == ' ') token.remove_prefix(1);
    while (!token.empty() && token.back() == ' ') token.remove_suffix(1);
    if (token == "_") {
      ++discarded;
    } else if (op.operand_index(token) < 0 && op.attribute_index(token) < 0) {
      wrong(fmt::format("names '{}', which is neither an operand nor an attribute", token));
    }
  }
  if (discarded != mapping.discards.size()) {
    wrong(fmt::format("has {} '_' and {} reasons for discarding", discarded, mapping.discards.size()));
  }
}

void check_definition(const OpDef& op) {
  auto wrong = [&](const std::string& what) { internal_error(fmt::format("op '{}': {}", op.name, what)); };
  if (!is_name(op.name, true)) wrong("its name has other characters than letters, digits, '_' and '.'");
  if (!op.infer_types) wrong("it has no type inference");
  if (op.is_primitive && op.decomposition) wrong("a primitive has no decomposition");
  if (!op.is_primitive && op.evaluate) wrong("a functional has no evaluator");
  std::set<std::string, std::less<>> names;
  for (const OperandSpec& spec : op.operand_specs) {
    if (!is_name(spec.name, false) || !names.insert(spec.name).second)
      wrong("operand '" + spec.name + "' is misnamed or named twice");
    if (spec.kind == OperandSpec::Kind::variadic && &spec != &op.operand_specs.back())
      wrong("its variadic operand is not the last one");
  }
  for (const AttrSpec& spec : op.attr_specs) {
    if (!is_name(spec.name, false) || !names.insert(spec.name).second)
      wrong("attribute '" + spec.name + "' is misnamed or named twice");
    bool absent = spec.default_value && holds<std::monostate>(*spec.default_value);
    if (spec.default_value && !(absent && spec.optional) && !converted(*spec.default_value, spec.kind)) {
      wrong(fmt::format("the default of '{}' is not of kind {}", spec.name, name_of(spec.kind)));
    }
  }
  for (const AtenMapping& mapping : op.aten) {
    if (!mapping.build) check_pattern(op, mapping);
  }
  for (size_t open = op.torch.text.find('{'); open != std::string::npos; open = op.torch.text.find('{', open + 1)) {
    const std::string name = op.torch.text.substr(open + 1, op.torch.text.find('}', open) - open - 1);
    if (name != "xs…" && op.operand_index(name) < 0 && op.attribute_index(name) < 0)
      wrong("its torch spelling names '" + name + "', which is neither an operand nor an attribute");
  }
  if (op.is_activation && op.called_as.empty()) wrong("people put it after a layer, but it is not said what they call it");
}

}  // namespace

void OpTable::add(OpDef definition) {
  check_definition(definition);
  if (by_name_.count(definition.name)) internal_error(fmt::format("op '{}' is defined twice", definition.name));
  const OpDef& op = *ops_.emplace_back(std::make_unique<OpDef>(std::move(definition)));
  by_name_.emplace(op.name, &op);
  for (const AtenMapping& mapping : op.aten) {
    if (mapping.overload.starts_with("onnx.")) continue;  // ops/core/onnx_mapping.h has a table of its own
    auto [entry, is_new] = aten_.emplace(mapping.overload, AtenEntry{&op, &mapping});
    if (!is_new) internal_error(fmt::format("{} maps to both '{}' and '{}'", mapping.overload, entry->second.op->name, op.name));
  }
}

const OpDef* OpTable::find(std::string_view name) const {
  auto found = by_name_.find(name);
  return found == by_name_.end() ? nullptr : found->second;
}

const OpDef& OpTable::at(std::string_view name) const {
  const OpDef* op = find(name);
  if (!op) internal_error(fmt::format("there is no op '{}'", name));
  return *op;
}

const OpTable::AtenEntry* OpTable::find_aten(std::string_view overload) const {
  auto found = aten_.find(overload);
  return found == aten_.end() ? nullptr : &found->second;
}

}  // namespace pycandle
