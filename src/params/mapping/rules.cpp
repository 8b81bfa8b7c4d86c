#include "params/mapping/rules.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <set>

#include "base/error.h"
#include "params/checkpoints/byte_reader.h"
#include "params/mapping/functions.h"

namespace pycandle {
namespace {

constexpr std::string_view kPlain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._/-:{}*+[]$@";

bool is_number_text(std::string_view text) {
  double value = 0;
  const auto read = std::from_chars(text.data(), text.data() + text.size(), value);
  return read.ec == std::errc() && read.ptr == text.data() + text.size();
}
// It can stand in a rule without quotes.
bool is_plain(std::string_view name) {
  return !name.empty() && name.find_first_not_of(kPlain) == std::string_view::npos && !is_number_text(name);
}
std::string written(const std::string& name) { return is_plain(name) ? name : fmt::format("\"{}\"", name); }

// ---- reading

class Parser {
 public:
  Parser(std::string_view line, int number, const std::string& file) : text_(line), number_(number), file_(file) {}

  Rule rule() {
    Rule r;
    r.line = number_;
    r.target = name();
    if (!take('=')) throw bad("a rule is: parameter = tensor");
    r.source = expression(0);
    skip();
    if (at_ < text_.size() && text_[at_] == '#') {
      r.note = text_.substr(at_ + 1);
      r.note.erase(0, r.note.find_first_not_of(' '));
    } else if (at_ < text_.size()) {
      throw bad("this stands behind the rule");
    }
    check_placeholders(r);
    return r;
  }
  bool is_empty() {
    skip();
    return at_ == text_.size() || text_[at_] == '#';
  }

 private:
  static constexpr int kDeepest = 16;

