// A module's call that is one node: which class of torch.nn it is, and with which arguments, as the op's paragraph reads it.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ir/op_def.h"

namespace pycandle {

class LayerCall {
 public:
  // The name of the module's own parameter that a value is, empty for any other; and whether it is anybody's parameter.
  using ParameterName = std::function<std::string(ValueId)>;
  using IsParameter = std::function<bool(ValueId)>;
  LayerCall(const Call& call, ParameterName parameter_name, IsParameter is_parameter)
      : call_(&call), parameter_name_(std::move(parameter_name)), is_parameter_(std::move(is_parameter)) {}

  const Call& call() const { return *call_; }
  const Attribute& attribute(std::string_view name) const { return call_->attribute(name); }
  bool absent(std::string_view operand) const { return !call_->has(operand); }
  // The operand is the module's parameter of that name.
  bool is_own(std::string_view operand, std::string_view name) const {
    return !absent(operand) && parameter_name_(call_->value(operand)) == name;
  }
  bool is_own(std::string_view operand) const { return is_own(operand, operand); }
  bool is_own_or_absent(std::string_view operand) const { return absent(operand) || is_own(operand); }
  bool is_parameter(std::string_view operand) const { return is_parameter_(call_->value(operand)); }
  // A size of a parameter: always a number.
  int64_t size(std::string_view operand, size_t axis) const { return call_->shape(operand).at(axis).number(); }

 private:
  const Call* call_;
  ParameterName parameter_name_;
  IsParameter is_parameter_;
};

inline LayerArgument required(std::string name, Attribute value) { return {std::move(name), true, std::move(value), {}}; }
inline LayerArgument option(std::string name, Attribute value, Attribute default_value) {
  return {std::move(name), false, std::move(value), std::move(default_value)};
}

// [3, 3] is 3. Nothing for sizes that are no numbers.
Attribute one_number(const Attribute& integers);
Attribute one_number_of_dims(const Attribute& dims);

// A module that has neither parameters nor options: ReLU().
inline LayerArguments no_arguments(const LayerCall&) { return std::vector<LayerArgument>{}; }

}  // namespace pycandle
