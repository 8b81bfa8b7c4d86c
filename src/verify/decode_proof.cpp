#include "verify/decode_proof.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "backends/reference/reference.h"
#include "base/error.h"
#include "passes/constants.h"
#include "runtime/model.h"
#include "verify/judging/goldens.h"
#include "verify/judging/judge.h"
#include "verify/judging/trials.h"

namespace pycandle {
namespace {

constexpr int64_t kSequences = 2;

// A value with a row for each token, in the whole program and in the step.
struct Watched {
  std::string name;
  ValueId value = kNoValue;                // of the whole program
  int64_t axis = 1;                        // of the tokens; the batch is axis 0
  bool is_merged = false;                  // [batch * length, …]: split first
  Array ours;                              // [batch, …, length, …]
  // Of each sequence: at which positions the step gave it. A backend may have it inside a kernel, in steps of some sizes alone.
  std::vector<std::vector<bool>> is_given;
  Evidence whole;  // of the forward pass; `golden` stays empty
};

// [batch, …, length, …] or [batch * length, …]; other values are not compared.
std::optional<Watched> watched(const std::string& name, ValueId v, const Type& type, const DecodeStep& step) {
  const Dim batch = Dim::symbol(step.batch), length = Dim::symbol(step.tokens);
  if (type.shape.empty()) return std::nullopt;
  Watched w{name, v, 1, type.shape[0] == batch * length, {}, {}, {}};
  const auto found = std::find(type.shape.begin(), type.shape.end(), length);
  if (w.is_merged) return w;
  if (type.shape[0] != batch || found == type.shape.end() || std::count(type.shape.begin(), type.shape.end(), length) != 1)
    return std::nullopt;
  w.axis = found - type.shape.begin();
  return w;
}

Array split(const Watched& w, const Array& array) {
  if (!w.is_merged) return array;
  Sizes shape = array.shape();
  shape.front() /= kSequences;
  shape.insert(shape.begin(), kSequences);
  return array.reshaped(shape);
}

// One row of one sequence, as an array.
Array row(const Array& from, int64_t sequence, int64_t position, int64_t axis) {
  Sizes shape = from.shape();
  shape[0] = 1;
  shape[axis] = 1;
  Array one(from.dtype(), shape);
  copy_rows(from, sequence, position, one, 0, 0, 1, axis);
  return one;
}

Array rows_of(const Array& from, int64_t sequence, int64_t first, int64_t count, int64_t padded_to) {
  Sizes shape = from.shape();
  shape[0] = 1;
  shape[1] = padded_to;
  Array part(from.dtype(), shape);
  for (int64_t i = 0; i < padded_to; ++i)
    copy_rows(from, sequence, std::min(first + i, std::max<int64_t>(first + count - 1, 0)), part, 0, i, 1, 1);
  return part;
}

class Proof {
 public:
  Proof(const Program& p, const DecodeStep& step, const OpTable& table, const std::shared_ptr<const ParameterSource>& parameters,
        const NamedArrays& inputs, const DecodeProofOptions& options)
      : p_(p),
        step_(step),
        parameters_(*parameters),
        inputs_(inputs),
        decoder_(step, table, parameters, options.backend, options.pipeline) {
    const Array& tokens = inputs.at(sequence_input().name);
    const int64_t length = tokens.shape()[1];
    result_.name = p.name;
    result_.backend = options.backend;
    result_.lengths = {length, std::max<int64_t>(1, length - length / 4)};
    result_.prompts = {std::min<int64_t>(5, length), std::min<int64_t>(2, result_.lengths[1])};
    whole_ = p;
    whole_.taps.clear();
    for (size_t i = 0; i < step.step.taps.size(); ++i) {
      const Tap& tap = step.step.taps[i];
      const auto same = std::find_if(p.taps.begin(), p.taps.end(), [&](const Tap& t) { return t.id == tap.id; });
      if (same == p.taps.end() || same->inside || tap.inside) continue;
      auto w = watched(tap.id.text(), same->value, p.graph.type(same->value), step);
      if (w) add(std::move(*w), i);
    }
    for (const Output& output : step.step.outputs) {
      const auto same = std::find_if(p.outputs.begin(), p.outputs.end(), [&](const Output& o) { return o.name == output.name; });
      auto w = watched("output:" + output.name, same->value, p.graph.type(same->value), step);
      if (w) add(std::move(*w), std::nullopt);
    }
    for (size_t i = 0; i < watched_.size(); ++i) order_.push_back(i);
    std::stable_sort(order_.begin(), order_.end(), [&](size_t a, size_t b) { return place(watched_[a]) < place(watched_[b]); });
    decomposed_ = decompose_to_primitives(whole_, table);
    run_whole(first_modes());
  }

