// Walkers in a crystal: local energies, weights and T-moves, in real or complex determinants (fixed phase), and everything anew from the
// positions.
//
// Bytes of a move: 64 coefficients of all channels, 2 n^2 elements of the inverse; of a point of the nonlocal potential: the former.
// The tables of a primitive cell stay in the L2 cache up to 64 atoms.

#ifndef QSIM_QMC_CRYSTAL_ENERGIES_CUH
#define QSIM_QMC_CRYSTAL_ENERGIES_CUH
#include "nonlocal.cuh"

typedef Crystal Tables;

// ------------------------------------------------------------------------------------------------ energies

struct Potentials {
    double repulsion, local;
};

// Long-ranged energies of electrons among themselves and with the ions, without constants: the part of this lane, which takes waves.
QSIM_DEVICE Potentials long_ranged(const Crystal& m, const State& s, int64 w) {
    typedef complex_of<double> phase;
    const int N = (int)m.electrons, most = (int)m.most_wave, P = most + 1;
    const double* R = s.R + w * N * 3;
    phase* powers = powers_of(m, s, w);
    for (int i = lane_of(); i < 3 * N; i += LANES) {
        const double *r = R + 3 * (i / 3), *B = m.inverse + i % 3;
        phase step, power = {1, 0};
        sincospi(2 * (r[0] * B[0] + r[1] * B[3] + r[2] * B[6]), &step.im, &step.re);
        for (int k = 0; k < P; ++k, power = power * step) powers[i * P + k] = power;
    }
    join();
    Potentials total = {0, 0};
    for (int k = lane_of(); k < m.wave_count; k += LANES) {
        const int a = (int)m.waves[3 * k], b = (int)m.waves[3 * k + 1], c = (int)m.waves[3 * k + 2];
        phase rho = {0, 0};
        for (int e = 0; e < N; ++e) {
            const phase* p = powers + 3 * e * P;
            phase x = p[abs(a)], y = p[P + abs(b)], z = p[2 * P + abs(c)];
            x.im = a < 0 ? -x.im : x.im, y.im = b < 0 ? -y.im : y.im, z.im = c < 0 ? -z.im : z.im;
            rho += x * y * z;
        }
        total.repulsion += 0.5 * m.weight[k] * (abs2(rho) - N);
        total.local -= m.weight[k] * (rho.re * m.ions[2 * k] + rho.im * m.ions[2 * k + 1]);
    }
    return total;
}

