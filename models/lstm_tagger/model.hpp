// Tagger, ported from PyTorch by pycandle codegen.
#pragma once

#include <pycandle/pycandle.h>

namespace tagger {
using namespace pycandle;

// Tagger, tagger.py:9
struct Tagger : nn::Module<Tagger> {
  nn::Embedding embedding;
  nn::LSTM lstm;
  nn::LayerNorm norm;
  nn::Linear scores;

  explicit Tagger(const Weights& w, const Checker& checker = {})
      : Module(w, checker),
        embedding(20000, 128, w / "embedding"),
        lstm(128, 256, {.num_layers = 2, .batch_first = true, .bidirectional = true}, w / "lstm"),
        norm(512, w / "norm"),
        scores(512, 17, w / "scores") {}

  Tensor forward(const Tensor& words) const {
    const Tensor states = lstm(embedding(words)).first;
    return functional::log_softmax(scores(norm(states)), -1);
  }
};

}  // namespace tagger
