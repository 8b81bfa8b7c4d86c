#include "params/mapping/ledger.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "base/error.h"
#include "base/json.h"

namespace pycandle {
namespace {

Sizes numbers(const Shape& shape) {
  Sizes sizes;
  for (const Dim d : shape) sizes.push_back(d.number());
  return sizes;
}

bool can_cast(DType from, DType to) {
  if (from == to) return true;
  if (is_floating(from)) return is_floating(to);
  if (is_complex(from)) return is_complex(to);
  return is_integral(from) ? is_integral(to) : false;
}

bool same_bytes(const StoredTensor& a, const StoredTensor& b) {
  if (a.storage == b.storage && a.offset == b.offset && a.shape == b.shape && a.strides == b.strides) return true;
  if (a.dtype != b.dtype || a.shape != b.shape) return false;
  const bool equal = read(a).same_bytes(read(b));
  release(a);
  release(b);
  return equal;
}

class Maker {
 public:
  Maker(const Checkpoint& checkpoint, const Rules& rules) : checkpoint_(checkpoint), rules_(rules) {
    for (const StoredTensor& t : checkpoint.tensors()) names_.push_back(t.name);
  }

  Ledger make(const std::vector<Target>& targets) {
    for (const Target& target : targets) ledger_.parameters.push_back(fate(target));
    std::map<std::string, size_t> places;
    for (const std::string& name : names_) {
      places.emplace(name, ledger_.tensors.size());
      ledger_.tensors.push_back({name, Fate::unused, {}});
    }
    for (const ParameterFate& p : ledger_.parameters) {
      if (p.fate == Fate::missing || p.fate == Fate::carried) continue;
      std::vector<std::string> used;
      p.source.collect(used);
      for (const std::string& name : std::set<std::string>(used.begin(), used.end())) {
        const auto at = places.find(name);
        if (at == places.end()) continue;  // a rule names what is not there; the parameter is mismatched
        TensorFate& t = ledger_.tensors[at->second];
        if (t.by.empty()) t.fate = p.fate;
        t.by.push_back(p.target.name);
      }
      mark_tied(p, places);
    }
    return std::move(ledger_);
  }

 private:
  ParameterFate fate(const Target& target) {
    ParameterFate p{target, Fate::missing, {}, target.dtype, {}};
    const auto source = source_of(target);
    if (!source) {
      if (!target.is_needed) p.fate = Fate::unused;
      if (target.is_carried) p.fate = Fate::carried;  // needed or not: the manifest names it
      if (p.fate == Fate::missing) p.note = suggestion(target);
      return p;
    }
    p.source = *source;
    try {
      const SourceType type = type_of(*source, checkpoint_);
      p.stored = type.dtype;
      p.fate = fate_of(*source);
      if (p.fate == Fate::used && type.dtype != target.dtype) p.fate = Fate::cast;
      if (type.shape != target.shape || !can_cast(type.dtype, target.dtype)) {
        p.fate = Fate::mismatched;
        p.note = fmt::format("the program needs {}{}, {} is {}{}", name_of(target.dtype), to_string(target.shape), source->text(),
                             name_of(type.dtype), to_string(type.shape));
      }
    } catch (const Error& error) {
      p.fate = Fate::mismatched;
      p.note = error.message();
    }
    return p;
  }

  std::optional<SourceExpr> source_of(const Target& target) const {
    if (auto ruled = rules_.source_of(target.name)) return ruled;
    for (const std::string& alias : target.aliases)
      if (auto ruled = rules_.source_of(alias)) return ruled;
    if (checkpoint_.find(target.name) != nullptr) return SourceExpr::tensor(target.name);
    for (const std::string& alias : target.aliases)
      if (checkpoint_.find(alias) != nullptr) return SourceExpr::tensor(alias);
    return std::nullopt;
  }

  std::string suggestion(const Target& target) const {
    const std::vector<std::string> near = nearest_names(target.name, names_, 3);
    return near.empty() ? std::string("the checkpoint is empty") : fmt::format("nearest: {}", fmt::join(near, ", "));
  }

