#include "emit/proof/value.h"

#include <array>

namespace pycandle::emit::proof {

const char* Value::kind() const {
  static constexpr std::array kKinds{"nothing",         "a bool",           "an integer",
                                     "a number",        "a complex number", "a string",
                                     "a dtype",         "a size",           "a size that is not rounded",
                                     "a tensor",        "a state",          "weights",
                                     "rows of a cache", "parts of a cache", "a list",
                                     "a struct",        "a module",         "a function"};
  static_assert(kKinds.size() == std::variant_size_v<Any>);
  return kKinds[any_.index()];
}

void cannot_be(const Value& value, const char* expected) {
  throw Error(ErrorCode::gap, "a value has another type than the code says").expected(expected).found(value.kind());
}

bool Conversion<bool>::from(const Value& value) {
  if (const bool* b = value.as<bool>()) return *b;
  cannot_be(value, "a bool");
}

int64_t Conversion<int64_t>::from(const Value& value) {
  if (const int64_t* n = value.as<int64_t>()) return *n;
  cannot_be(value, "an integer");
}

double Conversion<double>::from(const Value& value) {
  if (const double* x = value.as<double>()) return *x;
  if (const int64_t* n = value.as<int64_t>()) return static_cast<double>(*n);
  cannot_be(value, "a number");
}

std::string Conversion<std::string>::from(const Value& value) {
  if (const std::string* s = value.as<std::string>()) return *s;
  cannot_be(value, "a string");
}

DType Conversion<DType>::from(const Value& value) {
  if (const DType* d = value.as<DType>()) return *d;
  cannot_be(value, "a dtype");
}

Scalar Conversion<Scalar>::from(const Value& value) {
  if (const bool* b = value.as<bool>()) return *b;
  if (const int64_t* n = value.as<int64_t>()) return *n;
  if (const double* x = value.as<double>()) return *x;
  if (const std::complex<double>* z = value.as<std::complex<double>>()) return *z;
  cannot_be(value, "a number");
}

front::Dim Conversion<front::Dim>::from(const Value& value) {
  if (const front::Dim* d = value.as<front::Dim>()) return *d;
  if (const int64_t* n = value.as<int64_t>()) return {*n};
  cannot_be(value, "a size");
}

front::DimReal Conversion<front::DimReal>::from(const Value& value) {
  if (const front::DimReal* d = value.as<front::DimReal>()) return *d;
  if (const double* x = value.as<double>()) return {*x};
  return {to<front::Dim>(value)};
}

front::Tensor Conversion<front::Tensor>::from(const Value& value) {
  if (const front::Tensor* t = value.as<front::Tensor>()) return *t;
  if (const front::State* s = value.state()) return {*s};  // what it is now
  cannot_be(value, "a tensor");
}

front::Operand Conversion<front::Operand>::from(const Value& value) {
  if (value.is_tensor()) return {to<front::Tensor>(value)};
  if (const front::Dim* d = value.as<front::Dim>()) return {*d};
  return {to<Scalar>(value)};
}

front::Weights Conversion<front::Weights>::from(const Value& value) {
  if (const front::Weights* w = value.as<front::Weights>()) return *w;
  cannot_be(value, "weights");
}

front::nn::PerAxis Conversion<front::nn::PerAxis>::from(const Value& value) {
  if (const int64_t* n = value.as<int64_t>()) return {*n};
  return {to<front::Ints>(value)};
}

}  // namespace pycandle::emit::proof
