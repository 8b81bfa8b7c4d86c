#include "backends/c/generator.h"

#include <algorithm>
#include <utility>

#include "backends/arena.h"
#include "backends/c/helpers.h"
#include "backends/c/lowerings.h"
#include "backends/c/narrow.h"
#include "backends/c/text.h"
#include "base/error.h"
#include "base/strides.h"
#include "ir/evaluation.h"
#include "passes/constants.h"

namespace pycandle::c {
namespace {

// A size that neither its operands have nor its attributes say: the run finds it.
bool has_size_of_data(const Graph& g, const Node& node) {
  std::vector<std::string> known, given;
  const auto collect = [](const Shape& shape, std::vector<std::string>& symbols) {
    for (const Dim d : shape) d.collect_symbols(symbols);
  };
  for (const ValueId v : node.operands) {
    if (v != kNoValue) collect(g.type(v).shape, known);
  }
  for (const auto& [name, value] : node.attributes) {
    const auto* dim = name == "count" ? nullptr : std::get_if<Dim>(&value);  // count names what the run finds
    if (dim) dim->collect_symbols(known);
    if (const auto* dims = std::get_if<Dims>(&value)) collect(*dims, known);
  }
  for (const ValueId v : node.results) collect(g.type(v).shape, given);
  return std::any_of(given.begin(), given.end(),
                     [&](const std::string& s) { return std::find(known.begin(), known.end(), s) == known.end(); });
}

[[noreturn]] void refuse_node(const Program& p, const Node& node, const std::string& why, const std::string& found) {
  throw Error(ErrorCode::gap, formatted("{} cannot be written in C: {}", node.op->name, why))
      .op(node.op->name)
      .found(found)
      .module_path(p.module_path(node.origin))
      .python(p.file_line(node.origin), p.source_line(node.origin))
      .hint("--backend cpu runs it");
}

void check_graph(const Program& p, const Graph& g, PerValue<bool> is_known) {
  for (const Node& node : g.nodes) {
    const auto known = [&](ValueId v) { return v == kNoValue || is_known[v]; };
    const auto complex = [&](ValueId v) { return v != kNoValue && !is_supported(g.type(v).dtype); };
    const bool folds = node.op->evaluate && !node.op->is_random && node.regions.empty() &&
                       std::all_of(node.operands.begin(), node.operands.end(), known);
    for (const ValueId v : node.results) is_known[v] = folds;
    const std::string text = call_of(g, node).text();
    if (node.regions.empty() && has_size_of_data(g, node)) refuse_node(p, node, "the data decides how large its result is", text);
    if (folds) continue;
    if (std::any_of(node.operands.begin(), node.operands.end(), complex) ||
        std::any_of(node.results.begin(), node.results.end(), complex))
      refuse_node(p, node, "complex numbers", text);
    if (!find_view(node.op->name) && !is_elementwise(node) && !find_lowering(node.op->name))
      refuse_node(p, node, "there is no code for this op", text);
    for (const Graph& region : node.regions) check_graph(p, region, PerValue<bool>(region.values.size(), false));
  }
}

}  // namespace

void check_supported(const Program& p) {
  PerValue<bool> is_known(p.graph.values.size(), false);
  for (const Parameter& parameter : p.parameters) {
    if (parameter.value != kNoValue) is_known[parameter.value] = true;
  }
  const auto complex = [&](ValueId v) { return v != kNoValue && !is_supported(p.graph.type(v).dtype); };
  for (const Input& i : p.inputs) {
    if (complex(i.value))
      throw Error(ErrorCode::gap, "complex numbers cannot be written in C").found(i.name).hint("--backend cpu runs it");
  }
  check_graph(p, p.graph, std::move(is_known));
}

Sizes row_major(const Sizes& sizes) { return row_major_strides(sizes); }

int64_t count_of(const Sizes& sizes) { return element_count(sizes); }

bool is_dense(const View& v) {
  int64_t expected = 1;
  for (size_t a = v.sizes.size(); a-- > 0;) {
    if (v.sizes[a] != 1 && v.strides[a] != expected) return false;
    expected *= v.sizes[a];
  }
  return true;
}

std::optional<int64_t> one_stride(const Sizes& sizes, const Sizes& strides, size_t from, size_t to) {
  std::optional<int64_t> inner;
  int64_t expected = 0;
  for (size_t a = to; a-- > from;) {
    if (sizes[a] == 1) continue;
    if (inner && strides[a] != expected) return std::nullopt;
    if (!inner) inner = strides[a];
    expected = strides[a] * sizes[a];
  }
  return inner.value_or(0);
}

Scope::Scope(const Graph& g) : graph(g) {
  known.resize(g.values.size());
  uses.assign(g.values.size(), 0);
  taps.resize(g.values.size());
  output.assign(g.values.size(), -1);
  user.assign(g.values.size(), kNoNode);
  for (size_t n = 0; n < g.nodes.size(); ++n) {
    for (const ValueId v : g.nodes[n].operands) {
      if (v == kNoValue || user[v] == static_cast<NodeId>(n)) continue;
      ++uses[v];
      user[v] = static_cast<NodeId>(n);
    }
  }
  for (const ValueId v : g.outputs) ++uses[v];
}

// ---- a node

Site::Site(Generator& generator, Scope& scope, const Node& n)
    : g(generator), s(scope), node(n), call(*n.op, scope.graph, n.operands, n.attributes, n.regions) {}

Sizes Site::sizes(ValueId v) const { return g.sizes_of(s, v); }
Sizes Site::dims(std::string_view attribute) const { return evaluate(call.dims(attribute), g.bindings); }
int64_t Site::dim(std::string_view attribute) const { return call.dim(attribute).evaluate(g.bindings); }
View Site::view(std::string_view operand) const { return g.view(s, call.value(operand)); }

void Site::refuse(const std::string& why) const { refuse_node(g.program, node, why, call.text()); }

// ---- the generator

Generator::Generator(const Program& p, const OpTable& t, const ParameterSource& parameters, Bindings sizes, Naming n)
    : naming(n), program(p), table(t), bindings(std::move(sizes)), parameters_(parameters) {}

Sizes Generator::sizes_of(const Scope& s, ValueId v) const { return evaluate(s.graph.type(v).shape, bindings); }

BufferId Generator::add_buffer(Buffer b) {
  buffers.push_back(std::move(b));
  return static_cast<BufferId>(buffers.size() - 1);
}

View Generator::fresh(DType dtype, Sizes sizes) {
  Sizes strides = row_major(sizes);
  Buffer b;
  b.dtype = dtype;
  b.elements = count_of(sizes);
  return {add_buffer(std::move(b)), 0, std::move(sizes), std::move(strides), {}};
}

View Generator::fresh(Scope& s, ValueId v) {
  Sizes sizes = sizes_of(s, v);
  View made = fresh(s.graph.type(v).dtype, std::move(sizes));
  if (s.output[v] >= 0) {
    buffers[made.buffer].place = Buffer::Place::output;
    buffers[made.buffer].index = static_cast<size_t>(s.output[v]);
  }
  return made;
}

View Generator::weight(Array data) {
  Buffer b;
  b.place = Buffer::Place::weight;
  b.dtype = data.dtype();
  b.elements = data.size();
  Sizes sizes = data.shape(), strides = row_major(sizes);
  b.data = std::move(data);
  return {add_buffer(std::move(b)), 0, std::move(sizes), std::move(strides), {}};
}

View Generator::packed_weight(const std::string& key, const std::function<Array()>& make) {
  const auto found = packed_.find(key);
  return found != packed_.end() ? found->second : packed_.emplace(key, weight(make())).first->second;
}

View Generator::status() {
  if (status_ == kNoBuffer) {
    Buffer b;
    b.place = Buffer::Place::status;
    b.dtype = DType::i32;
    b.elements = 1;
    status_ = add_buffer(std::move(b));
  }
  return {status_, 0, {1}, {1}, {}};
}

void Generator::define(Scope& s, ValueId v, View view) {
  s.known[v] = {Known::Kind::view, std::move(view), {}, kNoNode, nullptr};
  deliver_taps(s, v);
}

void Generator::define_number(Scope& s, ValueId v, const Scalar& number) {
  s.known[v] = {Known::Kind::number, {}, number, kNoNode, nullptr};
  if (!s.taps[v].empty()) {
    view(s, v);
    deliver_taps(s, v);
  }
}

void Generator::deliver_taps(Scope& s, ValueId v) {
  for (const size_t tap : std::exchange(s.taps[v], {})) {
    Step step;
    step.kind = Step::Kind::tap;
    step.tap = tap;
    const Known known = s.known[v];
    step.arguments = {{known.kind == Known::Kind::view ? known.view : view(s, v), false}};
    use(step);
    steps.push_back(std::move(step));
  }
}

void Generator::define_product(Scope& s, ValueId v, Product product) {
  product.result = v;
  s.known[v] = {Known::Kind::pending, {}, {}, kNoNode, std::make_shared<const Product>(std::move(product))};
  if (!may_wait(s, v)) view(s, v);
}

bool Generator::is_constant(const Known& known) const {
  return known.kind == Known::Kind::view && buffers[known.view.buffer].place == Buffer::Place::weight &&
         known.view.moving.empty();
}

std::optional<Array> Generator::constant(const Scope& s, ValueId v) const {
  const Known& known = s.known[v];
  const Sizes sizes = sizes_of(s, v);
  if (known.kind == Known::Kind::number) {
    Array one = Array::scalar(s.graph.type(v).dtype, known.number);
    Array all(one.dtype(), sizes);
    const size_t bytes = size_of(one.dtype());
    for (int64_t i = 0; i < all.size(); ++i)
      std::copy_n(static_cast<const char*>(one.data()), bytes, all.mutable_as<char>() + static_cast<size_t>(i) * bytes);
    return all;
  }
  if (!is_constant(known)) return std::nullopt;
  const Array& data = buffers[known.view.buffer].data;
  if (is_dense(known.view) && known.view.offset == 0 && data.size() == count_of(sizes)) return data.reshaped(sizes);
  Array out(data.dtype(), sizes);
  const size_t bytes = size_of(data.dtype());
  const char* from = data.as<char>();
  char* to = out.mutable_as<char>();
  for_each_offset(
      sizes, known.view.strides,
      [&](int64_t i, int64_t at) {
        std::copy_n(from + static_cast<size_t>(at) * bytes, bytes, to + static_cast<size_t>(i) * bytes);
      },
      known.view.offset);
  return out;
}

View Generator::view(Scope& s, ValueId v) {
  Known& known = s.known[v];
  if (known.kind == Known::Kind::view) return known.view;
  if (known.kind == Known::Kind::number) {
    View one = weight(Array::scalar(s.graph.type(v).dtype, known.number));
    one.sizes = sizes_of(s, v);
    one.strides.assign(one.sizes.size(), 0);
    return one;
  }
  require(known.kind != Known::Kind::none, "a value of the C backend is used before it is known");
  if (std::shared_ptr<const Product> product = known.product) {
    const Origin now = origin;
    if (&s.graph == &program.graph) origin = s.graph.nodes[s.graph.values[v].node].origin;
    const View made = product->emit(*this, s, v);
    origin = now;
    define(s, v, made);
  } else if (std::optional<View> made = epilogue_of_pending(*this, s, v)) {
    define(s, v, *made);
  } else {
    const View made_here = fresh(s, v);
    compute_into(s, v, made_here);
    define(s, v, made_here);
  }
  return s.known[v].view;
}

View Generator::dense(Scope& s, ValueId v) {
  View from = view(s, v);
  if (is_dense(from)) return from;
  if (const std::optional<Array> known = constant(s, v)) return weight(*known);
  const View copy = fresh(s.graph.type(v).dtype, from.sizes);
  compute_into(s, v, copy);
  return copy;
}

// ---- steps

void Generator::text(const std::string& line, const std::vector<View>& values) {
  Step step;
  step.kind = Step::Kind::text;
  step.text = line;
  for (const View& v : values) step.arguments.push_back({v, false});
  use(step);
  steps.push_back(std::move(step));
}

void Generator::use(const Step& step) {
  for (const Argument& a : step.arguments) {
    Buffer& b = buffers[a.view.buffer];
    b.first = std::min(b.first, now());
    b.last = std::max(b.last, now());
  }
}

std::string Generator::function_name(const std::string& what) {
  if (!naming.is_readable) return formatted("f{}", functions.size());
  std::string path = program.module_path(origin);
  path = path.substr(0, path.rfind('@'));
  const std::string stem = identifier(path.empty() ? what : path + "_" + what);
  std::string name = stem;
  for (int n = 2; !function_names_.insert(name).second; ++n) name = formatted("{}_{}", stem, n);
  return name;
}

void Generator::emit(Writer& w) {
  Function f;
  for (size_t i = 0; i < w.parameters_.size(); ++i) {
    const auto& p = w.parameters_[i];
    f.parameters += formatted("{}{}{} *restrict {}", i == 0 ? "" : ", ", p.is_written ? "" : "const ", stored_type(p.dtype),
                              p.name);
  }
  f.body = std::move(w.body_);
  f.key = f.parameters + "\n" + f.body;
  f.multiply_adds = w.multiply_adds;
  Step step;
  const auto found = by_key_.find(f.key);
  if (found != by_key_.end()) {
    step.function = found->second;
  } else {
    step.function = functions.size();
    f.name = function_name(w.what_);
    if (naming.is_readable) {
      const std::string path = program.module_path(origin), line = program.file_line(origin);
      if (!path.empty()) f.comment += path;
      if (!line.empty()) f.comment += formatted("{}{}: {}", f.comment.empty() ? "" : "  ", line, program.source_line(origin));
    }
    by_key_.emplace(f.key, step.function);
    functions.push_back(std::move(f));
  }
  step.arguments = std::move(w.arguments_);
  step.origin = origin;
  step.multiply_adds = w.multiply_adds;
  use(step);
  steps.push_back(std::move(step));
}

void Generator::keep_through(size_t first_step) {
  for (Buffer& b : buffers) {
    if (b.is_used() && b.first <= first_step && b.last >= first_step) b.last = now();
  }
}

// ---- reading the graph

void Generator::lower_graph(Scope& s) {
  for (const Node& node : s.graph.nodes) {
    if (&s.graph == &program.graph) origin = node.origin;
    lower(s, node);
  }
}

// What depends on constants alone is computed now, unless it grows.
bool Generator::fold(Scope& s, const Node& node) {
  if (!node.op->evaluate || node.op->is_random || !node.regions.empty()) return false;
  int64_t given = 0, made = 0;
  bool are_numbers = node.results.size() == 1 && node.op->is_pointwise && !node.operands.empty();
  for (const ValueId v : node.operands) {
    if (v == kNoValue) continue;
    const Known& known = s.known[v];
    are_numbers = are_numbers && known.kind == Known::Kind::number;
    if (known.kind != Known::Kind::number && !is_constant(known)) return false;
    given += count_of(sizes_of(s, v));
  }
  for (const ValueId v : node.results) made += count_of(sizes_of(s, v));
  constexpr int64_t kSmall = 1 << 14;
  const bool could_run = is_elementwise(node) || find_lowering(node.op->name);
  if (!are_numbers && could_run && made > std::max(given, kSmall)) return false;
  std::vector<Array> operands;
  std::vector<const Array*> pointers;
  for (const ValueId v : node.operands) {
    if (v == kNoValue)
      operands.emplace_back();
    else if (are_numbers)
      operands.push_back(Array::scalar(s.graph.type(v).dtype, s.known[v].number));
    else
      operands.push_back(*constant(s, v));
  }
  for (size_t i = 0; i < operands.size(); ++i) pointers.push_back(node.operands[i] == kNoValue ? nullptr : &operands[i]);
  const Evaluation evaluation(node, s.graph, pointers, bindings, false, nullptr);
  std::vector<Array> results = node.op->evaluate(evaluation);
  for (size_t i = 0; i < results.size(); ++i) {
    const ValueId v = node.results[i];
    if (are_numbers && is_floating(results[i].dtype()))
      define_number(s, v, Scalar(load_double(results[i])[0]));
    else if (are_numbers)
      define_number(s, v, Scalar(load_int(results[i])[0]));
    else
      define(s, v, weight(std::move(results[i])));
  }
  return true;
}

void Generator::lower(Scope& s, const Node& node) {
  Site site(*this, s, node);
  const auto is_complex_value = [&](ValueId v) { return v != kNoValue && !is_supported(s.graph.type(v).dtype); };
  const bool has_complex = std::any_of(node.operands.begin(), node.operands.end(), is_complex_value) ||
                           std::any_of(node.results.begin(), node.results.end(), is_complex_value);
  const Lowering view_of = find_view(node.op->name);
  if (view_of && !has_complex) return view_of(site);  // constants become views too
  if (fold(s, node)) return;
  if (has_complex) site.refuse("complex numbers");
  if (is_elementwise(node)) {
    const ValueId v = node.results[0];
    s.known[v] = {Known::Kind::lazy, {}, {}, s.graph.values[v].node, nullptr};
    if (!may_wait(s, v)) view(s, v);
    return;
  }
  const Lowering lowering = find_lowering(node.op->name);
  if (!lowering) site.refuse("there is no code for this op");
  lowering(site);
}

void Generator::run() {
  Scope s(program.graph);
  for (size_t t = 0; t < program.taps.size(); ++t) {
    if (!program.taps[t].inside) s.taps[program.taps[t].value].push_back(t);
  }
  for (size_t o = program.outputs.size(); o-- > 0;) {
    const ValueId v = program.outputs[o].value;
    if (program.graph.values[v].node != kNoNode) s.output[v] = static_cast<int32_t>(o);
  }
  const auto bind = [&](ValueId v, Buffer::Place place, size_t index) {
    if (v == kNoValue) return;
    const Type& type = program.graph.type(v);
    View made = fresh(type.dtype, sizes_of(s, v));
    buffers[made.buffer].place = place;
    buffers[made.buffer].index = index;
    define(s, v, std::move(made));
  };
  for (size_t i = 0; i < program.inputs.size(); ++i) bind(program.inputs[i].value, Buffer::Place::input, i);
  for (size_t i = 0; i < program.states.size(); ++i) bind(program.states[i].value, Buffer::Place::state, i);
  for (const Parameter& p : program.parameters) {
    if (p.value == kNoValue) continue;
    define(s, p.value, weight(parameters_.get(p)));
  }
  has_int8 = has_int8_weights(program.graph);
  lower_graph(s);
  finish(s);
  place();
  const std::string function = naming.is_freestanding ? function_of_libm(helpers) : std::string();
  if (!function.empty()) {
    throw Error(ErrorCode::gap, formatted("--freestanding has no {} of its own", function))
        .expected("ops whose functions the file brings along: exp, log, tanh, erf, sqrt and rounding of f32")
        .found(function)
        .hint("leave --freestanding out, and link libm");
  }
}

// Results go where the caller wants them; states last, when nobody reads the old ones any more.
void Generator::finish(Scope& s) {
  origin = {};
  const auto copy = [&](ValueId v, Buffer::Place place, size_t index) {
    if (v == kNoValue) return;
    view(s, v);
    const View from = s.known[v].kind == Known::Kind::view ? s.known[v].view : View{};
    if (from.buffer != kNoBuffer && buffers[from.buffer].place == place && buffers[from.buffer].index == index &&
        is_dense(from) && from.offset == 0 && buffers[from.buffer].elements == count_of(from.sizes))
      return;
    View to = fresh(s.graph.type(v).dtype, sizes_of(s, v));
    buffers[to.buffer].place = place;
    buffers[to.buffer].index = index;
    compute_into(s, v, to);
  };
  for (size_t o = 0; o < program.outputs.size(); ++o) copy(program.outputs[o].value, Buffer::Place::output, o);
  // A state that becomes another's old value, or a view of its own, is copied aside first.
  std::vector<std::pair<size_t, ValueId>> updates;
  for (size_t i = 0; i < program.states.size(); ++i) {
    const ValueId v = program.states[i].updated;
    if (v == kNoValue || v == program.states[i].value) continue;
    const View from = view(s, v);
    if (buffers[from.buffer].place == Buffer::Place::state) {
      const View aside = fresh(s.graph.type(v).dtype, from.sizes);
      compute_into(s, v, aside);
      s.known[v].view = aside;
    }
    updates.emplace_back(i, v);
  }
  for (const auto& [i, v] : updates) copy(v, Buffer::Place::state, i);
}

void Generator::place() {
  std::vector<BufferId> in_arena;
  std::vector<ArenaBuffer> lives;
  for (BufferId id = 0; id < static_cast<BufferId>(buffers.size()); ++id) {
    Buffer& b = buffers[id];
    if (!b.is_used()) continue;
    if (b.place == Buffer::Place::arena) {
      in_arena.push_back(id);
      lives.push_back({b.bytes(), b.first, b.last});
    } else if (b.place == Buffer::Place::weight) {
      b.offset = weight_bytes;
      weight_bytes += (b.bytes() + 63) / 64 * 64;
      used_weights.push_back(id);
    }
  }
  const Arena arena = pycandle::place(lives);
  for (size_t i = 0; i < in_arena.size(); ++i) buffers[in_arena[i]].offset = arena.offsets[i];
  arena_bytes = arena.bytes;
}

// ---- writing a function

std::string Writer::fresh(const std::string& stem) {
  std::string name = identifier(stem);
  for (int n = 2; !names_.insert(name).second; ++n) name = formatted("{}{}", identifier(stem), n);
  return name;
}

std::string Writer::add(const View& v, std::string name, bool is_written) {
  for (size_t i = 0; i < arguments_.size(); ++i) {  // the same pointer twice is one parameter
    const View& other = arguments_[i].view;
    if (!is_written && !arguments_[i].is_written && other.buffer == v.buffer && other.offset == v.offset &&
        other.moving == v.moving)
      return parameters_[i].name;
  }
  name = fresh(name);
  parameters_.push_back({name, g_.buffers[v.buffer].dtype, is_written});
  arguments_.push_back({v, is_written});
  return name;
}

std::string Writer::reads(const View& v, std::string name) { return add(v, std::move(name), false); }
std::string Writer::writes(const View& v, std::string name) { return add(v, std::move(name), true); }
std::string Writer::scratch(DType dtype, int64_t elements, std::string name) {
  return add(g_.fresh(dtype, {elements}), std::move(name), true);
}

void Writer::line(const std::string& text) { body_ += std::string(2 * static_cast<size_t>(depth_), ' ') + text + "\n"; }
void Writer::open(const std::string& head) {
  line(head + " {");
  ++depth_;
}
void Writer::loop(const std::string& variable, int64_t count, int64_t step) {
  open(step == 1 ? formatted("for (ptrdiff_t {0} = 0; {0} < {1}; ++{0})", variable, count)
                 : formatted("for (ptrdiff_t {0} = 0; {0} < {1}; {0} += {2})", variable, count, step));
}
void Writer::close(size_t blocks) {
  for (; blocks > 0; --blocks) {
    --depth_;
    line("}");
  }
}

}  // namespace pycandle::c
