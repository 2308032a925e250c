// Distances and Jastrow functions in the working precision, and what a walker and its block keep in shared memory.
//
// In single precision a place is three fractions of the reduced basis, whole numbers of 2^-32: their differences fold themselves, exactly,
// where differences of positions far from the origin would lose digits.  Splines of the Jastrow factor are kept by interval as
// polynomials.  Lattice vectors that can shorten a folded vector come with their negatives, so that half of them are tried.

#ifndef QSIM_QMC_CRYSTAL_PAIRS_CUH
#define QSIM_QMC_CRYSTAL_PAIRS_CUH
#include "muffin_tins.cuh"

#ifndef NEAR_PAIRS
#define NEAR_PAIRS 0  // pairs of such lattice vectors
#endif
template <bool yes, typename A, typename B> struct choice { typedef A type; };
template <typename A, typename B> struct choice<false, A, B> { typedef B type; };
constexpr bool SINGLE = sizeof(real) == 4;
constexpr int BATCH = SINGLE ? 12 : 6;  // points of a spherical rule that are taken together, as in walk.py

struct Fractions {
    uint32 a, b, c;
};
struct Position {
    double a, b, c;
};
typedef choice<SINGLE, Fractions, Position>::type Site;

struct __align__(16) Quad {
    real a, b, c, d;
};

// A point of a spherical rule.
struct __align__(16) Spot {
    real w[3][4];  // weights of the spline's coefficients along each axis
    Site site;
    int cell[3];   // numbers of the primitive cell
    int64 first;   // coefficient of the first channel
    real ratio;    // of the determinants
    real jastrow;  // sum of the functions
#if TINS
    Tin tin;
#endif
};
static_assert(sizeof(Spot) == (SINGLE ? 96 : 160) + TINS * 48, "SPOT and TIN of walk.py");

// What the lanes of a walker have in shared memory, and what they have there with their block.
struct Local {
    real* rows;    // (5, C), and work space of a mixed basis
    elem* column;  // (M,)
    Spot* spots;   // (BATCH,)
    Site* own;    // (N,) in single precision
    const Site *electrons, *ions;
    const Quad* curves;  // (F, width - 2): factor of the distance or a, b, kind; then polynomials, of which the last is zero
    const Quad* near;    // (NEAR_PAIRS,): twice a lattice vector, its square
    const int* functions;  // (A,): of ions
    int first, last;       // particles that have a function with an electron
};

QSIM_DEVICE void site_of(const Crystal& m, double x, double y, double z, Fractions& p) {
    const double* U = m.unreduce;
    const double a = x * U[0] + y * U[3] + z * U[6], b = x * U[1] + y * U[4] + z * U[7], c = x * U[2] + y * U[5] + z * U[8];
    p.a = (uint32)(uint64)((a - floor(a)) * 0x1p32);
    p.b = (uint32)(uint64)((b - floor(b)) * 0x1p32);
    p.c = (uint32)(uint64)((c - floor(c)) * 0x1p32);
}
QSIM_DEVICE void site_of(const Crystal&, double x, double y, double z, Position& p) { p = {x, y, z}; }

// Folded vector from q to p.
QSIM_DEVICE void apart(const Crystal& m, const Fractions& p, const Fractions& q, float& x, float& y, float& z) {
    const float a = (float)(int)(p.a - q.a), b = (float)(int)(p.b - q.b), c = (float)(int)(p.c - q.c);
    x = a * m.scaled[0] + b * m.scaled[3] + c * m.scaled[6];
    y = a * m.scaled[1] + b * m.scaled[4] + c * m.scaled[7];
    z = a * m.scaled[2] + b * m.scaled[5] + c * m.scaled[8];
}
QSIM_DEVICE void apart(const Crystal& m, const Position& p, const Position& q, double& x, double& y, double& z) {
    x = p.a - q.a, y = p.b - q.b, z = p.c - q.c;
    fold(m, x, y, z);
}

// Square of the shortest image of a folded vector; exact below the Wigner-Seitz radius.
QSIM_DEVICE real nearest_square(const Local& local, real x, real y, real z) {
    real change = 0;
#pragma unroll
    for (int k = 0; k < NEAR_PAIRS; ++k) {
        const Quad n = local.near[k];
        const real dot = n.a * x + n.b * y + n.c * z;
        change = dot < 0 ? min(change, n.d + dot) : min(change, n.d - dot);
    }
    return x * x + y * y + z * z + change;
}

// The same, with that image in place of the vector.
QSIM_DEVICE real nearest_image(const Local& local, real& x, real& y, real& z) {
    real change = 0, factor = 0;
    int best = 0;
#pragma unroll
    for (int k = 0; k < NEAR_PAIRS; ++k) {
        const Quad n = local.near[k];
        const real dot = n.a * x + n.b * y + n.c * z, other = dot < 0 ? n.d + dot : n.d - dot;
        if (other < change) change = other, best = k, factor = dot < 0 ? (real)0.5 : (real)-0.5;
    }
    if (NEAR_PAIRS && factor != 0) {
        const Quad n = local.near[best];
        x += factor * n.a, y += factor * n.b, z += factor * n.c;
    }
    return x * x + y * y + z * z;
}

