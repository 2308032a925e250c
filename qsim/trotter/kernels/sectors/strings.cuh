// Where the strings of a sector of conserved Sz are; see qsim/trotter/sectors/basis.py.
#ifndef QSIM_STRINGS_CUH
#define QSIM_STRINGS_CUH
#include "qsim.cuh"

struct Strings {
    int low, down;
    const int64 *low_offset, *block;
    const int *low_rank, *high_rank;
};

QSIM_DEVICE int64 index_of(const Strings& t, int64 h, int64 l) {
    const int p = __popcll(h), w = t.down - p;
    return t.block[p] + t.high_rank[h] * (t.low_offset[w + 1] - t.low_offset[w]) + t.low_rank[l];
}

#endif  // QSIM_STRINGS_CUH
