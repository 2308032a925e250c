// H psi without a matrix: out = alpha H psi + beta psi + gamma out, alpha, beta, gamma real.
//
// Two forms.  `bonds` gathers: out[n] += c psi[n ^ mask] for every coupled pair and every transverse field; the coefficient of a
// pair depends on whether its spins are equal, (Jx - Jy) / 4, or opposite, (Jx + Jy) / 4.  `walsh` passes make the frame form,
//
//     H = Dz + W Dx W + P W Dy W P^dagger,   W = 2^(-N/2) [[1, 1], [1, -1]] on every spin,   P = i^(number of down spins),
//
// in which W S^z W = S^x and P S^x P^dagger = S^y; the sums need no multiplication, and the factor 2^-N goes into the diagonal.  The
// work of `bonds` grows with the number of pairs, the work of the frames with N.
//
// The diagonal needs no table of 2^N numbers: with the bits above the tile fixed, the energy is a constant, a field on every bit
// of the tile, and the couplings within the tile, which are tabulated once (`within`).
//
// Bytes per amplitude: diagonal 48 (double), bonds 32 to 48 and 16 for a pair above the tile, walsh 32, or 48 if it adds.
//
// qsim-compile: -DBITS=12
// qsim-compile: -DBITS=10
// qsim-compile: -DBITS=3
// qsim-compile: -DBITS=1
// qsim-compile: -DBITS=12 -DWIDTH=1
#include "../amplitudes.cuh"

#ifndef BITS
#define BITS 12  // bits of a tile: 1 to 12
#endif
#define SIZE (1 << BITS)
#define LOWER (BITS / 2)
#define UPPER (BITS - LOWER)
#define MOST_SPINS 64

#define PHASE_IN 1   // multiply by P^dagger on the way in
#define TURN 2       // multiply by the diagonal, and transform again
#define ADD 4        // out += alpha result, instead of out = result
#define PHASE_OUT 8  // multiply by P on the way out

struct Energy {
    double lower[1 << LOWER], upper[1 << UPPER], field[BITS], outside[MOST_SPINS], constant;
};

QSIM_DEVICE double spin(uint64 bits, int k) { return 0.5 - (double)(bits >> k & 1); }

// Tables of the diagonal for one tile.  J: (spins, spins), symmetric, zero diagonal; h: (spins,).
QSIM_DEVICE void prepare(Energy& e, uint64 tile, int spins, const double* J, const double* h) {
    // One thread for each spin: fields of the spins above on the bits of the tile, energies of the spins
    // above among themselves (each pair once, with the lower of its spins).
    for (int k = threadIdx.x; k < spins; k += blockDim.x) {
        double sum = h[k];
        if (k < BITS) {
            for (int j = BITS; j < spins; ++j) sum += J[k * spins + j] * spin(tile, j - BITS);
            e.field[k] = sum;
        } else {
            for (int j = k + 1; j < spins; ++j) sum += J[k * spins + j] * spin(tile, j - BITS);
            e.outside[k] = sum * spin(tile, k - BITS);
        }
    }
    __syncthreads();
    // Sums of fields over the lower and the upper half of the bits: two small tables instead of 2^BITS
    // numbers.
    for (int i = threadIdx.x; i < (1 << LOWER) + (1 << UPPER); i += blockDim.x) {
        const bool low = i < 1 << LOWER;
        const int t = low ? i : i - (1 << LOWER), first = low ? 0 : LOWER, count = low ? LOWER : UPPER;
        double sum = 0;
        for (int k = 0; k < count; ++k) sum += e.field[first + k] * spin(t, k);
        (low ? e.lower : e.upper)[t] = sum;
    }
    if (threadIdx.x == 0) {
        double sum = 0;
        for (int k = BITS; k < spins; ++k) sum += e.outside[k];
        e.constant = sum;
    }
    __syncthreads();
}

QSIM_DEVICE double energy(const Energy& e, const double* within, int t) {
    return e.constant + within[t] + (e.lower[t & ((1 << LOWER) - 1)] + e.upper[t >> LOWER]);
}

// gamma = 0 does not read out, which may hold anything.
QSIM_DEVICE amplitude blend(const amplitude* out, uint64 n, amplitude psi, double alpha, double e, double beta, double gamma) {
    const amplitude value = (real)(alpha * e + beta) * psi;
    return gamma == 0 ? value : add_times(gamma, out[n], value);
}

// out = alpha D psi + beta psi + gamma out with the diagonal D of one axis.
extern "C" __global__ void diagonal(const amplitude* psi, amplitude* out, int spins, const double* J, const double* h,
                                    const double* within, double alpha, double beta, double gamma) {
    __shared__ Energy e;
    prepare(e, blockIdx.x, spins, J, h);
    for (int t = threadIdx.x; t < SIZE; t += blockDim.x) {
        const uint64 n = (uint64)blockIdx.x << BITS | t;
        out[n] = blend(out, n, psi[n], alpha, energy(e, within, t), beta, gamma);
    }
}

