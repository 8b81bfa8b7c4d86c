#include "emit/unify.h"

#include <algorithm>
#include <optional>

namespace pycandle::emit {
namespace {

bool is_switch(const Column& column) { return std::holds_alternative<bool>(column.value); }

class Unifier {
 public:
  Unifier(const CallTree& tree, std::vector<Draft>& drafts) : tree_(&tree), drafts_(&drafts) {}

  std::vector<ClassOfCalls> unified(const std::vector<std::vector<int32_t>>& groups) {
    std::vector<ClassOfCalls> classes;
    for (const std::vector<int32_t>& group : groups) {
      for (std::vector<int32_t>& calls : with_explained_switches(group)) classes.push_back({std::move(calls), {}});
    }
    if (!tree_->layers().has_switches) return classes;
    // A class that takes more arguments takes in those that take fewer.
    std::vector<size_t> order(classes.size());
    for (size_t i = 0; i < order.size(); ++i) order[i] = i;
    std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return inputs(classes[a]) > inputs(classes[b]); });
    std::vector<bool> is_taken(classes.size(), false);
    for (const size_t whole : order) {
      for (const size_t part : order) {
        if (whole == part || is_taken[whole] || is_taken[part] || inputs(classes[part]) > inputs(classes[whole])) continue;
        is_taken[part] = take_in(classes[whole], classes[part]);
      }
    }
    std::vector<ClassOfCalls> left;
    for (size_t i = 0; i < classes.size(); ++i) {
      if (!is_taken[i]) left.push_back(std::move(classes[i]));
    }
    return left;
  }

 private:
  Draft& draft(int32_t call) const { return (*drafts_)[call]; }
  const CallBody& body(int32_t call) const { return tree_->body(call); }
  const ModuleCall& recorded(int32_t call) const { return tree_->program().calls[call]; }
  size_t inputs(const ClassOfCalls& c) const { return body(c.calls[0]).inputs.size(); }

  // Calls whose switches differ without an attribute of Python's that says so are calls of several classes.
  std::vector<std::vector<int32_t>> with_explained_switches(const std::vector<int32_t>& calls) const {
    const std::optional<size_t> column = unexplained_switch(calls);
    if (!column) return {calls};
    std::vector<int32_t> sides[2];
    for (const int32_t call : calls) sides[std::get<bool>(draft(call).columns[*column].value) ? 1 : 0].push_back(call);
    std::vector<std::vector<int32_t>> found;
    for (const std::vector<int32_t>& side : sides) {
      for (std::vector<int32_t>& part : with_explained_switches(side)) found.push_back(std::move(part));
    }
    return found;
  }

  std::optional<size_t> unexplained_switch(const std::vector<int32_t>& calls) const {
    const std::vector<Column>& columns = draft(calls[0]).columns;
    for (size_t c = 0; c < columns.size(); ++c) {
      const auto differs = [&](int32_t call) { return !same(draft(call).columns[c].value, columns[c].value); };
      if (!is_switch(columns[c]) || std::none_of(calls.begin(), calls.end(), differs)) continue;
      if (attribute_names(*tree_, *drafts_, calls, c).empty()) return c;
    }
    return {};
  }

  // The text without the values that it names: of two calls of one class only those may differ.
  static std::string form(const Draft& d) {
    std::string text;
    size_t at = 0;
    for (const NamedValue& named : d.named) {
      text.append(d.text, at, named.begin - at).append("%");
      at = named.end;
    }
    return text.append(d.text, at);
  }

  static std::string token(const Draft& d, const NamedValue& at) { return d.text.substr(at.begin, at.end - at.begin); }

  // What Python passes for an argument by that name; kNoValue when it passes nothing.
  ValueId passed(int32_t call, const std::string& name) const {
    const Values& taken = body(call).inputs;
    const auto& names = body(call).input_names;
    const auto own = std::find(names.begin(), names.end(), name);
    if (own != names.end()) return taken[own - names.begin()];
    for (const auto& [argument, tree] : recorded(call).args) {
      const bool is_taken = argument == name && tree.kind == Tree::Kind::value &&
                            std::find(taken.begin(), taken.end(), tree.value) != taken.end();
      if (is_taken) return tree.value;
    }
    return kNoValue;
  }

