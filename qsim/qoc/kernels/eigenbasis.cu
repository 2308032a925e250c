// Strang split-operator propagation in a truncated eigenbasis: one warp a trajectory, all time steps in one launch.
//
// Thread k owns component k in the dipole's basis.  A step is w <- D_j (M w): the vector is passed round through shared
// memory (broadcast reads), row k of M stays in registers for up to 32 states and in shared memory above.
// Phases do not depend on the state, so their sine and cosine overlap with the matrix product.
//
// qsim-compile: may-spill=eb_forward,eb_backward
// qsim-compile: -DSTATES=24
// qsim-compile: -DSTATES=64
#include "qsim.cuh"

#ifndef STATES
#define STATES 24
#endif
#define THREADS ((STATES + 31) / 32 * 32)
#define IN_REGISTERS (STATES <= 32)

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

struct Rows {  // row k of the step matrix
#if IN_REGISTERS
    cplx m[STATES];
    __device__ __forceinline__ void load(const cplx* step, cplx*, int k) {
#pragma unroll
        for (int i = 0; i < STATES; ++i) m[i] = k < STATES ? step[i * STATES + k] : cplx{0, 0};
    }
    __device__ __forceinline__ cplx at(int i, int) const { return m[i]; }
#else
    const cplx* m;
    __device__ __forceinline__ void load(const cplx* step, cplx* shared, int k) {
        for (int i = 0; i < STATES; ++i) shared[i * THREADS + k] = k < STATES ? step[i * STATES + k] : cplx{0, 0};
        m = shared;
    }
    __device__ __forceinline__ cplx at(int i, int k) const { return m[i * THREADS + k]; }
#endif
};

// M w for this thread's row; line alternates between two buffers, so one barrier a step is enough
__device__ __forceinline__ cplx apply(const Rows& rows, cplx w, cplx* line, int k) {
    line[k] = w;
    together();
    cplx a = {0, 0}, b = {0, 0}, c = {0, 0}, d = {0, 0};  // four chains hide the latency of the additions
#pragma unroll
    for (int i = 0; i + 3 < STATES; i += 4) {
        a = cfma(rows.at(i, k), line[i], a);
        b = cfma(rows.at(i + 1, k), line[i + 1], b);
        c = cfma(rows.at(i + 2, k), line[i + 2], c);
        d = cfma(rows.at(i + 3, k), line[i + 3], d);
    }
#pragma unroll
    for (int i = STATES / 4 * 4; i < STATES; ++i) a = cfma(rows.at(i, k), line[i], a);
    return ((a + b) + (c + d));
}

// w (T, K) in/out; step (S, K, K); slope (S, K); system, field (T); scale (T); eps (F, N); trajectory (T, N, K) out
extern "C" __global__ void __launch_bounds__(THREADS)
eb_forward(cplx* w, const cplx* step, const real* slope, const int* system, const int* field, const real* scale,
           const real* eps, real tau, int steps, cplx* trajectory, int keep) {
    extern __shared__ __align__(16) unsigned char raw[];
    cplx* line = reinterpret_cast<cplx*>(raw);
    const int t = blockIdx.x, s = system[t], k = threadIdx.x;
    const bool on = k < STATES;
    Rows rows;
    rows.load(step + (size_t)s * STATES * STATES, line + 2 * THREADS, k);
    together();
    const real a = on ? slope[(size_t)s * STATES + k] * scale[t] * tau : real(0);
    eps += (size_t)field[t] * steps;
    trajectory += (size_t)t * steps * STATES * keep;
    cplx v = on ? w[(size_t)t * STATES + k] : cplx{0, 0};
    cplx turn = steps > 0 ? turn_by(a * eps[0]) : cplx{1, 0};
    for (int j = 0; j < steps; ++j) {
        const cplx next = j + 1 < steps ? turn_by(a * eps[j + 1]) : cplx{1, 0};
        if (j > 0) v = apply(rows, v, line + (j & 1) * THREADS, k);
        v = v * turn;
        turn = next;
        if (keep && on) trajectory[(size_t)j * STATES + k] = v;
    }
    if (on) w[(size_t)t * STATES + k] = v;
}

// q (R, K) in/out; source (R); trajectory (T, N, K); out (R, N) = i tau scale sum_k q slope w
extern "C" __global__ void __launch_bounds__(THREADS)
eb_backward(cplx* q, const int* source, const cplx* step, const real* slope, const int* system, const int* field,
            const real* scale, const real* eps, real tau, int steps, const cplx* trajectory, cplx* out) {
    extern __shared__ __align__(16) unsigned char raw[];
    __shared__ cplx part[THREADS / 32];
    cplx* line = reinterpret_cast<cplx*>(raw);
    const int r = blockIdx.x, t = source[r], s = system[t], k = threadIdx.x;
    const bool on = k < STATES;
    Rows rows;
    rows.load(step + (size_t)s * STATES * STATES, line + 2 * THREADS, k);
    together();
    const real a = on ? slope[(size_t)s * STATES + k] * scale[t] * tau : real(0);
    eps += (size_t)field[t] * steps;
    trajectory += (size_t)t * steps * STATES;
    out += (size_t)r * steps;
    cplx v = on ? q[(size_t)r * STATES + k] : cplx{0, 0};
    cplx turn = steps > 0 ? turn_by(a * eps[steps - 1]) : cplx{1, 0};
    cplx seen = on && steps > 0 ? trajectory[(size_t)(steps - 1) * STATES + k] : cplx{0, 0};
    for (int j = steps - 1; j >= 0; --j) {
        const cplx next = j > 0 ? turn_by(a * eps[j - 1]) : cplx{1, 0};
        const cplx before = j > 0 && on ? trajectory[(size_t)(j - 1) * STATES + k] : cplx{0, 0};
        cplx sum = warp_sum(((cplx{a * v.re, a * v.im}) * seen));
        if (THREADS > 32) {
            if (k % 32 == 0) part[k / 32] = sum;
            __syncthreads();
            sum = part[0];
            for (int i = 1; i < THREADS / 32; ++i) sum = sum + part[i];
        }
        if (k == 0) out[j] = cplx{-sum.im, sum.re};
        v = v * turn;
        if (j > 0) v = apply(rows, v, line + (j & 1) * THREADS, k);
        turn = next;
        seen = before;
    }
    if (on) q[(size_t)r * STATES + k] = v;
}
