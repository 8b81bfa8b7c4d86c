// pycandle test-backend: is a backend right? Every op of the catalogue and small models, beside PyTorch's values.
#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <map>
#include <optional>

#include "base/json.h"
#include "cli/command.h"
#include "cli/python_finder.h"
#include "cli/terminal.h"
#include "ops/core/catalogue.h"
#include "runtime/backends.h"
#include "suite/backend_tests.h"

namespace pycandle::cli {
namespace {

using Outcome = BackendTestResult::Outcome;

struct Options {
  std::string backend, pack, filter;
  bool all = false;
};

// The tests of one op, or of one family of ops.
struct Sum {
  size_t tests = 0, passed = 0, wrong = 0, failed = 0, refused = 0;
  size_t claimed = 0, decomposed = 0;  // tests in which a functional was
  double seconds = 0, reference_seconds = 0;

  void add(const BackendTestResult& r) {
    ++tests;
    passed += r.outcome == Outcome::passed;
    wrong += r.outcome == Outcome::wrong;
    failed += r.outcome == Outcome::failed;
    refused += r.outcome == Outcome::refused;
    claimed += r.claimed > 0;
    decomposed += r.decomposed > 0;
    seconds += r.seconds;
    reference_seconds += r.reference_seconds;
  }
};

std::string family_of(const std::string& op) {
  const OpDef* found = catalogue().find(op);
  return found ? found->family : "models";
}

Json to_json(const BackendTestResult& r) {
  return {{"op", r.op},
          {"name", r.name},
          {"outcome", to_string(r.outcome)},
          {"why", r.why},
          {"claimed", r.claimed},
          {"decomposed", r.decomposed},
          {"primitives", r.primitives},
          {"seconds", r.seconds},
          {"reference_seconds", r.reference_seconds}};
}

BackendTestResult result_from(const Json& json) {
  BackendTestResult r{Outcome::passed,       json.at("op"),      json.at("name"),
                      json.at("why"),        json.at("claimed"), json.at("decomposed"),
                      json.at("primitives"), json.at("seconds"), json.at("reference_seconds")};
  for (const Outcome outcome : {Outcome::passed, Outcome::wrong, Outcome::failed, Outcome::refused}) {
    if (json.at("outcome") == to_string(outcome)) r.outcome = outcome;
  }
  return r;
}

// Runs tests in a process of their own, so that one which crashes is a test that failed. Each result is a line in a pipe.
class TestProcess {
 public:
  TestProcess(const BackendTests& tests, const Backend& backend, const std::vector<size_t>& chosen, size_t first) {
    int ends[2];
    require(pipe(ends) == 0, "a pipe can be made");
    child_ = fork();
    require(child_ >= 0, "a process can be made");
    if (child_ == 0) {
      close(ends[0]);
      FILE* out = fdopen(ends[1], "w");
      for (size_t i = first; i < chosen.size(); ++i) {
        fmt::print(out, "{}\n", to_json(tests.run(chosen[i], backend)).dump(-1, ' ', false, Json::error_handler_t::replace));
        std::fflush(out);
      }
      _exit(0);
    }
    close(ends[1]);
    results_ = fdopen(ends[0], "r");
  }
  ~TestProcess() { std::fclose(results_); }
  TestProcess(const TestProcess&) = delete;
  TestProcess& operator=(const TestProcess&) = delete;

  std::optional<BackendTestResult> next() {
    std::string line;
    for (int c = std::fgetc(results_); c != EOF; c = std::fgetc(results_)) {
      if (c == '\n') return result_from(Json::parse(line));
      line += static_cast<char>(c);
    }
    return std::nullopt;
  }
  // Once there is no next: how it ended, empty when it ended well.
  std::string end() const {
    int status = 0;
    waitpid(child_, &status, 0);
    if (WIFSIGNALED(status)) return fmt::format("it crashed: {}", strsignal(WTERMSIG(status)));
    return status == 0 ? "" : fmt::format("it ended the process with status {}", WEXITSTATUS(status));
  }

