// Moments of S^z: one pass over the state gives the norm, all <S_j> and all <S_j S_k>.
//
// The probabilities of a tile of 4096 amplitudes are reduced to sums with signs (-1)^(bits): none, one bit or two bits of the tile, 79
// numbers.  What the bits outside of the tile add are signs of whole tiles, so the rest is a sum over tiles.
//
// Bytes an amplitude: 16 read (double).
//
// qsim-compile:
#include "qsim.cuh"

#define THREADS 256
#define OUTPUTS 79

// 16 values of a thread (bits 0 .. 3) to their sums with signs: entry m gets sum_j (-1)^popc(j & m) p_j
QSIM_DEVICE void signs(double (&p)[16]) {
#pragma unroll
    for (int r = 0; r < 4; ++r)
#pragma unroll
        for (int j = 0; j < 16; ++j)
            if (!(j >> r & 1)) {
                const double a = p[j], b = p[j | 1 << r];
                p[j] = a + b;
                p[j | 1 << r] = a - b;
            }
}

// out: (tiles, 79): signs none; of one bit 0 .. 11; of two bits (a, b), a < b, in the order of a, then b.
extern "C" __global__ void __launch_bounds__(THREADS) measure_tiles(const cplx* __restrict__ psi, double* __restrict__ out) {
    __shared__ double lanes[5][8][QSIM_WARP];
    __shared__ double rest[6][8];
    const int t = threadIdx.x, lane = t % QSIM_WARP, warp = t / QSIM_WARP;
    __shared__ double chunk[THREADS * 17];
    const cplx* tile = psi + (uint64)blockIdx.x * 4096;
    for (int j = 0; j < 16; ++j) {
        const int i = t + THREADS * j;
        const cplx z = tile[i];
        chunk[i + (i >> 4)] = fma((double)z.re, (double)z.re, (double)z.im * (double)z.im);
    }
    __syncthreads();
    double p[16];
#pragma unroll
    for (int j = 0; j < 16; ++j) p[j] = chunk[t * 17 + j];
    signs(p);
    const double five[5] = {p[0], p[1], p[2], p[4], p[8]};
#pragma unroll
    for (int q = 0; q < 5; ++q) {
        double v = five[q];
#pragma unroll
        for (int r = 0; r < 5; ++r) {
            const double other = __shfl_xor_sync(QSIM_ALL_LANES, v, 1 << r);
            v = lane >> r & 1 ? other - v : v + other;
        }
        lanes[q][warp][lane] = v;
    }
    const double six[6] = {p[3], p[5], p[9], p[6], p[10], p[12]};
#pragma unroll
    for (int q = 0; q < 6; ++q) {
        const double v = warp_sum(six[q]);
        if (lane == 0) rest[q][warp] = v;
    }
    __syncthreads();
    if (t >= OUTPUTS) return;
    int a = -1, b = -1;  // bits of this output
    if (t >= 1 && t <= 12) {
        a = t - 1;
    } else if (t > 12) {
        int k = t - 13;
        for (a = 0; k >= 11 - a; ++a) k -= 11 - a;
        b = a + 1 + k;
    }
    double sum = 0;
    if (b >= 0 && b < 4) {  // both bits are registers
        const int q = a == 0 ? b - 1 : a == 1 ? b + 1 : 5;
        for (int w = 0; w < 8; ++w) sum += rest[q][w];
    } else {
        const int q = a >= 0 && a < 4 ? a + 1 : 0;  // at most one register bit
        const int high = (a >= 4 ? 1 << (a - 4) : 0) | (b >= 4 ? 1 << (b - 4) : 0);
        for (int w = 0; w < 8; ++w) {
            const double v = lanes[q][w][high & 31];
            sum += __popc(high >> 5 & w) & 1 ? -v : v;
        }
    }
    out[(uint64)blockIdx.x * OUTPUTS + t] = sum;
}
