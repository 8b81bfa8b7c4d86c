#include "emit/cpp/printer.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <set>

#include "emit/caches.h"
#include "emit/class_names.h"
#include "emit/cpp/body.h"
#include "emit/cpp/results.h"
#include "emit/cpp/split.h"
#include "emit/cpp/text.h"
#include "emit/names.h"
#include "ops/core/spelling.h"

namespace pycandle::emit::cpp {
namespace {

std::string type_of(const Attribute& number) {
  if (std::holds_alternative<double>(number)) return "double";
  if (std::holds_alternative<bool>(number)) return "bool";
  if (std::holds_alternative<Ints>(number)) return "Ints";
  if (std::holds_alternative<Numbers>(number)) return "Numbers";
  if (std::holds_alternative<std::complex<double>>(number)) return "std::complex<double>";
  return "int64_t";
}

class ClassPrinter {
 public:
  ClassPrinter(const ModelTree& tree, const ModuleClass& made, bool is_model)
      : tree_(&tree), class_(&made), is_model_(is_model), forward_(write_forward(tree, made)) {
    find_stored_numbers();
    order_children();
  }

  std::string text() {
    out_ += comment();
    out_ += fmt::format("struct {0} : nn::Module<{0}> {{\n", class_->name);
    members();
    constructor();
    if (returns_struct(*class_)) output_struct();
    forward();
    out_ += "};\n";
    return std::move(out_);
  }

 private:
  void line(const std::string& text, size_t indent = 2) { out_ += wrapped(text, indent, indent + 4); }

  std::string comment() const {
    std::string text = "// " + last_part(class_->python_class);
    if (class_->python_class == "torch.nn.modules.container.Sequential" && !is_model_) {
      text = "// nn.Sequential " + tree_->program->calls[class_->call].path;
    } else if (!class_->file_line.empty()) {
      text += ", " + class_->file_line;
    }
    if (class_->instances > 1) text += fmt::format(" ({} instances)", class_->instances);
    return text + "\n";
  }

  // Numbers that forward() needs are members; those that only build a child are not.
  void find_stored_numbers() {
    for (const auto& [place, field] : class_->places) stored_.insert(field);
    for (const Step& step : class_->steps) {
      if (step.kind == Step::Kind::loop && step.count.field >= 0) stored_.insert(step.count.field);
    }
  }

  // Members of one type stand together, in the order in which the first of them is used.
  void order_children() {
    std::vector<std::string> types;
    for (const Child& child : class_->children) {
      if (std::find(types.begin(), types.end(), declared_type(child)) == types.end()) types.push_back(declared_type(child));
    }
    for (const std::string& type : types) {
      for (const Child& child : class_->children) {
        if (declared_type(child) == type) children_.push_back(&child);
      }
    }
  }

  std::string declared_type(const Child& child) const {
    const std::string type = cpp::type_of(*tree_, child.use);
    return child.is_list ? fmt::format("nn::ModuleList<{}>", type) : type;
  }

  void members() {
    std::vector<std::pair<std::string, std::vector<std::string>>> declared;
    const auto declare = [&](const std::string& type, const std::string& name) {
      const bool fits = !declared.empty() && type.size() + joined(declared.back().second).size() + name.size() + 6 <= kColumns;
      if (declared.empty() || declared.back().first != type || !fits) declared.push_back({type, {}});
      declared.back().second.push_back(name);
    };
    for (const int32_t field : stored_) {
      declare(type_of(class_->numbers[field].example), class_->numbers[field].name);
    }
    for (const Setting& s : class_->settings) declare(s.power ? "double" : "int64_t", s.name);
    for (const TensorField& t : class_->tensors) declare(t.is_state ? "State" : "Tensor", t.name);
    for (const Child* child : children_) declare(declared_type(*child), child->name);
    for (const auto& [type, names] : declared) {
      const std::string text = fmt::format("{} {};", type, joined(names));
      if (text.size() + 2 <= kColumns || type.find('<') == std::string::npos) {
        line(text);
      } else {  // the types on lines of their own, then the name
        out_ += wrapped(type, 2, 6);
        line(joined(names) + ";", 6);
      }
    }
    if (!declared.empty()) out_ += '\n';
  }

  std::string value(const Formula& formula) const {
    std::vector<std::string> factors;
    if (formula.factor != 1 || formula.fields.empty()) factors.push_back(std::to_string(formula.factor));
    for (const int32_t f : formula.fields) factors.push_back("c." + tree_->config[f].name);
    return joined(factors, " * ");
  }

