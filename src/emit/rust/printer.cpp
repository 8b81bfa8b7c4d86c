#include "emit/rust/printer.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "emit/caches.h"
#include "emit/class_names.h"
#include "emit/names.h"
#include "emit/rust/body.h"
#include "emit/rust/checks.h"
#include "emit/rust/layers.h"
#include "emit/rust/text.h"

namespace pycandle::emit::rust {
namespace {

constexpr size_t kMostArguments = 7;  // before clippy objects

// What a file brings in by `use`, where its text has the word.
const std::vector<std::pair<const char*, const char*>>& imports() {
  static const std::vector<std::pair<const char*, const char*>> names{{"candle_core", "DType"},
                                                                      {"candle_core", "Device"},
                                                                      {"candle_core", "Result"},
                                                                      {"candle_core", "Tensor"},
                                                                      {"candle_core", "D"},
                                                                      {"candle_nn", "batch_norm"},
                                                                      {"candle_nn", "conv1d"},
                                                                      {"candle_nn", "conv1d_no_bias"},
                                                                      {"candle_nn", "conv2d"},
                                                                      {"candle_nn", "conv2d_no_bias"},
                                                                      {"candle_nn", "embedding"},
                                                                      {"candle_nn", "group_norm"},
                                                                      {"candle_nn", "layer_norm"},
                                                                      {"candle_nn", "layer_norm_no_bias"},
                                                                      {"candle_nn", "linear"},
                                                                      {"candle_nn", "linear_no_bias"},
                                                                      {"candle_nn", "rms_norm"},
                                                                      {"candle_nn", "BatchNorm"},
                                                                      {"candle_nn", "BatchNormConfig"},
                                                                      {"candle_nn", "Conv1d"},
                                                                      {"candle_nn", "Conv1dConfig"},
                                                                      {"candle_nn", "Conv2d"},
                                                                      {"candle_nn", "Conv2dConfig"},
                                                                      {"candle_nn", "Embedding"},
                                                                      {"candle_nn", "GroupNorm"},
                                                                      {"candle_nn", "LayerNorm"},
                                                                      {"candle_nn", "Linear"},
                                                                      {"candle_nn", "RmsNorm"},
                                                                      {"candle_nn", "VarBuilder"},
                                                                      {"pycandle", "nn"},
                                                                      {"pycandle", "ops"},
                                                                      {"pycandle", "py_check"},
                                                                      {"pycandle", "PyChecker"},
                                                                      {"serde", "Deserialize"},
                                                                      {"serde", "Serialize"}};
  return names;
}

// Types that a struct of the model must not hide.
bool is_taken_type(const std::string& name) {
  static const std::set<std::string> more{"Module", "ModuleT", "Scoped", "Cache",   "Config", "Output",
                                          "Option", "Some",    "None",   "Ok",      "Err",    "Vec",
                                          "String", "Box",     "Self",   "Default", "Debug",  "Clone"};
  if (more.count(name) != 0) return true;
  return std::any_of(imports().begin(), imports().end(), [&](const auto& import) { return import.second == name; });
}

// A function is one where it is called.
bool has_word(std::string_view text, std::string_view word) {
  const bool is_function = std::islower(static_cast<unsigned char>(word[0])) != 0 && word != "py_check";
  const auto is_word = [](char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; };
  for (size_t at = text.find(word); at != std::string_view::npos; at = text.find(word, at + 1)) {
    const size_t end = at + word.size();
    const bool is_path = at >= 2 && text[at - 1] == ':' && text[at - 2] == ':';
    const bool is_member = at >= 1 && text[at - 1] == '.';
    const bool is_called = end < text.size() && text[end] == '(';
    if ((at == 0 || !is_word(text[at - 1])) && (end == text.size() || !is_word(text[end])) && !is_path && !is_member &&
        (is_called || !is_function))
      return true;
  }
  return false;
}

// nn::conv, and not candle_nn::…
bool has_path(std::string_view text, std::string_view module) {
  const std::string path = fmt::format("{}::", module);
  for (size_t at = text.find(path); at != std::string_view::npos; at = text.find(path, at + 1)) {
    const char before = at == 0 ? ' ' : text[at - 1];
    if (before == ' ' || before == '(' || before == '&' || before == '<' || before == '[') return true;
  }
  return false;
}

// Every name as Rust has it: snake_case fields, CamelCase structs, no keywords.
void rename(ModelTree& tree, const std::string& model) {
  Scope types;
  if (!model.empty()) {
    if (type_name(model) != model || is_taken_type(model)) {
      throw Error(ErrorCode::usage, "the name of the model is not one that a Rust struct can have")
          .expected("letters and digits that begin with a capital, such as " + type_name(model))
          .found(model);
    }
    tree.classes.back().name = types.take(model);
  }
  for (size_t c = tree.classes.size() - (model.empty() ? 0 : 1); c-- > 0;) {
    std::string name = type_name(tree.classes[c].name);
    if (is_taken_type(name)) name += "Module";
    tree.classes[c].name = types.take(name);
  }
  for (ConfigField& field : tree.config) field.name = rust_name(field.name);
  for (ModuleClass& c : tree.classes) {
    Scope scope;
    for (const char* name : {"vb", "c", "checker", "i"}) scope.reserve(name);
    for (TensorField& t : c.tensors) t.name = scope.take(rust_name(t.name));
    for (TensorField& row : c.rows) row.name = rust_name(row.name);
    for (Child& child : c.children) child.name = scope.take(rust_name(child.name));
    for (NumberField& number : c.numbers) number.name = scope.take(rust_name(number.name));
    for (Setting& setting : c.settings) setting.name = scope.take(rust_name(setting.name));
  }
}

std::string number_type(const Attribute& number) {
  if (std::holds_alternative<double>(number)) return "f64";
  if (std::holds_alternative<Ints>(number)) return "Vec<usize>";
  if (std::holds_alternative<Numbers>(number)) return "Vec<f64>";
  if (const auto* n = std::get_if<int64_t>(&number)) return *n < 0 ? "i64" : "usize";
  throw Error(ErrorCode::gap, "Candle has no complex numbers").found(to_string(number));
}

DType usual_dtype(const Program& p) {
  std::map<DType, size_t> count;
  for (const Parameter& q : p.parameters) {
    if (q.value != kNoValue && is_floating(p.graph.type(q.value).dtype)) ++count[p.graph.type(q.value).dtype];
  }
  DType usual = DType::f32;
  size_t most = 0;
  for (const auto& [dtype, n] : count) {
    if (n > most) {
      most = n;
      usual = dtype;
    }
  }
  return usual;
}

class ClassPrinter {
 public:
  ClassPrinter(const ModelTree& tree, const ModuleClass& made, bool is_model, DType dtype)
      : tree_(&tree),
        class_(&made),
        is_model_(is_model),
        dtype_(dtype),
        result_(result_type(tree, made)),
        forward_(write_forward(tree, made)) {
    for (const auto& [place, field] : made.places) stored_.insert(field);
    for (const Step& step : made.steps) {
      if (step.kind == Step::Kind::loop && step.count.field >= 0) stored_.insert(step.count.field);
    }
  }

