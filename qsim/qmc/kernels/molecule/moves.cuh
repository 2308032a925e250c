// Moves of single electrons of molecules.  A group of LANES lanes of a warp carries a walker through all sweeps of a launch, and the
// groups of a warp go the same way: a rejected move is made and not kept, so that lanes meet without asking who is there.
//
// What does not wait for anything is made for all electrons of a sweep at once, by as many lanes: random numbers, logarithms, angles.
// Positions, inverses (of systems whose sizes are compiled), random numbers and atomic orbitals of a walker lie in shared memory, and
// so do, once for a block, B-splines as polynomials and shells by angular momentum, so that lanes side by side do the same.
//
// The random numbers are those of the CPU: a counter is (generation, walker, purpose, section), so CPU and GPU make the same moves
// until rounding turns a decision.
//
// Flops of a move: 5 M B for the rows, 4 M^2 for the update, 50 (N + A) for the Jastrow.

#ifndef QSIM_QMC_MOVES_CUH
#define QSIM_QMC_MOVES_CUH
#include "curves.cuh"
#include "molecules.cuh"

typedef Model Tables;

#ifdef ELECTRONS
#define KEEP 1  // positions and inverses in shared memory
#else
#define KEEP 0
#endif
#if LANES > 1 && defined(ELECTRONS) && ORBITALS <= 5
#define PARTIAL (LANES * (5 * ORBITALS + 1))  // sums of all lanes
#else
#define PARTIAL 0
#endif

#if LANES == 1
QSIM_DEVICE void meet() {}
QSIM_DEVICE double all_of(double x) { return x; }
#else
QSIM_DEVICE void meet() { __syncwarp(); }
// Every lane of a group holds the sum; of the whole warp, which goes the same way.
QSIM_DEVICE double all_of(double x) {
#pragma unroll
    for (int k = LANES / 2; k > 0; k /= 2) x += __shfl_xor_sync(QSIM_ALL_LANES, x, k);
    return x;
}
#endif

// ------------------------------------------------------------------------------------------ shared memory

#define PLACE 6  // of a shell: nucleus, reach, two of integers

// What a block has once.
struct Common {
    Curves curves;
    double* shell;  // (Sh, PLACE), by angular momentum
};

// What the lanes of a walker share.
struct Own {
    double *R, *numbers;  // (N, 3), (N, 4): displacement, and logarithm of what a move is accepted by
    real *ao, *rows, *column, *inverse;
};

QSIM_DEVICE Common common_of(const Model& m, double* shared) { return {curves_at(m, shared), shared + curve_numbers(m)}; }

QSIM_DEVICE Own own_of(const Model& m, double* shared) {
    const int N = (int)m.electrons, M = (int)m.orbitals, B = (int)m.basis, F = (int)m.filled;
    const int ao = 5 * B > PARTIAL ? 5 * B : PARTIAL;
    int size = 7 * N + (int)(((ao + 6 * M + KEEP * 2 * F * F) * sizeof(real) + 7) / 8);
    if (LANES < 16) size += (3 * LANES - size % (2 * LANES)) % (2 * LANES);  // groups side by side meet different banks
    double* at = shared + curve_numbers(m) + PLACE * m.shells + GROUP * size;
    real* next = (real*)(at + 7 * N);
    return {at, at + 3 * N, next, next + ao, next + ao + 5 * M, next + ao + 6 * M};
}

// By all threads of a block.
QSIM_DEVICE void fill(const Model& m, const Common& common) {
    fill_curves(m, common.curves);
    for (int s = threadIdx.x; s < m.shells; s += blockDim.x) {
        const int64 l = m.shell_l[s];
        int before = 0;
        for (int other = 0; other < m.shells; ++other) before += m.shell_l[other] < l || (m.shell_l[other] == l && other < s);
        double* shell = common.shell + PLACE * before;
        for (int k = 0; k < 3; ++k) shell[k] = m.atom[3 * m.shell_atom[s] + k];
        shell[3] = m.reach[s];
        shell[4] = __longlong_as_double(l << 32 | m.shell_first[s]);
        shell[5] = __longlong_as_double(s);
    }
    __syncthreads();
}