  // The checkpoint's tensors under the other names of a parameter must be the same one.
  void mark_tied(const ParameterFate& p, const std::map<std::string, size_t>& places) {
    std::vector<std::string> others = p.target.aliases;
    others.push_back(p.target.name);
    for (const std::string& other : others) {
      SourceExpr source = rules_.source_of(other).value_or(SourceExpr::tensor(other));
      if (!source.is_tensor() || source == p.source || !places.contains(source.name)) continue;
      TensorFate& t = ledger_.tensors[places.at(source.name)];
      if (!t.by.empty()) continue;
      if (p.source.is_tensor() && !same_bytes(*checkpoint_.find(source.name), *checkpoint_.find(p.source.name))) {
        set_mismatch(p.target.name,
                     fmt::format("it is tied to {}, but the checkpoint has other values under {}", p.source.text(), source.name));
      }
      t.fate = Fate::tied;
      t.by.push_back(p.target.name);
    }
  }
  void set_mismatch(const std::string& name, const std::string& note) {
    for (ParameterFate& p : ledger_.parameters) {
      if (p.target.name != name) continue;
      p.fate = Fate::mismatched;
      p.note = note;
    }
  }

  const Checkpoint& checkpoint_;
  const Rules& rules_;
  std::vector<std::string> names_;
  Ledger ledger_;
};

// Pieces of names: their letters, and numbers as a whole.
std::vector<std::string> pieces(const std::string& name) {
  std::vector<std::string> out(1);
  for (const char c : name) {
    if (c == '.' || c == '/' || c == '_') {
      out.emplace_back();
    } else {
      out.back() += c;
    }
  }
  return out;
}

// Pieces in common, in order, of all pieces.
double likeness(const std::vector<std::string>& a, const std::vector<std::string>& b) {
  std::vector<size_t> row(b.size() + 1, 0);
  for (const std::string& x : a) {
    size_t diagonal = 0;
    for (size_t j = 0; j < b.size(); ++j) {
      const size_t above = row[j + 1];
      row[j + 1] = x == b[j] ? diagonal + 1 : std::max(row[j], above);
      diagonal = above;
    }
  }
  return 2.0 * static_cast<double>(row[b.size()]) / static_cast<double>(a.size() + b.size());
}

}  // namespace

std::vector<Target> targets_of(const Recording& recording) {
  std::vector<Target> out;
  const Program& p = recording.program;
  for (const Parameter& q : p.parameters) {
    // A constant or a buffer that no state dict holds has its value in the recording, if anywhere.
    const bool is_own = q.kind == Parameter::Kind::constant || !q.persistent;
    out.push_back({q.name, q.aliases, q.type.dtype, numbers(q.type.shape), q.value != kNoValue, is_own && !q.file.empty()});
  }
  for (const State& s : p.states) {
    const Type& type = p.graph.type(s.value);
    out.push_back({s.name, {}, type.dtype, numbers(type.shape), true, false});
  }
  return out;
}

std::vector<Target> targets_of(const Checkpoint& checkpoint) {
  std::vector<Target> out;
  for (const StoredTensor& t : checkpoint.tensors()) out.push_back({t.name, {}, t.dtype, t.shape, true, false});
  return out;
}

size_t Ledger::count(Fate fate) const {
  return static_cast<size_t>(
      std::count_if(parameters.begin(), parameters.end(), [&](const ParameterFate& p) { return p.fate == fate; }));
}

size_t Ledger::unused() const {
  return static_cast<size_t>(
      std::count_if(tensors.begin(), tensors.end(), [](const TensorFate& t) { return t.fate == Fate::unused; }));
}

Ledger make_ledger(const std::vector<Target>& targets, const Checkpoint& checkpoint, const Rules& rules) {
  return Maker(checkpoint, rules).make(targets);
}

void refuse_incomplete(const Ledger& ledger, const Checkpoint& checkpoint, bool strict) {
  constexpr size_t kShown = 6;
  std::vector<std::string> lines;
  const size_t missing = ledger.count(Fate::missing), mismatched = ledger.count(Fate::mismatched),
               unused = strict ? ledger.unused() : 0;
  for (const ParameterFate& p : ledger.parameters) {
    if (p.fate != Fate::missing && p.fate != Fate::mismatched) continue;
    if (lines.size() < kShown) lines.push_back(fmt::format("{} ({})", p.target.name, p.note));
  }
  for (const TensorFate& t : ledger.tensors) {
    if (strict && t.fate == Fate::unused && lines.size() < kShown) lines.push_back(fmt::format("{} (unused)", t.name));
  }
  const size_t total = missing + mismatched + unused;
  if (total == 0) return;
  if (total > lines.size()) lines.push_back(fmt::format("and {} more", total - lines.size()));
  throw Error(ErrorCode::bad_input, "the checkpoint does not give the program its weights")
      .expected(fmt::format("a tensor for each of {} parameters", ledger.parameters.size()))
      .found(fmt::format("{} missing, {} mismatched{}: {}", missing, mismatched, strict ? fmt::format(", {} unused", unused) : "",
                         fmt::join(lines, "; ")))
      .hint(checkpoint.sections().empty() ? "pycandle weights map proposes how names belong together"
                                          : sections_text(checkpoint));
}

namespace {

Json counts(const Ledger& ledger) {
  Json counts = Json::object();
  for (int i = 0; i < kFateCount; ++i)
    if (const size_t n = ledger.count(static_cast<Fate>(i)); n > 0) counts[name_of(static_cast<Fate>(i))] = n;
  return {{"complete", ledger.is_complete()}, {"counts", counts}, {"unused", ledger.unused()}};
}

}  // namespace

std::string counts_json(const Ledger& ledger) { return counts(ledger).dump(); }

std::string to_json(const Ledger& ledger) {
  Json parameters = Json::array(), tensors = Json::array();
  for (const ParameterFate& p : ledger.parameters) {
    Json entry{{"name", p.target.name}, {"fate", name_of(p.fate)}, {"dtype", name_of(p.target.dtype)}, {"shape", p.target.shape}};
    if (!p.source.name.empty() || !p.source.function.empty()) entry["source"] = p.source.text();
    if (p.stored != p.target.dtype) entry["stored"] = name_of(p.stored);
    if (!p.note.empty()) entry["note"] = p.note;
    parameters.push_back(std::move(entry));
  }
  for (const TensorFate& t : ledger.tensors) tensors.push_back({{"name", t.name}, {"fate", name_of(t.fate)}, {"by", t.by}});
  Json all = counts(ledger);
  all["parameters"] = std::move(parameters);
  all["tensors"] = std::move(tensors);
  return all.dump(2, ' ', false, Json::error_handler_t::replace);
}

std::vector<std::string> nearest_names(const std::string& name, const std::vector<std::string>& names, size_t count) {
  const std::vector<std::string> wanted = pieces(name);
  std::vector<std::pair<double, const std::string*>> scored;
  for (const std::string& other : names) {
    const double score = likeness(wanted, pieces(other));
    if (score > 0) scored.emplace_back(-score, &other);
  }
  const auto end = scored.begin() + static_cast<std::ptrdiff_t>(std::min(count, scored.size()));
  std::partial_sort(scored.begin(), end, scored.end(),
                    [](const auto& a, const auto& b) { return std::pair(a.first, *a.second) < std::pair(b.first, *b.second); });
  std::vector<std::string> out;
  for (auto it = scored.begin(); it != end; ++it) out.push_back(*it->second);
  return out;
}

std::vector<std::string> nearest_names(const std::string& name, const Safetensors& file, size_t count) {
  std::vector<std::string> names;
  for (const auto& [other, entry] : file.entries()) names.push_back(other);
  return nearest_names(name, names, count);
}

}  // namespace pycandle
