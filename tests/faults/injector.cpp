#include "injector.h"

#include <fmt/format.h>

#include <cmath>
#include <map>
#include <stdexcept>
#include <utility>

#include "ir/builder.h"
#include "passes/rewriter.h"

namespace pycandle::faults {
namespace {

struct Site {
  Builder& b;
  const Node& node;
  Values operands;
  const Json& fault;

  Values call(const std::string& op, Values with, Attributes attributes) const {
    return b.create_all(op, std::move(with), std::move(attributes), node.regions);
  }
  Values original() const { return call(node.op->name, operands, node.attributes); }
  size_t which() const { return fault.value("operand", size_t{0}); }
  Values with_operand(ValueId v) const {
    Values changed = operands;
    changed.at(which()) = v;
    return call(node.op->name, changed, node.attributes);
  }
};

Attribute like(const Attribute& old, const Json& value) {
  const auto dims = [&] {
    Dims all;
    for (const Json& v : value) all.push_back(Dim(v.get<int64_t>()));
    return all;
  };
  if (value.is_null()) return std::monostate();
  if (value.is_boolean()) return value.get<bool>();
  if (value.is_string()) return value.get<std::string>();
  if (value.is_array() && std::holds_alternative<Dims>(old)) return dims();
  if (value.is_array()) return value.get<Ints>();
  if (value.is_number_integer() && std::holds_alternative<Dim>(old)) return Dim(value.get<int64_t>());
  if (value.is_number_integer() && std::holds_alternative<int64_t>(old)) return value.get<int64_t>();
  return value.get<double>();
}

ValueId in_chunks(Builder& b, ValueId x, int64_t axis, const Ints& order) {
  axis = axis < 0 ? axis + b.rank(x) : axis;
  const Dim each = floordiv(b.shape(x)[axis], Dim(static_cast<int64_t>(order.size())));
  Values parts;
  for (int64_t i : order) parts.push_back(b.slice(x, axis, each * Dim(i), each * Dim(i) + each));
  return b.concat(parts, axis);
}

// A norm over the last axes, written out with one step wrong.
Values norm(const Site& s, const std::string& wrong) {
  Builder& b = s.b;
  const ValueId x = s.operands[0];
  const double eps = std::get<double>(s.node.attributes.at(1).second);
  const Ints axes = last_axes(b.rank(x), std::get<Dims>(s.node.attributes.at(0).second).size());
  const bool is_rms = s.node.op->name == "rms_norm";
  const ValueId from_mean = is_rms ? x : b.sub(x, b.mean(x, axes));
  ValueId variance = b.mean(b.mul(from_mean, from_mean), axes);
  if (wrong == "unbiased") {
    Dim n(1);
    for (int64_t a : axes) n = n * b.shape(x)[a];
    variance = b.div(b.mul(variance, b.dim_value(n, b.dtype(x))), b.dim_value(n - Dim(1), b.dtype(x)));
  }
  ValueId y = wrong == "outside" ? b.div(from_mean, b.add(b.sqrt(variance), eps))
                                 : b.div(from_mean, b.sqrt(b.add(variance, eps)));
  if (s.operands.at(1) != kNoValue) y = b.mul(y, s.operands[1]);
  if (s.operands.size() > 2 && s.operands[2] != kNoValue) y = b.add(y, s.operands[2]);
  return {y};
}

using Edit = std::function<Values(const Site&)>;
const std::map<std::string, Edit> kEdits{
    {"attribute",
     [](const Site& s) {
       Attributes attributes = s.node.attributes;
       const auto set = [&](const std::string& name, const Json& value) {
         for (auto& [key, old] : attributes) {
           if (key == name) old = like(old, value);
         }
       };
       set(s.fault.at("name"), s.fault.at("value"));
       if (s.fault.contains("also")) set(s.fault.at("also"), s.fault.at("also_value"));
       return s.call(s.node.op->name, s.operands, attributes);
     }},
    {"op",  // another op on some of the operands
     [](const Site& s) {
       Values picked;
       for (const Json& i : s.fault.value("operands", Json::array())) picked.push_back(s.operands.at(i.get<size_t>()));
       Attributes attributes;
       const Json given = s.fault.value("attributes", Json::object());
       for (const auto& [key, value] : given.items()) attributes.emplace_back(key, like({}, value));
       if (s.fault.value("keep", false)) attributes = s.node.attributes;
       return s.call(s.fault.at("op"), picked.empty() ? s.operands : picked, attributes);
     }},
    {"swap",
     [](const Site& s) {
       Values changed = s.operands;
       std::swap(changed.at(s.fault.at("a").get<size_t>()), changed.at(s.fault.at("b").get<size_t>()));
       return s.call(s.node.op->name, changed, s.node.attributes);
     }},
    {"drop", [](const Site& s) { return s.with_operand(kNoValue); }},
    {"zero", [](const Site& s) { return s.with_operand(s.b.like(s.operands.at(s.which()), 0.0)); }},
    {"one", [](const Site& s) { return s.with_operand(s.b.like(s.operands.at(s.which()), 1.0)); }},
    {"transpose", [](const Site& s) { return s.with_operand(s.b.swap_axes(s.operands.at(s.which()), -2, -1)); }},
    {"flip",
     [](const Site& s) {
       const ValueId x = s.operands.at(s.which());
       Ints axes;
       for (const Json& a : s.fault.at("axes")) axes.push_back(a.get<int64_t>() + s.b.rank(x));
       return s.with_operand(s.b.reverse(x, axes));
     }},
    {"negate",
     [](const Site& s) {
       const ValueId x = s.operands.at(s.which());
       return s.with_operand(s.b.dtype(x) == DType::boolean ? s.b.logical_not(x) : s.b.neg(x));
     }},
    {"shift index",
     [](const Site& s) {
       const ValueId x = s.operands.at(s.which());
       const ValueId less = s.b.sub(x, s.b.full(int64_t{1}, s.b.dtype(x)));
       return s.with_operand(s.b.maximum(less, s.b.full(int64_t{0}, s.b.dtype(x))));
     }},
    {"chunks",  // of an operand
     [](const Site& s) {
       return s.with_operand(in_chunks(s.b, s.operands.at(s.which()), s.fault.at("axis"), s.fault.at("order").get<Ints>()));
     }},
    {"all chunks",  // of every operand from one on: the gates of a recurrent layer
     [](const Site& s) {
       Values changed = s.operands;
       for (size_t i = s.fault.at("from"); i < changed.size(); ++i)
         changed[i] = in_chunks(s.b, changed[i], 0, s.fault.at("order").get<Ints>());
       return s.call(s.node.op->name, changed, s.node.attributes);
     }},
    {"directions",  // the parameters of both directions of a recurrent layer
     [](const Site& s) {
       Values changed = s.operands;
       const size_t from = s.fault.at("from"), each = s.fault.at("each");
       for (size_t run = from; run + 2 * each <= changed.size(); run += 2 * each) {
         for (size_t i = 0; i < each; ++i) std::swap(changed[run + i], changed[run + each + i]);
       }
       return s.call(s.node.op->name, changed, s.node.attributes);
     }},
    {"result chunks",
     [](const Site& s) {
       Values results = s.original();
       results[0] = in_chunks(s.b, results[0], s.fault.at("axis"), s.fault.at("order").get<Ints>());
       return results;
     }},
    {"result flip",
     [](const Site& s) {
       Values results = s.original();
       results[0] = s.b.reverse(results[0], {s.fault.at("axis").get<int64_t>() + s.b.rank(results[0])});
       return results;
     }},
    {"heads last",  // split_heads that takes the width for the heads
     [](const Site& s) {
       Shape shape = s.b.shape(s.operands[0]);
       const Dim heads = std::get<Dim>(s.node.attributes.at(0).second), width = floordiv(shape.back(), heads);
       shape.back() = width;
       shape.push_back(heads);
       const ValueId split = s.b.reshape(s.operands[0], shape);
       return Values{s.b.swap_axes(s.b.swap_axes(split, -3, -1), -2, -1)};
     }},
    {"results turned",
     [](const Site& s) {
       Values results = s.original();
       std::rotate(results.begin(), results.begin() + 1, results.end());
       return results;
     }},
    {"scale",
     [](const Site& s) {
       Values results = s.original();
       results[0] = s.b.mul(results[0], s.fault.at("value").get<double>());
       return results;
     }},
    {"low precision",
     [](const Site& s) {
       Values changed = s.operands;
       for (ValueId& x : changed) {
         if (x != kNoValue && s.b.dtype(x) == DType::f32) x = s.b.cast(s.b.cast(x, DType::bf16), DType::f32);
       }
       return s.call(s.node.op->name, changed, s.node.attributes);
     }},
    {"epsilon outside", [](const Site& s) { return norm(s, "outside"); }},
    {"unbiased", [](const Site& s) { return norm(s, "unbiased"); }},
    {"square",  // outside of what a search would look for
     [](const Site& s) {
       Values results = s.original();
       results[0] = s.b.add(results[0], s.b.mul(s.b.mul(results[0], results[0]), s.fault.at("value").get<double>()));
       return results;
     }},
    {"smooth",  // each element gets a little of its neighbour
     [](const Site& s) {
       Values results = s.original();
       const int64_t axis = s.b.rank(results[0]) - 1;
       const Dim size = s.b.shape(results[0]).back();
       const ValueId turned = s.b.concat({s.b.slice(results[0], axis, 1, size), s.b.slice(results[0], axis, 0, 1)}, axis);
       results[0] = s.b.add(results[0], s.b.mul(turned, s.fault.at("value").get<double>()));
       return results;
     }},
};

bool is_of_values(const Json& fault) { return fault.at("edit") == "corrupt"; }
bool is_of_parameter(const Json& fault) { return fault.at("edit") == "parameter"; }

void change_parameter(Program& p, const Json& fault) {
  for (Parameter& q : p.parameters) {
    if (q.name != fault.at("name").get<std::string>()) continue;
    q.file = fault.at("file");
    q.key = fault.at("key");
  }
}

class FaultyExecutable final : public Executable {
 public:
  FaultyExecutable(std::unique_ptr<Executable> inner, Json fault, bool* changed)
      : inner_(std::move(inner)), fault_(std::move(fault)), changed_(changed) {}
  std::vector<Array> run(const RunRequest& request) const override {
    std::vector<Array> outputs = inner_->run(request);
    Array& a = outputs.at(0);
    if (!is_floating(a.dtype()) || a.size() == 0) return outputs;
    std::vector<double> values = load_double(a);
    const std::string how = fault_.at("how");
    const double amount = fault_.value("amount", 1.0);
    if (how == "element") values[values.size() / 2] += amount;
    if (how == "noise") {
      uint64_t state = 12345;
      for (double& v : values) {
        state = state * 6364136223846793005u + 1442695040888963407u;
        v *= 1 + amount * (static_cast<double>(state >> 40) * 0x1p-24 - 0.5);
      }
    }
    const int64_t row = a.rank() == 0 ? 1 : a.shape().back();
    if (how == "odd rows" && row % 2 == 1) {
      for (size_t i = static_cast<size_t>(row) - 1; i < values.size(); i += static_cast<size_t>(row)) values[i] *= 0.5;
    }
    if (how == "last row") {
      for (size_t i = values.size() - static_cast<size_t>(row); i < values.size(); ++i) values[i] = 0;
    }
    const Array before = std::exchange(a, store(a.dtype(), a.shape(), values));
    *changed_ = *changed_ || !a.same_bytes(before);
    return outputs;
  }