// -------------------------------------------------------------------------------------------- functions

// Random numbers of all electrons in a sweep.
QSIM_DEVICE void draw_numbers(int N, const Draw& draw, double width, double* numbers) {
    for (int i = lane_of(); i < 3 * N; i += LANES) {
        const int kind = i / N, e = i % N;
        const uint4 u = words(draw, PER_ELECTRON * e + (kind == 2 ? ACCEPTANCE : 0));
        const double size = log(kind == 2 ? uniform52(u.x, u.y) : unit(kind == 1 ? u.z : u.x));
        if (kind == 2) {
            numbers[4 * e + 3] = size;
        } else {
            double sine, cosine;
            sincospi(2 * unit(kind == 1 ? u.w : u.y), &sine, &cosine);
            const double a = width * sqrt(-2 * size);
            numbers[4 * e + 2 * kind] = a * cosine;
            if (kind == 0) numbers[4 * e + 1] = a * sine;
        }
    }
}

// This lane's part of all functions of electron e if it were at (x, y, z), and of their gradient.
QSIM_DEVICE Gradient part_of_gradient(const Model& m, const Curves& curves, const double* R, int e, double x, double y, double z) {
    Gradient g = {0, 0, 0, 0};
    const int N = (int)m.electrons, all = N + (int)m.atoms;
    for (int j = lane_of(); j < all; j += LANES) {
        if (j == e) continue;
        const double* other = j < N ? R + 3 * j : m.atom + 3 * (j - N);
        const double dx = x - other[0], dy = y - other[1], dz = z - other[2];
        const Distance d = quick_distance(dx, dy, dz);
        const Curve c = curve(m, curves, function_of(m, e, j), d.r);
        const double slope = c.du * d.over;
        g.u += c.u, g.x += slope * dx, g.y += slope * dy, g.z += slope * dz;
    }
    return g;
}

QSIM_DEVICE double with(double base, double factor, double slope) { return fma(factor, slope, base); }
QSIM_DEVICE double with(double base, double, Zero) { return base; }

// Where a shell of atomic orbitals goes, which its harmonics are multiplied by.
struct Emitted {
    real* out;
    int B;
    double value, bend, gx, gy, gz;

    template <typename X, typename Y, typename Z> QSIM_MEMBER void operator()(int k, double S, X Sx, Y Sy, Z Sz) const {
        out[k] = (real)(value * S);
        out[B + k] = (real)with(gx * S, value, Sx);
        out[2 * B + k] = (real)with(gy * S, value, Sy);
        out[3 * B + k] = (real)with(gz * S, value, Sz);
        out[4 * B + k] = (real)(bend * S);
    }
};

