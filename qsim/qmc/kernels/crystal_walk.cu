// Walkers in a crystal: moves of single electrons, local energies, weights and T-moves, in real or complex determinants (fixed phase).
// Device twins of crystal_cpu.py; kernels, lanes, random numbers and scratch are as in walk.cu.
//
// Bytes of a move: 64 coefficients of all channels, 2 n^2 elements of the inverse; of a point of the nonlocal potential: the former.
// The tables of a primitive cell stay in the L2 cache up to 64 atoms.
//
// qsim-compile: may-spill=walk,nonlocal_steps
// qsim-compile: -DWARPS=4
// qsim-compile: -DWARPS=4 -DCOMPLEX=1
// qsim-compile: -DWARPS=4 -DLANES=8
// qsim-compile: -DWARPS=4 -DCLOCKS=1 -DREAL=float
#include "crystal.cuh"

#ifndef WARPS
#define WARPS 4  // of a block
#endif
#ifndef RESIDENT
#define RESIDENT 4  // blocks of four warps that a multiprocessor must hold
#endif
#define BOUNDS __launch_bounds__(32 * WARPS, RESIDENT * 4 / WARPS)
#define HEAD 24    // numbers kept of an electron within the range of an ion: rotation, vector, distance, number, factors by channel
#define VECTOR 9   // the vector from the ion
#define LENGTH 12
#define NUMBER 13  // of ion and image
#define FACTOR 16
#define TOGETHER 8  // rows of an inverse that are updated at once
#define SINGULAR 1e-300

// What the lanes of a walker share.
struct Local {
    real* rows;    // (5, C)
    elem* column;  // (M,)
};

QSIM_DEVICE Local local_of(const Crystal& m, char* shared, int group) {
    const int64 size = (5 * m.all_channels + (1 + COMPLEX) * m.orbitals + 1) / 2 * 2;  // even, for complex numbers
    real* at = (real*)shared + group * size;
    return {at, (elem*)(at + (5 * m.all_channels + COMPLEX) / (1 + COMPLEX) * (1 + COMPLEX))};
}

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
    CLOCK(RATIOS);
    wide total = wide();
    for (int o = lane_of(); o < n; o += LANES) total += widened(row[o]) * widened(column[o]);
    return group_total(total);
}

QSIM_DEVICE double real_along(const elem* row, const elem* column, int n) {
    CLOCK(RATIOS);
    double total = 0;
    for (int o = lane_of(); o < n; o += LANES) total += real_product(row[o], column[o]);
    return group_total(total);
}

