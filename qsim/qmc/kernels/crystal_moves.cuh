// Moves of single electrons of a walker in a crystal.

#ifndef QSIM_QMC_CRYSTAL_MOVES_CUH
#define QSIM_QMC_CRYSTAL_MOVES_CUH
#include "crystal_pairs.cuh"

#define TOGETHER 8  // rows of an inverse that are updated at once
#define SINGULAR (SINGLE ? 1e-37 : 1e-300)  // least modulus of a ratio, above those that are not normal numbers

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
QSIM_DEVICE elem along(const elem* row, const elem* column, int n) {
    CLOCK(RATIOS);
    elem total = elem();
    for (int o = lane_of(); o < n; o += LANES) total += row[o] * column[o];
    return group_total(total);
}

QSIM_DEVICE double real_along(const elem* row, const elem* column, int n) {
    double total = 0;
    for (int o = lane_of(); o < n; o += LANES) total += real_product(row[o], column[o]);
    return group_total(total);
}

// Real parts of the sums of rows 1, 2, 3 with a column: the part of this lane.
QSIM_DEVICE void slopes(const elem* row, int M, const elem* column, int n, real* sums) {
    CLOCK(RATIOS);
    for (int o = lane_of(); o < n; o += LANES) {
        const elem c = column[o];
#pragma unroll
        for (int k = 0; k < 3; ++k) sums[k] += real_product(row[(1 + k) * M + o], c);
    }
}

// Sherman and Morrison: row i becomes `row`.  `column` is work space of M numbers.  A lane takes a column, so that rows are read in one
// piece, and the sums over some rows are added up between the lanes at once.
QSIM_DEVICE void update_inverse(elem* inverse, const elem* row, int i, int n, int M, elem ratio, elem* column) {
    CLOCK(UPDATES);
    const elem over = reciprocal(ratio);
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

// Steps and acceptance of an electron: lanes draw them for LANES electrons at once.
struct Chance {
    double x, y, z, log_u;
};

QSIM_DEVICE Chance drawn(const Draw& draw, int e, double width) {
    const uint4 u = words(draw, PER_ELECTRON * e), v = words(draw, PER_ELECTRON * e + ACCEPTANCE);
    const double a = width * sqrt(-2 * log(unit(u.x))), b = width * sqrt(-2 * log(unit(u.z)));
    return {a * cos(TWO_PI * unit(u.y)), a * sin(TWO_PI * unit(u.y)), b * cos(TWO_PI * unit(u.w)), log(uniform52(v.x, v.y))};
}

QSIM_DEVICE double of_lane(double x, int lane) { return __shfl_sync(group(), x, lane, LANES); }

// Limit of the drift as `limited`, without the difference of two numbers near 1.
QSIM_DEVICE real drift(const real* v, real tau) { return 2 / (1 + sqrt(1 + 2 * tau * (v[0] * v[0] + v[1] * v[1] + v[2] * v[2]))); }

QSIM_DEVICE void sweep(const Crystal& m, const State& s, int64 w, double tau, int mode, const Draw& draw, const Local& local) {
    const int N = (int)m.electrons, M = (int)m.orbitals;
    const double* R = s.R + w * N * 3;
    const double width = sqrt(tau / m.mass);
    const real variance = (real)(tau / m.mass);
    int moved = 0;
    double proposed = 0, accepted = 0, log_psi = 0, sign = 1;
    Chance chance;
    for (int e = 0; e < N; ++e) {
        if (e % LANES == 0) chance = drawn(draw, e + lane_of(), width);
        const Electron at = electron(m, e);
        elem* inverse = inverse_of(m, s, w, at.spin);
        const elem* column = inverse + at.i * M;
        const double gx = of_lane(chance.x, e % LANES), gy = of_lane(chance.y, e % LANES), gz = of_lane(chance.z, e % LANES);
        real old[8] = {};
        electron_gradient(m, local, e, local.electrons[e], old);
        real step[3] = {(real)gx, (real)gy, (real)gz};
        const real noise = step[0] * step[0] + step[1] * step[1] + step[2] * step[2];
        if (mode != PLAIN) slopes(rows_of(m, s, w, e), M, column, at.n, old + 4);
        group_totals<8>(old);
        if (mode != PLAIN) {
            const real v[3] = {old[4] - old[1], old[5] - old[2], old[6] - old[3]};
            const real f = variance * drift(v, variance);
            step[0] += f * v[0], step[1] += f * v[1], step[2] += f * v[2];
        }
        const double nx = R[3 * e] + ((double)step[0] - (real)gx + gx), ny = R[3 * e + 1] + ((double)step[1] - (real)gy + gy);
        const double nz = R[3 * e + 2] + ((double)step[2] - (real)gz + gz);
        const real square = step[0] * step[0] + step[1] * step[1] + step[2] * step[2];
        proposed += square;
        bloch_rows(m, at.spin, nx, ny, nz, local.rows);
        Site there;
        site_of(m, nx, ny, nz, there);
        real now[8] = {};
        electron_gradient(m, local, e, there, now);
#if COMPLEX
        real sums[8] = {};
        for (int o = lane_of(); o < at.n; o += LANES) {
            const elem c = column[o];
#pragma unroll
            for (int k = 0; k < 4; ++k) {
                const elem p = row_of(m, local, k)[o] * c;
                sums[2 * k] += p.re, sums[2 * k + 1] += p.im;
            }
        }
        group_totals<4>(now), group_totals<8>(sums);
        const elem ratio = {sums[0], sums[1]}, over = reciprocal(ratio);
        const elem gradient[3] = {{sums[2], sums[3]}, {sums[4], sums[5]}, {sums[6], sums[7]}};
#else
        for (int o = lane_of(); o < at.n; o += LANES) now[4] += row_of(m, local, 0)[o] * column[o];
        slopes(row_of(m, local, 0), (int)m.all_channels, column, at.n, now + 5);
        group_totals<8>(now);
        const elem ratio = now[4], over = reciprocal(ratio);
        const elem* gradient = now + 5;
#endif
        const real size = modulus(ratio);
        if ((mode == FIXED_NODE && !COMPLEX && real_part(ratio) <= 0) || !(size > (real)SINGULAR)) continue;
        const real change = log(size) + old[0] - now[0];
        real exponent = 2 * change;
        if (mode != PLAIN) {
            const real v[3] = {real_part(gradient[0] * over) - now[1], real_part(gradient[1] * over) - now[2],
                               real_part(gradient[2] * over) - now[3]};
            const real f = variance * drift(v, variance);
            const real bx = step[0] + f * v[0], by = step[1] + f * v[1], bz = step[2] + f * v[2];
            exponent += (real)0.5 * (noise - (bx * bx + by * by + bz * bz)) / variance;
        }
        if (exponent < 0 && !(of_lane(chance.log_u, e % LANES) < exponent)) continue;
        update_inverse(inverse, row_of(m, local, 0), at.i, at.n, M, ratio, local.column);
        settle(m, s, w, e, local, nx, ny, nz);
        log_psi += change;
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
