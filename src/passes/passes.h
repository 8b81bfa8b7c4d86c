// The passes, one file each; pipeline.cpp puts them in order. Every one takes the program over and gives it back changed.
#pragma once

#include "passes/pipeline.h"

namespace pycandle {

Program canonicalise(Program, const OpTable&);
Program fold_scalars(Program, const OpTable&);
Program fold_shapes(Program, const OpTable&);
Program recognise(Program, const OpTable&);
Program attention_scores(Program, const OpTable&);
Program recognise_masks(Program, const OpTable&);
Program recognise_heads(Program, const OpTable&);
Program recognise_linear(Program, const OpTable&);
Program recognise_split(Program, const OpTable&);
Program usual_scale(Program, const OpTable&);
Program remove_unused(Program, const OpTable&);
Program join_linears(Program, const OpTable&);
Program push_slices(Program, const OpTable&);
Program widen_halves(Program, const OpTable&);
Program decompose(Program, const OpTable&, const Claims& claims);
// as_in_kernels: the activations of the narrowed layers too, as a kernel may round them on the way.
enum class Activations { exact, as_in_kernels };
Program narrow_weights(Program, const OpTable&, WeightFormat, Activations = Activations::exact);

}  // namespace pycandle
