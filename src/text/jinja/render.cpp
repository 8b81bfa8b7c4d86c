#include "text/jinja/render.h"

#include <fmt/format.h>

#include <cmath>
#include <ctime>

#include "base/error.h"
#include "text/jinja/filters.h"

namespace pycandle::text::jinja {
namespace {

using Kind = Value::Kind;

// A template is data from outside: these end one that runs away.
constexpr size_t kMostSteps = 5'000'000, kMostText = size_t{64} << 20;
constexpr int kDeepestCalls = 40;

enum class Flow { on, break_loop, continue_loop };

Value current_time(const Arguments& a) {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  localtime_r(&now, &parts);
  std::string out(256, '\0');
  out.resize(std::strftime(out.data(), out.size(), a.get(0, "format").text().c_str(), &parts));
  return out;
}

Value range(const Arguments& a) {
  const bool one = a.positional.size() == 1;
  const int64_t begin = one ? 0 : a.get(0, "start").integer(),
                end = one ? a.get(0, "stop").integer() : a.get(1, "stop").integer();
  const int64_t step = a.positional.size() > 2 ? a.positional[2].integer() : 1;
  if (step == 0) fail("range with step 0");
  if (std::abs(static_cast<double>(end) - static_cast<double>(begin)) / std::abs(static_cast<double>(step)) > 100'000)
    fail("a range is too long");
  List out;
  for (int64_t i = begin; step > 0 ? i < end : i > end; i += step) out.emplace_back(i);
  return out;
}

Value dict_of(const Arguments& a) {
  Dict out;
  for (const auto& [key, value] : a.named) out.set(key, value);
  return out;
}

class Run {
 public:
  explicit Run(const Value& variables) {
    Dict globals = variables.dict();
    const auto function = [&](const char* name, Callable f) {
      if (globals.find(name) == nullptr) globals.set(name, std::move(f));
    };
    function("range", range);
    function("namespace", dict_of);
    function("dict", dict_of);
    function("strftime_now", current_time);
    function("raise_exception", [](const Arguments& a) -> Value {
      throw Error(ErrorCode::bad_input, "the chat template refuses these messages").found(a.get(0, "message").text());
    });
    scopes_.push_back(std::move(globals));
  }

  Flow block(const Block& statements, std::string& out) {
    for (const auto& s : statements) {
      if (const Flow flow = statement(*s, out); flow != Flow::on) return flow;
    }
    return Flow::on;
  }

 private:
  void step(const std::string& out) {
    if (++steps_ > kMostSteps || out.size() > kMostText) fail("it does not come to an end");
  }

  Flow statement(const Statement& s, std::string& out) {
    using S = Statement::Kind;
    step(out);
    switch (s.kind) {
      case S::text: out += s.name; return Flow::on;
      case S::output: out += evaluate(*s.values[0]).text(); return Flow::on;
      case S::group: return block(s.blocks[0], out);
      case S::break_loop: return Flow::break_loop;
      case S::continue_loop: return Flow::continue_loop;
      case S::condition:
        for (size_t i = 0; i < s.values.size(); ++i) {
          if (evaluate(*s.values[i]).truth()) return block(s.blocks[i], out);
        }
        return s.blocks.size() > s.values.size() ? block(s.blocks.back(), out) : Flow::on;
      case S::loop: loop(s, out); return Flow::on;
      case S::set: assign(s, evaluate(*s.values[0])); return Flow::on;
      case S::set_block: {
        std::string text;
        scopes_.emplace_back();
        block(s.blocks[0], text);
        scopes_.pop_back();
        assign(s, text);
        return Flow::on;
      }
      case S::macro:
        scopes_.back().set(s.name, Value(Callable([this, &s](const Arguments& a) { return call_macro(s, a); })));
        return Flow::on;
    }
    return Flow::on;
  }

  void assign(const Statement& s, const Value& value) {
    if (!s.name.empty()) {
      const Value target = look_up(s.name);
      if (!target.is(Kind::dict)) fail(fmt::format("{} is no namespace", s.name));
      target.shared_dict().set(s.names[0], value);
      return;
    }
    unpack(s.names, value);
  }

  void unpack(const std::vector<std::string>& names, const Value& value) {
    if (names.size() == 1) return scopes_.back().set(names[0], value);
    const List parts = elements_of(value);
    if (parts.size() != names.size()) fail(fmt::format("{} values for {} names", parts.size(), names.size()));
    for (size_t i = 0; i < names.size(); ++i) scopes_.back().set(names[i], parts[i]);
  }

  void loop(const Statement& s, std::string& out) {
    List all = elements_of(evaluate(*s.values[0]));
    if (s.values[1]) {
      List kept;
      for (const Value& v : all) {
        scopes_.emplace_back();
        unpack(s.names, v);
        if (evaluate(*s.values[1]).truth()) kept.push_back(v);
        scopes_.pop_back();
      }
      all = std::move(kept);
    }
    if (all.empty()) {
      if (s.blocks.size() > 1) block(s.blocks[1], out);
      return;
    }
    for (size_t i = 0; i < all.size(); ++i) {
      step(out);
      scopes_.emplace_back();
      scopes_.back().set("loop", loop_facts(all, i));
      unpack(s.names, all[i]);
      const Flow flow = block(s.blocks[0], out);
      scopes_.pop_back();
      if (flow == Flow::break_loop) break;
    }
  }

  static Value loop_facts(const List& all, size_t i) {
    Dict d;
    d.set("index", i + 1);
    d.set("index0", i);
    d.set("revindex", all.size() - i);
    d.set("revindex0", all.size() - i - 1);
    d.set("first", i == 0);
    d.set("last", i + 1 == all.size());
    d.set("length", all.size());
    d.set("previtem", i > 0 ? all[i - 1] : Value());
    d.set("nextitem", i + 1 < all.size() ? all[i + 1] : Value());
    d.set("cycle", Value(Callable([i](const Arguments& a) {
            return a.positional.empty() ? Value() : a.positional[i % a.positional.size()];
          })));
    return d;
  }

  Value call_macro(const Statement& s, const Arguments& a) {
    if (++calls_ > kDeepestCalls) fail("macros call each other without end");
    Dict scope;
    const size_t required = s.names.size() - s.values.size();
    for (size_t i = 0; i < s.names.size(); ++i) {
      Value v = a.get(i, s.names[i]);
      if (!v.is_defined() && i >= required) v = evaluate(*s.values[i - required]);
      scope.set(s.names[i], v);
    }
    // A macro sees what the template has set, not the loop that calls it.
    std::vector<Dict> outer(scopes_.begin() + 1, scopes_.end());
    scopes_.resize(1);
    scopes_.push_back(std::move(scope));
    std::string out;
    block(s.blocks[0], out);
    scopes_.resize(1);
    scopes_.insert(scopes_.end(), outer.begin(), outer.end());
    --calls_;
    return out;
  }

  Value look_up(const std::string& name) const {
    for (auto scope = scopes_.rbegin(); scope != scopes_.rend(); ++scope) {
      if (const Value* found = scope->find(name)) return *found;
    }
    return {};
  }

  Arguments arguments(const Expr& e) {
    Arguments a;
    for (size_t i = 1; i < e.parts.size(); ++i) a.positional.push_back(evaluate(*e.parts[i]));
    for (const auto& [name, part] : e.named) a.named.emplace_back(name, evaluate(*part));
    return a;
  }

  Value evaluate(const Expr& e) {
    using E = Expr::Kind;
    step("");
    switch (e.kind) {
      case E::literal: return e.value;
      case E::name: return look_up(e.name);
      case E::list: {
        List out;
        for (const ExprPtr& part : e.parts) out.push_back(evaluate(*part));
        return out;
      }
      case E::dict: {
        Dict out;
        for (size_t i = 0; i + 1 < e.parts.size(); i += 2) out.set(evaluate(*e.parts[i]).text(), evaluate(*e.parts[i + 1]));
        return out;
      }
      case E::attribute: return element_of(evaluate(*e.parts[0]), e.name);
      case E::index: return element_of(evaluate(*e.parts[0]), evaluate(*e.parts[1]));
      case E::slice: {
        const auto part = [&](size_t i) { return e.parts[i] ? evaluate(*e.parts[i]) : Value(); };
        return slice_of(evaluate(*e.parts[0]), part(1), part(2), part(3));
      }
      case E::call: return call(e);
      case E::filter: return apply_filter(e.name, evaluate(*e.parts[0]), arguments(e));
      case E::test: return apply_test(e.name, evaluate(*e.parts[0]), arguments(e));
      case E::unary: return unary(e);
      case E::binary: return binary(e);
      case E::condition:
        if (evaluate(*e.parts[0]).truth()) return evaluate(*e.parts[1]);
        return e.parts[2] ? evaluate(*e.parts[2]) : Value();
    }
    return {};
  }

  Value call(const Expr& e) {
    const Expr& callee = *e.parts[0];
    if (callee.kind == Expr::Kind::attribute) {
      const Value subject = evaluate(*callee.parts[0]);
      if (subject.is(Kind::dict)) {
        const Value* own = subject.dict().find(callee.name);
        if (own != nullptr && own->is(Kind::function)) return own->function()(arguments(e));
      }
      if (has_method(subject, callee.name)) return call_method(subject, callee.name, arguments(e));
      throw Error(ErrorCode::gap,
                  fmt::format("chat template: {} of what is {} is not supported", callee.name, subject.type_name()));
    }
    const Value function = evaluate(callee);
    if (!function.is(Kind::function)) fail(fmt::format("{} is no function", callee.name.empty() ? "this" : callee.name));
    return function.function()(arguments(e));
  }

  Value unary(const Expr& e) {
    const Value v = evaluate(*e.parts[0]);
    if (e.name == "not") return !v.truth();
    if (!v.is_number()) fail(fmt::format("{} of what is {}", e.name, v.type_name()));
    if (e.name == "+") return v;
    return v.is(Kind::real) ? Value(-v.real()) : Value(static_cast<int64_t>(0 - static_cast<uint64_t>(v.integer())));
  }

  Value binary(const Expr& e) {
    const Value left = evaluate(*e.parts[0]);
    if (e.name == "and") return left.truth() ? evaluate(*e.parts[1]) : left;
    if (e.name == "or") return left.truth() ? left : evaluate(*e.parts[1]);
    const Value right = evaluate(*e.parts[1]);
    if (e.name == "==") return equal(left, right);
    if (e.name == "!=") return !equal(left, right);
    if (e.name == "<") return compare(left, right) < 0;
    if (e.name == ">") return compare(left, right) > 0;
    if (e.name == "<=") return compare(left, right) <= 0;
    if (e.name == ">=") return compare(left, right) >= 0;
    if (e.name == "in" || e.name == "not in") return apply_test("in", left, {{right}, {}}) == (e.name == "in");
    if (e.name == "~") return bounded(left.text() + right.text());
    return arithmetic(e.name, left, right);
  }

  static Value bounded(std::string text) {
    if (text.size() > kMostText) fail("a text is too long");
    return text;
  }

  static Value arithmetic(const std::string& sign, const Value& left, const Value& right) {
    if (sign == "+" && left.is(Kind::string) && right.is(Kind::string)) return bounded(left.string() + right.string());
    if (sign == "+" && left.is(Kind::list) && right.is(Kind::list)) {
      List out = left.list();
      out.insert(out.end(), right.list().begin(), right.list().end());
      if (out.size() > kMostSteps) fail("a list is too long");
      return out;
    }
    if (sign == "*" && left.is(Kind::string) && right.is(Kind::integer)) {
      if (right.integer() > 0 &&
          static_cast<double>(right.integer()) * static_cast<double>(left.string().size()) > static_cast<double>(kMostText))
        fail("a text is too long");
      std::string out;
      for (int64_t i = 0; i < right.integer() && !left.string().empty(); ++i) out += left.string();
      return out;
    }
    if (!left.is_number() || !right.is_number()) fail(fmt::format("{} of {} and {}", sign, left.type_name(), right.type_name()));
    const bool whole = !left.is(Kind::real) && !right.is(Kind::real);
    const double a = left.real(), b = right.real();
    if ((sign == "/" || sign == "//" || sign == "%") && b == 0) fail("division by zero");
    double result = 0;
    if (sign == "+") result = a + b;
    if (sign == "-") result = a - b;
    if (sign == "*") result = a * b;
    if (sign == "/") return a / b;
    if (sign == "//") result = std::floor(a / b);
    if (sign == "%") result = a - std::floor(a / b) * b;
    if (sign == "**") result = std::pow(a, b);
    return whole && std::fabs(result) < 9e15 ? Value(static_cast<int64_t>(result)) : Value(result);
  }

  std::vector<Dict> scopes_;
  size_t steps_ = 0;
  int calls_ = 0;
};

}  // namespace

std::string render(const Block& program, const Value& variables) {
  if (!variables.is(Kind::dict)) fail("its variables are no object");
  std::string out;
  Run(variables).block(program, out);
  return out;
}

}  // namespace pycandle::text::jinja
