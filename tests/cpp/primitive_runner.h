// Runs one primitive on arrays, and checks on the way what holds for all of them: the graph prints and parses, the
// results have the inferred types, and so they have when every size of the operands is a symbol.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <string>

#include "ir/builder.h"
#include "ir/evaluation.h"
#include "ops/core/catalogue.h"
#include "roundtrip.h"

namespace pycandle {

using Complex = std::complex<double>;
using Arrays = std::vector<Array>;

inline Array numbers_of(DType dtype, Sizes shape, const std::vector<double>& values) {
  return store(dtype, std::move(shape), values);
}
inline Array f32(Sizes shape, const std::vector<double>& values) { return numbers_of(DType::f32, std::move(shape), values); }
inline Array f64(Sizes shape, const std::vector<double>& values) { return numbers_of(DType::f64, std::move(shape), values); }
inline Array i64(Sizes shape, const std::vector<int64_t>& values) { return store(DType::i64, std::move(shape), values); }
inline Array bools(Sizes shape, const std::vector<double>& values) {
  return numbers_of(DType::boolean, std::move(shape), values);
}
inline Array c64(Sizes shape, const std::vector<Complex>& values) { return store(DType::c64, std::move(shape), values); }

inline const double kNan = std::numeric_limits<double>::quiet_NaN();
inline const double kInf = std::numeric_limits<double>::infinity();
inline const std::vector<DType> kFloats = {DType::f64, DType::f32, DType::f16, DType::bf16};
inline const std::vector<DType> kIntegers = {DType::i64, DType::i32, DType::i16, DType::i8, DType::u8};
inline std::vector<DType> all_dtypes() {
  std::vector<DType> all;
  for (int i = 0; i < kDTypeCount; ++i) all.push_back(static_cast<DType>(i));
  return all;
}
inline std::vector<DType> real_dtypes() {
  std::vector<DType> all = kFloats;
  all.insert(all.end(), kIntegers.begin(), kIntegers.end());
  return all;
}

// Small whole numbers of either sign (0 and 1 for bool) that no two cells share by accident.
inline Array pattern(DType dtype, Sizes shape, int64_t start = 0) {
  std::vector<int64_t> values(static_cast<size_t>(element_count(shape)));
  for (size_t i = 0; i < values.size(); ++i) values[i] = (static_cast<int64_t>(i) + start) * 7 % 23 - 9;
  if (dtype == DType::u8)
    for (int64_t& v : values) v = std::abs(v);
  return store(dtype, std::move(shape), values);
}

// NaN equals NaN here, and -0 is not 0.
inline void expect_values(const Array& got, const std::vector<double>& expected) {
  const std::vector<double> values = load_double(got);
  ASSERT_EQ(values.size(), expected.size());
  for (size_t i = 0; i < values.size(); ++i) {
    if (std::isnan(expected[i])) {
      EXPECT_TRUE(std::isnan(values[i])) << "element " << i << " is " << values[i];
    } else {
      EXPECT_EQ(values[i], expected[i]) << "element " << i;
      if (is_floating(got.dtype())) {
        EXPECT_EQ(std::signbit(values[i]), std::signbit(expected[i])) << "element " << i;
      }
    }
  }
}
inline void expect_array(const Array& got, const Array& expected) {
  EXPECT_EQ(name_of(got.dtype()), name_of(expected.dtype()));
  ASSERT_EQ(got.shape(), expected.shape());
  expect_values(got, load_double(expected));
  if (is_complex(got.dtype())) {
    EXPECT_EQ(load_complex(got), load_complex(expected));
  }
}
inline void expect_near(const Array& got, const std::vector<double>& expected, double tolerance) {
  const std::vector<double> values = load_double(got);
  ASSERT_EQ(values.size(), expected.size());
  for (size_t i = 0; i < values.size(); ++i)
    EXPECT_NEAR(values[i], expected[i], tolerance * std::max(1.0, std::abs(expected[i]))) << "element " << i;
}

inline Shape fixed(const Sizes& sizes) { return Shape(sizes.begin(), sizes.end()); }

class Runner {
 public:
  bool f64_mode = false;
  uint64_t seed = 0;

