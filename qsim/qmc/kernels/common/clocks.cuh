// Where the time of a kernel goes: with -DCLOCKS=1 every `CLOCK(CLASS)` adds the clocks from there to the end of its scope to a class.
//
// The clocks are those that pass while a walker's warp is in the scope, whether it issues instructions or waits; of many warps on a
// multiprocessor all are counted, so that sums of classes compare with the sum of WHOLE_KERNEL, not with a time.  Without CLOCKS nothing
// is compiled.  bench/qmc/crystal_shares.py reads `clocks_spent`.

#ifndef QSIM_QMC_CLOCKS_CUH
#define QSIM_QMC_CLOCKS_CUH
#include "lanes.cuh"

#ifndef CLOCKS
#define CLOCKS 0
#endif

#if CLOCKS
// In the order of `CLASSES` of crystal_shares.py.  Those after the second do not contain each other; NONLOCAL_PART holds some of them.
enum { WHOLE_KERNEL, NONLOCAL_PART, SPLINES, JASTROW, RATIOS, UPDATES, CLOCK_CLASSES };
#define CLOCK_ROWS 1024  // blocks add to rows of their own as far as there are any: fewer additions wait for each other

extern "C" {
__device__ unsigned long long clocks_spent[CLOCK_ROWS * CLOCK_CLASSES];
}

struct Clock {
    int kind;
    long long begin;
    __device__ Clock(int kind) : kind(kind), begin(clock64()) {}
    __device__ ~Clock() {
        const long long end = clock64();
        if (lane_of() == 0)
            atomicAdd(clocks_spent + (int)(blockIdx.x % CLOCK_ROWS) * CLOCK_CLASSES + kind, (unsigned long long)(end - begin));
    }
};
#define CLOCK(kind) const Clock clock_of_scope(kind)
#else
#define CLOCK(kind)
#endif

#endif