// out = alpha H psi + beta psi + gamma out.  Pairs: mask of two bits, coefficients for equal and opposite spins.  Flips: site, hx/2,
// hy/2.  psi and out are different arrays.
extern "C" __global__ void bonds(const amplitude* __restrict__ psi, amplitude* out, int spins, const double* J, const double* h,
                                 const double* within, int pairs, const uint64* mask, const double* same,
                                 const double* opposite, int flips, const int* site, const double* hx, const double* hy,
                                 double alpha, double beta, double gamma) {
    __shared__ Energy e;
    prepare(e, blockIdx.x, spins, J, h);
    // The threads of a block make neighbouring amplitudes of one tile; each is written once, by its own
    // thread.
    for (int t = threadIdx.x; t < SIZE; t += blockDim.x) {
        const uint64 n = (uint64)blockIdx.x << BITS | t;
        amplitude sum = {};
        for (int p = 0; p < pairs; ++p) {
            const uint64 m = mask[p];
            const real c = __popcll(n & m) & 1 ? opposite[p] : same[p];
            // parity of the two bits: odd if the spins are opposite
            if (c != 0) sum = add_times(c, psi[n ^ m], sum);
        }
        for (int f = 0; f < flips; ++f) {
            const int k = site[f];
            const real re = hx[f], im = n >> k & 1 ? hy[f] : -hy[f];
            // half of hx -+ i hy, by the spin of the result
            sum = add_product(re, im, psi[n ^ 1ull << k], sum);
        }
        out[n] = add_times(alpha, sum, blend(out, n, psi[n], alpha, energy(e, within, t), beta, gamma));
    }
}

// Shared memory without bank conflicts for strides of 1 to 16 elements.
QSIM_DEVICE int slot(int i) { return i ^ (i >> 4 & (sizeof(real) == 8 ? 7 : 15)); }

// Transform K bits of the tile, from bit q on.
template <int K> QSIM_DEVICE void transform_bits(amplitude* tile, int q) {
    for (int u = threadIdx.x; u < SIZE >> K; u += blockDim.x) {
        const int base = (u >> q) << (q + K) | (u & ((1 << q) - 1));
        amplitude v[1 << K];
#pragma unroll
        for (int m = 0; m < 1 << K; ++m) v[m] = tile[slot(base | m << q)];
#pragma unroll
        for (int k = 0; k < K; ++k)
#pragma unroll
            for (int m = 0; m < 1 << K; ++m)
                if (!(m >> k & 1)) {
                    const amplitude a = v[m], b = v[m | 1 << k];
                    v[m] = a + b;
                    v[m | 1 << k] = a - b;
                }
#pragma unroll
        for (int m = 0; m < 1 << K; ++m) tile[slot(base | m << q)] = v[m];
    }
    __syncthreads();
}

QSIM_DEVICE void transform(amplitude* tile, int first) {
    int q = first;
#if BITS >= 4
    for (; q + 4 <= BITS; q += 4) transform_bits<4>(tile, q);
#endif
#if BITS >= 2
    for (; q + 2 <= BITS; q += 2) transform_bits<2>(tile, q);
#endif
    for (; q < BITS; ++q) transform_bits<1>(tile, q);
}

// a times i^quarters.  Of a real amplitude times (-1)^floor(|quarters| / 2), which is as good: S^y S^y changes the number of spins down
// by 0 or 2.
QSIM_DEVICE amplitude turned(amplitude a, int spins, int sign) {
#if WIDTH == 2
    const int quarters = sign * spins & 3;
    if (quarters & 2) a = -a;
    return quarters & 1 ? times_i(a) : a;
#else
    return spins & 2 ? -a : a;
#endif
}

// One pass over tiles of 2^run consecutive amplitudes by the bits position ... position + BITS - run - 1, which are transformed.
// run = position = 0 for the lowest bits, the only tile that may turn.  in = out is allowed unless ADD is set.
extern "C" __global__ void walsh(const amplitude* in, amplitude* out, int position, int run, int flags, int spins, const double* J,
                                 const double* h, const double* within, double scale, double alpha) {
    extern __shared__ char memory[];
    __shared__ Energy e;
    amplitude* tile = (amplitude*)memory;
    const int gap = position - run;
    const uint64 block = blockIdx.x;
    const uint64 base = block >> gap << (position + BITS - run) | (block & ((1ull << gap) - 1)) << run;
    // A tile: 2^run neighbours of every value of the transformed bits, read in runs for coalesced access.
    for (int t = threadIdx.x; t < SIZE; t += blockDim.x) {
        const uint64 n = base | (uint64)(t >> run) << position | (t & ((1 << run) - 1));
        tile[slot(t)] = flags & PHASE_IN ? turned(in[n], __popcll(n), -1) : in[n];
    }
    __syncthreads();
    transform(tile, run);
    if (flags & TURN) {
        // All bits of the lowest tile are transformed now, and those above were before: H of the axis is
        // diagonal.
        prepare(e, block, spins, J, h);
        for (int t = threadIdx.x; t < SIZE; t += blockDim.x)
            tile[slot(t)] = (real)(scale * energy(e, within, t)) * tile[slot(t)];
        __syncthreads();
        transform(tile, 0);
    }
    for (int t = threadIdx.x; t < SIZE; t += blockDim.x) {
        const uint64 n = base | (uint64)(t >> run) << position | (t & ((1 << run) - 1));
        amplitude value = tile[slot(t)];
        if (flags & PHASE_OUT) value = turned(value, __popcll(n), 1);
        out[n] = flags & ADD ? add_times(alpha, value, out[n]) : value;
    }
}
