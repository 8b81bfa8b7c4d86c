#include "verify/diagnosing/node_matches.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

#include "passes/structure.h"

namespace pycandle {
namespace {

constexpr size_t kLargestTable = 4'000'000;  // cells; longer calls are compared in order

bool is_hidden(const Node& node) { return node.op->name == "constant" || node.op->name == "broadcast"; }

const Attribute& value_of_constant(const Node& node) { return node.attributes.at(0).second; }

std::string short_text(const Attribute& a) {
  std::string text = to_string(a);
  return text.size() <= 24 ? text : text.substr(0, 21) + "…";
}

// "torch.nn.modules.linear.Linear" → "Linear"
std::string last_part(const std::string& name) { return name.substr(name.rfind('.') + 1); }

}  // namespace

NodeMatches::Side::Side(const Program& p) : program(p), hashes(value_hashes(p)) {
  for (const Input& input : p.inputs) given[input.value] = input.name;
  for (const Parameter& q : p.parameters) {
    if (q.value != kNoValue) given[q.value] = q.name;
  }
  for (const State& s : p.states) given[s.value] = s.name;
  for (NodeId n = 0; p.graph.nodes.has(n); ++n) {
    const Node& made = p.graph.nodes[n];
    nodes_of[p.module_path(made.origin)].push_back(n);
    std::string attributes;
    for (const auto& [name, value] : made.attributes) attributes += to_string(value) + ";";
    settings.push_back(hash128(attributes));
    operands.emplace_back();
    for (ValueId v : made.operands) operands.back().push_back(hash128(signature(v)));
  }
}

ValueId NodeMatches::Side::seen_through(ValueId v) const {
  while (v != kNoValue && maker(v) >= 0 && node(maker(v)).op->name == "broadcast") v = node(maker(v)).operands[0];
  return v;
}

std::string NodeMatches::Side::signature(ValueId v) const {
  v = seen_through(v);
  if (v == kNoValue) return "-";
  if (const auto found = given.find(v); found != given.end()) return found->second;
  const Node& made_by = node(maker(v));
  if (made_by.op->name == "constant") return to_string(value_of_constant(made_by));
  return fmt::format("{} {}", made_by.op->name, program.graph.values[v].index);
}

NodeMatches::NodeMatches(const Program& recorded, const Program& captured)
    : r_(recorded),
      c_(captured),
      recorded_of_(captured.graph.nodes.size(), -1),
      stands_for_(captured.graph.nodes.size(), -1),
      captured_of_(recorded.graph.nodes.size(), -1) {
  for (const auto& [call, nodes] : c_.nodes_of) {
    const auto found = r_.nodes_of.find(call);
    if (found != r_.nodes_of.end()) match_call(found->second, nodes);
  }
  match_moved_nodes();
  for (const auto& [call, nodes] : c_.nodes_of) {
    const auto found = r_.nodes_of.find(call);
    find_places(found == r_.nodes_of.end() ? std::vector<NodeId>() : found->second, nodes);
  }
}

void NodeMatches::pair(NodeId recorded, NodeId captured) {
  recorded_of_[captured] = recorded;
  captured_of_[recorded] = captured;
}

bool NodeMatches::have_one_hash(NodeId recorded, NodeId captured) const {
  return r_.hashes[r_.node(recorded).results[0]] == c_.hashes[c_.node(captured).results[0]];
}

// How likely two nodes are one; 0: they are not.
int NodeMatches::score(NodeId recorded, NodeId captured) const {
  if (have_one_hash(recorded, captured)) return 100;
  if (r_.node(recorded).op != c_.node(captured).op) return 0;
  const auto a = static_cast<size_t>(recorded), b = static_cast<size_t>(captured);
  int points = r_.settings[a] == c_.settings[b] ? 6 : 4;
  for (size_t i = 0; i < std::min(r_.operands[a].size(), c_.operands[b].size()); ++i) {
    if (r_.operands[a][i] == c_.operands[b][i]) points += 2;
  }
  return points;
}

// The pairs of most points that keep the order of both, as a diff of two texts does.
void NodeMatches::match_call(const std::vector<NodeId>& recorded, const std::vector<NodeId>& captured) {
  size_t begin = 0, end_r = recorded.size(), end_c = captured.size();
  while (begin < end_r && begin < end_c && have_one_hash(recorded[begin], captured[begin])) {
    pair(recorded[begin], captured[begin]);
    ++begin;
  }
  while (end_r > begin && end_c > begin && have_one_hash(recorded[end_r - 1], captured[end_c - 1])) {
    pair(recorded[--end_r], captured[--end_c]);
  }
  const size_t rows = end_r - begin, columns = end_c - begin;
  if ((rows + 1) * (columns + 1) > kLargestTable) {
    for (size_t i = 0; i < std::min(rows, columns); ++i) {
      if (score(recorded[begin + i], captured[begin + i]) > 0) pair(recorded[begin + i], captured[begin + i]);
    }
    return;
  }
  std::vector<int> best((rows + 1) * (columns + 1)), points(rows * columns);
  const auto at = [&](size_t i, size_t j) -> int& { return best[i * (columns + 1) + j]; };
  for (size_t i = rows; i-- > 0;) {
    for (size_t j = columns; j-- > 0;) {
      const int together = points[i * columns + j] = score(recorded[begin + i], captured[begin + j]);
      at(i, j) = std::max(at(i + 1, j), at(i, j + 1));
      if (together > 0) at(i, j) = std::max(at(i, j), at(i + 1, j + 1) + together);
    }
  }
  for (size_t i = 0, j = 0; i < rows && j < columns;) {
    const int together = points[i * columns + j];
    if (together > 0 && at(i, j) == at(i + 1, j + 1) + together) {
      pair(recorded[begin + i++], captured[begin + j++]);
    } else if (at(i, j) == at(i + 1, j)) {
      ++i;
    } else {
      ++j;
    }
  }
}

// Into a class of their own, say: what they compute is the same.
void NodeMatches::match_moved_nodes() {
  std::multimap<Hash128, NodeId> free;
  for (NodeId node = 0; captured_of_.has(node); ++node) {
    if (captured_of_[node] < 0) free.emplace(r_.hashes[r_.node(node).results[0]], node);
  }
  for (NodeId node = 0; recorded_of_.has(node); ++node) {
    if (recorded_of_[node] >= 0) continue;
    const auto found = free.find(c_.hashes[c_.node(node).results[0]]);
    if (found == free.end()) continue;
    pair(found->second, node);
    free.erase(found);
  }
}

void NodeMatches::find_places(const std::vector<NodeId>& recorded, const std::vector<NodeId>& captured) {
  std::map<NodeId, size_t> index;
  for (size_t i = 0; i < recorded.size(); ++i) index[recorded[i]] = i;
  size_t next = 0;  // in `recorded`: behind what was paired last
  for (NodeId node : captured) {
    NodeId& place = stands_for_[node];
    place = recorded_of_[node];
    if (place >= 0) {
      if (const auto found = index.find(place); found != index.end()) next = found->second + 1;
      continue;
    }
    size_t i = next;
    while (i < recorded.size() && captured_of_[recorded[i]] < 0 && is_hidden(r_.node(recorded[i]))) ++i;
    const bool is_replaced = i < recorded.size() && captured_of_[recorded[i]] < 0;
    if (is_replaced) {
      place = recorded[i];
    } else if (next > 0) {
      place = recorded[next - 1];
    } else if (!recorded.empty()) {
      place = recorded.front();
    }
  }
}

bool NodeMatches::is_same_operand(ValueId recorded, ValueId captured) const {
  const ValueId a = r_.seen_through(recorded), b = c_.seen_through(captured);
  if (a == kNoValue || b == kNoValue) return a == b;
  const NodeId made_a = r_.maker(a), made_b = c_.maker(b);
  if (made_a < 0 || made_b < 0) return made_a == made_b && r_.signature(a) == c_.signature(b);
  if (r_.node(made_a).op->name == "constant" && c_.node(made_b).op->name == "constant")
    return same(value_of_constant(r_.node(made_a)), value_of_constant(c_.node(made_b)));
  return recorded_of_[made_b] == made_a && r_.program.graph.values[a].index == c_.program.graph.values[b].index;
}

bool NodeMatches::is_same_node(NodeId recorded, NodeId captured) const {
  if (have_one_hash(recorded, captured)) return true;
  const Node &a = r_.node(recorded), &b = c_.node(captured);
  if (a.op != b.op || a.operands.size() != b.operands.size() || a.regions.size() != b.regions.size()) return false;
  for (size_t i = 0; i < a.regions.size(); ++i) {
    if (!structurally_equal(a.regions[i], b.regions[i])) return false;
  }
  for (size_t i = 0; i < a.operands.size(); ++i) {
    if (!is_same_operand(a.operands[i], b.operands[i])) return false;
  }
  return same(a.attributes, b.attributes);
}

bool NodeMatches::only_follows(NodeId recorded, NodeId captured) const {
  const Node &a = r_.node(recorded), &b = c_.node(captured);
  if (a.op != b.op || a.operands.size() != b.operands.size() || !same(a.attributes, b.attributes)) return false;
  const auto stands_alone = [](const Side& side, const std::vector<NodeId>& other, ValueId v) {
    const NodeId made = v == kNoValue ? -1 : side.maker(v);
    return made >= 0 && other[made] < 0 && !is_hidden(side.node(made));
  };
  for (size_t i = 0; i < a.operands.size(); ++i) {
    const ValueId theirs = r_.seen_through(a.operands[i]), ours = c_.seen_through(b.operands[i]);
    if (!is_same_operand(theirs, ours) && !stands_alone(r_, captured_of_, theirs) && !stands_alone(c_, recorded_of_, ours))
      return false;
  }
  return true;
}

// As a person would call it: the name in Python, of captured ones where they are known, else the op.
std::string NodeMatches::name(const Side& side, ValueId v) const {
  v = side.seen_through(v);
  if (v == kNoValue) return "none";
  if (const auto found = side.given.find(v); found != side.given.end()) return found->second;
  const NodeId made = side.maker(v);
  const Node& node = side.node(made);
  if (node.op->name == "constant") return short_text(value_of_constant(node));
  const NodeId python = &side == &r_ ? made : recorded_of_[made];
  if (python >= 0) {
    const std::string& variable = r_.node(python).origin.assigned_to;
    const bool is_word = std::all_of(variable.begin(), variable.end(), [](char c) { return std::isalnum(c) || c == '_'; });
    if (!variable.empty() && is_word) return variable;
  }
  return node.op->name;
}

DifferingOp NodeMatches::described(const Side& side, NodeId n, NodeId other) const {
  const Side& beside = &side == &r_ ? c_ : r_;
  const Node& node = side.node(n);
  std::vector<std::string> parts;
  for (ValueId v : node.operands) {
    if (v != kNoValue) parts.push_back(name(side, v));
  }
  for (size_t i = 0; i < node.attributes.size(); ++i) {
    const auto& [name, value] = node.attributes[i];
    const bool is_shown = other < 0 ? parts.size() < 5 : !same(value, beside.node(other).attributes[i].second);
    if (is_shown && !std::holds_alternative<std::monostate>(value))
      parts.push_back(fmt::format("{}={}", name, short_text(value)));
  }
  return {&side == &r_, n, fmt::format("{}({})", node.op->name, fmt::join(parts, ", ")), side.program.file_line(node.origin),
          side.program.source_line(node.origin)};
}

std::vector<DifferingPart> NodeMatches::differences() const {
  std::map<std::string, DifferingPart> part_of;  // by call
  const auto part = [&](const Side& side, NodeId n) -> DifferingPart& {
    const Origin& origin = side.node(n).origin;
    const std::string call = side.program.module_path(origin);
    DifferingPart& made = part_of[call];
    if (made.calls.empty()) made.calls.push_back(call);
    if (&side == &r_ && origin.call >= 0) made.class_name = last_part(r_.program.calls[origin.call].class_name);
    return made;
  };
  for (const bool with_hidden : {false, true}) {
    for (NodeId n = 0; captured_of_.has(n); ++n) {
      if (is_hidden(r_.node(n)) && !with_hidden) continue;
      const NodeId other = captured_of_[n];
      if (other < 0 || !(is_same_node(n, other) || only_follows(n, other))) part(r_, n).ops.push_back(described(r_, n, other));
    }
    for (NodeId n = 0; recorded_of_.has(n); ++n) {
      if (is_hidden(c_.node(n)) && !with_hidden) continue;
      const NodeId other = recorded_of_[n];
      if (other < 0 || !(is_same_node(other, n) || only_follows(other, n))) part(c_, n).ops.push_back(described(c_, n, other));
    }
    if (!part_of.empty()) break;
  }
  std::vector<DifferingPart> parts;
  for (auto& [call, found] : part_of) {
    const auto is_alike = [&](const DifferingPart& other) {
      return std::equal(other.ops.begin(), other.ops.end(), found.ops.begin(), found.ops.end(),
                        [](const DifferingOp& a, const DifferingOp& b) {
                          return a.is_recorded == b.is_recorded && a.text == b.text && a.place == b.place;
                        });
    };
    const auto like = std::find_if(parts.begin(), parts.end(), is_alike);
    if (like == parts.end()) {
      parts.push_back(std::move(found));
    } else {
      like->calls.push_back(call);
    }
  }
  return parts;
}

}  // namespace pycandle
