// Derivatives with respect to coefficients and orbitals of determinants, of log psi and of the local energy; equations as in tangent_cpu.py.
//
// A group of LANES lanes of a warp carries a walker: they share orbitals, strings of a level, numbers of T, and parameters.  Every number
// is a sum that one lane makes in a fixed order: no atomic operations.  What `energies` of walk.cu has left in scratch is read: columns,
// points of the nonlocal potential and their values.
//
// Flops of a walker: N (M + M') 5 B for the orbitals, and as many again for each point of a pseudopotential; 12 K k for K strings of mean
// level k; 6 n for each parameter of an orbital.
//
// qsim-compile: -DWARPS=1
// qsim-compile: -DWARPS=1 -DLANES=1
// qsim-compile: -DWARPS=1 -DLANES=8 -DEXPANSION=1
// qsim-compile: -DWARPS=1 -DLANES=1 -DEXPANSION=1
#include "../common/walkers.cuh"
#include "../molecule/molecules.cuh"

// Which parameter moves what, in the order of the parameters.
struct Moved {
    const int64* order;    // determinants by their parameter
    const int64* own;      // string of spin up of each determinant
    const int64* begin;    // (Pc + 1,): where those of a coefficient begin in `order`
    const double* share;   // (D,)
    const int64* mixed;    // (E, 4): spin, orbital that is added, orbital that gets it, parameter; in the order of parameters
    const double* factor;  // (E,)
    const int64* first;    // (Po + 1,): where those of an orbital's parameter begin in `mixed`
    int64 coefficients, orbitals, at_coefficients, at_orbitals;  // how many, and the first of each
};

// Work space of a walker.
struct Space {
    double *bodies, *turned, *phi, *acted, *tangent, *bar, *Y, *P;  // (N, M) twice, (N, M') twice, (numbers,), (S,), (n, M), (n, n)
    real *ao, *rows;                                                // (5, B), (5, max(M, M'))
};

QSIM_DEVICE Space space_of(const Model& m, const Model& all, double* at) {
    const int64 N = m.electrons, M = m.orbitals, L = all.orbitals, F = m.filled;
    double *turned = at + N * M, *phi = turned + N * M, *acted = phi + N * L, *tangent = acted + N * L, *bar = tangent + m.numbers;
    double *Y = bar + m.strings, *P = Y + F * M, *reals = P + F * F;
    return {at, turned, phi, acted, tangent, bar, Y, P, (real*)reals, (real*)(reals + 5 * m.basis)};
}

// One-body operators on the orbitals of all electrons; if orbitals mix, values and operators of all that do.
QSIM_DEVICE void one_body(const Model& m, const Model& all, const State& s, int64 w, bool mixes, const Space& x) {
    const int N = (int)m.electrons, M = (int)m.orbitals, L = (int)all.orbitals, A = (int)m.atoms, Q = (int)m.quadrature;
    const double *R = s.R + w * N * 3, over = 0.5 / m.mass;
    for (int e = 0; e < N; ++e) {
        const Electron at = electron(m, e);
        const amplitude* column = column_of(m, s, w, at, e);
        const int n = orbitals_of(m, at);
        const real* row = s.rows + (w * N + e) * 5 * M;
        const Gradient g = electron_gradient(m, R, e, R[3 * e], R[3 * e + 1], R[3 * e + 2]);
        double *B = x.bodies + e * M, *phi = x.phi + e * L, *acted = x.acted + e * L;
        for (int p = lane_of(); p < n; p += LANES)
            B[p] = over * (2 * (g.x * row[M + p] + g.y * row[2 * M + p] + g.z * row[3 * M + p]) - row[4 * M + p]);
        if (mixes) {
            orbital_rows(all, at.spin, R[3 * e], R[3 * e + 1], R[3 * e + 2], x.ao, x.rows);
            for (int p = lane_of(); p < L; p += LANES) {
                phi[p] = x.rows[p];
                acted[p] = over * (2 * (g.x * x.rows[L + p] + g.y * x.rows[2 * L + p] + g.z * x.rows[3 * L + p]) - x.rows[4 * L + p]);
            }
        }
        for (int i = 0; m.pseudos > 0 && i < A * Q; ++i) {
            double r, u[3], there[3];
            if (!within(m, R, e, i / Q, r)) continue;
            const double* pair = pair_of(m, s, w, e, i / Q);
            turned(m, pair, i / Q, i % Q, r, u, there);
            join();
            orbital_rows(m, at.spin, there[0], there[1], there[2], x.ao, x.rows);
            const double ratio = along(x.rows, column, n);
            if (ratio == 0) continue;
            const double value = pair[PAIR + i % Q] / ratio;
            for (int p = lane_of(); p < n; p += LANES) B[p] += value * x.rows[p];
            if (!mixes) continue;
            join();
            orbital_rows(all, at.spin, there[0], there[1], there[2], x.ao, x.rows);
            for (int p = lane_of(); p < L; p += LANES) acted[p] += value * x.rows[p];
        }
        join();
    }
}

