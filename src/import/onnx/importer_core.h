// The importer of ONNX files, split by what it reads: nodes (nodes.cpp), graphs in graphs and functions (subgraphs.cpp),
// sequences and optional values (sequences.cpp), inputs, parameters and outputs (onnx_importer.cpp).
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "import/onnx/known_values.h"
#include "import/onnx/onnx_importer.h"
#include "import/onnx/structure.h"
#include "ops/core/onnx_mapping.h"

namespace pycandle::onnx {

// A PTIR graph that is being built: the program's own, or the body of a control-flow op. Bodies are closed, so what one reads of
// the graph around it is an input of its own.
struct Region {
  Region(pycandle::Graph& graph, const OpTable& table, std::vector<Check>* checks, const SymbolRanges& ranges, Region* around)
      : builder(graph, table, checks, &ranges), known(ranges, table), outer(around) {
    if (outer != nullptr) builder.origin = outer->builder.origin;
  }
  Builder builder;
  KnownValues known;
  Region* outer;
  std::vector<std::pair<ValueId, ValueId>> captured;  // a value of `outer`, and the input that it is here
};

// What a name stands for.
struct Item {
  enum class Kind { tensor, numbers, sequence, none } kind = Kind::none;
  Region* region = nullptr;              // whose value it is
  ValueId value = kNoValue;
  std::shared_ptr<const Array> numbers;  // never read as a tensor: it fixes shapes
  std::vector<Item> items;               // of a sequence, whose length the file decides
};
using Items = std::vector<Item>;

// A graph of the file whose nodes are being read.
struct Scope {
  const Graph* graph = nullptr;
  const Scope* outer = nullptr;          // null: of a function's body too, which sees nothing around it
  std::unordered_map<std::string_view, Item> values;
};

// A call of a function that the file defines; at the bottom the file itself.
struct Frame {
  const Opsets* opsets = nullptr;
  const Function* function = nullptr;
  std::vector<Attribute> attributes;     // of the call, and defaults
};

class Importer {
 public:
  Importer(std::shared_ptr<const Model> model, const OpTable& table);

  Recording run();
  std::vector<ImportedNode>& imported() { return imported_; }
  bool has_bodies() const { return has_bodies_; }  // control flow, which the list of nodes does not have
  // What no mapping takes, by operator.
  std::vector<Gap> gaps() const;

 private:
  using Hints = std::vector<std::optional<Type>>;  // what is known of the results
  using Special = void (Importer::*)(const Node&);

  Program& program() { return recording_.program; }
  std::string file() const { return model_->file.string(); }
  Builder& b() { return region_->builder; }
  [[noreturn]] void bad(const std::string& what, const std::string& expected = {}, const std::string& found = {}) const;

  // ---- the file (onnx_importer.cpp)
  void refuse_what_is_not_read() const;
  void collect_gaps(const Graph&, const Opsets&, std::map<std::string, Gap>&, std::set<const Function*>& seen) const;
  void about();
  Type type_of(const ValueInfo&) const;
  void inputs();
  Dim dim_of(const ValueInfo&, size_t axis);
  Dim new_symbol();
  void collect_reads(const Graph&, const Opsets&, std::set<std::string_view>& reads) const;
  void parameters();
  void parameter(const Stored&, bool is_read);
  void outputs();
  void output(const std::string& name, const Item&, const ValueInfo&);
  void describe_calls();
  void check_type(const ValueInfo&, const Type& found) const;

  // ---- nodes (nodes.cpp)
  const Function* function_of(const Node& n) const { return model_->function(n.domain, n.op, n.overload); }
  const OnnxEntry* entry_of(const Node&, const Opsets&) const;
  static Special special_of(const Node&);
  void nodes(const Graph&);
  void node(const Node&);
  const Node& resolved(const Node&, Node& copy) const;  // with the attributes of the function's call
  void mapped(const Node&);
  Values apply(const OnnxEntry&, std::vector<std::pair<std::string, Argument>>, Hints, const std::string& name);
  Values apply(std::string_view overload, std::vector<std::pair<std::string, Argument>>, size_t results);
  std::vector<std::pair<std::string, Argument>> arguments(const Node&, const OnnxEntry&);
  Argument attribute(const Node&, const OnnxArgument&);
  Argument number(const Node&, std::string_view input, std::string_view name);  // an input that fixes a shape or an axis
  std::optional<Argument> known_number(const Item&);
  void constant(const Node&);

