#include "runtime/decoder.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/error.h"
#include "base/safetensors.h"
#include "ir/builder.h"
#include "runtime/backends.h"
#include "runtime/eager.h"
#include "runtime/states.h"

namespace pycandle {
namespace {

constexpr const char *kFormat = "pycandle.cache", *kSavedLengths = "lengths", *kSavedCapacity = "capacity",
                     *kSavedDropped = "dropped";

// Sizes that only the states have.
void bind_states(const Program& step, const std::vector<Array>& states, Bindings& bound) {
  for (size_t i = 0; i < states.size(); ++i) {
    const Shape& shape = step.graph.type(step.states[i].value).shape;
    for (size_t axis = 0; axis < shape.size(); ++axis) {
      if (!shape[axis].is_number() && shape[axis] == Dim::symbol(shape[axis].text()))
        bound.emplace(shape[axis].text(), states[i].shape()[axis]);
    }
  }
}

Array of_integers(const std::vector<int64_t>& values) { return store(DType::i64, {static_cast<int64_t>(values.size())}, values); }

int64_t new_tokens(const Decoder::Tensors& tokens) {
  int64_t added = 0;
  for (const auto& [name, array] : tokens) {
    if (array.rank() >= 2) added = std::max(added, array.shape()[1]);
  }
  return added;
}

// Where an output has a place for each new token: behind the batch, or it has none.
std::optional<int64_t> token_axis(const DecodeStep& step, const Output& output) {
  const Shape& shape = step.step.graph.type(output.value).shape;
  for (size_t axis = 1; axis < shape.size(); ++axis) {
    if (shape[axis] == Dim::symbol(step.tokens)) return static_cast<int64_t>(axis);
  }
  return std::nullopt;
}

// The step with the last new token's place of each output.
Program with_last_token(const DecodeStep& step, const OpTable& table) {
  Program p = step.step;
  p.taps.clear();
  Builder b(p.graph, table);
  for (size_t i = 0; i < p.outputs.size(); ++i) {
    const auto axis = token_axis(step, p.outputs[i]);
    if (!axis) continue;
    const Dim count = b.shape(p.outputs[i].value)[*axis];
    p.outputs[i].value = p.graph.outputs[i] = b.slice(p.outputs[i].value, *axis, count - 1, count);
  }
  return p;
}

bool is_mask(const Input& input) { return input.range && input.range->first >= 0 && input.range->second == 1; }

}  // namespace

void copy_rows(const Array& from, int64_t from_batch, int64_t from_row, Array& to, int64_t to_batch, int64_t to_row,
               int64_t count, int64_t axis) {
  int64_t outer = 1, inner = 1;
  for (int64_t a = 1; a < from.rank(); ++a) (a < axis ? outer : inner) *= a == axis ? 1 : from.shape()[a];
  const auto row = static_cast<size_t>(inner) * size_of(from.dtype());
  const int64_t from_rows = from.shape()[axis], to_rows = to.shape()[axis];
  const char* source = from.as<char>();
  char* target = to.mutable_as<char>();
  for (int64_t o = 0; o < outer && count > 0 && row > 0; ++o) {
    std::memmove(target + static_cast<size_t>((to_batch * outer + o) * to_rows + to_row) * row,
                 source + static_cast<size_t>((from_batch * outer + o) * from_rows + from_row) * row,
                 static_cast<size_t>(count) * row);
  }
}

// ---- caches

size_t Cache::bytes() const {
  size_t total = 0;
  for (size_t i = 0; i < states_.size(); ++i) {
    if (step_->states[i].kind == CacheState::Kind::rows) total += states_[i].bytes();
  }
  return total;
}

void Cache::own_rows() {
  if (owner_.use_count() == 1) return;
  for (size_t i = 0; i < states_.size(); ++i) {
    if (step_->states[i].kind == CacheState::Kind::rows) states_[i] = copy_of(states_[i]);
  }
  owner_ = std::make_shared<const int>(0);
}

Cache Cache::fork(const std::vector<int64_t>& sequences) const {
  for (const int64_t s : sequences) {
    if (s >= 0 && s < batch()) continue;
    throw Error(ErrorCode::usage, "the cache has no such sequence")
        .expected(fmt::format("0 to {}", batch() - 1))
        .found(std::to_string(s));
  }
  Cache result = *this;
  result.owner_ = std::make_shared<const int>(0);  // each state with rows is made anew below
  result.lengths_.clear();
  result.dropped_.clear();
  for (const int64_t s : sequences) {
    result.lengths_.push_back(lengths_[s]);
    result.dropped_.push_back(dropped_[s]);
  }
  const Dim batch_dim = Dim::symbol(step_->batch);
  for (size_t i = 0; i < states_.size(); ++i) {
    const Shape& type = step_->step.graph.type(step_->step.states[i].value).shape;
    if (type.empty() || type[0] != batch_dim) continue;  // a table: the same for all
    Sizes shape = states_[i].shape();
    shape[0] = static_cast<int64_t>(sequences.size());
    Array rows(states_[i].dtype(), shape);
    const size_t bytes = shape[0] == 0 ? 0 : rows.bytes() / static_cast<size_t>(shape[0]);
    for (size_t to = 0; to < sequences.size() && bytes > 0; ++to)
      std::memcpy(rows.mutable_as<char>() + to * bytes, states_[i].as<char>() + static_cast<size_t>(sequences[to]) * bytes,
                  bytes);
    result.states_[i] = std::move(rows);
  }
  return result;
}

void Cache::truncate(int64_t sequence, int64_t length) {
  if (sequence < 0 || sequence >= batch() || length < 0 || length > lengths_[sequence]) {
    throw Error(ErrorCode::usage, "a cache can only be truncated to fewer tokens than it has")
        .expected(fmt::format("a sequence below {} and a length up to its own", batch()))
        .found(fmt::format("sequence {}, length {}", sequence, length));
  }
  if (!can_truncate(sequence, length)) {
    throw Error(ErrorCode::usage, "the rows before these tokens are gone: layers of the model look back through a window")
        .expected(fmt::format("a length of {} or more, or 0", dropped_[sequence] + step_->widest_window() - 1))
        .found(std::to_string(length))
        .hint(fmt::format("the last {} tokens can always be forgotten; fork the cache to come back to an older state",
                          taken_back()));
  }
  lengths_[sequence] = length;  // what is behind is written over, and nothing reads it until then
  if (length == 0) dropped_[sequence] = 0;
}

bool Cache::can_truncate(int64_t sequence, int64_t length) const {
  return length == 0 || length == lengths_[sequence] || dropped_[sequence] <= first_kept(length);
}

// ---- windows

int64_t Cache::most_kept() const {
  int64_t most = 0;
  for (size_t b = 0; b < lengths_.size(); ++b) most = std::max(most, lengths_[b] - dropped_[b]);
  return most;
}

int64_t Cache::taken_back() const { return std::min<int64_t>(64, step_->widest_window()); }

int64_t Cache::first_kept(int64_t length) const { return std::max<int64_t>(0, length - (step_->widest_window() - 1)); }

// Twice what is read, so that rows move once in a while; a long prompt has all its rows while it runs.
int64_t Cache::rows_for(int64_t added) const {
  const int64_t read = step_->widest_window() - 1 + taken_back();
  return std::min(capacity_, std::max(2 * (read + 1), read + added));
}

void Cache::roll(int64_t added) {
  if (step_->widest_window() == 0) return;
  const int64_t rows = rows_for(added);
  const auto is_full = [&](size_t b) { return lengths_[b] - dropped_[b] + added > rows; };
  bool fits = rows == window_rows_;
  for (size_t b = 0; b < lengths_.size(); ++b) fits = fits && !is_full(b);
  if (fits) return;
  own_rows();
  const auto first = [&](size_t b) {
    return is_full(b) ? std::max(dropped_[b], first_kept(lengths_[b] - taken_back())) : dropped_[b];
  };
  for (size_t i = 0; i < states_.size(); ++i) {
    const CacheState& state = step_->states[i];
    if (state.window == 0) continue;
    const auto move_rows = [&](Array& to) {
      for (size_t b = 0; b < lengths_.size(); ++b) {
        const auto sequence = static_cast<int64_t>(b);
        copy_rows(states_[i], sequence, first(b) - dropped_[b], to, sequence, 0, lengths_[b] - first(b), state.axis);
      }
    };
    if (rows == window_rows_) {
      move_rows(states_[i]);
      continue;
    }
    Sizes shape = states_[i].shape();
    shape[state.axis] = rows;
    Array larger(states_[i].dtype(), shape);
    move_rows(larger);
    states_[i] = std::move(larger);
  }
  for (size_t b = 0; b < lengths_.size(); ++b) dropped_[b] = first(b);
  window_rows_ = rows;
}

void Cache::spoil_unused() {
  constexpr double kShows = 1000;
  for (size_t i = 0; i < states_.size(); ++i) {
    const CacheState& state = step_->states[i];
    if (state.kind != CacheState::Kind::rows) continue;
    const DType dtype = states_[i].dtype();
    const Array spoiled = store(dtype, states_[i].shape(),
                                std::vector<double>(states_[i].size(), is_floating(dtype) ? kShows : 1));
    Array rows = copy_of(states_[i]);
    for (int64_t b = 0; b < batch(); ++b) {
      const int64_t used = lengths_[b] - (state.window > 0 ? dropped_[b] : 0);
      copy_rows(spoiled, b, used, rows, b, used, rows.shape()[state.axis] - used, state.axis);
    }
    states_[i] = std::move(rows);
  }
}

void Cache::save(const std::filesystem::path& path) const {
  const int64_t longest = lengths_.empty() ? 0 : *std::max_element(lengths_.begin(), lengths_.end()), kept = most_kept();
  std::map<std::string, Array> saved{
      {kSavedLengths, of_integers(lengths_)}, {kSavedDropped, of_integers(dropped_)}, {kSavedCapacity, of_integers({capacity_})}};
  for (size_t i = 0; i < states_.size(); ++i) {
    const CacheState& state = step_->states[i];
    Array rows = states_[i];
    if (state.kind == CacheState::Kind::rows) {
      Sizes shape = states_[i].shape();
      shape[state.axis] = state.window > 0 ? kept : longest;
      rows = Array(states_[i].dtype(), shape);
      for (int64_t b = 0; b < batch(); ++b) {
        const int64_t used = lengths_[b] - (state.window > 0 ? dropped_[b] : 0);
        copy_rows(states_[i], b, 0, rows, b, 0, used, state.axis);
      }
    }
    saved.emplace("cache:" + state.name, std::move(rows));
  }
  write_safetensors(path, saved, {{"format", kFormat}});
}

// ---- the decoder

Decoder::Decoder(DecodeStep step, const OpTable& table, std::shared_ptr<const ParameterSource> parameters,
                 const std::string& backend, const PipelineOptions& options)
    : step_(std::make_shared<DecodeStep>(std::move(step))) {
  const Backend& runs = find_backend(backend);
  for (const Input& input : step_->step.inputs) wanted_.push_back({input.name, step_->step.graph.type(input.value).text()});
  const auto compiled = [&](const Program& p, const char* part) {
    PipelineOptions own = options;
    if (!own.dump_dir.empty()) own.dump_dir /= part;
    return compile_as_wanted(runs, p, table, parameters, own);
  };
  setup_run_ = compiled(step_->setup, "decode-setup");
  step_run_ = compiled(step_->step, "decode-step");
  last_run_ = compiled(with_last_token(*step_, table), "decode-last-token");
}

Cache Decoder::new_cache(int64_t batch, int64_t capacity, const Tensors& inputs) const {
  if (batch < 1 || capacity < 1 || (step_->longest && capacity > *step_->longest)) {
    throw Error(ErrorCode::usage, "this batch or capacity is not possible")
        .expected(step_->longest
                      ? fmt::format("a batch of 1 or more, and room for 1 to {} tokens: the model has no more positions",
                                    *step_->longest)
                      : std::string("a batch and a capacity of 1 or more"))
        .found(fmt::format("a batch of {}, room for {} tokens", batch, capacity));
  }
  Cache cache;
  cache.step_ = step_;
  cache.capacity_ = capacity;
  cache.lengths_.assign(static_cast<size_t>(batch), 0);
  cache.dropped_ = cache.lengths_;
  cache.window_rows_ = cache.rows_for(1);
  RunRequest request;
  std::vector<WantedInput> wanted;
  for (const Input& input : step_->setup.inputs) wanted.push_back({input.name, step_->setup.graph.type(input.value).text()});
  request.inputs = in_order(wanted, inputs);
  Bindings sizes{{step_->batch, batch}, {kCapacity, capacity}};
  request.symbols = sizes;
  request.found = &sizes;
  const std::vector<Array> once = setup_run_->run(request);
  sizes.emplace(step_->batch, batch);
  sizes.emplace(kCapacity, capacity);
  sizes.emplace(kWindowRows, cache.window_rows_);
  size_t next = 0;
  for (size_t i = 0; i < step_->states.size(); ++i) {
    const Type& type = step_->step.graph.type(step_->step.states[i].value);
    const bool is_once = step_->states[i].kind == CacheState::Kind::once;
    cache.states_.push_back(is_once ? once.at(next++) : Array(type.dtype, evaluate(type.shape, sizes)));
  }
  return cache;
}

Cache Decoder::resized(const Cache& from, int64_t capacity) const {
  if (!step_->setup.inputs.empty())
    throw Error(ErrorCode::usage, "a cache that was made with inputs cannot be resized").found(step_->setup.inputs[0].name);
  const int64_t longest = from.lengths_.empty() ? 0 : *std::max_element(from.lengths_.begin(), from.lengths_.end());
  if (capacity < longest)
    throw Error(ErrorCode::usage, "the cache has more tokens than the new capacity")
        .expected(fmt::format("room for {} or more", longest))
        .found(std::to_string(capacity));
  Cache to = new_cache(from.batch(), capacity);
  to.lengths_ = from.lengths_;
  for (size_t i = 0; i < step_->states.size(); ++i) {
    const CacheState& state = step_->states[i];
    if (state.kind != CacheState::Kind::rows) continue;
    if (state.window > 0) {
      to.states_[i] = copy_of(from.states_[i]);
      continue;
    }
    for (int64_t b = 0; b < from.batch(); ++b)
      copy_rows(from.states_[i], b, 0, to.states_[i], b, 0, from.lengths_[b], state.axis);
  }
  to.dropped_ = from.dropped_;
  to.window_rows_ = from.window_rows_;
  return to;
}

namespace {

// Can so many rows of each sequence be gone?
bool are_dropped(const DecodeStep& step, const std::vector<int64_t>& dropped, const std::vector<int64_t>& lengths) {
  if (dropped.size() != lengths.size()) return false;
  for (size_t b = 0; b < dropped.size(); ++b) {
    const int64_t most = step.widest_window() == 0 ? 0 : std::max<int64_t>(0, lengths[b] - (step.widest_window() - 1));
    if (dropped[b] < 0 || dropped[b] > most) return false;
  }
  return true;
}

}  // namespace

Cache Decoder::load_cache(const std::filesystem::path& path) const {
  const Safetensors file = Safetensors::open(path);
  const auto integers = [&](const char* name) {
    const Array a = file.get(name);
    if (a.dtype() != DType::i64 || a.rank() != 1)
      throw Error(ErrorCode::bad_input, "the file is not a saved cache")
          .expected(fmt::format("i64 {}", name))
          .found(path.string());
    return std::vector<int64_t>(a.as<int64_t>(), a.as<int64_t>() + a.size());
  };
  Cache cache;
  cache.step_ = step_;
  cache.lengths_ = integers(kSavedLengths);
  cache.dropped_ = integers(kSavedDropped);
  const std::vector<int64_t> capacity = integers(kSavedCapacity);
  const int64_t longest = cache.lengths_.empty() ? 0 : *std::max_element(cache.lengths_.begin(), cache.lengths_.end());
  const bool is_sane = capacity.size() == 1 && capacity[0] >= longest && capacity[0] < (int64_t{1} << 40) &&
                       std::all_of(
                           cache.lengths_.begin(), cache.lengths_.end(), [](int64_t n) { return n >= 0; }) &&
                       are_dropped(*step_, cache.dropped_, cache.lengths_);
  if (!is_sane || (step_->longest && capacity[0] > *step_->longest))
    throw Error(ErrorCode::bad_input, "the file is not a cache of this model")
        .expected("lengths within the capacity")
        .found(path.string());
  cache.capacity_ = capacity[0];
  const int64_t kept = cache.most_kept();
  cache.window_rows_ = std::max(kept, cache.rows_for(1));
  Bindings sizes{{step_->batch, cache.batch()}, {kCapacity, cache.capacity_}, {kWindowRows, cache.window_rows_}};
  for (size_t i = 0; i < step_->states.size(); ++i) {
    const CacheState& state = step_->states[i];
    const Type& type = step_->step.graph.type(step_->step.states[i].value);
    const Array saved = file.get("cache:" + state.name);
    Bindings own = sizes;
    for (size_t axis = 0; axis < type.shape.size() && axis < saved.shape().size(); ++axis) {
      if (!type.shape[axis].is_number()) own.emplace(type.shape[axis].text(), saved.shape()[axis]);
    }
    Sizes shape = evaluate(type.shape, own), expected = shape;
    const bool has_rows = state.kind == CacheState::Kind::rows;
    if (has_rows) expected[state.axis] = state.window > 0 ? kept : longest;
    if (saved.dtype() != type.dtype || saved.shape() != expected)
      throw Error(ErrorCode::bad_input, fmt::format("the file is not a cache of this model: {} differs", state.name))
          .expected(fmt::format("{}{}", name_of(type.dtype), to_string(expected)))
          .found(fmt::format("{}{} in {}", name_of(saved.dtype()), to_string(saved.shape()), path.string()));
    Array rows = has_rows ? Array(type.dtype, shape) : copy_of(saved);
    for (int64_t b = 0; has_rows && b < cache.batch(); ++b) copy_rows(saved, b, 0, rows, b, 0, expected[state.axis], state.axis);
    cache.states_.push_back(std::move(rows));
  }
  return cache;
}

std::vector<Array> Decoder::inputs(const Cache& cache, const Tensors& tokens, int64_t added) const {
  Tensors given = tokens;
  for (const Input& input : step_->step.inputs) {
    const Type& type = step_->step.graph.type(input.value);
    if (is_mask(input) && given.count(input.name) == 0 && type.rank() == 2 && is_integral(type.dtype))
      given.emplace(input.name, store(type.dtype, {cache.batch(), added}, std::vector<int64_t>(cache.batch() * added, 1)));
  }
  given[kLengths] = of_integers(cache.lengths_);
  if (step_->widest_window() > 0) given[kDropped] = of_integers(cache.dropped_);
  return in_order(wanted_, given);
}

void Decoder::check_room(const Cache& cache, int64_t added, const std::vector<int64_t>& counts) const {
  if (!counts.empty() && counts.size() != cache.lengths_.size())
    throw Error(ErrorCode::usage, "counts needs one number for each sequence")
        .expected(std::to_string(cache.batch()))
        .found(std::to_string(counts.size()));
  for (size_t b = 0; b < cache.lengths_.size(); ++b) {
    const bool is_sane = counts.empty() || (counts[b] >= 0 && counts[b] <= added);
    if (is_sane && cache.lengths_[b] + added <= cache.capacity_) continue;
    throw Error(ErrorCode::usage, is_sane ? "the cache is full" : "a count is larger than the number of new tokens, or negative")
        .expected(fmt::format("at most {} more tokens of sequence {}, which has {}", cache.capacity_ - cache.lengths_[b], b,
                              cache.lengths_[b]))
        .found(std::to_string(is_sane ? added : counts[b]))
        .hint("make the cache with a larger capacity, or fork the sequences that go on");
  }
}

// When a run throws, only rows behind the lengths have changed, and nothing reads those.
RunRequest Decoder::request(Cache& cache, std::vector<Array> inputs) const {
  cache.own_rows();
  RunRequest request;
  request.inputs = std::move(inputs);
  request.states = &cache.states_;
  bind_states(step_->step, cache.states_, request.symbols);
  request.symbols[kCapacity] = cache.capacity_;
  return request;
}

Decoder::Tensors Decoder::run(const Executable& executable, Cache& cache, const Tensors& tokens,
                              const std::vector<int64_t>& counts, const std::function<void(size_t, const Array&)>& on_tap) const {
  const int64_t added = new_tokens(tokens);
  check_room(cache, added, counts);
  cache.roll(added);
  RunRequest request = this->request(cache, inputs(cache, tokens, added));
  request.on_tap = on_tap;
  const auto* in_place = dynamic_cast<const RunsInPlace*>(&executable);
  std::vector<Array> outputs = in_place ? in_place->run_in_place(request) : executable.run(request);
  for (Array& output : outputs) {  // the caller's; what is kept is written by the next step
    const auto is_it = [&](const Array& state) { return state.data() == output.data(); };
    if (std::any_of(cache.states_.begin(), cache.states_.end(), is_it)) output = copy_of(output);
  }
  for (size_t b = 0; b < cache.lengths_.size(); ++b) cache.lengths_[b] += counts.empty() ? added : counts[b];
  Tensors named;
  for (size_t i = 0; i < outputs.size(); ++i) named.emplace(step_->step.outputs[i].name, std::move(outputs[i]));
  return named;
}

Decoder::Tensors Decoder::step(Cache& cache, const Tensors& tokens, const std::vector<int64_t>& counts,
                               const std::function<void(size_t, const Array&)>& on_tap) const {
  return run(*step_run_, cache, tokens, counts, on_tap);
}

Decoder::Tensors Decoder::step_last(Cache& cache, const Tensors& tokens, const std::vector<int64_t>& counts) const {
  const int64_t added = new_tokens(tokens);
  if (std::all_of(counts.begin(), counts.end(), [&](int64_t count) { return count == added; }))
    return run(added == 1 ? *step_run_ : *last_run_, cache, tokens, counts, {});
  Tensors outputs = run(*step_run_, cache, tokens, counts, {});
  for (const Output& output : step_->step.outputs) {
    const auto axis = token_axis(*step_, output);
    if (!axis) continue;
    Array& all = outputs.at(output.name);
    Sizes shape = all.shape();
    shape[*axis] = 1;
    Array last(all.dtype(), shape);
    for (int64_t b = 0; b < cache.batch(); ++b) copy_rows(all, b, std::max<int64_t>(0, counts[b] - 1), last, b, 0, 1, *axis);
    all = std::move(last);
  }
  return outputs;
}

// ---- loops

namespace {

// On a backend that knows no better.
class PlainRepeatedRun final : public RepeatedRun {
 public:
  PlainRepeatedRun(const Executable& executable, RunRequest request) : executable_(executable), request_(std::move(request)) {}
  const std::vector<Array>& run() override { return outputs_ = executable_.run(request_); }

