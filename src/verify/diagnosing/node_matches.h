// The nodes of a captured program beside those of the recorded one: which is which, and what one has and the other has not.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "base/hash.h"
#include "ir/op_def.h"

namespace pycandle {

// An op that only one program has, or that both have with other settings or operands.
struct DifferingOp {
  bool is_recorded = false;      // else it is the captured program's
  NodeId node = kNoNode;             // of its program
  std::string text;              // "clamp(s, min=1)"
  std::string place, source;     // Python for the recorded one, C++ for the captured one; empty when unknown
};

// What differs inside one module call. Calls that differ in the same way are one part.
struct DifferingPart {
  std::vector<std::string> calls;  // "blocks.0.mlp@0"; the root is ""
  std::string class_name;          // in Python
  std::vector<DifferingOp> ops;    // recorded ones first
};

class NodeMatches {
 public:
  // Both are in program form, and stay while this does.
  NodeMatches(const Program& recorded, const Program& captured);

  // The recorded node that this captured one is, whatever its settings and operands; -1: there is none.
  NodeId recorded_of(NodeId captured_node) const { return recorded_of_[captured_node]; }
  // The same, or the one in whose place it stands: they have one line of Python. -1: nobody knows.
  NodeId stands_for(NodeId captured_node) const { return stands_for_[captured_node]; }
  std::vector<DifferingPart> differences() const;

 private:
  // What is known of one of the two programs.
  struct Side {
    explicit Side(const Program&);
    const Node& node(NodeId n) const { return program.graph.nodes[n]; }
    NodeId maker(ValueId v) const { return program.graph.values[v].node; }
    ValueId seen_through(ValueId) const;  // what is broadcast
    std::string signature(ValueId) const;  // of an operand: the input's name, or the op that gives it

    const Program& program;
    PerValue<Hash128> hashes;               // per value
    std::map<ValueId, std::string> given;      // names of inputs, parameters and states
    std::map<std::string, std::vector<NodeId>> nodes_of;  // by module call
    PerNode<Hash128> settings;               // per node: of its attributes
    PerNode<std::vector<Hash128>> operands;  // per node: of their signatures
  };

  void match_call(const std::vector<NodeId>& recorded, const std::vector<NodeId>& captured);
  void match_moved_nodes();
  void find_places(const std::vector<NodeId>& recorded, const std::vector<NodeId>& captured);
  void pair(NodeId recorded, NodeId captured);
  bool have_one_hash(NodeId recorded, NodeId captured) const;
  int score(NodeId recorded, NodeId captured) const;
  bool is_same_operand(ValueId recorded, ValueId captured) const;
  bool is_same_node(NodeId recorded, NodeId captured) const;
  // Only an operand differs, and that because an op before it is new or gone: which is said there.
  bool only_follows(NodeId recorded, NodeId captured) const;
  std::string name(const Side&, ValueId) const;
  DifferingOp described(const Side&, NodeId node, NodeId other) const;

  const Side r_, c_;
  PerNode<NodeId> recorded_of_, stands_for_, captured_of_;
};

}  // namespace pycandle
