#include "decoding.h"

#include <nanobind/stl/filesystem.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "arrays.h"
#include "runtime/bundle.h"
#include "runtime/prefix_store.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace pycandle {
namespace {

Decoder load(const std::filesystem::path& path, const std::string& backend, int threads, const std::string& weights,
             const std::string& cache) {
  const nb::gil_scoped_release unlocked;
  LoadOptions options{.backend = backend, .pipeline = {}};
  options.pipeline.threads = threads;
  options.pipeline.weights = parse_weight_format(weights);
  return open_decoder(open_model(path, options), cache);
}

// With the weights that the model has opened.
Decoder decoder_of(const Model& model, const std::string& cache) {
  const nb::gil_scoped_release unlocked;
  return open_decoder(model, cache);
}

nb::dict step(const Decoder& decoder, Cache& cache, const nb::dict& tokens, const std::vector<int64_t>& counts, bool last) {
  const Decoder::Tensors given = to_tensors(tokens);
  Decoder::Tensors outputs;
  {
    const nb::gil_scoped_release unlocked;
    outputs = last ? decoder.step_last(cache, given, counts) : decoder.step(cache, given, counts);
  }
  nb::dict out;
  for (const Output& output : decoder.decode_step().step.outputs) out[output.name.c_str()] = to_python(outputs.at(output.name));
  return out;
}

Cache new_cache(const Decoder& decoder, int64_t batch, int64_t capacity, const nb::dict& inputs) {
  const Decoder::Tensors given = to_tensors(inputs, "input", Memory::copied);  // a cache may keep them
  const nb::gil_scoped_release unlocked;
  return decoder.new_cache(batch, capacity, given);
}

std::vector<std::string> names_of(const std::vector<Input>& inputs) {
  std::vector<std::string> names;
  for (const Input& input : inputs) {
    if (input.name != kLengths && input.name != kDropped) names.push_back(input.name);
  }
  return names;
}

}  // namespace

void bind_decoding(nb::module_& m) {
  const auto unlocked = nb::call_guard<nb::gil_scoped_release>();
  nb::class_<Cache>(m, "Cache", "What a decode step has seen of each sequence of a batch.")
      .def("fork", &Cache::fork, "sequences"_a, unlocked)
      .def("truncate", &Cache::truncate, "sequence"_a, "length"_a)
      .def("save", &Cache::save, "path"_a, unlocked)
      .def_prop_ro("lengths", &Cache::lengths)
      .def_prop_ro("capacity", &Cache::capacity)
      .def_prop_ro("bytes", &Cache::bytes);
  nb::class_<Decoder>(m, "Decoder", "The decode step of a recorded causal model.")
      .def("new_cache", &new_cache, "batch"_a, "capacity"_a, "inputs"_a)
      .def("step", &step, "cache"_a, "tokens"_a, "counts"_a, "last"_a)
      .def("load_cache", &Decoder::load_cache, "path"_a, unlocked)
      .def("resized", &Decoder::resized, "cache"_a, "capacity"_a, unlocked)
      .def_prop_ro("name", [](const Decoder& d) { return d.decode_step().step.name; })
      .def_prop_ro("inputs", [](const Decoder& d) { return names_of(d.decode_step().step.inputs); })
      .def_prop_ro("first_inputs", [](const Decoder& d) { return names_of(d.decode_step().setup.inputs); })
      .def_prop_ro(
          "longest", [](const Decoder& d) { return d.decode_step().longest.value_or(0); },
          "The positions that the model has; 0: any number.");
  nb::class_<PrefixStore>(m, "PrefixStore", "Prompts that were seen, with their caches.")
      .def(
          "__init__", [](PrefixStore* self, const Decoder& decoder, size_t bytes) { new (self) PrefixStore(decoder, bytes); },
          "decoder"_a, "bytes"_a)
      .def("keep", &PrefixStore::keep, "cache"_a, "sequence"_a, "tokens"_a, unlocked)
      .def(
          "start",
          [](PrefixStore& store, const std::vector<int64_t>& prompt, int64_t capacity) {
            const nb::gil_scoped_release free;
            PrefixStore::Start found = store.start(prompt, capacity);
            return std::pair<Cache, int64_t>(std::move(found.cache), found.known);
          },
          "prompt"_a, "capacity"_a)
      .def_prop_ro("bytes", &PrefixStore::bytes)
      .def("__len__", &PrefixStore::size);
  m.def("decoder_of", &decoder_of, "model"_a, "cache"_a);
  m.def("load_decoder", &load, "path"_a, "backend"_a = "reference", "threads"_a = 0, "weights"_a = "f32", "cache"_a = "f32");
}

}  // namespace pycandle
