r"""Orbitals of crystals: bands of a primitive cell by plane waves, the choice of those that a supercell has, their splines.

A band is :math:`\phi(r)=\sum_Gc_Ge^{2\pi i(\kappa+G)u}` with :math:`r=uA` and :math:`\sum|c_G|^2=1`, so its mean square over the
cell is 1.  The supercell :math:`A_s=TA` with the twist :math:`\theta` has the k points with :math:`T\kappa-\theta` whole, det T
of them.  If :math:`2\theta` is whole they come as :math:`\pm\kappa`, and real orbitals span the same space: real and imaginary
parts of :math:`\phi_\kappa`; at :math:`2\kappa` whole, real combinations within each level.  Otherwise determinants are complex.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from qsim.core.errors import InvalidInput
from qsim.qmc.kernels.crystal.types import CrystalOrbitals
from qsim.qmc.wavefunction.crystals.bands import Crystal, KPoint
from qsim.qmc.wavefunction.crystals.bsplines import (
    PADDING,
    Function,
    kinetic_error,
    mesh_for,
    spline_coefficients,
)
from qsim.qmc.wavefunction.crystals.muffin_tins import NO_TINS, MuffinTins

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from numpy.typing import ArrayLike, DTypeLike, NDArray

    from qsim.qmc.system.cell import Cell

__all__ = [
    "BlochOrbitals",
    "Crystal",
    "Function",
    "KPoint",
    "is_real_twist",
    "mesh_for",
    "occupied_bands",
    "occupied_waves",
]

SAME_K = 1e-5  # of a reciprocal vector: k points that agree
SAME_LEVEL = 1e-4  # hartree: bands that may be mixed
RANK = 0.3  # of the largest singular value: what a real combination of a whole level keeps at least
DEGENERATE = 1e-5  # hartree: an occupied and an empty level that are one


def is_real_twist(twist: ArrayLike) -> bool:
    """Tell whether real orbitals exist: all components are 0 or 1/2, modulo 1."""
    doubled = 2.0 * np.asarray(twist, np.float64)
    return bool(np.all(np.abs(doubled - np.rint(doubled)) < SAME_K))


def _words(vector: NDArray[np.float64]) -> str:
    return "(" + ", ".join(f"{x + 0.0:.5g}" for x in vector) + ")"


# ---------------------------------------------------------------------------------------- selection


def _folded(crystal: Crystal, tile: NDArray[np.int64], twist: NDArray[np.float64]) -> list[KPoint]:
    """Return the k points of the file, or their opposites, that belong to a supercell and twist."""
    found: list[KPoint] = []
    for point in crystal.kpoints:
        # A k point belongs to the supercell if T kappa = twist modulo 1. Time reversal gives
        # the opposite one from the same file.
        for one in (point, point.reversed):
            rest = tile @ one.kappa - twist
            if np.abs(rest - np.rint(rest)).max() > SAME_K:
                continue
            if not any(_same(one.kappa, other.kappa) for other in found):
                found.append(one)
    # det T primitive cells have as many k points.
    wanted = round(abs(float(np.linalg.det(tile))))
    if len(found) != wanted:
        present = sorted(
            {_words(np.round(tile @ k.kappa - np.rint(tile @ k.kappa), 6)) for k in crystal.kpoints}
        )
        raise InvalidInput(
            "system.twist" if not found else "system.tilematrix",
            f"a supercell of {wanted} primitive cells with the twist {_words(twist)} needs {wanted} k points with "
            f"T kappa = twist modulo 1; {crystal.origin} has {len(found)} of them among its {len(crystal.kpoints)}, whose "
            f"twists of this supercell are {', '.join(present[:12])}{' ...' if len(present) > 12 else ''}",
        )
    return found


def _same(a: NDArray[np.float64], b: NDArray[np.float64]) -> bool:
    rest = a - b
    return bool(np.abs(rest - np.rint(rest)).max() < SAME_K)


def occupied_bands(
    crystal: Crystal,
    tile: NDArray[np.int64],
    twist: NDArray[np.float64],
    counts: tuple[int, int],
    notes: list[str],
) -> list[list[Function]]:
    """Return the Bloch functions of the lowest levels, for one or two spins, that hold the electrons.

    Parameters
    ----------
    crystal
        Bands of the primitive cell.
    tile : (3, 3) int64
        Supercell: ``A_s = T A``.
    twist : (3,) float64
        In reciprocal vectors of the supercell.
    counts
        Electrons with spin up and down.
    notes
        Takes warnings.

    Raises
    ------
    InvalidInput
        If k points or bands are missing.
    """
    # All functions of all k points in the order of their energies; the lowest ones are
    # filled, spin by spin.
    points = _folded(crystal, tile, twist)
    real = is_real_twist(twist)
    out = []
    for spin in range(crystal.spins):
        functions = [f for point in _chosen(points, real) for f in _functions(point, spin, real)]
        functions.sort(key=lambda f: f.energy)
        # One set of orbitals for both spins: the larger number needs them.
        count = counts[spin] if crystal.spins == 2 else max(counts)
        out.append(_lowest(functions, count, real, crystal.origin))
        for number in {counts[spin]} if crystal.spins == 2 else set(counts):
            _warn_of_open_shell(functions, number, real, notes)
    return out


def _chosen(points: list[KPoint], real: bool) -> list[KPoint]:
    """Return one of each pair of opposite k points for real orbitals, else all."""
    if not real:
        return points
    kept: list[KPoint] = []
    for point in points:
        # psi_-k is the conjugate of psi_k: its real and imaginary parts are those of psi_k.
        if not any(_same(point.kappa, -other.kappa) for other in kept):
            kept.append(point)
    return kept


def _functions(point: KPoint, spin: int, real: bool) -> list[Function]:
    kappa, energies = point.kappa, point.energies[spin]
    if real and is_real_twist(kappa):
        # A k point that is its own opposite: its bands can be made real, one orbital each.
        return _real_functions(point, spin)
    return [
        Function(
            kappa,
            point.gvectors,
            point.coefficients[spin, b],
            2,
            float(energies[b]),
            point.kinetic_of(spin, b),
        )
        for b in range(len(energies))
    ]


def _real_functions(point: KPoint, spin: int) -> list[Function]:
    """Return real orbitals that span the levels of a k point with ``2 kappa`` whole.

    With ``c*_(-G-2 kappa) = c_G`` a band is real.  Real and imaginary parts of the bands of a level span it twice; the largest
    singular vectors are a basis.
    """
    energies = point.energies[spin]
    order = np.argsort(energies, kind="stable")
    # Coefficients of the conjugate function lie at -G - 2 kappa; both sets of waves in one
    # list.
    opposite = -point.gvectors - np.rint(2.0 * point.kappa).astype(np.int64)
    g = np.unique(np.concatenate([point.gvectors, opposite]), axis=0)
    place = {tuple(row): k for k, row in enumerate(g.tolist())}
    at = np.array([place[tuple(row)] for row in point.gvectors.tolist()])
    mirrored = np.array([place[tuple(row)] for row in opposite.tolist()])
    out = []
    # Bands of a level mix freely: only their span has a meaning, so that all of them are made
    # real together.
    for level in _levels(energies[order]):
        members = order[level]
        c = np.zeros((len(members), len(g)), np.complex128)
        d = np.zeros_like(c)
        c[:, at] = point.coefficients[spin, members]
        d[:, mirrored] = point.coefficients[spin, members].conj()
        # Real part (psi + psi*) / 2 and imaginary part (psi - psi*) / 2i of each band: twice
        # as many functions as the level has.
        both = np.concatenate([0.5 * (c + d), -0.5j * (c - d)])
        as_real = np.concatenate([both.real, both.imag], axis=1)
        # As real vectors, so that combinations have real coefficients.
        _, size, vectors = np.linalg.svd(as_real, full_matrices=False)
        if size[len(members) - 1] < RANK * size[0]:
            raise InvalidInput(
                "wavefunction.orbitals",
                f"{len(members)} bands near {energies[members[0]]:.6g} hartree at k = {_words(point.kappa)} give only "
                f"{int((size > RANK * size[0]).sum())} real orbitals: the bands are linearly dependent",
            )
        n = len(g)
        for k, b in enumerate(members):
            made = vectors[k, :n] + 1j * vectors[k, n:]
            made = made / np.linalg.norm(made)
            kinetic = point.kinetic_of(spin, members)
            out.append(Function(point.kappa, g, made, 1, float(energies[b]), kinetic))
    return out


def _levels(ascending: NDArray[np.float64]) -> list[NDArray[np.int64]]:
    """Return the places of energies that are one level."""
    cuts = np.flatnonzero(np.diff(ascending) > SAME_LEVEL) + 1
    return [np.asarray(part, np.int64) for part in np.split(np.arange(len(ascending)), cuts) if len(part)]


def _lowest(functions: list[Function], count: int, real: bool, origin: str) -> list[Function]:
    """Return the first functions that hold `count` electrons of one spin."""
    kept, held = [], 0
    for function in functions:
        if held >= count:
            break
        kept.append(function)
        # Real determinants: real and imaginary part of a function are two orbitals.
        held += function.parts if real else 1
    if held < count:
        raise InvalidInput(
            "wavefunction.orbitals",
            f"{count} electrons of one spin need as many orbitals; {origin} has {held} in this supercell",
        )
    return kept


def _warn_of_open_shell(functions: Iterable[Function], count: int, real: bool, notes: list[str]) -> None:
    """Warn if a level is partly filled."""
    energies = [f.energy for f in functions for _ in range(f.parts if real else 1)]
    # The next orbital has the same energy as the last one that is filled.
    if 0 < count < len(energies) and energies[count] - energies[count - 1] < DEGENERATE:
        notes.append(
            f"{count} electrons of one spin fill the level at {energies[count - 1]:.6g} hartree only partly; which of its "
            "orbitals are occupied is arbitrary, and the determinant breaks the symmetry of the crystal: other numbers of "
            "electrons or another twist have closed shells"
        )


def occupied_waves(
    cell: Cell, twist: NDArray[np.float64], counts: tuple[int, int], notes: list[str]
) -> list[list[Function]]:
    """Return the plane waves of lowest kinetic energy of a cell, for the electron gas; parameters as `occupied_bands`."""
    real = is_real_twist(twist)
    count = max(counts)
    B = cell.reciprocal
    # A growing ball in reciprocal space, until it holds more waves than the lowest ones that
    # are needed.
    reach, waves = 1.0, np.zeros((0, 3))
    edge = float(np.linalg.norm(B, axis=1).min())  # of long cells, waves along them are the lowest
    while len(waves) < 2 * count + 60:  # enough that none of the lowest is missing
        reach *= 1.3
        inverse = np.linalg.inv(B)
        # Numbers of reciprocal vectors that can lie in the ball, also of a skewed cell.
        most = [int(np.ceil(reach * edge * np.linalg.norm(inverse[:, d]))) + 1 for d in range(3)]
        m = np.stack(np.meshgrid(*[np.arange(-x, x + 1) for x in most], indexing="ij"), -1).reshape(-1, 3)
        k = (m + twist) @ B
        waves = k[(k**2).sum(1) <= (reach * edge) ** 2]
    # A fixed order of waves of one energy, whatever the rounding of their squares.
    waves = waves[np.lexsort((*np.round(waves.T, 9), np.round((waves**2).sum(1), 9)))]
    functions: list[Function] = []
    one, origin = np.ones(1, np.complex128), np.zeros((1, 3), np.int64)
    for k in waves:
        energy = 0.5 * float(k @ k)
        # k = 0 is one real orbital; of k and -k one is taken, whose cosine and sine are two.
        if real and energy < 1e-12:
            functions.append(Function(np.zeros(3), origin, one, 1, 0.0))
        elif not real or tuple(np.round(k, 9)) > tuple(np.round(-k, 9)):
            functions.append(Function(k, origin, one, 2, energy))
    functions.sort(key=lambda f: round(f.energy, 9))
    for number in set(counts):
        _warn_of_open_shell(functions, number, real, notes)
    return [_lowest(functions, count, real, "the list of plane waves")]


# ------------------------------------------------------------------------------------------- splines


@dataclass(frozen=True)
class BlochOrbitals:
    """The orbitals of a supercell as kernels take them.

    Attributes
    ----------
    primitive
        Cell of the splines.
    supercell
        Cell of the walkers.
    atoms : (A, 3) float64
        Ions of the supercell, bohr.
    functions
        For one or two spins.
    real
        Whether determinants are real.
    waves
        Plane waves instead of splines.
    mesh
        Points of the splines along each axis.
    about
        What is known of their origin.
    tins
        Muffin tins of the mixed basis, within which splines are not used.
    """

    primitive: Cell
    supercell: Cell
    atoms: NDArray[np.float64]
    functions: list[list[Function]]
    real: bool
    waves: bool
    mesh: tuple[int, int, int] = (1, 1, 1)
    about: dict[str, Any] = field(default_factory=dict)
    tins: MuffinTins | None = None

    @property
    def centres(self) -> NDArray[np.float64]:
        """Positions of the ions, as of other orbitals."""
        return self.atoms

    def cusp(self, atom: int, occupied: tuple[int, int]) -> float:
        """Return 0: splines and plane waves are smooth at nuclei."""
        del atom, occupied
        return 0.0

    @property
    def channels(self) -> int:
        """Number of real functions of a point."""
        return max(sum(f.parts for f in spin) for spin in self.functions)

    @property
    def table_bytes(self) -> int:
        """Bytes of splines and muffin tins in double precision."""
        points = int(np.prod([n + PADDING for n in self.mesh]))
        tins = 0 if self.tins is None else int(self.tins.table.nbytes)
        return 0 if self.waves else 8 * points * self.channels * len(self.functions) + tins

    @cached_property
    def _table(self) -> NDArray[np.float64]:
        if self.waves:
            # Kernels of plane waves read no table.
            return np.zeros((1, 1 + PADDING, 1 + PADDING, 1 + PADDING, 1))
        shape = (len(self.functions), *(n + PADDING for n in self.mesh), self.channels)
        out = np.zeros(shape)
        for spin, functions in enumerate(self.functions):
            channel = 0
            for function in functions:
                # Channels lie innermost, so that the coefficients of all orbitals at a point
                # are one piece of memory.
                values = spline_coefficients(function, self.mesh)
                out[spin, ..., channel] = values.real
                if function.parts == 2:
                    out[spin, ..., channel + 1] = values.imag
                channel += function.parts
        return out

    def tables(self, real: DTypeLike = np.float64) -> CrystalOrbitals:
        """Return what kernels take, with splines and determinants in the given precision."""
        most = max(len(spin) for spin in self.functions)
        channel = np.zeros((len(self.functions), most), np.int64)
        parts = np.zeros_like(channel)
        kappa = np.zeros((len(self.functions), most, 3))
        for s, functions in enumerate(self.functions):
            sizes = [f.parts for f in functions]
            parts[s, : len(sizes)] = sizes
            channel[s, : len(sizes)] = np.cumsum([0, *sizes[:-1]])
            kappa[s, : len(sizes)] = [f.kappa for f in functions]
        owner = np.full((len(self.functions), self.channels), -1, np.int64)
        for s, functions in enumerate(self.functions):
            # The function of each channel, for lanes that work by channel.
            held = np.repeat(np.arange(len(functions)), parts[s, : len(functions)])
            owner[s, : len(held)] = held
        cell = self.supercell
        single = np.dtype(real) == np.float32
        # Determinants have the precision of the splines.
        kind: DTypeLike = real
        if not self.real:
            kind = np.complex64 if single else np.complex128
        tins = NO_TINS if self.tins is None else self.tins
        return CrystalOrbitals(
            atom=np.ascontiguousarray(self.atoms, np.float64),
            reduced=np.ascontiguousarray(cell.reduced),
            unreduce=np.ascontiguousarray(np.linalg.inv(cell.reduced)),
            near=np.ascontiguousarray(cell.near),
            radius2=cell.radius**2,
            primitive=np.ascontiguousarray(self.primitive.inverse),
            metric=np.ascontiguousarray(self.primitive.inverse.T @ self.primitive.inverse),
            table=np.ascontiguousarray(self._table, dtype=real),
            channel=channel,
            parts=parts,
            kappa=kappa,
            is_wave=int(self.waves),
            has_phase=int(bool(np.abs(kappa).max(initial=0.0) > 1e-12)),
            is_complex=int(not self.real),
            unit=np.array([1.0, 0.0 if self.real else 1.0j]).astype(kind),
            tin_centre=tins.centres,
            tin_near=tins.near,
            tin_reduced=np.ascontiguousarray(self.primitive.reduced),
            tin_unreduce=np.ascontiguousarray(np.linalg.inv(self.primitive.reduced)),
            tin_inner=tins.inner,
            tin_outer=tins.outer,
            tin_lmax=tins.lmax,
            tin_table=np.ascontiguousarray(tins.table, dtype=real),
            owner=owner,
        )

    # ----------------------------------------------------------------------------- evaluation

    def _channels_to_orbitals(self, values: NDArray[np.complex128], spin: int, count: int) -> NDArray[Any]:
        """Return the first orbitals from the values (..., functions) of complex functions."""
        if not self.real:
            return values[..., :count]
        columns = []
        for p, function in enumerate(self.functions[min(spin, len(self.functions) - 1)]):
            columns.append(values[..., p].real)
            if function.parts == 2:
                columns.append(values[..., p].imag)
        return np.stack(columns, -1)[..., :count]

    def rows(self, points: NDArray[np.float64], spin: int, *, exact: bool = False) -> NDArray[Any]:
        """Return values, gradients and Laplacians of the orbitals of a spin at points (n, 3): (n, 5, M).

        Parameters
        ----------
        points : (n, 3) float64
            Bohr.
        spin
            0 or 1.
        exact
            Sum plane waves instead of splines.
        """
        found = self.by_function(points, spin, exact=exact)
        functions = self.functions[min(spin, len(self.functions) - 1)]
        total = sum(f.parts for f in functions) if self.real else len(functions)
        return self._channels_to_orbitals(found, spin, total)

    def by_function(
        self, points: NDArray[np.float64], spin: int, *, exact: bool = False
    ) -> NDArray[np.complex128]:
        """Return values, gradients and Laplacians (n, 5, P) of complex functions; parameters as `rows`."""
        points = np.asarray(points, np.float64)
        which = min(spin, len(self.functions) - 1)
        functions = self.functions[which]
        found = np.empty((len(points), 5, len(functions)), np.complex128)
        # The reference of the kernels: plain sums of plane waves, or splines by NumPy.
        splines = None if exact or self.waves else self._splines(points, which)
        channel = 0
        for p, function in enumerate(functions):
            if exact or self.waves:
                k = (
                    function.kappa[None]
                    if self.waves
                    else (function.gvectors + function.kappa) @ self.primitive.reciprocal
                )
                phases = np.exp(1j * points @ k.T) * function.coefficients
                found[:, 0, p] = phases.sum(1)
                found[:, 1:4, p] = 1j * (phases @ k)
                found[:, 4, p] = -(phases @ (k**2).sum(1))
            elif splines is not None:
                values, cells = splines
                own = values[..., channel]
                if function.parts == 2:
                    # The spline is that of psi in one cell; the phase of the cell brings the
                    # others.
                    own = own + 1j * values[..., channel + 1]
                found[:, :, p] = own * np.exp(2j * np.pi * (cells @ function.kappa))[:, None]
            channel += function.parts
        if splines is not None and self.tins is not None:
            self.tins.blend(points, which, functions, found)
        return found

    def _splines(
        self, points: NDArray[np.float64], spin: int
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return values, gradients and Laplacians (n, 5, C) of all channels without their phases, and the cells (n, 3)."""
        inverse = self.primitive.inverse
        u = points @ inverse
        cells = np.floor(u)
        n = np.array(self.mesh)
        x = (u - cells) * n
        i = np.minimum(x.astype(np.int64), n - 1)
        t = x - i
        s = 1.0 - t
        # Basis functions of cubic B-splines and their derivatives by u, as in
        # `bloch_cpu.spline_weights`.
        w = np.stack(
            [
                np.stack([s**3, 3 * t**3 - 6 * t**2 + 4, 3 * s**3 - 6 * s**2 + 4, t**3], -1) / 6.0,
                n[:, None] * np.stack([-(s**2), 3 * t**2 - 4 * t, 4 * s - 3 * s**2, t**2], -1) / 2.0,
                n[:, None] ** 2 * np.stack([s, 3 * t - 2, 3 * s - 2, t], -1),
            ]
        )  # (derivative, point, axis, 4)
        offsets = np.arange(4)
        block = self._table[
            spin,
            (i[:, 0, None] + offsets)[:, :, None, None],
            (i[:, 1, None] + offsets)[:, None, :, None],
            (i[:, 2, None] + offsets)[:, None, None, :],
        ]

        def derivative(a: int, b: int, d: int) -> NDArray[np.float64]:
            return np.asarray(np.einsum("nijkc,ni,nj,nk->nc", block, w[a, :, 0], w[b, :, 1], w[d, :, 2]))

        order = np.eye(3, dtype=int)
        g = np.stack([derivative(*order[a]) for a in range(3)], 1)
        # All second derivatives; the metric makes the Laplacian of them.
        h = np.array([[derivative(*(order[a] + order[b])) for b in range(3)] for a in range(3)])
        laplacian = np.einsum("ab,abnc->nc", inverse.T @ inverse, h)
        value = derivative(0, 0, 0)
        return np.concatenate(
            [value[:, None], np.einsum("xa,nac->nxc", inverse, g), laplacian[:, None]], 1
        ), cells

    def occupied(self, counts: tuple[int, int]) -> Iterator[tuple[int, int, int]]:
        """Yield the functions that electrons fill: spin and place in `functions`, and by how many electrons."""
        for electrons, count in enumerate(counts):
            spin, held = min(electrons, len(self.functions) - 1), 0
            for p, function in enumerate(self.functions[spin]):
                # Orbitals that are filled count, with both of their channels.
                number = max(0, min(count - held, function.parts if self.real else 1))
                held += number
                yield spin, p, number

    def spline_error(self, counts: tuple[int, int]) -> float:
        """Return by how much the splines change the kinetic energy of the determinant, hartree."""
        return (
            0.0 if self.waves else self._summed(counts, lambda f: kinetic_error(f, self.mesh, self.primitive))
        )

    def cutoff_error(self, counts: tuple[int, int]) -> float:
        """Return by how much plane waves beyond the cutoff change the kinetic energy of the determinant, hartree."""
        return self._summed(counts, lambda f: f.kinetic_lost(self.primitive))

    def _summed(self, counts: tuple[int, int], each: Callable[[Function], float]) -> float:
        return sum(n * each(self.functions[s][p]) for s, p, n in self.occupied(counts) if n)
