// Walks a program of primitives node by node, in several modes at once ("lanes"), and frees each value after its last
// use. Lane 0 rounds as the program says; the others follow its decisions (integers, bools, branches taken).
#pragma once

#include <chrono>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "backends/reference/reference.h"
#include "ir/evaluation.h"

namespace pycandle {

// What does not change between runs.
struct WalkPlan {
  explicit WalkPlan(Program decomposed);

  Program program;
  PerNode<Values> ends_after;            // per node: the values that nobody needs after it
  PerValue<int32_t> parameter_of;         // per value: index into Program::parameters, or -1
  PerValue<std::vector<size_t>> taps_of;  // per value
  bool has_data_bound_symbols = false;
};

class Walker {
 public:
  Walker(const WalkPlan&, const ParameterSource&, const std::vector<ReferenceMode>&, const RunRequest&, OnTapOfModes = {});

  void run();
  Array value(size_t lane, ValueId);         // after run(): inputs, parameters, outputs and updated states

 private:
  using Clock = std::chrono::steady_clock;
  struct Lane {
    ReferenceMode mode;
    PerValue<Array> values;               // those that are not shared by all lanes
    size_t next_decision = 0;
    uint64_t executed = 0;                   // nodes so far: each has its own random stream
  };
  // What the other lanes take from lane 0, for each node executed in it; the decisions of a region's nodes follow that of
  // the node it belongs to.
  struct Decision {
    std::vector<bool> is_pinned;             // per result
    std::vector<Array> pinned;               // per result, where it is pinned
    std::optional<Array> exact;              // the result without rounding, when it is computed once for all lanes
    Array rounded;                           // the same, rounded
    std::optional<Array> scale;              // of the terms that the op sums, when a lane is jittered
    double terms = 1;                        // in its longest sum, when a lane has long sums
    std::optional<Array> bias;               // of a sum whose bias this node adds: kernels may begin with it
    size_t end = 0;                          // the decision after those of this node's regions
  };

  void run_node(size_t index);
  std::vector<Array> lead(Lane&, const Graph&, const Node&, const std::vector<Array>& operands);
  std::vector<Array> follow(Lane&, const Graph&, const Node&, std::vector<Array> operands);
  std::vector<Array> evaluate(Lane&, const Graph&, const Node&, const std::vector<Array>& operands, bool without_rounding);
  std::vector<Array> as_kernels_do(Lane&, const Graph&, const Node&, std::vector<Array> operands, const Decision&,
                                   uint64_t stream);
  std::vector<Array> run_region(Lane&, const Graph& region, std::vector<Array> inputs);
  bool is_same_in_every_lane(const Node&) const;
  bool is_computed_once(const Graph&, const Node&) const;
  void count_terms(const Graph&, const Node&, const std::vector<Array>& operands, Decision&);
  void bind_data_symbols(const Graph&, const Node&, const std::vector<Array>& results);
  void check_results(const Graph&, const Node&, const std::vector<Array>& results, bool without_rounding) const;
  void define(ValueId, Array);               // in every lane
  void deliver_taps(ValueId);
  void report(const std::vector<Clock::time_point>& times) const;

  const WalkPlan& plan_;
  const ParameterSource& parameters_;
  const RunRequest& request_;
  const OnTapOfModes on_tap_;
  bool jitters_ = false;
  bool has_long_sums_ = false;
  std::vector<Lane> lanes_;
  PerValue<Array> shared_values_;
  PerValue<bool> is_shared_;              // inputs, parameters, decisions, and data moved out of those
  PerValue<double> terms_of_;  // of products and of what moves them: terms of the longest sum, when a lane has long sums
  std::vector<Decision> decisions_;  // of the node being run
  Bindings bindings_;
  std::set<std::string> found_;  // symbols that this run's data decided
  uint64_t random_ops_ = 0;  // executed so far: each draws from a stream of its own
};

}  // namespace pycandle
