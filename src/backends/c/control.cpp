// Regions: loops and branches of the run, around the calls of their nodes.
#include <utility>

#include "backends/c/lowerings.h"
#include "backends/c/text.h"

namespace pycandle::c {
namespace {

Known as_known(View v) { return {Known::Kind::view, std::move(v), {}, kNoNode, nullptr}; }

void moves(View& v, const std::string& index, int64_t step) {
  if (step == 0) return;
  v.moving += formatted("{}{} * {}", v.moving.empty() ? "" : " + ", index, step);
}

// Step t of a sequence: its first axis is gone.
View step_of(View v, const std::string& t, int64_t length, bool reverse) {
  const int64_t step = v.strides[0];
  if (reverse) v.offset += (length - 1) * step;
  moves(v, t, reverse ? -step : step);
  v.sizes.erase(v.sizes.begin());
  v.strides.erase(v.strides.begin());
  return v;
}

// A value before a region: in memory, or a number.
Known before(Site& at, ValueId v) {
  if (at.s.known[v].kind == Known::Kind::number) return at.s.known[v];
  at.g.view(at.s, v);
  return at.s.known[v];
}

// A carry that changes: memory of its own, which begins with the given value.
View begun(Site& at, ValueId v) {
  const View own = at.g.fresh(at.call.type(v).dtype, at.sizes(v));
  at.g.view(at.s, v);
  at.g.compute_into(at.s, v, own);
  return own;
}

// The results of a region into `targets`, as if all at once: one that is another's old value is copied aside.
void replace_carries(Generator& g, Scope& region, const Values& results, const std::vector<View>& targets) {
  std::vector<View> from;
  for (size_t i = 0; i < targets.size(); ++i) {
    if (targets[i].buffer == kNoBuffer) {
      from.emplace_back();
      continue;
    }
    View v = g.view(region, results[i]);
    for (const View& other : targets) {
      if (other.buffer != v.buffer) continue;
      const View aside = g.fresh(g.buffers[v.buffer].dtype, v.sizes);
      g.copy(v, aside);
      v = aside;
      break;
    }
    from.push_back(std::move(v));
  }
  for (size_t i = 0; i < targets.size(); ++i) {
    if (targets[i].buffer != kNoBuffer) g.copy(from[i], targets[i]);
  }
}

void scan(Site& at) {
  const Graph& body = at.node.regions[0];
  const Values values = at.call.values("values");
  const auto carries = static_cast<size_t>(at.call.integer("carries"));
  const int64_t length = at.dim("length");
  const bool reverse = at.call.boolean("reverse");
  const std::string t = formatted("t{}", at.g.loops++);
  Scope region(body);
  std::vector<View> own(carries);
  for (size_t i = 0; i < values.size(); ++i) {
    const ValueId inner = body.inputs[i];
    if (i < carries && body.outputs[i] != inner) {
      own[i] = begun(at, values[i]);
      region.known[inner] = as_known(own[i]);
    } else if (i < carries) {
      region.known[inner] = before(at, values[i]);
    } else {
      region.known[inner] = before(at, values[i]);
      if (region.known[inner].kind == Known::Kind::view)
        region.known[inner] = as_known(step_of(region.known[inner].view, t, length, reverse));
    }
  }
  std::vector<View> results;
  for (size_t i = carries; i < at.node.results.size(); ++i) results.push_back(at.g.fresh(at.s, at.node.results[i]));
  const size_t first = at.g.now();
  if (length > 0) {
    // The results are in use from the first step on: every step leaves something there.
    at.g.text(formatted("for (ptrdiff_t {0} = 0; {0} < {1}; ++{0}) {{", t, length), results);
    at.g.lower_graph(region);
    for (size_t i = 0; i < results.size(); ++i)
      at.g.copy(at.g.view(region, body.outputs[carries + i]), step_of(results[i], t, length, reverse));
    replace_carries(at.g, region, Values(body.outputs.begin(), body.outputs.begin() + static_cast<std::ptrdiff_t>(carries)), own);
    at.g.text("}");
    at.g.keep_through(first);
  }
  for (size_t i = 0; i < carries; ++i) {
    if (own[i].buffer != kNoBuffer)
      at.g.define(at.s, at.node.results[i], own[i]);
    else
      at.g.define(at.s, at.node.results[i], at.g.view(at.s, values[i]));
  }
  for (size_t i = 0; i < results.size(); ++i) at.g.define(at.s, at.node.results[carries + i], results[i]);
}

void cond(Site& at) {
  const Values operands = at.call.values("operands");
  const View condition = at.view("condition");
  std::vector<Known> given;
  for (const ValueId v : operands) given.push_back(before(at, v));
  std::vector<View> results;
  for (const ValueId v : at.node.results) results.push_back(at.g.fresh(at.s, v));
  const size_t first = at.g.now();
  for (const size_t branch : {0, 1}) {
    const Graph& body = at.node.regions[branch];
    Scope region(body);
    for (size_t i = 0; i < given.size(); ++i) region.known[body.inputs[i]] = given[i];
    at.g.text(branch == 0 ? "if (*$0) {" : "} else {", branch == 0 ? std::vector<View>{condition} : std::vector<View>{});
    at.g.lower_graph(region);
    for (size_t i = 0; i < results.size(); ++i) at.g.copy(at.g.view(region, body.outputs[i]), results[i]);
  }
  at.g.text("}");
  at.g.keep_through(first);
  for (size_t i = 0; i < results.size(); ++i) at.g.define(at.s, at.node.results[i], results[i]);
}

void while_loop(Site& at) {
  const Graph &condition = at.node.regions[0], &body = at.node.regions[1];
  const Values carries = at.call.values("carries");
  std::vector<View> own;
  std::vector<Known> given;
  for (size_t i = 0; i < carries.size(); ++i) {
    if (body.outputs[i] == body.inputs[i]) {
      own.emplace_back();
      given.push_back(before(at, carries[i]));
    } else {
      own.push_back(begun(at, carries[i]));
      given.push_back(as_known(own.back()));
    }
  }
  const size_t first = at.g.now();
  at.g.text("for (;;) {");
  Scope test(condition), region(body);
  for (size_t i = 0; i < given.size(); ++i) test.known[condition.inputs[i]] = region.known[body.inputs[i]] = given[i];
  at.g.lower_graph(test);
  at.g.text("if (!*$0) break;", {at.g.view(test, condition.outputs[0])});
  at.g.lower_graph(region);
  replace_carries(at.g, region, body.outputs, own);
  at.g.text("}");
  at.g.keep_through(first);
  for (size_t i = 0; i < carries.size(); ++i)
    at.g.define(at.s, at.node.results[i], own[i].buffer != kNoBuffer ? own[i] : at.g.view(at.s, carries[i]));
}

}  // namespace

Lowerings control_lowerings() { return {{"scan", scan}, {"cond", cond}, {"while_loop", while_loop}}; }

}  // namespace pycandle::c
