#include "import/onnx/structure.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "import/importer.h"

namespace pycandle::onnx {
namespace {

constexpr size_t kDeepest = 64, kLongest = 256;  // modules in modules, characters of a name

constexpr std::string_view kScopes = "pkg.torch.onnx.name_scopes", kClasses = "pkg.torch.onnx.class_hierarchy",
                           kStack = "pkg.torch.onnx.stack_trace", kSequential = "torch.nn.modules.container.Sequential";

bool is_number(std::string_view text) { return !text.empty() && text.find_first_not_of("0123456789") == std::string_view::npos; }

std::string_view last_of(std::string_view path) {
  const size_t dot = path.rfind('.');
  return dot == std::string_view::npos ? path : path.substr(dot + 1);
}

std::string_view all_but_last_of(std::string_view path) {
  const size_t dot = path.rfind('.');
  return dot == std::string_view::npos ? std::string_view() : path.substr(0, dot);
}

bool is_below(std::string_view name, std::string_view path) {
  return name.size() > path.size() && name.starts_with(path) && name[path.size()] == '.';
}

bool is_sane(std::string_view name) {
  return !name.empty() && name.size() <= kLongest &&
         std::all_of(name.begin(), name.end(), [](char c) { return c > ' ' && c < 127; });
}

// ['', 'layer1', "it's"], as Python prints a list of texts.
std::vector<std::string> python_list(std::string_view text) {
  std::vector<std::string> found;
  for (size_t i = 0; i < text.size() && found.size() <= kDeepest;) {
    const size_t begin = text.find_first_of("'\"", i);
    if (begin == std::string_view::npos) break;
    const size_t end = text.find(text[begin], begin + 1);
    if (end == std::string_view::npos) break;
    found.emplace_back(text.substr(begin + 1, end - begin - 1));
    i = end + 1;
  }
  return found;
}

std::string_view trimmed(std::string_view text) {
  const size_t begin = text.find_first_not_of(" \t\r");
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(" \t\r") + 1 - begin);
}

// As people write the file: from the package on, or its name alone.
std::string short_file(std::string_view path) {
  for (const std::string_view folder : {"site-packages/", "dist-packages/"})
    if (const size_t at = path.rfind(folder); at != std::string_view::npos) return std::string(path.substr(at + folder.size()));
  const size_t slash = path.starts_with('/') ? path.rfind('/') : std::string_view::npos;
  return std::string(slash == std::string_view::npos ? path : path.substr(slash + 1));
}

std::string as_ascii(std::string_view text) {
  std::string out(text.substr(0, kLongest));
  std::replace_if(out.begin(), out.end(), [](char c) { return c < ' ' || c > '~'; }, '?');
  return out;
}

// "out = self.bn1(out)" → "out"; of anything but an assignment nothing. An argument by name, which a line of its own may be, is
// written without spaces.
std::string assigned_in(std::string_view source) {
  size_t equals = source.find(" = ");
  for (const std::string_view augmented : {" += ", " -= ", " *= ", " /= "}) equals = std::min(equals, source.find(augmented));
  if (equals == std::string_view::npos) return {};
  const std::string_view names = source.substr(0, equals);
  const auto may_stand = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '.' || c == ',' ||
           c == ' ';
  };
  if (names.empty() || is_number(names.substr(0, 1)) || !std::all_of(names.begin(), names.end(), may_stand)) return {};
  for (size_t space = names.find(' '); space != std::string_view::npos; space = names.find(' ', space + 1))
    if (space == 0 || names[space - 1] != ',') return {};  // "if x = …", and the like
  return std::string(names);
}

bool is_torchs(std::string_view file) { return file.starts_with("torch/nn/"); }

// relu_1 → relu, 1: the exporter's number of a further call.
std::pair<std::string_view, int64_t> numbered(std::string_view name) {
  const size_t line = name.rfind('_');
  if (line == std::string_view::npos || line == 0 || !is_number(name.substr(line + 1)) || name.size() - line > 7)
    return {name, 0};
  int64_t number = 0;
  std::from_chars(name.data() + line + 1, name.data() + name.size(), number);
  return {name.substr(0, line), number};
}

