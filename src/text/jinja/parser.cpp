#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <initializer_list>

#include "base/error.h"
#include "text/jinja/lexer.h"
#include "text/jinja/syntax.h"

namespace pycandle::text::jinja {
namespace {

constexpr int kDeepest = 150;

class Parser {
 public:
  explicit Parser(const std::string& source) : words_(lex(source)) {}

  Block run() {
    Block block = statements({});
    if (!is(Kind::end)) wrong("a tag ends what nothing began");
    return block;
  }

 private:
  using Kind = Word::Kind;
  using E = Expr::Kind;
  using S = Statement::Kind;

  // Counts how deep the tree is while it is built.
  struct Depth {
    explicit Depth(Parser& p) : parser(p) {
      if (++p.depth_ > kDeepest) p.wrong("it is nested too deeply");
    }
    ~Depth() { --parser.depth_; }
    Parser& parser;
  };

  const Word& now() const { return words_[at_]; }
  const Word& ahead() const { return words_[std::min(at_ + 1, words_.size() - 1)]; }
  bool is(Kind kind) const { return now().kind == kind; }
  bool is_sign(std::string_view text) const { return is(Kind::sign) && now().text == text; }
  bool is_name(std::string_view text) const { return is(Kind::name) && now().text == text; }
  [[noreturn]] void wrong(const std::string& what) const { fail(fmt::format("line {}: {}", now().line, what)); }
  bool take_sign(std::string_view text) {
    const bool found = is_sign(text);
    if (found) ++at_;
    return found;
  }
  bool take_name(std::string_view text) {
    const bool found = is_name(text);
    if (found) ++at_;
    return found;
  }
  void need_sign(const char* text) {
    if (!take_sign(text)) wrong(fmt::format("{} was expected", text));
  }
  void need(Kind kind, const char* what) {
    if (!is(kind)) wrong(fmt::format("{} was expected", what));
    ++at_;
  }
  std::string name() {
    if (!is(Kind::name)) wrong("a name was expected");
    return words_[at_++].text;
  }

  // Until a block tag with one of these names, whose name is the next word; or until the end.
  Block statements(std::initializer_list<std::string_view> ends) {
    const Depth depth(*this);
    Block block;
    while (!is(Kind::end)) {
      if (is(Kind::text)) {
        block.push_back(make(S::text));
        block.back()->name = words_[at_++].text;
      } else if (is(Kind::output_begin)) {
        ++at_;
        block.push_back(make(S::output));
        block.back()->values.push_back(expression());
        need(Kind::output_end, "}}");
      } else {
        if (std::any_of(ends.begin(), ends.end(), [&](std::string_view end) { return ahead().text == end; }) &&
            ahead().kind == Kind::name) {
          ++at_;
          return block;
        }
        ++at_;
        block.push_back(statement());
      }
    }
    if (ends.size() > 0) wrong(fmt::format("{} is missing", *(ends.end() - 1)));
    return block;
  }

  static std::unique_ptr<Statement> make(S kind) {
    auto s = std::make_unique<Statement>();
    s->kind = kind;
    return s;
  }
  void close() { need(Kind::block_end, "%}"); }
  void end_tag(const char* tag) {
    if (!take_name(tag)) wrong(fmt::format("{} was expected", tag));
    close();
  }

  std::unique_ptr<Statement> statement() {
    const std::string tag = name();
    if (tag == "if") return condition();
    if (tag == "for") return loop();
    if (tag == "set") return set();
    if (tag == "macro") return macro();
    if (tag == "generation") {  // marks what the model wrote, for training
      close();
      auto s = make(S::group);
      s->blocks.push_back(statements({"endgeneration"}));
      end_tag("endgeneration");
      return s;
    }
    if (tag == "break" || tag == "continue") {
      close();
      return make(tag == "break" ? S::break_loop : S::continue_loop);
    }
    throw Error(ErrorCode::gap, fmt::format("chat template: line {}: the tag {} is not supported", now().line, tag));
  }

  std::unique_ptr<Statement> condition() {
    auto s = make(S::condition);
    while (true) {
      s->values.push_back(expression());
      close();
      s->blocks.push_back(statements({"elif", "else", "endif"}));
      if (take_name("elif")) continue;
      if (take_name("else")) {
        close();
        s->blocks.push_back(statements({"endif"}));
      }
      end_tag("endif");
      return s;
    }
  }

  std::unique_ptr<Statement> loop() {
    auto s = make(S::loop);
    const bool bracket = take_sign("(");
    do s->names.push_back(name());
    while (take_sign(","));
    if (bracket) need_sign(")");
    if (!take_name("in")) wrong("in was expected");
    s->values.push_back(either());
    s->values.push_back(take_name("if") ? expression() : nullptr);
    if (take_name("recursive")) throw Error(ErrorCode::gap, "chat template: recursive loops are not supported");
    close();
    s->blocks.push_back(statements({"else", "endfor"}));
    if (take_name("else")) {
      close();
      s->blocks.push_back(statements({"endfor"}));
    }
    end_tag("endfor");
    return s;
  }

