// H psi in a sector of conserved Sz, and sums of spin flips; one launch for each block of the sector.
//
// The block of high weight p is a matrix (rows, columns): row = string of the high bits, column = string of the low bits, both by
// their rank among strings of the same weight.  A thread makes one element and gathers what flips into it: the index of another
// string is block[p'] + rank_high * columns' + rank_low, with two tables of 2^H and 2^L ranks.
//
// Mirrored flips: with inversion the last site is left out (it is up), and a flip of it with site j, which is down, leads to a string
// with the last site down; its complement has j down again and all others turned over.
//
// Bytes an element: 16 written, 16 read and 16 for each flip whose row is not in cache (double, complex).
//
// qsim-compile: -DWIDTH=2
// qsim-compile: -DWIDTH=1
#include "qsim.cuh"

#ifndef WIDTH
#define WIDTH 2  // numbers of an amplitude: 2 complex, 1 real
#endif
#if WIDTH == 2
typedef cplx amplitude;
QSIM_DEVICE double product_of(cplx a, cplx b) { return (double)a.re * b.re + (double)a.im * b.im; }
QSIM_DEVICE cplx add_times(double c, cplx x, cplx sum) { return cfma((real)c, x, sum); }
#else
typedef real amplitude;
QSIM_DEVICE double product_of(real a, real b) { return (double)a * b; }
QSIM_DEVICE real add_times(double c, real x, real sum) { return fma((real)c, x, sum); }
#endif

#define THREADS 256

struct Strings {
    int low, down;
    const int64 *low_offset, *block;
    const int *low_rank, *high_rank;
};

QSIM_DEVICE int64 index_of(const Strings& t, int64 h, int64 l) {
    const int p = __popcll(h), w = t.down - p;
    return t.block[p] + t.high_rank[h] * (t.low_offset[w + 1] - t.low_offset[w]) + t.low_rank[l];
}

// out = alpha H psi + beta psi + gamma out on one block; gamma = 0 does not read out.
extern "C" __global__ void
    sector_product(const amplitude* __restrict__ psi, amplitude* out, int low, int high, int down, int p, int64 first,
                   int64 rows, int64 columns, const int64* __restrict__ low_offset, const int64* __restrict__ high_offset,
                   const int64* __restrict__ block, const int64* __restrict__ low_string, const int* __restrict__ low_rank,
                   const int64* __restrict__ high_string, const int* __restrict__ high_rank, int within_low,
                   int within_high, int across, int mirrored, const uint64* __restrict__ mask,
                   const double* __restrict__ value, const double* __restrict__ low_energy,
                   const double* __restrict__ high_energy, int couplings, const uint64* __restrict__ coupled,
                   const double* __restrict__ strength, double alpha, double beta, double gamma) {
    const int64 i = (int64)blockIdx.x * THREADS + threadIdx.x;
    if (i >= rows * columns) return;
    const int64 row = i / columns, u = i - row * columns;
    const int w = down - p;
    const int64 h = high_string[high_offset[p] + row], l = low_string[low_offset[w] + u];
    const int64 s = h << low | l, under = ((int64)1 << low) - 1, over = ((int64)1 << high) - 1;
    const Strings t = {low, down, low_offset, block, low_rank, high_rank};
    double energy = low_energy[l] + high_energy[h];
    for (int k = 0; k < couplings; ++k)
        energy += __popcll(s & coupled[k]) & 1 ? -0.25 * strength[k] : 0.25 * strength[k];
    amplitude sum = {};
    int k = 0;
    for (const int64 start = first + row * columns; k < within_low; ++k) {
        const int64 m = mask[k];
        if (__popcll(l & m) == 1) sum = add_times(value[k], psi[start + low_rank[l ^ m]], sum);
    }
    for (int end = k + within_high; k < end; ++k) {
        const int64 m = (int64)mask[k] >> low;
        if (__popcll(h & m) == 1) sum = add_times(value[k], psi[first + high_rank[h ^ m] * columns + u], sum);
    }
    for (int end = k + across; k < end; ++k) {
        const int64 m = mask[k];
        if (__popcll(s & m) == 1) sum = add_times(value[k], psi[index_of(t, h ^ (m >> low), l ^ (m & under))], sum);
    }
    for (int end = k + mirrored; k < end; ++k) {
        const int64 m = mask[k];
        if (s & m)
            sum = add_times(value[k], psi[index_of(t, (~h & over) | (m >> low), (~l & under) | (m & under))], sum);
    }
    amplitude found = (real)(alpha * energy + beta) * psi[first + i];
    if (gamma != 0) found = add_times(gamma, out[first + i], found);
    out[first + i] = add_times(alpha, sum, found);
}

// sums (pairs, gridDim.x) += the parts of <S+ S- + S- S+> of one block, a pair for each blockIdx.y.
extern "C" __global__ void
    sector_flips(const amplitude* __restrict__ psi, int low, int high, int down, int p, int64 first, int64 rows,
                 int64 columns, const int64* __restrict__ low_offset, const int64* __restrict__ high_offset,
                 const int64* __restrict__ block, const int64* __restrict__ low_string, const int* __restrict__ low_rank,
                 const int64* __restrict__ high_string, const int* __restrict__ high_rank,
                 const uint64* __restrict__ mask, int sign, double* __restrict__ sums) {
    __shared__ double scratch[QSIM_WARP];
    const int64 m = mask[blockIdx.y], under = ((int64)1 << low) - 1, over = ((int64)1 << high) - 1;
    const bool single = __popcll(m) == 1;
    const Strings t = {low, down, low_offset, block, low_rank, high_rank};
    double sum = 0;
    for (int64 i = (int64)blockIdx.x * THREADS + threadIdx.x; i < rows * columns; i += (int64)gridDim.x * THREADS) {
        const int64 row = i / columns, u = i - row * columns;
        const int64 h = high_string[high_offset[p] + row], l = low_string[low_offset[down - p] + u];
        if (__popcll((h << low | l) & m) != 1) continue;
        const int64 hf = single ? (~h & over) | (m >> low) : h ^ (m >> low);
        const int64 lf = single ? (~l & under) | (m & under) : l ^ (m & under);
        sum += product_of(psi[first + i], psi[index_of(t, hf, lf)]);
    }
    sum = block_sum(sum, scratch);
    if (threadIdx.x == 0) sums[(int64)blockIdx.y * gridDim.x + blockIdx.x] += single ? sign * sum : sum;
}
