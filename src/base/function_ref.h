// A callable as an argument, by reference: nothing is copied or allocated. It must outlive the call it is passed to.
#pragma once

#include <type_traits>

namespace pycandle {

template <class> class FunctionRef;
template <class R, class... Args> class FunctionRef<R(Args...)> {
 public:
  template <class F>
    requires(!std::is_same_v<std::remove_cvref_t<F>, FunctionRef>)
  FunctionRef(const F& f)  // NOLINT(google-explicit-constructor): lambdas are passed where it is asked for
      : object_(&f), call_([](const void* object, Args... args) -> R { return (*static_cast<const F*>(object))(args...); }) {}
  R operator()(Args... args) const { return call_(object_, args...); }

 private:
  const void* object_;
  R (*call_)(const void*, Args...);
};

}  // namespace pycandle
