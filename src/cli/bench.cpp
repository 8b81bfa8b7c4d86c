// pycandle bench: how long a recorded model takes, on each backend, in other runtimes and with each number of threads, side
// by side: every runner is a process of its own, their outputs are compared, then they are measured in turns.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <thread>

#include "base/json.h"
#include "base/safetensors.h"
#include "base/threads.h"
#include "cli/bench_agreement.h"
#include "cli/bench_process.h"
#include "cli/child.h"
#include "cli/profile.h"
#include "cli/python_finder.h"
#include "cli/running.h"
#include "cli/terminal.h"
#include "cli/work_folder.h"

namespace pycandle::cli {
namespace {

namespace fs = std::filesystem;

struct Options {
  RunOptions run;
  std::vector<std::string> backends = {usual_backend()}, against, peers;
  std::vector<int> threads;
  double seconds = 3;
  int rounds = 5, starts = 3;
  std::string python, keep;
};

struct Runner {
  std::string name;
  int threads = 1;
  std::vector<std::string> command;
  fs::path outputs;
  bool is_ours = false;
  std::string failure;  // why it has no times
  std::string note;     // what a guess let pass
  std::unique_ptr<RunnerProcess> process;
  Json facts;
  std::vector<double> imports, loads, firsts;  // ms, of each start
  double difference = 0;
  std::vector<double> times;  // ms
  double median() const { return times[times.size() / 2]; }
  double best() const { return times.front(); }
  // Half of the runs lie within this share of the median.
  double spread() const { return (times[times.size() * 3 / 4] - times[times.size() / 4]) / median(); }
};

std::string replaced(std::string text, const std::string& what, const std::string& by) {
  for (size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + by.size()))
    text.replace(at, what.size(), by);
  return text;
}

// ---- which runners --------------------------------------------------------------------------------------------------

std::vector<std::string> own_command(const Options& options, const std::string& backend, int threads) {
  std::vector<std::string> command = {fs::read_symlink("/proc/self/exe").string(),
                                      "bench-runner",
                                      options.run.model,
                                      "--backend",
                                      backend,
                                      "--threads",
                                      std::to_string(threads)};
  if (options.run.load.pipeline.weights != WeightFormat::f32)
    command.insert(command.end(), {"--weights", std::string(name_of(options.run.load.pipeline.weights))});
  for (const auto& [op, implementation] : options.run.load.pipeline.overrides) {
    command.insert(command.end(), {"--override", fmt::format("{}={}", op, implementation)});
  }
  const PipelineOptions& pipeline = options.run.load.pipeline;
  for (const std::string& pass : pipeline.disabled) command.insert(command.end(), {"--disable-pass", pass});
  if (!pipeline.dump_dir.empty())
    command.insert(command.end(), {"--dump-dir", (pipeline.dump_dir / backend).string(), "--dump-mode",
                                   pipeline.dump_mode == DumpMode::final ? "final" : "all"});
  return command;
}

class Runners {
 public:
  Runners(const Options& options, fs::path folder) : options_(options), folder_(std::move(folder)) {
    for (const int threads : options.threads)
      for (const std::string& backend : options.backends)
        add(backend, threads, own_command(options, backend, threads)).is_ours = true;
    if (!options.against.empty()) add_python_peers();
    for (const std::string& peer : options.peers) add_command_peer(peer);
    std::stable_sort(all.begin(), all.end(), [](const Runner& a, const Runner& b) { return a.threads < b.threads; });
  }
  std::vector<Runner> all;

 private:
  Runner& add(const std::string& name, int threads, std::vector<std::string> command) {
    Runner& r = all.emplace_back();
    r.name = name;
    r.threads = threads;
    r.outputs = folder_ / fmt::format("outputs-{}.safetensors", all.size());
    r.command = std::move(command);
    r.command.insert(r.command.end(), {"--inputs", (folder_ / "inputs.safetensors").string(), "--outputs", r.outputs.string()});
    return r;
  }

