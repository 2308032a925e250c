"""The arrays that kernels of crystals take, as named tuples (numba passes them as they are)."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from qsim.qmc.kernels.common.types import State

__all__ = [
    "MIXED",
    "SPLINES",
    "WAVES",
    "WINDOW",
    "CrystalHamiltonian",
    "CrystalOrbitals",
    "CrystalWork",
    "basis_of",
    "crystal_work_space",
    "scratch_of",
]

WAVES, SPLINES, MIXED = 1, 2, 3  # bases of orbitals; MIXED: muffin tins in splines
WINDOW = 16  # electrons whose updates of inverses are made together, where they are delayed
HEAD = 24  # numbers of an electron within the range of an ion, as in walk.cu


class CrystalOrbitals(NamedTuple):
    """Bloch orbitals ``psi(r) = exp(2 pi i kappa . n) S(u - n)``, ``r = u A``, ``n = floor(u)``, and the supercell.

    The spline S is that of psi itself on the primitive cell; three more points for each axis continue it with the phase of its k
    point, so that no index wraps.  A function is one channel (a real orbital of a k point with ``2 kappa`` whole) or two
    (real and imaginary part); each channel is an orbital of a real determinant, each function one of a complex determinant.

    Attributes
    ----------
    atom : (A, 3) float64
        Positions in the supercell, bohr.
    reduced, unreduce : (3, 3) float64
        Reduced basis of the supercell, bohr, and its inverse: vectors are folded by rounding ``d @ unreduce``.
    near : (n, 3) float64
        Lattice vectors that can bring a folded vector within the Wigner-Seitz radius: zero, half of them, and their negatives.
    radius2 : float
        Square of that radius, bohr^2.
    primitive : (3, 3) float64
        ``A^-1`` of the primitive cell, 1/bohr.
    metric : (3, 3) float64
        ``A^-T A^-1``: the Laplacian is ``sum_de metric_de d^2/du_d du_e``.
    table : (S, n0 + 3, n1 + 3, n2 + 3, C) real
        Spline coefficients of one or two spins; of plane waves, nothing is read.
    channel, parts : (S, P) int64
        First channel of each function, and the number of its channels (0: there is none).
    kappa : (S, P, 3) float64
        Its k point, 1: the whole reciprocal vector of the primitive cell; of plane waves, the wave vector in 1/bohr.
    is_wave, has_phase, is_complex : int
        Plane waves instead of splines; any kappa is not zero; determinants are complex.
    unit : (2,) real or complex
        1 and i (complex determinants) or 1 and 0: what two channels are multiplied by to give an orbital.
    tin_centre : (I, 3) float64
        Ions of the primitive cell with muffin tins, bohr; none without a mixed basis.
    tin_near : (n, 3) float64
        Lattice vectors of the primitive cell, one of which brings a folded vector into the tin if any does; the first is zero.
    tin_reduced, tin_unreduce : (3, 3) float64
        Reduced basis of the primitive cell, bohr, and its inverse.
    tin_inner, tin_outer : float
        Radii between which tins pass into splines, bohr.
    tin_lmax : int
    tin_table : (S, I, K, (lmax + 1)^2, 3, C) real
        Radial functions, see :mod:`qsim.qmc.wavefunction.crystals.muffin_tins`.
    owner : (S, C) int64
        Function of each channel, -1 where there is none.
    """

    atom: NDArray[np.float64]
    reduced: NDArray[np.float64]
    unreduce: NDArray[np.float64]
    near: NDArray[np.float64]
    radius2: float
    primitive: NDArray[np.float64]
    metric: NDArray[np.float64]
    table: NDArray[np.floating]
    channel: NDArray[np.int64]
    parts: NDArray[np.int64]
    kappa: NDArray[np.float64]
    is_wave: int
    has_phase: int
    is_complex: int
    unit: NDArray[np.inexact]
    tin_centre: NDArray[np.float64]
    tin_near: NDArray[np.float64]
    tin_reduced: NDArray[np.float64]
    tin_unreduce: NDArray[np.float64]
    tin_inner: float
    tin_outer: float
    tin_lmax: int
    tin_table: NDArray[np.floating]
    owner: NDArray[np.int64]


class CrystalHamiltonian(NamedTuple):
    """Charges, pseudopotentials, and the two parts of the periodic Coulomb potential.

    Attributes
    ----------
    mass : float
        Of the particles.
    charge : (A,) float64
        Effective charges of the ions.
    potential : (A,) int64
        Pseudopotential of an atom, -1 for a bare one.
    local : (P, K, 6) float64
        ``r V_loc + Zeff``.
    reach : (P,) float64
        Radius from which that is zero, bohr.
    delta : (P, C, K, 6) float64
        ``V_l - V_loc``.
    channels : (P,) int64
    cutoff : (P,) float64
        Radius beyond which all of ``delta`` vanish, bohr.
    points : (Q, 3) float64
    weights : (Q,) float64
        Spherical rule.
    images : (n, 3) float64
        Lattice vectors that can bring a folded vector within the ranges of the pseudopotentials; the first is zero.
    pair : (K, 6) float64
        ``r v_s(r)`` of the short-ranged part of 1/r.
    pair_reach : float
        Its range, bohr.
    waves : (n, 3) int64
        Half of the waves of the long-ranged part, in reciprocal vectors of the supercell.
    inverse : (3, 3) float64
        Inverse of the lattice of the supercell, 1/bohr.
    weight : (n,) float64
        ``2 y_k``, hartree.
    ions : (n, 2) float64
        Real and imaginary part of ``sum_I Z_I exp(i k R_I)``.
    repulsion : float
        Constant of the energy of the electrons among themselves: their images and the average of the short part, hartree.
    attraction : float
        Constant of the energy of electrons and ions, hartree.
    most_wave : int
        Largest number of a reciprocal vector in `waves`.
    slots : int
        Ions with nonlocal pseudopotentials in whose ranges an electron can be at once, at most.
    """

    mass: float
    charge: NDArray[np.float64]
    potential: NDArray[np.int64]
    local: NDArray[np.float64]
    reach: NDArray[np.float64]
    delta: NDArray[np.float64]
    channels: NDArray[np.int64]
    cutoff: NDArray[np.float64]
    points: NDArray[np.float64]
    weights: NDArray[np.float64]
    images: NDArray[np.float64]
    pair: NDArray[np.float64]
    pair_reach: float
    waves: NDArray[np.int64]
    inverse: NDArray[np.float64]
    weight: NDArray[np.float64]
    ions: NDArray[np.float64]
    repulsion: float
    attraction: float
    most_wave: int
    slots: int


class CrystalWork(NamedTuple):
    """Work space of one CPU thread.

    Attributes
    ----------
    rows : (5, M) of the determinants' type
        Of a proposed position.
    column : (M,) of that type
    sums : (17, >= C) real
        Values, gradients and Laplacians of the channels; of a mixed basis, those in a tin, harmonics and weights, too.
    w : (3, 3, 4) real
        Weights of a spline by axis and derivative.
    Q : (3, 3) float64
        A rotation.
    factors : (8,) float64
        Of the angular momenta of a pseudopotential.
    J : (N, 4) float64
        Gradient and Laplacian of the Jastrow exponent for each electron.
    targets : (N, points, 4) float64
        Points of the nonlocal potential and its value there.
    counts : (N,) int64
        Points of each electron.
    powers : (3, 2 m + 1, 2) float64
        Powers of ``exp(i b r)`` by axis.
    rho : (n, 2) float64
        Waves of the density.
    matrix, fresh, identity : (M, M) double or complex double
        For inversions.
    kept : (2, window, M) of the determinants' type
        Columns and rows of delayed updates, see :mod:`qsim.qmc.kernels.common.inverses_cpu`.
    """

    rows: NDArray[np.inexact]
    column: NDArray[np.inexact]
    sums: NDArray[np.floating]
    w: NDArray[np.floating]
    Q: NDArray[np.float64]
    factors: NDArray[np.float64]
    J: NDArray[np.float64]
    targets: NDArray[np.float64]
    counts: NDArray[np.int64]
    powers: NDArray[np.float64]
    rho: NDArray[np.float64]
    matrix: NDArray[np.inexact]
    fresh: NDArray[np.inexact]
    identity: NDArray[np.inexact]
    kept: NDArray[np.inexact]


def basis_of(orbitals: CrystalOrbitals) -> tuple[int, ...]:
    """Return a tuple whose length is the basis of orbitals, which is how kernels get a number that their compiler knows."""
    basis = SPLINES
    if orbitals.is_wave:
        basis = WAVES
    elif orbitals.tin_centre.shape[0] > 0:
        basis = MIXED
    return (1,) * basis


def crystal_work_space(
    state: State, orbitals: CrystalOrbitals, hamiltonian: CrystalHamiltonian
) -> CrystalWork:
    """Return work space for walkers in a crystal."""
    N, M, kind = state.R.shape[1], state.inverse.shape[2], state.rows.dtype
    real = np.zeros(0, kind).real.dtype
    double = np.complex128 if kind.kind == "c" else np.float64
    channels = int((orbitals.channel + orbitals.parts).max(initial=1))
    points = len(hamiltonian.points) * len(hamiltonian.images) * len(hamiltonian.charge)
    most = hamiltonian.most_wave
    return CrystalWork(
        rows=np.zeros((5, M), kind),
        column=np.zeros(M, kind),
        sums=np.zeros((17, max(6, channels + 1, (orbitals.tin_lmax + 1) ** 2)), real),
        w=np.zeros((3, 3, 4), real),
        Q=np.zeros((3, 3)),
        factors=np.zeros(8),
        J=np.zeros((N, 4)),
        targets=np.zeros((N, max(1, points), 4)),
        counts=np.zeros(N, np.int64),
        powers=np.zeros((3, 2 * most + 1, 2)),
        rho=np.zeros((max(1, len(hamiltonian.waves)), 2)),
        matrix=np.zeros((M, M), double),
        fresh=np.zeros((M, M), double),
        identity=np.zeros((M, M), double),
        kept=np.zeros((2, WINDOW, M), kind),
    )


def scratch_of(electrons: int, hamiltonian: CrystalHamiltonian, orbitals: int, is_complex: bool) -> int:
    """Return the numbers of scratch of a walker on a GPU: waves and points of the nonlocal potential, or a Slater matrix."""
    points = electrons * hamiltonian.slots * (HEAD + 5 * hamiltonian.points.shape[0])
    waves = electrons * (6 * (hamiltonian.most_wave + 1) + 1)
    most = max(waves + points, (1 + int(is_complex)) * orbitals**2)
    return most + most % 2  # even, for complex numbers
