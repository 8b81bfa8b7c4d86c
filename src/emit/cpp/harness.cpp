#include "emit/cpp/harness.h"

#include <string_view>
#include <utility>

#include "emit/cpp/text.h"
#include "ir/graph.h"

namespace pycandle::emit::cpp {
namespace {

constexpr const char* kRecording = R"text(
namespace {

using namespace pycandle;

// PYCANDLE_TRACE names another folder with the recording.
std::string folder() {
  return recording_folder(@RECORDING@, @FOLDER@);
}
std::string manifest() {
  return folder() + @MANIFEST@;
}

)text";

constexpr const char* kProgram =
    R"text(// Runs @MODEL@ on the recorded inputs and says what came out: main [FOLDER OF THE RECORDING]
#include <pycandle/pycandle.h>

#include <iostream>
#include <string>

#include "@HEADER@"

using namespace pycandle;

int main(int argc, char** argv) try {
  const std::string folder = argc > 1 ? argv[1] : recording_folder(@RECORDING@, @FOLDER@);
  const std::string manifest = folder + @MANIFEST@;
  const @SPACE@::@MODEL@ model(Weights::open(manifest));
  const Compiled run = compile(model, signature_of(manifest));
  for (const auto& [name, array] : run.run(Checker::load(@RECORDING@, folder).inputs())) {
    std::cout << name << ":";
    for (const int64_t size : array.shape()) std::cout << " " << size;
    std::cout << "\n";
  }
} catch (const std::exception& error) {
  std::cerr << "error: " << in_one_line(error) << "\n";
  return 2;
}
)text";

constexpr const char* kDecodeProgram =
    R"text(// Decodes the recorded inputs token by token and says what came out: main [FOLDER OF THE RECORDING]
#include <pycandle/pycandle.h>

#include <iostream>
#include <string>

#include "@HEADER@"

using namespace pycandle;

int main(int argc, char** argv) try {
  const std::string folder = argc > 1 ? argv[1] : recording_folder(@RECORDING@, @FOLDER@);
  const std::string manifest = folder + @MANIFEST@;
  const @SPACE@::@MODEL@ model(Weights::open(manifest));
  const CompiledDecoder decoder = compile_decoder<@SPACE@::Cache>(model, decode_signature_of(manifest));
  const auto inputs = Checker::load(@RECORDING@, folder).inputs();
  const Array& tokens = inputs.begin()->second;
  Sequences sequences = decoder.start(tokens.shape()[0], tokens.shape()[1]);
  for (const auto& [name, array] : decoder.step(sequences, inputs)) {
    std::cout << name << ":";
    for (const int64_t size : array.shape()) std::cout << " " << size;
    std::cout << "\n";
  }
} catch (const std::exception& error) {
  std::cerr << "error: " << in_one_line(error) << "\n";
  return 2;
}
)text";

constexpr const char* kDecodeTest =
    R"text(// @MODEL@ step by step, against the whole model as PyTorch had it. Made by pycandle codegen --stateful.
#include <gtest/gtest.h>
#include <pycandle/pycandle.h>

#include <string>

#include "@HEADER@"
@COMMON@CompiledDecoder decoder() {
  const @SPACE@::@MODEL@ model(Weights::open(manifest()), Checker::load(@RECORDING@, folder()));
  return compile_decoder<@SPACE@::Cache>(model, decode_signature_of(manifest()));
}

// A prompt, then steps of 1, 3 and 16 tokens, two sequences of different lengths in one batch.
TEST(@MODEL@, DecodesAsTheWholeModel) {
  const DecodeCheck check = check_decoding(decoder(), manifest());
  EXPECT_TRUE(check.passed) << check.why;
}

TEST(@MODEL@, IsTheDerivedStep) {
  const RoundTrip trip = round_trip(decoder(), manifest());
  EXPECT_TRUE(trip.equal) << trip.difference;
}

}  // namespace
)text";

constexpr const char* kTest = R"text(// @MODEL@ against what PyTorch computed. Made by pycandle gen-test.
#include <gtest/gtest.h>
#include <pycandle/pycandle.h>

#include <algorithm>
#include <iostream>
#include <map>
#include <string>

