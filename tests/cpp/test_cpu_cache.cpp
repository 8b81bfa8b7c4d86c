// Attention over a cache, and numbers of 16 bits, against naive loops in f64 on every instruction set of the machine: odd sizes,
// empty caches, sequences of different lengths, grouped heads, windows and masks, the length in one piece and in several.
#include <algorithm>

#include "backends/cpu/kernels/kernels.h"
#include "base/half.h"
#include "kernel_cases.h"

namespace pycandle::cpu {
namespace {

float value_of(WeightFormat format, const float* at, int64_t i) {
  if (format == WeightFormat::f32) return at[i];
  const uint16_t bits = reinterpret_cast<const uint16_t*>(at)[i];
  return format == WeightFormat::bf16 ? detail::bf16_to_float(bits) : detail::f16_to_float(bits);
}

// One row of queries: scores, softmax and the sum of values, in f64.
void expect_row(const CachedAttention& g, int64_t b, int64_t h, int64_t i, const float* out) {
  const int64_t kv = h / (g.call.heads / g.call.kv_heads), position = i + g.starts[b];
  const int64_t keys = g.call.masked_bias == 0 ? std::min(g.call.keys, std::max<int64_t>(0, position + 1)) : g.call.keys;
  std::vector<double> weight(static_cast<size_t>(keys));
  double top = -INFINITY, total = 0;
  for (int64_t j = 0; j < keys; ++j) {
    double score = 0;
    for (int64_t d = 0; d < g.call.head_size; ++d)
      score += double(g.call.q[b * g.call.q_batch + h * g.call.q_head + i * g.call.q_row + d]) *
               double(value_of(g.kept, g.call.k, b * g.call.k_batch + kv * g.call.k_head + j * g.call.k_row + d));
    score *= double(g.call.scale);
    if (g.slopes != nullptr) score += double(g.slopes[h] * g.positions[b * g.positions_batch + j] * g.alibi_scale);
    const int64_t at = b * g.call.mask_batch + h * g.call.mask_head + i * g.call.mask_row + j * g.call.mask_col;
    const bool may = (g.call.key_mask == nullptr || g.call.key_mask[b * g.call.key_mask_batch + j * g.call.key_mask_col] != 0) &&
                     j <= position && (g.call.window == 0 || j > position - g.call.window);
    if (!may) score = g.call.masked_bias != 0 ? double(static_cast<float>(score) + g.call.masked_bias) : -INFINITY;
    if (g.call.mask != nullptr) score = double(static_cast<float>(score) + g.call.mask[at]);
    if (g.call.allowed != nullptr && g.call.allowed[at] == 0) score = -INFINITY;
    weight[j] = score;
    top = std::max(top, score);
  }
  const bool nothing = std::isinf(top);
  for (double& w : weight) total += w = nothing ? 0 : std::exp(w - top);
  for (int64_t d = 0; d < g.call.value_size; ++d) {
    double want = 0, scale = 0;
    for (int64_t j = 0; j < keys && !nothing; ++j) {
      const double term = weight[j] *
                          double(value_of(g.kept, g.call.v, b * g.call.v_batch + kv * g.call.v_head + j * g.call.v_row + d)) /
                          total;
      want += term;
      scale += std::fabs(term);
    }
    if (nothing) want = g.call.nan_when_nothing ? NAN : 0;
    const double looser = g.call.masked_bias == -30 ? 500 : g.slopes != nullptr ? 300 : 64;
    ASSERT_TRUE(agrees(out[d], want, (scale + 1e-3) * looser * kEps))
        << "start " << g.starts[b] << " queries " << g.call.queries << " keys " << g.call.keys << " head " << g.call.head_size
        << " splits " << g.splits << " at " << b << ' ' << h << ' ' << i << ' ' << d;
  }
}

void expect_attention(const CachedAttention& g, const Guarded<float>& out) {
  for (int64_t b = 0; b < g.call.batch; ++b)
    for (int64_t h = 0; h < g.call.heads; ++h)
      for (int64_t i = 0; i < g.call.queries; ++i)
        expect_row(g, b, h, i, out.data() + b * g.call.out_batch + h * g.call.out_head + i * g.call.out_row);
}

struct Strides {
  int64_t &batch, &head, &row;
};

CachedAttention sizes(Random& random, bool is_few) {
  CachedAttention g;
  g.call.batch = random.integer(1, 3);
  g.call.kv_heads = random.integer(1, 3);
  g.call.heads = g.call.kv_heads * random.integer(1, 4);
  g.call.queries = is_few ? random.integer(1, 8) : random.some_size();
  g.call.keys = g.call.queries + (random.chance(0.3) ? random.integer(100, 300) : random.size());
  g.call.head_size = random.chance(0.4) ? random.some_size() : random.integer(1, 5) * 16;
  g.call.value_size = random.chance(0.7) ? g.call.head_size : random.some_size();
  g.call.scale = 1 / std::sqrt(static_cast<float>(g.call.head_size));
  g.call.causal = true;
  if (random.chance(0.3)) g.call.window = random.integer(1, 90);
  g.call.nan_when_nothing = random.chance(0.2);
  if (random.chance(0.2)) g.call.masked_bias = random.chance(0.5) ? -30.0f : std::numeric_limits<float>::lowest();
  return g;
}

// Rows of a cache as they are kept; those that nothing may read are NaN.
Guarded<float> kept_rows(Random& random, const CachedAttention& g, const int64_t* starts, const Kernels& k, int64_t size,
                         bool heads_last, Strides s) {
  s.row = heads_last ? g.call.kv_heads * size : size;
  s.head = heads_last ? size : g.call.keys * size;
  s.batch = g.call.kv_heads * g.call.keys * size;
  Guarded<float> rows = numbers(random, g.call.batch * s.batch);
  for (int64_t b = 0; b < g.call.batch && g.call.masked_bias == 0; ++b)
    for (int64_t h = 0; h < g.call.kv_heads; ++h)
      for (int64_t j = starts[b] + g.call.queries; j < g.call.keys; ++j)
        std::fill_n(rows.data() + b * s.batch + h * s.head + j * s.row, size, kNan);
  if (g.kept == WeightFormat::f32) return rows;
  std::vector<uint16_t> halves(static_cast<size_t>(rows.size()));
  k.narrow(g.kept, rows.data(), rows.size(), halves.data());
  std::memcpy(rows.data(), halves.data(), halves.size() * 2);
  return rows;
}

// The kernel for whole sequences, as plans use it over a cache.
void each_sequence(Random& random, const Kernels& k, const CachedAttention& g) {
  for (int64_t b = 0; b < g.call.batch; ++b) {
    Attention here = g.call;
    here.batch = 1;
    here.query_offset = g.starts[b];
    if (here.masked_bias == 0) here.keys = g.starts[b] + here.queries;
    here.q += b * here.q_batch, here.k += b * here.k_batch, here.v += b * here.v_batch, here.out += b * here.out_batch;
    if (here.mask) here.mask += b * here.mask_batch;
    if (here.allowed) here.allowed += b * here.allowed_batch;
    if (here.key_mask) here.key_mask += b * here.key_mask_batch;
    RUN(k, attention, here);
  }
}

void cached_case(Random& random, const Kernels& k, bool is_few) {
  CachedAttention g = sizes(random, is_few);
  constexpr WeightFormat formats[] = {WeightFormat::f32, WeightFormat::f32, WeightFormat::bf16, WeightFormat::f16};
  if (is_few) g.kept = formats[random.integer(0, 3)];
  if (is_few && random.chance(0.4)) g.splits = random.integer(2, 5);
  Guarded<int64_t> starts(random, g.call.batch);
  for (int64_t b = 0; b < g.call.batch; ++b) starts[b] = random.chance(0.2) ? 0 : random.integer(0, g.call.keys - g.call.queries);
  g.starts = starts.data();
  const bool heads_last = random.chance(0.5);
  const Guarded<float> key = kept_rows(random, g, g.starts, k, g.call.head_size, heads_last,
                                       {g.call.k_batch, g.call.k_head, g.call.k_row});
  const Guarded<float> value = kept_rows(random, g, g.starts, k, g.call.value_size, heads_last,
                                         {g.call.v_batch, g.call.v_head, g.call.v_row});
  g.call.q_row = g.call.heads * g.call.head_size, g.call.q_head = g.call.head_size,
  g.call.q_batch = g.call.queries * g.call.q_row;
  g.call.out_row = g.call.heads * g.call.value_size, g.call.out_head = g.call.value_size,
  g.call.out_batch = g.call.queries * g.call.out_row;
  const Guarded<float> q = numbers(random, g.call.batch * g.call.q_batch), slopes = numbers(random, g.call.heads);
  Guarded<float> out(random, g.call.batch * g.call.out_batch),
      mask = numbers(random, g.call.batch * g.call.heads * g.call.queries * g.call.keys);
  Guarded<float> positions(random, g.call.batch * g.call.keys);
  Guarded<uint8_t> allowed(random, mask.size()), key_mask(random, g.call.batch * g.call.keys);
  for (int64_t i = 0; i < mask.size(); ++i) {
    allowed[i] = random.chance(0.7);
    if (random.chance(0.1)) mask[i] = -kInf;
  }
  for (int64_t i = 0; i < key_mask.size(); ++i) {
    key_mask[i] = random.chance(0.7);
    positions[i] = static_cast<float>(i % g.call.keys);
  }
  g.call.mask_row = g.call.allowed_row = g.call.keys;
  g.call.mask_col = g.call.allowed_col = 1;
  g.call.mask_head = g.call.allowed_head = g.call.queries * g.call.keys;
  g.call.mask_batch = g.call.allowed_batch = g.call.heads * g.call.queries * g.call.keys;
  if (random.chance(0.3)) g.call.mask = mask.data();
  if (random.chance(0.3)) g.call.allowed = allowed.data();
  if (random.chance(0.2)) g.call.key_mask = key_mask.data();
  g.call.key_mask_batch = g.call.keys;
  if (is_few && random.chance(0.2)) g.slopes = slopes.data();
  g.positions = positions.data();
  g.positions_batch = g.call.keys;
  g.alibi_scale = 0.125f;
  g.call.q = q.data(), g.call.k = key.data(), g.call.v = value.data(), g.call.out = out.data();
  Guarded<float> partial(random, k.partial_attention_size(g));
  g.partial = partial.data();
  if (is_few) {
    RUN(k, cached_attention, g);
    if (g.splits > 1) RUN(k, merge_attention, g);
  } else {
    each_sequence(random, k, g);
  }
  ASSERT_TRUE(out.intact());
  ASSERT_TRUE(partial.intact());
  expect_attention(g, out);
}

TEST(CachedAttention, AgreesWithALoop) {
  Random random(31);
  each_isa([&](const Kernels& k) {
    for (int i = 0; i < 250 && !testing::Test::HasFatalFailure(); ++i) cached_case(random, k, true);
  });
}

TEST(CachedAttention, OfManyQueriesAgreesWithALoop) {
  Random random(32);
  each_isa([&](const Kernels& k) {
    for (int i = 0; i < 60 && !testing::Test::HasFatalFailure(); ++i) cached_case(random, k, false);
  });
}

TEST(CachedAttention, KeepsANanToTheQueryThatHasIt) {
  Random random(33);
  each_isa([&](const Kernels& k) {
    CachedAttention g;
    g.call.batch = g.call.kv_heads = 1;
    g.call.heads = 3;
    g.call.queries = 2;
    g.call.keys = 150;
    g.call.head_size = g.call.value_size = 24;
    g.call.q_head = g.call.out_head = g.call.k_row = g.call.v_row = 24;
    g.call.q_row = g.call.out_row = 72;
    g.call.causal = true;
    const int64_t start = 148;
    g.starts = &start;
    Guarded<float> q = numbers(random, 144), out(random, 144);
    q[72 + 24 + 5] = kNan;  // query 1 of head 1
    const Guarded<float> rows = numbers(random, 150 * 24);
    g.call.q = q.data(), g.call.k = g.call.v = rows.data(), g.call.out = out.data();
    RUN(k, cached_attention, g);
    for (int64_t i = 0; i < 144; ++i) ASSERT_EQ(std::isnan(out[i]), i / 24 == 4) << i / 24;
  });
}

TEST(Halves, WidenToWhatTheyAre) {
  std::vector<uint16_t> all(65536);
  for (size_t i = 0; i < all.size(); ++i) all[i] = static_cast<uint16_t>(i);
  each_isa([&](const Kernels& k) {
    for (const WeightFormat format : {WeightFormat::bf16, WeightFormat::f16}) {
      std::vector<float> wide(all.size());
      k.widen(format, all.data(), 65536, wide.data());
      for (size_t i = 0; i < all.size(); ++i) {
        const float want = format == WeightFormat::bf16 ? detail::bf16_to_float(all[i]) : detail::f16_to_float(all[i]);
        ASSERT_TRUE(std::isnan(want) ? std::isnan(wide[i]) : std::memcmp(&wide[i], &want, 4) == 0) << i << ": " << wide[i];
      }
    }
  });
}

TEST(Halves, AreRoundedAsTheReferenceRounds) {
  Random random(34);
  std::vector<float> x;
  for (int i = 0; i < 20000; ++i) {
    const auto bits = static_cast<uint32_t>(random.integer(0, UINT32_MAX));
    float any;
    std::memcpy(&any, &bits, 4);
    x.push_back(any);
    x.push_back(std::ldexp(random.normal(), static_cast<int>(random.integer(-30, 18))));
  }
  for (const float edge :
       {65504.0f, 65519.9f, 65520.0f, 0.0f, -0.0f, kInf, -kInf, kNan, 0x1p-24f, 0x1p-25f, 0x1.8p-25f, 0x1p-14f})
    x.push_back(edge);
  each_isa([&](const Kernels& k) {
    for (const WeightFormat format : {WeightFormat::bf16, WeightFormat::f16}) {
      std::vector<uint16_t> narrow(x.size());
      k.narrow(format, x.data(), static_cast<int64_t>(x.size()), narrow.data());
      for (size_t i = 0; i < x.size(); ++i) {
        const bool is_bf16 = format == WeightFormat::bf16;
        const uint16_t want = is_bf16 ? detail::double_to_bf16(double(x[i])) : detail::double_to_f16(double(x[i]));
        if (std::isnan(x[i])) {
          ASSERT_TRUE(std::isnan(is_bf16 ? detail::bf16_to_float(narrow[i]) : detail::f16_to_float(narrow[i])));
        } else {
          ASSERT_EQ(narrow[i], want) << x[i];
        }
      }
    }
  });
}

}  // namespace
}  // namespace pycandle::cpu