  std::string value(const Power& power) const {
    if (!power.base) return cpp_literal(Attribute(power.value));
    std::string base = value(*power.base);
    if (power.over_field >= 0) base += " / c." + tree_->config[power.over_field].name;
    if (power.over_number >= 0) base += " / " + class_->numbers[power.over_number].name;
    return power.is_one_over_root ? fmt::format("1 / std::sqrt({})", base) : fmt::format("std::pow({}, -0.5)", base);
  }

  std::string value(const Argument& a) const {
    if (a.formula) return value(*a.formula);
    return a.field >= 0 ? class_->numbers[a.field].name : cpp_literal(a.value);
  }

  // ---- the constructor

  void constructor() {
    std::vector<std::string> parameters;
    if (class_->takes_config && !is_model_) parameters.push_back("const Config& c");
    for (const NumberField& number : class_->numbers) {
      const std::string type = type_of(number.example);
      const bool by_value = type == "int64_t" || type == "double" || type == "bool";
      parameters.push_back(by_value ? fmt::format("{} {}", type, number.name) : fmt::format("const {}& {}", type, number.name));
    }
    parameters.push_back("const Weights& w");
    if (is_model_) parameters.push_back("const Checker& checker = {}");
    if (is_model_ && class_->takes_config) parameters.push_back("const Config& c = {}");
    std::vector<std::string> initialised{is_model_ ? "Module(w, checker)" : "Module(w)"};
    for (const int32_t field : stored_) {
      const std::string& name = class_->numbers[field].name;
      initialised.push_back(fmt::format("{0}({0})", name));
    }
    for (const Setting& s : class_->settings) {
      initialised.push_back(fmt::format("{}({})", s.name, s.power ? value(*s.power) : "c." + tree_->config[s.field].name));
    }
    for (const TensorField& t : class_->tensors) {
      initialised.push_back(fmt::format("{}(w.{}({}))", t.name, t.is_state ? "state" : "get", quoted(t.path)));
    }
    for (const Child* child : children_) initialised.push_back(fmt::format("{}({})", child->name, built(*child)));
    const bool is_explicit = class_->numbers.empty() && (is_model_ || !class_->takes_config);
    const auto reads_config = [](const std::string& text) {
      for (size_t at = text.find('c'); at != std::string::npos; at = text.find('c', at + 1)) {
        const auto is_word = [&](size_t i) { return i < text.size() && (std::isalnum(text[i]) != 0 || text[i] == '_'); };
        if ((at == 0 || !is_word(at - 1)) && !is_word(at + 1)) return true;
      }
      return false;
    };
    const bool is_read = std::any_of(initialised.begin(), initialised.end(), reads_config);
    if (class_->takes_config && !is_model_ && !is_read) parameters.front() = "const Config&";
    line(fmt::format("{}{}({})", is_explicit ? "explicit " : "", class_->name, joined(parameters)));
    for (size_t i = 0; i < initialised.size(); ++i) {
      const std::string end = i + 1 == initialised.size() ? " {}" : ",";
      out_ += wrapped((i == 0 ? ": " : "  ") + initialised[i] + end, 6, 12, false);
    }
    out_ += '\n';
  }

  bool takes_config(const Use& use) const { return use.module_class >= 0 && tree_->classes[use.module_class].takes_config; }

  // What a module gets its parameters from: below `base`, which is `w`, or in a list the element's.
  static std::string weights_at(const std::string& base, const std::string& path) {
    return path.empty() ? base : fmt::format("{} / {}", base, quoted(path));
  }

  static std::string weights(const Use& use, std::string text) {
    if (use.tied.empty()) return text;
    text = fmt::format("({})", text);
    for (const auto& [local, canonical] : use.tied) text += fmt::format(".tied({}, {})", quoted(local), quoted(canonical));
    return text;
  }

  std::string built(const Child& child) const {
    if (child.is_list) return built_list(child);
    return arguments(child.use, "w", child.use.path, {});
  }

  // h(12, w / "h", 768)  or  h(3, [&](int64_t i) { return Block(widths[i], w / "h" / i); })
  std::string built_list(const Child& child) const {
    const std::string count = value(child.count);
    const bool varies = std::any_of(child.varies.begin(), child.varies.end(), [](bool v) { return v; });
    const bool is_plain = child.first == 0 && child.step == 1 && !varies && child.use.module_class >= 0 &&
                          !child.list_path.ends_with('_');
    const std::string list = weights_at("w", child.list_path);
    if (is_plain) {
      std::vector<std::string> parts{count, list};
      if (takes_config(child.use)) parts.push_back("c");
      for (const Argument& a : child.use.arguments) parts.push_back(value(a));
      return joined(parts);
    }
    std::string index = child.step == 1 ? "i" : fmt::format("{} * i", child.step);
    if (child.first != 0) index = fmt::format("{} + {}", child.first, index);
    std::string each = fmt::format("{} / {}", list, index == "i" ? index : "(" + index + ")");
    if (child.list_path.ends_with('_')) each = fmt::format("w / ({} + std::to_string({}))", quoted(child.list_path), index);
    return fmt::format("{}, [&](int64_t i) {{ return {}({}); }}", count, cpp::type_of(*tree_, child.use),
                       arguments(child.use, each, {}, child.varies));
  }

