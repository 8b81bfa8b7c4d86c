// A model as the source code that a person would have written, before any language: classes with their parts and steps.
// recover() makes it of a program in program form; cpp/ prints it.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "emit/call_tree.h"
#include "emit/nn_table.h"

namespace pycandle::emit {

// A number as a product of fields of the model's configuration: 3 * n_embd.
struct Formula {
  int64_t factor = 1;
  std::vector<int32_t> fields;       // of ModelTree::config
};

struct ConfigField {
  std::string name;
  Attribute value;
};

// A number that a class is built with: a constructor argument of its own, or the same in all instances.
struct Argument {
  int32_t field = -1;      // of the class around it; -1: the value
  Attribute value;
  int32_t column = -1;     // while the tree is built
  std::optional<Formula> formula = std::nullopt;  // of the value, when the configuration has it
};

// A module that a class has: of the front end's nn, of a class of this model, or a sequence of such.
struct Use {
  std::string path;        // below the class: "attn.c_attn"
  int32_t call = -1;       // an example of its calls
  std::optional<NnModule> nn;
  int32_t module_class = -1;
  std::vector<Use> sequence;
  std::vector<Argument> arguments;                            // of nn, or of the class's numbers
  std::vector<std::pair<std::string, std::string>> tied;      // a parameter's name below the path → its canonical name
};

struct Child {
  std::string name;
  Use use;                 // of the first, when it is a list
  bool is_list = false;
  std::string list_path;   // "h", below the class; its elements are path.first, path.(first + step), …
  int64_t first = 0, step = 1;
  Argument count;
  // Per argument of `use`: does it hold one value for each element?
  std::vector<bool> varies;
};

// A variable of a loop: it starts as `initial`, and every iteration gives its next value.
struct Carried {
  ValueId initial, next, final;
};

struct Step {
  enum class Kind { node, call, loop } kind = Kind::node;
  NodeId node = kNoNode;
  int32_t child = -1;                // call: the module
  int32_t call = -1;                 // call: of Program::calls, for its place
  Values arguments, results;         // call
  std::vector<Step> body;            // loop: the calls of its first iteration; carried arguments are named by `next`
  std::vector<Carried> carried;
  Argument count;                    // loop over one shared module; lists know their length
};

struct TensorField {
  std::string name, path;            // "out_proj_weight", "out_proj.weight"
  ValueId value;
  bool is_state = false;
};

struct StateUpdate {
  ValueId state, next;               // the value before the run, and what it becomes
};

struct NumberField {
  std::string name;
  Attribute example;
};

// (node, attribute, element): an attribute of a node, or one entry of its dims; "operand 1" is a number written there.
using Place = std::tuple<int32_t, std::string, int32_t>;

// A number, or one over the root of another, which may be divided: pow(hidden_size / num_heads, -0.5).
struct Power {
  double value = 0;
  std::optional<Formula> base;
  int32_t over_field = -1;           // of ModelTree::config
  int32_t over_number = -1;          // of ModuleClass::numbers
  bool is_one_over_root = false;     // 1 / sqrt(base), where pow(base, -0.5) is another number
};

// A number that the steps need and the class is not told: of the configuration, or an attribute that Python computes.
struct Setting {
  std::string name;                  // of the member that keeps it
  int32_t field = -1;                // of ModelTree::config
  std::set<Place> places;
  std::string python;                // the attribute
  std::optional<Power> power;        // its value
};

struct ModuleClass {
  std::string name;                  // Python's, made different from the others
  std::string python_class, file_line;
  int32_t call = -1;                 // the instance that the steps were read from
  int64_t instances = 0;
  std::vector<TensorField> tensors;  // parameters that it reads itself, states that it reads or sets
  std::vector<TensorField> rows;     // that it keeps in the cache of a decode step
  std::string cache_type;            // what forward() takes of the cache; empty: nothing (caches.h)
  bool hands_cache_on = false;       // it is that of one of its modules
  std::vector<StateUpdate> updates;
  std::vector<Child> children;
  std::vector<NumberField> numbers;  // what differs between instances
  std::map<Place, int32_t> places;   // where they stand in the steps
  std::vector<Setting> settings;
  bool takes_config = false;         // it is built with the configuration, for itself or for what it has
  std::vector<Step> steps;
  Values inputs, outputs;
  std::vector<std::string> input_names, output_names;
  std::map<ValueId, ValueId> left_out;  // inputs that some calls do not give: what stands for them then; kNoValue: nothing
};

// What a class of a decode step keeps between calls.
struct CacheStruct {
  struct Part {
    std::string name, type;
    bool is_list = false;
  };
  std::string name;
  std::string of;                    // the class
  std::vector<TensorField> rows;
  std::vector<Part> parts;           // of the modules that it has
};

struct ModelTree {
  std::shared_ptr<const Program> program;
  std::shared_ptr<const Implicit> implicit;
  std::shared_ptr<const CallTree> calls;
  std::vector<ModuleClass> classes;  // in the order of their use: the last is the model
  std::vector<ConfigField> config;   // in the order of their use; empty when Python has none
  std::vector<CacheStruct> caches;   // of a decode step, in the order of their use: the last is the model's, named Cache
  std::vector<std::string> notes;    // what could not be written as Python has it, and why
  const ModuleClass& model() const { return classes.back(); }
};

// Never fails for the shape of a model: what does not fit is written out where it is called.
ModelTree recover(Program, const OpTable&, Layers = {});

// A size in terms of sizes of tensors: spell(value, axis) of the first value in scope that has it. Empty when it cannot be said.
using SpellDim = std::function<std::string(ValueId, size_t axis)>;
// `data`: a size that only the data decides may be said by its own name there.
std::optional<std::string> write_dim(Dim, const Graph&, const Values& scope, const SpellDim&,
                                     const std::function<bool(const std::string&)>& data = {});

}  // namespace pycandle::emit