  std::string text() {
    out_ += "/// " + comment() + "\n#[derive(Debug, Clone)]\npub struct " + class_->name + " {\n";
    for (const int32_t field : stored_)
      line(1, "pub {}: {},", class_->numbers[field].name, number_type(class_->numbers[field].example));
    for (const Setting& s : class_->settings) line(1, "pub {}: {},", s.name, number_type(tree_->config[s.field].value));
    for (const TensorField& t : class_->tensors) line(1, "pub {}: Tensor,", t.name);
    for (const Child& child : class_->children) line(1, "pub {}: {},", child.name, declared_type(child));
    if (checks()) line(1, "pub checker: Option<PyChecker>,");
    out_ += "}\n\n";
    if (!result_.struct_name.empty()) output_struct();
    out_ += "impl " + class_->name + " {\n";
    load();
    out_ += '\n';
    forward();
    out_ += "}\n";
    return std::move(out_);
  }

 private:
  template <class... A> void line(size_t depth, fmt::format_string<A...> format, A&&... parts) {
    out_ += std::string(4 * depth, ' ') + fmt::format(format, std::forward<A>(parts)...) + '\n';
  }

  std::string comment() const {
    std::string text = last_part(class_->python_class);
    if (class_->python_class == "torch.nn.modules.container.Sequential" && !is_model_) {
      text = "nn.Sequential " + tree_->program->calls[class_->call].path;
    } else if (!class_->file_line.empty()) {
      text += ", " + class_->file_line;
    }
    if (class_->instances > 1) text += fmt::format(" ({} instances)", class_->instances);
    return text + ".";
  }

  // The struct has a checker when it has modules to check.
  static bool checks(const ModuleClass& made) { return !made.children.empty(); }
  bool checks() const { return checks(*class_) || is_model_; }

