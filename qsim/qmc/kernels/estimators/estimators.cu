// Histograms of walkers: pair distances, positions on a mesh, distances from atoms.
//
// Counts are integers (fixed point weights), so sums do not depend on the order of the atomic additions; distances and
// bins are computed with the roundings of the CPU twin, without fused operations.  Both give the same bits.
//
// Per electron and walker: 24 bytes read; additions go to the L2 cache, where all histograms fit.
//
// qsim-compile: -DREAL=double
#include "qsim.cuh"

#define THREADS 128
#define TOTALS 13  // as in estimators.py

QSIM_DEVICE double squared(double x, double y, double z) {
    return __dadd_rn(__dadd_rn(__dmul_rn(x, x), __dmul_rn(y, y)), __dmul_rn(z, z));
}

// Weights as integers of 1 / unit, and their sum, which is added to the total.
extern "C" __global__ void __launch_bounds__(THREADS)
    count_quanta(const double* __restrict__ weights, int64 walkers, double unit, int64* __restrict__ count, int64* total) {
    __shared__ int64 scratch[QSIM_WARP];
    const int64 w = (int64)blockIdx.x * THREADS + threadIdx.x;
    int64 quanta = 0;
    if (w < walkers) count[w] = quanta = (int64)rint(weights[w] * unit);
    quanta = block_sum(quanta, scratch);
    if (threadIdx.x == 0) atomicAdd((uint64*)total, (uint64)quanta);
}

QSIM_DEVICE void add(int64* place, int64 count) { atomicAdd((uint64*)place, (uint64)count); }

// out: (3, bins): pairs up-up, up-down, down-down by distance.  A thread does an electron with all that follow it.
extern "C" __global__ void __launch_bounds__(THREADS)
    pair_histogram(const double* __restrict__ R, const int64* __restrict__ count, int64 walkers, int N, int n_up, int bins,
                   double inverse_width, int64* out) {
    const int64 t = (int64)blockIdx.x * THREADS + threadIdx.x;
    const int64 w = t / N;
    const int i = (int)(t % N);
    if (w >= walkers) return;
    const double* r = R + w * N * 3;
    const double x = r[3 * i], y = r[3 * i + 1], z = r[3 * i + 2];
    const int64 quanta = count[w];
    for (int j = i + 1; j < N; ++j) {
        const double s = squared(__dsub_rn(r[3 * j], x), __dsub_rn(r[3 * j + 1], y), __dsub_rn(r[3 * j + 2], z));
        const double place = __dmul_rn(__dsqrt_rn(s), inverse_width);
        if (place < bins) add(out + ((int64)((i >= n_up) + (j >= n_up)) * bins + (int)place), quanta);
    }
}

// out: (2, n0, n1, n2): electrons of each spin by cell of a mesh.
extern "C" __global__ void __launch_bounds__(THREADS)
    mesh_histogram(const double* __restrict__ R, const int64* __restrict__ count, int64 walkers, int N, int n_up, int n0,
                   int n1, int n2, double o0, double o1, double o2, double s0, double s1, double s2, int64* out) {
    const int64 t = (int64)blockIdx.x * THREADS + threadIdx.x;
    const int64 w = t / N;
    const int i = (int)(t % N);
    if (w >= walkers) return;
    const double* r = R + t * 3;
    const double x = floor(__dmul_rn(__dsub_rn(r[0], o0), s0)), y = floor(__dmul_rn(__dsub_rn(r[1], o1), s1)),
                 z = floor(__dmul_rn(__dsub_rn(r[2], o2), s2));
    if (!(x >= 0 && x < n0 && y >= 0 && y < n1 && z >= 0 && z < n2)) return;
    add(out + ((((int64)(i >= n_up) * n0 + (int)x) * n1 + (int)y) * n2 + (int)z), count[w]);
}

// out: (2, atoms, bins): electrons of each spin by distance from each atom.
extern "C" __global__ void __launch_bounds__(THREADS)
    radial_histogram(const double* __restrict__ R, const int64* __restrict__ count, const double* __restrict__ atom,
                     int64 walkers, int N, int n_up, int atoms, int bins, double inverse_width, int64* out) {
    const int64 t = (int64)blockIdx.x * THREADS + threadIdx.x;
    const int64 w = t / N;
    const int i = (int)(t % N);
    if (w >= walkers) return;
    const double* r = R + t * 3;
    const int64 quanta = count[w];
    for (int a = 0; a < atoms; ++a) {
        const double s = squared(__dsub_rn(r[0], atom[3 * a]), __dsub_rn(r[1], atom[3 * a + 1]),
                                 __dsub_rn(r[2], atom[3 * a + 2]));
        const double place = __dmul_rn(__dsqrt_rn(s), inverse_width);
        if (place < bins) add(out + (((int64)(i >= n_up) * atoms + a) * bins + (int)place), quanta);
    }
}

// Sums over walkers of weight times energies (6), of weight times the square of their total, of weights, and of the counts of moves
// (4), which begin anew.  energy: (W, 6); moves: (W, 4); out: a row of 12 for each block.
extern "C" __global__ void __launch_bounds__(THREADS)
    block_totals(const double* __restrict__ weights, const double* __restrict__ energy, double* moves, int64 walkers, double reference,
                 double window, double* out) {
    __shared__ double scratch[QSIM_WARP];
    const int64 w = (int64)blockIdx.x * THREADS + threadIdx.x;
    const bool there = w < walkers;
    const double weight = there ? weights[w] : 0;
    for (int k = 0; k < TOTALS; ++k) {
        double value = k == 7 ? weight : 0;
        if (there && k < 6) value = weight * energy[6 * w + k];
        if (there && k == 6) value = weight * (energy[6 * w + 5] * energy[6 * w + 5]);
        if (there && k == 12) value = weight * fmax(fabs(energy[6 * w + 5] - reference) - window, 0.0);
        if (there && k >= 8 && k < 12) {
            value = moves[4 * w + k - 8];
            moves[4 * w + k - 8] = 0;
        }
        value = block_sum(value, scratch);
        if (threadIdx.x == 0) out[TOTALS * blockIdx.x + k] = value;
    }
}
