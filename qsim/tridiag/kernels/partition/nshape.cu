// General tridiagonal systems by the N-shaped partition method at memory speed: four arrays read, one written.
//
// A block holds a chunk of rows in shared memory, a thread ROWS of them; the last row of a thread is its joint line.  Threads
// eliminate their interiors (stages RD, JD, RU, JU in one sweep), the joint lines are reduced in parallel (RS), and the
// interiors substituted (SS).  Three uses:
//   partition_solve, local: chunks overlap by a halo, and the block measures how far values at the ends of the chunk reach;
//     if that is below rounding where the chunk is written, one pass is exact (80 bytes a row).  Otherwise a flag is set;
//   partition_reduce, partition_join: without halo, the chunk's last row is a joint line of the whole system; its equation
//     goes to the reduced system, which is solved by the same kernels;
//   partition_solve, exact: the second pass of that, with the joint lines known.
//
// A batch of systems is one system whose couplings vanish at every multiple of `length`.
//
// About 75 fused multiply-adds a row (complex), 60 a reduction stage and thread: below the time of 80 bytes a row.
//
// qsim-compile: -DROWS=11 -DTHREADS=96
// qsim-compile: -DROWS=11 -DTHREADS=96 -DSCALAR=real
#include "qsim.cuh"

#ifndef ROWS
#define ROWS 11  // rows a thread, at least 10; odd, so that threads do not meet in a bank of shared memory
#endif
#ifndef THREADS
#define THREADS 96
#endif
#ifndef SCALAR
#define SCALAR cplx
#endif
#define INNER (ROWS - 1)

typedef SCALAR scalar;

[[maybe_unused]] QSIM_DEVICE float inverse(float n) { return 1.0f / n; }
[[maybe_unused]] QSIM_DEVICE double inverse(double n) {
    double r;
    asm("rcp.approx.ftz.f64 %0, %1;" : "=d"(r) : "d"(n));
    r = fma(r, fma(-n, r, 1.0), r);
    return fma(r, fma(-n, r, 1.0), r);
}
[[maybe_unused]] QSIM_DEVICE cplx inverse(cplx z) {
    const real r = inverse(abs2(z));
    return {z.re * r, -z.im * r};
}
[[maybe_unused]] QSIM_DEVICE real square(real z) { return z * z; }
[[maybe_unused]] QSIM_DEVICE real square(cplx z) { return abs2(z); }
[[maybe_unused]] QSIM_DEVICE real madd(real a, real b, real c) { return fma(a, b, c); }
[[maybe_unused]] QSIM_DEVICE cplx madd(cplx a, cplx b, cplx c) { return cfma(a, b, c); }
[[maybe_unused]] QSIM_DEVICE void set(real& z, real v) { z = v; }
[[maybe_unused]] QSIM_DEVICE void set(cplx& z, real v) { z = {v, 0}; }
QSIM_DEVICE scalar number(real v) {
    scalar z;
    set(z, v);
    return z;
}
QSIM_DEVICE real larger(real a, real b) { return a > b ? a : b; }
QSIM_DEVICE real worse(real a, real b) { return b <= a || a != a ? a : b; }  // a NaN must be seen

__device__ constexpr real NEGLIGIBLE = sizeof(real) == 8 ? real(1e-36) : real(1e-18);  // squared coupling / diagonal
__device__ constexpr real UNFELT = sizeof(real) == 8 ? real(1e-34) : real(1e-17);      // squared reach of a chunk's ends

struct Rows {  // the chunk in shared memory
    scalar *a, *b, *c, *d;
    scalar* joints;  // lies over a, which nobody needs after the elimination: at most ten numbers a thread
};

QSIM_DEVICE Rows carve(char* raw) {
    Rows m;
    const int rows = blockDim.x * ROWS;
    m.a = (scalar*)raw;
    m.b = m.a + rows;
    m.c = m.b + rows;
    m.d = m.c + rows;
    m.joints = m.a;
    return m;
}

// Copy to shared memory past the registers, so that all loads of a chunk are on their way at once.
template <typename T> QSIM_DEVICE void copy_async(T* to, const T* from) {
    const uint32 address = (uint32)__cvta_generic_to_shared(to);
    if (sizeof(T) == 16) asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(address), "l"(from) : "memory");
    else asm volatile("cp.async.ca.shared.global [%0], [%1], %2;" ::"r"(address), "l"(from), "n"(sizeof(T)) : "memory");
}

