// What the ways to run a convolution share: a product with the windows or depthwise (lower_convolution.cpp), or in blocks of
// channels (lower_blocked.cpp).
#pragma once

#include <optional>
#include <vector>

#include "backends/cpu/kernel_step.h"

namespace pycandle::cpu {

struct Convolution {
  int64_t batch = 1, channels = 0, height = 1, width = 0, out_channels = 0, out_height = 1, out_width = 0, groups = 1;
  Window window;
  int64_t positions() const { return out_height * out_width; }
  int64_t taps() const { return window.kernel[0] * window.kernel[1]; }
  bool is_plain_product() const {  // 1×1 without steps or padding: the image itself is the matrix
    return taps() == 1 && window.stride[0] == 1 && window.stride[1] == 1 && window.padding[0] == 0 && window.padding[1] == 0;
  }
};

// A convolution on its way into steps.
struct ConvolutionSteps {
  Planner& p;
  const Call& c;
  Convolution v;
  View x, bias;
  ValueId y;                   // what the steps give: the convolution, or what was folded into it
  std::vector<double> scales;  // of the rows of the weights; empty: none
  std::optional<std::vector<double>> known_bias;  // what bias holds, if a batch norm was folded

  // The one node that reads y, when nothing else does.
  std::optional<size_t> only_user() const {
    const auto& users = p.shared().users[y];
    return p.uses(y) == 1 && users.size() == 1 ? std::optional(users[0]) : std::nullopt;
  }
};

// Of a node, with what is folded into its weights.
ConvolutionSteps convolution_steps(Planner&, size_t node, const Call&);

// In blocks of channels, where its input lies so or its result is wanted so; false when neither.
bool add_blocked(ConvolutionSteps&, size_t node);
void add_blocked_pool(Planner&, const Node&, const Pool&);
// The mean's sum over the positions of an image in blocks; false when it is none.
bool reduce_blocked(Planner&, size_t node, Reduction);
// Images in blocks side by side; false when they are not.
bool concat_blocked(Planner&, size_t node);

// A number for each channel, each group filled up to whole blocks.
View constant_blocks(Planner&, const std::vector<double>& values, int64_t groups);

}  // namespace pycandle::cpu