 private:
  const Executable& executable_;
  RunRequest request_;
  std::vector<Array> outputs_;
};

std::unique_ptr<RepeatedRun> repeated(const Executable& executable, RunRequest request) {
  if (const auto* in_place = dynamic_cast<const RunsInPlace*>(&executable)) return in_place->repeated(std::move(request));
  return std::make_unique<PlainRepeatedRun>(executable, std::move(request));
}

}  // namespace

Stepper::Stepper(const Decoder& decoder, Cache cache, int64_t added)
    : decoder_(decoder), cache_(std::move(cache)), added_(added) {
  const Program& p = decoder_.step_->step;
  decoder_.check_room(cache_, added, {});
  cache_.roll(added);
  for (size_t i = 0; i < p.inputs.size(); ++i) {
    if (p.inputs[i].name == kLengths) lengths_ = i;
    if (p.inputs[i].name == kDropped) dropped_ = i;
  }
  const Array none(DType::i64, {cache_.batch(), added});
  inputs_ = decoder_.inputs(cache_, {{p.inputs[tokens_].name, none}}, added);
  inputs_[tokens_] = Array(DType::i64, {cache_.batch(), added});
  inputs_[lengths_] = copy_of(inputs_[lengths_]);
  if (dropped_) inputs_[*dropped_] = copy_of(inputs_[*dropped_]);
  run_ = repeated(*decoder_.step_run_, decoder_.request(cache_, inputs_));
}

const std::vector<Array>& Stepper::step() {
  decoder_.check_room(cache_, added_, {});
  std::copy(cache_.lengths_.begin(), cache_.lengths_.end(), inputs_[lengths_].mutable_as<int64_t>());
  if (dropped_) {
    cache_.roll(added_);  // within the memory of the rows: their number stays
    std::copy(cache_.dropped_.begin(), cache_.dropped_.end(), inputs_[*dropped_].mutable_as<int64_t>());
  }
  const std::vector<Array>& outputs = run_->run();
  for (int64_t& length : cache_.lengths_) length += added_;
  return outputs;
}

Cache Stepper::taken() && {
  run_.reset();
  return std::move(cache_);
}

}  // namespace pycandle