  DecodeProof run(const std::vector<int64_t>& chunks) {
    for (const int64_t chunk : chunks) {
      for (Watched& w : watched_) {
        w.ours = Array(w.whole.rounded.dtype(), w.whole.rounded.shape());
        w.is_given.assign(kSequences, std::vector<bool>(static_cast<size_t>(result_.lengths[0]), false));
      }
      decode(chunk);
      result_.schedules.push_back(judged(chunk));
    }
    return result_;
  }

 private:
  const Input& sequence_input() const { return step_.step.inputs.front(); }
  NodeId place(const Watched& w) const { return p_.graph.values[w.value].node; }

  void add(Watched w, std::optional<size_t> tap) {
    if (tap) watched_of_tap_[*tap].push_back(watched_.size());
    // Under a name of its own: a value may be watched twice.
    whole_.taps.push_back({TapId(TapId::Kind::node, std::to_string(watched_.size())), w.value, w.name, false});
    watched_.push_back(std::move(w));
  }

  // ---- the forward pass

  void run_whole(const std::vector<ReferenceMode>& modes) {
    RunRequest request;
    request.inputs = ordered_inputs(p_, inputs_);
    run_reference_modes(decomposed_, parameters_, modes, request, [&](size_t tap, const std::vector<Array>& values) {
      Watched& w = watched_[tap];
      for (size_t m = 0; m < modes.size(); ++m) add_mode(modes[m], split(w, values[m]), w.whole);
    });
  }

  // ---- step by step

  void decode(int64_t chunk) {
    NamedArrays of_setup;
    for (const Input& input : step_.setup.inputs) of_setup.emplace(input.name, inputs_.at(input.name));
    const int64_t room = result_.lengths[0] + chunk + 1;
    Cache cache = decoder_.new_cache(kSequences, std::min(room, step_.longest.value_or(room)), of_setup);
    cache.spoil_unused();
    take(cache, result_.prompts, *std::max_element(result_.prompts.begin(), result_.prompts.end()));
    while (cache.lengths() != result_.lengths) {
      const int64_t longest = *std::max_element(cache.lengths().begin(), cache.lengths().end());
      const int64_t count = std::min(chunk, cache.capacity() - longest);
      std::vector<int64_t> counts;
      for (int64_t b = 0; b < kSequences; ++b) counts.push_back(std::min(count, result_.lengths[b] - cache.lengths()[b]));
      take(cache, counts, count);
    }
  }

  // So many more tokens of each sequence, in one step.
  void take(Cache& cache, const std::vector<int64_t>& counts, int64_t size) {
    const std::vector<int64_t> before = cache.lengths();
    NamedArrays tokens;
    for (const Input& input : step_.step.inputs) {
      if (input.name == kLengths || input.name == kDropped) continue;
      const Array& all = inputs_.at(input.name);
      Sizes shape = all.shape();
      shape[1] = size;
      const bool has_batch = step_.step.graph.type(input.value).shape[0] == Dim::symbol(step_.batch);
      if (!has_batch) throw Error(ErrorCode::gap, "an input has a token axis and no batch axis").found(input.name);
      Array part(all.dtype(), shape);
      for (int64_t b = 0; b < kSequences; ++b) copy_rows(rows_of(all, b, before[b], counts[b], size), 0, 0, part, b, 0, size, 1);
      tokens.emplace(input.name, std::move(part));
    }
    const auto keep = [&](Watched& w, const Array& value) {
      const Array rows = split(w, value);
      for (int64_t b = 0; b < kSequences; ++b) {
        copy_rows(rows, b, 0, w.ours, b, before[b], counts[b], w.axis);
        std::fill_n(w.is_given[b].begin() + before[b], counts[b], true);
      }
    };
    const NamedArrays outputs = decoder_.step(cache, tokens, counts, [&](size_t tap, const Array& value) {
      const auto found = watched_of_tap_.find(tap);
      if (found == watched_of_tap_.end()) return;
      for (const size_t i : found->second) keep(watched_[i], value);
    });
    for (Watched& w : watched_) {
      if (w.name.starts_with("output:")) keep(w, outputs.at(w.name.substr(7)));
    }
  }

  // ---- verdicts

  DecodeSchedule judged(int64_t chunk) {
    DecodeSchedule s{chunk, 0, 0, 0, {}, {}};
    for (const Watched& w : watched_) s.values += std::count(w.is_given[0].begin(), w.is_given[0].end(), true) > 0 ? 1 : 0;
    for (int64_t position = 0; position < result_.lengths[0] && !s.wrong; ++position) {
      for (int64_t b = 0; b < kSequences && !s.wrong; ++b) {
        if (position >= result_.lengths[b]) continue;
        for (const size_t i : order_) {
          const Watched& w = watched_[i];
          if (!w.is_given[b][position]) continue;
          const Judgement j = judge(w, b, position, w.ours, position);
          ++s.judged;
          if (!j.passed) {
            s.wrong = described(w, b, position, j);
            break;
          }
          const double floors = j.floor_rms > 0 ? j.error_rms / j.floor_rms : 0;
          if (floors > s.worst) {
            s.worst = floors;
            s.worst_value = w.name;
          }
        }
      }
    }
    return s;
  }

