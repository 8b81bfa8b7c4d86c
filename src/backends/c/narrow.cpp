#include "backends/c/narrow.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>
#include <vector>

#include "backends/c/lowerings.h"
#include "backends/c/text.h"

namespace pycandle::c {
namespace {

constexpr int64_t kWidth = 16;  // of a panel

// The scale of which every number is a whole multiple, up to 127; nothing when there is none.
std::optional<float> scale_of(const float* x, int64_t count, int64_t stride) {
  float largest = 0;
  for (int64_t i = 0; i < count; ++i) {
    if (!std::isfinite(x[i * stride])) return std::nullopt;
    largest = std::max(largest, std::fabs(x[i * stride]));
  }
  if (largest == 0) return 0.0F;
  const float guess = largest / 127;  // 127 times the scale was rounded: it may be the number beside this one
  for (const float scale : {guess, std::nextafter(guess, 0.0F), std::nextafter(guess, largest)}) {
    bool fits = true;
    for (int64_t i = 0; i < count && fits; ++i) {
      const float number = x[i * stride];
      fits = std::nearbyint(number / scale) * scale == number;
    }
    if (fits) return scale;
  }
  return std::nullopt;
}

struct Panels {
  Array numbers, scales;
};

std::optional<Panels> panels_of(const float* x, const WeightMatrix& m) {
  const int64_t panels = (m.outputs + kWidth - 1) / kWidth;
  Panels made{Array(DType::i8, {panels, m.inputs, kWidth}), Array(DType::f32, {panels, kWidth})};
  auto* numbers = made.numbers.mutable_as<int8_t>();
  auto* scales = made.scales.mutable_as<float>();
  for (int64_t n = 0; n < m.outputs; ++n) {
    const float* output = x + n * m.output_stride;
    const std::optional<float> scale = scale_of(output, m.inputs, m.input_stride);
    if (!scale) return std::nullopt;
    scales[n] = *scale;
    int8_t* column = numbers + n / kWidth * m.inputs * kWidth + n % kWidth;
    for (int64_t k = 0; k < m.inputs; ++k)
      column[k * kWidth] = *scale == 0 ? int8_t{0} : static_cast<int8_t>(std::nearbyint(output[k * m.input_stride] / *scale));
  }
  return made;
}

}  // namespace

bool has_int8_weights(const Graph& g) {
  return std::any_of(g.nodes.begin(), g.nodes.end(), [&](const Node& node) {
    return node.op->name == "stored_as" &&
           Call(*node.op, g, node.operands, node.attributes, node.regions).string("format") == "int8";
  });
}

std::optional<Int8Weight> int8_weight(Generator& g, const WeightMatrix& m) {
  if (!g.has_int8 || g.buffers[m.view.buffer].place != Buffer::Place::weight || !m.view.moving.empty()) return std::nullopt;
  if (g.buffers[m.view.buffer].dtype != DType::f32) return std::nullopt;
  const std::string key = formatted("{}/{}/{}/{}/{}/{}", m.view.buffer, m.view.offset, m.outputs, m.inputs, m.output_stride,
                                    m.input_stride);
  const auto found = g.int8_weights.find(key);
  if (found != g.int8_weights.end()) return found->second;
  std::optional<Int8Weight> made;
  if (std::optional<Panels> panels = panels_of(g.buffers[m.view.buffer].data.as<float>() + m.view.offset, m))
    made = Int8Weight{g.weight(std::move(panels->numbers)), g.weight(std::move(panels->scales))};
  return g.int8_weights.emplace(key, std::move(made)).first->second;
}

void take_int8(Site& at, const Int8Weight& weight) {
  const View indices = at.view("indices"), y = at.g.fresh(at.s, at.node.results[0]);
  const int64_t rows = at.sizes("x")[0], width = at.sizes("x")[1];
  Writer w(at.g, "take");
  const std::string in = w.reads(weight.numbers, "w"), scales = w.reads(weight.scales, "scales"),
                    index = w.reads(indices, "indices"), out = w.writes(y, "y"), status = w.writes(at.g.status(), "failed");
  std::vector<std::pair<std::string, int64_t>> place, to;
  for (size_t a = 0; a < indices.sizes.size(); ++a) {
    const std::string i = w.fresh(std::string(1, static_cast<char>('i' + a % 8)));
    w.loop(i, indices.sizes[a]);
    place.emplace_back(i, indices.strides[a]);
    to.emplace_back(i, y.strides[a]);
  }
  const std::string row = print_index(w, status, formatted("{}[{}]", index, sum_of(place)), rows, false);
  const std::string j = w.fresh("j");
  w.loop(j, width);
  to.emplace_back(j, y.strides.back());
  w.line(formatted("{0}[{1}] = {2}[{3}] * (float){4}[({3} / 16 * {5} + {6}) * 16 + {3} % 16];", out, sum_of(to), scales, row, in,
                   width, j));
  w.close(1 + indices.sizes.size());
  at.g.emit(w);
  at.g.define(at.s, at.node.results[0], y);
}

}  // namespace pycandle::c
