// States of recorded and compiled models: kept between calls, set, saved, one set for each session, safe from threads.
#include <gtest/gtest.h>

#include <thread>

#include "base/error.h"
#include "error_of.h"
#include "pycandle/nn.h"
#include "pycandle/recorded.h"
#include "small_recording.h"

namespace pycandle {
namespace {

using front::compile;
using front::Compiled;
using front::Recorded;
using front::State;
using front::Tensor;
using front::Weights;
namespace nn = front::nn;
using Tensors = Recorded::Tensors;

Array count_of(int64_t n) { return store(DType::i64, Sizes{}, std::vector<int64_t>{n}); }
Array row(float a, float b) { return float_array({2}, {a, b}); }

// count += 1; last.copy_(x); return x * count, last
constexpr const char* kManifest = R"json({
  "format": "pycandle.manifest", "version": "1.0.0", "name": "counter",
  "files": {"trace": null, "weights": "w.safetensors"}, "symbols": [],
  "inputs": [{"name": "x", "value": 0, "dtype": "f32", "shape": [2]}],
  "outputs": [{"name": "output.0", "value": 4, "dtype": "f32", "shape": [2]},
              {"name": "output.1", "value": 0, "dtype": "f32", "shape": [2]}],
  "states": [{"name": "count", "value": 1, "updated": 3, "dtype": "i64", "shape": [], "file": "w.safetensors", "key": "count"},
             {"name": "last", "value": 2, "updated": 0, "dtype": "f32", "shape": [2], "file": "w.safetensors", "key": "last"}],
  "parameters": [],
  "nodes": [
    {"op": "aten.add.Tensor", "args": [["self", {"v": 1}], ["other", 1], ["alpha", 1]], "results": [{"value": 3, "dtype": "i64", "shape": []}]},
    {"op": "aten.mul.Tensor", "args": [["self", {"v": 0}], ["other", {"v": 3}]], "results": [{"value": 4, "dtype": "f32", "shape": [2]}]}
  ],
  "graphs": [], "module_calls": [], "taps": [], "files_table": []
}
)json";

Tensors first_states() { return {{"count", count_of(2)}, {"last", row(7, 8)}}; }

struct Counter : nn::Module<Counter> {
  State count, last;
  explicit Counter(const Weights& w) : Module(w), count(w.state("count")), last(w.state("last")) {}
  std::pair<Tensor, Tensor> forward(const Tensor& x) const {
    count = count + 1;
    last = x;
    return {x * count, last};
  }
};

struct Recording {
  TemporaryFolder folder;
  Recording() {
    write_safetensors(folder.path() / "w.safetensors", first_states());
    write_text(folder.path() / "counter_manifest.json", kManifest);
  }
  Recorded load(const std::string& backend) const { return Recorded::load(folder.path().string(), {.backend = backend}); }
  std::string file(const char* name) const { return (folder.path() / name).string(); }
};

