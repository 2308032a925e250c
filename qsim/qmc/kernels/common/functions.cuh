// Functions of a distance: radial tables on the graded grid, and Jastrow functions; device twins of radial_cpu.py and jastrow_cpu.py.

#ifndef QSIM_QMC_FUNCTIONS_CUH
#define QSIM_QMC_FUNCTIONS_CUH
#include "qsim.cuh"

#define BINS 32
#define SMALLEST 0.015625
#define OCTAVES 11
#define LARGEST 32.0
#define INNER (BINS / SMALLEST)
#define TINY 1e-12

#define BSPLINE 1
#define PADE 2
#define LOGARITHM 3

struct Place {
    int interval;
    double t, inverse_h;
};

QSIM_DEVICE Place locate(double r) {  // r below LARGEST
    if (r < SMALLEST) {
        const double x = r * INNER;
        const int i = (int)x;
        return {i, x - i, INNER};
    }
    const uint64 bits = (uint64)__double_as_longlong(r);
    const int octave = (int)(bits >> 52) - 1023 + 6;
    const double m = __longlong_as_double((int64)((bits & 0xfffffffffffffull) | 0x3ff0000000000000ull));  // [1, 2)
    const double x = (m - 1.0) * BINS;
    const int i = (int)x;
    return {BINS * (octave + 1) + i, x - i, INNER / (double)(1 << octave)};
}

template <typename T> QSIM_DEVICE double quintic(const T* c, double t) {
    return c[0] + t * (c[1] + t * (c[2] + t * (c[3] + t * (c[4] + t * c[5]))));
}

QSIM_DEVICE double table_value(const double* table, double r) {
    if (r >= LARGEST) return 0;
    const Place p = locate(r);
    return quintic(table + 6 * p.interval, p.t);
}

// ----------------------------------------------------------------------------------------------- Jastrow

struct Curve {
    double u, du, ddu;
};

template <typename Tables> QSIM_DEVICE double function_value(const Tables& m, int f, double r) {
    const int64 kind = m.kind[f];
    if (kind == BSPLINE) {
        if (r >= m.rcut[f]) return 0;
        const double x = r * m.inverse_h[f];
        const int i = (int)x;
        const double t = x - i, s = 1 - t;
        const double* c = m.spline + f * m.width + i;
        return (c[0] * s * s * s + c[1] * (4 + t * t * (3 * t - 6)) + c[2] * (4 + s * s * (3 * s - 6)) + c[3] * t * t * t) / 6;
    }
    if (kind == PADE) return -m.pade[2 * f] * r / (1 + m.pade[2 * f + 1] * r);
    if (kind == LOGARITHM) return -log(1 + m.pade[2 * f] * r);
    return 0;
}

template <typename Tables> QSIM_DEVICE Curve function(const Tables& m, int f, double r) {
    const int64 kind = m.kind[f];
    if (kind == BSPLINE) {
        if (r >= m.rcut[f]) return {0, 0, 0};
        const double h = m.inverse_h[f], x = r * h;
        const int i = (int)x;
        const double t = x - i, s = 1 - t;
        const double* p = m.spline + f * m.width + i;
        const double a = p[0], b = p[1], d = p[2], e = p[3];
        return {(a * s * s * s + b * (4 + t * t * (3 * t - 6)) + d * (4 + s * s * (3 * s - 6)) + e * t * t * t) / 6,
                0.5 * h * (-a * s * s + b * t * (3 * t - 4) - d * s * (3 * s - 4) + e * t * t),
                h * h * (a * s + b * (3 * t - 2) + d * (3 * s - 2) + e * t)};
    }
    if (kind == PADE) {
        const double a = m.pade[2 * f], b = m.pade[2 * f + 1], q = 1 / (1 + b * r);
        return {-a * r * q, -a * q * q, 2 * a * b * q * q * q};
    }
    if (kind == LOGARITHM) {
        const double a = m.pade[2 * f], q = a / (1 + a * r);
        return {-log(1 + a * r), -q, q * q};
    }
    return {0, 0, 0};
}

QSIM_DEVICE double distance(double dx, double dy, double dz) { return fmax(sqrt(dx * dx + dy * dy + dz * dz), TINY); }

struct Gradient {
    double u, x, y, z;
};

#endif
