// Pieces of a tridiagonal system that is solved block by block: reduction, substitution, residual; random systems.
//
// A piece holds the rows edges[p] .. edges[p+1]-1 of the block at hand; its last row is a joint line, the rows before it are
// its interior.  One thread a piece.  The right-hand sides lie one after another, `rows` numbers each.
//
// -DSCALAR=real for real systems, cplx (default) for complex ones.
//
// qsim-compile: -DSCALAR=cplx
// qsim-compile: -DSCALAR=real
#include "scalars.cuh"

QSIM_MEMBER void set_real(real& z, real x) { z = x; }
QSIM_MEMBER void set_real(cplx& z, real x) { z = {x, 0}; }

// The smaller of `smallest` and |pivot| / size; an undefined ratio is a breakdown and counts as zero.
QSIM_DEVICE real smaller(real smallest, scalar pivot, scalar a, scalar b, scalar c) {
    real ratio = magnitude(pivot) / fmax(magnitude(a), fmax(magnitude(b), magnitude(c)));
    if (!(ratio >= real(0))) ratio = real(0);
    return ratio < smallest ? ratio : smallest;
}

// x_first = g_f - p_f x_left - q_f x_joint and x_last = g_l - p_l x_left - q_l x_joint for the first and the last row of the
// interior.  links (pieces, 4): p_f, q_f, p_l, q_l; loads (columns, pieces, 2): g_f, g_l; pivots (pieces).
extern "C" __global__ void reduce_pieces(int64 pieces, int64 rows, int64 columns, const int64* edges, const scalar* a,
                                         const scalar* b, const scalar* c, const scalar* d, scalar* links,
                                         scalar* loads, real* pivots) {
    int64 p = (int64)blockIdx.x * blockDim.x + threadIdx.x;
    if (p >= pieces) return;
    int64 first = edges[p], joint = edges[p + 1] - 1;
    real smallest = REAL_INFINITY;
    scalar* link = links + 4 * p;
    if (joint == first) {  // no interior: the row before the joint line is the joint line on the left, and conversely
        link[0] = link[3] = scalar();
        set_real(link[1], -1);
        set_real(link[2], -1);
        for (int64 q = 0; q < columns; ++q) loads[2 * (q * pieces + p)] = loads[2 * (q * pieces + p) + 1] = scalar();
        pivots[p] = REAL_INFINITY;
        return;
    }
    // nothing of the elimination is stored: every column repeats it, and writes the same links again
    for (int64 q = 0; q < columns; ++q) {
        const scalar* dq = d + q * rows;
        scalar* load = loads + 2 * (q * pieces + p);
        // downwards to the last row of the interior: its value by the joint lines on both sides
        scalar pivot = a[first], spike = b[first], sum = dq[first];
        smallest = smaller(smallest, pivot, a[first], b[first], c[first]);
        for (int64 i = first + 1; i < joint; ++i) {
            scalar r = -(b[i] * inverse(pivot));
            pivot = mul_add(r, c[i - 1], a[i]);
            spike = r * spike;
            sum = mul_add(r, sum, dq[i]);
            smallest = smaller(smallest, pivot, a[i], b[i], c[i]);
        }
        scalar inv = inverse(pivot);
        link[2] = spike * inv, link[3] = c[joint - 1] * inv, load[1] = sum * inv;
        // upwards to the first row in the same way; a thread reads its rows twice, since they do not fit into registers
        pivot = a[joint - 1], spike = c[joint - 1], sum = dq[joint - 1];
        for (int64 i = joint - 2; i >= first; --i) {
            scalar r = -(c[i] * inverse(pivot));
            pivot = mul_add(r, b[i + 1], a[i]);
            spike = r * spike;
            sum = mul_add(r, sum, dq[i]);
            smallest = smaller(smallest, pivot, a[i], b[i], c[i]);
        }
        inv = inverse(pivot);
        link[0] = b[first] * inv, link[1] = spike * inv, load[0] = sum * inv;
    }
    pivots[p] = smallest;
}

// Interior rows from the joint lines on either side; pieces with skip[p] are left alone but for their joint line.
// left, right (columns, pieces): x of the joint lines; w: workspace of `rows` numbers.
extern "C" __global__ void substitute_pieces(int64 pieces, int64 rows, int64 columns, const int64* edges,
                                             const unsigned char* skip, const scalar* a, const scalar* b,
                                             const scalar* c, const scalar* d, const scalar* left, const scalar* right,
                                             scalar* w, scalar* x) {
    int64 p = (int64)blockIdx.x * blockDim.x + threadIdx.x;
    if (p >= pieces) return;
    int64 first = edges[p], joint = edges[p + 1] - 1;
    for (int64 q = 0; q < columns; ++q) {
        const scalar* dq = d + q * rows;
        scalar *xq = x + q * rows, before = left[q * pieces + p], after = right[q * pieces + p], factor = scalar();
        xq[joint] = after;
        if (skip[p]) continue;
        // Thomas algorithm; w holds the upper factors, x the eliminated right-hand sides until the way up
        for (int64 i = first; i < joint; ++i) {
            scalar inv = inverse(mul_add(-b[i], factor, a[i]));
            before = mul_add(-b[i], before, dq[i]) * inv;
            w[i] = factor = c[i] * inv;
            xq[i] = before;
        }
        for (int64 i = joint - 1; i >= first; --i) xq[i] = after = mul_add(-w[i], after, xq[i]);
    }
}

