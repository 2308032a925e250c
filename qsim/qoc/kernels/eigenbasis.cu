// Strang split-operator propagation in a truncated eigenbasis: one warp a trajectory, all time steps in one launch.
//
// A thread owns one component in the dipole's basis (up to 16 states: two or four threads share one, each with a part of
// its row).  A step is w <- D_j (M w): the vector is passed round through shared memory (broadcast reads), the row of M
// stays in registers for up to 32 states and in shared memory above.  Phases do not depend on the state, so their sine and
// cosine overlap with the matrix product; gradient terms are summed for 32 steps at a time.
//
// qsim-compile: -DSTATES=8
// qsim-compile: -DSTATES=16
// qsim-compile: -DSTATES=24
// qsim-compile: -DSTATES=64
#include "qsim.cuh"

#ifndef STATES
#define STATES 24
#endif
#define THREADS ((STATES + 31) / 32 * 32)
#define IN_REGISTERS (STATES <= 32)
#define SPLIT (STATES <= 8 ? 4 : STATES <= 16 ? 2 : 1)  // threads that share a component
#define LANES (THREADS / SPLIT)                          // components that a block has room for
#define PART ((STATES + SPLIT - 1) / SPLIT)              // columns of a thread
#define BATCH 32                                         // steps whose gradient terms are summed together

__device__ __forceinline__ void together() {
    if (THREADS == 32) __syncwarp();
    else __syncthreads();
}

// exp(i theta) without branches: range reduction by Cody and Waite, then fdlibm's polynomials, as in the CPU twin; about 25
// operations against 100 of the library's sincos, whose slow path for huge arguments a phase never needs.
__device__ __forceinline__ complex_of<float> turn_by(float theta) { return expi(theta); }
__device__ __forceinline__ complex_of<double> turn_by(double theta) {
    const double y = rint(theta * 0.63661977236758134308);
    const double r = fma(-y, 2.02226624879595063154e-21, fma(-y, 6.07710050630396597660e-11,
                                                           fma(-y, 1.57079632673412561417e+00, theta)));
    const double z = r * r;
    double s = fma(z, 1.58969099521155010221e-10, -2.50507602534068634195e-08);
    double c = fma(z, -1.13596475577881948265e-11, 2.08757232129817482790e-09);
    s = fma(z, s, 2.75573137070700676789e-06);
    c = fma(z, c, -2.75573143513906633035e-07);
    s = fma(z, s, -1.98412698298579493134e-04);
    c = fma(z, c, 2.48015872894767294178e-05);
    s = fma(z, s, 8.33333333332248946124e-03);
    c = fma(z, c, -1.38888888888741095749e-03);
    s = fma(z, s, -1.66666666666666324348e-01);
    c = fma(z, c, 4.16666666666666019037e-02);
    s = fma(r * z, s, r);
    c = fma(z * z, c, fma(-0.5, z, 1.0));
    const int n = (int)(long long)y;
    const double a = n & 1 ? c : s, b = n & 1 ? s : c;
    return {(n + 1) & 2 ? -b : b, n & 2 ? -a : a};
}

struct Rows {  // a thread's part of row k of the step matrix
#if IN_REGISTERS
    cplx m[PART];
    __device__ __forceinline__ void load(const cplx* step, cplx*, int k, int first) {
#pragma unroll
        for (int i = 0; i < PART; ++i)
            m[i] = k < STATES && first + i < STATES ? step[(first + i) * STATES + k] : cplx{0, 0};
    }
    __device__ __forceinline__ cplx at(int i, int) const { return m[i]; }
#else
    const cplx* m;
    __device__ __forceinline__ void load(const cplx* step, cplx* shared, int k, int) {
        for (int i = 0; i < STATES; ++i) shared[i * THREADS + k] = k < STATES ? step[i * STATES + k] : cplx{0, 0};
        m = shared;
    }
    __device__ __forceinline__ cplx at(int i, int k) const { return m[i * THREADS + k]; }
#endif
};

// (M w)_k.  Calls alternate between two halves of `line`, so that one barrier a step is enough; entries past the last state
// are zero from the start.
__device__ __forceinline__ cplx apply(const Rows& rows, cplx w, cplx* line, int k, int first) {
    if (first == 0) line[k] = w;
    together();
    cplx a = {0, 0}, b = {0, 0}, c = {0, 0}, d = {0, 0};  // four chains hide the latency of the additions
#pragma unroll
    for (int i = 0; i < PART; i += 4) {
        a = cfma(rows.at(i, k), line[first + i], a);
        if (i + 1 < PART) b = cfma(rows.at(i + 1, k), line[first + i + 1], b);
        if (i + 2 < PART) c = cfma(rows.at(i + 2, k), line[first + i + 2], c);
        if (i + 3 < PART) d = cfma(rows.at(i + 3, k), line[first + i + 3], d);
    }
    cplx sum = (a + b) + (c + d);
#pragma unroll
    for (int lanes = LANES; lanes < THREADS; lanes *= 2) {  // both partners add the same two numbers
        sum.re += __shfl_xor_sync(0xffffffffu, sum.re, lanes);
        sum.im += __shfl_xor_sync(0xffffffffu, sum.im, lanes);
    }
    return sum;
}

