// Emitted C++, and which of its lines computes which node: as codegen wrote it down.
#include "emit/line_diff.h"
#include "emit/line_map.h"
#include "report/parts.h"

namespace pycandle::report {

Json code_part(const std::filesystem::path& code, const Program& program) {
  const emit::MappedCode mapped = emit::read_mapped_code(code, program);
  return {{"path", mapped.file.generic_string()},
          {"edited", mapped.is_edited},
          {"text", emit::lines_of(mapped.text)},
          {"lines", mapped.lines}};
}

}  // namespace pycandle::report
