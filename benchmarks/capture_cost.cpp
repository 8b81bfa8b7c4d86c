// What capturing costs: a GPT-2 of 12 layers (or as many as the argument says), nodes and microseconds each. Processor time,
// the best of several captures.
//
//   g++ -std=c++20 -O2 benchmarks/capture_cost.cpp $(pkg-config --cflags --libs pycandle)
#include <pycandle/pycandle.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <ctime>

using namespace pycandle;

struct Block : nn::Module<Block> {
  nn::LayerNorm ln_1, ln_2;
  nn::Linear c_attn, c_proj, c_fc, c_out;

  explicit Block(const Weights& w)
      : Module(w),
        ln_1(64, w / "ln_1"),
        ln_2(64, w / "ln_2"),
        c_attn(64, 192, w / "c_attn"),
        c_proj(64, 64, w / "c_proj"),
        c_fc(64, 256, w / "c_fc"),
        c_out(256, 64, w / "c_out") {}

  Tensor forward(Tensor x) const {
    const Dim batch = x.dim(0), length = x.dim(1);
    auto [q, k, v] = c_attn(ln_1(x)).chunk<3>(-1);
    const auto heads = [&](const Tensor& t) { return t.reshape({batch, length, 4, 16}).transpose(1, 2); };
    const Tensor scores = matmul(heads(q), heads(k).transpose(2, 3)) * 0.25;
    const Tensor mask = arange(length).unsqueeze(1) >= arange(length);
    const Tensor weights = functional::softmax(where(mask, scores, -1e9), -1);
    x = x + c_proj(matmul(weights, heads(v)).transpose(1, 2).reshape({batch, length, 64}));
    return x + c_out(functional::gelu(c_fc(ln_2(x))));
  }
};

Weights zeros(int64_t layers) {
  std::map<std::string, Array> all;
  for (int64_t i = 0; i < layers; ++i) {
    const std::string at = std::to_string(i) + ".";
    for (const char* name : {"ln_1", "ln_2"}) {
      all.emplace(at + name + ".weight", Array(DType::f32, {64}));
      all.emplace(at + name + ".bias", Array(DType::f32, {64}));
    }
    const auto linear = [&](const char* name, int64_t in, int64_t out) {
      all.emplace(at + name + ".weight", Array(DType::f32, {out, in}));
      all.emplace(at + name + ".bias", Array(DType::f32, {out}));
    };
    linear("c_attn", 64, 192);
    linear("c_proj", 64, 64);
    linear("c_fc", 64, 256);
    linear("c_out", 256, 64);
  }
  return Weights::from(std::move(all));
}

int main(int count, char** arguments) {
  const int64_t layers = count > 1 ? std::atoi(arguments[1]) : 12;
  const nn::ModuleList<Block> blocks(layers, zeros(layers));
  const auto model = [&](Tensor x) {
    for (const Block& block : blocks) x = block(x);
    return x;
  };
  double best = 1e9;
  size_t nodes = 0;
  for (int turn = 0; turn < 20; ++turn) {
    const std::clock_t start = std::clock();
    nodes = capture_only(model, {{"x", DType::f32, {"batch", "length", 64}}});
    best = std::min(best, static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC);
  }
  std::printf("%zu nodes, %.2f us each\n", nodes, 1e6 * best / static_cast<double>(nodes));
}
