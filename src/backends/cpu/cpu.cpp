#include "backends/cpu/cpu.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

#include "backends/at_sizes.h"
#include "backends/cpu/executable.h"
#include "backends/cpu/kernels/kernels.h"
#include "backends/cpu/lowerings.h"
#include "backends/cpu/segments.h"
#include "backends/reference/reference.h"
#include "base/error.h"
#include "base/threads.h"
#include "passes/plain_convolutions.h"

namespace pycandle {
namespace {

// "naive" decomposes a functional whatever the backend could do with it.
void check_overrides(const PipelineOptions& options, const OpTable& table, const Backend& backend) {
  for (const auto& [op, choice] : options.overrides) {
    const OpDef* found = table.find(op);
    const std::vector<std::string> ways = backend.implementations(op);
    if (!found || found->is_primitive || ways.empty()) {
      throw Error(ErrorCode::usage, fmt::format("there is nothing to choose for {}", op))
          .expected("a functional that the cpu backend runs whole, such as linear")
          .found(op);
    }
    if (std::find(ways.begin(), ways.end(), choice) == ways.end()) {
      throw Error(ErrorCode::usage, fmt::format("{} has no such implementation", op))
          .expected(fmt::format("one of {}", fmt::join(ways, ", ")))
          .found(choice);
    }
  }
}

cpu::Shared shared_by_plans(Program p, std::shared_ptr<const ParameterSource> parameters) {
  cpu::Shared shared;
  const size_t values = p.graph.values.size();
  shared.uses.assign(values, 0);
  shared.users.resize(values);
  shared.taps_of.resize(values);
  for (size_t n = 0; n < p.graph.nodes.size(); ++n) {
    for (const ValueId v : p.graph.nodes[n].operands) {
      if (v == kNoValue) continue;
      ++shared.uses[v];
      shared.users[v].push_back(n);
    }
  }
  for (const Output& o : p.outputs) ++shared.uses[o.value];
  for (const State& s : p.states) {
    if (s.updated != kNoValue) ++shared.uses[s.updated];
  }
  for (size_t t = 0; t < p.taps.size(); ++t) {
    if (!p.taps[t].inside) shared.taps_of[p.taps[t].value].push_back(t);
  }
  shared.parameters = std::move(parameters);
  shared.program = std::move(p);
  return shared;
}

void check_threads(int threads) {
  if (threads >= 0 && threads <= kMostThreads) return;
  throw Error(ErrorCode::usage, "this is not a number of threads")
      .expected(fmt::format("1 to {}, or 0 for PYCANDLE_THREADS or all cores", kMostThreads))
      .found(fmt::format("{}", threads));
}

class CpuBackend final : public Backend {
 public:
  std::string name() const override { return "cpu"; }
  bool claims(const Call& call) const override {
    const cpu::Lowering* lowering = cpu::find_lowering(call.op().name);
    return lowering && (!lowering->claims || lowering->claims(call));
  }
  std::vector<std::string> implementations(std::string_view functional) const override {
    if (!cpu::find_lowering(functional)) return {};
    if (functional == "conv2d") return {"default", "exact", "naive"};  // exact: no sums of sums, as Winograd's are
    return {"default", "naive"};
  }
  std::unique_ptr<Executable> compile(const Program& p, const OpTable& table, std::shared_ptr<const ParameterSource> parameters,
                                      const PipelineOptions& options, std::vector<PassTiming>* timings) const override {
    cpu::kernels();  // a wrong PYCANDLE_ISA is told here, not as the error of the first op that is planned
    check_overrides(options, table, *this);
    if (has_data_bound_sizes(p)) {
      if (!cpu::can_be_cut(p)) return reference_backend().compile(p, table, std::move(parameters), options, timings);
      return cpu::in_segments(p, parameters, [&](const Program& piece, bool finds_sizes) {
        const Backend& backend = finds_sizes ? reference_backend() : static_cast<const Backend&>(*this);
        return backend.compile(piece, table, parameters, options, timings);
      });
    }
    check_threads(options.threads);
    const auto claimed = [&](const Call& call) {
      const auto choice = options.overrides.find(call.op().name);
      if (choice != options.overrides.end() && choice->second == "naive") return false;
      return claims(call) || (!options.disabled.contains("plain-convolutions") && has_plain_form(call));
    };
    std::vector<Pass> own = optimising_passes();
    own.insert(own.begin(), widening_pass());  // again: what decompositions left
    cpu::Shared shared = shared_by_plans(run_backend_pipeline(p, table, claimed, options, timings, own, {widening_pass()}),
                                         std::move(parameters));
    shared.threads = options.threads > 0 ? options.threads : thread_count();
    const auto convolutions = options.overrides.find("conv2d");
    shared.exact_convolutions = convolutions != options.overrides.end() && convolutions->second == "exact";
    shared.packs = options.pack_weights && !shared.parameters->is_streamed();
    return std::make_unique<cpu::CpuExecutable>(std::move(shared));
  }
};

}  // namespace

const Backend& cpu_backend() {
  static const CpuBackend backend;
  return backend;
}

}  // namespace pycandle
