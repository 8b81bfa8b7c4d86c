#include "verify/judging/goldens.h"

#include <fmt/format.h>

#include <algorithm>

#include "backends/backend.h"
#include "base/error.h"

namespace pycandle {

Goldens::Goldens(const Program& p, const std::filesystem::path& trace, Types types)
    : file_(Safetensors::open(trace)), key_of_(p.graph.values.size()) {
  for (const Input& input : p.inputs) {
    const std::string key = "input:" + input.name;
    if (!file_.contains(key)) {
      throw Error(ErrorCode::bad_input, fmt::format("the trace file has no golden for input {}", input.name))
          .expected(key)
          .found(fmt::format("{} other tensors in {}", file_.entries().size(), file_.name()))
          .hint("record the model again; a recording of a meta-device model has no goldens");
    }
    if (is_pairs(key, p.graph.type(input.value))) pairs_.insert(key);
    inputs_.push_back(read(key));
    key_of_[input.value] = key;
  }
  sizes_ = bind_inputs(p, inputs_);
  for (const State& state : p.states) add(p, state.value, key_before(state), {TapId::Kind::state_before, state.name}, types);
  for (const Tap& tap : p.taps) {
    if (!tap.inside) add(p, tap.value, tap.key, tap.id, types);
  }
  for (const Output& output : p.outputs) add(p, output.value, "output:" + output.name, {TapId::Kind::output, output.name}, types);
  for (const State& state : p.states) {
    if (state.updated != kNoValue) add(p, state.updated, key_after(state), {TapId::Kind::state_after, state.name}, types);
  }
}

std::string key_before(const State& state) { return TapId(TapId::Kind::state_before, state.name).text(); }
std::string key_after(const State& state) { return TapId(TapId::Kind::state_after, state.name).text(); }

// The first golden of a value counts; the golden budget may have left any of them out.
void Goldens::add(const Program& p, ValueId v, const std::string& key, const TapId& tap, Types types) {
  const auto entry = file_.entries().find(key);
  if (entry == file_.entries().end()) return;
  const Type& type = p.graph.type(v);
  Sizes found = entry->second.shape;
  const bool pairs = is_pairs(key, type);
  if (pairs) {
    pairs_.insert(key);
    found.pop_back();
  }
  bool agrees = (pairs || entry->second.dtype == type.dtype) && static_cast<int64_t>(found.size()) == type.rank();
  for (size_t axis = 0; agrees && axis < found.size(); ++axis) {
    std::vector<std::string> symbols;
    type.shape[axis].collect_symbols(symbols);
    if (symbols.size() == 1 && type.shape[axis] == Dim::symbol(symbols[0]))
      sizes_.emplace(symbols[0], found[axis]);  // bound by data
    const bool is_open = std::any_of(symbols.begin(), symbols.end(), [&](const auto& s) { return sizes_.count(s) == 0; });
    agrees = is_open || type.shape[axis].evaluate(sizes_) == found[axis];
  }
  if (!agrees && types == Types::may_differ) {
    mistyped_.push_back({v, tap, key, fmt::format("{}{}", name_of(entry->second.dtype), to_string(found)), type.text()});
    return;
  }
  if (!agrees) {
    throw Error(ErrorCode::bad_input, fmt::format("the golden {} has another type than the program says", key))
        .expected(type.text())
        .found(fmt::format("{}{} in {}", name_of(entry->second.dtype), to_string(found), file_.name()));
  }
  std::string& known = key_of_[v];
  if (known.empty()) known = key;
  value_of_.emplace(key, v);
}

ValueId Goldens::value_of(const std::string& key) const {
  const auto found = value_of_.find(key);
  return found == value_of_.end() ? kNoValue : found->second;
}

std::optional<Array> Goldens::updated(const State& state) const { return result(key_after(state)); }

std::optional<Array> Goldens::result(const std::string& key) const {
  const bool is_mistyped = std::any_of(mistyped_.begin(), mistyped_.end(), [&](const Mistyped& m) { return m.key == key; });
  if (!file_.contains(key) || is_mistyped) return std::nullopt;
  return read(key);
}

void Goldens::release() const {
  if (const auto& mapped = file_.file()) mapped->release(mapped->data(), mapped->size());
}

bool Goldens::is_pairs(const std::string& key, const Type& type) const {
  const auto& entry = file_.entries().at(key);
  return type.dtype == DType::c128 && entry.dtype == DType::f64 && static_cast<int64_t>(entry.shape.size()) == type.rank() + 1 &&
         entry.shape.back() == 2;
}

Array Goldens::read(const std::string& key) const {
  const Array stored = file_.get(key);
  if (pairs_.count(key) == 0) return stored;
  const Sizes shape(stored.shape().begin(), stored.shape().end() - 1);
  return Array(DType::c128, shape, stored.data(), std::make_shared<Array>(stored));
}

PerValue<bool> known_values(const Program& p, const Goldens& goldens) {
  PerValue<bool> known(p.graph.values.size());
  for (size_t v = 0; v < known.size(); ++v) known[v] = goldens.has(static_cast<ValueId>(v));
  for (const State& s : p.states) known[s.value] = true;
  return known;
}

std::vector<Array> known_arrays(const Program& p, const Goldens& goldens, const ParameterSource& parameters,
                                const Values& values) {
  std::vector<Array> arrays;
  for (ValueId v : values) {
    if (goldens.has(v)) {
      arrays.push_back(goldens.get(v));
      continue;
    }
    const auto state = std::find_if(p.states.begin(), p.states.end(), [&](const State& s) { return s.value == v; });
    require(state != p.states.end(), "a slice begins with goldens and states");
    arrays.push_back(parameters.get_state(*state, p.graph.type(v)));  // an old recording: its first call
  }
  return arrays;
}

std::vector<Array> states_before(const Program& p, const Goldens& goldens, const ParameterSource& parameters) {
  Values values;
  for (const State& state : p.states) values.push_back(state.value);
  return known_arrays(p, goldens, parameters, values);
}

}  // namespace pycandle