  void add_python_peers() {
    const auto python = find_python(options_.python);
    if (!python) {
      throw Error(ErrorCode::usage, "--against needs Python, and none was found")
          .expected("a python3 by --python, PYCANDLE_PYTHON, in .pycandle/venv, beside this program or on PATH")
          .hint("pycandle doctor shows what was found");
    }
    if (!ask_python(python->path, "import pycandle.peers")) {
      throw Error(ErrorCode::usage, "--against needs a Python that has pycandle")
          .found(fmt::format("{} (from {}), which does not run or lacks it", python->path, python->how))
          .hint(
              "install PyCandle's wheel there (make wheel in its sources builds it), or name another Python with --python or "
              "PYCANDLE_PYTHON");
    }
    const auto command = [&](const std::vector<std::string>& names) {
      std::vector<std::string> words = {python->path, "-m", "pycandle.peers"};
      words.insert(words.end(), names.begin(), names.end());
      words.insert(words.end(), {"--manifest", options_.run.model, "--files", folder_.string()});
      return words;
    };
    std::vector<std::string> preparation = command(options_.against);
    preparation.insert(preparation.end(), {"--inputs", (folder_ / "inputs.safetensors").string()});
    const Json prepared = RunnerProcess(preparation, thread_count(), folder_ / "preparation.log").answer();
    for (const int threads : options_.threads) {
      for (const std::string& peer : options_.against) {
        std::vector<std::string> words = command({peer});
        words.insert(words.end(), {"--threads", std::to_string(threads)});
        add(peer, threads, std::move(words)).failure = prepared.at("failed").value(peer, "");
      }
    }
  }

  void add_command_peer(const std::string& peer) {
    const size_t equals = peer.find('=');
    if (equals == std::string::npos || equals == 0) {
      throw Error(ErrorCode::usage, "--peer is not understood")
          .expected("a name and a command that speaks the protocol of docs/benchmarks.md, such as mine='./mine {threads}'")
          .found(peer);
    }
    for (const int threads : options_.threads) {
      const std::string line = replaced(peer.substr(equals + 1), "{threads}", std::to_string(threads));
      add(peer.substr(0, equals), threads, {"sh", "-c", "exec " + line + " \"$@\"", "sh"});
    }
  }

