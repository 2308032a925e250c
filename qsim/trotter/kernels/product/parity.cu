// The last site of a state whose number of spins down is even or odd: it is left out of the index, its spin follows from the others.
//
//     out += alpha [ s (h + sum_j Jz_j s_j) psi[n] + sum_t c_t psi[n ^ 1 << j_t] ],
//
// s the spin of the last site; c_t depends on the spins of site j_t and of the last one in the result, bit_j + 2 bit_last.
//
// Bytes per amplitude: 48 (double), and 16 for each flip of a site above what is in cache.
//
// qsim-compile: -DWIDTH=2
// qsim-compile: -DWIDTH=1
#include "../amplitudes.cuh"

extern "C" __global__ void parity_last(const amplitude* __restrict__ psi, amplitude* out, uint64 size, int odd, int flips,
                                       const int* __restrict__ site, const double* __restrict__ coefficient,
                                       int bits, const double* __restrict__ J, double field, double alpha) {
    const uint64 n = (uint64)blockIdx.x * blockDim.x + threadIdx.x;
    if (n >= size) return;
    const int last = (__popcll(n) & 1) ^ odd;
    double energy = field;
    for (int j = 0; j < bits; ++j) energy += n >> j & 1 ? -0.5 * J[j] : 0.5 * J[j];
    amplitude sum = (real)(last ? -0.5 * energy : 0.5 * energy) * psi[n];
    for (int t = 0; t < flips; ++t) {
        const int j = site[t];
        const double* c = coefficient + 8 * t + 2 * ((int)(n >> j & 1) + 2 * last);
        sum = add_product(c[0], c[1], psi[n ^ (uint64)1 << j], sum);
    }
    out[n] = add_times(alpha, sum, out[n]);
}
