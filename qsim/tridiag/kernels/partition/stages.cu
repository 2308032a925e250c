// The literal stages of the N-shaped partition method: one thread a block of rows, as in Table 1 of the paper.
//
// Systems lie one after another, n rows each, as separate arrays a (diagonal), b (lower), c (upper), d (right-hand side).
// A block works in place on the rows strictly between its joint lines J_w and J_{w+1}.  What it adds to its joint lines goes
// into slots of its own, which joint_lines() sums in a fixed order: no atomics, and the same bits in every run.
//
// -DSCALAR=real for real systems, cplx (default) for complex ones.
//
// qsim-compile: -DSCALAR=cplx
// qsim-compile: -DSCALAR=real
#include "scalars.cuh"

#define RESIDUAL_THREADS 128  // as in stages.py

// Largest element of row i of the system as it was given; unused corners do not count.
QSIM_DEVICE real row_size(const scalar* a, const scalar* b, const scalar* c, int64 i, int64 n) {
    real size = magnitude(a[i]);
    if (i > 0) size = fmax(size, magnitude(b[i]));
    if (i < n - 1) size = fmax(size, magnitude(c[i]));
    return size;
}

// The smaller of `smallest` and |pivot| / size; an undefined ratio is a breakdown and counts as zero.
QSIM_DEVICE real smaller(real smallest, scalar pivot, real size) {
    real ratio = magnitude(pivot) / size;
    if (!(ratio >= real(0))) ratio = real(0);
    return ratio < smallest ? ratio : smallest;
}

// RD, JD, RU, JU.  a: reciprocal pivots on return; scale: row sizes of the finest system (nested partitions), or none.
// slots (4, systems, nbl): what is added to a and d of the joint line J_w, then to a and d of J_{w+1}.
// rb, rc (systems, nbl + 1): off-diagonals of the reduced system; pivots (systems, nbl).
extern "C" __global__ void rd_jd_ru_ju(int64 n, int64 nbl, int64 tasks, const int64* joints, const real* scale,
                                       int scaled, scalar* a, scalar* b, scalar* c, scalar* d, scalar* rb, scalar* rc,
                                       scalar* slots, real* pivots) {
    int64 task = (int64)blockIdx.x * blockDim.x + threadIdx.x;
    if (task >= tasks) return;
    int64 system = task / nbl, w = task % nbl, left = joints[w], right = joints[w + 1];
    // all that follows is of one system; scale, where it is given, has its shape
    a += system * n, b += system * n, c += system * n, d += system * n;
    if (scaled) scale += system * n;
    rb += system * (nbl + 1), rc += system * (nbl + 1);
    scalar zero = scalar(), da_left = zero, dd_left = zero, da_right = zero, dd_right = zero;
    real smallest = REAL_INFINITY;
    if (right == left + 1) {  // no interior: the joint lines are neighbours and couple as they are
        rb[w + 1] = b[right];
        rc[w] = c[left];
    } else {
        int64 i = left + 1;  // RD: rows left + 2 .. right - 1, and the pivot of every row
        scalar pivot = a[i], bi = b[i], di = d[i], ci = c[i];
        real size = scaled ? scale[i] : row_size(a, b, c, i, n);
        smallest = smaller(smallest, pivot, size);
        for (i = left + 2; i < right; ++i) {
            scalar inv = inverse(pivot), r = -(b[i] * inv);
            // the size of the row before anything is eliminated from it; its pivot is compared with that
            size = scaled ? scale[i] : row_size(a, b, c, i, n);
            // RU, JU and SS multiply by the reciprocal pivot: one division a row in all
            a[i - 1] = inv;
            pivot = mul_add(r, ci, a[i]);
            b[i] = bi = r * bi;
            d[i] = di = mul_add(r, di, d[i]);
            ci = c[i];
            smallest = smaller(smallest, pivot, size);
        }
        scalar inv = inverse(pivot), r = -(b[right] * inv);  // JD: row right
        a[right - 1] = inv;
        da_right = r * ci;
        rb[w + 1] = r * bi;
        dd_right = r * di;
        for (i = right - 2; i > left; --i) {  // RU: bi, ci, di belong to the row below
            r = -(c[i] * a[i + 1]);
            b[i] = bi = mul_add(r, bi, b[i]);
            c[i] = ci = r * ci;
            d[i] = di = mul_add(r, di, d[i]);
        }
        r = -(c[left] * a[left + 1]);  // JU: row left
        da_left = r * bi;
        rc[w] = r * ci;
        dd_left = r * di;
    }
    // slots of this block alone: its joint lines belong to two blocks, so joint_lines() adds them up
    slots[task] = da_left;
    slots[tasks + task] = dd_left;
    slots[2 * tasks + task] = da_right;
    slots[3 * tasks + task] = dd_right;
    pivots[task] = smallest;
}

