// Moments of S^z: one pass over the state gives the norm, all <S_j> and all <S_j S_k>.
//
// The probabilities of a tile of 4096 amplitudes are reduced to sums with signs (-1)^(bits): none, one bit or two bits of the tile, 79
// numbers.  What the bits outside of the tile add are signs of whole tiles: those 13 of a tile that have at most one bit of it are
// kept, and a Walsh-Hadamard transform over the tiles gives all their sums with signs.
//
// Bits 0 to 4 of the tile number lanes, 5 to 7 warps, 8 to 11 registers: the way in which a tile is read.
//
// Bytes per amplitude: 16 read (double).
//
// qsim-compile:
#include "qsim.cuh"

#define THREADS 256
#define WARPS 8
#define OUTPUTS 79
#define KEPT 13

// 16 values of a thread to their sums with signs: entry m gets sum_j (-1)^popc(j & m) p_j
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

// kept: (13, tiles), signs none and of one bit 0 .. 11, or none; sums: (blocks, 79), of the tiles of a block: these, then of two bits
// (a, b), a < b, in the order of a, then b.
extern "C" __global__ void __launch_bounds__(THREADS)
    measure_tiles(const cplx* __restrict__ psi, uint64 tiles, double* __restrict__ kept, double* __restrict__ sums) {
    __shared__ double lanes[2][5][WARPS][QSIM_WARP];
    __shared__ double rest[2][6][WARPS];
    const int t = threadIdx.x, lane = t % QSIM_WARP, warp = t / QSIM_WARP;
    // Thread t < 79 sums output t: none, one bit (1 to 12), or a pair in the order of a, then b.
    int a = -1, b = -1;  // bits of this thread's output
    if (t >= 1 && t <= 12) {
        a = t - 1;
    } else if (t > 12) {
        int k = t - 13;
        for (a = 0; a < 11 && k >= 11 - a; ++a) k -= 11 - a;
        b = a + 1 + k;
    }
    const bool registers = a >= 8 && b >= 8;                           // both are
    const int first = a == 8 ? b - 9 : a == 9 ? b - 7 : 5;             // place of the pair in `rest`
    const int q = b >= 8 ? b - 7 : a >= 8 ? a - 7 : 0;                 // place of the one that is, in `lanes`
    const int others = (a >= 0 && a < 8 ? 1 << a : 0) | (b >= 0 && b < 8 ? 1 << b : 0);
    double total = 0;
    int side = 0;
    // Tiles of a block one after the other; two sides of shared memory take turns, so that one barrier for
    // a tile is enough.
    for (uint64 tile = blockIdx.x; tile < tiles; tile += gridDim.x, side ^= 1) {
        double p[16];
        // Probabilities in double precision, also of single amplitudes.
#pragma unroll
        for (int j = 0; j < 16; ++j) {
            const cplx z = psi[tile * 4096 + t + THREADS * j];
            p[j] = fma((double)z.re, (double)z.re, (double)z.im * (double)z.im);
        }
        // Bits 8 to 11 number registers: all their sums with signs at once.
        signs(p);
        // With none or one of these bits: further signs come from the lanes, as a Walsh-Hadamard transform
        // by shuffles, whose 32 results are kept for each warp.
        const double five[5] = {p[0], p[1], p[2], p[4], p[8]};
#pragma unroll
        for (int k = 0; k < 5; ++k) {
            double v = five[k];
#pragma unroll
            for (int r = 0; r < 5; ++r) {
                const double other = __shfl_xor_sync(QSIM_ALL_LANES, v, 1 << r);
                v = lane >> r & 1 ? other - v : v + other;
            }
            lanes[side][k][warp][lane] = v;
        }
        // With two register bits the other signs are all +: sums of the warp.
        const double six[6] = {p[3], p[5], p[9], p[6], p[10], p[12]};
#pragma unroll
        for (int k = 0; k < 6; ++k) {
            const double v = warp_sum(six[k]);
            if (lane == 0) rest[side][k][warp] = v;
        }
        __syncthreads();  // the next tile is put on the other side
        // Bits 5 to 7 number warps: their sign is the parity of the warp's number.
        if (t < OUTPUTS) {
            double sum = 0;
#pragma unroll
            for (int w = 0; w < WARPS; ++w) {
                const double v = registers ? rest[side][first][w] : lanes[side][q][w][others & 31];
                sum += __popc(others >> 5 & w) & 1 ? -v : v;
            }
            total += sum;
            if (kept && t < KEPT) kept[t * tiles + tile] = sum;
        }
    }
    if (t < OUTPUTS) sums[(uint64)blockIdx.x * OUTPUTS + t] = total;
}

// Walsh-Hadamard transform of some bits, from `low` on: x (rows, 2^length), a row for each blockIdx.y, in place; shared: 2^bits.
extern "C" __global__ void __launch_bounds__(THREADS) walsh(double* x, int length, int low, int bits) {
    extern __shared__ double values[];
    const uint64 b = blockIdx.x;
    x += ((uint64)blockIdx.y << length) + ((b & ((1ull << low) - 1)) | b >> low << (low + bits));
    for (int i = threadIdx.x; i < 1 << bits; i += THREADS) values[i] = x[(uint64)i << low];
    for (int r = 0; r < bits; ++r) {
        __syncthreads();
        for (int k = threadIdx.x; k < 1 << (bits - 1); k += THREADS) {
            const int i = (k >> r << (r + 1)) | (k & ((1 << r) - 1));
            const double one = values[i], two = values[i | 1 << r];
            values[i] = one + two;
            values[i | 1 << r] = one - two;
        }
    }
    __syncthreads();
    for (int i = threadIdx.x; i < 1 << bits; i += THREADS) x[(uint64)i << low] = values[i];
}
