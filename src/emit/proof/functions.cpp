#include "emit/proof/functions.h"

#include <fmt/format.h>

#include <cmath>
#include <limits>

#include "capture/calls.h"
#include "ops/core/catalogue.h"
#include "ops/core/spelling.h"
#include "pycandle/control_flow.h"

namespace pycandle::emit::proof {
namespace {

using front::Dim;
using front::Dims;
using front::Ints;
using front::Operand;
using front::Tensor;
using front::Tensors;
using front::Weights;

// The arguments of one call: taken from left to right, each as the type that the function has there.
class Arguments {
 public:
  Arguments(const std::string& function, const List& all) : function_(&function), all_(&all) {}
  ~Arguments() = default;

  template <class T> T next() {
    if (at_ >= all_->size()) wrong("more");
    return to<T>((*all_)[at_++]);
  }
  template <class T> T next_or(T otherwise) { return at_ < all_->size() ? next<T>() : otherwise; }
  template <class T> T last() {
    T value = next<T>();
    done();
    return value;
  }
  template <class T> T last_or(T otherwise) {
    T value = next_or<T>(std::move(otherwise));
    done();
    return value;
  }
  const Value* next_value() { return at_ < all_->size() ? &(*all_)[at_++] : nullptr; }
  void done() const {
    if (at_ != all_->size()) wrong("fewer");
  }

 private:
  [[noreturn]] void wrong(const char* wanted) const {
    throw Error(ErrorCode::gap, fmt::format("{} takes {} arguments", *function_, wanted))
        .found(fmt::format("{} arguments", all_->size()));
  }
  const std::string* function_;
  const List* all_;
  size_t at_ = 0;
};

size_t count_in(const std::string& types) { return static_cast<size_t>(std::stoul(types.substr(1))); }

Value unpacked(const std::string& types, std::vector<Tensor> tensors) {
  if (tensors.size() != count_in(types)) front::wrong_count(count_in(types), tensors.size());
  return value_of(std::move(tensors));
}

// ---- functionals

Attribute attribute_of(const Value& value, AttrKind kind) {
  if (value.as<std::monostate>()) return {};
  switch (kind) {
    case AttrKind::boolean: return to<bool>(value);
    case AttrKind::integer: return to<int64_t>(value);
    case AttrKind::number: return to<double>(value);
    case AttrKind::scalar: return front::attribute(to<Scalar>(value));
    case AttrKind::string: return to<std::string>(value);
    case AttrKind::dtype: return to<DType>(value);
    case AttrKind::dim: return front::attribute(to<Dim>(value));
    case AttrKind::integers: return to<Ints>(value);
    case AttrKind::numbers: return to<front::Numbers>(value);
    case AttrKind::dims: return front::attribute(to<Dims>(value));
  }
  internal_error("an attribute of no kind");
}

// One call of an op, filled in from what is written: positional arguments, then options by name.
class FunctionalCall {
 public:
  FunctionalCall(const OpDef& op, const CallSpelling& spelling)
      : op_(&op), spelling_(&spelling), operands_(op.operand_specs.size()) {
    for (const AttrSpec& spec : op.attr_specs) attributes_.emplace_back(spec.name, spec.default_value.value_or(Attribute{}));
  }

  Value run(const List& written) {
    Arguments arguments(op_->name, written);
    for (const CallSpelling::Part& part : spelling_->positional) {
      const Value* value = arguments.next_value();
      if (!value) throw Error(ErrorCode::gap, fmt::format("functional::{} has no {}", spelling_->name, part.name));
      set(part, *value);
    }
    if (const Value* options = arguments.next_value()) set_options(*options);
    arguments.done();
    std::vector<const Tensor*> all;
    for (size_t i = 0; i < op_->fixed_operands(); ++i) all.push_back(&operands_[i]);
    for (const Tensor& t : more_) all.push_back(&t);
    std::vector<Tensor> results = front::Capture::apply(
        op_->name.c_str(), all, front::Here::current(),
        [&](Builder& b, const pycandle::Values& v) { return b.create_all(op_->name, v, attributes_); });
    if (op_->several_results) return value_of(std::move(results));
    return {std::move(results.at(0))};
  }

 private:
  void set(const CallSpelling::Part& part, const Value& value) {
    using Kind = CallSpelling::Part::Kind;
    if (part.kind == Kind::operand) operands_[part.index] = to<Tensor>(value);
    if (part.kind == Kind::operands) more_ = to<Tensors>(value);
    if (part.kind == Kind::attribute) attributes_[part.index].second = attribute_of(value, op_->attr_specs[part.index].kind);
  }

