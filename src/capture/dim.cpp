#include "pycandle/dim.h"

#include <fmt/format.h>

#include "base/dim.h"
#include "capture/calls.h"
#include "capture/capture.h"

namespace pycandle::front {
namespace {

const SymbolRanges& ranges() {
  static const SymbolRanges none;
  return Capture::current() ? Capture::current()->ranges : none;
}

[[noreturn]] void undecided(Dim a, const char* comparison, Dim b) {
  throw Error(ErrorCode::bad_input,
              fmt::format("whether {} {} {} depends on the sizes of the inputs", a.text(), comparison, b.text()))
      .module_path(current_module())
      .hint("branch on numbers, or fix the size: dim.specialise()");
}

bool decided(Tri answer, Dim a, const char* comparison, Dim b) {
  if (answer == Tri::unknown) undecided(a, comparison, b);
  return answer == Tri::yes;
}

}  // namespace

Dim::Dim(int64_t value) : node_(DimAccess::front(pycandle::Dim(value)).node_) {}

bool Dim::is_number() const { return known(*this).is_number(); }

int64_t Dim::number() const {
  if (const auto number = known(*this).maybe_number()) return *number;
  throw Error(ErrorCode::bad_input, fmt::format("the size {} is not a number", text()))
      .module_path(current_module())
      .hint("it depends on the inputs; dim.specialise() fixes it to the size in the signature's example");
}

int64_t Dim::specialise() const {
  const pycandle::Dim dim = known(*this);
  if (dim.is_number()) return dim.number();
  Capture* capture = Capture::current();
  Bindings examples;
  std::vector<std::string> symbols;
  dim.collect_symbols(symbols);
  for (const std::string& name : symbols) {
    const pycandle::Symbol* found = nullptr;
    if (capture) {
      for (const pycandle::Symbol& symbol : capture->program.symbols)
        if (symbol.name == name) found = &symbol;
    }
    if (!found || found->example <= 0) {
      throw Error(ErrorCode::bad_input, fmt::format("the size {} has no example to be fixed to", name))
          .module_path(current_module())
          .hint(fmt::format("give it one in the signature: Symbol{{.name = \"{}\", .example = 8}}", name));
    }
    examples.emplace(name, found->example);
  }
  const int64_t number = dim.evaluate(examples);
  capture->program.checks.push_back(
      {dim, number, fmt::format("{} was fixed to {} when the model was captured", text(), number), capture->builder.origin});
  return number;
}

std::string Dim::text() const { return known(*this).text(); }

#define PYCANDLE_ARITHMETIC(name, expression)              \
  Dim name(Dim left, Dim right) {                          \
    const pycandle::Dim a = known(left), b = known(right); \
    return DimAccess::front(expression);                   \
  }
PYCANDLE_ARITHMETIC(operator+, a + b)
PYCANDLE_ARITHMETIC(operator-, a - b)
PYCANDLE_ARITHMETIC(operator*, a* b)
PYCANDLE_ARITHMETIC(operator/, pycandle::floordiv(a, b))
PYCANDLE_ARITHMETIC(operator%, pycandle::mod(a, b))
PYCANDLE_ARITHMETIC(floordiv, pycandle::floordiv(a, b))
PYCANDLE_ARITHMETIC(mod, pycandle::mod(a, b))
PYCANDLE_ARITHMETIC(ceildiv, pycandle::ceildiv(a, b))
PYCANDLE_ARITHMETIC(min, pycandle::min(a, b))
PYCANDLE_ARITHMETIC(max, pycandle::max(a, b))
#undef PYCANDLE_ARITHMETIC

Dim operator-(Dim d) { return DimAccess::front(-known(d)); }

DimReal::DimReal(Dim value) : DimReal(DimAccess::front(pycandle::DimReal(known(value)))) {}
DimReal DimReal::from_number(double value) { return DimAccess::front(pycandle::DimReal(value)); }
DimReal operator+(const DimReal& a, const DimReal& b) { return DimAccess::front(DimAccess::base(a) + DimAccess::base(b)); }
DimReal operator-(const DimReal& a, const DimReal& b) { return DimAccess::front(DimAccess::base(a) - DimAccess::base(b)); }
DimReal operator*(const DimReal& a, const DimReal& b) { return DimAccess::front(DimAccess::base(a) * DimAccess::base(b)); }
DimReal operator/(const DimReal& a, const DimReal& b) { return DimAccess::front(DimAccess::base(a) / DimAccess::base(b)); }
DimReal operator-(const DimReal& a) { return DimAccess::front(-DimAccess::base(a)); }
Dim floor(const DimReal& a) { return DimAccess::front(rounded(DimRounding::floor, DimAccess::base(a))); }
Dim ceil(const DimReal& a) { return DimAccess::front(rounded(DimRounding::ceil, DimAccess::base(a))); }
Dim trunc(const DimReal& a) { return DimAccess::front(rounded(DimRounding::trunc, DimAccess::base(a))); }
Dim round(const DimReal& a) { return DimAccess::front(rounded(DimRounding::round, DimAccess::base(a))); }

bool operator==(Dim a, Dim b) { return decided(equal(known(a), known(b), ranges()), a, "equals", b); }
bool operator<(Dim a, Dim b) { return decided(at_most(known(a) + 1, known(b), ranges()), a, "is less than", b); }
bool operator<=(Dim a, Dim b) { return decided(at_most(known(a), known(b), ranges()), a, "is at most", b); }

Dim data_dim() {
  Capture* capture = Capture::current();
  if (!capture) {
    thread_local int64_t count = 0;
    return DimAccess::front(pycandle::Dim::symbol(fmt::format("u{}", count++)));
  }
  pycandle::Symbol symbol;
  size_t count = 0;
  for (const pycandle::Symbol& other : capture->program.symbols) count += other.axis < 0 ? 1 : 0;
  symbol.name = fmt::format("u{}", count);
  symbol.range.min = 0;
  capture->ranges.emplace(symbol.name, symbol.range);
  capture->program.symbols.push_back(symbol);
  return DimAccess::front(pycandle::Dim::symbol(symbol.name));
}

}  // namespace pycandle::front
