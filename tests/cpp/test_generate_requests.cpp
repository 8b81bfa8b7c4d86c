// One language model, many threads: the texts are those of one thread, and the memory is given back.
#include <malloc.h>

#include <thread>

#include "decode_cases.h"
#include "generate/language_model.h"
#include "pycandle/loaded_model.h"
#include "runtime/bundle.h"
#include "temporary_folder.h"

namespace pycandle {
namespace {

constexpr size_t kRequests = 1000, kThreads = 8;

// A bundle of the causal program with positions, grouped heads and a mask.
class Bundled {
 public:
  Bundled() {
    Recording recording;
    recording.program = causal_program("grouped");
    recording.is_program_form = true;
    const DecodeStep step = derive_decode_step(recording.program, catalogue());
    BundleParts parts{recording, some_weights(recording.program), &step};
    parts.verification = R"({"decode": {"passed": true}})";
    write_bundle(path(), ArchiveWriter::Form::file, parts, catalogue());
  }
  std::string path() const { return (folder_.path() / "grouped.pycandle").string(); }

 private:
  TemporaryFolder folder_;
};

struct Request {
  std::vector<TokenId> prompt;
  GenerationOptions options;
};

Request request(size_t i) {
  Request r;
  for (size_t k = 0; k <= i % 5; ++k) r.prompt.push_back(static_cast<TokenId>((7 * k + i) % 8));
  r.options.max_tokens = 3 + static_cast<int64_t>(i % 4);
  r.options.choice.sample = i % 3 == 0;
  r.options.choice.seed = i;
  r.options.choice.temperature = 0.8;
  r.options.prompt_lookup = i % 7 == 1;
  r.options.keep_prefix = i % 11 == 2;
  r.options.use_cache = i % 13 != 3;
  if (i % 17 == 4) r.options.beams = 2;
  if (r.options.beams == 2) r.options.choice.sample = r.options.prompt_lookup = false;
  return r;
}

std::vector<TokenId> answer(const LanguageModel& model, size_t i) {
  const Request r = request(i);
  Generation generation = model.start_tokens({r.prompt}, r.options);
  while (generation.next()) {
  }
  std::vector<TokenId> ids;
  for (const GeneratedToken& token : generation.results()[0].tokens) ids.push_back(token.id);
  return ids;
}

std::vector<std::vector<TokenId>> answers_of(const LanguageModel& model, size_t threads) {
  std::vector<std::vector<TokenId>> answers(kRequests);
  std::vector<std::thread> workers;
  for (size_t t = 0; t < threads; ++t) {
    workers.emplace_back([&, t] {
      for (size_t i = t; i < kRequests; i += threads) answers[i] = answer(model, i);
    });
  }
  for (std::thread& worker : workers) worker.join();
  return answers;
}

TEST(Requests, OfEightThreadsGiveWhatOneGives) {
  const Bundled bundle;
  const LanguageModel model = LanguageModel::load(bundle.path(), {.threads = 1});
  const auto alone = answers_of(model, 1);
  EXPECT_EQ(answers_of(model, kThreads), alone);
  EXPECT_GT(std::set<std::vector<TokenId>>(alone.begin(), alone.end()).size(), 50u);
}

TEST(Requests, OfStepsWithCachesOfTheirOwnGiveWhatOneGives) {
  const Bundled bundle;
  const LoadedModel model = load_model(bundle.path(), {.threads = 1});
  const auto logits = [&](size_t i) {
    const auto length = static_cast<int64_t>(1 + i % 5);
    std::vector<int64_t> ids;
    for (int64_t k = 0; k < length; ++k) ids.push_back((k + static_cast<int64_t>(i)) % 8);
    ModelCache cache = model.new_cache(1, 16);
    model.step(cache, {{"tokens", store(DType::i64, {1, length}, ids)}});
    ModelCache other = cache.fork({0});
    return model.step(other, {{"tokens", store(DType::i64, {1, 1}, std::vector<int64_t>{3})}}).at("logits");
  };
  std::vector<Array> alone;
  for (size_t i = 0; i < 40; ++i) alone.push_back(logits(i));
  std::atomic<size_t> same = 0;
  std::vector<std::thread> workers;
  for (size_t t = 0; t < kThreads; ++t) {
    workers.emplace_back([&, t] {
      for (size_t i = t; i < kRequests; i += kThreads) same += logits(i).same_bytes(alone[i % 40]);
    });
  }
  for (std::thread& worker : workers) worker.join();
  EXPECT_EQ(same, kRequests);
}

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)  // theirs is another heap
TEST(Requests, LeaveTheHeapAsItWas) {
  const Bundled bundle;
  const auto serve = [&] { answers_of(LanguageModel::load(bundle.path(), {.threads = 1}), kThreads); };
  serve();  // what is made once for the process
  const size_t before = mallinfo2().uordblks + mallinfo2().hblkhd;
  serve();
  const size_t after = mallinfo2().uordblks + mallinfo2().hblkhd;
  EXPECT_LT(after, before + kRequests * 8) << "less than one small object for each request";
}
#endif

}  // namespace
}  // namespace pycandle
