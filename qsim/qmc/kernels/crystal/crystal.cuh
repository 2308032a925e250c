// Crystals at a point: nearest images, Jastrow functions, Bloch orbitals; device twins of system_cpu.py and bloch_cpu.py.
//
// A group of LANES lanes of a warp carries a walker and makes everything here together: orbitals by a lane for each channel, so that the
// loads of a coefficient of all orbitals are one piece of memory; sums over electrons and ions by a lane for each of them.

#ifndef QSIM_QMC_CRYSTAL_CUH
#define QSIM_QMC_CRYSTAL_CUH
#include "../common/functions.cuh"
#include "../common/walkers.cuh"

#ifndef COMPLEX
#define COMPLEX 0  // determinants are complex
#endif
#ifndef VEC
#define VEC 1  // channels of a load, a divisor of their number
#endif
#ifndef SPLIT
#define SPLIT 1  // lanes that share the lines of coefficients of the same channels, a power of two up to 16
#endif
#ifndef LINES
#define LINES 2  // of such lines whose loads are under way together
#endif

// Trial function and Hamiltonian; field for field the dtype `CRYSTAL` of launch.py, arrays as in types.py.
struct Crystal {
    const double* atom;      // (A, 3)
    const double* near;      // (n, 3)
    const real* table;       // (S, n0 + 3, n1 + 3, n2 + 3, C)
    const int64* channel;    // (S, P)
    const int64* parts;      // (S, P)
    const double* kappa;     // (S, P, 3)
    const int64* kind;       // (F,)
    const double* spline;    // (F, width)
    const double* inverse_h;
    const double* rcut;
    const double* pade;      // (F, 2)
    const int64* species;    // (A,)
    const double* charge;    // (A,)
    const int64* potential;  // (A,)
    const double* local;     // (V, K, 6)
    const double* reach;     // (V,)
    const double* delta;     // (V, L, K, 6)
    const int64* channels;   // (V,)
    const double* cutoff;    // (V,)
    const double* points;    // (Q, 3)
    const double* weights;   // (Q,)
    const double* images;    // (I, 3)
    const double* pair;      // (K, 6)
    const int64* waves;      // (n, 3)
    const double* weight;    // (n,)
    const double* ions;      // (n, 2)
    const int64* owner;      // (S, C): function of a channel, -1 where there is none
    const double* tin_centre;  // (I, 3)
    const double* tin_near;    // (n, 3)
    const real* tin_table;     // (S, I, K, L, 3, C)
    double reduced[9], unreduce[9], primitive[9], metric[9], inverse[9], tin_reduced[9], tin_unreduce[9];
    float scaled[10];        // reduced basis over 2^32
    double radius2, mass, pair_reach, repulsion, attraction, ion_ion, tin_inner, tin_outer;
    int64 is_wave, has_phase, atoms, nears, spins, mesh0, mesh1, mesh2, all_channels, functions, orbitals, electrons, n_up, width;
    int64 pseudos, most_channels, quadrature, image_count, intervals, wave_count, most_wave, slots, curves;
    int64 tins, tin_nears, tin_lmax, tin_knots;
};

// ------------------------------------------------------------------------------------------------- lanes

// The lanes of this walker that say yes, its first lane in the lowest bit.
QSIM_DEVICE unsigned group_votes(bool yes) {
    return __ballot_sync(group(), yes) >> (threadIdx.x % 32 / LANES * LANES) & (LANES == 32 ? QSIM_ALL_LANES : (1u << (LANES % 32)) - 1);
}

QSIM_DEVICE float group_total(float x) {
#pragma unroll
    for (int k = LANES / 2; k > 0; k /= 2) x += __shfl_xor_sync(group(), x, k, LANES);
    return x;
}
template <typename T> QSIM_DEVICE complex_of<T> group_total(complex_of<T> x) { return {group_total(x.re), group_total(x.im)}; }

QSIM_DEVICE double group_largest(double x) {
#pragma unroll
    for (int k = LANES / 2; k > 0; k /= 2) x = fmax(x, __shfl_xor_sync(group(), x, k, LANES));
    return x;
}

