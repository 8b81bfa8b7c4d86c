#include "pycandle/control_flow.h"

#include "capture/calls.h"

namespace pycandle::front {
namespace {

// A body captured as a graph of its own.
Graph region_of(const Builder& outside, const std::vector<Type>& inputs, const Body& body) {
  Capture inside;
  Capture* around = Capture::current();
  if (outside.ranges()) inside.ranges = *outside.ranges();
  if (around) {
    inside.program.symbols = around->program.symbols;
    inside.program.files = around->program.files;
  }
  Tensors arguments;
  for (const Type& type : inputs) arguments.push_back(inside.tensor(inside.program.graph.add_input(type)));
  {
    const CaptureScope scope(&inside);
    for (const Tensor& t : body(arguments)) inside.program.graph.outputs.push_back(inside.value_of(t));
  }
  if (!inside.leaves.empty() || !inside.states.empty())
    throw Error(ErrorCode::bad_input, "the body of a control-flow op uses a tensor from outside")
        .found(inside.leaves.empty() ? inside.states[0]->name : inside.program.parameters[0].name)
        .hint("pass it as an operand");
  if (around) around->program.files = inside.program.files;
  for (Node& node : inside.program.graph.nodes) node.origin.call = outside.origin.call;  // regions have no calls of their own
  return std::move(inside.program.graph);
}

std::vector<Type> types_of(const Builder& b, Values::const_iterator begin, Values::const_iterator end) {
  std::vector<Type> types;
  for (auto v = begin; v != end; ++v) types.push_back(b.type(*v));
  return types;
}

std::vector<const Tensor*> pointers(const Tensors& tensors) {
  std::vector<const Tensor*> all;
  for (const Tensor& t : tensors) all.push_back(&t);
  return all;
}

}  // namespace

namespace functional {

Tensors cond(const Tensor& condition, const Tensors& operands, const Body& yes, const Body& no, Here here) {
  std::vector<const Tensor*> all = pointers(operands);
  all.insert(all.begin(), &condition);
  return Capture::apply("cond", all, here, [&](Builder& b, const Values& v) {
    const std::vector<Type> types = types_of(b, v.begin() + 1, v.end());
    std::vector<Graph> regions{region_of(b, types, yes), region_of(b, types, no)};
    return b.create_all("cond", v, {}, std::move(regions));
  });
}

Tensors while_loop(const Tensors& carries, const Body& condition, const Body& body, Here here) {
  return Capture::apply("while_loop", pointers(carries), here, [&](Builder& b, const Values& v) {
    const std::vector<Type> types = types_of(b, v.begin(), v.end());
    std::vector<Graph> regions{region_of(b, types, condition), region_of(b, types, body)};
    return b.create_all("while_loop", v, {}, std::move(regions));
  });
}

Tensors scan(const Tensors& values, int64_t carries, Dim length, const Body& body, const ScanOptions& options, Here here) {
  return Capture::apply("scan", pointers(values), here, [&](Builder& b, const Values& v) {
    std::vector<Type> types = types_of(b, v.begin(), v.end());
    for (size_t i = static_cast<size_t>(carries); i < types.size(); ++i) {
      if (types[i].shape.empty()) throw Error(ErrorCode::bad_input, "a sequence of scan has no axis").found(types[i].text());
      types[i].shape.erase(types[i].shape.begin());
    }
    std::vector<Graph> regions{region_of(b, types, body)};
    return b.create_all("scan", v, {{"carries", carries}, {"length", attribute(length)}, {"reverse", options.reverse}},
                        std::move(regions));
  });
}

}  // namespace functional
}  // namespace pycandle::front
