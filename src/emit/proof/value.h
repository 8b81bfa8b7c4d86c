// What an expression of emitted code is worth while it is captured: numbers, sizes, tensors of the front end, weights, and
// modules. to<T>() converts as C++ would, and refuses what C++ would refuse.
#pragma once

#include <complex>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "base/error.h"
#include "pycandle/cache.h"
#include "pycandle/nn.h"
#include "pycandle/state.h"

namespace pycandle::emit::proof {

class Value;
using List = std::vector<Value>;
struct Record {                        // {.bias = false}; a Config; an Output; a part of the Cache
  std::map<std::string, Value> fields;
  std::string type = {};               // of a part of the Cache
};
struct CacheParts {                    // CacheList<type>
  std::string type;
  front::Tensor lengths;
};
using Lambda = std::function<Value(const List&)>;

// A module that can be called.
class Layer {
 public:
  virtual ~Layer() = default;
  virtual Value call(const List& arguments) const = 0;
  std::string type;                    // "nn::Linear", "Block"
};

class Value {
 public:
  using Any = std::variant<std::monostate, bool, int64_t, double, std::complex<double>, std::string, DType, front::Dim,
                           front::DimReal, front::Tensor, std::shared_ptr<const front::State>, front::Weights, front::CacheRows,
                           CacheParts, std::shared_ptr<const List>, std::shared_ptr<const Record>, std::shared_ptr<const Layer>,
                           std::shared_ptr<const Lambda>>;
  Value() = default;                   // std::nullopt
  template <class T>
    requires std::constructible_from<Any, T>
  Value(T any) : any_(std::move(any)) {}                                      // NOLINT(google-explicit-constructor)
  Value(List list) : any_(std::make_shared<const List>(std::move(list))) {}   // NOLINT(google-explicit-constructor)
  Value(Record r) : any_(std::make_shared<const Record>(std::move(r))) {}     // NOLINT(google-explicit-constructor)

  template <class T> const T* as() const { return std::get_if<T>(&any_); }
  const List* list() const { return pointed<List>(); }
  const Record* record() const { return pointed<Record>(); }
  const Layer* layer() const { return pointed<Layer>(); }
  const Lambda* function() const { return pointed<Lambda>(); }
  const front::State* state() const { return pointed<front::State>(); }
  bool is_tensor() const { return as<front::Tensor>() || state(); }
  bool is_size() const { return as<front::Dim>() || as<int64_t>(); }
  const char* kind() const;            // "a tensor", for errors

 private:
  template <class T> const T* pointed() const {
    const auto* held = std::get_if<std::shared_ptr<const T>>(&any_);
    return held ? held->get() : nullptr;
  }
  Any any_;
};

[[noreturn]] void cannot_be(const Value&, const char* expected);

template <class T> struct Conversion;
template <class T> T to(const Value& value) { return Conversion<T>::from(value); }

#define PYCANDLE_CONVERTED(...)                  \
  template <> struct Conversion<__VA_ARGS__> {   \
    static __VA_ARGS__ from(const Value& value); \
  };
PYCANDLE_CONVERTED(bool)
PYCANDLE_CONVERTED(int64_t)
PYCANDLE_CONVERTED(double)
PYCANDLE_CONVERTED(std::string)
PYCANDLE_CONVERTED(DType)
PYCANDLE_CONVERTED(Scalar)
PYCANDLE_CONVERTED(front::Dim)
PYCANDLE_CONVERTED(front::DimReal)
PYCANDLE_CONVERTED(front::Tensor)
PYCANDLE_CONVERTED(front::Operand)
PYCANDLE_CONVERTED(front::Weights)
PYCANDLE_CONVERTED(front::nn::PerAxis)
#undef PYCANDLE_CONVERTED

template <class T> struct Conversion<std::optional<T>> {
  static std::optional<T> from(const Value& value) {
    return value.as<std::monostate>() ? std::nullopt : std::optional<T>(to<T>(value));
  }
};
template <class T> struct Conversion<std::vector<T>> {
  static std::vector<T> from(const Value& value) {
    if (!value.list()) cannot_be(value, "a list");
    std::vector<T> all;
    for (const Value& item : *value.list()) all.push_back(to<T>(item));
    return all;
  }
};

// A result of the front end: a tensor, or tensors in pairs, arrays and vectors.
inline Value value_of(front::Tensor t) { return Value(std::move(t)); }
template <class A, class B> Value value_of(std::pair<A, B> pair) {
  return Value(List{value_of(std::move(pair.first)), value_of(std::move(pair.second))});
}
inline Value value_of(std::vector<front::Tensor> all) {
  List list;
  for (front::Tensor& t : all) list.emplace_back(std::move(t));
  return Value(std::move(list));
}

}  // namespace pycandle::emit::proof
