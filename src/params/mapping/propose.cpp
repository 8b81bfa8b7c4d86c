#include "params/mapping/propose.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "base/error.h"
#include "base/json.h"
#include "params/mapping/vocabulary.h"

namespace pycandle {
namespace {

// Parts of a name that are stored as one tensor elsewhere, in order.
struct Fused {
  std::string_view whole;
  std::vector<std::string_view> parts;
};
const std::vector<Fused>& fused_names() {
  static const std::vector<Fused> all = {{"attn.qkv", {"attn.q", "attn.k", "attn.v"}}, {"mlp.gate_up", {"mlp.gate", "mlp.up"}}};
  return all;
}

// key with `part` in place of `whole`; nothing when it has no such part.
std::optional<std::string> replaced(const std::string& key, std::string_view whole, std::string_view part) {
  const std::string from = "." + std::string(whole) + ".", padded = "." + key;
  const size_t at = padded.find(from);
  if (at == std::string::npos) return std::nullopt;
  std::string out = padded;
  out.replace(at, from.size(), "." + std::string(part) + ".");
  return out.substr(1);
}

Sizes without_ones(const Sizes& shape) {
  Sizes out;
  std::copy_if(shape.begin(), shape.end(), std::back_inserter(out), [](int64_t size) { return size != 1; });
  return out;
}

bool is_matrix(const Sizes& shape) { return shape.size() == 2; }
bool is_square(const Sizes& shape) { return is_matrix(shape) && shape[0] == shape[1]; }
Sizes reversed(Sizes shape) {
  std::reverse(shape.begin(), shape.end());
  return shape;
}
// Weights of linear layers inside a block: the ones that Conv1D and TensorFlow store the other way round.
bool is_linear(const std::string& key) {
  return key.ends_with(".weight") && (key.find("attn.") != std::string::npos || key.find("mlp.") != std::string::npos);
}

class Proposer {
 public:
  Proposer(const std::vector<Target>& targets, const Checkpoint& checkpoint, const Heads& heads)
      : targets_(targets), checkpoint_(checkpoint), heads_(heads) {
    for (const StoredTensor& t : checkpoint.tensors()) {
      const std::string key = common_name(t.name);
      if (!key.empty()) sources_[key].push_back(t.name);
    }
    for (const Target& t : targets) {
      const std::string key = common_name(t.name);
      ++target_keys_[key];
      if (!t.shape.empty()) rows_.emplace(key, t.shape[0]);
    }
  }

  Proposals run() {
    find_orientation();
    for (const Target& target : targets_) {
      if (by_own_name(target) || by_known_name(target)) continue;
      rest_.push_back(&target);
    }
    by_structure();
    return std::move(out_);
  }

 private:
  void found(const Target& target, SourceExpr source, Why why) {
    std::vector<std::string> names;
    source.collect(names);
    used_.insert(names.begin(), names.end());
    out_.found.push_back({target.name, std::move(source), why});
  }

  bool by_own_name(const Target& target) {
    return takes(target, target.name) || std::any_of(target.aliases.begin(), target.aliases.end(),
                                                     [&](const std::string& alias) { return takes(target, alias); });
  }
  // The tensor of exactly this name, where its shape leaves no doubt.
  bool takes(const Target& target, const std::string& name) {
    const StoredTensor* t = checkpoint_.find(name);
    if (t == nullptr || t->shape != target.shape) return false;
    if (is_square(t->shape) && is_transposed_ && is_linear(common_name(name))) return false;
    found(target, SourceExpr::tensor(name), Why::same_name);
    return true;
  }

  // Conv1D and TensorFlow store a linear layer's weight as [in, out]. Matrices that are not square say whether these do.
  void find_orientation() {
    size_t equal = 0, other_way = 0;
    for (const Target& target : targets_) {
      const std::string key = common_name(target.name);
      if (!is_linear(key) || !is_matrix(target.shape) || is_square(target.shape)) continue;
      for (const std::string& name : named(key)) {
        const Sizes shape = without_ones(checkpoint_.find(name)->shape);
        equal += shape == target.shape;
        other_way += shape == reversed(target.shape);
      }
    }
    is_transposed_ = other_way > 0 && equal == 0;
  }

  const std::vector<std::string>& named(const std::string& key) const {
    static const std::vector<std::string> none;
    const auto at = sources_.find(key);
    return at == sources_.end() ? none : at->second;
  }

