// Crank-Nicolson steps of the 1D TDSE on overlapping chunks of the grid, several steps a launch.
//
// The inverse of T = M (1 + i tau H) falls off as exp(-kappa |i - j|), so the rows of a chunk do not feel, to rounding, what
// happens beyond a halo of H(K) rows within K steps.  A block loads its chunk and the halo into shared memory, makes K steps
// with zero boundary values, and writes the chunk: device memory is touched once per K steps.
//
// Within a block a step is the N-shaped partition method, one thread a partition of ROWS rows, the last being its joint line:
//   1. reduce: forward elimination of the interior, with the products that the left joint line needs (the matrix is
//      symmetric up to phases, so one sweep serves both joints);
//   2. parallel cyclic reduction of the joint lines; it stops as soon as the couplings left matter to first order only;
//   3. substitute, and psi' = 2 T^-1 M psi - psi without an explicit half step.
// qsim/tridiag/propagate/lattice.py (step_table) has the equations.  Off-diagonals are scaled to exp(+-i theta); theta = 0 in
// length gauge.
//
// Per row and step 43 (three_point) or 64 (numerov) fused multiply-adds, plus 45 a reduction stage and thread.
//
// Numerov's stencil spills some 25 registers at two blocks a multiprocessor; one block without spills was slower.
// qsim-compile: may-spill=cn_steps
// qsim-compile: -DROWS=11 -DTHREADS=256 -DMINBLOCKS=2 -DNUMEROV=0 -DVELOCITY=0 -DABSORB=0
// qsim-compile: -DROWS=11 -DTHREADS=256 -DMINBLOCKS=2 -DNUMEROV=1 -DVELOCITY=0 -DABSORB=0
// qsim-compile: -DROWS=11 -DTHREADS=256 -DMINBLOCKS=1 -DNUMEROV=1 -DVELOCITY=1 -DABSORB=1
// qsim-compile: -DROWS=11 -DTHREADS=256 -DMINBLOCKS=1 -DNUMEROV=0 -DVELOCITY=1 -DABSORB=2
#include "qsim.cuh"

#ifndef ROWS
#define ROWS 11  // rows a thread; odd, so that threads do not meet in a bank of shared memory
#endif
#ifndef THREADS
#define THREADS 256  // most threads a block
#endif
#ifndef MINBLOCKS
#define MINBLOCKS (512 / THREADS)  // blocks a multiprocessor shall hold
#endif
#ifndef NUMEROV
#define NUMEROV 0
#endif
#ifndef VELOCITY
#define VELOCITY 0
#endif
#ifndef ABSORB
#define ABSORB 0  // 1: -i W in the potential; 2: mask after every step
#endif
#define INNER (ROWS - 1)

struct Step {  // a row of step_table
    real field, kappa, shift, inverse_sigma, cosine, sine;
};

// Squared ratio of coupling to diagonal that no longer changes a rounded result once the couplings are taken into account to
// first order, with room for unequal diagonals.
__device__ constexpr real NEGLIGIBLE = sizeof(real) == 8 ? real(1e-20) : real(1e-12);
__device__ constexpr real WALL = sizeof(real) == 8 ? real(1e30) : real(1e15);  // diagonal of rows beyond the grid

// 1 / n by the hardware's approximation and two Newton steps; n is a squared pivot, far from overflow and underflow.
[[maybe_unused]] QSIM_DEVICE float inverse(float n) { return 1.0f / n; }
[[maybe_unused]] QSIM_DEVICE double inverse(double n) {
    double r;
    asm("rcp.approx.ftz.f64 %0, %1;" : "=d"(r) : "d"(n));
    r = fma(r, fma(-n, r, 1.0), r);
    return fma(r, fma(-n, r, 1.0), r);
}
QSIM_DEVICE cplx inverse(cplx z) {
    const real r = inverse(abs2(z));
    return {z.re * r, -z.im * r};
}

struct Row {      // what a step needs of one row
    cplx s, g;    // diagonal; 1/u (numerov)
};

// u of Numerov's stencil, times twelve like M and T: 1, 10, 1 have no rounding errors, which would make the norm drift.
// v: V + x E of the row, w: W of the absorber
[[maybe_unused]] QSIM_DEVICE cplx factor_of(real v, real w, real tau, real sigma) {
    return {ABSORB == 1 ? fma(tau, w, real(1)) : real(1), fma(tau, v, -12 * sigma)};
}

