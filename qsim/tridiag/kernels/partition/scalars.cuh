// Numbers of a tridiagonal system: real or complex ones with the same names of operations.
//
// -DSCALAR=real for real systems, cplx (default) for complex ones.
#ifndef QSIM_PARTITION_SCALARS_CUH
#define QSIM_PARTITION_SCALARS_CUH
#include "qsim.cuh"

#ifndef SCALAR
#define SCALAR cplx
#endif
typedef SCALAR scalar;

// |Re z| + |Im z|: within sqrt(2) of |z|, and never overflows
QSIM_MEMBER real magnitude(real x) { return fabs(x); }
QSIM_MEMBER real magnitude(cplx z) { return fabs(z.re) + fabs(z.im); }

// 1 / z; far from 1 the number is scaled first, so that |z|^2 neither overflows nor underflows
QSIM_MEMBER real inverse(real x) { return real(1) / x; }
QSIM_MEMBER cplx inverse(cplx z) {
    const real low = sizeof(real) == 8 ? real(1e-280) : real(1e-30), high = real(1) / low;
    real square = abs2(z);
    if (square > low && square < high) {
        real t = real(1) / square;
        return {z.re * t, -z.im * t};
    }
    real scale = fmax(fabs(z.re), fabs(z.im)), re = z.re / scale, im = z.im / scale;
    real t = real(1) / fma(re, re, im * im) / scale;
    return {re * t, -im * t};
}

QSIM_MEMBER real mul_add(real a, real b, real c) { return fma(a, b, c); }
QSIM_MEMBER cplx mul_add(cplx a, cplx b, cplx c) { return cfma(a, b, c); }

#endif  // QSIM_PARTITION_SCALARS_CUH
