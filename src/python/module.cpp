// pycandle._core: load a recording, run it, look at every tap. Arrays go in and out by DLPack; the Python side
// (python/pycandle/running/model.py) turns them into NumPy arrays or torch tensors.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/filesystem.h>
#include <nanobind/stl/map.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/variant.h>
#include <nanobind/stl/vector.h>

#include "arrays.h"
#include "base/error.h"
#include "base/file_dtypes.h"
#include "base/hash.h"
#include "base/version.h"
#include "decoding.h"
#include "generation.h"
#include "import/single_call.h"
#include "ir/text.h"
#include "ops/core/catalogue.h"
#include "runtime/backends.h"
#include "runtime/bundle.h"
#include "runtime/profile.h"
#include "runtime/text_model.h"
#include "text.h"
#include "weights.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace pycandle {
namespace {

// In the order of the program, which is not that of the names (`output.10` before `output.2`).
nb::dict outputs_to_python(const Model& model, const Model::Tensors& tensors) {
  nb::dict out;
  for (const Output& output : model.program().outputs) out[output.name.c_str()] = to_python(tensors.at(output.name));
  return out;
}

nb::dict taps_to_python(const Model& model, const Model::Tensors& tensors) {
  nb::dict out;
  for (const Tap& tap : model.program().taps) {
    const std::string id = tap.id.text();
    if (const auto shown = tensors.find(id); shown != tensors.end()) out[id.c_str()] = to_python(shown->second);
  }
  return out;
}

// Elements of fewer than 16 bits that NumPy does not have come as bytes.
Model::Tensors inputs_of(const Model& model, const nb::dict& inputs) {
  Model::Tensors given = to_tensors(inputs);
  for (const Input& input : model.program().inputs) {
    const DType dtype = model.program().graph.type(input.value).dtype;
    const auto found = given.find(input.name);
    if (found == given.end() || !is_stored_only(dtype) || size_of(dtype) != 1 || found->second.dtype() != DType::u8) continue;
    found->second = Array(dtype, found->second.shape(), found->second.data(), std::make_shared<Array>(found->second));
  }
  return given;
}

nb::dict forward(const Model& model, const nb::dict& inputs) {
  const Model::Tensors given = inputs_of(model, inputs);
  Model::Tensors outputs;
  {
    const nb::gil_scoped_release unlocked;
    outputs = model.forward(given);
  }
  return outputs_to_python(model, outputs);
}

// (taps by id, outputs by name)
std::pair<nb::dict, nb::dict> trace(const Model& model, const nb::dict& inputs) {
  const Model::Tensors given = inputs_of(model, inputs);
  Model::Tensors taps, outputs;
  {
    const nb::gil_scoped_release unlocked;
    outputs = model.trace(given, [&](const Tap& tap, const Array& value) { taps[tap.id.text()] = value; });
  }
  return {taps_to_python(model, taps), outputs_to_python(model, outputs)};
}

std::string profiled(const Model& model, const nb::dict& inputs) {
  const Model::Tensors given = to_tensors(inputs);
  const nb::gil_scoped_release unlocked;
  return to_json(profile(model, given, model.options().pipeline.threads)).dump();
}

nb::object embedded(const Model& model, const std::vector<std::string>& texts, const std::string& pool, bool normalize,
                    const std::optional<Tokenizer>& tokenizer) {
  Array vectors;
  {
    const nb::gil_scoped_release unlocked;
    vectors = embed(model, tokenizer ? *tokenizer : bundled_tokenizer(model), texts, {parse_pooling(pool), normalize});
  }
  return to_python(vectors);
}

// In the order of the program.
nb::dict states(const Model& model) {
  Model::Tensors now;
  {
    const nb::gil_scoped_release unlocked;  // a call that holds the states may be waiting for the GIL
    now = model.states();
  }
  nb::dict out;
  for (const State& state : model.program().states) out[state.name.c_str()] = to_python(now.at(state.name));
  return out;
}

void set_states(const Model& model, const nb::dict& states, bool every) {
  const Model::Tensors given = to_tensors(states, "state", Memory::copied);
  const nb::gil_scoped_release unlocked;
  model.set_states(given, every ? Expected::every : Expected::some);
}

using TensorInfo = std::tuple<std::string, std::string, std::vector<std::variant<int64_t, std::string>>>;

TensorInfo info(const std::string& name, const Type& type) {
  std::vector<std::variant<int64_t, std::string>> shape;
  for (const Dim d : type.shape) {
    if (d.is_number()) {
      shape.emplace_back(d.number());
    } else {
      shape.emplace_back(d.text());
    }
  }
  return {name, std::string(name_of(type.dtype)), shape};
}

// A checkpoint, rules for its names, a LoRA adapter, the part with the weights, and whether unused tensors are an error.
using CheckpointPaths =
    std::tuple<std::filesystem::path, std::filesystem::path, std::filesystem::path, std::optional<std::string>, bool>;

Model load(const std::filesystem::path& path, const std::string& backend, int threads, bool pack_weights, bool check_weights,
           const std::string& weights, const std::optional<CheckpointPaths>& from, const std::filesystem::path& dump_dir,
           bool dump_final, const std::map<std::string, std::string>& overrides, std::optional<size_t> param_budget) {
  const nb::gil_scoped_release unlocked;
  LoadOptions options{.backend = backend, .pipeline = {}};
  options.pipeline.threads = threads;
  options.pipeline.pack_weights = pack_weights;
  options.pipeline.weights = parse_weight_format(weights);
  options.pipeline.dump_dir = dump_dir;
  options.pipeline.dump_mode = dump_final ? DumpMode::final : DumpMode::all;
  options.pipeline.overrides = overrides;
  options.check_weights = check_weights;
  options.parameter_budget = param_budget;
  if (from) {
    const auto& [checkpoint, rules, adapter, section, strict] = *from;
    options.checkpoint = CheckpointRequest{checkpoint, rules, adapter, {section}, strict};
  }
  return open_model(path, options);
}

Model on(const Model& model, const std::string& backend) {
  const nb::gil_scoped_release unlocked;
  return model.on({.backend = backend, .pipeline = {}});
}

Model load_manifest(const std::string& text, const std::string& backend) {
  const nb::gil_scoped_release unlocked;
  return load_recording(import_manifest_text(text, catalogue(), "manifest"), {.backend = backend, .pipeline = {}});
}

Model load_call(const std::string& text, const std::string& backend) {
  const nb::gil_scoped_release unlocked;
  return load_recording(import_call(text, catalogue()), {.backend = backend, .pipeline = {}});
}

std::string content_hash(const InArray& bytes) {
  const nb::gil_scoped_release unlocked;
  return hash128(bytes.data(), bytes.nbytes()).text();
}

std::vector<std::string> aten_overloads() {
  std::vector<std::string> names;
  for (const auto& [overload, entry] : catalogue().aten()) names.push_back(overload);
  return names;
}

std::vector<nb::dict> gaps(const std::string& path) {
  std::vector<Gap> found;
  {
    const nb::gil_scoped_release unlocked;
    found = analyze_manifest(path, catalogue()).gaps;
  }
  std::vector<nb::dict> out;
  for (const Gap& gap : found) {
    nb::dict entry;
    entry["op"] = gap.op;
    entry["reason"] = gap.reason;
    entry["count"] = gap.count;
    entry["places"] = gap.places;
    entry["suggestion"] = gap.suggestion;
    out.push_back(entry);
  }
  return out;
}

// Inputs, outputs or states.
template <class Listed> std::vector<TensorInfo> infos(const Model& model, const std::vector<Listed>& listed) {
  std::vector<TensorInfo> all;
  for (const Listed& one : listed) all.push_back(info(one.name, model.program().graph.type(one.value)));
  return all;
}

void bind_error(nb::module_& m) {
  // Facts of the C++ error as attributes of the Python one.
  static nb::object error_type = nb::exception<Error>(m, "Error", PyExc_RuntimeError);
  nb::register_exception_translator([](const std::exception_ptr& p, void*) {
    try {
      std::rethrow_exception(p);
    } catch (const Error& e) {
      nb::object instance = error_type(e.text());
      instance.attr("code") = to_string(e.code());
      instance.attr("message") = e.message();
      instance.attr("expected") = e.expected();
      instance.attr("found") = e.found();
      instance.attr("op") = e.op();
      instance.attr("module_path") = e.module_path();
      instance.attr("python") = e.file_line();
      instance.attr("hint") = e.hint();
      PyErr_SetObject(error_type.ptr(), instance.ptr());
    }
  });
}

void bind_model(nb::module_& m) {
  nb::class_<Model>(m, "Model", "A recorded model, ready to run.")
      .def("forward", &forward, "inputs"_a, "Outputs by name, in the order of the model.")
      .def("trace", &trace, "inputs"_a, "(taps by id, outputs by name).")
      .def("profile", &profiled, "inputs"_a, "Where the time of a call goes, as JSON text.")
      .def("on", &on, "backend"_a, "The same recording with the same opened weights and states on another backend.")
      .def("states", &states, "What the states are now, by name: copies.")
      .def("set_states", &set_states, "states"_a, "every"_a, "States by name: some, or every one.")
      .def("reset", &Model::reset, nb::call_guard<nb::gil_scoped_release>(), "The states are as recorded.")
      .def("save_states", &Model::save_states, "path"_a, nb::call_guard<nb::gil_scoped_release>())
      .def("load_states", &Model::load_states, "path"_a, nb::call_guard<nb::gil_scoped_release>())
      .def("session", &Model::session, "The same model with states of its own, as recorded.")
      .def("with_states_of", &Model::with_states_of, "other"_a, "This model with the states of the other.")
      .def_prop_ro("state_types", [](const Model& model) { return infos(model, model.program().states); })
      .def(
          "ledger", [](const Model& model) { return to_json(model.ledger()); }, nb::call_guard<nb::gil_scoped_release>(),
          "What became of each tensor and each parameter, as JSON text.")
      .def_prop_ro("name", [](const Model& model) { return model.program().name; })
      .def_prop_ro("kind", [](const Model& model) { return model.recording().model_class; })
      .def_prop_ro("capabilities", &capabilities_of)
      .def_prop_ro("has_tokenizer", &has_tokenizer)
      .def("tokenizer", &bundled_tokenizer, nb::call_guard<nb::gil_scoped_release>(), "The bundle's.")
      .def("embed", &embedded, "texts"_a, "pool"_a, "normalize"_a, "tokenizer"_a = nb::none())
      .def_prop_ro("backend", [](const Model& model) { return model.backend(); })
      .def_prop_ro("inputs", [](const Model& model) { return infos(model, model.program().inputs); })
      .def_prop_ro("outputs", [](const Model& model) { return infos(model, model.program().outputs); })
      .def_prop_ro("taps",
                   [](const Model& model) {
                     std::vector<std::string> ids;
                     for (const Tap& tap : model.program().taps) {
                       if (!tap.inside) ids.push_back(tap.id.text());
                     }
                     return ids;
                   })
      .def_prop_ro("notes", [](const Model& model) { return model.recording().notes; })
      .def_prop_ro(
          "ptir", [](const Model& model) { return print(model.program()); }, "The program in text form, in program form.")
      .def_prop_ro(
          "output_tree", [](const Model& model) { return model.recording().output_tree; },
          "The nesting of the outputs, as JSON text.");
}

}  // namespace
}  // namespace pycandle

