// Is a backend right? Every op of the catalogue, small models, states and control flow, beside PyTorch's values that ship with
// PyCandle. `pycandle test-backend ./libmine.so` runs them; in a GoogleTest program one line does:
//
//   PYCANDLE_BACKEND_TESTS(my_backend())     // const pycandle::Backend& my_backend();
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "backends/backend.h"

namespace pycandle {

struct BackendTestResult {
  enum class Outcome {
    passed,
    wrong,    // another value, dtype or shape
    failed,   // it threw
    refused   // it said in compile that it lacks something (ErrorCode::gap)
  } outcome = Outcome::passed;
  std::string op, name;               // gelu, "F.gelu(t(3, 4)) f16"
  std::string why;                    // when it did not pass: what is wrong, and where
  size_t claimed = 0, decomposed = 0, primitives = 0;  // nodes of the program: how the backend takes them
  double seconds = 0, reference_seconds = 0;           // of one run, the quicker of two

  bool is_fine() const { return outcome == Outcome::passed || outcome == Outcome::refused; }
};
const char* to_string(BackendTestResult::Outcome);

// The tests of a pack, in its order.
class BackendTests {
 public:
  // A folder with cases.jsonl and tensors.bin. bad_input when they are damaged.
  explicit BackendTests(const std::filesystem::path& folder);
  ~BackendTests();
  BackendTests(const BackendTests&) = delete;
  BackendTests& operator=(const BackendTests&) = delete;

  size_t size() const;
  const std::string& op(size_t test) const;
  const std::string& name(size_t test) const;
  std::vector<std::string> ops() const;  // each once
  BackendTestResult run(size_t test, const Backend&) const;
  // Those of one op that are not fine, as text; empty when there are none. For test programs.
  std::string problems(const std::string& op, const Backend&) const;

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

}  // namespace pycandle

#ifdef PYCANDLE_BACKEND_TESTS_FOLDER
// NOLINTNEXTLINE(cppcoreguidelines-macro-usage): GoogleTest's own macros need the author's file
#define PYCANDLE_BACKEND_TESTS(backend)                                                               \
  static const ::pycandle::BackendTests& pycandle_backend_tests() {                                   \
    static const ::pycandle::BackendTests tests(PYCANDLE_BACKEND_TESTS_FOLDER);                       \
    return tests;                                                                                     \
  }                                                                                                   \
  class PycandleBackend : public ::testing::TestWithParam<std::string> {};                            \
  TEST_P(PycandleBackend, agrees_with_pytorch) {                                                      \
    const std::string problems = pycandle_backend_tests().problems(GetParam(), backend);              \
    EXPECT_TRUE(problems.empty()) << problems;                                                        \
  }                                                                                                   \
  INSTANTIATE_TEST_SUITE_P(Ops, PycandleBackend, ::testing::ValuesIn(pycandle_backend_tests().ops()), \
                           [](const ::testing::TestParamInfo<std::string>& info) { return info.param; })
#endif
