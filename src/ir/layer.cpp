#include "ir/layer.h"

#include <algorithm>

namespace pycandle {

Attribute one_number(const Attribute& integers) {
  const Ints& list = std::get<Ints>(integers);
  const bool alike = !list.empty() && std::all_of(list.begin(), list.end(), [&](int64_t n) { return n == list[0]; });
  return alike ? Attribute(list[0]) : integers;
}

Attribute one_number_of_dims(const Attribute& dims) {
  Ints numbers;
  for (const Dim d : std::get<Dims>(dims)) {
    if (!d.is_number()) return {};
    numbers.push_back(d.number());
  }
  return one_number(Attribute(numbers));
}

}  // namespace pycandle
