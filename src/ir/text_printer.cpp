// Prints PTIR. docs/ptir.md describes the text; text_parser.cpp reads it back.
#include <fmt/format.h>

#include <iterator>

#include "ir/text.h"

namespace pycandle {

namespace {

using Literal = decltype(Tree::literal);

struct LiteralText {
  std::string operator()(std::monostate) const { return "null"; }
  template <class T> std::string operator()(const T& value) const { return to_string(Attribute(value)); }
};

std::string text_of(const Literal& literal) { return std::visit(LiteralText{}, literal); }

class Printer {
 public:
  explicit Printer(bool origins) : origins_(origins) {}

  std::string take() { return std::move(out_); }

  void program(const Program& p) {
    add("ptir.v1 program {}\n", quoted(p.name));
    section(p.symbols, [&](const Symbol& symbol) { print(symbol); });
    section(p.inputs, [&](const Input& input) { print(input, p.graph); });
    section(p.parameters, [&](const Parameter& parameter) { print(parameter); });
    section(p.states, [&](const State& state) {
      add("state {} {}: {}", id(state.value), quoted(state.name), p.graph.type(state.value).text());
      stored(state);
    });
    section(p.graph.nodes, [&](const Node& node) { print(node, p.graph); });
    section(p.outputs, [&](const Output& output) { add("output {} {}", quoted(output.name), id(output.value)); });
    section(p.states, [&](const State& state) {
      if (state.updated != kNoValue) add("update {} = {}", id(state.value), id(state.updated));
    });
    section(p.taps, [&](const Tap& tap) {
      const std::string name = tap.id.text();
      add("tap {} {}{}", quoted(name), tap.inside ? "inside " : "", id(tap.value));
      if (tap.key != name) add(" key {}", quoted(tap.key));
    });
    section(p.checks, [&](const Check& check) {
      add("check {} == {} {}", check.left.text(), check.right.text(), quoted(check.what));
      location(check.origin);
    });
    if (!origins_) return;
    int index = 0;
    section(p.files, [&](const SourceFile& file) { print(file, index++); });
    index = 0;
    section(p.calls, [&](const ModuleCall& call) { print(call, index++); });
  }

  // (%0: f32[4]) {
  //   %1 = neg(%0): f32[4]
  //   yield %1
  // }
  void region(const Graph& graph) {
    out_ += '(';
    separated(graph.inputs, [&](ValueId input) { add("{}: {}", id(input), graph.type(input).text()); });
    out_ += ") {\n";
    indent_ += 2;
    for (const Node& node : graph.nodes) {
      out_.append(indent_, ' ');
      print(node, graph);
      out_ += '\n';
    }
    out_.append(indent_, ' ');
    out_ += "yield";
    if (!graph.outputs.empty()) out_ += ' ';
    separated(graph.outputs, [&](ValueId output) { out_ += id(output); });
    out_ += '\n';
    indent_ -= 2;
    out_.append(indent_, ' ');
    out_ += '}';
  }

 private:
  template <class... Args> void add(fmt::format_string<Args...> format, Args&&... args) {
    fmt::format_to(std::back_inserter(out_), format, std::forward<Args>(args)...);
  }

  static std::string id(ValueId value) { return value == kNoValue ? "_" : fmt::format("%{}", value); }

  // One line an item, after an empty line; an item that prints nothing has no line.
  template <class Items, class Print> void section(const Items& items, const Print& print_item) {
    size_t start = out_.size();
    for (const auto& item : items) {
      size_t before = out_.size();
      print_item(item);
      if (out_.size() != before) out_ += '\n';
    }
    if (out_.size() != start) out_.insert(start, 1, '\n');
  }

  template <class Items, class Print> void separated(const Items& items, const Print& print_item) {
    bool first = true;
    for (const auto& item : items) {
      if (!first) out_ += ", ";
      first = false;
      print_item(item);
    }
  }

  // Where a parameter or a state is stored. Its key in the file is its name unless another one is said.
  template <class Stored> void stored(const Stored& value) {
    if (!value.file.empty()) add(" in {}", quoted(value.file));
    if (value.key != (value.file.empty() ? "" : value.name)) add(" key {}", quoted(value.key));
  }

  // loc(#3, 0:131, "x"): module call, file and line, the name it was assigned to; _ is unknown.
  void location(const Origin& origin) {
    if (!origins_ || origin == Origin{}) return;
    out_ += "  loc(";
    if (origin.call >= 0) {
      add("#{}, ", origin.call);
    } else {
      out_ += "_, ";
    }
    place(origin.file, origin.line);
    if (!origin.assigned_to.empty()) add(", {}", quoted(origin.assigned_to));
    out_ += ')';
  }

  void place(int32_t file, int32_t line) {
    if (file >= 0) {
      add("{}:{}", file, line);
    } else {
      add("_:{}", line);
    }
  }

