// Determinants of a walker: one, whose inverse is all, or (EXPANSION) a sum of them; equations and tables as in slater_cpu.py, types.py.
//
// The lanes of a walker share the strings of a level, whose minors need those of the level below; the adjoint gathers from the strings of
// the level above, so that no two lanes add to one number and bits do not depend on their number's order.
//
// Flops of an accepted move with K strings of mean level k: 2 n^2 + 4 n p + 6 K k; of a change of spin 2 D.

#ifndef QSIM_QMC_SLATER_CUH
#define QSIM_QMC_SLATER_CUH
#include "../common/walkers.cuh"
#include "../molecule/orbitals.cuh"

#ifdef EXPANSION
typedef double amplitude;  // of a column
#else
typedef real amplitude;
#endif

// Sums of a row (k-th of the five) with a column; every lane holds the result.
QSIM_DEVICE double along(const real* row, const amplitude* column, int n) {
    double total = 0;
    for (int o = lane_of(); o < n; o += LANES) total += (double)row[o] * column[o];
    return group_total(total);
}

// Sherman and Morrison: row i becomes `row`.  `column` is work space of n numbers; M: length of a row of the array.
QSIM_DEVICE void update_inverse(real* inverse, const real* row, int i, int n, int M, double ratio, real* column) {
    const real over = (real)1 / (real)ratio;
    join();
    for (int o = lane_of(); o < n; o += LANES) column[o] = inverse[i * M + o] * over;
    join();
    for (int k = lane_of(); k < n; k += LANES) {
        if (k == i) continue;
        real* other = inverse + k * M;
        real dot = 0;
        for (int o = 0; o < n; ++o) dot += row[o] * other[o];
        for (int o = 0; o < n; ++o) other[o] -= dot * column[o];
    }
    join();
    for (int o = lane_of(); o < n; o += LANES) inverse[i * M + o] = column[o];
    join();
}

// Gauss and Jordan with pivots by column: A (n, n) becomes 1 and X, which is 1 before, its inverse; returns log |det|, `sign` its sign or 0.
QSIM_DEVICE double invert(double* A, double* X, int n, int M, double& sign) {
    double log_det = 0;
    const int lane = lane_of();
    for (int i = 0; i < n; ++i) {
        int p = i;
        for (int k = i + 1; k < n; ++k)
            if (fabs(A[k * M + i]) > fabs(A[p * M + i])) p = k;
        const double pivot = A[p * M + i];
        if (!(fabs(pivot) > 0)) {
            sign = 0;
            break;
        }
        join();
        for (int k = lane; k < n; k += LANES) {
            const double a = A[p * M + k], x = X[p * M + k];
            if (p != i) A[p * M + k] = A[i * M + k], X[p * M + k] = X[i * M + k];
            A[i * M + k] = a / pivot, X[i * M + k] = x / pivot;
        }
        if (p != i) sign = -sign;
        if (pivot < 0) sign = -sign;
        log_det += log(fabs(pivot));
        join();
        for (int j = 0; j < n; ++j) {
            if (j == i) continue;
            const double f = A[j * M + i];
            join();
            for (int k = lane; k < n; k += LANES) A[j * M + k] -= f * A[i * M + k], X[j * M + k] -= f * X[i * M + k];
            join();
        }
    }
    return log_det;
}

#ifdef EXPANSION

#define LEVELS 8          // as in types.py
#define SMALL_RATIO 1e-6  // of reference determinants, below which the reference is inverted anew

// What a walker has of its expansion.
struct Slater {
    double *numbers, *bar, *weights, *Y, *columns, *A, *X;
    bool stale;  // Y is out of date
};

QSIM_DEVICE Slater slater_of(const Model& m, const State& s, int64 w) {
    const int64 S = m.strings, M = m.orbitals, F = m.filled;
    double* at = s.scratch + w * s.stride + m.own;
    double* columns = at + 2 * S + F * M;
    double* A = columns + m.electrons * M;
    return {s.expansion + w * m.numbers, at, at + S, at + 2 * S, columns, A, A + F * F, true};
}

// Orbitals and particles of a spin, and its strings.
struct Spin {
    int n, M, p, first_hole;
    const int64* level;
    double* T;
};