// Length and its inverse from the square.
QSIM_DEVICE void lengths(float square, float& r, float& over) {
    square = fmaxf(square, (float)(TINY * TINY));
    over = rsqrtf(square), r = square * over;
}
QSIM_DEVICE void lengths(double square, double& r, double& over) { r = fmax(sqrt(square), TINY), over = 1 / r; }

QSIM_DEVICE int curve_stride(const Crystal& m) { return (int)m.width - 2; }

struct Slope {
    real u, du;
};

// A function of another form than a spline.
QSIM_DEVICE Slope formula(const Quad& head, real r) {
    const real q = 1 / (1 + (head.c == PADE ? head.b : head.a) * r);
    if (head.c == PADE) return {-head.a * r * q, -head.a * q * q};
    return {(real)-log(1 + head.a * r), -head.a * q};
}

QSIM_DEVICE real spline_value(const Quad* curve, real scale, int last, real r) {
    const real x = r * scale;
    const int i = min((int)x, last);
    const Quad p = curve[1 + i];
    const real t = x - i;
    return p.a + t * (p.b + t * (p.c + t * p.d));
}

QSIM_DEVICE Slope spline_slope(const Quad* curve, real scale, int last, real r) {
    const real x = r * scale;
    const int i = min((int)x, last);
    const Quad p = curve[1 + i];
    const real t = x - i;
    return {p.a + t * (p.b + t * (p.c + t * p.d)), scale * (p.b + t * (2 * p.c + 3 * t * p.d))};
}

struct Bend {
    real du, ddu;
};

// Two derivatives of a function.
QSIM_DEVICE Bend bend(const Quad* curve, int last, real r) {
    const Quad head = curve[0];
    if (head.c > BSPLINE) {
        const Slope c = formula(head, r);
        const real a = head.c == PADE ? head.b : head.a, q = 1 / (1 + a * r);
        return {c.du, head.c == PADE ? -2 * a * q * c.du : -a * q * c.du};
    }
    const real x = r * head.a;
    const int i = min((int)x, last);
    const Quad p = curve[1 + i];
    const real t = x - i;
    return {head.a * (p.b + t * (2 * p.c + 3 * t * p.d)), head.a * head.a * (2 * p.c + 6 * t * p.d)};
}

QSIM_DEVICE int function_number(const Crystal& m, const Local& local, bool up, int j) {
    const int N = (int)m.electrons;
    return j >= N ? local.functions[j - N] : (j < (int)m.n_up) == up ? 0 : 1;
}

QSIM_DEVICE const Site& site(const Crystal& m, const Local& local, int j) {
    const int N = (int)m.electrons;
    return j < N ? local.electrons[j] : local.ions[j - N];
}

// Sums of all functions of electron e if it were at the places of COUNT spots: the parts of this lane.
template <int COUNT> QSIM_DEVICE void electron_values(const Crystal& m, const Local& local, int e, real* sums) {
    CLOCK(JASTROW);
    const int stride = curve_stride(m), last = stride - 2;
#pragma unroll
    for (int q = 0; q < COUNT; ++q) sums[q] = 0;
    for (int j = local.first + lane_of(); j < local.last; j += LANES) {
        if (j == e) continue;
        const Quad* curve = local.curves + function_number(m, local, e < (int)m.n_up, j) * stride;
        const Quad head = curve[0];
        const Site other = site(m, local, j);
        if (head.c > BSPLINE) {
#pragma unroll
            for (int q = 0; q < COUNT; ++q) {
                real x, y, z, r, over;
                apart(m, local.spots[q].site, other, x, y, z);
                lengths(nearest_square(local, x, y, z), r, over);
                sums[q] += formula(head, r).u;
            }
        } else {
#pragma unroll
            for (int q = 0; q < COUNT; ++q) {
                real x, y, z, r, over;
                apart(m, local.spots[q].site, other, x, y, z);
                lengths(nearest_square(local, x, y, z), r, over);
                sums[q] += spline_value(curve, head.a, last, r);
            }
        }
    }
}

// A function of the nearest images of two particles.
QSIM_DEVICE real pair_value(const Crystal& m, const Local& local, const Quad* curve, const Site& at, const Site& other) {
    const Quad head = curve[0];
    real x, y, z, r, over;
    apart(m, at, other, x, y, z);
    lengths(nearest_square(local, x, y, z), r, over);
    return head.c > BSPLINE ? formula(head, r).u : spline_value(curve, head.a, curve_stride(m) - 2, r);
}

// All functions of electron e if it were at a place: the part of this lane.
QSIM_DEVICE real electron_value(const Crystal& m, const Local& local, int e, const Site& at) {
    CLOCK(JASTROW);
    const int stride = curve_stride(m);
    real total = 0;
    for (int j = local.first + lane_of(); j < local.last; j += LANES) {
        if (j == e) continue;
        const Quad* curve = local.curves + function_number(m, local, e < (int)m.n_up, j) * stride;
        total += pair_value(m, local, curve, at, site(m, local, j));
    }
    return total;
}

