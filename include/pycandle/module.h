// nn::Module<Derived>: what a layer is. Its parts are members, its arithmetic is forward().
//
//   struct Mlp : nn::Module<Mlp> {
//     nn::Linear up, down;
//     explicit Mlp(const Weights& w) : Module(w), up(16, 64, w / "up"), down(64, 16, w / "down") {}
//     Tensor forward(const Tensor& x) const { return down(functional::gelu(up(x))); }
//   };
//
// Threads: forward() is const and keeps nothing, so several threads may call one module.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "pycandle/checker.h"
#include "pycandle/tensor.h"
#include "pycandle/weights.h"

namespace pycandle::front {
// f(name, tensor) for every tensor of a result: a Tensor, an optional one, a tuple, pair, array or vector of results, or a
// struct that names its fields: template <class F> void each(F&& f) const { f("logits", logits); }
template <class T, class F> void each_tensor(const T& value, const std::string& name, F&& f) {
  if constexpr (std::is_same_v<T, Tensor>) {
    if (value.defined()) f(name, value);
  } else if constexpr (requires {
                         value.has_value();
                         *value;
                       }) {
    if (value) each_tensor(*value, name, f);
  } else if constexpr (requires {
                         value.begin();
                         value.size();
                       }) {
    size_t i = 0;
    for (const auto& item : value) each_tensor(item, name + "." + std::to_string(i++), f);
  } else if constexpr (requires { std::tuple_size<T>::value; }) {
    [&]<size_t... i>(std::index_sequence<i...>) {
      (each_tensor(std::get<i>(value), name + "." + std::to_string(i), f), ...);
    }(std::make_index_sequence<std::tuple_size_v<T>>());
  } else {
    value.each([&](const char* field, const auto& item) { each_tensor(item, name + "." + field, f); });
  }
}

// A module call while it lasts: nodes know where they come from, errors name it, checkers see its result.
class PYCANDLE_API ModuleScope {
 public:
  ModuleScope(const std::string& path, const Checker& checker, Here = Here::current());
  ~ModuleScope();
  ModuleScope(const ModuleScope&) = delete;
  ModuleScope& operator=(const ModuleScope&) = delete;
  bool is_checked() const { return is_checked_; }
  void see(const std::string& output, const Tensor&) const;
  // The only tensor that the module is called with; anything else says nothing.
  template <class... A> void see_argument(const A&... arguments) const {
    if constexpr ((0 + ... + int{std::is_same_v<A, Tensor>}) == 1) (see_if_tensor(arguments), ...);
  }

 private:
  template <class T> void see_if_tensor(const T& argument) const {
    if constexpr (std::is_same_v<T, Tensor>) see_input(argument);
  }
  void see_input(const Tensor&) const;
  bool is_checked_ = false;
  int32_t file_before_ = -1, line_before_ = 0;  // where the caller stands
};

namespace nn {

template <class M, class... A>
concept Forwards = requires(const M& module, A&&... arguments) { module.forward(std::forward<A>(arguments)...); };

template <class Derived> class Module {
 public:
  // Calls forward(). A Here cannot follow a pack of arguments: there is a function for each number of them that is usual.
  auto operator()(Here here = Here::current()) const
    requires Forwards<Derived>
  {
    return called(here);
  }
  template <class A>
    requires Forwards<Derived, A>
  auto operator()(A&& a, Here here = Here::current()) const {
    return called(here, std::forward<A>(a));
  }
  template <class A, class B>
    requires Forwards<Derived, A, B>
  auto operator()(A&& a, B&& b, Here here = Here::current()) const {
    return called(here, std::forward<A>(a), std::forward<B>(b));
  }
  template <class A, class B, class C>
    requires Forwards<Derived, A, B, C>
  auto operator()(A&& a, B&& b, C&& c, Here here = Here::current()) const {
    return called(here, std::forward<A>(a), std::forward<B>(b), std::forward<C>(c));
  }
  template <class A, class B, class C, class D>
    requires Forwards<Derived, A, B, C, D>
  auto operator()(A&& a, B&& b, C&& c, D&& d, Here here = Here::current()) const {
    return called(here, std::forward<A>(a), std::forward<B>(b), std::forward<C>(c), std::forward<D>(d));
  }
  template <class A, class B, class C, class D, class E>
    requires Forwards<Derived, A, B, C, D, E>
  auto operator()(A&& a, B&& b, C&& c, D&& d, E&& e, Here here = Here::current()) const {
    return called(here, std::forward<A>(a), std::forward<B>(b), std::forward<C>(c), std::forward<D>(d), std::forward<E>(e));
  }
  template <class A, class B, class C, class D, class E, class F>
    requires Forwards<Derived, A, B, C, D, E, F>
  auto operator()(A&& a, B&& b, C&& c, D&& d, E&& e, F&& f, Here here = Here::current()) const {
    return called(here, std::forward<A>(a), std::forward<B>(b), std::forward<C>(c), std::forward<D>(d), std::forward<E>(e),
                  std::forward<F>(f));
  }
  template <class... A>
    requires(sizeof...(A) > 6 && Forwards<Derived, A...>)
  auto operator()(A&&... arguments) const {
    return called(Here::current(), std::forward<A>(arguments)...);  // of this file: nodes stand where the caller does
  }
  const std::string& path() const { return path_; }

  Checker checker;  // of the root: sees the results of all modules inside

 protected:
  Module() = default;
  explicit Module(const Weights& w) : path_(w.path()) {}
  Module(const Weights& w, Checker seeing) : checker(std::move(seeing)), path_(w.path()) {}

 private:
  template <class... A> auto called(Here here, A&&... arguments) const {
    const ModuleScope scope(path_, checker, here);
    if (scope.is_checked()) scope.see_argument(arguments...);
    auto result = static_cast<const Derived&>(*this).forward(std::forward<A>(arguments)...);
    if (scope.is_checked()) each_tensor(result, "output", [&](const std::string& name, const Tensor& t) { scope.see(name, t); });
    return result;
  }

  std::string path_;
};

}  // namespace nn

}  // namespace pycandle::front
