// Crank-Nicolson propagation of a pentadiagonal Hamiltonian: one block a trajectory, all time steps in one launch.
//
// Every thread owns ROWS consecutive grid rows; the last two are its separators, the others its interior.
//   1. eliminate: LDL^T of the interior in registers, leaving a 2x2 block-tridiagonal system of the separators;
//   2. reduce: parallel cyclic reduction of that system in shared memory; it stops as soon as no coupling is left above
//      rounding, because the inverse of I + i tau/2 H decays away from the diagonal;
//   3. substitute: the interior from the separators on either side.
// U is complex symmetric, and so is every reduced system: only the couplings to the lower neighbour are kept.
// No pivoting: U = I + i (real symmetric), every Schur complement has a real part of at least one.
//
// Cost at L rows a step: about 110 L fused multiply-adds to eliminate, 240 L / ROWS a reduction stage.
//
// qsim-compile: may-spill=cn_forward,cn_backward,cn_reverse
// qsim-compile: -DROWS=8 -DTHREADS=128
// qsim-compile: -DROWS=8 -DTHREADS=32
// qsim-compile: -DROWS=16 -DTHREADS=256
#include "qsim.cuh"

#ifndef ROWS
#define ROWS 8  // rows a thread, at least 4
#endif
#ifndef THREADS
#define THREADS 128  // threads a block
#endif
#define INNER (ROWS - 2)

// Couplings whose square is below this do not change a rounded result.
__device__ constexpr real NEGLIGIBLE = sizeof(real) == 8 ? real(1e-36) : real(1e-18);

struct Exchange {  // what neighbours read in a reduction stage, one slot a thread
    cplx inv[3][THREADS];   // inverse of the diagonal block (symmetric)
    cplx w[4][THREADS];     // inv A
    cplx p[3][THREADS];     // A^T inv A (symmetric)
};

struct Chunk {  // factors of a thread's interior rows
    cplx d[INNER];          // inverse pivots
    cplx l[ROWS];           // l[r] couples row r to row r - 1; l[0] unused
    cplx e0[INNER], e1[INNER];  // eliminated couplings to the previous thread's separators
};

// 1 / z by the hardware's approximation and two Newton steps (error below one unit in the last place): every |z|^2 here is
// at least one, so the special cases of an IEEE division cannot occur.
__device__ __forceinline__ float inverse(float n) { return 1.0f / n; }
__device__ __forceinline__ double inverse(double n) {
    double r;
    asm("rcp.approx.ftz.f64 %0, %1;" : "=d"(r) : "d"(n));
    r = fma(r, fma(-n, r, 1.0), r);
    return fma(r, fma(-n, r, 1.0), r);
}
__device__ __forceinline__ cplx inverse(cplx z) {
    const real r = inverse(abs2(z));
    return {z.re * r, -z.im * r};
}

// (i c) z for a real c
__device__ __forceinline__ cplx imul(real c, cplx z) { return cplx{-c * z.im, c * z.re}; }

template <int NR>
struct Workspace {
    Exchange x[2];
    cplx v[2][NR][2][THREADS];  // inv R
    cplx r[2][NR][2][THREADS];  // A^T inv R
};