// Sums of COUNT numbers over WIDTH lanes, powers of two: half of the numbers go to half of the lanes, and so on; every lane gets all sums.
template <int COUNT, int WIDTH = LANES> QSIM_DEVICE void group_totals(real* x) {
    if constexpr (COUNT > WIDTH) {
#pragma unroll
        for (int i = 0; i < COUNT; ++i)
#pragma unroll
            for (int half = WIDTH / 2; half > 0; half /= 2) x[i] += __shfl_xor_sync(group(), x[i], half, LANES);
    } else {
#pragma unroll
        for (int kept = COUNT / 2; kept > 0; kept /= 2) {
            const int half = WIDTH / COUNT * kept;
            const bool upper = lane_of() & half;
#pragma unroll
            for (int i = 0; i < kept; ++i) {
                const real sent = upper ? x[i] : x[i + kept];
                x[i] = (upper ? x[i + kept] : x[i]) + __shfl_xor_sync(group(), sent, half, LANES);
            }
        }
#pragma unroll
        for (int half = WIDTH / COUNT / 2; half > 0; half /= 2) x[0] += __shfl_xor_sync(group(), x[0], half, LANES);
        const real own = x[0];
#pragma unroll
        for (int i = 0; i < COUNT; ++i) x[i] = __shfl_sync(group(), own, i * (WIDTH / COUNT), WIDTH);
    }
}

// Sums of COUNT numbers over 2 HALF lanes into emit(number, sum): half of the numbers go to half of the lanes, and so on.
template <int COUNT, int HALF, typename Emit> QSIM_DEVICE void spread_totals(real* x, int at, int count, Emit emit) {
    if constexpr (HALF == 0) {
#pragma unroll
        for (int i = 0; i < COUNT; ++i)
            if (i < count) emit(at + i, x[i]);
    } else if constexpr (COUNT == 1) {
        x[0] += __shfl_xor_sync(group(), x[0], HALF, LANES);
        spread_totals<1, HALF / 2>(x, at, count, emit);
    } else {
        constexpr int KEPT = (COUNT + 1) / 2;
        const bool upper = lane_of() & HALF;
#pragma unroll
        for (int i = 0; i < KEPT; ++i) {
            const real low = x[i], high = i + KEPT < COUNT ? x[i + KEPT < COUNT ? i + KEPT : i] : (real)0;
            const real kept = upper ? high : low;
            x[i] = kept + __shfl_xor_sync(group(), upper ? low : high, HALF, LANES);
        }
        spread_totals<KEPT, HALF / 2>(x, at + (upper ? KEPT : 0), upper ? count - KEPT : min(count, KEPT), emit);
    }
}

// Elements of determinants, and what double precision makes of them.
QSIM_DEVICE double reciprocal(double x) { return 1 / x; }
QSIM_DEVICE float reciprocal(float x) { return 1 / x; }
#if COMPLEX
typedef cplx elem;
typedef complex_of<double> wide;
QSIM_DEVICE wide widened(elem a) { return {(double)a.re, (double)a.im}; }
QSIM_DEVICE elem narrowed(wide a) { return {(real)a.re, (real)a.im}; }
template <typename T> QSIM_DEVICE T real_part(complex_of<T> a) { return a.re; }
template <typename T> QSIM_DEVICE T modulus(complex_of<T> a) { return sqrt(abs2(a)); }
QSIM_DEVICE real real_product(elem a, elem b) { return a.re * b.re - a.im * b.im; }
QSIM_DEVICE wide one() { return {1, 0}; }
#else
typedef real elem;
typedef double wide;
QSIM_DEVICE wide widened(elem a) { return a; }
QSIM_DEVICE elem narrowed(wide a) { return (real)a; }
template <typename T> QSIM_DEVICE T real_part(T a) { return a; }
template <typename T> QSIM_DEVICE T modulus(T a) { return fabs(a); }
QSIM_DEVICE real real_product(elem a, elem b) { return a * b; }
QSIM_DEVICE wide one() { return 1; }
#endif

