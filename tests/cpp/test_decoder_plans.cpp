// How the cpu backend runs decode steps: one plan for each number of new tokens, rows written where they lie, nothing allocated
// per token, and only the last token's logits where these are wanted.
#include <atomic>
#include <cstdlib>
#include <new>

#include "decode_cases.h"
#include "runtime/decoder.h"
#include "temporary_folder.h"

namespace {

std::atomic<int64_t> allocations{0};

void* counted(size_t bytes) {
  ++allocations;
  if (void* memory = std::malloc(bytes)) return memory;
  throw std::bad_alloc();
}

}  // namespace

void* operator new(size_t bytes) { return counted(bytes); }
void* operator new[](size_t bytes) { return counted(bytes); }
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete[](void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, size_t) noexcept { std::free(memory); }
void operator delete[](void* memory, size_t) noexcept { std::free(memory); }

namespace pycandle {
namespace {

struct Running {
  explicit Running(const std::string& name, int threads = 1)
      : program(causal_program(name)),
        decoder(derive_decode_step(program, catalogue()), catalogue(), some_weights(program), "cpu", options(threads)) {}
  static PipelineOptions options(int threads) {
    PipelineOptions o;
    o.threads = threads;
    return o;
  }

  std::string input() const { return decoder.decode_step().step.inputs[0].name; }
  Decoder::Tensors tokens(int64_t batch, const std::vector<int64_t>& ids) const {
    return {{input(), store(DType::i64, {batch, static_cast<int64_t>(ids.size()) / batch}, ids)}};
  }

