#include "base/file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <system_error>

#include "base/error.h"

namespace pycandle {

namespace {

Error file_error(std::string_view what, const std::filesystem::path& path, int error) {
  return Error(ErrorCode::bad_input,
               fmt::format("cannot {} {}: {}", what, path.string(), std::generic_category().message(error)));
}

void write_all(int descriptor, const void* data, size_t bytes, const std::filesystem::path& path) {
  const auto* at = static_cast<const std::byte*>(data);
  while (bytes > 0) {
    const ssize_t written = ::write(descriptor, at, bytes);
    if (written < 0) {
      if (errno == EINTR) continue;
      throw file_error("write", path, errno);
    }
    at += written;
    bytes -= static_cast<size_t>(written);
  }
}

// Where much may be written: /tmp is memory on many machines.
std::filesystem::path scratch_folder() {
  std::error_code failed;
  const char* const chosen = std::getenv("TMPDIR");
  if (chosen == nullptr && std::filesystem::is_directory("/var/tmp", failed)) return "/var/tmp";
  return std::filesystem::temp_directory_path();
}

// Closes on every way out.
struct Descriptor {
  int value;
  ~Descriptor() {
    if (value >= 0) ::close(value);
  }
};

}  // namespace

std::shared_ptr<const MappedFile> MappedFile::open(const std::filesystem::path& path) {
  const Descriptor file{::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)};  // a pipe without a writer does not block
  if (file.value < 0) throw file_error("open", path, errno);
  return map(file.value, path);
}

std::shared_ptr<const MappedFile> MappedFile::map(int descriptor, const std::filesystem::path& path) {
  struct stat status{};
  if (::fstat(descriptor, &status) != 0) throw file_error("read", path, errno);
  if (S_ISDIR(status.st_mode)) throw file_error("read", path, EISDIR);
  if (!S_ISREG(status.st_mode))
    throw Error(ErrorCode::bad_input, fmt::format("cannot read {}: it is not a regular file", path.string()));

  std::shared_ptr<MappedFile> out(new MappedFile);
  const auto size = static_cast<size_t>(status.st_size);
  out->stamp_ = fmt::format("{}:{}:{}:{}.{}:{}.{}", status.st_dev, status.st_ino, status.st_size, status.st_mtim.tv_sec,
                            status.st_mtim.tv_nsec, status.st_ctim.tv_sec, status.st_ctim.tv_nsec);
  if (size == 0) return out;  // mmap refuses empty files
  void* memory = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, descriptor, 0);
  if (memory == MAP_FAILED) throw file_error("map", path, errno);
#ifdef MADV_NOHUGEPAGE
  // A huge page of the file brings what lies around a tensor back into memory, whenever the tensor beside it is read.
  ::madvise(memory, size, MADV_NOHUGEPAGE);
#endif
  out->data_ = static_cast<const std::byte*>(memory);
  out->size_ = size;
  return out;
}

MappedFile::~MappedFile() {
  if (data_ != nullptr) ::munmap(const_cast<std::byte*>(data_), size_);
}

void MappedFile::release(const void* data, size_t bytes) const {
  const auto from = reinterpret_cast<uintptr_t>(data), start = reinterpret_cast<uintptr_t>(data_);
  if (from < start || from + bytes > start + size_) return;
  const auto page = static_cast<uintptr_t>(::sysconf(_SC_PAGESIZE));
  const uintptr_t begin = (from + page - 1) / page * page, end = (from + bytes) / page * page;
  if (begin < end) ::madvise(const_cast<std::byte*>(data_) + (begin - start), end - begin, MADV_DONTNEED);
}

std::string read_text(const std::filesystem::path& path, size_t limit) {
  const auto file = MappedFile::open(path);
  if (file->size() > limit)
    throw Error(ErrorCode::bad_input, path.string() + " is too large")
        .expected(fmt::format("at most {} bytes", limit))
        .found(fmt::format("{} bytes", file->size()));
  return file->size() == 0 ? std::string() : std::string(reinterpret_cast<const char*>(file->data()), file->size());
}

bool is_device(const std::filesystem::path& path) {
  std::error_code failed;
  return std::filesystem::is_other(path, failed);
}

AtomicFile::AtomicFile(std::filesystem::path target, std::filesystem::path temporary)
    : target_(std::move(target)), temporary_(std::move(temporary)) {
  if (is_device(target_)) {
    temporary_.clear();
    descriptor_ = ::open(target_.c_str(), O_WRONLY | O_CLOEXEC);
    if (descriptor_ < 0) throw file_error("write", target_, errno);
    return;
  }
  if (temporary_.empty()) {
    // In the same folder, so that the rename is one; the number keeps several writers in one process apart.
    static std::atomic<unsigned> counter{0};
    temporary_ = target_;
    temporary_ += fmt::format(".{}.{}.tmp", ::getpid(), counter++);
  } else {
    ::unlink(temporary_.c_str());
  }
  descriptor_ = ::open(temporary_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  if (descriptor_ < 0) throw file_error("write", target_, errno);
}

AtomicFile::~AtomicFile() {
  if (descriptor_ >= 0) ::close(descriptor_);
  if (!temporary_.empty()) ::unlink(temporary_.c_str());
}

void AtomicFile::write(const void* data, size_t bytes) {
  require(descriptor_ >= 0, "a file is written after its commit");
  write_all(descriptor_, data, bytes, target_);
}

void AtomicFile::commit() {
  require(descriptor_ >= 0, "a file is committed twice");
  const int closed = ::close(descriptor_);
  descriptor_ = -1;
  if (closed != 0) throw file_error("write", target_, errno);
  if (temporary_.empty()) return;
  if (::rename(temporary_.c_str(), target_.c_str()) != 0) throw file_error("write", target_, errno);
  temporary_.clear();
}

ScratchFile::ScratchFile() {
  std::string name = (scratch_folder() / "pycandle-XXXXXX").string();
  descriptor_ = ::mkostemp(name.data(), O_CLOEXEC);
  path_ = name;
  if (descriptor_ < 0) throw file_error("write", path_, errno);
  ::unlink(name.c_str());
}

ScratchFile::~ScratchFile() { ::close(descriptor_); }

void ScratchFile::write(const void* data, size_t bytes) { write_all(descriptor_, data, bytes, path_); }

std::shared_ptr<const MappedFile> ScratchFile::map() const { return MappedFile::map(descriptor_, path_); }

void write_text(const std::filesystem::path& path, std::string_view text) {
  AtomicFile file(path);
  file.write(text);
  file.commit();
}

}  // namespace pycandle
