// What verification found, compactly: a row a layer, tied to the node that gives its value.
#include <fmt/format.h>

#include <cmath>
#include <limits>

#include "base/error.h"
#include "base/file.h"
#include "report/parts.h"
#include "verify/result_file.h"
#include "verify/result_json.h"

namespace pycandle::report {

std::string text_in(const Json& object, const char* key) {
  if (!object.is_object()) return {};
  const auto found = object.find(key);
  return found != object.end() && found->is_string() ? found->get<std::string>() : std::string();
}

double number_in(const Json& object, const char* key) {
  if (!object.is_object()) return 0;
  const auto found = object.find(key);
  return found != object.end() && found->is_number() ? found->get<double>() : 0;
}

Json number_or_text(const Json& value) {
  if (value.is_number()) return rounded(value.get<double>());
  return value == "inf" || value == "-inf" || value == "nan" || value == "-nan" ? value : Json();
}

std::set<std::string> disabled_passes(const Json& result) {
  std::set<std::string> names;
  if (!result.is_object()) return names;
  for (const Json& name : result.value("disabled_passes", Json::array()))
    if (name.is_string()) names.insert(name.get<std::string>());
  return names;
}

namespace {

// Fields of a layer whose texts repeat.
constexpr const char* kShared[] = {"op", "python", "source", "dtype", "input", "why", "judged", "cpp", "cpp_source", "decisions"};
constexpr const char* kNumbers[] = {"max_abs",   "max_rel",   "rms",       "cosine",         "error_rms",
                                    "error_max", "floor_rms", "floor_max", "weight_rounding"};

Json field_of(const Json& object, const char* key) {
  const auto found = object.find(key);
  return found == object.end() ? Json() : *found;
}

// An array of integers as it is; anything else is null.
Json integers(const Json& value) {
  if (!value.is_array()) return nullptr;
  for (const Json& element : value)
    if (!element.is_number_integer()) return nullptr;
  return value;
}

// How many elements are 0, 1, 2–3, … units in the last place apart, without the zeros at the end.
Json ulps(const Json& value) {
  Json counts = integers(value);
  while (counts.is_array() && !counts.empty() && counts.back() == 0) counts.erase(counts.size() - 1);
  return counts;
}

// The picture of a difference; null when it is not as verify writes it.
Json picture_json(const Json& p) {
  const auto rows = static_cast<int64_t>(number_in(p, "rows")), columns = static_cast<int64_t>(number_in(p, "columns"));
  const std::string cells = text_in(p, "cells");
  const bool are_cells = cells.find_first_not_of(".!abcdefghijklmnopqrstuvwxyz") == std::string::npos;
  constexpr int64_t kMost = 1 << 10;
  if (!are_cells || rows < 1 || columns < 1 || rows > kMost || columns > kMost) return nullptr;
  if (rows * columns != static_cast<int64_t>(cells.size())) return nullptr;
  return {{"rows", rows}, {"columns", columns}, {"cells", cells}, {"largest", rounded(number_in(p, "largest"))}};
}

Json errors_json(const Json& e) {
  Json counts = e.is_object() ? integers(field_of(e, "counts")) : Json();
  if (!counts.is_array() || counts.empty()) return nullptr;
  return {{"first", static_cast<int64_t>(number_in(e, "first"))}, {"counts", counts}};
}

Json diagnosis_json(const Json& d) {
  Json out = Json::object();
  for (const char* key : {"op", "path", "python", "source", "pass", "cause", "cause_kind", "parameter", "cpp", "cpp_source"})
    if (const std::string text = text_in(d, key); !text.empty()) out[key] = text;
  return out;
}

// Where a layer is in the program: the value that the tap names.
class Places {
 public:
  explicit Places(const Program& p) : program_(p) {
    for (const Tap& tap : p.taps) values_[tap.id.text()] = tap.value;
    for (const State& s : p.states) values_["updated:" + s.name] = s.updated;
    for (size_t i = 0; i < p.calls.size(); ++i)
      calls_[fmt::format("{}@{}", p.calls[i].path, p.calls[i].call)] = static_cast<int64_t>(i);
  }
  int64_t node(const std::string& tap) const {
    const auto found = values_.find(tap);
    return found == values_.end() || found->second == kNoValue ? kNoNode : program_.graph.values[found->second].node;
  }
  // The module call that gives or takes the value; of other values the one that computes it.
  int64_t call(const std::string& tap) const {
    const TapId id = TapId::parse(tap);
    const auto found = calls_.find(id.module_call());
    if (id.is_of_module() && found != calls_.end()) return found->second;
    const int64_t n = node(tap);
    return n < 0 ? -1 : program_.graph.nodes[static_cast<NodeId>(n)].origin.call;
  }