QSIM_DEVICE Row row_of(const Step& p, real v, real w, bool inside, real tau, real sigma) {
    Row r;
#if NUMEROV
    r.g = inverse(factor_of(v, w, tau, sigma));
    r.s = {fma(-144 * sigma, r.g.im, real(10)), 144 * sigma * r.g.re};
#else
    r.g = {1, 0};
    r.s = {p.kappa * (v + p.shift), ABSORB == 1 ? fma(tau, w, real(1)) * p.inverse_sigma : p.inverse_sigma};
#endif
    // a row beyond the grid decouples: its unknown is 0 to rounding, without a branch in the elimination
    if (!inside) r.s.re = WALL;
    return r;
}

struct Shared {
    cplx* psi;     // rows of the chunk
    cplx* joints;  // two sets of inverse diagonal, coupling and right-hand side of the joint lines, for turns
    cplx* x;       // unknowns of the joint lines
    real *v, *w;   // V and absorber of the rows

    QSIM_MEMBER cplx& inv(int turn) const { return joints[(3 * turn) * blockDim.x + threadIdx.x]; }
    QSIM_MEMBER cplx& q(int turn) const { return joints[(3 * turn + 1) * blockDim.x + threadIdx.x]; }
    QSIM_MEMBER cplx& d(int turn) const { return joints[(3 * turn + 2) * blockDim.x + threadIdx.x]; }
};

QSIM_DEVICE Shared carve(char* raw) {
    Shared m;
    const int threads = blockDim.x, rows = threads * ROWS;
    m.psi = (cplx*)raw;
    m.joints = m.psi + rows;
    m.x = m.joints + 6 * threads;
    m.v = (real*)(m.x + threads);
    m.w = m.v + rows;
    return m;
}

// Solve the symmetric tridiagonal system of the joint lines, one row a thread: diagonal a, coupling q to the thread below.
// shift: phase that a coupling across one thread carries.  Returns this thread's unknown.
QSIM_DEVICE cplx reduce_joints(const Shared& m, cplx a, cplx q, cplx d, cplx shift) {
    const int t = threadIdx.x, threads = blockDim.x;
    // every round eliminates the neighbours at distance h; the couplings decay faster than h doubles, so few rounds are needed.
    // Two sets of lines take turns: one synchronisation per round, and no one overwrites what another still reads.
    cplx inv = inverse(a);
    m.inv(0) = inv;
    m.q(0) = q;
    m.d(0) = d;
    int turn = 0;
    bool more = abs2(q) * abs2(inv) > NEGLIGIBLE;
    int h = 1;
#pragma unroll 1
    for (; __syncthreads_or(more) && h < threads; h *= 2) {
        cplx down = {0, 0};
        // the matrix is symmetric up to phases: the coupling to the thread above is the q of this one
        if (t >= h) {
            const cplx k = q * (&m.inv(turn))[-h];
            cplx dn = (&m.d(turn))[-h];
            if (VELOCITY) dn = conj(shift) * dn;
            a = cfma(-k, q, a);
            d = cfma(-k, dn, d);
            down = -(k * (&m.q(turn))[-h]);
        }
        if (t + h < threads) {
            const cplx qn = (&m.q(turn))[h], k = qn * (&m.inv(turn))[h];
            cplx dn = (&m.d(turn))[h];
            if (VELOCITY) dn = shift * dn;
            a = cfma(-k, qn, a);
            d = cfma(-k, dn, d);
        }
        if (VELOCITY) shift = shift * shift;
        q = down;
        inv = inverse(a);
        turn ^= 1;
        m.inv(turn) = inv;
        m.q(turn) = q;
        m.d(turn) = d;
        more = abs2(q) * abs2(inv) > NEGLIGIBLE;
    }
    // what couplings are left, to first order
    if (t >= h) {
        cplx dn = (&m.d(turn))[-h];
        if (VELOCITY) dn = conj(shift) * dn;
        d = cfma(-(q * (&m.inv(turn))[-h]), dn, d);
    }
    if (t + h < threads) {
        cplx dn = (&m.d(turn))[h];
        if (VELOCITY) dn = shift * dn;
        d = cfma(-((&m.q(turn))[h] * (&m.inv(turn))[h]), dn, d);
    }
    return inv * d;
}