QSIM_DEVICE Spin spin_of(const Model& m, const Slater& x, int spin) {
    const int64* size = m.sizes + 4 * spin;
    return {(int)size[0], (int)size[1], (int)(size[1] - size[0]), (int)size[2], m.level + (LEVELS + 2) * spin, x.numbers + size[3]};
}

QSIM_DEVICE int orbitals_of(const Model& m, const Electron& at) { return (int)m.sizes[4 * at.spin + 1]; }

// Prepare the columns of a spin: what the other one makes its strings weigh.  Returns psi over the references.
QSIM_DEVICE double begin_spin(const Model& m, Slater& x, int spin) {
    const Spin a = spin_of(m, x, spin);
    double total = 0;
    join();
    for (int64 s = a.level[0] + lane_of(); s < a.level[LEVELS + 1]; s += LANES) {
        double sum = 0;
        for (int64 d = m.begin[s]; d < m.begin[s + 1]; ++d) sum = fma(m.coefficient[d], x.numbers[1 + m.other[d]], sum);
        x.weights[s] = sum;
        total = fma(sum, x.numbers[1 + s], total);
    }
    total = group_total(total);
    if (lane_of() == 0) x.numbers[0] = total;
    x.stale = true;
    join();
    return total;
}

QSIM_DEVICE void set_minors(const Model& m, Slater& x, int spin) {
    const Spin a = spin_of(m, x, spin);
    double* minor = x.numbers + 1;
    int64 t = m.first_term[spin];
    join();
    if (lane_of() == 0) minor[a.level[0]] = 1;
    for (int k = 1; k <= LEVELS; ++k) {
        if (a.level[k] == a.level[k + 1]) continue;
        join();
        for (int64 s = a.level[k] + lane_of(); s < a.level[k + 1]; s += LANES) {
            const int64 first = t + k * (s - a.level[k]);
            double total = 0;
            for (int j = 0; j < k; ++j) {
                const double term = a.T[m.place[first + j]] * minor[m.parent[first + j]];
                total += j % 2 ? -term : term;
            }
            minor[s] = total;
        }
        t += k * (a.level[k + 1] - a.level[k]);
    }
    join();
}

// String of a term, and whether the term is subtracted, by `owner`.
QSIM_DEVICE double signed_bar(const Slater& x, int owner) { return owner < 0 ? -x.bar[~owner] : x.bar[owner]; }

// Y = d ln psi / dT
QSIM_DEVICE void adjoint(const Model& m, Slater& x, int spin) {
    const Spin a = spin_of(m, x, spin);
    const double over = 1 / x.numbers[0];
    for (int k = LEVELS; k > 0; --k) {
        if (a.level[k] == a.level[k + 1]) continue;
        for (int64 s = a.level[k] + lane_of(); s < a.level[k + 1]; s += LANES) {
            double b = x.weights[s] * over;
            for (int64 c = m.children[s]; c < m.children[s + 1]; ++c) {
                const int t = m.child[c];
                b = fma(a.T[m.place[t]], signed_bar(x, m.owner[t]), b);
            }
            x.bar[s] = b;
        }
        join();
    }
    const int64 first = spin == 0 ? 0 : m.sizes[0] * (m.sizes[1] - m.sizes[0]);
    for (int i = lane_of(); i < a.n * a.p; i += LANES) {
        double y = 0;
        for (int64 c = m.cells[first + i]; c < m.cells[first + i + 1]; ++c) {
            const int t = m.cell[c];
            y = fma(signed_bar(x, m.owner[t]), x.numbers[1 + m.parent[t]], y);
        }
        x.Y[i] = y;
    }
    x.stale = false;
    join();
}

// Form the column of electron e, of whose spin `inverse` is the reference's.
QSIM_DEVICE const amplitude* form_column(const Model& m, Slater& x, const Electron& at, int e, const real* inverse) {
    if (x.stale) adjoint(m, x, at.spin);
    const Spin a = spin_of(m, x, at.spin);
    const real* own = inverse + at.i * m.filled;
    double* column = x.columns + e * m.orbitals;
    for (int q = lane_of(); q < a.p; q += LANES) {
        double sum = 0;
        for (int h = a.first_hole; h < a.n; ++h) sum = fma(x.Y[h * a.p + q], (double)own[h], sum);
        column[a.n + q] = sum;
    }
    join();
    for (int o = lane_of(); o < a.n; o += LANES) {
        double sum = 0;
        for (int q = 0; q < a.p; ++q) sum = fma(a.T[o * a.p + q], column[a.n + q], sum);
        column[o] = own[o] - sum;
    }
    join();
    return column;
}

