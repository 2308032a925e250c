// Molecular orbitals and Jastrow functions at a point: device twins of orbitals_cpu.py and jastrow_cpu.py.
//
// A group of 1, 2, 4 ... 32 lanes of a warp carries a walker.  Rows (value, gradient, Laplacian) of all orbitals at one point are made
// by the group together: a lane takes a shell, then a sum over atomic orbitals.

#ifndef QSIM_QMC_ORBITALS_CUH
#define QSIM_QMC_ORBITALS_CUH
#include "../common/functions.cuh"
#include "../common/lanes.cuh"

// Trial function and Hamiltonian; field for field the dtype `MODEL` of launch.py.
struct Model {
    const double* atom;          // (A, 3)
    const int64* shell_atom;     // (Sh,)
    const int64* shell_l;
    const int64* shell_first;
    const real* table;           // (K, Sh, 6): shells of an atom side by side
    const double* reach;         // (Sh,)
    const real* coefficients;    // (2, B, M)
    const int64* kind;           // (F,)
    const double* spline;        // (F, width)
    const double* inverse_h;
    const double* rcut;
    const double* pade;          // (F, 2)
    const int64* species;        // (A,)
    const double* charge;        // (A,)
    const int64* potential;      // (A,)
    const double* local;         // (P, K, 6)
    const double* delta;         // (P, C, K, 6)
    const int64* channels;       // (P,)
    const double* cutoff;        // (P,)
    const double* points;        // (Q, 3)
    const double* weights;       // (Q,)
    const int64* sizes;          // from here on of an expansion, as `ExpansionTables`
    const int64* level;
    const int64* first_term;
    const int* place;
    const int* parent;
    const int64* begin;
    const int* other;
    const double* coefficient;
    const int64* children;
    const int* child;
    const int64* cells;
    const int* cell;
    const int* owner;
    double omega, mass, ion_ion;
    int64 interacting, atoms, shells, basis, orbitals, electrons, n_up, width, pseudos, most_channels, quadrature, intervals, functions;
    int64 filled, strings, numbers, own;  // length of a row of an inverse; of an expansion, and where it begins in scratch
};

// A derivative that vanishes; as a type of its own it takes no operations from those who ask.
struct Zero {
    QSIM_MEMBER operator double() const { return 0; }
};

// Calls emit(m, S, Sx, Sy, Sz) for the solid harmonics r^l Y_lm of one l.
template <typename Emit> QSIM_DEVICE void harmonics(int l, double x, double y, double z, Emit emit) {
    const double C0 = 0.28209479177387814, C1 = 0.4886025119029199, D = 1.0925484305920792, D0 = 0.31539156525252005;
    const double F3 = 0.5900435899266435, F2 = 2.890611442640554, F1 = 0.4570457994644658, F0 = 0.3731763325901154;
    const double G4 = 2.5033429417967046, G3 = 1.7701307697799304, G2 = 0.9461746957575601, G1 = 0.6690465435572892;
    const double G0 = 0.10578554691520431;
    const double xx = x * x, yy = y * y, zz = z * z;
    if (l == 0) {
        emit(0, C0, Zero(), Zero(), Zero());
    } else if (l == 1) {
        emit(0, C1 * x, C1, Zero(), Zero());
        emit(1, C1 * y, Zero(), C1, Zero());
        emit(2, C1 * z, Zero(), Zero(), C1);
    } else if (l == 2) {
        emit(0, D * x * y, D * y, D * x, Zero());
        emit(1, D * y * z, Zero(), D * z, D * y);
        emit(2, D0 * (2 * zz - xx - yy), -2 * D0 * x, -2 * D0 * y, 4 * D0 * z);
        emit(3, D * x * z, D * z, Zero(), D * x);
        emit(4, 0.5 * D * (xx - yy), D * x, -D * y, Zero());
    } else if (l == 3) {
        emit(0, F3 * y * (3 * xx - yy), F3 * 6 * x * y, F3 * 3 * (xx - yy), Zero());
        emit(1, F2 * x * y * z, F2 * y * z, F2 * x * z, F2 * x * y);
        emit(2, F1 * y * (4 * zz - xx - yy), -F1 * 2 * x * y, F1 * (4 * zz - xx - 3 * yy), F1 * 8 * y * z);
        emit(3, F0 * z * (2 * zz - 3 * xx - 3 * yy), -F0 * 6 * x * z, -F0 * 6 * y * z, F0 * 3 * (2 * zz - xx - yy));
        emit(4, F1 * x * (4 * zz - xx - yy), F1 * (4 * zz - 3 * xx - yy), -F1 * 2 * x * y, F1 * 8 * x * z);
        emit(5, 0.5 * F2 * z * (xx - yy), F2 * x * z, -F2 * y * z, 0.5 * F2 * (xx - yy));
        emit(6, F3 * x * (xx - 3 * yy), F3 * 3 * (xx - yy), -F3 * 6 * x * y, Zero());
    } else {
        const double rr = xx + yy + zz, a = 7 * zz - rr, b = 7 * zz - 3 * rr, c = 12 * rr - 60 * zz, h = 0.5 * G2, q = 0.25 * G4;
        emit(0, G4 * x * y * (xx - yy), G4 * y * (3 * xx - yy), G4 * x * (xx - 3 * yy), Zero());
        emit(1, G3 * y * z * (3 * xx - yy), G3 * 6 * x * y * z, G3 * 3 * z * (xx - yy), G3 * y * (3 * xx - yy));
        emit(2, G2 * x * y * a, G2 * y * (a - 2 * xx), G2 * x * (a - 2 * yy), G2 * 12 * x * y * z);
        emit(3, G1 * y * z * b, -G1 * 6 * x * y * z, G1 * z * (b - 6 * yy), G1 * y * (b + 8 * zz));
        emit(4, G0 * (35 * zz * zz - 30 * zz * rr + 3 * rr * rr), G0 * x * c, G0 * y * c, G0 * z * (80 * zz - 48 * rr));
        emit(5, G1 * x * z * b, G1 * z * (b - 6 * xx), -G1 * 6 * x * y * z, G1 * x * (b + 8 * zz));
        emit(6, h * (xx - yy) * a, h * 2 * x * (a - (xx - yy)), -h * 2 * y * (a + (xx - yy)), h * 12 * z * (xx - yy));
        emit(7, G3 * x * z * (xx - 3 * yy), G3 * 3 * z * (xx - yy), -G3 * 6 * x * y * z, G3 * x * (xx - 3 * yy));
        emit(8, q * (xx * (xx - 3 * yy) - yy * (3 * xx - yy)), q * 4 * x * (xx - 3 * yy), q * 4 * y * (yy - 3 * xx), Zero());
    }
}

