#include "emit/rust/body.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "emit/names.h"
#include "emit/node_forms.h"
#include "emit/rust/checks.h"
#include "emit/rust/expression.h"
#include "emit/rust/layers.h"
#include "emit/uses.h"
#include "emit/value_names.h"

namespace pycandle::emit::rust {
namespace {

constexpr size_t kLongNested = 60;  // an expression that is longer gets a name when there is one
using Kind = Expression::Kind;

class Body {
 public:
  Body(const ModelTree& tree, const ModuleClass& made)
      : tree_(&tree),
        class_(&made),
        names_(tree, made),
        around_{[this](ValueId v) { return value(v); }, [this](Dim d) { return dim(d); }, [this] { return device(); },
                [this](ValueId v) { return uses_.count[v] == 1; }},
        printer_(tree, made, around_),
        uses_(tree, made, [this](NodeId n) { return printer_.written_dims(n); }) {}

  Forward write() {
    for (const char* name : {"i", "ops", "nn"}) scope_.reserve(name);
    if (!class_->cache_type.empty()) scope_.reserve("cache");
    name_inputs();
    for (step_ = 0; step_ < class_->steps.size(); ++step_) write_step(class_->steps[step_]);
    write_return(result_type(*tree_, *class_));
    Forward made;
    made.parameters = std::move(parameters_);
    for (const Statement& s : statements_) {
      made.statements.push_back(s.is_mutable ? "let mut " + s.text.substr(4) : s.text);
    }
    return made;
  }

 private:
  struct Statement {
    std::string text;          // let x = …;
    bool is_mutable = false;   // a loop goes on with it
  };

  const Graph& graph() const { return tree_->program->graph; }

  void name_inputs() {
    for (size_t i = 0; i < class_->inputs.size(); ++i) {
      const ValueId v = class_->inputs[i];
      std::vector<std::string> candidates;
      if (!class_->input_names[i].empty()) candidates.push_back(rust_name(class_->input_names[i]));
      candidates.push_back(rust_name(names_.of(v)));
      const std::string name = scope_.take(candidates);
      const bool is_used = uses_.count.count(v) != 0;
      parameters_.push_back(fmt::format("{}{}: &Tensor", is_used ? "" : "_", name));
      written_[v] = {Kind::reference, name};
      holder_[name] = v;
      if (is_used && any_tensor_.empty()) any_tensor_ = name;
    }
    if (!class_->cache_type.empty()) parameters_.push_back(fmt::format("cache: &mut {}", class_->cache_type));
    for (const TensorField& row : class_->rows) written_[row.value] = {Kind::place, "cache." + row.name};
    for (const TensorField& t : class_->tensors) {
      written_[t.value] = {Kind::place, "self." + t.name};
      if (any_tensor_.empty()) any_tensor_ = "self." + t.name;
    }
  }

  // ---- values

  Expression value(ValueId v) {
    if (const std::string* what = tree_->calls->gap(v)) return {Kind::value, fmt::format("todo!({})", quoted(*what))};
    if (v == tree_->calls->cache_lengths() && !class_->cache_type.empty()) return lengths(v);
    const auto found = written_.find(v);
    if (found == written_.end()) internal_error(fmt::format("value %{} of {} is used before it is written", v, class_->name));
    const auto nested = depends_.find(v);
    if (nested == depends_.end()) {
      referred_.insert(v);
    } else {
      referred_.insert(nested->second.begin(), nested->second.end());
    }
    return found->second;
  }

  // Tokens of each sequence before the new ones: as many for all of them.
  Expression lengths(ValueId v) {
    if (class_->cache_type != "Cache") {
      throw Error(ErrorCode::gap, "this decode step cannot be written in Rust yet: a layer makes positions itself")
          .found(class_->name)
          .hint("--target cpp has it");
    }
    return {Kind::value, fmt::format("Tensor::full(cache.seen as i64, {}, {})?", dim(graph().type(v).shape[0]), device())};
  }

  std::string dim(Dim d) {
    const auto text = write_dim(d, graph(), uses_.visible_at[step_],
                                [&](ValueId v, size_t axis) { return fmt::format("{}.dim({})?", value(v).text, axis); });
    const auto has = [&](const char* part) { return text->find(part) != std::string::npos; };
    if (!text || text->starts_with('-') || has("(-") || has(", -") || has("floor(") || has("ceil(")) {
      throw Error(ErrorCode::gap, "a size cannot be said in terms of the inputs")
          .found(d.text())
          .hint("record it as a fixed size");
    }
    std::string said = *text;
    for (const char* function : {"floordiv(", "mod(", "min(", "max("}) {
      const std::string name = "ops::dims::";
      for (size_t at = said.find(function); at != std::string::npos; at = said.find(function, at + name.size() + 4))
        said.insert(at, name);
    }
    for (size_t at = said.find("::mod("); at != std::string::npos; at = said.find("::mod(", at + 1))
      said.replace(at, 6, "::mod_(");
    return said;
  }

