// Embeddings and one-hot vectors.
#include <fmt/format.h>

#include <cmath>
#include <cstdlib>

#include "ir/layer.h"
#include "ir/mistakes.h"
#include "ops/core/alignment.h"
#include "ops/core/functional_helpers.h"

namespace pycandle {
namespace {

void embedding_mistakes(Mistakes& m) {
  const int64_t rows = m.size(m.call().shape("weight")[0]), width = m.size(m.call().shape("weight").back());
  for (const int64_t shift : {1, -1, 2, -2}) {
    m.operand("index offset", "indices", "its indices",
              fmt::format("its indices {} {}", shift > 0 ? "plus" : "minus", std::abs(shift)),
              [shift, rows](Builder& b, ValueId i) {
                const ValueId moved = b.add(i, b.full(shift, b.dtype(i)));
                return b.minimum(b.maximum(moved, b.full(int64_t{0}, b.dtype(i))), b.full(rows - 1, b.dtype(i)));
              });
  }
  const double root = std::sqrt(static_cast<double>(width));
  m.result("scale", "the embedding", "the embedding times the root of its width",
           [root](Builder& b, ValueId y) { return b.mul(y, root); });
}

OpDef embedding() {
  return functional("embedding")
      .doc("rows of weight, by index")
      .operands("weight", "indices")
      .constraint("embedding_c1", "weight is a matrix", [](const Call& c) { return c.rank("weight") == 2; })
      .constraint("embedding_c2", "indices are i64 or i32", [](const Call& c) { return is_index(c.type("indices").dtype); })
      .infer([](const Call& c) { return Type{c.type("weight").dtype, joined(c.shape("indices"), {c.shape("weight")[1]})}; })
      .aligned([](const AlignedCall& c) -> std::optional<Alignment> { return c.all_but(c.last(1), 1); })
      .one_kernel()
      .decompose([](Builder& b, const Call& c) {
        return b.create("take", {c.value("weight"), c.value("indices")}, {{"axis", int64_t{0}}});
      })
      .from_aten("aten.embedding.default(weight, indices, _, _, _)", discard("padding_idx: only the gradient"),
                 discard("scale_grad_by_freq: only the gradient"), discard("sparse: only the gradient"))
      .sample("F.embedding(i(2, 3, low=0, high=4), t(5, 6))")
      .sample("F.embedding(i(7, low=0, high=4, dtype=torch.int32), t(5, 6), padding_idx=1)")
      .sample("F.embedding(i(low=0, high=4), t(5, 6))")
      .sample("F.embedding(i(0, 3, low=0, high=4), t(5, 6))")
      .spelled_torch("F.embedding({indices}, {weight})")
      .nn("Embedding",
          [](const LayerCall& l) -> LayerArguments {
            if (!l.is_own("weight") || l.is_parameter("indices")) return {};
            return {{required("num_embeddings", l.size("weight", 0)), required("embedding_dim", l.size("weight", 1))}};
          })
      .member("embedding")
      .results({"embedded"})
      .mistakes(embedding_mistakes);
}

// Rows of weight, by index, combined in bags: bag k has the indices from offsets[k] up to the next offset.
OpDef embedding_bag() {
  OpDef def = functional("embedding_bag");
  def.doc("rows of weight, by index, summed, averaged or their maxima taken in bags; bag k begins at offsets[k]")
      .operands("weight", "indices", "offsets", optional("per_sample_weights"))
      .attributes(attr<std::string>("mode"), attr<bool>("include_last_offset", false), optional_attr<int64_t>("padding_idx"))
      .constraint("embedding_bag_c1", "weight is a floating matrix, indices and offsets vectors of i64 or i32",
                  [](const Call& c) {
                    return c.rank("weight") == 2 && is_floating(c.type("weight").dtype) && c.rank("indices") == 1 &&
                           c.rank("offsets") == 1 && is_index(c.type("indices").dtype) && is_index(c.type("offsets").dtype);
                  })
      .constraint("embedding_bag_c2", "mode is sum, mean or max, and only a sum has weights",
                  [](const Call& c) {
                    const std::string& mode = c.string("mode");
                    return (mode == "sum" || mode == "mean" || mode == "max") && (!c.has("per_sample_weights") || mode == "sum");
                  })
      .infer([](const Call& c) {
        const Dim bags = c.shape("offsets")[0] - Dim(c.boolean("include_last_offset") ? 1 : 0);
        return Type{c.type("weight").dtype, {bags, c.shape("weight")[1]}};
      })
      .decompose([](Builder& b, const Call& c) {
        const ValueId indices = c.value("indices"), offsets = b.cast(c.value("offsets"), DType::i64);
        const Dim count = b.shape(indices)[0], width = c.shape("weight")[1];
        const Dim bags = c.shape("offsets")[0] - Dim(c.boolean("include_last_offset") ? 1 : 0);
        // The bag of an index is the last that begins at or before it; what lies past a last offset goes into a bag too many.
        ValueId bag = b.sub(b.create("searchsorted", {offsets, b.iota(count)}, {{"right", true}}), 1.0);
        bag = b.maximum(bag, 0.0);
        if (c.has("padding_idx")) {
          const int64_t padding = c.integer("padding_idx");
          const ValueId row = padding < 0 ? b.dim_value(c.shape("weight")[0] + Dim(padding)) : b.dim_value(padding);
          bag = b.select(b.compare("eq", b.cast(indices, DType::i64), row), b.dim_value(bags), bag);
        }
        ValueId rows = b.widened(b.create("take", {c.value("weight"), indices}, {{"axis", int64_t{0}}}));
        if (const auto weights = c.maybe("per_sample_weights")) rows = b.mul(rows, b.unsqueeze(b.widened(*weights), 1));
        const ValueId empty = b.full(0.0, b.dtype(rows), {bags + 1, width});
        ValueId y;
        if (c.string("mode") == "max") {
          const ValueId places = b.broadcast(bag, {count, width}, {0});
          y = b.create("scatter", {empty, places, rows},
                       {{"axis", int64_t{0}}, {"reduce", std::string("amax")}, {"include_self", false}});
        } else {
          y = b.create("scatter_nd", {empty, rows, bag}, {{"axes", Ints{0}}, {"accumulate", true}});
        }
        if (c.string("mode") == "mean") {
          const ValueId none = b.full(0.0, b.dtype(rows), {bags + 1}), ones = b.full(1.0, b.dtype(rows), {count});
          const ValueId sizes = b.create("scatter_nd", {none, ones, bag}, {{"axes", Ints{0}}, {"accumulate", true}});
          y = b.div(y, b.unsqueeze(b.maximum(sizes, 1.0), 1));
        }
        return b.narrowed(b.slice(y, 0, 0, bags), c.type("weight").dtype);
      });
  // What else the overloads give (places, sizes of the bags) is for training.
  for (const char* overload : {"aten.embedding_bag.default", "aten.embedding_bag.padding_idx", "aten._embedding_bag.default",
                               "aten._embedding_bag_forward_only.default"})
    def.from_aten_call(overload, [](AtenCall& a) -> Values {
      static constexpr const char* kModes[] = {"sum", "mean", "max"};
      const int64_t mode = a.integer("mode");
      if (mode < 0 || mode > 2) a.unsupported("mode=" + std::to_string(mode));
      a.discard("scale_grad_by_freq", "only the gradient");
      a.discard("sparse", "only the gradient");
      Attributes attributes{{"mode", std::string(kModes[mode])}, {"include_last_offset", a.boolean("include_last_offset")}};
      if (a.has_argument("padding_idx") && !a.is_none("padding_idx")) {
        const int64_t padding = a.integer("padding_idx");
        const bool none = padding < 0 && a.overload().starts_with("aten._");  // there -1 says that there is none
        if (!none) attributes.emplace_back("padding_idx", padding);
      }
      return {a.b.create(
          "embedding_bag",
          {a.tensor("weight"), a.tensor("indices"), a.tensor("offsets"), a.maybe_tensor("per_sample_weights").value_or(kNoValue)},
          std::move(attributes))};
    });
  return def.sample("F.embedding_bag(i(7, low=0, high=4), t(5, 6), torch.tensor([0, 2, 2, 5]))")
      .sample("F.embedding_bag(i(2, 3, low=0, high=4), t(5, 6), mode='max')")
      .sample("F.embedding_bag(i(7, low=0, high=4), t(5, 6), torch.tensor([0, 3]), mode='sum', per_sample_weights=t(7))")
      .sample(
          "F.embedding_bag(i(7, low=0, high=4), t(5, 6), torch.tensor([0, 3, 7]), mode='mean', include_last_offset=True, "
          "padding_idx=2)")
      .sample("F.embedding_bag(i(7, low=0, high=4), t(5, 6), torch.tensor([0, 3]), mode='max', padding_idx=-1)");
}

// Rows of weight that are looked up and longer than max_norm, scaled down to it.
OpDef embedding_renorm() {
  return functional("embedding_renorm")
      .doc("weight with the rows that indices name scaled down to a norm of at most max_norm")
      .operands("weight", "indices")
      .attributes(attr<double>("max_norm"), attr<double>("norm_type", 2.0))
      .constraint("embedding_renorm_c1", "weight is a floating matrix and indices are i64 or i32",
                  [](const Call& c) {
                    return c.rank("weight") == 2 && is_floating(c.type("weight").dtype) && is_index(c.type("indices").dtype);
                  })
      .infer([](const Call& c) { return c.type("weight"); })
      .decompose([](Builder& b, const Call& c) {
        const ValueId weight = c.value("weight"), wide = b.widened(weight);
        const ValueId norm = b.create("vector_norm", {wide},
                                      {{"axes", Ints{1}}, {"keep", true}, {"order", c.number("norm_type")}});
        const Dim rows = b.shape(weight)[0], count = product(c.shape("indices"));
        const ValueId none = b.full(false, DType::boolean, {rows}), yes = b.full(true, DType::boolean, {count});
        const ValueId used = b.create("scatter_nd", {none, yes, b.reshape(c.value("indices"), {count})}, {{"axes", Ints{0}}});
        const ValueId scale = b.div(c.number("max_norm"), b.add(norm, 1e-7));
        const ValueId too_long = b.logical_and(b.unsqueeze(used, 1), b.compare("gt", norm, c.number("max_norm")));
        return b.select(too_long, b.narrowed(b.mul(wide, scale), b.dtype(weight)), weight);
      })
      .from_aten("aten.embedding_renorm.default(weight, indices, max_norm, norm_type)")
      .sample("torch.ops.aten.embedding_renorm(t(5, 6), i(2, 2, low=0, high=3), 1.5, 2.0)")
      .sample("torch.ops.aten.embedding_renorm(t(5, 6), i(4, low=0, high=3), 2.0, 1.0)");
}

OpDef one_hot() {
  return functional("one_hot")
      .doc("1 at the index and 0 elsewhere, along a new last axis")
      .operands("x")
      .attributes(attr<int64_t>("num_classes"))
      .constraint("one_hot_c1", "x is i64", [](const Call& c) { return c.type("x").dtype == DType::i64; })
      .constraint("one_hot_c2", "num_classes is positive", [](const Call& c) { return c.integer("num_classes") > 0; })
      .infer([](const Call& c) { return Type{DType::i64, joined(c.shape("x"), {Dim(c.integer("num_classes"))})}; })
      .decompose([](Builder& b, const Call& c) {
        return b.cast(b.compare("eq", b.unsqueeze(c.value("x"), -1), b.iota(c.integer("num_classes"))), DType::i64);
      })
      .from_aten_call(
          "aten.one_hot.default",
          [](AtenCall& a) {
            const int64_t classes = a.integer("num_classes");
            if (classes < 0)
              a.unsupported("num_classes=-1: the result's size would depend on the data (give the number of classes)");
            return a.b.create_all("one_hot", {a.tensor("self")}, {{"num_classes", classes}});
          })
      .sample("F.one_hot(i(2, 3, low=0, high=4), 5)")
      .sample("F.one_hot(i(low=0, high=4), 5)");
}

}  // namespace

std::vector<OpDef> embedding_ops() { return {embedding(), embedding_bag(), embedding_renorm(), one_hot()}; }

}  // namespace pycandle
