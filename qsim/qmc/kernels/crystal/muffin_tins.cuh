// Bloch orbitals at a point, with the mixed basis: radial splines times real solid harmonics around the ions, B-splines between.
// Device twins of muffin_tins_cpu.py and of `mixed_sums` in bloch_cpu.py.
//
// -DTINS=1 compiles the mixed basis.  Its rows have further work space behind them, see `row_numbers`.

#ifndef QSIM_QMC_MUFFIN_TINS_CUH
#define QSIM_QMC_MUFFIN_TINS_CUH
#include "crystal.cuh"

#ifndef TINS
#define TINS 0
#endif

// A point in a tin: the vector from the nearest image of its ion, its length, and the numbers of the ion's primitive cell.
struct Tin {
    double x, y, z, r;
    int cell[3];
    int ion;  // -1: none
};

#if TINS
QSIM_DEVICE int harmonics_of(const Crystal& m) { return (int)((m.tin_lmax + 1) * (m.tin_lmax + 1)); }

// Real numbers of a walker's rows: of the point, of a tin (first of all weights of B-splines), harmonics (4, L), weights of radial splines
// (6, L).
QSIM_DEVICE int row_numbers(const Crystal& m) { return 10 * (int)m.all_channels + 10 * harmonics_of(m); }

QSIM_DEVICE Tin tin_of(const Crystal& m, double x, double y, double z) {
    const double *A = m.primitive, *B = m.tin_reduced, *C = m.tin_unreduce, limit = m.tin_outer * m.tin_outer;
    for (int i = 0; i < m.tins; ++i) {
        const double ox = x - m.tin_centre[3 * i], oy = y - m.tin_centre[3 * i + 1], oz = z - m.tin_centre[3 * i + 2];
        const double a = rint(ox * C[0] + oy * C[3] + oz * C[6]), b = rint(ox * C[1] + oy * C[4] + oz * C[7]);
        const double c = rint(ox * C[2] + oy * C[5] + oz * C[8]);
        for (int k = 0; k < m.tin_nears; ++k) {
            const double* n = m.tin_near + 3 * k;
            const double px = ox - (a * B[0] + b * B[3] + c * B[6]) + n[0], py = oy - (a * B[1] + b * B[4] + c * B[7]) + n[1];
            const double pz = oz - (a * B[2] + b * B[5] + c * B[8]) + n[2], square = px * px + py * py + pz * pz;
            if (square >= limit) continue;
            const double tx = ox - px, ty = oy - py, tz = oz - pz;
            Tin tin = {px, py, pz, fmax(sqrt(square), TINY), {0, 0, 0}, i};
#pragma unroll
            for (int d = 0; d < 3; ++d) tin.cell[d] = (int)rint(tx * A[d] + ty * A[3 + d] + tz * A[6 + d]);
            return tin;
        }
    }
    return {0, 0, 0, 0, {0, 0, 0}, -1};
}

// Real solid harmonics and their gradients, S (4, L), m ascending from -l: a lane takes an m.
QSIM_DEVICE void tin_harmonics(int lmax, double x, double y, double z, real* S) {
    const double rr = x * x + y * y + z * z;
    const int L = (lmax + 1) * (lmax + 1);
    for (int m = lane_of(); m <= lmax; m += LANES) {
        double a = 1, b = 0, la = 0, lb = 0, diagonal = 1, ratio = 1;  // (x + i y)^m, the power below; (2m - 1)!!; (l - m)! / (l + m)!
        for (int k = 1; k <= m; ++k) {
            la = a, lb = b;
            a = la * x - lb * y, b = la * y + lb * x;
            diagonal *= 2 * k - 1;
            ratio /= 2 * k * (2 * k - 1);
        }
        double p0 = diagonal, d0 = 0, e0 = 0, p1 = 0, d1 = 0, e1 = 0;
        for (int l = m; l <= lmax; ++l) {
            if (l > m) {
                const double q = 1.0 / (l - m), u = (2 * l - 1) * q, v = (l + m - 1) * q, p2 = p1, d2 = d1, e2 = e1;
                p1 = p0, d1 = d0, e1 = e0;
                p0 = u * z * p1 - v * rr * p2;
                d0 = u * (p1 + z * d1) - v * rr * d2;
                e0 = u * z * e1 - v * (p2 + rr * e2);
                ratio *= (double)(l - m) / (l + m);
            }
            const double norm = sqrt((2 * l + 1) / (2 * TWO_PI) * ratio * (m == 0 ? 1.0 : 2.0));
            const double P = norm * p0, D = norm * d0, E = norm * e0;
            const int c = l * l + l;
            S[c + m] = (real)(a * P);
            S[L + c + m] = (real)(m * la * P + 2 * x * a * E);
            S[2 * L + c + m] = (real)(-m * lb * P + 2 * y * a * E);
            S[3 * L + c + m] = (real)(a * (D + 2 * z * E));
            if (m == 0) continue;
            S[c - m] = (real)(b * P);
            S[L + c - m] = (real)(m * lb * P + 2 * x * b * E);
            S[2 * L + c - m] = (real)(m * la * P + 2 * y * b * E);
            S[3 * L + c - m] = (real)(b * (D + 2 * z * E));
        }
    }
}

