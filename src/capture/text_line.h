// Code that is read and run here instead of being compiled (emit/proof): which of its lines runs now. Nodes stand there.
#pragma once

#include <cstddef>

namespace pycandle::front {

const size_t*& line_of_text();  // on this thread; null: code that was compiled, whose calls say where they are

}  // namespace pycandle::front