NB_MODULE(_core, m) {
  using namespace pycandle;
  m.doc() = "The C++ side of pycandle: load_model() in the package is what to use.";
  m.attr("__version__") = version();
  m.def("backends", &all_backend_names,
        "The backends of this build, those that ship beside it, and those in the folders of PYCANDLE_BACKEND_PATH.");

  bind_error(m);
  bind_model(m);
  m.def("load_model", &load, "path"_a, "backend"_a = "reference", "threads"_a = 0, "pack_weights"_a = true,
        "check_weights"_a = false, "weights"_a = "f32", "checkpoint"_a = nb::none(), "dump_dir"_a = "", "dump_final"_a = false,
        "overrides"_a = nb::dict(), "param_budget"_a = nb::none(),
        "A manifest, the folder of one, or a bundle. 0 threads: PYCANDLE_THREADS or all cores.");
  m.def("load_manifest", &load_manifest, "text"_a, "backend"_a = "reference", "The text of a manifest that needs no weights.");
  m.def("load_call", &load_call, "text"_a, "backend"_a = "reference",
        "One call of an overload, its types inferred and compared with nothing: src/import/single_call.h has the format.");
  m.def("content_hash", &content_hash, "bytes"_a, "The checksum of a tensor's bytes, as the manifest keeps it.");
  m.def("gaps", &gaps, "manifest"_a, "What of a recording nothing supports: op, reason, count, places, suggestion.");
  m.def("aten_overloads", &aten_overloads, "The ATen overloads that the catalogue maps.");
  bind_weights(m);
  bind_decoding(m);
  bind_text(m);
  bind_generation(m);
}