  void print(const Symbol& symbol) {
    add("symbol {} in [{}, ", symbol.name, symbol.range.min);
    if (symbol.range.max) {
      add("{}]", *symbol.range.max);
    } else {
      out_ += "inf)";
    }
    add(" example {}", symbol.example);
    if (!symbol.input.empty() || symbol.axis != -1) add(" from {} axis {}", quoted(symbol.input), symbol.axis);
  }

  void print(const Input& input, const Graph& graph) {
    add("input {} {}: {}", id(input.value), quoted(input.name), graph.type(input.value).text());
    if (input.range) add(" range [{}, {}]", input.range->first, input.range->second);
    if (!input.used) out_ += " unused";
    if (input.gap) add(" gap {}", quoted(*input.gap));
  }

  void print(const Parameter& parameter) {
    static constexpr const char* kinds[] = {"parameter", "buffer", "constant"};
    add("{} {} {}", kinds[static_cast<size_t>(parameter.kind)], id(parameter.value), quoted(parameter.name));
    for (const std::string& alias : parameter.aliases) add(" alias {}", quoted(alias));
    add(": {}", parameter.type.text());
    stored(parameter);
    if (!parameter.persistent) out_ += " transient";
  }

  void print(const Node& node, const Graph& graph) {
    if (node.results.empty()) out_ += "()";
    separated(node.results, [&](ValueId result) { out_ += id(result); });
    add(" = {}(", node.op->name);
    separated(node.operands, [&](ValueId operand) { out_ += id(operand); });
    out_ += ')';
    if (!node.attributes.empty()) {
      out_ += " {";
      separated(node.attributes, [&](const auto& attribute) { add("{} = {}", attribute.first, to_string(attribute.second)); });
      out_ += '}';
    }
    for (const Graph& body : node.regions) {
      out_ += ' ';
      region(body);
    }
    if (!node.results.empty()) out_ += ": ";
    separated(node.results, [&](ValueId result) { out_ += graph.type(result).text(); });
    location(node.origin);
  }

  void print(const SourceFile& file, int index) {
    add("file #{} {}", index, quoted(file.path));
    if (file.lines.empty()) return;
    out_ += " {\n";
    for (const auto& [number, line] : file.lines) add("  {} {}\n", number, quoted(line));
    out_ += '}';
  }

  void print(const ModuleCall& call, int index) {
    add("call #{} {} @{} class {}", index, quoted(call.path), call.call, quoted(call.class_name));
    if (call.parent >= 0) add(" parent #{}", call.parent);
    if (call.class_file >= 0 || call.class_line != 0) {
      out_ += " at ";
      place(call.class_file, call.class_line);
    }
    if (call.forward_line != 0) add(" forward {}", call.forward_line);
    for (const auto& [name, value] : call.attributes) add("\n  attribute {} = {}", quoted(name), text_of(value));
    for (const auto& [name, value] : call.config) add("\n  config {} = {}", quoted(name), text_of(value));
    for (const auto& [name, value] : call.args) {
      add("\n  arg {} = ", quoted(name));
      print(value);
    }
    if (call.output.kind == Tree::Kind::none) return;
    out_ += "\n  returns ";
    print(call.output);
  }

  // %5  none  0.5  [%1, %2]  (%1, none)  {"k": %1}  object "ModelOutput" {"logits": %3}
  void print(const Tree& tree) {
    auto keyed = [&](const auto& item) {
      add("{}: ", quoted(item.first));
      print(item.second);
    };
    auto plain = [&](const auto& item) { print(item.second); };
    switch (tree.kind) {
      case Tree::Kind::value: out_ += id(tree.value); break;
      case Tree::Kind::none: out_ += "none"; break;
      case Tree::Kind::literal: out_ += text_of(tree.literal); break;
      case Tree::Kind::list: bracketed('[', tree, plain, ']'); break;
      case Tree::Kind::tuple: bracketed('(', tree, plain, ')'); break;
      case Tree::Kind::object: add("object {} ", quoted(tree.type_name)); [[fallthrough]];
      case Tree::Kind::dict: bracketed('{', tree, keyed, '}'); break;
    }
  }

  template <class Print> void bracketed(char open, const Tree& tree, const Print& print_item, char close) {
    out_ += open;
    separated(tree.items, print_item);
    out_ += close;
  }

  bool origins_;
  size_t indent_ = 0;
  std::string out_;
};

}  // namespace

std::string print(const Program& program, const PrintOptions& options) {
  Printer printer(options.origins);
  printer.program(program);
  return printer.take();
}

std::string print(const Graph& graph) {
  Printer printer(false);
  printer.region(graph);
  return printer.take() + "\n";
}

}  // namespace pycandle