// ------------------------------------------------------------------------------------------------ images

// Coordinates in the reduced basis within -1/2 ... 1/2.
QSIM_DEVICE void fold(const Crystal& m, double& x, double& y, double& z) {
    const double *U = m.unreduce, *A = m.reduced;
    const double a = floor(x * U[0] + y * U[3] + z * U[6] + 0.5);
    const double b = floor(x * U[1] + y * U[4] + z * U[7] + 0.5);
    const double c = floor(x * U[2] + y * U[5] + z * U[8] + 0.5);
    x -= a * A[0] + b * A[3] + c * A[6];
    y -= a * A[1] + b * A[4] + c * A[7];
    z -= a * A[2] + b * A[5] + c * A[8];
}

// Shortest image of a folded vector; returns its length, exact below the Wigner-Seitz radius.
QSIM_DEVICE double nearest_of_folded(const Crystal& m, double& x, double& y, double& z) {
    double square = x * x + y * y + z * z;
    if (square > m.radius2) {
        const double fx = x, fy = y, fz = z;
        for (int k = 1; k < m.nears; ++k) {
            const double a = fx + m.near[3 * k], b = fy + m.near[3 * k + 1], c = fz + m.near[3 * k + 2];
            const double other = a * a + b * b + c * c;
            if (other < square) x = a, y = b, z = c, square = other;
        }
    }
    return fmax(sqrt(square), TINY);
}

QSIM_DEVICE double nearest(const Crystal& m, double& x, double& y, double& z) {
    fold(m, x, y, z);
    return nearest_of_folded(m, x, y, z);
}

// ----------------------------------------------------------------------------------------------- Jastrow

// Function of an electron of a spin and particle j: an electron, or after all of them an ion.
QSIM_DEVICE int function_of(const Crystal& m, bool up, int j) {
    const int N = (int)m.electrons;
    if (j >= N) return 2 + (int)m.species[j - N];
    return (j < m.n_up) == up ? 0 : 1;
}

QSIM_DEVICE const double* particle(const Crystal& m, const double* R, int j) {
    return j < m.electrons ? R + 3 * j : m.atom + 3 * (j - m.electrons);
}

// Sum of all functions of electron e if it were at (x, y, z), and its gradient: every lane holds the result.
QSIM_DEVICE Gradient electron_gradient(const Crystal& m, const double* R, int e, double x, double y, double z) {
    CLOCK(JASTROW);
    Gradient g = {0, 0, 0, 0};
    const int all = (int)(m.electrons + m.atoms);
    for (int j = lane_of(); j < all; j += LANES) {
        const int f = function_of(m, e < m.n_up, j);
        if (j == e || !m.kind[f]) continue;
        const double* other = particle(m, R, j);
        double dx = x - other[0], dy = y - other[1], dz = z - other[2];
        const double r = nearest(m, dx, dy, dz);
        const Curve c = function(m, f, r);
        const double slope = c.du / r;
        g.u += c.u, g.x += slope * dx, g.y += slope * dy, g.z += slope * dz;
    }
    return {group_total(g.u), group_total(g.x), group_total(g.y), group_total(g.z)};
}

// ----------------------------------------------------------------------------------------------- orbitals

// Where a point lies in the splines of a spin.
struct Spline {
    int64 first;     // coefficient of the first channel
    double cell[3];  // numbers of the primitive cell
    real t[3];       // place between two points of the mesh
};

QSIM_DEVICE Spline spline_of(const Crystal& m, int spin, double x, double y, double z) {
    const int mesh[3] = {(int)m.mesh0, (int)m.mesh1, (int)m.mesh2};
    Spline spot;
    int64 at = spin < m.spins ? spin : m.spins - 1;
#pragma unroll
    for (int d = 0; d < 3; ++d) {
        const double u = x * m.primitive[d] + y * m.primitive[3 + d] + z * m.primitive[6 + d];
        spot.cell[d] = floor(u);
        const double p = (u - spot.cell[d]) * mesh[d];
        const int i = min((int)p, mesh[d] - 1);
        spot.t[d] = (real)(p - i);
        at = at * (mesh[d] + 3) + i;
    }
    spot.first = at * m.all_channels;
    return spot;
}

