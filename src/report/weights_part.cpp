// Parameters: their sizes, and with the weights at hand what their values look like.
#include <fmt/format.h>

#include <cmath>

#include "base/error.h"
#include "base/hash.h"
#include "params/statistics.h"
#include "report/parts.h"
#include "runtime/model.h"

namespace pycandle::report {
namespace {

constexpr int64_t kPiece = 1 << 20;  // elements that are converted at a time
constexpr int kBins = 24;

template <class Visit> void for_each_element(const Array& array, const Visit& visit) {
  const auto owner = std::make_shared<const Array>(array);
  const auto* bytes = static_cast<const std::byte*>(array.data());
  for (int64_t first = 0; first < array.size(); first += kPiece) {
    const int64_t count = std::min(kPiece, array.size() - first);
    const Array piece(array.dtype(), {count}, bytes + static_cast<size_t>(first) * size_of(array.dtype()), owner);
    if (is_complex(array.dtype())) {
      for (const auto& z : load_complex(piece)) visit(std::abs(z));
    } else {
      for (const double v : load_double(piece)) visit(v);
    }
  }
}

void add_statistics(const Array& array, Json& row) {
  Statistics s;
  for_each_element(array, [&](double v) { s.add(v); });
  row["zeros"] = s.zeros;
  if (s.nan > 0) row["nan"] = s.nan;
  if (s.infinite > 0) row["infinite"] = s.infinite;
  if (const std::string oddity = s.oddity(); !oddity.empty()) row["odd"] = oddity;
  if (s.finite() == 0) return;
  row.update(
      Json{{"min", rounded(s.min)}, {"max", rounded(s.max)}, {"mean", rounded(s.mean())}, {"std", rounded(s.deviation())}});
  if (!(s.max > s.min)) return;
  std::vector<int64_t> bins(kBins);
  for_each_element(array, [&](double v) {
    if (std::isfinite(v)) ++bins[static_cast<size_t>(std::min<double>(kBins - 1, (v - s.min) / (s.max - s.min) * kBins))];
  });
  row["histogram"] = bins;
}

}  // namespace

Json weights_part(const Recording& recording, bool with_statistics) {
  static constexpr const char* kKinds[] = {"parameter", "buffer", "constant"};
  const std::shared_ptr<const ParameterSource> source = recorded_parameters(recording);
  std::map<std::pair<uint64_t, uint64_t>, std::string> seen;  // content → the first parameter with it
  std::string why;
  Json rows = Json::array();
  for (const Parameter& p : recording.program.parameters) {
    const int64_t elements = all_numbers(p.type.shape) ? product(p.type.shape).number() : 0;
    Json row{{"name", p.name},   {"type", p.type.text()}, {"kind", kKinds[static_cast<size_t>(p.kind)]},
             {"value", p.value}, {"elements", elements},  {"bytes", elements * static_cast<int64_t>(size_of(p.type.dtype))}};
    if (!p.aliases.empty()) row["tied"] = p.aliases;
    if (with_statistics && why.empty() && p.file.empty()) why = "the recording has no weights";
    if (with_statistics && why.empty()) {
      try {
        const Array array = source->get(p);
        add_statistics(array, row);
        const Hash128 hash = hash128(std::string_view(static_cast<const char*>(array.data()), array.bytes()));
        const auto [first, fresh] = seen.try_emplace({hash.high, hash.low}, p.name);
        if (!fresh && elements > 1) row["same_as"] = first->second;
        source->release(array);
      } catch (const Error& error) {
        why = error.message();
      }
    }
    rows.push_back(std::move(row));
  }
  if (!with_statistics) why = "they were left out (--no-weights)";
  return {{"rows", rows}, {"no_statistics", why}};
}

}  // namespace pycandle::report
