#include "emit/onnx/complex_pairs.h"

#include <algorithm>
#include <map>
#include <set>
#include <string_view>

#include "ops/core/functional_helpers.h"
#include "passes/rewriter.h"

namespace pycandle::emit::onnx {
namespace {

DType part_of(DType d) { return d == DType::c128 ? DType::f64 : DType::f32; }

Type pairs_of(Type type) {
  type.dtype = part_of(type.dtype);
  type.shape.emplace_back(2);
  return type;
}

const OpDef& dft() {
  static const OpDef op = primitive(kDftOfPairs)
                              .doc(
                                  "the Fourier transform of complex numbers as pairs; an inverse one is scaled as ONNX scales it")
                              .operands("x")
                              .attributes(attr<int64_t>("axis"), attr<bool>("inverse", false))
                              .infer([](const Call& c) { return c.type("x"); });
  return op;
}

// A complex value of the new program is a constant that stands for it, and the pairs beside it: nobody reads the constant once
// all its users are rewritten, and one that is left is an op without a form.
class PairsRule {
 public:
  // How many inputs the new graph begins with, and which of them are pairs already.
  explicit PairsRule(std::vector<ValueId> inputs) : inputs_(std::move(inputs)) {}

  std::optional<Values> operator()(Builder& b, const Node& node, const Values& operands) {
    const bool has_complex = std::any_of(operands.begin(), operands.end(),
                                         [&](ValueId v) { return v != kNoValue && is_pair(v); });
    const bool makes_complex = node.results.size() == 1 && makes(b, node, operands);
    if ((!has_complex && !makes_complex) || node.results.size() != 1) return std::nullopt;
    const std::optional<ValueId> made = written(b, node, operands);
    if (!made) return std::nullopt;
    return Values{makes_complex ? stand_in(b, *made) : *made};
  }

  ValueId pairs(ValueId v) const {
    const auto found = pairs_.find(v);
    return found == pairs_.end() ? v : found->second;
  }

 private:
  bool is_pair(ValueId v) const { return pairs_.count(v) != 0 || std::find(inputs_.begin(), inputs_.end(), v) != inputs_.end(); }

  bool makes(Builder& b, const Node& node, const Values& operands) const {
    const std::string& op = node.op->name;
    static const std::set<std::string_view> real = {"real", "imag", "abs", "angle"};
    if (op == "cast" || op == "constant")
      return is_complex(Call(*node.op, b.graph(), operands, node.attributes, {}).dtype("dtype"));
    if (op == "make_complex") return true;
    if (real.count(op) != 0) return false;
    return std::any_of(operands.begin(), operands.end(), [&](ValueId v) { return v != kNoValue && is_pair(v); });
  }

  ValueId stand_in(Builder& b, ValueId made) {
    Type type = b.type(made);
    type.shape.pop_back();
    const DType d = type.dtype == DType::f64 ? DType::c128 : DType::c64;
    const ValueId constant = b.create("constant", {}, {{"value", std::complex<double>()}, {"shape", Shape{}}, {"dtype", d}});
    const ValueId wide = b.create("broadcast", {constant}, {{"shape", type.shape}, {"axes", Ints{}}});
    pairs_.emplace(wide, made);
    return wide;
  }

  struct Parts {
    ValueId re, im;
  };
  Parts parts(Builder& b, ValueId v) const {
    const ValueId p = pairs(v);
    return {b.select_index(p, b.rank(p) - 1, 0), b.select_index(p, b.rank(p) - 1, 1)};
  }
  static ValueId joined(Builder& b, ValueId re, ValueId im) {
    const int64_t rank = b.rank(re);
    return b.concat({b.unsqueeze(re, rank), b.unsqueeze(im, rank)}, rank);
  }

  std::optional<ValueId> written(Builder& b, const Node& node, const Values& operands) const {
    const Call c(*node.op, b.graph(), operands, node.attributes, {});
    if (auto made = created(b, c, operands)) return made;
    if (auto made = arithmetic(b, c, operands)) return made;
    return moved(b, c, operands);
  }

  std::optional<ValueId> created(Builder& b, const Call& c, const Values& operands) const {
    const std::string& op = c.op().name;
    if (op == "constant") {
      const Scalar s = c.scalar("value");
      const auto* z = std::get_if<std::complex<double>>(&s);
      const DType d = part_of(c.dtype("dtype"));
      return joined(b, b.full(z ? z->real() : as_double(s), d, c.dims("shape")), b.full(z ? z->imag() : 0.0, d, c.dims("shape")));
    }
    if (op == "make_complex") return joined(b, operands[0], operands[1]);
    if (op != "cast") return std::nullopt;
    const DType to = c.dtype("dtype");
    if (!is_complex(to)) return std::nullopt;
    if (is_pair(operands[0])) return b.cast(pairs(operands[0]), part_of(to));
    const ValueId re = b.cast(operands[0], part_of(to));
    return joined(b, re, b.full(0.0, part_of(to), b.shape(re)));
  }

