// Functions that the C++ library lacks, in double.
#pragma once

namespace pycandle {

double digamma(double);
double erfinv(double);
double lgamma(double);  // the library's own writes a global

}  // namespace pycandle
