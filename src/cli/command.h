// What the commands share: how one is added, how results and errors are shown.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

#include "base/error.h"
#include "passes/pipeline.h"

namespace pycandle::cli {

// Each command adds itself and sets `status` when it runs. --json is common to all.
struct Context {
  int status = 0;
  bool json = false;
};

void add_new(CLI::App&, Context&);
void add_init(CLI::App&, Context&);
void add_inspect(CLI::App&, Context&);
void add_forward(CLI::App&, Context&);
void add_trace(CLI::App&, Context&);
void add_verify(CLI::App&, Context&);
void add_replay(CLI::App&, Context&);
void add_bench(CLI::App&, Context&);
void add_codegen(CLI::App&, Context&);
void add_todos(CLI::App&, Context&);
void add_gen_test(CLI::App&, Context&);
void add_gen_bench(CLI::App&, Context&);
void add_ops(CLI::App&, Context&);
void add_doctor(CLI::App&, Context&);
// Recording runs in Python and takes its arguments as they are; this entry shows it in --help.
void add_record(CLI::App&, Context&);
int run_record(int argc, char** argv);  // argv[0] is "record"

// A subcommand with its example in the help text, --json, and `run` as its callback.
CLI::App* add_command(CLI::App&, Context&, const std::string& name, const std::string& summary, const std::string& example);

// --disable-pass, --dump-dir, --dump-mode.
void add_pipeline_options(CLI::App*, PipelineOptions&);
// --override, and --threads unless it is left out.
void add_backend_options(CLI::App*, PipelineOptions&, bool with_threads = true);
// --set s0=4, repeatable.
Bindings parse_sizes(const std::vector<std::string>&);

void show_error(const Error&, bool json);

}  // namespace pycandle::cli
