// Reads the text form. The text comes from outside: whatever it says is checked here or by the builder, and every
// error names line and column.
#include <fmt/format.h>

#include <map>
#include <set>
#include <unordered_map>

#include "ir/builder.h"
#include "ir/text.h"
#include "ir/text_scanner.h"
#include "ir/text_terms.h"
#include "ir/verifier.h"

namespace pycandle {

namespace {

constexpr size_t kMaxText = size_t{256} << 20;
constexpr int kMaxDepth = 32;  // of regions in regions, and of trees in trees

// The values that one graph's text has named; ids need not be dense.
using Scope = std::unordered_map<int64_t, ValueId>;

class Parser {
 public:
  Parser(std::string_view text, const OpTable& table, std::string_view name) : in_(text, name), table_(table) {}

  Program program() {
    version();
    in_.expect_word("program");
    program_.name = in_.string("the program's name in quotes");
    while (in_.accept_word("symbol")) symbol();
    ranges_ = program_.ranges();
    while (in_.accept_word("input")) input();
    while (parameter()) {
    }
    while (in_.accept_word("state")) state();
    Builder builder(program_.graph, table_, nullptr, &ranges_);
    nodes(builder, scope_);
    while (in_.accept_word("output")) output();
    while (in_.accept_word("update")) update();
    while (in_.accept_word("tap")) tap();
    while (in_.accept_word("check")) check();
    while (in_.accept_word("file")) file();
    while (in_.accept_word("call")) call();
    in_.here();
    if (!in_.at_end()) {
      in_.unexpected(
          "in this order: symbol, input, parameter (buffer, constant), state, nodes, output, update, tap, check, file, call");
    }
    check_reference(calls_, program_.calls.size(), "module call");
    check_reference(files_, program_.files.size(), "file");
    program_.bind_outputs();
    check_whole();
    return std::move(program_);
  }

 private:
  // The largest index that anything referred to before the table was read, and where.
  struct Reference {
    int32_t largest = -1;
    size_t at = 0;
  };

  void check_reference(const Reference& reference, size_t size, const char* what) {
    if (reference.largest < 0 || static_cast<size_t>(reference.largest) < size) return;
    in_.fail(reference.at, fmt::format("there is no {} #{}", what, reference.largest), fmt::format("one of the {} listed", size),
             fmt::format("#{}", reference.largest));
  }

  int32_t referred(Reference& reference, const char* expected) {
    size_t at = in_.here();
    int32_t index = in_.index(expected);
    if (index > reference.largest) reference = {index, at};
    return index;
  }

  std::string unique(std::set<std::string>& names, const char* what) {
    size_t at = in_.here();
    std::string name = in_.string("a name in quotes");
    if (!names.insert(name).second) in_.fail(at, fmt::format("{} {} is there twice", what, quoted(name)), "another name");
    return name;
  }

  // What no single place shows: symbols that no input binds, states that change their type.
  void check_whole() {
    try {
      verify(program_, "parsing");
    } catch (const Error& e) {
      throw in_.error(0, e.message()).expected(e.expected()).found(e.found()).op(e.op());
    }
  }

  void version() {
    size_t at = in_.here();
    std::string_view found = in_.word("'ptir.v1'", true);
    if (found != "ptir.v1") in_.fail(at, "not a version of PTIR that is known here", "ptir.v1", std::string(found.substr(0, 40)));
  }

  // ---- values, dims and types

  int64_t value_number() {
    in_.expect('%');
    return in_.index("the number of a value");
  }

  void define(Scope& scope, size_t at, int64_t number, ValueId value) {
    if (!scope.emplace(number, value).second) in_.fail(at, fmt::format("%{} is defined twice", number), "another number");
  }

  ValueId use(const Scope& scope) {
    size_t at = in_.here();
    int64_t number = value_number();
    auto found = scope.find(number);
    if (found == scope.end())
      in_.fail(at, fmt::format("%{} is not defined", number), "a value that is defined above", fmt::format("%{}", number));
    return found->second;
  }

  ValueId use_or_absent(const Scope& scope) { return in_.accept_word("_") ? kNoValue : use(scope); }

  // ---- what stands before the nodes

