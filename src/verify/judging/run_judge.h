// The results of one run of a whole program, judged by what rounding does to the program from these inputs to each of them.
// No golden is needed: the reference without rounding is the truth.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "backends/reference/reference.h"
#include "verify/judging/judge.h"

namespace pycandle {

class RunJudge {
 public:
  // states: before the run, in the order of Program::states; none: as recorded.
  RunJudge(const Program&, const OpTable&, std::shared_ptr<const ParameterSource>, std::vector<Array> inputs,
           std::vector<Array> states = {});

  const std::vector<std::string>& names() const { return names_; }  // outputs, then "updated:NAME" of states that change
  // `whose` value it is, for the text. Another dtype of the same kind is taken as what it says.
  Judgement judge(size_t result, const Array& ours, const std::string& whose);
  const Array& expected(size_t result) const { return evidence_[result].rounded; }

 private:
  void run(const std::vector<ReferenceMode>&);

  std::shared_ptr<const ParameterSource> parameters_;
  Program decomposed_;
  std::vector<Array> states_;
  RunRequest request_;
  std::vector<std::string> names_;
  std::vector<Evidence> evidence_;
  bool has_all_runs_ = false;
};

}  // namespace pycandle
