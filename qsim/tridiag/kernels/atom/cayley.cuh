// The Cayley step of A d/dr of pairs on a GPU, without a substitution.
//
// A pair (l, l+1) turns by g c (l+1) / (2r), its sum and difference make T v' = T- v with T = M1 + k D / r', T- = M1 - k D / r',
// k = +-g c / 4, v = f / sqrt(r'), and it turns again.  The matrices change with every step.  With the pivots P, Q of T from
// either end, the inverse of a tridiagonal matrix being products along rows and columns,
//
//     v'_j = D_j v_j + G_j (Y_j + Z_j),   Y_(j+1) = s_j v_j + a_j Y_j,   Z_(j-1) = z_j v_j + b_j Z_j,   G_j = 1 / (P_j + Q_j - T_jj),
//     a_j = -T_(j+1,j) / P_j,   b_j = -T_(j-1,j) / Q_j,   D_j = G_j (T-_jj + a_(j-1) T-_(j-1,j) + b_(j+1) T-_(j+1,j)),
//     s_j = T-_(j+1,j) + a_j (T-_jj + a_(j-1) T-_(j-1,j)),   z_j = T-_(j-1,j) + b_j (T-_jj + b_(j+1) T-_(j+1,j)):
//
// two recurrences of first order, as the radial step has them.  Where the grid is uniform, pivots have a closed form; elsewhere they
// are found from `warm` rows before and after, beyond which nothing is felt: by each thread for its rows.  Blocks that
// keep their rows in registers do with fewer numbers (warps_velocity.cuh).
#ifndef QSIM_ATOM_CAYLEY_CUH
#define QSIM_ATOM_CAYLEY_CUH
#include "chunks.cuh"

struct Mix {
    const real *inverse_r, *inverse_slope, *root;  // (rows of all chunks): 1/r, 1/r', sqrt(r'); 0 beyond the grid
    const int* felt;    // (3, chunks): parts before and after a chunk that are felt; `warm`, rows before and after a part that its
                        // pivots feel, -1 where these are the pivots of a uniform grid without end
    int points;
};

// The numbers of a Cayley step in the rows of a thread, of the sums or of the differences of pairs (see above): row by row, or those of
// all rows where 1 / r' is the same in all rows that are felt.
struct CayleyRows {
    real as[ROWS], bs[ROWS], ss[ROWS], zs[ROWS], gains[ROWS], keeps[ROWS];
    QSIM_MEMBER real a(int r) const { return as[r]; }
    QSIM_MEMBER real b(int r) const { return bs[r]; }
    QSIM_MEMBER real s(int r) const { return ss[r]; }
    QSIM_MEMBER real z(int r) const { return zs[r]; }
    QSIM_MEMBER real gain(int r) const { return gains[r]; }
    QSIM_MEMBER real keep(int r) const { return keeps[r]; }
};

struct CayleyAlike {
    real one_a, one_b, one_s, one_z, one_gain, one_keep;
    QSIM_MEMBER real a(int) const { return one_a; }
    QSIM_MEMBER real b(int) const { return one_b; }
    QSIM_MEMBER real s(int) const { return one_s; }
    QSIM_MEMBER real z(int) const { return one_z; }
    QSIM_MEMBER real gain(int) const { return one_gain; }
    QSIM_MEMBER real keep(int) const { return one_keep; }
    QSIM_MEMBER CayleyAlike other() const { return {one_b, one_a, one_z, one_s, one_gain, one_keep}; }  // of the differences
};

QSIM_DEVICE CayleyAlike cayley_uniform(real k) {
    // fixed point of p = 2/3 - (1/36 - k^2) / p, the pivot of an endless uniform grid
    const real sixth = real(1.0 / 6.0), third = real(1.0 / 3.0), square = fma(k, k, real(1.0 / 12.0)), root = inverse_root(square);
    const real pivot = -inverse(fma(square, root, third)), gain = real(0.5) * root, low = sixth - k, high = sixth + k;
    const real a = low * pivot, b = high * pivot;
    return {a, b, fma(a, fma(a, low, 2 * third), high), fma(b, fma(b, high, 2 * third), low), gain,
            gain * fma(a, low, fma(b, high, 2 * third))};
}

