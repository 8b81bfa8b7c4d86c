// The program `pycandle`, except that every list of modules it recovers reads the weights of its first element: the linker
// puts `broken_recover` in the place of emit::recover (--wrap). tests/python/test_proof.py holds codegen to writing nothing.
#include "emit/tree.h"

namespace pycandle::emit {

ModelTree real_recover(Program, const OpTable&, Layers) asm("__real_" PYCANDLE_RECOVER);
ModelTree broken_recover(Program, const OpTable&, Layers) asm("__wrap_" PYCANDLE_RECOVER);

ModelTree broken_recover(Program program, const OpTable& ops, Layers layers) {
  ModelTree tree = real_recover(std::move(program), ops, layers);
  for (ModuleClass& c : tree.classes) {
    for (Child& child : c.children) child.step = 0;
  }
  return tree;
}

}  // namespace pycandle::emit
