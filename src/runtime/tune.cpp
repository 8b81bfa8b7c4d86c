#include "runtime/tune.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <limits>
#include <utility>

#include "base/threads.h"
#include "runtime/machine.h"

namespace pycandle {
namespace {

constexpr int kTurns = 3;
constexpr double kWorthIt = 0.98;  // another way must be this much quicker than the default

double run_ms(const Model& model, const RunRequest& request) {
  using Clock = std::chrono::steady_clock;
  const Clock::time_point begin = Clock::now();
  model.executable().run(request);
  return std::chrono::duration<double, std::milli>(Clock::now() - begin).count();
}

// Functional → elements of its largest call.
std::map<std::string, int64_t> largest_calls(const Program& p, const Bindings& sizes) {
  std::map<std::string, int64_t> largest;
  const auto elements = [&](ValueId v) -> int64_t {
    if (v == kNoValue) return 0;
    int64_t n = 1;
    for (const Dim d : p.graph.type(v).shape) {
      std::vector<std::string> symbols;
      d.collect_symbols(symbols);
      const bool is_bound = std::all_of(symbols.begin(), symbols.end(), [&](const auto& s) { return sizes.count(s) != 0; });
      n *= is_bound ? d.evaluate(sizes) : 1;
    }
    return n;
  };
  for (const Node& node : p.graph.nodes) {
    if (node.op->is_primitive) continue;
    int64_t sum = 0;
    for (const ValueId v : node.operands) sum += elements(v);
    for (const ValueId v : node.results) sum += elements(v);
    int64_t& most = largest[node.op->name];
    most = std::max(most, sum);
  }
  return largest;
}

int64_t next_power_of_two(int64_t n) {
  int64_t power = 1;
  while (power < n) power *= 2;
  return power;
}

}  // namespace

std::map<std::string, std::string> tuned_overrides(const std::filesystem::path& path, const LoadOptions& options,
                                                   const std::function<Model::Tensors(const Model&)>& inputs) {
  const Backend& backend = find_backend(options.backend);
  const MeasuredCache cache("tune.json");
  const Model usual = open_model(path, options);
  RunRequest request;
  request.inputs = ordered_inputs(usual.program(), inputs(usual));
  request.prepare_fully = true;
  const int threads = options.pipeline.threads > 0 ? options.pipeline.threads : thread_count();
  std::map<std::string, std::string> chosen;
  for (const auto& [op, elements] : largest_calls(usual.program(), bind_inputs(usual.program(), request.inputs))) {
    const std::vector<std::string> ways = backend.implementations(op);
    if (ways.empty() || options.pipeline.overrides.count(op) != 0) continue;
    const std::string key = MeasuredCache::key(
        fmt::format("{} with {} threads, {} elements", op, threads, next_power_of_two(elements)));
    if (const auto known = cache.find(key); known && known->contains("choice") && (*known)["choice"].is_string()) {
      const auto choice = (*known)["choice"].get<std::string>();
      if (std::find(ways.begin(), ways.end(), choice) != ways.end()) {
        chosen[op] = choice;
        continue;
      }
    }
    std::vector<std::pair<std::string, Model>> models;
    std::map<std::string, double> best;
    for (const std::string& way : ways) {
      LoadOptions other = options;
      other.pipeline.overrides[op] = way;
      models.emplace_back(way, open_model(path, other));
      run_ms(models.back().second, request);  // plans, and packs weights
      best[way] = std::numeric_limits<double>::infinity();
    }
    for (int turn = 0; turn < kTurns; ++turn) {
      for (const auto& [way, model] : models) best[way] = std::min(best[way], run_ms(model, request));
    }
    std::string choice = ways.front();
    for (const auto& [way, ms] : best) {
      if (ms < kWorthIt * best[choice]) choice = way;
    }
    cache.keep(key, {{"choice", choice}, {"ms", best}});
    chosen[op] = choice;
  }
  return chosen;
}

}  // namespace pycandle
