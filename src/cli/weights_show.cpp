// pycandle weights show: the tensors of a checkpoint, with what is odd about them.
#include <fmt/format.h>

#include <cmath>

#include "base/json.h"
#include "cli/terminal.h"
#include "cli/weights.h"
#include "params/statistics.h"

namespace pycandle::cli {
namespace {

constexpr size_t kPiece = size_t{8} << 20;

Statistics statistics_of(const StoredTensor& t) {
  Statistics s;
  for_each_piece(t, kPiece, [&](const Array& piece) {
    if (is_complex(piece.dtype())) {
      for (const auto& z : load_complex(piece)) s.add(std::abs(z));
    } else {
      for (const double v : load_double(piece)) s.add(v);
    }
  });
  return s;
}

bool is_alike(const StoredTensor& a, const StoredTensor& b) {
  return a.storage == b.storage && a.offset == b.offset && a.shape == b.shape && a.strides == b.strides;
}

// An earlier tensor that is the same bytes.
std::string same_as(const Checkpoint& checkpoint, size_t i) {
  for (size_t j = 0; j < i; ++j)
    if (is_alike(checkpoint.tensors()[i], checkpoint.tensors()[j])) return checkpoint.tensors()[j].name;
  return {};
}

struct Options {
  std::filesystem::path file;
  bool stats = false, metadata = false;
  std::optional<std::string> section;
};

void show(const Options& options, const Context& context) {
  const Checkpoint checkpoint = Checkpoint::open(options.file, {options.section});
  Table table;
  Json list = Json::array();
  uint64_t bytes = 0;
  double elements = 0;
  size_t odd = 0;
  Progress progress("reading");
  for (size_t i = 0; i < checkpoint.tensors().size(); ++i) {
    const StoredTensor& t = checkpoint.tensors()[i];
    const std::string same = same_as(checkpoint, i);
    bytes += same.empty() ? t.stored_bytes() : 0;
    elements += same.empty() ? static_cast<double>(t.size()) : 0;
    std::vector<std::string> row = {t.name, fmt::format("{}{}", t.stored_as(), to_string(t.shape))};
    Json entry{{"name", t.name},
               {"dtype", name_of(t.dtype)},
               {"shape", t.shape},
               {"stored", t.stored_as()},
               {"bytes", t.stored_bytes()}};
    if (!same.empty()) entry["same_as"] = same;
    std::string note = same.empty() ? std::string() : "same as " + same;
    if (options.stats && t.size() > 0) {
      const Statistics s = statistics_of(t);
      const bool some = s.finite() > 0;
      row.push_back(some ? fmt::format("min {:.4g}  mean {:.4g}  max {:.4g}  std {:.4g}", s.min, s.mean(), s.max, s.deviation())
                         : "");
      if (some) entry.update(Json{{"min", s.min}, {"mean", s.mean()}, {"max", s.max}, {"std", s.deviation()}});
      entry.update(Json{{"nan", s.nan}, {"infinite", s.infinite}, {"zeros", s.zeros}});
      if (const std::string oddity = s.oddity(); !oddity.empty()) {
        entry["odd"] = oddity;
        note += (note.empty() ? "" : ", ") + oddity;
        ++odd;
      }
    }
    row.push_back(styled(note, note.empty() ? Style::plain : Style::yellow));
    table.row(std::move(row));
    list.push_back(std::move(entry));
    progress.update(i + 1, checkpoint.tensors().size());
  }
  progress.finish();
  if (context.json) {
    Json left = Json::object();
    for (const LeftOut& other : checkpoint.left_out()) left[other.section] = other.count;
    fmt::print("{}\n", Json{{"format", checkpoint.format()},
                            {"section", checkpoint.section()},
                            {"left_out", left},
                            {"sections", checkpoint.sections()},
                            {"bytes", bytes},
                            {"metadata", checkpoint.metadata()},
                            {"tensors", list}}
                           .dump(2, ' ', false, Json::error_handler_t::replace));
    return;
  }
  fmt::print("{} · {} · {} tensors · {} elements · {}\n", styled(options.file.filename().string(), Style::bold),
             checkpoint.format(), checkpoint.tensors().size(), human_count(elements), human_bytes(static_cast<double>(bytes)));
  if (const std::string line = left_out_text(checkpoint); !line.empty()) fmt::print("{}\n", line);
  if (!checkpoint.sections().empty()) fmt::print("{}\n", styled(sections_text(checkpoint), Style::yellow));
  if (options.metadata) {
    Table fields;
    for (const auto& [key, value] : checkpoint.metadata()) fields.row({key, shown_text(value)});
    fmt::print("{}", fields.text());
  }
  fmt::print("{}", table.text("  ", {2}));
  if (odd > 0) fmt::print("{} tensors are odd: dead, constant, NaN or infinite\n", odd);
}

}  // namespace

void add_weights_show(Command& app, Context& context) {
  auto options = std::make_shared<Options>();
  Command command = add_command(app, context, "show", "the tensors of a checkpoint: safetensors, torch, GGUF, NumPy or HDF5",
                                "pycandle weights show model.safetensors --stats");
  command.add_option("file", options->file, "a file, an index.json, or the folder of a checkpoint").required();
  command.add_flag("--stats", options->stats, "read every tensor: range, mean, NaN, dead ones");
  command.add_flag("--metadata", options->metadata, "what the file says beside its tensors");
  add_section_option(command, options->section);
  command.callback([options, &context] { show(*options, context); });
}

}  // namespace pycandle::cli
