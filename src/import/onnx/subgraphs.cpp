// Graphs in graphs. What sizes and numbers decide is part of the graph around it: a branch that is taken, a loop whose values
// change their shape. Other control flow becomes cond, while_loop and scan.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "base/error.h"
#include "import/onnx/importer_core.h"

namespace pycandle::onnx {
namespace {

constexpr int kDeepest = 64;          // calls and graphs inside each other
constexpr int64_t kMostSteps = 4096;  // of a loop that is written out

bool holds(const Argument& a) {
  const auto* list = std::get_if<Argument::List>(&a.value);
  if (list != nullptr && list->size() != 1) throw Error(ErrorCode::bad_input, "a condition is not one bool");
  const auto* value = std::get_if<bool>(list != nullptr ? &list->at(0).value : &a.value);
  if (value == nullptr) throw Error(ErrorCode::bad_input, "a condition is not a bool");
  return *value;
}

std::optional<Dim> dim_in(const Argument& a) {
  const auto* list = std::get_if<Argument::List>(&a.value);
  if (list != nullptr && list->size() != 1) return std::nullopt;
  const auto& value = list != nullptr ? list->at(0).value : a.value;
  if (const auto* number = std::get_if<int64_t>(&value)) return Dim(*number);
  if (const auto* dim = std::get_if<Dim>(&value)) return *dim;
  return std::nullopt;
}

bool all_tensors(const Items& items) {
  return std::all_of(items.begin(), items.end(),
                     [](const Item& i) { return i.kind == Item::Kind::tensor || i.kind == Item::Kind::numbers; });
}

Values joined(Values a, const Values& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

// The inputs of a body, in this order.
void arrange(pycandle::Graph& body, const Values& inputs) {
  require(body.inputs.size() == inputs.size(), "the inputs of a body are arranged one by one");
  body.inputs = inputs;
  for (size_t i = 0; i < inputs.size(); ++i) body.values[inputs[i]].index = static_cast<int32_t>(i);
}

bool same_types(const Builder& outside, const Values& given, const pycandle::Graph& body, const Values& made) {
  for (size_t i = 0; i < given.size(); ++i) {
    const Type &a = outside.type(given[i]), &b = body.type(made[i]);
    if (a.dtype != b.dtype || a.rank() != b.rank()) return false;
    for (size_t axis = 0; axis < a.shape.size(); ++axis)
      if (!(a.shape[axis] == b.shape[axis])) return false;
  }
  return true;
}

Values outer_of(const Region& r) {
  Values values;
  for (const auto& [outer, inner] : r.captured) values.push_back(outer);
  return values;
}
Values inner_of(const Region& r) {
  Values values;
  for (const auto& [outer, inner] : r.captured) values.push_back(inner);
  return values;
}

template <class T> struct Restored {
  T& place;
  T before;
  Restored(T& p, T now) : place(p), before(std::exchange(p, std::move(now))) {}
  Restored(const Restored&) = delete;
  Restored& operator=(const Restored&) = delete;
  ~Restored() { place = std::move(before); }
};

}  // namespace

// A body while it is built.
struct Importer::Body {
  Body(Importer& importer)
      : region(graph, *importer.table_, nullptr, importer.ranges_, importer.region_) {
  }  // it may never run: no checks of the program
  Body(const Body&) = delete;
  Body& operator=(const Body&) = delete;
  Item input(Type type) { return {Item::Kind::tensor, &region, graph.add_input(std::move(type)), nullptr, {}}; }
  pycandle::Graph graph;
  Region region;
};

const Graph& Importer::graph_attribute(const Node& n, std::string_view name) const {
  const Attribute* a = find_attribute(n, name);
  const auto* graph = a == nullptr ? nullptr : std::get_if<std::shared_ptr<const Graph>>(&a->value);
  if (graph == nullptr) throw Error(ErrorCode::bad_input, fmt::format("{} has no graph '{}'", name_of(n), name));
  return **graph;
}

// The nodes of a graph, as part of the one that is being built.
Items Importer::run(const Graph& g, const Items& inputs, const Scope* around) {
  if (depth_ >= kDeepest)
    throw Error(ErrorCode::bad_input, "functions and graphs of the file are nested too deep, or call themselves")
        .expected(fmt::format("at most {} levels", kDeepest));
  if (inputs.size() > g.inputs.size())
    throw Error(ErrorCode::bad_input, "a graph or function is given more inputs than it has")
        .expected(fmt::format("{}", g.inputs.size()))
        .found(fmt::format("{}", inputs.size()));
  Scope scope{&g, around, {}};
  const Restored deeper(depth_, depth_ + 1);
  const Restored inside(scope_, &scope);
  for (size_t i = 0; i < g.inputs.size(); ++i) define(g.inputs[i].name, i < inputs.size() ? inputs[i] : Item{});
  nodes(g);
  Items made;
  for (const ValueInfo& output : g.outputs) made.push_back(output.name.empty() ? Item{} : item(output.name));
  return made;
}

void Importer::call(const Node& n, const Function& f) {
  Frame frame{&f.opsets, &f, n.attributes};
  for (const Attribute& a : n.attributes) {
    const bool is_known = std::find(f.attributes.begin(), f.attributes.end(), a.name) != f.attributes.end() ||
                          std::any_of(f.defaults.begin(), f.defaults.end(), [&](const Attribute& d) { return d.name == a.name; });
    if (!is_known) throw Error(ErrorCode::bad_input, fmt::format("function {} has no attribute '{}'", name_of(n), a.name));
  }
  for (const Attribute& a : f.defaults)
    if (find_attribute(n, a.name) == nullptr) frame.attributes.push_back(a);
  Items inputs;
  for (size_t i = 0; i < n.inputs.size(); ++i) inputs.push_back(item_or_none(n, i));
  const Restored framed(frame_, static_cast<const Frame*>(&frame));
  Items made = run(f.body, inputs, nullptr);
  define_all(n, made);
}

// ---- If

void Importer::branch(const Node& n) {
  if (n.inputs.size() != 1) throw Error(ErrorCode::bad_input, fmt::format("If has {} inputs", n.inputs.size())).expected("1");
  const Graph &yes = graph_attribute(n, "then_branch"), &no = graph_attribute(n, "else_branch");
  if (yes.outputs.size() != n.outputs.size() || no.outputs.size() != n.outputs.size())
    throw Error(ErrorCode::bad_input, "a branch of If has other outputs than If");
  if (const auto known = known_number(item(n.inputs[0]))) return define_all(n, run(holds(*known) ? yes : no, {}, scope_));
  const ValueId condition = b().reshape(tensor(n.inputs[0]), {});
  std::vector<std::unique_ptr<Body>> bodies;
  for (const Graph* g : {&yes, &no}) {
    bodies.push_back(std::make_unique<Body>(*this));
    Body& body = *bodies.back();
    const Restored inside(region_, &body.region);
    for (const Item& made : run(*g, {}, scope_)) body.graph.outputs.push_back(tensor(made));
  }
  // Both take what either reads.
  Values operands = outer_of(bodies[0]->region);
  for (const ValueId v : outer_of(bodies[1]->region))
    if (std::find(operands.begin(), operands.end(), v) == operands.end()) operands.push_back(v);
  std::vector<pycandle::Graph> graphs;
  for (const auto& body : bodies) {
    Values inputs;
    for (const ValueId v : operands) {
      const auto& captured = body->region.captured;
      const auto found = std::find_if(captured.begin(), captured.end(), [&](const auto& pair) { return pair.first == v; });
      inputs.push_back(found != captured.end() ? found->second : body->graph.add_input(b().type(v)));
    }
    arrange(body->graph, inputs);
    graphs.push_back(std::move(body->graph));
  }
  for (size_t i = 0; i < n.outputs.size(); ++i) {
    const Type &a = graphs[0].type(graphs[0].outputs[i]), &c = graphs[1].type(graphs[1].outputs[i]);
    if (a.dtype != c.dtype || a.rank() != c.rank()) {
      if (taken_if_sizes_agree(n, yes)) return;
      throw Error(ErrorCode::gap, "If is not supported where data decides the type of its result")
          .found(a.text() + " and " + c.text());
    }
  }
  has_bodies_ = true;
  const Values results = b().create_all("cond", joined({condition}, operands), {}, std::move(graphs));
  for (size_t i = 0; i < n.outputs.size(); ++i)
    if (!n.outputs[i].empty()) define(n.outputs[i], results[i]);
}

// Old exporters write squeeze(axis) as If(size == 1): then the result has one axis less. A program has one rank: the sizes are
// taken to be equal, which is checked when it runs.
bool Importer::taken_if_sizes_agree(const Node& n, const Graph& yes) {
  const pycandle::Graph& g = b().graph();
  ValueId v = tensor(n.inputs[0]);
  const auto maker = [&](ValueId value) { return g.values[value].node == kNoNode ? nullptr : &g.nodes[g.values[value].node]; };
  while (maker(v) != nullptr && (maker(v)->op->name == "reshape" || maker(v)->op->name == "cast")) v = maker(v)->operands[0];
  if (maker(v) == nullptr || maker(v)->op->name != "eq") return false;
  std::vector<Dim> sides;
  for (const ValueId side : Values(maker(v)->operands)) {
    const auto known = region_->known.argument(g, side);
    const auto dim = known ? dim_in(*known) : std::nullopt;
    if (!dim) return false;
    sides.push_back(*dim);
  }
  if (!b().check(sides.at(0), sides.at(1), "the sizes that an If compares")) return false;
  define_all(n, run(yes, {}, scope_));
  return true;
}

// ---- Loop

void Importer::loop(const Node& n) {
  const Graph& body = graph_attribute(n, "body");
  if (n.inputs.size() < 2 || body.inputs.size() != n.inputs.size() || body.outputs.size() + 1 < body.inputs.size())
    throw Error(ErrorCode::bad_input, "the body of Loop has other inputs or outputs than Loop");
  std::optional<Dim> trips;
  const Item most = item_or_none(n, 0), first = item_or_none(n, 1);
  if (most.kind != Item::Kind::none)
    if (const auto known = known_number(most)) trips = dim_in(*known);
  Tri starts = Tri::yes;
  if (first.kind != Item::Kind::none) {
    const auto known = known_number(first);
    starts = !known ? Tri::unknown : holds(*known) ? Tri::yes : Tri::no;
  }
  if (starts == Tri::no) trips = Dim(0);
  Items initial;
  for (size_t i = 2; i < n.inputs.size(); ++i) initial.push_back(item_or_none(n, i));
  const bool is_plain = all_tensors(initial) && starts != Tri::no;
  if (is_plain && starts == Tri::yes && trips && loop_in_body(n, body, trips, initial)) return;
  if (trips && trips->is_number() && starts != Tri::unknown) return unrolled_loop(n, body, trips->number(), initial);
  if (!is_plain)
    throw Error(ErrorCode::gap, "Loop is not supported where it changes a sequence and data decides how often it runs");
  while_in_body(n, body, initial);
}

// A known number of steps that all run, on values that keep their types: scan.
bool Importer::loop_in_body(const Node& n, const Graph& g, const std::optional<Dim>& trips, const Items& initial) {
  Values carried;
  for (const Item& i : initial) carried.push_back(tensor(i));
  Body body(*this);
  const size_t count = carried.size();
  try {
    const Restored inside(region_, &body.region);
    Items inputs{body.input({DType::i64, {}}), number_item(true, DType::boolean)};
    for (const ValueId v : carried) inputs.push_back(body.input(body.region.outer->builder.type(v)));
    const Items made = run(g, inputs, scope_);
    const auto goes_on = known_number(made[0]);
    if (!goes_on || !holds(*goes_on) || !all_tensors(made)) return false;
    for (size_t i = 1; i < made.size(); ++i) body.graph.outputs.push_back(tensor(made[i]));
  } catch (const Error& error) {  // it may be that every step is another program: then they are written out
    if (error.code() != ErrorCode::gap || !trips->is_number()) throw;
    return false;
  }
  if (!same_types(b(), carried, body.graph, body.graph.outputs)) return false;
  const Values inner = inner_of(body.region), inputs = body.graph.inputs;
  arrange(body.graph, joined(joined(Values(inputs.begin() + 1, inputs.begin() + 1 + static_cast<std::ptrdiff_t>(count)), inner),
                             {inputs[0]}));
  body.graph.outputs.insert(body.graph.outputs.begin() + static_cast<std::ptrdiff_t>(count), inner.begin(), inner.end());
  has_bodies_ = true;
  std::vector<pycandle::Graph> graphs;
  graphs.push_back(std::move(body.graph));
  const ValueId steps = b().iota(*trips);
  Values results = b().create_all(
      "scan", joined(joined(carried, outer_of(body.region)), {steps}),
      {{"carries", static_cast<int64_t>(count + inner.size())}, {"length", *trips}, {"reverse", false}}, std::move(graphs));
  const auto at = [&](size_t i) { return results.begin() + static_cast<std::ptrdiff_t>(i); };
  results.erase(at(count), at(count + inner.size()));
  for (size_t i = 0; i < n.outputs.size(); ++i)
    if (!n.outputs[i].empty()) define(n.outputs[i], results.at(i));
  return true;
}

// Data decides how often: while_loop. What the steps give one by one has no size then.
void Importer::while_in_body(const Node& n, const Graph& g, const Items& initial) {
  const size_t count = initial.size();
  if (g.outputs.size() > count + 1)
    throw Error(ErrorCode::gap, "Loop is not supported where data decides how often it runs and it gives a value of each step");
  const Item most = item_or_none(n, 0), first = item_or_none(n, 1);
  const auto scalar = [&](const Item& i, const Scalar& otherwise, DType dtype) {
    return i.kind == Item::Kind::none ? b().full(otherwise, dtype) : b().reshape(tensor(i), {});
  };
  Values carried{b().full(int64_t{0}, DType::i64), scalar(most, std::numeric_limits<int64_t>::max(), DType::i64),
                 scalar(first, true, DType::boolean)};
  for (const Item& i : initial) carried.push_back(tensor(i));
  Body body(*this);
  {
    const Restored inside(region_, &body.region);
    Items inputs;
    for (const ValueId v : carried) inputs.push_back(body.input(body.region.outer->builder.type(v)));
    Items given{inputs[0], inputs[2]};
    given.insert(given.end(), inputs.begin() + 3, inputs.end());
    const Items made = run(g, given, scope_);
    body.graph.outputs = {b().add(inputs[0].value, b().full(int64_t{1}, DType::i64)), inputs[1].value,
                          b().reshape(tensor(made[0]), {})};
    for (size_t i = 1; i < made.size(); ++i) body.graph.outputs.push_back(tensor(made[i]));
  }
  if (!same_types(b(), carried, body.graph, body.graph.outputs))
    throw Error(ErrorCode::gap, "Loop is not supported where data decides how often it runs and a value changes its type");
  const Values inner = inner_of(body.region);
  arrange(body.graph,
          joined(Values(body.graph.inputs.begin(), body.graph.inputs.begin() + static_cast<std::ptrdiff_t>(count + 3)), inner));
  body.graph.outputs = joined(body.graph.outputs, inner);
  carried = joined(carried, outer_of(body.region));
  pycandle::Graph condition;
  Builder test(condition, *table_, &program().checks, &ranges_);
  for (const ValueId v : carried) condition.add_input(b().type(v));
  condition.outputs = {test.logical_and(test.compare("lt", condition.inputs[0], condition.inputs[1]), condition.inputs[2])};
  has_bodies_ = true;
  std::vector<pycandle::Graph> graphs;
  graphs.push_back(std::move(condition));
  graphs.push_back(std::move(body.graph));
  const Values results = b().create_all("while_loop", carried, {}, std::move(graphs));
  for (size_t i = 0; i < n.outputs.size(); ++i)
    if (!n.outputs[i].empty()) define(n.outputs[i], results.at(i + 3));
}

void Importer::unrolled_loop(const Node& n, const Graph& g, int64_t trips, Items carried) {
  const size_t count = carried.size();
  std::vector<Items> steps(g.outputs.size() - 1 - count);
  bool goes_on = true;
  for (int64_t step = 0; step < trips && goes_on; ++step) {
    if (step >= kMostSteps)
      throw Error(ErrorCode::gap, fmt::format("Loop is not supported for more than {} steps that all differ", kMostSteps));
    Items inputs{number_item(step, DType::i64), number_item(true, DType::boolean)};
    inputs.insert(inputs.end(), carried.begin(), carried.end());
    const Items made = run(g, inputs, scope_);
    const auto known = known_number(made[0]);
    if (!known) throw Error(ErrorCode::gap, "Loop is not supported where data decides when it ends and a value changes its type");
    goes_on = holds(*known);
    for (size_t i = 0; i < count; ++i) carried[i] = made[i + 1];
    for (size_t i = 0; i < steps.size(); ++i) steps[i].push_back(made[i + 1 + count]);
  }
  for (size_t i = 0; i < n.outputs.size(); ++i) {
    if (n.outputs[i].empty()) continue;
    if (i < count)
      define(n.outputs[i], carried[i]);
    else
      define(n.outputs[i], stacked(steps.at(i - count)));
  }
}

ValueId Importer::stacked(const Items& steps) {
  if (steps.empty()) throw Error(ErrorCode::gap, "a loop that never runs gives values of each step, whose type is not known");
  Values parts;
  for (const Item& step : steps) parts.push_back(b().unsqueeze(tensor(step), 0));
  const ValueId all = parts.size() == 1 ? parts[0] : b().concat(parts, 0);
  region_->known.update(b().graph());
  return all;
}

// ---- Scan

namespace {

std::vector<int64_t> or_zeros(std::vector<int64_t> given, size_t count) {
  if (given.empty()) given.resize(count, 0);
  if (given.size() != count) throw Error(ErrorCode::bad_input, "Scan has another number of axes or directions than sequences");
  return given;
}

ValueId axis_moved(Builder& b, ValueId x, int64_t from, int64_t to) {
  const int64_t rank = b.rank(x);
  Ints order(static_cast<size_t>(rank));
  std::iota(order.begin(), order.end(), 0);
  order.erase(order.begin() + from);
  order.insert(order.begin() + to, from);
  return b.transpose(x, order);
}

}  // namespace

void Importer::scan(const Node& n) {
  const auto version = frame_->opsets->find("");
  if (version != frame_->opsets->end() && version->second < 9) return scan_of_batches(n);
  const Graph& g = graph_attribute(n, "body");
  const int64_t count = integer_attribute(n, "num_scan_inputs", -1);
  if (count < 1 || static_cast<size_t>(count) > n.inputs.size() || g.inputs.size() != n.inputs.size())
    throw Error(ErrorCode::bad_input, "the body of Scan has other inputs than Scan");
  const size_t carries = n.inputs.size() - static_cast<size_t>(count);
  if (g.outputs.size() < carries) throw Error(ErrorCode::bad_input, "the body of Scan gives fewer values than it carries");
  const auto in_axes = or_zeros(integers_attribute(n, "scan_input_axes"), static_cast<size_t>(count));
  const auto in_ways = or_zeros(integers_attribute(n, "scan_input_directions"), static_cast<size_t>(count));
  const auto out_axes = or_zeros(integers_attribute(n, "scan_output_axes"), g.outputs.size() - carries);
  const auto out_ways = or_zeros(integers_attribute(n, "scan_output_directions"), g.outputs.size() - carries);
  Items states, sequences;
  for (size_t i = 0; i < n.inputs.size(); ++i) {
    if (i < carries) {
      states.push_back(item_or_none(n, i));
      continue;
    }
    ValueId x = tensor(n.inputs[i]);
    x = axis_moved(b(), x, b().normal_axis(in_axes[i - carries], b().rank(x)), 0);
    if (in_ways[i - carries] != 0) x = b().reverse(x, {0});
    sequences.push_back({Item::Kind::tensor, region_, x, nullptr, {}});
  }
  Items results = scanned(g, states, sequences, n);
  for (size_t i = carries; i < results.size(); ++i) {
    ValueId y = tensor(results[i]);
    if (out_ways[i - carries] != 0) y = b().reverse(y, {0});
    y = axis_moved(b(), y, 0, b().normal_axis(out_axes[i - carries], b().rank(y)));
    results[i] = {Item::Kind::tensor, region_, y, nullptr, {}};
  }
  region_->known.update(b().graph());
  define_all(n, results);
}

// states and sequences (axis 0) → states and what each step gives.
Items Importer::scanned(const Graph& g, Items states, const Items& sequences, const Node& n) {
  Values carried, xs;
  for (const Item& i : states) carried.push_back(tensor(i));
  for (const Item& i : sequences) xs.push_back(tensor(i));
  const Dim length = b().shape(xs.at(0)).at(0);
  for (const ValueId x : xs)
    if (!b().check(b().shape(x).at(0), length, "the sequences of Scan"))
      throw Error(ErrorCode::bad_input, "the sequences of Scan have different lengths");
  Body body(*this);
  {
    const Restored inside(region_, &body.region);
    Items inputs;
    const Builder& around = body.region.outer->builder;
    for (const ValueId v : carried) inputs.push_back(body.input(around.type(v)));
    for (const ValueId x : xs) {
      Type type = around.type(x);
      type.shape.erase(type.shape.begin());
      inputs.push_back(body.input(type));
    }
    for (const Item& made : run(g, inputs, scope_)) body.graph.outputs.push_back(tensor(made));
  }
  const size_t count = carried.size();
  if (!same_types(b(), carried, body.graph, body.graph.outputs)) {
    if (!length.is_number())
      throw Error(ErrorCode::gap,
                  fmt::format("{} is not supported where a value changes its type from step to step", name_of(n)));
    return unrolled_scan(g, std::move(states), sequences, length.number());
  }
  const Values inner = inner_of(body.region), inputs = body.graph.inputs;
  const auto at = [&](size_t i) { return inputs.begin() + static_cast<std::ptrdiff_t>(i); };
  arrange(body.graph, joined(joined(Values(at(0), at(count)), inner), Values(at(count), at(count + xs.size()))));
  body.graph.outputs.insert(body.graph.outputs.begin() + static_cast<std::ptrdiff_t>(count), inner.begin(), inner.end());
  has_bodies_ = true;
  std::vector<pycandle::Graph> graphs;
  graphs.push_back(std::move(body.graph));
  Values results = b().create_all(
      "scan", joined(joined(carried, outer_of(body.region)), xs),
      {{"carries", static_cast<int64_t>(count + inner.size())}, {"length", length}, {"reverse", false}}, std::move(graphs));
  results.erase(results.begin() + static_cast<std::ptrdiff_t>(count),
                results.begin() + static_cast<std::ptrdiff_t>(count + inner.size()));
  Items made;
  for (const ValueId v : results) made.push_back({Item::Kind::tensor, region_, v, nullptr, {}});
  return made;
}

Items Importer::unrolled_scan(const Graph& g, Items states, const Items& sequences, int64_t length) {
  if (length > kMostSteps)
    throw Error(ErrorCode::gap, fmt::format("Scan is not supported for more than {} steps that all differ", kMostSteps));
  const size_t count = states.size();
  std::vector<Items> steps(g.outputs.size() - count);
  for (int64_t step = 0; step < length; ++step) {
    Items inputs = states;
    for (const Item& xs : sequences)
      inputs.push_back({Item::Kind::tensor, region_, b().select_index(tensor(xs), 0, step), nullptr, {}});
    const Items made = run(g, inputs, scope_);
    for (size_t i = 0; i < made.size(); ++i) {
      if (i < count)
        states[i] = made[i];
      else
        steps[i - count].push_back(made[i]);
    }
  }
  for (const Items& each : steps) states.push_back({Item::Kind::tensor, region_, stacked(each), nullptr, {}});
  return states;
}

// Opset 8: every value has a batch in front, and each entry of it is scanned alone.
void Importer::scan_of_batches(const Node& n) {
  const Graph& g = graph_attribute(n, "body");
  const int64_t count = integer_attribute(n, "num_scan_inputs", -1);
  if (n.inputs.empty() || !n.inputs[0].empty())
    throw Error(ErrorCode::gap, "Scan with lengths of sequences (opset 8) is not supported");
  if (count < 1 || static_cast<size_t>(count) + 1 > n.inputs.size() || g.inputs.size() + 1 != n.inputs.size())
    throw Error(ErrorCode::bad_input, "the body of Scan has other inputs than Scan");
  const auto ways = or_zeros(integers_attribute(n, "directions"), static_cast<size_t>(count));
  const auto batch = b().shape(tensor(n.inputs[1])).at(0).maybe_number();
  if (!batch || *batch < 1 || *batch > kMostSteps)
    throw Error(ErrorCode::gap, "Scan (opset 8) is not supported where the batch is open");
  const size_t carries = g.inputs.size() - static_cast<size_t>(count);
  std::vector<Items> all(g.outputs.size());
  for (int64_t entry = 0; entry < *batch; ++entry) {
    Items states, sequences;
    for (size_t i = 1; i < n.inputs.size(); ++i) {
      ValueId x = b().select_index(tensor(n.inputs[i]), 0, entry);
      if (i > carries && ways[i - 1 - carries] != 0) x = b().reverse(x, {0});
      (i <= carries ? states : sequences).push_back({Item::Kind::tensor, region_, x, nullptr, {}});
    }
    const Items made = scanned(g, states, sequences, n);
    for (size_t i = 0; i < made.size(); ++i) all[i].push_back(made[i]);
  }
  Items results;
  for (const Items& each : all) results.push_back({Item::Kind::tensor, region_, stacked(each), nullptr, {}});
  define_all(n, results);
}

// The body on each element; sequences that are given beside the first go along.
void Importer::sequence_map(const Node& n) {
  const Graph& g = graph_attribute(n, "body");
  const size_t length = sequence(n, 0).size();
  std::vector<Items> results(g.outputs.size());
  for (size_t i = 0; i < length; ++i) {
    Items inputs;
    for (size_t k = 0; k < n.inputs.size(); ++k) {
      const Item given = item_or_none(n, k);
      if (given.kind == Item::Kind::sequence && given.items.size() != length)
        throw Error(ErrorCode::bad_input, "the sequences of SequenceMap have different lengths");
      inputs.push_back(given.kind == Item::Kind::sequence ? given.items[i] : given);
    }
    const Items made = run(g, inputs, scope_);
    for (size_t k = 0; k < made.size(); ++k) results[k].push_back(made[k]);
  }
  Items all;
  for (Items& each : results) all.push_back({Item::Kind::sequence, nullptr, kNoValue, nullptr, std::move(each)});
  define_all(n, all);
}

// Attention whose scores and weights pass through graphs of the file, in the dtype of the softmax.
void Importer::flex_attention(const Node& n) {
  if (n.inputs.size() != 3) throw Error(ErrorCode::bad_input, "FlexAttention has three inputs");
  ValueId q = tensor(n.inputs[0]), k = tensor(n.inputs[1]), v = tensor(n.inputs[2]);
  const DType dtype = b().dtype(q);
  DType wide = dtype == DType::f64 ? DType::f64 : DType::f32;
  if (const int64_t asked = integer_attribute(n, "softmax_precision", 0); asked != 0) {
    const auto named = dtype_of(static_cast<int32_t>(asked));
    if (!named || !is_floating(*named)) throw Error(ErrorCode::gap, "softmax_precision of FlexAttention is not supported");
    wide = *named;
  }
  const auto heads = b().shape(q).at(1).maybe_number(), shared = b().shape(k).at(1).maybe_number(),
             size = b().shape(q).at(3).maybe_number();
  if (!heads || !shared || *shared < 1 || *heads % *shared != 0 || !size)
    throw Error(ErrorCode::gap, "FlexAttention is not supported where the number or size of its heads is open");
  double scale = 1 / std::sqrt(static_cast<double>(*size));
  if (const Attribute* given = find_attribute(n, "scale"))
    if (const auto* number = std::get_if<float>(&given->value)) scale = static_cast<double>(*number);
  const auto repeated = [&](ValueId x) {
    const Shape s = b().shape(x);
    if (*heads == *shared) return x;
    const ValueId all = b().broadcast_to(b().unsqueeze(x, 2), {s[0], s[1], Dim(*heads / *shared), s[2], s[3]});
    return b().reshape(all, {s[0], Dim(*heads), s[2], s[3]});
  };
  const auto item_of = [&](ValueId x) { return Item{Item::Kind::tensor, region_, x, nullptr, {}}; };
  const auto modified = [&](const char* name, ValueId x) {
    if (find_attribute(n, name) == nullptr) return x;
    const Items made = run(graph_attribute(n, name), {item_of(x)}, scope_);
    if (made.size() != 1) throw Error(ErrorCode::bad_input, fmt::format("{} of FlexAttention has one output", name));
    return tensor(made[0]);
  };
  const ValueId keys = b().transpose(repeated(b().cast(k, wide)), {0, 1, 3, 2});
  ValueId scores = modified("score_mod", b().mul(b().matmul(b().cast(q, wide), keys), scale));
  const ValueId weights = modified("prob_mod", b().create("softmax", {scores}, {{"dim", int64_t{3}}}));
  const ValueId y = b().cast(b().matmul(weights, repeated(b().cast(v, wide))), dtype);
  region_->known.update(b().graph());
  has_bodies_ = true;
  define_all(n, {item_of(y)});
}

}  // namespace pycandle::onnx
