// HDF5, as Keras and h5py write it: arrays in groups, found by libhdf5 and mapped where they lie.
#include <sys/mman.h>
#include <unistd.h>

#include "params/checkpoints/hdf5_library.h"
#include "params/checkpoints/inflate.h"
#include "params/checkpoints/readers.h"

namespace pycandle {
namespace {

constexpr std::string_view kMagic = "\x89HDF\r\n\x1a\n";

// libhdf5 opens paths: bytes that are only in memory become a file without a name.
std::shared_ptr<const std::string> path_of(const CheckpointFile& file) {
  if (file.mapping) return std::make_shared<const std::string>(file.name);
  const int descriptor = ::memfd_create("pycandle", MFD_CLOEXEC);
  const bool is_written = descriptor >= 0 &&
                          ::write(descriptor, file.bytes.data(), file.bytes.size()) == static_cast<ssize_t>(file.bytes.size());
  std::shared_ptr<const std::string> path(new std::string(fmt::format("/proc/self/fd/{}", descriptor)),
                                          [descriptor](const std::string* p) {
                                            if (descriptor >= 0) ::close(descriptor);
                                            delete p;
                                          });
  if (!is_written) throw Error(ErrorCode::bad_input, file.name + ": there is no memory to read it");
  return path;
}

std::vector<std::string> parts_of(const std::string& path) {
  std::vector<std::string> parts;
  for (size_t at = 0; at <= path.size();) {
    const size_t end = std::min(path.find('/', at), path.size());
    parts.push_back(path.substr(at, end - at));
    at = end + 1;
  }
  return parts;
}

}  // namespace

bool is_hdf5(Bytes bytes) { return bytes.size() >= kMagic.size() && as_text(bytes.first(kMagic.size())) == kMagic; }

FileContent read_hdf5(const CheckpointFile& file) {
  FileContent out;
  out.format = "hdf5";
  out.separator = "/";
  const std::shared_ptr<const std::string> path = path_of(file);
  for (const Hdf5Array& array : hdf5_arrays(*path, file.name)) {
    const std::string where = fmt::format("{}: array '{}'", file.name, shown_text(array.name));
    const ElementType type = numpy_type(array.type, ByteReader(file.bytes, where));
    std::shared_ptr<const Storage> storage = file.storage(file.bytes);
    if (array.offset < 0 && array.bytes > 0) {
      constexpr uint64_t kHarmless = uint64_t{256} << 20;  // what was never written takes no room, and is zeros
      if (array.bytes > kHarmless) refuse_bomb(array.stored_bytes, array.bytes, where);
      Storage packed = *file.storage({}, array.bytes);
      packed.unpack = [path, name = file.name, array] { return unpack_hdf5(*path, name, array); };
      storage = std::make_shared<const Storage>(std::move(packed));
    }
    out.tensors.push_back(dense_tensor(array.name, type.dtype, type.encoding, array.shape, std::move(storage),
                                       static_cast<uint64_t>(std::max<int64_t>(array.offset, 0))));
    out.paths.push_back(parts_of(array.name));
  }
  return out;
}

}  // namespace pycandle
