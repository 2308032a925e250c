// Electron repulsion on the product grid: W_p = sum_c [sum_l A^l_pc G_l] o F_c, elementwise in the points (r1, r2).
//
// F_c are the radial components of a two-electron function, one for each ordered pair of angular momenta, W_p the components of
// the stored pairs, G_l(r1, r2) = r<^l / r>^(l+1) and A^l_pc angular coefficients.  A thread carries one point: PAIRS rows p in
// registers, the components in groups of COMPONENTS.
//
// Bytes a point: 8 (C + P + L ceil(C / COMPONENTS) ceil(P / PAIRS)) for real numbers, twice that for complex ones; flops a point:
// 2 L P (C + 1) (real).  With P = C = 5 and L = 9 that is 152 bytes and 540 flops, so the kernel runs at the speed of memory.
//
// qsim-compile: may-spill=coupling
// qsim-compile: -DNUMBER=real
// qsim-compile: -DNUMBER=cplx
#include "qsim.cuh"

#ifndef NUMBER
#define NUMBER real  // real, or cplx on a complex contour
#endif
#define PAIRS 8
#define COMPONENTS 8

typedef NUMBER number;

QSIM_DEVICE real zero(real) { return 0; }
QSIM_DEVICE cplx zero(cplx) { return make_cplx(0, 0); }
QSIM_DEVICE real scaled(real s, real a, real sum) { return fma(s, a, sum); }
QSIM_DEVICE cplx scaled(real s, cplx a, cplx sum) { return cfma(s, a, sum); }
QSIM_DEVICE real product(real a, real b, real sum) { return fma(a, b, sum); }
QSIM_DEVICE cplx product(cplx a, cplx b, cplx sum) { return cfma(a, b, sum); }

// G: (L, points); F: (m, C, points); A: (L, P, C) real; out: (m, P, points).  Grid: (points / blockDim, ceil(P / PAIRS), m).
// Dynamic shared memory: L * PAIRS * COMPONENTS reals, the coefficients of the rows and components at hand.
extern "C" __global__ void __launch_bounds__(256)
    coupling(const number* __restrict__ G, const number* __restrict__ F, const real* __restrict__ A,
             number* __restrict__ out, int multipoles, int pairs, int components, int64 points) {
    // Neighbouring threads take neighbouring points, so that G, F and out are read and written
    // in whole cache lines. A thread whose point lies beyond the end still helps to load
    // coefficients and meets every barrier.
    extern __shared__ real a[];
    const int64 point = (int64)blockIdx.x * blockDim.x + threadIdx.x;
    const bool inside = point < points;
    const int first = blockIdx.y * PAIRS;
    F += (int64)blockIdx.z * components * points;
    out += (int64)blockIdx.z * pairs * points;
    number sum[PAIRS];
#pragma unroll
    for (int p = 0; p < PAIRS; ++p) sum[p] = zero(number());
    // The sum over components in groups, as many as fit in registers beside the sums of the
    // rows: G_l is then read once per group and block of rows instead of once per coefficient.
    for (int begin = 0; begin < components; begin += COMPONENTS) {
        // The coefficients of the group before may be overwritten only after all threads have
        // used them.
        __syncthreads();
        for (int i = threadIdx.x; i < multipoles * PAIRS * COMPONENTS; i += blockDim.x) {
            const int c = begin + i % COMPONENTS, p = first + i / COMPONENTS % PAIRS, l = i / (PAIRS * COMPONENTS);
            // Layout (l, p, c) with c fastest, the order of use. Rows and components beyond the
            // end get the coefficient 0, so that the loops below have constant bounds and can
            // be unrolled.
            a[i] = p < pairs && c < components ? A[((int64)l * pairs + p) * components + c] : 0;
        }
        __syncthreads();
        if (!inside) continue;  // still takes part in the barriers
        number f[COMPONENTS];
#pragma unroll
        for (int c = 0; c < COMPONENTS; ++c)
            f[c] = begin + c < components ? F[(begin + c) * points + point] : zero(number());
        // u = sum_c A^l_pc F_c first, then G_l u: one product with the kernel, complex on a
        // contour, per multipole and row. All threads read the same coefficient at once, which
        // shared memory serves in one step.
        for (int l = 0; l < multipoles; ++l) {
            const number g = G[l * points + point];
#pragma unroll
            for (int p = 0; p < PAIRS; ++p) {
                number u = zero(number());
#pragma unroll
                for (int c = 0; c < COMPONENTS; ++c) u = scaled(a[(l * PAIRS + p) * COMPONENTS + c], f[c], u);
                sum[p] = product(g, u, sum[p]);
            }
        }
    }
    if (!inside) return;
#pragma unroll
    for (int p = 0; p < PAIRS; ++p)
        if (first + p < pairs) out[(int64)(first + p) * points + point] = sum[p];
}