// Sherman and Morrison: row i becomes `row`.  `column` is work space of M numbers.  A lane takes a column, so that rows are read in one
// piece, and the sums over some rows are added up between the lanes at once.
QSIM_DEVICE void update_inverse(elem* inverse, const elem* row, int i, int n, int M, wide ratio, elem* column) {
    CLOCK(UPDATES);
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
        const Gradient old = electron_gradient(m, R, e, x, y, z);
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
        const Gradient now = electron_gradient(m, R, e, nx, ny, nz);
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

// ----------------------------------------------------------------------------------------- pseudopotentials
// Scratch of a walker: powers of the waves (N, 3, most_wave + 1) complex, numbers of ions within range (N,), and for each electron and
// ion of those HEAD numbers and (Q, 4) points with their values.

QSIM_DEVICE complex_of<double>* powers_of(const Crystal& m, const State& s, int64 w) {
    return (complex_of<double>*)(s.scratch + w * s.stride);
}

QSIM_DEVICE double* counts_of(const Crystal& m, const State& s, int64 w) {
    return s.scratch + w * s.stride + m.electrons * 6 * (m.most_wave + 1);
}

QSIM_DEVICE double* slot_of(const Crystal& m, const State& s, int64 w, int e, int slot) {
    return counts_of(m, s, w) + m.electrons + ((int64)e * m.slots + slot) * (HEAD + 4 * m.quadrature);
}

// Ions within the range of electron e, in their order; every lane holds their number.
QSIM_DEVICE int find_ions(const Crystal& m, const State& s, int64 w, int e) {
    const int A = (int)m.atoms, I = (int)m.image_count;
    const double* R = s.R + (w * m.electrons + e) * 3;
    int count = 0;
    for (int base = 0; base < A * I; base += LANES) {
        const int i = base + lane_of(), a = i / I;
        double x = 0, y = 0, z = 0, r = 0;
        bool within = false;
        if (a < A) {
            const int64 p = m.potential[a];
            if (p >= 0 && m.channels[p] > 0) {
                const double* t = m.images + 3 * (i % I);
                x = R[0] - m.atom[3 * a], y = R[1] - m.atom[3 * a + 1], z = R[2] - m.atom[3 * a + 2];
                fold(m, x, y, z);
                x += t[0], y += t[1], z += t[2];
                r = sqrt(x * x + y * y + z * z);
                within = r < m.cutoff[p];
            }
        }
        const unsigned votes = group_votes(within);
        const int place = count + __popc(votes & ((1u << lane_of()) - 1));
        if (within && place < m.slots) {
            double* slot = slot_of(m, s, w, e, place);
            slot[VECTOR] = x, slot[VECTOR + 1] = y, slot[VECTOR + 2] = z, slot[LENGTH] = r, slot[NUMBER] = i;
        }
        count += __popc(votes);
    }
    return min(count, (int)m.slots);
}

// Rotation of the points of a slot, and the factors of its angular momenta.
QSIM_DEVICE void prepare_slot(const Crystal& m, double* slot, int e, const Draw& draw) {
    const int number = (int)slot[NUMBER];
    const uint32 pair = (uint32)(PER_ELECTRON * m.electrons + 2 * (e * m.atoms * m.image_count + number));
    const uint4 c = words(draw, pair), d = words(draw, pair + 1);
    const double f = uniform52(c.x, c.y), g = TWO_PI * uniform52(c.z, c.w), h = TWO_PI * uniform52(d.x, d.y);
    const double p = sqrt(1 - f), t = sqrt(f);
    const double x = p * sin(g), y = p * cos(g), z = t * sin(h), v = t * cos(h);
    slot[0] = 1 - 2 * (y * y + z * z), slot[1] = 2 * (x * y - z * v), slot[2] = 2 * (x * z + y * v);
    slot[3] = 2 * (x * y + z * v), slot[4] = 1 - 2 * (x * x + z * z), slot[5] = 2 * (y * z - x * v);
    slot[6] = 2 * (x * z - y * v), slot[7] = 2 * (y * z + x * v), slot[8] = 1 - 2 * (x * x + y * y);
    const int64 potential = m.potential[number / m.image_count];
    const double* delta = m.delta + potential * m.most_channels * m.intervals * 6;
    for (int l = 0; l < m.channels[potential]; ++l)
        slot[FACTOR + l] = (2 * l + 1) * table_value(delta + l * m.intervals * 6, slot[LENGTH]);
}

// Place of point q of a slot, and what the ratio of the wavefunction there is multiplied by.
QSIM_DEVICE void prepare_point(const Crystal& m, double* slot, int q, const double* R) {
    const double *p = m.points + 3 * q, *d = slot + VECTOR, r = slot[LENGTH];
    double* target = slot + HEAD + 4 * q;
    double cosine = 0;
    for (int k = 0; k < 3; ++k) {
        const double u = slot[3 * k] * p[0] + slot[3 * k + 1] * p[1] + slot[3 * k + 2] * p[2];
        cosine += u * d[k];
        target[k] = R[k] - d[k] + r * u;
    }
    cosine /= fmax(r, TINY);
    const int count = (int)m.channels[m.potential[(int)slot[NUMBER] / m.image_count]];
    double factor = 0;
    for (int l = 0; l < count; ++l) factor += slot[FACTOR + l] * legendre(l, cosine);
    target[3] = m.weights[q] * factor;
}

// Values at all points of electrons first ... last, which stay in scratch; returns their sum.
QSIM_DEVICE double nonlocal_points(const Crystal& m, const State& s, int64 w, int first, int last, const Draw& draw) {
    CLOCK(NONLOCAL_PART);
    const int M = (int)m.orbitals, K = (int)m.slots, Q = (int)m.quadrature;
    const double* R = s.R + w * m.electrons * 3;
    double* counts = counts_of(m, s, w);
    for (int e = first; e < last; ++e) {
        const int count = find_ions(m, s, w, e);
        if (lane_of() == 0) counts[e] = count;
    }
    join();
    for (int i = lane_of(); i < (last - first) * K; i += LANES) {
        const int e = first + i / K;
        if (i % K < counts[e]) prepare_slot(m, slot_of(m, s, w, e, i % K), e, draw);
    }
    join();
    for (int i = lane_of(); i < (last - first) * K * Q; i += LANES) {
        const int e = first + i / (K * Q), slot = i / Q % K;
        if (slot < counts[e]) prepare_point(m, slot_of(m, s, w, e, slot), i % Q, R + 3 * e);
    }
    join();
    double total = 0;
    for (int e = first; e < last; ++e) {
        const int count = (int)counts[e];
        if (count == 0) continue;
        const Electron at = electron(m, e);
        const elem* column = inverse_of(m, s, w, at.spin) + at.i * M;
        const double old = group_total(electron_value(m, R, e, R[3 * e], R[3 * e + 1], R[3 * e + 2]));
        for (int i = 0; i < count * Q; ++i) {
            double* target = slot_of(m, s, w, e, i / Q) + HEAD + 4 * (i % Q);
            const double x = target[0], y = target[1], z = target[2], factor = target[3];
            const double ratio = spline_ratio(m, at.spin, x, y, z, column, at.n);
            const double now = electron_value(m, R, e, x, y, z);
            const double value = factor * group_total(ratio) * exp(old - group_total(now));
            join();
            if (lane_of() == 0) target[3] = value;
            total += value;
        }
    }
    join();
    return total;
}

QSIM_DEVICE void nonlocal_moves(const Crystal& m, const State& s, int64 w, double tau, const Draw& draw, const Local& local) {
    const int N = (int)m.electrons, M = (int)m.orbitals, Q = (int)m.quadrature;
    const double *R = s.R + w * N * 3, *counts = counts_of(m, s, w);
    bool moved = false;
    for (int e = 0; e < N; ++e) {
        const int points = (int)counts[e] * Q;
        if (points == 0) continue;
        if (moved) nonlocal_points(m, s, w, e, e + 1, draw);
        const double* targets = slot_of(m, s, w, e, 0) + HEAD;
        const int64 stride = HEAD + 4 * Q;
        double total = 1;
        for (int i = 0; i < points; ++i) total -= tau * fmin(targets[i / Q * stride + 4 * (i % Q) + 3], 0.0);
        const uint4 v = words(draw, PER_ELECTRON * e + T_MOVE);
        double place = uniform52(v.x, v.y) * total - 1;  // below 0: stay
        if (place < 0) continue;
        int chosen = -1;
        for (int i = 0; i < points && place >= 0; ++i) {
            const double value = targets[i / Q * stride + 4 * (i % Q) + 3];
            if (value < 0) chosen = i, place += tau * value;
        }
        if (chosen < 0) continue;
        const double* target = targets + chosen / Q * stride + 4 * (chosen % Q);
        const double x = target[0], y = target[1], z = target[2];
        const Electron at = electron(m, e);
        elem* inverse = inverse_of(m, s, w, at.spin);
        bloch_rows(m, at.spin, x, y, z, local.rows);
        const wide ratio = along(row_of(m, local, 0), inverse + at.i * M, at.n);
        if (!(modulus(ratio) > 0)) continue;
        const double change =
            group_total(electron_value(m, R, e, R[3 * e], R[3 * e + 1], R[3 * e + 2]) - electron_value(m, R, e, x, y, z));
        update_inverse(inverse, row_of(m, local, 0), at.i, at.n, M, ratio, local.column);
        settle(m, s, w, e, local, x, y, z);
        if (lane_of() == 0) {
            s.log_psi[w] += log(modulus(ratio)) + change;
            if (!COMPLEX && real_part(ratio) < 0) s.sign[w] = -s.sign[w];
            s.moves[4 * w + 3] += 1;
        }
        moved = true;
        join();
    }
}

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

QSIM_DEVICE double local_energy(const Crystal& m, const State& s, int64 w, const Draw& draw) {
    const int N = (int)m.electrons, M = (int)m.orbitals, all = N + (int)m.atoms;
    const double* R = s.R + w * N * 3;
    Potentials sums = long_ranged(m, s, w);
    double laplacians = 0;
    for (int e = 0; e < N; ++e) {
        double jx = 0, jy = 0, jz = 0, jl = 0;
        for (int j = lane_of(); j < all; j += LANES) {
            if (j == e) continue;
            const double* other = particle(m, R, j);
            double x = R[3 * e] - other[0], y = R[3 * e + 1] - other[1], z = R[3 * e + 2] - other[2];
            fold(m, x, y, z);
            if (j >= N && m.potential[j - N] >= 0) {
                const int64 p = m.potential[j - N];
                for (int i = 0; i < m.image_count; ++i) {
                    const double a = x + m.images[3 * i], b = y + m.images[3 * i + 1], c = z + m.images[3 * i + 2];
                    const double r = sqrt(a * a + b * b + c * c);
                    if (r < m.reach[p]) sums.local += table_value(m.local + p * m.intervals * 6, r) / fmax(r, TINY);
                }
            }
            const double r = nearest_of_folded(m, x, y, z);
            if (r < m.pair_reach) {
                const double v = table_value(m.pair, r) / r;
                if (j >= N)
                    sums.local -= m.charge[j - N] * v;
                else if (j > e)
                    sums.repulsion += v;
            }
            const int f = function_of(m, e < m.n_up, j);
            if (!m.kind[f]) continue;
            const Curve c = function(m, f, r);
            const double slope = c.du / r;
            jx += slope * x, jy += slope * y, jz += slope * z, jl += c.ddu + 2 * slope;
        }
        jx = group_total(jx), jy = group_total(jy), jz = group_total(jz), jl = group_total(jl);
        const Electron at = electron(m, e);
        const elem *column = inverse_of(m, s, w, at.spin) + at.i * M, *row = rows_of(m, s, w, e);
        const double gx = real_along(row + M, column, at.n), gy = real_along(row + 2 * M, column, at.n);
        const double gz = real_along(row + 3 * M, column, at.n), laplacian = real_along(row + 4 * M, column, at.n);
        laplacians += laplacian - 2 * (gx * jx + gy * jy + gz * jz) + (jx * jx + jy * jy + jz * jz) - jl;
    }
    const double repulsion = m.repulsion + group_total(sums.repulsion), ions = m.attraction + group_total(sums.local);
    const double outside = m.slots > 0 ? nonlocal_points(m, s, w, 0, N, draw) : 0;
    const double kinetic = -0.5 * laplacians / m.mass, total = kinetic + repulsion + ions + outside + m.ion_ion;
    if (lane_of() == 0) {
        double* energy = s.energy + 6 * w;
        energy[0] = kinetic, energy[1] = repulsion, energy[2] = ions, energy[3] = outside, energy[4] = 0, energy[5] = total;
    }
    join();
    return total;
}

// ----------------------------------------------------------------------------------------------- inversion

// Invert A (n, n) of leading dimension M in place of X by Gauss and Jordan, pivots by column; returns log |det|, and its sign in `sign`.
QSIM_DEVICE double invert(wide* A, wide* X, int n, int M, double& sign) {
    const int lane = lane_of();
    double log_det = 0;
    for (int i = 0; i < n; ++i) {
        int p = i;
        for (int k = i + 1; k < n; ++k)
            if (modulus(A[k * M + i]) > modulus(A[p * M + i])) p = k;
        const wide pivot = A[p * M + i];
        if (!(modulus(pivot) > 0)) {
            sign = 0;
            return -REAL_INFINITY;
        }
        const wide over = one() / pivot;
        join();
        for (int k = lane; k < n; k += LANES) {
            const wide a = A[p * M + k], x = X[p * M + k];
            if (p != i) A[p * M + k] = A[i * M + k], X[p * M + k] = X[i * M + k];
            A[i * M + k] = a * over, X[i * M + k] = x * over;
        }
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
                const wide a = A[i * M + k], x = X[i * M + k];
#pragma unroll
                for (int r = 0; r < 4; ++r)
                    if (first + r < n && first + r != i) A[(first + r) * M + k] -= f[r] * a, X[(first + r) * M + k] -= f[r] * x;
            }
        }
        join();
    }
    if (COMPLEX) sign = 1;
    return log_det;
}

