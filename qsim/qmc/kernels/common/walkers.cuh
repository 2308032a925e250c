// Walkers of molecules and crystals: their arrays, their random numbers, and what moves and weights have in common.

#ifndef QSIM_QMC_WALKERS_CUH
#define QSIM_QMC_WALKERS_CUH
#include "clocks.cuh"
#include "lanes.cuh"

#ifndef WARPS
#define WARPS 4  // of a block
#endif
#ifndef RESIDENT
#define RESIDENT 4  // blocks of four warps that a multiprocessor must hold
#endif
#define BOUNDS __launch_bounds__(32 * WARPS, RESIDENT * 4 / WARPS)
// A block has 32 WARPS / LANES groups of lanes; each carries a walker.
#define GROUPS (32 * WARPS / LANES)
#define GROUP ((int)(threadIdx.x / LANES))
#define WALKER ((int64)blockIdx.x * GROUPS + GROUP)

#define PLAIN 0
#define FIXED_NODE 2
#define SCALED 4  // added to one of them: moves are shorter near nuclei
#define PER_ELECTRON 8  // counters of an electron in a generation
#define ACCEPTANCE 1
#define T_MOVE 5
#define TWO_PI 6.283185307179586

// Walkers; as `State` of types.py.
struct State {
    double* R;        // (W, N, 3)
    real* rows;       // (W, N, 5, M)
    real* inverse;    // (W, 2, n, n)
    double* expansion;  // (W, numbers)
    double* log_psi;  // (W,)
    double* sign;
    double* energy;   // (W, 6)
    double* weight;
    double* moves;    // (W, 4)
    int64* age;
    double* scratch;  // (W, stride)
    int64 walkers, stride;
};

struct Draw {
    uint2 key;
    uint32 stream, step, walker;
};

// Spin of an electron, its number among those of this spin, and their number.
struct Electron {
    int spin, i, n;
};

template <typename Tables> QSIM_DEVICE Electron electron(const Tables& m, int e) {
    const int up = (int)m.n_up;
    return e < up ? Electron{0, e, up} : Electron{1, e - up, (int)m.electrons - up};
}

QSIM_DEVICE double unit(uint32 word) { return ((double)word + 0.5) * 0x1p-32; }

QSIM_DEVICE uint4 words(const Draw& draw, uint32 pair) {
    return philox4x32(make_uint4(draw.step, draw.walker, pair, draw.stream), draw.key);
}

QSIM_DEVICE double uniform52(uint32 low, uint32 high) {  // as core.rng
    return (double)((((uint64)high << 32) | low) >> 12) * 0x1p-52 + 0x1p-53;
}

QSIM_DEVICE double limited(double vx, double vy, double vz, double tau) {
    const double x = tau * (vx * vx + vy * vy + vz * vz);
    return 2 / (1 + sqrt(1 + 2 * x));
}

QSIM_DEVICE double legendre(int l, double x) {
    if (l == 0) return 1;
    if (l == 1) return x;
    if (l == 2) return 1.5 * x * x - 0.5;
    if (l == 3) return x * (2.5 * x * x - 1.5);
    double below = x * (2.5 * x * x - 1.5), p = 0.125 * (x * x * (35 * x * x - 30) + 3);
    for (int k = 4; k < l; ++k) {
        const double next = ((2 * k + 1) * x * p - k * below) / (k + 1);
        below = p, p = next;
    }
    return p;
}

QSIM_DEVICE double clipped(double energy, double reference, double window) {
    return fmin(fmax(energy, reference - window), reference + window);
}

#endif