// What the columns of the inverse of a spin change by, -A^-1 B_ref A^-1.
QSIM_DEVICE void turn_inverse(const Model& m, const real* inverse, int begin, int n, const Space& x) {
    const int F = (int)m.filled, M = (int)m.orbitals;
    join();
    for (int i = lane_of(); i < n * n; i += LANES) {
        double sum = 0;
        for (int j = 0; j < n; ++j) sum = fma((double)inverse[j * F + i / n], x.bodies[(begin + j) * M + i % n], sum);
        x.P[i / n * F + i % n] = sum;
    }
    join();
    for (int i = lane_of(); i < n * n; i += LANES) {
        const int k = i / n, o = i % n;
        double sum = 0;
        for (int j = 0; j < n; ++j) sum = fma(-x.P[o * F + j], (double)inverse[k * F + j], sum);
        x.turned[(begin + k) * M + o] = sum;
    }
    join();
}

// Derivatives by the shares of orbitals, with columns and what they change by.
QSIM_DEVICE void add_mixed(const Model& m, const Model& all, const State& s, int64 w, const Moved& moved, const Space& x, double* log_slopes,
                           double* energy_slopes) {
    const int N = (int)m.electrons, M = (int)m.orbitals, L = (int)all.orbitals, up = (int)m.n_up;
    join();
    for (int64 k = lane_of(); k < moved.orbitals; k += LANES) {
        double log = 0, energy = 0;
        for (int64 i = moved.first[k]; i < moved.first[k + 1]; ++i) {
            const int64 *entry = moved.mixed + 4 * i, p = entry[1], q = entry[2];
            double one = 0, other = 0;
            for (int e = entry[0] == 0 ? 0 : up; e < (entry[0] == 0 ? up : N); ++e) {
                const double c = column_of(m, s, w, electron(m, e), e)[q];
                one = fma(x.phi[e * L + p], c, one);
                other = fma(x.acted[e * L + p], c, fma(x.phi[e * L + p], x.turned[e * M + q], other));
            }
            log = fma(moved.factor[i], one, log);
            energy = fma(moved.factor[i], other, energy);
        }
        log_slopes[moved.at_orbitals + k] += log;
        energy_slopes[moved.at_orbitals + k] += energy;
    }
}

#ifdef EXPANSION