// encoder.layer.0 → Layer, layer1 → Layer: a name for a class that the file does not name.
std::string class_of_path(std::string_view path) {
  while (is_number(last_of(path)) && !all_but_last_of(path).empty()) path = all_but_last_of(path);
  std::string name(last_of(path));
  name.resize(std::max<size_t>(name.find_last_not_of("0123456789_") + 1, 1));
  std::string made;
  bool is_start = true;
  for (const char c : name) {
    if (c != '_') made += is_start ? static_cast<char>(std::toupper(static_cast<unsigned char>(c))) : c;
    is_start = c == '_';
  }
  return made;
}

// "/layer1/layer1.0/conv1/Conv" → {"layer1", "layer1.0", "conv1"}; nothing for names that are made otherwise.
std::optional<std::vector<std::string_view>> scopes_of(const Node& n) {
  if (n.name.size() < 2 || n.name[0] != '/') return std::nullopt;
  std::vector<std::string_view> parts;
  for (size_t begin = 1; begin <= n.name.size();) {
    const size_t end = std::min(n.name.find('/', begin), n.name.size());
    parts.push_back(n.name.substr(begin, end - begin));
    begin = end + 1;
  }
  if (parts.size() > kDeepest) return std::nullopt;
  parts.pop_back();
  if (!std::all_of(parts.begin(), parts.end(), is_sane)) return std::nullopt;
  return parts;
}

// What a module calls the tensors that it gives to an operator.
const std::vector<std::string_view>* roles_of(const Node& n) {
  static const std::vector<std::string_view> weights{"", "weight", "bias"},
      statistics{"", "weight", "bias", "running_mean", "running_var"}, table{"weight"}, biases{"bias", "bias"};
  static const std::map<std::string_view, const std::vector<std::string_view>*> roles{{"Conv", &weights},
                                                                                      {"ConvTranspose", &weights},
                                                                                      {"Gemm", &weights},
                                                                                      {"MatMul", &weights},
                                                                                      {"LayerNormalization", &weights},
                                                                                      {"GroupNormalization", &weights},
                                                                                      {"InstanceNormalization", &weights},
                                                                                      {"RMSNormalization", &weights},
                                                                                      {"PRelu", &weights},
                                                                                      {"BatchNormalization", &statistics},
                                                                                      {"Gather", &table},
                                                                                      {"Add", &biases}};
  const auto found = n.domain.empty() ? roles.find(n.op) : roles.end();
  return found == roles.end() ? nullptr : found->second;
}

}  // namespace

Structure::Structure(const Model& model, Program& program) : model_(&model), program_(&program), open_{Open{}} {
  for (const Node& n : model.graph.nodes) {
    if (n.op == "Identity" && n.inputs.size() == 1 && n.outputs.size() == 1) renamed_.emplace(n.outputs[0], n.inputs[0]);
    if (!scopes_of(n)) continue;
    for (size_t slash = n.name.find('/', 1); slash != std::string_view::npos; slash = n.name.find('/', slash + 1))
      scopes_.emplace(n.name.substr(0, slash));
  }
  find_readers();
}

std::optional<Structure::Place> Structure::place_of(const Node& n) const {
  std::optional<Place> place = by_metadata(n);
  if (!place) place = by_name(n);
  if (place) correct_owner(n, *place);
  return place;
}

void Structure::find_readers() {
  const auto common = [](const Place& a, const Place& b) {
    size_t depth = 0;
    while (depth < std::min(a.modules.size(), b.modules.size()) && a.modules[depth].path == b.modules[depth].path) ++depth;
    return depth;
  };
  for (const Node& n : model_->graph.nodes) {
    if (n.op == "Constant" || n.op == "Identity") continue;
    std::optional<Place> place = place_of(n);
    if (!place) continue;
    const Place& here = places_.emplace(&n, std::move(*place)).first->second;
    if (!here.call_of_torch.empty()) last_of_call_[here.call_of_torch] = &n;
    for (const std::string_view input : n.inputs) {
      const auto [known, is_new] = readers_.emplace(stored_name(input), Readers{&here, here.modules.size()});
      if (!is_new) known->second.depth = std::min(known->second.depth, common(*known->second.first, here));
    }
  }
}

