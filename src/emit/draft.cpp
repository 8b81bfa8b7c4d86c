#include "emit/draft.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "emit/columns.h"
#include "emit/names.h"

namespace pycandle::emit {
namespace {

bool is_index(std::string_view text) { return !text.empty() && text.find_first_not_of("0123456789") == std::string_view::npos; }

std::string below(const std::string& path, const std::string& owner) {
  if (owner.empty()) return path;
  if (path.starts_with(owner + ".")) return path.substr(owner.size() + 1);
  return {};
}

constexpr size_t kMostVarying = 3, kFewestThatVary = 3;

struct UseDraft {
  Use use;
  std::string text;
  std::vector<Column> columns;
};

template <class Visit> void visit_own_parameters(const CallTree& tree, int32_t call, const Visit& visit) {
  const auto look = [&](ValueId v) {
    const std::string local = v == kNoValue ? std::string() : tree.local_parameter(call, v);
    if (!local.empty()) visit(v, local);
  };
  for (const State* s : tree.updates(call)) look(s->value);
  for (const Unit& unit : tree.body(call).units) {
    if (unit.call >= 0) {
      for (const ValueId v : tree.body(unit.call).inputs) look(v);
      continue;
    }
    for (size_t i = 0; i < tree.implicit().operand_count(unit.node); ++i) {
      const ValueId* v = std::get_if<ValueId>(&tree.implicit().operand(unit.node, i));
      if (v) look(*v);
    }
  }
}

class DraftWriter {
 public:
  DraftWriter(const CallTree& tree, int32_t call, std::vector<Draft>& drafts, const std::vector<ModuleClass>& classes)
      : tree_(&tree), call_(call), drafts_(&drafts), classes_(&classes), draft_(&drafts[call]) {}

  void write() {
    rows_scope_.reserve("lengths");
    add_raw_steps(tree_->body(call_));
    find_repetition();
    name_inputs();
    for (size_t s = 0; s < raw_.size();) {
      const auto loop = loop_at(raw_, s, tree_->body(call_).outputs);
      if (loop && can_be_lists(*loop)) {
        add_loop(*loop);
        s += loop->size();
      } else {
        add_step(raw_[s++]);
      }
    }
    draft_->text += " gives";
    for (const ValueId v : tree_->body(call_).outputs) draft_->text += " " + name(v);
    for (const State* s : tree_->updates(call_)) {
      draft_->text += fmt::format(" sets {} {}", name(s->value), name(s->updated));
      draft_->updates.push_back({s->value, s->updated});
    }
    const std::string head = recorded(call_).class_name + "\n";
    draft_->text.insert(0, head);
    for (NamedValue& at : draft_->named) {
      at.begin += head.size();
      at.end += head.size();
    }
  }

 private:
  const ModuleCall& recorded(int32_t call) const { return tree_->program().calls[call]; }
  Draft& draft(int32_t call) const { return (*drafts_)[call]; }
  const Graph& graph() const { return tree_->program().graph; }

  // ---- raw steps

  void add_raw_steps(const CallBody& body) {
    for (const Unit& unit : body.units) {
      RawStep step;
      step.unit = unit;
      if (unit.node >= 0) {
        for (size_t i = 0; i < tree_->implicit().operand_count(unit.node); ++i) {
          const ValueId* v = std::get_if<ValueId>(&tree_->implicit().operand(unit.node, i));
          if (v && *v != kNoValue) step.arguments.push_back(*v);
        }
        step.results = graph().nodes[unit.node].results;
      } else if (draft(unit.call).is_repetition) {
        add_raw_steps(tree_->body(unit.call));
        continue;
      } else {
        const Draft& d = draft(unit.call);
        step.arguments = d.nn ? d.nn->inputs : d.arguments;
        step.results = tree_->body(unit.call).outputs;
        step.kind = describe(unit.call).text;
        step.is_nn = d.nn.has_value();
        step.path = recorded(unit.call).path;
        if (!below(step.path, recorded(call_).path).empty()) find_list(step);
      }
      raw_.push_back(std::move(step));
    }
  }

  // "h.3" is number 3 of "h", "encoder_layer_3" of "encoder_layer_".
  static void find_list(RawStep& step) {
    const size_t digits = step.path.find_last_not_of("0123456789") + 1;
    if (digits == step.path.size() || step.path.size() - digits > 9) return;
    const bool is_element = digits == 0 || step.path[digits - 1] == '.';
    if (!is_element && step.path[digits - 1] != '_') return;
    step.list = step.path.substr(0, is_element && digits > 0 ? digits - 1 : digits);
    step.index = std::stoll(step.path.substr(digits));
  }