// Weights of four coefficients and of their derivatives, as bloch_cpu.spline_weights.
QSIM_DEVICE void value_weights(real t, real* w) {
    const real s = 1 - t, sixth = (real)(1.0 / 6.0);
    w[0] = s * s * s * sixth, w[3] = t * t * t * sixth;
    w[1] = (4 + t * t * (3 * t - 6)) * sixth, w[2] = (4 + s * s * (3 * s - 6)) * sixth;
}
QSIM_DEVICE void slope_weights(real t, real n, real* w) {
    const real s = 1 - t, h = n * (real)0.5;
    w[0] = -h * s * s, w[3] = h * t * t;
    w[1] = h * t * (3 * t - 4), w[2] = -h * s * (3 * s - 4);
}
QSIM_DEVICE void bend_weights(real t, real n, real* w) {
    const real s = 1 - t, h = n * n;
    w[0] = h * s, w[3] = h * t;
    w[1] = h * (3 * t - 2), w[2] = h * (3 * s - 2);
}

// Cosine and sine of 2 pi x.
QSIM_DEVICE void circle(double x, float& cosine, float& sine) { sincospif(2 * (float)(x - rint(x)), &sine, &cosine); }
QSIM_DEVICE void circle(double x, double& cosine, double& sine) { sincospi(2 * x, &sine, &cosine); }

// Cosine and sine of the phase of a function in a primitive cell.
template <typename Number> QSIM_DEVICE void phase_of(const Crystal& m, int64 function, const Number* cell, real& cosine, real& sine) {
    const double* k = m.kappa + 3 * function;
    circle(k[0] * cell[0] + k[1] * cell[1] + k[2] * cell[2], cosine, sine);
}

// Multiply rows of splines (5, C) by the phases of a primitive cell.
template <typename Number> QSIM_DEVICE void turn_rows(const Crystal& m, int spin, const Number* cell, real* sums) {
    const int C = (int)m.all_channels;
    if (!m.has_phase) return;
    join();
    const int64 offset = (spin < m.spins ? spin : m.spins - 1) * m.functions;
    for (int p = lane_of(); p < m.functions; p += LANES) {
        const int64 parts = m.parts[offset + p];
        if (parts == 0) continue;
        real* at = sums + m.channel[offset + p];
        real cosine, sine;
        phase_of(m, offset + p, cell, cosine, sine);
        for (int k = 0; k < 5; ++k, at += C) {
            const real a = at[0];
            if (parts == 1) {
                at[0] = a * cosine;
            } else {
                const real b = at[1];
                at[0] = a * cosine - b * sine, at[1] = a * sine + b * cosine;
            }
        }
    }
}

struct __align__(VEC * sizeof(real)) Channels {
    real x[VEC];
};