// Exporters compute once what calls of several modules have in common: such a value, which is no result of a call of torch,
// belongs to the module around them all.
size_t Structure::depth_for_all(const Node& n, const Place& place) const {
  const size_t own = place.modules.size();
  if (place.call_of_torch.empty() || n.outputs.empty() || last_of_call_.at(place.call_of_torch) == &n) return own;
  const auto readers = readers_.find(n.outputs[0]);
  if (readers == readers_.end()) return own;
  size_t depth = 0;
  const std::vector<Module>& others = readers->second.first->modules;
  while (depth < std::min(own, readers->second.depth) && place.modules[depth].path == others[depth].path) ++depth;
  return depth;
}

std::string Structure::form_of_torch(const Node& n) {
  static const std::set<std::string, std::less<>> lookups{"aten.embedding.default", "aten.gather.default", "embedding", "gather",
                                                          "take"};
  const bool is_lookup = n.op == "Gather" || n.op == "GatherElements", is_mean = n.op == "ReduceMean" && n.inputs.size() == 2;
  const auto classes = n.metadata.find(kClasses);
  if (classes == n.metadata.end() || !n.domain.empty() || (!is_lookup && !is_mean)) return {};
  const std::vector<std::string> names = python_list(classes->second);
  const bool is_pool = is_mean && names.size() > 1 &&
                       names[names.size() - 2].starts_with("torch.nn.modules.pooling.AdaptiveAvgPool");
  return is_pool || (is_lookup && !names.empty() && lookups.contains(names.back())) ? fmt::format("onnx.pycandle.{}.1", n.op)
                                                                                    : "";
}

std::string_view Structure::stored_name(std::string_view name) const {
  for (auto found = renamed_.find(name); found != renamed_.end(); found = renamed_.find(name)) name = found->second;
  return name;
}

// Is there a tensor of this module in the file?
bool Structure::owns_parameters(const std::string& path) const {
  const auto next = model_->by_key.lower_bound(path + ".");
  return next != model_->by_key.end() && next->first.starts_with(path + ".");
}

std::optional<Structure::Place> Structure::by_metadata(const Node& n) {
  const auto scopes = n.metadata.find(kScopes), classes = n.metadata.find(kClasses);
  if (scopes == n.metadata.end() || classes == n.metadata.end()) return std::nullopt;
  const std::vector<std::string> paths = python_list(scopes->second), names = python_list(classes->second);
  if (paths.size() != names.size() || paths.empty()) return std::nullopt;
  Place place;
  if (names.back().starts_with("aten.")) place.call_of_torch = paths.back();
  for (size_t i = 0; i + 1 < paths.size(); ++i) {  // the last one is the operator
    if (paths[i].empty()) {
      place.root_class = names[i];
    } else if (paths[i] != names[i]) {  // "_empty_nn_module_stack_from_metadata_hook": outside the modules
      if (!is_sane(paths[i]) || !is_sane(names[i])) return std::nullopt;
      Module m{paths[i].substr(0, paths[i].find('@')), names[i], {}, 0, 0};
      if (m.path.size() < paths[i].size())  // layer@1: its second call
        std::from_chars(paths[i].data() + m.path.size() + 1, paths[i].data() + paths[i].size(), m.occurrence);
      place.modules.push_back(std::move(m));
    }
  }
  const auto stack = n.metadata.find(kStack);
  std::string_view rest = stack == n.metadata.end() ? std::string_view() : stack->second;
  while (!rest.empty()) {
    const std::string_view line = trimmed(rest.substr(0, rest.find('\n')));
    rest = rest.size() > rest.find('\n') ? rest.substr(rest.find('\n') + 1) : std::string_view();
    const size_t quote = line.find('"'), end = line.rfind('"'), number = line.find(", line ");
    if (line.starts_with("File \"") && end > quote && number != std::string_view::npos) {
      Frame frame;
      frame.file = as_ascii(short_file(line.substr(quote + 1, end - quote - 1)));
      std::from_chars(line.data() + number + 7, line.data() + line.size(), frame.line);
      place.frames.push_back(std::move(frame));
    } else if (!place.frames.empty() && place.frames.back().source.empty()) {
      place.frames.back().source = as_ascii(line);
    }
  }
  if (place.frames.size() != place.modules.size() + 1) return place;
  for (size_t i = 0; i < place.modules.size(); ++i) {  // frame i is the code that calls module i
    place.modules[i].occurrence = place.frames[i].line;
    place.modules[i].line = place.frames[i + 1].line;
    if (!is_torchs(place.frames[i].file)) place.modules[i].assigned_to = assigned_in(place.frames[i].source);
  }
  return place;
}

