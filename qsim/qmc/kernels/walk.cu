// Walkers: moves of single electrons, local energies, weights and T-moves.  A group of LANES lanes of a warp
// carries a walker through all sweeps of a launch: one lane where there are few electrons, which leave the others nothing to do.
//
// Moves, energies and T-moves are kernels of their own: they wait for dependent double-precision operations, so what counts is how
// many warps a multiprocessor holds, and together they would need twice the registers of each.
//
// The random numbers are those of the CPU: a counter is (generation, walker, purpose, section), so CPU and GPU make the same moves
// until rounding turns a decision.  State stays in global memory (1 to 40 kB per walker, in cache between launches);
// shared memory holds what the lanes of a warp exchange: atomic orbitals, rows, one column.
//
// Flops of a move: 5 M B for the rows, 4 M^2 for the update, 60 (N + A) for the Jastrow; of a quadrature point: B + 40 (N + A).
//
// qsim-compile: may-spill=walk,nonlocal_steps
// qsim-compile: -DWARPS=4
// qsim-compile: -DWARPS=1 -DLANES=1
// qsim-compile: -DWARPS=4 -DLANES=8
// qsim-compile: -DWARPS=4 -DLANES=16 -DELECTRONS=8 -DELECTRONS_UP=4 -DATOMS=3 -DORBITALS=4 -DBASIS=57 -DSHELLS=21 -DQUADRATURE=12
#include "molecules.cuh"

// Sherman and Morrison: row i becomes `row`.  `column` is work space of M numbers.
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

