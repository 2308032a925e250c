"""The arrays that kernels of crystals take, as named tuples (numba passes them as they are)."""

from __future__ import annotations

from typing import NamedTuple

from qsim.core.device.arrays import Array, FloatArray, IndexArray, RealArray

__all__ = [
    "MIXED",
    "SPLINES",
    "WAVES",
    "CrystalHamiltonian",
    "CrystalOrbitals",
    "CrystalWork",
    "basis_of",
    "scratch_of",
]

WAVES, SPLINES, MIXED = 1, 2, 3  # bases of orbitals; MIXED: muffin tins in splines
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

    atom: FloatArray
    reduced: FloatArray
    unreduce: FloatArray
    near: FloatArray
    radius2: float
    primitive: FloatArray
    metric: FloatArray
    table: RealArray
    channel: IndexArray
    parts: IndexArray
    kappa: FloatArray
    is_wave: int
    has_phase: int
    is_complex: int
    unit: Array
    tin_centre: FloatArray
    tin_near: FloatArray
    tin_reduced: FloatArray
    tin_unreduce: FloatArray
    tin_inner: float
    tin_outer: float
    tin_lmax: int
    tin_table: RealArray
    owner: IndexArray


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
    charge: FloatArray
    potential: IndexArray
    local: FloatArray
    reach: FloatArray
    delta: FloatArray
    channels: IndexArray
    cutoff: FloatArray
    points: FloatArray
    weights: FloatArray
    images: FloatArray
    pair: FloatArray
    pair_reach: float
    waves: IndexArray
    inverse: FloatArray
    weight: FloatArray
    ions: FloatArray
    repulsion: float
    attraction: float
    most_wave: int
    slots: int


class CrystalWork(NamedTuple):
    """Work space of one CPU thread for orbitals and potentials in crystals.

    Attributes
    ----------
    sums : (17, C) real
        Values, gradients and Laplacians of all channels; the rows below are for muffin tins, see `bloch_cpu.mixed_sums`.
    w : (3, 3, 4) real
        Weights of splines.
    powers : (3, 2 m + 1, 2) float64
        Powers of ``exp(i b r)`` by axis.
    rho : (n, 2) float64
        Waves of the density.
    """

    sums: RealArray
    w: RealArray
    powers: FloatArray
    rho: FloatArray


def basis_of(orbitals: CrystalOrbitals) -> tuple[int, ...]:
    """Return a tuple whose length is the basis of orbitals, which is how kernels get a number that their compiler knows."""
    basis = SPLINES
    if orbitals.is_wave:
        basis = WAVES
    elif orbitals.tin_centre.shape[0] > 0:
        basis = MIXED
    return (1,) * basis


def scratch_of(electrons: int, hamiltonian: CrystalHamiltonian, orbitals: int, is_complex: bool) -> int:
    """Return the numbers of scratch of a walker on a GPU: waves and points of the nonlocal potential, or a Slater matrix."""
    points = electrons * hamiltonian.slots * (HEAD + 5 * hamiltonian.points.shape[0])
    waves = electrons * (6 * (hamiltonian.most_wave + 1) + 1)
    most = max(waves + points, (1 + int(is_complex)) * orbitals**2)
    return most + most % 2  # even, for complex numbers
