// Embeddings and one-hot vectors.
#include "ops/functional_helpers.h"

namespace pycandle {
namespace {

OpDef embedding() {
  return functional("embedding")
      .doc("rows of weight, by index")
      .operands("weight", "indices")
      .constraint("embedding_c1", "weight is a matrix", [](const Call& c) { return c.rank("weight") == 2; })
      .constraint("embedding_c2", "indices are i64 or i32", [](const Call& c) { return is_index(c.type("indices").dtype); })
      .infer([](const Call& c) { return Type{c.type("weight").dtype, joined(c.shape("indices"), {c.shape("weight")[1]})}; })
      .decompose([](Builder& b, const Call& c) {
        return b.create("take", {c.value("weight"), c.value("indices")}, {{"axis", int64_t{0}}});
      })
      .from_aten("aten.embedding.default(weight, indices, _, _, _)", discard("padding_idx: only the gradient"),
                 discard("scale_grad_by_freq: only the gradient"), discard("sparse: only the gradient"))
      .sample("F.embedding(i(2, 3, low=0, high=4), t(5, 6))")
      .sample("F.embedding(i(7, low=0, high=4, dtype=torch.int32), t(5, 6), padding_idx=1)")
      .sample("F.embedding(i(low=0, high=4), t(5, 6))")
      .sample("F.embedding(i(0, 3, low=0, high=4), t(5, 6))")
      .spelled_cpp("embedding")
      .spelled_candle("candle_nn::Embedding");
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
      .sample("F.one_hot(i(low=0, high=4), 5)")
      .spelled_cpp("one_hot");
}

}  // namespace

std::vector<OpDef> embedding_ops() { return {embedding(), one_hot()}; }

}  // namespace pycandle