// One time step of the block's rows.  first: index of the thread's first row in the chunk; lo <= row < hi lie on the grid.
QSIM_DEVICE void make_step(const Shared& m, const Step& p, real x0, real dx, int lo, int hi, real tau, real sigma) {
    const int t = threadIdx.x, threads = blockDim.x, first = t * ROWS;
    const real slope = p.field * dx, base = p.field * x0;
    const cplx phase = {p.cosine, p.sine};
    cplx inv[INNER], y[INNER];
    cplx* psi = m.psi + first;
    const real* v = m.v + first;
    // ---- reduce
    // one sweep down: inverse pivots of the interior; e couples the row to the joint line above; a0 and d0 are what the interior
    // takes from the equation of that line. In velocity gauge psi is turned so that all couplings are real.
    cplx e = {1, 0}, a0 = {0, 0}, d0 = {0, 0}, before = {0, 0}, d = {0, 0}, gauge = {1, 0}, a;
#pragma unroll
    for (int k = 0; k < ROWS; ++k) {
        const int l = first + k;
        const real w = ABSORB == 1 ? m.w[l] : real(0);
        const Row r = row_of(p, fma(slope, real(l), base) + v[k], w, l >= lo && l < hi, tau, sigma);
        cplx f = psi[k];
        if (VELOCITY && k > 0) {
            gauge = gauge * phase;
            f = gauge * f;
        }
        if (NUMEROV) f = r.g * f;
        if (VELOCITY || NUMEROV) psi[k] = f;
        a = k > 0 ? r.s - before : r.s;
        d = k > 0 ? cfma(-before, d, f) : f;
        if (k < INNER) {
            inv[k] = before = inverse(a);
            const cplx ei = e * before;
            a0 = cfma(ei, e, a0);
            d0 = cfma(ei, d, d0);
            e = -ei;
        }
    }
    cplx next = {1, 0};  // phase from this thread's gauge to the next one's
    if (VELOCITY) next = gauge * phase;
    m.inv(1) = a0;
    m.d(1) = d0;
    __syncthreads();
    // the joint line of this thread also loses what the interior of the next thread takes from it
    if (t + 1 < threads) {
        cplx dn = (&m.d(1))[1];
        if (VELOCITY) dn = next * dn;
        a = a - (&m.inv(1))[1];
        d = d - dn;
    }
    const cplx none = {0, 0};
    const cplx joint = reduce_joints(m, a, t > 0 ? e : none, d, next);
    m.x[t] = joint;
    __syncthreads();
    cplx left = t > 0 ? m.x[t - 1] : none;
    if (VELOCITY) left = conj(next) * left;
#if NUMEROV
    {   // psi' = 2 M y - u (psi / u); 2 M y of the joint itself follows from its own row, without the thread below
        const cplx f = psi[INNER], u = factor_of(fma(slope, real(first + INNER), base) + v[INNER],
                                                 ABSORB == 1 ? m.w[first + INNER] : real(0), tau, sigma);
        const cplx z = inverse(u) * joint;
        psi[INNER] = cfma(real(2), f, cplx{288 * sigma * z.im, -288 * sigma * z.re}) - u * f;
    }
#endif
    // ---- substitute
#pragma unroll
    // down and up with the pivots that are kept; psi' = 2 T^-1 M psi - psi without an explicit half step
    for (int k = 0; k < INNER; ++k) y[k] = k > 0 ? cfma(-inv[k - 1], y[k - 1], psi[k]) : psi[0] - left;
#if NUMEROV
    cplx up = joint;
#pragma unroll
    for (int k = INNER; k >= 0; --k) {  // y of row k - 1, then psi of row k, whose neighbours are now known
        const cplx below = k > 0 ? inv[k - 1] * (y[k - 1] - (k < INNER ? y[k] : joint)) : left;
        if (k > 0) y[k - 1] = below;
        if (k < INNER) {
            const cplx sum = below + up;
            const real w = ABSORB == 1 ? m.w[first + k] : real(0);
            const cplx u = factor_of(fma(slope, real(first + k), base) + v[k], w, tau, sigma);
            psi[k] = cfma(-u, psi[k], cfma(real(20), y[k], real(2) * sum));
            up = y[k];
        }
    }
#else
    const real two = 2 * p.inverse_sigma;
    cplx up = joint;
#pragma unroll
    for (int k = INNER; k >= 0; --k) {
        if (k < INNER) up = inv[k] * (y[k] - up);
        const cplx f = psi[k];
        psi[k] = {-fma(two, up.im, f.re), fma(two, up.re, -f.im)};
    }
#endif
    if (VELOCITY || ABSORB == 2) {
        gauge = {1, 0};
#pragma unroll
        for (int k = 0; k < ROWS; ++k) {
            if (VELOCITY && k > 0) {
                gauge = gauge * phase;
                psi[k] = conj(gauge) * psi[k];
            }
            if (ABSORB == 2) psi[k] = m.w[first + k] * psi[k];
        }
    }
}

