#include "verify/hashes.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "base/file.h"
#include "base/hash.h"
#include "base/hasher.h"
#include "import/bundle.h"

namespace pycandle {
namespace {

// Names and contents of several files.
std::string hash_of(const std::map<std::string, std::filesystem::path>& files) {
  std::string text;
  for (const auto& [name, path] : files) text += name + '\n' + file_hash(path) + '\n';
  return hash128(text).text();
}

}  // namespace

std::string file_hash(const std::filesystem::path& path) {
  constexpr size_t kPiece = size_t{8} << 20;  // a file may be larger than memory
  const auto file = MappedFile::open(path);
  Hasher128 hash;
  for (size_t at = 0; at < file->size(); at += kPiece) {
    const size_t bytes = std::min(kPiece, file->size() - at);
    hash.add(file->data() + at, bytes);
    file->release(file->data() + at, bytes);
  }
  return hash.value().text();
}

std::string folder_hash(const std::filesystem::path& folder) {
  if (!std::filesystem::is_directory(folder)) return file_hash(folder);
  std::map<std::string, std::filesystem::path> files;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
    if (entry.is_regular_file()) files.emplace(entry.path().lexically_relative(folder).generic_string(), entry.path());
  }
  return hash_of(files);
}

std::string library_hash() {
  Dl_info info{};
  const bool is_found = dladdr(reinterpret_cast<const void*>(&library_hash), &info) != 0 && info.dli_fname != nullptr;
  // A program that was found by PATH is named without a folder.
  const std::filesystem::path path = is_found && std::filesystem::is_regular_file(info.dli_fname) ? info.dli_fname
                                                                                                  : "/proc/self/exe";
  return file_hash(path);
}

std::map<std::string, std::string> recording_hashes(const Recording& recording, const std::filesystem::path& manifest,
                                                    const std::vector<std::filesystem::path>& traces,
                                                    const std::vector<std::filesystem::path>& checkpoint) {
  std::map<std::string, std::filesystem::path> goldens;
  for (const std::filesystem::path& trace : traces) goldens.emplace(trace.filename().string(), trace);
  if (recording.bundle) {
    const Section table = recording.bundle->archive.section(kBundleTable);  // it has the hash of every weight
    return {{"manifest", recording.bundle->head},
            {"weights", hash128(table.text()).text()},
            {"goldens", hash_of(goldens)},
            {"library", library_hash()}};
  }
  std::map<std::string, std::filesystem::path> weights;
  const auto add = [&](const std::string& file) {
    if (!file.empty() && checkpoint.empty()) weights.emplace(file, recording.folder / file);
  };
  for (const Parameter& p : recording.program.parameters) add(p.file);
  for (const State& s : recording.program.states) add(s.file);
  for (const std::filesystem::path& file : checkpoint)
    weights.emplace(fmt::format("{} {}", weights.size(), file.filename().string()), file);
  return {{"manifest", file_hash(manifest)},
          {"weights", hash_of(weights)},
          {"goldens", hash_of(goldens)},
          {"library", library_hash()}};
}

}  // namespace pycandle