#define GROUP ((int)(threadIdx.x / LANES))
#define WALKER ((int64)blockIdx.x * (32 * WARPS / LANES) + GROUP)

#ifndef WALKERS_ONLY  // crystal_derivatives.cu takes the functions above alone

// One launch for all kernels below: blocks of WARPS warps, dynamic shared memory for 32 WARPS / LANES times `Local`.

// Rows, inverses (in double precision) and log psi; error: (W,).
extern "C" __global__ void recompute(Crystal m, State s, double* error) {
    extern __shared__ char shared[];
    const int64 w = WALKER;
    if (w >= s.walkers) return;
    const Local local = local_of(m, shared, GROUP);
    const int N = (int)m.electrons, M = (int)m.orbitals, lane = lane_of();
    const double* R = s.R + w * N * 3;
    wide *A = (wide*)(s.scratch + w * s.stride), *X = A + M * M;
    double log_psi = 0, sign = 1, worst = 0;
    for (int spin = 0; spin < 2; ++spin) {
        const int n = spin == 0 ? (int)m.n_up : N - (int)m.n_up, begin = spin == 0 ? 0 : (int)m.n_up;
        for (int i = 0; i < n; ++i) {
            const int e = begin + i;
            bloch_rows(m, spin, R[3 * e], R[3 * e + 1], R[3 * e + 2], local.rows);
            settle(m, s, w, e, local, R[3 * e], R[3 * e + 1], R[3 * e + 2]);
            const elem* row = row_of(m, local, 0);
            for (int o = lane; o < n; o += LANES) A[i * M + o] = widened(row[o]), X[i * M + o] = i == o ? one() : wide();
            join();
        }
        double own = 1;
        log_psi += invert(A, X, n, M, own);
        sign *= own;
        elem* inverse = inverse_of(m, s, w, spin);
        double size = 0, change = 0;
        for (int k = lane; k < n * n; k += LANES) {
            const wide fresh = X[(k % n) * M + k / n];
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
            const int f = function_of(m, e < m.n_up, j);
            if (!m.kind[f]) continue;
            const double* other = particle(m, R, j);
            double x = R[3 * e] - other[0], y = R[3 * e + 1] - other[1], z = R[3 * e + 2] - other[2];
            exponent += function_value(m, f, nearest(m, x, y, z));
        }
    }
    exponent = group_total(exponent);
    if (lane == 0) {
        s.log_psi[w] = log_psi - exponent;
        s.sign[w] = sign;
        error[w] = worst;
    }
}

