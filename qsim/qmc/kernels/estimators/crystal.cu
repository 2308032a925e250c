// Histograms of walkers in crystals: pairs by the distance of nearest images.
//
// Counts are integers (fixed point weights), so sums do not depend on the order of the atomic additions; distances differ from those of the
// CPU twin by rounding, so that a pair at the edge of a bin may be counted in the next one.
//
// qsim-compile: -DREAL=double
#include "../crystal/crystal.cuh"

#define THREADS 128

// out: (3, bins): pairs up-up, up-down, down-down by distance.  A thread does an electron with all that follow it; of `m`, the geometry
// and the numbers of electrons are read.
extern "C" __global__ void __launch_bounds__(THREADS)
    crystal_pair_histogram(Crystal m, const double* R, const int64* count, int64 walkers, int bins, double inverse_width, int64* out) {
    const int64 t = (int64)blockIdx.x * THREADS + threadIdx.x;
    const int N = (int)m.electrons, i = (int)(t % N);
    const int64 w = t / N;
    if (w >= walkers) return;
    const double* r = R + w * N * 3;
    for (int j = i + 1; j < N; ++j) {
        double x = r[3 * i] - r[3 * j], y = r[3 * i + 1] - r[3 * j + 1], z = r[3 * i + 2] - r[3 * j + 2];
        const double place = nearest(m, x, y, z) * inverse_width;
        if (place < bins)
            atomicAdd((uint64*)(out + ((int64)(i >= m.n_up) + (j >= m.n_up)) * bins + (int)place), (uint64)count[w]);
    }
}
