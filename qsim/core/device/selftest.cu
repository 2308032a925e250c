// Kernels that show qsim.cuh at work; the GPU tests compare them with NumPy.

#include "qsim.cuh"

// words[i] = Philox4x32-10 of counters[i]
extern "C" __global__ void philox(const uint4* counters, uint4* words, uint32 key0, uint32 key1, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) words[i] = philox4x32(counters[i], make_uint2(key0, key1));
}

// Draws 2 * pair and 2 * pair + 1 of walkers first ... first + n - 1.
extern "C" __global__ void uniform(double2* out, uint32 key0, uint32 key1, uint32 stream, uint32 step, uint32 first,
                                   uint32 pair, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = uniform2(make_uint2(key0, key1), stream, step, first + i, pair);
}

extern "C" __global__ void normal(double2* out, uint32 key0, uint32 key1, uint32 stream, uint32 step, uint32 first,
                                  uint32 pair, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = normal2(make_uint2(key0, key1), stream, step, first + i, pair);
}

// sums[b] = sum of the values of block b, taken twice from one scratch; the last thread writes it, to show that every
// thread holds it.
extern "C" __global__ void sum(const cplx* values, cplx* sums, int n) {
    __shared__ cplx scratch[QSIM_WARP];
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    cplx half = 0.5 * block_sum(i < n ? values[i] : cplx(), scratch);
    cplx total = half + 0.5 * block_sum(i < n ? values[i] : cplx(), scratch);
    if (threadIdx.x == blockDim.x - 1) sums[blockIdx.x] = total;
}

// largest[b] = largest value of block b
extern "C" __global__ void maximum(const real* values, real* largest, int n) {
    __shared__ real scratch[QSIM_WARP];
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    real found = block_max(i < n ? values[i] : -REAL_INFINITY, scratch, -REAL_INFINITY);
    if (threadIdx.x == blockDim.x - 1) largest[blockIdx.x] = found;
}

// out[i] = a[i] / b[i] + conj(a[i]) * b[i] - 2 i |a[i]|^2 exp(i b[i].re)
extern "C" __global__ void arithmetic(const cplx* a, const cplx* b, cplx* out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = cfma(conj(a[i]), b[i], a[i] / b[i]) - 2 * times_i(abs2(a[i]) * expi(b[i].re));
}
