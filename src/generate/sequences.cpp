#include "generate/sequences.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "base/error.h"

namespace pycandle {
namespace {

bool is_mask(const Input& input) { return input.range && input.range->first >= 0 && input.range->second == 1; }

std::vector<std::string> token_names(const Program& p) {
  std::vector<std::string> names, masks;
  for (const Input& input : p.inputs) {
    const Type& type = p.graph.type(input.value);
    if (input.name == kLengths || input.name == kDropped || type.rank() != 2 || !is_integral(type.dtype)) continue;
    (is_mask(input) ? masks : names).push_back(input.name);
  }
  return names.empty() ? masks : names;  // a recorded prompt may hold the tokens 0 and 1 alone
}

int64_t longest_of(const std::vector<Tokens>& rows) {
  size_t most = 0;
  for (const Tokens& row : rows) most = std::max(most, row.size());
  return static_cast<int64_t>(most);
}

// [rows, longest], with zeros behind shorter rows.
Array padded(const std::vector<Tokens>& rows) {
  const int64_t width = longest_of(rows);
  Array array(DType::i64, {static_cast<int64_t>(rows.size()), width});
  for (size_t b = 0; b < rows.size(); ++b)
    std::copy(rows[b].begin(), rows[b].end(), array.mutable_as<int64_t>() + static_cast<int64_t>(b) * width);
  return array;
}

Array as_f32(const Array& logits) { return logits.dtype() == DType::f32 ? logits : cast(logits, DType::f32); }

class CachedSequences final : public Sequences {
 public:
  CachedSequences(const Decoder& decoder, const TokenRoles& roles, Cache cache)
      : decoder_(decoder), roles_(roles), cache_(std::move(cache)) {}

  int64_t count() const override { return now().batch(); }
  int64_t length(int64_t sequence) const override { return now().lengths()[static_cast<size_t>(sequence)]; }
  int64_t room(int64_t sequence) const override { return now().capacity() - length(sequence); }

  const Array& extend(const std::vector<Tokens>& added, Wanted wanted) override {
    const bool is_single = std::all_of(added.begin(), added.end(), [](const Tokens& row) { return row.size() == 1; });
    if (is_single) return step(added);
    take_back();
    std::vector<int64_t> counts;
    for (const Tokens& row : added) counts.push_back(static_cast<int64_t>(row.size()));
    const Decoder::Tensors tokens{{roles_.tokens, padded(added)}};
    auto outputs = wanted == Wanted::last ? decoder_.step_last(cache_, tokens, counts) : decoder_.step(cache_, tokens, counts);
    return logits_ = as_f32(outputs.at(roles_.logits));
  }

  void select(const std::vector<int64_t>& sequences) override {
    take_back();
    cache_ = cache_.fork(sequences);
  }
  void truncate(int64_t sequence, int64_t length) override {
    take_back();
    cache_.truncate(sequence, length);
  }
  const Cache* cache() override {
    take_back();
    return &cache_;
  }

 private:
  const Cache& now() const { return stepper_ ? stepper_->cache() : cache_; }
  void take_back() {
    if (!stepper_) return;
    cache_ = std::move(*stepper_).taken();
    stepper_.reset();
  }
  const Array& step(const std::vector<Tokens>& added) {
    if (!stepper_) stepper_.emplace(decoder_, std::move(cache_), 1);
    for (size_t b = 0; b < added.size(); ++b) stepper_->tokens()[b] = added[b][0];
    const Array& logits = stepper_->step()[roles_.logits_index];
    return logits.dtype() == DType::f32 ? logits : logits_ = as_f32(logits);
  }

  const Decoder& decoder_;
  const TokenRoles& roles_;
  Cache cache_;                     // while there is no stepper
  std::optional<Stepper> stepper_;  // while all go on by one token
  Array logits_;
};

class WholeSequences final : public Sequences {
 public:
  WholeSequences(const Model& model, const TokenRoles& roles, int64_t count, std::optional<int64_t> longest,
                 Decoder::Tensors inputs)
      : model_(model), roles_(roles), rows_(static_cast<size_t>(count)), longest_(longest), inputs_(std::move(inputs)) {}

  int64_t count() const override { return static_cast<int64_t>(rows_.size()); }
  int64_t length(int64_t sequence) const override { return static_cast<int64_t>(rows_[static_cast<size_t>(sequence)].size()); }
  int64_t room(int64_t sequence) const override {
    return longest_ ? *longest_ - length(sequence) : std::numeric_limits<int64_t>::max();
  }

