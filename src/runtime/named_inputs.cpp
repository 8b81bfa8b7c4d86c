#include "runtime/named_inputs.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/error.h"

namespace pycandle {

std::vector<Array> in_order(const std::vector<WantedInput>& wanted, const std::map<std::string, Array>& given) {
  std::vector<std::string> expected, found, missing;
  std::vector<Array> ordered;
  for (const WantedInput& input : wanted) {
    expected.push_back(fmt::format("{}: {}", input.name, input.type));
    const auto array = given.find(input.name);
    if (array == given.end()) {
      missing.push_back(input.name);
    } else {
      ordered.push_back(array->second);
    }
  }
  for (const auto& [name, array] : given) found.push_back(name);
  if (missing.empty() && given.size() == wanted.size()) return ordered;
  const std::string problem = missing.empty()       ? "there are inputs that the program does not have"
                              : missing.size() == 1 ? fmt::format("the input {} is missing", missing[0])
                                                    : fmt::format("the inputs {} are missing", fmt::join(missing, ", "));
  throw Error(ErrorCode::bad_input, problem)
      .expected(expected.empty() ? "no input" : fmt::format("{}", fmt::join(expected, ", ")))
      .found(found.empty() ? "no input" : fmt::format("{}", fmt::join(found, ", ")));
}

}  // namespace pycandle
