#include "runtime/states.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <utility>

#include "base/error.h"
#include "base/safetensors.h"
#include "params/type_check.h"

namespace pycandle {
namespace {

bool overlap(const Array& a, const Array& b) {
  const auto begin = [](const Array& x) { return static_cast<const std::byte*>(x.data()); };
  const std::less<> before;
  return a.bytes() != 0 && b.bytes() != 0 && before(begin(a), begin(b) + b.bytes()) && before(begin(b), begin(a) + a.bytes());
}

std::string listed(const StateTypes& types) {
  std::vector<std::string> texts;
  for (const auto& [name, type] : types) texts.push_back(fmt::format("{}: {}", name, type.text()));
  return texts.empty() ? "no states" : fmt::format("{}", fmt::join(texts, ", "));
}

}  // namespace

StateTypes state_types(const Program& p) {
  StateTypes types;
  for (const State& s : p.states) types.emplace(s.name, p.graph.type(s.value));
  return types;
}

void check_states(const StateTypes& types, const std::map<std::string, Array>& given, Expected expected,
                  const std::string& where) {
  std::vector<std::string> unknown, missing;
  for (const auto& [name, value] : given) {
    const auto type = types.find(name);
    if (type == types.end()) {
      unknown.push_back(name);
    } else {
      check_type(value, "state " + name, type->second, where);
    }
  }
  for (const auto& [name, type] : types) {
    if (expected == Expected::every && given.count(name) == 0) missing.push_back(name);
  }
  if (unknown.empty() && missing.empty()) return;
  std::vector<std::string> found;
  for (const auto& [name, value] : given) found.push_back(name);
  throw Error(ErrorCode::bad_input, missing.empty() ? fmt::format("the model has no state {}", fmt::join(unknown, ", "))
                                                    : fmt::format("the state {} is missing", fmt::join(missing, ", ")))
      .expected(listed(types))
      .found(fmt::format("{} in {}", found.empty() ? "nothing" : fmt::format("{}", fmt::join(found, ", ")), where));
}

void save_states(const std::filesystem::path& path, const std::map<std::string, Array>& states) {
  write_safetensors(path, states, {{"format", "pycandle.states"}});
}

std::map<std::string, Array> load_states(const std::filesystem::path& path, const StateTypes& types) {
  const Safetensors file = Safetensors::open(path);
  std::map<std::string, Array> states;
  for (const auto& [name, entry] : file.entries()) states.emplace(name, file.get(name));
  check_states(types, states, Expected::every, path.string());
  return copies_of(states);  // the file may be replaced or changed while the model runs
}

Array copy_of(const Array& array) {
  Array copy(array.dtype(), array.shape());
  if (array.bytes() != 0) std::memcpy(copy.mutable_data(), array.data(), array.bytes());
  return copy;
}

std::map<std::string, Array> copies_of(const std::map<std::string, Array>& arrays) {
  std::map<std::string, Array> copies;
  for (const auto& [name, array] : arrays) copies.emplace(name, copy_of(array));
  return copies;
}

std::vector<Array> run_with_states(const Executable& executable, RunRequest request, std::vector<Array>& states) {
  std::vector<Array> next = states;
  request.states = &next;
  std::vector<Array> outputs = executable.run(request);
  const auto is_shared = [&](const Array& state) {
    const auto shares = [&](const Array& other) { return overlap(state, other); };
    return std::any_of(request.inputs.begin(), request.inputs.end(), shares) ||
           std::any_of(outputs.begin(), outputs.end(), shares);
  };
  for (Array& state : next) {
    if (is_shared(state)) state = copy_of(state);
  }
  states = std::move(next);
  return outputs;
}

}  // namespace pycandle
