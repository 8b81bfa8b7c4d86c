// Functions that the C++ library lacks, in double.
#pragma once

#include <cstdint>

namespace pycandle {

double digamma(double);
double erfinv(double);
double lgamma(double);  // the library's own writes a global
double bessel_i(int order, double x, bool scaled);  // modified, of order 0 or 1; scaled by exp(-|x|)
double erfcx(double);                               // exp(x²) erfc(x)
double log_ndtr(double);                            // logarithm of the normal distribution function
double ndtri(double);                               // its inverse
double entr(double);                                // -x log x
double zeta(double x, double q);                    // Hurwitz: the sum of (k + q)^-x
double polygamma(int64_t n, double x);              // n-th derivative of digamma
double igamma(double a, double x);                  // regularised incomplete gamma functions, lower
double igammac(double a, double x);                 // and upper

}  // namespace pycandle
