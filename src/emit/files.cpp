#include "emit/files.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <optional>

#include "base/error.h"
#include "base/file.h"
#include "emit/line_diff.h"

namespace pycandle::emit {
namespace {

std::optional<std::string> text_if_there(const std::filesystem::path& path) {
  std::error_code failure;
  if (!std::filesystem::exists(path, failure)) return {};
  if (!std::filesystem::is_regular_file(path, failure)) {
    throw Error(ErrorCode::usage, "the output is there already and is no file").found(path.string());
  }
  return read_text(path);
}

// What was written so far, so that a full disk leaves everything as it was.
class Written {
 public:
  void make_folder(const std::filesystem::path& folder) {
    std::error_code failure;
    if (folder.empty() || std::filesystem::is_directory(folder, failure)) return;
    make_folder(folder.parent_path());
    std::filesystem::create_directory(folder, failure);
    if (failure) {
      throw Error(ErrorCode::usage, "the folder of the output cannot be made")
          .found(fmt::format("{}: {}", folder.string(), failure.message()));
    }
    folders_.push_back(folder);
  }
  void write(const std::filesystem::path& path, const std::string& text) {
    auto before = text_if_there(path);
    write_text(path, text);
    files_.emplace_back(path, std::move(before));
  }
  void undo() {
    std::error_code ignored;
    for (auto file = files_.rbegin(); file != files_.rend(); ++file) {
      if (file->second) {
        write_text(file->first, *file->second);
      } else {
        std::filesystem::remove(file->first, ignored);
      }
    }
    for (auto folder = folders_.rbegin(); folder != folders_.rend(); ++folder) std::filesystem::remove(*folder, ignored);
  }

 private:
  std::vector<std::filesystem::path> folders_;
  std::vector<std::pair<std::filesystem::path, std::optional<std::string>>> files_;  // and their text before
};

}  // namespace

const char* to_string(FileState state) {
  switch (state) {
    case FileState::missing: return "new";
    case FileState::same: return "unchanged";
    case FileState::unedited: return "changed";
    case FileState::edited: return "edited";
    case FileState::foreign: return "not made by codegen";
  }
  return "";
}

FileState EmittedFiles::state(const EmittedFile& f) const {
  const auto there = text_if_there(target(f));
  if (!there) return FileState::missing;
  if (*there == f.text) return FileState::same;
  const auto emitted = text_if_there(pristine(f));
  if (!emitted) return FileState::foreign;
  return *there == *emitted ? FileState::unedited : FileState::edited;
}

std::string EmittedFiles::diff() const {
  std::string all;
  for (const EmittedFile& f : files_) {
    all += unified_diff(text_if_there(target(f)).value_or(""), f.text, target(f).string());
  }
  return all;
}

void EmittedFiles::merge() {
  merged_.clear();
  for (const EmittedFile& f : files_) {
    merged_.push_back(f.text);
    const FileState now = state(f);
    if (now == FileState::foreign) {
      throw Error(ErrorCode::usage, "what is there was not made by codegen, so nothing can be merged with it")
          .found(target(f).string())
          .hint("choose another --out, or move the file away");
    }
    if (now != FileState::edited) continue;
    const Merge result = three_way_merge(*text_if_there(pristine(f)), *text_if_there(target(f)), f.text);
    if (!result.conflicts.empty()) {
      throw Error(ErrorCode::verdict, "the same lines were edited and are emitted differently now; nothing was written")
          .found(fmt::format("{} line {}", target(f).string(), fmt::join(result.conflicts, ", ")))
          .hint("--diff shows both; take over one of them by hand");
    }
    merged_.back() = result.text;
  }
}

void EmittedFiles::write() const {
  for (const EmittedFile& f : files_) {
    const FileState now = state(f);
    const bool refused = now == FileState::foreign || (now == FileState::edited && merged_.empty());
    if (!refused) continue;
    throw Error(ErrorCode::usage, now == FileState::edited ? "the output was edited since it was emitted; nothing was written"
                                                           : "the output exists and was not made by codegen; nothing was written")
        .found(target(f).string())
        .hint(now == FileState::edited ? "--diff shows the difference, --merge keeps both changes, or choose another --out"
                                       : "choose another --out, or move the file away");
  }
  Written written;
  try {
    for (const EmittedFile& f : files_) {
      written.make_folder(target(f).parent_path());
      written.make_folder(pristine(f).parent_path());
    }
    for (size_t i = 0; i < files_.size(); ++i) {
      written.write(target(files_[i]), merged_.empty() ? files_[i].text : merged_[i]);
      written.write(pristine(files_[i]), files_[i].text);
      if (!files_[i].lines.empty()) written.write(pristine(files_[i]).string() + kLinesEnding, files_[i].lines);
    }
  } catch (...) {
    written.undo();
    throw;
  }
}

}  // namespace pycandle::emit
