// Goes on from a prompt with the emitted decode step:  shakespeare RECORDING tokenizer.json PROMPT [SEED]
#include <pycandle/error.h>
#include <pycandle/tokenizer.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <iostream>
#include <random>
#include <string>
#include <vector>

#include "decode.hpp"  // what `pycandle codegen --stateful` wrote

namespace {

using namespace pycandle;

constexpr int64_t kContext = 128;
constexpr double kTemperature = 0.8;
constexpr size_t kTopK = 40;

// One of the most probable tokens, drawn.
int64_t drawn(const float* logits, size_t count, std::mt19937_64& random) {
  std::vector<size_t> order(count);
  for (size_t i = 0; i < count; ++i) order[i] = i;
  const size_t most = std::min(kTopK, count);
  std::partial_sort(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(most), order.end(),
                    [&](size_t a, size_t b) { return logits[a] > logits[b]; });
  std::vector<double> shares(most);
  for (size_t i = 0; i < most; ++i) shares[i] = std::exp((logits[order[i]] - logits[order[0]]) / kTemperature);
  return static_cast<int64_t>(order[std::discrete_distribution<size_t>(shares.begin(), shares.end())(random)]);
}

void write_on(const std::string& recording, const std::string& tokenizer_file, const std::string& prompt, uint64_t seed) {
  const Tokenizer tokenizer = Tokenizer::from_file(tokenizer_file);
  const gpt::GPT model(Weights::open(recording));
  const CompiledDecoder decoder = compile_decoder<gpt::Cache>(model, decode_signature_of(recording));
  Sequences sequences = decoder.start(1, kContext);

  std::vector<int64_t> tokens;
  for (const TokenId id : tokenizer.encode(prompt).ids) tokens.push_back(id);
  std::mt19937_64 random(seed);
  TokenStream text = tokenizer.stream();
  std::cout << prompt;
  while (sequences.lengths()[0] + static_cast<int64_t>(tokens.size()) <= kContext) {
    const Array ids = store(DType::i64, {1, static_cast<int64_t>(tokens.size())}, tokens);
    const Array logits = decoder.step(sequences, {{"ids", ids}}).at("output");
    const auto vocabulary = static_cast<size_t>(logits.shape()[2]);
    const float* last = logits.as<float>() + (tokens.size() - 1) * vocabulary;
    tokens = {drawn(last, vocabulary, random)};
    std::cout << text.next(static_cast<TokenId>(tokens[0])) << std::flush;
  }
  std::cout << text.finish() << "\n";
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4 && argc != 5) {
    std::cerr << "usage: shakespeare RECORDING tokenizer.json PROMPT [SEED]\n";
    return 2;
  }
  try {
    write_on(argv[1], argv[2], argv[3], argc == 5 ? std::stoull(argv[4]) : 1);
    return 0;
  } catch (const pycandle::Error& error) {
    std::cerr << "error: " << error.what() << "\n";
    return pycandle::exit_status(error.code());
  }
}
