// From a flat program to classes: calls become drafts from the inside out, drafts with equal texts become classes, and
// the numbers in which their calls differ become fields.
#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <utility>

#include "emit/class_names.h"
#include "emit/config.h"
#include "emit/draft.h"
#include "emit/names.h"
#include "emit/unify.h"

namespace pycandle::emit {
namespace {

// Sizes that mean "how wide": one number for all of them, where they agree in every instance.
bool is_width(const std::string& name) {
  static const std::set<std::string> names{"groups",        "in_features",  "out_features",     "in_channels",
                                           "out_channels",  "num_features", "normalized_shape", "num_channels",
                                           "embedding_dim", "hidden_size",  "input_size"};
  return names.count(name) != 0;
}

class Recovery {
 public:
  Recovery(const Program& p, CallTree& tree) : p_(&p), tree_(&tree), drafts_(p.calls.size()) {}

  // Whether a sequence is an element of a list is known only where the list is found: then it is done again.
  std::vector<ModuleClass> classes() {
    for (std::set<int32_t> listed;;) {
      std::vector<ModuleClass> found = attempt();
      const size_t known = listed.size();
      for (const Draft& d : drafts_) listed.insert(d.listed_sequences.begin(), d.listed_sequences.end());
      if (listed.size() == known) return found;
      drafts_.assign(p_->calls.size(), {});
      classes_.clear();
      for (const int32_t call : listed) draft(call).is_listed = true;
    }
  }

 private:
  Draft& draft(int32_t call) { return drafts_[call]; }

  std::vector<ModuleClass> attempt() {
    keep_only_calls_with_sizes();
    const std::vector<int32_t> calls = tree_->depth_first();
    int32_t highest = 0;
    for (const int32_t call : calls) highest = std::max(highest, set_level(call));
    for (int32_t level = 0; level <= highest; ++level) {
      std::vector<int32_t> here;
      for (auto call = calls.rbegin(); call != calls.rend(); ++call) {
        if (draft(*call).level == level) here.push_back(*call);
      }
      for (const int32_t call : here) {
        if (!draft(call).nn) write_draft(*tree_, call, drafts_, classes_);
        draft(call).arguments = tree_->body(call).inputs;
        draft(call).ready = true;
      }
      group(here);
    }
    name_classes(*p_, classes_);
    return std::move(classes_);
  }

  // A call whose sizes cannot be said in terms of what it is given is no function of it.
  void keep_only_calls_with_sizes() {
    for (bool again = true; again;) {
      again = false;
      for (const int32_t call : tree_->depth_first()) {
        const auto unsaid = nn_module(*tree_, call) ? std::nullopt : unsaid_size(*tree_, call);
        const int32_t hidden = unsaid ? tree_->hidden_binder(*unsaid, call) : -1;
        if (!unsaid || (call == 0 && hidden < 0)) continue;
        if (hidden >= 0) {
          tree_->inline_call(hidden, "a size that its data decides is used elsewhere");
        } else {
          tree_->inline_call(call, "it uses a size that none of its arguments has");
        }
        again = true;
        break;
      }
    }
  }

  int32_t set_level(int32_t call) {
    Draft& d = draft(call);
    d.nn = nn_module(*tree_, call);
    if (d.nn) return d.level = 0;
    d.level = 1;
    for (const Unit& unit : tree_->body(call).units) {
      if (unit.call >= 0) d.level = std::max(d.level, draft(unit.call).level + 1);
    }
    return d.level;
  }

  void group(const std::vector<int32_t>& calls) {
    std::map<std::string, std::vector<int32_t>> by_text;
    std::vector<std::string> order;
    for (const int32_t call : calls) {
      const Draft& d = draft(call);
      if (d.nn || d.is_sequence || d.is_repetition) continue;
      auto& same_class = by_text[d.text];
      if (same_class.empty()) order.push_back(d.text);
      same_class.push_back(call);
    }
    std::vector<std::vector<int32_t>> groups;
    for (const std::string& text : order) groups.push_back(by_text[text]);
    for (const ClassOfCalls& c : unified(*tree_, drafts_, groups)) make_class(c);
  }

  void make_class(const ClassOfCalls& all) {
    const std::vector<int32_t>& calls = all.calls;
    Draft& first = draft(calls[0]);
    const ModuleCall& recorded = p_->calls[calls[0]];
    const CallBody& body = tree_->body(calls[0]);
    ModuleClass made;
    made.call = calls[0];
    made.python_class = recorded.class_name;
    made.file_line = p_->file_line({.call = -1, .file = recorded.class_file, .line = recorded.class_line, .assigned_to = {}});
    std::set<std::string> paths;
    for (const int32_t call : calls) paths.insert(p_->calls[call].path);
    made.instances = static_cast<int64_t>(paths.size());
    made.tensors = first.tensors;
    std::stable_partition(made.tensors.begin(), made.tensors.end(), [](const TensorField& t) { return !t.is_state; });
    made.rows = first.rows;
    made.updates = first.updates;
    made.children = first.children;
    made.steps = first.steps;
    made.inputs = body.inputs;
    made.outputs = body.outputs;
    made.input_names = body.input_names;
    made.output_names = body.output_names;
    made.left_out = all.left_out;
    const std::vector<int32_t> fields = find_fields(calls, made);
    for (size_t c = 0; c < fields.size(); ++c) {
      if (fields[c] >= 0 && first.columns[c].place) made.places[*first.columns[c].place] = fields[c];
    }
    for (Child& child : made.children) {
      resolve(child.use, fields);
      resolve(child.count, fields);
    }
    for (Step& step : made.steps) resolve(step.count, fields);
    for (const int32_t call : calls) draft(call).module_class = static_cast<int32_t>(classes_.size());
    classes_.push_back(std::move(made));
  }