// Weights of value, slope and curvature at both ends of [0, 1), and those of two derivatives: w (18,), as `hermite`.
QSIM_DEVICE void radial_weights(double t, real* w) {
    const double t2 = t * t, t3 = t2 * t, end = t3 * (10 + t * (6 * t - 15)), slope = 30 * t2 * (1 + t * (t - 2));
    const double bend = t * (60 + t * (120 * t - 180));
    w[3] = (real)end, w[0] = (real)(1 - end);
    w[1] = (real)(t + t3 * (-6 + t * (8 - 3 * t))), w[4] = (real)(t3 * (-4 + t * (7 - 3 * t)));
    w[2] = (real)(0.5 * t2 * (1 + t * (-3 + t * (3 - t)))), w[5] = (real)(0.5 * t3 * (1 + t * (t - 2)));
    w[9] = (real)slope, w[6] = (real)-slope;
    w[7] = (real)(1 + t2 * (-18 + t * (32 - 15 * t))), w[10] = (real)(t2 * (-12 + t * (28 - 15 * t)));
    w[8] = (real)(0.5 * t * (2 + t * (-9 + t * (12 - 5 * t)))), w[11] = (real)(0.5 * t2 * (3 + t * (5 * t - 8)));
    w[15] = (real)bend, w[12] = (real)-bend;
    w[13] = (real)(t * (-36 + t * (96 - 60 * t))), w[16] = (real)(t * (-24 + t * (84 - 60 * t)));
    w[14] = (real)(0.5 * (2 + t * (-18 + t * (36 - 20 * t)))), w[17] = (real)(0.5 * t * (6 + t * (20 * t - 24)));
}

// Interval of the radial splines that a point lies in, and its place there.
QSIM_DEVICE int radial_interval(const Crystal& m, double r, double& t) {
    const double x = r * ((m.tin_knots - 1) / m.tin_outer);
    const int i = min((int)x, (int)m.tin_knots - 2);
    t = x - i;
    return i;
}

// First number of the radial splines of an ion at a knot: (L, 3, C).
QSIM_DEVICE const real* knot_of(const Crystal& m, int spin, int ion, int i) {
    const int64 s = spin < m.spins ? spin : m.spins - 1;
    return m.tin_table + ((s * m.tins + ion) * m.tin_knots + i) * harmonics_of(m) * 3 * m.all_channels;
}

// Values, gradients and Laplacians of all channels in a tin without phases, sums (5, C); S: work space (4, L).
QSIM_DEVICE void tin_rows(const Crystal& m, int spin, const Tin& tin, real* sums, real* S) {
    const int C = (int)m.all_channels, L = harmonics_of(m), lmax = (int)m.tin_lmax;
    join();
    tin_harmonics(lmax, tin.x, tin.y, tin.z, S);
    double t;
    const real* a = knot_of(m, spin, tin.ion, radial_interval(m, tin.r, t));
    const real* b = a + (int64)L * 3 * C;
    real w[18];
    radial_weights(t, w);
    const double scale = (m.tin_knots - 1) / m.tin_outer;
    const real one = (real)(scale / tin.r), two = (real)(scale * scale), x = (real)tin.x, y = (real)tin.y, z = (real)tin.z;
    join();
    for (int c = lane_of(); c < C; c += LANES) {
        real value = 0, gx = 0, gy = 0, gz = 0, laplacian = 0;
        int q = 0;
        for (int l = 0; l <= lmax; ++l) {
            const real twice = 2 * (l + 1) * one;
            for (; q < (l + 1) * (l + 1); ++q) {
                const real *p = a + (int64)q * 3 * C + c, *n = b + (int64)q * 3 * C + c;
                const real p0 = p[0], p1 = p[C], p2 = p[2 * C], n0 = n[0], n1 = n[C], n2 = n[2 * C];
                const real u = w[0] * p0 + w[1] * p1 + w[2] * p2 + w[3] * n0 + w[4] * n1 + w[5] * n2;
                const real d = w[6] * p0 + w[7] * p1 + w[8] * p2 + w[9] * n0 + w[10] * n1 + w[11] * n2;
                const real h = w[12] * p0 + w[13] * p1 + w[14] * p2 + w[15] * n0 + w[16] * n1 + w[17] * n2;
                const real s = S[q], slope = s * one * d;
                value += s * u;
                gx += S[L + q] * u + x * slope, gy += S[2 * L + q] * u + y * slope, gz += S[3 * L + q] * u + z * slope;
                laplacian += s * (two * h + twice * d);
            }
        }
        sums[c] = value, sums[C + c] = gx, sums[2 * C + c] = gy, sums[3 * C + c] = gz, sums[4 * C + c] = laplacian;
    }
    join();
}