 private:
  pid_t child_ = -1;
  FILE* results_ = nullptr;
};

std::vector<BackendTestResult> results_of(const BackendTests& tests, const Backend& backend, const std::string& filter) {
  std::vector<size_t> chosen;
  for (size_t i = 0; i < tests.size(); ++i) {
    const std::string text = tests.op(i) + ": " + tests.name(i);
    if (filter.empty() || tests.op(i) == filter || text.find(filter) != std::string::npos) chosen.push_back(i);
  }
  if (chosen.empty()) throw Error(ErrorCode::usage, "no test has this in its op or its name").found(filter);
  std::vector<BackendTestResult> results;
  std::optional<Progress> progress;  // has a thread, and a process is forked before there is one
  while (results.size() < chosen.size()) {
    progress.reset();
    TestProcess process(tests, backend, chosen, results.size());
    progress.emplace("test-backend");
    while (auto result = process.next()) {
      results.push_back(std::move(*result));
      progress->update(results.size(), chosen.size());
    }
    const std::string ended = process.end();
    if (results.size() == chosen.size()) break;
    BackendTestResult& crashed = results.emplace_back();
    crashed.outcome = Outcome::failed;
    crashed.op = tests.op(chosen[results.size() - 1]);
    crashed.name = tests.name(chosen[results.size() - 1]);
    crashed.why = ended.empty() ? "it ended the process" : ended;
  }
  return results;
}

std::string shown_time(double seconds) {
  return seconds < 1e-3 ? fmt::format("{:.0f} µs", 1e6 * seconds) : fmt::format("{:.1f} ms", 1e3 * seconds);
}

Json to_json(const Sum& sum) {
  return {{"tests", sum.tests},           {"passed", sum.passed},   {"wrong", sum.wrong},
          {"failed", sum.failed},         {"refused", sum.refused}, {"claimed", sum.claimed},
          {"decomposed", sum.decomposed}, {"seconds", sum.seconds}, {"reference_seconds", sum.reference_seconds}};
}

void print_json(const std::string& backend, const std::vector<BackendTestResult>& results, const Sum& total, bool fine) {
  std::map<std::string, Sum> ops;
  Json tests = Json::array(), by_op = Json::object();
  for (const BackendTestResult& r : results) {
    ops[r.op].add(r);
    tests.push_back(to_json(r));
  }
  for (const auto& [op, sum] : ops) by_op[op] = to_json(sum);
  fmt::print(
      "{}\n",
      Json{{"status", fine ? "fine" : "wrong"}, {"backend", backend}, {"total", to_json(total)}, {"ops", by_op}, {"tests", tests}}
          .dump(2));
}

void print_table(const std::string& backend, const std::vector<BackendTestResult>& results, const Sum& total, bool by_op) {
  std::map<std::string, Sum> sums;
  for (const BackendTestResult& r : results) sums[by_op ? r.op : family_of(r.op)].add(r);
  Table table;
  table.row({by_op ? "op" : "ops", "tests", "passed", "wrong", "refused", "claimed", "decomposed", backend, "reference"});
  const auto row = [&](const std::string& name, const Sum& sum) {
    const size_t wrong = sum.wrong + sum.failed;
    table.row({name, std::to_string(sum.tests), std::to_string(sum.passed),
               wrong == 0 ? "0" : styled(std::to_string(wrong), Style::red), std::to_string(sum.refused),
               std::to_string(sum.claimed), std::to_string(sum.decomposed), shown_time(sum.seconds),
               shown_time(sum.reference_seconds)});
  };
  for (const auto& [name, sum] : sums) row(name, sum);
  row("all", total);
  fmt::print("{}", table.text());
}

void print_problems(const std::vector<BackendTestResult>& results, size_t most) {
  std::map<std::string, std::vector<const BackendTestResult*>> wrong;
  std::map<std::string, size_t> refused;
  for (const BackendTestResult& r : results) {
    if (!r.is_fine()) wrong[r.op].push_back(&r);
    if (r.outcome == Outcome::refused) ++refused[r.op];
  }
  for (const auto& [op, its] : wrong) {
    fmt::print("\n{} {}\n", styled(op, Style::bold), styled(fmt::format("{} wrong", its.size()), Style::red));
    for (size_t i = 0; i < its.size() && i < most; ++i) fmt::print("  {}\n    {}\n", its[i]->name, wrapped(its[i]->why, 4, 4));
    if (its.size() > most) fmt::print("  and {} more: --filter {} --all\n", its.size() - most, op);
  }
  if (refused.empty()) return;
  std::string names;
  for (const auto& [op, count] : refused) names += (names.empty() ? "" : ", ") + fmt::format("{} ({})", op, count);
  fmt::print("\nrefused: {}\n", wrapped(names, 9, 9));
}

int test_backend(const Options& options, bool json) {
  const Backend& backend = find_backend(options.backend);
  const BackendTests tests(options.pack.empty() ? find_backend_tests() : options.pack);
  const std::vector<BackendTestResult> results = results_of(tests, backend, options.filter);
  Sum total;
  for (const BackendTestResult& r : results) total.add(r);
  const bool fine = total.wrong + total.failed == 0 && total.passed > 0;  // who refuses everything proves nothing
  if (json) {
    print_json(backend.name(), results, total, fine);
  } else {
    print_table(backend.name(), results, total, options.all);
    print_problems(results, options.all ? results.size() : 3);
    fmt::print("\n{} of {} tests passed\n", total.passed, total.tests);
  }
  return fine ? 0 : 1;
}

}  // namespace

void add_test_backend(Command& app, Context& context) {
  auto options = std::make_shared<Options>();
  Command command = add_command(app, context, "test-backend",
                                "run ops and small models on a backend, beside PyTorch's values",
                                "pycandle test-backend ./libmine.so\n  pycandle test-backend cpu --filter softmax --all");
  command.add_option("backend", options->backend, "a backend's name, or the library of one").required();
  command.add_option("--filter", options->filter, "tests of this op, or with this text in their op or name");
  command.add_flag("--all", options->all, "a row for each op, and all that is wrong");
  command.add_option("--pack", options->pack, "the folder of other tests than those that are installed");
  command.callback([options, &context] { context.status = test_backend(*options, context.json); });
}

}  // namespace pycandle::cli
