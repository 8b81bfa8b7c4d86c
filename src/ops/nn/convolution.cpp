// torch's convolutions in one, two and three dimensions, and the transposed ones, over the primitive convolution.
#include <fmt/format.h>

#include <algorithm>

#include "ir/layer.h"
#include "ir/mistakes.h"
#include "ops/core/functional_helpers.h"

namespace pycandle {
namespace {

Dim total_padding(const Call& c, size_t i, Dim kernel) {
  return c.boolean("same") ? Dim(c.integers("dilation")[i]) * (kernel - 1) : Dim(2 * c.integers("padding")[i]);
}

// [N, C, …] or [C, …]: how many axes stand before the positions.
size_t leading(const Call& c, size_t n) { return c.shape("x").size() - n; }

int64_t kernel_size(const Call& c, size_t i) {
  const auto size = c.shape("weight")[i + 2].maybe_number();
  if (!size)
    throw Error(ErrorCode::gap, "a convolution whose kernel has a symbolic size is not supported")
        .op(c.op().name)
        .found(c.type("weight").text());
  return *size;
}

bool has_batch_or_none(const Call& c, size_t n) { return c.shape("x").size() == n + 1 || c.shape("x").size() == n + 2; }
bool one_per_position(const Call& c, size_t n, std::initializer_list<const char*> names) {
  return std::all_of(names.begin(), names.end(), [&](const char* name) { return c.integers(name).size() == n; });
}
bool one_dtype(const Call& c) {
  const DType d = c.type("x").dtype;
  return c.type("weight").dtype == d && (!c.has("bias") || c.type("bias").dtype == d);
}

// Runs `product` on the batched x and adds the bias before the one rounding, as torch's kernels do.
ValueId with_bias_and_batch(Builder& b, const Call& c, size_t n,
                            const std::function<ValueId(ValueId x, ValueId weight)>& product) {
  const DType dtype = c.type("x").dtype;
  const bool unbatched = leading(c, n) == 1;
  ValueId x = c.value("x"), weight = c.value("weight");
  if (unbatched) x = b.unsqueeze(x, 0);
  ValueId y;
  if (c.has("bias")) {
    y = product(b.widened(x), b.widened(weight));
    y = b.narrowed(b.add(y, along_axis(b, b.widened(c.value("bias")), 1, b.rank(y))), dtype);
  } else {
    y = product(x, weight);
  }
  return unbatched ? b.squeeze(y, 0) : y;
}

Attributes convolution_attributes(Ints strides, Ints low, Ints high, Ints dilation, Ints input_dilation, int64_t groups) {
  return {{"strides", std::move(strides)},
          {"padding_low", std::move(low)},
          {"padding_high", std::move(high)},
          {"dilation", std::move(dilation)},
          {"input_dilation", std::move(input_dilation)},
          {"groups", groups}};
}

ValueId or_none(AtenCall& a, const char* name) { return a.maybe_tensor(name).value_or(kNoValue); }

LayerArguments convolution_arguments(const LayerCall& l) {
  if (!l.is_own("weight") || !l.is_own_or_absent("bias")) return {};
  const Call& c = l.call();
  const bool transposed = c.op().attribute_index("output_padding") >= 0;
  Ints kernel;
  for (size_t axis = 2; axis < c.shape("weight").size(); ++axis) kernel.push_back(l.size("weight", axis));
  const int64_t groups = c.integer("groups"), first = l.size("weight", 0), second = l.size("weight", 1) * groups;
  std::vector<LayerArgument> found{
      required("in_channels", transposed ? first : second), required("out_channels", transposed ? second : first),
      required("kernel_size", one_number(kernel)), option("stride", one_number(l.attribute("stride")), int64_t{1}),
      option("padding", one_number(l.attribute("padding")), int64_t{0})};
  if (transposed) found.push_back(option("output_padding", one_number(l.attribute("output_padding")), int64_t{0}));
  found.push_back(option("dilation", one_number(l.attribute("dilation")), int64_t{1}));
  found.push_back(option("groups", groups, int64_t{1}));
  found.push_back(option("bias", !l.absent("bias"), true));
  if (!transposed) found.push_back(option("same", l.attribute("same"), false));
  return found;
}

// ---- what people get wrong

// With the padding that keeps the size.
void other_dilation(Mistakes& m) {
  const Ints &dilation = m.call().integers("dilation"), &padding = m.call().integers("padding");
  const int64_t now = dilation.empty() ? 1 : dilation[0];
  if (!std::all_of(dilation.begin(), dilation.end(), [&](int64_t d) { return d == now; })) return;
  for (const int64_t other : {1, 2, 3, 4}) {
    if (other == now || std::any_of(padding.begin(), padding.end(), [&](int64_t p) { return p * other % now != 0; })) continue;
    Ints kept = padding;
    for (int64_t& p : kept) p = p * other / now;
    m.attributes("dilation", {{"dilation", Ints(dilation.size(), other)}, {"padding", kept}},
                 fmt::format("a dilation of {}", now), fmt::format("a dilation of {}", other));
  }
}

// The same padding by another op, or shifted to one side.
void other_paddings(Mistakes& m) {
  const Ints padding = m.call().integers("padding");
  const auto with_padding = [&](const char* kind, const char* now, const char* instead, const char* op, int64_t shift) {
    m.build(kind, now, instead, [padding, op, shift](const MistakeSite& site) {
      const ValueId x = site.operand("x");
      Dims low(site.b.rank(x) - padding.size(), Dim(0)), high = low;
      for (const int64_t p : padding) {
        low.push_back(Dim(p + shift));
        high.push_back(Dim(p - shift));
      }
      Attributes attributes{{"low", low}, {"high", high}};
      if (std::string_view(op) == "pad") attributes.emplace_back("value", 0.0);
      return site.same(site.with_operand("x", site.b.create(op, {x}, attributes)),
                       changed(site.node.attributes, {{"padding", Ints(padding.size(), 0)}}));
    });
  };
  with_padding("padding mode", "padding with zeros", "padding by reflection", "reflection_pad", 0);
  with_padding("padding mode", "padding with zeros", "padding by the nearest", "replication_pad", 0);
  with_padding("padding mode", "padding with zeros", "circular padding", "circular_pad", 0);
  with_padding("padding side", "padding on both sides", "the padding one to the front", "pad", 1);
  with_padding("padding side", "padding on both sides", "the padding one to the back", "pad", -1);
}

void convolution_mistakes(Mistakes& m) {
  const Call& c = m.call();
  m.without("missing bias", "bias", "bias");
  const auto n = static_cast<int64_t>(c.integers("stride").size());
  const Shape& weight = c.shape("weight");
  if (n == 2 && m.size(weight[2]) == m.size(weight[3]))
    m.operand("transposed weight", "weight", "the kernel", "the kernel transposed",
              [](Builder& b, ValueId w) { return b.swap_axes(w, -2, -1); });
  m.operand("flipped kernel", "weight", "the kernel", "the kernel flipped", [n](Builder& b, ValueId w) {
    Ints axes;
    for (int64_t i = 0; i < n; ++i) axes.push_back(b.rank(w) - 1 - i);
    return b.reverse(w, axes);
  });
  for (int64_t i = 0; i < n && n > 1; ++i) {
    m.operand("flipped kernel", "weight", "the kernel", fmt::format("the kernel flipped on its axis {}", i + 2),
              [i](Builder& b, ValueId w) { return b.reverse(w, {i + 2}); });
  }
  if (c.integer("groups") == 1) {
    m.operand("channel order", "x", "its channels in order", "its channels in reverse",
              [](Builder& b, ValueId x) { return b.reverse(x, {1}); });
    m.result("channel order", "its channels in order", "the channels of its result in reverse",
             [](Builder& b, ValueId y) { return b.reverse(y, {1}); });
  }
  other_dilation(m);
  const bool transposed = c.op().attribute_index("output_padding") >= 0;
  const Ints& padding = c.integers("padding");
  const bool pads = std::any_of(padding.begin(), padding.end(), [](int64_t p) { return p > 0; });
  if (!transposed && pads && !c.boolean("same")) other_paddings(m);
  if (!transposed) m.narrow_operands();
}

// ---- the ops

OpDef convolution(size_t n) {
  const std::string name = "conv" + std::to_string(n) + "d";
  const auto build = [name, n](AtenCall& a) {
    return a.b.create_all(name, {a.tensor("input"), a.tensor("weight"), or_none(a, "bias")},
                          {{"stride", per_axis(a.integers("stride"), n)},
                           {"padding", per_axis(a.integers("padding"), n)},
                           {"dilation", per_axis(a.integers("dilation"), n)},
                           {"groups", a.integer("groups")}});
  };
  const auto build_by_name = [name, n](AtenCall& a) {
    const std::string padding = a.string("padding");
    if (padding != "same" && padding != "valid") a.unsupported("padding='" + padding + "'");
    return a.b.create_all(name, {a.tensor("input"), a.tensor("weight"), or_none(a, "bias")},
                          {{"stride", per_axis(a.integers("stride"), n)},
                           {"padding", Ints(n, 0)},
                           {"dilation", per_axis(a.integers("dilation"), n)},
                           {"groups", a.integer("groups")},
                           {"same", padding == "same"}});
  };
  return functional(name)
      .doc("convolution of [N, C, positions…] (or [C, positions…]) with [O, C / groups, kernel…]")
      .operands("x", "weight", optional("bias"))
      .attributes(attr<Ints>("stride", Ints(n, 1)), attr<Ints>("padding", Ints(n, 0)), attr<Ints>("dilation", Ints(n, 1)),
                  attr<int64_t>("groups", int64_t{1}), attr<bool>("same", false))
      .constraint(name + "_c1", "x has channels and positions, with or without a batch; weight has two axes more than positions",
                  [n](const Call& c) { return has_batch_or_none(c, n) && c.shape("weight").size() == n + 2; })
      .constraint(name + "_c2", "the channels of x are those of weight times groups",
                  [n](const Call& c) {
                    return c.integer("groups") > 0 &&
                           c.agree(c.shape("x")[leading(c, n) - 1], c.shape("weight")[1] * Dim(c.integer("groups")));
                  })
      .constraint(
          name + "_c3",
          "stride, padding and dilation have one entry a position axis; stride and dilation are positive, padding not negative",
          [n](const Call& c) {
            return one_per_position(c, n, {"stride", "padding", "dilation"}) && positive_and_sane(c.integers("stride")) &&
                   positive_and_sane(c.integers("dilation")) && all_at_least(c.integers("padding"), 0);
          })
      .constraint(name + "_c4", "padding that keeps the size needs a stride of 1",
                  [n](const Call& c) { return !c.boolean("same") || c.integers("stride") == Ints(n, 1); })
      .constraint(name + "_c5", "x, weight and bias have one dtype", one_dtype)
      .infer([n](const Call& c) {
        Type y = c.type("x");
        y.shape[leading(c, n) - 1] = c.shape("weight")[0];
        for (size_t i = 0; i < n; ++i) {
          Dim& size = y.shape[leading(c, n) + i];
          const Dim kernel = c.shape("weight")[i + 2];
          size = floordiv(size + total_padding(c, i, kernel) - Dim(c.integers("dilation")[i]) * (kernel - 1) - 1,
                          Dim(c.integers("stride")[i])) +
                 1;
        }
        return y;
      })
      .decompose([n](Builder& b, const Call& c) {
        Ints low = c.integers("padding"), high = low;
        for (size_t i = 0; c.boolean("same") && i < n; ++i) {
          const int64_t total = c.integers("dilation")[i] * (kernel_size(c, i) - 1);
          low[i] = total / 2;  // the odd one goes to the end
          high[i] = total - low[i];
        }
        return with_bias_and_batch(b, c, n, [&](ValueId x, ValueId weight) {
          return b.create(
              "convolution", {x, weight},
              convolution_attributes(c.integers("stride"), low, high, c.integers("dilation"), Ints(n, 1), c.integer("groups")));
        });
      })
      .from_aten_call("aten." + name + ".default", build)
      .from_aten_call("aten." + name + ".padding", build_by_name)
      .spelled_torch("F." + name + "({x}, {weight}, {bias}, {stride}, {padding}, {dilation}, {groups})",
                     [](const Call& c) { return !c.boolean("same"); })
      .nn("Conv" + std::to_string(n) + "d", convolution_arguments)
      .member("conv")
      .mistakes(convolution_mistakes);
}

// Without oneDNN (in f16, and in bf16 on older processors) torch computes what each place of the kernel gives, rounds that, and
// adds one place after another to the result, which rounds too.
ValueId place_by_place(Builder& b, const Call& c, size_t n) {
  constexpr int64_t kMostPlaces = 256;
  Sizes kernel;
  for (size_t i = 0; i < n; ++i) kernel.push_back(kernel_size(c, i));
  const int64_t places = element_count(kernel);
  if (places > kMostPlaces) throw Error(ErrorCode::gap, "too many places of the kernel to add one by one");
  const bool unbatched = leading(c, n) == 1;
  const ValueId x = unbatched ? b.unsqueeze(c.value("x"), 0) : c.value("x");
  ValueId sum = kNoValue;
  for (int64_t place = 0; place < places; ++place) {
    Sizes at(n);
    for (int64_t i = static_cast<int64_t>(n), rest = place; i-- > 0; rest /= kernel[i]) at[i] = rest % kernel[i];
    Dims low(2, Dim(0)), high(2, Dim(0));
    ValueId weight = c.value("weight");
    for (size_t i = 0; i < n; ++i) {
      const int64_t dilation = c.integers("dilation")[i];
      weight = b.slice(weight, static_cast<int64_t>(i) + 2, at[i], at[i] + 1);
      low.emplace_back(at[i] * dilation);
      high.emplace_back((kernel[i] - 1 - at[i]) * dilation + c.integers("output_padding")[i]);
    }
    const ValueId part = b.create(c.op().name, {x, weight}, {{"stride", c.integers("stride")}, {"groups", c.integer("groups")}});
    const ValueId placed = b.pad(part, low, high, 0.0);
    sum = sum == kNoValue ? placed : b.add(sum, placed);
  }
  for (size_t i = 0; i < n; ++i) {
    const int64_t padding = c.integers("padding")[i], axis = static_cast<int64_t>(i) + 2;
    sum = b.slice(sum, axis, padding, b.shape(sum)[i + 2] - Dim(padding));
  }
  if (c.has("bias")) sum = b.add(sum, along_axis(b, c.value("bias"), 1, b.rank(sum)));
  return unbatched ? b.squeeze(sum, 0) : sum;
}

OpDef transposed_convolution(size_t n) {
  const std::string name = "conv_transpose" + std::to_string(n) + "d";
  const auto build = [name, n](AtenCall& a) {
    return a.b.create_all(name, {a.tensor("input"), a.tensor("weight"), or_none(a, "bias")},
                          {{"stride", per_axis(a.integers("stride"), n)},
                           {"padding", per_axis(a.integers("padding"), n)},
                           {"output_padding", per_axis(a.integers("output_padding"), n)},
                           {"dilation", per_axis(a.integers("dilation"), n)},
                           {"groups", a.integer("groups")}});
  };
  return functional(name)
      .doc("transposed convolution of [N, C, positions…] (or [C, positions…]) with [C, O / groups, kernel…]")
      .operands("x", "weight", optional("bias"))
      .attributes(attr<Ints>("stride", Ints(n, 1)), attr<Ints>("padding", Ints(n, 0)), attr<Ints>("output_padding", Ints(n, 0)),
                  attr<Ints>("dilation", Ints(n, 1)), attr<int64_t>("groups", int64_t{1}))
      .constraint(name + "_c1", "x has channels and positions, with or without a batch; weight has two axes more than positions",
                  [n](const Call& c) { return has_batch_or_none(c, n) && c.shape("weight").size() == n + 2; })
      .constraint(name + "_c2", "the channels of x are the first dim of weight, and groups divides them",
                  [n](const Call& c) {
                    const Dim channels = c.shape("weight")[0];
                    return c.integer("groups") > 0 && c.agree(c.shape("x")[leading(c, n) - 1], channels) &&
                           c.agree(mod(channels, Dim(c.integer("groups"))), Dim(0));
                  })
      .constraint(name + "_c3",
                  "stride, padding, output_padding and dilation have one entry a position axis; stride and dilation are "
                  "positive, padding "
                  "not negative",
                  [n](const Call& c) {
                    return one_per_position(c, n, {"stride", "padding", "output_padding", "dilation"}) &&
                           positive_and_sane(c.integers("stride")) && positive_and_sane(c.integers("dilation")) &&
                           all_at_least(c.integers("padding"), 0);
                  })
      .constraint(name + "_c4", "x, weight and bias have one dtype", one_dtype)
      .infer([n](const Call& c) {
        Type y = c.type("x");
        y.shape[leading(c, n) - 1] = c.shape("weight")[1] * Dim(c.integer("groups"));
        for (size_t i = 0; i < n; ++i) {
          Dim& size = y.shape[leading(c, n) + i];
          size = (size - 1) * Dim(c.integers("stride")[i]) - Dim(2 * c.integers("padding")[i]) +
                 Dim(c.integers("dilation")[i]) * (c.shape("weight")[i + 2] - 1) + Dim(c.integers("output_padding")[i] + 1);
        }
        return y;
      })
      .decompose([n](Builder& b, const Call& c) {
        // A convolution of x, spread out by the stride, with the kernel reversed and its channel axes exchanged.
        const Dim groups = c.integer("groups");
        const auto prepared = [&](ValueId weight) {
          const Shape shape = b.shape(weight);
          Shape grouped{groups, floordiv(shape[0], groups), shape[1]}, flat{shape[1] * groups, floordiv(shape[0], groups)};
          grouped.insert(grouped.end(), shape.begin() + 2, shape.end());
          flat.insert(flat.end(), shape.begin() + 2, shape.end());
          return b.reshape(b.swap_axes(b.reshape(b.reverse(weight, axes_between(2, b.rank(weight))), grouped), 1, 2), flat);
        };
        // Padding beyond the kernel's reach cuts the result instead.
        Ints low(n), high(n), cut_low(n), cut_high(n);
        for (size_t i = 0; i < n; ++i) {
          const int64_t before = c.integers("dilation")[i] * (kernel_size(c, i) - 1) - c.integers("padding")[i];
          const int64_t after = before + c.integers("output_padding")[i];
          low[i] = std::max<int64_t>(before, 0);
          high[i] = std::max<int64_t>(after, 0);
          cut_low[i] = low[i] - before;
          cut_high[i] = high[i] - after;
        }
        return with_bias_and_batch(b, c, n, [&](ValueId x, ValueId weight) {
          ValueId y = b.create(
              "convolution", {x, prepared(weight)},
              convolution_attributes(Ints(n, 1), low, high, c.integers("dilation"), c.integers("stride"), c.integer("groups")));
          for (size_t i = 0; i < n; ++i)
            y = b.slice(y, static_cast<int64_t>(i) + 2, cut_low[i], b.shape(y)[i + 2] - Dim(cut_high[i]));
          return y;
        });
      })
      .one_kernel()
      .also_written_as([n](Builder& b, const Call& c) { return place_by_place(b, c, n); })
      .from_aten_call("aten." + name + (n == 1 ? ".default" : ".input"), build)
      .spelled_torch("F." + name + "({x}, {weight}, {bias}, {stride}, {padding}, {output_padding}, {groups}, {dilation})")
      .nn("ConvTranspose" + std::to_string(n) + "d", convolution_arguments)
      .member("conv")
      .mistakes(convolution_mistakes);
}

// aten.convolution is every one of them.
Values any_convolution(AtenCall& a) {
  const ValueId weight = a.tensor("weight");
  const size_t n = a.b.rank(weight) - 2;
  if (n < 1 || n > 3) a.unsupported(std::to_string(n) + " position axes");
  const bool transposed = a.boolean("transposed");
  Attributes attributes{{"stride", per_axis(a.integers("stride"), n)},
                        {"padding", per_axis(a.integers("padding"), n)},
                        {"dilation", per_axis(a.integers("dilation"), n)},
                        {"groups", a.integer("groups")}};
  if (transposed) {
    attributes.emplace_back("output_padding", per_axis(a.integers("output_padding"), n));
  } else {
    a.discard("output_padding", "only of transposed convolutions");
  }
  return a.b.create_all((transposed ? "conv_transpose" : "conv") + std::to_string(n) + "d",
                        {a.tensor("input"), weight, or_none(a, "bias")}, std::move(attributes));
}

}  // namespace

std::vector<OpDef> convolution_ops() {
  return {convolution(1)
              .one_kernel()
              .sample("F.conv1d(t(2, 4, 9), t(6, 4, 3), t(6), 2, 1)")
              .sample("F.conv1d(t(4, 9), t(6, 2, 3), None, 1, 2, 2, 2)")
              .sample("F.conv1d(t(2, 4, 9), t(6, 4, 4), t(6), padding='same', dilation=3)")
              .sample("F.conv1d(t(2, 4, 9), t(6, 4, 4), padding='valid', stride=2)")
              .sample("F.conv1d(t(0, 4, 9), t(6, 4, 4))"),
          convolution(2)
              .one_kernel()
              .from_aten_call("aten.convolution.default", any_convolution)
              .sample("F.conv2d(t(2, 4, 9, 7), t(6, 4, 3, 2), t(6), (2, 1), (1, 0))")
              .sample("F.conv2d(t(2, 4, 9, 7), t(8, 1, 3, 3), t(8), groups=4, padding=1)")
              .sample("F.conv2d(t(4, 9, 7), t(6, 4, 1, 1))")
              .sample("F.conv2d(t(2, 4, 9, 7), t(6, 2, 2, 3), t(6), padding='same', dilation=(1, 2), groups=2)")
              .sample("torch.ops.aten.convolution(t(2, 4, 9), t(6, 4, 3), t(6), [2], [1], [1], False, [0], 1)")
              .sample("torch.ops.aten.convolution(t(2, 4, 5, 5), t(4, 3, 3, 3), None, [2, 2], [1, 1], [1, 1], True, [1, 0], 2)"),
          convolution(3)
              .sample("F.conv3d(t(2, 2, 5, 6, 7), t(4, 2, 3, 2, 3), t(4), (1, 2, 1), (0, 1, 1))")
              .sample("F.conv3d(t(2, 2, 5, 6, 7), t(4, 1, 3, 2, 3), groups=2, padding='same')"),
          transposed_convolution(1)
              .sample("F.conv_transpose1d(t(2, 4, 7), t(4, 6, 3), t(6), 2, 1, 1)")
              .sample("F.conv_transpose1d(t(4, 7), t(4, 3, 3), None, 3, 0, 2, 2, 2)")
              .sample("F.conv_transpose1d(t(2, 4, 7), t(4, 6, 2), t(6), 1, 3)"),
          transposed_convolution(2)
              .sample("F.conv_transpose2d(t(2, 4, 5, 6), t(4, 6, 3, 2), t(6), (2, 3), (1, 0), (1, 2))")
              .sample("F.conv_transpose2d(t(2, 4, 5, 6), t(4, 2, 3, 2), None, 2, 0, 0, 4, (1, 2))")
              .sample("F.conv_transpose2d(t(4, 5, 6), t(4, 2, 2, 2), t(2), 2)"),
          transposed_convolution(3).sample("F.conv_transpose3d(t(2, 4, 3, 4, 5), t(4, 3, 2, 3, 2), t(6), 2, 1, 1, 2)")};
}

}  // namespace pycandle
