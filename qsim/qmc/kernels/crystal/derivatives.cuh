// Derivatives with respect to Jastrow parameters in crystals; formulas as in derivatives_cpu.py, distances those of nearest images.
//
// The lanes of a walker share the pairs, and then, point by point of the nonlocal potential, the particles that the moved electron is
// seen by.
//
// Flops of a walker with N electrons, A ions and V quadrature points within range: N (N + 2 A) / 2 * 90 + V (N + A) * 60.

#ifndef QSIM_QMC_CRYSTAL_DERIVATIVES_CUH
#define QSIM_QMC_CRYSTAL_DERIVATIVES_CUH
#include "../common/derivatives.cuh"
#include "nonlocal.cuh"

typedef Crystal Tables;

// Gradients v (N, 3) of log psi, and for each electron the sum `total` (N,) of its nonlocal energy.
QSIM_DEVICE void velocities(const Crystal& m, const State& s, int64 w, double* v, double* total) {
    const int N = (int)m.electrons, M = (int)m.orbitals, Q = (int)m.quadrature;
    const double *R = s.R + w * N * 3, *counts = counts_of(m, s, w);
    for (int e = 0; e < N; ++e) {
        const Gradient g = electron_gradient(m, R, e, R[3 * e], R[3 * e + 1], R[3 * e + 2]);
        const Electron at = electron(m, e);
        const elem *column = inverse_of(m, s, w, at.spin) + at.i * M, *row = rows_of(m, s, w, e);
        const double x = real_along(row + M, column, at.n), y = real_along(row + 2 * M, column, at.n);
        const double z = real_along(row + 3 * M, column, at.n);
        const int points = m.slots > 0 ? (int)counts[e] * Q : 0;
        double sum = 0;
        for (int i = lane_of(); i < points; i += LANES) sum += slot_of(m, s, w, e, i / Q)[HEAD + 4 * (i % Q) + 3];
        sum = group_total(sum);
        if (lane_of() == 0) v[3 * e] = x - g.x, v[3 * e + 1] = y - g.y, v[3 * e + 2] = z - g.z, total[e] = sum;
    }
    join();
}

// Derivatives by the numbers of the tables: `values` of J, `slopes` of the local energy; what `energies` of walk.cu has left in scratch
// is read: the points of the nonlocal potential and their values.  v, total: as `velocities` sets them; first (F,): as `ParameterTables`.
QSIM_DEVICE void pair_slopes(const Crystal& m, const State& s, int64 w, const double* v, const double* total, const int64* first, const Sums& values,
                              const Sums& slopes) {
    const int N = (int)m.electrons, Q = (int)m.quadrature, all = N + (int)m.atoms, lane = lane_of();
    const double *R = s.R + w * N * 3, *counts = counts_of(m, s, w), over = 1 / m.mass;
    for (int e = 0; e < N; ++e) {
        const double *x = R + 3 * e, *u = v + 3 * e;
        for (int j = e + 1 + lane; j < all; j += LANES) {
            const bool ion = j >= N;
            const double *other = particle(m, R, j), *t = v + 3 * j;
            double dx = x[0] - other[0], dy = x[1] - other[1], dz = x[2] - other[2];
            const double r = nearest(m, dx, dy, dz), bend = ion ? 0.5 * over : over;
            const double line = ion ? u[0] * dx + u[1] * dy + u[2] * dz : (u[0] - t[0]) * dx + (u[1] - t[1]) * dy + (u[2] - t[2]) * dz;
            const double moved = ion ? total[e] : total[e] + total[j];
            const int f = function_of(m, e < m.n_up, j);
            add_values(m, first, f, r, 1, values);
            add_slopes(m, first, f, r, over * line / r + 2 * bend / r, bend, slopes);
            if (moved != 0) add_values(m, first, f, r, moved, slopes);
        }
        const int points = m.slots > 0 ? (int)counts[e] * Q : 0;
        for (int i = 0; i < points; ++i) {
            const double* target = slot_of(m, s, w, e, i / Q) + HEAD + 4 * (i % Q);
            const double value = target[3];
            if (value == 0) continue;
            for (int j = lane; j < all; j += LANES) {
                if (j == e) continue;
                const double* other = particle(m, R, j);
                double dx = target[0] - other[0], dy = target[1] - other[1], dz = target[2] - other[2];
                add_values(m, first, function_of(m, e < m.n_up, j), nearest(m, dx, dy, dz), -value, slopes);
            }
        }
    }
}

#endif
