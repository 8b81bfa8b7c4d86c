#include "emit/cpp/body.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "emit/cpp/expression.h"
#include "emit/cpp/region.h"
#include "emit/cpp/results.h"
#include "emit/cpp/text.h"
#include "emit/names.h"
#include "emit/node_forms.h"
#include "emit/uses.h"
#include "emit/value_names.h"
#include "passes/decode_step.h"

namespace pycandle::emit::cpp {
namespace {

constexpr size_t kLongStatement = 90;  // and its type and indent: a line
constexpr size_t kLongNested = 80, kLongWord = 68;  // an expression that is longer gets a name when there is one

class Body {
 public:
  Body(const ModelTree& tree, const ModuleClass& made, std::vector<std::string> reserved)
      : tree_(&tree),
        class_(&made),
        reserved_(std::move(reserved)),
        is_random_(draws_numbers(tree.program->graph)),
        names_(tree, made),
        around_{[this](ValueId v) { return value(v); }, [this](Dim d) { return dim(d); },
                [this](ValueId v) { return uses_.count[v] == 1; }},
        printer_(tree, made, around_),
        uses_(tree, made, [this](NodeId n) { return printer_.written_dims(n); }) {}

  Forward write() {
    reserve_names();
    name_inputs();
    for (step_ = 0; step_ < class_->steps.size(); ++step_) write_step(class_->steps[step_]);
    write_updates();
    write_return();
    Forward made;
    bool all_later = class_->cache_type.empty();  // are all that follow optional?
    for (size_t i = class_->inputs.size(); i-- > 0;) {
      const ValueId v = class_->inputs[i];
      all_later = all_later && class_->left_out.count(v) != 0;
      made.parameters.insert(made.parameters.begin(), parameter(v) + (all_later ? " = {}" : ""));
    }
    if (!class_->cache_type.empty()) made.parameters.push_back(class_->cache_type + "& cache");
    for (const Statement& s : statements_) made.statements.push_back(text_of(s));
    return made;
  }

 private:
  struct Statement {
    std::string declares;  // a tensor that is declared here; const unless it is assigned to again
    std::string text;
  };

  const Graph& graph() const { return tree_->program->graph; }

  std::string text_of(const Statement& s) const {
    if (s.declares.empty()) return s.text;
    return fmt::format("{}Tensor {} = {};", assigned_again_.count(s.declares) != 0 ? "" : "const ", s.declares, s.text);
  }

  std::string parameter(ValueId v) const {
    const std::string& name = parameter_names_.at(v);
    if (uses_.count.count(v) == 0) return fmt::format("const Tensor& /*{}*/", name);
    return (assigned_again_.count(name) != 0 ? "Tensor " : "const Tensor& ") + name;
  }

  // ---- before anything is written

  void reserve_names() {
    for (const std::string& name : spoken_names()) scope_.reserve(name);
    for (const char* name : {"stack", "forward", "checker"}) scope_.reserve(name);
    for (const std::string& name : reserved_) scope_.reserve(name);
    if (!class_->cache_type.empty()) scope_.reserve("cache");
    for (const Symbol& symbol : tree_->program->symbols) {
      if (symbol.axis < 0) scope_.reserve(symbol.name);  // a size that the data decides, which is said by its name
    }
    const auto& steps = class_->steps;
    if (std::any_of(steps.begin(), steps.end(), [](const Step& s) { return s.kind == Step::Kind::loop; })) scope_.reserve("i");
    for (const TensorField& t : class_->tensors) scope_.reserve(t.name);
    for (const Child& child : class_->children) scope_.reserve(child.name);
    for (const NumberField& number : class_->numbers) scope_.reserve(number.name);
    for (const Setting& setting : class_->settings) scope_.reserve(setting.name);
    for (const ModuleClass& other : tree_->classes) scope_.reserve(other.name);
  }

