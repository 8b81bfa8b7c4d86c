// pycandle init: a folder gets what recording needs, and what it was recorded with is noted.
#include <fmt/format.h>

#include <filesystem>
#include <optional>

#include "base/file.h"
#include "base/json.h"
#include "base/version.h"
#include "cli/child.h"
#include "cli/command.h"
#include "cli/python_finder.h"
#include "cli/scaffold.h"
#include "cli/terminal.h"

namespace pycandle::cli {
namespace {

namespace fs = std::filesystem;

constexpr const char* kEnvironment = ".pycandle/venv";

// Python, pycandle's folder, and the packages whose versions decide what a recording holds.
constexpr const char* kFacts = R"text(import importlib.metadata as m, importlib.util as u, json, os, platform
packages = {}
for name in ("torch", "torchvision", "torchaudio", "transformers", "timm", "numpy", "safetensors", "rich"):
    try:
        packages[name] = m.version(name)
    except m.PackageNotFoundError:
        pass
spec = u.find_spec("pycandle")
print(json.dumps({"python": platform.python_version(), "packages": packages,
                  "from": os.path.dirname(os.path.dirname(spec.origin)) if spec else ""})))text";

struct Facts {
  std::string python_path, python, package_folder;
  Json packages;
};

Facts facts_of(const std::string& named) {
  const auto python = find_python(named);
  const auto answer = python ? ask_python(python->path, kFacts) : std::nullopt;
  if (!answer) {
    throw Error(ErrorCode::usage, "recording needs Python, and none was found that runs")
        .expected("a python3 by --python, PYCANDLE_PYTHON, beside this program or on PATH")
        .found(python ? python->path + " (from " + python->how + ")" : "none")
        .hint("pycandle doctor shows what was found");
  }
  const Json facts = parse_json(*answer, "what Python says about itself");
  Facts found{python->path, facts.at("python"), facts.at("from"), facts.at("packages")};
  if (found.package_folder.empty() || !found.packages.contains("torch")) {
    throw Error(ErrorCode::usage,
                "this Python cannot record: it has no " + std::string(found.package_folder.empty() ? "pycandle" : "torch"))
        .found(found.python_path)
        .hint(
            "install torch and PyCandle's wheel there (make wheel in its sources builds it), or name another Python with "
            "--python or PYCANDLE_PYTHON");
  }
  return found;
}

std::string requirements(const Facts& facts) {
  std::string text = "# What the recording was made with; pycandle init keeps this file.\n";
  for (const auto& [name, version] : facts.packages.items()) {
    const std::string exact = version;
    text += fmt::format("{}=={}\n", name, exact.substr(0, exact.find('+')));  // 2.11.0+cpu is 2.11.0 in a registry
  }
  return text;
}

using Commands = std::vector<std::vector<std::string>>;

Commands uv_commands(const fs::path& environment, const fs::path& requirements, const Facts& facts) {
  return {{"uv", "venv", "--python", facts.python_path, environment.string()},
          {"uv", "pip", "install", "--python", (environment / "bin/python").string(), "-r", requirements}};
}

Commands pip_commands(const fs::path& environment, const fs::path& requirements, const Facts& facts) {
  return {{facts.python_path, "-m", "venv", environment.string()},
          {(environment / "bin/python").string(), "-m", "pip", "install", "--disable-pip-version-check", "-r", requirements}};
}

// Shows what each command is at ("Downloading torch-2.11.0 …", a minute of silence otherwise), and all that a failed one said.
bool succeed(const Commands& commands, bool quiet) {
  std::optional<Progress> progress;
  if (!quiet) progress.emplace("init: making the environment");
  for (const std::vector<std::string>& command : commands) {
    std::string said;
    const bool fine = followed(command, [&](std::string_view line) {
      said.append(line).append("\n");
      const size_t text = line.find_first_not_of(' ');
      if (progress && text != line.npos) progress->stage(fmt::format("init: {}", line.substr(text)));
    });
    if (fine) continue;
    progress.reset();
    fmt::print(stderr, "{}", said);
    return false;
  }
  return true;
}

// Its last file is the one that names pycandle; an interrupted init leaves it out.
bool is_complete(const fs::path& environment) {
  std::error_code absent;
  for (const fs::directory_entry& entry : fs::directory_iterator(environment / "lib", absent)) {
    if (fs::exists(entry.path() / "site-packages/pycandle.pth", absent)) return true;
  }
  return false;
}

// An environment of its own with those very versions, made by uv or, where there is none, by Python's venv and pip;
// pycandle itself comes from where it is installed. Environments know their own path, so it is made in its place.
void make_environment(const fs::path& folder, const Facts& facts, bool quiet) {
  const fs::path environment = folder / kEnvironment, requirements = folder / ".pycandle/requirements.txt";
  std::error_code ignored;
  fs::remove_all(environment, ignored);  // of an init that was interrupted
  const bool has_uv = output_of({"uv", "--version"}).has_value();
  const char* tool = has_uv ? "uv" : "venv and pip";
  if (!quiet) fmt::print(stderr, "making {} with the packages of .pycandle/requirements.txt, by {}\n", kEnvironment, tool);
  const bool made = succeed((has_uv ? uv_commands : pip_commands)(environment, requirements, facts), quiet);
  const auto site = made ? ask_python((environment / "bin/python").string(),
                                      "import sysconfig; print(sysconfig.get_path('purelib'))")
                         : std::nullopt;
  if (!site) {
    fs::remove_all(environment, ignored);
    throw Error(ErrorCode::usage, fmt::format("{} could not make the environment", tool))
        .hint(fmt::format("see what was said above{}, or run pycandle init --no-env to record with {}",
                          has_uv ? "" : "; Debian has venv in python3-venv", facts.python_path));
  }
  write_text(fs::path(*site) / "pycandle.pth", facts.package_folder + "\n");
}

}  // namespace

