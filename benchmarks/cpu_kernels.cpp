// The kernels of the cpu backend against the machine's limits, measured in the same run: the share of the FMA peak, or of
// the read bandwidth from huge pages. A kernel that seems to pass its limit by more than 2 % fails the run: something was
// not computed.
//
//   cmake --build build/release --target bench_cpu_kernels && build/release/benchmarks/bench_cpu_kernels [name] [--threads N]
//
// One thread is timed by its processor time, so that a neighbour does not count; several by the clock. A processor's clock
// and a virtual machine's memory change from one moment to the next, so a kernel and the loops that measure its limit take
// turns; the share is the median over the rounds, each of which compares the bests of a moment.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <functional>
#include <list>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "backends/cpu/kernels/kernels.h"
#include "base/huge_pages.h"
#include "base/parallel.h"
#include "base/weight_format.h"

namespace pycandle::cpu {
namespace {

int threads = 1;

double now() {
  timespec t{};
  ::clock_gettime(threads == 1 ? CLOCK_THREAD_CPUTIME_ID : CLOCK_MONOTONIC, &t);
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

template <class Function> double seconds(const Function& f) {
  const double start = now();
  f();
  return now() - start;
}

bool is_only_named = false;  // a case that is made for its name: nothing is allocated or run

float* random_numbers(size_t n) {
  if (is_only_named) return nullptr;
  static std::vector<HugePages> all;
  all.emplace_back((n + 64) * sizeof(float));
  std::mt19937 engine(1);
  float* out = all.back().floats();
  for (size_t i = 0; i < n; ++i) out[i] = static_cast<float>(engine() >> 8) * 1e-7f - 0.8f;
  return out;
}

template <class Args>
void run(const Args& args, void (*kernel)(const Args&, int64_t, int64_t, float*), int64_t (*units)(const Args&),
         int64_t (*scratch)(const Args&)) {
  if (is_only_named) return;
  static std::vector<HugePages> memory(64);
  const auto bytes = static_cast<size_t>(scratch(args)) * sizeof(float);
  const int64_t count = units(args);
  const auto part = [&](int p) {
    HugePages& mine = memory[p];
    if (mine.size() < bytes) mine = HugePages(bytes);
    kernel(args, part_of(count, threads, p), part_of(count, threads, p + 1), mine.floats());
  };
  if (threads == 1) {
    part(0);
  } else {
    parallel_parts(threads, part);
  }
}
#define RUN(name, args) run(args, kernels().name, kernels().name##_units, kernels().name##_scratch)

struct Case {
  std::string name;
  double flops, bytes;  // one of them is 0
  std::function<void()> body;
  double best = 1e30;
  std::vector<double> shares = {};  // of its limit, one for each round
};

constexpr int64_t kReadTurns = 4;  // matrices that take turns, so that no cache keeps a part of the next

// With several `copies` of the weights, which take turns: what they do when they come from memory, as those of a model do.
Case gemm_case(int64_t m, int64_t n, int64_t k, bool packed, Unary activation = Unary::identity, int64_t copies = 1) {
  Gemm g;
  g.m = m;
  g.n = n;
  g.k = k;
  g.a = random_numbers(static_cast<size_t>(m * k));
  g.a_row = k;
  g.b = random_numbers(static_cast<size_t>(n * k * (packed ? 1 : copies)));
  g.b_row = 1;
  g.b_col = k;
  g.c = random_numbers(static_cast<size_t>(m * n * copies));
  g.c_row = n;
  g.epilogue.bias = random_numbers(static_cast<size_t>(n));
  g.epilogue.activation = activation;
  if (packed) {
    const int64_t size = kernels().packed_size(k, n);
    PackB pack{k, n, g.b, g.b_row, g.b_col, random_numbers(static_cast<size_t>(size * copies))};
    g.packed = pack.out;
    for (int64_t i = 0; i < copies; ++i, pack.out += size) RUN(pack_b, pack);
  }
  const double work = 2.0 * static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k);
  const double bytes = 4.0 * static_cast<double>(n) * static_cast<double>(k);
  std::string name = "gemm " + std::to_string(m) + "x" + std::to_string(n) + "x" + std::to_string(k);
  if (!packed) name += " unpacked";
  if (activation != Unary::identity) name += std::string(" ") + name_of(activation);
  if (copies > 1) name += " from memory";
  return {name, m <= 4 ? 0 : work, m <= 4 ? bytes : 0, [g, copies, turn = int64_t{0}]() mutable {
            Gemm now = g;
            if (g.packed != nullptr) {
              now.packed += turn % copies * kernels().packed_size(g.k, g.n);
            } else {
              now.b += turn % copies * g.n * g.k;
            }
            now.c += turn % 4 * g.m * g.n;
            turn += copies > 1 ? 1 : 0;
            RUN(gemm, now);
          }};
}

// Few rows are held against the memory, many against the multipliers: those that add pairs of 16-bit numbers do twice the
// work of the FMA peak, so their work counts half.
Case narrow_case(WeightFormat format, int64_t m, int64_t n, int64_t k, int64_t copies = 1) {
  const bool is_few = m <= 4, is_wide = format == WeightFormat::f16 || kernels().lanes < 8 ||
                                        (format == WeightFormat::bf16 && std::string(kernels().isa) != "avx512bf16");
  const double work = 2.0 * static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k) * (is_wide ? 1 : 0.5);
  Gemm g;
  g.format = format;
  g.m = m;
  g.n = n;
  g.k = g.a_row = k;
  g.c_row = n;
  PackNarrow pack{format, k, n, nullptr, 1, k, nullptr, kernels().panel};
  const int64_t size = narrow_size(pack);
  const auto body = [g, pack, size, copies, turn = int64_t{0}]() mutable {
    if (g.narrow == nullptr) {  // panels that are all alike take as long
      g.a = random_numbers(static_cast<size_t>(g.m * g.k));
      g.c = random_numbers(static_cast<size_t>(g.m * g.n));
      pack.b = random_numbers(static_cast<size_t>(pack.panel * g.k));
      pack.out = reinterpret_cast<uint8_t*>(random_numbers(static_cast<size_t>(size * copies / 4)));
      g.narrow = pack.out;
      pack_narrow(pack, 0, 1);
      const int64_t panels = narrow_panels(pack), bytes = size / panels;
      for (int64_t p = 1; p < panels * copies; ++p) std::memcpy(pack.out + p * bytes, pack.out, static_cast<size_t>(bytes));
    }
    Gemm now = g;
    now.narrow += turn++ % copies * size;
    RUN(narrow_gemm, now);
  };
  const std::string name = std::string("narrow ") + std::string(name_of(format)) + " " + std::to_string(m) + "x" +
                           std::to_string(n) + "x" + std::to_string(k);
  return {name, is_few ? 0 : work, is_few ? static_cast<double>(size) : 0, body};
}

enum class Mask { none, numbers, truths };

Case attention_case(int64_t heads, int64_t length, int64_t size, bool causal, Mask mask = Mask::none) {
  Attention g;
  g.batch = 1;
  g.heads = g.kv_heads = heads;
  g.queries = g.keys = length;
  g.head_size = g.value_size = size;
  g.scale = 0.125f;
  g.causal = causal;
  const int64_t row = 3 * heads * size;  // q, k and v side by side
  g.q = random_numbers(static_cast<size_t>(row * length));
  g.k = g.q + heads * size;
  g.v = g.k + heads * size;
  g.out = random_numbers(static_cast<size_t>(heads * size * length));
  g.q_head = g.k_head = g.v_head = g.out_head = size;
  g.q_row = g.k_row = g.v_row = row;
  g.out_row = heads * size;
  const float* numbers = random_numbers(static_cast<size_t>(length * length));
  if (mask == Mask::numbers) g.mask = numbers;
  if (mask == Mask::truths) g.allowed = reinterpret_cast<const uint8_t*>(numbers);
  g.mask_row = g.allowed_row = length;
  g.mask_col = g.allowed_col = 1;
  const double pairs = causal ? 0.5 * static_cast<double>(length * (length + 1)) : static_cast<double>(length * length);
  return {"attention " + std::to_string(heads) + "x" + std::to_string(length) + "x" + std::to_string(size) +
              (causal ? " causal" : "") +
              (mask == Mask::numbers  ? " masked"
               : mask == Mask::truths ? " masked by truths"
                                      : ""),
          4.0 * static_cast<double>(heads * size) * pairs, 0, [g] { RUN(attention, g); }};
}

// A step behind `length` tokens, in a stack of layers that no cache holds: the bytes are those of the keys and values.
Case cached_attention_case(int64_t heads, int64_t kv_heads, int64_t length, int64_t size, WeightFormat kept) {
  CachedAttention g;
  g.call.batch = g.call.queries = 1;
  g.call.heads = heads;
  g.call.kv_heads = kv_heads;
  g.call.keys = length;
  g.call.head_size = g.call.value_size = size;
  g.call.scale = 0.125f;
  g.kept = kept;
  g.splits = kv_heads < threads ? (threads + kv_heads - 1) / kv_heads : 1;
  g.call.q_head = g.call.out_head = size;
  g.call.k_row = g.call.v_row = size;
  g.call.k_head = g.call.v_head = length * size;
  const auto start = std::make_shared<int64_t>(length - 1);
  g.starts = start.get();
  const int64_t rows = kv_heads * length * size, bytes = rows * (kept == WeightFormat::f32 ? 4 : 2);
  constexpr int64_t kMemory = int64_t{300} << 20;
  const int64_t layers = kMemory / (2 * bytes);
  static const float* memory = nullptr;  // of all cases
  if (memory == nullptr) memory = random_numbers(kMemory / 4);
  g.call.q = random_numbers(static_cast<size_t>(heads * size));
  g.call.out = random_numbers(static_cast<size_t>(heads * size));
  g.partial = random_numbers(static_cast<size_t>(kernels().partial_attention_size(g)));
  return {"cached attention " + std::to_string(kv_heads) + "x" + std::to_string(length) + "x" + std::to_string(size) +
              (heads > kv_heads ? " for " + std::to_string(heads) : "") + " " + std::string(name_of(kept)),
          0, static_cast<double>(layers * 2 * bytes), [=, memory = memory] {
            (void)start;
            for (int64_t i = 0; i < layers; ++i) {
              CachedAttention layer = g;
              layer.call.k = memory + i * bytes / 2;
              layer.call.v = layer.call.k + bytes / 4;
              RUN(cached_attention, layer);
              if (layer.splits > 1) kernels().merge_attention(layer, 0, kernels().merge_attention_units(layer), nullptr);
            }
          }};
}

Case unary_case(Unary f) {
  constexpr int64_t n = 4096;
  const float* x = random_numbers(n);
  float* out = random_numbers(n);
  return {std::string("unary ") + name_of(f), 0, 4.0 * n * 64, [=] {
            for (int i = 0; i < 64; ++i) kernels().unary[static_cast<int>(f)](x, out, n, 0, 1);
          }};
}

Case norm_case(int64_t rows, int64_t cols) {
  Norm g;
  g.rows = rows;
  g.cols = g.x_row = g.out_row = cols;
  g.x = random_numbers(static_cast<size_t>(rows * cols));
  g.out = random_numbers(static_cast<size_t>(rows * cols));
  g.weight = g.bias = random_numbers(static_cast<size_t>(cols));
  return {"layer norm " + std::to_string(rows) + "x" + std::to_string(cols), 0, 4.0 * static_cast<double>(rows * cols),
          [g] { RUN(norm, g); }};
}

Case lstm_case(int64_t hidden, int steps) {
  RecurrentStep g;
  g.batch = 1;
  g.hidden = hidden;
  g.sums = random_numbers(static_cast<size_t>(4 * hidden));
  const PackRecurrent pack{Cell::lstm, hidden, random_numbers(static_cast<size_t>(4 * hidden * hidden)),
                           random_numbers(static_cast<size_t>(kernels().packed_recurrent_size(Cell::lstm, hidden)))};
  RUN(pack_recurrent, pack);
  g.packed = pack.out;
  float* state = random_numbers(static_cast<size_t>(3 * hidden));
  g.c = g.c_out = state + 2 * hidden;
  return {"lstm step " + std::to_string(hidden) + " x" + std::to_string(steps),
          8.0 * static_cast<double>(hidden * hidden) * steps, 0, [=] {
            parallel_team(threads, [&](Team& team, int member) {
              RecurrentStep mine = g;
              const int64_t units = kernels().recurrent_step_units(g);
              for (int i = 0; i < steps; ++i) {
                mine.h = state + i % 2 * hidden;
                mine.h_out = state + (i + 1) % 2 * hidden;
                mine.backwards = i % 2 == 1;
                kernels().recurrent_step(mine, part_of(units, team.size(), member), part_of(units, team.size(), member + 1),
                                         nullptr);
                team.barrier();
              }
            });
          }};
}

Case depthwise_case(int64_t channels, int64_t size, int64_t kernel, int64_t stride) {
  Depthwise g;
  g.batch = 1;
  g.channels = channels;
  g.height = g.width = size;
  g.out_height = g.out_width = size / stride;
  for (const int d : {0, 1}) {
    g.window.kernel[d] = kernel;
    g.window.stride[d] = stride;
    g.window.padding[d] = kernel / 2;
  }
  g.x = random_numbers(static_cast<size_t>(channels * size * size));
  g.weight = random_numbers(static_cast<size_t>(channels * kernel * kernel));
  g.out = random_numbers(static_cast<size_t>(channels * g.out_height * g.out_width));
  return {"depthwise " + std::to_string(channels) + "x" + std::to_string(size) + " " + std::to_string(kernel) + "/" +
              std::to_string(stride),
          2.0 * static_cast<double>(channels * g.out_height * g.out_width * kernel * kernel), 0, [g] { RUN(depthwise, g); }};
}

Case convolution_case(int64_t channels, int64_t size, int64_t kernel, int64_t stride, int64_t out_channels) {
  static std::list<Im2Col> images;
  Im2Col& image = images.emplace_back();
  image.channels = channels;
  image.height = image.width = size;
  image.out_height = image.out_width = size / stride;
  image.window = {{kernel, kernel}, {stride, stride}, {kernel / 2, kernel / 2}, {1, 1}};
  Gemm g;
  g.m = out_channels;
  g.n = image.out_height * image.out_width;
  g.k = channels * kernel * kernel;
  g.a = random_numbers(static_cast<size_t>(g.m * g.k));
  g.a_row = g.k;
  const PackA pack{g.m, g.k, g.a, g.a_row, 1, random_numbers(static_cast<size_t>(kernels().packed_a_size(g.m, g.k)))};
  RUN(pack_a, pack);
  g.packed_a = pack.out;
  g.b = random_numbers(static_cast<size_t>(channels * size * size));
  g.image = &image;
  g.c = random_numbers(static_cast<size_t>(g.m * g.n));
  g.c_row = g.n;
  g.epilogue.row_bias = random_numbers(static_cast<size_t>(g.m));
  g.epilogue.activation = Unary::relu;
  return {"convolution " + std::to_string(channels) + "x" + std::to_string(size) + " " + std::to_string(kernel) + "/" +
              std::to_string(stride),
          2.0 * static_cast<double>(g.m * g.n * g.k), 0, [g] { RUN(gemm, g); }};
}

Case pool_case(int64_t channels, int64_t size) {
  Pool g;
  g.planes = channels;
  g.height = g.width = size;
  g.out_height = g.out_width = size / 2;
  g.window = {{3, 3}, {2, 2}, {1, 1}, {1, 1}};
  g.x = random_numbers(static_cast<size_t>(channels * size * size));
  g.out = random_numbers(static_cast<size_t>(channels * size * size / 4));
  return {"max pool " + std::to_string(channels) + "x" + std::to_string(size) + " 3/2", 0,
          4.0 * static_cast<double>(channels * size * size), [g] { RUN(pool, g); }};
}

std::vector<Case> all_cases(const std::string& filter) {
  std::vector<Case> cases;
  // Made twice: once for the name alone, without memory.
  const auto add = [&](const auto& make) {
    is_only_named = true;
    const std::string name = make().name;
    is_only_named = false;
    if (name.find(filter) != std::string::npos) cases.push_back(make());
  };
  for (const int64_t n : {512, 1024, 2048}) add([&] { return gemm_case(n, n, n, true); });
  add([&] { return gemm_case(1024, 1024, 1024, false); });
  for (const int64_t m : {197, 128, 512})
    for (const auto& [n, k] : {std::pair<int64_t, int64_t>{768, 768}, {2304, 768}, {3072, 768}, {768, 3072}})
      add([&] { return gemm_case(m, n, k, true); });
  for (const auto& [n, k] : {std::pair<int64_t, int64_t>{384, 384}, {1152, 384}, {1536, 384}, {384, 1536}})
    add([&] { return gemm_case(128, n, k, true); });
  add([&] { return gemm_case(128, 1152, 384, true, Unary::identity, 40); });
  add([&] { return gemm_case(128, 1536, 384, true, Unary::gelu, 40); });
  add([&] { return gemm_case(128, 384, 1536, true, Unary::identity, 40); });
  add([&] { return gemm_case(197, 3072, 768, true, Unary::gelu); });
  add([&] { return gemm_case(512, 3072, 768, true, Unary::gelu_tanh); });
  add([&] { return gemm_case(8, 3072, 768, true); });
  add([&] { return gemm_case(1, 50257, 768, true, Unary::identity, kReadTurns); });
  add([&] { return gemm_case(1, 50257, 768, false, Unary::identity, kReadTurns); });
  add([&] { return gemm_case(2, 50257, 768, true, Unary::identity, kReadTurns); });
  for (const WeightFormat f : {WeightFormat::bf16, WeightFormat::f16, WeightFormat::int8, WeightFormat::int4}) {
    const int64_t wider = f == WeightFormat::int4 ? 4 : f == WeightFormat::int8 ? 3 : 2;  // more than any cache holds
    add([&] { return narrow_case(f, 1, wider * 50257, 768, 2); });
    add([&] { return narrow_case(f, 1, 2304 * wider, 768, 80); });
    add([&] { return narrow_case(f, 2, wider * 50257, 768, 2); });
    for (const int64_t m : {8, 128, 512}) add([&] { return narrow_case(f, m, 3072, 768); });
    add([&] { return narrow_case(f, 128, 768, 3072); });
  }
  for (const bool causal : {false, true}) {
    add([&] { return attention_case(12, 197, 64, causal); });
    add([&] { return attention_case(12, 128, 32, causal); });
    add([&] { return attention_case(12, 512, 64, causal); });
  }
  for (const WeightFormat f : {WeightFormat::f32, WeightFormat::bf16}) {
    add([&] { return cached_attention_case(12, 12, 1024, 64, f); });
    add([&] { return cached_attention_case(12, 12, 4096, 64, f); });
    add([&] { return cached_attention_case(32, 8, 4096, 64, f); });
    add([&] { return cached_attention_case(32, 8, 4096, 128, f); });
  }
  add([&] { return attention_case(12, 512, 64, false, Mask::numbers); });
  add([&] { return attention_case(12, 512, 64, false, Mask::truths); });
  add([&] { return depthwise_case(96, 112, 3, 2); });
  add([&] { return depthwise_case(144, 56, 3, 1); });
  add([&] { return depthwise_case(384, 14, 3, 1); });
  add([&] { return depthwise_case(96, 56, 7, 1); });
  add([&] { return depthwise_case(768, 7, 7, 1); });
  add([&] { return convolution_case(3, 224, 7, 2, 64); });
  add([&] { return convolution_case(64, 56, 3, 1, 64); });
  add([&] { return convolution_case(128, 28, 3, 1, 128); });
  add([&] { return convolution_case(256, 14, 3, 1, 256); });
  add([&] { return convolution_case(512, 7, 3, 1, 512); });
  add([&] { return convolution_case(256, 14, 3, 2, 512); });
  add([&] { return pool_case(64, 112); });
  add([&] { return lstm_case(256, 100); });
  add([&] { return norm_case(197, 768); });
  for (const Unary f : {Unary::exp, Unary::log, Unary::tanh, Unary::erf, Unary::sin, Unary::gelu, Unary::gelu_tanh, Unary::silu})
    add([&] { return unary_case(f); });
  return cases;
}

// What the machine can do at best, as far as it has been seen.
class Limits {
 public:
  double peak = 0, read_huge = 0, read_small = 0;