// Copy rows [start, start + rows) into shared memory; couplings across the ends of systems vanish, rows outside are x = 0.
QSIM_DEVICE void load(const Rows& m, const scalar* a, const scalar* b, const scalar* c, const scalar* d, int64 start,
                      int64 n, int64 length, int rows) {
    const scalar zero = number(0), one = number(1);
    for (int l = threadIdx.x; l < rows; l += blockDim.x) {
        const int64 j = start + l;
        const bool inside = j >= 0 && j < n;
        bool first = j == 0, last = j == n - 1;
        if (length < n && inside) {
            const uint32 place = n <= 0xffffffffll ? (uint32)j % (uint32)length : (uint32)(j % length);
            first = place == 0;
            last = place == length - 1;
        }
        if (inside) {
            copy_async(m.a + l, a + j);
            copy_async(m.d + l, d + j);
        } else {
            m.a[l] = one;
            m.d[l] = zero;
        }
        if (inside && !first) copy_async(m.b + l, b + j);
        else m.b[l] = zero;
        if (inside && !last) copy_async(m.c + l, c + j);
        else m.c[l] = zero;
    }
    asm volatile("cp.async.wait_all;" ::: "memory");
    __syncthreads();
}

// What the elimination of a thread's interior leaves.
struct Reduced {
    scalar a, l, d;     // own joint line: diagonal, coupling to the joint above, right-hand side; the thread below still missing
    scalar a0, d0, f;   // first row: x_0 = d0 - a0 x_left + f x_joint
    real size;          // largest |entry|^2 of the joint line
    real growth;        // largest |row|^2 / |pivot|^2
};

QSIM_DEVICE Reduced eliminate(const Rows& m, scalar (&inv)[INNER]) {
    const int first = threadIdx.x * ROWS;
    const scalar *a = m.a + first, *b = m.b + first, *c = m.c + first, *d = m.d + first;
    Reduced r;
    scalar e = b[0], f = number(1), dd = d[0], p = a[0];
    // one sweep down: e is the coupling to the joint line above; a0, d0 and f give the first row of the interior, which the
    // thread above needs for its joint line
    r.a0 = r.d0 = number(0);
    r.growth = 0;
#pragma unroll
    for (int k = 0; k < ROWS; ++k) {
        const scalar bk = b[k], ck = c[k];
        if (k > 0) {
            const scalar w = -(bk * inv[k - 1]);
            p = madd(w, c[k - 1], a[k]);
            dd = madd(w, dd, d[k]);
            e = w * e;
        }
        // the size of the row as it was given, to which its pivot is compared; after the loop, of the joint line
        r.size = larger(square(a[k]), larger(square(bk), square(ck)));
        if (k < INNER) {
            inv[k] = inverse(p);
            r.growth = worse(r.growth, square(inv[k]) * r.size);
            // x_0 = d0 - a0 x_left + f x_{k+1}: row k put in for x_k
            const scalar fi = f * inv[k];
            r.d0 = madd(fi, dd, r.d0);
            r.a0 = madd(fi, e, r.a0);
            f = -(fi * ck);
        }
    }
    r.a = p;
    r.l = e;
    r.d = dd;
    r.f = f;
    return r;
}

// Substitute the interior: x overwrites d.
QSIM_DEVICE void substitute(const Rows& m, const scalar (&inv)[INNER], scalar left, scalar joint) {
    const int first = threadIdx.x * ROWS;
    const scalar *b = m.b + first, *c = m.c + first;
    scalar* d = m.d + first;
    scalar y[INNER];
    // down with the joint line above moved to the right side, up from the joint line below
    y[0] = madd(-b[0], left, d[0]);
#pragma unroll
    for (int k = 1; k < INNER; ++k) y[k] = madd(-(b[k] * inv[k - 1]), y[k - 1], d[k]);
    scalar up = joint;
    d[INNER] = joint;
#pragma unroll
    for (int k = INNER - 1; k >= 0; --k) {
        up = inv[k] * madd(-c[k], up, y[k]);
        d[k] = up;
    }
}

