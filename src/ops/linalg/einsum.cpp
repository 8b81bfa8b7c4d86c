// torch.einsum for any equation: repeated indices, ellipsis, diagonals, any number of operands.
#include <fmt/format.h>

#include <map>
#include <optional>
#include <set>

#include "ops/core/functional_helpers.h"

namespace pycandle {
namespace {

// An index: a letter, or the k-th dim from the right of what an ellipsis covers (as -1 - k).
using Label = int;
using Labels = std::vector<Label>;

struct Equation {
  std::vector<Labels> inputs;
  Labels output;
};

[[noreturn]] void bad_equation(const std::string& equation, const std::string& why) {
  throw Error(ErrorCode::bad_input, "einsum equation '" + equation + "': " + why).op("einsum");
}

bool is_letter(char ch) { return (ch >= 'a' && ch <= 'z') || (ch >= 'A' && ch <= 'Z'); }

// One term such as "b...ij"; `covered` dims stand under its ellipsis, if it has one.
Labels parse_term(const std::string& equation, std::string_view term, int64_t covered, bool& ellipsis) {
  Labels labels;
  ellipsis = false;
  for (size_t i = 0; i < term.size(); ++i) {
    if (is_letter(term[i])) {
      labels.push_back(term[i]);
    } else if (term.substr(i, 3) == "..." && !ellipsis) {
      ellipsis = true;
      for (int64_t k = covered; k > 0; --k) labels.push_back(static_cast<Label>(-k));
      i += 2;
    } else {
      bad_equation(equation,
                   "letters, at most one ellipsis a term, ',' and '->' are expected, not '" + std::string(term.substr(i)) + "'");
    }
  }
  return labels;
}

int64_t letters_in(std::string_view term) { return std::count_if(term.begin(), term.end(), is_letter); }

Equation parse_equation(const std::string& equation, const std::vector<int64_t>& ranks) {
  std::string text;
  std::copy_if(equation.begin(), equation.end(), std::back_inserter(text), [](char ch) { return ch != ' '; });
  const size_t arrow = text.find("->");
  std::vector<std::string> terms{""};
  for (const char ch : text.substr(0, arrow)) {
    if (ch == ',') {
      terms.emplace_back();
    } else {
      terms.back() += ch;
    }
  }
  if (terms.size() != ranks.size()) bad_equation(equation, fmt::format("{} terms for {} operands", terms.size(), ranks.size()));

  Equation result;
  int64_t covered_most = 0;
  std::map<Label, int> uses;
  for (size_t i = 0; i < terms.size(); ++i) {
    const int64_t covered = ranks[i] - letters_in(terms[i]);
    bool ellipsis = false;
    if (covered < 0) bad_equation(equation, fmt::format("operand {} has {} dims, fewer than its term", i, ranks[i]));
    result.inputs.push_back(parse_term(equation, terms[i], covered, ellipsis));
    if (!ellipsis && covered != 0) bad_equation(equation, fmt::format("operand {} has {} dims, more than its term", i, ranks[i]));
    covered_most = std::max(covered_most, covered);
    for (const Label label : result.inputs.back()) ++uses[label];
  }
  if (arrow == std::string::npos) {
    // Without "->": what the ellipses cover, then the letters that occur once, in the order of the alphabet.
    for (int64_t k = covered_most; k > 0; --k) result.output.push_back(static_cast<Label>(-k));
    for (const auto& [label, count] : uses) {
      if (label > 0 && count == 1) result.output.push_back(label);
    }
    return result;
  }
  bool ellipsis = false;
  result.output = parse_term(equation, std::string_view(text).substr(arrow + 2), covered_most, ellipsis);
  std::set<Label> seen;
  for (const Label label : result.output) {
    if (!seen.insert(label).second) bad_equation(equation, "an index occurs twice in the output");
    if (uses.count(label) == 0) bad_equation(equation, "an index of the output occurs in no operand");
  }
  return result;
}

Equation equation_of(const Call& c) {
  std::vector<int64_t> ranks;
  for (const ValueId v : c.values("xs")) ranks.push_back(c.type(v).rank());
  return parse_equation(c.string("equation"), ranks);
}

// A tensor whose axes are named.
struct Named {
  ValueId value;
  Labels labels;
  int64_t axis(Label label) const { return std::find(labels.begin(), labels.end(), label) - labels.begin(); }
  bool has(Label label) const { return std::find(labels.begin(), labels.end(), label) != labels.end(); }
  void forget(Label label) { labels.erase(labels.begin() + axis(label)); }
};

// The diagonal of two axes, as the last axis: of n rows of n, padded to n (n + 1) elements, it is the first column.
ValueId diagonal(Builder& b, ValueId x, int64_t first, int64_t second) {
  Ints order;
  for (int64_t i = 0; i < b.rank(x); ++i) {
    if (i != first && i != second) order.push_back(i);
  }
  order.push_back(first);
  order.push_back(second);
  x = b.transpose(x, order);
  Shape rest = b.shape(x);
  const Dim n = rest.back();
  rest.resize(rest.size() - 2);
  x = b.reshape(x, joined(rest, {n * n}));
  Dims low(rest.size() + 1, Dim(0)), high = low;
  high.back() = n;
  x = b.reshape(b.pad(x, low, high, 0.0), joined(rest, {n, n + 1}));
  return b.squeeze(b.slice(x, -1, 0, 1), -1);
}

void take_diagonals(Builder& b, Named& x) {
  for (size_t i = 0; i < x.labels.size(); ++i) {
    const Label label = x.labels[i];
    const auto again = std::find(x.labels.begin() + static_cast<std::ptrdiff_t>(i) + 1, x.labels.end(), label);
    if (again == x.labels.end()) continue;
    x.value = diagonal(b, x.value, static_cast<int64_t>(i), again - x.labels.begin());
    x.labels.erase(again);
    x.labels.erase(x.labels.begin() + static_cast<std::ptrdiff_t>(i));
    x.labels.push_back(label);
    i = static_cast<size_t>(-1);  // from the start: the axes have moved
  }
}

void sum_out(Builder& b, Named& x, const std::function<bool(Label)>& goes) {
  Ints axes;
  Labels kept;
  for (size_t i = 0; i < x.labels.size(); ++i) {
    if (goes(x.labels[i])) {
      axes.push_back(static_cast<int64_t>(i));
    } else {
      kept.push_back(x.labels[i]);
    }
  }
  if (axes.empty()) return;
  x.value = b.sum(x.value, axes, false);
  x.labels = std::move(kept);
}

// An axis of size 1 against one of another size broadcasts: it is left out of the product.
void drop_broadcast(Builder& b, Named& x, const Named& other) {
  for (const Label label : Labels(x.labels)) {
    if (!other.has(label)) continue;
    const int64_t axis = x.axis(label);
    const Dim mine = b.shape(x.value)[axis], theirs = b.shape(other.value)[other.axis(label)];
    if (mine == Dim(1) && !(theirs == Dim(1))) {
      x.value = b.squeeze(x.value, axis);
      x.forget(label);
    }
  }
}

Named multiplied(Builder& b, Named left, Named right, const std::function<bool(Label)>& needed) {
  drop_broadcast(b, left, right);
  drop_broadcast(b, right, left);
  sum_out(b, left, [&](Label l) { return !right.has(l) && !needed(l); });
  sum_out(b, right, [&](Label l) { return !left.has(l) && !needed(l); });
  Ints batch_left, batch_right, contract_left, contract_right;
  Labels labels, rest;
  for (const Label l : left.labels) {
    if (!right.has(l)) {
      rest.push_back(l);
    } else if (needed(l)) {
      labels.push_back(l);
      batch_left.push_back(left.axis(l));
      batch_right.push_back(right.axis(l));
    } else {
      contract_left.push_back(left.axis(l));
      contract_right.push_back(right.axis(l));
    }
  }
  for (const Label l : right.labels) {
    if (!left.has(l)) rest.push_back(l);
  }
  labels.insert(labels.end(), rest.begin(), rest.end());
  return {b.dot_general(left.value, right.value, batch_left, batch_right, contract_left, contract_right), labels};
}

// Whether torch takes the sum of an operand by itself, which makes i64 of integers: over an index that no other one has.
bool has_plain_sum(const Equation& e, const Call& c) {
  const Values xs = c.values("xs");
  std::map<Label, int> owners;
  for (size_t i = 0; i < xs.size(); ++i) {
    std::set<Label> own;
    for (size_t axis = 0; axis < e.inputs[i].size(); ++axis)
      if (xs.size() == 1 || !(c.type(xs[i]).shape[axis] == Dim(1))) own.insert(e.inputs[i][axis]);
    for (const Label label : own) ++owners[label];
  }
  for (const Label label : e.output) owners.erase(label);
  return std::any_of(owners.begin(), owners.end(), [](const auto& entry) { return entry.second == 1; });
}
DType result_dtype(const Equation& e, const Call& c) {
  const DType given = c.type(c.values("xs")[0]).dtype;
  return !is_inexact(given) && has_plain_sum(e, c) ? DType::i64 : given;
}

// What each index runs over; an axis of 1 stretches. Nothing when two sizes of an index do not agree.
template <class Agree> std::optional<std::map<Label, Dim>> sizes_of(const Call& c, const Equation& e, Agree agree) {
  const Values xs = c.values("xs");
  std::map<Label, Dim> sizes;
  for (size_t i = 0; i < xs.size(); ++i) {
    for (size_t axis = 0; axis < e.inputs[i].size(); ++axis) {
      const Dim size = c.type(xs[i]).shape[axis];
      const auto [entry, fresh] = sizes.emplace(e.inputs[i][axis], size);
      if (fresh || size == Dim(1)) continue;
      if (entry->second == Dim(1)) entry->second = size;
      if (!agree(entry->second, size)) return std::nullopt;
    }
  }
  return sizes;
}

ValueId decomposed(Builder& b, const Call& c) {
  const Equation e = equation_of(c);
  const Values xs = c.values("xs");
  // In i64, whatever is left of it in the end.
  const DType given = c.type(xs[0]).dtype, working = is_inexact(given) ? given : DType::i64;
  std::vector<Named> operands;
  for (size_t i = 0; i < xs.size(); ++i) {
    operands.push_back({b.cast(xs[i], working), e.inputs[i]});
    take_diagonals(b, operands.back());
  }
  const auto in_output = [&](Label l) { return std::find(e.output.begin(), e.output.end(), l) != e.output.end(); };
  Named y = operands[0];
  for (size_t i = 1; i < operands.size(); ++i) {
    y = multiplied(b, y, operands[i], [&](Label l) {
      return in_output(l) || std::any_of(operands.begin() + static_cast<std::ptrdiff_t>(i) + 1, operands.end(),
                                         [&](const Named& later) { return later.has(l); });
    });
  }
  sum_out(b, y, [&](Label l) { return !in_output(l); });
  Ints order;
  for (const Label label : e.output) order.push_back(y.axis(label));
  return b.cast(b.transpose(y.value, order), result_dtype(e, c));
}

OpDef einsum() {
  return functional("einsum")
      .doc("products and sums by named indices: any equation of torch.einsum")
      .operands(variadic("xs"))
      .attributes(attr<std::string>("equation"))
      .constraint("einsum_c1", "there are operands, of one dtype",
                  [](const Call& c) {
                    const Values xs = c.values("xs");
                    return !xs.empty() &&
                           std::all_of(xs.begin(), xs.end(), [&](ValueId v) { return c.type(v).dtype == c.type(xs[0]).dtype; });
                  })
      .constraint(
          "einsum_c2", "an index has one size, or 1",
          [](const Call& c) { return sizes_of(c, equation_of(c), [&](Dim a, Dim b) { return c.agree(a, b); }).has_value(); })
      .constraint("einsum_c3", "an index repeated in one operand has one size there",
                  [](const Call& c) {
                    const Equation e = equation_of(c);
                    const Values xs = c.values("xs");
                    for (size_t i = 0; i < xs.size(); ++i) {
                      std::map<Label, Dim> sizes;
                      for (size_t axis = 0; axis < e.inputs[i].size(); ++axis) {
                        const auto [entry, fresh] = sizes.emplace(e.inputs[i][axis], c.type(xs[i]).shape[axis]);
                        if (!fresh && !c.agree(entry->second, c.type(xs[i]).shape[axis])) return false;
                      }
                    }
                    return true;
                  })
      .infer([](const Call& c) {
        const Equation e = equation_of(c);
        const auto sizes = sizes_of(c, e, [](Dim, Dim) { return true; });  // the constraint has compared them
        Type y{result_dtype(e, c), {}};
        for (const Label label : e.output) y.shape.push_back(sizes->at(label));
        return y;
      })
      .decompose(decomposed)
      .from_aten_call("aten.einsum.default",
                      [](AtenCall& a) {
                        a.discard("path", "the order of the products only moves the rounding");
                        return a.b.create_all("einsum", a.tensors("tensors"), {{"equation", a.string("equation")}});
                      })
      .sample("torch.einsum('ij,jk->ik', t(2, 3), t(3, 4))")
      .sample("torch.einsum('ij,jk', t(2, 3), t(3, 4))")
      .sample("torch.einsum('b i d, b j d -> b i j', t(2, 3, 4), t(2, 5, 4))")
      .sample("torch.einsum('...ij,...jk', t(2, 3, 4), t(4, 5))")
      .sample("torch.einsum('...i->i', t(2, 3, 4))")
      .sample("torch.einsum('i...->...', t(2, 3, 4))")
      .sample("torch.einsum('...,...->...', t(3), t(2, 3))")
      .sample("torch.einsum('...a,a...->...', t(4, 5, 3), t(3, 4, 1))")
      .sample("torch.einsum('ii->i', t(4, 4))")
      .sample("torch.einsum('ii', t(4, 4))")
      .sample("torch.einsum('iji->j', t(4, 3, 4))")
      .sample("torch.einsum('iiji->ji', t(4, 4, 3, 4))")
      .sample("torch.einsum('iijj->ij', t(4, 4, 3, 3))")
      .sample("torch.einsum('ii,ij->j', t(4, 4), t(4, 3))")
      .sample("torch.einsum('ij->ji', t(2, 3))")
      .sample("torch.einsum('ba', t(2, 3))")
      .sample("torch.einsum('aB,Bc', t(2, 3), t(3, 4))")
      .sample("torch.einsum('i,j->ij', t(2), t(3))")
      .sample("torch.einsum('ij,ij->', t(2, 3), t(2, 3))")
      .sample("torch.einsum('ij,k->k', t(2, 3), t(4))")
      .sample("torch.einsum('ij,ij->ij', t(2, 1), t(2, 3))")
      .sample("torch.einsum('ij,ij->i', t(2, 1), t(2, 3))")
      .sample("torch.einsum('ij,jk,kl->il', t(2, 3), t(3, 4), t(4, 5))")
      .sample("torch.einsum('bn,anm,bm->ba', t(2, 3), t(4, 3, 5), t(2, 5))")
      .sample("torch.einsum('i,i,i,ij->j', t(3), t(3), t(1), t(3, 2))")
      .sample("torch.einsum('ij->', t(2, 0))")
      .sample("torch.einsum(',->', t(), t())")
      .sample("torch.einsum('ij,jk->ik', i(2, 3), i(3, 4))")
      .sample("torch.einsum('ij->i', i(2, 3, dtype=torch.int32))")
      .sample("torch.einsum('ik,j->ij', i(2, 3, dtype=torch.int32), i(4, dtype=torch.int32))")
      .sample("torch.einsum('ik,j->ij', i(2, 1, dtype=torch.int8), i(4, dtype=torch.int8))")
      .spelled_torch("torch.einsum({equation}, [{xs…}])");
}

}  // namespace

std::vector<OpDef> einsum_ops() { return {einsum()}; }

}  // namespace pycandle