  Limits() : huge_(kReadTurns * kRead), small_(kRead / sizeof(float)) { std::memset(huge_.data(), 0, kReadTurns * kRead); }

  void measure() {
    multiply();
    for (int i = 0; i < 6; ++i) read();
    for (const int streams : {1, 2, 4}) read_small = std::max(read_small, read(kernels(), small_.data(), streams));
  }

  // Floating-point operations a second of a loop of multiply-adds in registers.
  double multiply() {
    constexpr int64_t rounds = 200000;
    int64_t flops = 0;
    const double t = seconds([&] {
      on_all([&](int p) {
        const int64_t n = kernels().fma_loop(rounds, sink(p));
        if (p == 0) flops = n;
      });
    });
    const double rate = static_cast<double>(flops) * threads / t;
    peak = std::max(peak, rate);
    return rate;
  }

  // Bytes a second by one of the ways to read: the loads of every instruction set, in one or several streams.
  double read() {
    std::vector<const Kernels*> loops;
    for (const Kernels* const* k = all_kernels(); *k != nullptr; ++k) loops.push_back(*k);
    const size_t way = turn_ % (loops.size() * 3);
    const float* x = huge_.floats() + turn_ % kReadTurns * (kRead / sizeof(float));
    ++turn_;
    const double rate = read(*loops[way / 3], x, 1 << way % 3);
    read_huge = std::max(read_huge, rate);
    return rate;
  }