// This block's part of sum |psi|^2, sum x |psi|^2 and sum V' |psi|^2 over rows [from, to) of the chunk, into out[0..2].
QSIM_DEVICE void measure(const cplx* psi, const real* slope, int64 start, int from, int to, real x0, real dx, real* scratch,
                         real* out) {
    real norm = 0, dipole = 0, force = 0;
    __syncthreads();
    for (int l = from + threadIdx.x; l < to; l += blockDim.x) {
        const real density = abs2(psi[l]);
        norm += density;
        dipole = fma(fma((real)l, dx, x0), density, dipole);
        if (slope) force = fma(slope[start + l], density, force);
    }
    norm = block_sum(norm, scratch);
    dipole = block_sum(dipole, scratch);
    force = block_sum(force, scratch);
    if (threadIdx.x == 0) {
        out[0] = norm;
        out[1] = dipole;
        out[2] = force;
    }
}

// psi_in, psi_out: (n) complex, distinct.  v, w, slope: (n) real; w is read if ABSORB, slope may be null.
// table: rows of step_table.  sums: (samples, blocks, 3) real, one sample after every `every` steps; none if every is 0.
extern "C" __global__ void __launch_bounds__(THREADS, MINBLOCKS)
    cn_steps(const cplx* __restrict__ psi_in, cplx* __restrict__ psi_out, const real* __restrict__ v,
             const real* __restrict__ w, const real* __restrict__ slope, const Step* __restrict__ table, int64 n,
             int chunk, int halo, int steps, int every, real xmin, real dx, real tau, real sigma, real* __restrict__ sums) {
    extern __shared__ char raw[];
    __shared__ real scratch[QSIM_WARP];
    // rows of this block in the grid: its chunk and a halo on either side; rows beyond the grid are outside of
    // lo ... hi
    const Shared m = carve(raw);
    const int rows = blockDim.x * ROWS;
    const int64 start = (int64)blockIdx.x * chunk - halo;
    const int lo = start < 0 ? (int)-start : 0, hi = n - start < rows ? (int)(n - start) : rows;
    const int last = halo + chunk < hi ? halo + chunk : hi;
    // load once, zero beyond the grid
    for (int l = threadIdx.x; l < rows; l += blockDim.x) {
        const bool inside = l >= lo && l < hi;
        m.psi[l] = inside ? psi_in[start + l] : cplx{0, 0};
        m.v[l] = inside ? v[start + l] : real(0);
        if (ABSORB) m.w[l] = inside ? w[start + l] : real(0);
    }
    __syncthreads();
    // all steps of the pass in shared memory; the halo loses its outermost rows step by step
    const real x0 = fma((real)start, dx, xmin);
    for (int s = 1; s <= steps; ++s) {
        make_step(m, table[s - 1], x0, dx, lo, hi, tau, sigma);
        if (every > 0 && s % every == 0) {
            measure(m.psi, slope, start, halo, last, x0, dx, scratch, sums + 3 * (int64)blockIdx.x);
            sums += 3 * (int64)gridDim.x;
        }
    }
    __syncthreads();
    // only the chunk is written: psi_out of other rows belongs to other blocks
    for (int l = halo + threadIdx.x; l < last; l += blockDim.x) psi_out[start + l] = m.psi[l];
}
