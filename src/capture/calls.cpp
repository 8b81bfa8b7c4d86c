#include "capture/calls.h"

#include <string_view>

namespace pycandle::front {
pycandle::Dim known(Dim d) {
  const pycandle::Dim dim = DimAccess::base(d);
  if (dim.is_number() || Capture::current() || eager_sizes().empty()) return dim;
  std::map<std::string, pycandle::Dim, std::less<>> values;
  for (const auto& [name, size] : eager_sizes()) values.emplace(name, pycandle::Dim(size));
  return dim.substitute(values);
}

Attribute attribute(Dim value) { return known(value); }

Attribute attribute(const Dims& value) {
  Shape shape;
  shape.reserve(value.size());
  for (Dim d : value) shape.push_back(known(d));
  return shape;
}

std::vector<Tensor> call_all(const char* op, std::initializer_list<const Tensor*> operands, const std::vector<Tensor>* more,
                             Attributes attributes, Here here) {
  std::vector<const Tensor*> all(operands);
  if (more) {
    for (const Tensor& t : *more) all.push_back(&t);
  }
  return Capture::apply(op, all, here, [&](Builder& b, const Values& v) { return b.create_all(op, v, std::move(attributes)); });
}

Tensor call(const char* op, std::initializer_list<const Tensor*> operands, const std::vector<Tensor>* more, Attributes attributes,
            Here here) {
  std::vector<Tensor> results = call_all(op, operands, more, std::move(attributes), here);
  require(results.size() == 1, "an op has several results where one is wanted");
  return std::move(results[0]);
}

Tensor elementwise(const char* op, std::initializer_list<Operand> operands, Here here) {
  std::vector<const Tensor*> tensors;
  tensors.reserve(operands.size());
  for (const Operand& o : operands) tensors.push_back(Capture::tensor_of(o));
  return Capture::apply_one(op, tensors, here, [&](Builder& b, const Values& v) -> Values {
    std::vector<pycandle::Operand> all;
    for (size_t i = 0; i < operands.size(); ++i) all.push_back(Capture::operand(operands.begin()[i], v[i]));
    if (all.size() == 3) {  // select
      const ValueId condition = materialise(b, all[0], DType::boolean);
      const Values choices = promote(b, {all[1], all[2]});
      return {b.select(condition, choices[0], choices[1])};
    }
    const auto to = b.table().at(op).gives_floats ? std::optional<DType>(float_result(result_type(b, all))) : std::nullopt;
    return {arithmetic(b, op, all[0], all[1], to)};
  });
}

}  // namespace pycandle::front