  std::string type_of(const Use& use) const {
    if (use.module_class >= 0) return tree_->classes[use.module_class].name;
    return layer_text(*use.nn, [&](size_t i) { return rust_literal(use.nn->arguments[i].value); }).type;
  }
  std::string declared_type(const Child& child) const {
    return child.is_list ? fmt::format("Vec<{}>", type_of(child.use)) : type_of(child.use);
  }

  std::string value(const Argument& a) const {
    if (a.formula) {
      std::vector<std::string> factors;
      if (a.formula->factor != 1) factors.push_back(std::to_string(a.formula->factor));
      for (const int32_t f : a.formula->fields) factors.push_back("c." + tree_->config[f].name);
      return joined(factors, " * ");
    }
    return a.field >= 0 ? class_->numbers[a.field].name : rust_literal(a.value);
  }

  // ---- load

  void load() {
    const bool has_weights = !class_->children.empty() || !class_->tensors.empty();
    std::vector<std::string> parameters{has_weights ? "vb: VarBuilder" : "_vb: VarBuilder"};
    if (is_model_) {
      model_load();
      if (class_->takes_config) parameters.emplace_back("c: &Config");
    } else if (class_->takes_config) {
      parameters.emplace_back("c: &Config");
    }
    for (const NumberField& number : class_->numbers) {
      const std::string type = number_type(number.example);
      parameters.push_back(
          fmt::format("{}: {}", number.name, type.starts_with("Vec<") ? "&[" + type.substr(4, type.size() - 5) + "]" : type));
    }
    if (checks()) parameters.emplace_back("checker: Option<PyChecker>");
    if (parameters.size() > kMostArguments) line(1, "#[allow(clippy::too_many_arguments)]");
    const bool is_second = is_model_ && class_->takes_config;
    line(1, "pub fn {}({}) -> Result<Self> {{", is_second ? "with_config" : "load", joined(parameters));
    line(2, "Ok(Self {{");
    for (const int32_t field : stored_) {
      const NumberField& number = class_->numbers[field];
      const bool is_list = number_type(number.example).starts_with("Vec<");
      line(3, "{}{},", number.name, is_list ? fmt::format(": {}.to_vec()", number.name) : "");
    }
    for (const Setting& s : class_->settings) line(3, "{}: c.{},", s.name, tree_->config[s.field].name);
    for (const TensorField& t : class_->tensors) line(3, "{}: {},", t.name, stored(t));
    for (const Child& child : class_->children) line(3, "{}: {},", child.name, built(child));
    if (checks()) line(3, "checker,");
    line(2, "}})");
    line(1, "}}");
  }

  // The seeds' form: weights and a checker; the sizes are the recorded ones.
  void model_load() {
    if (!class_->takes_config) return;
    line(1, "pub fn load(vb: VarBuilder, checker: Option<PyChecker>) -> Result<Self> {{");
    line(2, "Self::with_config(vb, &Config::default(), checker)");
    line(1, "}}");
    out_ += '\n';
  }

  // Has another instance of the class another shape there?
  bool varies(const TensorField& t) const {
    const Program& p = *tree_->program;
    const auto shape_below = [&](const ModuleCall& call) {
      const std::string name = call.path.empty() ? t.path : call.path + "." + t.path;
      for (const Parameter& q : p.parameters) {
        const bool is_it = q.name == name || std::find(q.aliases.begin(), q.aliases.end(), name) != q.aliases.end();
        if (is_it) return q.type.shape;
      }
      return p.graph.type(t.value).shape;
    };
    return class_->instances > 1 && std::any_of(p.calls.begin(), p.calls.end(), [&](const ModuleCall& call) {
             return call.class_name == class_->python_class && shape_below(call) != p.graph.type(t.value).shape;
           });
  }

  std::string stored(const TensorField& t) const {
    const Type& type = tree_->program->graph.type(t.value);
    std::vector<std::string> sizes;
    for (const Dim d : type.shape) sizes.push_back(std::to_string(d.number()));
    const std::string shape = tuple_of(sizes);
    if (varies(t)) return fmt::format("vb.get_unchecked_dtype({}, {})?", quoted(t.path), dtype_literal(type.dtype));
    if (type.dtype == dtype_) return fmt::format("vb.get({}, {})?", shape, quoted(t.path));
    return fmt::format("vb.get_with_hints_dtype({}, {}, Default::default(), {})?", shape, quoted(t.path),
                       dtype_literal(type.dtype));
  }

