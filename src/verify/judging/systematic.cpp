#include "verify/judging/systematic.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>

#include "ir/op_def.h"

namespace pycandle {
namespace {

// What the convolution reads at some positions of its result, and where these positions are.
struct Windows {
  std::vector<std::vector<double>> read;
  std::vector<size_t> batch, place;
};

const Node* only_convolution(const Program& p) {
  static const std::set<std::string, std::less<>> kOfBias{"broadcast", "add", "reshape", "constant"};
  const Node* found = nullptr;
  for (const Node& node : p.graph.nodes) {
    if (kOfBias.count(node.op->name) != 0) continue;
    if (node.op->name != "convolution" || found != nullptr) return nullptr;
    found = &node;
  }
  return found;
}

Windows windows_of(const Call& call, const Array& x, const Sizes& kernel, const Sizes& result) {
  constexpr size_t kEnough = 128;
  const std::vector<double> values = as_reals(x);
  const Ints &strides = call.integers("strides"), &low = call.integers("padding_low"), &dilation = call.integers("dilation");
  const size_t spatial = kernel.size() - 2;
  const auto volume = [&](const Sizes& shape) { return static_cast<size_t>(element_count({shape.begin() + 2, shape.end()})); };
  const size_t places = volume(result), taps = volume(kernel), plane = volume(x.shape()),
               channels = static_cast<size_t>(x.shape()[1]), all = places * static_cast<size_t>(result[0]);
  Windows windows;
  for (size_t k = 0, count = std::min(all, kEnough); k < count; ++k) {
    const size_t at = k * all / count, place = at % places, batch = at / places;
    const Sizes out = coordinates_of(static_cast<int64_t>(place), {result.begin() + 2, result.end()});
    std::vector<double> read;
    for (size_t tap = 0; tap < taps; ++tap) {
      const Sizes inside = coordinates_of(static_cast<int64_t>(tap), {kernel.begin() + 2, kernel.end()});
      int64_t from = 0;
      bool is_padding = false;
      for (size_t a = 0; a < spatial; ++a) {
        const int64_t i = out[a] * strides[a] - low[a] + inside[a] * dilation[a], size = x.shape()[a + 2];
        is_padding = is_padding || i < 0 || i >= size;
        from = from * size + i;
      }
      for (size_t c = 0; c < channels; ++c)
        read.push_back(is_padding ? 0 : values[(batch * channels + c) * plane + static_cast<size_t>(from)]);
    }
    windows.read.push_back(std::move(read));
    windows.batch.push_back(batch);
    windows.place.push_back(place);
  }
  return windows;
}

}  // namespace

// Let e_p be the errors at position p, one for each channel, and G the products of the windows with each other. Rounding errs
// at one position independently of the others: the sum of G_pq <e_p, e_q> over pairs is 0 on average. Factors d that are the
// same everywhere give e_p = <window_p, d>, and that sum is d² times the sum of G_pq².
std::optional<double> error_of_weights(const Program& p, const std::vector<Array>& inputs, const Evidence& evidence) {
  const Node* node = only_convolution(p);
  if (node == nullptr || unit_roundoff(evidence.golden.dtype()) > unit_roundoff(DType::f32)) return std::nullopt;
  const Call call(*node->op, p.graph, node->operands, node->attributes, node->regions);
  const auto input = std::find_if(p.inputs.begin(), p.inputs.end(), [&](const Input& i) { return i.value == call.value("x"); });
  const Ints& gaps = call.integers("input_dilation");
  const bool is_plain = call.integer("groups") == 1 && std::all_of(gaps.begin(), gaps.end(), [](int64_t g) { return g == 1; });
  if (input == p.inputs.end() || !is_plain) return std::nullopt;
  const Array& x = inputs[static_cast<size_t>(input - p.inputs.begin())];
  const Sizes& result = evidence.golden.shape();
  Sizes kernel;
  for (const Dim& d : call.shape("weight")) {
    if (!d.is_number()) return std::nullopt;
    kernel.push_back(d.number());
  }
  if (result.size() != kernel.size() || x.shape().size() != kernel.size() || result[1] != kernel[0]) return std::nullopt;

  const Windows windows = windows_of(call, x, kernel, result);
  const std::vector<double> golden = as_reals(evidence.golden), exact = as_reals(evidence.f64);
  const size_t count = windows.read.size(), channels = static_cast<size_t>(kernel[0]),
               places = static_cast<size_t>(element_count({result.begin() + 2, result.end()}));
  std::vector<std::vector<double>> errors(count);
  double squares = 0;
  for (size_t k = 0; k < count; ++k) {
    for (size_t c = 0; c < channels; ++c) {
      const size_t i = (windows.batch[k] * channels + c) * places + windows.place[k];
      errors[k].push_back(golden[i] - exact[i]);
      squares += errors[k].back() * errors[k].back();
    }
  }
  const auto product = [](const std::vector<double>& a, const std::vector<double>& b) {
    double sum = 0;
    for (size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
    return sum;
  };
  constexpr double kAlike = 0.98;  // the same numbers are rounded in the same way: such pairs say nothing
  double together = 0, pairs = 0;
  std::vector<double> sizes;
  for (size_t a = 0; a < count; ++a) {
    sizes.push_back(product(windows.read[a], windows.read[a]));
    for (size_t b = 0; b < a; ++b) {
      const double both = product(windows.read[a], windows.read[b]);
      if (both * both > kAlike * sizes[a] * sizes[b]) continue;
      together += 2 * both * product(errors[a], errors[b]);
      pairs += 2 * both * both;
    }
  }
  const auto of_channels = static_cast<double>(channels);
  const double own = std::accumulate(sizes.begin(), sizes.end(), 0.0) / static_cast<double>(count);
  if (!(pairs > 0) || !std::isfinite(together)) return std::nullopt;
  const double size = own * together / (pairs * of_channels);
  const double by_chance = own * squares / (static_cast<double>(count) * of_channels) * std::sqrt(2 / (pairs * of_channels));
  constexpr double kSure = 7;  // standard deviations
  return size > kSure * by_chance ? std::optional(std::sqrt(size)) : std::nullopt;
}

}  // namespace pycandle
