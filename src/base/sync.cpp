#include "base/sync.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>

#include "base/error.h"

namespace pycandle {

void sync_file(const std::filesystem::path& path) {
  const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  const bool is_synced = file >= 0 && (::fsync(file) == 0 || errno == EINVAL);  // EINVAL: nothing to sync there
  const int error = errno;
  if (file >= 0) ::close(file);
  if (!is_synced)
    throw Error(ErrorCode::bad_input, fmt::format("cannot write {}: {}", path.string(), std::generic_category().message(error)));
}

}  // namespace pycandle
