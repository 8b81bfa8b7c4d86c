// pycandle weights diff: what differs between two checkpoints.
#include <fmt/format.h>

#include <cmath>

#include "base/json.h"
#include "cli/terminal.h"
#include "cli/weights.h"

namespace pycandle::cli {
namespace {

struct Difference {
  std::string name, what;
  double largest = 0;
};

// Largest difference of some elements; NaN in one alone counts as infinite.
double largest_difference(const Array& x, const Array& y) {
  if (x.same_bytes(y)) return 0;
  double largest = 0;
  const auto left = load_complex(x), right = load_complex(y);
  for (size_t i = 0; i < left.size(); ++i) {
    if (left[i] == right[i]) continue;
    const double distance = std::abs(left[i] - right[i]);
    const auto is_nan = [](const std::complex<double>& z) { return std::isnan(z.real()) || std::isnan(z.imag()); };
    if (is_nan(left[i]) && is_nan(right[i])) continue;
    largest = std::isnan(distance) ? std::numeric_limits<double>::infinity() : std::max(largest, distance);
  }
  return largest;
}

// Of two tensors with equal shapes, in pieces: as complex numbers they would take up to 16 times their room.
double largest_difference(const StoredTensor& a, const StoredTensor& b) {
  const auto is_packed = [](const StoredTensor& t) { return t.storage->inflated != 0; };
  if (is_packed(b) && !is_packed(a)) return largest_difference(b, a);  // a packed one comes as one piece
  double largest = 0;
  int64_t at = 0;
  for_each_piece(a, size_t{4} << 20, [&](const Array& piece) {
    largest = std::max(largest, largest_difference(piece, read_range(b, at, piece.size())));
    at += piece.size();
  });
  release(b);
  return largest;
}

void run(const std::filesystem::path& first, const std::filesystem::path& second, Context& context) {
  const Checkpoint a = Checkpoint::open(first), b = Checkpoint::open(second);
  std::vector<Difference> found;
  size_t equal = 0;
  Progress progress("comparing");
  for (size_t i = 0; i < a.tensors().size(); ++i) {
    const StoredTensor& t = a.tensors()[i];
    const StoredTensor* other = b.find(t.name);
    progress.update(i + 1, a.tensors().size());
    if (other == nullptr) {
      found.push_back({t.name, "only in the first"});
    } else if (t.shape != other->shape) {
      found.push_back({t.name, fmt::format("{} and {}", to_string(t.shape), to_string(other->shape))});
    } else {
      const double largest = largest_difference(t, *other);
      if (t.dtype != other->dtype) {
        found.push_back({t.name, fmt::format("{} and {}, {:.3g} apart", t.stored_as(), other->stored_as(), largest), largest});
      } else if (largest > 0) {
        found.push_back({t.name, fmt::format("values differ by up to {:.3g}", largest), largest});
      } else {
        ++equal;
      }
    }
  }
  for (const StoredTensor& t : b.tensors())
    if (a.find(t.name) == nullptr) found.push_back({t.name, "only in the second"});
  progress.finish();
  if (!found.empty()) context.status = 1;
  if (context.json) {
    Json list = Json::array();
    for (const Difference& d : found)
      list.push_back({{"name", d.name}, {"what", d.what}, {"largest", std::isfinite(d.largest) ? Json(d.largest) : Json("inf")}});
    fmt::print("{}\n", Json{{"equal", equal}, {"different", list}}.dump(2, ' ', false, Json::error_handler_t::replace));
    return;
  }
  Table table;
  for (const Difference& d : found) table.row({d.name, d.what});
  fmt::print("{}{} tensors equal, {} different\n", table.text(), equal, found.size());
}

}  // namespace

void add_weights_diff(Command& app, Context& context) {
  struct Options {
    std::filesystem::path first, second;
  };
  auto options = std::make_shared<Options>();
  Command command = add_command(app, context, "diff",
                                "what differs between two checkpoints: names, shapes, values; exit 1 when anything does",
                                "pycandle weights diff base.safetensors tuned.bin");
  command.add_option("first", options->first, "a checkpoint").required();
  command.add_option("second", options->second, "another").required();
  command.callback([options, &context] { run(options->first, options->second, context); });
}

}  // namespace pycandle::cli
