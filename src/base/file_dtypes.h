// Dtypes that ONNX files store and PyTorch's programs do not compute in: numbers behind those of DType. They have names, sizes
// and values as the others have; kernels do not know them, evaluators do. An element of fewer than 8 bits takes a byte.
#pragma once

#include "base/dtype.h"

namespace pycandle {

namespace file_dtype {
inline constexpr DType u16{12}, u32{13}, u64{14}, f8e4m3{15}, f8e4m3fnuz{16}, f8e5m2{17}, f8e5m2fnuz{18}, f8e8m0{19}, f4e2m1{20},
    i4{21}, u4{22}, i2{23}, u2{24};
}  // namespace file_dtype

inline constexpr int kAllDTypeCount = 25;
inline bool is_stored_only(DType d) { return static_cast<int>(d) >= kDTypeCount; }

}  // namespace pycandle