// Parallel cyclic reduction of the joint lines l x_above + x + u x_below = r, one a thread, with N right-hand sides; r becomes x.
template <int N>
QSIM_DEVICE void reduce_joints(scalar* joints, scalar l, scalar u, scalar (&r)[N], real& growth) {
    const int t = threadIdx.x, threads = blockDim.x;
    int turn = 0;
    bool more = true;
    for (int h = 1; h < 2 * threads; h *= 2) {
        // two buffers in turn: neighbours may still read this stage while the next is written, and one barrier suffices
        scalar* mine = joints + turn * (2 + N) * threads + t;
        mine[0] = l;
        mine[threads] = u;
#pragma unroll
        for (int i = 0; i < N; ++i) mine[(2 + i) * threads] = r[i];
        // couplings shrink with every stage: stop as soon as none in the block is felt
        more = square(l) > NEGLIGIBLE || square(u) > NEGLIGIBLE;
        if (!__syncthreads_or(more) || h >= threads) break;
        // lines have diagonal 1: what the neighbours at distance h take from it is p, by which the line is divided again
        scalar p = number(1), ll = number(0), uu = number(0);
        const real size = larger(real(1), larger(square(l), square(u)));
        if (t >= h) {
            p = madd(-l, mine[threads - h], p);
            ll = -(l * mine[-h]);
#pragma unroll
            for (int i = 0; i < N; ++i) r[i] = madd(-l, mine[(2 + i) * threads - h], r[i]);
        }
        if (t + h < threads) {
            p = madd(-u, mine[h], p);
            uu = -(u * mine[threads + h]);
#pragma unroll
            for (int i = 0; i < N; ++i) r[i] = madd(-u, mine[(2 + i) * threads + h], r[i]);
        }
        const scalar q = inverse(p);
        growth = worse(growth, square(q) * size);
        l = q * ll;
        u = q * uu;
#pragma unroll
        for (int i = 0; i < N; ++i) r[i] = q * r[i];
        turn ^= 1;
    }
}

// Give the joint lines the first rows of the threads below and divide by the diagonal: l, u, r of reduce_joints.
QSIM_DEVICE void close_joints(const Rows& m, const Reduced& e, scalar& l, scalar& u, scalar& d, real& growth) {
    const int t = threadIdx.x, threads = blockDim.x;
    const scalar c = m.c[t * ROWS + INNER];
    scalar* s = m.joints + t;
    __syncthreads();  // all have read their a
    s[0] = e.a0;
    s[threads] = e.d0;
    s[2 * threads] = e.f;
    __syncthreads();
    scalar a = e.a;
    d = e.d;
    u = number(0);
    const bool below = t + 1 < threads;
    if (below) {
        a = madd(-c, s[1], a);
        d = madd(-c, s[threads + 1], d);
        u = c * s[2 * threads + 1];
    }
    __syncthreads();  // the joints are written next
    const scalar q = inverse(a);
    growth = worse(e.growth, square(q) * e.size);
    l = q * e.l;
    u = q * u;
    d = q * d;
}

// Keep the largest growth of all blocks.  The bits of positive numbers are ordered like the numbers, and NaN lies above them all.
QSIM_DEVICE void keep_growth(real growth, real* scratch, uint64* found) {
    bool broken = !(growth < REAL_INFINITY);
    growth = block_max(growth, scratch, real(0));
    if (__syncthreads_or(broken)) growth = REAL_INFINITY;
    if (threadIdx.x == 0) atomicMax(found, (uint64)__double_as_longlong((double)growth));
}

// Solve chunks of rows.  joints == null: local, rows [b chunk - halo, (b + 1) chunk + halo) with x = 0 beyond, found[1] = 1 if
// that is felt in the chunk.  joints: (blocks) values of the last row of every chunk, halo = 0.
// found[0]: bits of the largest |row|^2 / |pivot|^2, in double.
extern "C" __global__ void __launch_bounds__(THREADS)
    partition_solve(const scalar* __restrict__ a, const scalar* __restrict__ b, const scalar* __restrict__ c,
                    const scalar* __restrict__ d, scalar* __restrict__ x, const scalar* __restrict__ joints, int64 n,
                    int64 length, int chunk, int halo, uint64* __restrict__ found) {
    extern __shared__ char raw[];
    __shared__ real scratch[QSIM_WARP];
    const Rows m = carve(raw);
    const int t = threadIdx.x, threads = blockDim.x, rows = threads * ROWS;
    const int64 start = (int64)blockIdx.x * chunk - halo;
    load(m, a, b, c, d, start, n, length, rows);
    // second pass: the last rows of this chunk and of the chunk before are known
    if (joints) {
        if (t == 0) {
            const int last = (n - start < rows ? (int)(n - start) : rows) - 1;
            if (start > 0) m.d[0] = madd(-m.b[0], joints[blockIdx.x - 1], m.d[0]);
            m.b[0] = number(0);
            if (blockIdx.x + 1 < gridDim.x) {
                m.a[last] = number(1);
                m.b[last] = m.c[last] = number(0);
                m.d[last] = joints[blockIdx.x];
            }
        }
        __syncthreads();
    }
    scalar inv[INNER], l, u, r[2];
    const Reduced e = eliminate(m, inv);
    real growth;
    close_joints(m, e, l, u, r[0], growth);
    // how far do the values beyond the ends reach?  The second right-hand side has a unit value on either side.
    r[1] = number(0);
    if (t == 0) {
        r[1] = -l;
        l = number(0);
    }
    if (t == threads - 1) r[1] = r[1] - inverse(e.a) * m.c[rows - 1];
    reduce_joints(m.joints, l, u, r, growth);
    __syncthreads();
    m.joints[t] = r[0];
    __syncthreads();
    const scalar left = t > 0 ? m.joints[t - 1] : number(0);
    if (!joints && halo > 0) {  // without a halo, chunks hold whole systems
        // the last joint before the chunk's own rows and the first one after them
        const int joint = t * ROWS + INNER, last = halo + chunk - 1;
        const bool above = start > 0 && joint < halo && joint >= halo - ROWS;
        const bool below = start + rows < n && joint >= last && joint < last + ROWS;
        if ((above || below) && !(square(r[1]) <= UNFELT)) found[1] = 1;
    }
    substitute(m, inv, left, r[0]);
    keep_growth(growth, scratch, found);
    __syncthreads();
    const int from = halo, to = (int)(n - start < halo + chunk ? n - start : halo + chunk);
    for (int k = from + t; k < to; k += threads) x[start + k] = m.d[k];
}