// Rows (5, C) of splines, and work space behind them.
QSIM_DEVICE void spline_rows(const Crystal& m, int spin, double x, double y, double z, real* sums) {
    const int C = (int)m.all_channels;
    const int64 line = (m.mesh2 + 3) * C, plane = (m.mesh1 + 3) * line;
    const Spline spot = spline_of(m, spin, x, y, z);
    const real m00 = (real)m.metric[0], m11 = (real)m.metric[4], m22 = (real)m.metric[8];
    const real m01 = (real)(2 * m.metric[1]), m02 = (real)(2 * m.metric[2]), m12 = (real)(2 * m.metric[5]);
    real* weights = sums + 5 * C;  // (3, 3, 4) by derivative and axis
    for (int k = lane_of(); k < 9; k += LANES) {
        const int axis = k % 3;
        const real t = axis == 0 ? spot.t[0] : axis == 1 ? spot.t[1] : spot.t[2];
        const real n = (real)(axis == 0 ? m.mesh0 : axis == 1 ? m.mesh1 : m.mesh2);
        real w[4];
        if (k < 3)
            value_weights(t, w);
        else if (k < 6)
            slope_weights(t, n, w);
        else
            bend_weights(t, n, w);
#pragma unroll
        for (int i = 0; i < 4; ++i) weights[4 * k + i] = w[i];
    }
    join();
    const real *w0 = weights, *w1 = weights + 4, *w2 = weights + 8, *d0 = weights + 12, *d1 = weights + 16, *d2 = weights + 20;
    const real *h0 = weights + 24, *h1 = weights + 28, *h2 = weights + 32;
    const int own = lane_of() % SPLIT;
    for (int first = 0; first < C; first += LANES / SPLIT * VEC) {
        const int c = first + lane_of() / SPLIT * VEC;
        const bool inside = c < C;
        const real* table = m.table + spot.first + (inside ? c : 0);
        real rows[5 * VEC] = {};  // of these lines; gradients along the axes of the mesh
#pragma unroll (LINES)
        for (int k = 0; k < 16 / SPLIT; ++k) {
            const int a = (own + k * SPLIT) / 4, b = (own + k * SPLIT) % 4;
            const real* q = table + a * plane + b * line;
            Channels coefficients[4];
#pragma unroll
            for (int d = 0; d < 4; ++d) coefficients[d] = *(const Channels*)(q + d * C);
            const real value = w0[a] * w1[b], dx = d0[a] * w1[b], dy = w0[a] * d1[b];
            const real bend = m00 * h0[a] * w1[b] + m11 * w0[a] * h1[b] + m01 * d0[a] * d1[b], mixed = m02 * dx + m12 * dy;
#pragma unroll
            for (int v = 0; v < VEC; ++v) {
                real along = 0, slope = 0, second = 0;
#pragma unroll
                for (int d = 0; d < 4; ++d) {
                    const real x = coefficients[d].x[v];
                    along += w2[d] * x, slope += d2[d] * x, second += h2[d] * x;
                }
                rows[v] += value * along, rows[VEC + v] += dx * along, rows[2 * VEC + v] += dy * along;
                rows[3 * VEC + v] += value * slope;
                rows[4 * VEC + v] += bend * along + mixed * slope + m22 * value * second;
            }
        }
#pragma unroll
        for (int v = 0; v < VEC; ++v) {
            const real x = rows[VEC + v], y = rows[2 * VEC + v], z = rows[3 * VEC + v];
#pragma unroll
            for (int j = 0; j < 3; ++j)
                rows[(1 + j) * VEC + v] = (real)m.primitive[3 * j] * x + (real)m.primitive[3 * j + 1] * y + (real)m.primitive[3 * j + 2] * z;
        }
        spread_totals<5 * VEC, SPLIT / 2>(rows, 0, 5 * VEC, [&](int k, real total) {
            if (inside) sums[k / VEC * C + c + k % VEC] = total;
        });
    }
    turn_rows(m, spin, spot.cell, sums);
}

QSIM_DEVICE void wave_rows(const Crystal& m, double x, double y, double z, real* sums) {
    const int C = (int)m.all_channels;
    for (int p = lane_of(); p < m.functions; p += LANES) {
        const double* k = m.kappa + 3 * p;
        real* at = sums + m.channel[p];
        if (m.parts[p] == 1) {
            for (int j = 0; j < 5; ++j) at[j * C] = j == 0;
            continue;
        }
        const double square = k[0] * k[0] + k[1] * k[1] + k[2] * k[2];
        double c, s;
        sincos(k[0] * x + k[1] * y + k[2] * z, &s, &c);
        at[0] = (real)c, at[1] = (real)s;
        for (int j = 0; j < 3; ++j) at[(1 + j) * C] = (real)(-k[j] * s), at[(1 + j) * C + 1] = (real)(k[j] * c);
        at[4 * C] = (real)(-square * c), at[4 * C + 1] = (real)(-square * s);
    }
}

#endif
