// Walkers of molecules: local energies, weights, T-moves, and everything anew from the positions.
//
// A lane takes an electron, then one point of the spheres around ions at a time, of the list of those whose electron is within range.
// Flops of a point: 12 shells + 2 B for the orbitals, 25 (N + A) for the Jastrow; most of its time goes to the tables of the shells.

#ifndef QSIM_QMC_MOLECULE_ENERGIES_CUH
#define QSIM_QMC_MOLECULE_ENERGIES_CUH
#include "curves.cuh"
#include "molecules.cuh"

typedef Model Tables;

#define AHEAD 2  // shells whose tables are read at once
#define BELOW_LARGEST 0x1.fffffffffffffp+4
#define TOGETHER 5  // pairs of an electron and an ion whose points are taken together, as many as `ao` has room for

// What the lanes of a walker share, and the functions that a block has.
struct Local {
    Curves curves;
    real *ao, *rows, *column;  // (5, B), (5, M), (M,)
    int* list;                 // (N, A)
};

QSIM_DEVICE Local local_of(const Model& m, const Curves& curves) {
    const int reals = 5 * (int)m.basis + 6 * (int)m.orbitals, list = (int)(m.electrons * m.atoms);
    int size = (int)((reals * sizeof(real) + list * sizeof(int) + 7) / 8);
    size += (size + 1) % 2;  // odd: groups of a warp meet different banks
    real* at = (real*)(curves.polynomial + curve_numbers(m) + GROUP * size);
    return {curves, at, at + 5 * m.basis, at + 5 * m.basis + 5 * m.orbitals, (int*)(at + reals)};
}

// Put electron e at a place; `rows` are its new ones.
QSIM_DEVICE void settle(const Model& m, const State& s, int64 w, int e, const real* rows, double x, double y, double z) {
    const int M = (int)m.orbitals;
    real* target = s.rows + (w * m.electrons + e) * 5 * M;
    for (int i = lane_of(); i < 5 * M; i += LANES) target[i] = rows[i];
    if (lane_of() == 0) {
        double* R = s.R + (w * m.electrons + e) * 3;
        R[0] = x, R[1] = y, R[2] = z;
    }
    join();
}

// ----------------------------------------------------------------------------------------- pseudopotentials

// Sum over atomic orbitals of a function with coefficients d (B,), at the point of this lane.
QSIM_DEVICE double combination(const Model& m, const real* d, double x, double y, double z) {
    double total = 0;
    const int shells = (int)m.shells;
    for (int s = 0; s < shells;) {
        const int64 atom = m.shell_atom[s];
        const double dx = x - m.atom[3 * atom], dy = y - m.atom[3 * atom + 1], dz = z - m.atom[3 * atom + 2];
        const double r = quick_distance(dx, dy, dz).r;
        const Place p = locate(fmin(r, BELOW_LARGEST));  // no shell reaches farther
        do {
            double R[AHEAD];
#pragma unroll
            for (int k = 0; k < AHEAD; ++k) {  // all loads before the first sum
                const int one = s + k < shells ? s + k : shells - 1;
                R[k] = quintic(six(m.table + 6 * (p.interval * m.shells + one)).c, p.t);
                if (r >= m.reach[one]) R[k] = 0;
            }
#pragma unroll
            for (int k = 0; k < AHEAD; ++k) {
                if (k > 0 && (s + k >= shells || m.shell_atom[s + k] != atom)) break;
                const real* c = d + m.shell_first[s + k];
                double sum = 0;
                harmonics((int)m.shell_l[s + k], dx, dy, dz, [&](int i, double S, double, double, double) { sum = fma((double)c[i], S, sum); });
                total = fma(R[k], sum, total);
            }
            for (int k = 0; k < AHEAD && s < shells && m.shell_atom[s] == atom; ++k) ++s;
        } while (s < shells && m.shell_atom[s] == atom);
    }
    return total;
}

// Pairs e A + a of electrons first ... last with ions in whose range they are, in their order; returns how many.
QSIM_DEVICE int near_pairs(const Model& m, const double* R, int first, int last, int* list) {
    const int A = (int)m.atoms;
    int count = 0;
    for (int begin = first * A; begin < last * A; begin += LANES) {
        const int i = begin + lane_of();
        double r;
        const bool near = i < last * A && within(m, R, i / A, i % A, r);
#if LANES == 1
        if (near) list[count++] = i;
#else
        const unsigned all = __ballot_sync(group(), near) >> (threadIdx.x % 32 / LANES * LANES) & (0xffffffffu >> (32 - LANES));
        if (near) list[count + __popc(all & ((1u << lane_of()) - 1))] = i;
        count += __popc(all);
#endif
    }
    join();
    return count;
}