QSIM_DEVICE void form_columns(const Model& m, const State& s, int64 w) {
    Slater x = slater_of(m, s, w);
    for (int e = 0; e < m.electrons; ++e) {
        const Electron at = electron(m, e);
        if (at.i == 0) begin_spin(m, x, at.spin);
        form_column(m, x, at, e, s.inverse + (w * 2 + at.spin) * m.filled * m.filled);
    }
}

QSIM_DEVICE const amplitude* column_of(const Model& m, const State& s, int64 w, const Electron&, int e) {
    return slater_of(m, s, w).columns + e * m.orbitals;
}

// T = A^-1 Phi of a spin by the rows of its electrons and an inverse in x.X, which is taken over.
QSIM_DEVICE void take_inverse(const Model& m, const State& s, Slater& x, int64 w, int spin, real* inverse) {
    const Spin a = spin_of(m, x, spin);
    const int F = (int)m.filled, M = (int)m.orbitals, begin = spin == 0 ? 0 : (int)m.n_up;
    const real* rows = s.rows + (w * m.electrons + begin) * 5 * M;
    join();
    for (int i = lane_of(); i < a.n * a.p; i += LANES) {
        double sum = 0;
        for (int k = 0; k < a.n; ++k) sum = fma(x.X[i / a.p * F + k], (double)rows[k * 5 * M + a.n + i % a.p], sum);
        a.T[i] = sum;
    }
    for (int k = lane_of(); k < a.n * a.n; k += LANES) inverse[k / a.n * F + k % a.n] = (real)x.X[k % a.n * F + k / a.n];
    set_minors(m, x, spin);
}

// Take over an accepted move, whose rows are in the state already; `inverse` is that of its spin, `work` has n numbers.
QSIM_DEVICE void accept(const Model& m, const State& s, Slater& x, int64 w, const Electron& at, const real* row, real* inverse, real* work) {
    const Spin a = spin_of(m, x, at.spin);
    const int F = (int)m.filled, M = (int)m.orbitals;
    const real* own = inverse + at.i * F;
    join();
    double rho = 0;
    for (int o = lane_of(); o < a.n; o += LANES) rho = fma((double)row[o], (double)own[o], rho);
    rho = group_total(rho);
    if (fabs(rho) < SMALL_RATIO) {
        const real* rows = s.rows + (w * m.electrons + (at.spin == 0 ? 0 : m.n_up)) * 5 * M;
        for (int k = lane_of(); k < a.n * a.n; k += LANES) {
            const int i = k / a.n, o = k % a.n;
            x.A[i * F + o] = rows[i * 5 * M + o], x.X[i * F + o] = i == o;
        }
        join();
        double sign = 1;
        invert(x.A, x.X, a.n, F, sign);
        take_inverse(m, s, x, w, at.spin, inverse);
    } else {
        for (int q = lane_of(); q < a.p; q += LANES) {  // T_p += c (phi'_p - phi'_ref . T_p), c = A^-1 e_i / rho
            double change = row[a.n + q];
            for (int o = 0; o < a.n; ++o) change = fma(-(double)row[o], a.T[o * a.p + q], change);
            for (int o = 0; o < a.n; ++o) a.T[o * a.p + q] = fma(own[o] / rho, change, a.T[o * a.p + q]);
        }
        update_inverse(inverse, row, at.i, a.n, F, rho, work);
        set_minors(m, x, at.spin);
    }
    double total = 0;
    for (int64 k = a.level[0] + lane_of(); k < a.level[LEVELS + 1]; k += LANES) total = fma(x.weights[k], x.numbers[1 + k], total);
    total = group_total(total);
    if (lane_of() == 0) x.numbers[0] = total;
    x.stale = true;
    join();
}

#else

QSIM_DEVICE int orbitals_of(const Model&, const Electron& at) { return at.n; }

QSIM_DEVICE const amplitude* column_of(const Model& m, const State& s, int64 w, const Electron& at, int) {
    return s.inverse + (w * 2 + at.spin) * m.filled * m.filled + at.i * m.filled;
}

#endif

#endif