// w (T, K) in/out; step (S, K, K); slope (S, K); system, field (T); scale (T); eps (F, N); trajectory (T, N, K) out
extern "C" __global__ void __launch_bounds__(THREADS)
eb_forward(cplx* w, const cplx* step, const real* slope, const int* system, const int* field, const real* scale,
           const real* eps, real tau, int steps, cplx* trajectory, int keep) {
    extern __shared__ __align__(16) unsigned char raw[];
    cplx* line = reinterpret_cast<cplx*>(raw);
    const int t = blockIdx.x, s = system[t], k = threadIdx.x % LANES, first = threadIdx.x / LANES * PART;
    const bool on = k < STATES, writes = on && first == 0;
    if (steps == 0) return;
    line[threadIdx.x] = line[THREADS + threadIdx.x] = cplx{0, 0};
    Rows rows;
    rows.load(step + (size_t)s * STATES * STATES, line + 2 * THREADS, k, first);
    together();
    const real a = on ? slope[(size_t)s * STATES + k] * scale[t] * tau : real(0);
    eps += (size_t)field[t] * steps;
    trajectory += (size_t)t * steps * STATES * keep;
    cplx v = on ? w[(size_t)t * STATES + k] : cplx{0, 0};
    v *= turn_by(a * eps[0]);
    if (keep && writes) trajectory[k] = v;
    real ahead = steps > 1 ? eps[1] : real(0);
    for (int j = 1; j < steps; ++j) {
        const cplx turn = turn_by(a * ahead);
        ahead = eps[j + 1 < steps ? j + 1 : j];
        v = apply(rows, v, line + (j & 1) * THREADS, k, first) * turn;
        if (keep && writes) trajectory[(size_t)j * STATES + k] = v;
    }
    if (writes) w[(size_t)t * STATES + k] = v;
}

// q (R, K) in/out; source (R); trajectory (T, N, K); out (R, N) = i tau scale sum_k q slope w
extern "C" __global__ void __launch_bounds__(THREADS)
eb_backward(cplx* q, const int* source, const cplx* step, const real* slope, const int* system, const int* field,
            const real* scale, const real* eps, real tau, int steps, const cplx* trajectory, cplx* out) {
    extern __shared__ __align__(16) unsigned char raw[];
    cplx* line = reinterpret_cast<cplx*>(raw);
    cplx* terms = line + 2 * THREADS;  // (BATCH, STATES + 1): the odd pitch keeps the later reads free of bank conflicts
    const int r = blockIdx.x, t = source[r], s = system[t], k = threadIdx.x % LANES, first = threadIdx.x / LANES * PART;
    const bool on = k < STATES, writes = on && first == 0;
    constexpr int PITCH = STATES | 1;
    if (steps == 0) return;
    line[threadIdx.x] = line[THREADS + threadIdx.x] = cplx{0, 0};
    Rows rows;
    rows.load(step + (size_t)s * STATES * STATES, terms + BATCH * PITCH, k, first);
    together();
    const real a = on ? slope[(size_t)s * STATES + k] * scale[t] * tau : real(0);
    eps += (size_t)field[t] * steps;
    trajectory += (size_t)t * steps * STATES;
    out += (size_t)r * steps;
    cplx v = on ? q[(size_t)r * STATES + k] : cplx{0, 0};
    cplx seen = writes ? trajectory[(size_t)(steps - 1) * STATES + k] : cplx{0, 0};
    real now = eps[steps - 1];
    for (int j = steps - 1; j >= 0; --j) {
        const int before = j > 0 ? j - 1 : 0, slot = (steps - 1 - j) % BATCH;
        const cplx turn = turn_by(a * now), next = writes ? trajectory[(size_t)before * STATES + k] : cplx{0, 0};
        now = eps[before];
        if (writes) terms[slot * PITCH + k] = a * v * seen;
        v *= turn;
        if (j > 0) v = apply(rows, v, line + (j & 1) * THREADS, k, first);
        seen = next;
        if (slot == BATCH - 1 || j == 0) {  // every thread sums the terms of some steps, in the order of the levels
            together();
            for (int i = threadIdx.x; i <= slot; i += THREADS) {
                cplx sum = {0, 0};
                for (int m = 0; m < STATES; ++m) sum += terms[i * PITCH + m];
                out[j + slot - i] = times_i(sum);
            }
            together();
        }
    }
    if (writes) q[(size_t)r * STATES + k] = v;
}
