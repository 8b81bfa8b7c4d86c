// cond, while_loop and scan. Their regions are closed: whatever a region reads is an operand.
#include "ops/core/constraints.h"
#include "ops/core/evaluate.h"

namespace pycandle {

namespace {

bool may_be(const Type& a, const Type& b) { return a.dtype == b.dtype && may_equal(a.shape, b.shape); }
bool may_be(const std::vector<Type>& a, const std::vector<Type>& b) {
  return a.size() == b.size() &&
         std::equal(a.begin(), a.end(), b.begin(), [](const Type& p, const Type& q) { return may_be(p, q); });
}
std::vector<Type> types_of(const Graph& graph, const Values& values) {
  std::vector<Type> types;
  for (ValueId v : values) types.push_back(graph.type(v));
  return types;
}
std::vector<Type> inputs_of(const Graph& region) { return types_of(region, region.inputs); }
std::vector<Type> outputs_of(const Graph& region) { return types_of(region, region.outputs); }
std::vector<Type> operands_of(const Call& c, const char* name) { return types_of(c.graph(), c.values(name)); }
bool is_predicate(const Type& type) { return type.dtype == DType::boolean && type.rank() == 0; }

std::vector<Array> shared(const std::vector<const Array*>& arrays) {
  std::vector<Array> copies;
  for (const Array* a : arrays) copies.push_back(*a);
  return copies;
}

OpDef cond() {
  return primitive("cond")
      .doc("the results of the first region when the condition holds, else of the second; both take the operands")
      .operands("condition", variadic("operands"))
      .regions(2)
      .constraint("cond_c1", "condition is a 0-d bool", [](const Call& c) { return is_predicate(c.type("condition")); })
      .constraint("cond_c2", "both regions take the operands",
                  [](const Call& c) {
                    return may_be(operands_of(c, "operands"), inputs_of(c.regions()[0])) &&
                           may_be(operands_of(c, "operands"), inputs_of(c.regions()[1]));
                  })
      .constraint("cond_c3", "both regions give the same types",
                  [](const Call& c) { return may_be(outputs_of(c.regions()[0]), outputs_of(c.regions()[1])); })
      .infer_all([](const Call& c) { return outputs_of(c.regions()[0]); })
      .evaluator_all([](const Evaluation& ev) {
        const bool holds = load_int(ev.array("condition"))[0] != 0;
        return ev.run_region(holds ? 0 : 1, shared(ev.arrays("operands")));
      });
}

OpDef while_loop() {
  return primitive("while_loop")
      .doc("the carries after the body (second region) has run as long as the first region says true of them")
      .operands(variadic("carries"))
      .regions(2)
      .constraint("while_loop_c1", "the condition takes the carries and gives a 0-d bool",
                  [](const Call& c) {
                    const Graph& condition = c.regions()[0];
                    return may_be(operands_of(c, "carries"), inputs_of(condition)) && condition.outputs.size() == 1 &&
                           is_predicate(condition.type(condition.outputs[0]));
                  })
      .constraint("while_loop_c2", "the body takes and gives the carries",
                  [](const Call& c) {
                    return may_be(operands_of(c, "carries"), inputs_of(c.regions()[1])) &&
                           may_be(operands_of(c, "carries"), outputs_of(c.regions()[1]));
                  })
      .infer_all([](const Call& c) { return operands_of(c, "carries"); })
      .evaluator_all([](const Evaluation& ev) {
        std::vector<Array> carries = shared(ev.arrays("carries"));
        while (load_int(ev.run_region(0, carries)[0])[0] != 0) carries = ev.run_region(1, std::move(carries));
        return carries;
      });
}

// Element t of the first axis.
Array step_of(const Array& xs, int64_t t) {
  Sizes shape(xs.shape().begin() + 1, xs.shape().end());
  const Sizes strides = row_major_strides(shape);
  return strided_copy(xs, std::move(shape), strides, t * count_after(xs.shape(), 0));
}
void put_step(Array& ys, int64_t t, const Array& y) {
  require(ys.dtype() == y.dtype() && ys.size() / ys.shape()[0] == y.size(), "a step of scan has another type than its results");
  copy_strided(y, 0, row_major_strides(y.shape()), ys, t * y.size(), row_major_strides(y.shape()), y.shape());
}

OpDef scan() {
  return primitive("scan")
      .doc(
          "runs the region length times: (carries, x_t) → (carries, y_t); xs are sliced and ys stacked on axis 0, backwards with "
          "reverse")
      .operands(variadic("values"))
      .attributes(attr<int64_t>("carries"), attr<Dim>("length"), attr<bool>("reverse", false))
      .regions(1)
      .constraint("scan_c1", "the first `carries` values are the initial carries, the others sequences of `length` on axis 0",
                  [](const Call& c) {
                    const std::vector<Type> values = operands_of(c, "values");
                    const int64_t carries = c.integer("carries");
                    if (carries < 0 || carries > static_cast<int64_t>(values.size())) return false;
                    return std::all_of(values.begin() + carries, values.end(),
                                       [&](const Type& xs) { return xs.rank() >= 1 && may_equal(xs.shape[0], c.dim("length")); });
                  })
      .constraint("scan_c2", "the region takes the carries and one step of each sequence",
                  [](const Call& c) {
                    std::vector<Type> values = operands_of(c, "values");
                    for (size_t i = static_cast<size_t>(c.integer("carries")); i < values.size(); ++i)
                      values[i].shape.erase(values[i].shape.begin());
                    return may_be(values, inputs_of(c.regions()[0]));
                  })
      .constraint("scan_c3", "the region gives the carries first",
                  [](const Call& c) {
                    const std::vector<Type> outputs = outputs_of(c.regions()[0]), values = operands_of(c, "values");
                    const int64_t carries = c.integer("carries");
                    if (static_cast<int64_t>(outputs.size()) < carries) return false;
                    return may_be(std::vector<Type>(outputs.begin(), outputs.begin() + carries),
                                  std::vector<Type>(values.begin(), values.begin() + carries));
                  })
      .infer_all([](const Call& c) {
        std::vector<Type> types = outputs_of(c.regions()[0]);
        for (size_t i = static_cast<size_t>(c.integer("carries")); i < types.size(); ++i)
          types[i].shape.insert(types[i].shape.begin(), c.dim("length"));
        return types;
      })
      .evaluator_all([](const Evaluation& ev) {
        const std::vector<const Array*> values = ev.arrays("values");
        const int64_t length = ev.integer("length");
        const size_t carries = static_cast<size_t>(ev.integer("carries"));
        for (size_t i = carries; i < values.size(); ++i) {
          if (values[i]->shape()[0] != length) {
            throw Error(ErrorCode::bad_input, "a sequence of scan has the wrong length")
                .op("scan")
                .expected(std::to_string(length))
                .found(std::to_string(values[i]->shape()[0]));
          }
        }
        std::vector<Array> results;
        for (size_t i = 0; i < carries; ++i) results.push_back(*values[i]);
        for (size_t i = carries; i < ev.node().results.size(); ++i) results.emplace_back(ev.out_dtype(i), ev.out_shape(i));
        for (int64_t step = 0; step < length; ++step) {
          const int64_t t = ev.boolean("reverse") ? length - 1 - step : step;
          std::vector<Array> inputs(results.begin(), results.begin() + static_cast<int64_t>(carries));
          for (size_t i = carries; i < values.size(); ++i) inputs.push_back(step_of(*values[i], t));
          const std::vector<Array> outputs = ev.run_region(0, std::move(inputs));
          for (size_t i = 0; i < carries; ++i) results[i] = outputs[i];
          for (size_t i = carries; i < outputs.size(); ++i) put_step(results[i], t, outputs[i]);
        }
        return results;
      });
}

}  // namespace

std::vector<OpDef> control_flow_ops() { return {cond(), while_loop(), scan()}; }

}  // namespace pycandle