#include "@HEADER@"
@COMMON@// Every size that is open, moved off the recorded one.
std::map<std::string, int64_t> other_sizes(const Recorded& recorded) {
  std::map<std::string, int64_t> sizes;
  for (const Symbol& s : recorded.symbols()) {
    const int64_t example = s.example.value_or(s.min);
    const bool has_room = !s.max || example < *s.max;
    sizes[s.name] = has_room ? example + 1 : std::max(s.min, example - 1);
  }
  return sizes;
}

// The model is what is tested here. pycandle verify tests how other backends run it.
CompileOptions on_reference() {
  return {.backend = "reference"};
}

// What rounding does to the recorded program decides what is close. A value that it moves as far as it is off from PyTorch's
// proves nothing, and without the file of floors a tolerance is guessed: both are said.
void expect_passed(const CheckResult& r) {
  static bool was_guess_said = false;
  EXPECT_TRUE(r.passed) << r.why;
  if (r.unstable) std::cout << "note: " << r.why << "\n";
  if (!r.guessed || was_guess_said) return;
  was_guess_said = true;
  std::cout << "note: tolerances are guessed, " << r.tolerance << " for " << r.layer
            << ": there are no floors beside the recording (pycandle gen-test writes them)\n";
}

@GOLDENS@TEST(@MODEL@, AgreesAtAnotherShape) {
  const Recorded recorded = Recorded::load(manifest(), {.backend = "reference"});
  const auto inputs = recorded.random_inputs(1, other_sizes(recorded));
  const @SPACE@::@MODEL@ model(Weights::open(manifest()));
  const auto outputs = compile(model, signature_of(manifest()), on_reference()).run(inputs);
  for (const CheckResult& r : recorded.check(inputs, outputs)) expect_passed(r);
}

@STATES@TEST(@MODEL@, IsTheRecordedProgram) {
  const @SPACE@::@MODEL@ model(Weights::open(manifest()), Checker::load(@RECORDING@, folder()));
  const Compiled run = compile(model, signature_of(manifest()));
  const RoundTrip trip = round_trip(run, manifest(), project_folder());
  EXPECT_TRUE(trip.passed()) << trip.difference + "\n" + next_step(run, manifest(), project_folder());
  if (!trip.accepted.empty()) std::cout << "Not the recorded program, but one that was " << trip.accepted << "\n";
}

}  // namespace
)text";

constexpr const char* kGoldenTests = R"text(TEST(@MODEL@, AgreesLayerByLayer) {
  Checker checker = Checker::load(@RECORDING@, folder());
  checker.collect();
  const @SPACE@::@MODEL@ model(Weights::open(manifest()), checker);
  const Compiled run = compile(model, signature_of(manifest()));
  run.run(checker.inputs());
  EXPECT_FALSE(checker.results().empty()) << "the recording has no values of layers: record with --taps modules";
  for (const CheckResult& r : checker.results()) expect_passed(r);
  if (HasFailure()) ADD_FAILURE() << next_step(run, manifest(), project_folder());
}

TEST(@MODEL@, GivesTheRecordedOutput) {
  const Checker checker = Checker::load(@RECORDING@, folder());
  const @SPACE@::@MODEL@ model(Weights::open(manifest()));
  const auto outputs = compile(model, signature_of(manifest()), on_reference()).run(checker.inputs());
  ASSERT_FALSE(checker.outputs().empty());
  for (const auto& [name, golden] : checker.outputs()) {
    ASSERT_EQ(outputs.count(name), 1u) << name;
    expect_passed(checker.verify_output(name, outputs.at(name)));
  }
}

)text";

constexpr const char* kStateTest = R"text(TEST(@MODEL@, ChangesItsStatesAsRecorded) {
  Checker checker = Checker::load(@RECORDING@, folder());
  checker.collect();
  const @SPACE@::@MODEL@ model(Weights::open(manifest()), checker);
  const Compiled run = compile(model, signature_of(manifest()), on_reference());
  for (size_t call = 0; call < checker.calls(); ++call) {
    SCOPED_TRACE("call " + std::to_string(call));
    const auto outputs = run.run(checker.inputs(call)), states = run.states();
    for (const auto& [name, golden] : checker.outputs(call)) expect_passed(checker.verify_output(name, outputs.at(name), call));
    for (const auto& [name, golden] : checker.states(call)) {
      EXPECT_EQ(states.count(name), 1u) << "the model does not use the state " << name;
      if (states.count(name) != 0) expect_passed(checker.verify_state(name, states.at(name), call));
    }
  }
  if (HasFailure()) ADD_FAILURE() << next_step(run, manifest(), project_folder());
}

