#ifndef QSIM_AMPLITUDES_CUH
#define QSIM_AMPLITUDES_CUH
// Amplitudes of state vectors: complex, or real where H has real matrix elements.
#include "qsim.cuh"

#ifndef WIDTH
#define WIDTH 2  // numbers of an amplitude: 2 complex, 1 real
#endif

#if WIDTH == 2
typedef cplx amplitude;
// c x + sum, with a complex number c of which a real amplitude knows the real part
QSIM_DEVICE cplx add_product(double re, double im, cplx x, cplx sum) { return cfma(cplx{(real)re, (real)im}, x, sum); }
QSIM_DEVICE cplx add_times(double c, cplx x, cplx sum) { return cfma((real)c, x, sum); }
QSIM_DEVICE double product_of(cplx a, cplx b) { return (double)a.re * b.re + (double)a.im * b.im; }
#else
typedef real amplitude;
QSIM_DEVICE real add_product(double re, double im, real x, real sum) { return fma((real)re, x, sum); }
QSIM_DEVICE real add_times(double c, real x, real sum) { return fma((real)c, x, sum); }
QSIM_DEVICE double product_of(real a, real b) { return (double)a * b; }
#endif

#endif  // QSIM_AMPLITUDES_CUH
