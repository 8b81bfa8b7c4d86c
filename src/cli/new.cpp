// pycandle new: a C++ or Rust project around a model, ready for init, record and codegen.
#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cstring>
#include <filesystem>

#include "base/json.h"
#include "cli/command.h"
#include "cli/scaffold.h"
#include "emit/names.h"

namespace pycandle::cli {
namespace {

namespace fs = std::filesystem;

bool is_word(const std::string& text, const char* also) {
  const auto fits = [&](char c) { return std::isalnum(static_cast<unsigned char>(c)) || std::strchr(also, c) != nullptr; };
  return !text.empty() && (std::isalpha(static_cast<unsigned char>(text[0])) || text[0] == '_') &&
         std::all_of(text.begin(), text.end(), fits);
}

// Made beside its place and moved there whole.
void make_project(const fs::path& folder, const std::vector<ProjectFile>& files) {
  fs::path temporary = folder;
  temporary += ".new";
  std::error_code ignored;
  try {
    write_absent(temporary, files);
    fs::rename(temporary, folder);
  } catch (...) {
    fs::remove_all(temporary, ignored);
    throw;
  }
}

}  // namespace

void add_new(Command& app, Context& context) {
  struct Options {
    std::string folder, model, target = "cpp";
  };
  auto options = std::make_shared<Options>();
  Command command = add_command(app, context, "new", "make a C++ or Rust project for a model: its build, tests, next steps",
                                "pycandle new my_llm --model GPT2");
  command.add_option("name", options->folder, "the project's folder; its last part is the project's name").required();
  command.add_option("--model", options->model,
                     "the name of the model's class (by default the project's name: my_llm gives MyLlm)");
  command.add_option("--target", options->target, "the language: cpp, or candle for Rust").one_of({"cpp", "candle"});
  command.callback([options, &context] {
    const fs::path folder = fs::path(options->folder).lexically_normal();
    const std::string name = folder.has_filename() ? folder.filename().string() : folder.parent_path().filename().string();
    if (!is_word(name, "_-")) {
      throw Error(ErrorCode::usage, "this cannot be a project's name")
          .expected("a letter, then letters, digits, _ and -")
          .found(name);
    }
    const std::string model = options->model.empty() ? emit::camel_case(name) : options->model;
    if (!is_word(model, "_")) {
      throw Error(ErrorCode::usage, "this cannot be the name of a class")
          .expected("a letter, then letters, digits and _")
          .found(model);
    }
    const fs::path target = folder.has_filename() ? folder : folder.parent_path();
    if (fs::exists(fs::symlink_status(target))) {
      throw Error(ErrorCode::usage, "the folder exists")
          .expected("a name that is free")
          .found(target.string())
          .hint("to prepare an existing folder for recording, run pycandle init in it");
    }
    const std::vector<ProjectFile> files = options->target == "candle" ? candle_project_files(name, model)
                                                                       : project_files(name, model);
    make_project(target, files);
    if (context.json) {
      Json paths = Json::array();
      for (const ProjectFile& file : files) paths.push_back(file.path.string());
      fmt::print("{}\n", Json{{"folder", target.string()}, {"name", name}, {"model", model}, {"created", paths}}.dump(2));
      return;
    }
    fmt::print("made {} for {}\n", target.string(), model);
    for (const ProjectFile& file : files) fmt::print("  {}\n", file.path.string());
    fmt::print("next: cd {} && pycandle init\n", target.string());
  });
}

}  // namespace pycandle::cli