// A rotation, and what the points around an ion have in common.
QSIM_DEVICE void turn_pair(const Model& m, const State& s, const Curves& curves, int64 w, int e, int a, const Draw& draw) {
    const double* R = s.R + w * m.electrons * 3;
    double *pair = pair_of(m, s, w, e, a), r;
    within(m, R, e, a, r);
    const uint32 at = PER_ELECTRON * (uint32)m.electrons + 2 * (e * (uint32)m.atoms + a);
    const uint4 c = words(draw, at), d = words(draw, at + 1);
    const double f = uniform52(c.x, c.y), p = sqrt(1 - f), t = sqrt(f);
    double x, y, z, v;
    sincospi(2 * uniform52(c.z, c.w), &x, &y);
    sincospi(2 * uniform52(d.x, d.y), &z, &v);
    x *= p, y *= p, z *= t, v *= t;
    pair[0] = 1 - 2 * (y * y + z * z), pair[1] = 2 * (x * y - z * v), pair[2] = 2 * (x * z + y * v);
    pair[3] = 2 * (x * y + z * v), pair[4] = 1 - 2 * (x * x + z * z), pair[5] = 2 * (y * z - x * v);
    pair[6] = 2 * (x * z - y * v), pair[7] = 2 * (y * z + x * v), pair[8] = 1 - 2 * (x * x + y * y);
    pair[9] = r;
    pair[10] = curves_value(m, curves, R, e, R[3 * e], R[3 * e + 1], R[3 * e + 2]);
}

// Values at all quadrature points of electrons first ... last; returns their sum.  Pair data and values go to scratch.
QSIM_DEVICE double nonlocal_points(const Model& m, const State& s, int64 w, int first, int last, const Draw& draw, const Local& local) {
    const int N = (int)m.electrons, M = (int)m.orbitals, B = (int)m.basis, A = (int)m.atoms, Q = (int)m.quadrature;
    const double* R = s.R + w * N * 3;
    const int count = near_pairs(m, R, first, last, local.list);
    for (int i = lane_of(); i < count; i += LANES) turn_pair(m, s, local.curves, w, local.list[i] / A, local.list[i] % A, draw);
    double total = 0;
    for (int begin = 0; begin < count; begin += TOGETHER) {
        const int pairs = count - begin < TOGETHER ? count - begin : TOGETHER;
        join();
        for (int i = lane_of(); i < pairs * B; i += LANES) {  // orbitals summed with the column of the electron
            const int e = local.list[begin + i / B] / A, b = i % B;
            const Electron at = electron(m, e);
            const amplitude* column = column_of(m, s, w, at, e);
            const real* C = m.coefficients + ((int64)at.spin * B + b) * M;
            real sum = 0;
            const int count = orbitals_of(m, at);
            for (int o = 0; o < count; ++o) sum = fma(C[o], (real)column[o], sum);
            local.ao[i] = sum;
        }
        join();
        for (int i = lane_of(); i < pairs * Q; i += LANES) {
            const int which = i / Q, q = i % Q, e = local.list[begin + which] / A, a = local.list[begin + which] % A;
            double *pair = pair_of(m, s, w, e, a), u[3], at[3];
            const double r = pair[9];
            turned(m, pair, a, q, r, u, at);
            const double* here = R + 3 * e;
            const double cosine = (u[0] * (here[0] - m.atom[3 * a]) + u[1] * (here[1] - m.atom[3 * a + 1]) + u[2] * (here[2] - m.atom[3 * a + 2])) /
                                  fmax(r, TINY);
            const int64 p = m.potential[a];
            double factor = 0;
            for (int l = 0; l < m.channels[p]; ++l)
                factor += (2 * l + 1) * table_value(m.delta + (p * m.most_channels + l) * m.intervals * 6, r) * legendre(l, cosine);
            const double ratio = combination(m, local.ao + which * B, at[0], at[1], at[2]);
            const double value = m.weights[q] * factor * ratio * exp(pair[10] - curves_value(m, local.curves, R, e, at[0], at[1], at[2]));
            pair[PAIR + q] = value;
            total += value;
        }
    }
    join();
    return group_total(total);
}

