// Moves of single electrons of a walker in a crystal.

#ifndef QSIM_QMC_CRYSTAL_MOVES_CUH
#define QSIM_QMC_CRYSTAL_MOVES_CUH
#include "crystal_pairs.cuh"

#define TOGETHER 8  // rows of an inverse that are updated at once
#define SINGULAR 1e-300

struct Electron {
    int spin, i, n;
};

QSIM_DEVICE Electron electron(const Crystal& m, int e) {
    const int up = (int)m.n_up;
    return e < up ? Electron{0, e, up} : Electron{1, e - up, (int)m.electrons - up};
}

QSIM_DEVICE elem* inverse_of(const Crystal& m, const State& s, int64 w, int spin) {
    return (elem*)s.inverse + (w * 2 + spin) * m.orbitals * m.orbitals;
}

QSIM_DEVICE elem* rows_of(const Crystal& m, const State& s, int64 w, int e) {
    return (elem*)s.rows + (w * m.electrons + e) * 5 * m.orbitals;
}

// Row k of the five at a new place.
QSIM_DEVICE const elem* row_of(const Crystal& m, const Local& local, int k) { return (const elem*)(local.rows + k * m.all_channels); }

// Sum of a row with a column; every lane holds the result.
QSIM_DEVICE wide along(const elem* row, const elem* column, int n) {
    wide total = wide();
    for (int o = lane_of(); o < n; o += LANES) total += widened(row[o]) * widened(column[o]);
    return group_total(total);
}

QSIM_DEVICE double real_along(const elem* row, const elem* column, int n) {
    double total = 0;
    for (int o = lane_of(); o < n; o += LANES) total += real_product(row[o], column[o]);
    return group_total(total);
}

// Sherman and Morrison: row i becomes `row`.  `column` is work space of M numbers.  A lane takes a column, so that rows are read in one
// piece, and the sums over some rows are added up between the lanes at once.
QSIM_DEVICE void update_inverse(elem* inverse, const elem* row, int i, int n, int M, wide ratio, elem* column) {
    const elem over = narrowed(one() / ratio);
    join();
    for (int o = lane_of(); o < n; o += LANES) column[o] = inverse[i * M + o] * over;
    join();
    for (int first = 0; first < n; first += TOGETHER) {
        elem dots[TOGETHER];
#pragma unroll
        for (int r = 0; r < TOGETHER; ++r) dots[r] = elem();
        for (int o = lane_of(); o < n; o += LANES) {
            const elem x = row[o];
#pragma unroll
            for (int r = 0; r < TOGETHER; ++r)
                if (first + r < n) dots[r] += x * inverse[(first + r) * M + o];
        }
#pragma unroll
        for (int r = 0; r < TOGETHER; ++r) dots[r] = group_total(dots[r]);
        for (int o = lane_of(); o < n; o += LANES) {
            const elem c = column[o];
#pragma unroll
            for (int r = 0; r < TOGETHER; ++r)
                if (first + r < n && first + r != i) inverse[(first + r) * M + o] -= dots[r] * c;
        }
    }
    join();
    for (int o = lane_of(); o < n; o += LANES) inverse[i * M + o] = column[o];
    join();
}

// Put electron e at a place; `local.rows` are its new ones.
QSIM_DEVICE void settle(const Crystal& m, const State& s, int64 w, int e, const Local& local, double x, double y, double z) {
    const int M = (int)m.orbitals;
    elem* target = rows_of(m, s, w, e);
    for (int k = 0; k < 5; ++k) {
        const elem* row = row_of(m, local, k);
        for (int o = lane_of(); o < M; o += LANES) target[k * M + o] = row[o];
    }
    if (lane_of() == 0) {
        double* R = s.R + (w * m.electrons + e) * 3;
        R[0] = x, R[1] = y, R[2] = z;
        if (SINGLE) site_of(m, x, y, z, local.own[e]);
    }
    join();
}

