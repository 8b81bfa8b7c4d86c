// libhdf5, looked for when the first HDF5 file is opened: nothing links it, and a machine without it lacks only these files.
// It is not made for hostile files, so it runs in a child process with a limit on memory and time: there it finds out where
// arrays lie, and unpacks those that are packed. Nothing else of it is used.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace pycandle {

// An array of a file. Either it lies at `offset` as it is, or it is packed (in chunks, compressed, or never written).
struct Hdf5Array {
  std::string name;                  // its path in the file: "dense/kernel:0"
  std::string type;                  // as NumPy spells it: "<f4"
  std::vector<int64_t> shape;
  int64_t offset = -1;               // -1: packed
  uint64_t stored_bytes = 0, bytes = 0;  // in the file, and unpacked
};

// bad_input when libhdf5 is not there, or cannot read the file. `path` is opened, `name` stands in errors.
std::vector<Hdf5Array> hdf5_arrays(const std::string& path, const std::string& name);
std::vector<std::byte> unpack_hdf5(const std::string& path, const std::string& name, const Hdf5Array&);

}  // namespace pycandle