  void name_inputs() {
    for (size_t i = 0; i < class_->inputs.size(); ++i) {
      const ValueId v = class_->inputs[i];
      std::vector<std::string> candidates;
      if (!class_->input_names[i].empty()) candidates.push_back(identifier(class_->input_names[i]));
      candidates.push_back(names_.of(v));
      const std::string name = scope_.take(without_members(candidates));
      parameter_names_[v] = name;
      set_name(v, name);
    }
    for (const TensorField& t : class_->tensors) written_[t.value] = {t.name};
    for (const auto& [v, instead] : class_->left_out) {
      if (instead != kNoValue) stand_in(v, instead);
    }
    if (!class_->cache_type.empty()) written_[tree_->calls->cache_lengths()] = {"cache.lengths"};
    for (const TensorField& row : class_->rows) written_[row.value] = {"cache." + row.name};
    for (const TensorField& t : class_->tensors) {
      if (t.is_state) name_state(t);
    }
  }

  // const Tensor states = key_value_states.defined() ? key_value_states : hidden_states;
  void stand_in(ValueId v, ValueId instead) {
    const std::string given = written_.at(v).text, other = written_.at(instead).text;
    const std::string both = fmt::format("{}_or_{}", given, other), python = names_.argument(v);
    const std::string name = scope_.take({python.empty() ? both : python, both});
    statements_.push_back({name, fmt::format("{0}.defined() ? {0} : {1}", given, other)});
    set_name(v, name);
  }

  // A state is a variable that holds its value before, until it is assigned to. One that another class sets is read first
  // of all: it may have changed by the time it is needed.
  void name_state(const TensorField& t) {
    state_names_.insert(t.name);
    const auto update = std::find_if(class_->updates.begin(), class_->updates.end(),
                                     [&](const StateUpdate& u) { return u.state == t.value; });
    if (update != class_->updates.end()) {
      holder_[t.name] = t.value;
      state_of_.emplace(update->next, t.name);
      return;
    }
    const std::string before = scope_.take(t.name + "_before");
    statements_.push_back({before, t.name});
    set_name(t.value, before);
  }

  // A local that has the name of a member would hide it.
  std::vector<std::string> without_members(std::vector<std::string> candidates) const {
    candidates.push_back(candidates[0] + "_in");
    return candidates;
  }

  // ---- values

  void set_name(ValueId v, const std::string& name) {
    written_[v] = {name};
    holder_[name] = v;
  }