  std::unique_ptr<Statement> set() {
    auto s = make(S::set);
    s->names.push_back(name());
    if (take_sign(".")) {
      s->name = s->names[0];
      s->names[0] = name();
    }
    while (take_sign(",")) s->names.push_back(name());
    if (take_sign("=")) {
      s->values.push_back(expression());
      if (is_sign(",")) {
        auto list = node(E::list);
        list->parts.push_back(std::move(s->values[0]));
        while (take_sign(",")) list->parts.push_back(expression());
        s->values[0] = std::move(list);
      }
      close();
      return s;
    }
    s->kind = S::set_block;
    close();
    s->blocks.push_back(statements({"endset"}));
    end_tag("endset");
    return s;
  }

  std::unique_ptr<Statement> macro() {
    auto s = make(S::macro);
    s->name = name();
    need_sign("(");
    while (!is_sign(")")) {
      s->names.push_back(name());
      if (take_sign("=")) {
        s->values.push_back(expression());
      } else if (!s->values.empty()) {
        wrong("a parameter without a default follows one that has it");
      }
      if (!take_sign(",")) break;
    }
    need_sign(")");
    close();
    s->blocks.push_back(statements({"endmacro"}));
    end_tag("endmacro");
    return s;
  }

  static ExprPtr node(E kind, std::string name = {}) {
    auto e = std::make_unique<Expr>();
    e->kind = kind;
    e->name = std::move(name);
    return e;
  }
  // a + b + c leans to the left, one level for each sign.
  ExprPtr binary(std::string sign, ExprPtr left, ExprPtr right) const {
    int height = 0;
    for (const Expr* e = left.get(); e->kind == E::binary; e = e->parts[0].get()) ++height;
    if (height > kDeepest) wrong("it is nested too deeply");
    ExprPtr e = node(E::binary, std::move(sign));
    e->parts.push_back(std::move(left));
    e->parts.push_back(std::move(right));
    return e;
  }
  static ExprPtr literal(Value value) {
    ExprPtr e = node(E::literal);
    e->value = std::move(value);
    return e;
  }

  ExprPtr expression() {
    const Depth depth(*this);
    ExprPtr value = either();
    for (int length = 0; take_name("if"); ++length) {
      if (length > kDeepest) wrong("it is nested too deeply");
      ExprPtr e = node(E::condition);
      e->parts.push_back(either());
      e->parts.push_back(std::move(value));
      e->parts.push_back(take_name("else") ? expression() : nullptr);
      value = std::move(e);
    }
    return value;
  }

  ExprPtr either() {
    ExprPtr left = both();
    while (take_name("or")) left = binary("or", std::move(left), both());
    return left;
  }
  ExprPtr both() {
    ExprPtr left = negation();
    while (take_name("and")) left = binary("and", std::move(left), negation());
    return left;
  }
  ExprPtr negation() {
    const Depth depth(*this);
    if (!take_name("not")) return comparison();
    ExprPtr e = node(E::unary, "not");
    e->parts.push_back(negation());
    return e;
  }

  // A chain a < b < c is a < b and b < c; templates do not use it, so the right side is compared with the truth.
  ExprPtr comparison() {
    ExprPtr left = sum();
    while (true) {
      if (is(Kind::sign) && (now().text == "==" || now().text == "!=" || now().text == "<" || now().text == ">" ||
                             now().text == "<=" || now().text == ">=")) {
        const std::string sign = words_[at_++].text;
        left = binary(sign, std::move(left), sum());
      } else if (take_name("in")) {
        left = binary("in", std::move(left), sum());
      } else if (is_name("not") && ahead().kind == Kind::name && ahead().text == "in") {
        at_ += 2;
        left = binary("not in", std::move(left), sum());
      } else {
        return left;
      }
    }
  }

  ExprPtr sum() {
    ExprPtr left = product();
    while (is_sign("+") || is_sign("-") || is_sign("~")) {
      const std::string sign = words_[at_++].text;
      left = binary(sign, std::move(left), product());
    }
    return left;
  }
  ExprPtr product() {
    ExprPtr left = prefixed();
    while (is_sign("*") || is_sign("/") || is_sign("//") || is_sign("%")) {
      const std::string sign = words_[at_++].text;
      left = binary(sign, std::move(left), prefixed());
    }
    return left;
  }
  ExprPtr prefixed() {
    const Depth depth(*this);
    if (is_sign("-") || is_sign("+")) {
      ExprPtr e = node(E::unary, words_[at_++].text);
      e->parts.push_back(prefixed());
      return tested(std::move(e));
    }
    ExprPtr left = postfixed(primary());
    if (take_sign("**")) left = binary("**", std::move(left), prefixed());
    return tested(std::move(left));
  }

