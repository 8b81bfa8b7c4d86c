// pycandle codegen --target c: a recorded model as a C library.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <map>

#include "backends/c/c.h"
#include "backends/c/generator.h"
#include "backends/c/library.h"
#include "backends/reference/reference.h"
#include "base/file.h"
#include "base/weight_format.h"
#include "cli/codegen.h"
#include "cli/terminal.h"
#include "ops/core/catalogue.h"
#include "runtime/model.h"
#include "verify/judging/goldens.h"

namespace pycandle::cli {
namespace {

namespace fs = std::filesystem;

// The recorded sizes, but for those that --set names.
Bindings sizes_of(const Program& p, const std::vector<std::string>& given, const std::string& batch) {
  Bindings sizes;
  for (const Symbol& s : p.symbols) sizes[s.name] = s.example;
  for (const auto& [name, size] : parse_sizes(given)) {
    const auto found = sizes.find(name);
    if (found == sizes.end()) {
      std::string known;
      for (const auto& [symbol, n] : sizes) known += fmt::format("{}{}", known.empty() ? "" : ", ", symbol);
      throw Error(ErrorCode::usage, fmt::format("the program has no size {}", name))
          .expected(known.empty() ? "no --set: all sizes are fixed" : "one of " + known)
          .found(name);
    }
    found->second = size;
  }
  if (!batch.empty()) sizes.at(batch) = 1;
  for (const Symbol& s : p.symbols) {
    const int64_t n = sizes[s.name];
    if (n >= s.range.min && (!s.range.max || n <= *s.range.max)) continue;
    throw Error(ErrorCode::usage, fmt::format("the size {} is not one that the program takes", s.name))
        .expected(s.range.max ? fmt::format("{} to {}", s.range.min, *s.range.max) : fmt::format("at least {}", s.range.min))
        .found(fmt::format("{}", n));
  }
  return sizes;
}

// ---- samples of a batch

Error no_samples(const std::string& batch, const std::string& why) {
  return Error(ErrorCode::gap, fmt::format("--batch {} needs samples that do not know of each other", batch))
      .found(why)
      .hint(fmt::format("--set {}=8 writes code for one size", batch));
}

bool mentions(const Shape& shape, const std::string& symbol) {
  std::vector<std::string> symbols;
  for (const Dim d : shape) d.collect_symbols(symbols);
  return std::find(symbols.begin(), symbols.end(), symbol) != symbols.end();
}

// One row for each sample, the first axis.
bool is_batch(const Shape& shape, const std::string& batch) { return !shape.empty() && shape[0] == Dim::symbol(batch); }

// Inputs, or outputs, of one sample.
template <class Values>
std::vector<Array> one_sample(const Program& p, const Values& of, const std::vector<Array>& all, const std::string& batch,
                              int64_t i) {
  std::vector<Array> one;
  for (size_t v = 0; v < all.size(); ++v) {
    Sizes shape = all[v].shape();
    if (!is_batch(p.graph.type(of[v].value).shape, batch)) {
      one.push_back(all[v]);
      continue;
    }
    const size_t bytes = all[v].bytes() / static_cast<size_t>(shape[0]);
    shape[0] = 1;
    Array row(all[v].dtype(), shape);
    std::memcpy(row.mutable_data(), all[v].template as<char>() + static_cast<size_t>(i) * bytes, bytes);
    one.push_back(std::move(row));
  }
  return one;
}

double difference(const Array& a, const Array& b) {
  const std::vector<double> x = load_double(a), y = load_double(b);
  double error = 0, size = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    if (std::isnan(x[i]) != std::isnan(y[i])) return INFINITY;
    if (std::isnan(x[i]) || x[i] == y[i]) continue;
    error += (x[i] - y[i]) * (x[i] - y[i]);
    size += y[i] * y[i];
  }
  return error == 0 ? 0 : std::sqrt(error / size);
}

// Every sample alone gives what it gives among others: seen on random inputs, as the recorder sees that an axis is open.
void require_samples(const Recording& recording, const PipelineOptions& pipeline,
                     const std::shared_ptr<const ParameterSource>& parameters, const CodegenOptions& options) {
  const Program& p = recording.program;
  const std::string& batch = options.batch;
  Bindings sizes = sizes_of(p, options.sizes, {});
  if (sizes.count(batch) == 0)
    throw Error(ErrorCode::usage, fmt::format("the program has no size {}", batch)).expected("a size of its inputs").found(batch);
  if (!p.states.empty()) throw no_samples(batch, "the model has states");
  const auto check = [&](const std::string& name, const Shape& shape) {
    if (mentions(shape, batch) && (!is_batch(shape, batch) || mentions(Shape(shape.begin() + 1, shape.end()), batch)))
      throw no_samples(batch, fmt::format("{} is {}", name, to_string(shape)));
  };
  for (const Input& i : p.inputs) check(i.name, p.graph.type(i.value).shape);
  for (const Output& o : p.outputs) {
    check(o.name, p.graph.type(o.value).shape);
    if (!is_batch(p.graph.type(o.value).shape, batch)) throw no_samples(batch, o.name + " is one for all samples");
  }
  constexpr int64_t kSamples = 3;
  sizes[batch] = kSamples;
  const auto reference = reference_backend().compile(p, catalogue(), parameters, pipeline);
  for (const uint64_t seed : {1, 2}) {
    RunRequest request;
    const Model::Tensors made = random_inputs(p, seed, sizes);
    for (const Input& i : p.inputs) request.inputs.push_back(made.at(i.name));
    const std::vector<Array> together = reference->run(request);
    const std::vector<Array> inputs = request.inputs;
    for (int64_t i = 0; i < kSamples; ++i) {
      request.inputs = one_sample(p, p.inputs, inputs, batch, i);
      const std::vector<Array> alone = reference->run(request), among = one_sample(p, p.outputs, together, batch, i);
      for (size_t o = 0; o < alone.size(); ++o) {
        if (difference(alone[o], among[o]) > 1e-4)
          throw no_samples(batch,
                           fmt::format("{} of a sample alone differs from the same among {}", p.outputs[o].name, kSamples));
      }
    }
  }
}

// What the test compares; nothing at other sizes than the recorded ones.
struct Recorded {
  std::vector<Array> inputs, states;
  std::vector<c::Golden> goldens;
};
std::optional<Recorded> recorded_values(const Recording& recording, const c::Generator& g, const ParameterSource& parameters,
                                        const std::string& batch) {
  if (recording.trace_file.empty()) return std::nullopt;
  const Goldens goldens(g.program, recording.folder / recording.trace_file);
  for (const auto& [name, size] : g.bindings) {
    const auto found = goldens.sizes().find(name);
    if (name != batch && found != goldens.sizes().end() && found->second != size) return std::nullopt;
  }
  Recorded recorded{goldens.inputs(), {}, {}};
  if (!batch.empty()) recorded.inputs = one_sample(g.program, g.program.inputs, recorded.inputs, batch, 0);
  for (const State& s : g.program.states) {
    const ValueId v = s.value != kNoValue ? s.value : s.updated;
    recorded.states.push_back(s.value != kNoValue && goldens.has(v) ? goldens.get(v)
                                                                    : parameters.get_state(s, g.program.graph.type(v)));
  }
  for (const size_t t : c::kept_taps(g)) {
    const Tap& tap = g.program.taps[t];
    if (goldens.has(tap.value)) recorded.goldens.push_back({tap.id.text(), t, false, goldens.get(tap.value)});
  }
  for (size_t o = 0; o < g.program.outputs.size(); ++o) {
    const std::string& name = g.program.outputs[o].name;
    if (const auto value = goldens.output(name)) recorded.goldens.push_back({"output " + name, o, true, *value});
  }
  return recorded;
}

// Rounded weights, or one sample alone, give other values than PyTorch's recorded ones: then the test compares with what the
// reference makes of the same program.
void take_values_of(const Program& rounded, const PipelineOptions& options,
                    const std::shared_ptr<const ParameterSource>& parameters, Recorded& recorded) {
  std::map<size_t, Array> taps;
  std::vector<Array> states = recorded.states;
  RunRequest request;
  request.inputs = recorded.inputs;
  request.states = &states;
  request.on_tap = [&](size_t tap, const Array& value) { taps.insert_or_assign(tap, value); };
  const std::vector<Array> outputs = reference_backend().compile(rounded, catalogue(), parameters, options)->run(request);
  for (c::Golden& golden : recorded.goldens) golden.value = golden.is_output ? outputs.at(golden.tap) : taps.at(golden.tap);
}

std::string bytes_text(size_t bytes) { return fmt::format("{:.1f} KB", static_cast<double>(bytes) / 1024); }

void print_report(const c::Generator& g) {
  Table table;
  table.row({"layer", "flash", "RAM while it runs", "multiply-adds"});
  double total = 0;
  for (const c::LayerCost& layer : c::layer_costs(g)) {
    total += layer.multiply_adds;
    table.row(
        {layer.layer, bytes_text(layer.weight_bytes), bytes_text(layer.live_bytes), fmt::format("{:.0f}", layer.multiply_adds)});
  }
  table.row({"all", bytes_text(g.weight_bytes), bytes_text(g.arena_bytes), fmt::format("{:.0f}", total)});
  fmt::print("{}", table.text());
}

Json report_of(const c::Generator& g) {
  Json layers = Json::array();
  for (const c::LayerCost& layer : c::layer_costs(g)) {
    layers.push_back({{"layer", layer.layer},
                      {"flash", layer.weight_bytes},
                      {"ram", layer.live_bytes},
                      {"multiply_adds", static_cast<int64_t>(layer.multiply_adds)}});
  }
  return layers;
}

}  // namespace

