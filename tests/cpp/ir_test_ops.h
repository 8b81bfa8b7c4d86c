// A tiny op table, so that the tests of src/ir need no catalogue.
#pragma once

#include "ir/builder.h"
#include "ir/evaluation.h"

namespace pycandle {

inline Type type_of(DType dtype, Shape shape) { return {dtype, std::move(shape)}; }

inline OpDef elementwise(const char* name, bool compares = false) {
  return primitive(name)
      .operands("a", "b")
      .constraint(std::string(name) + "_c1", "a and b have the same type",
                  [](const Call& c) { return c.type("a") == c.type("b"); })
      .infer([compares](const Call& c) { return compares ? type_of(DType::boolean, c.shape("a")) : c.type("a"); });
}

inline OpDef reduction(const char* name) {
  return primitive(name).operands("x").attributes(attr<Ints>("axes")).infer([](const Call& c) {
    Shape shape;
    const Ints& axes = c.integers("axes");
    for (int64_t i = 0; i < c.rank("x"); ++i) {
      if (std::find(axes.begin(), axes.end(), i) == axes.end()) shape.push_back(c.shape("x")[i]);
    }
    return type_of(c.type("x").dtype, shape);
  });
}

inline OpTable make_test_table() {
  OpTable table;
  for (const char* name : {"add", "sub", "mul", "div", "bitwise_and"}) table.add(elementwise(name));
  table.add(elementwise("lt", true));
  for (const char* name : {"neg", "exp", "sigmoid"}) {
    table.add(primitive(name).operands("x").infer([](const Call& c) { return c.type("x"); }));
  }
  table.add(primitive("constant")
                .attributes(attr<Scalar>("value"), attr<Dims>("shape", Dims{}), attr<DType>("dtype", DType::f32))
                .infer([](const Call& c) { return type_of(c.dtype("dtype"), c.dims("shape")); }));
  table.add(primitive("dim").attributes(attr<Dim>("value")).infer([](const Call&) { return type_of(DType::i64, {}); }));
  table.add(primitive("iota").attributes(attr<Dim>("size"), attr<DType>("dtype", DType::i64)).infer([](const Call& c) {
    return type_of(c.dtype("dtype"), {c.dim("size")});
  }));
  table.add(primitive("cast").operands("x").attributes(attr<DType>("dtype")).infer([](const Call& c) {
    return type_of(c.dtype("dtype"), c.shape("x"));
  }));
  table.add(primitive("select").operands("condition", "yes", "no").infer([](const Call& c) { return c.type("yes"); }));
  table.add(primitive("reshape")
                .operands("x")
                .attributes(attr<Dims>("shape"))
                .constraint("reshape_c1", "the number of elements stays the same",
                            [](const Call& c) { return c.agree(product(c.shape("x")), product(c.dims("shape")), "elements"); })
                .infer([](const Call& c) { return type_of(c.type("x").dtype, c.dims("shape")); }));
  table.add(primitive("transpose").operands("x").attributes(attr<Ints>("permutation")).infer([](const Call& c) {
    Shape shape;
    for (int64_t axis : c.integers("permutation")) shape.push_back(c.shape("x").at(axis));
    return type_of(c.type("x").dtype, shape);
  }));
  table.add(primitive("broadcast").operands("x").attributes(attr<Dims>("shape"), attr<Ints>("axes")).infer([](const Call& c) {
    return type_of(c.type("x").dtype, c.dims("shape"));
  }));
  table.add(primitive("slice")
                .operands("x")
                .attributes(attr<Dims>("starts"), attr<Dims>("stops"), attr<Ints>("steps"))
                .infer([](const Call& c) {
                  Shape shape;
                  for (size_t i = 0; i < c.shape("x").size(); ++i) {
                    shape.push_back(ceildiv(c.dims("stops")[i] - c.dims("starts")[i], c.integers("steps")[i]));
                  }
                  return type_of(c.type("x").dtype, shape);
                }));
  table.add(reduction("reduce_sum"));
  table.add(primitive("topk").operands("x").attributes(attr<int64_t>("k")).infer_all([](const Call& c) {
    Shape shape = c.shape("x");
    shape.back() = c.integer("k");
    return std::vector<Type>{{c.type("x").dtype, shape}, {DType::i64, shape}};
  }));
  table.add(primitive("concat").operands(variadic("xs")).attributes(attr<int64_t>("axis", 0)).infer([](const Call& c) {
    return c.type(c.values("xs").at(0));
  }));
  table.add(functional("norm")
                .operands("x", optional("weight"), optional("bias"))
                .attributes(attr<double>("eps", 1e-5), optional_attr<double>("scale"))
                .constraint("norm_c1", "weight has the size of the last dim of x",
                            [](const Call& c) {
                              return !c.has("weight") ||
                                     (c.rank("weight") == 1 && c.agree(c.shape("weight")[0], c.shape("x").back(), "weight"));
                            })
                .infer([](const Call& c) { return c.type("x"); })
                .from_aten("aten.norm.default(x, weight, bias, eps, _)", discard("cudnn_enable: no effect on values")));
  table.add(
      primitive("scan").operands("init", variadic("xs")).attributes(attr<Dim>("length")).regions(1).infer([](const Call& c) {
        const Graph& body = c.regions().at(0);
        if (body.outputs.size() != 1) {
          throw Error(ErrorCode::bad_input, "a scan's region yields its carry")
              .expected("1 value")
              .found(std::to_string(body.outputs.size()));
        }
        return c.type("init");
      }));
  table.add(primitive("note").operands("x").infer_all([](const Call&) { return std::vector<Type>{}; }));
  table.add(primitive("everything")
                .attributes(attr<bool>("boolean"), attr<int64_t>("integer"), attr<double>("number"), attr<Scalar>("scalar"),
                            attr<std::string>("string"), attr<DType>("dtype"), attr<Dim>("dim"), attr<Ints>("integers"),
                            attr<Numbers>("numbers"), attr<Dims>("dims"))
                .infer([](const Call& c) { return type_of(c.dtype("dtype"), c.dims("dims")); }));
  return table;
}

inline const OpTable& test_table() {
  static const OpTable table = make_test_table();
  return table;
}

// The error that `f` throws; fails the test when there is none.
template <class F> Error error_of(const F& f) {
  try {
    f();
  } catch (const Error& error) {
    return error;
  }
  ADD_FAILURE() << "no error was thrown";
  return Error(ErrorCode::internal, "");
}

}  // namespace pycandle