  // Filters and tests bind more closely than any operator.
  ExprPtr tested(ExprPtr e) {
    for (int length = 0;; ++length) {
      if (length > kDeepest) wrong("it is nested too deeply");
      if (take_sign("|")) {
        ExprPtr f = node(E::filter, name());
        f->parts.push_back(std::move(e));
        if (take_sign("(")) arguments(*f);
        e = postfixed(std::move(f));
      } else if (take_name("is")) {
        const bool negated = take_name("not");
        ExprPtr t = node(E::test, name());
        t->parts.push_back(std::move(e));
        if (take_sign("(")) {
          arguments(*t);
        } else if (is(Kind::string) || is(Kind::integer) ||
                   (is(Kind::name) && t->name != "defined" && !is_name("and") && !is_name("or") && !is_name("else") &&
                    !is_name("is") && !is_name("if") && !is_name("not") && !is_name("in"))) {
          t->parts.push_back(postfixed(primary()));
        }
        e = std::move(t);
        if (negated) {
          ExprPtr n = node(E::unary, "not");
          n->parts.push_back(std::move(e));
          e = std::move(n);
        }
      } else {
        return e;
      }
    }
  }

  void arguments(Expr& call) {
    while (!is_sign(")")) {
      if (is(Kind::name) && ahead().kind == Kind::sign && ahead().text == "=") {
        std::string key = name();
        ++at_;
        call.named.emplace_back(std::move(key), expression());
      } else {
        call.parts.push_back(expression());
      }
      if (!take_sign(",")) break;
    }
    need_sign(")");
  }

  ExprPtr postfixed(ExprPtr e) {
    for (int length = 0;; ++length) {
      if (length > kDeepest) wrong("it is nested too deeply");
      if (take_sign(".")) {
        ExprPtr a = is(Kind::integer) ? node(E::index) : node(E::attribute, name());
        a->parts.push_back(std::move(e));
        if (a->kind == E::index) a->parts.push_back(primary());
        e = std::move(a);
      } else if (take_sign("[")) {
        e = subscript(std::move(e));
      } else if (take_sign("(")) {
        ExprPtr c = node(E::call);
        c->parts.push_back(std::move(e));
        arguments(*c);
        e = std::move(c);
      } else {
        return e;
      }
    }
  }

  ExprPtr subscript(ExprPtr e) {
    ExprPtr first = is_sign(":") ? nullptr : expression();
    ExprPtr out = node(is_sign(":") ? E::slice : E::index);
    out->parts.push_back(std::move(e));
    out->parts.push_back(std::move(first));
    for (int part = 0; out->kind == E::slice && part < 2; ++part)
      out->parts.push_back(take_sign(":") && !is_sign(":") && !is_sign("]") ? expression() : nullptr);
    need_sign("]");
    return out;
  }

  ExprPtr primary() {
    const Word word = now();
    ++at_;
    switch (word.kind) {
      case Kind::string: {
        std::string text = word.text;
        while (is(Kind::string)) text += words_[at_++].text;
        return literal(text);
      }
      case Kind::integer: {
        int64_t value = 0;
        const auto [end, error] = std::from_chars(word.text.data(), word.text.data() + word.text.size(), value);
        if (error != std::errc()) wrong("a number is too large");
        return literal(value);
      }
      case Kind::real: {
        double value = 0;
        std::from_chars(word.text.data(), word.text.data() + word.text.size(), value);
        return literal(value);
      }
      case Kind::name: return named(word.text);
      case Kind::sign:
        if (word.text == "(") return bracketed();
        if (word.text == "[") return sequence("]");
        if (word.text == "{") return dict();
        [[fallthrough]];
      default: --at_; wrong("a value was expected");
    }
  }

  static ExprPtr named(const std::string& name) {
    if (name == "true" || name == "True") return literal(true);
    if (name == "false" || name == "False") return literal(false);
    if (name == "none" || name == "None") return literal(Value::none());
    return node(E::name, name);
  }

  // (a), or a tuple, which is a list here.
  ExprPtr bracketed() {
    if (take_sign(")")) return node(E::list);
    ExprPtr first = expression();
    if (take_sign(")")) return first;
    ExprPtr list = node(E::list);
    list->parts.push_back(std::move(first));
    need_sign(",");
    ExprPtr rest = sequence(")");
    for (ExprPtr& part : rest->parts) list->parts.push_back(std::move(part));
    return list;
  }
  ExprPtr sequence(const char* end) {
    ExprPtr list = node(E::list);
    while (!is_sign(end)) {
      list->parts.push_back(expression());
      if (!take_sign(",")) break;
    }
    need_sign(end);
    return list;
  }
  ExprPtr dict() {
    ExprPtr out = node(E::dict);
    while (!is_sign("}")) {
      out->parts.push_back(expression());
      need_sign(":");
      out->parts.push_back(expression());
      if (!take_sign(",")) break;
    }
    need_sign("}");
    return out;
  }

  std::vector<Word> words_;
  size_t at_ = 0;
  int depth_ = 0;
};

}  // namespace

Block parse(const std::string& source) { return Parser(source).run(); }

}  // namespace pycandle::text::jinja
