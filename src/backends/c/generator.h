// Turns a program whose sizes are numbers into C: functions of loops over pointers, and the calls of one run in order.
// Node by node: what is computed element by element waits (Known::lazy) until somebody wants it in memory, so that chains become
// one loop; a product or convolution waits too (Known::pending), so that what follows it becomes its epilogue.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "backends/c/text.h"
#include "base/array.h"
#include "ir/graph.h"
#include "ir/op_def.h"
#include "params/parameters.h"

namespace pycandle::c {

using BufferId = int32_t;
inline constexpr BufferId kNoBuffer = -1;

struct Buffer {
  enum class Place { arena, input, output, state, weight, status } place = Place::arena;
  DType dtype = DType::f32;
  int64_t elements = 0;
  size_t index = 0;                     // of an input, output or state
  Array data;                           // of a weight
  size_t first = SIZE_MAX, last = 0;    // the steps between which it is in use
  size_t offset = 0;                    // in the arena or among the weights, once all is known
  size_t bytes() const { return static_cast<size_t>(elements) * size_of(dtype); }
  bool is_used() const { return first != SIZE_MAX; }
};

// Elements of a buffer, walked with strides.
struct View {
  BufferId buffer = kNoBuffer;
  int64_t offset = 0;                   // in elements
  Sizes sizes, strides;
  std::string moving;                   // added to the offset: "t * 64", inside loops of the run
};

// What is known of a value while its graph is read.
struct Product;
struct Known {
  enum class Kind { none, view, number, lazy, pending } kind = Kind::none;
  View view;
  Scalar number;                        // every element is this
  NodeId node = kNoNode;                // lazy
  std::shared_ptr<const Product> product;  // pending
};

struct Scope {
  const Graph& graph;
  PerValue<Known> known;
  PerValue<int32_t> uses;               // by nodes, each once, and as results of the graph
  PerValue<NodeId> user;                // the last node that reads it
  PerValue<std::vector<size_t>> taps;   // of the program's own graph
  PerValue<int32_t> output;             // index of the program's output that it is, or -1
  explicit Scope(const Graph& g);
};

// A function of the C file, with the text of its parameters and body.
struct Function {
  std::string name, key;                // key: everything but the name
  std::string parameters, body, comment;
  double multiply_adds = 0;
};

struct Argument {
  View view;
  bool is_written = false;
};

// What a run does next.
struct Step {
  enum class Kind { call, text, tap } kind = Kind::call;
  size_t function = 0;
  std::vector<Argument> arguments;      // tap: the one value
  std::string text;
  size_t tap = 0;
  Origin origin;
  double multiply_adds = 0;
};

struct Naming {
  bool is_readable = true;              // layers' names and Python lines; false: equal layers give equal text
  bool is_freestanding = false;         // mathematical functions of our own alone
};

// A matrix in bytes: panels of 16 outputs, and the scale of each output.
struct Int8Weight {
  View numbers, scales;
};

class Generator;

// One function while it is written.
class Writer {
 public:
  Writer(Generator& g, std::string what) : what_(std::move(what)), g_(g) {}
  std::string reads(const View&, std::string name);   // the pointer's name
  std::string writes(const View&, std::string name);
  std::string scratch(DType, int64_t elements, std::string name);  // memory of this step alone
  void line(const std::string&);
  void open(const std::string& head);                 // head {
  void loop(const std::string& variable, int64_t count, int64_t step = 1);
  void close(size_t blocks = 1);
  std::string fresh(const std::string& stem);         // a name that nobody has
  Generator& generator() { return g_; }
  int depth() const { return depth_; }
  double multiply_adds = 0;

 private:
  friend class Generator;
  struct Parameter {
    std::string name;
    DType dtype;
    bool is_written;
  };
  std::string add(const View&, std::string name, bool is_written);
  std::string what_;
  Generator& g_;
  std::vector<Parameter> parameters_;
  std::vector<Argument> arguments_;
  std::set<std::string> names_;
  std::string body_;
  int depth_ = 1;
};

// A heavy node that has not run: writes itself with what follows element by element.
struct Product {
  ValueId result = kNoValue;
  std::function<View(Generator&, Scope&, ValueId last)> emit;  // computes `last`, whose one pending element is `result`
  std::function<bool(const Sizes& strides)> fits;              // may an operand of the epilogue have these strides?
};

// A node with its graph: attributes as numbers, operands by name.
class Site {
 public:
  Site(Generator& generator, Scope& scope, const Node& n);
  Generator& g;
  Scope& s;
  const Node& node;
  const Call call;