// The same and its gradient (value, x, y, z): the part of this lane.
QSIM_DEVICE void electron_gradient(const Crystal& m, const Local& local, int e, const Site& at, real* sums) {
    CLOCK(JASTROW);
    const int stride = curve_stride(m), last = stride - 2;
    sums[0] = sums[1] = sums[2] = sums[3] = 0;
    for (int j = local.first + lane_of(); j < local.last; j += LANES) {
        if (j == e) continue;
        const Quad* curve = local.curves + function_number(m, local, e < (int)m.n_up, j) * stride;
        const Quad head = curve[0];
        real x, y, z, r, over;
        apart(m, at, site(m, local, j), x, y, z);
        lengths(nearest_image(local, x, y, z), r, over);
        const Slope c = head.c > BSPLINE ? formula(head, r) : spline_slope(curve, head.a, last, r);
        const real slope = c.du * over;
        sums[0] += c.u, sums[1] += slope * x, sums[2] += slope * y, sums[3] += slope * z;
    }
}

// ------------------------------------------------------------------------------------------ shared memory

QSIM_DEVICE int padded(int bytes) { return (bytes + 15) / 16 * 16; }

// Shared memory of a walker, in bytes; as `_Launch` of walk.py.
QSIM_DEVICE int walker_bytes(const Crystal& m) {
    return padded(row_numbers(m) * (int)sizeof(real)) + padded((int)m.orbitals * (int)sizeof(elem)) +
           BATCH * (int)sizeof(Spot) + (SINGLE ? padded((int)m.electrons * (int)sizeof(Site)) : 0);
}

// Fill what the block has together, and the places of walker w if there is one.  All threads of the block come here.
QSIM_DEVICE Local local_of(const Crystal& m, const State& s, char* shared, int group, int groups, int64 w) {
    const int N = (int)m.electrons, A = (int)m.atoms, F = (int)m.curves, stride = curve_stride(m);
    Local local;
    char* at = shared + group * walker_bytes(m);
    local.rows = (real*)at, at += padded(row_numbers(m) * (int)sizeof(real));
    local.column = (elem*)at, at += padded((int)m.orbitals * (int)sizeof(elem));
    local.spots = (Spot*)at, at += BATCH * sizeof(Spot);
    local.own = (Site*)at;
    at = shared + groups * walker_bytes(m);
    Quad* curves = (Quad*)at;
    Quad* near = curves + F * stride;
    Site* ions = (Site*)(near + NEAR_PAIRS);
    int* functions = (int*)(SINGLE ? ions + A : ions);
    for (int i = threadIdx.x; i < F * stride; i += blockDim.x) {
        const int f = i / stride, k = i % stride - 1;
        const int64 kind = m.kind[f];
        Quad q = {0, 0, 0, 0};
        if (k < 0) {
            q = {(real)(kind > BSPLINE ? m.pade[2 * f] : m.inverse_h[f]), (real)m.pade[2 * f + 1], (real)kind, 0};
        } else if (kind == BSPLINE) {
            const double* c = m.spline + f * m.width + k;
            q = {(real)((c[0] + 4 * c[1] + c[2]) / 6), (real)((c[2] - c[0]) / 2), (real)((c[0] - 2 * c[1] + c[2]) / 2),
                 (real)((c[3] - c[0] + 3 * (c[1] - c[2])) / 6)};
        }
        curves[i] = q;
    }
    for (int k = threadIdx.x; k < NEAR_PAIRS; k += blockDim.x) {
        const double* n = m.near + 3 * (1 + k);
        near[k] = {(real)(2 * n[0]), (real)(2 * n[1]), (real)(2 * n[2]), (real)(n[0] * n[0] + n[1] * n[1] + n[2] * n[2])};
    }
    for (int a = threadIdx.x; a < A; a += blockDim.x) {
        functions[a] = 2 + (int)m.species[a];
        if (SINGLE) site_of(m, m.atom[3 * a], m.atom[3 * a + 1], m.atom[3 * a + 2], ions[a]);
    }
    bool pairs = m.kind[0] || m.kind[1], others = false;
    for (int f = 2; f < F; ++f) others = others || m.kind[f];
    local.first = pairs ? 0 : N, local.last = others ? N + A : N;
    const double* R = s.R + w * N * 3;
    if (SINGLE && w < s.walkers)
        for (int e = lane_of(); e < N; e += LANES) site_of(m, R[3 * e], R[3 * e + 1], R[3 * e + 2], local.own[e]);
    local.electrons = SINGLE ? local.own : (const Site*)R;
    local.ions = SINGLE ? ions : (const Site*)m.atom;
    local.curves = curves, local.near = near, local.functions = functions;
    __syncthreads();
    return local;
}

#endif