extern "C" __global__ void BOUNDS
    walk(Crystal m, State s, double tau, int mode, int sweeps, uint32 k0, uint32 k1, uint32 stream, uint32 step, uint32 offset) {
    extern __shared__ char shared[];
    const int64 w = WALKER;
    if (w >= s.walkers) return;
    CLOCK(WHOLE_KERNEL);
    const Local local = local_of(m, shared, GROUP);
    for (int k = 0; k < sweeps; ++k) sweep(m, s, w, tau, mode, {make_uint2(k0, k1), stream, step + k, offset + (uint32)w}, local);
}

// sums: (W, 8): components, square of the total, generations; or none.
extern "C" __global__ void BOUNDS
    energies(Crystal m, State s, uint32 k0, uint32 k1, uint32 stream, uint32 step, uint32 offset, double* sums) {
    const int64 w = WALKER;
    if (w >= s.walkers) return;
    CLOCK(WHOLE_KERNEL);
    const double total = local_energy(m, s, w, {make_uint2(k0, k1), stream, step, offset + (uint32)w});
    if (sums && lane_of() == 0) {
        for (int c = 0; c < 6; ++c) sums[8 * w + c] += s.energy[6 * w + c];
        sums[8 * w + 6] += total * total;
        sums[8 * w + 7] += 1;
    }
}

