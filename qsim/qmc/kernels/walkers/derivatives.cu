// Derivatives of log psi and of the local energy with respect to Jastrow parameters; formulas as in derivatives_cpu.py.
//
// A group of LANES lanes of a warp carries a walker.  A distance changes four neighbouring coefficients of a B-spline, others in each
// lane, so every lane adds to sums of its own, (2, C) numbers in shared memory, lane by lane side by side (no two lanes meet in a bank).
// They are added in the order of the lanes at the end: no atomic operations, so that the same walkers give the same bits.
//
// qsim-compile: -DWARPS=1
// qsim-compile: -DWARPS=1 -DLANES=1
// qsim-compile: -DWARPS=1 -DLANES=8
// qsim-compile: -DWARPS=1 -DLANES=8 -DEXPANSION=1
// qsim-compile: -DCRYSTAL -DWARPS=1
// qsim-compile: -DCRYSTAL -DWARPS=1 -DCOMPLEX=1
// qsim-compile: -DCRYSTAL -DWARPS=1 -DLANES=8
//
// The headers bring `Tables` (the record of launch.py), `velocities` and `pair_slopes`.
// What both have in common comes first, as in walk.cu.
#include "../common/derivatives.cuh"
#include "../common/walkers.cuh"
#ifdef CRYSTAL
#include "../crystal/derivatives.cuh"
#else
#include "../molecule/derivatives.cuh"
#endif

// first (F,), place (C,): as `ParameterTables`; log_slopes, energy_slopes (W, P), out.  space: (2, C, threads of the launch), or none if
// dynamic shared memory holds the sums, (2, C, threads of the block) behind 4 N numbers for each walker.
extern "C" __global__ void __launch_bounds__(32 * WARPS, 16 / WARPS)
    derivatives(Tables m, State s, const int64* first, const int64* place, int numbers, int parameters, double* space, double* log_slopes,
                double* energy_slopes) {
    extern __shared__ double room[];
    const int64 w = WALKER;
    if (w >= s.walkers) return;
    const int N = (int)m.electrons;
    double *v = room + GROUP * 4 * N, *total = v + 3 * N;
    const int64 stride = space ? (int64)gridDim.x * (32 * WARPS) : 32 * WARPS;
    double* own = space ? space + (int64)blockIdx.x * (32 * WARPS) + threadIdx.x : room + GROUPS * 4 * N + threadIdx.x;
    const Sums values = {own, stride}, slopes = {own + numbers * stride, stride};
    for (int c = 0; c < 2 * numbers; ++c) own[c * stride] = 0;
    velocities(m, s, w, v, total);
    pair_slopes(m, s, w, v, total, first, values, slopes);
    collect(own, stride, numbers, parameters, place, log_slopes + w * parameters, energy_slopes + w * parameters);
}
