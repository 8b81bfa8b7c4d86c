// What src/capture/functional.cpp, which is generated, is made of.
#pragma once

#include <initializer_list>
#include <optional>
#include <string>
#include <vector>

#include "capture/capture.h"

namespace pycandle::front {

// A size that data decided is a number once the op that gave it has run.
pycandle::Dim known(Dim);

inline Attribute attribute(bool value) { return value; }
inline Attribute attribute(int64_t value) { return value; }
inline Attribute attribute(double value) { return value; }
inline Attribute attribute(const Scalar& value) { return pycandle::attribute(value); }
inline Attribute attribute(const std::string& value) { return value; }
inline Attribute attribute(DType value) { return value; }
Attribute attribute(Dim value);
Attribute attribute(const Dims& value);
inline Attribute attribute(const Ints& value) { return value; }
inline Attribute attribute(const Numbers& value) { return value; }
template <class T> Attribute attribute(const std::optional<T>& value) { return value ? attribute(*value) : Attribute(); }

// One node of that op; `more` are its variadic operands.
Tensor call(const char* op, std::initializer_list<const Tensor*> operands, const std::vector<Tensor>* more, Attributes,
            Here = Here::current());
std::vector<Tensor> call_all(const char* op, std::initializer_list<const Tensor*> operands, const std::vector<Tensor>* more,
                             Attributes, Here = Here::current());
// Promoted and broadcast as torch does.
Tensor elementwise(const char* op, std::initializer_list<Operand> operands, Here = Here::current());

}  // namespace pycandle::front