 private:
  static constexpr size_t kRead = size_t{147} << 20;

  template <class F> static void on_all(const F& f) {
    if (threads == 1) return f(0);
    parallel_parts(threads, f);
  }

  float* sink(int part) { return &sinks_[static_cast<size_t>(part) * 16]; }

  double read(const Kernels& loops, const float* x, int streams) {
    constexpr auto n = static_cast<int64_t>(kRead / sizeof(float));
    return kRead / seconds([&] {
             on_all([&](int p) {
               const int64_t begin = part_of(n, threads, p);
               loops.read_loop(x + begin, part_of(n, threads, p + 1) - begin, streams, sink(p));
             });
           });
  }

  HugePages huge_;
  std::vector<float> small_;
  std::vector<float> sinks_ = std::vector<float>(1024);
  size_t turn_ = 0;
};

double median(std::vector<double> x) {
  std::nth_element(x.begin(), x.begin() + static_cast<std::ptrdiff_t>(x.size() / 2), x.end());
  return x[x.size() / 2];
}

// The processor's clock may rise by a tenth within a run, and the memory's speed may double from one second to the next (a
// virtual machine's processors may share a link to it, or not): the kernel is compared with the loops that ran between its
// own turns.
void take_turns(Case& c, Limits& limits) {
  double best = 1e30, limit = 0;
  const double start = now(), length = c.flops != 0 ? 0.04 : 0.3;
  for (int i = 0; i < 3 || now() - start < length; ++i) {
    limit = std::max(limit, c.flops != 0 ? limits.multiply() : limits.read());
    best = std::min(best, seconds(c.body));
  }
  c.best = std::min(c.best, best);
  c.shares.push_back((c.flops != 0 ? c.flops : c.bytes) / best / limit);
}

int measure(const std::string& filter) {
  Limits limits;
  std::vector<Case> cases = all_cases(filter);
  const auto rate = [](const Case& c) { return (c.flops != 0 ? c.flops : c.bytes) / c.best; };
  const auto is_limited = [](const Case& c) { return c.flops != 0 || c.bytes >= 1e8; };  // reads more than any cache holds
  const auto is_beyond = [&](const Case& c) { return is_limited(c) && median(c.shares) > 1.02; };
  constexpr int kRounds = 7;
  for (int round = 0; round < kRounds; ++round) {
    for (int i = 0; i < 2; ++i) limits.measure();
    for (Case& c : cases) {
      if (is_limited(c)) {
        take_turns(c, limits);
        continue;
      }
      const double start = now();
      for (int i = 0; i < 3 || now() - start < 0.02; ++i) c.best = std::min(c.best, seconds(c.body));
    }
  }
  // A host that had less to do for a moment shows the kernel that ran then more than the loops: they get more turns.
  for (int turn = 0; turn < 3 * kRounds && std::any_of(cases.begin(), cases.end(), is_beyond); ++turn) {
    limits.measure();
    for (Case& c : cases)
      if (is_beyond(c)) take_turns(c, limits);
  }
  std::printf("%s, %d thread%s: FMA peak %.1f GFLOP/s, reads %.1f GB/s (huge pages), %.1f GB/s (small)\n", kernels().isa, threads,
              threads == 1 ? "" : "s", limits.peak * 1e-9, limits.read_huge * 1e-9, limits.read_small * 1e-9);
  int failed = 0;
  for (const Case& c : cases) {
    std::printf("%-38s %9.3f ms  %7.1f %s", c.name.c_str(), c.best * 1e3, rate(c) * 1e-9, c.flops != 0 ? "GFLOP/s" : "GB/s   ");
    if (is_limited(c)) std::printf("  %5.1f %%", 100 * median(c.shares));
    if (is_beyond(c)) {
      std::printf("  more than the machine can do");
      failed = 1;
    }
    std::printf("\n");
  }
  return failed;
}

}  // namespace
}  // namespace pycandle::cpu

int main(int argc, char** argv) {
  std::string filter;
  for (int i = 1; i < argc; ++i) {
    if (std::strcmp(argv[i], "--threads") == 0 && i + 1 < argc) {
      pycandle::cpu::threads = std::max(1, std::atoi(argv[++i]));
    } else {
      filter = argv[i];
    }
  }
  return pycandle::cpu::measure(filter);
}
