#include "params/checkpoints/hdf5_library.h"

#include <dlfcn.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <functional>
#include <memory>

#include "base/error.h"
#include "base/json.h"
#include "params/checkpoints/byte_reader.h"

namespace pycandle {
namespace {

using Id = int64_t;  // hid_t since 1.10

// What is called of it. These have been the same since 1.10; 1.12 renamed one and kept the old form.
struct Library {
  int (*open)() = nullptr;
  int (*silence)(Id, void*, void*) = nullptr;
  int (*load_no_plugins)(unsigned) = nullptr;
  Id (*file_open)(const char*, unsigned, Id) = nullptr;
  Id (*group_open)(Id, const char*, Id) = nullptr;
  int (*group_info)(Id, void*) = nullptr;
  ssize_t (*link_name)(Id, const char*, int, int, uint64_t, char*, size_t, Id) = nullptr;
  int (*link_info)(Id, const char*, void*, Id) = nullptr;
  Id (*object_open)(Id, const char*, Id) = nullptr;
  int (*object_close)(Id) = nullptr;
  int (*kind)(Id) = nullptr;
  Id (*dataset_open)(Id, const char*, Id) = nullptr;
  Id (*dataset_type)(Id) = nullptr;
  Id (*dataset_space)(Id) = nullptr;
  Id (*dataset_plist)(Id) = nullptr;
  uint64_t (*dataset_offset)(Id) = nullptr;
  uint64_t (*dataset_stored)(Id) = nullptr;
  int (*dataset_read)(Id, Id, Id, Id, Id, void*) = nullptr;
  int (*layout)(Id) = nullptr;
  int (*external_count)(Id) = nullptr;
  int (*space_kind)(Id) = nullptr;
  int (*space_sizes)(Id, uint64_t*, uint64_t*) = nullptr;
  int (*type_class)(Id) = nullptr;
  size_t (*type_size)(Id) = nullptr;
  int (*type_order)(Id) = nullptr;
  int (*type_sign)(Id) = nullptr;
  int (*type_fields)(Id, size_t*, size_t*, size_t*, size_t*, size_t*) = nullptr;
  int (*member_count)(Id) = nullptr;
  Id (*member_type)(Id, unsigned) = nullptr;
};

template <class F> bool find(void* handle, F& function, std::initializer_list<const char*> names) {
  for (const char* name : names) {
    if (void* symbol = ::dlsym(handle, name)) {
      function = reinterpret_cast<F>(symbol);
      return true;
    }
  }
  return false;
}

std::unique_ptr<Library> load() {
  void* handle = nullptr;
  for (const char* name : {"libhdf5_serial.so.103", "libhdf5_serial.so.310", "libhdf5_serial.so", "libhdf5.so.103",
                           "libhdf5.so.200", "libhdf5.so.310", "libhdf5.so.320", "libhdf5.so"}) {
    if ((handle = ::dlopen(name, RTLD_NOW | RTLD_LOCAL)) != nullptr) break;
  }
  if (handle == nullptr) return nullptr;
  auto l = std::make_unique<Library>();
  const bool is_whole = find(handle, l->open, {"H5open"}) && find(handle, l->silence, {"H5Eset_auto2"}) &&
                        find(handle, l->load_no_plugins, {"H5PLset_loading_state"}) && find(handle, l->file_open, {"H5Fopen"}) &&
                        find(handle, l->group_open, {"H5Gopen2"}) && find(handle, l->group_info, {"H5Gget_info"}) &&
                        find(handle, l->link_name, {"H5Lget_name_by_idx"}) &&
                        find(handle, l->link_info, {"H5Lget_info1", "H5Lget_info"}) &&
                        find(handle, l->object_open, {"H5Oopen"}) && find(handle, l->object_close, {"H5Oclose"}) &&
                        find(handle, l->kind, {"H5Iget_type"}) && find(handle, l->dataset_open, {"H5Dopen2"}) &&
                        find(handle, l->dataset_type, {"H5Dget_type"}) && find(handle, l->dataset_space, {"H5Dget_space"}) &&
                        find(handle, l->dataset_plist, {"H5Dget_create_plist"}) &&
                        find(handle, l->dataset_offset, {"H5Dget_offset"}) &&
                        find(handle, l->dataset_stored, {"H5Dget_storage_size"}) && find(handle, l->dataset_read, {"H5Dread"}) &&
                        find(handle, l->layout, {"H5Pget_layout"}) &&
                        find(handle, l->external_count, {"H5Pget_external_count"}) &&
                        find(handle, l->space_kind, {"H5Sget_simple_extent_type"}) &&
                        find(handle, l->space_sizes, {"H5Sget_simple_extent_dims"}) &&
                        find(handle, l->type_class, {"H5Tget_class"}) && find(handle, l->type_size, {"H5Tget_size"}) &&
                        find(handle, l->type_order, {"H5Tget_order"}) && find(handle, l->type_sign, {"H5Tget_sign"}) &&
                        find(handle, l->type_fields, {"H5Tget_fields"}) && find(handle, l->member_count, {"H5Tget_nmembers"}) &&
                        find(handle, l->member_type, {"H5Tget_member_type"});
  return is_whole ? std::move(l) : nullptr;
}

const Library& library(const std::string& name) {
  static const std::unique_ptr<Library> loaded = load();
  if (loaded) return *loaded;
  throw Error(ErrorCode::bad_input, name + " is an HDF5 file, and libhdf5, which reads those, is not here")
      .hint("apt-get install libhdf5-103-1 (or your system's package of libhdf5), or save the weights as npz or safetensors");
}

// ---- the child

constexpr Id kDefault = 0;  // of property lists and selections
constexpr int kDepth = 32;
constexpr size_t kMostObjects = 100'000, kMostAxes = 32;

void set_limit(decltype(RLIMIT_CPU) what, rlim_t limit) {
  const rlimit both{limit, limit};
  ::setrlimit(what, &both);
}

void limit_this_process() {
  constexpr rlim_t kMemory = rlim_t{1} << 30, kSeconds = 60;
  for (const int signal : {SIGSEGV, SIGBUS, SIGABRT, SIGFPE, SIGILL, SIGXCPU, SIGTERM, SIGINT}) ::signal(signal, SIG_DFL);
  set_limit(RLIMIT_CORE, 0);
  set_limit(RLIMIT_CPU, kSeconds);
  unsigned long pages = 0;
  if (std::FILE* file = std::fopen("/proc/self/statm", "r")) {
    if (std::fscanf(file, "%*u %*u %*u %*u %*u %lu", &pages) != 1) pages = 0;
    std::fclose(file);
  }
  if (pages != 0) set_limit(RLIMIT_DATA, pages * static_cast<rlim_t>(::sysconf(_SC_PAGESIZE)) + kMemory);
}

void write_all(int to, const std::string& text) {
  for (size_t at = 0; at < text.size();) {
    const ssize_t written = ::write(to, text.data() + at, text.size() - at);
    if (written <= 0) ::_exit(1);
    at += static_cast<size_t>(written);
  }
}

// What `work` gives in a process of its own, {"error": …} as an Error.
Json in_child(const std::string& name, const std::function<Json()>& work) {
  constexpr size_t kMostText = size_t{64} << 20;
  int ends[2];
  if (::pipe(ends) != 0) throw Error(ErrorCode::bad_input, name + ": no pipe could be made to read it");
  const pid_t child = ::fork();
  if (child == 0) {
    ::close(ends[0]);
    limit_this_process();
    Json answer;
    try {
      answer = work();
    } catch (const std::exception& error) {
      answer = {{"error", error.what()}};
    }
    write_all(ends[1], answer.dump(-1, ' ', false, Json::error_handler_t::replace));
    ::_exit(0);
  }
  ::close(ends[1]);
  std::string text;
  char buffer[1 << 16];
  for (ssize_t count = 1; child > 0 && text.size() < kMostText;) {
    count = ::read(ends[0], buffer, sizeof buffer);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) break;
    text.append(buffer, static_cast<size_t>(count));
  }
  ::close(ends[0]);
  int status = 0;
  while (child > 0 && ::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  const auto damaged = [&](const std::string& why) {
    return Error(ErrorCode::bad_input, fmt::format("{}: {}", name, why)).hint("the file may be damaged: make or copy it again");
  };
  if (child < 0 || !WIFEXITED(status) || WEXITSTATUS(status) != 0) throw damaged("libhdf5 stopped while it read the file");
  const Json answer = parse_json(text, name);
  if (answer.is_object() && answer.contains("error")) throw damaged(shown_text(answer["error"].get<std::string>()));
  return answer;
}

[[noreturn]] void refuse(const std::string& what) { throw Error(ErrorCode::bad_input, what); }

// "<f4"; empty for what is not a number (text, references).
std::string numpy_name(const Library& l, Id type) {
  enum { integer = 0, real = 1, compound = 6, enumeration = 8 };
  const int kind = l.type_class(type);
  const size_t size = l.type_size(type);
  const char order = l.type_order(type) == 1 ? '>' : '<';
  if (kind == integer) return fmt::format("{}{}{}", order, l.type_sign(type) == 0 ? 'u' : 'i', size);
  if (kind == enumeration && size == 1) return "|b1";  // as h5py writes bools
  if (kind == compound && l.member_count(type) == 2) {  // as h5py writes complex numbers
    const std::string part = numpy_name(l, l.member_type(type, 0));
    if (part.size() != 3 || part[1] != 'f' || part != numpy_name(l, l.member_type(type, 1)) ||
        2 * (part[2] - '0') != static_cast<int>(size))
      return "";
    return fmt::format("{}c{}", part[0], size);
  }
  if (kind != real) return "";
  size_t sign = 0, exponent = 0, exponent_bits = 0, mantissa = 0, mantissa_bits = 0;
  l.type_fields(type, &sign, &exponent, &exponent_bits, &mantissa, &mantissa_bits);
  const size_t usual = size == 2 ? 5 : size == 4 ? 8 : size == 8 ? 11 : 0;
  if (exponent_bits != usual || mantissa_bits + exponent_bits + 1 != 8 * size)
    refuse(fmt::format("floats of {} bytes with {} bits of exponent are not supported", size, exponent_bits));
  return fmt::format("{}f{}", order, size);
}

// Null: not an array of numbers.
Json described(const Library& l, Id dataset, const std::string& name) {
  enum { contiguous = 1, virtual_layout = 3 };
  const Id type = l.dataset_type(dataset), space = l.dataset_space(dataset), plist = l.dataset_plist(dataset);
  if (type < 0 || space < 0 || plist < 0) refuse(fmt::format("array '{}' is damaged", shown_text(name)));
  const std::string spelling = numpy_name(l, type);
  constexpr int kNoData = 2;
  if (spelling.empty() || l.space_kind(space) == kNoData) return {};
  const int layout = l.layout(plist);
  if (layout == virtual_layout || l.external_count(plist) > 0)
    refuse(fmt::format("array '{}' lies in another file, which is not opened", shown_text(name)));
  uint64_t sizes[kMostAxes] = {};
  const int rank = l.space_sizes(space, sizes, nullptr);
  if (rank < 0 || rank > static_cast<int>(kMostAxes)) refuse(fmt::format("array '{}' has no sizes", shown_text(name)));
  uint64_t bytes = l.type_size(type);
  for (int i = 0; i < rank; ++i) {
    if (__builtin_mul_overflow(bytes, sizes[i], &bytes) || sizes[i] > static_cast<uint64_t>(INT64_MAX))
      refuse(fmt::format("array '{}' has too many elements", shown_text(name)));
  }
  const uint64_t stored = l.dataset_stored(dataset), offset = layout == contiguous ? l.dataset_offset(dataset) : UINT64_MAX;
  const bool lies_there = offset < static_cast<uint64_t>(INT64_MAX) && stored >= bytes;
  return {{"name", name},
          {"type", spelling},
          {"shape", std::vector<uint64_t>(sizes, sizes + rank)},
          {"offset", lies_there ? static_cast<int64_t>(offset) : -1},
          {"stored", stored},
          {"bytes", bytes}};
}

void list(const Library& l, Id group, const std::string& path, int depth, size_t& seen, Json& found) {
  enum { hard_link = 0, is_group = 2, is_dataset = 5 };
  if (depth > kDepth) refuse("groups lie too deep in each other, or in themselves");
  struct {
    int storage;
    uint64_t links;
    int64_t most;
    bool mounted;
    char room[64];
  } info{};
  if (l.group_info(group, &info) < 0) refuse(fmt::format("group '{}' is damaged", shown_text(path)));
  for (uint64_t i = 0; i < info.links; ++i) {
    if (++seen > kMostObjects) refuse("there are too many objects, or groups in themselves");
    char name[1024];
    const ssize_t length = l.link_name(group, ".", 0, 0, i, name, sizeof name, kDefault);
    if (length <= 0 || length >= static_cast<ssize_t>(sizeof name))
      refuse(fmt::format("group '{}' is damaged", shown_text(path)));
    alignas(8) int link[32] = {};
    if (l.link_info(group, name, link, kDefault) < 0) refuse(fmt::format("group '{}' is damaged", shown_text(path)));
    if (link[0] != hard_link) continue;  // other files and other names are not followed
    const Id object = l.object_open(group, name, kDefault);
    const std::string full = path.empty() ? name : path + "/" + name;
    if (object < 0) refuse(fmt::format("object '{}' is damaged", shown_text(full)));
    const int kind = l.kind(object);
    if (kind == is_group) list(l, object, full, depth + 1, seen, found);
    if (kind == is_dataset) {
      if (Json one = described(l, object, full); !one.is_null()) found.push_back(std::move(one));
    }
    l.object_close(object);
  }
}

Id open_file(const Library& l, const std::string& path) {
  l.open();
  l.silence(0, nullptr, nullptr);
  l.load_no_plugins(0);  // filters of others are code of others
  const Id file = l.file_open(path.c_str(), 0, kDefault);
  if (file < 0) refuse("libhdf5 cannot open the file");
  return file;
}

}  // namespace

std::vector<Hdf5Array> hdf5_arrays(const std::string& path, const std::string& name) {
  const Library& l = library(name);
  const Json answer = in_child(name, [&] {
    const Id file = open_file(l, path), root = l.group_open(file, "/", kDefault);
    if (root < 0) refuse("the file has no root group");
    Json found = Json::array();
    size_t seen = 0;
    list(l, root, "", 0, seen, found);
    return found;
  });
  std::vector<Hdf5Array> arrays;
  for (const Json& one : answer) {
    arrays.push_back({one["name"].get<std::string>(), one["type"].get<std::string>(), one["shape"].get<std::vector<int64_t>>(),
                      one["offset"].get<int64_t>(), one["stored"].get<uint64_t>(), one["bytes"].get<uint64_t>()});
  }
  return arrays;
}

std::vector<std::byte> unpack_hdf5(const std::string& path, const std::string& name, const Hdf5Array& array) {
  const Library& l = library(name);
  const size_t bytes = array.bytes;
  void* shared = ::mmap(nullptr, std::max<size_t>(bytes, 1), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (shared == MAP_FAILED) throw Error(ErrorCode::bad_input, name + ": there is no memory for an array of it");
  const std::shared_ptr<void> unmapped(shared, [bytes](void* p) { ::munmap(p, std::max<size_t>(bytes, 1)); });
  in_child(name, [&]() -> Json {
    const Id dataset = l.dataset_open(open_file(l, path), array.name.c_str(), kDefault);
    const Id type = dataset < 0 ? -1 : l.dataset_type(dataset);
    if (type < 0) refuse(fmt::format("array '{}' is damaged", shown_text(array.name)));
    const Json now = described(l, dataset, array.name);  // the file may be another one by now
    if (now.is_null() || now["bytes"].get<uint64_t>() != bytes ||
        l.dataset_read(dataset, type, kDefault, kDefault, kDefault, shared) < 0)
      refuse(fmt::format("array '{}' cannot be unpacked", shown_text(array.name)));
    return true;
  });
  const auto* begin = static_cast<const std::byte*>(shared);
  return {begin, begin + bytes};
}

}  // namespace pycandle
