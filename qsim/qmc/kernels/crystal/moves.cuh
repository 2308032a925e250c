// Moves of single electrons of a walker in a crystal.

#ifndef QSIM_QMC_CRYSTAL_MOVES_CUH
#define QSIM_QMC_CRYSTAL_MOVES_CUH
#include "pairs.cuh"

#ifndef PART
#define PART 1  // elements of an inverse in a load, a divisor of the orbitals
#endif
#ifndef ROW_LANES
#define ROW_LANES 0  // lanes that hold a row of an inverse in a load each, a power of two; 0: a row is too long
#endif
#ifndef WINDOW
#define WINDOW 0  // electrons after which an inverse is brought up to date, a power of two; 0: after each
#endif
#ifndef CHUNKS
#define CHUNKS 1  // loads of a lane for a row of an inverse, if there are windows
#endif
#define TOGETHER 8  // rows of an inverse that are updated at once
#define SINGULAR (SINGLE ? 1e-37 : 1e-300)  // least modulus of a ratio, above those that are not normal numbers

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

#if ROW_LANES || WINDOW
struct __align__(PART * sizeof(elem)) Elements {
    elem x[PART];
};
#endif

// Sherman and Morrison: row i becomes `row`.  `column` is work space of M numbers.  Rows are read in one piece
// and only once if a few lanes hold one; the sums over some rows are added up between the lanes at once.
QSIM_DEVICE void update_inverse(elem* inverse, const elem* row, int i, int n, int M, elem ratio, elem* column) {
    CLOCK(UPDATES);
    const elem over = reciprocal(ratio);
    join();
#if ROW_LANES
    constexpr int STEP = LANES / ROW_LANES;
    const int o = lane_of() % ROW_LANES * PART, own = lane_of() / ROW_LANES;
    const bool inside = o < M;
    Elements x = {}, c = {};
#pragma unroll
    for (int v = 0; v < PART; ++v)
        if (o + v < n) x.x[v] = row[o + v], c.x[v] = inverse[i * M + o + v] * over;
    for (int first = own; first - own < n; first += TOGETHER * STEP) {
        Elements a[TOGETHER];
        real dots[(1 + COMPLEX) * TOGETHER];
#pragma unroll
        for (int k = 0; k < TOGETHER; ++k) {
            const int r = first + k * STEP;
            a[k] = Elements{};
            if (inside && r < n) a[k] = *(const Elements*)(inverse + r * M + o);
        }
#pragma unroll
        for (int k = 0; k < TOGETHER; ++k) {
            elem dot = elem();
#pragma unroll
            for (int v = 0; v < PART; ++v) dot += x.x[v] * a[k].x[v];
#if COMPLEX
            dots[k] = dot.re, dots[TOGETHER + k] = dot.im;
#else
            dots[k] = dot;
#endif
        }
        group_totals<TOGETHER, ROW_LANES>(dots);
#if COMPLEX
        group_totals<TOGETHER, ROW_LANES>(dots + TOGETHER);
#endif
#pragma unroll
        for (int k = 0; k < TOGETHER; ++k) {
            const int r = first + k * STEP;
#if COMPLEX
            const elem dot = {dots[k], dots[TOGETHER + k]};
#else
            const elem dot = dots[k];
#endif
#pragma unroll
            for (int v = 0; v < PART; ++v) a[k].x[v] -= dot * c.x[v];
            if (inside && r < n && r != i) *(Elements*)(inverse + r * M + o) = a[k];
        }
    }
    join();
    if (own == 0)
#pragma unroll
        for (int v = 0; v < PART; ++v)
            if (o + v < n) inverse[i * M + o + v] = c.x[v];
    join();
#else
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
#endif
}

#if WINDOW
// Delayed updates.  Of a window of electrons that move one after the other, the columns of the inverse are brought up to date at once,
// by u_j = (column of j) / ratio and the new row x_j.  All other columns c follow at its end: the updates c -= u_j (x_j c), one after
// the other, are c -= sum_j u_j (v_j c) with v_j = x_j - sum_(l < j) (x_j u_l) v_l.  An inverse is read and written once for a window.

// A row as lanes hold it.
struct Row {
    Elements x[CHUNKS];
};

QSIM_DEVICE int chunk(int k) { return (lane_of() + k * LANES) * PART; }

QSIM_DEVICE Row row_at(const elem* from, int M) {
    Row row = {};
#pragma unroll
    for (int k = 0; k < CHUNKS; ++k)
        if (chunk(k) < M) row.x[k] = *(const Elements*)(from + chunk(k));
    return row;
}

QSIM_DEVICE void put_row(elem* to, const Row& row, int M) {
#pragma unroll
    for (int k = 0; k < CHUNKS; ++k)
        if (chunk(k) < M) *(Elements*)(to + chunk(k)) = row.x[k];
}

// a += factor b
QSIM_DEVICE void add_row(Row& a, elem factor, const Row& b) {
#pragma unroll
    for (int k = 0; k < CHUNKS; ++k)
#pragma unroll
        for (int v = 0; v < PART; ++v) a.x[k].x[v] += factor * b.x[k].x[v];
}

QSIM_DEVICE elem dot_rows(const Row& a, const Row& b) {
    elem dot = elem();
#pragma unroll
    for (int k = 0; k < CHUNKS; ++k)
#pragma unroll
        for (int v = 0; v < PART; ++v) dot += a.x[k].x[v] * b.x[k].x[v];
    return dot;
}

