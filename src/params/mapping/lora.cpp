#include "params/mapping/lora.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "base/error.h"
#include "base/file.h"
#include "base/json.h"

namespace pycandle {
namespace {

namespace fs = std::filesystem;
constexpr std::string_view kPrefix = "base_model.model.", kWrapped = ".base_layer.";
constexpr std::string_view kA = ".lora_A.weight", kB = ".lora_B.weight";
constexpr std::string_view kEmbeddingA = ".lora_embedding_A", kEmbeddingB = ".lora_embedding_B";
constexpr std::string_view kMagnitude = ".lora_magnitude_vector";

std::string joined(std::string_view stem, std::string_view leaf) { return std::string(stem) + std::string(leaf); }
std::string_view without(std::string_view name, std::string_view end) { return name.substr(0, name.size() - end.size()); }

// ---- adapter_config.json

struct Config {
  double alpha = 0;
  std::vector<std::pair<std::string, double>> alpha_pattern;  // modules with another alpha, in peft's order
  bool is_stabilised = false, is_transposed = false;          // rank-stabilised scale; weights stored as [in, out]
  bool is_dora = false;
};

// "layers.1.q_proj", "^model.layers.1.q_proj$": the end of a module's path, or all of it.
bool names_module(std::string_view pattern, std::string_view module) {
  const bool whole = pattern.starts_with('^');
  if (whole) pattern.remove_prefix(1);
  if (pattern.ends_with('$')) pattern.remove_suffix(1);
  if (whole || pattern.size() == module.size()) return pattern == module;
  return module.ends_with(pattern) && module[module.size() - pattern.size() - 1] == '.';
}

double alpha_of(const Config& config, std::string_view module) {
  for (const auto& [pattern, alpha] : config.alpha_pattern)
    if (names_module(pattern, module)) return alpha;
  return config.alpha;
}

// Kinds of LoRA whose merged weight is not w + scale · B A, by the field of the configuration that asks for them.
constexpr const char* kOtherKinds[] = {
    "target_parameters", "layer_replication", "alora_invocation_tokens", "use_qalora", "use_bdlora",
    "arrow_config",      "kasa_config",       "monteclora_config",       "lora_bias",  "trainable_token_indices"};
// Ways to begin training that leave the base model as it is. Others (PiSSA, OLoRA, LoftQ) subtract the first B A from it.
constexpr std::string_view kHarmlessBeginnings[] = {"gaussian", "eva", "orthogonal", "mica"};

bool is_set(const Json& json, const char* key) {
  if (!json.contains(key)) return false;
  const Json& value = json[key];
  return !(value.is_null() || value == false || (value.is_structured() && value.empty()));
}

Config read_config(const fs::path& path) {
  const Json json = parse_json(read_text(path, 1 << 20), path.string());
  const auto refuse = [&](const std::string& what) {
    throw Error(ErrorCode::bad_input, fmt::format("{}: {}", path.string(), what));
  };
  if (!json.is_object()) refuse("it is not an object");
  if (json.contains("peft_type") && json["peft_type"] != "LORA")
    refuse(fmt::format("adapters of the kind {} are not supported, only LORA", shown_text(json["peft_type"].dump())));
  if (!json.contains("lora_alpha") || !json["lora_alpha"].is_number()) refuse("lora_alpha is not there");
  for (const char* key : kOtherKinds)
    if (is_set(json, key)) refuse(fmt::format("adapters with {} are not supported", key));
  if (json.contains("init_lora_weights") && json["init_lora_weights"].is_string()) {
    const std::string way = json["init_lora_weights"];
    if (std::find(std::begin(kHarmlessBeginnings), std::end(kHarmlessBeginnings), way) == std::end(kHarmlessBeginnings))
      refuse(
          fmt::format("init_lora_weights '{}' changes the base model: save the adapter with "
                      "path_initial_model_for_weight_conversion",
                      shown_text(way)));
  }
  Config config{
      json["lora_alpha"].get<double>(), {}, is_set(json, "use_rslora"), is_set(json, "fan_in_fan_out"), is_set(json, "use_dora")};
  if (!is_set(json, "alpha_pattern")) return config;
  if (!json["alpha_pattern"].is_object()) refuse("alpha_pattern is not an object");
  for (const auto& [pattern, alpha] : json["alpha_pattern"].items()) {
    if (!alpha.is_number()) refuse(fmt::format("the alpha of {} is not a number", shown_text(pattern)));
    if (pattern.find_first_of("\\*+?()[]{}|") != std::string::npos)
      refuse(fmt::format("alpha_pattern '{}' is a regular expression, only names of modules are supported", shown_text(pattern)));
    config.alpha_pattern.emplace_back(pattern, alpha.get<double>());
  }
  return config;
}

SourceExpr source_now(const Rules& rules, const std::string& target) {
  return rules.source_of(target).value_or(SourceExpr::tensor(target));
}

// The name in the base model: without peft's wrappers.
std::string base_name(std::string_view name) {
  if (name.starts_with(kPrefix)) name.remove_prefix(kPrefix.size());
  std::string out(name);
  for (const std::string_view wrapper : {kWrapped, std::string_view(".original_module.")})
    if (const size_t at = out.find(wrapper); at != std::string::npos) out.replace(at, wrapper.size(), ".");
  return out;
}

// ---- merged into the base

class Merger {
 public:
  Merger(const Rules& rules, const std::vector<Target>& targets, const Checkpoint& thin, const fs::path& file)
      : rules_(rules), thin_(thin), file_(file), config_(read_config(file.parent_path() / "adapter_config.json")) {
    for (const Target& t : targets) {
      names_.emplace(t.name, &t);
      for (const std::string& alias : t.aliases) names_.emplace(alias, &t);
    }
  }