// What T and the minors of a spin change by.
QSIM_DEVICE void tangent_minors(const Model& m, const Slater& slater, int spin, const real* inverse, int begin, const Space& x) {
    const Spin a = spin_of(m, slater, spin);
    const int F = (int)m.filled, M = (int)m.orbitals;
    double *change = x.Y, *dT = x.tangent + (a.T - slater.numbers), *dm = x.tangent + 1;
    const double* minor = slater.numbers + 1;
    join();
    for (int i = lane_of(); i < a.n * a.p; i += LANES) {
        const double* B = x.bodies + (begin + i / a.p) * M;
        double sum = B[a.n + i % a.p];
        for (int o = 0; o < a.n; ++o) sum = fma(-B[o], a.T[o * a.p + i % a.p], sum);
        change[i] = sum;
    }
    join();
    for (int i = lane_of(); i < a.n * a.p; i += LANES) {
        double sum = 0;
        for (int j = 0; j < a.n; ++j) sum = fma((double)inverse[j * F + i / a.p], change[j * a.p + i % a.p], sum);
        dT[i] = sum;
    }
    if (lane_of() == 0) dm[a.level[0]] = 0;
    int64 t = m.first_term[spin];
    for (int k = 1; k <= LEVELS; ++k) {
        if (a.level[k] == a.level[k + 1]) continue;
        join();
        for (int64 s = a.level[k] + lane_of(); s < a.level[k + 1]; s += LANES) {
            double total = 0;
            for (int j = 0; j < k; ++j) {
                const int64 term = t + k * (s - a.level[k]) + j;
                const int i = m.place[term], q = m.parent[term];
                const double one = fma(dT[i], minor[q], a.T[i] * dm[q]);
                total += j % 2 ? -one : one;
            }
            dm[s] = total;
        }
        t += k * (a.level[k + 1] - a.level[k]);
    }
    join();
}

QSIM_DEVICE double signed_of(const double* bar, int owner) { return owner < 0 ? -bar[~owner] : bar[owner]; }

// Y = d ln psi / dT of a spin and what it changes by; `change` is that of psi over the references.
QSIM_DEVICE void tangent_adjoint(const Model& m, const Slater& slater, int spin, double change, const Space& x) {
    const Spin a = spin_of(m, slater, spin);
    const double over = 1 / slater.numbers[0], *minor = slater.numbers + 1, *dm = x.tangent + 1, *dT = x.tangent + (a.T - slater.numbers);
    for (int k = LEVELS; k > 0; --k) {
        if (a.level[k] == a.level[k + 1]) continue;
        for (int64 s = a.level[k] + lane_of(); s < a.level[k + 1]; s += LANES) {
            double b = 0, db = 0;
            for (int64 d = m.begin[s]; d < m.begin[s + 1]; ++d) {
                b = fma(m.coefficient[d], minor[m.other[d]], b);
                db = fma(m.coefficient[d], dm[m.other[d]], db);
            }
            b *= over;
            db = (db - b * change) * over;
            for (int64 c = m.children[s]; c < m.children[s + 1]; ++c) {
                const int t = m.child[c], i = m.place[t];
                const double above = signed_of(slater.bar, m.owner[t]);
                b = fma(a.T[i], above, b);
                db = fma(dT[i], above, fma(a.T[i], signed_of(x.bar, m.owner[t]), db));
            }
            slater.bar[s] = b, x.bar[s] = db;
        }
        join();
    }
    const int64 first = spin == 0 ? 0 : m.sizes[0] * (m.sizes[1] - m.sizes[0]);
    for (int i = lane_of(); i < a.n * a.p; i += LANES) {
        double y = 0, dy = 0;
        for (int64 c = m.cells[first + i]; c < m.cells[first + i + 1]; ++c) {
            const int t = m.cell[c], q = m.parent[t];
            const double above = signed_of(slater.bar, m.owner[t]);
            y = fma(above, minor[q], y);
            dy = fma(above, dm[q], fma(signed_of(x.bar, m.owner[t]), minor[q], dy));
        }
        slater.Y[i] = y, x.Y[i] = dy;
    }
    join();
}

// Add to what the columns of the inverse change by what the minors do.
QSIM_DEVICE void turn_columns(const Model& m, const Slater& slater, int spin, const real* inverse, int begin, const Space& x) {
    const Spin a = spin_of(m, slater, spin);
    const int F = (int)m.filled, M = (int)m.orbitals;
    const double* dT = x.tangent + (a.T - slater.numbers);
    for (int i = lane_of(); i < a.n * a.p; i += LANES) {
        const int k = i / a.p, q = i % a.p;
        double* own = x.turned + (begin + k) * M;
        double sum = 0;
        for (int h = a.first_hole; h < a.n; ++h) sum = fma(x.Y[h * a.p + q], (double)inverse[k * F + h], fma(slater.Y[h * a.p + q], own[h], sum));
        own[a.n + q] = sum;
    }
    join();
    for (int i = lane_of(); i < a.n * a.n; i += LANES) {
        const int k = i / a.n, o = i % a.n;
        double* own = x.turned + (begin + k) * M;
        const double* column = slater.columns + (begin + k) * M;
        double sum = 0;
        for (int q = 0; q < a.p; ++q) sum = fma(dT[o * a.p + q], column[a.n + q], fma(a.T[o * a.p + q], own[a.n + q], sum));
        own[o] -= sum;
    }
    join();
}