// Solve U x = b for NR right-hand sides; b[n][r] holds row r of this thread and is overwritten by the solution.
// h2, m2: tau/2 times the diagonal of H and of the dipole, for this thread's rows, in shared memory ([r][thread]).
template <int NR>
__device__ __forceinline__ void solve(cplx (&b)[NR][ROWS], const real* h2, const real* m2, real eps, real a1, real a2,
                                      int size, Workspace<NR>& ws) {
    const int t = threadIdx.x, g0 = t * ROWS;
    Chunk c;
    // ---- eliminate the interior
    cplx s00 = {0, 0}, s01 = {0, 0}, s11 = {0, 0}, left[NR][2];
#pragma unroll
    for (int n = 0; n < NR; ++n) left[n][0] = left[n][1] = cplx{0, 0};
    cplx B00, B01, B11, A00, A01, A10, A11, R[NR][2];
    const bool linked = t > 0;
#pragma unroll
    for (int r = 0; r < ROWS; ++r) {
        // rows beyond the grid are those of the identity: threads without rows take part in every barrier
        const bool inside = g0 + r < size;
        const real c1 = inside ? a1 : real(0), c2 = inside ? a2 : real(0);
        const real diag = inside ? h2[r * THREADS + t] - eps * m2[r * THREADS + t] : real(0);
        // interior rows: the recurrences of banded.py, with the couplings e0, e1 to both previous separators as fill-in
        if (r < INNER) {
            cplx d = {1, diag};
            if (r == 0) {
                c.e0[0] = cplx{0, linked ? c2 : real(0)};
                c.e1[0] = cplx{0, linked ? c1 : real(0)};
            } else {
                cplx nn = r == 1 ? cplx{0, c1} : cplx{c2 * c.l[r - 1].im, c1 - c2 * c.l[r - 1].re};
                c.l[r] = nn * c.d[r - 1];
                d = cfma(-nn, c.l[r], d);
                c.e0[r] = c.l[r] * c.e0[r - 1];
                c.e1[r] = c.l[r] * c.e1[r - 1];
                if (r == 1) {
                    c.e0[r] = -c.e0[r];
                    c.e1[r] = cplx{-c.e1[r].re, (linked ? c2 : real(0)) - c.e1[r].im};
                } else {
                    const cplx l2 = imul(c2, c.d[r - 2]);
                    d.re += c2 * c2 * c.d[r - 2].re;
                    d.im += c2 * c2 * c.d[r - 2].im;
                    c.e0[r] = cfma(l2, c.e0[r - 2], c.e0[r]);
                    c.e1[r] = cfma(l2, c.e1[r - 2], c.e1[r]);
                    c.e0[r] = -c.e0[r];
                    c.e1[r] = -c.e1[r];
#pragma unroll
                    for (int n = 0; n < NR; ++n) b[n][r] = cfma(-l2, b[n][r - 2], b[n][r]);
                }
#pragma unroll
                for (int n = 0; n < NR; ++n) b[n][r] = cfma(-c.l[r], b[n][r - 1], b[n][r]);
            }
            c.d[r] = inverse(d);
            // Schur complement on the previous separators
            const cplx q0 = (c.d[r] * c.e0[r]), q1 = c.d[r] * c.e1[r];
            s00 = cfma(-q0, c.e0[r], s00);
            s01 = cfma(-q0, c.e1[r], s01);
            s11 = cfma(-q1, c.e1[r], s11);
#pragma unroll
            for (int n = 0; n < NR; ++n) {
                left[n][0] = cfma(-q0, b[n][r], left[n][0]);
                left[n][1] = cfma(-q1, b[n][r], left[n][1]);
            }
        } else if (r == INNER) {
            const cplx nn = cplx{c2 * c.l[r - 1].im, c1 - c2 * c.l[r - 1].re}, l2 = imul(c2, c.d[r - 2]);
            c.l[r] = nn * c.d[r - 1];
            B00 = cfma(-nn, c.l[r], cplx{1 + c2 * c2 * c.d[r - 2].re, diag + c2 * c2 * c.d[r - 2].im});
            A00 = cfma(c.l[r], c.e0[r - 1], (l2 * c.e0[r - 2]));
            A01 = cfma(c.l[r], c.e1[r - 1], (l2 * c.e1[r - 2]));
            A00 = -A00;
            A01 = -A01;
#pragma unroll
            for (int n = 0; n < NR; ++n) R[n][0] = cfma(-l2, b[n][r - 2], cfma(-c.l[r], b[n][r - 1], b[n][r]));
        } else {
            const cplx l2 = imul(c2, c.d[INNER - 1]);
            B11 = cplx{1 + c2 * c2 * c.d[INNER - 1].re, diag + c2 * c2 * c.d[INNER - 1].im};
            B01 = cplx{c2 * c.l[INNER].im, c1 - c2 * c.l[INNER].re};
            A10 = l2 * c.e0[INNER - 1];
            A11 = l2 * c.e1[INNER - 1];
            A10 = -A10;
            A11 = -A11;
#pragma unroll
            for (int n = 0; n < NR; ++n) R[n][1] = cfma(-l2, b[n][INNER - 1], b[n][r]);
        }
    }
    // ---- hand the left Schur complement to the previous thread
    Exchange& x1 = ws.x[1];
    x1.inv[0][t] = s00;
    x1.inv[1][t] = s01;
    x1.inv[2][t] = s11;
#pragma unroll
    for (int n = 0; n < NR; ++n) {
        ws.r[1][n][0][t] = left[n][0];
        ws.r[1][n][1][t] = left[n][1];
    }
    __syncthreads();
    // the separators of this thread are bordered by the interior of the next one, too: B and R are complete now
    if (t + 1 < THREADS) {
        B00 = B00 + x1.inv[0][t + 1];
        B01 = B01 + x1.inv[1][t + 1];
        B11 = B11 + x1.inv[2][t + 1];
#pragma unroll
        for (int n = 0; n < NR; ++n) {
            R[n][0] = R[n][0] + ws.r[1][n][0][t + 1];
            R[n][1] = R[n][1] + ws.r[1][n][1][t + 1];
        }
    }
    // ---- parallel cyclic reduction; the two halves of the workspace alternate, so one barrier a stage is enough
    int half = 0;
    for (int k = 1;; k <<= 1, half ^= 1) {
        Exchange& x = ws.x[half];
        // v = B^-1 R is the solution as if nothing were coupled; W = B^-1 A tells how far that is wrong
        const cplx det = inverse(cfma(-B01, B01, (B00 * B11)));
        const cplx i00 = (B11 * det), i01 = ((-B01) * det), i11 = B00 * det;
        cplx v[NR][2];
#pragma unroll
        for (int n = 0; n < NR; ++n) {
            v[n][0] = cfma(i00, R[n][0], (i01 * R[n][1]));
            v[n][1] = cfma(i01, R[n][0], (i11 * R[n][1]));
        }
        if (k >= THREADS) {  // no couplings are left: every separator stands alone
#pragma unroll
            for (int n = 0; n < NR; ++n) {
                ws.v[half][n][0][t] = b[n][INNER] = v[n][0];
                ws.v[half][n][1][t] = b[n][INNER + 1] = v[n][1];
            }
            __syncthreads();
            break;
        }
        const cplx w00 = cfma(i00, A00, (i01 * A10)), w01 = cfma(i00, A01, (i01 * A11));
        const cplx w10 = cfma(i01, A00, (i11 * A10)), w11 = cfma(i01, A01, (i11 * A11));
        const real big = fmax(fmax(abs2(w00), abs2(w01)), fmax(abs2(w10), abs2(w11)));
        x.inv[0][t] = i00;
        x.inv[1][t] = i01;
        x.inv[2][t] = i11;
        x.w[0][t] = w00;
        x.w[1][t] = w01;
        x.w[2][t] = w10;
        x.w[3][t] = w11;
        x.p[0][t] = cfma(A00, w00, (A10 * w10));
        x.p[1][t] = cfma(A00, w01, (A10 * w11));
        x.p[2][t] = cfma(A01, w01, (A11 * w11));
#pragma unroll
        for (int n = 0; n < NR; ++n) {
            ws.v[half][n][0][t] = v[n][0];
            ws.v[half][n][1][t] = v[n][1];
            ws.r[half][n][0][t] = cfma(A00, v[n][0], (A10 * v[n][1]));
            ws.r[half][n][1][t] = cfma(A01, v[n][0], (A11 * v[n][1]));
        }
        // couplings shrink quadratically from stage to stage: all threads stop together once none matters any more
        if (!__syncthreads_or(big > NEGLIGIBLE)) {
#pragma unroll
            for (int n = 0; n < NR; ++n) {
                b[n][INNER] = v[n][0];
                b[n][INNER + 1] = v[n][1];
            }
            break;
        }
        if (t + k < THREADS) {
            const int o = t + k;
            B00 = B00 - x.p[0][o];
            B01 = B01 - x.p[1][o];
            B11 = B11 - x.p[2][o];
#pragma unroll
            for (int n = 0; n < NR; ++n) {
                R[n][0] = R[n][0] - ws.r[half][n][0][o];
                R[n][1] = R[n][1] - ws.r[half][n][1][o];
            }
        }
        if (t >= k) {
            const int o = t - k;
            const cplx j00 = x.inv[0][o], j01 = x.inv[1][o], j11 = x.inv[2][o];
            const cplx y00 = cfma(A00, j00, (A01 * j01)), y01 = cfma(A00, j01, (A01 * j11));
            const cplx y10 = cfma(A10, j00, (A11 * j01)), y11 = cfma(A10, j01, (A11 * j11));
            B00 = cfma(-y01, A01, cfma(-y00, A00, B00));
            B01 = cfma(-y01, A11, cfma(-y00, A10, B01));
            B11 = cfma(-y11, A11, cfma(-y10, A10, B11));
#pragma unroll
            for (int n = 0; n < NR; ++n) {
                const cplx v0 = ws.v[half][n][0][o], v1 = ws.v[half][n][1][o];
                R[n][0] = cfma(-A01, v1, cfma(-A00, v0, R[n][0]));
                R[n][1] = cfma(-A11, v1, cfma(-A10, v0, R[n][1]));
            }
            // the separator k before is gone; what couples now lies 2 k before
            const cplx u00 = x.w[0][o], u01 = x.w[1][o], u10 = x.w[2][o], u11 = x.w[3][o];
            const cplx n00 = cfma(A00, u00, (A01 * u10)), n01 = cfma(A00, u01, (A01 * u11));
            const cplx n10 = cfma(A10, u00, (A11 * u10)), n11 = cfma(A10, u01, (A11 * u11));
            A00 = -n00;
            A01 = -n01;
            A10 = -n10;
            A11 = -n11;
        } else {
            A00 = A01 = A10 = A11 = cplx{0, 0};
        }
    }
    // ---- substitute: the previous separators are in v of the last stage, already behind its barrier
#pragma unroll
    for (int n = 0; n < NR; ++n) {
        const cplx zero = {0, 0};
        const cplx p0 = linked ? ws.v[half][n][0][t - 1] : zero, p1 = linked ? ws.v[half][n][1][t - 1] : zero;
#pragma unroll
        for (int r = INNER - 1; r >= 0; --r) {
            const real c2 = g0 + r + 2 < size ? a2 : real(0);
            cplx y = cfma(-c.e1[r], p1, cfma(-c.e0[r], p0, b[n][r]));
            y = y - imul(c2, b[n][r + 2]);
            b[n][r] = cfma(-c.l[r + 1], b[n][r + 1], (c.d[r] * y));
        }
    }
}