QSIM_DEVICE void nonlocal_moves(const Model& m, const State& s, int64 w, double tau, const Draw& draw, const Local& local) {
    const int N = (int)m.electrons, A = (int)m.atoms, Q = (int)m.quadrature;
    const double* R = s.R + w * N * 3;
    bool moved = false;
#ifdef EXPANSION
    Slater x = slater_of(m, s, w);
#endif
    for (int e = 0; e < N; ++e) {
        double r, total = 1;
        const Electron which = electron(m, e);
#ifdef EXPANSION
        if (moved) {
            begin_spin(m, x, which.spin);
            form_column(m, x, which, e, s.inverse + (w * 2 + which.spin) * m.filled * m.filled);
        }
#endif
        if (moved) nonlocal_points(m, s, w, e, e + 1, draw, local);
        for (int a = 0; a < A; ++a)
            if (within(m, R, e, a, r))
                for (int q = 0; q < Q; ++q) total -= tau * fmin(pair_of(m, s, w, e, a)[PAIR + q], 0.0);
        const uint4 v = words(draw, PER_ELECTRON * e + T_MOVE);
        double place = uniform52(v.x, v.y) * total - 1;
        if (place < 0) continue;
        int ion = -1, point = -1;
        for (int a = 0; a < A && place >= 0; ++a)
            if (within(m, R, e, a, r))
                for (int q = 0; q < Q && place >= 0; ++q) {
                    const double value = pair_of(m, s, w, e, a)[PAIR + q];
                    if (value < 0) ion = a, point = q, place += tau * value;
                }
        if (ion < 0) continue;
        double u[3], at[3];
        within(m, R, e, ion, r);
        turned(m, pair_of(m, s, w, e, ion), ion, point, r, u, at);
        real* inverse = s.inverse + (w * 2 + which.spin) * m.filled * m.filled;
        orbital_rows(m, which.spin, at[0], at[1], at[2], local.ao, local.rows);
        const double ratio = along(local.rows, column_of(m, s, w, which, e), orbitals_of(m, which));
        if (!(fabs(ratio) > 0)) continue;
        const double change = curves_value(m, local.curves, R, e, R[3 * e], R[3 * e + 1], R[3 * e + 2]) -
                              curves_value(m, local.curves, R, e, at[0], at[1], at[2]);
        settle(m, s, w, e, local.rows, at[0], at[1], at[2]);
#ifdef EXPANSION
        accept(m, s, x, w, which, local.rows, inverse, local.column);
#else
        update_inverse(inverse, local.rows, which.i, which.n, (int)m.filled, ratio, local.column);
#endif
        if (lane_of() == 0) {
            s.log_psi[w] += log(fabs(ratio)) + change;
            if (ratio < 0) s.sign[w] = -s.sign[w];
            s.moves[4 * w + 3] += 1;
        }
        moved = true;
        join();
    }
}

// ------------------------------------------------------------------------------------------------ energies

QSIM_DEVICE double local_energy(const Model& m, const State& s, int64 w, const Draw& draw, const Local& local) {
    const int N = (int)m.electrons, M = (int)m.orbitals, A = (int)m.atoms;
    const double* R = s.R + w * N * 3;
    double repulsion = 0, ions = 0, external = 0, laplacians = 0;
#ifdef EXPANSION
    form_columns(m, s, w);
#endif
    for (int e = lane_of(); e < N; e += LANES) {
        const double x = R[3 * e], y = R[3 * e + 1], z = R[3 * e + 2];
        double jx = 0, jy = 0, jz = 0, jl = 0;
        for (int j = 0; j < N + A; ++j) {
            if (j == e) continue;
            const double* other = j < N ? R + 3 * j : m.atom + 3 * (j - N);
            const double dx = x - other[0], dy = y - other[1], dz = z - other[2];
            const Distance d = quick_distance(dx, dy, dz);
            if (j < N) {
                if (j > e) repulsion += d.over;
            } else {
                const int64 p = m.potential[j - N];
                ions += ((p < 0 ? 0.0 : table_value(m.local + p * m.intervals * 6, d.r)) - m.charge[j - N]) * d.over;
            }
            const Curve c = curve(m, local.curves, function_of(m, e, j), d.r);
            const double slope = c.du * d.over;
            jx += slope * dx, jy += slope * dy, jz += slope * dz, jl += c.ddu + 2 * slope;
        }
        const Electron at = electron(m, e);
        const amplitude* column = column_of(m, s, w, at, e);
        const int count = orbitals_of(m, at);
        const real* row = s.rows + (w * N + e) * 5 * M;
        double g[4] = {0, 0, 0, 0};
        for (int o = 0; o < count; ++o)
            for (int k = 0; k < 4; ++k) g[k] = fma((double)row[(k + 1) * M + o], (double)column[o], g[k]);
        laplacians += g[3] - 2 * (g[0] * jx + g[1] * jy + g[2] * jz) + (jx * jx + jy * jy + jz * jz) - jl;
        external += x * x + y * y + z * z;
    }
    repulsion = group_total(repulsion), ions = group_total(ions), external = group_total(external), laplacians = group_total(laplacians);
    const double outside = m.pseudos > 0 ? nonlocal_points(m, s, w, 0, N, draw, local) : 0;
    const double kinetic = -0.5 * laplacians / m.mass;
    if (!m.interacting) repulsion = 0;
    external *= 0.5 * m.mass * m.omega * m.omega;
    const double total = kinetic + repulsion + ions + outside + external + m.ion_ion;
    if (lane_of() == 0) {
        double* energy = s.energy + 6 * w;
        energy[0] = kinetic, energy[1] = repulsion, energy[2] = ions, energy[3] = outside, energy[4] = external, energy[5] = total;
    }
    join();
    return total;
}

