// Files: mapped reading, and writing that leaves nothing half-written behind.
#pragma once

#include <cstddef>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>

namespace pycandle {

// A read-only mapping of a whole file; the memory lives as long as the object. Errors are bad_input with the path.
class MappedFile {
 public:
  static std::shared_ptr<const MappedFile> open(const std::filesystem::path&);
  // Of an open file; `path` is its name in errors.
  static std::shared_ptr<const MappedFile> map(int descriptor, const std::filesystem::path& path);
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;
  const std::byte* data() const { return data_; }
  size_t size() const { return size_; }
  // Names the file and its state: device, number, size and times. Another one when the file was written since.
  const std::string& stamp() const { return stamp_; }
  bool holds(const void* at) const { return data_ <= at && at < data_ + size_; }
  // The pages wholly within [data, data + bytes) leave this process's memory; they come back when they are read.
  void release(const void* data, size_t bytes) const;

 private:
  MappedFile() = default;
  const std::byte* data_ = nullptr;
  size_t size_ = 0;
  std::string stamp_;
};

std::string read_text(const std::filesystem::path&, size_t limit = size_t{1} << 30);

// Whether something is there that is no file and no folder: a device, a pipe, a socket.
bool is_device(const std::filesystem::path&);

// Writes to a temporary beside the target and renames it on commit(); without commit() the temporary is removed.
// `temporary`: a name that others know, so that they can follow what is written; one left by a killed run is replaced.
// A device or a pipe (/dev/null, /dev/stdout) is written as it is: nothing takes its place.
class AtomicFile {
 public:
  explicit AtomicFile(std::filesystem::path target, std::filesystem::path temporary = {});
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;
  void write(const void* data, size_t bytes);
  void write(std::string_view text) { write(text.data(), text.size()); }
  void commit();

 private:
  std::filesystem::path target_, temporary_;
  int descriptor_ = -1;
};

// Bytes that are on the disk and not in memory: a file without a name in $TMPDIR, or else in /var/tmp. It goes away with the
// mapping.
class ScratchFile {
 public:
  ScratchFile();
  ~ScratchFile();
  ScratchFile(const ScratchFile&) = delete;
  ScratchFile& operator=(const ScratchFile&) = delete;
  void write(const void* data, size_t bytes);
  std::shared_ptr<const MappedFile> map() const;

 private:
  std::filesystem::path path_;  // for errors
  int descriptor_ = -1;
};

void write_text(const std::filesystem::path&, std::string_view);

}  // namespace pycandle
