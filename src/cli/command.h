// What the commands share: how one is added, how results and errors are shown.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "cli/options.h"
#include "passes/pipeline.h"

namespace pycandle::cli {

// Each command adds itself and sets `status` when it runs. --json is common to all.
struct Context {
  int status = 0;
  bool json = false;
};

void add_new(Command&, Context&);
void add_init(Command&, Context&);
void add_inspect(Command&, Context&);
void add_forward(Command&, Context&);
void add_trace(Command&, Context&);
void add_verify(Command&, Context&);
void add_report(Command&, Context&);
void add_replay(Command&, Context&);
void add_bench(Command&, Context&);
void add_bench_runner(Command&, Context&);
void add_accept(Command&, Context&);
void add_codegen(Command&, Context&);
void add_todos(Command&, Context&);
void add_gen_test(Command&, Context&);
void add_gen_bench(Command&, Context&);
void add_weights(Command&, Context&);
void add_bundle(Command&, Context&);
void add_embed(Command&, Context&);
void add_test_backend(Command&, Context&);
void add_ops(Command&, Context&);
void add_doctor(Command&, Context&);
void add_completions(Command&, Context&);
void add_man(Command&, Context&);

// A subcommand with its example in the help text, --json, and `run` as its callback.
Command add_command(Command&, Context&, const std::string& name, const std::string& summary, const std::string& example);

// --disable-pass, --dump-dir, --dump-mode.
void add_pipeline_options(Command&, PipelineOptions&);
// --override, and --threads unless it is left out.
void add_backend_options(Command&, PipelineOptions&, bool with_threads = true);
// A number of bytes: 500MB, 2GB.
void add_bytes_option(Command&, const std::string& name, std::optional<uint64_t>&, const std::string& help);
// --param-budget.
void add_budget_option(Command&, std::optional<uint64_t>&);
// --set s0=4, repeatable.
Bindings parse_sizes(const std::vector<std::string>&);

void show_error(const Error&, bool json);

}  // namespace pycandle::cli
