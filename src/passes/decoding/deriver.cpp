#include "passes/decoding/deriver.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <queue>
#include <utility>

#include "base/error.h"
#include "passes/constants.h"
#include "passes/decoding/at_positions.h"
#include "passes/decoding/prepare.h"
#include "passes/decoding/rolling.h"
#include "passes/decoding/rules.h"
#include "passes/passes.h"
#include "passes/rewriter.h"

namespace pycandle::decoding {

Part::Part(const Program& from, const OpTable& table) : b(program.graph, table) {
  program.name = from.name;
  program.files = from.files;
  program.calls = from.calls;
  for (ModuleCall& call : program.calls) {  // their values are not those of this graph
    call.args.clear();
    call.output = {};
  }
}

Deriver::Deriver(const Program& p, const OpTable& table, const std::string& length, Dim batch, PositionValues position_values)
    : p_(p),
      g_(p.graph),
      position_values_(position_values),
      longest_(p.ranges().at(length).max),
      axes_(p, Dim::symbol(length), batch, Dim::symbol(kCapacity)),
      setup_(p, table),
      step_(p, table) {
  lengths_ = step_.program.graph.add_input({DType::i64, {batch}});
  if (position_values_ == PositionValues::computed) return;  // code that is read keeps all rows
  windows_ = read_windows(p, axes_, [this](ValueId v) { return is_kept(v); });
  for (const auto& [v, window] : windows_) axes_.keep_window(v);
  if (!windows_.empty()) dropped_ = step_.program.graph.add_input({DType::i64, {batch}});
}

void Deriver::refuse(const Node& node, const std::string& reason) const {
  throw Error(ErrorCode::gap, "no decode step can be derived: " + reason)
      .op(node.op->name)
      .module_path(p_.module_path(node.origin))
      .python(p_.file_line(node.origin), p_.source_line(node.origin));
}

// In the order of the program, so that the first layer that is not causal is the one that is named.
void Deriver::check_attention() const {
  for (const Node& node : g_.nodes) {
    if (node.op->name != "scaled_dot_product_attention" || !axes_.of_tokens(node.operands[1])) continue;
    const Call call = call_of(g_, node);
    if (!call.boolean("is_causal") || call.dim("query_offset") != Dim(0))
      refuse(node, "attention is not causal: a position sees later ones");
  }
}

bool Deriver::has_rows(const Output& output) const { return axes_.of_tokens(output.value); }

void Deriver::add_output(const Output& output) {
  if (const Node* node = defining_node(g_, output.value); node && !axes_.factors(output.value))
    refuse(*node, "a size has the length of the sequence in it in a way that is not understood");
  step_.program.outputs.push_back({output.name, value(step_, output.value, axes_.every(output.value, Rows::fresh))});
}

ValueId Deriver::value(Part& part, ValueId v, const Need& need) {
  if (v == kNoValue) return v;
  const std::pair key{v, need};
  if (const auto found = part.known.find(key); found != part.known.end()) return found->second;
  const Origin origin = part.b.origin;
  if (const Node* node = defining_node(g_, v)) part.b.origin = node->origin;
  const ValueId built = made(part, v, need);
  part.b.origin = origin;
  const NodeId place = g_.values[v].node;
  part.place.resize(part.program.graph.nodes.size(), place < 0 ? 0 : static_cast<size_t>(place));
  part.known.emplace(key, built);
  return built;
}

ValueId Deriver::made(Part& part, ValueId v, const Need& need) {
  const Node* node = defining_node(g_, v);
  if (&part == &step_) {
    const bool is_plain = !axes_.has_sequence(v);
    const bool is_folded = is_plain && !axes_.of_tokens(v) && !axes_.of_inputs(v) && !axes_.of_length(v);
    const bool is_number = node && node->op->name == "constant";
    if (axes_.of_tokens(v)) {
      const bool is_one_cache = axes_.sequence_count(v) == 1 && any_is(need, Rows::all) && is_kept(v);
      if (is_one_cache) return cached(v);
    } else if (!is_folded && !is_number) {
      const bool is_recomputed = position_values_ == PositionValues::computed && !axes_.of_inputs(v);
      if (!any_is(need, Rows::fresh) && !is_recomputed) return once(v, need);
      if (differs_by_sequence(v, need)) return per_sequence(v, need);
    }
  }
  if (!node) return input(part, v);
  if (axes_.of_length(v) && !axes_.of_tokens(v)) refuse(*node, "a value depends on the length of the sequence");
  return computed(part, *node, v, need);
}

ValueId Deriver::input(Part& part, ValueId v) {
  Program& to = part.program;
  const auto is_it = [v](const auto& entry) { return entry.value == v; };
  const ValueId fresh = to.graph.add_input(g_.type(v));
  if (const auto found = std::find_if(p_.inputs.begin(), p_.inputs.end(), is_it); found != p_.inputs.end()) {
    to.inputs.push_back(*found);
    to.inputs.back().value = fresh;
  } else if (const auto parameter = std::find_if(p_.parameters.begin(), p_.parameters.end(), is_it);
             parameter != p_.parameters.end()) {
    to.parameters.push_back(*parameter);
    to.parameters.back().value = fresh;
  } else {
    throw Error(ErrorCode::gap, "no decode step can be derived: the model has a state of its own");
  }
  return fresh;
}

ValueId Deriver::computed(Part& part, const Node& node, ValueId v, const Need& need) {
  return Rules{*this, part, node, v, need, call_of(g_, node)}.apply();
}

ValueId Deriver::once(ValueId v, const Need& need) {
  if (const auto found = once_.find(v); found != once_.end()) return found->second;
  asked_for_.clear();
  const ValueId made_there = value(setup_, v, need);
  const Node* node = defining_node(g_, v);
  const std::string name = state_name(v, node ? node->origin.call : -1, axes_.has_sequence(v) ? "table" : "once");
  setup_.program.outputs.push_back({name, made_there});
  const ValueId read = state({CacheState::Kind::once, name, axes_.sequence_axis(v).value_or(-1)},
                             {g_.type(v).dtype, axes_.shape(v, need)});
  once_.emplace(v, read);
  return read;
}

// ---- caches

namespace {

// The same numbers elsewhere, or in more bytes.
bool moves(const Graph& g, const Node& node) {
  const std::string& op = node.op->name;
  if (op == "cast") return size_of(g.type(node.operands[0]).dtype) < size_of(g.type(node.results[0]).dtype);
  return op == "broadcast" || op == "reshape" || op == "transpose";
}

Dim bytes_of(const Type& type) { return product(type.shape) * Dim(static_cast<int64_t>(size_of(type.dtype))); }

}  // namespace

// Rows are kept where they are smallest: before heads are repeated for the queries that share them, and where the batch and
// the positions are axes of their own. Else where they are asked for, in the layout that is read.
bool Deriver::is_kept(ValueId asked) {
  if (const auto found = is_kept_.find(asked); found != is_kept_.end()) return found->second;
  Values chain{asked};
  for (const Node* node = defining_node(g_, asked); node && moves(g_, *node); node = defining_node(g_, chain.back())) {
    if (!axes_.of_tokens(node->operands[0]) || axes_.sequence_count(node->operands[0]) != 1) break;
    chain.push_back(node->operands[0]);
  }
  size_t best = chain.size();
  for (size_t i = 0; i < chain.size(); ++i) {
    const bool can_be_kept = axes_.sequence_axis(chain[i]) && axes_.batch_axis(chain[i]);
    const bool grows = i > 0 && bytes_of(g_.type(chain[i])) != bytes_of(g_.type(chain[i - 1]));
    if (can_be_kept && (best == chain.size() || grows)) best = i;
  }
  for (size_t i = 0; i < chain.size() && i <= best; ++i) is_kept_[chain[i]] = i == best;
  return is_kept_[asked];
}

ValueId Deriver::cached(ValueId v) {
  if (const auto found = caches_.find(v); found != caches_.end()) return found->second;
  Builder& b = step_.b;
  const int64_t batch = *axes_.batch_axis(v), rank = g_.type(v).rank();
  Ints order{batch}, back(static_cast<size_t>(rank));
  for (int64_t axis = 0; axis < rank; ++axis) {
    if (axis != batch) order.push_back(axis);
  }
  for (int64_t axis = 0; axis < rank; ++axis) back[order[axis]] = axis;
  const Origin origin = b.origin;
  const int32_t call = keeping_call(v);
  const std::string name = state_name(v, call, "rows");
  const ValueId made = value(step_, v, axes_.every(v, Rows::fresh));
  b.origin.call = call;
  const ValueId rows = b.transpose(made, order);
  Shape shape = b.shape(rows);
  const int64_t axis = back[*axes_.sequence_axis(v)];
  shape[axis] = axes_.rows(v);
  const size_t index = states_.size();
  const auto window = windows_.find(v);
  const ValueId before = state({CacheState::Kind::rows, name, axis, window == windows_.end() ? 0 : window->second},
                               {g_.type(v).dtype, shape});
  updated_[index] = b.create("cache_append", {before, rows, first_row(v)}, {{"axis", axis}});
  const ValueId all = b.transpose(updated_[index], back);
  b.origin = origin;
  return caches_.emplace(v, all).first->second;
}

ValueId Deriver::state(CacheState state, Type type) {
  const ValueId v = step_.program.graph.add_input(std::move(type));
  step_.program.states.push_back({state.name, v, kNoValue, {}, {}});
  states_.push_back(std::move(state));
  updated_.push_back(kNoValue);
  return v;
}

std::string Deriver::layer_of(int32_t call) const {
  const std::string path = call >= 0 ? p_.calls[call].path : "";
  return path.empty() ? path : path + '.';
}

int32_t Deriver::keeping_call(ValueId v) const {
  const auto around = [&](int32_t call) {  // itself first
    std::vector<int32_t> all;
    for (; call >= 0; call = p_.calls[call].parent) all.push_back(call);
    return all;
  };
  std::optional<std::vector<int32_t>> common;
  for (const Node& user : g_.nodes) {
    if (std::find(user.operands.begin(), user.operands.end(), v) == user.operands.end()) continue;
    const std::vector<int32_t> own = around(user.origin.call);
    if (!common) common = own;
    std::erase_if(*common, [&](int32_t call) { return std::find(own.begin(), own.end(), call) == own.end(); });
  }
  return common && !common->empty() ? common->front() : -1;
}

// The layer, and what it needs the rows for or the variable that holds them in Python.
std::string Deriver::state_name(ValueId v, int32_t call, std::string_view fallback) {
  std::string word = std::exchange(asked_for_, {});
  const Node* node = defining_node(g_, v);
  const auto input = std::find_if(p_.inputs.begin(), p_.inputs.end(), [v](const Input& i) { return i.value == v; });
  if (word.empty() && node) word = node->origin.assigned_to;
  if (word.empty() && input != p_.inputs.end()) word = input->name;
  const std::string base = layer_of(call) + (word.empty() ? std::string(fallback) : word);
  std::string name = base;
  for (int i = 2; !names_.insert(name).second; ++i) name = fmt::format("{}.{}", base, i);
  return name;
}

ValueId Deriver::positions() {
  if (positions_ == kNoValue) {
    const Origin origin = std::exchange(step_.b.origin, {});
    positions_ = step_.b.add(step_.b.unsqueeze(lengths_, 1), step_.b.unsqueeze(step_.b.iota(axes_.length()), 0));
    step_.b.origin = origin;
  }
  return positions_;
}

ValueId Deriver::first_row(ValueId kept) {
  if (windows_.count(kept) == 0) return lengths_;
  if (first_row_ == kNoValue) {
    const Origin origin = std::exchange(step_.b.origin, {});
    first_row_ = step_.b.sub(lengths_, dropped_);
    step_.b.origin = origin;
  }
  return first_row_;
}

ValueId Deriver::reshaped(ValueId v, const Shape& shape) {
  const Node* node = defining_node(step_.program.graph, v);
  const bool is_undone = node && node->op->name == "reshape" && step_.b.shape(node->operands[0]) == shape;
  return is_undone ? node->operands[0] : step_.b.reshape(v, shape);
}

bool Deriver::differs_by_sequence(ValueId v, const Need& need) const {
  return !axes_.of_tokens(v) && any_is(need, Rows::fresh) && !axes_.batch_axis(v) && !axes_.is_alike(v);
}

ValueId Deriver::per_sequence(ValueId v, const Need& need) {
  if (position_values_ == PositionValues::computed) {
    if (const auto made = AtPositions(*this).rows(v, need)) return *made;
  }
  return from_table(v, need);
}

ValueId Deriver::from_table(ValueId v, const Need& need) {
  Builder& b = step_.b;
  int64_t axis = -1;
  for (size_t a = 0; a < need.size(); ++a) {
    if (std::count(need[a].begin(), need[a].end(), Rows::fresh) == 0) continue;
    if (axis >= 0 || (*axes_.factors(v))[a].size() != 1)
      refuse(*defining_node(g_, v), "a table over positions has them in an axis with others");
    axis = static_cast<int64_t>(a);
  }
  const ValueId table = value(step_, v, axes_.every(v, Rows::all));
  const ValueId taken = b.create("take", {table, positions()}, {{"axis", axis}});
  Ints order{axis};
  for (int64_t a = 0; a < b.rank(taken); ++a) {
    if (a != axis) order.push_back(a);
  }
  return b.transpose(taken, order);
}

// ---- the programs as a whole

void Deriver::finish(Part& part, bool is_step) {
  Program& p = part.program;
  if (is_step) {
    p.inputs.push_back({kLengths, lengths_, std::nullopt, true, std::nullopt});
    if (dropped_ != kNoValue) p.inputs.push_back({kDropped, dropped_, std::nullopt, true, std::nullopt});
    for (size_t i = 0; i < states_.size(); ++i) p.states[i].updated = updated_[i] == kNoValue ? p.states[i].value : updated_[i];
    keep_boundaries();
    if (position_values_ == PositionValues::computed) order_nodes(part);
  }
  Values inputs;
  for (const Input& input : p.inputs) inputs.push_back(input.value);
  for (const Parameter& parameter : p.parameters) inputs.push_back(parameter.value);
  for (const State& s : p.states) inputs.push_back(s.value);
  p.graph.inputs = inputs;
  for (size_t i = 0; i < inputs.size(); ++i) p.graph.values[inputs[i]].index = static_cast<int32_t>(i);
  for (Symbol s : p_.symbols) {
    s.input.clear();
    s.axis = -1;
    if (is_step && s.name == axes_.length().text()) s.range.min = 1;  // of new tokens, whatever a whole sequence needs
    for (const Input& input : p.inputs) {
      const Shape& shape = p.graph.type(input.value).shape;
      const auto found = std::find(shape.begin(), shape.end(), Dim::symbol(s.name));
      if (found == shape.end()) continue;
      s.input = input.name;
      s.axis = static_cast<int32_t>(found - shape.begin());
      break;
    }
    p.symbols.push_back(std::move(s));
  }
  p.symbols.push_back({kCapacity, {1, longest_}, longest_.value_or(64), {}, -1});
  if (is_step && dropped_ != kNoValue) p.symbols.push_back({kWindowRows, {1, std::nullopt}, 64, {}, -1});
  for (const Tap& tap : p_.taps) {
    if (!is_step || !axes_.factors(tap.value) || !axes_.has_sequence(tap.value)) continue;
    if (!axes_.of_tokens(tap.value) && !axes_.batch_axis(tap.value)) continue;  // its rows in the step differ by sequence
    const auto found = part.known.find({tap.value, axes_.every(tap.value, Rows::fresh)});
    if (found == part.known.end()) continue;
    p.taps.push_back(tap);
    p.taps.back().value = found->second;
  }
  p.bind_outputs();
  p = without_dead_nodes(std::move(p));
}

void Deriver::order_nodes(Part& part) const {
  Graph& graph = part.program.graph;
  using Entry = std::pair<size_t, size_t>;  // its place, and its number
  std::priority_queue<Entry, std::vector<Entry>, std::greater<>> ready;
  std::vector<size_t> waits(graph.nodes.size(), 0);
  PerNode<std::vector<size_t>> users(graph.nodes.size());
  for (size_t n = 0; n < graph.nodes.size(); ++n) {
    for (const ValueId v : graph.nodes[n].operands) {
      if (v == kNoValue || graph.values[v].node < 0) continue;
      users[graph.values[v].node].push_back(n);
      ++waits[n];
    }
    if (waits[n] == 0) ready.emplace(part.place[n], n);
  }
  decltype(graph.nodes) ordered;
  while (!ready.empty()) {
    const size_t n = ready.top().second;
    ready.pop();
    for (const size_t user : users[n]) {
      if (--waits[user] == 0) ready.emplace(part.place[user], user);
    }
    for (const ValueId v : graph.nodes[n].results) graph.values[v].node = static_cast<NodeId>(ordered.size());
    ordered.push_back(std::move(graph.nodes[n]));
  }
  require(ordered.size() == graph.nodes.size(), "the nodes of a step depend on each other in a circle");
  graph.nodes = std::move(ordered);
}

ValueId Deriver::in_step(ValueId v) const {
  if (v == kNoValue || !axes_.factors(v)) return kNoValue;
  const std::pair key{v, axes_.every(v, Rows::fresh)};
  if (const auto found = at_positions_.find(key); found != at_positions_.end()) return found->second;
  const auto found = step_.known.find(key);
  return found == step_.known.end() ? kNoValue : found->second;
}

void Deriver::keep_boundaries() {
  const std::function<Tree(const Tree&)> of_step = [&](const Tree& tree) {
    Tree made = tree;
    made.value = in_step(tree.value);
    if (tree.kind == Tree::Kind::value && made.value == kNoValue) made.kind = Tree::Kind::none;
    for (auto& [name, item] : made.items) item = of_step(item);
    return made;
  };
  for (size_t i = 0; i < p_.calls.size(); ++i) {
    ModuleCall& call = step_.program.calls[i];
    for (const auto& [name, tree] : p_.calls[i].args) call.args.emplace_back(name, of_step(tree));
    call.output = of_step(p_.calls[i].output);
  }
}

DecodeStep Deriver::finished() {
  finish(setup_, false);
  finish(step_, true);
  DecodeStep result;
  result.setup = std::move(setup_.program);
  result.step = std::move(step_.program);
  result.states = states_;
  result.batch = axes_.batch().text();
  result.tokens = axes_.length().text();
  result.longest = longest_;
  for (const auto& [v, cache] : caches_) result.kept.push_back(v);
  return result;
}

}  // namespace pycandle::decoding

