#include "emit/proof/source.h"

#include <fmt/format.h>

#include <map>
#include <utility>

#include "base/error.h"
#include "emit/proof/lexer.h"

namespace pycandle::emit::proof {
namespace {

// How tightly C++'s operators bind; 0 for what is none.
int strength(const std::string& sign) {
  static const std::map<std::string, int> strengths{{"|", 1}, {"^", 2},  {"&", 3}, {"==", 4}, {"!=", 4}, {"<", 5}, {"<=", 5},
                                                    {">", 5}, {">=", 5}, {"+", 6}, {"-", 6},  {"*", 7},  {"/", 7}, {"%", 7}};
  const auto found = strengths.find(sign);
  return found == strengths.end() ? 0 : found->second;
}

class Reader {
 public:
  explicit Reader(std::string_view text) : tokens_(tokens_of(text)) {}

  Source source() {
    Source read;
    expect("namespace");
    read.name_space = name();
    expect("{");
    expect("using");
    expect("namespace");
    expect("pycandle");
    expect(";");
    while (!accept("}")) {
      if (is("[")) {
        skip_function();  // todo()
      } else {
        read.classes.push_back(class_text());
      }
    }
    if (peek().kind != Token::Kind::end) wrong("the end of the file");
    return read;
  }

 private:
  // ---- words

  const Token& peek(size_t more = 0) const { return tokens_[std::min(at_ + more, tokens_.size() - 1)]; }
  bool is(std::string_view text, size_t more = 0) const {
    const Token& token = peek(more);
    return token.text == text && (token.kind == Token::Kind::name || token.kind == Token::Kind::sign);
  }
  bool accept(std::string_view text) {
    if (!is(text)) return false;
    ++at_;
    return true;
  }
  void expect(std::string_view text) {
    if (!accept(text)) wrong(std::string(text));
  }
  std::string name() {
    if (peek().kind != Token::Kind::name) wrong("a name");
    return tokens_[at_++].text;
  }
  [[noreturn]] void wrong(const std::string& expected) const {
    throw Error(ErrorCode::gap, fmt::format("line {} of the code cannot be parsed", peek().line))
        .expected(expected)
        .found(peek().kind == Token::Kind::end ? "the end of the file" : peek().text);
  }

  void skip_to_body() {
    while (!is("{")) {
      if (peek().kind == Token::Kind::end) wrong("{");
      ++at_;
    }
  }
  void skip_function() {
    skip_to_body();
    int depth = 0;
    do {
      depth += is("{") ? 1 : is("}") ? -1 : 0;
      ++at_;
    } while (depth > 0 && peek().kind != Token::Kind::end);
  }

  // nn::ModuleList<nn::Sequential<nn::Linear, nn::ReLU>>, without const and &.
  std::string type() {
    std::string text = name();
    if (is("<") && peek().touches) text += type_arguments();
    return text;
  }
  std::string type_arguments() {
    std::string text;
    int depth = 0;
    do {
      depth += is("<") ? 1 : is(">") ? -1 : 0;
      text += is(",") ? ", " : peek().text;
      if (peek().kind == Token::Kind::end) wrong(">");
      ++at_;
    } while (depth > 0);
    return text;
  }

  // ---- classes

  Class class_text() {
    Class made;
    expect("struct");
    made.name = name();
    made.is_module = accept(":");
    if (made.is_module && type() != fmt::format("nn::Module<{}>", made.name)) wrong(fmt::format("nn::Module<{}>", made.name));
    expect("{");
    while (!accept("}")) {
      if (is("struct")) {
        output(made);
      } else if (is("explicit") || (is(made.name) && is("(", 1))) {
        constructor(made);
      } else {
        member(made);
      }
    }
    expect(";");
    return made;
  }

  void member(Class& made) {
    const std::string of = type();
    if (is("(", 1)) {
      made.functions.push_back({of, name(), parameters(), {}});
      expect("const");
      made.functions.back().body = block();
      return;
    }
    do {
      const size_t line = peek().line;
      made.members.push_back({of, name(), line});
      if (made.is_module) continue;
      made.values.push_back(is("{") ? list({}) : accept("=") ? expression() : Code());
    } while (accept(","));
    expect(";");
  }

  void constructor(Class& made) {
    accept("explicit");
    expect(made.name);
    made.constructed_with = parameters();
    expect(":");
    do {
      made.initialised.push_back(expression());
    } while (accept(","));
    expect("{");
    expect("}");
  }

  // struct Output { Tensor a, b; template <class F> void each(F&& f) const { f("a", a); f("b", b); } };
  void output(Class& made) {
    expect("struct");
    expect("Output");
    expect("{");
    const std::string of = type();
    do {
      const size_t line = peek().line;
      made.output.push_back({of, name(), line});
    } while (accept(","));
    expect(";");
    skip_to_body();
    expect("{");
    while (!accept("}")) {
      expect("f");
      expect("(");
      std::string path = tokens_[at_++].text;
      expect(",");
      made.output_paths.emplace_back(std::move(path), name());
      expect(")");
      expect(";");
    }
    expect("}");
    expect(";");
  }

  std::vector<Parameter> parameters() {
    std::vector<Parameter> found;
    expect("(");
    while (!accept(")")) {
      Parameter parameter;
      parameter.is_const = accept("const");
      parameter.type = type();
      accept("&");
      if (peek().kind == Token::Kind::name) parameter.name = name();
      parameter.has_default = accept("=");
      if (parameter.has_default) {
        expect("{");
        expect("}");
      }
      found.push_back(std::move(parameter));
      if (!is(")")) expect(",");
    }
    return found;
  }

  // ---- statements

  std::vector<Statement> block() {
    std::vector<Statement> found;
    expect("{");
    while (!accept("}")) found.push_back(statement());
    return found;
  }