  const Options& options_;
  fs::path folder_;
};

// ---- measuring ------------------------------------------------------------------------------------------------------

// One start: how long until its first outputs, which are compared. What goes wrong with a peer is that peer's row.
void start(Runner& r, const Runner& first, Agreement& agreement, const fs::path& folder) {
  if (!r.failure.empty()) return;
  try {
    r.process.reset();
    r.process = std::make_unique<RunnerProcess>(r.command, r.threads, folder / (r.outputs.stem().string() + ".log"));
    r.facts = r.process->answer();
    for (const char* moment : {"loaded", "first"}) {
      if (!r.facts.is_object() || !r.facts.value(moment, Json()).is_number()) {
        throw Error(ErrorCode::bad_input, "a runner's first answer is not understood")
            .expected(fmt::format("an object with the moment \"{}\"", moment))
            .found(r.facts.dump());
      }
    }
    const double started = r.process->started(), imported = r.facts.value("imported", started);
    r.imports.push_back((imported - started) * 1e3);
    r.loads.push_back((r.facts["loaded"].get<double>() - imported) * 1e3);
    r.firsts.push_back((r.facts["first"].get<double>() - imported) * 1e3);
    r.difference = &r == &first ? 0 : difference(r.outputs, first.outputs);
    const auto whose = r.is_ours ? Agreement::Whose::ours : Agreement::Whose::another_runtime;
    const Agreement::Verdict verdict = agreement.judge(r.name, whose, r.outputs, first.outputs);
    r.failure = verdict.failure;
    r.note = verdict.note;
  } catch (const Error& error) {
    if (&r == &first) throw;
    r.failure = error.text();
  }
  if (!r.failure.empty()) r.process.reset();
}

// In turns as well: how quick a start is depends on what the system does with fresh memory at that moment. All live on
// after their last one. Those that take long (a compiler, a large import) are started once.
void start_all(std::vector<Runner>& runners, int starts, Agreement& agreement, const fs::path& folder, Progress& progress) {
  constexpr double kLongMs = 5000;
  size_t done = 0;
  progress.stage("bench: starting");
  for (int turn = 0; turn < starts; ++turn) {
    for (Runner& r : runners) {
      progress.update(done++, runners.size() * static_cast<size_t>(starts));
      if (turn == 0 || (r.failure.empty() && r.imports[0] + r.firsts[0] < kLongMs)) start(r, runners.front(), agreement, folder);
    }
  }
}

double median(std::vector<double> numbers) {
  std::sort(numbers.begin(), numbers.end());
  return numbers[numbers.size() / 2];
}

void measure(std::vector<Runner>& runners, double seconds, int rounds, Progress& progress) {
  constexpr auto kSettle = std::chrono::milliseconds(20);  // threads of the runner before may still wait actively
  size_t done = 0;
  progress.stage("bench: measuring");
  for (int round = 0; round < rounds; ++round) {
    for (Runner& r : runners) {
      progress.update(done++, runners.size() * static_cast<size_t>(rounds));
      if (!r.failure.empty()) continue;
      std::this_thread::sleep_for(kSettle);
      try {
        r.process->ask(fmt::format("{}", seconds * 1e3 / rounds));
        for (const Json& ms : r.process->answer()) r.times.push_back(ms.get<double>());
      } catch (const Error& error) {
        if (&r == &runners.front()) throw;
        r.failure = error.text();
      }
    }
  }
  for (Runner& r : runners) std::sort(r.times.begin(), r.times.end());
}

// The row of the runner against which others with as many threads are measured.
const Runner& base_of(const Runner& r, const std::vector<Runner>& all) {
  return *std::find_if(all.begin(), all.end(), [&](const Runner& other) { return other.threads == r.threads; });
}

Json row_of(const Runner& r, const Runner& base, const std::string& model) {
  Json row = {{"runner", r.name}, {"model", model}, {"threads", r.threads}};
  if (!r.failure.empty()) {
    row["failed"] = r.failure;
    return row;
  }
  row.update({{"median_ms", r.median()},
              {"best_ms", r.best()},
              {"spread", r.spread()},
              {"ratio", base.times.empty() ? NAN : r.median() / base.median()},
              {"runs", r.times.size()},
              {"difference", r.difference},
              {"starts", r.firsts.size()},
              {"import_ms", median(r.imports)},
              {"load_ms", median(r.loads)},
              {"first_ms", median(r.firsts)},
              {"peak_mb", r.process->peak_megabytes()},
              {"version", r.facts.value("version", "")}});
  if (r.facts.contains("evaluated")) row["evaluated"] = r.facts["evaluated"];
  if (!r.note.empty()) row["note"] = r.note;
  return row;
}

void print_rows(const Json& rows, const std::string& model) {
  Table table;
  table.row({"runner", "threads", "median", "best", "spread", "ratio", "load", "first output", "peak memory", "evaluators"});
  for (const Json& row : rows) {
    const auto number = [&](const char* key, double scale, const char* unit) {
      return row.contains(key) && row[key].is_number() ? fmt::format("{:.3g}{}", row[key].get<double>() * scale, unit) : "";
    };
    std::vector<std::string> cells = {row["runner"], std::to_string(row["threads"].get<int>())};
    if (row.contains("failed")) {
      cells.push_back(styled("failed", Style::red));
    } else {
      for (std::string cell :
           {fmt::format("{:.3f} ms", row["median_ms"].get<double>()), fmt::format("{:.3f} ms", row["best_ms"].get<double>()),
            number("spread", 100, " %"), fmt::format("{:.2f}", row["ratio"].is_number() ? row["ratio"].get<double>() : NAN),
            number("load_ms", 1, " ms"), number("first_ms", 1, " ms"), number("peak_mb", 1, " MB"),
            number("evaluated", 100, " %")})
        cells.push_back(std::move(cell));
    }
    table.row(std::move(cells));
  }
  fmt::print("{}\n{}", styled(model, Style::bold), table.text("  ", {3, 6, 8}));
  for (const Json& row : rows) {
    if (row.contains("failed")) fmt::print("\n{}: {}\n", row["runner"].get<std::string>(), row["failed"].get<std::string>());
    if (row.contains("note")) fmt::print("\n{}: {}\n", row["runner"].get<std::string>(), row["note"].get<std::string>());
  }
}

// Our runners once more, in this process: their times above are those without a clock around each step.
Json profiles_of(const Options& options) {
  Json profiles = Json::array();
  for (const int threads : options.threads) {
    for (const std::string& backend : options.backends) {
      LoadOptions load = options.run.load;
      load.backend = backend;
      load.pipeline.threads = threads;
      load.pipeline.dump_dir.clear();
      const Model model = open_model(options.run.model, load);
      const Profile found = profile(model, inputs_for(model, options.run), threads);
      Json row = to_json(found);
      row["runner"] = backend;
      row["text"] = to_text(found);
      profiles.push_back(std::move(row));
    }
  }
  return profiles;
}

// A backend or a number of threads that is asked for twice is one row.
template <class T> std::vector<T> without_repeats(const std::vector<T>& wanted) {
  std::vector<T> kept;
  for (const T& one : wanted)
    if (std::find(kept.begin(), kept.end(), one) == kept.end()) kept.push_back(one);
  return kept;
}

void bench(Options& options, Context& context) {
  if (!(options.seconds >= 0 && std::isfinite(options.seconds))) {
    throw Error(ErrorCode::usage, "--seconds is not a length of time")
        .expected("a finite number, 0 or more")
        .found(fmt::format("{}", options.seconds));
  }
  if (options.threads.empty()) options.threads.push_back(thread_count());
  for (const std::string& backend : options.backends) find_backend(backend);  // refuses one that there is not
  options.threads = without_repeats(options.threads);
  options.backends = without_repeats(options.backends);
  options.against = without_repeats(options.against);
  const WorkFolder folder(options.keep);
  Progress progress("bench: what is expected");
  std::string name;
  std::unique_ptr<Agreement> agreement;
  {
    const Model model = open_model(options.run.model, {.backend = "reference", .pipeline = {}});
    name = model.program().name;
    const Model::Tensors inputs = inputs_for(model, options.run);
    ordered_inputs(model.program(), inputs);  // refuses what does not fit, before anything is started
    write_safetensors(folder.path / "inputs.safetensors", inputs);
    agreement = std::make_unique<Agreement>(model, inputs, options.run.load.pipeline.weights);
  }
  options.run.load.backend = "cpu";
  options.run.load.pipeline.threads = options.threads.front();
  tune_if_asked(options.run);
  std::vector<Runner> runners = Runners(options, folder.path).all;
  start_all(runners, options.starts, *agreement, folder.path, progress);
  measure(runners, options.seconds, options.rounds, progress);
  progress.finish();
  Json rows = Json::array();
  for (const Runner& r : runners) rows.push_back(row_of(r, base_of(r, runners), name));
  const bool all_ran = std::all_of(runners.begin(), runners.end(), [](const Runner& r) { return r.failure.empty(); });
  context.status = all_ran ? 0 : 1;
  Json profiles = options.run.profile ? profiles_of(options) : Json();
  if (context.json) {
    for (Json& each : profiles) each.erase("text");
    Json document{{"status", all_ran ? "fine" : "failed"},
                  {"overrides", options.run.load.pipeline.overrides},
                  {"judged_by", agreement->why_guessed().empty() ? "floors" : "guess"},
                  {"rows", rows}};
    if (options.run.profile) document["profiles"] = std::move(profiles);
    fmt::print("{}\n", document.dump(2, ' ', false, Json::error_handler_t::replace));
    return;
  }
  print_rows(rows, name);
  for (const Json& each : profiles)
    fmt::print("\n{} · {} threads\n{}", styled(each["runner"], Style::bold), each["threads"].get<int>(),
               each["text"].get<std::string>());
  if (agreement->why_guessed().empty()) return;
  fmt::print("outputs were held against the first runner's within {}, a guess: {}\n", agreement->guess(),
             agreement->why_guessed());
}

}  // namespace