  void symbol() {
    Symbol result;
    size_t at = in_.here();
    result.name = in_.word("the name of a symbol");
    bool is_symbol = false;
    try {
      is_symbol = Dim::parse(result.name) == Dim::symbol(result.name);
    } catch (const Error&) {  // the name of a function
    }
    if (!is_symbol) in_.fail(at, fmt::format("'{}' cannot name a symbol", result.name.substr(0, 40)), "a name such as s0");
    if (!terms_.declare(result.name)) in_.fail(at, fmt::format("symbol {} is declared twice", result.name), "another name");
    if (in_.accept_word("in")) {
      size_t range_at = in_.here();
      in_.expect('[');
      result.range.min = in_.integer("the least size");
      in_.expect(',');
      if (in_.accept_word("inf")) {
        in_.expect(')');
      } else {
        result.range.max = in_.integer("the largest size, or inf");
        in_.expect(']');
        if (*result.range.max < result.range.min) in_.fail(range_at, "an empty range", "the least size first");
      }
    }
    if (in_.accept_word("example")) result.example = in_.integer("the size in the recorded input");
    if (in_.accept_word("from")) {
      result.input = in_.string("the name of an input in quotes");
      in_.expect_word("axis");
      result.axis = in_.accept('-') ? -in_.index("an axis") : in_.index("an axis");
    }
    program_.symbols.push_back(std::move(result));
  }

  // %0 "name": f32[2]
  void input() {
    Input result;
    size_t at = in_.here();
    int64_t number = value_number();
    result.name = unique(input_names_, "input");
    in_.expect(':');
    result.value = program_.graph.add_input(terms_.type());
    define(scope_, at, number, result.value);
    if (in_.accept_word("range")) {
      in_.expect('[');
      int64_t low = in_.integer("the least value");
      in_.expect(',');
      result.range = {low, in_.integer("the largest value")};
      in_.expect(']');
    }
    result.used = !in_.accept_word("unused");
    if (in_.accept_word("gap")) result.gap = in_.string("what is missing, in quotes");
    program_.inputs.push_back(std::move(result));
  }

  bool parameter() {
    Parameter result;
    if (in_.accept_word("buffer")) {
      result.kind = Parameter::Kind::buffer;
    } else if (in_.accept_word("constant")) {
      result.kind = Parameter::Kind::constant;
    } else if (!in_.accept_word("parameter")) {
      return false;
    }
    size_t at = in_.here();
    std::optional<int64_t> number;
    if (!in_.accept_word("_")) number = value_number();
    result.name = unique(parameter_names_, "parameter");
    while (in_.accept_word("alias")) result.aliases.push_back(unique(parameter_names_, "parameter"));
    in_.expect(':');
    result.type = terms_.type();
    if (number) {
      result.value = program_.graph.add_input(result.type);
      define(scope_, at, *number, result.value);
    }
    stored(result);
    result.persistent = !in_.accept_word("transient");
    program_.parameters.push_back(std::move(result));
    return true;
  }

  template <class Stored> void stored(Stored& value) {
    if (in_.accept_word("in")) value.file = in_.string("a file name in quotes");
    if (!value.file.empty()) value.key = value.name;
    if (in_.accept_word("key")) value.key = in_.string("a key in quotes");
  }

  void state() {
    State result;
    size_t at = in_.here();
    int64_t number = value_number();
    result.name = unique(state_names_, "state");
    in_.expect(':');
    result.value = program_.graph.add_input(terms_.type());
    define(scope_, at, number, result.value);
    stored(result);
    state_of_.emplace(result.value, program_.states.size());
    program_.states.push_back(std::move(result));
  }

  // ---- nodes

  void nodes(Builder& builder, Scope& scope) {
    while (in_.peek() == '%' || in_.peek() == '(') node(builder, scope);
  }

  // %7, %8 = topk(%6) {k = 2}: f32[2], i64[2] loc(#3, 0:131, "x")
  void node(Builder& builder, Scope& scope) {
    std::vector<std::pair<size_t, int64_t>> results;
    if (in_.accept('(')) {
      in_.expect(')');
    } else {
      do {
        size_t at = in_.here();
        results.emplace_back(at, value_number());
      } while (in_.accept(','));
    }
    in_.expect('=');
    size_t op_at = in_.here();
    std::string_view name = in_.word("the name of an op", true);
    const OpDef* op = table_.find(name);
    if (!op)
      in_.fail(op_at, fmt::format("there is no op '{}'", name.substr(0, 80)), "the name of an op",
               std::string(name.substr(0, 80)));

    Values operands;
    in_.expect('(');
    if (!in_.accept(')')) {
      do {
        operands.push_back(use_or_absent(scope));
      } while (in_.accept(','));
      in_.expect(')');
    }
    Attributes given = attributes(*op);
    std::vector<Graph> regions;
    while (in_.peek() == '(') {
      Graph body;
      Builder inner = builder.region(body);
      region(inner);
      regions.push_back(std::move(body));
    }
    std::vector<Type> written;
    size_t types_at = in_.here();
    if (!results.empty()) {
      in_.expect(':');
      types_at = in_.here();
      do {
        written.push_back(terms_.type());
      } while (in_.accept(','));
    }
    builder.origin = location();
    Values created = create(builder, op_at, *op, std::move(operands), std::move(given), std::move(regions));
    if (created.size() != results.size()) {
      in_.fail(op_at, fmt::format("{} has another number of results", op->name), std::to_string(created.size()),
               std::to_string(results.size()));
    }
    std::vector<Type> inferred;
    for (ValueId value : created) inferred.push_back(builder.type(value));
    if (inferred != written) {
      in_.fail(types_at, fmt::format("{} does not have the type written", op->name), types_text(inferred), types_text(written));
    }
    for (size_t i = 0; i < results.size(); ++i) define(scope, results[i].first, results[i].second, created[i]);
  }

