// VisionTransformer, ported from PyTorch by pycandle codegen.
#pragma once

#include <pycandle/pycandle.h>

namespace vision_transformer {
using namespace pycandle;

struct Config {
  int64_t hidden_dim = 768;
  int64_t mlp_dim = 3072;
  int64_t patch_size = 16;
  int64_t num_classes = 1000;
};

// MLPBlock, torchvision/models/vision_transformer.py:40 (12 instances)
struct MLPBlock : nn::Module<MLPBlock> {
  nn::Linear linear_0, linear_3;
  nn::GELU act;

  MLPBlock(const Config& c, const Weights& w)
      : Module(w),
        linear_0(c.hidden_dim, c.mlp_dim, w / "0"),
        linear_3(c.mlp_dim, c.hidden_dim, w / "3"),
        act(w / "1") {}

  Tensor forward(const Tensor& input) const {
    return linear_3(act(linear_0(input)));
  }
};

// EncoderBlock, torchvision/models/vision_transformer.py:86 (12 instances)
struct EncoderBlock : nn::Module<EncoderBlock> {
  nn::LayerNorm ln_1, ln_2;
  nn::MultiheadAttention self_attention;
  MLPBlock mlp;

  EncoderBlock(const Config& c, const Weights& w)
      : Module(w),
        ln_1(c.hidden_dim, {.eps = 1e-06}, w / "ln_1"),
        ln_2(c.hidden_dim, {.eps = 1e-06}, w / "ln_2"),
        self_attention(c.hidden_dim, 12, {.batch_first = true}, w / "self_attention"),
        mlp(c, w / "mlp") {}

  Tensor forward(const Tensor& input) const {
    const Tensor x = self_attention(ln_1(input)) + input;
    const Tensor y = mlp(ln_2(x));
    return x + y;
  }
};

// Encoder, torchvision/models/vision_transformer.py:122
struct Encoder : nn::Module<Encoder> {
  Tensor pos_embedding;
  nn::ModuleList<EncoderBlock> encoder_layers;
  nn::LayerNorm ln;

  Encoder(const Config& c, const Weights& w)
      : Module(w),
        pos_embedding(w.get("pos_embedding")),
        encoder_layers(12,
            [&](int64_t i) { return EncoderBlock(c, w / ("layers.encoder_layer_" + std::to_string(i))); }),
        ln(c.hidden_dim, {.eps = 1e-06}, w / "ln") {}

  Tensor forward(Tensor input) const {
    input = input + pos_embedding;
    for (const EncoderBlock& encoder_layer : encoder_layers) input = encoder_layer(input);
    return ln(input);
  }
};

// VisionTransformer, torchvision/models/vision_transformer.py:160
struct VisionTransformer : nn::Module<VisionTransformer> {
  Tensor class_token;
  nn::Conv2d conv_proj;
  Encoder encoder;
  nn::Sequential<nn::Linear> heads;

  explicit VisionTransformer(const Weights& w, const Checker& checker = {}, const Config& c = {})
      : Module(w, checker),
        class_token(w.get("class_token")),
        conv_proj(3, c.hidden_dim, c.patch_size, {.stride = c.patch_size}, w / "conv_proj"),
        encoder(c, w / "encoder"),
        heads(w / "heads", nn::Linear(c.hidden_dim, c.num_classes, w / "heads.head")) {}

  Tensor forward(Tensor x) const {
    const Tensor batch_class_token = class_token.expand({x.dim(0), -1, -1});
    x = encoder(cat({batch_class_token, conv_proj(x).flatten(2).transpose(1, 2)}, 1)).select(1, 0);
    return heads(x);
  }
};

}  // namespace vision_transformer
