// Pooling over the last axes: maximum and average, sliding and adaptive, in one, two and three dimensions.
#include "ir/layer.h"
#include "ir/mistakes.h"
#include "ops/core/functional_helpers.h"

namespace pycandle {
namespace {

size_t leading(const Call& c, size_t n) { return c.shape("x").size() - n; }
std::string dimensions(size_t n) { return std::to_string(n) + "d"; }

bool one_per_axis(const Call& c, size_t n, std::initializer_list<const char*> names) {
  return std::all_of(names.begin(), names.end(), [&](const char* name) { return c.integers(name).size() == n; });
}

// torch's rule. With ceil_mode a window may start anywhere before the end of the input and its low padding.
Dim pooled_size(const Call& c, size_t i, Dim size, int64_t dilation) {
  const int64_t kernel = c.integers("kernel_size")[i], stride = c.integers("stride")[i], padding = c.integers("padding")[i];
  const Dim room = size + Dim(2 * padding - dilation * (kernel - 1) - 1);
  if (!c.boolean("ceil_mode")) return floordiv(room, stride) + 1;
  return min(floordiv(room + Dim(stride - 1), stride), floordiv(size + Dim(padding - 1), stride)) + 1;
}

Type pooled_type(const Call& c, size_t n, const Ints& dilation) {
  Type y = c.type("x");
  for (size_t i = 0; i < n; ++i) y.shape[leading(c, n) + i] = pooled_size(c, i, y.shape[leading(c, n) + i], dilation[i]);
  return y;
}

// A window primitive over x, cut to the pooled size: with ceil_mode a whole stride of padding is put at the end first.
ValueId windows(Builder& b, const Call& c, size_t n, const char* op, ValueId x, const Ints& dilation, const char* kind) {
  const Shape wanted = pooled_type(c, n, dilation).shape;
  Ints high = c.integers("padding");
  for (size_t i = 0; c.boolean("ceil_mode") && i < n; ++i) high[i] += c.integers("stride")[i] - 1;
  Attributes attributes{{"window", c.integers("kernel_size")},
                        {"strides", c.integers("stride")},
                        {"dilation", dilation},
                        {"padding_low", c.integers("padding")},
                        {"padding_high", high}};
  if (kind != nullptr) attributes.emplace_back("kind", std::string(kind));
  ValueId y = b.create(op, {x}, std::move(attributes));
  for (size_t axis = wanted.size() - n; axis < wanted.size(); ++axis) y = b.slice(y, static_cast<int64_t>(axis), 0, wanted[axis]);
  return y;
}

// The attributes that all sliding pools have; a stride that is left out is the kernel's size.
Attributes sliding_attributes(AtenCall& a, size_t n) {
  const Ints kernel = per_axis(a.integers("kernel_size"), n), stride = per_axis(a.integers("stride"), n);
  return {{"kernel_size", kernel},
          {"stride", stride.empty() ? kernel : stride},
          {"padding", per_axis(a.integers("padding"), n)},
          {"ceil_mode", a.boolean("ceil_mode")}};
}

OpDef sliding_pool(const std::string& name, size_t n) {
  return functional(name)
      .operands("x")
      .attributes(attr<Ints>("kernel_size"), attr<Ints>("stride"), attr<Ints>("padding", Ints(n, 0)),
                  attr<bool>("ceil_mode", false))
      .constraint(name + "_c1", "x has channels and positions, with or without a batch",
                  [n](const Call& c) { return c.shape("x").size() == n + 1 || c.shape("x").size() == n + 2; })
      .constraint(name + "_c2", "kernel_size, stride and padding have one entry a position axis",
                  [n](const Call& c) { return one_per_axis(c, n, {"kernel_size", "stride", "padding"}); })
      .constraint(name + "_c3", "padding is at most half of kernel_size",
                  [n](const Call& c) {
                    for (size_t i = 0; i < n; ++i) {
                      if (c.integers("padding")[i] < 0 || c.integers("padding")[i] > c.integers("kernel_size")[i] / 2)
                        return false;
                    }
                    return true;
                  })
      .constraint(
          name + "_c4", "kernel_size and stride are positive",
          [](const Call& c) { return positive_and_sane(c.integers("kernel_size")) && positive_and_sane(c.integers("stride")); })
      .constraint(name + "_c6", "only the batch may be empty", [n](const Call& c) {
        const Shape& x = c.shape("x");
        return std::none_of(x.begin() + (x.size() == n + 2 ? 1 : 0), x.end(), [](Dim d) { return d == Dim(0); });
      });
}

// The constraint that comes last: it needs all that the sizes are made of.
constexpr const char* kRoom = "a window fits into each position axis";
std::function<bool(const Call&)> has_room(size_t n, bool is_dilated) {
  return [n, is_dilated](const Call& c) {
    const Shape y = pooled_type(c, n, is_dilated ? c.integers("dilation") : Ints(n, 1)).shape;
    return std::none_of(y.end() - static_cast<std::ptrdiff_t>(n), y.end(),
                        [](Dim d) { return d.is_number() && d.number() <= 0; });
  };
}

// What max pools have beside.
OpDef dilated_pool(const std::string& name, size_t n) {
  return sliding_pool(name, n)
      .attributes(attr<Ints>("dilation", Ints(n, 1)))
      .constraint(name + "_c5", "dilation is positive, one entry a position axis",
                  [n](const Call& c) { return c.integers("dilation").size() == n && positive_and_sane(c.integers("dilation")); })
      .constraint(name + "_c7", kRoom, has_room(n, true));
}

std::function<Values(AtenCall&)> build_max_pool(const std::string& name, size_t n) {
  return [name, n](AtenCall& a) {
    Attributes attributes = sliding_attributes(a, n);
    attributes.emplace_back("dilation", per_axis(a.integers("dilation"), n));
    return a.b.create_all(name, {a.tensor("self")}, std::move(attributes));
  };
}

// ---- modules, and what people get wrong

LayerArguments max_pool_arguments(const LayerCall& l) {
  const Attribute kernel = one_number(l.attribute("kernel_size"));
  return {{required("kernel_size", kernel), option("stride", one_number(l.attribute("stride")), kernel),
           option("padding", one_number(l.attribute("padding")), int64_t{0}),
           option("dilation", one_number(l.attribute("dilation")), int64_t{1}),
           option("ceil_mode", l.attribute("ceil_mode"), false)}};
}

LayerArguments avg_pool_arguments(const LayerCall& l) {
  const Attribute kernel = one_number(l.attribute("kernel_size"));
  return {{required("kernel_size", kernel), option("stride", one_number(l.attribute("stride")), kernel),
           option("padding", one_number(l.attribute("padding")), int64_t{0}),
           option("ceil_mode", l.attribute("ceil_mode"), false),
           option("count_include_pad", l.attribute("count_include_pad"), true),
           option("divisor_override", l.attribute("divisor_override"), Attribute{})}};
}

LayerArguments adaptive_pool_arguments(const LayerCall& l) {
  const Attribute size = one_number_of_dims(l.attribute("output_size"));
  if (std::holds_alternative<std::monostate>(size)) return {};
  return {{required("output_size", size)}};
}

// Max pooling in place of average pooling, and the other way round, with the attributes that both have.
std::function<void(Mistakes&)> other_pool(std::string other, std::vector<std::string> attributes) {
  return [other = std::move(other), attributes = std::move(attributes)](Mistakes& m) {
    Attributes shared;
    for (const std::string& name : attributes) shared.emplace_back(name, m.call().attribute(name));
    m.other_op("pool kind", other, shared);
  };
}
const std::vector<std::string> kSliding{"kernel_size", "stride", "padding", "ceil_mode"};
void other_ceil_mode(Mistakes& m) { m.flag("ceil mode", "ceil_mode", "ceil_mode", "no ceil_mode"); }
void other_count(Mistakes& m) { m.flag("count include pad", "count_include_pad", "padding counted", "padding not counted"); }

// ---- the ops

OpDef max_pool(size_t n) {
  const std::string name = "max_pool" + dimensions(n);
  return dilated_pool(name, n)
      .doc("the largest element of each window")
      .infer([n](const Call& c) { return pooled_type(c, n, c.integers("dilation")); })
      .decompose([n](Builder& b, const Call& c) {
        return windows(b, c, n, "reduce_window", c.value("x"), c.integers("dilation"), "max");
      })
      .from_aten_call("aten." + name + ".default", build_max_pool(name, n))
      .spelled_torch("F." + name + "({x}, {kernel_size}, {stride}, {padding}, {dilation}, {ceil_mode})")
      .nn("MaxPool" + dimensions(n), max_pool_arguments)
      .member("pool")
      .called("max pooling")
      .mistakes(other_ceil_mode)
      .mistakes(other_pool("avg_pool" + dimensions(n), kSliding));
}

OpDef max_pool_with_indices(size_t n) {
  const std::string name = "max_pool" + dimensions(n) + "_with_indices";
  return dilated_pool(name, n)
      .doc("the largest element of each window, and where it stands")
      .infer_all([n](const Call& c) {
        const Type y = pooled_type(c, n, c.integers("dilation"));
        return std::vector<Type>{y, Type{DType::i64, y.shape}};
      })
      .decompose_all([n](Builder& b, const Call& c) {
        const ValueId y = windows(b, c, n, "reduce_window", c.value("x"), c.integers("dilation"), "max");
        return Values{y, windows(b, c, n, "window_argmax", c.value("x"), c.integers("dilation"), nullptr)};
      })
      .from_aten_call("aten." + name + ".default", build_max_pool(name, n));
}

// How many elements the windows along one axis count: [1, out, 1], say.
ValueId window_counts(Builder& b, const Call& c, size_t n, size_t i, Dim size, Dim out, DType dtype) {
  const int64_t kernel = c.integers("kernel_size")[i], stride = c.integers("stride")[i], padding = c.integers("padding")[i];
  const ValueId start = b.sub(b.mul(b.iota(out), static_cast<double>(stride)), static_cast<double>(padding));
  ValueId end = b.minimum(b.add(start, static_cast<double>(kernel)), b.dim_value(size + Dim(padding)));
  ValueId first = start;
  if (!c.boolean("count_include_pad")) {
    first = b.maximum(start, 0.0);
    end = b.minimum(end, b.dim_value(size));
  }
  return along_axis(b, b.cast(b.sub(end, first), dtype), static_cast<int64_t>(i), static_cast<int64_t>(n));
}

OpDef avg_pool(size_t n) {
  const std::string name = "avg_pool" + dimensions(n);
  return sliding_pool(name, n)
      .doc("the mean of each window; padding counts as zeros, or not at all")
      .attributes(attr<bool>("count_include_pad", true), optional_attr<int64_t>("divisor_override"))
      .constraint(name + "_c5", "divisor_override is not 0",
                  [](const Call& c) { return !c.has("divisor_override") || c.integer("divisor_override") != 0; })
      .constraint(name + "_c7", kRoom, has_room(n, false))
      .infer([n](const Call& c) { return pooled_type(c, n, Ints(n, 1)); })
      .decompose([n](Builder& b, const Call& c) {
        const Type type = c.type("x");
        ValueId sums = windows(b, c, n, "reduce_window", b.widened(c.value("x")), Ints(n, 1), "sum");
        const DType wide = b.dtype(sums);
        const bool ragged = c.boolean("ceil_mode") || (!c.boolean("count_include_pad") && c.integers("padding") != Ints(n, 0));
        // Integers are divided as torch divides them: toward zero.
        const auto divided = [&](ValueId count) { return b.binary(is_inexact(wide) ? "div" : "trunc_divide", sums, count); };
        if (c.has("divisor_override")) {
          sums = divided(b.full(c.integer("divisor_override"), wide));
        } else if (!ragged) {
          int64_t count = 1;
          for (const int64_t size : c.integers("kernel_size")) count *= size;
          sums = divided(b.full(count, wide));
        } else {
          const Shape pooled = b.shape(sums);
          ValueId counts = b.full(int64_t{1}, wide);
          for (size_t i = 0; i < n; ++i) {
            const size_t axis = pooled.size() - n + i;
            counts = b.mul(counts, window_counts(b, c, n, i, type.shape[axis], pooled[axis], wide));
          }
          sums = divided(counts);
        }
        return b.narrowed(sums, type.dtype);
      })
      .from_aten_call("aten." + name + ".default",
                      [name, n](AtenCall& a) {
                        Attributes attributes = sliding_attributes(a, n);
                        attributes.emplace_back("count_include_pad", a.boolean("count_include_pad"));
                        if (a.has_argument("divisor_override") && !a.is_none("divisor_override"))
                          attributes.emplace_back("divisor_override", a.integer("divisor_override"));
                        return a.b.create_all(name, {a.tensor("self")}, std::move(attributes));
                      })
      .spelled_torch("F." + name + "({x}, {kernel_size}, {stride}, {padding}, {ceil_mode}, {count_include_pad})",
                     [](const Call& c) { return !c.has("divisor_override"); })
      .nn("AvgPool" + dimensions(n), avg_pool_arguments)
      .member("pool")
      .called("average pooling")
      .mistakes(other_ceil_mode)
      .mistakes(other_count)
      .mistakes(other_pool("max_pool" + dimensions(n), kSliding));
}

OpDef adaptive_pool(const std::string& name, size_t n) {
  return functional(name)
      .operands("x")
      .attributes(attr<Dims>("output_size"))
      .constraint(name + "_c1",
                  "x has channels and positions, with or without a batch; output_size has one entry a position axis",
                  [n](const Call& c) {
                    return (c.shape("x").size() == n + 1 || c.shape("x").size() == n + 2) && c.dims("output_size").size() == n;
                  });
}

Type adaptive_type(const Call& c) {
  Type y = c.type("x");
  std::copy(c.dims("output_size").begin(), c.dims("output_size").end(),
            y.shape.end() - static_cast<std::ptrdiff_t>(c.dims("output_size").size()));
  return y;
}

Values build_adaptive(AtenCall& a, const std::string& name, size_t n) {
  Dims size = a.dims("output_size");
  if (size.size() == 1) size.resize(n, size[0]);
  return a.b.create_all(name, {a.tensor("self")}, {{"output_size", size}});
}

OpDef adaptive_avg_pool(size_t n) {
  const std::string name = "adaptive_avg_pool" + dimensions(n);
  OpDef def = adaptive_pool(name, n)
                  .doc("the mean of each of output_size cells that cover the positions evenly")
                  .infer(adaptive_type)
                  .decompose([n](Builder& b, const Call& c) {
                    const ValueId x = b.widened(c.value("x"));
                    const bool to_one = c.dims("output_size") == Dims(n, Dim(1));
                    const ValueId y = to_one ? b.mean(x, last_axes(b.rank(x), n))
                                             : b.create("adaptive_window", {x},
                                                        {{"kind", std::string("mean")}, {"output", c.dims("output_size")}});
                    return b.narrowed(y, c.type("x").dtype);
                  })
                  .from_aten_call("aten." + name + ".default", [name, n](AtenCall& a) { return build_adaptive(a, name, n); });
  if (n > 1) def.from_aten_call("aten._" + name + ".default", [name, n](AtenCall& a) { return build_adaptive(a, name, n); });
  return def.spelled_torch("F." + name + "({x}, {output_size})")
      .nn("AdaptiveAvgPool" + dimensions(n), adaptive_pool_arguments)
      .member("pool")
      .called("average pooling")
      .mistakes(other_pool("adaptive_max_pool" + dimensions(n), {"output_size"}));
}

OpDef adaptive_max_pool(size_t n) {
  const std::string name = "adaptive_max_pool" + dimensions(n);
  return adaptive_pool(name, n)
      .doc("the largest element of each of output_size cells that cover the positions evenly, and where it stands")
      .infer_all([](const Call& c) {
        const Type y = adaptive_type(c);
        return std::vector<Type>{y, Type{DType::i64, y.shape}};
      })
      .decompose_all([](Builder& b, const Call& c) {
        const Dims size = c.dims("output_size");
        const ValueId x = c.value("x");
        const ValueId y = b.create("adaptive_window", {x}, {{"kind", std::string("max")}, {"output", size}});
        return Values{y, b.create("adaptive_window_argmax", {x}, {{"output", size}})};
      })
      .from_aten_call("aten." + name + ".default", [name, n](AtenCall& a) { return build_adaptive(a, name, n); })
      .called("max pooling")
      .mistakes(other_pool("adaptive_avg_pool" + dimensions(n), {"output_size"}));
}

}  // namespace

std::vector<OpDef> pooling_ops() {
  return {max_pool(1).sample("F.max_pool1d(t(2, 3, 9), 3)").sample("F.max_pool1d(t(3, 10), 3, 2, 1, dilation=2, ceil_mode=True)"),
          max_pool(2)
              .sample("F.max_pool2d(t(2, 3, 9, 8), 3, 2, 1)")
              .sample("F.max_pool2d(t(3, 9, 8), (2, 3), ceil_mode=True)")
              .sample("F.max_pool2d(t(2, 3, 9, 8), (2, 3), (1, 2), (1, 0), (2, 1))")
              .sample("F.max_pool2d(i(2, 3, 9, 8, low=-9, high=9), 3, 2, 1)")
              .sample("F.max_pool2d(torch.where(m(2, 3, 9, 8), t(2, 3, 9, 8), float('nan')), 2)"),
          max_pool(3).sample("F.max_pool3d(t(2, 3, 5, 6, 7), 3, 2, 1, ceil_mode=True)"),
          max_pool_with_indices(1).sample("F.max_pool1d(t(2, 3, 9), 3, 2, 1, return_indices=True)"),
          max_pool_with_indices(2)
              .sample("F.max_pool2d(t(2, 3, 9, 8), 3, 2, 1, return_indices=True)")
              .sample("F.max_pool2d(i(2, 3, 9, 8, low=0, high=3), (2, 3), (1, 2), dilation=2, return_indices=True)"),
          max_pool_with_indices(3).sample("F.max_pool3d(t(2, 3, 5, 6, 7), 2, return_indices=True)"),
          avg_pool(1).sample("F.avg_pool1d(t(2, 3, 9), 3)").sample("F.avg_pool1d(t(3, 10), 3, 2, 1, True, False)"),
          avg_pool(2)
              .sample("F.avg_pool2d(t(2, 3, 9, 8), 3, 2, 1)")
              .sample("F.avg_pool2d(t(2, 3, 9, 8), 3, 2, 1, False, False)")
              .sample("F.avg_pool2d(t(2, 3, 9, 8), (2, 3), (2, 3), (1, 1), True, True)")
              .sample("F.avg_pool2d(t(2, 3, 9, 8), (4, 3), (3, 2), (2, 1), True, False)")
              .sample("F.avg_pool2d(t(3, 9, 8), 3, 2, 1, divisor_override=7)")
              .sample("F.avg_pool2d(t(2, 3, 10, 10), 2, 3, ceil_mode=True)"),
          avg_pool(3)
              .sample("F.avg_pool3d(t(2, 3, 5, 6, 7), 3, 2, 1, True, False)")
              .sample("F.avg_pool3d(t(2, 3, 5, 6, 7), (2, 3, 2), divisor_override=5)"),
          adaptive_avg_pool(1).sample("F.adaptive_avg_pool1d(t(2, 3, 10), 4)").sample("F.adaptive_avg_pool1d(t(3, 10), 1)"),
          adaptive_avg_pool(2)
              .sample("F.adaptive_avg_pool2d(t(2, 3, 9, 8), (4, 3))")
              .sample("F.adaptive_avg_pool2d(t(2, 3, 9, 8), 1)")
              .sample("F.adaptive_avg_pool2d(t(3, 9, 8), (None, 3))")
              .sample("F.adaptive_avg_pool2d(t(2, 3, 3, 4), (7, 7))"),
          adaptive_avg_pool(3).sample("F.adaptive_avg_pool3d(t(2, 3, 5, 6, 7), (2, 3, 4))"),
          adaptive_max_pool(1).sample("F.adaptive_max_pool1d(t(2, 3, 10), 4, return_indices=True)"),
          adaptive_max_pool(2)
              .sample("F.adaptive_max_pool2d(t(2, 3, 9, 8), (4, 3), return_indices=True)")
              .sample("F.adaptive_max_pool2d(t(3, 9, 8), 1)"),
          adaptive_max_pool(3).sample("F.adaptive_max_pool3d(t(2, 3, 5, 6, 7), (2, 3, 4), return_indices=True)")};
}

}  // namespace pycandle