  static std::string types_text(const std::vector<Type>& types) {
    std::string text;
    for (const Type& type : types) text += (text.empty() ? "" : ", ") + type.text();
    return text;
  }

  // Whatever the builder finds wrong is the text's fault and gets its place.
  Values create(Builder& builder, size_t at, const OpDef& op, Values operands, Attributes given, std::vector<Graph> regions) {
    try {
      return builder.create_all(op.name, std::move(operands), std::move(given), std::move(regions));
    } catch (const Error& e) {
      throw in_.error(at, e.message()).expected(e.expected()).found(e.found()).op(op.name).hint(e.hint());
    } catch (const std::bad_alloc&) {
      throw;
    } catch (const std::exception& e) {
      throw in_.error(at, fmt::format("{} refuses these operands: {}", op.name, e.what())).op(op.name);
    }
  }

  Attributes attributes(const OpDef& op) {
    Attributes result;
    if (!in_.accept('{')) return result;
    if (in_.accept('}')) return result;
    do {
      size_t at = in_.here();
      std::string_view name = in_.word("the name of an attribute");
      int index = op.attribute_index(name);
      if (index < 0)
        in_.fail(at, fmt::format("{} has no attribute '{}'", op.name, name.substr(0, 80)), "an attribute of the op",
                 std::string(name.substr(0, 80)));
      in_.expect('=');
      const AttrSpec& spec = op.attr_specs[index];
      result.emplace_back(name, spec.optional && in_.accept_word("none") ? Attribute{} : terms_.attribute(spec.kind));
    } while (in_.accept(','));
    in_.expect('}');
    return result;
  }

  // (%0: f32[4]) { … yield %1 }
  void region(Builder& builder) {
    size_t at = in_.here();
    if (++depth_ > kMaxDepth) in_.fail(at, "regions are nested too deep", fmt::format("at most {} levels", kMaxDepth));
    Scope scope;
    in_.expect('(');
    if (!in_.accept(')')) {
      do {
        size_t input_at = in_.here();
        int64_t number = value_number();
        in_.expect(':');
        define(scope, input_at, number, builder.graph().add_input(terms_.type()));
      } while (in_.accept(','));
      in_.expect(')');
    }
    in_.expect('{');
    nodes(builder, scope);
    in_.expect_word("yield");
    if (in_.peek() == '%') {
      do {
        ValueId output = use(scope);
        builder.graph().outputs.push_back(output);
      } while (in_.accept(','));
    }
    in_.expect('}');
    --depth_;
  }

  // loc(#3, 0:131, "x")
  Origin location() {
    Origin origin;
    if (!in_.accept_word("loc")) return origin;
    in_.expect('(');
    if (!in_.accept_word("_")) {
      in_.expect('#');
      origin.call = referred(calls_, "the number of a module call");
    }
    in_.expect(',');
    place(origin.file, origin.line);
    if (in_.accept(',')) origin.assigned_to = in_.string("the name it was assigned to, in quotes");
    in_.expect(')');
    return origin;
  }

  void place(int32_t& file, int32_t& line) {
    if (!in_.accept_word("_")) file = referred(files_, "the number of a file");
    in_.expect(':');
    line = in_.index("a line number");
  }

  // ---- what stands after the nodes

  void output() {
    Output result;
    result.name = unique(output_names_, "output");
    result.value = use(scope_);
    program_.outputs.push_back(std::move(result));
  }

  void update() {
    size_t at = in_.here();
    ValueId value = use(scope_);
    in_.expect('=');
    auto found = state_of_.find(value);
    if (found == state_of_.end()) in_.fail(at, "an update of a value that is not a state", "the value of a state");
    State& state = program_.states[found->second];
    if (state.updated != kNoValue) in_.fail(at, fmt::format("state {} is updated twice", quoted(state.name)), "one update");
    state.updated = use(scope_);
  }

  void tap() {
    Tap result;
    result.id = TapId::parse(unique(tap_names_, "tap"));
    result.inside = in_.accept_word("inside");
    result.value = use(scope_);
    result.key = in_.accept_word("key") ? in_.string("a key in quotes") : result.id.text();
    program_.taps.push_back(std::move(result));
  }

