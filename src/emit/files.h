// Emitted files on disk. Beside them, in .pycandle/emitted, is each file as it was emitted, so that what a person has
// changed since is known, kept, and can be merged.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "emit/header.h"

namespace pycandle::emit {

inline constexpr const char* kEmittedFolder = ".pycandle/emitted";
inline constexpr const char* kLinesEnding = ".lines.json";  // of the file beside an emitted one

struct EmittedFile {
  EmittedFile(std::filesystem::path where, std::string what) : path(std::move(where)), text(std::move(what)) {}
  EmittedFile(std::filesystem::path where, const ProvenHeader& model) : EmittedFile(std::move(where), model.text()) {}

  std::filesystem::path path;   // below the root
  std::string text;
  std::string lines = {};       // what computes what (emit/line_map.h); kept beside the file as it was emitted
};

enum class FileState { missing, same, unedited, edited, foreign };  // foreign: nobody knows that we made it
const char* to_string(FileState);

class EmittedFiles {
 public:
  EmittedFiles(std::filesystem::path root, std::vector<EmittedFile> files) : root_(std::move(root)), files_(std::move(files)) {}

  const std::vector<EmittedFile>& files() const { return files_; }
  void keep_lines(std::string map) { files_.front().lines = std::move(map); }  // of the model's header, which is the first
  std::filesystem::path target(const EmittedFile& f) const { return root_ / f.path; }
  FileState state(const EmittedFile&) const;
  // What writing would change, as a unified diff; empty when nothing.
  std::string diff() const;
  // Takes over what a person changed where both sides changed different lines. An Error that names the lines when they
  // changed the same ones.
  void merge();
  // Everything or nothing: refuses (usage) when a file was edited or is not ours; a full disk leaves what was there.
  void write() const;

 private:
  std::filesystem::path pristine(const EmittedFile& f) const { return root_ / kEmittedFolder / f.path; }
  std::filesystem::path root_;
  std::vector<EmittedFile> files_;
  std::vector<std::string> merged_;  // texts to write in place of the emitted ones; empty: as emitted
};

}  // namespace pycandle::emit