bool wants_c(const CodegenOptions& options) {
  return options.target == "c" || (options.target.empty() && fs::path(options.out).extension() == ".c");
}

void generate_c(const CodegenOptions& options, Context& context) {
  const fs::path out(options.out);
  if (out.extension() != ".c")
    throw Error(ErrorCode::usage, "the output is no C file").expected("a name that ends in .c").found(options.out);
  Recording recording = imported_for_code(options);
  const auto parameters = recorded_parameters(recording);
  PipelineOptions pipeline;
  pipeline.weights = parse_weight_format(options.weights);
  const Program program = c::lowered_program(recording.program, catalogue(), pipeline);
  if (!options.batch.empty()) require_samples(recording, pipeline, parameters, options);
  c::Generator g(program, catalogue(), *parameters, sizes_of(program, options.sizes, options.batch),
                 {.is_freestanding = options.freestanding});
  g.run();
  const c::LibraryOptions library{c::identifier(options.model.empty() ? out.stem().string() : options.model),
                                  fmt::format("class {}, torch {}", recording.model_class, recording.torch_version),
                                  options.embed_weights, options.batch};
  if (library.embeds_weights && g.weight_bytes > c::kMostEmbedded) {
    throw Error(ErrorCode::usage, "the weights are too large to stand in a C file: compilers need minutes and gigabytes for it")
        .expected(fmt::format("at most {} MB with --embed-weights", c::kMostEmbedded >> 20))
        .found(fmt::format("{:.1f} MB", static_cast<double>(g.weight_bytes) / (1 << 20)))
        .hint("leave --embed-weights out: they are written beside the C file, for the caller to map");
  }
  std::vector<emit::EmittedFile> texts{{out.filename(), c::library_source(g, library)},
                                       {fs::path(library.name + ".h"), c::library_header(g, library)}};
  std::optional<Recorded> recorded = recorded_values(recording, g, *parameters, options.batch);
  if (recorded && (pipeline.weights != WeightFormat::f32 || !options.batch.empty()))
    take_values_of(recording.program, pipeline, parameters, *recorded);
  if (recorded) texts.push_back({fs::path(library.name + "_test.c"), c::library_test(g, library, recorded->goldens)});
  std::error_code cannot_be_made;  // then writing says so
  fs::create_directories(out.parent_path(), cannot_be_made);
  for (const emit::EmittedFile& f : texts) write_text(out.parent_path() / f.path, f.text);
  if (!library.embeds_weights) write_text(out.parent_path() / (library.name + ".weights"), c::library_weights(g, library));
  if (recorded)
    write_text(out.parent_path() / (library.name + ".goldens"),
               c::library_goldens(recorded->inputs, recorded->states, recorded->goldens));
  if (context.json) {
    Json facts{{"weight_bytes", g.weight_bytes},
               {"arena_bytes", g.arena_bytes},
               {"functions", g.functions.size()},
               {"files", Json::array()}};
    for (const emit::EmittedFile& f : texts) facts["files"].push_back((out.parent_path() / f.path).string());
    if (options.report) facts["layers"] = report_of(g);
    fmt::print("{}\n", facts.dump(2));
    return;
  }
  for (const emit::EmittedFile& f : texts) fmt::print("{}\n", (out.parent_path() / f.path).string());
  fmt::print("weights {}, arena {}, {} functions\n", bytes_text(g.weight_bytes), bytes_text(g.arena_bytes), g.functions.size());
  if (options.report) print_report(g);
}

}  // namespace pycandle::cli
