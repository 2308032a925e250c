r"""The Jastrow factor ``exp(-J)``: functions of one distance, their parameters, their cusps.

``J = sum_(i<j) u(r_ij) + sum_(iI) chi_I(r_iI)``, with u of equal or opposite spins and chi of each species of ions.  Forms:

``bspline``
    Cubic B-spline with n parameters p_0 ... p_(n-1) on [0, rcut), in QMCPACK's parametrisation: h = rcut / (n + 1), n + 4
    coefficients ``p_1 - 2 h cusp, p_0, p_1, ..., p_(n-1), 0, 0, 0``.  So ``u'(0) = cusp`` exactly, whatever the parameters,
    and u, u', u'' vanish at rcut.
``pade``
    ``-a r / (1 + b r)`` with ``a = -cusp`` and the parameter b.
``log1p``
    ``-log(1 + a r)`` with ``a = -cusp`` and no parameter: exact for Hooke's atom.

Where two electrons meet, ``psi ~ 1 + r/2`` for opposite and ``1 + r/4`` for equal spins (Kato), so the cusps of u are -1/2 and
-1/4; for particles of mass m they are m times that.  At a bare nucleus, chi takes what the orbitals leave of the condition
``d log psi / dr = -Z``: chi'(0) = Z - (logarithmic slope of the orbitals); nothing at a pseudopotential.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from qsim.core.errors import InvalidInput
from qsim.qmc.kernels.common.types import JastrowTables

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from qsim.qmc.deck import jastrow as blocks
    from qsim.qmc.system.cell import Cell
    from qsim.qmc.system.ions import System

__all__ = ["FIRST_CHI", "NONE", "Function", "Jastrow", "build_jastrow"]

KINDS = {"none": 0, "bspline": 1, "pade": 2, "log1p": 3}
FIRST_CHI = 2  # functions: equal spins, opposite spins, then one for each species
EQUAL, OPPOSITE = -0.25, -0.5  # cusps of u
NODES = 16  # of a quadrature within an interval of a B-spline
MOST_B = 1.0  # 1/bohr: range of the pair function that an optimisation starts from


@dataclass(frozen=True)
class Function:
    """One function of a distance.

    Attributes
    ----------
    name
        ``uu``, ``ud``, or the symbol of the species.
    kind
        ``bspline``, ``pade``, ``log1p`` or ``none``.
    cusp
        Slope at 0, 1/bohr.
    parameters
        p_0 ... of a B-spline, (b,) of a Padé form, () of the others.
    rcut
        Radius from which a B-spline is zero, bohr.
    """

    name: str
    kind: str = "none"
    cusp: float = 0.0
    parameters: tuple[float, ...] = ()
    rcut: float = 0.0

    @property
    def h(self) -> float:
        """Spacing of the knots of a B-spline, bohr."""
        return self.rcut / (len(self.parameters) + 1)

    @cached_property
    def design(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Matrix A (n + 4, n) and vector b (n + 4,) with B-spline coefficients ``A p + b``; A are their derivatives."""
        n = len(self.parameters)
        A = np.zeros((n + 4, n))
        A[np.arange(1, n + 1), np.arange(n)] = 1.0
        # u'(0) = (c_2 - c_0) / 2h = cusp: the first coefficient follows from the third, so
        # that the slope at zero is exact for all parameters.
        A[0, 1] = 1.0
        b = np.zeros(n + 4)
        b[0] = -2.0 * self.h * self.cusp
        return A, b

    @property
    def spline(self) -> NDArray[np.float64]:
        """Coefficients of the B-spline, (n + 4,); empty for the other forms."""
        if self.kind != "bspline":
            return np.zeros(0)
        A, b = self.design
        return A @ np.array(self.parameters) + b

    @property
    def pade(self) -> tuple[float, float]:
        """The numbers a and b of the closed forms."""
        # The closed forms have a = -cusp; the range parameter b is free.
        if self.kind in ("none", "bspline"):
            return 0.0, 0.0
        return -self.cusp, self.parameters[0] if self.parameters else 0.0

    def jet(self, r: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return u, u', u'' at radii (n,), as (3, n) float64."""
        r = np.asarray(r, np.float64)
        if self.kind == "bspline":
            basis = self.basis(r)
            return np.asarray(basis @ self.spline)
        a, b = self.pade
        if self.kind == "pade":
            q = 1.0 / (1.0 + b * r)
            return np.stack([-a * r * q, -a * q**2, 2 * a * b * q**3])
        if self.kind == "log1p":
            q = a / (1.0 + a * r)
            return np.stack([-np.log1p(a * r), -q, q**2])
        return np.zeros((3, *r.shape))

    def basis(self, r: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return value, slope and curvature of each of the n + 4 B-splines at radii (n,): (3, n, n + 4) float64."""
        inside = r < self.rcut
        x = np.where(inside, r / self.h, 0.0)
        # A radius that rounds up to the last knot belongs to the last interval.
        i = np.minimum(np.floor(x).astype(np.int64), len(self.parameters))
        t = x - i
        s = 1.0 - t
        # Basis functions of cubic B-splines: value, slope and curvature by t.
        weights = np.array(
            [
                [s**3 / 6, (3 * t**3 - 6 * t**2 + 4) / 6, (3 * s**3 - 6 * s**2 + 4) / 6, t**3 / 6],
                [-(s**2) / 2, (3 * t**2 - 4 * t) / 2, (4 * s - 3 * s**2) / 2, t**2 / 2],
                [s, 3 * t - 2, 3 * s - 2, t],
            ]
        )
        out = np.zeros((3, r.size, len(self.parameters) + 4))
        for k in range(4):
            for d in range(3):
                out[d, np.arange(r.size), i + k] = weights[d, k] * inside / self.h**d
        return out

    def wave(self, k: float) -> float:
        r"""Return the Fourier transform :math:`4\pi\int r\sin(kr)u(r)dr/k` at a wave number k > 0 (1/bohr), bohr^3.

        Raises
        ------
        ValueError
            If the function has no range.
        """
        if self.kind == "none":
            return 0.0
        if self.kind != "bspline":
            raise ValueError(f"function {self.name} of type {self.kind} has no range")
        # Gauss and Legendre within each interval, where u is a cubic: exact but for sin(kr).
        x, w = np.polynomial.legendre.leggauss(NODES)
        edges = self.h * np.arange(len(self.parameters) + 1)
        r = (edges[:, None] + 0.5 * self.h * (x + 1.0)).ravel()
        weights = np.tile(0.5 * self.h * w, edges.size)
        return float(4.0 * np.pi / k * (weights * r * np.sin(k * r) * self.jet(r)[0]).sum())

    def with_parameters(self, values: Sequence[float]) -> Function:
        """Return the function with other parameters."""
        if len(values) != len(self.parameters):
            raise ValueError(
                f"function {self.name} has {len(self.parameters)} parameters, found {len(values)}"
            )
        return replace(self, parameters=tuple(float(v) for v in values))


NONE = Function("")


@dataclass(frozen=True)
class Jastrow:
    """All functions: equal spins, opposite spins, then one for each species.

    Attributes
    ----------
    functions : (2 + species,) of Function
    species : (A,) int64
        Of each atom.
    n_up
        Electrons with spin up: they come first.
    cell
        Of a crystal, where distances are those of nearest images.
    """

    functions: tuple[Function, ...]
    species: NDArray[np.int64]
    n_up: int
    cell: Cell | None = None

    @property
    def parameters(self) -> NDArray[np.float64]:
        """All parameters, function by function."""
        return np.array([p for function in self.functions for p in function.parameters], np.float64)

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the parameters, ``"ud_3"``."""
        return tuple(
            f"{function.name}_{k}" for function in self.functions for k in range(len(function.parameters))
        )

    def slices(self) -> list[slice]:
        """Return the places of each function's parameters in the vector."""
        # Parameters of all functions lie one after another in the vector that is optimised.
        ends = np.cumsum([0, *(len(function.parameters) for function in self.functions)])
        return [slice(int(a), int(b)) for a, b in itertools.pairwise(ends)]

    def with_parameters(self, values: NDArray[np.float64]) -> Jastrow:
        """Return the factor with other parameters (as many as `parameters`)."""
        values = np.asarray(values, np.float64)
        if values.shape != self.parameters.shape:
            raise ValueError(
                f"{self.parameters.size} parameters wanted, found an array of shape {values.shape}"
            )
        parts = zip(self.functions, self.slices(), strict=True)
        return replace(self, functions=tuple(f.with_parameters(values[place].tolist()) for f, place in parts))

    def coefficients(self) -> dict[str, list[float]]:
        """Return the parameters by function, as a deck takes them."""
        return {
            function.name: list(function.parameters) for function in self.functions if function.parameters
        }

    def tables(self) -> JastrowTables:
        """Return the arrays for the kernels; one more zero than needed ends each row, for radii that round up to rcut."""
        # A row has at least five numbers, so that kernels may read four coefficients of any
        # function.
        width = max([f.spline.size for f in self.functions], default=0) + 1
        spline = np.zeros((len(self.functions), max(width, 5)))
        for row, function in zip(spline, self.functions, strict=True):
            row[: function.spline.size] = function.spline
        return JastrowTables(
            kind=np.array([KINDS[f.kind] for f in self.functions], np.int64),
            spline=spline,
            inverse_h=np.array([1.0 / f.h if f.kind == "bspline" else 0.0 for f in self.functions]),
            rcut=np.array([f.rcut for f in self.functions]),
            pade=np.array([f.pade for f in self.functions]),
            species=self.species,
        )

    def pair_wave(self, k: float, electrons: int) -> float | None:
        """Return the Fourier transform of the pair functions at k (1/bohr), mean over all pairs, bohr^3; None without any."""
        equal, opposite = self.functions[:FIRST_CHI]
        if equal.kind == opposite.kind == "none":
            return None
        # Fraction of pairs with equal spins, without the correction of order 1/N.
        up = self.n_up / electrons
        same = up**2 + (1.0 - up) ** 2
        return same * equal.wave(k) + (1.0 - same) * opposite.wave(k)

    # ------------------------------------------------------------------------------ reference

    def _distances(
        self, R: NDArray[np.float64], centres: NDArray[np.float64]
    ) -> list[tuple[Function, NDArray[np.int64], NDArray[np.float64], float]]:
        """Return each function with its electrons (p,), vectors to them (p, 3), and share of J: pairs occur twice."""
        up = np.arange(len(R)) < self.n_up
        # A plain reference of the kernels: all pairs by NumPy, each from both ends.
        same = up[:, None] == up
        np.fill_diagonal(same, val=False)
        between, to_ions = R[:, None] - R, R[:, None] - centres
        if self.cell is not None:
            between, to_ions = self.cell.nearest(between), self.cell.nearest(to_ions)
        found = []
        for f, function in enumerate(self.functions):
            if function.kind == "none":
                continue
            if f < FIRST_CHI:
                i, j = np.nonzero(same if f == 0 else up[:, None] != up)
                found.append((function, i, between[i, j], 0.5))
            else:
                i, j = np.nonzero(np.broadcast_to(self.species == f - FIRST_CHI, to_ions.shape[:2]))
                found.append((function, i, to_ions[i, j], 1.0))
        return found

    def value(self, R: NDArray[np.float64], centres: NDArray[np.float64]) -> float:
        """Return J of one configuration (N, 3) with ions at ``centres`` (A, 3)."""
        parts = self._distances(R, centres)
        return float(sum(share * f.jet(np.sqrt((d * d).sum(1)))[0].sum() for f, _, d, share in parts))

    def of_electron(
        self, R: NDArray[np.float64], e: int, points: NDArray[np.float64], centres: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        """Return the part of J with electron e, if it were at points (Q, 3): (Q,)."""
        # One electron at many points, as the nonlocal potential needs it.
        others = np.delete(R, e, axis=0)
        up = np.delete(np.arange(len(R)) < self.n_up, e)
        which = np.where(up == (e < self.n_up), 0, 1)
        d = points[:, None] - np.concatenate([others, centres])
        if self.cell is not None:
            d = self.cell.nearest(d)
        r = np.sqrt((d * d).sum(-1))
        kinds = np.concatenate([which, FIRST_CHI + self.species])
        total = np.zeros(len(points))
        for f, function in enumerate(self.functions):
            mine = r[:, kinds == f]
            if function.kind != "none" and mine.size:
                total += function.jet(mine.ravel())[0].reshape(mine.shape).sum(1)
        return total

    def derivatives(
        self, R: NDArray[np.float64], centres: NDArray[np.float64]
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return the gradient (N, 3) of J and its Laplacian by electron (N,)."""
        gradient, laplacian = np.zeros_like(R), np.zeros(len(R))
        for function, electron, d, _ in self._distances(R, centres):
            r = np.sqrt((d * d).sum(1))
            _, slope, curvature = function.jet(r)
            # grad u = u' r / |r|; lap u = u'' + 2 u' / r.
            np.add.at(gradient, electron, (slope / r)[:, None] * d)
            np.add.at(laplacian, electron, curvature + 2.0 * slope / r)
        return gradient, laplacian


def build_jastrow(block: blocks.Jastrow, system: System, slopes: Mapping[str, float]) -> Jastrow:
    """Build the Jastrow factor of a deck.

    Parameters
    ----------
    block
        The deck's ``jastrow``.
    system
        Ions and electrons.
    slopes
        By symbol of bare nuclei: the logarithmic slope that the orbitals have there already, 1/bohr.

    Raises
    ------
    InvalidInput
        Unknown functions among the coefficients, too few of them, forms that are not possible.
    """
    pairs = {
        "uu": (system.n_up > 1 or system.n_dn > 1, EQUAL),
        "ud": (min(system.n_up, system.n_dn) > 0, OPPOSITE),
    }
    functions = []
    for name, (occurs, cusp) in pairs.items():
        if not occurs or block.J2 is None:
            functions.append(Function(name))
        else:
            # The cusp condition scales with the mass; particles that do not interact have
            # none.
            slope = cusp * system.mass if system.interacting else 0.0
            functions.append(_function(block.J2, name, slope, "wavefunction.jastrow.J2", start=True))
    if block.J1 is not None:
        _refuse_absent_species(block.J1, system)
    for symbol in system.species:
        if block.J1 is None or symbol == "":
            functions.append(Function(symbol))
        else:
            cusp = _slope(block.J1, symbol, system, slopes)
            functions.append(_function(block.J1, symbol, cusp, "wavefunction.jastrow.J1", start=False))
    return Jastrow(tuple(functions), system.species_of_atom, system.n_up)


def _slope(block: blocks.OneBody, symbol: str, system: System, slopes: Mapping[str, float]) -> float:
    """Return the slope of J at the ions of a species: as given, or Kato's Z less what the orbitals have, 1/bohr."""
    given = block.cusp.get(symbol) if isinstance(block.cusp, dict) else block.cusp
    if given is not None and given != "auto":
        return given
    # Pseudopotentials are finite at the ion: no cusp.
    if not system.is_bare(symbol):
        return 0.0
    return float(system.charges[system.symbols.index(symbol)]) - slopes.get(symbol, 0.0)


def _refuse_absent_species(block: blocks.OneBody, system: System) -> None:
    for symbol in block.coefficients:
        if symbol not in system.species:
            raise InvalidInput(
                f"wavefunction.jastrow.J1.coefficients.{symbol}",
                f"unknown function '{symbol}'; there are the species of the system ({', '.join(system.species)})",
            )


def _function(
    block: blocks.OneBody | blocks.PairBody, name: str, cusp: float, key: str, *, start: bool
) -> Function:
    """Return one function of a block with its cusp; `start` gives pair functions a fair start."""
    given = next((values for which, values in block.coefficients.items() if which == name), None)
    if block.type == "bspline":
        if block.rcut is None:
            raise InvalidInput(
                f"{key}.rcut",
                "a B-spline Jastrow function in open boundaries needs its range rcut > 0, in bohr",
            )
        # Coefficients that are given say how many there are.
        count = block.size if given is None else len(given)
        if count < 2:
            raise InvalidInput(
                f"{key}.size", f"a B-spline Jastrow function needs at least 2 coefficients, found {count}"
            )
        if "size" in block.model_fields_set and count != block.size:
            raise InvalidInput(
                f"{key}.coefficients.{name}", f"size is {block.size}, but there are {count} coefficients"
            )
        function = Function(name, block.type, cusp, (0.0,) * count, block.rcut)
        if given is not None:
            return function.with_parameters(given)
        # Zero parameters with a cusp would make a function that oscillates.
        return _started(function) if start and cusp != 0.0 else function
    if block.type == "log1p":
        return Function(name, block.type, cusp)
    # a of the Pade form is the cusp: without one it is zero for any b.
    if cusp == 0.0:
        raise InvalidInput(
            f"{key}.type",
            f"the Padé form of '{name}' vanishes, because there is no cusp for it to make; use bspline or leave it out",
        )
    b = block.b if given is None else given[0]
    if b is not None and b < 0.0:
        raise InvalidInput(f"{key}.b", f"b of a Padé function must not be negative, found {b:g}")
    return Function(name, block.type, cusp, (1.0 if b is None else b,))


def _started(function: Function) -> Function:
    """Give a pair function the parameters closest to ``a / (b (1 + b r)) (1 - r/rcut)^3``, a fair start with the right cusp."""
    rcut = function.rcut
    # The target's slope at zero is -a (1 + 3 / (b rcut)), the cusp; the cubic factor ends it
    # smoothly at rcut.
    a = -function.cusp / (1.0 + 3.0 / (MOST_B * rcut))
    r = np.linspace(0.0, rcut, 8 * len(function.parameters), endpoint=False)
    target = a / (MOST_B * (1.0 + MOST_B * r)) * (1.0 - r / rcut) ** 3
    A, b = function.design
    values = function.basis(r)[0]
    parameters = np.linalg.lstsq(values @ A, target - values @ b, rcond=None)[0]
    return function.with_parameters(parameters.tolist())