  std::string weights(const Use& use, const std::string& path) const {
    const std::string at = path.empty() ? "vb.clone()" : fmt::format("vb.pp({})", path);
    if (use.tied.empty()) return at;
    std::vector<std::string> ties;
    for (const auto& [local, canonical] : use.tied) ties.push_back(fmt::format("({}, {})", quoted(local), quoted(canonical)));
    return fmt::format("nn::tied({}, &[{}])", at, joined(ties));
  }

  std::string checker_at(const std::string& path) const {
    return path.empty() ? "checker.clone()" : fmt::format("checker.pp({})", path);
  }

  std::string made(const Child& child, const std::string& path) const {
    const Use& use = child.use;
    const auto argument = [&](size_t i) {
      const bool each = i < child.varies.size() && child.varies[i];
      return each ? value(use.arguments[i]) + "[i]" : value(use.arguments[i]);
    };
    std::vector<std::string> parts;
    if (use.nn) {
      const LayerText layer = layer_text(*use.nn, argument);
      parts = layer.arguments;
      parts.push_back(weights(use, path));
      return fmt::format("{}({})", layer.function, joined(parts));
    }
    const ModuleClass& other = tree_->classes[use.module_class];
    parts.push_back(weights(use, path));
    if (other.takes_config) parts.emplace_back("c");
    for (size_t i = 0; i < use.arguments.size(); ++i) {
      const bool is_list = number_type(other.numbers[i].example).starts_with("Vec<");
      parts.push_back((is_list ? "&" : "") + argument(i));
    }
    if (checks(other)) parts.push_back(checker_at(path));
    return fmt::format("{}::load({})", other.name, joined(parts));
  }

  std::string built(const Child& child) const {
    if (!child.is_list) return made(child, quoted(child.use.path)) + "?";
    std::string index = child.step == 1 ? "i" : fmt::format("{} * i", child.step);
    if (child.first != 0) index = fmt::format("{} + {}", index, child.first);
    std::string path = index;
    if (child.list_path.ends_with('_')) {
      path = fmt::format("format!(\"{}{{}}\", {})", child.list_path, index);
      if (index == "i") path = fmt::format("format!(\"{}{{i}}\")", child.list_path);
    } else if (!child.list_path.empty()) {
      path = fmt::format("format!(\"{}.{{}}\", {})", child.list_path, index);
      if (index == "i") path = fmt::format("format!(\"{}.{{i}}\")", child.list_path);
    }
    return fmt::format("(0..{}).map(|i| {}).collect::<Result<_>>()?", value(child.count), made(child, path));
  }

  // ---- forward

  void output_struct() {
    out_ += "/// What `" + class_->name + "` gives.\n#[derive(Debug, Clone)]\npub struct " + result_.struct_name + " {\n";
    for (const std::string& field : result_.fields) line(1, "pub {}: Tensor,", field);
    out_ += "}\n\n";
  }

  void forward() {
    std::vector<std::string> parameters{"&self"};
    parameters.insert(parameters.end(), forward_.parameters.begin(), forward_.parameters.end());
    if (parameters.size() > kMostArguments) line(1, "#[allow(clippy::too_many_arguments)]");
    line(1, "pub fn forward({}) -> Result<{}> {{", joined(parameters), result_.text);
    for (const std::string& s : forward_.statements) line(2, "{}", s);
    line(1, "}}");
  }

