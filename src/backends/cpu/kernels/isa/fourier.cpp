// The discrete Fourier transform of c64 rows in doubles, and the complex arithmetic around it.
//
// Stockham's way: each pass takes out one factor of the length and writes the results in their order, so that the innermost
// loop runs over neighbours: several rows side by side, and more with every pass.
#include <cmath>

#include "backends/cpu/kernels/isa/isa.h"

namespace pycandle::cpu::PYCANDLE_ISA {

constexpr int64_t kRows = 8;  // side by side

struct Planes {
  double *re, *im;
};

struct FourierPass {
  Planes x, y;
  int64_t length, radix, stride;  // what is left to transform, the factor that this pass takes out, and neighbours
  int64_t root_step;              // of the roots of the whole length
};

// Sums of `radix` products with the roots of unity of the radix, times the root of the place.
static void butterflies(const Fft& g, const FourierPass& p) {
  const int64_t radix = p.radix, m = p.length / radix, s = p.stride;
  const double* roots = g.roots;
  for (int64_t k = 0; k < m; ++k) {
    for (int64_t j = 0; j < radix; ++j) {
      const int64_t place = j * k * p.root_step;
      const double wr = roots[2 * place], wi = roots[2 * place + 1];
      double* __restrict__ yr = p.y.re + s * (radix * k + j);
      double* __restrict__ yi = p.y.im + s * (radix * k + j);
      const double *xr = p.x.re + s * k, *xi = p.x.im + s * k;
      for (int64_t q = 0; q < s; ++q) {
        yr[q] = xr[q];
        yi[q] = xi[q];
      }
      for (int64_t r = 1; r < radix; ++r) {
        const int64_t turn = r * j % radix * (g.length / radix);
        const double cr = roots[2 * turn], ci = roots[2 * turn + 1];
        xr += s * m;
        xi += s * m;
        for (int64_t q = 0; q < s; ++q) {
          yr[q] += xr[q] * cr - xi[q] * ci;
          yi[q] += xr[q] * ci + xi[q] * cr;
        }
      }
      if (place == 0) continue;
      for (int64_t q = 0; q < s; ++q) {
        const double re = yr[q] * wr - yi[q] * wi;
        yi[q] = yr[q] * wi + yi[q] * wr;
        yr[q] = re;
      }
    }
  }
}

static void butterflies_of_4(const Fft& g, const FourierPass& p) {
  const int64_t m = p.length / 4, s = p.stride;
  const double turn = g.inverse ? 1 : -1;  // of a quarter
  for (int64_t k = 0; k < m; ++k) {
    double w[3][2];
    for (int64_t j = 1; j < 4; ++j) {
      w[j - 1][0] = g.roots[2 * (j * k * p.root_step)];
      w[j - 1][1] = g.roots[2 * (j * k * p.root_step) + 1];
    }
    const double *ar = p.x.re + s * k, *ai = p.x.im + s * k;
    double* __restrict__ yr = p.y.re + s * 4 * k;
    double* __restrict__ yi = p.y.im + s * 4 * k;
    const int64_t n = s * m;
    for (int64_t q = 0; q < s; ++q) {
      const double sr = ar[q] + ar[2 * n + q], si = ai[q] + ai[2 * n + q], dr = ar[q] - ar[2 * n + q], di = ai[q] - ai[2 * n + q];
      const double tr = ar[n + q] + ar[3 * n + q], ti = ai[n + q] + ai[3 * n + q];
      const double er = -turn * (ai[n + q] - ai[3 * n + q]), ei = turn * (ar[n + q] - ar[3 * n + q]);
      yr[q] = sr + tr;
      yi[q] = si + ti;
      const double br = dr + er, bi = di + ei, cr = sr - tr, ci = si - ti, fr = dr - er, fi = di - ei;
      yr[s + q] = br * w[0][0] - bi * w[0][1];
      yi[s + q] = br * w[0][1] + bi * w[0][0];
      yr[2 * s + q] = cr * w[1][0] - ci * w[1][1];
      yi[2 * s + q] = cr * w[1][1] + ci * w[1][0];
      yr[3 * s + q] = fr * w[2][0] - fi * w[2][1];
      yi[3 * s + q] = fr * w[2][1] + fi * w[2][0];
    }
  }
}

static void fft(const Fft& g, int64_t begin, int64_t end, float* scratch) {
  const int64_t n = g.length, rows = g.outer * g.inner;
  for (int64_t unit = begin; unit < end; ++unit) {
    const int64_t first = unit * kRows, count = smaller(rows - first, kRows), plane = n * count;
    double* memory = reinterpret_cast<double*>(scratch);
    Planes x{memory, memory + plane}, y{memory + 2 * plane, memory + 3 * plane};
    const auto start_of = [&](int64_t row) { return 2 * (row / g.inner * n * g.inner + row % g.inner); };
    for (int64_t r = 0; r < count; ++r) {
      const float* from = g.x + start_of(first + r);
      for (int64_t k = 0; k < n; ++k) {
        x.re[k * count + r] = from[2 * k * g.inner];
        x.im[k * count + r] = from[2 * k * g.inner + 1];
      }
    }
    int64_t length = n, stride = count, step = 1;
    for (int f = 0; f < g.factors; ++f) {
      (g.factor[f] == 4 ? butterflies_of_4 : butterflies)(g, {x, y, length, g.factor[f], stride, step});
      length /= g.factor[f];
      stride *= g.factor[f];
      step *= g.factor[f];
      const Planes last = x;
      x = y;
      y = last;
    }
    for (int64_t r = 0; r < count; ++r) {
      float* to = g.out + start_of(first + r);
      for (int64_t k = 0; k < n; ++k) {
        to[2 * k * g.inner] = static_cast<float>(x.re[k * count + r]);
        to[2 * k * g.inner + 1] = static_cast<float>(x.im[k * count + r]);
      }
    }
  }
}

static void complex_map(const ComplexMap& g, int64_t begin, int64_t end, float*) {
  const int64_t from = begin * kComplexBlock, to = smaller(end * kComplexBlock, g.count);
  const float *a = g.a, *b = g.b;
  float* __restrict__ out = g.out;
  switch (g.op) {
    case ComplexOp::of_real:
      for (int64_t i = from; i < to; ++i) {
        out[2 * i] = a[i];
        out[2 * i + 1] = 0;
      }
      return;
    case ComplexOp::of_parts:
      for (int64_t i = from; i < to; ++i) {
        out[2 * i] = a[i];
        out[2 * i + 1] = b[i];
      }
      return;
    case ComplexOp::abs:
      for (int64_t i = from; i < to; ++i) {
        const double re = a[2 * i], im = a[2 * i + 1];
        const bool is_infinite = __builtin_isinf(a[2 * i]) || __builtin_isinf(a[2 * i + 1]);
        out[i] = is_infinite ? __builtin_inff() : static_cast<float>(__builtin_sqrt(re * re + im * im));
      }
      return;
    case ComplexOp::mul: {
      const int64_t step = g.b_step;
      for (int64_t i = from; i < to; ++i) {
        const float re = a[2 * i], im = a[2 * i + 1], c = b[2 * i * step], d = b[2 * i * step + 1];
        out[2 * i] = re * c - im * d;
        out[2 * i + 1] = re * d + im * c;
      }
      return;
    }
  }
}

void fill_fourier(Kernels& k) {
  k.fft = fft;
  k.fft_units = [](const Fft& g) -> int64_t { return divide_up(g.outer * g.inner, kRows); };
  k.fft_scratch = [](const Fft& g) -> int64_t { return 8 * kRows * g.length; };  // four planes of doubles
  SET_WITHOUT_SCRATCH(complex_map, ComplexMap, divide_up(g.count, kComplexBlock))
}

}  // namespace pycandle::cpu::PYCANDLE_ISA
