// pycandle: one program, one file per command.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstring>
#include <exception>
#include <filesystem>
#include <memory>

#include "backends/c/c.h"
#include "base/version.h"
#include "cli/command.h"
#include "cli/diff.h"
#include "cli/export.h"
#include "cli/generate.h"
#include "cli/in_python.h"
#include "cli/nearest.h"
#include "cli/onnx_convert.h"
#include "cli/python_finder.h"
#include "cli/terminal.h"
#include "cli/tokenize.h"
#include "runtime/backends.h"

namespace pycandle::cli {
namespace {

// What cannot be parsed may stand before --json, and is shown as JSON all the same.
bool asks_for_json(int argc, char** argv) {
  return std::any_of(argv + 1, argv + argc, [](const char* word) { return std::strcmp(word, "--json") == 0; });
}

std::string suggestion(const std::string& best) {
  return best.empty() ? "--help shows what there is" : fmt::format("did you mean {}?", best);
}

// A word in the place of a command that is none.
void refuse_unknown_command(const CLI::App& app, int argc, char** argv) {
  const CLI::App* inside = &app;
  std::string typed;
  for (int i = 1; i < argc && argv[i][0] != '-' && !inside->get_subcommands({}).empty(); ++i) {
    std::vector<std::string> names;
    const CLI::App* found = nullptr;
    for (const CLI::App* command : inside->get_subcommands({})) {
      if (command->get_name() == argv[i]) found = command;
      if (!command->get_group().empty()) names.push_back(command->get_name());
    }
    typed += (typed.empty() ? "" : " ") + std::string(argv[i]);
    if (found == nullptr)
      throw Error(ErrorCode::usage, fmt::format("there is no command {}", typed)).hint(suggestion(nearest(argv[i], names)));
    inside = found;
  }
}

// Words that the command does not take.
Error unexpected_words(const CLI::App& app) {
  std::vector<std::string> names, words = app.remaining(true);
  for (const CLI::App* command : app.get_subcommands()) {
    for (const CLI::Option* option : command->get_options()) {
      for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
    }
  }
  const auto option = std::find_if(words.begin(), words.end(), [](const std::string& word) { return word.starts_with("--"); });
  const std::string& word = option == words.end() ? words.front() : *option;
  return Error(ErrorCode::usage, fmt::format("{} was not expected", word))
      .hint(suggestion(option == words.end() ? "" : nearest(word.substr(0, word.find('=')), names)));
}

// For --help; run_in_python runs it.
void add_in_python(Command& commands, const char* name) { commands.add_subcommand(name, find_python_command(name)->summary); }

// Descriptions beside the names, as wide as the terminal.
class HelpFormatter : public CLI::Formatter {
 public:
  std::string make_option(const CLI::Option* option, bool is_positional) const override {
    return in_columns(make_option_name(option, is_positional) + make_option_opts(option), make_option_desc(option));
  }
  std::string make_subcommand(const CLI::App* command) const override {
    return in_columns(command->get_display_name(true), command->get_description());
  }
  std::string make_description(const CLI::App* app) const override {
    return wrapped(CLI::Formatter::make_description(app), 0, 0);
  }

 private:
  std::string in_columns(const std::string& name, const std::string& text) const {
    const size_t column = get_column_width(), used = name.size() + 2;
    const std::string gap = used < column ? std::string(column - used, ' ') : "\n" + std::string(column, ' ');
    return "  " + name + (text.empty() ? "" : gap + wrapped(text, column, column)) + "\n";
  }
};

// In the order of --help.
void add_all(Command& commands, Context& context) {
  add_new(commands, context);
  add_init(commands, context);
  add_in_python(commands, "record");
  add_inspect(commands, context);
  add_forward(commands, context);
  add_generate(commands, context);
  add_trace(commands, context);
  add_verify(commands, context);
  add_report(commands, context);
  add_in_python(commands, "dashboard");
  add_diff(commands, context);
  add_replay(commands, context);
  add_bench(commands, context);
  add_bench_runner(commands, context);
  add_codegen(commands, context);
  add_accept(commands, context);
  add_todos(commands, context);
  add_gen_test(commands, context);
  add_gen_bench(commands, context);
  add_weights(commands, context);
  add_onnx_convert(commands, context);
  add_export(commands, context);
  add_bundle(commands, context);
  add_embed(commands, context);
  add_tokenize(commands, context);
  add_test_backend(commands, context);
  add_ops(commands, context);
  add_doctor(commands, context);
  add_completions(commands, context);
  add_man(commands, context);
}

int run(int argc, char** argv) {
  remember_invocation(argv[0]);
  if (const PythonCommand* in_python = argc > 1 ? find_python_command(argv[1]) : nullptr) {
    try {
      return run_in_python(*in_python, argc - 1, argv + 1);
    } catch (const Error& error) {
      show_error(error, asks_for_json(argc, argv));
      return exit_status(error.code());
    }
  }
  CLI::App app("PyCandle turns a PyTorch model into a portable program, and proves layer by layer that it computes the same.",
               "pycandle");
  app.formatter(std::make_shared<HelpFormatter>());
  app.footer(
      "Each command has its own --help with an example.\nExit status: 0 fine, 1 verdict or gap, 2 bad input or usage, 3 "
      "internal.");
  app.set_version_flag("--version", std::string("pycandle ") + version());
  app.add_flag_callback(
      "--cmake-dir",
      [] {
        const auto folder = find_cmake_package();
        if (!folder)
          throw Error(ErrorCode::bad_input, "there is no CMake package beside this program")
              .expected("lib/cmake/pycandle/pycandleConfig.cmake")
              .hint("cmake --install puts it there, as the wheel does");
        fmt::print("{}\n", *folder);
        throw CLI::Success();
      },
      "print where find_package(pycandle) finds the C++ library, and exit");
  app.add_flag_callback(
      "--crate-dir",
      [] {
        fmt::print("{}\n", find_crate());
        throw CLI::Success();
      },
      "print where the Rust crate pycandle is, which emitted Candle code depends on, and exit");
  app.require_subcommand(1);
  const bool json = asks_for_json(argc, argv);
  Context context;
  Command commands(app);
  add_all(commands, context);
  try {
    refuse_unknown_command(app, argc, argv);
    app.parse(argc, argv);
  } catch (const CLI::Success& success) {  // --help and --version
    return app.exit(success);
  } catch (const CLI::ExtrasError&) {
    show_error(unexpected_words(app), json);
    return 2;
  } catch (const CLI::ParseError& error) {
    const std::string what = app.get_subcommands().empty() ? "a command is missing" : error.what();
    show_error(Error(ErrorCode::usage, what).hint("--help shows what there is"), json);
    return 2;
  } catch (const Error& error) {
    show_error(error, json);
    return exit_status(error.code());
  } catch (const std::filesystem::filesystem_error& error) {  // links in a circle, folders that may not be read
    show_error(Error(ErrorCode::bad_input, fmt::format("{}: {}", error.path1().string(), error.code().message())), json);
    return 2;
  } catch (const std::bad_alloc&) {
    show_error(Error(ErrorCode::bad_input, "not enough memory").hint("try smaller inputs, or a smaller --set"), json);
    return 2;
  } catch (const std::exception& error) {
    show_error(Error(ErrorCode::internal, error.what()).hint("this is a bug in pycandle: please report it"), json);
    return 3;
  }
  return context.status;
}

}  // namespace
}  // namespace pycandle::cli

int main(int argc, char** argv) {
  pycandle::add_backend(pycandle::c_backend());
  return pycandle::cli::run(argc, argv);
}