  bool by_known_name(const Target& target) {
    const std::string key = common_name(target.name);
    if (target_keys_[key] > 1) return ambiguous_key(target, key);
    if (const auto one = only(target, key)) {
      if (auto fitted = fit(SourceExpr::tensor(*one), target, key)) {
        found(target, rotated(std::move(*fitted), target, key, *one), Why::known_name);
        return true;
      }
    }
    return from_whole(target, key) || from_parts(target, key) || from_weight_norm(target, key);
  }

  // Several parameters with one common name are told apart by their own names only.
  bool ambiguous_key(const Target& target, const std::string& key) {
    if (named(key).empty()) return false;
    out_.ambiguous.push_back({target.name, named(key), "several parameters have the same common name"});
    return true;
  }

  std::optional<std::string> only(const Target& target, const std::string& key) {
    const std::vector<std::string>& names = named(key);
    if (names.size() == 1) return names[0];
    if (names.size() > 1) {
      std::vector<std::string> fitting;
      for (const std::string& name : names)
        if (checkpoint_.find(name)->shape == target.shape) fitting.push_back(name);
      if (fitting.size() == 1) return fitting[0];
    }
    return std::nullopt;
  }

  // The expression brought to the target's shape, or nothing.
  std::optional<SourceExpr> fit(SourceExpr e, const Target& target, const std::string& key) const {
    Sizes shape = type_of(e, checkpoint_).shape;
    const bool turn = is_transposed_ && is_linear(key) && is_matrix(without_ones(shape));
    if (shape == target.shape && !turn) return e;
    const Sizes plain = without_ones(shape), wanted = without_ones(target.shape);
    if (turn || (is_matrix(plain) && plain == reversed(wanted) && plain != wanted)) {
      if (plain != shape) e = SourceExpr::call("reshape", {e}, {static_cast<double>(plain[0]), static_cast<double>(plain[1])});
      return reversed(plain) == target.shape ? std::optional(SourceExpr::call("transpose", {e})) : std::nullopt;
    }
    if (plain == wanted) {  // [1, 1, 32] and [32]
      std::vector<double> sizes(target.shape.begin(), target.shape.end());
      return SourceExpr::call("reshape", {e}, sizes);
    }
    // TensorFlow's convolutions: height, width, in, out.
    if (shape.size() == 4 && Sizes{shape[3], shape[2], shape[0], shape[1]} == target.shape)
      return SourceExpr::call("permute", {e}, {3, 2, 0, 1});
    return std::nullopt;
  }

  // Llama's q and k: rows in pairs on one side, in halves on the other, with equal shapes.
  SourceExpr rotated(SourceExpr e, const Target& target, const std::string& key, const std::string& source) {
    const bool is_q = key.find("attn.q.") != std::string::npos, is_k = key.find("attn.k.") != std::string::npos;
    const bool has_pairs = has_rope_pairs(source) && needs_rope(), wants_pairs = has_rope_pairs(target.name);
    if ((!is_q && !is_k) || has_pairs == wants_pairs) return e;
    const int64_t heads = is_q ? heads_.queries : heads_.keys;
    if (heads == 0) {
      throw Error(ErrorCode::bad_input,
                  fmt::format("the rows of {} must be put in another order, and the number of heads is not known", source))
          .expected("num_attention_heads in the recorded configuration, or params.json beside the checkpoint")
          .hint("--heads 32,8 says it: heads of queries, heads of keys and values");
    }
    return SourceExpr::call(has_pairs ? "rope_halves" : "rope_pairs", {std::move(e)}, {static_cast<double>(heads)});
  }
  // GGUF keeps the rows of other architectures as they are.
  bool needs_rope() const {
    const auto at = checkpoint_.metadata().find("general.architecture");
    return checkpoint_.format() != "gguf" || at == checkpoint_.metadata().end() || at->second == "llama" ||
           at->second == "granite" || at->second == "deci";
  }