__device__ __forceinline__ void load_system(real* h2, real* m2, const real* h, const real* mu, real half, int size) {
    // neighbouring threads read neighbouring addresses, and store row r of each thread side by side: no bank conflicts
    for (int i = threadIdx.x; i < ROWS * THREADS; i += THREADS) {
        const int slot = (i % ROWS) * THREADS + i / ROWS;
        h2[slot] = i < size ? half * h[i] : real(0);
        m2[slot] = i < size ? half * mu[i] : real(0);
    }
    __syncthreads();
}

// psi (T, L) in/out; h, mu (S, L); off (S, 2); system, field (T); scale (T); eps (F, N); trajectory (T, N, L) out
extern "C" __global__ void __launch_bounds__(THREADS)
cn_forward(cplx* psi, const real* h, const real* mu, const real* off, const int* system, const int* field,
           const real* scale, const real* eps, real tau, int size, int steps, cplx* trajectory, int keep) {
    extern __shared__ __align__(16) unsigned char raw[];
    Workspace<1>& ws = *reinterpret_cast<Workspace<1>*>(raw);
    real* h2 = reinterpret_cast<real*>(raw + sizeof(Workspace<1>));
    real* m2 = h2 + ROWS * THREADS;
    cplx* stage = reinterpret_cast<cplx*>(m2 + ROWS * THREADS);  // (THREADS, ROWS + 1)
    const int t = blockIdx.x, s = system[t], g0 = threadIdx.x * ROWS;
    const real half = real(0.5) * tau, a1 = half * off[2 * s], a2 = half * off[2 * s + 1], f = scale[t];
    load_system(h2, m2, h + (size_t)s * size, mu + (size_t)s * size, half, size);
    psi += (size_t)t * size;
    eps += (size_t)field[t] * steps;
    trajectory += (size_t)t * steps * size * keep;
    cplx p[ROWS], x[1][ROWS];
#pragma unroll
    for (int r = 0; r < ROWS; ++r) p[r] = g0 + r < size ? psi[g0 + r] : cplx{0, 0};
    for (int j = 0; j < steps; ++j) {
#pragma unroll
        for (int r = 0; r < ROWS; ++r) x[0][r] = p[r];
        solve<1>(x, h2, m2, f * eps[j], a1, a2, size, ws);
#pragma unroll
        for (int r = 0; r < ROWS; ++r) p[r] = cplx{2 * x[0][r].re - p[r].re, 2 * x[0][r].im - p[r].im};
        if (keep) {  // through shared memory, so that neighbouring threads write neighbouring addresses
            cplx* out = trajectory + (size_t)j * size;
#pragma unroll
            for (int r = 0; r < ROWS; ++r) stage[threadIdx.x * (ROWS + 1) + r] = x[0][r];
            __syncthreads();
            for (int i = threadIdx.x; i < size; i += THREADS) out[i] = stage[i + i / ROWS];
        }
    }
#pragma unroll
    for (int r = 0; r < ROWS; ++r)
        if (g0 + r < size) psi[g0 + r] = p[r];
}