  void check() {
    Check result;
    result.left = terms_.dim();
    in_.expect('=');
    in_.expect('=');
    result.right = terms_.dim();
    result.what = in_.string("what is checked, in quotes");
    result.origin = location();
    program_.checks.push_back(std::move(result));
  }

  // Tables are numbered from 0 without gaps.
  void table_number(size_t expected) {
    in_.expect('#');
    size_t at = in_.here();
    int32_t number = in_.index("a number");
    if (static_cast<size_t>(number) != expected)
      in_.fail(at, "numbers must count up from 0", std::to_string(expected), std::to_string(number));
  }

  void file() {
    SourceFile result;
    table_number(program_.files.size());
    result.path = in_.string("a path in quotes");
    if (in_.accept('{')) {
      while (!in_.accept('}')) {
        size_t at = in_.here();
        int32_t line = in_.index("a line number or '}'");
        if (!result.lines.empty() && result.lines.back().first >= line) {
          in_.fail(at, "lines are not in order", fmt::format("a line after {}", result.lines.back().first), std::to_string(line));
        }
        result.lines.emplace_back(line, in_.string("a source line in quotes"));
      }
    }
    program_.files.push_back(std::move(result));
  }

  void call() {
    ModuleCall result;
    table_number(program_.calls.size());
    result.path = in_.string("the path of a module in quotes");
    in_.expect('@');
    result.call = in_.index("the number of the call");
    in_.expect_word("class");
    result.class_name = in_.string("a class in quotes");
    if (in_.accept_word("parent")) {
      in_.expect('#');
      size_t at = in_.here();
      result.parent = in_.index("the number of a module call");
      if (static_cast<size_t>(result.parent) >= program_.calls.size())
        in_.fail(at, "a call's parent stands above it", "a number below its own", fmt::format("#{}", result.parent));
    }
    if (in_.accept_word("at")) place(result.class_file, result.class_line);
    if (in_.accept_word("forward")) result.forward_line = in_.index("a line number");
    auto named = [&] {
      std::string name = in_.string("a name in quotes");
      in_.expect('=');
      return name;
    };
    while (in_.accept_word("attribute")) {
      std::string name = named();
      result.attributes.emplace_back(std::move(name), terms_.literal());
    }
    while (in_.accept_word("config")) {
      std::string name = named();
      result.config.emplace_back(std::move(name), terms_.literal());
    }
    while (in_.accept_word("arg")) {
      std::string name = named();
      result.args.emplace_back(std::move(name), tree());
    }
    if (in_.accept_word("returns")) result.output = tree();
    program_.calls.push_back(std::move(result));
  }

  Tree tree() {
    size_t at = in_.here();
    if (++depth_ > kMaxDepth) in_.fail(at, "values are nested too deep", fmt::format("at most {} levels", kMaxDepth));
    Tree result;
    char next = in_.peek();
    if (next == '%' || in_.accept_word("_")) {
      result.kind = Tree::Kind::value;
      if (next == '%') result.value = use(scope_);
    } else if (in_.accept_word("none")) {
      result.kind = Tree::Kind::none;
    } else if (in_.accept('[')) {
      result.kind = Tree::Kind::list;
      items(result, false, ']');
    } else if (in_.accept('(')) {
      result.kind = Tree::Kind::tuple;
      items(result, false, ')');
    } else if (in_.accept('{')) {
      result.kind = Tree::Kind::dict;
      items(result, true, '}');
    } else if (in_.accept_word("object")) {
      result.kind = Tree::Kind::object;
      result.type_name = in_.string("a class in quotes");
      in_.expect('{');
      items(result, true, '}');
    } else {
      result.kind = Tree::Kind::literal;
      result.literal = terms_.literal();
    }
    --depth_;
    return result;
  }

  void items(Tree& into, bool keyed, char close) {
    if (in_.accept(close)) return;
    do {
      std::string key;
      if (keyed) {
        key = in_.string("a key in quotes");
        in_.expect(':');
      }
      into.items.emplace_back(std::move(key), tree());
    } while (in_.accept(','));
    in_.expect(close);
  }

  TextScanner in_;
  TextTerms terms_{in_};
  const OpTable& table_;
  Program program_;
  SymbolRanges ranges_;
  Scope scope_;
  std::set<std::string> input_names_, parameter_names_, state_names_, output_names_, tap_names_;
  std::unordered_map<ValueId, size_t> state_of_;
  Reference calls_, files_;
  int depth_ = 0;
};

}  // namespace

Program parse_program(std::string_view text, const OpTable& table, std::string_view name) {
  if (text.size() > kMaxText) {
    throw Error(ErrorCode::bad_input, fmt::format("{} is too large", name))
        .expected(fmt::format("at most {} bytes", kMaxText))
        .found(fmt::format("{} bytes", text.size()));
  }
  return Parser(text, table, name).program();
}

}  // namespace pycandle
