#include "emit/config.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "emit/names.h"

namespace pycandle::emit {
namespace {

using Fields = std::vector<std::pair<std::string, std::variant<std::monostate, bool, int64_t, double, std::string>>>;
using Names = std::vector<std::string_view>;

// What configurations call the things that a number can be, the likeliest first.
const Names kWidths{"hidden_size", "n_embd",         "d_model",           "embed_dim",       "hidden_dim",
                    "dim",         "embedding_size", "intermediate_size", "n_inner",         "ffn_dim",
                    "d_ff",        "mlp_dim",        "encoder_ffn_dim",   "decoder_ffn_dim", "vocab_size",
                    "num_classes", "num_labels",     "projection_dim",    "num_channels",    "num_mel_bins"};
const Names kTables{"vocab_size",           "n_positions",          "max_position_embeddings",
                    "max_source_positions", "max_target_positions", "type_vocab_size"};
const Names kCounts{"num_hidden_layers", "n_layer",        "n_layers",           "num_layers",        "depth",
                    "encoder_layers",    "decoder_layers", "num_encoder_layers", "num_decoder_layers"};
const Names kHeads{"num_attention_heads",    "n_head", "n_heads", "num_heads", "num_key_value_heads", "encoder_attention_heads",
                   "decoder_attention_heads"};
const Names kHeadWidths{"head_dim", "d_kv"};
const Names kPatches{"patch_size"};
const Names kEpsilons{"layer_norm_epsilon", "layer_norm_eps", "rms_norm_eps", "norm_eps", "norm_epsilon", "layernorm_epsilon"};

// By the name of a constructor argument, or of an attribute of an op.
const Names* names_for(const std::string& role) {
  static const std::map<std::string, const Names*> table{{"in_features", &kWidths},
                                                         {"out_features", &kWidths},
                                                         {"features", &kWidths},
                                                         {"hidden_features", &kWidths},
                                                         {"in_channels", &kWidths},
                                                         {"out_channels", &kWidths},
                                                         {"normalized_shape", &kWidths},
                                                         {"embedding_dim", &kWidths},
                                                         {"hidden_size", &kWidths},
                                                         {"input_size", &kWidths},
                                                         {"embed_dim", &kWidths},
                                                         {"num_embeddings", &kTables},
                                                         {"count", &kCounts},
                                                         {"num_heads", &kHeads},
                                                         {"heads", &kHeads},
                                                         {"kernel_size", &kPatches},
                                                         {"stride", &kPatches},
                                                         {"eps", &kEpsilons}};
  const auto found = table.find(role);
  return found == table.end() ? nullptr : found->second;
}

// A model of two halves has fields for each: encoder_layers, decoder_layers.
enum class Half { none, encoder, decoder };

Half half_of(std::string_view name) {
  std::string lower(name);
  std::transform(lower.begin(), lower.end(), lower.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  const auto first = [&](const char* word, const char* position) { return std::min(lower.find(word), lower.find(position)); };
  const size_t encoder = first("encoder", "source_position"), decoder = first("decoder", "target_position");
  return encoder == decoder ? Half::none : encoder < decoder ? Half::encoder : Half::decoder;
}

// The half that all of the calls stand in; nothing when they stand in both.
std::optional<Half> half_of(const Program& p, const std::vector<int32_t>& calls) {
  std::optional<Half> found;
  for (const int32_t call : calls) {
    const Half by_path = half_of(p.calls[call].path);
    const Half half = by_path == Half::none ? half_of(last_part(p.calls[call].class_name)) : by_path;
    if (found && *found != half) return {};
    found = half;
  }
  return found.value_or(Half::none);
}

// The names that a number in that half can have, the likeliest first: for counts and heads those of the half itself.
Names names_in(std::optional<Half> half, const Names& names) {
  const auto is_own = [&](std::string_view name) { return half && half_of(name) == *half && *half != Half::none; };
  const bool own_first = &names == &kCounts || &names == &kHeads || &names == &kTables;
  Names found;
  if (own_first) std::copy_if(names.begin(), names.end(), std::back_inserter(found), is_own);
  for (const std::string_view name : names) {
    const bool fits = half_of(name) == Half::none || half == Half::none || is_own(name);
    if (fits && !(own_first && is_own(name))) found.push_back(name);
  }
  return found;
}

std::optional<Attribute> number_in(const Fields& fields, std::string_view name) {
  for (const auto& [key, value] : fields) {
    if (key != name) continue;
    if (const auto* n = std::get_if<int64_t>(&value)) return Attribute(*n);
    if (const auto* x = std::get_if<double>(&value)) return Attribute(*x);
  }
  return {};
}

class Finder {
 public:
  explicit Finder(ModelTree& tree) : tree_(&tree) {
    const auto& calls = tree.program->calls;
    const auto has_config = std::find_if(calls.begin(), calls.end(), [](const ModuleCall& c) { return !c.config.empty(); });
    is_attributes_ = has_config == calls.end();
    config_ = is_attributes_ ? calls[0].attributes : has_config->config;
  }

  void find() {
    for (ModuleClass& made : tree_->classes) {
      half_ = half_of_class(made);
      if (applies(made)) visit(made);
      made.takes_config = made.takes_config || !made.settings.empty();
      for (const Child& child : made.children) made.takes_config = made.takes_config || takes_config(child.use);
    }
  }

 private:
  bool takes_config(const Use& use) const {
    if (use.module_class >= 0 && tree_->classes[use.module_class].takes_config) return true;
    return std::any_of(use.sequence.begin(), use.sequence.end(), [&](const Use& part) { return takes_config(part); });
  }

  // The nearest configuration around the class is the one that was chosen: a part with one of its own has other numbers.
  bool applies(const ModuleClass& made) const {
    if (is_attributes_) return true;
    const auto& calls = tree_->program->calls;
    for (int32_t call = made.call; call >= 0; call = calls[call].parent) {
      const Fields& here = calls[call].config;
      if (!here.empty()) return here == config_;
    }
    return true;
  }

  std::optional<Half> half_of_class(const ModuleClass& made) const {
    const auto& calls = tree_->program->calls;
    std::vector<int32_t> alike;
    for (size_t c = 0; c < calls.size(); ++c) {
      if (calls[c].class_name == made.python_class) alike.push_back(static_cast<int32_t>(c));
    }
    return half_of(*tree_->program, alike);
  }

  void visit(ModuleClass& made) {
    for (Child& child : made.children) {
      visit(made, child.use, child.varies);
      if (child.is_list) set(made, child.count, "count");
    }
    for (const Step& step : made.steps) {
      if (step.kind != Step::Kind::node) continue;
      find_settings(made, step.node);
      if (tree_->calls->layers().has_switches) find_scales(made, step.node);
    }
  }

  void visit(ModuleClass& made, Use& use, const std::vector<bool>& varies) {
    const std::optional<Half> around = half_;
    if (half_ == Half::none) half_ = half_of(use.path);
    for (size_t i = 0; i < use.arguments.size(); ++i) {
      if (i < varies.size() && varies[i]) continue;
      const std::string role = use.nn ? use.nn->arguments[i].name : tree_->classes[use.module_class].numbers[i].name;
      set(made, use.arguments[i], role);
    }
    for (Use& part : use.sequence) visit(made, part, {});
    half_ = around;
  }

  void set(ModuleClass& made, Argument& a, const std::string& role) {
    if (a.field >= 0) return;
    a.formula = formula(a.value, role);
    made.takes_config = made.takes_config || a.formula.has_value();
  }

  // Numbers of heads that forward() needs are members.
  void find_settings(ModuleClass& made, int32_t n) {
    for (const auto& [key, value] : tree_->program->graph.nodes[n].attributes) {
      const Place place{n, key, -1};
      if (names_for(key) != &kHeads || made.places.count(place) != 0) continue;
      const Dim* d = std::get_if<Dim>(&value);
      if (!d || !d->is_number()) continue;
      const auto found = field(Attribute(d->number()), names_in(half_, kHeads));
      if (!found) continue;
      auto known = std::find_if(made.settings.begin(), made.settings.end(), [&](const Setting& s) { return s.field == *found; });
      if (known == made.settings.end()) {
        made.settings.push_back({setting_name(made, *found), *found, {}, {}, {}});
        known = made.settings.end() - 1;
      }
      known->places.insert(place);
    }
  }

  // q * self.scaling: a member that has the name of Python's attribute.
  void find_scales(ModuleClass& made, int32_t n) {
    const Node& node = tree_->program->graph.nodes[n];
    const std::string line = tree_->program->source_line(node.origin);
    const auto look = [&](const Attribute& value, const std::string& where) {
      const Place place{n, where, -1};
      if (!std::holds_alternative<double>(value) || made.places.count(place) != 0) return;
      for (const auto& [name, attribute] : tree_->program->calls[made.call].attributes) {
        const auto* x = std::get_if<double>(&attribute);
        if (!x || !same(Attribute(*x), value) || !has_word(line, "self." + name)) continue;
        const auto known = std::find_if(made.settings.begin(), made.settings.end(),
                                        [&](const Setting& s) { return s.python == name; });
        if (known != made.settings.end()) {
          known->places.insert(place);
        } else {
          made.settings.push_back({free_name(made, {identifier(name)}), -1, {place}, name, power(made, *x)});
        }
        return;
      }
    };
    for (size_t i = 0; i < tree_->implicit->operand_count(n); ++i) {
      const auto* scalar = std::get_if<Scalar>(&tree_->implicit->operand(n, i));
      if (scalar) look(attribute(*scalar), fmt::format("operand {}", i));
    }
    for (const auto& [key, value] : node.attributes) look(value, key);
  }

  static bool has_word(const std::string& line, const std::string& word) {
    const auto is_letter = [](unsigned char c) { return std::isalnum(c) != 0 || c == '_'; };
    for (size_t at = line.find(word); at != std::string::npos; at = line.find(word, at + 1)) {
      if (at + word.size() == line.size() || !is_letter(line[at + word.size()])) return true;
    }
    return false;
  }

  // A scale that is one over the root of the width of a head, or of another number of the module.
  Power power(ModuleClass& made, double value) {
    Power found{value, {}, -1, -1, false};
    const auto& attributes = tree_->program->calls[made.call].attributes;
    for (const auto& [name, attribute] : attributes) {
      const auto* n = std::get_if<int64_t>(&attribute);
      if (!n || *n < 2) continue;
      const auto base = static_cast<double>(*n);
      const bool is_power = std::pow(base, -0.5) == value;
      if (!is_power && 1 / std::sqrt(base) != value) continue;
      found.is_one_over_root = !is_power;
      found.base = Formula{*n, {}};
      if (const auto own = field(Attribute(*n), {name}); own) {
        found.base = Formula{1, {*own}};
      } else {
        divide(made, *n, found);
      }
      made.takes_config = made.takes_config || !found.base->fields.empty() || found.over_field >= 0;
      return found;
    }
    return found;
  }

  // head_dim = hidden_size / num_heads
  void divide(const ModuleClass& made, int64_t width, Power& found) {
    for (const auto& [name, attribute] : tree_->program->calls[made.call].attributes) {
      const auto* heads = std::get_if<int64_t>(&attribute);
      if (!heads || std::find(kHeads.begin(), kHeads.end(), name) == kHeads.end()) continue;
      const auto whole = field(Attribute(*heads * width), names_in(half_, kWidths));
      if (!whole) continue;
      for (size_t i = 0; i < made.numbers.size(); ++i) {
        if (made.numbers[i].name == name) found.over_number = static_cast<int32_t>(i);
      }
      if (found.over_number < 0) {
        const auto own = field(Attribute(*heads), names_in(half_, kHeads));
        if (!own) return;
        found.over_field = *own;
      }
      found.base = Formula{1, {*whole}};
      return;
    }
  }

  // What Python's module calls it, when that is its only number of heads; else as in the configuration.
  std::string setting_name(const ModuleClass& made, int32_t f) const {
    const ConfigField& config = tree_->config[f];
    std::vector<std::string> names;
    for (const auto& [key, value] : tree_->program->calls[made.call].attributes) {
      const auto* n = std::get_if<int64_t>(&value);
      const bool is_heads = std::find(kHeads.begin(), kHeads.end(), key) != kHeads.end();
      if (n && is_heads && same(Attribute(*n), config.value)) names.push_back(identifier(key));
    }
    names.push_back(config.name);
    names.push_back(config.name + "_used");
    return free_name(made, names);
  }

  static std::string free_name(const ModuleClass& made, const std::vector<std::string>& names) {
    Scope scope;
    for (const TensorField& t : made.tensors) scope.reserve(t.name);
    for (const Child& child : made.children) scope.reserve(child.name);
    for (const NumberField& number : made.numbers) scope.reserve(number.name);
    for (const Setting& s : made.settings) scope.reserve(s.name);
    return scope.take(names);
  }

  // The field of the configuration that has the value, made known to the tree.
  std::optional<int32_t> field(const Attribute& value, const Names& names) {
    for (const std::string_view name : names) {
      const auto number = number_in(config_, name);
      if (!number || !same(*number, value)) continue;
      const std::string known = identifier(name);
      for (size_t f = 0; f < tree_->config.size(); ++f) {
        if (tree_->config[f].name == known) return static_cast<int32_t>(f);
      }
      tree_->config.push_back({known, value});
      return static_cast<int32_t>(tree_->config.size()) - 1;
    }
    return {};
  }

  std::optional<Formula> formula(const Attribute& value, const std::string& role) {
    const Names* names = names_for(role);
    if (!names) return {};
    if (const auto found = field(value, names_in(half_, *names))) return Formula{1, {*found}};
    const auto* n = std::get_if<int64_t>(&value);
    if (names != &kWidths || !n) return {};
    for (const std::string_view heads : names_in(half_, kHeads)) {  // the width of all heads
      for (const std::string_view width : kHeadWidths) {
        const auto a = number_in(config_, heads), b = number_in(config_, width);
        if (!a || !b || std::get<int64_t>(*a) * std::get<int64_t>(*b) != *n) continue;
        return Formula{1, {*field(*a, {heads}), *field(*b, {width})}};
      }
    }
    for (const std::string_view width : kWidths) {  // a few times the width of the model, which comes first
      const auto number = number_in(config_, width);
      if (!number || !std::holds_alternative<int64_t>(*number)) continue;
      const int64_t one = std::get<int64_t>(*number);
      if (one < 2 || *n % one != 0 || *n / one > 4) return {};
      return Formula{*n / one, {*field(*number, {width})}};
    }
    return {};
  }

  ModelTree* tree_;
  Fields config_;
  bool is_attributes_ = false;
  std::optional<Half> half_;  // of the class; nothing: it stands in both
};

}  // namespace

void find_config(ModelTree& tree) { Finder(tree).find(); }

bool differs_by_half(const Program& p, const std::vector<int32_t>& calls, const std::string& role, const Attribute& value) {
  const Names* names = names_for(role);
  if (!names || half_of(p, calls)) return false;
  const auto with_config = std::find_if(p.calls.begin(), p.calls.end(), [](const ModuleCall& c) { return !c.config.empty(); });
  if (with_config == p.calls.end()) return false;
  std::set<Half> halves;
  for (const std::string_view name : *names) {
    const auto number = number_in(with_config->config, name);
    if (number && same(*number, value)) halves.insert(half_of(name));
  }
  return halves.count(Half::encoder) != 0 && halves.count(Half::decoder) != 0 && (names == &kHeads || names == &kCounts);
}

}  // namespace pycandle::emit
