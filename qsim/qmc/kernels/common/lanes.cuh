// Lanes of a warp that carry a walker together: a group of 1, 2, 4 ... 32.

#ifndef QSIM_QMC_LANES_CUH
#define QSIM_QMC_LANES_CUH
#include "qsim.cuh"

#ifndef LANES
#define LANES 32  // of a walker
#endif

QSIM_DEVICE int lane_of() { return LANES == 1 ? 0 : threadIdx.x % LANES; }

#if LANES == 1
QSIM_DEVICE void join() {}
QSIM_DEVICE double group_total(double x) { return x; }
#else
// Lanes of this walker within its warp; the others of the warp go their own ways.
QSIM_DEVICE unsigned group() {
    return LANES == 32 ? QSIM_ALL_LANES : ((1u << (LANES % 32)) - 1) << (threadIdx.x % 32 / LANES * LANES);
}
QSIM_DEVICE void join() { __syncwarp(group()); }
// Every lane holds the sum, added in the same order for every lane.
QSIM_DEVICE double group_total(double x) {
#pragma unroll
    for (int k = LANES / 2; k > 0; k /= 2) x += __shfl_xor_sync(group(), x, k, LANES);
    return x;
}
#endif

#endif
