#include "emit/cpp/split.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <optional>

#include "emit/cpp/text.h"

namespace pycandle::emit::cpp {
namespace {

constexpr size_t kShortestPart = 12, kLongestPart = 45;

bool is_word(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }

// Statements that stay together: one, or a loop or a function with all that is in it.
struct Unit {
  size_t begin = 0, end = 0, lines = 0;
  std::vector<std::string> uses;                 // every word in it that could be a variable
  std::vector<std::string> declares, assigns;    // tensors
  bool is_const = false;                         // what it declares is
  bool is_function = false;
  std::vector<std::string> others;               // declared, and no tensors: sizes and functions
};

// The words of a statement, without members, names in namespaces, fields and strings.
std::vector<std::string> words(const std::string& text) {
  std::vector<std::string> found;
  for (size_t i = 0; i < text.size();) {
    if (text[i] == '"') {
      for (++i; i < text.size() && text[i] != '"'; ++i) i += text[i] == '\\' ? 1 : 0;
      ++i;
      continue;
    }
    if (!is_word(text[i])) {
      ++i;
      continue;
    }
    const size_t begin = i;
    while (i < text.size() && is_word(text[i])) ++i;
    const char before = begin == 0 ? ' ' : text[begin - 1];
    if (before != '.' && before != ':') found.push_back(text.substr(begin, i - begin));
  }
  return found;
}

std::vector<std::string> names_between(const std::string& text, const char* open, char close) {
  const size_t from = text.find(open) + std::string_view(open).size();
  return words(text.substr(from, text.find(close, from) - from));
}

void read(const std::string& statement, Unit& unit) {
  const std::string text = statement.substr(statement.find_first_not_of(' '));
  const bool is_inside = text.size() != statement.size();
  const bool sees_nothing = unit.is_function || text.find(" = [](const Tensors&") != std::string::npos;
  unit.is_function = sees_nothing;  // it has names of its own
  for (std::string& word : words(text)) {
    if (!sees_nothing) unit.uses.push_back(std::move(word));
  }
  const auto declared = [&](const char* start) -> std::optional<std::string> {
    if (is_inside || !text.starts_with(start)) return {};
    return words(text.substr(std::string_view(start).size()))[0];
  };
  if (const auto constant = declared("const Tensor ")) {
    unit.declares.push_back(*constant);
    unit.is_const = true;
  } else if (const auto variable = declared("Tensor ")) {
    unit.declares.push_back(*variable);
  } else if (!is_inside && text.starts_with("auto [")) {
    unit.declares = names_between(text, "[", ']');
  } else if (const auto size = declared("const Dim ")) {
    unit.others.push_back(*size);
  } else if (const auto function = declared("const auto ")) {
    unit.others.push_back(*function);
  } else {
    const std::string body = text.starts_with("for (") ? text.substr(std::min(text.find(") ") + 2, text.size())) : text;
    const size_t sign = body.find(" = ");
    if (body.starts_with("std::tie(")) {
      for (std::string& name : names_between(body, "(", ')')) unit.assigns.push_back(std::move(name));
    } else if (sign != std::string::npos && std::all_of(body.begin(), body.begin() + static_cast<int64_t>(sign), is_word)) {
      unit.assigns.push_back(body.substr(0, sign));
    }
  }
}

class Splitter {
 public:
  Splitter(Forward& forward, std::set<std::string> taken) : forward_(&forward), taken_(std::move(taken)) {
    for (size_t s = 0; s < forward.statements.size();) {
      Unit unit{.begin = s,
                .end = s + 1,
                .lines = 0,
                .uses = {},
                .declares = {},
                .assigns = {},
                .is_const = false,
                .is_function = false,
                .others = {}};
      if (forward.statements[s].ends_with('{')) {
        while (forward.statements[unit.end][0] != '}') ++unit.end;
        ++unit.end;
      }
      for (; s < unit.end; ++s) {
        read(forward.statements[s], unit);
        const std::string text = wrapped(forward.statements[s], 4, 8);
        unit.lines += static_cast<size_t>(std::count(text.begin(), text.end(), '\n'));
      }
      units_.push_back(std::move(unit));
    }
    for (const std::string& parameter : forward.parameters) {
      if (parameter.ends_with("& cache") && !parameter.ends_with("Tensor& cache")) cache_ = parameter;
      if (parameter.find("/*") == std::string::npos) tensors_.insert(words(parameter).back());
    }
    for (const Unit& unit : units_) tensors_.insert(unit.declares.begin(), unit.declares.end());
    for (Unit& unit : units_) {  // states are members: every part sees them
      std::erase_if(unit.assigns, [&](const std::string& name) { return tensors_.count(name) == 0; });
    }
  }

  std::vector<Helper> split() {
    std::vector<std::string> calls;
    while (lines_from(begin_) + calls.size() > kLongestFunction) {
      const auto end = best_cut();
      if (!end) break;
      helpers_.push_back(helper(*end, calls));
      begin_ = *end;
    }
    if (helpers_.empty()) return {};
    calls.insert(calls.end(), forward_->statements.begin() + static_cast<int64_t>(units_[begin_].begin),
                 forward_->statements.end());
    forward_->statements = std::move(calls);
    return std::move(helpers_);
  }

 private:
  using Names = std::vector<std::string>;

  static void add(Names& names, const std::string& name) {
    if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
  }

