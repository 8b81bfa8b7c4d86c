#include "passes/decoding/sequence_axes.h"

#include <algorithm>
#include <deque>

#include "base/error.h"
#include "ops/core/alignment.h"
#include "passes/constants.h"
#include "passes/decode_step.h"
#include "passes/decoding/dispatch.h"

namespace pycandle::decoding {
namespace {

bool divides(Dim part, Dim whole) { return mod(whole, part) == Dim(0); }

// The same elements in row-major order, cut into other dims.
std::optional<std::vector<Factors>> regrouped(const std::vector<Factors>& from, const Shape& to) {
  std::deque<Dim> left;
  for (const Factors& axis : from) left.insert(left.end(), axis.begin(), axis.end());
  std::vector<Factors> result;
  for (const Dim size : to) {
    Factors own;
    for (Dim have = 1; have != size;) {
      if (left.empty()) return std::nullopt;
      const Dim next = left.front();
      if (divides(have * next, size)) {
        own.push_back(next);
        have = have * next;
        left.pop_front();
        continue;
      }
      if (!divides(have, size)) return std::nullopt;
      const Dim part = floordiv(size, have);
      if (!divides(part, next)) return std::nullopt;
      own.push_back(part);
      left.front() = floordiv(next, part);
      have = size;
    }
    result.push_back(std::move(own));
  }
  return left.empty() ? std::optional(result) : std::nullopt;
}

}  // namespace

bool all_are(const Need& need, Rows rows) {
  return std::all_of(need.begin(), need.end(),
                     [&](const auto& axis) { return std::all_of(axis.begin(), axis.end(), [&](Rows r) { return r == rows; }); });
}
bool any_is(const Need& need, Rows rows) { return !all_are(need, rows == Rows::all ? Rows::fresh : Rows::all); }

SequenceAxes::SequenceAxes(const Program& p, Dim length, Dim batch, Dim capacity)
    : length_(length), batch_(batch), capacity_(capacity) {
  const Graph& g = p.graph;
  factors_.resize(g.values.size());
  for (auto* known : {&of_tokens_, &of_inputs_, &of_length_, &is_alike_}) known->resize(g.values.size());
  const auto plain = [&](ValueId v) {
    std::vector<Factors> axes;
    for (const Dim d : g.type(v).shape) {
      if (mentions_length(d) && d != length_) return;
      axes.push_back(d == Dim(1) ? Factors{} : Factors{d});
    }
    factors_[v] = std::move(axes);
  };
  for (const ValueId v : g.inputs) plain(v);
  for (const Input& input : p.inputs) {
    const Shape& shape = g.type(input.value).shape;
    const bool is_sequence = std::any_of(shape.begin(), shape.end(), [&](Dim d) { return mentions_length(d); });
    (is_sequence ? of_tokens_ : of_inputs_)[input.value] = true;
  }
  for (const State& state : p.states) of_inputs_[state.value] = true;
  for (const Node& node : g.nodes) {
    const auto any = [&](const auto& known) {
      return std::any_of(node.operands.begin(), node.operands.end(), [&](ValueId v) { return v != kNoValue && known(v); });
    };
    const bool reads_length = any([&](ValueId v) { return of_length_[v] || has_sequence(v); }) ||
                              std::any_of(node.attributes.begin(), node.attributes.end(),
                                          [&](const auto& a) { return mentions_length(a.second); });
    for (const ValueId v : node.results) {
      of_tokens_[v] = any([&](ValueId o) { return bool(of_tokens_[o]); });
      of_inputs_[v] = any([&](ValueId o) { return bool(of_inputs_[o]); });
      factors_[v] = factors_of(g, node, v);
      of_length_[v] = reads_length && !has_sequence(v);
    }
  }
}

std::optional<std::vector<Factors>> SequenceAxes::factors_of(const Graph& g, const Node& node, ValueId result) {
  const Shape& shape = g.type(result).shape;
  std::vector<Factors> axes(shape.size());
  is_alike_[result] = true;
  std::optional<Alignment> alignment;
  for (size_t axis = 0; axis < shape.size(); ++axis) {
    if (!mentions_length(shape[axis])) {
      if (shape[axis] != Dim(1)) axes[axis] = {shape[axis]};
      continue;
    }
    if (node.op->name == "reshape") {
      const auto& from = factors_[node.operands[0]];
      is_alike_[result] = is_alike_[node.operands[0]];
      return from ? regrouped(*from, shape) : std::nullopt;
    }
    if (const auto dispatch = axis == 0 ? find_dispatch(g, node) : std::nullopt) {
      is_alike_[result] = false;
      if (!factors_[dispatch->experts]) return std::nullopt;
      axes[axis] = (*factors_[dispatch->experts])[0];
      continue;
    }
    if (!alignment) alignment = alignment_of(call_of(g, node), node.operands, shape);
    ValueId along = kNoValue;  // the operand that says; one that is the same everywhere only when no other does
    int64_t from = Alignment::kAbsent;
    for (size_t i = 0; alignment && i < node.operands.size() && (along == kNoValue || is_alike_[along]); ++i) {
      const int64_t own = node.operands[i] == kNoValue ? Alignment::kAbsent : alignment->axes[i][axis];
      if (own == Alignment::kAbsent || g.type(node.operands[i]).shape[own] != shape[axis]) continue;
      along = node.operands[i];
      from = own;
    }
    if (along != kNoValue) {
      if (!factors_[along]) return std::nullopt;
      is_alike_[result] = is_alike_[result] && is_alike_[along];
      axes[axis] = (*factors_[along])[from];
      continue;
    }
    if (node.op->name == "concat" && is_extended(shape[axis]) && factors_[node.operands[0]] &&
        (*factors_[node.operands[0]])[axis] == Factors{length_}) {
      is_alike_[result] = false;
      axes[axis] = {shape[axis]};
      continue;
    }
    if (node.op->name == "softmax" && factors_[node.operands[0]]) {  // the places stay what they are
      is_alike_[result] = false;
      axes[axis] = (*factors_[node.operands[0]])[axis];
      continue;
    }
    // Elements that are copied along it (a constant, a number for all tokens), or positions.
    const bool is_copied = alignment && alignment->is_free[axis];
    is_alike_[result] = is_alike_[result] && is_copied;
    const auto usual = is_copied || shape[axis] == length_ ? usual_factors(shape[axis]) : std::nullopt;
    if (!usual) return std::nullopt;
    axes[axis] = *usual;
  }
  return axes;
}

bool SequenceAxes::is_extended(Dim size) const {
  const auto more = (size - length_).maybe_number();
  return more && *more > 0;
}

std::optional<Factors> SequenceAxes::usual_factors(Dim size) const {
  if (is_extended(size)) return Factors{size};
  Factors found;
  for (const Dim factor : {batch_, length_}) {
    if (!divides(factor, size)) continue;
    found.push_back(factor);
    size = floordiv(size, factor);
  }
  if (mentions_length(size)) return std::nullopt;
  if (size != Dim(1)) found.push_back(size);
  return found;
}

bool SequenceAxes::mentions_length(Dim d) const {
  std::vector<std::string> symbols;
  d.collect_symbols(symbols);
  return std::find(symbols.begin(), symbols.end(), length_.text()) != symbols.end();
}

bool SequenceAxes::mentions_length(const Attribute& attribute) const {
  if (const Dim* d = std::get_if<Dim>(&attribute)) return mentions_length(*d);
  const Dims* dims = std::get_if<Dims>(&attribute);
  return dims && std::any_of(dims->begin(), dims->end(), [&](Dim d) { return mentions_length(d); });
}

size_t SequenceAxes::sequence_count(ValueId v) const {
  if (!factors_[v]) return 1;
  size_t count = 0;
  for (const Factors& axis : *factors_[v])
    count += static_cast<size_t>(std::count_if(axis.begin(), axis.end(), [&](Dim d) { return mentions_length(d); }));
  return count;
}

bool SequenceAxes::has_sequence(ValueId v) const { return sequence_count(v) != 0; }

std::optional<int64_t> SequenceAxes::sequence_axis(ValueId v) const {
  if (!factors_[v] || sequence_count(v) != 1) return std::nullopt;
  const auto found = std::find(factors_[v]->begin(), factors_[v]->end(), Factors{length_});
  return found == factors_[v]->end() ? std::nullopt : std::optional(found - factors_[v]->begin());
}

std::optional<int64_t> SequenceAxes::batch_axis(ValueId v) const {
  if (!factors_[v]) return std::nullopt;
  const auto found = std::find(factors_[v]->begin(), factors_[v]->end(), Factors{batch_});
  return found == factors_[v]->end() ? std::nullopt : std::optional(found - factors_[v]->begin());
}

Need SequenceAxes::every(ValueId v, Rows rows) const {
  if (!factors_[v])
    throw Error(ErrorCode::gap,
                "no decode step can be derived: a size has the length of the sequence in it in a way that is not understood");
  Need need;
  for (const Factors& axis : *factors_[v]) {
    const auto count = std::count_if(axis.begin(), axis.end(), [&](Dim d) { return mentions_length(d); });
    need.emplace_back(static_cast<size_t>(count), rows);
  }
  return need;
}

Dim SequenceAxes::rows(ValueId v) const { return windowed_.count(v) == 0 ? capacity_ : Dim::symbol(kWindowRows); }

Shape SequenceAxes::shape(ValueId v, const Need& need) const {
  Shape shape;
  for (size_t axis = 0; axis < need.size(); ++axis) {
    Dim size = 1;
    size_t next = 0;
    for (const Dim factor : (*factors_[v])[axis])
      size = size * (mentions_length(factor) && need[axis][next++] == Rows::all ? factor - length_ + rows(v) : factor);
    shape.push_back(size);
  }
  return shape;
}

}  // namespace pycandle::decoding
