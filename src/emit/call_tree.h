// The module calls of a program as functions: what each takes in, what it gives back, and the steps in between.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "emit/implicit.h"

namespace pycandle::emit {

// A step of a call: a node of its own, or the call of another module.
struct Unit {
  NodeId node = kNoNode;
  int32_t call = -1;
  friend bool operator==(const Unit&, const Unit&) = default;
};

struct CallBody {
  bool written = false;          // it has nodes, and stands on its own
  std::vector<Unit> units;       // in an order in which every value is defined before its use
  Values inputs;                 // Python's arguments first, then what the call takes from around it
  std::vector<std::string> input_names;   // Python's names; empty when it had none
  Values outputs;                // in the order of Python's result, then the rest
  std::vector<std::string> output_names;  // their paths in it: "", "0", "logits"; "inner.…" when they are not in it
};

class CallTree;
struct NnModule;

// What a language has of torch.nn.
struct Layers {
  std::function<bool(const CallTree&, const NnModule&)> has;  // nothing: every module
  bool has_plain = true;       // also those without parameters; else their functions are written
  bool has_sequences = true;   // nn.Sequential; else it is a class of its own
  bool has_switches = true;    // arguments that are left out, and fields that are true or false: fewer classes (unify.h)
};

class CallTree {
 public:
  CallTree(const Program&, const Implicit&, Layers layers = {});

  const Layers& layers() const { return layers_; }

  const CallBody& body(int32_t call) const { return bodies_[call]; }
  const std::vector<std::string>& notes() const { return notes_; }
  // Writes the call's steps into the one that calls it, and says why; without a reason it is not worth a note.
  void inline_call(int32_t call, const std::string& why);
  int32_t parent(int32_t call) const;   // the nearest call that is written; -1 for the root
  std::vector<int32_t> depth_first() const;  // written calls, those inside before those around
  // A parameter or state by the name that it has below the call's module: "c_attn.weight"; empty when it is not below it.
  std::string local_parameter(int32_t call, ValueId) const;
  const std::string* gap(ValueId) const;       // what is missing, when nothing can give the value
  const Parameter* parameter(ValueId) const;   // nullptr when the value is none
  const State* state(ValueId) const;           // the same; before the run
  const std::string& stored_name(ValueId) const;  // of a parameter or state, its canonical one
  // The states that the call sets: those below its module whose new value is made in it, and in no module that has them too.
  const std::vector<const State*>& updates(int32_t call) const { return updates_[call]; }
  // Of a decode step: how many tokens of each sequence are in the cache; kNoValue when the program is none. Its states are
  // rows of the cache, and change where rows are appended.
  ValueId cache_lengths() const { return cache_lengths_; }
  bool uses_cache(int32_t call) const { return uses_cache_[call]; }  // itself, or a call in it
  const Program& program() const { return *p_; }
  const Implicit& implicit() const { return *implicit_; }
  // Does a node of the call itself give this size, which only the data decides?
  bool binds(int32_t call, const std::string& symbol) const;
  int32_t call_of(NodeId node) const;   // the written call that the node stands in
  // The call whose node gives a size of `d` that only the data decides, when that is not seen in `from`; -1 when there is none.
  int32_t hidden_binder(Dim d, int32_t from) const;
  bool contains(int32_t call, int32_t inner) const;

 private:
  void find_binders();
  void find_cache();
  void build();
  bool order_units(int32_t call);
  void find_boundary(int32_t call);
  int32_t updating_call(const State&) const;
  template <class Visit> void visit_nodes(int32_t call, const Visit& visit) const;

  const Program* p_;
  const Implicit* implicit_;
  Layers layers_;
  std::vector<CallBody> bodies_;
  std::vector<bool> inlined_;
  std::vector<std::vector<NodeId>> own_nodes_;
  std::vector<std::vector<int32_t>> children_;
  PerValue<const Parameter*> parameter_of_;
  std::map<ValueId, const State*> state_of_;
  std::vector<std::vector<const State*>> updates_;
  ValueId cache_lengths_ = kNoValue;
  std::vector<bool> uses_cache_;
  std::map<ValueId, std::string> gaps_;
  std::map<std::string, size_t> binders_;  // of sizes that the data decides: the node
  std::vector<std::string> notes_;
};

}  // namespace pycandle::emit