  // nn.Sequential: its parts are steps where it is called when they are a loop, else it is a sequence of the front end.
  void find_repetition() {
    const CallBody& body = tree_->body(call_);
    if (recorded(call_).class_name != "torch.nn.modules.container.Sequential" || body.inputs.size() != 1) return;
    if (!tree_->updates(call_).empty()) return;
    ValueId flow = body.inputs[0];
    for (const RawStep& step : raw_) {
      if (step.unit.call < 0 || step.arguments != Values{flow} || step.results.size() != 1) return;
      if (draft(step.unit.call).nn && draft(step.unit.call).nn->results.size() != 1) return;
      if (below(step.path, recorded(call_).path).empty()) return;
      flow = step.results[0];
    }
    if (body.outputs != Values{flow} || call_ == 0) return;
    const auto loop = loop_at(raw_, 0, body.outputs);
    draft_->is_repetition = loop && loop->size() == raw_.size() && can_be_lists(*loop);
    if (tree_->uses_cache(call_)) return;  // a sequence of the front end hands on one tensor
    // A sequence in a sequence is a class of its own, or the line that builds it would not end.
    const int32_t around = tree_->parent(call_);
    const bool is_inner = around > 0 && raw_.size() > 1 && recorded(around).class_name == recorded(call_).class_name;
    draft_->is_sequence = tree_->layers().has_sequences && !draft_->is_repetition && !is_inner && !draft_->is_listed &&
                          !is_stage();
  }

  // One or two modules and then a row of equal ones, or before it: a class of its own with a loop.
  bool is_stage() const {
    for (size_t s = 0; s < raw_.size() && s <= 2; ++s) {
      const auto loop = loop_at(raw_, s, tree_->body(call_).outputs);
      if (!loop || loop->period != 1 || raw_[s].is_nn) continue;
      return loop->size() + 2 >= raw_.size() && can_be_lists(*loop, false);
    }
    return false;
  }

  // ---- modules that the call uses

  UseDraft describe(int32_t call) const {
    const Draft& d = draft(call);
    UseDraft found;
    found.use.call = call;
    if (d.nn) {
      describe_nn(*d.nn, found);
    } else if (d.is_sequence) {
      found.text = "sequence";
      describe_parts(call, call, found);
    } else {
      found.use.module_class = d.module_class;
      found.text = fmt::format("class {}", d.module_class);
      const std::vector<NumberField>& fields = (*classes_)[d.module_class].numbers;
      for (size_t i = 0; i < fields.size(); ++i) {
        found.use.arguments.push_back({-1, d.numbers[i], static_cast<int32_t>(found.columns.size())});
        add_number(d.numbers[i], {{}, fields[i].name, {}, {}}, found.text, found.columns);
      }
    }
    return found;
  }

  static void describe_nn(const NnModule& nn, UseDraft& found) {
    found.use.nn = nn;
    found.text = "nn " + nn.name;
    for (const LayerArgument& a : nn.arguments) {
      found.text += fmt::format(" {}=", a.name);
      if (is_number(a.value) && !is_structural(a.name)) {
        found.use.arguments.push_back({-1, a.value, static_cast<int32_t>(found.columns.size())});
        add_number(a.value, {{}, a.name, {}, {}}, found.text, found.columns);
      } else {
        found.use.arguments.push_back({-1, a.value, -1});
        found.text += to_string(a.value);
      }
    }
  }

  // The parts of a sequence within it that only repeats them are parts of the outer one, as steps are.
  void describe_parts(int32_t sequence, int32_t of, UseDraft& found) const {
    for (const Unit& unit : tree_->body(of).units) {
      if (draft(unit.call).is_repetition)
        describe_parts(sequence, unit.call, found);
      else
        describe_part(sequence, unit.call, found);
    }
  }

  void describe_part(int32_t sequence, int32_t call, UseDraft& found) const {
    UseDraft part = describe(call);
    part.use.path = below(recorded(call).path, recorded(sequence).path);
    part.use.tied = tied(call);
    shift(part.use, static_cast<int32_t>(found.columns.size()));
    found.text += fmt::format(" [{} {}{}]", part.use.path, part.text, ties_of(part.use));
    found.columns.insert(found.columns.end(), part.columns.begin(), part.columns.end());
    found.use.sequence.push_back(std::move(part.use));
  }