  const Array& extend(const std::vector<Tokens>& added, Wanted wanted) override {
    for (size_t b = 0; b < rows_.size(); ++b) rows_[b].insert(rows_[b].end(), added[b].begin(), added[b].end());
    Decoder::Tensors inputs = inputs_;
    const int64_t width = longest_of(rows_);
    inputs[roles_.tokens] = padded(rows_);
    for (const Input& input : model_.program().inputs) {
      const Type& type = model_.program().graph.type(input.value);
      if (inputs.count(input.name) == 0 && is_mask(input) && type.rank() == 2)
        inputs[input.name] = store(type.dtype, {count(), width}, std::vector<int64_t>(static_cast<size_t>(count() * width), 1));
    }
    const Array all = as_f32(model_.forward(inputs).at(roles_.logits));
    const int64_t given = wanted == Wanted::last ? 1 : longest_of(added), wide = roles_.vocabulary;
    logits_ = Array(DType::f32, {count(), given, wide});
    for (int64_t b = 0; b < count(); ++b) {
      const auto fresh = static_cast<int64_t>(added[static_cast<size_t>(b)].size());
      const int64_t from = wanted == Wanted::last ? length(b) - 1 : length(b) - fresh, rows = wanted == Wanted::last ? 1 : fresh;
      std::copy_n(all.as<float>() + (b * width + from) * wide, rows * wide, logits_.mutable_as<float>() + b * given * wide);
    }
    return logits_;
  }

  void select(const std::vector<int64_t>& sequences) override {
    std::vector<Tokens> chosen;
    for (const int64_t s : sequences) chosen.push_back(rows_[static_cast<size_t>(s)]);
    for (auto& [name, array] : inputs_) {
      Sizes shape = array.shape();
      const size_t bytes = array.bytes() / static_cast<size_t>(shape[0]);
      shape[0] = static_cast<int64_t>(sequences.size());
      Array rows(array.dtype(), shape);
      for (size_t i = 0; i < sequences.size(); ++i)
        std::copy_n(array.as<char>() + static_cast<size_t>(sequences[i]) * bytes, bytes, rows.mutable_as<char>() + i * bytes);
      array = std::move(rows);
    }
    rows_ = std::move(chosen);
  }
  void truncate(int64_t sequence, int64_t length) override {
    rows_[static_cast<size_t>(sequence)].resize(static_cast<size_t>(length));
  }

 private:
  const Model& model_;
  const TokenRoles& roles_;
  std::vector<Tokens> rows_;
  std::optional<int64_t> longest_;
  Decoder::Tensors inputs_;  // of an encoder
  Array logits_;
};

}  // namespace

TokenRoles TokenRoles::of(const DecodeStep& step) {
  TokenRoles roles;
  const std::vector<std::string> tokens = token_names(step.step);
  if (tokens.empty())
    throw Error(ErrorCode::gap, "the model reads no tokens")
        .expected("an input of integers [batch, tokens]")
        .found(step.step.name);
  roles.tokens = tokens.front();
  roles.has_encoder = !step.setup.inputs.empty();
  const std::vector<std::string> encoder = token_names(step.setup);
  if (!encoder.empty()) roles.encoder_tokens = encoder.front();
  for (const Input& input : step.setup.inputs) {
    const bool is_known = roles.encoder_tokens == input.name ||
                          (is_mask(input) && step.setup.graph.type(input.value).rank() == 2);
    if (!is_known) roles.others.push_back(input.name);
  }
  for (size_t i = 0; i < step.step.outputs.size() && roles.logits.empty(); ++i) {
    const Type& type = step.step.graph.type(step.step.outputs[i].value);
    if (!is_floating(type.dtype) || type.rank() != 3 || type.shape[1] != Dim::symbol(step.tokens) || !type.shape[2].is_number())
      continue;
    roles.logits = step.step.outputs[i].name;
    roles.logits_index = i;
    roles.vocabulary = type.shape[2].number();
  }
  if (roles.logits.empty())
    throw Error(ErrorCode::gap, "the model gives no logits")
        .expected("an output [batch, tokens, vocabulary]")
        .found(step.step.name);
  return roles;
}

Model::Tensors token_inputs(const Program& p, const Array& tokens) {
  const std::vector<std::string> names = token_names(p);
  if (tokens.rank() != 2 || !is_integral(tokens.dtype()) || names.empty())
    throw Error(ErrorCode::usage, "the model cannot run these tokens")
        .expected(names.empty() ? "a model with an input of integers [batch, tokens]" : "integers [batch, tokens]")
        .found(fmt::format("{}{}", name_of(tokens.dtype()), to_string(tokens.shape())));
  Model::Tensors inputs;
  for (const Input& input : p.inputs) {
    const Type& type = p.graph.type(input.value);
    if (input.name == names.front()) {
      inputs[input.name] = cast(tokens, type.dtype);
    } else if (type.rank() == 2 && is_integral(type.dtype) && input.range && input.range->first >= 0 &&
               input.range->second <= 1) {
      const int64_t fill = input.range->second;
      inputs[input.name] = store(type.dtype, tokens.shape(), std::vector<int64_t>(static_cast<size_t>(tokens.size()), fill));
    }
  }
  return inputs;
}

std::unique_ptr<Sequences> cached_sequences(const Decoder& decoder, const TokenRoles& roles, Cache cache) {
  return std::make_unique<CachedSequences>(decoder, roles, std::move(cache));
}

std::unique_ptr<Sequences> whole_sequences(const Model& model, const TokenRoles& roles, int64_t count,
                                           std::optional<int64_t> longest, const Decoder::Tensors& inputs) {
  return std::make_unique<WholeSequences>(model, roles, count, longest, inputs);
}

}  // namespace pycandle