QSIM_DEVICE double local_energy(const Crystal& m, const State& s, int64 w, const Draw& draw, const Local& local) {
    const int N = (int)m.electrons, M = (int)m.orbitals, all = N + (int)m.atoms, stride = curve_stride(m);
    Potentials sums = long_ranged(m, s, w);
    double laplacians = 0;
    for (int e = 0; e < N; ++e) {
        real part[8] = {};  // of gradient and Laplacian of the Jastrow factor, then of the determinants
        for (int j = lane_of(); j < all; j += LANES) {
            if (j == e) continue;
            real x, y, z, r, over;
            apart(m, local.electrons[e], site(m, local, j), x, y, z);
            if (j >= N && m.potential[j - N] >= 0) {
                const int64 p = m.potential[j - N];
                for (int i = 0; i < m.image_count; ++i) {
                    const real a = x + (real)m.images[3 * i], b = y + (real)m.images[3 * i + 1], c = z + (real)m.images[3 * i + 2];
                    lengths(a * a + b * b + c * c, r, over);
                    if (r < m.reach[p]) sums.local += table_value(m.local + p * m.intervals * 6, r) * over;
                }
            }
            lengths(nearest_image(local, x, y, z), r, over);
            if (r < m.pair_reach && (j >= N || j > e)) {
                const double v = table_value(m.pair, r) * over;
                if (j >= N)
                    sums.local -= m.charge[j - N] * v;
                else
                    sums.repulsion += v;
            }
            const Quad* curve = local.curves + function_number(m, local, e < (int)m.n_up, j) * stride;
            const Bend c = bend(curve, stride - 2, r);
            const real slope = c.du * over;
            part[0] += slope * x, part[1] += slope * y, part[2] += slope * z, part[3] += c.ddu + 2 * slope;
        }
        const Electron at = electron(m, e);
        const elem *column = inverse_of(m, s, w, at.spin) + at.i * M, *row = rows_of(m, s, w, e);
        slopes(row, M, column, at.n, part + 4);
        for (int o = lane_of(); o < at.n; o += LANES) part[7] += real_product(row[4 * M + o], column[o]);
        group_totals<8>(part);
        laplacians += part[7] - 2 * (part[4] * part[0] + part[5] * part[1] + part[6] * part[2]) - part[3];
        laplacians += part[0] * part[0] + part[1] * part[1] + part[2] * part[2];
    }
    const double repulsion = m.repulsion + group_total(sums.repulsion), ions = m.attraction + group_total(sums.local);
    const double outside = m.slots > 0 ? nonlocal_points(m, s, w, draw, local) : 0;
    const double kinetic = -0.5 * laplacians / m.mass, total = kinetic + repulsion + ions + outside + m.ion_ion;
    if (lane_of() == 0) {
        double* energy = s.energy + 6 * w;
        energy[0] = kinetic, energy[1] = repulsion, energy[2] = ions, energy[3] = outside, energy[4] = 0, energy[5] = total;
    }
    join();
    return total;
}

// ----------------------------------------------------------------------------------------------- inversion

// Row of the largest element of column i from row i on; every lane holds it.
QSIM_DEVICE int pivot_row(const wide* A, int i, int n, int M) {
    double largest = -1;
    int row = i;
    for (int k = i + lane_of(); k < n; k += LANES) {
        const double size = modulus(A[k * M + i]);
        if (size > largest) largest = size, row = k;
    }
#pragma unroll
    for (int half = LANES / 2; half > 0; half /= 2) {
        const double other = __shfl_xor_sync(group(), largest, half, LANES);
        const int there = __shfl_xor_sync(group(), row, half, LANES);
        if (other > largest || (other == largest && there < row)) largest = other, row = there;
    }
    return row;
}

// Invert A (n, n) of leading dimension M in its place by Gauss and Jordan, pivots by column; returns log |det|, and its sign in `sign`.
// Column e of the inverse is left in column order[e]; order, swaps: (n,).
QSIM_DEVICE double invert(wide* A, int* order, int* swaps, int n, int M, double& sign) {
    const int lane = lane_of();
    double log_det = 0;
    for (int k = lane; k < n; k += LANES) order[k] = swaps[k] = k;
    for (int i = 0; i < n; ++i) {
        const int p = pivot_row(A, i, n, M);
        const wide pivot = A[p * M + i];
        if (!(modulus(pivot) > 0)) {
            sign = 0;
            return -REAL_INFINITY;
        }
        const wide over = one() / pivot;
        join();
        for (int k = lane; k < n; k += LANES) {
            const wide a = k == i ? one() : A[p * M + k];
            if (p != i) A[p * M + k] = A[i * M + k];
            A[i * M + k] = a * over;
        }
        if (lane == 0) swaps[i] = p;
        if (p != i) sign = -sign;
        if (real_part(pivot) < 0) sign = -sign;
        log_det += log(modulus(pivot));
        join();
        for (int first = 0; first < n; first += 4) {  // some rows at once: their loads overlap
            wide f[4];
#pragma unroll
            for (int r = 0; r < 4; ++r) f[r] = first + r < n && first + r != i ? A[(first + r) * M + i] : wide();
            join();
            for (int k = lane; k < n; k += LANES) {
                const wide a = A[i * M + k];
#pragma unroll
                for (int r = 0; r < 4; ++r)
                    if (first + r < n && first + r != i) A[(first + r) * M + k] = (k == i ? wide() : A[(first + r) * M + k]) - f[r] * a;
            }
        }
        join();
    }
    if (lane == 0)  // rows were exchanged before: columns are, in the opposite order
        for (int i = n - 1; i >= 0; --i) {
            const int kept = order[i];
            order[i] = order[swaps[i]], order[swaps[i]] = kept;
        }
    join();
    if (COMPLEX) sign = 1;
    return log_det;
}