  Rules merge() {
    for (const StoredTensor& t : thin_.tensors()) {
      const std::string_view name = t.name;
      if (!name.starts_with(kPrefix))
        throw refusal(fmt::format("tensor '{}' is not one of a LoRA adapter", shown_text(t.name)))
            .expected(fmt::format("names that begin with {}", kPrefix));
      if (name.ends_with(kA)) {
        add_layer(std::string(without(name, kA)), kA, kB);
      } else if (name.ends_with(kEmbeddingA)) {
        add_layer(std::string(without(name, kEmbeddingA)), kEmbeddingA, kEmbeddingB);
      } else if (name.ends_with(kB)) {
        need_beside(t.name, kB, kA);
      } else if (name.ends_with(kEmbeddingB)) {
        need_beside(t.name, kEmbeddingB, kEmbeddingA);
      } else if (name.ends_with(kMagnitude)) {
        need_beside(t.name, kMagnitude, kA);
      } else {
        add_whole(t.name);
      }
    }
    refuse_unclear_squares();
    for (const Rule& rule : rules_.all()) out_.add(rule);  // the first that fits counts
    return std::move(out_);
  }

 private:
  Error refusal(const std::string& what) const {
    return Error(ErrorCode::bad_input, fmt::format("{}: {}", file_.string(), what));
  }

  void need_beside(const std::string& name, std::string_view end, std::string_view other) const {
    if (thin_.find(joined(without(name, end), other)) == nullptr)
      throw refusal(fmt::format("'{}' has no {} beside it", shown_text(name), shown_text(std::string(other.substr(1)))));
  }

  const Target& target_of(const std::string& name) const {
    const auto at = names_.find(name);
    if (at == names_.end())
      throw refusal(fmt::format("the adapter changes {}, which the program does not have", shown_text(name)));
    return *at->second;
  }

  // A parameter that was trained as a whole.
  void add_whole(const std::string& name) {
    const std::string_view stem = without(name, name.ends_with(".base_layer.weight") ? ".base_layer.weight" : "");
    if (stem.size() < name.size() && has_layer(stem)) return;  // add_layer takes it
    if (name.find("lora_") != std::string::npos)
      throw refusal(fmt::format("'{}' is a kind of adapter that is not merged", shown_text(name)));
    out_.add({target_of(base_name(name)).name, SourceExpr::tensor(name), "from the adapter", 0});
  }
  bool has_layer(std::string_view stem) const {
    return thin_.find(joined(stem, kA)) != nullptr || thin_.find(joined(stem, kEmbeddingA)) != nullptr;
  }

  void add_layer(const std::string& stem, std::string_view end_a, std::string_view end_b) {
    const std::string name_a = joined(stem, end_a), name_b = joined(stem, end_b);
    need_beside(name_a, end_a, end_b);
    const StoredTensor &a = *thin_.find(name_a), &b = *thin_.find(name_b);
    if (config_.is_dora) need_beside(name_a, end_a, kMagnitude);
    if (a.shape.empty() || a.shape[0] == 0) throw refusal(fmt::format("'{}' has no rank", shown_text(name_a)));
    const std::string module = base_name(stem);
    const Target& target = target_of(module + ".weight");
    const bool is_embedding = end_a == kEmbeddingA, is_turned = is_embedding || turned(target, a, b);
    const auto rank = static_cast<double>(a.shape[0]);
    const double scale = alpha_of(config_, module) / (config_.is_stabilised ? std::sqrt(rank) : rank);
    // An embedding is saved with its adapter when words were added to it.
    const std::string saved = stem + ".base_layer.weight";
    SourceExpr weight = thin_.find(saved) != nullptr ? SourceExpr::tensor(saved) : source_now(rules_, target.name);
    if (is_turned) weight = SourceExpr::call("transpose", {weight});
    weight = SourceExpr::call("lora", {weight, SourceExpr::tensor(name_a), SourceExpr::tensor(name_b)}, {scale});
    if (const std::string magnitude = joined(stem, kMagnitude); thin_.find(magnitude) != nullptr) {
      if (is_embedding) throw refusal(fmt::format("'{}': DoRA of an embedding is not merged", shown_text(magnitude)));
      weight = SourceExpr::call("weight_norm", {SourceExpr::tensor(magnitude), weight});
    }
    if (is_turned) weight = SourceExpr::call("transpose", {weight});
    out_.add({target.name, std::move(weight), "with the adapter", 0});
  }