// ----------------------------------------------------------------------------------------------- inversion

// Rows, inverses (in double precision) and log psi of a walker; returns the largest change of an inverse relative to its size.
QSIM_DEVICE double refresh(const Model& m, const State& s, int64 w, const Local& local) {
    const int N = (int)m.electrons, M = (int)m.orbitals, lane = lane_of();
    const double* R = s.R + w * N * 3;
    const int F = (int)m.filled;
    double *A = s.scratch + w * s.stride, *X = A + F * F;
    double log_psi = 0, sign = 1, worst = 0;
    for (int spin = 0; spin < 2; ++spin) {
        const int n = spin == 0 ? (int)m.n_up : N - (int)m.n_up, begin = spin == 0 ? 0 : (int)m.n_up;
        for (int i = 0; i < n; ++i) {
            const int e = begin + i;
            orbital_rows(m, spin, R[3 * e], R[3 * e + 1], R[3 * e + 2], local.ao, local.rows);
            for (int k = lane; k < 5 * M; k += LANES) s.rows[(w * N + e) * 5 * M + k] = local.rows[k];
            for (int o = lane; o < n; o += LANES) A[i * F + o] = local.rows[o], X[i * F + o] = i == o;
            join();
        }
        log_psi += invert(A, X, n, F, sign);
        real* inverse = s.inverse + (w * 2 + spin) * F * F;
        double size = 0, change = 0;
        for (int k = 0; k < n; ++k)
            for (int o = 0; o < n; ++o) {
                size = fmax(size, fabs(X[o * F + k]));
                change = fmax(change, fabs(X[o * F + k] - (double)inverse[k * F + o]));
            }
        join();
        for (int k = lane; k < n * n; k += LANES) inverse[(k / n) * F + k % n] = (real)X[(k % n) * F + k / n];
        if (size > 0) worst = fmax(worst, change / size);
        join();
#ifdef EXPANSION
        Slater x = slater_of(m, s, w);
        x.X = X;
        take_inverse(m, s, x, w, spin, inverse);
#endif
    }
#ifdef EXPANSION
    Slater all = slater_of(m, s, w);
    const double total = begin_spin(m, all, 1);
    log_psi += log(fabs(total));
    sign = total == 0 ? 0.0 : total < 0 ? -sign : sign;
#endif
    double exponent = 0;  // pairs once: half of what the electrons see of each other, and all of the ions
    for (int e = lane; e < N; e += LANES) {
        for (int j = e + 1; j < N; ++j)
            exponent += function_value(m, (j < m.n_up) == (e < m.n_up) ? 0 : 1,
                                       distance(R[3 * e] - R[3 * j], R[3 * e + 1] - R[3 * j + 1], R[3 * e + 2] - R[3 * j + 2]));
        for (int a = 0; a < m.atoms; ++a)
            exponent += function_value(m, 2 + (int)m.species[a], distance(R[3 * e] - m.atom[3 * a], R[3 * e + 1] - m.atom[3 * a + 1],
                                                                        R[3 * e + 2] - m.atom[3 * a + 2]));
    }
    exponent = group_total(exponent);
    if (lane == 0) {
        s.log_psi[w] = sign == 0 ? -REAL_INFINITY : log_psi - exponent;
        s.sign[w] = sign;
    }
    return worst;
}

// What a kernel begins with: functions in shared memory, number and shared memory of this group's walker.
#define ENTER                                                                     \
    extern __shared__ double2 shared[];                                           \
    set_sizes(m);                                                                 \
    const Curves curves = curves_at(m, (double*)shared);                          \
    fill_curves(m, curves);                                                       \
    __syncthreads();                                                              \
    const int64 w = WALKER;                                                       \
    if (w >= s.walkers) return;                                                   \
    const Local local = local_of(m, curves);

#endif