// First pass of the exact solve.  ends: (6, blocks): of every chunk the diagonal, upper coupling and right-hand side of its
// last row without the chunk below, its coupling to the last row above; and of its first row d0, a0, f as in Reduced, over three arrays.
extern "C" __global__ void __launch_bounds__(THREADS)
    partition_reduce(const scalar* __restrict__ a, const scalar* __restrict__ b, const scalar* __restrict__ c,
                     const scalar* __restrict__ d, scalar* __restrict__ ends, int64 n, int64 length, int chunk,
                     uint64* __restrict__ found) {
    extern __shared__ char raw[];
    __shared__ real scratch[QSIM_WARP];
    const Rows m = carve(raw);
    const int t = threadIdx.x, threads = blockDim.x, rows = threads * ROWS;
    const int64 start = (int64)blockIdx.x * chunk;
    load(m, a, b, c, d, start, n, length, rows);
    scalar inv[INNER], l, u, r[3];
    const Reduced e = eliminate(m, inv);
    real growth;
    // the last thread's joint is the chunk's: outside of the reduction, on the right-hand side of its neighbour
    close_joints(m, e, l, u, r[0], growth);
    r[1] = r[2] = number(0);
    if (t == 0) {
        r[1] = -l;
        l = number(0);
    }
    if (t == threads - 2) {
        r[2] = -u;
        u = number(0);
    }
    if (t == threads - 1) {
        l = u = r[0] = number(0);
        growth = e.growth;  // its diagonal is not complete yet
    }
    reduce_joints(m.joints, l, u, r, growth);
    __syncthreads();
    if (t == threads - 2)
        for (int i = 0; i < 3; ++i) m.joints[i] = r[i];
    __syncthreads();
    const int64 blocks = gridDim.x, w = blockIdx.x;
    if (t == threads - 1) {  // x_above = joints[0] + joints[1] x_left + joints[2] x_joint
        ends[w] = madd(e.l, m.joints[2], e.a);
        ends[blocks + w] = e.l * m.joints[1];
        ends[2 * blocks + w] = madd(-e.l, m.joints[0], e.d);
    }
    if (t == 0) {  // x_0 = d0 - a0 x_left + f x_joint of this thread
        ends[3 * blocks + w] = madd(e.f, r[0], e.d0);
        ends[4 * blocks + w] = madd(-e.f, r[1], e.a0);
        ends[5 * blocks + w] = e.f * r[2];
    }
    keep_growth(growth, scratch, found);
}

// The reduced system: one row a chunk.  c: upper diagonal of the system, of which the chunks' last entries count.
extern "C" __global__ void partition_join(const scalar* __restrict__ ends, const scalar* __restrict__ c, int64 n, int64 length,
                                          int chunk, int64 blocks, scalar* __restrict__ ra, scalar* __restrict__ rb,
                                          scalar* __restrict__ rc, scalar* __restrict__ rd) {
    const int64 w = (int64)blockIdx.x * blockDim.x + threadIdx.x;
    if (w >= blocks) return;
    const int64 j = (w + 1) * chunk - 1;  // the chunk's last row; beyond the grid for the last chunk
    const bool linked = w + 1 < blocks && (j + 1) % length != 0;
    const scalar cj = linked ? c[j] : number(0);
    ra[w] = linked ? madd(-cj, ends[4 * blocks + w + 1], ends[w]) : ends[w];
    rd[w] = linked ? madd(-cj, ends[3 * blocks + w + 1], ends[2 * blocks + w]) : ends[2 * blocks + w];
    rb[w] = ends[blocks + w];
    rc[w] = linked ? cj * ends[5 * blocks + w + 1] : number(0);
}