namespace pycandle {

int64_t DecodeStep::widest_window() const {
  int64_t widest = 0;
  for (const CacheState& state : states) widest = std::max(widest, state.window);
  return widest;
}

namespace {

[[noreturn]] void no_sequence(const std::string& reason, const std::string& found = {}) {
  Error error(ErrorCode::gap, "no decode step can be derived: " + reason);
  if (!found.empty()) error.found(found);
  throw error.expected("tokens [batch, length], both open, and a result for every position")
      .hint("`pycandle record` and \"fixed_dims\" in the manifest name the line that fixes an axis (docs/recording.md)");
}

// An input that looks like tokens, but for its length, which is a number.
const Input* tokens_of_one_length(const Program& p) {
  const auto found = std::find_if(p.inputs.begin(), p.inputs.end(), [&](const Input& input) {
    const Type& type = p.graph.type(input.value);
    return type.rank() == 2 && is_integral(type.dtype) && !type.shape[0].is_number() && type.shape[1].is_number();
  });
  return found == p.inputs.end() ? nullptr : &*found;
}

// The axis along which the first output has a place for each token: the symbol that it shares with an input of rank 2 or more.
std::string length_symbol(const Program& p, Dim& batch) {
  if (p.outputs.empty()) no_sequence("the model has no output");
  const Shape& result = p.graph.type(p.outputs[0].value).shape;
  for (const Input& input : p.inputs) {
    const Shape& shape = p.graph.type(input.value).shape;
    if (shape.size() < 2 || shape[0].is_number() || result.size() < 2 || result[0] != shape[0]) continue;
    for (const Symbol& s : p.symbols) {
      const Dim length = Dim::symbol(s.name);
      const bool is_shared = s.axis >= 0 && length != shape[0] && length == shape[1] &&
                             std::find(result.begin(), result.end(), length) != result.end();
      if (!is_shared) continue;
      batch = shape[0];
      return s.name;
    }
  }
  if (const Input* tokens = tokens_of_one_length(p))
    no_sequence(fmt::format("the recorded program is for {} of one length", tokens->name), p.graph.type(tokens->value).text());
  no_sequence("no open axis of an input is an axis of the first output, " + p.graph.type(p.outputs[0].value).text());
}

}  // namespace

DecodeStep derive_decode_step(const Program& program, const OpTable& table, PositionValues position_values) {
  Dim batch = 0;
  const std::string length = length_symbol(program, batch);
  const Program p = decoding::prepared(program, table);
  std::vector<std::string> dropped;
  decoding::Deriver(p, table, length, batch, position_values).check_attention();
  while (true) {  // an output that cannot be had for each token is left out
    decoding::Deriver deriver(p, table, length, batch, position_values);
    std::optional<Error> failure;
    for (size_t i = 0; i < p.outputs.size(); ++i) {
      const bool is_dropped = std::any_of(dropped.begin(), dropped.end(),
                                          [&](const std::string& d) { return d.starts_with(p.outputs[i].name + ": "); });
      if (is_dropped || !deriver.has_rows(p.outputs[i])) continue;
      try {
        deriver.add_output(p.outputs[i]);
      } catch (const Error& e) {
        if (i == 0 || e.code() == ErrorCode::internal) throw;
        dropped.push_back(p.outputs[i].name + ": " + e.message());
        failure = e;
        break;
      }
    }
    if (failure) continue;
    DecodeStep step = deriver.finished();
    step.dropped = std::move(dropped);
    return step;
  }
}

Program with_rounded_caches(const Program& program, const OpTable& table, DType dtype) {
  const Program p = decoding::prepared(program, table);
  std::set<ValueId> kept;
  for (const ValueId v : derive_decode_step(program, table).kept) {
    if (p.graph.type(v).dtype == DType::f32) kept.insert(v);
  }
  return rewrite_outside_regions(p, table, [&](Builder& b, const Node& node, const Values& operands) {
    const auto is_kept = [&](ValueId v) { return kept.count(v) != 0; };
    if (std::none_of(node.results.begin(), node.results.end(), is_kept)) return std::optional<Values>();
    Values made = b.create_all(node.op->name, operands, node.attributes, node.regions);
    for (size_t i = 0; i < made.size(); ++i) {
      if (is_kept(node.results[i])) made[i] = b.cast(b.cast(made[i], dtype), DType::f32);
    }
    return std::optional(made);
  });
}

Program with_caches(Program program, const OpTable& table, const std::string& dtype) {
  if (dtype == "f32") return program;
  if (dtype == "bf16") return with_rounded_caches(program, table, DType::bf16);
  if (dtype == "f16") return with_rounded_caches(program, table, DType::f16);
  throw Error(ErrorCode::usage, "a cache cannot have this dtype").expected("f32, bf16 or f16").found(dtype);
}

}  // namespace pycandle
