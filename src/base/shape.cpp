// Shapes: lists of dims.
#include <algorithm>

#include "base/dim.h"

namespace pycandle {

std::string to_string(const Shape& shape) {
  std::string out = "[";
  for (size_t i = 0; i < shape.size(); ++i) out += (i == 0 ? "" : ", ") + shape[i].text();
  return out + "]";
}

Dim product(const Shape& shape) {
  Dim out(1);
  for (const Dim d : shape) out = out * d;
  return out;
}

std::vector<int64_t> evaluate(const Shape& shape, const Bindings& bindings) {
  std::vector<int64_t> out;
  out.reserve(shape.size());
  for (const Dim d : shape) out.push_back(d.evaluate(bindings));
  return out;
}

bool all_numbers(const Shape& shape) {
  return std::all_of(shape.begin(), shape.end(), [](Dim d) { return d.is_number(); });
}

}  // namespace pycandle