void add_init(Command& app, Context& context) {
  struct Options {
    std::string folder = ".", python;
    bool no_env = false;
    int64_t seed = 0;
  };
  auto options = std::make_shared<Options>();
  Command command = add_command(app, context, "init",
                                "prepare a folder for recording: .pycandle/ with script, environment and versions",
                                "pycandle init && pycandle record");
  command.add_option("folder", options->folder, "the folder to prepare (.)");
  command.add_flag("--no-env", options->no_env, "make no environment of its own: record with the Python that is found");
  command.add_option("--seed", options->seed, "the recording's seed (0)").at_least(0);
  command.add_option("--python", options->python, "take the versions from this Python");
  command.callback([options, &context] {
    const fs::path folder = fs::absolute(options->folder).lexically_normal();
    if (!fs::is_directory(folder)) {
      throw Error(ErrorCode::usage, "there is no such folder").found(folder.string()).hint("pycandle new makes one");
    }
    const std::string name = folder.has_filename() ? folder.filename().string() : folder.parent_path().filename().string();
    const Facts facts = facts_of(options->python);
    std::vector<ProjectFile> files = recorder_files(name.empty() ? "model" : name, options->seed);
    files.push_back({".pycandle/requirements.txt", requirements(facts)});
    files.push_back(
        {".pycandle/environment.json",
         Json{{"pycandle", version()}, {"python", facts.python}, {"seed", options->seed}, {"packages", facts.packages}}.dump(2) +
             "\n"});
    files.push_back({".pycandle/.gitignore", "/venv/\n"});
    Written written = write_absent(folder, files);
    if (!options->no_env) {
      const bool there = is_complete(folder / kEnvironment);
      if (!there) make_environment(folder, facts, context.json);
      (there ? written.kept : written.created).emplace_back(kEnvironment);
    }
    if (context.json) {
      fmt::print("{}\n", Json{{"folder", folder.string()}, {"created", written.created}, {"kept", written.kept}}.dump(2));
      return;
    }
    for (const std::string& path : written.created) fmt::print("made {}\n", path);
    for (const std::string& path : written.kept) fmt::print("kept {}\n", path);
    fmt::print("next: edit .pycandle/scripts/recorder.py, then pycandle record\n");
  });
}

}  // namespace pycandle::cli