  Expression value(ValueId v) {
    if (const std::string* what = tree_->calls->gap(v)) return {fmt::format("todo({})", quoted(*what))};
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

  Expression dim(Dim d) {
    const auto text = write_dim(
        d, graph(), uses_.visible_at[step_],
        [&](ValueId v, size_t axis) { return fmt::format("{}.dim({})", value(v).within(Binds::unary), axis); },
        [&](const std::string& symbol) { return is_decided_here(symbol); });
    if (!text) {
      throw Error(ErrorCode::gap, "a size cannot be said in terms of the inputs")
          .found(d.text())
          .hint("record it as a fixed size");
    }
    const bool simple = text->find(' ') == std::string::npos;
    return {*text, simple ? (((*text)[0] == '-') ? Binds::unary : Binds::primary) : Binds::comparison};
  }

  // A size that the data decides gets a name before the op that gives it.
  bool is_decided_here(const std::string& symbol) {
    if (!tree_->calls->binds(class_->call, symbol)) return false;
    if (!decided_.insert(symbol).second) return true;
    const char* says = symbol == kCapacity ? "cache_capacity" : "data_dim";
    statements_.push_back({{}, fmt::format("const Dim {} = {}();", symbol, says)});
    return true;
  }

  bool is_dead_after(const std::string& name, size_t step) const {
    const auto holder = holder_.find(name);
    if (holder == holder_.end()) return false;
    const auto last = uses_.last.find(holder->second);
    return last == uses_.last.end() || last->second <= step;
  }

  // The name that the value gets as a variable: Python's, unless another value that is still needed has it.
  std::optional<std::string> python_name(ValueId v) const {
    const auto state = state_of_.find(v);
    const std::string name = state != state_of_.end() ? state->second : names_.assigned(v);
    if (name.empty() || (state == state_of_.end() && state_names_.count(name) != 0)) return {};
    if (holder_.count(name) != 0) return is_dead_after(name, step_) || waiting_for(name) ? std::optional(name) : std::nullopt;
    return scope_.has(name) ? std::nullopt : std::optional(name);
  }

  // Expressions that were to be written later and need the variable; none when a step needs it anyway, or when one of them
  // is to have its name.
  std::optional<Values> waiting_for(const std::string& name) const {
    const ValueId held = holder_.at(name);
    const auto last = uses_.stated_last.find(held);
    if (last != uses_.stated_last.end() && last->second > step_) return {};
    Values waiting;
    for (const auto& [v, needs] : depends_) {
      if (uses_.user.at(v) <= step_ || needs.count(held) == 0) continue;
      if (names_.assigned(v) == name) return {};
      waiting.push_back(v);
    }
    return waiting;
  }

  // Writes those expressions now, as Python did, so that the variable can take its next value.
  void release(const std::string& name) {
    if (holder_.count(name) == 0 || is_dead_after(name, step_)) return;
    const ValueId held = holder_.at(name);
    const Values waiting = *waiting_for(name);
    for (const ValueId v : waiting) {
      depends_.erase(v);
      const std::string own = names_.assigned(v);
      const bool is_variable = !own.empty() && holder_.count(own) != 0 && state_names_.count(own) == 0 &&
                               referred_.count(holder_.at(own)) == 0;  // the statement that comes next needs it
      const auto others = is_variable ? waiting_for(own) : std::nullopt;
      if (others && others->empty()) {  // the variable that Python assigned it to, which nothing else needs
        statements_.push_back({{}, fmt::format("{} = {};", own, written_[v].text)});
        assigned_again_.insert(own);
        set_name(v, own);
        continue;
      }
      std::vector<std::string> candidates = names_.candidates(v);
      if (!own.empty()) candidates.insert(candidates.begin(), own);
      const std::string taken = scope_.take(candidates);
      statements_.push_back({taken, written_[v].text});
      set_name(v, taken);
    }
    uses_.last[held] = step_;
  }

  void assign(ValueId v, const std::string& text) {
    const auto python = python_name(v);
    if (python) release(*python);
    if (python && holder_.count(*python) != 0) {
      statements_.push_back({{}, fmt::format("{} = {};", *python, text)});
      assigned_again_.insert(*python);
      set_name(v, *python);
      depends_.erase(v);
      return;
    }
    std::vector<std::string> candidates = names_.candidates(v);
    if (python) candidates.insert(candidates.begin(), *python);
    if (state_of_.count(v) != 0) candidates.insert(candidates.begin(), "next_" + state_of_.at(v));
    const std::string name = scope_.take(candidates);
    // f(…).g(…) that is too long for a line: x = f(…), then x = x.g(…)
    const size_t member = name.size() + text.size() > kLongStatement ? last_member(text) : 0;
    statements_.push_back({name, member > 0 ? text.substr(0, member) : text});
    if (member > 0) {
      statements_.push_back({{}, fmt::format("{0} = {0}{1};", name, text.substr(member))});
      assigned_again_.insert(name);
    }
    set_name(v, name);
    depends_.erase(v);
  }

  // Written where it is used, or a variable?
  void define(ValueId v, Expression e, bool may_nest) {
    const bool is_returned = uses_.user[v] == class_->steps.size();
    const bool is_next = state_of_.count(v) != 0;  // of a state, which is assigned where Python did
    const bool once = uses_.count[v] == 1 && uses_.must_have_name.count(v) == 0 && (may_nest || is_returned) && !is_next;
    if (!once) {
      if (uses_.count[v] > 0) assign(v, e.text);
      return;
    }
    const auto name = python_name(v);
    const bool same_statement = names_.same_statement(v, uses_.user[v], class_->steps);
    const bool is_one_word = e.text.find(' ') == std::string::npos;  // has no place to be broken at
    const bool is_long = e.text.size() > (is_one_word ? kLongWord : kLongNested) && !is_returned;
    const bool next_has_it = name && names_.assigned_by(uses_.user[v], class_->steps) == *name;
    if (!is_long && (!name || same_statement || next_has_it || is_returned)) {
      nest(v, std::move(e));
    } else {
      assign(v, e.text);
    }
  }

  // The expression stands where v is used, so the variables in it must hold their values until then.
  void nest(ValueId v, Expression e) {
    written_[v] = std::move(e);
    depends_[v] = referred_;
    for (const ValueId d : referred_) uses_.last[d] = std::max(uses_.last[d], uses_.user[v]);
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

  void write_node(size_t n) {
    const Node& node = graph().nodes[n];
    if (!node.regions.empty()) return write_control_flow(node);
    if (is_part_of_select(node)) return;
    const Expression e = printer_.node(n);
    if (node.op->name == "cache_append" && uses_.count[node.results[0]] == 0) {  // rows for the next step alone
      statements_.push_back({{}, e.text + ";"});
      return;
    }
    // Draws stay in Python's order: C++ may compute the arguments of a call in any.
    if (!node.op->several_results) return define(node.results[0], e, !node.op->is_random);
    give(node.results, e.text, node.op->name == "split");  // the front end's split<3>() is an array already
  }

  void give(const Values& results, const std::string& text, bool is_array) {
    const auto used = std::count_if(results.begin(), results.end(), [&](ValueId v) { return uses_.count[v] > 0; });
    if (used == 1) {
      for (size_t i = 0; i < results.size(); ++i) {
        if (uses_.count[results[i]] > 0) define(results[i], {fmt::format("{}[{}]", text, i)}, true);
      }
      return;
    }
    bind(results, is_array ? text : fmt::format("unpack<{}>({})", results.size(), text));
  }

  // Regions become functions, then the op is called with them.
  void write_control_flow(const Node& node) {
    const ControlFlow flow = cpp::write_control_flow(*tree_->program, node, around_, names_, scope_);
    for (const std::string& line : flow.functions) statements_.push_back({{}, line});
    give(node.results, flow.call, false);
  }

  // A slice that is written with the reshape after it.
  bool is_part_of_select(const Node& node) {
    if (node.op->name != "slice" || uses_.count[node.results[0]] != 1 || uses_.user[node.results[0]] >= class_->steps.size())
      return false;
    const Step& user = class_->steps[uses_.user[node.results[0]]];
    if (user.kind != Step::Kind::node) return false;
    const Node& reshape = graph().nodes[user.node];
    if (!is_select(graph(), reshape)) return false;
    written_[node.results[0]] = {"slice"};
    // What the slice needs is needed until the reshape.
    const ValueId whole = node.operands[0];
    uses_.last[whole] = std::max(uses_.last[whole], uses_.user[node.results[0]]);
    return true;
  }

  // auto [query, key, value] = …;
  void bind(const Values& results, const std::string& text) {
    std::vector<std::string> names;
    for (const ValueId v : results) {
      std::vector<std::string> candidates = names_.candidates(v);
      if (!names_.assigned(v).empty()) candidates.insert(candidates.begin(), names_.assigned(v));
      if (state_of_.count(v) != 0) candidates.insert(candidates.begin(), "next_" + state_of_.at(v));
      names.push_back(scope_.take(candidates));
      set_name(v, names.back());
    }
    statements_.push_back({{}, fmt::format("auto [{}] = {};", joined(names), text)});
  }

  void write_call(const Step& step) {
    const Child& child = class_->children[step.child];
    std::vector<std::string> arguments = arguments_of(step);
    add_cache(child, arguments);
    const std::string text = fmt::format("{}({})", child.name, joined(arguments));
    const bool may_nest = uses_.calls_of[step.child] == 1 && !is_random_;  // calls of one module stay in Python's order
    if (child.use.nn && child.use.nn->results.size() > 1) return write_parts(*child.use.nn, text);
    if (step.results.size() == 1) return define(step.results[0], {text}, may_nest);
    bind(step.results, text);
  }

  std::vector<std::string> arguments_of(const Step& call) {
    Values given = call.arguments;
    while (!given.empty() && given.back() == kNoValue) given.pop_back();  // what is left out at the end is not written
    std::vector<std::string> arguments;
    for (const ValueId v : given) arguments.push_back(v == kNoValue ? "Tensor()" : value(v).text);
    return arguments;
  }

  // The part of the cache that a module takes.
  bool takes_cache(const Child& child) const {
    return child.use.module_class >= 0 && !tree_->classes[child.use.module_class].cache_type.empty();
  }
  void add_cache(const Child& child, std::vector<std::string>& arguments) const {
    if (!takes_cache(child)) return;
    const std::string part = class_->hands_cache_on ? "cache" : "cache." + child.name;
    arguments.push_back(child.is_list ? part + "[i]" : part);
  }

  // nn modules that return pairs: lstm(x).first, or auto [output, state] = lstm(x).
  void write_parts(const NnModule& nn, const std::string& text) {
    bool only_first = true;
    for (const auto& [v, part] : nn.results) only_first = only_first && (part == ".first" || uses_.count[v] == 0);
    if (only_first) {
      if (uses_.count[nn.results[0].first] > 0) define(nn.results[0].first, {text + ".first"}, true);
      return;
    }
    const std::string first = scope_.take(std::vector<std::string>{names_.assigned(nn.results[0].first), "output"});
    const std::string second = scope_.take(std::vector<std::string>{"state", "hidden"});
    statements_.push_back({{}, fmt::format("auto [{}, {}] = {};", first, second, text)});
    for (const auto& [v, part] : nn.results) {
      if (part == ".first") {
        set_name(v, first);
      } else {
        written_[v] = {second + part.substr(7)};
      }
    }
  }

  // ---- loops

  void write_loop(const Step& step) {
    for (const Carried& c : step.carried) start_variable(step, c);
    const Child& first = class_->children[step.body[0].child];
    const bool one_list = step.body.size() == 1 && first.is_list && !takes_cache(first);
    std::vector<std::string> lines;
    std::string element;
    if (one_list) element = scope_.take(element_name(class_->children[step.body[0].child]));
    for (const Step& call : step.body) {
      const Child& child = class_->children[call.child];
      std::vector<std::string> arguments = arguments_of(call);
      add_cache(child, arguments);
      const std::string callee = !child.is_list ? child.name : one_list ? element : child.name + "[i]";
      lines.push_back(assigned_in_loop(step, call, fmt::format("{}({})", callee, joined(arguments))));
    }
    std::string head;
    if (one_list) {
      const Child& child = class_->children[step.body[0].child];
      head = fmt::format("for (const {}& {} : {})", type_of(*tree_, child.use), element, child.name);
      scope_.release(element);
    } else {
      head = fmt::format("for (int64_t i = 0; i < {}; ++i)", length(step));
    }
    constexpr size_t kIndent = 4;
    if (lines.size() == 1 && kIndent + head.size() + 1 + lines[0].size() <= kColumns) {
      statements_.push_back({{}, fmt::format("{} {}", head, lines[0])});
    } else {
      statements_.push_back({{}, head + " {"});
      for (const std::string& line : lines) statements_.push_back({{}, "  " + line});
      statements_.push_back({{}, "}"});
    }
    for (const Carried& c : step.carried) set_name(c.final, written_[c.next].text);
  }

  std::string length(const Step& step) const {
    for (const Step& call : step.body) {
      const Child& child = class_->children[call.child];
      if (child.is_list) return fmt::format("static_cast<int64_t>({}.size())", child.name);
    }
    if (step.count.field >= 0) return class_->numbers[step.count.field].name;
    return std::to_string(std::get<int64_t>(step.count.value));
  }

  // The variable that goes around the loop: the one that holds the first value, when that is needed no more.
  void start_variable(const Step& step, const Carried& c) {
    const Expression initial = value(c.initial);
    const auto holder = state_names_.count(initial.text) != 0 ? holder_.end() : holder_.find(initial.text);
    const bool shared = std::count_if(step.carried.begin(), step.carried.end(),
                                      [&](const Carried& other) { return other.initial == c.initial; }) > 1;
    bool used_in_body = false;
    for (const Step& call : step.body) {
      used_in_body = used_in_body || std::find(call.arguments.begin(), call.arguments.end(), c.initial) != call.arguments.end();
    }
    const std::string in_loop = names_.assigned(c.next);
    const bool is_renamed = !in_loop.empty() && in_loop != initial.text && !scope_.has(in_loop);
    if (is_renamed && holder == holder_.end()) {
      assign(c.next, initial.text);
      assigned_again_.insert(written_[c.next].text);
      uses_.last[c.next] = step_;
      return;
    }
    if (holder != holder_.end() && is_dead_after(initial.text, step_) && !shared && !used_in_body && !is_renamed) {
      assigned_again_.insert(initial.text);
      set_name(c.next, initial.text);
      uses_.last[c.next] = step_;
      return;
    }
    const bool is_variable = holder != holder_.end() || state_names_.count(initial.text) != 0;
    assign(is_variable ? c.next : c.initial, initial.text);
    if (!is_variable) set_name(c.next, written_[c.initial].text);
    assigned_again_.insert(written_[c.next].text);
    uses_.last[c.next] = step_;
  }

  std::string assigned_in_loop(const Step& loop, const Step& call, const std::string& text) {
    const auto is_carried = [&](ValueId v) {
      return std::any_of(loop.carried.begin(), loop.carried.end(), [&](const Carried& c) { return c.next == v; });
    };
    if (call.results.size() == 1) {
      if (is_carried(call.results[0])) return fmt::format("{} = {};", value(call.results[0]).text, text);
      const std::string name = scope_.take(names_.candidates(call.results[0]));
      written_[call.results[0]] = {name};
      return fmt::format("const Tensor {} = {};", name, text);
    }
    const bool all = std::all_of(call.results.begin(), call.results.end(), is_carried);
    std::vector<std::string> names;
    if (all) {
      for (const ValueId v : call.results) names.push_back(value(v).text);
      return fmt::format("std::tie({}) = {};", joined(names), text);
    }
    std::string after;
    for (const ValueId v : call.results) {
      names.push_back(scope_.take(names_.candidates(v)));
      if (is_carried(v)) {
        after += fmt::format(" {} = {};", value(v).text, names.back());
      } else {
        written_[v] = {names.back()};
      }
    }
    return fmt::format("auto [{}] = {};{}", joined(names), text, after);
  }

  static std::vector<std::string> element_name(const Child& child) {
    std::string last = child.name;
    if (last.size() > 2 && last.back() == 's') last.pop_back();
    return {last == child.name ? "block" : identifier(last), "block", "layer", "element"};
  }

  // States whose new value could not be assigned where it was made, as the old one was needed after that.
  void write_updates() {
    step_ = class_->steps.size();
    std::vector<std::pair<std::string, ValueId>> pending;
    std::set<ValueId> old;
    for (const StateUpdate& update : class_->updates) {
      const std::string& member = written_.at(update.state).text;
      if (holder_.at(member) == update.next) continue;
      pending.emplace_back(member, update.next);
      old.insert(update.state);
    }
    const auto needs_old = [&](ValueId v) {
      const auto nested = depends_.find(v);
      if (nested == depends_.end()) return old.count(v) != 0;
      return std::any_of(nested->second.begin(), nested->second.end(), [&](ValueId d) { return old.count(d) != 0; });
    };
    Values kept = pending.empty() ? Values() : class_->outputs;
    for (const auto& [member, next] : pending) kept.push_back(next);
    for (const ValueId v : kept) {
      if (!needs_old(v)) continue;
      const std::string name = scope_.take(names_.candidates(v));
      statements_.push_back({name, written_.at(v).text});
      written_[v] = {name};
      depends_.erase(v);
    }
    for (const auto& [member, next] : pending) {
      statements_.push_back({{}, fmt::format("{} = {};", member, written_.at(next).text)});
    }
  }

  void write_return() {
    step_ = class_->steps.size();
    std::vector<std::string> results;
    for (const ValueId v : class_->outputs) results.push_back(value(v).text);
    if (!returns_tuple(*class_) && !returns_struct(*class_)) {
      statements_.push_back({{}, fmt::format("return {};", results[0])});
    } else {
      statements_.push_back({{}, fmt::format("return {{{}}};", joined(results))});
    }
  }

  const ModelTree* tree_;
  const ModuleClass* class_;
  std::vector<std::string> reserved_;
  bool is_random_;
  ValueNames names_;
  Surroundings around_;
  ExpressionPrinter printer_;
  Uses uses_;
  Scope scope_;
  std::map<ValueId, std::set<ValueId>> depends_;  // of what is written where it is used: the variables in it
  std::set<ValueId> referred_;                    // by the expressions of this step
  std::map<ValueId, Expression> written_;
  std::map<std::string, ValueId> holder_;
  std::map<ValueId, std::string> parameter_names_;
  std::set<std::string> assigned_again_, decided_, state_names_;
  std::map<ValueId, std::string> state_of_;  // of what states become: the member
  std::vector<Statement> statements_;
  size_t step_ = 0;
};

}  // namespace

Forward write_forward(const ModelTree& tree, const ModuleClass& made, std::vector<std::string> reserved) {
  return Body(tree, made, std::move(reserved)).write();
}

}  // namespace pycandle::emit::cpp