  static void shift(Use& use, int32_t by) {
    for (Argument& a : use.arguments) {
      if (a.column >= 0) a.column += by;
    }
    for (Use& part : use.sequence) shift(part, by);
  }

  // The parameters that the call reads under a name that is not their canonical one.
  std::vector<std::pair<std::string, std::string>> tied(int32_t call) const {
    std::vector<std::pair<std::string, std::string>> found;
    const std::string& path = recorded(call).path;
    visit_own_parameters(*tree_, call, [&](ValueId v, const std::string& local) {
      const std::string& canonical = tree_->stored_name(v);
      if (canonical != path + "." + local) found.emplace_back(local, canonical);
    });
    std::sort(found.begin(), found.end());
    found.erase(std::unique(found.begin(), found.end()), found.end());
    return found;
  }

  static std::string ties_of(const Use& use) {
    std::string text;
    for (const auto& [local, canonical] : use.tied) text += fmt::format(" {}={}", local, canonical);
    for (const Use& part : use.sequence) text += ties_of(part);
    return text;
  }

  // A module that stands elsewhere in the model: every parameter of it is named from the root.
  void tie_all(int32_t call, const std::string& prefix, std::vector<std::pair<std::string, std::string>>& into) const {
    visit_own_parameters(*tree_, call,
                         [&](ValueId v, const std::string& local) { into.emplace_back(prefix + local, tree_->stored_name(v)); });
    for (const Unit& unit : tree_->body(call).units) {
      if (unit.call < 0) continue;
      const std::string inner = below(recorded(unit.call).path, recorded(call).path);
      if (!inner.empty()) tie_all(unit.call, prefix + inner + ".", into);
    }
  }

  // The parts of a sequence get their parameters each for itself.
  void tie_all(Use& use) const {
    for (Use& part : use.sequence) tie_all(part);
    if (!use.sequence.empty()) return;
    tie_all(use.call, {}, use.tied);
    std::sort(use.tied.begin(), use.tied.end());
    use.tied.erase(std::unique(use.tied.begin(), use.tied.end()), use.tied.end());
  }

  // The child for a call, made when there is none that serves.
  int32_t child_for(int32_t call) {
    UseDraft d = describe(call);
    d.use.path = below(recorded(call).path, recorded(call_).path);
    d.use.tied = tied(call);
    if (d.use.path.empty()) {
      d.use.path = last_part(recorded(call).path);
      tie_all(d.use);
    }
    std::string key = recorded(call).path + " " + d.text;
    for (const Column& column : d.columns) key += " " + to_string(column.value);
    const auto known = child_of_.find(key);
    if (known != child_of_.end()) return known->second;
    Child child;
    child.name = scope_.take(child_names(d.use));
    draft_->text += fmt::format(" has {} {}{}", d.use.path, d.text, ties_of(d.use));
    add_columns(d, child.name);
    child.use = std::move(d.use);
    return child_of_[key] = add_child(std::move(child));
  }

  int32_t add_child(Child child) {
    draft_->children.push_back(std::move(child));
    return static_cast<int32_t>(draft_->children.size()) - 1;
  }

  void add_columns(UseDraft& d, const std::string& owner) {
    shift(d.use, static_cast<int32_t>(draft_->columns.size()));
    for (Column& column : d.columns) column.owner = owner;
    draft_->columns.insert(draft_->columns.end(), d.columns.begin(), d.columns.end());
  }

  std::vector<std::string> child_names(const Use& use) const {
    const std::string last = last_part(use.path);
    if (!is_index(last)) return {member_name(last), member_name(use.path)};
    const std::string list = last_part(all_but_last(use.path));
    if (!list.empty() && !is_index(list)) return {member_name(list + "_" + last), member_name(use.path)};
    const std::string kind = kind_of(use.call);
    const bool in_stage = recorded(call_).class_name == "torch.nn.modules.container.Sequential" && !use.nn;
    if (in_stage && recorded(use.call).path == raw_[0].path) return {"first"};
    const auto alike = std::count_if(raw_.begin(), raw_.end(), [&](const RawStep& other) {
      return other.unit.call >= 0 && is_index(last_part(other.path)) && kind_of(other.unit.call) == kind;
    });
    if (alike == 1) return {kind, kind + "_" + last};
    return {kind + "_" + last};
  }

