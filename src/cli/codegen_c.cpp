// pycandle codegen --target c: a recorded model as a C library.
#include <fmt/format.h>

#include <filesystem>
#include <map>

#include "backends/c/c.h"
#include "backends/c/generator.h"
#include "backends/c/library.h"
#include "base/file.h"
#include "cli/codegen.h"
#include "cli/terminal.h"
#include "ops/core/catalogue.h"
#include "runtime/model.h"
#include "verify/judging/goldens.h"

namespace pycandle::cli {
namespace {

namespace fs = std::filesystem;

// The recorded sizes, but for those that --set names.
Bindings sizes_of(const Program& p, const std::vector<std::string>& given) {
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
  for (const Symbol& s : p.symbols) {
    const int64_t n = sizes[s.name];
    if (n >= s.range.min && (!s.range.max || n <= *s.range.max)) continue;
    throw Error(ErrorCode::usage, fmt::format("the size {} is not one that the program takes", s.name))
        .expected(s.range.max ? fmt::format("{} to {}", s.range.min, *s.range.max) : fmt::format("at least {}", s.range.min))
        .found(fmt::format("{}", n));
  }
  return sizes;
}

// What the test compares; nothing at other sizes than the recorded ones.
struct Recorded {
  std::vector<Array> inputs, states;
  std::vector<c::Golden> goldens;
};
std::optional<Recorded> recorded_values(const Recording& recording, const c::Generator& g, const ParameterSource& parameters) {
  if (recording.trace_file.empty()) return std::nullopt;
  const Goldens goldens(g.program, recording.folder / recording.trace_file);
  for (const auto& [name, size] : g.bindings) {
    const auto found = goldens.sizes().find(name);
    if (found != goldens.sizes().end() && found->second != size) return std::nullopt;
  }
  Recorded recorded{goldens.inputs(), {}, {}};
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
  const Program program = c::lowered_program(recording.program, catalogue());
  c::Generator g(program, catalogue(), *parameters, sizes_of(program, options.sizes), {.is_freestanding = options.freestanding});
  g.run();
  const c::LibraryOptions library{c::identifier(options.model.empty() ? out.stem().string() : options.model),
                                  fmt::format("class {}, torch {}", recording.model_class, recording.torch_version),
                                  options.embed_weights};
  if (library.embeds_weights && g.weight_bytes > c::kMostEmbedded) {
    throw Error(ErrorCode::usage, "the weights are too large to stand in a C file: compilers need minutes and gigabytes for it")
        .expected(fmt::format("at most {} MB with --embed-weights", c::kMostEmbedded >> 20))
        .found(fmt::format("{:.1f} MB", static_cast<double>(g.weight_bytes) / (1 << 20)))
        .hint("leave --embed-weights out: they are written beside the C file, for the caller to map");
  }
  std::vector<emit::EmittedFile> texts{{out.filename(), c::library_source(g, library)},
                                       {fs::path(library.name + ".h"), c::library_header(g, library)}};
  const std::optional<Recorded> recorded = recorded_values(recording, g, *parameters);
  if (recorded) texts.push_back({fs::path(library.name + "_test.c"), c::library_test(g, library, recorded->goldens)});
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