// Values, gradients and Laplacians of the orbitals of a spin at one point.  ao: (5, B) and rows: (5, M) in shared memory.
QSIM_DEVICE void orbital_rows(const Model& m, int spin, double x, double y, double z, real* ao, real* rows) {
    const int B = (int)m.basis, M = (int)m.orbitals;
    for (int s = lane_of(); s < m.shells; s += LANES) {
        const double* at = m.atom + 3 * m.shell_atom[s];
        const double dx = x - at[0], dy = y - at[1], dz = z - at[2], r = sqrt(dx * dx + dy * dy + dz * dz);
        const int l = (int)m.shell_l[s];
        real* out = ao + m.shell_first[s];
        if (r >= m.reach[s]) {
            for (int k = 0; k < 5; ++k)
                for (int i = 0; i < 2 * l + 1; ++i) out[k * B + i] = 0;
            continue;
        }
        const Place p = locate(r);
        const real* c = m.table + 6 * (p.interval * m.shells + s);
        const double t = p.t, over = 1.0 / fmax(r, TINY);
        const double R = quintic(c, t);
        const double slope = over * p.inverse_h * (c[1] + t * (2.0 * c[2] + t * (3.0 * c[3] + t * (4.0 * c[4] + t * 5.0 * c[5]))));
        const double bend = p.inverse_h * p.inverse_h * (2.0 * c[2] + t * (6.0 * c[3] + t * (12.0 * c[4] + t * 20.0 * c[5]))) +
                            2 * (l + 1) * slope;
        harmonics(l, dx, dy, dz, [&](int i, double S, double Sx, double Sy, double Sz) {
            out[i] = (real)(R * S);
            out[B + i] = (real)(slope * dx * S + R * Sx);
            out[2 * B + i] = (real)(slope * dy * S + R * Sy);
            out[3 * B + i] = (real)(slope * dz * S + R * Sz);
            out[4 * B + i] = (real)(bend * S);
        });
    }
    join();
    const real* C = m.coefficients + (int64)spin * B * M;
    for (int i = lane_of(); i < 5 * M; i += LANES) {
        const int k = i / M, o = i % M;
        real sums[4] = {0, 0, 0, 0};  // which do not wait for each other
        int b = 0;
        for (; b + 4 <= B; b += 4)
            for (int j = 0; j < 4; ++j) sums[j] = fma(ao[k * B + b + j], C[(b + j) * M + o], sums[j]);
        for (; b < B; ++b) sums[0] = fma(ao[k * B + b], C[b * M + o], sums[0]);
        rows[i] = (sums[0] + sums[1]) + (sums[2] + sums[3]);
    }
    join();
}

// ----------------------------------------------------------------------------------------------- Jastrow

// Sum of all functions of electron e if it were at (x, y, z), and its gradient, made by the group together; every lane holds the result.
QSIM_DEVICE Gradient electron_gradient(const Model& m, const double* R, int e, double x, double y, double z) {
    Gradient g = {0, 0, 0, 0};
    const bool spin = e < m.n_up;
    const int N = (int)m.electrons, all = N + (int)m.atoms;
    for (int j = lane_of(); j < all; j += LANES) {
        if (j == e) continue;
        const double* other = j < N ? R + 3 * j : m.atom + 3 * (j - N);
        const int f = j < N ? ((j < m.n_up) == spin ? 0 : 1) : 2 + (int)m.species[j - N];
        if (!m.kind[f]) continue;
        const double dx = x - other[0], dy = y - other[1], dz = z - other[2], r = distance(dx, dy, dz);
        const Curve c = function(m, f, r);
        const double slope = c.du / r;
        g.u += c.u, g.x += slope * dx, g.y += slope * dy, g.z += slope * dz;
    }
    return {group_total(g.u), group_total(g.x), group_total(g.y), group_total(g.z)};
}

#endif