  // Row `at` of ours, held against row `position` of the forward pass.
  Judgement judge(const Watched& w, int64_t sequence, int64_t position, const Array& ours, int64_t at) {
    const Array mine = row(ours, sequence, at, w.axis);
    const auto of_whole = [&](const Array& a) { return row(a, sequence, position, w.axis); };
    if (!is_inexact(mine.dtype())) return judge_exactly(of_whole(w.whole.rounded), mine, "the forward pass");
    const auto evidence = [&] {
      Evidence e;
      e.golden = mine;
      e.whose = "the step";
      e.rounded = of_whole(w.whole.rounded);
      e.f64 = of_whole(w.whole.f64);
      for (const Array& a : w.whole.jittered) e.jittered.push_back(of_whole(a));
      for (const Array& a : w.whole.as_kernels) e.as_kernels.push_back(of_whole(a));
      return e;
    };
    const Judgement first = judge_program(evidence());
    if (first.passed || has_all_runs_ || first.error_rms > kNearMiss * first.floor_rms) return first;
    run_whole(more_modes());
    has_all_runs_ = true;
    return judge_program(evidence());
  }

  WrongToken described(const Watched& w, int64_t sequence, int64_t position, const Judgement& j) {
    WrongToken wrong{sequence, position, w.name, {}, {}, {}, {}, j.why, {}};
    if (const Node* node = defining_node(p_.graph, w.value)) {
      wrong.op = node->op->name;
      wrong.path = p_.module_path(node->origin);
      wrong.place = p_.file_line(node->origin);
      wrong.source = p_.source_line(node->origin);
    }
    for (const int64_t other : {position - 1, position + 1}) {
      if (other < 0 || other >= result_.lengths[sequence] || !judge(w, sequence, other, w.ours, position).passed) continue;
      wrong.cause = fmt::format("it is the value of position {}: positions are off by one", other);
    }
    return wrong;
  }

  const Program& p_;
  const DecodeStep& step_;
  const ParameterSource& parameters_;
  const NamedArrays& inputs_;
  Decoder decoder_;
  Program whole_, decomposed_;
  std::vector<Watched> watched_;
  std::vector<size_t> order_;  // of watched_: as the program computes them
  std::map<size_t, std::vector<size_t>> watched_of_tap_;  // taps of the step
  bool has_all_runs_ = false;
  DecodeProof result_;
};

}  // namespace

bool DecodeProof::passed() const {
  return std::none_of(schedules.begin(), schedules.end(), [](const DecodeSchedule& s) { return s.wrong.has_value(); });
}

DecodeProof prove_decoding(const Program& p, const DecodeStep& step, const OpTable& table,
                           const std::shared_ptr<const ParameterSource>& parameters, const NamedArrays& inputs,
                           const DecodeProofOptions& options) {
  return Proof(p, step, table, parameters, inputs, options).run(options.chunks);
}

int64_t proof_length(const DecodeStep& step, const DecodeProofOptions& options) {
  return std::min(options.length, step.longest.value_or(options.length));
}

NamedArrays decode_inputs(const Program& p, const DecodeStep& step, const NamedArrays& recorded, int64_t length) {
  NamedArrays inputs = random_inputs(p, 7, {{step.batch, kSequences}, {step.tokens, length}});
  for (const Input& input : p.inputs) {
    const Shape& shape = p.graph.type(input.value).shape;
    const bool is_tokens = shape.size() >= 2 && shape[1] == Dim::symbol(step.tokens);
    const bool is_free = is_floating(p.graph.type(input.value).dtype) || (input.range && input.range->second > 1);
    const auto found = recorded.find(input.name);
    Array& made = inputs.at(input.name);
    if (!is_tokens && found != recorded.end() && found->second.shape() == made.shape()) made = found->second;
    if (is_free || !is_tokens) continue;
    // A mask: as recorded, over and over; without a recording everything counts.
    if (found == recorded.end()) {
      made = store(made.dtype(), made.shape(), std::vector<int64_t>(made.size(), 1));
      continue;
    }
    for (int64_t b = 0; b < made.shape()[0]; ++b) {
      for (int64_t i = 0; i < length; ++i)
        copy_rows(found->second, b % found->second.shape()[0], i % found->second.shape()[1], made, b, i, 1, 1);
    }
  }
  return inputs;
}

NamedArrays decode_inputs(const Recording& recording, const DecodeStep& step, const DecodeProofOptions& options) {
  const Program& p = recording.program;
  NamedArrays recorded;
  if (!recording.trace_file.empty() && std::filesystem::exists(recording.traces().front())) {
    const Goldens goldens(p, recording.traces().front());
    for (size_t i = 0; i < p.inputs.size(); ++i) recorded.emplace(p.inputs[i].name, goldens.inputs()[i]);
  }
  return decode_inputs(p, step, recorded, proof_length(step, options));
}

}  // namespace pycandle
