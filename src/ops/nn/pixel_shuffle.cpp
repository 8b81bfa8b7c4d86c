// Rearrangements between channels and positions: pixel and channel shuffles, and the patches of unfold and fold.
#include "ops/core/functional_helpers.h"

namespace pycandle {
namespace {

bool divides(const Call& c, int64_t part, Dim whole) { return part > 0 && c.agree(mod(whole, Dim(part)), Dim(0)); }

OpDef pixel_shuffle() {
  return functional("pixel_shuffle")
      .doc("[…, C r², H, W] → […, C, H r, W r]")
      .operands("x")
      .attributes(attr<int64_t>("factor"))
      .constraint("pixel_shuffle_c1", "x has three axes or more, and factor² divides the channels",
                  [](const Call& c) {
                    return c.rank("x") >= 3 && positive_and_sane({c.integer("factor")}) &&
                           divides(c, c.integer("factor") * c.integer("factor"), c.shape("x")[c.shape("x").size() - 3]);
                  })
      .infer([](const Call& c) {
        Type y = c.type("x");
        const size_t n = y.shape.size();
        const Dim r = c.integer("factor");
        y.shape[n - 3] = floordiv(y.shape[n - 3], r * r);
        y.shape[n - 2] = y.shape[n - 2] * r;
        y.shape[n - 1] = y.shape[n - 1] * r;
        return y;
      })
      .decompose([](Builder& b, const Call& c) {
        const Shape& shape = c.shape("x");
        const Dim r = c.integer("factor"), height = shape[shape.size() - 2], width = shape.back();
        Shape split = first_dims(shape, shape.size() - 3);
        const int64_t n = static_cast<int64_t>(split.size());
        Shape merged = split;
        const Dim channels = floordiv(shape[shape.size() - 3], r * r);
        for (const Dim d : {channels, r, r, height, width}) split.push_back(d);
        for (const Dim d : {channels, height * r, width * r}) merged.push_back(d);
        Ints order = axes_between(0, n + 1);
        for (const int64_t axis : {3, 1, 4, 2}) order.push_back(n + axis);
        return b.reshape(b.transpose(b.reshape(c.value("x"), split), order), merged);
      })
      .from_aten("aten.pixel_shuffle.default(x, factor)")
      .sample("F.pixel_shuffle(t(2, 12, 3, 4), 2)")
      .sample("F.pixel_shuffle(t(9, 3, 4), 3)");
}

OpDef pixel_unshuffle() {
  return functional("pixel_unshuffle")
      .doc("[…, C, H r, W r] → […, C r², H, W]")
      .operands("x")
      .attributes(attr<int64_t>("factor"))
      .constraint("pixel_unshuffle_c1", "x has three axes or more, and factor divides the last two",
                  [](const Call& c) {
                    return c.rank("x") >= 3 && divides(c, c.integer("factor"), c.shape("x").back()) &&
                           divides(c, c.integer("factor"), c.shape("x")[c.shape("x").size() - 2]);
                  })
      .infer([](const Call& c) {
        Type y = c.type("x");
        const size_t n = y.shape.size();
        const Dim r = c.integer("factor");
        y.shape[n - 3] = y.shape[n - 3] * r * r;
        y.shape[n - 2] = floordiv(y.shape[n - 2], r);
        y.shape[n - 1] = floordiv(y.shape[n - 1], r);
        return y;
      })
      .decompose([](Builder& b, const Call& c) {
        const Shape& shape = c.shape("x");
        const Dim r = c.integer("factor"), channels = shape[shape.size() - 3];
        const Dim height = floordiv(shape[shape.size() - 2], r), width = floordiv(shape.back(), r);
        Shape split = first_dims(shape, shape.size() - 3);
        const int64_t n = static_cast<int64_t>(split.size());
        Shape merged = split;
        for (const Dim d : {channels, height, r, width, r}) split.push_back(d);
        for (const Dim d : {channels * r * r, height, width}) merged.push_back(d);
        Ints order = axes_between(0, n + 1);
        for (const int64_t axis : {2, 4, 1, 3}) order.push_back(n + axis);
        return b.reshape(b.transpose(b.reshape(c.value("x"), split), order), merged);
      })
      .from_aten("aten.pixel_unshuffle.default(x, factor)")
      .sample("F.pixel_unshuffle(t(2, 3, 6, 4), 2)")
      .sample("F.pixel_unshuffle(t(3, 6, 9), 3)");
}

OpDef channel_shuffle() {
  return functional("channel_shuffle")
      .doc("channels as [groups, C / groups], exchanged")
      .operands("x")
      .attributes(attr<int64_t>("groups"))
      .constraint("channel_shuffle_c1", "groups divides the channels of x",
                  [](const Call& c) { return c.rank("x") >= 3 && divides(c, c.integer("groups"), c.shape("x")[1]); })
      .infer([](const Call& c) { return c.type("x"); })
      .decompose([](Builder& b, const Call& c) {
        const Shape& shape = c.shape("x");
        Shape split = shape;
        split[1] = floordiv(shape[1], Dim(c.integer("groups")));
        split.insert(split.begin() + 1, Dim(c.integer("groups")));
        return b.reshape(b.swap_axes(b.reshape(c.value("x"), split), 1, 2), shape);
      })
      .from_aten("aten.channel_shuffle.default(x, groups)")
      .from_aten("aten.native_channel_shuffle.default(x, groups)")
      .sample("F.channel_shuffle(t(2, 6, 3, 4), 3)");
}

// Where one tap of the kernel sees the padded image: every stride-th position from its offset on.
struct Tap {
  int64_t row, column;
};
std::vector<Tap> taps_of(const Call& c) {
  std::vector<Tap> taps;
  for (int64_t i = 0; i < c.integers("kernel_size")[0]; ++i) {
    for (int64_t j = 0; j < c.integers("kernel_size")[1]; ++j)
      taps.push_back({i * c.integers("dilation")[0], j * c.integers("dilation")[1]});
  }
  return taps;
}

Dim patches_along(const Call& c, size_t i, Dim size) {
  const int64_t reach = c.integers("dilation")[i] * (c.integers("kernel_size")[i] - 1) + 1;
  return floordiv(size + Dim(2 * c.integers("padding")[i] - reach), Dim(c.integers("stride")[i])) + 1;
}

bool are_pairs(const Call& c) {
  for (const char* name : {"kernel_size", "dilation", "padding", "stride"}) {
    if (c.integers(name).size() != 2) return false;
  }
  for (const char* name : {"kernel_size", "dilation", "stride"}) {
    if (!positive_and_sane(c.integers(name))) return false;
  }
  return true;
}

OpDef patches(const std::string& name) {
  return functional(name).operands("x").constraint(
      name + "_c1", "kernel_size, dilation, padding and stride are pairs, only padding may be 0", are_pairs);
}

OpDef im2col() {
  return patches("im2col")
      .doc("every patch of an image as a column: [N, C, H, W] → [N, C kh kw, patches]")
      .attributes(attr<Ints>("kernel_size"), attr<Ints>("dilation"), attr<Ints>("padding"), attr<Ints>("stride"))
      .constraint("im2col_c2", "x is [N, C, H, W] or [C, H, W]",
                  [](const Call& c) { return c.rank("x") == 3 || c.rank("x") == 4; })
      .infer([](const Call& c) {
        const Shape& x = c.shape("x");
        const size_t n = x.size();
        Type y{c.type("x").dtype, first_dims(x, n - 3)};
        y.shape.push_back(x[n - 3] * Dim(c.integers("kernel_size")[0] * c.integers("kernel_size")[1]));
        y.shape.push_back(patches_along(c, 0, x[n - 2]) * patches_along(c, 1, x[n - 1]));
        return y;
      })
      .decompose([](Builder& b, const Call& c) {
        const Shape& shape = c.shape("x");
        const int64_t last = static_cast<int64_t>(shape.size()) - 1;
        const Dim rows = patches_along(c, 0, shape[shape.size() - 2]), columns = patches_along(c, 1, shape.back());
        const Ints &stride = c.integers("stride"), &padding = c.integers("padding");
        Dims around(shape.size(), Dim(0));
        around[shape.size() - 2] = padding[0];
        around.back() = padding[1];
        const ValueId padded = b.pad(c.value("x"), around, around, 0.0);
        Values seen;
        for (const Tap& tap : taps_of(c)) {
          ValueId part = b.slice(padded, last - 1, tap.row, (rows - 1) * Dim(stride[0]) + Dim(tap.row + 1), stride[0]);
          part = b.slice(part, last, tap.column, (columns - 1) * Dim(stride[1]) + Dim(tap.column + 1), stride[1]);
          Shape column = first_dims(shape, shape.size() - 2);
          column.push_back(1);
          column.push_back(rows * columns);
          seen.push_back(b.reshape(part, column));
        }
        Shape merged = first_dims(shape, shape.size() - 3);
        merged.push_back(shape[shape.size() - 3] * Dim(static_cast<int64_t>(seen.size())));
        merged.push_back(rows * columns);
        return b.reshape(b.concat(seen, last - 1), merged);
      })
      .from_aten("aten.im2col.default(x, kernel_size, dilation, padding, stride)")
      .sample("F.unfold(t(2, 3, 7, 8), (2, 3))")
      .sample("F.unfold(t(2, 3, 9, 8), 3, dilation=2, padding=1, stride=(2, 3))")
      .sample("F.unfold(t(3, 7, 8), 2, stride=2)");
}

OpDef col2im() {
  return patches("col2im")
      .doc("columns summed back into an image: [N, C kh kw, patches] → [N, C, H, W]")
      .attributes(attr<Dims>("output_size"), attr<Ints>("kernel_size"), attr<Ints>("dilation"), attr<Ints>("padding"),
                  attr<Ints>("stride"))
      .constraint("col2im_c2", "x is [N, columns, patches] or [columns, patches], and output_size a pair",
                  [](const Call& c) { return (c.rank("x") == 2 || c.rank("x") == 3) && c.dims("output_size").size() == 2; })
      .constraint("col2im_c3", "there are as many patches as fit into output_size",
                  [](const Call& c) {
                    return c.agree(c.shape("x").back(),
                                   patches_along(c, 0, c.dims("output_size")[0]) * patches_along(c, 1, c.dims("output_size")[1]));
                  })
      .infer([](const Call& c) {
        const Shape& x = c.shape("x");
        Type y{c.type("x").dtype, first_dims(x, x.size() - 2)};
        y.shape.push_back(floordiv(x[x.size() - 2], Dim(c.integers("kernel_size")[0] * c.integers("kernel_size")[1])));
        for (const Dim d : c.dims("output_size")) y.shape.push_back(d);
        return y;
      })
      .decompose([](Builder& b, const Call& c) {
        const Shape& shape = c.shape("x");
        const Dims& size = c.dims("output_size");
        const Ints &stride = c.integers("stride"), &padding = c.integers("padding");
        const std::vector<Tap> taps = taps_of(c);
        const Dim count[] = {patches_along(c, 0, size[0]), patches_along(c, 1, size[1])};
        const Shape batch = first_dims(shape, shape.size() - 2);
        const int64_t n = static_cast<int64_t>(batch.size());
        const Dim channels = floordiv(shape[shape.size() - 2], Dim(static_cast<int64_t>(taps.size())));
        const ValueId columns = b.reshape(b.widened(c.value("x")),
                                          joined(batch, {channels, Dim(static_cast<int64_t>(taps.size())), count[0], count[1]}));
        // One axis spread out by its stride (zeros between) and put at its offset in the padded image.
        const auto placed = [&](ValueId x, int64_t axis, size_t i, int64_t offset) {
          const size_t at = static_cast<size_t>(axis);
          Shape wide = b.shape(x);
          if (stride[i] > 1) {
            x = b.unsqueeze(x, axis + 1);
            Dims none(b.shape(x).size(), Dim(0)), gap = none;
            gap[at + 1] = stride[i] - 1;
            x = b.pad(x, none, gap, 0.0);
            wide[at] = wide[at] * Dim(stride[i]);
            x = b.slice(b.reshape(x, wide), axis, 0, wide[at] - Dim(stride[i] - 1));
          }
          Dims low(b.shape(x).size(), Dim(0)), high = low;
          low[at] = offset;
          high[at] = size[i] + Dim(2 * padding[i] - offset) - b.shape(x)[at];
          return b.pad(x, low, high, 0.0);
        };
        ValueId y = kNoValue;
        for (size_t k = 0; k < taps.size(); ++k) {
          ValueId part = b.select_index(columns, n + 1, Dim(static_cast<int64_t>(k)));
          part = placed(placed(part, n + 1, 0, taps[k].row), n + 2, 1, taps[k].column);
          y = y == kNoValue ? part : b.add(y, part);
        }
        for (size_t i = 0; i < 2; ++i) y = b.slice(y, n + 1 + static_cast<int64_t>(i), padding[i], size[i] + Dim(padding[i]));
        return b.narrowed(y, c.type("x").dtype);
      })
      .from_aten("aten.col2im.default(x, output_size, kernel_size, dilation, padding, stride)")
      .sample("F.fold(t(2, 18, 36), (7, 8), (2, 3))")
      .sample("F.fold(t(2, 27, 12), (9, 10), 3, dilation=2, padding=1, stride=(2, 3))");
}

}  // namespace

std::vector<OpDef> pixel_shuffle_ops() { return {pixel_shuffle(), pixel_unshuffle(), channel_shuffle(), im2col(), col2im()}; }

}  // namespace pycandle
