#include "ops/core/dims_at_samples.h"

#include <algorithm>

namespace pycandle {
namespace {

constexpr int kSamples = 12;

// Sizes within the range: the least ones first, then ones with different residues.
int64_t sample_size(const SymbolRange& range, int sample, size_t symbol) {
  static constexpr int64_t kOffsets[kSamples] = {0, 1, 2, 3, 6, 11, 15, 22, 28, 37, 64, 101};
  int64_t low = std::max<int64_t>(range.min, 0);
  // The first two samples set every symbol to its least size; later ones give neighbours different sizes.
  int64_t offset = sample < 2 ? kOffsets[sample] : kOffsets[(static_cast<size_t>(sample) + 5 * symbol) % kSamples];
  if (!range.max) return low + offset;
  int64_t span = *range.max - low;
  return span <= 0 ? low : low + offset % (span + 1);
}

// Calls f(a, b) at sample bindings until it returns false.
template <class F> void at_samples(Dim a, Dim b, const SymbolRanges& ranges, F f) {
  std::vector<std::string> symbols;
  a.collect_symbols(symbols);
  b.collect_symbols(symbols);
  for (int sample = 0; sample < kSamples; ++sample) {
    Bindings bindings;
    for (size_t i = 0; i < symbols.size(); ++i) {
      auto range = ranges.find(symbols[i]);
      bindings[symbols[i]] = sample_size(range == ranges.end() ? SymbolRange{0, {}} : range->second, sample, i);
    }
    if (!f(a.evaluate(bindings), b.evaluate(bindings))) return;
  }
}

}  // namespace

Agreement compare(Dim a, Dim b, const SymbolRanges& ranges) {
  if (a == b) return Agreement::proven;
  Tri proven = equal(a, b, ranges);
  if (proven != Tri::unknown) return proven == Tri::yes ? Agreement::proven : Agreement::refuted;
  bool same = true;
  at_samples(a, b, ranges, [&](int64_t x, int64_t y) { return same = x == y; });
  return same ? Agreement::observed : Agreement::refuted;
}

Tri seems_at_most(Dim a, Dim b, const Builder& builder) {
  static const SymbolRanges nothing;
  const SymbolRanges& ranges = builder.ranges() ? *builder.ranges() : nothing;
  Tri proven = at_most(a, b, ranges);
  if (proven != Tri::unknown) return proven;
  int holds = 0, fails = 0;
  at_samples(a, b, ranges, [&](int64_t x, int64_t y) {
    ++(x <= y ? holds : fails);
    return true;
  });
  return fails == 0 ? Tri::yes : holds == 0 ? Tri::no : Tri::unknown;
}

}  // namespace pycandle
