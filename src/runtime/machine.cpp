#include "runtime/machine.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <vector>

#include "backends/cpu/kernels/kernels.h"
#include "base/error.h"
#include "base/file.h"
#include "base/huge_pages.h"
#include "base/parallel.h"
#include "base/version.h"

namespace pycandle {
namespace {

// The text after "name:" in one of the system's virtual files, which have no size to map them by.
std::string fact_of_system(const char* file, const std::string& name) {
  std::ifstream lines(file);
  for (std::string line; std::getline(lines, line);) {
    const size_t colon = line.find(':');
    if (line.rfind(name, 0) != 0 || colon == std::string::npos) continue;
    const size_t begin = line.find_first_not_of(" \t", colon + 1);
    return begin == std::string::npos ? "" : line.substr(begin);
  }
  return {};
}

double seconds_of(const std::function<void()>& work) {
  using Clock = std::chrono::steady_clock;
  const Clock::time_point begin = Clock::now();
  work();
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

}  // namespace

std::filesystem::path cache_folder() {
  const char *chosen = std::getenv("XDG_CACHE_HOME"), *home = std::getenv("HOME");
  if (chosen && *chosen) return std::filesystem::path(chosen) / "pycandle";
  if (home && *home) return std::filesystem::path(home) / ".cache" / "pycandle";
  return {};
}

std::string machine_name() {
  static const std::string name = [] {
    const std::string model = fact_of_system("/proc/cpuinfo", "model name");
    return fmt::format("{}, {}", model.empty() ? "unknown" : model, cpu::kernels().isa);
  }();
  return name;
}

std::vector<std::string> instruction_sets() {
  std::vector<std::string> names;
  for (const cpu::Kernels* const* k = cpu::all_kernels(); *k != nullptr; ++k) names.emplace_back((*k)->isa);
  return names;
}

size_t peak_memory() { return 1024 * static_cast<size_t>(std::atoll(fact_of_system("/proc/self/status", "VmHWM").c_str())); }

MeasuredCache::MeasuredCache(const std::string& file) {
  const std::filesystem::path folder = cache_folder();
  if (folder.empty()) return;
  std::error_code failure;
  std::filesystem::create_directories(folder, failure);
  if (!failure) path_ = folder / file;
}

std::string MeasuredCache::key(const std::string& what) {
  return fmt::format("{} | pycandle {} | {}", machine_name(), version(), what);
}

std::optional<Json> MeasuredCache::find(const std::string& key) const {
  if (path_.empty() || !std::filesystem::exists(path_)) return std::nullopt;
  try {
    const Json all = parse_json(read_text(path_), path_.string());
    if (all.is_object() && all.contains(key)) return all[key];
  } catch (const Error&) {  // as if it were not there
  }
  return std::nullopt;
}

void MeasuredCache::keep(const std::string& key, const Json& value) const {
  if (path_.empty()) return;
  Json all = Json::object();
  try {
    if (std::filesystem::exists(path_)) all = parse_json(read_text(path_), path_.string());
  } catch (const Error&) {
  }
  if (!all.is_object()) all = Json::object();
  all[key] = value;
  try {
    write_text(path_, all.dump(1));
  } catch (const Error&) {  // measured again next time
  }
}

MachinePeaks machine_peaks(int threads) {
  const MeasuredCache cache("peaks.json");
  const std::string key = MeasuredCache::key(fmt::format("peaks with {} threads", threads));
  if (const auto known = cache.find(key)) {
    const double gflops = known->value("gflops", 0.0), read = known->value("read_gbs", 0.0);
    if (gflops > 0 && read > 0) return {gflops, read};
  }
  const cpu::Kernels& k = cpu::kernels();
  constexpr int64_t kRounds = 200000, kFloats = int64_t{32} << 20;
  MachinePeaks peaks;
  std::vector<float> sinks(static_cast<size_t>(threads) * 16);
  for (int turn = 0; turn < 5; ++turn) {
    int64_t operations = 0;
    const double t = seconds_of([&] {
      parallel_parts(threads, [&](int p) {
        const int64_t n = k.fma_loop(kRounds, &sinks[static_cast<size_t>(p) * 16]);
        if (p == 0) operations = n;
      });
    });
    peaks.gflops = std::max(peaks.gflops, static_cast<double>(operations) * threads / t / 1e9);
  }
  const HugePages memory(kFloats * sizeof(float));
  std::fill_n(memory.floats(), kFloats, 1.0F);
  const auto read = [&](const cpu::Kernels& loops, int streams) {
    const double t = seconds_of([&] {
      parallel_parts(threads, [&](int p) {
        const int64_t begin = part_of(kFloats, threads, p);
        loops.read_loop(memory.floats() + begin, part_of(kFloats, threads, p + 1) - begin, streams,
                        &sinks[static_cast<size_t>(p) * 16]);
      });
    });
    peaks.read_gbs = std::max(peaks.read_gbs, static_cast<double>(kFloats) * sizeof(float) / t / 1e9);
  };
  // Narrower loads may be the quicker ones.
  for (const cpu::Kernels* const* loops = cpu::all_kernels(); *loops != nullptr; ++loops)
    for (const int streams : {1, 2, 4}) read(**loops, streams);
  cache.keep(key, {{"gflops", peaks.gflops}, {"read_gbs", peaks.read_gbs}});
  return peaks;
}

}  // namespace pycandle