QSIM_DEVICE void sweep(const Crystal& m, const State& s, int64 w, double tau, int mode, const Draw& draw, const Local& local) {
    const int N = (int)m.electrons, M = (int)m.orbitals;
    const double* R = s.R + w * N * 3;
    const double variance = tau / m.mass, width = sqrt(variance);
    int moved = 0;
    double proposed = 0, accepted = 0, log_psi = 0, sign = 1;
    for (int e = 0; e < N; ++e) {
        const Electron at = electron(m, e);
        elem* inverse = inverse_of(m, s, w, at.spin);
        const elem* column = inverse + at.i * M;
        const double x = R[3 * e], y = R[3 * e + 1], z = R[3 * e + 2];
        const uint4 u = words(draw, PER_ELECTRON * e);
        const double a = width * sqrt(-2 * log(unit(u.x))), b = width * sqrt(-2 * log(unit(u.z)));
        const double sx = a * cos(TWO_PI * unit(u.y)), sy = a * sin(TWO_PI * unit(u.y)), sz = b * cos(TWO_PI * unit(u.w));
        const Gradient old = electron_gradient(m, local, e, local.electrons[e]);
        double vx = 0, vy = 0, vz = 0;
        if (mode != PLAIN) {
            const elem* row = rows_of(m, s, w, e);
            vx = real_along(row + M, column, at.n) - old.x;
            vy = real_along(row + 2 * M, column, at.n) - old.y;
            vz = real_along(row + 3 * M, column, at.n) - old.z;
            const double f = variance * limited(vx, vy, vz, variance);
            vx *= f, vy *= f, vz *= f;
        }
        const double nx = x + vx + sx, ny = y + vy + sy, nz = z + vz + sz;
        const double square = (nx - x) * (nx - x) + (ny - y) * (ny - y) + (nz - z) * (nz - z);
        proposed += square;
        bloch_rows(m, at.spin, nx, ny, nz, local.rows);
        Site there;
        site_of(m, nx, ny, nz, there);
        const Gradient now = electron_gradient(m, local, e, there);
        const wide ratio = along(row_of(m, local, 0), column, at.n);
        const double size = modulus(ratio);
        if ((mode == FIXED_NODE && !COMPLEX && real_part(ratio) <= 0) || !(size > SINGULAR)) continue;
        double exponent = 2 * (log(size) + old.u - now.u);
        if (mode != PLAIN) {
            const double wx = real_part(along(row_of(m, local, 1), column, at.n) / ratio) - now.x;
            const double wy = real_part(along(row_of(m, local, 2), column, at.n) / ratio) - now.y;
            const double wz = real_part(along(row_of(m, local, 3), column, at.n) / ratio) - now.z;
            const double f = variance * limited(wx, wy, wz, variance);
            const double bx = x - nx - f * wx, by = y - ny - f * wy, bz = z - nz - f * wz;
            exponent += 0.5 * ((sx * sx + sy * sy + sz * sz) - (bx * bx + by * by + bz * bz)) / variance;
        }
        if (exponent < 0) {
            const uint4 v = words(draw, PER_ELECTRON * e + ACCEPTANCE);
            if (!(log(uniform52(v.x, v.y)) < exponent)) continue;
        }
        update_inverse(inverse, row_of(m, local, 0), at.i, at.n, M, ratio, local.column);
        settle(m, s, w, e, local, nx, ny, nz);
        log_psi += log(size) + old.u - now.u;
        if (!COMPLEX && real_part(ratio) < 0) sign = -sign;
        accepted += square;
        ++moved;
    }
    if (lane_of() == 0) {
        s.log_psi[w] += log_psi;
        s.sign[w] *= sign;
        s.moves[4 * w] += moved;
        s.moves[4 * w + 1] += proposed;
        s.moves[4 * w + 2] += accepted;
        s.age[w] = moved ? 0 : s.age[w] + 1;
    }
    join();
}

#endif