  Program program;
  Decoder decoder;
};

const char* const kTransformers[] = {"sliding", "alibi", "grouped", "rolling"};

TEST(Stepper, GivesWhatStepsGive) {
  for (const char* name : kTransformers) {
    SCOPED_TRACE(name);
    const Running model(name);
    Cache cache = model.decoder.new_cache(2, 24);
    model.decoder.step(cache, model.tokens(2, {3, 1, 4, 2, 7, 0}), {3, 2});
    Stepper stepper(model.decoder, cache, 1);  // a copy: the cache goes on by itself
    for (int64_t token = 0; token < 8; ++token) {
      const auto expected = model.decoder.step(cache, model.tokens(2, {token, token + 1}));
      stepper.tokens()[0] = token;
      stepper.tokens()[1] = token + 1;
      const std::vector<Array>& outputs = stepper.step();
      ASSERT_TRUE(outputs[0].same_bytes(expected.begin()->second)) << token;
    }
    const Cache after = std::move(stepper).taken();
    EXPECT_EQ(after.lengths(), cache.lengths());
  }
}

TEST(Stepper, AllocatesNothingPerToken) {
  for (const char* name : kTransformers) {
    for (const int threads : {1, 2}) {
      SCOPED_TRACE(std::string(name) + " with threads: " + std::to_string(threads));
      const Running model(name, threads);
      Stepper stepper(model.decoder, model.decoder.new_cache(1, 32), 1);
      for (int i = 0; i < 3; ++i) stepper.step();
      const int64_t before = allocations;
      for (int i = 0; i < 20; ++i) {
        stepper.tokens()[0] = i % 7;
        stepper.step();
      }
      EXPECT_EQ(allocations - before, 0);
    }
  }
}

TEST(Stepper, SaysWhenTheCacheIsFull) {
  const Running model("sliding");
  Stepper stepper(model.decoder, model.decoder.new_cache(1, 2), 1);
  stepper.step();
  stepper.step();
  EXPECT_THROW(stepper.step(), Error);
  EXPECT_EQ(stepper.cache().lengths(), std::vector<int64_t>{2});
}

TEST(StepLast, GivesTheLastTokensRowsAlone) {
  for (const char* name : kTransformers) {
    SCOPED_TRACE(name);
    const Running model(name);
    for (const std::vector<int64_t>& counts : {std::vector<int64_t>{}, {5, 5}, {5, 2}}) {
      Cache one = model.decoder.new_cache(2, 24), other = one;
      const auto tokens = model.tokens(2, {3, 1, 4, 2, 7, 0, 6, 5, 3, 2});
      const Array all = model.decoder.step(one, tokens, counts).begin()->second;
      const Array last = model.decoder.step_last(other, tokens, counts).begin()->second;
      EXPECT_EQ(one.lengths(), other.lengths());
      ASSERT_EQ(last.shape()[1], 1);
      const int64_t width = all.size() / 10;
      for (int64_t b = 0; b < 2; ++b) {
        const int64_t at = counts.empty() ? 4 : counts[static_cast<size_t>(b)] - 1;
        for (int64_t i = 0; i < width; ++i)
          EXPECT_NEAR(last.as<float>()[b * width + i], all.as<float>()[(b * 5 + at) * width + i], 1e-5);
      }
    }
  }
}

TEST(DecodePlans, AreMadeForTheNumberOfNewTokens) {
  const Running model("sliding");
  Cache cache = model.decoder.new_cache(1, 32);
  model.decoder.step(cache, model.tokens(1, {5}));
  EXPECT_EQ(model.decoder.use().planned.size(), 1U) << "the first run reads the weights where they lie";
  for (int64_t token = 0; token < 20; ++token) model.decoder.step(cache, model.tokens(1, {token % 7}));
  EXPECT_EQ(model.decoder.use().planned.size(), 2U) << "and all others packed ones";
  model.decoder.step(cache, model.tokens(1, {1, 2, 3}));
  EXPECT_EQ(model.decoder.use().planned.size(), 3U);
}

// ---- windows

TEST(RollingCache, HasRoomForItsWindowsWhateverTheCapacity) {
  const Running model("rolling");
  EXPECT_EQ(model.decoder.new_cache(1, 10000).bytes(), model.decoder.new_cache(1, 100).bytes());
  const Running full("sliding");
  EXPECT_LT(50 * full.decoder.new_cache(1, 100).bytes(), full.decoder.new_cache(1, 10000).bytes());
}

TEST(RollingCache, GivesTheLogitsOfAPromptThatIsReadAtOnce) {
  for (const int threads : {1, 2}) {
    const Running model("rolling", threads);
    std::vector<int64_t> text;
    for (int64_t i = 0; i < 70; ++i) text.push_back(i * i % 11);
    Cache cache = model.decoder.new_cache(1, 1000);
    model.decoder.step(cache, model.tokens(1, {text.begin(), text.begin() + 20}));  // more than the usual room
    for (size_t i = 20; i < text.size(); ++i) {
      const Array now = model.decoder.step(cache, model.tokens(1, {text[i]})).begin()->second;
      Cache at_once = model.decoder.new_cache(1, 1000);
      const Array all = model.decoder.step(at_once, model.tokens(1, {text.begin(), text.begin() + i + 1})).begin()->second;
      const int64_t width = now.size();
      for (int64_t j = 0; j < width; ++j)
        ASSERT_NEAR(now.as<float>()[j], all.as<float>()[static_cast<int64_t>(i) * width + j], 1e-5) << i;
    }
    EXPECT_EQ(cache.lengths(), std::vector<int64_t>{70});
  }
}

TEST(RollingCache, GoesBackAsFarAsItsRowsAndIsForkedAndSaved) {
  const Running model("rolling");
  const auto logits = [&](Cache& cache, int64_t token) {
    return model.decoder.step(cache, model.tokens(1, {token})).begin()->second;
  };
  Cache cache = model.decoder.new_cache(1, 100);
  for (int64_t i = 0; i < 50; ++i) logits(cache, i % 11);
  Cache fork = cache.fork({0, 0}).fork({1});
  const TemporaryFolder folder;
  cache.save(folder.path() / "cache.safetensors");
  Cache loaded = model.decoder.load_cache(folder.path() / "cache.safetensors");
  Cache larger = model.decoder.resized(cache, 200);
  const Array expected = logits(cache, 7);
  for (Cache* other : {&fork, &loaded, &larger}) EXPECT_TRUE(logits(*other, 7).same_bytes(expected));
  for (int64_t i = 0; i < 5; ++i) logits(larger, i);
  EXPECT_TRUE(larger.can_truncate(0, 52));
  larger.truncate(0, 52);  // four tokens back: as far as the window
  cache.truncate(0, 50);
  EXPECT_TRUE(logits(cache, 7).same_bytes(expected));
  EXPECT_FALSE(cache.can_truncate(0, 10));
  EXPECT_THROW(cache.truncate(0, 10), Error);
  cache.truncate(0, 0);
  Cache fresh = model.decoder.new_cache(1, 100);
  EXPECT_TRUE(logits(cache, 3).same_bytes(logits(fresh, 3)));
}

TEST(Cache, OfACopyIsNotWrittenByTheOther) {
  const Running model("sliding");
  Cache one = model.decoder.new_cache(1, 16);
  model.decoder.step(one, model.tokens(1, {3, 1, 4}));
  Cache other = one;
  const auto logits = [&](Cache& cache, int64_t token) {
    return model.decoder.step(cache, model.tokens(1, {token})).begin()->second;
  };
  const Array expected = logits(one, 5);
  logits(other, 6);
  logits(other, 2);
  one.truncate(0, 3);
  EXPECT_TRUE(logits(one, 5).same_bytes(expected));
}

}  // namespace
}  // namespace pycandle
