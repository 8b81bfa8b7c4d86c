// Random numbers: a function of the seed and the position, so that threads and machines agree.
#include <cmath>
#include <limits>
#include <numbers>

#include "ops/core/constraints.h"
#include "ops/core/evaluate.h"

namespace pycandle {

namespace {

// SplitMix64: the state is a counter, so any position can be asked for.
uint64_t random_bits(uint64_t seed, uint64_t position) {
  uint64_t z = seed + (position + 1) * 0x9e3779b97f4a7c15u;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}
// In [0, 1), with no more digits than the dtype has: rounding at the store must not give 1.
double uniform_at(uint64_t seed, uint64_t position, int digits) {
  return std::ldexp(static_cast<double>(random_bits(seed, position) >> (64 - digits)), -digits);
}

int digits_of(DType logical) { return logical == DType::f64 ? 53 : logical == DType::f32 ? 24 : logical == DType::f16 ? 11 : 8; }

template <class F> Array drawn(const Evaluation& ev, F at) {
  Array out(ev.out_dtype(), ev.sizes("shape"));
  for_chunks(out.size(), [&](int64_t first, int64_t count) {
    std::array<double, kChunk> values;
    for (int64_t i = 0; i < count; ++i) values[i] = at(static_cast<uint64_t>(first + i));
    store_chunk(out, first, count, values.data());
  });
  return out;
}

OpDef random_op(const char* name, const char* doc) {
  return primitive(name)
      .doc(doc)
      .attributes(attr<Dims>("shape"), attr<DType>("dtype"))
      .constraint(std::string(name) + "_c1", "dtype is floating", [](const Call& c) { return is_floating(c.dtype("dtype")); })
      .infer([](const Call& c) { return Type{c.dtype("dtype"), c.dims("shape")}; })
      .random();
}

[[noreturn]] void no_distribution(const char* what, double found) {
  throw Error(ErrorCode::bad_input, "these weights cannot be sampled from")
      .op("multinomial")
      .expected(what)
      .found(std::to_string(found));
}

// Each of a row arrives at a random time, at the rate of its weight, and the first to arrive are drawn; put back each time,
// a draw is where a random number falls among the running sums.
OpDef multinomial() {
  return primitive("multinomial")
      .doc("places of the last axis drawn at random by their weights, with or without putting them back")
      .operands("weights")
      .attributes(attr<Dim>("count"), attr<bool>("replacement", false))
      .constraint("multinomial_c1", "weights are floating, a vector or a matrix with a class",
                  [](const Call& c) {
                    return is_floating(c.type("weights").dtype) && (c.rank("weights") == 1 || c.rank("weights") == 2) &&
                           may_be_at_most(1, c.shape("weights").back());
                  })
      .constraint("multinomial_c2", "at least one is drawn, and without replacement no more than there are",
                  [](const Call& c) {
                    return may_be_at_most(1, c.dim("count")) &&
                           (c.boolean("replacement") || may_be_at_most(c.dim("count"), c.shape("weights").back()));
                  })
      .constraint("multinomial_c3", "there are at most 2^24 classes",
                  [](const Call& c) { return may_be_at_most(c.shape("weights").back(), int64_t{1} << 24); })
      .infer([](const Call& c) {
        Type y{DType::i64, c.shape("weights")};
        y.shape.back() = c.dim("count");
        return y;
      })
      .random()
      .evaluator([](const Evaluation& ev) {
        const Array& weights = ev.array("weights");
        const int64_t classes = weights.shape().back(), count = ev.integer("count"), rows = weights.size() / classes;
        Sizes shape = weights.shape();
        shape.back() = count;
        Array out(DType::i64, shape);
        std::vector<double> row(static_cast<size_t>(classes));
        std::vector<int64_t> chosen(static_cast<size_t>(count));
        for (int64_t r = 0; r < rows; ++r) {
          load_chunk(weights, r * classes, classes, row.data());
          double total = 0;
          int64_t positive = 0;
          for (double w : row) {
            if (!(w >= 0 && w <= std::numeric_limits<double>::max()))
              no_distribution("weights that are finite and not negative", w);
            total += w;
            positive += w > 0;
          }
          if (total <= 0) no_distribution("a sum above 0", total);
          const auto number = [&](int64_t i) {
            return uniform_at(ev.seed, static_cast<uint64_t>(r * std::max(classes, count) + i), 53);
          };
          if (ev.boolean("replacement")) {
            for (int64_t i = 0; i < count; ++i) {
              double left = number(i) * total;
              int64_t place = 0, last = 0;
              for (; place < classes && left >= row[place]; ++place) left -= row[place];
              for (int64_t k = 0; k < classes; ++k) last = row[k] > 0 ? k : last;
              chosen[i] = std::min(place, last);
            }
          } else {
            if (positive < count) no_distribution("as many weights above 0 as are drawn", static_cast<double>(positive));
            std::vector<std::pair<double, int64_t>> arrivals;
            for (int64_t k = 0; k < classes; ++k)
              if (row[k] > 0) arrivals.emplace_back(-std::log(1 - number(k)) / row[k], k);
            std::sort(arrivals.begin(), arrivals.end());
            for (size_t i = 0; i < chosen.size(); ++i) chosen[i] = arrivals[i].second;
          }
          store_chunk(out, r * count, count, chosen.data());
        }
        return out;
      });
}

}  // namespace

std::vector<OpDef> random_ops() {
  return {
      random_op("uniform", "random numbers in [0, 1)").evaluator([](const Evaluation& ev) {
        const int digits = digits_of(ev.dtype("dtype"));
        return drawn(ev, [&](uint64_t position) { return uniform_at(ev.seed, position, digits); });
      }),
      random_op("normal", "random numbers with mean 0 and variance 1").evaluator([](const Evaluation& ev) {
        return drawn(ev, [&](uint64_t position) {
          const double radius = std::sqrt(-2 * std::log(1 - uniform_at(ev.seed, 2 * position, 53)));
          return radius * std::cos(2 * std::numbers::pi * uniform_at(ev.seed, 2 * position + 1, 53));
        });
      }),
      multinomial(),
  };
}

}  // namespace pycandle
