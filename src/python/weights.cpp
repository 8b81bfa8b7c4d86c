#include "weights.h"

#include <nanobind/stl/filesystem.h>
#include <nanobind/stl/map.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include "arrays.h"
#include "base/error.h"
#include "params/weights.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace pycandle {
namespace {

namespace fs = std::filesystem;
// name, dtype, shape, how it is stored
using TensorFacts = std::tuple<std::string, std::string, std::vector<int64_t>, std::string>;

std::vector<TensorFacts> tensors(const Checkpoint& checkpoint) {
  std::vector<TensorFacts> all;
  for (const StoredTensor& t : checkpoint.tensors())
    all.emplace_back(t.name, std::string(name_of(t.dtype)), t.shape, std::string(t.stored_as()));
  return all;
}

nb::object read_tensor(const Checkpoint& checkpoint, const std::string& name) {
  const StoredTensor* t = checkpoint.find(name);
  if (t == nullptr) throw Error(ErrorCode::bad_input, "there is no tensor " + name);
  Array array;
  {
    const nb::gil_scoped_release unlocked;
    array = read(*t);
  }
  nb::object out = to_python(array);
  release(*t);
  return out;
}

std::map<std::string, size_t> left_out(const Checkpoint& checkpoint) {
  std::map<std::string, size_t> out;
  for (const LeftOut& other : checkpoint.left_out()) out[other.section] = other.count;
  return out;
}

// (files, the ledger as JSON text, does the manifest name them now)
std::tuple<std::vector<std::string>, std::string, bool> extract_files(const fs::path& checkpoint, const fs::path& manifest,
                                                                      const fs::path& out, const fs::path& rules,
                                                                      const fs::path& lora, const std::string& dtype,
                                                                      uint64_t shard_bytes, bool strict, bool attach,
                                                                      const std::optional<std::string>& section) {
  const nb::gil_scoped_release unlocked;
  ExtractRequest request;
  request.from = {checkpoint, rules, lora, {section}, strict};
  request.needed = manifest;
  request.out = out;
  request.attach = attach;
  if (!dtype.empty()) {
    request.dtype = dtype_from_name(dtype);
    if (!request.dtype || !is_floating(*request.dtype))
      throw Error(ErrorCode::usage, "this is not a dtype of weights").expected("f32, f16, bf16 or f64").found(dtype);
  }
  request.shard_bytes = shard_bytes;
  const ExtractResult result = extract_weights(request);
  std::vector<std::string> files;
  for (const fs::path& file : result.written.files) files.push_back(file.string());
  return {files, to_json(result.ledger), result.attached};
}

// (the rules as text, do they give every parameter its tensor, parameters that several tensors fit)
std::tuple<std::string, bool, std::vector<std::string>> map_names(const fs::path& checkpoint, const fs::path& manifest,
                                                                  int64_t heads, int64_t key_heads,
                                                                  const std::optional<std::string>& section) {
  const nb::gil_scoped_release unlocked;
  const MapResult result = map_weights({checkpoint, manifest, {section}, {heads, key_heads}});
  std::vector<std::string> ambiguous;
  for (const Ambiguity& a : result.proposals.ambiguous) ambiguous.push_back(a.target);
  return {result.rules, result.is_complete(), ambiguous};
}

}  // namespace

void bind_weights(nb::module_& m) {
  nb::class_<Checkpoint>(m, "Checkpoint", "A checkpoint of any format, opened: nothing is read until asked.")
      .def(
          "__init__",
          [](Checkpoint* self, const fs::path& path, const std::optional<std::string>& section) {
            const nb::gil_scoped_release unlocked;
            new (self) Checkpoint(Checkpoint::open(path, {section}));
          },
          "path"_a, "section"_a = nb::none())
      .def_prop_ro("tensors", &tensors)
      .def_prop_ro("format", &Checkpoint::format)
      .def_prop_ro("section", &Checkpoint::section)
      .def_prop_ro("left_out", &left_out)
      .def_prop_ro("metadata", &Checkpoint::metadata)
      .def("read", &read_tensor, "name"_a);
  m.def("extract_weights", &extract_files, "checkpoint"_a, "manifest"_a, "out"_a, "rules"_a, "lora"_a, "dtype"_a, "shard_bytes"_a,
        "strict"_a, "attach"_a, "section"_a.none());
  m.def("map_weights", &map_names, "checkpoint"_a, "manifest"_a, "heads"_a, "key_heads"_a, "section"_a.none());
}

}  // namespace pycandle
