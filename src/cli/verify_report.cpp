#include "cli/verify_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "cli/terminal.h"
#include "verify/judging/judge.h"
#include "verify/result_json.h"

namespace pycandle::cli {
namespace {

constexpr size_t kFew = 3;  // lines of one kind in a summary

Style style_of(Verdict v) {
  switch (v) {
    case Verdict::exact: return Style::green;
    case Verdict::wrong_here: return Style::red;
    case Verdict::wrong_upstream:
    case Verdict::no_evidence:
    case Verdict::reference_unstable: return Style::yellow;
    default: return Style::plain;
  }
}

const char* meaning_of(Verdict v) {
  switch (v) {
    case Verdict::exact: return "equal bit for bit";
    case Verdict::within_rounding: return "as close as rounding lets any implementation be";
    case Verdict::within_tolerance: return "within --atol and --rtol";
    case Verdict::accumulated_rounding: return "right by itself; rounding adds up in the whole run";
    case Verdict::reference_unstable: return "rounding alone moves half of its digits: this proves little";
    case Verdict::no_evidence: return "equal, and a wrong program would be so too: see below";
    case Verdict::wrong_upstream: return "right by itself; a layer before it is wrong";
    default: return "see below";
  }
}

// The tap as a person calls it: a module's only output is the module.
std::string label(const TapId& tap, const std::string& input) {
  const std::string of_input = input.empty() ? "" : input + ": ";
  if (tap.kind == TapId::Kind::state_after) return of_input + "state " + tap.part;
  if (!tap.is_of_module()) return of_input + tap.text();
  const bool is_root = tap.module.empty() && tap.call == 0, is_all = !tap.is_argument() && tap.part.empty();
  const std::string module = tap.module_call(), rest = is_all ? "" : tap.text().substr(module.size());
  return of_input + (is_root ? "(root)" : module) + rest;
}
std::string label(const LayerResult& l) { return label(l.tap, l.input); }
std::string label(const OutputError& output) {
  const TapId id = TapId::parse(output.name);  // of a state
  const std::string of_input = output.input.empty() ? "" : output.input + ": ";
  return id.kind == TapId::Kind::state_after ? label(id, output.input) : of_input + output.name;
}

std::string whose(const VerifyResult& result) { return result.against.empty() ? "PyTorch" : result.against; }

// ---- parts of the text

// "  why   …", wrapped below itself.
void print_fact(const std::string& name, size_t indent, const std::string& text, Style style = Style::plain) {
  fmt::print("  {:<{}}{}\n", name, indent - 2, styled(wrapped(text, indent, indent), style));
}

void print_layers(const VerifyResult& result) {
  Table table;
  for (const LayerResult& l : result.layers) {
    const bool wrong = l.verdict == Verdict::wrong_here;
    table.row(
        {label(l), l.op, l.dtype + to_string(l.shape), styled(wrong ? "WRONG HERE" : to_string(l.verdict), style_of(l.verdict)),
         fmt::format("abs {}", short_number(l.metrics.max_abs)), fmt::format("rel {}", short_number(l.metrics.max_rel)),
         fmt::format("cos {:.7f}", l.metrics.cosine),
         l.cumulative ? fmt::format("whole run {}", short_number(l.cumulative->max_abs)) : "", styled(l.place, Style::dim)});
  }
  fmt::print("{}", table.text("  ", {6, 5, 2, 7, 8, 1}));
}

void print_counts(const VerifyResult& result) {
  Table table;
  for (Verdict v : kVerdicts) {
    if (const int count = result.count(v); count > 0)
      table.row({to_string(v), styled(fmt::format("{:>5}", count), style_of(v)), styled(meaning_of(v), Style::dim)});
  }
  if (!result.skipped.empty()) table.row({"not judged", fmt::format("{:>5}", result.skipped.size())});
  fmt::print("{}", table.text("  ", {2}));
}

// How far ours is from the golden, in rounding floors.
double drift_of(const LayerResult& l) { return l.floor_rms > 0 ? l.metrics.rms / l.floor_rms : 0; }

constexpr size_t kFactIndent = 17;

// Left out where a layer is wrong: that layer is what matters then.
void print_largest_drift(const VerifyResult& result) {
  if (result.count(Verdict::wrong_here) > 0) return;
  const LayerResult* worst = nullptr;
  for (const LayerResult& l : result.layers) {
    if (drift_of(l) > 0 && (!worst || drift_of(l) > drift_of(*worst))) worst = &l;
  }
  if (!worst) return;
  print_fact("largest drift", kFactIndent,
             fmt::format("{} ({}): off by {}, {:.2g} rounding floors of {:.0f} that are allowed{}", label(*worst), worst->op,
                         short_number(worst->metrics.max_abs), drift_of(*worst), kRmsFactor,
                         worst->place.empty() ? "" : ", " + worst->place));
}

// With --weights: the layers that lose most first.
void print_weight_rounding(const VerifyResult& result, size_t most) {
  std::vector<const LayerResult*> layers;
  for (const LayerResult& l : result.layers)
    if (l.weight_rounding) layers.push_back(&l);
  std::stable_sort(layers.begin(), layers.end(),
                   [](const auto* a, const auto* b) { return *a->weight_rounding > *b->weight_rounding; });
  for (size_t i = 0; i < std::min(most, layers.size()); ++i) {
    print_fact(i == 0 ? "weights" : "", kFactIndent,
               fmt::format("{} ({}): rounding them moves it by {:.2g} %{}", label(*layers[i]), layers[i]->op,
                           100 * *layers[i]->weight_rounding, layers[i]->place.empty() ? "" : ", " + layers[i]->place));
  }
  if (layers.size() > most) print_fact("", kFactIndent, fmt::format("and {} more by less (--all)", layers.size() - most));
}

void print_whole_run(const VerifyResult& result, size_t most) {
  std::vector<const OutputError*> outputs;
  for (const OutputError& output : result.outputs) outputs.push_back(&output);
  if (outputs.size() > most) {
    std::stable_sort(outputs.begin(), outputs.end(),
                     [](const auto* a, const auto* b) { return a->metrics.max_abs > b->metrics.max_abs; });
  }
  for (size_t i = 0; i < std::min(most, outputs.size()); ++i) {
    const Metrics& m = outputs[i]->metrics;
    const std::string how = has_other_sizes(m) ? "in its sizes" : "by at most " + short_number(m.max_abs);
    print_fact(i == 0 ? "whole run" : "", kFactIndent,
               fmt::format("{} differs from {} {}", label(*outputs[i]), whose(result), how));
  }
  if (outputs.size() > most) print_fact("", kFactIndent, fmt::format("and {} more by less (--all)", outputs.size() - most));
}

// Taps that were not judged, by the reason. Their count stands above; where a layer is wrong, it is what matters.
void print_skipped(const VerifyResult& result, bool all) {
  if (all) {
    for (const SkippedTap& tap : result.skipped) print_fact("not judged", kFactIndent, tap.tap.text() + ": " + tap.why);
    return;
  }
  if (result.count(Verdict::wrong_here) > 0) return;
  std::vector<std::pair<std::string, std::vector<std::string>>> reasons;
  for (const SkippedTap& tap : result.skipped) {
    auto found = std::find_if(reasons.begin(), reasons.end(), [&](const auto& r) { return r.first == tap.why; });
    if (found == reasons.end()) found = reasons.insert(reasons.end(), {tap.why, {}});
    found->second.push_back(tap.tap.text());
  }
  std::stable_sort(reasons.begin(), reasons.end(),
                   [](const auto& a, const auto& b) { return a.second.size() > b.second.size(); });
  for (size_t i = 0; i < std::min(kFew, reasons.size()); ++i) {
    const auto& [why, taps] = reasons[i];
    const std::string who = taps.size() == 1 ? taps[0] : fmt::format("{} and {} more", taps[0], taps.size() - 1);
    print_fact(i == 0 ? "not judged" : "", kFactIndent, who + ": " + why);
  }
  if (reasons.size() > kFew) print_fact("", kFactIndent, "and others for other reasons (--all)");
}

void print_decisions(const VerifyResult& result, size_t most) {
  size_t count = 0;
  for (const LayerResult& layer : result.layers) {
    if (layer.decisions.empty() || count++ >= most) continue;
    print_fact(count == 1 ? "choices" : "", kFactIndent, label(layer) + ": " + layer.decisions);
  }
  if (count > most) print_fact("", kFactIndent, fmt::format("and {} more (--all)", count - most));
}

void print_unstable(const VerifyResult& result, size_t most) {
  size_t count = 0;
  for (const LayerResult& layer : result.layers) {
    if (layer.verdict != Verdict::reference_unstable || count++ >= most) continue;
    print_fact(count == 1 ? "unstable" : "", kFactIndent, label(layer) + ": " + layer.why);
  }
  if (count > most) print_fact("", kFactIndent, fmt::format("and {} more (--all)", count - most));
}

// With what to do: a layer that no input exercises may be wrong.
void print_no_evidence(const VerifyResult& result, size_t most) {
  size_t count = 0;
  for (const LayerResult& layer : result.layers) {
    if (layer.verdict != Verdict::no_evidence || count++ >= most) continue;
    print_fact(count == 1 ? "no evidence" : "", kFactIndent,
               fmt::format("{} ({}): {}{}", label(layer), layer.op, layer.why, layer.place.empty() ? "" : ", " + layer.place));
  }
  if (count > most) print_fact("", kFactIndent, fmt::format("and {} more (--all)", count - most));
  if (count > 0)
    print_fact("", kFactIndent, "record with inputs that exercise it: other data, or recorder.add_goldens and --trace");
}

// ---- what is wrong

// "model.py:12:  x = x / s"
std::string line_text(const std::string& place, const std::string& source) {
  return place + (source.empty() ? "" : ":  " + source);
}

std::string next_step(const LayerResult& layer, const Report& report) {
  const auto folder = std::find_if(report.folders.begin(), report.folders.end(),
                                   [&](const auto& f) { return f.first == layer.tap; });
  if (folder != report.folders.end()) return "pycandle replay " + folder->second;
  if (!report.folders.empty() || !layer.diagnosis) return "mend the layers above first, then verify again";
  return fmt::format("pycandle verify {} --repro repro: writes this op alone, to run here and in PyTorch", report.model);
}

void print_wrong(const LayerResult& layer, const Report& report) {
  constexpr size_t kIndent = 8;
  const bool is_tap = layer.input.empty() && layer.tap.kind != TapId::Kind::state_after;
  const std::string what = fmt::format("{} ({})", is_tap ? layer.tap.text() : label(layer), layer.op);
  fmt::print("\n{} {}\n", styled("wrong here:", Style::red), wrapped(what, 2, 12));
  if (!layer.place.empty()) print_fact("in", kIndent, line_text(layer.place, layer.source));
  if (!layer.code.empty()) print_fact("code", kIndent, line_text(layer.code, layer.code_source));
  print_fact("why", kIndent, layer.why);
  const Sizes at = coordinates_of(layer.metrics.largest_difference, layer.shape);
  if (!at.empty()) print_fact("most", kIndent, "at " + to_string(at));
  if (layer.diagnosis) {
    const Diagnosis& d = *layer.diagnosis;
    if (d.place != layer.place || d.op != layer.op || d.code != layer.code) {
      print_fact(
          "op", kIndent,
          d.op + (d.place.empty() ? "" : ", " + d.place) + (d.code.empty() ? "" : ", " + line_text(d.code, d.code_source)));
    }
    if (!d.pass.empty()) print_fact("pass", kIndent, d.pass + ": right without it");
    if (!d.cause.empty()) print_fact("cause", kIndent, d.cause, d.cause_kind.empty() ? Style::plain : Style::yellow);
  }
  print_fact("next", kIndent, next_step(layer, report));
}

std::string conclusion(const VerifyResult& result) {
  if (result.layers.empty()) return "nothing was judged: " + result.why_none;
  const int upstream = result.count(Verdict::wrong_upstream);
  const int unproven = result.count(Verdict::no_evidence);
  std::string text = fmt::format("{} right", static_cast<int>(result.layers.size()) - result.wrong() - upstream - unproven);
  if (unproven > 0) text += fmt::format(", {} without evidence", unproven);
  if (upstream > 0) text += fmt::format(", {} wrong upstream", upstream);
  if (!result.damaged.empty()) text += fmt::format(", {} damaged", result.damaged.size());
  return text + fmt::format(", {} wrong", result.wrong());
}

}  // namespace

void print_text(const Report& report) {
  const VerifyResult& result = report.result;
  const std::string backend = result.against.empty() ? result.backend : result.backend + " against " + result.against;
  const size_t most = report.all ? result.layers.size() + result.outputs.size() : kFew;
  fmt::print("{} · {} · {} taps · {:.1f} s\n", styled(result.name, Style::bold), backend, result.layers.size(), report.seconds);
  if (report.all) {
    print_layers(result);
  } else {
    print_counts(result);
  }
  if (!result.layers.empty()) fmt::print("\n");
  print_largest_drift(result);
  print_weight_rounding(result, most);
  print_unstable(result, most);
  print_no_evidence(result, most);
  print_decisions(result, most);
  print_skipped(result, report.all);
  print_whole_run(result, most);
  for (const LayerResult& layer : result.layers) {
    if (layer.verdict == Verdict::wrong_here) print_wrong(layer, report);
  }
  for (const std::string& name : result.damaged)
    fmt::print("{}\n", wrapped(fmt::format("damaged: {} has other bytes in its file than were recorded (checksum)", name), 2, 0));
  fmt::print("\n{}\n", styled(wrapped(conclusion(result), 2, 0), result.passed() ? Style::green : Style::red));
  if (result.proves_nothing())
    fmt::print("{}\n", wrapped("not verified: no output has evidence, so a wrong model would pass as well", 2, 0));
}

void print_text(const Comparison& comparison) {
  for (const std::string& note : comparison.notes) fmt::print("since the baseline {}\n", note);
  for (const Change& c : comparison.changes) {
    const Style style = c.kind == Change::Kind::better ? Style::green : c.kind == Change::Kind::added ? Style::plain : Style::red;
    fmt::print("{} {}: {}\n", styled(to_string(c.kind), style), c.tap, c.text);
  }
  if (comparison.changes.empty()) fmt::print("as the baseline\n");
}

Json to_json(const Report& report) {
  const VerifyResult& result = report.result;
  Json layers = Json::array(), skipped = Json::array(), outputs = Json::array(), folders = Json::array();
  for (const LayerResult& layer : result.layers) layers.push_back(pycandle::to_json(layer));
  for (const SkippedTap& tap : result.skipped) skipped.push_back({{"tap", tap.tap.text()}, {"why", tap.why}});
  for (const OutputError& output : result.outputs) outputs.push_back(pycandle::to_json(output));
  for (const auto& [tap, folder] : report.folders) folders.push_back(folder);
  return {{"status", status_of(result)}, {"why", result.why_none},    {"name", result.name},
          {"backend", result.backend},   {"against", result.against}, {"counts", counts_json(result)},
          {"seconds", report.seconds},   {"layers", layers},          {"skipped", skipped},
          {"damaged", result.damaged},   {"outputs", outputs},        {"repro", folders}};
}

}  // namespace pycandle::cli