  Statement statement() {
    Statement made;
    made.line = peek().line;
    if (is("for")) return loop();
    if (accept("return")) {
      made.value = expression();
    } else if (is("std::tie")) {
      made.kind = Statement::Kind::assign_parts;
      ++at_;
      expect("(");
      made.names = names(")");
      expect("=");
      made.value = expression();
    } else if (is("auto")) {
      made.kind = Statement::Kind::declare_parts;
      ++at_;
      expect("[");
      made.names = names("]");
      expect("=");
      made.value = expression();
    } else if (is("const") || peek(1).kind == Token::Kind::name) {
      declaration(made);
    } else if (is(".", 1)) {  // cache.sum.append(x);
      made.kind = Statement::Kind::call;
      made.value = expression();
    } else {
      made.kind = Statement::Kind::assign;
      made.names = {name()};
      expect("=");
      made.value = expression();
    }
    expect(";");
    return made;
  }

  void declaration(Statement& made) {
    made.kind = Statement::Kind::declare;
    made.is_const = accept("const");
    made.type = type();
    accept("&");
    made.names = {name()};
    made.has_value = accept("=");
    if (made.has_value) made.value = expression();
  }

  std::vector<std::string> names(std::string_view end) {
    std::vector<std::string> found;
    do {
      found.push_back(name());
    } while (accept(","));
    expect(end);
    return found;
  }

  // for (const Block& block : blocks) …      for (int64_t i = 0; i < 3; ++i) …
  Statement loop() {
    Statement made;
    made.line = peek().line;
    expect("for");
    expect("(");
    if (accept("const")) {
      made.kind = Statement::Kind::for_each;
      made.type = type();
      expect("&");
      made.names = {name()};
      expect(":");
      made.value = expression();
    } else {
      made.kind = Statement::Kind::for_count;
      expect("int64_t");
      made.names = {name()};
      expect("=");
      if (tokens_[at_++].text != "0") wrong("0");
      expect(";");
      expect(made.names[0]);
      expect("<");
      made.value = expression();
      expect(";");
      expect("++");
      expect(made.names[0]);
    }
    expect(")");
    made.body = is("{") ? block() : std::vector<Statement>{statement()};
    return made;
  }

  // ---- expressions

  Code made(Code::Kind kind, std::string text, std::vector<Code> parts = {}) const {
    Code code;
    code.kind = kind;
    code.text = std::move(text);
    code.parts = std::move(parts);
    code.line = peek().line;
    return code;
  }

  // a, a + b, a ? b : c
  Code expression() {
    Code condition = operation();
    if (!accept("?")) return condition;
    Code yes = expression();
    expect(":");
    return made(Code::Kind::choice, {}, {std::move(condition), std::move(yes), expression()});
  }

  Code operation(int weakest = 1) {
    Code left = prefix();
    while (peek().kind == Token::Kind::sign && strength(peek().text) >= weakest) {
      const std::string sign = tokens_[at_++].text;
      Code right = operation(strength(sign) + 1);  // a - b - c is (a - b) - c
      left = made(Code::Kind::infix, sign, {std::move(left), std::move(right)});
    }
    return left;
  }

  Code prefix() {
    for (const char* sign : {"-", "~"}) {
      if (accept(sign)) return made(Code::Kind::prefix, sign, {prefix()});
    }
    Code code = primary();
    for (;;) {
      if (accept("(")) {
        std::vector<Code> parts = items(")");
        parts.insert(parts.begin(), std::move(code));
        code = made(Code::Kind::call, {}, std::move(parts));
      } else if (accept(".")) {
        std::string member = name();
        std::string types = is("<") && peek().touches ? type_arguments() : std::string();
        code = made(Code::Kind::member, std::move(member), {std::move(code)});
        code.types = std::move(types);
      } else if (accept("[")) {
        Code index = expression();
        expect("]");
        code = made(Code::Kind::element, {}, {std::move(code), std::move(index)});
      } else {
        return code;
      }
    }
  }

  Code primary() {
    const Token& token = peek();
    if (token.kind == Token::Kind::number) return made(Code::Kind::number, tokens_[at_++].text);
    if (token.kind == Token::Kind::string) return made(Code::Kind::string, tokens_[at_++].text);
    if (is("[")) return function();
    if (is("{")) return list({});
    if (accept("(")) {
      Code inner = expression();
      expect(")");
      return inner;
    }
    Code code = made(Code::Kind::name, name());
    if (is("<") && peek().touches) code.types = type_arguments();
    return is("{") && peek().touches ? list(code.text) : code;
  }

  std::vector<Code> items(std::string_view end) {
    std::vector<Code> found;
    while (!accept(end)) {
      found.push_back(expression());
      if (!is(end)) expect(",");
    }
    return found;
  }

  // {a, b}, {.bias = false}, Ints{1, 2}
  Code list(std::string type) {
    Code code = made(Code::Kind::list, std::move(type));
    expect("{");
    while (!accept("}")) {
      if (accept(".")) {
        code.fields.push_back(name());
        expect("=");
      }
      code.parts.push_back(expression());
      if (!is("}")) expect(",");
    }
    if (!code.fields.empty() && code.fields.size() != code.parts.size()) wrong("a name for each option");
    return code;
  }

  // [&](int64_t i) { return …; }
  Code function() {
    Code code = made(Code::Kind::function, {});
    expect("[");
    code.text = accept("&") ? "&" : "";
    expect("]");
    for (const Parameter& parameter : parameters()) code.parameters.push_back(parameter.name);
    code.body = block();
    return code;
  }

  std::vector<Token> tokens_;
  size_t at_ = 0;
};

}  // namespace

Source read_source(std::string_view text) { return Reader(text).source(); }

}  // namespace pycandle::emit::proof
