#include "backends/cpu/kernels/isa/isa.h"

namespace pycandle::cpu::PYCANDLE_ISA {

// All of the table.
void fill(Kernels& k) {
#define TEXT_OF(x) #x
#define TEXT(x) TEXT_OF(x)
  k.isa = TEXT(PYCANDLE_ISA);
  k.lanes = kLanes;
  fill_elementwise(k);
  fill_epilogue(k);
  fill_gemm(k);
  fill_narrow(k);
  fill_rows(k);
  fill_attention(k);
  fill_cached_attention(k);
  fill_moving(k);
  fill_windows(k);
  fill_blocked_convolution(k);
  fill_blocked_windows(k);
  fill_winograd(k);
  fill_recurrent(k);
  fill_fourier(k);
  fill_machine(k);
}

}  // namespace pycandle::cpu::PYCANDLE_ISA
