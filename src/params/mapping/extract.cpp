#include "params/mapping/extract.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>

#include "base/error.h"
#include "base/file.h"
#include "base/hasher.h"
#include "base/json.h"
#include "base/safetensors_stream.h"

namespace pycandle {
namespace {

namespace fs = std::filesystem;
constexpr size_t kPiece = size_t{8} << 20;

struct Item {
  const ParameterFate* fate;
  DType dtype;
  uint64_t bytes;
};

std::vector<Item> items_of(const Ledger& ledger) {
  std::vector<Item> items;
  for (const ParameterFate& p : ledger.parameters) {
    if (p.fate == Fate::unused || p.fate == Fate::missing || p.fate == Fate::mismatched) continue;
    const DType dtype = p.target.dtype;
    items.push_back({&p, dtype, static_cast<uint64_t>(element_count(p.target.shape)) * size_of(dtype)});
  }
  // The widest elements first: everything is aligned, and nothing is copied when it is mapped.
  std::stable_sort(items.begin(), items.end(), [](const Item& a, const Item& b) { return size_of(a.dtype) > size_of(b.dtype); });
  return items;
}

std::vector<std::vector<Item>> shards_of(const std::vector<Item>& items, uint64_t limit) {
  std::vector<std::vector<Item>> shards(1);
  uint64_t bytes = 0;
  for (const Item& item : items) {
    if (limit != 0 && bytes + item.bytes > limit && !shards.back().empty()) {
      shards.emplace_back();
      bytes = 0;
    }
    shards.back().push_back(item);
    bytes += item.bytes;
  }
  return shards;
}

// out.safetensors → out-00002-of-00003.safetensors
fs::path shard_path(const fs::path& out, size_t index, size_t count) {
  if (count == 1) return out;
  return out.parent_path() / fmt::format("{}-{:05}-of-{:05}{}", out.stem().string(), index + 1, count, out.extension().string());
}

void write_index(const fs::path& path, const Extracted& written) {
  Json map = Json::object();
  for (const auto& [name, file] : written.places) map[name] = file;
  write_text(path, Json{{"metadata", {{"total_size", written.bytes}}}, {"weight_map", map}}.dump(2) + "\n");
}

}  // namespace

Extracted extract(const Ledger& ledger, const Checkpoint& checkpoint, const fs::path& out, uint64_t shard_bytes,
                  const std::map<std::string, Array>& carried, const ProgressFn& progress) {
  const std::vector<Item> items = items_of(ledger);
  const std::vector<std::vector<Item>> shards = shards_of(items, shard_bytes);
  Extracted done;
  uint64_t total = 0;
  for (const Item& item : items) total += item.bytes;
  std::vector<std::unique_ptr<SafetensorsWriter>> writers;  // all shards appear at the end, together
  for (size_t i = 0; i < shards.size(); ++i) {
    const fs::path path = shard_path(out, i, shards.size());
    std::vector<SafetensorsWriter::Planned> planned;
    for (const Item& item : shards[i]) planned.push_back({item.fate->target.name, item.dtype, item.fate->target.shape});
    auto writer = std::make_unique<SafetensorsWriter>(path, planned, std::map<std::string, std::string>{{"format", "pt"}});
    for (const Item& item : shards[i]) {
      const std::string& name = item.fate->target.name;
      Hasher128 hash;
      const auto write = [&](const Array& piece) {
        const Array converted = piece.dtype() == item.dtype ? piece : cast(piece, item.dtype);
        hash.add(converted.data(), converted.bytes());
        writer->write(converted.data(), converted.bytes());
        done.bytes += converted.bytes();
        report(progress, name, done.bytes >> 20, total >> 20);
      };
      if (item.fate->fate == Fate::carried) {
        write(carried.at(name));
      } else {
        for_each_piece(evaluate(item.fate->source, checkpoint), kPiece, write);
      }
      done.checksums[name] = hash.value().text();
      done.places.emplace_back(name, path.filename().string());
    }
    writer->finish();
    writers.push_back(std::move(writer));
    done.files.push_back(path);
  }
  for (const auto& writer : writers) writer->commit();
  if (shards.size() > 1) {
    fs::path index = out;
    index += ".index.json";
    write_index(index, done);
    done.files.push_back(index);
  }
  return done;
}

void attach(const fs::path& manifest, const Extracted& written) {
  Json json = parse_json(read_text(manifest), manifest.string());
  const fs::path folder = fs::absolute(manifest).parent_path();
  const std::map<std::string, std::string> places(written.places.begin(), written.places.end());
  const fs::path where = fs::absolute(written.files.front()).parent_path().lexically_relative(folder);
  for (const char* table : {"parameters", "states"}) {
    if (!json.contains(table)) continue;
    for (Json& entry : json[table]) {
      const std::string name = entry["name"].get<std::string>();
      const auto at = places.find(name);
      if (at == places.end()) continue;
      entry["file"] = (where / at->second).lexically_normal().string();
      entry["key"] = name;
      entry["checksum"] = written.checksums.at(name);
    }
  }
  if (written.files.size() == 1)
    json["files"]["weights"] = (where / written.files.front().filename()).lexically_normal().string();
  write_text(manifest, json.dump(1) + "\n");
}

}  // namespace pycandle
