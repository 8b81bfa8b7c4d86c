#include "verify/diagnosing/isolate.h"

#include <algorithm>
#include <utility>

namespace pycandle {
namespace {

class Isolation {
 public:
  Isolation(const Slice& slice, const std::vector<Array>& inputs, const Backend& backend, const PipelineOptions& pipeline,
            const Trials& trials)
      : p_(slice.program), backend_(backend), pipeline_(pipeline), trials_(trials), values_(p_.graph.values.size()) {
    Program all = p_;  // every value an output
    all.outputs.clear();
    for (const Node& node : p_.graph.nodes) {
      for (ValueId v : node.results) all.outputs.push_back({std::to_string(v), v});
    }
    all.bind_outputs();
    std::vector<Array> found = reference_backend().compile(all, trials.table(), trials.parameters())->run(trials.request(inputs));
    for (size_t i = 0; i < found.size(); ++i) values_[all.outputs[i].value] = std::move(found[i]);
    for (size_t i = 0; i < inputs.size(); ++i) values_[p_.inputs[i].value] = inputs[i];
  }

  // Nodes first … last by the backend, from the reference's values; judged at every result of the last.
  std::optional<Isolated> wrong_between(size_t first, size_t last) const {
    PerValue<bool> known(p_.graph.values.size());
    for (size_t n = 0; n < p_.graph.nodes.size(); ++n) {
      if (n >= first && n <= last) continue;
      for (ValueId v : p_.graph.nodes[n].results) known[v] = true;
    }
    for (const Input& i : p_.inputs) known[i.value] = true;
    for (ValueId v : p_.graph.nodes[last].results) {
      Isolated found;
      found.part = Slicer(p_, known).slice(v);
      for (const Node& node : found.part.program.graph.nodes) found.nodes.push_back(node.origin.sliced_from);
      for (ValueId input : found.part.inputs) found.inputs.push_back(values_[input]);
      Evidence e;
      e.golden = found.expected = values_[v];
      e.ours = found.got = backend_.compile(found.part.program, trials_.table(), trials_.parameters(), pipeline_)
                               ->run(trials_.request(found.inputs))
                               .at(0);
      if (e.ours.same_bytes(e.golden)) continue;
      if (is_inexact(e.golden.dtype())) {
        trials_.judge(found.part.program, found.inputs, e);
        found.judgement = judge_backend(e);
      } else {
        found.judgement = judge_exactly(e.golden, e.ours);
      }
      if (!found.judgement.passed) return found;
    }
    return std::nullopt;
  }

  std::optional<Isolated> run() const {
    const size_t count = p_.graph.nodes.size();
    for (size_t n = 0; n < count; ++n) {
      if (auto found = wrong_between(n, n)) return found;
    }
    // Right one by one: kernels that take several. The shortest beginning that is wrong, then without its front.
    for (size_t last = 1; last < count; ++last) {
      std::optional<Isolated> found = wrong_between(0, last);
      if (!found) continue;
      for (size_t first = 1; first < last; ++first) {
        std::optional<Isolated> shorter = wrong_between(first, last);
        if (!shorter) break;
        found = std::move(shorter);
      }
      return found;
    }
    return std::nullopt;
  }

 private:
  const Program& p_;
  const Backend& backend_;
  const PipelineOptions& pipeline_;
  const Trials& trials_;
  PerValue<Array> values_;  // of the slice, by the reference
};

}  // namespace

std::optional<Isolated> isolate(const Slice& slice, const std::vector<Array>& inputs, const Backend& backend,
                                const PipelineOptions& pipeline, const Trials& trials) {
  return Isolation(slice, inputs, backend, pipeline, trials).run();
}

}  // namespace pycandle
