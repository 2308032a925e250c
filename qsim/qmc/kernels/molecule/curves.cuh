// Functions of distance of the Jastrow factor in shared memory, B-splines as polynomials, for kernels that evaluate them often.

#ifndef QSIM_QMC_CURVES_CUH
#define QSIM_QMC_CURVES_CUH
#include "orbitals.cuh"

// 1 / x and 1 / sqrt(x) to about one unit in the last place, for 1e-290 < x < 1e290 (reciprocal: of either sign): 20 bits of the
// hardware and a step of third order, without the branches that take care of all other numbers.
QSIM_DEVICE double quick_reciprocal(double x) {
    double y;
    asm("rcp.approx.ftz.f64 %0, %1;" : "=d"(y) : "d"(x));
    const double e = fma(-x, y, 1.0);
    return fma(y, fma(e, e, e), y);
}

QSIM_DEVICE double quick_rsqrt(double x) {
    double y;
    asm("rsqrt.approx.ftz.f64 %0, %1;" : "=d"(y) : "d"(x));
    const double e = fma(-x * y, y, 1.0);
    return fma(y * e, fma(0.375, e, 0.5), y);
}

struct Distance {
    double r, over;  // r and 1 / r
};

QSIM_DEVICE Distance quick_distance(double dx, double dy, double dz) {
    const double square = fmax(dx * dx + dy * dy + dz * dz, TINY * TINY), over = quick_rsqrt(square);
    return {square * over, over};
}

#define HEAD 5  // numbers of a function: range, 1 / h, a, b, kind (bits of an integer)

// What a block has once.
struct Curves {
    double* head;        // (F, HEAD)
    double* polynomial;  // (F, width - 3, 4): in the place within an interval, from 0 to 1
};

QSIM_DEVICE int curve_numbers(const Model& m) { return ((int)m.functions * (HEAD + 4 * ((int)m.width - 3)) + 1) / 2 * 2; }

QSIM_DEVICE Curves curves_at(const Model& m, double* at) { return {at + 4 * m.functions * (m.width - 3), at}; }

// By all threads of a block, which must meet before they read.
QSIM_DEVICE void fill_curves(const Model& m, const Curves& curves) {
    const int intervals = (int)m.width - 3, functions = (int)m.functions;
    for (int f = threadIdx.x; f < functions; f += blockDim.x) {
        double* head = curves.head + HEAD * f;
        const bool none = m.kind[f] == 0;  // as a spline without range
        head[0] = none ? 0 : m.rcut[f], head[1] = m.inverse_h[f], head[2] = m.pade[2 * f], head[3] = m.pade[2 * f + 1];
        head[4] = __longlong_as_double(none ? BSPLINE : m.kind[f]);
    }
    for (int i = threadIdx.x; i < functions * intervals; i += blockDim.x) {
        const double* c = m.spline + i / intervals * m.width + i % intervals;
        double* p = curves.polynomial + 4 * i;
        p[0] = (c[0] + 4 * c[1] + c[2]) / 6, p[1] = 0.5 * (c[2] - c[0]);
        p[2] = 0.5 * (c[0] - 2 * c[1] + c[2]), p[3] = (c[3] - c[0] + 3 * (c[1] - c[2])) / 6;
    }
}

// Function f and, as far as they are used, its first two derivatives.
QSIM_DEVICE Curve curve(const Model& m, const Curves& curves, int f, double r) {
    const double* head = curves.head + HEAD * f;
    const int64 kind = __double_as_longlong(head[4]);
    if (kind == BSPLINE) {
        if (r >= head[0]) return {0, 0, 0};
        const double h = head[1], x = r * h;
        const int i = (int)x;
        const double t = x - i;
        const double* p = curves.polynomial + 4 * (f * ((int)m.width - 3) + i);
        return {p[0] + t * (p[1] + t * (p[2] + t * p[3])), h * (p[1] + t * (2 * p[2] + t * (3 * p[3]))), h * h * (2 * p[2] + 6 * t * p[3])};
    }
    const double a = head[2], q = quick_reciprocal(1 + (kind == PADE ? head[3] : a) * r);
    if (kind == PADE) return {-a * r * q, -a * q * q, 2 * a * head[3] * q * q * q};
    return {-log(1 + a * r), -a * q, a * a * q * q};
}

// Function of electron e and its j-th partner, electrons before ions.
QSIM_DEVICE int function_of(const Model& m, int e, int j) {
    return j < m.electrons ? ((j < m.n_up) == (e < m.n_up) ? 0 : 1) : 2 + (int)m.species[j - m.electrons];
}

// All functions of electron e if it were at (x, y, z), at the point of this lane.
QSIM_DEVICE double curves_value(const Model& m, const Curves& curves, const double* R, int e, double x, double y, double z) {
    double total = 0;
    const int N = (int)m.electrons, all = N + (int)m.atoms;
    for (int j = 0; j < all; ++j) {
        if (j == e) continue;
        const double* other = j < N ? R + 3 * j : m.atom + 3 * (j - N);
        total += curve(m, curves, function_of(m, e, j), quick_distance(x - other[0], y - other[1], z - other[2]).r).u;
    }
    return total;
}

struct Six {
    real c[6];
};

// Coefficients of an interval of a table, in loads of two.
QSIM_DEVICE Six six(const double* at) {
    const double2 *p = (const double2*)at, a = p[0], b = p[1], c = p[2];
    return {(real)a.x, (real)a.y, (real)b.x, (real)b.y, (real)c.x, (real)c.y};
}
QSIM_DEVICE Six six(const float* at) {
    const float2 *p = (const float2*)at, a = p[0], b = p[1], c = p[2];
    return {a.x, a.y, b.x, b.y, c.x, c.y};
}

#endif