  // q out of qkv: the parts of the program say how the whole is divided.
  bool from_whole(const Target& target, const std::string& key) {
    for (const Fused& fused : fused_names()) {
      int64_t begin = 0, total = 0;
      std::optional<std::string> whole;
      int64_t mine = -1;
      for (const std::string_view part : fused.parts) {
        const auto as_whole = replaced(key + ".", part, fused.whole);
        if (as_whole) {
          whole = as_whole->substr(0, as_whole->size() - 1);
          mine = total;
        }
        total += rows_of_part(key, fused, part);
      }
      if (!whole || mine < 0) continue;
      begin = mine;
      const auto source = only_any(*whole);
      if (!source || total == 0) continue;
      const Sizes shape = checkpoint_.find(*source)->shape;
      const bool turned = is_transposed_ && is_linear(key) && is_matrix(without_ones(shape));
      SourceExpr e = SourceExpr::tensor(*source);
      if (turned) {
        const Sizes plain = without_ones(shape);
        if (plain != shape) e = SourceExpr::call("reshape", {e}, {static_cast<double>(plain[0]), static_cast<double>(plain[1])});
        e = SourceExpr::call("transpose", {e});
      }
      const Sizes now = type_of(e, checkpoint_).shape;
      if (now.empty() || now[0] != total || target.shape.empty()) continue;
      e = SourceExpr::call("slice", {e}, {0, static_cast<double>(begin), static_cast<double>(begin + target.shape[0])});
      if (type_of(e, checkpoint_).shape != target.shape) continue;
      found(target, std::move(e), Why::known_name);
      return true;
    }
    return false;
  }
  // Rows of the sibling of this parameter that is called `part`; 0 when there is none.
  int64_t rows_of_part(const std::string& key, const Fused& fused, std::string_view part) const {
    for (const std::string_view own : fused.parts) {
      const auto sibling = replaced(key + ".", own, part);
      if (!sibling) continue;
      const auto at = rows_.find(sibling->substr(0, sibling->size() - 1));
      if (at != rows_.end()) return at->second;
    }
    return 0;
  }
  std::optional<std::string> only_any(const std::string& key) const {
    const std::vector<std::string>& names = named(key);
    return names.size() == 1 ? std::optional(names[0]) : std::nullopt;
  }

  // qkv out of q, k and v.
  bool from_parts(const Target& target, const std::string& key) {
    for (const Fused& fused : fused_names()) {
      std::vector<SourceExpr> parts;
      for (const std::string_view part : fused.parts) {
        const auto as_part = replaced(key + ".", fused.whole, part);
        const auto source = as_part ? only_any(as_part->substr(0, as_part->size() - 1)) : std::nullopt;
        if (!source) break;
        SourceExpr e = SourceExpr::tensor(*source);
        if (is_transposed_ && is_linear(key) && is_matrix(checkpoint_.find(*source)->shape))
          e = SourceExpr::call("transpose", {e});
        parts.push_back(std::move(e));
      }
      if (parts.size() != fused.parts.size()) continue;
      SourceExpr joined = SourceExpr::call("join", std::move(parts));
      if (is_transposed_ && is_linear(key) && type_of(joined, checkpoint_).shape == reversed(target.shape))
        joined = SourceExpr::call("transpose", {joined});
      if (type_of(joined, checkpoint_).shape != target.shape) continue;
      found(target, std::move(joined), Why::known_name);
      return true;
    }
    return false;
  }

  bool from_weight_norm(const Target& target, const std::string& key) {
    if (!key.ends_with("weight")) return false;
    const auto g = only_any(key + "_g"), v = only_any(key + "_v");
    if (!g || !v || checkpoint_.find(*v)->shape != target.shape) return false;
    // The axis whose size the scales have: the first that fits is torch's default.
    const Sizes& scales = checkpoint_.find(*g)->shape;
    double axis = 0;
    for (size_t i = 0; i < scales.size(); ++i)
      if (scales[i] != 1) axis = static_cast<double>(i);
    std::vector<double> numbers;
    if (axis != 0) numbers.push_back(axis);
    found(target, SourceExpr::call("weight_norm", {SourceExpr::tensor(*g), SourceExpr::tensor(*v)}, numbers), Why::known_name);
    return true;
  }

  // ---- what names say nothing of

  // The tensors that are left on both sides, in order: equal lists of shapes belong together one by one. Otherwise a shape
  // that stands once on both sides does.
  void by_structure() {
    std::vector<const Target*> targets;
    for (const Target* t : rest_) {
      if (t->is_needed && !t->is_carried) targets.push_back(t);
    }
    std::vector<const StoredTensor*> sources;
    for (const StoredTensor& t : checkpoint_.tensors())
      if (!used_.contains(t.name)) sources.push_back(&t);
    const bool same_order = targets.size() == sources.size() && std::equal(targets.begin(), targets.end(), sources.begin(),
                                                                           [](const Target* a, const StoredTensor* b) {
                                                                             return a->shape == b->shape &&
                                                                                    leaf(a->name) == leaf(b->name);
                                                                           });
    if (same_order) {
      for (size_t i = 0; i < targets.size(); ++i) found(*targets[i], SourceExpr::tensor(sources[i]->name), Why::order);
      return;
    }
    std::map<Sizes, size_t> wanted;
    for (const Target* t : targets) ++wanted[t->shape];
    for (const Target* t : targets) {
      std::vector<std::string> fitting;
      for (const StoredTensor* s : sources)
        if (s->shape == t->shape) fitting.push_back(s->name);
      if (fitting.empty()) {
        out_.unmatched.push_back(t->name);
      } else if (fitting.size() == 1 && wanted[t->shape] == 1 && leaf(t->name) == leaf(fitting[0])) {
        found(*t, SourceExpr::tensor(fitting[0]), Why::shape);
      } else {
        fitting = nearest_names(t->name, fitting, 4);
        out_.ambiguous.push_back({t->name, fitting, "by shape alone several fit"});
      }
    }
  }
  static std::string leaf(const std::string& name) {
    const std::string key = common_name(name);
    return key.substr(key.rfind('.') + 1);
  }