  // Runs the op; `regions` builds the bodies of control flow.
  Arrays all(const std::string& op, const Arrays& operands, Attributes attributes = {}, std::vector<Graph> regions = {}) const {
    Program program;
    program.name = op;
    Builder b(program.graph, catalogue());
    Values values;
    for (size_t i = 0; i < operands.size(); ++i) {
      values.push_back(program.graph.add_input({logical(operands[i].dtype()), fixed(operands[i].shape())}));
      program.inputs.push_back({"x" + std::to_string(i), values.back(), {}, true});
    }
    const Values results = b.create_all(op, values, attributes, regions);
    for (size_t i = 0; i < results.size(); ++i) program.outputs.push_back({"output." + std::to_string(i), results[i]});
    program.graph.outputs = results;
    if (op != "nonzero") expect_round_trip(program, catalogue());

    const Arrays got = evaluate(program.graph.nodes.back(), program.graph, operands, {});
    for (size_t i = 0; i < got.size(); ++i) {
      const Type& type = program.graph.type(results[i]);
      EXPECT_EQ(name_of(got[i].dtype()), name_of(stored(type.dtype))) << op;
      if (op != "nonzero") {  // its size is data
        EXPECT_EQ(fixed(got[i].shape()), type.shape)
            << op << " gives " << to_string(got[i].shape()) << ", inferred " << to_string(type.shape);
      }
    }
    if (regions.empty() && op != "nonzero") expect_same_with_symbols(op, operands, attributes, got);
    return got;
  }
  Array operator()(const std::string& op, const Arrays& operands, Attributes attributes = {}) const {
    return all(op, operands, std::move(attributes)).at(0);
  }

  Arrays evaluate(const Node& node, const Graph& graph, const Arrays& operands, const Bindings& bindings) const {
    std::vector<const Array*> pointers;
    for (const Array& a : operands) pointers.push_back(&a);
    const RegionRunner run = [&](const Graph& region, Arrays inputs) { return run_graph(region, std::move(inputs), bindings); };
    Evaluation ev(node, graph, pointers, bindings, f64_mode, &run);
    ev.seed = seed;
    return node.op->evaluate(ev);
  }

  Arrays run_graph(const Graph& graph, Arrays inputs, const Bindings& bindings = {}) const {
    Arrays values(graph.values.size());
    for (size_t i = 0; i < inputs.size(); ++i) values[graph.inputs[i]] = inputs[i];
    for (const Node& node : graph.nodes) {
      Arrays operands;
      for (ValueId v : node.operands) operands.push_back(values[v]);
      const Arrays results = evaluate(node, graph, operands, bindings);
      for (size_t i = 0; i < results.size(); ++i) values[node.results[i]] = results[i];
    }
    Arrays outputs;
    for (ValueId v : graph.outputs) outputs.push_back(values[v]);
    return outputs;
  }

 private:
  // In f64 mode floating operands are stored as f64 whatever their dtype; the tests call it f32.
  DType logical(DType d) const {
    return f64_mode && d == DType::f64 ? DType::f32 : f64_mode && d == DType::c128 ? DType::c64 : d;
  }
  DType stored(DType d) const { return !f64_mode ? d : is_floating(d) ? DType::f64 : is_complex(d) ? DType::c128 : d; }

  void expect_same_with_symbols(const std::string& op, const Arrays& operands, const Attributes& attributes,
                                const Arrays& expected) const {
    Graph graph;
    Builder b(graph, catalogue());
    Bindings bindings;
    Values values;
    for (const Array& x : operands) {
      Type type{logical(x.dtype()), {}};
      for (int64_t size : x.shape()) {
        const std::string name = "s" + std::to_string(bindings.size());
        bindings[name] = size;
        type.shape.push_back(Dim::symbol(name));
      }
      values.push_back(graph.add_input(type));
    }
    const Values results = b.create_all(op, values, attributes);
    for (size_t i = 0; i < results.size(); ++i)
      EXPECT_EQ(pycandle::evaluate(graph.type(results[i]).shape, bindings), expected[i].shape()) << op << ", symbolic";
    const Arrays again = evaluate(graph.nodes.back(), graph, operands, bindings);
    for (size_t i = 0; i < again.size(); ++i) EXPECT_TRUE(again[i].same_bytes(expected[i])) << op << ", symbolic";
  }
};

inline const Runner run;
inline Runner in_f64() {
  Runner runner;
  runner.f64_mode = true;
  return runner;
}

// The error that doing this throws, as a person reads it.
template <class F> std::string error_of(F&& f) {
  try {
    f();
  } catch (const Error& error) {
    return error.text();
  }
  ADD_FAILURE() << "no error";
  return {};
}

}  // namespace pycandle