  std::string device() const { return any_tensor_.empty() ? "&Device::Cpu" : any_tensor_ + ".device()"; }

  bool is_dead_after(const std::string& name, size_t step) const {
    const auto holder = holder_.find(name);
    if (holder == holder_.end()) return false;
    const auto last = uses_.last.find(holder->second);
    return last == uses_.last.end() || last->second <= step;
  }

  // Python's name for the value, unless another value that is still needed has it.
  std::string python_name(ValueId v) const {
    const std::string python = names_.assigned(v);
    if (python.empty()) return {};
    const std::string name = rust_name(python);
    if (holder_.count(name) != 0) return is_dead_after(name, step_) ? name : "";
    return scope_.has(name) ? "" : name;
  }

  std::vector<std::string> candidates(ValueId v) const {
    std::vector<std::string> all;
    for (const std::string& name : names_.candidates(v)) all.push_back(rust_name(name));
    return all;
  }

  // A name that a new variable for the value takes; it may hide one that is needed no more.
  std::string new_name(ValueId v) {
    const std::string python = python_name(v);
    if (python.empty()) return scope_.take(candidates(v));
    scope_.reserve(python);
    return python;
  }

  // Of one statement: each another one; "_" for what nothing uses.
  std::vector<std::string> new_names(const Values& values) {
    std::vector<std::string> names;
    for (const ValueId v : values) {
      std::string name = uses_.count[v] > 0 ? new_name(v) : "_";
      const bool is_taken = name != "_" && std::find(names.begin(), names.end(), name) != names.end();
      names.push_back(is_taken ? scope_.take(candidates(v)) : name);
    }
    return names;
  }

  void set_name(ValueId v, const std::string& name) {
    written_[v] = {Kind::place, name};
    holder_[name] = v;
    depends_.erase(v);
  }

  void set_names(const Values& values, const std::vector<std::string>& names) {
    for (size_t i = 0; i < values.size(); ++i) {
      if (values.size() > 1) declared_at_.erase(names[i]);
      if (names[i] != "_") set_name(values[i], names[i]);
    }
  }

  void declare(const std::string& name, const std::string& text) {
    declared_at_[name] = statements_.size();
    statements_.push_back({fmt::format("let {} = {};", name, text)});
  }

  void assign(ValueId v, const Expression& e) {
    const std::string name = new_name(v);
    declare(name, e.owned());
    set_name(v, name);
  }

  // Written where it is used, or a variable?
  void define(ValueId v, const Expression& e) {
    const bool is_returned = uses_.user[v] == class_->steps.size();
    if (uses_.count[v] != 1 || uses_.must_have_name.count(v) != 0) {
      if (uses_.count[v] > 0) assign(v, e);
      return;
    }
    const std::string name = python_name(v);
    const bool same_statement = names_.same_statement(v, uses_.user[v], class_->steps);
    const bool next_has_it = !name.empty() && rust_name(names_.assigned_by(uses_.user[v], class_->steps)) == name;
    const bool is_long = e.text.size() > kLongNested;
    if (is_returned || (!is_long && (name.empty() || same_statement || next_has_it))) {
      written_[v] = e;  // the variables in it must hold their values until then
      depends_[v] = referred_;
      for (const ValueId d : referred_) uses_.last[d] = std::max(uses_.last[d], uses_.user[v]);
    } else {
      assign(v, e);
    }
  }

  // ---- steps

  void write_step(const Step& step) {
    referred_.clear();
    switch (step.kind) {
      case Step::Kind::node: return write_node(step.node);
      case Step::Kind::call: return write_call(step);
      case Step::Kind::loop: return write_loop(step);
    }
  }