// Values, gradients and Laplacians of the orbitals of a spin at one point.
QSIM_DEVICE void all_rows(const Model& m, const Common& common, int spin, double x, double y, double z, const Own& own) {
    const int B = (int)m.basis, M = (int)m.orbitals;
    for (int i = lane_of(); i < m.shells; i += LANES) {
        const double* shell = common.shell + PLACE * i;
        const double dx = x - shell[0], dy = y - shell[1], dz = z - shell[2];
        const Distance d = quick_distance(dx, dy, dz);
        const int64 both = __double_as_longlong(shell[4]);
        const int l = (int)(both >> 32), s = (int)__double_as_longlong(shell[5]);
        real* out = own.ao + (int)both;
        double value = 0, slope = 0, bend = 0;
        if (d.r < shell[3]) {
            const Place p = locate(d.r);
            const Six a = six(m.table + 6 * (p.interval * m.shells + s));
            const double t = p.t;
            value = quintic(a.c, t);
            slope = d.over * p.inverse_h * (a.c[1] + t * (2.0 * a.c[2] + t * (3.0 * a.c[3] + t * (4.0 * a.c[4] + t * 5.0 * a.c[5]))));
            bend = p.inverse_h * p.inverse_h * (2.0 * a.c[2] + t * (6.0 * a.c[3] + t * (12.0 * a.c[4] + t * 20.0 * a.c[5]))) +
                   2 * (l + 1) * slope;
        }
        harmonics(l, dx, dy, dz, Emitted{out, B, value, bend, slope * dx, slope * dy, slope * dz});
    }
    meet();
    const real* C = m.coefficients + (int64)spin * B * M;
#if PARTIAL > 0
    // a lane adds some atomic orbitals up for all rows, which the group then adds up
    real sums[5 * ORBITALS];
#pragma unroll
    for (int i = 0; i < 5 * ORBITALS; ++i) sums[i] = 0;
    for (int b = lane_of(); b < B; b += LANES) {
        real c[ORBITALS];
#pragma unroll
        for (int o = 0; o < ORBITALS; ++o) c[o] = C[b * ORBITALS + o];
#pragma unroll
        for (int k = 0; k < 5; ++k) {
            const real a = own.ao[k * B + b];
#pragma unroll
            for (int o = 0; o < ORBITALS; ++o) sums[k * ORBITALS + o] = fma(a, c[o], sums[k * ORBITALS + o]);
        }
    }
    meet();
#pragma unroll
    for (int i = 0; i < 5 * ORBITALS; ++i) own.ao[lane_of() * (5 * ORBITALS + 1) + i] = sums[i];
    meet();
    for (int i = lane_of(); i < 5 * ORBITALS; i += LANES) {
        real total[2] = {0, 0};
#pragma unroll
        for (int k = 0; k < LANES; ++k) total[k % 2] += own.ao[k * (5 * ORBITALS + 1) + i];
        own.rows[i] = total[0] + total[1];
    }
#else
    for (int i = lane_of(); i < 5 * M; i += LANES) {
        const int k = i / M, o = i % M;
        real sums[4] = {0, 0, 0, 0};  // which do not wait for each other
        int b = 0;
        for (; b + 4 <= B; b += 4)
            for (int j = 0; j < 4; ++j) sums[j] = fma(own.ao[k * B + b + j], C[(b + j) * M + o], sums[j]);
        for (; b < B; ++b) sums[0] = fma(own.ao[k * B + b], C[b * M + o], sums[0]);
        own.rows[i] = (sums[0] + sums[1]) + (sums[2] + sums[3]);
    }
#endif
    meet();
}

// Sum of a row with a column; every lane holds the result.  Short ones are added by each lane for itself.
QSIM_DEVICE double product(const real* row, const amplitude* column, int n) {
#if KEEP
    double total = 0;
    for (int o = 0; o < n; ++o) total = fma((double)row[o], (double)column[o], total);
    return total;
#else
    double total = 0;
    for (int o = lane_of(); o < n; o += LANES) total += (double)row[o] * column[o];
    return all_of(total);
#endif
}

// 2 / (1 + sqrt(1 + 2 x)) as `limited`
QSIM_DEVICE double quickly_limited(double vx, double vy, double vz, double tau) {
    const double y = fmin(1 + 2 * (tau * (vx * vx + vy * vy + vz * vz)), 1e280);
    return 2 * quick_reciprocal(1 + y * quick_rsqrt(y));
}

#ifndef EXPANSION
// Sherman and Morrison: row i becomes own.rows, if a group keeps its move.
QSIM_DEVICE void change_inverse(real* inverse, const Own& own, int i, int n, int M, double over_ratio, bool kept) {
    meet();
    for (int o = lane_of(); o < n; o += LANES) own.column[o] = inverse[i * M + o] * (real)over_ratio;
    meet();
    if (kept)
        for (int k = lane_of(); k < n; k += LANES) {
            if (k == i) continue;
            real* other = inverse + k * M;
            real dot = 0;
            for (int o = 0; o < n; ++o) dot += own.rows[o] * other[o];
            for (int o = 0; o < n; ++o) other[o] -= dot * own.column[o];
        }
    meet();
    if (kept)
        for (int o = lane_of(); o < n; o += LANES) inverse[i * M + o] = own.column[o];
}
#endif

