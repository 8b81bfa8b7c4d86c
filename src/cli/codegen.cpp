// pycandle codegen: a recorded model as source code; --analyze-only: how much of it the catalogue supports.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>

#include "base/json.h"
#include "cli/codegen.h"
#include "cli/scaffold.h"
#include "cli/terminal.h"
#include "emit/cpp/project.h"
#include "emit/files.h"
#include "emit/line_map.h"
#include "emit/proof/proof.h"
#include "import/importer.h"
#include "ops/core/catalogue.h"
#include "passes/decode_step.h"
#include "passes/pipeline.h"
#include "verify/floor_file.h"

namespace pycandle::cli {
namespace {

double coverage_percent(const Analysis& a) { return a.total == 0 ? 100.0 : 100.0 * a.supported / a.total; }

Json to_json(const Analysis& a) {
  Json gaps = Json::array();
  for (const Gap& gap : a.gaps) {
    gaps.push_back(
        {{"op", gap.op}, {"count", gap.count}, {"reason", gap.reason}, {"suggestion", gap.suggestion}, {"places", gap.places}});
  }
  Json layers = Json::array();
  for (const auto& layer : a.layers) {
    layers.push_back(
        {{"path", layer.path}, {"class", layer.class_name}, {"nodes", layer.nodes}, {"unsupported", layer.unsupported}});
  }
  return {{"name", a.name},
          {"supported", a.supported},
          {"unsupported", a.total - a.supported},
          {"total", a.total},
          {"coverage_percent", coverage_percent(a)},
          {"gaps", gaps},
          {"layers", layers}};
}

void print_text(const Analysis& a) {
  fmt::print("{}: {} of {} nodes are supported ({:.1f} %)\n", styled(a.name, Style::bold), a.supported, a.total,
             coverage_percent(a));
  for (const Gap& gap : a.gaps) {
    fmt::print("\n{} {}{}\n", styled("gap", Style::red), gap.op, gap.count > 1 ? fmt::format(", {} times", gap.count) : "");
    if (!gap.reason.empty()) fmt::print("  why   {}\n", gap.reason);
    for (size_t i = 0; i < gap.places.size() && i < 3; ++i) fmt::print("  in    {}\n", gap.places[i]);
    if (gap.places.size() > 3) fmt::print("        and {} more places (--json lists them)\n", gap.places.size() - 3);
    if (!gap.suggestion.empty()) fmt::print("  hint  {}\n", gap.suggestion);
  }
  if (a.gaps.empty()) return;
  Table table;
  for (const auto& layer : a.layers) {
    if (layer.unsupported > 0)
      table.row({layer.path.empty() ? "(root)" : layer.path, layer.class_name,
                 fmt::format("{} of {} nodes", layer.unsupported, layer.nodes)});
  }
  fmt::print("\nlayers with gaps\n{}", table.text());
}

using Options = CodegenOptions;

void analyze(const Options& options, Context& context) {
  const Analysis analysis = analyze_manifest(find_manifest(options.manifest), catalogue());
  if (context.json) {
    fmt::print("{}\n", to_json(analysis).dump(2));
  } else {
    print_text(analysis);
  }
  context.status = analysis.gaps.empty() ? 0 : 1;
}

// "class Mixer, torch 2.11.0, inputs x f32[s0, 5, 8]"
std::string facts_of(const Recording& r) {
  std::vector<std::string> inputs;
  for (const Input& input : r.program.inputs) inputs.push_back(input.name + " " + r.program.graph.type(input.value).text());
  return fmt::format("class `{}`, torch {}, inputs {}.", r.model_class, r.torch_version, fmt::join(inputs, ", "));
}

emit::EmittedFiles emitted(const Options& options, const emit::cpp::PrintedModel& printed, const emit::ProvenHeader& header,
                           const std::string& recording) {
  const std::filesystem::path out(options.out);
  const std::string ending = out.extension().string();
  if (ending == ".hpp" || ending == ".h") {
    return {out.parent_path(), {{out.filename(), header}}};
  }
  static const std::set<std::string> kFiles{".cpp", ".cc", ".cxx", ".hh", ".hxx", ".txt", ".json", ".py", ".rs"};
  if (kFiles.count(ending) != 0) {
    throw Error(ErrorCode::usage, "the output is neither a header nor a folder")
        .expected("a file that ends in .hpp, or a folder, which becomes a project")
        .found(options.out);
  }
  std::error_code failure;
  if (std::filesystem::exists(out, failure) && !std::filesystem::is_directory(out, failure)) {
    throw Error(ErrorCode::usage, "the output is there and is no folder")
        .expected("a folder, or a file that ends in .hpp")
        .found(options.out);
  }
  return {out, emit::cpp::project_sources(printed, header, recording, manifest_from(options.manifest, options.out))};
}

// CMake and the like of a project; what is there already stays.
void write_around(const Options& options, const emit::cpp::PrintedModel& printed, const EmittedFrom& from) {
  const std::filesystem::path out = std::filesystem::absolute(options.out).lexically_normal();
  const std::string name = (out.has_filename() ? out : out.parent_path()).filename().string();
  write_absent(options.out, emitted_project_files(name, printed.name, from));
}

struct Proven {
  emit::cpp::PrintedModel printed;
  emit::ProvenHeader header;
};

// Classes that differ in an argument or a field are one where that is the recorded program, else each is its own.
Proven printed_and_proven(const Program& program, const std::string& model) {
  const auto made = [&](bool has_switches) {
    const emit::ModelTree tree = emit::recover(program, catalogue(), {.has = {}, .has_switches = has_switches});
    emit::cpp::PrintedModel printed = emit::cpp::print_header(tree, model);
    emit::ProvenHeader header = emit::proof::prove(printed.header.text(), program);
    return Proven{std::move(printed), std::move(header)};
  };
  try {
    return made(true);
  } catch (const Error& e) {
    if (e.code() != ErrorCode::gap) throw;
    return made(false);
  }
}

void generate(const Options& options, Context& context) {
  Progress progress("codegen");
  Recording recording = imported_for_code(options);
  const std::string name = recording.program.name, origin = facts_of(recording);
  if (options.stateful) recording.program = decode_step_in_code(recording.program, catalogue()).step;
  progress.stage("codegen: proving that the text is the recorded program");
  const auto [printed, header] = printed_and_proven(recording.program, options.model);
  emit::EmittedFiles files = emitted(options, printed, header, name);
  files.keep_lines(emit::line_map(header, recording.program));
  progress.finish();
  finish_codegen(options, context, files, {{"model", printed.name}, {"namespace", printed.name_space}, {"notes", printed.notes}},
                 [&] {
                   write_around(options, printed, {name, manifest_from(options.manifest, options.out), origin});
                   write_floor_file(options.manifest);
                 });
}

// Each file, how long it is, and what writing it changes.
std::string listed(const emit::EmittedFiles& files) {
  std::string text;
  for (const emit::EmittedFile& f : files.files()) {
    text += fmt::format("{}  {} lines, {}\n", files.target(f).string(), std::count(f.text.begin(), f.text.end(), '\n'),
                        to_string(files.state(f)));
  }
  return text;
}

Json with_files(Json facts, const emit::EmittedFiles& files) {
  Json list = Json::array();
  for (const emit::EmittedFile& f : files.files()) {
    list.push_back({{"path", files.target(f).string()},
                    {"state", to_string(files.state(f))},
                    {"lines", std::count(f.text.begin(), f.text.end(), '\n')}});
  }
  facts["files"] = list;
  return facts;
}

}  // namespace

Recording imported_for_code(const Options& options) {
  Recording recording = options.allow_gaps ? import_with_gaps(options.manifest, catalogue())
                                           : import_manifest(options.manifest, catalogue());
  const bool are_later = options.without_weights || recording.soundness == "shapes-only";  // of the meta device: extracted later
  for (const Parameter& q : recording.program.parameters) {
    if (q.value == kNoValue || !q.file.empty() || are_later) continue;
    throw Error(ErrorCode::bad_input, "the recording has no weights, so the code could not be run or proven")
        .expected("a file for each parameter")
        .found(q.name + " has none")
        .hint("record with --weights save, or with --weights ref and a checkpoint; --without-weights writes the code alone");
  }
  // Every value of an ONNX file is kept by name. The code has modules: what is recognised may take the others in.
  if (recording.torch_version.empty())
    std::erase_if(recording.program.taps, [](const Tap& tap) { return tap.id.kind == TapId::Kind::node; });
  recording.program = run_program_pipeline(std::move(recording.program), catalogue());
  return recording;
}

std::string manifest_from(const std::string& manifest, const std::filesystem::path& project) {
  const std::filesystem::path absolute = std::filesystem::absolute(find_manifest(manifest)).lexically_normal();
  return absolute.lexically_relative(std::filesystem::absolute(project).lexically_normal()).generic_string();
}

void finish_codegen(const Options& options, Context& context, emit::EmittedFiles& files, Json facts,
                    const std::function<void()>& around) {
  const std::string difference = options.diff || options.check ? files.diff() : std::string();
  if (options.diff || options.check) {
    context.status = options.check && !difference.empty() ? 1 : 0;
    if (context.json) {
      facts = with_files(std::move(facts), files);
      facts["differs"] = !difference.empty();
      fmt::print("{}\n", facts.dump(2));
    } else if (options.diff) {
      fmt::print("{}", difference);
    } else {
      fmt::print("{}", listed(files));
    }
    return;
  }
  if (options.merge) files.merge();
  const std::string said = context.json ? with_files(std::move(facts), files).dump(2) + "\n" : listed(files);
  files.write();
  if (files.files().size() > 1) around();  // a project, with tests
  fmt::print("{}", said);  // what an error kept from being written was not written
}

void add_codegen(Command& app, Context& context) {
  auto options = std::make_shared<Options>();
  Command command = add_command(app, context, "codegen", "write a recorded model as C++, Rust or C source",
                                "pycandle codegen --manifest pycandle_trace --out src/model.hpp");
  command.add_option("--manifest", options->manifest, "a manifest, or the folder of one").required();
  command.add_option("--out", options->out,
                     "a header (model.hpp), a Rust file (src/lib.rs), a C file (model.c), or a folder, which becomes a project");
  command.add_option("--model", options->model, "the name of the model's class; Python's by default");
  command.add_option("--target", options->target, "the language: cpp, candle for Rust, or c (by default what --out ends in)")
      .one_of({"cpp", "candle", "c"});
  command.add_option("--set", options->sizes, "c: a size other than the recorded one, such as s0=4 (repeatable)");
  command.add_option("--batch", options->batch,
                     "c: a size, such as s0, that each run is told: its samples run one after another, in the memory of one");
  command.add_option("--weights", options->weights, "c: how linear layers and embeddings keep theirs (docs/narrow-weights.md)")
      .one_of({"f32", "int8"});
  command.add_flag("--embed-weights", options->embed_weights, "c: the weights stand in the C file, up to 16 MB");
  command.add_flag("--freestanding", options->freestanding, "c: mathematical functions of its own, no libm");
  command.add_flag("--report", options->report, "c: flash, RAM and multiply-adds of each layer");
  command.add_flag("--stateful", options->stateful,
                   "the decode step of a causal model: forward() takes new tokens and a Cache (docs/decoding.md)");
  command.add_flag("--analyze-only", options->analyze_only, "report coverage and gaps; exit 1 when there are gaps");
  command.add_flag("--allow-gaps", options->allow_gaps,
                   "write what is not supported as a call that throws, marked for pycandle todos");
  command.add_flag("--without-weights", options->without_weights,
                   "also from a recording that has none (a model on the meta device): there is nothing to prove the code by");
  command.add_flag("--diff", options->diff, "write nothing: show what would change");
  command.add_flag("--check", options->check, "write nothing: exit 1 when the output is not what would be written");
  command.add_flag("--merge", options->merge, "keep your edits where the new text does not touch the same lines");
  command.callback([options, &context] {
    if (options->analyze_only) return analyze(*options, context);
    if (options->out.empty()) {
      throw Error(ErrorCode::usage, "codegen needs a place to write to").expected("--out src/model.hpp, or --analyze-only");
    }
    if (wants_c(*options)) return generate_c(*options, context);
    wants_candle(*options) ? generate_candle(*options, context) : generate(*options, context);
  });
}

}  // namespace pycandle::cli
