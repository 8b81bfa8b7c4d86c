// Loss functions: an error for each element, then a mean, a sum, or all of them.
#include <cmath>
#include <numbers>

#include "ops/nn/loss_helpers.h"

namespace pycandle {
namespace {

using Error2 = std::function<ValueId(Builder&, const Call&, ValueId x, ValueId target)>;

// A loss of two tensors of one type, element by element; of complex ones it is real.
OpDef elementwise_loss(const std::string& name, const char* text, Error2 error, unsigned kinds = floats) {
  return functional(name)
      .doc(text)
      .operands("x", "target")
      .attributes(attr<std::string>("reduction", std::string("mean")))
      .constraint(name + "_c1", "x and target have one type, " + text_of_kinds(kinds),
                  [kinds](const Call& c) {
                    return is_one_of(c.type("x").dtype, kinds) && c.type("x").dtype == c.type("target").dtype &&
                           c.agree(c.shape("x"), c.shape("target"));
                  })
      .constraint(name + "_c2", "reduction is none, mean or sum", knows_reduction)
      .infer([](const Call& c) {
        return Type{real_of(c.type("x").dtype), c.string("reduction") == "none" ? c.shape("x") : Shape{}};
      })
      .decompose([error = std::move(error)](Builder& b, const Call& c) {
        const ValueId errors = error(b, c, b.widened(c.value("x")), b.widened(c.value("target")));
        return b.narrowed(reduced(b, c, errors), real_of(c.type("x").dtype));
      });
}

// Both tensors promoted and broadcast; `names` are further arguments of kind number, copied as attributes.
std::function<Values(AtenCall&)> build(const char* op, std::vector<std::string> names = {}, std::vector<std::string> flags = {}) {
  return [op, names = std::move(names), flags = std::move(flags)](AtenCall& a) {
    const char* first = a.has_argument("self") ? "self" : "input";
    const Operand x = a.operand(first), target = a.operand("target");
    const Values xs = promote_and_broadcast(a.b, {x, target}, float_result(result_type(a.b, {x, target})));
    Attributes attributes{{"reduction", reduction_of(a)}};
    for (const std::string& name : names) attributes.emplace_back(name, a.number(name));
    for (const std::string& flag : flags) attributes.emplace_back(flag, a.boolean(flag));
    return a.b.create_all(op, xs, std::move(attributes));
  };
}

ValueId distance(Builder& b, ValueId x, ValueId target) { return b.abs(b.sub(x, target)); }

// quadratic below the threshold, linear above
ValueId huber(Builder& b, ValueId d, double beta, double scale) {
  if (beta == 0) return d;
  const ValueId near = b.mul(b.square(d), 0.5 * scale / beta), far = b.mul(b.sub(d, 0.5 * beta), scale);
  return b.select(b.compare("lt", d, beta), near, far);
}

// t log t, 0 at 0
ValueId x_log_x(Builder& b, ValueId t) {
  const ValueId zero = b.full(0.0, b.dtype(t));
  return b.select(b.compare("eq", t, 0.0), zero, b.mul(t, b.log(t)));
}

std::vector<OpDef> elementwise_losses() {
  return {
      elementwise_loss("mse_loss", "(x - target)²",
                       [](Builder& b, const Call&, ValueId x, ValueId y) { return b.square(b.sub(x, y)); })
          .from_aten_call("aten.mse_loss.default", build("mse_loss"))
          .sample("F.mse_loss(t(3, 4), t(3, 4))")
          .sample("F.mse_loss(t(3, 4), t(3, 4), reduction='none')"),
      elementwise_loss(
          "l1_loss", "|x - target|", [](Builder& b, const Call&, ValueId x, ValueId y) { return distance(b, x, y); }, inexact)
          .from_aten_call("aten.l1_loss.default", build("l1_loss"))
          .sample("F.l1_loss(t(3, 4, dtype=torch.complex64), t(3, 4, dtype=torch.complex64))")
          .sample("F.l1_loss(t(3, 4), t(3, 4), reduction='sum')"),
      elementwise_loss(
          "smooth_l1_loss", "quadratic below beta, linear above",
          [](Builder& b, const Call& c, ValueId x, ValueId y) { return huber(b, distance(b, x, y), c.number("beta"), 1); })
          .attributes(attr<double>("beta", 1.0))
          .constraint("smooth_l1_loss_c3", "beta is not negative", [](const Call& c) { return c.number("beta") >= 0; })
          .from_aten_call("aten.smooth_l1_loss.default", build("smooth_l1_loss", {"beta"}))
          .sample("F.smooth_l1_loss(t(3, 4), t(3, 4), reduction='none', beta=0.7)")
          .sample("F.smooth_l1_loss(t(3, 4), t(3, 4), beta=0.0)"),
      elementwise_loss("huber_loss", "quadratic below delta, linear above, of slope delta",
                       [](Builder& b, const Call& c, ValueId x, ValueId y) {
                         return huber(b, distance(b, x, y), c.number("delta"), c.number("delta"));
                       })
          .attributes(attr<double>("delta", 1.0))
          .constraint("huber_loss_c3", "delta is positive", [](const Call& c) { return c.number("delta") > 0; })
          .from_aten_call("aten.huber_loss.default", build("huber_loss", {"delta"}))
          .sample("F.huber_loss(t(3, 4), t(3, 4), reduction='none', delta=0.7)"),
      elementwise_loss("soft_margin_loss", "log(1 + exp(-target * x))",
                       [](Builder& b, const Call& c, ValueId x, ValueId y) {
                         // torch rounds after each step: in f16 the exponential is infinite from 11.1 on.
                         const DType dtype = c.type("x").dtype;
                         const auto rounded = [&](ValueId v) { return b.cast(b.narrowed(v, dtype), b.dtype(x)); };
                         return rounded(b.unary("log1p", rounded(b.exp(rounded(b.neg(b.mul(x, y)))))));
                       })
          .from_aten_call("aten.soft_margin_loss.default", build("soft_margin_loss"))
          .sample("F.soft_margin_loss(t(3, 4), t(3, 4).sign())")
          .sample("F.soft_margin_loss(20 * t(3, 4, dtype=torch.float16), t(3, 4, dtype=torch.float16).sign(), reduction='none')"),
      elementwise_loss("hinge_embedding_loss", "x where target is 1, max(0, margin - x) where it is -1",
                       [](Builder& b, const Call& c, ValueId x, ValueId y) {
                         const ValueId zero = b.full(0.0, b.dtype(x));
                         const ValueId far = b.maximum(b.sub(c.number("margin"), x), 0.0);
                         return b.add(b.select(b.compare("ne", y, 1.0), far, zero), b.select(b.compare("ne", y, -1.0), x, zero));
                       })
          .attributes(attr<double>("margin", 1.0))
          .from_aten_call("aten.hinge_embedding_loss.default", build("hinge_embedding_loss", {"margin"}))
          .sample("F.hinge_embedding_loss(t(3, 4), t(3, 4).sign(), 0.7)"),
      elementwise_loss("kl_div", "target * (log(target) - x), or with target as a logarithm",
                       [](Builder& b, const Call& c, ValueId x, ValueId y) {
                         if (c.boolean("log_target")) return b.mul(b.exp(y), b.sub(y, x));
                         return b.sub(x_log_x(b, y), b.mul(y, x));
                       })
          .attributes(attr<bool>("log_target", false))
          .from_aten_call("aten.kl_div.default", build("kl_div", {}, {"log_target"}))
          .sample("F.kl_div(t(3, 4), t(3, 4, low=0, high=1), reduction='batchmean')")
          .sample("F.kl_div(t(3, 4), t(3, 4), reduction='none', log_target=True)"),
      elementwise_loss(
          "poisson_nll_loss", "exp(x) - target * x, with x as a rate or its logarithm",
          [](Builder& b, const Call& c, ValueId x, ValueId y) {
            const bool log_input = c.boolean("log_input");
            ValueId loss = log_input ? b.sub(b.exp(x), b.mul(y, x)) : b.sub(x, b.mul(y, b.log(b.add(x, c.number("eps")))));
            if (!c.boolean("full")) return loss;
            const ValueId stirling = b.add(b.sub(b.mul(y, b.log(y)), y), b.mul(b.log(b.mul(y, 2 * std::numbers::pi)), 0.5));
            return b.add(loss, b.select(b.compare("le", y, 1.0), b.full(0.0, b.dtype(x)), stirling));
          })
          .attributes(attr<bool>("log_input", true), attr<bool>("full", false), attr<double>("eps", 1e-8))
          .from_aten_call("aten.poisson_nll_loss.default", build("poisson_nll_loss", {"eps"}, {"log_input", "full"}))
          .sample("F.poisson_nll_loss(t(3, 4), t(3, 4, low=0, high=5), full=True)")
          .sample("F.poisson_nll_loss(i(3, 4, low=0, high=3), i(3, 4, low=0, high=5), full=True)")
          .sample("F.poisson_nll_loss(t(3, 4, low=0, high=1), t(3, 4, low=0, high=5), log_input=False, reduction='none')")};
}

// Binary cross entropy of probabilities or of logits, with weights.
OpDef binary_cross_entropy(const std::string& name, bool logits) {
  OpDef def = functional(name);
  def.doc(logits ? "binary cross entropy of logits" : "binary cross entropy of probabilities")
      .operands("x", "target", optional("weight"));
  if (logits) def.operands(optional("pos_weight"));
  return def.attributes(attr<std::string>("reduction", std::string("mean")))
      .constraint(name + "_c1", "x and target have one floating type",
                  [](const Call& c) {
                    return is_floating(c.type("x").dtype) && c.type("x").dtype == c.type("target").dtype &&
                           c.agree(c.shape("x"), c.shape("target"));
                  })
      .constraint(name + "_c2", "reduction is none, mean or sum", knows_reduction)
      .infer([](const Call& c) { return Type{c.type("x").dtype, c.string("reduction") == "none" ? c.shape("x") : Shape{}}; })
      .decompose([logits](Builder& b, const Call& c) {
        const ValueId x = b.widened(c.value("x")), y = b.widened(c.value("target"));
        ValueId loss;
        if (logits) {
          const ValueId log_sigmoid = b.sub(b.minimum(x, 0.0), b.unary("log1p", b.exp(b.neg(b.abs(x)))));
          const ValueId negative = b.mul(b.sub(1.0, y), x);
          if (const auto weight = c.maybe("pos_weight")) {
            const ValueId factor = b.add(b.mul(b.sub(b.widened(*weight), 1.0), y), 1.0);
            loss = b.sub(negative, b.mul(factor, log_sigmoid));
          } else {
            loss = b.sub(negative, log_sigmoid);
          }
        } else {
          const auto safe_log = [&](ValueId v) { return b.maximum(b.log(v), -100.0); };  // as torch: log(0) counts as -100
          loss = b.sub(b.mul(b.sub(y, 1.0), b.maximum(b.unary("log1p", b.neg(x)), -100.0)), b.mul(y, safe_log(x)));
        }
        if (const auto weight = c.maybe("weight")) loss = b.mul(loss, b.widened(*weight));
        return b.narrowed(reduced(b, c, loss), c.type("x").dtype);
      })
      .from_aten_call("aten." + name + ".default", [name, logits](AtenCall& a) {
        Values operands = promote_and_broadcast(a.b, {a.operand("self"), a.operand("target")});
        operands.push_back(a.maybe_tensor("weight").value_or(kNoValue));
        if (logits) operands.push_back(a.maybe_tensor("pos_weight").value_or(kNoValue));
        return a.b.create_all(name, operands, {{"reduction", reduction_of(a)}});
      });
}

// ---- losses over classes

int64_t class_axis(const Call& c) { return c.rank("x") == 1 ? 0 : 1; }

// The value of the target class for every position; ignored targets give weight 0.
struct Picked {
  ValueId value, weight;
};
Picked picked(Builder& b, const Call& c, ValueId x) {
  const int64_t axis = class_axis(c);
  const ValueId target = c.value("target");
  const ValueId valid = b.compare("ne", target, static_cast<double>(c.integer("ignore_index")));
  const ValueId safe = b.select(valid, target, b.full(int64_t{0}, b.dtype(target)));
  const ValueId value = b.squeeze(b.create("gather", {x, b.unsqueeze(safe, axis)}, {{"axis", axis}}), axis);
  const ValueId one = b.full(1.0, b.dtype(x));
  const ValueId weight = c.has("weight") ? b.create("take", {b.widened(c.value("weight")), safe}, {{"axis", int64_t{0}}})
                                         : b.broadcast_to(one, b.shape(safe));
  return {value, b.select(valid, weight, b.full(0.0, b.dtype(x)))};
}

// Weighted errors; the mean divides by the sum of the weights.
ValueId weighted_reduction(Builder& b, const Call& c, ValueId errors, ValueId weights) {
  if (c.string("reduction") == "none") return errors;
  const ValueId total = b.sum(errors, every_axis(b, errors), false);
  return c.string("reduction") == "sum" ? total : b.div(total, b.sum(weights, every_axis(b, weights), false));
}

OpDef class_loss(const std::string& name) {
  return functional(name)
      .operands("x", "target", optional("weight"))
      .attributes(attr<std::string>("reduction", std::string("mean")), attr<int64_t>("ignore_index", int64_t{-100}))
      .constraint(name + "_c1", "x is floating and has a class axis",
                  [](const Call& c) { return is_floating(c.type("x").dtype) && c.rank("x") >= 1; })
      .constraint(name + "_c2", "reduction is none, mean or sum", knows_reduction)
      .infer([](const Call& c) {
        Type y = c.type("x");
        y.shape.erase(y.shape.begin() + class_axis(c));
        if (c.string("reduction") != "none") y.shape.clear();
        return y;
      });
}

OpDef nll_loss() {
  OpDef def = class_loss("nll_loss");
  // The second result of the forward ones, the sum of the weights, is for training.
  for (const char* name : {"nll_loss_nd", "nll_loss", "nll_loss2d", "nll_loss_forward", "nll_loss2d_forward"})
    def.from_aten_call(std::string("aten.") + name + ".default", [](AtenCall& a) {
      return a.b.create_all("nll_loss", {a.tensor("self"), a.tensor("target"), a.maybe_tensor("weight").value_or(kNoValue)},
                            {{"reduction", reduction_of(a)}, {"ignore_index", a.integer("ignore_index")}});
    });
  return def.doc("minus the log-probability of the target class")
      .constraint("nll_loss_c3", "target holds the class of every position",
                  [](const Call& c) {
                    Shape positions = c.shape("x");
                    positions.erase(positions.begin() + class_axis(c));
                    return is_index(c.type("target").dtype) && c.agree(c.shape("target"), positions);
                  })
      .decompose([](Builder& b, const Call& c) {
        const Picked p = picked(b, c, b.widened(c.value("x")));
        return b.narrowed(weighted_reduction(b, c, b.neg(b.mul(p.value, p.weight)), p.weight), c.type("x").dtype);
      })
      .sample("F.nll_loss(t(6, 4), i(6, low=0, high=3))")
      .sample("F.nll_loss(t(6, 4, 2), i(6, 2, low=0, high=3), t(4, low=0.5, high=2), ignore_index=1)")
      .sample("F.nll_loss(t(4), i(low=0, high=3), reduction='none')");
}

OpDef cross_entropy() {
  return class_loss("cross_entropy")
      .doc("nll_loss of log_softmax(x); target holds classes or probabilities")
      .attributes(attr<double>("label_smoothing", 0.0))
      .decompose([](Builder& b, const Call& c) {
        const int64_t axis = class_axis(c);
        const ValueId x = b.widened(c.value("x"));
        const Dim classes = b.shape(x)[axis];
        const double smoothing = c.number("label_smoothing");
        const ValueId shifted = b.sub(x, b.max(x, {axis}));
        const ValueId logs = b.sub(shifted, b.log(b.sum(b.exp(shifted), {axis})));
        const ValueId weighted = c.has("weight") ? b.mul(logs, along_axis(b, b.widened(c.value("weight")), axis, b.rank(x)))
                                                 : logs;
        const ValueId share = b.div(b.full(smoothing, b.dtype(x)), b.dim_value(classes, b.dtype(x)));  // of every class
        ValueId loss;
        if (is_floating(c.type("target").dtype)) {
          ValueId target = b.widened(c.value("target"));
          if (smoothing > 0) target = b.add(b.mul(target, 1 - smoothing), share);
          loss = reduced(b, c, b.neg(b.sum(b.mul(weighted, target), {axis}, false)));
        } else {
          const Picked p = picked(b, c, logs);
          loss = weighted_reduction(b, c, b.neg(b.mul(p.value, p.weight)), p.weight);
          if (smoothing > 0) {
            const ValueId none = b.full(0.0, b.dtype(x)),
                          valid = b.compare("ne", c.value("target"), static_cast<double>(c.integer("ignore_index")));
            const ValueId all = b.select(valid, b.neg(b.sum(weighted, {axis}, false)), none);
            const ValueId smoothed = weighted_reduction(b, c, all, c.has("weight") ? p.weight : b.cast(valid, b.dtype(x)));
            loss = b.add(b.mul(loss, 1 - smoothing), b.mul(smoothed, share));
          }
        }
        return b.narrowed(loss, c.type("x").dtype);
      })
      .from_aten_call("aten.cross_entropy_loss.default",
                      [](AtenCall& a) {
                        return a.b.create_all("cross_entropy",
                                              {a.tensor("self"), a.tensor("target"), a.maybe_tensor("weight").value_or(kNoValue)},
                                              {{"reduction", reduction_of(a)},
                                               {"ignore_index", a.integer("ignore_index")},
                                               {"label_smoothing", a.number("label_smoothing")}});
                      })
      .sample("F.cross_entropy(t(6, 4), i(6, low=0, high=3))")
      .sample("F.cross_entropy(t(6, 4, 2), i(6, 2, low=0, high=3), t(4, low=0.5, high=2), ignore_index=1)")
      .sample("F.cross_entropy(t(6, 4), i(6, low=0, high=3), t(4, low=0.5, high=2), label_smoothing=0.2)")
      .sample("F.cross_entropy(t(6, 4), i(6, low=0, high=3), label_smoothing=0.2, reduction='none')")
      .sample("F.cross_entropy(t(6, 4, 3), t(6, 4, 3, low=0, high=1), t(4, low=0.5, high=2), label_smoothing=0.1)")
      .sample("F.cross_entropy(t(4), i(low=0, high=3))");
}

}  // namespace

std::vector<OpDef> loss_ops() {
  std::vector<OpDef> ops = elementwise_losses();
  ops.push_back(binary_cross_entropy("binary_cross_entropy", false)
                    .sample("F.binary_cross_entropy(t(3, 4, low=0, high=1), t(3, 4, low=0, high=1))")
                    .sample("F.binary_cross_entropy(t(3, 4, low=0, high=1), m(3, 4).to(t(1)), t(4), reduction='none')"));
  ops.push_back(binary_cross_entropy("binary_cross_entropy_with_logits", true)
                    .sample("F.binary_cross_entropy_with_logits(t(3, 4), t(3, 4, low=0, high=1))")
                    .sample("F.binary_cross_entropy_with_logits(t(3, 4), t(3, 4, low=0, high=1), t(4), reduction='sum', "
                            "pos_weight=t(4, low=0.5, high=2))"));
  ops.push_back(nll_loss());
  ops.push_back(cross_entropy());
  return ops;
}

}  // namespace pycandle
