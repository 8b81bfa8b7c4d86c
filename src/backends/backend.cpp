#include "backends/backend.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"

namespace pycandle {
namespace {

std::vector<std::string> unbound_symbols(Dim d, const Bindings& bound) {
  std::vector<std::string> symbols;
  d.collect_symbols(symbols);
  std::erase_if(symbols, [&](const std::string& s) { return bound.count(s) != 0; });
  return symbols;
}

// The value of the one unbound symbol of `d` that makes it `size`, when d is linear in it: 2*s0 + 1 = 9 gives 4.
std::optional<int64_t> solved(Dim d, const std::string& symbol, int64_t size, Bindings bound) {
  const auto at = [&](int64_t value) {
    bound[symbol] = value;
    return d.evaluate(bound);
  };
  const int64_t offset = at(0), slope = at(1) - offset;
  if (slope == 0 || (size - offset) % slope != 0) return std::nullopt;
  const int64_t value = (size - offset) / slope;
  if (value < 0 || at(value) != size) return std::nullopt;
  return value;
}

[[noreturn]] void wrong_input(const Input& input, std::string what, std::string expected, std::string found) {
  throw Error(ErrorCode::bad_input, fmt::format("input {} {}", input.name, what))
      .expected(std::move(expected))
      .found(std::move(found));
}

void check_type(const Input& input, const Type& type, const Array& array) {
  if (array.dtype() != type.dtype) {
    wrong_input(input, "has another dtype than the program", fmt::format("{} ({})", name_of(type.dtype), type.text()),
                std::string(name_of(array.dtype())));
  }
  if (array.rank() != type.rank()) {
    wrong_input(input, "has another number of dims than the program",
                fmt::format("{} dims: {}", type.rank(), to_string(type.shape)),
                fmt::format("{} dims: {}", array.rank(), to_string(array.shape())));
  }
}

void check_range(const Symbol& symbol, const Bindings& bound) {
  const auto found = bound.find(symbol.name);
  if (found == bound.end()) return;
  const int64_t value = found->second;
  const bool too_big = symbol.range.max && value > *symbol.range.max;
  if (value >= symbol.range.min && !too_big) return;
  const std::string where = symbol.axis < 0 ? "" : fmt::format(" (dim {} of input {})", symbol.axis, symbol.input);
  throw Error(ErrorCode::bad_input, fmt::format("size {}{} is out of its range", symbol.name, where))
      .expected(symbol.range.max ? fmt::format("{} to {}", symbol.range.min, *symbol.range.max)
                                 : fmt::format("at least {}", symbol.range.min))
      .found(std::to_string(value));
}

std::string bindings_text(const std::vector<std::string>& symbols, const Bindings& bound) {
  std::string text;
  for (const std::string& s : symbols) {
    const auto found = bound.find(s);
    if (found != bound.end()) text += fmt::format("{}{} = {}", text.empty() ? "" : ", ", s, found->second);
  }
  return text;
}

}  // namespace

std::vector<std::string> Backend::implementations(std::string_view /*functional*/) const { return {}; }

Bindings bind_inputs(const Program& p, const std::vector<Array>& inputs, Bindings bound) {
  if (inputs.size() != p.inputs.size()) {
    throw Error(ErrorCode::bad_input, "the number of inputs differs from the program's")
        .expected(std::to_string(p.inputs.size()))
        .found(std::to_string(inputs.size()));
  }
  for (size_t i = 0; i < inputs.size(); ++i) check_type(p.inputs[i], p.graph.type(p.inputs[i].value), inputs[i]);

  // Plain symbols first, then dims with one symbol left, so that 2*s0 binds s0 only where no input has s0 itself.
  for (const bool plain : {true, false}) {
    for (size_t i = 0; i < inputs.size(); ++i) {
      const Shape& shape = p.graph.type(p.inputs[i].value).shape;
      for (size_t axis = 0; axis < shape.size(); ++axis) {
        const std::vector<std::string> open = unbound_symbols(shape[axis], bound);
        if (open.size() != 1 || (shape[axis] == Dim::symbol(open[0])) != plain) continue;
        if (const auto value = solved(shape[axis], open[0], inputs[i].shape()[axis], bound)) bound[open[0]] = *value;
      }
    }
  }
  for (size_t i = 0; i < inputs.size(); ++i) {
    const Shape& shape = p.graph.type(p.inputs[i].value).shape;
    for (size_t axis = 0; axis < shape.size(); ++axis) {
      const Dim dim = shape[axis];
      const int64_t found = inputs[i].shape()[axis];
      if (!unbound_symbols(dim, bound).empty()) {
        wrong_input(p.inputs[i], fmt::format("has no possible size in dim {}", axis), dim.text(), std::to_string(found));
      }
      if (dim.evaluate(bound) == found) continue;
      std::vector<std::string> symbols;
      dim.collect_symbols(symbols);
      const std::string because = symbols.empty() ? ""
                                                  : fmt::format(" = {} ({})", dim.evaluate(bound), bindings_text(symbols, bound));
      wrong_input(p.inputs[i], fmt::format("has the wrong size in dim {}", axis), dim.text() + because,
                  fmt::format("{} ({})", found, to_string(inputs[i].shape())));
    }
  }
  for (const Symbol& symbol : p.symbols) check_range(symbol, bound);
  evaluate_checks(p, bound);
  return bound;
}

void evaluate_checks(const Program& p, const Bindings& bound, std::string_view symbol) {
  for (const Check& check : p.checks) {
    std::vector<std::string> symbols;
    check.left.collect_symbols(symbols);
    check.right.collect_symbols(symbols);
    if (!symbol.empty() && std::find(symbols.begin(), symbols.end(), symbol) == symbols.end()) continue;
    if (std::any_of(symbols.begin(), symbols.end(), [&](const std::string& s) { return bound.count(s) == 0; })) continue;
    const int64_t left = check.left.evaluate(bound), right = check.right.evaluate(bound);
    if (left == right) continue;
    throw Error(ErrorCode::bad_input, fmt::format("these sizes do not fit the program: {}", check.what))
        .expected(fmt::format("{} = {}", check.left.text(), check.right.text()))
        .found(fmt::format("{} and {} ({})", left, right, bindings_text(symbols, bound)))
        .module_path(p.module_path(check.origin))
        .python(p.file_line(check.origin), p.source_line(check.origin));
  }
}

}  // namespace pycandle
