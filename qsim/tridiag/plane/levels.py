"""Lowest levels of two coordinates on their very lattice: block Davidson (E. R. Davidson, J. Comput. Phys. 17, 87 (1975)).

The correction of a residual is ``(e_i + f_j - E)^-1 r`` in the eigenstates of either coordinate in the potential that it feels
while the other one rests.  Where the potential is a function of both, which no sum of two is close to, it is the solution of
``(H_3 - E_0 + shift) c = r`` with the kinetic energy H_3 of three points, whose matrix is factorised once.  Levels are looked for
on a part of the lattice about the bottom of the potential, which grows until they have died out at its edges.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from qsim.core.errors import NumericsError
from qsim.tridiag.plane.lattice import RadialAxis

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from qsim.core.device.arrays import Array
    from qsim.tridiag.plane.lattice import PlaneLattice

__all__ = ["Levels", "Operator", "lowest", "part_of"]

# bohr: half width of the first part of the lattice along an axis of mass 1
FIRST = 14.0
GROWTH = 1.5
# most points of a part along an axis: dense matrices of that size
MOST = 640
# amplitude at the edge of a part, relative to the largest, that counts as none, and that is tolerated on the largest part
DEAD, TOLERATED = 1e-7, 1e-4
# residual, relative to the energies in the part where the level lives, that ends the search
RESIDUAL = 1e-10
# levels beyond those wanted that are improved with them
GUARDS = 3
# blocks that the space holds before it begins anew from its lowest states
BLOCKS = 8
ITERATIONS = 300
# hartree: a denominator of the preconditioner is not smaller
SHIFT = 0.05
# iterations without progress that end the search
PATIENCE = 12
# residual up to which a search that makes no progress has reached rounding
ROUNDED = 1e-7
# hartree, relative above one: levels that are closer count as degenerate
ALIKE = 1e-6


@dataclass(frozen=True)
class Levels:
    """Levels on a part of the lattice, beyond which they are zero.

    Attributes
    ----------
    energies : (k,) float64
        Hartree, ascending.
    residuals : (k,) float64
        ``|H psi - E psi|``, hartree.
    states : (k, m1, m2) float64, or complex128 in a magnetic field or a frame that rotates
        ``sum |psi|^2 h1 h2 = 1``; the largest amplitude is positive.
    part : (slice, slice)
        Points of the part.
    above : float
        About the energy of the next level, as the search has left it.
    """

    energies: NDArray[np.float64]
    residuals: NDArray[np.float64]
    states: NDArray[Any]
    part: tuple[slice, slice]
    above: float = math.inf

    def alike(self, level: int) -> bool:
        """Return True if another level is so close that any combination of both may have been found."""
        apart = np.abs(np.delete(np.append(self.energies, self.above), level) - self.energies[level])
        return bool(apart.min() <= ALIKE * max(1.0, abs(float(self.energies[level]))))

    def whole(self, level: int, shape: tuple[int, int]) -> NDArray[Any]:
        """Return a state on all points of the lattice, (n1, n2)."""
        out = np.zeros(shape, self.states.dtype)
        out[self.part] = self.states[level]
        return out

    def populations(self, psi: Array, states: Array, cell: float) -> list[float]:
        """Return ``|<k|psi>|^2`` of a state (n1, n2); `states`: those of the levels beside psi, `cell`: area, bohr^2."""
        part = psi[self.part].reshape(-1)
        flat = states.reshape(len(self.energies), -1)
        # most states are real
        whole = flat.dtype.kind == "c"
        amplitudes = (flat.conj() @ part if whole else flat @ part.real + 1j * (flat @ part.imag)) * cell
        return [float(one) for one in abs(amplitudes) ** 2]


def lowest(lattice: PlaneLattice, count: int) -> Levels:
    """Return the lowest levels of the lattice, of its exchange symmetry.

    Raises
    ------
    NumericsError
        If there are fewer, they do not converge, or one spreads over more than `MOST` points of a coordinate.
    """
    v = lattice.potential()
    bottom = np.unravel_index(int(np.argmin(v)), v.shape)
    if lattice.exchange:
        # the part must hold both coordinates alike
        middle = (int(bottom[0]) + int(bottom[1])) // 2
        bottom = (np.intp(middle), np.intp(middle))
    reach, found = FIRST, None
    while True:
        part = part_of(lattice, (int(bottom[0]), int(bottom[1])), reach)
        found = _search(lattice, part, v[part], count, found)
        edges = _edges(lattice, found)
        whole = all(one.stop - one.start in (n, MOST) for one, n in zip(part, lattice.shape, strict=True))
        if edges <= DEAD or (whole and edges <= TOLERATED):
            return found
        if whole:
            raise NumericsError(
                f"level {count - 1} spreads over more than {MOST} points of a coordinate (amplitude {edges:.1g} at the edge)",
                hint="it is hardly bound: ask for lower levels, or take a smaller or coarser grid",
            )
        reach *= GROWTH


def part_of(lattice: PlaneLattice, centre: tuple[int, int], reach: float) -> tuple[slice, slice]:
    """Return the points within a reach, scaled with the mass, of a point; at most `MOST` along an axis."""
    parts = []
    for axis, middle in zip(lattice.axes, centre, strict=True):
        half = int(reach / np.sqrt(axis.mass) ** 0.5 / axis.spacing) + 8
        size = min(2 * half + 1, axis.points, MOST)
        # the part of a radius begins at its axis
        low = 0 if isinstance(axis, RadialAxis) else min(max(middle - size // 2, 0), axis.points - size)
        parts.append(slice(low, low + size))
    return parts[0], parts[1]


def _edges(lattice: PlaneLattice, found: Levels) -> float:
    """Return the largest amplitude at the edges of the part that are no walls, relative to the largest of all."""
    out = 0.0
    for number, (part, n) in enumerate(zip(found.part, lattice.shape, strict=True)):
        for index, wall in ((0, part.start == 0), (-1, part.stop == n)):
            if not wall:
                line = np.take(found.states, index, axis=number + 1)
                out = max(
                    out, float((np.abs(line).max(axis=1) / np.abs(found.states).max(axis=(1, 2))).max())
                )
    return out


class Operator:
    """H on a part of the lattice, its symmetry, and its preconditioner."""

    _factors: Any = None

    def __init__(self, lattice: PlaneLattice, part: tuple[slice, slice], v: NDArray[np.float64]) -> None:
        self.exchange = lattice.exchange
        # in a magnetic field, or a frame that rotates, each coordinate has its gauge: H works there, its preconditioner at rest
        turned = lattice.gauge if lattice.turns else ()
        self.gauges = [
            lattice.phases(one if number == 0 else -one)[part] for number, one in enumerate(turned)
        ]
        self.potential = v
        self.v = v = v + lattice.diamagnetic(part)
        self.axes = [
            replace(axis, points=one.stop - one.start) for axis, one in zip(lattice.axes, part, strict=True)
        ]
        self.kinetic = [axis.kinetic() for axis in self.axes]
        self.coupled = lattice.table is not None
        # either coordinate feels the other at rest where its own potential is lowest
        rest = [int(np.argmin(v.min(axis=1))), int(np.argmin(v.min(axis=0)))]
        if self.exchange:
            middle = v.shape[0] // 2
            own = lattice.first[part[0]]
            rest = [int(np.argmin(own))] * 2 if np.ptp(own) > 0.0 else [middle, middle]
        felt = [v[:, rest[1]], v[rest[0], :] - v[rest[0], rest[1]]]
        if self.exchange:
            shared = felt[0] - 0.5 * v[rest[0], rest[1]]
            felt = [shared, shared]
        found = [np.linalg.eigh(t + np.diag(u)) for t, u in zip(self.kinetic, felt, strict=True)]
        self.sums = found[0][0][:, None] + found[1][0]
        self.turns = [one[1] for one in found]

    @property
    def size(self) -> int:
        """Number of states of the symmetry."""
        n = self.v.shape[0]
        return n * (n + self.exchange) // 2 if self.exchange else self.v.size

    def symmetrised(self, x: NDArray[Any]) -> NDArray[Any]:
        """Return the part of functions (k, m1, m2) that has the exchange symmetry."""
        return 0.5 * (x + self.exchange * x.transpose(0, 2, 1)) if self.exchange else x

    def __call__(self, x: NDArray[Any]) -> NDArray[Any]:
        """Return H x of functions (k, m1, m2)."""
        return self.moving(x) + self.potential * x

    def moving(self, x: NDArray[Any]) -> NDArray[Any]:
        """Return the kinetic energy times functions (..., m1, m2)."""
        if not self.gauges:
            return np.asarray(self.kinetic[0] @ x + x @ self.kinetic[1])
        u, w = self.gauges
        return np.asarray(u.conj() * (self.kinetic[0] @ (u * x)) + w.conj() * ((w * x) @ self.kinetic[1]))

    def corrected(self, r: NDArray[Any], energies: NDArray[np.float64]) -> NDArray[Any]:
        """Return corrections of residuals (k, m1, m2)."""
        return (
            self.coupled_correction(r, float(energies[0]) - SHIFT)
            if self.coupled
            else self._by_sums(r, energies)
        )

    def coupled_correction(self, r: NDArray[Any], shift: float) -> NDArray[Any]:
        """Return ``(H_3 - shift)^-1 r`` of residuals (k, m1, m2); the shift of the first call stays."""
        self._factors = self._factors or self._factorised(shift)
        if np.iscomplexobj(r):
            both = self.coupled_correction(np.concatenate([r.real, r.imag]), shift)
            return np.asarray(both[: len(r)] + 1j * both[len(r) :])
        return np.asarray(self._factors.solve(r.reshape(len(r), -1).T).T.reshape(r.shape))

    def _by_sums(self, r: NDArray[Any], energies: NDArray[np.float64]) -> NDArray[Any]:
        """Return corrections of residuals (k, m1, m2) by the separable part of H."""
        a, b = self.turns
        gaps = self.sums - energies[:, None, None]
        gaps = np.where(np.abs(gaps) < SHIFT, SHIFT, gaps)
        return np.asarray(a @ ((a.T @ r @ b) / gaps) @ b.T)

    def _factorised(self, shift: float) -> Any:
        """Return the factors of H with three points in place of the stencil, less an energy."""
        from scipy.sparse import diags, eye, kron
        from scipy.sparse.linalg import splu

        first, second = (one.three_points() for one in self.axes)
        n, m = self.v.shape
        matrix = kron(first, eye(m)) + kron(eye(n), second) + diags(self.v.ravel() - shift)
        return splu(
            matrix.tocsc(), permc_spec="MMD_AT_PLUS_A", diag_pivot_thresh=0.0, options={"SymmetricMode": True}
        )

    def guesses(self, count: int, smaller: NDArray[Any]) -> NDArray[Any]:
        """Return levels of a smaller part, and products of states of both coordinates with a little of all others."""
        order = np.argsort(self.sums, axis=None)
        pairs = np.array(np.unravel_index(order, self.sums.shape)).T
        if self.exchange:
            pairs = np.array(
                [(i, j) for i, j in pairs[: 4 * count + 16] if i < j or (i == j and self.exchange > 0)]
            )
        a, b = self.turns
        first = np.array([np.outer(a[:, i], b[:, j]) for i, j in pairs[:count]])
        rng = np.random.Generator(np.random.PCG64(20240301))
        other = self._by_sums(rng.standard_normal(first.shape), self.sums.min() - np.ones(len(first)))
        return np.concatenate([smaller, self.symmetrised(first + 1e-3 * other / np.linalg.norm(other))])


def _search(
    lattice: PlaneLattice,
    part: tuple[slice, slice],
    v: NDArray[np.float64],
    count: int,
    smaller: Levels | None,
) -> Levels:
    """Return levels on a part of the lattice, by those of a smaller part; errors as of `lowest`."""
    h = Operator(lattice, part, v)
    if count > h.size:
        raise NumericsError(f"the lattice has {h.size} states of this symmetry, no level {count - 1}")
    block = min(count + GUARDS, h.size)
    known = np.zeros((0, *v.shape))
    if smaller is not None:
        known = np.array([smaller.whole(k, lattice.shape)[part] for k in range(count)])
    space = _orthonormal(h.guesses(block, known).astype(complex if lattice.turns else float), None)
    products = h(space)
    best, since = np.inf, 0
    shape = v.shape
    for _ in range(ITERATIONS):
        flat, applied = space.reshape(len(space), -1), products.reshape(len(space), -1)
        matrix = flat.conj() @ applied.T
        values, weights = np.linalg.eigh(0.5 * (matrix + matrix.T.conj()))
        kept = weights[:, :block].T
        x = (kept @ flat).reshape(-1, *shape)
        r = (kept @ applied).reshape(-1, *shape) - values[: len(x), None, None] * x
        residuals = np.linalg.norm(r.reshape(len(x), -1), axis=1)
        worst = float(residuals[:count].max()) if len(x) >= count else np.inf
        goal = RESIDUAL * max(1.0, abs(float(values[0])))
        best, since = (worst, 0) if worst < 0.9 * best else (best, since + 1)
        if worst <= goal or (since >= PATIENCE and worst < ROUNDED * max(1.0, abs(float(values[0])))):
            found = _levels(lattice, part, values[:count], residuals[:count], x[:count])
            return replace(found, above=float(values[count])) if count < len(values) else found
        if len(space) + block > BLOCKS * block:
            first = weights[:, : 3 * block].T
            space = (first @ flat).reshape(-1, *shape)
            products = (first @ applied).reshape(-1, *shape)
        open_ = np.flatnonzero(residuals > np.where(np.arange(len(x)) < count, goal, 1e-4))
        new = h.symmetrised(h.corrected(r[open_], values[open_]))
        new = _orthonormal(new, space)
        if not len(new):
            break
        space, products = np.concatenate([space, new]), np.concatenate([products, h(new)])
    raise NumericsError(
        f"the search for {count} levels stopped at a residual of {best:.1e} hartree",
        hint="the grid may be too coarse for the potential, or the levels hardly bound",
    )


def _levels(
    lattice: PlaneLattice,
    part: tuple[slice, slice],
    energies: NDArray[np.float64],
    residuals: NDArray[np.float64],
    x: NDArray[Any],
) -> Levels:
    """Return levels with the norm of functions and a sign."""
    flat = x.reshape(len(x), -1)
    largest = flat[np.arange(len(x)), np.abs(flat).argmax(axis=1)]
    signs = np.abs(largest) / largest
    return Levels(energies, residuals, x * signs[:, None, None] / np.sqrt(lattice.cell), part)


def _orthonormal(new: NDArray[Any], space: NDArray[Any] | None) -> NDArray[Any]:
    """Return an orthonormal basis of functions (k, m1, m2) outside of a space; directions that are not new are dropped."""
    shape = new.shape[1:]
    flat = new.reshape(len(new), -1)
    flat = flat / np.linalg.norm(flat, axis=1)[:, None]
    # twice: the first pass leaves rounding of the size of what it removes
    for _ in range(2):
        if space is not None:
            old = space.reshape(len(space), -1)
            flat = flat - (flat @ old.conj().T) @ old
        sizes, turns = np.linalg.eigh(flat @ flat.conj().T)
        kept = sizes > 1e-20
        flat = (turns[:, kept] / np.sqrt(sizes[kept])).conj().T @ flat
    return np.asarray(flat.reshape(-1, *shape))