  std::string kind_of(int32_t call) const {
    const auto& nn = draft(call).nn;
    return nn ? nn->member : member_name(snake_case(last_part(recorded(call).class_name)));
  }

  // ---- lists

  UseDraft element(const Loop& loop, size_t phase, size_t iteration) const {
    const RawStep& step = raw_[loop.begin + iteration * loop.period + phase];
    UseDraft d = describe(step.unit.call);
    d.use.path = below(step.path, recorded(call_).path);
    return d;
  }

  bool is_shared(const Loop& loop, size_t phase) const {
    return raw_[loop.begin + phase].path == raw_[loop.begin + loop.period + phase].path;
  }

  // Can the modules of the loop be lists, with constructor arguments that are equal or lists of numbers?
  bool can_be_lists(const Loop& loop, bool may_vary = true) const {
    std::set<std::pair<size_t, size_t>> varying;
    for (size_t phase = 0; phase < loop.period; ++phase) {
      const UseDraft first = element(loop, phase, 0);
      for (size_t i = 0; i < loop.count; ++i) {
        const UseDraft other = element(loop, phase, i);
        if (is_shared(loop, phase) ? other.use.path != first.use.path : other.use.path.empty()) return false;
        if (!is_shared(loop, phase) && !tied(other.use.call).empty()) return false;
        for (size_t c = 0; c < first.columns.size(); ++c) {
          if (same(first.columns[c].value, other.columns[c].value)) continue;
          const bool is_scalar = std::holds_alternative<int64_t>(first.columns[c].value) ||
                                 std::holds_alternative<double>(first.columns[c].value);
          if (is_shared(loop, phase) || !is_scalar || !first.use.sequence.empty()) return false;
          varying.emplace(phase, c);
        }
      }
    }
    // {64, 128, 256}[i] is read easily, a table of such is not.
    return varying.empty() || (may_vary && varying.size() <= kMostVarying && loop.count >= kFewestThatVary);
  }

  int32_t list_for(const Loop& loop, size_t phase) {
    UseDraft d = element(loop, phase, 0);
    for (size_t i = 0; i < loop.count && !d.use.sequence.empty(); ++i) {
      draft_->listed_sequences.push_back(raw_[loop.begin + i * loop.period + phase].unit.call);
    }
    Child child;
    child.is_list = true;
    const std::string& list = raw_[loop.begin + phase].list;
    child.list_path = list == recorded(call_).path ? std::string() : below(list, recorded(call_).path);
    child.first = raw_[loop.begin + phase].index;
    child.step = raw_[loop.begin + loop.period + phase].index - child.first;
    child.varies.assign(d.use.arguments.size(), false);
    draft_->text += fmt::format(" list {} {} {} {}", child.list_path, child.first, child.step, d.text);
    for (size_t a = 0; a < d.use.arguments.size(); ++a) {
      const int32_t c = d.use.arguments[a].column;
      if (c < 0) continue;
      Attribute all = values_of(loop, phase, static_cast<size_t>(c));
      child.varies[a] = all.index() != d.columns[c].value.index();
      draft_->text += child.varies[a] ? " each" : " same";
      d.use.arguments[a].value = d.columns[c].value = std::move(all);
    }
    const bool is_prefix = child.list_path.ends_with('_');
    const std::string whole = is_prefix ? child.list_path.substr(0, child.list_path.size() - 1) + "s" : child.list_path;
    std::vector<std::string> names{member_name(last_part(whole)), member_name(whole)};
    if (child.list_path.empty()) {  // of the class itself, which is an nn.Sequential
      const std::vector<std::string> words = parts(snake_case(last_part(recorded(d.use.call).class_name)), '_');
      names = {member_name(words.back() + "s"), "layers"};
    }
    if (loop.period > 1) names.push_back(member_name(snake_case(last_part(recorded(d.use.call).class_name)) + "s"));
    child.name = scope_.take(names);
    add_columns(d, child.name);
    child.count = counted(loop, child.name);
    child.use = std::move(d.use);
    return add_child(std::move(child));
  }

  Argument counted(const Loop& loop, const std::string& owner) {
    const Attribute count(static_cast<int64_t>(loop.count));
    draft_->columns.push_back({count, "count", {}, owner});
    return {-1, count, static_cast<int32_t>(draft_->columns.size()) - 1};
  }