  Sizes sizes(ValueId) const;
  Sizes sizes(std::string_view operand) const { return sizes(call.value(operand)); }
  Sizes result_sizes(size_t i = 0) const { return sizes(node.results[i]); }
  DType dtype(std::string_view operand) const { return call.type(operand).dtype; }
  DType result_dtype(size_t i = 0) const { return call.type(node.results[i]).dtype; }
  Sizes dims(std::string_view attribute) const;
  int64_t dim(std::string_view attribute) const;
  View view(std::string_view operand) const;
  [[noreturn]] void refuse(const std::string& why) const;
};

using Lowering = void (*)(Site&);

class Generator {
 public:
  Generator(const Program&, const OpTable&, const ParameterSource&, Bindings, Naming);
  void run();

  // ---- values
  Sizes sizes_of(const Scope&, ValueId) const;
  // In memory, with whatever strides; computed now when it waits.
  View view(Scope&, ValueId);
  View dense(Scope&, ValueId);                           // row-major
  void compute_into(Scope&, ValueId, const View& target);  // target has the sizes of the value
  void copy(const View& from, const View& to);
  View fresh(Scope&, ValueId);                           // memory for a value that is computed now
  View fresh(DType, Sizes);
  void define(Scope&, ValueId, View);
  void define_product(Scope&, ValueId, Product);
  void define_number(Scope&, ValueId, const Scalar&);
  bool is_constant(const Known&) const;
  std::optional<Array> constant(const Scope&, ValueId) const;  // its elements, when they are known now
  View weight(Array);                                    // a constant of our own: packed weights, tables
  View packed_weight(const std::string& key, const std::function<Array()>& make);  // one for each key
  View status();                                         // where functions say that an index is out of range

  // ---- steps
  void emit(Writer&);                                    // a call of the function that was written
  // Between calls: the loops of the run; $0 is the pointer to the first of `values`.
  void text(const std::string& line, const std::vector<View>& values = {});
  size_t now() const { return steps.size(); }
  void lower_graph(Scope&);                              // all nodes, in order
  void need(const std::string& helper) { helpers.insert(helper); }
  bool has_int8 = false;                                 // some weights are what eight bits can hold
  std::map<std::string, std::optional<Int8Weight>> int8_weights;  // by what they were made from (narrow.h)
  Naming naming;
  Origin origin;                                         // of the node that is lowered
  int loops = 0;                                         // of the run that have been opened: names of their variables

  // ---- the result
  const Program& program;
  const OpTable& table;
  const Bindings bindings;
  std::vector<Buffer> buffers;
  std::vector<Function> functions;
  std::vector<Step> steps;
  std::set<std::string> helpers;                         // names of texts of helpers.h
  size_t arena_bytes = 0, weight_bytes = 0;
  std::vector<BufferId> used_weights;                    // in order of their offsets

  BufferId add_buffer(Buffer);
  void keep_through(size_t first_step);                  // what was made before a loop and is used in it lives until its end

 private:
  void lower(Scope&, const Node&);
  bool fold(Scope&, const Node&);
  void deliver_taps(Scope&, ValueId);
  void finish(Scope&);
  void place();
  void use(const Step&);
  std::string function_name(const std::string& what);

  const ParameterSource& parameters_;
  std::map<std::string, size_t> by_key_;
  std::map<std::string, View> packed_;
  std::set<std::string> function_names_;
  BufferId status_ = kNoBuffer;
};

Sizes row_major(const Sizes&);
bool is_dense(const View&);
int64_t count_of(const Sizes&);
// The step between neighbours when axes [from, to) are walked as one; nothing when there is none.
std::optional<int64_t> one_stride(const Sizes& sizes, const Sizes& strides, size_t from, size_t to);

// A gap, named by its op, when something in the program cannot be written; symbols that data decides are one.
void check_supported(const Program&);
Lowering find_lowering(std::string_view op);
bool is_claimed(const Call&, const OpTable&);                         // functionals that are written whole

}  // namespace pycandle::c