  void write_node(NodeId n) {
    const Node& node = graph().nodes[n];
    if (is_part_of_select(node)) return;
    const Expression e = printer_.node(n);
    if (node.op->name == "cache_append" && uses_.count[node.results[0]] == 0) {  // rows for the next step alone
      statements_.push_back({e.text + ";"});
      return;
    }
    if (!node.op->several_results) return define(node.results[0], e);
    std::vector<std::string> names = new_names(node.results);
    const bool is_array = node.op->name == "split" || e.text.starts_with("ops::recurrent");
    if (e.text.starts_with("ops::recurrent")) names.resize(3, "_");
    const char* form = is_array ? "let [{}] = {};" : "let ({}) = {};";
    statements_.push_back({fmt::format(fmt::runtime(form), joined(names), e.text)});
    set_names(node.results, names);
  }

  // A slice that is written with the reshape after it.
  bool is_part_of_select(const Node& node) {
    if (node.op->name != "slice" || uses_.count[node.results[0]] != 1 || uses_.user[node.results[0]] >= class_->steps.size())
      return false;
    const Step& user = class_->steps[uses_.user[node.results[0]]];
    if (user.kind != Step::Kind::node || !is_select(graph(), graph().nodes[user.node])) return false;
    written_[node.results[0]] = {Kind::value, "slice"};
    const ValueId whole = node.operands[0];
    uses_.last[whole] = std::max(uses_.last[whole], uses_.user[node.results[0]]);
    return true;
  }

  // ---- calls

  bool is_strided(ValueId v) const {
    const NodeId n = graph().values[v].node;
    if (n < 0) return false;
    const std::string& op = graph().nodes[n].op->name;
    return op == "slice" || op == "broadcast";
  }

  std::string called(const Child& child, const std::string& callee, const Values& values) {
    std::vector<std::string> arguments;
    for (const ValueId v : values) {
      const Expression e = value(v);
      arguments.push_back(child.use.nn && is_strided(v) ? fmt::format("&{}.contiguous()?", e.text) : e.borrowed());
    }
    if (takes_cache(child)) arguments.push_back(part_of_cache(child));
    const bool takes_mode = child.use.nn && child.use.nn->name.starts_with("BatchNorm");
    if (takes_mode) arguments.emplace_back("false");
    return fmt::format("{}.{}({})?", callee, takes_mode ? "forward_t" : "forward", joined(arguments));
  }

  bool takes_cache(const Child& child) const {
    return child.use.module_class >= 0 && !tree_->classes[child.use.module_class].cache_type.empty();
  }
  // The part of the cache that a module takes.
  std::string part_of_cache(const Child& child) const {
    if (class_->hands_cache_on) return "cache";
    return child.is_list ? fmt::format("cache.{}.at(i)", child.name) : "&mut cache." + child.name;
  }

  // The new tokens are seen once all modules have them.
  void count_tokens() {
    const bool is_whole = class_ == &tree_->model() && !class_->cache_type.empty();
    if (!is_whole) return;
    for (const Node& node : graph().nodes) {
      if (node.op->name != "cache_append") continue;
      const Shape& rows = graph().type(node.operands[1]).shape;
      const Dim tokens = rows[rows.size() - 2];
      for (const ValueId v : class_->inputs) {
        const Shape& shape = graph().type(v).shape;
        const auto axis = std::find(shape.begin(), shape.end(), tokens);
        const std::string& name = written_[v].text;
        if (axis == shape.end() || holder_[name] != v) continue;
        statements_.push_back({fmt::format("cache.seen += {}.dim({})?;", name, axis - shape.begin())});
        return;
      }
    }
    throw Error(ErrorCode::gap, "this decode step cannot be written in Rust yet: no input says how many tokens are new");
  }

  void write_call(const Step& step) {
    const Child& child = class_->children[step.child];
    const std::string text = called(child, "self." + child.name, step.arguments), layer = quoted(child.use.path);
    if (child.use.nn && child.use.nn->results.size() > 1) return write_parts(child, text);
    const Values& results = step.results;
    const auto is_used = [&](ValueId v) { return uses_.count[v] > 0; };
    if (std::none_of(results.begin(), results.end(), is_used)) return;
    if (is_returned(step) && !takes_cache(child)) {
      const CheckedCall checked = checked_call(*tree_, child, layer, text, {"x"});
      if (checked.is_within && checked.text.size() <= kLongNested) {
        written_[results[0]] = {Kind::value, checked.text};
        return;
      }
    }
    const std::vector<std::string> names = new_names(results);
    const CheckedCall checked = checked_call(*tree_, child, layer, text, names);
    declare(checked.pattern, checked.text);
    set_names(results, names);
    for (const std::string& check : checked.checks) statements_.push_back({check});
  }