  // The value that all elements share, or the list of theirs.
  Attribute values_of(const Loop& loop, size_t phase, size_t column) const {
    Ints integers;
    Numbers numbers;
    bool alike = true;
    const Attribute first = element(loop, phase, 0).columns[column].value;
    for (size_t i = 0; i < loop.count; ++i) {
      const Attribute value = element(loop, phase, i).columns[column].value;
      alike = alike && same(value, first);
      if (const auto* n = std::get_if<int64_t>(&value)) integers.push_back(*n);
      if (const auto* x = std::get_if<double>(&value)) numbers.push_back(*x);
    }
    if (alike) return first;
    return integers.empty() ? Attribute(numbers) : Attribute(integers);
  }

  // ---- steps

  std::string name(ValueId v) {
    const auto known = names_.find(v);
    if (known != names_.end()) return known->second;
    if (const std::string* what = tree_->gap(v)) return names_[v] = "gap " + *what;
    const std::string local = tree_->local_parameter(call_, v);
    if (v == tree_->cache_lengths()) return names_[v] = "lengths";
    if (local.empty()) return names_[v] = fmt::format("?{}", v);
    if (tree_->state(v) && tree_->cache_lengths() != kNoValue) {
      draft_->rows.push_back({rows_scope_.take(member_name(local)), local, v, true});
      return names_[v] = "rows:" + local;
    }
    if (tree_->state(v)) {
      draft_->tensors.push_back({scope_.take(member_name(local)), local, v, true});
      return names_[v] = "s:" + local;
    }
    const bool is_assigned = std::any_of(raw_.begin(), raw_.end(), [&](const RawStep& step) {
      return step.unit.node >= 0 && graph().nodes[step.unit.node].origin.assigned_to == local;
    });  // then the variable has the name
    draft_->tensors.push_back({scope_.take(member_name(is_assigned ? local + "_stored" : local)), local, v});
    return names_[v] = "p:" + local;
  }

  void name_inputs() {
    const CallBody& body = tree_->body(call_);
    Scope names;
    draft_->text += "takes";
    const size_t begin = draft_->text.size();
    for (size_t i = 0; i < body.inputs.size(); ++i) {
      const ValueId v = body.inputs[i];
      visible_.push_back(v);
      names_[v] = "a:" + names.take(body.input_names[i].empty() ? fmt::format("{}", i) : body.input_names[i]);
      draft_->text += " " + names_[v];
    }
    draft_->named.push_back({begin, draft_->text.size(), -1, kNoValue});
  }

  // The value that the next step uses.
  void add_use(ValueId v) {
    draft_->text += ' ';
    const size_t begin = draft_->text.size();
    draft_->text += v == kNoValue ? "_" : name(v);
    draft_->named.push_back({begin, draft_->text.size(), static_cast<int32_t>(draft_->steps.size()), v});
  }

  void define(const Values& results) {
    for (const ValueId v : results) {
      visible_.push_back(v);
      names_.emplace(v, fmt::format("v{}", ++defined_));
    }
  }

  void add_step(const RawStep& raw) {
    Step step;
    draft_->text += '\n';
    if (raw.unit.node >= 0) {
      step.node = raw.unit.node;
      add_node_text(raw.unit.node);
    } else {
      step.kind = Step::Kind::call;
      step.call = raw.unit.call;
      step.child = child_for(raw.unit.call);
      step.arguments = raw.arguments;
      step.results = raw.results;
      draft_->text += fmt::format(" call {}", step.child);
      for (const ValueId v : raw.arguments) add_use(v);
    }
    define(raw.results);
    draft_->steps.push_back(std::move(step));
  }

