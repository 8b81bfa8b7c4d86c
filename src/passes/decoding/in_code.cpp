// A decode step as source code: derived for it, and found again in what was captured of it.
#include <algorithm>

#include "base/error.h"
#include "passes/decode_step.h"
#include "passes/pipeline.h"

namespace pycandle {

DecodeStep decode_step_in_code(const Program& program, const OpTable& table) {
  DecodeStep derived = derive_decode_step(program, table, PositionValues::computed);
  for (const CacheState& state : derived.states) {
    if (state.kind != CacheState::Kind::once) continue;
    throw Error(ErrorCode::gap,
                "this decode step cannot be written as code yet: a part of it is computed once, from other inputs")
        .found(state.name)
        .hint("`pycandle verify --decode` and `pycandle.load_decoder` run it; codegen without --stateful writes the whole model");
  }
  return decode_step_of(run_program_pipeline(std::move(derived.step), table), derived.batch, derived.tokens, derived.longest);
}

DecodeStep decode_step_of(Program step, std::string batch, std::string tokens, std::optional<int64_t> longest) {
  DecodeStep made;
  for (const State& state : step.states) {
    CacheState kept{CacheState::Kind::rows, state.name, -1};
    for (const Node& node : step.graph.nodes) {
      if (node.op->name != "cache_append" || node.operands[0] != state.value) continue;
      const auto axis = std::find_if(node.attributes.begin(), node.attributes.end(),
                                     [](const auto& a) { return a.first == "axis"; });
      kept.axis = std::get<int64_t>(axis->second);
    }
    if (kept.axis < 0) throw Error(ErrorCode::bad_input, "a cache gets no rows").found(state.name);
    made.states.push_back(std::move(kept));
  }
  made.setup.name = step.name;
  made.setup.symbols = step.symbols;
  for (Symbol& symbol : made.setup.symbols) {
    symbol.input.clear();
    symbol.axis = -1;
  }
  made.step = std::move(step);
  made.batch = std::move(batch);
  made.tokens = std::move(tokens);
  made.longest = longest;
  return made;
}

}  // namespace pycandle