  void set_options(const Value& options) {
    if (!options.record()) cannot_be(options, "options");
    size_t known = 0;
    for (const CallSpelling::Part& part : spelling_->options) {
      const auto given = options.record()->fields.find(part.name);
      if (given == options.record()->fields.end()) continue;
      set(part, given->second);
      ++known;
    }
    if (known != options.record()->fields.size())
      throw Error(ErrorCode::gap, fmt::format("functional::{} is given an option that it does not have", spelling_->name));
  }

  const OpDef* op_;
  const CallSpelling* spelling_;
  std::vector<Tensor> operands_;
  Tensors more_;
  Attributes attributes_;
};

struct Functional {
  const OpDef* op;
  CallSpelling spelling;
};

const Functional* functional_named(const std::string& name) {
  static const std::map<std::string, Functional> all = [] {
    std::map<std::string, Functional> found;
    for (const auto& op : catalogue().all()) {
      CallSpelling spelling = spelling_of(*op);
      if (!spelling.exists) continue;
      const std::string spelled = spelling.name;
      found.emplace(spelled, Functional{op.get(), std::move(spelling)});
    }
    return found;
  }();
  const auto found = all.find(name);
  return found == all.end() ? nullptr : &found->second;
}

Tensor elementwise(const char* op, const List& operands) {
  if (operands.size() == 3)
    return front::elementwise(op, {to<Operand>(operands[0]), to<Operand>(operands[1]), to<Operand>(operands[2])});
  if (operands.size() != 2) throw Error(ErrorCode::gap, fmt::format("{} takes two operands", op));
  return front::elementwise(op, {to<Operand>(operands[0]), to<Operand>(operands[1])});
}

front::Body body_of(const Value* value) {
  if (!value || !value->function()) cannot_be(value ? *value : Value(), "a function");
  return [lambda = *value->function()](const Tensors& tensors) { return to<Tensors>(lambda({value_of(tensors)})); };
}

std::optional<Value> control_flow(const std::string& name, Arguments arguments) {
  if (name == "cond") {
    const Tensor condition = arguments.next<Tensor>();
    const Tensors operands = arguments.next<Tensors>();
    const front::Body yes = body_of(arguments.next_value()), no = body_of(arguments.next_value());
    arguments.done();
    return value_of(front::functional::cond(condition, operands, yes, no));
  }
  if (name == "while_loop") {
    const Tensors carries = arguments.next<Tensors>();
    const front::Body more = body_of(arguments.next_value()), body = body_of(arguments.next_value());
    arguments.done();
    return value_of(front::functional::while_loop(carries, more, body));
  }
  if (name != "scan") return {};
  const Tensors values = arguments.next<Tensors>();
  const int64_t carries = arguments.next<int64_t>();
  const Dim length = arguments.next<Dim>();
  const front::Body body = body_of(arguments.next_value());
  front::functional::ScanOptions options;
  if (const Value* given = arguments.next_value(); given && given->record())
    options.reverse = to<bool>(given->record()->fields.at("reverse"));
  arguments.done();
  return value_of(front::functional::scan(values, carries, length, body, options));
}

std::optional<Value> call_functional(const std::string& name, const List& arguments) {
  if (auto flow = control_flow(name, Arguments(name, arguments))) return flow;
  const Functional* found = functional_named(name);
  if (!found) return {};
  if (found->spelling.promotes) return Value(elementwise(found->op->name.c_str(), arguments));
  return FunctionalCall(*found->op, found->spelling).run(arguments);
}

// ---- free functions and members

using Free = Value (*)(Arguments);
template <Dim (*rounds)(const front::DimReal&)> Value rounded(Arguments a) {
  const Value* size = a.next_value();
  a.done();
  // Of a plain number it would be the C library's function, which gives a double.
  if (!size || !(size->as<Dim>() || size->as<front::DimReal>())) cannot_be(size ? *size : Value(), "a size");
  return rounds(to<front::DimReal>(*size));
}
template <Dim (*combines)(Dim, Dim)> Value of_two(Arguments a) {
  const Dim left = a.next<Dim>();
  return combines(left, a.last<Dim>());
}
const std::map<std::string, Free>& free_functions() {
  static const std::map<std::string, Free> all{
      {"cache_capacity",
       [](Arguments a) -> Value {
         a.done();
         return front::cache_capacity();
       }},
      {"cat",
       [](Arguments a) -> Value {
         const Tensors tensors = a.next<Tensors>();
         return front::cat(tensors, a.last_or<int64_t>(0));
       }},
      {"where",
       [](Arguments a) -> Value {
         const Operand condition = a.next<Operand>(), yes = a.next<Operand>();
         return front::where(condition, yes, a.last<Operand>());
       }},
      {"matmul",
       [](Arguments a) -> Value {
         const Tensor left = a.next<Tensor>();
         return front::matmul(left, a.last<Tensor>());
       }},
      {"full",
       [](Arguments a) -> Value {
         const Dims shape = a.next<Dims>();
         const auto value = a.next<Scalar>();
         return front::full(shape, value, a.last_or<DType>(DType::f32));
       }},
      {"arange",
       [](Arguments a) -> Value {
         const Dim first = a.next<Dim>();
         const auto stop = a.next_or<std::optional<Dim>>(std::nullopt);
         if (!stop) return front::arange(first);
         const auto step = a.next_or<int64_t>(1);
         return front::arange(first, *stop, step, a.last_or<DType>(DType::i64));
       }},
      {"floordiv", of_two<front::floordiv>},
      {"mod", of_two<front::mod>},
      {"min", of_two<front::min>},
      {"max", of_two<front::max>},
      {"floor", rounded<front::floor>},
      {"ceil", rounded<front::ceil>},
      {"trunc", rounded<front::trunc>},
      {"round", rounded<front::round>},
      {"data_dim",
       [](Arguments a) -> Value {
         a.done();
         return front::data_dim();
       }},
      {"std::pow",
       [](Arguments a) -> Value {
         const auto base = a.next<double>();
         return std::pow(base, a.last<double>());
       }},
      {"std::sqrt", [](Arguments a) -> Value { return std::sqrt(a.last<double>()); }},
      {"std::to_string", [](Arguments a) -> Value { return std::to_string(a.last<int64_t>()); }},
      {"static_cast", [](Arguments a) -> Value { return a.last<int64_t>(); }},
      {"std::complex",
       [](Arguments a) -> Value {
         const auto real = a.next<double>();
         return std::complex<double>(real, a.last<double>());
       }},
  };
  return all;
}

using OfTensor = Value (*)(const Tensor&, Arguments);
template <Tensor (Tensor::*reduce)(const Ints&, bool, front::Here) const> Value reduced(const Tensor& x, Arguments a) {
  const Ints axes = a.next<Ints>();
  return (x.*reduce)(axes, a.last_or<bool>(false), front::Here::current());
}

const std::map<std::string, OfTensor>& tensor_members() {
  static const std::map<std::string, OfTensor> all{
      {"defined",
       [](const Tensor& x, Arguments a) -> Value {
         a.done();
         return x.defined();
       }},
      {"dim", [](const Tensor& x, Arguments a) -> Value { return x.dim(a.last<int64_t>()); }},
      {"reshape", [](const Tensor& x, Arguments a) -> Value { return x.reshape(a.last<Dims>()); }},
      {"expand", [](const Tensor& x, Arguments a) -> Value { return x.expand(a.last<Dims>()); }},
      {"permute", [](const Tensor& x, Arguments a) -> Value { return x.permute(a.last<Ints>()); }},
      {"unsqueeze", [](const Tensor& x, Arguments a) -> Value { return x.unsqueeze(a.last<int64_t>()); }},
      {"squeeze", [](const Tensor& x, Arguments a) -> Value { return x.squeeze(a.last<int64_t>()); }},
      {"to", [](const Tensor& x, Arguments a) -> Value { return x.to(a.last<DType>()); }},
      {"flatten",
       [](const Tensor& x, Arguments a) -> Value {
         const auto start = a.next_or<int64_t>(0);
         return x.flatten(start, a.last_or<int64_t>(-1));
       }},
      {"transpose",
       [](const Tensor& x, Arguments a) -> Value {
         const auto one = a.next<int64_t>();
         return x.transpose(one, a.last<int64_t>());
       }},
      {"slice",
       [](const Tensor& x, Arguments a) -> Value {
         const auto axis = a.next<int64_t>();
         const Dim start = a.next<Dim>(), stop = a.next<Dim>();
         return x.slice(axis, start, stop, a.last_or<int64_t>(1));
       }},
      {"slice_from",
       [](const Tensor& x, Arguments a) -> Value {
         const auto axis = a.next<int64_t>();
         const Dim start = a.next<Dim>();
         return x.slice_from(axis, start, a.last_or<int64_t>(1));
       }},
      {"select",
       [](const Tensor& x, Arguments a) -> Value {
         const auto axis = a.next<int64_t>();
         return x.select(axis, a.last<Dim>());
       }},
      {"sum", reduced<&Tensor::sum>},
      {"mean", reduced<&Tensor::mean>},
      {"amax", reduced<&Tensor::amax>},
      {"amin", reduced<&Tensor::amin>},
  };
  return all;
}

Value call_of_tensor(const Tensor& x, const std::string& name, const std::string& types, Arguments arguments) {
  if (name == "chunk") return unpacked(types, x.chunk(static_cast<int64_t>(count_in(types)), arguments.last<int64_t>()));
  if (name == "split") {
    const Dims sizes = arguments.next<Dims>();
    return unpacked(types, x.split(sizes, arguments.last<int64_t>()));
  }
  const auto found = tensor_members().find(name);
  if (found == tensor_members().end()) throw Error(ErrorCode::gap, fmt::format("a tensor has no member {}", name));
  return found->second(x, arguments);
}

Value call_of_weights(const Weights& w, const std::string& name, Arguments arguments) {
  const auto first = arguments.next<std::string>();
  if (name == "tied") return w.tied(first, arguments.last<std::string>());
  arguments.done();
  if (name == "get") return w.get(first);
  if (name == "state") return std::make_shared<const front::State>(w.state(first));
  throw Error(ErrorCode::gap, fmt::format("weights have no member {}", name));
}

Value call_of_rows(const front::CacheRows& rows, const std::string& name, Arguments arguments) {
  const Tensor given = arguments.next<Tensor>();
  const int64_t axis = arguments.last_or<int64_t>(-2);
  if (name == "append") return rows.append(given, axis);
  if (name == "last") return rows.last(given, axis);
  throw Error(ErrorCode::gap, fmt::format("rows of a cache have no member {}", name));
}

// ---- operators

template <class T> Value computed(const std::string& sign, const T& a, const T& b) {
  if (sign == "+") return a + b;
  if (sign == "-") return a - b;
  if (sign == "*") return a * b;
  if constexpr (std::is_same_v<T, Dim>) {
    if (sign == "%") return a % b;
  }
  if constexpr (std::is_same_v<T, Dim> || std::is_same_v<T, front::DimReal>) {
    if (sign == "/") return a / b;
  } else if (sign == "/" && b != T(0)) {
    return a / b;
  }
  throw Error(ErrorCode::gap, fmt::format("{} of two numbers is not supported", sign));
}

Weights inner(const Weights& w, const Value& name) {
  if (const int64_t* index = name.as<int64_t>()) return w / *index;
  return w / std::string_view(to<std::string>(name));
}

}  // namespace

Value prefix(const std::string& sign, const Value& of) {
  if (of.is_tensor()) return sign == "-" ? -to<Tensor>(of) : ~to<Tensor>(of);
  if (sign == "-") {
    if (const int64_t* n = of.as<int64_t>()) return *n == std::numeric_limits<int64_t>::min() ? *n : -*n;
    if (const double* x = of.as<double>()) return -*x;
    if (const Dim* d = of.as<Dim>()) return -*d;
    if (const front::DimReal* d = of.as<front::DimReal>()) return -*d;
  }
  cannot_be(of, "a number or a tensor");
}

Value infix(const std::string& sign, const Value& left, const Value& right) {
  static const std::map<std::string, const char*> ops = [] {
    std::map<std::string, const char*> found;
    for (const auto& op : catalogue().all()) {
      if (op->cpp.kind == CppForm::Kind::infix) found.emplace(op->cpp.text, op->name.c_str());
    }
    return found;
  }();
  if (left.is_tensor() || right.is_tensor()) return elementwise(ops.at(sign), {left, right});
  if (const Weights* w = left.as<Weights>(); w && sign == "/") return inner(*w, right);
  if (left.as<std::string>() && sign == "+") return to<std::string>(left) + to<std::string>(right);
  if (left.as<int64_t>() && right.as<int64_t>()) return computed(sign, to<int64_t>(left), to<int64_t>(right));
  if (left.is_size() && right.is_size()) return computed(sign, to<Dim>(left), to<Dim>(right));
  const bool has_size = left.as<Dim>() || right.as<Dim>() || left.as<front::DimReal>() || right.as<front::DimReal>();
  if (has_size) return computed(sign, to<front::DimReal>(left), to<front::DimReal>(right));
  return computed(sign, to<double>(left), to<double>(right));
}

Value call_member(const Value& object, const std::string& name, const std::string& types, const List& arguments) {
  if (object.is_tensor()) return call_of_tensor(to<Tensor>(object), name, types, Arguments(name, arguments));
  if (const Weights* w = object.as<Weights>()) return call_of_weights(*w, name, Arguments(name, arguments));
  if (const auto* rows = object.as<front::CacheRows>()) return call_of_rows(*rows, name, Arguments(name, arguments));
  if (object.list() && name == "size") return static_cast<int64_t>(object.list()->size());
  throw Error(ErrorCode::gap, fmt::format("{} has no member {}", object.kind(), name));
}

std::optional<Value> call_free(const std::string& name, const std::string& types, const List& arguments) {
  constexpr std::string_view kFunctional = "functional::";
  if (name.starts_with(kFunctional)) return call_functional(name.substr(kFunctional.size()), arguments);
  if (name == "unpack") return unpacked(types, Arguments(name, arguments).last<Tensors>());
  const auto found = free_functions().find(name);
  if (found == free_functions().end()) return {};
  return found->second(Arguments(found->first, arguments));
}

}  // namespace pycandle::emit::proof
