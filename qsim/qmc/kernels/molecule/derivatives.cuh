// Derivatives with respect to Jastrow parameters in open boundaries; formulas as in derivatives_cpu.py.
//
// The lanes of a walker share the pairs of electrons and ions, then the quadrature points of pseudopotentials.
//
// Flops of a walker with N electrons, A ions and V quadrature points within range: N (N + 2 A) / 2 * 60 + V (N + A) * 30.

#ifndef QSIM_QMC_MOLECULE_DERIVATIVES_CUH
#define QSIM_QMC_MOLECULE_DERIVATIVES_CUH
#include "../common/derivatives.cuh"
#include "molecules.cuh"

typedef Model Tables;

// Place and function of the j-th partner of electron e: electrons first, then ions.
struct Partner {
    const double* place;
    int function;
};

QSIM_DEVICE Partner partner(const Model& m, const double* R, int e, int j) {
    const int N = (int)m.electrons;
    if (j < N) return {R + 3 * j, (j < m.n_up) == (e < m.n_up) ? 0 : 1};
    return {m.atom + 3 * (j - N), 2 + (int)m.species[j - N]};
}

// Gradients v (N, 3) of log psi, and for each electron the sum `total` (N,) of its nonlocal energy.
QSIM_DEVICE void velocities(const Model& m, const State& s, int64 w, double* v, double* total) {
    const int N = (int)m.electrons, M = (int)m.orbitals, Q = (int)m.quadrature, points = m.pseudos > 0 ? (int)m.atoms * Q : 0;
    const double* R = s.R + w * N * 3;
    for (int e = 0; e < N; ++e) {
        const Gradient g = electron_gradient(m, R, e, R[3 * e], R[3 * e + 1], R[3 * e + 2]);
        const Electron at = electron(m, e);
        const amplitude* column = column_of(m, s, w, at, e);
        const int n = orbitals_of(m, at);
        const real* row = s.rows + (w * N + e) * 5 * M;
        const double x = along(row + M, column, n), y = along(row + 2 * M, column, n), z = along(row + 3 * M, column, n);
        double sum = 0, r;
        for (int i = lane_of(); i < points; i += LANES)
            if (within(m, R, e, i / Q, r)) sum += pair_of(m, s, w, e, i / Q)[PAIR + i % Q];
        sum = group_total(sum);
        if (lane_of() == 0) v[3 * e] = x - g.x, v[3 * e + 1] = y - g.y, v[3 * e + 2] = z - g.z, total[e] = sum;
    }
    join();
}

// Derivatives by the numbers of the tables: `values` of J, `slopes` of the local energy; what `energies` of walk.cu has left in scratch
// is read: the points of the nonlocal potential and their values.  v, total: as `velocities` sets them; first (F,): as `ParameterTables`.
QSIM_DEVICE void pair_slopes(const Model& m, const State& s, int64 w, const double* v, const double* total, const int64* first, const Sums& values,
                              const Sums& slopes) {
    const int N = (int)m.electrons, A = (int)m.atoms, Q = (int)m.quadrature, all = N + A, lane = lane_of();
    const double *R = s.R + w * N * 3, over = 1 / m.mass;
    for (int i = lane; i < N * all; i += LANES) {
        const int e = i / all, j = i % all;
        if (j <= e) continue;
        const bool ion = j >= N;
        const Partner other = partner(m, R, e, j);
        const double* x = R + 3 * e;
        const double dx = x[0] - other.place[0], dy = x[1] - other.place[1], dz = x[2] - other.place[2], r = distance(dx, dy, dz);
        double vx = v[3 * e], vy = v[3 * e + 1], vz = v[3 * e + 2], moved = total[e];
        if (!ion) vx -= v[3 * j], vy -= v[3 * j + 1], vz -= v[3 * j + 2], moved += total[j];
        const double line = vx * dx + vy * dy + vz * dz, bend = ion ? 0.5 * over : over;
        add_values(m, first, other.function, r, 1, values);
        add_slopes(m, first, other.function, r, over * line / r + 2 * bend / r, bend, slopes);
        if (moved != 0) add_values(m, first, other.function, r, moved, slopes);
    }
    for (int i = lane; m.pseudos > 0 && i < N * A * Q; i += LANES) {
        const int e = i / (A * Q), a = i / Q % A, q = i % Q;
        double r, u[3], at[3];
        if (!within(m, R, e, a, r)) continue;
        const double* pair = pair_of(m, s, w, e, a);
        turned(m, pair, a, q, r, u, at);
        for (int j = 0; j < all; ++j) {
            if (j == e) continue;
            const Partner other = partner(m, R, e, j);
            const double* x = other.place;
            add_values(m, first, other.function, distance(at[0] - x[0], at[1] - x[1], at[2] - x[2]), -pair[PAIR + q], slopes);
        }
    }
}

#endif
