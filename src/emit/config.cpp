#include "emit/config.h"

#include <algorithm>
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
                    "num_classes", "num_labels",     "projection_dim",    "num_channels"};
const Names kTables{"vocab_size", "n_positions", "max_position_embeddings", "type_vocab_size"};
const Names kCounts{"num_hidden_layers", "n_layer", "n_layers", "num_layers", "depth", "encoder_layers", "decoder_layers"};
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

  void visit(ModuleClass& made) {
    for (Child& child : made.children) {
      visit(made, child.use, child.varies);
      if (child.is_list) set(made, child.count, "count");
    }
    for (const Step& step : made.steps) {
      if (step.kind == Step::Kind::node) find_settings(made, step.node);
    }
  }

  void visit(ModuleClass& made, Use& use, const std::vector<bool>& varies) {
    for (size_t i = 0; i < use.arguments.size(); ++i) {
      if (i < varies.size() && varies[i]) continue;
      const std::string role = use.nn ? use.nn->arguments[i].name : tree_->classes[use.module_class].numbers[i].name;
      set(made, use.arguments[i], role);
    }
    for (Use& part : use.sequence) visit(made, part, {});
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
      const auto found = field(Attribute(d->number()), kHeads);
      if (!found) continue;
      auto known = std::find_if(made.settings.begin(), made.settings.end(), [&](const Setting& s) { return s.field == *found; });
      if (known == made.settings.end()) {
        made.settings.push_back({setting_name(made, *found), *found, {}});
        known = made.settings.end() - 1;
      }
      known->places.insert(place);
    }
  }

  // What Python's module calls it, when that is its only number of heads; else as in the configuration.
  std::string setting_name(const ModuleClass& made, int32_t f) const {
    Scope scope;
    for (const TensorField& t : made.tensors) scope.reserve(t.name);
    for (const Child& child : made.children) scope.reserve(child.name);
    for (const NumberField& number : made.numbers) scope.reserve(number.name);
    for (const Setting& s : made.settings) scope.reserve(s.name);
    const ConfigField& config = tree_->config[f];
    std::vector<std::string> names;
    for (const auto& [key, value] : tree_->program->calls[made.call].attributes) {
      const auto* n = std::get_if<int64_t>(&value);
      const bool is_heads = std::find(kHeads.begin(), kHeads.end(), key) != kHeads.end();
      if (n && is_heads && same(Attribute(*n), config.value)) names.push_back(identifier(key));
    }
    names.push_back(config.name);
    names.push_back(config.name + "_used");
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
    if (const auto found = field(value, *names)) return Formula{1, {*found}};
    const auto* n = std::get_if<int64_t>(&value);
    if (names != &kWidths || !n) return {};
    for (const std::string_view heads : kHeads) {  // the width of all heads
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
};

}  // namespace

void find_config(ModelTree& tree) { Finder(tree).find(); }

}  // namespace pycandle::emit
