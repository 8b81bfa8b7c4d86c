// PTIR: a graph of typed nodes in SSA form, and the program around it.
#pragma once

#include <complex>
#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "base/dim.h"
#include "base/dtype.h"
#include "base/indexed_by.h"
#include "ir/tap_id.h"

namespace pycandle {

struct OpDef;

using ValueId = int32_t;                 // index into Graph::values
using NodeId = int32_t;                  // index into Graph::nodes
inline constexpr ValueId kNoValue = -1;  // an optional operand that is absent
inline constexpr NodeId kNoNode = -1;    // of an input: no node defines it
using Values = std::vector<ValueId>;
// What is known of each value, or each node, of a graph.
template <class T> using PerValue = IndexedBy<ValueId, std::vector<T>>;
template <class T> using PerNode = IndexedBy<NodeId, std::vector<T>>;

struct Type {
  DType dtype = DType::f32;
  Shape shape;
  int64_t rank() const { return static_cast<int64_t>(shape.size()); }
  std::string text() const;  // f32[s0, 3]
  friend bool operator==(const Type&, const Type&) = default;
};

using Ints = std::vector<int64_t>;
using Numbers = std::vector<double>;
using Dims = Shape;
// monostate: an optional attribute that is absent (scale=None).
using Attribute =
    std::variant<std::monostate, bool, int64_t, double, std::complex<double>, std::string, DType, Dim, Ints, Numbers, Dims>;
// In the order of the op's definition, complete (defaults filled in by the builder).
using Attributes = std::vector<std::pair<std::string, Attribute>>;
Attribute attribute(const Scalar&);
Scalar scalar_of(const Attribute&);  // the reverse; internal when it is no scalar
// Like ==, but NaN equals NaN and -0.0 differs from 0.0.
bool same(const Attribute&, const Attribute&);
bool same(const Attributes&, const Attributes&);
// As the text form writes it: none true 3 0.5 complex(0.0, 1.0) "same" f32 s0 + 1 [1, 2]
std::string to_string(const Attribute&);
std::string quoted(std::string_view);  // "…" with JSON's escapes

// Where a node came from; -1 and 0 mean unknown.
struct Origin {
  int32_t call = -1;  // index into Program::calls
  int32_t file = -1;  // index into Program::files
  int32_t line = 0;
  std::string assigned_to;
  NodeId sliced_from = kNoNode;  // in a slice: the number of this node in the program that it was cut from
  friend bool operator==(const Origin&, const Origin&) = default;
};

struct Graph;

struct Node {
  const OpDef* op = nullptr;
  Values operands;          // fixed operands first (kNoValue when absent), then the variadic ones
  Attributes attributes;
  std::vector<Graph> regions;
  Values results;
  Origin origin;
};

struct Value {
  Type type;
  NodeId node = kNoNode;    // the node that defines it; kNoNode: an input of the graph
  int32_t index = 0;        // which result of the node, or which input of the graph
};

// Regions are graphs too; they see nothing of the outside but their inputs (dim symbols are shared).
struct Graph {
  // A deque: the types that builders hand out by reference outlive the nodes added next.
  IndexedBy<ValueId, std::deque<Value>> values;
  Values inputs;
  PerNode<Node> nodes;  // in an order in which every operand is defined before its use
  Values outputs;

  const Type& type(ValueId v) const { return values.at(v).type; }
  ValueId add_input(Type);
  // Appends; types become the results. Does no checking: use Builder.
  Node& add_node(Node, std::vector<Type> results);
};

struct SourceFile {
  std::string path;                                   // relative to the package root
  std::vector<std::pair<int32_t, std::string>> lines;  // sorted by line number; only those that nodes refer to
};

// Arguments and outputs of a module call: a tree over values.
struct Tree {
  enum class Kind { value, none, literal, list, tuple, dict, object } kind = Kind::none;
  ValueId value = kNoValue;
  std::variant<std::monostate, bool, int64_t, double, std::string> literal;
  std::string type_name;                              // object: the dataclass
  std::vector<std::pair<std::string, Tree>> items;    // keys are empty for lists and tuples

  // Defined where Tree is complete: clang looks into the pair above while Tree is not.
  Tree();
  Tree(const Tree&);
  Tree(Tree&&) noexcept;
  Tree& operator=(const Tree&);
  Tree& operator=(Tree&&) noexcept;
  ~Tree();
};

struct ModuleCall {
  std::string path;                                   // "" is the root
  int32_t call = 0;                                   // counts the calls of this path
  std::string class_name;
  int32_t parent = -1;                                // index into Program::calls
  int32_t class_file = -1, class_line = 0, forward_line = 0;
  std::vector<std::pair<std::string, std::variant<std::monostate, bool, int64_t, double, std::string>>> attributes, config;
  std::vector<std::pair<std::string, Tree>> args;
  Tree output;
};

struct Symbol {
  std::string name;
  SymbolRange range;
  int64_t example = 1;                                // size in the recorded input
  std::string input;                                  // bound by this input's ...
  int32_t axis = -1;                                  // ... axis; -1: bound by data
};

struct Input {
  std::string name;
  ValueId value = kNoValue;
  std::optional<std::pair<int64_t, int64_t>> range;   // of the recorded values, where they are whole numbers
  bool used = true;
  std::optional<std::string> gap = std::nullopt;      // the result of an unsupported node: what is missing; nobody gives it
};

struct Parameter {
  std::string name;
  std::vector<std::string> aliases;
  enum class Kind { parameter, buffer, constant } kind = Kind::parameter;
  bool persistent = true;
  ValueId value = kNoValue;                           // kNoValue: nobody uses it
  Type type;
  std::string file, key;                              // empty file: no weights were saved
};

// A value that lives on between runs: `value` before the run, `updated` after it.
struct State {
  std::string name;
  ValueId value = kNoValue, updated = kNoValue;
  std::string file, key;
};

struct Output {
  std::string name;
  ValueId value = kNoValue;
};

// A value with an identity that people know.
struct Tap {
  TapId id;
  ValueId value = kNoValue;
  std::string key;                                    // its name in the trace file
  bool inside = false;                                // swallowed by the node that gives `value`: it has no value itself
};

// Two dims that must be equal when the program runs and could not be proven so.
struct Check {
  Dim left, right;
  std::string what;                                   // names both: "x dim 1 of linear and weight dim 1"
  Origin origin;
};

// graph.inputs are the values of inputs, parameters (those with a value) and states, in that order;
// graph.outputs are the values of outputs, then what the states become (bind_outputs sets them).
struct Program {
  std::string name;
  Graph graph;
  std::vector<Symbol> symbols;
  std::vector<Input> inputs;
  std::vector<Parameter> parameters;
  std::vector<State> states;
  std::vector<Output> outputs;
  std::vector<Tap> taps;
  std::vector<Check> checks;
  std::vector<ModuleCall> calls;
  std::vector<SourceFile> files;

  void bind_outputs();  // graph.outputs from outputs and states
  SymbolRanges ranges() const;
  // "transformer.h.3.mlp@0", "" for the root, and "gpt2.py:131"; empty when unknown.
  std::string module_path(const Origin&) const;
  std::string file_line(const Origin&) const;
  std::string source_line(const Origin&) const;
};

// Node order, attributes, operands, regions, types equal up to the numbering of values; provenance excluded.
bool structurally_equal(const Graph&, const Graph&);
// Everything, provenance included; only the numbering of values may differ.
bool identical(const Program&, const Program&);

}  // namespace pycandle