  // Constructor arguments, weights last: 64, 128, 3, {.stride = 2}, w / "conv"
  std::string arguments(const Use& use, const std::string& base, const std::string& path, const std::vector<bool>& varies) const {
    std::vector<std::string> parts, options;
    const std::string at = weights(use, weights_at(base, path));
    if (!use.sequence.empty()) {
      parts.push_back(at);
      for (const Use& part : use.sequence) {
        const std::string inner = path.empty() ? part.path : path + "." + part.path;
        parts.push_back(fmt::format("{}({})", cpp::type_of(*tree_, part), arguments(part, base, inner, {})));
      }
      return joined(parts);
    }
    if (takes_config(use)) parts.push_back("c");
    for (size_t i = 0; i < use.arguments.size(); ++i) {
      const Argument& a = use.arguments[i];
      const bool each = i < varies.size() && varies[i];
      std::string text = value(a);
      if (each) text = (a.field < 0 ? (std::holds_alternative<Ints>(a.value) ? "Ints" : "Numbers") : "") + text + "[i]";
      if (!use.nn || use.nn->arguments[i].positional) {
        parts.push_back(text);
      } else if (a.field >= 0 || a.formula || each || !same(a.value, use.nn->arguments[i].default_value)) {
        options.push_back(fmt::format(".{} = {}", use.nn->arguments[i].name, text));
      }
    }
    if (!options.empty()) parts.push_back("{" + joined(options) + "}");
    parts.push_back(at);
    return joined(parts);
  }

  // ---- forward

  std::string result_type() const {
    if (returns_struct(*class_)) return "Output";
    if (!returns_tuple(*class_)) return "Tensor";
    return fmt::format("std::tuple<{}>", joined(std::vector<std::string>(class_->outputs.size(), "Tensor")));
  }

  void output_struct() {
    const std::vector<std::string> fields = result_fields(*tree_, *class_);
    line("struct Output {");
    line(fmt::format("Tensor {};", joined(fields)), 4);
    line("template <class F>", 4);
    line("void each(F&& f) const {", 4);
    for (size_t i = 0; i < fields.size(); ++i) {
      line(fmt::format("f({}, {});", quoted(class_->output_names[i]), fields[i]), 6);
    }
    line("}", 4);
    line("};");
    out_ += '\n';
  }

  void forward() {
    std::set<std::string> taken;
    for (const TensorField& t : class_->tensors) taken.insert(t.name);
    for (const Child& child : class_->children) taken.insert(child.name);
    for (const NumberField& number : class_->numbers) taken.insert(number.name);
    for (const Setting& setting : class_->settings) taken.insert(setting.name);
    const std::vector<Helper> helpers = split_long(forward_, std::move(taken));
    function(result_type(), "forward", forward_);
    for (const Helper& helper : helpers) {
      out_ += '\n';
      function(helper.result, helper.name, helper.body);
    }
  }

  void function(const std::string& result, const std::string& name, const Forward& body) {
    line(fmt::format("{} {}({}) const {{", result, name, joined(body.parameters)));
    for (const std::string& s : body.statements) {
      const size_t spaces = s.find_first_not_of(' ');
      line(s.substr(spaces), 4 + spaces);
    }
    line("}");
  }