TEST(@MODEL@, KeepsItsStatesBetweenCalls) {
  const Recorded recorded = Recorded::load(manifest(), {.backend = "reference"});
  const @SPACE@::@MODEL@ model(Weights::open(manifest()));
  const Compiled run = compile(model, signature_of(manifest()), on_reference());
  for (const uint64_t call : {1, 2, 3}) {
    const auto inputs = recorded.random_inputs(call);
    const auto before = run.states();
    const auto outputs = run.run(inputs);
    for (const CheckResult& r : recorded.check(inputs, outputs, before, run.states())) expect_passed(r);
  }
  run.reset();
  const auto now = run.states();
  for (const auto& [name, recorded_value] : recorded.states()) EXPECT_EQ(how_close(recorded_value, now.at(name)).max_diff, 0) << name;
}

)text";

// Two runs draw different numbers.
constexpr const char* kNoGoldenTests =
    R"text(// @MODEL@ draws random numbers: its values are not the recorded ones, its program is.

)text";

constexpr const char* kBenchmark = R"text(// How fast @MODEL@ is. Made by pycandle gen-bench.
#include <benchmark/benchmark.h>
#include <pycandle/pycandle.h>

#include <cstdio>
#include <cstdlib>
#include <map>
#include <string>

#include "@HEADER@"
@COMMON@const Compiled& compiled() {
  static const @SPACE@::@MODEL@ model(Weights::open(manifest()));
  static const Compiled run = compile(model, signature_of(manifest()));
  return run;
}

const Recorded& recorded() {
  static const Recorded loaded = Recorded::load(manifest(), {.backend = "reference"});
  return loaded;
}

void run_at(benchmark::State& state, const std::map<std::string, int64_t>& sizes) {
  const auto inputs = recorded().random_inputs(0, sizes);
@RUNS@}

// Milliseconds of the model in PyTorch: PYCANDLE_TORCH_MS, else asked of the recording script where Python is there.
double torch_ms() {
  if (const char* said = std::getenv("PYCANDLE_TORCH_MS")) return std::atof(said);
  FILE* pipe = popen("pycandle record --time --json 2>/dev/null", "r");
  if (pipe == nullptr) return 0;
  std::string text(4096, '\0');
  text.resize(std::fread(text.data(), 1, text.size(), pipe));
  const bool fine = pclose(pipe) == 0;
  const size_t at = text.find("\"median_ms\": ");
  return fine && at != std::string::npos ? std::atof(text.c_str() + at + 13) : 0;
}

void add(const std::string& name, void (*run)(benchmark::State&, const std::map<std::string, int64_t>&),
    const std::map<std::string, int64_t>& sizes) {
  auto* made = benchmark::RegisterBenchmark(name.c_str(), [=](benchmark::State& state) { run(state, sizes); });
  made->Unit(benchmark::kMillisecond)->UseRealTime();
}

void beside_torch(benchmark::State& state, const std::map<std::string, int64_t>& sizes) {
  run_at(state, sizes);
  static const double torch = torch_ms();
  if (torch > 0) {
    using benchmark::Counter;
    state.counters["torch_ms"] = torch;
    // The time of a run over PyTorch's: its inverse is a rate.
    state.counters["ratio_to_torch"] = Counter(torch / 1e3, Counter::kIsIterationInvariantRate | Counter::kInvert);
  }
}

void register_all() {
  add("@MODEL@/recorded", beside_torch, {});
  for (const Symbol& s : recorded().symbols()) {
    const int64_t most = s.max.value_or(1 << 20);
    for (const int64_t times : {1, 2, 4, 8}) {
      const int64_t size = times * s.example.value_or(s.min);
      if (size < s.min || size > most) continue;
      add("@MODEL@/" + s.name + ":" + std::to_string(size), run_at, {{s.name, size}});
    }
  }
}

}  // namespace

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 1;
  register_all();
  benchmark::RunSpecifiedBenchmarks();
}
)text";

constexpr const char* kDecodeBenchmark =
    R"text(// How fast @MODEL@ reads prompts and decodes. Made by pycandle gen-bench --stateful.
#include <benchmark/benchmark.h>
#include <pycandle/pycandle.h>

