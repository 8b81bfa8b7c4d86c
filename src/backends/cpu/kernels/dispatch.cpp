// Which kernels run: the best instruction set that the machine has, or the one that PYCANDLE_ISA names.
#include <cstdlib>
#include <cstring>

#if defined(__x86_64__)
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

#include "backends/cpu/kernels/kernels.h"
#include "backends/cpu/kernels/narrow_tiles.h"
#include "base/error.h"

namespace pycandle::cpu {

namespace portable {
void fill(Kernels& k);
void use_narrow_matrices(Kernels& k, const NarrowTiles& tiles, const NarrowMatrices& matrices);
}  // namespace portable
namespace amx_model {
NarrowMatrices narrow_matrices();
}
#if defined(__x86_64__)
namespace avx2 {
void fill(Kernels& k);
}
namespace avx512 {
void fill(Kernels& k);
void use_narrow_tiles(Kernels& k, const NarrowTiles& tiles);
void use_narrow_matrices(Kernels& k, const NarrowTiles& tiles, const NarrowMatrices& matrices);
}  // namespace avx512
namespace avx512bf16 {
NarrowTiles narrow_tiles();
}
namespace amx {
NarrowMatrices narrow_matrices();
}
#endif

namespace {

bool always() { return true; }
#if defined(__x86_64__)
bool has_avx2() { return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("f16c"); }
bool has_avx512() {
  return has_avx2() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
}
bool has_avx512bf16() { return has_avx512() && __builtin_cpu_supports("avx512bf16") && __builtin_cpu_supports("avx512vnni"); }
void fill_avx512bf16(Kernels& k) {
  avx512::fill(k);
  avx512::use_narrow_tiles(k, avx512bf16::narrow_tiles());
  k.isa = "avx512bf16";
}

// The tiles are 8 KB of registers, which a process has to ask the kernel for, once.
bool has_amx() {
  unsigned a = 0, b = 0, c = 0, d = 0;
  constexpr unsigned kBf16 = 1U << 22, kTile = 1U << 24, kInt8 = 1U << 25, kAll = kBf16 | kTile | kInt8;
  if (!has_avx512bf16() || __get_cpuid_count(7, 0, &a, &b, &c, &d) == 0 || (d & kAll) != kAll) return false;
#if defined(__linux__)
  constexpr long kAskForPermission = 0x1023, kTileData = 18;  // ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA
  return syscall(SYS_arch_prctl, kAskForPermission, kTileData) == 0;
#else
  return false;
#endif
}
void fill_amx(Kernels& k) {
  avx512::fill(k);
  avx512::use_narrow_matrices(k, avx512bf16::narrow_tiles(), amx::narrow_matrices());
  k.isa = "amx";
}
#endif

constexpr const char* kAmxModel = "amx_model";
void fill_amx_model(Kernels& k) {
  portable::fill(k);
  portable::use_narrow_matrices(k, {}, amx_model::narrow_matrices());
  k.isa = kAmxModel;
}

struct InstructionSet {
  const char* name;
  bool (*present)();
  void (*fill)(Kernels&);
};
constexpr InstructionSet kSets[] = {
// best first
#if defined(__x86_64__)
    {"amx", has_amx, fill_amx},           {"avx512bf16", has_avx512bf16, fill_avx512bf16},
    {"avx512", has_avx512, avx512::fill}, {"avx2", has_avx2, avx2::fill},
#endif
    {"portable", always, portable::fill},
};
constexpr size_t kCount = std::size(kSets);

struct Tables {
  Kernels tables[kCount];
  const Kernels* present[kCount + 1] = {};
};

const Tables& tables() {
  static const Tables& all = []() -> const Tables& {
    static Tables out;
    size_t n = 0;
    for (size_t i = 0; i < kCount; ++i) {
      if (!kSets[i].present()) continue;
      kSets[i].fill(out.tables[i]);
      out.present[n++] = &out.tables[i];
    }
    return out;
  }();
  return all;
}

const Kernels& chosen() {
  const char* wish = std::getenv("PYCANDLE_ISA");
  if (wish == nullptr || *wish == '\0') return *tables().present[0];
  if (std::strcmp(wish, kAmxModel) == 0) return amx_model_kernels();
  for (const InstructionSet& set : kSets) {
    if (std::strcmp(set.name, wish) != 0) continue;
    for (const Kernels* const* k = tables().present; *k != nullptr; ++k)
      if (std::strcmp((*k)->isa, wish) == 0) return **k;
    throw Error(ErrorCode::usage, "this machine lacks the instruction set that PYCANDLE_ISA names").found(wish);
  }
  std::string names;
  for (const InstructionSet& set : kSets) names += (names.empty() ? "" : ", ") + std::string(set.name);
  throw Error(ErrorCode::usage, "PYCANDLE_ISA is not an instruction set").expected(names).found(wish);
}

constexpr const char* kUnaryNames[] = {
#define UNARY(name, ...) #name,
#include "backends/cpu/kernels/unary.inc"
#undef UNARY
};
constexpr const char* kBinaryNames[] = {
#define X(name) #name,
    PYCANDLE_BINARY(X)
#undef X
};
constexpr const char* kCompareNames[] = {
#define X(name) #name,
    PYCANDLE_COMPARE(X)
#undef X
};

}  // namespace

const Kernels& kernels() {
  static const Kernels& k = chosen();
  return k;
}
const Kernels* const* all_kernels() { return tables().present; }
const Kernels& amx_model_kernels() {
  static const Kernels& k = []() -> const Kernels& {
    static Kernels out;
    fill_amx_model(out);
    return out;
  }();
  return k;
}

const char* name_of(Unary f) { return kUnaryNames[static_cast<size_t>(f)]; }
const char* name_of(Binary f) { return kBinaryNames[static_cast<size_t>(f)]; }
const char* name_of(Compare f) { return kCompareNames[static_cast<size_t>(f)]; }

}  // namespace pycandle::cpu
