// Which kernels run: the best instruction set that the machine has, or the one that PYCANDLE_ISA names.
#include <cstdlib>
#include <cstring>

#include "backends/cpu/kernels/kernels.h"
#include "backends/cpu/kernels/narrow_tiles.h"
#include "base/error.h"

namespace pycandle::cpu {

namespace portable {
void fill(Kernels& k);
}
#if defined(__x86_64__)
namespace avx2 {
void fill(Kernels& k);
}
namespace avx512 {
void fill(Kernels& k);
void use_narrow_tiles(Kernels& k, const NarrowTiles& tiles);
}  // namespace avx512
namespace avx512bf16 {
NarrowTiles narrow_tiles();
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
#endif

struct InstructionSet {
  const char* name;
  bool (*present)();
  void (*fill)(Kernels&);
};
constexpr InstructionSet kSets[] = {
// best first
#if defined(__x86_64__)
    {"avx512bf16", has_avx512bf16, fill_avx512bf16},
    {"avx512", has_avx512, avx512::fill},
    {"avx2", has_avx2, avx2::fill},
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

const char* name_of(Unary f) { return kUnaryNames[static_cast<size_t>(f)]; }
const char* name_of(Binary f) { return kBinaryNames[static_cast<size_t>(f)]; }
const char* name_of(Compare f) { return kCompareNames[static_cast<size_t>(f)]; }

}  // namespace pycandle::cpu