  std::optional<ValueId> arithmetic(Builder& b, const Call& c, const Values& operands) const {
    const std::string& op = c.op().name;
    const auto all_pairs = [&] { return std::all_of(operands.begin(), operands.end(), [&](ValueId v) { return is_pair(v); }); };
    if (op == "dot_general" || op == "matmul" || op == "mul" || op == "div" || op == "add" || op == "sub") {
      if (!all_pairs()) return std::nullopt;
      if (op == "add" || op == "sub") return b.binary(op, pairs(operands[0]), pairs(operands[1]));
      const Parts x = parts(b, operands[0]), y = parts(b, operands[1]);
      if (op == "div") {
        const ValueId size = b.add(b.square(y.re), b.square(y.im));
        return joined(b, b.div(b.add(b.mul(x.re, y.re), b.mul(x.im, y.im)), size),
                      b.div(b.sub(b.mul(x.im, y.re), b.mul(x.re, y.im)), size));
      }
      const auto times = [&](ValueId l, ValueId r) {
        Attributes attributes;
        for (const AttrSpec& spec : c.op().attr_specs) attributes.emplace_back(spec.name, c.attribute(spec.name));
        return b.create(op, {l, r}, std::move(attributes));
      };
      return joined(b, b.sub(times(x.re, y.re), times(x.im, y.im)), b.add(times(x.re, y.im), times(x.im, y.re)));
    }
    if (operands.size() != 1) return std::nullopt;
    if (op == "neg") return b.neg(pairs(operands[0]));
    if (op == "fft") {
      const ValueId x = pairs(operands[0]);
      const Node transform{&dft(), {x}, {{"axis", c.integer("axis")}, {"inverse", c.boolean("inverse")}}, {}, {}, b.origin};
      const ValueId y = b.graph().add_node(transform, {b.type(x)}).results[0];
      if (!c.boolean("inverse")) return y;
      return b.mul(y, b.dim_value(b.shape(x)[static_cast<size_t>(c.integer("axis"))], b.dtype(x)));  // ONNX divides by it
    }
    const Parts x = parts(b, operands[0]);
    if (op == "real") return x.re;
    if (op == "imag") return x.im;
    if (op == "conj") return joined(b, x.re, b.neg(x.im));
    if (op == "abs") return b.sqrt(b.add(b.square(x.re), b.square(x.im)));
    if (op == "angle") return b.binary("atan2", x.im, x.re);
    if (op == "exp") return joined(b, b.mul(b.exp(x.re), b.unary("cos", x.im)), b.mul(b.exp(x.re), b.unary("sin", x.im)));
    return std::nullopt;
  }

  // What computes nothing does the same with one axis more.
  std::optional<ValueId> moved(Builder& b, const Call& c, const Values& operands) const {
    const std::string& op = c.op().name;
    const ValueId x = pairs(operands.empty() ? kNoValue : operands[0]);
    const auto with = [](auto list, auto last) {
      list.push_back(last);
      return list;
    };
    if (op == "reshape") return b.reshape(x, with(c.dims("shape"), Dim(2)));
    if (op == "broadcast")
      return b.broadcast(x, with(c.dims("shape"), Dim(2)),
                         with(c.integers("axes"), static_cast<int64_t>(c.dims("shape").size())));
    if (op == "transpose") return b.transpose(x, with(c.integers("permutation"), b.rank(x) - 1));
    if (op == "slice")
      return b.create("slice", {x},
                      {{"starts", with(c.dims("starts"), Dim(0))},
                       {"stops", with(c.dims("stops"), Dim(2))},
                       {"steps", with(c.integers("steps"), int64_t{1})}});
    if (op == "pad" && c.scalar("value") == Scalar(0.0))
      return b.pad(x, with(c.dims("low"), Dim(0)), with(c.dims("high"), Dim(0)), 0.0);
    if (op == "reverse") return b.reverse(x, c.integers("axes"));
    if (op == "reduce_sum") return b.create(op, {x}, {{"axes", c.integers("axes")}});
    if (op == "concat") {
      Values all;
      for (const ValueId v : operands) all.push_back(pairs(v));
      return b.concat(all, c.integer("axis"));
    }
    if (op == "take" && !is_pair(operands[1])) return b.create(op, {x, operands[1]}, {{"axis", c.integer("axis")}});
    if (op == "select") return b.select(b.unsqueeze(operands[0], b.rank(operands[0])), pairs(operands[1]), pairs(operands[2]));
    return std::nullopt;
  }

  std::vector<ValueId> inputs_;
  std::map<ValueId, ValueId> pairs_;
};

}  // namespace

Program with_complex_pairs(Program p, const OpTable& table) {
  const auto is_complex_value = [&](ValueId v) { return is_complex(p.graph.type(v).dtype); };
  const bool has_any = std::any_of(p.graph.values.begin(), p.graph.values.end(),
                                   [](const Value& v) { return is_complex(v.type.dtype); });
  if (!has_any) return p;
  std::vector<ValueId> inputs;  // the new graph begins with the inputs of the old one
  for (const Input& input : p.inputs) {
    if (!is_complex_value(input.value)) continue;
    p.graph.values[input.value].type = pairs_of(p.graph.type(input.value));
    const auto place = std::find(p.graph.inputs.begin(), p.graph.inputs.end(), input.value);
    inputs.push_back(static_cast<ValueId>(place - p.graph.inputs.begin()));
  }
  PairsRule rule(inputs);
  p = rewrite_outside_regions(std::move(p), table,
                              [&](Builder& b, const Node& node, const Values& operands) { return rule(b, node, operands); });
  for (Output& output : p.outputs) output.value = rule.pairs(output.value);
  p.bind_outputs();
  return p;
}

}  // namespace pycandle::emit::onnx