QSIM_DEVICE real cayley_diagonal(const Mix& x, int j, real k) {
    const real sixth = real(1.0 / 6.0), corner = real(-0.26794919243112270647);  // sqrt(3) - 2
    if (j > 0 && j < x.points - 1) return 4 * sixth;
    return fma(j == x.points - 1 ? -corner : corner, k * x.inverse_slope[j], (4 + corner) * sixth);
}

// T_(j+1,j) T_(j,j+1)
QSIM_DEVICE real cayley_bond(const Mix& x, int j, real k) {
    const real sixth = real(1.0 / 6.0);
    return fma(-k, x.inverse_slope[j], sixth) * fma(k, x.inverse_slope[j + 1], sixth);
}

// Inverse pivots of the row before the first and of the row after the last, of sums (+k) and of differences (-k), by determinants of
// both directions and signs side by side.
struct CayleyEnds {
    real beyond[2], above[2];
};

QSIM_DEVICE CayleyEnds cayley_ends(const Mix& x, int first, int warm, real k) {
    const real sixth = real(1.0 / 6.0), corner = real(-0.26794919243112270647);  // sqrt(3) - 2
    const int n = x.points, after = first + ROWS, end = after < n ? after : n - 1;
    int j = first - 1 - warm, i = after + warm;  // rows that both come from
    real back = x.inverse_slope[j < 0 ? 0 : j], fore = x.inverse_slope[i >= n ? n - 1 : i];
    real p[2][2] = {{0, 1}, {0, 1}}, q[2][2] = {{0, 1}, {0, 1}};  // determinants before and here, of both signs
    for (int step = 0; step <= warm; ++step, ++j, --i) {
        // from rows before, towards `first`; corners of M1 and D in the first and the last row of the grid
        if (j >= 0 && j < n) {
            const real here = x.inverse_slope[j], side = k * here, other = k * back;
            const real edge = j == 0 || j == n - 1 ? (j == n - 1 ? -corner : corner) * side : real(0);
            const real base = j == 0 || j == n - 1 ? (4 + corner) * sixth : 4 * sixth;
            const real low = sixth - other, high = sixth + other, now_low = sixth - side, now_high = sixth + side;
            const real one = fma(base + edge, p[0][1], -(low * now_high) * p[0][0]);
            const real two = fma(base - edge, p[1][1], -(high * now_low) * p[1][0]);
            p[0][0] = p[0][1], p[0][1] = one, p[1][0] = p[1][1], p[1][1] = two;
            back = here;
        }
        // from rows after, towards the last row of the part, at the same time: both chains are independent
        if (i >= end && i < n) {
            const real here = x.inverse_slope[i], side = k * here, other = k * fore;
            const real edge = i == 0 || i == n - 1 ? (i == n - 1 ? -corner : corner) * side : real(0);
            const real base = i == 0 || i == n - 1 ? (4 + corner) * sixth : 4 * sixth;
            const real low = sixth - side, high = sixth + side, far_low = sixth - other, far_high = sixth + other;
            const real one = fma(base + edge, q[0][1], -(low * far_high) * q[0][0]);
            const real two = fma(base - edge, q[1][1], -(high * far_low) * q[1][0]);
            q[0][0] = q[0][1], q[0][1] = one, q[1][0] = q[1][1], q[1][1] = two;
            fore = here;
        }
    }
    // a pivot is the ratio of two determinants: one division at the end instead of one per row
    CayleyEnds e = {{0, 0}, {0, 0}};
#pragma unroll
    for (int sign = 0; sign < 2; ++sign) {
        if (first > 0 && first <= n) e.beyond[sign] = p[sign][0] * inverse(p[sign][1]);
        if (after < n) e.above[sign] = q[sign][0] * inverse(q[sign][1]);
    }
    return e;
}