 private:
  std::unique_ptr<Executable> inner_;
  Json fault_;
  bool* changed_;
};

class FaultyBackend final : public Backend {
 public:
  FaultyBackend(const Backend& inner, const Program& whole, Json fault, bool* changed)
      : inner_(inner), whole_nodes_(whole.graph.nodes.size()), fault_(std::move(fault)), changed_(changed) {}
  std::string name() const override { return inner_.name() + " with a fault"; }
  bool claims(const Call& call) const override { return inner_.claims(call); }
  std::unique_ptr<Executable> compile(const Program& p, const OpTable& table, std::shared_ptr<const ParameterSource> parameters,
                                      const PipelineOptions& options, std::vector<PassTiming>* timings) const override {
    const auto number = fault_.value("node", int64_t{-1});
    const bool is_whole = p.graph.nodes.size() == whole_nodes_;
    const auto is_node = [&](size_t index, const Node& node) {
      return (is_whole ? static_cast<int64_t>(index) : node.origin.sliced_from) == number;
    };
    bool has_node = false;
    for (size_t n = 0; n < p.graph.nodes.size(); ++n) has_node = has_node || is_node(n, p.graph.nodes[n]);
    if (is_of_values(fault_)) {
      auto inner = inner_.compile(p, table, std::move(parameters), options, timings);
      if (!has_node || is_whole) return inner;
      return std::make_unique<FaultyExecutable>(std::move(inner), fault_, changed_);
    }
    return inner_.compile(injected(p, table, fault_, is_node), table, std::move(parameters), options, timings);
  }

 private:
  const Backend& inner_;
  size_t whole_nodes_;
  Json fault_;
  bool* changed_;
};

}  // namespace

Program injected(Program p, const OpTable& table, const Json& fault, const std::function<bool(size_t, const Node&)>& is_node) {
  if (is_of_parameter(fault)) {
    change_parameter(p, fault);
    return p;
  }
  const auto edit = kEdits.find(fault.at("edit"));
  if (edit == kEdits.end()) throw std::runtime_error("no such edit");
  size_t index = 0;
  return rewrite_outside_regions(std::move(p), table,
                                 [&](Builder& b, const Node& node, const Values& operands) -> std::optional<Values> {
                                   if (!is_node(index++, node)) return std::nullopt;
                                   return edit->second({b, node, operands, fault});
                                 });
}

std::unique_ptr<Backend> faulty_backend(const Backend& inner, const Program& whole, Json fault, bool* changed) {
  return std::make_unique<FaultyBackend>(inner, whole, std::move(fault), changed);
}

}  // namespace pycandle::faults
