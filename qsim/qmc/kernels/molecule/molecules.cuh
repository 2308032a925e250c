// Walkers of molecules: what moves, local energies and derivatives of a trial function in open boundaries have in common.

#ifndef QSIM_QMC_MOLECULES_CUH
#define QSIM_QMC_MOLECULES_CUH
#include "orbitals.cuh"
#include "../common/walkers.cuh"
#include "../expansion/slater.cuh"

#define PAIR 12  // numbers kept of an electron within the range of an ion: rotation (9), distance, its Jastrow exponent; one is free

// Sizes that are known when a small system is compiled: its loops unroll, and places in its arrays become constants.
QSIM_DEVICE void set_sizes(Model& m) {
#ifdef ELECTRONS
    m.electrons = ELECTRONS, m.n_up = ELECTRONS_UP, m.atoms = ATOMS;
    m.orbitals = ORBITALS, m.filled = FILLED, m.basis = BASIS, m.shells = SHELLS, m.quadrature = QUADRATURE;
#endif
}

// ----------------------------------------------------------------------------------------- pseudopotentials

QSIM_DEVICE bool within(const Model& m, const double* R, int e, int a, double& r) {
    const int64 p = m.potential[a];
    if (p < 0 || m.channels[p] == 0) return false;
    const double dx = R[3 * e] - m.atom[3 * a], dy = R[3 * e + 1] - m.atom[3 * a + 1], dz = R[3 * e + 2] - m.atom[3 * a + 2];
    r = sqrt(dx * dx + dy * dy + dz * dz);
    return r < m.cutoff[p];
}

// Place of point q of ion a around the electron at distance r, turned by the rotation in `pair`.
QSIM_DEVICE void turned(const Model& m, const double* pair, int a, int q, double r, double* u, double* place) {
    const double* p = m.points + 3 * q;
    for (int k = 0; k < 3; ++k) {
        u[k] = pair[3 * k] * p[0] + pair[3 * k + 1] * p[1] + pair[3 * k + 2] * p[2];
        place[k] = m.atom[3 * a + k] + r * u[k];
    }
}

QSIM_DEVICE double* pair_of(const Model& m, const State& s, int64 w, int e, int a) {
    return s.scratch + w * s.stride + (int64)(e * m.atoms + a) * (PAIR + m.quadrature);
}

#endif