// Copy one complex number to shared memory without passing through a register.
__device__ __forceinline__ void copy_async(cplx* to, const cplx* from) {
    const unsigned address = (unsigned)__cvta_generic_to_shared(to);
    asm volatile("cp.async.ca.shared.global [%0], [%1], %2;" ::"r"(address), "l"(from), "n"(sizeof(cplx)));
}

// One costate carried back; without a trajectory the conjugated state rides along as a second right-hand side.
template <bool KEEP>
__device__ __forceinline__ void backward(cplx* q, const cplx* psi, const real* eps, real f, real a1, real a2, real weight,
                                         int size, int steps, const cplx* trajectory, cplx* partial, unsigned char* raw) {
    constexpr int NR = KEEP ? 1 : 2;
    Workspace<NR>& ws = *reinterpret_cast<Workspace<NR>*>(raw);
    const real* h2 = reinterpret_cast<const real*>(raw + sizeof(Workspace<NR>));
    const real* m2 = h2 + ROWS * THREADS;
    const int g0 = threadIdx.x * ROWS, warps = THREADS / 32;
    cplx* stage = reinterpret_cast<cplx*>(raw + sizeof(Workspace<NR>) + 2 * ROWS * THREADS * sizeof(real));
    // The costate waits in shared memory during the solve where there is room (HOLD): its registers would spill otherwise.
    constexpr bool HOLD = KEEP && ROWS <= 8;
    cplx* held = stage + (ROWS + 1) * THREADS + threadIdx.x;
    cplx p[NR][ROWS], x[NR][ROWS];
#pragma unroll
    for (int r = 0; r < ROWS; ++r) {
        x[0][r] = g0 + r < size ? q[g0 + r] : cplx{0, 0};
        if (!KEEP) x[NR - 1][r] = g0 + r < size ? cplx{psi[g0 + r].re, -psi[g0 + r].im} : cplx{0, 0};
    }
    for (int j = steps - 1; j >= 0; --j) {
#pragma unroll
        for (int n = 0; n < NR; ++n)
#pragma unroll
            for (int r = 0; r < ROWS; ++r) {
                if (HOLD) held[r * THREADS] = x[n][r];
                else p[n][r] = x[n][r];
            }
        if (KEEP)  // the stored mean of this step arrives during the solve; the pitch keeps reads free of bank conflicts
            for (int i = threadIdx.x; i < size; i += THREADS)
                copy_async(stage + i + i / ROWS, trajectory + (size_t)j * size + i);
        solve<NR>(x, h2, m2, f * eps[j], a1, a2, size, ws);
        if (KEEP) {
            asm volatile("cp.async.wait_all;" ::: "memory");
            __syncthreads();
        }
        cplx sum = {0, 0};
#pragma unroll
        for (int r = 0; r < ROWS; ++r) {
            cplx other = {0, 0};
            if (KEEP) {
                if (g0 + r < size) other = stage[threadIdx.x * (ROWS + 1) + r];
            } else {
                other = cplx{x[NR - 1][r].re, -x[NR - 1][r].im};
            }
            const real m = m2[r * THREADS + threadIdx.x];
            sum = cfma(cplx{m * x[0][r].re, m * x[0][r].im}, other, sum);
        }
        if (KEEP) __syncthreads();  // the stage is free for the next mean
#pragma unroll
        for (int n = 0; n < NR; ++n)
#pragma unroll
            for (int r = 0; r < ROWS; ++r) x[n][r] = 2 * x[n][r] - (HOLD ? held[r * THREADS] : p[n][r]);
        sum = warp_sum(sum);
        // m2 holds tau/2 mu: weight = 2 dx scale; times i
        if (threadIdx.x % 32 == 0)
            partial[(size_t)j * warps + threadIdx.x / 32] = cplx{-weight * sum.im, weight * sum.re};
    }
#pragma unroll
    for (int r = 0; r < ROWS; ++r)
        if (g0 + r < size) q[g0 + r] = x[0][r];
}

