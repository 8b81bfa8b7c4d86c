// One recorded ATen node, as an op's from_aten_call lambda sees it. Arguments are read by the names of torch's schema;
// an argument that nobody reads or discards is an import error, so nothing is ignored silently.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "ir/builder.h"
#include "ops/core/promotion.h"

namespace pycandle {

// An argument of a recorded node, typed (docs/manifest.md).
struct Argument {
  struct Tensor {
    ValueId value;
  };
  struct Device {
    std::string name;
  };
  struct Layout {
    std::string name;
  };
  struct MemoryFormat {
    std::string name;
  };
  struct Subgraph {
    int32_t index;
  };
  using List = std::vector<Argument>;
  std::variant<std::monostate, bool, int64_t, double, std::complex<double>, std::string, Dim, DType, Tensor, Device, Layout,
               MemoryFormat, Subgraph, List>
      value;
};

class AtenCall {
 public:
  AtenCall(Builder& builder, std::string overload, std::vector<std::pair<std::string, Argument>> args,
           std::vector<std::optional<Type>> results)
      : b(builder), overload_(std::move(overload)), args_(std::move(args)), results_(std::move(results)), read_(args_.size()) {}

  Builder& b;

  const std::string& overload() const { return overload_; }
  bool has_argument(std::string_view name) const;                  // does the schema have it?
  bool is_none(std::string_view name);                             // a null argument counts as read
  ValueId tensor(std::string_view name);
  std::optional<ValueId> maybe_tensor(std::string_view name);
  bool has_tensor(std::string_view name) const;  // is it one, or a list with one: the schema's number may be data
  Values tensors(std::string_view name);                           // a list; None entries are kNoValue
  Values given_tensors(std::string_view name);                     // a list of at least one, none of them None
  Operand operand(std::string_view name);                          // a tensor, number or dim
  Scalar scalar(std::string_view name);
  std::optional<Scalar> maybe_scalar(std::string_view name);
  bool boolean(std::string_view name);
  int64_t integer(std::string_view name);                          // a concrete int
  Dim dim(std::string_view name);                                  // an int or a SymInt
  std::optional<Dim> maybe_dim(std::string_view name);
  Dims dims(std::string_view name);  // list of them; a single int is a list of one; None is empty
  std::optional<Dims> maybe_dims(std::string_view name);
  Ints integers(std::string_view name);
  std::optional<Ints> maybe_integers(std::string_view name);
  double number(std::string_view name);
  std::optional<double> maybe_number(std::string_view name);
  Numbers numbers(std::string_view name);
  std::string string(std::string_view name);
  std::optional<std::string> maybe_string(std::string_view name);
  std::optional<DType> dtype(std::string_view name);  // None → nullopt
  std::vector<const Argument*> list(std::string_view name);
  int32_t subgraph(std::string_view name);
  void discard(std::string_view name, const char* why);  // has no effect on values
  void discard_placement();  // dtype-free factory arguments: layout, device, pin_memory, memory_format, non_blocking

  // Torch's own words for the result; a mapping may look at it (a fixed dtype), the importer checks it afterwards.
  size_t result_count() const { return results_.size(); }
  const Type& result(size_t i = 0) const;  // bad_input when the recording has no such result

  std::vector<std::string> argument_names() const;  // in the order of the schema
  std::vector<std::string> unread() const;
  void expects(bool holds, const char* rule) const;        // bad_input: "aten.t.default expects at most two axes"
  [[noreturn]] void unsupported(const std::string& what);  // ErrorCode::gap: "aten.x with mode='y' is not supported"

 private:
  const Argument& find(std::string_view name, bool mark);
  [[noreturn]] void wrong_kind(std::string_view name, const char* expected);
  std::string overload_;
  std::vector<std::pair<std::string, Argument>> args_;
  std::vector<std::optional<Type>> results_;
  std::vector<bool> read_;
};

// Builds the op of a pattern mapping ("x, normalized_shape, weight, bias, eps, _") from the call's arguments in order.
Values build_from_pattern(AtenCall&, const OpDef&, const AtenMapping&);

}  // namespace pycandle
