// Couplings of different components of two spins: out += alpha sum_t c_t psi[n ^ mask_t], a thread per amplitude.
//
// The coefficient of a term depends on the two spins j and k of the result: number bit_j + 2 bit_k of its four.
//
// Bytes per amplitude: 48 (double), and 16 for each term whose mask lies above what is in cache.
//
// qsim-compile: -DWIDTH=2
// qsim-compile: -DWIDTH=1
#include "../amplitudes.cuh"

extern "C" __global__ void exchange(const amplitude* __restrict__ psi, amplitude* out, uint64 size, int terms,
                                    const uint64* __restrict__ mask, const int* __restrict__ sites,
                                    const double* __restrict__ coefficient, double alpha) {
    const uint64 n = (uint64)blockIdx.x * blockDim.x + threadIdx.x;
    if (n >= size) return;
    amplitude sum = {};
    for (int t = 0; t < terms; ++t) {
        const int which = (int)(n >> sites[2 * t] & 1) + 2 * (int)(n >> sites[2 * t + 1] & 1);
        const double* c = coefficient + 8 * t + 2 * which;
        sum = add_product(c[0], c[1], psi[n ^ mask[t]], sum);
    }
    out[n] = add_times(alpha, sum, out[n]);
}