struct Costate {  // what a block carries back
    int trajectory, system;
    real scale, half, a1, a2;
};

__device__ __forceinline__ Costate costate(const int* source, const int* system, const real* scale, const real* off,
                                           real tau) {
    const int t = source[blockIdx.x], s = system[t];
    const real half = real(0.5) * tau;
    return {t, s, scale[t], half, half * off[2 * s], half * off[2 * s + 1]};
}

// q (R, L) in/out; source (R); trajectory (T, N, L); partial (R, N, THREADS / 32) out: i tau dx scale qbar mu xbar by warp
extern "C" __global__ void __launch_bounds__(THREADS)
cn_backward(cplx* q, const int* source, const real* h, const real* mu, const real* off, const int* system,
            const int* field, const real* scale, const real* eps, real tau, real dx, int size, int steps,
            const cplx* trajectory, cplx* partial) {
    extern __shared__ __align__(16) unsigned char raw[];
    real* h2 = reinterpret_cast<real*>(raw + sizeof(Workspace<1>));
    const Costate c = costate(source, system, scale, off, tau);
    load_system(h2, h2 + ROWS * THREADS, h + (size_t)c.system * size, mu + (size_t)c.system * size, c.half, size);
    backward<true>(q + (size_t)blockIdx.x * size, nullptr, eps + (size_t)field[c.trajectory] * steps, c.scale, c.a1,
                   c.a2, 2 * dx * c.scale, size, steps, trajectory + (size_t)c.trajectory * steps * size,
                   partial + (size_t)blockIdx.x * steps * (THREADS / 32), raw);
}

// The same without a stored trajectory: psi (T, L) at the last time, its path recovered by time reversal.
extern "C" __global__ void __launch_bounds__(THREADS)
cn_reverse(cplx* q, const int* source, const cplx* psi, const real* h, const real* mu, const real* off,
           const int* system, const int* field, const real* scale, const real* eps, real tau, real dx, int size, int steps,
           cplx* partial) {
    extern __shared__ __align__(16) unsigned char raw[];
    real* h2 = reinterpret_cast<real*>(raw + sizeof(Workspace<2>));
    const Costate c = costate(source, system, scale, off, tau);
    load_system(h2, h2 + ROWS * THREADS, h + (size_t)c.system * size, mu + (size_t)c.system * size, c.half, size);
    backward<false>(q + (size_t)blockIdx.x * size, psi + (size_t)c.trajectory * size,
                    eps + (size_t)field[c.trajectory] * steps, c.scale, c.a1, c.a2, 2 * dx * c.scale, size, steps, nullptr,
                    partial + (size_t)blockIdx.x * steps * (THREADS / 32), raw);
}