  Error bad(const std::string& what) const {
    return Error(ErrorCode::bad_input, fmt::format("{}:{}: {}", file_, number_, what)).found(shown_text(text_.substr(at_)));
  }
  void skip() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\t' || text_[at_] == '\r')) ++at_;
  }
  bool take(char c) {
    skip();
    if (at_ >= text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }
  std::string name() {
    skip();
    if (at_ < text_.size() && text_[at_] == '"') {
      const size_t end = text_.find('"', at_ + 1);
      if (end == std::string_view::npos) throw bad("the quotes are not closed");
      const std::string found(text_.substr(at_ + 1, end - at_ - 1));
      at_ = end + 1;
      return found;
    }
    const size_t end = std::min(text_.find_first_not_of(kPlain, at_), text_.size());
    if (end == at_) throw bad("a name is missing");
    const std::string found(text_.substr(at_, end - at_));
    at_ = end;
    return found;
  }
  std::optional<double> number() {
    skip();
    double value = 0;
    const auto read = std::from_chars(text_.data() + at_, text_.data() + text_.size(), value);
    const bool ends = read.ptr == text_.data() + text_.size() ||
                      std::string_view(" ,)#").find(*read.ptr) != std::string_view::npos;
    if (read.ec != std::errc() || !ends) return std::nullopt;
    at_ = static_cast<size_t>(read.ptr - text_.data());
    return value;
  }
  SourceExpr expression(int depth) {
    if (depth > kDeepest) throw bad("functions are nested too deeply");
    std::string first = name();
    if (!take('(')) return SourceExpr::tensor(std::move(first));
    SourceExpr call = SourceExpr::call(std::move(first), {});
    do {
      if (const auto value = number()) {
        call.numbers.push_back(*value);
      } else if (call.numbers.empty()) {
        call.operands.push_back(expression(depth + 1));
      } else {
        throw bad("tensors stand before numbers");
      }
    } while (take(','));
    if (!take(')')) throw bad("the parenthesis is not closed");
    if (const std::string problem = problem_with(call); !problem.empty()) throw bad(problem);
    return call;
  }
  void check_placeholders(const Rule& r) const {
    std::vector<std::string> names;
    r.source.collect(names);
    for (const std::string& n : names) {
      for (size_t at = 0; (at = n.find_first_of("{*", at)) != std::string::npos; ++at) {
        const std::string placeholder = n[at] == '*' ? "*" : n.substr(at, n.find('}', at) - at + 1);
        if (r.target.find(placeholder) == std::string::npos)
          throw bad(fmt::format("{} does not stand in the parameter's name", placeholder));
      }
    }
  }

  std::string_view text_;
  int number_;
  const std::string& file_;
  size_t at_ = 0;
};

// ---- matching

using Values = std::map<std::string, std::string, std::less<>>;

bool is_number(std::string_view text) { return !text.empty() && text.find_first_not_of("0123456789") == std::string_view::npos; }

// {n}, {m}, {k} and the like (one letter) are numbers; longer ones any text without a dot; * is any text.
bool fits(std::string_view pattern, std::string_view name, Values& values) {
  if (pattern.empty()) return name.empty();
  const bool is_star = pattern[0] == '*';
  const size_t close = pattern[0] == '{' ? pattern.find('}') : std::string_view::npos;
  if (!is_star && close == std::string_view::npos) {
    return !name.empty() && name[0] == pattern[0] && fits(pattern.substr(1), name.substr(1), values);
  }
  const std::string key(is_star ? pattern.substr(0, 1) : pattern.substr(0, close + 1));
  const std::string_view rest = pattern.substr(key.size());
  const auto known = values.find(key);
  for (size_t length = name.size() + 1; length-- > (is_star ? 0U : 1U);) {
    const std::string_view part = name.substr(0, length);
    const bool allowed = is_star || (key.size() == 3 ? is_number(part) : part.find('.') == std::string_view::npos);
    if (!allowed || (known != values.end() && known->second != part)) continue;
    Values trial = values;
    trial.emplace(key, part);
    if (!fits(rest, name.substr(length), trial)) continue;
    values = std::move(trial);
    return true;
  }
  return false;
}

void substitute(SourceExpr& e, const Values& values) {
  for (const auto& [key, value] : values) {
    for (size_t at = 0; (at = e.name.find(key, at)) != std::string::npos; at += value.size())
      e.name.replace(at, key.size(), value);
  }
  for (SourceExpr& operand : e.operands) substitute(operand, values);
}

}  // namespace

std::string SourceExpr::text() const {
  if (is_tensor()) return written(name);
  std::vector<std::string> parts;
  for (const SourceExpr& operand : operands) parts.push_back(operand.text());
  for (const double number : numbers) parts.push_back(fmt::format("{}", number));
  return fmt::format("{}({})", function, fmt::join(parts, ", "));
}

void SourceExpr::collect(std::vector<std::string>& names) const {
  if (is_tensor()) names.push_back(name);
  for (const SourceExpr& operand : operands) operand.collect(names);
}

Rules Rules::parse(std::string_view text, const std::string& name) {
  Rules rules;
  int number = 0;
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    Parser parser(text.substr(0, end), ++number, name);
    if (!parser.is_empty()) rules.add(parser.rule());
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return rules;
}

std::optional<SourceExpr> Rules::source_of(const std::string& target) const {
  for (const Rule& rule : rules_) {
    Values values;
    if (!fits(rule.target, target, values)) continue;
    SourceExpr source = rule.source;
    substitute(source, values);
    return source;
  }
  return std::nullopt;
}

std::string Rules::text() const {
  size_t widest = 0;
  for (const Rule& rule : rules_) widest = std::max(widest, written(rule.target).size());
  std::string out;
  for (const Rule& rule : rules_) {
    out += fmt::format("{:<{}} = {}", written(rule.target), widest, rule.source.text());
    if (!rule.note.empty()) out += "  # " + rule.note;
    out += "\n";
  }
  return out;
}

// ---- merging

namespace {

struct NumberInName {
  size_t begin, end;
  std::string text;
};

std::vector<NumberInName> places_of_numbers(const std::string& name) {
  const auto is_digit = [&](size_t at) { return at < name.size() && std::isdigit(static_cast<unsigned char>(name[at])) != 0; };
  std::vector<NumberInName> found;
  for (size_t at = 0; at < name.size(); ++at) {
    if (!is_digit(at)) continue;
    size_t end = at;
    while (is_digit(end)) ++end;
    found.push_back({at, end, name.substr(at, end - at)});
    at = end;
  }
  return found;
}

std::vector<std::string> numbers_of(const std::string& name) {
  std::vector<std::string> texts;
  for (NumberInName& number : places_of_numbers(name)) texts.push_back(std::move(number.text));
  return texts;
}

// The position-th number of the name replaced by {n}.
std::string with_placeholder(const std::string& name, size_t position) {
  const std::vector<NumberInName> numbers = places_of_numbers(name);
  if (position >= numbers.size()) return name;
  return name.substr(0, numbers[position].begin) + "{n}" + name.substr(numbers[position].end);
}

// The source with {n} for the first number of each name, where it equals the target's; nothing when one differs.
bool generalise(SourceExpr& e, const std::string& number) {
  if (e.is_tensor()) {
    const std::vector<std::string> numbers = numbers_of(e.name);
    const auto at = std::find(numbers.begin(), numbers.end(), number);
    if (at == numbers.end()) return false;
    e.name = with_placeholder(e.name, static_cast<size_t>(at - numbers.begin()));
    return true;
  }
  return std::all_of(e.operands.begin(), e.operands.end(), [&](SourceExpr& operand) { return generalise(operand, number); });
}

}  // namespace

Rules merged(const Rules& rules) {
  Rules out;
  std::set<std::string> done;  // generalised rules that are there
  for (const Rule& rule : rules.all()) {
    const std::vector<std::string> numbers = numbers_of(rule.target);
    Rule general = rule;
    const bool can = !numbers.empty() && rule.target.find_first_of("{*") == std::string::npos;
    if (can && generalise(general.source, numbers[0])) {
      general.target = with_placeholder(rule.target, 0);
      if (!done.insert(general.target + " = " + general.source.text()).second) continue;
      // It must say the same of every parameter that it fits.
      const bool holds = std::all_of(rules.all().begin(), rules.all().end(), [&](const Rule& other) {
        Values values;
        if (!fits(general.target, other.target, values)) return true;
        SourceExpr source = general.source;
        substitute(source, values);
        return source == other.source;
      });
      if (holds) {
        out.add(std::move(general));
        continue;
      }
      done.erase(general.target + " = " + general.source.text());
    }
    if (!out.source_of(rule.target)) out.add(rule);
  }
  return out;
}

}  // namespace pycandle