std::optional<Structure::Place> Structure::by_name(const Node& n) const {
  const auto scopes = scopes_of(n);
  if (!scopes) return std::nullopt;
  Place place;
  std::string raw, path;
  std::string_view before;
  for (const std::string_view scope : *scopes) {
    auto [name, occurrence] = numbered(scope);
    const bool is_of_sequence = !before.empty() && is_below(scope, before);
    const std::string own = is_of_sequence ? path + std::string(scope.substr(before.size()))
                            : path.empty() ? std::string(scope)
                                           : fmt::format("{}.{}", path, scope);
    const bool is_further = occurrence > 0 && !owns_parameters(own) && scopes_.contains(fmt::format("{}/{}", raw, name));
    raw += fmt::format("/{}", scope);
    path = is_further ? own.substr(0, own.size() - (scope.size() - name.size())) : own;
    if (is_of_sequence && is_number(scope.substr(before.size() + 1))) place.modules.back().class_name = kSequential;
    if (is_number(scope) && !place.modules.empty()) place.modules.pop_back();  // a list, which nobody calls
    place.modules.push_back({path, class_of_path(path), {}, is_further ? occurrence : 0, 0});
    before = scope;
  }
  return place;
}

// Where batch norm was folded into the convolution before it, both stand in the norm's scope: the weights say whose they are.
void Structure::correct_owner(const Node& n, Place& place) const {
  if (place.modules.empty() || n.inputs.size() < 2 || (n.op != "Conv" && n.op != "ConvTranspose" && n.op != "Gemm")) return;
  Module& leaf = place.modules.back();
  const std::string_view weight = stored_name(n.inputs[1]);
  if (last_of(weight) != "weight" || !model_->by_key.contains(weight) || is_below(weight, leaf.path)) return;
  const std::string_view owner = all_but_last_of(weight);
  if (owner.empty() || all_but_last_of(owner) != all_but_last_of(leaf.path) || !is_sane(owner)) return;
  leaf.path = owner;
  leaf.class_name = fmt::format("torch.nn.modules.{}", n.op);
}

int32_t Structure::begin(const Module& m, int32_t parent) {
  std::vector<Open>& all = made_[m.path];
  // Other nodes stood in between: the same call, where its code goes on behind what it has done.
  if (!all.empty() && all.back().occurrence == m.occurrence && program_->calls[all.back().call].parent == parent &&
      (m.line == 0 || m.line > all.back().line)) {
    return all.back().call;
  }
  ModuleCall call;
  call.path = m.path;
  call.call = static_cast<int32_t>(all.size());
  call.class_name = m.class_name;
  call.parent = parent;
  if (!m.assigned_to.empty()) call.attributes.emplace_back(kAssignedTo, m.assigned_to);
  program_->calls.push_back(std::move(call));
  all.push_back({static_cast<int32_t>(program_->calls.size()) - 1, m.occurrence, m.line});
  return all.back().call;
}

