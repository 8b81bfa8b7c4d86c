// What Rust code can be written of: refusals by name, decompositions of what the crate lacks.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>

#include "emit/rust/expression.h"
#include "emit/rust/layers.h"
#include "emit/rust/printer.h"
#include "passes/decode_step.h"
#include "passes/passes.h"

namespace pycandle::emit::rust {
namespace {

struct Missing {
  int count = 0;
  std::vector<std::string> places;
};

std::string place_of(const Program& p, const Node& node) {
  std::string place = p.module_path(node.origin);
  const std::string line = p.file_line(node.origin);
  if (!line.empty()) place += (place.empty() ? "" : ", ") + line;
  return place.empty() ? "the model itself" : place;
}

std::string types_of(const Program& p, const Node& node) {
  std::vector<std::string> types;
  for (const ValueId v : node.operands) {
    if (v != kNoValue) types.push_back(p.graph.type(v).text());
  }
  return fmt::format("{}", fmt::join(types, ", "));
}

void refuse_what_is_missing(const Program& p) {
  std::map<std::string, Missing> missing;
  for (const Node& node : p.graph.nodes) {
    const Call call(*node.op, p.graph, node.operands, node.attributes, node.regions);
    if (node.regions.empty() && !node.op->is_random && is_spelled(call)) continue;
    Missing& m = missing[fmt::format("{} of ({})", node.op->name, types_of(p, node))];
    ++m.count;
    if (m.places.size() < 3) m.places.push_back(place_of(p, node));
  }
  if (missing.empty()) return;
  std::vector<std::string> found;
  for (const auto& [what, m] : missing) {
    found.push_back(
        fmt::format("{}{}, in {}", what, m.count > 1 ? fmt::format(", {} times", m.count) : "", fmt::join(m.places, " and ")));
  }
  throw Error(ErrorCode::gap, "the Rust crate lacks what this model needs")
      .found(fmt::format("{}", fmt::join(found, "; ")))
      .hint("--target cpp has it; or run the portable program from Rust: pycandle bundle, then the C ABI");
}

}  // namespace

Program prepared(Program p, const OpTable& table) {
  const bool is_decode_step = std::any_of(p.graph.nodes.begin(), p.graph.nodes.end(),
                                          [](const Node& node) { return node.op->name == "cache_append"; });
  if (!p.states.empty() && !is_decode_step) {
    throw Error(ErrorCode::gap, "Rust code cannot change buffers yet")
        .found(fmt::format("the buffer {}", p.states[0].name))
        .hint("--target cpp has states");
  }
  for (const Symbol& symbol : p.symbols) {
    if (symbol.axis < 0 && !(is_decode_step && symbol.name == kCapacity))
      throw Error(ErrorCode::gap, "Rust code cannot have sizes that the data decides yet")
          .found(symbol.name)
          .hint("use --target cpp");
  }
  const Claims claims = [](const Call& c) { return is_spelled(c); };
  bool all = true;
  for (const Node& node : p.graph.nodes) {
    all = all && is_spelled(Call(*node.op, p.graph, node.operands, node.attributes, node.regions));
  }
  if (!all) {
    p = decompose(std::move(p), table, claims);
    p = canonicalise(std::move(p), table);
    p = remove_unused(std::move(p), table);
  }
  refuse_what_is_missing(p);
  return p;
}

ModelTree recovered(Program p, const OpTable& table) {
  return recover(std::move(p), table, {.has = has_layer, .has_plain = false, .has_sequences = false, .has_switches = false});
}

}  // namespace pycandle::emit::rust