  const ModelTree* tree_;
  const ModuleClass* class_;
  bool is_model_;
  DType dtype_;
  ResultType result_;
  Forward forward_;
  std::set<int32_t> stored_;
  std::string out_;
};

// The numbers that Python keeps in a configuration; those of the recording are the defaults.
std::string config_struct(const ModelTree& tree) {
  std::string out =
      "/// The sizes that Python keeps in a configuration.\n#[derive(Debug, Clone, Serialize, Deserialize)]\n#[serde(default)]\n"
      "pub struct Config {\n";
  for (const ConfigField& f : tree.config) out += fmt::format("    pub {}: {},\n", f.name, number_type(f.value));
  out += "}\n\nimpl Default for Config {\n    fn default() -> Self {\n        Self {\n";
  for (const ConfigField& f : tree.config) out += fmt::format("            {}: {},\n", f.name, rust_literal(f.value));
  return out + "        }\n    }\n}\n";
}

std::string cache_struct(const CacheStruct& cache) {
  const bool is_whole = cache.name == "Cache";
  std::string out = fmt::format("/// What {} keeps of {}.\n#[derive(Debug, Clone, Default)]\npub struct {} {{\n", cache.of,
                                is_whole ? "the tokens that it has seen" : "every token", cache.name);
  if (is_whole) out += "    /// Tokens of each sequence: all sequences of a batch have one length.\n    pub seen: usize,\n";
  for (const TensorField& row : cache.rows) out += fmt::format("    pub {}: nn::CacheRows,\n", row.name);
  for (const CacheStruct::Part& part : cache.parts)
    out += fmt::format("    pub {}: {},\n", part.name, part.is_list ? "nn::CacheList<" + part.type + ">" : part.type);
  return out + "}\n";
}

// Without comments and the texts of literals.
std::string only_code(const std::string& body) {
  std::string code;
  bool in_comment = false, in_text = false;
  for (size_t i = 0; i < body.size(); ++i) {
    if (!in_text && body.compare(i, 2, "//") == 0) in_comment = true;
    if (body[i] == '\n') in_comment = false;
    if (!in_comment && body[i] == '"' && (i == 0 || body[i - 1] != '\\')) in_text = !in_text;
    if (!in_comment && !in_text) code += body[i];
  }
  return code;
}

std::string uses(const std::string& text) {
  const std::string body = only_code(text);
  std::map<std::string, std::vector<std::string>> by_crate;
  for (const auto& [crate, name] : imports()) {
    const bool is_module = std::string_view(name) == "nn" || std::string_view(name) == "ops";
    if (is_module ? has_path(body, name) : has_word(body, name)) by_crate[crate].emplace_back(name);
  }
  if (body.find(".forward(") != std::string::npos) {
    static const std::vector<std::string> layers{"Linear", "Conv1d", "Conv2d", "Embedding", "GroupNorm", "LayerNorm", "RmsNorm"};
    const bool has_layer = std::any_of(layers.begin(), layers.end(),
                                       [&](const std::string& layer) { return has_word(body, layer); }) ||
                           body.find(": nn::") != std::string::npos || body.find("<nn::") != std::string::npos;
    if (has_layer) by_crate["candle_nn"].emplace_back("Module");
  }
  if (body.find(".forward_t(") != std::string::npos) by_crate["candle_nn"].emplace_back("ModuleT");
  if (body.find("checker.pp(") != std::string::npos) by_crate["pycandle"].emplace_back("Scoped");
  std::string out;
  for (const auto& [crate, names] : by_crate) {
    out += names.size() == 1 ? fmt::format("use {}::{};\n", crate, names[0])
                             : fmt::format("use {}::{{{}}};\n", crate, joined(names));
  }
  return out;
}

}  // namespace

PrintedModel print_module(const ModelTree& given, const std::string& name) {
  ModelTree tree = given;
  rename(tree, name);
  find_caches(tree);
  const ModuleClass& model = tree.model();
  PrintedModel printed;
  printed.name = model.name;
  printed.notes = tree.notes;
  printed.dtype = usual_dtype(*tree.program);
  std::string body;
  if (!tree.config.empty()) body += "\n" + config_struct(tree);
  printed.has_cache = !tree.caches.empty();
  for (const CacheStruct& cache : tree.caches) body += "\n" + cache_struct(cache);
  for (size_t c = 0; c < tree.classes.size(); ++c) {
    body += "\n" + ClassPrinter(tree, tree.classes[c], c + 1 == tree.classes.size(), printed.dtype).text();
  }
  printed.text = fmt::format("//! {}, ported from PyTorch by `pycandle codegen`.\n", last_part(model.python_class));
  for (const std::string& note : tree.notes) printed.text += fmt::format("//! Note: {}.\n", note);
  printed.text += "\n" + uses(body) + body;
  for (const ValueId v : model.inputs) {
    for (const Input& input : tree.program->inputs) {
      if (input.value == v) printed.inputs.push_back(input.name);
    }
  }
  const ResultType result = result_type(tree, model);
  for (size_t i = 0; i < tree.program->outputs.size(); ++i) {
    const Output& output = tree.program->outputs[i];
    printed.outputs.push_back(output.name);
    const auto at = std::find(model.outputs.begin(), model.outputs.end(), output.value);
    const size_t n = at == model.outputs.end() ? i : static_cast<size_t>(at - model.outputs.begin());
    printed.fields.push_back(model.outputs.size() == 1 ? ""
                             : result.fields.empty()   ? fmt::format(".{}", n)
                                                       : "." + result.fields[n]);
  }
  return printed;
}

}  // namespace pycandle::emit::rust
