#include "emit/line_map.h"

#include <fmt/format.h>

#include "base/error.h"
#include "base/file.h"
#include "base/json.h"
#include "emit/files.h"
#include "emit/line_diff.h"
#include "passes/structure.h"

namespace pycandle::emit {
namespace {

namespace fs = std::filesystem;

std::string identity(const Program& p) { return hash_of(structure_of(p)).text(); }

fs::path header_of(const fs::path& code) {
  std::error_code failure;
  return fs::is_directory(code, failure) ? code / "src" / "model.hpp" : code;
}

// Where codegen kept the header as it wrote it: beside the header, or beside the folder around it.
fs::path emitted_copy(const fs::path& header) {
  const fs::path folder = fs::absolute(header).lexically_normal().parent_path();
  for (const fs::path& root : {folder, folder.parent_path()}) {
    fs::path copy = root / kEmittedFolder / fs::absolute(header).lexically_normal().lexically_relative(root);
    std::error_code failure;
    if (fs::exists(copy.string() + kLinesEnding, failure)) return copy;
  }
  throw Error(ErrorCode::bad_input, fmt::format("it is not known which line of {} computes what", header.string()))
      .expected(fmt::format("{}/…{}, which codegen writes beside the code", kEmittedFolder, kLinesEnding))
      .hint("write the code again: pycandle codegen --manifest M --out FOLDER");
}

}  // namespace

std::string line_map(const ProvenHeader& header, const Program& p) {
  return Json{{"lines", "pycandle.lines"}, {"version", 1}, {"program", identity(p)}, {"nodes", header.lines()}}.dump() + "\n";
}

MappedCode read_mapped_code(const fs::path& code, const Program& p) {
  MappedCode mapped;
  mapped.file = header_of(code);
  mapped.text = read_text(mapped.file);
  const fs::path copy = emitted_copy(mapped.file), file = copy.string() + kLinesEnding;
  const Json map = parse_json(read_text(file), file.string());
  if (!map.is_object() || map.value("program", Json()) != identity(p)) {
    throw Error(ErrorCode::bad_input, fmt::format("{} is the code of another program", mapped.file.string()))
        .expected("code that codegen wrote for this recording as it is now")
        .hint("write it again: pycandle codegen --manifest M --out FOLDER");
  }
  const Json nodes = map.value("nodes", Json());
  if (!nodes.is_array() || nodes.size() != p.graph.nodes.size())
    throw Error(ErrorCode::bad_input, fmt::format("{} is damaged", file.string())).expected("a line for each node");
  const std::string emitted = read_text(copy);
  mapped.is_edited = emitted != mapped.text;
  const std::vector<int32_t> became = carried_lines(emitted, mapped.text);
  for (const Json& line : nodes) {
    const bool is_line = line.is_number_integer() && line >= 0 && line < static_cast<int64_t>(became.size());
    mapped.lines.push_back(is_line ? became[line.get<size_t>()] : 0);
  }
  return mapped;
}

}  // namespace pycandle::emit
