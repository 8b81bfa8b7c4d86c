// Parameters: their sizes, and with the weights at hand what their values look like.
#include <fmt/format.h>

#include <cmath>

#include "base/error.h"
#include "base/file.h"
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

// Along the first axis, which is a unit's in most layers: rows of a matrix, channels of a convolution.
class DeadRows {
 public:
  explicit DeadRows(const Array& a) : length_(a.shape().size() > 1 && a.size() > 0 ? a.size() / a.shape()[0] : 0) {}
  void add(double v) {
    if (length_ == 0) return;
    is_dead_ = is_dead_ && v == 0;
    if (++at_ < length_) return;
    dead_ += is_dead_;
    at_ = 0;
    is_dead_ = true;
  }
  int64_t count() const { return dead_; }

 private:
  int64_t length_, at_ = 0, dead_ = 0;
  bool is_dead_ = true;
};

void add_statistics(const Array& array, Json& row) {
  Statistics s;
  DeadRows rows(array);
  for_each_element(array, [&](double v) {
    s.add(v);
    rows.add(v);
  });
  row["zeros"] = s.zeros;
  if (rows.count() > 0 && s.zeros < s.count) row["dead_rows"] = {rows.count(), array.shape()[0]};
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

Json read_ledger(const Recording& recording, const ParameterSource& source, const std::filesystem::path& file) {
  if (file.empty()) return parse_json(to_json(recorded_ledger(recording, source)), "the ledger");
  Json ledger = parse_json(read_text(file), file.string());
  const auto refuse = [&](const std::string& what) {
    throw Error(ErrorCode::bad_input, fmt::format("{} is not the ledger of this model", file.string()))
        .found(what)
        .hint("pycandle weights extract --ledger FILE writes one");
  };
  if (!ledger.is_object() || !ledger.contains("parameters") || !ledger.contains("tensors") || !ledger.contains("counts"))
    refuse("no parameters, tensors and counts");
  if (!ledger["parameters"].is_array() || !ledger["tensors"].is_array()) refuse("no lists of parameters and tensors");
  return ledger;
}

// Where each parameter came from into its row, and what the page says about the whole.
Json add_fates(const Json& ledger, const std::filesystem::path& file, Json& rows) {
  std::map<std::string, const Json*> fates;
  for (const Json& p : ledger["parameters"]) fates.emplace(text_in(p, "name"), &p);
  for (Json& row : rows) {
    const auto at = fates.find(row["name"].get<std::string>());
    if (at == fates.end())
      throw Error(ErrorCode::bad_input, fmt::format("{} is not the ledger of this model", file.string()))
          .found("no parameter " + row["name"].get<std::string>());
    for (const char* key : {"fate", "source", "note"})
      if (std::string text = text_in(*at->second, key); !text.empty()) row[key] = std::move(text);
  }
  Json left = Json::array();  // tensors that are no parameter's own
  for (const Json& t : ledger["tensors"])
    if (const std::string fate = text_in(t, "fate"); fate == "unused" || fate == "tied to")
      left.push_back({{"name", text_in(t, "name")}, {"fate", fate}});
  return {{"counts", ledger["counts"]}, {"tensors", ledger["tensors"].size()}, {"left", left}};
}

}  // namespace

Json weights_part(const Recording& recording, const Sources& sources) {
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
    if (sources.weights && why.empty() && p.file.empty() && !recording.bundle) why = "the recording has no weights";
    if (sources.weights && why.empty()) {
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
    if (sources.progress) sources.progress(rows.size(), recording.program.parameters.size());
  }
  if (!sources.weights) why = "they were left out (--no-weights)";
  Json fates = nullptr;
  try {
    fates = add_fates(read_ledger(recording, *source, sources.ledger), sources.ledger, rows);
  } catch (const Error& error) {
    if (!sources.ledger.empty()) throw;
    if (why.empty()) why = error.message();  // the recording's files cannot be read
  }
  return {{"rows", rows}, {"ledger", fates}, {"no_statistics", why}};
}

}  // namespace pycandle::report
