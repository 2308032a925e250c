// Derivatives with respect to Jastrow parameters: what molecules and crystals have in common; formulas as in derivatives_cpu.py.

#ifndef QSIM_QMC_DERIVATIVES_CUH
#define QSIM_QMC_DERIVATIVES_CUH
#include "functions.cuh"
#include "lanes.cuh"

// Sums of this lane: number c at at[c * stride].
struct Sums {
    double* at;
    int64 stride;

    __device__ void add(int64 c, double x) const { at[c * stride] += x; }
};

// Add `scale` times the derivatives of function f at r with respect to its numbers, which begin at first[f].
template <typename Tables> QSIM_DEVICE void add_values(const Tables& m, const int64* first, int f, double r, double scale, const Sums& out) {
    const int64 kind = m.kind[f];
    int64 k = first[f];
    if (kind == BSPLINE) {
        if (r >= m.rcut[f]) return;
        const double x = r * m.inverse_h[f];
        const int i = (int)x;
        const double t = x - i, s = 1 - t, a = scale / 6;
        k += i;
        out.add(k, a * s * s * s);
        out.add(k + 1, a * (4 + t * t * (3 * t - 6)));
        out.add(k + 2, a * (4 + s * s * (3 * s - 6)));
        out.add(k + 3, a * t * t * t);
    } else if (kind == PADE) {
        const double q = r / (1 + m.pade[2 * f + 1] * r);
        out.add(k, scale * m.pade[2 * f] * q * q);
    }
}

// Add `slope` times the first and `bend` times the second r-derivatives of what `add_values` adds.
template <typename Tables>
QSIM_DEVICE void add_slopes(const Tables& m, const int64* first, int f, double r, double slope, double bend, const Sums& out) {
    const int64 kind = m.kind[f];
    int64 k = first[f];
    if (kind == BSPLINE) {
        if (r >= m.rcut[f]) return;
        const double h = m.inverse_h[f], x = r * h;
        const int i = (int)x;
        const double t = x - i, s = 1 - t, a = 0.5 * slope * h, b = bend * h * h;
        k += i;
        out.add(k, b * s - a * s * s);
        out.add(k + 1, b * (3 * t - 2) + a * t * (3 * t - 4));
        out.add(k + 2, b * (3 * s - 2) - a * s * (3 * s - 4));
        out.add(k + 3, b * t + a * t * t);
    } else if (kind == PADE) {
        const double b = m.pade[2 * f + 1], q = 1 / (1 + b * r);
        out.add(k, 2 * m.pade[2 * f] * q * q * q * (slope * r + bend * q * (1 - 2 * b * r)));
    }
}

// Add up the sums of all lanes of a walker in their order, `own` (2, C) in steps of `stride` being those of this one, and then the numbers
// of each parameter: d log psi / dp and d E_L / dp, (P,) each.
QSIM_DEVICE void collect(double* own, int64 stride, int numbers, int parameters, const int64* place, double* log_slopes,
                         double* energy_slopes) {
    const int lane = lane_of();
    join();
    double* sums = own - lane;  // of the first lane, which gets those of all
    for (int c = lane; c < 2 * numbers; c += LANES) {
        double sum = 0;
        for (int k = 0; k < LANES; ++k) sum += sums[c * stride + k];
        sums[c * stride] = sum;
    }
    join();
    for (int p = lane; p < parameters; p += LANES) {
        double value = 0, slope = 0;
        for (int c = 0; c < numbers; ++c)
            if (place[c] == p) value -= sums[c * stride], slope += sums[(numbers + c) * stride];
        log_slopes[p] = value;
        energy_slopes[p] = slope;
    }
}

#endif