// Weight of the tin between its two radii.
QSIM_DEVICE double tin_weight(const Crystal& m, double r) {
    const double t = (r - m.tin_inner) / (m.tin_outer - m.tin_inner);
    return 1 - t * t * t * (10 - 15 * t + 6 * t * t);
}

// Rows of splines become the passage from those in a tin.
QSIM_DEVICE void blend_rows(const Crystal& m, const Tin& tin, real* sums, const real* own) {
    const int C = (int)m.all_channels;
    const double width = m.tin_outer - m.tin_inner, t = (tin.r - m.tin_inner) / width;
    const double slope = -30 * t * t * (1 - t) * (1 - t) / width;
    const real bend = (real)(-60 * t * (1 - t) * (1 - 2 * t) / (width * width) + 2 * slope / tin.r), weight = (real)tin_weight(m, tin.r);
    const real sx = (real)(slope * tin.x / tin.r), sy = (real)(slope * tin.y / tin.r), sz = (real)(slope * tin.z / tin.r);
    for (int c = lane_of(); c < C; c += LANES) {
        real d[5];
#pragma unroll
        for (int k = 0; k < 5; ++k) d[k] = own[k * C + c] - sums[k * C + c];
        sums[c] += weight * d[0];
        sums[C + c] += weight * d[1] + sx * d[0];
        sums[2 * C + c] += weight * d[2] + sy * d[0];
        sums[3 * C + c] += weight * d[3] + sz * d[0];
        sums[4 * C + c] += weight * d[4] + 2 * (sx * d[1] + sy * d[2] + sz * d[3]) + bend * d[0];
    }
}

QSIM_DEVICE void mixed_rows(const Crystal& m, int spin, double x, double y, double z, real* sums) {
    const int C = (int)m.all_channels;
    real *own = sums + 5 * C, *S = sums + 10 * C;
    const Tin tin = tin_of(m, x, y, z);
    const bool inside = tin.ion >= 0 && tin.r <= m.tin_inner;
    if (!inside) spline_rows(m, spin, x, y, z, sums);
    if (tin.ion < 0) return;
    tin_rows(m, spin, tin, inside ? sums : own, S);
    turn_rows(m, spin, tin.cell, inside ? sums : own);
    join();
    if (!inside) blend_rows(m, tin, sums, own);
}

// Sum of the values of all channels in a tin with the dressed column: the part of this lane.  S: work space (4, L) and (6, L).
QSIM_DEVICE real tin_ratio(const Crystal& m, int spin, const Tin& tin, const real* dressed, real* S) {
    const int C = (int)m.all_channels, L = harmonics_of(m), rows = 6 * L;
    real* weights = S + 4 * L;
    join();
    tin_harmonics((int)m.tin_lmax, tin.x, tin.y, tin.z, S);
    double t;
    const real* q = knot_of(m, spin, tin.ion, radial_interval(m, tin.r, t));
    real w[18];
    radial_weights(t, w);
    join();
    for (int i = lane_of(); i < L; i += LANES)
#pragma unroll
        for (int d = 0; d < 3; ++d) weights[3 * i + d] = S[i] * w[d], weights[3 * (L + i) + d] = S[i] * w[3 + d];
    join();
    real ratio = 0;
    for (int c = lane_of(); c < C; c += LANES) {  // both knots are one piece of memory
        real value = 0;
#pragma unroll 6
        for (int k = 0; k < rows; ++k) value += weights[k] * q[(int64)k * C + c];
        ratio += value * dressed[c];
    }
    return ratio;
}
#else
QSIM_DEVICE int row_numbers(const Crystal& m) { return 5 * (int)m.all_channels + 36; }
#endif

// Values, gradients and Laplacians of the orbitals of a spin at a point: `sums` (5, C) in shared memory.  A row holds channels one after
// the other, which are the orbitals of a real determinant, and real and imaginary parts of those of a complex one.
QSIM_DEVICE void bloch_rows(const Crystal& m, int spin, double x, double y, double z, real* sums) {
    CLOCK(SPLINES);
    join();
#if TINS
    mixed_rows(m, spin, x, y, z, sums);
#else
    if (m.is_wave)
        wave_rows(m, x, y, z, sums);
    else
        spline_rows(m, spin, x, y, z, sums);
#endif
    join();
}

#endif
