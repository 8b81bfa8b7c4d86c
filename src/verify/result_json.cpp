#include "verify/result_json.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace pycandle {
namespace {

Json number(double v) { return std::isfinite(v) ? Json(v) : Json(fmt::format("{}", v)); }  // "inf", "nan"
Json place(int64_t index, const Sizes& shape) { return index < 0 ? Json(nullptr) : Json(coordinates_of(index, shape)); }

}  // namespace

Json to_json(const Metrics& m, const Sizes& shape) {
  return {{"max_abs", number(m.max_abs)},
          {"max_rel", number(m.max_rel)},
          {"rms", number(m.rms)},
          {"mse", number(m.mse)},
          {"cosine", number(m.cosine)},
          {"differing", m.differing},
          {"first_difference", place(m.first_difference, shape)},
          {"largest_difference", place(m.largest_difference, shape)},
          {"nan_mismatches", m.nan_mismatches},
          {"first_nan_mismatch", place(m.first_nan_mismatch, shape)},
          {"ulps", m.ulps}};
}

Json to_json(const DifferencePicture& p) {
  return {{"rows", p.rows}, {"columns", p.columns}, {"cells", p.cells}, {"largest", p.largest}};
}

Json to_json(const LayerResult& l) {
  Json json{{"tap", l.tap.text()}, {"path", l.path},   {"op", l.op},      {"python", l.place},
            {"source", l.source},  {"dtype", l.dtype}, {"shape", l.shape}};
  if (!l.input.empty()) json["input"] = l.input;
  if (!l.code.empty()) json.update({{"cpp", l.code}, {"cpp_source", l.code_source}});
  json.update(to_json(l.metrics, l.shape));
  if (!l.picture.empty()) json["picture"] = to_json(l.picture);
  if (!l.picture.decades.empty()) json["errors"] = {{"first", l.picture.first_decade}, {"counts", l.picture.decades}};
  if (l.weight_rounding) json["weight_rounding"] = *l.weight_rounding;
  json["cumulative"] = l.cumulative ? to_json(*l.cumulative, l.shape) : Json(nullptr);
  json["error_rms"] = number(l.error_rms);
  json["error_max"] = number(l.error_max);
  json["floor_rms"] = number(l.floor_rms);
  json["floor_max"] = number(l.floor_max);
  json["judged"] = to_string(l.judged);
  json["verdict"] = to_string(l.verdict);
  json["why"] = l.why;
  if (!l.decisions.empty()) json["decisions"] = l.decisions;
  if (l.diagnosis) {
    const Diagnosis& d = *l.diagnosis;
    json["diagnosis"] = {{"op", d.op},     {"path", d.path},   {"python", d.place},         {"source", d.source},
                         {"pass", d.pass}, {"cause", d.cause}, {"cause_kind", d.cause_kind}};
    if (!d.parameter.empty()) json["diagnosis"]["parameter"] = d.parameter;
    if (!d.code.empty()) json["diagnosis"].update({{"cpp", d.code}, {"cpp_source", d.code_source}});
  }
  return json;
}

Json to_json(const OutputError& o) {
  Json json{{"name", o.name},
            {"max_abs", number(o.metrics.max_abs)},
            {"rms", number(o.metrics.rms)},
            {"cosine", number(o.metrics.cosine)}};
  if (!o.input.empty()) json["input"] = o.input;
  return json;
}

Json to_json(const Comparison& comparison) {
  Json changes = Json::array();
  for (const Change& c : comparison.changes) changes.push_back({{"change", to_string(c.kind)}, {"tap", c.tap}, {"what", c.text}});
  return {{"regressed", comparison.regressed()}, {"notes", comparison.notes}, {"changes", changes}};
}

Json counts_json(const VerifyResult& result) {
  Json counts;
  for (Verdict v : kVerdicts) {
    std::string key = to_string(v);
    std::replace(key.begin(), key.end(), ' ', '_');
    counts[key] = result.count(v);
  }
  return counts;
}

const char* status_of(const VerifyResult& result) {
  if (result.passed()) return "passed";
  return result.wrong() == 0 && result.damaged.empty() && result.proves_nothing() ? "no evidence" : "wrong";
}

std::string one_line(const Json& json) { return json.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n"; }

}  // namespace pycandle
