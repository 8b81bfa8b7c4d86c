// How calls are written in ONNX: a table for each family. An op without a form is decomposed.
#pragma once

#include <span>

#include "emit/onnx/graph_writer.h"

namespace pycandle::emit::onnx {

// A call that is being written.
struct Site {
  GraphWriter& w;
  const Call& c;
  const pycandle::Node& node;

  std::string operator[](const char* operand) const { return w.name(c.value(operand)); }
  DType dtype(const char* operand) const { return c.type(operand).dtype; }
  const Type& result(size_t i = 0) const { return w.type(node.results[i]); }
};

struct Form {
  std::string_view op;
  Names (*write)(const Site&);
  bool (*holds)(const Call&) = nullptr;       // nothing: always
  int since = 0;                              // the first opset with the operators that it needs
};

// Of several the first that holds; nullptr when there is none.
const Form* form_of(const Call&, int opset);

std::span<const Form> elementwise_forms();
std::span<const Form> shape_forms();
std::span<const Form> reduction_forms();
std::span<const Form> layer_forms();
std::span<const Form> control_forms();

// What several families ask.
inline bool is_real(const Call& c) { return !is_complex(c.type(c.op().operand_specs[0].name).dtype); }
inline Ints all_axes(int64_t begin, int64_t end) {
  Ints axes;
  for (int64_t a = begin; a < end; ++a) axes.push_back(a);
  return axes;
}

}  // namespace pycandle::emit::onnx