  // Does the program hold this weight as [in, out]? peft has one flag for all layers, that of the last one it made, so shapes
  // decide where they can.
  bool turned(const Target& target, const StoredTensor& a, const StoredTensor& b) {
    if (target.shape.size() != 2 || a.shape.size() != 2 || b.shape.empty()) return false;
    if (target.shape[0] == target.shape[1]) {
      square_ = target.name;
      return config_.is_transposed;
    }
    const bool is_turned = target.shape == Sizes{a.shape[1], b.shape[0]};
    if (is_turned != config_.is_transposed) contradiction_ = target.name;
    return is_turned;
  }

  void refuse_unclear_squares() const {
    if (square_.empty() || contradiction_.empty()) return;
    throw refusal(fmt::format("fan_in_fan_out of the configuration is wrong for {}, so it is not clear for {}, which is square",
                              shown_text(contradiction_), shown_text(square_)))
        .hint("merge it with peft: merge_and_unload()");
  }

  const Rules& rules_;
  const Checkpoint& thin_;
  const fs::path& file_;
  Config config_;
  std::map<std::string, const Target*> names_;  // all names of a parameter
  std::string square_, contradiction_;          // parameters
  Rules out_;
};

// ---- kept beside the base

// The part of a peft module's name behind `mark` without the adapter's name: "default.weight" → "weight".
std::string leaf_behind(const std::string& name, size_t at, std::string_view mark) {
  const std::string rest = name.substr(at + mark.size());
  const size_t dot = rest.find('.');
  return dot == std::string::npos ? std::string() : rest.substr(dot);
}

// A parameter of a program that has the adapter's modules itself, as peft names them:
//   layers.1.base_layer.weight → layers.1.weight of the base        layers.1.lora_A.default.weight → lora_A of the adapter
// The adapter's own tensor comes first: it may hold the base's embedding, with words added.
SourceExpr beside(const Rules& rules, const Checkpoint& thin, const std::string& target) {
  const std::string name = target.starts_with(kPrefix) ? target.substr(kPrefix.size()) : target;
  if (std::string own = joined(kPrefix, name); thin.find(own) != nullptr) return SourceExpr::tensor(std::move(own));
  const auto of_adapter = [&](size_t at, std::string_view mark, std::string_view leaf) {
    return SourceExpr::tensor(joined(kPrefix, name.substr(0, at)) + std::string(mark.substr(0, mark.size() - 1)) +
                              std::string(leaf));
  };
  for (const std::string_view mark : {".lora_A.", ".lora_B.", ".lora_embedding_A.", ".lora_embedding_B."})
    if (const size_t at = name.find(mark); at != std::string::npos) return of_adapter(at, mark, leaf_behind(name, at, mark));
  constexpr std::string_view kMagnitudes = ".lora_magnitude_vector.", kTrained = ".modules_to_save.";
  if (const size_t at = name.find(kMagnitudes); at != std::string::npos) return of_adapter(at, kMagnitudes, "");
  if (const size_t at = name.find(kTrained); at != std::string::npos)
    return SourceExpr::tensor(joined(kPrefix, name.substr(0, at)) + leaf_behind(name, at, kTrained));
  return source_now(rules, base_name(name));
}

bool has_adapter_modules(const std::vector<Target>& targets) {
  return std::any_of(targets.begin(), targets.end(), [](const Target& t) {
    return t.name.find(".lora_A.") != std::string::npos || t.name.find(".lora_embedding_A.") != std::string::npos;
  });
}

Rules kept_beside(const Rules& rules, const std::vector<Target>& targets, const Checkpoint& base, const Checkpoint& thin,
                  const fs::path& file) {
  Rules out;
  std::vector<std::string> used;
  for (const Target& t : targets) {
    SourceExpr source = beside(rules, thin, t.name);
    const bool is_there = !source.is_tensor() || base.find(source.name) != nullptr || thin.find(source.name) != nullptr;
    if (!is_there) continue;  // carried by the recording, or missing
    source.collect(used);
    out.add({t.name, std::move(source), "with the adapter beside", 0});
  }
  for (const StoredTensor& t : thin.tensors())
    if (std::find(used.begin(), used.end(), t.name) == used.end())
      throw Error(ErrorCode::bad_input, fmt::format("{}: the program has no place for '{}'", file.string(), shown_text(t.name)));
  return out;
}

}  // namespace

Rules with_adapter(const Rules& rules, const std::vector<Target>& targets, Checkpoint& checkpoint, const fs::path& adapter) {
  const fs::path file = fs::is_directory(adapter) ? adapter / "adapter_model.safetensors" : adapter;
  const Checkpoint thin = Checkpoint::open(file);
  Rules out = has_adapter_modules(targets) ? kept_beside(rules, targets, checkpoint, thin, file)
                                           : Merger(rules, targets, thin, file).merge();
  checkpoint.add(thin);
  return out;
}

}  // namespace pycandle