QSIM_DEVICE void window_totals(elem* dots) {
#if COMPLEX
    real parts[2 * WINDOW];
#pragma unroll
    for (int k = 0; k < WINDOW; ++k) parts[k] = dots[k].re, parts[WINDOW + k] = dots[k].im;
    group_totals<2 * WINDOW>(parts);
#pragma unroll
    for (int k = 0; k < WINDOW; ++k) dots[k] = {parts[k], parts[WINDOW + k]};
#else
    group_totals<WINDOW>(dots);
#endif
}

// Accept electron i of a window begin ... end of n; `kept` (2, WINDOW, M): u and v of those before it, `count` of them.
QSIM_DEVICE void update_window(elem* inverse, const elem* row, int i, int begin, int n, int M, elem ratio, elem* kept, int count) {
    CLOCK(UPDATES);
    const elem over = reciprocal(ratio);
    join();
    Row x = row_at(row, M), u = row_at(inverse + i * M, M);
#pragma unroll
    for (int k = 0; k < CHUNKS; ++k)
#pragma unroll
        for (int v = 0; v < PART; ++v) {
            const bool inside = chunk(k) + v < n;
            x.x[k].x[v] = inside ? x.x[k].x[v] : elem();
            u.x[k].x[v] = inside ? u.x[k].x[v] * over : elem();
        }
    {
        Row c[WINDOW];
        elem dots[WINDOW];
#pragma unroll
        for (int k = 0; k < WINDOW; ++k) c[k] = begin + k < n ? row_at(inverse + (begin + k) * M, M) : Row{};
#pragma unroll
        for (int k = 0; k < WINDOW; ++k) dots[k] = dot_rows(x, c[k]);
        window_totals(dots);
#pragma unroll
        for (int k = 0; k < WINDOW; ++k) {
            add_row(c[k], -dots[k], u);
            if (begin + k < n) put_row(inverse + (begin + k) * M, begin + k == i ? u : c[k], M);
        }
    }
    put_row(kept + count * M, u, M);
    {
        elem dots[WINDOW];
#pragma unroll
        for (int k = 0; k < WINDOW; ++k) dots[k] = k < count ? dot_rows(x, row_at(kept + k * M, M)) : elem();
        window_totals(dots);
#pragma unroll
        for (int k = 0; k < WINDOW; ++k)
            if (k < count) add_row(x, -dots[k], row_at(kept + (WINDOW + k) * M, M));
    }
    put_row(kept + (WINDOW + count) * M, x, M);
    join();
}

// Bring the columns outside of a window up to date.
QSIM_DEVICE void close_window(elem* inverse, int begin, int n, int M, const elem* kept, int count) {
    CLOCK(UPDATES);
    constexpr int ROWS = 4;  // whose loads are under way together
    if (count == 0) return;
    Row u[WINDOW], v[WINDOW];
#pragma unroll
    for (int k = 0; k < WINDOW; ++k) {
        u[k] = k < count ? row_at(kept + k * M, M) : Row{};
        v[k] = k < count ? row_at(kept + (WINDOW + k) * M, M) : Row{};
    }
    const int size = min(WINDOW, n - begin);
    for (int first = 0; first < n - size; first += ROWS) {
        Row c[ROWS];
#pragma unroll
        for (int r = 0; r < ROWS; ++r) {
            const int number = first + r < begin ? first + r : first + r + size;
            c[r] = number < n ? row_at(inverse + number * M, M) : Row{};
        }
#pragma unroll
        for (int r = 0; r < ROWS; ++r) {
            const int number = first + r < begin ? first + r : first + r + size;
            elem dots[WINDOW];
#pragma unroll
            for (int k = 0; k < WINDOW; ++k) dots[k] = dot_rows(v[k], c[r]);
            window_totals(dots);
#pragma unroll
            for (int k = 0; k < WINDOW; ++k) add_row(c[r], -dots[k], u[k]);
            if (number < n) put_row(inverse + number * M, c[r], M);
        }
    }
    join();
}
#endif

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
    double cosine, sine;
    sincospi(2 * unit(u.y), &sine, &cosine);
    return {a * cosine, a * sine, b * cospi(2 * unit(u.w)), log(uniform52(v.x, v.y))};
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
#if WINDOW
    elem* kept = (elem*)(s.scratch + w * s.stride);
    int count = 0;
    Electron last = {};
#endif
    for (int e = 0; e < N; ++e) {
        if (e % LANES == 0) chance = drawn(draw, e + lane_of(), width);
        const Electron at = electron(m, e);
#if WINDOW
        if (at.i % WINDOW == 0) {
            if (e > 0) close_window(inverse_of(m, s, w, last.spin), last.i / WINDOW * WINDOW, last.n, M, kept, count);
            count = 0;
        }
        last = at;
#endif
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
#if WINDOW
        update_window(inverse, row_of(m, local, 0), at.i, at.i / WINDOW * WINDOW, at.n, M, ratio, kept, count++);
#else
        update_inverse(inverse, row_of(m, local, 0), at.i, at.n, M, ratio, local.column);
#endif
        settle(m, s, w, e, local, nx, ny, nz);
        log_psi += change;
        if (!COMPLEX && real_part(ratio) < 0) sign = -sign;
        accepted += square;
        ++moved;
    }
#if WINDOW
    if (N > 0) close_window(inverse_of(m, s, w, last.spin), last.i / WINDOW * WINDOW, last.n, M, kept, count);
#endif
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
