#include "verify/result_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/error.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/threads.h"
#include "base/version.h"
#include "verify/result_json.h"

namespace pycandle {

// ---- writing

struct ResultWriter::State {
  explicit State(const std::filesystem::path& path) : file(path, path.string() + ".partial") {}
  AtomicFile file;
  std::string text;  // what was written, for the hash in the last line

  void line(const Json& json) {
    const std::string bytes = one_line(json);
    file.write(bytes);
    text += bytes;
  }
};

ResultWriter::ResultWriter(const std::filesystem::path& path) : state_(std::make_unique<State>(path)) {}
ResultWriter::~ResultWriter() = default;

void ResultWriter::start(const VerifyResult& result, const VerifyOptions& options) {
  Json tolerance = nullptr;
  if (options.tolerance) tolerance = {{"atol", options.tolerance->atol}, {"rtol", options.tolerance->rtol}};
  state_->line({{"result", "pycandle.result"},
                {"version", kResultVersion},
                {"pycandle", version()},
                {"name", result.name},
                {"backend", result.backend},
                {"against", result.against},
                {"tolerance", tolerance},
                {"disabled_passes", options.pipeline.disabled},
                {"threads", options.pipeline.threads > 0 ? options.pipeline.threads : thread_count()},
                {"overrides", options.pipeline.overrides},
                {"weights", name_of(options.pipeline.weights)},
                {"planned", result.planned},
                {"hashes", result.hashes}});
}

void ResultWriter::layer(const LayerResult& layer) { state_->line({{"layer", to_json(layer)}}); }

void ResultWriter::finish(const VerifyResult& result) {
  for (const SkippedTap& tap : result.skipped) state_->line({{"skipped", {{"tap", tap.tap.text()}, {"why", tap.why}}}});
  for (const OutputError& output : result.outputs) state_->line({{"output", to_json(output)}});
  const std::string hash = hash128(state_->text).text();
  state_->line(
      {{"complete",
        {{"status", status_of(result)}, {"layers", result.layers.size()}, {"counts", counts_json(result)}, {"hash", hash}}}});
  state_->file.commit();
}

// ---- reading

namespace {

[[noreturn]] void bad_result(const std::filesystem::path& path, std::string what, std::string found) {
  throw Error(ErrorCode::bad_input, fmt::format("{} {}", path.string(), what))
      .expected("a result of pycandle verify --out, as it was written")
      .found(std::move(found));
}

double number_in(const Json& object, const char* key) {
  const auto found = object.find(key);
  if (found == object.end()) return 0;
  if (found->is_number()) return found->get<double>();
  return std::numeric_limits<double>::infinity();  // "inf" and "nan" are texts
}

std::string text_in(const Json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_string() ? found->get<std::string>() : std::string();
}

}  // namespace

StoredResult read_result(const std::filesystem::path& path) {
  const std::string text = read_text(path);
  StoredResult result;
  bool is_complete = false;
  int64_t number = 0;
  for (size_t begin = 0; begin < text.size(); ++number) {
    const size_t newline = text.find('\n', begin), end = newline == std::string::npos ? text.size() : newline;
    const std::string where = fmt::format("line {}", number + 1);
    const Json line = parse_json(std::string_view(text).substr(begin, end - begin),
                                 fmt::format("{} of {}", where, path.string()));
    if (!line.is_object() || is_complete) bad_result(path, "is no result", where);
    if (number == 0) {
      if (text_in(line, "result") != "pycandle.result" || text_in(line, "version").rfind("1.", 0) != 0) {
        bad_result(path, "is no result of this version", text_in(line, "version"));
      }
      result.name = text_in(line, "name");
      result.backend = text_in(line, "backend");
      const Json hashes = line.value("hashes", Json::object());
      for (const auto& [key, value] : hashes.items()) {
        if (value.is_string()) result.hashes[key] = value.get<std::string>();
      }
    } else if (line.contains("layer") && line["layer"].is_object()) {
      const Json& l = line["layer"];
      const std::optional<Verdict> verdict = verdict_from_text(text_in(l, "verdict"));
      if (!verdict) bad_result(path, "has a verdict that is none", where);
      const Json whole = l.value("cumulative", Json());
      result.layers.push_back({text_in(l, "input"), text_in(l, "tap"), text_in(l, "op"), *verdict, number_in(l, "error_rms"),
                               number_in(l, "floor_rms"), whole.is_object() ? number_in(whole, "rms") : 0});
    } else if (line.contains("complete") && line["complete"].is_object()) {
      const Json& last = line["complete"];
      is_complete = number_in(last, "layers") == static_cast<double>(result.layers.size()) &&
                    text_in(last, "hash") == hash128(std::string_view(text).substr(0, begin)).text();
      if (!is_complete) bad_result(path, "was changed after it was written", where);
    }
    begin = end + 1;
  }
  if (!is_complete) bad_result(path, "is not complete", fmt::format("{} lines, and none of them the last", number));
  return result;
}

// ---- comparing

const char* to_string(Change::Kind kind) {
  switch (kind) {
    case Change::Kind::better: return "better";
    case Change::Kind::worse: return "worse";
    case Change::Kind::gone: return "gone";
    default: return "new";
  }
}

bool Comparison::regressed() const {
  return std::any_of(changes.begin(), changes.end(),
                     [](const Change& c) { return c.kind == Change::Kind::worse || c.kind == Change::Kind::gone; });
}

namespace {

bool is_fine(Verdict v) { return v < Verdict::reference_unstable; }

// An error that rounding explains counts as one floor: it may come out a little larger or smaller on any machine.
double in_floors(double error, double floor) { return floor > 0 ? std::max(1.0, error / floor) : error > 0 ? 1e300 : 1.0; }

std::optional<Change> change_of(const StoredLayer& before, const StoredLayer& now) {
  constexpr double kNotable = 2;
  const bool same_side = is_fine(before.verdict) && is_fine(now.verdict);
  if (!same_side && before.verdict != now.verdict) {
    return Change{now.verdict > before.verdict ? Change::Kind::worse : Change::Kind::better, now.tap,
                  fmt::format("{}, was {}", to_string(now.verdict), to_string(before.verdict))};
  }
  const double was = in_floors(before.error_rms, before.floor_rms), is = in_floors(now.error_rms, now.floor_rms);
  if (is > kNotable * was || was > kNotable * is) {
    return Change{is > was ? Change::Kind::worse : Change::Kind::better, now.tap,
                  fmt::format("{:.2g} from the exact value, was {:.2g}", now.error_rms, before.error_rms)};
  }
  return std::nullopt;
}

}  // namespace

Comparison compare_with(const StoredResult& before, const StoredResult& now) {
  if (before.name != now.name) {
    throw Error(ErrorCode::bad_input, "the baseline is a result of another model").expected(now.name).found(before.name);
  }
  Comparison comparison;
  for (const auto& [what, hash] : now.hashes) {
    const auto old = before.hashes.find(what);
    if (old != before.hashes.end() && old->second != hash) comparison.notes.push_back(fmt::format("the {} changed", what));
  }
  std::map<std::pair<std::string, std::string>, const StoredLayer*> stored;
  for (const StoredLayer& layer : before.layers) stored[{layer.input, layer.tap}] = &layer;
  for (const StoredLayer& layer : now.layers) {
    const auto old = stored.find({layer.input, layer.tap});
    if (old == stored.end()) {
      comparison.changes.push_back({Change::Kind::added, layer.tap, to_string(layer.verdict)});
      continue;
    }
    if (const auto change = change_of(*old->second, layer)) comparison.changes.push_back(*change);
    stored.erase(old);
  }
  for (const auto& [key, layer] : stored) {
    comparison.changes.push_back(
        {Change::Kind::gone, layer->tap, fmt::format("was {}, and is not judged now", to_string(layer->verdict))});
  }
  return comparison;
}

Comparison compare_with(const StoredResult& before, const VerifyResult& now) {
  StoredResult stored{now.name, now.backend, now.hashes, {}};
  for (const LayerResult& l : now.layers)
    stored.layers.push_back(
        {l.input, l.tap.text(), l.op, l.verdict, l.error_rms, l.floor_rms, l.cumulative ? l.cumulative->rms : 0});
  return compare_with(before, stored);
}

}  // namespace pycandle