  // The call is the last thing that happens, and its value what is returned.
  bool is_returned(const Step& step) {
    const ValueId v = step.results[0];
    return step.results.size() == 1 && step_ + 1 == class_->steps.size() && uses_.count[v] == 1 &&
           uses_.user[v] == class_->steps.size();
  }

  // Recurrent layers give output, h and c.
  void write_parts(const Child& child, const std::string& text) {
    const NnModule& nn = *child.use.nn;
    Values results;
    for (const auto& [v, place] : nn.results) results.push_back(v);
    std::vector<std::string> names = new_names(results);
    names.resize(3, "_");
    statements_.push_back({fmt::format("let ({}) = {};", joined(names), text)});
    set_names(results, names);
    if (names[0] == "_") return;
    statements_.push_back({fmt::format("py_check!(self.checker, {}, &{});", quoted(child.use.path), names[0])});
  }

  // ---- loops

  void write_loop(const Step& step) {
    for (const Carried& c : step.carried) start_variable(step, c);
    const Child& first = class_->children[step.body[0].child];
    const bool one_list = step.body.size() == 1 && first.is_list;
    std::vector<std::string> lines;
    const std::string element = one_list ? scope_.take(element_name(first)) : "";
    for (const Step& call : step.body) {
      const Child& child = class_->children[call.child];
      const std::string callee = one_list        ? element
                                 : child.is_list ? fmt::format("self.{}[i]", child.name)
                                                 : "self." + child.name;
      const std::string text = called(child, callee, call.arguments);
      const std::string layer = child.is_list ? layer_of(child) : quoted(child.use.path);
      add_in_loop(lines, step, call, layer, text);
    }
    if (one_list) {
      statements_.push_back({fmt::format("for (i, {}) in self.{}.iter().enumerate() {{", element, first.name)});
      scope_.release(element);
    } else {
      statements_.push_back({fmt::format("for {} in 0..{} {{", has_list(step) ? "i" : "_", length(step))});
    }
    for (const std::string& line : lines) statements_.push_back({"    " + line});
    statements_.push_back({"}"});
    for (const Carried& c : step.carried) set_name(c.final, written_.at(c.next).text);
  }

  bool has_list(const Step& step) const {
    return std::any_of(step.body.begin(), step.body.end(), [&](const Step& s) { return class_->children[s.child].is_list; });
  }

  // format!("h.{i}")
  static std::string layer_of(const Child& child) {
    std::string index = child.step == 1 ? "i" : fmt::format("{} * i", child.step);
    if (child.first != 0) index = fmt::format("i + {}", child.first);
    if (child.first != 0 && child.step != 1) index = fmt::format("{} * i + {}", child.step, child.first);
    const std::string before = child.list_path.empty() ? "" : child.list_path + (child.list_path.ends_with('_') ? "" : ".");
    if (index == "i") return before.empty() ? "i" : fmt::format("format!(\"{}{{i}}\")", before);
    return before.empty() ? index : fmt::format("format!(\"{}{{}}\", {})", before, index);
  }

  std::string length(const Step& step) const {
    for (const Step& call : step.body) {
      const Child& child = class_->children[call.child];
      if (child.is_list) return fmt::format("self.{}.len()", child.name);
    }
    if (step.count.field >= 0) return "self." + class_->numbers[step.count.field].name;
    return std::to_string(std::get<int64_t>(step.count.value));
  }

  // The variable that goes around the loop: the one that holds the first value, when that is needed no more.
  void start_variable(const Step& step, const Carried& c) {
    const Expression initial = value(c.initial);
    const auto holder = initial.kind == Kind::place ? declared_at_.find(initial.text) : declared_at_.end();
    const bool shared = std::count_if(step.carried.begin(), step.carried.end(),
                                      [&](const Carried& other) { return other.initial == c.initial; }) > 1;
    bool used_in_body = false;
    for (const Step& call : step.body) {
      used_in_body = used_in_body || std::find(call.arguments.begin(), call.arguments.end(), c.initial) != call.arguments.end();
    }
    const bool is_dead = is_dead_after(initial.text, step_) && !shared && !used_in_body;
    const std::string in_loop = rust_name(names_.assigned(c.next));
    const bool is_renamed = !names_.assigned(c.next).empty() && in_loop != initial.text && !scope_.has(in_loop);
    if (holder != declared_at_.end() && is_dead && !is_renamed) {
      statements_[holder->second].is_mutable = true;
      set_name(c.next, initial.text);
    } else {
      std::string name = python_name(c.next);
      if (name.empty() && initial.kind == Kind::reference && is_dead) name = initial.text;
      if (name.empty()) name = scope_.take(candidates(c.next));
      scope_.reserve(name);
      declare(name, initial.kind == Kind::place && is_dead && holder != declared_at_.end() ? initial.text : initial.owned());
      statements_.back().is_mutable = true;
      set_name(c.next, name);
    }
    uses_.last[c.next] = step_;
  }

