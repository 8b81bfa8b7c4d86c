// Do the runners of a benchmark compute the same? The recorded program decides: the outputs of each are held against what
// rounding does to it from these inputs. Where it cannot be run so, they are held against the first runner's, within a
// guess; so is another runtime that is less exact than rounding allows (a table for GELU, say), and its row says so.
#pragma once

#include <filesystem>
#include <memory>
#include <string>

#include "runtime/model.h"
#include "verify/judging/run_judge.h"

namespace pycandle::cli {

// Of two files of outputs, complex ones by their parts: the largest difference, relative to the largest number of an output.
double difference(const std::filesystem::path& file, const std::filesystem::path& expected);

class Agreement {
 public:
  struct Verdict {
    std::string failure;  // why the outputs are not the program's; empty when they are
    std::string note;     // what a guess let pass
  };
  // With weights in fewer bytes the outputs are not the recorded program's: pycandle verify --weights judges them.
  Agreement(const Model&, const Model::Tensors& inputs, WeightFormat weights);
  enum class Whose { ours, another_runtime };
  Verdict judge(const std::string& name, Whose, const std::filesystem::path& outputs, const std::filesystem::path& first);
  const std::string& why_guessed() const { return why_guessed_; }  // empty: the floors decide
  double guess() const { return guess_; }  // of the largest difference, relative to the largest number of an output

 private:
  std::string beyond_floor(const std::string& name, const std::filesystem::path& outputs);

  std::unique_ptr<RunJudge> judge_;
  size_t outputs_ = 0;
  std::string why_guessed_;
  double guess_ = 1e-3;
};

}  // namespace pycandle::cli