void add_bench(Command& app, Context& context) {
  auto options = std::make_shared<Options>();
  Command command = add_command(app, context, "bench", "time a recorded model on backends and in other runtimes, in turns",
                                "pycandle bench pycandle_trace --threads 1,2 --against torch,openvino");
  command.add_option("model", options->run.model, "a manifest, the folder of one, or a bundle").required();
  command.add_option("--backend", options->backends, "backends to measure, such as cpu,reference")
      .suggests(backend_names())
      .delimiter(',')
      .shows_default();
  command.add_option("--threads", options->threads, "numbers of threads, such as 1,2").delimiter(',').between(1, 1024);
  command.add_option("--against", options->against, "other runtimes, in Python: torch, torch-compile, onnxruntime, openvino")
      .delimiter(',')
      .one_of({"torch", "torch-compile", "onnxruntime", "openvino"});
  command.add_option("--peer", options->peers, "name=command: another runner, which speaks the protocol (repeatable)");
  add_tune_option(command, options->run);
  command.add_option("--python", options->python, "the Python that --against uses");
  command.add_option("--keep", options->keep, "folder for the files made for other runtimes; existing files are used again");
  command.add_option("--seconds", options->seconds, "how long each runner is measured; at least one run in each round")
      .shows_default();
  command.add_option("--rounds", options->rounds, "turns of each runner").shows_default().between(1, 1000);
  command.add_option("--starts", options->starts, "starts of each runner; one that takes over 5 s is started once")
      .shows_default()
      .between(1, 100);
  Option inputs = command.add_option("--inputs", options->run.inputs, "a safetensors file with the inputs, under their names");
  command.add_option("--seed", options->run.seed, "seed of the random inputs").shows_default().excludes(inputs);
  command.add_option("--set", options->run.sizes, "size of a dynamic dim of the random inputs, such as s0=4 (repeatable)")
      .excludes(inputs);
  add_backend_options(command, options->run.load.pipeline, false);
  add_pipeline_options(command, options->run.load.pipeline);
  command.add_flag("--profile", options->run.profile, "then show where the time of a run goes, on each of our backends");
  command.callback([options, &context] { bench(*options, context); });
}

}  // namespace pycandle::cli