  void add_in_loop(std::vector<std::string>& lines, const Step& loop, const Step& call, const std::string& layer,
                   const std::string& text) {
    const auto is_carried = [&](ValueId v) {
      return std::any_of(loop.carried.begin(), loop.carried.end(), [&](const Carried& c) { return c.next == v; });
    };
    std::vector<std::string> names;
    for (const ValueId v : call.results) names.push_back(is_carried(v) ? written_.at(v).text : scope_.take(candidates(v)));
    const bool all = std::all_of(call.results.begin(), call.results.end(), is_carried);
    std::string after;
    for (size_t i = 0; i < names.size() && !all; ++i) {
      if (!is_carried(call.results[i])) {
        written_[call.results[i]] = {Kind::place, names[i]};
        continue;
      }
      const std::string next = scope_.take("next_" + names[i]);
      after += fmt::format(" {} = {};", names[i], next);
      names[i] = next;
    }
    const CheckedCall checked = checked_call(*tree_, class_->children[call.child], layer, text, names);
    lines.push_back(fmt::format("{}{} = {};", all ? "" : "let ", checked.pattern, checked.text));
    lines.insert(lines.end(), checked.checks.begin(), checked.checks.end());
    if (!after.empty()) lines.push_back(after.substr(1));
  }

  static std::vector<std::string> element_name(const Child& child) {
    std::string last = child.name;
    if (last.size() > 2 && last.back() == 's') last.pop_back();
    return {last == child.name ? "block" : rust_name(last), "block", "layer", "element"};
  }

  // ---- the result

  // A variable that nothing needs any more is moved.
  std::string given(ValueId v, std::set<std::string>& moved) {
    const Expression e = value(v);
    const bool is_local = e.kind == Kind::place && !e.text.starts_with("self.");
    return is_local && moved.insert(e.text).second ? e.text : e.owned();
  }

  void write_return(const ResultType& type) {
    step_ = class_->steps.size();
    count_tokens();
    std::set<std::string> moved;
    // every use of a variable but its last is a copy
    std::map<ValueId, int> left;
    for (const ValueId v : class_->outputs) ++left[v];
    std::vector<std::string> results;
    for (const ValueId v : class_->outputs) {
      std::set<std::string> none;
      results.push_back(--left[v] > 0 ? value(v).owned() : given(v, moved));
    }
    for (std::string& result : results) {  // moved, and needed by another
      const auto needs = [&](const std::string& other) {
        return &other != &result && other.find("&" + result) != std::string::npos;
      };
      if (moved.count(result) != 0 && std::any_of(results.begin(), results.end(), needs)) result += ".clone()";
    }
    if (!type.fields.empty()) {
      std::vector<std::string> all;
      for (size_t i = 0; i < type.fields.size(); ++i) {
        const std::string& field = type.fields[i];
        all.push_back(field == results[i] ? field : fmt::format("{}: {}", field, results[i]));
      }
      statements_.push_back({fmt::format("Ok({} {{ {} }})", type.struct_name, joined(all))});
    } else if (results.size() == 1) {
      const std::string inner = without_question(results[0]);
      statements_.push_back({inner.empty() ? fmt::format("Ok({})", results[0]) : inner});
    } else {
      statements_.push_back({fmt::format("Ok(({}))", joined(results))});
    }
  }

  const ModelTree* tree_;
  const ModuleClass* class_;
  ValueNames names_;
  Surroundings around_;
  ExpressionPrinter printer_;
  Uses uses_;
  Scope scope_;
  std::map<ValueId, std::set<ValueId>> depends_;  // of what is written where it is used: the variables in it
  std::set<ValueId> referred_;                    // by the expressions of this step
  std::map<ValueId, Expression> written_;
  std::map<std::string, ValueId> holder_;
  std::map<std::string, size_t> declared_at_;     // the statement of a variable
  std::vector<std::string> parameters_;
  std::vector<Statement> statements_;
  std::string any_tensor_;                        // to ask for its device
  size_t step_ = 0;
};

}  // namespace

Forward write_forward(const ModelTree& tree, const ModuleClass& made) { return Body(tree, made).write(); }

}  // namespace pycandle::emit::rust
