#include "backends/cpu/kernels/cache_kernels.h"

#include <cstring>

namespace pycandle::cpu {

namespace portable {
void fill_cache(CacheKernels& k);
}
#if defined(__x86_64__)
namespace avx2 {
void fill_cache(CacheKernels& k);
}
namespace avx512 {
void fill_cache(CacheKernels& k);
}
#endif

const CacheKernels& cache_kernels(const Kernels& others) {
  const auto filled = [](void (*fill)(CacheKernels&)) {
    CacheKernels k;
    fill(k);
    return k;
  };
#if defined(__x86_64__)
  static const CacheKernels of_avx512 = filled(avx512::fill_cache), of_avx2 = filled(avx2::fill_cache);
  if (std::strncmp(others.isa, "avx512", 6) == 0) return of_avx512;
  if (std::strcmp(others.isa, "avx2") == 0) return of_avx2;
#endif
  static const CacheKernels plain = filled(portable::fill_cache);
  return plain;
}

}  // namespace pycandle::cpu
