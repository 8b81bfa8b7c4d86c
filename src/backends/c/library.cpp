#include "backends/c/library.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <set>

#include "backends/c/file.h"
#include "backends/c/text.h"
#include "base/hash.h"

namespace pycandle::c {
namespace {

std::string upper(std::string text) {
  for (char& c : text) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  return text;
}

// The arguments of NAME_run, in order.
struct Parameter {
  std::string name;
  DType dtype;
  Sizes sizes;
  enum class Kind { input, output, state } kind;
};

std::vector<Parameter> parameters_of(const Generator& g) {
  std::vector<Parameter> all;
  std::set<std::string> taken;
  const auto add = [&](const std::string& name, ValueId v, Parameter::Kind kind) {
    const Type& type = g.program.graph.type(v);
    std::string unique = identifier(name);
    for (int n = 2; !taken.insert(unique).second; ++n) unique = formatted("{}_{}", identifier(name), n);
    all.push_back({unique, type.dtype, evaluate(type.shape, g.bindings), kind});
  };
  for (const Input& i : g.program.inputs) add(i.name, i.value, Parameter::Kind::input);
  for (const Output& o : g.program.outputs) add(o.name, o.value, Parameter::Kind::output);
  for (const State& s : g.program.states) add(s.name, s.value != kNoValue ? s.value : s.updated, Parameter::Kind::state);
  return all;
}

// NAME_run, or the function that runs one sample.
std::string signature(const Generator& g, const LibraryOptions& options, bool is_of_sample = false) {
  const std::vector<Parameter> all = parameters_of(g);
  std::string text = is_of_sample ? std::string("static int run_sample(") : formatted("int {}_run(", options.name);
  if (!options.batch.empty() && !is_of_sample) text += formatted("ptrdiff_t {}{}", options.batch, all.empty() ? "" : ", ");
  for (size_t i = 0; i < all.size(); ++i) {
    text += formatted("{}{}{} *{}", i == 0 ? "" : ", ", all[i].kind == Parameter::Kind::input ? "const " : "",
                      stored_type(all[i].dtype), all[i].name);
  }
  return text + (all.empty() ? "void)" : ")");
}

std::string shape_text(const Sizes& sizes) {
  std::string text;
  for (const int64_t n : sizes) text += formatted("[{}]", n);
  return text;
}

// NAME_run over the samples of a batch.
std::string loop_over_samples(const Generator& g, const LibraryOptions& options) {
  std::string text = signature(g, options) + " {\n  int failed = 0;\n";
  text += formatted("  for (ptrdiff_t sample = 0; sample < {}; ++sample) failed |= run_sample(", options.batch);
  const auto first_axis = [&](ValueId v) {
    const Shape& shape = g.program.graph.type(v).shape;
    return !shape.empty() && shape[0] == Dim::symbol(options.batch);
  };
  std::vector<ValueId> values;
  for (const Input& i : g.program.inputs) values.push_back(i.value);
  for (const Output& o : g.program.outputs) values.push_back(o.value);
  const std::vector<Parameter> all = parameters_of(g);
  for (size_t i = 0; i < all.size(); ++i) {
    text += formatted("{}{}", i == 0 ? "" : ", ", all[i].name);
    if (first_axis(values[i])) text += formatted(" + sample * {}", count_of(all[i].sizes));
  }
  return text + ");\n  return failed;\n}\n";
}

// Names the program and the layout of its weights: a file of another one is refused.
std::string stamp(const Generator& g) {
  std::string all = functions_text(g) +
                    calls_text(g, [](const View& v) { return formatted("{}+{}", v.buffer, v.offset); }, false);
  for (const BufferId b : g.used_weights) all += formatted(" {}:{}", g.buffers[b].offset, g.buffers[b].bytes());
  return hash128(all).text();
}

std::string pointer_text(const Generator& g, const std::vector<Parameter>& parameters, const View& v) {
  const Buffer& b = g.buffers[v.buffer];
  const std::string type = stored_type(b.dtype);
  const size_t inputs = g.program.inputs.size(), outputs = g.program.outputs.size();
  std::string text;
  switch (b.place) {
    case Buffer::Place::arena: text = formatted("({} *)(void *)(arena + {})", type, b.offset); break;
    case Buffer::Place::weight: text = formatted("(const {} *)(const void *)(weights + {})", type, b.offset); break;
    case Buffer::Place::input: text = parameters[b.index].name; break;
    case Buffer::Place::output: text = parameters[inputs + b.index].name; break;
    case Buffer::Place::state: text = parameters[inputs + outputs + b.index].name; break;
    case Buffer::Place::status: return "&failed";
  }
  if (v.offset != 0) text += formatted(" {} {}", v.offset < 0 ? "-" : "+", std::abs(v.offset));
  if (!v.moving.empty()) text += " + " + v.moving;
  return text;
}

}  // namespace

std::string library_header(const Generator& g, const LibraryOptions& options) {
  const std::string macro = upper(options.name);
  std::string text = formatted(
      "/* {}: {}\n   Written by pycandle codegen --target c. */\n#ifndef {}_H\n#define {}_H\n\n#include <stddef.h>\n#include "
      "<stdint.h>\n\n"
      "#ifdef __cplusplus\nextern \"C\" {{\n#endif\n\n",
      options.name, options.about, macro, macro);
  text += formatted("#define {}_WEIGHT_BYTES {}u\n#define {}_ARENA_BYTES {}u\n", macro, g.weight_bytes + 64, macro,
                    g.arena_bytes);
  for (const Parameter& p : parameters_of(g)) {
    text += formatted("#define {}_{}_COUNT {} /* {} {}{} */\n", macro, upper(p.name), count_of(p.sizes), stored_type(p.dtype),
                      p.name, shape_text(p.sizes));
  }
  text += options.embeds_weights ? formatted("\n/* The weights are in {}.c; the argument may be null. 0. */\n", options.name)
                                 : formatted(
                                       "\n/* weights: {}.weights in memory, at an address that 64 divides, for as long as the "
                                       "model runs. 0, or 1 when it\n"
                                       "   is no such file. Call it once, before {}_run. */\n",
                                       options.name, options.name);
  text += formatted("int {}_init(const void *weights);\n\n", options.name);
  text +=
      "/* One run. 0, or 1 when an index in the input was out of range. Arrays are dense, the last axis next to each other, and "
      "do not\n"
      "   overlap. Not for several threads at once: the memory of a run is one static array.";
  if (!options.batch.empty()) text += formatted("\n   {}: how many samples; the counts above are those of one.", options.batch);
  if (!g.program.states.empty()) text += " States are read and replaced.";
  text += formatted(" */\n{};\n", signature(g, options));
  text += "\n#ifdef __cplusplus\n}\n#endif\n\n#endif\n";
  return text;
}

std::string library_weights(const Generator& g, const LibraryOptions&) {
  std::string bytes = "PYCANDLE-C-WEIGHTS-1  " + stamp(g);
  bytes.resize(64, '\0');
  bytes.reserve(64 + g.weight_bytes);
  write_weights(g, [&](const void* data, size_t count) { bytes.append(static_cast<const char*>(data), count); });
  return bytes;
}

std::string library_source(const Generator& g, const LibraryOptions& options) {
  const std::vector<Parameter> parameters = parameters_of(g);
  std::string text = formatted(
      "/* {}: {}\n   Written by pycandle codegen --target c; {}.h says how to call it. */\n#include \"{}.h\"\n\n", options.name,
      options.about, options.name, options.name);
  text += functions_text(g);
  text += formatted("_Alignas(64) static unsigned char arena[{}];\nstatic const unsigned char *weights;\n\n",
                    std::max<size_t>(g.arena_bytes, 64));
  if (options.embeds_weights) {
    std::string bytes = library_weights(g, options);
    text += formatted("_Alignas(64) static const uint64_t embedded[{}] = {{", bytes.size() / 8);
    for (size_t i = 0; i < bytes.size(); i += 8) {
      uint64_t word = 0;
      std::memcpy(&word, bytes.data() + i, 8);
      text += formatted("{}{}u,", i % 64 == 0 ? "\n  " : " ", word);
    }
    text += formatted(
        "\n}};\n\nint {}_init(const void *given) {{\n  (void)given;\n  weights = (const unsigned char *)embedded + 64;\n  return "
        "0;\n}}\n\n",
        options.name);
  } else {
    text += formatted(
        "int {}_init(const void *given) {{\n  static const char expected[] = \"PYCANDLE-C-WEIGHTS-1  {}\";\n  const char *bytes "
        "= given;\n"
        "  for (int i = 0; expected[i] != 0; ++i) {{\n    if (bytes[i] != expected[i]) return 1;\n  }}\n"
        "  weights = (const unsigned char *)given + 64;\n  return 0;\n}}\n\n",
        options.name, stamp(g));
  }
  const auto pointer = [&](const View& v) { return pointer_text(g, parameters, v); };
  text += formatted(
      "#ifdef {0}_TAPS /* for the test: called with the values of layers */\nvoid {1}_tap(int tap, const void *values);\n#define "
      "TAP(t, values) {1}_tap(t, values)\n"
      "#else\n#define TAP(t, values)\n#endif\n\n",
      upper(options.name), options.name);
  text += signature(g, options, !options.batch.empty()) + " {\n  int32_t failed = 0;\n  (void)weights, (void)arena;\n";
  for (const Parameter& p : parameters) text += formatted("  (void){};\n", p.name);
  text += calls_text(g, pointer, true, "TAP({}, {});");
  text += "  return failed;\n}\n";
  return options.batch.empty() ? text : text + "\n" + loop_over_samples(g, options);
}

std::vector<size_t> kept_taps(const Generator& g) {
  std::vector<size_t> taps;
  for (const Step& step : g.steps) {
    if (step.kind == Step::Kind::tap && step.arguments[0].view.moving.empty()) taps.push_back(step.tap);
  }
  return taps;
}

std::vector<LayerCost> layer_costs(const Generator& g) {
  std::vector<LayerCost> layers;
  std::map<std::string, size_t> by_path;
  std::set<BufferId> counted;
  for (size_t s = 0; s < g.steps.size(); ++s) {
    const Step& step = g.steps[s];
    if (step.kind != Step::Kind::call) continue;
    const std::string path = g.program.module_path(step.origin);
    const std::string name = path.empty() ? "(root)" : path.substr(0, path.rfind('@'));
    if (by_path.emplace(name, layers.size()).second) layers.push_back({name, 0, 0, 0});
    LayerCost& layer = layers[by_path[name]];
    layer.multiply_adds += step.multiply_adds;
    for (const Argument& a : step.arguments) {
      const Buffer& b = g.buffers[a.view.buffer];
      if (b.place == Buffer::Place::weight && counted.insert(a.view.buffer).second) layer.weight_bytes += b.bytes();
    }
    size_t live = 0;
    for (const Buffer& b : g.buffers) {
      if (b.place == Buffer::Place::arena && b.is_used() && b.first <= s && s <= b.last) live += b.bytes();
    }
    layer.live_bytes = std::max(layer.live_bytes, live);
  }
  return layers;
}

}  // namespace pycandle::c