// Diagonal, right-hand side and row sizes of the reduced system: the joint lines with what both neighbours add.
extern "C" __global__ void joint_lines(int64 n, int64 nbl, int64 systems, const int64* joints, const real* scale,
                                       int scaled, const scalar* a, const scalar* b, const scalar* c, const scalar* d,
                                       const scalar* slots, scalar* ra, scalar* rb, scalar* rc, scalar* rd,
                                       real* rscale) {
    int64 line = (int64)blockIdx.x * blockDim.x + threadIdx.x, tasks = systems * nbl;
    if (line >= systems * (nbl + 1)) return;
    int64 system = line / (nbl + 1), w = line % (nbl + 1), i = joints[w], row = system * n + i;
    // the line as it stands, then the block above, then the block below: always in this order, so that the bits repeat
    scalar ai = a[row], di = d[row];
    if (w > 0) {
        int64 task = system * nbl + w - 1;
        ai = ai + slots[2 * tasks + task];
        di = di + slots[3 * tasks + task];
    } else {
        rb[line] = scalar();
    }
    if (w < nbl) {
        int64 task = system * nbl + w;
        ai = ai + slots[task];
        di = di + slots[tasks + task];
    } else {
        rc[line] = scalar();
    }
    ra[line] = ai;
    rd[line] = di;
    rscale[line] = scaled ? scale[row] : row_size(a + system * n, b + system * n, c + system * n, i, n);
}

// RS: Thomas algorithm, one thread a system.  a and d are overwritten.
extern "C" __global__ void rs(int64 n, int64 systems, scalar* a, const scalar* b, const scalar* c, scalar* d,
                              const real* scale, scalar* x, real* pivots) {
    int64 system = (int64)blockIdx.x * blockDim.x + threadIdx.x;
    if (system >= systems) return;
    a += system * n, b += system * n, c += system * n, d += system * n, x += system * n, scale += system * n;
    scalar pivot = a[0], di = d[0];
    real smallest = smaller(REAL_INFINITY, pivot, scale[0]);
    // down: reciprocal pivots replace a, eliminated right-hand sides d
    for (int64 i = 1; i < n; ++i) {
        scalar inv = inverse(pivot), r = -(b[i] * inv);
        a[i - 1] = inv;
        pivot = mul_add(r, c[i - 1], a[i]);
        d[i] = di = mul_add(r, di, d[i]);
        smallest = smaller(smallest, pivot, scale[i]);
    }
    scalar xi = di * inverse(pivot);
    x[n - 1] = xi;
    for (int64 i = n - 2; i >= 0; --i) x[i] = xi = mul_add(-c[i], xi, d[i]) * a[i];
    pivots[system] = smallest;
}

// SS: the interior of a block from the two joint lines; y (systems, nbl + 1) solves the reduced system.
extern "C" __global__ void ss(int64 n, int64 nbl, int64 tasks, const int64* joints, const scalar* a, const scalar* b,
                              const scalar* c, const scalar* d, const scalar* y, scalar* x) {
    int64 task = (int64)blockIdx.x * blockDim.x + threadIdx.x;
    if (task >= tasks) return;
    int64 system = task / nbl, w = task % nbl, left = joints[w], right = joints[w + 1];
    a += system * n, b += system * n, c += system * n, d += system * n, x += system * n, y += system * (nbl + 1);
    scalar first = y[w], last = y[w + 1];
    // a block writes its interior and its right joint line; row 0 falls to the first block.  No recurrence: RU has left
    // every row coupled to the two joint lines alone
    if (w == 0) x[0] = first;
    for (int64 i = left + 1; i < right; ++i) x[i] = mul_add(-c[i], last, mul_add(-b[i], first, d[i])) * a[i];
    x[right] = last;
}

