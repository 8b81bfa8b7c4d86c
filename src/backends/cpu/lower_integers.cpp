// Arithmetic of positions: i64 elementwise, with its comparisons and conversions, and running sums. It is little work; a step of
// its own keeps it from the evaluator, which allocates.
#include <algorithm>
#include <functional>

#include "backends/cpu/lowerings.h"

namespace pycandle::cpu {
namespace {

using Loop = void (*)(const std::byte* a, int64_t a_step, const std::byte* b, int64_t b_step, std::byte* out, int64_t n);

template <class From, class To, class Function>
void loop(const std::byte* a, int64_t a_step, const std::byte* b, int64_t b_step, std::byte* out, int64_t n) {
  const auto *x = reinterpret_cast<const From*>(a), *y = reinterpret_cast<const From*>(b);
  auto* to = reinterpret_cast<To*>(out);
  for (int64_t i = 0; i < n; ++i) to[i] = static_cast<To>(Function()(x[i * a_step], y[i * b_step]));
}

// Sums wrap around, as torch's do.
struct Add {
  int64_t operator()(int64_t a, int64_t b) const {
    return static_cast<int64_t>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b));
  }
};
struct Sub {
  int64_t operator()(int64_t a, int64_t b) const {
    return static_cast<int64_t>(static_cast<uint64_t>(a) - static_cast<uint64_t>(b));
  }
};
struct Mul {
  int64_t operator()(int64_t a, int64_t b) const {
    return static_cast<int64_t>(static_cast<uint64_t>(a) * static_cast<uint64_t>(b));
  }
};
struct Largest {
  int64_t operator()(int64_t a, int64_t b) const { return std::max(a, b); }
};
struct Smallest {
  int64_t operator()(int64_t a, int64_t b) const { return std::min(a, b); }
};
struct Itself {
  template <class T> T operator()(T a, T) const { return a; }
};
struct IsNotZero {
  bool operator()(int64_t a, int64_t) const { return a != 0; }
};

Loop arithmetic(std::string_view op) {
  if (op == "add") return loop<int64_t, int64_t, Add>;
  if (op == "sub") return loop<int64_t, int64_t, Sub>;
  if (op == "mul") return loop<int64_t, int64_t, Mul>;
  if (op == "maximum") return loop<int64_t, int64_t, Largest>;
  if (op == "minimum") return loop<int64_t, int64_t, Smallest>;
  return nullptr;
}

Loop comparison(std::string_view op) {
  if (op == "eq") return loop<int64_t, uint8_t, std::equal_to<>>;
  if (op == "ne") return loop<int64_t, uint8_t, std::not_equal_to<>>;
  if (op == "lt") return loop<int64_t, uint8_t, std::less<>>;
  if (op == "le") return loop<int64_t, uint8_t, std::less_equal<>>;
  if (op == "gt") return loop<int64_t, uint8_t, std::greater<>>;
  if (op == "ge") return loop<int64_t, uint8_t, std::greater_equal<>>;
  return nullptr;
}

Loop conversion(DType from, DType to) {
  if (from == DType::i64 && to == DType::f32) return loop<int64_t, float, Itself>;
  if (from == DType::i64 && to == DType::boolean) return loop<int64_t, uint8_t, IsNotZero>;
  if (from == DType::boolean && to == DType::i64) return loop<uint8_t, int64_t, Itself>;
  return nullptr;
}

// Operands of one shape by their strides: the last axis in a loop, those before it counted.
void add_loop(Planner& p, size_t index, Loop run) {
  const Node& node = p.node(index);
  const View a = p.view(node.operands[0]), b = p.view(node.operands.back()), out = p.result(node.results[0]);
  const int64_t inner = out.sizes.empty() ? 1 : out.sizes.back(), rows = inner == 0 ? 0 : out.count() / inner;
  Step step;
  step.reads = {a.buffer, b.buffer};
  step.writes = {out.buffer};
  step.kernel = "integers";
  step.work = static_cast<double>(out.count());
  step.run = [=](Context& c) {
    const auto size = static_cast<int64_t>(size_of(a.dtype)), out_size = static_cast<int64_t>(size_of(out.dtype));
    const auto step_of = [](const View& v) { return v.strides.empty() ? 0 : v.strides.back(); };
    for (int64_t row = 0; row < rows; ++row) {
      int64_t left = row, from_a = 0, from_b = 0;
      for (int64_t axis = out.rank() - 2; axis >= 0; --axis) {
        from_a += left % out.sizes[axis] * a.strides[axis];
        from_b += left % out.sizes[axis] * b.strides[axis];
        left /= out.sizes[axis];
      }
      run(c.pointer<std::byte>(a) + from_a * size, step_of(a), c.pointer<std::byte>(b) + from_b * size, step_of(b),
          c.pointer<std::byte>(out) + row * inner * out_size, inner);
    }
  };
  if (rows > 0) p.add(std::move(step));
  p.define(node.results[0], out);
}

// Positions that a model counts from its mask.
bool lower_running_sum(Planner& p, size_t index) {
  const Node& node = p.node(index);
  if (p.dtype(node.operands[0]) != DType::i64) return false;
  const auto axis = static_cast<size_t>(p.call(index).integer("axis"));
  const View x = p.view(node.operands[0]), out = p.result(node.results[0]);
  const int64_t length = out.sizes[axis], lanes = length == 0 ? 0 : out.count() / length;
  Step step;
  step.reads = {x.buffer};
  step.writes = {out.buffer};
  step.kernel = "integers";
  step.work = static_cast<double>(out.count());
  step.run = [=](Context& c) {
    for (int64_t lane = 0; lane < lanes; ++lane) {
      int64_t left = lane, from = 0, to = 0;
      for (size_t a = out.sizes.size(); a-- > 0;) {
        if (a == axis) continue;
        from += left % out.sizes[a] * x.strides[a];
        to += left % out.sizes[a] * out.strides[a];
        left /= out.sizes[a];
      }
      int64_t sum = 0;
      for (int64_t i = 0; i < length; ++i) {
        sum = Add()(sum, c.pointer<int64_t>(x)[from + i * x.strides[axis]]);
        c.pointer<int64_t>(out)[to + i * out.strides[axis]] = sum;
      }
    }
  };
  if (lanes > 0) p.add(std::move(step));
  p.define(node.results[0], out);
  return true;
}

}  // namespace

bool lower_integers(Planner& p, size_t index) {
  const Node& node = p.node(index);
  const DType from = p.dtype(node.operands[0]), to = p.dtype(node.results[0]);
  const std::string& op = node.op->name;
  if (from == DType::c64 || to == DType::c64) return lower_complex(p, index);
  Loop run = nullptr;
  if (op == "cast") {
    run = conversion(from, to);
  } else if (from == DType::i64) {
    run = to == DType::boolean ? comparison(op) : arithmetic(op);
  }
  const Sizes sizes = p.sizes(node.results[0]);
  for (const ValueId v : node.operands) {
    if (p.sizes(v) != sizes) return false;
  }
  if (!run) return false;
  add_loop(p, index, run);
  return true;
}

std::vector<Lowering> integer_lowerings() {
  std::vector<Lowering> all;
  for (const char* op : {"add", "sub", "mul", "maximum", "minimum", "eq", "ne", "lt", "le", "gt", "ge"})
    all.push_back({op, nullptr, lower_integers});
  all.push_back({"cumsum", nullptr, lower_running_sum});
  return all;
}

}  // namespace pycandle::cpu