  const std::vector<Target>& targets_;
  const Checkpoint& checkpoint_;
  Heads heads_;
  std::map<std::string, std::vector<std::string>> sources_;  // by common name
  std::map<std::string, int> target_keys_;
  std::map<std::string, int64_t> rows_;  // of the parameters, by common name
  std::vector<const Target*> rest_;
  std::set<std::string> used_;
  bool is_transposed_ = false;
  Proposals out_;
};

int64_t number_in(const Json& json, std::initializer_list<const char*> keys) {
  for (const char* key : keys) {
    if (json.is_object() && json.contains(key) && json[key].is_number_integer()) return json[key].get<int64_t>();
  }
  return 0;
}

}  // namespace

const char* name_of(Why why) {
  static constexpr const char* kNames[] = {"same name", "known names", "same order", "only shape"};
  return kNames[static_cast<size_t>(why)];
}

Heads find_heads(const Recording* recording, const Checkpoint& checkpoint) {
  Heads heads;
  const auto set = [&](const std::string& key, int64_t value) {
    if (key == "num_attention_heads" || key == "n_heads" || key == "num_heads" || key == "n_head")
      heads.queries = std::max(heads.queries, value);
    if (key == "num_key_value_heads" || key == "n_kv_heads") heads.keys = std::max(heads.keys, value);
  };
  if (recording != nullptr) {
    for (const ModuleCall& call : recording->program.calls) {
      for (const auto* fields : {&call.config, &call.attributes})
        for (const auto& [key, value] : *fields)
          if (const auto* number = std::get_if<int64_t>(&value)) set(key, *number);
    }
  }
  for (const auto& [key, value] : checkpoint.metadata()) {
    if (key.ends_with(".attention.head_count")) heads.queries = std::strtoll(value.c_str(), nullptr, 10);
    if (key.ends_with(".attention.head_count_kv")) heads.keys = std::strtoll(value.c_str(), nullptr, 10);
  }
  for (const char* name : {"params.json", "config.json"}) {
    if (checkpoint.files().empty() || heads.queries != 0) break;
    const std::filesystem::path path = checkpoint.files()[0].parent_path() / name;
    if (!std::filesystem::is_regular_file(path)) continue;
    const Json json = parse_json(read_text(path, 1 << 20), path.string());
    heads = {number_in(json, {"n_heads", "num_attention_heads"}), number_in(json, {"n_kv_heads", "num_key_value_heads"})};
  }
  if (heads.keys == 0) heads.keys = heads.queries;
  return heads;
}

Proposals propose(const std::vector<Target>& targets, const Checkpoint& checkpoint, const Heads& heads) {
  return Proposer(targets, checkpoint, heads).run();
}

std::string rules_text(const Proposals& proposals, const std::string& title) {
  Rules rules;
  for (const NameProposal& p : proposals.found) {
    if (p.source.is_tensor() && p.source.name == p.target) continue;
    rules.add({p.target, p.source, p.why == Why::known_name ? "" : name_of(p.why), 0});
  }
  std::string out = fmt::format(
      "# {}\n# parameter = tensor, or a function of tensors. {{n}} is any number. Equal names need no line.\n\n{}", title,
      merged(rules).text());
  for (const Ambiguity& a : proposals.ambiguous) {
    out += fmt::format("\n# {}: {}. Remove the # of the right line.\n", a.target, a.reason);
    for (const std::string& candidate : a.candidates)
      out += fmt::format("# {} = {}\n", a.target, SourceExpr::tensor(candidate).text());
  }
  for (const std::string& name : proposals.unmatched) out += fmt::format("\n# {}: nothing fits\n", name);
  return out;
}

}  // namespace pycandle