  size_t lines_from(size_t unit) const {
    size_t lines = 0;
    for (size_t u = unit; u < units_.size(); ++u) lines += units_[u].lines;
    return lines;
  }

  // What the units from begin_ to end give to those after them; nothing when something else than tensors would cross.
  std::optional<Names> given(size_t end) const {
    Names made;
    std::set<std::string> others;
    for (size_t u = begin_; u < end; ++u) {
      for (const Names* names : {&units_[u].declares, &units_[u].assigns}) {
        for (const std::string& name : *names) add(made, name);
      }
      others.insert(units_[u].others.begin(), units_[u].others.end());
    }
    std::set<std::string> later;
    for (size_t u = end; u < units_.size(); ++u) later.insert(units_[u].uses.begin(), units_[u].uses.end());
    if (std::any_of(others.begin(), others.end(), [&](const std::string& name) { return later.count(name) != 0; })) return {};
    made.erase(std::remove_if(made.begin(), made.end(), [&](const std::string& name) { return later.count(name) == 0; }),
               made.end());
    return made;
  }

  std::optional<size_t> best_cut() const {
    std::optional<size_t> best;
    size_t fewest = 0, lines = 0;
    for (size_t end = begin_ + 1; end < units_.size(); ++end) {
      lines += units_[end - 1].lines;
      if (lines > kLongestPart && best) break;
      const auto names = given(end);
      if (lines < kShortestPart || !names || names->empty()) continue;
      if (best && names->size() > fewest) continue;  // of equal ones the last
      best = end;
      fewest = names->size();
      if (lines > kLongestPart) break;
    }
    return best;
  }

  Helper helper(size_t end, std::vector<std::string>& calls) {
    Helper made;
    Names inputs, inside;
    std::set<std::string> assigned;
    for (size_t u = begin_; u < end; ++u) {
      for (const std::string& name : units_[u].uses) {
        const bool is_own = std::find(inside.begin(), inside.end(), name) != inside.end() ||
                            std::find(units_[u].declares.begin(), units_[u].declares.end(), name) != units_[u].declares.end();
        if (!is_own && tensors_.count(name) != 0) add(inputs, name);
      }
      inside.insert(inside.end(), units_[u].declares.begin(), units_[u].declares.end());
      assigned.insert(units_[u].assigns.begin(), units_[u].assigns.end());
    }
    for (const std::string& name : inputs) {
      if (name == "cache" && !cache_.empty()) {
        made.body.parameters.push_back(cache_);
        continue;
      }
      made.body.parameters.push_back((assigned.count(name) != 0 ? "Tensor " : "const Tensor& ") + name);
    }
    made.body.statements.assign(forward_->statements.begin() + static_cast<int64_t>(units_[begin_].begin),
                                forward_->statements.begin() + static_cast<int64_t>(units_[end].begin));
    const Names results = *given(end);
    made.name = fresh("compute_" + results[0] + (results.size() > 1 ? "_and_" + results[1] : ""));
    made.result = results.size() == 1 ? "Tensor" : fmt::format("std::tuple<{}>", joined(Names(results.size(), "Tensor")));
    made.body.statements.push_back(results.size() == 1 ? fmt::format("return {};", results[0])
                                                       : fmt::format("return {{{}}};", joined(results)));
    add_call(made.name + "(" + joined(inputs) + ")", results, inside, end, calls);
    return made;
  }

  // const Tensor x = f(y);   x = f(x);   auto [x, y] = f(z);
  void add_call(const std::string& call, const Names& results, const Names& declared, size_t end,
                std::vector<std::string>& calls) {
    const auto is_new = [&](const std::string& name) {
      return std::find(declared.begin(), declared.end(), name) != declared.end();
    };
    const auto fresh_ones = static_cast<size_t>(std::count_if(results.begin(), results.end(), is_new));
    if (results.size() == 1) {
      const char* type = fresh_ones == 0 ? "" : is_assigned_after(results[0], end) ? "Tensor " : "const Tensor ";
      calls.push_back(fmt::format("{}{} = {};", type, results[0], call));
    } else if (fresh_ones == results.size()) {
      calls.push_back(fmt::format("auto [{}] = {};", joined(results), call));
    } else {
      for (const std::string& name : results) {
        if (is_new(name)) calls.push_back(fmt::format("Tensor {};", name));
      }
      calls.push_back(fmt::format("std::tie({}) = {};", joined(results), call));
    }
  }

  bool is_assigned_after(const std::string& name, size_t end) const {
    for (size_t u = end; u < units_.size(); ++u) {
      if (std::find(units_[u].assigns.begin(), units_[u].assigns.end(), name) != units_[u].assigns.end()) return true;
    }
    return false;
  }

  std::string fresh(const std::string& name) {
    std::string chosen = name;
    for (int number = 2; !taken_.insert(chosen).second; ++number) chosen = fmt::format("{}_{}", name, number);
    return chosen;
  }

  Forward* forward_;
  std::string cache_;  // "Cache& cache", of a decode step
  std::set<std::string> taken_, tensors_;
  std::vector<Unit> units_;
  std::vector<Helper> helpers_;
  size_t begin_ = 0;
};

}  // namespace

std::vector<Helper> split_long(Forward& forward, std::set<std::string> taken) {
  return Splitter(forward, std::move(taken)).split();
}

}  // namespace pycandle::emit::cpp