 private:
  const Program& program_;
  std::map<std::string, ValueId> values_;
  std::map<std::string, int64_t> calls_;
};

Json layer_json(const Json& l, const Places& places, Texts& texts) {
  const std::string tap = text_in(l, "tap");
  Json row{
      {"tap", tap}, {"node", places.node(tap)}, {"call", places.call(tap)}, {"verdict", texts.number(text_in(l, "verdict"))}};
  for (const char* key : kShared)
    if (const std::string text = text_in(l, key); !text.empty()) row[key] = texts.number(text);
  for (const char* key : kNumbers)
    if (const Json value = number_or_text(field_of(l, key)); !value.is_null() && value != 0.0) row[key] = value;
  for (const char* key : {"differing", "nan_mismatches"})
    if (const double count = number_in(l, key); count > 0) row[key] = count;
  for (const char* key : {"shape", "largest_difference", "first_nan_mismatch"})
    if (const Json value = integers(field_of(l, key)); !value.is_null()) row[key] = value;
  if (const Json counts = ulps(field_of(l, "ulps")); counts.is_array()) row["ulps"] = counts;
  if (Json picture = picture_json(field_of(l, "picture")); !picture.is_null()) row["picture"] = std::move(picture);
  if (Json errors = errors_json(field_of(l, "errors")); !errors.is_null()) row["errors"] = std::move(errors);
  if (const Json whole = field_of(l, "cumulative"); whole.is_object()) {
    row["whole_rms"] = number_or_text(field_of(whole, "rms"));
    row["whole_max"] = number_or_text(field_of(whole, "max_abs"));
  }
  if (const Json d = field_of(l, "diagnosis"); d.is_object()) row["diagnosis"] = diagnosis_json(d);
  return row;
}

}  // namespace

Json result_part(const std::filesystem::path& path, const Program& program, Texts& texts) {
  const StoredResult checked = read_result(path);  // complete, and as it was written
  if (checked.name != program.name) {
    throw Error(ErrorCode::bad_input, "the result is of another model").expected(program.name).found(checked.name);
  }
  const Places places(program);
  const std::string text = read_text(path);
  Json out = Json::object(), layers = Json::array(), skipped = Json::array(), outputs = Json::array();
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    const Json line = parse_json(std::string_view(text).substr(begin, end - begin), path.string());
    begin = end + 1;
    if (line.contains("result")) {
      for (const char* key : {"version", "pycandle", "backend", "against", "weights"}) out[key] = text_in(line, key);
      for (const char* key : {"threads", "tolerance", "disabled_passes", "overrides"}) out[key] = field_of(line, key);
      out["hashes"] = checked.hashes;
    } else if (line.contains("layer")) {
      layers.push_back(layer_json(line["layer"], places, texts));
    } else if (line.contains("skipped")) {
      skipped.push_back({{"tap", text_in(line["skipped"], "tap")}, {"why", text_in(line["skipped"], "why")}});
    } else if (line.contains("output") && line["output"].is_object()) {
      const Json& o = line["output"];
      outputs.push_back({{"name", text_in(o, "name")},
                         {"input", text_in(o, "input")},
                         {"max_abs", number_or_text(field_of(o, "max_abs"))},
                         {"rms", number_or_text(field_of(o, "rms"))}});
    } else if (line.contains("complete")) {
      out["status"] = text_in(line["complete"], "status");
    }
  }
  Json counts = Json::object();
  for (const Verdict v : kVerdicts) {
    const auto n = std::count_if(checked.layers.begin(), checked.layers.end(),
                                 [&](const StoredLayer& l) { return l.verdict == v; });
    if (n > 0) counts[to_string(v)] = n;
  }
  out.update(Json{{"counts", counts}, {"layers", layers}, {"skipped", skipped}, {"outputs", outputs}});
  return out;
}

Json baseline_part(const std::filesystem::path& before, const std::filesystem::path& now) {
  return to_json(compare_with(read_result(before), read_result(now)));
}

}  // namespace pycandle::report
