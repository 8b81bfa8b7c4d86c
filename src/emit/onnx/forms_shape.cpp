// What moves elements: views, slices, joins, padding; and elements that indices pick.
#include <algorithm>
#include <limits>

#include "emit/onnx/forms.h"
#include "emit/onnx/kernels.h"

namespace pycandle::emit::onnx {
namespace {

Names reshape(const Site& s) { return {s.w.reshape(s["x"], s.c.shape("x"), s.c.dims("shape"))}; }
Names transpose(const Site& s) { return {s.w.transpose(s["x"], s.c.integers("permutation"))}; }

Names slice(const Site& s) {
  const Dims &starts = s.c.dims("starts"), &stops = s.c.dims("stops");
  const Ints& steps = s.c.integers("steps");
  Shape from, to;
  Ints axes, by;
  for (size_t a = 0; a < starts.size(); ++a) {
    if (starts[a] == Dim(0) && stops[a] == s.c.shape("x")[a] && steps[a] == 1) continue;
    axes.push_back(static_cast<int64_t>(a));
    from.push_back(starts[a]);
    to.push_back(stops[a] == s.c.shape("x")[a] ? Dim(std::numeric_limits<int64_t>::max()) : stops[a]);
    by.push_back(steps[a]);
  }
  if (axes.empty()) return {s["x"]};
  Names inputs{s["x"], s.w.shape(from), s.w.shape(to), s.w.ints(axes)};
  if (std::any_of(by.begin(), by.end(), [](int64_t step) { return step != 1; })) inputs.push_back(s.w.ints(by));
  return {s.w.node("Slice", inputs)};
}

Names reverse(const Site& s) {
  const Ints& axes = s.c.integers("axes");
  if (axes.empty()) return {s["x"]};
  const size_t n = axes.size();
  return {s.w.node("Slice", {s["x"], s.w.ints(Ints(n, -1)), s.w.ints(Ints(n, std::numeric_limits<int64_t>::min())),
                             s.w.ints(axes), s.w.ints(Ints(n, -1))})};
}

Names concat(const Site& s) {
  Names inputs;
  for (const ValueId v : s.c.values("xs")) inputs.push_back(s.w.name(v));
  if (inputs.size() == 1) return inputs;
  return {s.w.node("Concat", inputs, {{"axis", s.c.integer("axis")}})};
}

Names pad(const Site& s) {
  Shape amounts = s.c.dims("low");
  const Dims& high = s.c.dims("high");
  amounts.insert(amounts.end(), high.begin(), high.end());
  const DType d = s.dtype("x"), kernel = kernel_dtype("Pad", d);
  const std::string padded = s.w.node(
      "Pad", {s.w.cast(s["x"], d, kernel), s.w.shape(amounts), s.w.cast(s.w.scalar(s.c.scalar("value"), d), d, kernel)});
  return {s.w.cast(padded, kernel, d)};
}

// ---- dynamic places

Names dynamic_slice(const Site& s) {
  Names starts;
  for (const ValueId v : s.c.values("starts"))
    starts.push_back(s.w.cast(s.w.unsqueeze(s.w.name(v), {0}), s.w.type(v).dtype, DType::i64));
  const std::string from = s.w.node("Concat", starts, {{"axis", int64_t{0}}});
  const std::string to = s.w.node("Add", {from, s.w.shape(s.c.dims("sizes"))});
  return {s.w.node("Slice", {s["x"], from, to, s.w.ints(all_axes(0, s.c.rank("x")))})};
}

// Axis by axis: what is before the block, the block, what is behind it.
std::string updated(const Site& s, const std::string& x, const std::string& update, size_t axis, const Values& starts) {
  GraphWriter& w = s.w;
  const Shape &whole = s.c.shape("x"), &block = s.c.shape("update");
  while (axis < whole.size() && whole[axis] == block[axis]) ++axis;
  if (axis == whole.size()) return update;
  const std::string start = w.cast(w.unsqueeze(w.name(starts[axis]), {0}), w.type(starts[axis]).dtype, DType::i64);
  const std::string stop = w.node("Add", {start, w.dim(block[axis])}), axes = w.ints({static_cast<int64_t>(axis)});
  const auto part = [&](const std::string& from, const std::string& to) { return w.node("Slice", {x, from, to, axes}); };
  const std::string middle = updated(s, part(start, stop), update, axis + 1, starts);
  return w.node("Concat", {part(w.ints({0}), start), middle, part(stop, w.ints({std::numeric_limits<int64_t>::max()}))},
                {{"axis", static_cast<int64_t>(axis)}});
}
Names dynamic_update(const Site& s) { return {updated(s, s["x"], s["update"], 0, s.c.values("starts"))}; }

Names slice_between(const Site& s) {
  const auto end = [&](const char* name) { return s.w.cast(s.w.unsqueeze(s[name], {0}), s.dtype(name), DType::i64); };
  return {s.w.node("Slice", {s["x"], end("start"), end("stop"), s.w.ints({s.c.integer("axis")})})};
}

// ---- indices

Names take(const Site& s) { return {s.w.node("Gather", {s["x"], s["indices"]}, {{"axis", s.c.integer("axis")}})}; }
Names embedding(const Site& s) { return {s.w.node("Gather", {s["weight"], s["indices"]}, {{"axis", int64_t{0}}})}; }
Names gather(const Site& s) { return {s.w.node("GatherElements", {s["x"], s["index"]}, {{"axis", s.c.integer("axis")}})}; }
bool has_axes(const Call& c) { return c.rank("x") > 0; }

// [..., n]: the indices side by side.
std::string points(const Site& s, const Values& indices) {
  Names parts;
  for (const ValueId v : indices) {
    const auto rank = static_cast<int64_t>(s.w.type(v).rank());
    parts.push_back(s.w.cast(s.w.unsqueeze(s.w.name(v), {rank}), s.w.type(v).dtype, DType::i64));
  }
  return parts.size() == 1 ? parts[0] : s.w.node("Concat", parts, {{"axis", int64_t{-1}}});
}

// The indexed axes first, in x; where the indices stand in the result, and the way from there.
struct Indexed {
  Ints first, to_front, from_front;
};
Indexed indexed(const Site& s, size_t index_rank) {
  const Ints& axes = s.c.integers("axes");
  const int64_t rank = s.c.rank("x");
  Indexed found;
  found.first = axes;
  for (int64_t a = 0; a < rank; ++a) {
    if (std::find(axes.begin(), axes.end(), a) == axes.end()) found.first.push_back(a);
  }
  int64_t position = axes[0];
  for (size_t i = 1; i < axes.size(); ++i) position = axes[i] == axes[i - 1] + 1 ? position : 0;
  const auto inner = static_cast<int64_t>(index_rank), all = rank - static_cast<int64_t>(axes.size()) + inner;
  // With the indices' axes first: [indices…, kept…]; in the result `position` of the kept come before.
  for (int64_t a = 0; a < position; ++a) found.from_front.push_back(inner + a);
  for (int64_t a = 0; a < inner; ++a) found.from_front.push_back(a);
  for (int64_t a = inner + position; a < all; ++a) found.from_front.push_back(a);
  found.to_front.resize(found.from_front.size());
  for (size_t i = 0; i < found.from_front.size(); ++i) found.to_front[found.from_front[i]] = static_cast<int64_t>(i);
  return found;
}

Names gather_nd(const Site& s) {
  const Values indices = s.c.values("indices");
  if (indices.size() == 1) return {s.w.node("Gather", {s["x"], s.w.name(indices[0])}, {{"axis", s.c.integers("axes")[0]}})};
  const Indexed at = indexed(s, static_cast<size_t>(s.w.type(indices[0]).rank()));
  const std::string found = s.w.node("GatherND", {s.w.transpose(s["x"], at.first), points(s, indices)});
  return {s.w.transpose(found, at.from_front)};
}

Names scatter_nd(const Site& s) {
  const Values indices = s.c.values("indices");
  const Indexed at = indexed(s, static_cast<size_t>(s.w.type(indices[0]).rank()));
  const DType d = s.dtype("x");
  const bool adds = s.c.boolean("accumulate");
  const DType kernel = adds ? kernel_dtype("Add", d) : d;
  const auto in_kernel = [&](const std::string& x) { return s.w.cast(x, d, kernel); };
  const std::string y = s.w.node(
      "ScatterND",
      {in_kernel(s.w.transpose(s["x"], at.first)), points(s, indices), in_kernel(s.w.transpose(s["updates"], at.to_front))},
      adds ? OnnxAttributes{{"reduction", std::string("add")}} : OnnxAttributes{});
  Ints back(at.first.size());
  for (size_t i = 0; i < back.size(); ++i) back[static_cast<size_t>(at.first[i])] = static_cast<int64_t>(i);
  return {s.w.transpose(s.w.cast(y, kernel, d), back)};
}

Names scatter(const Site& s) {
  const std::string& reduce = s.c.string("reduce");
  const DType d = s.dtype("x"), kernel = reduce == "none" ? d : kernel_dtype("Add", d);
  std::string src = s["src"];
  const Shape &index = s.c.shape("index"), &given = s.c.shape("src");
  for (size_t a = 0; a < index.size(); ++a) {
    if (index[a] != given[a]) src = s.w.slice(src, static_cast<int64_t>(a), 0, index[a]);
  }
  OnnxAttributes attributes{{"axis", s.c.integer("axis")}};
  const std::string reduction = reduce == "multiply" ? "mul" : reduce == "amax" ? "max" : reduce == "amin" ? "min" : reduce;
  if (reduce != "none") attributes.emplace_back("reduction", reduction);
  const std::string y = s.w.node("ScatterElements", {s.w.cast(s["x"], d, kernel), s["index"], s.w.cast(src, d, kernel)},
                                 attributes);
  return {s.w.cast(y, kernel, d)};
}
bool is_plain_scatter(const Call& c) {
  return c.rank("x") > 0 && is_real(c) && c.string("reduce") != "mean" &&
         (c.string("reduce") == "none" || c.boolean("include_self"));
}

Names nonzero(const Site& s) { return {s.w.transpose(s.w.run("NonZero", {s["x"]}, s.dtype("x"), {}, false), {1, 0})}; }

Names unique(const Site& s) {
  const DType d = s.dtype("x"), kernel = kernel_dtype("Unique", d);
  OnnxAttributes attributes{{"sorted", int64_t{1}}};
  if (s.c.has("axis")) attributes.emplace_back("axis", s.c.integer("axis"));
  const Names found = s.w.nodes("Unique", {s.w.cast(s["x"], d, kernel)}, attributes, 4);
  const std::string places = s.c.has("axis") ? found[2] : s.w.reshape(found[2], {}, s.c.shape("x"));
  return {s.w.cast(found[0], kernel, d), places, found[3]};
}
bool is_sorted_unique(const Call& c) { return !c.boolean("consecutive") && is_real(c); }

constexpr Form kForms[] = {
    {"reshape", reshape, is_real},
    {"transpose", transpose, is_real},
    {"slice", slice, is_real},
    {"reverse", reverse, is_real},
    {"concat", concat, [](const Call& c) { return !is_complex(c.type(c.values("xs")[0]).dtype); }},
    {"pad", pad, is_real},
    {"dynamic_slice", dynamic_slice, [](const Call& c) { return is_real(c) && c.rank("x") > 0; }},
    {"dynamic_update", dynamic_update, is_real},
    {"slice_between", slice_between, is_real},
    {"take", take, is_real},
    {"embedding", embedding, is_real},
    {"gather", gather, has_axes},
    {"gather_nd", gather_nd, is_real},
    {"scatter_nd", scatter_nd, is_real},
    {"scatter", scatter, is_plain_scatter},
    {"nonzero", nonzero, has_axes},
    {"unique", unique, is_sorted_unique},
};

}  // namespace

std::span<const Form> shape_forms() { return kForms; }

}  // namespace pycandle::emit::onnx
