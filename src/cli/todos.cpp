// pycandle todos: the places in emitted code that wait for something that was not supported when it was written.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <memory>

#include "base/file.h"
#include "base/json.h"
#include "cli/command.h"
#include "emit/line_diff.h"

namespace pycandle::cli {
namespace {

namespace fs = std::filesystem;

struct Todo {
  std::string file, what;
  size_t line;
};

bool is_source(const fs::path& path) {
  const std::string ending = path.extension().string();
  return ending == ".hpp" || ending == ".h" || ending == ".cpp" || ending == ".rs";
}

// todo("aten.cdist is not supported, quant.py:88"), in Rust todo!("…"): the text between the quotes.
void find_in(const fs::path& file, std::vector<Todo>& found) {
  const std::vector<std::string> lines = emit::lines_of(read_text(file));
  for (size_t n = 0; n < lines.size(); ++n) {
    for (const std::string_view mark : {"todo(\"", "todo!(\""}) {
      for (size_t at = lines[n].find(mark); at != std::string::npos; at = lines[n].find(mark, at + 1)) {
        const size_t start = at + mark.size();
        found.push_back({file.string(), lines[n].substr(start, lines[n].find('"', start) - start), n + 1});
      }
    }
  }
}

std::vector<Todo> find_todos(const fs::path& path) {
  std::vector<fs::path> files;
  std::error_code failure;
  if (!fs::exists(path, failure)) {
    throw Error(ErrorCode::usage, "there is no such file or folder")
        .expected("a file or folder of emitted code")
        .found(path.string());
  }
  if (fs::is_directory(path, failure)) {
    for (auto entry = fs::recursive_directory_iterator(path, failure); entry != fs::recursive_directory_iterator(); ++entry) {
      const std::string name = entry->path().filename().string();
      if (entry->is_directory() && (name.starts_with('.') || name == "build" || name == "target"))
        entry.disable_recursion_pending();
      if (entry->is_regular_file() && is_source(entry->path())) files.push_back(entry->path());
    }
  } else {
    files.push_back(path);
  }
  std::sort(files.begin(), files.end());
  std::vector<Todo> found;
  for (const fs::path& file : files) find_in(file, found);
  return found;
}

}  // namespace

void add_todos(Command& app, Context& context) {
  struct Options {
    std::string path = ".";
    bool check = false;
  };
  auto options = std::make_shared<Options>();
  Command command = add_command(app, context, "todos", "list what emitted code still lacks (codegen --allow-gaps)",
                                "pycandle todos src");
  command.add_option("path", options->path, "a file or folder").shows_default();
  command.add_flag("--check", options->check, "exit 1 when there is any");
  command.callback([options, &context] {
    const std::vector<Todo> found = find_todos(options->path);
    if (context.json) {
      Json list = Json::array();
      for (const Todo& todo : found) list.push_back({{"file", todo.file}, {"line", todo.line}, {"what", todo.what}});
      fmt::print("{}\n", Json{{"todos", list}}.dump(2));
    } else {
      for (const Todo& todo : found) fmt::print("{}:{}  {}\n", todo.file, todo.line, todo.what);
      if (found.empty()) fmt::print("nothing is left to do\n");
    }
    context.status = options->check && !found.empty() ? 1 : 0;
  });
}

}  // namespace pycandle::cli