// New energies, and the weights of a generation of diffusion; the old energies are those before its moves.
extern "C" __global__ void BOUNDS
    weigh(Crystal m, State s, double tau, double reference, double trial, double window, uint32 k0, uint32 k1, uint32 stream, uint32 step,
          uint32 offset) {
    const int64 w = WALKER;
    if (w >= s.walkers) return;
    CLOCK(WHOLE_KERNEL);
    const double before = clipped(s.energy[6 * w + 5], reference, window);
    join();
    const double energy = local_energy(m, s, w, {make_uint2(k0, k1), stream, step, offset + (uint32)w});
    const double after = clipped(energy, reference, window);
    if (lane_of() == 0) s.weight[w] *= exp(-tau * (0.5 * (before + after) - trial));
}

// T-moves by the values that `weigh` left in scratch.
extern "C" __global__ void BOUNDS
    nonlocal_steps(Crystal m, State s, double tau, uint32 k0, uint32 k1, uint32 stream, uint32 step, uint32 offset) {
    extern __shared__ char shared[];
    const int64 w = WALKER;
    if (w >= s.walkers) return;
    CLOCK(WHOLE_KERNEL);
    nonlocal_moves(m, s, w, tau, {make_uint2(k0, k1), stream, step, offset + (uint32)w}, local_of(m, shared, GROUP));
}

#endif