#define FAR 2.0   // as in system_cpu.py
#define SOFT 1.0
#define NOWHERE 1e300  // bohr: there is no ion

// `move_scale` of system_cpu.py; every lane holds the result.
QSIM_DEVICE double move_scale(const Model& m, double x, double y, double z) {
    double least = NOWHERE;
    for (int a = lane_of(); a < m.atoms; a += LANES) {
        if (m.charge[a] <= 0) continue;
        const double dx = x - m.atom[3 * a], dy = y - m.atom[3 * a + 1], dz = z - m.atom[3 * a + 2];
        least = fmin(least, sqrt(dx * dx + dy * dy + dz * dz) + (m.potential[a] >= 0 ? SOFT : 1 / m.charge[a]));
    }
#if LANES > 1
    for (int k = LANES / 2; k > 0; k /= 2) least = fmin(least, __shfl_xor_sync(QSIM_ALL_LANES, least, k));
#endif
    return least < NOWHERE ? least / (least + FAR) : 1.0;
}

// What a kernel begins with: shared memory, and the number of this group's walker, which may be beyond the last one.
#define ENTER                                                                     \
    extern __shared__ double2 shared[];                                           \
    const int64 w = WALKER;                                                       \
    double* const local = (double*)shared;

// Moves of the walkers of a warp; `first` counts the random numbers of the first walker of all in the first sweep.
QSIM_DEVICE void move(Model& m, const State& s, int64 place, double* shared, double tau, int mode, int sweeps, const Draw& first) {
    set_sizes(m);
    const Common common = common_of(m, shared);
    fill(m, common);
    const int64 w = place < s.walkers ? place : s.walkers - 1;
    const bool there = place < s.walkers;  // lanes of a warp beyond the last walker follow it, and leave no trace
    if (place - GROUP % (32 / LANES) >= s.walkers) return;
    const Own own = own_of(m, shared);
    const int N = (int)m.electrons, M = (int)m.orbitals, F = (int)m.filled, lane = lane_of();
    for (int i = lane; i < 3 * N; i += LANES) own.R[i] = s.R[w * N * 3 + i];
    real* inverses = s.inverse + w * 2 * F * F;
    if (KEEP) {
        for (int i = lane; i < 2 * F * F; i += LANES) own.inverse[i] = inverses[i];
        inverses = own.inverse;
    }
#ifdef EXPANSION
    Slater all = slater_of(m, s, w);
#endif
    const int kind = mode % SCALED;
    const bool scaled = mode >= SCALED;
    double variance = tau / m.mass, over_variance = 1 / variance;
    const double width = sqrt(variance);
    double log_psi = 0, sign = 1, all_moved = 0, proposed = 0, accepted = 0;
    int64 age = s.age[w];
    for (int k = 0; k < sweeps; ++k) {
        int moved = 0;
        meet();
        draw_numbers(N, {first.key, first.stream, first.step + k, first.walker + (uint32)w}, width, own.numbers);
        meet();
        for (int e = 0; e < N; ++e) {
            const Electron at = electron(m, e);
            real* inverse = inverses + at.spin * F * F;
            const int count = orbitals_of(m, at);
#ifdef EXPANSION
            if (there) {
                if (at.i == 0) begin_spin(m, all, at.spin);
                form_column(m, all, at, e, inverse);
            }
            meet();
            const amplitude* column = all.columns + e * M;
#else
            const amplitude* column = inverse + at.i * F;
#endif
            const double x = own.R[3 * e], y = own.R[3 * e + 1], z = own.R[3 * e + 2];
            double scale = 1;
            if (scaled) {
                scale = move_scale(m, x, y, z);
                variance = tau * scale * scale / m.mass, over_variance = 1 / variance;
            }
            const double sx = scale * own.numbers[4 * e], sy = scale * own.numbers[4 * e + 1], sz = scale * own.numbers[4 * e + 2];
            Gradient old = part_of_gradient(m, common.curves, own.R, e, x, y, z);
            double vx = 0, vy = 0, vz = 0;
            if (kind != PLAIN) {
                const real* row = s.rows + (w * N + e) * 5 * M;
                vx = product(row + M, column, count) - all_of(old.x);
                vy = product(row + 2 * M, column, count) - all_of(old.y);
                vz = product(row + 3 * M, column, count) - all_of(old.z);
                const double f = variance * quickly_limited(vx, vy, vz, variance);
                vx *= f, vy *= f, vz *= f;
            }
            const double nx = x + vx + sx, ny = y + vy + sy, nz = z + vz + sz;
            const double square = (nx - x) * (nx - x) + (ny - y) * (ny - y) + (nz - z) * (nz - z);
            proposed += square;
            all_rows(m, common, at.spin, nx, ny, nz, own);
            const Gradient now = part_of_gradient(m, common.curves, own.R, e, nx, ny, nz);
            const double ratio = product(own.rows, column, count), size = fabs(ratio), over_ratio = 1 / ratio;
            const double change = log(size) + all_of(old.u - now.u);
            double exponent = 2 * change;
            if (mode != PLAIN) {
                double narrowed = 1;  // the width of the move over that of the one back, squared
                if (scaled) {
                    narrowed = scale / move_scale(m, nx, ny, nz);
                    narrowed *= narrowed;
                    exponent += 1.5 * log(narrowed);
                }
                double wx = 0, wy = 0, wz = 0, f = 0;
                if (kind != PLAIN) {
                    wx = product(own.rows + M, column, count) * over_ratio - all_of(now.x);
                    wy = product(own.rows + 2 * M, column, count) * over_ratio - all_of(now.y);
                    wz = product(own.rows + 3 * M, column, count) * over_ratio - all_of(now.z);
                    const double back = variance / narrowed;
                    f = back * quickly_limited(wx, wy, wz, back);
                }
                const double bx = x - nx - f * wx, by = y - ny - f * wy, bz = z - nz - f * wz;
                exponent += 0.5 * ((sx * sx + sy * sy + sz * sz) - (bx * bx + by * by + bz * bz) * narrowed) * over_variance;
            }
            const bool possible = size > 1e-300 && !(kind == FIXED_NODE && ratio <= 0);
            const bool kept = possible && (!(exponent < 0) || own.numbers[4 * e + 3] < exponent);
#ifndef EXPANSION
            change_inverse(inverse, own, at.i, at.n, F, over_ratio, kept);
#endif
            if (kept) {
                if (there) {
                    real* target = s.rows + (w * N + e) * 5 * M;
                    for (int i = lane; i < 5 * M; i += LANES) target[i] = own.rows[i];
                }
                if (lane == 0) own.R[3 * e] = nx, own.R[3 * e + 1] = ny, own.R[3 * e + 2] = nz;
                log_psi += change;
                if (ratio < 0) sign = -sign;
                accepted += square;
                ++moved;
#ifdef EXPANSION
                if (there) accept(m, s, all, w, at, own.rows, inverse, own.column);
#endif
            }
            meet();
        }
        all_moved += moved;
        age = moved ? 0 : age + 1;
    }
    if (!there) return;
    for (int i = lane; i < 3 * N; i += LANES) s.R[w * N * 3 + i] = own.R[i];
    if (KEEP)
        for (int i = lane; i < 2 * F * F; i += LANES) s.inverse[w * 2 * F * F + i] = own.inverse[i];
    if (lane == 0) {
        s.log_psi[w] += log_psi;
        s.sign[w] *= sign;
        s.moves[4 * w] += all_moved;
        s.moves[4 * w + 1] += proposed;
        s.moves[4 * w + 2] += accepted;
        s.age[w] = age;
    }
}

#endif