void Structure::place(const Node& n, Origin& origin) {
  const auto found = places_.find(&n);
  if (found == places_.end()) return;
  const Place* place = &found->second;
  if (!place->root_class.empty()) program_->calls[0].class_name = place->root_class;
  const std::vector<Module>& modules = place->modules;
  size_t common = 0;
  while (common < modules.size() && common + 1 < open_.size() &&
         program_->calls[open_[common + 1].call].path == modules[common].path &&
         open_[common + 1].occurrence == modules[common].occurrence)
    ++common;
  open_.resize(common + 1);
  for (size_t i = common; i < modules.size(); ++i)
    open_.push_back({begin(modules[i], open_.back().call), modules[i].occurrence, modules[i].line});
  for (const Module& m : modules) {
    Open& last = made_[m.path].back();
    last.line = std::max(last.line, m.line);
  }
  origin.call = open_[depth_for_all(n, *place)].call;
  say_line(*place, origin);
  if (!modules.empty()) note_parameters(n, modules.back().path);
}

// torch's own modules have the line that calls them.
void Structure::say_line(const Place& place, Origin& origin) {
  origin.file = -1;
  origin.line = 0;
  origin.assigned_to.clear();
  const auto theirs = std::find_if(place.frames.rbegin(), place.frames.rend(), [](const Frame& f) { return !is_torchs(f.file); });
  if (theirs == place.frames.rend()) return;
  const auto [known, is_new] = files_.emplace(theirs->file, static_cast<int32_t>(program_->files.size()));
  if (is_new) program_->files.push_back({theirs->file, {}});
  auto& lines = program_->files[known->second].lines;
  const auto at = std::lower_bound(lines.begin(), lines.end(), theirs->line,
                                   [](const auto& l, int32_t n) { return l.first < n; });
  if (at == lines.end() || at->first != theirs->line) lines.insert(at, {theirs->line, theirs->source});
  origin.file = known->second;
  origin.line = theirs->line;
  origin.assigned_to = assigned_in(theirs->source);
}

void Structure::note_parameters(const Node& n, const std::string& path) {
  const std::vector<std::string_view>* roles = roles_of(n);
  for (size_t i = 0; roles != nullptr && i < std::min(roles->size(), n.inputs.size()); ++i) {
    const std::string_view name = stored_name(n.inputs[i]);
    if ((*roles)[i].empty() || !model_->by_key.contains(name)) continue;
    if (is_below(name, path) && !name.ends_with(".weight_bias")) {  // of a norm that was folded into it
      at_home_.emplace(name);
      continue;
    }
    const std::string alias = fmt::format("{}.{}", path, (*roles)[i]);
    if (!model_->by_key.contains(alias)) aliases_[std::string(name)].insert(alias);
  }
}

namespace {

// "val_80", "onnx::MatMul_12", and the bias that a folded norm became: "conv1.weight_bias".
bool is_anonymous(const std::string& name) {
  return name.find('.') == std::string::npos || name.find("::") != std::string::npos || name.ends_with(".weight_bias");
}

}  // namespace

void Structure::name_parameters() {
  std::set<std::string> taken;
  for (const Parameter& p : program_->parameters) taken.insert(p.name);
  for (Parameter& p : program_->parameters) {
    const bool has_no_name = is_anonymous(p.name);
    if (p.value == kNoValue || (!has_no_name && !at_home_.contains(p.name))) continue;
    std::set<std::string> names;
    if (const auto found = aliases_.find(p.name); found != aliases_.end()) names = found->second;
    const auto readers = readers_.find(p.name);
    const bool is_nobodys = names.empty() && p.name.find('.') == std::string::npos && readers != readers_.end();
    if (is_nobodys && readers->second.depth > 0)
      names.insert(fmt::format("{}.{}", readers->second.first->modules[readers->second.depth - 1].path, p.name));
    for (const std::string& name : names)
      if (taken.insert(name).second) p.aliases.push_back(name);
    if (has_no_name && !p.aliases.empty()) std::swap(p.name, p.aliases[0]);  // the file's name stays as another one
  }
}

}  // namespace pycandle::onnx