// Residual of the rows of each piece, x being known one row before and after the block.  stats (columns, pieces, 4):
// max |d - T x|, max |x|, max |d|, max |d - T x| / (|T| |x| + |d|) of the rows whose divisor is above `floor`;
// sums (pieces): largest row sum of |T|.  `known` rows have both neighbours.
extern "C" __global__ void residual_pieces(int64 pieces, int64 rows, int64 columns, int64 known, real floor,
                                           const int64* edges, const scalar* a, const scalar* b, const scalar* c,
                                           const scalar* d, const scalar* x, const scalar* before, real* stats,
                                           real* sums) {
    int64 p = (int64)blockIdx.x * blockDim.x + threadIdx.x;
    if (p >= pieces) return;
    for (int64 q = 0; q < columns; ++q) {
        const scalar *dq = d + q * rows, *xq = x + q * rows;
        real rmax = 0, xmax = 0, dmax = 0, tmax = 0, share = 0;
        for (int64 i = edges[p]; i < edges[p + 1]; ++i) {
            // NaN stays in the maxima of |x| and |d - T x|: fmax would drop it
            real size = magnitude(xq[i]);
            xmax = size > xmax || size != size ? size : xmax;
            dmax = fmax(dmax, magnitude(dq[i]));
            tmax = fmax(tmax, magnitude(a[i]) + magnitude(b[i]) + magnitude(c[i]));
            // the row below is in the next block: this one's residual is formed when that is there
            if (i >= known) continue;
            scalar left = i > 0 ? xq[i - 1] : before[q];
            scalar r = mul_add(-a[i], xq[i], dq[i]);
            r = mul_add(-b[i], left, r);
            real whole = magnitude(dq[i]) + magnitude(a[i]) * size + magnitude(b[i]) * magnitude(left);
            if (i < rows - 1) {
                r = mul_add(-c[i], xq[i + 1], r);
                whole += magnitude(c[i]) * magnitude(xq[i + 1]);
            }
            size = magnitude(r);
            rmax = size > rmax || size != size ? size : rmax;
            if (whole > floor) share = fmax(share, size / whole);
        }
        real* out = stats + 4 * (q * pieces + p);
        out[0] = rmax, out[1] = xmax, out[2] = dmax, out[3] = share;
        if (q == 0) sums[p] = tmax;
    }
}

// Rows first .. first + rows - 1 of a random system, as systems.RandomSource describes it; n: rows of one system of a batch.
QSIM_MEMBER void set(real& z, double2 u) { z = (real)u.x; }
QSIM_MEMBER void set(cplx& z, double2 u) { z = {(real)u.x, (real)u.y}; }
QSIM_MEMBER double length(real z) { return fabs((double)z); }
QSIM_MEMBER double length(cplx z) { return hypot((double)z.re, (double)z.im); }
QSIM_MEMBER void turn(real& z, double size, double u) { z = (real)(u < 0.5 ? size : -size); }
QSIM_MEMBER void turn(cplx& z, double size, double u) {
    complex_of<double> phase = expi(6.283185307179586 * u);
    z = {(real)(size * phase.re), (real)(size * phase.im)};
}

extern "C" __global__ void random_rows(int64 rows, int64 columns, int64 first, int64 n, uint32 key0, uint32 key1,
                                       uint32 stream, double dominance, scalar* a, scalar* b, scalar* c, scalar* d) {
    int64 k = (int64)blockIdx.x * blockDim.x + threadIdx.x;
    if (k >= rows) return;
    // counters are rows of the whole batch, so that blocks of any size hold the same numbers
    uint64 row = (uint64)(first + k);
    uint32 low = (uint32)row, high = (uint32)(row >> 32);
    uint2 key = make_uint2(key0, key1);
    scalar lower, upper;
    set(lower, normal2(key, stream, high, low, 0));
    set(upper, normal2(key, stream, high, low, 1));
    turn(a[k], dominance * (length(lower) + length(upper)), uniform2(key, stream, high, low, 2).x);
    // corners vanish only now: |a| has the same distribution in every row
    b[k] = row % (uint64)n == 0 ? scalar() : lower;
    c[k] = row % (uint64)n == (uint64)n - 1 ? scalar() : upper;
    for (int64 q = 0; q < columns; ++q) set(d[q * rows + k], normal2(key, stream, high, low, 3 + (uint32)q));
}
