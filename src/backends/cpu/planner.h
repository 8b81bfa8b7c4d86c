// Turns a program into a plan for one set of sizes: node by node, a lowering for each op (lowerings.h) adds steps or only
// another view. Elementwise nodes wait in open chains (chain.h) until something else wants their values.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <tuple>
#include <vector>

#include "backends/cpu/plan.h"
#include "base/hash.h"
#include "ir/evaluation.h"

namespace pycandle::cpu {

class Chains;

// What plans of one executable share.
struct Shared {
  Program program;
  std::shared_ptr<const ParameterSource> parameters;
  int threads = 1;
  bool packs = true;             // weights, from the second call on
  bool exact_convolutions = false;  // none in Winograd's way
  PerValue<int32_t> uses;     // per value: by nodes, outputs and states; taps do not count
  PerValue<std::vector<size_t>> users;    // per value: nodes
  PerValue<std::vector<size_t>> taps_of;  // per value
};

// Packing weights takes longer than reading them where they lie, once; a first call may be the only one.
enum class Unpacked { pack, read };

class Planner {
 public:
  Planner(const Shared&, Bindings, Unpacked);
  ~Planner();
  std::unique_ptr<Plan> plan();

  // ---- for lowerings
  const Shared& shared() const { return shared_; }
  const Graph& graph() const { return shared_.program.graph; }
  const Node& node(size_t index) const { return graph().nodes[index]; }
  const Bindings& bindings() const { return plan_->bindings; }
  Call call(size_t index) const;
  Sizes sizes(ValueId v) const { return evaluate(graph().type(v).shape, bindings()); }
  Sizes sizes(const Dims& dims) const { return evaluate(dims, bindings()); }
  DType dtype(ValueId v) const { return graph().type(v).dtype; }
  int32_t uses(ValueId v) const { return shared_.uses[v]; }

  const View& view(ValueId);               // closes the chain that it waits in
  Chains& chains() { return *chains_; }
  View dense(ValueId);                     // copied once when it is not
  View dense(const View&);
  bool is_blocked(ValueId v) const;  // it has a form in blocks of channels (blocks.h), or will have when its chain closes
  bool wants_blocked(ValueId v) const { return wanted_in_blocks_[v]; }
  View blocked(ValueId);  // made once when it has none
  bool is_one_a_channel(ValueId) const;  // an image whose positions repeat
  View blocked_operand(ValueId);  // blocked, or such an image as strides over blocks
  View blocked_result(ValueId);  // its own memory in blocks
  void define_blocked(ValueId, View);
  bool is_state(const View&) const;  // all of a state's own memory, before the run
  bool is_known(ValueId v) const;  // it has a view, so a step added now may read it
  bool is_constant(ValueId) const;  // known when planned: computed from parameters and constants alone
  std::optional<Array> constant(ValueId);  // its value, dense
  Hash128 identity(ValueId) const;  // of a constant: equal for equal values, whoever plans
  std::optional<size_t> waiting_node(ValueId) const;  // that computes a constant, which nobody needed so far
  // A constant in the format of a kernel: made once for all plans and executables. Its own form is then forgotten,
  // unless a step reads it as well.
  Array derived(ValueId, const std::string& format, const std::function<Array(const Array&)>& make);
  // Is the format worth having: made already, or wanted by a plan for many calls? If not, the plan reads the constant itself.
  bool wants(ValueId, const std::string& format);

  BufferId new_buffer(size_t bytes);
  BufferId constant_buffer(Array);
  View result(ValueId);  // its own dense memory
  void define(ValueId, View);  // and its taps exist from here on
  void add(Step);  // `node` and `kernel` are filled in, reads and writes without repeats
  void copy(const View& from, const View& to);
  template <class T> const T* keep(T value) {  // as long as the plan
    auto kept = std::make_shared<const T>(std::move(value));
    plan_->kept.push_back(kept);
    return kept.get();
  }
  void mark_done(size_t node) { done_[node] = true; }  // swallowed by another
  bool is_done(size_t node) const { return done_[node]; }
  void evaluate_by_reference(size_t node);
  int threads() const;
  size_t current = 0;  // the node being lowered

 private:
  // Where a constant of the plan comes from. What was folded is computed when somebody asks for it.
  struct Source {
    Hash128 identity;
    bool is_made = true;
    size_t node = SIZE_MAX;  // folded
    const Parameter* parameter = nullptr;  // got when it is asked for: what a source makes of narrow weights is large
    bool is_kept = false;  // a step reads it
  };
  bool fold(size_t node);
  void make_folded(size_t constant);
  void forget(ValueId);
  void place(Error&, const Node&) const;  // where in the model it happened
  size_t constant_of(ValueId) const;
  BufferId add_constant(Array, Source);
  void make_what_is_read();
  void finish_outputs();
  void tap(ValueId);
  View image_of_blocks(ValueId);  // the image, copied from its blocks

  const Shared& shared_;
  Unpacked unpacked_;
  std::unique_ptr<Plan> plan_;
  std::vector<Source> sources_;  // per constant of the plan
  PerNode<bool> done_;
  PerValue<bool> wanted_in_blocks_;
  PerValue<View> blocked_;  // those of the plan, and the copies of images
  std::unique_ptr<Chains> chains_;
  std::map<std::tuple<BufferId, int64_t, Sizes, Sizes>, View> copies_;  // dense copies of views that were not
};

}  // namespace pycandle::cpu
