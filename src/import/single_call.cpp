#include "import/single_call.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <stdexcept>

#include "import/manifest.h"
#include "ir/verifier.h"

namespace pycandle {
namespace {

Values built(AtenCall& call, const OpTable::AtenEntry& entry) {
  try {
    return entry.mapping->build ? entry.mapping->build(call) : build_from_pattern(call, *entry.op, *entry.mapping);
  } catch (const std::logic_error& broken) {  // a list that is shorter than its mapping expects, and the like
    throw Error(ErrorCode::bad_input, fmt::format("{} cannot be imported from these arguments", call.overload()))
        .found(broken.what());
  }
}

}  // namespace

Recording import_call(std::string_view json, const OpTable& table) {
  const Json document = parse_json(json, "call");
  const Field root(document, "call");
  const std::string overload = root["op"].string();
  const OpTable::AtenEntry* entry = table.find_aten(overload);
  if (!entry) throw Error(ErrorCode::gap, fmt::format("{} is not supported", overload)).op(overload);

  Recording recording;
  Program& program = recording.program;
  program.name = "call";
  const ValueReader reader(program.symbols);
  const Field inputs = root["inputs"];
  for (size_t i = 0; i < inputs.size(); ++i) {
    const Field input = inputs[i];
    program.inputs.push_back({std::to_string(i), program.graph.add_input(reader.type(input)), {}, true});
  }
  const PerValue<bool> defined(inputs.size(), true);  // so a value's id is the number of its input
  std::vector<std::pair<std::string, Argument>> arguments;
  const Field args = root["args"];
  for (size_t i = 0; i < args.size(); ++i) {
    const Field pair = args[i];
    const Field value = pair[1];
    arguments.emplace_back(pair[0].string(), reader.argument(value, defined));
  }

  const SymbolRanges ranges = program.ranges();
  Builder builder(program.graph, table, &program.checks, &ranges);
  AtenCall call(builder, overload, std::move(arguments), {});
  const Values made = built(call, *entry);
  if (auto unread = call.unread(); !unread.empty())
    throw Error(ErrorCode::bad_input,
                fmt::format("argument '{}' of {} is not consumed by its mapping", fmt::join(unread, "', '"), overload))
        .op(overload);
  for (const ValueId v : made)
    if (v != kNoValue) program.outputs.push_back({std::to_string(program.outputs.size()), v});
  program.bind_outputs();
  verify(program, "import");
  return recording;
}

}  // namespace pycandle