// Rows, inverses (in double precision) and log psi of a walker; returns the largest change of an inverse relative to its size.
QSIM_DEVICE double refresh(const Crystal& m, const State& s, int64 w, const Local& local) {
    const int N = (int)m.electrons, M = (int)m.orbitals, lane = lane_of(), stride = curve_stride(m);
    const double* R = s.R + w * N * 3;
    wide* A = (wide*)(s.scratch + w * s.stride);
    int *order = (int*)local.rows, *swaps = order + M;  // while rows are not needed
    double log_psi = 0, sign = 1, worst = 0;
    for (int spin = 0; spin < 2; ++spin) {
        const int n = spin == 0 ? (int)m.n_up : N - (int)m.n_up, begin = spin == 0 ? 0 : (int)m.n_up;
        for (int i = 0; i < n; ++i) {
            const int e = begin + i;
            bloch_rows(m, spin, R[3 * e], R[3 * e + 1], R[3 * e + 2], local.rows);
            settle(m, s, w, e, local, R[3 * e], R[3 * e + 1], R[3 * e + 2]);
            const elem* row = row_of(m, local, 0);
            for (int o = lane; o < n; o += LANES) A[i * M + o] = widened(row[o]);
            join();
        }
        double own = 1;
        log_psi += invert(A, order, swaps, n, M, own);
        sign *= own;
        elem* inverse = inverse_of(m, s, w, spin);
        double size = 0, change = 0;
        for (int k = lane; k < n * n; k += LANES) {
            const wide fresh = A[(k % n) * M + order[k / n]];
            elem& kept = inverse[(k / n) * M + k % n];
            size = fmax(size, modulus(fresh)), change = fmax(change, modulus(fresh - widened(kept)));
            kept = narrowed(fresh);
        }
        size = group_largest(size), change = group_largest(change);
        if (size > 0) worst = fmax(worst, change / size);
        join();
    }
    double exponent = 0;  // pairs once
    for (int e = 0; e < N; ++e) {
        for (int j = e + 1 + lane; j < N + m.atoms; j += LANES) {
            const Quad* curve = local.curves + function_number(m, local, e < (int)m.n_up, j) * stride;
            const Quad head = curve[0];
            real x, y, z, r, over;
            apart(m, local.electrons[e], site(m, local, j), x, y, z);
            lengths(nearest_square(local, x, y, z), r, over);
            exponent += head.c > BSPLINE ? formula(head, r).u : spline_value(curve, head.a, stride - 2, r);
        }
    }
    exponent = group_total(exponent);
    if (lane == 0) {
        s.log_psi[w] = log_psi - exponent;
        s.sign[w] = sign;
    }
    return worst;
}

// What a kernel begins with: number and shared memory of this group's walker.
#define ENTER                                                                     \
    extern __shared__ char shared[];                                              \
    const int64 w = WALKER;                                                       \
    const Local local = local_of(m, s, shared, GROUP, GROUPS, w);                 \
    if (w >= s.walkers) return;

// Moves of a walker; `first` counts the random numbers of the first walker of all in the first sweep.
QSIM_DEVICE void move(Crystal& m, const State& s, int64 w, const Local& local, double tau, int mode, int sweeps, const Draw& first) {
    CLOCK(WHOLE_KERNEL);
    for (int k = 0; k < sweeps; ++k) sweep(m, s, w, tau, mode, {first.key, first.stream, first.step + k, first.walker + (uint32)w}, local);
}

#endif
