// The discrete Fourier transform of any length, in double.
#include <cmath>
#include <numbers>

#include "ops/core/constraints.h"
#include "ops/core/evaluate.h"

namespace pycandle {

namespace {

// e^(sign * 2 pi i * k / n); the angle is reduced first, so that it keeps its digits.
Complex root_of_unity(int64_t k, int64_t n, int sign) {
  const double angle = sign * 2 * std::numbers::pi * static_cast<double>(k % n) / static_cast<double>(n);
  return {std::cos(angle), std::sin(angle)};
}

class Fft {
 public:
  Fft(int64_t n, int sign) : n_(n), sign_(sign), roots_(static_cast<size_t>(n)) {
    for (int64_t k = 0; k < n; ++k) roots_[k] = root_of_unity(k, n, sign);
    int64_t rest = n;
    for (int64_t p = 2; p * p <= rest; ++p) {
      for (; rest % p == 0; rest /= p) factors_.push_back(p);
    }
    if (rest > 1) factors_.push_back(rest);
    if (!factors_.empty() && factors_.back() > kLargestFactor) prepare_chirp();
  }

  void run(const Complex* in, Complex* out) const {
    if (chirp_fft_) return run_chirp(in, out);
    std::vector<Complex> work(static_cast<size_t>(n_));
    transform(in, 1, out, n_, 0, work.data());
  }

 private:
  static constexpr int64_t kLargestFactor = 64;  // longer prime factors cost more than the detour over a power of two

  // Decimation in time: p transforms of n/p elements, then n/p butterflies of p. `work` is scratch for one butterfly.
  void transform(const Complex* in, int64_t stride, Complex* out, int64_t n, size_t level, Complex* work) const {
    if (n == 1) {
      *out = *in;
      return;
    }
    const int64_t p = factors_[level], m = n / p;
    for (int64_t q = 0; q < p; ++q) transform(in + q * stride, stride * p, out + q * m, m, level + 1, work);
    const int64_t step = n_ / n;  // roots of unity of n are every step-th root of n_
    for (int64_t k = 0; k < m; ++k) {
      for (int64_t q = 0; q < p; ++q) work[q] = product_of(out[q * m + k], roots_[q * k * step]);
      if (p == 2) {
        out[k] = work[0] + work[1];
        out[m + k] = work[0] - work[1];
        continue;
      }
      for (int64_t j = 0; j < p; ++j) {  // summed in long double: a long factor has many terms
        long double re = work[0].real(), im = work[0].imag();
        for (int64_t q = 1; q < p; ++q) {
          const Complex root = roots_[q * j % p * (n_ / p)];
          const long double a = work[q].real(), b = work[q].imag(), c = root.real(), d = root.imag();
          re += a * c - b * d;
          im += a * d + b * c;
        }
        out[j * m + k] = {static_cast<double>(re), static_cast<double>(im)};
      }
    }
  }

  // Bluestein: with kq = (k² + q² - (k - q)²) / 2 the transform is a convolution with a chirp, done at a power of two.
  void prepare_chirp() {
    int64_t length = 1;
    while (length < 2 * n_ - 1) length *= 2;
    chirp_.resize(static_cast<size_t>(n_));
    for (int64_t k = 0; k < n_; ++k) chirp_[k] = root_of_unity(k * k % (2 * n_), 2 * n_, sign_);
    chirp_fft_ = std::make_unique<Fft>(length, -1);
    std::vector<Complex> filter(static_cast<size_t>(length));
    for (int64_t k = 0; k < n_; ++k) {
      filter[k] = filter[(length - k) % length] = std::conj(chirp_[k]);
    }
    filter_.resize(filter.size());
    chirp_fft_->run(filter.data(), filter_.data());
  }
  void run_chirp(const Complex* in, Complex* out) const {
    const size_t length = filter_.size();
    std::vector<Complex> a(length), b(length);
    for (size_t k = 0; k < chirp_.size(); ++k) a[k] = product_of(in[k], chirp_[k]);
    chirp_fft_->run(a.data(), b.data());
    for (size_t k = 0; k < length; ++k)
      b[k] = std::conj(product_of(b[k], filter_[k]));  // conjugated: the inverse by the forward one
    chirp_fft_->run(b.data(), a.data());
    for (size_t k = 0; k < chirp_.size(); ++k) out[k] = product_of(std::conj(a[k]), chirp_[k]) / static_cast<double>(length);
  }

  int64_t n_;
  int sign_;
  std::vector<Complex> roots_;
  Ints factors_;
  std::vector<Complex> chirp_, filter_;
  std::unique_ptr<Fft> chirp_fft_;
};

OpDef fft() {
  return primitive("fft")
      .doc("discrete Fourier transform along an axis, forward (e^-i…) or inverse (e^+i…), neither of them scaled")
      .operands("x")
      .attributes(attr<int64_t>("axis"), attr<bool>("inverse", false))
      .constraint("fft_c1", "x is complex", [](const Call& c) { return is_complex(c.type("x").dtype); })
      .constraint("fft_c2", "axis is an axis of x", [](const Call& c) { return is_axis(c.integer("axis"), c.rank("x")); })
      .infer([](const Call& c) { return c.type("x"); })
      .rounds(Rounding::relative)
      .evaluator([](const Evaluation& ev) {
        const Array& x = ev.array("x");
        const int64_t axis = ev.integer("axis"), length = x.shape()[axis];
        if (x.size() == 0) return Array(ev.out_dtype(), x.shape());
        const Array rows = axis_to_end(x, axis);
        Array out(ev.out_dtype(), rows.shape());
        const Fft transform(length, ev.boolean("inverse") ? 1 : -1);
        parallel_for(x.size() / length, std::max<int64_t>(1, 1024 / length), [&](int64_t begin, int64_t end) {
          std::vector<Complex> in(static_cast<size_t>(length)), result(static_cast<size_t>(length));
          for (int64_t r = begin; r < end; ++r) {
            load_chunk(rows, r * length, length, in.data());
            transform.run(in.data(), result.data());
            store_chunk(out, r * length, length, result.data());
          }
        });
        return axis_from_end(out, axis);
      });
}

}  // namespace

std::vector<OpDef> fft_ops() { return {fft()}; }

}  // namespace pycandle
