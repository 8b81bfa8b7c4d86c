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
constexpr std::string_view kPrefix = "base_model.model.", kA = ".lora_A.weight", kB = ".lora_B.weight";

struct Config {
  double alpha = 0;
  bool is_stabilised = false, is_transposed = false;  // rank-stabilised scale; weights stored as [in, out]
};

Config read_config(const fs::path& path) {
  const Json json = parse_json(read_text(path, 1 << 20), path.string());
  const auto flag = [&](const char* key) { return json.contains(key) && json[key].is_boolean() && json[key].get<bool>(); };
  const auto refuse = [&](const std::string& what) {
    throw Error(ErrorCode::bad_input, fmt::format("{}: {}", path.string(), what));
  };
  if (!json.is_object() || !json.contains("lora_alpha") || !json["lora_alpha"].is_number()) refuse("lora_alpha is not there");
  if (flag("use_dora")) refuse("DoRA adapters are not merged");
  for (const char* key : {"alpha_pattern", "rank_pattern"})
    if (json.contains(key) && json[key].is_object() && !json[key].empty() && std::string_view(key) == "alpha_pattern")
      refuse("alpha_pattern is not supported");
  if (json.contains("bias") && json["bias"].is_string() && json["bias"] != "none") refuse("adapters with biases are not merged");
  return {json["lora_alpha"].get<double>(), flag("use_rslora"), flag("fan_in_fan_out")};
}

// The name in the base model.
std::string base_name(const std::string& name, const fs::path& file) {
  if (!name.starts_with(kPrefix)) {
    throw Error(ErrorCode::bad_input,
                fmt::format("{}: tensor '{}' is not one of a LoRA adapter", file.string(), shown_text(name)))
        .expected(fmt::format("names that begin with {}", kPrefix));
  }
  return name.substr(kPrefix.size());
}

SourceExpr source_now(const Rules& rules, const std::string& target) {
  return rules.source_of(target).value_or(SourceExpr::tensor(target));
}

// A tensor of the adapter, by the name in the base model with lora_A, lora_B or nothing behind it.
SourceExpr of_adapter(const std::string& name) { return SourceExpr::tensor(std::string(kPrefix) + name); }

// The part of a peft module's name behind `mark` without the adapter's name: "default.weight" → "weight".
std::string leaf_behind(const std::string& name, size_t at, std::string_view mark) {
  const std::string rest = name.substr(at + mark.size());
  const size_t dot = rest.find('.');
  return dot == std::string::npos ? rest : rest.substr(dot + 1);
}

// A parameter of a program that has the adapter's modules itself, as peft names them:
//   layers.1.base_layer.weight → layers.1.weight of the base        layers.1.lora_A.default.weight → lora_A of the adapter
SourceExpr beside(const Rules& rules, const std::string& target) {
  std::string name = target.starts_with(kPrefix) ? target.substr(kPrefix.size()) : target;
  for (const std::string_view mark : {".lora_A.", ".lora_B."})
    if (const size_t at = name.find(mark); at != std::string::npos)
      return of_adapter(name.substr(0, at) + std::string(mark) + leaf_behind(name, at, mark));
  constexpr std::string_view kTrained = ".modules_to_save.";
  if (const size_t at = name.find(kTrained); at != std::string::npos)
    return of_adapter(name.substr(0, at) + "." + leaf_behind(name, at, kTrained));
  for (const std::string_view wrapper : {".base_layer.", ".original_module."})
    if (const size_t at = name.find(wrapper); at != std::string::npos) name.replace(at, wrapper.size(), ".");
  return source_now(rules, name);
}

bool has_adapter_modules(const std::vector<Target>& targets) {
  return std::any_of(targets.begin(), targets.end(),
                     [](const Target& t) { return t.name.find(".lora_A.") != std::string::npos; });
}

Rules kept_beside(const Rules& rules, const std::vector<Target>& targets, const Checkpoint& thin, const fs::path& file) {
  Rules out;
  std::vector<std::string> used;
  for (const Target& t : targets) {
    SourceExpr source = beside(rules, t.name);
    source.collect(used);
    out.add({t.name, std::move(source), "with the adapter beside", 0});
  }
  for (const StoredTensor& t : thin.tensors())
    if (std::find(used.begin(), used.end(), t.name) == used.end())
      throw Error(ErrorCode::bad_input, fmt::format("{}: the program has no place for '{}'", file.string(), shown_text(t.name)));
  return out;
}

Rules merged_into(const Rules& rules, const std::vector<Target>& targets, const Checkpoint& thin, const fs::path& file) {
  const Config config = read_config(file.parent_path() / "adapter_config.json");
  std::map<std::string, std::string> names;  // all names of a parameter → its own
  for (const Target& t : targets) {
    names.emplace(t.name, t.name);
    for (const std::string& alias : t.aliases) names.emplace(alias, t.name);
  }
  const auto target_of = [&](const std::string& name) {
    const auto at = names.find(name);
    if (at == names.end())
      throw Error(ErrorCode::bad_input,
                  fmt::format("{}: the adapter changes {}, which the program does not have", file.string(), shown_text(name)));
    return at->second;
  };
  Rules out;
  for (const StoredTensor& t : thin.tensors()) {
    const std::string base = base_name(t.name, file);
    if (base.ends_with(kB)) {
      if (thin.find(t.name.substr(0, t.name.size() - kB.size()) + std::string(kA)) == nullptr)
        throw Error(ErrorCode::bad_input, fmt::format("{}: '{}' has no lora_A beside it", file.string(), shown_text(t.name)));
      continue;
    }
    if (!base.ends_with(kA)) {  // a module that was trained as a whole
      if (base.find("lora_") != std::string::npos)
        throw Error(ErrorCode::bad_input,
                    fmt::format("{}: '{}' is a kind of adapter that is not merged", file.string(), shown_text(t.name)));
      out.add({target_of(base), SourceExpr::tensor(t.name), "from the adapter", 0});
      continue;
    }
    const std::string stem = t.name.substr(0, t.name.size() - kA.size()), b = stem + std::string(kB);
    if (thin.find(b) == nullptr || t.shape.empty() || t.shape[0] == 0)
      throw Error(ErrorCode::bad_input, fmt::format("{}: '{}' has no lora_B beside it", file.string(), shown_text(t.name)));
    const auto rank = static_cast<double>(t.shape[0]);
    const double scale = config.alpha / (config.is_stabilised ? std::sqrt(rank) : rank);
    const std::string target = target_of(base.substr(0, base.size() - kA.size()) + ".weight");
    SourceExpr weight = source_now(rules, target);
    if (config.is_transposed) weight = SourceExpr::call("transpose", {weight});
    SourceExpr merged_weight = SourceExpr::call("lora", {weight, SourceExpr::tensor(t.name), SourceExpr::tensor(b)}, {scale});
    if (config.is_transposed) merged_weight = SourceExpr::call("transpose", {merged_weight});
    out.add({target, std::move(merged_weight), "with the adapter", 0});
  }
  for (const Rule& rule : rules.all()) out.add(rule);  // the first that fits counts
  return out;
}

}  // namespace

Rules with_adapter(const Rules& rules, const std::vector<Target>& targets, Checkpoint& checkpoint, const fs::path& adapter) {
  const fs::path file = fs::is_directory(adapter) ? adapter / "adapter_model.safetensors" : adapter;
  const Checkpoint thin = Checkpoint::open(file);
  Rules out = has_adapter_modules(targets) ? kept_beside(rules, targets, thin, file) : merged_into(rules, targets, thin, file);
  checkpoint.add(thin);
  return out;
}

}  // namespace pycandle
