// pycandle diff: what changed between two recordings, two results or two profiles.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <fstream>
#include <map>

#include "base/file.h"
#include "base/json.h"
#include "cli/diff.h"
#include "cli/terminal.h"
#include "ops/core/catalogue.h"
#include "runtime/model.h"
#include "verify/recording_diff.h"
#include "verify/result_file.h"
#include "verify/result_json.h"

namespace pycandle::cli {
namespace {

namespace fs = std::filesystem;

struct Options {
  std::string first, second;
  bool speed = false, all = false;
};

constexpr size_t kMostRows = 12;

// ---- which kind of file

enum class Kind { recording, result, profile };

std::string first_line(const fs::path& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

Kind kind_of(const fs::path& path) {
  std::error_code failure;
  if (!fs::is_regular_file(path, failure)) return Kind::recording;  // or it is not there, which its reader says
  const std::string line = first_line(path);
  if (Json::accept(line) && parse_json(line, path.string()).contains("result")) return Kind::result;
  const std::string text = read_text(path);
  if (Json::accept(text) && parse_json(text, path.string()).contains("profile")) return Kind::profile;
  return Kind::recording;
}

const char* to_string(Kind kind) {
  return kind == Kind::recording ? "a recording" : kind == Kind::result ? "a result of verify --out" : "a profile of forward";
}

// ---- what is printed

Json number(double v) { return std::isfinite(v) ? Json(v) : Json(fmt::format("{}", v)); }

Json to_json(const ChangedTensors& tensors) {
  Json list = Json::array();
  for (const ChangedTensor& t : tensors.changed)
    list.push_back({{"name", t.name},
                    {"what", t.what},
                    {"largest", number(t.largest)},
                    {"relative", number(t.relative)},
                    {"differing", t.differing},
                    {"elements", t.elements}});
  return {{"equal", tensors.equal}, {"changed", list}};
}

const char* to_string(ChangedModule::Kind kind) {
  static constexpr const char* kWords[] = {"changed", "only in the first", "only in the second"};
  return kWords[static_cast<size_t>(kind)];
}

Json to_json(const RecordingDifference& d) {
  Json facts = Json::array(), modules = Json::array();
  for (const ChangedFact& f : d.facts) facts.push_back({{"what", f.what}, {"first", f.first}, {"second", f.second}});
  for (const ChangedModule& m : d.modules)
    modules.push_back(
        {{"change", to_string(m.kind)}, {"path", m.path}, {"class", m.class_name}, {"first", m.first}, {"second", m.second}});
  return {{"kind", "recordings"},
          {"same", d.is_empty()},
          {"first", d.first_name},
          {"second", d.second_name},
          {"facts", facts},
          {"structure", d.structure},
          {"modules", modules},
          {"weights", to_json(d.weights)},
          {"inputs", to_json(d.inputs)},
          {"values", to_json(d.values)}};
}

class Printer {
 public:
  explicit Printer(bool all) : most_(all ? SIZE_MAX : kMostRows) {}

  void title(const std::string& text) { fmt::print("\n{}\n", styled(text, Style::bold)); }
  // The first rows of a table, and how many there are more.
  void table(const std::vector<std::vector<std::string>>& rows) const {
    Table t;
    for (size_t i = 0; i < std::min(most_, rows.size()); ++i) t.row(rows[i]);
    fmt::print("{}", t.text());
    say_more(rows.size());
  }
  size_t most() const { return most_; }
  void say_more(size_t rows) const {
    if (rows > most_) fmt::print("  and {} more (--all)\n", rows - most_);
  }
  void tensors(const std::string& what, const ChangedTensors& tensors) {
    if (tensors.changed.empty() && tensors.equal == 0) return;
    title(fmt::format("{}: {} of {} differ", what, tensors.changed.size(), tensors.changed.size() + tensors.equal));
    std::vector<std::vector<std::string>> rows;
    for (const ChangedTensor& t : tensors.changed) {
      if (!t.what.empty()) {
        rows.push_back({t.name, t.what});
      } else {
        rows.push_back({t.name, fmt::format("up to {}", short_number(t.largest)),
                        fmt::format("{} of its size", short_number(t.relative)),
                        fmt::format("{} of {} elements", t.differing, t.elements)});
      }
    }
    table(rows);
  }

 private:
  size_t most_;
};

void print_structure(const RecordingDifference& d, Printer& out) {
  if (d.structure.empty() && d.modules.empty()) {
    out.title("structure: the same");
    return;
  }
  out.title(fmt::format("structure: {} module{}", d.modules.size(), d.modules.size() == 1 ? " differs" : "s differ"));
  if (!d.structure.empty()) fmt::print("  first: {}\n", wrapped(d.structure, 2, 9));
  for (size_t i = 0; i < std::min(out.most(), d.modules.size()); ++i) {
    const ChangedModule& m = d.modules[i];
    fmt::print("  {}\n", wrapped(fmt::format("{}  {}  {}", m.path, to_string(m.kind), m.class_name), 4, 2));
    if (m.kind != ChangedModule::Kind::changed) continue;
    for (const std::string& op : m.first) fmt::print("    - {}\n", wrapped(op, 6, 6));
    for (const std::string& op : m.second) fmt::print("    + {}\n", wrapped(op, 6, 6));
  }
  out.say_more(d.modules.size());
}

void print_text(const RecordingDifference& d, const Options& options, Printer& out) {
  const bool alike = d.first_name == d.second_name;  // two recordings of one model
  const std::string title = fmt::format("{} and {}: {}", alike ? options.first : d.first_name,
                                        alike ? options.second : d.second_name, d.is_empty() ? "the same" : "they differ");
  fmt::print("{}\n", styled(wrapped(title, 2, 0), Style::bold));
  for (const ChangedFact& f : d.facts) fmt::print("  {}: {}, now {}\n", f.what, f.first, f.second);
  print_structure(d, out);
  out.tensors("weights", d.weights);
  out.tensors("inputs", d.inputs);
  out.tensors("values that PyTorch computed", d.values);
  if (!d.inputs.changed.empty()) fmt::print("  the inputs differ, so the values must\n");
}

// ---- speed

struct Speed {
  double first = 0, second = 0;  // ms, medians
};

double median(std::vector<double> times) {
  std::sort(times.begin(), times.end());
  return times[times.size() / 2];
}

// Both in turns, each on random inputs of its recorded sizes.
Speed measured(const Options& options) {
  constexpr double kEnough = 2;  // seconds
  constexpr size_t kLeast = 5, kMost = 200;
  struct Side {
    Model model;
    Model::Tensors inputs;
    std::vector<double> times = {};
  };
  std::vector<Side> sides;
  for (const std::string& path : {options.first, options.second}) {
    Model model = open_model(path, {.backend = "cpu", .pipeline = {}});
    Model::Tensors inputs = random_inputs(model.program(), 0);
    sides.push_back({std::move(model), std::move(inputs)});
  }
  using Clock = std::chrono::steady_clock;
  const auto begin = Clock::now();
  for (Side& side : sides)
    for (int i = 0; i < 2; ++i) side.model.forward(side.inputs);  // plans, then packed weights
  for (size_t i = 0; i < kMost; ++i) {
    if (i >= kLeast && std::chrono::duration<double>(Clock::now() - begin).count() > kEnough) break;
    for (Side& side : sides) {
      const auto start = Clock::now();
      side.model.forward(side.inputs);
      side.times.push_back(std::chrono::duration<double, std::milli>(Clock::now() - start).count());
    }
  }
  return {median(sides[0].times), median(sides[1].times)};
}

// ---- the three kinds

void diff_recordings(const Options& options, Context& context) {
  Progress progress("diff: reading");
  std::string part;
  const RecordingDifference d = compare_recordings(options.first, options.second, catalogue(),
                                                   [&](std::string_view what, size_t done, size_t total) {
                                                     if (part != what) progress.stage(fmt::format("diff: {}", part = what));
                                                     progress.update(done, total);
                                                   });
  context.status = d.is_empty() ? 0 : 1;
  std::optional<Speed> speed;
  if (options.speed) {
    progress.stage("diff: speed");
    speed = measured(options);
  }
  progress.finish();
  if (context.json) {
    Json json = to_json(d);
    if (speed) json["speed"] = {{"first_ms", speed->first}, {"second_ms", speed->second}};
    fmt::print("{}\n", json.dump(2, ' ', false, Json::error_handler_t::replace));
    return;
  }
  Printer out(options.all);
  print_text(d, options, out);
  if (!speed) return;
  out.title("speed on cpu, in turns");
  out.table(
      {{"first", fmt::format("{:.3f} ms", speed->first)},
       {"second", fmt::format("{:.3f} ms", speed->second), fmt::format("{:.2f} times the first", speed->second / speed->first)}});
}

void diff_results(const Options& options, Context& context) {
  StoredResult before = read_result(options.first);
  const StoredResult now = read_result(options.second);
  const bool are_of_one_model = before.name == now.name;
  std::vector<ChangedFact> facts;
  if (!are_of_one_model) facts.push_back({"model", before.name, now.name});
  if (before.backend != now.backend) facts.push_back({"backend", before.backend, now.backend});
  before.name = now.name;
  const Comparison comparison = compare_with(before, now);
  context.status = comparison.changes.empty() && facts.empty() ? 0 : 1;
  if (context.json) {
    Json json = pycandle::to_json(comparison);
    json.update({{"kind", "results"}, {"same", context.status == 0}, {"layers", now.layers.size()}});
    for (const ChangedFact& f : facts) json[f.what] = {{"first", f.first}, {"second", f.second}};
    fmt::print("{}\n", json.dump(2, ' ', false, Json::error_handler_t::replace));
    return;
  }
  fmt::print(
      "{} · {} layers: {}\n", styled(now.name, Style::bold), now.layers.size(),
      comparison.changes.empty() ? "verdicts and errors are the same" : fmt::format("{} differ", comparison.changes.size()));
  for (const ChangedFact& f : facts) fmt::print("  {}: {}, now {}\n", f.what, f.first, f.second);
  for (const std::string& note : comparison.notes) fmt::print("  {}\n", note);
  std::vector<std::vector<std::string>> rows;
  for (const Change& c : comparison.changes) rows.push_back({c.tap, pycandle::to_string(c.kind), c.text});
  Printer(options.all).table(rows);
}

struct TimedPart {
  std::string name;
  double first = 0, second = 0;
};

// The layers of both, those with the largest change first.
std::vector<TimedPart> timed_parts(const Json& a, const Json& b, const char* kind) {
  std::map<std::string, TimedPart> parts;
  const auto add = [&](const Json& profile, double TimedPart::* time) {
    for (const Json& row : profile.value(kind, Json::array())) {
      const std::string name = row.at("name");
      parts[name].name = name;
      parts[name].*time = row.at("ms");
    }
  };
  add(a, &TimedPart::first);
  add(b, &TimedPart::second);
  std::vector<TimedPart> all;
  for (auto& [name, part] : parts) all.push_back(std::move(part));
  std::stable_sort(all.begin(), all.end(), [](const TimedPart& x, const TimedPart& y) {
    return std::abs(x.second - x.first) > std::abs(y.second - y.first);
  });
  return all;
}

void diff_profiles(const Options& options, Context& context) try {
  const Json first = parse_json(read_text(options.first), options.first),
             second = parse_json(read_text(options.second), options.second);
  const Json &a = first.at("profile"), &b = second.at("profile");
  const double was = a.at("ms"), is = b.at("ms");
  constexpr const char* kKinds[] = {"kernels", "ops", "layers"};
  if (context.json) {
    Json json{{"kind", "profiles"}, {"first_ms", was}, {"second_ms", is}};
    for (const char* kind : kKinds) {
      json[kind] = Json::array();
      for (const TimedPart& part : timed_parts(a, b, kind))
        json[kind].push_back({{"name", part.name}, {"first_ms", part.first}, {"second_ms", part.second}});
    }
    fmt::print("{}\n", json.dump(2, ' ', false, Json::error_handler_t::replace));
    return;
  }
  fmt::print("{:.3f} ms, now {:.3f} ms: {:.2f} times\n", was, is, is / was);
  Printer out(options.all);
  for (const char* kind : kKinds) {
    out.title(fmt::format("by {}", std::string_view(kind).substr(0, std::string_view(kind).size() - 1)));
    std::vector<std::vector<std::string>> rows;
    for (const TimedPart& part : timed_parts(a, b, kind))
      rows.push_back({part.name, fmt::format("{:.3f} ms", part.first), fmt::format("{:.3f} ms", part.second),
                      fmt::format("{:+.3f} ms", part.second - part.first)});
    out.table(rows);
  }
} catch (const Json::exception& error) {
  throw Error(ErrorCode::bad_input, "a profile is not as pycandle forward --profile --json prints it").found(error.what());
}

void run(const Options& options, Context& context) {
  const Kind first = kind_of(options.first), second = kind_of(options.second);
  if (first != second) {
    throw Error(ErrorCode::usage, "these two are not of one kind")
        .expected("two recordings or bundles, two results of verify --out, or two profiles of forward --profile --json")
        .found(fmt::format("{} and {}", to_string(first), to_string(second)));
  }
  if (first == Kind::recording) return diff_recordings(options, context);
  if (options.speed) throw Error(ErrorCode::usage, "--speed needs two recordings").hint("two profiles are compared without it");
  if (first == Kind::result) return diff_results(options, context);
  diff_profiles(options, context);
}

}  // namespace

void add_diff(Command& app, Context& context) {
  auto options = std::make_shared<Options>();
  Command command = add_command(app, context, "diff",
                                "what changed between two recordings, bundles, results or profiles; exit 1 when anything did",
                                "pycandle diff before/gpt2_manifest.json after/gpt2_manifest.json");
  command.add_option("first", options->first, "a recording, a bundle, a result of verify --out, or a profile of forward")
      .required();
  command.add_option("second", options->second, "another one of the same kind").required();
  command.add_flag("--speed", options->speed, "of recordings: run both in turns on cpu, too");
  command.add_flag("--all", options->all, "every row, not the first of each table");
  command.callback([options, &context] { run(*options, context); });
}

}  // namespace pycandle::cli
