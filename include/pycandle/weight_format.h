// How the cpu backend keeps the weights of linear layers and embeddings. docs/narrow-weights.md says what each costs.
#pragma once

#include <cstdint>

namespace pycandle {

// int8: a scale for each output. int4: a scale for each 32 inputs of an output.
enum class WeightFormat : uint8_t { f32, bf16, f16, int8, int4 };

}  // namespace pycandle
