// How tokens are chosen: random numbers, penalties, what sampling leaves; stop texts; grammars.
#include <cmath>
#include <limits>

#include "error_of.h"
#include "generate/choosing.h"
#include "generate/grammar.h"
#include "generate/json_schema.h"

namespace pycandle {
namespace {

constexpr float kForbidden = -std::numeric_limits<float>::infinity();

TEST(Random, GivesTheSameNumbersOnEveryMachine) {
  Random random(42, 3), other(42, 4);
  const std::vector<uint64_t> expected = {random.next(), random.next()};
  Random again(42, 3);
  EXPECT_EQ(again.next(), expected[0]);
  EXPECT_EQ(again.next(), expected[1]);
  EXPECT_NE(other.next(), expected[0]);
  double sum = 0;
  for (int i = 0; i < 100000; ++i) {
    const double u = random.uniform();
    ASSERT_GE(u, 0);
    ASSERT_LT(u, 1);
    sum += u;
  }
  EXPECT_NEAR(sum / 100000, 0.5, 0.005);
}

TEST(Penalties, AreAddedInTheOrderOfTransformers) {
  Choice choice;
  choice.logit_bias = {{0, 3}};
  choice.repetition_penalty = 2;
  choice.frequency_penalty = 0.5;
  choice.presence_penalty = 0.25;
  Seen seen({0, 1});  // the prompt
  seen.add(2);
  seen.add(2);
  seen.add(3);
  std::vector<float> scores = {1, -1, 4, -4, 5};
  apply_penalties(choice, seen, scores);
  EXPECT_EQ(scores, (std::vector<float>{2, -2, 2 - 1.25F, -8 - 0.75F, 5}));
}

std::vector<TokenId> tokens_of(const Choice& choice, const std::vector<float>& scores) {
  std::vector<TokenId> tokens;
  for (const auto& [token, probability] : distribution(choice, scores)) tokens.push_back(token);
  return tokens;
}

TEST(Sampling, LeavesWhatTransformersLeaves) {
  const std::vector<float> scores = {std::log(0.1F), std::log(0.4F), std::log(0.2F), std::log(0.2F), std::log(0.1F), kForbidden};
  Choice choice;
  choice.sample = true;
  EXPECT_EQ(tokens_of(choice, scores), (std::vector<TokenId>{0, 1, 2, 3, 4}));
  choice.top_k = 2;  // 3 is as probable as 2
  EXPECT_EQ(tokens_of(choice, scores), (std::vector<TokenId>{1, 2, 3}));
  choice.top_k = 0;
  choice.top_p = 0.39;
  EXPECT_EQ(tokens_of(choice, scores), (std::vector<TokenId>{1}));
  choice.top_p = 0.5;
  EXPECT_EQ(tokens_of(choice, scores), (std::vector<TokenId>{1, 2}));
  choice.top_p = 0.7;
  EXPECT_EQ(tokens_of(choice, scores), (std::vector<TokenId>{1, 2, 3}));
  choice.top_p = 1e-9;
  EXPECT_EQ(tokens_of(choice, scores), (std::vector<TokenId>{1})) << "at least one";
  choice.top_p = 1;
  choice.min_p = 0.45;
  EXPECT_EQ(tokens_of(choice, scores), (std::vector<TokenId>{1, 2, 3}));
  choice.min_p = 0;
  choice.temperature = 0.5;
  const auto probabilities = distribution(choice, scores);
  EXPECT_NEAR(probabilities[1].second / probabilities[0].second, 16, 1e-4);
}

TEST(Greedy, TakesTheFirstOfEqualOnes) {
  Random random(0);
  EXPECT_EQ(choose({}, std::vector<float>{1, 3, 3, 2}, random), 1U);
}

TEST(LogSumExp, TakesLargeNumbers) { EXPECT_NEAR(log_sum_exp(std::vector<float>{1000, 1000}), 1000 + std::log(2.0), 1e-9); }

bool accepts(Reader& reader, std::u32string_view text) {
  Reader::State state = reader.start();
  for (const char32_t c : text) {
    const auto next = reader.next(state, c);
    if (!next) return false;
    state = *next;
  }
  return reader.may_end(state);
}

TEST(JsonSchema, ReadsWhatItAllowsAndNothingElse) {
  Reader reader = json_schema_reader(R"({"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "string"}},
                                         "required": ["b"]})");
  EXPECT_EQ(reader.shortest_end(reader.start()), 8);  // {"b":""}
  for (const char32_t* text : {U"{\"a\":-12, \"b\": \"x\"}", U"{\"b\":\"\\u00e9 ü\\n\"}"}) EXPECT_TRUE(accepts(reader, text));
  for (const char32_t* text : {U"{\"a\":1}", U"{\"a\":01,\"b\":\"\"}", U"{\"b\":\"\",\"a\":1}", U"{\"b\":\"\\ud800\"}",
                               U"{\"b\":1}", U"{}", U"{\"b\":\"\"}}", U"{\"b\":  \"\"}"})
    EXPECT_FALSE(accepts(reader, text));
}

TEST(JsonSchema, CountsItemsAndCharacters) {
  Reader reader = json_schema_reader(
      R"({"type": "array", "items": {"type": "string", "maxLength": 1}, "minItems": 1, "maxItems": 2})");
  for (const char32_t* text : {U"[\"\"]", U"[\"a\",\"\"]"}) EXPECT_TRUE(accepts(reader, text));
  for (const char32_t* text : {U"[]", U"[\"ab\"]", U"[\"\",\"\",\"\"]"}) EXPECT_FALSE(accepts(reader, text));
}

TEST(JsonSchema, OfAnythingKeepsItsStatesFew) {
  Reader reader = json_schema_reader("true");
  std::u32string text = U"[";
  for (int i = 0; i < 500; ++i) text += U"{\"k\":[1.5e3,true,null,\"ü\"]},";
  EXPECT_TRUE(accepts(reader, text + U"0]"));
  EXPECT_FALSE(accepts(reader, text + U"]"));
}

}  // namespace
}  // namespace pycandle