  void define(std::string_view name, Item);
  void define(std::string_view name, ValueId v) { define(name, Item{Item::Kind::tensor, region_, v, nullptr, {}}); }
  void define_all(const Node&, const Items&);
  const Item* find(std::string_view name) const;
  const Item& item(std::string_view name) const;
  Item item_or_none(const Node&, size_t input) const;
  ValueId tensor(const Item&);                // in the region that is being built
  ValueId tensor(std::string_view name) { return tensor(item(name)); }
  ValueId lifted(Region& to, Region* from, ValueId);
  ValueId materialised(const Array&);
  Item number_item(const Scalar&, DType);

  // ---- graphs in graphs, functions (subgraphs.cpp)
  void call(const Node&, const Function&);
  Items run(const Graph&, const Items& inputs, const Scope* around);
  void branch(const Node&);
  bool taken_if_sizes_agree(const Node&, const Graph& yes);
  void loop(const Node&);
  void scan(const Node&);
  void scan_of_batches(const Node&);
  void sequence_map(const Node&);
  void flex_attention(const Node&);
  struct Body;
  bool loop_in_body(const Node&, const Graph& body, const std::optional<Dim>& trips, const Items& initial);
  void while_in_body(const Node&, const Graph& body, const Items& initial);
  void unrolled_loop(const Node&, const Graph& body, int64_t trips, Items carried);
  const Graph& graph_attribute(const Node&, std::string_view name) const;
  Items scanned(const Graph& body, Items states, const Items& sequences, const Node&);
  Items unrolled_scan(const Graph& body, Items states, const Items& sequences, int64_t length);
  ValueId stacked(const Items&);

  // ---- sequences and optional values (sequences.cpp)
  void sequence_construct(const Node&);
  void sequence_insert(const Node&);
  void sequence_erase(const Node&);
  void sequence_at(const Node&);
  void sequence_length(const Node&);
  void split_to_sequence(const Node&);
  void concat_from_sequence(const Node&);
  void optional(const Node&);
  void optional_get_element(const Node&);
  void optional_has_element(const Node&);
  void identity(const Node&);
  const Items& sequence(const Node&, size_t input) const;
  int64_t position(const Node&, size_t input, int64_t count, int64_t otherwise);

  std::shared_ptr<const Model> model_;
  const OpTable* table_;
  OnnxTable onnx_;
  Recording recording_;
  Structure structure_;
  std::string given_;  // the first result of the node that is read
  SymbolRanges ranges_;
  Region root_;
  Region* region_;
  Scope main_;
  Scope* scope_;
  Frame bottom_;
  const Frame* frame_;
  std::map<const Graph*, std::unordered_map<std::string_view, Item>> stored_;  // initializers and constants
  std::map<std::pair<std::string_view, int64_t>, Dim> symbols_;  // by name, and which axis of that name in its input
  std::vector<ImportedNode> imported_;
  bool has_bodies_ = false;
  int depth_ = 0;       // of calls and graphs
  size_t read_ = 0;     // nodes so far: unrolling must end
};

std::string name_of(const Node&);   // "Gelu", "com.microsoft.Gelu"
std::string place_of(const Node&);  // its own name, or what it gives
Scalar scalar_at(const Array&);
const Attribute* find_attribute(const Node&, std::string_view name);
int64_t integer_attribute(const Node&, std::string_view name, int64_t otherwise);
std::vector<int64_t> integers_attribute(const Node&, std::string_view name);

}  // namespace pycandle::onnx
