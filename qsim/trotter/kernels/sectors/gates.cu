// Evolution of one site or of two alone; see gates.py.
//
// A thread for each string; the leader of a block turns all amplitudes of the block.  Bytes of a leader: 8 for its string, 16 for each
// look-up of an index and 32 for each amplitude (double, complex).
//
// qsim-compile: -DWIDTH=2
#include "images.cuh"

#define THREADS 256
#define MOST 64

extern "C" __global__ void gate_rows(amplitude* psi, int64 rows, const int64* __restrict__ strings, int split,
                                     const int64* __restrict__ above, const int64* __restrict__ below, int j, int k, int bits,
                                     const int64* __restrict__ leader, const int64* __restrict__ start,
                                     const int64* __restrict__ change, const int64* __restrict__ place,
                                     const number* __restrict__ gate) {
    const int64 row = (int64)blockIdx.x * THREADS + threadIdx.x;
    if (row >= rows) return;
    const int64 s = strings[row], low = ((int64)1 << split) - 1, mask = ((int64)1 << bits) - 1;
    const int64 block = leader[(s >> j & mask) << bits | (s >> k & mask)];
    if (block < 0) return;
    const int64 begin = start[block];
    const int size = (int)(start[block + 1] - begin);
    const number* g = gate + place[block];
    amplitude old[MOST];
    for (int n = 0; n < size; ++n) {
        const int64 t = s + change[begin + n];
        old[n] = psi[above[t >> split] + below[t & low]];
    }
    for (int n = 0; n < size; ++n, g += size) {
        amplitude sum = {};
        for (int m = 0; m < size; ++m) sum = add_product(g[m], old[m], sum);
        const int64 t = s + change[begin + n];
        psi[above[t >> split] + below[t & low]] = sum;
    }
}
