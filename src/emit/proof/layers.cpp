#include "emit/proof/layers.h"

#include <fmt/format.h>

#include <tuple>
#include <type_traits>

namespace pycandle::emit::proof {
namespace {

namespace nn = front::nn;
using front::Tensor;
using front::Weights;

// The options of a module by their names.
template <class O> using Fields = std::vector<std::pair<const char*, std::function<void(O&, const Value&)>>>;
template <class O, class M> typename Fields<O>::value_type field(const char* name, M O::* member) {
  return {name, [member](O& options, const Value& value) { options.*member = to<M>(value); }};
}
template <class O> const Fields<O>& fields_of() {
  static const Fields<O> none;
  return none;
}
// The lists of pycandle/nn.h. EACH(f, a, b, c) is f(a), f(b), f(c),
#define PARENTHESES ()
#define MANY(...) TIMES_3(TIMES_3(TIMES_3(__VA_ARGS__)))
#define TIMES_3(...) ONCE(ONCE(ONCE(__VA_ARGS__)))
#define ONCE(...) __VA_ARGS__
#define EACH(f, ...) MANY(EACH_STEP(f, __VA_ARGS__))
#define EACH_STEP(f, first, ...) f(first), __VA_OPT__(EACH_AGAIN PARENTHESES(f, __VA_ARGS__))
#define EACH_AGAIN() EACH_STEP
#define FIELD(name) field(#name, &O::name)
#define OPTIONS(Type, ...)                                \
  template <> const Fields<nn::Type>& fields_of() {       \
    using O = nn::Type;                                   \
    static const Fields<O> all{EACH(FIELD, __VA_ARGS__)}; \
    return all;                                           \
  }
PYCANDLE_NN_OPTIONS(OPTIONS)
#undef OPTIONS
#undef FIELD

template <class O> O options_of(const Record& given) {
  O options;
  for (const auto& [name, value] : given.fields) {
    bool known = false;
    for (const auto& [field, set] : fields_of<O>()) {
      if (name != field) continue;
      set(options, value);
      known = true;
    }
    if (!known) throw Error(ErrorCode::gap, fmt::format("a module has no option {}", name));
  }
  return options;
}

template <class T> class NnLayer final : public Layer {
 public:
  explicit NnLayer(T module) : module_(std::move(module)) {}
  Value call(const List& arguments) const override {
    if (arguments.size() == 1) return value_of(module_(to<Tensor>(arguments[0])));
    if constexpr (std::is_same_v<T, nn::LSTM>) {
      if (arguments.size() == 3)
        return value_of(module_(to<Tensor>(arguments[0]), to<Tensor>(arguments[1]), to<Tensor>(arguments[2])));
    } else if constexpr (std::is_same_v<T, nn::GRU> || std::is_same_v<T, nn::RNN>) {
      if (arguments.size() == 2) return value_of(module_(to<Tensor>(arguments[0]), to<Tensor>(arguments[1])));
    }
    throw Error(ErrorCode::gap, fmt::format("{} is called with {} tensors", type, arguments.size()));
  }

 private:
  T module_;
};

[[noreturn]] void wrong_arguments(size_t expected, size_t found) {
  throw Error(ErrorCode::gap, "a module is built with other arguments than it has")
      .expected(fmt::format("{} arguments, options, and weights", expected))
      .found(fmt::format("{} arguments", found));
}

// T(P…, options, weights) or T(P…, weights).
template <class T, class O, class... P> std::shared_ptr<Layer> made(const List& arguments) {
  constexpr size_t count = sizeof...(P);
  const bool has_options = arguments.size() == count + 2;
  if (!has_options && arguments.size() != count + 1) wrong_arguments(count, arguments.size());
  const Weights w = to<Weights>(arguments.back());
  return [&]<size_t... i>(std::index_sequence<i...>) -> std::shared_ptr<Layer> {
    if constexpr (!std::is_same_v<O, nn::NoOptions>) {
      if (has_options) {
        const Record* record = arguments[count].record();
        if (!record) cannot_be(arguments[count], "options");
        return std::make_shared<NnLayer<T>>(T(to<P>(arguments[i])..., options_of<O>(*record), w));
      }
    }
    if (has_options) wrong_arguments(count, arguments.size());
    return std::make_shared<NnLayer<T>>(T(to<P>(arguments[i])..., w));
  }(std::make_index_sequence<count>());
}

using Make = std::shared_ptr<Layer> (*)(const List&);
const std::map<std::string, Make>& makers() {
  using namespace nn;  // NOLINT(google-build-using-namespace): the lists name its types
  static const std::map<std::string, Make> all{
#define CLASS(Name, ...) {"nn::" #Name, made<nn::Name, __VA_ARGS__>},
      PYCANDLE_NN_CLASSES(CLASS)
#undef CLASS
#define ACTIVATION(Name, functional) {"nn::" #Name, made<nn::Name, nn::NoOptions>},
          PYCANDLE_ACTIVATIONS(ACTIVATION)
#undef ACTIVATION
  };
  return all;
}

}  // namespace

std::shared_ptr<const Layer> make_layer(const std::string& name, const List& arguments) {
  const auto found = makers().find(name);
  if (found == makers().end()) return nullptr;
  std::shared_ptr<Layer> layer = found->second(arguments);
  layer->type = name;
  return layer;
}

}  // namespace pycandle::emit::proof