// The same behaviour of whatever runs a model: Recorded on each backend, Compiled, Compiled eagerly.
template <class Run> struct Expect {
  const Run& run;
  const Recording& recording;

  double count() const { return load_double(run.states().at("count"))[0]; }

  void calls_keep_states() const {
    EXPECT_EQ(load_double(run.run(Tensors{{"x", row(1, 2)}}).at("output.0")), (std::vector<double>{3, 6}));
    EXPECT_EQ(load_double(run.run(Tensors{{"x", row(1, 2)}}).at("output.0")), (std::vector<double>{4, 8}));
    EXPECT_EQ(count(), 4);
    EXPECT_EQ(load_double(run.states().at("last")), (std::vector<double>{1, 2}));
    run.reset();
    EXPECT_EQ(count(), 2);
    EXPECT_EQ(load_double(run.run(Tensors{{"x", row(1, 2)}}).at("output.0")), (std::vector<double>{3, 6}));
  }

  // Python's `last.copy_(x)` copies; the caller may use the memory of x, of an output and of states() again.
  void states_have_memory_of_their_own() const {
    Array x = row(1, 2);
    Tensors outputs = run.run(Tensors{{"x", x}});
    x.mutable_as<float>()[0] = 50;
    Tensors now = run.states();
    now.at("last").mutable_as<float>()[1] = 60;
    EXPECT_EQ(load_double(run.states().at("last")), (std::vector<double>{1, 2}));
    Array given = row(3, 4);
    run.set_states({{"last", given}});
    given.mutable_as<float>()[0] = 70;
    EXPECT_EQ(load_double(run.states().at("last")), (std::vector<double>{3, 4}));
  }

  void wrong_states_change_nothing() const {
    run.reset();
    const Error unknown = error_of([&] { run.set_states({{"count", count_of(9)}, {"counts", count_of(9)}}); });
    EXPECT_EQ(unknown.code(), ErrorCode::bad_input);
    EXPECT_EQ(unknown.message(), "the model has no state counts");
    EXPECT_EQ(unknown.expected(), "count: i64[], last: f32[2]");
    const Error typed = error_of([&] { run.set_states({{"count", count_of(9)}, {"last", float_array({3}, {1, 2, 3})}}); });
    EXPECT_EQ(typed.message(), "state last has another type than the program says");
    EXPECT_EQ(typed.expected(), "f32[2]");
    EXPECT_EQ(count(), 2);
  }

  void states_are_saved_and_loaded() const {
    run.reset();
    run.run(Tensors{{"x", row(5, 6)}});
    run.save_states(recording.file("s.safetensors"));
    run.run(Tensors{{"x", row(1, 1)}});
    run.load_states(recording.file("s.safetensors"));
    EXPECT_EQ(count(), 3);
    EXPECT_EQ(load_double(run.states().at("last")), (std::vector<double>{5, 6}));
    write_safetensors(recording.file("some.safetensors"), {{"count", count_of(9)}});
    const Error missing = error_of([&] { run.load_states(recording.file("some.safetensors")); });
    EXPECT_EQ(missing.message(), "the state last is missing");
    EXPECT_EQ(count(), 3);
  }

  void sessions_are_independent() const {
    run.reset();
    const Run one = run.session(), other = run.session();
    one.run(Tensors{{"x", row(1, 2)}});
    one.run(Tensors{{"x", row(1, 2)}});
    other.run(Tensors{{"x", row(1, 2)}});
    const auto counted = [](const Run& r) { return load_double(r.states().at("count"))[0]; };
    EXPECT_EQ(counted(one), 4);
    EXPECT_EQ(counted(other), 3);
    EXPECT_EQ(counted(run), 2);
    one.reset();
    other.set_states({{"count", count_of(40)}});
    EXPECT_EQ(counted(one), 2);
    EXPECT_EQ(load_double(other.run(Tensors{{"x", row(1, 2)}}).at("output.0")), (std::vector<double>{41, 82}));
    EXPECT_EQ(counted(run), 2);
  }

  void threads_take_turns() const {
    run.reset();
    constexpr int kThreads = 4, kCalls = 50;
    std::vector<std::thread> threads;
    for (int t = 0; t < kThreads; ++t) {
      threads.emplace_back([&, t, session = run.session()] {
        for (int i = 0; i < kCalls; ++i) {
          run.run(Tensors{{"x", row(static_cast<float>(t), static_cast<float>(t))}});
          session.run(Tensors{{"x", row(1, 1)}});
          const std::vector<double> last = load_double(run.states().at("last"));
          EXPECT_EQ(last[0], last[1]) << "of two calls";
        }
        EXPECT_EQ(load_double(session.states().at("count"))[0], 2 + kCalls);
      });
    }
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(count(), 2 + kThreads * kCalls);
  }

  void all() const {
    calls_keep_states();
    states_have_memory_of_their_own();
    wrong_states_change_nothing();
    states_are_saved_and_loaded();
    sessions_are_independent();
    threads_take_turns();
  }
};

TEST(States, OfARecordedModelOnTheReference) {
  const Recording recording;
  const Recorded run = recording.load("reference");
  Expect<Recorded>{run, recording}.all();
}

TEST(States, OfARecordedModelOnTheCpu) {
  const Recording recording;
  const Recorded run = recording.load("cpu");
  Expect<Recorded>{run, recording}.all();
}

TEST(States, OfACompiledModel) {
  const Recording recording;
  const Counter model(Weights::from(first_states()));
  for (const char* backend : {"reference", "cpu"}) {
    const Compiled run = compile(model, {{"x", DType::f32, {2}}}, {.backend = backend});
    run.reset();
    Expect<Compiled>{run, recording}.all();
  }
}

TEST(States, OfACompiledModelThatRunsEagerly) {
  const Recording recording;
  const Counter model(Weights::from(first_states()));
  setenv("PYCANDLE_EAGER", "1", 1);
  const Compiled run = compile(model, {{"x", DType::f32, {2}}});
  Expect<Compiled>{run, recording}.all();
  unsetenv("PYCANDLE_EAGER");
}

TEST(States, ThatACallerHoldsAreThoseOfItsCallsAlone) {
  const Recording recording;
  const Recorded run = recording.load("cpu");
  Tensors mine = run.states();
  run.run({{"x", row(1, 2)}}, mine);
  run.run({{"x", row(1, 2)}}, mine);
  EXPECT_EQ(load_double(mine.at("count"))[0], 4);
  EXPECT_EQ(load_double(run.states().at("count"))[0], 2);
  mine.erase("last");
  EXPECT_EQ(error_of([&] { run.run({{"x", row(1, 2)}}, mine); }).message(), "the state last is missing");
}

TEST(States, StayWhatTheyWereWhenACallFails) {
  const Recording recording;
  const Recorded run = recording.load("cpu");
  run.run({{"x", row(1, 2)}});
  EXPECT_THROW(run.run({{"x", float_array({3}, {1, 2, 3})}}), Error);
  EXPECT_EQ(load_double(run.states().at("count"))[0], 3);
}

}  // namespace
}  // namespace pycandle