  void add_loop(const Loop& loop) {
    Step made;
    made.kind = Step::Kind::loop;
    made.carried = loop.carried;
    made.count = {-1, static_cast<int64_t>(loop.count), -1};
    draft_->text += "\nloop";
    for (const Carried& c : loop.carried) {
      draft_->text += " " + name(c.initial);
      visible_.push_back(c.next);
      names_[c.next] = fmt::format("v{}", ++defined_);
    }
    bool has_list = false;
    for (size_t phase = 0; phase < loop.period; ++phase) {
      const RawStep &first = raw_[loop.begin + phase], &second = raw_[loop.begin + loop.period + phase];
      Step step;
      step.kind = Step::Kind::call;
      step.call = first.unit.call;
      has_list = has_list || !is_shared(loop, phase);
      step.child = is_shared(loop, phase) ? child_for(first.unit.call) : list_for(loop, phase);
      step.results = first.results;
      draft_->text += fmt::format(" call {}", step.child);
      for (size_t a = 0; a < first.arguments.size(); ++a) {
        const bool is_carried = std::any_of(loop.carried.begin(), loop.carried.end(),
                                            [&](const Carried& c) { return c.next == second.arguments[a]; });
        step.arguments.push_back(is_carried ? second.arguments[a] : first.arguments[a]);
        draft_->text += " " + (step.arguments.back() == kNoValue ? "_" : name(step.arguments.back()));
      }
      define(first.results);
      made.body.push_back(std::move(step));
    }
    if (!has_list) made.count = counted(loop, "loop");
    for (const Carried& c : loop.carried) {
      names_[c.final] = names_[c.next];
      visible_.push_back(c.final);
    }
    draft_->steps.push_back(std::move(made));
  }

  void add_node_text(size_t n) {
    const Node& node = graph().nodes[n];
    draft_->text += " " + node.op->name;
    for (size_t i = 0; i < tree_->implicit().operand_count(n); ++i) {
      const Operand& operand = tree_->implicit().operand(n, i);
      if (const ValueId* v = std::get_if<ValueId>(&operand)) {
        add_use(*v);
        continue;
      }
      draft_->text += ' ';
      if (const Dim* d = std::get_if<Dim>(&operand)) {
        add_dim(*d, {{}, "size", Place{static_cast<int32_t>(n), fmt::format("operand {}", i), -1}, {}});
      } else {
        add_attribute(n, fmt::format("operand {}", i), attribute(std::get<Scalar>(operand)));
      }
    }
    for (const auto& [key, value] : node.attributes) {
      draft_->text += fmt::format(" {}=", key);
      add_attribute(n, key, value);
    }
    for (const Graph& region : node.regions) {  // by its types and ops; regions are written out, so equal ones are enough
      for (const Node& inner : region.nodes) {
        draft_->text += fmt::format(" {}", inner.op->name);
        for (const ValueId v : inner.operands) draft_->text += fmt::format(" %{}", v);
        for (const auto& [key, value] : inner.attributes) draft_->text += fmt::format(" {}={}", key, to_string(value));
      }
    }
  }

  void add_attribute(size_t n, const std::string& key, const Attribute& value) {
    const Place whole{static_cast<int32_t>(n), key, -1};
    if (const Dim* d = std::get_if<Dim>(&value)) return add_dim(*d, {{}, key, whole, {}});
    if (const Dims* dims = std::get_if<Dims>(&value)) {
      draft_->text += '[';
      for (size_t i = 0; i < dims->size(); ++i) {
        add_dim((*dims)[i], {{}, key, Place{static_cast<int32_t>(n), key, static_cast<int32_t>(i)}, {}});
        draft_->text += ',';
      }
      draft_->text += ']';
      return;
    }
    const bool switches = tree_->layers().has_switches && is_switch(key, value);
    if (switches || (is_number(value) && !is_structural(key))) {
      add_number(value, {{}, key.starts_with("operand") ? "value" : key, whole, {}}, draft_->text, draft_->columns);
    } else {
      draft_->text += to_string(value);
    }
  }

  void add_dim(Dim d, Column column) {
    if (d.is_number()) return add_number(Attribute(d.number()), std::move(column), draft_->text, draft_->columns);
    const auto said = write_dim(
        d, graph(), visible_, [&](ValueId v, size_t axis) { return fmt::format("{}.{}", name(v), axis); },
        [&](const std::string& symbol) { return tree_->binds(call_, symbol); });
    draft_->text += said ? *said : d.text();
  }

  const CallTree* tree_;
  int32_t call_;
  std::vector<Draft>* drafts_;
  const std::vector<ModuleClass>* classes_;
  Draft* draft_;
  std::vector<RawStep> raw_;
  Scope scope_, rows_scope_;
  std::map<std::string, int32_t> child_of_;
  std::map<ValueId, std::string> names_;
  Values visible_;
  size_t defined_ = 0;
};

}  // namespace

void write_draft(const CallTree& tree, int32_t call, std::vector<Draft>& drafts, const std::vector<ModuleClass>& classes) {
  DraftWriter(tree, call, drafts, classes).write();
}

}  // namespace pycandle::emit