// T = 1 + i dt/2 H and d = (1 - i dt/2 H) psi for H = -1/2 d^2/dx^2 + V + x E, three-point stencil, psi = 0 outside.
extern "C" __global__ void build_cn(int64 n, const real* potential, const cplx* psi, real xmin, real dx, real dt,
                                    real field, cplx* a, cplx* b, cplx* c, cplx* d) {
    int64 i = (int64)blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    // dt/2 H: off = -dt/(4 dx^2) beside the diagonal, on = dt/(2 dx^2) + dt/2 (V + x E) on it
    real off = -dt / (4 * dx * dx), on = fma(real(0.5) * dt, potential[i] + fma((real)i, dx, xmin) * field, -2 * off);
    a[i] = make_cplx(1, on);
    b[i] = make_cplx(0, i > 0 ? off : real(0));
    c[i] = make_cplx(0, i < n - 1 ? off : real(0));
    cplx near = make_cplx(0, 0);
    if (i > 0) near += psi[i - 1];
    if (i < n - 1) near += psi[i + 1];
    cplx here = psi[i];
    d[i] = here - times_i(cfma(off, near, on * here));
}

// r = d - T x, and the largest |r|, |x|, |d|, row sum of |T| and |r| / (|T| |x| + |d|) in `rows` rows of one system: one block each.
// norms (systems, parts, 5); magnitudes as in magnitude().  In the last, rows whose divisor is not above `floor` do not count.
extern "C" __global__ void residual(int64 n, int64 parts, int64 rows, real floor, const scalar* a, const scalar* b,
                                    const scalar* c, const scalar* d, const scalar* x, scalar* r, real* norms) {
    __shared__ real scratch[QSIM_WARP];
    int64 system = blockIdx.x / parts, part = blockIdx.x % parts;
    int64 first = part * rows, last = first + rows < n ? first + rows : n;
    a += system * n, b += system * n, c += system * n, d += system * n, x += system * n, r += system * n;
    real found[5] = {0, 0, 0, 0, 0}, broken = 0;
    // a thread takes every blockDim-th row: neighbours read neighbouring numbers
    for (int64 i = first + threadIdx.x; i < last; i += blockDim.x) {
        // in one pass r, the row sum of |T| and whole = |T| |x| + |d|, the divisor of the row-wise error (Eq. T23)
        scalar xi = x[i], di = d[i], ri = mul_add(-a[i], xi, di);
        real sum = magnitude(a[i]), whole = magnitude(di) + sum * magnitude(xi);
        if (i > 0) {
            ri = mul_add(-b[i], x[i - 1], ri);
            sum += magnitude(b[i]);
            whole += magnitude(b[i]) * magnitude(x[i - 1]);
        }
        if (i < n - 1) {
            ri = mul_add(-c[i], x[i + 1], ri);
            sum += magnitude(c[i]);
            whole += magnitude(c[i]) * magnitude(x[i + 1]);
        }
        r[i] = ri;
        if (!(magnitude(ri) < REAL_INFINITY)) broken = 1;  // comparisons pass over NaN, so it is kept apart
        found[0] = fmax(found[0], magnitude(ri));
        found[1] = fmax(found[1], magnitude(xi));
        found[2] = fmax(found[2], magnitude(di));
        found[3] = fmax(found[3], sum);
        // compared as products: only a new maximum pays for a division
        if (whole > floor && magnitude(ri) > found[4] * whole) found[4] = magnitude(ri) / whole;
    }
    // one maximum after another through the same scratch: block_max() synchronises
    broken = block_max(broken, scratch, real(0));
    for (int k = 0; k < 5; ++k) {
        real value = block_max(found[k], scratch, real(0));
        if ((k == 0 || k == 4) && broken > 0) value = REAL_INFINITY;
        if (threadIdx.x == 0) norms[(int64)blockIdx.x * 5 + k] = value;
    }
}