  const ModelTree* tree_;
  const ModuleClass* class_;
  bool is_model_;
  Forward forward_;
  std::set<int32_t> stored_;
  std::vector<const Child*> children_;
  std::string out_;
};

// The numbers that Python keeps in a configuration, with the values of the recording.
std::string config_struct(const ModelTree& tree) {
  std::string out = "\nstruct Config {\n";
  for (const char* type : {"int64_t", "double"}) {
    std::vector<std::string> fields;
    for (const ConfigField& f : tree.config) {
      if (type_of(f.value) == type) fields.push_back(fmt::format("{} = {}", f.name, cpp_literal(f.value)));
    }
    for (const std::string& f : fields) out += fmt::format("  {} {};\n", type, f);
  }
  return out + "};\n";
}

std::string cache_struct(const CacheStruct& cache) {
  const bool is_whole = cache.name == "Cache";
  std::string out = fmt::format("// What {} keeps of {}.\nstruct {} {{\n", cache.of,
                                is_whole ? "the tokens that it has seen" : "every token", cache.name);
  out += fmt::format("  Tensor lengths;{}\n", is_whole ? "  // tokens of each sequence, i64 [batch]" : "");
  std::string rows;  // as many as a line has room for
  for (const TensorField& row : cache.rows) {
    const std::string next = fmt::format("{}{{lengths, {}}}", row.name, quoted(row.path));
    const bool fits = !rows.empty() && rows.size() + next.size() + 3 <= kColumns;
    if (!fits && !rows.empty()) out += rows + ";\n";
    rows = fits ? rows + ", " + next : "  CacheRows " + next;
  }
  if (!rows.empty()) out += rows + ";\n";
  for (const CacheStruct::Part& part : cache.parts) {
    out += fmt::format("  {} {}{{lengths}};\n", part.is_list ? fmt::format("CacheList<{}>", part.type) : part.type, part.name);
  }
  return out + "};\n";
}

// As many words as a line has room for.
std::string comment_lines(const std::string& text) {
  std::string out, line = "//";
  for (const std::string& word : parts(text, ' ')) {
    if (line.size() + 1 + word.size() > kColumns && line != "//") {
      out += line + "\n";
      line = "//  ";
    }
    line += " " + word;
  }
  return out + line + "\n";
}

void rename_model(ModelTree& tree, const std::string& name) {
  if (name.empty()) return;
  if (identifier(name) != name) {
    throw Error(ErrorCode::usage, "the name of the model is not one that a class can have")
        .expected("letters, digits and _, such as " + camel_case(name))
        .found(name);
  }
  for (ModuleClass& other : tree.classes) {
    if (other.name == name) other.name += "Part";
  }
  tree.classes.back().name = name;
}

}  // namespace

PrintedModel print_header(const ModelTree& recovered, const std::string& name) {
  ModelTree tree = recovered;
  rename_model(tree, name);
  rename_hiding_members(tree.classes);
  find_caches(tree);
  const ModuleClass& model = tree.model();
  PrintedModel printed;
  printed.name = model.name;
  printed.name_space = namespace_name(model.name);
  printed.notes = tree.notes;
  printed.is_random = draws_numbers(tree.program->graph);
  printed.has_cache = !tree.caches.empty();
  printed.has_states = !tree.program->states.empty() && !printed.has_cache;
  std::string out = fmt::format("// {}, ported from PyTorch by pycandle codegen.\n", last_part(model.python_class));
  for (const std::string& note : tree.notes) out += comment_lines("Note: " + note + ".");
  const auto& nodes = tree.program->graph.nodes;
  const bool has_regions = std::any_of(nodes.begin(), nodes.end(), [](const Node& node) { return !node.regions.empty(); });
  const bool has_powers = std::any_of(tree.classes.begin(), tree.classes.end(), [](const ModuleClass& c) {
    return std::any_of(c.settings.begin(), c.settings.end(), [](const Setting& s) { return s.power && s.power->base; });
  });
  out += fmt::format("#pragma once\n\n{}{}#include <pycandle/pycandle.h>\n\n", has_powers ? "#include <cmath>\n\n" : "",
                     has_regions ? "#include <pycandle/control_flow.h>\n" : "");
  out += fmt::format("namespace {} {{\nusing namespace pycandle;\n", printed.name_space);
  const auto& inputs = tree.program->inputs;
  if (std::any_of(inputs.begin(), inputs.end(), [&](const Input& i) { return tree.calls->gap(i.value) != nullptr; })) {
    out +=
        "\n// Stands where PyTorch had something that is not supported; `pycandle todos` lists the places.\n"
        "[[noreturn]] inline Tensor todo(const char* what) { throw Error(ErrorCode::gap, what); }\n";
  }
  if (!tree.config.empty()) out += config_struct(tree);
  for (const CacheStruct& cache : tree.caches) out += "\n" + cache_struct(cache);
  for (size_t c = 0; c < tree.classes.size(); ++c) {
    out += "\n" + ClassPrinter(tree, tree.classes[c], c + 1 == tree.classes.size()).text();
  }
  out += fmt::format("\n}}  // namespace {}\n", printed.name_space);
  printed.header = PrintedHeader(std::move(out));
  return printed;
}

}  // namespace pycandle::emit::cpp
