#include "verify/judging/decisions.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "base/error.h"

namespace pycandle {
namespace {

// The op that decided: the slice's last one, when only its shape or integer type was changed afterwards.
const Node* deciding_node(const Program& p) {
  ValueId v = p.outputs.at(0).value;
  for (;;) {
    const Node* node = node_of(p, v);
    if (node == nullptr) return nullptr;
    const std::string& op = node->op->name;
    if (op == "argmax" || op == "argmin") return node;
    if ((op == "topk" || op == "sort") && node->results.at(1) == v) return node;
    if (op != "reshape" && op != "cast") return nullptr;
    v = node->operands[0];
  }
}

int64_t integer_attribute(const Node& node, const char* name) {
  for (const auto& [key, value] : node.attributes) {
    if (key == name) return std::get<int64_t>(value);
  }
  internal_error(fmt::format("{} has no attribute {}", node.op->name, name));
}

// x[outer, axis, inner], flat.
struct Layout {
  int64_t outer = 1, size = 1, inner = 1;
  Layout(const Sizes& shape, int64_t axis) {
    for (int64_t i = 0; i < static_cast<int64_t>(shape.size()); ++i) {
      (i < axis ? outer : i == axis ? size : inner) *= shape[i];
    }
  }
  size_t at(int64_t o, int64_t i, int64_t n) const { return static_cast<size_t>((o * size + i) * inner + n); }
};

}  // namespace

const Node* node_of(const Program& p, ValueId v) {
  const NodeId index = p.graph.values[v].node;
  return index < 0 ? nullptr : &p.graph.nodes[index];
}

const Array* SliceRuns::input(ValueId v) const {
  const auto found = std::find_if(slice_.program.inputs.begin(), slice_.program.inputs.end(),
                                  [&](const Input& i) { return i.value == v; });
  return found == slice_.program.inputs.end() ? nullptr : &inputs_[found - slice_.program.inputs.begin()];
}

Program SliceRuns::up_to(ValueId v) const {
  Program before = slice_.program;
  before.outputs[0].value = v;
  before.bind_outputs();
  return before;
}

Array SliceRuns::rounded(ValueId v) const {
  const Array* given = input(v);
  return given ? *given : trials_.rounded(up_to(v), inputs_);
}

std::optional<Compared> SliceRuns::compared(ValueId v) const {
  if (!is_floating(slice_.program.graph.type(v).dtype)) return std::nullopt;
  const bool is_given = node_of(slice_.program, v) == nullptr;
  Evidence e;
  if (is_given) {  // goldens themselves: nothing was rounded on the way
    const Array* given = input(v);
    if (!given) return std::nullopt;
    e.f64 = e.rounded = *given;
  } else {
    const Program before = up_to(v);
    e.golden = trials_.rounded(before, inputs_);
    trials_.judge(before, inputs_, e);
  }
  Compared c;
  c.exact = as_reals(e.f64);
  c.shape = e.f64.shape();
  c.roundoff = unit_roundoff(e.rounded.dtype());
  c.moves.assign(c.exact.size(), is_given ? 0 : c.roundoff * root_mean_square(c.exact));
  const auto see = [&](const Array& run) {
    const std::vector<double> values = as_reals(run);
    for (size_t i = 0; i < c.moves.size(); ++i) c.moves[i] = std::max(c.moves[i], std::abs(values[i] - c.exact[i]));
  };
  see(e.rounded);
  std::for_each(e.jittered.begin(), e.jittered.end(), see);
  return c;
}

std::string Decisions::text(const std::string& whose) const {
  std::string text = differing == 0 ? fmt::format("{} choices of {}, all as {}'s", count, op, whose)
                                    : fmt::format("{} of {} choices of {} are not {}'s", differing, count, op, whose);
  if (!std::isfinite(margin)) return text;
  text += fmt::format("; the closest is by {:.2g}", margin);
  return text + (floor > 0 ? fmt::format(", {:.2g} times what rounding moves it", margin / floor) : "");
}

std::optional<Decisions> look_at_decisions(const Slice& slice, const Trials& trials, const std::vector<Array>& inputs,
                                           const Array& golden, const Array& ours) {
  const Node* node = deciding_node(slice.program);
  if (node == nullptr || golden.shape() != ours.shape()) return std::nullopt;
  const std::optional<Compared> compared = SliceRuns(slice, trials, inputs).compared(node->operands[0]);
  if (!compared) return std::nullopt;
  const std::vector<double>&exact = compared->exact, &moves = compared->moves;

  const Layout x(compared->shape, integer_attribute(*node, "axis"));
  const std::vector<int64_t> theirs = load_int(golden), mine = load_int(ours);
  const int64_t rows = x.outer * x.inner, picks = rows == 0 ? 0 : static_cast<int64_t>(theirs.size()) / rows;
  if (picks == 0 || x.size == 0) return std::nullopt;

  Decisions d;
  d.op = node->op->name;
  d.margin = std::numeric_limits<double>::infinity();
  const auto chose_between = [&](size_t a, size_t b) {
    const double margin = std::abs(exact[a] - exact[b]);
    if (!(margin < d.margin)) return;
    d.margin = margin;
    d.floor = std::max(moves[a], moves[b]);
  };
  for (int64_t o = 0; o < x.outer; ++o) {
    for (int64_t n = 0; n < x.inner; ++n) {
      std::vector<bool> chosen(static_cast<size_t>(x.size));
      size_t last = 0;
      for (int64_t k = 0; k < picks; ++k) {
        const auto i = static_cast<size_t>((o * picks + k) * x.inner + n);
        ++d.count;
        const bool in_range = theirs[i] >= 0 && theirs[i] < x.size && mine[i] >= 0 && mine[i] < x.size;
        if (theirs[i] != mine[i]) {
          ++d.differing;
          if (!in_range) {
            d.within_rounding = false;
            continue;
          }
          const size_t a = x.at(o, theirs[i], n), b = x.at(o, mine[i], n);
          const bool may_turn = std::abs(exact[a] - exact[b]) <= kDecisionFactor * (moves[a] + moves[b]) && !std::isnan(exact[a]);
          d.within_rounding = d.within_rounding && (may_turn || same_number(exact[a], exact[b]));
        }
        if (!in_range) continue;
        chosen[theirs[i]] = true;
        const size_t now = x.at(o, theirs[i], n);
        if (k > 0) chose_between(last, now);  // their order is a choice too
        last = now;
      }
      for (int64_t i = 0; i < x.size; ++i) {  // the next best
        if (!chosen[i]) chose_between(last, x.at(o, i, n));
      }
    }
  }
  return d;
}

}  // namespace pycandle
