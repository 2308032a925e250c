// Walkers as rows of 32-bit words: everything that a few of them have in several arrays, collected by one launch and put back by
// another, bit by bit.
//
// bases: address of each array; starts: (arrays + 1,) words of a row before each array; places: (count,) the walkers.
//
// qsim-compile: -DREAL=double
#include "qsim.cuh"

#define THREADS 256

// Which of the arrays holds a word of a row.
static __device__ __forceinline__ int array_of(const int64* __restrict__ starts, int arrays, int64 word) {
    int a = 0;
    while (a + 1 < arrays && word >= starts[a + 1]) ++a;
    return a;
}

extern "C" __global__ void __launch_bounds__(THREADS)
    take_rows(const uint64* __restrict__ bases, const int64* __restrict__ starts, int arrays, const int64* __restrict__ places, int64 count,
              unsigned int* __restrict__ rows) {
    const int64 words = starts[arrays];
    for (int64 t = (int64)blockIdx.x * THREADS + threadIdx.x; t < count * words; t += (int64)gridDim.x * THREADS) {
        const int64 row = t / words, word = t - row * words;
        const int a = array_of(starts, arrays, word);
        const unsigned int* from = (const unsigned int*)bases[a];
        rows[t] = from[places[row] * (starts[a + 1] - starts[a]) + word - starts[a]];
    }
}

extern "C" __global__ void __launch_bounds__(THREADS)
    put_rows(const uint64* __restrict__ bases, const int64* __restrict__ starts, int arrays, const int64* __restrict__ places, int64 count,
             const unsigned int* __restrict__ rows) {
    const int64 words = starts[arrays];
    for (int64 t = (int64)blockIdx.x * THREADS + threadIdx.x; t < count * words; t += (int64)gridDim.x * THREADS) {
        const int64 row = t / words, word = t - row * words;
        const int a = array_of(starts, arrays, word);
        unsigned int* to = (unsigned int*)bases[a];
        to[places[row] * (starts[a + 1] - starts[a]) + word - starts[a]] = rows[t];
    }
}

// Walker i becomes that of indices[i], which keeps its own place: indices[indices[i]] is indices[i].
extern "C" __global__ void __launch_bounds__(THREADS)
    copy_rows(const uint64* __restrict__ bases, const int64* __restrict__ starts, int arrays, const int64* __restrict__ indices, int64 count) {
    const int64 words = starts[arrays];
    for (int64 row = blockIdx.x; row < count; row += gridDim.x) {
        const int64 source = indices[row];
        if (source == row) continue;
        for (int64 word = threadIdx.x; word < words; word += THREADS) {
            const int a = array_of(starts, arrays, word);
            const int64 width = starts[a + 1] - starts[a], at = word - starts[a];
            unsigned int* array = (unsigned int*)bases[a];
            array[row * width + at] = array[source * width + at];
        }
    }
}