  bool may_differ(int32_t call) const {
    return draft(call).updates.empty() && draft(call).rows.empty() && !tree_->uses_cache(call);
  }

  // Makes the calls of `part` calls of `whole`, when they differ in nothing but arguments that are left out, or given twice.
  bool take_in(ClassOfCalls& whole, const ClassOfCalls& part) {
    const int32_t w = whole.calls[0], p = part.calls[0];
    if (recorded(w).class_name != recorded(p).class_name || !may_differ(w) || !may_differ(p) || w == 0 || p == 0) return false;
    const Draft &dw = draft(w), &dp = draft(p);
    if (dw.named.size() != dp.named.size() || dw.columns.size() != dp.columns.size() || form(dw) != form(dp)) return false;
    const std::vector<std::string>& known = body(w).input_names;
    for (const std::string& name : known) {
      if (name.empty() || std::count(known.begin(), known.end(), name) > 1) return false;  // not one of Python's arguments
    }
    for (const std::string& name : body(p).input_names) {
      if (std::find(known.begin(), known.end(), name) == known.end()) return false;
    }
    std::map<ValueId, ValueId> left_out = whole.left_out;
    for (size_t i = 0; i < dw.named.size(); ++i) {
      if (dw.named[i].step >= 0 && !explains(w, p, i, left_out)) return false;
    }
    std::vector<int32_t> all = whole.calls;
    all.insert(all.end(), part.calls.begin(), part.calls.end());
    if (unexplained_switch(all)) return false;
    for (const int32_t call : part.calls) {
      draft(call).arguments.clear();
      for (const std::string& name : body(w).input_names) draft(call).arguments.push_back(passed(call, name));
    }
    whole = {std::move(all), std::move(left_out)};
    return true;
  }

  // Why does the i-th named value of the two texts differ?
  bool explains(int32_t w, int32_t p, size_t i, std::map<ValueId, ValueId>& left_out) const {
    const Draft &dw = draft(w), &dp = draft(p);
    const std::string mine = token(dw, dw.named[i]), theirs = token(dp, dp.named[i]);
    const Values& inputs = body(w).inputs;
    const auto input = std::find(inputs.begin(), inputs.end(), dw.named[i].value);
    if (input == inputs.end()) return mine == theirs;
    const ValueId given = passed(p, body(w).input_names[input - inputs.begin()]);
    if (given != kNoValue) return given == dp.named[i].value;
    const ValueId instead = theirs == "_" ? kNoValue : value_named(dw, theirs);
    if (theirs != "_" && instead == kNoValue) return false;
    return left_out.emplace(*input, instead).first->second == instead;
  }

  // An input or a parameter: what is there before the first step.
  ValueId value_named(const Draft& d, const std::string& name) const {
    if (!name.starts_with("a:") && !name.starts_with("p:")) return kNoValue;
    for (const NamedValue& at : d.named) {
      if (at.step >= 0 && token(d, at) == name) return at.value;
    }
    return kNoValue;
  }

  const CallTree* tree_;
  std::vector<Draft>* drafts_;
};

}  // namespace

std::vector<ClassOfCalls> unified(const CallTree& tree, std::vector<Draft>& drafts,
                                  const std::vector<std::vector<int32_t>>& groups) {
  return Unifier(tree, drafts).unified(groups);
}

std::vector<std::string> attribute_names(const CallTree& tree, const std::vector<Draft>& drafts,
                                         const std::vector<int32_t>& calls, size_t column) {
  const auto& recorded = tree.program().calls;
  std::vector<std::string> names;
  for (const auto& [name, unused] : recorded[calls[0]].attributes) {
    const auto agrees = [&, &name = name](int32_t call) {
      for (const auto& [key, literal] : recorded[call].attributes) {
        if (key != name) continue;
        const Attribute& value = drafts[call].columns[column].value;
        if (const auto* b = std::get_if<bool>(&literal)) return same(Attribute(*b), value);
        if (const auto* n = std::get_if<int64_t>(&literal)) return same(Attribute(*n), value);
        if (const auto* x = std::get_if<double>(&literal)) return same(Attribute(*x), value);
      }
      return false;
    };
    if (std::all_of(calls.begin(), calls.end(), agrees)) names.push_back(name);
  }
  return names;
}

}  // namespace pycandle::emit