QSIM_DEVICE void sweep(const Model& m, const State& s, int64 w, double tau, int mode, const Draw& draw, const Local& local) {
    const int N = (int)m.electrons, M = (int)m.orbitals;
    const double* R = s.R + w * N * 3;
    const double variance = tau / m.mass, width = sqrt(variance), over_variance = 1 / variance;
    int moved = 0;
    double proposed = 0, accepted = 0, log_psi = 0, sign = 1;
    for (int e = 0; e < N; ++e) {
        const Electron at = electron(m, e);
        real* inverse = s.inverse + (w * 2 + at.spin) * M * M;
        const real* column = inverse + at.i * M;
        const double x = R[3 * e], y = R[3 * e + 1], z = R[3 * e + 2];
        const uint4 u = words(draw, PER_ELECTRON * e);
        const double a = width * sqrt(-2 * log(unit(u.x))), b = width * sqrt(-2 * log(unit(u.z)));
        double sine, cosine;
        sincospi(2 * unit(u.y), &sine, &cosine);
        const double sx = a * cosine, sy = a * sine, sz = b * cospi(2 * unit(u.w));
        const Gradient old = electron_gradient(m, R, e, x, y, z);
        double vx = 0, vy = 0, vz = 0;
        if (mode != PLAIN) {
            const real* row = s.rows + (w * N + e) * 5 * M;
            vx = along(row + M, column, at.n) - old.x;
            vy = along(row + 2 * M, column, at.n) - old.y;
            vz = along(row + 3 * M, column, at.n) - old.z;
            const double f = variance * limited(vx, vy, vz, variance);
            vx *= f, vy *= f, vz *= f;
        }
        const double nx = x + vx + sx, ny = y + vy + sy, nz = z + vz + sz;
        const double square = (nx - x) * (nx - x) + (ny - y) * (ny - y) + (nz - z) * (nz - z);
        proposed += square;
        orbital_rows(m, at.spin, nx, ny, nz, local.ao, local.rows);
        const Gradient now = electron_gradient(m, R, e, nx, ny, nz);
        const double ratio = along(local.rows, column, at.n), size = fabs(ratio);
        if ((mode == FIXED_NODE && ratio <= 0) || !(size > 1e-300)) continue;
        double exponent = 2 * (log(size) + old.u - now.u);
        if (mode != PLAIN) {
            const double over_ratio = 1 / ratio;
            const double wx = along(local.rows + M, column, at.n) * over_ratio - now.x;
            const double wy = along(local.rows + 2 * M, column, at.n) * over_ratio - now.y;
            const double wz = along(local.rows + 3 * M, column, at.n) * over_ratio - now.z;
            const double f = variance * limited(wx, wy, wz, variance);
            const double bx = x - nx - f * wx, by = y - ny - f * wy, bz = z - nz - f * wz;
            exponent += 0.5 * ((sx * sx + sy * sy + sz * sz) - (bx * bx + by * by + bz * bz)) * over_variance;
        }
        if (exponent < 0) {
            const uint4 v = words(draw, PER_ELECTRON * e + ACCEPTANCE);
            if (!(log(uniform52(v.x, v.y)) < exponent)) continue;
        }
        update_inverse(inverse, local.rows, at.i, at.n, M, ratio, local.column);
        settle(m, s, w, e, local.rows, nx, ny, nz);
        log_psi += log(size) + old.u - now.u;
        if (ratio < 0) sign = -sign;
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

// ----------------------------------------------------------------------------------------- pseudopotentials

// Values at all quadrature points of electrons first ... last; returns their sum.  Pair data and values go to scratch.
QSIM_DEVICE double nonlocal_points(const Model& m, const State& s, int64 w, int first, int last, const Draw& draw, const Local& local) {
    const int N = (int)m.electrons, M = (int)m.orbitals, B = (int)m.basis, A = (int)m.atoms, Q = (int)m.quadrature;
    const double* R = s.R + w * N * 3;
    for (int i = lane_of(); i < (last - first) * B; i += LANES) {  // orbitals summed with the column of each electron
        const int e = first + i / B, b = i % B;
        const Electron at = electron(m, e);
        const real* column = s.inverse + (w * 2 + at.spin) * M * M + at.i * M;
        const real* C = m.coefficients + ((int64)at.spin * B + b) * M;
        real sum = 0;
        for (int o = 0; o < at.n; ++o) sum = fma(C[o], column[o], sum);
        local.d[e * B + b] = sum;
    }
    for (int i = lane_of(); i < (last - first) * A; i += LANES) {  // rotations
        const int e = first + i / A, a = i % A;
        double r;
        if (!within(m, R, e, a, r)) continue;
        double* pair = pair_of(m, s, w, e, a);
        const uint4 c = words(draw, PER_ELECTRON * N + 2 * (e * A + a)), d = words(draw, PER_ELECTRON * N + 2 * (e * A + a) + 1);
        const double f = uniform52(c.x, c.y), g = TWO_PI * uniform52(c.z, c.w), h = TWO_PI * uniform52(d.x, d.y);
        const double p = sqrt(1 - f), t = sqrt(f);
        const double x = p * sin(g), y = p * cos(g), z = t * sin(h), v = t * cos(h);
        pair[0] = 1 - 2 * (y * y + z * z), pair[1] = 2 * (x * y - z * v), pair[2] = 2 * (x * z + y * v);
        pair[3] = 2 * (x * y + z * v), pair[4] = 1 - 2 * (x * x + z * z), pair[5] = 2 * (y * z - x * v);
        pair[6] = 2 * (x * z - y * v), pair[7] = 2 * (y * z + x * v), pair[8] = 1 - 2 * (x * x + y * y);
        pair[9] = r;
        pair[10] = electron_value(m, R, e, R[3 * e], R[3 * e + 1], R[3 * e + 2]);
    }
    join();
    double total = 0;
    for (int i = lane_of(); i < (last - first) * A * Q; i += LANES) {
        const int e = first + i / (A * Q), a = i / Q % A, q = i % Q;
        double r;
        if (!within(m, R, e, a, r)) continue;
        double *pair = pair_of(m, s, w, e, a), u[3], at[3];
        turned(m, pair, a, q, r, u, at);
        const double* here = R + 3 * e;
        const double cosine = (u[0] * (here[0] - m.atom[3 * a]) + u[1] * (here[1] - m.atom[3 * a + 1]) + u[2] * (here[2] - m.atom[3 * a + 2])) /
                              fmax(r, TINY);
        const int64 p = m.potential[a];
        double factor = 0;
        for (int l = 0; l < m.channels[p]; ++l)
            factor += (2 * l + 1) * table_value(m.delta + (p * m.most_channels + l) * m.intervals * 6, r) * legendre(l, cosine);
        const double ratio = combination(m, local.d + e * B, at[0], at[1], at[2]);
        const double value = m.weights[q] * factor * ratio * exp(pair[10] - electron_value(m, R, e, at[0], at[1], at[2]));
        pair[PAIR + q] = value;
        total += value;
    }
    join();
    return group_total(total);
}

QSIM_DEVICE void nonlocal_moves(const Model& m, const State& s, int64 w, double tau, const Draw& draw, const Local& local) {
    const int N = (int)m.electrons, M = (int)m.orbitals, A = (int)m.atoms, Q = (int)m.quadrature;
    const double* R = s.R + w * N * 3;
    bool moved = false;
    for (int e = 0; e < N; ++e) {
        double r, total = 1;
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
        const Electron which = electron(m, e);
        real* inverse = s.inverse + (w * 2 + which.spin) * M * M;
        orbital_rows(m, which.spin, at[0], at[1], at[2], local.ao, local.rows);
        const double ratio = along(local.rows, inverse + which.i * M, which.n);
        if (!(fabs(ratio) > 0)) continue;
        const double change = electron_value(m, R, e, R[3 * e], R[3 * e + 1], R[3 * e + 2]) - electron_value(m, R, e, at[0], at[1], at[2]);
        update_inverse(inverse, local.rows, which.i, which.n, M, ratio, local.column);
        settle(m, s, w, e, local.rows, at[0], at[1], at[2]);
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
    for (int e = 0; e < N; ++e) {
        const double x = R[3 * e], y = R[3 * e + 1], z = R[3 * e + 2];
        double jx = 0, jy = 0, jz = 0, jl = 0, pairs = 0, local_part = 0;
        for (int j = lane_of(); j < N + A; j += LANES) {
            if (j == e) continue;
            const double* other = j < N ? R + 3 * j : m.atom + 3 * (j - N);
            const double dx = x - other[0], dy = y - other[1], dz = z - other[2], r = distance(dx, dy, dz);
            int f;
            if (j < N) {
                f = (j < m.n_up) == (e < m.n_up) ? 0 : 1;
                if (j > e) pairs += 1 / r;
            } else {
                const int a = j - N;
                const int64 p = m.potential[a];
                f = 2 + (int)m.species[a];
                local_part += ((p < 0 ? 0.0 : table_value(m.local + p * m.intervals * 6, r)) - m.charge[a]) / r;
            }
            if (!m.kind[f]) continue;
            const Curve c = function(m, f, r);
            const double slope = c.du / r;
            jx += slope * dx, jy += slope * dy, jz += slope * dz, jl += c.ddu + 2 * slope;
        }
        jx = group_total(jx), jy = group_total(jy), jz = group_total(jz), jl = group_total(jl);
        repulsion += group_total(pairs);
        ions += group_total(local_part);
        const Electron at = electron(m, e);
        const real* column = s.inverse + (w * 2 + at.spin) * M * M + at.i * M;
        const real* row = s.rows + (w * N + e) * 5 * M;
        const double gx = along(row + M, column, at.n), gy = along(row + 2 * M, column, at.n), gz = along(row + 3 * M, column, at.n);
        laplacians += along(row + 4 * M, column, at.n) - 2 * (gx * jx + gy * jy + gz * jz) + (jx * jx + jy * jy + jz * jz) - jl;
        external += x * x + y * y + z * z;
    }
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

// One launch for all kernels below: blocks of WARPS warps, dynamic shared memory for 32 WARPS / LANES times `Local`.

// Rows, inverses (Gauss and Jordan in double precision, pivots by column) and log psi; error: (W,).
extern "C" __global__ void recompute(Model m, State s, double* error) {
    extern __shared__ char shared[];
    set_sizes(m);
    const int64 w = WALKER;
    if (w >= s.walkers) return;
    const Local local = local_of(m, shared, GROUP);
    const int N = (int)m.electrons, M = (int)m.orbitals, lane = lane_of();
    const double* R = s.R + w * N * 3;
    double *A = s.scratch + w * s.stride, *X = A + M * M;
    double log_psi = 0, sign = 1, worst = 0;
    for (int spin = 0; spin < 2; ++spin) {
        const int n = spin == 0 ? (int)m.n_up : N - (int)m.n_up, begin = spin == 0 ? 0 : (int)m.n_up;
        for (int i = 0; i < n; ++i) {
            const int e = begin + i;
            orbital_rows(m, spin, R[3 * e], R[3 * e + 1], R[3 * e + 2], local.ao, local.rows);
            for (int k = lane; k < 5 * M; k += LANES) s.rows[(w * N + e) * 5 * M + k] = local.rows[k];
            for (int o = lane; o < n; o += LANES) A[i * M + o] = local.rows[o], X[i * M + o] = i == o;
            join();
        }
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
            log_psi += log(fabs(pivot));
            join();
            for (int j = 0; j < n; ++j) {
                if (j == i) continue;
                const double f = A[j * M + i];
                join();
                for (int k = lane; k < n; k += LANES) A[j * M + k] -= f * A[i * M + k], X[j * M + k] -= f * X[i * M + k];
                join();
            }
        }
        real* inverse = s.inverse + (w * 2 + spin) * M * M;
        double size = 0, change = 0;
        for (int k = 0; k < n; ++k)
            for (int o = 0; o < n; ++o) {
                size = fmax(size, fabs(X[o * M + k]));
                change = fmax(change, fabs(X[o * M + k] - (double)inverse[k * M + o]));
            }
        join();
        for (int k = lane; k < n * n; k += LANES) inverse[(k / n) * M + k % n] = (real)X[(k % n) * M + k / n];
        if (size > 0) worst = fmax(worst, change / size);
        join();
    }
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
        error[w] = worst;
    }
}

extern "C" __global__ void BOUNDS
    walk(Model m, State s, double tau, int mode, int sweeps, uint32 k0, uint32 k1, uint32 stream, uint32 step, uint32 offset) {
    extern __shared__ char shared[];
    set_sizes(m);
    const int64 w = WALKER;
    if (w >= s.walkers) return;
    const Local local = local_of(m, shared, GROUP);
    for (int k = 0; k < sweeps; ++k) sweep(m, s, w, tau, mode, {make_uint2(k0, k1), stream, step + k, offset + (uint32)w}, local);
}

// sums: (W, 8): components, square of the total, generations; or none.
extern "C" __global__ void BOUNDS
    energies(Model m, State s, uint32 k0, uint32 k1, uint32 stream, uint32 step, uint32 offset, double* sums) {
    extern __shared__ char shared[];
    set_sizes(m);
    const int64 w = WALKER;
    if (w >= s.walkers) return;
    const double total = local_energy(m, s, w, {make_uint2(k0, k1), stream, step, offset + (uint32)w}, local_of(m, shared, GROUP));
    if (sums && lane_of() == 0) {
        for (int c = 0; c < 6; ++c) sums[8 * w + c] += s.energy[6 * w + c];
        sums[8 * w + 6] += total * total;
        sums[8 * w + 7] += 1;
    }
}

// New energies, and the weights of a generation of diffusion; the old energies are those before its moves.
extern "C" __global__ void BOUNDS
    weigh(Model m, State s, double tau, double reference, double trial, double window, uint32 k0, uint32 k1, uint32 stream, uint32 step,
          uint32 offset) {
    extern __shared__ char shared[];
    set_sizes(m);
    const int64 w = WALKER;
    if (w >= s.walkers) return;
    const double before = clipped(s.energy[6 * w + 5], reference, window);
    join();
    const double energy = local_energy(m, s, w, {make_uint2(k0, k1), stream, step, offset + (uint32)w}, local_of(m, shared, GROUP));
    const double after = clipped(energy, reference, window);
    if (lane_of() == 0) s.weight[w] *= exp(-tau * (0.5 * (before + after) - trial));
}

// T-moves by the values that `weigh` left in scratch.
extern "C" __global__ void BOUNDS
    nonlocal_steps(Model m, State s, double tau, uint32 k0, uint32 k1, uint32 stream, uint32 step, uint32 offset) {
    extern __shared__ char shared[];
    set_sizes(m);
    const int64 w = WALKER;
    if (w >= s.walkers) return;
    nonlocal_moves(m, s, w, tau, {make_uint2(k0, k1), stream, step, offset + (uint32)w}, local_of(m, shared, GROUP));
}
