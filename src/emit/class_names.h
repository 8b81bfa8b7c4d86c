// Names of classes: Python's, and for structural variants of one Python class what sets each apart.
#pragma once

#include <vector>

#include "emit/tree.h"

namespace pycandle::emit {

void name_classes(const Program&, std::vector<ModuleClass>&);
// A member that has the name of a class would hide it: MelSpectrogram MelSpectrogram.
void rename_hiding_members(std::vector<ModuleClass>&);

}  // namespace pycandle::emit