#include <string>

#include "@HEADER@"
@COMMON@const DecodeSignature& signature() {
  static const DecodeSignature found = decode_signature_of(manifest());
  return found;
}

const CompiledDecoder& decoder() {
  static const @SPACE@::@MODEL@ model(Weights::open(manifest()));
  static const CompiledDecoder made = compile_decoder<@SPACE@::Cache>(model, signature());
  return made;
}

// So many tokens of one sequence.
CompiledDecoder::Tensors tokens(int64_t count) {
  static const Recorded recorded = Recorded::load(manifest(), {.backend = "reference"});
  const auto& shape = signature().inputs[0].shape;
  return recorded.random_inputs(0, {{shape[0].symbol().name, 1}, {shape[1].symbol().name, count}});
}

void prompt(benchmark::State& state) {
  const int64_t count = state.range(0);
  const auto inputs = tokens(count);
  for (auto _ : state) {
    state.PauseTiming();
    Sequences sequences = decoder().start(1, count);
    state.ResumeTiming();
    benchmark::DoNotOptimize(decoder().step(sequences, inputs));
  }
  state.counters["tokens_per_second"] = benchmark::Counter(static_cast<double>(count), benchmark::Counter::kIsIterationInvariantRate);
}

void token_behind(benchmark::State& state) {
  const int64_t count = state.range(0);
  const auto one = tokens(1);
  Sequences sequences = decoder().start(1, count + 1);
  decoder().step(sequences, tokens(count));
  for (auto _ : state) {
    benchmark::DoNotOptimize(decoder().step(sequences, one));
    state.PauseTiming();
    sequences.truncate(0, count);
    state.ResumeTiming();
  }
  state.counters["tokens_per_second"] = benchmark::Counter(1, benchmark::Counter::kIsIterationInvariantRate);
}

}  // namespace

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 1;
  for (const int64_t count : {16, 128, 512}) {
    if (signature().longest && count >= *signature().longest) continue;
    benchmark::RegisterBenchmark("@MODEL@/prompt", prompt)->Arg(count)->Unit(benchmark::kMillisecond)->UseRealTime();
    benchmark::RegisterBenchmark("@MODEL@/token_behind", token_behind)->Arg(count)->Unit(benchmark::kMillisecond)->UseRealTime();
  }
  benchmark::RunSpecifiedBenchmarks();
}
)text";

constexpr const char* kRuns =
    R"text(  for (int call = 0; call < 2; ++call) compiled().run(inputs);  // weights are packed at the second
  for (auto _ : state) benchmark::DoNotOptimize(compiled().run(inputs));
)text";

constexpr const char* kRunsWithStates = R"text(  const auto run = [&] {
    compiled().reset();  // every run starts from the recorded states
    benchmark::DoNotOptimize(compiled().run(inputs));
  };
  for (int call = 0; call < 2; ++call) run();  // weights are packed at the second
  for (auto _ : state) run();
)text";

std::string filled(std::string text, const Harness& harness) {
  const std::pair<const char*, std::string> places[] = {
      {"@COMMON@", kRecording},
      {"@GOLDENS@", harness.is_random ? kNoGoldenTests : kGoldenTests},
      {"@STATES@", harness.has_states && !harness.is_random ? kStateTest : ""},
      {"@RUNS@", harness.has_states ? kRunsWithStates : kRuns},
      {"@MODEL@", harness.model},
      {"@SPACE@", harness.name_space},
      {"@HEADER@", harness.header},
      {"@RECORDING@", pycandle::quoted(harness.recording)},
      {"@MANIFEST@", pycandle::quoted("/" + harness.recording + "_manifest.json")},
      {"@FOLDER@", pycandle::quoted(harness.folder.empty() ? "." : harness.folder)}};
  for (const auto& [place, value] : places) text = cpp::filled(std::move(text), place, value);
  return text;
}

}  // namespace

std::string print_program(const Harness& harness) { return filled(harness.has_cache ? kDecodeProgram : kProgram, harness); }
std::string print_test(const Harness& harness) { return filled(harness.has_cache ? kDecodeTest : kTest, harness); }
std::string print_benchmark(const Harness& harness) { return filled(harness.has_cache ? kDecodeBenchmark : kBenchmark, harness); }

}  // namespace pycandle::emit::cpp
