// The program that is being captured, and what a Tensor is to it.
//
// A tensor is a value of the current capture, or a leaf: a parameter (by name, its bytes not yet read) or an array. An op on
// tensors becomes nodes of the current capture. Where there is none, it is run at once, in a capture of its own: that is
// the eager mode.
#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/dim_real.h"
#include "base/function_ref.h"
#include "capture/store.h"
#include "ir/builder.h"
#include "ops/core/promotion.h"
#include "pycandle/checker.h"
#include "pycandle/tensor.h"

namespace pycandle {
struct CallerStates;  // runtime/states.h
}

namespace pycandle::front {

// The front end's dims point to the library's nodes; their comparisons throw instead of saying "not the same expression".
struct DimAccess {
  static pycandle::Dim base(Dim);
  static Dim front(pycandle::Dim);
  static pycandle::DimReal base(const DimReal&);
  static DimReal front(const pycandle::DimReal&);
};
Shape base_shape(const Dims&);
Dims front_dims(const Shape&);

struct Leaf {
  std::string name;                             // canonical; empty: a constant
  Type type;
  std::shared_ptr<const ParameterStore> store;  // null: `value` is it
  Array value;
  std::shared_ptr<StateCell> cell;              // of a state
  Array load() const;                           // of a state: as the eager run of this thread has it, or the weights
  void assign(Array) const;                     // of a state, likewise
};

using Build = FunctionRef<Values(Builder&, const Values& operands)>;

class Capture {
 public:
  Capture();

  static Capture* current();                    // null: eager
  // Runs `build` on the operands (null or absent: kNoValue); errors say `op` and the module.
  static std::vector<Tensor> apply(const char* op, const std::vector<const Tensor*>& operands, Here, const Build& build);
  static Tensor apply_one(const char* op, const std::vector<const Tensor*>& operands, Here, const Build& build);

  ValueId value_of(const Tensor&);              // a leaf becomes a parameter when it is first used
  Tensor tensor(ValueId) const;
  const Type& type_of(const Tensor&) const;
  void update(const Tensor& state, const Tensor& next);
  pycandle::State& cache_state(const std::string& name, const Type&);  // of a decoder; made when it is first asked for
  void declare_capacity();                      // the symbol of the positions that caches have room for
  // Nodes stand at this line from here on. One of this library's own is none that people wrote: nothing changes.
  void stand_at(Here);
  void finish();                                // once outputs are there: inputs and outputs of the graph in their order

  static Tensor of_leaf(std::shared_ptr<const Leaf>);
  static const Leaf* leaf_of(const Tensor& t) { return t.leaf_.get(); }
  static std::shared_ptr<const Leaf> shared_leaf(const Tensor& t) { return t.leaf_; }
  // An elementwise operand: its tensor, or null, and what it is once that is `value`.
  static const Tensor* tensor_of(const Operand& o) { return o.kind_ == Operand::Kind::tensor ? &o.tensor_ : nullptr; }
  static pycandle::Operand operand(const Operand&, ValueId value);

  Program program;
  SymbolRanges ranges;
  Builder builder;
  std::vector<std::shared_ptr<const Leaf>> leaves;  // in the order of program.parameters
  std::vector<std::shared_ptr<const Leaf>> states;  // in the order of program.states
  // Who looks at which tap, by its id.
  struct Watch {
    Checker checker;
    std::string layer;
  };
  std::multimap<TapId, Watch> watches;
  std::map<std::string, int32_t> calls_of_path;

 private:
  pycandle::State& state_of(const std::shared_ptr<const Leaf>&);

  std::unordered_map<const Leaf*, ValueId> value_of_leaf_;
  std::map<std::string, ValueId> value_of_name_;
  uint32_t id_;
};

// The module calls that are open on this thread, outermost first.
struct OpenModule {
  std::string path;
  int32_t number = 0;      // which call of that path
  int32_t call = -1;       // index into Program::calls
  Checker checker;         // its own, or the one of the module around it
};

// While it lives, tensors of this thread go into `capture`; null: they are run at once.
class CaptureScope {
 public:
  explicit CaptureScope(Capture* capture);
  ~CaptureScope();
  CaptureScope(const CaptureScope&) = delete;
  CaptureScope& operator=(const CaptureScope&) = delete;

 private:
  Capture* before_;
  std::vector<OpenModule> modules_before_;
};

std::string current_module();  // the path of the innermost

struct CheckerAccess {
  // Verifies, and throws what is wrong unless the checker only collects.
  static void look(const Checker&, const std::string& layer, const Array& value);
  // A module that several others hold has one path in a recording.
  static std::string recorded_path(const Checker&, const std::string& path, const std::string& caller);
};

// Eager: sizes that data decided, by the name that data_dim() gave them.
Bindings& eager_sizes();
bool is_eager();           // PYCANDLE_EAGER is set

// Of a compiled model that runs eagerly: where the states that it meets are noted, by name, and where their values are.
using StateLeaves = std::map<std::string, std::shared_ptr<const Leaf>>;
struct EagerRun {
  StateLeaves* noted;
  CallerStates* session;   // null: with the weights
};
EagerRun*& eager_run();    // on this thread; null: none

// With the text of each line that nodes stand at, where the source code is there; files as they are seen from here.
Program with_source_lines(Program);
// A path below the folder in which we are run is short.
std::string from_here(const std::filesystem::path&);

// Runs a program that was made of one op on arrays.
std::vector<Array> run_at_once(Program program, const std::vector<Array>& inputs);

}  // namespace pycandle::front
