#include "pycandle/cache.h"

#include <fmt/format.h>

#include "base/error.h"
#include "capture/capture.h"
#include "capture/compile.h"
#include "import/importer.h"
#include "ops/core/catalogue.h"
#include "passes/decode_step.h"
#include "passes/pipeline.h"
#include "passes/structure.h"
#include "pycandle/functional.h"
#include "runtime/decoder.h"
#include "runtime/model.h"
#include "verify/decode_proof.h"

namespace pycandle::front {
namespace {

Capture& capturing() {
  if (Capture* capture = Capture::current()) return *capture;
  throw Error(ErrorCode::usage, "a cache is used where no model is captured")
      .module_path(current_module())
      .hint("compile_decoder<Cache>(model, signature) calls the model with one");
}

std::string name_here(const std::string& name) {
  const std::string module = current_module();
  return module.empty() ? name : fmt::format("{}.{}", module, name);
}

// Of the cache whose rows are these, but for their number.
pycandle::State& state_for(Capture& capture, const std::string& name, const Tensor& rows, int64_t& axis) {
  Type type = capture.type_of(rows);
  axis = capture.builder.normal_axis(axis, type.rank());
  type.shape[axis] = pycandle::Dim::symbol(kCapacity);
  return capture.cache_state(name_here(name), type);
}

Program recorded_program(const std::string& manifest) {
  return run_program_pipeline(import_manifest(manifest, catalogue()).program, catalogue());
}

}  // namespace

Tensor CacheRows::append(const Tensor& rows, int64_t axis, Here here) const {
  Capture& capture = capturing();
  const pycandle::State& state = state_for(capture, name_, rows, axis);
  if (state.updated != kNoValue)
    throw Error(ErrorCode::bad_input, "rows are appended to a cache twice in one step").found(state.name);
  const Tensor all = functional::cache_append(capture.tensor(state.value), rows, lengths_, axis, here);
  state_for(capture, name_, rows, axis).updated = capture.value_of(all);
  return all;
}

Tensor CacheRows::last(const Tensor& initial, int64_t axis, Here here) const {
  Capture& capture = capturing();
  const ValueId before = state_for(capture, name_, initial, axis).value;
  return functional::cache_last(capture.tensor(before), initial, lengths_, axis, here);
}

Dim cache_capacity() {
  capturing().declare_capacity();
  return DimAccess::front(pycandle::Dim::symbol(kCapacity));
}

DecodeSignature decode_signature_of(const std::string& manifest) {
  const DecodeStep step = decode_step_in_code(recorded_program(manifest), catalogue());
  return {signature_of(step.step), step.longest};
}

// ---- sequences

struct Sequences::Kept {
  Cache cache;
};

Sequences::Sequences(std::unique_ptr<Kept> kept) : kept_(std::move(kept)) {}
Sequences::Sequences(const Sequences& other) : kept_(std::make_unique<Kept>(*other.kept_)) {}
Sequences& Sequences::operator=(const Sequences& other) {
  kept_ = std::make_unique<Kept>(*other.kept_);
  return *this;
}
Sequences::Sequences(Sequences&&) noexcept = default;
Sequences& Sequences::operator=(Sequences&&) noexcept = default;
Sequences::~Sequences() = default;

int64_t Sequences::batch() const { return kept_->cache.batch(); }
int64_t Sequences::capacity() const { return kept_->cache.capacity(); }
std::vector<int64_t> Sequences::lengths() const { return kept_->cache.lengths(); }
void Sequences::truncate(int64_t sequence, int64_t length) { kept_->cache.truncate(sequence, length); }
void Sequences::save(const std::string& path) const { kept_->cache.save(path); }
Sequences Sequences::fork(const std::vector<int64_t>& sequences) const {
  return Sequences(std::make_unique<Kept>(Kept{kept_->cache.fork(sequences)}));
}

// ---- the decoder

struct CompiledDecoder::State {
  Decoder decoder;
  std::shared_ptr<const ParameterSource> parameters;
};

CompiledDecoder compile_callable_decoder(const Callable& model, const DecodeSignature& signature, const CompileOptions& options) {
  if (signature.inputs.size() < 2 || signature.inputs[0].shape.size() < 2 || signature.inputs.back().name != kLengths)
    throw Error(ErrorCode::usage, "a decoder needs tokens, and the lengths of the sequences last")
        .expected(fmt::format("inputs such as input_ids [batch, new], {} [batch]", kLengths))
        .hint("decode_signature_of(manifest)");
  CapturedStep captured = captured_step(model, signature, options);
  const std::vector<SignatureDim>& tokens = signature.inputs[0].shape;
  DecodeStep step = decode_step_of(std::move(captured.program), tokens[0].symbol().name, tokens[1].symbol().name,
                                   signature.longest);
  CompiledDecoder decoder;
  decoder.state_ = std::make_shared<const CompiledDecoder::State>(
      CompiledDecoder::State{Decoder(std::move(step), catalogue(), captured.parameters,
                                     options.backend.empty() ? "cpu" : options.backend, pipeline_of(options)),
                             captured.parameters});
  return decoder;
}

const DecodeStep& CompiledDecoder::decode_step() const { return state_->decoder.decode_step(); }
std::shared_ptr<const ParameterSource> CompiledDecoder::parameters() const { return state_->parameters; }

Sequences CompiledDecoder::start(int64_t batch, int64_t capacity) const {
  return Sequences(std::make_unique<Sequences::Kept>(Sequences::Kept{state_->decoder.new_cache(batch, capacity)}));
}
Sequences CompiledDecoder::load(const std::string& path) const {
  return Sequences(std::make_unique<Sequences::Kept>(Sequences::Kept{state_->decoder.load_cache(path)}));
}
CompiledDecoder::Tensors CompiledDecoder::step(Sequences& sequences, const Tensors& tokens,
                                               const std::vector<int64_t>& counts) const {
  return state_->decoder.step(sequences.kept_->cache, tokens, counts);
}

// ---- proofs

DecodeCheck check_decoding(const CompiledDecoder& decoder, const std::string& manifest) {
  Recording recording = import_manifest(manifest, catalogue());
  recording.program = run_program_pipeline(std::move(recording.program), catalogue());
  const Program& p = recording.program;
  const DecodeStep& step = decoder.decode_step();
  const DecodeProofOptions options;
  const NamedArrays inputs = decode_inputs(recording, step, options);
  const DecodeProof proof = prove_decoding(p, step, catalogue(), decoder.parameters(), inputs, options);
  DecodeCheck check{proof.passed(), {}};
  for (const DecodeSchedule& s : proof.schedules) {
    if (!s.wrong || !check.why.empty()) continue;
    check.why = fmt::format("steps of {}: token {} of sequence {} is wrong at {} ({})\n  in    {}, {}:  {}\n  why   {}{}",
                            s.chunk, s.wrong->position, s.wrong->sequence, s.wrong->value, s.wrong->op, s.wrong->path,
                            s.wrong->place, s.wrong->source, s.wrong->why,
                            s.wrong->cause.empty() ? "" : "\n  cause " + s.wrong->cause);
  }
  return check;
}

RoundTrip round_trip(const CompiledDecoder& decoder, const std::string& manifest) {
  RoundTrip result;
  const DecodeStep derived = decode_step_in_code(recorded_program(manifest), catalogue());
  result.difference = first_difference(derived.step, decoder.decode_step().step);
  result.equal = result.difference.empty();
  return result;
}

}  // namespace pycandle::front
