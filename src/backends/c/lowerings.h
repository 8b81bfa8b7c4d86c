// What writes nodes: a table in each lower_*.cpp, joined in lowerings.cpp.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "backends/c/generator.h"

namespace pycandle::c {

using Lowerings = std::vector<std::pair<std::string_view, Lowering>>;

Lowerings view_lowerings();         // views.cpp: other strides over the same memory
Lowerings movement_lowerings();     // movement.cpp: copies
Lowerings indexing_lowerings();     // indexing.cpp: places that are data
Lowerings reduction_lowerings();    // reductions.cpp
Lowerings row_lowerings();          // rows.cpp: softmax and norms
Lowerings product_lowerings();      // products.cpp
Lowerings convolution_lowerings();  // convolution.cpp
Lowerings window_lowerings();       // windows.cpp
Lowerings ordering_lowerings();     // ordering.cpp: running results, sorting
Lowerings control_lowerings();      // control.cpp: regions

Lowering find_view(std::string_view op);

// ---- indexing.cpp
// const ptrdiff_t name = the index, within [0, size); the status is set when it is not.
std::string print_index(Writer&, const std::string& status, const std::string& element, int64_t size, bool wraps);

// ---- elementwise.cpp
bool is_elementwise(const Node&);
bool is_inlined_functional(const Call&, const OpTable&);  // a functional of single elements, such as gelu
// One user reads each element of the value once, in place: it need not be in memory.
bool may_wait(const Scope&, ValueId);
// Prints what computes one element and returns its expression; operands are expressions in their computed types.
std::string print_element(Writer&, const Graph&, const Node&, const std::vector<std::string>& operands);

bool is_row_functional(const Call&);  // rows.cpp

// ---- chains.cpp
// What is computed element by element up to a value: prints statements, given how the operands in memory are indexed.
class Chain {
 public:
  // `pending`: a value that the caller has at hand, instead of computing it.
  Chain(Writer&, Scope&, ValueId last, ValueId pending = kNoValue, std::string pending_text = {});
  // index(strides of an operand, over the sizes of `last`) is its C index; called for operands() in order. Returns the expression
  // of the last value, in its computed type.
  std::string print(const std::function<std::string(const Sizes& strides)>& index);
  const std::vector<View>& operands() const { return views_; }  // in memory, read once for each element

 private:
  void collect(ValueId);
  Writer& w_;
  Scope& s_;
  ValueId last_, pending_;
  std::string pending_text_;
  Values order_;
  std::vector<View> views_;
  Values values_;
  std::vector<std::string> names_;
  std::map<ValueId, size_t> operand_of_;
};

// The loops that walk views of equal sizes, with as few axes as they allow; axes of size 1 are gone.
struct Loops {
  Sizes sizes;
  std::vector<Sizes> strides;  // of each view
};
Loops joined_axes(const Sizes&, const std::vector<Sizes>& strides);

// When the chain up to v has a product that waits: the product with the chain as its epilogue.
std::optional<View> epilogue_of_pending(Generator&, Scope&, ValueId v);
// Prints y[...] = the chain over y[...], for an epilogue over a block: rows and columns as C expressions.
struct Axis {
  size_t from, to;          // axes of the result that are walked as one
  std::string index;        // its C index
};
std::string chain_at(Chain&, const Sizes& sizes, const std::vector<Axis>&);

}  // namespace pycandle::c
