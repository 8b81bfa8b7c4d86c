#include "backends/reference/walker.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <string>
#include <string_view>
#include <utility>

#include "backends/reference/jitter.h"
#include "backends/step_log.h"
#include "base/error.h"

namespace pycandle {
namespace {

bool is_f64(const ReferenceMode& mode) { return mode.kind == ReferenceMode::Kind::f64; }
bool is_jittered(const ReferenceMode& mode) { return mode.kind == ReferenceMode::Kind::jittered; }

DType unrounded(DType d) { return is_complex(d) ? DType::c128 : is_floating(d) ? DType::f64 : d; }

// Floats that are decisions: a value next to a step lands on either side of it, and what follows may have used it as an
// index already. The other lanes take lane 0's.
bool is_pinned(const Node& node, const Type& result) {
  return !is_inexact(result.dtype) || node.op->is_random || node.op->is_step;
}

// In f64 nothing is rounded, so a cast between floats does nothing.
bool is_float_cast(const Graph& g, const Node& node) {
  return node.op->name == "cast" && is_floating(g.type(node.operands[0]).dtype) && is_floating(g.type(node.results[0]).dtype);
}

// Convolutions of larger windows were seen to err by 13 roundings of their terms in Winograd's way. PyTorch goes it (in NNPACK)
// for batches of 16 and more; of smaller ones none erred by more than a product does.
bool may_be_winograd(const Node& node, const Graph& g, const Sizes& result) {
  constexpr int64_t kFewestOfBatch = 16;
  if (node.op->name != "convolution" || result.empty() || result[0] < kFewestOfBatch) return false;
  const Shape& weight = g.type(node.operands.at(1)).shape;
  return std::any_of(weight.begin() + std::min<std::ptrdiff_t>(2, std::ssize(weight)), weight.end(),
                     [](const Dim& d) { return d != Dim(1); });
}

// Of n terms that are added one after another. Products that cancel were seen to err by up to 1.4 times one rounding of their
// terms.
Growth growth_of(const Node& node, const Graph& g, const Sizes& result, double terms) {
  constexpr double kOfProducts = 1.5;
  const double growth = std::sqrt(terms);
  return {growth, may_be_winograd(node, g, result) ? growth : std::min(growth, kOfProducts)};
}

void widen(const Node& node, std::vector<Array>& operands) {
  if (node.op->takes_mixed_dtypes) return;
  for (Array& a : operands) {
    if (unrounded(a.dtype()) != a.dtype()) a = cast(a, unrounded(a.dtype()));
  }
}

PerNode<Values> last_uses(const Graph& g, PerValue<bool> kept) {
  PerNode<Values> ends_after(g.nodes.size());
  for (size_t n = g.nodes.size(); n-- > 0;) {
    const auto use = [&](ValueId v) {
      if (v == kNoValue || kept[v]) return;
      kept[v] = true;
      ends_after[n].push_back(v);
    };
    for (ValueId v : g.nodes[n].operands) use(v);
    for (ValueId v : g.nodes[n].results) use(v);  // a result that nobody uses
  }
  return ends_after;
}

}  // namespace

WalkPlan::WalkPlan(Program decomposed) : program(std::move(decomposed)) {
  const Graph& g = program.graph;
  PerValue<bool> kept(g.values.size());
  const auto keep = [&](ValueId v) {
    if (v != kNoValue) kept[v] = true;
  };
  for (const Output& o : program.outputs) keep(o.value);
  for (const State& s : program.states) keep(s.updated);
  ends_after = last_uses(g, std::move(kept));

  parameter_of.assign(g.values.size(), -1);
  for (size_t i = 0; i < program.parameters.size(); ++i) {
    const ValueId v = program.parameters[i].value;
    if (v != kNoValue) parameter_of[v] = static_cast<int32_t>(i);
  }
  taps_of.resize(g.values.size());
  for (size_t i = 0; i < program.taps.size(); ++i) {
    if (!program.taps[i].inside) taps_of[program.taps[i].value].push_back(i);
  }
  has_data_bound_symbols = std::any_of(program.symbols.begin(), program.symbols.end(),
                                       [](const Symbol& s) { return s.axis < 0; });
}

Walker::Walker(const WalkPlan& plan, const ParameterSource& parameters, const std::vector<ReferenceMode>& modes,
               const RunRequest& request, OnTapOfModes on_tap)
    : plan_(plan),
      parameters_(parameters),
      request_(request),
      on_tap_(std::move(on_tap)),
      shared_values_(plan.program.graph.values.size()),
      is_shared_(plan.program.graph.values.size()),
      terms_of_(plan.program.graph.values.size()),
      bindings_(bind_inputs(plan.program, request.inputs, request.symbols)) {
  require(!modes.empty() && modes[0].kind == ReferenceMode::Kind::rounded, "the first mode is the rounded one");
  for (const ReferenceMode& mode : modes) {
    lanes_.push_back({mode, std::vector<Array>(modes.size() > 1 ? plan.program.graph.values.size() : 0), 0, 0});
    jitters_ = jitters_ || is_jittered(mode);
    has_long_sums_ = has_long_sums_ || mode.long_sums;
  }
}

void Walker::run() {
  const Program& p = plan_.program;
  for (size_t i = 0; i < p.inputs.size(); ++i) define(p.inputs[i].value, request_.inputs[i]);
  for (const Parameter& q : p.parameters) {
    if (q.value != kNoValue) is_shared_[q.value] = true;  // fetched when first used
  }
  for (size_t i = 0; i < p.states.size(); ++i) {
    const State& s = p.states[i];
    define(s.value, request_.states ? request_.states->at(i) : parameters_.get_state(s, p.graph.type(s.value)));
  }
  for (ValueId v : p.graph.inputs) deliver_taps(v);
  std::vector<Clock::time_point> times;  // for a profile: when each node began, and when it ended
  for (size_t n = 0; n < p.graph.nodes.size(); ++n) {
    const Node& node = p.graph.nodes[n];
    if (request_.on_step) times.push_back(Clock::now());
    try {
      run_node(n);
    } catch (Error& error) {
      error.op(node.op->name)
          .module_path(p.module_path(node.origin))
          .python(p.file_line(node.origin), p.source_line(node.origin));
      throw;
    }
    if (request_.on_step) times.push_back(Clock::now());
    for (ValueId v : node.results) deliver_taps(v);
    for (ValueId v : plan_.ends_after[n]) {
      shared_values_[v] = Array();
      for (Lane& lane : lanes_) {
        if (!lane.values.empty()) lane.values[v] = Array();
      }
    }
  }
  if (request_.found) *request_.found = bindings_;
  if (request_.on_step) report(times);
}

void Walker::report(const std::vector<Clock::time_point>& times) const {
  const Program& p = plan_.program;
  const auto seconds = [](Clock::duration d) { return std::chrono::duration<double>(d).count(); };
  for (size_t n = 0; n < p.graph.nodes.size(); ++n) {
    const Node& node = p.graph.nodes[n];
    request_.on_step({kEvaluator, node.op->name, p.module_path(node.origin), seconds(times[2 * n] - times[0]),
                      seconds(times[2 * n + 1] - times[2 * n])});
  }
}

Array Walker::value(size_t lane, ValueId v) {
  const auto i = static_cast<size_t>(v);
  if (!is_shared_[i]) return lanes_[lane].values[i];
  if (plan_.parameter_of[i] >= 0) return parameters_.get(plan_.program.parameters[plan_.parameter_of[i]]);
  return shared_values_[i];
}

void Walker::define(ValueId v, Array array) {
  is_shared_[v] = true;
  shared_values_[v] = std::move(array);
}

void Walker::deliver_taps(ValueId v) {
  if (on_tap_ && !plan_.taps_of[v].empty()) {
    std::vector<Array> values;
    for (size_t lane = 0; lane < lanes_.size(); ++lane) values.push_back(value(lane, v));
    for (size_t tap : plan_.taps_of[v]) on_tap_(tap, values);
  }
  if (!request_.on_tap) return;
  for (size_t tap : plan_.taps_of[v]) request_.on_tap(tap, value(0, v));
}

bool Walker::is_same_in_every_lane(const Node& node) const {
  if (lanes_.size() == 1 || node.op->is_random) return true;
  const bool moves_data = node.op->rounding == Rounding::exact && node.regions.empty() && !node.operands.empty() &&
                          node.op->name != "cast";
  return moves_data &&
         std::all_of(node.operands.begin(), node.operands.end(), [&](ValueId v) { return v == kNoValue || is_shared_[v]; });
}

// Products and convolutions take most of the time. From operands that are the same in every lane the exact result is too; the
// rounded one is its rounding, since evaluators round once, at the end.
bool Walker::is_computed_once(const Graph& g, const Node& node) const {
  const bool is_product = node.op->rounding == Rounding::linear && node.op->takes_mixed_dtypes;
  return lanes_.size() > 1 && &g == &plan_.program.graph && is_product && node.results.size() == 1 &&
         is_inexact(g.type(node.results[0]).dtype) &&
         std::all_of(node.operands.begin(), node.operands.end(), [&](ValueId v) { return v == kNoValue || is_shared_[v]; });
}

void Walker::run_node(size_t index) {
  const Graph& g = plan_.program.graph;
  const Node& node = g.nodes[index];
  const auto operands = [&](size_t lane) {
    std::vector<Array> arrays;
    arrays.reserve(node.operands.size());
    for (ValueId v : node.operands) arrays.push_back(v == kNoValue ? Array() : value(lane, v));
    return arrays;
  };
  const bool is_same = is_same_in_every_lane(node);
  decisions_.clear();
  std::vector<Array> results = is_same ? evaluate(lanes_[0], g, node, operands(0), false) : lead(lanes_[0], g, node, operands(0));
  bool all_shared = true;
  for (size_t r = 0; r < results.size(); ++r) {
    const ValueId v = node.results[r];
    if (is_same || is_pinned(node, g.type(v))) {
      define(v, std::move(results[r]));
    } else {
      lanes_[0].values[v] = std::move(results[r]);
      all_shared = false;
    }
  }
  if (all_shared) return;
  for (size_t lane = 1; lane < lanes_.size(); ++lane) {
    lanes_[lane].next_decision = 0;
    results = follow(lanes_[lane], g, node, operands(lane));
    for (size_t r = 0; r < results.size(); ++r) lanes_[lane].values[node.results[r]] = std::move(results[r]);
  }
}

std::vector<Array> Walker::lead(Lane& lane, const Graph& g, const Node& node, const std::vector<Array>& operands) {
  const size_t index = decisions_.size();
  decisions_.emplace_back();  // filled below, for the regions' decisions come after it
  Decision decision;
  std::vector<Array> results;
  if (is_computed_once(g, node)) {
    decision.exact = evaluate(lane, g, node, operands, true)[0];
    decision.rounded = cast(*decision.exact, g.type(node.results[0]).dtype);
    results = {decision.rounded};
  } else {
    results = evaluate(lane, g, node, operands, false);
  }
  for (size_t r = 0; r < results.size(); ++r) {
    decision.is_pinned.push_back(is_pinned(node, g.type(node.results[r])));
    decision.pinned.push_back(decision.is_pinned.back() ? results[r] : Array());
  }
  const bool any_free = std::count(decision.is_pinned.begin(), decision.is_pinned.end(), false) > 0;
  if (jitters_ && any_free) decision.scale = scale_of_terms(node, g, operands, results[0], bindings_);
  if (has_long_sums_ && any_free) count_terms(g, node, operands, decision);
  decision.end = decisions_.size();
  decisions_[index] = std::move(decision);
  return results;
}

// A kernel may begin its sum with the bias, and then every partial sum is as large as the bias is, and rounds so.
void Walker::count_terms(const Graph& g, const Node& node, const std::vector<Array>& operands, Decision& decision) {
  decision.terms = count_of_terms(node, g, operands, bindings_);
  if (&g != &plan_.program.graph || node.results.size() != 1) return;
  const auto terms_of = [&](ValueId v) { return v == kNoValue ? 0 : terms_of_[v]; };
  if (node.op->rounding == Rounding::linear && node.op->takes_mixed_dtypes) {
    terms_of_[node.results[0]] = decision.terms;
  } else if (node.operands.size() == 1 && node.op->rounding == Rounding::exact) {
    terms_of_[node.results[0]] = terms_of(node.operands[0]);
  } else if (node.op->name == "add") {
    for (const size_t i : {0, 1}) {
      const NodeId other = g.values[node.operands[1 - i]].node;
      if (terms_of(node.operands[i]) == 0 || other < 0 || g.nodes[other].op->name != "broadcast") continue;
      decision.terms = terms_of(node.operands[i]);
      decision.bias = operands[1 - i];
    }
  }
}

std::vector<Array> Walker::follow(Lane& lane, const Graph& g, const Node& node, std::vector<Array> operands) {
  const size_t index = lane.next_decision++;
  const uint64_t stream = mixed(lane.mode.seed, lane.executed++);
  const std::vector<bool> pinned = decisions_[index].is_pinned;
  if (std::count(pinned.begin(), pinned.end(), false) == 0) {
    lane.next_decision = decisions_[index].end;
    return decisions_[index].pinned;
  }
  if (lane.mode.kernels_for && node.op->rounding != Rounding::exact && node.regions.empty())
    return as_kernels_do(lane, g, node, std::move(operands), decisions_[index], stream);
  std::vector<Array> results;
  if (const std::optional<Array>& exact = decisions_[index].exact) {
    results = {is_f64(lane.mode) ? *exact : decisions_[index].rounded};
  } else {
    if (is_f64(lane.mode)) widen(node, operands);
    if (is_f64(lane.mode) && is_float_cast(g, node)) return {operands[0]};
    results = evaluate(lane, g, node, operands, is_f64(lane.mode));
  }
  const Decision& decision = decisions_[index];
  require(lane.next_decision == decision.end, "the lanes of the reference run took different branches");
  for (size_t r = 0; r < results.size(); ++r) {
    if (pinned[r]) {
      results[r] = decision.pinned[r];
    } else if (is_jittered(lane.mode) && node.op->rounding != Rounding::exact) {
      const bool is_biased = lane.mode.long_sums && decision.bias;
      const std::optional<Array>& scale = is_biased ? decision.bias : decision.scale;
      const Growth growth = is_biased             ? Growth{1, std::sqrt(decision.terms)}
                            : lane.mode.long_sums ? growth_of(node, g, results[r].shape(), decision.terms)
                                                  : Growth{};
      results[r] = jittered(results[r], scale ? &*scale : nullptr, mixed(stream, r), growth);
    }
  }
  return results;
}

// In f32 and rounded once; operands of a product that are more than the kernel's dtype holds may be rounded to it first.
std::vector<Array> Walker::as_kernels_do(Lane& lane, const Graph& g, const Node& node, std::vector<Array> operands,
                                         const Decision& decision, uint64_t stream) {
  const DType narrow = *lane.mode.kernels_for;
  const double u = lane.mode.noise * unit_roundoff(DType::f32);
  const bool is_product = node.op->name == "dot_general";
  bool are_given = true;  // the operands, as they are in every lane
  if (is_product) {
    for (size_t i = 0; i < operands.size(); ++i) {
      if (operands[i].dtype() != DType::f32 || cast(cast(operands[i], narrow), DType::f32).same_bytes(operands[i])) continue;
      operands[i] = cast(cast(jittered_by(u, operands[i], nullptr, mixed(stream, 16 + i)), narrow), DType::f32);
      are_given = false;
    }
  }
  const bool is_narrow = g.type(node.results[0]).dtype == narrow;
  std::vector<Array> results;
  if (decision.exact && are_given) {
    results = {is_narrow ? *decision.exact : decision.rounded};
  } else {
    if (is_narrow) widen(node, operands);
    results = evaluate(lane, g, node, operands, is_narrow);
  }
  for (size_t r = 0; r < results.size(); ++r) {
    const DType dtype = g.type(node.results[r]).dtype;
    if (decision.is_pinned[r]) {
      results[r] = decision.pinned[r];
      continue;
    }
    if (!node.op->is_correctly_rounded) {
      const double least = is_narrow || dtype == DType::f32 ? u : unit_roundoff(dtype);
      results[r] = jittered_by(least, results[r], decision.scale ? &*decision.scale : nullptr, mixed(stream, r));
    } else if (is_narrow) {
      results[r] = cast(results[r], DType::f32);
    }
    if (is_product && lane.mode.rounds_products) results[r] = cast(results[r], narrow);
    if (results[r].dtype() != dtype) results[r] = cast(results[r], dtype);
  }
  return results;
}

std::vector<Array> Walker::evaluate(Lane& lane, const Graph& g, const Node& node, const std::vector<Array>& operands,
                                    bool without_rounding) {
  if (!node.op->evaluate) internal_error(fmt::format("{} has no evaluator: the program is not decomposed", node.op->name));
  std::vector<const Array*> pointers;
  pointers.reserve(operands.size());
  for (size_t i = 0; i < operands.size(); ++i) pointers.push_back(node.operands[i] == kNoValue ? nullptr : &operands[i]);
  const RegionRunner runner = [&](const Graph& region, std::vector<Array> inputs) {
    return run_region(lane, region, std::move(inputs));
  };
  Evaluation evaluation(node, g, std::move(pointers), bindings_, without_rounding, &runner);
  if (node.op->is_random) evaluation.seed = mixed(request_.seed, random_ops_++);
  std::vector<Array> results = node.op->evaluate(evaluation);
  require(results.size() == node.results.size(), "an evaluator gives every result of its op");
  if (plan_.has_data_bound_symbols) bind_data_symbols(g, node, results);
  check_results(g, node, results, without_rounding);
  return results;
}

std::vector<Array> Walker::run_region(Lane& lane, const Graph& region, std::vector<Array> inputs) {
  require(inputs.size() == region.inputs.size(), "a region gets an array for each of its inputs");
  PerValue<Array> values(region.values.size());
  for (size_t i = 0; i < inputs.size(); ++i) values[region.inputs[i]] = std::move(inputs[i]);
  PerValue<bool> kept(region.values.size());
  for (ValueId v : region.outputs) kept[v] = true;
  const std::vector<Values> ends_after = last_uses(region, std::move(kept));
  for (size_t n = 0; n < region.nodes.size(); ++n) {
    const Node& node = region.nodes[n];
    std::vector<Array> operands;
    for (ValueId v : node.operands) operands.push_back(v == kNoValue ? Array() : values[v]);
    const bool is_alone = lanes_.size() == 1, is_first = &lane == &lanes_[0];
    std::vector<Array> results = is_alone   ? evaluate(lane, region, node, operands, false)
                                 : is_first ? lead(lane, region, node, operands)
                                            : follow(lane, region, node, std::move(operands));
    for (size_t r = 0; r < results.size(); ++r) values[node.results[r]] = std::move(results[r]);
    for (ValueId v : ends_after[n]) values[v] = Array();
  }
  std::vector<Array> outputs;
  for (ValueId v : region.outputs) outputs.push_back(values[v]);
  return outputs;
}

void Walker::bind_data_symbols(const Graph& g, const Node& node, const std::vector<Array>& results) {
  for (const Symbol& symbol : plan_.program.symbols) {
    if (symbol.axis >= 0 || found_.count(symbol.name) != 0) continue;
    for (size_t r = 0; r < results.size(); ++r) {
      const Shape& shape = g.type(node.results[r]).shape;
      const auto axis = std::find(shape.begin(), shape.end(), Dim::symbol(symbol.name));
      if (axis == shape.end()) continue;
      found_.insert(symbol.name);
      bindings_[symbol.name] = results[r].shape().at(axis - shape.begin());
      evaluate_checks(plan_.program, bindings_, symbol.name);
      break;
    }
  }
}

void Walker::check_results(const Graph& g, const Node& node, const std::vector<Array>& results, bool without_rounding) const {
  for (size_t r = 0; r < results.size(); ++r) {
    const Type& type = g.type(node.results[r]);
    const DType dtype = without_rounding ? unrounded(type.dtype) : type.dtype;
    if (results[r].dtype() == dtype && results[r].shape() == pycandle::evaluate(type.shape, bindings_)) continue;
    internal_error(fmt::format("the evaluator of {} gave {}{} where its type is {}", node.op->name, name_of(results[r].dtype()),
                               to_string(results[r].shape()), type.text()));
  }
}

}  // namespace pycandle
