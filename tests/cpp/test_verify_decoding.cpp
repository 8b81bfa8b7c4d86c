// The decode step that is derived from a program: what it is, that it is proven, and that faults in it are found.
#include "base/error.h"
#include "decode_cases.h"
#include "ir/verifier.h"
#include "runtime/decoder.h"
#include "runtime/prefix_store.h"
#include "temporary_folder.h"

namespace pycandle {
namespace {

void expect_proven(const DecodeProof& proof) {
  for (const DecodeSchedule& s : proof.schedules)
    EXPECT_FALSE(s.wrong) << "steps of " << s.chunk << ": token " << s.wrong->position << " of sequence " << s.wrong->sequence
                          << " at " << s.wrong->value << ", " << s.wrong->why;
}

TEST(DecodeStep, IsTheForwardPassAtEveryPosition) {
  for (const PassCase& c : decode_cases("causal")) {
    SCOPED_TRACE(c.title);
    const Program p = parse_program(c.before, catalogue(), c.title);
    const DecodeStep step = derive_decode_step(p, catalogue());
    verify(step.setup, "setup");
    verify(step.step, "step");
    for (const char* backend : {"reference", "cpu"}) {
      SCOPED_TRACE(backend);
      expect_proven(proof_of(p, step, backend));
    }
  }
}

TEST(DecodeStep, KeepsRowsInFewerBytes) {
  for (const char* name : {"sliding", "alibi", "written out", "convolutions"}) {
    const Program p = causal_program(name);
    const auto bytes = [&](const Program& program) {
      return Decoder(derive_decode_step(program, catalogue()), catalogue(), some_weights(p)).new_cache(1, 16).bytes();
    };
    for (const DType dtype : {DType::bf16, DType::f16}) {
      SCOPED_TRACE(std::string(name) + " " + std::string(name_of(dtype)));
      const Program rounded = with_rounded_caches(p, catalogue(), dtype);
      EXPECT_LT(bytes(rounded), bytes(p));
      for (const char* backend : {"reference", "cpu"})
        expect_proven(proof_of(rounded, derive_decode_step(rounded, catalogue()), backend));
      EXPECT_FALSE(proof_of(p, derive_decode_step(rounded, catalogue())).passed()) << "rounding shows";
    }
  }
}

TEST(DecodeStep, IsWrittenInOpsThatEveryBackendRuns) {
  const PassCase c = decode_cases("step").at(0);
  const DecodeStep step = derive_decode_step(parse_program(c.before, catalogue(), c.title), catalogue());
  EXPECT_EQ(print(step.setup, {.origins = false}) + "\n" + print(step.step, {.origins = false}), c.after);
}

TEST(DecodeStep, RefusesWhatSeesLaterPositions) {
  const std::vector<PassCase> refused = decode_cases("refused");
  EXPECT_GE(refused.size(), 10U);
  for (const PassCase& c : refused) {
    SCOPED_TRACE(c.title);
    const std::string reason = c.after.substr(0, c.after.find('\n'));
    try {
      derive_decode_step(parse_program(c.before, catalogue(), c.title), catalogue());
      ADD_FAILURE() << "a step was derived";
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), ErrorCode::gap);
      EXPECT_EQ(e.message(), "no decode step can be derived: " + reason);
    }
  }
}

// ---- caches

struct Running {
  Program program = causal_program("sliding");
  Decoder decoder{derive_decode_step(program, catalogue()), catalogue(), some_weights(program)};

  std::vector<double> logits(Cache& cache, const std::vector<int64_t>& tokens) const {
    const int64_t count = static_cast<int64_t>(tokens.size()) / cache.batch();
    return load_double(decoder.step(cache, {{"tokens", store(DType::i64, {cache.batch(), count}, tokens)}}).at("logits"));
  }
};

TEST(Cache, ForksASequenceThatGoesOnByItself) {
  const Running model;
  Cache one = model.decoder.new_cache(1, 16);
  model.logits(one, {3, 1, 4});
  Cache two = one.fork({0, 0});
  EXPECT_EQ(two.lengths(), (std::vector<int64_t>{3, 3}));
  const std::vector<double> both = model.logits(two, {5, 9});
  EXPECT_EQ(one.lengths(), (std::vector<int64_t>{3})) << "the first is as it was";
  Cache again = one;
  const std::vector<double> left = model.logits(one, {5}), right = model.logits(again, {9});
  EXPECT_EQ(std::vector<double>(both.begin(), both.begin() + 8), left);
  EXPECT_EQ(std::vector<double>(both.begin() + 8, both.end()), right);
}

TEST(Cache, ForgetsTokensThatAreTruncated) {
  const Running model;
  Cache cache = model.decoder.new_cache(1, 16), other = model.decoder.new_cache(1, 16);
  model.logits(cache, {3, 1, 4, 1, 5});
  cache.truncate(0, 2);
  model.logits(other, {3, 1});
  EXPECT_EQ(model.logits(cache, {7, 8}), model.logits(other, {7, 8}));
}

