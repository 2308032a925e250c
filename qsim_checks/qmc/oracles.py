r"""Known energies of small systems, found without the code that samples them.

Expectation values of trial functions are closed forms or one-dimensional integrals; ground-state energies are eigenvalues in
closed form, of a radial equation, or of the literature.  Hartree atomic units.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import numpy as np

from qsim.qmc.system.cell import Cell
from qsim.qmc.system.ewald import ewald_energy, madelung

__all__ = [
    "IONS",
    "MOLECULE",
    "Means",
    "bloch_pair",
    "electron_gas",
    "hydrogen_ion",
    "ion_pair",
    "molecular_ion",
    "oscillators",
    "over_twists",
    "pair",
    "pseudo_atom",
]

IONS = {1: -0.527751016544, 2: -2.903724377034, 3: -7.279913412669, 4: -13.655566238424}
"""Ground states of two electrons around a nucleus of charge Z (Drake, Yan; Frolov), clamped nucleus."""
MOLECULE = -0.602634214494946
"""Ground state of H2+ at 2 bohr, repulsion of the protons included (exactly separable; Madsen and Peek)."""

Density = Callable[[float], float]
Mesh = Callable[[tuple[int, int, int]], np.ndarray]


@dataclass(frozen=True)
class Means:
    """Known properties of a trial function and of the ground state with its nodes.

    Attributes
    ----------
    trial
        Means over the square of the trial function by scalar name: ``kinetic``, ``energy``, ..., ``variance``.
    ground
        Energy that diffusion must give; NaN where nobody knows it.
    scale
        Energy (hartree) that sets the time scale.
    density
        By estimator: the mean number of electrons or pairs per length of r, normalised to their number; of the trial function.
    exact
        True if the trial function is the ground state: no statistical error at all.
    mesh
        Of a crystal: the density of one spin, averaged over each cell of a mesh of these sizes, bohr^-3.
    structure
        Of a crystal: the structure factor at the waves, by their lengths (1/bohr), where it is not 1.
    """

    trial: Mapping[str, float]
    ground: float
    scale: float
    density: Mapping[str, Density] = field(default_factory=dict)
    exact: bool = False
    mesh: Mesh | None = None
    structure: Mapping[float, float] = field(default_factory=dict)


def hydrogen_ion(Z: float, n: int, l: int, zeta: float) -> Means:
    r"""Return the means of one electron in :math:`r^{n-1}e^{-\zeta r}Y_{lm}` around a charge Z.

    With :math:`\langle r^{-1}\rangle=\zeta/n` and :math:`\langle r^{-2}\rangle=2\zeta^2/(n(2n-1))`.
    """
    inverse, square = zeta / n, 2.0 * zeta**2 / (n * (2 * n - 1))
    # (u')^2 with u = r^n exp(-zeta r), and the centrifugal part
    kinetic = 0.5 * (n * n * square - 2.0 * n * zeta * inverse + zeta**2 + l * (l + 1) * square)
    local = -Z * inverse
    trial = {"kinetic": kinetic, "local_pp": local, "energy": kinetic + local}
    if l == n - 1:  # E_L = -zeta^2 / 2 + (n zeta - Z) / r
        trial["variance"] = (n * zeta - Z) ** 2 * (square - inverse**2)
    norm = (2.0 * zeta) ** (2 * n + 1) / math.factorial(2 * n)

    def density(r: float) -> float:
        return norm * r ** (2 * n) * math.exp(-2.0 * zeta * r)

    ground = -(Z**2) / (2.0 * (l + 1) ** 2)
    return Means(
        trial, ground, Z**2 / (l + 1), {"radial_up": density}, exact=abs(n * zeta - Z) < 1e-12 and l == n - 1
    )


def ion_pair(Z: int, zeta: float) -> Means:
    """Return the means of ``exp(-zeta (r1 + r2))`` around a charge Z (Hylleraas)."""
    trial = {"kinetic": zeta**2, "local_pp": -2.0 * Z * zeta, "electron_electron": 0.625 * zeta}
    trial["energy"] = sum(trial.values())

    def density(r: float) -> float:
        return 4.0 * zeta**3 * r * r * math.exp(-2.0 * zeta * r)

    return Means(trial, IONS[Z], float(Z * Z), {"radial_up": density})


def molecular_ion(zeta: float, R: float = 2.0) -> Means:
    """Return the means of ``exp(-zeta r_a) + exp(-zeta r_b)`` for two protons at distance R (Finkelstein and Horowitz)."""
    x = zeta * R
    overlap = math.exp(-x) * (1.0 + x + x * x / 3.0)
    coulomb = (1.0 - math.exp(-2.0 * x) * (1.0 + x)) / R
    resonance = zeta * math.exp(-x) * (1.0 + x)
    kinetic = (0.5 * zeta**2 * (1.0 - overlap) + zeta * resonance) / (1.0 + overlap)
    local = -(zeta + coulomb + 2.0 * resonance) / (1.0 + overlap)
    return Means({"kinetic": kinetic, "local_pp": local, "energy": kinetic + local + 1.0 / R}, MOLECULE, 1.0)


def oscillators(n_up: int, n_dn: int, omega: float, mass: float, alpha: float) -> Means:
    r"""Return the means of at most four particles of a spin in the lowest orbitals of :math:`e^{-\alpha r^2}`, without repulsion.

    The trial function is a homogeneous polynomial of degree K times a Gaussian, so that the sum of all :math:`r^2` is
    distributed as :math:`\Gamma(K+3N/2)` in units of :math:`1/2\alpha`, and the local energy is linear in it.
    """
    shape = sum(count * 1.5 + max(0, count - 1) for count in (n_up, n_dn))
    squares = shape / (2.0 * alpha)
    trial = {"kinetic": shape * alpha / mass, "external": 0.5 * mass * omega**2 * squares}
    trial["energy"] = trial["kinetic"] + trial["external"]
    trial["variance"] = (0.5 * mass * omega**2 - 2.0 * alpha**2 / mass) ** 2 * shape / (2.0 * alpha) ** 2
    density: dict[str, Density] = {}
    if (n_up, n_dn) == (1, 1):
        norm = 4.0 * math.pi * (alpha / math.pi) ** 1.5
        density["gofr_ud"] = lambda r: norm * r * r * math.exp(-alpha * r * r)
    exact = abs(alpha - 0.5 * mass * omega) < 1e-12 * alpha
    return Means(trial, omega * shape, omega, density, exact)


def expansion(omega: float, energies: np.ndarray, coefficients: np.ndarray) -> Means:
    r"""Return the means of a sum of determinants of eigenfunctions, without repulsion.

    Determinants are eigenfunctions of H, :math:`\langle H^n\rangle=\sum_kc_k^2E_k^n`; within one level so is their sum.

    Parameters
    ----------
    omega
        Of the trap, hartree.
    energies, coefficients : (D,) float64
        Of the determinants; hartree.
    """
    weights = coefficients**2 / (coefficients @ coefficients)
    energy = float(weights @ energies)
    variance = float(weights @ (energies - energy) ** 2)
    exact = bool(np.ptp(energies) < 1e-9 * omega)
    # Nodes of a sum over levels are those of no eigenfunction that is known.
    return Means({"energy": energy, "variance": variance}, energy if exact else math.nan, omega, {}, exact)


def pair(omega: float, mass: float, alpha: float, u: Callable[[np.ndarray], np.ndarray]) -> Means:
    r"""Return the means of two repelling particles of opposite spin in a trap, :math:`e^{-\alpha(r_1^2+r_2^2)-u(r_{12})}`.

    Parameters
    ----------
    omega, mass, alpha
        Trap and orbital.
    u
        Function of radii (3, n): called with r - h, r and r + h in its rows.

    Notes
    -----
    The centre of mass, of mass 2m, has a Gaussian of its own.  The relative motion, of reduced mass m/2, is integrated over
    :math:`r` by Gauss-Legendre quadrature with :math:`\ln\varphi=-\alpha r^2/2-u`; derivatives of u are differences.
    """
    nodes, weights = np.polynomial.legendre.leggauss(400)
    reach = 9.0 / math.sqrt(alpha)
    r = 0.5 * reach * (nodes + 1.0)
    h = 1e-4 * min(1.0, 1.0 / math.sqrt(alpha))
    below, here, above = u(np.stack([np.abs(r - h), r, r + h]))
    below = np.where(r > h, below, here)
    slope, curvature = (above - below) / (2.0 * h), (above - 2.0 * here + below) / h**2
    log = -0.5 * alpha * r * r - here
    density = 0.5 * reach * weights * r * r * np.exp(2.0 * (log - log.max()))
    norm = float(density.sum())
    density /= norm
    first, second = -alpha * r - slope, -alpha - curvature
    kinetic = -(second + 2.0 * first / r + first**2) / mass  # -nabla^2 phi / (2 mu phi), mu = m / 2
    external, repulsion = 0.25 * mass * omega**2 * r * r, 1.0 / r
    # of the centre of mass: exp(-2 alpha R^2), mass 2m
    centre_kinetic, centre_external = 1.5 * alpha / mass, 3.0 * mass * omega**2 / (8.0 * alpha)
    trial = {
        "kinetic": float(density @ kinetic) + centre_kinetic,
        "external": float(density @ external) + centre_external,
        "electron_electron": float(density @ repulsion),
    }
    trial["energy"] = sum(trial.values())
    local = kinetic + external + repulsion
    coefficient = mass * omega**2 - 4.0 * alpha**2 / mass  # of R^2 in the local energy
    centre_variance = coefficient**2 * 1.5 / (4.0 * alpha) ** 2
    mean = float(density @ local)
    trial["variance"] = float(density @ (local - mean) ** 2) + centre_variance
    peak = float(log.max())

    def by_length(s: float) -> float:
        values = u(np.full((3, 1), s))
        return float(s * s * np.exp(2.0 * (-0.5 * alpha * s * s - values[1, 0] - peak)) / norm)

    ground = _trapped_pair(omega, mass)
    return Means(trial, ground, omega, {"gofr_ud": by_length}, exact=trial["variance"] < 1e-9)


@cache
def _trapped_pair(omega: float, mass: float) -> float:
    """Return the energy of two repelling particles of opposite spin in a trap: radial equation on two grids, extrapolated."""
    from scipy.linalg import eigh_tridiagonal

    reach = 14.0 / math.sqrt(mass * omega)

    def lowest(points: int) -> float:
        r = reach * np.arange(1, points + 1) / (points + 1)
        h = float(r[0])
        diagonal = 2.0 / (mass * h * h) + 0.25 * mass * omega**2 * r * r + 1.0 / r
        values = eigh_tridiagonal(
            diagonal,
            np.full(points - 1, -1.0 / (mass * h * h)),
            eigvals_only=True,
            select="i",
            select_range=(0, 0),
        )
        return float(values[0])

    coarse, fine = lowest(1499), lowest(2999)  # the spacing is halved
    return 1.5 * omega + (4.0 * fine - coarse) / 3.0


def electron_gas(lattice: np.ndarray, twist: np.ndarray, n_up: int, n_dn: int) -> Means | None:
    r"""Return the means of determinants of the lowest plane waves of a cell; None if a shell is open.

    Each wave is an eigenfunction of the kinetic energy, and
    :math:`E_{ee}=N\xi/2-\frac{4\pi}V\sum_\sigma\sum_{i<j}|k_i-k_j|^{-2}`.
    """
    cell = Cell(lattice)
    steps = np.arange(-4, 5)
    m = np.stack(np.meshgrid(steps, steps, steps, indexing="ij"), -1).reshape(-1, 3)
    k = (m + twist) @ cell.reciprocal
    k = k[np.argsort((k * k).sum(1))]
    energies = 0.5 * (k * k).sum(1)
    kinetic, exchange = 0.0, 0.0
    for count in (n_up, n_dn):
        if count and energies[count] - energies[count - 1] < 1e-3 * energies[count]:
            return None
        kinetic += float(energies[:count].sum())
        for i in range(count):
            exchange -= 4.0 * math.pi / cell.volume * float((1.0 / ((k[:i] - k[i]) ** 2).sum(1)).sum())
    N = n_up + n_dn
    repulsion = 0.5 * N * madelung(cell) + exchange
    trial = {"kinetic": kinetic, "electron_electron": repulsion, "energy": kinetic + repulsion}
    return Means(trial, math.nan, float(energies[1]))


def bloch_pair(
    lattice: np.ndarray, twist: np.ndarray, places: np.ndarray, m: np.ndarray, share: float, phase: float
) -> Means:
    r"""Return the means of two electrons in one Bloch function among protons.

    Both spins are in :math:`(\sqrt{1-s}+\sqrt s\,e^{i\varphi}e^{iGr})e^{ikr}`, whose density has the one wave
    :math:`\rho_G=\sqrt{s(1-s)}e^{i\varphi}`:
    :math:`E_{ee}=\xi+\frac{8\pi}{VG^2}|\rho_G|^2`,
    :math:`E_\mathrm{loc}=-\frac{16\pi}{VG^2}\sum_I\mathrm{Re}\,\rho_Ge^{iGR_I}`.

    Parameters
    ----------
    lattice : (3, 3) float64
    twist : (3,) float64
        k in reciprocal vectors.
    places : (2, 3) float64
        Of the protons, bohr.
    m : (3,) int64
        G in reciprocal vectors.
    share, phase
        s and phi.
    """
    cell = Cell(lattice)
    G = m @ cell.reciprocal
    k = twist @ cell.reciprocal
    form = 4.0 * math.pi / (cell.volume * float(G @ G))
    wave = math.sqrt(share * (1.0 - share)) * np.exp(1j * phase)
    trial = {
        "kinetic": (1.0 - share) * float(k @ k) + share * float((k + G) @ (k + G)),
        "electron_electron": madelung(cell) + 2.0 * form * abs(wave) ** 2,
        "local_pp": -4.0 * form * float((wave * np.exp(1j * places @ G)).real.sum()),
    }
    trial["energy"] = sum(trial.values()) + ewald_energy(cell, np.ones(2), places)

    def mesh(sizes: tuple[int, int, int]) -> np.ndarray:
        """Average the density of one wave over cells: of each axis a sinc."""
        u = np.stack(np.meshgrid(*((np.arange(n) + 0.5) / n for n in sizes), indexing="ij"), -1)
        smooth = float(np.prod(np.sinc(np.asarray(m) / np.asarray(sizes))))
        wave_at = np.cos(2.0 * math.pi * (u @ m) + phase)
        return np.asarray((1.0 + 2.0 * abs(wave) * smooth * wave_at) / cell.volume)

    # the density of the mean is taken away: 1 - |<exp(iGr)>|^2
    structure = {float(np.linalg.norm(G)): 1.0 - abs(wave) ** 2}
    return Means(trial, math.nan, max(1.0, 0.5 * float(G @ G)), mesh=mesh, structure=structure)


def over_twists(means: Sequence[Means], weights: Sequence[float]) -> Means:
    """Return the averages over twists of means of the same waves."""
    shares = np.asarray(weights) / np.sum(weights)

    def average(values: Sequence[Any]) -> Any:
        return sum(share * one for share, one in zip(shares, values, strict=True))

    meshes = [one.mesh for one in means if one.mesh is not None]
    return Means(
        {name: average([one.trial[name] for one in means]) for name in means[0].trial},
        means[0].ground,
        max(one.scale for one in means),
        mesh=(lambda sizes: np.asarray(average([mesh(sizes) for mesh in meshes]))) if meshes else None,
        structure={k: average([one.structure[k] for one in means]) for k in means[0].structure},
    )


def pseudo_atom(
    charge: float,
    local: Callable[[np.ndarray], np.ndarray],
    s: Callable[[np.ndarray], np.ndarray],
    zeta: float,
) -> Means:
    r"""Return the means of one electron in :math:`e^{-\zeta r}` around a pseudopotential.

    The s channel acts on the trial function and on the ground state alone, so that both are those of one radial potential.

    Parameters
    ----------
    charge
        Of the ion.
    local, s
        Potentials of the local channel and of s, functions of radii, hartree.
    zeta
        Exponent, 1/bohr.
    """
    from scipy.integrate import quad
    from scipy.linalg import eigh_tridiagonal

    def density(r: float) -> float:
        return 4.0 * zeta**3 * r * r * math.exp(-2.0 * zeta * r)

    def mean(f: Callable[[float], float]) -> float:
        ends = (0.0, 0.5, 1.0, 2.0, 4.0, 8.0, 60.0 / zeta)
        return sum(
            quad(lambda r: density(r) * f(r), a, b, epsabs=1e-11)[0] for a, b in itertools.pairwise(ends)
        )

    def local_energy(r: float) -> float:
        return -0.5 * zeta**2 + zeta / r + float(s(np.array(r)))

    trial = {
        "kinetic": 0.5 * zeta**2,
        "local_pp": mean(lambda r: float(local(np.array(r)))),
        "nonlocal_pp": mean(lambda r: float(s(np.array(r)) - local(np.array(r)))),
    }
    trial["energy"] = sum(trial.values())
    trial["variance"] = mean(lambda r: (local_energy(r) - trial["energy"]) ** 2)

    def lowest(points: int) -> float:
        r = 60.0 / charge * np.arange(1, points + 1) / (points + 1)
        h = float(r[0])
        off = np.full(points - 1, -0.5 / h**2)
        return float(
            eigh_tridiagonal(1.0 / h**2 + s(r), off, eigvals_only=True, select="i", select_range=(0, 0))[0]
        )

    coarse, fine = lowest(3999), lowest(7999)
    return Means(trial, (4.0 * fine - coarse) / 3.0, 0.25 * charge**2, {"radial_up": density})
