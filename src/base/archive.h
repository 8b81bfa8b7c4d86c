// Named sections: the files of a folder, or one file that holds them all. Files come from outside: everything that their table
// says is checked.
//
//   "PYCANDLE" and zeros, 64 bytes | sections, each at a multiple of 64 | table | offset and size of the table, its hash,
//   "PYCANDLE"
//
// The table is a JSON object: {"program.ptir": [64, 81920], …}. It stands at the end, so that sections are written as they come.
#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/file.h"

namespace pycandle {

struct Section {
  std::span<const std::byte> bytes;
  std::shared_ptr<const void> owner;             // of the bytes
  std::shared_ptr<const MappedFile> file = {};   // that they lie in; null: in memory
  std::string_view text() const { return {reinterpret_cast<const char*>(bytes.data()), bytes.size()}; }
};

class Archive {
 public:
  static constexpr size_t kAlignment = 64;
  static bool is_file(const std::filesystem::path&);  // does it begin as such a file?
  static Archive open(const std::filesystem::path&);  // a folder, or one file
  // For tests and fuzzing: the bytes of such a file.
  static Archive parse(std::span<const std::byte>, std::shared_ptr<const void> owner, std::string name);
  // For the same: sections by name, as a folder has them.
  static Archive of(std::map<std::string, std::string> sections);

  bool contains(const std::string& name) const;
  Section section(const std::string& name) const;  // bad_input when there is none
  std::string where(const std::string& name) const;  // for errors

 private:
  void read_table(std::span<const std::byte>);
  std::filesystem::path folder_;  // empty: one file
  std::string name_;
  std::map<std::string, Section> sections_;  // of one file
};

// Either form is in its place only after commit(), whole.
class ArchiveWriter {
 public:
  enum class Form { folder, file };
  ArchiveWriter(std::filesystem::path, Form);
  ~ArchiveWriter();
  ArchiveWriter(const ArchiveWriter&) = delete;
  ArchiveWriter& operator=(const ArchiveWriter&) = delete;

  void begin(const std::string& name);  // the section that is written next
  void write(const void* data, size_t bytes);
  void write(std::string_view text) { write(text.data(), text.size()); }
  void align();                         // the next byte of the section is at a multiple of Archive::kAlignment
  size_t written() const { return written_; }  // bytes of the section
  void commit();

 private:
  void finish_section();
  struct Written {
    std::string name;
    size_t offset = 0, size = 0;
  };
  std::filesystem::path target_, folder_;  // folder_: a temporary one
  std::unique_ptr<AtomicFile> file_;       // all of it, or the section of a folder
  Form form_;
  std::vector<Written> sections_;
  size_t at_ = 0, written_ = 0;
};

}  // namespace pycandle