// What psi over the references changes by.
QSIM_DEVICE double change_of(const Model& m, const Slater& slater, const Space& x) {
    const Spin a = spin_of(m, slater, 0);
    const double *minor = slater.numbers + 1, *dm = x.tangent + 1;
    double total = 0;
    for (int64 s = a.level[0] + lane_of(); s < a.level[LEVELS + 1]; s += LANES)
        for (int64 d = m.begin[s]; d < m.begin[s + 1]; ++d)
            total = fma(m.coefficient[d], fma(dm[s], minor[m.other[d]], minor[s] * dm[m.other[d]]), total);
    return group_total(total);
}

// Derivatives by coefficients.
QSIM_DEVICE void add_coefficients(const Model& m, const Slater& slater, const Moved& moved, double change, const Space& x, double* log_slopes,
                                  double* energy_slopes) {
    const double *minor = slater.numbers + 1, *dm = x.tangent + 1, over = 1 / slater.numbers[0], mean = change * over;
    for (int64 k = lane_of(); k < moved.coefficients; k += LANES) {
        double log = 0, energy = 0;
        for (int64 i = moved.begin[k]; i < moved.begin[k + 1]; ++i) {
            const int64 d = moved.order[i], s = moved.own[d];
            const int j = m.other[d];
            const double one = minor[s] * minor[j] * over;
            log = fma(moved.share[d], one, log);
            energy = fma(moved.share[d], fma(dm[s], minor[j], minor[s] * dm[j]) * over - one * mean, energy);
        }
        log_slopes[moved.at_coefficients + k] += log;
        energy_slopes[moved.at_coefficients + k] += energy;
    }
}

#endif

// Add the derivatives of walkers from `begin` on to log_slopes and energy_slopes (W, P), which those by Jastrow parameters have set.
// all: as m, with the orbitals that mix; space: `each` numbers for each walker of the launch.
extern "C" __global__ void __launch_bounds__(32 * WARPS, 8 / WARPS)
    tangent(Model m, Model all, State s, Moved moved, int64 begin, double* space, int64 each, int parameters, double* log_slopes,
            double* energy_slopes) {
    set_sizes(m);
    const int64 w = begin + WALKER;
    if (w >= s.walkers) return;
    const Space x = space_of(m, all, space + WALKER * each);
    const bool mixes = moved.orbitals > 0;
    double *log_own = log_slopes + w * parameters, *energy_own = energy_slopes + w * parameters;
    one_body(m, all, s, w, mixes, x);
    const int up = (int)m.n_up;
    const real* inverse = s.inverse + w * 2 * m.filled * m.filled;
#ifdef EXPANSION
    const Slater slater = slater_of(m, s, w);
    for (int spin = 0; spin < 2; ++spin) tangent_minors(m, slater, spin, inverse + spin * m.filled * m.filled, spin ? up : 0, x);
    const double change = change_of(m, slater, x);
    add_coefficients(m, slater, moved, change, x, log_own, energy_own);
#endif
    if (!mixes) return;
    for (int spin = 0; spin < 2; ++spin) {
        const real* own = inverse + spin * m.filled * m.filled;
        turn_inverse(m, own, spin ? up : 0, spin ? (int)m.electrons - up : up, x);
#ifdef EXPANSION
        tangent_adjoint(m, slater, spin, change, x);
        turn_columns(m, slater, spin, own, spin ? up : 0, x);
#endif
    }
    add_mixed(m, all, s, w, moved, x, log_own, energy_own);
}
