// Sequences and optional values. A program has neither: how long a sequence is, and whether a value is there, is known when the
// file is read.
#include <fmt/format.h>

#include "base/error.h"
#include "import/onnx/importer_core.h"

namespace pycandle::onnx {
namespace {

Item sequence_of(Items items) { return {Item::Kind::sequence, nullptr, kNoValue, nullptr, std::move(items)}; }

Argument whole(int64_t value) { return {value}; }

}  // namespace

const Items& Importer::sequence(const Node& n, size_t input) const {
  const Item& given = item(n.inputs.at(input));
  if (given.kind != Item::Kind::sequence)
    throw Error(ErrorCode::bad_input, fmt::format("input {} of {} is not a sequence", input, name_of(n)));
  return given.items;
}

// Negative positions count from the end; `count` is how many places there are.
int64_t Importer::position(const Node& n, size_t input, int64_t count, int64_t otherwise) {
  if (item_or_none(n, input).kind == Item::Kind::none) return otherwise;
  const Argument given = number(n, "position", n.inputs[input]);
  const auto* list = std::get_if<Argument::List>(&given.value);
  const auto* value = std::get_if<int64_t>(list != nullptr && list->size() == 1 ? &list->at(0).value : &given.value);
  if (value == nullptr) throw Error(ErrorCode::bad_input, fmt::format("the position of {} is not one integer", name_of(n)));
  const int64_t at = *value < 0 ? *value + count : *value;
  if (at < 0 || at >= count)
    throw Error(ErrorCode::bad_input, fmt::format("the position of {} is outside the sequence", name_of(n)))
        .expected(fmt::format("{} to {}", -count, count - 1))
        .found(fmt::format("{}", *value));
  return at;
}

void Importer::sequence_construct(const Node& n) {
  Items items;
  for (const std::string_view name : n.inputs) items.push_back(item(name));
  define_all(n, {sequence_of(std::move(items))});
}

void Importer::sequence_insert(const Node& n) {
  Items items = sequence(n, 0);
  const auto length = static_cast<int64_t>(items.size());
  // -1 is before the last element; the end is the length itself.
  int64_t at = length;
  if (item_or_none(n, 2).kind != Item::Kind::none) {
    const Argument given = number(n, "position", n.inputs[2]);
    const auto* list = std::get_if<Argument::List>(&given.value);
    const auto* value = std::get_if<int64_t>(list != nullptr && list->size() == 1 ? &list->at(0).value : &given.value);
    if (value == nullptr || *value < -length || *value > length)
      throw Error(ErrorCode::bad_input, "the position of SequenceInsert is outside the sequence");
    at = *value < 0 ? *value + length : *value;
  }
  items.insert(items.begin() + at, item(n.inputs.at(1)));
  define_all(n, {sequence_of(std::move(items))});
}

void Importer::sequence_erase(const Node& n) {
  Items items = sequence(n, 0);
  const auto length = static_cast<int64_t>(items.size());
  if (length == 0) throw Error(ErrorCode::bad_input, "SequenceErase of an empty sequence");
  items.erase(items.begin() + position(n, 1, length, length - 1));
  define_all(n, {sequence_of(std::move(items))});
}

void Importer::sequence_at(const Node& n) {
  const Items& items = sequence(n, 0);
  define_all(n, {items.at(static_cast<size_t>(position(n, 1, static_cast<int64_t>(items.size()), 0)))});
}

void Importer::sequence_length(const Node& n) {
  define_all(n, {number_item(static_cast<int64_t>(sequence(n, 0).size()), DType::i64)});
}

void Importer::split_to_sequence(const Node& n) {
  const ValueId x = tensor(n.inputs.at(0));
  const int64_t axis = b().normal_axis(integer_attribute(n, "axis", 0), b().rank(x));
  bool keeps = true;
  Argument::List sizes;
  const auto size = b().shape(x)[axis].maybe_number();
  if (item_or_none(n, 1).kind == Item::Kind::none) {
    if (!size) throw Error(ErrorCode::gap, "SplitToSequence is not supported where the size of its axis is open");
    keeps = integer_attribute(n, "keepdims", 1) != 0;
    sizes.assign(static_cast<size_t>(*size), whole(1));
  } else {
    const Argument given = number(n, "split", n.inputs[1]);
    if (const auto* list = std::get_if<Argument::List>(&given.value)) {
      sizes = *list;
    } else {
      const auto* part = std::get_if<int64_t>(&given.value);
      if (part == nullptr || *part < 1 || !size) throw Error(ErrorCode::gap, "SplitToSequence is not supported for these sizes");
      for (int64_t at = 0; at < *size; at += *part) sizes.push_back(whole(std::min(*part, *size - at)));
    }
  }
  const size_t count = sizes.size();
  Items items;
  if (count > 0) {
    const Values parts = apply("onnx.Split.13",
                               {{"x", {Argument::Tensor{x}}}, {"split", {std::move(sizes)}}, {"axis", whole(axis)}}, count);
    for (ValueId part : parts) {
      if (!keeps)
        part = apply("onnx.Squeeze.13", {{"x", {Argument::Tensor{part}}}, {"axes", {Argument::List{whole(axis)}}}}, 1).at(0);
      items.push_back({Item::Kind::tensor, region_, part, nullptr, {}});
    }
  }
  define_all(n, {sequence_of(std::move(items))});
}

void Importer::concat_from_sequence(const Node& n) {
  const Items& items = sequence(n, 0);
  if (items.empty()) throw Error(ErrorCode::bad_input, "ConcatFromSequence of an empty sequence");
  const bool is_new = integer_attribute(n, "new_axis", 0) != 0;
  int64_t axis = integer_attribute(n, "axis", 0);
  Argument::List parts;
  for (const Item& each : items) {
    ValueId part = tensor(each);
    if (is_new) {
      if (parts.empty()) axis = b().normal_axis(axis, b().rank(part) + 1);
      part = apply("onnx.Unsqueeze.13", {{"x", {Argument::Tensor{part}}}, {"axes", {Argument::List{whole(axis)}}}}, 1).at(0);
    }
    parts.push_back({Argument::Tensor{part}});
  }
  define_all(n, {{Item::Kind::tensor,
                  region_,
                  apply("onnx.Concat.4", {{"xs", {std::move(parts)}}, {"axis", whole(axis)}}, 1).at(0),
                  nullptr,
                  {}}});
}

void Importer::optional(const Node& n) { define_all(n, {item_or_none(n, 0)}); }

void Importer::optional_get_element(const Node& n) {
  const Item given = item_or_none(n, 0);
  if (given.kind == Item::Kind::none) throw Error(ErrorCode::bad_input, "OptionalGetElement of a value that is not there");
  define_all(n, {given});
}

void Importer::optional_has_element(const Node& n) {
  define_all(n, {number_item(item_or_none(n, 0).kind != Item::Kind::none, DType::boolean)});
}

void Importer::identity(const Node& n) {
  if (n.inputs.size() != 1) throw Error(ErrorCode::bad_input, "Identity has one input");
  const Item& given = item(n.inputs[0]);
  if (given.kind == Item::Kind::tensor || given.kind == Item::Kind::numbers) return mapped(n);
  define_all(n, {given});
}

}  // namespace pycandle::onnx
