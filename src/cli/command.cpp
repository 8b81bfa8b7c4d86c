#include "cli/command.h"

#include <fmt/format.h>

#include <charconv>
#include <cstdio>
#include <limits>

#include "base/json.h"
#include "base/threads.h"
#include "cli/terminal.h"

namespace pycandle::cli {

Command add_command(Command& app, Context& context, const std::string& name, const std::string& summary,
                    const std::string& example) {
  Command command = app.add_subcommand(name, summary);
  command.footer("Example:\n  " + example);
  command.add_flag("--json", context.json, "print one JSON document instead of text; errors too");
  return command;
}

void add_pipeline_options(Command& command, PipelineOptions& options) {
  command.add_option_function(
      "--disable-pass",
      [&options](const std::vector<std::string>& names) { options.disabled.insert(names.begin(), names.end()); },
      "leave out a pass (repeatable): " + fmt::format("{}", fmt::join(pass_names(), ", ")));
  command.add_option("--dump-dir", options.dump_dir, "write the program after each pass into this folder");
  command
      .add_option_function(
          "--dump-mode",
          [&options](const std::vector<std::string>& words) {
            options.dump_mode = words.back() == "final" ? DumpMode::final : DumpMode::all;
          },
          "all: after every pass; final: the last one")
      .one_of({"all", "final"});
}

void add_backend_options(Command& command, PipelineOptions& options, bool with_threads) {
  if (with_threads) {
    command.add_option("--threads", options.threads, "threads of the cpu backend; PYCANDLE_THREADS or all cores otherwise")
        .between(1, kMostThreads);
  }
  command
      .add_option_function(
          "--weights", [&options](const std::vector<std::string>& words) { options.weights = parse_weight_format(words.back()); },
          "how linear layers and embeddings keep their weights: f32 (default), or fewer bytes (docs/narrow-weights.md)")
      .one_of({"f32", "bf16", "f16", "int8", "int4"});
  command.add_option_function(
      "--override",
      [&options](const std::vector<std::string>& choices) {
        for (const std::string& choice : choices) {
          const size_t equals = choice.find('=');
          if (equals == std::string::npos || equals == 0) {
            throw Error(ErrorCode::usage, "--override is not understood")
                .expected("a functional and its implementation, such as sdpa=naive")
                .found(choice);
          }
          const std::string op = choice.substr(0, equals);
          options.overrides[op == "sdpa" ? "scaled_dot_product_attention" : op] = choice.substr(equals + 1);
        }
      },
      "how the cpu backend runs a functional: linear=naive decomposes it (repeatable)");
  command.add_flag_function(
      "--exact-conv", [&options] { options.overrides["conv2d"] = "exact"; },
      "convolutions without Winograd's way, whose rounding is larger: the same as --override conv2d=exact");
}

void add_bytes_option(Command& command, const std::string& name, std::optional<uint64_t>& bytes, const std::string& help) {
  const auto take = [name, &bytes](const std::vector<std::string>& words) {
    const std::string& text = words.back();
    double number = 0;
    const auto read = std::from_chars(text.data(), text.data() + text.size(), number);
    const std::string unit(read.ptr, text.data() + text.size());
    const double factor = unit == "GB" ? 1e9 : unit == "MB" ? 1e6 : unit == "kB" ? 1e3 : unit.empty() ? 1 : 0;
    if (read.ec != std::errc() || factor == 0 || !(number > 0 && number * factor < 1e18))
      throw Error(ErrorCode::usage, name + " is not understood").expected("a size such as 2GB or 500MB").found(text);
    bytes = static_cast<uint64_t>(number * factor);
  };
  command.add_option_function(name, take, help);
}

void add_budget_option(Command& command, std::optional<uint64_t>& bytes) {
  add_bytes_option(command, "--param-budget", bytes,
                   "most bytes of weights in memory, such as 500MB: the others are read from the disk when they are needed");
}

Bindings parse_sizes(const std::vector<std::string>& texts) {
  Bindings sizes;
  for (const std::string& text : texts) {
    const size_t equals = text.find('=');
    int64_t value = 0;
    const char* end = text.data() + text.size();
    const bool named = equals != std::string::npos && equals > 0 && equals + 1 < text.size();
    const auto read = named ? std::from_chars(text.data() + equals + 1, end, value) : std::from_chars_result{end, std::errc()};
    if (!named || read.ptr != end || read.ec != std::errc() || value < 0) {
      throw Error(ErrorCode::usage, "--set is not understood")
          .expected(fmt::format("a symbol and its size, such as s0=4, at most {}", std::numeric_limits<int64_t>::max()))
          .found(text);
    }
    const auto [known, fresh] = sizes.emplace(text.substr(0, equals), value);
    if (!fresh) {
      throw Error(ErrorCode::usage, fmt::format("--set names {} twice", known->first))
          .expected("one size for each symbol")
          .found(fmt::format("{0}={1} and {2}", known->first, known->second, text));
    }
  }
  return sizes;
}

void show_error(const Error& error, bool json) {
  if (!json) {
    fmt::print(stderr, "{}{}\n", styled("error: ", Style::red), error.text());
    return;
  }
  Json facts = {{"code", to_string(error.code())}, {"message", error.message()}};
  const auto add = [&facts](const char* key, const std::string& value) {
    if (!value.empty()) facts[key] = value;
  };
  add("expected", error.expected());
  add("found", error.found());
  add("op", error.op());
  add("module_path", error.module_path());
  add("python", error.file_line());
  add("source", error.source_line());
  add("hint", error.hint());
  fmt::print("{}\n", Json{{"status", "error"}, {"error", facts}}.dump(2, ' ', false, Json::error_handler_t::replace));
}

}  // namespace pycandle::cli