TEST(Cache, IsRestoredFromAFile) {
  const TemporaryFolder folder;
  const std::filesystem::path path = folder.path() / "cache.safetensors";
  const Running model, elsewhere;
  Cache cache = model.decoder.new_cache(2, 16);
  model.decoder.step(cache, {{"tokens", store(DType::i64, {2, 3}, std::vector<int64_t>{3, 1, 4, 2, 7, 0})}}, {3, 2});
  cache.save(path);
  Cache restored = elsewhere.decoder.load_cache(path);
  EXPECT_EQ(restored.lengths(), (std::vector<int64_t>{3, 2}));
  EXPECT_EQ(restored.capacity(), 16);
  EXPECT_EQ(model.logits(cache, {5, 6}), elsewhere.logits(restored, {5, 6}));
}

TEST(Cache, OfAnotherModelIsRefused) {
  const TemporaryFolder folder;
  const std::filesystem::path path = folder.path() / "cache.safetensors";
  const Running model;
  model.decoder.new_cache(1, 16).save(path);
  const Program other = causal_program("alibi");
  const Decoder decoder(derive_decode_step(other, catalogue()), catalogue(), some_weights(other));
  EXPECT_THROW(decoder.load_cache(path), Error);
}

TEST(Cache, SaysWhenItIsFullAndStaysAsItWas) {
  const Running model;
  Cache cache = model.decoder.new_cache(1, 4);
  model.logits(cache, {3, 1, 4});
  try {
    model.logits(cache, {1, 5});
    ADD_FAILURE() << "there was room for one token";
  } catch (const Error& e) {
    EXPECT_EQ(e.message(), "the cache is full");
    EXPECT_EQ(e.expected(), "at most 1 more tokens of sequence 0, which has 3");
  }
  EXPECT_EQ(cache.lengths(), (std::vector<int64_t>{3}));
  EXPECT_NO_THROW(model.logits(cache, {1}));
}

TEST(Cache, GetsMoreRoom) {
  const Running model;
  Cache cache = model.decoder.new_cache(2, 4);
  model.logits(cache, {3, 1, 4, 2, 7, 0});
  Cache larger = model.decoder.resized(cache, 9);
  EXPECT_EQ(larger.capacity(), 9);
  EXPECT_EQ(model.logits(larger, {5, 6}), model.logits(cache, {5, 6}));
  EXPECT_NO_THROW(model.logits(larger, {1, 1}));
  EXPECT_THROW(model.decoder.resized(larger, 4), Error) << "there are 5 tokens in it";
}

TEST(PrefixStore, StartsBehindWhatTwoPromptsShare) {
  const Running model;
  PrefixStore store(model.decoder, size_t{1} << 20);
  Cache seen = model.decoder.new_cache(1, 16);
  model.logits(seen, {3, 1, 4, 1, 5});
  store.keep(seen, 0, {3, 1, 4, 1, 5});
  PrefixStore::Start start = store.start({3, 1, 4, 9, 2}, 12);
  EXPECT_EQ(start.known, 3);
  EXPECT_EQ(start.cache.lengths(), (std::vector<int64_t>{3}));
  EXPECT_EQ(start.cache.capacity(), 12);
  Cache anew = model.decoder.new_cache(1, 12);
  model.logits(anew, {3, 1, 4});
  EXPECT_EQ(model.logits(start.cache, {9, 2}), model.logits(anew, {9, 2}));
  EXPECT_EQ(store.start({3, 1, 4, 1, 5}, 8).known, 4) << "the last token is run, for its result";
  EXPECT_EQ(store.start({7, 1}, 8).known, 0);
  EXPECT_THROW(store.keep(seen, 0, {3, 1}), Error);
}

TEST(PrefixStore, DropsWhatWasNotAskedForLongest) {
  const Running model;
  const auto kept = [&](PrefixStore& store, const std::vector<int64_t>& tokens) {
    Cache cache = model.decoder.new_cache(1, 8);
    model.logits(cache, tokens);
    store.keep(cache, 0, tokens);
  };
  PrefixStore any(model.decoder, size_t{1} << 20);
  kept(any, {1, 2, 3});
  kept(any, {1, 2, 3, 4});
  EXPECT_EQ(any.size(), 1U) << "the first is a prefix of the second";
  PrefixStore store(model.decoder, 2 * any.bytes());
  kept(store, {1, 2, 3, 4});
  kept(store, {5, 6, 7, 8});
  EXPECT_EQ(store.start({1, 2, 9}, 8).known, 2);
  kept(store, {9, 9, 9, 9});
  EXPECT_EQ(store.size(), 2U);
  EXPECT_EQ(store.start({1, 2, 9}, 8).known, 2);
  EXPECT_EQ(store.start({5, 6, 9}, 8).known, 0);
}

TEST(Cache, HasNoMoreRoomThanTheModelHasPositions) {
  const Program p = causal_program("grouped");
  const Decoder decoder(derive_decode_step(p, catalogue()), catalogue(), some_weights(p));
  EXPECT_EQ(decoder.decode_step().longest, 40);
  EXPECT_NO_THROW(decoder.new_cache(1, 40));
  EXPECT_THROW(decoder.new_cache(1, 41), Error);
}

}  // namespace
}  // namespace pycandle
