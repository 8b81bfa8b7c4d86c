// Which values of a captured program are values of the recorded one, proven node by node.
//
// A node is the recorded one when op, settings and operands are. Where they are not, the formulas over values that are
// known to be equal are compared in the normal form that keeps rounding (passes/normal_form.h).
#pragma once

#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "base/hash.h"
#include "verify/diagnosing/node_matches.h"

namespace pycandle {

class EqualValues {
 public:
  // A tapped value that was not proven: recorded, captured. Does it count as equal from there on?
  using AtTap = std::function<bool(const TapId& tap, ValueId recorded, ValueId captured)>;
  EqualValues(const Program& recorded, const Program& captured, const NodeMatches&, const OpTable&);

  // Goes through the whole program. Without `at_tap` nothing is taken to be equal.
  void find(const AtTap& at_tap = {});
  bool all_results() const;  // outputs, and what the states become

  // Per value: known to both, and computed.
  PerValue<bool> known_recorded() const;
  PerValue<bool> known_captured() const;
  // The recorded value that a known captured one is.
  ValueId recorded_of(ValueId captured) const { return first_of_.at(equal_[captured]); }

 private:
  bool is_known(ValueId captured) const { return equal_[captured] != Hash128{}; }
  void set(ValueId captured, Hash128 recorded);
  std::string key(const Graph&, const Node&, const std::vector<Hash128>& hashes, size_t random_ops) const;
  struct Formulas;
  Hash128 by_formula(NodeId captured_node, size_t result) const;  // the recorded value that it is; 0: none is known
  std::vector<NodeId> candidates(NodeId captured_node) const;

  const Program &r_, &c_;
  const NodeMatches& matches_;
  const OpTable& table_;
  std::vector<Hash128> hashes_;                     // of recorded values
  std::map<Hash128, ValueId> first_of_;             // the first recorded value with this hash
  std::map<std::string, NodeId> node_of_key_;      // recorded
  std::map<std::string, std::vector<NodeId>> unmatched_;  // recorded nodes that no captured one is, by module call
  PerValue<Hash128> equal_;                      // per captured value: the hash of the recorded one; 0: unknown
  std::set<Hash128> known_;                         // all of those
  int failures_ = 0;
};

}  // namespace pycandle
