#include "cli/bench_agreement.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/safetensors.h"
#include "ops/core/catalogue.h"
#include "verify/judging/metrics.h"
#include "verify/judging/slices.h"

namespace pycandle::cli {
namespace {

double difference(const Array& a, const Array& b) {
  constexpr double kAll = INFINITY;
  if (a.shape() != b.shape() || is_complex(a.dtype()) != is_complex(b.dtype())) return kAll;
  const std::vector<double> x = as_reals(a), y = as_reals(b);
  double scale = 1e-30, most = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    if (std::isfinite(x[i]) != std::isfinite(y[i])) return kAll;
    if (!std::isfinite(x[i])) continue;
    scale = std::max(scale, std::abs(x[i]));
    most = std::max(most, std::abs(x[i] - y[i]));
  }
  return most / scale;
}

}  // namespace

double difference(const std::filesystem::path& file, const std::filesystem::path& expected) {
  const Safetensors a = Safetensors::open(expected), b = Safetensors::open(file);
  if (a.entries().size() != b.entries().size()) return INFINITY;
  double worst = 0;
  for (const auto& [name, entry] : a.entries()) {
    worst = std::max(worst, b.contains(name) ? difference(a.get(name), b.get(name)) : INFINITY);
  }
  return worst;
}

Agreement::Agreement(const Model& model, const Model::Tensors& inputs, WeightFormat weights)
    : outputs_(model.program().outputs.size()) {
  if (weights != WeightFormat::f32) {
    why_guessed_ = fmt::format("weights are rounded to {}; pycandle verify --weights {} judges that", name_of(weights),
                               name_of(weights));
    guess_ = weights == WeightFormat::int4 ? 0.5 : 0.1;
    return;
  }
  const std::vector<Node>& nodes = model.program().graph.nodes;
  if (std::any_of(nodes.begin(), nodes.end(), draws_numbers)) {
    why_guessed_ = "the model draws random numbers";
    return;
  }
  try {
    judge_ = std::make_unique<RunJudge>(model.program(), catalogue(), model.parameters(),
                                        ordered_inputs(model.program(), inputs));
  } catch (const Error& error) {
    why_guessed_ = "the recorded program does not run on the reference: " + error.message();
  }
}

// Empty when rounding explains every difference.
std::string Agreement::beyond_floor(const std::string& name, const std::filesystem::path& outputs) {
  const Safetensors file = Safetensors::open(outputs);
  for (size_t i = 0; i < outputs_; ++i) {
    const std::string key = fmt::format("{:04}", i);
    if (!file.contains(key)) return fmt::format("gives no output {}", judge_->names()[i]);
    const Judgement j = judge_->judge(i, file.get(key), name);
    if (!j.passed) return fmt::format("computes something else for {}: {}", judge_->names()[i], j.why);
  }
  return {};
}

Agreement::Verdict Agreement::judge(const std::string& name, Whose whose, const std::filesystem::path& outputs,
                                    const std::filesystem::path& first) {
  const std::string beyond = judge_ ? beyond_floor(name, outputs) : "";
  if (judge_ && (beyond.empty() || whose == Whose::ours)) return {beyond, {}};
  const double off = difference(outputs, first);
  const std::string why = judge_ ? beyond : why_guessed_;
  if (off <= guess_)
    return {
        {},
        judge_ ? fmt::format("{}. It differs from the first runner by {:.2g}; {} is let pass, a guess", why, off, guess_) : ""};
  return {fmt::format("computes something else: off by {:.2g}, {} allowed, which is a guess: {}", off, guess_, why), {}};
}

}  // namespace pycandle::cli