QSIM_DEVICE void cayley_rows(const Mix& x, int first, real beyond, real above, real k, CayleyRows& c) {
    const real sixth = real(1.0 / 6.0);
    const int n = x.points;
    real p[ROWS], q[ROWS];  // pivots from either end
    // pivots of the rows of the thread, from either end, each from the inverse pivot beside it
    real last = beyond;
#pragma unroll
    for (int r = 0; r < ROWS; ++r) {
        const int j = first + r;
        p[r] = 1;
        if (j < n) p[r] = cayley_diagonal(x, j, k) - (j > 0 ? cayley_bond(x, j - 1, k) * last : real(0));
        c.as[r] = last = inverse(p[r]);
    }
    last = above;
#pragma unroll
    for (int r = ROWS - 1; r >= 0; --r) {
        const int j = first + r;
        q[r] = 1;
        if (j < n) q[r] = cayley_diagonal(x, j, k) - (j + 1 < n ? cayley_bond(x, j, k) * last : real(0));
        c.bs[r] = last = j < n ? inverse(q[r]) : real(0);
    }
#pragma unroll
    for (int r = 0; r < ROWS; ++r) {
        const int j = first + r;
        const real slope = j < n ? x.inverse_slope[j] : real(0);
        const real low = fma(-k, slope, sixth), high = fma(k, slope, sixth);
        // factors of the recurrences; zero at the ends of the grid, where nothing comes from beyond
        c.as[r] = j + 1 < n ? -low * c.as[r] : real(0);
        c.bs[r] = j > 0 && j < n ? -high * c.bs[r] : real(0);
    }
#pragma unroll
    for (int r = 0; r < ROWS; ++r) {
        const int j = first + r;
        if (j >= n) {
            c.ss[r] = c.zs[r] = c.gains[r] = c.keeps[r] = 0;
            continue;
        }
        const real slope = x.inverse_slope[j], low = fma(-k, slope, sixth), high = fma(k, slope, sixth);
        const real diagonal = cayley_diagonal(x, j, k), other = cayley_diagonal(x, j, -k);
        real left = 0, right = 0;  // a_(j-1) and b_(j+1)
        if (j > 0) left = r > 0 ? c.as[r > 0 ? r - 1 : 0] : -fma(-k, x.inverse_slope[j - 1], sixth) * beyond;
        if (j + 1 < n) right = r + 1 < ROWS ? c.bs[r + 1 < ROWS ? r + 1 : r] : -fma(k, x.inverse_slope[j + 1], sixth) * above;
        // what a row adds to either recurrence, and to its own value
        c.ss[r] = fma(c.as[r], fma(left, low, other), high);
        c.zs[r] = fma(c.bs[r], fma(right, high, other), low);
        c.gains[r] = inverse(p[r] + q[r] - diagonal);
        c.keeps[r] = c.gains[r] * fma(left, low, fma(right, high, other));
    }
}

// Sums of the rows from zero, either way, and the products that take other sums over the rows.
template <typename T>
QSIM_DEVICE void cayley_sums(const T& c, const cplx (&v)[ROWS], cplx& down, cplx& up, real& along, real& back) {
    down = c.s(0) * v[0], up = c.z(ROWS - 1) * v[ROWS - 1];
    along = c.a(0), back = c.b(ROWS - 1);
#pragma unroll
    for (int r = 1; r < ROWS; ++r) {
        const int u = ROWS - 1 - r;
        down = cfma(c.a(r), down, c.s(r) * v[r]), along *= c.a(r);
        up = cfma(c.b(u), up, c.z(u) * v[u]), back *= c.b(u);
    }
}

// v' in place of v, from what comes to the rows.
template <typename T> QSIM_DEVICE void cayley_values(const T& c, cplx (&v)[ROWS], cplx down, cplx up) {
    // down first, with what comes from before; then up, with what comes from after: v is read until its row is
    // written
    cplx out[ROWS];
#pragma unroll
    for (int r = 0; r < ROWS; ++r) {
        out[r] = cfma(c.gain(r), down, c.keep(r) * v[r]);
        down = cfma(c.a(r), down, c.s(r) * v[r]);
    }
#pragma unroll
    for (int r = ROWS - 1; r >= 0; --r) {
        out[r] = cfma(c.gain(r), up, out[r]);
        up = cfma(c.b(r), up, c.z(r) * v[r]);
        v[r] = out[r];
    }
}

#endif  // QSIM_ATOM_CAYLEY_CUH
