// Dzyaloshinskii-Moriya couplings along z in a sector of conserved Sz: flips whose sign depends on their direction.
//
//     out += alpha sum_jk D_jk/2 (i S+_j S-_k - i S-_j S+_k) psi;
//
// a thread makes one element, as numbered in product.cu, and gathers.  Bytes an element: 48, and 16 for each flip that is not in
// cache (double).
#include "strings.cuh"

#define THREADS 256

// mask: (couplings, 2), the bits of j and of k.
extern "C" __global__ void
    sector_currents(const cplx* __restrict__ psi, cplx* out, int low, int high, int down, int p, int64 first, int64 rows,
                    int64 columns, const int64* __restrict__ low_offset, const int64* __restrict__ high_offset,
                    const int64* __restrict__ block, const int64* __restrict__ low_string,
                    const int* __restrict__ low_rank, const int64* __restrict__ high_string,
                    const int* __restrict__ high_rank, int couplings, const int64* __restrict__ mask,
                    const double* __restrict__ value, double alpha) {
    const int64 i = (int64)blockIdx.x * THREADS + threadIdx.x;
    if (i >= rows * columns) return;
    const int64 row = i / columns, u = i - row * columns;
    const int64 h = high_string[high_offset[p] + row], l = low_string[low_offset[down - p] + u];
    const int64 s = h << low | l, under = ((int64)1 << low) - 1;
    const Strings t = {low, down, low_offset, block, low_rank, high_rank};
    cplx sum = {0, 0};
    for (int k = 0; k < couplings; ++k) {
        const int64 m = mask[2 * k] | mask[2 * k + 1];
        if (__popcll(s & m) != 1) continue;
        const real c = (real)(s & mask[2 * k + 1] ? value[k] : -value[k]);  // j up, k down: S+_j S-_k led here
        sum = cfma(c, psi[index_of(t, h ^ (m >> low), l ^ (m & under))], sum);
    }
    out[first + i] = cfma((real)alpha, times_i(sum), out[first + i]);
}
