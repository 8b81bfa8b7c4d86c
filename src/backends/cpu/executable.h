// A compiled program: plans for the sizes it was called with, and the memory to run them in.
#pragma once

#include <chrono>
#include <list>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "backends/cpu/fetch_ahead.h"
#include "backends/cpu/planner.h"
#include "backends/in_place.h"
#include "backends/placed.h"

namespace pycandle::cpu {

class CpuExecutable final : public Executable, public RunsInPlace, public SaysPlaces {
 public:
  explicit CpuExecutable(Shared);
  std::vector<Array> run(const RunRequest& request) const override { return run(request, States::kept); }
  std::vector<Array> run_in_place(const RunRequest& request) const override { return run(request, States::written); }
  std::unique_ptr<RepeatedRun> repeated(RunRequest) const override;
  ExecutableUse use() const override;
  std::vector<PlacedBuffer> places() const override;

 private:
  using Clock = std::chrono::steady_clock;
  enum class States { kept, written };  // what a run may do with the memory of the caller's states
  // A plan serves calls whose inputs have these dtypes and sizes. Weights are not part of it: they belong to the
  // executable, and another one has plans of its own.
  struct Entry {
    std::vector<int64_t> key;
    Bindings symbols;
    std::unique_ptr<const Plan> plan;
    std::vector<std::unique_ptr<Context>> idle;  // contexts that no run uses at the moment
  };
  friend class CpuRepeatedRun;
  std::vector<Array> run(const RunRequest&, States) const;
  std::shared_ptr<Entry> entry_for(const RunRequest&) const;
  bool is_for_one_call(const Plan& plan) const { return plan.reads_unpacked && shared_.packs; }
  std::string why_no_plan_fits(const RunRequest&, const std::vector<int64_t>& key) const;
  std::unique_ptr<Context> new_context(const Plan&) const;
  void bind(const Plan&, const RunRequest&, States, Context&) const;
  void execute(const Plan&, const RunRequest&, Context&, std::vector<Clock::time_point>* times) const;
  void use_weights(const Plan&, const Step&, const Context&) const;  // those that this step reads
  std::unique_ptr<const FetchAhead> fetch_ahead(const Plan&, const Context&) const;  // null: nothing is gained
  void deliver(const Plan&, const Values&, const Context&) const;
  void report(const Plan&, const RunRequest&, const std::vector<Clock::time_point>&) const;

  Shared shared_;
  mutable std::mutex mutex_;
  mutable std::list<std::shared_ptr<Entry>> entries_;  // the one used last first
  mutable std::vector<ExecutableUse::Planned> planned_;
  mutable std::set<std::vector<int64_t>> dropped_;     // keys of plans that made room for others
};

}  // namespace pycandle::cpu
