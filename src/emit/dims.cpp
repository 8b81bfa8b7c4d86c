// Sizes in the words of the code around them: s1 is input_ids.dim(1).
#include <fmt/format.h>

#include <algorithm>
#include <cctype>

#include "base/dim_real.h"
#include "emit/draft.h"

namespace pycandle::emit {
namespace {

std::optional<std::string> find(Dim d, const Graph& g, const Values& scope, const SpellDim& spell) {
  for (const ValueId v : scope) {
    const Shape& shape = g.type(v).shape;
    for (size_t axis = 0; axis < shape.size(); ++axis) {
      if (shape[axis] == d) return spell(v, axis);
    }
  }
  return {};
}

// As a few times a size, or a part of one: [batch * tokens, width] inside becomes [2 * batch * tokens, width].
std::optional<std::string> find_multiple(Dim d, const Graph& g, const Values& scope, const SpellDim& spell) {
  constexpr int64_t kMost = 64;
  for (const ValueId v : scope) {
    const Shape& shape = g.type(v).shape;
    for (size_t axis = 0; axis < shape.size(); ++axis) {
      if (shape[axis].is_number()) continue;
      for (int64_t k = 2; k <= kMost; ++k) {
        if (shape[axis] * Dim(k) == d) return fmt::format("{} * {}", k, spell(v, axis));
        if (d * Dim(k) == shape[axis]) return fmt::format("{} / {}", spell(v, axis), k);
      }
    }
  }
  return {};
}

// Behind the parenthesis that closes the one at `open`.
size_t end_of_call(const std::string& text, size_t open) {
  int depth = 0;
  for (size_t at = open; at < text.size(); ++at) {
    depth += text[at] == '(' ? 1 : text[at] == ')' ? -1 : 0;
    if (depth == 0) return at + 1;
  }
  return text.size();
}

bool is_word(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }

}  // namespace

std::optional<std::string> write_dim(Dim d, const Graph& g, const Values& scope, const SpellDim& spell,
                                     const std::function<bool(const std::string&)>& data) {
  if (d.is_number()) return std::to_string(d.number());
  if (auto found = find(d, g, scope, spell)) return found;
  // The canonical text, with its symbols replaced; functions of symbols that nobody here knows may be a size as a whole.
  const std::string text = d.text();
  const auto written = [&](bool whole_functions) -> std::optional<std::string> {
    std::string out;
    for (size_t at = 0; at < text.size();) {
      if (!is_word(text[at])) {
        out += text[at] == '*' || text[at] == '/' ? fmt::format(" {} ", text[at]) : std::string(1, text[at]);
        ++at;
        continue;
      }
      size_t end = at;
      while (end < text.size() && is_word(text[end])) ++end;
      const std::string word = text.substr(at, end - at);
      if (is_dim_function(word) && whole_functions) {
        const size_t last = end_of_call(text, end);
        if (const auto found = find(Dim::parse(text.substr(at, last - at)), g, scope, spell)) {
          out += *found;
          at = last;
          continue;
        }
      }
      at = end;
      if (is_dim_function(word) || std::isdigit(static_cast<unsigned char>(word[0])) != 0) {
        out += word;
        continue;
      }
      const auto found = find(Dim::symbol(word), g, scope, spell);
      if (!found && !(data && data(word))) return {};
      out += found ? *found : word;
    }
    return out;
  };
  if (auto said = written(false)) return said;
  if (auto said = written(true)) return said;
  return find_multiple(d, g, scope, spell);
}

std::optional<Dim> unsaid_size(const CallTree& tree, int32_t call) {
  const Graph& g = tree.program().graph;
  Values scope = tree.body(call).inputs;
  const auto fine = [&](Dim d) {
    return write_dim(
               d, g, scope, [](ValueId, size_t) { return std::string(); },
               [&](const std::string& symbol) { return tree.binds(call, symbol); })
        .has_value();
  };
  for (const Unit& unit : tree.body(call).units) {
    if (unit.call >= 0) {
      const Values& results = tree.body(unit.call).outputs;
      scope.insert(scope.end(), results.begin(), results.end());
      continue;
    }
    const NodeId n = unit.node;
    for (size_t i = 0; i < tree.implicit().operand_count(n); ++i) {
      const Dim* d = std::get_if<Dim>(&tree.implicit().operand(n, i));
      if (d && !fine(*d)) return *d;
    }
    for (const auto& [name, value] : g.nodes[n].attributes) {
      if (const Dim* d = std::get_if<Dim>(&value); d && !fine(*d)) return *d;
      if (const Dims* dims = std::get_if<Dims>(&value)) {
        const auto unsaid = std::find_if_not(dims->begin(), dims->end(), fine);
        if (unsaid != dims->end()) return *unsaid;
      }
    }
    scope.insert(scope.end(), g.nodes[n].results.begin(), g.nodes[n].results.end());
  }
  return std::nullopt;
}

}  // namespace pycandle::emit