  static void resolve(Argument& a, const std::vector<int32_t>& fields) {
    if (a.column >= 0) a.field = fields[a.column];
  }
  static void resolve(Use& use, const std::vector<int32_t>& fields) {
    for (Argument& a : use.arguments) resolve(a, fields);
    for (Use& part : use.sequence) resolve(part, fields);
  }

  // For each column the field that it is, or -1 when all instances agree. Fills the class's numbers and those of each draft.
  std::vector<int32_t> find_fields(const std::vector<int32_t>& calls, ModuleClass& made) {
    const std::vector<Column>& columns = draft(calls[0]).columns;
    std::vector<int32_t> field_of(columns.size(), -1);
    std::vector<size_t> column_of;  // of each field, the column that gave it
    const auto value = [&](int32_t call, size_t c) -> const Attribute& { return draft(call).columns[c].value; };
    const auto equal_columns = [&](size_t a, size_t b) {
      return std::all_of(calls.begin(), calls.end(), [&](int32_t call) { return same(value(call, a), value(call, b)); });
    };
    for (size_t c = 0; c < columns.size(); ++c) {
      const bool alike = std::all_of(calls.begin(), calls.end(),
                                     [&](int32_t call) { return same(value(call, c), value(calls[0], c)); });
      if (alike && !differs_by_half(*p_, calls, columns[c].name, columns[c].value)) continue;
      for (size_t f = 0; f < column_of.size() && field_of[c] < 0; ++f) {
        const std::string &mine = columns[c].name, &other = columns[column_of[f]].name;
        const bool may_share = mine == other || (is_width(mine) && is_width(other));
        if (may_share && equal_columns(c, column_of[f])) field_of[c] = static_cast<int32_t>(f);
      }
      if (field_of[c] >= 0) continue;
      field_of[c] = static_cast<int32_t>(column_of.size());
      column_of.push_back(c);
    }
    std::vector<std::set<std::string>> said(column_of.size());  // all that a field is called where it is used
    for (size_t c = 0; c < columns.size(); ++c) {
      if (field_of[c] >= 0) said[field_of[c]].insert(columns[c].name);
    }
    Scope scope;
    for (const TensorField& t : made.tensors) scope.reserve(t.name);
    for (const Child& child : made.children) scope.reserve(child.name);
    for (size_t f = 0; f < column_of.size(); ++f) {
      const size_t c = column_of[f];
      std::vector<std::string> names = field_names(calls, c);
      for (const char* width : {"channels", "features"}) {
        const std::string what = width;
        if (said[f].count("in_" + what) == 0 || said[f].count("out_" + what) == 0) continue;
        names.insert(names.begin(), {what, "hidden_" + what});
      }
      made.numbers.push_back({scope.take(names), columns[c].value});
      for (const int32_t call : calls) draft(call).numbers.push_back(value(call, c));
    }
    return field_of;
  }

  // Python's own name for the number: a scalar attribute of the module that has its value in every instance.
  std::vector<std::string> field_names(const std::vector<int32_t>& calls, size_t c) {
    const Column& column = draft(calls[0]).columns[c];
    std::vector<std::string> names;
    for (const std::string& name : attribute_names(*tree_, drafts_, calls, c)) names.push_back(member_name(name));
    const auto own = std::find(names.begin(), names.end(), member_name(column.name));
    if (own != names.end()) std::iter_swap(names.begin(), own);
    names.push_back(member_name(column.name));
    if (!column.owner.empty()) names.push_back(identifier(column.owner + "_" + column.name));
    return names;
  }

  const Program* p_;
  CallTree* tree_;
  std::vector<Draft> drafts_;
  std::vector<ModuleClass> classes_;
};

// Of a language without activations as modules.
void write_plain_modules_out(CallTree& tree) {
  if (tree.layers().has_plain) return;
  for (const int32_t call : tree.depth_first()) {
    if (is_plain(tree, call)) tree.inline_call(call, {});
  }
}

}  // namespace

ModelTree recover(Program program, const OpTable& table, Layers layers) {
  if (program.calls.empty()) {  // a program that was written by hand
    ModuleCall root;
    root.class_name = program.name;
    program.calls.push_back(root);
  }
  ModelTree tree;
  auto p = std::make_shared<const Program>(std::move(program));
  auto implicit = std::make_shared<const Implicit>(*p, table);
  auto calls = std::make_shared<CallTree>(*p, *implicit, std::move(layers));
  write_plain_modules_out(*calls);
  tree.classes = Recovery(*p, *calls).classes();
  tree.notes = calls->notes();
  tree.program = std::move(p);
  tree.implicit = std::move(implicit);
  tree.calls = std::move(calls);
  find_config(tree);
  return tree;
}

}  // namespace pycandle::emit
