// The orbits of strings that have a state; see images.py.
//
// A block of threads takes all lower halves that complete an upper half; a string costs some hundred integer operations at most, and
// most are given up at the first rotation.
#include "images.cuh"

#define THREADS 256

// Count the orbits that begin with an upper half, a block for each, or list them in ascending order from where `at` says.
extern "C" __global__ void list_orbits(const int64* highs, const int64* classes, const int64* starts, const int64* lows, int64* at,
                                       int64* strings, unsigned short* nu, int fill, const int64* tables,
                                       const number* characters, int cosets, int pieces, int turns, int cell, int bits,
                                       int64 marks) {
    __shared__ int found[THREADS / QSIM_WARP];
    const Group g = {tables, characters, cosets, pieces, turns, cell, bits, marks};
    const int64 high = highs[blockIdx.x], first = starts[classes[blockIdx.x]], end = starts[classes[blockIdx.x] + 1];
    const int warp = threadIdx.x / QSIM_WARP, lane = threadIdx.x % QSIM_WARP;
    int64 place = fill ? at[blockIdx.x] : 0;
    for (int64 begin = first; begin < end; begin += THREADS) {
        const int64 j = begin + threadIdx.x;
        const int64 s = j < end ? high | lows[j] : 0;
        const double size = j < end ? norm(g, s) : 0;
        // nu is 0 or a positive integer: 0.5 leaves room for rounding of the characters
        const unsigned here = __ballot_sync(0xffffffffu, size > 0.5);
        __syncthreads();
        if (lane == 0) found[warp] = __popc(here);
        __syncthreads();
        int before = __popc(here & ((1u << lane) - 1)), all = 0;
        for (int w = 0; w < THREADS / QSIM_WARP; ++w) {
            if (w < warp) before += found[w];
            all += found[w];
        }
        if (fill && size > 0.5) {
            strings[place + before] = s;
            nu[place + before] = (unsigned short)(size + 0.5);
        }
        place += all;
    }
    if (!fill && threadIdx.x == 0) at[blockIdx.x] = place;
}
