// Ceilings of a CUDA device: what no kernel can beat.

extern "C" __global__ void copy(const double2* __restrict__ from, double2* __restrict__ to, long long count) {
    const long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count) to[i] = from[i];
}

// 8 independent chains a thread: 16 operations a round
extern "C" __global__ void fma_rate(double* out, int rounds) {
    double x[8];
    for (int i = 0; i < 8; ++i) x[i] = threadIdx.x + 0.1 * i;
    for (int r = 0; r < rounds; ++r) {
#pragma unroll
        for (int i = 0; i < 8; ++i) x[i] = fma(x[i], 0.999, 1e-3);
    }
    double sum = 0;
    for (int i = 0; i < 8; ++i) sum += x[i];
    if (sum == -1.0) out[0] = sum;  // never: keeps the loop alive
}

// one chain: every operation waits for the one before
extern "C" __global__ void fma_chain(double* out, int rounds) {
    double x = out[0];
#pragma unroll 16
    for (int r = 0; r < rounds; ++r) x = fma(x, 0.999, 1e-3);
    out[0] = x;
}
